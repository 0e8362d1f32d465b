//! `cargo xtask beyond`: servers of another make stand behind Flifo: go-mysql-server, Dolt, Vitess.
//!
//! Each is built from its Go module outside of the repository and started on a free port. What it does directly is what
//! must come through Flifo, with users that are passed through and with configured ones: the workloads of `flifo bench`,
//! and drivers' suites. Owns the order and the tables; the servers are [`make`]'s. Invariants: what a server itself does
//! not run, or not twice alike, counts nothing; whatever comes out otherwise through Flifo fails the command.

mod failover;
mod leftovers;
mod load;
mod make;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use bench::folder::Folder;
use bench::interrupt::Interrupt;
use bench::workloads::OF_SYSBENCH;
use clap::Args;
use testkit::client::Client;
use testkit::flifo::Flifo;

use self::load::Table;
pub(crate) use self::make::Make;
use self::make::Standing;
use crate::drivers::compare::{self, Explanations};
use crate::drivers::outcomes::{Outcome, Results};
use crate::drivers::suites::{Ready, Target};
use crate::drivers::{Suite, lines};
use crate::ways::Way;

#[derive(Args)]
pub(crate) struct Extent {
    /// All of them, if none is named.
    #[arg(value_enum)]
    makes: Vec<Make>,
    /// Drivers' suites.
    #[arg(long, value_delimiter = ',', default_value = "go,mysql2")]
    suites: Vec<Suite>,
    /// Workloads; all of sysbench's, if none is named.
    #[arg(long, value_delimiter = ',')]
    workloads: Vec<String>,
    /// Where the servers are built, and are found by the next run. By default a temporary folder that is removed.
    #[arg(long, value_name = "FOLDER")]
    builds: Option<PathBuf>,
    /// How long each workload runs each way, in seconds.
    #[arg(long, default_value_t = 3)]
    seconds: u32,
    /// Clients of a workload.
    #[arg(long, default_value_t = 4)]
    clients: u32,
}

/// As these users clients log in, with the same password: the second is there to be changed to.
const USERS: [&str; 2] = ["beyond", "beyond2"];
const PASSWORD: &str = "beyond";
/// The schemas of the workloads and of the suites.
const SCHEMAS: [&str; 6] = ["sbtest", "gotest", "suite1", "suite2", "test1", "test2"];

const CONSOLE: &str = "console.sock";

const WAYS: [Way; 3] = [Way::Direct, Way::PassThrough, Way::Pooled];

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let makes = if extent.makes.is_empty() { &Make::ALL[..] } else { &extent.makes };
    let folder = Folder::create()?;
    let builds = extent.builds.as_deref().unwrap_or_else(|| folder.path());
    fs::create_dir_all(builds).with_context(|| format!("cannot make {}", builds.display()))?;
    let mut faults = Vec::new();
    for make in makes {
        let found = run_make(*make, extent, flifo, builds, interrupt);
        let found = found.with_context(|| make.name().to_owned())?;
        faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", make.name())));
    }
    ensure!(faults.is_empty(), "it is not as it is directly:\n  {}", faults.join("\n  "));
    Ok(())
}

/// Returns what is otherwise through Flifo.
fn run_make(
    make: Make,
    extent: &Extent,
    flifo: &Path,
    builds: &Path,
    interrupt: &Interrupt,
) -> Result<Vec<String>> {
    let program = make.build(builds, interrupt)?;
    eprintln!("{}: start", make.name());
    let server = make.start(&program, interrupt)?;
    let site = Site::start(&server, flifo)?;
    println!("## {}, {}\n", make.title(), site.version()?);
    let mut faults = workloads(&site, extent, flifo, interrupt)?;
    for suite in &extent.suites {
        faults.extend(run_suite(*suite, &site, interrupt)?);
    }
    site.pins()?;
    faults.extend(site.end());
    faults.extend(leftovers::run(make, &server, flifo)?);
    drop(server);
    faults.extend(failover::run(make, &program, flifo, interrupt)?);
    Ok(faults)
}

/// The configuration of a Flifo that has at most so many backends.
fn head(port: u16, connections_max: u32) -> String {
    format!(
        "workers = 1\nchecks.kind = \"connect\"\n[server]\naddress = \"127.0.0.1:{port}\"\nlimit = 8\n\
         connections_max = {connections_max}\naccount_terms = \"flifo\"\nread_definitions = \"off\"\n\
         [tls]\nmode = \"off\"\n"
    )
}

fn users() -> String {
    USERS.map(|user| format!("[[users]]\nname = {user:?}\npassword = {PASSWORD:?}\n")).concat()
}

/// A server with two Flifos in front of it. The fields are dropped in this order.
struct Site<'a> {
    passing: Flifo,
    pooling: Flifo,
    /// Has the socket of a console.
    folder: Folder,
    server: &'a Standing,
}

