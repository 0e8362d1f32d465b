//! Runs drivers' suites each way to a private server, and compares what they say test by test.
//!
//! Judges by results alone; the suites know nothing of Flifo. Invariants: the first way is what the
//! others are compared with; a difference without an explanation, an explanation without a difference
//! and a failure on the first way fail the command; the document changes only if all is well.

mod certificate;
pub(crate) mod compare;
mod debian;
pub(crate) mod document;
mod java;
pub(crate) mod lines;
pub(crate) mod outcomes;
mod perl;
mod python;
pub(crate) mod suites;

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use bench::folder::Folder;
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::process::Running;

use self::certificate::Certificate;
use self::compare::Explanations;
use self::document::Report;
use self::outcomes::{Outcome, Results};
pub(crate) use self::suites::Suite;
use self::suites::{Ready, Target};
use crate::repository;
use crate::ways::{Passage, Setup, Wait, Way};

/// What to run.
pub(crate) struct Plan {
    /// None: all of them.
    pub(crate) suites: Vec<Suite>,
    pub(crate) ways: Vec<Way>,
    pub(crate) clients_max: u32,
    /// Backends that pooled clients share.
    pub(crate) backends: Option<u32>,
    /// A client with other settings is there as well.
    pub(crate) noise: bool,
    pub(crate) flifo: PathBuf,
}

pub(crate) fn run(plan: &Plan, interrupt: &Interrupt) -> Result<()> {
    ensure!(1 < plan.ways.len(), "nothing to compare: --modes needs two ways");
    let suites = if plan.suites.is_empty() { &Suite::ALL[..] } else { &plan.suites };
    let known = read_explanations()?.with_backends(plan.backends);
    let mut faults = Vec::new();
    for suite in suites {
        let found = run_suite(*suite, plan, &known, interrupt)?;
        faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", suite.name())));
    }
    ensure!(
        faults.is_empty(),
        "the suites do not come out as {EXPLAINED} has it; explain or repair:\n  {}",
        faults.join("\n  ")
    );
    Ok(())
}

/// Returns what is wrong with the outcome, and writes it down if nothing is.
fn run_suite(
    suite: Suite,
    plan: &Plan,
    known: &Explanations,
    interrupt: &Interrupt,
) -> Result<Vec<String>> {
    eprintln!("{}: fetch, build", suite.name());
    let ready = suite.prepare(interrupt)?;
    let stage = Stage::open(plan)?;
    let version = stage.server.sql("SELECT VERSION()")?;
    let mut runs = Vec::new();
    for way in &plan.ways {
        eprintln!("{}: {}", suite.name(), way.name());
        let run = run_way(suite, &ready, *way, plan, &stage, interrupt);
        let results = run.with_context(|| format!("{}, {}", suite.name(), way.name()))?;
        runs.push((*way, results));
    }
    let (differences, faults) = judge(suite.name(), &runs, known);
    let report = Report {
        title: &ready.title,
        server: version.trim(),
        runs: &runs,
        differences: &differences,
    };
    let section = document::render(&report);
    println!("{section}");
    if faults.is_empty() && plan.is_for_the_document() {
        let path = repository::root().join(DOCUMENT);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {DOCUMENT}"))?;
        let text = document::replace(&text, suite.name(), &section).context(DOCUMENT)?;
        fs::write(&path, text).with_context(|| format!("cannot write {DOCUMENT}"))?;
    }
    Ok(faults)
}

impl Plan {
    fn is_for_the_document(&self) -> bool {
        let is_usual = self.backends.is_none() && !self.noise;
        is_usual && self.ways == [Way::Direct, Way::PassThrough, Way::Pooled]
    }
}

/// A server with all that the suites want of one, and how the proxies in front of it are set up.
struct Stage {
    server: PrivateServer,
    setup: Setup,
    certificate: Certificate,
    /// Holds the certificate as long as a program may read it.
    _folder: Folder,
}

impl Stage {
    fn open(plan: &Plan) -> Result<Self> {
        let folder = Folder::create()?;
        let certificate = Certificate::make(folder.path())?;
        let mut builder = PrivateServer::builder()
            .argument(format!("--ssl-cert={}", certificate.cert.display()))
            .argument(format!("--ssl-key={}", certificate.key.display()));
        for argument in SERVER {
            builder = builder.argument(argument);
        }
        let server = builder.start()?;
        let setup = Setup {
            flifo: plan.flifo.clone(),
            limit: LIMIT,
            connections_max: plan.backends.unwrap_or(CONNECTIONS_MAX),
            clients_max: plan.clients_max,
            // A suite may hold more backends at once than few are, each waiting for another.
            wait: if plan.backends.is_some() { Wait::Brief } else { Wait::Patient },
            tls: Some((certificate.cert.clone(), certificate.key.clone())),
        };
        Ok(Self { server, setup, certificate, _folder: folder })
    }
}

