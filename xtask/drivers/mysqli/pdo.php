<?php
/** Checks of PDO, with prepared statements that it emulates and with the server's own. */

declare(strict_types=1);

/** @param array<int, mixed> $options */
function pdo(array $options = []): PDO
{
    $source = sprintf('mysql:host=%s;port=%s;dbname=%s;charset=utf8mb4', setting('HOST'),
        setting('PORT'), DATABASE);
    return new PDO($source, setting('USER'), setting('PASSWORD'), $options);
}

function pdo_table(PDO $db, string $columns): string
{
    static $count = 0;
    $name = 'php_pdo_' . ++$count;
    $db->exec("DROP TABLE IF EXISTS $name");
    $db->exec("CREATE TABLE $name ($columns)");
    return $name;
}

function pdo_checks(): array
{
    $checks = [];
    foreach (['emulated' => true, 'native' => false] as $kind => $emulate) {
        $options = [PDO::ATTR_EMULATE_PREPARES => $emulate];
        foreach (pdo_prepared_checks($options) as $name => $check) {
            $checks["PDO $kind: $name"] = $check;
        }
    }
    return $checks + pdo_other_checks();
}

/** @param array<int, mixed> $options */
function pdo_prepared_checks(array $options): array
{
    return [
        'named and numbered parameters' => function () use ($options) {
            $db = pdo($options);
            $statement = $db->prepare('SELECT :a AS a, :b AS b');
            $statement->execute(['a' => 'x', 'b' => "it's 🐬"]);
            same(['a' => 'x', 'b' => "it's 🐬"], $statement->fetch(PDO::FETCH_ASSOC));
            $statement = $db->prepare('SELECT CONCAT(?, ?)');
            $statement->execute(['x', 'y']);
            same('xy', $statement->fetchColumn());
        },
        'typed parameters' => function () use ($options) {
            $db = pdo($options);
            $table = pdo_table($db, 'i BIGINT, s VARCHAR(9), n INT, b BOOL, l LONGBLOB');
            $statement = $db->prepare("INSERT INTO $table VALUES (?, ?, ?, ?, ?)");
            $statement->bindValue(1, PHP_INT_MIN, PDO::PARAM_INT);
            $statement->bindValue(2, 'x');
            $statement->bindValue(3, null, PDO::PARAM_NULL);
            $statement->bindValue(4, true, PDO::PARAM_BOOL);
            $stream = fopen('php://memory', 'r+');
            fwrite($stream, str_repeat("\0\xff", MIB));
            rewind($stream);
            $statement->bindParam(5, $stream, PDO::PARAM_LOB);
            $statement->execute();
            $row = $db->query("SELECT i, s, n, b, LENGTH(l) FROM $table")->fetch(PDO::FETCH_NUM);
            same([PHP_INT_MIN, 'x', null, 1, 2 * MIB], $row);
        },
        'executed 200 times, in a transaction' => function () use ($options) {
            $db = pdo($options);
            $table = pdo_table($db, 'v INT');
            $db->beginTransaction();
            $statement = $db->prepare("INSERT INTO $table VALUES (?)");
            foreach (range(1, 200) as $i) {
                $statement->execute([$i]);
            }
            truth($db->inTransaction(), 'in a transaction');
            same(0, pdo()->query("SELECT COUNT(*) FROM $table")->fetchColumn());
            $db->commit();
            same(200, pdo()->query("SELECT COUNT(*) FROM $table")->fetchColumn());
        },
        'errors' => function () use ($options) {
            $db = pdo($options);
            $error = fails(1146, function () use ($db) {
                $db->prepare('SELECT * FROM no_such_table WHERE a = ?')->execute([1]);
            });
            same('42S02', $error->errorInfo[0]);
            same(1, (int) $db->query('SELECT 1')->fetchColumn());
        },
        'a procedure with several results' => function () use ($options) {
            $db = pdo($options);
            $db->exec('DROP PROCEDURE IF EXISTS php_r');
            $db->exec('CREATE PROCEDURE php_r(a INT) BEGIN SELECT a; SELECT a + 1; END');
            $statement = $db->prepare('CALL php_r(?)');
            $statement->execute([5]);
            $seen = [(int) $statement->fetchColumn()];
            while ($statement->nextRowset() && ($value = $statement->fetchColumn()) !== false) {
                $seen[] = (int) $value;
            }
            same([5, 6], $seen);
            $statement->closeCursor();
            $db->exec('DROP PROCEDURE php_r');
        },
        'rows that are not buffered' => function () use ($options) {
            $db = pdo($options + [PDO::MYSQL_ATTR_USE_BUFFERED_QUERY => false]);
            $statement = $db->prepare('SELECT seq FROM seq_1_to_20000');
            $statement->execute();
            $sum = 0;
            while (($number = $statement->fetchColumn()) !== false) {
                $sum += $number;
            }
            same(20_000 * 20_001 / 2, $sum);
            same(1, (int) $db->query('SELECT 1')->fetchColumn());
        },
        'a value of 20 MiB each way' => function () use ($options) {
            $statement = pdo($options)->prepare('SELECT ?');
            $value = str_repeat('0123456789abcdef', 20 * MIB / 16);
            $statement->execute([$value]);
            truth($value === $statement->fetchColumn(), 'it comes back as it went');
        },
        'ids and counts' => function () use ($options) {
            $db = pdo($options);
            $table = pdo_table($db, 'id INT AUTO_INCREMENT PRIMARY KEY, v INT');
            $statement = $db->prepare("INSERT INTO $table (v) VALUES (?), (?)");
            $statement->execute([1, 2]);
            same(['1', 2], [$db->lastInsertId(), $statement->rowCount()]);
        },
    ];
}

