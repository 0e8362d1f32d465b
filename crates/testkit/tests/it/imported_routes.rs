//! Configurations of other proxies are imported, Flifo is started with what comes out, and each statement gets to the
//! server that the other proxy would have sent it to.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use bench::private_server::PrivateServer;
use testkit::client::Client;
use testkit::cluster::Cluster;
use testkit::flifo::{free_port, program};
use testkit::scene::wait_for;

use crate::cluster::roles_of;

/// A configuration, and what becomes of statements.
struct Case {
    file: &'static str,
    /// Addresses that it names, with the servers that stand for them here: `a1` with the readers `a2` and `a3`, `b1` with
    /// the reader `b2`, and `c1`.
    servers: &'static [(&'static str, &'static str)],
    /// What the servers are, in their order.
    roles: &'static [&'static str],
    /// Accounts at the servers: names and passwords.
    accounts: &'static [(&'static str, &'static str)],
    asks: &'static [Ask],
}

/// Statements of one client with blanks and a bar between them, of which the last one is judged.
struct Ask {
    /// Where the client comes in, as the configuration has it.
    door: &'static str,
    /// Where it comes from.
    from: &'static str,
    user: &'static str,
    password: &'static str,
    statements: &'static str,
    /// Servers of which one must have got it; or what the first row holds; or an error.
    want: &'static str,
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

/// Tables for all of them.
const TABLES: &str = "CREATE DATABASE shop; CREATE DATABASE customers_1; CREATE DATABASE customers_2; \
    CREATE TABLE shop.items (id INT); CREATE TABLE shop.orders (id INT, total INT); CREATE TABLE shop.figures (id INT); \
    INSERT INTO shop.items VALUES (1); INSERT INTO shop.orders VALUES (7, 8); INSERT INTO shop.figures VALUES (1)";

const SHOP: (&str, &str) = ("shop", "shop-secret");
const REPORT: (&str, &str) = ("report", "test");
const APP_RW: (&str, &str) = ("app_rw", "a'quote\"and\\more");
const BI: (&str, &str) = ("bi", "secret");
const APP: (&str, &str) = ("app", "secret");
const WEB: (&str, &str) = ("web", "web-secret");

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
    file: "proxysql-database.db",
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

/// The servers of all cases.
struct Servers {
    a: Cluster,
    b: Cluster,
    c: PrivateServer,
}

impl Servers {
    fn start() -> Self {
        let c = PrivateServer::builder()
            .password(Cluster::password())
            .argument("--innodb-buffer-pool-size=32M")
            .argument("--innodb-log-file-size=16M")
            .argument("--proxy-protocol-networks=127.0.0.1")
            .start()
            .expect("a server starts");
        let networks = &["--proxy-protocol-networks=127.0.0.1"];
        let (a, b) = (Cluster::replicated_with(2, networks), Cluster::replicated_with(1, networks));
        let servers = Self { a, b, c };
        servers.run(TABLES);
        servers
    }

    /// Runs statements in all clusters, and waits until their readers have them.
    fn run(&self, statements: &str) {
        for server in [&self.a.servers[0], &self.b.servers[0], &self.c] {
            server.sql(statements).expect(statements);
        }
        for (cluster, reader) in [(&self.a, 1), (&self.a, 2), (&self.b, 1)] {
            cluster.wait_for(reader, 0);
        }
    }

    fn port(&self, name: &str) -> u16 {
        let (of, number) = name.split_at(1);
        let at = number.parse::<usize>().expect("a number") - 1;
        match of {
            "a" => self.a.servers[at].port(),
            "b" => self.b.servers[at].port(),
            _ => self.c.port(),
        }
    }

    fn name(&self, port: &str) -> String {
        let names = ["a1", "a2", "a3", "b1", "b2", "c1"];
        let found = names.iter().find(|name| self.port(name).to_string() == port);
        found.map_or_else(|| format!("= {port}"), |name| (*name).to_owned())
    }
}

/// A proxy that runs. Dropped, it is killed.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    fn start(mut command: Command, folder: &Path) -> Self {
        let log = fs::File::create(folder.join("log")).expect("a log");
        command.env("FLIFO_ALLOW_PRIVILEGED_USER", "1");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        Self(sys::child::spawn(command).expect("it starts"))
    }
}

fn configurations() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/configurations")
}

fn flifo(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(program());
    let output = command.args(arguments).current_dir(folder).output().expect("flifo starts");
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code(), String::from_utf8_lossy(&said).into_owned())
}

