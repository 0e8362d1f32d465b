//! Whether the kernel lets this process use `io_uring`.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::tree::Seen;

/// Tries it with the smallest ring, and lets go of it.
pub fn attempt() -> Seen<()> {
    // `struct io_uring_params`, which the kernel fills: 120 bytes, all zero for no wishes.
    let mut parameters = [0_u64; 15];
    // SAFETY: the kernel writes at most the 120 bytes of its structure to `parameters`.
    let ring = unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) };
    match i32::try_from(ring) {
        Ok(ring) if ring >= 0 => {
            // SAFETY: the call has just made this descriptor, and no other code owns it.
            drop(unsafe { OwnedFd::from_raw_fd(ring) });
            Seen::Known(())
        }
        _ => Seen::from_io("io_uring_setup", Err(io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_attempt_is_made_and_leaves_nothing_open() {
        let open = || {
            std::fs::read_dir("/proc/self/fd")
                .expect("reads")
                .flatten()
                .filter(|it| {
                    let target = std::fs::read_link(it.path()).unwrap_or_default();
                    target.to_string_lossy().contains("io_uring")
                })
                .count()
        };
        match attempt() {
            Seen::Known(()) => {}
            refused => assert!(!refused.reason().is_empty()),
        }
        assert_eq!(open(), 0);
    }
}
