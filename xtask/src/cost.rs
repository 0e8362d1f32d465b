//! `cargo xtask cost`: what Flifo costs where nothing should be spent: for clients at rest, and in system calls.
//!
//! Measures and prints; only the bounds that are promised fail it. Loads are bounded in number and time.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::process::Running;
use bench::progress::Progress;
use bench::table::{Colours, Table, TableCell};
use testkit::fake_client::FakeClient;

use crate::ways::{Passage, Setup, Wait, Way};

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Clients that log in and rest.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=25_000))]
    clients: u32,
    /// How long they are watched, and how long system calls are counted.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: u64,
    /// Clients that ask all the time while system calls are counted.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    busy: u32,
}

pub(crate) fn run(extent: &Extent, flifo: PathBuf, interrupt: &Interrupt) -> Result<()> {
    sys::process::raise_open_files().context("cannot raise the limit of open files")?;
    let server = PrivateServer::builder().argument("--max-connections=500").start()?;
    let setup = Setup {
        flifo,
        limit: 4,
        connections_max: 4,
        clients_max: 30_000,
        wait: Wait::Patient,
        tls: None,
    };
    let passage = Passage::open(Way::Pooled, &server, &setup, interrupt)?;
    let pid = passage.pid().context("Flifo runs")?;
    let rest = at_rest(extent, &server, &passage, pid, interrupt)?;
    let calls = at_work(extent, &server, &passage, pid, interrupt)?;
    let mut table = Table::new(&["what", "measured", "bound"]);
    for (what, measured, bound) in [
        ("memory of a client at rest, bytes", rest.bytes, Some(MEMORY_MAX)),
        ("CPU of all clients at rest, % of one", rest.cpu, Some(CPU_MAX)),
        ("socket calls a statement", calls.socket, Some(CALLS_MAX)),
        ("epoll_wait a statement", calls.wait, None),
        ("other system calls a statement", calls.other, None),
    ] {
        let bound = bound.map_or(String::new(), |bound| format!("{bound}"));
        table.row(vec![
            TableCell::plain(what),
            TableCell::plain(format!("{measured:.2}")),
            TableCell::plain(bound),
        ]);
    }
    print!("{}", table.render(Colours::Off));
    ensure!(rest.bytes <= MEMORY_MAX, "a client at rest has more memory than promised");
    ensure!(rest.cpu <= CPU_MAX, "clients at rest cost more CPU than promised");
    ensure!(calls.socket <= CALLS_MAX, "a statement costs more socket calls than promised");
    Ok(())
}

struct Rest {
    /// Of anonymous memory, a client.
    bytes: f64,
    /// Per cent of one CPU, all clients together.
    cpu: f64,
}

fn at_rest(
    extent: &Extent,
    server: &PrivateServer,
    passage: &Passage,
    pid: u32,
    interrupt: &Interrupt,
) -> Result<Rest> {
    let log_in = || {
        let client = FakeClient::login(passage.port, PrivateServer::USER, server.password());
        client.map_err(|refusal| anyhow::anyhow!("a client cannot log in: {refusal:?}"))
    };
    // What is there before the first client is no client's.
    drop(log_in()?);
    interrupt.sleep(SETTLING)?;
    let before = memory(pid)?;
    let mut progress = Progress::begin("clients log in", u64::from(extent.clients));
    let mut clients = Vec::new();
    for count in 1..=extent.clients {
        clients.push(log_in()?);
        progress.set(u64::from(count));
        interrupt.check()?;
    }
    drop(progress);
    interrupt.sleep(SETTLING)?;
    let bytes = memory(pid)?.saturating_sub(before) as f64 / f64::from(extent.clients);
    let (begin, spent) = (Instant::now(), sys::account::stat(pid)?.cpu.total());
    interrupt.sleep(Duration::from_secs(extent.seconds))?;
    let spent = sys::account::stat(pid)?.cpu.total().saturating_sub(spent);
    Ok(Rest { bytes, cpu: 100.0 * spent.as_secs_f64() / begin.elapsed().as_secs_f64() })
}

/// Anonymous memory of a process, in bytes.
fn memory(pid: u32) -> Result<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    Ok(kib.context("the kernel does not tell a process's memory")? << 10)
}

