//! What a rule does.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use engine::sharing::ShareReads;
use engine::statement::edit::{fits_comment, unknown_group};
use engine::statement::firewall::FirewallMode;
use engine::statement::rule::{
    Next, RatePer, RuleActs, RuleAnswer, RuleCache, RuleConnection, RuleFirewall, RuleLog,
    RuleMirror, RuleRate, RuleRefusal, RuleRole, RuleRoute, RuleTarget,
};
use engine::statement::rules::expression;
use engine::statement::template::Template;
use toml::Spanned;
use toml::de::DeValue;

use super::values::RuleReader;

type Value<'v, 'd> = &'v Spanned<DeValue<'d>>;

pub(super) fn read(
    act: &str,
    value: Value<'_, '_>,
    acts: &mut RuleActs,
    reader: &mut RuleReader<'_, '_>,
) {
    match act {
        "rewrite" => acts.rewrite = rewrite(value, reader),
        "replace" => acts.replace = replace(value, reader),
        "hint" => acts.hint = comment(value, "rules.hint", reader),
        "comment" => acts.comment = comment(value, "rules.comment", reader),
        "refuse" => acts.refuse = refuse(value, reader),
        "answer" => acts.answer = answer(value, reader),
        "route" => acts.route = route(value, reader),
        "class" => acts.class = reader.text(value, "rules.class").map(str::to_owned),
        "rate" => acts.rate = rate(value, reader),
        "firewall" => acts.firewall = firewall(value, reader),
        "at_once" => acts.at_once = reader.number(value, "rules.at_once", 1..=100_000),
        "delay" => {
            let range = Duration::from_millis(1)..=Duration::from_secs(60);
            acts.delay = reader.duration(value, "rules.delay", range);
        }
        "statement_time" => {
            acts.statement_time = reader.duration(value, "rules.statement_time", TIMES);
        }
        "queue_timeout" => {
            acts.queue_timeout = reader.duration(value, "rules.queue_timeout", TIMES)
        }
        "log" => {
            for (text, span) in reader.texts(value, "rules.log") {
                match named(&RuleLog::ALL, text) {
                    Some(log) => acts.log.push(log),
                    None => reader.wrong(span, "rules.log", one_of(&RuleLog::ALL)),
                }
            }
        }
        "connection" => {
            if let Some(text) = reader.text(value, "rules.connection") {
                acts.connection = named(&RuleConnection::ALL, text);
                if acts.connection.is_none() {
                    reader.wrong(value.span(), "rules.connection", one_of(&RuleConnection::ALL));
                }
            }
        }
        "next" => acts.next = next(value, reader),
        "cache" => acts.cache = cache(value, reader),
        "mirror" => acts.mirror = mirror(value, reader),
        "share_reads" => {
            if let Some(text) = reader.text(value, "rules.share_reads") {
                match named(&SHARING, text) {
                    Some(sharing) => acts.share_reads = sharing,
                    None => reader.wrong(value.span(), "rules.share_reads", one_of(&SHARING)),
                }
            }
        }
        "retries" => acts.retries = reader.number(value, "rules.retries", 0..=10),
        _ => {}
    }
}

const SHARING: [(&str, ShareReads); 2] = [("on", ShareReads::On), ("off", ShareReads::Off)];

fn next(value: Value<'_, '_>, reader: &mut RuleReader<'_, '_>) -> Option<Next> {
    let text = reader.text(value, "rules.next")?;
    let mut words = text.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some("start"), None, _) => Some(Next::Start),
        (Some("jump"), Some(label), None) => Some(Next::Jump(label.to_owned())),
        _ => {
            let message = "it is \"start\" or \"jump LABEL\"".to_owned();
            reader.wrong(value.span(), "rules.next", message);
            None
        }
    }
}

