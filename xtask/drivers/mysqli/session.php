<?php
/** Checks of what a mysqli connection is and remembers: users, schemas, transactions, TLS, commands. */

declare(strict_types=1);

function session_checks(): array
{
    return [
        'session: wrong password' => function () {
            fails(1045, fn () => mysqli_init()->real_connect(setting('HOST'), setting('USER'), 'wrong',
                DATABASE, (int) setting('PORT')));
        },
        'session: unknown database' => function () {
            fails(1049, fn () => mysqli_init()->real_connect(setting('HOST'), setting('USER'),
                setting('PASSWORD'), 'no_such_database', (int) setting('PORT')));
        },
        'session: server version and protocol' => function () {
            $db = connect();
            truth(str_contains($db->server_info, 'MariaDB'), $db->server_info);
            truth($db->server_version >= 101100, (string) $db->server_version);
            same(10, $db->protocol_version);
        },
        'session: select_db' => function () {
            $db = connect();
            $db->select_db(OTHER_DATABASE);
            same(OTHER_DATABASE, value($db, 'SELECT DATABASE()'));
            fails(1049, fn () => $db->select_db('no_such_database'));
            same(OTHER_DATABASE, value($db, 'SELECT DATABASE()'));
            $db->query('USE ' . DATABASE);
            same(DATABASE, value($db, 'SELECT DATABASE()'));
        },
        'session: change_user' => function () {
            $db = connect();
            $db->query('SET @x = 1, time_zone = "+05:00"');
            $db->query('CREATE TEMPORARY TABLE php_temp (a INT)');
            $db->change_user(setting('USER'), setting('PASSWORD'), OTHER_DATABASE);
            same([OTHER_DATABASE, null, 'SYSTEM'],
                $db->query('SELECT DATABASE(), @x, @@time_zone')->fetch_row());
            fails(1146, fn () => $db->query('SELECT * FROM ' . DATABASE . '.php_temp'));
        },
        'session: change_user to another user' => function () {
            $db = connect();
            $db->query('GRANT SELECT ON ' . OTHER_DATABASE . '.* TO ' . setting('OTHER_USER'));
            foreach (range(1, 3) as $_) {
                $db->change_user(setting('OTHER_USER'), setting('PASSWORD'), OTHER_DATABASE);
                $user = value($db, 'SELECT CURRENT_USER()');
                truth(str_starts_with($user, setting('OTHER_USER') . '@'), $user);
                fails(1044, fn () => $db->query('USE ' . DATABASE));
                $db->change_user(setting('USER'), setting('PASSWORD'), DATABASE);
                truth(str_starts_with(value($db, 'SELECT CURRENT_USER()'), setting('USER') . '@'), 'back');
            }
        },
        'session: change_user to a user that was just made' => function () {
            $db = connect();
            $db->query("CREATE OR REPLACE USER suite_other IDENTIFIED BY 'pass word'");
            $db->query('GRANT SELECT ON ' . OTHER_DATABASE . '.* TO suite_other');
            try {
                $other = connect();
                $other->change_user('suite_other', 'pass word', OTHER_DATABASE);
                truth(str_starts_with(value($other, 'SELECT CURRENT_USER()'), 'suite_other@'), 'is other');
                fails(1044, fn () => $other->query('USE ' . DATABASE));
                $other->close();
            } finally {
                $db->query('DROP USER suite_other');
            }
        },
        'session: change_user with a wrong password' => function () {
            $db = connect();
            fails(1045, fn () => $db->change_user(setting('USER'), 'wrong', DATABASE));
        },
        'session: ping, stat, dump_debug_info, refresh' => function () {
            $db = connect();
            truth($db->ping(), 'ping');
            truth(str_contains($db->stat(), 'Uptime'), $db->stat());
            truth($db->dump_debug_info(), 'dump_debug_info');
            truth($db->refresh(MYSQLI_REFRESH_TABLES), 'refresh');
            same('1', value($db, 'SELECT 1'));
        },
        'session: thread_id is CONNECTION_ID' => function () {
            $db = connect();
            same((string) $db->thread_id, value($db, 'SELECT CONNECTION_ID()'));
            truth(connect()->thread_id !== $db->thread_id, 'each has its own');
        },
        'session: thread_id is in the process list' => function () {
            $db = connect();
            $ids = array_column($db->query('SHOW PROCESSLIST')->fetch_all(MYSQLI_ASSOC), 'Id');
            truth(in_array((string) $db->thread_id, $ids, true), 'is listed');
        },
        'session: kill by command' => function () {
            [$db, $victim] = [connect(), connect()];
            value($victim, 'SELECT 1');
            $db->kill($victim->thread_id);
            soon(function () use ($victim) {
                try {
                    @$victim->query('SELECT 1');
                    return false;
                } catch (mysqli_sql_exception $error) {
                    return in_array($error->getCode(), [2006, 2013, 1927], true);
                }
            }, 'the victim is gone');
        },
        'session: KILL QUERY by thread_id' => function () {
            [$db, $victim] = [connect(), connect()];
            $begun = microtime(true);
            $victim->query('SELECT SLEEP(10)', MYSQLI_ASYNC);
            usleep(200_000);
            $db->query("KILL QUERY {$victim->thread_id}");
            // SLEEP says 1 when it is interrupted.
            try {
                same('1', $victim->reap_async_query()->fetch_row()[0]);
            } catch (mysqli_sql_exception $error) {
                same(1317, $error->getCode());
            }
            truth(microtime(true) - $begun < 5, 'it ended early');
            same('2', value($victim, 'SELECT 2'));
        },
        'session: KILL of nobody' => function () {
            fails(1094, fn () => connect()->query('KILL 4000000'));
        },
        'session: variables last' => function () {
            $db = connect();
            $db->query("SET @a = 5, sql_mode = 'ANSI', SESSION group_concat_max_len = 77");
            foreach (range(1, 5) as $_) {
                same(['5', '77'], $db->query('SELECT @a, @@group_concat_max_len')->fetch_row());
                same('x', value($db, "SELECT 'x' AS \"a b\""));
            }
        },
        'session: a new connection knows nothing of others' => function () {
            $db = connect();
            $db->query("SET @a = 5, NAMES latin1, SESSION group_concat_max_len = 77");
            $db->query('CREATE TEMPORARY TABLE php_temp (a INT)');
            $db->query('BEGIN');
            $db->close();
            foreach (range(1, 10) as $_) {
                $new = connect();
                same([null, '1048576', '0'],
                    $new->query('SELECT @a, @@group_concat_max_len, @@in_transaction')->fetch_row());
                fails(1146, fn () => $new->query('SELECT * FROM php_temp'));
            }
        },
        'session: temporary tables last' => function () {
            $db = connect();
            $db->query('CREATE TEMPORARY TABLE php_temp (a INT)');
            $db->query('INSERT INTO php_temp VALUES (1), (2)');
            same('2', value($db, 'SELECT COUNT(*) FROM php_temp'));
            fails(1146, fn () => connect()->query('SELECT * FROM php_temp'));
        },
        'session: user locks' => function () {
            [$one, $two] = [connect(), connect()];
            same('1', value($one, "SELECT GET_LOCK('php_lock', 1)"));
            same('0', value($two, "SELECT GET_LOCK('php_lock', 0)"));
            same('1', value($one, "SELECT RELEASE_LOCK('php_lock')"));
            same('1', value($two, "SELECT GET_LOCK('php_lock', 1)"));
            $two->close();
            soon(fn () => value($one, "SELECT IS_FREE_LOCK('php_lock')") === '1', 'freed by its end');
        },
        'session: LOCK TABLES' => function () {
            $db = connect();
            $table = table($db, 'a INT');
            $db->query("LOCK TABLES $table WRITE");
            $other = connect(fn ($db) => $db->options(MYSQLI_INIT_COMMAND, 'SET lock_wait_timeout = 1'));
            fails(1205, fn () => $other->query("SELECT * FROM $table"));
            $db->query('UNLOCK TABLES');
            same('0', value($other, "SELECT COUNT(*) FROM $table"));
        },
        'session: character sets' => function () {
            $db = connect();
            $db->set_charset('latin1');
            same(['latin1', "\xfc"], [$db->character_set_name(), value($db, "SELECT '\xfc'")]);
            same('1', value($db, "SELECT CHAR_LENGTH('\xfc')"));
            $db->set_charset('utf8mb4');
            same('1', value($db, "SELECT CHAR_LENGTH('🐬')"));
            same('utf8mb4', value($db, 'SELECT @@character_set_client'));
        },
        'session: transactions and savepoints' => function () {
            $db = connect();
            $table = table($db, 'v INT');
            $db->begin_transaction(name: 'begin');
            $db->query("INSERT INTO $table VALUES (1)");
            $db->savepoint('one');
            $db->query("INSERT INTO $table VALUES (2)");
            $db->query('ROLLBACK TO one');
            $db->query("INSERT INTO $table VALUES (3)");
            same('0', value(connect(), "SELECT COUNT(*) FROM $table"));
            $db->release_savepoint('one');
            $db->commit();
            same([['1'], ['3']], connect()->query("SELECT v FROM $table ORDER BY v")->fetch_all());
        },
        'session: autocommit off' => function () {
            $db = connect();
            $table = table($db, 'v INT');
            $db->autocommit(false);
            $db->query("INSERT INTO $table VALUES (1)");
            same('0', value(connect(), "SELECT COUNT(*) FROM $table"));
            $db->commit();
            same('1', value(connect(), "SELECT COUNT(*) FROM $table"));
            $db->query("INSERT INTO $table VALUES (2)");
            $db->rollback();
            same('1', value($db, "SELECT COUNT(*) FROM $table"));
            $db->autocommit(true);
        },
        'session: a transaction ends with its connection' => function () {
            $db = connect();
            $table = table($db, 'v INT PRIMARY KEY');
            $other = connect();
            $other->begin_transaction();
            $other->query("INSERT INTO $table VALUES (1)");
            $other->close();
            soon(function () use ($db, $table) {
                $db->query("INSERT IGNORE INTO $table VALUES (1)");
                return $db->affected_rows === 1;
            }, 'the row is free');
        },
        'session: a transaction that only reads' => function () {
            $db = connect();
            $table = table($db, 'v INT');
            $db->begin_transaction(MYSQLI_TRANS_START_READ_ONLY);
            fails(1792, fn () => $db->query("INSERT INTO $table VALUES (1)"));
            $db->rollback();
        },
        'session: a deadlock' => function () {
            $db = connect();
            $table = table($db, 'v INT PRIMARY KEY, w INT');
            $db->query("INSERT INTO $table VALUES (1, 0), (2, 0)");
            [$one, $two] = [connect(), connect()];
            $one->begin_transaction();
            $two->begin_transaction();
            $one->query("UPDATE $table SET w = 1 WHERE v = 1");
            $two->query("UPDATE $table SET w = 1 WHERE v = 2");
            $one->query("UPDATE $table SET w = 2 WHERE v = 2", MYSQLI_ASYNC);
            usleep(200_000);
            $codes = [];
            try {
                $two->query("UPDATE $table SET w = 2 WHERE v = 1");
            } catch (mysqli_sql_exception $error) {
                $codes[] = $error->getCode();
            }
            try {
                $one->reap_async_query();
            } catch (mysqli_sql_exception $error) {
                $codes[] = $error->getCode();
            }
            same([1213], $codes);
        },
        'session: init command' => function () {
            $db = connect(fn ($db) => $db->options(MYSQLI_INIT_COMMAND, "SET @init = 'yes'"));
            same('yes', value($db, 'SELECT @init'));
        },
        'session: persistent connections' => function () {
            $one = connect(prefix: 'p:');
            $one->query('SET @left = 1');
            $one->query('BEGIN');
            $one->close();
            $two = connect(prefix: 'p:');
            same([null, '0'], $two->query('SELECT @left, @@in_transaction')->fetch_row());
        },
        'session: TLS, verified' => function () {
            $db = connect(fn ($db) => $db->ssl_set(null, null, setting('CA'), null, null),
                MYSQLI_CLIENT_SSL);
            truth($db->query("SHOW STATUS LIKE 'Ssl_cipher'")->fetch_row()[1] !== '', 'a cipher');
            $value = str_repeat('x', 3 * MIB);
            same((string) (3 * MIB), value($db, "SELECT LENGTH('$value')"));
            same(3 * MIB, strlen(value($db, 'SELECT REPEAT("y", ' . 3 * MIB . ')')));
        },
        'session: TLS, not verified' => function () {
            $db = connect(flags: MYSQLI_CLIENT_SSL | MYSQLI_CLIENT_SSL_DONT_VERIFY_SERVER_CERT);
            same('1', value($db, 'SELECT 1'));
        },
        'session: compression is used where it is offered' => function () {
            $db = connect(flags: MYSQLI_CLIENT_COMPRESS);
            same(MIB, strlen(value($db, 'SELECT REPEAT("z", ' . MIB . ')')));
            same('ON', $db->query("SHOW STATUS LIKE 'Compression'")->fetch_row()[1]);
        },
        'session: connection attributes' => function () {
            $db = connect();
            $result = $db->query("SELECT ATTR_VALUE FROM performance_schema.session_connect_attrs
                WHERE PROCESSLIST_ID = CONNECTION_ID() AND ATTR_NAME = '_client_name'");
            same('mysqlnd', $result->fetch_row()[0] ?? null);
        },
        'session: statistics of the session' => function () {
            $db = connect();
            $count = fn () => (int) $db->query("SHOW SESSION STATUS LIKE 'Com_do'")->fetch_row()[1];
            $before = $count();
            $db->query('DO 1');
            $db->query('DO 1');
            same($before + 2, $count());
        },
        'session: read timeout' => function () {
            $db = connect(fn ($db) => $db->options(MYSQLI_OPT_READ_TIMEOUT, 1));
            $begun = microtime(true);
            try {
                @$db->query('SELECT SLEEP(4)');
                throw new Exception('did not time out');
            } catch (mysqli_sql_exception) {
                truth(microtime(true) - $begun < 3, 'in time');
            }
        },
        'session: a statement timeout of the server' => function () {
            $db = connect();
            fails(1969, fn () => $db->query('SET STATEMENT max_statement_time = 0.2 FOR SELECT SLEEP(5)'));
            same('1', value($db, 'SELECT 1'));
        },
        'session: wait_timeout' => function () {
            $db = connect();
            $db->query('SET SESSION wait_timeout = 1');
            sleep(3);
            try {
                @$db->query('SELECT 1');
                throw new Exception('is still there');
            } catch (mysqli_sql_exception $error) {
                truth(in_array($error->getCode(), [2006, 2013, 4031], true), $error->getMessage());
            }
        },
        'session: 50 connections at once' => function () {
            $all = array_map(fn () => connect(), range(1, 50));
            foreach ($all as $i => $db) {
                $db->query("SET @me = $i");
            }
            foreach ($all as $i => $db) {
                same((string) $i, value($db, 'SELECT @me'));
            }
        },
        'session: 300 connections, one after the other' => function () {
            foreach (range(1, 300) as $i) {
                $db = connect();
                same((string) $i, value($db, "SELECT $i"));
                $db->close();
            }
        },
    ];
}
