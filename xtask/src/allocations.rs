//! `cargo xtask allocations`: how often a statement makes Flifo ask for memory, once its kind is known.
//!
//! Runs Flifo under callgrind, and reads how often the C library's functions were called that give memory out.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Result, anyhow, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::table::{Colours, Table, TableCell};
use testkit::fake_client::FakeClient;

use crate::callgrind::Watched;

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// How often each client does what is counted.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    turns: u32,
}

/// What clients do: its name, so many at once and so many statements at once in the server, so many statements in one
/// go.
struct Work {
    name: &'static str,
    clients: u32,
    limit: u32,
    statements: u32,
    once: fn(&mut FakeClient, u32) -> Result<()>,
}

const WORKS: &[Work] = &[
    Work { name: "a read", clients: 8, limit: 64, statements: 1, once: read },
    Work { name: "a read, while others wait", clients: 64, limit: 2, statements: 1, once: read },
    Work { name: "a prepared statement", clients: 8, limit: 64, statements: 1, once: execute },
    Work { name: "a write", clients: 8, limit: 64, statements: 1, once: write },
    Work {
        name: "BEGIN, a read, a write, COMMIT",
        clients: 8,
        limit: 64,
        statements: 4,
        once: transact,
    },
];

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let server = PrivateServer::start_default()?;
    server.sql(&format!(
        "CREATE DATABASE counted; GRANT ALL ON counted.* TO {}@'%';\
         CREATE TABLE counted.t (a INT PRIMARY KEY, b INT);\
         INSERT INTO counted.t SELECT seq, 0 FROM seq_0_to_63",
        PrivateServer::USER
    ))?;
    let mut table = Table::new(&["what", "clients", "limit", "allocations a statement"]);
    let mut most: f64 = 0.0;
    for Work { name, clients, limit, statements, once } in WORKS {
        let watched = Watched::start(flifo, &server, *limit, interrupt)?;
        let work = |turns: u32| {
            watched.proxy.work(*clients, |client| {
                // Prepared once for each client: its first statement.
                let id = client.prepare("DO ?").map_err(|it| anyhow!("not prepared: {it:?}"))?;
                ensure!(id == 1, "the first statement of a client has the number {id}");
                (0..turns).try_for_each(|turn| once(client, turn))
            })
        };
        // Logins and what is new take memory; they are the same in both.
        work(WARM_UP)?;
        let few = calls(&watched.count(|| work(WARM_UP))?);
        let many = calls(&watched.count(|| work(WARM_UP + extent.turns))?);
        let done = f64::from(clients * extent.turns * statements);
        let each = (many as f64 - few as f64) / done;
        most = most.max(each);
        table.row(vec![
            TableCell::plain(*name),
            TableCell::plain(clients.to_string()),
            TableCell::plain(limit.to_string()),
            TableCell::plain(format!("{each:.3}")),
        ]);
    }
    print!("{}", table.render(Colours::Off));
    ensure!(
        most < BOUND,
        "a statement asks for memory {most:.3} times, which is more than {BOUND}"
    );
    Ok(())
}

fn read(client: &mut FakeClient, turn: u32) -> Result<()> {
    ask(client, &format!("SELECT b FROM counted.t WHERE a = {}", turn % 64))
}

fn write(client: &mut FakeClient, turn: u32) -> Result<()> {
    ask(client, &format!("UPDATE counted.t SET b = {turn} WHERE a = {}", turn % 64))
}

fn transact(client: &mut FakeClient, turn: u32) -> Result<()> {
    ask(client, "BEGIN")?;
    read(client, turn)?;
    write(client, turn)?;
    ask(client, "COMMIT")
}

fn ask(client: &mut FakeClient, text: &str) -> Result<()> {
    let answer = client.query(text);
    ensure!(answer.is_ok(), "{text}: {answer:?}");
    Ok(())
}

/// `DO ?` with a number.
fn execute(client: &mut FakeClient, turn: u32) -> Result<()> {
    let head = b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x03\0";
    let answer = client.command(&[&head[..], &turn.to_le_bytes()].concat());
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