/// Ports of this machine for the addresses that clients come in at.
fn doors(text: &str) -> BTreeMap<String, u16> {
    let line = text.lines().find(|line| line.starts_with("listen = [")).expect("it listens");
    let list = line.split(']').next().unwrap_or_default();
    // In an address of IPv6 the list seems to end.
    let list =
        if list.contains("[::") { line.split("\"]").next().unwrap_or_default() } else { list };
    list.split('"').skip(1).step_by(2).map(|door| (door.to_owned(), free_port())).collect()
}

/// What was made, for this machine: with its servers and ports, and without files that are elsewhere.
fn moved_here(
    text: &str,
    case: &Case,
    servers: &Servers,
    folder: &Path,
) -> (String, BTreeMap<String, u16>) {
    let doors = doors(text);
    let mut kept = String::new();
    let mut is_left_out = false;
    for line in text.lines() {
        if line.starts_with('[') {
            is_left_out = ["[tls]", "[console]", "[limits]"].contains(&line);
        }
        let is_elsewhere = line.starts_with("agent = ") || line.starts_with("tls = ");
        if !is_left_out && !is_elsewhere {
            kept += &format!("{line}\n");
        }
    }
    for (address, name) in case.servers {
        let here = format!("\"127.0.0.1:{}\"", servers.port(name));
        kept = kept.replace(&format!("\"{address}\""), &here);
    }
    for (door, port) in &doors {
        kept = kept.replace(&format!("\"{door}\""), &format!("\"127.0.0.1:{port}\""));
    }
    for (network, here) in
        [("\"10.5.0.0/16\"", "\"127.5.0.0/16\""), ("\"10.8.0.0/16\"", "\"127.8.0.0/16\"")]
    {
        kept = kept.replace(network, here);
    }
    kept = kept.replace("/var/log/flifo", &folder.display().to_string());
    let console = folder.join("console.sock");
    kept += &format!(
        "[console]\nlisten = [{console:?}]\n[http]\nlisten = []\n\
         [limits]\nconnect = \"60s\"\nlogin = \"5m\"\nwait = \"5m\"\n"
    );
    (kept, doors)
}

/// What becomes of statements.
fn outcome(ask: &Ask, port: u16, servers: &Servers) -> String {
    let address = format!("127.0.0.1:{port}").parse().expect("an address");
    let from: IpAddr = ask.from.parse().expect("an address");
    let client = Client::builder(address, ask.user, ask.password).from(from).connect();
    let mut client = match client {
        Ok(client) => client,
        Err(problem) => return format!("no login: {problem}"),
    };
    let mut last = Ok(Vec::new());
    for statement in ask.statements.split(" | ") {
        last = client.query(statement);
    }
    match last {
        Ok(rows) => rows.first().map_or_else(String::new, |row| servers.name(&row.join(","))),
        Err(problem) => {
            let text = problem.to_string();
            let number = ask.want.strip_prefix("error ").filter(|it| text.contains(it));
            number.map_or_else(|| text.clone(), |number| format!("error {number}"))
        }
    }
}

/// Tells of what went elsewhere.
fn judge(case: &Case, doors: &BTreeMap<String, u16>, servers: &Servers, by: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for ask in case.asks {
        let port = doors.get(ask.door).unwrap_or_else(|| panic!("{}: no {}", case.file, ask.door));
        let got = outcome(ask, *port, servers);
        let is_wanted = match ask.want {
            text if text.starts_with("= ") || text.is_empty() => got == text,
            servers => got == servers || servers.split(' ').any(|it| it == got),
        };
        if !is_wanted {
            let Ask { door, from, user, statements, want, .. } = ask;
            wrong.push(format!(
                "{} ({by}): {user} from {from} at {door}: {statements}: {got}, not {want}",
                case.file
            ));
        }
    }
    wrong
}

/// Makes the accounts of a case at all servers.
fn make_accounts(case: &Case, servers: &Servers) {
    let accounts = case.accounts.iter().map(|(name, password)| {
        let password = password.replace('\\', "\\\\").replace('\'', "\\'");
        format!(
            "CREATE OR REPLACE USER '{name}' IDENTIFIED BY '{password}'; GRANT SELECT, INSERT, UPDATE, DELETE, \
             SLAVE MONITOR, BINLOG MONITOR ON *.* TO '{name}'; "
        )
    });
    servers.run(&accounts.collect::<String>());
}

