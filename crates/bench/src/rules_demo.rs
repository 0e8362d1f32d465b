//! `flifo demo --rules`: what rules do to an application that runs.
//!
//! Two private servers stand behind one Flifo as two clusters. An application asks the same three things again and
//! again; in the middle of that, three rules are put in force. Measures nothing. Invariant: whatever happens, what was
//! started is stopped, and what was written is removed.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::interrupt::Interrupt;
use crate::private_server::{PrivateServer, free_port};
use crate::programs::MARIADB;
use crate::targets::Proxy;

/// What the application asks.
const STATEMENTS: [&str; 3] = [
    "SELECT price FROM products WHERE id = 3",
    "SELECT * FROM products",
    "SELECT COUNT(*) FROM orders_2020",
];

/// What becomes of each.
const RULES: &str = r#"
[[rules]]
name = "prices are in euros now"
[rules.rewrite]
from = "SELECT price FROM products WHERE id = ?id"
to = "SELECT CONCAT(price, ' EUR') FROM prices WHERE product = ?id"

[[rules]]
name = "not the whole table"
refuse = { number = 1104, message = "name the products that you want to see" }
match.digest = "SELECT * FROM products"

[[rules]]
name = "old orders lie in the archive"
route = { cluster = "archive" }
match.table = "orders_20__"
"#;

/// Files beside the first server's: what the application connects by, and the console's socket.
const APPLICATION: &str = "application.cnf";
const CONSOLE: &str = "console.sock";

/// What the application was answered last, statement by statement, and how often it was answered.
#[derive(Debug, Default)]
struct Answers {
    last: [String; STATEMENTS.len()],
    count: usize,
}

/// Two servers, and Flifo in front of them.
struct Stage {
    // Dropped first, as it holds connections to the others.
    _proxy: Proxy,
    shop: PrivateServer,
    _archive: PrivateServer,
    configuration: PathBuf,
}

/// Runs the demo, and prints what happens.
pub fn run(flifo: &Path) -> Result<()> {
    let interrupt = Interrupt::listen()?;
    let stage = Stage::raise(flifo, &interrupt)?;
    let (answers, stop) = (Mutex::new(Answers::default()), AtomicBool::new(false));
    let told = thread::scope(|scope| {
        scope.spawn(|| stage.apply(&answers, &stop));
        let told = stage.play(&answers, &interrupt);
        stop.store(true, Relaxed);
        told
    })?;
    print(&told)
}

fn print(text: &str) -> Result<()> {
    use std::io::Write as _;
    std::io::stdout().write_all(text.as_bytes()).context("cannot print what has happened")
}

impl Stage {
    /// Starts all, and fills the servers.
    fn raise(flifo: &Path, interrupt: &Interrupt) -> Result<Self> {
        eprintln!("Starting two private servers, and Flifo in front of them …");
        let builder = || PrivateServer::builder().argument("--innodb-buffer-pool-size=32M");
        let shop = builder().start()?;
        let archive = builder().password(shop.password()).start()?;
        shop.sql(
            "CREATE TABLE products (id INT PRIMARY KEY, name VARCHAR(20), price INT); \
             INSERT INTO products VALUES (1, 'tea', 310), (2, 'rice', 190), (3, 'salt', 80); \
             CREATE TABLE prices (product INT PRIMARY KEY, price DECIMAL(6, 2)); \
             INSERT INTO prices VALUES (1, 3.10), (2, 1.90), (3, 0.80)",
        )?;
        archive.sql(
            "CREATE TABLE orders_2020 (id INT PRIMARY KEY); \
             INSERT INTO orders_2020 VALUES (1), (2), (3), (4)",
        )?;
        let port = free_port()?;
        let configuration = shop.folder().join("flifo.toml");
        write(&configuration, &configured(port, &shop, &archive))?;
        write(&shop.folder().join(APPLICATION), &application(port, shop.password()))?;
        let mut command = Command::new(flifo);
        command.args(["run", "--config"]).arg(&configuration);
        // It may run as root, beside private servers of the same user.
        command.env("FLIFO_ALLOW_PRIVILEGED_USER", "1");
        let log = shop.folder().join("flifo.log");
        let proxy = Proxy::start("flifo", command, log, port, interrupt)?;
        Ok(Self { _proxy: proxy, shop, _archive: archive, configuration })
    }

    /// The application: asks until it is told to stop.
    fn apply(&self, answers: &Mutex<Answers>, stop: &AtomicBool) {
        while !stop.load(Relaxed) {
            for (at, statement) in STATEMENTS.iter().enumerate() {
                let answer = self.ask(statement);
                let answer = answer.unwrap_or_else(|error| error.to_string());
                let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
                answers.last[at] = answer;
                answers.count += 1;
            }
        }
    }