fn cache(value: Value<'_, '_>, reader: &mut RuleReader<'_, '_>) -> Option<RuleCache> {
    let option = "rules.cache";
    let mut cache = RuleCache { keep: Duration::ZERO, stale: Duration::ZERO, is_large: false };
    if value.get_ref().as_table().is_none() {
        cache.keep = reader.duration(value, option, TIMES)?;
        return Some(cache);
    }
    let [keep, stale, large] = reader.fields(value, option, ["for", "stale", "large"])?;
    let Some(keep) = keep else {
        reader.wrong(value.span(), option, "it lacks `for`: how long a reply is kept".to_owned());
        return None;
    };
    cache.keep = reader.duration(keep, "rules.cache.for", TIMES)?;
    if let Some(stale) = stale {
        cache.stale = reader.duration(stale, "rules.cache.stale", TIMES)?;
    }
    if let Some(large) = large {
        cache.is_large = reader.flag(large, "rules.cache.large")?;
    }
    Some(cache)
}

/// How long a statement may run, or wait.
const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(86_400);

fn named<T: Copy>(all: &[(&str, T)], text: &str) -> Option<T> {
    all.iter().find(|(name, _)| *name == text).map(|(_, it)| *it)
}

fn one_of<T>(all: &[(&str, T)]) -> String {
    let names: Vec<_> = all.iter().map(|(name, _)| format!("{name:?}")).collect();
    format!("it is one of {}", names.join(", "))
}

fn rewrite(value: Value<'_, '_>, reader: &mut RuleReader<'_, '_>) -> Option<Template> {
    let option = "rules.rewrite";
    let [from, to] = reader.fields(value, option, ["from", "to"])?;
    let from = reader.needed(from, value, "rules.rewrite.from")?;
    let to = reader.needed(to, value, "rules.rewrite.to")?;
    match Template::read(from, to) {
        Ok(template) => Some(template),
        Err(message) => {
            reader.wrong(value.span(), option, message);
            None
        }
    }
}

/// The forms are read when all files are.
fn firewall(value: Value<'_, '_>, reader: &mut RuleReader<'_, '_>) -> Option<RuleFirewall> {
    let (option, mode_option) = ("rules.firewall", "rules.firewall.mode");
    let [mode_at, file] = reader.fields(value, option, ["mode", "file"])?;
    let named = reader.needed(mode_at, value, mode_option)?;
    let file = reader.needed(file, value, "rules.firewall.file")?;
    let mode = FirewallMode::ALL.iter().find(|(name, _)| *name == named);
    let Some((_, mode)) = mode else {
        let message = "this must be \"learn\", \"detect\" or \"protect\"".to_owned();
        reader.wrong(mode_at.unwrap_or(value).span(), mode_option, message);
        return None;
    };
    Some(RuleFirewall { mode: *mode, file: PathBuf::from(file), forms: [].into() })
}

fn replace(value: Value<'_, '_>, reader: &mut RuleReader<'_, '_>) -> Option<(String, String)> {
    let [find_at, with_at] = reader.fields(value, "rules.replace", ["find", "with"])?;
    let find = reader.needed(find_at, value, "rules.replace.find")?;
    let with = reader.needed(with_at, value, "rules.replace.with")?;
    match expression(find) {
        Err(message) => {
            reader.wrong(find_at.unwrap_or(value).span(), "rules.replace.find", message);
            return None;
        }
        Ok(ready) => {
            if let Some(unknown) = unknown_group(&ready, with) {
                let message = format!(
                    "${unknown} stands for nothing that `find` captures; write ${{1}} where letters or digits follow, \
                     and $$ for a dollar sign"
                );
                reader.wrong(with_at.unwrap_or(value).span(), "rules.replace.with", message);
                return None;
            }
        }
    }
    Some((find.to_owned(), with.to_owned()))
}

fn comment(value: Value<'_, '_>, option: &str, reader: &mut RuleReader<'_, '_>) -> Option<String> {
    let text = reader.text(value, option)?;
    if !fits_comment(text) {
        let message = "it stands in a comment, so it cannot hold /* or */".to_owned();
        reader.wrong(value.span(), option, message);
        return None;
    }
    Some(text.trim().to_owned())
}

/// What a client is told where the rule says nothing else. The rule's name is put behind it.
const REFUSED: (u16, [u8; 5]) = (1227, *b"42000");

