// What a script in JavaScript asks Flifo's console, through mysql2: as text, and prepared.
import assert from 'node:assert';
import mysql from 'mysql2/promise';

const connection = await mysql.createConnection({
  host: '127.0.0.1',
  port: Number(process.env.SUITE_PORT),
  user: 'admin',
  password: process.env.SUITE_PASSWORD,
});
const check = ([row]) => {
  assert.deepEqual([row.name, row.state], ['db1', 'up']);
  assert.equal(typeof row.limit, 'number');
};
for (const how of ['query', 'execute']) {
  check((await connection[how]('SHOW FULL SERVERS'))[0]);
  check((await connection[how]('SHOW FULL SERVERS WHERE name = ?', ['db1']))[0]);
  check((await connection[how]("SHOW FULL SERVERS WHERE name = ? AND state <> '?'", ['db1']))[0]);
  assert.deepEqual((await connection[how]('SHOW FULL SERVERS WHERE name = ?', ["x' OR '1'='1"]))[0], []);
  await assert.rejects(connection[how]('SHOW NONSENSE'), (error) => error.errno === 1146);
}
await connection.end();