impl<'a> Site<'a> {
    fn start(server: &'a Standing, flifo: &Path) -> Result<Self> {
        let folder = Folder::create()?;
        let console = folder.path().join(CONSOLE);
        let (head, users) = (head(server.port, 64), users());
        let outside = format!("[console]\nlisten = [{console:?}]\n[http]\nlisten = []\n");
        Ok(Self {
            passing: Flifo::start_program(flifo, &head),
            pooling: Flifo::start_program(flifo, &format!("{head}{outside}{users}")),
            folder,
            server,
        })
    }

    fn port(&self, way: Way) -> u16 {
        match way {
            Way::PassThrough => self.passing.port(),
            Way::Pooled => self.pooling.port(),
            Way::Direct | Way::Haproxy => self.server.port,
        }
    }

    fn version(&self) -> Result<String> {
        let rows = self.server.client()?.query("SELECT VERSION()")?;
        Ok(rows.into_iter().flatten().next().unwrap_or_default())
    }

    /// Prints why clients have kept backends.
    fn pins(&self) -> Result<()> {
        let address = backend::Address::Unix(self.folder.path().join(CONSOLE));
        let rows = Client::builder(address, "admin", "").connect().and_then(|mut console| {
            console.query(
                "SELECT name, value FROM stats WHERE name LIKE 'pins.%' OR name LIKE 'backends%'",
            )
        });
        let rows = rows?;
        let mut text = String::new();
        for row in rows.iter().filter(|row| row.get(1).is_some_and(|count| count != "0")) {
            let _ = write!(text, " {}", row.join(" = "));
        }
        println!("Counted by Flifo:{text}\n");
        Ok(())
    }

    /// Stops the Flifos. Returns what is wrong with how they ended.
    fn end(self) -> Vec<String> {
        let ends = [("pass-through", self.passing.stop()), ("pooled", self.pooling.stop())];
        let bad = ends
            .into_iter()
            .filter(|(_, (status, log))| !status.success() || log.contains("panicked"));
        bad.map(|(way, (status, log))| format!("Flifo ({way}) has ended with {status}:\n{log}"))
            .collect()
    }
}

/// The workloads, each way that the server itself can run them.
fn workloads(
    site: &Site<'_>,
    extent: &Extent,
    flifo: &Path,
    interrupt: &Interrupt,
) -> Result<Vec<String>> {
    let (mut faults, mut rows) = (Vec::new(), Vec::new());
    let bench = &flifo.with_file_name("flifo-bench");
    let table = Table { bench, port: site.server.port, pid: site.server.pid() };
    let is_wanted =
        |it: &&&str| extent.workloads.is_empty() || extent.workloads.iter().any(|one| one == **it);
    for workload in OF_SYSBENCH.iter().filter(is_wanted).copied() {
        let mut row = vec![workload.to_owned()];
        for way in WAYS {
            eprintln!("{workload}: {}", way.name());
            table.make(interrupt)?;
            let run = load::run(
                &table,
                workload,
                site.port(way),
                extent.seconds,
                extent.clients,
                interrupt,
            );
            match run {
                Ok(rate) => row.push(rate.to_string()),
                Err(why) if why.is::<bench::interrupt::Interrupted>() => return Err(why),
                Err(why) if way == Way::Direct => {
                    row.push(format!("not run by the server itself: {why:#}"));
                    break;
                }
                Err(why) => {
                    row.push("**failed**".to_owned());
                    faults.push(format!("{workload}, {}: {why:#}", way.name()));
                }
            }
        }
        rows.push(row);
    }
    println!("| workload | direct, transactions/s | pass-through | pooled |\n|---|---|---|---|");
    for mut row in rows {
        row.resize(4, "–".to_owned());
        println!("| {} |", row.join(" | "));
    }
    println!();
    Ok(faults)
}

/// One driver's suite, twice directly and once each other way.
fn run_suite(suite: Suite, site: &Site<'_>, interrupt: &Interrupt) -> Result<Vec<String>> {
    eprintln!("{}: fetch, build", suite.name());
    let mut ready = suite.prepare(interrupt)?;
    let (first, stopping) = run_first(suite, &mut ready, site, interrupt)?;
    let mut unsteady: Vec<String> = Vec::new();
    let (again, _) = run_way(suite, &ready, site, Way::Direct, interrupt)?;
    let none = Explanations::default();
    let differ = compare::differences(suite.name(), "direct", &first, &again, &none);
    unsteady.extend(differ.into_iter().map(|it| it.test));
    let mut runs = vec![(Way::Direct, first)];
    let (mut faults, mut others) = (Vec::new(), Vec::new());
    for way in [Way::PassThrough, Way::Pooled] {
        let (results, stopped) = run_way(suite, &ready, site, way, interrupt)?;
        faults
            .extend(stopped.map(|it| format!("{}, {}: {it} stops all", suite.name(), way.name())));
        let differ = compare::differences(suite.name(), way.name(), &runs[0].1, &results, &none);
        for it in differ.iter().filter(|it| !unsteady.contains(&it.test)) {
            let name = |it: Option<Outcome>| it.map_or("not run", Outcome::name);
            let (direct, through) = (name(it.direct), name(it.through));
            let (suite, way) = (suite.name(), way.name());
            let told = format!("{suite}, {way}: {}: {direct} directly, {through} here", it.test);
            // What the server fails and Flifo answers is no loss.
            let is_better =
                it.direct != Some(Outcome::Passed) && it.through == Some(Outcome::Passed);
            let why = EXPLAINED.iter().find(|(whose, test, _)| {
                *whose == suite && it.test.starts_with(test) && it.through == Some(Outcome::Skipped)
            });
            match why {
                Some((.., why)) => others.push(format!("{told}: {why}")),
                None if is_better => others.push(told),
                None => faults.push(told),
            }
        }
        runs.push((way, results));
    }
    print_suite(&ready.title, &runs, &[&faults[..], &others[..]].concat());
    for (why, tests) in [
        ("Not twice alike directly, and not compared", &unsteady),
        (
            "Left out, because the suite ends with them where they fail, as they do directly",
            &stopping,
        ),
    ] {
        if !tests.is_empty() {
            println!("{why}: {}.\n", tests.join(", "));
        }
    }
    Ok(faults)
}

