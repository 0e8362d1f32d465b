//! The table of binary logs that are followed, SHOW BINLOGS, and its metrics.
//!
//! Names of columns are promises.

use view::metrics::{Family, Page};
use view::narrow::{Form, Narrow, cut, plain, shown};
use view::table::{Column, Table, Value, count, real, text};

use super::Outside;
use super::survey::Surveyed;

pub(super) const BINLOGS: &[Column] = &[
    text("cluster"),
    text("server"),
    text("state"),
    real("age_seconds"),
    text("place"),
    count("transactions"),
    count("ends"),
    count("gaps"),
    text("reason"),
];

pub(super) const NARROW: &[Narrow] = &[
    cut("cluster", 12),
    cut("server", 12),
    plain("state"),
    shown("age", "age_seconds", Form::Seconds),
    plain("transactions"),
    plain("gaps"),
    cut("reason", 40),
];

pub(super) fn binlogs(outside: &Outside, _: &Surveyed, table: &mut Table) {
    let (now, cluster) = (crate::worker::clock::read(), &outside.shared.cluster);
    let lag_max = cluster.plan().cache.binlog_lag_max;
    for members in cluster.clusters().filter(|members| members.is_named()) {
        let followed = &members.followed;
        let (age, state, counts) = (followed.age(now), followed.state(), followed.counts());
        let word = match age {
            None => "not followed",
            Some(age) if age > lag_max => "late",
            Some(_) => "followed",
        };
        table.add([
            members.name.clone().into(),
            state.server.into(),
            word.into(),
            age.map(|age| age.as_secs_f64()).into(),
            state.place.into(),
            Value::Count(counts.transactions),
            Value::Count(counts.ends),
            Value::Count(counts.gaps),
            state.reason.into(),
        ]);
    }
}

/// Where it is on.
pub(super) fn metrics(outside: &Outside, page: &mut Page) {
    let (now, cluster) = (crate::worker::clock::read(), &outside.shared.cluster);
    if !cluster.plan().cache.binlog {
        return;
    }
    let named = || cluster.clusters().filter(|members| members.is_named());
    let help = "Whether the binary log of the cluster's writer is followed.";
    page.family("flifo_binlog_followed", Family::Gauge, help);
    for members in named() {
        let is_followed = members.followed.age(now).is_some();
        page.sample(&[("cluster", &members.name)], u8::from(is_followed));
    }
    let help = "How old what is known of the cluster's writes is.";
    page.family("flifo_binlog_age_seconds", Family::Gauge, help);
    for members in named() {
        if let Some(age) = members.followed.age(now) {
            page.sample(&[("cluster", &members.name)], age.as_secs_f64());
        }
    }
    let help = "Transactions in binary logs that have ended entries.";
    page.family("flifo_binlog_transactions_total", Family::Counter, help);
    for members in named() {
        page.sample(&[("cluster", &members.name)], members.followed.counts().transactions);
    }
    let help = "How often a binary log was not followed any more.";
    page.family("flifo_binlog_gaps_total", Family::Counter, help);
    for members in named() {
        page.sample(&[("cluster", &members.name)], members.followed.counts().gaps);
    }
}
