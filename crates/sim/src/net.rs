//! The world's network: what is under way between clients, the process and the server, and when it arrives.
//!
//! Owns every connection and the queue of events. Bytes of one direction keep their order; between connections there
//! is none. Invariant: nothing happens but by an event, and each event has a time of its own in the queue.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use backend::stream::memory::{self, Far, Memory, Near, Post};
use testkit::differ::peer::Link;

use crate::dice::Dice;
use crate::model::tables::{Tables, hash};
use crate::model::{Deed, Model};

/// The network and the servers behind it.
pub struct Net {
    /// Milliseconds since the world began.
    pub now: u64,
    /// The first one is written to; the others take over what it stores, later.
    pub servers: Vec<Server>,
    /// So far their changes are on their way to the others.
    replicated: u64,
    dice: Dice,
    post: Post,
    connections: BTreeMap<u64, Connection>,
    next_number: u64,
    events: BTreeMap<(u64, u64), Event>,
    next_event: u64,
    /// Bytes that the process may have under way on a connection.
    pub room: usize,
    /// A hash of all bytes that were sent, by whom and when.
    pub digest: u64,
    /// The process has no file descriptor left before this time.
    pub descriptors_from: u64,
}

/// A server, and how it is.
pub struct Server {
    pub model: Model,
    /// It is down until then: new connections are refused.
    pub comes_up: Option<u64>,
    /// It does nothing before this time.
    pub stands_until: u64,
    /// When it has taken over what is on its way to it.
    applies: u64,
}

impl Server {
    pub const fn new(model: Model) -> Self {
        Self { model, comes_up: None, stands_until: 0, applies: 0 }
    }

    fn due(&self) -> Option<u64> {
        self.model.due().map(|due| due.max(self.stands_until))
    }
}

/// A connection.
struct Connection {
    /// Its end in the process, if it has one.
    far: Option<Far>,
    other: Other,
    /// When the last bytes of each direction arrive: up to the server's side, down to the client's.
    up: u64,
    down: u64,
    has_ended_up: bool,
}

/// What a connection's end outside the process belongs to.
#[derive(Clone)]
enum Other {
    Client(Arc<Mutex<Inbox>>),
    /// This one of the servers.
    Server(usize),
    /// A client that talks to the server directly.
    Direct(Arc<Mutex<Inbox>>),
}

/// A client's end.
#[derive(Default)]
struct Inbox {
    arrived: VecDeque<u8>,
    is_ended: bool,
    is_reset: bool,
    waker: Option<Waker>,
    sent: Vec<u8>,
    is_gone: bool,
}

enum Event {
    Up(u64, Vec<u8>),
    Down(u64, Vec<u8>),
    /// The client's side, or the process's side towards the server, sends nothing more.
    UpEnds(u64),
    DownEnds(u64),
    Reset(u64),
    /// What a connection's end in the process has sent is looked at again.
    Look(u64),
    /// This server takes over what the first one had stored.
    Apply(usize, Arc<Tables>),
}

pub type Shared = Arc<Mutex<Net>>;

