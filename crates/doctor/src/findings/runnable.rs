//! Do far more statements run at once than there are CPUs?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, need};

pub(super) const FINDING: Finding = Finding {
    name: "runnable",
    title: "Statements at once",
    why: "Beyond a few for each CPU, statements that run at once only take turns and locks from \
          each other; a limit with the rest waiting in the queue does more in total.",
    source: "Flifo's demo at 512 clients; lab starvation, limit 16",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let load = facts.busy()?;
    let running = *need(&load.running_max)?;
    let cpus = facts.process()?.main()?.cpus.len().max(1) as u64;
    let text = format!("up to {running} at once on {cpus} CPUs");
    Ok(match running > PER_CPU * cpus {
        true => Judgement::warn(text).remedy(format!(
            "limit them to about {} in front of the server, as `flifo run` does",
            8 * cpus
        )),
        false => Judgement::ok(text),
    })
}

const PER_CPU: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, load, pin, server};
    use crate::judgement::Verdict;
    use sys::tree::Seen::Known;

    #[test]
    fn hundreds_on_a_few_cpus_are_too_many() {
        let crowd = |facts: &mut Facts| load(facts).running_max = Known(100);
        assert_eq!(after(FINDING, crowd).verdict, Verdict::Ok);
        let judgement = after(FINDING, |facts| {
            crowd(facts);
            pin(server(facts), "0-1");
        });
        assert_eq!(judgement.verdict, Verdict::Warn);
    }
}
