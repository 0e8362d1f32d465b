<?php
/**
 * Real use of PHP's mysqli and PDO, against the server that SUITE_* name; prints TAP.
 *
 * Each check is a function that fails by an exception, has connections of its own, and leaves
 * nothing. Knows nothing of proxies. Ends with 0 if all checks were run, whatever their outcome.
 */

declare(strict_types=1);

mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
require __DIR__ . '/text.php';
require __DIR__ . '/prepared.php';
require __DIR__ . '/session.php';
require __DIR__ . '/pdo.php';

const DATABASE = 'suite1';
const OTHER_DATABASE = 'suite2';
const MIB = 1 << 20;

function setting(string $name): string
{
    $value = getenv("SUITE_$name");
    return $value !== false ? $value : throw new Exception("SUITE_$name is not set");
}

/** A connection; the callback may set options before it is opened. */
function connect(?callable $options = null, int $flags = 0, string $prefix = ''): mysqli
{
    $db = mysqli_init();
    $options && $options($db);
    $host = $prefix . setting('HOST');
    $port = (int) setting('PORT');
    $db->real_connect($host, setting('USER'), setting('PASSWORD'), DATABASE, $port, null, $flags);
    return $db;
}

/** The first column of the first row. */
function value(mysqli $db, string $sql): mixed
{
    return $db->query($sql)->fetch_row()[0] ?? null;
}

/** An empty table with a name of its own. */
function table(mysqli $db, string $columns): string
{
    static $count = 0;
    $name = 'php_' . ++$count;
    $db->query("DROP TABLE IF EXISTS $name");
    $db->query("CREATE TABLE $name ($columns)");
    return $name;
}

function same(mixed $want, mixed $got, string $what = ''): void
{
    if ($want !== $got) {
        $show = fn ($value) => substr(var_export($value, true), 0, 200);
        throw new Exception("$what: {$show($got)} instead of {$show($want)}");
    }
}

function truth(bool $it, string $what): void
{
    $it || throw new Exception("not so: $what");
}

/** Fails unless the action fails with this error number; returns the exception. */
function fails(int $number, callable $action): Exception
{
    try {
        $action();
    } catch (mysqli_sql_exception $error) {
        same($number, $error->getCode(), $error->getMessage());
        return $error;
    } catch (PDOException $error) {
        same($number, $error->errorInfo[1] ?? null, $error->getMessage());
        return $error;
    }
    throw new Exception("did not fail with $number");
}

/** Tries again for some seconds, for what becomes true a moment later. */
function soon(callable $is_true, string $what): void
{
    for ($i = 0; $i < 100; $i++) {
        if ($is_true()) {
            return;
        }
        usleep(50_000);
    }
    throw new Exception("not so, even later: $what");
}

function main(): void
{
    $checks = text_checks() + prepared_checks() + session_checks() + pdo_checks();
    $number = 0;
    foreach ($checks as $name => $check) {
        $number++;
        try {
            $check();
            echo "ok $number - $name\n";
        } catch (Throwable $error) {
            $place = basename($error->getFile()) . ':' . $error->getLine();
            echo "not ok $number - $name\n# $place: ", strtr($error->getMessage(), "\n", ' '), "\n";
        }
        flush();
    }
    $db = connect();
    foreach ($db->query("SHOW TABLES LIKE 'php\\_%'")->fetch_all() as [$name]) {
        $db->query("DROP TABLE $name");
    }
    echo "1..$number\n";
}

main();
