//! What the tests of shared backends have in common: one real server, a proxy with a single backend, and clients on it.
//!
//! With one backend, whatever a client leaves behind meets the next one, and a client that keeps the backend makes all
//! others wait: both are seen at once.

use std::sync::OnceLock;

use backend::Address;
use bench::private_server::PrivateServer;
use testkit::client::{Client, Problem};
use testkit::flifo::Flifo;

pub(crate) const USER: &str = PrivateServer::USER;

/// One server for all tests of shared backends; each test has a schema of its own.
pub(crate) fn server() -> &'static PrivateServer {
    static SERVER: OnceLock<PrivateServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = PrivateServer::builder().start().expect("a private server");
        server.sql(&format!("GRANT ALL ON *.* TO {USER}@'%'")).expect("rights");
        server
    })
}

/// The proxy, and what it takes to be its client.
pub(crate) struct Shared {
    pub(crate) flifo: Flifo,
    schema: String,
    /// Where the server listens.
    server: u16,
    password: String,
}

impl Shared {
    /// Starts a proxy with one backend, and makes this schema.
    pub(crate) fn start(schema: &str) -> Self {
        Self::start_with(schema, "")
    }

    /// As [`Self::start`]; `user` is what the configuration says of the user beyond its password.
    pub(crate) fn start_with(schema: &str, user: &str) -> Self {
        server().sql(&format!("CREATE DATABASE {schema}")).expect("a schema");
        Self::over(schema, user)
    }

    /// Another proxy, for a schema that is there.
    pub(crate) fn over(schema: &str, user: &str) -> Self {
        Self::before(server(), schema, user)
    }

    /// A proxy before a server of the test's own, for a schema that is there.
    pub(crate) fn before(server: &PrivateServer, schema: &str, user: &str) -> Self {
        Self::told(server, schema, "", user)
    }

    /// The same, with this told of the server.
    pub(crate) fn told(server: &PrivateServer, schema: &str, more: &str, user: &str) -> Self {
        let (socket, password) = (server.socket(), server.password().to_owned());
        let flifo = Flifo::start(&format!(
            "workers = 1\n[server]\naddress = \"{}\"\nconnections_max = 1\n{more}\n[limits]\nwait = \"5s\"\n\
             [[users]]\nname = \"{USER}\"\npassword = \"{password}\"\n{user}\n",
            socket.display(),
        ));
        Self { flifo, schema: schema.to_owned(), server: server.port(), password }
    }

    /// A client of the proxy, in the test's schema.
    pub(crate) fn client(&self) -> Client {
        self.client_in(&self.schema).expect("a login")
    }

    /// A client of the proxy in this schema, if it is let in.
    pub(crate) fn client_in(&self, schema: &str) -> Result<Client, Problem> {
        self.connect(self.flifo.port(), schema)
    }

    /// A client of the server itself, in the test's schema.
    pub(crate) fn direct(&self) -> Client {
        self.connect(self.server, &self.schema).expect("a login")
    }

    fn connect(&self, port: u16, schema: &str) -> Result<Client, Problem> {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port };
        Client::builder(address, USER, &self.password).schema(schema).connect()
    }

    /// Whether another client gets a statement through: then no client keeps the only backend.
    pub(crate) fn is_free(&self) -> bool {
        // The schema is checked on the backend already.
        self.client_in(&self.schema).is_ok_and(|mut it| it.query("SELECT 1").is_ok())
    }

    /// Ends the proxy. The answer tells how often it counted what has this name; of a name that ends in a dot, all
    /// that begin so.
    pub(crate) fn end(self) -> impl Fn(&str) -> u64 {
        let (status, log) = self.flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
        move |name| {
            let words = log.split([' ', '"', ',']).filter_map(|word| word.split_once('='));
            let counts = words
                .filter(|(word, _)| *word == name || name.ends_with('.') && word.starts_with(name));
            counts.map(|(_, count)| count.parse::<u64>().expect("a number")).sum()
        }
    }
}

/// Runs a statement that must succeed, for its rows in one line.
#[track_caller]
pub(crate) fn ok(client: &mut Client, text: &str) -> String {
    match client.query(text) {
        Ok(rows) => rows.iter().map(|row| row.join(" ")).collect::<Vec<_>>().join("|"),
        Err(error) => panic!("{text}: {error}"),
    }
}

/// Runs a statement that must fail, for its error's number.
#[track_caller]
pub(crate) fn fails(client: &mut Client, text: &str) -> u16 {
    match client.query(text) {
        Err(Problem::Refused { code, .. }) => code,
        other => panic!("{text}: {other:?}"),
    }
}
