//! Backends and their servers: which of them belong together, and what for.

use std::collections::{BTreeMap, BTreeSet};

use crate::draft::{Group, address, word};
use crate::form::Cluster;
use crate::value::{Value, time};
use crate::work::{Item, Work};

use super::Reader;
use super::addresses::{milliseconds, server};
use super::lines::{Line, Part, PartKind};
use super::settings::{self, PROXY};

/// What a backend is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Write,
    Read,
}

/// Backends by their names.
#[derive(Debug, Default)]
pub(super) struct Backends<'a> {
    known: BTreeMap<&'a str, (usize, Purpose)>,
    clusters: Vec<String>,
}

/// A backend on its way into a cluster.
struct Found<'a> {
    part: &'a Part,
    addresses: BTreeSet<String>,
    purpose: Purpose,
    stem: String,
}

impl<'a> Backends<'a> {
    pub(super) fn of(reader: &Reader<'a>, chosen: &BTreeSet<&str>, work: &mut Work) -> Self {
        let is_one = |part: &&Part| {
            let has_servers = part.lines.iter().any(|line| line.word(0) == "server");
            let is_kind = matches!(part.kind, PartKind::Backend | PartKind::Listen);
            is_kind && has_servers && chosen.contains(&*part.name)
        };
        let mut found: Vec<Found<'a>> = reader.parts.iter().filter(is_one).map(Found::of).collect();
        if found.len() == 1 {
            found.iter_mut().for_each(|it| it.purpose = Purpose::Write);
        }
        let mut backends = Self::default();
        let mut of_address: BTreeMap<&str, usize> = BTreeMap::new();
        let writers = found.iter().filter(|it| it.purpose == Purpose::Write).count();
        let mut of_stem: BTreeMap<&str, usize> = BTreeMap::new();
        // Those that are written to first, so that they name the cluster.
        let order = |wanted| found.iter().filter(move |it| it.purpose == wanted);
        for it in order(Purpose::Write).chain(order(Purpose::Read)) {
            let shared =
                it.addresses.iter().find_map(|address| of_address.get(&**address).copied());
            let beside = (it.purpose == Purpose::Read)
                .then(|| of_stem.get(&*it.stem).copied().or_else(|| (writers == 1).then_some(0)))
                .flatten()
                .filter(|at| *at < backends.clusters.len());
            let cluster = shared.or(beside).unwrap_or_else(|| {
                backends.clusters.push(word(&it.part.name));
                backends.clusters.len() - 1
            });
            of_stem.entry(&it.stem).or_insert(cluster);
            for address in &it.addresses {
                of_address.entry(address).or_insert(cluster);
            }
            backends.known.insert(&it.part.name, (cluster, it.purpose));
        }
        if 1 < backends.clusters.len() {
            for name in &backends.clusters {
                work.draft.clusters.push(Cluster { name: name.clone(), ..Cluster::default() });
            }
        }
        for it in &found {
            backends.tell(reader, it, work);
        }
        backends
    }

    /// The cluster of a backend, where there are several; and what the backend is for.
    pub(super) fn find(&self, name: &str) -> Option<(Option<String>, Purpose)> {
        let (cluster, purpose) = self.known.get(name)?;
        Some((self.name(*cluster), *purpose))
    }

    /// This cluster, if it is not the first one.
    pub(super) fn further(&self, cluster: Option<String>) -> Option<String> {
        cluster.filter(|name| self.clusters.first() != Some(name))
    }

    fn name(&self, cluster: usize) -> Option<String> {
        self.clusters.get(cluster).filter(|_| 1 < self.clusters.len()).cloned()
    }

    fn tell(&self, reader: &Reader<'a>, found: &Found<'a>, work: &mut Work) {
        let Some((cluster, purpose)) = self.known.get(&*found.part.name) else { return };
        let cluster = self.name(*cluster);
        let group = if *purpose == Purpose::Read { Group::Readers } else { Group::Writer };
        if found.part.kind == PartKind::Backend {
            settings::convert(reader, found.part, PROXY, work);
        }
        check(reader, found.part, work);
        let defaults = reader.last(found.part, "default-server");
        let servers: Vec<_> =
            found.part.lines.iter().filter(|line| line.word(0) == "server").collect();
        let weights = servers.iter().map(|line| weight(line, defaults)).collect::<Vec<_>>();
        let most = weights.iter().copied().max().unwrap_or(1);
        let is_even = weights.iter().all(|it| *it == most);
        if let Some(line) = defaults {
            Parameters::of(line.rest(1)).rest(&reader.item(found.part, line), work);
        }
        let mut active = 0;
        for (line, weight) in servers.into_iter().zip(weights) {
            let item = reader.item(found.part, line);
            let share = (!is_even).then(|| (weight * 100 / most).max(1));
            active += one(line, defaults, &item, (group, cluster.as_ref(), share), work);
        }
        if *purpose == Purpose::Write && 1 < active {
            let told = format!(
                "one of its {active} servers is written to at a time: the first one that is up"
            );
            work.differs(&reader.whole(found.part), &told);
        }
    }
}

