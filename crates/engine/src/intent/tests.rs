//! Which texts pin, and why.

use wire::lex::Dialect;
use wire::text::{Lexed, TOKENS_MAX};

use super::builtins::LONGEST;
use super::*;
use crate::counts::{Asked, Finds};
use crate::pin::Pin;
use crate::session_variables::SessionVariable;

fn read(text: &str) -> Intent {
    Intent::read(Lexed::default().text(text.as_bytes(), Dialect::default()))
}

#[track_caller]
fn check(text: &str, pin: Option<Pin>) {
    assert_eq!(read(text).pin, pin, "{text}");
}

#[test]
fn the_list_of_builtins_is_sorted_and_fits() {
    assert!(builtins::BUILTINS.is_sorted());
    assert!(builtins::BUILTINS.iter().all(|name| name.len() <= LONGEST));
}

#[test]
fn everyday_statements_are_harmless() {
    for text in [
        "SELECT c FROM sbtest1 WHERE id=5",
        "select count(*), `a`.`b`, max( x ) from t where y in (1,2) and z between (3) and (4)",
        "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN 1 AND 100",
        "(SELECT 1) UNION (SELECT 2)",
        "WITH c AS (SELECT 1) SELECT * FROM c",
        "WITH RECURSIVE c (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 9) SELECT * FROM c",
        "WITH a (x, y) AS (SELECT 1, 2), b (z) AS (SELECT x FROM a) DELETE FROM t WHERE id IN (SELECT z FROM b)",
        "WITH `a` (x), `b` (y) AS (SELECT 1) TABLE b",
        "SELECT * FROM (WITH a (x) AS (SELECT 1) SELECT x FROM a) AS d (y)",
        "SELECT y FROM (VALUES (1), (2)) AS `d` (y) JOIN (SELECT 3) e (z)",
        "INSERT INTO t (a, b) VALUES (1, 2) AS new (x, y) ON DUPLICATE KEY UPDATE a = new.x + new.y",
        "LOAD DATA INFILE 'f' INTO TABLE l (a, b)",
        "LOAD DATA LOCAL INFILE 'f' IGNORE INTO TABLE s.l PARTITION (p) CHARACTER SET utf8mb4 (a, b) SET b = lower(a)",
        "INSERT INTO sbtest1 (id, k, c, pad) VALUES (0, 1, 'GET_LOCK(@x)', '')",
        "insert into db.t (a) select concat(a, 'x') from u on duplicate key update a = values(a)",
        "REPLACE `t` (`a`) VALUES (now())",
        "UPDATE t SET k=k+1 WHERE id=1",
        "DELETE FROM t WHERE id=1 /* SET @a=1 */",
        "BEGIN",
        "start transaction read only",
        "COMMIT",
        "ROLLBACK TO SAVEPOINT a",
        "SELECT @@version_comment LIMIT 1",
        "SELECT @@session.tx_isolation, @@max_allowed_packet",
        "SHOW TABLES",
        "CREATE TABLE t (id int(11), k varchar(20) default 'x', key kk (k))",
        "DROP TABLE IF EXISTS t",
        "USE `test`",
        "KILL QUERY 7",
        "",
        "/* nothing */",
        "SELECT /*!40001 SQL_NO_CACHE */ * FROM t",
        "SELECT x.get_lock FROM x",
        // What they leave is a message, which the next statement replaces.
        "SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'no', MYSQL_ERRNO = 1213",
        "RESIGNAL SQLSTATE '45000'",
    ] {
        check(text, None);
    }
}

