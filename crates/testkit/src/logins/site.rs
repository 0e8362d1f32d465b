//! A server with the accounts of a batch, and Flifos before it, one for each way in which clients get through.

use std::path::{Path, PathBuf};

use backend::login::BackendTls;
use backend::tls::{ForBackends, Identity, Mode};
use bench::private_server::PrivateServer;
use wire::auth::Plugin;

use super::account::{Account, quote};
use super::attempt::{BASE_PASSWORD, BASES, Keys, Target};
use super::certificates;
use super::generate::{Abilities, Batch, Configured, Leg};
use crate::client::{Client, Problem};
use crate::differ::program::Brand;
use crate::flifo::Flifo;
use crate::mysql::Mysql;

/// How Flifo knows users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Way {
    /// Not at all.
    PassThrough,
    /// From its configuration.
    Configured,
    /// From the server's table of accounts.
    Accounts,
    /// From what clients have said.
    Learnt,
}

impl Way {
    pub const fn all(brand: Brand) -> &'static [Self] {
        match brand {
            Brand::MariaDb => &[Self::PassThrough, Self::Configured, Self::Accounts],
            Brand::MySql => &[Self::PassThrough, Self::Configured, Self::Accounts, Self::Learnt],
        }
    }
}

/// A server, and what is needed to log in.
pub struct Site {
    server: Server,
    admin: Client,
    folder: bench::folder::Folder,
    direct_keys: Keys,
    keys: Keys,
    pub can: Abilities,
    /// More lines of each Flifo's section `[server]`: what takes a mend out shows that it is found.
    pub settings: String,
    /// How often each Flifo reads accounts that it has no reason to read.
    pub period: &'static str,
}

enum Server {
    MariaDb(PrivateServer),
    MySql(Mysql),
}

/// The user that may read the server's table of accounts.
pub const READER: &str = "accounts_reader";

/// Accounts that the server's own installation has made.
const KEPT: &str = "'sbtest','admin','mariadb.sys','mysql.sys','mysql.session','mysql.infoschema'";

