//! `cargo xtask share-cost`: what shared reads cost a statement, and what a statement costs that gets another one's reply.
//!
//! Runs Flifo under callgrind and compares the instructions of a statement, where nothing is equal, with and without a
//! queue; then where all clients ask the same. Runs it as it is as well, and compares its CPU time, the kernel's work
//! for it included: instructions say nothing of the calls that are spared. Only instructions where nothing is equal, and
//! CPU time where all is, are promised.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::table::{Colours, Table, TableCell};
use testkit::fake_client::FakeClient;

use crate::callgrind::{Proxy, Watched, instructions};

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Statements of each client that are counted.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    statements: u32,
    /// Write what callgrind has counted of each case into this folder, for callgrind_annotate.
    #[arg(long)]
    profiles: Option<PathBuf>,
}

/// What clients ask, and how.
struct Case {
    what: &'static str,
    clients: u32,
    limit: u32,
    shares: bool,
    asks: Asks,
    /// The case that it is compared with.
    to: Option<usize>,
    /// At most so many of that one's instructions, or of its CPU time.
    instructions: Option<f64>,
    cpu: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// Each statement asks for a row that no other one asks for at the time.
    Different,
    Same,
}

const fn case(what: &'static str, clients: u32, limit: u32, shares: bool, asks: Asks) -> Case {
    Case { what, clients, limit, shares, asks, to: None, instructions: None, cpu: None }
}

const CASES: [Case; 5] = [
    case("not shared, no queue", 8, 64, false, Asks::Different),
    Case {
        to: Some(0),
        instructions: Some(1.01),
        ..case("shared, no queue, nothing equal", 8, 64, true, Asks::Different)
    },
    case("not shared, a queue", 64, 4, false, Asks::Different),
    Case {
        to: Some(2),
        instructions: Some(1.01),
        ..case("shared, a queue, nothing equal", 64, 4, true, Asks::Different)
    },
    Case {
        to: Some(2),
        cpu: Some(0.6),
        ..case("shared, a queue, all equal", 64, 4, true, Asks::Same)
    },
];

/// What a case has cost a statement.
struct Cost {
    instructions: f64,
    cpu: f64,
    /// The part of statements that got another one's reply.
    spared: f64,
}

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let server = PrivateServer::start_default()?;
    server.sql(&format!(
        "CREATE TABLE shared (id INT PRIMARY KEY, v VARCHAR(100)); \
         INSERT INTO shared SELECT seq, REPEAT('v', 100) FROM seq_1_to_{ROWS}"
    ))?;
    let mut table = Table::new(&[
        "reads",
        "instructions",
        "ratio",
        "bound",
        "CPU µs",
        "ratio",
        "bound",
        "spared",
    ]);
    let (mut costs, mut missed): (Vec<Cost>, _) = (Vec::new(), Vec::new());
    for case in &CASES {
        let cost = case.cost(extent, flifo, &server, interrupt)?;
        let to = case.to.and_then(|at| costs.get(at)).unwrap_or(&cost);
        let ratios = [cost.instructions / to.instructions, cost.cpu / to.cpu];
        let bounds = [case.instructions, case.cpu];
        if ratios.iter().zip(bounds).any(|(ratio, bound)| bound.is_some_and(|bound| *ratio > bound))
        {
            missed.push(case.what);
        }
        let bound = |bound: Option<f64>| bound.map_or(String::new(), |bound| format!("{bound:.2}"));
        table.row(vec![
            TableCell::plain(case.what),
            TableCell::plain(format!("{:.0}", cost.instructions)),
            TableCell::plain(format!("{:.3}", ratios[0])),
            TableCell::plain(bound(bounds[0])),
            TableCell::plain(format!("{:.1}", cost.cpu)),
            TableCell::plain(format!("{:.2}", ratios[1])),
            TableCell::plain(bound(bounds[1])),
            TableCell::plain(format!("{:.2}", cost.spared)),
        ]);
        costs.push(cost);
    }
    print!("{}", table.render(Colours::Off));
    stampede(flifo, &server, interrupt)?;
    ensure!(missed.is_empty(), "these cost more than promised: {}", missed.join(", "));
    Ok(())
}

