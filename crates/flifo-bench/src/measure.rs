//! `flifo bench`: its arguments, and where its results go.
//!
//! Measures nothing. Invariant: standard output gets the table, or what was asked to go there, and
//! nothing else.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use bench::figures::terminal;
use bench::interrupt::{Interrupt, Interrupted};
use bench::programs;
use bench::results::{Arrivals, Ending, FORMAT, Pacing, Protocol, Results, Role};
use bench::run::{RunOptions, Wrong};
use bench::table::Colours;
use bench::targets::TargetKind;
use bench::topology::TopologyKind;
use bench::workloads::Shape;
use clap::{Args, Subcommand, ValueEnum};
use shell::{INTERRUPTED, OK, UNAVAILABLE, USAGE, complain, print};

#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum Bench {
    /// Make sysbench's tables.
    Prepare(Prepare),
    /// Measure targets under load, taking turns.
    Run(Box<BenchRun>),
    /// Drop sysbench's tables.
    Cleanup(Prepare),
    /// Say what changed between two runs beyond noise; exit status 1 if something is worse.
    Compare {
        /// The JSON file of the earlier run.
        old: PathBuf,
        /// The JSON file of the later run.
        new: PathBuf,
    },
    /// Say whether two runs of the same comparison agree within their intervals; exit status 1 if
    /// they do not.
    Agree {
        /// The JSON file of one run.
        first: PathBuf,
        /// The JSON file of the other run.
        second: PathBuf,
    },
    /// Give found processes their CPUs back when the run that bound them has ended.
    #[command(hide = true)]
    WatchBindings,
    /// Pass bytes between a port and a server's socket: what `--start relay` measures.
    #[command(hide = true)]
    Relay { port: u16, socket: PathBuf },
    /// Print the page of a run.
    Page {
        /// The JSON file of the run.
        file: PathBuf,
    },
}

/// Where and as whom.
#[derive(Clone, Debug, Args)]
pub(crate) struct Access {
    /// A target: "unix:/path/of.sock" or "host:port". May be repeated.
    #[arg(long, value_name = "[NAME=]ADDRESS")]
    target: Vec<String>,
    /// The user that clients log in as. The password is read from the variable MYSQL_PWD.
    #[arg(long, default_value = "sbtest")]
    user: String,
    /// The schema that holds the tables.
    #[arg(long, default_value = "sbtest")]
    schema: String,
    /// TLS towards the targets: off, preferred, required, verify-ca or verify-full.
    #[arg(long, value_name = "MODE", default_value = "off")]
    tls: String,
    /// Tables; in a run by default those that are there.
    #[arg(long)]
    tables: Option<u32>,
    /// Rows of each table; in a run by default up to the highest id of the first one.
    #[arg(long)]
    rows: Option<u32>,
    /// Random numbers begin here.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct Prepare {
    #[command(flatten)]
    access: Access,
}

