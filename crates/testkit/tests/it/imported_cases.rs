//! Configurations of other proxies, as they are usual, and where each statement goes with them. They stand beside the
//! tests of `import`; [`crate::imported_routes`] tries them.

/// A configuration, and what becomes of statements.
pub(crate) struct Case {
    pub(crate) file: &'static str,
    /// Addresses that it names, with the servers that stand for them here: `a1` with the readers `a2` and `a3`, `b1` with
    /// the reader `b2`, and `c1`.
    pub(crate) servers: &'static [(&'static str, &'static str)],
    /// What the servers are, in their order.
    pub(crate) roles: &'static [&'static str],
    /// Accounts at the servers: names and passwords.
    pub(crate) accounts: &'static [(&'static str, &'static str)],
    pub(crate) asks: &'static [Ask],
}

/// Statements of one client with blanks and a bar between them, of which the last one is judged.
pub(crate) struct Ask {
    /// Where the client comes in, as the configuration has it.
    pub(crate) door: &'static str,
    /// Where it comes from.
    pub(crate) from: &'static str,
    pub(crate) user: &'static str,
    pub(crate) password: &'static str,
    pub(crate) statements: &'static str,
    /// Servers of which one must have got it; or what the first row holds; or an error.
    pub(crate) want: &'static str,
}

impl Ask {
    /// Whether its last statement tells of itself which server has got it.
    pub(crate) fn tells_port(&self) -> bool {
        self.statements.rsplit(" | ").next().is_some_and(|judged| judged.contains("@@port"))
    }
}

const fn ask(
    door: &'static str,
    (user, password): (&'static str, &'static str),
    statements: &'static str,
    want: &'static str,
) -> Ask {
    Ask { door, from: "127.0.0.1", user, password, statements, want }
}

const READ: &str = "SELECT @@port FROM shop.items LIMIT 1";
const LOCK: &str = "SELECT @@port FROM shop.items LIMIT 1 FOR UPDATE";
const WRITE: &str = "INSERT INTO shop.items VALUES (2) RETURNING @@port";
const IN_TRANSACTION: &str = "BEGIN | SELECT @@port FROM shop.items LIMIT 1";

const NO_AUTOCOMMIT: &str = "SET autocommit = 0 | SELECT @@port FROM shop.items LIMIT 1";
const FIGURES: &str = "SELECT @@port FROM shop.figures LIMIT 1";
const ORDERS: &str = "SELECT @@port FROM shop.orders LIMIT 1";

/// Tables for all of them.
pub(crate) const TABLES: &str = "CREATE DATABASE shop; CREATE DATABASE customers_1; CREATE DATABASE customers_2; \
    CREATE TABLE shop.items (id INT); CREATE TABLE shop.orders (id INT, total INT); CREATE TABLE shop.figures (id INT); \
    INSERT INTO shop.items VALUES (1); INSERT INTO shop.orders VALUES (7, 8); INSERT INTO shop.figures VALUES (1)";

const SHOP: (&str, &str) = ("shop", "shop-secret");
const REPORT: (&str, &str) = ("report", "test");
const APP_RW: (&str, &str) = ("app_rw", "a'quote\"and\\more");
const BI: (&str, &str) = ("bi", "secret");
const APP: (&str, &str) = ("app", "secret");
const WEB: (&str, &str) = ("web", "web-secret");
const MAXSCALE: (&str, &str) = ("maxscale", "maxscale-secret");
const MONITOR: (&str, &str) = ("monitor", "monitor-secret");

