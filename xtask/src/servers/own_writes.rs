//! Clients that keep a ledger each write a line and read it back at once, while servers fail, fall behind, keep apart,
//! are made `read_only`, drained and replaced. Each read that is answered must find the line, from whatever server it
//! comes; at the end, each line that was acknowledged is there, once.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use testkit::client::{Client, Problem};
use testkit::cluster::Cluster;

use super::faults::{Fault, Scene};
use super::{CHECKS, Findings, Kind, Over, Site, client, seconds};

#[derive(clap::Args)]
pub(crate) struct Extent {
    #[arg(long, value_enum, default_value = "replication")]
    kind: Kind,
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// What befalls servers, one after the other; by default, all that befalls servers of this kind.
    #[arg(long, value_enum, value_delimiter = ',')]
    faults: Vec<Fault>,
    /// The order of faults, and where they strike, by chance.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Each line is read back on a new connection, and found by `routing.reads_by = "user"`.
    #[arg(long)]
    anew: bool,
}

/// What all clients count.
#[derive(Default)]
struct Counts {
    pairs: AtomicU64,
    stale: AtomicU64,
    writes_refused: AtomicU64,
    reads_refused: AtomicU64,
    /// Of each fault, what was stale while it lasted, or in the second behind it.
    by_fault: Mutex<BTreeMap<String, u64>>,
    fault: Mutex<String>,
}

/// A client's lines, by what it was told.
#[derive(Default)]
struct Ledger {
    sure: HashSet<u64>,
    unsure: u64,
}

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let cluster = match extent.kind {
        Kind::Replication => Cluster::replicated(2),
        Kind::Galera => Cluster::clustered(3).context("there is no Galera on this machine")?,
    };
    let by = if extent.anew { "user" } else { "connection" };
    let routing = format!("[routing]\nmode = \"split\"\nreads_by = \"{by}\"\n");
    let mut site = Site::start(cluster, flifo, &format!("{CHECKS}{routing}"))?;
    site.client()?.query(
        "CREATE TABLE ledger (id BIGINT AUTO_INCREMENT PRIMARY KEY, client INT, n BIGINT, \
         KEY (client, n))",
    )?;
    let (counts, is_over) = (Counts::default(), AtomicBool::new(false));
    let begun = Instant::now();
    let (struck, ledgers) = thread::scope(|scope| {
        let (port, counts, is_over) = (site.flifo.port(), &counts, &is_over);
        let threads: Vec<_> = (0..extent.clients)
            .map(|number| scope.spawn(move || work((number, extent.anew), port, counts, is_over)))
            .collect();
        let over = Over(is_over);
        let struck = strike(extent, &mut site, counts, interrupt);
        drop(over);
        let ledgers = threads.into_iter().map(|it| it.join().expect("it does not panic"));
        let ledgers = ledgers.collect::<Result<Vec<_>>>()?;
        anyhow::Ok((struck?, ledgers))
    })?;
    let of = |count: &AtomicU64| count.load(Relaxed);
    let mut found = Findings::default();
    found.note("time", &seconds(begun.elapsed()));
    found.note("faults", &struck);
    found.note("lines that were written and read back", &of(&counts.pairs));
    found.note("writes that were refused, or may have been done", &of(&counts.writes_refused));
    found.note("reads that were refused", &of(&counts.reads_refused));
    let stale = of(&counts.stale);
    found.bound("stale reads", &stale, "0", stale == 0);
    for (fault, stale) in &*counts.by_fault.lock().expect("no thread panics with it") {
        found.note(&format!("stale reads: {fault}"), stale);
    }
    judge(&mut found, &mut site, &ledgers)?;
    found.print()
}

