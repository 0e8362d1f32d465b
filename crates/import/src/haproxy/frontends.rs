//! Frontends: where clients come in, and which backend their statements go to.

use std::collections::{BTreeMap, BTreeSet};

use crate::draft::{Class, Route};
use crate::form::{Act, Rule, Target, Then};
use crate::value::time;
use crate::work::{Item, Work};

use super::Reader;
use super::addresses::{listen, milliseconds};
use super::backends::{Backends, Purpose};
use super::lines::{Line, Part, PartKind};
use super::settings::{self, PROXY};

/// The backends that a frontend may use.
pub(super) fn targets(part: &Part) -> impl Iterator<Item = &str> {
    let lines =
        part.lines.iter().filter(|line| matches!(line.word(0), "default_backend" | "use_backend"));
    lines.map(|line| line.word(1))
}

pub(super) fn convert(
    reader: &Reader<'_>,
    chosen: &BTreeSet<&str>,
    backends: &Backends<'_>,
    work: &mut Work,
) {
    let is_one = |part: &&Part| {
        matches!(part.kind, PartKind::Frontend | PartKind::Listen) && chosen.contains(&*part.name)
    };
    for part in reader.parts.iter().filter(is_one) {
        frontend(reader, part, backends, work);
    }
}

fn frontend(reader: &Reader<'_>, part: &Part, backends: &Backends<'_>, work: &mut Work) {
    settings::convert(reader, part, PROXY, work);
    let mut listeners = Vec::new();
    for line in part.lines.iter().filter(|line| line.word(0) == "bind") {
        bind(line, &reader.item(part, line), &mut listeners, work);
    }
    let item = reader.whole(part);
    conditions(reader, part, &listeners, backends, work);
    let target = match part.kind {
        PartKind::Listen => Some((&*part.name, item.clone())),
        _ => {
            reader.last(part, "default_backend").map(|line| (line.word(1), reader.item(part, line)))
        }
    };
    let Some((name, item)) = target else {
        return work.lost(&item, "it has no default_backend");
    };
    let Some((cluster, purpose)) = backends.find(name) else {
        return work.lost(&item, &format!("backend {name:?} has no servers"));
    };
    let further = backends.further(cluster);
    if (purpose == Purpose::Read || further.is_some()) && !listeners.is_empty() {
        let mode = if purpose == Purpose::Read { "readers" } else { "writer" };
        let mut route = Route::new(mode, item.comment());
        route.listen.clone_from(&listeners);
        route.cluster = further;
        work.draft.routes.push(route);
    }
    let told = match purpose {
        Purpose::Read => "mode \"readers\" of these listeners",
        Purpose::Write => "mode \"writer\" of these listeners",
    };
    work.converted(&item, told);
}

fn bind(line: &Line, item: &Item, listeners: &mut Vec<String>, work: &mut Work) {
    let texts: Vec<&str> = line.word(1).split(',').collect();
    let own: Vec<String> = texts.iter().filter_map(|text| listen(text)).collect();
    if !own.is_empty() {
        work.listen(item, &own);
    }
    if own.len() < texts.len() {
        work.lost(item, "Flifo listens on IP addresses with one port each, and on Unix sockets");
    }
    listeners.extend(own);
    let mut words = line.rest(2).iter();
    while let Some(word) = words.next() {
        match &**word {
            "ssl" => {
                let difference =
                    "TLS begins within MySQL's protocol, as its clients have it, and not before it";
                if work.draft.option("tls.mode").is_none() {
                    work.set_noted(item, "tls.mode", "required".into(), difference);
                }
            }
            "crt" => {
                let file = words.next().map_or("", |it| &**it);
                if work.draft.option("tls.cert").is_none() {
                    work.set(item, "tls.cert", file.into());
                    work.draft.set("tls.key", file.into(), "the same file holds both");
                }
            }
            "ca-file" if work.draft.option("tls.client_ca").is_none() => {
                let file = words.next().map_or("", |it| &**it);
                work.set(item, "tls.client_ca", file.into());
            }
            "tcp-ut" => {
                let silence = words.next().and_then(|it| milliseconds(it)).filter(|it| *it != 0);
                if let Some(silence) = silence
                    && work.draft.option("limits.client_silence").is_none()
                {
                    let silence = time(silence.clamp(5_000, 3_600_000));
                    let difference = "slow readers are not disconnected by it";
                    work.set_noted(item, "limits.client_silence", silence, difference);
                }
            }
            "accept-proxy" => {
                work.lost(item, "accept-proxy: name the hosts that may say where clients come from: proxy_protocol.from");
            }
            "mode" | "user" | "group" | "uid" | "gid" if line.word(1).starts_with('/') => {
                words.next();
                work.lost(
                    item,
                    &format!("{word}: the folder of a socket decides which users may connect"),
                );
            }
            _ => {}
        }
    }
}

