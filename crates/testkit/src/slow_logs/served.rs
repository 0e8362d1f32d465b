//! Statements of every kind that a slow log tells of, through a Flifo in front of a real server: what it has written is
//! counted by mark.
//!
//! Owns the clients and their count of statements. Invariant: a kind that the log does not tell of fails the run.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use backend::Address;
use bench::private_server::PrivateServer;

use super::Counted;
use crate::client::Client;
use crate::fake_client::{FakeClient, Refusal};
use crate::flifo::Flifo;
use crate::scene::wait_for;

/// Users that Flifo knows. Names of some could be taken for something else.
const USERS: [&str; 5] = ["app", "a b", "123", "ä€", "Yes"];
/// A user that only the server knows.
const PASSED: &str = "passed";
/// Schemas, likewise.
const SCHEMAS: [&str; 5] = ["shop", "a b", "7", "ä€", "two\nlines"];

/// A log that was written, and what is in it.
pub struct Served {
    pub path: PathBuf,
    /// By mark: what clients have asked.
    pub asked: Counted,
    _folder: tempfile::TempDir,
}

/// One kind of statements: its mark, and how many of a thousand it is.
const KINDS: [(&str, u64); 18] = [
    ("text", 120),
    ("prepared", 100),
    ("error", 60),
    ("passed", 60),
    ("passedprepared", 40),
    ("refused", 60),
    ("cached", 100),
    ("shared", 60),
    ("names", 100),
    ("binary", 60),
    ("bytes", 60),
    ("lines", 60),
    ("multi", 60),
    ("load", 30),
    ("queued", 20),
    ("limit", 4),
    ("killed", 4),
    ("long", 2),
];

struct Stand {
    flifo: Flifo,
    folder: tempfile::TempDir,
    server: PrivateServer,
}

/// Has clients ask about so many statements of all kinds, with literals shown and then hidden.
///
/// # Panics
/// If a program does not start, or does what it must not.
pub fn run(program: &Path, statements: u64) -> Served {
    let stand = Stand::start(program);
    let mut asked = Counted::default();
    for literals in ["show", "hide"] {
        stand.reload(|text| {
            text.replace("literals = \"show\"", &format!("literals = \"{literals}\""))
        });
        let counts: Vec<_> = thread::scope(|scope| {
            let stand = &stand;
            let all = KINDS.map(|(kind, share)| {
                let count = (statements * share / 2000).max(2);
                (kind, scope.spawn(move || stand.ask(kind, count)))
            });
            all.into_iter().map(|(kind, it)| (kind, it.join().expect("asks"))).collect()
        });
        // Of what a pass-through client executes the text is the server's to know; what a rule refuses is not in this log.
        for (kind, count) in
            counts.into_iter().filter(|(kind, _)| !["passedprepared", "refused"].contains(kind))
        {
            *asked.marked.entry(kind.to_owned()).or_default() += count;
        }
    }
    stand.end(asked)
}

impl Served {
    /// Whether the log has what only some statements have; what it has of that.
    pub fn is_whole(&self) -> Result<String, String> {
        let text = std::fs::read(&self.path).expect("a log");
        let text = String::from_utf8_lossy(&text);
        let is_last = |line: &&str| line.starts_with("# Rows_affected: ");
        let lines: Vec<_> = text.lines().filter(is_last).collect();
        let with = |part: &str| lines.iter().filter(|line| line.contains(part)).count();
        let counts = [
            ("without Backend_id", lines.len() - with("  Backend_id: ")),
            ("shared", with("  Shared_by: ")),
            ("too long in the queue", with("  Last_errno: 1637 ")),
            ("killed, by a client or its limit", with("  Last_errno: 1317 ")),
            ("in other errors", with("  Last_errno: 1146 ")),
            ("cut", text.matches(" /* cut: ").count()),
            ("without a text", text.matches("\nadministrator command: ").count()),
        ];
        let told: Vec<_> = counts.iter().map(|(name, count)| format!("{count} {name}")).collect();
        let told = format!("{} entries, {}", lines.len(), told.join(", "));
        let is_whole =
            lines.len() as u64 == self.asked.entries && counts.iter().all(|(_, count)| *count > 0);
        if is_whole { Ok(told) } else { Err(told) }
    }

    /// What a program counts otherwise. Of statements that some commands only repeat, the text is logged with each, or the
    /// command alone.
    pub fn differences(&self, found: &Counted) -> Vec<String> {
        self.asked.differences(found)
    }
}