/// A thousand clients ask for the same report within a moment.
fn stampede(flifo: &Path, server: &PrivateServer, interrupt: &Interrupt) -> Result<()> {
    let (mut rows, mut took) = (1, Duration::ZERO);
    let text = |rows: u32| {
        let shared = format!("{}.shared", PrivateServer::DATABASE);
        format!("SELECT SUM(a.id ^ b.id) FROM {shared} a JOIN {shared} b WHERE b.id <= {rows}")
    };
    let proxy = Proxy::start(Command::new(flifo), server, STAMPEDE_LIMIT, SHARES, interrupt)?;
    let mut clients = (0..STAMPEDE).map(|_| proxy.log_in()).collect::<Result<Vec<_>>>()?;
    while took < REPORT && rows < ROWS {
        rows *= 2;
        let begun = Instant::now();
        let answer = clients[0].query(&text(rows));
        ensure!(answer.is_ok(), "the report fails: {answer:?}");
        took = begun.elapsed();
    }
    let rows = (f64::from(rows) * REPORT.as_secs_f64() / took.as_secs_f64()).max(1.0) as u32;
    let mut alone: Vec<_> = (0..5)
        .map(|_| {
            let begun = Instant::now();
            clients[0].query(&text(rows)).map(|_| begun.elapsed())
        })
        .collect::<Result<_, _>>()
        .map_err(|error| anyhow::anyhow!("the report fails: {error:?}"))?;
    alone.sort_unstable();
    let alone = alone[alone.len() / 2];
    let mut most = 0;
    for _ in 0..ROUNDS {
        let before = selects(server)?;
        let begun = Instant::now();
        let packet = [&[3], text(rows).as_bytes()].concat();
        clients.iter_mut().for_each(|client| client.send_packet(0, &packet));
        let asked = begun.elapsed();
        for client in &mut clients {
            let answer = client.read_answer();
            ensure!(answer.is_ok(), "the report fails: {answer:?}");
        }
        let all = begun.elapsed();
        // The question itself is one.
        let runs = selects(server)? - before - 1;
        println!(
            "{STAMPEDE} clients asked for the same report of {:.0} ms within {:.0} ms: it was run {runs} times (at most \
             {RUNS_MAX}), and all were answered after {:.0} ms, {:.1} times as long as one takes",
            alone.as_secs_f64() * 1e3,
            asked.as_secs_f64() * 1e3,
            all.as_secs_f64() * 1e3,
            all.as_secs_f64() / alone.as_secs_f64(),
        );
        most = most.max(runs);
    }
    ensure!(most <= RUNS_MAX, "a stampede was run {most} times");
    Ok(())
}

impl Case {
    fn cost(
        &self,
        extent: &Extent,
        flifo: &Path,
        server: &PrivateServer,
        interrupt: &Interrupt,
    ) -> Result<Cost> {
        // These lines stand behind the user's.
        let more = if self.shares { SHARES } else { "" };
        let watched = Watched::start_with(flifo, server, self.limit, more, interrupt)?;
        self.work(&watched.proxy, WARM_UP)?;
        let counted = watched.count(|| self.work(&watched.proxy, extent.statements))?;
        drop(watched);
        if let Some(folder) = &extent.profiles {
            fs::create_dir_all(folder)?;
            fs::write(folder.join(self.what.replace([' ', ','], "_")), &counted)?;
        }
        let statements = f64::from(self.clients * extent.statements);
        let proxy = Proxy::start(Command::new(flifo), server, self.limit, more, interrupt)?;
        self.work(&proxy, WARM_UP)?;
        let cpu = || anyhow::Ok(sys::account::stat(proxy.pid())?.cpu.total());
        let mut rounds = Vec::new();
        let before = selects(server)?;
        for _ in 0..ROUNDS {
            let begun = cpu()?;
            self.work(&proxy, WEIGHED)?;
            let used = cpu()?.saturating_sub(begun);
            rounds.push(used.as_secs_f64() * 1e6 / f64::from(self.clients * WEIGHED));
        }
        let asked = f64::from(ROUNDS * self.clients * WEIGHED);
        let spared = 1.0 - (selects(server)? - before) as f64 / asked;
        ensure!(
            (self.asks == Asks::Same) == (spared > 0.5),
            "{}: {spared:.2} were spared",
            self.what
        );
        rounds.sort_by(f64::total_cmp);
        let cpu = rounds[rounds.len() / 2];
        Ok(Cost { instructions: instructions(&counted) as f64 / statements, cpu, spared })
    }

    fn work(&self, proxy: &Proxy, statements: u32) -> Result<()> {
        let next = AtomicU32::new(0);
        proxy.work(self.clients, |client| {
            let own = next.fetch_add(1, Relaxed);
            (0..statements).try_for_each(|number| self.ask(client, own, number))
        })
    }

    fn ask(&self, client: &mut FakeClient, own: u32, number: u32) -> Result<()> {
        let row = match self.asks {
            Asks::Different => 1 + (own * ROWS_EACH + number % ROWS_EACH) % ROWS,
            Asks::Same => 1,
        };
        // As long in both cases.
        let text = format!("SELECT v FROM {}.shared WHERE id = {row:04}", PrivateServer::DATABASE);
        let answer = client.query(&text);
        ensure!(answer.is_ok(), "a statement fails: {answer:?}");
        Ok(())
    }
}

/// Reads that the server has run.
fn selects(server: &PrivateServer) -> Result<u64> {
    let text = "SELECT variable_value FROM information_schema.global_status \
                WHERE variable_name = 'COM_SELECT'";
    server.sql(text)?.trim().parse().context("a number")
}

const SHARES: &str = "share_reads = \"on\"\n";
const STAMPEDE: usize = 1000;
const STAMPEDE_LIMIT: u32 = 64;
const REPORT: Duration = Duration::from_millis(50);
const RUNS_MAX: u64 = 3;

const ROWS: u32 = 6400;
const ROWS_EACH: u32 = 100;
const WARM_UP: u32 = 100;
const WEIGHED: u32 = 2_000;
const ROUNDS: u32 = 3;
