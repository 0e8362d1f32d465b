//! Servers whose machine is gone: no packet to them is answered.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, Socket, Type};
use testkit::client::Client;
use testkit::flifo::Flifo;
use testkit::scene::wait_for;

/// A port at which connections hang: it is listened on, and its queue is full. It is the same at all addresses of
/// this machine, so there are as many servers behind it as are named.
struct Holes {
    port: u16,
    _listener: Socket,
    _queued: Vec<TcpStream>,
}

impl Holes {
    fn dig() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let port = listener.local_addr().unwrap().as_socket().unwrap().port();
        Self { port, _queued: fill(port), _listener: listener }
    }
}

/// Connects there until that hangs.
fn fill(port: u16) -> Vec<TcpStream> {
    let mut queued = Vec::new();
    loop {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        match TcpStream::connect_timeout(&address, Duration::from_millis(500)) {
            Ok(stream) => queued.push(stream),
            Err(error) if error.kind() == ErrorKind::TimedOut => return queued,
            Err(error) => panic!("{error}"),
        }
        assert!(queued.len() < 100, "the queue is never full");
    }
}

/// A server whose connections are accepted, until it freezes.
struct Live {
    port: u16,
    is_frozen: Arc<AtomicBool>,
    accepting: Option<JoinHandle<TcpListener>>,
}

impl Live {
    fn start() -> Self {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        listener.listen(2).unwrap();
        let listener = TcpListener::from(listener);
        let port = listener.local_addr().unwrap().port();
        let is_frozen = Arc::new(AtomicBool::new(false));
        let freezes = Arc::clone(&is_frozen);
        let accepting = Some(thread::spawn(move || {
            while !freezes.load(Relaxed) {
                drop(listener.accept().unwrap());
            }
            listener
        }));
        Self { port, is_frozen, accepting }
    }

    /// Its connections hang from now on, as those to a hole do.
    fn freeze(&mut self) -> (TcpListener, Vec<TcpStream>) {
        self.is_frozen.store(true, Relaxed);
        drop(TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)));
        let listener = self.accepting.take().unwrap().join().unwrap();
        (listener, fill(self.port))
    }
}

/// How many checks of these servers have passed, and failed, so far.
fn counted(console: &mut Client, which: &str) -> (u64, u64) {
    let sums =
        format!("SELECT SUM(passed), SUM(failed) FROM checks WHERE kind = 'checks' AND {which}");
    let row = console.query(&sums).unwrap().remove(0);
    let number = |at: usize| row[at].parse::<f64>().unwrap() as u64;
    (number(0), number(1))
}

#[test]
fn checks_of_servers_that_answer_do_not_wait_for_those_that_hang() {
    const HOLES: u8 = 60;
    let (holes, mut live) = (Holes::dig(), Live::start());
    let folder = tempfile::tempdir().unwrap();
    let console = folder.path().join("console.sock");
    let mut listed = format!(
        "workers = 2\n[console]\nlisten = [{console:?}]\n[checks]\nkind = \"connect\"\ntimeout = \"2s\"\nfall = 1\n\
         at_once = 4\ninter = \"100ms\"\nfastinter = \"100ms\"\ndowninter = \"100ms\"\n\
         [[servers]]\nname = \"live\"\naddress = \"127.0.0.1:{}\"\ngroup = \"writer\"\n",
        live.port
    );
    for hole in 1..=HOLES {
        listed += &format!(
            "[[servers]]\nname = \"hole{hole}\"\naddress = \"127.0.1.{hole}:{}\"\ngroup = \"readers\"\n",
            holes.port
        );
    }
    // Without a user, a client is greeted by a server.
    listed += "[[users]]\nname = \"app\"\npassword = \"app\"\n";
    let flifo = Flifo::start(&listed);
    let address = console.to_str().unwrap().parse().unwrap();
    let mut console = Client::builder(address, "admin", "").connect().unwrap();
    wait_for("all holes to be down", || {
        let down = console.query("SELECT COUNT(*) FROM servers WHERE state = 'down'").unwrap();
        down[0][0] == HOLES.to_string()
    });
    let before =
        (counted(&mut console, "server = 'live'"), counted(&mut console, "server <> 'live'"));
    wait_for("twenty checks of the one that lives", || {
        counted(&mut console, "server = 'live'").0 >= before.0.0 + 20
    });
    let after =
        (counted(&mut console, "server = 'live'"), counted(&mut console, "server <> 'live'"));
    // Each takes its turn, and those that hang take twenty times as long: served alike, all would be checked as often.
    let (of_live, of_each) = (after.0.0 - before.0.0, (after.1.1 - before.1.1) / u64::from(HOLES));
    assert!(
        of_live >= 4 * of_each,
        "{of_live} checks of a server that answers, {of_each} of each hole"
    );
    let frozen = live.freeze();
    wait_for("its freeze to be seen", || counted(&mut console, "server = 'live'").1 > 0);
    drop(frozen);
    assert!(!flifo.stop().1.contains("panicked"));
}