#[test]
fn whatever_leaves_state_behind_pins() {
    use Pin::{
        Call, FoundRows, Function, Handler, InsertId, Sequence, Set, State, TableLock,
        TemporaryTable, TextPrepare, Unreadable, UserLock, UserVariable, Xa,
    };
    for (text, pin) in [
        ("SELECT db.lower(1)", Function),
        ("SET @@timestamp = 5", Set),
        ("SET timestamp = 5", Set),
        ("SET SESSION rand_seed1 = 5", Set),
        ("SET ROLE NONE", Pin::Role),
        ("SET PASSWORD = 'x'", Set),
        ("SET a.b = 1", Set),
        ("SET sql_mode := ''", Set),
        ("SET", Set),
        ("SET sql_mode = '', @a = 1", UserVariable),
        ("SET sql_mode = (@a := '')", UserVariable),
        ("SET sql_mode = @a", UserVariable),
        ("SET sql_mode = my_function()", Function),
        ("SET sql_mode = ''; SELECT 1", Set),
        ("SET sql_mode = 'abc", Unreadable),
        ("SET STATEMENT max_statement_time=1 FOR SELECT 1", Set),
        ("SELECT @a := 1", UserVariable),
        ("SELECT 1 INTO @a", UserVariable),
        ("INSERT INTO t SELECT @r := 1", UserVariable),
        ("CREATE TEMPORARY TABLE x AS SELECT 1", TemporaryTable),
        ("CREATE OR REPLACE TEMPORARY TABLE x (a int)", TemporaryTable),
        ("SELECT get_lock ('a', 1)", UserLock),
        ("SELECT 1 FROM t WHERE GET_LOCK('a', 1)", UserLock),
        ("FLUSH TABLES WITH READ LOCK", TableLock),
        ("FLUSH TABLES t FOR EXPORT", TableLock),
        ("BACKUP STAGE START", TableLock),
        ("LOCK TABLES t READ", TableLock),
        ("HANDLER t OPEN", Handler),
        ("SELECT SQL_CALC_FOUND_ROWS * FROM t", FoundRows),
        ("SELECT LAST_INSERT_ID(7)", InsertId),
        ("SELECT NEXT VALUE FOR s", Sequence),
        ("SELECT nextval(s)", Sequence),
        ("CALL p()", Call),
        ("SELECT my_function(1)", Function),
        ("SELECT db.my_function (1)", Function),
        ("SELECT `my function`(1)", Function),
        ("SELECT \"my_function\" (1)", Function),
        ("INSERT INTO t (a) VALUES (my_function(1))", Function),
        ("LOAD DATA INFILE 'f' INTO TABLE l (a, b) SET b = my_function(a)", Function),
        ("LOAD DATA INFILE 'f' INTO TABLE l (a, b); SELECT my_function(1)", Function),
        ("WITH c (n) AS (SELECT my_function(1)) SELECT n FROM c", Function),
        ("WITH c (n) AS (SELECT 1) SELECT my_function(n) FROM c", Function),
        ("WITH c (n) AS (SELECT 1) DELETE FROM t WHERE my_function(1)", Function),
        ("WITH c (n) AS (SELECT 1), d AS (VALUES (my_function(1))) SELECT 1 FROM c", Function),
        ("SELECT (1), my_function(1)", Function),
        ("SELECT 1 AS a, my_function(1)", Function),
        ("SELECT 1 /*!99999 AS a */, my_function(1)", Function),
        // A server that leaves out the comment calls it.
        ("SELECT 1, /*!99999 2 AS */ my_function(1)", Function),
        ("WITH c (n) AS (SELECT 1) /*!40000 SELECT */ my_function(1)", Function),
        ("PREPARE s FROM 'SELECT 1'", TextPrepare),
        ("EXECUTE IMMEDIATE 'SELECT 1'", TextPrepare),
        ("XA START 'a'", Xa),
        ("GET DIAGNOSTICS @x = NUMBER", UserVariable),
        ("COMMIT RELEASE", State),
        ("BEGIN NOT ATOMIC SELECT 1; END", Unreadable),
        ("CREATE PROCEDURE p() SELECT 1", Unreadable),
        ("FROBNICATE", Unreadable),
        ("SELECT 'abc", Unreadable),
        ("/*!50000 SET sql_mode='' */", Set),
        ("/*M!100000 SET sql_mode='' */", Set),
        ("SET /*!99999 GLOBAL */ sql_mode=''", Set),
        ("SELECT 1; SET sql_mode=''", Set),
        ("SELECT 1 /*! INTO @a */", UserVariable),
        ("(((SET @a=1)))", UserVariable),
    ] {
        check(text, Some(pin));
    }
}

