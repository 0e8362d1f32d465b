//! Wrong passwords, counted by account and by address: how long the next attempt waits before its password is looked
//! at.
//!
//! Three counts. Of an account from one address, attempts are let through one after the other, at distances that grow
//! with each wrong one: however many connections a guesser has, it gets no more of them. Of an address, whatever the
//! account, the same later and shorter: that is for a guesser that tries one password with many names. Of an account,
//! whatever the address, a delay that many attempts may spend at the same time: that is for guessers with many
//! addresses.
//!
//! The owner: where an account has logged in from an address before, only wrong attempts from there, as that account,
//! delay it. From elsewhere it waits no longer than the longest delays of the other two counts. A name that no account
//! has is counted like any other.
//!
//! Tables are of a fixed size, in which a secret chooses the places: filling them with other names makes nothing
//! forgotten. Two that fall into one place share its count, which costs a delay at most.

use std::hash::{BuildHasher, RandomState};
use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use super::name::UserName;

/// What is remembered of attempts, over all workers. The secret is a new one in each process; in tests it is fixed, so
/// that the same names fall into the same places in each run.
#[derive(Debug)]
pub struct Guesses<S = RandomState> {
    secret: S,
    pairs: Box<[Entry]>,
    addresses: Box<[Entry]>,
    accounts: Box<[Entry]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    wrong: u32,
    /// When the last wrong attempt was.
    last: Option<Instant>,
    /// When the next attempt may be looked at.
    next: Option<Instant>,
    /// The last wrong attempt has not been followed by a right one that the server has confirmed.
    is_suspect: bool,
    /// Which pair has had a right attempt here.
    known: Option<u64>,
}

/// How delays grow.
#[derive(Clone, Copy, Debug)]
struct Rule {
    /// So many wrong ones delay nothing.
    free: u32,
    max: Duration,
}

const PAIR: Rule = Rule { free: 5, max: Duration::from_secs(5) };
const ADDRESS: Rule = Rule { free: 30, max: Duration::from_secs(1) };
const ACCOUNT: Rule = Rule { free: 20, max: Duration::from_secs(1) };

/// The first delay. Each wrong attempt more doubles it.
const FIRST: Duration = Duration::from_millis(100);

/// After so long without a wrong attempt, half of them are forgotten.
const HALVED: Duration = Duration::from_mins(1);

const PAIRS: usize = 8192;
const OTHERS: usize = 2048;

impl<S: BuildHasher + Default> Default for Guesses<S> {
    fn default() -> Self {
        let table = |len| vec![Entry::default(); len].into_boxed_slice();
        Self {
            secret: S::default(),
            pairs: table(PAIRS),
            addresses: table(OTHERS),
            accounts: table(OTHERS),
        }
    }
}

impl<S: BuildHasher> Guesses<S> {
    /// An attempt begins: how long it waits before its password is looked at. `None`: that would be longer than it can
    /// wait; it is not looked at, and no attempt waits behind it. `from` is none on a Unix socket.
    pub fn begin(
        &mut self,
        name: &UserName,
        from: Option<IpAddr>,
        now: Instant,
        patience: Duration,
    ) -> Option<Duration> {
        let places = self.places(name, from);
        let pair = &mut self.pairs[places.pair];
        let is_known = pair.known == Some(places.mark);
        let address = Some(&mut self.addresses[places.address]).filter(|_| !is_known);
        let mut delay = pair.wait(PAIR, now);
        if let Some(address) = &address {
            delay = delay.max(address.wait(ADDRESS, now));
            delay = delay.max(self.accounts[places.account].delay(ACCOUNT, now));
        }
        if delay > patience {
            return None;
        }
        pair.queue(PAIR, now);
        if let Some(address) = address {
            address.queue(ADDRESS, now);
        }
        Some(delay)
    }

    /// Its password was wrong.
    pub fn is_wrong(&mut self, name: &UserName, from: Option<IpAddr>, now: Instant) {
        let places = self.places(name, from);
        self.pairs[places.pair].add(PAIR, now);
        self.addresses[places.address].add(ADDRESS, now);
        self.accounts[places.account].add(ACCOUNT, now);
    }

