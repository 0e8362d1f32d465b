//! Are CPUs idle while a client that feeds the server waits for a CPU?

use crate::change::Change;
use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Proof, Unknown};
use sys::threads::Policy;

use super::{busiest, percent};

pub(super) const FINDING: Finding = Finding {
    name: "starvation",
    title: "Starvation of busy local clients",
    why: "The scheduler shares a CPU evenly between one event loop and a hundred server threads; \
          while the loop waits its turn, the threads run out of work and CPUs idle.",
    source: "lab starvation; Linux kernel, Documentation/scheduler/sched-eevdf.rst",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let load = facts.busy()?;
    if load.seconds < SECONDS_MIN {
        return Err(Unknown(format!("{:.1} s is too short to tell; --watch 2s", load.seconds)));
    }
    let idle = load.idle()?;
    let server = facts.process()?.pid;
    let mut worst: Option<String> = None;
    for client in facts.clients()? {
        let Some(thread) = busiest(load, client)? else { continue };
        let starved =
            WAITED < thread.waited && WISHED < thread.ran + thread.waited && IDLE < idle;
        let text = format!(
            "{} ({}) ran {} and waited for a CPU {}, beside {} idle CPU",
            client.process.name(),
            thread.tid,
            percent(thread.ran),
            percent(thread.waited),
            percent(idle)
        );
        if starved {
            let policy = Policy::Batch;
            let cure = Change::Policy { pid: server, policy };
            return Ok(Judgement::bad(text)
                .remedy(format!("{cure}   # and the same for busy local clients"))
                .cure(Proof::Faster, vec![cure]));
        }
        worst.get_or_insert(text);
    }
    Ok(Judgement::ok(worst.unwrap_or_else(|| "no client of this machine".to_owned())))
}

/// Shorter looks see one turn of a hundred threads and not their average.
const SECONDS_MIN: f64 = 1.9;
const WAITED: f64 = 0.10;
const WISHED: f64 = 0.90;
const IDLE: f64 = 0.06;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{SERVER, after, is_unknown, load, set_idle, set_rate, worker};
    use crate::judgement::{Cure, Verdict};

    #[test]
    fn a_loop_that_waits_beside_idle_cpus_is_starved() {
        let starve = |facts: &mut Facts| {
            worker(facts).waited = 0.41;
            set_idle(facts, 0.12);
        };
        let judgement = after(FINDING, starve);
        assert_eq!(judgement.verdict, Verdict::Bad);
        assert!(judgement.evidence.contains("waited for a CPU 41 %"), "{}", judgement.evidence);
        let changes = vec![Change::Policy { pid: SERVER, policy: Policy::Batch }];
        assert_eq!(judgement.cure, Some(Cure { changes, proof: Proof::Faster }));
    }

    #[test]
    fn waiting_on_a_full_machine_is_not_starvation() {
        let full = |facts: &mut Facts| {
            worker(facts).waited = 0.41;
            set_idle(facts, 0.03);
        };
        assert_eq!(after(FINDING, full).verdict, Verdict::Ok);
    }

    #[test]
    fn a_short_look_and_an_idle_server_tell_nothing() {
        assert!(is_unknown(FINDING, |facts| load(facts).seconds = 0.5));
        assert!(is_unknown(FINDING, |facts| set_rate(facts, "Questions", 1.0)));
    }
}
