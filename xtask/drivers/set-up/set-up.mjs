// What an application on Node.js does, for as many connections and requests as it is told.
//
// Arguments: the library, connections, requests on each. A request reads a row, and changes it in a
// transaction, the way the library's own manual has it. Connections are opened one after the other.

import process from 'node:process';

const { SUITE_HOST, SUITE_PORT, SUITE_USER, SUITE_PASSWORD } = process.env;
const target = {
  host: SUITE_HOST, port: Number(SUITE_PORT), user: SUITE_USER, password: SUITE_PASSWORD,
  database: 'application',
};
const READ = 'SELECT v FROM item WHERE id = ?';
const CHANGE = 'UPDATE item SET v = v + 1 WHERE id = ?';

function must(condition) {
  if (!condition) throw new Error('the row is not there');
}

/** Both drivers have the same calls; `rows` takes the rows out of what they answer. */
async function driver(connect, rows, connections, requests) {
  for (let i = 0; i < connections; i += 1) {
    const connection = await connect();
    for (let j = 0; j < requests; j += 1) {
      must(rows(await connection.execute(READ, [1])).length === 1);
      must(rows(await connection.query(READ, [1])).length === 1);
      await connection.beginTransaction();
      await connection.execute(CHANGE, [1]);
      await connection.commit();
    }
    await connection.end();
  }
}

async function mysql2(connections, requests) {
  const { createConnection } = await import('mysql2/promise');
  await driver(() => createConnection(target), ([rows]) => rows, connections, requests);
}

async function mariadb(connections, requests) {
  const { createConnection } = await import('mariadb');
  await driver(() => createConnection(target), (rows) => rows, connections, requests);
}

async function sequelize(connections, requests) {
  const { Sequelize, DataTypes } = await import('sequelize');
  for (let i = 0; i < connections; i += 1) {
    const { host, port, user, password, database } = target;
    const options = { host, port, dialect: 'mysql', logging: false, pool: { max: 1 } };
    const orm = new Sequelize(database, user, password, options);
    const Item = orm.define('item', { v: DataTypes.INTEGER },
      { timestamps: false, freezeTableName: true });
    for (let j = 0; j < requests; j += 1) {
      must(await Item.findByPk(1));
      await orm.transaction(async (transaction) => {
        const item = await Item.findByPk(1, { transaction });
        item.v += 1;
        await item.save({ transaction });
      });
    }
    await orm.close();
  }
}

const [name, connections, requests] = process.argv.slice(2);
await { mysql2, mariadb, sequelize }[name](Number(connections), Number(requests));
