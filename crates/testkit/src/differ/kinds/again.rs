//! What clients say that ask the same again and again ([`crate::differ::again`]): all read the same tables of one schema,
//! which some of them write.
//!
//! Braces are those of [`super`], and `{own}`, a number of the client's own; `{ask}` stands for one of the questions.
//! Invariants: what [`WRITTEN`] writes comes to the same in each order, and no two of them can lock each other out; what
//! [`QUIET`] does changes no answer to [`ASKED`]; what only one client says ([`ALONE`], [`DEFINED`]) may depend on what it
//! has said before, and on nothing else; no client keeps a backend, but for [`DEFINED`], behind which it connects anew.

/// What is there before a program begins.
pub(in crate::differ) const TABLES: &[&str] = &[
    "DROP DATABASE IF EXISTS dkept",
    "CREATE DATABASE dkept CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "CREATE TABLE dkept.warm (id INT PRIMARY KEY) ENGINE=InnoDB",
    "CREATE TABLE dkept.t (id INT PRIMARY KEY, a BIGINT, b VARCHAR(20)) ENGINE=InnoDB",
    "INSERT INTO dkept.t VALUES (1, 10, 'one'), (2, 20, 'two'), (3, 30, 'Ünf'), (4, 40, NULL)",
    "CREATE TABLE dkept.sums (id INT PRIMARY KEY, v BIGINT) ENGINE=InnoDB",
    "INSERT INTO dkept.sums VALUES (1, 100), (2, 100), (3, 100)",
    "CREATE TABLE dkept.m (id INT PRIMARY KEY, v BIGINT) ENGINE=MyISAM",
    "INSERT INTO dkept.m VALUES (1, 100), (2, 100), (3, 100)",
    "CREATE TABLE dkept.part1 (id INT, v BIGINT, KEY (id)) ENGINE=MyISAM",
    "INSERT INTO dkept.part1 VALUES (1, 100)",
    "CREATE TABLE dkept.part2 (id INT, v BIGINT, KEY (id)) ENGINE=MyISAM",
    "INSERT INTO dkept.part2 VALUES (2, 100)",
    "CREATE TABLE dkept.merged (id INT, v BIGINT, KEY (id)) ENGINE=MERGE UNION=(dkept.part1, dkept.part2) \
     INSERT_METHOD=LAST",
    "CREATE VIEW dkept.v_merged AS SELECT SUM(v) AS s FROM dkept.merged",
    "CREATE TABLE dkept.own (id INT PRIMARY KEY, v BIGINT) ENGINE=InnoDB",
    "INSERT INTO dkept.own VALUES (2000, 0), (2001, 0), (2002, 0), (2003, 0), (2004, 0), (2005, 0), (2006, 0), \
     (2007, 0), (2008, 0), (2009, 0), (2010, 0), (2011, 0), (2012, 0), (2013, 0), (2014, 0), (2015, 0)",
    "CREATE TABLE dkept.fires (n INT) ENGINE=InnoDB",
    "CREATE TRIGGER dkept.fires_after AFTER INSERT ON dkept.fires FOR EACH ROW \
     UPDATE dkept.sums SET v = v + NEW.n WHERE id = 2",
    "CREATE TABLE dkept.chain (n INT) ENGINE=InnoDB",
    "CREATE TRIGGER dkept.chain_before BEFORE INSERT ON dkept.chain FOR EACH ROW \
     INSERT INTO dkept.fires (n) VALUES (NEW.n + 1)",
    "CREATE TABLE dkept.f (id INT PRIMARY KEY, v BIGINT) ENGINE=InnoDB",
    "INSERT INTO dkept.f VALUES (1, 0)",
    "CREATE TABLE dkept.j (id INT PRIMARY KEY, v BIGINT) ENGINE=InnoDB",
    "INSERT INTO dkept.j VALUES (1, 1), (2, 2), (3, 3)",
    "CREATE TABLE dkept.parent (id INT PRIMARY KEY) ENGINE=InnoDB",
    "INSERT INTO dkept.parent VALUES (1), (2), (3), (4), (5), (6), (7), (8)",
    "CREATE TABLE dkept.child (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES dkept.parent (id) \
     ON DELETE CASCADE ON UPDATE CASCADE) ENGINE=InnoDB",
    "INSERT INTO dkept.child VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)",
    "CREATE TABLE dkept.grandchild (id INT PRIMARY KEY, c INT, FOREIGN KEY (c) REFERENCES dkept.child (id) \
     ON DELETE SET NULL) ENGINE=InnoDB",
    "INSERT INTO dkept.grandchild VALUES (1, 1), (2, 2), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)",
    "CREATE TABLE dkept.l (a BIGINT, b VARCHAR(20)) ENGINE=InnoDB",
    "CREATE TABLE dkept.s1 (id INT PRIMARY KEY, v BIGINT) ENGINE=InnoDB",
    "INSERT INTO dkept.s1 VALUES (1, 1)",
    "CREATE TABLE dkept.s2 (id INT PRIMARY KEY, v BIGINT) ENGINE=InnoDB",
    "INSERT INTO dkept.s2 VALUES (1, 2)",
    "CREATE TABLE dkept.g (id INT PRIMARY KEY, v BIGINT) ENGINE=InnoDB",
    "INSERT INTO dkept.g VALUES (1, 1), (2, 2)",
    "CREATE VIEW dkept.v AS SELECT id, a FROM dkept.t WHERE a > 15",
    "CREATE VIEW dkept.vv AS SELECT v.id, v.a, sums.v FROM dkept.v JOIN dkept.sums ON sums.id = v.id",
    "CREATE SQL SECURITY INVOKER VIEW dkept.v_sum AS SELECT COUNT(*) AS c, SUM(v) AS s FROM dkept.m",
    "CREATE VIEW dkept.v_g AS SELECT id, v FROM dkept.g",
    "CREATE PROCEDURE dkept.adds(n INT) UPDATE dkept.sums SET v = v + n WHERE id = 3",
    "CREATE PROCEDURE dkept.prepares() BEGIN PREPARE inner_one FROM 'UPDATE dkept.t SET a = a + 1 WHERE id = 4'; \
     EXECUTE inner_one; DEALLOCATE PREPARE inner_one; END",
    "CREATE PROCEDURE dkept.calls(n INT) BEGIN START TRANSACTION; CALL dkept.adds(n); COMMIT; END",
    "CREATE FUNCTION dkept.adding(n INT) RETURNS INT MODIFIES SQL DATA BEGIN \
     UPDATE dkept.f SET v = v + n WHERE id = 1; RETURN n; END",
    "CREATE VIEW dkept.acts AS SELECT dkept.adding(1) AS did",
    "CREATE TABLE dkept.kinds (id INT PRIMARY KEY, acts INT, did INT) ENGINE=InnoDB",
    "INSERT INTO dkept.kinds VALUES (1, 1, 1)",
];

