//! The columns, and what they make of statements.

use super::Column;

pub(super) const COLUMNS: &[Column] = &[
    Column {
        // Rules are gone through in the order of their numbers: here that of the file.
        name: "rule_id",
        rules: r"
            [[rules]]
            name = 'r1'
            delay = '1s'
            match.digest_matches = '^SELECT'
            [[rules]]
            name = 'r2'
            route.role = 'reader'
            then = 'next'
            match.digest_matches = 'FROM a'
            [[rules]]
            name = 'r3'
            route.role = 'writer'
            match.digest_matches = 'FROM (a|b)'
            [[rules]]
            name = 'r4'
            retries = 3
        ",
        cases: &[
            ("", "SELECT 1", "r1 r4: delay 1s; retries 3"),
            ("", "SELECT x FROM a", "r1 r2 r3: to writer; delay 1s"),
            ("", "SELECT x FROM b", "r1 r3: to writer; delay 1s"),
            ("", "DELETE FROM a", "r2 r3: to writer"),
            ("", "DELETE FROM c", "r4: retries 3"),
            ("", "UPDATE b SET x = 1", "r4: retries 3"),
            ("", "", "-"),
        ],
    },
    Column {
        name: "active",
        rules: r"
            [[rules]]
            name = 'off'
            enabled = false
            refuse = true
            [[rules]]
            name = 'on'
            enabled = true
            route.role = 'reader'
            match.table = 'a'
            [[rules]]
            name = 'usual'
            retries = 1
        ",
        cases: &[
            ("", "SELECT 1", "usual: retries 1"),
            ("", "SELECT x FROM a", "on: to reader"),
            ("", "SELECT 'no end", "usual: retries 1"),
            ("user=root", "DROP TABLE b", "usual: retries 1"),
        ],
    },
    Column {
        // A name counts capitals, as at the server. Flifo takes several, and patterns.
        name: "username",
        rules: r"
            [[rules]]
            name = 'one'
            route.role = 'reader'
            match.user = 'report'
            [[rules]]
            name = 'several'
            route.role = 'writer'
            match.user = ['etl', 'bi\_%']
            [[rules]]
            name = 'all'
            retries = 1
        ",
        cases: &[
            ("user=report", "SELECT 1", "one: to reader"),
            ("user=REPORT", "SELECT 1", "all: retries 1"),
            ("user=reports", "SELECT 1", "all: retries 1"),
            ("user=etl", "SELECT 1", "several: to writer"),
            ("user=bi_7", "SELECT 1", "several: to writer"),
            ("user=bix7", "SELECT 1", "all: retries 1"),
            ("user=", "SELECT 1", "all: retries 1"),
            ("user=app", "SELECT 'report'", "all: retries 1"),
            ("user=bi_", "SELECT 1", "several: to writer"),
            ("user=abi_7", "SELECT 1", "all: retries 1"),
            ("user=etl", "SELECT 1; SELECT 2", "several: to writer | several: to writer"),
        ],
    },
    Column {
        // The schema that the session is in by now, not the one that a statement names.
        name: "schemaname",
        rules: r"
            [[rules]]
            name = 'one'
            route.role = 'reader'
            match.schema = 'archive'
            [[rules]]
            name = 'several'
            route.role = 'writer'
            match.schema = ['old_%', 'new']
        ",
        cases: &[
            ("schema=archive", "SELECT 1", "one: to reader"),
            ("schema=ARCHIVE", "SELECT 1", "one: to reader"),
            ("schema=shop", "SELECT 1 FROM archive.t", "-"),
            ("schema=", "SELECT 1", "-"),
            ("schema=old_1", "SELECT 1", "several: to writer"),
            ("schema=new", "SELECT 1", "several: to writer"),
            ("schema=newer", "SELECT 1", "-"),
            ("schema=archive", "USE shop", "one: to reader"),
            ("schema=old_", "SELECT 1", "several: to writer"),
            ("schema=the_old_1", "SELECT 1", "-"),
        ],
    },
    Column {
        // Only rules of the chain that a statement is in are looked at; it begins in that without a name (0).
        name: "flagIN",
        rules: r"
            [[rules]]
            name = 'chained'
            label = 'reports'
            refuse = true
            [[rules]]
            name = 'enters'
            then = 'jump reports'
            match.user = 'report'
            [[rules]]
            name = 'in'
            label = 'reports'
            route.role = 'reader'
            match.kind = 'read'
            [[rules]]
            name = 'out'
            retries = 1
        ",
        cases: &[
            ("", "SELECT 1", "out: retries 1"),
            ("user=report", "SELECT 1", "enters in: to reader"),
            ("user=report", "DELETE FROM t", "enters"),
            ("user=app", "DELETE FROM t", "out: retries 1"),
            ("user=report", "SHOW TABLES", "enters in: to reader"),
            ("user=report", "SELECT 1; DELETE FROM t", "enters in: to reader | enters"),
        ],
    },
    Column {
        // `%` stands for the rest of an address there; here networks say it.
        name: "client_addr",
        rules: r"
            [[rules]]
            name = 'one'
            route.role = 'reader'
            match.address = '10.0.0.7'
            [[rules]]
            name = 'net'
            route.role = 'writer'
            match.address = ['10.1.0.0/16', 'fd00::/8']
            [[rules]]
            name = 'loopback'
            retries = 1
            match.address = '127.0.0.1'
        ",
        cases: &[
            ("from=10.0.0.7", "SELECT 1", "one: to reader"),
            ("from=10.0.0.8", "SELECT 1", "-"),
            ("from=10.1.2.3", "SELECT 1", "net: to writer"),
            ("from=10.2.2.3", "SELECT 1", "-"),
            ("from=fd12::1", "SELECT 1", "net: to writer"),
            ("from=fe80::1", "SELECT 1", "-"),
            ("from=::ffff:10.0.0.7", "SELECT 1", "one: to reader"),
            ("from=127.0.0.1", "SELECT 1", "loopback: retries 1"),
            ("from=socket", "SELECT 1", "-"),
            ("from=10.1.0.0", "SELECT 1", "net: to writer"),
            ("from=10.1.255.255", "SELECT 1", "net: to writer"),
            ("from=::1", "SELECT 1", "-"),
        ],
    },
    Column {
        // The address that the client came in by.
        name: "proxy_addr",
        rules: r"
            [[rules]]
            name = 'inside'
            route.role = 'reader'
            match.listener = '10.0.0.1:%'
            [[rules]]
            name = 'socket'
            route.role = 'writer'
            match.listener = '/%'
        ",
        cases: &[
            ("by=10.0.0.1:6033", "SELECT 1", "inside: to reader"),
            ("by=10.0.0.1:6034", "SELECT 1", "inside: to reader"),
            ("by=10.0.0.11:6033", "SELECT 1", "-"),
            ("by=127.0.0.1:6033", "SELECT 1", "-"),
            ("by=/run/flifo.sock", "SELECT 1", "socket: to writer"),
        ],
    },
    Column {
        name: "proxy_port",
        rules: r"
            [[rules]]
            name = 'reads'
            route.role = 'reader'
            match.listener = '%:6034'
            [[rules]]
            name = 'six'
            route.role = 'writer'
            match.listener = ['%:6035', '[::]:6036']
        ",
        cases: &[
            ("by=127.0.0.1:6034", "SELECT 1", "reads: to reader"),
            ("by=[::1]:6034", "INSERT INTO t VALUES (1)", "reads: to reader"),
            ("by=127.0.0.1:16034", "SELECT 1", "-"),
            ("by=127.0.0.1:6033", "SELECT 1", "-"),
            ("by=10.0.0.1:6035", "SELECT 1", "six: to writer"),
            ("by=[::]:6036", "SELECT 1", "six: to writer"),
            ("by=/run/6034", "SELECT 1", "-"),
        ],
    },
    Column {
        // A number there and here, though not the same one; here the statement itself as well.
        name: "digest",
        rules: r"
            [[rules]]
            name = 'text'
            route.role = 'reader'
            match.digest = 'SELECT a FROM t WHERE id = ?'
            [[rules]]
            name = 'list'
            route.role = 'writer'
            match.digest = ['SELECT b FROM t WHERE id IN (1)', 'DELETE FROM t WHERE id = 1']
            [[rules]]
            name = 'number'
            refuse = true
            match.digest = '0x0123456789abcdef'
        ",
        cases: &[
            ("", "SELECT a FROM t WHERE id = 7", "text: to reader"),
            ("", "select  a from t where id='x'", "text: to reader"),
            ("", "SELECT a FROM t WHERE id = ?", "text: to reader"),
            ("", "/* c */ SELECT a FROM t WHERE id = 7 -- c", "text: to reader"),
            ("", "SELECT a FROM t WHERE id = 7 OR 1", "-"),
            ("", "SELECT a FROM u WHERE id = 7", "-"),
            ("", "SELECT b FROM t WHERE id IN (1, 2, 3)", "list: to writer"),
            ("", "DELETE FROM t WHERE id = 8", "list: to writer"),
            ("", "DELETE FROM t WHERE id = 8 LIMIT 1", "-"),
            ("", "DELETE FROM T WHERE ID = -8", "-"),
            ("", "delete from t where id = 'a'", "list: to writer"),
            ("", "SELECT 'SELECT a FROM t WHERE id = 7'", "-"),
        ],
    },
    Column {
        // An expression over the text with ? for each literal.
        name: "match_digest",
        rules: r"
            [[rules]]
            name = 'update'
            route.role = 'writer'
            match.digest_matches = '^SELECT.*FOR UPDATE$'
            [[rules]]
            name = 'select'
            route.role = 'reader'
            match.digest_matches = '^SELECT'
            [[rules]]
            name = 'literal'
            delay = '1s'
            match.digest_matches = 'id = \?'
        ",
        cases: &[
            ("", "SELECT a FROM t", "select: to reader"),
            ("", "select a from t", "select: to reader"),
            ("", "SELECT a FROM t FOR UPDATE", "update: to writer"),
            ("", "SELECT a\nFROM t\nFOR UPDATE", "update: to writer"),
            ("", "SELECT a FROM t WHERE b = 'FOR UPDATE'", "select: to reader"),
            ("", "SELECT a FROM t FOR UPDATE /* x */", "update: to writer"),
            ("", "/* hint */ SELECT a FROM t", "select: to reader"),
            ("", "(SELECT a FROM t)", "-"),
            ("", "UPDATE t SET a = 1 WHERE id = 5", "literal: delay 1s"),
            ("", "UPDATE t SET a = 1 WHERE id = ?", "literal: delay 1s"),
            ("", "UPDATE t SET a = 1 WHERE id=5", "-"),
            ("", "INSERT INTO t VALUES ('SELECT')", "-"),
            ("", "SELECT 'no end", "-"),
        ],
    },
    Column {
        // An expression over the text as it is, literals and comments within it.
        name: "match_pattern",
        rules: r"
            [[rules]]
            name = 'seven'
            refuse = { number = 1148, message = 'no sevens' }
            match.text_matches = 'id = 7$'
            [[rules]]
            name = 'hinted'
            route.role = 'writer'
            match.text_matches = '/\* *to writer'
            [[rules]]
            name = 'dot'
            route.role = 'reader'
            match.text_matches = '^select.*t$'
        ",
        cases: &[
            ("", "SELECT a FROM t WHERE id = 7", "seven: error 1148 no sevens"),
            ("", "SELECT a FROM t WHERE id = 77", "-"),
            ("", "SELECT a FROM t WHERE id = 8", "-"),
            ("", "SELECT a FROM t WHERE id  = 7", "-"),
            ("", "SELECT /* to writer */ a FROM t", "hinted: to writer"),
            ("", "SELECT '/* to writer */'", "hinted: to writer"),
            ("", "SELECT a FROM t", "dot: to reader"),
            ("", "SELECT a\nFROM t", "dot: to reader"),
            ("", "SELECT a FROM u", "-"),
            ("", "SELECT 1; SELECT a FROM t WHERE id = 7", "- | seven: error 1148 no sevens"),
        ],
    },
    Column {
        // Turns the answer of the expression round, and nothing else of the rule.
        name: "negate_match_pattern",
        rules: r"
            [[rules]]
            name = 'not select'
            route.role = 'writer'
            match = { user = 'app', not = { digest_matches = '^SELECT' } }
            [[rules]]
            name = 'not seven'
            route.role = 'reader'
            match = { user = 'report', not = { text_matches = '7' } }
        ",
        cases: &[
            ("", "SELECT 1", "-"),
            ("", "UPDATE t SET a = 1", "not select: to writer"),
            ("", "SHOW TABLES", "not select: to writer"),
            ("user=other", "UPDATE t SET a = 1", "-"),
            ("user=report", "SELECT 1", "not seven: to reader"),
            ("user=report", "SELECT 7", "-"),
            ("user=report", "UPDATE t SET a = 1", "not seven: to reader"),
            ("", "(SELECT 1)", "not select: to writer"),
        ],
    },
    Column {
        // CASELESS is usual; (?-i) takes it away. GLOBAL is usual in `replace`.
        name: "re_modifiers",
        rules: r"
            [[rules]]
            name = 'caseless'
            delay = '1s'
            match.digest_matches = 'from orders'
            [[rules]]
            name = 'case'
            retries = 1
            match.digest_matches = '(?-i)from orders'
            [[rules]]
            name = 'global'
            replace = { find = 'o_ld', with = 'new' }
        ",
        cases: &[
            ("", "SELECT 1 FROM ORDERS", "caseless global: delay 1s"),
            ("", "select 1 from orders", "caseless case global: delay 1s; retries 1"),
            ("", "SELECT 1 From Orders", "caseless global: delay 1s"),
            ("", "SELECT o_ld, O_LD FROM t", "global: = SELECT new, new FROM t"),
            ("", "SELECT old FROM t", "global"),
        ],
    },
    Column {
        // A statement that hits goes on in another chain, further down.
        name: "flagOUT",
        rules: r"
            [[rules]]
            name = 'behind'
            label = 'two'
            refuse = true
            [[rules]]
            name = 'to one'
            then = 'jump one'
            delay = '1s'
            match.table = 'a'
            [[rules]]
            name = 'to two'
            then = 'jump two'
            match.table = 'b'
            [[rules]]
            name = 'one'
            label = 'one'
            then = 'jump two'
            retries = 1
            match.kind = 'read'
            [[rules]]
            name = 'two'
            label = 'two'
            route.role = 'reader'
            [[rules]]
            name = 'none'
            route.role = 'writer'
        ",
        cases: &[
            ("", "SELECT 1 FROM a", "to one one two: to reader; delay 1s; retries 1"),
            ("", "DELETE FROM a", "to one: delay 1s"),
            ("", "SELECT 1 FROM b", "to two two: to reader"),
            ("", "DELETE FROM b", "to two two: to reader"),
            ("", "SELECT 1 FROM c", "none: to writer"),
            ("", "SELECT 1 FROM a, b", "to one one two: to reader; delay 1s; retries 1"),
            (
                "",
                "SELECT 1 FROM a; SELECT 1 FROM c",
                "to one one two: to reader; delay 1s; retries 1 | none: to writer",
            ),
        ],
    },
    Column {
        // What the expression has found becomes this: \1 there is $1 here. A template knows what is a literal.
        name: "replace_pattern",
        rules: r"
            [[rules]]
            name = 'table'
            replace = { find = '\borders\b', with = 'orders_2026' }
            match.user = 'app'
            [[rules]]
            name = 'swapped'
            replace = { find = '(\w+) AND (\w+)', with = '${2} AND ${1}' }
            match.user = 'swap'
            [[rules]]
            name = 'limit'
            replace = { find = '$', with = ' LIMIT 10' }
            match = { user = 'limit', not = { digest_matches = ' LIMIT ' } }
            [[rules]]
            name = 'template'
            rewrite = { from = 'SELECT ?c FROM orders WHERE id = ?i', to = 'SELECT ?c FROM o2 WHERE id = ?i' }
            match.user = 'template'
        ",
        cases: &[
            ("", "SELECT a FROM orders", "table: = SELECT a FROM orders_2026"),
            ("", "SELECT a FROM ORDERS", "table: = SELECT a FROM orders_2026"),
            ("", "SELECT a FROM my_orders", "table"),
            ("", "SELECT 'orders'", "table: = SELECT 'orders_2026'"),
            ("", "SELECT 1 FROM orders; SELECT 2", "table: = SELECT 1 FROM orders_2026 | table"),
            ("user=swap", "SELECT a AND b", "swapped: = SELECT b AND a"),
            ("user=swap", "SELECT a OR b", "swapped"),
            ("user=limit", "SELECT a FROM t", "limit: = SELECT a FROM t LIMIT 10"),
            ("user=limit", "SELECT a FROM t LIMIT 3", "-"),
            (
                "user=template",
                "SELECT a FROM orders WHERE id = 5",
                "template: = SELECT a FROM o2 WHERE id = 5",
            ),
            (
                "user=template",
                "select a from orders where id='orders'",
                "template: = SELECT a FROM o2 WHERE id = 'orders'",
            ),
            (
                "user=template",
                "SELECT 'FROM orders' FROM orders WHERE id = 1",
                "template: = SELECT 'FROM orders' FROM o2 WHERE id = 1",
            ),
            ("user=template", "SELECT a FROM orders WHERE id = 5 OR 1", "-"),
            (
                "user=template",
                "SELECT a FROM orders WHERE id = ?",
                "template: = SELECT a FROM o2 WHERE id = ?",
            ),
        ],
    },
    Column {
        // A group there is the writer or the readers of a cluster here, or one server.
        name: "destination_hostgroup",
        rules: r"
            [[rules]]
            name = '0'
            route.role = 'writer'
            match.tag = { group = '0' }
            [[rules]]
            name = '1'
            route.role = 'reader'
            match.tag = { group = '1' }
            [[rules]]
            name = '2'
            route.cluster = 'other'
            match.tag = { group = '2' }
            [[rules]]
            name = '3'
            route = { cluster = 'other', role = 'reader' }
            match.tag = { group = '3' }
            [[rules]]
            name = 'server'
            route.server = 'db2'
            match.tag = { group = 'db2' }
            [[rules]]
            name = 'lock'
            route.role = 'writer'
            then = 'next'
            match.digest_matches = 'FOR UPDATE$'
            [[rules]]
            name = 'last'
            route.role = 'reader'
            match = { kind = 'read', digest_matches = 'FROM t' }
        ",
        cases: &[
            ("", "SELECT 1 /* group=0 */", "0: to writer"),
            ("", "SELECT 1 /* group=1 */", "1: to reader"),
            ("", "SELECT 1 /* group=2 */", "2: to other"),
            ("", "SELECT 1 /* group=3 */", "3: to other reader"),
            ("", "SELECT 1 /* group=db2 */", "server: to db2"),
            ("", "SELECT 1 /* group=4 */", "-"),
            ("", "SELECT 1", "-"),
            ("", "SELECT '/* group=1 */'", "-"),
            ("", "SELECT a FROM t", "last: to reader"),
            ("", "SELECT a FROM t FOR UPDATE", "lock: to writer"),
            ("tx", "SELECT a FROM t", "last: to reader"),
        ],
    },
    Column {
        // Milliseconds there. What takes longer is killed.
        name: "timeout",
        rules: r"
            [[rules]]
            name = 'report'
            statement_time = '30s'
            match.user = 'report'
            [[rules]]
            name = 'read'
            statement_time = '2s'
            match.kind = 'read'
            [[rules]]
            name = 'wait'
            queue_timeout = '500ms'
            match.table = 'busy'
        ",
        cases: &[
            ("", "SELECT 1", "read: time 2s"),
            ("", "DELETE FROM t", "-"),
            ("user=report", "DELETE FROM t", "report: time 30s"),
            ("user=report", "SELECT 1", "report read: time 2s"),
            ("", "DELETE FROM busy", "wait: wait 500ms"),
            ("user=report", "SELECT 1 FROM busy", "report read wait: time 2s; wait 500ms"),
        ],
    },
    Column {
        name: "retries",
        rules: r"
            [[rules]]
            name = 'none'
            retries = 0
            match.user = 'once'
            [[rules]]
            name = 'two'
            retries = 2
            match.kind = 'read'
            [[rules]]
            name = 'five'
            retries = 5
            match.table = 'a'
        ",
        cases: &[
            ("", "SELECT 1", "two: retries 2"),
            ("", "SELECT 1 FROM a", "two five: retries 5"),
            ("", "DELETE FROM a", "five: retries 5"),
            ("user=once", "DELETE FROM b", "none: retries 0"),
            ("user=once", "SELECT 1", "none two: retries 2"),
        ],
    },
    Column {
        // Milliseconds there. Here a client in a transaction is not delayed.
        name: "delay",
        rules: r"
            [[rules]]
            name = 'bulk'
            delay = '100ms'
            match.table = 'bulk'
            [[rules]]
            name = 'etl'
            delay = '20ms'
            match.user = 'etl'
        ",
        cases: &[
            ("", "SELECT 1 FROM bulk", "bulk: delay 100ms"),
            ("user=etl", "SELECT 1", "etl: delay 20ms"),
            ("user=etl", "SELECT 1 FROM bulk", "bulk etl: delay 100ms"),
            ("", "SELECT 1", "-"),
        ],
    },
    Column {
        // The chain in which the next statements of the session begin, until a rule says otherwise.
        name: "next_query_flagIN",
        rules: r"
            [[rules]]
            name = 'begin'
            next = 'jump open'
            match.digest_matches = '^BEGIN'
            [[rules]]
            name = 'outside'
            route.role = 'reader'
            [[rules]]
            name = 'end'
            label = 'open'
            next = 'start'
            then = 'stop'
            match.digest_matches = '^(COMMIT|ROLLBACK)'
            [[rules]]
            name = 'inside'
            label = 'open'
            route.role = 'writer'
        ",
        cases: &[
            ("", "SELECT 1", "outside: to reader"),
            ("", "BEGIN", "begin outside: to reader; next open"),
            ("", "SELECT 1", "inside: to writer"),
            ("", "UPDATE t SET a = 1", "inside: to writer"),
            ("", "SELECT 1", "inside: to writer"),
            ("", "BEGIN", "inside: to writer"),
            ("", "COMMIT", "end: next start"),
            ("", "SELECT 1", "outside: to reader"),
            ("", "COMMIT", "outside: to reader"),
            ("", "BEGIN", "begin outside: to reader; next open"),
            ("", "ROLLBACK", "end: next start"),
            ("", "SELECT 1", "outside: to reader"),
        ],
    },
    Column {
        // Error 1148 there; the number can be chosen here.
        name: "error_msg",
        rules: r"
            [[rules]]
            name = 'text'
            refuse = { number = 1148, state = '42000', message = 'query not allowed' }
            match.digest_matches = '^DELETE FROM \w+$'
            [[rules]]
            name = 'usual'
            refuse = true
            match.table = 'secrets'
            [[rules]]
            name = 'rest'
            retries = 1
        ",
        cases: &[
            ("", "DELETE FROM t", "text: error 1148 query not allowed"),
            ("", "DELETE FROM t WHERE id = 1", "rest: retries 1"),
            ("", "SELECT * FROM secrets", "usual: error 1227"),
            ("", "SELECT * FROM a JOIN shop.secrets s", "usual: error 1227"),
            ("", "SELECT 'secrets'", "rest: retries 1"),
            ("", "SELECT 1; DELETE FROM t", "rest: retries 1 | text: error 1148 query not allowed"),
            ("", "SELECT 'no end", "text: error 1148 query not allowed"),
        ],
    },
    Column {
        // The client gets OK, and no server the statement.
        name: "OK_msg",
        rules: r"
            [[rules]]
            name = 'ok'
            answer = 'ok'
            match.digest_matches = '^SET NAMES'
            [[rules]]
            name = 'rows'
            answer = { columns = ['version'], rows = [['5.7']] }
            match.digest_matches = '^SELECT VERSION\(\)$'
            [[rules]]
            name = 'rest'
            retries = 1
        ",
        cases: &[
            ("", "SET NAMES utf8", "ok: ok"),
            ("", "set names 'latin1'", "ok: ok"),
            ("", "SET autocommit = 1", "rest: retries 1"),
            ("", "SELECT VERSION()", "rows: rows"),
            ("", "SELECT VERSION(), 1", "rest: retries 1"),
        ],
    },
    Column {
        // 0 keeps the connection, 1 shares it when nothing else keeps it. For 2 there is nothing.
        name: "multiplex",
        rules: r"
            [[rules]]
            name = '0'
            connection = 'keep'
            match.digest_matches = '^SET @@SESSION'
            [[rules]]
            name = '1'
            connection = 'share'
            match.digest_matches = '^SET @@SESSION.*DEFAULT$'
        ",
        cases: &[
            ("", "SET @@SESSION.x = 1", "0: keep"),
            ("", "SET @@SESSION.x = DEFAULT", "0 1: share"),
            ("", "SET @@session.x = 2", "0: keep"),
            ("", "SELECT 1", "-"),
        ],
    },
    Column {
        // The log of queries there: the slow log, the audit log or both here.
        name: "log",
        rules: r"
            [[rules]]
            name = 'slow'
            log = 'slow'
            match.table = 'a'
            [[rules]]
            name = 'both'
            log = ['slow', 'audit']
            match.kind = 'ddl'
            [[rules]]
            name = 'audit'
            log = 'audit'
            match.user = 'root'
        ",
        cases: &[
            ("", "SELECT 1 FROM a", "slow: slow log"),
            ("", "DROP TABLE b", "both: slow log; audit log"),
            ("user=root", "SELECT 1", "audit: audit log"),
            ("user=root", "SELECT 1 FROM a", "slow audit: slow log; audit log"),
            ("", "SELECT 1", "-"),
        ],
    },
    Column {
        // 1 ends the way through the rules. What refuses, answers or routes ends it here anyway, unless it says otherwise.
        name: "apply",
        rules: r"
            [[rules]]
            name = 'stop'
            delay = '1s'
            then = 'stop'
            match.table = 'a'
            [[rules]]
            name = 'on'
            delay = '2s'
            match.table = 'b'
            [[rules]]
            name = 'route'
            route.role = 'reader'
            match.table = 'c'
            [[rules]]
            name = 'route on'
            route.role = 'reader'
            then = 'next'
            match.table = 'd'
            [[rules]]
            name = 'last'
            retries = 1
        ",
        cases: &[
            ("", "SELECT 1 FROM a", "stop: delay 1s"),
            ("", "SELECT 1 FROM b", "on last: delay 2s; retries 1"),
            ("", "SELECT 1 FROM c", "route: to reader"),
            ("", "SELECT 1 FROM d", "route on last: to reader; retries 1"),
            ("", "SELECT 1 FROM a, b", "stop: delay 1s"),
            ("", "SELECT 1 FROM b, c", "on route: to reader; delay 2s"),
            ("", "SELECT 1 FROM c, d", "route: to reader"),
            ("", "SELECT 1 FROM d, b", "on route on last: to reader; delay 2s; retries 1"),
            ("", "SELECT 1", "last: retries 1"),
        ],
    },
    Column {
        name: "comment",
        rules: r"
            [[rules]]
            name = 'noted'
            note = 'asked for by the shop'
            retries = 1
        ",
        cases: &[("", "SELECT 1", "noted: retries 1")],
    },
    Column {
        // Conditions of several columns hold together.
        name: "several columns",
        rules: r"
            [[rules]]
            name = 'all'
            route.role = 'reader'
            [rules.match]
            user = 'app'
            schema = 'shop'
            address = '10.0.0.0/8'
            listener = '%:6033'
            digest_matches = '^SELECT'
            text_matches = 'x'
        ",
        cases: &[
            ("", "SELECT x", "all: to reader"),
            ("user=other", "SELECT x", "-"),
            ("schema=other", "SELECT x", "-"),
            ("from=11.0.0.1", "SELECT x", "-"),
            ("by=127.0.0.1:6034", "SELECT x", "-"),
            ("", "DELETE FROM x", "-"),
            ("", "SELECT y", "-"),
        ],
    },
];