fn refuse(value: Value<'_, '_>, reader: &mut RuleReader<'_, '_>) -> Option<RuleRefusal> {
    let option = "rules.refuse";
    let (number, state) = REFUSED;
    let mut refusal = RuleRefusal { number, state, message: String::new() };
    match value.get_ref() {
        DeValue::Boolean(true) => return Some(refusal),
        DeValue::Boolean(false) => return None,
        _ => {}
    }
    let [number, state, message] = reader.fields(value, option, ["number", "state", "message"])?;
    if let Some(number) = number {
        // Those of client libraries are taken for an impostor's.
        let given = reader.number(number, "rules.refuse.number", 1000..=65_535)?;
        if (2000..3000).contains(&given) {
            let message = "numbers from 2000 to 2999 are those of client libraries".to_owned();
            reader.wrong(number.span(), "rules.refuse.number", message);
        }
        refusal.number = u16::try_from(given).unwrap_or(REFUSED.0);
    }
    if let Some(state) = state {
        let text = reader.text(state, "rules.refuse.state")?;
        let is_state = |it: &[u8; 5]| it.iter().all(u8::is_ascii_alphanumeric);
        match <[u8; 5]>::try_from(text.as_bytes()).ok().filter(is_state) {
            Some(state) => refusal.state = state,
            None => {
                let message = "an SQLSTATE has five letters or digits".to_owned();
                reader.wrong(state.span(), "rules.refuse.state", message);
            }
        }
    }
    if let Some(message) = message {
        reader.text(message, "rules.refuse.message")?.clone_into(&mut refusal.message);
    }
    Some(refusal)
}

/// A fixed answer is small.
const CELLS_MAX: usize = 1000;
const NAME_MAX: usize = 64;

fn answer(value: Value<'_, '_>, reader: &mut RuleReader<'_, '_>) -> Option<RuleAnswer> {
    let option = "rules.answer";
    match value.get_ref().as_str() {
        Some("ok") => return Some(RuleAnswer::Ok),
        Some(_) => {
            let message = "it is \"ok\", or { columns = [\"a\"], rows = [[\"1\"]] }".to_owned();
            reader.wrong(value.span(), option, message);
            return None;
        }
        None => {}
    }
    let [columns_at, rows_at] = reader.fields(value, option, ["columns", "rows"])?;
    let mut columns = Vec::new();
    for (name, span) in
        columns_at.map(|it| reader.texts(it, "rules.answer.columns")).unwrap_or_default()
    {
        if name.is_empty() || NAME_MAX < name.chars().count() {
            let message = format!("a column's name has 1 to {NAME_MAX} characters");
            reader.wrong(span, "rules.answer.columns", message);
        }
        columns.push(name.to_owned());
    }
    if columns.is_empty() {
        reader.wrong(value.span(), option, "an answer has at least one column".to_owned());
        return None;
    }
    let mut rows = Vec::new();
    for row in rows_at.and_then(|it| it.get_ref().as_array()).into_iter().flat_map(|it| it.iter()) {
        let cells: Vec<_> =
            reader.texts(row, "rules.answer.rows").iter().map(|(it, _)| (*it).to_owned()).collect();
        if cells.len() != columns.len() {
            let message = format!("there are {} values for {} columns", cells.len(), columns.len());
            reader.wrong(row.span(), "rules.answer.rows", message);
        }
        rows.push(cells);
    }
    if CELLS_MAX < columns.len() * rows.len().max(1) {
        let message = format!("an answer has at most {CELLS_MAX} values");
        reader.wrong(value.span(), option, message);
    }
    Some(RuleAnswer::Rows { columns, rows })
}

