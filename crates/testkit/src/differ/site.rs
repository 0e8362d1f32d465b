//! Two equal servers, and Flifo before one of them; what each client of a program finds there.
//!
//! Owns servers, accounts and schemas. Invariant: [`Server::prepare`] leaves every server in the same state, whatever
//! ran on it before.

mod schema;

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use bench::private_server::PrivateServer;
use wire::auth::Plugin;
use wire::handshake::version_numbers;

use super::kinds::{again, loud};
use super::peer::{self, Door};
use super::program::{Brand, USERS};
use crate::client::Client;
use crate::flifo::Flifo;
use crate::mysql::Mysql;

/// The two servers.
pub struct Site {
    pub direct: Server,
    pub behind: Server,
}

/// A server that programs run on.
pub struct Server {
    kind: Kind,
    admin: Client,
    /// Holds what programs wait for in vain.
    holder: Client,
    /// It warns of statements that write to tables of two engines. MySQL 9.7 also counts a MyISAM table that the
    /// connection has written before: then the warning tells which connection a statement ran on.
    warns_of_engines: bool,
}

enum Kind {
    MariaDb(PrivateServer),
    MySql(Mysql),
}

impl Kind {
    fn admin(&self) -> Client {
        let client = match self {
            Self::MariaDb(server) => Client::admin(server),
            Self::MySql(server) => server.admin(),
        };
        client.expect("the administrator logs in")
    }
}

/// The password of the users of programs.
const PASSWORD: &str = "differ";

/// An account that sees all definitions.
const READER: &str = "reader";

const MARIADB: &[&str] = &[
    "--innodb-buffer-pool-size=64M",
    // A thread that is used again remembers counts of rows and warnings of the client before.
    "--thread-cache-size=0",
    PATIENCE,
];

const MYSQL: &[&str] = &["--innodb-flush-method=nosync", PATIENCE];

/// In seconds. A prepared XA transaction keeps its locks after its client has left. Another client may wait for these
/// locks, directly as well as through Flifo: its wait ends long before a client gives up waiting for a reply.
const PATIENCE: &str = "--lock-wait-timeout=10";

impl Site {
    /// Two equal servers; `None` where there is no such server.
    ///
    /// # Panics
    /// If they do not start.
    pub fn start(brand: Brand) -> Option<Self> {
        Self::start_with(brand, &[])
    }

    /// Two servers, of which the second has these settings too.
    ///
    /// # Panics
    /// If they do not start.
    pub fn start_with(brand: Brand, settings: &[&str]) -> Option<Self> {
        Some(Self { direct: Server::start(brand, &[])?, behind: Server::start(brand, settings)? })
    }
}

impl Server {
    fn start(brand: Brand, settings: &[&str]) -> Option<Self> {
        let kind = match brand {
            Brand::MariaDb => {
                let mut builder = PrivateServer::builder().in_memory();
                for setting in MARIADB.iter().chain(settings) {
                    builder = builder.argument(*setting);
                }
                Kind::MariaDb(builder.start().expect("a private server"))
            }
            Brand::MySql => Kind::MySql(Mysql::start_in_memory(&[MYSQL, settings].concat())?),
        };
        let (mut admin, holder) = (kind.admin(), kind.admin());
        let version = admin.query("SELECT VERSION()").expect("a version").remove(0).remove(0);
        let is_new = [9, 0, 0] <= version_numbers(version.as_bytes());
        let warns_of_engines = brand == Brand::MySql && is_new;
        let mut server = Self { kind, admin, holder, warns_of_engines };
        server.create_users();
        server.hold();
        Some(server)
    }

    /// Has rows held as long as the server lives.
    fn hold(&mut self) {
        for statement in loud::HELD.iter().chain(loud::HOLD) {
            self.holder.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
        }
    }

    pub fn brand(&self) -> Brand {
        match self.kind {
            Kind::MariaDb(_) => Brand::MariaDb,
            Kind::MySql(_) => Brand::MySql,
        }
    }

    /// Where clients log in without Flifo.
    pub fn door(&self) -> Door {
        let port = match &self.kind {
            Kind::MariaDb(server) => server.port(),
            Kind::MySql(server) => server.port(),
        };
        self.door_at(port)
    }

    /// Where clients log in through a Flifo before this server.
    pub fn door_of(&self, flifo: &Flifo) -> Door {
        self.door_at(flifo.port())
    }

