//! Runs batches: each attempt directly and in each way, each account that bounds its connections by a crowd.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;

use engine::account::host::HostBrand as Rules;

use super::account::Account;
use super::attempt::{Attempt, Certificate, Door, Outcome, Scramble, Target, Tls, look};
use super::generate::{self, Batch};
use super::site::{Site, Way};
use super::verdict::{self, Asked, Verdict};
use crate::client::Client;
use crate::differ::program::Brand;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Logins through Flifo, each with a direct one to compare it with.
    pub logins: u64,
    /// Of these, let in both times with the same rights; refused both times.
    pub admitted: u64,
    pub refused: u64,
    /// Refused by Flifo alone, by way and reason.
    pub less: BTreeMap<(Way, String), u64>,
    /// More than directly where two accounts of a name match the client, which only the table of accounts tells.
    pub unknowable: BTreeMap<Way, u64>,
    /// More than directly, each as a program.
    pub findings: Vec<String>,
    /// Refused by Flifo alone, and for no reason that is documented, each as a program.
    pub undue: Vec<String>,
    /// Refused without a word of why, each as a program.
    pub wordless: Vec<String>,
    /// The server has chosen another account than the rules.
    pub misruled: Vec<String>,
}

impl Report {
    pub fn add(&mut self, other: Self) {
        self.logins += other.logins;
        self.admitted += other.admitted;
        self.refused += other.refused;
        for (key, count) in other.less {
            *self.less.entry(key).or_default() += count;
        }
        for (key, count) in other.unknowable {
            *self.unknowable.entry(key).or_default() += count;
        }
        self.findings.extend(other.findings);
        self.undue.extend(other.undue);
        self.wordless.extend(other.wordless);
        self.misruled.extend(other.misruled);
    }
}

/// Which rules a server follows in the choice of an account.
fn rules(site: &mut Site) -> Rules {
    match site.can.brand {
        Brand::MariaDb => Rules::MariaDb,
        Brand::MySql => {
            let version = site.query("SELECT VERSION()").expect("a version").remove(0).remove(0);
            Rules::of_mysql(version.as_bytes())
        }
    }
}

/// Runs the batch of a seed.
///
/// # Panics
/// If server or Flifo do not do what a run needs.
pub fn run(site: &mut Site, program: &Path, seed: u64, attempts: usize, ways: &[Way]) -> Report {
    let batch = generate::batch(seed, attempts, site.can);
    let rules = rules(site);
    let accounts = site.prepare(&batch);
    let mut report = Report::default();
    let direct = outcomes(site, &batch.attempts, &site.direct());
    for (attempt, direct) in batch.attempts.iter().zip(&direct) {
        if !verdict::is_as_ruled(attempt, &accounts, rules, direct) {
            report.misruled.push(format!(
                "{attempt}: {direct}\n{}",
                program_of(site, &batch, &of(&attempt.name, &accounts), None)
            ));
        }
    }
    let crowd = crowd(site, &batch.limited, &site.direct());
    settle(site, &batch.limited);
    for way in ways {
        let flifo = site.flifo(program, *way, &batch);
        let through = site.through(&flifo);
        let outcomes = outcomes(site, &batch.attempts, &through);
        for ((attempt, direct), outcome) in batch.attempts.iter().zip(&direct).zip(outcomes) {
            report.logins += 1;
            if outcome.is_wordless() && !direct.is_wordless() {
                report.wordless.push(format!(
                    "seed {seed}, {way:?}: {attempt}\ndirectly: {direct}\n{}",
                    program_of(site, &batch, &of(&attempt.name, &accounts), Some(*way))
                ));
            }
            match verdict::judge(attempt, *way, &accounts, rules, direct, &outcome) {
                Verdict::Same if outcome.is_in() => report.admitted += 1,
                Verdict::Same => report.refused += 1,
                Verdict::Less(why) => {
                    let asked = Asked { attempt, way: *way, leg: batch.leg };
                    if verdict::is_undue(&asked, &accounts, rules, direct, &outcome) {
                        report.undue.push(format!(
                            "seed {seed}, {way:?}: {attempt}\ndirectly: {direct}\nthrough Flifo: {outcome}\n{}",
                            program_of(site, &batch, &of(&attempt.name, &accounts), Some(*way))
                        ));
                    }
                    *report.less.entry((*way, why)).or_default() += 1;
                }
                Verdict::Unknowable => *report.unknowable.entry(*way).or_default() += 1,
                Verdict::More => report.findings.push(format!(
                    "seed {seed}, {way:?}: {attempt}\ndirectly: {direct}\nthrough Flifo: {outcome}\n{}",
                    program_of(site, &batch, &of(&attempt.name, &accounts), Some(*way))
                )),
            }
        }
        settle(site, &batch.limited);
        let through_crowd = self::crowd(site, &batch.limited, &through);
        if crowd < through_crowd {
            report.findings.push(format!(
                "seed {seed}, {way:?}: {through_crowd} clients of {:?} at once, directly {crowd}\n{}",
                batch.limited,
                program_of(site, &batch, &of(&batch.limited.user, &accounts), Some(*way))
            ));
        }
        drop(flifo);
        settle(site, &batch.limited);
    }
    report
}

