//! What each client of a program has for itself: two schemas, with tables, views, routines, triggers and a sequence.
//!
//! The routines set state of every kind, out of sight of whoever reads statements only.

use crate::differ::program::Brand;

/// The statements that make a client's schemas anew. Numbers that the server makes there begin with `first`: a number
/// of another client's is then seen to be one.
pub(super) fn statements(brand: Brand, schema: &str, first: usize) -> Vec<String> {
    let only = match brand {
        Brand::MariaDb => MARIADB,
        Brand::MySql => &[],
    };
    let all = BOTH.iter().chain(only);
    all.map(|it| it.replace("{s}", schema).replace("{first}", &first.to_string())).collect()
}

const BOTH: &[&str] = &[
    "DROP DATABASE IF EXISTS {s}",
    "DROP DATABASE IF EXISTS {s}b",
    "DROP DATABASE IF EXISTS {s}c",
    "CREATE DATABASE {s} CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "CREATE DATABASE {s}b CHARACTER SET latin1",
    "CREATE TABLE {s}.t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(20), UNIQUE (a)) \
     ENGINE=InnoDB AUTO_INCREMENT={first}000",
    "INSERT INTO {s}.t VALUES (1, 10, 'one'), (2, 20, 'two'), (3, 30, 'three'), (4, 40, NULL), \
     (5, 50, 'Ünf')",
    "CREATE TABLE {s}.m (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(20)) ENGINE=MyISAM \
     AUTO_INCREMENT={first}300",
    "INSERT INTO {s}.m VALUES (1, 100, 'eins'), (2, 200, 'zwei')",
    "CREATE TABLE {s}.k (id INT AUTO_INCREMENT PRIMARY KEY, a INT NOT NULL) ENGINE=InnoDB \
     AUTO_INCREMENT={first}600",
    "CREATE TABLE {s}.w (d DATETIME, ts TIMESTAMP NULL, s TINYINT, c CHAR(3) NOT NULL) \
     ENGINE=InnoDB",
    "CREATE TABLE {s}b.t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(20)) ENGINE=InnoDB \
     AUTO_INCREMENT={first}800",
    "INSERT INTO {s}b.t VALUES (1, -1, 'other')",
    "CREATE VIEW {s}.v AS SELECT id, a FROM {s}.t WHERE a > 15",
    "CREATE TRIGGER {s}.k_before BEFORE INSERT ON {s}.k FOR EACH ROW \
     SET @trigger = COALESCE(@trigger, 0) + 1",
    "CREATE TRIGGER {s}.k_after AFTER INSERT ON {s}.k FOR EACH ROW \
     INSERT INTO {s}.m (a) VALUES (NEW.a)",
    "CREATE TRIGGER {s}.k_update BEFORE UPDATE ON {s}.k FOR EACH ROW SET max_sort_length = 64",
    "CREATE TRIGGER {s}.k_delete BEFORE DELETE ON {s}.k FOR EACH ROW \
     DO GET_LOCK('{s}_trigger', 0)",
    "CREATE PROCEDURE {s}.p_user(x INT) SET @p = x",
    "CREATE PROCEDURE {s}.p_variable() BEGIN SET SESSION group_concat_max_len = 77; \
     SET time_zone = '+05:00'; END",
    "CREATE PROCEDURE {s}.p_unscoped() BEGIN SET @@max_sort_length = 44; \
     SET @@sql_safe_updates = 1; END",
    "CREATE PROCEDURE {s}.p_temporary() CREATE TEMPORARY TABLE IF NOT EXISTS {s}.tp AS \
     SELECT 7 AS seven",
    "CREATE PROCEDURE {s}.p_lock(name VARCHAR(60)) DO GET_LOCK(name, 0)",
    "CREATE PROCEDURE {s}.p_begin() START TRANSACTION",
    "CREATE PROCEDURE {s}.p_commit() COMMIT",
    "CREATE PROCEDURE {s}.p_results() BEGIN SELECT 1 AS first; SELECT 2 AS second, 3 AS third; END",
    "CREATE PROCEDURE {s}.p_out(OUT x INT, INOUT y INT) BEGIN SET x = 5; SET y = y + 1; END",
    "CREATE PROCEDURE {s}.p_warn() SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'beware'",
    "CREATE PROCEDURE {s}.p_fail() SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'failed'",
    "CREATE PROCEDURE {s}.p_insert(x VARCHAR(20)) INSERT INTO {s}.t (b) VALUES (x)",
    "CREATE PROCEDURE {s}.p_found() SELECT SQL_CALC_FOUND_ROWS id FROM {s}.t ORDER BY id LIMIT 1",
    "CREATE PROCEDURE {s}.p_isolation() SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "CREATE PROCEDURE {s}.p_prepare() PREPARE inner_one FROM 'SELECT 11'",
    "CREATE PROCEDURE {s}.p_autocommit() SET autocommit = 0",
    "CREATE PROCEDURE {s}.p_names() SET NAMES latin1",
    "CREATE PROCEDURE {s}.p_id() DO LAST_INSERT_ID(4711)",
    "CREATE PROCEDURE {s}.p_nothing() BEGIN END",
    "CREATE PROCEDURE {s}.p_count() SELECT ROW_COUNT()",
    "CREATE FUNCTION {s}.f_set(x INT) RETURNS INT NO SQL BEGIN SET @f = x; RETURN x; END",
    "CREATE FUNCTION {s}.f_lock(name VARCHAR(60)) RETURNS INT NO SQL RETURN GET_LOCK(name, 0)",
    "CREATE FUNCTION {s}.f_variable() RETURNS INT NO SQL BEGIN SET max_sort_length = 32; \
     RETURN 1; END",
    "CREATE FUNCTION {s}.f_id(x INT) RETURNS INT NO SQL RETURN LAST_INSERT_ID(x)",
    "CREATE FUNCTION {s}.f_insert(x INT) RETURNS INT MODIFIES SQL DATA BEGIN \
     INSERT INTO {s}.k (a) VALUES (x); RETURN LAST_INSERT_ID(); END",
    "CREATE FUNCTION {s}.f_pure(x INT) RETURNS INT DETERMINISTIC RETURN x + 1",
];

const MARIADB: &[&str] = &[
    "CREATE SEQUENCE {s}.q START WITH 100 INCREMENT BY 10",
    "CREATE PROCEDURE {s}.p_sequence() SELECT NEXTVAL({s}.q)",
    "CREATE PROCEDURE {s}.p_dynamic(text VARCHAR(200)) EXECUTE IMMEDIATE text",
    "CREATE PROCEDURE {s}.p_role() SET ROLE differ",
];