    /// Puts rules in force while the application runs. Returns what has happened.
    fn play(&self, answers: &Mutex<Answers>, interrupt: &Interrupt) -> Result<String> {
        let before = await_answers(answers, interrupt, |it| it.count >= STATEMENTS.len())?;
        let mut told = String::from("An application asks, and no rule is in force:\n\n");
        tell(&mut told, &before);
        let text = fs::read_to_string(&self.configuration).context("cannot read flifo.toml")?;
        write(&self.configuration, &(text + RULES))?;
        self.order("RELOAD")?;
        let all_differ = |now: &Answers| now.last.iter().zip(&before).all(|(now, was)| now != was);
        let behind = await_answers(answers, interrupt, all_differ)?;
        told.push_str("\nThese rules are put in force while it runs:\n");
        RULES
            .lines()
            .for_each(|line| told.push_str(&format!("    {line}\n").replace("    \n", "\n")));
        told.push_str("\nThe first statement is rewritten, the second one refused, the third one routed to the archive:\n\n");
        tell(&mut told, &behind);
        let rules = self.order("SHOW RULES")?;
        let _ = write!(told, "\nSHOW RULES, on the console:\n\n{rules}\n");
        Ok(told)
    }

    /// What Flifo answers the application.
    fn ask(&self, statement: &str) -> Result<String> {
        let file = self.shop.folder().join(APPLICATION);
        let defaults = format!("--defaults-file={}", file.display());
        let schema = format!("--database={}", PrivateServer::DATABASE);
        Self::answer(&[&defaults, &schema, "--batch", "--skip-column-names", "-e", statement])
    }

    /// What Flifo's console answers.
    fn order(&self, statement: &str) -> Result<String> {
        let socket = format!("--socket={}", self.shop.folder().join(CONSOLE).display());
        Self::answer(&["--no-defaults", &socket, "--table", "-e", statement])
    }

    /// What the mariadb client prints: rows, or an error.
    fn answer(arguments: &[&str]) -> Result<String> {
        let output = Command::new(MARIADB.find()?).args(arguments).output();
        let output = output.context("cannot run the mariadb client")?;
        let said = if output.status.success() { output.stdout } else { output.stderr };
        let said = String::from_utf8_lossy(&said);
        // Before an error stands the statement.
        let said = said.lines().find(|line| line.starts_with("ERROR")).unwrap_or(&said);
        Ok(said.trim_end().to_owned())
    }
}

/// So long the application may take for an answer.
const PATIENCE: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(20);

/// The application's answers, when they are as wanted.
fn await_answers(
    answers: &Mutex<Answers>,
    interrupt: &Interrupt,
    are_wanted: impl Fn(&Answers) -> bool,
) -> Result<[String; STATEMENTS.len()]> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        {
            let answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
            if are_wanted(&answers) {
                return Ok(answers.last.clone());
            }
            if deadline < Instant::now() {
                bail!(
                    "the application has no other answers within {PATIENCE:?}: {:?}",
                    answers.last
                );
            }
        }
        interrupt.sleep(LOOK)?;
    }
}

fn tell(out: &mut String, answers: &[String]) {
    for (statement, answer) in STATEMENTS.iter().zip(answers) {
        let answer = answer.replace('\t', " ").replace('\n', "; ");
        let _ = writeln!(out, "    {statement}\n        {answer}");
    }
}

fn configured(port: u16, shop: &PrivateServer, archive: &PrivateServer) -> String {
    let (user, password) = (PrivateServer::USER, shop.password());
    let (first, second) = (shop.socket(), archive.socket());
    let console = shop.folder().join(CONSOLE);
    format!(
        "listen = [\"127.0.0.1:{port}\"]\n\
         [console]\nlisten = [{console:?}]\n[http]\nlisten = []\n\
         [[clusters]]\nname = \"shop\"\n[[clusters]]\nname = \"archive\"\n\
         [[servers]]\nname = \"shop1\"\naddress = {first:?}\ncluster = \"shop\"\n\
         [[servers]]\nname = \"archive1\"\naddress = {second:?}\ncluster = \"archive\"\n\
         [[users]]\nname = {user:?}\npassword = {password:?}\n"
    )
}

/// What the application connects by.
fn application(port: u16, password: &str) -> String {
    let user = PrivateServer::USER;
    format!("[client]\nhost = 127.0.0.1\nport = {port}\nuser = {user}\npassword = {password}\n")
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
}
