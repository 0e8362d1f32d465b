//! One of two Flifos is killed while it hands over, or takes over, at a random moment, again and again.
//!
//! Owns the rounds and what is judged behind each. Invariants: what the killed one had given away goes on, and what it had
//! not yet taken as well; no transaction is done twice or by half; the one that is left serves new clients.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use backend::Address;
use bench::interrupt::Interrupt;
use bench::progress::Progress;
use bench::table::{Colours, Table, TableCell};
use rustix::process::{Pid, Signal, kill_process};
use testkit::client::Client;
use testkit::differ::generate::Random;
use testkit::fake_client::FakeClient;
use testkit::flifo::{Flifo, take_over_command};

use super::{Extent, Scene, lock, login, text};

/// What is waited for must come within this time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A client that runs transactions, and logs in again when it was lost.
#[derive(Default)]
struct AtWork {
    logins: AtomicU64,
    transactions: AtomicU64,
    failure: Mutex<Option<String>>,
}

/// Which of the two is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Old,
    New,
}

#[derive(Default)]
struct Counted {
    old: u32,
    new: u32,
    /// The hand-over had ended before.
    late: u32,
    /// Clients that were lost with what was killed, and that went on.
    lost: u64,
    kept: u64,
    wrong: Vec<String>,
}

pub(super) fn run(extent: &Extent, scene: &Scene, interrupt: &Interrupt) -> Result<()> {
    let at_work: Vec<_> = (0..extent.busy).map(|_| AtWork::default()).collect();
    let stop = AtomicBool::new(false);
    let mut counted = thread::scope(|scope| {
        for (at, own) in at_work.iter().enumerate() {
            let stop = &stop;
            scope.spawn(move || {
                if let Err(error) = work(scene, at, own, stop) {
                    *lock(&own.failure) = Some(format!("client {at}: {error:#}"));
                }
            });
        }
        let counted = rounds(extent, scene, &at_work, interrupt);
        stop.store(true, Relaxed);
        counted
    })?;
    counted.wrong.extend(at_work.iter().filter_map(|own| lock(&own.failure).take()));
    for (at, own) in at_work.iter().enumerate() {
        let (done, there) = (own.transactions.load(Relaxed), value(scene, at)?);
        if done != there {
            counted.wrong.push(format!("client {at} has done {done}, the server has {there}"));
        }
    }
    conclude(&counted, &at_work)
}

fn rounds(
    extent: &Extent,
    scene: &Scene,
    at_work: &[AtWork],
    interrupt: &Interrupt,
) -> Result<Counted> {
    let mut idle = (0..extent.idle)
        .map(|_| with_id(login(scene.port, "pooled")?))
        .collect::<Result<Vec<_>>>()?;
    // How long it takes when none is killed.
    let mut span = Duration::ZERO;
    for _ in 0..3 {
        let begun = Instant::now();
        let told = scene.upgrade().wait_with_output()?;
        ensure!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        span = span.max(begun.elapsed());
        wait("one Flifo", || scene.processes().len() == 1)?;
    }
    let (mut random, mut counted) = (Random::new(extent.seed), Counted::default());
    let mut progress = Progress::begin("Flifos are killed", u64::from(extent.kills));
    for _ in 0..extent.kills {
        interrupt.check()?;
        let victim = if random.once_in(2) { Victim::Old } else { Victim::New };
        let delay = span.mul_f64(random.below(1200) as f64 / 1e3);
        let told = round(scene, at_work, &mut idle, victim, delay, &mut counted)?;
        progress.step(&format!("{victim:?} after {:.1} ms: {told}", delay.as_secs_f64() * 1e3));
        if !counted.wrong.is_empty() {
            break;
        }
    }
    Ok(counted)
}

/// A client at rest, and its number.
type Idle = (FakeClient, String);

fn with_id(mut client: FakeClient) -> Result<Idle> {
    let id = text(client.query("SELECT CONNECTION_ID()"))?;
    Ok((client, id))
}

