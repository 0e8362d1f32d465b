//! Replies that are kept, as they are seen from outside; and how they are ended by hand.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use engine::account::name::UserName;
use engine::cache::Links;
use engine::cache::effects::places_read;
use engine::intent::Intent;
use engine::sharing::is_steady;
use view::narrow::{Form, Narrow, cut, plain, shown};
use view::table::{Column, Table, count, real, text};
use wire::like::{NameCase, NamePattern};
use wire::text::Text;

use super::Outside;
use super::actions::Done;
use super::survey::Surveyed;

pub(super) const CACHE: &[Column] = &[
    text("user"),
    text("schema"),
    text("statement"),
    text("valid"),
    count("hits"),
    real("age_seconds"),
    count("rows"),
    count("bytes"),
    count("worker"),
];

pub(super) const NARROW: &[Narrow] = &[
    cut("user", 12),
    cut("schema", 12),
    cut("statement", 40),
    plain("valid"),
    plain("hits"),
    shown("age", "age_seconds", Form::Seconds),
    plain("rows"),
    plain("bytes"),
];

pub(super) fn cache(_: &Outside, surveyed: &Surveyed, table: &mut Table) {
    for report in &surveyed.reports {
        for kept in &report.cache {
            table.add([
                kept.user.clone().into(),
                kept.schema.clone().into(),
                kept.text.clone().into(),
                if kept.is_good { "yes" } else { "no" }.into(),
                kept.hits.into(),
                kept.age.as_secs_f64().into(),
                kept.rows.into(),
                kept.bytes.into(),
                (report.worker as u64).into(),
            ]);
        }
    }
}

/// What is known of the definitions behind a user's statements.
#[derive(Clone, Default)]
pub(super) struct KnownLinks {
    /// Why no reply of this user's is kept, whatever it asks.
    why_none: Option<&'static str>,
    links: Option<Arc<Links>>,
}

/// The same, as far as they were read.
pub(super) fn known_links(outside: &Outside, user: &str) -> KnownLinks {
    let shared = &outside.shared;
    let Some(user) = shared.proofs.users.get(&UserName::of_account(user)) else {
        return KnownLinks::default();
    };
    let common = shared
        .changes
        .hidden
        .is_common_whole
        .load(Relaxed)
        .then(|| shared.changes.hidden.common.found());
    let own = user.sight.all().into_iter().filter(|it| it.lock().last.is_some());
    let own = own.map(|it| it.found());
    let mut all = common.into_iter().chain(own).peekable();
    let is_read = all.peek().is_some();
    let links = all.find_map(|found| found.links.clone());
    let why_none = (is_read && links.is_none()).then_some(
        "the server's views, triggers and foreign keys are not known: server.accounts_user, or the user itself, lacks \
         TRIGGER or SHOW VIEW on *.*",
    );
    KnownLinks { why_none, links }
}

/// Why the reply to such a statement is not kept under any rule, as far as its text, its session and definitions tell. What
/// else may be in the way, metrics count (`flifo_cache_not_total`).
pub(super) fn unfit(
    text: Text<'_>,
    intent: &Intent,
    schema: Option<&[u8]>,
    in_transaction: bool,
    known: &KnownLinks,
) -> Option<&'static str> {
    if known.why_none.is_some() {
        return known.why_none;
    }
    if in_transaction {
        return Some("in a transaction");
    }
    if intent.read.is_none() {
        return Some("it is no plain read");
    }
    if !is_steady(text) {
        return Some("it may return something else to another client or a moment later");
    }
    if places_read(text, schema, &Links::default()).is_none() {
        return Some("its tables cannot be told");
    }
    let is_elsewhere = |links: &Arc<Links>| places_read(text, schema, links).is_none();
    known.links.as_ref().is_some_and(is_elsewhere).then_some(
        "what it reads changes by writes that need not name it: its rows are another table's or server's, or those of a view \
         that calls something",
    )
}

/// Ends replies that are kept: those to texts that are like this, or all.
pub(super) async fn flush(outside: &Outside, like: Option<String>) -> Done {
    let shared = &outside.shared;
    if like.is_none() {
        // Those, too, that are being fetched.
        shared.cluster.clusters().for_each(|members| members.generations.everything());
    }
    let mut ended = 0;
    for at in 0..shared.worker_count() {
        let like = like.clone();
        let answer = shared.ask(at, move |worker| {
            let pattern = like.map(|like| NamePattern::new(&like, NameCase::Ignored));
            let mut store = worker.features.caches.store.borrow_mut();
            let before = store.len();
            store.retain(|_, entry| {
                pattern
                    .as_ref()
                    .is_some_and(|pattern| !pattern.fits(Rc::as_ref(entry).asked.text()))
            });
            before - store.len()
        });
        // A worker that is gone keeps nothing.
        ended += answer.await.unwrap_or_default();
    }
    outside.survey.forget().await;
    tracing::info!(ended, like, "replies that were kept have been ended on the console");
    Ok(format!("{ended} replies are not kept any longer"))
}

#[cfg(test)]
mod tests {
    use wire::lex::Dialect;
    use wire::text::Lexed;

    use super::*;

    #[test]
    fn what_is_not_kept_is_told() {
        let told = |text: &str, in_transaction| {
            let lexed = Lexed::default();
            let text = lexed.text(text.as_bytes(), Dialect::default());
            let known = KnownLinks::default();
            unfit(text, &Intent::read(text), Some(b"shop"), in_transaction, &known)
        };
        assert_eq!(told("SELECT a FROM t WHERE b = 1", false), None);
        let changes = Some("it may return something else to another client or a moment later");
        for (text, in_transaction, why) in [
            ("SELECT a FROM t", true, Some("in a transaction")),
            ("UPDATE t SET a = 1", false, Some("it is no plain read")),
            ("SELECT a FROM t FOR UPDATE", false, Some("it is no plain read")),
            ("SELECT RAND() FROM t", false, changes),
            ("SELECT a FROM \"t\"", false, Some("its tables cannot be told")),
        ] {
            assert_eq!(told(text, in_transaction), why, "{text}");
        }
    }
}
