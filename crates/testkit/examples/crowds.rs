//! Two crowds: 5 000 clients that connect within a second while others work, and 10 000 that wait while nothing moves.
//!
//! `cargo run --release -p testkit --example crowds` takes half a minute on a machine that does nothing else, with a
//! private MariaDB and a Flifo of one worker, and prints the result for both; the exit status is 1 if a promise was
//! broken. Crowds are as large as the descriptors allow.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bench::private_server::PrivateServer;
use testkit::fake_client::FakeClient;
use testkit::fake_server::FakeServer;
use testkit::flifo::Flifo;
use testkit::reply::Reply;
use testkit::scene::{PASSWORD, USER, configuration, row, user, wait_for};

const STORM: usize = 5_000;
const STANDSTILL: usize = 10_000;
/// Clients that are logged in before the storm comes.
const BUSY: usize = 32;
const THREADS: usize = 32;
/// Descriptors for all the rest.
const SPARE: usize = 500;
const SECOND: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    let most = sys::process::raise_open_files().expect("Linux lets us");
    let fits = |crowd: usize| crowd.min(most.map_or(crowd, |most| most as usize - SPARE));
    let holds = [storm(fits(STORM)), standstill(fits(STANDSTILL))];
    if holds.into_iter().all(|it| it) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Clients come within a second: all are served within ten, and clients that were logged in before go on.
fn storm(crowd: usize) -> bool {
    let server = PrivateServer::start_default().expect("a private MariaDB starts");
    let (name, password) = (PrivateServer::USER, server.password());
    let flifo = Flifo::start(&format!(
        "workers = 1\nclients_max = 20000\nbacklog = 8192\n[server]\naddress = {:?}\nlimit = 8\n\
         [[users]]\nname = {name:?}\npassword = {password:?}\n",
        server.socket().display().to_string()
    ));
    let (port, stop, done) = (flifo.port(), AtomicBool::new(false), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..BUSY {
            scope.spawn(|| {
                let mut client = FakeClient::login(port, name, password).expect("gets in");
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(client.query("SELECT 1"), row("1"));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let rate_of = |work: &mut dyn FnMut()| {
            let (begun, before) = (Instant::now(), done.load(Ordering::Relaxed));
            work();
            (done.load(Ordering::Relaxed) - before) as f64 / begun.elapsed().as_secs_f64()
        };
        thread::sleep(SECOND);
        // Before and after: a shared machine may slow down as it is worked.
        let before = rate_of(&mut || thread::sleep(2 * SECOND));
        let mut came = Came::default();
        let meanwhile = rate_of(&mut || came = come(crowd, (port, name, password)));
        let after = rate_of(&mut || thread::sleep(2 * SECOND));
        stop.store(true, Ordering::Relaxed);
        let usual = f64::midpoint(before, after);
        let Came { connected, served, refused } = came;
        let kept = meanwhile / usual;
        println!(
            "{crowd} clients connected within {connected:.2?}; all had an answer after \
             {served:.2?}, {refused} refused; {BUSY} others kept {kept:.2} of {usual:.0} \
             statements a second ({before:.0} before, {after:.0} afterwards), beside the crowd's \
             own work on the same CPUs",
        );
        refused == 0 && served < 10 * SECOND && kept >= 0.8
    })
}

#[derive(Default)]
struct Came {
    connected: Duration,
    served: Duration,
    refused: usize,
}

fn come(crowd: usize, (port, name, password): (u16, &str, &str)) -> Came {
    let begun = Instant::now();
    let part = crowd.div_ceil(THREADS);
    let mut came = Came::default();
    thread::scope(|scope| {
        let connect = || (0..part).map(|_| FakeClient::connect(port)).collect::<Vec<_>>();
        let parts: Vec<_> = (0..THREADS).map(|_| scope.spawn(connect)).collect();
        let parts: Vec<_> = parts.into_iter().map(|part| part.join().expect("connects")).collect();
        came.connected = begun.elapsed();
        let serve = |mut clients: Vec<FakeClient>| {
            let is_served = |client: &mut FakeClient| {
                client.log_in(name, password).is_ok() && client.query("SELECT 1") == row("1")
            };
            let refused = clients.iter_mut().map(is_served).filter(|is_served| !is_served).count();
            // They stay until all are in.
            (refused, clients)
        };
        let parts: Vec<_> =
            parts.into_iter().map(|clients| scope.spawn(move || serve(clients))).collect();
        let parts: Vec<_> = parts.into_iter().map(|part| part.join().expect("ends")).collect();
        came.served = begun.elapsed();
        came.refused = parts.iter().map(|(refused, _)| refused).sum();
    });
    came
}

/// Clients wait behind statements that do not end: what does Flifo use?
fn standstill(crowd: usize) -> bool {
    let server = FakeServer::start();
    let flifo = Flifo::start(&configuration(
        server.port(),
        "workers = 1\nclients_max = 20000\nbacklog = 8192",
        &format!("limit = 4\nparking = \"off\"\n[limits]\nwait = \"none\"\n{}", user("")),
    ));
    let go = Arc::new(AtomicBool::new(false));
    let moves = Arc::clone(&go);
    server.answer(move |command| match command {
        b"\x03SELECT 1" => Reply::When(Arc::clone(&moves), Box::new(Reply::Ok)),
        _ => Reply::Ok,
    });
    let login = |_| FakeClient::login(flifo.port(), USER, PASSWORD).expect("gets in");
    let mut clients: Vec<_> = (0..crowd).map(login).collect();
    for client in &mut clients {
        client.send_packet(0, b"\x03SELECT 1");
    }
    wait_for("the first ones", || server.received(b"SELECT 1") == 4);
    thread::sleep(2 * SECOND);
    let cpu = || sys::account::stat(flifo.pid()).expect("runs").cpu;
    let before = cpu();
    thread::sleep(5 * SECOND);
    let used = cpu().since(before).total().as_secs_f64() / 5.0;
    go.store(true, Ordering::Relaxed);
    let answered = clients.iter_mut().filter_map(|client| client.read_answer().ok()).count();
    println!(
        "{crowd} clients waited while nothing moved: Flifo used {:.2} % of a CPU; afterwards \
         {answered} were answered",
        used * 100.0
    );
    used < 0.01 && answered == crowd
}
