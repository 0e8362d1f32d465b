//! What the clients of a crowd say ([`crate::differ::crowd`]): all are in one schema, and read the same tables.
//!
//! Braces are those of [`super`], and `{own}`, a number of the client's own; `{ask}` stands for what the crowd asks.
//! Invariants: whatever is written leaves what others are answered as it is, whether it comes before or after; a client
//! keeps no backend from one time that the crowd asks to the next.

/// What the first client makes before the others begin.
pub(in crate::differ) const SETUP: &[&str] = &[
    "DROP DATABASE IF EXISTS dcrowd",
    "DROP DATABASE IF EXISTS dcrowdb",
    "CREATE DATABASE dcrowd CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "CREATE DATABASE dcrowdb CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "CREATE TABLE dcrowd.t (id INT PRIMARY KEY, a INT, b VARCHAR(20), d DATETIME(3), s TIMESTAMP NULL, \
     x DECIMAL(10,3), y DOUBLE, z BLOB, KEY (a)) ENGINE=InnoDB",
    "INSERT INTO dcrowd.t VALUES (1, 10, 'one', '2020-01-02 03:04:05.678', '2020-01-02 03:04:05', 1.5, 0.25, 'z'), \
     (2, 20, 'two', NULL, NULL, NULL, NULL, NULL), (3, 30, 'Ünf', '1999-12-31', '1999-12-31', -7, -1e100, ''), \
     (4, 40, '4four', '2020-02-29', '2020-02-29', 0, 0, 0x00ff)",
    "CREATE TABLE dcrowdb.t (id INT PRIMARY KEY, a INT, b VARCHAR(20)) ENGINE=InnoDB",
    "INSERT INTO dcrowdb.t VALUES (1, -1, 'other'), (7, -7, 'more')",
    "CREATE TABLE dcrowd.m (id INT PRIMARY KEY, v BIGINT) ENGINE=MyISAM",
    "INSERT INTO dcrowd.m VALUES (1, 100), (2, 100), (3, 100)",
    "CREATE TABLE dcrowd.sums (id INT PRIMARY KEY, v BIGINT) ENGINE=InnoDB",
    "INSERT INTO dcrowd.sums VALUES (1, 100), (2, 100), (3, 100)",
    "CREATE TABLE dcrowd.j (id INT PRIMARY KEY) ENGINE=InnoDB",
    "INSERT INTO dcrowd.j VALUES (1000)",
    "CREATE TABLE dcrowd.own (id INT PRIMARY KEY, v INT) ENGINE=InnoDB",
    "CREATE VIEW dcrowd.v AS SELECT id, a FROM dcrowd.t WHERE a > 15",
    "CREATE SQL SECURITY INVOKER VIEW dcrowd.v_mine AS SELECT id, CURRENT_USER() AS me FROM dcrowd.t",
];

