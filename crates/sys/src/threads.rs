//! The threads of a process in the scheduler's books: policy, nice, CPUs, time run and time waited.
//!
//! Reads `/proc` and interprets nothing. A thread that ends while it is read is left out.

use std::fmt;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::cpus::Cpus;
use crate::tree::{Seen, Tree, field};

/// What the calling thread has used of CPUs since it began. The C library is asked, because it also knows where the
/// kernel's page of clocks is not mapped, as under valgrind.
pub fn own_cpu_time() -> Duration {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: every kernel has this clock, and the place for its time is ours.
    let error = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, time.as_mut_ptr()) };
    if error != 0 {
        return Duration::ZERO;
    }
    // SAFETY: it was written.
    let time = unsafe { time.assume_init() };
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), nanos)
}

/// How the kernel schedules a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Policy {
    #[default]
    Other,
    Fifo,
    RoundRobin,
    Batch,
    Idle,
    Deadline,
    /// Of a kernel with schedulers of its user's making.
    Ext,
}

impl Policy {
    pub fn is_realtime(self) -> bool {
        matches!(self, Self::Fifo | Self::RoundRobin | Self::Deadline)
    }

    /// From the kernel's number.
    pub const fn from_number(number: u64) -> Option<Self> {
        Some(match number {
            0 => Self::Other,
            1 => Self::Fifo,
            2 => Self::RoundRobin,
            3 => Self::Batch,
            5 => Self::Idle,
            6 => Self::Deadline,
            7 => Self::Ext,
            _ => return None,
        })
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Other => "SCHED_OTHER",
            Self::Fifo => "SCHED_FIFO",
            Self::RoundRobin => "SCHED_RR",
            Self::Batch => "SCHED_BATCH",
            Self::Idle => "SCHED_IDLE",
            Self::Deadline => "SCHED_DEADLINE",
            Self::Ext => "SCHED_EXT",
        })
    }
}

/// One thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    pub tid: u32,
    pub name: String,
    pub policy: Policy,
    pub nice: i32,
    pub priority: u32,
    pub cpus: Cpus,
    /// Nanoseconds on a CPU, and runnable without one.
    pub ran: u64,
    pub waited: u64,
    /// How often it was put on a CPU.
    pub slices: u64,
    pub voluntary: u64,
    pub involuntary: u64,
}

impl Thread {
    /// Whether both have one policy, priority and set of CPUs.
    pub fn is_scheduled_as(&self, other: &Self) -> bool {
        self.policy == other.policy && self.priority == other.priority && self.cpus == other.cpus
    }
}

/// What `/proc/PID/stat` tells of a process or, in the folder of a thread, of that.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub name: String,
    pub parent: u32,
    pub session: u32,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// In hundredths of a second.
    pub user: u64,
    pub system: u64,
    pub nice: i32,
    pub threads: u32,
    /// When it began, in hundredths of a second since the machine did: tells processes apart that
    /// had the same number one after the other.
    pub started: u64,
    pub priority: u32,
    pub policy: Policy,
}

pub fn line(tree: &Tree, pid: u32) -> Seen<Line> {
    let path = format!("/proc/{pid}/stat");
    tree.text(&path).parse(&path, |text| parse(text))
}

/// All threads of a process, by their numbers.
pub fn threads(tree: &Tree, pid: u32) -> Seen<Vec<Thread>> {
    let tids = tree.numbers(&format!("/proc/{pid}/task"));
    tids.map(|tids| tids.into_iter().filter_map(|tid| thread(tree, pid, tid)).collect())
}

/// The calling thread's number.
pub fn own_number() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs()
}

/// The kernel's account of the thread that opened it, to be read again and again.
#[derive(Debug)]
pub struct Own(File);

impl Own {
    pub fn open() -> io::Result<Self> {
        File::open(format!("/proc/self/task/{}/schedstat", own_number())).map(Self)
    }

