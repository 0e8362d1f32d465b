//! What is wrong although each value alone is right: contradictions, and what has no effect.
//!
//! Looks at no file. An option that is not written contradicts nothing: its default gives way in the message, never in
//! the plan. What is wrong in itself is not compared with anything.

mod clusters;
mod members;

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use backend::Address;
use backend::tls::Mode;
use engine::classes::CLASSES_MAX;
use engine::statement::rule::RuleLog;

use super::plan::{
    ClientTlsMode, Listen, Password, PlacementPolicy, ServerOptions, ServerRule, UserOptions,
};
use super::problem::{Origin, Report};
use super::reader::{Reading, Written, WrittenItem};
use super::rules;
use super::units::show_duration;

/// Tells of everything that does not fit together.
pub(super) fn contradictions(reading: &mut Reading<'_>) {
    if !reading.report.is_toml {
        return;
    }
    let is_right = |reading: &Reading<'_>, prefix| reading.written.is_right(prefix);
    if is_right(reading, "listen") {
        listeners(reading);
    }
    if is_right(reading, "tls.") {
        client_tls(reading);
    }
    if is_right(reading, "server.") {
        server(reading);
        server_tls(reading);
    }
    if is_right(reading, "limits.") {
        limits(reading);
    }
    if is_right(reading, "console.") && is_right(reading, "http.") {
        outside(reading);
    }
    if is_right(reading, "logs.") {
        logs(reading);
    }
    if is_right(reading, "placement.") {
        placement(reading);
    }
    users(reading);
    classes(reading);
    rules::check(reading);
    accounts(reading);
    if is_right(reading, "checks.") {
        members::check_account(reading);
    }
    if is_right(reading, "cache.") && is_right(reading, "checks.") {
        members::check_follower(reading);
    }
    if reading.clusters.iter().all(|it| it.written.is_right("clusters.")) {
        clusters::contradictions(reading);
    }
    if is_right(reading, "") && reading.clusters.iter().all(|it| it.written.is_right("")) {
        members::contradictions(reading);
    }
}

/// The user that reads the server's table of accounts must be able to log in for that.
fn accounts(reading: &mut Reading<'_>) {
    let Reading { plan, written, report, .. } = reading;
    let ignored = match &plan.server {
        server if !server.learn_passwords => None,
        server if server.accounts_user.is_some() => Some("server.accounts_user reads all accounts"),
        _ if plan.sends_headers() => Some("server.send_proxy lets the server tell accounts apart"),
        _ => None,
    };
    ignored.into_iter().for_each(|why| no_effect(report, written, "server.learn_passwords", why));
    let Some(name) = &plan.server.accounts_user else { return };
    let user = plan.users.iter().find(|user| user.name == *name);
    let logs_in = |user: &UserOptions| {
        user.pooled
            && (user.password_file.is_some() || matches!(user.password, Some(Password::Plain(_))))
    };
    if !user.is_some_and(logs_in) {
        let message = format!(
            "{name:?} is not among [[users]] with its password (not a hash of it), so that Flifo \
             cannot log in to read the server's table of accounts"
        );
        let path = "server.accounts_user";
        report.error(&written.origin(path), Some(path.to_owned()), message);
    }
}

/// CPUs are named where they are used, and only there.
fn placement(reading: &mut Reading<'_>) {
    let Reading { plan, written, report, .. } = reading;
    let placement = &plan.placement;
    let names = ["placement.worker_cpus", "placement.server_cpus"];
    if placement.policy != PlacementPolicy::Cpus {
        for name in names {
            no_effect(report, written, name, "placement.policy is not \"cpus\"");
        }
    } else if placement.worker_cpus.is_none() && placement.server_cpus.is_none() {
        let message =
            "no CPUs are named: write placement.worker_cpus, placement.server_cpus or both";
        let option = "placement.policy";
        report.error(&written.origin(option), Some(option.to_owned()), message.to_owned());
    }
}

/// What can be seen from other machines needs a secret.
fn outside(reading: &mut Reading<'_>) {
    let Reading { plan, written, report, .. } = reading;
    let console = (&plan.console.listen, plan.console.password.is_some(), "console", "password");
    let http = (&plan.http.listen, plan.http.token.is_some(), "http", "token");
    for (listeners, has_secret, section, secret) in [console, http] {
        let path = format!("{section}.listen");
        for (index, listen) in listeners.iter().enumerate() {
            let Listen::Tcp(address) = listen else { continue };
            if !address.ip().is_loopback() && !has_secret {
                let message = format!(
                    "{listen} can be reached from other machines, and there is no \
                     {section}.{secret}: write one, or listen on 127.0.0.1"
                );
                report.error(&written.item(&path, index), Some(path.clone()), message);
            }
        }
    }
}

