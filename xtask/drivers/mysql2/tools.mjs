/** What all checks of the suite need: connections that are closed behind each, tables, expectations. */

import assert from 'node:assert/strict';
import mysql from 'mysql2/promise';

export const DATABASE = 'suite1';
export const OTHER_DATABASE = 'suite2';
export const MIB = 1 << 20;

/** How to reach the server. */
export const settings = {
  host: setting('HOST'),
  port: Number(setting('PORT')),
  user: setting('USER'),
  password: setting('PASSWORD'),
  database: DATABASE,
};

export function setting(name) {
  return process.env[`SUITE_${name}`] ?? fail(`SUITE_${name} is not set`);
}

function fail(message) {
  throw new Error(message);
}

let open = [];
let tables = 0;

export async function connect(options = {}) {
  return kept(await mysql.createConnection({ ...settings, ...options }));
}

/** Closes it behind the check. */
export function kept(closable) {
  open.push(closable);
  return closable;
}

export async function closeAll() {
  const all = open;
  open = [];
  for (const one of all) {
    // Some are broken by their check already.
    const end = (async () => one.end())().catch(() => {});
    await Promise.race([end, sleep(2000)]);
    one.destroy?.();
  }
}

/** An empty table with a name of its own. */
export async function table(db, columns) {
  tables += 1;
  const name = `js_${tables}`;
  await db.query(`DROP TABLE IF EXISTS ${name}`);
  await db.query(`CREATE TABLE ${name} (${columns})`);
  return name;
}

/** The first column of the first row. */
export async function value(db, sql, values) {
  const [rows] = await db.query({ sql, values, rowsAsArray: true });
  return rows[0]?.[0];
}

/** Fails unless the promise fails with this number; returns the error. */
export async function fails(number, promise) {
  const error = await promise.then(
    () => fail(`did not fail with ${number}`),
    (error) => error,
  );
  assert.equal(error.errno, number, error.message);
  return error;
}

export const sleep = (time) => new Promise((resolve) => setTimeout(resolve, time));

/** Tries again for some seconds, for what becomes true a moment later. */
export async function soon(isTrue, what) {
  for (let i = 0; i < 100; i += 1) {
    if (await isTrue()) {
      return;
    }
    await sleep(50);
  }
  fail(`not so, even later: ${what}`);
}
