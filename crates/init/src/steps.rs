//! What is to be done, in order. Pure: from what there is, and what is wished.

use std::fmt;
use std::path::PathBuf;

use wire::auth::native::NativeStage1;
use wire::auth::sha_crypt::{CryptStored, SALT_LEN};

use crate::facts::{Facts, Follows, Package};
use crate::{Layout, NAME, Wishes, files};

/// One thing that is done, and can be taken back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// An account at the server, made by these statements.
    Account {
        statements: Vec<String>,
        follows: Follows,
    },
    /// The same, by another hand: this process may not.
    AccountByHand {
        statements: Vec<String>,
        follows: Follows,
    },
    SystemUser {
        name: &'static str,
    },
    Folder {
        path: PathBuf,
        mode: u32,
        owner: Owner,
    },
    File {
        path: PathBuf,
        mode: u32,
        owner: Owner,
        text: String,
    },
    /// Another text for a file of the package.
    Replace {
        path: PathBuf,
        text: String,
        before: &'static str,
    },
    /// The package's unit, which is started now and at each start of the machine.
    Restart,
    /// A unit, which is started now and at each start of the machine.
    Unit {
        path: PathBuf,
        text: String,
    },
    /// A program that goes on behind this one.
    Start {
        program: PathBuf,
        config: PathBuf,
        log: PathBuf,
        sockets: [PathBuf; 2],
    },
}

/// Whose a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The user that runs this.
    Own,
    /// Root's; Flifo's group may read it.
    RootForFlifo,
    Flifo,
}

/// Where MariaDB keeps accounts and rights, and MySQL. Flifo reads them, and nothing else.
fn tables(is_mariadb: bool) -> &'static [&'static str] {
    proxy::rights_tables(is_mariadb)
}

/// The statements that make Flifo's own account. None of them has the password, as they stand in the server's logs.
fn account(facts: &Facts, password: &str) -> Vec<String> {
    let account = format!("'{NAME}'@'localhost'");
    // Replicas are sent this as well. One beside which a Flifo was set up has such an account, and would stop.
    let create = format!("CREATE USER IF NOT EXISTS {account} {}", identified(facts, password));
    let mut statements = vec![create];
    let grant = |table: &&str| format!("GRANT SELECT ON mysql.{table} TO {account}");
    statements.extend(tables(facts.is_mariadb).iter().map(grant));
    let is_unlogged = match &facts.follows {
        Follows::Nothing => false,
        Follows::Primary(_) | Follows::Unknown => true,
        // An administrator knows which server it is.
        Follows::Unasked => facts.administers,
    };
    if is_unlogged {
        statements.insert(0, UNLOGGED.to_owned());
    }
    statements
}

/// Keeps what follows out of the binary log: there it would be a transaction of this server's own, with which replication
/// stops.
pub(crate) const UNLOGGED: &str = "SET SESSION sql_log_bin = 0";

/// By what the server knows a password.
fn identified(facts: &Facts, password: &str) -> String {
    let native = || NativeStage1::of(password.as_bytes()).stored().reveal();
    if facts.is_mariadb {
        return format!("IDENTIFIED BY PASSWORD '{}'", native());
    }
    if facts.brand.starts_with("MySQL 5.") {
        return format!("IDENTIFIED WITH mysql_native_password AS '{}'", native());
    }
    // The password is random, and so this is a salt that no other password has. Digits need no quotes.
    let digits = NativeStage1::of(format!("salt of {password}").as_bytes()).stored().reveal();
    let mut salt = [b'0'; SALT_LEN];
    salt.iter_mut().zip(digits.bytes().skip(1)).for_each(|(to, digit)| *to = digit);
    let stored = CryptStored::of(password.as_bytes(), salt).reveal();
    format!("IDENTIFIED WITH caching_sha2_password AS '{}'", String::from_utf8_lossy(&stored))
}

