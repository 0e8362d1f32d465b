//! Is the kernel's own scheduler at work?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, need};

pub(super) const FINDING: Finding = Finding {
    name: "sched-ext",
    title: "Scheduler of the user's making",
    why: "Under a scheduler that was loaded as a program, what is said here of policies, weights \
          and nice values need not hold.",
    source: "Linux kernel, Documentation/scheduler/sched-ext.rst",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let state = need(&facts.machine.sched_ext)?;
    Ok(match state.as_str() {
        "enabled" | "enabling" => Judgement::warn(state)
            .remedy("cat /sys/kernel/sched_ext/root/ops   # whose documentation rules"),
        state => Judgement::ok(state),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::after;
    use crate::judgement::Verdict;
    use sys::tree::Seen::Known;

    #[test]
    fn another_scheduler_is_told() {
        let enable = |facts: &mut Facts| facts.machine.sched_ext = Known("enabled".to_owned());
        assert_eq!(after(FINDING, enable).verdict, Verdict::Warn);
    }
}
