//! Do statements wait for each other's rows?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement};

use super::percent;

pub(super) const FINDING: Finding = Finding {
    name: "lock-waits",
    title: "Waits for row locks",
    why: "Statements that wait for a lock hold a thread, and often locks of their own: more of \
          them at once make it worse.",
    source: "MySQL manual, Innodb_row_lock_waits",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let load = facts.busy()?;
    let (waits, asked) = (load.rate("Innodb_row_lock_waits")?, load.rate("Questions")?);
    let share = waits / asked.max(1.0);
    let text = format!("{waits:.1}/s, {} of the statements", percent(share));
    Ok(match share > SHARE {
        true => Judgement::warn(text).remedy(
            "SELECT * FROM sys.innodb_lock_waits   # shorter transactions, or fewer at once",
        ),
        false => Judgement::ok(text),
    })
}

const SHARE: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, set_rate};
    use crate::judgement::Verdict;

    #[test]
    fn statements_that_queue_for_rows_are_told() {
        let waits = |facts: &mut Facts| set_rate(facts, "Innodb_row_lock_waits", 500.0);
        assert_eq!(after(FINDING, waits).verdict, Verdict::Warn);
    }
}
