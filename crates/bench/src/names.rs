//! What figures are called where people read them, with their units.
//!
//! One list for the page, the comparison and the spreadsheet, so that one figure has one name.

use crate::results::{Measure, Role};

/// The name of a figure, and its unit.
pub fn of(measure: Measure) -> (&'static str, &'static str) {
    match measure {
        Measure::StatementsPerSecond => ("throughput", "statements a second"),
        Measure::TransactionsPerSecond => ("transactions", "transactions a second"),
        Measure::MeanMs => ("mean latency", "ms"),
        Measure::P5Ms => ("latency p5", "ms"),
        Measure::P50Ms => ("latency p50", "ms"),
        Measure::P95Ms => ("latency p95", "ms"),
        Measure::P99Ms => ("latency p99", "ms"),
        Measure::P999Ms => ("latency p99.9", "ms"),
        Measure::MaxMs => ("latency, longest", "ms"),
        Measure::ServerCpuUs => ("CPU, server", "µs a statement"),
        Measure::ProxyCpuUs => ("CPU, proxy", "µs a statement"),
        Measure::GeneratorCpuUs => ("CPU, generator", "µs a statement"),
    }
}

pub fn of_role(role: Role) -> &'static str {
    match role {
        Role::Server => "server",
        Role::Proxy => "proxy",
        Role::Generator => "generator",
        Role::Other => "other",
    }
}
