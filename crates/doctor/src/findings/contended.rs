//! Are there too few CPUs for what wants to run?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement};

use super::{busiest, percent};

pub(super) const FINDING: Finding = Finding {
    name: "contended",
    title: "Machine full",
    why: "With no idle CPU, priority for the proxy only makes it wake for each reply alone, and \
          throughput falls: leave priorities alone and give the machine less work or more CPUs.",
    source: "lab starvation",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let load = facts.busy()?;
    let idle = load.idle()?;
    let mut waited: f64 = 0.0;
    for client in facts.clients()? {
        if let Some(thread) = busiest(load, client)? {
            waited = waited.max(thread.waited);
        }
    }
    let text = format!("CPUs idle {}, clients waited for one {}", percent(idle), percent(waited));
    Ok(match waited > WAITED && idle <= IDLE {
        true => Judgement::warn(text).remedy("do not raise priorities; add CPUs, or move clients"),
        false => Judgement::ok(text),
    })
}

const WAITED: f64 = 0.10;
const IDLE: f64 = 0.06;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, set_idle, worker};
    use crate::judgement::Verdict;

    #[test]
    fn waiting_without_idle_cpus_is_contention() {
        let full = |facts: &mut Facts| {
            worker(facts).waited = 0.4;
            set_idle(facts, 0.02);
        };
        let judgement = after(FINDING, full);
        assert_eq!((judgement.verdict, judgement.cure), (Verdict::Warn, None));
        assert_eq!(after(FINDING, |facts| set_idle(facts, 0.02)).verdict, Verdict::Ok);
    }
}