    /// How long the thread has run, and how long it was runnable without a CPU.
    pub fn read(&mut self) -> io::Result<(Duration, Duration)> {
        let mut text = [0; 96];
        let length = self.0.read_at(&mut text, 0)?;
        let text = str::from_utf8(&text[..length]).unwrap_or_default();
        let mut words = text.split_ascii_whitespace().map(str::parse);
        match (words.next(), words.next()) {
            (Some(Ok(ran)), Some(Ok(waited))) => {
                Ok((Duration::from_nanos(ran), Duration::from_nanos(waited)))
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn thread(tree: &Tree, pid: u32, tid: u32) -> Option<Thread> {
    let read = |file: &str| match tree.text(&format!("/proc/{pid}/task/{tid}/{file}")) {
        Seen::Known(text) => Some(text),
        _ => None,
    };
    let Line { name, nice, priority, policy, .. } = parse(&read("stat")?)?;
    let status = read("status")?;
    // A kernel may be built without these accounts: then nothing has been waited for.
    let account = read("schedstat").unwrap_or_default();
    let mut account = account.split_ascii_whitespace().map(|word| word.parse().unwrap_or(0));
    let count = |name| field(&status, name).and_then(|it| it.parse().ok()).unwrap_or(0);
    Some(Thread {
        tid,
        name,
        policy,
        nice,
        priority,
        cpus: field(&status, "Cpus_allowed_list:")?.parse().ok()?,
        ran: account.next().unwrap_or(0),
        waited: account.next().unwrap_or(0),
        slices: account.next().unwrap_or(0),
        voluntary: count("voluntary_ctxt_switches:"),
        involuntary: count("nonvoluntary_ctxt_switches:"),
    })
}

fn parse(stat: &str) -> Option<Line> {
    // The second field is the program's name in parentheses, which may hold blanks and parentheses.
    let (head, tail) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    // The numbers are those of proc(5), where the state is the third.
    let text = |number: usize| fields.get(number - 3).copied();
    let count = |number| text(number)?.parse::<u64>().ok();
    let small = |number| u32::try_from(count(number)?).ok();
    Some(Line {
        name: name.to_owned(),
        parent: small(4)?,
        session: small(6)?,
        minor_faults: count(10)?,
        major_faults: count(12)?,
        user: count(14)?,
        system: count(15)?,
        nice: text(19)?.parse().ok()?,
        threads: small(20)?,
        started: count(22)?,
        priority: small(40)?,
        policy: Policy::from_number(count(41)?)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::machine;

    const STAT: &str = "7 (a) b) S 1 7 6 0 -1 4194560 5 0 8 0 123 45 0 0 20 -5 9 0 99 1 2 3 4 5 6 \
                        7 8 9 0 0 0 0 0 0 17 1 50 2 0 0 0";

    #[test]
    fn a_thread_is_read_from_three_files() {
        let status = "Name:\tx\nCpus_allowed_list:\t0-1,4\nvoluntary_ctxt_switches:\t11\n\
                      nonvoluntary_ctxt_switches:\t2\n";
        let (_folder, tree) = machine(&[
            ("/proc/7/stat", STAT),
            ("/proc/7/task/7/stat", STAT),
            ("/proc/7/task/7/status", status),
            ("/proc/7/task/7/schedstat", "1000 200 30\n"),
            // One that has just ended.
            ("/proc/7/task/8/schedstat", "1 2 3\n"),
        ]);
        let want = Thread {
            tid: 7,
            name: "a) b".into(),
            policy: Policy::RoundRobin,
            nice: -5,
            priority: 50,
            cpus: "0-1,4".parse().expect("reads"),
            ran: 1000,
            waited: 200,
            slices: 30,
            voluntary: 11,
            involuntary: 2,
        };
        assert_eq!(threads(&tree, 7), Seen::Known(vec![want]));
        let line = line(&tree, 7).known().cloned().expect("reads");
        assert_eq!((line.session, line.minor_faults, line.major_faults), (6, 5, 8));
        assert_eq!((line.user, line.system, line.threads, line.started), (123, 45, 9, 99));
    }

    #[test]
    fn cut_lines_are_not_understood() {
        for stat in ["", "7 (a", "7 (a) S 1 7 7 0 -1"] {
            assert_eq!(parse(stat), None, "{stat}");
        }
    }

    #[test]
    fn this_process_and_its_threads_are_read() {
        let me = std::process::id();
        let seen = threads(&Tree::live(), me);
        let threads = seen.known().expect("reads");
        assert!(threads.iter().any(|it| it.tid == me && !it.cpus.is_empty()), "{threads:?}");
        assert!(matches!(threads_of_nobody(), Seen::Unknown(_)));
    }

    fn threads_of_nobody() -> Seen<Vec<Thread>> {
        threads(&Tree::live(), u32::MAX)
    }
}
