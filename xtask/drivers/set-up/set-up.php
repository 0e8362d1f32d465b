<?php
// What an application in PHP does, for as many connections and requests as it is told.
//
// Arguments: the library, connections, requests on each. A request reads a row, and changes it in a
// transaction, the way PHP's own manual has it. Connections are opened one after the other.

declare(strict_types=1);

const READ = 'SELECT v FROM item WHERE id = ?';
const CHANGE = 'UPDATE item SET v = v + 1 WHERE id = ?';

function env(string $name): string
{
    return (string) getenv("SUITE_$name");
}

function must(bool $condition): void
{
    if (!$condition) {
        throw new RuntimeException('the row is not there');
    }
}

function with_mysqli(int $requests): void
{
    mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
    $it = new mysqli(env('HOST'), env('USER'), env('PASSWORD'), 'application', (int) env('PORT'));
    $it->set_charset('utf8mb4');
    for ($i = 0; $i < $requests; $i++) {
        must($it->query('SELECT v FROM item WHERE id = 1')->num_rows === 1);
        must($it->execute_query(READ, [1])->num_rows === 1);
        $it->begin_transaction();
        $it->execute_query(CHANGE, [1]);
        $it->commit();
    }
    $it->close();
}

/** By default PDO puts the values into the text itself; many turn that off. */
function with_pdo(int $requests, bool $emulate): void
{
    $dsn = 'mysql:host=' . env('HOST') . ';port=' . env('PORT')
        . ';dbname=application;charset=utf8mb4';
    $it = new PDO($dsn, env('USER'), env('PASSWORD'), [PDO::ATTR_EMULATE_PREPARES => $emulate]);
    for ($i = 0; $i < $requests; $i++) {
        $read = $it->prepare(READ);
        $read->execute([1]);
        must(count($read->fetchAll()) === 1);
        $it->beginTransaction();
        $it->prepare(CHANGE)->execute([1]);
        $it->commit();
    }
}

[, $name, $connections, $requests] = $argv;
for ($i = 0; $i < (int) $connections; $i++) {
    match ($name) {
        'mysqli' => with_mysqli((int) $requests),
        'pdo' => with_pdo((int) $requests, true),
        'pdo-native' => with_pdo((int) $requests, false),
    };
}