impl<'a> Found<'a> {
    fn of(part: &'a Part) -> Self {
        let servers = part.lines.iter().filter(|line| line.word(0) == "server");
        let addresses = servers.filter_map(|line| server(line.word(2))).collect();
        let name = part.name.to_ascii_lowercase();
        let words: Vec<&str> = name.split(['-', '_', '.', ' ']).collect();
        let is_for = |list: &[&str], word: &&str| {
            list.contains(word) || list.iter().any(|it| it.len() > 3 && word.starts_with(it))
        };
        let is_read = words.iter().any(|it| is_for(READS, it));
        let stem = words.iter().filter(|it| !is_for(READS, it) && !is_for(WRITES, it));
        let stem = stem.copied().collect::<Vec<_>>().join("-");
        let purpose = if is_read { Purpose::Read } else { Purpose::Write };
        Self { part, addresses, purpose, stem }
    }
}

const READS: &[&str] = &["ro", "read", "reads", "reader", "readonly", "slave", "replica"];
const WRITES: &[&str] = &["rw", "write", "writes", "writer", "master", "primary"];

/// The check of a backend, which holds for all here.
fn check(reader: &Reader<'_>, part: &Part, work: &mut Work) {
    let Some(line) = reader.last_option(part, "mysql-check") else { return };
    let item = reader.item(part, line);
    match line.word(2) {
        "user" if !line.word(3).is_empty() => {
            let user = Value::from(line.word(3));
            if work.draft.option("checks.user") == Some(&user) {
                return;
            }
            work.set_noted(
                &item,
                "checks.user",
                user,
                "an account without a password, as there; give it one (checks.password)",
            );
            work.draft.set("checks.password", "".into(), "");
        }
        _ => work.needless(
            &item,
            "checks wait for the server's greeting, unless a user of [[users]] can ask more",
        ),
    }
}

/// Converts a server's line. Returns how many servers it gives that are no backups.
fn one(
    line: &Line,
    defaults: Option<&Line>,
    item: &Item,
    (group, cluster, weight): (Group, Option<&String>, Option<u64>),
    work: &mut Work,
) -> u32 {
    let Some(place) = server(line.word(2)) else {
        work.lost(
            item,
            "this is no address of a server here; write [[servers]] with address = \"host:port\"",
        );
        return 0;
    };
    let own = Parameters::of(line.rest(3));
    let shared = defaults.map(|line| Parameters::of(line.rest(1))).unwrap_or_default();
    let get = |name: &str| own.0.get(name).or_else(|| shared.0.get(name)).copied();
    if get("disabled").is_some() && get("enabled").is_none() {
        work.lost(item, "it is disabled; add it to [[servers]] when it is back, or DISABLE it on the console then");
        return 0;
    }
    if get("weight") == Some("0") {
        work.lost(item, "of weight 0 it got no clients; add it to [[servers]] when it shall, or DRAIN it on the console then");
        return 0;
    }
    let before = work.draft.server_at(&place).map(|server| server.group);
    let is_new = before.is_none();
    let server = work.draft.server(&place, line.word(1), group);
    if group == Group::Writer {
        server.group = group;
    }
    server.cluster = cluster.cloned();
    server.comments.push(item.comment());
    if let Some(weight) = weight {
        server.set("weight", weight.into());
    }
    let is_backup = get("backup").is_some();
    if is_backup && is_new {
        server.set("backup", "yes".into());
    }
    if let Some(agent) = agent(&place, &get) {
        server.set("agent", agent.into());
    }
    let told = format!("servers {:?}", server.name);
    match before.is_some_and(|before| before != group) {
        true => work.differs(item, &format!("{told}; {BOTH}")),
        false => work.converted(item, &told),
    }
    shared_options(item, &get, work);
    own_options(item, &place, &get, work);
    own.rest(item, work);
    u32::from(!is_backup)
}

/// What is told of a server that was written to and read from.
const BOTH: &str = "of group \"writer\", it is read from only while it is the writer and there are no readers; name a user that \
                    can ask servers for their role (checks.user), and leave the groups out";

