//! Connections of one statement each: 64 clients at once, directly, through Flifo, and to a thread that only answers.
//!
//! `cargo run --release -p testkit --example connects` takes a minute on a machine that does nothing else, with a
//! private MariaDB and a Flifo of one worker. The three take turns. The last one is a single thread that knows no users
//! and checks nothing: it sends the server's greeting, an OK and the server's own answer to that statement. No proxy of
//! one thread can do less for a connection, so the gain of this thread over the server is the largest that is possible
//! here. The rest is the work of the kernel, for connections, and of the clients, which run on two threads, or on as
//! many as the argument says. The exit status is 1 if Flifo breaks one of its promises about the server.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use backend::Address;
use backend::login::Credential;
use bench::interrupt::Interrupt;
use bench::load::{self, Account, Order, TurnMoment};
use bench::private_server::PrivateServer;
use bench::results::{Pacing, Protocol, Spread};
use bench::workloads::Workload;
use bench::workloads::random::Distribution;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use sys::machine::CpuTimes;
use testkit::flifo::Flifo;

const CLIENTS: u32 = 64;
const BACKENDS: u32 = 8;
const ROUNDS: u64 = 7;
const TURN: Duration = Duration::from_secs(2);
const WARM_UP: Duration = Duration::from_millis(500);
/// Of the server's CPU for a connection, with Flifo and without.
const CPU_MAX: f64 = 0.3;
const STATEMENT: &str = "SELECT 1";
const NAMES: [&str; 3] = ["directly", "through Flifo", "only answered"];

