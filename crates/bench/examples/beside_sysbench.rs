//! Measures the load generator itself: the same load from sysbench and from `flifo bench`, taking
//! turns at one private server.
//!
//! `cargo run --release -p bench --example beside_sysbench -- 8,512 12` measures 8 and 512 clients
//! in twelve rounds each, over TCP; with `socket` behind it over the server's Unix socket. The ratios of a round
//! compare two measurements that follow each other, and their order changes with each round. The output shows the
//! geometric mean of the ratios, where it lies with 95 % confidence, and the lowest and the highest.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use backend::login::Credential;
use bench::interrupt::Interrupt;
use bench::load::{self, Account, Order, TurnMoment};
use bench::private_server::PrivateServer;
use bench::results::{Pacing, Protocol, Spread};
use bench::statistics::{Estimate, mean};
use bench::sysbench::{self, Load, Sysbench, Tables};
use bench::workloads::random::Distribution;
use bench::workloads::{Shape, Workload};
use sys::account::{CpuTime, stat};

const WORKLOAD: &str = "oltp_point_select";
const TABLES: Tables = Tables { count: 4, rows: 100_000 };
const SECONDS: u32 = 2;

/// What one of the two found.
struct Found {
    rate: f64,
    mean_ms: f64,
    cpu_us: f64,
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let clients = arguments.next().unwrap_or_else(|| "8,512".into());
    let clients: Vec<u32> = clients.split(',').map(str::parse).collect::<Result<_, _>>()?;
    let rounds: u32 = arguments.next().map_or(Ok(12), |text| text.parse())?;
    let is_over_tcp = arguments.next().is_none_or(|way| way != "socket");
    let interrupt = Interrupt::listen()?;
    let server = PrivateServer::start_default()?;
    let sysbench = Sysbench::find(server.password(), TABLES)?;
    let socket = sysbench::Address::Socket(server.socket());
    sysbench.prepare(&socket, &interrupt, || {})?;
    let address = if is_over_tcp { sysbench::Address::Port(server.port()) } else { socket };
    for clients in clients {
        let mut ratios = [Vec::new(), Vec::new(), Vec::new()];
        for round in 1..=rounds {
            let theirs = || theirs(&sysbench, &address, clients, &interrupt);
            let ours = || ours(&server, &address, clients, &interrupt);
            let (theirs, ours) = if round % 2 == 1 {
                (theirs()?, ours()?)
            } else {
                let ours = ours()?;
                (theirs()?, ours)
            };
            for (name, it) in [("sysbench", &theirs), ("flifo bench", &ours)] {
                println!(
                    "{clients} clients, round {round}, {name}: {:.0} statements/s, mean {:.3} ms, \
                     own CPU {:.1} µs a statement",
                    it.rate, it.mean_ms, it.cpu_us
                );
            }
            ratios[0].push(ours.rate / theirs.rate);
            ratios[1].push(ours.mean_ms / theirs.mean_ms);
            ratios[2].push(ours.cpu_us / theirs.cpu_us);
        }
        for (name, ratios) in ["throughput", "mean latency", "own CPU"].iter().zip(ratios) {
            let Estimate { ratio, low, high } = mean(&ratios, 0.95).context("too few rounds")?;
            let Spread { low: lowest, high: highest, .. } =
                Spread::of(ratios).context("no rounds")?;
            println!(
                "{clients} clients: {name} x {ratio:.2} ({low:.2} to {high:.2}; rounds from \
                 {lowest:.2} to {highest:.2})"
            );
        }
    }
    Ok(())
}

fn ours(
    server: &PrivateServer,
    address: &sysbench::Address,
    clients: u32,
    interrupt: &Interrupt,
) -> Result<Found> {
    let order = Arc::new(Order {
        address: match address {
            sysbench::Address::Socket(path) => backend::Address::Unix(path.clone()),
            sysbench::Address::Port(port) => {
                backend::Address::Tcp { host: "127.0.0.1".into(), port: *port }
            }
        },
        account: Account {
            user: PrivateServer::USER.into(),
            credential: Credential::Password(server.password().into()),
            schema: PrivateServer::DATABASE.into(),
            tls: None,
        },
        workload: Workload::parse(WORKLOAD, &Shape::default())?,
        protocol: Protocol::Text,
        pacing: Pacing::Closed { think_ms: 0.0 },
        clients,
        idle: 0,
        threads: 1,
        tables: TABLES.count,
        rows: TABLES.rows,
        distribution: Distribution::default(),
        seed: 1,
        ramp: Duration::ZERO,
        warm_up: Duration::ZERO,
        length: Duration::from_secs(u64::from(SECONDS)),
    });
    let mut cpu = Vec::new();
    let outcome = load::run(&order, interrupt, |moment| {
        if matches!(moment, TurnMoment::Begin | TurnMoment::End) {
            cpu.push(stat(std::process::id())?.cpu);
        }
        Ok(())
    })?;
    let recorder = &outcome.recorder;
    ensure!(recorder.errors().is_empty(), "{:?}", recorder.errors());
    Ok(Found {
        rate: recorder.statements as f64 / f64::from(SECONDS),
        mean_ms: recorder.latency.latency().mean_ms,
        cpu_us: each(&cpu, recorder.statements)?,
    })
}

fn theirs(
    sysbench: &Sysbench,
    address: &sysbench::Address,
    clients: u32,
    interrupt: &Interrupt,
) -> Result<Found> {
    let load = Load { workload: WORKLOAD, clients, seconds: SECONDS };
    let mut cpu = Vec::new();
    let report = sysbench.run(&load, address, interrupt, |_, pid| {
        cpu.push(stat(pid)?.cpu);
        Ok(())
    })?;
    Ok(Found {
        rate: report.statements_per_second,
        // In a closed loop without pauses, this is what the mean latency comes to.
        mean_ms: f64::from(clients) / report.transactions_per_second * 1e3,
        cpu_us: each(&cpu, report.statements)?,
    })
}

fn each(cpu: &[CpuTime], statements: u64) -> Result<f64> {
    let (begin, end) = cpu.first().zip(cpu.last()).context("no accounts were taken")?;
    Ok(end.since(*begin).total().as_secs_f64() * 1e6 / statements as f64)
}
