//! Rows of `global_variables`.
//!
//! A variable that has ProxySQL's default says nothing: Flifo has defaults of its own.

use crate::tables::{Row, Tables};
use crate::value::{Value, size, time};
use crate::work::{Item, Work};

use self::Way::{Bytes, Count, Lost, Needless, Special, Text, Time};

/// What becomes of a variable.
#[derive(Clone, Copy)]
enum Way {
    /// An option with the same number, within these bounds.
    Count(&'static str, u64, u64),
    /// Milliseconds, within these bounds.
    Time(&'static str, u64, u64),
    Bytes(&'static str, u64, u64),
    Text(&'static str),
    Needless(&'static str),
    Lost(&'static str),
    /// It has a function of its own below.
    Special(fn(&str, &Item, &mut Work)),
}

const HOUR: u64 = 3_600_000;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;

/// Variables, with ProxySQL's defaults. No default: it is always converted.
const VARIABLES: &[(&str, &[&str], Way)] = &[
    ("datadir", &[], Needless("Flifo keeps no state on disk")),
    ("errorlog", &[], Needless("logs go to standard error, or to logs.file")),
    ("admin-admin_credentials", &["admin:admin"], Special(ignored)),
    ("admin-mysql_ifaces", &[], Special(ignored)),
    (
        "admin-stats_credentials",
        &["stats:stats"],
        Lost("the console has one password, for all users"),
    ),
    ("admin-hash_passwords", &["true"], Needless("[[users]] takes hashes")),
    ("admin-read_only", &["false"], Lost("without a password, the console's port only shows")),
    (
        "admin-telnet_admin_ifaces",
        &["(null)", ""],
        Lost("the console speaks MySQL's protocol only"),
    ),
    (
        "admin-telnet_stats_ifaces",
        &["(null)", ""],
        Lost("the console speaks MySQL's protocol only"),
    ),
    (
        "admin-restapi_enabled",
        &["false"],
        Lost("[http] has /metrics and /api on 127.0.0.1:6034; see http.listen"),
    ),
    (
        "admin-web_enabled",
        &["false"],
        Lost("[http] has /metrics and /api on 127.0.0.1:6034; see http.listen"),
    ),
    ("mysql-interfaces", &[], Special(interfaces)),
    ("mysql-threads", &["4"], Count("workers", 1, 256)),
    ("mysql-max_connections", &["2048", "10000"], Count("clients_max", 1, 1_000_000)),
    ("mysql-server_version", &["5.5.30", "8.0.11"], Text("server.version")),
    ("mysql-init_connect", &["", "(null)"], Special(init_connect)),
    (
        "mysql-max_allowed_packet",
        &["67108864", "4194304"],
        Bytes("limits.packet_max", 1024, 1 << 30),
    ),
    ("mysql-connect_timeout_client", &["10000"], Time("limits.login", 1, HOUR)),
    ("mysql-connect_timeout_server", &["1000", "3000"], Time("limits.connect", 1, HOUR)),
    ("mysql-connect_timeout_server_max", &["10000"], Time("limits.wait", 1, DAY)),
    ("mysql-default_query_timeout", &["36000000", "86400000"], Time("limits.statement", 1, DAY)),
    ("mysql-wait_timeout", &["28800000"], Time("limits.idle_client", 1000, YEAR)),
    ("mysql-max_transaction_time", &["14400000"], Time("limits.transaction", 1, DAY)),
    ("mysql-max_transaction_idle_time", &["14400000"], Time("limits.idle_transaction", 1, DAY)),
    ("mysql-connection_max_age_ms", &["0"], Time("limits.backend_age", 1000, YEAR)),
    (
        "mysql-monitor_writer_is_also_reader",
        &["true", "1"],
        Needless("a writer is not read from while a reader can be"),
    ),
    ("mysql-monitor_username", &[], Special(ignored)),
    ("mysql-monitor_password", &[], Special(ignored)),
    (
        "mysql-monitor_enabled",
        &["true", "1"],
        Lost("several servers are always checked; one is not, with checks.kind = \"none\""),
    ),
    ("mysql-monitor_read_only_interval", &["1000", "1500"], Time("checks.inter", 10, HOUR)),
    ("mysql-monitor_read_only_timeout", &["500", "800"], Time("checks.timeout", 10, HOUR)),
    ("mysql-monitor_ping_max_failures", &["3"], Count("checks.fall", 1, 100)),
    ("mysql-have_ssl", &["false", "true"], Special(have_ssl)),
    ("mysql-ssl_p2s_ca", &["", "(null)"], Special(ignored)),
    ("mysql-ssl_p2s_cert", &["", "(null)"], Text("server.tls_cert")),
    ("mysql-ssl_p2s_key", &["", "(null)"], Text("server.tls_key")),
    (
        "mysql-long_query_time",
        &["1000"],
        Needless("it was the bound of a counter; SHOW DIGESTS has histograms"),
    ),
    ("mysql-eventslog_filename", &["", "(null)"], Special(ignored)),
    ("mysql-eventslog_default_log", &["0", "false"], Special(ignored)),
    ("mysql-eventslog_filesize", &["104857600"], Bytes("logs.slow.size_max", 1 << 16, 1 << 40)),
    ("mysql-auditlog_filename", &["", "(null)"], Special(audit)),
    ("mysql-auditlog_filesize", &["104857600"], Bytes("logs.audit.size_max", 1 << 16, 1 << 40)),
    ("mysql-proxy_protocol_networks", &["", "(null)"], Special(proxy_protocol)),
    ("mysql-query_digests", &["true"], Special(digests)),
    ("mysql-tcp_keepalive_time", &["0", "120"], Special(keepalive)),
    (
        "mysql-use_tcp_keepalive",
        &["true"],
        Needless("machines that are gone are found: limits.client_silence, limits.server_silence"),
    ),
    ("mysql-default_schema", &["information_schema"], Special(default_schema)),
    (
        "mysql-default_authentication_plugin",
        &["mysql_native_password"],
        Lost("name the plugin of each user with a clear password: users.plugin"),
    ),
    (
        "mysql-multiplexing",
        &["true"],
        Lost("let each user's clients keep their connections: users.mode = \"pass-through\""),
    ),
    ("mysql-default_query_delay", &["0"], Lost("write a rule without conditions, with delay")),
    (
        "mysql-query_retries_on_failure",
        &["1"],
        Lost("a statement is sent once; see retries of [[rules]]"),
    ),
    ("mysql-default_reconnect", &["true"], Needless("what was not sent waits for a server")),
    (
        "mysql-firewall_whitelist_enabled",
        &["false"],
        Lost(
            "what it has learnt is not taken over: a rule with firewall learns (docs/manual/firewall.md)",
        ),
    ),
    (
        "mysql-automatic_detect_sqli",
        &["false"],
        Lost("a rule with firewall names injections (docs/manual/firewall.md)"),
    ),
    (
        "mysql-query_cache_size_MB",
        &["256"],
        Needless("server.cache_memory is the bound of rules with cache; its default is 64 MiB"),
    ),
    (
        "mysql-enforce_autocommit_on_reads",
        &["false"],
        Lost("a statement in a transaction stays on its server, a read too"),
    ),
    ("mysql-client_multi_statements", &["true"], Lost("write a rule that refuses them")),
    (
        "mysql-throttle_connections_per_sec_to_hostgroup",
        &["1000000"],
        Lost("see server.connections_max and logins_max"),
    ),
    ("mysql-mirror_max_concurrency", &["16"], Needless("the queue of a mirror has a bound here")),
    (
        "mysql-query_processor_first_comment_parsing",
        &["2"],
        Lost("match.tag finds tags in comments"),
    ),
];

/// Variables of ProxySQL's inside, by how they begin.
const INSIDE: &[(&str, &str)] = &[
    (
        "admin-cluster_",
        "Flifos do not send each other their configurations: give each the same file",
    ),
    (
        "admin-checksum_",
        "Flifos do not send each other their configurations: give each the same file",
    ),
    ("admin-", "the console needs nothing of the kind"),
    ("pgsql-", "Flifo speaks to MySQL and MariaDB only"),
    ("sqliteserver-", "there is no SQLite server here"),
    ("clickhouse-", "Flifo speaks to MySQL and MariaDB only"),
    (
        "restart_on_missing_heartbeats",
        "the supervisor restarts Flifo; see the watchdog of its unit",
    ),
    ("cluster_sync_interfaces", "Flifos do not send each other their configurations"),
    ("mysql-monitor_", "one check tells all of a server; see [checks]"),
    ("mysql-shun_", "checks take a server down; see checks.fall"),
    (
        "mysql-connection_delay_multiplex_ms",
        "insert ids, row counts and warnings are kept with the client",
    ),
    (
        "mysql-auto_increment_delay_multiplex",
        "insert ids, row counts and warnings are kept with the client",
    ),
    ("mysql-keep_multiplexing_variables", "session variables are kept with the client"),
    ("mysql-set_query_lock_on_hostgroup", "what is not known to be harmless keeps its connection"),
    ("mysql-default_", "a session begins as the server has it, or as server.init_connect says"),
];

/// Beginnings of names of ProxySQL's other variables of the kind.
const TUNING: &[&str] = &[
    "mysql-add_",
    "mysql-aurora_",
    "mysql-auditlog_",
    "mysql-autocommit_",
    "mysql-binlog_",
    "mysql-client_",
    "mysql-commands_",
    "mysql-connect_",
    "mysql-connection_",
    "mysql-connpoll_",
    "mysql-data_",
    "mysql-enable_",
    "mysql-eventslog_",
    "mysql-fast_",
    "mysql-firewall_",
    "mysql-forward_",
    "mysql-free_",
    "mysql-groupby_",
    "mysql-handle_",
    "mysql-have_",
    "mysql-hostgroup_",
    "mysql-ignore_",
    "mysql-kill_",
    "mysql-log_",
    "mysql-max_",
    "mysql-min_",
    "mysql-mirror_",
    "mysql-num_",
    "mysql-parse_",
    "mysql-ping_",
    "mysql-poll_",
    "mysql-processlist_",
    "mysql-protocol_",
    "mysql-proxy_",
    "mysql-query_",
    "mysql-reset_",
    "mysql-server_",
    "mysql-servers_",
    "mysql-session_",
    "mysql-sessions_",
    "mysql-show_",
    "mysql-ssl_",
    "mysql-stacksize",
    "mysql-stats_",
    "mysql-tcp_",
    "mysql-threshold_",
    "mysql-throttle_",
    "mysql-unshun_",
    "mysql-use_",
    "mysql-verbose_",
];

pub(super) fn convert(tables: &Tables, work: &mut Work) {
    let rows = tables.rows("global_variables");
    for row in rows {
        let (Some(name), Some(value)) = (row.text("variable_name"), row.written("variable_value"))
        else {
            continue;
        };
        variable(name, value, &item(row, name, value), work);
    }
    console(rows, work);
    monitor(rows, work);
    events(tables, work);
    authority(tables, work);
}

fn item(row: &Row, name: &str, value: &str) -> Item {
    let is_secret = name.contains("password") || name.contains("credentials");
    let shown = if is_secret { "(not shown)" } else { value };
    Item { place: row.place(), what: format!("{name} = {shown}") }
}

fn variable(name: &str, value: &str, item: &Item, work: &mut Work) {
    let Some((_, defaults, way)) = VARIABLES.iter().find(|(it, ..)| *it == name) else {
        return unlisted(name, item, work);
    };
    if defaults.contains(&value) {
        return work.needless(item, "it is ProxySQL's default; Flifo has its own");
    }
    let number = value.parse::<u64>().ok();
    match (*way, number) {
        (Special(convert), _) => convert(value, item, work),
        (Needless(why), _) => work.needless(item, why),
        (Lost(instead), _) => work.lost(item, instead),
        (Text(option), _) => work.set(item, option, value.into()),
        (Count(option, least, most), Some(number)) => {
            within(item, option, number, (least, most), Value::Number, work)
        }
        (Time(option, least, most), Some(number)) => {
            within(item, option, number, (least, most), time, work)
        }
        (Bytes(option, least, most), Some(number)) => {
            within(item, option, number, (least, most), size, work)
        }
        (Count(..) | Time(..) | Bytes(..), None) => work.lost(item, "this is no number"),
    }
}

/// Sets a number, brought within bounds.
fn within(
    item: &Item,
    option: &'static str,
    number: u64,
    (least, most): (u64, u64),
    written: impl Fn(u64) -> Value,
    work: &mut Work,
) {
    let bounded = number.clamp(least, most);
    let difference = if bounded == number { "" } else { "which is the nearest that may be" };
    work.set_noted(item, option, written(bounded), difference);
}

fn unlisted(name: &str, item: &Item, work: &mut Work) {
    if let Some((_, why)) = INSIDE.iter().find(|(begin, _)| name.starts_with(begin)) {
        return work.needless(item, why);
    }
    match TUNING.iter().any(|begin| name.starts_with(begin)) {
        true => work.needless(item, "it tunes the inside of ProxySQL"),
        false => work.lost(
            item,
            "it is not known; look for what it did in the reference of the configuration",
        ),
    }
}

/// Told with others.
fn ignored(_: &str, _: &Item, _: &mut Work) {}

/// Seconds of rest before the kernel asks whether the other end is there.
fn keepalive(value: &str, item: &Item, work: &mut Work) {
    let Ok(seconds) = value.parse::<u64>() else { return work.lost(item, "this is no number") };
    let silence = time(seconds.clamp(5, 3600) * 1000);
    let difference = "after which a machine that is gone has been found";
    work.set_noted(item, "limits.client_silence", silence.clone(), difference);
    work.set_noted(item, "limits.server_silence", silence, difference);
}

/// Where clients come in: addresses with semicolons between them.
fn interfaces(value: &str, item: &Item, work: &mut Work) {
    let listeners = value.split([';', ',']).map(str::trim).filter(|it| !it.is_empty());
    let listeners: Vec<_> = listeners.map(str::to_owned).collect();
    work.listen(item, &listeners);
}

fn init_connect(value: &str, item: &Item, work: &mut Work) {
    let is_set = value.get(..4).is_some_and(|it| it.eq_ignore_ascii_case("set "));
    match is_set && !value.trim_end_matches([';', ' ']).contains(';') {
        true => work.set(item, "server.init_connect", value.trim_end_matches([';', ' ']).into()),
        false => work.lost(item, "server.init_connect is one SET of session variables"),
    }
}

fn default_schema(_: &str, item: &Item, work: &mut Work) {
    work.converted(item, "users.schema of each user that has none of its own");
}

fn audit(value: &str, item: &Item, work: &mut Work) {
    let difference = "in Flifo's own folder, in the form of its audit log";
    work.log_file(item, "logs.audit.file", value, difference);
}

fn have_ssl(value: &str, item: &Item, work: &mut Work) {
    match value {
        "false" | "0" => work.set(item, "tls.mode", "off".into()),
        _ => work.needless(item, "TLS is offered to clients: tls.mode = \"preferred\""),
    }
}

/// Certificates of servers count where TLS is asked of them (`use_ssl`).
fn authority(tables: &Tables, work: &mut Work) {
    let Some((value, item)) = find(tables.rows("global_variables"), "mysql-ssl_p2s_ca") else {
        return;
    };
    match tables.rows("mysql_servers").iter().any(|row| row.is_on("use_ssl")) {
        true => work.set(&item, "server.tls_ca", value.into()),
        false => work.needless(&item, "no server has use_ssl"),
    }
}

fn proxy_protocol(value: &str, item: &Item, work: &mut Work) {
    let networks: Vec<_> =
        value.split([',', ' ']).filter(|it| !it.is_empty()).map(str::to_owned).collect();
    match networks.iter().any(|it| it == "*") {
        true => work.lost(
            item,
            "a host that may say where clients come from is named: proxy_protocol.from",
        ),
        false => work.set(item, "proxy_protocol.from", networks.into()),
    }
}

fn digests(_: &str, item: &Item, work: &mut Work) {
    work.set(item, "console.digests", 0.into());
}

/// The log of statements: of all of them, or of those of some rules.
fn events(tables: &Tables, work: &mut Work) {
    let rows = tables.rows("global_variables");
    let Some((file, item)) = find(rows, "mysql-eventslog_filename") else {
        return rules_alone(tables, work);
    };
    let default = find(rows, "mysql-eventslog_default_log");
    let is_whole = default.is_some_and(|(value, _)| matches!(value, "1" | "true"));
    let has_rules = tables.rows("mysql_query_rules").iter().any(|row| row.is_on("log"));
    let (threshold, which) = match (is_whole, has_rules) {
        (true, _) => ("0s", "all statements are written"),
        (false, true) => ("none", "statements of rules with log alone are written (threshold)"),
        (false, false) => {
            let why = "it was a log of statements for which a rule has log; see logs.slow";
            return work.needless(&item, why);
        }
    };
    let difference = format!("{which}; in Flifo's own folder, in the form of a slow log");
    work.log_file(&item, "logs.slow.file", file, &difference);
    work.draft.set("logs.slow.threshold", threshold.into(), &item.comment());
}

/// Without the name of a file, a log has one all the same where rules write it.
fn rules_alone(tables: &Tables, work: &mut Work) {
    let mut rows = tables.rows("mysql_query_rules").iter();
    let Some(row) = rows.find(|row| row.is_on("log")) else { return };
    let item = row.item("log");
    work.log_file(&item, "logs.slow.file", "slow.log", "in the form of a slow log");
    work.draft.set("logs.slow.threshold", "none".into(), &item.comment());
}

/// A variable with its row.
fn find<'a>(rows: &'a [Row], name: &str) -> Option<(&'a str, Item)> {
    let row = rows.iter().rev().find(|row| row.text("variable_name") == Some(name))?;
    let value = row.text("variable_value").filter(|it| *it != "(null)")?;
    Some((value, item(row, name, value)))
}

/// The console's addresses and its password go together: beyond this machine it needs one.
fn console(rows: &[Row], work: &mut Work) {
    let credentials = find(rows, "admin-admin_credentials");
    let parts = credentials.as_ref().map_or("", |(value, _)| value);
    let accounts: Vec<_> = parts.split(';').filter_map(|it| it.trim().split_once(':')).collect();
    // As there, the user `admin` is one of this machine.
    let remote = accounts.iter().find(|(user, _)| *user != "admin");
    let chosen = remote
        .or_else(|| accounts.first())
        .filter(|(_, password)| !matches!(*password, "" | "admin"));
    if let Some((_, item)) = credentials.filter(|_| parts != "admin:admin") {
        match chosen {
            Some((_, password)) => {
                let difference =
                    if accounts.len() == 1 { "" } else { "one password, for any user's name" };
                work.set_noted(&item, "console.password", (*password).into(), difference);
            }
            None => work.lost(&item, "a password that all know is none: set console.password"),
        }
    }
    let Some((value, item)) = find(rows, "admin-mysql_ifaces") else { return };
    if value == "0.0.0.0:6032" && chosen.is_none() {
        return work.needless(&item, "it is ProxySQL's default; Flifo has its own");
    }
    let is_local =
        |it: &str| it.starts_with("127.") || it.starts_with("[::1]") || it.starts_with('/');
    let listeners: Vec<_> =
        value.split([';', ',']).map(str::trim).filter(|it| !it.is_empty()).collect();
    let may_be = |it: &&&str| chosen.is_some() || is_local(it);
    let kept: Vec<_> = listeners.iter().filter(may_be).map(|it| (*it).to_owned()).collect();
    match kept.len() == listeners.len() {
        true => work.set(&item, "console.listen", kept.into()),
        false if kept.is_empty() => {
            work.lost(&item, "beyond this machine the console needs a password: set console.listen and console.password");
        }
        false => {
            let difference =
                "beyond this machine the console needs a password: set console.password";
            work.set_noted(&item, "console.listen", kept.into(), difference);
        }
    }
}

/// The account of checks.
fn monitor(rows: &[Row], work: &mut Work) {
    let Some((user, item)) = find(rows, "mysql-monitor_username") else { return };
    match find(rows, "mysql-monitor_password") {
        Some((password, its)) => {
            work.set(&item, "checks.user", user.into());
            work.set(&its, "checks.password", password.into());
        }
        None => work.lost(&item, "its password is not known: set checks.user and checks.password"),
    }
}
