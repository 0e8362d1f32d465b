//! `cargo xtask upgrades`: Flifos that take over from each other, one after the other, with many clients at rest and some
//! in transactions; of one build, or of two that take turns; or one of the two is killed meanwhile.
//!
//! Owns what the clients do and what is counted. Invariants: each client at work knows what it has done, and compares
//! that with what the server has at the end; a client that is ended, or gets an error or another one's answer, fails the
//! command.

mod build;
mod kills;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use backend::Address;
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::table::{Colours, Table, TableCell};
use rustix::process::{Pid, Signal, kill_process};
use testkit::client::Client;
use testkit::fake_client::{Answer, FakeClient, Refusal};
use testkit::flifo::{Flifo, take_over};

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// How often another Flifo takes over.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    count: u32,
    /// Clients at rest.
    #[arg(long, default_value_t = 9900, value_parser = clap::value_parser!(u32).range(1..=9900))]
    idle: u32,
    /// Clients that run transactions all the time: pooled ones, with temporary tables, with user variables, with prepared
    /// statements, and such that are passed through.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=90))]
    busy: u32,
    /// Instead: one of the two Flifos is killed at a random moment, so often. Few clients at rest are enough.
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    kills: u32,
    /// The moments of `--kills`.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// A commit, such as HEAD^: it is built, and Flifos of both builds take over from each other in turn.
    #[arg(long, conflicts_with = "kills")]
    from: Option<String>,
}

/// A server, and Flifos in front of it.
struct Scene {
    server: PrivateServer,
    /// The first Flifo; all of them write into its log.
    flifo: Flifo,
    /// What is installed: the next one runs this.
    program: PathBuf,
    console: PathBuf,
    port: u16,
    _folder: tempfile::TempDir,
}

/// What one client at work has done.
#[derive(Default)]
struct Done {
    transactions: u64,
    statements: u64,
    longest: Duration,
    failure: Option<String>,
}

/// How long the clients work before the first Flifo takes over, for comparison.
const BEFORE: Duration = Duration::from_secs(10);

pub(crate) fn run(extent: &Extent, program: &Path, interrupt: &Interrupt) -> Result<()> {
    sys::process::raise_open_files().context("open files")?;
    // The older one begins.
    let mut builds = vec![program.to_owned()];
    if let Some(commit) = &extent.from {
        builds.insert(0, build::of(commit)?);
    }
    let scene = Scene::start(extent, &builds[0])?;
    if extent.kills > 0 {
        return kills::run(extent, &scene, interrupt);
    }
    let mut idle = Vec::new();
    for _ in 0..extent.idle {
        idle.push(login(scene.port, "pooled")?);
    }
    let own = |client: &mut FakeClient| text(client.query("SELECT CONNECTION_ID()"));
    let ids = idle.iter_mut().map(own).collect::<Result<Vec<_>>>()?;
    let done: Vec<_> = (0..extent.busy).map(|_| Mutex::new(Done::default())).collect();
    let stop = AtomicBool::new(false);
    let (mut took, mut left, mut before) = (Vec::new(), 0, Duration::ZERO);
    let last = thread::scope(|scope| {
        for (at, done) in done.iter().enumerate() {
            let (stop, port) = (&stop, scene.port);
            scope.spawn(move || {
                if let Err(error) = work(port, at, done, stop) {
                    lock(done).failure = Some(format!("{error:#}"));
                }
            });
        }
        thread::sleep(BEFORE);
        for done in &done {
            before = before.max(std::mem::take(&mut lock(done).longest));
        }
        let taken = follow(extent, &scene, &builds, interrupt, (&mut took, &mut left));
        stop.store(true, Relaxed);
        taken
    })?;
    let done: Vec<_> = done.into_iter().map(|it| it.into_inner().unwrap_or_default()).collect();
    let mut lost = 0;
    for (client, id) in idle.iter_mut().zip(&ids) {
        lost += u32::from(own(client).ok().as_ref() != Some(id));
    }
    conclude(extent, &scene.server, &done, (took, left, lost), before)?;
    kill_process(last, Signal::TERM)?;
    Ok(())
}

impl Scene {
    fn start(extent: &Extent, program: &Path) -> Result<Self> {
        let server = PrivateServer::builder().argument("--max-connections=2000").start()?;
        for user in ["pooled", "passed"] {
            server.sql(&format!(
                "CREATE USER {user}@'%' IDENTIFIED BY 'p'; GRANT ALL ON *.* TO {user}@'%'"
            ))?;
        }
        server.sql("CREATE DATABASE s; CREATE TABLE s.n (id INT PRIMARY KEY, v BIGINT)")?;
        for at in 0..extent.busy {
            server.sql(&format!("INSERT INTO s.n VALUES ({at}, 0)"))?;
        }
        let folder = tempfile::tempdir()?;
        let console = folder.path().join("console.sock");
        let installed = folder.path().join("flifo");
        install(program, &installed)?;
        let flifo = Flifo::start_program(
            &installed,
            &format!(
                "[server]\naddress = {:?}\nlearn_passwords = \"off\"\n[console]\nlisten = [{console:?}]\n[http]\nlisten = []\n\
                 [[users]]\nname = \"pooled\"\npassword = \"p\"\n",
                server.socket()
            ),
        );
        let port = flifo.port();
        Ok(Self { server, flifo, program: installed, console, port, _folder: folder })
    }
}

/// Puts a program where the next Flifo is started from, as a package does: the file is another one.
fn install(program: &Path, at: &Path) -> Result<()> {
    let beside = at.with_extension("new");
    fs::copy(program, &beside).with_context(|| program.display().to_string())?;
    Ok(fs::rename(&beside, at)?)
}

