//! Measures `flifo bench compare` itself: does it find a slowdown that was planted, and nothing
//! between equal runs?
//!
//! `cargo run --release -p bench --example planted -- target/release/flifo 10 FOLDER` makes ten
//! trials of three runs each: two equal runs, one after the other, and one whose statements have a
//! twentieth more to do. One client lets the server hash: a twentieth more hashes is a twentieth
//! more work, whatever the machine. Every run has ten starts of a fresh private server. A trial
//! takes about two minutes. Files that are in the folder already are not measured again, and those
//! that were cut off are taken up, so that the trials can be made one by one.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use bench::compare::{Change, Verdict, compare};
use bench::results::{Ending, Measure, Results};

/// Hashes for a statement: more than a millisecond, so that what else it takes is little of it, and a twentieth more
/// hashes is a twentieth more time.
const HASHES: u32 = 8000;
/// A twentieth more.
const SLOWER: u32 = 8400;
const SHOWN: [Measure; 3] = [Measure::StatementsPerSecond, Measure::P5Ms, Measure::ServerCpuUs];

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let flifo = arguments.next().context("say where flifo is, and how many trials there are")?;
    let trials: u32 = arguments.next().map_or(Ok(10), |text| text.parse())?;
    let folder = PathBuf::from(arguments.next().context("say where the results are to be kept")?);
    fs::create_dir_all(&folder)?;
    let (mut found, mut quiet) = (0, 0);
    for trial in 1..=trials {
        let run = |name: &str, hashes| {
            run(&flifo, &folder, &format!("trial-{trial}-{name}.json"), hashes)
        };
        let old = run("old", HASHES)?;
        let same = run("same", HASHES)?;
        let slower = run("slower", SLOWER)?;
        let equal = compare(&old, &same).changes;
        let planted = compare(&old, &slower).changes;
        let is_found = planted.iter().any(|it| it.verdict == Verdict::Worse);
        let is_quiet = !equal.iter().any(is_change);
        found += u32::from(is_found);
        quiet += u32::from(is_quiet);
        println!("trial {trial}: {}", if is_found { "found" } else { "missed" });
        equal.iter().filter(|it| is_change(it)).for_each(|it| say("  FALSE ", it));
        let is_shown = |it: &&Change| SHOWN.contains(&it.measure);
        equal.iter().filter(is_shown).for_each(|it| say("  equal  ", it));
        planted.iter().filter(is_shown).for_each(|it| say("  planted", it));
    }
    println!("found {found} of {trials}; nothing between equal runs in {quiet} of {trials}");
    Ok(())
}

/// One run, as a user would have it; or what the folder has of it.
fn run(flifo: &str, folder: &Path, name: &str, hashes: u32) -> Result<Results> {
    let (script, json) = (folder.join("hash.sql"), folder.join(name));
    let read = || anyhow::Ok(serde_json::from_str::<Results>(&fs::read_to_string(&json)?)?);
    let there = json.exists().then(read).transpose()?;
    if let Some(results) = there.as_ref().filter(|it| it.ending == Ending::Complete) {
        return Ok(results.clone());
    }
    let text =
        format!("SELECT BENCHMARK({hashes}, SHA2(c, 256)) FROM sbtest{{table}} WHERE id={{id}};\n");
    fs::write(&script, text)?;
    let workload = format!("script:{}", script.display());
    let status = Command::new(flifo)
        .args(["bench", "run", "--start", "direct", "--tables", "1", "--rows", "10000"])
        .args(["--workloads", &workload, "--clients", "1", "--restarts", "10", "--rounds", "4"])
        .args(["--seconds", "0.3", "--warm-up", "0.05"])
        .arg(if there.is_some() { "--resume" } else { "--json" })
        .arg(&json)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    ensure!(status.success(), "flifo bench run ended with {status}");
    read()
}

fn is_change(change: &Change) -> bool {
    matches!(change.verdict, Verdict::Better | Verdict::Worse)
}

fn say(what: &str, change: &Change) {
    let Change { measure, ratio, interval, .. } = change;
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    if let (Some(ratio), Some((low, high))) = (ratio, interval) {
        println!(
            "{what} {measure:?}: {:+.1} % ({:+.1} to {:+.1})",
            percent(*ratio),
            percent(*low),
            percent(*high)
        );
    }
}