fn round(
    scene: &Scene,
    at_work: &[AtWork],
    idle: &mut [Idle],
    victim: Victim,
    delay: Duration,
    counted: &mut Counted,
) -> Result<String> {
    all_at_work(at_work)?;
    let logins =
        |at_work: &[AtWork]| -> u64 { at_work.iter().map(|own| own.logins.load(Relaxed)).sum() };
    let (logins_before, given_before) = (logins(at_work), scene.given()?);
    let log_before = scene.flifo.log().len();
    let [old] = scene.processes()[..] else { anyhow::bail!("there are several Flifos") };
    let begun = Instant::now();
    let mut upgrade = scene.upgrade();
    let mut new = None;
    wait("the Flifo that takes over", || {
        new = scene.processes().into_iter().find(|it| *it != old);
        new.is_some() || !matches!(upgrade.try_wait(), Ok(None))
    })?;
    let new = new.with_context(|| format!("no other Flifo is started: {}", scene.flifo.log()))?;
    thread::sleep(delay.saturating_sub(begun.elapsed()));
    let is_late = !scene.processes().contains(&old);
    let is_killed = match victim {
        // The only one that is left.
        Victim::New if is_late => false,
        Victim::New => kill_process(new, Signal::KILL).is_ok(),
        Victim::Old => kill_process(old, Signal::KILL).is_ok(),
    };
    let _ = upgrade.wait();
    match (is_late || !is_killed, victim) {
        (true, _) => counted.late += 1,
        (false, Victim::Old) => counted.old += 1,
        (false, Victim::New) => counted.new += 1,
    }
    wait("one Flifo that is left", || scene.processes().len() < 2)?;
    wait("new clients to be served", || scene.serves())
        .with_context(|| format!("{victim:?}: {}", &scene.flifo.log()[log_before..]))?;
    all_at_work(at_work)?;
    let lost = see_idle(scene, idle, counted)? + logins(at_work) - logins_before;
    let total = idle.len() as u64 + at_work.len() as u64;
    let kept = total.saturating_sub(lost);
    // What each says of itself.
    let least = match victim {
        Victim::New => total.saturating_sub(scene.given()?.saturating_sub(given_before)),
        Victim::Old if is_late => total,
        Victim::Old => taken(&scene.flifo.log()[log_before..]),
    };
    if kept < least {
        counted.wrong.push(format!(
            "{victim:?} was killed: {least} clients were the other one's, {kept} went on: {}",
            &scene.flifo.log()[log_before..]
        ));
    }
    counted.lost += lost;
    counted.kept += kept;
    Ok(format!("{kept} clients go on, {lost} are lost with it"))
}

/// How many clients the Flifo that took over says that it was given.
fn taken(log: &str) -> u64 {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let field = |line: &serde_json::Value, name: &str| {
        line.get(name).or_else(|| line.get("fields")?.get(name)).cloned()
    };
    let is_it = |line: &serde_json::Value| {
        field(line, "message")
            .is_some_and(|it| it == "the Flifo before has handed over what it had")
    };
    lines
        .filter(is_it)
        .filter_map(|line| field(&line, "clients")?.as_u64())
        .next_back()
        .unwrap_or_default()
}

/// Asks all clients at rest whether they live, and has others come for those that do not. How many were lost.
fn see_idle(scene: &Scene, idle: &mut [Idle], counted: &mut Counted) -> Result<u64> {
    let mut lost = BTreeSet::new();
    for (at, (client, id)) in idle.iter_mut().enumerate() {
        match text(client.query("SELECT CONNECTION_ID()")) {
            Ok(now) if now == *id => {}
            Ok(now) => counted.wrong.push(format!("client {id} gets an answer of client {now}")),
            Err(_) => {
                lost.insert(at);
            }
        }
    }
    let there = scene.clients()?;
    for (at, (_, id)) in idle.iter().enumerate() {
        if there.contains(id) == lost.contains(&at) {
            counted.wrong.push(format!("client {id} is listed, and gets no answer, or neither"));
        }
    }
    for at in &lost {
        idle[*at] = with_id(login(scene.port, "pooled")?)?;
    }
    Ok(lost.len() as u64)
}

/// Waits until each client at work has done a transaction from now on.
fn all_at_work(at_work: &[AtWork]) -> Result<()> {
    let before: Vec<_> = at_work.iter().map(|own| own.transactions.load(Relaxed)).collect();
    let goes_on = |(own, before): (&AtWork, &u64)| {
        own.transactions.load(Relaxed) > *before + 1 || lock(&own.failure).is_some()
    };
    wait("all clients to work", || at_work.iter().zip(&before).all(goes_on))
}

/// Runs transactions until it is told to stop; logs in again when its connection is lost.
fn work(scene: &Scene, at: usize, own: &AtWork, stop: &AtomicBool) -> Result<()> {
    let user = if at % 5 == 4 { "passed" } else { "pooled" };
    let mut count = 0;
    while !stop.load(Relaxed) {
        // None listens for a moment where one was killed before it had given anything away.
        let Ok(mut client) = reach(scene.port).and_then(|()| login(scene.port, user)) else {
            thread::sleep(Duration::from_millis(5));
            continue;
        };
        own.logins.fetch_add(1, Relaxed);
        let Err(Lost { may_be_committed, why }) =
            transactions(&mut client, at, own, stop, &mut count)
        else {
            return Ok(());
        };
        drop(client);
        let there = value(scene, at)?;
        let is_right = there == count || may_be_committed && there == count + 1;
        ensure!(is_right, "it has done {count}, the server has {there}: {why}");
        count = there;
        own.transactions.store(count, Relaxed);
    }
    Ok(())
}

