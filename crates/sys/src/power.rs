//! How the CPUs save power: frequency governors and idle states.
//!
//! Reads `/sys/devices/system/cpu` and interprets nothing. Most virtual machines show none of it:
//! their host decides.

use serde::{Deserialize, Serialize};

use crate::tree::{Seen, Tree};

/// How the frequency of a group of CPUs is chosen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frequency {
    /// The folder, such as "policy0".
    pub name: String,
    pub driver: Seen<String>,
    pub governor: Seen<String>,
    /// What the CPU itself is told to prefer, where it chooses.
    pub preference: Seen<String>,
    pub max_khz: Seen<u64>,
    /// What the hardware could do at most.
    pub hardware_max_khz: Seen<u64>,
}

/// A depth of sleep of the first CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdleState {
    pub name: String,
    /// How long waking takes, in microseconds.
    pub latency: u64,
    pub disabled: bool,
    /// Microseconds that were spent in it, by all CPUs.
    pub time: u64,
}

/// An empty list is a machine that has the folder and nothing in it.
pub fn frequencies(tree: &Tree) -> Seen<Vec<Frequency>> {
    let names = tree.names(CPUFREQ);
    names.map(|names| {
        let policies = names.into_iter().filter(|name| name.starts_with("policy"));
        policies.map(|name| frequency(tree, name)).collect()
    })
}

fn frequency(tree: &Tree, name: String) -> Frequency {
    let path = |file: &str| format!("{CPUFREQ}/{name}/{file}");
    Frequency {
        driver: tree.line(&path("scaling_driver")),
        governor: tree.line(&path("scaling_governor")),
        preference: tree.line(&path("energy_performance_preference")),
        max_khz: tree.number(&path("scaling_max_freq")),
        hardware_max_khz: tree.number(&path("cpuinfo_max_freq")),
        name,
    }
}

/// The states of sleep, with the time that all CPUs together spent in each.
pub fn idle_states(tree: &Tree) -> Seen<Vec<IdleState>> {
    let states = |cpu: u32| tree.names(&format!("{CPUS}/cpu{cpu}/cpuidle"));
    let cpus = tree.names(CPUS).map(|names| {
        let cpus = names.iter().filter_map(|name| name.strip_prefix("cpu")?.parse().ok());
        cpus.collect::<Vec<u32>>()
    });
    let first = states(0);
    first.map(|names| {
        let cpus = cpus.known().cloned().unwrap_or_default();
        let mut found = Vec::new();
        for name in names.iter().filter(|name| name.starts_with("state")) {
            let path = |cpu: u32, file: &str| format!("{CPUS}/cpu{cpu}/cpuidle/{name}/{file}");
            let time = |cpu| tree.number::<u64>(&path(cpu, "time")).known().copied().unwrap_or(0);
            let number = |file| tree.number::<u64>(&path(0, file)).known().copied().unwrap_or(0);
            found.push(IdleState {
                name: tree.line(&path(0, "name")).known().unwrap_or(name).clone(),
                latency: number("latency"),
                disabled: number("disable") == 1,
                time: cpus.iter().map(|cpu| time(*cpu)).sum(),
            });
        }
        found
    })
}

const CPUS: &str = "/sys/devices/system/cpu";
const CPUFREQ: &str = "/sys/devices/system/cpu/cpufreq";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::machine;

    #[test]
    fn a_recorded_laptop_is_read() {
        let cpu = "/sys/devices/system/cpu";
        let policy = format!("{cpu}/cpufreq/policy0");
        let state = |number: u32, file: &str| format!("{cpu}/cpu{number}/cpuidle/state1/{file}");
        let files = [
            (format!("{policy}/scaling_driver"), "intel_pstate"),
            (format!("{policy}/scaling_governor"), "powersave"),
            (format!("{policy}/energy_performance_preference"), "balance_power"),
            (format!("{policy}/scaling_max_freq"), "1200000"),
            (format!("{policy}/cpuinfo_max_freq"), "4800000"),
            (state(0, "name"), "C6"),
            (state(0, "latency"), "133"),
            (state(0, "disable"), "0"),
            (state(0, "time"), "70"),
            (state(1, "time"), "30"),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), *b)).collect();
        let (_folder, tree) = machine(&files);
        let seen = frequencies(&tree);
        let [policy] = &seen.known().expect("reads")[..] else { panic!("{seen:?}") };
        assert_eq!(policy.governor, Seen::Known("powersave".into()));
        assert_eq!(policy.max_khz, Seen::Known(1_200_000));
        let state = IdleState { name: "C6".into(), latency: 133, disabled: false, time: 100 };
        assert_eq!(idle_states(&tree), Seen::Known(vec![state]));
    }

    #[test]
    fn a_machine_that_shows_nothing_is_not_a_machine_without() {
        let (_folder, tree) = machine(&[("/sys/devices/system/cpu/online", "0-1")]);
        assert!(frequencies(&tree).known().is_none() && idle_states(&tree).known().is_none());
    }
}
