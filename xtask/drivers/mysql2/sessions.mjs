/** Checks of what a connection is and remembers: users, schemas, transactions, TLS, kills. */

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import {
  DATABASE, MIB, OTHER_DATABASE, connect, fails, setting, sleep, soon, table, value,
} from './tools.mjs';

export const sessions = {
  'session: wrong password': async () => {
    const error = await fails(1045, connect({ password: 'wrong' }));
    assert.equal(error.code, 'ER_ACCESS_DENIED_ERROR');
  },
  'session: unknown database': async () => {
    assert.equal((await fails(1049, connect({ database: 'no_such_database' }))).code, 'ER_BAD_DB_ERROR');
  },
  'session: no database': async () => {
    const db = await connect({ database: undefined });
    assert.equal(await value(db, 'SELECT DATABASE()'), null);
    await fails(1046, db.query('SELECT * FROM t'));
  },
  'session: changeUser': async () => {
    const db = await connect();
    await db.query('SET @x = 1');
    await db.query('CREATE TEMPORARY TABLE js_temp (a INT)');
    await db.changeUser({ database: OTHER_DATABASE });
    assert.equal(await value(db, 'SELECT DATABASE()'), OTHER_DATABASE);
    assert.equal(await value(db, 'SELECT @x'), null);
    await fails(1146, db.query(`SELECT * FROM ${DATABASE}.js_temp`));
  },
  'session: changeUser to another user': async () => {
    const [db, user, password] = [await connect(), setting('OTHER_USER'), setting('PASSWORD')];
    await db.query(`GRANT SELECT ON ${OTHER_DATABASE}.* TO ${user}`);
    for (let i = 0; i < 3; i += 1) {
      await db.changeUser({ user, password, database: OTHER_DATABASE });
      assert.ok((await value(db, 'SELECT CURRENT_USER()')).startsWith(`${user}@`));
      await fails(1044, db.query(`USE ${DATABASE}`));
      await db.changeUser({ user: setting('USER'), password, database: DATABASE });
      assert.ok((await value(db, 'SELECT CURRENT_USER()')).startsWith(`${setting('USER')}@`));
    }
  },
  'session: changeUser to a user that was just made': async () => {
    const admin = await connect();
    await admin.query("CREATE OR REPLACE USER suite_js IDENTIFIED BY 'pass word'");
    await admin.query(`GRANT SELECT ON ${OTHER_DATABASE}.* TO suite_js`);
    try {
      const db = await connect();
      await db.changeUser({ user: 'suite_js', password: 'pass word', database: OTHER_DATABASE });
      assert.match(await value(db, 'SELECT CURRENT_USER()'), /^suite_js@/);
      await fails(1044, db.query(`USE ${DATABASE}`));
    } finally {
      await admin.query('DROP USER suite_js');
    }
  },
  'session: changeUser with a wrong password': async () => {
    await fails(1045, (await connect()).changeUser({ password: 'wrong' }));
  },
  'session: reset': async () => {
    const db = await connect();
    await db.query("SET @x = 1, SESSION group_concat_max_len = 77, NAMES latin1");
    await db.query('CREATE TEMPORARY TABLE js_temp (a INT)');
    const statement = await db.prepare('SELECT 1');
    await statement.execute([]);
    await db.reset();
    assert.equal(await value(db, 'SELECT @x'), null);
    assert.equal(await value(db, 'SELECT @@group_concat_max_len'), 1_048_576);
    assert.equal(await value(db, 'SELECT DATABASE()'), DATABASE);
    await fails(1146, db.query('SELECT * FROM js_temp'));
    assert.equal((await db.execute('SELECT 5 AS v'))[0][0].v, 5);
  },
  'session: reset ends a transaction': async () => {
    const db = await connect();
    const name = await table(db, 'v INT');
    await db.beginTransaction();
    await db.query(`INSERT INTO ${name} VALUES (1)`);
    await db.reset();
    await db.commit();
    assert.equal(await value(db, `SELECT COUNT(*) FROM ${name}`), 0);
  },
  'session: ping': async () => {
    const db = await connect();
    await Promise.all([db.ping(), db.ping(), value(db, 'SELECT 1'), db.ping()]);
  },
  'session: threadId is CONNECTION_ID': async () => {
    const [one, two] = [await connect(), await connect()];
    assert.equal(await value(one, 'SELECT CONNECTION_ID()'), one.threadId);
    assert.notEqual(one.threadId, two.threadId);
  },
  'session: KILL QUERY by threadId': async () => {
    const [db, victim] = [await connect(), await connect()];
    const begun = Date.now();
    const asleep = value(victim, 'SELECT SLEEP(10)').catch((error) => error.errno);
    await sleep(200);
    await db.query(`KILL QUERY ${victim.threadId}`);
    // SLEEP says 1 when it is interrupted, or the statement fails.
    assert.ok([1, 1317].includes(await asleep));
    assert.ok(Date.now() - begun < 5000, 'it ended early');
    assert.equal(await value(victim, 'SELECT 2'), 2);
  },
  'session: KILL by threadId': async () => {
    const [db, victim] = [await connect(), await connect()];
    victim.connection.on('error', () => {});
    await db.query('KILL ?', [victim.threadId]);
    await soon(() => victim.query('SELECT 1').then(() => false, () => true), 'the victim is gone');
  },
  'session: KILL of nobody': async () => {
    assert.equal((await fails(1094, (await connect()).query('KILL 4000000'))).code, 'ER_NO_SUCH_THREAD');
  },
  'session: a statement that times out at the client': async () => {
    const db = await connect();
    db.connection.on('error', () => {});
    const begun = Date.now();
    await assert.rejects(db.query({ sql: 'SELECT SLEEP(5)', timeout: 300 }), {
      code: 'PROTOCOL_SEQUENCE_TIMEOUT',
    });
    assert.ok(Date.now() - begun < 2000, 'in time');
  },
  'session: a statement that times out at the server': async () => {
    const db = await connect();
    await fails(1969, db.query('SET STATEMENT max_statement_time = 0.2 FOR SELECT SLEEP(5)'));
    assert.equal(await value(db, 'SELECT 1'), 1);
  },
  'session: transactions': async () => {
    const [db, other] = [await connect(), await connect()];
    const name = await table(db, 'v INT');
    await db.beginTransaction();
    await db.query(`INSERT INTO ${name} VALUES (1)`);
    assert.equal(await value(other, `SELECT COUNT(*) FROM ${name}`), 0);
    await db.commit();
    assert.equal(await value(other, `SELECT COUNT(*) FROM ${name}`), 1);
    await db.beginTransaction();
    await db.execute(`INSERT INTO ${name} VALUES (?)`, [2]);
    await db.rollback();
    assert.equal(await value(other, `SELECT COUNT(*) FROM ${name}`), 1);
  },
  'session: a lock that two want': async () => {
    const [one, two] = [await connect(), await connect()];
    const name = await table(one, 'v INT PRIMARY KEY, w INT');
    await one.query(`INSERT INTO ${name} VALUES (1, 0)`);
    await one.beginTransaction();
    await one.query(`UPDATE ${name} SET w = 1`);
    await two.query('SET innodb_lock_wait_timeout = 1');
    await fails(1205, two.query(`UPDATE ${name} SET w = 2`));
    const waiting = two.query(`UPDATE ${name} SET w = 2`);
    await sleep(100);
    await one.commit();
    await waiting;
    assert.equal(await value(one, `SELECT w FROM ${name}`), 2);
  },
  'session: a transaction ends with its connection': async () => {
    const db = await connect();
    const name = await table(db, 'v INT PRIMARY KEY');
    const other = await connect();
    await other.beginTransaction();
    await other.query(`INSERT INTO ${name} VALUES (1)`);
    other.destroy();
    await db.query('SET innodb_lock_wait_timeout = 5');
    await db.query(`INSERT INTO ${name} VALUES (1)`);
  },
  'session: variables and temporary tables last': async () => {
    const db = await connect();
    await db.query('SET @a = 5, SESSION group_concat_max_len = 77');
    await db.query('CREATE TEMPORARY TABLE js_temp (a INT)');
    await db.query('INSERT INTO js_temp VALUES (1), (2)');
    const seen = () => value(db, 'SELECT CONCAT(@a, @@group_concat_max_len, COUNT(*)) FROM js_temp');
    for (let i = 0; i < 5; i += 1) {
      assert.equal(String(await seen()), '5772');
    }
    await fails(1146, (await connect()).query('SELECT * FROM js_temp'));
  },
  'session: attributes': async () => {
    const db = await connect({ connectAttributes: { program_name: 'the suite' } });
    const sql = `SELECT ATTR_VALUE FROM performance_schema.session_connect_attrs
      WHERE PROCESSLIST_ID = CONNECTION_ID() AND ATTR_NAME = 'program_name'`;
    assert.equal(await value(db, sql), 'the suite');
  },
  'session: TLS, verified': async () => {
    const db = await connect({ ssl: { ca: readFileSync(setting('CA')), verifyIdentity: true } });
    const [[row]] = await db.query("SHOW STATUS LIKE 'Ssl_cipher'");
    assert.notEqual(row.Value, '');
    assert.equal((await value(db, 'SELECT REPEAT("x", ?)', [3 * MIB])).length, 3 * MIB);
    assert.equal(await value(db, 'SELECT LENGTH(?)', ['y'.repeat(3 * MIB)]), 3 * MIB);
  },
  'session: TLS, an authority that is not trusted': async () => {
    await assert.rejects(connect({ ssl: { rejectUnauthorized: true } }));
  },
  'session: TLS, not verified, 1.2': async () => {
    const db = await connect({ ssl: { rejectUnauthorized: false, maxVersion: 'TLSv1.2' } });
    assert.equal(await value(db, 'SELECT 1'), 1);
  },
  'session: compression is used where it is offered': async () => {
    const db = await connect({ compress: true });
    assert.equal((await value(db, 'SELECT REPEAT("z", ?)', [MIB])).length, MIB);
  },
  'session: wait_timeout': async () => {
    const db = await connect();
    db.connection.on('error', () => {});
    await db.query('SET SESSION wait_timeout = 1');
    await sleep(3000);
    await assert.rejects(db.query('SELECT 1'));
  },
  'session: 50 connections at once': async () => {
    const all = await Promise.all(Array.from({ length: 50 }, () => connect()));
    await Promise.all(all.map((db, i) => db.query('SET @me = ?', [i])));
    const got = await Promise.all(all.map((db) => value(db, 'SELECT @me')));
    assert.deepEqual(got, all.map((_, i) => i));
  },
  'session: 200 connections, one after the other': async () => {
    for (let i = 0; i < 200; i += 1) {
      const db = await connect();
      assert.equal(await value(db, 'SELECT ?', [i]), i);
      await db.end();
    }
  },
};