fn run_way(
    suite: Suite,
    ready: &Ready,
    way: Way,
    plan: &Plan,
    stage: &Stage,
    interrupt: &Interrupt,
) -> Result<Results> {
    for database in suite.databases() {
        // With an alphabet that holds what the suites write.
        stage.server.sql(&format!(
            "DROP DATABASE IF EXISTS {database}; \
             CREATE DATABASE {database} CHARACTER SET utf8mb4"
        ))?;
    }
    let mut passage = Passage::open(way, &stage.server, &stage.setup, interrupt)?;
    let target = Target {
        port: passage.port,
        user: PrivateServer::ADMIN,
        other_user: PrivateServer::USER,
        password: stage.server.password().to_owned(),
        ca: stage.certificate.cert.clone(),
    };
    let noise = plan.noise.then(|| Noise::start(ready, &target, way, stage)).transpose()?;
    let log = ready.folder().join(format!("{}.log", way.name()));
    let mut results = Results::new();
    let read = |line: &str| suite.format().read(line, &mut results);
    let status = lines::follow(suite.name(), ready.command(&target), &log, interrupt, read)?;
    passage.check()?;
    noise.map_or(Ok(()), Noise::check)?;
    ensure!(
        suite.is_complete(status),
        "the suite did not run to its end ({status}); see {}",
        log.display()
    );
    let skipped = results.values().filter(|it| **it == Outcome::Skipped).count();
    ensure!(
        skipped < results.len() / 2,
        "{skipped} of {} tests were skipped: the suite has not found its server; see {}",
        results.len(),
        log.display()
    );
    Ok(results)
}

/// A client that is there while a suite runs, and looks at its own session all the time.
struct Noise {
    client: Running,
    log: PathBuf,
}

impl Noise {
    fn start(ready: &Ready, target: &Target, way: Way, stage: &Stage) -> Result<Self> {
        stage.server.sql(NOISE)?;
        let log = ready.folder().join(format!("{}-noise.log", way.name()));
        let out = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = ready.noise(target)?;
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        Ok(Self { client: Running::start("the client that makes noise", command)?, log })
    }

    /// It never ends by itself, unless it has met what is not its own.
    fn check(mut self) -> Result<()> {
        let Some(status) = self.client.ended()? else { return Ok(()) };
        let said = fs::read_to_string(&self.log).unwrap_or_default();
        bail!("the client that makes noise has ended ({status}): {}", said.trim())
    }
}

/// Lists what differs or fails, and what of it is not as explained.
fn judge<'a>(
    suite: &str,
    runs: &[(Way, Results)],
    known: &'a Explanations,
) -> (Vec<compare::Difference<'a>>, Vec<String>) {
    let Some(((first, reference), others)) = runs.split_first() else { return Default::default() };
    let mut all = Vec::new();
    let mut faults = Vec::new();
    let mut take = |way: Way, found: Vec<compare::Difference<'a>>| {
        let unexplained = found.iter().filter(|one| one.why.is_none());
        faults.extend(unexplained.map(|one| format!("`{}` {}", one.test, way.name())));
        let stale = compare::stale(suite, way.name(), &found, known);
        faults.extend(stale.iter().map(|test| {
            format!("`{test}` {}: explained, but there is nothing to explain", way.name())
        }));
        all.extend(found);
    };
    take(*first, compare::failures(suite, first.name(), reference, known));
    for (way, results) in others {
        take(*way, compare::differences(suite, way.name(), reference, results, known));
    }
    (all, faults)
}

fn read_explanations() -> Result<Explanations> {
    let path = repository::root().join(EXPLAINED);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {EXPLAINED}"))?;
    toml::from_str(&text).context(EXPLAINED)
}

const NOISE: &str = "CREATE OR REPLACE DATABASE noise; \
    CREATE TABLE noise.note (id INT AUTO_INCREMENT PRIMARY KEY, v INT)";

const DOCUMENT: &str = "docs/compatibility.md";
const EXPLAINED: &str = "xtask/drivers/explained.toml";

/// More than any suite has at once: what waits is another test's affair.
const LIMIT: u32 = 64;
const CONNECTIONS_MAX: u32 = 100;

/// What the suites want of a server: values of 20 MiB; the attributes of sessions in a table, which
/// takes memory for each connection that there may be.
const SERVER: [&str; 3] =
    ["--max-allowed-packet=64M", "--performance-schema=ON", "--max-connections=500"];

#[cfg(test)]
mod tests {
    use super::*;

    fn results(outcome: Outcome) -> Results {
        [("a".to_owned(), outcome)].into()
    }

    #[test]
    fn a_failure_on_the_first_way_is_a_fault_even_if_nothing_differs() {
        let runs = [Way::Direct, Way::Pooled].map(|way| (way, results(Outcome::Failed)));
        let known = Explanations::default();
        let (all, faults) = judge("go", &runs, &known);
        assert_eq!((all.len(), faults), (1, vec!["`a` direct".to_owned()]));
    }

    #[test]
    fn the_explanations_are_well_formed() {
        let known = read_explanations().expect("is well formed");
        let suites = Suite::ALL.map(Suite::name);
        let ways = ["direct", "pass-through", "pooled", "haproxy"];
        for one in &known.difference {
            assert!(suites.contains(&one.suite.as_str()), "{one:?}");
            assert!(one.ways.iter().all(|way| ways.contains(&way.as_str())), "{one:?}");
            assert!(!one.ways.is_empty() && !one.why.contains('|'), "{one:?}");
        }
    }
}