impl Site {
    /// Starts a server; `None` where there is none of this brand.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(brand: Brand) -> Option<Self> {
        let folder = bench::folder::Folder::create().expect("a folder");
        certificates::make(folder.path());
        let file = |name: &str| folder.path().join(name);
        let mut ed25519 = false;
        let server = match brand {
            Brand::MariaDb => {
                let mut builder = PrivateServer::builder().in_memory();
                for setting in ["--innodb-buffer-pool-size=32M", "--max-password-errors=4000000000"]
                {
                    builder = builder.argument(setting);
                }
                for (option, name) in
                    [("ca", "ca.pem"), ("cert", "server.pem"), ("key", "server-key.pem")]
                {
                    builder = builder.argument(format!("--ssl-{option}={}", file(name).display()));
                }
                if let Some(plugins) = plugins() {
                    ed25519 = true;
                    builder = builder
                        .argument(format!("--plugin-dir={}", plugins.display()))
                        .argument("--plugin-load-add=auth_ed25519");
                }
                Server::MariaDb(builder.start().expect("a private server"))
            }
            Brand::MySql => {
                let ca = format!("--ssl-ca={}", file("ca.pem").display());
                let cert = format!("--ssl-cert={}", file("server.pem").display());
                let key = format!("--ssl-key={}", file("server-key.pem").display());
                Server::MySql(Mysql::start_in_memory(&[
                    &ca,
                    &cert,
                    &key,
                    "--skip-name-resolve",
                    "--max-connect-errors=1000000000",
                ])?)
            }
        };
        let admin = match &server {
            Server::MariaDb(server) => Client::admin(server),
            Server::MySql(server) => server.admin(),
        };
        let admin = admin.expect("the administrator logs in");
        let (native, tls) = match &server {
            Server::MariaDb(_) => (true, true),
            Server::MySql(server) => (server.version() < [8, 4, 0], server.has_modern_tls()),
        };
        // A ticket of the server's is nothing to show to Flifo.
        let [direct_keys, keys] = [(), ()].map(|()| Keys {
            plain: backend_tls(None),
            certificate: backend_tls(Some(Identity {
                certificate: file("client.pem"),
                key: file("client-key.pem"),
            })),
        });
        let can = Abilities { brand, ed25519, native, tls };
        let settings = String::new();
        let period = "1h";
        let mut site = Self { server, admin, folder, direct_keys, keys, can, settings, period };
        site.query("CREATE ROLE role0").expect("a role");
        Some(site)
    }

    /// Runs a statement as the administrator.
    pub fn query(&mut self, text: &str) -> Result<Vec<Vec<String>>, Problem> {
        let answer = self.admin.query(text);
        if let (Err(Problem::Talk(error)), Server::MySql(server)) = (&answer, &self.server) {
            eprintln!("{text}: {error}\n{}", server.log());
        }
        answer
    }

    /// Makes these the accounts of the server. The answer is which of them there are.
    ///
    /// # Panics
    /// If the server refuses what a run needs.
    pub fn prepare(&mut self, batch: &Batch) -> Vec<Account> {
        let all = format!(
            "SELECT CONCAT(QUOTE(User), '@', QUOTE(Host)) FROM mysql.user WHERE User NOT IN ({KEPT}, 'role0') {}",
            match self.can.brand {
                Brand::MariaDb => "",
                // By it, accounts are made.
                Brand::MySql => "AND NOT (User = 'root' AND Host = 'localhost')",
            }
        );
        if self.can.brand == Brand::MySql {
            // MySQL 8.0.15 crashes where it drops an account while roles are left of one that differs in case.
            for table in ["default_roles", "role_edges"] {
                self.query(&format!("DELETE FROM mysql.{table}")).expect("no roles");
            }
            self.query("FLUSH PRIVILEGES").expect("what the tables have");
        }
        for row in self.query(&all).expect("the accounts") {
            self.query(&format!("DROP USER {}", row[0])).expect("an account is dropped");
        }
        // An account whose name has spaces at its end stands in the table without them, and is not dropped by that.
        self.query("FLUSH PRIVILEGES").expect("what the table has");
        let brand = self.can.brand;
        let password = |text: &str| match brand {
            Brand::MariaDb => format!("IDENTIFIED BY {}", quote(text)),
            Brand::MySql => format!("IDENTIFIED WITH caching_sha2_password BY {}", quote(text)),
        };
        // Flifo holds clients to the hosts of their accounts: one account for all, unless it would be hidden.
        let is_hidden = batch.accounts.iter().any(|it| it.user.is_empty());
        let hosts: &[&str] =
            if is_hidden { &["%", "localhost", "127.0.0.0/255.0.0.0"] } else { &["%"] };
        for user in BASES.into_iter().chain([READER]) {
            for host in hosts {
                let with = password(BASE_PASSWORD);
                self.query(&format!("CREATE USER '{user}'@'{host}' {with}")).expect("an account");
                if user == READER {
                    let table = match brand {
                        Brand::MariaDb => "global_priv",
                        Brand::MySql => "user",
                    };
                    let grant = format!("GRANT SELECT ON mysql.{table} TO '{user}'@'{host}'");
                    self.query(&grant).expect("a right");
                }
            }
        }
        let accounts = batch.accounts.iter().chain([&batch.limited]);
        let mut made: Vec<_> = accounts.filter(|account| self.make(account)).cloned().collect();
        if brand == Brand::MySql {
            // It makes an account without the spaces at the end of its name.
            made.iter_mut().for_each(|account| {
                account.user.truncate(account.user.trim_end_matches(' ').len());
            });
            made.push(Account::of_root());
        }
        made
    }

    /// Makes an account; false where the server has none such.
    fn make(&mut self, account: &Account) -> bool {
        // It is there, and MySQL 8.0.15 now and then ends the connection that makes it once more.
        let is_root = account.user == "root" && account.host.eq_ignore_ascii_case("localhost");
        if is_root && self.can.brand == Brand::MySql {
            return false;
        }
        let statements = account.sql(self.can.brand);
        let Some((create, rest)) = statements.split_first() else { return false };
        if self.query(create).is_err() {
            return false;
        }
        for statement in rest {
            // What cannot be granted tells no accounts apart.
            let _ = self.query(statement);
        }
        true
    }

    /// What clients of this target speak TLS with.
    pub const fn keys(&self, target: &Target) -> &Keys {
        if target.is_flifo { &self.keys } else { &self.direct_keys }
    }

    pub fn direct(&self) -> Target {
        let (port, socket) = match &self.server {
            Server::MariaDb(server) => (server.port(), server.socket()),
            Server::MySql(server) => (server.port(), server.socket()),
        };
        Target { port, socket, is_flifo: false, plugin: self.plugin() }
    }

    pub fn through(&self, flifo: &Flifo) -> Target {
        let plugin = self.plugin();
        Target { port: flifo.port(), socket: flifo.socket(), is_flifo: true, plugin }
    }

    fn plugin(&self) -> Plugin {
        match self.can.brand {
            Brand::MariaDb => Plugin::NativePassword,
            Brand::MySql => Plugin::CachingSha2,
        }
    }

    /// Flifo before this server.
    pub fn flifo(&self, program: &Path, way: Way, batch: &Batch) -> Flifo {
        Flifo::start_program(program, &self.config(way, batch))
    }

    /// What its configuration says.
    pub fn config(&self, way: Way, batch: &Batch) -> String {
        let direct = self.direct();
        let Leg { is_socket, has_certificate } = batch.leg;
        // Most attempts are guesses, and wait for each other.
        let mut text = String::from("workers = 1\nlimits = { login = \"40s\" }\n[server]\n");
        match is_socket {
            true => text.push_str(&format!("address = {:?}\n", direct.socket)),
            false => text.push_str(&format!("address = \"127.0.0.1:{}\"\n", direct.port)),
        }
        text.push_str(&self.settings);
        text.push_str(&format!("accounts_period = {:?}\n", self.period));
        if has_certificate && self.can.tls {
            let file = |name: &str| self.folder.path().join(name);
            text.push_str(&format!(
                "tls_cert = {:?}\ntls_key = {:?}\n",
                file("flifo.pem"),
                file("flifo-key.pem")
            ));
        }
        if !self.can.tls {
            text.push_str("tls = \"off\"\n");
        }
        if way == Way::Accounts {
            text.push_str(&format!("accounts_user = \"{READER}\"\n"));
        }
        if way != Way::Learnt {
            text.push_str("learn_passwords = \"off\"\n");
        }
        let mut user = |name: &str, password: Option<&str>, second: Option<&str>| {
            let password = password.map_or_else(
                || "mode = \"pass-through\"".to_owned(),
                |password| format!("password = {password:?}"),
            );
            let second = second.map(|it| format!("second_password = {it:?}\n"));
            let second = second.unwrap_or_default();
            text.push_str(&format!("[[users]]\nname = {name:?}\n{password}\n{second}"));
        };
        match way {
            Way::PassThrough | Way::Learnt => {}
            Way::Configured => {
                user(BASES[0], Some(BASE_PASSWORD), None);
                user(BASES[1], None, None);
                user(&batch.limited.user, Some("secret"), None);
                for Configured { name, password, second } in &batch.configured {
                    user(name, password.as_deref(), second.as_deref());
                }
            }
            Way::Accounts => user(READER, Some(BASE_PASSWORD), None),
        }
        text
    }
}

/// Where `packaging/install-deps.sh` has put what MariaDB does not bring along.
pub fn plugins() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?;
    let folders = program.ancestors().map(|folder| folder.join("plugins"));
    folders.into_iter().find(|folder| folder.join("auth_ed25519.so").exists())
}

fn backend_tls(identity: Option<Identity>) -> BackendTls {
    let tls = ForBackends { mode: Mode::Required, identity, ..ForBackends::default() };
    let config = tls.config().expect("files").expect("a mode other than off");
    BackendTls {
        mode: tls.mode,
        config,
        name: backend::tls::server_name("localhost").expect("a name"),
    }
}
