//! A pool as it must not be: it hands backends on without a thought for what is on them.
//!
//! Stands in for Flifo where the test shall show that it finds leaks. One thread moves all bytes. A client's backend is
//! exchanged for another client's of the same user before a command of its own, if that other one is at rest and has
//! not left.
//!
//! Invariant: which backends are exchanged goes by the order of commands alone, as long as each is answered before the
//! next one is sent; it does not go by how fast this thread or the server is.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use testkit::differ::campaign::Between;
use testkit::differ::peer::Door;
use testkit::differ::run::Waits;
use testkit::differ::site::Server;
use wire::Capabilities;
use wire::command::Opcode;
use wire::frame::{HEADER, Header, put_packet};
use wire::handshake::Login;

/// What the pool forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forgets {
    Everything,
    /// Everything but the schema that a client named at its login.
    AllButSchema,
}

/// The pool before a server.
pub(super) struct Leaky {
    forgets: Forgets,
    running: Option<Running>,
}

struct Running {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Leaky {
    pub(super) const fn new(forgets: Forgets) -> Self {
        Self { forgets, running: None }
    }
}

impl Between for Leaky {
    fn door(&mut self, server: &Server, _backends: u32) -> Door {
        self.running = None;
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        listener.set_nonblocking(true).expect("a socket");
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, door, forgets) = (Arc::clone(&stop), server.door(), self.forgets);
        let thread = thread::spawn(move || {
            let mut pool =
                Pool { listener, server: door.port, forgets, pairs: Vec::new(), clients: 0 };
            while !stopped.load(Relaxed) {
                if !pool.turn() {
                    thread::sleep(Duration::from_micros(100));
                }
            }
        });
        self.running = Some(Running { stop, thread: Some(thread) });
        Door { port, ..server.door() }
    }

