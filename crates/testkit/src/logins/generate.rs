//! Makes accounts and attempts to log in from a seed. The same seed makes the same.

use std::net::Ipv4Addr;

use super::account::{Account, Limits, Proof, Require};
use super::attempt::{Attempt, Certificate, Door, Scramble, Tls};
use crate::differ::generate::Random;
use crate::differ::program::Brand;

/// Accounts of a server, and attempts to log in.
#[derive(Clone, Debug)]
pub struct Batch {
    pub seed: u64,
    pub accounts: Vec<Account>,
    /// One that bounds its connections.
    pub limited: Account,
    pub attempts: Vec<Attempt>,
    /// How Flifo reaches the server.
    pub leg: Leg,
    /// The names that are configured.
    pub configured: Vec<Configured>,
}

impl Batch {
    /// The same for a server that has no other accounts than those that each run needs.
    #[must_use]
    pub fn without_accounts(self) -> Self {
        Self { accounts: Vec::new(), configured: Vec::new(), ..self }
    }
}

/// What Flifo is told of a user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configured {
    pub name: String,
    /// None: its clients are passed through.
    pub password: Option<String>,
    pub second: Option<String>,
}

/// Flifo's way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leg {
    pub is_socket: bool,
    pub has_certificate: bool,
}

/// What a server can do.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    pub brand: Brand,
    pub ed25519: bool,
    pub native: bool,
    pub tls: bool,
}

const NAMES: [&str; 22] = [
    "app",
    "App",
    "APP",
    "app ",
    " app",
    "ap",
    "it's",
    "'q'",
    "q",
    "\"d\"",
    "d",
    "a b",
    "ä",
    "Ä",
    "名前",
    "b`t",
    "back\\slash",
    "%",
    "a_p",
    "''",
    "root",
    "a-rather-long-name-of-32-letters",
];

const HOSTS: [&str; 26] = [
    "%",
    "%",
    "%",
    "%",
    "localhost",
    "localhost",
    "127.0.0.1",
    "127.0.0.1",
    "127.0.0.%",
    "127.%",
    "127.0.1.%",
    "127.0.0.2",
    "127.0.0._",
    "%.2",
    "127.%.2",
    "127.0.0.0/255.255.255.0",
    "127.0.0.0/255.0.0.0",
    "127.0.1.0/255.255.255.0",
    "10.%",
    "::1",
    "LOCALHOST",
    "local%",
    "127.0.1.2",
    "10.0.0.0/255.0.0.0",
    "1%",
    "%%",
];

const SOURCES: [Ipv4Addr; 5] = [
    Ipv4Addr::LOCALHOST,
    Ipv4Addr::new(127, 0, 0, 2),
    Ipv4Addr::new(127, 0, 1, 2),
    Ipv4Addr::new(127, 0, 1, 3),
    Ipv4Addr::new(127, 9, 9, 9),
];

const PASSWORDS: [&str; 6] =
    ["secret", "Secret", "s'ecret", "päss", "long passwords have thirty-two letters or more", ""];

/// Makes a batch of so many attempts.
pub fn batch(seed: u64, attempts: usize, can: Abilities) -> Batch {
    let mut random = Random::new(seed);
    let names: Vec<&str> = (0..4 + random.below(3)).map(|_| pick(&mut random, &NAMES)).collect();
    let count = 6 + random.below(14);
    // They hide other accounts of each address, whose sessions are to become other users'.
    let has_anonymous = random.once_in(2);
    let mut accounts: Vec<Account> = Vec::new();
    for number in 0..count {
        let account = account(&mut random, &names, has_anonymous, number, can);
        let is_new = |it: &Account| {
            // Hosts are compared without case.
            it.user != account.user || !it.host.eq_ignore_ascii_case(&account.host)
        };
        if accounts.iter().all(is_new) {
            accounts.push(account);
        }
    }
    let limited = limited(&mut random, count, can);
    let leg = Leg { is_socket: random.once_in(2), has_certificate: random.once_in(2) };
    let configured = configured(&mut random, &accounts);
    let attempts =
        (0..attempts).map(|_| attempt(&mut random, &accounts, &names, leg, can)).collect();
    Batch { seed, accounts, limited, attempts, leg, configured }
}

fn pick<T: Copy>(random: &mut Random, from: &[T]) -> T {
    from[random.below(from.len())]
}

fn account(
    random: &mut Random,
    names: &[&str],
    has_anonymous: bool,
    number: usize,
    can: Abilities,
) -> Account {
    let is_anonymous = has_anonymous && random.once_in(3);
    let user = if is_anonymous { "" } else { pick(random, names) };
    let require = match random.below(12) {
        0 => Require::Ssl,
        1 => Require::X509,
        2 => pick(
            random,
            &[Require::Subject, Require::OtherSubject, Require::Issuer, Require::Cipher],
        ),
        _ => Require::None,
    };
    let proofs = match can.brand {
        Brand::MariaDb => {
            let count = match random.below(8) {
                0 => 3,
                1 | 2 => 2,
                _ => 1,
            };
            (0..count).map(|_| proof(random, can)).collect()
        }
        Brand::MySql => vec![proof(random, can)],
    };
    Account {
        user: user.to_owned(),
        host: pick(random, &HOSTS).to_owned(),
        proofs,
        // An empty one cannot be kept.
        retained: (can.brand == Brand::MySql && random.once_in(3))
            .then(|| pick(random, &PASSWORDS[..PASSWORDS.len() - 1]).to_owned()),
        require: if can.tls { require } else { Require::None },
        is_locked: random.once_in(12),
        has_expired: random.once_in(15),
        limits: Limits::default(),
        number,
        role: random.once_in(4).then(|| random.once_in(2)),
    }
}

