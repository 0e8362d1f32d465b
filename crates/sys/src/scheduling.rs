//! How the kernel schedules the calling thread.

use std::io;

/// Makes the calling thread a batch thread (`SCHED_BATCH`): when it wakes it does not push aside who is running.
///
/// A thread that serves many sockets then finds more of them ready at each turn, and turns less often. It takes no
/// privilege, changes no share of the processor, and other threads of the process keep their policy.
pub fn batch_this_thread() -> io::Result<()> {
    let normal = libc::sched_param { sched_priority: 0 };
    // SAFETY: 0 names the calling thread, and the parameter is read during the call only.
    let result = unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const normal) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
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
}
