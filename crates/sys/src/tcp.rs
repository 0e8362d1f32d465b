//! What the kernel knows of the peer of a TCP connection (`TCP_INFO`).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// When the peer was heard last, and what it has left unanswered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Since it has acknowledged anything, or has answered a probe.
    pub last: Duration,
    /// Packets that were sent and that it has not acknowledged.
    pub unacknowledged: u32,
    /// How often in a row they were sent again in vain.
    pub repeats: u32,
    /// Probes in a row that it has not answered.
    pub probes: u32,
}

/// Asks the kernel. An error: it is no connection of TCP.
pub fn heard(socket: BorrowedFd<'_>) -> io::Result<Heard> {
    // The kernel's `struct tcp_info`: eight small numbers, and then numbers of 32 bits.
    let mut info = [0_u32; LAST_HEARD + 1];
    let mut len = libc::socklen_t::try_from(size_of_val(&info)).map_err(io::Error::other)?;
    // SAFETY: the kernel writes at most `len` bytes, which is the size of `info`, and tells how many.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let [_, _, repeats, probes] = info[0].to_ne_bytes();
    Ok(Heard {
        last: Duration::from_millis(info[LAST_HEARD].into()),
        unacknowledged: info[UNACKNOWLEDGED],
        repeats: repeats.into(),
        probes: probes.into(),
    })
}

/// Where `tcpi_unacked` and `tcpi_last_ack_recv` are.
const UNACKNOWLEDGED: usize = 6;
const LAST_HEARD: usize = 14;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_peer_that_answers_has_left_nothing_unanswered() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut one =
            TcpStream::connect(listener.local_addr().expect("has one")).expect("is there");
        let (mut other, _) = listener.accept().expect("a peer");
        one.write_all(b"x").expect("is sent");
        other.read_exact(&mut [0]).expect("is there");
        let heard = heard(one.as_fd()).expect("it is TCP");
        assert!((heard.repeats, heard.probes) == (0, 0) && heard.last < Duration::from_mins(5));
        let (unix, _other) = UnixStream::pair().expect("a pair");
        super::heard(unix.as_fd()).expect_err("it is no connection of TCP");
    }
}
