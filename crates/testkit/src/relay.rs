//! A connection that fails in the ways in which networks do: a port on loopback before another port, which passes bytes
//! on, or is silent (nothing arrives, nothing is refused), or breaks what goes through it. A silent port still takes
//! what it is sent; one that has vanished does not even acknowledge it, as a machine without power.
//!
//! Owns its listener and its connections; knows nothing of what they say. Dropped, it closes all.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use socket2::{SockFilter, SockRef};

/// A port in front of another one.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    listener: TcpListener,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    is_silent: AtomicBool,
    is_over: AtomicBool,
    /// What breaks the connection on which it is sent next.
    fatal: Mutex<Option<Vec<u8>>>,
    /// Connections that have ended, counted for each direction.
    ended: AtomicUsize,
    streams: Mutex<Vec<TcpStream>>,
}

/// How soon a thread that waits for bytes notices a change.
const LOOK: Duration = Duration::from_millis(20);

impl Relay {
    /// Passes on to this port of 127.0.0.1.
    ///
    /// # Panics
    /// If there is no port.
    pub fn to(port: u16) -> Self {
        Self::at(SocketAddr::from(([127, 0, 0, 1], 0)), port)
    }

    /// The same, at an address of this machine's.
    ///
    /// # Panics
    /// If the address is in use.
    pub fn at(address: SocketAddr, port: u16) -> Self {
        let listener = TcpListener::bind(address).expect("a free port");
        let address = listener.local_addr().expect("an address");
        let state = Arc::new(State::default());
        let shared = Arc::clone(&state);
        let own = listener.try_clone().expect("one more descriptor");
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.is_over.load(Relaxed) {
                    break;
                }
                let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                shared.join(client, server);
            }
        });
        Self { address, listener: own, state }
    }

    pub const fn port(&self) -> u16 {
        self.address.port()
    }

    /// From now on nothing arrives, and nothing is refused; or all does again, also what was held up.
    pub fn set_silent(&self, is_silent: bool) {
        self.state.is_silent.store(is_silent, Relaxed);
    }

    /// From now on no packet is answered, also none that asks whether the machine is there: that of a connection that is
    /// there, or that wants to be. Connections stay so.
    ///
    /// # Panics
    /// If another thread has panicked, or the kernel does not do it.
    pub fn vanish(&self) {
        deafen(&self.listener);
        self.state.streams.lock().expect("nobody panics").iter().for_each(deafen);
    }

    /// New connections are taken again.
    ///
    /// # Panics
    /// If the kernel does not do it.
    pub fn come_back(&self) {
        SockRef::from(&self.listener).detach_filter().expect("it has one");
    }

    /// Breaks all connections there are.
    ///
    /// # Panics
    /// If another thread has panicked.
    pub fn cut(&self) {
        for stream in self.state.streams.lock().expect("nobody panics").drain(..) {
            // It may have ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// Breaks the next connection on which these bytes are sent in one piece, and passes them on nowhere.
    ///
    /// # Panics
    /// If another thread has panicked.
    pub fn break_at(&self, bytes: &[u8]) {
        *self.state.fatal.lock().expect("nobody panics") = Some(bytes.to_vec());
    }

    /// Whether that has happened.
    ///
    /// # Panics
    /// If another thread has panicked.
    pub fn has_broken(&self) -> bool {
        self.state.fatal.lock().expect("nobody panics").is_none()
    }

    /// How many connections have ended.
    pub fn ended(&self) -> usize {
        self.state.ended.load(Relaxed) / 2
    }

    /// Whether a client has not closed its end yet of a connection that has ended: it may not know of that.
    ///
    /// # Panics
    /// If the system does not tell.
    pub fn is_missed(&self) -> bool {
        const CLOSE_WAIT: &str = "08";
        let sockets =
            std::fs::read_to_string("/proc/net/tcp").expect("the sockets of this machine");
        let port = format!(":{:04X}", self.port());
        sockets.lines().any(|line| {
            let mut columns = line.split_whitespace().skip(2);
            columns.next().is_some_and(|remote| remote.ends_with(&port))
                && columns.next() == Some(CLOSE_WAIT)
        })
    }
}

/// Has the kernel drop all that comes for a socket before anything is done about it, as if its machine were gone.
///
/// # Panics
/// If the kernel does not do it.
pub fn deafen(socket: &impl AsFd) {
    const RETURN: u16 = 0x06;
    let nothing = SockFilter::new(RETURN, 0, 0, 0);
    SockRef::from(socket).attach_filter(&[nothing]).expect("Linux has filters");
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.state.is_over.store(true, Relaxed);
        let _ = SockRef::from(&self.listener).detach_filter();
        self.cut();
        // The thread that waits for a client learns of the end by this connection.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn join(self: &Arc<Self>, client: TcpStream, server: TcpStream) {
        let (Ok(from_client), Ok(from_server)) = (client.try_clone(), server.try_clone()) else {
            return;
        };
        let mut streams = self.streams.lock().expect("nobody panics");
        streams.extend([client.try_clone(), server.try_clone()].into_iter().flatten());
        drop(streams);
        for (from, to) in [(from_client, server), (from_server, client)] {
            let state = Arc::clone(self);
            thread::spawn(move || state.pass(from, to));
        }
    }

    fn is_fatal(&self, bytes: &[u8]) -> bool {
        let mut fatal = self.fatal.lock().expect("nobody panics");
        let is_there = |part: &Vec<u8>| bytes.windows(part.len()).any(|piece| piece == part);
        fatal.take_if(|part| is_there(part)).is_some()
    }

    fn pass(&self, mut from: TcpStream, mut to: TcpStream) {
        let _ = from.set_read_timeout(Some(LOOK));
        let mut buffer = [0; 16 << 10];
        while !self.is_over.load(Relaxed) {
            if self.is_silent.load(Relaxed) {
                thread::sleep(LOOK);
                continue;
            }
            match from.read(&mut buffer) {
                Ok(0) => break,
                Ok(read) if self.is_fatal(&buffer[..read]) => break,
                Ok(read) if to.write_all(&buffer[..read]).is_ok() => {}
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
                Ok(_) | Err(_) => break,
            }
        }
        let _ = to.shutdown(Shutdown::Both);
        let _ = from.shutdown(Shutdown::Both);
        self.ended.fetch_add(1, Relaxed);
    }
}
