//! `cargo xtask rule-cost`: what rules cost a statement that they let pass.
//!
//! Runs Flifo under callgrind with different rules, and compares the instructions of a statement: time plays no part.
//! What a new digest costs, of which nothing is remembered, is timed in this process. Only what is promised fails it.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::table::{Colours, Table, TableCell};
use engine::intent::Digest;
use engine::statement::judge::Judge;
use engine::statement::rule::{Condition, Rule};
use engine::statement::rules::{Moment, Rules, SessionFacts};
use wire::lex::Dialect;
use wire::text::Lexed;

use crate::callgrind::{Proxy, Watched};

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Statements of each client that are counted.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    statements: u32,
}

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let server = PrivateServer::start_default()?;
    let folder = server.folder().display().to_string();
    let mut table = Table::new(&["rules", "instructions a statement", "ratio", "bound"]);
    let (mut none, mut worst) = (None, Vec::new());
    for (what, rules, bound) in [
        ("none", String::new(), None),
        ("100 by user and digest", by_user_and_digest(), Some(RATIO_MAX)),
        ("1000 expressions over digests, known ones", expressions(), Some(RATIO_MAX)),
        ("100 that ask for the moment", of_the_moment(), None),
        ("a firewall that protects", firewall(&folder)?, None),
    ] {
        let watched = Watched::start_with(flifo, &server, LIMIT, &rules, interrupt)?;
        work(&watched.proxy, WARM_UP)?;
        let counted = watched.count(|| work(&watched.proxy, extent.statements))?;
        drop(watched);
        let each = instructions(&counted) as f64 / f64::from(CLIENTS * extent.statements);
        let ratio = each / *none.get_or_insert(each);
        if bound.is_some_and(|bound| bound < ratio) {
            worst.push(what);
        }
        let bound = bound.map_or(String::new(), |bound| format!("{bound:.2}"));
        table.row(vec![
            TableCell::plain(what),
            TableCell::plain(format!("{each:.0}")),
            TableCell::plain(format!("{ratio:.4}")),
            TableCell::plain(bound),
        ]);
    }
    print!("{}", table.render(Colours::Off));
    let nanos = new_digest()?;
    println!(
        "1000 expressions take {nanos:.0} ns of a digest that is new (at most {NEW_DIGEST_MAX:.0})"
    );
    ensure!(worst.is_empty(), "these rules cost more than promised: {}", worst.join(", "));
    ensure!(nanos <= NEW_DIGEST_MAX, "a new digest costs more than promised");
    Ok(())
}

/// Half of them are of this user, and of statements that do not come.
fn by_user_and_digest() -> String {
    let mut text = String::new();
    for at in 0..100 {
        let user = if at % 2 == 0 { PrivateServer::USER } else { "another" };
        let _ = write!(
            text,
            "[[rules]]\nname = \"r{at}\"\nrefuse = true\n\
             match = {{ user = {user:?}, digest = \"SELECT c FROM t{at} WHERE id = ?\" }}\n"
        );
    }
    text
}

fn expression(at: usize) -> String {
    format!("^select .* from table_{at}_[a-z]+ where (id|name|k{at}) = ")
}

fn expressions() -> String {
    (0..1000).fold(String::new(), |mut text, at| {
        let _ = write!(
            text,
            "[[rules]]\nname = \"r{at}\"\nrefuse = true\nmatch.digest_matches = {:?}\n",
            expression(at)
        );
        text
    })
}

fn of_the_moment() -> String {
    (0..100).fold(String::new(), |mut text, at| {
        let _ = write!(
            text,
            "[[rules]]\nname = \"r{at}\"\nrefuse = true\n\
             match = {{ in_transaction = true, tag = {{ app = \"a{at}\" }} }}\n"
        );
        text
    })
}

/// It knows what comes, and as many other forms as an application may have.
fn firewall(folder: &str) -> Result<String> {
    let file = format!("{folder}/forms");
    let others = (0..1000).map(|at| format!("SELECT c FROM t{at} WHERE id = ?\n"));
    std::fs::write(&file, others.chain(["SELECT ?\n".to_owned()]).collect::<String>())?;
    Ok(format!(
        "[[rules]]\nname = \"wall\"\nfirewall = {{ mode = \"protect\", file = {file:?} }}\n"
    ))
}

/// Nanoseconds that rules take of a statement whose digest is new. The median of several rounds.
fn new_digest() -> Result<f64> {
    let rule = |at: usize| Rule {
        name: format!("r{at}"),
        conditions: vec![Condition::DigestMatches(expression(at))],
        ..Rule::default()
    };
    let rules: Vec<_> = (0..1000).map(rule).collect();
    let timed = |rules: &[Rule]| -> Result<f64> {
        let rules = Rules::new(rules, None, Instant::now()).map_err(anyhow::Error::msg)?;
        let mut judge = Judge::new(Arc::new(rules));
        let session =
            SessionFacts { user: b"app", schema: Some(b"shop"), ..SessionFacts::default() };
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            let texts: Vec<_> = (0..DIGESTS)
                .map(|at| format!("SELECT c{round}_{at} FROM t WHERE id = 1"))
                .collect();
            let lexed: Vec<_> = texts.iter().map(|_| Lexed::default()).collect();
            let texts = texts.iter().zip(&lexed);
            let texts: Vec<_> = texts
                .map(|(text, lexed)| lexed.text(text.as_bytes(), Dialect::default()))
                .map(|text| (Digest::of(text), text))
                .collect();
            let begun = Instant::now();
            for (digest, text) in texts {
                black_box(judge.judge(&session, digest, Some(text), &Moment::default()));
            }
            rounds.push(begun.elapsed().as_secs_f64() * 1e9 / f64::from(DIGESTS));
        }
        rounds.sort_by(f64::total_cmp);
        Ok(rounds[rounds.len() / 2])
    };
    // One rule reads a new digest as well: what is promised is what so many expressions add.
    Ok((timed(&rules)? - timed(&rules[..1])?).max(0.0))
}

/// Fewer clients than the limit ask, each so often.
fn work(proxy: &Proxy, statements: u32) -> Result<()> {
    proxy.work(CLIENTS, |client| {
        for number in 0..statements {
            let answer = client.query(&format!("SELECT {number}"));
            ensure!(answer.is_ok(), "a statement fails: {answer:?}");
        }
        Ok(())
    })
}

/// All that callgrind has counted: the sum stands in its last lines.
fn instructions(text: &str) -> u64 {
    let sum = |line: &str| line.strip_prefix("totals: ")?.trim().parse().ok();
    text.lines().rev().find_map(sum).unwrap_or_default()
}

const LIMIT: u32 = 64;
/// Fewer than the limit.
const CLIENTS: u32 = 8;
const WARM_UP: u32 = 200;
const ROUNDS: u32 = 9;
const DIGESTS: u32 = 1000;
/// What is promised.
const RATIO_MAX: f64 = 1.02;
const NEW_DIGEST_MAX: f64 = 1000.0;
