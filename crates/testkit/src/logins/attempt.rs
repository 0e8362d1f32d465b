//! One attempt to log in, at a server or at Flifo, and what came of it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use backend::Address;
use backend::login::BackendTls;
use engine::account::host::{Origin, Resolving};
use wire::auth::Plugin;

use crate::client::{Builder, Client, Problem};

/// An attempt to log in: as which user, from where and how.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub name: String,
    pub password: String,
    pub door: Door,
    pub tls: Tls,
    /// 0: by a change of user of a session that is pooled where users are configured. 1: of one that is passed through.
    pub changes: usize,
    /// What it answers the greeting.
    pub scramble: Scramble,
    pub certificate: Certificate,
}

/// What a client of `caching_sha2_password` answers first, before it says the password itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scramble {
    Right,
    Wrong,
}

/// Which certificate of Flifo's a client in TLS takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certificate {
    Any,
    /// One for which the password vouches, if there is one, as MariaDB's clients from 11.4 on do. The servers of these
    /// tests are older.
    Vouched,
}

/// The way in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    /// From this address, which the client's end has.
    Tcp(Ipv4Addr),
    Socket,
    /// By Flifo's Unix socket, where Flifo goes on by TCP; directly by TCP as well.
    SocketForTcp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tls {
    None,
    Plain,
    /// With a certificate of the client's own.
    Certificate,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Let in, as this account and with these rights.
    In {
        account: String,
        rights: Vec<String>,
    },
    Out {
        code: u16,
        message: String,
    },
}

/// Where a login goes.
#[derive(Clone, Debug)]
pub struct Target {
    pub port: u16,
    pub socket: PathBuf,
    /// Flifo, or the server itself.
    pub is_flifo: bool,
    pub plugin: Plugin,
}

/// How clients speak TLS, without a certificate and with one.
#[derive(Clone, Debug)]
pub struct Keys {
    pub plain: BackendTls,
    pub certificate: BackendTls,
}

/// The users whose sessions become others': one is configured as pooled, one as pass-through.
pub const BASES: [&str; 2] = ["base_pooled", "base_pass_through"];
pub const BASE_PASSWORD: &str = "base";

impl Door {
    /// How the server sees a client that comes directly.
    pub fn origin(self) -> Origin {
        match self {
            Self::Tcp(ip) => Origin::of(IpAddr::V4(ip), Resolving::Off),
            Self::SocketForTcp => Origin::of(IpAddr::V4(Ipv4Addr::LOCALHOST), Resolving::Off),
            Self::Socket => Origin::LOCAL,
        }
    }
}

impl Attempt {
    /// By a change of user of another one's session.
    pub fn is_change(&self) -> bool {
        self.changes < BASES.len()
    }

    /// Logs in, and looks up the account and the rights of the session.
    pub fn run(&self, target: &Target, keys: &Keys) -> Outcome {
        let (mut client, _) = match self.log_in(target, keys) {
            Ok(client) => (client, ()),
            Err(error) => return Outcome::of(&error),
        };
        look(&mut client).unwrap_or_else(|error| Outcome::of(&error))
    }

    /// Logs in and stays.
    pub fn log_in(&self, target: &Target, keys: &Keys) -> Result<Client, Problem> {
        match BASES.get(self.changes) {
            None => {
                let mut builder = self.builder(target, keys, &self.name, &self.password);
                if self.scramble == Scramble::Wrong && target.plugin == Plugin::CachingSha2 {
                    builder = builder.first(&[1; 32]);
                }
                let client = builder.connect()?;
                let verifies = target.is_flifo && target.plugin == Plugin::NativePassword;
                let is_asked = self.certificate == Certificate::Vouched && self.tls != Tls::None;
                match client.vouched {
                    _ if !verifies || !is_asked || self.password.is_empty() => Ok(client),
                    Some(true) => Ok(client),
                    Some(false) => Err(not_trusted("vouched for wrongly")),
                    None => Err(not_trusted("not vouched for")),
                }
            }
            Some(base) => {
                let mut client = self.builder(target, keys, base, BASE_PASSWORD).connect()?;
                client.change_user(&self.name, &self.password, &target.plugin)?;
                Ok(client)
            }
        }
    }

    fn builder(&self, target: &Target, keys: &Keys, name: &str, password: &str) -> Builder {
        let tcp = || Address::Tcp { host: "127.0.0.1".to_owned(), port: target.port };
        let address = match self.door {
            Door::Socket => Address::Unix(target.socket.clone()),
            Door::SocketForTcp if target.is_flifo => Address::Unix(target.socket.clone()),
            Door::SocketForTcp | Door::Tcp(_) => tcp(),
        };
        let mut builder = Client::builder(address, name, password).plugin(target.plugin.clone());
        if let Door::Tcp(ip) = self.door {
            builder = builder.from(IpAddr::V4(ip));
        }
        match self.tls {
            Tls::None => builder,
            Tls::Plain => builder.over(keys.plain.clone()),
            Tls::Certificate => builder.over(keys.certificate.clone()),
        }
    }
}

fn not_trusted(why: &str) -> Problem {
    let message = format!("the certificate is {why}");
    Problem::Refused { code: 2026, sqlstate: "HY000".to_owned(), message }
}

/// `ER_MUST_CHANGE_PASSWORD`: let in, but for nothing else than to change the password.
const SANDBOX: u16 = 1820;

/// The account of a client, and what the client may do.
pub fn look(client: &mut Client) -> Result<Outcome, Problem> {
    let account = match client.query("SELECT CURRENT_USER(), CURRENT_ROLE()") {
        Ok(mut rows) => rows.remove(0).join(" "),
        Err(Problem::Refused { code: SANDBOX, .. }) => {
            return Ok(Outcome::In { account: "(sandbox)".to_owned(), rights: Vec::new() });
        }
        Err(error) => return Err(error),
    };
    let mut rights: Vec<_> =
        client.query("SHOW GRANTS")?.into_iter().map(|row| row.join(" ")).collect();
    rights.sort();
    Ok(Outcome::In { account, rights })
}

impl Outcome {
    /// Its connection was closed.
    pub const fn is_wordless(&self) -> bool {
        matches!(self, Self::Out { code: 0, .. })
    }

    pub fn of(error: &Problem) -> Self {
        match error {
            Problem::Refused { code, message, .. } => {
                Self::Out { code: *code, message: message.clone() }
            }
            error => Self::Out { code: 0, message: error.to_string() },
        }
    }

    pub const fn is_in(&self) -> bool {
        matches!(self, Self::In { .. })
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::In { account, rights } => write!(f, "let in as {account} with {rights:?}"),
            Self::Out { code, message } => write!(f, "refused: {code} {message}"),
        }
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, password, door, tls, .. } = self;
        write!(f, "log in as {name:?} with password {password:?}, {door:?}, TLS {tls:?}")?;
        if (self.scramble, self.certificate) != (Scramble::Right, Certificate::Any) {
            write!(f, ", scramble {:?}, certificate {:?}", self.scramble, self.certificate)?;
        }
        match BASES.get(self.changes) {
            Some(base) => write!(f, ", by COM_CHANGE_USER from {base}"),
            None => Ok(()),
        }
    }
}