    fn door_at(&self, port: u16) -> Door {
        let plugin = match self.brand() {
            Brand::MariaDb => Plugin::NativePassword,
            Brand::MySql => Plugin::CachingSha2,
        };
        Door { port, password: PASSWORD.to_owned(), plugin, beside: None }
    }

    /// Flifo before this server, with so many backends.
    pub fn flifo(&self, program: &Path, backends: u32) -> Flifo {
        self.flifo_with(program, backends, "", "")
    }

    /// The same, with more options of its server, and more sections of its configuration.
    pub fn flifo_with(&self, program: &Path, backends: u32, options: &str, more: &str) -> Flifo {
        let users: String = (0..USERS)
            .map(|number| {
                let name = peer::user(number);
                format!("[[users]]\nname = \"{name}\"\npassword = \"{PASSWORD}\"\n")
            })
            .collect();
        let rest = format!(
            "workers = 1\n[server]\naddress = \"127.0.0.1:{}\"\ntls = \"off\"\n\
             connections_max = {backends}\n{options}[limits]\nwait = \"120s\"\n{users}{more}",
            self.door().port
        );
        Flifo::start_program(program, &rest)
    }

    /// The options and the section by which a Flifo reads all definitions.
    pub fn reader(&self) -> (String, String) {
        let options = format!("accounts_user = \"{READER}\"\naccounts_period = \"1h\"\n");
        (options, format!("[[users]]\nname = \"{READER}\"\npassword = \"{PASSWORD}\"\n"))
    }

    /// Makes the schemas of so many clients anew, and ends all that was left of programs before.
    ///
    /// # Panics
    /// If the server refuses.
    pub fn prepare(&mut self, clients: usize) {
        self.end_connections();
        self.end_transactions();
        let brand = self.brand();
        for client in 0..clients {
            for statement in schema::statements(brand, &peer::schema(client), client + 1) {
                self.sql(&match self.warns_of_engines {
                    true => statement.replace("MyISAM", "InnoDB"),
                    false => statement,
                });
            }
        }
        for statement in schema::OF_CROWDS.iter().chain(again::TABLES) {
            self.sql(statement);
        }
    }

    fn create_users(&mut self) {
        let by = match self.brand() {
            Brand::MariaDb => "BY",
            Brand::MySql => "WITH caching_sha2_password BY",
        };
        for number in 0..USERS {
            let user = peer::user(number);
            self.sql(&format!("CREATE USER {user}@'%' IDENTIFIED {by} '{PASSWORD}'"));
            self.sql(&format!("GRANT ALL ON `d%`.* TO {user}@'%' WITH GRANT OPTION"));
            self.sql(&format!("GRANT RELOAD, PROCESS ON *.* TO {user}@'%'"));
            if self.brand() == Brand::MySql {
                self.sql(&format!("GRANT BACKUP_ADMIN ON *.* TO {user}@'%'"));
            }
        }
        if self.brand() == Brand::MySql {
            // Where it has no error texts in a language, the first in its life to ask for that is refused.
            for locale in ["de_DE", "ja_JP"] {
                let _ = self.admin.query(&format!("SET lc_time_names = '{locale}'"));
            }
        }
        // Sees all definitions, for a Flifo that is to know them.
        self.sql(&format!("CREATE USER {READER}@'%' IDENTIFIED {by} '{PASSWORD}'"));
        self.sql(&format!("GRANT ALL ON *.* TO {READER}@'%'"));
        self.sql("CREATE ROLE differ");
        self.sql("GRANT SELECT ON mysql.* TO differ");
        self.sql("GRANT differ TO f0@'%', f1@'%', f2@'%'");
    }

    fn end_connections(&mut self) {
        const OTHERS: &str =
            "SELECT id FROM information_schema.processlist WHERE user REGEXP '^f[0-9]$'";
        let begun = Instant::now();
        loop {
            let left = self.sql(OTHERS);
            if left.is_empty() {
                return;
            }
            for row in left {
                // It may have ended by itself.
                let _ = self.admin.query(&format!("KILL {}", row[0]));
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "connections do not end");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Rolls back what was prepared and left.
    fn end_transactions(&mut self) {
        for row in self.sql("XA RECOVER") {
            let _ = self.admin.query(&format!("XA ROLLBACK '{}'", row[3]));
        }
    }

    fn sql(&mut self, statement: &str) -> Vec<Vec<String>> {
        self.admin.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"))
    }
}
