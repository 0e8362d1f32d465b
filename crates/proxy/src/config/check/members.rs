//! What contradicts itself where there are several servers.

use std::collections::HashMap;

use engine::cluster::Group;

use crate::config::check::clusters::origin_in;
use crate::config::plan::{
    CheckKind, CheckOptions, ClusterRule, MAIN, Password, Plan, UserOptions,
};
use crate::config::problem::{Origin, Report};
use crate::config::reader::{Reading, Written, WrittenItem};

/// Tells of what does not fit together.
pub(super) fn contradictions(reading: &mut Reading<'_>) {
    if reading.plan.servers.is_empty() {
        return useless(reading);
    }
    beside_one(reading);
    servers(reading);
    checks(reading);
    routes(reading);
}

/// What has no effect with one server.
fn useless(reading: &mut Reading<'_>) {
    let Reading { written, routes, report, .. } = reading;
    for path in written.names() {
        if path == "checks.agent_inter" || path.starts_with("routing.") {
            super::no_effect(report, written, path, "no [[servers]] are listed");
        }
    }
    for route in routes {
        let message = "this has no effect, since no [[servers]] are listed".to_owned();
        report.warn(&route.origin, "routes", message);
    }
}

fn beside_one(reading: &mut Reading<'_>) {
    let Reading { written, report, .. } = reading;
    for path in ["server.address", "server.name"] {
        if written.has(path) {
            let message = format!(
                "the servers are listed in [[servers]], each with its own name and address: \
                 leave {path} out"
            );
            report.error(&written.origin(path), Some(path.to_owned()), message);
        }
    }
}

fn servers(reading: &mut Reading<'_>) {
    let Reading { plan, servers, report, .. } = reading;
    let mut names: HashMap<&str, ()> = HashMap::new();
    let mut addresses: HashMap<String, &str> = HashMap::new();
    for (rule, place) in plan.servers.iter().zip(servers.iter()) {
        let written = &place.written;
        let mut error = |origin: &Origin, option: &str, message: String| {
            report.error(origin, Some(option.to_owned()), message);
        };
        let needs = [("servers.name", "name"), ("servers.address", "address")];
        for (path, what) in needs.iter().filter(|(path, _)| !written.has(path)) {
            error(&place.origin, path, format!("a server needs its {what}"));
        }
        if !rule.name.is_empty() && names.insert(&rule.name, ()).is_some() {
            let message = format!("there is already a server {:?}", rule.name);
            error(&written.origin("servers.name"), "servers.name", message);
        }
        let Some(address) = &rule.address else { continue };
        let (path, origin) = ("servers.address", written.origin("servers.address"));
        if let Some(other) = addresses.insert(address.to_string(), &rule.name) {
            error(&origin, path, format!("{address} is also the address of {other:?}"));
        }
        if plan.listen.iter().any(|listen| super::is_same(listen, address)) {
            let message = format!("{address} is also in listen: Flifo would be its own server");
            error(&origin, path, message);
        }
    }
    for cluster in plan.cluster_names() {
        all_of_a_kind(plan, cluster, servers, report);
    }
}

/// What all servers of a cluster must not be.
fn all_of_a_kind(plan: &Plan, cluster: &str, servers: &[WrittenItem], report: &mut Report<'_>) {
    let of = || plan.servers.iter().zip(servers).filter(|(rule, _)| rule.cluster == cluster);
    let Some((_, first)) = of().next() else { return };
    let place = if plan.clusters.is_empty() { "" } else { " of its cluster" };
    let mut error = |option: &str, message: String| {
        report.error(&first.origin, Some(option.to_owned()), message);
    };
    if of().all(|(rule, _)| rule.group == Group::Readers) {
        let message = "are of group \"readers\": nothing could ever be written";
        error("servers.group", format!("all servers{place} {message}"));
    }
    if of().all(|(rule, _)| rule.backup) {
        error(
            "servers.backup",
            format!("all servers{place} are backups: at least one must not be"),
        );
    }
}