    /// Its password was right. Wrong ones from there count half: the next may be a guess again.
    pub fn is_right(&mut self, name: &UserName, from: Option<IpAddr>) {
        let places = self.places(name, from);
        let pair = &mut self.pairs[places.pair];
        pair.wrong /= 2;
        pair.known = Some(places.mark);
    }

    /// Whether the server has to be asked before a right password is believed: it may have locked the account for wrong
    /// ones (`max_password_errors`).
    pub fn is_suspect(&self, name: &UserName) -> bool {
        self.accounts[self.places(name, None).account].is_suspect
    }

    /// The server has let the account in.
    pub fn is_confirmed(&mut self, name: &UserName) {
        let place = self.places(name, None).account;
        self.accounts[place].is_suspect = false;
    }

    fn places(&self, name: &UserName, from: Option<IpAddr>) -> Places {
        let from = from.map(network);
        let place = |hash: u64, len: usize| (hash % len as u64) as usize;
        let mark = self.secret.hash_one((name, from));
        Places {
            mark,
            pair: place(mark, PAIRS),
            address: place(self.secret.hash_one(from), OTHERS),
            account: place(self.secret.hash_one(name), OTHERS),
        }
    }
}

struct Places {
    mark: u64,
    pair: usize,
    address: usize,
    account: usize,
}

/// An owner of IPv6 addresses has at least 2⁶⁴ of them.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        address => address,
    }
}

impl Entry {
    /// Wrong attempts that still count.
    fn counted(&self, now: Instant) -> u32 {
        let age = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        let halves = age.as_secs() / HALVED.as_secs();
        self.wrong.checked_shr(u32::try_from(halves).unwrap_or(u32::MAX)).unwrap_or(0)
    }

    fn add(&mut self, rule: Rule, now: Instant) {
        self.wrong = self.counted(now).saturating_add(1);
        self.last = Some(now);
        self.is_suspect = true;
        let next = now + self.delay(rule, now);
        self.next = Some(self.next.map_or(next, |at| at.max(next)));
    }

    fn delay(&self, rule: Rule, now: Instant) -> Duration {
        match self.counted(now).checked_sub(rule.free) {
            None | Some(0) => Duration::ZERO,
            Some(beyond) => (FIRST * 2_u32.saturating_pow((beyond - 1).min(16))).min(rule.max),
        }
    }

    /// How long one waits that comes behind others.
    fn wait(&self, rule: Rule, now: Instant) -> Duration {
        if self.delay(rule, now).is_zero() {
            return Duration::ZERO;
        }
        self.next.map_or(Duration::ZERO, |next| next.saturating_duration_since(now))
    }