/// A server's weight, which is 1 unless it is said.
fn weight(line: &Line, defaults: Option<&Line>) -> u64 {
    let said = |words: &[String]| {
        Parameters::of(words).0.get("weight").and_then(|it| it.parse::<u64>().ok())
    };
    let weight = said(line.rest(3)).or_else(|| said(defaults?.rest(1)));
    weight.unwrap_or(1).min(256)
}

/// Where a server's agent is.
fn agent<'a>(place: &str, get: &impl Fn(&str) -> Option<&'a str>) -> Option<String> {
    get("agent-check")?;
    let port: u16 = get("agent-port")?.parse().ok()?;
    let host = get("agent-addr").or_else(|| Some(place.rsplit_once(':')?.0))?;
    Some(address(host.trim_start_matches('[').trim_end_matches(']'), port))
}

/// What servers have each there, and all together here.
fn shared_options<'a>(item: &Item, get: &impl Fn(&str) -> Option<&'a str>, work: &mut Work) {
    let times: [(&str, &'static str); 5] = [
        ("inter", "checks.inter"),
        ("fastinter", "checks.fastinter"),
        ("downinter", "checks.downinter"),
        ("slowstart", "checks.slow_start"),
        ("agent-inter", "checks.agent_inter"),
    ];
    for (name, option) in times {
        let value = get(name).and_then(milliseconds).map(|it| time(it.clamp(10, 3_600_000)));
        together(item, name, option, value, work);
    }
    let silence = get("tcp-ut").and_then(milliseconds).filter(|it| *it != 0);
    let silence = silence.map(|it| time(it.clamp(5_000, 3_600_000)));
    together(item, "tcp-ut", "limits.server_silence", silence, work);
    let counts: [(&str, &'static str, u64); 2] =
        [("rise", "checks.rise", 100), ("fall", "checks.fall", 100)];
    for (name, option, most) in counts {
        let number = get(name).and_then(|it| it.parse::<u64>().ok()).filter(|it| *it != 0);
        together(item, name, option, number.map(|it| it.min(most).into()), work);
    }
}

/// What each server has of its own there and here.
fn own_options<'a>(
    item: &Item,
    place: &str,
    get: &impl Fn(&str) -> Option<&'a str>,
    work: &mut Work,
) {
    let mut set = |name: &str, key: &'static str, value: Value, difference: &str| {
        let item = Item { place: item.place.clone(), what: format!("{} ({name})", item.what) };
        work.set_of_server(&item, place, (key, value), difference);
    };
    let most = get("maxconn").and_then(|it| it.parse::<u64>().ok()).filter(|it| *it != 0);
    if let Some(most) = most {
        set("maxconn", "connections_max", most.min(100_000).into(), "");
    }
    if get("send-proxy-v2").is_some() {
        set("send-proxy-v2", "send_proxy", "v2".into(), "");
    } else if get("send-proxy").is_some() {
        set("send-proxy", "send_proxy", "v2".into(), "in version 2 of the header");
    }
    if get("ssl").is_none() {
        return;
    }
    let verifies = get("ca-file").filter(|_| get("verify") != Some("none"));
    let mode = if verifies.is_some() { "verify-ca" } else { "required" };
    let difference = "TLS begins within MySQL's protocol, as servers have it, and not before it";
    set("ssl", "tls", mode.into(), difference);
    if let Some(authority) = verifies {
        set("ca-file", "tls_ca", authority.into(), "");
    }
    if let Some(certificate) = get("crt") {
        set("crt", "tls_cert", certificate.into(), "");
        set("crt", "tls_key", certificate.into(), "");
    }
}

/// Sets an option unless it is so already; another value there is told.
fn together(item: &Item, name: &str, option: &'static str, value: Option<Value>, work: &mut Work) {
    let Some(value) = value else { return };
    match work.draft.option(option) {
        None => {
            let item = Item { place: item.place.clone(), what: format!("{} ({name})", item.what) };
            work.set(&item, option, value);
        }
        Some(has) if *has == value => {}
        Some(has) => {
            let told = format!("{name}: {option} is {has} for all servers");
            work.differs(item, &told);
        }
    }
}

/// The parameters of a server: words, some of which have a value.
#[derive(Debug, Default)]
struct Parameters<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Parameters<'a> {
    fn of(words: &'a [String]) -> Self {
        let mut parameters = BTreeMap::new();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let value =
                if ALONE.contains(&&**word) { "" } else { words.next().map_or("", |it| &**it) };
            parameters.insert(&**word, value);
        }
        Self(parameters)
    }

    /// Tells of those that no option has.
    fn rest(&self, item: &Item, work: &mut Work) {
        for (name, value) in &self.0 {
            if CONVERTED.contains(name) {
                continue;
            }
            let said = format!("{name} {value}");
            let said = said.trim_end();
            let named = |(begin, _): &&(&str, &str)| name.starts_with(begin);
            if let Some((_, told)) = DIFFERENT.iter().find(named) {
                work.differs(item, &format!("{said}: {told}"));
            } else if let Some((_, why)) = NEEDLESS.iter().find(named) {
                work.needless(item, &format!("{said}: {why}"));
            } else {
                let instead = LOST.iter().find(named).map_or("it is not known", |(_, it)| it);
                work.lost(item, &format!("{said}: {instead}"));
            }
        }
    }
}

