//! `cargo xtask reloads`: reloads of the configuration under load, and each option changed while Flifo runs.
//!
//! Owns the mix of changes, and the rounds with and without them. The load is a process of its own, `flifo-bench`.
//! Invariants: rounds with reloads and without take turns, of the same Flifo; what clients of the load see of reloads
//! fails the command: an error that is not the server's own (a deadlock), a connection that is lost, a p99 of
//! statements that is more than a tenth above that without.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use backend::Address;
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::process::{Said, Talker};
use bench::results::{Results, Round};
use bench::statistics::mean;
use bench::table::{Colours, Table, TableCell};
use bench::workloads::random::Random;
use testkit::client::Client;
use testkit::flifo::Flifo;
use testkit::option_changes::{OptionStand, Topology};

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Reloads under load, in all.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    count: u32,
    /// Clients that run sysbench's read/write transactions.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=4096))]
    clients: u32,
    /// Pairs of rounds, with and without reloads.
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Length of a round.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(3..=600))]
    seconds: u32,
    /// Instead of a load, changes each option of the reference, and then this many random sets of options.
    #[arg(long)]
    sets: Option<u32>,
    /// Random sets begin here.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What is promised: p99 of statements with reloads, as a multiple of that without.
const P99_MAX: f64 = 1.1;

/// After so many reloads all that is kept for the first time is kept.
const WARM: u32 = 100;

/// So much more memory Flifo may have at the end than it had then.
const GROWTH_MAX: u64 = 32 << 20;

const TABLES: [&str; 4] = ["--tables", "4", "--rows", "10000"];

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    match extent.sets {
        Some(sets) => change_options(sets, extent.seed, flifo),
        None => under_load(extent, flifo, interrupt),
    }
}

/// What is not as the reference says ends the command.
fn change_options(sets: u32, seed: u64, flifo: &Path) -> Result<()> {
    let begun = Instant::now();
    for topology in [Topology::Only, Topology::Listed] {
        let mut random = Random::new(seed);
        let mut stand = OptionStand::start(flifo, topology);
        stand.change_each(&mut random);
        stand.refuse_each();
        stand.change_sets(&mut random, sets);
        stand.end();
        println!("{topology:?}: each option, and {sets} sets: {:.0?}", begun.elapsed());
    }
    Ok(())
}

/// Flifo with what is reloaded.
struct Stand {
    flifo: Flifo,
    server: PrivateServer,
    folder: tempfile::TempDir,
    /// What the file was at first.
    base: String,
}

impl Stand {
    fn start(program: &Path, clients: u32) -> Result<Self> {
        let server = PrivateServer::builder().argument("--max-connections=2000").start()?;
        let folder = tempfile::tempdir()?;
        let file = |name: &str| folder.path().join(name);
        write_identity(folder.path(), &Identity::make()?)?;
        let (user, password) = (PrivateServer::USER, server.password());
        let rest = format!(
            "clients_max = {}\nwatch_files = \"off\"\n[console]\nlisten = [{:?}]\n[http]\nlisten = []\n\
             [tls]\ncert = {:?}\nkey = {:?}\n[server]\nlimit = 16\n[logs]\nlevel = \"info\"\n\
             [checks]\ninter = \"1s\"\n\
             [[users]]\nname = \"{user}\"\npassword = \"{password}\"\n\
             [[servers]]\nname = \"db1\"\naddress = {:?}\ngroup = \"writer\"\nweight = 100\n",
            clients + 100,
            file("console.sock"),
            file("cert.pem"),
            file("key.pem"),
            server.socket(),
        );
        let flifo = Flifo::start_program(program, &rest);
        let text = std::cell::RefCell::new(String::new());
        flifo.change_configuration(|now| {
            now.clone_into(&mut text.borrow_mut());
            now.to_owned()
        });
        Ok(Self { flifo, server, folder, base: text.into_inner() })
    }

    fn console(&self) -> Result<Client> {
        let address = Address::Unix(self.folder.path().join("console.sock"));
        Ok(Client::builder(address, "admin", "").connect()?)
    }

