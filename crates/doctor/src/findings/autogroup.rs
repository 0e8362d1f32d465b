//! Can the nice value of the proxy have any effect?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, need};

use super::NO_PROXY;

pub(super) const FINDING: Finding = Finding {
    name: "autogroup",
    title: "Reach of the nice value",
    why: "Nice values count inside a session's automatic group or a cgroup only: a process of \
          another session is not touched by them.",
    source: "sched(7), \"The autogroup feature\"",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let Some(proxy) = facts.proxy()? else { return Ok(Judgement::ok(NO_PROXY)) };
    let (ours, theirs) = (&proxy.process, facts.process()?);
    let nice = ours.main()?.nice;
    if nice >= 0 {
        return Ok(Judgement::ok(format!("the proxy's nice value is {nice}: it wants nothing")));
    }
    let (one, other) = (need(&ours.cgroup)?, need(&theirs.cgroup)?);
    let (rules, remedy) = if one.path != other.path {
        let remedy = "systemctl set-property --runtime UNIT CPUWeight=1000   # of the proxy";
        ("the weights of their groups", remedy.to_owned())
    } else if facts.setting("kernel.sched_autogroup_enabled")? == "1" {
        let (one, other) = (need(&ours.autogroup)?, need(&theirs.autogroup)?);
        if one.id == other.id {
            return Ok(Judgement::ok(format!("nice {nice}, in the server's session")));
        }
        if one.nice < other.nice {
            return Ok(Judgement::ok(format!("its session has nice {}", one.nice)));
        }
        ("the nice values of their sessions", format!("echo {nice} >/proc/{}/autogroup", ours.pid))
    } else {
        return Ok(Judgement::ok(format!("nice {nice}, in the server's group")));
    };
    Ok(Judgement::warn(format!("nice {nice} has no effect: {rules} count")).remedy(remedy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, proxy};
    use crate::judgement::Verdict;
    use sys::details::Autogroup;
    use sys::tree::Seen::Known;

    fn raise(facts: &mut Facts) {
        let Known(threads) = &mut proxy(facts).threads else { panic!("known") };
        threads[0].nice = -20;
    }

    fn same_group(facts: &mut Facts) {
        let Known(group) = &mut proxy(facts).cgroup else { panic!("known") };
        group.path = "/system.slice/mariadbd.service".to_owned();
    }

    #[test]
    fn a_nice_value_across_groups_or_sessions_has_no_effect() {
        let groups = after(FINDING, raise);
        assert_eq!(groups.verdict, Verdict::Warn);
        assert!(groups.remedy.is_some_and(|it| it.contains("CPUWeight")));
        let sessions = after(FINDING, |facts| {
            raise(facts);
            same_group(facts);
        });
        assert_eq!(sessions.remedy.as_deref(), Some("echo -20 >/proc/200/autogroup"));
    }

    #[test]
    fn a_session_that_is_itself_preferred_is_well() {
        let judgement = after(FINDING, |facts| {
            raise(facts);
            same_group(facts);
            proxy(facts).autogroup = Known(Autogroup { id: 200, nice: -20 });
        });
        assert_eq!(judgement.verdict, Verdict::Ok);
    }
}
