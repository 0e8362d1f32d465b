//! SHOW SUCCESSION: this process and, while it has clients, the one before it, whose console has gone over.
//!
//! Names of columns are promises.

use view::narrow::{Form, Narrow, cut, plain, shown};
use view::table::{Column, Table, Value, count, real, text};

use super::Outside;
use super::survey::Surveyed;

pub(super) const COLUMNS: &[Column] = &[
    text("process"),
    count("pid"),
    text("version"),
    real("age_seconds"),
    count("clients"),
    count("at_work"),
    count("tls"),
    count("server_tls"),
    count("refused"),
    count("backends"),
];

pub(super) const NARROW: &[Narrow] = &[
    plain("process"),
    plain("pid"),
    cut("version", 12),
    shown("age", "age_seconds", Form::Seconds),
    plain("clients"),
    plain("at_work"),
    plain("tls"),
    plain("server_tls"),
    plain("refused"),
    plain("backends"),
];

pub(super) fn fill(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let pools = || surveyed.reports.iter().flat_map(|report| report.pools.values());
    let age = outside.started.elapsed().unwrap_or_default();
    table.add([
        "this".into(),
        std::process::id().into(),
        env!("CARGO_PKG_VERSION").into(),
        age.as_secs_f64().into(),
        pools().map(|pool| pool.clients).sum::<u64>().into(),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        pools().map(|pool| pool.backends).sum::<u64>().into(),
    ]);
    let Some(before) = outside.shared.succession.predecessor.told() else { return };
    let [at_work, tls, server_tls, refused] = before.left.0;
    table.add([
        "before".into(),
        before.pid.into(),
        before.version.into(),
        crate::worker::clock::since(before.since).as_secs_f64().into(),
        before.left.0.iter().sum::<u64>().into(),
        at_work.into(),
        tls.into(),
        server_tls.into(),
        refused.into(),
        before.held.values().sum::<u64>().into(),
    ]);
}
