//! The kernel and what it runs on: version, preemption, pressure, settings, counters, hypervisor.
//!
//! Reads `/proc` and `/sys` and interprets nothing.

use serde::{Deserialize, Serialize};

use crate::tree::{Seen, Tree, field};

/// What all CPUs together have spent their time on, in hundredths of a second since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    pub busy: u64,
    /// Waiting for a disk is idling, too: a server that waits for its disk with `io_uring` shows
    /// as nothing but that.
    pub idle: u64,
    /// A hypervisor let another machine run while this one was ready to run.
    pub steal: u64,
    pub cpus: usize,
}

impl Times {
    pub fn all(self) -> u64 {
        self.busy.saturating_add(self.idle).saturating_add(self.steal)
    }

    pub fn since(self, before: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(before.busy),
            idle: self.idle.saturating_sub(before.idle),
            steal: self.steal.saturating_sub(before.steal),
            cpus: self.cpus,
        }
    }
}

/// The share of time in which some or all threads waited for a resource, in percent of the last ten seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Pressure {
    pub some: f64,
    pub full: f64,
}

/// Where this process runs, as far as it can be told from inside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// The CPU says that a hypervisor is below it.
    pub virtual_machine: Seen<bool>,
    /// A mark that makers of containers leave, if there is one.
    pub container: Option<String>,
    /// Whether this process has the machine's own numbers of processes: it sees the kernel's.
    pub sees_kernel_threads: bool,
}

pub fn times(tree: &Tree) -> Seen<Times> {
    tree.text("/proc/stat").parse("/proc/stat", |text| {
        let mut numbers = field(text, "cpu ")?.split_ascii_whitespace();
        let mut ticks = [0_u64; 8];
        for tick in &mut ticks {
            *tick = numbers.next()?.parse().ok()?;
        }
        let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
        let is_cpu = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
        Some(Times {
            busy: [user, nice, system, irq, softirq].into_iter().fold(0, u64::saturating_add),
            idle: idle.saturating_add(iowait),
            steal,
            cpus: text.lines().filter(is_cpu).count(),
        })
    })
}

/// The pressure on "cpu", "io" or "memory".
pub fn pressure(tree: &Tree, resource: &str) -> Seen<Pressure> {
    let path = format!("/proc/pressure/{resource}");
    tree.text(&path).parse(&path, |text| {
        let average = |kind| {
            let average = field(text, kind)?.strip_prefix("avg10=")?.split(' ').next()?;
            average.parse().ok()
        };
        // Kernels before 5.13 do not tell the second for CPUs.
        Some(Pressure { some: average("some ")?, full: average("full ").unwrap_or(0.0) })
    })
}

/// The version as a program compares it: 6.18 of "6.18.44-generic".
pub fn version(tree: &Tree) -> Seen<(u32, u32)> {
    let path = "/proc/sys/kernel/osrelease";
    tree.line(path).parse(path, |line| {
        let mut parts = line.split(|letter: char| !letter.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    })
}

/// The model of preemption: "none", "voluntary", "full" or "lazy".
pub fn preemption(tree: &Tree) -> Seen<String> {
    let debug =
        tree.line("/sys/kernel/debug/sched/preempt").parse("the preemption", |line| marked(line));
    let option = || {
        tree.line("/proc/cmdline").parse("the preemption", |line| {
            let mut options = line.split(' ');
            options.find_map(|option| option.strip_prefix("preempt=").map(str::to_owned))
        })
    };
    let built = || {
        tree.line("/proc/version").parse("the preemption", |line| {
            let word = line.split(' ').find(|word| word.starts_with("PREEMPT"));
            // What a dynamic kernel was told is not in its name.
            let model = match word {
                Some("PREEMPT") => "full",
                Some("PREEMPT_LAZY") => "lazy",
                Some("PREEMPT_RT") => "realtime",
                Some(_) => return None,
                None => "none or voluntary",
            };
            Some(model.to_owned())
        })
    };
    debug.or_else(option).or_else(built)
}

/// Of "always [madvise] never" the one that holds.
pub fn chosen(tree: &Tree, path: &str) -> Seen<String> {
    tree.line(path).parse(path, |line| marked(line))
}

fn marked(line: &str) -> Option<String> {
    // The kernel marks with brackets, or with parentheses where it lists models of preemption.
    let words = line.split(' ').find(|word| word.starts_with(['[', '(']));
    words.map(|word| word.trim_matches(['[', ']', '(', ')']).to_owned())
}

/// A setting below `/proc/sys`, by its name with dots.
pub fn setting(tree: &Tree, name: &str) -> Seen<String> {
    tree.line(&format!("/proc/sys/{}", name.replace('.', "/")))
}

/// Which start of the machine this is: the same until the next one.
pub fn boot(tree: &Tree) -> String {
    tree.line("/proc/sys/kernel/random/boot_id").known().cloned().unwrap_or_default()
}

/// A counter of the memory's management.
pub fn memory_counter(tree: &Tree, name: &str) -> Seen<u64> {
    tree.text("/proc/vmstat").parse(name, |text| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
        value.parse().ok()
    })
}

