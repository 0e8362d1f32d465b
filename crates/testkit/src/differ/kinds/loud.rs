//! What clients say that leave diagnostics, and rest ([`crate::differ::loud`]).
//!
//! Braces are those of [`super`]. Invariant: behind a kind, its client has no transaction, and nothing on its backend but
//! diagnostics.

/// What is there before any program: another client holds all rows of its table for ever, so whatever wants one waits in
/// vain.
pub(in crate::differ) const HELD: &[&str] = &[
    "CREATE DATABASE dheld",
    "CREATE TABLE dheld.t (id INT PRIMARY KEY, a INT) ENGINE=InnoDB",
    "INSERT INTO dheld.t VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5)",
];

/// What holds them.
pub(in crate::differ) const HOLD: &[&str] = &["BEGIN", "SELECT * FROM dheld.t FOR UPDATE"];

/// Has each client not wait for them: less than a second on MariaDB, which MySQL does not know.
pub(in crate::differ) const BEGUN: &str = "SET innodb_lock_wait_timeout = 0";

/// What leaves diagnostics.
pub(in crate::differ) const LEFT: &[&str] = &[
    // Waits that end in vain: errors that MariaDB reports twice, and once.
    "UPDATE dheld.t SET a = {n} WHERE id = {1|2|3}",
    "DELETE FROM dheld.t WHERE id = {1|2|3}",
    "DELETE FROM dheld.t",
    "SELECT a FROM dheld.t WHERE id = {1|2|3} FOR UPDATE",
    "SELECT a FROM dheld.t WHERE id = 1 {LOCK IN SHARE MODE|FOR UPDATE NOWAIT}",
    "INSERT INTO dheld.t VALUES ({1|2}, {n})",
    "REPLACE INTO dheld.t VALUES ({1|2}, {n})",
    "INSERT INTO dheld.t VALUES (1, {n}) ON DUPLICATE KEY UPDATE a = {n}",
    "UPDATE t, dheld.t AS h SET t.b = '{w}', h.a = {n} WHERE t.id = h.id",
    "INSERT INTO m (a, b) SELECT id, 'x' FROM dheld.t FOR UPDATE",
    "BEGIN ;; UPDATE t SET b = '{w}' WHERE id = 2 ;; UPDATE dheld.t SET a = 1 WHERE id = 1 ;; {COMMIT|ROLLBACK}",
    "BEGIN ;; DELETE FROM dheld.t WHERE id = 2 ;; SHOW WARNINGS ;; ROLLBACK ;; SHOW WARNINGS",
    "SET autocommit = 0 ;; UPDATE dheld.t SET a = {n} ;; ROLLBACK ;; SET autocommit = 1",
    ":prepare 1 UPDATE dheld.t SET a = ? WHERE id = 1 ;; :execute 1 int:{n} ;; :close 1",
    ":prepare 1 DELETE FROM dheld.t WHERE id = ? ;; :execute 1 int:2 ;; :close 1",
    // Floods, and long ones.
    "SELECT COUNT(CAST(CONCAT('x', a.id, b.id, c.id) AS SIGNED)) FROM t a, t b, t c",
    "SELECT CAST(CONCAT('y', a.id, b.id) AS SIGNED) FROM t a, t b ORDER BY a.id, b.id",
    "SELECT COUNT(CAST(CONCAT(a.id, b.id, REPEAT('{w}', 200)) AS SIGNED)) FROM t a, t b, t c",
    "SELECT COUNT(CAST(CONCAT(a.id, REPEAT('Ü{w}', 100)) AS SIGNED)) FROM t a, t b, t c",
    "INSERT IGNORE INTO w (s, c) SELECT 300, 'long one' FROM t a, t b",
    ":prepare 1 SELECT COUNT(CAST(CONCAT(?, a.id, b.id) AS SIGNED)) FROM t a, t b ;; :execute 1 text:z ;; :close 1",
    "SELECT BENCHMARK({1|50|2000}, 'x' + 0)",
    "SET max_error_count = {0|1|3|64|100} ;; SELECT COUNT(CAST(CONCAT('x', a.id, b.id, c.id) AS SIGNED)) \
     FROM t a, t b, t c ;; SHOW WARNINGS ;; SELECT @@warning_count",
    "SET max_error_count = {0|1|64} ;; UPDATE dheld.t SET a = 1 WHERE id = 1 ;; SHOW ERRORS",
    "EXPLAIN EXTENDED SELECT '{w}', REPEAT('x', {n}) FROM t WHERE id IN (1, 2, 3)",
    // Few.
    "SELECT 'x{n}' + 0",
    "SELECT 1 / 0",
    "SELECT absent FROM t",
    "SELECT * FROM absent",
    "SELEKT {n}",
    "DO 9223372036854775807 + {1|2}",
    "INSERT INTO t (id, a) VALUES (1, 10)",
    "DROP TABLE IF EXISTS absent, absent_too",
    "CREATE TABLE IF NOT EXISTS t (i INT)",
    "SET sql_notes = 0 ;; DROP TABLE IF EXISTS absent ;; SET sql_notes = 1",
    "BEGIN ;; SELECT 'x' + 0 ;; COMMIT",
    "USE absent",
    ":use absent",
    // A client's own.
    "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = '{w}'",
    "SIGNAL SQLSTATE '40001' SET MESSAGE_TEXT = '{w}', MYSQL_ERRNO = 1213",
    "SIGNAL SQLSTATE '{01000|02000}' SET MESSAGE_TEXT = '{w}'",
    ":prepare 1 SIGNAL SQLSTATE '45000' ;; :execute 1 ;; :close 1",
    "SELECT COUNT(*) FROM t ;; RESIGNAL",
];

/// What asks for them, or replaces them, or leaves them alone.
pub(in crate::differ) const ASKED: &[&str] = &[
    "SHOW WARNINGS",
    "SHOW WARNINGS LIMIT {1|2|60, 10}",
    "SHOW ERRORS",
    "SHOW COUNT(*) WARNINGS",
    "SHOW COUNT(*) ERRORS",
    "SELECT @@warning_count, @@error_count",
    "SELECT @@error_count FROM t LIMIT 1",
    ":prepare 1 SHOW WARNINGS ;; :execute 1 ;; :close 1",
    "SHOW WARNINGS ;; SELECT @@warning_count ;; SHOW ERRORS",
    // The variable stays with the session, which begins anew.
    "GET DIAGNOSTICS @a = NUMBER ;; SELECT @a ;; SHOW WARNINGS ;; :reset ;; SET innodb_lock_wait_timeout = 0",
    "UPDATE dheld.t SET a = 1 WHERE id = 1 ;; GET DIAGNOSTICS CONDITION 1 @a = MYSQL_ERRNO, @b = MESSAGE_TEXT ;; \
     SELECT @a, @b ;; :reset ;; SET innodb_lock_wait_timeout = 0",
    "SELECT {n}",
    "SELECT COUNT(*) FROM t",
    "UPDATE t SET b = '{w}' WHERE id = {1|2}",
    "BEGIN ;; COMMIT",
    "ROLLBACK",
    "SHOW TABLES LIKE 't'",
    "SET group_concat_max_len = {100|200}",
    ":ping",
    ":reset ;; SET innodb_lock_wait_timeout = 0",
];