    /// One more comes, and the next waits behind it.
    fn queue(&mut self, rule: Rule, now: Instant) {
        let distance = self.delay(rule, now);
        if !distance.is_zero() {
            self.next = Some(self.next.map_or(now, |next| next.max(now)) + distance);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasherDefault, DefaultHasher};

    use super::*;

    type Guesses = super::Guesses<BuildHasherDefault<DefaultHasher>>;

    const PATIENCE: Duration = Duration::from_secs(5);

    fn name(text: &str) -> UserName {
        UserName::of_account(text)
    }

    fn from(number: u32) -> Option<IpAddr> {
        Some(IpAddr::V4(std::net::Ipv4Addr::from(0x0a00_0000 + number)))
    }

    /// How many attempts of a guesser with so many connections are looked at in so many seconds.
    fn guessed(
        connections: u32,
        seconds: u64,
        attempt: impl Fn(u32) -> (UserName, Option<IpAddr>),
    ) -> u32 {
        let (mut guesses, begun) = (Guesses::default(), Instant::now());
        let mut due: Vec<_> = (0..connections).map(|number| (begun, number)).collect();
        let end = begun + Duration::from_secs(seconds);
        let mut looked_at = 0;
        while let Some(at) =
            (0..due.len()).min_by_key(|at| due[*at].0).filter(|at| due[*at].0 < end)
        {
            let (now, number) = due.swap_remove(at);
            let (name, from) = attempt(number);
            let Some(delay) = guesses.begin(&name, from, now, PATIENCE) else {
                due.push((now + Duration::from_secs(1), number + connections));
                continue;
            };
            let until = now + delay;
            if until < end {
                looked_at += 1;
                guesses.is_wrong(&name, from, until);
                due.push((until + Duration::from_millis(1), number + connections));
            }
        }
        looked_at
    }

    #[test]
    fn many_connections_guess_no_more_than_one() {
        for connections in [1, 200] {
            let count = guessed(connections, 60, |_| (name("app"), from(1)));
            assert!((10..40).contains(&count), "{count} guesses by {connections}");
        }
    }

    #[test]
    fn many_names_from_one_address_are_as_slow() {
        let count = guessed(200, 60, |number| (name(&number.to_string()), from(1)));
        assert!((60..150).contains(&count), "{count} guesses");
    }

    #[test]
    fn many_addresses_are_delayed_one_by_one() {
        let count = guessed(100, 20, |number| (name("app"), from(number % 100)));
        assert!(count < 100 * 15, "{count} guesses");
    }

    #[test]
    fn the_owner_gets_in_from_elsewhere() {
        let (mut guesses, now) = (Guesses::default(), Instant::now());
        let (app, owner) = (name("app"), from(2));
        guesses.is_right(&app, owner);
        for number in 0..1000 {
            guesses.is_wrong(&app, from(100 + number % 50), now);
        }
        assert_eq!(guesses.begin(&app, owner, now, PATIENCE), Some(Duration::ZERO), "known there");
        for _ in 0..100 {
            let delay = guesses.begin(&app, from(3), now, PATIENCE).unwrap();
            assert!(!delay.is_zero() && delay <= ACCOUNT.max, "{delay:?}");
        }
    }

    #[test]
    fn a_few_wrong_ones_delay_nothing_and_all_are_forgotten() {
        let (mut guesses, now) = (Guesses::default(), Instant::now());
        let app = name("app");
        for _ in 0..PAIR.free {
            assert_eq!(guesses.begin(&app, from(1), now, PATIENCE), Some(Duration::ZERO));
            guesses.is_wrong(&app, from(1), now);
        }
        guesses.is_wrong(&app, from(1), now);
        assert_eq!(guesses.begin(&app, from(1), now, PATIENCE), Some(FIRST));
        assert_eq!(
            guesses.begin(&app, from(1), now, PATIENCE),
            Some(FIRST * 2),
            "behind the other"
        );
        let later = now + HALVED * 10;
        assert_eq!(guesses.begin(&app, from(1), later, PATIENCE), Some(Duration::ZERO));
    }

    #[test]
    fn an_attempt_behind_a_flood_waits_no_longer_than_it_can() {
        let (mut guesses, now) = (Guesses::default(), Instant::now());
        for number in 0..100 {
            guesses.is_wrong(&name("app"), from(1), now);
            guesses.is_wrong(&name(&number.to_string()), from(1), now);
        }
        let flood = |guesses: &mut Guesses, user: &str| {
            (0..10_000)
                .filter(|_| guesses.begin(&name(user), from(1), now, PATIENCE).is_some())
                .count()
        };
        assert_eq!((flood(&mut guesses, "app"), flood(&mut guesses, "other")), (1, 4));
        // When they have been looked at, the next is.
        let later = now + PATIENCE + PAIR.max;
        for user in ["app", "other", "new"] {
            let delay = guesses.begin(&name(user), from(1), later, PATIENCE).expect("a place");
            assert!(delay <= PATIENCE, "{user}: {delay:?}");
        }
    }

    #[test]
    fn an_account_is_suspect_until_the_server_has_let_it_in() {
        let (mut guesses, now) = (Guesses::default(), Instant::now());
        let app = name("app");
        assert!(!guesses.is_suspect(&app));
        guesses.is_wrong(&app, from(1), now);
        guesses.is_right(&app, from(1));
        assert!(guesses.is_suspect(&app));
        guesses.is_confirmed(&app);
        assert!(!guesses.is_suspect(&app));
    }

    #[test]
    fn an_owner_of_many_addresses_has_one() {
        let address = |text: &str| network(text.parse().unwrap());
        assert_eq!(address("2001:db8::1"), address("2001:db8::2:3"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:10.0.0.1"), address("10.0.0.1"));
    }
}
