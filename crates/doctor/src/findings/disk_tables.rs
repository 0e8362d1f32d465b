//! Do temporary tables go to the disk?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement};

use super::{bytes, percent};

pub(super) const FINDING: Finding = Finding {
    name: "disk-tables",
    title: "Temporary tables on the disk",
    why: "A temporary table that outgrows tmp_table_size is written to a file and read again.",
    source: "MySQL manual, \"Internal Temporary Table Use in MySQL\"",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let load = facts.busy()?;
    let (disk, all) = (load.rate("Created_tmp_disk_tables")?, load.rate("Created_tmp_tables")?);
    let size = facts.server.number("tmp_table_size")?;
    let share = disk / all.max(0.1);
    let text = format!("{disk:.1}/s, {} of all; tmp_table_size {}", percent(share), bytes(size));
    Ok(match disk > OFTEN && share > SHARE {
        true => Judgement::warn(text).remedy(
            "no BLOB in GROUP BY and DISTINCT; or larger tmp_table_size, max_heap_table_size",
        ),
        false => Judgement::ok(text),
    })
}

const OFTEN: f64 = 5.0;
const SHARE: f64 = 0.25;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, set_rate};
    use crate::judgement::Verdict;

    #[test]
    fn many_tables_on_the_disk_are_told() {
        let judgement = after(FINDING, |facts| {
            set_rate(facts, "Created_tmp_disk_tables", 40.0);
            set_rate(facts, "Created_tmp_tables", 50.0);
        });
        assert_eq!(judgement.verdict, Verdict::Warn);
    }
}