const PROXYSQL_REPLICATION: Case = Case {
    file: "proxysql-replication.cnf",
    servers: &[("10.0.0.11:3306", "a1"), ("10.0.0.12:3306", "a2"), ("db3.shop.example:3306", "a3")],
    roles: &["writer", "reader", "reader"],
    accounts: &[SHOP, REPORT, ("copy", "x"), ("monitor", "monitor-secret")],
    asks: &[
        ask("0.0.0.0:6033", SHOP, READ, "a1 a2 a3"),
        ask("0.0.0.0:6033", SHOP, LOCK, "a1"),
        ask("0.0.0.0:6033", SHOP, WRITE, "a1"),
        ask("0.0.0.0:6033", SHOP, IN_TRANSACTION, "a1"),
        ask("/run/proxysql/mysql.sock", SHOP, READ, "a1 a2 a3"),
        ask("0.0.0.0:6033", SHOP, "SELECT DATABASE()", "= shop"),
        ask("0.0.0.0:6033", REPORT, READ, "a1 a2 a3"),
        ask("0.0.0.0:6033", ("copy", "x"), WRITE, "a1"),
    ],
};

const PROXYSQL_RULES: Case = Case {
    file: "proxysql-rules.cnf",
    servers: &[("10.1.0.1:3306", "a1"), ("10.1.0.2:3306", "a2"), ("10.9.0.1:3307", "c1")],
    roles: &["writer", "reader", "writer"],
    accounts: &[APP_RW, BI, ("monitor", "monitor")],
    asks: &[
        ask("0.0.0.0:6033", APP_RW, READ, "a1"),
        ask("0.0.0.0:6033", APP_RW, WRITE, "a1"),
        ask("0.0.0.0:6033", APP_RW, "DELETE FROM orders", "error 1148"),
        ask("0.0.0.0:6033", APP_RW, "DELETE FROM shop.orders WHERE id = 9", ""),
        ask("0.0.0.0:6033", APP_RW, "USE shop | SELECT * FROM orders", "= 7,$5"),
        ask("0.0.0.0:6033", APP_RW, "USE shop | SELECT @@port FROM figures", "a1 a2"),
        ask("0.0.0.0:6033", BI, READ, "a1 a2"),
        Ask {
            from: "127.5.0.1",
            ..ask("0.0.0.0:6033", APP_RW, "SELECT @@port FROM shop.orders", "a1 a2")
        },
        Ask { from: "127.5.0.1", ..ask("0.0.0.0:6033", APP_RW, "UPDATE nothing SET a = 1", "") },
    ],
};

const PROXYSQL_SHARDED: Case = Case {
    file: "proxysql-sharded.cnf",
    servers: &[
        ("10.2.1.1:3306", "a1"),
        ("10.2.1.2:3306", "a2"),
        ("10.2.2.1:3306", "b1"),
        ("10.2.2.2:3306", "b2"),
        ("10.2.9.1:3306", "c1"),
    ],
    roles: &["writer", "reader", "writer", "reader", "writer"],
    accounts: &[APP, ("archive", "secret"), ("reader2", "secret"), ("m", "m-secret")],
    asks: &[
        ask("0.0.0.0:6033", APP, READ, "a1"),
        ask("0.0.0.0:6033", APP, "USE customers_1 | SELECT @@port", "a1"),
        ask("0.0.0.0:6033", APP, "USE customers_2 | SELECT @@port", "b1 b2"),
        ask(
            "0.0.0.0:6033",
            APP,
            "USE customers_2 | INSERT INTO shop.items VALUES (3) RETURNING @@port",
            "b1",
        ),
        ask("0.0.0.0:6033", ("archive", "secret"), READ, "c1"),
        ask("0.0.0.0:6033", ("reader2", "secret"), READ, "b1 b2"),
    ],
};

const PROXYSQL_GALERA: Case = Case {
    file: "proxysql-galera.cnf",
    servers: &[
        ("galera1.example.com:3306", "a1"),
        ("galera2.example.com:3306", "a2"),
        ("galera3.example.com:3306", "a3"),
    ],
    roles: &["writer", "reader", "reader"],
    accounts: &[("wordpress", "wp-secret"), ("proxysql", "galera-secret")],
    asks: &[
        ask("127.0.0.1:3306", ("wordpress", "wp-secret"), READ, "a1 a2 a3"),
        ask("127.0.0.1:3306", ("wordpress", "wp-secret"), LOCK, "a1"),
        ask("127.0.0.1:3306", ("wordpress", "wp-secret"), WRITE, "a1"),
        ask("127.0.0.1:3306", ("wordpress", "wp-secret"), IN_TRANSACTION, "a1"),
    ],
};