impl Stand {
    fn start(program: &Path) -> Self {
        let server = PrivateServer::builder().in_memory().argument("--max-allowed-packet=64M");
        let server = server.argument("--local-infile=1").start().expect("a private server");
        let mut text = String::new();
        for schema in SCHEMAS {
            text += &format!(
                "CREATE DATABASE `{schema}`; CREATE TABLE `{schema}`.t (a INT, b TEXT);\n"
            );
        }
        text += "INSERT INTO shop.t SELECT seq, 'x' FROM seq_1_to_300; CREATE TABLE shop.markload (a INT);";
        for user in USERS.iter().chain(&[PASSED]) {
            text += &format!(
                "CREATE USER `{user}`@'%' IDENTIFIED BY 'secret'; GRANT ALL ON *.* TO `{user}`@'%';\n"
            );
        }
        server.sql(&text).expect("accounts and tables");
        let folder = tempfile::tempdir().expect("a folder");
        let users =
            USERS.map(|name| format!("[[users]]\nname = \"{name}\"\npassword = \"secret\"\n"));
        let (log, console) = (folder.path().join("slow.log"), folder.path().join("console.sock"));
        let flifo = Flifo::start_program(
            program,
            &format!(
                "[server]\naddress = {:?}\nlimit = 16\nconnections_max = 64\nlearn_passwords = \"off\"\n\
                 [limits]\npacket_max = \"64MiB\"\n[console]\nlisten = [{console:?}]\n[http]\nlisten = []\n\
                 [logs.slow]\nfile = {log:?}\nthreshold = \"0s\"\nliterals = \"show\"\nsize_max = \"1GiB\"\n{RULES}{}",
                server.socket(),
                users.concat()
            ),
        );
        Self { flifo, folder, server }
    }

    fn console(&self) -> Client {
        let path = self.folder.path().join("console.sock");
        Client::builder(Address::Unix(path), "admin", "").connect().expect("the console")
    }

    fn reload(&self, change: impl Fn(&str) -> String) {
        self.flifo.change_configuration(change);
        self.console().query("RELOAD").expect("a good file");
    }

    /// A counter, as the console shows it.
    fn counted(&self, name: &str) -> u64 {
        let rows = self.console().query("SHOW STATS").expect("statistics");
        let row = rows.into_iter().find(|row| row[0] == name).expect("it is counted");
        row[1].parse().expect("a number")
    }

    fn client(&self, user: &str) -> FakeClient {
        FakeClient::login(self.flifo.port(), user, "secret").expect("a login")
    }

    /// Asks about so many of this kind. The answer is how many it were.
    fn ask(&self, kind: &str, count: u64) -> u64 {
        match kind {
            "queued" => self.ask_in_a_queue(count),
            "shared" => self.ask_at_once(count),
            "killed" => self.ask_and_kill(count),
            "names" => self.ask_under_odd_names(count),
            "passed" | "passedprepared" => self.ask_one_by_one(PASSED, kind, count),
            _ => self.ask_one_by_one("app", kind, count),
        }
    }

    fn ask_one_by_one(&self, user: &str, kind: &str, count: u64) -> u64 {
        let mut client = self.client(user);
        let mut prepared = None;
        for number in 0..count {
            if kind.ends_with("prepared") {
                let id = *prepared.get_or_insert_with(|| {
                    client
                        .prepare(&format!("SELECT b AS mark{kind} FROM shop.t WHERE a < 7"))
                        .expect("prepared")
                });
                client
                    .command(&[&[0x17][..], &id.to_le_bytes(), b"\0\x01\0\0\0"].concat())
                    .expect("rows");
                continue;
            }
            let is_wrong = matches!(kind, "error" | "refused" | "limit");
            let answer = client.command(&[&[3], &text(kind, number)[..]].concat());
            assert_eq!(answer.is_err(), is_wrong, "{kind}: {answer:?}");
            self.keep_up();
        }
        count
    }

    /// The log is not to lose entries here: that is tested elsewhere.
    fn keep_up(&self) {
        thread::sleep(Duration::from_micros(200));
    }