    /// What is in the file for the reload of this number: each differs from the one before, and none changes what a
    /// statement costs.
    fn content(&self, number: u32) -> String {
        let odd = |every: u32| (number / every) % 2 == 1;
        let mut text = self.base.clone();
        let mut replace = |old: &str, new: &str| text = text.replacen(old, new, 1);
        if odd(2) {
            replace("weight = 100", "weight = 50");
        }
        if odd(3) {
            replace("limit = 16", "limit = 17");
        }
        if odd(5) {
            replace("level = \"info\"", "level = \"warn\"");
        }
        if odd(1) {
            text.push_str("[[users]]\nname = \"more\"\npassword = \"more\"\n");
        }
        if odd(4) {
            text.push_str("[[classes]]\nname = \"few\"\nusers = [\"more\"]\nmaximum = 3\n");
        }
        if odd(7) {
            let address = format!("127.0.0.1:{}", self.server.port());
            text.push_str(&format!(
                "[[servers]]\nname = \"db2\"\naddress = \"{address}\"\ngroup = \"readers\"\n"
            ));
        }
        text
    }
}

/// A certificate and its key.
struct Identity {
    certificate: String,
    key: String,
}

impl Identity {
    fn make() -> Result<Self> {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
        Ok(Self { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() })
    }
}

fn write_identity(folder: &Path, identity: &Identity) -> Result<()> {
    for (name, pem) in [("cert.pem", &identity.certificate), ("key.pem", &identity.key)] {
        let new = folder.join("new.pem");
        std::fs::write(&new, pem)?;
        std::fs::rename(&new, folder.join(name))?;
    }
    Ok(())
}

/// What reloads have come to.
#[derive(Default)]
struct Reloads {
    done: u32,
    changes: usize,
    took: Vec<Duration>,
    /// Flifo's memory, after so many.
    memory: Vec<(u32, u64)>,
}

fn under_load(extent: &Extent, program: &Path, interrupt: &Interrupt) -> Result<()> {
    let stand = Stand::start(program, extent.clients)?;
    let bench = program.with_file_name("flifo-bench");
    ensure!(bench.exists(), "there is no {} beside flifo", bench.display());
    let prepare = ["bench", "prepare"].into_iter().chain(TABLES).map(str::to_owned);
    let socket = format!("unix:{}", stand.server.socket().display());
    let target = ["--target".to_owned(), socket];
    listen(&bench, &stand.server, prepare.chain(target), interrupt)?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    let mut reloads = Reloads::default();
    for round in 0..extent.rounds {
        let share = extent.count * (round + 1) / extent.rounds;
        let rounds: [bool; 2] = if round % 2 == 0 { [false, true] } else { [true, false] };
        for reloading in rounds {
            if reloading {
                with.push(reload_during(extent, &stand, &bench, share, &mut reloads, interrupt)?);
            } else {
                without.push(measure(extent, &stand, &bench, interrupt)?);
            }
        }
        let (Some(with), Some(without)) = (with.last(), without.last()) else { continue };
        println!(
            "round {}: p99 of statements {:.2} ms with {} reloads so far, {:.2} ms without; {:.0} and {:.0} statements/s",
            round + 1,
            with.statement_latency.p99_ms,
            reloads.done,
            without.statement_latency.p99_ms,
            with.statements_per_second,
            without.statements_per_second,
        );
    }
    let Stand { flifo, .. } = stand;
    let (status, log) = flifo.stop();
    ensure!(status.success() && !log.contains("panicked"), "Flifo did not end well:\n{log}");
    conclude(extent, &reloads, &with, &without)
}