#[test]
fn what_is_set_for_one_statement_hides_nothing_of_it() {
    let text = "SET STATEMENT sql_mode = 'ANSI' FOR SELECT 1";
    assert!(read(text).has(Trait::PassingMode));
    assert_eq!(read(text).pin, Some(Pin::Set));
    let text = "SET STATEMENT sort_buffer_size = (SELECT 1 FOR UPDATE) FOR KILL 5";
    assert!(!read(text).has(Trait::PassingMode) && read(text).has(Trait::Kill));
    assert!(!read("SET sql_mode = 'ANSI'").has(Trait::PassingMode));
    assert!(read("SET STATEMENT a = 1 FOR SELECT LAST_INSERT_ID()").has(Trait::AsksInsertId));
}

#[test]
fn what_a_statement_finds_is_known_of_plain_ones() {
    use Finds::{Anew, Nothing, Rows, Unknown};
    for (text, finds) in [
        ("SELECT a, b FROM t WHERE a IN (1, 2) ORDER BY a, b LIMIT 2", Rows),
        ("SET NAMES utf8mb4", Nothing),
        ("COMMIT", Nothing),
        ("USE a", Nothing),
        ("SHOW WARNINGS LIMIT 1", Nothing),
        ("SHOW COUNT(*) ERRORS", Unknown),
        ("SELECT SQL_CALC_FOUND_ROWS a FROM t LIMIT 1", Anew),
        ("SELECT a FROM t LIMIT 1, 2", Anew),
        ("SELECT a FROM t LIMIT 2 OFFSET 1", Anew),
        ("SELECT a FROM t UNION SELECT 2", Anew),
        ("SELECT (SELECT 1)", Anew),
        ("SELECT a FROM t FOR UPDATE", Anew),
        ("SET sql_mode = (SELECT 1)", Unknown),
        ("SELECT 1; SELECT 2", Unknown),
        ("SHOW TABLES", Unknown),
        ("UPDATE t SET a = 1", Unknown),
        ("INSERT INTO t (a) VALUES (1), (2) ON DUPLICATE KEY UPDATE a = 2", Nothing),
        ("REPLACE INTO t SET a = 1", Nothing),
        ("INSERT INTO t SELECT 1", Unknown),
        ("INSERT INTO t (a) VALUES ((SELECT 1))", Unknown),
        ("INSERT INTO t TABLE u", Unknown),
        ("INSERT INTO t VALUES (1); SELECT 2", Unknown),
    ] {
        assert_eq!(read(text).finds, finds, "{text}");
    }
}

#[test]
fn only_a_plain_use_enters_a_schema_and_does_no_more() {
    for text in ["USE a", "use `b` ;", " /* c */ USE a"] {
        assert_eq!(read(text).moves, Moves::IntoSchema, "{text}");
    }
    for text in ["USE a; SELECT * FROM b.v", "SELECT 1; USE a", "USE /*!50000 a */", "SELECT 1"] {
        assert_eq!(read(text).moves, Moves::No, "{text}");
    }
}

#[test]
fn a_set_that_reads_tables_may_do_more_than_it_says() {
    for text in [
        "SET sql_mode = (SELECT a FROM b.v)",
        "SET @@max_sort_length = (SELECT a FROM v LIMIT 1)",
        "SET sql_mode = (WITH a AS (SELECT 1) SELECT * FROM a)",
    ] {
        assert_eq!((read(text).pin, read(text).sets), (Some(Pin::Set), None), "{text}");
    }
    assert_eq!(read("SET sql_mode = (SELECT REPLACE(@@sql_mode, 'a', ''))").pin, None);
}

#[test]
fn who_may_make_an_insert_id_is_known() {
    use Inserts::{No, Reported, Unreported};
    for (text, inserts) in [
        ("INSERT INTO t VALUES (1, 2)", Reported),
        ("REPLACE INTO t (a, b) VALUES (f(1), (2))", Reported),
        ("INSERT INTO t SET a = REPLACE('a', 'b', 'c')", Reported),
        ("CREATE TABLE t (a INT)", Reported),
        ("INSERT INTO t (a) VALUES (1), (2)", Unreported),
        ("INSERT INTO t SELECT 1", Unreported),
        ("CREATE TABLE t AS SELECT 1", Unreported),
        ("INSERT INTO t VALUES (1) RETURNING a", Unreported),
        ("LOAD DATA LOCAL INFILE 'a' INTO TABLE t", Unreported),
        ("ANALYZE INSERT INTO t VALUES (1)", Unreported),
        ("SELECT (1), (2)", No),
        ("UPDATE t SET a = 1", No),
    ] {
        assert_eq!(read(text).inserts, inserts, "{text}");
    }
}

