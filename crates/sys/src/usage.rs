//! What a process has used so far, finely enough for short measurements: CPU time in nanoseconds,
//! and page faults.
//!
//! Interprets nothing. `process::cpu_time` tells user and system apart, in steps of 10 ms only.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// CPU time and page faults of a process, with all its threads, those that have ended too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub cpu: Duration,
    /// Pages that were given without reading from a disk.
    pub minor_faults: u64,
}

impl Usage {
    pub fn of(pid: u32) -> io::Result<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let odd = || io::Error::new(io::ErrorKind::InvalidData, "/proc/PID/stat is not understood");
        Ok(Self { cpu: cpu(pid)?, minor_faults: minor_faults(&stat).ok_or_else(odd)? })
    }

    /// What has come since an earlier reading of the same process.
    pub fn since(self, before: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_sub(before.cpu),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
        }
    }
}

fn cpu(pid: u32) -> io::Result<Duration> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    let mut clock = MaybeUninit::<libc::clockid_t>::uninit();
    // SAFETY: the pointer is to memory of ours that outlives the call.
    let error = unsafe { libc::clock_getcpuclockid(pid, clock.as_mut_ptr()) };
    if error != 0 {
        return Err(io::Error::from_raw_os_error(error));
    }
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the call above succeeded, so `clock` has been set; `time` outlives the call.
    let error = unsafe { libc::clock_gettime(clock.assume_init(), time.as_mut_ptr()) };
    if error != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above succeeded, so `time` has been set.
    let time = unsafe { time.assume_init() };
    let seconds = u64::try_from(time.tv_sec).map_err(io::Error::other)?;
    let nanos = u32::try_from(time.tv_nsec).map_err(io::Error::other)?;
    Ok(Duration::new(seconds, nanos))
}

fn minor_faults(stat: &str) -> Option<u64> {
    // The program's name in parentheses may hold blanks and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_ascii_whitespace().nth(7)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_found_behind_a_name_full_of_parentheses() {
        let stat = "7 (a) S 9 (b)) S 1 7 7 0 -1 4194560 512 6 7 8 123 45 0 0 20";
        assert_eq!(minor_faults(stat), Some(512));
        assert_eq!(minor_faults("7 (a) S 1 7 7 0 -1 4194560"), None);
    }

    #[test]
    fn fresh_memory_and_work_show_in_the_usage_of_this_process() {
        let pid = std::process::id();
        let before = Usage::of(pid).expect("reads");
        // Larger than any block that an allocator would keep from before.
        let memory = vec![1_u8; 64 << 20];
        let sum: u64 = memory.iter().map(|byte| u64::from(*byte)).sum();
        assert_eq!(sum, 64 << 20);
        let used = Usage::of(pid).expect("reads").since(before);
        assert!(used.minor_faults > 0 && used.cpu > Duration::ZERO, "{used:?}");
    }

    #[test]
    fn a_process_that_is_not_there_has_no_usage() {
        assert!(Usage::of(u32::MAX).is_err());
    }
}
