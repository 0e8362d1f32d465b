//! Mirrors as they are seen from outside: what became of copies, and what their replies were to those of clients.

use std::time::Duration;

use engine::mirror::compare::Difference;
use engine::mirror::comparisons::StatementComparisons;
use engine::mirror::{MirrorState, Unmirrored};
use engine::statement::rules::ReadyRule;
use view::metrics::{Family, Page};
use view::narrow::{Form, Narrow, cut, plain, shown};
use view::table::{Column, Table, Value, count, real, text};

use super::Outside;
use super::survey::Surveyed;

pub(super) const MIRRORS: &[Column] = &[
    text("rule"),
    text("cluster"),
    count("same"),
    count("differ"),
    count("dropped"),
    count("left_out"),
    text("why"),
    count("waiting"),
    count("running"),
    count("bytes"),
];

pub(super) const NARROW: &[Narrow] = &[
    cut("rule", 20),
    cut("cluster", 12),
    plain("same"),
    plain("differ"),
    plain("dropped"),
    plain("left_out"),
    cut("why", 36),
];

/// Since the rules are there.
pub(super) fn mirrors(outside: &Outside, _: &Surveyed, table: &mut Table) {
    let rules = outside.shared.rules();
    for (ready, cluster, state) in rules.iter().filter_map(mirror) {
        let (same, differ) = {
            let comparisons = state.comparisons();
            (comparisons.all().same, comparisons.all().differing())
        };
        let of = |is_dropped: bool| {
            let all = Unmirrored::ALL.iter().filter(|(_, why)| why.is_dropped() == is_dropped);
            all.map(|(_, why)| state.left_out(*why)).sum::<u64>()
        };
        let (waiting, running) = state.under_way();
        table.add([
            ready.rule.name.clone().into(),
            cluster.to_owned().into(),
            same.into(),
            differ.into(),
            of(true).into(),
            of(false).into(),
            why(state).into(),
            (waiting as u64).into(),
            (running as u64).into(),
            (state.bytes() as u64).into(),
        ]);
    }
}

/// A rule that mirrors, where to, and what that has done.
fn mirror(ready: &ReadyRule) -> Option<(&ReadyRule, &str, &MirrorState)> {
    let rule = ready.rule.acts.mirror.as_ref()?;
    Some((ready, &rule.cluster, ready.mirror.as_deref()?))
}

/// Why statements were not compared, the most frequent reason first.
fn why(state: &MirrorState) -> String {
    let counts = Unmirrored::ALL.iter().map(|(name, why)| (state.left_out(*why), *name));
    let mut counts: Vec<_> = counts.filter(|(count, _)| *count > 0).collect();
    counts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    let told: Vec<_> = counts.iter().map(|(count, name)| format!("{name} {count}")).collect();
    told.join(", ")
}

pub(super) const MIRRORED: &[Column] = &[
    text("rule"),
    text("digest"),
    text("statement"),
    count("same"),
    count("differ"),
    count("rows_left_out"),
    real("own_seconds"),
    real("mirror_seconds"),
    text("last_difference"),
    text("server"),
    real("last_seconds"),
];

pub(super) const MIRRORED_NARROW: &[Narrow] = &[
    cut("rule", 12),
    cut("statement", 36),
    plain("same"),
    plain("differ"),
    shown("own", "own_seconds", Form::Seconds),
    shown("mirror", "mirror_seconds", Form::Seconds),
    cut("last_difference", 28),
];

/// By statement, since the figures were reset; those that differ first.
pub(super) fn mirrored(outside: &Outside, _: &Surveyed, table: &mut Table) {
    let (rules, now) = (outside.shared.rules(), crate::worker::clock::read());
    for (ready, _, state) in rules.iter().filter_map(mirror) {
        let told = state.comparisons().told();
        for (digest, line) in told {
            let last = line.last.as_ref();
            let text = match digest {
                Some(_) => line.text.clone(),
                None => "all other statements".to_owned(),
            };
            table.add([
                ready.rule.name.clone().into(),
                digest.map(|digest| format!("0x{digest:016x}")).into(),
                text.into(),
                line.same.into(),
                line.differing().into(),
                line.rows_left_out.into(),
                mean(line.own, &line),
                mean(line.mirror, &line),
                last.map(|it| it.told()).into(),
                last.map(|it| it.server.clone()).into(),
                last.map(|it| now.saturating_duration_since(it.at).as_secs_f64()).into(),
            ]);
        }
    }
}

/// The mean time of a statement.
fn mean(all: Duration, line: &StatementComparisons) -> Value {
    let compared = line.compared().max(1) as f64;
    (all.as_secs_f64() / compared).into()
}

/// Statements are counted from now on.
pub(super) fn reset(outside: &Outside) {
    outside
        .shared
        .rules()
        .iter()
        .filter_map(mirror)
        .for_each(|(_, _, state)| state.comparisons().reset());
}

/// What monitoring reads.
pub(super) fn metrics(outside: &Outside, page: &mut Page) {
    let rules = outside.shared.rules();
    let all: Vec<_> = rules.iter().filter_map(mirror).collect();
    if all.is_empty() {
        return;
    }
    page.family(
        "flifo_mirror_same_total",
        Family::Counter,
        "Statements whose copy was answered as the client was.",
    );
    for (ready, _, state) in &all {
        page.sample(&[("rule", &ready.rule.name)], state.comparisons().all().same);
    }
    page.family(
        "flifo_mirror_differ_total",
        Family::Counter,
        "Statements whose copy was answered in another way, by what differs first.",
    );
    for (ready, _, state) in &all {
        let differing = state.comparisons().all().differing;
        for (name, difference) in Difference::ALL {
            let labels = [("rule", &*ready.rule.name), ("what", name)];
            page.sample(&labels, differing[difference as usize]);
        }
    }
    page.family(
        "flifo_mirror_not_total",
        Family::Counter,
        "Statements under a mirror rule that were not compared, by why.",
    );
    for (ready, _, state) in &all {
        for (name, why) in Unmirrored::ALL {
            page.sample(&[("rule", &*ready.rule.name), ("why", name)], state.left_out(why));
        }
    }
    page.family("flifo_mirror_bytes", Family::Gauge, "What copies take that are held.");
    for (ready, _, state) in &all {
        page.sample(&[("rule", &ready.rule.name)], state.bytes() as u64);
    }
    page.family("flifo_mirror_waiting", Family::Gauge, "Copies that wait.");
    for (ready, _, state) in &all {
        page.sample(&[("rule", &ready.rule.name)], state.under_way().0 as u64);
    }
}
