//! Does the starving proxy weigh as much as a whole server?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, need};

use super::{NO_PROXY, busiest, percent};

pub(super) const FINDING: Finding = Finding {
    name: "weight",
    title: "Weight of the proxy's group",
    why: "Across groups weights rule, not nice values: a proxy that weighs no more than the server \
          gets no more of a contended CPU.",
    source: "Linux kernel, Documentation/admin-guide/cgroup-v2.rst, cpu.weight",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let Some(proxy) = facts.proxy()? else { return Ok(Judgement::ok(NO_PROXY)) };
    let (ours, theirs) = (need(&proxy.process.cgroup)?, need(&facts.process()?.cgroup)?);
    if ours.path == theirs.path {
        return Ok(Judgement::ok("the proxy is in the server's group"));
    }
    let (one, other) = (need(&ours.weight)?.unwrap_or(100), need(&theirs.weight)?.unwrap_or(100));
    let load = facts.busy()?;
    let waited = busiest(load, proxy)?.map_or(0.0, |thread| thread.waited);
    let text = format!("{one}, the server's {other}; the proxy waited {}", percent(waited));
    Ok(match one <= other && waited > WAITED && load.idle()? > IDLE {
        true => Judgement::warn(text).remedy(match ours.version {
            2 => format!("echo 1000 >/sys/fs/cgroup{}/cpu.weight", ours.path),
            _ => format!("echo 10240 >/sys/fs/cgroup/cpu{}/cpu.shares", ours.path),
        }),
        false => Judgement::ok(text),
    })
}

const WAITED: f64 = 0.10;
const IDLE: f64 = 0.06;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, proxy, set_idle, worker};
    use crate::judgement::Verdict;
    use sys::tree::Seen::Known;

    #[test]
    fn a_starving_proxy_of_equal_weight_is_told() {
        let starve = |facts: &mut Facts| {
            worker(facts).waited = 0.4;
            set_idle(facts, 0.2);
        };
        let judgement = after(FINDING, starve);
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert!(judgement.remedy.is_some_and(|it| it.ends_with("flifo.service/cpu.weight")));
        let heavy = after(FINDING, |facts| {
            starve(facts);
            let Known(group) = &mut proxy(facts).cgroup else { panic!("known") };
            group.weight = Known(Some(1000));
        });
        assert_eq!(heavy.verdict, Verdict::Ok);
    }
}