#[derive(Debug, Args)]
pub(crate) struct BenchRun {
    #[command(flatten)]
    access: Access,
    /// Targets to be started for the run with a private MariaDB: direct, socket, flifo, haproxy,
    /// relay.
    #[arg(long, value_delimiter = ',', value_name = "TARGET,…")]
    start: Vec<String>,
    /// Workers of Flifo and threads of HAProxy, where --start starts them.
    #[arg(long, value_name = "N")]
    workers: Option<u32>,
    /// Bind server, proxies and clients to CPUs: together (all on all CPUs), beside-server (server
    /// and proxy on one CPU, clients on the others), beside-clients (the server alone on one CPU,
    /// proxy and clients on the others), apart (each on CPUs of its own), or lists of CPUs such as
    /// server=1,proxy=0,clients=0. May be repeated: the topologies then take turns. What ran before
    /// has its CPUs back when the run ends, however it ends.
    #[arg(long, value_name = "TOPOLOGY")]
    place: Vec<String>,
    /// Workloads: sysbench's names, connect[:NAME[*COUNT]], hot-row[:ROWSxWAITERS],
    /// mixed:NAME=WEIGHT+NAME=WEIGHT…, script:FILE.
    #[arg(
        long,
        alias = "workload",
        value_delimiter = ',',
        value_name = "NAME,…",
        default_value = "oltp_point_select"
    )]
    workloads: Vec<String>,
    /// Numbers of clients; "1..64" is 1, 2, 4 and so on up to 64.
    #[arg(long, value_delimiter = ',', value_name = "N,…", default_value = "8")]
    clients: Vec<String>,
    /// Clients that are logged in beside and ask nothing.
    #[arg(long, value_name = "N", default_value_t = 0)]
    idle: u32,
    /// Length of a round in seconds.
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Seconds of work before each round that do not count.
    #[arg(long, default_value_t = 1.0)]
    warm_up: f64,
    /// Seconds until all clients have begun, before the warm-up.
    #[arg(long, default_value_t = 0.0)]
    ramp: f64,
    /// How often each target has its turn under each load, in each start.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// How often what --start names is started, with new servers and tables, each time for all
    /// rounds. Intervals then hold for other starts too; 5 are few, 10 are good.
    #[arg(long, value_name = "N", default_value_t = 1)]
    restarts: u32,
    /// Go on with the run that left this file: only what it lacks is measured. All else must be
    /// asked as it was then; --restarts may be more. Results go there again, unless --json says
    /// otherwise.
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// How often a round that others disturbed is run again.
    #[arg(long, value_name = "N", default_value_t = 2)]
    repeats: u32,
    /// Closed loop: milliseconds for which a client thinks between two transactions.
    #[arg(long, value_name = "MS", default_value_t = 0.0, conflicts_with = "rate")]
    think: f64,
    /// Open loop: transactions a second of all clients, whether or not the target keeps up.
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Open loop: distances between transactions.
    #[arg(long, value_enum, default_value_t = Distances::Poisson)]
    arrivals: Distances,
    /// How statements are sent.
    #[arg(long, value_enum, default_value_t = How::Prepared)]
    protocol: How,
    /// Threads of the generator.
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: u32,
    /// How ids are drawn, as sysbench draws them: special, uniform, gaussian, pareto, zipfian.
    #[arg(
        long = "rand-type",
        alias = "distribution",
        value_name = "NAME",
        default_value = "special"
    )]
    distribution: String,
    /// Rows of a range in the oltp workloads.
    #[arg(long, value_name = "ROWS", default_value_t = 100)]
    range_size: u32,
    /// Leave BEGIN and COMMIT out of the oltp workloads.
    #[arg(long)]
    skip_trx: bool,
    /// Another process to be watched: server=PID, proxy=PID, other=PID. May be repeated.
    #[arg(long, value_name = "ROLE=PID")]
    process: Vec<String>,
    /// Write the results as JSON; to standard output if no file is named.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write a line for each round as CSV; to standard output if no file is named.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    csv: Option<PathBuf>,
    /// Write a page with charts.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Distances {
    /// All the same.
    Even,
    /// At random, as of clients that are independent of each other.
    Poisson,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum How {
    /// As text, with values in it.
    Text,
    /// Prepared once, executed with parameters.
    Prepared,
}

/// Carries a command out. Returns the exit status.
pub(crate) fn bench(command: Bench) -> u8 {
    let done = match command {
        Bench::Prepare(arguments) => prepare(&arguments),
        Bench::Run(arguments) => run(&arguments),
        Bench::Cleanup(arguments) => cleanup(&arguments),
        Bench::Compare { old, new } => compare(&old, &new),
        Bench::Agree { first, second } => agree(&first, &second),
        Bench::WatchBindings => bench::topology::watcher::run().map(|()| OK),
        Bench::Relay { port, socket } => bench::relay::run(port, &socket).map(|()| OK),
        Bench::Page { file } => read(&file).map(|results| {
            print(&bench::page::of_bench(&results));
            OK
        }),
    };
    status(done)
}

/// The exit status of what was done, or could not be, which is told.
pub(crate) fn status(done: Result<u8>) -> u8 {
    match done {
        Ok(code) => code,
        Err(error) if error.is::<Interrupted>() => INTERRUPTED,
        Err(error) => {
            complain(format_args!("{error:#}"));
            if error.is::<Wrong>() { USAGE } else { UNAVAILABLE }
        }
    }
}

fn prepare(arguments: &Prepare) -> Result<u8> {
    let interrupt = Interrupt::listen()?;
    bench::run::prepare(&arguments.access.options()?, &interrupt)?;
    Ok(OK)
}