/// Runs the suite directly, without the tests that stop it there. Returns what came of it, and these tests.
fn run_first(
    suite: Suite,
    ready: &mut Ready,
    site: &Site<'_>,
    interrupt: &Interrupt,
) -> Result<(Results, Vec<String>)> {
    let mut stopping = Vec::new();
    loop {
        let (results, stopped) = run_way(suite, ready, site, Way::Direct, interrupt)?;
        let Some(test) = stopped else { return Ok((results, stopping)) };
        ensure!(!stopping.contains(&test), "{test} stops the suite although it is left out");
        stopping.push(test);
        ready.leave_out(&stopping);
    }
}

/// Tests that are skipped, and why that is right.
const EXPLAINED: &[(&str, &str, &str)] = &[(
    "go",
    "TestContextCancel",
    "Flifo kills the statement of a client that is gone; the test skips itself where it has not finished",
)];

fn print_suite(title: &str, runs: &[(Way, Results)], differ: &[String]) {
    println!("| {title} | tests | passed | failed | skipped |\n|---|---|---|---|---|");
    for (way, results) in runs {
        let count = |outcome| results.values().filter(|it| **it == outcome).count();
        let [passed, failed, skipped] =
            [Outcome::Passed, Outcome::Failed, Outcome::Skipped].map(count);
        println!("| {} | {} | {passed} | {failed} | {skipped} |", way.name(), results.len());
    }
    println!();
    for told in differ {
        println!("* {told}");
    }
    println!();
}

/// Returns what came of it, and the test that has stopped all, if one has.
fn run_way(
    suite: Suite,
    ready: &Ready,
    site: &Site<'_>,
    way: Way,
    interrupt: &Interrupt,
) -> Result<(Results, Option<String>)> {
    eprintln!("{}: {}", suite.name(), way.name());
    site.server.empty(suite.databases())?;
    let target = Target {
        port: site.port(way),
        user: USERS[0],
        other_user: USERS[1],
        password: PASSWORD.to_owned(),
        // Tests of TLS are skipped, or fail alike.
        ca: PathBuf::from("/dev/null"),
    };
    let log = ready.folder().join(format!("beyond-{}.log", way.name()));
    let mut results = Results::new();
    let read = |line: &str| suite.format().read(line, &mut results);
    let status = lines::follow(suite.name(), ready.command(&target), &log, interrupt, read)
        .with_context(|| format!("see {}", log.display()))?;
    ensure!(!results.is_empty(), "{} has run no test; see {}", suite.name(), log.display());
    if suite.is_complete(status) {
        return Ok((results, None));
    }
    let said = fs::read_to_string(&log).unwrap_or_default();
    let test = stopping_test(&said).with_context(|| {
        format!("{} has stopped ({status}); see {}", suite.name(), log.display())
    })?;
    Ok((results, Some(test.to_owned())))
}

/// The test that a Go program has ended in by a panic: the first one of the stack that it has printed.
fn stopping_test(said: &str) -> Option<&str> {
    let (_, stack) = said.rsplit_once("\npanic: ")?;
    let (_, rest) = stack.split_once("/mysql.Test")?;
    let name = rest.split(|it: char| !it.is_alphanumeric() && it != '_').next()?;
    let at = stack.len().checked_sub(rest.len() + "Test".len())?;
    stack.get(at..at + "Test".len() + name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_that_stops_a_suite_is_read_off_its_stack() {
        let said = "=== RUN TestA\n err; panic recovered\npanic: test executed panic(nil)\n\ngoroutine 7:\n\
            testing.tRunner.func1()\n\tt.go:1\ngithub.com/go-sql-driver/mysql.TestB_c.func1(0x1)\n\
            github.com/go-sql-driver/mysql.runTests.func2\n";
        assert_eq!(stopping_test(said), Some("TestB_c"));
        assert_eq!(stopping_test("=== RUN TestA\n--- FAIL: TestA\n"), None);
    }
}
