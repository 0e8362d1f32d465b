//! A process in the eyes of the kernel: its CPU time, context switches, open files and rights.
//!
//! Reads `/proc` and interprets nothing.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::time::Duration;

use rustix::process::{Resource, geteuid, getrlimit, setrlimit};

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

/// Reads the CPU time of a process; of a zombie too, until its parent has waited for it.
pub fn cpu_time(pid: u32) -> io::Result<CpuTime> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat"))?).ok_or_else(|| odd(pid, "stat"))
}

/// Sums the context switches of all living threads. Threads that end take their counts with them.
pub fn switches(pid: u32) -> io::Result<Switches> {
    let mut sum = Switches::default();
    for task in fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between the listing and the reading: it then counts nothing.
        let Ok(status) = fs::read_to_string(task?.path().join("status")) else { continue };
        let one = parse_status(&status).ok_or_else(|| odd(pid, "status"))?;
        sum.voluntary += one.voluntary;
        sum.involuntary += one.involuntary;
    }
    Ok(sum)
}

/// Lets this process, and the children that it starts from now on, open as many files as the hard
/// limit allows. Returns that number; `None` means no limit.
pub fn raise_open_files() -> io::Result<Option<u64>> {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        limit.current = limit.maximum;
        setrlimit(Resource::Nofile, limit)?;
    }
    Ok(limit.maximum)
}

/// Sets how many files another process may open, `None` being no limit.
pub fn set_open_files(pid: u32, soft: Option<u64>, hard: Option<u64>) -> io::Result<()> {
    let raw = i32::try_from(pid).map_err(io::Error::other)?;
    let pid = rustix::process::Pid::from_raw(raw).ok_or(io::ErrorKind::InvalidInput)?;
    let limit = rustix::process::Rlimit { current: soft, maximum: hard };
    rustix::process::prlimit(Some(pid), Resource::Nofile, limit)?;
    Ok(())
}

/// Tells whether this process has root's rights over files and processes.
pub fn is_root() -> bool {
    geteuid().is_root()
}

/// The user that this process acts as: its number, and its name if the machine has one for it.
pub fn user() -> (u32, Option<Vec<u8>>) {
    let uid = geteuid().as_raw();
    let mut room = vec![0; NAMES_MAX];
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are to memory of ours that outlives the call, and `room` has the length
    // that is told.
    let error = unsafe {
        let (names, length) = (room.as_mut_ptr(), room.len());
        libc::getpwuid_r(uid, entry.as_mut_ptr(), names, length, &raw mut found)
    };
    if error != 0 || found.is_null() {
        return (uid, None);
    }
    // SAFETY: `found` is not null, so `entry` has been filled; its name is a string that ends in
    // `room`, which still lives.
    let name = unsafe { CStr::from_ptr(entry.assume_init_ref().pw_name) };
    (uid, Some(name.to_bytes().to_vec()))
}

fn parse_stat(stat: &str) -> Option<CpuTime> {
    // The second field is the program's name in parentheses, which may hold blanks and parentheses.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace().skip(11);
    let mut ticks =
        || Some(Duration::from_millis(fields.next()?.parse::<u64>().ok()?.saturating_mul(TICK_MS)));
    Some(CpuTime { user: ticks()?, system: ticks()? })
}

fn parse_status(status: &str) -> Option<Switches> {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some(Switches {
        voluntary: field("voluntary_ctxt_switches:")?,
        involuntary: field("nonvoluntary_ctxt_switches:")?,
    })
}

fn odd(pid: u32, file: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/{file} is not understood"))
}

/// All texts of an entry of the list of users.
const NAMES_MAX: usize = 64 << 10;
/// Linux shows times to user space in units of 1/100 s, whatever its own clock ticks in.
const TICK_MS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;
    use std::time::Instant;

    #[test]
    fn times_are_found_behind_a_name_full_of_parentheses() {
        let stat = "7 (a) S 9 (b)) S 1 7 7 0 -1 4194560 5 6 7 8 123 45 0 0 20 0 9 0 99 1 2 3";
        let want =
            CpuTime { user: Duration::from_millis(1230), system: Duration::from_millis(450) };
        assert_eq!(parse_stat(stat), Some(want));
        assert_eq!(want.total(), Duration::from_millis(1680));
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
    fn cut_lines_are_refused() {
        for stat in ["", "7", "7 (a)", "7 (a) S 1 7 7 0 -1 4194560 5 6 7 8 123", "7 (a) S x"] {
            assert_eq!(parse_stat(stat), None, "{stat}");
        }
        assert_eq!(parse_status("voluntary_ctxt_switches:\t1\n"), None);
    }

    #[test]
    fn switches_of_both_kinds_are_told_apart() {
        let status = "Name:\tx\nvoluntary_ctxt_switches:\t150\nnonvoluntary_ctxt_switches:\t545\n";
        let want = Switches { voluntary: 150, involuntary: 545 };
        assert_eq!(parse_status(status), Some(want));
    }

    #[test]
    fn work_and_sleep_show_in_the_accounts_of_this_process() {
        let pid = std::process::id();
        let (cpu, slept) = (cpu_time(pid).expect("reads"), switches(pid).expect("reads"));
        let deadline = Instant::now() + Duration::from_secs(20);
        while cpu_time(pid).expect("reads").total() < cpu.total() + Duration::from_millis(30) {
            assert!(Instant::now() < deadline, "no CPU time was charged");
        }
        thread::sleep(Duration::from_millis(2));
        assert!(switches(pid).expect("reads").voluntary > slept.voluntary);
    }

    #[test]
    fn a_process_that_is_not_there_is_not_found() {
        assert_eq!(cpu_time(u32::MAX).expect_err("absent").kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn the_user_is_the_one_that_the_machine_names() {
        let ask = |what| {
            let output = std::process::Command::new("id").arg(what).output().expect("id runs");
            String::from_utf8(output.stdout).expect("text").trim().to_owned()
        };
        let (uid, name) = user();
        assert_eq!(uid.to_string(), ask("-u"));
        if let Some(name) = name {
            assert_eq!(String::from_utf8(name).expect("text"), ask("-un"));
        }
    }

    #[test]
    fn the_open_files_reach_their_hard_limit() {
        let hard = raise_open_files().expect("raises");
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
    }
}