fn cleanup(arguments: &Prepare) -> Result<u8> {
    let dropped = bench::run::cleanup(&arguments.access.options()?)?;
    print(&format!("{dropped} tables dropped\n"));
    Ok(OK)
}

fn run(arguments: &BenchRun) -> Result<u8> {
    let BenchRun { csv, html, resume, .. } = arguments;
    let json = arguments.json.as_ref().or(resume.as_ref());
    let to_stdout = |path: Option<&PathBuf>| path.is_some_and(|path| path == Path::new(STDOUT));
    if to_stdout(json) && to_stdout(csv.as_ref()) {
        return Err(Wrong("only one of --json and --csv can go to standard output".into()).into());
    }
    let options = arguments.options()?;
    let earlier = resume.as_deref().map(read).transpose()?;
    let interrupt = Interrupt::listen()?;
    let file = json.filter(|_| !to_stdout(json));
    let keep = |results: &Results| file.map_or(Ok(()), |file| write_json(file, results));
    let results = bench::run::run(&options, earlier, &interrupt, keep)?;
    if let Some(path) = json {
        write_json(path, &results)?;
    }
    if let Some(path) = csv {
        write(path, &bench::csv::of_bench(&results))?;
    }
    if let Some(path) = html {
        write(path, &bench::page::of_bench(&results))?;
    }
    if !to_stdout(json) && !to_stdout(csv.as_ref()) {
        print(&format!("\n{}", terminal::text(&results, colours())));
    }
    Ok(ending(&results))
}

/// The exit status of a run.
pub(crate) fn ending(results: &Results) -> u8 {
    match results.ending {
        Ending::Complete => OK,
        Ending::Interrupted => INTERRUPTED,
        Ending::Partial { .. } => UNAVAILABLE,
    }
}

fn compare(old: &Path, new: &Path) -> Result<u8> {
    let comparison = bench::compare::compare(&read(old)?, &read(new)?);
    print(&comparison.text(colours()));
    Ok(if comparison.is_worse() { WORSE } else { OK })
}

fn agree(first: &Path, second: &Path) -> Result<u8> {
    let agreement = bench::agree::agree(&read(first)?, &read(second)?);
    print(&agreement.text(colours()));
    Ok(if agreement.holds() { OK } else { WORSE })
}

fn read(path: &Path) -> Result<Results> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let results: Results = serde_json::from_str(&text)
        .with_context(|| format!("{} is no result of `flifo bench run --json`", path.display()))?;
    if results.format != FORMAT {
        bail!(
            "{} is of format {}, and this Flifo reads format {FORMAT}",
            path.display(),
            results.format
        );
    }
    Ok(results)
}

pub(crate) fn write_json(path: &Path, results: &Results) -> Result<()> {
    write(path, &(serde_json::to_string(results)? + "\n"))
}

pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    if path == Path::new(STDOUT) {
        print(text);
        return Ok(());
    }
    // Whole or not at all: a run that is cut off while it writes can still be taken up again.
    let is_special = path.exists() && !path.is_file();
    let unready = if is_special { path.to_owned() } else { path.with_added_extension("new") };
    let written = fs::write(&unready, text);
    let done = if is_special { written } else { written.and_then(|()| fs::rename(&unready, path)) };
    done.with_context(|| format!("cannot write {}", path.display()))
}

pub(crate) fn colours() -> Colours {
    if shell::wants_colours() { Colours::On } else { Colours::Off }
}

impl Access {
    /// With everything that only a run says at its default.
    fn options(&self) -> Result<RunOptions> {
        let name = |(number, text): (usize, &String)| match text.split_once('=') {
            Some((name, address)) => (name.to_owned(), address.to_owned()),
            None if self.target.len() == 1 => ("target".to_owned(), text.clone()),
            None => (format!("target{}", number + 1), text.clone()),
        };
        Ok(RunOptions {
            targets: self.target.iter().enumerate().map(name).collect(),
            tables: self.tables,
            rows: self.rows,
            seed: self.seed,
            user: self.user.clone(),
            password: std::env::var("MYSQL_PWD").unwrap_or_default(),
            schema: self.schema.clone(),
            tls: self.tls.parse().map_err(|error| Wrong(format!("--tls: {error}")))?,
            ..RunOptions::default()
        })
    }
}

