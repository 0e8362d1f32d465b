//! `cargo xtask rules`: whether the tests that are named for a rule fail when Flifo is built without it.
//!
//! Owns a copy of the repository under the target folder, in which one rule at a time is taken out; which they are
//! stands in `rules.toml`. Invariants: the tests pass before anything is taken out; each rule is put back before the
//! next goes; a program that does not build proves nothing, and fails the command.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use bench::interrupt::Interrupt;
use bench::progress::Progress;
use serde::Deserialize;

use crate::repository;
use crate::variant::{Copy, Edit};

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Only rules whose names contain this.
    #[arg(long, default_value = "")]
    only: String,
    /// Without so many rules at the beginning, which were tried before.
    #[arg(long, default_value_t = 0)]
    skip: usize,
}

pub(crate) fn run(extent: &Extent, interrupt: &Interrupt) -> Result<()> {
    let mut rules = read()?;
    rules.retain(|rule| rule.name.contains(&extent.only));
    rules.drain(..extent.skip.min(rules.len()));
    ensure!(
        !rules.is_empty(),
        "there is no rule whose name contains {:?} behind the first {}",
        extent.only,
        extent.skip
    );
    let copy = Copy::make("rules")?;
    link_plugins(&copy)?;
    let tests = build_tests(&copy)?;
    let mut progress = Progress::begin("rules", rules.len() as u64 + 1);
    let all: Vec<&str> = rules.iter().flat_map(Rule::tests).collect();
    copy.build("flifo").context("Flifo as it is")?;
    let failed = failing(&copy, &tests, &all)?;
    ensure!(failed.is_empty(), "these fail although no rule is missing: {}", failed.join(", "));
    progress.step(&format!("all {} tests pass with all rules", all.len()));
    let mut missed = 0;
    for rule in &rules {
        interrupt.check()?;
        let failed = copy.with(&rule.edit, |copy| {
            let context = || format!("what is left does not build without \"{}\"", rule.name);
            copy.build("flifo").with_context(context)?;
            failing(copy, &tests, &rule.tests().collect::<Vec<_>>())
        })?;
        let passed: Vec<_> =
            rule.tests().filter(|test| !failed.iter().any(|it| it == test)).collect();
        missed += passed.len();
        progress.step(&match passed.is_empty() {
            true => format!("without \"{}\", {} fail as they should", rule.name, failed.join(", ")),
            false => format!("WITHOUT \"{}\", STILL PASS: {}", rule.name, passed.join(", ")),
        });
    }
    ensure!(missed == 0, "{missed} tests do not see that their rule is missing");
    println!("each of {} rules is missed by every test that is named with it", rules.len());
    Ok(())
}

#[derive(Deserialize)]
struct Table {
    rule: Vec<Rule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    pub(crate) name: String,
    tests: Vec<String>,
    pub(crate) edit: Vec<Edit>,
}

impl Rule {
    fn tests(&self) -> impl Iterator<Item = &str> {
        self.tests.iter().map(String::as_str)
    }
}

pub(crate) fn read() -> Result<Vec<Rule>> {
    let table: Table = toml::from_str(include_str!("../rules.toml")).context("rules.toml")?;
    Ok(table.rule)
}

/// Tests look for the plugins of servers beside themselves.
fn link_plugins(copy: &Copy) -> Result<()> {
    let (plugins, here) = (repository::target().join("plugins"), copy.target().join("plugins"));
    ensure!(
        plugins.exists(),
        "there is no {}, where tests look for plugins of MariaDB: packaging/install-deps.sh makes it",
        plugins.display()
    );
    if !here.exists() {
        fs::create_dir_all(copy.target())
            .and_then(|()| std::os::unix::fs::symlink(&plugins, &here))
            .with_context(|| here.display().to_string())?;
    }
    Ok(())
}

/// Builds the tests, which know nothing of the rules, once. Returns their program.
fn build_tests(copy: &Copy) -> Result<PathBuf> {
    let mut build = copy.cargo();
    build.args(["test", "--no-run", "--package", "testkit", "--test", "it"]);
    build.arg("--message-format=json-render-diagnostics").stderr(Stdio::inherit());
    let output = build.output()?;
    ensure!(output.status.success(), "the tests do not build");
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str(line).ok());
    let mut programs = messages.filter_map(|it: serde_json::Value| {
        (it["target"]["name"] == "it").then(|| it["executable"].as_str().map(PathBuf::from))?
    });
    programs.next_back().context("cargo does not say where the tests are")
}

/// Runs these tests with the Flifo that was built last.
fn failing(copy: &Copy, program: &Path, tests: &[&str]) -> Result<Vec<String>> {
    let mut command = Command::new(program);
    // The tests build Flifo if need be, in the workspace that this folder is in.
    command.current_dir(copy.source().join("crates/testkit")).arg("--exact").args(tests);
    let output = command.output().context("the tests do not run")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let (mut failed, mut seen) = (Vec::new(), 0);
    for line in text.lines() {
        let Some((name, how)) = line.strip_prefix("test ").and_then(|it| it.split_once(" ... "))
        else {
            continue;
        };
        seen += 1;
        match how {
            "ok" => {}
            "FAILED" => failed.push(name.to_owned()),
            other => bail!("{name} was neither passed nor failed, but {other}"),
        }
    }
    let mut wanted = tests.to_vec();
    wanted.sort_unstable();
    wanted.dedup();
    ensure!(seen == wanted.len(), "{seen} tests ran, not {}:\n{text}", wanted.len());
    Ok(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::variant;

    #[test]
    fn every_rule_stands_where_the_table_says() {
        let rules = read().expect("reads");
        assert!(rules.len() > 20);
        for rule in &rules {
            let edited = variant::edited(&rule.edit).expect("each cut is there");
            assert!(!edited.is_empty() && !rule.tests.is_empty(), "{}", rule.name);
        }
    }

    #[test]
    fn every_test_of_the_table_is_there() {
        let folder = repository::root().join("crates/testkit/tests/it");
        for test in read().expect("reads").iter().flat_map(Rule::tests) {
            let (file, name) = test.split_once("::").expect("file::test");
            let text =
                fs::read_to_string(folder.join(format!("{file}.rs"))).expect("a file of tests");
            assert!(text.contains(&format!("fn {name}()")), "{test}");
        }
    }
}
