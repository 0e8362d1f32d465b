//! `cargo xtask bulk`: does big data arrive as it left, and does Flifo stay small meanwhile?
//!
//! Owns the course, the bounds and the table at the end; [`source`] makes the data, [`moves`] moves
//! it.
//! Invariant: succeeds only if everything that was moved is equal to what it was made from, and the
//! proxy has never had more than [`PEAK_MAX`] of memory.

mod moves;
mod source;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::table::{Colours, Table, TableCell};

use self::moves::{Moved, Mover};
use self::source::Source;
use crate::ways::{Passage, Setup, Wait, Way};

/// What stands below the options in `--help`.
pub(crate) const DISK_HELP: &str = "\
The temporary folder (TMPDIR) needs four times that size and 3 GiB; what is made there goes at the
end. PHP with mysqli is needed.";

/// Moves everything each way, and prints how it went.
pub(crate) fn run(size: u64, modes: &[Way], flifo: PathBuf, interrupt: &Interrupt) -> Result<()> {
    let server = start_server()?;
    ensure_space(server.folder(), size)?;
    let source = Source::make(&server, size, interrupt)?;
    let setup = Setup {
        flifo,
        limit: 4,
        connections_max: 4,
        clients_max: 16,
        wait: Wait::Patient,
        tls: None,
    };
    let mut rows = Vec::new();
    let outcome = modes
        .iter()
        .try_for_each(|way| move_all(*way, &server, &source, &setup, interrupt, &mut rows));
    print!("{}", table(&rows).render(Colours::Off));
    outcome
}

/// Understands sizes such as `200MiB`.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "MiB" => 20,
        "GiB" => 30,
        other => return Err(format!("the unit is {other:?}; it must be MiB or GiB, as in 200MiB")),
    };
    let number: u64 = number.parse().map_err(|_| format!("{text:?} has no number"))?;
    let size = number.checked_mul(1 << shift).filter(|size| SIZES.contains(size));
    size.ok_or_else(|| "the size must be between 16MiB and 1024GiB".to_owned())
}

/// One line of the table at the end.
struct Row {
    way: Way,
    step: &'static str,
    moved: Moved,
    peak: Option<u64>,
}

fn move_all(
    way: Way,
    server: &PrivateServer,
    source: &Source,
    setup: &Setup,
    interrupt: &Interrupt,
    rows: &mut Vec<Row>,
) -> Result<()> {
    let mut passage = Passage::open(way, server, setup, interrupt)?;
    let mover = Mover { server, source, port: passage.port, interrupt };
    type Step<'a> = (&'static str, fn(&Mover<'a>) -> Result<Moved>);
    let steps: [Step<'_>; 4] = [
        ("dump", Mover::dump),
        ("restore", Mover::restore),
        ("values of 64 MiB", Mover::values),
        ("load data local", Mover::load),
    ];
    for (step, go) in steps {
        let moved = go(&mover);
        // That the proxy is gone tells more than that its client lost it.
        passage.check()?;
        let moved = moved.with_context(|| format!("{step}, {}", way.name()))?;
        let peak = passage.peak_memory()?;
        rows.push(Row { way, step, moved, peak });
        ensure!(
            peak.is_none_or(|peak| peak < PEAK_MAX),
            "{step}, {}: the proxy has had {} MiB of memory; it must stay below {} MiB",
            way.name(),
            peak.unwrap_or_default() >> 20,
            PEAK_MAX >> 20
        );
    }
    mover.clean_up()
}

fn table(rows: &[Row]) -> Table {
    let titles = ["step", "mode", "MB", "seconds", "MB/s", "peak MiB"];
    let mut table = Table::new(&titles);
    for Row { way, step, moved, peak } in rows {
        let megabytes = moved.bytes as f64 / 1e6;
        let peak = peak.map_or(String::new(), |peak| format!("{:.1}", peak as f64 / MIB));
        let seconds = moved.time.as_secs_f64();
        table.row(vec![
            TableCell::plain(*step),
            TableCell::plain(way.name()),
            TableCell::plain(format!("{megabytes:.0}")),
            TableCell::plain(format!("{seconds:.1}")),
            TableCell::plain(format!("{:.0}", megabytes / seconds.max(MOMENT.as_secs_f64()))),
            TableCell::plain(peak),
        ]);
    }
    table
}

/// A server that takes big packets and that does not wait for its disk: its data goes anyway.
fn start_server() -> Result<PrivateServer> {
    PrivateServer::builder()
        .argument("--max-allowed-packet=1G")
        .argument("--local-infile=ON")
        // A value may take a tenth of the redo log.
        .argument("--innodb-log-file-size=1G")
        .argument("--innodb-flush-log-at-trx-commit=0")
        .argument("--innodb-flush-method=nosync")
        .argument("--innodb-doublewrite=OFF")
        .start()
}

fn ensure_space(folder: &Path, size: u64) -> Result<()> {
    let disk = rustix::fs::statvfs(folder)
        .with_context(|| format!("cannot tell how much room there is in {}", folder.display()))?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    let needed = size.saturating_mul(4).saturating_add(3 << 30);
    ensure!(
        needed <= free,
        "{} has room for {} MiB, and {} MiB are needed; set another TMPDIR or a smaller --size",
        folder.display(),
        free >> 20,
        needed >> 20
    );
    Ok(())
}

/// Flifo passes bodies on; this is what it may have for everything else.
const PEAK_MAX: u64 = 64 << 20;
const SIZES: std::ops::RangeInclusive<u64> = (16 << 20)..=(1 << 40);
const MIB: f64 = 1_048_576.0;
const MOMENT: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_bounds() {
        assert_eq!(parse_size("200MiB"), Ok(200 << 20));
        assert_eq!(parse_size("2 GiB"), Ok(2 << 30));
        for wrong in ["", "1", "MiB", "1GB", "-1MiB", "15MiB", "1025GiB", "99999999999999999GiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused_before_it_is_made() {
        let error = ensure_space(Path::new("/"), 1 << 60).expect_err("too much");
        assert!(error.to_string().contains("set another TMPDIR"), "{error}");
    }
}