#[test]
fn the_past_is_asked_for_by_name() {
    assert!(read("SELECT LAST_INSERT_ID()").has(Trait::AsksInsertId));
    assert!(read("SELECT @@identity").has(Trait::AsksInsertId));
    assert_eq!(read("SELECT LAST_INSERT_ID( )").pin, None);
    for (text, affected, found) in [
        ("SELECT ROW_COUNT()", true, false),
        ("SELECT FOUND_ROWS()", false, true),
        ("INSERT INTO t VALUES (ROW_COUNT(), FOUND_ROWS())", true, true),
        ("GET DIAGNOSTICS @x = ROW_COUNT", true, false),
        ("SET STATEMENT a = 1 FOR SELECT ROW_COUNT()", true, false),
        ("UPDATE t SET a = 1; SELECT ROW_COUNT(), FOUND_ROWS()", false, false),
    ] {
        assert_eq!(read(text).counts, Asked { affected, found }, "{text}");
    }
    for (text, diagnostics) in [
        ("SHOW WARNINGS", DiagnosticsUse::Shown),
        ("SHOW ERRORS LIMIT 1", DiagnosticsUse::Shown),
        ("SHOW COUNT(*) ERRORS", DiagnosticsUse::Counted),
        ("SELECT @@warning_count, @@session.error_count", DiagnosticsUse::Spent),
        ("SELECT @@warning_count FROM t", DiagnosticsUse::Go),
        ("INSERT INTO t VALUES (@@warning_count)", DiagnosticsUse::Go),
        ("SELECT 1; SHOW WARNINGS", DiagnosticsUse::Diagnosed),
        ("SELECT @@warning_count; SHOW WARNINGS", DiagnosticsUse::Diagnosed),
        ("SHOW WARNINGS; SELECT @@warning_count", DiagnosticsUse::Diagnosed),
        ("GET DIAGNOSTICS @x = NUMBER", DiagnosticsUse::Diagnosed),
        ("SIGNAL SQLSTATE '01000'", DiagnosticsUse::Go),
        ("RESIGNAL", DiagnosticsUse::Diagnosed),
        ("SELECT 1", DiagnosticsUse::Stay),
        ("SELECT 1 FROM DUAL", DiagnosticsUse::Stay),
        ("BEGIN", DiagnosticsUse::Stay),
        ("SET sql_mode=''", DiagnosticsUse::Stay),
        ("SET STATEMENT sql_mode='' FOR SELECT 1", DiagnosticsUse::Unsure),
        ("SELECT EXTRACT(DAY FROM x)", DiagnosticsUse::Unsure),
        ("SELECT TRIM('a' FROM 'abc')", DiagnosticsUse::Unsure),
        ("SELECT (SELECT a FROM t)", DiagnosticsUse::Unsure),
        ("SET @a = (SELECT a FROM t)", DiagnosticsUse::Unsure),
        ("SELECT NEXTVAL(s)", DiagnosticsUse::Unsure),
        ("SELECT f()", DiagnosticsUse::Unsure),
        ("SELECT 1; FLUSH TABLES", DiagnosticsUse::Unsure),
        ("CREATE DATABASE d", DiagnosticsUse::Unsure),
        ("CALL p()", DiagnosticsUse::Unsure),
        ("DROP PROCEDURE p; DROP TABLE t", DiagnosticsUse::Unsure),
        ("SHOW GRANTS", DiagnosticsUse::Unsure),
        ("SHOW TABLES", DiagnosticsUse::Go),
        ("SHOW CREATE TABLE t", DiagnosticsUse::Go),
        ("CREATE TABLE t (a INT)", DiagnosticsUse::Go),
        ("DROP TABLE IF EXISTS t", DiagnosticsUse::Go),
        ("SELECT a FROM t", DiagnosticsUse::Go),
        ("SELECT a FROM (SELECT 1 AS a) t", DiagnosticsUse::Go),
        ("SELECT a FROM `t`", DiagnosticsUse::Go),
        ("INSERT INTO t VALUES (1)", DiagnosticsUse::Go),
    ] {
        assert_eq!(read(text).diagnostics, diagnostics, "{text}");
    }
    assert!(read("SELECT connection_id()").has(Trait::AsksConnectionId));
    assert!(read("SHOW VARIABLES LIKE 'last_insert_id'").has(Trait::ShowsVariables));
    assert!(
        read("SELECT * FROM performance_schema.session_variables")
            .traits
            .has(Trait::ShowsVariables)
    );
    assert!(read("SELECT * FROM system_variables").read.is_none());
    assert!(!read("SHOW GLOBAL VARIABLES").has(Trait::ShowsVariables));
    assert!(read("KILL 5").has(Trait::Kill));
}

