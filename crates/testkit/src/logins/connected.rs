//! Clients that are connected while their accounts are changed, each directly and through Flifo: logins, changes of user
//! and statements between the changes.
//!
//! What is held against Flifo:
//!
//! * A login that the server takes is taken, however soon behind the change it comes; one that it refuses is refused,
//!   at once behind a change that was made through Flifo, and within [`Bounds::beside`] behind another one.
//! * A statement of a connected client is answered as its session that was opened directly is, or as one would be that
//!   logs in now. It is refused only if the account has not taken the client's password at all times since.
//! * No refusal comes without a word.
//!
//! Where `[[users]]` says the passwords, others are not held against Flifo.

use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::attempt::{
    Attempt, BASE_PASSWORD, BASES, Certificate, Door, Outcome, Scramble, Target, Tls, look,
};
use super::campaign::{Report, settle_all};
use super::changes::{self, Change, Holder, Maker, Spelling};
use super::generate::{self, Batch, Configured, Leg};
use super::site::{READER, Site, Way};
use crate::client::{Client, Problem};
use crate::differ::generate::Random;
use crate::differ::program::Brand;
use crate::flifo::Flifo;

/// How long a change may take until it holds.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Made beside Flifo: a client may be let in for so long that the server refuses.
    pub beside: Duration,
    pub late: Late,
}

/// What is done about a client that may still be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Late {
    /// It is waited until it is not.
    Awaited,
    /// It is passed over: a test has no time.
    PassedOver,
}

/// What Flifo is told here, so that no run waits for long: `server.rights_bound`, `server.accounts_period`.
pub const SETTINGS: &str = "rights_bound = \"5s\"\n";
pub const PERIOD: &str = "2s";

/// What the two come to, with a second for the machine.
pub const PROMISE: Bounds = Bounds { beside: Duration::from_secs(8), late: Late::Awaited };

const HOLDERS: usize = 2;

/// Between two looks at one that may be late.
const LOOK: Duration = Duration::from_millis(100);

/// Connected clients at once.
const CONNECTED: usize = 6;

/// A client, directly and through Flifo.
struct Pair {
    attempt: Attempt,
    direct: Client,
    through: Client,
    /// There was a time at which the server would not have let it in again.
    has_lost: bool,
    /// Flifo has let it in itself.
    is_pooled: bool,
    /// It has been refused a change of user, which may have ended it where it is passed through.
    may_have_ended: bool,
}

/// One way of Flifo's, and what is done there.
struct Run<'a> {
    site: &'a mut Site,
    flifo: Flifo,
    way: Way,
    seed: u64,
    bounds: Bounds,
    random: Random,
    holders: Vec<Holder>,
    pairs: Vec<Pair>,
    /// When an account of this name was last changed, and where.
    changed: HashMap<String, (Instant, Maker)>,
    configured: Vec<Configured>,
    /// What was done so far.
    steps: Vec<String>,
    report: Report,
}

/// Runs so many steps of a seed in each of these ways.
///
/// # Panics
/// If server or Flifo do not do what a run needs.
pub fn run(
    site: &mut Site,
    program: &Path,
    seed: u64,
    steps: usize,
    ways: &[Way],
    bounds: Bounds,
) -> Report {
    let (settings, period) = (site.settings.clone(), site.period);
    site.settings.push_str(SETTINGS);
    site.period = PERIOD;
    let mut report = Report::default();
    for way in ways {
        let mut run = Run::start(site, program, seed, *way, bounds);
        for _ in 0..steps {
            run.step();
        }
        report.add(run.end());
    }
    (site.settings, site.period) = (settings, period);
    report
}

