//! What a set-up leaves: at the server (accounts, rights, options, files, transactions of its own), and of its password in
//! logs and lists of processes.
//!
//! Only looks. What is right is the caller's.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use bench::private_server::PrivateServer;

use crate::mysql::Mysql;
use crate::scene::wait_for;

/// A server that can be asked.
pub trait Served {
    /// The rows of a statement: a line each, tabs between columns.
    fn ask(&self, statement: &str) -> String;
    /// Runs statements on one connection.
    fn ask_all(&self, statements: &[&str]);
    fn folder(&self) -> &Path;
    fn is_mariadb(&self) -> bool;
}

impl Served for PrivateServer {
    fn ask(&self, statement: &str) -> String {
        self.sql(statement).unwrap_or_else(|error| panic!("{statement}: {error:#}"))
    }

    fn ask_all(&self, statements: &[&str]) {
        self.ask(&statements.join("; "));
    }

    fn folder(&self) -> &Path {
        Self::folder(self)
    }

    fn is_mariadb(&self) -> bool {
        true
    }
}

impl Served for Mysql {
    fn ask(&self, statement: &str) -> String {
        let rows = self.sql(&[statement]);
        rows.iter().map(|row| format!("{}\n", row.join("\t"))).collect()
    }

    fn ask_all(&self, statements: &[&str]) {
        self.sql(statements);
    }

    fn folder(&self) -> &Path {
        Self::folder(self)
    }

    fn is_mariadb(&self) -> bool {
        false
    }
}

/// Tables of accounts and rights.
const MARIADB: [&str; 8] = [
    "global_priv",
    "db",
    "tables_priv",
    "columns_priv",
    "procs_priv",
    "proxies_priv",
    "roles_mapping",
    "plugin",
];
const MYSQL: [&str; 10] = [
    "user",
    "db",
    "tables_priv",
    "columns_priv",
    "procs_priv",
    "proxies_priv",
    "role_edges",
    "default_roles",
    "global_grants",
    "password_history",
];

/// How a server is: its accounts and rights, its options, its files, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State(BTreeMap<String, BTreeSet<String>>);

impl State {
    pub fn of(server: &dyn Served) -> Self {
        let lines = |text: String| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let mut parts = BTreeMap::new();
        let tables = if server.is_mariadb() { &MARIADB[..] } else { &MYSQL };
        for table in tables {
            let rows = server.ask(&format!("SELECT * FROM mysql.{table}"));
            parts.insert(format!("mysql.{table}"), lines(rows));
        }
        let options = lines(server.ask("SHOW GLOBAL VARIABLES"));
        // Where replication is goes on by itself.
        let options = options.into_iter().filter(|it| !it.starts_with("gtid_")).collect();
        parts.insert("options".to_owned(), options);
        parts.insert("files".to_owned(), files(server.folder()));
        Self(parts)
    }

    /// What differs, line by line: `-` what is gone, `+` what is new.
    pub fn differences(&self, after: &Self) -> Vec<String> {
        let mut found = Vec::new();
        for (name, before) in &self.0 {
            let now = &after.0[name];
            found.extend(before.difference(now).map(|line| format!("{name}: -{line}")));
            found.extend(now.difference(before).map(|line| format!("{name}: +{line}")));
        }
        found
    }
}

/// The files below a folder, but for numbered logs.
fn files(folder: &Path) -> BTreeSet<String> {
    let output = Command::new("find").arg(folder).args(["-printf", "%P\\n"]).output();
    let text = output.expect("find runs").stdout;
    let is_numbered = |name: &str| {
        let ending = name.rsplit('.').next().unwrap_or_default();
        ending.len() == 6 && ending.bytes().all(|it| it.is_ascii_digit())
    };
    // Tables in memory and on disk that a statement makes for itself.
    let is_passing = |name: &str| name.contains("#sql") || name.contains("#innodb");
    let text = String::from_utf8_lossy(&text).into_owned();
    let kept = text.lines().filter(|name| !is_numbered(name) && !is_passing(name));
    kept.map(str::to_owned).collect()
}

/// Which files below a folder have a secret, as it stands; and how many files there are.
pub fn holders(folder: &Path, secret: &str) -> (Vec<String>, usize) {
    // By way of a file: a [`Watch`] must not find the search itself.
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(secret.as_bytes()).expect("it is written");
    let mut grep = Command::new("grep");
    grep.args(["-r", "-l", "-a", "-F", "-f"]).arg(file.path()).arg(folder);
    let found = grep.output().expect("grep runs").stdout;
    let found = String::from_utf8_lossy(&found).lines().map(str::to_owned).collect();
    let count = Command::new("find").arg(folder).args(["-type", "f"]).output();
    let count = count.expect("find runs").stdout.split(|it| *it == b'\n').count();
    (found, count.saturating_sub(1))
}

