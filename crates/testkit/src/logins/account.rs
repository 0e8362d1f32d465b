//! Accounts of a server as random runs make them, and the statements that make them.

use engine::account::row::Row;
use engine::account::terms::Terms;

use crate::differ::program::Brand;

/// One account.
#[derive(Clone, Debug)]
pub struct Account {
    pub user: String,
    pub host: String,
    /// In the order in which the server tries them.
    pub proofs: Vec<Proof>,
    /// The password before that of the first one, if MySQL is to take it as well.
    pub retained: Option<String>,
    pub require: Require,
    pub is_locked: bool,
    pub has_expired: bool,
    /// Connections at once, and in an hour.
    pub limits: Limits,
    /// Tells its rights from those of others.
    pub number: usize,
    /// The role that it has, and whether it is the default.
    pub role: Option<bool>,
}

/// How an account proves itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Proof {
    Native(String),
    /// A hash that no password has.
    NativeInvalid,
    Ed25519(String),
    CachingSha2(String),
    Sha256(String),
    UnixSocket,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Require {
    None,
    Ssl,
    X509,
    Subject,
    OtherSubject,
    Issuer,
    Cipher,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub at_once: Option<u32>,
    pub per_hour: Option<u32>,
}

impl Limits {
    pub fn any(self) -> bool {
        self.at_once.is_some() || self.per_hour.is_some()
    }
}

impl Proof {
    pub fn password(&self) -> Option<&str> {
        match self {
            Self::Native(password)
            | Self::Ed25519(password)
            | Self::CachingSha2(password)
            | Self::Sha256(password) => Some(password),
            Self::NativeInvalid | Self::UnixSocket => None,
        }
    }

    /// The same with another password; `None`: it is not kept when it is changed.
    fn with(&self, password: &str) -> Option<Self> {
        match self {
            Self::CachingSha2(_) => Some(Self::CachingSha2(password.to_owned())),
            Self::Native(_) => Some(Self::Native(password.to_owned())),
            _ => None,
        }
    }

    fn sql(&self, brand: Brand) -> String {
        let quoted = |text: &str| quote(text);
        match (self, brand) {
            (Self::Native(password), Brand::MariaDb) if password.is_empty() => {
                "mysql_native_password USING ''".to_owned()
            }
            (Self::Native(password), Brand::MariaDb) => {
                format!("mysql_native_password USING PASSWORD({})", quoted(password))
            }
            (Self::NativeInvalid, Brand::MariaDb) => {
                "mysql_native_password USING 'invalid'".to_owned()
            }
            (Self::Ed25519(password), _) => format!("ed25519 USING PASSWORD({})", quoted(password)),
            (Self::UnixSocket, _) => "unix_socket".to_owned(),
            (Self::Native(password), Brand::MySql) => {
                format!("mysql_native_password BY {}", quoted(password))
            }
            (Self::NativeInvalid, Brand::MySql) => "mysql_no_login".to_owned(),
            (Self::CachingSha2(password), _) => {
                format!("caching_sha2_password BY {}", quoted(password))
            }
            (Self::Sha256(password), _) => format!("sha256_password BY {}", quoted(password)),
        }
    }
}

impl Require {
    fn sql(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Ssl => " REQUIRE SSL",
            Self::X509 => " REQUIRE X509",
            Self::Subject => " REQUIRE SUBJECT '/CN=client'",
            Self::OtherSubject => " REQUIRE SUBJECT '/CN=Flifo'",
            Self::Issuer => " REQUIRE ISSUER '/CN=the tests'",
            Self::Cipher => " REQUIRE CIPHER 'TLS_AES_256_GCM_SHA384'",
        }
    }
}

impl Account {
    /// The one that a new MySQL has, and that its other accounts are made by.
    pub fn of_root() -> Self {
        Self {
            user: "root".to_owned(),
            host: "localhost".to_owned(),
            proofs: vec![Proof::CachingSha2(String::new())],
            retained: None,
            require: Require::None,
            is_locked: false,
            has_expired: false,
            limits: Limits::default(),
            number: 0,
            role: None,
        }
    }

    /// The statements that make it; the first one may be refused.
    pub fn sql(&self, brand: Brand) -> Vec<String> {
        let name = format!("{}@{}", quote(&self.user), quote(&self.host));
        let word = match brand {
            Brand::MariaDb => "VIA",
            Brand::MySql => "WITH",
        };
        let mut proofs: Vec<_> = self.proofs.iter().map(|proof| proof.sql(brand)).collect();
        let mut renewal = None;
        if let (Some(old), Some(proof)) = (&self.retained, self.proofs.first())
            && let Some(first) = proof.with(old)
        {
            let new = quote(proof.password().unwrap_or_default());
            renewal =
                Some(format!("ALTER USER {name} IDENTIFIED BY {new} RETAIN CURRENT PASSWORD"));
            proofs = vec![first.sql(brand)];
        }
        let mut create = format!(
            "CREATE USER {name} IDENTIFIED {word} {}{}",
            proofs.join(" OR "),
            self.require.sql()
        );
        if self.limits.any() {
            create.push_str(" WITH");
        }
        if let Some(max) = self.limits.at_once {
            create.push_str(&format!(" MAX_USER_CONNECTIONS {max}"));
        }
        if let Some(max) = self.limits.per_hour {
            create.push_str(&format!(" MAX_CONNECTIONS_PER_HOUR {max}"));
        }
        if self.has_expired {
            create.push_str(" PASSWORD EXPIRE");
        }
        if self.is_locked {
            create.push_str(" ACCOUNT LOCK");
        }
        let mut statements =
            vec![create, format!("GRANT SELECT ON `rights{}`.* TO {name}", self.number)];
        statements.extend(renewal);
        if let Some(is_default) = self.role {
            statements.push(format!("GRANT role0 TO {name}"));
            if is_default {
                statements.push(format!(
                    "SET DEFAULT ROLE role0 {}{name}",
                    match brand {
                        Brand::MariaDb => "FOR ",
                        Brand::MySql => "TO ",
                    }
                ));
            }
        }
        statements
    }

    /// What decides whether the server chooses it.
    pub fn row(&self) -> Row {
        Row {
            user: self.user.clone().into_bytes(),
            host: self.host.clone().into_bytes(),
            terms: Terms::default(),
        }
    }
}

/// A text of SQL.
pub fn quote(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}
