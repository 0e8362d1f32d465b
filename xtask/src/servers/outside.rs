//! The pages that others read, under full load: how long they take, and what reading them every second costs.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::statistics::mean;
use testkit::cluster::Cluster;
use testkit::flifo::{Flifo, free_port};

use super::sysbench::{self, Errors, Load};
use super::{CHECKS, Findings};

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Pairs of rounds, with and without a client that reads the pages.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=200))]
    rounds: u32,
    /// Length of a round.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Times that each page is read for its percentiles.
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(100..=10_000))]
    reads: u32,
}

const PAGES: [&str; 2] = ["/metrics", "/stats;csv"];

/// What is promised.
const P99_MAX: Duration = Duration::from_millis(10);
const LEAST: f64 = 0.99;

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let cluster = Cluster::replicated(2);
    let (user, password, http) = (PrivateServer::USER, Cluster::password(), free_port());
    let rest = format!(
        "{CHECKS}[console]\nlisten = []\n[http]\nlisten = \"127.0.0.1:{http}\"\n{}\
         [[users]]\nname = \"{user}\"\npassword = \"{password}\"\n",
        cluster.listed()
    );
    let flifo = Flifo::start_program(flifo, &rest);
    sysbench::prepare(cluster.servers[0].port(), interrupt)?;
    let mut found = Findings::default();
    percentiles(extent, &flifo, http, interrupt, &mut found)?;
    let mut ratios = Vec::new();
    for round in 0..extent.rounds {
        let (with, without) = if round % 2 == 0 {
            let with = rate(extent, &flifo, Some(http), interrupt)?;
            (with, rate(extent, &flifo, None, interrupt)?)
        } else {
            let without = rate(extent, &flifo, None, interrupt)?;
            (rate(extent, &flifo, Some(http), interrupt)?, without)
        };
        println!("round {round}: read {with:.0}, not read {without:.0} statements/s");
        ratios.push(with / without);
    }
    let estimate = mean(&ratios, 0.95).context("too few rounds")?;
    let measured = format!("{:.3} ({:.3} to {:.3})", estimate.ratio, estimate.low, estimate.high);
    let bound = format!("at least {LEAST}");
    let what = "throughput while both are read each second";
    found.bound(what, &measured, &bound, estimate.ratio >= LEAST);
    found.print()
}

/// How long each page takes under full load.
fn percentiles(
    extent: &Extent,
    flifo: &Flifo,
    http: u16,
    interrupt: &Interrupt,
    found: &mut Findings,
) -> Result<()> {
    let pause = Duration::from_millis(20);
    let seconds = (2 * u64::from(extent.reads) * 30 / 1000).max(5);
    let load = (extent.clients, seconds);
    let load = Load::start("oltp_point_select", flifo.port(), load, Errors::End)?;
    interrupt.sleep(Duration::from_secs(1))?;
    let (begun, mut times) = (Instant::now(), [Vec::new(), Vec::new()]);
    for _ in 0..extent.reads {
        for (page, times) in PAGES.iter().zip(&mut times) {
            times.push(get(http, page)?);
            interrupt.sleep(pause)?;
        }
    }
    let is_under_load = begun.elapsed() < Duration::from_secs(seconds - 1);
    let counted = load.end(interrupt)?;
    ensure!(is_under_load, "the load ended before all pages were read");
    found.note("statements/s meanwhile", &(counted.queries / seconds));
    for (page, times) in PAGES.iter().zip(&mut times) {
        times.sort_unstable();
        let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
        let text = |time: Duration| format!("{:.2} ms", time.as_secs_f64() * 1e3);
        found.note(&format!("{page}: median"), &text(at(0.5)));
        found.bound(&format!("{page}: p99"), &text(at(0.99)), "below 10 ms", at(0.99) < P99_MAX);
        found.note(&format!("{page}: longest"), &text(at(1.0)));
    }
    Ok(())
}

fn rate(extent: &Extent, flifo: &Flifo, http: Option<u16>, interrupt: &Interrupt) -> Result<f64> {
    let load = (extent.clients, extent.seconds);
    let load = Load::start("oltp_point_select", flifo.port(), load, Errors::End)?;
    let is_over = AtomicBool::new(false);
    let counted = thread::scope(|scope| {
        let reader = http.map(|port| {
            let is_over = &is_over;
            scope.spawn(move || {
                for turn in 0_u32.. {
                    if is_over.load(Relaxed) {
                        break;
                    }
                    if turn % 20 == 0 {
                        for page in PAGES {
                            get(port, page)?;
                        }
                    }
                    thread::sleep(Duration::from_millis(50));
                }
                anyhow::Ok(())
            })
        });
        let counted = load.end(interrupt);
        is_over.store(true, Relaxed);
        if let Some(reader) = reader {
            reader.join().expect("it does not panic")?;
        }
        counted
    })?;
    Ok(counted.queries as f64 / extent.seconds as f64)
}

/// Reads a page on a connection of its own, as tools do; how long that takes.
fn get(port: u16, page: &str) -> Result<Duration> {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_nodelay(true)?;
    let request = format!("GET {page} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    ensure!(answer.starts_with(b"HTTP/1.1 200"), "{page} cannot be read");
    Ok(begun.elapsed())
}