/// What clients ask.
pub(in crate::differ) const ASKED: &[&str] = &[
    "SELECT * FROM t ORDER BY id",
    "SELECT id, a FROM t WHERE id = {1|2|3|4|9}",
    "SELECT a, id, b FROM t WHERE a > {15|35} ORDER BY id",
    "SELECT SUM(v), COUNT(*) FROM sums",
    "SELECT v FROM sums WHERE id = {1|2|3}",
    "SELECT * FROM sums WHERE id IN (2, 3) ORDER BY id",
    "SELECT * FROM m ORDER BY id",
    "SELECT v FROM dkept.m WHERE id = 1",
    "SELECT id, v FROM merged ORDER BY id",
    "SELECT s FROM v_merged",
    "SELECT v FROM part1 WHERE id = 1",
    "SELECT acts FROM kinds WHERE acts = 1",
    "SELECT t.id, sums.v FROM t JOIN sums ON sums.id = t.id ORDER BY t.id",
    "SELECT t.id, m.v FROM t LEFT JOIN m ON m.id = t.id ORDER BY t.id",
    "SELECT * FROM v ORDER BY id",
    "SELECT * FROM vv ORDER BY id",
    "SELECT * FROM v_sum",
    "SELECT * FROM v_g ORDER BY id",
    "SELECT * FROM g ORDER BY id",
    "SELECT SUM(n), COUNT(*) FROM fires",
    "SELECT COUNT(*) FROM chain",
    "SELECT v FROM f WHERE id = 1",
    "SELECT * FROM j ORDER BY id",
    "SELECT COUNT(*), SUM(p) FROM child",
    "SELECT COUNT(c), COUNT(*) FROM grandchild",
    "SELECT id FROM parent ORDER BY id",
    "SELECT COUNT(*), SUM(a), MAX(b) FROM l",
    "SELECT v FROM s1 WHERE id = 1",
    "SELECT v FROM s2 WHERE id = 1",
    "SELECT REPEAT(COALESCE(b, 'none'), 3000) FROM t ORDER BY id",
    "SELECT b, COUNT(*) AS count FROM t GROUP BY b ORDER BY MIN(id)",
    "SELECT \"id\" FROM t ORDER BY id",
    "SELECT id FROM t WHERE b > 3 ORDER BY id",
    "SELECT id, a / 0 FROM t ORDER BY id",
    "SELECT id FROM absent WHERE id = 1",
    "SELECT id, (SELECT MAX(v) FROM sums) AS most FROM t ORDER BY id",
    "SELECT id FROM t UNION SELECT v FROM sums ORDER BY 1",
    "SELECT v FROM sums WHERE id = 1 /* of {w} */",
];

