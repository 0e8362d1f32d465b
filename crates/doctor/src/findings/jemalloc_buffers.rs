//! Are there session buffers that jemalloc gives back at once?

use crate::change::Change;
use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Proof, need};

use super::big_buffers::{above, too_large};

pub(super) const FINDING: Finding = Finding {
    name: "jemalloc-buffers",
    title: "Session buffers under jemalloc",
    why: "jemalloc keeps blocks of 8 MiB and more apart and gives them back to the kernel at once: \
          a statement that uses one faults in all of its pages again.",
    source: "jemalloc, opt.oversize_threshold; its issues 1621, 2208 and 2824",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let allocator = need(&facts.process()?.allocator)?;
    if allocator != "jemalloc" {
        return Ok(Judgement::ok(format!("the allocator is {allocator}")));
    }
    let settings = need(&facts.process()?.allocator_settings)?;
    if settings.iter().any(|(_, value)| value.contains("oversize_threshold:0")) {
        return Ok(Judgement::ok("jemalloc, with oversize_threshold:0"));
    }
    let large = above(facts, OVERSIZE)?;
    if large.is_empty() {
        return Ok(Judgement::ok("jemalloc, and no session buffer of 8 MiB"));
    }
    let lower = |(name, _): &(&str, u64)| Change::Variable {
        name: (*name).to_owned(),
        value: (OVERSIZE / 2).to_string(),
    };
    let changes: Vec<Change> = large.iter().map(lower).collect();
    let judgement = Judgement::bad(too_large(&large)).remedy(format!(
        "MALLOC_CONF=oversize_threshold:0 and restart, or {}",
        changes[0]
    ));
    Ok(judgement.cure(Proof::Gone, changes))
}

const OVERSIZE: u64 = 8 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, server, set_variable};
    use crate::judgement::Verdict;
    use sys::tree::Seen::Known;

    fn jemalloc(facts: &mut Facts) {
        server(facts).allocator = Known("jemalloc".to_owned());
        set_variable(facts, "sort_buffer_size", "16777216");
    }

    #[test]
    fn a_large_buffer_under_jemalloc_is_told() {
        let judgement = after(FINDING, jemalloc);
        assert_eq!(judgement.verdict, Verdict::Bad);
        assert!(judgement.evidence.contains("sort_buffer_size 16 MiB"), "{}", judgement.evidence);
        let told = after(FINDING, |facts| {
            jemalloc(facts);
            let setting = ("MALLOC_CONF".to_owned(), "oversize_threshold:0".to_owned());
            server(facts).allocator_settings = Known(vec![setting]);
        });
        assert_eq!(told.verdict, Verdict::Ok);
    }
}
