//! All servers are restarted, one after the other, under sysbench: drained first, the writer last, whose place a reader
//! takes. One sysbench runs transactions, on the writer; another one reads outside of transactions, on readers. Each
//! ends at the first error, so that its end tells whether there was any.

use std::path::Path;

use anyhow::{Context, Result};
use bench::interrupt::Interrupt;
use testkit::client::Client;

use super::sysbench::{self, Errors, Load};
use super::{CHECKS, Findings, Kind, Site, seconds, seen, wait};

#[derive(clap::Args)]
pub(crate) struct Extent {
    #[arg(long, value_enum, default_value = "replication")]
    kind: Kind,
    /// Clients that run transactions.
    #[arg(long, default_value_t = 48, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Clients that read outside of transactions.
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    readers: u32,
    /// How long sysbench works; it must be long enough for all servers to be restarted.
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(10..=600))]
    seconds: u64,
}

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let cluster = extent.kind.of_mariadb()?;
    let more = format!("{CHECKS}[routing]\nmode = \"split\"\n");
    let mut site = Site::start(cluster, flifo, &more)?;
    sysbench::prepare(site.cluster.servers[0].port(), interrupt)?;
    let mut console = site.console()?;
    let is_writer = |console: &mut Client| Ok(seen(console, "db1")?.2 == "writer");
    wait("a writer", interrupt, || is_writer(&mut console))?;
    if extent.kind == Kind::Replication {
        site.cluster.wait_for(1, 0);
        site.cluster.wait_for(2, 0);
    }
    let start = |workload: &str, clients: u32| {
        Load::start(workload, site.flifo.port(), (clients, extent.seconds), Errors::End)
    };
    let reads = start("oltp_point_select", extent.readers)?;
    let writes = start("oltp_read_write", extent.clients)?;
    let mut found = Findings::default();
    for at in [1, 2, 0] {
        let name = format!("db{}", at + 1);
        let is_used = |console: &mut Client| Ok(seen(console, &name)?.1 > 0);
        wait("load on a server", interrupt, || is_used(&mut console))?;
        console.query(&format!("DRAIN {name}"))?;
        let backends = |console: &mut Client| Ok(seen(console, &name)?.1 == 0);
        let drained =
            wait("a server without backend connections", interrupt, || backends(&mut console))?;
        found.note(&format!("{name} is drained after"), &seconds(drained));
        if at == 0 && extent.kind == Kind::Replication {
            hand_over(&mut site)?;
        }
        site.cluster.servers[at].stop()?;
        site.cluster.servers[at].start()?;
        console.query(&format!("ENABLE {name}"))?;
        let is_back = |console: &mut Client| {
            let (state, _, role) = seen(console, &name)?;
            Ok(state == "up" && role == "reader")
        };
        let back = wait("a server to be used again", interrupt, || is_back(&mut console))?;
        found.note(&format!("{name} is used again after"), &seconds(back));
    }
    // Had it met an error, it would have failed here.
    let mut reconnects = 0;
    for (load, what) in [(writes, "in transactions"), (reads, "outside of transactions")] {
        let counted = load.end(interrupt).context("a client has met an error")?;
        found.note(&format!("sysbench: statements {what}"), &counted.queries);
        found.note(&format!("sysbench: deadlocks {what}"), &counted.errors);
        reconnects += counted.reconnects;
    }
    found.bound("sysbench: other errors, and reconnects", &reconnects, "0", reconnects == 0);
    found.print()
}

/// The first reader takes the writer's place.
fn hand_over(site: &mut Site) -> Result<()> {
    let servers = &mut site.cluster.servers;
    servers[0].sql("SET GLOBAL read_only = 1")?;
    site.cluster.wait_for(1, 0);
    site.cluster.promote(1, &[2, 0]);
    site.cluster.servers[0].replace_argument("--read-only", "--read-only=1");
    Ok(())
}
