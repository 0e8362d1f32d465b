//! Clients write a number and read it back, at once or a little later, while readers stop to follow for moments: each
//! read must find the number, from whatever server it comes.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::progress::Progress;
use fastrand::Rng;
use testkit::cluster::Cluster;

use super::{CHECKS, Findings, Site, client, seconds};

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Writes that are read back.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pairs: u64,
    #[arg(long, default_value_t = 96, value_parser = clap::value_parser!(u32).range(1..=1000))]
    clients: u32,
    /// Of a hundred reads, so many come later than at once.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(0..=100))]
    later: u64,
}

#[derive(Default)]
struct Counts {
    pairs: AtomicU64,
    stale: AtomicU64,
    on_readers: AtomicU64,
    later: AtomicU64,
    later_on_readers: AtomicU64,
}

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let cluster = Cluster::replicated_with(2, &["--slave-parallel-threads=4"]);
    let site = Site::start(cluster, flifo, &format!("{CHECKS}[routing]\nmode = \"split\"\n"))?;
    let mut setup = site.client()?;
    setup.query("CREATE TABLE t (id INT PRIMARY KEY, v BIGINT)")?;
    for id in 0..extent.clients {
        setup.query(&format!("INSERT INTO t VALUES ({id}, 0)"))?;
    }
    let (counts, is_over) = (Counts::default(), AtomicBool::new(false));
    let begun = Instant::now();
    thread::scope(|scope| {
        let port = site.flifo.port();
        let (counts, is_over, cluster) = (&counts, &is_over, &site.cluster);
        let lagging = scope.spawn(move || lag(cluster, is_over));
        let threads: Vec<_> = (0..extent.clients)
            .map(|id| scope.spawn(move || work(id, port, extent, counts, is_over)))
            .collect();
        let mut progress = Progress::begin("pairs", extent.pairs);
        let waited = loop {
            let done = counts.pairs.load(Relaxed);
            progress.set(done.min(extent.pairs));
            if done >= extent.pairs || threads.iter().any(thread::ScopedJoinHandle::is_finished) {
                break Ok(());
            }
            if let Err(ended) = interrupt.sleep(Duration::from_millis(100)) {
                break Err(ended);
            }
        };
        is_over.store(true, Relaxed);
        drop(progress);
        for thread in threads {
            thread.join().expect("it does not panic")?;
        }
        lagging.join().expect("it does not panic")?;
        waited
    })?;
    let of = |count: &AtomicU64| count.load(Relaxed);
    let share =
        |part: u64, whole: u64| format!("{:.1} %", 100.0 * part as f64 / whole.max(1) as f64);
    let (pairs, stale) = (of(&counts.pairs), of(&counts.stale));
    let mut found = Findings::default();
    found.note("time", &seconds(begun.elapsed()));
    let text = format!("at least {}", extent.pairs);
    found.bound("writes that were read back", &pairs, &text, pairs >= extent.pairs);
    found.bound("stale reads", &stale, "0", stale == 0);
    found.note("reads on readers, of all", &share(of(&counts.on_readers), pairs));
    let later = share(of(&counts.later_on_readers), of(&counts.later));
    found.note("reads on readers, of those that came later", &later);
    found.print()
}

/// One reader after the other stops to apply for a moment.
fn lag(cluster: &Cluster, is_over: &AtomicBool) -> Result<()> {
    for turn in 0.. {
        if is_over.load(Relaxed) {
            break;
        }
        let reader = &cluster.servers[1 + turn % 2];
        reader.sql("STOP SLAVE SQL_THREAD")?;
        thread::sleep(Duration::from_millis(300));
        reader.sql("START SLAVE SQL_THREAD")?;
        thread::sleep(Duration::from_millis(700));
    }
    Ok(())
}

fn work(id: u32, port: u16, extent: &Extent, counts: &Counts, is_over: &AtomicBool) -> Result<()> {
    let mut client = client(port)?;
    let mut random = Rng::with_seed(u64::from(id));
    for turn in 1_u64.. {
        if is_over.load(Relaxed) {
            break;
        }
        client.query(&format!("UPDATE t SET v = {turn} WHERE id = {id}"))?;
        let is_later = random.u64(..100) < extent.later;
        if is_later {
            thread::sleep(Duration::from_millis(random.u64(..800)));
        }
        let rows = client.query(&format!("SELECT v, @@server_id FROM t WHERE id = {id}"))?;
        let row = rows.first().context("a row")?;
        ensure!(row.len() == 2, "a row has other columns: {row:?}");
        let on_reader = u64::from(row[1] != "1");
        counts.stale.fetch_add(u64::from(row[0] != turn.to_string()), Relaxed);
        counts.on_readers.fetch_add(on_reader, Relaxed);
        if is_later {
            counts.later.fetch_add(1, Relaxed);
            counts.later_on_readers.fetch_add(on_reader, Relaxed);
        }
        counts.pairs.fetch_add(1, Relaxed);
    }
    Ok(())
}
