//! Filters: most of them become rules.

use crate::form::{Act, Enabled, Rule, Target, Then, problem};
use crate::ini::{IniEntry, IniSection};
use crate::value::Value;
use crate::work::Work;

use super::services::Served;
use super::{Reader, SectionKind};

pub(super) fn convert(reader: &Reader<'_>, served: &[Served<'_>], work: &mut Work) {
    for section in reader.all(SectionKind::Filter) {
        let users: Vec<_> = served
            .iter()
            .filter(|it| it.section.list("filters").contains(&&*section.name))
            .collect();
        if users.is_empty() {
            work.needless(&reader.whole(section), "no service uses this filter");
            continue;
        }
        let listen: Vec<String> = match users.len() == served.len() {
            true => Vec::new(),
            false => users.iter().flat_map(|it| it.listen.clone()).collect(),
        };
        filter(reader, section, &listen, work);
    }
}

fn filter(reader: &Reader<'_>, section: &IniSection, listen: &[String], work: &mut Work) {
    let item = reader.whole(section);
    let module = section.get("module").unwrap_or("none").to_ascii_lowercase();
    let new_rule = |work: &mut Work, then| Filtered::new(section, listen, then, work);
    match &*module {
        "regexfilter" => {
            let (Some(find), Some(with)) = (section.get("match"), section.get("replace")) else {
                return work.lost(&item, "match and replace are missing");
            };
            let find = expression(find, section);
            let rule = new_rule(work, Then::Next);
            rule.with(Act::Replace { find, with: with.to_owned() }, &item, work);
        }
        "namedserverfilter" => named_servers(reader, section, listen, work),
        "throttlefilter" => match section.get("max_qps").and_then(|it| it.parse::<u64>().ok()) {
            Some(rate) => {
                work.differs(&item, "statements of all sessions together count, not those of each; those beyond are refused");
                let rule = new_rule(work, Then::Next);
                rule.with(Act::Rate(rate.max(1)), &item, work);
            }
            None => work.lost(&item, "max_qps is missing"),
        },
        "qlafilter" => log(section, reader, work),
        "tee" => work.lost(
            &item,
            "a mirror is a cluster: add [[clusters]], its servers, and a rule with mirror",
        ),
        "ccrfilter" => work
            .needless(&item, "clients read what they have written: routing.reads = \"own_writes\""),
        "psreuse" | "optimistictrx" => {
            work.needless(&item, "prepared statements are shared, and connections too")
        }
        "topfilter" | "tpmfilter" => {
            work.needless(&item, "SHOW DIGESTS on the console has such figures")
        }
        "comment" => work.lost(
            &item,
            "write a rule with comment: it adds a tag, of which it knows names and values",
        ),
        "dbfwfilter" => work.lost(
            &item,
            "write rules that refuse, or one with firewall, which learns (docs/manual/firewall.md)",
        ),
        "hintfilter" => work.lost(
            &item,
            "a comment class=… names a class; a rule with match.tag sends statements elsewhere",
        ),
        "cache" => work.lost(&item, "write a rule with cache (docs/manual/cache.md): it has match.table, user and text_matches"),
        "masking" | "maxrows" => work.lost(
            &item,
            "results are not changed here: let rights and views at the server do that",
        ),
        other => work.lost(&item, &format!("there is nothing like the filter {other:?} here")),
    }
}

/// An expression with its options as flags. A filter does not tell small letters from capital ones unless told so.
fn expression(text: &str, section: &IniSection) -> String {
    let options = section.get("options").unwrap_or_default();
    let inside = text.strip_prefix('/').and_then(|it| it.strip_suffix('/')).unwrap_or(text);
    if options.contains("case") && !options.contains("ignorecase") {
        return format!("(?-i){inside}");
    }
    inside.to_owned()
}

/// A rule that a filter becomes.
struct Filtered {
    rule: Rule,
}

impl Filtered {
    fn new(section: &IniSection, listen: &[String], then: Then, work: &mut Work) -> Self {
        let name = work.draft.free_name("rule", &section.name);
        let mut rule = Rule::new(name, then);
        if !listen.is_empty() {
            rule.conditions.listeners(listen);
        }
        if let Some(user) = section.get("user") {
            rule.conditions.user(user);
        }
        if let Some(source) = section.get("source") {
            rule.conditions.addresses(source.split(',').map(|it| it.trim().to_owned()).collect());
        }
        Self { rule }
    }

    fn with(mut self, act: Act, item: &crate::work::Item, work: &mut Work) {
        self.rule.acts.push(act);
        self.rule.comments.push(item.comment());
        let find = match &self.rule.acts[..] {
            [Act::Replace { find, .. }] => Some(find),
            _ => None,
        };
        match find.and_then(|it| problem(it)) {
            Some(_) => {
                self.rule.enabled = Enabled::No;
                let told = format!(
                    "rules {:?} is written, but not enabled: its expression is none here",
                    self.rule.name
                );
                work.lost(item, &told);
            }
            None => return work.rule(item, self.rule, ""),
        }
        work.draft.rules.push(self.rule);
    }
}

/// Pairs of `match01` and `target01`, or one of `match` and `server`.
fn named_servers(reader: &Reader<'_>, section: &IniSection, listen: &[String], work: &mut Work) {
    for entry in &section.entries {
        let Some(number) = entry.key.strip_prefix("match") else { continue };
        let target = section.get(&format!("target{number}")).or_else(|| section.get("server"));
        let Some(target) = target else {
            work.lost(&reader.item(section, entry), "its target is missing");
            continue;
        };
        named_server(reader, section, (entry, target), listen, work);
    }
}

fn named_server(
    reader: &Reader<'_>,
    section: &IniSection,
    (entry, target): (&IniEntry, &str),
    listen: &[String],
    work: &mut Work,
) {
    let item = reader.item(section, entry);
    let find = expression(&entry.value, section);
    if problem(&find).is_some() {
        return work.lost(&item, "its expression is none here");
    }
    let target = match target {
        "->master" => Target { role: Some("writer"), ..Target::default() },
        "->slave" => Target { role: Some("reader"), ..Target::default() },
        "->all" => return work.lost(&item, "no statement is sent to all servers"),
        several if several.contains(',') => {
            return work.lost(&item, "a rule names one server, a cluster or a role");
        }
        server => {
            work.differs(
                &item,
                "while that server is down its statements wait (routing.hold); a fallback in the rule's route sends them elsewhere",
            );
            Target { server: Some(crate::draft::word(server)), ..Target::default() }
        }
    };
    let mut filtered = Filtered::new(section, listen, Then::Stop, work);
    filtered.rule.conditions.text_matches(&find, false);
    filtered.with(Act::Route(target), &item, work);
}

/// A log of all statements is a slow log without a threshold.
fn log(section: &IniSection, reader: &Reader<'_>, work: &mut Work) {
    let item = reader.whole(section);
    let file = section.get("filebase").unwrap_or("/var/log/flifo/statements.log");
    let difference = "all statements are written, in the form of a slow log";
    work.log_file(&item, "logs.slow.file", file, difference);
    work.draft.set("logs.slow.threshold", Value::from("0s"), &item.comment());
    if ["match", "exclude", "user", "source"].iter().any(|key| section.get(key).is_some()) {
        work.lost(&item, "which statements are written: a rule with log = [\"slow\"] chooses them, with a threshold of \"none\"");
    }
}