    /// Backends are exchanged between clients at rest.
    fn waits(&self) -> Waits {
        Waits::Patiently
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // If it has panicked, clients got no answers, and that was reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

struct Pool {
    listener: TcpListener,
    server: u16,
    forgets: Forgets,
    pairs: Vec<Pair>,
    /// Clients so far.
    clients: u64,
}

/// A client, and the backend that it has now.
struct Pair {
    client: TcpStream,
    /// How many came before this one.
    number: u64,
    backend: TcpStream,
    /// What it logged in with: its user and its schema.
    login: Option<(Vec<u8>, Vec<u8>)>,
    at_rest: bool,
}

impl Pool {
    /// Moves what is there. False: nothing was.
    fn turn(&mut self) -> bool {
        let mut moved = false;
        if let Ok((client, _)) = self.listener.accept() {
            let backend = TcpStream::connect(("127.0.0.1", self.server)).expect("a server");
            for socket in [&client, &backend] {
                socket.set_nonblocking(true).expect("a socket");
                socket.set_nodelay(true).expect("a socket");
            }
            let number = self.clients;
            self.clients += 1;
            self.pairs.push(Pair { client, number, backend, login: None, at_rest: false });
            moved = true;
        }
        let mut at = 0;
        while at < self.pairs.len() {
            match self.move_bytes(at) {
                Some(some) => {
                    moved |= some;
                    at += 1;
                }
                None => drop(self.pairs.swap_remove(at)),
            }
        }
        moved
    }

    /// Moves a pair's bytes both ways. `None`: it has ended.
    fn move_bytes(&mut self, at: usize) -> Option<bool> {
        let mut buffer = vec![0; 256 << 10];
        let said = read(&mut self.pairs[at].client, &mut buffer)?;
        if said > 0 {
            if self.pairs[at].login.is_none() {
                self.pairs[at].login = Some(login(&buffer[HEADER..said]));
            }
            self.pass_on(at, &buffer[..said])?;
        }
        let pair = &mut self.pairs[at];
        let answered = read(&mut pair.backend, &mut buffer)?;
        if answered > 0 {
            write(&mut pair.client, &buffer[..answered])?;
            pair.at_rest = pair.login.is_some();
        }
        Some(said + answered > 0)
    }

    /// Writes what a client has said, packet by packet: several come at once where the first has no reply.
    fn pass_on(&mut self, at: usize, mut said: &[u8]) -> Option<()> {
        while !said.is_empty() {
            let len = Header::peek(said).map_or(said.len(), |it| (HEADER + it.len).min(said.len()));
            let (packet, rest) = said.split_at(len);
            if has_reply(packet) {
                self.exchange(at);
                self.pairs[at].at_rest = false;
            }
            write(&mut self.pairs[at].backend, packet)?;
            said = rest;
        }
        Some(())
    }

    /// Passes on what the others have said before. False, for each: it has left.
    fn hear_others(&mut self, at: usize) -> Vec<bool> {
        let mut buffer = vec![0; 64 << 10];
        let mut hear = |pair: &mut Pair| loop {
            match read(&mut pair.client, &mut buffer) {
                Some(0) => return true,
                // What awaits a reply awaits it before anything else is said.
                Some(said) if write(&mut pair.backend, &buffer[..said]).is_some() => {}
                _ => return false,
            }
        };
        let others = self.pairs.iter_mut().enumerate();
        others.map(|(other, pair)| other != at && pair.at_rest && hear(pair)).collect()
    }

    fn exchange(&mut self, at: usize) {
        let are_there = self.hear_others(at);
        let user = self.pairs[at].login.as_ref().map(|login| &login.0);
        let is_mate = |(other, pair): &(usize, &Pair)| {
            let same_user = pair.login.as_ref().map(|login| &login.0) == user;
            are_there[*other] && same_user
        };
        let mates = self.pairs.iter().enumerate().filter(is_mate);
        // Not the first one: where a pair stands goes by when others were taken out.
        let Some((other, _)) = mates.min_by_key(|(_, pair)| pair.number) else { return };
        let (low, high) = (at.min(other), at.max(other));
        let (left, right) = self.pairs.split_at_mut(high);
        std::mem::swap(&mut left[low].backend, &mut right[0].backend);
        if self.forgets == Forgets::AllButSchema {
            self.pairs[at].use_schema();
            self.pairs[other].use_schema();
        }
    }
}

impl Pair {
    /// Tells the backend which schema its client named.
    fn use_schema(&mut self) {
        let Some((_, schema)) = self.login.as_ref().filter(|login| !login.1.is_empty()) else {
            return;
        };
        let mut packet = Vec::new();
        put_packet(&mut packet, 0, &[&[Opcode::InitDb as u8], &schema[..]].concat());
        let _ = write(&mut self.backend, &packet);
        let mut answer = [0; 512];
        while read(&mut self.backend, &mut answer) == Some(0) {
            thread::yield_now();
        }
    }
}

/// Whether a packet is a command, and one that is answered.
fn has_reply(packet: &[u8]) -> bool {
    let silent = [Opcode::StmtClose as u8, Opcode::StmtSendLongData as u8];
    packet[HEADER - 1] == 0 && packet.get(HEADER).is_none_or(|it| !silent.contains(it))
}

/// User and schema of a login. Behind the user stands how its results end: with a backend of the other form, a client would
/// wait for packets that never come.
fn login(payload: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut login = Login::decode(payload).expect("a login");
    login.user.push(u8::from(login.capabilities.has(Capabilities::DEPRECATE_EOF)));
    (login.user, login.schema.unwrap_or_default())
}

/// Reads what is there; `None` at the end.
fn read(from: &mut TcpStream, buffer: &mut [u8]) -> Option<usize> {
    match from.read(buffer) {
        Ok(0) => None,
        Ok(read) => Some(read),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Some(0),
        Err(_) => None,
    }
}

fn write(to: &mut TcpStream, mut bytes: &[u8]) -> Option<()> {
    while !bytes.is_empty() {
        match to.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
            Err(_) => return None,
        }
    }
    Some(())
}