const PROXYSQL_PORTS: Case = Case {
    file: "proxysql-ports.cnf",
    servers: &[("10.6.0.1:3306", "a1"), ("10.6.0.2:3306", "a2")],
    roles: &["writer", "reader"],
    accounts: &[SHOP, ("monitor", "port-secret")],
    asks: &[
        ask("0.0.0.0:6401", SHOP, READ, "a1"),
        ask("0.0.0.0:6401", SHOP, WRITE, "a1"),
        ask("0.0.0.0:6402", SHOP, READ, "a2"),
        ask("10.6.0.5:6403", SHOP, READ, "a2"),
        ask("/tmp/proxysql.sock", SHOP, READ, "a2"),
        ask("/tmp/proxysql.sock", SHOP, LOCK, "a1"),
        ask("/tmp/proxysql.sock", SHOP, WRITE, "a1"),
        ask("0.0.0.0:6401", SHOP, "SELECT DATABASE()", "= shop"),
    ],
};

const PROXYSQL_DATABASE: Case = Case {
    file: "proxysql-dump.sql",
    servers: &[("gr1:3306", "a1"), ("gr2:3306", "a2"), ("gr3:3306", "a3")],
    roles: &["writer", "reader", "reader"],
    accounts: &[("app", "test"), ("locked", "")],
    asks: &[
        ask("0.0.0.0:6033", ("app", "test"), READ, "a2 a3"),
        ask("0.0.0.0:6033", ("app", "test"), LOCK, "a1"),
        ask("0.0.0.0:6033", ("app", "test"), WRITE, "a1"),
        ask("0.0.0.0:6033", ("app", "test"), IN_TRANSACTION, "a1"),
    ],
};

const MAXSCALE_SPLIT: Case = Case {
    file: "maxscale-split.cnf",
    servers: &[
        ("192.168.10.1:3306", "a1"),
        ("192.168.10.2:3306", "a2"),
        ("192.168.10.3:3306", "a3"),
    ],
    roles: &["writer", "reader", "backup"],
    accounts: &[WEB, ("maxscale", "maxscale-secret"), ("monitor", "monitor-secret")],
    asks: &[
        // The third server is of the rank "secondary".
        ask("[::]:4006", WEB, READ, "a2"),
        ask("[::]:4006", WEB, LOCK, "a1"),
        ask("[::]:4006", WEB, WRITE, "a1"),
        ask("[::]:4006", WEB, IN_TRANSACTION, "a1"),
        ask("127.0.0.1:4008", WEB, READ, "a2"),
        // A server that is read_only says so.
        ask("127.0.0.1:4008", WEB, LOCK, "error 1290"),
    ],
};

const MAXSCALE_FILTERS: Case = Case {
    file: "maxscale-filters.cnf",
    servers: &[("10.3.0.1:3306", "a1"), ("10.3.0.2:3306", "a2"), ("/run/mysqld/old.sock", "c1")],
    roles: &["writer", "reader", "writer"],
    accounts: &[WEB, ("mx", "plain-secret"), ("mon", "old-secret")],
    asks: &[
        ask("0.0.0.0:3306", WEB, READ, "a1"),
        ask("0.0.0.0:3306", WEB, WRITE, "a1"),
        ask("0.0.0.0:3306", WEB, IN_TRANSACTION, "a1"),
    ],
};

const HAPROXY_GALERA: Case = Case {
    file: "haproxy-galera.cfg",
    servers: &[("10.4.0.1:3306", "a1"), ("10.4.0.2:3306", "b1"), ("10.4.0.3:3306", "c1")],
    roles: &["writer", "", ""],
    accounts: &[WEB, ("haproxy_check", "")],
    asks: &[
        ask("10.4.0.100:3306", WEB, READ, "a1"),
        ask("10.4.0.100:3306", WEB, WRITE, "a1"),
        ask("10.4.0.100:3306", WEB, IN_TRANSACTION, "a1"),
    ],
};

