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
use crate::imported_cases::{Ask, CASES, Case, TABLES};

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

/// How a statement is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Text,
    Prepared,
}

/// What becomes of statements.
fn outcome(ask: &Ask, form: Form, port: u16, servers: &Servers) -> String {
    let address = format!("127.0.0.1:{port}").parse().expect("an address");
    let from: IpAddr = ask.from.parse().expect("an address");
    let client = Client::builder(address, ask.user, ask.password).from(from).connect();
    let mut client = match client {
        Ok(client) => client,
        Err(problem) => return format!("no login: {problem}"),
    };
    let mut statements: Vec<&str> = ask.statements.split(" | ").collect();
    let judged = statements.pop().unwrap_or_default();
    for statement in statements {
        if let Err(problem) = client.query(statement) {
            return format!("{statement}: {problem}");
        }
    }
    let last = match form {
        Form::Text => client.query(judged),
        // The client reads texts in binary rows.
        Form::Prepared => {
            let judged = judged.replace("@@port", "CONCAT(@@port)");
            client.prepare(&judged).and_then(|id| client.execute(id))
        }
    };
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
    let asks = case.asks.iter().flat_map(|ask| [Form::Text, Form::Prepared].map(|it| (ask, it)));
    for (ask, form) in asks.filter(|(ask, form)| *form == Form::Text || ask.tells_port()) {
        let port = doors.get(ask.door).unwrap_or_else(|| panic!("{}: no {}", case.file, ask.door));
        let got = outcome(ask, form, *port, servers);
        let is_wanted = match ask.want {
            text if text.starts_with("= ") || text.is_empty() => got == text,
            servers => got == servers || servers.split(' ').any(|it| it == got),
        };
        if !is_wanted {
            let Ask { door, from, user, statements, want, .. } = ask;
            wrong.push(format!(
                "{} ({by}): {user} from {from} at {door}, {form:?}: {statements}: {got}, not {want}",
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
        "peers mypeers",
    ];
    let (mut kept, mut doors, mut is_left_out) = (String::new(), BTreeMap::new(), false);
    for line in text.lines() {
        if line.starts_with(|first: char| first.is_ascii_alphabetic()) {
            is_left_out = LEFT_OUT.contains(&line);
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            _ if is_left_out => {}
            ["log", ..] | ["option", "tcplog" | "dontlognull"] | ["tcp-check", ..] => {}
            ["bind", door, ..] => {
                let port = free_port();
                kept += &format!("    bind 127.0.0.1:{port}\n");
                let door = door.trim_start_matches('*');
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
        (" peers mypeers", ""),
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
    let mut wrong: Vec<_> = CASES.iter().flat_map(|case| try_case(case, &servers)).collect();
    // One of the originals is at hand: what is said of it above is so.
    for case in CASES.iter().filter(|case| case.file.starts_with("haproxy")) {
        wrong.extend(try_haproxy(case, &servers));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
