//! `[[rules]]`: reads them, and tells what is wrong with each, and with all of them together.
//!
//! Other than options, what a rule has stands in tables within tables; so it is read here, not by a table of rows. All
//! that is wrong is told with its place. What a rule means is said by [`engine::statement`].

mod acts;
mod check;
mod conditions;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;

use engine::statement::rule::{Rule, Then};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

pub(super) use self::check::check;
use self::values::RuleReader;
use super::problem::{Origin, Report};

/// What they are called.
pub(super) const RULES: &str = "rules";

/// Where the parts of a rule stand that are compared with others.
#[derive(Debug, Default)]
pub(super) struct RuleOrigins {
    pub(super) parts: BTreeMap<&'static str, Origin>,
    pub(super) whole: Option<Origin>,
    /// Something in it is wrong, and has been told.
    pub(super) is_wrong: bool,
}

impl RuleOrigins {
    pub(super) fn of(&self, part: &str) -> Origin {
        self.parts.get(part).or(self.whole.as_ref()).cloned().unwrap_or(Origin::Whole)
    }
}

/// What may stand in a rule, and what it says.
const KEYS: &[(&str, &str)] = &[
    (
        "name",
        "The rule's name, in messages, logs and `SHOW RULES`. Needed, and different for each.",
    ),
    ("note", "Free text."),
    ("enabled", "`false` has the rule do nothing."),
    (
        "label",
        "The rule is looked at only behind a jump to this label; without one, only if no rule has jumped.",
    ),
    ("match", "What a statement must be, see below; without it, any."),
    (
        "rewrite",
        "`{ from = \"SELECT ?a FROM t WHERE x = ?b\", to = \"...\" }`: a statement of one form becomes one of another.",
    ),
    (
        "replace",
        "`{ find = \"expression\", with = \"...$1...\" }`, over the text, literals and all.",
    ),
    ("hint", "An optimizer hint, put behind the first word."),
    ("comment", "A comment, put behind the first word."),
    (
        "refuse",
        "`true`, or `{ number = 1227, state = \"42000\", message = \"...\" }`: an error in the server's place.",
    ),
    (
        "answer",
        "`\"ok\"`, or `{ columns = [\"a\"], rows = [[\"1\"]] }`: a reply in the server's place.",
    ),
    (
        "route",
        "`{ cluster = \"archive\" }`, `{ role = \"reader\" }` or `\"writer\"`, `{ server = \"db2\", fallback = \
         \"reader\" }`: `fallback` is where it goes while that server cannot take it; a cluster may stand beside one of \
         the others.",
    ),
    ("class", "The statement's class, before any other that it might have."),
    (
        "rate",
        "`{ statements = 100, within = \"1s\", per = \"user\", burst = 200 }`: one more is refused with error 1226. \
              `per` is `all`, `user`, `schema`, `address` or `digest`.",
    ),
    ("delay", "The statement waits for so long first, unless its client is in a transaction."),
    (
        "at_once",
        "So many of its statements at once, in all workers together. Others wait, at most for `limits.wait`; a client in a \
         transaction does not.",
    ),
    (
        "firewall",
        "`{ mode = \"learn\", file = \"/var/lib/flifo/shop.forms\" }`: forms of statements are learnt into the file; \
              `\"detect\"` logs and counts what has another form, `\"protect\"` refuses it.",
    ),
    (
        "statement_time",
        "How long the statement may run at the server, where other limits (`limits.statement`) do not end it sooner.",
    ),
    (
        "queue_timeout",
        "How long the statement may wait for a place or a connection, where `limits.wait` is longer.",
    ),
    (
        "log",
        "`\"slow\"`, `\"audit\"` or both: these logs have the statement, whatever time it takes, if they are written.",
    ),
    (
        "connection",
        "`\"keep\"`: the client keeps its backend connection from here. `\"share\"`: it does no longer, as soon as nothing else \
         keeps it.",
    ),
    (
        "retries",
        "A read outside of a transaction whose connection is lost before its answer begins is run again so many times.",
    ),
    (
        "cache",
        "`\"5s\"`, or `{ for = \"5s\", stale = \"2s\", large = true }`: the reply to a read is kept for so long, for clients of \
         the same user that ask the same; a write of its tables that passes this Flifo ends it at once. `stale`: so much longer \
         others get it while one of them fetches a new one. `large`: replies of up to 8 MiB, instead of 256 KiB.",
    ),
    (
        "share_reads",
        "`\"on\"` or `\"off\"`: whether equal reads that wait at the same moment are run once, whatever \
         `server.share_reads`, `users.share_reads` and `classes.share_reads` say.",
    ),
    (
        "mirror",
        "`{ cluster = \"next\" }`: a copy of the statement runs in this cluster when it was answered, and the replies are \
         compared (`SHOW MIRRORS`). Beside it: `writes = true` (statements that change rows are copied as well), `at_once` \
         (copies that run at once, 4), `queue` (copies that wait, 100), `memory` (of copies that are held, 16MiB), `within` \
         (how long one may take, its wait among it, 5s).",
    ),
    (
        "then",
        "`\"next\"`, `\"stop\"` or `\"jump LABEL\"`. By default `\"stop\"` where the rule routes, refuses or answers, else `\"next\"`.",
    ),
    (
        "next",
        "`\"jump LABEL\"`: for the client's next statements, rules begin at those with this label, until another rule says \
         otherwise; `\"start\"`: at those without one.",
    ),
];

