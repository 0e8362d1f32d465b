//! Are the server and its proxy confined to fewer CPUs than there are?

use sys::cpus::Cpus;

use crate::change::Change;
use crate::facts::{Facts, Process};
use crate::judgement::{Finding, Judged, Judgement, Proof, Unknown, need};

pub(super) const FINDING: Finding = Finding {
    name: "pinned",
    title: "CPUs that may be used",
    why: "Pinned together, proxy and server take turns on a CPU while others idle; and a proxy \
          that is pinned where the server may run gains nothing from it.",
    source: "lab starvation: a pinned proxy alone does 1.01 times as much",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let online: Cpus = facts.cpus()?.iter().map(|cpu| cpu.number).collect();
    let server = facts.process()?;
    let theirs = allowed(server)?;
    let all = online.len();
    let Some(proxy) = facts.proxy()? else {
        let text = format!("the server may use {} of {all} CPUs", theirs.len());
        return Ok(match theirs.len() == 1 && all > 1 {
            true => widen(Judgement::bad(text), &[server], &online),
            false => Judgement::ok(text),
        });
    };
    let ours = allowed(&proxy.process)?;
    let name = proxy.process.name();
    let text = format!("server on {theirs}, {name} on {ours}, of {online}");
    let both: Cpus = ours.iter().chain(theirs.iter()).collect();
    if ours.meets(&theirs) && both.len() == 1 && all > 1 {
        return Ok(widen(Judgement::bad(text), &[server, &proxy.process], &online));
    }
    // CPUs that neither the server nor the proxy may use, although the control group allows them, are wasted.
    let group = need(&server.cgroup)?.cpus.known();
    let wasted = group.map_or(0, |group| group.without(&both).len());
    if theirs.len() == 1 && all > 2 && wasted > 0 {
        return Ok(widen(Judgement::bad(text), &[server], &online));
    }
    if ours.len() < all && ours.is_within(&theirs) {
        let others = theirs.without(&ours);
        return Ok(match others.is_empty() {
            true => Judgement::ok(text),
            false => widen(Judgement::warn(text), &[&proxy.process], &theirs),
        });
    }
    Ok(Judgement::ok(text))
}

fn widen(judgement: Judgement, processes: &[&Process], cpus: &Cpus) -> Judgement {
    let change = |process: &&Process| Change::Cpus { pid: process.pid, cpus: cpus.clone() };
    let changes: Vec<Change> = processes.iter().map(change).collect();
    let remedy: Vec<String> = changes.iter().map(ToString::to_string).collect();
    judgement.remedy(remedy.join("; ")).cure(Proof::Gone, changes)
}

/// Where any of its threads may run.
fn allowed(process: &Process) -> Result<Cpus, Unknown> {
    let threads = need(&process.threads)?;
    let cpus: Cpus = threads.iter().flat_map(|thread| thread.cpus.iter()).collect();
    match cpus.is_empty() {
        true => Err(Unknown(format!("where {} may run", process.name()))),
        false => Ok(cpus),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{PROXY, SERVER, after, cpus_of, is_unknown, pin, proxy, server};
    use crate::judgement::Verdict;
    use sys::tree::Seen;

    #[test]
    fn both_on_one_cpu_are_let_out() {
        let judgement = after(FINDING, |facts| {
            pin(server(facts), "3");
            pin(proxy(facts), "3");
        });
        assert_eq!(judgement.verdict, Verdict::Bad);
        let changes = judgement.cure.expect("can be cured").changes;
        let out = |pid| Change::Cpus { pid, cpus: cpus_of("0-7") };
        assert_eq!(changes, [out(SERVER), out(PROXY)]);
    }

    #[test]
    fn a_pinned_proxy_amid_the_server_is_told() {
        assert_eq!(after(FINDING, |facts| pin(proxy(facts), "3")).verdict, Verdict::Warn);
        // Apart they may be on purpose.
        let apart = after(FINDING, |facts| {
            pin(server(facts), "1-7");
            pin(proxy(facts), "0");
        });
        assert_eq!(apart.verdict, Verdict::Ok);
    }

    #[test]
    fn a_server_on_one_of_many_cpus_is_told_without_a_proxy_too() {
        let judgement = after(FINDING, |facts| {
            pin(server(facts), "3");
            facts.clients = Seen::Known(Vec::new());
        });
        assert_eq!(judgement.verdict, Verdict::Bad);
        assert!(is_unknown(FINDING, |facts| server(facts).threads = Seen::default()));
    }
}