/// What a crowd asks.
pub(in crate::differ) const ASKED: &[&str] = &[
    "SELECT * FROM t ORDER BY id",
    "SELECT id, b FROM t WHERE id = {1|2|3|9}",
    "SELECT a, b, a FROM t WHERE a > {5|15|100} ORDER BY id DESC LIMIT {1|2}",
    "SELECT id, d, s FROM t ORDER BY id",
    "SELECT id, x, y, z FROM t ORDER BY id",
    "SELECT SUM(v), COUNT(*) FROM sums",
    "SELECT SUM(v), COUNT(*) FROM m",
    "SELECT COUNT(*) FROM j",
    "SELECT t.id, v.a FROM t JOIN v ON v.id = t.id ORDER BY t.id",
    "SELECT * FROM v ORDER BY id",
    "SELECT * FROM v_mine ORDER BY id",
    "SELECT b, COUNT(*) AS count FROM t GROUP BY b ORDER BY MIN(id)",
    "SELECT GROUP_CONCAT(b ORDER BY id) FROM t",
    "SELECT DISTINCT a DIV 20 FROM t ORDER BY 1",
    "SELECT \"id\" FROM t ORDER BY id",
    "SELECT id FROM t WHERE b = 'Ünf'",
    "SELECT id FROM t WHERE b > 3 ORDER BY id",
    "SELECT id, a / 0 FROM t ORDER BY id",
    "SELECT id FROM t WHERE id = 99",
    "SELECT id FROM absent WHERE id = {n}",
    "SELECT absent FROM t",
    "SELECT id FROM t WHERE id = (SELECT id FROM t)",
    "SELECT id, (SELECT MAX(a) FROM t) AS most FROM t ORDER BY id",
    "SELECT id FROM t UNION SELECT a FROM t ORDER BY 1",
    "SELECT id FROM dcrowd.t WHERE id < {3|4} ORDER BY id",
    "SELECT REPEAT(b, {2000|5000}) FROM dcrowd.t ORDER BY id",
    "SELECT REPEAT(b, 40000) FROM dcrowd.t ORDER BY id",
    "SELECT LAST_INSERT_ID() FROM t LIMIT 1",
    "SELECT DATABASE(), id FROM t ORDER BY id LIMIT 1",
    "SELECT CURRENT_USER() FROM t LIMIT 1",
    "SELECT @@time_zone, id FROM t ORDER BY id LIMIT 1",
    "SELECT id FROM t WHERE id = 1 /* of {w} */",
    "SELECT id FROM t WHERE id = 1; SELECT a FROM t WHERE id = 1",
    "SELECT id FROM t WHERE id = 1 LOCK IN SHARE MODE",
    "SELECT {n} AS number",
    "SELECT JSON_EXTRACT('[{n}]', '$[0]') AS j, id FROM t WHERE id = 1",
    "SELECT JSON_EXTRACT(b, '$') FROM t WHERE id = 1",
    "SELECT STR_TO_DATE(b, '%Y') FROM t WHERE id < 3 ORDER BY id",
];

/// What it asks by prepared statements: their texts, and the parameters of each client.
pub(in crate::differ) const EXECUTED: &[(&str, &[&str])] = &[
    ("SELECT * FROM t ORDER BY id", &[""]),
    ("SELECT id, a, b FROM t WHERE id = ?", &["int:1", "int:1", "int:2", "text:1", "null"]),
    ("SELECT id FROM t WHERE b = ?", &["text:one", "text:one", "text:two", "int:0"]),
    (
        "SELECT id, d, s, x, y, z FROM t WHERE a > ? ORDER BY id LIMIT ?",
        &["int:15 int:2", "int:15 int:1"],
    ),
    ("SELECT SUM(v), COUNT(*) FROM sums WHERE id > ?", &["int:0"]),
    ("SELECT ?, id FROM t WHERE id = 1", &["int:1", "text:1", "null"]),
    ("SELECT COUNT(*) FROM j", &[""]),
    ("SELECT * FROM v WHERE a > ? ORDER BY id", &["int:15", "int:25"]),
    ("SELECT REPEAT(b, ?) FROM t ORDER BY id", &["int:3000", "int:40000"]),
    ("SELECT id FROM t WHERE b > ? ORDER BY id", &["int:3"]),
    ("SELECT id FROM t WHERE id = (SELECT id FROM t WHERE id >= ?)", &["int:1", "int:4"]),
    ("SELECT LAST_INSERT_ID(), id FROM t WHERE id = ?", &["int:1"]),
];