/// Whether Flifo can log in as this user by itself.
fn logs_in(user: &UserOptions) -> bool {
    user.pooled
        && (user.password_file.is_some() || matches!(user.password, Some(Password::Plain(_))))
}

fn has_own_account(checks: &CheckOptions) -> bool {
    checks.user.is_some() && (checks.password.is_some() || checks.password_file.is_some())
}

/// What is said of checks, for all clusters or for one.
struct Place<'a> {
    plan: &'a Plan,
    /// `None`: for all.
    cluster: Option<(&'a ClusterRule, &'a Written)>,
    all: &'a Written,
}

impl Place<'_> {
    /// All places where something is said.
    fn each<'a>(
        plan: &'a Plan,
        all: &'a Written,
        clusters: &'a [WrittenItem],
    ) -> impl Iterator<Item = Place<'a>> {
        let own = plan.clusters.iter().zip(clusters);
        let own = own.map(|(rule, place)| Some((rule, &place.written)));
        // What is said for all is looked at by itself where it does not hold in each of several.
        let one = std::iter::once(None).filter(move |_| plan.clusters.is_empty());
        one.chain(own).map(move |cluster| Place { plan, cluster, all })
    }

    const fn checks(&self) -> &CheckOptions {
        match self.cluster {
            Some((rule, _)) => &rule.options.checks,
            None => &self.plan.checks,
        }
    }

    fn name(&self) -> &str {
        self.cluster.map_or(MAIN, |(rule, _)| rule.name.as_str())
    }

    fn has(&self, option: &str) -> bool {
        self.all.has(option) || self.cluster.is_some_and(|(_, own)| own.has(option))
    }

    fn error(&self, report: &mut Report<'_>, option: &str, message: String) {
        let origin = match self.cluster {
            Some((_, own)) => origin_in(own, self.all, option),
            None => self.all.origin(option),
        };
        report.error(&origin, Some(option.to_owned()), message);
    }
}

/// The user that follows binary logs must be able to log in.
pub(super) fn check_follower(reading: &mut Reading<'_>) {
    let Reading { plan, written, report, .. } = reading;
    if !plan.cache.binlog {
        for path in ["cache.binlog_lag_max", "cache.binlog_user", "cache.binlog_server_id"] {
            super::no_effect(report, written, path, "cache.binlog is \"off\"");
        }
        return;
    }
    let checks = &plan.checks;
    let is_of_checks =
        |name: &String| checks.user.as_ref() == Some(name) && has_own_account(checks);
    let is_known =
        |name: &String| plan.users.iter().any(|user| user.name == *name && logs_in(user));
    let (path, message) = match &plan.cache.binlog_user {
        Some(name) if is_of_checks(name) || is_known(name) => return,
        None if has_own_account(checks) || plan.users.iter().any(logs_in) => return,
        Some(name) => {
            let message = format!(
                "{name:?} is neither checks.user with a password of its own nor among [[users]] with its password \
                 (not a hash of it), so that Flifo cannot log in to follow a binary log"
            );
            ("cache.binlog_user", message)
        }
        None => {
            let message = "no user can log in to follow a binary log: name one with its password in [[users]] or in \
                           checks.user";
            ("cache.binlog", message.to_owned())
        }
    };
    report.error(&written.origin(path), Some(path.to_owned()), message);
}

/// The user that checks log in as must be able to.
pub(super) fn check_account(reading: &mut Reading<'_>) {
    let Reading { plan, written, clusters, report, .. } = reading;
    for place in Place::each(plan, written, clusters) {
        account(&place, report);
    }
}

