//! The kernel calls that a proxy makes, as a seccomp filter.
//!
//! Invariants: no call of the list starts a program, changes the user, mounts, traces, loads code into the kernel, or
//! makes a name space, or opens a socket of another family than those in [`FAMILIES`].

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

/// The filter for this processor, if it is one that filters can be made for.
pub(super) fn filter() -> Result<Option<BpfProgram>, Error> {
    let Ok(arch) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(None) };
    let mut rules: std::collections::BTreeMap<i64, Vec<SeccompRule>> =
        CALLS.iter().chain(OLD_CALLS).map(|call| (*call, Vec::new())).collect();
    let mut sockets = equal(0, FAMILIES)?;
    sockets.push(SeccompRule::new(vec![
        is(0, libc::AF_NETLINK)?,
        // Which process a socket leads to; see `crate::peers`.
        is(2, libc::NETLINK_SOCK_DIAG)?,
    ])?);
    rules.insert(libc::SYS_socket, sockets);
    rules.insert(libc::SYS_socketpair, equal(0, &[libc::AF_UNIX])?);
    rules.insert(libc::SYS_prctl, equal(0, PRCTLS)?);
    rules.insert(libc::SYS_clone, without(0, NAMESPACES)?);
    let denied = SeccompAction::Errno(libc::ENOSYS as u32);
    let filter = SeccompFilter::new(rules, denied, SeccompAction::Allow, arch)?;
    Ok(Some(filter.try_into()?))
}

/// Rules that let a call pass if this argument has one of these values.
fn equal(argument: u8, values: &[i32]) -> Result<Vec<SeccompRule>, Error> {
    values.iter().map(|value| Ok(SeccompRule::new(vec![is(argument, *value)?])?)).collect()
}

fn is(argument: u8, value: i32) -> Result<SeccompCondition, Error> {
    let value = u64::from(value.cast_unsigned());
    Ok(SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)?)
}

/// Rules that let a call pass if this argument has none of these bits.
fn without(argument: u8, bits: i32) -> Result<Vec<SeccompRule>, Error> {
    let op = SeccompCmpOp::MaskedEq(u64::from(bits.cast_unsigned()));
    let condition = SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, 0)?;
    Ok(vec![SeccompRule::new(vec![condition])?])
}

/// Families of sockets that may do all. The C library resolves names without the kernel's routing sockets where it gets
/// none.
const FAMILIES: &[i32] = &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6];

/// A process that makes a name space for users has all of root's rights in it, over much of the kernel. A thread needs
/// none.
const NAMESPACES: i32 = libc::CLONE_NEWUSER
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP;

const PRCTLS: &[i32] = &[
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_DUMPABLE,
    libc::PR_CAPBSET_READ,
    // The allocator names its mappings.
    0x5356_4d41,
];

const CALLS: &[i64] = &[
    // Files: each is still subject to the rules for files.
    libc::SYS_openat,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_pread64,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_readlinkat,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_ioctl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_umask,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
    // Sockets and pipes.
    libc::SYS_bind,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_connect,
    libc::SYS_shutdown,
    libc::SYS_sendto,
    libc::SYS_sendmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_recvmmsg,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_getsockopt,
    libc::SYS_setsockopt,
    libc::SYS_pipe2,
    libc::SYS_splice,
    libc::SYS_tee,
    // Waiting.
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_eventfd2,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_nanosleep,
    libc::SYS_clock_nanosleep,
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_gettimeofday,
    libc::SYS_restart_syscall,
    // Memory.
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_mprotect,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_membarrier,
    libc::SYS_mincore,
    // Threads; see `NAMESPACES`. What a clone3 makes cannot be looked at: without it, the C library takes clone.
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_rseq,
    libc::SYS_futex,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Signals. The rules for files come with one that no other process gets any.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    // How threads are scheduled: placement.
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getattr,
    libc::SYS_sched_setattr,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_getcpu,
    // What the process is.
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_capget,
    libc::SYS_getrlimit,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    libc::SYS_getrandom,
];

/// Calls that newer processors' kernels do not have any more.
#[cfg(target_arch = "x86_64")]
const OLD_CALLS: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_readlink,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_unlink,
    libc::SYS_rename,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_create,
    libc::SYS_eventfd,
    libc::SYS_time,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const OLD_CALLS: &[i64] = &[];
