//! What contradicts itself where there are several servers.

use std::collections::HashMap;

use engine::cluster::Group;

use crate::config::plan::{CheckKind, CheckOptions, Password, Plan, UserOptions};
use crate::config::problem::{Origin, Report};
use crate::config::reader::{Reading, Written};

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
    let first = servers.first().map_or(Origin::Whole, |it| it.origin.clone());
    if plan.servers.iter().all(|rule| rule.group == Group::Readers) {
        let message = "all servers are of group \"readers\": nothing could ever be written";
        report.error(&first, Some("servers.group".to_owned()), message.to_owned());
    }
    if plan.servers.iter().all(|rule| rule.backup) {
        let message = "all servers are backups: at least one must not be";
        report.error(&first, Some("servers.backup".to_owned()), message.to_owned());
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

/// The user that checks log in as must be able to.
pub(super) fn check_account(reading: &mut Reading<'_>) {
    let Reading { plan, written, report, .. } = reading;
    let mut error = |path: &str, message: String| {
        report.error(&written.origin(path), Some(path.to_owned()), message);
    };
    let passwords = ["checks.password", "checks.password_file"];
    if passwords.iter().all(|path| written.has(path)) {
        error(passwords[1], format!("{} is given as well: one of them is enough", passwords[0]));
    }
    let given = passwords.into_iter().find(|path| written.has(path));
    match (&plan.checks.user, given) {
        (None, Some(path)) => {
            error(path, "checks.user is missing: whose password is it?".to_owned());
        }
        (Some(name), None)
            if !plan.users.iter().any(|user| user.name == *name && logs_in(user)) =>
        {
            let message = format!(
                "{name:?} is not among [[users]] with its password (not a hash of it), so that \
                 Flifo cannot log in to check: name it there, or write checks.password"
            );
            error("checks.user", message);
        }
        _ => {}
    }
}

fn checks(reading: &mut Reading<'_>) {
    let Reading { plan, written, servers, report, .. } = reading;
    let mut error = |path: &str, message: String| {
        report.error(&written.origin(path), Some(path.to_owned()), message);
    };
    let is_statement = plan.checks.kind == CheckKind::Statement;
    if is_statement && plan.checks.statement.is_none() {
        error("checks.kind", "checks.statement is missing: what is to be run?".to_owned());
    }
    if plan.checks.kind == CheckKind::None {
        let message = "servers of [[servers]] are found by checks: \"none\" is for the only server";
        error("checks.kind", message.to_owned());
    }
    let has_user = has_own_account(&plan.checks) || plan.users.iter().any(logs_in);
    if plan.checks.kind.needs_login() && !has_user {
        let message = "no user can log in for these checks: name one with its password in \
                       [[users]] or in checks.user, or use \"handshake\"";
        error("checks.kind", message.to_owned());
    }
    if !is_statement {
        for path in ["checks.statement", "checks.expect"] {
            super::no_effect(report, written, path, "checks.kind is not \"statement\"");
        }
    }
    if plan.checks.kind == CheckKind::Auto && has_user {
        return;
    }
    let why = match plan.checks.kind {
        CheckKind::Auto => {
            "no user could ask it: name one with its password in [[users]] or in checks.user"
        }
        _ => "checks.kind is not \"auto\"",
    };
    for (rule, place) in plan.servers.iter().zip(servers.iter()) {
        if rule.group == Group::Auto {
            let message = format!(
                "the role of this server cannot be found out, since {why}; or set group = \
                 \"writer\" or \"readers\""
            );
            report.error(&place.origin, Some("servers.group".to_owned()), message);
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