fn account(place: &Place<'_>, report: &mut Report<'_>) {
    let passwords = ["checks.password", "checks.password_file"];
    let of = |written: &Written| passwords.iter().all(|path| written.has(path));
    if of(place.all) || place.cluster.is_some_and(|(_, own)| of(own)) {
        let message = format!("{} is given as well: one of them is enough", passwords[0]);
        place.error(report, passwords[1], message);
    }
    let given = passwords.into_iter().find(|path| place.has(path));
    match (&place.checks().user, given) {
        (None, Some(path)) => {
            place.error(report, path, "checks.user is missing: whose password is it?".to_owned());
        }
        (Some(name), None)
            if !place.plan.users.iter().any(|user| user.name == *name && logs_in(user)) =>
        {
            let message = format!(
                "{name:?} is not among [[users]] with its password (not a hash of it), so that \
                 Flifo cannot log in to check: name it there, or write checks.password"
            );
            place.error(report, "checks.user", message);
        }
        _ => {}
    }
}

fn checks(reading: &mut Reading<'_>) {
    let Reading { plan, written, servers, clusters, report, .. } = reading;
    for place in Place::each(plan, written, clusters) {
        checks_in(&place, servers, report);
    }
    let is_statement = |checks: &CheckOptions| checks.kind == CheckKind::Statement;
    let of_clusters = plan.clusters.iter().map(|rule| &rule.options.checks);
    if ![&plan.checks].into_iter().chain(of_clusters).any(is_statement) {
        for path in ["checks.statement", "checks.expect"] {
            super::no_effect(report, written, path, "checks.kind is not \"statement\"");
        }
    }
}

fn checks_in(place: &Place<'_>, servers: &[WrittenItem], report: &mut Report<'_>) {
    let (plan, checks) = (place.plan, place.checks());
    if checks.kind == CheckKind::Statement && checks.statement.is_none() {
        let message = "checks.statement is missing: what is to be run?";
        place.error(report, "checks.kind", message.to_owned());
    }
    if checks.kind == CheckKind::None {
        let message = "servers of [[servers]] are found by checks: \"none\" is for the only server";
        place.error(report, "checks.kind", message.to_owned());
    }
    let has_user = has_own_account(checks) || plan.users.iter().any(logs_in);
    if checks.kind.needs_login() && !has_user {
        let message = "no user can log in for these checks: name one with its password in \
                       [[users]] or in checks.user, or use \"handshake\"";
        place.error(report, "checks.kind", message.to_owned());
    }
    if checks.kind == CheckKind::Auto && has_user {
        return;
    }
    let why = match checks.kind {
        CheckKind::Auto => {
            "no user could ask it: name one with its password in [[users]] or in checks.user"
        }
        _ => "checks.kind is not \"auto\"",
    };
    let own = plan.servers.iter().zip(servers).filter(|(rule, _)| rule.cluster == place.name());
    for (rule, written) in own {
        if rule.group == Group::Auto {
            let message = format!(
                "the role of this server cannot be found out, since {why}; or set group = \
                 \"writer\" or \"readers\""
            );
            report.error(&written.origin, Some("servers.group".to_owned()), message);
        }
    }
}

fn routes(reading: &mut Reading<'_>) {
    let Reading { plan, routes, report, .. } = reading;
    for (rule, place) in plan.routes.iter().zip(routes.iter()) {
        let mut error = |path: &str, index: usize, message: String| {
            report.error(&place.written.item(path, index), Some(path.to_owned()), message);
        };
        for (index, listen) in rule.listen.iter().enumerate() {
            if !plan.listen.contains(listen) {
                let message = format!("{listen} is not in listen: no client can connect there");
                error("routes.listen", index, message);
            }
        }
        for (index, class) in rule.classes.iter().enumerate() {
            if class != "default" && !is_class(plan, class) {
                error("routes.classes", index, format!("there is no class {class:?}"));
            }
        }
        unmoded(report, &place.written, &place.origin);
    }
}

fn is_class(plan: &Plan, name: &str) -> bool {
    plan.classes.iter().any(|rule| rule.class.name == name)
}

fn unmoded(report: &mut Report<'_>, written: &Written, origin: &Origin) {
    if !written.has("routes.mode") {
        let message = "a route needs its mode: \"writer\", \"readers\" or \"split\"".to_owned();
        report.error(origin, Some("routes.mode".to_owned()), message);
    }
}
