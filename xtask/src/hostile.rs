//! `cargo xtask hostile`: what strangers, and clients with a password, do to be let in, to see what is others', or to
//! hold up others; and what comes of it.
//!
//! Owns the order of things and what is printed: of each attack, how long other clients wait before and beside it, what
//! memory Flifo takes, and what it counts. What is done is [`attacks`]'s, what it is done to [`target`]'s. Invariant: a
//! promise that is broken, or others that wait more than twice as long, make the command fail.

mod attacks;
mod others;
mod target;

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use bench::interrupt::Interrupt;
use bench::progress::Progress;
use bench::table::{Colours, Style, Table, TableCell, wrap};

use self::attacks::{ATTACKS, Attack};
use self::others::{Others, Waits};
use self::target::{Site, Target};

/// How much is run.
#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Only attacks whose names contain one of these.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// How long each attack lasts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// How often an attack is tried until others wait no longer than they may: these machines do other work as well.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,
}

/// What an attack came to.
struct Outcome {
    before: Waits,
    beside: Waits,
    /// Bytes that Flifo took at most, beyond what it had before.
    memory: u64,
    counted: Vec<(String, u64)>,
    /// What the attackers have seen, or the promise that was broken.
    seen: Result<String>,
}

/// How long others are watched before an attack.
const UNDISTURBED: Duration = Duration::from_secs(2);

/// More than this must not be taken by any attack: 16 clients' parts of commands, replies and prepared statements.
const MEMORY_MAX: u64 = 256 << 20;

/// What differs by less than this is the machine's.
const TICK: Duration = Duration::from_millis(1);

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let is_wanted = |attack: &&Attack| {
        extent.only.is_empty() || extent.only.iter().any(|part| attack.name.contains(part.as_str()))
    };
    let chosen: Vec<_> = ATTACKS.iter().filter(is_wanted).collect();
    ensure!(!chosen.is_empty(), "no attack is named so");
    let begun = Instant::now();
    let site = Site::start()?;
    let mut progress = Progress::begin("attacks", chosen.len() as u64);
    let mut table = Table::new(&["attack", "p99 before", "beside", "longest", "memory"]);
    let (mut notes, mut broken) = (Vec::new(), 0);
    for attack in chosen {
        let mut outcome = None;
        for _ in 0..extent.tries {
            interrupt.check()?;
            let length = Duration::from_secs(extent.seconds);
            let tried = try_it(&site, attack, flifo, length).unwrap_or_else(Outcome::broken);
            let is_kept = tried.is_kept(attack);
            outcome = Some(tried);
            if is_kept {
                break;
            }
        }
        let Some(outcome) = outcome else { continue };
        let is_kept = outcome.is_kept(attack);
        broken += u32::from(!is_kept);
        progress.step(if is_kept { attack.name } else { "BROKEN" });
        table.row(cells(attack, &outcome, is_kept));
        notes.push(note(attack, &outcome));
    }
    let is_terminal = std::io::stdout().is_terminal();
    print!("{}", table.render(if is_terminal { Colours::On } else { Colours::Off }));
    println!();
    notes.iter().for_each(|note| println!("{}", wrap(note)));
    println!(
        "{} s in all; watched are 4 pooled and 4 pass-through clients that ask each 2 ms, beside 8 that ask without a pause",
        begun.elapsed().as_secs()
    );
    ensure!(broken == 0, "{broken} promises are not kept");
    Ok(())
}

/// Watches others, attacks, and watches what becomes of them.
fn try_it(site: &Site, attack: &Attack, flifo: &Path, length: Duration) -> Result<Outcome> {
    let target = Target::start(site, flifo, attack)?;
    let others = attack.judges.then(|| Others::begin(&target)).transpose()?;
    let watch = |length| {
        std::thread::sleep(length);
        others.as_ref().map(Others::take).transpose()
    };
    watch(Duration::from_millis(300))?;
    let before = watch(if attack.judges { UNDISTURBED } else { Duration::ZERO })?;
    let (had, counted) = (target.flifo.memory(), target.faults()?);
    let end = Instant::now() + length;
    let (seen, memory) = std::thread::scope(|scope| {
        let attacker = scope.spawn(|| {
            others::be_nice();
            (attack.run)(&target, end)
        });
        let mut most = 0;
        while !attacker.is_finished() {
            most = most.max(target.memory());
            std::thread::sleep(Duration::from_millis(20));
        }
        let seen = attacker.join();
        (seen.unwrap_or_else(|_| Err(anyhow!("an attacker panicked; see above"))), most)
    });
    let beside = watch(Duration::ZERO)?;
    let counted = difference(&counted, &target.faults()?);
    if let Some(others) = others {
        others.end()?;
    }
    target.end()?;
    let (before, beside) = (before.unwrap_or_default(), beside.unwrap_or_default());
    Ok(Outcome { before, beside, memory: memory.saturating_sub(had), counted, seen })
}

fn difference(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let more = |(kind, count): (&String, &u64)| {
        let more = count.saturating_sub(before.get(kind).copied().unwrap_or_default());
        (more > 0).then(|| (kind.clone(), more))
    };
    after.iter().filter_map(more).collect()
}

impl Outcome {
    /// A client that does not attack met an error, or Flifo is gone.
    fn broken(error: anyhow::Error) -> Self {
        let (before, beside) = (Waits::default(), Waits::default());
        Self { before, beside, memory: 0, counted: Vec::new(), seen: Err(error) }
    }

    fn is_kept(&self, attack: &Attack) -> bool {
        let most = (self.before.p99 * 2).max(self.before.p99 + TICK);
        let is_undisturbed = !attack.judges || self.beside.p99 <= most;
        is_undisturbed && self.memory <= MEMORY_MAX && self.seen.is_ok()
    }
}

fn cells(attack: &Attack, outcome: &Outcome, is_kept: bool) -> Vec<TableCell> {
    let time = |time: Duration| match attack.judges {
        true => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        false => "-".to_owned(),
    };
    let (style, mark) = if is_kept { (Style::Plain, "") } else { (Style::Marked, "BROKEN: ") };
    vec![
        TableCell::new(format!("{mark}{}", attack.name), style),
        TableCell::plain(time(outcome.before.p99)),
        TableCell::new(time(outcome.beside.p99), style),
        TableCell::plain(time(outcome.beside.longest)),
        TableCell::plain(format!("{} MiB", outcome.memory >> 20)),
    ]
}

/// What the attackers saw, and what Flifo counted.
fn note(attack: &Attack, outcome: &Outcome) -> String {
    let seen = match &outcome.seen {
        Ok(seen) => seen.clone(),
        Err(error) => format!("BROKEN: {error:#}"),
    };
    let counted = outcome.counted.iter().map(|(kind, count)| format!("{count} {kind}"));
    let told: Vec<_> = [seen].into_iter().chain(counted).collect();
    format!("{}: {}", attack.name, told.join("; "))
}