const HAPROXY_READ_WRITE: Case = Case {
    file: "haproxy-read-write.cfg",
    servers: &[
        ("db1.example.com:3306", "a1"),
        ("db2.example.com:3306", "a2"),
        ("db3.example.com:3306", "a3"),
        // It is disabled.
        ("db4.example.com:3306", "b1"),
    ],
    roles: &["writer", "", "reader"],
    accounts: &[WEB],
    asks: &[
        ask("0.0.0.0:3306", WEB, READ, "a1"),
        ask("0.0.0.0:3306", WEB, WRITE, "a1"),
        ask("0.0.0.0:3307", WEB, READ, "a2 a3"),
        ask("/run/haproxy/read.sock", WEB, READ, "a2 a3"),
        Ask { from: "127.8.0.1", ..ask("0.0.0.0:3306", WEB, READ, "a2 a3") },
    ],
};

const PROXYSQL_USERS: Case = Case {
    file: "proxysql-users.cnf",
    servers: &[("10.10.0.1:3306", "a1"), ("10.10.0.2:3306", "a2"), ("10.10.0.3:3306", "a3")],
    roles: &["writer", "reader", "reader"],
    accounts: &[("app_write", "write-secret"), ("app_read", "read-secret"), MONITOR],
    asks: &[
        ask("0.0.0.0:6033", ("app_write", "write-secret"), READ, "a1"),
        ask("0.0.0.0:6033", ("app_write", "write-secret"), WRITE, "a1"),
        ask("0.0.0.0:6033", ("app_write", "write-secret"), NO_AUTOCOMMIT, "a1"),
        ask("0.0.0.0:6033", ("app_read", "read-secret"), READ, "a1 a2 a3"),
    ],
};

const PROXYSQL_CACHE: Case = Case {
    file: "proxysql-cache.cnf",
    servers: &[("10.11.0.1:3306", "a1"), ("10.11.0.2:3306", "a2"), ("10.11.0.3:3306", "a3")],
    roles: &["writer", "reader", "reader"],
    accounts: &[SHOP, MONITOR],
    asks: &[
        ask("0.0.0.0:6033", SHOP, READ, "a1 a2 a3"),
        ask("0.0.0.0:6033", SHOP, FIGURES, "a1 a2 a3"),
        ask("0.0.0.0:6033", SHOP, LOCK, "a1"),
        ask("0.0.0.0:6033", SHOP, WRITE, "a1"),
        ask("0.0.0.0:6033", SHOP, IN_TRANSACTION, "a1"),
        ask("0.0.0.0:6033", SHOP, NO_AUTOCOMMIT, "a1"),
        ask("/tmp/proxysql-cache.sock", SHOP, "SELECT GET_LOCK('imported', 1)", "= 1"),
        ask("/tmp/proxysql-cache.sock", SHOP, "BEGIN | SELECT @@port FROM figures LIMIT 1", "a1"),
    ],
};

const PROXYSQL_FLAGS: Case = Case {
    file: "proxysql-flags.cnf",
    servers: &[("10.12.0.1:3306", "a1"), ("10.12.0.2:3306", "a2"), ("10.12.9.1:3306", "c1")],
    roles: &["writer", "reader", "writer"],
    accounts: &[SHOP, ("billing", "billing-secret"), MONITOR],
    asks: &[
        ask("0.0.0.0:6033", SHOP, READ, "a1 a2"),
        ask("0.0.0.0:6033", SHOP, ORDERS, "a1"),
        ask("0.0.0.0:6033", SHOP, LOCK, "a1"),
        ask("0.0.0.0:6033", SHOP, WRITE, "a1"),
        ask("0.0.0.0:6033", SHOP, IN_TRANSACTION, "a1"),
        ask("0.0.0.0:6033", SHOP, NO_AUTOCOMMIT, "a1"),
        ask("0.0.0.0:6033", ("billing", "billing-secret"), READ, "c1"),
        ask("0.0.0.0:6033", ("billing", "billing-secret"), WRITE, "c1"),
        ask("0.0.0.0:6033", ("billing", "billing-secret"), IN_TRANSACTION, "c1"),
    ],
};

