//! Could a thread that wants a real-time policy have one?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, need};

pub(super) const FINDING: Finding = Finding {
    name: "realtime-budget",
    title: "Real time for groups",
    why: "Where the kernel shares real time among groups, a group without a share refuses \
          real-time policies even to root.",
    source: "Linux kernel, Documentation/scheduler/sched-rt-group.rst",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let process = match facts.proxy()? {
        Some(proxy) => &proxy.process,
        None => facts.process()?,
    };
    let group = need(&process.cgroup)?;
    if group.version == 2 {
        return Ok(Judgement::ok("groups of version 2 share no real time"));
    }
    let is_realtime = need(&process.threads)?.iter().any(|thread| thread.policy.is_realtime());
    Ok(match group.realtime.known() {
        // What runs so now was made so in another group, and cannot be again in this one.
        Some(0) if is_realtime => Judgement::warn(format!("{} has none of it", group.path))
            .remedy("use weights instead: real-time policies are refused here"),
        Some(0) => Judgement::ok("none, and no thread needs it"),
        Some(budget) => Judgement::ok(format!("{budget} microseconds of each period")),
        // Without this file the kernel does not share it out.
        None => Judgement::ok("real time is not shared among groups"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, proxy};
    use crate::judgement::Verdict;
    use sys::threads::Policy;
    use sys::tree::Seen::Known;

    #[test]
    fn real_time_without_a_share_is_told() {
        let without = |policy: Policy| {
            move |facts: &mut Facts| {
                let Known(group) = &mut proxy(facts).cgroup else { panic!("known") };
                (group.version, group.realtime) = (1, Known(0));
                let Known(threads) = &mut proxy(facts).threads else { panic!("known") };
                threads[0].policy = policy;
            }
        };
        assert_eq!(after(FINDING, without(Policy::Fifo)).verdict, Verdict::Warn);
        assert_eq!(after(FINDING, without(Policy::Other)).verdict, Verdict::Ok);
    }
}