/// What happens goes on also if a world has panicked: its panic is what is told.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Net {
    /// A network with these servers, which have stored the same.
    pub fn new(mut servers: Vec<Server>, dice: Dice) -> Self {
        let replicated = servers[0].model.tables().changes;
        Self {
            now: 0,
            servers,
            replicated,
            dice,
            post: Post::default(),
            connections: BTreeMap::new(),
            next_number: 1,
            events: BTreeMap::new(),
            next_event: 0,
            room: 1 << 20,
            digest: 0,
            descriptors_from: 0,
        }
    }

    fn add(&mut self, far: Option<Far>, other: Other) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        let (up, down) = (self.now, self.now);
        self.connections.insert(number, Connection { far, other, up, down, has_ended_up: false });
        number
    }

    fn near(&mut self, addresses: (SocketAddr, SocketAddr)) -> (Memory, Far) {
        memory::connection(self.next_number, addresses, self.room, &self.post)
    }

    /// The process connects to this server.
    pub fn dial(&mut self, host: &str) -> io::Result<Memory> {
        if !self.has_descriptors() {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        let at = (0..self.servers.len()).find(|at| host_of_server(*at).to_string() == host);
        let is_up = |at: &usize| self.servers[*at].comes_up.is_none();
        let at = at.filter(is_up).ok_or(io::ErrorKind::ConnectionRefused)?;
        let (near, far) = self.near(((host_of_server(at), 3306).into(), address(1, 40_000)));
        let number = self.add(Some(far), Other::Server(at));
        self.at_server(at, |model, _, deeds| model.accept(number, deeds));
        Ok(near)
    }

    /// Has a server do something, and what it does in turn.
    fn at_server(&mut self, at: usize, act: impl FnOnce(&mut Model, u64, &mut Vec<Deed>)) {
        let mut deeds = Vec::new();
        act(&mut self.servers[at].model, self.now, &mut deeds);
        self.carry_out(deeds);
        self.replicate();
    }

    /// What the first server has stored is on its way to the others.
    fn replicate(&mut self) {
        let is_alone = self.servers.len() == 1;
        let stored = self.servers[0].model.tables();
        if is_alone || stored.changes == self.replicated {
            return;
        }
        self.replicated = stored.changes;
        let stored = Arc::new(stored.stored());
        for at in 1..self.servers.len() {
            let lag = match self.dice.below(20) {
                0 => 100 + self.dice.below(2000),
                1..6 => 1 + self.dice.below(60),
                _ => 1,
            };
            let applies = (self.now + lag).max(self.servers[at].applies);
            self.servers[at].applies = applies;
            self.schedule(applies, Event::Apply(at, Arc::clone(&stored)));
        }
    }

    /// Whether the process can have another connection.
    pub const fn has_descriptors(&self) -> bool {
        self.now >= self.descriptors_from
    }

    /// A client connects to the process. The first end is the process's.
    pub fn connect(&mut self) -> (Memory, Box<dyn Link>) {
        let port = 1024 + (self.next_number % 60_000) as u16;
        let (near, far) = self.near((address(3, port), address(1, 6033)));
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        let number = self.add(Some(far), Other::Client(Arc::clone(&inbox)));
        // The process is to accept it.
        self.post.tell(number);
        (near, Box::new(ClientEnd { number, inbox, post: self.post.clone() }))
    }

    /// A client connects to the server.
    pub fn connect_directly(&mut self) -> Box<dyn Link> {
        let inbox = Arc::new(Mutex::new(Inbox::default()));
        let number = self.add(None, Other::Direct(Arc::clone(&inbox)));
        self.at_server(0, |model, _, deeds| model.accept(number, deeds));
        Box::new(ClientEnd { number, inbox, post: self.post.clone() })
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.events.insert((at, self.next_event), event);
        self.next_event += 1;
    }

    /// When bytes that leave now arrive, behind those that left before.
    fn arrival(&mut self, before: u64) -> u64 {
        let delay = match self.dice.below(40) {
            0 => 5 + self.dice.below(60),
            1..10 => 1 + self.dice.below(4),
            _ => 1,
        };
        (self.now + delay).max(before)
    }

    /// Bytes go on their way, sometimes in pieces.
    fn send(&mut self, number: u64, is_up: bool, bytes: &[u8]) {
        for part in [&self.now.to_le_bytes()[..], &number.to_le_bytes(), &[u8::from(is_up)], bytes]
        {
            self.digest = hash(self.digest, part);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let piece = match self.dice.below(12) {
                0 => 1 + self.dice.below(rest.len() as u64) as usize,
                _ => rest.len(),
            };
            let (bytes, behind) = rest.split_at(piece);
            rest = behind;
            let Some(connection) = self.connections.get(&number) else { return };
            let before = if is_up { connection.up } else { connection.down };
            let at = self.arrival(before);
            let Some(connection) = self.connections.get_mut(&number) else { return };
            let event = if is_up {
                connection.up = at;
                Event::Up(number, bytes.to_vec())
            } else {
                connection.down = at;
                Event::Down(number, bytes.to_vec())
            };
            self.schedule(at, event);
        }
    }

    /// Is told of what ends of connections do.
    pub fn post(&self) -> Post {
        self.post.clone()
    }

    /// Takes up what ends of connections have done since.
    pub fn collect(&mut self) {
        loop {
            let told = self.post.take();
            if told.is_empty() {
                return;
            }
            for number in told {
                self.collect_from(number);
            }
        }
    }

    fn collect_from(&mut self, number: u64) {
        let Some(connection) = self.connections.get(&number) else { return };
        let mut ends = None;
        if let Some(far) = connection.far.clone() {
            let is_up = matches!(connection.other, Other::Server(_));
            // Sometimes the peer does not take all at once.
            let most = match self.dice.below(10) {
                0 => 1 + self.dice.below(300) as usize,
                _ => usize::MAX,
            };
            let bytes = far.take(most);
            self.send(number, is_up, &bytes);
            if far.waiting() > 0 {
                let at = self.now + 1 + self.dice.below(20);
                self.schedule(at, Event::Look(number));
            } else if far.near() != Near::Open {
                ends = Some(is_up);
            }
        }
        let inbox = match self.connections.get(&number).map(|connection| &connection.other) {
            Some(Other::Client(inbox) | Other::Direct(inbox)) => Some(Arc::clone(inbox)),
            _ => None,
        };
        if let Some(inbox) = inbox {
            let (bytes, is_gone) = {
                let mut inbox = lock(&inbox);
                (std::mem::take(&mut inbox.sent), inbox.is_gone)
            };
            self.send(number, true, &bytes);
            if is_gone
                && let Some(connection) = self.connections.get_mut(&number)
                && !connection.has_ended_up
            {
                connection.has_ended_up = true;
                let before = connection.up;
                let at = self.arrival(before);
                self.schedule(at, Event::UpEnds(number));
            }
        }
        if let Some(is_up) = ends
            && let Some(connection) = self.connections.get_mut(&number)
        {
            let before = if is_up { connection.up } else { connection.down };
            let at = self.arrival(before);
            self.schedule(at, if is_up { Event::UpEnds(number) } else { Event::DownEnds(number) });
        }
    }

    fn carry_out(&mut self, deeds: Vec<Deed>) {
        for deed in deeds {
            match deed {
                Deed::Send(number, bytes) => self.send(number, false, &bytes),
                Deed::Close(number) => {
                    let Some(connection) = self.connections.get(&number) else { continue };
                    let before = connection.down;
                    let at = self.arrival(before);
                    self.schedule(at, Event::DownEnds(number));
                }
            }
        }
    }

    /// When something happens next.
    pub fn due(&self) -> Option<u64> {
        let event = self.events.keys().next().map(|(at, _)| *at);
        event.into_iter().chain(self.model_due()).min()
    }

    fn model_due(&self) -> Option<u64> {
        self.servers.iter().filter_map(Server::due).min()
    }

    /// Does the next thing that is due by now. False: there is none.
    pub fn step(&mut self) -> bool {
        let is_due = |server: &Server| server.due().is_some_and(|due| due <= self.now);
        if let Some(at) = self.servers.iter().position(is_due) {
            self.at_server(at, Model::tick);
            return true;
        }
        let Some((&key, _)) = self.events.iter().next().filter(|((at, _), _)| *at <= self.now)
        else {
            return false;
        };
        if let Some(event) = self.events.remove(&key) {
            self.happen(event);
        }
        true
    }

    fn happen(&mut self, event: Event) {
        let (Event::Up(number, _)
        | Event::Down(number, _)
        | Event::UpEnds(number)
        | Event::DownEnds(number)
        | Event::Look(number)
        | Event::Reset(number)) = &event
        else {
            if let Event::Apply(at, stored) = event {
                self.servers[at].model.tables().apply(&stored);
            }
            return;
        };
        let number = *number;
        let Some(connection) = self.connections.get(&number) else { return };
        let (other, far) = (connection.other.clone(), connection.far.clone());
        let (server, inbox) = match other {
            Other::Server(at) => (Some(at), None),
            Other::Direct(inbox) => (Some(0), Some(inbox)),
            Other::Client(inbox) => (None, Some(inbox)),
        };
        let close = |far: Option<Far>| far.into_iter().for_each(|far| far.close());
        match (event, server) {
            (Event::Up(_, bytes), Some(at)) => {
                self.at_server(at, |model, now, deeds| model.hear(number, &bytes, now, deeds));
            }
            (Event::Up(_, bytes), None) => far.into_iter().for_each(|far| far.deliver(&bytes)),
            (Event::Down(_, bytes), _) => match inbox {
                Some(inbox) => lock(&inbox).hear(&bytes),
                None => far.into_iter().for_each(|far| far.deliver(&bytes)),
            },
            (Event::UpEnds(_), Some(at)) => self.forget(at, number),
            (Event::UpEnds(_), None) => close(far),
            (Event::DownEnds(_), _) => match inbox {
                Some(inbox) => lock(&inbox).end(false),
                None => close(far),
            },
            (Event::Look(_), _) => self.collect_from(number),
            (Event::Reset(_), _) => {
                far.iter().for_each(Far::reset);
                inbox.iter().for_each(|inbox| lock(inbox).end(true));
                if let Some(at) = server {
                    self.forget(at, number);
                }
            }
            (Event::Apply(..), _) => {}
        }
    }

    /// A connection is gone for its server.
    fn forget(&mut self, at: usize, number: u64) {
        self.at_server(at, |model, now, deeds| model.forget(number, now, deeds));
    }

    /// Servers that are due come up again.
    pub fn come_up(&mut self) {
        for server in &mut self.servers {
            server.comes_up = server.comes_up.filter(|at| *at > self.now);
        }
    }

    /// A server dies: its connections break, until it comes up again.
    pub fn crash(&mut self, at: usize, comes_up: u64) {
        self.servers[at].comes_up = Some(comes_up);
        self.at_server(at, Model::crash);
    }

    /// A connection breaks, of those between the process and the server or of clients.
    pub fn cut(&mut self, of_server: bool) {
        let fits =
            |connection: &Connection| matches!(connection.other, Other::Server(_)) == of_server;
        let all: Vec<_> =
            self.connections.iter().filter(|(_, it)| fits(it)).map(|(at, _)| *at).collect();
        if !all.is_empty() {
            let number = *self.dice.pick(&all);
            self.schedule(self.now, Event::Reset(number));
        }
    }

    /// A connection, or its statement, is killed at a server.
    pub fn kill(&mut self, at: usize) {
        self.at_server(at, Model::kill_any);
    }
}