const PROXYSQL_GROUP: Case = Case {
    file: "proxysql-group.cnf",
    servers: &[("10.13.0.1:3306", "a1"), ("10.13.0.2:3306", "a2")],
    roles: &["writer", "reader"],
    accounts: &[APP, MONITOR],
    asks: &[
        ask("127.0.0.1:6033", APP, READ, "a2"),
        ask("127.0.0.1:6033", APP, LOCK, "a1"),
        ask("127.0.0.1:6033", APP, WRITE, "a1"),
        ask("127.0.0.1:6033", APP, IN_TRANSACTION, "a1"),
        ask("127.0.0.1:6033", APP, NO_AUTOCOMMIT, "a1"),
    ],
};

const MAXSCALE_CONNECTIONS: Case = Case {
    file: "maxscale-connections.cnf",
    servers: &[("10.20.0.1:3306", "a1"), ("10.20.0.2:3306", "a2"), ("10.20.0.3:3306", "a3")],
    roles: &["writer", "reader", "reader"],
    accounts: &[WEB, MAXSCALE, MONITOR],
    asks: &[
        ask("[::]:3307", WEB, READ, "a1"),
        ask("[::]:3307", WEB, WRITE, "a1"),
        ask("[::]:3307", WEB, NO_AUTOCOMMIT, "a1"),
        ask("[::]:3308", WEB, READ, "a2 a3"),
        ask("[::]:3308", WEB, IN_TRANSACTION, "a2 a3"),
        ask("[::]:3308", WEB, WRITE, "error 1290"),
    ],
};

const MAXSCALE_GALERA: Case = Case {
    file: "maxscale-galera.cnf",
    servers: &[("10.21.0.1:3306", "a1"), ("10.21.0.2:3306", "a2"), ("10.21.0.3:3306", "a3")],
    roles: &["writer", "reader", "reader"],
    accounts: &[WEB, MAXSCALE, MONITOR],
    asks: SPLIT_AT_3306,
};

/// What a service that splits reads and writes does with one reader or more.
const SPLIT_AT_3306: &[Ask] = &[
    ask("[::]:3306", WEB, READ, "a2 a3"),
    ask("[::]:3306", WEB, LOCK, "a1"),
    ask("[::]:3306", WEB, WRITE, "a1"),
    ask("[::]:3306", WEB, IN_TRANSACTION, "a1"),
    ask("[::]:3306", WEB, NO_AUTOCOMMIT, "a1"),
];

const MAXSCALE_NAMED: Case = Case {
    file: "maxscale-named.cnf",
    servers: &[("10.22.0.1:3306", "a1"), ("10.22.0.2:3306", "a2"), ("10.22.0.3:3306", "a3")],
    roles: &["writer", "reader", "reader"],
    accounts: &[WEB, MAXSCALE, MONITOR],
    asks: &[
        ask("[::]:4006", WEB, READ, "a2 a3"),
        ask("[::]:4006", WEB, FIGURES, "a3"),
        ask("[::]:4006", WEB, ORDERS, "a1"),
        ask("[::]:4006", WEB, WRITE, "a1"),
        ask("[::]:4006", WEB, "BEGIN | SELECT @@port FROM shop.figures LIMIT 1", "a1"),
    ],
};