impl<'a> Run<'a> {
    fn start(site: &'a mut Site, program: &Path, seed: u64, way: Way, bounds: Bounds) -> Self {
        let mut random = Random::new(seed);
        let holders: Vec<_> =
            (0..HOLDERS).map(|it| Holder::new(it, format!("first{it}"))).collect();
        let configured = holders.iter().flat_map(|it| configured(&mut random, it)).collect();
        let leg = Leg { is_socket: random.once_in(2), has_certificate: random.once_in(2) };
        let batch =
            Batch { leg, configured, ..generate::batch(seed, 0, site.can).without_accounts() };
        site.prepare(&batch);
        let mut statements: Vec<_> =
            holders.iter().flat_map(|it| it.create(site.can.brand)).collect();
        for base in BASES {
            statements.push(format!("GRANT ALL ON *.* TO {base}@'%' WITH GRANT OPTION"));
        }
        if random.once_in(2) {
            // It is seen each second whether rights have changed.
            statements.push(format!("GRANT SELECT ON mysql.* TO {READER}@'%'"));
        }
        for statement in &statements {
            site.query(statement).expect("an account");
        }
        let flifo = site.flifo(program, way, &batch);
        let steps = site.config(way, &batch).lines().map(|it| format!("# {it}")).collect();
        let (pairs, changed, report) = (Vec::new(), HashMap::new(), Report::default());
        let configured = batch.configured;
        let mut run = Self {
            site,
            flifo,
            way,
            seed,
            bounds,
            random,
            holders,
            pairs,
            changed,
            configured,
            steps,
            report,
        };
        run.steps.extend(statements);
        run
    }

    fn step(&mut self) {
        match self.random.below(10) {
            0..=2 => self.change(),
            3..=5 => self.log_in(),
            6 | 7 if !self.pairs.is_empty() => self.change_user(),
            _ if !self.pairs.is_empty() => self.ask(),
            _ => self.log_in(),
        }
    }

    fn end(mut self) -> Report {
        self.pairs.clear();
        drop(self.flifo);
        settle_all(self.site);
        self.report
    }

    /// Changes an account.
    fn change(&mut self) {
        let at = self.random.below(self.holders.len());
        let number = self.steps.len();
        let holder = &mut self.holders[at];
        let change = changes::change(&mut self.random, holder, self.site.can, number);
        let names = holder.names().map(str::to_owned);
        self.steps.push(format!("{change:?}"));
        self.make(&change);
        for name in names {
            self.changed.insert(name, (Instant::now(), change.maker));
        }
        // Directly, each client would be let in again, or not.
        let direct = self.site.direct();
        let keys = self.site.keys(&direct);
        for pair in &mut self.pairs {
            pair.has_lost |= pair.attempt.log_in(&direct, keys).is_err();
        }
    }

    /// # Panics
    /// If the server does not take it: then the model of an account is wrong.
    fn make(&mut self, change: &Change) {
        let Maker::Through(base) = change.maker else {
            for statement in &change.statements {
                self.site.query(statement).unwrap_or_else(|error| panic!("{statement}: {error}"));
            }
            return;
        };
        let target = self.site.through(&self.flifo);
        let maker = attempt(BASES[base], BASE_PASSWORD, Ipv4Addr::LOCALHOST, Tls::None);
        let mut client = maker.log_in(&target, self.site.keys(&target)).expect("may log in");
        for statement in &change.statements {
            let spelled = change.spelling.spell(statement);
            let made = match change.spelling {
                Spelling::Prepared => client.prepare(&spelled).and_then(|id| client.execute(id)),
                _ => client.query(&spelled),
            };
            made.unwrap_or_else(|error| panic!("{spelled}: {error}"));
        }
    }

    /// Logs in, and stays if that is done both times.
    fn log_in(&mut self) {
        let attempt = self.attempt(6);
        loop {
            let direct = try_it(&attempt, &self.site.direct(), self.site);
            let through = try_it(&attempt, &self.site.through(&self.flifo), self.site);
            let told = format!("{attempt}: directly {}, through Flifo {}", direct.0, through.0);
            let is_more = through.0.is_in() && direct.0 != through.0;
            if is_more && self.may_be_late(&attempt.name) {
                match self.wait() {
                    true => continue,
                    false => return,
                }
            }
            self.note(&told);
            match (&direct.0, &through.0) {
                _ if is_more => self.find(|it| &mut it.findings, &told),
                (Outcome::In { .. }, Outcome::Out { code, message }) => {
                    let why = format!("{code} {message}");
                    *self.report.less.entry((self.way, reason(&why))).or_default() += 1;
                    if self.is_known(&attempt) {
                        self.find(|it| &mut it.undue, &told);
                    }
                }
                (_, through) if through.is_in() => self.report.admitted += 1,
                _ => self.report.refused += 1,
            }
            if through.0.is_wordless() && !direct.0.is_wordless() {
                self.find(|it| &mut it.wordless, &told);
            }
            if let (Some(direct), Some(through)) = (direct.1, through.1) {
                if self.pairs.len() == CONNECTED {
                    let at = self.random.below(CONNECTED);
                    self.pairs.swap_remove(at);
                }
                let is_pooled = self.is_pooled_for_certain(&attempt.name);
                let (has_lost, may_have_ended) = (false, false);
                let pair = Pair { attempt, direct, through, has_lost, is_pooled, may_have_ended };
                self.pairs.push(pair);
            }
            return;
        }
    }

