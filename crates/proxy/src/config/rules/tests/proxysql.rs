//! Each column of ProxySQL's `mysql_query_rules`, written as Flifo's rules: what it means there, it means here. The
//! meaning is that of ProxySQL's documentation; where there is none, or another one, it is said.
//!
//! What has no counterpart: `cache_ttl`, `cache_empty_result` and `cache_timeout` (Flifo keeps no results),
//! `mirror_flagOUT` (no rules judge a copy; `mirror_hostgroup` is `mirror`), `gtid_from_hostgroup` (a client reads
//! what it has written by `routing.reads`), `reconnect` (not in use in ProxySQL), `sticky_conn` (not carried out by
//! ProxySQL), `multiplex = 2` (what a text leaves behind is read off it, and off what the server reports), the `GLOBAL`
//! of `re_modifiers` in the negative (`replace` always replaces all). Different: rules look at the text as its client has
//! written it, also behind one that rewrites; `digest` is a number of Flifo's own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use engine::intent::Digest;
use engine::statement::judge::{Judge, Ruling};
use engine::statement::part::parts;
use engine::statement::rule::{RuleAnswer, RuleConnection, RuleLog, RuleRole, RuleTarget};
use engine::statement::rules::{Moment, Rules, SessionFacts};
use engine::statement::verdict::RuleHits;
use wire::lex::Dialect;
use wire::text::Lexed;

use self::columns::COLUMNS;
use crate::config::parse;

/// A column, rules, and what they make of statements, which a client sends one behind the other: its session where that
/// is not the usual one, the statement, the rules that it hits and what becomes of it.
struct Column {
    name: &'static str,
    rules: &'static str,
    cases: &'static [(&'static str, &'static str, &'static str)],
}

mod columns;

/// A session, written as `user=app from=10.0.0.7 tx`.
struct SessionText<'t>(BTreeMap<&'t str, &'t str>);

impl<'t> SessionText<'t> {
    fn of(text: &'t str) -> Self {
        let usual =
            [("user", "app"), ("schema", "shop"), ("from", "10.0.0.7"), ("by", "127.0.0.1:6033")];
        let mut said: BTreeMap<_, _> = usual.into();
        said.extend(text.split_whitespace().map(|word| word.split_once('=').unwrap_or((word, ""))));
        Self(said)
    }

    fn get(&self, name: &str) -> &'t str {
        self.0.get(name).copied().unwrap_or_default()
    }

    fn facts(&self) -> SessionFacts<'t> {
        SessionFacts {
            user: self.get("user").as_bytes(),
            schema: Some(self.get("schema").as_bytes()).filter(|schema| !schema.is_empty()),
            address: self.get("from").parse().ok(),
            listener: self.get("by").as_bytes(),
            program: self.get("program").as_bytes(),
        }
    }
}

/// What becomes of a statement.
fn outcome(hits: RuleHits<'_>, text: &str) -> Vec<String> {
    let mut told = Vec::new();
    if let Some((refusal, _)) = hits.first(|acts| acts.refuse.as_ref()) {
        return vec![format!("error {} {}", refusal.number, refusal.message).trim_end().to_owned()];
    }
    if let Some((answer, _)) = hits.first(|acts| acts.answer.as_ref()) {
        told.push(if *answer == RuleAnswer::Ok { "ok" } else { "rows" }.to_owned());
    }
    let mut made = text.as_bytes().to_vec();
    for edit in hits.ready().flat_map(|ready| &ready.edits) {
        match edit.apply(&made, Dialect::default()) {
            Ok(edited) => made = edited.unwrap_or(made),
            Err(unfit) => return vec![format!("unfit: {}", unfit.why())],
        }
    }
    if made != text.as_bytes() {
        told.push(format!("= {}", String::from_utf8_lossy(&made)));
    }
    if let Some((route, _)) = hits.last(|acts| acts.route.as_ref()) {
        let target = match &route.target {
            None => "",
            Some(RuleTarget::Role(RuleRole::Writer)) => "writer",
            Some(RuleTarget::Role(RuleRole::Reader)) => "reader",
            Some(RuleTarget::Server(name)) => name,
        };
        let cluster = route.cluster.as_deref().unwrap_or_default();
        told.push(format!("to {cluster} {target}").replace("  ", " ").trim_end().to_owned());
    }
    let time = |what: &str, time: std::time::Duration| format!("{what} {time:?}");
    told.extend(hits.delay().map(|it| time("delay", it)));
    told.extend(hits.statement_time().map(|(it, _)| time("time", it)));
    told.extend(hits.queue_timeout().map(|(it, _)| time("wait", it)));
    told.extend(hits.retries().map(|it| format!("retries {it}")));
    let logs = [(RuleLog::Slow, "slow log"), (RuleLog::Audit, "audit log")];
    told.extend(
        logs.iter().filter(|(log, _)| hits.is_logged(*log)).map(|(_, it)| (*it).to_owned()),
    );
    told.extend(hits.connection().map(|it| match it {
        RuleConnection::Keep => "keep".to_owned(),
        RuleConnection::Share => "share".to_owned(),
    }));
    told.extend(hits.next().map(|label| format!("next {}", label.unwrap_or("start"))));
    told
}

