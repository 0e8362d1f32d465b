//! A bare relay: each client has a connection of its own to the server, and bytes go back and forth as they come.
//!
//! It is what proxies are compared with: one thread, one epoll, a read and a write for each message, and no knowledge
//! of what it passes on. Invariants: bytes keep their order; when one half of a connection ends, both are closed.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use anyhow::{Context, Result};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, poll};

/// One half of a connection through the relay. The other half's number differs in the last bit.
type Half = File;

struct Relay {
    epoll: OwnedFd,
    halves: Vec<Option<Half>>,
    /// Numbers of the first halves of connections that have ended.
    free: Vec<usize>,
    buffer: Box<[u8]>,
}

/// Relays between this port of 127.0.0.1 and the server's socket until something of its own fails.
pub fn run(port: u16, socket: &Path) -> Result<()> {
    let listener =
        TcpListener::bind(("127.0.0.1", port)).with_context(|| format!("cannot bind {port}"))?;
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let buffer = vec![0; 16 << 10].into();
    let mut relay = Relay { epoll, halves: Vec::new(), free: Vec::new(), buffer };
    let mut events = Vec::with_capacity(256);
    loop {
        events.clear();
        match epoll::wait(&relay.epoll, spare_capacity(&mut events), None) {
            Err(rustix::io::Errno::INTR) => continue,
            done => done?,
        };
        for event in &events {
            match event.data.u64() {
                LISTENER => relay.accept(&listener, socket)?,
                half => relay.pass(half as usize),
            }
        }
    }
}

impl Relay {
    fn accept(&mut self, listener: &TcpListener, socket: &Path) -> Result<()> {
        while let Ok((client, _)) = listener.accept() {
            client.set_nodelay(true)?;
            // The client sees that there is no server: its connection ends.
            let Ok(server) = UnixStream::connect(socket) else { continue };
            let first = self.free.pop().unwrap_or(self.halves.len());
            self.halves.resize_with(self.halves.len().max(first + 2), || None);
            for (at, half) in [(first, OwnedFd::from(client)), (first + 1, OwnedFd::from(server))] {
                rustix::io::ioctl_fionbio(&half, true)?;
                epoll::add(&self.epoll, &half, EventData::new_u64(at as u64), EventFlags::IN)?;
                self.halves[at] = Some(File::from(half));
            }
        }
        Ok(())
    }

    /// Passes on what one half has sent.
    fn pass(&mut self, from: usize) {
        let (Some(Some(one)), Some(Some(other))) =
            (self.halves.get(from), self.halves.get(from ^ 1))
        else {
            return;
        };
        let mut one = one;
        let done = match one.read(&mut self.buffer) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => write_all(other, &self.buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Err(error) => Err(error),
        };
        if done.is_err() {
            let first = from & !1;
            // Closed, they leave the epoll.
            self.halves[first] = None;
            self.halves[first + 1] = None;
            self.free.push(first);
        }
    }
}

/// Writes all; where the other side does not keep up, everybody waits for it.
fn write_all(mut half: &Half, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match half.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll(&mut [PollFd::from_borrowed_fd(half.as_fd(), PollFlags::OUT)], None)?;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The event of a client that comes.
const LISTENER: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::unix::net::UnixListener;

    use super::*;
    use crate::private_server::free_port;

    #[test]
    fn bytes_go_there_and_back_and_an_end_is_passed_on() {
        let folder = tempfile::tempdir().expect("makes");
        let path = folder.path().join("s");
        let server = UnixListener::bind(&path).expect("binds");
        let port = free_port().expect("a port is free");
        // It never ends by itself; the process does.
        std::thread::spawn(move || run(port, &path));
        let connect = || TcpStream::connect(("127.0.0.1", port));
        let mut client = std::iter::repeat_with(connect)
            .take(1000)
            .find_map(|tried| tried.inspect_err(|_| std::thread::yield_now()).ok())
            .expect("it listens soon");
        let (mut there, _) = server.accept().expect("comes");
        let long: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        let sent = long.clone();
        let sender = std::thread::spawn(move || {
            client.write_all(&sent).expect("writes");
            client
        });
        let mut got = vec![0; long.len()];
        there.read_exact(&mut got).expect("reads");
        assert!(got == long);
        let mut client = sender.join().expect("sends");
        there.write_all(b"answer").expect("writes");
        let mut answer = [0; 6];
        client.read_exact(&mut answer).expect("reads");
        assert_eq!(&answer, b"answer");
        drop(client);
        assert_eq!(there.read(&mut answer).expect("ends"), 0);
    }
}
