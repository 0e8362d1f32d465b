//! What a suite's runs look like in docs/compatibility.md, and where they stand there.
//!
//! Decides nothing. Invariant: only what stands between a suite's two marks is ever replaced.

use std::fmt::Write;

use anyhow::{Context, Result, ensure};

use super::compare::Difference;
use super::outcomes::{Outcome, Results};
use crate::ways::Way;

/// All ways of one suite.
pub(crate) struct Report<'a> {
    /// The driver and its version.
    pub(crate) title: &'a str,
    /// What the server calls its version.
    pub(crate) server: &'a str,
    pub(crate) runs: &'a [(Way, Results)],
    pub(crate) differences: &'a [Difference<'a>],
}

/// The suite's section, in Markdown.
pub(crate) fn render(report: &Report<'_>) -> String {
    let mut text = format!("### {}, server {}\n\n", report.title, report.server);
    text.push_str("| way | tests | passed | failed | skipped |\n|---|---|---|---|---|\n");
    for (way, results) in report.runs {
        let count = |outcome| results.values().filter(|it| **it == outcome).count();
        let _ = writeln!(
            text,
            "| {} | {} | {} | {} | {} |",
            way.name(),
            results.len(),
            count(Outcome::Passed),
            count(Outcome::Failed),
            count(Outcome::Skipped)
        );
    }
    if report.differences.is_empty() {
        text.push_str("\nAll tests pass or are skipped alike.\n");
        return text;
    }
    let first = report.runs.first().map_or("", |(way, _)| way.name());
    let _ = writeln!(text, "\n| test | way | {first} | there | why |\n|---|---|---|---|---|");
    for one in report.differences {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} |",
            one.test.replace('|', "\\|"),
            one.way,
            one.direct.map_or("not run", Outcome::name),
            one.through.map_or("not run", Outcome::name),
            one.why.unwrap_or("**not explained**")
        );
    }
    text
}

/// Puts a suite's section between its marks.
pub(crate) fn replace(document: &str, suite: &str, section: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- drivers: {suite} -->\n"), "<!-- end -->\n");
    let lacks = || format!("it lacks the marks `{}` and `{}`", begin.trim(), end.trim());
    let (before, rest) = document.split_once(&begin).with_context(lacks)?;
    let (old, after) = rest.split_once(end).with_context(lacks)?;
    ensure!(!old.contains("<!--"), lacks());
    Ok(format!("{before}{begin}{section}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_counts_and_explains() {
        let passed: Results = [("a".to_owned(), Outcome::Passed)].into();
        let failed: Results = [("a".to_owned(), Outcome::Failed)].into();
        let difference = |why| Difference {
            test: "a".to_owned(),
            way: "pooled",
            direct: Some(Outcome::Passed),
            through: None,
            why,
        };
        let runs = [(Way::Direct, passed), (Way::Pooled, failed)];
        let differences = [difference(Some("because")), difference(None)];
        let report = Report { title: "X 1", server: "10", runs: &runs, differences: &differences };
        let text = render(&report);
        assert!(
            text.contains("| direct | 1 | 1 | 0 | 0 |\n| pooled | 1 | 0 | 1 | 0 |\n"),
            "{text}"
        );
        assert!(text.contains("| `a` | pooled | passed | not run | because |\n"), "{text}");
        assert!(text.ends_with("| passed | not run | **not explained** |\n"), "{text}");
    }

    #[test]
    fn only_its_own_section_is_replaced() {
        let text =
            "a\n<!-- drivers: x -->\nold\n<!-- end -->\nb\n<!-- drivers: y -->\nz\n<!-- end -->\n";
        let new = replace(text, "x", "new\n").expect("has the marks");
        assert_eq!(new, text.replace("old", "new"));
        assert!(replace(text, "z", "new\n").is_err());
        let broken = "<!-- drivers: x -->\n<!-- drivers: y -->\n<!-- end -->\n";
        assert!(replace(broken, "x", "new\n").is_err());
    }
}