fn listeners(reading: &mut Reading<'_>) {
    let Reading { plan, written, report, .. } = reading;
    let mut error = |index: usize, message: String| {
        report.error(&written.item("listen", index), Some("listen".to_owned()), message);
    };
    if plan.listen.is_empty() {
        error(0, "the list is empty: clients could connect nowhere".to_owned());
    }
    let mut seen: HashMap<&Listen, usize> = HashMap::new();
    for (index, listen) in plan.listen.iter().enumerate() {
        if seen.insert(listen, index).is_some() && !is_any_port(listen) {
            error(index, format!("{listen} is listed twice"));
        }
    }
    for (index, listen) in plan.listen.iter().enumerate() {
        let Listen::Tcp(address) = listen else { continue };
        let all = Listen::Tcp(match address {
            SocketAddr::V4(_) => SocketAddr::from(([0; 4], address.port())),
            SocketAddr::V6(_) => SocketAddr::from(([0; 16], address.port())),
        });
        if all != *listen && !is_any_port(listen) && seen.contains_key(&all) {
            error(index, format!("{listen} cannot be listed beside {all}, which includes it"));
        }
    }
    if let Some(address) = &plan.server.address
        && let Some(index) = plan.listen.iter().position(|listen| is_same(listen, address))
    {
        error(index, format!("{address} is also server.address: Flifo would be its own server"));
    }
}

/// Port 0 is a free port, another one each time.
const fn is_any_port(listen: &Listen) -> bool {
    matches!(listen, Listen::Tcp(address) if address.port() == 0)
}

fn is_same(listen: &Listen, server: &Address) -> bool {
    match (listen, server) {
        (Listen::Unix(listen), Address::Unix(server)) => listen == server,
        (Listen::Tcp(listen), Address::Tcp { host, port }) => {
            let is_host = if host == "localhost" {
                listen.ip().is_loopback() || listen.ip().is_unspecified()
            } else {
                host.parse::<IpAddr>().is_ok_and(|host| listen.ip() == host)
            };
            is_host && listen.port() == *port && *port != 0
        }
        _ => false,
    }
}

fn client_tls(reading: &mut Reading<'_>) {
    let Reading { plan, written, report, .. } = reading;
    identity(report, written, "tls.cert", "tls.key");
    if plan.tls.mode == ClientTlsMode::Off {
        for path in ["tls.cert", "tls.key", "tls.client_ca"] {
            no_effect(report, written, path, "tls.mode is \"off\"");
        }
    }
}

fn server(reading: &mut Reading<'_>) {
    let Reading { plan, written, report, .. } = reading;
    let server = &plan.server;
    if let Some(limit) = server.limit
        && server.connections_max < limit
        && written.has("server.limit")
    {
        let message = format!(
            "{} statements never run at once, because server.connections_max allows only {} backend connections",
            limit, server.connections_max
        );
        report.warn(&written.origin("server.limit"), "server.limit", message);
    }
    if server.limit.is_some() {
        no_effect(report, written, "server.rhythm", "server.limit is a number");
    }
}

fn server_tls(reading: &mut Reading<'_>) {
    let Reading { plan, written, clusters, servers, report, .. } = reading;
    tls_to(&plan.server, written, report);
    for (rule, place) in plan.clusters.iter().zip(clusters) {
        tls_to(&rule.options.server, &place.written, report);
    }
    for (rule, place) in plan.servers.iter().zip(servers) {
        tls_to_one(rule, plan.governing(&rule.cluster).server, &place.written, report);
    }
    let has_host = matches!(plan.server.address, Some(Address::Tcp { .. }));
    let server = &plan.server;
    if server.tls.mode == Mode::VerifyFull && !has_host && server.tls_server_name.is_none() {
        let message = "server.address has no host name that the server's certificate could bear: \
                       name one in server.tls_server_name, or take \"verify-ca\"";
        let option = "server.tls";
        report.error(&written.origin(option), Some(option.to_owned()), message.to_owned());
    }
}

/// TLS to the servers of all clusters, or of one.
fn tls_to(server: &ServerOptions, written: &Written, report: &mut Report<'_>) {
    let tls = &server.tls;
    identity(report, written, "server.tls_cert", "server.tls_key");
    if tls.mode == Mode::Off {
        let why = "server.tls is \"off\"";
        for path in ["server.tls_cert", "server.tls_key", "server.tls_server_name"] {
            no_effect(report, written, path, why);
        }
    }
    if written.has("server.tls_ca") && !tls.mode.verifies() {
        let message = format!(
            "an authority is named, but with server.tls = \"{}\" nothing is verified; take \
             \"verify-ca\" or \"verify-full\"",
            tls.mode
        );
        let option = "server.tls_ca";
        report.error(&written.origin(option), Some(option.to_owned()), message);
    }
}

