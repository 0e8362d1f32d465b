//! Are there session buffers that glibc takes from the kernel anew each time?

use crate::change::Change;
use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Proof, Unknown, need};

use super::bytes;

pub(super) const FINDING: Finding = Finding {
    name: "big-buffers",
    title: "Size of session buffers",
    why: "Beyond 32 MiB glibc maps and unmaps a buffer for each statement: 10 241 faults and 20 ms \
          for 40 MiB; what few statements need, these may ask for themselves.",
    source: "mallopt(3), DEFAULT_MMAP_THRESHOLD_MAX; MySQL manual, sort_buffer_size",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let allocator = need(&facts.process()?.allocator)?;
    let large = above(facts, LARGEST)?;
    if large.is_empty() {
        let most = above(facts, 0)?.into_iter().max_by_key(|(_, size)| *size);
        let most = most.map_or(String::new(), |(name, size)| format!("{name} {}", bytes(size)));
        return Ok(Judgement::ok(format!("the largest is {most}")));
    }
    let changes: Vec<Change> = large
        .iter()
        .map(|(name, _)| Change::Variable {
            name: (*name).to_owned(),
            value: (4_u64 << 20).to_string(),
        })
        .collect();
    let remedy: Vec<String> = changes.iter().map(ToString::to_string).collect();
    let text = format!("{}, with {allocator}", too_large(&large));
    Ok(Judgement::bad(text).remedy(remedy.join("; ")).cure(Proof::Gone, changes))
}

/// The buffers of a session that are larger than this.
pub(super) fn above(facts: &Facts, limit: u64) -> Result<Vec<(&'static str, u64)>, Unknown> {
    let mut found = Vec::new();
    for name in BUFFERS {
        let size = facts.server.number(name)?;
        if size > limit {
            found.push((*name, size));
        }
    }
    Ok(found)
}

pub(super) fn too_large(buffers: &[(&str, u64)]) -> String {
    let list: Vec<String> =
        buffers.iter().map(|(name, size)| format!("{name} {}", bytes(*size))).collect();
    list.join(", ")
}

/// Each statement may take one of each, or more.
const BUFFERS: &[&str] =
    &["sort_buffer_size", "join_buffer_size", "read_buffer_size", "read_rnd_buffer_size"];
const LARGEST: u64 = 32 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, set_variable};
    use crate::judgement::Verdict;

    #[test]
    fn buffers_beyond_what_the_allocator_keeps_are_told() {
        let grow = |facts: &mut Facts| {
            set_variable(facts, "sort_buffer_size", "67108864");
            set_variable(facts, "join_buffer_size", "67108864");
        };
        let judgement = after(FINDING, grow);
        assert_eq!(judgement.verdict, Verdict::Bad);
        assert!(judgement.evidence.contains("join_buffer_size 64 MiB"), "{}", judgement.evidence);
        let first = "SET GLOBAL sort_buffer_size = 4194304";
        assert!(judgement.remedy.is_some_and(|it| it.starts_with(first)));
        assert_eq!(judgement.cure.map(|cure| cure.changes.len()), Some(2));
    }
}