/// What comes of each attempt. Many are made at once: those that are refused take their time.
fn outcomes(site: &Site, attempts: &[Attempt], target: &Target) -> Vec<Outcome> {
    let keys = site.keys(target);
    let run =
        move |part: &[Attempt]| part.iter().map(|it| it.run(target, keys)).collect::<Vec<_>>();
    thread::scope(|scope| {
        let parts = attempts.chunks(attempts.len().div_ceil(AT_ONCE));
        let runs: Vec<_> = parts.map(|part| scope.spawn(move || run(part))).collect();
        runs.into_iter().flat_map(|it| it.join().unwrap_or_else(|why| resume_unwind(why))).collect()
    })
}

/// Attempts at once.
const AT_ONCE: usize = 16;

/// How many clients of this account get in at once, of more than it allows.
fn crowd(site: &Site, account: &Account, target: &Target) -> usize {
    let attempt = Attempt {
        name: account.user.clone(),
        password: "secret".to_owned(),
        door: Door::Tcp(std::net::Ipv4Addr::LOCALHOST),
        tls: Tls::None,
        changes: usize::MAX,
        scramble: Scramble::Right,
        certificate: Certificate::Any,
    };
    let mut inside: Vec<Client> = Vec::new();
    for _ in 0..8 {
        let Ok(mut client) = attempt.log_in(target, site.keys(target)) else { continue };
        if look(&mut client).is_ok_and(|it| matches!(it, Outcome::In { .. })) {
            inside.push(client);
        }
    }
    inside.len()
}

/// Ends what is left of an account's connections, and forgets how many it had.
fn settle(site: &mut Site, account: &Account) {
    let of_account =
        format!("SELECT ID FROM information_schema.PROCESSLIST WHERE USER = '{}'", account.user);
    loop {
        let left = site.query(&of_account).expect("the connections");
        if left.is_empty() {
            break;
        }
        for row in left {
            // It may be gone already.
            let _ = site.query(&format!("KILL {}", row[0]));
        }
    }
    site.query("FLUSH USER_RESOURCES").expect("it is forgotten");
}

/// Ends what is left of clients' connections.
pub(super) fn settle_all(site: &mut Site) {
    let of_clients = "SELECT ID FROM information_schema.PROCESSLIST WHERE USER LIKE 'held%' OR USER LIKE 'renamed%'";
    for row in site.query(of_clients).expect("the connections") {
        // It may be gone already.
        let _ = site.query(&format!("KILL {}", row[0]));
    }
}

/// The accounts that a login by this name may come to.
fn of(name: &str, accounts: &[Account]) -> Vec<Account> {
    let name = name.to_lowercase();
    let may_be = |it: &&Account| name.contains(&it.user.to_lowercase());
    accounts.iter().filter(may_be).cloned().collect()
}

/// What makes a finding again.
fn program_of(site: &Site, batch: &Batch, accounts: &[Account], way: Option<Way>) -> String {
    let mut text = String::new();
    for account in accounts {
        for statement in account.sql(site.can.brand) {
            let _ = writeln!(text, "    {statement};");
        }
    }
    if let Some(way) = way {
        let config = site.config(way, batch);
        for line in config.lines() {
            let _ = writeln!(text, "    # {line}");
        }
    }
    text
}
