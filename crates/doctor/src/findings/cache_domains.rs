//! Do the proxy's threads share a last-level cache?

use std::collections::BTreeSet;

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Unknown, need};

use super::NO_PROXY;

pub(super) const FINDING: Finding = Finding {
    name: "cache-domains",
    title: "Caches under the proxy's threads",
    why: "Threads that hand connections to each other across caches pay for it with each line of \
          memory that travels.",
    source: "HAProxy manual, cpu-policy",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let Some(proxy) = facts.proxy()? else { return Ok(Judgement::ok(NO_PROXY)) };
    let mut domains = BTreeSet::new();
    let threads = need(&proxy.process.threads)?;
    for cpu in facts.cpus()? {
        if threads.iter().any(|thread| thread.cpus.has(cpu.number)) {
            domains.insert(need(&cpu.cache)?);
        }
    }
    let Some(first) = domains.first() else {
        return Err(Unknown("where the proxy may run".to_owned()));
    };
    let text = format!("{} threads over {} caches", threads.len(), domains.len());
    let fits = threads.len() <= first.len();
    Ok(match domains.len() > 1 && threads.len() > 1 && fits {
        true => Judgement::warn(text).remedy(format!(
            "taskset --all-tasks --cpu-list --pid {first} {}",
            proxy.process.pid
        )),
        false => Judgement::ok(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, cpus_of, is_unknown, proxy};
    use crate::judgement::Verdict;
    use sys::tree::Seen::{self, Known};

    fn split(facts: &mut Facts) {
        let Known(cpus) = &mut facts.machine.cpus else { panic!("known") };
        for cpu in cpus {
            cpu.cache = Known(cpus_of(if cpu.number < 4 { "0-3" } else { "4-7" }));
        }
        let Known(threads) = &mut proxy(facts).threads else { panic!("known") };
        threads.push(threads[0].clone());
    }

    #[test]
    fn threads_over_two_caches_are_told() {
        let judgement = after(FINDING, split);
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert!(judgement.remedy.is_some_and(|it| it.contains("--pid 0-3 200")));
    }

    #[test]
    fn a_machine_that_does_not_tell_is_unknown() {
        assert!(is_unknown(FINDING, |facts| {
            let Known(cpus) = &mut facts.machine.cpus else { panic!("known") };
            cpus[0].cache = Seen::default();
        }));
    }
}