    /// One holds a rule's only place for a while, again and again, and another one waits too long for it. Counted are those
    /// that ran.
    fn ask_in_a_queue(&self, count: u64) -> u64 {
        let ends = AtomicBool::new(false);
        thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let (mut client, mut ran) = (self.client("app"), 0);
                while !ends.load(Relaxed) {
                    ran += 1 - ask_for_place(&mut client, "SELECT SLEEP(0.05) AS markqueued");
                }
                ran
            });
            let (mut client, mut asked, mut refused) = (self.client("app"), 0, 0);
            while refused < count {
                assert!(!holder.is_finished(), "nobody has killed what holds the place");
                asked += 1;
                refused += ask_for_place(&mut client, &format!("SELECT {asked} AS markqueued"));
                self.keep_up();
            }
            ends.store(true, Relaxed);
            asked - refused + holder.join().expect("it holds the place")
        })
    }

    /// Clients ask the same at the same moment.
    fn ask_at_once(&self, count: u64) -> u64 {
        const CLIENTS: u64 = 8;
        thread::scope(|scope| {
            for _ in 0..CLIENTS {
                scope.spawn(|| {
                    let mut client = self.client("app");
                    for _ in 0..count / CLIENTS {
                        client
                            .query("SELECT COUNT(*) AS markshared FROM shop.t x, shop.t y")
                            .expect("a row");
                    }
                });
            }
        });
        count / CLIENTS * CLIENTS
    }

    fn ask_and_kill(&self, count: u64) -> u64 {
        for _ in 0..count {
            let (mut client, mut other) = (self.client("app"), self.client("app"));
            let rows = client.query("SELECT CONNECTION_ID()").expect("a row");
            let id = String::from_utf8_lossy(&rows[0]).into_owned();
            thread::scope(|scope| {
                let asked = scope.spawn(move || client.query("SELECT SLEEP(60) AS markkilled"));
                while !asked.is_finished() {
                    // It may not have begun yet.
                    let _ = other.query(&format!("KILL QUERY {id}"));
                    thread::sleep(Duration::from_millis(5));
                }
            });
        }
        count
    }

    fn ask_under_odd_names(&self, count: u64) -> u64 {
        let each = count / (USERS.len() * SCHEMAS.len()) as u64 + 1;
        for user in USERS {
            for schema in SCHEMAS {
                let mut client = self.client(user);
                client.query(&format!("USE `{schema}`")).expect("a schema");
                for number in 0..each {
                    client
                        .query(&format!("SELECT a AS marknames FROM t WHERE a = -{number}"))
                        .expect("rows");
                }
            }
        }
        each * (USERS.len() * SCHEMAS.len()) as u64
    }

    /// Ends Flifo, which writes what is left.
    fn end(self, mut asked: Counted) -> Served {
        wait_for("the log to be written", || {
            let before = self.counted("logs.slow.written");
            thread::sleep(Duration::from_millis(300));
            before == self.counted("logs.slow.written")
        });
        assert_eq!(self.counted("logs.slow.lost"), 0, "entries were lost");
        let entries = self.counted("logs.slow.written");
        let (status, log) = self.flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
        drop(self.server);
        let path = self.folder.path().join("slow.log");
        // Of statements that were refused in a queue, only those that had waited are in the log: the client cannot tell.
        let text = std::fs::read(&path).expect("a log");
        let waited = String::from_utf8_lossy(&text).matches("  Last_errno: 1637 ").count();
        *asked.marked.entry("queued".to_owned()).or_default() += waited as u64;
        Served { path, asked: Counted { entries, ..asked }, _folder: self.folder }
    }
}

/// Asks for what only one may ask at once. The answer is how many were refused for that.
fn ask_for_place(client: &mut FakeClient, text: &str) -> u64 {
    match client.query(text) {
        Ok(_) => 0,
        Err(why) => {
            assert!(matches!(why, Refusal::Error { code: 1637, .. }), "{why:?}");
            1
        }
    }
}

/// A statement of a kind.
fn text(kind: &str, number: u64) -> Vec<u8> {
    let text = match kind {
        "error" => "SELECT markerror FROM shop.nothing".to_owned(),
        "limit" => "SELECT SLEEP(60) AS marklimit".to_owned(),
        "cached" => format!("SELECT a AS markcached FROM shop.t WHERE a = {}", number % 10),
        "lines" => format!(
            "SELECT {number} AS marklines;\n# Time: 261126 18:06:42\n# User@Host: root[root] @ x []\n# Query_time: 7"
        ),
        "multi" => {
            format!("SELECT {number} AS markmulti; DO 1; SELECT 'b' FROM shop.t WHERE a = 1")
        }
        "load" => "LOAD DATA LOCAL INFILE 'x;\ny' INTO TABLE shop.markload".to_owned(),
        "bytes" => {
            format!("SELECT x'00ff{number:08x}' AS markbytes, 0b0101, N'ä', _latin1'\u{e9}'")
        }
        "long" => {
            format!("SELECT {number} AS marklong, '{}'", "x;\n# Time: 1\n".repeat((16 << 20) / 13))
        }
        _ => format!(
            "SELECT {number} AS mark{kind}, 'it''s \\' a;\n# Text', \"ä€\" FROM shop.t LIMIT 1"
        ),
    };
    let mut text = text.into_bytes();
    if kind == "binary" {
        let all: Vec<u8> = (0..=255).filter(|byte| !matches!(byte, b'\'' | b'\\')).collect();
        text = [&b"SELECT 1 AS markbinary, _binary'"[..], &all[..], &b"'"[..]].concat();
    }
    text
}

/// What makes a kind of some statements.
const RULES: &str = "\
[[rules]]\nname = \"no\"\nrefuse = true\nmatch = { text_matches = \"markrefused\" }\n\
[[rules]]\nname = \"kept\"\ncache = \"1h\"\nmatch = { text_matches = \"markcached\" }\n\
[[rules]]\nname = \"equal\"\nshare_reads = \"on\"\nmatch = { text_matches = \"markshared\" }\n\
[[rules]]\nname = \"short\"\nstatement_time = \"10ms\"\nmatch = { text_matches = \"marklimit\" }\n\
[[rules]]\nname = \"one\"\nat_once = 1\nqueue_timeout = \"1ms\"\nmatch = { text_matches = \"markqueued\" }\n";
