//! Whether applications with their libraries' usual set-up share backends, and what that costs.
//!
//! Runs a little program of each library directly and through Flifo, with one connection or several and few requests or
//! many, and asks the server how many statements it was sent: the differences are what a connection costs and what a
//! request costs. Or, with `--beside`, sets Flifo up beside servers that others depend on, and takes that back. Invariants: every request is seen to have happened; a library that keeps its backends, or for which
//! Flifo sends statements of its own with each request, fails the command; the document changes only if none does.

mod beside;
pub(crate) mod libraries;
mod trees;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;

pub(crate) use self::beside::Beside;
pub(crate) use self::libraries::Library;
use self::libraries::{Program, Target};
use crate::drivers::{document, lines};
use crate::repository;
use crate::ways::{Passage, Setup, Wait, Way};

/// Sets Flifo up beside these servers, or beside each, and takes that back.
pub(crate) fn run_beside(
    kinds: &[Beside],
    kept: Option<&Path>,
    flifo: &Path,
    interrupt: &Interrupt,
) -> Result<()> {
    let kinds = if kinds.is_empty() { &Beside::ALL[..] } else { kinds };
    beside::run(kinds, kept, flifo, interrupt)
}

/// Runs these libraries' programs, or all there are, and writes the table if it was all.
pub(crate) fn run(only: &[Library], flifo: PathBuf, interrupt: &Interrupt) -> Result<()> {
    let libraries = if only.is_empty() { &Library::ALL[..] } else { only };
    let setup = Setup {
        flifo,
        limit: LIMIT,
        connections_max: CONNECTIONS_MAX,
        clients_max: 100,
        wait: Wait::Patient,
        tls: None,
    };
    let server = PrivateServer::builder().start()?;
    server.sql(&format!("CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4"))?;
    let mut found = Vec::new();
    for library in libraries {
        let one = measure(*library, &server, &setup, interrupt);
        let one = one.with_context(|| library.name().to_owned())?;
        eprintln!("{}", row(&one));
        found.push(one);
    }
    let version = server.sql("SELECT VERSION()")?;
    let section = render(version.trim(), &found);
    println!("{section}");
    let faults: Vec<_> = found.iter().filter_map(fault).collect();
    ensure!(faults.is_empty(), "not all is as it should be:\n  {}", faults.join("\n  "));
    if only.is_empty() {
        let path = repository::root().join(DOCUMENT);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {DOCUMENT}"))?;
        let text = document::replace(&text, "set-up", &section).context(DOCUMENT)?;
        fs::write(&path, text).with_context(|| format!("cannot write {DOCUMENT}"))?;
    }
    Ok(())
}

/// What was found of one library.
struct Found {
    /// Its name and version.
    title: String,
    direct: Cost,
    pooled: Cost,
    /// Why its backends were kept, and how often.
    pins: Vec<(String, u64)>,
}

/// Statements that the server was sent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cost {
    connection: f64,
    request: f64,
}

fn measure(
    library: Library,
    server: &PrivateServer,
    setup: &Setup,
    interrupt: &Interrupt,
) -> Result<Found> {
    let program = library.prepare(interrupt)?;
    let direct = run_way(&program, Way::Direct, server, setup, interrupt)?;
    let pooled = run_way(&program, Way::Pooled, server, setup, interrupt)?;
    Ok(Found { title: program.title, direct: direct.0, pooled: pooled.0, pins: pooled.1 })
}

fn run_way(
    program: &Program,
    way: Way,
    server: &PrivateServer,
    setup: &Setup,
    interrupt: &Interrupt,
) -> Result<(Cost, Vec<(String, u64)>)> {
    let passage = Passage::open(way, server, setup, interrupt)?;
    let target =
        Target { port: passage.port, user: PrivateServer::ADMIN, password: server.password() };
    let sent = |connections: u32, requests: u32| -> Result<f64> {
        server.sql(ITEM)?;
        let before = statements(server)?;
        let log = program.folder.join(format!("{}.log", way.name()));
        let command = program.command(&target, connections, requests);
        let status = lines::follow(program.name, command, &log, interrupt, |_| ())?;
        ensure!(status.success(), "{}: {status}; see {}", way.name(), log.display());
        let after = statements(server)?;
        let done: u32 = server.sql(&format!("SELECT v FROM {DATABASE}.item"))?.trim().parse()?;
        ensure!(done == connections * requests, "{}: {done} requests were made", way.name());
        Ok(after - before)
    };
    // What backends and set-ups cost the first time is not what they cost each time.
    sent(1, 1)?;
    let few = sent(1, FEW)?;
    let many = sent(1, MANY)?;
    let several = sent(SEVERAL, FEW)?;
    let request = (many - few) / f64::from(MANY - FEW);
    let connection = (several - few) / f64::from(SEVERAL - 1) - request * f64::from(FEW);
    let log = passage.close()?;
    Ok((Cost { connection, request }, pins(&log)))
}

