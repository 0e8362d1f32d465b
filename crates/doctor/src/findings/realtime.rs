//! Does the proxy or the server run under a real-time policy?

use sys::threads::Policy;

use crate::change::Change;
use crate::facts::{Facts, Process};
use crate::judgement::{Finding, Judged, Judgement, Proof, Unknown, need};

pub(super) const FINDING: Finding = Finding {
    name: "realtime",
    title: "Real-time policies",
    why: "A real-time loop that spins locks out everything else on its CPU, the administrator's \
          shell included, and does no more than nice would.",
    source: "sched(7); lab starvation, SCHED_RR",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let mut text = Vec::new();
    let mut changes = Vec::new();
    let clients = facts.clients()?.iter().map(|client| &client.process);
    for process in clients.chain([facts.process()?]) {
        let policies = realtime(process)?;
        let Some(policy) = policies.first() else { continue };
        text.push(format!("{}: {} threads {policy}", process.name(), policies.len()));
        changes.push(Change::Policy { pid: process.pid, policy: Policy::Other });
    }
    if changes.is_empty() {
        return Ok(Judgement::ok("none"));
    }
    let remedy: Vec<String> = changes.iter().map(ToString::to_string).collect();
    let bad = Judgement::bad(text.join(", ")).remedy(remedy.join("; "));
    Ok(bad.cure(Proof::Gone, changes))
}

fn realtime(process: &Process) -> Result<Vec<Policy>, Unknown> {
    let policies = need(&process.threads)?.iter().map(|thread| thread.policy);
    Ok(policies.filter(|policy| policy.is_realtime()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{PROXY, after, proxy};
    use crate::judgement::Verdict;
    use sys::tree::Seen::Known;

    #[test]
    fn a_round_robin_proxy_is_told_and_set_back() {
        let judgement = after(FINDING, |facts| {
            let Known(threads) = &mut proxy(facts).threads else { panic!("known") };
            threads[0].policy = Policy::RoundRobin;
        });
        assert_eq!(judgement.verdict, Verdict::Bad);
        assert_eq!(judgement.remedy, Some(format!("chrt --all-tasks --other --pid 0 {PROXY}")));
        assert!(judgement.cure.is_some());
    }
}