/// A round with reloads, until there are so many of them.
fn reload_during(
    extent: &Extent,
    stand: &Stand,
    bench: &Path,
    share: u32,
    reloads: &mut Reloads,
    interrupt: &Interrupt,
) -> Result<Round> {
    let is_over = AtomicBool::new(false);
    let pause = Duration::from_secs(extent.seconds.into()) / (share - reloads.done).max(1);
    thread::scope(|scope| {
        let over = &is_over;
        let reloader = scope.spawn(move || reload(stand, (share, pause), reloads, over));
        let round = measure(extent, stand, bench, interrupt);
        is_over.store(true, Relaxed);
        let reloaded = reloader.join().map_err(|_| anyhow::anyhow!("reloading panicked"))?;
        reloaded?;
        round
    })
}

/// Reloads at even times, and what is left when the load is over at once.
fn reload(
    stand: &Stand,
    (until, pause): (u32, Duration),
    reloads: &mut Reloads,
    is_over: &AtomicBool,
) -> Result<()> {
    let mut console = stand.console()?;
    let identities = [Identity::make()?, Identity::make()?];
    let (mut next, mut is_first) = (Instant::now(), true);
    while reloads.done < until {
        let number = reloads.done + 1;
        let content = stand.content(number);
        stand.flifo.change_configuration(|_| content.clone());
        if number.is_multiple_of(6) {
            let identity = &identities[(number / 6 % 2) as usize];
            write_identity(stand.folder.path(), identity)?;
        }
        let begun = Instant::now();
        let rows = console.query("RELOAD").with_context(|| content)?;
        reloads.took.push(begun.elapsed());
        // The first one of a round may be of the file that the round before has left.
        ensure!(!rows.is_empty() || is_first, "reload {number} has changed nothing");
        is_first = false;
        reloads.changes += rows.len();
        reloads.done = number;
        if number == WARM || number.is_multiple_of(1000) {
            reloads.memory.push((number, stand.flifo.memory()));
        }
        next += pause;
        let wait = next.saturating_duration_since(Instant::now());
        if !is_over.load(Relaxed) {
            thread::sleep(wait);
        }
    }
    // Rounds without reloads are by the same file.
    stand.flifo.change_configuration(|_| stand.base.clone());
    console.query("RELOAD")?;
    reloads.memory.push((reloads.done, stand.flifo.memory()));
    Ok(())
}

/// A round of the load.
fn measure(extent: &Extent, stand: &Stand, bench: &Path, interrupt: &Interrupt) -> Result<Round> {
    let file: PathBuf = stand.folder.path().join("round.json");
    let arguments = [
        "bench".to_owned(),
        "run".to_owned(),
        "--target".to_owned(),
        format!("flifo=127.0.0.1:{}", stand.flifo.port()),
        "--workloads".to_owned(),
        "oltp_read_write".to_owned(),
        "--clients".to_owned(),
        extent.clients.to_string(),
        "--seconds".to_owned(),
        extent.seconds.to_string(),
        "--warm-up".to_owned(),
        "2".to_owned(),
        "--rounds".to_owned(),
        "1".to_owned(),
        "--repeats".to_owned(),
        "0".to_owned(),
        "--json".to_owned(),
        file.display().to_string(),
    ];
    listen(bench, &stand.server, arguments, interrupt)?;
    let text = std::fs::read_to_string(&file)?;
    std::fs::remove_file(&file)?;
    let results: Results = serde_json::from_str(&text)?;
    let cell = results.cells.into_iter().next().context("there are no results")?;
    if let Some(failure) = cell.failures.first() {
        bail!("the load failed: {}", failure.why);
    }
    cell.rounds.into_iter().next().context("there is no round")
}

/// Runs the load generator to its end, which must be a good one.
fn listen(
    bench: &Path,
    server: &PrivateServer,
    arguments: impl IntoIterator<Item = String>,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut command = Command::new(bench);
    command.args(arguments).env("MYSQL_PWD", server.password());
    let mut talker = Talker::start("flifo-bench", command, Duration::from_secs(1800))?;
    let mut last = Vec::new();
    loop {
        match talker.listen(interrupt)? {
            Said::Line(line) => {
                last.push(line);
                let old = last.len().saturating_sub(20);
                last.drain(..old);
            }
            Said::Nothing => {}
            Said::End => break,
        }
    }
    let status = talker.wait(interrupt)?;
    ensure!(status.success(), "flifo-bench failed ({status}): {}", last.join("\n"));
    Ok(())
}

