//! Rules as they are seen from outside: what each has done, and what a statement is to each.

use std::net::IpAddr;
use std::time::{Duration, SystemTime};

use engine::intent::Intent;
use engine::mirror::{Unmirrored, fit};
use engine::statement::rule::{
    Condition, Next, Rule, RuleConnection, RuleRole, RuleRoute, RuleTarget, Then,
};
use engine::statement::rules::{Moment, ReadyRule, Rules, SessionFacts};
pub use view::command::RulesAsked;
use view::narrow::{Form, Narrow, cut, plain, shown};
use view::table::{Column, Table, Value, count, real, text};
use wire::lex::Dialect;
use wire::text::{Lexed, Text};

use super::Outside;
use super::cached::{self, KnownLinks};
use super::survey::Surveyed;
use crate::config::Plan;
use crate::state::rule_hits::week_minutes_at;

pub(super) const RULES: &[Column] = &[
    text("name"),
    text("enabled"),
    text("label"),
    text("acts"),
    text("then"),
    count("hits"),
    real("seconds"),
    real("last_hit_seconds"),
    text("note"),
];

pub(super) const NARROW: &[Narrow] = &[
    cut("name", 32),
    plain("enabled"),
    cut("label", 12),
    cut("acts", 20),
    cut("then", 16),
    plain("hits"),
    shown("time", "seconds", Form::Seconds),
    shown("last", "last_hit_seconds", Form::Seconds),
];

pub(super) fn rules(outside: &Outside, _: &Surveyed, table: &mut Table) {
    let (rules, now) = (outside.shared.rules(), crate::worker::clock::read());
    for ready in rules.iter() {
        let rule = &ready.rule;
        let last = rules.last_hit(ready).map(|at| now.saturating_duration_since(at));
        table.add([
            rule.name.clone().into(),
            if rule.off { "no" } else { "yes" }.into(),
            rule.label.clone().into(),
            rule.acts.names().join(", ").into(),
            then(rule).into(),
            ready.counts.hits().into(),
            Duration::from_micros(ready.counts.micros()).as_secs_f64().into(),
            last.map(|it| it.as_secs_f64()).into(),
            Some(rule.note.clone()).filter(|note| !note.is_empty()).into(),
        ]);
    }
}

pub(super) const FIREWALLS: &[Column] =
    &[text("rule"), text("mode"), text("file"), count("forms"), count("strangers")];

pub(super) const FIREWALLS_NARROW: &[Narrow] =
    &[cut("rule", 32), plain("mode"), cut("file", 50), plain("forms"), plain("strangers")];

pub(super) fn firewalls(outside: &Outside, _: &Surveyed, table: &mut Table) {
    for ready in outside.shared.rules().iter() {
        let Some(firewall) = &ready.rule.acts.firewall else { continue };
        table.add([
            ready.rule.name.clone().into(),
            firewall.mode.name().into(),
            firewall.file.display().to_string().into(),
            Value::Count(ready.firewall.len() as u64),
            Value::Count(ready.firewall.strangers().len() as u64),
        ]);
    }
}

pub(super) const STRANGERS: &[Column] = &[
    text("rule"),
    text("user"),
    count("times"),
    real("first_seconds"),
    real("last_seconds"),
    text("sign"),
    text("form"),
];

pub(super) const STRANGERS_NARROW: &[Narrow] = &[
    cut("rule", 16),
    cut("user", 12),
    plain("times"),
    shown("last", "last_seconds", Form::Seconds),
    cut("sign", 28),
    cut("form", 40),
];

pub(super) fn strangers(outside: &Outside, _: &Surveyed, table: &mut Table) {
    let now = crate::worker::clock::read();
    for ready in outside.shared.rules().iter() {
        for (form, stranger) in ready.firewall.strangers() {
            let before = |at| now.saturating_duration_since(at).as_secs_f64().into();
            table.add([
                ready.rule.name.clone().into(),
                stranger.user.into(),
                Value::Count(stranger.times),
                before(stranger.first),
                before(stranger.last),
                stranger.sign.map(|sign| sign.told()).into(),
                form.into(),
            ]);
        }
    }
}

/// Where a rule goes on, as a configuration writes it.
fn then(rule: &Rule) -> String {
    match &rule.then {
        Some(Then::Next) => "next".to_owned(),
        Some(Then::Stop) => "stop".to_owned(),
        Some(Then::Jump(label)) => format!("jump {label}"),
        None if rule.acts.ends() => "stop".to_owned(),
        None => "next".to_owned(),
    }
}

const EXPLAINED: &[Column] =
    &[count("statement"), text("rule"), text("hit"), text("why"), text("acts"), text("then")];

