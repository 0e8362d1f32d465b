//! What a process has used since it began: CPU time, faults, memory, context switches, and the time
//! it waited for a CPU.
//!
//! Reads `/proc` and the process's CPU clock, and interprets nothing. Invariant: CPU time is as fine
//! as the clock's nanoseconds while the process lives; of one that has ended it is what `/proc`
//! says, in hundredths of a second.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

/// CPU time that a process and its ended threads have used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    pub user: Duration,
    pub system: Duration,
}

impl CpuTime {
    pub fn total(self) -> Duration {
        self.user + self.system
    }

    /// What has come since an earlier reading of the same process.
    pub fn since(self, before: Self) -> Self {
        Self {
            user: self.user.saturating_sub(before.user),
            system: self.system.saturating_sub(before.system),
        }
    }

    /// The same parts of a whole that is known better.
    fn scaled(self, whole: Duration) -> Self {
        let coarse = self.total().as_secs_f64();
        // What is too little for a tick is mostly the kernel's work for a process that began.
        let share = if coarse == 0.0 { 0.0 } else { self.user.as_secs_f64() / coarse };
        let user = whole.mul_f64(share).min(whole);
        Self { user, system: whole - user }
    }
}

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

/// Context switches of the living threads of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Switches {
    /// The thread slept.
    pub voluntary: u64,
    /// The thread was made to yield.
    pub involuntary: u64,
}

impl Switches {
    /// What has come since an earlier reading of the same process. Threads that ended took their
    /// counts with them, so the sum may have shrunk: then nothing has come.
    pub fn since(self, before: Self) -> Self {
        Self {
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
        }
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
    let mut stat = parse_stat(&String::from_utf8_lossy(&bytes)).ok_or_else(|| odd(pid, "stat"))?;
    // A process that has ended has no clock, but until its parent has waited for it, it has a line.
    if let Ok(clock) = cpu_clock(pid) {
        stat.cpu = stat.cpu.scaled(clock);
    }
    Ok(stat)
}

pub fn memory(pid: u32) -> io::Result<Memory> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    Ok(parse_memory(&status))
}

/// Sums the context switches of all living threads. Threads that end take their counts with them.
pub fn switches(pid: u32) -> io::Result<Switches> {
    let mut sum = Switches::default();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the reading: it then counts nothing.
        let Ok(status) = fs::read_to_string(task?.path().join("status")) else { continue };
        let one = parse_switches(&status).ok_or_else(|| odd(pid, "status"))?;
        sum.voluntary += one.voluntary;
        sum.involuntary += one.involuntary;
    }
    Ok(sum)
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

fn parse_switches(status: &str) -> Option<Switches> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some(Switches {
        voluntary: field("voluntary_ctxt_switches:")?,
        involuntary: field("nonvoluntary_ctxt_switches:")?,
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

/// What all threads of a process have used, those that have ended too.
fn cpu_clock(pid: u32) -> io::Result<Duration> {
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
    use std::thread;

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
    fn times_are_as_fine_as_the_clock() {
        let ms = Duration::from_millis;
        let coarse = CpuTime { user: ms(30), system: ms(10) };
        let fine = coarse.scaled(ms(48));
        assert_eq!(fine, CpuTime { user: ms(36), system: ms(12) });
        assert_eq!(CpuTime::default().scaled(ms(3)), CpuTime { user: ms(0), system: ms(3) });
    }

    #[test]
    fn differences_never_fall_below_nothing() {
        let few = Switches { voluntary: 1, involuntary: 5 };
        let many = Switches { voluntary: 3, involuntary: 4 };
        assert_eq!(many.since(few), Switches { voluntary: 2, involuntary: 0 });
        let [early, late] = [10, 30].map(|ms| {
            let time = Duration::from_millis(ms);
            CpuTime { user: time, system: time / 2 }
        });
        assert_eq!(late.since(early).total(), Duration::from_millis(30));
        assert_eq!(early.since(late), CpuTime::default());
    }

    #[test]
    fn switches_of_both_kinds_are_told_apart() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        let want = Switches { voluntary: 150, involuntary: 545 };
        assert_eq!(parse_switches(status), Some(want));
        assert_eq!(parse_switches("voluntary_ctxt_switches:\t1\n"), None);
    }

    #[test]
    fn work_and_sleep_show_in_the_account_of_this_process() {
        let pid = std::process::id();
        let (before, slept) = (stat(pid).expect("reads"), switches(pid).expect("reads"));
        // Larger than any block that an allocator would keep from before.
        let memory = vec![1_u8; 64 << 20];
        let sum: u64 = memory.iter().map(|byte| u64::from(*byte)).sum();
        assert_eq!(sum, 64 << 20);
        let after = stat(pid).expect("reads");
        assert!(before.minor_faults < after.minor_faults, "{before:?} {after:?}");
        assert!(before.cpu.total() < after.cpu.total(), "{before:?} {after:?}");
        thread::sleep(Duration::from_millis(2));
        assert!(slept.voluntary < switches(pid).expect("reads").voluntary);
    }

    #[test]
    fn a_process_that_is_not_there_is_not_found() {
        assert_eq!(stat(u32::MAX).expect_err("absent").kind(), io::ErrorKind::NotFound);
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
