//! Which processes of this machine are connected: the process at the other end of a socket.
//!
//! Asks the kernel for its tables of sockets; interprets nothing. Sees the sockets of
//! other users' processes only with root's rights.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

use crate::network::{self, State};
use crate::tree::{Seen, Tree};

/// The processes of this machine that hold connections to a process, and how many each, by Unix
/// sockets and by TCP.
pub fn clients(tree: &Tree, server: u32) -> Seen<BTreeMap<u32, Connections>> {
    let ours = match sockets(tree, server) {
        Seen::Known(ours) => ours,
        other => return other.map(|_| BTreeMap::new()),
    };
    let unix = if tree.is_live() {
        Seen::from_io("the table of Unix sockets", unix_pairs())
    } else {
        Seen::Unknown("the table of Unix sockets is not recorded".to_owned())
    };
    let tcp = network::tcp(tree);
    if unix.known().is_none() && tcp.known().is_none() {
        return unix.map(|_| BTreeMap::new());
    }
    let mut far: BTreeMap<u64, bool> = BTreeMap::new();
    for (one, other) in unix.known().into_iter().flatten() {
        if ours.contains(one) && !ours.contains(other) {
            far.insert(*other, false);
        }
    }
    // The two ends of a connection on one machine are two rows, with the ports exchanged.
    let rows = tcp.known().map_or(&[][..], |table| &table.open);
    let near: BTreeSet<(u16, u16)> = rows
        .iter()
        .filter(|row| row.state == State::Established && ours.contains(&row.inode))
        .map(|row| (row.remote_port, row.local_port))
        .collect();
    let others = rows.iter().filter(|row| row.is_local && !ours.contains(&row.inode));
    for row in others.filter(|row| near.contains(&(row.local_port, row.remote_port))) {
        far.insert(row.inode, true);
    }
    Seen::Known(holders(tree, server, &far))
}

/// How many connections a process has, and how many of them are TCP's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    pub unix: usize,
    pub tcp: usize,
}

fn holders(tree: &Tree, server: u32, far: &BTreeMap<u64, bool>) -> BTreeMap<u32, Connections> {
    let mut found = BTreeMap::new();
    if far.is_empty() {
        return found;
    }
    let pids = tree.numbers("/proc");
    let others = pids.known().into_iter().flatten().filter(|pid| **pid != server);
    for pid in others {
        let Seen::Known(sockets) = sockets(tree, *pid) else { continue };
        let mut count = Connections::default();
        for socket in sockets {
            match far.get(&socket) {
                Some(true) => count.tcp += 1,
                Some(false) => count.unix += 1,
                None => {}
            }
        }
        if count != Connections::default() {
            found.insert(*pid, count);
        }
    }
    found
}

/// The numbers of the sockets that a process has open.
fn sockets(tree: &Tree, pid: u32) -> Seen<BTreeSet<u64>> {
    let folder = format!("/proc/{pid}/fd");
    tree.names(&folder).map(|names| {
        let numbers = names.iter().filter_map(|name| {
            let target = tree.target(&format!("{folder}/{name}"));
            target.known()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
        });
        numbers.collect()
    })
}

/// The numbers of the two ends of all Unix connections, each from both sides.
fn unix_pairs() -> io::Result<Vec<(u64, u64)>> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::DGRAM,
        SocketFlags::CLOEXEC,
        Some(netlink::SOCK_DIAG),
    )?;
    send(&socket, &request(), SendFlags::empty())?;
    let mut pairs = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let (_, length) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        let mut rest = &buffer[..length.min(64 << 10)];
        if rest.is_empty() {
            return Ok(pairs);
        }
        while let Some((message, next)) = split(rest) {
            match word16(message, 4) {
                Some(NLMSG_DONE) => return Ok(pairs),
                Some(NLMSG_ERROR) => return Err(io::Error::other("the kernel refuses to tell")),
                _ => pairs.extend(pair(message)),
            }
            rest = next;
        }
    }
}

