//! Does the server read from its disk what memory could hold?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement};

use super::bytes;

pub(super) const FINDING: Finding = Finding {
    name: "disk-reads",
    title: "Reads past the buffer pool",
    why: "A page that is not in the buffer pool costs a read of the disk: a hundred times as much.",
    source: "MySQL manual, innodb_buffer_pool_size",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let load = facts.busy()?;
    let missed = load.rate("Innodb_buffer_pool_reads")?;
    let asked = load.rate("Innodb_buffer_pool_read_requests")?;
    let share = missed / asked.max(1.0);
    let pool = facts.server.number("innodb_buffer_pool_size")?;
    let text = format!(
        "{missed:.0} reads/s, {:.2} % of the pages, past a pool of {}",
        share * 100.0,
        bytes(pool)
    );
    if share <= SHARE || missed <= OFTEN {
        return Ok(Judgement::ok(text));
    }
    // The server rounds up to chunks of this size.
    let room = facts.memory()? / 2 / CHUNK * CHUNK;
    Ok(match pool < room {
        true => Judgement::warn(text)
            .remedy(format!("SET GLOBAL innodb_buffer_pool_size = {}", room)),
        false => Judgement::warn(text).remedy("the pool fills the memory: more memory"),
    })
}

const CHUNK: u64 = 128 << 20;
const SHARE: f64 = 0.01;
const OFTEN: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, set_rate};
    use crate::judgement::Verdict;

    #[test]
    fn a_pool_that_is_too_small_for_the_data_is_told() {
        let judgement =
            after(FINDING, |facts| set_rate(facts, "Innodb_buffer_pool_reads", 5000.0));
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert!(judgement.remedy.is_some_and(|it| it.contains("innodb_buffer_pool_size")));
        // A server that has just begun reads each page once.
        let few = after(FINDING, |facts| set_rate(facts, "Innodb_buffer_pool_reads", 10.0));
        assert_eq!(few.verdict, Verdict::Ok);
    }
}
