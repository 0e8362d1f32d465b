/** Checks of the text protocol: results, types, errors, several statements, streams, files. */

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import callback from 'mysql2';
import { DATABASE, MIB, connect, fails, kept, settings, table, value } from './tools.mjs';

export const text = {
  'text: rows, as objects and as arrays': async () => {
    const db = await connect();
    assert.deepEqual((await db.query("SELECT 1 AS a, 'x' AS b, NULL AS c"))[0], [
      { a: 1, b: 'x', c: null },
    ]);
    const [rows] = await db.query({ sql: 'SELECT 1 AS a, 2 AS a', rowsAsArray: true });
    assert.deepEqual(rows, [[1, 2]]);
    const [nested] = await db.query({ sql: 'SELECT t.a FROM (SELECT 7 AS a) t', nestTables: true });
    assert.equal(nested[0].t.a, 7);
  },
  'text: callbacks': async () => {
    const db = kept(callback.createConnection(settings));
    const rows = await new Promise((resolve, reject) => {
      db.query('SELECT ? AS v', ['x'], (error, rows) => (error ? reject(error) : resolve(rows)));
    });
    assert.deepEqual(rows, [{ v: 'x' }]);
    const error = await new Promise((resolve) => {
      db.query('SELECT * FROM no_such_table', resolve);
    });
    assert.equal(error.errno, 1146);
  },
  'text: fifty statements in a row, without waiting': async () => {
    const db = await connect();
    const all = Array.from({ length: 50 }, (_, i) => value(db, 'SELECT ?', [i]));
    assert.deepEqual(await Promise.all(all), Array.from({ length: 50 }, (_, i) => i));
  },
  'text: numbers, small and big': async () => {
    const sql = 'SELECT 18446744073709551615 AS u, -9223372036854775808 AS i, 1.5e0 AS d, 2.50 AS n';
    const db = await connect({ supportBigNumbers: true, bigNumberStrings: false });
    const [[row]] = await db.query(sql);
    assert.deepEqual(row, { u: '18446744073709551615', i: '-9223372036854775808', d: 1.5, n: '2.50' });
    const numbers = await connect({ decimalNumbers: true });
    assert.equal(await value(numbers, 'SELECT 2.50'), 2.5);
  },
  'text: times and dates': async () => {
    const sql = `SELECT CAST('2024-02-29 12:34:56.789' AS DATETIME(3)) AS dt,
      CAST('2024-02-29' AS DATE) AS da, CAST('-838:59:59' AS TIME) AS ti`;
    const db = await connect({ timezone: 'Z' });
    const [[row]] = await db.query(sql);
    assert.equal(row.dt.toISOString(), '2024-02-29T12:34:56.789Z');
    assert.equal(row.da.toISOString(), '2024-02-29T00:00:00.000Z');
    assert.equal(row.ti, '-838:59:59');
    const east = await connect({ timezone: '+05:00' });
    assert.equal((await east.query(sql))[0][0].dt.toISOString(), '2024-02-29T07:34:56.789Z');
    const strings = await connect({ dateStrings: true });
    assert.equal((await strings.query(sql))[0][0].dt, '2024-02-29 12:34:56.789');
  },
  'text: JSON, blobs and bits': async () => {
    const db = await connect();
    const name = await table(db, 'j JSON, b BLOB, bi BIT(10), e ENUM("x", "y")');
    const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
    await db.query('INSERT INTO ?? VALUES (?, ?, b?, ?)', [
      name, JSON.stringify({ a: [1, 'é'] }), bytes, '1000000001', 'y',
    ]);
    const [[row]] = await db.query('SELECT * FROM ??', [name]);
    const json = typeof row.j === 'string' ? JSON.parse(row.j) : row.j;
    assert.deepEqual(json, { a: [1, 'é'] });
    assert.deepEqual([row.b, row.bi, row.e], [bytes, Buffer.from([2, 1]), 'y']);
  },
  'text: typeCast': async () => {
    const db = await connect({
      typeCast: (field, next) => (field.type === 'TINY' && field.length === 1 ? field.string() === '1' : next()),
    });
    const name = await table(db, 'b TINYINT(1), i INT');
    await db.query(`INSERT INTO ${name} VALUES (1, 1), (0, 0)`);
    const [rows] = await db.query({ sql: `SELECT * FROM ${name}`, rowsAsArray: true });
    assert.deepEqual(rows, [[true, 1], [false, 0]]);
  },
  'text: metadata of columns': async () => {
    const db = await connect();
    const name = await table(db, 'id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20)');
    const [, fields] = await db.query(`SELECT id AS n, v FROM ${name} AS t`);
    const { name: alias, orgName, table: tableAlias, orgTable, schema } = fields[0];
    assert.deepEqual([alias, orgName, tableAlias, orgTable, schema], ['n', 'id', 't', name, DATABASE]);
  },
  'text: named placeholders': async () => {
    const db = await connect({ namedPlaceholders: true });
    const [[row]] = await db.query('SELECT :a AS a, :b AS b', { a: 1, b: "it's" });
    assert.deepEqual(row, { a: 1, b: "it's" });
  },
  'text: insertId, affectedRows, changedRows': async () => {
    const db = await connect();
    const name = await table(db, 'id INT AUTO_INCREMENT PRIMARY KEY, v INT');
    const [inserted] = await db.query('INSERT INTO ?? (v) VALUES ?', [name, [[1], [2], [3]]]);
    assert.deepEqual([inserted.insertId, inserted.affectedRows], [1, 3]);
    assert.equal(await value(db, 'SELECT LAST_INSERT_ID()'), 1);
    const [updated] = await db.query(`UPDATE ${name} SET v = 2 WHERE id <= 2`);
    // The driver asks for found rows.
    assert.deepEqual([updated.affectedRows, updated.changedRows], [2, 1]);
    assert.match(updated.info, /Rows matched: 2 {2}Changed: 1/);
    const changed = await connect({ flags: ['-FOUND_ROWS'] });
    assert.equal((await changed.query(`UPDATE ${name} SET v = 3 WHERE v >= 3 OR id = 1`))[0].affectedRows, 1);
  },
  'text: errors': async () => {
    const db = await connect();
    const error = await fails(1146, db.query('SELECT * FROM no_such_table'));
    assert.deepEqual([error.code, error.sqlState], ['ER_NO_SUCH_TABLE', '42S02']);
    assert.match(error.message, /no_such_table/);
    assert.equal((await fails(1064, db.query('SELEC 1'))).code, 'ER_PARSE_ERROR');
    const name = await table(db, 'v INT PRIMARY KEY');
    await db.query(`INSERT INTO ${name} VALUES (1)`);
    const twice = await fails(1062, db.query(`INSERT INTO ${name} VALUES (1)`));
    assert.deepEqual([twice.code, twice.sqlState], ['ER_DUP_ENTRY', '23000']);
    assert.equal(await value(db, 'SELECT 1'), 1);
  },
  'text: warnings': async () => {
    const db = await connect();
    const name = await table(db, 'v TINYINT');
    const [result] = await db.query(`INSERT IGNORE INTO ${name} VALUES (1000)`);
    assert.equal(result.warningStatus, 1);
    assert.equal((await db.query('SHOW WARNINGS'))[0][0].Code, 1264);
  },
  'text: several statements at once': async () => {
    const db = await connect({ multipleStatements: true });
    const [results, fields] = await db.query('SELECT 1 AS a; DO 2; SELECT 3 AS b UNION SELECT 4');
    assert.deepEqual(results[0], [{ a: 1 }]);
    assert.equal(results[1].affectedRows, 0);
    assert.deepEqual(results[2], [{ b: 3 }, { b: 4 }]);
    assert.equal(fields.length, 3);
  },
  'text: an error among several statements': async () => {
    const db = await connect({ multipleStatements: true });
    await fails(1146, db.query('SELECT 1; SELECT * FROM no_such_table; SELECT 3'));
    assert.equal(await value(db, 'SELECT 1'), 1);
  },
  'text: several statements are refused without the option': async () => {
    await fails(1064, (await connect()).query('SELECT 1; SELECT 2'));
  },
  'text: procedures with results and out parameters': async () => {
    const db = await connect({ multipleStatements: true });
    await db.query('DROP PROCEDURE IF EXISTS js_p');
    await db.query(`CREATE PROCEDURE js_p(IN a INT, OUT b INT, INOUT c INT)
      BEGIN SELECT a; SET b = a + 1; SET c = c * 2; SELECT c; END`);
    const [results] = await db.query('SET @c = 21; CALL js_p(1, @b, @c); SELECT @b AS b, @c AS c');
    assert.deepEqual(results[1], [{ a: 1 }]);
    assert.deepEqual(results[2], [{ c: 42 }]);
    assert.deepEqual(results.at(-1), [{ b: 2, c: 42 }]);
    await db.query('DROP PROCEDURE js_p');
  },
  'text: 20 MiB each way': async () => {
    const db = await connect();
    const name = await table(db, 'v LONGBLOB');
    const bytes = Buffer.alloc(20 * MIB, '0123456789abcdef');
    await db.query('INSERT INTO ?? VALUES (?)', [name, bytes.toString()]);
    const back = await value(db, `SELECT v FROM ${name}`);
    assert.ok(bytes.equals(back), 'it comes back as it went');
  },
  'text: values around the longest packet': async () => {
    const db = await connect();
    for (const more of [-2, -1, 0, 1]) {
      const length = (1 << 24) - 1 - 5 + more;
      assert.equal((await value(db, 'SELECT REPEAT("x", ?)', [length])).length, length);
    }
  },
  'text: utf8mb4': async () => {
    const db = await connect({ charset: 'utf8mb4' });
    const words = "Grüße, мир, 🐬 \\ ' \" \0 \n";
    assert.equal(await value(db, 'SELECT ?', [words]), words);
    assert.equal(await value(db, 'SELECT CHAR_LENGTH("🐬")'), 1);
  },
  'text: latin1': async () => {
    const db = await connect({ charset: 'latin1' });
    assert.equal(await value(db, 'SELECT HEX("ü")'), 'FC');
    assert.equal(await value(db, 'SELECT "ü"'), 'ü');
  },
  'text: a stream of 100000 rows': async () => {
    const db = kept(callback.createConnection(settings));
    let [count, sum] = [0, 0];
    const sink = new Writable({
      objectMode: true,
      write(row, _, done) {
        count += 1;
        sum += row.seq;
        done();
      },
    });
    await pipeline(db.query('SELECT seq FROM seq_1_to_100000').stream({ highWaterMark: 10 }), sink);
    assert.deepEqual([count, sum], [100_000, (100_000 * 100_001) / 2]);
  },
  'text: rows by events, with a pause': async () => {
    const db = kept(callback.createConnection(settings));
    let count = 0;
    const query = db.query('SELECT seq, REPEAT("x", 1000) FROM seq_1_to_20000');
    query.on('result', () => {
      count += 1;
      if (count === 5000) {
        db.pause();
        setTimeout(() => db.resume(), 300);
      }
    });
    await once(query, 'end');
    assert.equal(count, 20_000);
  },
  'text: a connection that is destroyed among rows': async () => {
    const db = kept(callback.createConnection(settings));
    const query = db.query('SELECT seq FROM seq_1_to_1000000');
    await once(query, 'result');
    db.destroy();
    assert.equal(await value(await connect(), 'SELECT 1'), 1);
  },
  'text: 200000 rows at once': async () => {
    const [rows] = await (await connect()).query('SELECT seq, seq * 2 AS d FROM seq_1_to_200000');
    assert.equal(rows.length, 200_000);
    assert.ok(rows.every((row) => row.d === 2 * row.seq));
  },
  'text: LOAD DATA LOCAL from a stream': async () => {
    const db = await connect();
    const name = await table(db, 'a INT, b VARCHAR(20)');
    const lines = Array.from({ length: 50_000 }, (_, i) => Buffer.from(`${i},row ${i}\n`));
    const [result] = await db.query({
      sql: `LOAD DATA LOCAL INFILE 'any' INTO TABLE ${name} FIELDS TERMINATED BY ','`,
      infileStreamFactory: () => Readable.from(lines),
    });
    assert.equal(result.affectedRows, 50_000);
    assert.equal(await value(db, `SELECT b FROM ${name} WHERE a = 49999`), 'row 49999');
  },
  'text: LOAD DATA LOCAL that the client refuses': async () => {
    const db = await connect();
    const name = await table(db, 'a INT');
    await assert.rejects(db.query(`LOAD DATA LOCAL INFILE '/etc/hostname' INTO TABLE ${name}`));
  },
};
