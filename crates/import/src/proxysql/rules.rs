//! Rows of `mysql_query_rules` and `mysql_query_rules_fast_routing`.
//!
//! The last rules are often those that send reads to readers: they become the mode "split", which is sure that a
//! statement only reads. Before them may stand those of ports, which become routes. All others become rules. A rule of
//! which a condition is lost would match more than before: it is written, but not enabled.

use std::collections::{BTreeMap, BTreeSet};

use crate::draft::Route;
use crate::form::{Act, Conditions, Enabled, Rule, Target, Then, problem};
use crate::report::plain;
use crate::tables::{Row, Tables};
use crate::value::time;
use crate::work::Work;

use super::expression::{Picks, picks, replacement, with_flags};
use super::homes::Homes;
use super::ports;
use super::topology::{Duty, Topology};

pub(super) fn convert(tables: &Tables, topology: &Topology, homes: &Homes, work: &mut Work) {
    let mut rows: Vec<_> = tables.rows("mysql_query_rules").iter().collect();
    rows.sort_by_key(|row| row.number("rule_id").unwrap_or(i64::MAX));
    let active: Vec<&Row> = rows.iter().copied().filter(|row| is_active(row)).collect();
    let begin = begin_of_split(&active, topology, homes);
    let is_split = split(&active[begin..], work);
    let begin = ports::convert(&active[..begin], topology, homes, work);
    let told: BTreeSet<i64> =
        active[begin..].iter().filter_map(|row| row.number("rule_id")).collect();
    let digests = digests(tables);
    for row in rows {
        if is_active(row) && row.number("rule_id").is_some_and(|id| told.contains(&id)) {
            continue;
        }
        let goes_home = is_split;
        let (digests, lacks) = (&digests, Vec::new());
        Reader { row, topology, homes, digests, goes_home, lacks }.convert(work);
    }
    fast_routing(tables, topology, homes, work);
}

/// The label that stands for a flag: a rule with a label is asked behind a jump there only.
fn label(flag: i64) -> String {
    format!("flag-{flag}")
}

/// A file says nothing of a rule that is active.
fn is_active(row: &Row) -> bool {
    row.written("active").is_none() || row.is_on("active")
}

/// Texts of digests, by their numbers, as far as statistics tell.
fn digests(tables: &Tables) -> BTreeMap<String, String> {
    let rows = tables.rows("stats_mysql_query_digest").iter();
    rows.filter_map(|row| {
        Some((row.text("digest")?.to_ascii_lowercase(), row.text("digest_text")?.to_owned()))
    })
    .collect()
}

/// What only rules that do more than route have.
pub(super) const BEYOND: &[&str] = &[
    "schemaname",
    "client_addr",
    "proxy_addr",
    "proxy_port",
    "digest",
    "flagout",
    "replace_pattern",
    "cache_ttl",
    "timeout",
    "retries",
    "delay",
    "next_query_flagin",
    "mirror_flagout",
    "mirror_hostgroup",
    "error_msg",
    "ok_msg",
    "multiplex",
    "gtid_from_hostgroup",
    "log",
];

/// Where the rules begin that only send reads to readers, and what locks to the writer.
fn begin_of_split(active: &[&Row], topology: &Topology, homes: &Homes) -> usize {
    let says = |row: &Row, wanted: Picks, duty: Duty| {
        let expression = row.text("match_digest").or_else(|| row.text("match_pattern"));
        let is_both = row.text("match_digest").is_some() && row.text("match_pattern").is_some();
        let hostgroup = row.number("destination_hostgroup").and_then(|it| topology.member(it));
        let home = homes.cluster(row.text("username"), None);
        expression.is_some_and(|it| picks(it) == wanted)
            && !is_both
            && hostgroup.is_some_and(|it| it.duty == duty && home == Some(it.cluster))
            && row.number("flagin").unwrap_or(0) == 0
            && !row.is_on("negate_match_pattern")
            && BEYOND.iter().all(|column| row.text(column).is_none())
    };
    let mut begin = active.len();
    while let Some(select) = begin.checked_sub(1).and_then(|at| active.get(at)) {
        let is_last = begin == active.len();
        if !says(select, Picks::Selects, Duty::Reader) || !(is_last || select.is_on("apply")) {
            break;
        }
        let mut at = begin - 1;
        while let Some(locking) = at.checked_sub(1).and_then(|at| active.get(at))
            && says(locking, Picks::LockingSelects, Duty::Writer)
            && locking.is_on("apply")
            && locking.text("username") == select.text("username")
        {
            at -= 1;
        }
        begin = at;
    }
    begin
}