/// How many statements the server has been sent, and asked to prepare.
fn statements(server: &PrivateServer) -> Result<f64> {
    let question = "SELECT SUM(VARIABLE_VALUE) FROM information_schema.GLOBAL_STATUS \
        WHERE VARIABLE_NAME IN ('QUESTIONS', 'COM_STMT_PREPARE')";
    let text = server.sql(question)?;
    text.trim().parse().with_context(|| format!("the server counts `{}`", text.trim()))
}

/// Reads what a proxy says at its end of backends that were kept.
fn pins(log: &str) -> Vec<(String, u64)> {
    let words = log.split([' ', '"']).filter_map(|word| word.strip_prefix("pins."));
    let pairs = words.filter_map(|word| word.split_once('='));
    pairs.filter_map(|(name, count)| Some((name.to_owned(), count.parse().ok()?))).collect()
}

fn fault(found: &Found) -> Option<String> {
    let extra = found.pooled.request - found.direct.request;
    if !found.pins.is_empty() {
        Some(format!("{}: backend connections are kept: {:?}", found.title, found.pins))
    } else if extra > NEARLY_NONE {
        Some(format!("{}: {extra:.2} statements more with each request", found.title))
    } else {
        None
    }
}

fn render(version: &str, found: &[Found]) -> String {
    let mut text = format!(
        "Server {version}; a pool of {CONNECTIONS_MAX} backend connections.\n\n\
         | library | stays shared | statements at a connection's start | pooled | statements of a \
         request | pooled |\n|---|---|---|---|---|---|\n"
    );
    for one in found {
        let _ = writeln!(text, "{}", row(one));
    }
    text
}

fn row(one: &Found) -> String {
    let shared = if one.pins.is_empty() { "yes" } else { "**no**" };
    let Found { title, direct, pooled, .. } = one;
    format!(
        "| {title} | {shared} | {} | {} | {} | {} |",
        number(direct.connection),
        difference(pooled.connection - direct.connection),
        number(direct.request),
        difference(pooled.request - direct.request),
    )
}

fn number(count: f64) -> String {
    let text = format!("{:.1}", count.abs());
    text.strip_suffix(".0").map_or_else(|| text.clone(), str::to_owned)
}

fn difference(count: f64) -> String {
    let number = number(count);
    match number.as_str() {
        "0" => "the same".to_owned(),
        _ if count < 0.0 => format!("{number} fewer"),
        _ => format!("{number} more"),
    }
}

const DOCUMENT: &str = "docs/compatibility.md";
const DATABASE: &str = "application";
const ITEM: &str = "CREATE OR REPLACE TABLE application.item (id INT PRIMARY KEY, v INT); \
    INSERT INTO application.item VALUES (1, 0)";

const LIMIT: u32 = 8;
/// Few, so that connections meet backends that others have used.
const CONNECTIONS_MAX: u32 = 2;

const FEW: u32 = 5;
const MANY: u32 = 55;
const SEVERAL: u32 = 11;
/// What a clock may bring into so many requests.
const NEARLY_NONE: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;

    fn found(extra: f64, pins: &[(&str, u64)]) -> Found {
        Found {
            title: "X 1".to_owned(),
            direct: Cost { connection: 3.0, request: 4.0 },
            pooled: Cost { connection: 1.5, request: 4.0 + extra },
            pins: pins.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        }
    }

    #[test]
    fn pins_are_read_from_the_end_of_a_log() {
        let log = r#"{"message":"worker ends","counters":"statements=3 pins.set=2 pins.xa=1"}"#;
        assert_eq!(pins(log), [("set".to_owned(), 2), ("xa".to_owned(), 1)]);
        assert_eq!(pins("pinned, for a start"), []);
    }

    #[test]
    fn a_kept_backend_and_a_dearer_request_are_faults() {
        assert_eq!(fault(&found(0.0, &[])), None);
        assert_eq!(fault(&found(-2.0, &[])), None);
        let kept = fault(&found(0.0, &[("set", 2)])).expect("is one");
        assert!(kept.contains("X 1: backend connections are kept"), "{kept}");
        let dear = fault(&found(1.0, &[])).expect("is one");
        assert_eq!(dear, "X 1: 1.00 statements more with each request");
    }

    #[test]
    fn a_row_says_what_is_more_and_what_is_fewer() {
        assert_eq!(row(&found(1.0, &[])), "| X 1 | yes | 3 | 1.5 fewer | 4 | 1 more |");
        assert!(
            row(&found(0.02, &[("set", 1)])).ends_with("| **no** | 3 | 1.5 fewer | 4 | the same |")
        );
    }
}
