//! The control groups of a process: its weight, the CPUs and the memory that it may use, its quota
//! and how often it ran into it. Both versions of the kernel's interface.
//!
//! Interprets nothing but the two forms. A quota or limit of an ancestor binds as its own does, so
//! the narrowest on the way up is told. Inside a container the way up ends at the container: what
//! lies above is not seen.

use serde::{Deserialize, Serialize};

use crate::cpus::Cpus;
use crate::tree::{Seen, Tree, field};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cgroup {
    pub version: u8,
    /// The group that rules its CPU time, as `/proc/PID/cgroup` names it.
    pub path: String,
    /// Its share against its siblings, where 100 is usual; `None` in the root, which has no weight.
    pub weight: Seen<Option<u64>>,
    /// How many CPUs' time it may take: 0.5 is half a CPU. `None` is no quota.
    pub quota: Seen<Option<f64>>,
    pub throttling: Seen<Throttling>,
    pub cpus: Seen<Cpus>,
    /// In bytes; `None` is no limit.
    pub memory: Seen<Option<u64>>,
    /// What real-time threads may use of each period, in microseconds. Only where the kernel
    /// shares real time among groups.
    pub realtime: Seen<i64>,
}

/// Counters since the group was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttling {
    pub periods: u64,
    pub throttled: u64,
}

impl Throttling {
    pub fn since(self, before: Self) -> Self {
        Self {
            periods: self.periods.saturating_sub(before.periods),
            throttled: self.throttled.saturating_sub(before.throttled),
        }
    }
}

pub fn cgroup(tree: &Tree, pid: u32) -> Seen<Cgroup> {
    let path = format!("/proc/{pid}/cgroup");
    tree.text(&path).parse(&path, |text| {
        match controller(text, "cpu") {
            // With version 1 the CPUs and the memory may lie in groups of other names.
            Some(cpu) => Some(version_1(tree, text, cpu)),
            None => Some(version_2(tree, text.lines().find_map(|it| it.strip_prefix("0::"))?)),
        }
    })
}

/// The group in a hierarchy of version 1, from lines such as "4:cpu,cpuacct:/system.slice".
fn controller<'a>(text: &'a str, wanted: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (names, path) = (parts.next()?, parts.next()?);
        names.split(',').any(|name| name == wanted).then_some(path)
    })
}

fn version_2(tree: &Tree, group: &str) -> Cgroup {
    let folders = ways(tree, V2, group);
    // The root has no files of limits: nothing limits there.
    let weight = match folders.len() {
        0 | 1 => Seen::Known(None),
        _ => tree.number(&format!("{}/cpu.weight", folders[0])).map(Some),
    };
    Cgroup {
        version: 2,
        path: group.to_owned(),
        weight,
        quota: narrowest(tree, &folders, |folder| {
            let path = format!("{folder}/cpu.max");
            tree.line(&path).parse(&path, |line| {
                let (quota, period) = line.split_once(' ')?;
                quotient(quota, period)
            })
        }),
        throttling: throttling(tree, &folders),
        cpus: first(&folders, |folder| cpus(tree, &format!("{folder}/cpuset.cpus.effective"))),
        memory: narrowest(tree, &folders, |folder| {
            let path = format!("{folder}/memory.max");
            tree.line(&path).parse(&path, |line| match line.as_str() {
                "max" => Some(None),
                bytes => bytes.parse().ok().map(Some),
            })
        }),
        realtime: Seen::Unknown("version 2 has no share of real time".to_owned()),
    }
}