/// What may stand in `match`, `not`, `any` and `all`.
const CONDITIONS: &[(&str, &str)] = &[
    ("user", "Names or patterns with `%` and `_`."),
    ("schema", "Of the session, as it is now; without regard to capitals."),
    ("address", "Addresses or networks of clients."),
    (
        "listener",
        "The address that the client came in by, as `listen` has it: `\"127.0.0.1:6033\"`, `\"%:6033\"`.",
    ),
    (
        "program",
        "What the client's program calls itself (the connection attribute `program_name`).",
    ),
    ("cluster", "The cluster that the statement would go to if no rule sent it."),
    ("role", "`reader` or `writer`: where in that cluster."),
    ("kind", "`read`, `write`, `ddl`, `transaction` or `administration`."),
    ("table", "Tables that the statement names, with a schema or without."),
    ("digest", "A statement, whose literals do not matter, or `\"0x\"` and 16 hexadecimal digits."),
    ("digest_matches", "An expression over the text with `?` for each literal."),
    ("text_matches", "An expression over the text."),
    (
        "tag",
        "`{ app = \"billing\" }`: a tag in a comment, `/* app='billing' */` or `/* app:billing */`.",
    ),
    ("in_transaction", "Whether the client is in a transaction."),
    ("time", "`\"mon-fri 08:00-18:00\"`, in local time or with `UTC` behind it."),
    (
        "share",
        "Only this share of what matches otherwise, as in `0.01`. Not inside `not`, `any` or `all`.",
    ),
    ("not", "The same once more, which must not match."),
    ("any", "A list of the same, one of which must match."),
    ("all", "A list of the same, all of which must match."),
];

/// The part of the reference that tells of rules.
pub(super) fn describe(out: &mut String) {
    let mut list = |keys: &[(&str, &str)]| {
        for (key, doc) in keys {
            out.push_str(&format!("- `{key}`: {doc}\n"));
        }
    };
    list(KEYS);
    out.push_str("\nIn `match`, all that is written must hold:\n\n");
    let mut list = |keys: &[(&str, &str)]| {
        for (key, doc) in keys {
            out.push_str(&format!("- `{key}`: {doc}\n"));
        }
    };
    list(CONDITIONS);
}

/// Reads the list of rules.
pub(super) fn read(
    value: &Spanned<DeValue<'_>>,
    rules: &mut Vec<Rule>,
    places: &mut Vec<RuleOrigins>,
    report: &mut Report<'_>,
) {
    let refuse = |value: &Spanned<DeValue<'_>>, report: &mut Report<'_>| {
        let message = "each rule stands in a section of its own: write [[rules]]".to_owned();
        report.error(&Origin::Text(value.span()), Some(RULES.to_owned()), message);
    };
    let Some(items) = value.get_ref().as_array() else { return refuse(value, report) };
    for item in items.iter() {
        let Some(table) = item.get_ref().as_table() else {
            refuse(item, report);
            continue;
        };
        let mut reader = RuleReader::new(report);
        let (rule, mut origins) = read_rule(table, &mut reader);
        origins.whole = Some(Origin::Text(item.span()));
        origins.is_wrong = reader.was_wrong();
        rules.push(rule);
        places.push(origins);
    }
}

fn read_rule(table: &DeTable<'_>, reader: &mut RuleReader<'_, '_>) -> (Rule, RuleOrigins) {
    let (mut rule, mut origins) = (Rule::default(), RuleOrigins::default());
    for (key, value) in table.iter() {
        let name: &str = key.get_ref();
        let Some((name, _)) = KEYS.iter().find(|(known, _)| *known == name) else {
            reader.unknown(key.span(), "rules", name, KEYS);
            continue;
        };
        let name: &'static str = name;
        origins.parts.insert(name, Origin::Text(value.span()));
        match name {
            "name" => {
                let is_name = |text: &&str| (1..=NAME_MAX).contains(&text.chars().count());
                if let Some(text) = reader.text(value, "rules.name") {
                    match Some(text).filter(is_name) {
                        Some(text) => text.clone_into(&mut rule.name),
                        None => {
                            let message = format!("a rule's name has 1 to {NAME_MAX} characters");
                            reader.wrong(value.span(), "rules.name", message);
                        }
                    }
                }
            }
            "note" => rule.note = reader.text(value, "rules.note").unwrap_or_default().to_owned(),
            "enabled" => rule.off = reader.flag(value, "rules.enabled") == Some(false),
            "label" => rule.label = reader.text(value, "rules.label").map(str::to_owned),
            "match" => conditions::read(value, &mut rule, reader),
            "then" => rule.then = then(value, reader),
            act => acts::read(act, value, &mut rule.acts, reader),
        }
    }
    (rule, origins)
}

const NAME_MAX: usize = 64;

fn then(value: &Spanned<DeValue<'_>>, reader: &mut RuleReader<'_, '_>) -> Option<Then> {
    let text = reader.text(value, "rules.then")?;
    let mut words = text.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("next"), None, _) => Some(Then::Next),
        (Some("stop"), None, _) => Some(Then::Stop),
        (Some("jump"), Some(label), None) => Some(Then::Jump(label.to_owned())),
        _ => {
            let message = "it is \"next\", \"stop\" or \"jump LABEL\"".to_owned();
            reader.wrong(value.span(), "rules.then", message);
            None
        }
    }
}
