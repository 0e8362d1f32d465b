//! Do transparent huge pages make the kernel stop to tidy its memory?

use crate::change::Change;
use crate::collect::HUGE_PAGES;
use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Proof, need};

pub(super) const FINDING: Finding = Finding {
    name: "huge-pages",
    title: "Transparent huge pages",
    why: "With \"always\", a thread that asks for memory may have to move other pages out of the \
          way first, for milliseconds.",
    source: "Linux kernel, Documentation/admin-guide/mm/transhuge.rst; /proc/vmstat, compact_stall",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let chosen = need(&facts.machine.transparent_huge_pages)?;
    if chosen != "always" {
        return Ok(Judgement::ok(chosen));
    }
    let stalls = *need(&facts.load()?.compaction_stalls)?;
    let text = format!("always; {stalls} threads had to stop and tidy while watched");
    let change = Change::File { path: HUGE_PAGES.to_owned(), value: "madvise".to_owned() };
    Ok(match stalls {
        0 => Judgement::ok(text),
        _ => Judgement::warn(text)
            .remedy(format!("echo madvise >{HUGE_PAGES}"))
            .cure(Proof::Gone, vec![change]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, load};
    use crate::judgement::Verdict;
    use sys::tree::Seen::Known;

    #[test]
    fn stalls_under_always_are_told() {
        let always = |stalls| {
            move |facts: &mut Facts| {
                facts.machine.transparent_huge_pages = Known("always".to_owned());
                load(facts).compaction_stalls = Known(stalls);
            }
        };
        let judgement = after(FINDING, always(3));
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert!(judgement.cure.is_some());
        assert_eq!(after(FINDING, always(0)).verdict, Verdict::Ok);
    }
}