const MAXSCALE_OPERATOR: Case = Case {
    file: "maxscale-operator.cnf",
    servers: &[
        ("mariadb-repl-0.mariadb-repl-internal.default.svc.cluster.local:3306", "a1"),
        ("mariadb-repl-1.mariadb-repl-internal.default.svc.cluster.local:3306", "a2"),
        ("mariadb-repl-2.mariadb-repl-internal.default.svc.cluster.local:3306", "a3"),
    ],
    roles: &["writer", "reader", "reader"],
    accounts: &[WEB, MAXSCALE, MONITOR],
    asks: &[
        ask("[::]:3306", WEB, READ, "a1 a2 a3"),
        ask("[::]:3306", WEB, LOCK, "a1"),
        ask("[::]:3306", WEB, WRITE, "a1"),
        ask("[::]:3306", WEB, IN_TRANSACTION, "a1"),
        ask("[::]:3307", WEB, READ, "a1"),
        ask("[::]:3307", WEB, WRITE, "a1"),
        ask("[::]:3308", WEB, READ, "a2 a3"),
    ],
};

const MAXSCALE_REWRITE: Case = Case {
    file: "maxscale-rewrite.cnf",
    servers: &[("10.24.0.1:3306", "a1"), ("10.24.0.2:3306", "a2")],
    roles: &["writer", "reader"],
    accounts: &[WEB, MAXSCALE, MONITOR],
    asks: &[
        ask("0.0.0.0:4000", WEB, READ, "a2"),
        ask("0.0.0.0:4000", WEB, "SELECT @@port FROM shop.items_old LIMIT 1", "a2"),
        ask(
            "/run/maxscale/app.sock",
            WEB,
            "SELECT @@port FROM shop.items LOCK IN SHARE MODE",
            "a2",
        ),
        ask("/run/maxscale/app.sock", WEB, LOCK, "a1"),
        ask("0.0.0.0:4000", WEB, WRITE, "a1"),
        ask("0.0.0.0:4000", WEB, NO_AUTOCOMMIT, "a1"),
    ],
};

const MAXSCALE_TWO: Case = Case {
    file: "maxscale-two.cnf",
    servers: &[
        ("10.25.1.1:3306", "a1"),
        ("10.25.1.2:3306", "a2"),
        ("10.25.2.1:3306", "b1"),
        ("10.25.2.2:3306", "b2"),
    ],
    roles: &["writer", "reader", "writer", "reader"],
    accounts: &[WEB, MAXSCALE, MONITOR],
    asks: &[
        ask("[::]:4001", WEB, READ, "a2"),
        ask("[::]:4001", WEB, WRITE, "a1"),
        ask("[::]:4001", WEB, IN_TRANSACTION, "a1"),
        ask("[::]:4002", WEB, READ, "b2"),
        ask("[::]:4002", WEB, LOCK, "b1"),
        ask("[::]:4002", WEB, WRITE, "b1"),
        ask("[::]:4002", WEB, IN_TRANSACTION, "b1"),
        ask("[::]:4002", WEB, NO_AUTOCOMMIT, "b1"),
    ],
};

const MAXSCALE_ACCEPT_READS: Case = Case {
    file: "maxscale-accept-reads.cnf",
    servers: &[("10.26.0.1:3306", "a1"), ("10.26.0.2:3306", "a2")],
    roles: &["writer", "reader"],
    accounts: &[WEB, MAXSCALE, MONITOR],
    asks: &[
        ask("[::]:3306", WEB, READ, "a1 a2"),
        ask("[::]:3306", WEB, LOCK, "a1"),
        ask("[::]:3306", WEB, WRITE, "a1"),
        ask("[::]:3306", WEB, IN_TRANSACTION, "a1"),
    ],
};

const MAXSCALE_HINTS: Case = Case {
    file: "maxscale-hints.cnf",
    servers: &[("10.27.0.1:3306", "a1"), ("10.27.0.2:3306", "a2"), ("10.27.0.3:3306", "a3")],
    roles: &["writer", "reader", "backup"],
    accounts: &[WEB, MAXSCALE, MONITOR],
    asks: &[
        ask("[::]:4006", WEB, READ, "a2"),
        ask("[::]:4006", WEB, LOCK, "a1"),
        ask("[::]:4006", WEB, WRITE, "a1"),
        ask("[::]:4006", WEB, NO_AUTOCOMMIT, "a1"),
    ],
};