#[test]
fn transactions_begin_and_end() {
    for text in ["BEGIN", "begin work", "START TRANSACTION", "BEGIN;"] {
        assert!(read(text).has(Trait::Begin), "{text}");
    }
    for text in [
        "BEGIN; SELECT 1",
        "START SLAVE",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT",
        "START TRANSACTION READ ONLY",
        "BEGIN NOT ATOMIC SELECT 1; END",
        "BEGIN /*!50000 */",
    ] {
        assert!(!read(text).has(Trait::Begin), "{text}");
    }
    assert!(read("COMMIT").has(Trait::End) && read("rollback work").has(Trait::End));
    for text in ["COMMIT AND CHAIN", "ROLLBACK TO SAVEPOINT a", "COMMIT RELEASE", "COMMIT; BEGIN"] {
        assert!(!read(text).has(Trait::End), "{text}");
    }
    assert!(
        read("COMMIT").has(Trait::EndsTransaction) && read("rollback").has(Trait::EndsTransaction)
    );
}

#[test]
fn a_backslash_hides_nothing_where_it_is_a_letter() {
    let text = br"SELECT 'a\'; SET @x=1 -- '";
    let plain = Dialect { backslash_escapes: false, ..Dialect::default() };
    assert_eq!(Intent::read(Lexed::default().text(text, plain)).pin, Some(Pin::UserVariable));
    assert_eq!(Intent::read(Lexed::default().text(text, Dialect::default())).pin, None);
}

#[test]
fn what_routines_may_do_is_told_from_what_the_text_does() {
    for (text, besides) in [
        ("CALL p(1)", None),
        ("SELECT f(1)", None),
        ("CALL p(@a)", Some(Pin::UserVariable)),
        ("SELECT f(GET_LOCK('a', 1))", Some(Pin::UserLock)),
        ("CALL p(1); LOCK TABLES t READ", Some(Pin::TableLock)),
    ] {
        let intent = read(text);
        assert!(matches!(intent.pin, Some(Pin::Call | Pin::Function)), "{text}");
        assert_eq!(intent.besides_routines, besides, "{text}");
    }
}

#[test]
fn known_variables_are_set_without_a_pin() {
    let asks = |names: &[&str]| {
        let mut asked = crate::session_variables::Several::default();
        names.iter().for_each(|name| asked.add(SessionVariable::named(name.as_bytes()).unwrap()));
        asked
    };
    for (text, unreported, count) in [
        ("SET autocommit=1", &[][..], 1),
        (
            "set Session sql_mode = concat(@@sql_mode, ',STRICT_ALL_TABLES'), local time_zone='+1:00'",
            &[],
            2,
        ),
        ("SET @@session.sql_mode='', @@LOCAL.`wait_timeout`=700", &[], 2),
        ("SET @@global.timestamp=5, GLOBAL what_ever=7", &[], 2),
        ("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ ONLY", &[], 1),
        ("SET TRANSACTION READ ONLY", &[], 1),
        ("SET @@sql_mode = DEFAULT, `autocommit`=0", &["sql_mode"], 2),
        ("SET NAMES utf8mb4", &["collation_connection"], 1),
        ("SET CHARACTER SET 'utf8mb4'", &["collation_connection"], 1),
        ("SET charset utf8mb4, character_set_connection=latin1", &["collation_connection"], 2),
        ("SET collation_connection=utf8mb4_bin", &[], 1),
    ] {
        let intent = read(text);
        assert_eq!(intent.pin, None, "{text}");
        let sets = intent.sets.expect(text);
        assert_eq!((sets.unreported, sets.count), (asks(unreported), count), "{text}");
    }
}

