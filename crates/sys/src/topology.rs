//! How the CPUs of the machine belong together.
//!
//! Reads `/sys/devices/system/cpu` and interprets nothing. In a container these are the host's
//! CPUs; which of them may be used is the scheduler's affair, see
//! `std::thread::available_parallelism`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cpus::Cpus;
use crate::tree::{Seen, Tree};

/// A CPU as the scheduler counts them: a thread of a core.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    pub number: u32,
    pub package: Seen<u32>,
    /// The CPUs that are threads of the same core.
    pub core: Seen<Cpus>,
    /// The CPUs behind the same last-level cache.
    pub cache: Seen<Cpus>,
    pub node: Seen<u32>,
}

/// The CPUs that are online.
pub fn cpus(tree: &Tree) -> Seen<Vec<Cpu>> {
    let online: Seen<Cpus> = tree.number(&format!("{FOLDER}/online"));
    online.map(|online| online.iter().map(|number| cpu(tree, number)).collect())
}

fn cpu(tree: &Tree, number: u32) -> Cpu {
    let folder = format!("{FOLDER}/cpu{number}");
    let node = tree.names(&folder).parse("the NUMA node", |names| {
        names.iter().find_map(|name| name.strip_prefix("node")?.parse().ok())
    });
    // Level 3 is the fourth cache where levels 1 have two.
    let cache = tree.names(&format!("{folder}/cache")).parse("the last-level cache", |indices| {
        let levels = indices.iter().filter_map(|index| {
            let path = |file| format!("{folder}/cache/{index}/{file}");
            let level = *tree.number::<u32>(&path("level")).known()?;
            Some((level, tree.number::<Cpus>(&path("shared_cpu_list")).known()?.clone()))
        });
        let (level, cpus) = levels.max_by_key(|(level, _)| *level)?;
        (LAST_LEVEL_MIN <= level).then_some(cpus)
    });
    Cpu {
        number,
        package: tree.number(&format!("{folder}/topology/physical_package_id")),
        core: tree.number(&format!("{folder}/topology/thread_siblings_list")),
        cache,
        node,
    }
}

const FOLDER: &str = "/sys/devices/system/cpu";

/// Counts the physical cores that share a last-level cache with the first CPU.
///
/// `cpus` is the folder `/sys/devices/system/cpu`, or one like it. `None` if it does not tell, as
/// on many virtual machines.
pub fn cores_beside_first(cpus: &Path) -> Option<usize> {
    let first = cpus.join("cpu0/cache");
    let levels = fs::read_dir(first).ok()?.flatten().filter_map(|index| {
        let level: u32 = word(&index.path().join("level"))?.parse().ok()?;
        Some((level, word(&index.path().join("shared_cpu_list"))?.parse::<Cpus>().ok()?))
    });
    let (level, beside) = levels.max_by_key(|(level, _)| *level)?;
    if level < LAST_LEVEL_MIN {
        return None;
    }
    // Threads of one core name the same set of threads.
    let threads = |cpu| word(&cpus.join(format!("cpu{cpu}/topology/thread_siblings_list")));
    let cores: Option<BTreeSet<_>> = beside.iter().map(threads).collect();
    cores.map(|cores| cores.len()).filter(|count| *count != 0)
}

fn word(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// A first or second level is a core's own.
const LAST_LEVEL_MIN: u32 = 3;

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// A folder like the kernel's: for each CPU its core's threads, and what it shares a cache
    /// with.
    fn machine(name: &str, level: u32, cpus: &[(&str, &str)]) -> PathBuf {
        let folder =
            std::env::temp_dir().join(format!("flifo-topology-{name}-{}", std::process::id()));
        for (cpu, (threads, cache)) in cpus.iter().enumerate() {
            let cpu = folder.join(format!("cpu{cpu}"));
            for (index, level, shared) in [("0", 1, *threads), ("3", level, *cache)] {
                let index = cpu.join(format!("cache/index{index}"));
                fs::create_dir_all(&index).expect("makes");
                fs::write(index.join("level"), format!("{level}\n")).expect("writes");
                fs::write(index.join("shared_cpu_list"), format!("{shared}\n")).expect("writes");
            }
            fs::create_dir_all(cpu.join("topology")).expect("makes");
            let siblings = cpu.join("topology/thread_siblings_list");
            fs::write(siblings, format!("{threads}\n")).expect("writes");
        }
        folder
    }

    fn check(name: &str, level: u32, cpus: &[(&str, &str)], want: Option<usize>) {
        let folder = machine(name, level, cpus);
        let cores = cores_beside_first(&folder);
        fs::remove_dir_all(folder).expect("removes");
        assert_eq!(cores, want);
    }

    #[test]
    fn threads_of_a_core_count_once() {
        let cpus = [("0,2", "0-3"), ("1,3", "0-3"), ("0,2", "0-3"), ("1,3", "0-3")];
        check("threads", 3, &cpus, Some(2));
    }

    #[test]
    fn only_the_first_cache_counts() {
        let cpus = [("0", "0-1"), ("1", "0-1"), ("2", "2-3"), ("3", "2-3")];
        check("caches", 3, &cpus, Some(2));
    }

    #[test]
    fn a_machine_that_does_not_tell_has_no_count() {
        check("second", 2, &[("0", "0")], None);
        check("missing", 3, &[("0", "0-9")], None);
        check("nonsense", 3, &[("0", "3-0")], None);
        check("huge", 3, &[("0", "0-4000000000")], None);
        assert_eq!(cores_beside_first(Path::new("/nonexistent")), None);
    }

    #[test]
    fn a_recorded_machine_with_two_nodes_is_read() {
        let path = |file: &str| format!("/sys/devices/system/cpu/{file}");
        let files = [
            (path("online"), "1"),
            (path("cpu1/topology/physical_package_id"), "1"),
            (path("cpu1/topology/thread_siblings_list"), "1,3"),
            (path("cpu1/cache/index2/level"), "2"),
            (path("cpu1/cache/index2/shared_cpu_list"), "1"),
            (path("cpu1/cache/index3/level"), "3"),
            (path("cpu1/cache/index3/shared_cpu_list"), "1-3"),
            (path("cpu1/node1/cpulist"), "1-3"),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(a, b)| (a.as_str(), *b)).collect();
        let (_folder, tree) = crate::tree::tests::machine(&files);
        let set = |text: &str| Seen::Known(text.parse().expect("reads"));
        let (package, node) = (Seen::Known(1), Seen::Known(1));
        let want = Cpu { number: 1, package, core: set("1,3"), cache: set("1-3"), node };
        assert_eq!(cpus(&tree), Seen::Known(vec![want]));
    }
}
