<?php
// Sends values of 64 MiB each way that the protocol has, reads them back and compares digests; then
// statements whose length is at, below and above that of a full packet. Prints how many bytes of values
// it has moved. Usage: MYSQL_PWD=… php values.php PORT USER DATABASE

mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
[, $port, $user, $database] = $argv;
$link = new mysqli('127.0.0.1', $user, getenv('MYSQL_PWD'), $database, (int) $port);

const SIZE = 64 << 20;
const PACKET_FULL = 0xffffff;
$moved = 0;

function same(string $what, string $want, string $got): void
{
    if ($want !== $got) {
        throw new Exception("$what differs: digest $want was sent, $got arrived");
    }
}

$send = [
    'the text of a statement' => function (mysqli $link, string $value): void {
        $link->query("INSERT INTO bulk_value VALUES (1, '" . $link->real_escape_string($value) . "')");
    },
    'a parameter' => function (mysqli $link, string $value): void {
        $statement = $link->prepare('INSERT INTO bulk_value VALUES (1, ?)');
        $statement->bind_param('s', $value);
        $statement->execute();
        $statement->close();
    },
    'a parameter in pieces' => function (mysqli $link, string $value): void {
        $statement = $link->prepare('INSERT INTO bulk_value VALUES (1, ?)');
        $none = null;
        $statement->bind_param('b', $none);
        foreach ([0, 1, 20 << 20, 40 << 20] as $index => $from) {
            $to = [1, 20 << 20, 40 << 20, SIZE][$index];
            $statement->send_long_data(0, substr($value, $from, $to - $from));
        }
        $statement->execute();
        $statement->close();
    },
];
$read = [
    'a row of text' => fn (mysqli $link): string =>
        $link->query('SELECT content FROM bulk_value')->fetch_row()[0],
    'a binary row' => function (mysqli $link): string {
        $statement = $link->prepare('SELECT content FROM bulk_value');
        $statement->execute();
        $value = $statement->get_result()->fetch_row()[0];
        $statement->close();
        return $value;
    },
];

$link->query('CREATE OR REPLACE TABLE bulk_value (id INT PRIMARY KEY, content LONGBLOB)');
foreach ($send as $form => $go) {
    $value = random_bytes(SIZE);
    $digest = hash('sha256', $value);
    $link->query('DELETE FROM bulk_value');
    $go($link, $value);
    unset($value);
    $moved += SIZE;
    $stored = $link->query('SELECT SHA2(content, 256) FROM bulk_value')->fetch_row()[0];
    same("$form, at the server,", $digest, $stored);
    foreach ($read as $how => $get) {
        same("$form, read as $how,", $digest, hash('sha256', $get($link)));
        $moved += SIZE;
    }
}
$link->query('DROP TABLE bulk_value');

foreach ([-1, 0, 1] as $beyond) {
    // A packet begins with the command's number.
    $room = PACKET_FULL + $beyond - 1 - strlen("SELECT SHA2('', 256)");
    $text = str_repeat('0123456789abcdef', intdiv($room, 16) + 1);
    $text = substr($text, 0, $room);
    $answer = $link->query("SELECT SHA2('$text', 256)")->fetch_row()[0];
    same("a statement $beyond beyond a full packet", hash('sha256', $text), $answer);
    $moved += $room;
}
echo $moved, "\n";