#[test]
fn a_client_may_ask_for_reports() {
    let text = "SET sql_mode=CONCAT(@@sql_mode,',ANSI'),session_track_system_variables = \
        CONCAT(@@global.session_track_system_variables,',tx_isolation'),NAMES utf8mb4";
    let sets = read(text).sets.expect("is nothing else");
    assert!(sets.has(SetMark::Tracks) && sets.count == 3 && !sets.has(SetMark::NamesCollation));
    let sets = read(&format!("{text} COLLATE utf8mb4_bin")).sets.expect("is nothing else");
    assert!(sets.has(SetMark::Tracks) && sets.has(SetMark::NamesCollation));
    assert!(
        read("SET @@Session_Track_System_Variables=''")
            .sets
            .is_some_and(|sets| sets.has(SetMark::Tracks))
    );
    assert!(
        read("SET GLOBAL session_track_system_variables=''")
            .sets
            .is_some_and(|it| !it.marks.has(SetMark::Tracks))
    );
    check("SET session_track_schema=OFF", Some(Pin::Set));
    // Without a scope these are the next transaction's, with one the session's.
    check("SET @@tx_read_only=0", Some(Pin::Set));
    check("SET @@Transaction_Isolation='SERIALIZABLE'", Some(Pin::Set));
    check("SET @@session.tx_read_only=0", None);
    check("SET tx_read_only=0", None);
}

#[test]
fn only_names_alone_depend_on_nothing_else() {
    for (text, is_names) in [
        ("SET NAMES utf8mb4", true),
        ("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_bin'", true),
        ("SET NAMES DEFAULT", false),
        ("SET NAMES utf8mb4, sql_mode=''", false),
        ("SET sql_mode='', NAMES utf8mb4", false),
        ("SET CHARACTER SET utf8mb4", false),
        ("SET sql_mode=''", false),
    ] {
        assert_eq!(read(text).sets.expect(text).has(SetMark::Names), is_names, "{text}");
    }
}

#[test]
fn statements_that_differ_in_literals_have_one_digest() {
    let point = read("SELECT c FROM t WHERE id=5").read;
    assert!(point.is_some());
    for text in [
        "SELECT  c FROM t WHERE id = 'x' ",
        "SELECT c /* hint */ FROM t WHERE id=0x17",
        "SELECT c FROM t WHERE id=1,2, 3",
    ] {
        assert_eq!(read(text).read, point, "{text}");
    }
    for text in [
        "SELECT c FROM u WHERE id=5",
        "SELECT d FROM t WHERE id=5",
        "SELECT c FROM t WHERE id>5",
        "SELECT c FROM t WHERE id=id",
        "SELECT `c` FROM t WHERE id=5",
    ] {
        let other = read(text).read;
        assert!(other.is_some() && other != point, "{text}");
    }
}

#[test]
fn any_text_has_a_digest() {
    let digest =
        |text: &str| Digest::of(Lexed::default().text(text.as_bytes(), Dialect::default()));
    assert_eq!(digest("SET @a = 1"), digest("SET  @a = 'x'"));
    assert_ne!(digest("SET @a = 1"), digest("CALL p(1)"));
    assert_eq!(Some(digest("SELECT a FROM t WHERE b=1")), read("SELECT a FROM t WHERE b=2").read);
}