/// What the server's binary logs say, event by event, as the server itself reads them.
pub fn events(server: &dyn Served) -> String {
    if !server.ask("SELECT @@GLOBAL.log_bin").trim().starts_with('1') {
        return String::new();
    }
    let logs = server.ask("SHOW BINARY LOGS");
    let names = logs.lines().filter_map(|line| line.split('\t').next());
    names.map(|name| server.ask(&format!("SHOW BINLOG EVENTS IN '{name}'"))).collect()
}

/// Writes a row at one server, and waits until another one has it.
pub fn goes_on(from: &dyn Served, to: &dyn Served) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mark = NEXT.fetch_add(1, Relaxed);
    from.ask("CREATE TABLE IF NOT EXISTS mysql.set_up_seen (mark INT) ENGINE=InnoDB");
    from.ask(&format!("INSERT INTO mysql.set_up_seen VALUES ({mark})"));
    let table = "SELECT COUNT(*) FROM information_schema.tables \
                 WHERE table_schema='mysql' AND table_name='set_up_seen'";
    let row = format!("SELECT COUNT(*) FROM mysql.set_up_seen WHERE mark={mark}");
    wait_for("the other server to go on", || {
        to.ask(table).trim() == "1" && to.ask(&row).trim() == "1"
    });
}

/// What is wrong with the replication of a server; `None`: nothing.
pub fn broken(primary: &dyn Served, replica: &dyn Served) -> Option<String> {
    let is_old = replica.is_mariadb() || replica.ask("SELECT VERSION()").starts_with("8.0.");
    let status = replica.ask(if is_old { "SHOW SLAVE STATUS" } else { "SHOW REPLICA STATUS" });
    if !status.contains("\tYes\tYes\t") {
        return Some(format!("it does not run: {status}"));
    }
    if replica.is_mariadb() {
        let own = format!("-{}-", replica.ask("SELECT @@server_id").trim());
        let logged = replica.ask("SELECT @@GLOBAL.gtid_binlog_state");
        return logged.contains(&own).then(|| format!("transactions of its own: {logged}"));
    }
    let all = primary.ask("SELECT @@GLOBAL.gtid_executed").replace('\n', "");
    let own = replica.ask(&format!("SELECT GTID_SUBTRACT(@@GLOBAL.gtid_executed, '{all}')"));
    (!own.trim().is_empty()).then(|| format!("transactions of its own: {own}"))
}

/// Reads the command lines and environments of all processes, again and again.
pub struct Watch {
    ends: Arc<AtomicBool>,
    thread: JoinHandle<Watched>,
}

/// What processes were started with.
#[derive(Default)]
pub struct Watched {
    texts: BTreeSet<Vec<u8>>,
    pub rounds: u32,
}

impl Watch {
    pub fn start() -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ends);
        let thread = thread::spawn(move || {
            let mut watched = Watched::default();
            while !told.load(Relaxed) {
                watched.look();
                thread::sleep(Duration::from_millis(2));
            }
            watched
        });
        Self { ends, thread }
    }

    /// # Panics
    /// If the watching did.
    pub fn end(self) -> Watched {
        self.ends.store(true, Relaxed);
        self.thread.join().expect("it watches")
    }
}

impl Watched {
    fn look(&mut self) {
        self.rounds += 1;
        let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        for process in processes {
            if !process.file_name().to_string_lossy().bytes().all(|it| it.is_ascii_digit()) {
                continue;
            }
            // What has ended meanwhile, or is another user's, cannot be read.
            let texts = ["cmdline", "environ"].map(|name| std::fs::read(process.path().join(name)));
            self.texts.extend(texts.into_iter().flatten());
        }
    }

    /// Those with this secret.
    pub fn with(&self, secret: &str) -> Vec<String> {
        let has = |text: &&Vec<u8>| text.windows(secret.len()).any(|it| it == secret.as_bytes());
        let shown = |text: &Vec<u8>| String::from_utf8_lossy(text).replace('\0', " ");
        self.texts.iter().filter(has).map(shown).collect()
    }

    /// How many there were.
    pub fn len(&self) -> usize {
        self.texts.len()
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }
}