/// The statement that takes it back.
pub(crate) fn drop_account() -> String {
    format!("DROP USER IF EXISTS '{NAME}'@'localhost'")
}

impl Facts {
    /// Whether Flifo is started by this program, as no systemd is there for that.
    pub(crate) fn starts_itself(&self, layout: &Layout) -> bool {
        !(self.has_systemd && self.is_root && layout.unit.is_some())
    }
}

/// What is to be done. `password`: of the new account.
pub fn steps(facts: &Facts, wishes: &Wishes, password: &str) -> Vec<Step> {
    let layout = &wishes.layout;
    let (secret, open) = match facts.is_root {
        true => (Owner::RootForFlifo, Owner::Flifo),
        false => (Owner::Own, Owner::Own),
    };
    let mut steps = Vec::new();
    // The first, because what is done is written down in it.
    steps.push(Step::Folder { path: layout.folder.clone(), mode: 0o755, owner: Owner::Own });
    if facts.is_root && !facts.has_system_user {
        steps.push(Step::SystemUser { name: NAME });
    }
    let file = |path, text| Step::File { path, mode: 0o640, owner: secret, text };
    // Before the account, which is known again by it.
    steps.push(file(layout.password(), format!("{password}\n")));
    let statements = account(facts, password);
    match facts.administers {
        _ if wishes.has_account => {}
        true => steps.push(Step::Account { statements, follows: facts.follows.clone() }),
        false => {
            steps.push(Step::AccountByHand { statements, follows: facts.follows.clone() });
        }
    }
    let (config, text) = (layout.config(), files::config(facts, wishes));
    let is_packaged = facts.package == Package::Installed;
    steps.push(match is_packaged {
        true => Step::Replace { path: config, text, before: files::PACKAGED_CONFIG },
        false => file(config, text),
    });
    match &layout.unit {
        Some(_) if is_packaged && !facts.starts_itself(layout) => steps.push(Step::Restart),
        Some(path) if !facts.starts_itself(layout) => {
            steps.push(Step::Unit { path: path.clone(), text: files::unit(facts, layout) });
        }
        _ => {
            // Clients open a socket in it.
            steps.push(Step::Folder { path: layout.run.clone(), mode: 0o755, owner: open });
            steps.push(Step::Start {
                program: facts.program.clone(),
                config: layout.config(),
                log: layout.log.clone(),
                sockets: [layout.socket(), layout.console()],
            });
        }
    }
    steps
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Account { statements, follows } => {
                writeln!(
                    f,
                    "make an account at the server, which may read accounts and rights and nothing else:"
                )?;
                list(f, statements)?;
                let here = "the account is made here alone, and not written into the binary log";
                match follows {
                    Follows::Nothing => Ok(()),
                    Follows::Primary(host) => {
                        write!(f, "\n      This server is a replica of {host}: {here}")
                    }
                    Follows::Unknown => write!(f, "\n      This server is read-only: {here}"),
                    Follows::Unasked => {
                        write!(f, "\n      Whether it is a replica, this user may not ask: {here}")
                    }
                }
            }
            Self::AccountByHand { statements, follows } => {
                writeln!(
                    f,
                    "need an account at the server, which this user may not make. Have its administrator run:"
                )?;
                list(f, statements)?;
                match follows {
                    Follows::Nothing => Ok(()),
                    Follows::Primary(host) => write!(
                        f,
                        "\n      This server is a replica of {host}: with the first statement, the account is made here \
                         alone. Without it, replication may stop"
                    ),
                    Follows::Unknown => f.write_str(
                        "\n      This server is read-only: with the first statement, the account is made here alone",
                    ),
                    Follows::Unasked => write!(
                        f,
                        "\n      If the server is a replica, with this before them, as its replication may stop otherwise: \
                         {UNLOGGED};"
                    ),
                }
            }
            Self::SystemUser { name } => write!(f, "make the system user {name}"),
            Self::Folder { path, mode, .. } => {
                write!(f, "make the folder {} (mode {mode:o})", path.display())
            }
            Self::File { path, mode, .. } => write!(f, "write {} (mode {mode:o})", path.display()),
            Self::Replace { path, .. } => {
                write!(f, "replace {}, which is as the package installed it", path.display())
            }
            Self::Restart => {
                f.write_str("have systemd start the package's unit again, now and with the machine")
            }
            Self::Unit { path, .. } => {
                write!(
                    f,
                    "write {}, and have systemd start it now and with the machine",
                    path.display()
                )
            }
            Self::Start { program, config, .. } => {
                write!(f, "start {} run --config {}", program.display(), config.display())
            }
        }
    }
}

