//! What a process has used since it began: CPU time, faults, memory, and the time it waited for a
//! CPU.
//!
//! Reads `/proc` and interprets nothing.

use std::fs;
use std::io;
use std::time::Duration;

use crate::process::CpuTime;

/// One line of `/proc/PID/stat`: quick to read, also of a process with thousands of threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stat {
    pub name: String,
    pub parent: u32,
    pub cpu: CpuTime,
    pub minor_faults: u64,
    pub major_faults: u64,
    pub threads: u32,
}

impl Stat {
    /// Whether it is a part of the kernel that looks like a process.
    pub fn is_kernel(&self, pid: u32) -> bool {
        pid == KTHREADD || self.parent == KTHREADD
    }
}

/// Resident memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    pub now_kib: u64,
    pub peak_kib: u64,
}

pub fn stat(pid: u32) -> io::Result<Stat> {
    // A name is whatever bytes a process gives itself.
    let bytes = fs::read(format!("/proc/{pid}/stat"))?;
    parse_stat(&String::from_utf8_lossy(&bytes)).ok_or_else(|| odd(pid, "stat"))
}

pub fn memory(pid: u32) -> io::Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(parse_memory(&status))
}

/// Sums for all living threads how long they were runnable and did not run. Threads that end take
/// their times with them.
pub fn run_delay(pid: u32) -> io::Result<Duration> {
    let mut sum = Duration::ZERO;
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the reading: it then counts nothing.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let waited = text.split_ascii_whitespace().nth(1).and_then(|word| word.parse().ok());
        sum += Duration::from_nanos(waited.ok_or_else(|| odd(pid, "schedstat"))?);
    }
    Ok(sum)
}

/// All processes that can be seen.
pub fn pids() -> io::Result<Vec<u32>> {
    let entries = fs::read_dir("/proc")?.flatten();
    Ok(entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

fn parse_stat(stat: &str) -> Option<Stat> {
    // The second field is the program's name in parentheses, which may hold blanks and parentheses.
    let (head, tail) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    let field = |at: usize| fields.get(at)?.parse::<u64>().ok();
    let time = |at| Some(Duration::from_millis(field(at)?.saturating_mul(TICK_MS)));
    Some(Stat {
        name: name.to_owned(),
        parent: u32::try_from(field(1)?).ok()?,
        cpu: CpuTime { user: time(11)?, system: time(12)? },
        minor_faults: field(7)?,
        major_faults: field(9)?,
        threads: u32::try_from(field(17)?).ok()?,
    })
}

/// A process that is ending has no memory any more.
fn parse_memory(status: &str) -> Memory {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    let now_kib = field("VmRSS:").unwrap_or(0);
    Memory { now_kib, peak_kib: field("VmHWM:").unwrap_or(now_kib) }
}

fn odd(pid: u32, file: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/{file} is not understood"))
}

/// The parent of the kernel's own threads.
const KTHREADD: u32 = 2;
/// Linux shows times to user space in units of 1/100 s, whatever its own clock ticks in.
const TICK_MS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_behind_a_name_full_of_parentheses() {
        let stat = "7 (a) S 9 (b)) S 1 7 7 0 -1 4194560 5 6 7 8 123 45 0 0 20 0 9 0 99 1 2 3";
        let want = Stat {
            name: "a) S 9 (b)".into(),
            parent: 1,
            cpu: CpuTime { user: Duration::from_millis(1230), system: Duration::from_millis(450) },
            minor_faults: 5,
            major_faults: 7,
            threads: 9,
        };
        assert_eq!(parse_stat(stat), Some(want.clone()));
        assert!(!want.is_kernel(7) && want.is_kernel(2));
        for cut in ["", "7 (a", "7 (a) S 1 7 7 0 -1 4194560 5 6 7 8 123", "7 (a) S x"] {
            assert_eq!(parse_stat(cut), None, "{cut}");
        }
    }

    #[test]
    fn memory_is_read_and_may_be_absent() {
        let status = "Name:\tx\nVmHWM:\t  9000 kB\nVmRSS:\t  7000 kB\n";
        assert_eq!(parse_memory(status), Memory { now_kib: 7000, peak_kib: 9000 });
        assert_eq!(parse_memory("Name:\tzombie\n"), Memory::default());
    }

    #[test]
    fn this_process_has_an_account() {
        let me = std::process::id();
        let stat = stat(me).expect("reads");
        assert!(1 <= stat.threads && 0 < stat.minor_faults, "{stat:?}");
        let memory = memory(me).expect("reads");
        assert!(0 < memory.now_kib && memory.now_kib <= memory.peak_kib, "{memory:?}");
        run_delay(me).expect("reads");
        assert!(pids().expect("reads").contains(&me));
    }
}
