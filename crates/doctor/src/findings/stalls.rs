//! Does the proxy's loop wait long for its next turn on a CPU?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement};

use super::{NO_PROXY, busiest};

pub(super) const FINDING: Finding = Finding {
    name: "stalls",
    title: "Stalls of the proxy's loop",
    why: "Each time a loop waits for its CPU, all of its clients wait with it.",
    source: "/proc/PID/task/TID/schedstat: time waited by number of turns",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let load = facts.busy()?;
    let Some(proxy) = facts.proxy()? else { return Ok(Judgement::ok(NO_PROXY)) };
    let Some(thread) = busiest(load, proxy)? else { return Ok(Judgement::ok("it rests")) };
    if thread.slices == 0 {
        return Ok(Judgement::ok("it rests"));
    }
    let waited = thread.waited * load.seconds * 1000.0 / thread.slices as f64;
    let often = thread.slices as f64 / load.seconds;
    let text = format!(
        "{} waited {waited:.2} ms for a CPU at each of {often:.0} turns/s",
        proxy.process.name()
    );
    Ok(match waited > WAITED_MS && often > 1.0 {
        true => Judgement::warn(text)
            .remedy("see starvation, throttled and steal: one of them is the cause"),
        false => Judgement::ok(text),
    })
}

const WAITED_MS: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, worker};
    use crate::judgement::Verdict;

    #[test]
    fn long_waits_are_told() {
        let stall = |facts: &mut Facts| {
            worker(facts).waited = 0.4;
            worker(facts).slices = 5000;
        };
        let judgement = after(FINDING, stall);
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert!(judgement.evidence.contains("0.80 ms"), "{}", judgement.evidence);
    }
}
