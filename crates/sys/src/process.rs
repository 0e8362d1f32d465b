//! What this process may: its open files, its rights, and the user that it acts as.
//!
//! What processes use is in [`crate::account`].

use std::ffi::{CStr, CString};
use std::io;
use std::mem::MaybeUninit;

use rustix::process::{Resource, geteuid, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

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

/// Why this process could not become another user.
#[derive(Debug, thiserror::Error)]
pub enum BecomeError {
    #[error("this machine has no user '{0}'; make it, for example with `useradd --system {0}`")]
    Unknown(String),
    #[error("only root can become another user")]
    NotRoot,
    #[error("the kernel refuses: {0}")]
    Refused(#[from] io::Error),
}

/// What a user may do although it is not root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    Nothing,
    /// To set how other users' threads are scheduled (CAP_SYS_NICE).
    Scheduling,
}

/// Makes this process act as another user of the machine for good: its groups, no capability but what is kept.
///
/// All threads change, but for their capabilities: it is called before the second one is started.
pub fn become_user(name: &str, keep: Keep) -> Result<(), BecomeError> {
    if !is_root() {
        return Err(BecomeError::NotRoot);
    }
    let unknown = || BecomeError::Unknown(name.to_owned());
    let c_name = CString::new(name).map_err(|_| unknown())?;
    let (uid, gid) = numbers(&c_name).ok_or_else(unknown)?;
    if keep == Keep::Scheduling {
        rustix::thread::set_keep_capabilities(true).map_err(io::Error::from)?;
    }
    // SAFETY: plain calls of numbers and a string that lives; the C library makes them for every thread.
    let changed = unsafe {
        libc::initgroups(c_name.as_ptr(), gid) == 0
            && libc::setgid(gid) == 0
            && libc::setuid(uid) == 0
    };
    if !changed {
        return Err(io::Error::last_os_error().into());
    }
    if keep == Keep::Scheduling {
        let kept = CapabilitySet::SYS_NICE;
        let inheritable = CapabilitySet::empty();
        let sets = CapabilitySets { effective: kept, permitted: kept, inheritable };
        rustix::thread::set_capabilities(None, sets).map_err(io::Error::from)?;
    }
    Ok(())
}

/// The numbers of a user of this machine and of its group, from wherever the machine has its users (`nsswitch.conf`).
pub fn numbers_of(user: &str) -> Option<(u32, u32)> {
    numbers(&CString::new(user).ok()?)
}

fn numbers(name: &CStr) -> Option<(u32, u32)> {
    let mut room = vec![0; NAMES_MAX];
    let mut entry = MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are to memory of ours that outlives the call, and `room` has the length that is told.
    let error = unsafe {
        let (names, length) = (room.as_mut_ptr(), room.len());
        libc::getpwnam_r(name.as_ptr(), entry.as_mut_ptr(), names, length, &raw mut found)
    };
    if error != 0 || found.is_null() {
        return None;
    }
    // SAFETY: `found` is not null, so `entry` has been filled.
    let entry = unsafe { entry.assume_init_ref() };
    Some((entry.pw_uid, entry.pw_gid))
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

/// All texts of an entry of the list of users.
const NAMES_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

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
    fn users_are_looked_up_by_name() {
        assert_eq!(numbers_of("root"), Some((0, 0)));
        assert_eq!(numbers_of("no such user"), None);
        assert_eq!(numbers_of("root\0x"), None);
    }

    #[test]
    fn the_open_files_reach_their_hard_limit() {
        let hard = raise_open_files().expect("raises");
        assert_eq!(getrlimit(Resource::Nofile).current, hard);
    }
}