/// Makes the mode "split" of these rules. Returns whether it is that of all users.
fn split(rows: &[&Row], work: &mut Work) -> bool {
    let mut is_for_all = false;
    let difference = "statements that only read for certain go to readers; one that locks or calls what is unknown does \
                      not, whatever it begins with";
    let mut routes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for row in rows {
        let item = rule_item(row);
        match row.text("username") {
            None => {
                is_for_all = true;
                let told = format!("routing.mode = \"split\"; {difference}");
                work.draft.set("routing.mode", "split".into(), &item.comment());
                work.differs(&item, &told);
            }
            Some(user) => {
                work.differs(&item, &format!("routes: mode \"split\" of {user:?}; {difference}"));
                routes.entry(user).or_default().push(item.comment());
            }
        }
    }
    for (user, comments) in routes {
        let mut route = Route::new("split", String::new());
        route.comments = comments;
        route.users.push(user.to_owned());
        work.draft.routes.push(route);
    }
    is_for_all
}

pub(super) fn rule_item(row: &Row) -> crate::work::Item {
    let shown = [
        "rule_id",
        "username",
        "schemaname",
        "flagin",
        "proxy_port",
        "digest",
        "match_digest",
        "match_pattern",
        "destination_hostgroup",
        "apply",
    ];
    row.whole(&shown)
}

/// Reads one rule.
struct Reader<'a> {
    row: &'a Row,
    topology: &'a Topology,
    homes: &'a Homes,
    digests: &'a BTreeMap<String, String>,
    /// Whether a statement that no rule sends anywhere must be sent to the writer by one that ends here.
    goes_home: bool,
    /// Why the rule cannot be enabled.
    lacks: Vec<String>,
}