/// "Too many open files", on Linux.
const EMFILE: i32 = 24;

/// Where this one of the servers is.
pub fn host_of_server(at: usize) -> Ipv4Addr {
    let last = if at == 0 { 2 } else { 10 + at as u8 };
    Ipv4Addr::new(10, 0, 0, last)
}

fn address(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], port))
}

impl Inbox {
    fn hear(&mut self, bytes: &[u8]) {
        self.arrived.extend(bytes);
        self.wake();
    }

    fn end(&mut self, is_reset: bool) {
        self.is_ended = true;
        self.is_reset |= is_reset;
        self.wake();
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// What a client program has of its connection.
struct ClientEnd {
    number: u64,
    inbox: Arc<Mutex<Inbox>>,
    post: Post,
}

impl Link for ClientEnd {
    fn poll_read(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut inbox = lock(&self.inbox);
        if inbox.is_reset {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        if inbox.arrived.is_empty() {
            if inbox.is_ended {
                return Poll::Ready(Ok(0));
            }
            inbox.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
        let read = into.len().min(inbox.arrived.len());
        for (place, byte) in into.iter_mut().zip(inbox.arrived.drain(..read)) {
            *place = byte;
        }
        Poll::Ready(Ok(read))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let mut inbox = lock(&self.inbox);
        if inbox.is_ended {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        inbox.sent.extend_from_slice(bytes);
        self.post.tell(self.number);
        Poll::Ready(Ok(bytes.len()))
    }
}

impl Drop for ClientEnd {
    fn drop(&mut self) {
        lock(&self.inbox).is_gone = true;
        self.post.tell(self.number);
    }
}