const HAPROXY_SIMPLE: Case = Case {
    file: "haproxy-simple.cfg",
    servers: &[("10.30.0.1:3306", "a1"), ("10.30.0.2:3306", "b1")],
    roles: &["writer", ""],
    accounts: &[WEB, ("haproxy_check", "")],
    asks: &[
        ask("127.0.0.1:3306", WEB, READ, "a1 b1"),
        ask("127.0.0.1:3306", WEB, WRITE, "a1 b1"),
        ask("127.0.0.1:3306", WEB, IN_TRANSACTION, "a1 b1"),
        ask("127.0.0.1:3306", WEB, NO_AUTOCOMMIT, "a1 b1"),
    ],
};

const HAPROXY_ONENODE: Case = Case {
    file: "haproxy-onenode.cfg",
    servers: &[("10.31.0.1:3306", "a1"), ("10.31.0.2:3306", "b1"), ("10.31.0.3:3306", "c1")],
    roles: &["writer", "", ""],
    accounts: &[WEB],
    asks: &[
        ask("0.0.0.0:3306", WEB, READ, "a1"),
        ask("0.0.0.0:3306", WEB, WRITE, "a1"),
        ask("0.0.0.0:3306", WEB, NO_AUTOCOMMIT, "a1"),
        ask("0.0.0.0:3307", WEB, READ, "a1 b1 c1"),
        ask("0.0.0.0:3307", WEB, WRITE, "a1 b1 c1"),
    ],
};

const HAPROXY_SOURCE: Case = Case {
    file: "haproxy-source.cfg",
    servers: &[("10.32.0.1:3306", "a1"), ("10.32.0.2:3306", "b1"), ("10.32.0.3:3306", "c1")],
    roles: &["writer", "", ""],
    accounts: &[WEB, ("haproxy_check", "")],
    asks: &[
        ask("10.32.0.100:3306", WEB, READ, "a1 b1 c1"),
        ask("10.32.0.100:3306", WEB, WRITE, "a1 b1 c1"),
        Ask { from: "127.8.0.1", ..ask("10.32.0.100:3306", WEB, IN_TRANSACTION, "a1 b1 c1") },
    ],
};

const HAPROXY_REPLICAS: Case = Case {
    file: "haproxy-replicas.cfg",
    servers: &[("10.33.0.1:3306", "a1"), ("10.33.0.2:3306", "a2"), ("10.33.0.3:3306", "a3")],
    roles: &["writer", "reader", "reader"],
    accounts: &[WEB, ("haproxy_check", "")],
    asks: &[
        ask("0.0.0.0:3306", WEB, READ, "a1"),
        ask("0.0.0.0:3306", WEB, WRITE, "a1"),
        ask("0.0.0.0:3306", WEB, NO_AUTOCOMMIT, "a1"),
        ask("0.0.0.0:3307", WEB, READ, "a2 a3"),
        ask("0.0.0.0:3307", WEB, IN_TRANSACTION, "a2 a3"),
        ask("0.0.0.0:3307", WEB, WRITE, "error 1290"),
    ],
};

const HAPROXY_NAMED: Case = Case {
    file: "haproxy-named.cfg",
    servers: &[("10.34.0.1:3306", "a1"), ("10.34.0.2:3306", "b1")],
    roles: &["writer", ""],
    accounts: &[WEB],
    asks: &[
        ask("0.0.0.0:3306", WEB, READ, "a1"),
        ask("0.0.0.0:3306", WEB, WRITE, "a1"),
        ask("/run/haproxy/mysql.sock", WEB, READ, "a1"),
        ask("/run/haproxy/mysql.sock", WEB, IN_TRANSACTION, "a1"),
    ],
};

