//! What each fault has brought about: the table at the end.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::time::Duration;

use anyhow::{Result, ensure};
use bench::table::{Colours, Table, TableCell};

use super::super::seconds;
use super::Errors;

/// What one fault, or all of a kind, have brought about.
#[derive(Clone, Debug, Default, serde::Serialize)]
pub(super) struct Row {
    times: u64,
    handed_over: u64,
    lost: u64,
    doubled: u64,
    stale: u64,
    /// Refused, and there all the same.
    undead: u64,
    /// Lost, as Flifo had said before an operator let it go on.
    named: u64,
    pause_ms: u128,
    lines: u64,
    errors: Errors,
}

/// All faults, by name.
#[derive(Default)]
pub(super) struct Rows(BTreeMap<String, Row>);

impl Row {
    /// What clients have met since the last fault, and what is there of their lines.
    pub(super) fn of(
        met: super::ledgers::Met,
        judged: &super::ledgers::Judged,
        is_handed_over: bool,
    ) -> Self {
        Self {
            times: 1,
            handed_over: u64::from(is_handed_over),
            lost: judged.lost,
            doubled: judged.doubled,
            stale: judged.stale,
            undead: judged.undead,
            named: judged.forgiven,
            pause_ms: met.pause.as_millis(),
            lines: met.pairs,
            errors: met.errors,
        }
    }

    fn add(&mut self, other: &Self) {
        self.times += other.times;
        self.handed_over += other.handed_over;
        self.lost += other.lost;
        self.doubled += other.doubled;
        self.stale += other.stale;
        self.undead += other.undead;
        self.named += other.named;
        self.pause_ms = self.pause_ms.max(other.pause_ms);
        self.lines += other.lines;
        for (error, count) in &other.errors {
            *self.errors.entry(error.clone()).or_default() += count;
        }
    }

    /// The errors, most frequent first, in so many letters.
    fn errors(&self, room: usize) -> String {
        let mut each: Vec<_> = self.errors.iter().collect();
        each.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let mut text = String::new();
        for (code, count) in each {
            let next = format!("{}{code}: {count}", if text.is_empty() { "" } else { ", " });
            if text.len() + next.len() > room {
                text += " …";
                break;
            }
            text += &next;
        }
        text
    }
}

impl Display for Row {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { lost, doubled, stale, undead, named, pause_ms, lines, .. } = self;
        write!(
            formatter,
            "{lines} lines, {lost} lost, {doubled} doubled, {stale} stale, {undead} undead, {named} named, \
             {pause_ms} ms; {}",
            self.errors(usize::MAX)
        )
    }
}

impl Rows {
    pub(super) fn add(&mut self, fault: &str, row: &Row) {
        self.0.entry(fault.to_owned()).or_default().add(row);
    }

    fn sum(&self) -> Row {
        let mut sum = Row::default();
        self.0.values().for_each(|row| sum.add(row));
        sum
    }

    pub(super) fn print(&self, seed: u64, time: Duration, as_json: bool) -> Result<()> {
        let sum = self.sum();
        if as_json {
            let all = serde_json::json!({
                "seed": seed, "seconds": time.as_secs_f64(), "faults": self.0, "all": sum,
            });
            println!("{}", serde_json::to_string_pretty(&all)?);
            return Ok(());
        }
        let titles = [
            "fault",
            "times",
            "handed over",
            "lost",
            "doubled",
            "stale",
            "named",
            "pause ms",
            "errors",
        ];
        let mut table = Table::new(&titles);
        let all = "all".to_owned();
        for (name, row) in self.0.iter().chain([(&all, &sum)]) {
            let mut cells = vec![TableCell::plain(name)];
            let numbers = [row.times, row.handed_over, row.lost, row.doubled, row.stale, row.named];
            cells.extend(numbers.map(|number| TableCell::plain(number.to_string())));
            cells.push(TableCell::plain(row.pause_ms.to_string()));
            cells.push(TableCell::plain(row.errors(ERRORS_WIDTH)));
            table.row(cells);
        }
        print!("{}", table.render(Colours::Off));
        println!("seed {seed}, {}, {} lines written and read back", seconds(time), sum.lines);
        Ok(())
    }

    /// Fails if anything is wrong.
    pub(super) fn judge(&self) -> Result<()> {
        let Row { times, lost, doubled, stale, undead, .. } = self.sum();
        ensure!(times > 0, "there was no fault");
        ensure!(
            lost + doubled + stale + undead == 0,
            "{lost} lines lost, {doubled} doubled, {stale} stale reads, {undead} written though refused"
        );
        Ok(())
    }
}

/// The table is no wider than 120 columns.
const ERRORS_WIDTH: usize = 42;
