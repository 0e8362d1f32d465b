//! Changes of rights, and of what sessions begin with; and what a new client gets behind them: for tests, and for the
//! figures of `cargo xtask rights`.
//!
//! Owns a server with some users, Flifo before it, and the changes that are tried there.

use std::path::Path;
use std::time::{Duration, Instant};

use backend::Address;
use bench::private_server::PrivateServer;
use wire::Capabilities;

use crate::client::{Client, Problem};
use crate::flifo::{self, Flifo};

/// What a new client of `app` gets: the answer to a read of `d.t` with settings that it begins with, or an error.
pub type Seen = Result<String, u16>;

/// The same, as it should be.
pub type Expected = Result<&'static str, u16>;

/// A change, and what undoes it.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    pub make: &'static str,
    /// What a new client gets behind it.
    pub expected: Expected,
    pub undo: &'static str,
}

const fn change(make: &'static str, expected: Expected, undo: &'static str) -> Change {
    Change { make, expected, undo }
}

/// What is there again when a change has been undone.
pub const UNCHANGED: Expected = Ok("7 4 1024");

pub const REVOKE: Change =
    change("REVOKE SELECT ON d.* FROM app@'%'", Err(1142), "GRANT SELECT ON d.* TO app@'%'");
pub const LOCK: Change =
    change("ALTER USER app@'%' ACCOUNT LOCK", Err(4151), "ALTER USER app@'%' ACCOUNT UNLOCK");

pub const CHANGES: [Change; 12] = [
    REVOKE,
    LOCK,
    change(
        "REVOKE ALL, GRANT OPTION FROM app@'%'",
        Err(1142),
        "GRANT SELECT ON d.* TO app@'%'; GRANT looker TO app@'%'; SET DEFAULT ROLE looker FOR app@'%'",
    ),
    change(
        "SET PASSWORD FOR app@'%' = PASSWORD('other')",
        Err(1045),
        "SET PASSWORD FOR app@'%' = PASSWORD('one')",
    ),
    change("RENAME USER app@'%' TO gone@'%'", Err(1045), "RENAME USER gone@'%' TO app@'%'"),
    change(
        "DROP USER app@'%'",
        Err(1045),
        "CREATE USER app@'%' IDENTIFIED BY 'one'; GRANT SELECT ON d.* TO app@'%'; GRANT looker TO app@'%'; \
         SET DEFAULT ROLE looker FOR app@'%'",
    ),
    change("SET DEFAULT ROLE NONE FOR app@'%'", Err(1142), "SET DEFAULT ROLE looker FOR app@'%'"),
    change(
        "REVOKE looker FROM app@'%'",
        Err(1142),
        "GRANT looker TO app@'%'; SET DEFAULT ROLE looker FOR app@'%'",
    ),
    change("REVOKE SELECT ON r.* FROM looker", Err(1142), "GRANT SELECT ON r.* TO looker"),
    change(
        "SET GLOBAL div_precision_increment = 7",
        Ok("7 7 1024"),
        "SET GLOBAL div_precision_increment = 4",
    ),
    change("SET @@global.max_sort_length = 99", Ok("7 4 99"), "SET GLOBAL max_sort_length = 1024"),
    change(
        "SET GLOBAL init_connect = 'SET max_sort_length = 77'",
        Ok("7 4 77"),
        "SET GLOBAL init_connect = ''",
    ),
];

/// What it asks.
pub const READS: &str =
    "SELECT CONCAT_WS(' ', MAX(a), @@div_precision_increment, @@max_sort_length) FROM d.t, r.u";

const USERS: &str = "CREATE DATABASE d; CREATE TABLE d.t (a INT); INSERT INTO d.t VALUES (7); \
    CREATE DATABASE r; CREATE TABLE r.u (b INT); INSERT INTO r.u VALUES (1); \
    CREATE ROLE looker; GRANT SELECT ON r.* TO looker; \
    CREATE USER app@'%' IDENTIFIED BY 'one'; GRANT SELECT ON d.* TO app@'%'; \
    GRANT looker TO app@'%'; SET DEFAULT ROLE looker FOR app@'%'; \
    CREATE USER reader@'%' IDENTIFIED BY 'look'; GRANT SELECT ON mysql.* TO reader@'%'; \
    CREATE USER maker@'%' IDENTIFIED BY 'can'; CREATE USER boss@'%' IDENTIFIED BY 'can'; \
    GRANT ALL ON *.* TO maker@'%' WITH GRANT OPTION; GRANT looker TO maker@'%' WITH ADMIN OPTION; \
    GRANT ALL ON *.* TO boss@'%' WITH GRANT OPTION; GRANT looker TO boss@'%' WITH ADMIN OPTION";