const HAPROXY_CLIENTS: Case = Case {
    file: "haproxy-clients.cfg",
    servers: &[("10.35.0.1:3306", "a1"), ("10.35.0.2:3306", "a2"), ("10.35.0.3:3306", "a3")],
    roles: &["writer", "reader", "reader"],
    accounts: &[WEB],
    asks: &[
        ask("0.0.0.0:3306", WEB, READ, "a1"),
        ask("0.0.0.0:3306", WEB, WRITE, "a1"),
        ask("0.0.0.0:3306", WEB, NO_AUTOCOMMIT, "a1"),
        Ask { from: "127.8.0.1", ..ask("0.0.0.0:3306", WEB, READ, "a2 a3") },
        Ask { from: "127.8.0.1", ..ask("0.0.0.0:3306", WEB, IN_TRANSACTION, "a2 a3") },
    ],
};

const HAPROXY_STICKY: Case = Case {
    file: "haproxy-sticky.cfg",
    servers: &[("10.36.0.1:3306", "a1"), ("10.36.0.2:3306", "b1")],
    roles: &["writer", ""],
    accounts: &[WEB, ("haproxy_check", "")],
    asks: &[
        ask("10.36.0.100:3306", WEB, READ, "a1 b1"),
        ask("10.36.0.100:3306", WEB, WRITE, "a1 b1"),
        ask("10.36.0.100:3306", WEB, IN_TRANSACTION, "a1 b1"),
    ],
};

const HAPROXY_CLUSTERS: Case = Case {
    file: "haproxy-clusters.cfg",
    servers: &[
        ("10.37.1.1:3306", "a1"),
        ("10.37.1.2:3306", "b1"),
        ("10.37.2.1:3306", "c1"),
        ("10.37.2.2:3306", "a2"),
    ],
    roles: &["writer", "", "writer", ""],
    accounts: &[WEB, ("haproxy_check", "")],
    asks: &[
        ask("0.0.0.0:3306", WEB, READ, "a1"),
        ask("0.0.0.0:3306", WEB, WRITE, "a1"),
        ask("0.0.0.0:3306", WEB, IN_TRANSACTION, "a1"),
        ask("0.0.0.0:3316", WEB, READ, "c1"),
        ask("0.0.0.0:3316", WEB, WRITE, "c1"),
        ask("0.0.0.0:3316", WEB, NO_AUTOCOMMIT, "c1"),
        // These networks have a database of their own behind the same port.
        Ask { from: "127.8.0.1", ..ask("0.0.0.0:3306", WEB, READ, "c1") },
        Ask { from: "127.8.0.1", ..ask("0.0.0.0:3306", WEB, WRITE, "c1") },
    ],
};

/// All cases.
pub(crate) const CASES: [&Case; 30] = [
    &PROXYSQL_REPLICATION,
    &PROXYSQL_RULES,
    &PROXYSQL_SHARDED,
    &PROXYSQL_GALERA,
    &PROXYSQL_PORTS,
    &PROXYSQL_DATABASE,
    &PROXYSQL_USERS,
    &PROXYSQL_CACHE,
    &PROXYSQL_FLAGS,
    &PROXYSQL_GROUP,
    &MAXSCALE_SPLIT,
    &MAXSCALE_FILTERS,
    &MAXSCALE_CONNECTIONS,
    &MAXSCALE_GALERA,
    &MAXSCALE_NAMED,
    &MAXSCALE_OPERATOR,
    &MAXSCALE_REWRITE,
    &MAXSCALE_TWO,
    &MAXSCALE_ACCEPT_READS,
    &MAXSCALE_HINTS,
    &HAPROXY_GALERA,
    &HAPROXY_READ_WRITE,
    &HAPROXY_SIMPLE,
    &HAPROXY_ONENODE,
    &HAPROXY_SOURCE,
    &HAPROXY_REPLICAS,
    &HAPROXY_NAMED,
    &HAPROXY_CLIENTS,
    &HAPROXY_STICKY,
    &HAPROXY_CLUSTERS,
];