    /// A client that is connected asks as which account.
    fn ask(&mut self) {
        let at = self.random.below(self.pairs.len());
        let mut pair = self.pairs.swap_remove(at);
        loop {
            let kept = told(look(&mut pair.direct));
            let fresh = try_it(&pair.attempt, &self.site.direct(), self.site).0;
            let through = told(look(&mut pair.through));
            let told = format!(
                "a statement of the client of {}: directly {kept}, as a new client {fresh}, through Flifo {through}",
                pair.attempt
            );
            let is_more = through.is_in() && through != kept && through != fresh;
            if is_more && self.may_be_late(&pair.attempt.name) {
                match self.wait() {
                    true => continue,
                    false => return,
                }
            }
            self.note(&told);
            match &through {
                _ if is_more => self.find(|it| &mut it.findings, &told),
                Outcome::In { .. } => self.report.admitted += 1,
                Outcome::Out { .. } if through.is_wordless() => {
                    if !pair.may_have_ended {
                        self.find(|it| &mut it.wordless, &told);
                    }
                }
                Outcome::Out { code, message } => {
                    let why = reason(&format!("{code} {message}"));
                    let is_less = kept.is_in() || fresh.is_in();
                    *self.report.less.entry((self.way, why)).or_default() += u64::from(is_less);
                    self.report.refused += u64::from(!is_less);
                    if fresh.is_in() && !pair.has_lost && self.is_known(&pair.attempt) {
                        self.find(|it| &mut it.undue, &told);
                    }
                }
            }
            if through.is_in() && kept.is_in() {
                self.pairs.push(pair);
            }
            return;
        }
    }

    /// A client that is connected becomes another user, or the same again.
    fn change_user(&mut self) {
        let at = self.random.below(self.pairs.len());
        let mut pair = self.pairs.swap_remove(at);
        // MariaDB takes a second to refuse one.
        let mut to = self.attempt(24);
        (to.door, to.tls) = (pair.attempt.door, pair.attempt.tls);
        let plugin = self.site.direct().plugin;
        let change = |client: &mut Client| {
            let changed = client.change_user(&to.name, &to.password, &plugin);
            told(changed.and_then(|()| look(client)))
        };
        let (direct, through) = (change(&mut pair.direct), change(&mut pair.through));
        let told = format!(
            "{to}, by COM_CHANGE_USER of the client of {}: directly {direct}, through Flifo {through}",
            pair.attempt
        );
        self.steps.push(told.clone());
        self.report.logins += 1;
        let has_ended = pair.may_have_ended && through.is_wordless();
        match (&direct, &through) {
            _ if has_ended => {}
            (direct, through) if through.is_in() && direct != through => {
                if !self.may_be_late(&to.name) {
                    self.find(|it| &mut it.findings, &told);
                }
            }
            (Outcome::In { .. }, Outcome::Out { code, message }) => {
                let why = reason(&format!("{code} {message}"));
                *self.report.less.entry((self.way, why)).or_default() += 1;
                if self.is_known(&to) {
                    self.find(|it| &mut it.undue, &told);
                }
            }
            (Outcome::In { .. }, _) => {
                self.report.admitted += 1;
                pair.is_pooled &= self.is_pooled_for_certain(&to.name);
                (pair.attempt, pair.has_lost) = (to, false);
                self.pairs.push(pair);
            }
            _ => {
                self.report.refused += 1;
                // MariaDB lets it go on as before, and Flifo those that it has logged in.
                if self.site.can.brand == Brand::MariaDb && !through.is_wordless() {
                    let is_pooled = pair.is_pooled && self.is_pooled_for_certain(&to.name);
                    pair.may_have_ended |= !is_pooled;
                    self.pairs.push(pair);
                }
            }
        }
        if through.is_wordless() && !direct.is_wordless() && !has_ended {
            self.find(|it| &mut it.wordless, &told);
        }
    }

    /// Whether Flifo itself asks clients of this name for their password: it knows the account, and that it is one.
    fn is_pooled_for_certain(&self, name: &str) -> bool {
        let is_held = |it: &Holder| it.user == name && it.is_there && !it.has_signed;
        let is_known = !matches!(self.changed.get(name), Some((_, Maker::Beside)));
        self.way == Way::Accounts && is_known && self.holders.iter().any(is_held)
    }

