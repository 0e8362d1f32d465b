//! Servers and monitors: which servers belong together.

use std::collections::BTreeMap;

use crate::draft::{Group, address, word};
use crate::form::Cluster;
use crate::ini::IniSection;
use crate::value::{Value, time};
use crate::work::Work;

use super::settings::{self, MONITOR, milliseconds};
use super::{Reader, SectionKind, is_true, password};

/// Servers that are watched or used together.
#[derive(Debug)]
pub(super) struct Members<'a> {
    /// Each cluster's name, and the names of its servers.
    pub(super) clusters: Vec<(String, Vec<&'a str>)>,
    of: BTreeMap<&'a str, usize>,
}

impl<'a> Members<'a> {
    pub(super) fn of(reader: &Reader<'a>) -> Self {
        let mut members = Self { clusters: Vec::new(), of: BTreeMap::new() };
        for monitor in reader.all(SectionKind::Monitor) {
            members.join(word(&monitor.name), monitor.list("servers"));
        }
        for service in reader.all(SectionKind::Service) {
            let servers = servers_of(reader, service);
            match router(service) {
                "schemarouter" => {
                    servers.into_iter().for_each(|it| members.join(word(it), vec![it]))
                }
                _ => members.join(word(&service.name), servers),
            }
        }
        for server in reader.all(SectionKind::Server) {
            members.join(word(&server.name), vec![&*server.name]);
        }
        members
    }

    /// Servers that are together in one list are of one cluster, which is that of the first that has one.
    fn join(&mut self, name: String, servers: Vec<&'a str>) {
        let known = servers.iter().find_map(|it| self.of.get(it).copied());
        let fresh: Vec<_> = servers.into_iter().filter(|it| !self.of.contains_key(it)).collect();
        if fresh.is_empty() {
            return;
        }
        let at = known.unwrap_or_else(|| {
            self.clusters.push((name, Vec::new()));
            self.clusters.len() - 1
        });
        for server in fresh {
            if self.of.insert(server, at).is_none() {
                self.clusters[at].1.push(server);
            }
        }
    }

    /// The cluster of a server, by its number.
    pub(super) fn cluster(&self, server: &str) -> Option<usize> {
        self.of.get(server).copied()
    }

    /// A cluster's name, where there are several.
    pub(super) fn name(&self, cluster: usize) -> Option<String> {
        let (name, _) = self.clusters.get(cluster).filter(|_| 1 < self.clusters.len())?;
        Some(name.clone())
    }

    /// Makes servers, checks and clusters.
    pub(super) fn tell(&self, reader: &Reader<'a>, work: &mut Work) {
        let mut clusters: Vec<Cluster> = Vec::new();
        for (name, servers) in &self.clusters {
            let comments = vec![format!("servers {}", servers.join(", "))];
            clusters.push(Cluster { name: name.clone(), comments, ..Cluster::default() });
        }
        for monitor in reader.all(SectionKind::Monitor) {
            let cluster =
                monitor.list("servers").first().and_then(|it| self.cluster(it)).unwrap_or(0);
            match clusters.get_mut(cluster).filter(|_| cluster != 0) {
                None => first_monitor(reader, monitor, work),
                Some(own) => further_monitor(reader, monitor, own, work),
            }
        }
        let mut servers: Vec<_> = reader.all(SectionKind::Server).collect();
        servers.sort_by_key(|it| self.cluster(&it.name));
        for server in servers {
            self.server(reader, server, work);
        }
        if 1 < clusters.len() {
            work.draft.clusters = clusters;
        }
    }

    fn server(&self, reader: &Reader<'a>, section: &IniSection, work: &mut Work) {
        let item = reader.whole(section);
        let port = section.get("port").map(str::parse::<u16>).unwrap_or(Ok(3306));
        let place = match (section.get("socket"), section.get("address"), port) {
            (Some(socket), ..) => Some(socket.to_owned()),
            (None, Some(host), Ok(port)) => Some(address(host, port)),
            _ => None,
        };
        let Some(place) = place else {
            return work.lost(&item, "a server has an address, and a port from 1 to 65535");
        };
        let cluster = self.cluster(&section.name);
        let is_first = cluster.and_then(|it| self.clusters[it].1.first()) == Some(&&*section.name);
        if work.draft.server_at(&place).is_some() {
            return work.lost(&item, "another server has this address");
        }
        let server = work.draft.server(&place, &section.name, Group::Auto);
        server.fallback = if is_first { Group::Writer } else { Group::Readers };
        server.cluster = cluster.and_then(|it| self.name(it));
        server.comments.push(item.comment());
        if section.get("rank") == Some("secondary") {
            server.set("backup", "yes".into());
        }
        let told = format!("servers {:?}", server.name);
        work.converted(&item, &told);
        settings::convert_server(reader, section, &place, work);
        tls(reader, section, &place, work);
    }
}