impl BenchRun {
    fn options(&self) -> Result<RunOptions> {
        let kind = |name: &String| {
            name.parse::<TargetKind>().map_err(|error| Wrong(format!("--start: {error}")))
        };
        let shape =
            Shape { range_size: self.range_size, skip_trx: self.skip_trx, ..Shape::default() };
        let pacing = match self.rate {
            None => Pacing::Closed { think_ms: self.think },
            Some(rate) => Pacing::Open {
                rate,
                arrivals: match self.arrivals {
                    Distances::Even => Arrivals::Even,
                    Distances::Poisson => Arrivals::Poisson,
                },
            },
        };
        let topology = |text: &String| {
            text.parse::<TopologyKind>().map_err(|error| Wrong(format!("--place: {error}")))
        };
        let distribution = self.distribution.parse();
        let start = self.start.iter().map(kind).collect::<Result<Vec<_>, _>>()?;
        let flifo = start.contains(&TargetKind::Flifo).then(programs::flifo).transpose()?;
        Ok(RunOptions {
            start,
            flifo: flifo.unwrap_or_default(),
            workers: self.workers,
            places: self.place.iter().map(topology).collect::<Result<_, _>>()?,
            workloads: self.workloads.clone(),
            shape,
            clients: clients(&self.clients)?,
            idle: self.idle,
            rounds: self.rounds,
            restarts: self.restarts,
            repeats: self.repeats,
            seconds: self.seconds,
            warm_up: self.warm_up,
            ramp: self.ramp,
            pacing,
            protocol: match self.protocol {
                How::Text => Protocol::Text,
                How::Prepared => Protocol::Prepared,
            },
            threads: self.threads,
            distribution: distribution.map_err(|error| Wrong(format!("--rand-type: {error}")))?,
            processes: self.process.iter().map(|text| process(text)).collect::<Result<_>>()?,
            ..self.access.options()?
        })
    }
}

/// Numbers, and doublings from one number to another.
fn clients(texts: &[String]) -> Result<Vec<u32>> {
    let wrong =
        |text: &str| Wrong(format!("--clients {text}: write numbers such as 8,64 or 1..64"));
    let mut numbers = Vec::new();
    for text in texts {
        let number = |part: &str| part.parse::<u32>().ok().filter(|number| 0 < *number);
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let (low, high) = number(low).zip(number(high)).ok_or_else(|| wrong(text))?;
        if high < low {
            return Err(wrong(text).into());
        }
        let doublings = std::iter::successors(Some(low), |number| number.checked_mul(2));
        numbers.extend(doublings.take_while(|number| *number < high));
        numbers.push(high);
    }
    Ok(numbers)
}

fn process(text: &str) -> Result<(Role, u32)> {
    let wrong = || Wrong(format!("--process {text}: write server=PID, proxy=PID or other=PID"));
    let (role, pid) = text.split_once('=').ok_or_else(wrong)?;
    let role = match role {
        "server" => Role::Server,
        "proxy" => Role::Proxy,
        "other" => Role::Other,
        _ => return Err(wrong().into()),
    };
    Ok((role, pid.parse().map_err(|_| wrong())?))
}

/// The name of standard output among files.
pub(crate) const STDOUT: &str = "-";
/// Something is worse than it was, or not as it should be.
const WORSE: u8 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_double() {
        let of = |text: &str| {
            clients(&text.split(',').map(str::to_owned).collect::<Vec<_>>()).map_err(|_| ())
        };
        assert_eq!(of("8,64"), Ok(vec![8, 64]));
        assert_eq!(of("1..8"), Ok(vec![1, 2, 4, 8]));
        assert_eq!(of("3..10,99"), Ok(vec![3, 6, 10, 99]));
        assert_eq!(of("5..5"), Ok(vec![5]));
        for bad in ["", "0", "x", "8..1", "1..", "..4", "0..4", "1..9999999999"] {
            assert_eq!(of(bad), Err(()), "{bad}");
        }
    }

    #[test]
    fn processes_have_a_role_and_a_number() {
        assert_eq!(process("proxy=77").expect("is one"), (Role::Proxy, 77));
        for bad in ["77", "self=77", "server=x", "server="] {
            assert!(process(bad).is_err(), "{bad}");
        }
    }
}
