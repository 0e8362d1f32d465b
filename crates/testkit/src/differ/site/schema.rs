//! What each client of a program has for itself: two schemas, with tables, views, routines, triggers and a sequence.
//!
//! The routines set state of every kind. A proxy that reads only statements does not see this state. A proxy that also
//! reads which routine a statement calls does not see the state that the [`HIDDEN`] ones set.

use crate::differ::program::Brand;

/// The statements that make a client's schemas anew. Numbers that the server makes there begin with `first`: a number
/// of another client's is then seen to be one.
pub(super) fn statements(brand: Brand, schema: &str, first: usize) -> Vec<String> {
    let only = match brand {
        Brand::MariaDb => MARIADB,
        Brand::MySql => &[],
    };
    let all = BOTH.iter().chain(HIDDEN).chain(only);
    all.map(|it| it.replace("{s}", schema).replace("{first}", &first.to_string())).collect()
}

/// A crowd makes them itself.
pub(super) const OF_CROWDS: &[&str] =
    &["DROP DATABASE IF EXISTS dcrowd", "DROP DATABASE IF EXISTS dcrowdb"];

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

/// Objects of the second schema, which clients reach from the first.
const HIDDEN: &[&str] = &[
    "CREATE FUNCTION {s}b.h_set(x INT) RETURNS INT NO SQL BEGIN SET @h = x; RETURN x; END",
    "CREATE FUNCTION {s}b.h_pure(x INT) RETURNS INT DETERMINISTIC RETURN x * 2",
    "CREATE FUNCTION {s}b.h_nest(x INT) RETURNS INT NO SQL RETURN {s}b.h_set(x) + 1",
    "CREATE FUNCTION {s}b.h_temp() RETURNS INT MODIFIES SQL DATA BEGIN \
     CREATE TEMPORARY TABLE IF NOT EXISTS {s}b.ht (i INT); INSERT INTO {s}b.ht VALUES (1); RETURN 1; END",
    "CREATE FUNCTION {s}b.h_variable() RETURNS INT NO SQL BEGIN SET max_sort_length = 33; RETURN 1; END",
    "CREATE FUNCTION {s}b.h_unscoped() RETURNS INT NO SQL BEGIN SET @@max_sort_length = 34; RETURN 1; END",
    "CREATE FUNCTION {s}b.h_into() RETURNS INT READS SQL DATA BEGIN SELECT 9 INTO @h; RETURN 1; END",
    "CREATE FUNCTION {s}b.h_fail(x INT) RETURNS INT NO SQL BEGIN SET @h = x; \
     IF x > 2 THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'more than two'; END IF; RETURN x; END",
    "CREATE FUNCTION {s}b.h_cursor() RETURNS INT READS SQL DATA BEGIN DECLARE x, total INT DEFAULT 0; \
     DECLARE done INT DEFAULT 0; DECLARE c CURSOR FOR SELECT id FROM {s}b.t; \
     DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1; OPEN c; \
     REPEAT FETCH c INTO x; SET total = total + x; UNTIL done END REPEAT; CLOSE c; RETURN total; END",
    "CREATE FUNCTION {s}b.h_handler() RETURNS INT READS SQL DATA BEGIN DECLARE x INT; \
     DECLARE CONTINUE HANDLER FOR NOT FOUND SET @h = -1; SELECT id INTO x FROM {s}b.t WHERE id = 0; \
     RETURN 1; END",
    "CREATE FUNCTION {s}b.h_where() RETURNS CHAR(40) NO SQL RETURN DATABASE()",
    "CREATE VIEW {s}b.vh_set AS SELECT {s}b.h_set(5) AS x",
    "CREATE VIEW {s}b.vh_pure AS SELECT {s}b.h_pure(5) AS x",
    "CREATE VIEW {s}b.vh_nest AS SELECT {s}b.h_nest(6) AS x",
    "CREATE VIEW {s}b.vh_deep AS SELECT x + 1 AS x FROM {s}b.vh_nest",
    "CREATE VIEW {s}b.vh_temp AS SELECT {s}b.h_temp() AS x",
    "CREATE VIEW {s}b.vh_variable AS SELECT {s}b.h_variable() AS x",
    "CREATE VIEW {s}b.vh_unscoped AS SELECT {s}b.h_unscoped() AS x",
    "CREATE VIEW {s}b.vh_into AS SELECT {s}b.h_into() AS x",
    "CREATE VIEW {s}b.vh_rows AS SELECT id, {s}b.h_set(id) AS x FROM {s}.t",
    "CREATE VIEW {s}b.vh_where AS SELECT id FROM {s}.t WHERE {s}b.h_set(id) > 2",
    "CREATE VIEW {s}b.vh_fail AS SELECT {s}b.h_fail(id) AS x FROM {s}.t WHERE id < 5",
    "CREATE VIEW {s}b.vh_cursor AS SELECT {s}b.h_cursor() AS x",
    "CREATE VIEW {s}b.vh_lock AS SELECT GET_LOCK('{s}_view', 0) AS x",
    "CREATE VIEW {s}b.vh_id AS SELECT LAST_INSERT_ID(4711) AS x",
    "CREATE VIEW {s}b.vh_who AS SELECT CURRENT_USER() AS me",
    "CREATE SQL SECURITY INVOKER VIEW {s}b.vh_invoker AS SELECT {s}b.h_set(7) AS x, CURRENT_USER() AS me",
    "CREATE VIEW {s}.hv_own AS SELECT {s}.f_set(8) AS x",
    "CREATE VIEW {s}.hv_other AS SELECT {s}b.h_set(9) AS x",
    "CREATE TABLE {s}b.hl (id INT AUTO_INCREMENT PRIMARY KEY, a INT) ENGINE=InnoDB \
     AUTO_INCREMENT={first}100",
    "CREATE TABLE {s}b.hk (id INT AUTO_INCREMENT PRIMARY KEY, a INT) ENGINE=InnoDB \
     AUTO_INCREMENT={first}200",
    "CREATE TABLE {s}b.hs (id INT AUTO_INCREMENT PRIMARY KEY, a INT NOT NULL) ENGINE=InnoDB",
    "CREATE TABLE {s}.hx (id INT AUTO_INCREMENT PRIMARY KEY, a INT) ENGINE=InnoDB",
    "CREATE TRIGGER {s}b.hl_before BEFORE INSERT ON {s}b.hl FOR EACH ROW \
     SET @chain = COALESCE(@chain, 0) + 1",
    "CREATE TRIGGER {s}b.hk_before BEFORE INSERT ON {s}b.hk FOR EACH ROW SET @h = NEW.a",
    "CREATE TRIGGER {s}b.hk_after AFTER INSERT ON {s}b.hk FOR EACH ROW \
     INSERT INTO {s}b.hl (a) VALUES (NEW.a)",
    "CREATE TRIGGER {s}b.hk_update BEFORE UPDATE ON {s}b.hk FOR EACH ROW SET NEW.a = {s}b.h_set(NEW.a)",
    "CREATE TRIGGER {s}b.hk_delete BEFORE DELETE ON {s}b.hk FOR EACH ROW SET @h = {s}b.h_temp()",
    "CREATE TRIGGER {s}b.hs_before BEFORE INSERT ON {s}b.hs FOR EACH ROW SET @h = 3",
    "CREATE TRIGGER {s}.hx_before BEFORE INSERT ON {s}.hx FOR EACH ROW \
     INSERT INTO {s}b.hl (a) VALUES (NEW.a)",
    "CREATE PROCEDURE {s}b.hp_set(x INT) SET @h = x",
    "CREATE PROCEDURE {s}b.hp_nest(x INT) CALL {s}b.hp_set(x + 1)",
    "CREATE PROCEDURE {s}b.hp_recursive(x INT) BEGIN SET @h = x; \
     IF x > 0 THEN CALL {s}b.hp_recursive(x - 1); END IF; END",
    "CREATE PROCEDURE {s}b.hp_results() BEGIN SELECT 1 AS first; SET @h = 4; SELECT 2 AS second; END",
    "CREATE PROCEDURE {s}b.hp_view() SELECT * FROM {s}b.vh_set",
    "CREATE PROCEDURE {s}b.hp_temp() CREATE TEMPORARY TABLE IF NOT EXISTS {s}b.hpt AS SELECT 8 AS eight",
    "CREATE PROCEDURE {s}b.hp_cursor() BEGIN DECLARE x INT; DECLARE c CURSOR FOR SELECT id FROM {s}.t \
     ORDER BY id; OPEN c; FETCH c INTO x; FETCH c INTO x; CLOSE c; SET @h = x; END",
    "CREATE PROCEDURE {s}b.hp_handler() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION SET @h = -2; \
     SELECT * FROM {s}b.absent; SELECT 'after' AS text; END",
    "CREATE PROCEDURE {s}b.hp_exit() BEGIN DECLARE EXIT HANDLER FOR SQLSTATE '45000' SET @h = -3; \
     CALL {s}b.hp_signal(); SET @h = 99; END",
    "CREATE PROCEDURE {s}b.hp_signal() SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'signalled'",
    "CREATE PROCEDURE {s}b.hp_warns() SIGNAL SQLSTATE '01000' SET MESSAGE_TEXT = 'warned'",
    "CREATE PROCEDURE {s}b.hp_diagnostics() BEGIN DECLARE CONTINUE HANDLER FOR SQLEXCEPTION \
     GET DIAGNOSTICS CONDITION 1 @h = MYSQL_ERRNO; SELECT * FROM {s}b.absent; END",
    "CREATE PROCEDURE {s}b.hp_invoker() SQL SECURITY INVOKER SELECT CURRENT_USER() AS me",
    "CREATE PROCEDURE {s}b.hp_definer() SQL SECURITY DEFINER SELECT CURRENT_USER() AS me",
    "CREATE PROCEDURE {s}b.hp_transaction() BEGIN START TRANSACTION; \
     INSERT INTO {s}b.hl (a) VALUES (1); COMMIT; END",
    "CREATE PROCEDURE {s}b.hp_prepared(x INT) BEGIN SET @h = x; PREPARE h_inner FROM 'SELECT @h + ?'; \
     EXECUTE h_inner USING @h; END",
    "CREATE PROCEDURE {s}b.hp_lock() DO GET_LOCK('{s}_procedure', 0)",
    "CREATE PROCEDURE {s}b.hp_out(OUT x INT) SET x = 6",
    "CREATE PROCEDURE {s}b.hp_schema() SELECT DATABASE()",
    "DROP USER IF EXISTS g{s}@'%'",
    "CREATE USER g{s}@'%'",
];

const MARIADB: &[&str] = &[
    "CREATE SEQUENCE {s}b.hq START WITH 500 INCREMENT BY 5",
    "CREATE VIEW {s}b.vh_sequence AS SELECT NEXTVAL({s}b.hq) AS x",
    "CREATE TABLE {s}b.hd (id BIGINT DEFAULT (NEXTVAL({s}b.hq)), b VARCHAR(20)) ENGINE=InnoDB",
    "CREATE PROCEDURE {s}b.hp_immediate(text VARCHAR(300)) EXECUTE IMMEDIATE text",
    "CREATE SEQUENCE {s}.q START WITH 100 INCREMENT BY 10",
    "CREATE PROCEDURE {s}.p_sequence() SELECT NEXTVAL({s}.q)",
    "CREATE PROCEDURE {s}.p_dynamic(text VARCHAR(200)) EXECUTE IMMEDIATE text",
    "CREATE PROCEDURE {s}.p_role() SET ROLE differ",
];
