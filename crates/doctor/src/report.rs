//! What the doctor says: for people and for programs.
//!
//! Invariant: colours change nothing but colours.

use std::fmt::Write;

use serde::Serialize;

use crate::judgement::{Diagnosis, Verdict};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    On,
    Off,
}

/// What is ill with all that is known of it, then what is well, then what is not known.
pub fn text(server: &str, all: &[Diagnosis], colours: Colours) -> String {
    let mut out = format!("{}\n", if server.is_empty() { "this machine" } else { server });
    let with = |verdict| all.iter().filter(move |it| it.judgement.verdict == verdict);
    for it in with(Verdict::Bad).chain(with(Verdict::Warn)) {
        ill(it, colours, &mut out);
    }
    let rest: Vec<_> = with(Verdict::Ok).chain(with(Verdict::Unknown)).collect();
    if !rest.is_empty() {
        out.push('\n');
    }
    for it in rest {
        let title = it.finding.title;
        let verdict = paint(it.judgement.verdict, colours);
        let lines = wrapped(&it.judgement.evidence, WIDTH - WELL);
        // A string takes everything.
        let _ = writeln!(out, "{verdict}  {title:<34}  {}", lines.join(&format!("\n{:WELL$}", "")));
    }
    let counts = [Verdict::Bad, Verdict::Warn, Verdict::Ok, Verdict::Unknown]
        .map(|verdict| format!("{} {}", with(verdict).count(), verdict.to_string().to_lowercase()));
    let _ = writeln!(out, "\n{}", counts.join(", "));
    out
}

fn ill(it: &Diagnosis, colours: Colours, out: &mut String) {
    let (finding, judgement) = (it.finding, &it.judgement);
    let _ = writeln!(out, "\n{}  {}", paint(judgement.verdict, colours), finding.title);
    let mut say = |head: &str, text: &str| {
        for (at, line) in wrapped(text, WIDTH - ILL - 6).iter().enumerate() {
            let head = if at == 0 { head } else { "" };
            let _ = writeln!(out, "{:ILL$}{head:<6}{line}", "");
        }
    };
    say("seen", &judgement.evidence);
    say("why", finding.why);
    say("from", finding.source);
    if let Some(remedy) = &judgement.remedy {
        // A command stays on one line, so that it can be copied.
        let _ = writeln!(out, "{:ILL$}{:<6}{remedy}", "", "do");
    }
    if judgement.cure.is_some() {
        let _ = writeln!(out, "{:ILL$}{:<6}--fix can do it, and undo it", "", "");
    }
}

fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > width {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

fn paint(verdict: Verdict, colours: Colours) -> String {
    let code = match verdict {
        Verdict::Bad => "31;1",
        Verdict::Warn => "33",
        Verdict::Ok => "32",
        Verdict::Unknown => "2",
    };
    match colours {
        Colours::On => format!("\u{1b}[{code}m{verdict:>7}\u{1b}[0m"),
        Colours::Off => format!("{verdict:>7}"),
    }
}

#[derive(Serialize)]
struct Report<'a> {
    format: u32,
    server: &'a str,
    verdict: Verdict,
    findings: Vec<Entry<'a>>,
}

#[derive(Serialize)]
struct Entry<'a> {
    name: &'a str,
    title: &'a str,
    verdict: Verdict,
    evidence: &'a str,
    why: &'a str,
    source: &'a str,
    remedy: Option<&'a str>,
    fixable: bool,
}

pub fn json(server: &str, all: &[Diagnosis]) -> serde_json::Result<String> {
    let findings = all.iter().map(|Diagnosis { finding, judgement }| Entry {
        name: finding.name,
        title: finding.title,
        verdict: judgement.verdict,
        evidence: &judgement.evidence,
        why: finding.why,
        source: finding.source,
        remedy: judgement.remedy.as_deref(),
        fixable: judgement.cure.is_some(),
    });
    let findings = findings.collect();
    serde_json::to_string_pretty(&Report { format: FORMAT, server, verdict: worst(all), findings })
}

/// The worst that is known.
pub fn worst(all: &[Diagnosis]) -> Verdict {
    all.iter().map(|it| it.judgement.verdict).max().unwrap_or(Verdict::Unknown)
}

/// Grows when a field changes its meaning.
const FORMAT: u32 = 1;
const WIDTH: usize = 110;
/// Where the text begins behind a verdict, and behind a title.
const ILL: usize = 9;
const WELL: usize = 45;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{healthy, pin, proxy, server, set_variable};
    use crate::findings::diagnose;

    fn ill() -> Vec<Diagnosis> {
        let mut facts = healthy();
        pin(server(&mut facts), "1");
        pin(proxy(&mut facts), "1");
        set_variable(&mut facts, "query_cache_type", "ON");
        facts.machine.sched_ext = sys::tree::Seen::Unknown("hidden".to_owned());
        diagnose(&facts)
    }

    #[test]
    fn what_is_ill_comes_first_with_its_remedy() {
        let text = text("db", &ill(), Colours::Off);
        let at = |word: &str| text.find(word).unwrap_or_else(|| panic!("no {word:?} in {text}"));
        assert!(at("BAD  CPUs that may be used") < at("warn  Query cache"));
        assert!(at("warn  Query cache") < at("ok  Starvation"));
        assert!(at("ok  Starvation") < at("unknown  Scheduler"));
        at("do    taskset --all-tasks --cpu-list --pid 0-7 100; taskset");
        at("do    SET GLOBAL query_cache_type = OFF");
        at("--fix can do it");
        let count = ill().len() - 3;
        assert!(text.ends_with(&format!("\n1 bad, 1 warn, {count} ok, 1 unknown\n")), "{text}");
        assert!(!text.contains('\u{1b}') && !text.lines().any(|line| line.ends_with(' ')));
    }

    #[test]
    fn programs_are_told_the_same() {
        let report: serde_json::Value =
            serde_json::from_str(&json("db", &ill()).expect("is written")).expect("is read");
        assert_eq!(report["verdict"], "bad");
        let all = report["findings"].as_array().expect("is a list");
        let pinned = all.iter().find(|it| it["name"] == "pinned").expect("is there");
        assert_eq!((&pinned["verdict"], &pinned["fixable"]), (&"bad".into(), &true.into()));
        assert!(pinned["remedy"].as_str().is_some_and(|it| it.starts_with("taskset")));
    }

    #[test]
    fn colours_change_nothing_but_colours() {
        let mut coloured = text("db", &ill(), Colours::On);
        for code in ["31;1", "33", "32", "2", "0"] {
            coloured = coloured.replace(&format!("\u{1b}[{code}m"), "");
        }
        assert_eq!(coloured, text("db", &ill(), Colours::Off));
    }
}
