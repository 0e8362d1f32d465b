/**
 * Real use of mysql2, against the server that SUITE_* name; prints TAP.
 *
 * Each check is a function that fails by an exception, opens what it needs, and leaves nothing. Knows
 * nothing of proxies. Ends with 0 if all checks were run, whatever their outcome.
 */

import { closeAll, connect } from './tools.mjs';
import { pools } from './pools.mjs';
import { prepared } from './prepared.mjs';
import { sessions } from './sessions.mjs';
import { text } from './text.mjs';

const TIME_MAX = 30_000;

async function run(check) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done in ${TIME_MAX} ms`)), TIME_MAX);
  });
  try {
    await Promise.race([check(), late]);
  } finally {
    clearTimeout(timer);
    await closeAll();
  }
}

async function main() {
  let number = 0;
  for (const [name, check] of Object.entries({ ...text, ...prepared, ...sessions, ...pools })) {
    number += 1;
    try {
      await run(check);
      console.log(`ok ${number} - ${name}`);
    } catch (error) {
      console.log(`not ok ${number} - ${name}`);
      console.log(`# ${String(error?.stack ?? error).slice(0, 1000).replaceAll('\n', '\n# ')}`);
    }
  }
  const db = await connect();
  const [tables] = await db.query({ sql: "SHOW TABLES LIKE 'js\\_%'", rowsAsArray: true });
  for (const [table] of tables) {
    await db.query('DROP TABLE ??', [table]);
  }
  await closeAll();
  console.log(`1..${number}`);
}

// A connection that breaks when nobody listens is the business of the check that broke it.
process.on('uncaughtException', (error) => console.log(`# outside of a check: ${error.message}`));

await main();
process.exit(0);