/// Has Flifos take over from each other. The last one.
fn follow(
    extent: &Extent,
    scene: &Scene,
    builds: &[PathBuf],
    interrupt: &Interrupt,
    (took, left): (&mut Vec<Duration>, &mut u64),
) -> Result<Pid> {
    let mut last = None;
    for (number, build) in (1..=extent.count).zip(builds.iter().cycle().skip(1)) {
        interrupt.check()?;
        if builds.len() > 1 {
            install(build, &scene.program)?;
        }
        let begun = Instant::now();
        let done = take_over(&scene.program, &scene.console);
        let done = done.map_err(|why| anyhow!("number {number} does not take over: {why}"))?;
        took.push(begun.elapsed());
        *left += done.left;
        last = Some(done.pid);
        let runs = fs::metadata(format!("/proc/{}/exe", done.pid))?.ino();
        ensure!(
            runs == fs::metadata(&scene.program)?.ino(),
            "number {number} runs another program"
        );
        if number % 10 == 0 {
            println!("{number} of {}", extent.count);
        }
        // The console of the next one is open as soon as that serves.
        let address = Address::Unix(scene.console.clone());
        Client::builder(address, "admin", "").connect().context("the console")?;
    }
    last.context("no Flifo has said its number")
}

fn login(port: u16, user: &str) -> Result<FakeClient> {
    FakeClient::login(port, user, "p").map_err(|refusal| anyhow::anyhow!("a login: {refusal:?}"))
}

fn text(answer: Answer) -> Result<String> {
    let rows = answer.map_err(|refusal: Refusal| anyhow::anyhow!("{refusal:?}"))?;
    Ok(rows.first().map(|row| String::from_utf8_lossy(row).into_owned()).unwrap_or_default())
}

fn lock<T>(it: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    it.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Runs transactions until it is told to stop.
fn work(port: u16, at: usize, done: &Mutex<Done>, stop: &AtomicBool) -> Result<()> {
    let kind = at % 5;
    let mut client = login(port, if kind == 4 { "passed" } else { "pooled" })?;
    let mut ask = |query: &str| {
        let begun = Instant::now();
        let answer = text(client.query(query)).with_context(|| query.to_owned())?;
        let mut done = lock(done);
        done.longest = done.longest.max(begun.elapsed());
        done.statements += 1;
        Ok::<_, anyhow::Error>(answer)
    };
    ask("USE s")?;
    match kind {
        1 => ask("CREATE TEMPORARY TABLE own (a BIGINT)")?,
        3 => ask("PREPARE p FROM 'SELECT ? + 1'")?,
        _ => String::new(),
    };
    let mut count = 0_u64;
    while !stop.load(Relaxed) {
        ask("BEGIN")?;
        ask(&format!("UPDATE n SET v = v + 1 WHERE id = {at}"))?;
        let seen = ask(&format!("SELECT v FROM n WHERE id = {at}"))?;
        ask("COMMIT")?;
        count += 1;
        ensure!(seen == count.to_string(), "transaction {count} sees {seen}");
        lock(done).transactions = count;
        let (set, get) = match kind {
            1 => (format!("INSERT INTO own VALUES ({count})"), "SELECT MAX(a) FROM own".to_owned()),
            2 | 4 => (format!("SET @v = {count}"), "SELECT @v".to_owned()),
            3 => (format!("SET @p = {count} - 1"), "EXECUTE p USING @p".to_owned()),
            _ => continue,
        };
        ask(&set)?;
        let got = ask(&get)?;
        ensure!(got.parse() == Ok(count), "{get} says {got}, not {count}");
    }
    Ok(())
}

fn conclude(
    extent: &Extent,
    server: &PrivateServer,
    done: &[Done],
    (mut took, left, lost): (Vec<Duration>, u64, u32),
    before: Duration,
) -> Result<()> {
    let mut wrong = Vec::new();
    for (at, done) in done.iter().enumerate() {
        let there = server.sql(&format!("SELECT v FROM s.n WHERE id = {at}"))?;
        if there.trim() != done.transactions.to_string() {
            wrong.push(format!(
                "client {at} has done {}, the server has {there}",
                done.transactions
            ));
        }
        wrong.extend(done.failure.clone());
    }
    took.sort_unstable();
    let millis = |time: Duration| format!("{:.0} ms", time.as_secs_f64() * 1e3);
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    let longest = done.iter().map(|it| it.longest).max().unwrap_or_default();
    let statements: u64 = done.iter().map(|it| it.statements).sum();
    let mut table = Table::new(&["what", "measured", "bound"]);
    let mut line = |what: &str, measured: String, bound: &str| {
        table.row([what, &measured, bound].map(TableCell::plain).into());
    };
    line("Flifos that took over", took.len().to_string(), "");
    line("clients at rest, at work", format!("{}, {}", extent.idle, extent.busy), "");
    line("until all clients had gone: median", millis(at(0.5)), "");
    line("until all clients had gone: longest", millis(at(1.0)), "");
    line("clients that stayed longer than 5 s", left.to_string(), "none");
    line("statements meanwhile", statements.to_string(), "");
    line("errors, wrong answers, wrong sums", wrong.len().to_string(), "none");
    line("clients at rest that were lost, or others", lost.to_string(), "none");
    line("longest statement before", millis(before), "");
    line("longest statement meanwhile", millis(longest), "");
    print!("{}", table.render(Colours::Off));
    ensure!(wrong.is_empty(), "clients saw it: {}", wrong.join("; "));
    ensure!(lost == 0 && left == 0, "clients were lost, or stayed");
    Ok(())
}
