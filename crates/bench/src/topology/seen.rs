//! Where a process runs: its CPUs, its automatic group, its control group.
//!
//! Reads `/proc` and `/sys`; changes nothing.

use sys::cpus::Cpus;
use sys::details;
use sys::tree::{Seen, Tree};
use sys::{cgroup, threads};

use crate::results::{Process, ProcessPlace};

pub(super) fn process(tree: &Tree, process: &Process) -> ProcessPlace {
    let Process { role, name, pid } = process.clone();
    ProcessPlace {
        role,
        name,
        pid,
        cpus: cpus(tree, pid),
        autogroup: details::autogroup_in_force(tree, pid),
        cgroup: cgroup::cgroup(tree, pid),
    }
}

/// The CPUs on which any of its threads may run.
pub(super) fn cpus(tree: &Tree, pid: u32) -> Seen<Cpus> {
    threads::threads(tree, pid).parse("the threads", |threads| {
        let all: Cpus = threads.iter().flat_map(|thread| thread.cpus.iter()).collect();
        (!all.is_empty()).then_some(all)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Role;
    use sys::details::Autogroup;

    /// A recorded machine on which process 7 has a thread on CPU 0 and one on CPU 3.
    fn seen(switch: Option<&str>) -> ProcessPlace {
        let stat = |tid| {
            format!(
                "{tid} (mariadbd) S 1 7 6 0 -1 0 5 0 8 0 1 4 0 0 20 0 9 0 99 1 2 3 4 5 6 7 8 9 0 0 0 0 0 0 17 1 0 0 0 0 0"
            )
        };
        let folder = tempfile::tempdir().expect("makes");
        let tree = Tree::recorded(folder.path());
        let mut files = vec![
            ("/proc/7/task/7/stat", stat(7)),
            ("/proc/7/task/7/status", "Cpus_allowed_list:\t0\n".to_owned()),
            ("/proc/7/task/8/stat", stat(8)),
            ("/proc/7/task/8/status", "Cpus_allowed_list:\t3\n".to_owned()),
            ("/proc/7/autogroup", "/autogroup-25 nice 0\n".to_owned()),
            ("/proc/7/cgroup", "0::/db.slice\n".to_owned()),
            ("/sys/fs/cgroup/db.slice/cpu.max", "50000 100000\n".to_owned()),
        ];
        files.extend(switch.map(|it| ("/proc/sys/kernel/sched_autogroup_enabled", it.to_owned())));
        for (path, text) in files {
            let path = tree.path(path);
            std::fs::create_dir_all(path.parent().expect("has one")).expect("makes");
            std::fs::write(path, text).expect("writes");
        }
        process(&tree, &Process { role: Role::Server, name: "mariadbd".into(), pid: 7 })
    }

    #[test]
    fn a_recorded_process_is_seen_with_all_its_threads_and_groups() {
        let seen = seen(Some("1\n"));
        assert_eq!(seen.cpus.known().map(ToString::to_string).as_deref(), Some("0,3"));
        assert_eq!(seen.autogroup, Seen::Known(Autogroup { id: 25, nice: 0 }));
        let group = seen.cgroup.known().expect("seen");
        assert_eq!((group.path.as_str(), &group.quota), ("/db.slice", &Seen::Known(Some(0.5))));
    }

    #[test]
    fn automatic_groups_that_do_not_count_are_none() {
        for (switch, want) in [(Some("0"), "is 0"), (None, "makes no automatic groups")] {
            let seen = seen(switch);
            assert!(seen.autogroup.reason().contains(want), "{:?}", seen.autogroup);
        }
    }

    #[test]
    fn a_process_that_is_gone_has_no_cpus() {
        let seen = cpus(&Tree::live(), u32::MAX);
        assert_ne!(seen.reason(), "");
    }
}