/// What they ask by prepared statements: their texts, and parameters.
pub(in crate::differ) const EXECUTED: &[(&str, &[&str])] = &[
    ("SELECT * FROM t ORDER BY id", &[""]),
    ("SELECT id, a, b FROM t WHERE id = ?", &["int:1", "int:1", "int:2", "text:1", "null"]),
    ("SELECT v FROM sums WHERE id = ?", &["int:1", "int:2", "int:2", "int:3"]),
    ("SELECT SUM(v), COUNT(*) FROM m WHERE id > ?", &["int:0"]),
    ("SELECT * FROM vv WHERE a > ? ORDER BY id", &["int:15", "int:25"]),
    ("SELECT COUNT(*), SUM(p) FROM child WHERE id > ?", &["int:0"]),
    ("SELECT v FROM s1 WHERE id = ?", &["int:1"]),
    ("SELECT v FROM g WHERE id > ? ORDER BY id", &["int:0"]),
];

/// What a client does to its session before it asks.
pub(in crate::differ) const BEFORE: &[&str] = &[
    "SET time_zone = '{+03:00|-08:00}'",
    "SET time_zone = DEFAULT",
    "SET sql_mode = 'ANSI_QUOTES'",
    "SET sql_mode = DEFAULT",
    "SET NAMES {latin1|utf8mb4}",
    "SET sql_select_limit = {1|3}",
    "SET sql_select_limit = DEFAULT",
    "SET SESSION TRANSACTION ISOLATION LEVEL {READ COMMITTED|REPEATABLE READ}",
    ":reset ;; USE dkept",
    ":quit ;; :connect ;; USE dkept",
    ":vanish ;; :connect ;; USE dkept",
    ":user {0|1} ;; USE dkept",
    "SELECT absent FROM t",
    "SELECT v FROM own WHERE id = {own}",
    ":ping",
];

/// What any writer may do while others ask, and may see or not what it does.
pub(in crate::differ) const WRITTEN: &[&str] = &[
    "UPDATE t SET a = a + {n} WHERE id = {1|2|3|4}",
    "UPDATE sums SET v = v + {n} WHERE id = {1|2|3}",
    "UPDATE m SET v = v - {n} WHERE id < {2|3}",
    "UPDATE part1 SET v = v + {n} WHERE id = 1",
    "UPDATE part2 SET v = v - {n}",
    "UPDATE merged SET v = v + {n} WHERE id = {1|2}",
    "INSERT INTO fires (n) VALUES ({n}) ;; :reset ;; USE dkept",
    "INSERT INTO dkept.chain (n) VALUES ({n}) ;; :reset ;; USE dkept",
    "UPDATE own SET v = v + {n} WHERE id = {own} ;; SELECT v FROM own WHERE id = {own}",
    "UPDATE v SET a = a + {n} WHERE id = 2",
    "UPDATE `dkept`.`sums` SET v = v * 1 + 1 WHERE id = 1",
    "BEGIN ;; UPDATE sums SET v = v + {n} WHERE id = {1|2|3} ;; {COMMIT|ROLLBACK}",
    "BEGIN ;; INSERT INTO fires (n) VALUES ({n}) ;; {COMMIT|ROLLBACK} ;; :reset ;; USE dkept",
    "START TRANSACTION ;; UPDATE t SET a = a + {n} WHERE id = {1|2|3} ;; SAVEPOINT one ;; \
     UPDATE sums SET v = v + 1000 WHERE id = 3 ;; ROLLBACK TO one ;; COMMIT",
    "SET autocommit = 0 ;; UPDATE t SET a = a + {n} WHERE id = {1|2} ;; {COMMIT|ROLLBACK} ;; SET autocommit = 1",
    "BEGIN ;; UPDATE t SET a = a + {n} WHERE id = 3 ;; :reset ;; USE dkept",
    "BEGIN ;; UPDATE t SET a = a + {n} WHERE id = 3 ;; :{quit|vanish} ;; :connect ;; USE dkept",
    ":prepare 1 UPDATE sums SET v = v + ? WHERE id = ? ;; :execute 1 int:{n} int:{1|2|3} ;; :close 1",
    ":prepare 1 INSERT INTO fires (n) VALUES (?) ;; :execute 1 int:{n} ;; :execute 1 untyped int:{n} ;; \
     :reset ;; USE dkept",
];

