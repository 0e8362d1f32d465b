-- sqlite3 trees.db <trees.sql
PRAGMA page_size = 512;
CREATE TABLE numbers (id INTEGER PRIMARY KEY, name TEXT, long TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)
INSERT INTO numbers SELECT i, 'row ' || i, CASE i % 10 WHEN 0 THEN replace(hex(zeroblob(i * 20)), '00', 'x') END FROM n;
CREATE TABLE unwanted (a);
CREATE TABLE kinds (a, b, c, d);
INSERT INTO kinds VALUES (0, 1, -1, NULL), (300, -70000, 3000000000, 1.5), (-9223372036854775807 - 1, 9000000, 'ä', '');
