//! The protocol's own commands: prepared statements in all their forms, resets, changes of user, kills.

use super::{Topic, When};

pub(super) const TOPICS: &[Topic] = &[
    Topic {
        name: "prepared statements",
        when: When::Always,
        kinds: &[
            ":prepare {p} SELECT ? + 1 ;; :execute {p} int:{n}",
            ":prepare {p} SELECT ?, ?, ? ;; :execute {p} null int:1 text:{w}",
            ":prepare {p} SELECT id, a, b FROM t WHERE id = ? ;; :execute {p} int:{1|2|9} ;; \
             :execute {p} untyped int:3",
            ":execute {p} int:{n}",
            ":execute {p}",
            ":execute {p} untyped int:{n}",
            ":execute last int:{n}",
            ":prepare {p} SELECT {n} ;; :execute last",
            ":close {p}",
            ":close {p} ;; :execute {p}",
            ":rewind {p}",
            ":prepare {p} SELEC",
            ":prepare {p} SELECT * FROM absent",
            ":prepare {p} SELECT * FROM t ORDER BY id ;; :execute {p} ;; \
             ALTER TABLE t ADD COLUMN IF NOT EXISTS more INT ;; :execute {p} ;; \
             ALTER TABLE t DROP COLUMN IF EXISTS more ;; :execute {p}",
            ":prepare {p} SELECT * FROM c1 ;; :execute {p} ;; DROP TABLE IF EXISTS c1 ;; :execute {p}",
            ":prepare {p} INSERT INTO t (a, b) VALUES (?, ?) ;; :execute {p} int:{n} text:{w}",
            ":prepare {p} SET @ps = ? ;; :execute {p} int:{n} ;; SELECT @ps",
            ":prepare {p} SET group_concat_max_len = ? ;; :execute {p} int:{40|41}",
            ":prepare {p} SET @@max_sort_length = {50|51} ;; :execute {p}",
            ":prepare {p} SET NAMES latin1 ;; :execute {p} ;; SELECT 'ü'",
            ":prepare {p} BEGIN ;; :execute {p} ;; INSERT INTO t (b) VALUES ('{w}') ;; ROLLBACK",
            ":prepare {p} COMMIT ;; BEGIN ;; INSERT INTO t (b) VALUES ('{w}') ;; :execute {p}",
            ":prepare {p} SELECT DATABASE() ;; USE {s}b ;; :execute {p} ;; USE {s} ;; :execute {p}",
            ":prepare {p} SELECT * FROM t WHERE id = 1 ;; USE {s}b ;; :execute {p} ;; USE {s}",
            ":prepare {p} SELECT @@sql_mode, \"x\" ;; SET sql_mode = 'ANSI_QUOTES' ;; :execute {p} ;; \
             SET sql_mode = DEFAULT",
            ":prepare {p} SHOW WARNINGS",
            ":prepare {p} USE {s}b",
            ":prepare {p} SELECT 1; SELECT 2",
            ":prepare {p} SELECT @a, @b := ? ;; :execute {p} text:{w} ;; SELECT @b",
            ":prepare {p} LOCK TABLES t READ",
            ":prepare {p} UPDATE t SET b = ? WHERE id = ? ;; :execute {p} text:{w} int:2 ;; \
             :execute {p} untyped text:{w} int:3",
            ":prepare {p} DELETE FROM m WHERE a = ? ;; :execute {p} int:{n}",
            ":prepare {p} SELECT CONNECTION_ID() = {id} AS mine ;; :execute {p}",
            ":prepare {p} CREATE TABLE IF NOT EXISTS c2 (i INT) ;; :execute {p} ;; :execute {p}",
        ],
    },
    Topic {
        name: "long data, cursors and bulk",
        when: When::Always,
        kinds: &[
            // In a slot of their own: behind a number, MariaDB now and then takes long data for one.
            ":prepare 7 SELECT LENGTH(?), ? ;; :long 7 0 first ;; :long 7 0 \\x20second ;; \
             :execute 7 long int:1",
            ":long 7 0 {w} ;; :execute 7 long",
            ":long 7 0 {w} ;; :rewind 7 ;; :execute 7 text:{w}",
            ":prepare 7 INSERT INTO t (b) VALUES (?) ;; :long 7 0 {w} ;; :execute 7 long ;; \
             SELECT b FROM t ORDER BY id DESC LIMIT 1",
            ":long {p} 9 {w} ;; :execute {p} int:1",
            ":prepare {p} SELECT id, b FROM t ORDER BY id ;; :execute {p} cursor ;; :fetch {p} 2 ;; \
             :fetch {p} 1000 ;; :close {p}",
            ":prepare {p} SELECT id FROM t ORDER BY id ;; :execute {p} cursor ;; SELECT 1 ;; \
             :fetch {p} 3 ;; :rewind {p}",
            ":prepare {p} SELECT id FROM t WHERE id = ? ;; :execute {p} cursor int:2 ;; :fetch {p} 5",
            ":fetch {p} 1",
            ":prepare {p} UPDATE t SET b = 'c' WHERE id = 4 ;; :execute {p} cursor",
            ":prepare {p} CALL p_results() ;; :execute {p} cursor",
            ":prepare {p} SELECT id FROM t ;; :execute {p} cursor ;; BEGIN ;; :fetch {p} 1 ;; COMMIT",
            ":prepare 8 INSERT INTO m (a, b) VALUES (?, ?) ;; \
             :bulk 8 int:1 text:a / int:2 text:b / null null ;; SELECT ROW_COUNT(), LAST_INSERT_ID()",
            ":prepare 8 INSERT INTO t (a) VALUES (?) ;; :bulk 8 int:{n} / int:10",
            ":prepare 8 UPDATE t SET b = ? WHERE id = ? ;; :bulk 8 text:x int:1 / text:y int:2",
            ":prepare 8 SELECT ? ;; :bulk 8 int:1 / int:2",
        ],
    },
    Topic {
        name: "long executes",
        when: When::Always,
        kinds: &[
            ":execute 6 text:{long}",
            "BEGIN ;; :execute 6 text:{long} ;; SELECT {n} ;; COMMIT",
            "CREATE TEMPORARY TABLE IF NOT EXISTS tmp (i INT) ;; :execute 6 text:{long} ;; SELECT {n} ;; \
             DROP TEMPORARY TABLE tmp",
            ":prepare 5 SELECT LENGTH(?) ;; :execute 5 text:{long} ;; :close 5 ;; :execute 5 text:{long} ;; \
             SELECT {n}",
            "BEGIN ;; :prepare 5 SELECT LENGTH(?) ;; :close 5 ;; :execute 5 text:{long} ;; SELECT {n} ;; \
             COMMIT",
            ":prepare 5 SELECT LENGTH(?) ;; BEGIN ;; :execute 5 text:{long} ;; SELECT {n} ;; COMMIT ;; \
             :execute 5 text:{long} ;; :close 5",
            ":prepare 5 SELECT LENGTH(?) ;; :long 5 0 {long} ;; :execute 5 long ;; :close 5",
            ":long 6 0 {long} ;; :execute 6 text:{long}",
            "BEGIN ;; :long 6 0 {long} ;; SELECT {n} ;; :execute 6 text:{long} ;; COMMIT",
            ":prepare 5 SELECT ? ;; BEGIN ;; :long 5 7 {long} ;; SELECT {n} ;; :execute 5 int:{n} ;; \
             :rewind 5 ;; :execute 5 int:{n} ;; :close 5 ;; COMMIT",
            // A reset, and a fetch, of what was never prepared, and more bytes than they have.
            "{BEGIN|COMMIT} ;; :raw \\x1a\\x06\\x00\\x10\\x00{long} ;; SELECT {n} ;; COMMIT",
            "{BEGIN|COMMIT} ;; :raw \\x1c\\x06\\x00\\x10\\x00\\x01\\x00\\x00\\x00{long} ;; SELECT {n} ;; COMMIT",
            "BEGIN ;; :prepare 5 SELEC ;; :execute 5 text:{long} ;; SELECT {n} ;; COMMIT",
            // Behind what the statement has of parameters, a server reads nothing.
            "{BEGIN|COMMIT} ;; :prepare 5 SELECT {n} ;; :execute 5 text:{long} ;; SELECT {n} ;; COMMIT",
            "{BEGIN|COMMIT} ;; :prepare 5 GET DIAGNOSTICS @d = NUMBER ;; :execute 5 text:{long} ;; \
             SELECT @d ;; COMMIT",
        ],
    },
    Topic {
        name: "commands",
        when: When::Always,
        kinds: &[
            ":ping",
            ":reset",
            "SET @a = 1, group_concat_max_len = 5 ;; :reset ;; SELECT @a, @@group_concat_max_len",
            "BEGIN ;; INSERT INTO t (b) VALUES ('{w}') ;; :reset ;; SELECT COUNT(*) FROM t",
            "CREATE TEMPORARY TABLE IF NOT EXISTS tmp (i INT) ;; :reset ;; SELECT * FROM tmp",
            "USE {s}b ;; :reset ;; SELECT DATABASE() ;; :use {s}",
            "SELECT GET_LOCK('{lock}', 0) ;; :reset ;; SELECT IS_FREE_LOCK('{lock}')",
            "INSERT INTO t (b) VALUES ('{w}') ;; :reset ;; SELECT LAST_INSERT_ID()",
            ":prepare {p} SELECT 1 ;; :reset ;; :execute {p}",
            "SELECT SQL_CALC_FOUND_ROWS id FROM t LIMIT 1 ;; :reset ;; SELECT FOUND_ROWS()",
            "BEGIN ;; SELECT SQL_CALC_FOUND_ROWS id FROM t LIMIT 2 ;; :reset ;; SELECT FOUND_ROWS()",
            "SELECT SQL_CALC_FOUND_ROWS id FROM t LIMIT 1 ;; SET @a = 1 ;; :reset ;; \
             SELECT FOUND_ROWS()",
            "SET NAMES latin1 ;; :reset ;; SELECT @@character_set_client, @@collation_connection",
            "SET autocommit = 0 ;; :reset ;; SELECT @@autocommit",
            "SELECT 'x' + 0 ;; :reset ;; SHOW WARNINGS",
            ":user {0|1|2} schema",
            ":user {0|1|2} ;; SELECT DATABASE() ;; :use {s}",
            "SET @a = 1, max_sort_length = 99 ;; :user {0|1|2} schema ;; \
             SELECT @a, @@max_sort_length, CURRENT_USER()",
            "BEGIN ;; INSERT INTO t (b) VALUES ('{w}') ;; :user {0|1|2} schema ;; \
             SELECT COUNT(*) FROM t",
            ":prepare {p} SELECT 1 ;; :user {0|1|2} schema ;; :execute {p}",
            "SELECT GET_LOCK('{lock}', 0) ;; :user {0|1|2} schema ;; SELECT IS_FREE_LOCK('{lock}')",
            ":option 0",
            ":option 1",
            ":option 1 ;; SELECT 1; SELECT 2 ;; :option 0 ;; SELECT 1; SELECT 2",
            ":option 7",
            ":raw \\x2a",
            ":raw \\x00",
            ":raw \\x05name",
            ":fields absent",
            ":fields m",
        ],
    },
    Topic {
        name: "ends",
        when: When::Always,
        kinds: &[
            ":quit ;; :connect",
            ":vanish ;; :connect",
            "BEGIN ;; INSERT INTO m (b) VALUES ('kept') ;; :quit ;; :connect",
            "SET @a = 1 ;; :quit ;; :connect ;; SELECT @a",
            "CREATE TEMPORARY TABLE IF NOT EXISTS tmp (i INT) ;; :quit ;; :connect ;; \
             SELECT * FROM {s}.tmp",
            "SET max_sort_length = 70 ;; :quit ;; :connect ;; SELECT @@max_sort_length",
            "KILL QUERY {id}",
            "KILL {id} ;; :connect",
            "KILL CONNECTION {id} ;; SELECT 1 ;; :connect",
            "KILL HARD QUERY {id}",
            "KILL SOFT CONNECTION {id} ;; :connect",
            "KILL QUERY ID 999999999999",
            "KILL 4294967295",
            "KILL CONNECTION_ID() ;; :connect",
            "KILL 'text'",
            "KILL QUERY '{id}'",
            ":prepare {p} KILL QUERY ? ;; :execute {p} number:{id} ;; :execute {p} untyped number:{id}",
            ":prepare {p} KILL QUERY ? ;; :execute {p} text:{id}",
            ":prepare {p} KILL ? ;; :execute {p} number:{id} ;; SELECT 1 ;; :connect",
            ":prepare {p} KILL CONNECTION ? ;; :execute {p} null ;; :execute {p} text:none",
        ],
    },
    Topic {
        name: "kills of others",
        when: When::InTurns,
        kinds: &[
            ":quit ;; :connect ;; KILL {victim}",
            ":quit ;; :connect ;; KILL QUERY {victim}",
            ":quit ;; :connect ;; KILL CONNECTION {victim}",
            ":quit ;; :connect ;; :kill {victim}",
            ":quit ;; :connect ;; :prepare {p} KILL ? ;; :execute {p} number:{victim}",
            ":quit ;; :connect ;; :prepare {p} KILL CONNECTION ? ;; :execute {p} text:{victim}",
            ":quit ;; :connect ;; :prepare {p} KILL QUERY ? ;; :execute {p} number:{victim} ;; \
             :execute {p} untyped number:{victim}",
        ],
    },
];