/// What only the first writer does, beside those.
pub(in crate::differ) const ALONE: &[&str] = &[
    "DELETE FROM parent WHERE id = {1|2|3|4|5|6|7|8}",
    "DELETE FROM child WHERE id = {1|2|3|4|5|6|7|8}",
    "UPDATE parent SET id = id + 100 WHERE id = {1|2|3|4|5|6|7|8}",
    "REPLACE INTO parent VALUES ({1|2|3|4})",
    "INSERT IGNORE INTO parent VALUES ({1|2|3|4}) ;; INSERT IGNORE INTO child VALUES ({50|51|52}, {1|2|3|4})",
    "INSERT INTO j VALUES ({1|2|3}, {n}) ON DUPLICATE KEY UPDATE v = v + {n}",
    "REPLACE INTO j VALUES ({1|2|3|4|5}, {n})",
    "DELETE FROM j WHERE id = {4|5}",
    "DELETE j FROM j JOIN g ON g.id = j.id WHERE j.id = {1|2}",
    "UPDATE j JOIN g ON g.id = j.id SET g.v = g.v + 1, j.v = j.v + {n}",
    "INSERT INTO l (a, b) SELECT v, '{w}' FROM g",
    "LOAD DATA LOCAL INFILE 'x' INTO TABLE l (a, b) ;; :reset ;; USE dkept",
    "LOAD DATA LOCAL INFILE 'x' REPLACE INTO TABLE dkept.g (id, @b) SET v = {n} ;; \
     :reset ;; USE dkept",
    "BEGIN ;; DELETE FROM l ;; {COMMIT|ROLLBACK}",
    "BEGIN ;; DELETE FROM parent WHERE id < 3 ;; {COMMIT|ROLLBACK}",
    "INSERT INTO g VALUES ({3|4}, {n})",
    "DELETE FROM g WHERE id > 2",
    "UPDATE s1 SET v = v + 1",
    "UPDATE v_g SET v = v + {n} WHERE id = 1",
    "INSERT INTO g VALUES (1, 1)",
    "CREATE TEMPORARY TABLE own_merged (id INT, v BIGINT, KEY (id)) ENGINE=MERGE UNION=(part1) ;; \
     UPDATE own_merged SET v = v + {n} ;; :unjudged SELECT v FROM own_merged ;; :reset ;; USE dkept",
];