/// What a statement is to each rule.
pub(super) fn explain(outside: &Outside, asked: &RulesAsked) -> Result<Table, String> {
    let mut table = Table::new(EXPLAINED);
    let told =
        explained(&outside.shared.rules(), asked, &cached::known_links(outside, &asked.user))?;
    for (at, statement) in told.into_iter().enumerate() {
        for told in statement.rules {
            table.add([
                Value::Count(at as u64 + 1),
                told.rule.into(),
                if told.is_hit { "yes" } else { "no" }.into(),
                told.why.into(),
                told.acts.into(),
                told.then.into(),
            ]);
        }
    }
    Ok(table)
}

/// A statement, and what it is to each rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedStatement {
    /// With `?` for each literal.
    pub digest_text: String,
    pub rules: Vec<ExplainedRule>,
    /// The text that would be sent; `None`: the same.
    pub becomes: Option<String>,
}

/// What a statement is to a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedRule {
    pub rule: String,
    pub is_hit: bool,
    pub why: String,
    pub acts: String,
    pub then: String,
}

/// What a statement would be to the rules of a plan that is not in force.
pub fn explain_by(plan: &Plan, asked: &RulesAsked) -> Result<Vec<ExplainedStatement>, String> {
    explained(
        &Rules::new(&plan.rules, None, crate::worker::clock::read())?,
        asked,
        &KnownLinks::default(),
    )
}

fn explained(
    rules: &Rules,
    asked: &RulesAsked,
    known: &KnownLinks,
) -> Result<Vec<ExplainedStatement>, String> {
    let address = asked
        .address
        .as_deref()
        .map(|text| text.parse::<IpAddr>().map_err(|_| format!("{text:?} is no IP address")));
    let session = SessionFacts {
        user: asked.user.as_bytes(),
        schema: asked.schema.as_deref().map(str::as_bytes),
        address: address.transpose()?,
        listener: asked.listener.as_deref().unwrap_or_default().as_bytes(),
        program: asked.program.as_deref().unwrap_or_default().as_bytes(),
    };
    let (local, utc) = week_minutes_at(SystemTime::now());
    let role = match asked.role.as_deref().map(|text| (text, RuleRole::named(text))) {
        None => RuleRole::default(),
        Some((_, Some(role))) => role,
        Some((text, None)) => return Err(format!("{text:?} is no role: say reader or writer")),
    };
    let cluster = asked.cluster.as_deref();
    let in_transaction = asked.in_transaction;
    let label = asked.label.as_deref();
    let is_prepared = false;
    let moment =
        Moment { in_transaction, local, utc, cluster, role, label, is_prepared, found: None };
    let lexed = Lexed::default();
    let text = lexed.text(asked.text.as_bytes(), Dialect::default());
    let mut told = Vec::new();
    for statement in rules.explain(&session, text, &moment) {
        let all: Vec<_> = rules.iter().zip(&statement.whys).collect();
        let mut becomes = None;
        for (ready, _) in all.iter().filter(|(_, why)| why.is_hit()) {
            for edit in &ready.edits {
                let now = becomes.as_deref().unwrap_or(statement.text.as_slice());
                match edit.apply(now, Dialect::default()) {
                    Ok(edited) => becomes = edited.or(becomes),
                    Err(unfit) => {
                        return Err(format!(
                            "the rule {:?} cannot rewrite it: {}",
                            ready.rule.name,
                            unfit.why()
                        ));
                    }
                }
            }
        }
        told.push(ExplainedStatement {
            digest_text: statement.digest_text.clone(),
            rules: all
                .iter()
                .map(|(ready, why)| ExplainedRule {
                    rule: ready.rule.name.clone(),
                    is_hit: why.is_hit(),
                    why: match why.is_hit() {
                        true => [vec![why.text()], consequences(ready, text, asked, known)]
                            .concat()
                            .join(": "),
                        false => why.text(),
                    },
                    acts: ready.rule.acts.names().join(", "),
                    then: then(&ready.rule),
                })
                .collect(),
            becomes: becomes.map(|text| String::from_utf8_lossy(&text).trim().to_owned()),
        });
    }
    Ok(told)
}

/// What a statement's form means for acts that not every statement is fit for.
fn consequences(
    ready: &ReadyRule,
    text: Text<'_>,
    asked: &RulesAsked,
    known: &KnownLinks,
) -> Vec<String> {
    let mut told = Vec::new();
    let acts = &ready.rule.acts;
    if acts.firewall.is_some() {
        told.push(match ready.firewall.objects(text) {
            None => "its form is known".to_owned(),
            Some(objection) => objection,
        });
    }
    let intent = Intent::read(text);
    if acts.cache.is_some() {
        let schema = asked.schema.as_deref().map(str::as_bytes);
        let unfit = cached::unfit(text, &intent, schema, asked.in_transaction, known);
        told.push(match unfit {
            None => "its reply is kept".to_owned(),
            Some(why) => format!("its reply is not kept, {why}"),
        });
    }
    if let Some(mirror) = &acts.mirror {
        let fit = match asked.in_transaction {
            true => Err(Unmirrored::Transaction),
            false => fit::judge(text, &intent, mirror.takes()),
        };
        told.push(match fit {
            Ok(()) => "it is copied".to_owned(),
            Err(why) => format!("it is not copied ({})", why.name()),
        });
    }
    told
}

