//! The page of a run of the load generator: first what to be careful of, then the answer, then the
//! charts, then every figure.

use super::Page;
use super::charts::Drawing;
use crate::chart::{Grid, number};
use crate::figures::{gain, places, units};
use crate::results::{
    Ending, LoadKey, Measure, Pacing, ProcessFigures, Protocol, Ratio, Results, Round, Spread,
    Standing,
};
use crate::{date, names};

/// Writes the page.
pub fn of_bench(results: &Results) -> String {
    let names: Vec<&str> = results.targets.iter().map(|target| target.name.as_str()).collect();
    let machine = &results.machine;
    let subtitle = format!(
        "{}, {} CPUs ({}), {} MiB of memory, Linux {}",
        date::utc(results.started),
        machine.cpus,
        machine.cpu_model,
        machine.memory_mib,
        machine.kernel
    );
    let mut page = Page::new(&format!("Load on {}", in_a_row(&names)), &subtitle);
    if let Some(sentence) = gain::sentence(results) {
        page.paragraph(&sentence);
    }
    if 1 < results.topologies.len() {
        page.table(&side_by_side(results));
    }
    page.notice(&cautions(results));
    if !results.ratios.is_empty() {
        page.heading("The answer");
        page.paragraph(RATIOS);
        for measure in ANSWERS {
            page.small_heading(&capital(names::of(measure).0));
            page.table(&fitting(results, ratios(results, measure)));
        }
    }
    if !results.topologies.is_empty() {
        page.heading("Where it ran");
    }
    for topology in &results.topologies {
        page.small_heading(&places::heading(topology));
        page.table(&Grid {
            titles: places::TITLES.map(str::to_owned).to_vec(),
            rows: places::rows(topology).into_iter().map(Vec::from).collect(),
        });
        page.paragraph(&places::groups(topology));
    }
    for (topology, workload) in sections(results) {
        let drawing = Drawing::new(results, topology, workload);
        page.heading(&match topology {
            "" => workload.to_owned(),
            topology => format!("{topology}, {workload}"),
        });
        page.charts(&drawing.over_clients());
        page.small_heading("How latency is distributed");
        page.charts(&drawing.distributions());
        page.small_heading("Over time");
        page.charts(&drawing.timelines());
    }
    page.heading("All figures");
    page.paragraph(FIGURES);
    page.table(&fitting(results, loads(results)));
    page.small_heading("Processes, for each statement");
    page.table(&fitting(results, processes(results)));
    page.heading("How it was measured");
    page.facts(&facts(results));
    page.command(&results.command.join(" "));
    page.finish()
}

/// What a reader must know before any number.
fn cautions(results: &Results) -> Vec<String> {
    let mut cautions = match &results.ending {
        Ending::Complete => vec![],
        Ending::Interrupted => vec!["The run was interrupted; this is what was measured.".into()],
        Ending::Partial { why } => vec![format!("The run is not complete: {why}.")],
    };
    if !results.resumed.is_empty() {
        let times: Vec<String> = results.resumed.iter().map(|at| date::utc(*at)).collect();
        cautions.push(format!("The run was cut off and taken up again: {}.", times.join(", ")));
    }
    for topology in &results.topologies {
        let shown = topology.cautions.iter().map(|it| format!("{}: {it}.", topology.name));
        cautions.extend(shown);
    }
    cautions.extend(results.notes.iter().cloned());
    cautions.extend(units::caution(results).map(str::to_owned));
    let count = |standing| {
        let rounds = results.cells.iter().flat_map(|cell| &cell.rounds);
        rounds.filter(|round| round.standing == standing).count()
    };
    let (repeated, disturbed) = (count(Standing::Repeated), count(Standing::KeptThoughDisturbed));
    if repeated != 0 {
        cautions.push(format!(
            "Rounds that others on the machine disturbed, and that were run again: {repeated}. \
             They are not counted."
        ));
    }
    if disturbed != 0 {
        cautions.push(format!(
            "Rounds that were disturbed each time and count for want of better ones: {disturbed}."
        ));
    }
    for cell in &results.cells {
        for failure in &cell.failures {
            cautions.push(format!(
                "{}, {}, round {} failed: {}",
                cell.target,
                cell.load(),
                failure.round,
                failure.why
            ));
        }
    }
    cautions
}