/// Writes a line, and reads it.
fn work(
    (number, anew): (u32, bool),
    port: u16,
    counts: &Counts,
    is_over: &AtomicBool,
) -> Result<Ledger> {
    let (mut client, mut ledger) = (client(port)?, Ledger::default());
    for n in 1_u64.. {
        if is_over.load(Relaxed) {
            break;
        }
        let insert = format!("INSERT INTO ledger (client, n) VALUES ({number}, {n})");
        // Some writes are transactions.
        let statements: &[&str] = match n % 5 {
            0 => &["BEGIN", &insert, "COMMIT"],
            _ => &[&insert],
        };
        match statements.iter().try_for_each(|text| client.query(text).map(drop)) {
            Ok(()) => {
                ledger.sure.insert(n);
            }
            Err(Problem::Refused { message, .. }) => {
                counts.writes_refused.fetch_add(1, Relaxed);
                ledger.unsure += u64::from(message.contains("may have been executed"));
                // A refusal (1290, by a writer that is none any more) does not end a transaction. It would go on there, and
                // be written when that server can be written to again, whatever that lacks by then.
                if client.query("ROLLBACK").is_err() {
                    client = again(port, is_over)?;
                }
                thread::sleep(Duration::from_millis(5));
                continue;
            }
            Err(_) => {
                ledger.unsure += 1;
                client = again(port, is_over)?;
                continue;
            }
        }
        if anew {
            client = again(port, is_over)?;
        }
        let text = format!("SELECT COUNT(*) FROM ledger WHERE client = {number} AND n = {n}");
        match client.query(&text) {
            Ok(rows) => {
                let is_there = rows.first().and_then(|row| row.first()).is_some_and(|it| it != "0");
                counts.pairs.fetch_add(1, Relaxed);
                if !is_there {
                    counts.stale.fetch_add(1, Relaxed);
                    let fault = counts.fault.lock().expect("no thread panics with it").clone();
                    let mut by_fault = counts.by_fault.lock().expect("no thread panics with it");
                    *by_fault.entry(fault).or_default() += 1;
                }
            }
            Err(Problem::Refused { .. }) => {
                counts.reads_refused.fetch_add(1, Relaxed);
            }
            Err(_) => client = again(port, is_over)?,
        }
    }
    Ok(ledger)
}

/// A connection that has ended is replaced.
fn again(port: u16, is_over: &AtomicBool) -> Result<Client> {
    loop {
        match client(port) {
            Err(_) if !is_over.load(Relaxed) => thread::sleep(Duration::from_millis(20)),
            connected => return connected,
        }
    }
}

/// Faults, one after the other, until the time is over. Answers with how many.
fn strike(extent: &Extent, site: &mut Site, counts: &Counts, interrupt: &Interrupt) -> Result<u64> {
    let all = Fault::all(extent.kind);
    let faults = if extent.faults.is_empty() { all } else { &extent.faults };
    ensure!(faults.iter().all(|it| all.contains(it)), "not of this kind: {faults:?}");
    let mut console = site.console()?;
    let (mut seed, mut struck) = (extent.seed | 1, 0);
    let until = Instant::now() + Duration::from_secs(extent.seconds);
    interrupt.sleep(Duration::from_secs(1))?;
    while Instant::now() < until {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        // Each comes in turn, so that a short time has all of them.
        let fault = faults[usize::try_from(struck)? % faults.len()];
        *counts.fault.lock().expect("no thread panics with it") = format!("{fault:?}");
        let mut scene = Scene {
            cluster: &mut site.cluster,
            console: &mut console,
            interrupt,
            kind: extent.kind,
            name: "db",
        };
        scene.befall(fault, usize::try_from(seed % 1000)?).with_context(|| format!("{fault:?}"))?;
        struck += 1;
        interrupt.sleep(Duration::from_secs(1))?;
    }
    Ok(struck)
}

/// Compares ledgers with what the writer has.
fn judge(found: &mut Findings, site: &mut Site, ledgers: &[Ledger]) -> Result<()> {
    let mut console = site.console()?;
    let roles = console.query("SHOW FULL SERVERS WHERE role = 'writer'")?;
    let name = roles.first().and_then(|row| row.first()).context("there is no writer")?;
    let at: usize = name.trim_start_matches("db").parse()?;
    let server: &PrivateServer = &site.cluster.servers[at - 1];
    let mut direct = client(server.port())?;
    let (mut lost, mut doubled, mut sure, mut unsure) = (0, 0, 0, 0);
    for (number, ledger) in ledgers.iter().enumerate() {
        let rows = direct
            .query(&format!("SELECT n, COUNT(*) FROM ledger WHERE client = {number} GROUP BY n"))?;
        let mut there = HashSet::new();
        for row in rows {
            let [n, count] = &row[..] else { bail!("a row has other columns: {row:?}") };
            there.insert(n.parse::<u64>()?);
            doubled += u64::from(count != "1");
        }
        lost += ledger.sure.difference(&there).count();
        sure += ledger.sure.len();
        unsure += ledger.unsure;
    }
    ensure!(sure > 0, "nothing was written");
    found.note("lines acknowledged", &sure);
    found.note("lines that may have been written, as clients were told", &unsure);
    found.bound("lines acknowledged and lost", &lost, "0", lost == 0);
    found.bound("lines that are there twice", &doubled, "0", doubled == 0);
    Ok(())
}
