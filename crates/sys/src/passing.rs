//! Messages with open files, between two processes: over a Unix socket, by `SCM_RIGHTS` (unix(7)).
//!
//! A message is a header (its length and how many files come with it), which carries the files, and its bytes. Reading
//! and writing wait. Several threads may send; one reads. What a message means
//! is the caller's.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// One end.
#[derive(Debug)]
pub struct Passage {
    socket: UnixStream,
    /// Held by the thread that sends: a message that goes in two parts must not have another one in its middle.
    sending: Mutex<()>,
}

/// What has come.
#[derive(Debug)]
pub struct Delivery {
    pub bytes: Vec<u8>,
    pub files: Vec<OwnedFd>,
}

/// As many files as the kernel takes with one message (`SCM_MAX_FD`).
pub const FILES_MAX: usize = 253;

/// More is no message.
pub const BYTES_MAX: usize = 256 << 20;

const HEADER: usize = 8;

impl Passage {
    const fn new(socket: UnixStream) -> Self {
        Self { socket, sending: Mutex::new(()) }
    }

    /// Both ends of one.
    pub fn pair() -> io::Result<(Self, Self)> {
        let (one, other) = UnixStream::pair()?;
        Ok((Self::new(one), Self::new(other)))
    }

    /// The end that a file is.
    pub fn of(file: OwnedFd) -> Self {
        Self::new(file.into())
    }

    /// The file that this end is.
    pub fn into_file(self) -> OwnedFd {
        self.socket.into()
    }

    /// Reading fails when nothing comes for so long; `None`: it waits for ever.
    pub fn wait_at_most(&self, time: Option<Duration>) -> io::Result<()> {
        self.socket.set_read_timeout(time)
    }

    /// Nothing goes either way any more: a reader at either end is told.
    pub fn close(&self) {
        // It may be closed already.
        let _ = self.socket.shutdown(std::net::Shutdown::Both);
    }

    /// Sends a message. The files stay open here as well.
    pub fn send(&self, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let too_large =
            || io::Error::other("a message of this length, or with so many files, is not sent");
        if bytes.len() > BYTES_MAX || files.len() > FILES_MAX {
            return Err(too_large());
        }
        let header = (bytes.len() as u64) | (files.len() as u64) << 32;
        let header = header.to_le_bytes();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
            return Err(too_large());
        }
        let _alone = self.sending.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = loop {
            let parts = [IoSlice::new(&header), IoSlice::new(bytes)];
            match sendmsg(&self.socket, &parts, &mut control, SendFlags::NOSIGNAL) {
                Err(rustix::io::Errno::INTR) => {}
                done => break done?,
            }
        };
        // The files are on their way with the first byte; what is left goes alone.
        let mut socket = &self.socket;
        if let Some(rest) = header.get(sent..).filter(|rest| !rest.is_empty()) {
            socket.write_all(rest)?;
        }
        socket.write_all(&bytes[sent.saturating_sub(HEADER)..])
    }

    /// Waits for a message. `None`: the other end is closed.
    pub fn receive(&self) -> io::Result<Option<Delivery>> {
        let mut files = Vec::new();
        let mut header = [0; HEADER];
        let mut at = 0;
        while at < HEADER {
            match self.receive_some(&mut header[at..], &mut files)? {
                0 if at == 0 => return Ok(None),
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => at += read,
            }
        }
        let header = u64::from_le_bytes(header);
        let (length, count) = ((header & u64::from(u32::MAX)) as usize, (header >> 32) as usize);
        if length > BYTES_MAX || count != files.len() {
            return Err(io::Error::other("what came is no message, or its files were lost"));
        }
        let mut bytes = vec![0; length];
        (&self.socket).read_exact(&mut bytes)?;
        Ok(Some(Delivery { bytes, files }))
    }

    fn receive_some(&self, to: &mut [u8], files: &mut Vec<OwnedFd>) -> io::Result<usize> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut parts = [IoSliceMut::new(to)];
            match recvmsg(&self.socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC) {
                Err(rustix::io::Errno::INTR) => {}
                done => break done?,
            }
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                files.extend(rights);
            }
        }
        Ok(received.bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};
    use std::os::fd::AsFd;
    use std::thread;

    use super::*;

    #[test]
    fn messages_keep_their_bounds_and_their_files() {
        let (one, other) = Passage::pair().expect("a pair");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"inside").and_then(|()| file.rewind()).expect("is written");
        let long = vec![7; 3 << 20];
        let sender = thread::spawn({
            let long = long.clone();
            move || {
                one.send(b"first", &[file.as_fd(), file.as_fd()]).expect("is sent");
                one.send(b"", &[]).expect("is sent");
                one.send(&long, &[file.as_fd()]).expect("is sent");
            }
        });
        let first = other.receive().expect("comes").expect("is one");
        assert_eq!((&first.bytes[..], first.files.len()), (&b"first"[..], 2));
        let second = other.receive().expect("comes").expect("is one");
        assert!(second.bytes.is_empty() && second.files.is_empty());
        let third = other.receive().expect("comes").expect("is one");
        assert!(third.bytes == long && third.files.len() == 1);
        sender.join().expect("has sent all");
        let mut text = String::new();
        let mut file = std::fs::File::from(third.files.into_iter().next().expect("one"));
        file.read_to_string(&mut text).expect("is read");
        assert_eq!(text, "inside");
        assert!(other.receive().expect("ends").is_none());
    }

    #[test]
    fn what_is_no_message_is_told_from_the_end() {
        let (one, other) = Passage::pair().expect("a pair");
        (&one.socket).write_all(&u64::MAX.to_le_bytes()).expect("is sent");
        assert!(other.receive().is_err());
        let (one, other) = Passage::pair().expect("a pair");
        (&one.socket).write_all(&[1, 2, 3]).expect("is sent");
        drop(one);
        assert_eq!(other.receive().expect_err("is cut").kind(), io::ErrorKind::UnexpectedEof);
        let (_one, other) = Passage::pair().expect("a pair");
        other.wait_at_most(Some(Duration::from_millis(1))).expect("is set");
        assert_eq!(other.receive().expect_err("is late").kind(), io::ErrorKind::WouldBlock);
    }
}
