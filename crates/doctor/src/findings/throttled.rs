//! Does a quota stop the server or the proxy?

use crate::facts::{Effort, Facts, Process};
use crate::judgement::{Finding, Judged, Judgement, Unknown, Verdict, need};

use super::percent;

pub(super) const FINDING: Finding = Finding {
    name: "throttled",
    title: "Quota of CPU time",
    why: "A group that has used up its quota stands still until the next period, with its locks \
          held: it looks like a stall of up to 100 ms.",
    source: "Linux kernel, Documentation/scheduler/sched-bwc.rst",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let server = facts.process()?;
    let effort = facts.load.known().and_then(|load| load.server.known());
    let mut worst = one(server, effort)?;
    if let Some(proxy) = facts.proxy()? {
        let efforts = facts.load.known().map(|load| &load.clients);
        let effort = efforts.and_then(|efforts| efforts.get(&proxy.process.pid));
        let other = one(&proxy.process, effort)?;
        if worst.verdict < other.verdict {
            worst = other;
        }
    }
    Ok(worst)
}

fn one(process: &Process, effort: Option<&Effort>) -> Result<Judgement, Unknown> {
    let name = process.name();
    let group = need(&process.cgroup)?;
    let Some(quota) = *need(&group.quota)? else {
        return Ok(Judgement::ok(format!("{name}: no quota")));
    };
    let seen = effort.and_then(|it| it.throttling.known());
    // Without a watch, what has been since the group was made.
    let count = match seen {
        Some(count) => *count,
        None => *need(&group.throttling)?,
    };
    let share = count.throttled as f64 / count.periods.max(1) as f64;
    let text = format!(
        "{name}: quota of {quota:.2} CPUs, stopped in {} of {} periods",
        percent(share),
        count.periods
    );
    let verdict = match share > STOPPED {
        true => Verdict::Bad,
        false if quota < 1.0 => Verdict::Warn,
        false => return Ok(Judgement::ok(text)),
    };
    let remedy = match group.version {
        2 => format!("echo max >/sys/fs/cgroup{}/cpu.max   # or a higher quota", group.path),
        _ => format!("echo -1 >/sys/fs/cgroup/cpu{}/cpu.cfs_quota_us   # or more", group.path),
    };
    Ok(Judgement { verdict, ..Judgement::ok(text).remedy(remedy) })
}

const STOPPED: f64 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, is_unknown, load, server};
    use sys::cgroup::{Cgroup, Throttling};
    use sys::tree::Seen::{self, Known};

    fn group(facts: &mut Facts) -> &mut Cgroup {
        let Known(group) = &mut server(facts).cgroup else { panic!("known") };
        group
    }

    fn throttle(facts: &mut Facts, throttled: u64) {
        group(facts).quota = Known(Some(0.5));
        let Known(effort) = &mut load(facts).server else { panic!("known") };
        effort.throttling = Known(Throttling { periods: 100, throttled });
    }

    #[test]
    fn a_server_that_runs_into_its_quota_is_told() {
        let judgement = after(FINDING, |facts| throttle(facts, 40));
        assert_eq!(judgement.verdict, Verdict::Bad);
        assert!(judgement.remedy.is_some_and(|remedy| remedy.contains("cpu.max")));
        assert_eq!(after(FINDING, |facts| throttle(facts, 0)).verdict, Verdict::Warn);
    }

    #[test]
    fn a_quota_that_cannot_be_seen_is_not_called_absent() {
        assert!(is_unknown(FINDING, |facts| group(facts).quota = Seen::Denied("x".into())));
    }
}
