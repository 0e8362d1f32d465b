//! What Flifo makes of a server's time, with as many processors as one likes: the server's are
//! virtual ([`testkit::virtual_server`]), its sockets are real.
//!
//! Ratios only: how much of the possible throughput is reached, and which clients get it. What a
//! statement costs on real processors is measured by `flifo bench` and `flifo lab`. Time is the
//! machine's even so: what was measured while neighbours had it is void ([`calm`]).

mod calm;
mod four;
mod shares;

use std::io::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use backend::Address;
use backend::login::Credential;
use bench::interrupt::Interrupt;
use bench::load::{self, Account, Order, TurnMoment};
use bench::results::{Pacing, Protocol};
use bench::workloads::random::Distribution;
use bench::workloads::{Shape, Workload};
use testkit::flifo::Flifo;
use testkit::scene::{PASSWORD, USER, configuration, user};
use testkit::virtual_server::VirtualServer;
use testkit::world::Server;

use crate::calm::{shown, wanted};

/// Eight processors, of which 8 ms each are a statement; more threads slow each other.
const SERVER: Server = Server { cores: 8, spread: [0.03, 0.002], crowd: 0.02, disk: 1 };
const CPU_MS: f64 = 8.0;

const READ: &str = "SELECT {1..1000000};\n";

/// A load of one script, on this port.
fn order(port: u16, clients: u32, script: &str, length: Duration) -> Order {
    sys::process::raise_open_files().expect("Linux lets us");
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(script.as_bytes()).expect("writes");
    let name = format!("script:{}", file.path().display());
    Order {
        address: Address::Tcp { host: "127.0.0.1".into(), port },
        account: Account {
            user: USER.into(),
            credential: Credential::Password(PASSWORD.into()),
            schema: String::new(),
            tls: None,
        },
        workload: Workload::parse(&name, &Shape::default()).expect("parses"),
        protocol: Protocol::Text,
        pacing: Pacing::Closed { think_ms: 0.0 },
        clients,
        idle: 0,
        threads: 1,
        tables: 1,
        rows: 1,
        distribution: Distribution::Uniform,
        seed: 1,
        ramp: Duration::ZERO,
        warm_up: Duration::from_millis(500),
        length,
    }
}

fn run(order: Order) -> load::Outcome {
    load::run(&Arc::new(order), &Interrupt::never(), |_| Ok(())).expect("a turn")
}

/// Statements a second.
fn rate(port: u16, clients: u32, script: &str) -> f64 {
    let length = Duration::from_secs(2);
    let outcome = run(order(port, clients, script, length));
    assert_eq!(outcome.unanswered, 0);
    assert!(outcome.recorder.errors().is_empty(), "{:?}", outcome.recorder.errors());
    outcome.recorder.statements as f64 / length.as_secs_f64()
}

fn flifo(server: &VirtualServer, top: &str, rest: &str) -> Flifo {
    let top = format!("{top}\nclients_max = 6000");
    Flifo::start(&configuration(server.port(), &top, &format!("{rest}\n{}", user(""))))
}

/// With 4096 clients a server does as much as at its best; asked directly, 256 make it do half.
#[test]
fn throughput_is_flat_up_to_4096_clients() {
    let _alone = alone();
    let server = VirtualServer::start(SERVER, CPU_MS);
    // On a busy machine a statement may be so late that it seems to wait for a lock.
    let bounds = "limit = 10\nconnections_max = 20\nparking = \"off\"";
    let flifo = flifo(&server, "workers = 1", bounds);
    let mut rates = [0.0; 3];
    shown(|| {
        rates = [64, 1024, 4096].map(|clients| rate(flifo.port(), clients, READ));
        assert!(server.take_crowd() <= 10, "no more than the limit at once");
        let best = rates.into_iter().fold(0.0, f64::max);
        let is_flat = rates.iter().all(|rate| *rate >= 0.95 * best);
        wanted(is_flat, || format!("with 64, 1024 and 4096 clients {rates:.0?}"))
    });
    let direct = rate(server.port(), 256, READ);
    println!("through Flifo, 64, 1024 and 4096 clients: {rates:.0?}; directly, 256: {direct:.0}");
    assert!(rates.iter().all(|rate| direct < 0.5 * rate), "{direct} of {rates:?}");
}

/// Hot rows, and more clients that want them than there are slots: a client that holds locks never
/// waits, so the line moves; and a limit that finds itself learns that statements that wait for
/// locks take slots and do nothing with them.
#[test]
fn hot_rows_do_not_stop_the_line() {
    const WRITE: &str = "BEGIN;\nSELECT {1..1000};\nUPDATE hot SET n = n + 1 WHERE id = {1..4};\n\
                         SELECT {1..1000};\nCOMMIT;\n";
    let _alone = alone();
    let server = VirtualServer::start(SERVER, 4.0);
    shown(|| {
        let direct = rate(server.port(), 64, WRITE);
        let few = flifo(&server, "workers = 1", "limit = 4\nconnections_max = 128");
        let few = rate(few.port(), 64, WRITE);
        let auto = flifo(&server, "workers = 1", "limit = \"auto\"\nconnections_max = 128");
        let course = Course::run(auto.port(), 64, WRITE, Duration::from_secs(14));
        let auto = course.rate(course.begun + BACK, course.begun + Duration::from_secs(13));
        println!("hot rows: {direct:.0} directly, {few:.0} with a limit of 4, {auto:.0} with auto");
        wanted(few >= 0.15 * direct, || format!("a limit of 4: {few:.0} of {direct:.0}"))?;
        wanted(auto >= 0.75 * direct, || format!("auto: {auto:.0} of {direct:.0}"))
    });
}

/// How long a limit may look for its place after anything has changed.
const BACK: Duration = Duration::from_secs(10);

/// What one Flifo's clients were answered, second by second.
struct Course {
    begun: Instant,
    seconds: Vec<(i32, u64)>,
}

impl Course {
    fn run(port: u16, clients: u32, script: &str, length: Duration) -> Self {
        let order = Order { warm_up: Duration::ZERO, ..order(port, clients, script, length) };
        let mut begun = Instant::now();
        let witness = |moment| {
            if moment == TurnMoment::Begin {
                begun = Instant::now();
            }
            Ok(())
        };
        let outcome = load::run(&Arc::new(order), &Interrupt::never(), witness).expect("a turn");
        let timeline = outcome.recorder.timeline();
        Self { begun, seconds: timeline.iter().map(|it| (it.at, it.statements)).collect() }
    }

    /// Statements a second of the seconds that began between two moments.
    fn rate(&self, from: Instant, to: Instant) -> f64 {
        let began = |at: i32| self.begun + Duration::from_secs(u64::try_from(at).unwrap_or(0));
        let within = self.seconds.iter().filter(|(at, _)| (from..to).contains(&began(*at)));
        let (count, sum) = within.fold((0, 0), |(count, sum), (_, it)| (count + 1, sum + it));
        sum as f64 / f64::from(count.max(1))
    }
}

/// Tests of time do not run beside each other.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