/// TLS to one of several servers.
fn tls_to_one(
    rule: &ServerRule,
    options: &ServerOptions,
    written: &Written,
    report: &mut Report<'_>,
) {
    identity(report, written, "servers.tls_cert", "servers.tls_key");
    let (tls, name) = rule.tls_to(options);
    if tls.mode == Mode::Off {
        for path in ["servers.tls_ca", "servers.tls_cert", "servers.tls_server_name"] {
            no_effect(report, written, path, "TLS is \"off\" for this server");
        }
    } else if written.has("servers.tls_ca") && !tls.mode.verifies() {
        let option = "servers.tls_ca";
        let message = format!(
            "an authority is named, but with tls = \"{}\" nothing is verified; take \
             \"verify-ca\" or \"verify-full\"",
            tls.mode
        );
        report.error(&written.origin(option), Some(option.to_owned()), message);
    }
    let has_host = matches!(rule.address, Some(Address::Tcp { .. }) | None);
    if written.has("servers.tls") && tls.mode == Mode::VerifyFull && !has_host && name.is_none() {
        let message = "the server's address has no host name that its certificate could bear: \
                       name one in tls_server_name, or take \"verify-ca\"";
        let option = "servers.tls";
        report.error(&written.origin(option), Some(option.to_owned()), message.to_owned());
    }
}

/// A certificate and its key come together.
fn identity(report: &mut Report<'_>, written: &Written, certificate: &str, key: &str) {
    for (there, missing) in [(certificate, key), (key, certificate)] {
        if written.has(there) && !written.has(missing) {
            let message = format!("{missing} is missing: a certificate needs its key");
            report.error(&written.origin(there), Some(there.to_owned()), message);
        }
    }
}

fn no_effect(report: &mut Report<'_>, written: &Written, path: &str, why: &str) {
    if written.has(path) {
        report.warn(&written.origin(path), path, format!("this has no effect, since {why}"));
    }
}

fn limits(reading: &mut Reading<'_>) {
    let Reading { plan, written, report, .. } = reading;
    let limits = &plan.limits;
    if let (Some(idle), Some(age)) = (limits.idle_backend, limits.backend_age)
        && age < idle
        && written.has("limits.idle_backend")
    {
        let message = format!(
            "no backend connection is idle for {}, because limits.backend_age closes it after {}",
            show_duration(idle),
            show_duration(age)
        );
        report.warn(&written.origin("limits.idle_backend"), "limits.idle_backend", message);
    }
    if limits.login < limits.connect && written.has("limits.login") {
        let message = format!(
            "a pass-through client's login includes connecting to the server, for which \
             limits.connect allows {}",
            show_duration(limits.connect)
        );
        report.warn(&written.origin("limits.login"), "limits.login", message);
    }
}

/// Each log has a file of its own, and one that is written has something to tell.
fn logs(reading: &mut Reading<'_>) {
    let Reading { plan, written, report, .. } = reading;
    let files: Vec<_> = plan.logs.files().collect();
    for (at, (option, file)) in files.iter().enumerate() {
        if let Some((other, _)) = files[..at].iter().find(|(_, other)| other == file) {
            let message = format!("{} is also {other}: each log needs its own", file.display());
            report.error(&written.origin(option), Some((*option).to_owned()), message);
        }
    }
    let slow = &plan.logs.slow;
    let is_ruled = plan.rules.iter().any(|rule| rule.acts.log.contains(&RuleLog::Slow));
    if slow.threshold.is_none() && slow.sample.is_none() && !is_ruled {
        let why = "logs.slow.threshold and logs.slow.sample are \"none\": no statement is written";
        no_effect(report, written, "logs.slow.file", why);
    }
    if plan.logs.audit.kinds.is_empty() {
        no_effect(report, written, "logs.audit.file", "logs.audit.kinds names nothing");
    }
    for (has_file, section) in [
        (slow.kept.file.is_some(), "logs.slow."),
        (plan.logs.audit.kept.file.is_some(), "logs.audit."),
    ] {
        let names: Vec<_> = written.names().filter(|name| name.starts_with(section)).collect();
        for name in names.into_iter().filter(|_| !has_file) {
            no_effect(report, written, name, &format!("there is no {section}file"));
        }
    }
}

