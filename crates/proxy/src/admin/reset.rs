//! Has counters begin at zero for the console. What Prometheus and HAProxy's readers see only grows, as they expect.
//!
//! The figures of statements are forgotten by the workers. Of all other counters, what they were is remembered, and
//! taken off what is shown.

use std::cell::RefCell;
use std::collections::HashMap;

use view::table::{Table, Value};

use super::Outside;
use super::actions::Done;
use super::mirrors;
use super::tables::{NUMBERS, Shown};

/// What rows of tables showed when they were last reset: by the table's name, and by a row's key.
#[derive(Debug, Default)]
pub(super) struct Baseline(RefCell<HashMap<&'static str, HashMap<String, u64>>>);

/// Tables whose counts can be reset: the columns that tell rows apart, and the one that counts.
const COUNTED: [(&str, &[usize], usize); 3] = [
    // Source, name and code.
    ("errors", &[0, 1, 2], 4),
    ("pins", &[0], 1),
    ("stats", &[0], 1),
];

impl Baseline {
    /// Takes off a table's counts what they were at the last reset.
    pub(super) fn take_off(&self, name: &str, table: &mut Table) {
        let all = self.0.borrow();
        let Some((known, key, count)) = COUNTED.iter().find(|(known, ..)| *known == name) else {
            return;
        };
        let Some(before) = all.get(known) else { return };
        for row in &mut table.rows {
            let before = before.get(&key_of(row, key)).copied().unwrap_or_default();
            if let Some(Value::Count(count)) = row.get_mut(*count) {
                *count = count.saturating_sub(before);
            }
        }
        if name == "errors" {
            table.rows.retain(|row| row.get(*count) != Some(&Value::Count(0)));
        }
    }
}

/// What tells a row from others.
fn key_of(row: &[Value], columns: &[usize]) -> String {
    let parts = columns.iter().filter_map(|at| row.get(*at)).map(ToString::to_string);
    parts.collect::<Vec<_>>().join("\u{0}")
}

impl Outside {
    /// What this table counts begins at zero, or what all of them count.
    pub(super) async fn reset(&self, what: Option<&str>) -> Done {
        let is_digests = what.is_none_or(|what| what == "digests");
        let counted: Vec<_> =
            COUNTED.iter().filter(|(name, ..)| what.is_none_or(|what| what == *name)).collect();
        let is_mirrored = what.is_none_or(|what| what == "mirrored");
        if !is_digests && !is_mirrored && counted.is_empty() {
            let what = what.unwrap_or_default();
            return Err(format!(
                "{what} cannot be reset; DIGESTS, ERRORS, MIRRORED, PINS and STATS can"
            ));
        }
        if is_mirrored {
            mirrors::reset(self);
        }
        self.survey.forget().await;
        if is_digests {
            let workers = 0..self.shared.worker_count();
            let answers: Vec<_> = workers
                .map(|at| self.shared.ask(at, |worker| worker.learnt.tally.reset_digests()))
                .collect();
            for answer in answers {
                // A worker that is gone has no figures any more.
                let _ = answer.await;
            }
        }
        for (name, key, count) in counted {
            let Some(shown) = Shown::named(name) else { continue };
            let surveyed = self.survey.ask(&self.shared, NUMBERS).await;
            let mut table = Table::new(shown.columns);
            (shown.fill)(self, &surveyed, &mut table);
            let counts = table.rows.iter().filter_map(|row| match row.get(*count) {
                Some(Value::Count(count)) => Some((key_of(row, key), *count)),
                _ => None,
            });
            self.baseline.0.borrow_mut().insert(*name, counts.collect());
        }
        self.survey.forget().await;
        let what = what.unwrap_or("all");
        tracing::info!(what, "counters reset on the console");
        Ok(format!("{what}: counted from now on; /metrics goes on as before"))
    }
}

#[cfg(test)]
mod tests {
    use view::table::{count, text};

    use super::*;

    #[test]
    fn what_was_counted_before_is_taken_off() {
        let table = |counts: [u64; 2]| {
            let mut table = Table::new(const { &[text("name"), count("value")] });
            table.add(["a".into(), counts[0].into()]);
            table.add(["b".into(), counts[1].into()]);
            table
        };
        let baseline = Baseline::default();
        let mut shown = table([5, 7]);
        baseline.take_off("stats", &mut shown);
        assert_eq!(shown, table([5, 7]));
        baseline.0.borrow_mut().insert("stats", HashMap::from([("a".to_owned(), 5)]));
        baseline.take_off("stats", &mut shown);
        assert_eq!(shown, table([0, 7]));
    }
}