/// Lines of `use_backend`: those whose condition is where a client comes from become rules.
fn conditions(
    reader: &Reader<'_>,
    part: &Part,
    listeners: &[String],
    backends: &Backends<'_>,
    work: &mut Work,
) {
    let mut networks: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for line in part.lines.iter().filter(|line| line.word(0) == "acl") {
        match line.word(2) {
            "src" if line.rest(3).iter().all(|it| is_network(it)) => {
                networks.entry(line.word(1)).or_default().extend(line.rest(3).iter().cloned());
                work.needless(&reader.item(part, line), "it is a condition, told where it is used");
            }
            _ => work
                .lost(&reader.item(part, line), "match in [[rules]] has what a rule may ask for"),
        }
    }
    for line in part.lines.iter().filter(|line| line.word(0) == "use_backend") {
        let item = reader.item(part, line);
        let condition = line.rest(3);
        let inline = match condition {
            [open, src, inside @ .., close] if open == "{" && src == "src" && close == "}" => {
                inside.iter().all(|it| is_network(it)).then(|| inside.to_vec())
            }
            [name] => networks.get(&**name).cloned(),
            _ => None,
        };
        let target = backends.find(line.word(1));
        let (Some(networks), Some((cluster, purpose)), "if") = (inline, target, line.word(2))
        else {
            work.lost(&item, "write a rule: match in [[rules]] has what it may ask for");
            continue;
        };
        let named = format!("{}-{}", part.name, line.word(1));
        if work.draft.classes.len() < CLASSES_MAX && !listeners.is_empty() {
            let to = (purpose, backends.further(cluster));
            of_class(&item, &named, networks, to, listeners, work);
            continue;
        }
        let mut rule = Rule::new(work.draft.free_name("rule", &named), Then::Stop);
        rule.conditions.addresses(networks);
        rule.conditions.listeners(listeners);
        let role = if purpose == Purpose::Read { "reader" } else { "writer" };
        rule.acts.push(Act::Route(Target { cluster, role: Some(role), server: None }));
        rule.comments.push(item.comment());
        work.rule(&item, rule, "");
    }
}

/// Flifo has no more classes.
const CLASSES_MAX: usize = 31;

/// A class's name may be longer by what makes it another one's.
const CLASS_MAX: usize = 28;

/// Clients from some networks are a class, which has a mode: so clients that are passed through have it as well.
fn of_class(
    item: &Item,
    named: &str,
    networks: Vec<String>,
    (purpose, cluster): (Purpose, Option<String>),
    listeners: &[String],
    work: &mut Work,
) {
    let same = work.draft.classes.iter().find(|class| class.from == networks);
    let name = same.map(|class| class.name.clone()).unwrap_or_else(|| {
        work.draft.free_name("class", &named.chars().take(CLASS_MAX).collect::<String>())
    });
    let mode = if purpose == Purpose::Read { "readers" } else { "writer" };
    if !work.draft.classes.iter().any(|class| class.name == name) {
        let comments = vec![item.comment()];
        work.draft.classes.push(Class { name: name.clone(), from: networks, comments });
    }
    let mut route = Route::new(mode, item.comment());
    route.listen = listeners.to_vec();
    route.classes.push(name.clone());
    route.cluster = cluster;
    work.draft.routes.push(route);
    let told = format!(
        "classes {name:?}, and routes: mode {mode:?} of these clients; a class has its share of the server (classes.weight)"
    );
    work.differs(item, &told);
}

fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').unwrap_or((text, "0"));
    address.parse::<std::net::IpAddr>().is_ok() && bits.parse::<u8>().is_ok()
}