fn route(value: Value<'_, '_>, reader: &mut RuleReader<'_, '_>) -> Option<RuleRoute> {
    let option = "rules.route";
    let names = ["cluster", "role", "server", "fallback"];
    let [cluster, role, server, fallback] = reader.fields(value, option, names)?;
    let target = match (role, server) {
        (None, None) if cluster.is_some() => None,
        (Some(role), None) => Some(RuleTarget::Role(self::role(role, "rules.route.role", reader)?)),
        (None, Some(server)) => {
            Some(RuleTarget::Server(reader.text(server, "rules.route.server")?.to_owned()))
        }
        _ => {
            let message =
                "it names a cluster, a role or a server; a server has its role".to_owned();
            reader.wrong(value.span(), option, message);
            return None;
        }
    };
    let cluster = match cluster {
        Some(cluster) => Some(reader.text(cluster, "rules.route.cluster")?.to_owned()),
        None => None,
    };
    let fallback = match fallback {
        Some(role) => {
            if !matches!(target, Some(RuleTarget::Server(_))) {
                let message = "it stands beside a server: a role goes by what servers are there";
                reader.wrong(role.span(), "rules.route.fallback", message.to_owned());
                return None;
            }
            Some(self::role(role, "rules.route.fallback", reader)?)
        }
        None => None,
    };
    Some(RuleRoute { cluster, target, fallback })
}

fn role(value: Value<'_, '_>, option: &str, reader: &mut RuleReader<'_, '_>) -> Option<RuleRole> {
    let role = RuleRole::named(reader.text(value, option)?);
    if role.is_none() {
        let message = "a role is \"reader\" or \"writer\"".to_owned();
        reader.wrong(value.span(), option, message);
    }
    role
}

fn mirror(value: Value<'_, '_>, reader: &mut RuleReader<'_, '_>) -> Option<RuleMirror> {
    let names = ["cluster", "writes", "at_once", "queue", "memory", "within"];
    let [cluster, writes, at_once, queue, memory, within] =
        reader.fields(value, "rules.mirror", names)?;
    let cluster = reader.needed(cluster, value, "rules.mirror.cluster")?;
    let mut mirror = RuleMirror::into(cluster.to_owned());
    if let Some(writes) = writes {
        mirror.writes = reader.flag(writes, "rules.mirror.writes")?;
    }
    if let Some(at_once) = at_once {
        mirror.at_once = reader.number(at_once, "rules.mirror.at_once", 1..=1000)?;
    }
    if let Some(queue) = queue {
        mirror.queue = reader.number(queue, "rules.mirror.queue", 0..=100_000)?;
    }
    if let Some(memory) = memory {
        mirror.memory = reader.size(memory, "rules.mirror.memory", 64 << 10..=1 << 30)?;
    }
    if let Some(within) = within {
        let range = Duration::from_millis(10)..=Duration::from_secs(3600);
        mirror.within = reader.duration(within, "rules.mirror.within", range)?;
    }
    Some(mirror)
}

fn rate(value: Value<'_, '_>, reader: &mut RuleReader<'_, '_>) -> Option<RuleRate> {
    let option = "rules.rate";
    let [statements, within, per, burst] =
        reader.fields(value, option, ["statements", "within", "per", "burst"])?;
    let Some(statements) = statements else {
        reader.wrong(value.span(), "rules.rate.statements", "this is missing".to_owned());
        return None;
    };
    let counts = 1..=1_000_000_000;
    let statements = reader.number(statements, "rules.rate.statements", counts.clone())?;
    let within = match within {
        Some(within) => {
            let range = Duration::from_millis(1)..=Duration::from_secs(86_400);
            reader.duration(within, "rules.rate.within", range)?
        }
        None => Duration::from_secs(1),
    };
    let per = match per {
        Some(per) => {
            let text = reader.text(per, "rules.rate.per")?;
            let found = RatePer::ALL.iter().find(|(name, _)| *name == text);
            if found.is_none() {
                let names = RatePer::ALL.map(|(name, _)| format!("{name:?}")).join(", ");
                reader.wrong(per.span(), "rules.rate.per", format!("it is one of {names}"));
            }
            found?.1
        }
        None => RatePer::All,
    };
    let burst = match burst {
        Some(burst) => reader.number(burst, "rules.rate.burst", counts)?,
        None => statements,
    };
    Some(RuleRate { per, statements, within, burst })
}