/// What it does now and then, while no other client asks: definitions, and what cannot be read.
pub(in crate::differ) const DEFINED: &[&str] = &[
    "TRUNCATE TABLE l",
    "TRUNCATE fires",
    "RENAME TABLE s1 TO s3, s2 TO s1, s3 TO s2",
    "ALTER TABLE g ADD COLUMN extra INT DEFAULT {n}",
    "ALTER TABLE g DROP COLUMN extra",
    "DROP TABLE g ;; CREATE TABLE g (id INT PRIMARY KEY, v BIGINT) ENGINE=InnoDB ;; INSERT INTO g VALUES (1, {n})",
    "CREATE OR REPLACE VIEW v AS SELECT id, a + {n} AS a FROM t WHERE a > 15",
    "CREATE OR REPLACE VIEW v_g AS SELECT id, v * {n} AS v FROM g",
    "DROP TRIGGER chain_before ;; CREATE TRIGGER chain_before BEFORE INSERT ON chain FOR EACH ROW \
     UPDATE m SET v = v + NEW.n WHERE id = 3",
    "CALL adds({n})",
    "CALL prepares()",
    "CALL calls({n})",
    "DO adding({n})",
    "SELECT adding({n})",
    "PREPARE two FROM 'UPDATE sums SET v = v + {n} WHERE id = 1' ;; EXECUTE two ;; DEALLOCATE PREPARE two",
    "LOCK TABLES sums WRITE ;; UPDATE sums SET v = v + {n} WHERE id = 1 ;; UNLOCK TABLES",
    "XA START 'one' ;; UPDATE sums SET v = v + {n} WHERE id = 1 ;; XA END 'one' ;; XA PREPARE 'one' ;; \
     XA {COMMIT|ROLLBACK} 'one'",
    "CREATE TEMPORARY TABLE t (id INT, a INT, b VARCHAR(20)) ;; {ask} ;; UPDATE t SET a = 5 ;; {ask} ;; \
     DROP TEMPORARY TABLE t ;; {ask}",
    "/*!50000 UPDATE sums SET v = v + {n} WHERE id = 1 */",
    "SELECT did FROM acts ;; :reset ;; USE dkept",
    "SELECT a FROM t WHERE a IN (SELECT did FROM acts) ;; :reset ;; USE dkept",
    "UPDATE /*!100100 sums */ SET v = v + {n} WHERE id = 1",
    "SELECT /*!100100 adding */ ({n}) ;; :reset ;; USE dkept",
    "ALTER TABLE child DROP FOREIGN KEY child_ibfk_1 ;; DELETE FROM parent WHERE id = {1|2|3} ;; {ask}",
];

/// What a writer does while others ask, and must not see of it; it sees it itself.
pub(in crate::differ) const QUIET: &[&str] = &[
    "BEGIN ;; UPDATE sums SET v = v + 1000 WHERE id = 1 ;; {ask} ;; ROLLBACK ;; {ask}",
    "BEGIN ;; UPDATE t SET a = a + 1000 ;; {ask} ;; ROLLBACK ;; {ask}",
    "BEGIN ;; INSERT INTO fires (n) VALUES (1000) ;; SELECT v > 1000 FROM sums WHERE id = 2 ;; ROLLBACK ;; {ask} ;; \
     :reset ;; USE dkept",
    "SET autocommit = 0 ;; UPDATE sums SET v = v + 1000 WHERE id = 2 ;; {ask} ;; ROLLBACK ;; SET autocommit = 1",
    "UPDATE t SET b = b",
    "SELECT /*! 1 */ ;; {ask}",
    "SELECT /*!50701 STRAIGHT_JOIN */ COUNT(*) FROM warm ;; {ask}",
    "FROBNICATE {w} ;; {ask} ;; :reset ;; USE dkept",
    "SELECT 'never ends ;; {ask} ;; :reset ;; USE dkept",
    "DROP VIEW v v_g ;; {ask}",
    "SELECT did FROM kinds WHERE id = 1 ;; {ask}",
    "UPDATE own SET v = v + {n} WHERE id = {own} ;; SELECT v FROM own WHERE id = {own}",
    "UPDATE own SET v = v + {n} WHERE id = {own} ;; SELECT v FROM own WHERE id = {own} ;; \
     SELECT v FROM own WHERE id = {own}",
    "BEGIN ;; UPDATE own SET v = v + {n} WHERE id = {own} ;; SELECT v FROM own WHERE id = {own} ;; \
     {COMMIT|ROLLBACK} ;; SELECT v FROM own WHERE id = {own}",
    "INSERT INTO absent VALUES (1) ;; {ask}",
    "INSERT INTO sums VALUES (1, 1) ;; {ask}",
];

/// What a client asks of what it was answered.
pub(in crate::differ) const BEHIND: &[&str] = &[
    "SHOW WARNINGS",
    "SELECT @@warning_count, @@error_count",
    "SELECT ROW_COUNT()",
    "SELECT DATABASE(), CURRENT_USER(), CONNECTION_ID() = {id} AS own",
    "SELECT @@autocommit, @@sql_mode, @@time_zone, @@character_set_client, @@sql_select_limit",
    ":ping",
];
