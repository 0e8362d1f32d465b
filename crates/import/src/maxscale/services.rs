//! Services and their listeners: where clients come in, and where their statements go.

use crate::draft::{Route, User};
use crate::form::{Act, Rule, Target, Then};
use crate::ini::IniSection;
use crate::password::Password;
use crate::value::{Value, time};
use crate::work::Work;

use super::filters;
use super::members::{Members, router, servers_of};
use super::settings::{self, LISTENER, SERVICE, milliseconds};
use super::{Reader, SectionKind, is_true, password};

/// A service that was understood.
pub(super) struct Served<'a> {
    pub(super) section: &'a IniSection,
    pub(super) mode: &'static str,
    pub(super) cluster: Option<String>,
    pub(super) listen: Vec<String>,
}

pub(super) fn convert(reader: &Reader<'_>, members: &Members<'_>, work: &mut Work) {
    let mut served = Vec::new();
    for section in reader.all(SectionKind::Service) {
        served.extend(service(reader, members, section, work));
    }
    for listener in reader.all(SectionKind::Listener) {
        listen(reader, listener, &mut served, work);
    }
    let Some(main) = main(&served) else {
        filters::convert(reader, &served, work);
        return;
    };
    let (mode, cluster) = (main.mode, main.cluster.clone());
    work.draft.set("routing.mode", mode.into(), &format!("[{}]", main.section.name));
    for own in &served {
        if own.mode != mode && !own.listen.is_empty() {
            let mut route = Route::new(own.mode, format!("[{}]", own.section.name));
            route.listen.clone_from(&own.listen);
            work.draft.routes.push(route);
        }
        if own.cluster != cluster && !own.listen.is_empty() {
            let name = work.draft.free_name("rule", &own.section.name);
            let mut rule = Rule::new(name, Then::Next);
            rule.conditions.listeners(&own.listen);
            let target = Target { cluster: own.cluster.clone(), ..Target::default() };
            rule.acts.push(Act::Route(target));
            let item = reader.whole(own.section);
            rule.comments.push(item.comment());
            work.rule(&item, rule, "");
        }
    }
    if cluster != members.name(0)
        && let Some(at) =
            work.draft.clusters.iter().position(|it| Some(&it.name) == cluster.as_ref())
    {
        // The first cluster is that of sessions for which nothing else is said.
        work.draft.clusters.swap(0, at);
    }
    filters::convert(reader, &served, work);
}

/// The service that all of Flifo is like unless a route says otherwise: of those that have the cluster of the first one
/// with a listener, one that splits.
fn main<'a, 'b>(served: &'b [Served<'a>]) -> Option<&'b Served<'a>> {
    let first = served.iter().find(|it| !it.listen.is_empty()).or_else(|| served.first())?;
    let is_split = |it: &&Served<'_>| it.mode == "split" && it.cluster == first.cluster;
    Some(served.iter().find(is_split).unwrap_or(first))
}

fn service<'a>(
    reader: &Reader<'a>,
    members: &Members<'a>,
    section: &'a IniSection,
    work: &mut Work,
) -> Option<Served<'a>> {
    let item = reader.whole(section);
    let options = section.list("router_options").join(",").to_ascii_lowercase();
    let differs = match (router(section), &*options) {
        ("readwritesplit", _) => ("split", ""),
        ("readconnroute", "master") => ("writer", ""),
        ("readconnroute", "slave") => ("readers", ""),
        ("readconnroute", "synced") => {
            ("writer", "one node is written to at a time; mode \"split\" reads from the others")
        }
        ("readconnroute", _) => ("readers", "the writer is read from while there are no readers"),
        ("schemarouter", _) => (
            "writer",
            "each server is a cluster; name its schemas in [[clusters]]: they are not found by themselves",
        ),
        ("cli" | "debugcli" | "maxinfo", _) => {
            work.needless(&item, "there are a console and an HTTP port");
            return None;
        }
        (other, _) => {
            work.lost(&item, &format!("there is nothing like the router {other:?} here"));
            return None;
        }
    };
    let (mode, difference) = differs;
    match difference {
        "" => work.converted(&item, &format!("mode {mode:?}")),
        _ => work.differs(&item, &format!("mode {mode:?}; {difference}")),
    }
    let servers = servers_of(reader, section);
    let cluster =
        servers.first().and_then(|it| members.cluster(it)).and_then(|it| members.name(it));
    account(reader, section, work);
    special(reader, section, work);
    settings::convert(reader, section, SERVICE, work);
    Some(Served { section, mode, cluster, listen: Vec::new() })
}