/// One figure of all targets but the first, as ratios to the first: a row for each load.
fn ratios(results: &Results, measure: Measure) -> Grid {
    let ours: Vec<&Ratio> = results.ratios.iter().filter(|it| it.measure == measure).collect();
    let mut targets: Vec<&str> = Vec::new();
    let mut loads: Vec<LoadKey<'_>> = Vec::new();
    for ratio in &ours {
        if !targets.contains(&ratio.target.as_str()) {
            targets.push(&ratio.target);
        }
        if !loads.contains(&ratio.load()) {
            loads.push(ratio.load());
        }
    }
    let base = ours.first().map(|ratio| ratio.base.as_str()).unwrap_or_default();
    let names = targets.iter().map(|target| format!("{target} / {base}"));
    let begin = ["topology", "workload", "clients"].map(str::to_owned);
    let titles = begin.into_iter().chain(names).collect();
    let rows = loads.into_iter().map(|load| {
        let of = |target: &&str| {
            let is_it = |it: &&&Ratio| (it.load(), it.target.as_str()) == (load, *target);
            ours.iter().find(is_it).map(|ratio| in_words(ratio)).unwrap_or_default()
        };
        let LoadKey { topology, workload, clients } = load;
        let begin = [topology.to_owned(), workload.to_owned(), clients.to_string()];
        begin.into_iter().chain(targets.iter().map(of)).collect()
    });
    Grid { titles, rows: rows.collect() }
}

fn in_words(ratio: &Ratio) -> String {
    let middle = number(ratio.middle);
    let Some(interval) = &ratio.interval else { return format!("{middle}, too few rounds") };
    let (low, high) = (number(interval.low), number(interval.high));
    format!("{middle} ({low} – {high}) {}", gain::judge(ratio).word())
}

/// Without the column of topologies, the first one, where nothing was bound.
fn fitting(results: &Results, mut grid: Grid) -> Grid {
    if results.cells.iter().all(|cell| cell.topology.is_empty()) {
        grid.titles.remove(0);
        grid.rows.iter_mut().for_each(|row| drop(row.remove(0)));
    }
    grid
}

/// What was gained, with a column for each topology.
fn side_by_side(results: &Results) -> Grid {
    let names = results.topologies.iter().map(|topology| topology.name.clone());
    Grid {
        titles: ["load".to_owned(), "target".to_owned()].into_iter().chain(names).collect(),
        rows: gain::rows(results)
            .into_iter()
            .map(|row| [row.load, row.target].into_iter().chain(row.shown).collect())
            .collect(),
    }
}

fn loads(results: &Results) -> Grid {
    let titles = [
        "topology",
        "workload",
        "clients",
        "target",
        "rounds",
        "statements/s",
        "lowest – highest",
        "transactions/s",
        "mean ms",
        "p50 ms",
        "p95 ms",
        "p99 ms",
        "p99.9 ms",
        "longest ms",
        "errors",
        "fairness",
        "slowest / fastest client",
    ];
    let rows = results.cells.iter().map(|cell| {
        let median = |measure| cell.spread(measure).map(|it| number(it.median)).unwrap_or_default();
        let of = |figure: fn(&Round) -> f64| {
            Spread::of(cell.kept().map(figure)).map(|it| number(it.median)).unwrap_or_default()
        };
        let range = cell.spread(Measure::StatementsPerSecond);
        let range = range.map(|it| format!("{} – {}", number(it.low), number(it.high)));
        let errors: u64 = cell.kept().flat_map(|it| &it.errors).map(|error| error.count).sum();
        vec![
            cell.topology.clone(),
            cell.workload.clone(),
            cell.clients.to_string(),
            cell.target.clone(),
            cell.kept().count().to_string(),
            median(Measure::StatementsPerSecond),
            range.unwrap_or_default(),
            median(Measure::TransactionsPerSecond),
            median(Measure::MeanMs),
            median(Measure::P50Ms),
            median(Measure::P95Ms),
            median(Measure::P99Ms),
            median(Measure::P999Ms),
            median(Measure::MaxMs),
            errors.to_string(),
            of(|round| round.fairness.jain),
            of(|round| round.fairness.slowest as f64 / round.fairness.fastest.max(1) as f64),
        ]
    });
    Grid { titles: titles.map(str::to_owned).to_vec(), rows: rows.collect() }
}