fn conclude(extent: &Extent, reloads: &Reloads, with: &[Round], without: &[Round]) -> Result<()> {
    let p99 = |round: &Round| round.statement_latency.p99_ms;
    let ratios = |of: fn(&Round) -> f64| -> Vec<f64> {
        with.iter().zip(without).map(|(with, without)| of(with) / of(without)).collect()
    };
    let told = |of: fn(&Round) -> f64| match (mean(&ratios(of), 0.95), &ratios(of)[..]) {
        (Some(it), _) => (it.ratio, format!("{:.2} ({:.2} to {:.2})", it.ratio, it.low, it.high)),
        (None, ratios) => {
            let one = ratios.first().copied().unwrap_or_default();
            (one, format!("{one:.2}"))
        }
    };
    let (worse, p99_told) = told(|round| round.statement_latency.p99_ms);
    let (_, rate_told) = told(|round| round.statements_per_second);
    // The server's answer to what clients do to one another.
    let is_own = |code: u16| code != 1213;
    let errors: Vec<_> = with
        .iter()
        .flat_map(|round| &round.errors)
        .filter(|error| is_own(error.code))
        .map(|error| format!("{} {} ({} times)", error.code, error.message, error.count))
        .collect();
    let lost: u64 = with.iter().map(|round| round.reconnects).sum();
    let statements: u64 = with.iter().map(|round| round.statements).sum();
    let mut took = reloads.took.clone();
    took.sort_unstable();
    let at = |share: f64| took.get(((took.len().max(1) - 1) as f64 * share) as usize).copied();
    let millis =
        |time: Option<Duration>| format!("{:.1} ms", time.unwrap_or_default().as_secs_f64() * 1e3);
    let mib = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
    let warm = reloads.memory.first().copied().unwrap_or_default();
    let last = reloads.memory.last().copied().unwrap_or_default();
    let mut table = Table::new(&["what", "measured", "bound"]);
    let mut line = |what: &str, measured: String, bound: &str| {
        table.row([what, &measured, bound].map(TableCell::plain).into());
    };
    line("reloads", format!("{} with {} changes", reloads.done, reloads.changes), "");
    line("a reload: median", millis(at(0.5)), "");
    line("a reload: p99", millis(at(0.99)), "");
    line("a reload: longest", millis(at(1.0)), "");
    line("clients", extent.clients.to_string(), "");
    line("statements meanwhile", statements.to_string(), "");
    line("errors of clients", errors.len().to_string(), "none");
    line("connections lost", lost.to_string(), "none");
    line("p99 of statements with reloads", all(with, p99), "");
    line("p99 of statements without", all(without, p99), "");
    line("p99 with reloads, as a multiple", p99_told, &format!("at most {P99_MAX}"));
    line("throughput with reloads, as a multiple", rate_told, "");
    line(&format!("memory after {} reloads", warm.0), mib(warm.1), "");
    line(&format!("memory after {} reloads", last.0), mib(last.1), "32 MiB more at most");
    print!("{}", table.render(Colours::Off));
    let all: Vec<_> =
        reloads.memory.iter().map(|(at, bytes)| format!("{at}: {}", mib(*bytes))).collect();
    println!("memory: {}", all.join(", "));
    ensure!(errors.is_empty() && lost == 0, "clients saw reloads: {}", errors.join("; "));
    ensure!(last.1 <= warm.1 + GROWTH_MAX, "memory grows with reloads");
    ensure!(worse <= P99_MAX, "statements take longer while Flifo reloads");
    Ok(())
}

fn all(rounds: &[Round], of: impl Fn(&Round) -> f64) -> String {
    let each: Vec<_> = rounds.iter().map(|round| format!("{:.1}", of(round))).collect();
    format!("{} ms", each.join(", "))
}
