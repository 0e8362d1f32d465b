//! Is the frequency capped below what the hardware could?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Unknown, need};

pub(super) const FINDING: Finding = Finding {
    name: "frequency-cap",
    title: "Frequency's upper bound",
    why: "A bound that a profile or a thermal daemon left behind slows everything, whatever the \
          governor.",
    source: "Linux kernel, Documentation/admin-guide/pm/cpufreq.rst, scaling_max_freq",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let all = need(&facts.machine.frequencies)?;
    if all.is_empty() {
        let text = "no frequency is shown: the host decides, where there is one";
        return Err(Unknown(text.to_owned()));
    }
    let mut capped = None;
    let mut most = 0;
    for policy in all {
        let (bound, hardware) = (*need(&policy.max_khz)?, *need(&policy.hardware_max_khz)?);
        most = most.max(hardware);
        if bound < hardware / 100 * 95 {
            capped.get_or_insert_with(|| (policy.name.clone(), bound, hardware));
        }
    }
    Ok(match capped {
        None => Judgement::ok(format!("up to {} MHz", most / 1000)),
        Some((name, bound, hardware)) => {
            let text = format!("{name}: {} of {} MHz", bound / 1000, hardware / 1000);
            Judgement::warn(text).remedy(format!("cpupower frequency-set --max {hardware}"))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::after;
    use crate::judgement::Verdict;
    use sys::tree::Seen::Known;

    #[test]
    fn a_bound_below_the_hardwares_is_told() {
        let judgement = after(FINDING, |facts| {
            let Known(all) = &mut facts.machine.frequencies else { panic!("known") };
            all[0].max_khz = Known(1_200_000);
        });
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert_eq!(judgement.evidence, "policy0: 1200 of 3600 MHz");
    }
}
