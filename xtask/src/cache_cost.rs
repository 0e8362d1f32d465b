//! `cargo xtask cache-cost`: what a statement costs Flifo whose reply is kept, and what a rule with a cache costs
//! statements that it does not match.
//!
//! Runs Flifo under callgrind, and compares the instructions of a statement; then as it is, and compares its CPU time, the
//! kernel's work for it included: instructions say nothing of the calls that are spared. CPU time is what is promised. The
//! server must not see a statement whose reply is kept.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::table::{Colours, Table, TableCell};

use crate::callgrind::{Proxy, Watched, instructions};

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Statements of each client that are counted.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    statements: u32,
    /// Write what callgrind has counted of each case into this folder, for callgrind_annotate.
    #[arg(long)]
    profiles: Option<PathBuf>,
}

/// A rule that matches the table, and what of its statements the server may see.
struct Case {
    what: &'static str,
    rule: &'static str,
    bound: Option<f64>,
    is_kept: bool,
}

const CASES: [Case; 3] = [
    Case { what: "no rule", rule: "", bound: None, is_kept: false },
    Case {
        what: "the reply is kept",
        rule: "[[rules]]\nname = \"kept\"\ncache = \"1h\"\nmatch.table = \"kept\"\n",
        bound: Some(0.6),
        is_kept: true,
    },
    Case {
        what: "a rule keeps other replies",
        rule: "[[rules]]\nname = \"kept\"\ncache = \"1h\"\nmatch.table = \"other\"\n",
        bound: None,
        is_kept: false,
    },
];

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let server = PrivateServer::start_default()?;
    // A user that does not see all definitions has no replies kept: something may stand behind a table.
    server.sql(&format!(
        "GRANT ALL ON *.* TO '{}'@'%'; CREATE TABLE kept (id INT PRIMARY KEY, v VARCHAR(100)); \
         INSERT INTO kept SELECT seq, REPEAT('v', 100) FROM seq_1_to_{ROWS}",
        PrivateServer::USER
    ))?;
    let mut table = Table::new(&["rules", "instructions", "ratio", "CPU µs", "ratio", "bound"]);
    let (mut none, mut missed) = (None, Vec::new());
    for case in CASES {
        let watched = Watched::start_with(flifo, &server, LIMIT, case.rule, interrupt)?;
        // Definitions are read meanwhile.
        work(&watched.proxy, WARM_UP)?;
        thread::sleep(SETTLES);
        work(&watched.proxy, WARM_UP)?;
        let before = selects(&server)?;
        let counted = watched.count(|| work(&watched.proxy, extent.statements))?;
        let seen = selects(&server)? - before;
        if let Some(folder) = &extent.profiles {
            fs::create_dir_all(folder)?;
            fs::write(folder.join(case.what.replace(' ', "_")), &counted)?;
        }
        drop(watched);
        let statements = CLIENTS * extent.statements;
        ensure!(
            !case.is_kept || seen < u64::from(statements) / 100,
            "the server has seen {seen} of {statements} statements whose replies are kept"
        );
        let each = instructions(&counted) as f64 / f64::from(statements);
        let cpu = weigh(flifo, &server, case.rule, interrupt)?;
        let (first_each, first_cpu) = *none.get_or_insert((each, cpu));
        let ratio = cpu / first_cpu;
        if case.bound.is_some_and(|bound| bound < ratio) {
            missed.push(case.what);
        }
        let bound = case.bound.map_or(String::new(), |bound| format!("{bound:.2}"));
        table.row(vec![
            TableCell::plain(case.what),
            TableCell::plain(format!("{each:.0}")),
            TableCell::plain(format!("{:.3}", each / first_each)),
            TableCell::plain(format!("{cpu:.1}")),
            TableCell::plain(format!("{ratio:.2}")),
            TableCell::plain(bound),
        ]);
    }
    print!("{}", table.render(Colours::Off));
    ensure!(missed.is_empty(), "these cost more than promised: {}", missed.join(", "));
    Ok(())
}

/// CPU time of a statement, in microseconds.
fn weigh(flifo: &Path, server: &PrivateServer, rule: &str, interrupt: &Interrupt) -> Result<f64> {
    let proxy = Proxy::start(Command::new(flifo), server, LIMIT, rule, interrupt)?;
    work(&proxy, WARM_UP)?;
    thread::sleep(SETTLES);
    work(&proxy, WARM_UP)?;
    let cpu = || anyhow::Ok(sys::account::stat(proxy.pid())?.cpu.total());
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        let begun = cpu()?;
        work(&proxy, WEIGHED)?;
        let used = cpu()?.saturating_sub(begun);
        rounds.push(used.as_secs_f64() * 1e6 / f64::from(CLIENTS * WEIGHED));
    }
    rounds.sort_by(f64::total_cmp);
    Ok(rounds[rounds.len() / 2])
}

/// Reads that the server has run.
fn selects(server: &PrivateServer) -> Result<u64> {
    let text = "SELECT variable_value FROM information_schema.global_status \
                WHERE variable_name = 'COM_SELECT'";
    server.sql(text)?.trim().parse().context("a number")
}

/// Clients ask for the same rows, again and again.
fn work(proxy: &Proxy, statements: u32) -> Result<()> {
    proxy.work(CLIENTS, |client| {
        for number in 0..statements {
            let text = format!(
                "SELECT v FROM {}.kept WHERE id = {}",
                PrivateServer::DATABASE,
                1 + number % ROWS
            );
            let answer = client.query(&text);
            ensure!(answer.is_ok(), "a statement fails: {answer:?}");
        }
        Ok(())
    })
}

const ROWS: u32 = 50;
const LIMIT: u32 = 64;
/// Fewer than the limit.
const CLIENTS: u32 = 8;
const WARM_UP: u32 = 200;
const WEIGHED: u32 = 5_000;
const ROUNDS: u32 = 5;
const SETTLES: Duration = Duration::from_secs(4);
