//! What must fit together in the end, whatever it comes from: a configuration that Flifo would refuse is of no use.

use crate::draft::{Draft, Group, User};
use crate::report::{Outcome, Place};
use crate::value::Value;
use crate::work::{Item, Work};

/// Makes the draft whole; `names` is what all sources together are called.
pub(crate) fn settle(work: &mut Work, names: &str) {
    let item = Item { place: Place::whole(names), what: "all of it".to_owned() };
    in_common(work);
    pairs(work, &item);
    roles(work, &item);
    backups(work, &item);
    if work.draft.servers.is_empty() {
        work.differs(
            &item,
            "no server is named: Flifo looks for the one of its own machine (server.address)",
        );
    }
    if work.draft.servers.len() == 1 && work.draft.clusters.is_empty() {
        only_server(work, &item);
    }
}

/// What all servers have each, with the same value, is written once.
fn in_common(work: &mut Work) {
    let draft = &mut work.draft;
    for (key, option) in COMMON {
        let mut values = draft.servers.iter().map(|server| server.own(key));
        let Some(Some(value)) = values.next() else { continue };
        if values.all(|other| other == Some(value)) && draft.option(option).is_none() {
            let note = draft.servers.first().and_then(|it| it.comments.first());
            let (value, note) = (value.clone(), note.cloned().unwrap_or_default());
            draft.set(option, value, &note);
            draft.servers.iter_mut().for_each(|server| server.unset(key));
        }
    }
}

/// Options of a server, and what holds for all.
const COMMON: [(&str, &str); 6] = [
    ("connections_max", "server.connections_max"),
    ("send_proxy", "server.send_proxy"),
    ("tls", "server.tls"),
    ("tls_ca", "server.tls_ca"),
    ("tls_cert", "server.tls_cert"),
    ("tls_key", "server.tls_key"),
];

/// Options that need each other.
fn pairs(work: &mut Work, item: &Item) {
    let pairs = [
        ("server.tls_cert", "server.tls_key"),
        ("tls.cert", "tls.key"),
        ("checks.user", "checks.password"),
    ];
    for server in &mut work.draft.servers {
        for (has, lacks) in [("tls_cert", "tls_key"), ("tls_key", "tls_cert")] {
            if server.own(has).is_some() && server.own(lacks).is_none() {
                server.unset(has);
                let told = format!(
                    "servers {:?}: {has} is left out, because {lacks} is not known",
                    server.name
                );
                work.report.add(&item.place, &item.what, Outcome::Lost, &told);
            }
        }
    }
    for (one, other) in pairs {
        for (has, lacks) in [(one, other), (other, one)] {
            if work.draft.option(has).is_some() && work.draft.option(lacks).is_none() {
                work.draft.unset(has);
                work.lost(item, &format!("{has} is left out, because {lacks} is not known"));
            }
        }
    }
}

/// Servers that say what they are for need a user that asks them.
fn roles(work: &mut Work, item: &Item) {
    let draft = &mut work.draft;
    let is_asked = draft.servers.iter().any(|server| server.group == Group::Auto);
    if is_asked && !can_ask(draft) {
        for server in draft.servers.iter_mut().filter(|server| server.group == Group::Auto) {
            server.group = server.fallback;
        }
        let told = "groups of servers are as they were: no user with a known password could ask them for their role. Set \
                    checks.user and checks.password, and leave their group out";
        work.differs(item, told);
    }
    let mut clusters: Vec<Option<String>> =
        work.draft.servers.iter().map(|it| it.cluster.clone()).collect();
    clusters.sort();
    clusters.dedup();
    for cluster in clusters {
        let mut own =
            work.draft.servers.iter_mut().filter(|server| server.cluster == cluster).peekable();
        let is_unwritten = own.peek().is_some() && own.all(|server| server.group == Group::Readers);
        let first = work.draft.servers.iter_mut().find(|server| server.cluster == cluster);
        if let Some(first) = first.filter(|_| is_unwritten) {
            first.group = Group::Writer;
            let told = format!(
                "servers {:?} is of group \"writer\": all were for reads, and one must be written to",
                first.name
            );
            work.differs(item, &told);
        }
    }
}

fn can_ask(draft: &Draft) -> bool {
    let is_plain = |user: &User| user.password.as_ref().is_some_and(|it| it.as_plain().is_some());
    let user = match draft.option("checks.user") {
        Some(Value::Text(name)) => Some(name),
        _ => None,
    };
    match user {
        Some(name) => {
            draft.option("checks.password").is_some() || draft.user(name).is_some_and(is_plain)
        }
        None => draft.users.iter().any(is_plain),
    }
}

/// Not all servers can be backups.
fn backups(work: &mut Work, item: &Item) {
    let is_backup = |more: &[(&str, Value)]| more.iter().any(|(key, _)| *key == "backup");
    let all = work.draft.servers.iter().all(|server| is_backup(&server.more));
    if let Some(first) = work.draft.servers.first_mut().filter(|_| all) {
        first.more.retain(|(key, _)| *key != "backup");
        let told = format!("servers {:?} is no backup: all were, and one must not be", first.name);
        work.differs(item, &told);
    }
}

/// One server stands in [server], which needs neither its role nor routes.
fn only_server(work: &mut Work, item: &Item) {
    let draft = &mut work.draft;
    let (routed, mut lost) = (!draft.rules.is_empty(), Vec::new());
    let Some(server) = draft.servers.first() else { return };
    let is_plain = server.more.iter().all(|(key, _)| matches!(*key, "weight" | "limit"));
    if routed || !is_plain {
        return;
    }
    let Some(server) = draft.servers.pop() else { return };
    let note = server.comments.first().cloned().unwrap_or_default();
    draft.set("server.address", server.address.into(), &note);
    draft.set("server.name", server.name.into(), "");
    for (_, value) in server.more.into_iter().filter(|(key, _)| *key == "limit") {
        draft.set("server.limit", value, "");
    }
    for option in
        ["routing.mode", "routing.lag_max", "routing.reads", "routing.hold", "checks.agent_inter"]
    {
        if draft.option(option).is_some() {
            draft.unset(option);
            lost.push(option);
        }
    }
    if !draft.routes.is_empty() {
        draft.routes.clear();
        lost.push("[[routes]]");
    }
    if !lost.is_empty() {
        work.needless(item, &format!("{} left out: there is one server", lost.join(", ")));
    }
}