fn users(reading: &mut Reading<'_>) {
    let Reading { plan, users, report, .. } = reading;
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (user, WrittenItem { origin, written }) in plan.users.iter().zip(users) {
        let mut error = |origin: &Origin, option: &str, message: String| {
            report.error(origin, Some(option.to_owned()), message);
        };
        if !written.has("users.name") {
            error(origin, "users.name", "a user needs a name".to_owned());
        } else if !user.name.is_empty() && seen.insert(&user.name, 0).is_some() {
            let message = format!("there is already a user {:?}", user.name);
            error(&written.origin("users.name"), "users.name", message);
        }
        let given: Vec<_> = PASSWORDS.into_iter().filter(|path| written.has(path)).collect();
        if let [first, rest @ ..] = &given[..] {
            for other in rest {
                let message = format!("{first} is given as well: one of them is enough");
                error(&written.origin(other), other, message);
            }
        } else if user.pooled {
            let message = "pooled clients need a password: set users.password, users.password_hash \
                           or users.password_file, or let clients be passed through with \
                           users.mode = \"pass-through\"";
            error(origin, "users.password", message.to_owned());
        }
        let seconds: Vec<_> = SECOND_PASSWORDS.into_iter().filter(|it| written.has(it)).collect();
        if let [first, rest @ ..] = &seconds[..] {
            for other in rest {
                let message = format!("{first} is given as well: one of them is enough");
                error(&written.origin(other), other, message);
            }
            if given.is_empty() {
                let message = "there is no first one: set users.password, users.password_hash or \
                               users.password_file";
                error(&written.origin(first), first, message.to_owned());
            }
        }
        let own = user.password.as_ref().and_then(Password::plugin);
        if let Some(own) = own.filter(|own| *own != user.plugin && written.has("users.plugin")) {
            let message = format!(
                "the hash is enough for {own} alone; {} needs its own, or the password",
                user.plugin
            );
            error(&written.origin("users.plugin"), "users.plugin", message);
        }
        if !user.pooled {
            let why = "users.mode is \"pass-through\": the server says how its sessions begin";
            no_effect(report, written, "users.init_connect", why);
        }
        if let ([first, ..], false) = (&given[..], user.pooled) {
            no_effect(
                report,
                written,
                first,
                "users.mode is \"pass-through\": the server checks it",
            );
        }
        bounds(
            report,
            written,
            "users.clients_max",
            user.clients_max,
            "clients_max",
            plan.clients_max,
        );
        let (path, bound) = ("server.connections_max", plan.server.connections_max);
        bounds(report, written, "users.connections_max", user.connections_max, path, bound);
    }
}

fn classes(reading: &mut Reading<'_>) {
    let Reading { plan, classes, report, .. } = reading;
    let mut seen: HashMap<&str, usize> = HashMap::new();
    for (rule, WrittenItem { origin, written }) in plan.classes.iter().zip(classes.iter()) {
        let (name, class) = ("classes.name", &rule.class);
        if !written.has(name) {
            report.error(origin, Some(name.to_owned()), "a class needs a name".to_owned());
        } else if !class.name.is_empty() && seen.insert(&class.name, 0).is_some() {
            let message = format!("there is already a class {:?}", class.name);
            report.error(&written.origin(name), Some(name.to_owned()), message);
        }
        if let Some(maximum) = class.maximum.filter(|maximum| *maximum < class.minimum) {
            let message =
                format!("{} never run at once, because maximum is {maximum}", class.minimum);
            report.warn(&written.origin("classes.minimum"), "classes.minimum", message);
        }
    }
    let others = plan.classes.iter().filter(|rule| rule.class.name != "default").count();
    if CLASSES_MAX <= others {
        let message = format!("there may be at most {} beside \"default\"", CLASSES_MAX - 1);
        let origin = classes.last().map_or(Origin::Whole, |last| last.origin.clone());
        report.error(&origin, Some("classes".to_owned()), message);
    }
}

/// A part's bound is of use only below that of the whole.
fn bounds(
    report: &mut Report<'_>,
    written: &Written,
    path: &str,
    bound: Option<u32>,
    whole_path: &str,
    whole: u32,
) {
    if let Some(bound) = bound.filter(|bound| whole < *bound) {
        let message = format!("{bound} is never reached, because {whole_path} is {whole}");
        report.warn(&written.origin(path), path, message);
    }
}

pub(super) const PASSWORDS: [&str; 3] =
    ["users.password", "users.password_hash", "users.password_file"];

/// The same of the one that is as good.
pub(super) const SECOND_PASSWORDS: [&str; 3] =
    ["users.second_password", "users.second_password_hash", "users.second_password_file"];
