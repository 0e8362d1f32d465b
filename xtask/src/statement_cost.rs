//! `cargo xtask statement-cost`: how many instructions a statement takes Flifo, outside of the kernel, and how often it
//! makes Flifo ask for memory, once its kind is known.
//!
//! Runs Flifo under callgrind, which does not scatter, and takes what a few statements cost from what many do: so logins
//! and what is new are not counted; nor is what is done by the clock, of which a slow machine has more. `--beside` runs
//! another build of Flifo as well.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::progress::Progress;
use bench::table::{Colours, Table, TableCell};
use testkit::fake_client::FakeClient;

use crate::callgrind::{Watched, instructions};

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// How often each client does what is counted.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    turns: u32,
    /// Another build of Flifo, whose instructions are the measure of the first.
    #[arg(long)]
    beside: Option<PathBuf>,
    /// Only what has this in its name.
    #[arg(long)]
    only: Option<String>,
    /// Where what callgrind wrote is kept, for `callgrind_annotate`: a file for each line of the table.
    #[arg(long)]
    profiles: Option<PathBuf>,
}

/// What clients do: its name, so many at once and so many statements at once in the server, so many statements in one
/// go.
struct Work {
    name: &'static str,
    clients: u32,
    limit: u32,
    statements: u32,
    once: fn(&mut FakeClient, Turn) -> Result<()>,
}

/// Which time a client does it.
#[derive(Clone, Copy)]
struct Turn {
    /// A number of the client's own, from 0: no two write the same row.
    client: u32,
    number: u32,
}

impl Turn {
    const fn row(self) -> u32 {
        (self.client * 16 + self.number % 16) % 1024
    }
}

const WORKS: &[Work] = &[
    Work { name: "a read", clients: 1, limit: 64, statements: 1, once: read },
    Work { name: "a read", clients: 8, limit: 64, statements: 1, once: read },
    Work { name: "a read, while others wait", clients: 64, limit: 2, statements: 1, once: read },
    Work { name: "a prepared read", clients: 1, limit: 64, statements: 1, once: execute },
    Work { name: "a prepared read", clients: 8, limit: 64, statements: 1, once: execute },
    Work { name: "a range of 100 rows", clients: 1, limit: 64, statements: 1, once: range },
    Work { name: "a range of 100 rows", clients: 8, limit: 64, statements: 1, once: range },
    Work { name: "a write", clients: 8, limit: 64, statements: 1, once: write },
    Work {
        name: "BEGIN, 14 reads, 4 writes, COMMIT",
        clients: 1,
        limit: 64,
        statements: 20,
        once: transact,
    },
    Work {
        name: "BEGIN, 14 reads, 4 writes, COMMIT",
        clients: 8,
        limit: 64,
        statements: 20,
        once: transact,
    },
];

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let server = PrivateServer::start_default()?;
    server.sql(&format!(
        "CREATE DATABASE counted; GRANT ALL ON counted.* TO {}@'%';\
         CREATE TABLE counted.t (a INT PRIMARY KEY, b INT, c CHAR(120) NOT NULL DEFAULT 'row');\
         INSERT INTO counted.t (a, b) SELECT seq, 0 FROM seq_0_to_2047",
        PrivateServer::USER
    ))?;
    if let Some(folder) = &extent.profiles {
        fs::create_dir_all(folder)?;
    }
    let mut columns = vec!["what", "clients", "limit", "instructions", "allocations"];
    columns.extend(extent.beside.as_ref().map(|_| ["beside", "ratio"]).into_iter().flatten());
    let mut table = Table::new(&columns);
    let mut most: f64 = 0.0;
    let asked = |work: &&Work| extent.only.as_ref().is_none_or(|only| work.name.contains(only));
    let mut progress = Progress::begin("statements", WORKS.iter().filter(asked).count() as u64);
    for (number, work) in WORKS.iter().enumerate().filter(|(_, work)| asked(work)) {
        let cost = count(work, extent, flifo, &server, interrupt)?;
        most = most.max(cost.allocations);
        if let Some(folder) = &extent.profiles {
            fs::write(folder.join(format!("{number}.callgrind")), &cost.profile)?;
        }
        let mut row = vec![
            TableCell::plain(work.name),
            TableCell::plain(work.clients.to_string()),
            TableCell::plain(work.limit.to_string()),
            TableCell::plain(format!("{:.0}", cost.instructions)),
            TableCell::plain(format!("{:.3}", cost.allocations)),
        ];
        if let Some(other) = &extent.beside {
            let other = count(work, extent, other, &server, interrupt)?.instructions;
            row.push(TableCell::plain(format!("{other:.0}")));
            row.push(TableCell::plain(format!("{:.3}", cost.instructions / other)));
        }
        table.row(row);
        progress.step(&format!("{}, {}: {:.0}", work.name, work.clients, cost.instructions));
    }
    drop(progress);
    println!("A statement, outside of the kernel:");
    print!("{}", table.render(Colours::Off));
    ensure!(
        most < BOUND,
        "a statement asks for memory {most:.3} times, which is more than {BOUND}"
    );
    Ok(())
}

