//! Does every statement take the query cache's one lock?

use crate::change::Change;
use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Proof};

pub(super) const FINDING: Finding = Finding {
    name: "query-cache",
    title: "Query cache",
    why: "One lock guards the whole cache: with many CPUs, statements wait for it even when they \
          find nothing there.",
    source: "MariaDB manual, Query Cache; MySQL 8.0 removed it",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let version = facts.server.text("version")?;
    let Ok(kind) = facts.server.text("query_cache_type") else {
        return Ok(Judgement::ok(format!("{version} has none")));
    };
    let size = facts.server.number("query_cache_size")?;
    let text = format!("{kind}, {}", super::bytes(size));
    let change = Change::Variable { name: "query_cache_type".to_owned(), value: "OFF".to_owned() };
    Ok(match kind {
        "ON" if size > 0 => Judgement::warn(text)
            .remedy(change.to_string())
            .cure(Proof::Faster, vec![change]),
        _ => Judgement::ok(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, set_variable};
    use crate::judgement::Verdict;

    #[test]
    fn a_cache_that_is_on_is_told() {
        let judgement = after(FINDING, |facts| set_variable(facts, "query_cache_type", "ON"));
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert!(judgement.cure.is_some_and(|cure| cure.proof == Proof::Faster));
        let empty = after(FINDING, |facts| {
            set_variable(facts, "query_cache_type", "ON");
            set_variable(facts, "query_cache_size", "0");
        });
        assert_eq!(empty.verdict, Verdict::Ok);
    }
}