/// Statements, but for the password in them.
fn list(f: &mut fmt::Formatter<'_>, statements: &[String]) -> fmt::Result {
    for (at, statement) in statements.iter().enumerate() {
        let shown = match statement.split_once("IDENTIFIED ") {
            Some((before, _)) => format!("{before}IDENTIFIED BY '…'"),
            None => statement.clone(),
        };
        let end = if at + 1 == statements.len() { "" } else { "\n" };
        write!(f, "      {shown};{end}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            server: "/run/mysqld/mysqld.sock".parse().expect("an address"),
            brand: "MariaDB 10.11.14".to_owned(),
            is_mariadb: true,
            follows: Follows::Nothing,
            administers: true,
            unvouched: None,
            is_root: true,
            has_systemd: true,
            has_system_user: false,
            package: Package::None,
            program: "/usr/bin/flifo".into(),
        }
    }

    fn wishes(layout: Layout) -> Wishes {
        let [listen, console, http] = [6033, 6032, 6034].map(|port| format!("127.0.0.1:{port}"));
        Wishes { server: None, layout, has_account: false, listen, console, http }
    }

    fn told(facts: &Facts, layout: Layout) -> Vec<String> {
        let steps = steps(facts, &wishes(layout), "secret");
        steps
            .iter()
            .map(|step| step.to_string().lines().next().unwrap_or_default().to_owned())
            .collect()
    }

    #[test]
    fn a_machine_with_systemd_gets_a_unit() {
        assert_eq!(
            told(&facts(), Layout::of_machine()),
            [
                "make the folder /etc/flifo (mode 755)",
                "make the system user flifo",
                "write /etc/flifo/password (mode 640)",
                "make an account at the server, which may read accounts and rights and nothing else:",
                "write /etc/flifo/flifo.toml (mode 640)",
                "write /etc/systemd/system/flifo.service, and have systemd start it now and with the machine",
            ]
        );
    }

    #[test]
    fn what_the_package_has_installed_is_used() {
        let facts = Facts { has_system_user: true, package: Package::Installed, ..facts() };
        assert_eq!(
            told(&facts, Layout::of_machine())[3..],
            [
                "replace /etc/flifo/flifo.toml, which is as the package installed it",
                "have systemd start the package's unit again, now and with the machine",
            ]
        );
    }

    #[test]
    fn the_unit_is_the_packages_with_its_own_program() {
        let unit = |program: &str| {
            let facts = Facts { program: program.into(), ..facts() };
            files::unit(&facts, &Layout::of_machine())
        };
        let own = unit("/opt/flifo");
        let start = "\nExecStart=/opt/flifo run --config /etc/flifo/flifo.toml\n";
        assert!(own.contains(start) && own.contains("\nProtectHome=yes\n"), "{own}");
        assert!(!own.contains("/usr/bin/flifo"), "{own}");
        assert!(unit("/run/user/1000/flifo").contains("\nProtectHome=read-only\n"));
    }

    #[test]
    fn the_packages_configuration_is_a_good_one() {
        let (plan, warnings) =
            proxy::config::parse(files::PACKAGED_CONFIG, "flifo.toml").expect("it is good");
        assert!(warnings.is_empty() && plan.users.is_empty(), "{warnings:?}");
    }

    #[test]
    fn without_systemd_it_is_started_and_becomes_its_own_user() {
        let facts = Facts { has_systemd: false, has_system_user: true, ..facts() };
        let told = told(&facts, Layout::of_machine());
        assert_eq!(
            told[4..],
            [
                "make the folder /run/flifo (mode 755)",
                "start /usr/bin/flifo run --config /etc/flifo/flifo.toml"
            ]
        );
        assert!(!told.iter().any(|step| step.contains("system user")));
        assert!(
            files::config(&facts, &wishes(Layout::of_machine())).contains("run_as = \"flifo\"")
        );
    }

    #[test]
    fn an_account_that_cannot_be_made_is_asked_for_and_no_secret_is_shown() {
        let facts = Facts { administers: false, is_root: false, ..facts() };
        let layout = Layout::in_folder("/srv/ann/flifo".as_ref());
        let steps = steps(&facts, &wishes(layout), "secret");
        let shown = steps[2].to_string();
        assert!(shown.starts_with("need an account") && !shown.contains("secret"), "{shown}");
        assert!(
            shown.contains("GRANT SELECT ON mysql.global_priv TO 'flifo'@'localhost';"),
            "{shown}"
        );
        assert!(!shown.contains("sql_log_bin"), "{shown}");
        let told = |follows| {
            let facts = Facts { follows, ..facts.clone() };
            account_by_hand(&facts)
        };
        let replica = told(Follows::Primary("db1".to_owned()));
        assert!(replica.contains(":\n      SET SESSION sql_log_bin = 0;\n"), "{replica}");
        assert!(replica.contains("is a replica of db1"), "{replica}");
        let unasked = told(Follows::Unasked);
        assert!(unasked.contains(":\n      CREATE USER IF NOT EXISTS"), "{unasked}");
        assert!(unasked.ends_with("otherwise: SET SESSION sql_log_bin = 0;"), "{unasked}");
        assert!(!shown.contains("mysql.servers"), "{shown}");
    }

    fn account_by_hand(facts: &Facts) -> String {
        steps(facts, &wishes(Layout::in_folder("/srv/ann/flifo".as_ref())), "secret")[2].to_string()
    }

    #[test]
    fn no_statement_has_the_password_and_a_replica_logs_none() {
        let brands = [("MariaDB 10.11.14", true), ("MySQL 5.7.44", false), ("MySQL 9.7.0", false)];
        for (brand, is_mariadb) in brands {
            let of = |follows| {
                let facts = Facts { brand: brand.to_owned(), is_mariadb, follows, ..facts() };
                account(&facts, "secret")
            };
            let primary = of(Follows::Nothing);
            assert!(!primary.iter().any(|it| it.contains("secret")), "{primary:?}");
            let replicas = [Follows::Primary("db1".to_owned()), Follows::Unknown, Follows::Unasked];
            for follows in replicas {
                let replica = of(follows);
                assert_eq!((replica[0].as_str(), &replica[1..]), (UNLOGGED, &primary[..]));
            }
        }
        let facts = Facts { brand: "MySQL 9.7.0".to_owned(), is_mariadb: false, ..facts() };
        let text = identified(&facts, "secret");
        let stored = text.split('\'').nth(1).expect("a text in quotes");
        let stored = CryptStored::parse(stored.as_bytes()).expect("it is one");
        assert!(stored.check(b"secret") && !stored.check(b"Secret"));
    }

    #[test]
    fn the_configuration_is_a_good_one() {
        for facts in [facts(), Facts { has_systemd: false, ..facts() }] {
            let text = files::config(&facts, &wishes(Layout::of_machine()));
            let (plan, warnings) = proxy::config::parse(&text, "flifo.toml").expect("it is good");
            assert_eq!(plan.server.accounts_user.as_deref(), Some(NAME));
            assert!(warnings.is_empty(), "{warnings:?}");
            assert_eq!(plan.listen.len(), 2);
        }
    }
}
