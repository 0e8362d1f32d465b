//! What came of an experiment, for a terminal, for programs and as a page.

use serde::Serialize;

use super::experiment::{About, Finding};
use crate::chart::Grid;
use crate::page::Page;
use crate::table::{Colours, Style, Table, TableCell, paint};

/// For a terminal: the table, then how to read it.
pub fn text(about: &About, finding: &Finding, colours: Colours) -> String {
    let mut text = format!("{}\n\n", paint(about.question, Style::Strong, colours));
    text.push_str(&wrapped(about.seed));
    text.push('\n');
    // The first column is long and repeats itself: on a terminal it makes headings.
    let titles: Vec<&str> = finding.table.titles.iter().skip(1).map(String::as_str).collect();
    let mut table = Table::new(&titles);
    let mut heading = None;
    for row in &finding.table.rows {
        let Some((name, cells)) = row.split_first() else { continue };
        if heading != Some(name) {
            table.heading(name);
            heading = Some(name);
        }
        table.row(cells.iter().map(TableCell::plain).collect());
    }
    text.push_str(&table.render(colours));
    for paragraph in finding.reading.iter().chain(&finding.notes) {
        text.push('\n');
        text.push_str(&wrapped(paragraph));
    }
    text
}

/// For programs.
pub fn json(findings: &[(About, Finding)]) -> Result<String, serde_json::Error> {
    #[derive(Serialize)]
    struct Experiment<'a> {
        name: &'a str,
        question: &'a str,
        table: &'a Grid,
        reading: &'a [String],
        notes: &'a [String],
    }
    let experiments: Vec<_> = findings
        .iter()
        .map(|(about, finding)| Experiment {
            name: about.name,
            question: about.question,
            table: &finding.table,
            reading: &finding.reading,
            notes: &finding.notes,
        })
        .collect();
    serde_json::to_string_pretty(&experiments)
}

/// As a page, with charts.
pub fn page(findings: &[(About, Finding)]) -> String {
    let kernel = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let subtitle = format!("Measured on {cpus} CPUs, Linux {}", kernel.trim());
    let mut page = Page::new("Flifo's laboratory", &subtitle);
    for (about, finding) in findings {
        page.heading(about.name);
        page.small_heading(about.question);
        page.paragraph(about.seed);
        page.charts(&finding.charts);
        page.small_heading("How to read it");
        for paragraph in &finding.reading {
            page.paragraph(paragraph);
        }
        page.notice(&finding.notes);
        page.small_heading("All figures");
        page.table(&finding.table);
    }
    page.finish()
}

/// Lines of a length that is read well.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().filter(|line| {
            line.is_empty() || line.chars().count() + 1 + word.chars().count() <= LINE_MAX
        });
        match line {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => {
                line.push(' ');
                line.push_str(word);
            }
            None => lines.push(word.to_owned()),
        }
    }
    lines.join("\n") + "\n"
}

const LINE_MAX: usize = 98;
