//! Do the CPUs run as fast as they can while there is work?

use sys::power::Frequency;

use crate::change::Change;
use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Proof, Unknown, need};

pub(super) const FINDING: Finding = Finding {
    name: "governor",
    title: "Frequency governor",
    why: "Statements are over before a governor that waits for load has raised the frequency: a \
          cluster on a default desktop lost half its throughput to one.",
    source: "Linux kernel, Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let all = need(&facts.machine.frequencies)?;
    if all.is_empty() {
        let text = "no governor is shown: the host decides, where there is one";
        return Err(Unknown(text.to_owned()));
    }
    let mut slow = Vec::new();
    for policy in all {
        if let Some(change) = better(policy)? {
            slow.push(change);
        }
    }
    let first = &all[0];
    let text = format!(
        "{} with {}{}",
        need(&first.driver)?,
        need(&first.governor)?,
        first.preference.known().map_or(String::new(), |it| format!(", preferring {it}"))
    );
    let Some(change) = slow.first() else { return Ok(Judgement::ok(text)) };
    let remedy = match change {
        Change::File { path, value } if path.ends_with("scaling_governor") => {
            format!("cpupower frequency-set --governor {value}")
        }
        change => format!("{change}   # and for the other policies"),
    };
    Ok(Judgement::warn(text).remedy(remedy).cure(Proof::Faster, slow))
}

/// What would be better, if anything. Drivers that choose themselves have a "powersave" that is
/// the ordinary one; there the preference says what is meant.
fn better(policy: &Frequency) -> Result<Option<Change>, Unknown> {
    let file = |file: &str| format!("/sys/devices/system/cpu/cpufreq/{}/{file}", policy.name);
    let (driver, governor) = (need(&policy.driver)?, need(&policy.governor)?);
    let set = |path: &str| Some(Change::File { path: file(path), value: "performance".to_owned() });
    let chooses = ["intel_pstate", "amd-pstate-epp"].contains(&driver.as_str());
    Ok(match (governor.as_str(), policy.preference.known().map(String::as_str)) {
        ("performance", _) => None,
        (_, Some("power" | "balance_power")) => set("energy_performance_preference"),
        ("powersave", _) if chooses => None,
        ("powersave" | "ondemand" | "conservative" | "userspace", _) => set("scaling_governor"),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, is_unknown};
    use crate::judgement::Verdict;
    use sys::tree::Seen::Known;

    fn with<'a>(
        driver: &'a str,
        governor: &'a str,
        preference: Option<&'a str>,
    ) -> impl FnOnce(&mut Facts) + 'a {
        move |facts| {
            let Known(all) = &mut facts.machine.frequencies else { panic!("known") };
            all[0].driver = Known(driver.to_owned());
            all[0].governor = Known(governor.to_owned());
            if let Some(preference) = preference {
                all[0].preference = Known(preference.to_owned());
            }
        }
    }

    #[test]
    fn governors_that_lag_are_told() {
        for governor in ["powersave", "ondemand", "conservative"] {
            let judgement = after(FINDING, with("acpi-cpufreq", governor, None));
            assert_eq!(judgement.verdict, Verdict::Warn, "{governor}");
            assert!(judgement.cure.is_some());
        }
        assert_eq!(after(FINDING, with("acpi-cpufreq", "schedutil", None)).verdict, Verdict::Ok);
    }

    #[test]
    fn powersave_of_a_driver_that_chooses_is_the_ordinary_one() {
        let fine = with("intel_pstate", "powersave", Some("balance_performance"));
        assert_eq!(after(FINDING, fine).verdict, Verdict::Ok);
        let slow = after(FINDING, with("amd-pstate-epp", "powersave", Some("power")));
        assert_eq!(slow.verdict, Verdict::Warn);
        assert!(slow.remedy.is_some_and(|it| it.contains("energy_performance_preference")));
    }

    #[test]
    fn a_guest_that_is_shown_nothing_cannot_tell() {
        assert!(is_unknown(FINDING, |facts| facts.machine.frequencies = Known(Vec::new())));
    }
}