/// System calls a statement.
#[derive(Debug, Default, PartialEq)]
struct Calls {
    socket: f64,
    wait: f64,
    other: f64,
}

fn at_work(
    extent: &Extent,
    server: &PrivateServer,
    passage: &Passage,
    pid: u32,
    interrupt: &Interrupt,
) -> Result<Calls> {
    let sysbench = |what: &str| {
        let mut command = Command::new("sysbench");
        command.arg("--db-driver=mysql").arg(format!("--mysql-user={}", PrivateServer::USER));
        command.arg(format!("--mysql-password={}", server.password()));
        command.arg(format!("--mysql-db={}", PrivateServer::DATABASE));
        command.args(["--mysql-host=127.0.0.1", "--tables=4", "--table-size=10000"]);
        command.arg(format!("--threads={}", extent.busy)).arg("--db-ps-mode=disable");
        command.arg(format!("--mysql-port={}", passage.port));
        // Ended when the counting has ended.
        command.args(["--time=3600", "oltp_point_select", what]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let prepared = sysbench("prepare").status().context("sysbench cannot be run")?;
    ensure!(prepared.success(), "sysbench cannot make its tables");
    let mut load = Running::start("sysbench", sysbench("run"))?;
    interrupt.sleep(SETTLING * 2)?;
    let summary = server.folder().join("strace.txt");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-o"]).arg(&summary).arg("-p").arg(pid.to_string());
    strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut strace = sys::child::spawn(strace).context("strace cannot be run (package strace)")?;
    // It has attached once it has slowed the load down; statements are counted within its time.
    interrupt.sleep(SETTLING)?;
    let before = statements(server)?;
    let begin = Instant::now();
    interrupt.sleep(Duration::from_secs(extent.seconds))?;
    let (statements, counted) = (statements(server)? - before, begin.elapsed());
    let time = begin.elapsed() + SETTLING;
    sys::child::stop(&mut strace, SETTLING).context("strace cannot be stopped")?;
    if let Some(status) = load.ended()? {
        bail!("sysbench ended early ({status})");
    }
    drop(load);
    // The calls were counted for a little longer than the statements.
    let statements = statements as f64 * time.as_secs_f64() / counted.as_secs_f64();
    parse(&fs::read_to_string(&summary)?, statements)
}

fn statements(server: &PrivateServer) -> Result<u64> {
    let answer = server.sql("SHOW GLOBAL STATUS LIKE 'Com_select'")?;
    let number = answer.split_whitespace().last().and_then(|word| word.parse().ok());
    number.with_context(|| format!("the server does not count its statements: {answer}"))
}

/// Reads the summary that strace prints: `% time, seconds, usecs/call, calls, [errors,] syscall`.
fn parse(summary: &str, statements: f64) -> Result<Calls> {
    let mut calls = Calls::default();
    for line in summary.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        let (Some(count), Some(name)) = (words.get(3), words.last()) else { continue };
        let Ok(count) = count.parse::<f64>() else { continue };
        let kind = match *name {
            "total" => continue,
            "sendto" | "recvfrom" | "sendmsg" | "recvmsg" | "read" | "write" | "readv"
            | "writev" => &mut calls.socket,
            "epoll_wait" | "epoll_pwait" | "epoll_pwait2" => &mut calls.wait,
            _ => &mut calls.other,
        };
        *kind += count / statements;
    }
    ensure!(calls.socket > 0.0, "strace has counted nothing:\n{summary}");
    Ok(calls)
}

/// What is promised.
const MEMORY_MAX: f64 = 2048.0;
const CPU_MAX: f64 = 1.0;
const CALLS_MAX: f64 = 4.1;

const SETTLING: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_sorted_into_kinds() {
        let summary = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 59.00    0.512968         354        10           epoll_wait
 28.83    0.250626           9       200           sendto
 12.16    0.105767           3       180         2 recvfrom
  0.01    0.000097           4         5           futex
------ ----------- ----------- --------- --------- ----------------
100.00    0.869458          15       395         2 total
";
        let want = Calls { socket: 3.8, wait: 0.1, other: 0.05 };
        assert_eq!(parse(summary, 100.0).expect("reads"), want);
        assert!(parse("", 100.0).is_err());
    }
}
