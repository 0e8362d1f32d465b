//! `cargo xtask sysbench-matrix`: every database workload of sysbench's, with and without prepared
//! statements, for one client and for hundreds, each way. Correctness counts, speed is shown only.
//!
//! Owns the course, the verdict and the table; [`load`] runs sysbench. Invariant: succeeds only if
//! each cell went without an error, but for conflicts of transactions that the server has counted.

mod load;

use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::progress::Progress;
use bench::table::{Colours, Table, TableCell};

use self::load::{Load, Outcome, Preparation, Sysbench, Tables, WORKLOADS, Workload};
use crate::ways::{Passage, Setup, Wait, Way};

/// What is to be run.
#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Up to 64 clients, a second each.
    #[arg(long)]
    quick: bool,
    /// Length of a run.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Only these, such as oltp_insert.
    #[arg(long, value_delimiter = ',', value_parser = load::find)]
    workloads: Vec<&'static Workload>,
    #[arg(long, value_delimiter = ',', default_value = "direct,pass-through,pooled")]
    pub(crate) modes: Vec<Way>,
}

/// Runs all cells, and prints what came out of each.
pub(crate) fn run(extent: &Extent, flifo: PathBuf, interrupt: &Interrupt) -> Result<()> {
    let server = start_server()?;
    let setup = Setup {
        flifo,
        limit: 4,
        connections_max: 4,
        clients_max: 1000,
        wait: Wait::Patient,
        tls: None,
    };
    let mut ways = Vec::new();
    for way in &extent.modes {
        ways.push((*way, Passage::open(*way, &server, &setup, interrupt)?));
    }
    let rows = extent.rows();
    let mut progress = Progress::begin("sysbench", (rows.len() * ways.len()) as u64);
    let sysbench = Sysbench::find(server.password())?;
    let mut course =
        Course { server: &server, sysbench, there: None, seconds: extent.seconds(), interrupt };
    let mut done = Vec::new();
    let outcome = rows.into_iter().try_for_each(|row| {
        done.push((row, Vec::new()));
        let outcomes = &mut done.last_mut().expect("just pushed").1;
        ways.iter_mut().try_for_each(|(way, passage)| {
            progress.say(&format!("{}, {}", row.name(), way.name()));
            let outcome = course.run(row, passage)?;
            progress.step(&format!("{}, {}: {}", row.name(), way.name(), outcome.tell()));
            outcomes.push(outcome);
            passage.check()
        })
    });
    drop(progress);
    print!("{}", table(&extent.modes, &done).render(Colours::Off));
    outcome?;
    verdict(&extent.modes, &done)
}

impl Extent {
    fn seconds(&self) -> u32 {
        if self.quick { 1 } else { self.seconds }
    }

    /// The table's rows: those that need the same tables follow one another.
    fn rows(&self) -> Vec<Row> {
        let clients: &[u32] = if self.quick { &[1, 64] } else { &[1, 64, 512] };
        let mut rows = Vec::new();
        for workload in WORKLOADS.iter().filter(|it| self.wants(it)) {
            for preparation in [Preparation::Auto, Preparation::Disable] {
                rows.extend(clients.iter().map(|n| Row { workload, preparation, clients: *n }));
            }
        }
        rows
    }

    fn wants(&self, workload: &Workload) -> bool {
        self.workloads.is_empty() || self.workloads.iter().any(|it| it.name == workload.name)
    }
}

/// What is compared among the ways.
#[derive(Clone, Copy)]
struct Row {
    workload: &'static Workload,
    preparation: Preparation,
    clients: u32,
}

impl Row {
    fn name(self) -> String {
        let Self { workload, preparation, clients } = self;
        format!("{}, ps {}, {clients} clients", workload.name, preparation.name())
    }
}

struct Course<'a> {
    server: &'a PrivateServer,
    sysbench: Sysbench,
    /// The tables that are there, as a workload has left them.
    there: Option<(Tables, u32)>,
    seconds: u32,
    interrupt: &'a Interrupt,
}

