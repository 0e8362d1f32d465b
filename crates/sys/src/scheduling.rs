//! How the kernel schedules a thread, and how that is changed. What can be read as a file,
//! `threads` reads.

use std::io;
use std::time::Duration;

use rustix::thread::CpuSet;

use crate::cpus::Cpus;
use crate::threads::Policy;
use crate::tree::Seen;

/// Makes the calling thread a batch thread (`SCHED_BATCH`): when it wakes, it does not preempt the running thread.
///
/// A thread that serves many sockets then finds more of them ready at each turn, and turns less often. It takes no
/// privilege, changes no share of the processor, and other threads of the process keep their policy.
pub fn batch_this_thread() -> io::Result<()> {
    let normal = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 names the calling thread, and the parameter is read during the call only.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const normal) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// How much of a core a thread gets at a time before another one's turn, if the kernel tells
/// (since 6.12).
pub fn slice(tid: u32) -> Seen<Duration> {
    let Ok(pid) = libc::pid_t::try_from(tid) else { return Seen::Unknown("no thread".to_owned()) };
    let mut attributes = Attributes::default();
    let size = size_of::<Attributes>() as libc::c_uint;
    // SAFETY: the kernel writes at most `size` bytes to `attributes`, which is that large.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_getattr, pid, &raw mut attributes, size, 0) };
    if result != 0 {
        return Seen::from_io("the slice", Err(io::Error::last_os_error()));
    }
    match attributes.runtime {
        0 => Seen::Unknown("this kernel does not tell the slice".to_owned()),
        nanos => Seen::Known(Duration::from_nanos(nanos)),
    }
}

/// Gives a thread a policy; of the real-time ones with this priority, else with none.
pub fn set_policy(tid: u32, policy: Policy, priority: u32) -> io::Result<()> {
    let number = match policy {
        Policy::Other => libc::SCHED_OTHER,
        Policy::Batch => libc::SCHED_BATCH,
        Policy::Idle => libc::SCHED_IDLE,
        Policy::Fifo => libc::SCHED_FIFO,
        Policy::RoundRobin => libc::SCHED_RR,
        Policy::Deadline | Policy::Ext => return Err(io::ErrorKind::Unsupported.into()),
    };
    let pid = libc::pid_t::try_from(tid).map_err(io::Error::other)?;
    let parameter =
        libc::sched_param { sched_priority: i32::try_from(priority).map_err(io::Error::other)? };
    // SAFETY: the parameter is read during the call only.
    let result = unsafe { libc::sched_setscheduler(pid, number, &raw const parameter) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Gives a thread a nice value.
pub fn set_nice(tid: u32, nice: i32) -> io::Result<()> {
    let pid = i32::try_from(tid).map_err(io::Error::other)?;
    let pid = rustix::process::Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::process::setpriority_process(Some(pid), nice)?)
}

/// Lets a thread run on these CPUs only.
pub fn set_cpus(tid: u32, cpus: &Cpus) -> io::Result<()> {
    let pid = i32::try_from(tid).map_err(io::Error::other)?;
    let pid = rustix::process::Pid::from_raw(pid).ok_or(io::ErrorKind::InvalidInput)?;
    Ok(rustix::thread::sched_setaffinity(Some(pid), &set_of(cpus)?)?)
}

/// The CPUs that the calling thread may run on.
pub fn own_cpus() -> io::Result<Cpus> {
    let set = rustix::thread::sched_getaffinity(None)?;
    let has = |cpu: &u32| usize::try_from(*cpu).is_ok_and(|cpu| set.is_set(cpu));
    let all = u32::try_from(CpuSet::MAX_CPU).map_err(io::Error::other)?;
    Ok((0..all).filter(has).collect())
}

/// The same in the form of the system call.
pub(crate) fn set_of(cpus: &Cpus) -> io::Result<CpuSet> {
    let mut set = CpuSet::new();
    for cpu in cpus.iter() {
        let cpu = usize::try_from(cpu).map_err(io::Error::other)?;
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::ErrorKind::Unsupported.into());
        }
        set.set(cpu);
    }
    Ok(set)
}

/// `struct sched_attr` as far as every kernel that has the call knows it.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The policy of this thread, as the kernel shows it: field 41 of its `stat`.
    fn policy() -> String {
        let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
        let after_name = stat.rsplit(") ").next().unwrap();
        after_name.split(' ').nth(38).unwrap().to_owned()
    }

    #[test]
    fn the_thread_and_no_other_becomes_a_batch_thread() {
        let before = policy();
        std::thread::spawn(|| {
            batch_this_thread().unwrap();
            assert_eq!(policy(), "3");
        })
        .join()
        .unwrap();
        assert_eq!(policy(), before);
    }

    #[test]
    fn policy_and_cpus_of_another_thread_are_set_and_set_back() {
        let (told, tid) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let me = std::fs::read_link("/proc/thread-self").unwrap();
            told.send(me.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap()).unwrap();
            let _ = stopped.recv();
        });
        let tid = tid.recv().unwrap();
        let look = || {
            let all = crate::threads::threads(&crate::tree::Tree::live(), std::process::id());
            all.known().unwrap().iter().find(|it| it.tid == tid).cloned().unwrap()
        };
        let before = look();
        let one: Cpus = before.cpus.iter().take(1).collect();
        set_policy(tid, Policy::Batch, 0).unwrap();
        set_cpus(tid, &one).unwrap();
        assert_eq!((look().policy, look().cpus), (Policy::Batch, one));
        set_policy(tid, before.policy, before.priority).unwrap();
        set_cpus(tid, &before.cpus).unwrap();
        assert_eq!((look().policy, look().cpus), (before.policy, before.cpus));
        drop(stop);
        thread.join().unwrap();
    }

    #[test]
    fn a_slice_is_told_in_a_sensible_size_or_not_at_all() {
        match slice(std::process::id()) {
            Seen::Known(slice) => {
                assert!(slice >= Duration::from_micros(100) && slice <= Duration::from_secs(1));
            }
            seen => assert_ne!(seen.reason(), ""),
        }
        assert!(slice(u32::MAX).known().is_none());
    }
}
