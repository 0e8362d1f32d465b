<?php
/** Checks of mysqli's text protocol: results, errors, several statements, files. */

declare(strict_types=1);

function text_checks(): array
{
    return [
        'text: rows by number, name, both and object' => function () {
            $result = connect()->query("SELECT 1 AS a, 'x' AS b, NULL AS c");
            same([0 => '1', 'a' => '1', 1 => 'x', 'b' => 'x', 2 => null, 'c' => null],
                $result->fetch_array(MYSQLI_BOTH));
            $result->data_seek(0);
            same(['a' => '1', 'b' => 'x', 'c' => null], $result->fetch_assoc());
            $result->data_seek(0);
            same('x', $result->fetch_object()->b);
            same(null, $result->fetch_row());
            same([1, 3], [$result->num_rows, $result->field_count]);
        },
        'text: native numbers by option' => function () {
            $db = connect(fn ($db) => $db->options(MYSQLI_OPT_INT_AND_FLOAT_NATIVE, 1));
            same([7, 1.5, '2.50', 'x'],
                $db->query("SELECT 7, 1.5e0, CAST(2.5 AS DECIMAL(5,2)), 'x'")->fetch_row());
        },
        'text: metadata of columns' => function () {
            $db = connect();
            $db->set_charset('utf8mb4');
            $table = table($db, 'id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) NOT NULL');
            $fields = $db->query("SELECT id AS number, name FROM $table AS t")->fetch_fields();
            same(['number', 'id', 't', $table, DATABASE, MYSQLI_TYPE_LONG],
                [$fields[0]->name, $fields[0]->orgname, $fields[0]->table, $fields[0]->orgtable,
                    $fields[0]->db, $fields[0]->type]);
            $want = MYSQLI_PRI_KEY_FLAG | MYSQLI_AUTO_INCREMENT_FLAG | MYSQLI_UNSIGNED_FLAG
                | MYSQLI_NOT_NULL_FLAG;
            same($want, $fields[0]->flags & $want);
            same([MYSQLI_TYPE_VAR_STRING, 80], [$fields[1]->type, $fields[1]->length]);
        },
        'text: insert_id and affected_rows' => function () {
            $db = connect();
            $table = table($db, 'id INT AUTO_INCREMENT PRIMARY KEY, v INT');
            $db->query("INSERT INTO $table (v) VALUES (1), (2), (3)");
            same([1, 3], [$db->insert_id, $db->affected_rows]);
            same('1', value($db, 'SELECT LAST_INSERT_ID()'));
            $db->query("UPDATE $table SET v = 2 WHERE id <= 2");
            same(1, $db->affected_rows);
            $db->query("DELETE FROM $table");
            same(3, $db->affected_rows);
        },
        'text: found rows by flag' => function () {
            $db = connect(flags: MYSQLI_CLIENT_FOUND_ROWS);
            $table = table($db, 'v INT');
            $db->query("INSERT INTO $table VALUES (2), (2)");
            $db->query("UPDATE $table SET v = 2");
            same(2, $db->affected_rows);
        },
        'text: info of inserts and updates' => function () {
            $db = connect();
            $table = table($db, 'v INT PRIMARY KEY');
            $db->query("INSERT INTO $table VALUES (1), (2)");
            same('Records: 2  Duplicates: 0  Warnings: 0', $db->info);
            $db->query("UPDATE $table SET v = 3 WHERE v = 2");
            same('Rows matched: 1  Changed: 1  Warnings: 0', $db->info);
        },
        'text: errors have number, state and message' => function () {
            $db = connect();
            $error = fails(1146, fn () => $db->query('SELECT * FROM no_such_table'));
            same('42S02', $error->getSqlState());
            truth(str_contains($error->getMessage(), 'no_such_table'), 'the table is named');
            same(1146, $db->errno);
            fails(1064, fn () => $db->query('SELEC 1'));
            $table = table($db, 'v INT PRIMARY KEY');
            $db->query("INSERT INTO $table VALUES (1)");
            same('23000', fails(1062, fn () => $db->query("INSERT INTO $table VALUES (1)"))->getSqlState());
            same('1', value($db, 'SELECT 1'), 'after errors');
        },
        'text: an error in the middle of rows' => function () {
            $db = connect();
            fails(1242, fn () => $db->query('SELECT (SELECT 1 UNION SELECT 2)'));
            same('1', value($db, 'SELECT 1'));
        },
        'text: warnings' => function () {
            $db = connect();
            same(null, $db->query("SELECT CAST('x1' AS INT)")->fetch_row()[1] ?? null);
            same(1, $db->warning_count);
            $warning = $db->get_warnings();
            same(1292, $warning->errno);
            truth(str_contains($warning->message, 'x1'), 'the value is named');
            same('1292', $db->query('SHOW WARNINGS')->fetch_row()[1]);
        },
        'text: ROW_COUNT and FOUND_ROWS' => function () {
            $db = connect();
            $table = table($db, 'v INT');
            $db->query("INSERT INTO $table VALUES (1), (2), (3), (4)");
            same('4', value($db, 'SELECT ROW_COUNT()'));
            $db->query("SELECT SQL_CALC_FOUND_ROWS v FROM $table LIMIT 1");
            same('4', value($db, 'SELECT FOUND_ROWS()'));
        },
        'text: several statements at once' => function () {
            $db = connect();
            truth($db->multi_query("SELECT 1; DO 2; SELECT 3 UNION SELECT 4; SELECT 'end'"), 'begun');
            $seen = [];
            do {
                if ($result = $db->store_result()) {
                    $seen[] = array_merge(...$result->fetch_all());
                } else {
                    $seen[] = $db->field_count;
                }
            } while ($db->more_results() && $db->next_result());
            same([['1'], 0, ['3', '4'], ['end']], $seen);
            same('1', value($db, 'SELECT 1'));
        },
        'text: an error among several statements' => function () {
            $db = connect();
            $db->multi_query('SELECT 1; SELECT * FROM no_such_table; SELECT 3');
            same('1', $db->store_result()->fetch_row()[0]);
            fails(1146, fn () => $db->next_result());
            truth(!$db->more_results(), 'nothing follows an error');
            same('1', value($db, 'SELECT 1'));
        },
        'text: a second statement is refused without multi_query' => function () {
            $db = connect();
            fails(1064, fn () => $db->query('SELECT 1; SELECT 2'));
        },
        'text: procedures with results and out parameters' => function () {
            $db = connect();
            $db->query('DROP PROCEDURE IF EXISTS php_p');
            $db->query('CREATE PROCEDURE php_p(IN a INT, OUT b INT, INOUT c INT)
                BEGIN SELECT a; SET b = a + 1; SET c = c * 2; SELECT c; END');
            $db->query('SET @c = 21');
            $db->multi_query('CALL php_p(1, @b, @c)');
            $seen = [];
            do {
                if ($result = $db->store_result()) {
                    $seen[] = $result->fetch_row()[0];
                }
            } while ($db->next_result());
            same(['1', '42'], $seen);
            same(['2', '42'], $db->query('SELECT @b, @c')->fetch_row());
            $db->query('DROP PROCEDURE php_p');
        },
        'text: commands out of order are told by the driver' => function () {
            $db = connect();
            $result = $db->query('SELECT 1 UNION SELECT 2', MYSQLI_USE_RESULT);
            $result->fetch_row();
            fails(2014, fn () => $db->query('SELECT 3'));
            $result->free();
            same('3', value($db, 'SELECT 3'));
        },
        'text: 200000 unbuffered rows' => function () {
            $db = connect();
            $result = $db->query('SELECT seq FROM seq_1_to_200000', MYSQLI_USE_RESULT);
            $sum = 0;
            $count = 0;
            foreach ($result as $row) {
                $sum += (int) $row['seq'];
                $count++;
            }
            same([200_000, 200_000 * 200_001 / 2], [$count, $sum]);
        },
        'text: unbuffered rows that are not all read' => function () {
            $db = connect();
            $result = $db->query('SELECT seq FROM seq_1_to_50000', MYSQLI_USE_RESULT);
            same('1', $result->fetch_row()[0]);
            $result->free();
            same('5', value($db, 'SELECT 5'));
        },
        'text: a connection that is closed among rows' => function () {
            $db = connect();
            $db->query('SELECT seq FROM seq_1_to_1000000', MYSQLI_USE_RESULT)->fetch_row();
            $db->close();
            same('1', value(connect(), 'SELECT 1'));
        },
        'text: a value of 20 MiB each way' => function () {
            $db = connect();
            $table = table($db, 'v LONGBLOB');
            $value = str_repeat('0123456789abcdef', 20 * MIB / 16);
            $db->query("INSERT INTO $table VALUES ('$value')");
            same((string) (20 * MIB), value($db, "SELECT LENGTH(v) FROM $table"));
            truth($value === value($db, "SELECT v FROM $table"), 'it comes back as it went');
        },
        'text: values around the longest packet' => function () {
            $db = connect();
            foreach ([-2, -1, 0, 1] as $more) {
                $length = (1 << 24) - 1 - 5 + $more;
                same($length, strlen(value($db, "SELECT REPEAT('x', $length)")), "$more");
            }
        },
        'text: a statement beyond max_allowed_packet' => function () {
            $db = connect();
            $value = str_repeat('x', 65 * MIB);
            try {
                $db->query("SELECT LENGTH('$value')");
                throw new Exception('was not refused');
            } catch (mysqli_sql_exception $error) {
                truth(in_array($error->getCode(), [1153, 2006], true), $error->getMessage());
            }
        },
        'text: a thousand columns' => function () {
            $columns = implode(', ', array_map(fn ($i) => "$i AS c$i", range(1, 1000)));
            $row = connect()->query("SELECT $columns")->fetch_assoc();
            same([1000, '1000'], [count($row), $row['c1000']]);
        },
        'text: no rows' => function () {
            $result = connect()->query('SELECT 1 FROM DUAL WHERE 1 = 0');
            same([0, 1, null], [$result->num_rows, $result->field_count, $result->fetch_row()]);
        },
        'text: utf8mb4 and bytes' => function () {
            $db = connect(fn ($db) => $db->options(MYSQLI_SET_CHARSET_NAME, 'utf8mb4'));
            $table = table($db, 't TEXT CHARACTER SET utf8mb4, b BLOB');
            $text = "Grüße, мир, 🐬\0\\'\"";
            $bytes = implode('', array_map('chr', range(0, 255)));
            $db->query("INSERT INTO $table VALUES ('{$db->real_escape_string($text)}',
                '{$db->real_escape_string($bytes)}')");
            same([$text, $bytes], $db->query("SELECT t, b FROM $table")->fetch_row());
        },
        'text: LOAD DATA LOCAL' => function () {
            $db = connect(fn ($db) => $db->options(MYSQLI_OPT_LOCAL_INFILE, true));
            $table = table($db, 'a INT, b VARCHAR(20)');
            $file = tempnam(sys_get_temp_dir(), 'suite');
            file_put_contents($file, implode('', array_map(fn ($i) => "$i,row $i\n", range(1, 50_000))));
            try {
                $db->query("LOAD DATA LOCAL INFILE '$file' INTO TABLE $table FIELDS TERMINATED BY ','");
            } finally {
                unlink($file);
            }
            same(50_000, $db->affected_rows);
            same('Records: 50000  Deleted: 0  Skipped: 0  Warnings: 0', $db->info);
            same('row 50000', value($db, "SELECT b FROM $table WHERE a = 50000"));
        },
        'text: LOAD DATA LOCAL of a file that is not there' => function () {
            $db = connect(fn ($db) => $db->options(MYSQLI_OPT_LOCAL_INFILE, true));
            $table = table($db, 'a INT');
            try {
                @$db->query("LOAD DATA LOCAL INFILE '/no/such/file' INTO TABLE $table");
                throw new Exception('was found');
            } catch (mysqli_sql_exception) {
                same('0', value($db, "SELECT COUNT(*) FROM $table"));
            }
        },
        'text: three statements at once by poll' => function () {
            $waiting = [];
            foreach ([1, 2, 3] as $number) {
                $waiting[$number] = connect();
                $waiting[$number]->query("SELECT $number, SLEEP(0.2)", MYSQLI_ASYNC);
            }
            $begun = microtime(true);
            $seen = [];
            while ($waiting && microtime(true) - $begun < 5) {
                $read = $error = $reject = array_values($waiting);
                mysqli_poll($read, $error, $reject, 1);
                foreach ($read as $db) {
                    $seen[] = $db->reap_async_query()->fetch_row()[0];
                    unset($waiting[array_search($db, $waiting, true)]);
                }
            }
            sort($seen);
            same(['1', '2', '3'], $seen);
            truth(microtime(true) - $begun < 0.55, 'they ran at the same time');
        },
        'text: an asynchronous error' => function () {
            $db = connect();
            $db->query('SELECT * FROM no_such_table', MYSQLI_ASYNC);
            $read = $error = $reject = [$db];
            same(1, mysqli_poll($read, $error, $reject, 5));
            fails(1146, fn () => $db->reap_async_query());
            same('1', value($db, 'SELECT 1'));
        },
    ];
}