fn version_1(tree: &Tree, text: &str, group: &str) -> Cgroup {
    let folders = ways(tree, &mount(tree, "cpu,cpuacct", "cpu"), group);
    let memory = controller(text, "memory").unwrap_or("/");
    let memory = ways(tree, &mount(tree, "memory", "memory"), memory);
    let set = controller(text, "cpuset").unwrap_or("/");
    let set = ways(tree, &mount(tree, "cpuset", "cpuset"), set);
    Cgroup {
        version: 1,
        path: group.to_owned(),
        // 1024 shares are usual, as a weight of 100 is.
        weight: match folders.first() {
            Some(folder) => tree
                .number::<u64>(&format!("{folder}/cpu.shares"))
                .map(|shares| Some((shares.saturating_mul(100) / 1024).max(1))),
            None => Seen::Unknown("the group cannot be seen".to_owned()),
        },
        quota: narrowest(tree, &folders, |folder| {
            let period = tree.line(&format!("{folder}/cpu.cfs_period_us"));
            let path = format!("{folder}/cpu.cfs_quota_us");
            tree.line(&path).parse(&path, |quota| match quota.as_str() {
                "-1" => Some(None),
                quota => quotient(quota, period.known()?),
            })
        }),
        throttling: throttling(tree, &folders),
        cpus: first(&set, |folder| cpus(tree, &format!("{folder}/cpuset.effective_cpus"))),
        memory: narrowest(tree, &memory, |folder| {
            tree.number::<u64>(&format!("{folder}/memory.limit_in_bytes"))
                .map(|bytes| (bytes < UNLIMITED).then_some(bytes))
        }),
        realtime: first(&folders, |folder| tree.number(&format!("{folder}/cpu.rt_runtime_us"))),
    }
}

/// Where version 1 has a controller: some machines name the folder after both that are in it.
fn mount(tree: &Tree, both: &str, one: &str) -> String {
    let path = format!("{V2}/{both}");
    if tree.exists(&path) { path } else { format!("{V2}/{one}") }
}

/// The folders from a group's own up to the root of what can be seen, own first. A group that lies
/// outside a container's view is the view's root.
fn ways(tree: &Tree, mount: &str, group: &str) -> Vec<String> {
    let mut ways = Vec::new();
    let mut group = group.trim_end_matches('/');
    while !group.is_empty() && ways.len() < DEPTH_MAX && !group.contains("..") {
        let folder = format!("{mount}{group}");
        if tree.exists(&folder) {
            ways.push(folder);
        }
        group = group.rsplit_once('/').map_or("", |(above, _)| above);
    }
    if tree.exists(mount) {
        ways.push(mount.to_owned());
    }
    ways
}

fn first<T>(folders: &[String], read: impl Fn(&str) -> Seen<T>) -> Seen<T> {
    let mut seen = Seen::Unknown("the group cannot be seen".to_owned());
    for folder in folders {
        seen = read(folder);
        if seen.known().is_some() {
            break;
        }
    }
    seen
}

/// The smallest of the values that are known on the way up.
fn narrowest<T: PartialOrd + Copy>(
    tree: &Tree,
    folders: &[String],
    read: impl Fn(&str) -> Seen<Option<T>>,
) -> Seen<Option<T>> {
    let mut found: Seen<Option<T>> = Seen::Unknown("the group cannot be seen".to_owned());
    for folder in folders {
        // The root of version 2 has no such file: it is not limited.
        let seen = match read(folder) {
            Seen::Unknown(_) if folder == V2 && tree.exists(V2_MARK) => Seen::Known(None),
            seen => seen,
        };
        found = match (found, seen) {
            (Seen::Known(Some(one)), Seen::Known(Some(other))) => {
                Seen::Known(Some(if other < one { other } else { one }))
            }
            (Seen::Known(Some(one)), _) => Seen::Known(Some(one)),
            // One that could not be read may be narrower.
            (Seen::Denied(what), Seen::Known(None)) => Seen::Denied(what),
            (_, seen @ (Seen::Known(_) | Seen::Denied(_))) => seen,
            (found, Seen::Unknown(_)) => found,
        };
    }
    found
}

/// Of the first group on the way up that has a quota, else of its own.
fn throttling(tree: &Tree, folders: &[String]) -> Seen<Throttling> {
    let read = |folder: &str| {
        let path = format!("{folder}/cpu.stat");
        tree.text(&path).parse(&path, |text| {
            let count = |name| field(text, name)?.parse().ok();
            Some(Throttling { periods: count("nr_periods ")?, throttled: count("nr_throttled ")? })
        })
    };
    let all: Vec<Seen<Throttling>> = folders.iter().map(|folder| read(folder)).collect();
    let bound = all.iter().find(|it| it.known().is_some_and(|it| it.periods != 0)).cloned();
    let any = || all.iter().find(|it| it.known().is_some()).cloned();
    bound.or_else(any).or_else(|| all.into_iter().next()).unwrap_or_default()
}