/// The account of a service reads the server's users.
fn account(reader: &Reader<'_>, section: &IniSection, work: &mut Work) {
    let Some(user) = section.get("user") else { return };
    let mut item = reader.whole(section);
    item.what = format!("[{}] user = {user}", section.name);
    let Some(Ok(password)) = password(section) else {
        let told = "its password is encrypted or missing: set server.accounts_user, and the user in [[users]]";
        return work.lost(&item, told);
    };
    match work.draft.option("server.accounts_user") {
        None => {
            work.set(&item, "server.accounts_user", user.into());
            let mut own = User::new(user.to_owned(), Some(Password::Plain(password.to_owned())));
            own.comments.push(item.comment());
            work.draft.add_user(own);
        }
        Some(Value::Text(it)) if it == user => {}
        Some(_) => {
            work.needless(&item, "one account reads the server's users: server.accounts_user")
        }
    }
}

/// Settings whose values are words.
fn special(reader: &Reader<'_>, section: &IniSection, work: &mut Work) {
    for entry in &section.entries {
        let item = reader.item(section, entry);
        match &*entry.key {
            "causal_reads" => match &*entry.value {
                "none" | "false" | "0" => work.set(&item, "routing.reads", "any".into()),
                "local" | "true" | "1" => work.set(&item, "routing.reads", "own_writes".into()),
                _ => {
                    let difference =
                        "a client reads what it has written itself, not what others have";
                    work.set_noted(&item, "routing.reads", "own_writes".into(), difference);
                }
            },
            "delayed_retry" if is_true(&entry.value) => {
                let timeout =
                    section.get("delayed_retry_timeout").and_then(|it| milliseconds(it, 1000));
                let hold = time(timeout.unwrap_or(10_000).min(3_600_000));
                let difference = "statements that have not been sent are held back; one that was sent is not sent again";
                work.set_noted(&item, "routing.hold", hold, difference);
            }
            _ => {}
        }
    }
}

fn listen(reader: &Reader<'_>, section: &IniSection, served: &mut [Served<'_>], work: &mut Work) {
    let item = reader.whole(section);
    let protocol = section.get("protocol").unwrap_or("mariadb").to_ascii_lowercase();
    let service = section.get("service").unwrap_or("none");
    if !["mariadb", "mysqlclient", "mariadbclient", "mariadbprotocol", "mysql"]
        .contains(&&*protocol)
    {
        return work.lost(&item, &format!("clients speak MySQL's protocol here, not {protocol}"));
    }
    let Some(own) = served.iter_mut().find(|it| it.section.name == service) else {
        return work.lost(&item, &format!("its service {service:?} was not converted"));
    };
    let port = section.get("port").map(|it| it.trim().parse::<u16>());
    let address = match (section.get("socket"), port) {
        (Some(socket), _) => socket.to_owned(),
        (None, Some(Ok(port))) => {
            crate::draft::address(section.get("address").unwrap_or("::"), port)
        }
        _ => return work.lost(&item, "a listener has a socket, or a port from 1 to 65535"),
    };
    own.listen.push(address.clone());
    work.listen(&item, &[address]);
    settings::convert(reader, section, LISTENER, work);
    for entry in &section.entries {
        let item = reader.item(section, entry);
        match &*entry.key {
            "ssl_ca" | "ssl_ca_cert"
                if section.get("ssl_verify_peer_certificate").is_some_and(is_true) =>
            {
                work.set(&item, "tls.client_ca", entry.value.as_str().into());
            }
            "ssl_ca" | "ssl_ca_cert" => work.needless(&item, "clients need no certificate"),
            "proxy_protocol_networks" => {
                let networks =
                    section.list("proxy_protocol_networks").into_iter().map(str::to_owned);
                work.set(&item, "proxy_protocol.from", networks.collect::<Vec<_>>().into());
            }
            _ => {}
        }
    }
}
