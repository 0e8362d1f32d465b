//! How the CPUs of the machine belong together.
//!
//! Reads `/sys/devices/system/cpu` and interprets nothing. In a container these are the host's
//! CPUs; which of them may be used is the scheduler's affair, see
//! `std::thread::available_parallelism`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Counts the physical cores that share a last-level cache with the first CPU.
///
/// `cpus` is the folder `/sys/devices/system/cpu`, or one like it. `None` if it does not tell, as
/// on many virtual machines.
pub fn cores_beside_first(cpus: &Path) -> Option<usize> {
    let first = cpus.join("cpu0/cache");
    let levels = fs::read_dir(first).ok()?.flatten().filter_map(|index| {
        let level: u32 = word(&index.path().join("level"))?.parse().ok()?;
        Some((level, list(&word(&index.path().join("shared_cpu_list"))?)?))
    });
    let (level, beside) = levels.max_by_key(|(level, _)| *level)?;
    if level < LAST_LEVEL_MIN {
        return None;
    }
    // Threads of one core name the same set of threads.
    let threads = |cpu| word(&cpus.join(format!("cpu{cpu}/topology/thread_siblings_list")));
    let cores: Option<BTreeSet<_>> = beside.into_iter().map(threads).collect();
    cores.map(|cores| cores.len()).filter(|count| *count != 0)
}

fn word(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Reads the kernel's form of a set of CPUs: "0-3,8".
fn list(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last < first || CPUS_MAX < last {
            return None;
        }
        cpus.extend(first..=last);
    }
    Some(cpus)
}

/// A first or second level is a core's own.
const LAST_LEVEL_MIN: u32 = 3;
/// What Linux supports at most.
const CPUS_MAX: u32 = 8192;

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
}