/// What one statement costs.
struct Cost {
    instructions: f64,
    allocations: f64,
    /// What callgrind has written of the long run.
    profile: String,
}

fn count(
    work: &Work,
    extent: &Extent,
    flifo: &Path,
    server: &PrivateServer,
    interrupt: &Interrupt,
) -> Result<Cost> {
    let watched = Watched::start(flifo, server, work.limit, interrupt)?;
    let turns = extent.turns;
    let go = |turns: u32| {
        let next = AtomicU32::new(0);
        watched.proxy.work(work.clients, |client| {
            let own = next.fetch_add(1, Relaxed);
            // Prepared once for each client: its first statement.
            let text = "SELECT b, c FROM counted.t WHERE a = ?";
            let id = client.prepare(text).map_err(|it| anyhow!("not prepared: {it:?}"))?;
            ensure!(id == 1, "the first statement of a client has the number {id}");
            (0..turns).try_for_each(|number| (work.once)(client, Turn { client: own, number }))
        })
    };
    go(WARM_UP)?;
    let timed = |work: &dyn Fn() -> Result<()>| {
        let mut took = Duration::ZERO;
        let counted = watched.count(|| {
            let begun = Instant::now();
            work()?;
            took = begun.elapsed();
            Ok(())
        })?;
        anyhow::Ok((counted, took))
    };
    let (few, briefly) = timed(&|| go(WARM_UP))?;
    let (many, long) = timed(&|| go(WARM_UP + turns))?;
    let (idle, rest) = timed(&|| interrupt.sleep(REST))?;
    let done = f64::from(work.clients * turns * work.statements);
    let by_clock = long.saturating_sub(briefly).as_secs_f64() / rest.as_secs_f64();
    let each = |of: fn(&str) -> u64| {
        (of(&many) as f64 - of(&few) as f64 - of(&idle) as f64 * by_clock) / done
    };
    let (instructions, allocations) = (each(instructions), each(calls));
    Ok(Cost { instructions, allocations, profile: many })
}

fn read(client: &mut FakeClient, turn: Turn) -> Result<()> {
    ask(client, &format!("SELECT b, c FROM counted.t WHERE a = {}", turn.row()))
}

fn range(client: &mut FakeClient, turn: Turn) -> Result<()> {
    let from = turn.row();
    ask(client, &format!("SELECT c FROM counted.t WHERE a BETWEEN {from} AND {}", from + 99))
}

fn write(client: &mut FakeClient, turn: Turn) -> Result<()> {
    ask(client, &format!("UPDATE counted.t SET b = {} WHERE a = {}", turn.number, turn.row()))
}

/// As many statements as sysbench's read/write has.
fn transact(client: &mut FakeClient, turn: Turn) -> Result<()> {
    ask(client, "BEGIN")?;
    (0..14).try_for_each(|_| read(client, turn))?;
    (0..4).try_for_each(|_| write(client, turn))?;
    ask(client, "COMMIT")
}

fn ask(client: &mut FakeClient, text: &str) -> Result<()> {
    let answer = client.query(text);
    ensure!(answer.is_ok(), "{text}: {answer:?}");
    Ok(())
}

/// The read with a number for its row.
fn execute(client: &mut FakeClient, turn: Turn) -> Result<()> {
    let head = b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x03\0";
    let answer = client.command(&[&head[..], &turn.row().to_le_bytes()].concat());
    ensure!(answer.is_ok(), "an execute: {answer:?}");
    Ok(())
}

/// How often memory was asked for: callgrind names a function behind its number once, and says of each place that calls
/// it how often.
fn calls(dump: &str) -> u64 {
    const GIVE: &[&str] =
        &["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign"];
    let (mut known, mut is_one, mut calls) = (HashSet::new(), false, 0);
    for line in dump.lines() {
        match line.split_once('=') {
            Some((key @ ("fn" | "cfn"), name)) => {
                let (number, full) = name.split_once(' ').unwrap_or((name, ""));
                if GIVE.contains(&full) {
                    known.insert(number);
                }
                if key == "cfn" {
                    is_one = known.contains(number);
                }
            }
            Some(("calls", counts)) if is_one => {
                let count = counts.split(' ').next().and_then(|count| count.parse().ok());
                calls += count.unwrap_or(0);
            }
            _ => {}
        }
    }
    calls
}

const WARM_UP: u32 = 200;
/// How long it is counted what Flifo does by the clock, without clients.
const REST: Duration = Duration::from_secs(3);
/// What is promised is none. A map that grows, or a line that is longer than ever, asks now and then.
const BOUND: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_where_they_are_made() {
        let dump = "fn=(1) main\ncfn=(2) malloc\ncalls=3 5\n+2 20\ncfn=(3) free\ncalls=9 1\n\
                    fn=(4) other\ncfn=(2)\ncalls=4 1\n1 2\ncfn=(5) mallocator\ncalls=7 1\n\
                    fn=(6) realloc\n1 1\nfn=(7) x\ncfn=(6)\ncalls=2 1\n";
        assert_eq!(calls(dump), 3 + 4 + 2);
    }
}