/// A connection was lost.
struct Lost {
    may_be_committed: bool,
    why: String,
}

fn transactions(
    client: &mut FakeClient,
    at: usize,
    own: &AtWork,
    stop: &AtomicBool,
    count: &mut u64,
) -> Result<(), Lost> {
    let mut ask = |query: &str| {
        text(client.query(query)).map_err(|why| Lost {
            may_be_committed: query == "COMMIT",
            why: format!("{query}: {why:#}"),
        })
    };
    ask("USE s")?;
    if at % 5 == 1 {
        ask("CREATE TEMPORARY TABLE own (a BIGINT)")?;
    }
    while !stop.load(Relaxed) {
        ask("BEGIN")?;
        ask(&format!("UPDATE n SET v = v + 1 WHERE id = {at}"))?;
        ask("COMMIT")?;
        *count += 1;
        own.transactions.store(*count, Relaxed);
    }
    Ok(())
}

/// What the server has for a client, behind all that may still be open there.
fn value(scene: &Scene, at: usize) -> Result<u64> {
    let mut direct = login(scene.server.port(), "passed")?;
    for query in ["SET innodb_lock_wait_timeout = 60", "BEGIN"] {
        text(direct.query(query))?;
    }
    let value = text(direct.query(&format!("SELECT v FROM s.n WHERE id = {at} FOR UPDATE")))?;
    text(direct.query("COMMIT"))?;
    Ok(value.parse()?)
}

fn wait(what: &str, mut is_there: impl FnMut() -> bool) -> Result<()> {
    let begun = Instant::now();
    while !is_there() {
        ensure!(begun.elapsed() < PATIENCE, "{what}: not within {PATIENCE:?}");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

impl Scene {
    /// Another Flifo takes over.
    fn upgrade(&self) -> Child {
        let mut command = take_over_command(&self.program, &self.console);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        sys::child::spawn(command).expect("the program runs")
    }

    /// The Flifos that run.
    fn processes(&self) -> Vec<Pid> {
        let config = config_of(&self.flifo);
        let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
        let numbers =
            entries.flatten().filter_map(|it| it.file_name().to_str()?.parse::<i32>().ok());
        let is_flifo = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            words.nth(1) == Some(b"run") && words.any(|word| word == config.as_bytes())
        };
        numbers.filter(is_flifo).filter_map(Pid::from_raw).collect()
    }

    fn console(&self) -> Option<Client> {
        Client::builder(Address::Unix(self.console.clone()), "admin", "").connect().ok()
    }

    fn serves(&self) -> bool {
        let client = || reach(self.port).and_then(|()| login(self.port, "pooled"));
        let answers = || client().is_ok_and(|mut client| client.query("SELECT 1").is_ok());
        self.console().is_some() && answers()
    }

    /// How many clients the Flifo that runs has given to another one, with all before it.
    fn given(&self) -> Result<u64> {
        let rows = self.console().context("the console")?.query("SHOW STATS")?;
        let row = rows.into_iter().find(|row| row[0] == "clients_handed_over");
        row.context("a counter")?[1].parse().context("a number")
    }

    /// The numbers of its clients.
    fn clients(&self) -> Result<BTreeSet<String>> {
        let rows = self.console().context("the console")?.query("SHOW CLIENTS")?;
        Ok(rows.into_iter().map(|mut row| row.swap_remove(0)).collect())
    }
}

/// Whether the port is listened on at all.
fn reach(port: u16) -> Result<()> {
    TcpStream::connect(("127.0.0.1", port))?;
    Ok(())
}

fn config_of(flifo: &Flifo) -> String {
    let socket = flifo.socket();
    let folder: &Path = socket.parent().expect("it is in a folder");
    folder.join("flifo.toml").display().to_string()
}

fn conclude(counted: &Counted, at_work: &[AtWork]) -> Result<()> {
    let transactions: u64 = at_work.iter().map(|own| own.transactions.load(Relaxed)).sum();
    let mut table = Table::new(&["what", "measured", "bound"]);
    let mut line = |what: &str, measured: u64, bound: &str| {
        table.row([what, &measured.to_string(), bound].map(TableCell::plain).into());
    };
    line("old ones killed", u64::from(counted.old), "");
    line("new ones killed", u64::from(counted.new), "");
    line("hand-overs that had ended before", u64::from(counted.late), "");
    line("clients that went on", counted.kept, "");
    line("clients that were lost with what was killed", counted.lost, "");
    line("transactions", transactions, "");
    line(
        "clients lost that the other one had, ghosts, wrong sums",
        counted.wrong.len() as u64,
        "none",
    );
    print!("{}", table.render(Colours::Off));
    ensure!(counted.wrong.is_empty(), "{}", counted.wrong.join("; "));
    Ok(())
}