fn processes(results: &Results) -> Grid {
    let titles = [
        "topology",
        "workload",
        "clients",
        "target",
        "process",
        "user µs",
        "system µs",
        "waiting for a CPU µs",
        "switches, voluntary",
        "involuntary",
        "page faults",
        "from disk",
        "CPUs used",
        "peak memory MiB",
        "threads",
    ];
    let mut rows = Vec::new();
    for cell in &results.cells {
        let mut parts: Vec<(String, Vec<&ProcessFigures>)> = Vec::new();
        for process in cell.kept().flat_map(|round| &round.processes) {
            let name = format!("{} ({})", process.name, names::of_role(process.role));
            match parts.iter_mut().find(|(known, _)| *known == name) {
                Some((_, figures)) => figures.push(process),
                None => parts.push((name, vec![process])),
            }
        }
        for (name, figures) in parts {
            let median = |figure: fn(&ProcessFigures) -> f64| {
                let spread = Spread::of(figures.iter().map(|process| figure(process)));
                spread.map(|it| number(it.median)).unwrap_or_default()
            };
            rows.push(vec![
                cell.topology.clone(),
                cell.workload.clone(),
                cell.clients.to_string(),
                cell.target.clone(),
                name,
                median(|it| it.user_us),
                median(|it| it.system_us),
                median(|it| it.run_delay_us),
                median(|it| it.voluntary_switches),
                median(|it| it.involuntary_switches),
                median(|it| it.minor_faults),
                median(|it| it.major_faults),
                median(|it| it.cpus),
                median(|it| it.peak_memory_mib),
                median(|it| f64::from(it.threads)),
            ]);
        }
    }
    Grid { titles: titles.map(str::to_owned).to_vec(), rows }
}

fn facts(results: &Results) -> Vec<(&'static str, String)> {
    let settings = &results.settings;
    let pacing = match settings.pacing {
        Pacing::Closed { think_ms: 0.0 } => {
            "closed loop: a client sends its next transaction when the last one is over".into()
        }
        Pacing::Closed { think_ms } => {
            format!("closed loop: a client thinks {} ms between transactions", number(think_ms))
        }
        Pacing::Open { rate, .. } => format!(
            "open loop: {} transactions a second, whether or not others are over; latency counts \
             from the time that was set for each",
            number(rate)
        ),
    };
    let protocol = match settings.protocol {
        Protocol::Text => "text",
        Protocol::Prepared => "prepared statements",
    };
    let targets = results
        .targets
        .iter()
        .map(|target| format!("{} = {} ({})", target.name, target.address, target.server_version));
    vec![
        ("targets", targets.collect::<Vec<_>>().join("; ")),
        (
            "rounds",
            format!(
                "{}{} of {} s after {} s of warming up, in turns",
                match settings.restarts {
                    1 => String::new(),
                    restarts => format!("{restarts} starts of servers and proxies with each "),
                },
                settings.rounds,
                number(settings.seconds),
                number(settings.warm_up_seconds)
            ),
        ),
        ("pacing", pacing),
        ("protocol", protocol.into()),
        (
            "data",
            format!(
                "{} tables of {} rows; ids are drawn {} (seed {})",
                settings.tables, settings.rows, settings.distribution, settings.seed
            ),
        ),
        ("idle clients beside", settings.idle_clients.to_string()),
        ("generator", format!("Flifo {}, {} threads", results.version, settings.threads)),
    ]
}

/// Each workload in each topology.
fn sections(results: &Results) -> Vec<(&str, &str)> {
    let mut sections: Vec<(&str, &str)> = Vec::new();
    for cell in &results.cells {
        let section = (cell.topology.as_str(), cell.workload.as_str());
        if !sections.contains(&section) {
            sections.push(section);
        }
    }
    sections
}

fn in_a_row(names: &[&str]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [one] => (*one).to_owned(),
        [others @ .., last] => format!("{} and {last}", others.join(", ")),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// What most people ask first; the charts and the table of all figures tell the rest.
const ANSWERS: [Measure; 3] = [Measure::StatementsPerSecond, Measure::P99Ms, Measure::ServerCpuUs];

const RATIOS: &str = "Each target compared with the first one, round by round, since they took \
                      turns: the ratio, and in brackets where it lies with 95 % confidence. Where \
                      that includes 1, it is unclear whether there is a difference.";
const FIGURES: &str = "Medians of the rounds that count. Fairness is Jain's index over the clients \
                       of a round: 1 if all were served alike.";