/// The same rules in ProxySQL's columns, as far as these can say them: a row for each rule, whose id is its place.
pub(super) fn proxysql_rules(outside: &Outside, _: &Surveyed, table: &mut Table) {
    let rules = outside.shared.rules();
    let labels: Vec<&String> = rules.iter().filter_map(|ready| ready.rule.label.as_ref()).collect();
    let flag =
        |label: &String| labels.iter().position(|known| *known == label).map(|at| at as u64 + 1);
    for (at, ready) in rules.iter().enumerate() {
        let rule = &ready.rule;
        let named = |name: &str| rule.conditions.iter().find(|it| it.name() == name).map(text_of);
        let leads = match &rule.then {
            Some(Then::Jump(label)) => flag(label),
            _ => None,
        };
        let group = rule.acts.route.as_ref().and_then(|route| hostgroup(outside, route));
        let nothing = || Value::Null;
        let error = rule.acts.refuse.as_ref().map(|it| it.message.clone());
        let acts = &rule.acts;
        let multiplex = acts.connection.map(|it| u64::from(it == RuleConnection::Share));
        let next = acts.next.as_ref().map(|next| match next {
            Next::Start => 0,
            Next::Jump(label) => flag(label).unwrap_or(0),
        });
        let millis = |time: Option<Duration>| {
            time.map(|it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
        };
        table.add([
            Value::Count(at as u64 + 1),
            Value::Count(u64::from(!rule.off)),
            named("user").into(),
            named("schema").into(),
            Value::Count(rule.label.as_ref().and_then(flag).unwrap_or(0)),
            named("address").into(),
            nothing(),
            nothing(),
            named("digest").into(),
            named("digest_matches").into(),
            named("text_matches").into(),
            Value::Count(0),
            "CASELESS".into(),
            leads.map_or(Value::Null, Value::Count),
            rule.acts.replace.as_ref().map(|(_, with)| with.clone()).into(),
            group.into(),
            nothing(),
            nothing(),
            nothing(),
            nothing(),
            millis(acts.statement_time).into(),
            acts.retries.map(u64::from).into(),
            millis(acts.delay).into(),
            next.into(),
            nothing(),
            nothing(),
            error.into(),
            acts.answer.as_ref().map(|_| "OK".to_owned()).into(),
            nothing(),
            multiplex.into(),
            nothing(),
            Value::Count(u64::from(!acts.log.is_empty())),
            Value::Count(u64::from(then(rule) == "stop")),
            Value::from(String::new()),
            rule.name.clone().into(),
        ]);
    }
}

/// The number that ProxySQL's tables here give to where a rule leads.
fn hostgroup(outside: &Outside, route: &RuleRoute) -> Option<u64> {
    let clusters = &outside.shared.cluster;
    let named = match &route.cluster {
        Some(name) => clusters.named(name)?,
        None => clusters.first_cluster(),
    };
    let (members, to_reader) = match &route.target {
        Some(RuleTarget::Server(name)) => {
            let id = clusters.servers.iter().find(|server| server.name == *name)?.id;
            let members = clusters.of(id);
            (members, !members.is_writer(id))
        }
        Some(RuleTarget::Role(role)) => (named, *role == RuleRole::Reader),
        None => (named, false),
    };
    Some(2 * members.id.0 as u64 + u64::from(to_reader))
}

pub(super) fn proxysql_hits(outside: &Outside, _: &Surveyed, table: &mut Table) {
    for (at, ready) in outside.shared.rules().iter().enumerate() {
        table.add([Value::Count(at as u64 + 1), ready.counts.hits().into()]);
    }
}

/// What a condition names, in one text.
fn text_of(condition: &Condition) -> String {
    use engine::statement::rule::DigestPattern;
    let joined = |texts: Vec<String>| texts.join(", ");
    match condition {
        Condition::User(names)
        | Condition::Schema(names)
        | Condition::Listener(names)
        | Condition::Program(names)
        | Condition::Cluster(names) => {
            joined(names.iter().map(|it| it.text().to_owned()).collect())
        }
        Condition::Address(networks) => {
            joined(networks.iter().map(|it| format!("{}/{}", it.address, it.bits)).collect())
        }
        Condition::Digest(digests) => joined(
            digests
                .iter()
                .map(|it| match it {
                    DigestPattern::Number(number) => format!("0x{number:016X}"),
                    DigestPattern::Text(text) => text.trim_end().to_owned(),
                })
                .collect(),
        ),
        Condition::DigestMatches(text) | Condition::TextMatches(text) => text.clone(),
        _ => String::new(),
    }
}
