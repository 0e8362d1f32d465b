//! `--csv`: a line for each round, for spreadsheets and scripts.
//!
//! The form is that of RFC 4180: CRLF ends lines, and quotes are around what needs them.
//! Invariants: every line has as many fields as the first one; a number has a point, whatever the
//! country; rounds that do not count are there, and say so.

use crate::results::{Measure, Results, Role, Round};

/// Writes all rounds of a run.
pub fn of_bench(results: &Results) -> String {
    let mut text = line(COLUMNS.iter().map(|name| (*name).to_owned()));
    for cell in &results.cells {
        for round in &cell.rounds {
            let begin = [cell.workload.clone(), cell.clients.to_string(), cell.target.clone()];
            let fields = begin.into_iter().chain(fields(round));
            text.push_str(&line(fields.chain([cell.topology.clone()])));
        }
    }
    text
}

fn fields(round: &Round) -> impl Iterator<Item = String> {
    let standing = serde_json::to_value(round.standing).unwrap_or_default();
    let errors: u64 = round.errors.iter().map(|error| error.count).sum();
    let of = |role, figure: fn(&crate::results::ProcessFigures) -> f64| {
        let ours = round.processes.iter().filter(|process| process.role == role);
        ours.map(figure).reduce(|sum, part| sum + part).map(plain).unwrap_or_default()
    };
    let counts = if round.standing.counts() { "yes" } else { "no" };
    let mut fields = vec![
        round.number.to_string(),
        standing.as_str().unwrap_or_default().to_owned(),
        counts.to_owned(),
        plain(round.seconds),
        round.statements.to_string(),
        round.transactions.to_string(),
    ];
    fields.extend(LOAD.map(|measure| measure.of(round).map(plain).unwrap_or_default()));
    fields.extend([
        errors.to_string(),
        round.reconnects.to_string(),
        round.unsent.to_string(),
        plain(round.fairness.jain),
        round.fairness.slowest.to_string(),
        round.fairness.fastest.to_string(),
    ]);
    for role in [Role::Server, Role::Proxy, Role::Generator] {
        fields.extend([
            of(role, |it| it.user_us),
            of(role, |it| it.system_us),
            of(role, |it| it.voluntary_switches + it.involuntary_switches),
            of(role, |it| it.minor_faults + it.major_faults),
            of(role, |it| it.peak_memory_mib),
        ]);
    }
    fields.extend([plain(round.disturbance.steal), plain(round.disturbance.foreign)]);
    fields.push(round.start.to_string());
    fields.into_iter()
}

fn line(fields: impl Iterator<Item = String>) -> String {
    let fields: Vec<String> = fields.map(quoted).collect();
    format!("{}\r\n", fields.join(","))
}

fn quoted(field: String) -> String {
    if field.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

/// All the digits that matter, and no exponent.
fn plain(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

const LOAD: [Measure; 8] = [
    Measure::StatementsPerSecond,
    Measure::TransactionsPerSecond,
    Measure::MeanMs,
    Measure::P50Ms,
    Measure::P95Ms,
    Measure::P99Ms,
    Measure::P999Ms,
    Measure::MaxMs,
];

const COLUMNS: [&str; 42] = [
    "workload",
    "clients",
    "target",
    "round",
    "standing",
    "counts",
    "seconds",
    "statements",
    "transactions",
    "statements_per_second",
    "transactions_per_second",
    "mean_ms",
    "p50_ms",
    "p95_ms",
    "p99_ms",
    "p99.9_ms",
    "max_ms",
    "errors",
    "reconnects",
    "unsent",
    "fairness_jain",
    "slowest_client_transactions",
    "fastest_client_transactions",
    "server_user_us",
    "server_system_us",
    "server_switches",
    "server_faults",
    "server_peak_memory_mib",
    "proxy_user_us",
    "proxy_system_us",
    "proxy_switches",
    "proxy_faults",
    "proxy_peak_memory_mib",
    "generator_user_us",
    "generator_system_us",
    "generator_switches",
    "generator_faults",
    "generator_peak_memory_mib",
    "steal",
    "foreign",
    "start",
    "topology",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Results {
        serde_json::from_str(include_str!("results/example.json")).expect("reads")
    }

    #[test]
    fn every_round_has_a_line_and_every_line_every_field() {
        let results = example();
        let text = of_bench(&results);
        let lines: Vec<_> = text.split_terminator("\r\n").collect();
        let rounds: usize = results.cells.iter().map(|cell| cell.rounds.len()).sum();
        assert_eq!(lines.len(), rounds + 1);
        assert!(lines.iter().all(|line| line.split(',').count() == COLUMNS.len()), "{text}");
        assert!(
            lines[1].starts_with("oltp_point_select,8,direct,1,kept,yes,2,120000,120000,60000,")
        );
        assert!(lines.iter().any(|line| line.contains(",repeated,no,")), "{text}");
    }

    #[test]
    fn commas_and_quotes_do_not_break_a_line() {
        let mut results = example();
        results.cells.truncate(1);
        results.cells[0].rounds.truncate(1);
        results.cells[0].workload = "a \"b\", c\nd".into();
        let text = of_bench(&results);
        assert!(text.contains("\r\n\"a \"\"b\"\", c\nd\",8,"), "{text}");
    }

    #[test]
    fn numbers_are_plain() {
        let texts = [0.0, 60_000.0, 0.126_635, 1e-9, 1e12].map(plain);
        assert_eq!(texts, ["0", "60000", "0.126635", "0", "1000000000000"]);
    }
}