impl Reader<'_> {
    /// Adds the rule, unless it would do nothing.
    fn convert(mut self, work: &mut Work) {
        let row = self.row;
        let item = rule_item(row);
        let id = row.text("rule_id").unwrap_or("?");
        let then = match row.number("flagout") {
            Some(0) => {
                self.lacks
                    .push("flagOUT = 0: no jump leads back to rules without a label".to_owned());
                Then::Stop
            }
            Some(flag) => Then::Jump(label(flag)),
            None if row.is_on("apply") => Then::Stop,
            None => Then::Next,
        };
        let name = work.draft.free_name("rule", &format!("rule-{id}"));
        let mut rule = Rule::new(name, then);
        rule.label = row.number("flagin").filter(|flag| *flag != 0).map(label);
        rule.note = row.text("comment").map(plain).unwrap_or_default();
        rule.comments.push(item.comment());
        self.conditions(&mut rule.conditions, work);
        self.acts(&mut rule.acts, work);
        let ends = row.is_on("apply") && row.number("flagout").is_none();
        if self.goes_home && ends && rule.acts.is_empty() {
            rule.acts.push(Act::Route(Target { role: Some("writer"), ..Target::default() }));
        }
        if self.lacks.is_empty() && rule.acts.is_empty() && rule.then == Then::Next {
            return work.needless(&item, "what is left of it does nothing");
        }
        if !is_active(row) || !self.lacks.is_empty() {
            rule.enabled = Enabled::No;
        }
        if self.lacks.is_empty() {
            let is_rewritten = row.text("replace_pattern").is_some() && rule.then != Then::Stop;
            let text =
                is_rewritten.then(|| "rules behind it still see the text as it came".to_owned());
            let schema = self.homes.difference(row.text("schemaname"));
            let schema = schema.map(|others| format!("its schema has this cluster; {others}"));
            let differences: Vec<_> = text.into_iter().chain(schema).collect();
            return work.rule(&item, rule, &differences.join("; "));
        }
        let lacks = self.lacks.join("; ");
        rule.comments.push(format!("Not enabled: {lacks}"));
        let told = format!("rules {:?} is written, but not enabled: {lacks}", rule.name);
        work.lost(&item, &told);
        work.draft.rules.push(rule);
    }

    fn conditions(&mut self, conditions: &mut Conditions, work: &mut Work) {
        let row = self.row;
        if let Some(user) = row.text("username") {
            conditions.user(user);
        }
        if let Some(schema) = row.text("schemaname") {
            conditions.schema(schema);
        }
        if let Some(address) = row.text("client_addr") {
            match network(address) {
                Some(network) => conditions.addresses(vec![network]),
                None => self
                    .lacks
                    .push(format!("client_addr {address:?} is no network; write match.address")),
            }
        }
        self.listener(conditions, work);
        if let Some(digest) = row.text("digest") {
            match self.digests.get(&digest.to_ascii_lowercase()) {
                Some(text) => conditions.digest(text),
                None => self.lacks.push(format!(
                    "ProxySQL's digests are numbers of its own: write the statement of {digest} as match.digest \
                     (digest_text of stats_mysql_query_digest)"
                )),
            }
        }
        let negated = row.is_on("negate_match_pattern");
        let modifiers = row.text("re_modifiers");
        for column in ["match_digest", "match_pattern"] {
            let Some(expression) = row.text(column) else { continue };
            if let Some(problem) = problem(expression) {
                self.lacks.push(format!("{column}: {problem}"));
                continue;
            }
            let expression = with_flags(expression, modifiers);
            match column {
                "match_digest" => conditions.digest_matches(&expression, negated),
                _ => conditions.text_matches(&expression, negated),
            }
        }
        let pattern = row.text("match_pattern");
        if pattern.is_some_and(|it| it.contains("/\\*") || it.contains("/*")) {
            let told = "comments around a statement are no part of its text here; match.tag finds tags in them";
            work.differs(&row.item("match_pattern"), told);
        }
    }

    /// The address that the client came in at.
    fn listener(&mut self, conditions: &mut Conditions, work: &Work) {
        let row = self.row;
        let port = row.number("proxy_port").and_then(|port| u16::try_from(port).ok());
        let Some(found) = ports::listeners(row, work) else { return };
        match (found.is_empty(), row.text("proxy_addr"), port) {
            (false, ..) => conditions.listeners(&found),
            (true, None, Some(port)) => conditions.port(port),
            _ => self
                .lacks
                .push("no listener has the address proxy_addr and the port proxy_port".to_owned()),
        }
    }

    fn acts(&mut self, acts: &mut Vec<Act>, work: &mut Work) {
        let row = self.row;
        if let Some(hostgroup) = row.number("destination_hostgroup").filter(|it| 0 <= *it) {
            self.route(hostgroup, acts, work);
        }
        if let Some(replace) = row.written("replace_pattern") {
            let expression = row.text("match_pattern").or_else(|| row.text("match_digest"));
            match expression {
                Some(find) if problem(find).is_none() => {
                    let modifiers = row.text("re_modifiers");
                    acts.push(Act::Replace {
                        find: with_flags(find, modifiers),
                        with: replacement(replace),
                    });
                    if row.text("match_pattern").is_none() {
                        let told = "match_digest is looked for in the text, in which literals stand: see that it is found";
                        work.differs(&row.item("replace_pattern"), told);
                    }
                }
                Some(_) => {}
                None => self
                    .lacks
                    .push("replace_pattern without match_pattern replaces nothing".to_owned()),
            }
        }
        if let Some(message) = row.text("error_msg") {
            acts.push(Act::Refuse(message.to_owned()));
        }
        if row.text("ok_msg").is_some() {
            acts.push(Act::AnswerOk);
            work.differs(&row.item("ok_msg"), "the OK has no text");
        }
        let milliseconds =
            |column: &str| row.number(column).filter(|it| 0 < *it).map(i64::unsigned_abs);
        acts.extend(milliseconds("timeout").map(|it| Act::StatementTime(time(it.min(DAY)))));
        if let Some(delay) = milliseconds("delay") {
            acts.push(Act::Delay(time(delay.min(DELAY_MAX))));
            if DELAY_MAX < delay {
                work.differs(&row.item("delay"), "no delay is longer than a minute");
            }
        }
        acts.extend(milliseconds("retries").map(|it| Act::Retries(it.min(RETRIES_MAX))));
        acts.extend(milliseconds("cache_ttl").map(|it| Act::Cache(time(it.min(DAY)))));
        if row.is_on("log") {
            acts.push(Act::LogSlow);
        }
        match row.number("multiplex") {
            Some(0) => acts.push(Act::KeepConnection),
            Some(_) => acts.push(Act::ShareConnection),
            None => {}
        }
        self.mirror(acts, work);
        self.without_counterpart(work);
    }

    fn route(&mut self, hostgroup: i64, acts: &mut Vec<Act>, work: &mut Work) {
        let row = self.row;
        let Some((mut target, mut difference)) = self.topology.target(hostgroup) else {
            return self.lacks.push(format!("hostgroup {hostgroup} has no servers"));
        };
        let only = self.topology.only_server(hostgroup).and_then(|it| work.draft.server_at(it));
        if let Some(server) = only {
            target = Target { server: Some(server.name.clone()), role: None, ..target };
            difference = None;
        }
        if let Some(member) = self.topology.member(hostgroup) {
            target = self.homes.relative(row, target, member.cluster);
        }
        acts.push(Act::Route(target));
        if let Some(difference) = difference {
            work.differs(&row.item("destination_hostgroup"), difference);
        }
    }

    fn mirror(&mut self, acts: &mut Vec<Act>, work: &mut Work) {
        let row = self.row;
        if let Some(hostgroup) = row.number("mirror_hostgroup").filter(|it| 0 <= *it) {
            let cluster =
                self.topology.member(hostgroup).and_then(|it| self.topology.cluster(it.cluster));
            match cluster {
                Some(cluster) => acts.push(Act::Mirror { cluster }),
                None => work.lost(
                    &row.item("mirror_hostgroup"),
                    "mirrors are clusters of their own: see [[clusters]]",
                ),
            }
        }
        if row.text("mirror_flagout").is_some() {
            work.lost(&row.item("mirror_flagout"), "rules do not change what is mirrored");
        }
    }

    fn without_counterpart(&self, work: &mut Work) {
        let row = self.row;
        for (column, instead) in LOST {
            if row.is_on(column)
                || row.text(column).is_some_and(|it| row.number(column).is_none() && it != "{}")
            {
                work.lost(&row.item(column), instead);
            }
        }
        if row.text("gtid_from_hostgroup").is_some() {
            let told =
                "routing.reads = \"own_writes\" does that for all clients, and is the default";
            work.needless(&row.item("gtid_from_hostgroup"), told);
        }
    }
}

