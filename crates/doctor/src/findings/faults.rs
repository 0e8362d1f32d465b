//! Does the server spend its time on getting memory from the kernel and giving it back?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, need};

use super::percent;

pub(super) const FINDING: Finding = Finding {
    name: "faults",
    title: "Page faults of the server",
    why: "A buffer that the allocator takes from the kernel anew for each statement costs a fault \
          for each 4 KiB of it: 1281 faults and 2.1 ms for 5 MiB.",
    source: "lab pagefaults; malloc_trim and M_MMAP_THRESHOLD in mallopt(3)",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let load = facts.busy()?;
    let effort = need(&load.server)?;
    let statements = load.rate("Questions")? * load.seconds;
    let each = effort.minor_faults as f64 / statements.max(1.0);
    let system = effort.system as f64 / (effort.user + effort.system).max(1) as f64;
    let text = format!("{each:.1} a statement; {} of its CPU time in the kernel", percent(system));
    let remedy = "see the allocator's environment, and the session buffers, below";
    Ok(match each > FAULTS {
        true if system > SYSTEM => Judgement::bad(text).remedy(remedy),
        true => Judgement::warn(text).remedy(remedy),
        false => Judgement::ok(text),
    })
}

const FAULTS: f64 = 50.0;
const SYSTEM: f64 = 0.25;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, load};
    use crate::judgement::Verdict;
    use sys::tree::Seen::Known;

    #[test]
    fn a_thousand_faults_a_statement_are_told() {
        let fault = |system| {
            move |facts: &mut Facts| {
                let Known(effort) = &mut load(facts).server else { panic!("known") };
                effort.minor_faults = 100_000_000;
                effort.system = system;
            }
        };
        assert_eq!(after(FINDING, fault(800)).verdict, Verdict::Bad);
        assert_eq!(after(FINDING, fault(10)).verdict, Verdict::Warn);
    }
}