/// Imports a configuration, starts Flifo with it, and tells of statements that went elsewhere.
fn try_case(case: &Case, servers: &Servers) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    make_accounts(case, servers);
    let source = configurations().join(case.file);
    let source = source.to_str().expect("a path");
    let (code, said) = flifo(folder.path(), &["import", "--output", "made.toml", source]);
    assert!(matches!(code, Some(0..=2)), "{}: {said}", case.file);
    let made = fs::read_to_string(folder.path().join("made.toml")).expect("was written");
    let (text, doors) = moved_here(&made, case, servers, folder.path());
    fs::write(folder.path().join("flifo.toml"), &text).expect("is written");
    let (code, said) = flifo(folder.path(), &["check-config", "flifo.toml"]);
    assert_eq!(code, Some(0), "{}: {said}\n{text}", case.file);
    let mut command = Command::new(program());
    command.args(["run", "--config", "flifo.toml"]).current_dir(folder.path());
    let _running = Running::start(command, folder.path());
    let console = folder.path().join("console.sock");
    let address = || console.to_str().expect("a path").parse().expect("an address");
    wait_for("the console", || Client::builder(address(), "admin", "").connect().is_ok());
    let mut console = Client::builder(address(), "admin", "").connect().expect("a console");
    wait_for(case.file, || {
        let are = roles_of(&mut console);
        case.roles.iter().zip(&are).all(|(want, is)| is.starts_with(want))
    });
    let mut wrong = judge(case, &doors, servers, "Flifo");
    if !wrong.is_empty() {
        let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        wrong.push(format!("{text}\n{log}"));
    }
    wrong
}

/// A configuration of HAProxy for this machine, without what is not about MySQL.
fn haproxy_here(text: &str, case: &Case, servers: &Servers) -> (String, BTreeMap<String, u16>) {
    const LEFT_OUT: &[&str] = &[
        "global",
        "frontend web",
        "backend shop",
        "listen stats",
        "listen redis",
        "resolvers dns",
    ];
    let (mut kept, mut doors, mut is_left_out) = (String::new(), BTreeMap::new(), false);
    for line in text.lines() {
        if line.starts_with(|first: char| first.is_ascii_alphabetic()) {
            is_left_out = LEFT_OUT.contains(&line);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            _ if is_left_out => {}
            ["log", ..] | ["option", "tcplog" | "dontlognull"] => {}
            ["bind", door, ..] => {
                let port = free_port();
                kept += &format!("    bind 127.0.0.1:{port}\n");
                let any = if door.starts_with(':') { "0.0.0.0" } else { "" };
                doors.insert(format!("{any}{door}"), port);
            }
            _ => kept += &format!("{line}\n"),
        }
    }
    for (address, name) in case.servers {
        kept = kept.replace(address, &format!("127.0.0.1:{}", servers.port(name)));
    }
    for (text, here) in [
        ("port 9200 ", ""),
        ("agent-check agent-port 9999 agent-inter 5s", ""),
        ("10.8.0.0/16", "127.8.0.0/16"),
    ] {
        kept = kept.replace(text, here);
    }
    (kept, doors)
}

/// Starts HAProxy with its own configuration, and tells of statements that went elsewhere.
fn try_haproxy(case: &Case, servers: &Servers) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    make_accounts(case, servers);
    let text = fs::read_to_string(configurations().join(case.file)).expect("it is there");
    let (text, doors) = haproxy_here(&text, case, servers);
    fs::write(folder.path().join("haproxy.cfg"), &text).expect("is written");
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new("haproxy");
    // Debian has it where users do not look.
    command.env("PATH", format!("{path}:/usr/sbin:/usr/local/sbin"));
    command.args(["-db", "-f", "haproxy.cfg"]).current_dir(folder.path());
    let _running = Running::start(command, folder.path());
    wait_for("HAProxy", || {
        doors.values().all(|port| TcpStream::connect(("127.0.0.1", *port)).is_ok())
    });
    let mut wrong = judge(case, &doors, servers, "HAProxy");
    if !wrong.is_empty() {
        let log = fs::read_to_string(folder.path().join("log")).unwrap_or_default();
        wrong.push(format!("{text}\n{log}"));
    }
    wrong
}

#[test]
fn imported_configurations_route_as_the_originals() {
    let servers = Servers::start();
    let cases = [
        PROXYSQL_REPLICATION,
        PROXYSQL_RULES,
        PROXYSQL_SHARDED,
        PROXYSQL_GALERA,
        PROXYSQL_PORTS,
        PROXYSQL_DATABASE,
        MAXSCALE_SPLIT,
        MAXSCALE_FILTERS,
        HAPROXY_GALERA,
        HAPROXY_READ_WRITE,
    ];
    let mut wrong: Vec<_> = cases.iter().flat_map(|case| try_case(case, &servers)).collect();
    // One of the originals is at hand: what is said of it above is so.
    wrong.extend(try_haproxy(&HAPROXY_GALERA, &servers));
    wrong.extend(try_haproxy(&HAPROXY_READ_WRITE, &servers));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