    /// An attempt to log in as one of the accounts, once in so many times with a password that it took once, and half as
    /// often by a name that it had.
    fn attempt(&mut self, wrong: usize) -> Attempt {
        let random = &mut self.random;
        let holder = &self.holders[random.below(self.holders.len())];
        let name = match random.once_in(2 * wrong) {
            true => holder.names()[1],
            false => &holder.user,
        };
        let all = match random.once_in(wrong) {
            true if !holder.former.is_empty() => &holder.former,
            _ => &holder.passwords,
        };
        let password = &all[random.below(all.len())];
        let tls = match self.site.can.tls && random.once_in(3) {
            true => Tls::Plain,
            false => Tls::None,
        };
        // Wrong passwords from one address would wait for each other.
        let mut part = || u8::try_from(1 + random.below(250)).unwrap_or(1);
        attempt(name, password, Ipv4Addr::new(127, part(), part(), part()), tls)
    }

    /// Waits, if what may be late is waited for.
    fn wait(&self) -> bool {
        let is_awaited = self.bounds.late == Late::Awaited;
        if is_awaited {
            thread::sleep(LOOK);
        }
        is_awaited
    }

    fn note(&mut self, told: &str) {
        self.steps.push(told.to_owned());
        self.report.logins += 1;
    }

    /// Whether an account of this name was changed beside Flifo, and so lately that Flifo need not know.
    fn may_be_late(&self, name: &str) -> bool {
        match self.changed.get(name) {
            Some((at, Maker::Beside)) => at.elapsed() < self.bounds.beside,
            _ => false,
        }
    }

    /// Whether Flifo can know the password: not if it is configured with others alone.
    fn is_known(&self, attempt: &Attempt) -> bool {
        if self.way != Way::Configured {
            return true;
        }
        let of_name = self.configured.iter().find(|it| it.name == attempt.name);
        of_name.is_none_or(|it| {
            let passwords = [&it.password, &it.second].into_iter().flatten();
            it.password.is_none() || passwords.into_iter().any(|it| *it == attempt.password)
        })
    }

    fn find(&mut self, list: impl Fn(&mut Report) -> &mut Vec<String>, told: &str) {
        let Self { seed, way, steps, report, .. } = self;
        let steps: String = steps.iter().map(|it| format!("    {it}\n")).collect();
        list(report).push(format!("seed {seed}, {way:?}, while accounts change: {told}\n{steps}"));
    }
}

/// Most are configured, with one password of their first or with a second one.
fn configured(random: &mut Random, holder: &Holder) -> Option<Configured> {
    let password = holder.passwords.first()?.clone();
    let is_pooled = !random.once_in(4);
    let second = random.once_in(2).then(|| "second".to_owned()).filter(|_| is_pooled);
    let name = holder.user.clone();
    (!random.once_in(4)).then(|| Configured {
        name,
        password: is_pooled.then_some(password),
        second,
    })
}

fn attempt(name: &str, password: &str, from: Ipv4Addr, tls: Tls) -> Attempt {
    Attempt {
        name: name.to_owned(),
        password: password.to_owned(),
        door: Door::Tcp(from),
        tls,
        changes: usize::MAX,
        scramble: Scramble::Right,
        certificate: Certificate::Any,
    }
}

/// Logs in and looks. The client stays where it is let in.
fn try_it(attempt: &Attempt, target: &Target, site: &Site) -> (Outcome, Option<Client>) {
    match attempt.log_in(target, site.keys(target)) {
        Ok(mut client) => {
            let outcome = told(look(&mut client));
            let client = Some(client).filter(|_| outcome.is_in());
            (outcome, client)
        }
        Err(error) => (Outcome::of(&error), None),
    }
}

fn told(seen: Result<Outcome, Problem>) -> Outcome {
    seen.unwrap_or_else(|error| Outcome::of(&error))
}

/// A message without the names in it.
fn reason(message: &str) -> String {
    let parts = message.split('\'').enumerate();
    let kept: Vec<_> = parts.map(|(at, part)| if at % 2 == 0 { part } else { "…" }).collect();
    kept.join("'").chars().map(|it| if it.is_ascii_digit() { '#' } else { it }).take(160).collect()
}
