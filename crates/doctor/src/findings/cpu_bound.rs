//! Is one thread of the proxy all that a core can do?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement};

use super::{NO_PROXY, busiest, percent};

pub(super) const FINDING: Finding = Finding {
    name: "cpu-bound",
    title: "Proxy at the end of its core",
    why: "A thread that runs all the time cannot be helped by priority: it needs a second one.",
    source: "lab starvation",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let load = facts.busy()?;
    let Some(proxy) = facts.proxy()? else { return Ok(Judgement::ok(NO_PROXY)) };
    let Some(thread) = busiest(load, proxy)? else { return Ok(Judgement::ok("it rests")) };
    let name = proxy.process.name();
    let text = format!("{name}: its busiest thread ran {}", percent(thread.ran));
    if thread.ran <= RAN {
        return Ok(Judgement::ok(text));
    }
    let remedy = match name {
        "flifo" => "flifo run --workers 2, or one more than it has".to_owned(),
        "haproxy" => "nbthread 2, or one more than it has".to_owned(),
        name => format!("give {name} one more thread or process"),
    };
    Ok(Judgement::warn(text).remedy(remedy))
}

const RAN: f64 = 0.95;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, worker};
    use crate::judgement::Verdict;

    #[test]
    fn a_thread_that_always_runs_wants_another() {
        let judgement = after(FINDING, |facts| worker(facts).ran = 0.98);
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert!(judgement.remedy.is_some_and(|remedy| remedy.contains("--workers")));
        assert_eq!(after(FINDING, |facts| worker(facts).ran = 0.9).verdict, Verdict::Ok);
    }
}