/// How connections to a server are encrypted.
fn tls(reader: &Reader<'_>, section: &IniSection, place: &str, work: &mut Work) {
    let is_on = |key: &str| section.get(key).is_some_and(is_true);
    let has_authority = ["ssl_ca", "ssl_ca_cert"].iter().any(|key| section.get(key).is_some());
    let mode = match (has_authority, is_on("ssl_verify_peer_host")) {
        (false, _) => "required",
        (true, false) => "verify-ca",
        (true, true) => "verify-full",
    };
    for entry in section.entries.iter().filter(|it| it.key.starts_with("ssl")) {
        let item = reader.item(section, entry);
        let (key, value, difference) = match &*entry.key {
            "ssl" if is_on("ssl") => ("tls", mode, ""),
            "ssl" | "ssl_ca" | "ssl_ca_cert" | "ssl_cert" | "ssl_key" if !is_on("ssl") => {
                work.needless(&item, "ssl is off");
                continue;
            }
            "ssl_ca" | "ssl_ca_cert" if is_on("ssl_verify_peer_certificate") => {
                ("tls_ca", &*entry.value, "")
            }
            "ssl_ca" | "ssl_ca_cert" => {
                ("tls_ca", &*entry.value, "the server's certificate is verified by it")
            }
            "ssl_cert" => ("tls_cert", &*entry.value, ""),
            "ssl_key" => ("tls_key", &*entry.value, ""),
            _ => continue,
        };
        work.set_of_server(&item, place, (key, value.into()), difference);
    }
}

fn first_monitor(reader: &Reader<'_>, monitor: &IniSection, work: &mut Work) {
    kind(reader, monitor, work);
    if let Some(user) = monitor.get("user") {
        let item = reader.whole(monitor);
        match password(monitor) {
            Some(Ok(password)) => {
                work.set(&item, "checks.user", user.into());
                work.draft.set("checks.password", password.into(), &item.comment());
            }
            _ => work.lost(&item, "the password of its user is encrypted or missing: set checks.user and checks.password"),
        }
    }
    settings::convert(reader, monitor, MONITOR, work);
}

/// Checks of a cluster beside the first stand there.
fn further_monitor(
    reader: &Reader<'_>,
    monitor: &IniSection,
    cluster: &mut Cluster,
    work: &mut Work,
) {
    kind(reader, monitor, work);
    if let (Some(user), Some(Ok(password))) = (monitor.get("user"), password(monitor)) {
        cluster.options.push(("checks", "user", user.into()));
        cluster.options.push(("checks", "password", password.into()));
    }
    for entry in &monitor.entries {
        let option: Option<(&'static str, Option<Value>)> = match &*entry.key {
            "monitor_interval" => Some(("inter", milliseconds(&entry.value, 1).map(time))),
            "backend_connect_timeout" => {
                Some(("timeout", milliseconds(&entry.value, 1000).map(time)))
            }
            "backend_connect_attempts" => {
                Some(("fall", entry.value.parse::<u64>().ok().map(Value::Number)))
            }
            _ => None,
        };
        let item = reader.item(monitor, entry);
        match option {
            Some((key, Some(value))) => {
                work.converted(
                    &item,
                    &format!("clusters {:?}: checks.{key} = {value}", cluster.name),
                );
                cluster.options.push(("checks", key, value));
            }
            Some((_, None)) => work.lost(&item, "this is no time or number"),
            None => settings::convert(
                reader,
                &IniSection {
                    name: monitor.name.clone(),
                    line: monitor.line,
                    entries: vec![entry.clone()],
                },
                MONITOR,
                work,
            ),
        }
    }
}

fn kind(reader: &Reader<'_>, monitor: &IniSection, work: &mut Work) {
    let module = monitor.get("module").unwrap_or("none").to_ascii_lowercase();
    let item = reader.whole(monitor);
    match &*module {
        "mariadbmon" | "mysqlmon" | "galeramon" | "grmon" => {
            work.converted(&item, "servers are asked for their role: [checks]");
        }
        module => work.differs(&item, &format!("servers are asked for their role as MySQL and MariaDB tell it, not as {module} does")),
    }
}

/// What a service does.
pub(super) fn router(service: &IniSection) -> &str {
    service.get("router").unwrap_or("none")
}

/// The servers of a service, which may be those of its monitor.
pub(super) fn servers_of<'a>(reader: &Reader<'a>, service: &'a IniSection) -> Vec<&'a str> {
    let listed = [service.list("servers"), service.list("targets")].concat();
    let monitor = service.get("cluster");
    let watched = reader.all(SectionKind::Monitor).filter(|it| Some(&*it.name) == monitor);
    let watched = watched.flat_map(|it| it.list("servers"));
    let is_server = |name: &&str| reader.all(SectionKind::Server).any(|it| it.name == **name);
    listed.into_iter().chain(watched).filter(is_server).collect()
}
