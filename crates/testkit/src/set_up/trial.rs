//! One set-up beside a server that others depend on, and its undoing: what must be so before, between and behind.
//!
//! Owns the order of what is tried. What the servers are is the caller's.

use std::path::{Path, PathBuf};

use backend::Address;

use super::traces::{Served, State, Watch, broken, events, goes_on, holders};
use super::{SetUp, said, user};
use crate::client::Client;

/// Where Flifo is set up.
pub struct Trial<'a> {
    pub at: &'a dyn Served,
    pub socket: PathBuf,
    pub place: Place,
    /// What is written to the first of a pair comes to the second.
    pub pairs: Vec<(&'a dyn Served, &'a dyn Served)>,
}

/// What the server is to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Primary,
    Replica,
    /// A node of a cluster.
    Node,
}

/// What was seen.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Files that were searched for the password.
    pub files: usize,
    /// Events of binary logs.
    pub events: usize,
    /// Command lines and environments of processes.
    pub texts: usize,
    /// How often these were read.
    pub looks: u32,
}

/// What a MariaDB can write down of what it is asked.
pub const MARIADB_LOGS: [&str; 7] = [
    "--general-log=1",
    "--log-output=FILE,TABLE",
    "--slow-query-log=1",
    "--long-query-time=0",
    "--log-warnings=9",
    "--gtid-strict-mode=1",
    "--relay-log-purge=0",
];

/// The same of MySQL.
pub const MYSQL_LOGS: [&str; 6] = [
    "--general-log=1",
    "--log-output=FILE,TABLE",
    "--slow-query-log=1",
    "--long-query-time=0",
    "--log-error-verbosity=3",
    "--relay-log-purge=0",
];

/// Gives a server what a test needs, as its own: an account for `flifo init`, and an application's.
pub fn prepare(server: &dyn Served) {
    // A node of a cluster has them of the others.
    if server.ask("SELECT COUNT(*) FROM mysql.user WHERE User='app'").trim() != "0" {
        return;
    }
    let unlogged = match server.ask("SELECT @@GLOBAL.log_bin").trim() {
        "1" => "SET sql_log_bin = 0",
        _ => "DO 0",
    };
    let how = if server.is_mariadb() { " IDENTIFIED VIA unix_socket" } else { "" };
    let own = format!("'{}'@'localhost'", user());
    server.ask_all(&[
        unlogged,
        &format!("CREATE USER {own}{how}"),
        &format!("GRANT ALL ON *.* TO {own} WITH GRANT OPTION"),
        "CREATE USER app@'%' IDENTIFIED BY 'app'",
    ]);
}

impl Trial<'_> {
    /// Sets up, looks, tries again, and takes back, twice.
    ///
    /// # Panics
    /// If something is not as it must be.
    pub fn run(&self, flifo: &Path) -> Found {
        let set_up = SetUp::beside(&self.socket, flifo);
        self.goes_on("before");
        let before = State::of(self.at);
        let watch = Watch::start();
        let made = set_up.set_up(&["--yes"]);
        assert!(made.status.success(), "{}", said(&made));
        let names = said(&made).contains("This server is a replica of 127.0.0.1");
        assert_eq!(names, self.place == Place::Replica, "{}", said(&made));
        let password = std::fs::read_to_string(set_up.places().join("password"));
        let password = password.expect("it has a password").trim().to_owned();
        pools(&set_up);
        self.goes_on("set up");
        // Again: it is refused, and changes nothing.
        let between = State::of(self.at);
        let again = set_up.set_up(&["--yes"]);
        assert!(said(&again).contains("is there already"), "{}", said(&again));
        assert_eq!(between.differences(&State::of(self.at)), [""; 0]);
        let (files, events) = self.search(&set_up, &password);
        let undone = set_up.init(&["--undo"]);
        assert!(undone.status.success(), "{}", said(&undone));
        let again = set_up.init(&["--undo"]);
        assert!(said(&again).contains("nothing to take back"), "{}", said(&again));
        let watched = watch.end();
        assert_eq!(watched.with(&password), [""; 0], "lists of processes had it");
        self.goes_on("taken back");
        self.search(&set_up, &password);
        assert_eq!(before.differences(&State::of(self.at)), [""; 0], "something is left");
        assert!(!set_up.places().exists(), "{} is left", set_up.places().display());
        Found { files, events, texts: watched.len(), looks: watched.rounds }
    }

    /// What is written at one server comes to the others.
    fn goes_on(&self, when: &str) {
        for (from, to) in &self.pairs {
            goes_on(*from, *to);
            if self.place != Place::Node {
                assert_eq!(broken(*from, *to), None, "{when}");
            }
        }
    }

    /// Looks for the password in all files of the servers and of the set-up, and in what they say of their binary logs.
    fn search(&self, set_up: &SetUp, password: &str) -> (usize, usize) {
        let (mut count, mut lines) = (0, 0);
        for server in self.pairs.iter().flat_map(|(from, to)| [*from, *to]) {
            let (found, files) = holders(server.folder(), password);
            assert_eq!(found, [""; 0], "files of a server have the password");
            let text = events(server);
            assert!(!text.contains(password), "the password is in a binary log:\n{text}");
            (count, lines) = (count + files, lines + text.lines().count());
        }
        let (found, files) = holders(set_up.folder(), password);
        let own = set_up.places().join("password");
        let others: Vec<_> = found.iter().filter(|name| Path::new(name) != own).collect();
        assert!(others.is_empty(), "the password is in {others:?}");
        (count + files, lines)
    }
}

/// A user of the server is pooled.
///
/// # Panics
/// If it is not.
pub fn pools(set_up: &SetUp) {
    let address: Address = set_up.listen().parse().expect("an address");
    let mut client =
        Client::builder(address, "app", "app").connect().expect("a user of the server");
    let number: u64 =
        client.query("SELECT CONNECTION_ID()").expect("a row")[0][0].parse().expect("a number");
    assert!(number >= 1 << 30, "{number} is the server's number: the client is not pooled");
}