/// What a client does before the crowd asks.
pub(in crate::differ) const BEFORE: &[&str] = &[
    "SET time_zone = '{+03:00|-08:00}'",
    "SET time_zone = DEFAULT",
    "SET sql_mode = '{ANSI_QUOTES|NO_BACKSLASH_ESCAPES}'",
    "SET sql_mode = DEFAULT",
    "SET NAMES {latin1|utf8mb4}",
    "SET group_concat_max_len = {5|1024}",
    "SET sql_select_limit = {1|3}",
    "SET sql_select_limit = DEFAULT",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "SET @a = {n}",
    "USE dcrowdb",
    "USE dcrowd",
    "USE dcrowd",
    ":reset ;; USE dcrowd",
    ":reset ;; :use dcrowd",
    ":quit ;; :connect ;; USE dcrowd",
    ":vanish ;; :connect ;; USE dcrowd",
    ":user {0|1} ;; USE dcrowd",
    ":user 0 ;; USE dcrowd",
    "INSERT INTO {s}.t (b) VALUES ('{w}')",
    "INSERT INTO {s}.t (b) VALUES ('{w}') ;; SELECT LAST_INSERT_ID()",
    "SELECT absent FROM t",
    "SELECT id FROM t WHERE b > 3",
    "SELECT id FROM t LIMIT {1|2}",
    "REPLACE INTO dcrowd.own VALUES ({own}, {n})",
    "UPDATE {s}.t SET b = '{w}' WHERE id < 4 ;; SELECT ROW_COUNT()",
    "BEGIN ;; INSERT INTO dcrowd.own VALUES ({own}, 1) ;; ROLLBACK",
    "SELECT GET_LOCK('{lock}', 0) ;; :reset ;; USE dcrowd",
    "DO 1",
    ":ping",
];

/// What a client does around what it asks with the crowd: others must not see it, and it must see it itself.
pub(in crate::differ) const AROUND: &[&str] = &[
    "BEGIN ;; INSERT INTO dcrowd.j VALUES ({own}) ;; {ask} ;; ROLLBACK",
    "START TRANSACTION READ ONLY ;; {ask} ;; COMMIT",
    "SET autocommit = 0 ;; {ask} ;; COMMIT ;; SET autocommit = 1",
    "CREATE TEMPORARY TABLE t (id INT, a INT, b VARCHAR(20)) ;; {ask} ;; DROP TEMPORARY TABLE t ;; \
     :reset ;; USE dcrowd",
    "SELECT GET_LOCK('{lock}', 0) ;; {ask} ;; SELECT RELEASE_LOCK('{lock}') ;; :reset ;; USE dcrowd",
    "{ask} ;; {ask}",
    "DO 1 ;; {ask}",
    "UPDATE {s}.t SET b = '{w}' WHERE id = 1 ;; {ask}",
    "SELECT absent FROM t ;; {ask}",
    "SET @a = {n} ;; {ask}",
];

/// What a client asks of what it was answered with the crowd.
pub(in crate::differ) const BEHIND: &[&str] = &[
    "SHOW WARNINGS",
    "SHOW ERRORS",
    "SELECT @@warning_count, @@error_count",
    "SHOW COUNT(*) WARNINGS",
    "SELECT ROW_COUNT()",
    "SELECT LAST_INSERT_ID()",
    "SELECT DATABASE(), CURRENT_USER(), CONNECTION_ID() = {id} AS own",
    "SELECT @@autocommit, @@sql_mode, @@time_zone, @@character_set_client, @@group_concat_max_len, @@sql_select_limit",
    "SELECT * FROM {s}.t ORDER BY id",
    "SELECT v FROM dcrowd.own WHERE id = {own}",
    ":ping",
];

/// How questions begin that do not fail in either schema, and whose rows are counted by their reply.
pub(in crate::differ) const COUNTED: &[&str] = &[
    "SELECT * FROM t ORDER",
    "SELECT id, b FROM t",
    "SELECT a, b, a FROM t",
    "SELECT b, COUNT(*)",
    "SELECT DISTINCT",
];

/// What writers do while the crowd asks.
pub(in crate::differ) const WRITTEN: &[&str] = &[
    "UPDATE sums SET v = CASE id WHEN 1 THEN v + {own} ELSE v - {own} END WHERE id IN (1, 2)",
    "UPDATE m SET v = CASE id WHEN 1 THEN v + {own} ELSE v - {own} END WHERE id IN (1, 2)",
    "BEGIN ;; UPDATE sums SET v = v + {n} WHERE id = 1 ;; ROLLBACK",
    "BEGIN ;; INSERT INTO j VALUES ({own}) ;; DELETE FROM j WHERE id = {own} ;; COMMIT",
    "INSERT INTO own VALUES ({own}, {n}) ON DUPLICATE KEY UPDATE v = {n}",
    "UPDATE t SET b = b",
];