/// Parameters that are told where they are converted.
const CONVERTED: &[&str] = &[
    "agent-addr",
    "agent-check",
    "agent-inter",
    "agent-port",
    "backup",
    "ca-file",
    "check",
    "crt",
    "disabled",
    "downinter",
    "enabled",
    "fall",
    "fastinter",
    "inter",
    "maxconn",
    "rise",
    "send-proxy",
    "send-proxy-v2",
    "slowstart",
    "ssl",
    "tcp-ut",
    "verify",
    "weight",
];

/// Parameters, or how they begin, with what is similar here.
const DIFFERENT: &[(&str, &str)] = &[
    (
        "port",
        "servers are asked on their own port, by MySQL's protocol: for their role, and a node of a Galera cluster whether it \
         is ready; another program can be an agent (servers.agent)",
    ),
    ("maxqueue", "the queue is bounded by limits.wait, and by classes.queue_max"),
    ("on-marked-down", "connections to a server that is down are closed, always"),
    ("on-marked-up", "see routing.gaps: a server that was down is not trusted at once"),
];

/// Parameters, or how they begin, that need nothing.
const NEEDLESS: &[(&str, &str)] = &[
    ("alpn", "TLS begins within MySQL's protocol"),
    ("check-", "checks are made as connections are"),
    ("ciphers", "TLS 1.2 and 1.3 are spoken"),
    ("cookie", "there are no cookies in MySQL's protocol"),
    ("error-limit", "connections that break have a server checked at once"),
    ("force-", "TLS 1.2 and 1.3 are spoken"),
    ("id", "it is a number for statistics"),
    ("init-addr", "names are resolved again by themselves: server.resolve"),
    ("init-state", "a server is checked before it is used"),
    ("log-", "logs go to standard error, or to logs.file"),
    ("minconn", "the limit of statements finds itself: server.limit"),
    ("no-", "nothing is to be switched off"),
    ("non-stick", "one server is written to, by all clients"),
    ("observe", "connections that break have a server checked at once"),
    ("on-error", "connections that break have a server checked at once"),
    ("pool-", "connections are always shared; see server.connections_max"),
    ("proto", "there is one protocol"),
    ("resolve", "names are resolved again by themselves: server.resolve"),
    ("sni", "TLS begins within MySQL's protocol"),
    ("ssl-", "TLS 1.2 and 1.3 are spoken"),
    ("stick", "one server is written to, by all clients"),
    ("tfo", "connections are kept, so that few are made"),
    ("tls-tickets", "TLS 1.2 and 1.3 are spoken"),
];

/// Parameters that have no value.
const ALONE: &[&str] = &[
    "agent-check",
    "allow-0rtt",
    "backup",
    "check",
    "check-send-proxy",
    "check-ssl",
    "check-via-socks4",
    "disabled",
    "enabled",
    "force-sslv3",
    "force-tlsv10",
    "force-tlsv11",
    "force-tlsv12",
    "force-tlsv13",
    "no-agent-check",
    "no-backup",
    "no-check",
    "no-check-ssl",
    "no-send-proxy",
    "no-send-proxy-v2",
    "no-ssl",
    "no-ssl-reuse",
    "no-sslv3",
    "no-tls-tickets",
    "no-tlsv10",
    "no-tlsv11",
    "no-tlsv12",
    "no-tlsv13",
    "no-verifyhost",
    "non-stick",
    "send-proxy",
    "send-proxy-v2",
    "send-proxy-v2-ssl",
    "send-proxy-v2-ssl-cn",
    "ssl",
    "ssl-reuse",
    "stick",
    "tfo",
    "tls-tickets",
];

const LOST: &[(&str, &str)] = &[
    ("addr", "checks use the server's own address"),
    ("crl-file", "lists of revoked certificates are not read"),
    ("track", "each server is checked itself"),
    ("verifyhost", "server.tls = \"verify-full\" and server.tls_server_name"),
    ("source", "the kernel chooses the address of connections to servers"),
    ("namespace", "connections are made from Flifo's own network namespace"),
    ("socks4", "servers are connected to directly"),
    ("redir", "there is no HTTP"),
];