#[test]
fn only_what_could_run_twice_unnoticed_is_a_read() {
    for text in [
        "INSERT INTO t VALUES (1)",
        "UPDATE t SET a=1",
        "SELECT 1; SELECT 2",
        "SELECT 1; DELETE FROM t",
        "SELECT a FROM t FOR UPDATE",
        "SELECT a FROM t LOCK IN SHARE MODE",
        "SELECT a FROM t FOR SHARE",
        "SELECT a FROM t INTO OUTFILE 'x'",
        "SELECT @a",
        "SELECT f(1)",
        "SELECT NEXTVAL(s)",
        "SELECT LAST_INSERT_ID()",
        "SELECT FOUND_ROWS()",
        "SELECT /*! SQL_NO_CACHE */ 1",
        "SELECT 'unfinished",
        "SHOW TABLES",
        "BEGIN",
        "SET a=1",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "",
    ] {
        assert_eq!(read(text).read, None, "{text}");
    }
    assert!(read("(SELECT 1) UNION (SELECT count(*) FROM t)").read.is_some());
}

#[test]
fn any_of_several_reasons_may_be_beyond_a_reset() {
    for text in ["SET ROLE r", "SET @a = 1; SET ROLE r", "SELECT @a := 1; XA START 'a'"] {
        assert!(read(text).has(Trait::BeyondReset), "{text}");
    }
    for text in ["SET @a = 1", "SELECT GET_LOCK('a', 0)", "SELECT @a := f()"] {
        assert!(!read(text).has(Trait::BeyondReset), "{text}");
    }
    assert!(
        read("SET @a = 1; CALL p()").has(Trait::Calls)
            && read("SELECT @a := f()").has(Trait::Calls)
    );
}

#[test]
fn what_may_commit_is_told_from_what_cannot() {
    for text in [
        "SELECT 1",
        "(SELECT 1)",
        "insert into t values (1)",
        "UPDATE t SET a = f(1)",
        "DELETE FROM t",
        "REPLACE t VALUES (1)",
        "WITH c AS (SELECT 1) SELECT * FROM c",
        "SHOW TABLES",
        "USE db",
        "RELEASE SAVEPOINT a",
        "ROLLBACK TO a",
        "ROLLBACK AND CHAIN",
        "SET NAMES utf8mb4",
        "SET sql_mode = ''",
        "SELECT 1;",
    ] {
        assert_eq!(read(text).ends, Ends::Never, "{text}");
    }
    assert_eq!(read("SAVEPOINT a").ends, Ends::Saves);
    for (text, ends) in [
        ("COMMIT WORK", Ends::Committed),
        ("COMMIT AND CHAIN", Ends::Perhaps),
        ("SAVEPOINT a; SELECT 1", Ends::Perhaps),
    ] {
        assert_eq!(read(text).ends, ends, "{text}");
    }
    for text in [
        "SET autocommit = 1",
        "set @@session.AUTOCOMMIT=ON;",
        "SET SESSION autocommit = TRUE",
        "SET @@autocommit = 1 -- x",
    ] {
        assert_eq!(read(text).ends, Ends::TurnsAutocommitOn, "{text}");
    }
    for text in ["ROLLBACK", "rollback work", " /* x */ ROLLBACK;"] {
        assert_eq!(read(text).ends, Ends::Undone, "{text}");
    }
    for text in [
        "",
        "BEGIN",
        "START TRANSACTION",
        "SET autocommit = 0",
        "SET autocommit = 1 = 0",
        "SET autocommit = (1)",
        "SET autocommit = DEFAULT",
        "SET autocommit = 1, sql_mode = ''",
        "SET autocommit = 1, autocommit = 0",
        "SET NAMES utf8mb4, autocommit = 1",
        "SET GLOBAL autocommit = 1",
        "SET autocommit = 1; COMMIT",
        "SET STATEMENT autocommit = 1 FOR COMMIT",
        "SET GLOBAL max_connections = 5",
        "SET PASSWORD = PASSWORD('x')",
        "SET STATEMENT max_statement_time = 1 FOR COMMIT",
        "CREATE TABLE t (a INT)",
        "ALTER TABLE t ADD b INT",
        "TRUNCATE t",
        "LOCK TABLES t WRITE",
        "ANALYZE TABLE t",
        "LOAD DATA INFILE 'x' INTO TABLE t",
        "CALL p()",
        "XA END 'a'",
        "UPDATE t SET a = 1; COMMIT",
        "ROLLBACK; COMMIT",
        "/*! COMMIT */",
        "SELECT 1 /*! ; COMMIT */",
        "GRANT ALL ON t TO a",
    ] {
        assert_eq!(read(text).ends, Ends::Perhaps, "{text}");
    }
}