impl Course<'_> {
    fn run(&mut self, row: Row, passage: &Passage) -> Result<Outcome> {
        let Row { workload, preparation, clients } = row;
        self.provide_tables(workload, clients)?;
        let load = Load { workload, preparation, clients, seconds: self.seconds };
        let before = self.conflicts()?;
        let mut outcome = self.sysbench.run(&load, passage.port, self.interrupt)?;
        outcome.conflicts = self.conflicts()?.saturating_sub(before);
        if workload.consumes {
            self.there = None;
        }
        Ok(outcome)
    }

    fn provide_tables(&mut self, workload: &Workload, clients: u32) -> Result<()> {
        let wanted = (workload.tables, workload.tables.count(clients));
        if self.there == Some(wanted) {
            return Ok(());
        }
        self.there = None;
        self.server.sql("CREATE OR REPLACE DATABASE sbtest")?;
        self.sysbench.prepare(workload, clients, self.server.port(), self.interrupt)?;
        self.there = Some(wanted);
        Ok(())
    }

    /// How often the server has ended a statement because of others' locks, since it started.
    fn conflicts(&self) -> Result<u64> {
        let answer = self.server.sql(CONFLICTS)?;
        answer.trim().parse().with_context(|| format!("the server counts {answer:?} conflicts"))
    }
}

fn table(ways: &[Way], rows: &[(Row, Vec<Outcome>)]) -> Table {
    let mut titles = vec!["statements/s", "ps", "clients"];
    titles.extend(ways.iter().map(|way| way.name()));
    titles.extend(["conflicts", "errors"]);
    let mut table = Table::new(&titles);
    for (row, outcomes) in rows {
        let mut cells = vec![
            TableCell::plain(row.workload.name),
            TableCell::plain(row.preparation.name()),
            TableCell::plain(row.clients.to_string()),
        ];
        let rate =
            |outcome: &Outcome| TableCell::plain(format!("{:.0}", outcome.statements_per_second));
        cells.extend(outcomes.iter().map(rate));
        cells.extend((outcomes.len()..ways.len()).map(|_| TableCell::plain("-")));
        let ignored: u64 = outcomes.iter().map(|outcome| outcome.ignored).sum();
        let errors = outcomes.iter().filter(|outcome| outcome.fault().is_some()).count();
        cells.extend([TableCell::plain(ignored.to_string()), TableCell::plain(errors.to_string())]);
        table.row(cells);
    }
    table
}

fn verdict(ways: &[Way], rows: &[(Row, Vec<Outcome>)]) -> Result<()> {
    let mut faults = Vec::new();
    for (row, outcomes) in rows {
        for (way, outcome) in ways.iter().zip(outcomes) {
            let fault = outcome.fault();
            faults.extend(fault.map(|it| format!("{}, {}: {it}", row.name(), way.name())));
        }
    }
    ensure!(!rows.is_empty(), "nothing was run");
    if !faults.is_empty() {
        bail!("{} runs went wrong:\n{}", faults.len(), faults.join("\n"));
    }
    Ok(())
}

/// 512 clients that prepare up to 38 statements each have more than the default of
/// `max_prepared_stmt_count`, 16382: without these settings they fail directly, too.
fn start_server() -> Result<PrivateServer> {
    PrivateServer::builder()
        .argument("--max-connections=2000")
        .argument("--max-prepared-stmt-count=1000000")
        .argument("--innodb-flush-log-at-trx-commit=0")
        .argument("--innodb-flush-method=nosync")
        .start()
}

const CONFLICTS: &str = "SELECT CAST(SUM(COUNT) AS UNSIGNED) FROM \
    information_schema.INNODB_METRICS WHERE NAME IN ('lock_deadlocks', 'lock_timeouts')";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_error_fails_the_whole() {
        let row = Row { workload: &WORKLOADS[0], preparation: Preparation::Auto, clients: 1 };
        let good = || Outcome { statements: 9, ..Outcome::default() };
        let ways = [Way::Direct, Way::Pooled];
        assert!(verdict(&ways, &[(row, vec![good(), good()])]).is_ok());
        assert!(verdict(&ways, &[]).is_err());
        let bad = Outcome { reconnects: 1, ..good() };
        let error = verdict(&ways, &[(row, vec![good(), bad])]).expect_err("fails");
        assert!(error.to_string().contains("pooled: 1 reconnects"), "{error}");
    }

    #[test]
    fn cells_that_were_not_run_do_not_shift_the_others() {
        let row = Row { workload: &WORKLOADS[0], preparation: Preparation::Disable, clients: 64 };
        let rows = [(row, vec![Outcome { statements: 1, ..Outcome::default() }])];
        let text = table(&[Way::Direct, Way::Pooled], &rows).render(Colours::Off);
        let last: Vec<&str> = text.lines().nth(1).expect("a row").split_whitespace().collect();
        assert_eq!(last[1..], ["disable", "64", "0", "-", "0", "0"]);
    }
}
