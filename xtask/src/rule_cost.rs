//! `cargo xtask rule-cost`: what rules cost a statement that they let pass.
//!
//! Runs Flifo under callgrind with different rules, and compares the instructions of a statement: time plays no part.
//! What a new digest costs, of which nothing is remembered, is timed in this process. Only what is promised fails it:
//! without rules no function of rules runs, and what is known of a statement costs no more for a thousand rules than for
//! one. `--write` makes the configuration of the same hundred rules, for a load test with and without them.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::table::{Colours, Table, TableCell};
use engine::intent::Digest;
use engine::statement::judge::Judge;
use engine::statement::rule::{Condition, Rule};
use engine::statement::rules::{Moment, Rules, SessionFacts};
use wire::lex::Dialect;
use wire::text::Lexed;

use crate::callgrind::{Proxy, Watched, instructions};

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Statements of each client that are counted.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    statements: u32,
    /// Only writes a hundred rules by user and digest into this file, as a part of a configuration.
    #[arg(long)]
    write: Option<PathBuf>,
    /// The user of half of the rules that are written.
    #[arg(long, default_value = PrivateServer::USER)]
    user: String,
}

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    if let Some(file) = &extent.write {
        std::fs::write(file, by_user_and_digest(&extent.user, 100))
            .with_context(|| format!("cannot write {}", file.display()))?;
        return Ok(());
    }
    let server = PrivateServer::start_default()?;
    let folder = server.folder().display().to_string();
    let mut table = Table::new(&["rules", "instructions a statement", "ratio", "bound"]);
    let (mut none, mut one, mut worst) = (None, None, Vec::new());
    let of_user = |count| by_user_and_digest(PrivateServer::USER, count);
    for (what, rules, bound) in [
        ("none", String::new(), None),
        ("1 by user and digest", of_user(1), Some(RATIO_MAX)),
        ("100 by user and digest", of_user(100), Some(RATIO_MAX)),
        ("1000 expressions over digests, known ones", expressions(), Some(RATIO_MAX)),
        ("100 that ask for the moment", of_the_moment(), None),
        ("a firewall that protects", firewall(&folder)?, None),
    ] {
        let watched = Watched::start_with(flifo, &server, LIMIT, &rules, interrupt)?;
        work(&watched.proxy, WARM_UP)?;
        let counted = watched.count(|| work(&watched.proxy, extent.statements))?;
        drop(watched);
        let each = instructions(&counted) as f64 / f64::from(CLIENTS * extent.statements);
        if rules.is_empty() {
            let functions = functions_of_rules(&counted);
            ensure!(functions.is_empty(), "without rules, these run: {}", functions.join(", "));
        }
        let ratio = each / *none.get_or_insert(each);
        if bound.is_some() {
            let to_one = each / *one.get_or_insert(each);
            if RATIO_MAX < ratio || MORE_MAX < to_one {
                worst.push(what);
            }
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
    if cfg!(debug_assertions) {
        println!("That holds for an optimized build: cargo run --release -p xtask -- rule-cost");
        return Ok(());
    }
    ensure!(nanos <= NEW_DIGEST_MAX, "a new digest costs more than promised");
    Ok(())
}

/// Half of them are of this user, and of statements that do not come.
fn by_user_and_digest(user: &str, count: usize) -> String {
    let mut text = String::new();
    for at in 0..count {
        let user = if at % 2 == 0 { user } else { "another" };
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

/// The functions of rules that have run, by callgrind's names of them. What a login notes of its client runs once for
/// each, and not with a statement.
fn functions_of_rules(text: &str) -> Vec<String> {
    const OF_RULES: [&str; 2] = ["features::ruled::", "engine::statement::"];
    const OF_LOGINS: &str = "state::came_by::CameBy::new";
    let functions = text.lines().filter_map(|line| line.strip_prefix("fn=")?.split_once(") "));
    let functions = functions.map(|(_, name)| name);
    let is_of_rules = |name: &&str| {
        OF_RULES.iter().any(|it| {
            name.starts_with(it) || {
                name.strip_prefix("proxy::").is_some_and(|name| name.starts_with(it))
            }
        })
    };
    let functions = functions.filter(is_of_rules).filter(|name| !name.ends_with(OF_LOGINS));
    functions.map(str::to_owned).collect()
}

const LIMIT: u32 = 64;
/// Fewer than the limit.
const CLIENTS: u32 = 8;
const WARM_UP: u32 = 200;
const ROUNDS: u32 = 9;
const DIGESTS: u32 = 1000;
/// What is promised.
const RATIO_MAX: f64 = 1.02;
/// Many rules to one: of statements that are known, no difference that can be measured.
const MORE_MAX: f64 = 1.005;
const NEW_DIGEST_MAX: f64 = 1000.0;