/// A server, and Flifo before it, which knows `app`, `maker` and `reader` by their passwords and no other user: `boss`,
/// which may do what `maker` may, is passed through.
pub struct Scene {
    pub server: PrivateServer,
    pub flifo: Flifo,
}

impl Scene {
    /// `told` is what Flifo is told of its server.
    ///
    /// # Panics
    /// If one of them does not start.
    pub fn start(told: &str, workers: u32) -> Self {
        Self::start_program(flifo::program(), told, workers)
    }

    /// Starts a Flifo that was built elsewhere.
    ///
    /// # Panics
    /// If it, or the server, does not start.
    pub fn start_program(program: &Path, told: &str, workers: u32) -> Self {
        let server = PrivateServer::builder().start().expect("a private server");
        server.sql(USERS).expect("users");
        let user = |name: &str, password: &str| {
            format!("[[users]]\nname = \"{name}\"\npassword = \"{password}\"\n")
        };
        let configuration = format!(
            "workers = {workers}\n[server]\naddress = \"{}\"\n{told}\n{}{}{}",
            server.socket().display(),
            user("app", "one"),
            user("maker", "can"),
            user("reader", "look"),
        );
        let flifo = Flifo::start_program(program, &configuration);
        Self { server, flifo }
    }

    /// A client of Flifo.
    ///
    /// # Errors
    /// If it is not let in.
    pub fn client(&self, user: &str, password: &str) -> Result<Client, Problem> {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: self.flifo.port() };
        Client::builder(address, user, password).with(Capabilities::MULTI_STATEMENTS).connect()
    }

    /// What a new client of `app` gets.
    ///
    /// # Panics
    /// If that is no answer of a server's.
    pub fn sees(&self) -> Seen {
        let code = |problem: Problem| match problem {
            // The server asks for the password of an account that is not there as it would ask for another one's.
            Problem::Refused { code: 1698, .. } => 1045,
            Problem::Refused { code, .. } => code,
            other => panic!("{other:?}"),
        };
        let mut client = self.client("app", "one").map_err(code)?;
        let rows = client.query(READS).map_err(code)?;
        Ok(rows.concat().concat())
    }

    /// New clients of `app` come, one after the other, until so many in a row have got this that no worker has a
    /// backend that would give another answer.
    ///
    /// # Panics
    /// If that is never so.
    pub fn await_seen(&self, what: &str, expected: Expected) -> Settled {
        let (begun, mut settled, mut agree) = (Instant::now(), Settled::default(), 0);
        while agree < AGREE {
            let seen = self.sees();
            if seen == owned(expected) {
                agree += 1;
                continue;
            }
            agree = 0;
            settled = Settled { late: settled.late + 1, longest: begun.elapsed() };
            assert!(
                settled.longest < PATIENCE,
                "{what}: {seen:?} {:?}",
                self.client("app", "one").err()
            );
        }
        settled
    }

    /// Has clients of `app` use the backends that there are.
    ///
    /// # Panics
    /// If a change is in effect.
    pub fn use_backends(&self, clients: usize) {
        let clients: Vec<_> = (0..clients).map(|_| self.sees()).collect();
        assert_eq!(clients, vec![owned(UNCHANGED); clients.len()]);
    }

    /// Changes something beside Flifo.
    ///
    /// # Panics
    /// If the server does not take it.
    pub fn sql(&self, text: &str) {
        self.server.sql(text).expect(text);
    }
}

/// How a change came into effect.
#[derive(Clone, Copy, Debug, Default)]
pub struct Settled {
    /// Clients that still got something else.
    pub late: u64,
    /// When the last of these had it.
    pub longest: Duration,
}

/// Clients in a row that get the same.
const AGREE: u32 = 16;

/// Longer than any promise: the machine may be busy, and the watch rests twenty times as long as its look took.
const PATIENCE: Duration = Duration::from_mins(10);

/// What should be seen, as it is seen.
pub fn owned(expected: Expected) -> Seen {
    expected.map(str::to_owned)
}
