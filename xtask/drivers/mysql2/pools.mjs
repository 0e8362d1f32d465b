/** Checks of pools and clusters of pools. */

import assert from 'node:assert/strict';
import callback from 'mysql2';
import mysql from 'mysql2/promise';
import { fails, kept, settings, sleep, table, value } from './tools.mjs';

function pool(options = {}) {
  return kept(mysql.createPool({ ...settings, connectionLimit: 5, ...options }));
}

export const pools = {
  'pool: query and execute': async () => {
    const db = pool();
    assert.equal(await value(db, 'SELECT 1'), 1);
    assert.equal((await db.execute('SELECT CONCAT(?, "x") AS v', ['a']))[0][0].v, 'ax');
    await fails(1146, db.query('SELECT * FROM no_such_table'));
  },
  'pool: 200 statements by 5 connections': async () => {
    const db = pool();
    const all = Array.from({ length: 200 }, (_, i) => value(db, 'SELECT ?', [i]));
    assert.deepEqual(await Promise.all(all), Array.from({ length: 200 }, (_, i) => i));
    const ids = Array.from({ length: 30 }, () => value(db, 'SELECT CONNECTION_ID()'));
    assert.ok(new Set(await Promise.all(ids)).size <= 5);
  },
  'pool: 50 executes at once by 50 connections': async () => {
    const db = pool({ connectionLimit: 50 });
    const all = Array.from({ length: 50 }, async (_, i) => {
      const [[row]] = await db.execute('SELECT CONCAT(?, "") AS v, SLEEP(0.1)', [`${i}`]);
      return row.v;
    });
    assert.deepEqual(await Promise.all(all), Array.from({ length: 50 }, (_, i) => `${i}`));
  },
  'pool: a connection of its own for a transaction': async () => {
    const db = pool();
    const name = await table(db, 'v INT');
    const one = await db.getConnection();
    await one.beginTransaction();
    await one.query(`INSERT INTO ${name} VALUES (1)`);
    assert.equal(await value(db, `SELECT COUNT(*) FROM ${name}`), 0);
    await one.commit();
    one.release();
    assert.equal(await value(db, `SELECT COUNT(*) FROM ${name}`), 1);
  },
  'pool: who waits is served': async () => {
    const db = pool({ connectionLimit: 1 });
    const one = await db.getConnection();
    const waiting = value(db, 'SELECT 7');
    await sleep(100);
    one.release();
    assert.equal(await waiting, 7);
  },
  'pool: connections are reset when they are released': async () => {
    const db = pool({ connectionLimit: 1, resetOnRelease: true });
    const one = await db.getConnection();
    await one.query('SET @left = 1');
    one.release();
    assert.equal(await value(db, 'SELECT @left'), null);
  },
  'pool: a connection that was killed is replaced': async () => {
    const db = pool({ connectionLimit: 2 });
    const [one, two] = [await db.getConnection(), await db.getConnection()];
    one.connection.on('error', () => {});
    await two.query('KILL ?', [one.threadId]);
    await sleep(200);
    one.release();
    two.release();
    await sleep(100);
    assert.equal(await value(db, 'SELECT 1'), 1);
  },
  'pool: connections at rest are closed': async () => {
    const db = pool({ maxIdle: 1, idleTimeout: 200 });
    await Promise.all(Array.from({ length: 5 }, () => db.query('SELECT SLEEP(0.05)')));
    await sleep(1500);
    assert.equal(await value(db, 'SELECT 1'), 1);
  },
  'pool: callbacks': async () => {
    const db = kept(callback.createPool(settings).promise());
    assert.equal(await value(db, 'SELECT 3'), 3);
  },
  'cluster: two nodes in turns': async () => {
    const cluster = callback.createPoolCluster({ defaultSelector: 'RR' });
    cluster.add('A', { ...settings, database: 'suite1' });
    cluster.add('B', { ...settings, database: 'suite2' });
    const ask = () =>
      new Promise((resolve, reject) => {
        cluster.of('*').query('SELECT DATABASE() AS d', (error, rows) => {
          error ? reject(error) : resolve(rows[0].d);
        });
      });
    const seen = [await ask(), await ask(), await ask(), await ask()];
    await new Promise((resolve) => {
      cluster.end(resolve);
    });
    assert.deepEqual(seen.toSorted(), ['suite1', 'suite1', 'suite2', 'suite2']);
  },
};