/// The names of the rules that a statement hits, and what becomes of it. The label for the next one is left in `label`.
fn ask(judge: &mut Judge, session: &str, text: &str, label: &mut Option<String>) -> String {
    let session = SessionText::of(session);
    let in_transaction = session.0.contains_key("tx");
    let moment = Moment { in_transaction, label: label.as_deref(), ..Moment::default() };
    let lexed = Lexed::default();
    let lexed = lexed.text(text.as_bytes(), Dialect::default());
    let ruling = judge.judge(&session.facts(), Digest::of(lexed), Some(lexed), &moment);
    let all = match ruling {
        Ruling::Silent | Ruling::Long => return "-".to_owned(),
        Ruling::One(hit) => vec![(hit, text.to_owned())],
        Ruling::Several(all) => {
            let parts = parts(lexed).expect("it is read");
            let texts = parts.iter().map(|part| String::from_utf8_lossy(part.bytes()).into_owned());
            all.into_iter().zip(texts).collect()
        }
    };
    let rules = Arc::clone(judge.rules());
    let mut told = Vec::new();
    for (hit, text) in &all {
        let hits = RuleHits::new(&rules, hit);
        if let Some(next) = hits.next() {
            *label = next.map(str::to_owned);
        }
        let names: Vec<_> = hits.ready().map(|ready| ready.rule.name.as_str()).collect();
        told.push(match names.is_empty() {
            true => "-".to_owned(),
            false => format!("{}: {}", names.join(" "), outcome(hits, text.trim()).join("; ")),
        });
    }
    told.iter().map(|told| told.trim_end_matches([':', ' '])).collect::<Vec<_>>().join(" | ")
}

#[test]
fn columns_of_proxysql_mean_the_same() {
    const CONTEXT: &str = "[[clusters]]\nname = 'main'\n[[clusters]]\nname = 'other'\n\
        [[servers]]\nname = 'db1'\naddress = 'db1:3306'\ncluster = 'main'\ngroup = 'writer'\n\
        [[servers]]\nname = 'db2'\naddress = 'db2:3306'\ncluster = 'other'\ngroup = 'writer'\n";
    let (mut count, mut wrong) = (0, Vec::new());
    for Column { name, rules, cases } in COLUMNS {
        let text = format!("{CONTEXT}{rules}");
        let (plan, _) =
            parse(&text, name).unwrap_or_else(|problems| panic!("{name}: {problems:?}"));
        let rules = Rules::new(&plan.rules, None, Instant::now()).expect("good rules");
        let (mut judge, mut label) = (Judge::new(Arc::new(rules)), None);
        for (session, text, wanted) in *cases {
            count += 1;
            let found = ask(&mut judge, session, text, &mut label);
            if found != *wanted {
                wrong
                    .push(format!("{name}: {session} {text}\n  wanted {wanted}\n  found  {found}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count >= 200, "{count} cases");
    let columns: std::collections::BTreeSet<_> = COLUMNS.iter().map(|it| it.name).collect();
    for known in WITH_COUNTERPART {
        assert!(columns.contains(known), "no case for {known}");
    }
}

/// The columns that have a counterpart.
const WITH_COUNTERPART: &[&str] = &[
    "rule_id",
    "active",
    "username",
    "schemaname",
    "flagIN",
    "client_addr",
    "proxy_addr",
    "proxy_port",
    "digest",
    "match_digest",
    "match_pattern",
    "negate_match_pattern",
    "re_modifiers",
    "flagOUT",
    "replace_pattern",
    "destination_hostgroup",
    "timeout",
    "retries",
    "delay",
    "next_query_flagIN",
    "error_msg",
    "OK_msg",
    "multiplex",
    "log",
    "apply",
    "comment",
];
