/** Checks of prepared statements. */

import assert from 'node:assert/strict';
import callback from 'mysql2';
import { MIB, connect, fails, kept, settings, table, value } from './tools.mjs';

/** The first row of an execute, as an array. */
async function row(db, sql, values) {
  const [rows] = await db.execute({ sql, values, rowsAsArray: true });
  return rows[0];
}

export const prepared = {
  'prepared: all types there and back': async () => {
    const db = await connect({ supportBigNumbers: true, bigNumberStrings: true, timezone: 'Z' });
    const name = await table(db, `i INT, u BIGINT UNSIGNED, d DOUBLE, n DECIMAL(30,10), s VARCHAR(50),
      b BLOB, dt DATETIME(3), ti TIME, da DATE, y YEAR, nu INT, t BOOL`);
    const bytes = Buffer.from([0, 1, 255]);
    const date = new Date('2024-02-29T23:59:59.123Z');
    await db.execute(`INSERT INTO ${name} VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`, [
      -5, '18446744073709551615', 1.25, '12345678901234567890.0123456789', 'Grüße 🐬', bytes, date,
      '-838:59:59', '1000-01-01', 2155, null, true,
    ]);
    const got = await row(db, `SELECT i, u, d, n, s, b, dt, ti, y, nu, t FROM ${name}`);
    got[7] = got[7].replace(/\.0+$/, '');
    assert.deepEqual(got, [
      -5, '18446744073709551615', 1.25, '12345678901234567890.0123456789', 'Grüße 🐬', bytes, date,
      '-838:59:59', 2155, null, 1,
    ]);
    const strings = await connect({ dateStrings: true });
    assert.deepEqual(await row(strings, `SELECT da FROM ${name}`), ['1000-01-01']);
  },
  'prepared: executed 500 times': async () => {
    const db = await connect();
    for (let i = 0; i < 500; i += 1) {
      assert.deepEqual(await row(db, 'SELECT CONCAT("n", ?)', [String(i)]), [`n${i}`]);
    }
  },
  'prepared: a hundred executes without waiting': async () => {
    const db = await connect();
    const all = Array.from({ length: 100 }, (_, i) => row(db, 'SELECT CONCAT(?, "")', [`${i}`]));
    assert.deepEqual((await Promise.all(all)).flat(), Array.from({ length: 100 }, (_, i) => `${i}`));
  },
  'prepared: types of parameters that change': async () => {
    const db = await connect();
    for (const value of [7, 'x', 1.5, null, true, '🐬', Buffer.from('b'), 8]) {
      const [got] = await row(db, 'SELECT CONCAT(?, "")', [value]);
      const want = value === null ? null : String(value === true ? 1 : value);
      assert.equal(got === null ? null : String(got), want);
    }
  },
  'prepared: prepare, execute, close': async () => {
    const db = await connect();
    const statement = await db.prepare('SELECT ? + ? AS sum');
    for (const [a, b] of [[1, 2], [30, 4]]) {
      assert.equal(Number((await statement.execute([a, b]))[0][0].sum), a + b);
    }
    await statement.close();
    assert.equal(await value(db, 'SELECT 1'), 1);
  },
  'prepared: unprepare and execute anew': async () => {
    const db = await connect();
    const sql = 'SELECT CONCAT("again", ?)';
    for (let i = 0; i < 5; i += 1) {
      assert.deepEqual(await row(db, sql, [`${i}`]), [`again${i}`]);
      db.unprepare(sql);
    }
  },
  'prepared: more statements than the driver keeps': async () => {
    const db = await connect({ maxPreparedStatements: 10 });
    for (let i = 0; i < 60; i += 1) {
      assert.deepEqual(await row(db, `SELECT CONCAT("s${i % 20}", ?)`, ['x']), [`s${i % 20}x`]);
    }
  },
  'prepared: 200 statements at once': async () => {
    const db = await connect();
    const all = [];
    for (let i = 0; i < 200; i += 1) {
      all.push(await db.prepare(`SELECT CONCAT("${i}", ?) AS v`));
    }
    for (const [i, statement] of all.entries()) {
      assert.equal((await statement.execute(['x']))[0][0].v, `${i}x`);
      await statement.close();
    }
  },
  'prepared: the same text on two connections': async () => {
    const both = [await connect(), await connect()];
    for (let i = 0; i < 20; i += 1) {
      const got = await Promise.all(both.map((db, n) => row(db, 'SELECT CONCAT("both", ?)', [`${n} ${i}`])));
      assert.deepEqual(got.flat(), [`both0 ${i}`, `both1 ${i}`]);
    }
  },
  'prepared: closed by one connection, used by another': async () => {
    const [one, two] = [await connect(), await connect()];
    const sql = 'SELECT CONCAT("shared", ?)';
    await row(one, sql, ['1']);
    assert.deepEqual(await row(two, sql, ['2']), ['shared2']);
    one.unprepare(sql);
    assert.equal(await value(one, 'SELECT 1'), 1);
    assert.deepEqual(await row(two, sql, ['3']), ['shared3']);
    assert.deepEqual(await row(one, sql, ['4']), ['shared4']);
  },
  'prepared: errors': async () => {
    const db = await connect();
    await fails(1146, db.execute('SELECT * FROM no_such_table WHERE a = ?', [1]));
    const name = await table(db, 'v INT PRIMARY KEY');
    await db.execute(`INSERT INTO ${name} VALUES (?)`, [1]);
    assert.equal((await fails(1062, db.execute(`INSERT INTO ${name} VALUES (?)`, [1]))).sqlState, '23000');
    await db.execute(`INSERT INTO ${name} VALUES (?)`, [2]);
    assert.equal(await value(db, `SELECT COUNT(*) FROM ${name}`), 2);
  },
  'prepared: insertId and affectedRows': async () => {
    const db = await connect();
    const name = await table(db, 'id INT AUTO_INCREMENT PRIMARY KEY, v INT');
    for (const i of [1, 2, 3]) {
      const [result] = await db.execute(`INSERT INTO ${name} (v) VALUES (?)`, [i]);
      assert.deepEqual([result.insertId, result.affectedRows], [i, 1]);
    }
    assert.equal(await value(db, 'SELECT LAST_INSERT_ID()'), 3);
  },
  'prepared: a table that changes': async () => {
    const db = await connect();
    const name = await table(db, 'a INT');
    await db.query(`INSERT INTO ${name} VALUES (1)`);
    assert.deepEqual(await row(db, `SELECT * FROM ${name}`), [1]);
    await db.query(`ALTER TABLE ${name} ADD b INT DEFAULT 2`);
    assert.deepEqual(await row(db, `SELECT * FROM ${name}`), [1, 2]);
  },
  'prepared: another schema': async () => {
    const db = await connect();
    assert.deepEqual(await row(db, 'SELECT DATABASE()'), ['suite1']);
    await db.query('USE suite2');
    // A statement stays in the schema in which it was prepared.
    assert.deepEqual(await row(db, 'SELECT DATABASE()'), ['suite1']);
    assert.deepEqual(await row(db, 'SELECT DATABASE() AS d'), ['suite2']);
  },
  'prepared: named placeholders': async () => {
    const db = await connect({ namedPlaceholders: true });
    const [[got]] = await db.execute('SELECT CONCAT(:a, :b, :a) AS v', { a: 'x', b: 'y' });
    assert.equal(got.v, 'xyx');
  },
  'prepared: 20 MiB each way': async () => {
    const db = await connect();
    const bytes = Buffer.alloc(20 * MIB, '0123456789abcdef');
    const name = await table(db, 'v LONGBLOB');
    await db.execute(`INSERT INTO ${name} VALUES (?)`, [bytes]);
    assert.ok(bytes.equals((await row(db, `SELECT v FROM ${name}`))[0]), 'it comes back as it went');
  },
  'prepared: 100000 rows': async () => {
    const [rows] = await (await connect()).execute('SELECT seq FROM seq_1_to_100000 WHERE seq > ?', [0]);
    assert.equal(rows.length, 100_000);
    assert.equal(rows.at(-1).seq, 100_000);
  },
  'prepared: a procedure with several results': async () => {
    const db = await connect();
    await db.query('DROP PROCEDURE IF EXISTS js_q');
    await db.query('CREATE PROCEDURE js_q(a INT) BEGIN SELECT a; SELECT a + 1 AS b; END');
    const [results] = await db.execute('CALL js_q(?)', [5]);
    assert.deepEqual([results[0], results[1]], [[{ a: 5 }], [{ b: 6 }]]);
    await db.query('DROP PROCEDURE js_q');
  },
  'prepared: a stream of rows': async () => {
    const db = kept(callback.createConnection(settings));
    let count = 0;
    for await (const got of db.execute('SELECT seq FROM seq_1_to_20000').stream()) {
      count += 1;
      assert.equal(got.seq, count);
    }
    assert.equal(count, 20_000);
  },
  'prepared: text and prepared in turns': async () => {
    const db = await connect();
    for (let i = 0; i < 50; i += 1) {
      const both = await Promise.all([value(db, 'SELECT ?', [i]), row(db, 'SELECT CONCAT(?, "")', [`${i}`])]);
      assert.deepEqual(both, [i, [`${i}`]]);
    }
  },
};
