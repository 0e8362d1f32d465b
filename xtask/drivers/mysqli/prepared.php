<?php
/** Checks of mysqli's prepared statements. */

declare(strict_types=1);

const TYPES = 'i INT, u BIGINT UNSIGNED, d DOUBLE, n DECIMAL(30,10), s VARCHAR(50), b BLOB,
    dt DATETIME(6), ti TIME(6), da DATE, y YEAR, bi BIT(10), e ENUM(\'x\', \'y\'), nu INT';

function prepared_checks(): array
{
    return [
        'prepared: all types there and back' => function () {
            $db = connect();
            $db->set_charset('utf8mb4');
            $table = table($db, TYPES);
            $statement = $db->prepare("INSERT INTO $table VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)");
            $row = [-5, '18446744073709551615', 1.25, '12345678901234567890.0123456789', 'Grüße 🐬',
                "\0\1\xff", '2024-02-29 23:59:59.123456', '-838:59:59.000000', '1000-01-01', '2155', 513,
                'y', null];
            $statement->bind_param('isdsssssssisi', ...$row);
            $statement->execute();
            same([1, 13], [$statement->affected_rows, $statement->param_count]);
            $statement = $db->prepare("SELECT * FROM $table");
            $statement->execute();
            foreach ($statement->get_result()->fetch_row() as $column => $value) {
                same($row[$column], $value, "column $column");
            }
        },
        'prepared: bind_result' => function () {
            $db = connect();
            $statement = $db->prepare('SELECT seq, CONCAT(?, seq) FROM seq_1_to_1000');
            $prefix = 'n';
            $statement->bind_param('s', $prefix);
            $statement->execute();
            $statement->bind_result($number, $text);
            $last = 0;
            while ($statement->fetch()) {
                same([$last + 1, 'n' . ($last + 1)], [$number, $text]);
                $last = $number;
            }
            same(1000, $last);
            $statement->close();
            same('1', value($db, 'SELECT 1'));
        },
        'prepared: stored results can be sought in' => function () {
            $db = connect();
            $statement = $db->prepare('SELECT seq FROM seq_1_to_100');
            $statement->execute();
            $statement->store_result();
            same(100, $statement->num_rows);
            $statement->bind_result($number);
            $statement->data_seek(49);
            $statement->fetch();
            same(50, $number);
        },
        'prepared: executed 500 times' => function () {
            $db = connect();
            $statement = $db->prepare('SELECT ? + 1');
            for ($i = 0; $i < 500; $i++) {
                $statement->execute([$i]);
                same($i + 1.0, (float) $statement->get_result()->fetch_row()[0]);
            }
        },
        'prepared: types of parameters that change' => function () {
            $db = connect();
            $statement = $db->prepare('SELECT ?');
            foreach ([['i', 7], ['s', 'x'], ['d', 1.5], ['i', null], ['s', '🐬']] as [$type, $value]) {
                $statement->bind_param($type, $value);
                $statement->execute();
                $got = $statement->get_result()->fetch_row()[0];
                same($value === null ? null : (string) $value, $got === null ? null : (string) $got);
            }
        },
        'prepared: 300 statements at once' => function () {
            $db = connect();
            $statements = array_map(fn ($i) => $db->prepare("SELECT $i + ?"), range(1, 300));
            foreach ($statements as $i => $statement) {
                $statement->execute([1000]);
                same($i + 1001.0, (float) $statement->get_result()->fetch_row()[0]);
            }
            foreach ($statements as $statement) {
                $statement->close();
            }
            same('1', value($db, 'SELECT 1'));
        },
        'prepared: two statements in turns' => function () {
            $db = connect();
            [$a, $b] = [$db->prepare("SELECT CONCAT('a', ?)"), $db->prepare("SELECT CONCAT('b', ?)")];
            foreach (range(1, 20) as $i) {
                $a->execute([$i]);
                $b_too = $a->get_result()->fetch_row()[0];
                $b->execute([$i]);
                same(["a$i", "b$i"], [$b_too, $b->get_result()->fetch_row()[0]]);
            }
        },
        'prepared: the same text on two connections' => function () {
            [$one, $two] = [connect(), connect()];
            $statements = [$one->prepare('SELECT ?'), $two->prepare('SELECT ?')];
            foreach (range(1, 20) as $i) {
                foreach ($statements as $number => $statement) {
                    $statement->execute(["$number $i"]);
                    same("$number $i", $statement->get_result()->fetch_row()[0]);
                }
            }
        },
        'prepared: an error leaves the statement usable' => function () {
            $db = connect();
            $table = table($db, 'v INT PRIMARY KEY');
            $statement = $db->prepare("INSERT INTO $table VALUES (?)");
            $statement->execute([1]);
            same('23000', fails(1062, fn () => $statement->execute([1]))->getSqlState());
            $statement->execute([2]);
            same('2', value($db, "SELECT COUNT(*) FROM $table"));
        },
        'prepared: errors of prepare' => function () {
            $db = connect();
            fails(1064, fn () => $db->prepare('SELEC ?'));
            fails(1146, fn () => $db->prepare('SELECT * FROM no_such_table WHERE a = ?'));
            same('1', value($db, 'SELECT 1'));
        },
        'prepared: a table that changes' => function () {
            $db = connect();
            $table = table($db, 'a INT');
            $db->query("INSERT INTO $table VALUES (1)");
            $statement = $db->prepare("SELECT * FROM $table");
            $statement->execute();
            same([1], $statement->get_result()->fetch_row());
            $db->query("ALTER TABLE $table ADD b INT DEFAULT 2");
            $statement->execute();
            same([1, 2], $statement->get_result()->fetch_row());
        },
        'prepared: insert_id' => function () {
            $db = connect();
            $table = table($db, 'id INT AUTO_INCREMENT PRIMARY KEY, v INT');
            $statement = $db->prepare("INSERT INTO $table (v) VALUES (?)");
            foreach ([1, 2, 3] as $i) {
                $statement->execute([$i]);
                same([$i, $i], [$statement->insert_id, $db->insert_id]);
            }
            same('3', value($db, 'SELECT LAST_INSERT_ID()'));
        },
        'prepared: metadata of results' => function () {
            $db = connect();
            $statement = $db->prepare('SELECT 1 AS a, ? AS b');
            $fields = $statement->result_metadata()->fetch_fields();
            same(['a', 'b'], array_column($fields, 'name'));
        },
        'prepared: long data in pieces' => function () {
            $db = connect();
            $table = table($db, 'v LONGBLOB');
            $statement = $db->prepare("INSERT INTO $table VALUES (?)");
            $null = null;
            $statement->bind_param('b', $null);
            foreach (range(0, 19) as $i) {
                $statement->send_long_data(0, str_repeat(chr(65 + $i), MIB));
            }
            $statement->execute();
            same([(string) (20 * MIB), 'A', 'T'],
                $db->query("SELECT LENGTH(v), LEFT(v, 1), RIGHT(v, 1) FROM $table")->fetch_row());
        },
        'prepared: long data, reset, executed anew' => function () {
            $db = connect();
            $statement = $db->prepare('SELECT LENGTH(?)');
            $null = null;
            $statement->bind_param('b', $null);
            $statement->send_long_data(0, 'lost');
            $statement->reset();
            $statement->send_long_data(0, 'kept it');
            $statement->execute();
            same(7, $statement->get_result()->fetch_row()[0]);
        },
        'prepared: a value of 20 MiB each way' => function () {
            $db = connect();
            $statement = $db->prepare('SELECT ?');
            $value = str_repeat('0123456789abcdef', 20 * MIB / 16);
            $statement->execute([$value]);
            truth($value === $statement->get_result()->fetch_row()[0], 'it comes back as it went');
        },
        'prepared: a cursor' => function () {
            $db = connect();
            $statement = $db->prepare('SELECT seq FROM seq_1_to_5000');
            $statement->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
            $statement->execute();
            $statement->bind_result($number);
            $sum = 0;
            while ($statement->fetch()) {
                $sum += $number;
                // A cursor leaves the connection free.
                $number % 1000 == 0 && same('1', value($db, 'SELECT 1'));
            }
            same(5000 * 5001 / 2, $sum);
        },
        'prepared: two cursors in turns' => function () {
            $db = connect();
            $open = function (string $sql) use ($db) {
                $statement = $db->prepare($sql);
                $statement->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
                $statement->execute();
                return $statement;
            };
            $up = $open('SELECT seq FROM seq_1_to_50');
            $down = $open('SELECT 51 - seq FROM seq_1_to_50');
            $up->bind_result($a);
            $down->bind_result($b);
            $count = 0;
            while ($up->fetch() && $down->fetch()) {
                same(51, (int) ($a + $b));
                $count++;
            }
            same(50, $count);
        },
        'prepared: a procedure with several results' => function () {
            $db = connect();
            $db->query('DROP PROCEDURE IF EXISTS php_q');
            $db->query('CREATE PROCEDURE php_q(a INT) BEGIN SELECT a; SELECT a + 1, a + 2; END');
            $statement = $db->prepare('CALL php_q(?)');
            $statement->execute([5]);
            $seen = [];
            do {
                if ($result = $statement->get_result()) {
                    $seen[] = $result->fetch_row();
                }
            } while ($statement->more_results() && $statement->next_result());
            same([[5], [6, 7]], array_map(fn ($row) => array_map('intval', $row), $seen));
            $statement->close();
            $db->query('DROP PROCEDURE php_q');
        },
        'prepared: by SQL' => function () {
            $db = connect();
            $db->query("PREPARE s FROM 'SELECT ? + ?'");
            $db->query('SET @a = 3, @b = 4');
            same('7', value($db, 'EXECUTE s USING @a, @b'));
            $db->query('DEALLOCATE PREPARE s');
            fails(1243, fn () => $db->query('EXECUTE s USING @a, @b'));
        },
        'prepared: execute_query' => function () {
            $result = connect()->execute_query('SELECT ? AS a, ? AS b', ['x', 2]);
            same('x', $result->fetch_assoc()['a']);
        },
        'prepared: warnings' => function () {
            $db = connect();
            $statement = $db->prepare('SELECT CAST(? AS INT)');
            $statement->execute(['x2']);
            $statement->get_result()->free();
            same('1292', $db->query('SHOW WARNINGS')->fetch_row()[1]);
        },
        'prepared: closed with rows unread' => function () {
            $db = connect();
            $statement = $db->prepare('SELECT seq FROM seq_1_to_50000');
            $statement->execute();
            $statement->fetch();
            $statement->close();
            same('1', value($db, 'SELECT 1'));
        },
    ];
}
