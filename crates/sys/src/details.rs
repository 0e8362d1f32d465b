//! What a process was given: limits, environment, libraries, rights.
//!
//! Reads `/proc` and interprets nothing. Another user's environment and maps are refused by the
//! kernel, and are told to be.

use serde::{Deserialize, Serialize};

use crate::kernel;
use crate::tree::{Seen, Tree, field};

/// A limit of a resource; `None` is no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    pub soft: Option<u64>,
    pub hard: Option<u64>,
}

/// From `/proc/PID/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub uid: u32,
    pub resident_kib: u64,
    pub swapped_kib: u64,
    /// A number for each nested world of processes that it is in.
    pub nested: usize,
    /// The capabilities that it may use now.
    pub capabilities: u64,
    /// Whether the calls that it may make are filtered.
    pub filtered: bool,
}

/// The kernel's automatic group of a login session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Autogroup {
    pub id: u64,
    pub nice: i32,
}

/// The right to schedule other users' processes, and to lower a nice value.
pub const CAP_SYS_NICE: u32 = 23;

pub fn status(tree: &Tree, pid: u32) -> Seen<Status> {
    let path = format!("/proc/{pid}/status");
    tree.text(&path).parse(&path, |text| {
        // Parts of the kernel that look like processes have no memory.
        let kib = |name| {
            let value = field(text, name).and_then(|it| it.strip_suffix(" kB")?.parse().ok());
            value.unwrap_or(0)
        };
        Some(Status {
            uid: field(text, "Uid:")?.split_ascii_whitespace().next()?.parse().ok()?,
            resident_kib: kib("VmRSS:"),
            swapped_kib: kib("VmSwap:"),
            nested: field(text, "NSpid:").map_or(1, |it| it.split_ascii_whitespace().count()),
            capabilities: u64::from_str_radix(field(text, "CapEff:")?, 16).ok()?,
            filtered: field(text, "Seccomp:").is_some_and(|it| it != "0"),
        })
    })
}

/// How many files it may open.
pub fn open_files_limit(tree: &Tree, pid: u32) -> Seen<Limit> {
    let path = format!("/proc/{pid}/limits");
    tree.text(&path).parse(&path, |text| {
        let mut words = field(text, "Max open files")?.split_ascii_whitespace();
        let mut limit = || match words.next()? {
            "unlimited" => Some(None),
            number => number.parse().ok().map(Some),
        };
        Some(Limit { soft: limit()?, hard: limit()? })
    })
}

/// How many files it has open.
pub fn open_files(tree: &Tree, pid: u32) -> Seen<usize> {
    tree.names(&format!("/proc/{pid}/fd")).map(|names| names.len())
}

/// Its environment as it was when it began, of those variables whose names are wanted. Other variables are not
/// returned: an environment may hold secrets.
pub fn environment(
    tree: &Tree,
    pid: u32,
    wanted: impl Fn(&str) -> bool,
) -> Seen<Vec<(String, String)>> {
    tree.text(&format!("/proc/{pid}/environ")).map(|text| {
        let pairs = text.split('\0').filter_map(|entry| entry.split_once('='));
        let wanted = pairs.filter(|(name, _)| wanted(name));
        wanted.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    })
}

/// The files that are mapped as code or data, each once.
pub fn mapped_files(tree: &Tree, pid: u32) -> Seen<Vec<String>> {
    tree.text(&format!("/proc/{pid}/maps")).map(|text| {
        let paths = text.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
        let mut paths: Vec<String> = paths.map(str::to_owned).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    })
}

/// The automatic group of a process, whether the kernel heeds it or not.
pub fn autogroup(tree: &Tree, pid: u32) -> Seen<Autogroup> {
    let path = format!("/proc/{pid}/autogroup");
    tree.line(&path).parse(&path, |line| {
        // "/autogroup-25 nice 0"
        let (id, nice) = line.strip_prefix("/autogroup-")?.split_once(" nice ")?;
        Some(Autogroup { id: id.parse().ok()?, nice: nice.parse().ok()? })
    })
}

/// The automatic group of a process, if the kernel shares CPUs by it: a process has one in `/proc` even while the kernel
/// is told to pay no heed to them.
pub fn autogroup_in_force(tree: &Tree, pid: u32) -> Seen<Autogroup> {
    match kernel::setting(tree, AUTOGROUPS) {
        Seen::Known(value) if value == "1" => autogroup(tree, pid),
        Seen::Known(value) => Seen::Unknown(format!("{AUTOGROUPS} is {value}")),
        _ => Seen::Unknown("this kernel makes no automatic groups".to_owned()),
    }
}

const AUTOGROUPS: &str = "kernel.sched_autogroup_enabled";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::machine;

    #[test]
    fn a_recorded_process_is_read() {
        let (_folder, tree) = machine(&[
            (
                "/proc/7/status",
                "Name:\tx\nUid:\t105\t105\t105\t105\nNSpid:\t7\t1\n\
                VmRSS:\t  9000 kB\nVmSwap:\t   8 kB\nCapEff:\t0000000000800000\nSeccomp:\t2\n",
            ),
            (
                "/proc/7/limits",
                "Limit                     Soft Limit           Hard Limit\n\
                Max open files            1024                 unlimited            files\n",
            ),
            ("/proc/7/environ", "HOME=x\0MALLOC_ARENA_MAX=2\0PASSWORD=s=e\0"),
            (
                "/proc/7/maps",
                "7f00-7f01 r-xp 0 08:01 5   /usr/lib/libjemalloc.so.2\n\
                7f01-7f02 r--p 0 08:01 5   /usr/lib/libjemalloc.so.2\n7f03-7f04 rw-p 0 0 0 \n",
            ),
            ("/proc/7/autogroup", "/autogroup-25 nice -3\n"),
            ("/proc/7/fd/0", ""),
        ]);
        let want = Status {
            uid: 105,
            resident_kib: 9000,
            swapped_kib: 8,
            nested: 2,
            capabilities: 1 << CAP_SYS_NICE,
            filtered: true,
        };
        assert_eq!(status(&tree, 7), Seen::Known(want));
        let limit = Limit { soft: Some(1024), hard: None };
        assert_eq!(open_files_limit(&tree, 7), Seen::Known(limit));
        assert_eq!(open_files(&tree, 7), Seen::Known(1));
        let malloc = vec![("MALLOC_ARENA_MAX".to_owned(), "2".to_owned())];
        let seen = environment(&tree, 7, |name| name.starts_with("MALLOC_"));
        assert_eq!(seen, Seen::Known(malloc));
        let library = vec!["/usr/lib/libjemalloc.so.2".to_owned()];
        assert_eq!(mapped_files(&tree, 7), Seen::Known(library));
        assert_eq!(autogroup(&tree, 7), Seen::Known(Autogroup { id: 25, nice: -3 }));
    }

    #[test]
    fn this_process_is_read() {
        let (tree, me) = (Tree::live(), std::process::id());
        assert!(status(&tree, me).known().expect("reads").resident_kib > 0);
        assert!(open_files(&tree, me).known().expect("reads") > &2);
        assert!(open_files_limit(&tree, me).known().is_some());
        let path = environment(&tree, me, |name| name == "PATH");
        assert_eq!(path.known().expect("reads").len(), 1);
        assert!(!mapped_files(&tree, me).known().expect("reads").is_empty());
    }
}