#[test]
fn what_shows_may_fail_while_it_looks_up() {
    for text in [
        "SHOW INDEX FROM absent",
        "show full tables from absent",
        "DESC absent",
        "DESCRIBE `select` a",
        "EXPLAIN absent",
        "EXPLAIN FOR 7",
        "SHOW TABLES; SHOW INDEX FROM absent",
    ] {
        assert_eq!(read(text).looks_up, LooksUp::Yes, "{text}");
    }
    for text in ["DO 1; SHOW INDEX FROM absent", "CALL p()", "SHOW INDEX /*! FROM */ absent"] {
        assert_eq!(read(text).looks_up, LooksUp::Perhaps, "{text}");
    }
    for text in [
        "SHOW CREATE TABLE absent",
        "EXPLAIN SELECT 1",
        "DESC (SELECT 1)",
        "EXPLAIN FORMAT=JSON SELECT 1",
        "SELECT 1 FROM absent",
        "SET @a = 'SHOW'",
    ] {
        assert_eq!(read(text).looks_up, LooksUp::No, "{text}");
    }
}

#[test]
fn what_writes_may_fire_triggers() {
    for text in [
        "INSERT INTO t VALUES (1)",
        "DO 1; delete from t",
        "SET STATEMENT max_statement_time = 1 FOR UPDATE t SET a = 1",
        "/*!50000 REPLACE */ INTO t VALUES (1)",
        "LOAD DATA INFILE 'x' INTO TABLE t",
    ] {
        assert!(read(text).has(Trait::Fires), "{text}");
    }
    for text in ["SELECT 1 FROM t FOR UPDATE", "TRUNCATE t", "SET @a = 'UPDATE'", "SHOW TABLES"] {
        assert!(!read(text).has(Trait::Fires), "{text}");
    }
}

#[test]
fn a_text_of_any_length_is_read_and_one_of_any_number_of_tokens_is_not() {
    let long = format!("INSERT INTO t VALUES ('{}')", "x".repeat(12 << 20));
    assert_eq!(read(&long), read("INSERT INTO t VALUES ('x')"));
    let of = |numbers: usize| format!("SELECT a FROM t WHERE b IN (1{})", ",1".repeat(numbers));
    let few = read(&of(TOKENS_MAX / 2 - 8));
    assert_eq!((few.pin, few.finds), (None, Finds::Rows));
    let many = read(&of(TOKENS_MAX / 2));
    assert_eq!((many.pin, many.finds, many.read), (Some(Pin::Unreadable), Finds::Unknown, None));
}

#[test]
fn only_what_certainly_defines_nothing_alters_nothing() {
    for text in [
        "select 1",
        "(SELECT 1)",
        " INSERT INTO t VALUES (1);",
        "/* a client's name */ UPDATE t SET a = 1",
        "WITH c AS (SELECT 1) SELECT 1 FROM c",
        "EXPLAIN SELECT 1",
        "COMMIT",
        "SET a = 1",
        "SET STATEMENT max_statement_time=1 FOR SELECT 1",
        "Use shop",
        "SELECT 1; DELETE FROM t",
        "",
    ] {
        assert!(!read(text).has(Trait::Alters), "{text}");
    }
    for text in [
        "DROP DATABASE shop",
        "/* a client's name */ DROP VIEW v",
        "SELECT 1; DROP DATABASE shop",
        "SELECT 1; /*!50000 DROP DATABASE shop */",
        "SELECT 1; DELIMITER",
        "SET STATEMENT max_statement_time=1 FOR DROP DATABASE shop",
        "SET/**/STATEMENT a=1 FOR DROP DATABASE shop",
        "CALL p()",
        "EXECUTE s",
        "EXECUTE IMMEDIATE 'DROP VIEW v'",
        "REVOKE ALL ON shop.* FROM app",
        "FLUSH PRIVILEGES",
        "BEGIN NOT ATOMIC DROP VIEW v; END",
        "SELECT 'a",
        "?",
    ] {
        assert!(read(text).has(Trait::Alters), "{text}");
    }
}