/// A line of `/proc/meminfo`, in KiB.
pub fn memory_kib(tree: &Tree, name: &str) -> Seen<u64> {
    tree.text("/proc/meminfo").parse(name, |text| {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        value.trim().trim_end_matches(" kB").parse().ok()
    })
}

pub fn surroundings(tree: &Tree) -> Surroundings {
    let marks = ["/.dockerenv", "/run/.containerenv", "/run/systemd/container"];
    let group = tree.text("/proc/1/cgroup");
    let names = ["docker", "kubepods", "lxc", "libpod"];
    let named = names.iter().find(|name| group.known().is_some_and(|text| text.contains(**name)));
    let mark = marks.iter().find(|mark| tree.exists(mark));
    Surroundings {
        virtual_machine: tree.text("/proc/cpuinfo").parse("/proc/cpuinfo", |text| {
            let flags = field(text, "flags")?;
            Some(flags.split(' ').any(|flag| flag == "hypervisor"))
        }),
        container: mark.or(named).map(|mark| (*mark).to_owned()),
        sees_kernel_threads: tree
            .line("/proc/2/comm")
            .known()
            .is_some_and(|name| name == "kthreadd"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::machine;

    #[test]
    fn a_recorded_machine_is_read() {
        let (_folder, tree) = machine(&[
            ("/proc/stat", "cpu  10 1 5 70 9 1 1 2 0 0\ncpu0 1 1\ncpu1 1 1\nintr 5\n"),
            ("/proc/pressure/cpu", "some avg10=75.03 avg60=64.64 avg300=45.48 total=6\n"),
            ("/proc/sys/kernel/osrelease", "7.0.3-1-generic\n"),
            ("/proc/version", "Linux version 7.0.3 (x) #1 SMP PREEMPT_LAZY\n"),
            ("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("/proc/vmstat", "compact_stall_x 1\ncompact_stall 17\n"),
            ("/proc/meminfo", "MemTotal:        7900 kB\n"),
            ("/proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu hypervisor sse\n"),
            ("/.dockerenv", ""),
            ("/proc/sys/net/core/somaxconn", "128\n"),
        ]);
        assert_eq!(times(&tree), Seen::Known(Times { busy: 18, idle: 79, steal: 2, cpus: 2 }));
        assert_eq!(pressure(&tree, "cpu"), Seen::Known(Pressure { some: 75.03, full: 0.0 }));
        assert_eq!(version(&tree), Seen::Known((7, 0)));
        assert_eq!(preemption(&tree), Seen::Known("lazy".into()));
        let huge = chosen(&tree, "/sys/kernel/mm/transparent_hugepage/enabled");
        assert_eq!(huge, Seen::Known("madvise".into()));
        assert_eq!(memory_counter(&tree, "compact_stall"), Seen::Known(17));
        assert_eq!(memory_kib(&tree, "MemTotal"), Seen::Known(7900));
        assert_eq!(setting(&tree, "net.core.somaxconn"), Seen::Known("128".into()));
        let place = surroundings(&tree);
        assert_eq!(place.virtual_machine, Seen::Known(true));
        assert_eq!(place.container.as_deref(), Some("/.dockerenv"));
        assert!(!place.sees_kernel_threads);
    }

    #[test]
    fn a_dynamic_kernel_does_not_tell_its_model_by_its_name() {
        let version = ("/proc/version", "Linux version 6.18 (x) #1 SMP PREEMPT_DYNAMIC\n");
        let (_folder, tree) = machine(&[version, ("/proc/cmdline", "quiet\n")]);
        assert!(preemption(&tree).known().is_none());
        let (_folder, tree) = machine(&[version, ("/proc/cmdline", "quiet preempt=full x\n")]);
        assert_eq!(preemption(&tree), Seen::Known("full".into()));
    }

    #[test]
    fn this_machine_is_read() {
        let tree = Tree::live();
        assert!(times(&tree).known().expect("reads").cpus >= 1);
        assert!(version(&tree).known().expect("reads").0 >= 3);
        assert!(memory_kib(&tree, "MemTotal").known().expect("reads") > &0);
    }
}
