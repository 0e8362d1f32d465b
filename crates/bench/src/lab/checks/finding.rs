//! What the figures say, beside those of the report.

use std::time::Duration;

use super::{ChecksTreatment, Figure, Hold, SERVERS, WORKERS, Way};
use crate::chart::Grid;
use crate::figures::histogram::ms;
use crate::lab::experiment::Finding;

/// The report's own percentiles of the page's first byte: before and after, in milliseconds.
const SEED: [(&str, f64, f64, f64); 5] = [
    ("99.98", 0.9998, 2.43, 1.647),
    ("99.99", 0.9999, 32.96, 4.912),
    ("99.995", 0.99995, 82.176, 8.76),
    ("99.999", 0.99999, 88.0, 9.8),
    ("99.9999", 0.999999, 100.352, 10.432),
];

const TITLES: [&str; 5] = ["treatment", "CPU %", "switches/s", "checks/s", "owned by a worker"];

pub(super) fn of(figures: &[Figure]) -> Finding {
    let mut titles: Vec<String> = TITLES.map(str::to_owned).into();
    titles.push("latest".to_owned());
    titles.push("pages".to_owned());
    titles.extend(SEED.map(|(name, ..)| format!("p{name} ms")));
    let mut rows = vec![
        seed_row("reported: before the commit, 48 threads", "5", |row| row.2),
        seed_row("reported: after the commit, 48 threads", "0.5 to 1", |row| row.3),
    ];
    rows.extend(figures.iter().map(row));
    Finding {
        table: Grid { titles, rows },
        charts: Vec::new(),
        reading: reading(figures),
        notes: vec![
            "CPU time and context switches are those of the checking threads, not of the servers, \
             measured while no client requests pages. Then one client requests one page after the \
             other, each over the next of 64 connections. The report's machine had a CPU for each \
             thread."
                .to_owned(),
        ],
    }
}

fn seed_row(name: &str, cpu: &str, of: impl Fn(&(&str, f64, f64, f64)) -> f64) -> Vec<String> {
    let mut row = vec![name.to_owned(), cpu.to_owned()];
    row.resize(TITLES.len() + 2, "-".to_owned());
    row.extend(SEED.iter().map(|it| format!("{:.2}", of(it))));
    row
}

fn row(figure: &Figure) -> Vec<String> {
    let owned =
        figure.owned.map_or_else(|| "-".to_owned(), |(low, high)| format!("{low} to {high}"));
    let late = |late: Duration| format!("{:.1} ms late", late.as_secs_f64() * 1e3);
    let mut row = vec![
        figure.treatment.to_string(),
        format!("{:.1}", figure.cpu * 100.0),
        format!("{:.0}", figure.switches),
        if figure.checks > 0.0 { format!("{:.0}", figure.checks) } else { "-".to_owned() },
        owned,
        figure.late.map_or_else(|| "-".to_owned(), late),
        figure.pages.count().to_string(),
    ];
    row.extend(SEED.map(|(_, share, ..)| {
        // A percentile of fewer values than it leaves out is none.
        let is_known = figure.pages.count() as f64 * (1.0 - share) >= 1.0;
        if is_known { format!("{:.2}", ms(figure.pages.quantile(share))) } else { "-".to_owned() }
    }));
    row
}

fn reading(figures: &[Figure]) -> Vec<String> {
    let find = |way: Way| {
        figures.iter().find(|figure| {
            let ChecksTreatment { way: its, workers, servers, interval } = figure.treatment;
            its == way && (workers, servers, interval) == (WORKERS, SERVERS, Duration::from_secs(2))
        })
    };
    let mut reading = Vec::new();
    if let Some(spread) = find(Way::Held(Hold::Spread)) {
        for (name, way) in
            [("the shared queue", Way::Held(Hold::SharedQueue)), ("HAProxy", Way::HaProxy)]
        {
            let Some(other) = find(way) else { continue };
            reading.push(format!(
                "200 servers every 2 s by 48 workers: spread checks make {:.2} times as many \
                 context switches as {name}, use {:.2} times its CPU, and 99.99 % of the pages \
                 begin within {:.2} times its wait.",
                spread.switches / other.switches.max(1.0),
                spread.cpu / other.cpu.max(f64::MIN_POSITIVE),
                spread.pages.quantile(0.9999) as f64 / other.pages.quantile(0.9999).max(1) as f64,
            ));
        }
    }
    let many = figures.iter().find(|figure| figure.treatment.servers > SERVERS);
    if let Some((many, late)) = many.and_then(|many| many.late.map(|late| (many, late))) {
        reading.push(format!(
            "{} servers every second by {} workers: {:.0} checks a second, the latest {:.1} % of \
             the interval late, at {:.0} % of a CPU.",
            many.treatment.servers,
            many.treatment.workers,
            many.checks,
            late.as_secs_f64() * 100.0,
            many.cpu * 100.0,
        ));
    }
    reading
}
