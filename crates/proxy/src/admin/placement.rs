//! SHOW PLACEMENT and its metrics: what is seen of the machine beneath, and what has been done about it.

use engine::placement::Verdict;
use view::metrics::{Family, Page};
use view::table::{Column, Table, Value, text};

use super::Outside;
use super::survey::Surveyed;
use crate::placement::PlacementState;

pub(super) const COLUMNS: &[Column] = &[text("name"), text("value")];

pub(super) fn fill(outside: &Outside, _: &Surveyed, table: &mut Table) {
    let PlacementState { policy, verdict, look, server, kept, on_trial, hint } =
        outside.shared.placement.state();
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let policy = if policy.is_empty() { "off" } else { policy };
    let rows = [
        ("policy", Some(policy.to_owned())),
        ("verdict", verdict.map(|it| it.name().to_owned())),
        ("meaning", verdict.map(|it| it.means().to_owned())),
        ("server_process", server.map(|it| it.to_string())),
        ("worker_ran", Some(percent(look.ran))),
        ("worker_waited", Some(percent(look.waited))),
        ("machine_idle", Some(percent(look.idle))),
        ("stolen", Some(percent(look.steal))),
        ("throttled", Some(percent(look.throttled))),
        ("applied", Some(kept.join(", "))),
        ("on_trial", on_trial.map(str::to_owned)),
        ("not_possible", hint),
    ];
    for (name, value) in rows {
        table.add([name.into(), value.map_or(Value::Null, Into::into)]);
    }
}

pub(super) fn metrics(outside: &Outside, page: &mut Page) {
    let state = outside.shared.placement.state();
    let Some(verdict) = state.verdict else { return };
    page.family(
        "flifo_placement_verdict",
        Family::Gauge,
        "1 for what the workers' use of the CPUs means, 0 for the others.",
    );
    for one in Verdict::ALL {
        page.sample(&[("verdict", one.name())], u8::from(one == verdict));
    }
    page.family(
        "flifo_placement_applied",
        Family::Gauge,
        "1 for what has been changed of how threads are scheduled.",
    );
    for remedy in ["batch", "priority", "private core", "cpus"] {
        let is_applied = state.kept.contains(&remedy) || state.on_trial == Some(remedy);
        page.sample(&[("remedy", remedy)], u8::from(is_applied));
    }
}
