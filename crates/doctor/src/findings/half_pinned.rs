//! May all threads of the server run on the same CPUs?

use std::collections::BTreeMap;

use sys::cpus::Cpus;

use crate::change::Change;
use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Proof, need};

pub(super) const FINDING: Finding = Finding {
    name: "half-pinned",
    title: "Half-applied taskset",
    why: "taskset without --all-tasks moves one thread; the others stay where they were, and new \
          ones go where their parent is.",
    source: "sched_setaffinity(2): \"the thread whose ID is pid\"",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let server = facts.process()?;
    let mut sets: BTreeMap<&Cpus, usize> = BTreeMap::new();
    for thread in need(&server.threads)? {
        *sets.entry(&thread.cpus).or_default() += 1;
    }
    let list: Vec<String> =
        sets.iter().map(|(cpus, count)| format!("{count} threads on {cpus}")).collect();
    let text = list.join(", ");
    if sets.len() < 2 {
        return Ok(Judgement::ok(text));
    }
    let main = server.main()?.cpus.clone();
    let change = Change::Cpus { pid: server.pid, cpus: main };
    let found = match facts.server.text("version") {
        // MySQL's resource groups may have pinned threads on purpose.
        Ok(version) if version.contains("MariaDB") => Judgement::bad(text),
        _ => Judgement::warn(text),
    };
    Ok(found.remedy(change.to_string()).cure(Proof::Gone, vec![change]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{SERVER, after, cpus_of, server, set_variable};
    use crate::judgement::Verdict;
    use sys::tree::Seen::Known;

    fn move_one(facts: &mut Facts) {
        let Known(threads) = &mut server(facts).threads else { panic!("known") };
        threads[0].cpus = cpus_of("2-3");
    }

    #[test]
    fn threads_on_different_cpus_are_told_and_brought_together() {
        let judgement = after(FINDING, move_one);
        assert_eq!(judgement.verdict, Verdict::Bad);
        assert!(judgement.evidence.contains("1 threads on 2-3"), "{}", judgement.evidence);
        let changes = judgement.cure.expect("can be cured").changes;
        assert_eq!(changes, [Change::Cpus { pid: SERVER, cpus: cpus_of("2-3") }]);
    }

    #[test]
    fn mysql_may_mean_it() {
        let judgement = after(FINDING, |facts| {
            move_one(facts);
            set_variable(facts, "version", "8.4.2");
        });
        assert_eq!(judgement.verdict, Verdict::Warn);
    }
}
