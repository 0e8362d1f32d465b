//! What MySQL alone understands.

use super::{Topic, When};

pub(super) const TOPICS: &[Topic] = &[
    Topic {
        name: "MySQL's hints and forms",
        when: When::OnMySql,
        kinds: &[
            "SELECT /*+ SET_VAR(max_sort_length = {8|9}) */ b FROM t ORDER BY b",
            "SELECT /*+ SET_VAR(sql_mode = 'ANSI_QUOTES') */ \"id\" FROM t ORDER BY 1",
            "SELECT /*+ SET_VAR(group_concat_max_len = 4) */ GROUP_CONCAT(a ORDER BY id) FROM t",
            "INSERT /*+ SET_VAR(foreign_key_checks = 0) */ INTO t (b) VALUES ('{w}')",
            "SELECT /*+ MAX_EXECUTION_TIME(10000) */ COUNT(*) FROM t",
            "SELECT /*+ SET_VAR(absent = 1) */ 1 ;; SHOW WARNINGS",
            "SELECT /*+ no hint */ {n} ;; SHOW WARNINGS",
            "TABLE t ORDER BY id",
            "TABLE t ORDER BY id LIMIT 1 INTO @a, @b, @c",
            "VALUES ROW(1, 2), ROW(3, {n})",
            "SELECT * FROM t ORDER BY id FOR SHARE",
            "SELECT * FROM t ORDER BY id FOR UPDATE SKIP LOCKED",
            "SELECT * FROM t ORDER BY id FOR UPDATE NOWAIT",
            "SELECT id, ROW_NUMBER() OVER (ORDER BY id DESC) FROM t ORDER BY id",
            "SELECT JSON_EXTRACT('{\"a\": [1, 2]}', '$.a[1]'), '{\"a\": 3}'->>'$.a'",
            "WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 5) \
             SELECT SUM(i) FROM n",
            "SELECT l.i FROM t, LATERAL (SELECT t.id + 1 AS i) AS l ORDER BY 1",
            "EXPLAIN FORMAT=TREE SELECT 1",
            "INSERT INTO t (a, b) VALUES (10, '{w}') AS new ON DUPLICATE KEY UPDATE b = new.b",
            "SELECT STATEMENT_DIGEST_TEXT('SELECT {n}')",
            "SELECT BIN_TO_UUID(UUID_TO_BIN('6ccd780c-baba-1026-9564-5b8c656024db'))",
            "SELECT 1 /*!80000 , @a := 9 */",
            "SELECT 1 /*!999999 , @a := 9 */",
        ],
    },
    Topic {
        name: "MySQL's session",
        when: When::OnMySql,
        kinds: &[
            "SET max_execution_time = {0|10000}",
            "SET @@max_execution_time = 20000 ;; SELECT @@max_execution_time",
            "SET SESSION transaction_read_only = {0|1}",
            "SET transaction_isolation = 'SERIALIZABLE' ;; SELECT @@transaction_isolation",
            "SET @@transaction_isolation = 'READ-COMMITTED' ;; BEGIN ;; SELECT COUNT(*) FROM t ;; \
             COMMIT ;; SELECT @@transaction_isolation",
            "SET PERSIST max_sort_length = 5",
            "SET PERSIST_ONLY max_sort_length = 5",
            "SET ROLE ALL ;; SELECT CURRENT_ROLE()",
            "SET ROLE DEFAULT ;; SELECT CURRENT_ROLE()",
            "SET ROLE 'differ' ;; SELECT COUNT(*) > 0 FROM mysql.user ;; SET ROLE NONE",
            "SET sql_mode = 'TIME_TRUNCATE_FRACTIONAL' ;; SELECT CAST('1.55' AS DECIMAL(2,1))",
            "SET NAMES utf8mb4 COLLATE utf8mb4_0900_as_cs ;; SELECT 'a' = 'A', COLLATION('a')",
            "SET collation_connection = utf8mb4_ja_0900_as_cs ;; SELECT COLLATION('a')",
            "SET default_collation_for_utf8mb4 = utf8mb4_general_ci",
            "SET big_tables = {0|1}",
            "SET cte_max_recursion_depth = {3|1000}",
            "SET show_create_table_verbosity = {0|1}",
            "SET information_schema_stats_expiry = 0",
            "SET session_track_gtids = OWN_GTID",
            "SET session_track_state_change = {0|1}",
            "SET session_track_transaction_info = STATE",
            "SET SESSION require_row_format = 1",
            "SET RESOURCE GROUP USR_default",
            "GET CURRENT DIAGNOSTICS @a = NUMBER ;; SELECT @a",
            "GET STACKED DIAGNOSTICS @a = NUMBER",
            "CREATE TEMPORARY TABLE IF NOT EXISTS tmp (i INT) ENGINE=InnoDB ;; \
             INSERT INTO tmp VALUES ({n}) ;; SELECT COUNT(*) FROM tmp",
            "CREATE TEMPORARY TABLE IF NOT EXISTS tmp2 AS SELECT id FROM t ;; SELECT * FROM tmp2",
            "LOCK TABLES t AS one READ, t AS two WRITE ;; SELECT COUNT(*) FROM t AS one ;; \
             UNLOCK TABLES",
            "ALTER TABLE t ADD COLUMN fast INT, ALGORITHM=INSTANT ;; \
             ALTER TABLE t DROP COLUMN fast",
            "ALTER TABLE t ADD COLUMN more INT ;; SELECT * FROM t ORDER BY id ;; \
             ALTER TABLE t DROP COLUMN more",
        ],
    },
    Topic {
        name: "MySQL's locks of the server",
        when: When::AloneOnMySql,
        kinds: &[
            "LOCK INSTANCE FOR BACKUP",
            "LOCK INSTANCE FOR BACKUP ;; UNLOCK INSTANCE",
            "UNLOCK INSTANCE",
            "CREATE TABLE IF NOT EXISTS c1 (i INT)",
            "INSERT INTO t (b) VALUES ('{w}')",
        ],
    },
];
