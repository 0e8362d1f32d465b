//! What it costs to have several servers: the same statements to the same server, through a Flifo that knows only this
//! one, and through one that has three, checks them all and routes. Rounds are interleaved; the Flifo that is not
//! measured is stopped meanwhile, so that the other one does not pay for its checks.

use std::path::Path;

use anyhow::{Context, Result};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::statistics::mean;
use rustix::process::{Pid, Signal, kill_process};
use testkit::cluster::Cluster;
use testkit::flifo::Flifo;

use super::sysbench::{self, Errors, Load};
use super::{CHECKS, Findings, Site};

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Pairs of rounds.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u32).range(2..=200))]
    rounds: u32,
    /// Length of a round.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
}

/// What is promised.
const LEAST: f64 = 0.97;

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let cluster = Cluster::replicated(2);
    let (user, password, port) =
        (PrivateServer::USER, Cluster::password(), cluster.servers[0].port());
    let single = Flifo::start_program(
        flifo,
        &format!(
            "[server]\naddress = \"127.0.0.1:{port}\"\n\
             [[users]]\nname = \"{user}\"\npassword = \"{password}\"\n"
        ),
    );
    let several = Site::start(cluster, flifo, CHECKS)?;
    sysbench::prepare(port, interrupt)?;
    several.cluster.wait_for(1, 0);
    several.cluster.wait_for(2, 0);
    several.client()?.query("SELECT 1")?;
    let mut ratios = Vec::new();
    let (mut best_single, mut best_several) = (0.0_f64, 0.0_f64);
    for round in 0..extent.rounds {
        let measure = |it: &Flifo, other: &Flifo| {
            stop(other, Signal::STOP)?;
            let rate = rate(extent, it, interrupt);
            stop(other, Signal::CONT)?;
            rate
        };
        // Each goes first in half of the rounds.
        let (one, three) = if round % 2 == 0 {
            let one = measure(&single, &several.flifo)?;
            (one, measure(&several.flifo, &single)?)
        } else {
            let three = measure(&several.flifo, &single)?;
            (measure(&single, &several.flifo)?, three)
        };
        println!("round {round}: one server {one:.0}, three {three:.0} statements/s");
        (best_single, best_several) = (best_single.max(one), best_several.max(three));
        ratios.push(three / one);
    }
    let estimate = mean(&ratios, 0.95).context("too few rounds")?;
    let mut found = Findings::default();
    found.note("one server without checks, best round", &format!("{best_single:.0} statements/s"));
    found.note("three servers with checks, best round", &format!("{best_several:.0} statements/s"));
    let measured = format!("{:.3} ({:.3} to {:.3})", estimate.ratio, estimate.low, estimate.high);
    let bound = format!("at least {LEAST}");
    found.bound("throughput, three to one", &measured, &bound, estimate.ratio >= LEAST);
    found.print()
}

fn rate(extent: &Extent, flifo: &Flifo, interrupt: &Interrupt) -> Result<f64> {
    let load = (extent.clients, extent.seconds);
    let counted = Load::start("oltp_point_select", flifo.port(), load, Errors::End)?;
    Ok(counted.end(interrupt)?.queries as f64 / extent.seconds as f64)
}

fn stop(flifo: &Flifo, signal: Signal) -> Result<()> {
    let pid = Pid::from_raw(flifo.pid().cast_signed()).context("it runs")?;
    Ok(kill_process(pid, signal)?)
}
