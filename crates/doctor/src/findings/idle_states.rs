//! Do CPUs sleep so deeply that waking them takes longer than a statement?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Unknown, need};

use super::percent;

pub(super) const FINDING: Finding = Finding {
    name: "idle-states",
    title: "Depth of the CPUs' sleep",
    why: "Waking from a deep state takes 50 to 200 microseconds, as long as a short statement, and \
          each of a statement's four wakings may pay it.",
    source: "Linux kernel, Documentation/admin-guide/pm/cpuidle.rst",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let states = need(&facts.machine.idle_states)?;
    if *need(&facts.machine.surroundings.virtual_machine)? {
        return Err(Unknown("how deep the host's CPUs sleep is not shown to a guest".to_owned()));
    }
    let sum: u64 = states.iter().fold(0, |sum, it| it.time.saturating_add(sum));
    if sum == 0 {
        return Err(Unknown("no state of sleep has been used".to_owned()));
    }
    let deep = states.iter().filter(|state| state.latency > SLOW && !state.disabled);
    let worst = deep.max_by_key(|state| state.time);
    Ok(match worst {
        Some(state) if state.time as f64 > OFTEN * sum as f64 => {
            let share = percent(state.time as f64 / sum as f64);
            let (name, latency) = (&state.name, state.latency);
            let text = format!("{name} takes {latency} us to wake from, {share} of the sleep");
            Judgement::warn(text).remedy(
                "exec 3<>/dev/cpu_dma_latency; printf '\\003\\0\\0\\0' >&3   # while it is open",
            )
        }
        _ => Judgement::ok(format!("{} states; none beyond {SLOW} us is used much", states.len())),
    })
}

const SLOW: u64 = 50;
const OFTEN: f64 = 0.3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, is_unknown};
    use crate::judgement::Verdict;
    use sys::power::IdleState;
    use sys::tree::Seen::Known;

    fn deep(facts: &mut Facts) {
        let Known(states) = &mut facts.machine.idle_states else { panic!("known") };
        states.push(IdleState { name: "C6".into(), latency: 133, disabled: false, time: 5000 });
    }

    #[test]
    fn deep_sleep_is_told_and_a_guest_cannot_tell() {
        let judgement = after(FINDING, deep);
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert!(judgement.evidence.contains("133 us"), "{}", judgement.evidence);
        assert!(is_unknown(FINDING, |facts| {
            facts.machine.surroundings.virtual_machine = Known(true);
        }));
    }
}
