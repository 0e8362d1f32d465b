//! What is tried. Each attack ends at a given time, and says what its attackers have seen, or which promise was broken.

mod clients;
mod held;
mod noise;
mod strangers;

use std::time::{Duration, Instant};

use anyhow::{Result, anyhow};
use fastrand::Rng;

use super::target::{Leg, Target};

/// One attack.
#[derive(Clone, Copy)]
pub(super) struct Attack {
    pub(super) name: &'static str,
    /// Flifo's configuration: in front of its section `[server]`, and in it.
    pub(super) config: (&'static str, &'static str),
    pub(super) leg: Leg,
    /// How many descriptors Flifo may have; `None`: as many as this process.
    pub(super) descriptors: Option<u32>,
    /// Whether others are to be served as if nothing happened; not where the server itself is away, or all compete.
    pub(super) judges: bool,
    pub(super) run: fn(&Target<'_>, Instant) -> Result<String>,
}

const fn attack(name: &'static str, run: fn(&Target<'_>, Instant) -> Result<String>) -> Attack {
    let config = ("workers = 2", "");
    Attack { name, config, leg: Leg::Socket, descriptors: None, judges: true, run }
}

const fn with(config: (&'static str, &'static str), attack: Attack) -> Attack {
    Attack { config, ..attack }
}

const fn not_judged(attack: Attack) -> Attack {
    Attack { judges: false, ..attack }
}

/// All of them, those that once succeeded first.
pub(super) const ATTACKS: [Attack; 32] = [
    attack("quoted names of Flifo's own user", strangers::quoted_names),
    attack("quoted names of a capped user", strangers::capped),
    Attack { leg: Leg::Tls, ..attack("REQUIRE by Flifo's certificate", strangers::required) },
    attack("rights that are gone", clients::revoked),
    attack("state of another schema's objects", clients::state),
    with(
        ("workers = 2", "limit = 4\nconnections_max = 8"),
        attack("unfinished long commands", clients::unfinished),
    ),
    attack("signals", held::signals),
    attack("guessing", strangers::guesses),
    Attack {
        descriptors: Some(256),
        ..attack("more clients than descriptors", strangers::descriptors)
    },
    not_judged(attack("a killed server's log lines", held::killed_server)),
    with(("workers = 2", "connections_max = 24"), attack("a full server", clients::full_server)),
    attack("idle HTTP and console connections", strangers::idle_doors),
    with(("workers = 2", "connections_max = 16"), attack("one user's pins", clients::pins)),
    attack("HTTP for another host", strangers::other_hosts),
    attack("the anonymous account", strangers::anonymous),
    attack("CONNECTION_ID() in what is stored", clients::stored_numbers),
    with(
        ("workers = 1", "limit = 2\nconnections_max = 2"),
        not_judged(attack("backend connections of another kind", clients::other_kind)),
    ),
    with(
        ("workers = 4", "connections_max = 3"),
        not_judged(attack("100 clients in transactions, 3 backend connections", clients::unequal)),
    ),
    attack("broken logins", strangers::broken_logins),
    attack("broken commands", clients::broken_commands),
    attack("slow readers", clients::slow_readers),
    attack("half-open logins", strangers::half_open),
    attack("logins and farewells", strangers::storms),
    // The best limit for short statements is two or three here: behind long replies, others would wait for slots.
    with(("workers = 2", "limit = 16"), attack("clients that vanish", clients::vanish)),
    attack("machines that vanish with locks", clients::vanish_with_locks),
    attack("prepared statements", clients::prepared),
    attack("names that look like log lines", noise::forged_lines),
    attack("costly queries over HTTP", noise::costly_queries),
    attack("long prepared texts of many clients", noise::long_texts),
    with(
        (noise::MATCHES, ""),
        not_judged(attack("long texts that rules look through", noise::matched_texts)),
    ),
    not_judged(attack("a frozen server", held::frozen_server)),
    with(
        ("workers = 2\nlogs = { file = \"/dev/full\" }", ""),
        attack("a full disk under the log", held::full_disk),
    ),
];

/// Has so many attackers do something over and over until the end. Answers how often it was done.
fn repeat(attackers: usize, end: Instant, act: impl Fn(usize) -> Result<()> + Sync) -> Result<u64> {
    std::thread::scope(|scope| {
        let act = &act;
        let threads: Vec<_> = (0..attackers)
            .map(|attacker| {
                scope.spawn(move || {
                    super::others::be_nice();
                    let mut count = 0;
                    while Instant::now() < end {
                        act(attacker)?;
                        count += 1;
                    }
                    Ok::<u64, anyhow::Error>(count)
                })
            })
            .collect();
        let counts = threads.into_iter().map(|thread| {
            thread.join().unwrap_or_else(|_| Err(anyhow!("an attacker was left without an answer")))
        });
        counts.sum()
    })
}

/// Sleeps until the end.
fn wait(end: Instant) {
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
}

fn ms(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

/// Numbers without a pattern, the same in each run.
struct Dice(Rng);

impl Dice {
    fn of(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// Less than `below`.
    fn roll(&mut self, below: usize) -> usize {
        self.0.usize(..below)
    }

    /// Breaks some bytes: another value, one more, one less, or the end.
    fn spoil(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..1 + self.roll(4) {
            if bytes.is_empty() {
                return;
            }
            let at = self.roll(bytes.len());
            match self.roll(8) {
                0 => bytes.truncate(at),
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, self.roll(256) as u8),
                3 => bytes[at] = 0xff,
                _ => bytes[at] ^= 1 << self.roll(8),
            }
        }
    }
}