/// A header of netlink (length, kind, flags, sequence, port) and `unix_diag_req`: family, protocol,
/// padding, states, socket, what to show, cookie.
fn request() -> Vec<u8> {
    let mut out = Vec::with_capacity(REQUEST);
    out.extend_from_slice(&(REQUEST as u32).to_ne_bytes());
    out.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    out.extend_from_slice(&NLM_F_REQUEST_DUMP.to_ne_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&[AF_UNIX, 0, 0, 0]);
    for word in [1 << ESTABLISHED, 0, UDIAG_SHOW_PEER, u32::MAX, u32::MAX] {
        out.extend_from_slice(&word.to_ne_bytes());
    }
    out
}

/// The first message of several, and what comes behind it.
fn split(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(word32(bytes, 0)?).ok()?;
    if length < HEADER || bytes.len() < length {
        return None;
    }
    let padded = length.next_multiple_of(4).min(bytes.len());
    Some((&bytes[..length], &bytes[padded..]))
}

/// A socket and its peer, from `unix_diag_msg` and the attributes behind it.
fn pair(message: &[u8]) -> Option<(u64, u64)> {
    let socket = word32(message, HEADER + 4)?;
    let mut at = HEADER + 16;
    loop {
        let length = usize::from(word16(message, at)?);
        if word16(message, at + 2)? == UNIX_DIAG_PEER {
            return Some((socket.into(), word32(message, at + 4)?.into()));
        }
        if length < 4 {
            return None;
        }
        at += length.next_multiple_of(4);
    }
}

fn word16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

// From linux/netlink.h, linux/sock_diag.h and linux/unix_diag.h.
const HEADER: usize = 16;
const REQUEST: usize = 40;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLM_F_REQUEST_DUMP: u16 = 0x301;
const AF_UNIX: u8 = 1;
const ESTABLISHED: u32 = 1;
const UDIAG_SHOW_PEER: u32 = 4;
const UNIX_DIAG_PEER: u16 = 2;

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn both_ends_of_a_unix_connection_are_found() {
        let (one, other) = UnixStream::pair().expect("pairs");
        let number = |stream: &UnixStream| {
            let path = format!("/proc/self/fd/{}", stream.as_raw_fd());
            let target = Tree::live().target(&path);
            let target = target.known().expect("reads").clone();
            target.trim_matches(|letter: char| !letter.is_ascii_digit()).parse::<u64>()
        };
        let want = (number(&one).expect("a number"), number(&other).expect("a number"));
        assert!(unix_pairs().expect("reads").contains(&want), "{want:?}");
    }

    #[test]
    fn a_process_that_speaks_with_another_is_its_client() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("has one").port();
        // A process of its own holds the other end, until its input ends.
        let mut child = std::process::Command::new("bash")
            .arg("-c")
            .arg(format!("exec 3<>/dev/tcp/127.0.0.1/{port}; echo >&3; read -r line"))
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("bash runs");
        let (mut near, _) = listener.accept().expect("accepts");
        // Until the shell has put its end where it shall stay.
        near.read_exact(&mut [0]).expect("reads");
        let seen = clients(&Tree::live(), std::process::id());
        drop(near);
        drop(child.stdin.take());
        let _ = child.wait().expect("ends");
        let seen = seen.known().expect("reads").get(&child.id()).copied();
        assert_eq!(seen, Some(Connections { unix: 0, tcp: 1 }));
    }

    #[test]
    fn a_process_is_not_its_own_client() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let near = TcpStream::connect(listener.local_addr().expect("has one")).expect("connects");
        let _far = listener.accept().expect("accepts");
        let me = std::process::id();
        assert!(!clients(&Tree::live(), me).known().expect("reads").contains_key(&me));
        drop(near);
    }

    #[test]
    fn cut_messages_are_left_alone() {
        assert_eq!(split(&[0; 4]), None);
        assert_eq!(split(&[255; 20]), None);
        assert_eq!(pair(&[0; 20]), None);
    }
}