fn proof(random: &mut Random, can: Abilities) -> Proof {
    let password = pick(random, &PASSWORDS).to_owned();
    match can.brand {
        Brand::MariaDb => match random.below(12) {
            0 => Proof::NativeInvalid,
            1 => Proof::UnixSocket,
            2 if can.ed25519 => Proof::Ed25519(password),
            _ => Proof::Native(password),
        },
        Brand::MySql => match random.below(8) {
            0 if can.native => Proof::Native(password),
            1 => Proof::Sha256(password),
            _ => Proof::CachingSha2(password),
        },
    }
}

fn limited(random: &mut Random, number: usize, can: Abilities) -> Account {
    let proof = match can.brand {
        Brand::MariaDb => Proof::Native("secret".to_owned()),
        Brand::MySql => Proof::CachingSha2("secret".to_owned()),
    };
    let limits = match random.below(3) {
        0 => Limits { at_once: Some(1 + random.below(3) as u32), per_hour: None },
        1 => Limits { at_once: None, per_hour: Some(2 + random.below(4) as u32) },
        _ => Limits { at_once: Some(2), per_hour: Some(4) },
    };
    Account {
        user: "limited".to_owned(),
        // The crowd's. A network would hide behind an anonymous account of a more special one.
        host: "127.0.0.1".to_owned(),
        proofs: vec![proof],
        retained: None,
        require: Require::None,
        is_locked: false,
        has_expired: false,
        limits,
        number,
        role: None,
    }
}

/// Most names are configured with the passwords of their accounts.
fn configured(random: &mut Random, accounts: &[Account]) -> Vec<Configured> {
    let mut configured: Vec<Configured> = Vec::new();
    for account in accounts {
        let is_known = configured.iter().any(|it| it.name == account.user);
        if account.user.is_empty() || is_known || random.once_in(6) {
            continue;
        }
        let of_name: Vec<_> = accounts.iter().filter(|it| it.user == account.user).collect();
        let chosen = pick(random, &of_name);
        let password = chosen.proofs.iter().find_map(Proof::password);
        let password = password.filter(|_| !random.once_in(8)).map(str::to_owned);
        // A configuration with two says that each is a password of each account of this name.
        let others = chosen.proofs.iter().filter_map(Proof::password).skip(1);
        let mut others = others.filter(|it| !it.is_empty() && password.as_deref() != Some(*it));
        let second = others.next().filter(|_| of_name.len() == 1 && password.is_some());
        let second = second.map(str::to_owned);
        configured.push(Configured { name: account.user.clone(), password, second });
    }
    configured
}

fn attempt(
    random: &mut Random,
    accounts: &[Account],
    names: &[&str],
    leg: Leg,
    can: Abilities,
) -> Attempt {
    let account = &accounts[random.below(accounts.len())];
    let name = if account.user.is_empty() { pick(random, names) } else { &account.user };
    let name = match random.below(24) {
        0 => format!("'{name}'"),
        1 => format!("\"{name}\""),
        2 => format!("`{name}`"),
        3 => format!("{name} "),
        4 => name.to_uppercase(),
        5 => name.to_lowercase(),
        6 => format!("''{name}''"),
        7 => String::new(),
        8 => "unknown".to_owned(),
        9 => format!("{name}{}", "x".repeat(200)),
        10 => format!("'{name}"),
        11 => format!("{name}@localhost"),
        _ => name.to_owned(),
    };
    let own = account.proofs.iter().filter_map(Proof::password);
    let own = own.chain(account.retained.as_deref()).collect::<Vec<_>>();
    let password = match random.below(8) {
        0 => pick(random, &PASSWORDS),
        1 => "",
        _ if own.is_empty() => pick(random, &PASSWORDS),
        _ => pick(random, &own),
    };
    let door = match random.below(6) {
        0 => Door::Socket,
        1 | 2 => Door::Tcp(Ipv4Addr::LOCALHOST),
        _ => Door::Tcp(pick(random, &SOURCES)),
    };
    let tls = match random.below(8) {
        _ if !can.tls => Tls::None,
        0 | 1 => Tls::Plain,
        2 => Tls::Certificate,
        _ => Tls::None,
    };
    Attempt {
        name,
        password: password.to_owned(),
        door: match door {
            // On this machine a client of Flifo's Unix socket would reach the server as Flifo does.
            Door::Socket if !leg.is_socket => Door::SocketForTcp,
            door => door,
        },
        tls,
        changes: random.below(6),
        scramble: if random.once_in(6) { Scramble::Wrong } else { Scramble::Right },
        certificate: if random.once_in(2) { Certificate::Vouched } else { Certificate::Any },
    }
}