function pdo_other_checks(): array
{
    return [
        'PDO: several statements at once' => function () {
            $statement = pdo()->query('SELECT 1; SELECT 2');
            same(1, (int) $statement->fetchColumn());
            truth($statement->nextRowset(), 'a second result');
            same(2, (int) $statement->fetchColumn());
        },
        'PDO: attributes' => function () {
            $db = pdo();
            truth(str_contains($db->getAttribute(PDO::ATTR_SERVER_VERSION), 'MariaDB'), 'version');
            truth(str_contains($db->getAttribute(PDO::ATTR_SERVER_INFO), 'Uptime'), 'info');
            truth(str_contains($db->getAttribute(PDO::ATTR_CONNECTION_STATUS), setting('HOST')), 'status');
        },
        'PDO: init command and found rows' => function () {
            $db = pdo([PDO::MYSQL_ATTR_INIT_COMMAND => 'SET @init = 9', PDO::MYSQL_ATTR_FOUND_ROWS => true]);
            same(9, (int) $db->query('SELECT @init')->fetchColumn());
            $table = pdo_table($db, 'v INT');
            $db->exec("INSERT INTO $table VALUES (1)");
            same(1, $db->exec("UPDATE $table SET v = 1"));
        },
        'PDO: persistent connections' => function () {
            $db = pdo([PDO::ATTR_PERSISTENT => true]);
            $id = $db->query('SELECT CONNECTION_ID()')->fetchColumn();
            $db = null;
            $db = pdo([PDO::ATTR_PERSISTENT => true]);
            same($id, $db->query('SELECT CONNECTION_ID()')->fetchColumn());
        },
        'PDO: TLS, verified' => function () {
            $db = pdo([PDO::MYSQL_ATTR_SSL_CA => setting('CA')]);
            truth($db->query("SHOW STATUS LIKE 'Ssl_cipher'")->fetch()[1] !== '', 'a cipher');
        },
        'PDO: LOAD DATA LOCAL' => function () {
            $db = pdo([PDO::MYSQL_ATTR_LOCAL_INFILE => true]);
            $table = pdo_table($db, 'a INT');
            $file = tempnam(sys_get_temp_dir(), 'suite');
            file_put_contents($file, implode("\n", range(1, 1000)) . "\n");
            try {
                same(1000, $db->exec("LOAD DATA LOCAL INFILE '$file' INTO TABLE $table"));
            } finally {
                unlink($file);
            }
        },
    ];
}
