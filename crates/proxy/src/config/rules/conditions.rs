//! What a rule matches.

use engine::statement::comparable;
use engine::statement::kind::StatementKind;
use engine::statement::part::parts;
use engine::statement::rule::{
    Condition, DigestPattern, Rule, RuleNetwork, RuleRole, TablePattern,
};
use engine::statement::rules::expression;
use engine::statement::window::TimeWindow;
use toml::Spanned;
use toml::de::{DeTable, DeValue};
use wire::lex::Dialect;
use wire::like::{NameCase, NamePattern};
use wire::text::Lexed;

use super::CONDITIONS;
use super::values::RuleReader;
use crate::config::address;

/// `not`, `any` and `all` stand in one another this deep.
const DEPTH_MAX: usize = 8;

type Value<'v, 'd> = &'v Spanned<DeValue<'d>>;

pub(super) fn read(value: Value<'_, '_>, rule: &mut Rule, reader: &mut RuleReader<'_, '_>) {
    let Some(table) = reader.table(value, "rules.match") else { return };
    if let Some(share) = table.get("share") {
        rule.share = reader.share(share, "rules.match.share");
    }
    rule.conditions = read_all(table, 0, reader);
}

fn read_all(table: &DeTable<'_>, depth: usize, reader: &mut RuleReader<'_, '_>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for (key, value) in table.iter() {
        let name: &str = key.get_ref();
        let Some((name, _)) = CONDITIONS.iter().find(|(known, _)| *known == name) else {
            reader.unknown(key.span(), "rules.match", name, CONDITIONS);
            continue;
        };
        let option = format!("rules.match.{name}");
        match *name {
            "share" if depth == 0 => {}
            "share" => {
                let message = "a share is that of the whole rule: it stands in `match` itself";
                reader.wrong(key.span(), &option, message.to_owned());
            }
            "not" | "any" | "all" if depth == DEPTH_MAX => {
                let message =
                    format!("`not`, `any` and `all` stand in each other {DEPTH_MAX} deep at most");
                reader.wrong(key.span(), &option, message);
            }
            "not" => {
                if let Some(table) = reader.table(value, &option) {
                    conditions.push(Condition::Not(read_all(table, depth + 1, reader)));
                }
            }
            "any" => conditions.push(Condition::Any(lists(value, &option, depth, reader))),
            "all" => conditions.push(Condition::All(lists(value, &option, depth, reader))),
            "tag" => conditions.extend(tags(value, &option, reader)),
            name => conditions.extend(leaf(name, value, &option, reader)),
        }
    }
    conditions
}

fn lists(
    value: Value<'_, '_>,
    option: &str,
    depth: usize,
    reader: &mut RuleReader<'_, '_>,
) -> Vec<Vec<Condition>> {
    let Some(items) = value.get_ref().as_array() else {
        reader.wrong(value.span(), option, "this must be a list: [{ ... }, { ... }]".to_owned());
        return Vec::new();
    };
    let mut lists = Vec::new();
    for item in items.iter() {
        if let Some(table) = reader.table(item, option) {
            lists.push(read_all(table, depth + 1, reader));
        }
    }
    lists
}

fn tags(value: Value<'_, '_>, option: &str, reader: &mut RuleReader<'_, '_>) -> Vec<Condition> {
    let mut conditions = Vec::new();
    for (key, value) in reader.table(value, option).into_iter().flat_map(DeTable::iter) {
        let name: &str = key.get_ref();
        conditions
            .push(Condition::Tag(name.to_owned(), names(value, option, NameCase::Counts, reader)));
    }
    conditions
}

fn names(
    value: Value<'_, '_>,
    option: &str,
    case: NameCase,
    reader: &mut RuleReader<'_, '_>,
) -> Vec<NamePattern> {
    let texts = reader.texts(value, option);
    texts.into_iter().map(|(text, _)| NamePattern::new(text, case)).collect()
}