/// Milliseconds.
const DAY: u64 = 86_400_000;
const DELAY_MAX: u64 = 60_000;

const RETRIES_MAX: u64 = 10;

/// Columns of rules that have no counterpart.
const LOST: &[(&str, &str)] = &[
    (
        "next_query_flagin",
        "a rule has no effect on the next statement; keep the connection, or match match.in_transaction",
    ),
    ("reconnect", "a statement is sent once; what was not sent waits for a server (routing.hold)"),
    ("sticky_conn", "it had no effect there"),
    ("attributes", "there are no such attributes; match.share picks a part of the statements"),
];

/// A network from an address with `%` in the place of its last parts.
fn network(pattern: &str) -> Option<String> {
    if pattern.parse::<std::net::IpAddr>().is_ok() {
        return Some(pattern.to_owned());
    }
    let parts: Vec<&str> = pattern.split('.').collect();
    let fixed: Vec<&str> =
        parts.iter().copied().take_while(|part| part.parse::<u8>().is_ok()).collect();
    let (some, rest) = (fixed.len(), parts.get(fixed.len()..)?);
    let missing = 4_usize
        .checked_sub(some)
        .filter(|_| !rest.is_empty() && rest.iter().all(|part| *part == "%"))?;
    let address = [fixed, vec!["0"; missing]].concat().join(".");
    (missing != 0 && parts.len() <= 4).then(|| format!("{address}/{}", 8 * some))
}

/// Where statements of a user in a schema go: to the cluster of the schema, or a rule for each.
fn fast_routing(tables: &Tables, topology: &Topology, homes: &Homes, work: &mut Work) {
    for row in tables.rows("mysql_query_rules_fast_routing") {
        let item = row.whole(&["username", "schemaname", "flagin", "destination_hostgroup"]);
        let hostgroup = row.number("destination_hostgroup");
        let found = hostgroup.and_then(|it| Some((topology.member(it)?, topology.target(it)?)));
        let Some((member, (target, difference))) = found else {
            work.lost(&item, "this hostgroup has no servers");
            continue;
        };
        if row.number("flagin").unwrap_or(0) != 0 {
            work.lost(&item, "write a rule for it behind those of this flag");
            continue;
        }
        let target = homes.relative(row, target, member.cluster);
        if target.cluster.is_none() && member.duty == Duty::Writer {
            let name = topology.cluster(member.cluster).unwrap_or_else(|| "main".to_owned());
            let told = format!("clusters {name:?}, which serves these clients");
            match homes.difference(row.text("schemaname")) {
                Some(others) => work.differs(&item, &format!("{told}; {others}")),
                None => work.converted(&item, &told),
            }
            continue;
        }
        let wanted = format!(
            "{}-{}",
            row.text("username").unwrap_or("all"),
            row.text("schemaname").unwrap_or("all")
        );
        let mut rule = Rule::new(work.draft.free_name("rule", &wanted), Then::Stop);
        if let Some(user) = row.text("username") {
            rule.conditions.user(user);
        }
        if let Some(schema) = row.text("schemaname") {
            rule.conditions.schema(schema);
        }
        rule.comments.push(item.comment());
        rule.acts.push(Act::Route(target));
        work.rule(&item, rule, difference.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_with_wildcards_are_networks() {
        let cases = [
            ("10.0.0.7", Some("10.0.0.7")),
            ("10.%", Some("10.0.0.0/8")),
            ("10.1.%", Some("10.1.0.0/16")),
            ("192.168.1.%", Some("192.168.1.0/24")),
            ("10.1.%.%", Some("10.1.0.0/16")),
            ("%", Some("0.0.0.0/0")),
            ("10.1%", None),
            ("%.10", None),
            ("host%", None),
            ("1.2.3.4.%", None),
        ];
        for (pattern, want) in cases {
            assert_eq!(network(pattern).as_deref(), want, "{pattern}");
        }
    }
}