fn main() -> ExitCode {
    let server = PrivateServer::start_default().expect("a private MariaDB starts");
    let (name, password) = (PrivateServer::USER, server.password());
    let flifo = Flifo::start(&format!(
        "workers = 1\n[server]\naddress = {:?}\nconnections_max = {BACKENDS}\n\
         [[users]]\nname = {name:?}\npassword = {password:?}\n",
        server.socket().display().to_string()
    ));
    let threads = std::env::args().nth(1).map_or(2, |it| it.parse().expect("a number of threads"));
    let ports = [server.port(), flifo.port(), answer(&server)];
    let mut turns: [Vec<Turn>; 3] = Default::default();
    for round in 0..ROUNDS {
        // Each round begins with another one.
        for at in 0..ports.len() {
            let way = (at + round as usize) % ports.len();
            turns[way].push(turn(&server, flifo.pid(), ports[way], (threads, round)));
        }
    }
    let direct = &turns[0];
    for (name, turns) in NAMES.iter().zip(&turns) {
        let own = |figure: fn(&Turn) -> f64| Spread::of(turns.iter().map(figure)).expect("rounds");
        let (rate, cpu) = (own(|it| it.rate), own(|it| it.server_us));
        let pairs = turns.iter().zip(direct).map(|(it, direct)| it.rate / direct.rate);
        let ratio = Spread::of(pairs).expect("rounds");
        println!(
            "{name:<13} {:6.0} connections a second, {:.2} times directly ({:.2} to {:.2}); CPU a \
             connection: server {:5.1} us, proxy {:5.1} us; idle {:2.0} %",
            rate.median,
            ratio.median,
            ratio.low,
            ratio.high,
            cpu.median,
            own(|it| it.proxy_us).median,
            own(|it| it.idle).median * 100.0,
        );
    }
    let opened: u64 = turns[1].iter().map(|it| it.opened).sum();
    let middle =
        |turns: &[Turn]| Spread::of(turns.iter().map(|it| it.server_us)).expect("rounds").median;
    let part = middle(&turns[1]) / middle(direct);
    println!(
        "the server's CPU for a connection through Flifo is {part:.2} of that directly (at most \
         {CPU_MAX}); it counted {opened} connections meanwhile (at most {BACKENDS})"
    );
    let holds = part <= CPU_MAX && opened <= u64::from(BACKENDS);
    if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What came of one turn.
struct Turn {
    /// Connections a second, each with its statement.
    rate: f64,
    /// Of the server and of Flifo, for each of them.
    server_us: f64,
    proxy_us: f64,
    /// Part of all CPUs' time.
    idle: f64,
    /// What the server counted.
    opened: u64,
}

fn turn(server: &PrivateServer, flifo: u32, port: u16, (threads, round): (u32, u64)) -> Turn {
    let workload = Workload::of_statements("connects", &[STATEMENT], Some(1));
    let order = Arc::new(Order {
        address: Address::Tcp { host: "127.0.0.1".into(), port },
        account: Account {
            user: PrivateServer::USER.into(),
            credential: Credential::Password(server.password().into()),
            schema: String::new(),
            tls: None,
        },
        workload: workload.expect("it has no placeholders"),
        protocol: Protocol::Text,
        pacing: Pacing::Closed { think_ms: 0.0 },
        clients: CLIENTS,
        idle: 0,
        threads,
        tables: 1,
        rows: 1,
        distribution: Distribution::Uniform,
        seed: round + 1,
        ramp: Duration::ZERO,
        warm_up: WARM_UP,
        length: TURN,
    });
    let cpu = |pid: Option<u32>| sys::account::stat(pid.expect("runs")).expect("runs").cpu;
    let mut seen = Vec::new();
    let before = connections(server);
    let outcome = load::run(&order, &Interrupt::never(), |moment| {
        if matches!(moment, TurnMoment::Begin | TurnMoment::End) {
            seen.push((cpu(server.pid()), cpu(Some(flifo)), sys::machine::cpu_times()?));
        }
        Ok(())
    });
    let recorder = outcome.expect("a turn of load").recorder;
    assert!(recorder.errors().is_empty(), "{:?}", recorder.errors());
    let [begin, end] = seen.try_into().expect("a beginning and an end");
    let count = recorder.statements as f64;
    let each = |used: Duration| used.as_secs_f64() * 1e6 / count;
    let CpuTimes { busy, idle, steal } = end.2.since(begin.2);
    Turn {
        rate: count / TURN.as_secs_f64(),
        server_us: each(end.0.since(begin.0).total()),
        proxy_us: each(end.1.since(begin.1).total()),
        idle: idle.div_duration_f64(busy + idle + steal),
        // To look is a connection, too.
        opened: connections(server) - before - 1,
    }
}

/// How many the server has seen since it began.
fn connections(server: &PrivateServer) -> u64 {
    let line = server.sql("SHOW GLOBAL STATUS LIKE 'Connections'").expect("the server answers");
    line.split_whitespace().last().and_then(|count| count.parse().ok()).expect("a number")
}

/// Starts the thread that answers all clients, and returns its port.
fn answer(server: &PrivateServer) -> u16 {
    let words = overhear(server);
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let port = listener.local_addr().expect("it has one").port();
    thread::spawn(move || Answerer::new(listener).run(&words).expect("epoll goes on"));
    port
}

/// What the server says to a client: its greeting, that it is let in, and what it answers to the statement.
fn overhear(server: &PrivateServer) -> [Vec<u8>; 3] {
    let mut client = TcpStream::connect(("127.0.0.1", server.port())).expect("the server listens");
    let mut greeting = vec![0; 1 << 10];
    let length = client.read(&mut greeting).expect("it greets");
    greeting.truncate(length);
    let let_in = vec![7, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0];
    // One column named 1, one row, and the end, for clients that do without the columns' own end.
    let rows =
        b"\x01\0\0\x01\x01\x17\0\0\x02\x03def\0\0\0\x011\0\x0c\x3f\0\x01\0\0\0\x03\x81\0\0\0\0\
                 \x02\0\0\x03\x011\x07\0\0\x04\xfe\0\0\x02\0\0\0";
    [greeting, let_in, rows.to_vec()]
}

/// One thread with one epoll.
struct Answerer {
    epoll: OwnedFd,
    listener: TcpListener,
    clients: Vec<Option<(TcpStream, usize)>>,
    free: Vec<usize>,
}

impl Answerer {
    fn new(listener: TcpListener) -> Self {
        listener.set_nonblocking(true).expect("sets");
        let epoll = epoll::create(CreateFlags::CLOEXEC).expect("makes");
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN).expect("adds");
        Self { epoll, listener, clients: Vec::new(), free: Vec::new() }
    }

    fn run(&mut self, words: &[Vec<u8>; 3]) -> std::io::Result<()> {
        let mut events = Vec::with_capacity(256);
        loop {
            events.clear();
            match epoll::wait(&self.epoll, spare_capacity(&mut events), None) {
                Err(rustix::io::Errno::INTR) => continue,
                done => done?,
            };
            for event in &events {
                match event.data.u64() {
                    LISTENER => self.accept(&words[0])?,
                    client => self.serve(client as usize, words),
                }
            }
        }
    }

    fn accept(&mut self, greeting: &[u8]) -> std::io::Result<()> {
        while let Ok((mut client, _)) = self.listener.accept() {
            client.set_nonblocking(true)?;
            client.set_nodelay(true)?;
            let at = self.free.pop().unwrap_or(self.clients.len());
            self.clients.resize_with(self.clients.len().max(at + 1), || None);
            epoll::add(&self.epoll, &client, EventData::new_u64(at as u64), EventFlags::IN)?;
            let _ = client.write_all(greeting);
            self.clients[at] = Some((client, 0));
        }
        Ok(())
    }

    /// Sends a client the next reply, whatever the client sent. A client that has got all replies gets no more.
    fn serve(&mut self, at: usize, words: &[Vec<u8>; 3]) {
        let Some((client, said)) = &mut self.clients[at] else { return };
        let mut buffer = [0; 4 << 10];
        let goes_on = match client.read(&mut buffer) {
            Ok(0) => false,
            Ok(_) => {
                *said += 1;
                words.get(*said).is_some_and(|word| client.write_all(word).is_ok())
            }
            Err(error) => error.kind() == ErrorKind::WouldBlock,
        };
        if !goes_on {
            self.clients[at] = None;
            self.free.push(at);
        }
    }
}

/// The event of a client that comes.
const LISTENER: u64 = u64::MAX;