/// Reads each of some texts; what is wrong with one is told at its place.
fn each<T>(
    value: Value<'_, '_>,
    option: &str,
    reader: &mut RuleReader<'_, '_>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Vec<T> {
    let mut all = Vec::new();
    for (text, span) in reader.texts(value, option) {
        match read(text) {
            Ok(it) => all.push(it),
            Err(message) => reader.wrong(span, option, message),
        }
    }
    all
}

fn leaf(
    name: &str,
    value: Value<'_, '_>,
    option: &str,
    reader: &mut RuleReader<'_, '_>,
) -> Option<Condition> {
    Some(match name {
        "user" => Condition::User(names(value, option, NameCase::Counts, reader)),
        "schema" => Condition::Schema(names(value, option, NameCase::Ignored, reader)),
        "address" => Condition::Address(each(value, option, reader, |text| {
            let network = address::network(text)?;
            Ok(RuleNetwork { address: network.address, bits: network.bits })
        })),
        "listener" => Condition::Listener(names(value, option, NameCase::Counts, reader)),
        "program" => Condition::Program(names(value, option, NameCase::Counts, reader)),
        "cluster" => Condition::Cluster(names(value, option, NameCase::Counts, reader)),
        "role" => Condition::Role(each(value, option, reader, |text| {
            let wrong = || format!("{text:?} is no role: write \"reader\" or \"writer\"");
            RuleRole::named(text).ok_or_else(wrong)
        })),
        "kind" => Condition::Kind(each(value, option, reader, |text| {
            let known = StatementKind::ALL.map(|(name, _)| format!("{name:?}"));
            let wrong = || format!("{text:?} is none of {}", known.join(", "));
            StatementKind::named(text).ok_or_else(wrong)
        })),
        "table" => Condition::Table(each(value, option, reader, |text| Ok(table(text)))),
        "digest" => Condition::Digest(each(value, option, reader, digest)),
        "digest_matches" => Condition::DigestMatches(checked(value, option, reader)?),
        "text_matches" => Condition::TextMatches(checked(value, option, reader)?),
        "in_transaction" => Condition::InTransaction(reader.flag(value, option)?),
        "time" => Condition::Time(each(value, option, reader, TimeWindow::read)),
        _ => return None,
    })
}

fn checked(value: Value<'_, '_>, option: &str, reader: &mut RuleReader<'_, '_>) -> Option<String> {
    let text = reader.text(value, option)?;
    if let Err(message) = expression(text) {
        reader.wrong(value.span(), option, message);
        return None;
    }
    Some(text.to_owned())
}

fn table(text: &str) -> TablePattern {
    let pattern = |text: &str| NamePattern::new(text, NameCase::Ignored);
    match text.split_once('.') {
        Some((schema, table)) => {
            TablePattern { schema: Some(pattern(schema)), table: pattern(table) }
        }
        None => TablePattern { schema: None, table: pattern(text) },
    }
}

/// Longer statements are named by their numbers.
const DIGEST_MAX: usize = 16 << 10;

fn digest(text: &str) -> Result<DigestPattern, String> {
    let is_number = |it: &str| it.len() == 16 && it.bytes().all(|byte| byte.is_ascii_hexdigit());
    // As SHOW DIGESTS prints it, and as it stands in logs.
    let digits = text.strip_prefix("0x");
    if let Some(digits) = digits.or_else(|| is_number(text).then_some(text)) {
        let number = u64::from_str_radix(digits, 16).ok().filter(|_| is_number(digits));
        let wrong = || "a digest's number has 16 hexadecimal digits, as in SHOW DIGESTS".to_owned();
        return number.map(DigestPattern::Number).ok_or_else(wrong);
    }
    let lexed = Lexed::default();
    let parts = parts(lexed.text(text.as_bytes(), Dialect::default()));
    match parts.as_deref() {
        None => Err("a quote or comment never ends".to_owned()),
        Some([part]) if text.len() <= DIGEST_MAX => {
            let text = String::from_utf8_lossy(&comparable(part)).into_owned();
            Ok(DigestPattern::Text(text))
        }
        Some([_]) => {
            Err(format!("a statement has {DIGEST_MAX} bytes at most: name it by its number"))
        }
        Some(_) => Err("this is not one statement".to_owned()),
    }
}