fn cpus(tree: &Tree, path: &str) -> Seen<Cpus> {
    tree.line(path).parse(path, |line| line.parse().ok().filter(|it: &Cpus| !it.is_empty()))
}

fn quotient(quota: &str, period: &str) -> Option<Option<f64>> {
    if quota == "max" {
        return Some(None);
    }
    let (quota, period): (u32, u32) = (quota.parse().ok()?, period.parse().ok()?);
    (period != 0).then(|| Some(f64::from(quota) / f64::from(period)))
}

const V2: &str = "/sys/fs/cgroup";
/// In the root of version 2 only.
const V2_MARK: &str = "/sys/fs/cgroup/cgroup.controllers";
const DEPTH_MAX: usize = 64;
/// Version 1 writes "no limit" as a number near the end of its type.
const UNLIMITED: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::machine;

    #[test]
    fn version_2_is_read_and_the_narrowest_quota_counts() {
        let (_folder, tree) = machine(&[
            ("/proc/7/cgroup", "0::/db.slice/maria.service\n"),
            ("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            ("/sys/fs/cgroup/cpuset.cpus.effective", "0-7\n"),
            ("/sys/fs/cgroup/db.slice/cpu.max", "50000 100000\n"),
            ("/sys/fs/cgroup/db.slice/cpu.stat", "usage_usec 1\nnr_periods 10\nnr_throttled 4\n"),
            ("/sys/fs/cgroup/db.slice/maria.service/cpu.max", "max 100000\n"),
            ("/sys/fs/cgroup/db.slice/maria.service/cpu.stat", "nr_periods 0\nnr_throttled 0\n"),
            ("/sys/fs/cgroup/db.slice/maria.service/cpu.weight", "100\n"),
            ("/sys/fs/cgroup/db.slice/maria.service/memory.max", "1073741824\n"),
        ]);
        let seen = cgroup(&tree, 7);
        let group = seen.known().expect("reads");
        assert_eq!((group.version, group.path.as_str()), (2, "/db.slice/maria.service"));
        assert_eq!(group.weight, Seen::Known(Some(100)));
        assert_eq!(group.quota, Seen::Known(Some(0.5)));
        assert_eq!(group.throttling, Seen::Known(Throttling { periods: 10, throttled: 4 }));
        assert_eq!(group.memory, Seen::Known(Some(1 << 30)));
        assert_eq!(group.cpus.known().map(ToString::to_string).as_deref(), Some("0-7"));
    }

    #[test]
    fn version_1_is_read() {
        let (_folder, tree) = machine(&[
            ("/proc/7/cgroup", "5:memory:/db\n4:cpu,cpuacct:/db\n3:cpuset:/\n0::/\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/db/cpu.shares", "2048\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/db/cpu.cfs_quota_us", "150000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/db/cpu.cfs_period_us", "100000\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/db/cpu.rt_runtime_us", "0\n"),
            ("/sys/fs/cgroup/cpu,cpuacct/db/cpu.stat", "nr_periods 3\nnr_throttled 1\n"),
            ("/sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-1\n"),
            ("/sys/fs/cgroup/memory/db/memory.limit_in_bytes", "9223372036854771712\n"),
        ]);
        let seen = cgroup(&tree, 7);
        let group = seen.known().expect("reads");
        assert_eq!((group.version, &group.weight), (1, &Seen::Known(Some(200))));
        assert_eq!(group.quota, Seen::Known(Some(1.5)));
        assert_eq!(group.memory, Seen::Known(None));
        assert_eq!(group.realtime, Seen::Known(0));
        assert_eq!(group.cpus.known().map(Cpus::len), Some(2));
    }

    #[test]
    fn a_group_that_cannot_be_seen_is_unknown_and_not_unlimited() {
        let (_folder, tree) = machine(&[("/proc/7/cgroup", "0::/../other\n")]);
        let seen = cgroup(&tree, 7);
        let group = seen.known().expect("reads");
        assert!(group.quota.known().is_none() && group.memory.known().is_none(), "{group:?}");
    }

    #[test]
    fn this_process_has_a_group_or_says_why_not() {
        match cgroup(&Tree::live(), std::process::id()) {
            Seen::Known(group) => assert!(group.version == 1 || group.version == 2),
            seen => assert_ne!(seen.reason(), ""),
        }
    }
}
