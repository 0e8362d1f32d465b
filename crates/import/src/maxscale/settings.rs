//! Settings that need no more than a table: what each becomes.

use crate::ini::{IniEntry, IniSection};
use crate::value::{Value, time};
use crate::work::{Item, Work};

use super::{Reader, is_true};

/// What becomes of a setting.
#[derive(Clone, Copy)]
pub(super) enum Way {
    /// Told with others.
    Elsewhere,
    /// A time; of a bare number, this is the unit in milliseconds. 0 is none if so named.
    Time(&'static str, u64),
    Count(&'static str),
    Text(&'static str),
    /// An option with this value if the setting is true.
    IfTrue(&'static str, &'static str),
    Needless(&'static str),
    Lost(&'static str),
    /// The same, unless the setting is false.
    LostIfTrue(&'static str),
}

use Way::{Count, Elsewhere, IfTrue, Lost, LostIfTrue, Needless, Text, Time};

/// Settings with their ways.
pub(super) type Ways = &'static [(&'static str, Way)];

const SECOND: u64 = 1000;

pub(super) const GLOBAL: Ways = &[
    ("threads", Text("workers")),
    ("logdir", Needless("logs go to standard error, or to logs.file")),
    ("log_info", Needless("see logs.level")),
    ("log_notice", Needless("see logs.level")),
    ("log_warning", Needless("see logs.level")),
    ("log_debug", Needless("see logs.level")),
    ("syslog", Needless("systemd picks logs up")),
    ("maxlog", Needless("logs go to standard error, or to logs.file")),
    ("ms_timestamp", Needless("times in logs have fractions")),
    ("admin_enabled", Needless("there is a console and an HTTP port")),
    ("admin_gui", Needless("there is a console and an HTTP port")),
    (
        "admin_host",
        Lost(
            "the HTTP port is http.listen, the console's console.listen; beyond this machine both need a secret",
        ),
    ),
    ("admin_port", Lost("the HTTP port is http.listen, the console's console.listen")),
    ("admin_secure_gui", Needless("there is no such page")),
    ("admin_auth", Lost("see http.token and console.password")),
    ("admin_ssl_cert", Lost("the HTTP port has no TLS: keep it on 127.0.0.1")),
    ("admin_ssl_key", Lost("the HTTP port has no TLS: keep it on 127.0.0.1")),
    ("query_classifier_cache_size", Needless("texts are read without a parser")),
    ("query_retries", Needless("a statement is sent once")),
    ("auth_connect_timeout", Time("limits.connect", SECOND)),
    ("auth_read_timeout", Needless("limits.login bounds the whole login")),
    ("auth_write_timeout", Needless("limits.login bounds the whole login")),
    ("users_refresh_time", Needless("see server.accounts_period")),
    ("users_refresh_interval", Needless("see server.accounts_period")),
    (
        "config_sync_cluster",
        Lost("Flifos do not send each other their configurations: give each the same file"),
    ),
    ("load_persisted_configs", Needless("there is one file")),
    ("persist_runtime_changes", Needless("there is one file; what SET says holds until a reload")),
    ("passive", Lost("Flifo promotes no server, so that several may run")),
    ("skip_name_resolve", Needless("clients' addresses are not resolved")),
];

/// Options are those of `[[servers]]`.
const SERVER: Ways = &[
    ("address", Elsewhere),
    ("port", Elsewhere),
    ("socket", Elsewhere),
    ("rank", Elsewhere),
    ("type", Elsewhere),
    ("protocol", Needless("there is one protocol")),
    ("authenticator", Needless("the server says how it wants a password")),
    ("proxy_protocol", IfTrue("send_proxy", "v2")),
    ("ssl", Elsewhere),
    ("ssl_ca", Elsewhere),
    ("ssl_ca_cert", Elsewhere),
    ("ssl_cert", Elsewhere),
    ("ssl_key", Elsewhere),
    ("ssl_verify_peer_certificate", Elsewhere),
    ("ssl_verify_peer_host", Elsewhere),
    ("ssl_version", Needless("TLS 1.2 and 1.3 are spoken")),
    ("persistpoolmax", Needless("connections are always shared; see server.connections_max")),
    ("persistmaxtime", Needless("see limits.idle_backend")),
    ("max_routing_connections", Count("connections_max")),
    ("extra_port", Lost("checks use the port of clients")),
    ("monitoruser", Lost("checks log in as one user everywhere: checks.user")),
    ("monitorpw", Lost("checks log in as one user everywhere: checks.password")),
    ("priority", Lost("of several servers that may be written to, the first one in the file is")),
    ("disk_space_threshold", Lost("let an agent watch the disk: servers.agent")),
    ("private_address", Needless("no server is told of another")),
];

pub(super) const MONITOR: Ways = &[
    ("type", Elsewhere),
    ("module", Elsewhere),
    ("servers", Elsewhere),
    ("user", Elsewhere),
    ("password", Elsewhere),
    ("passwd", Elsewhere),
    ("monitor_interval", Time("checks.inter", 1)),
    ("backend_connect_timeout", Time("checks.timeout", SECOND)),
    ("backend_connect_attempts", Count("checks.fall")),
    ("backend_read_timeout", Needless("checks.timeout bounds the whole check")),
    ("backend_write_timeout", Needless("checks.timeout bounds the whole check")),
    ("failcount", Needless("Flifo promotes no server")),
    ("auto_failover", LostIfTrue(KEEP)),
    ("auto_rejoin", LostIfTrue(KEEP)),
    ("switchover_on_low_disk_space", LostIfTrue(KEEP)),
    ("enforce_read_only_slaves", LostIfTrue(KEEP)),
    ("enforce_simple_topology", LostIfTrue(KEEP)),
    ("enforce_writable_master", LostIfTrue(KEEP)),
    ("maintenance_on_low_disk_space", LostIfTrue("let an agent watch the disk: servers.agent")),
    ("cooperative_monitoring_locks", Needless("Flifo promotes no server, so that several may run")),
    ("replication_user", Needless("Flifo promotes no server")),
    ("replication_password", Needless("Flifo promotes no server")),
    ("verify_master_failure", Needless("Flifo promotes no server")),
    ("master_failure_timeout", Needless("Flifo promotes no server")),
    ("detect_replication_lag", Needless("checks ask for positions")),
    ("detect_stale_master", Needless("the writer stays the writer while readers are down")),
    ("detect_stale_slave", Needless("readers serve while the writer is down")),
    ("master_conditions", Needless("the writer is the server that is not read_only")),
    ("slave_conditions", Needless("routing.lag_max says which readers are used")),
    ("ignore_external_masters", Needless("only the servers in the file count")),
    ("assume_unique_hostnames", Needless("servers are not compared by their names")),
    ("journal_max_age", Needless("no state is kept on disk")),
    ("disable_master_failback", Needless("the writer is kept while it can be written to")),
    ("disable_master_role_setting", LostIfTrue("one node is written to")),
    ("root_node_as_master", LostIfTrue("the first node in the file is written to")),
    ("use_priority", LostIfTrue("the first node in the file is written to")),
    ("available_when_donor", LostIfTrue("a node that is a donor is not used")),
    ("set_donor_nodes", LostIfTrue("Flifo sets nothing at the servers")),
    ("script", Lost("let Prometheus and its alerts notice changes (docs/manual/alerting.md)")),
    ("events", Lost("let Prometheus and its alerts notice changes (docs/manual/alerting.md)")),
];

const KEEP: &str = "Flifo promotes no server: keep MaxScale's monitor without its services, or another tool, for that";

pub(super) const SERVICE: Ways = &[
    ("type", Elsewhere),
    ("router", Elsewhere),
    ("router_options", Elsewhere),
    ("servers", Elsewhere),
    ("cluster", Elsewhere),
    ("targets", Elsewhere),
    ("filters", Elsewhere),
    ("user", Elsewhere),
    ("password", Elsewhere),
    ("passwd", Elsewhere),
    ("causal_reads", Elsewhere),
    ("delayed_retry", Elsewhere),
    ("delayed_retry_timeout", Elsewhere),
    ("max_slave_replication_lag", Time("routing.lag_max", SECOND)),
    ("max_replication_lag", Time("routing.lag_max", SECOND)),
    ("max_connections", Count("clients_max")),
    ("connection_timeout", Time("limits.idle_client", SECOND)),
    ("wait_timeout", Time("limits.idle_client", SECOND)),
    ("net_write_timeout", Time("limits.write_stall", SECOND)),
    ("version_string", Text("server.version")),
    ("master_accept_reads", IfTrue("routing.writer_reads", "always")),
    ("master_failure_mode", Needless("reads go on, and writes wait for a writer: routing.hold")),
    ("master_reconnection", Needless("clients go on with the new writer")),
    (
        "transaction_replay",
        LostIfTrue(
            "a transaction in flight ends with an error that says whether it may have been executed",
        ),
    ),
    ("transaction_replay_max_size", Needless("transactions are not replayed")),
    ("transaction_replay_attempts", Needless("transactions are not replayed")),
    ("transaction_replay_timeout", Needless("transactions are not replayed")),
    (
        "transaction_replay_retry_on_deadlock",
        LostIfTrue("transactions are not replayed: the application tries again"),
    ),
    ("optimistic_trx", Needless("a transaction begins at the writer")),
    ("causal_reads_timeout", Needless("no read waits on a reader: the writer serves it")),
    (
        "slave_selection_criteria",
        Needless("the reader that has least to do for its weight is asked"),
    ),
    ("max_slave_connections", Needless("connections belong to statements and not to sessions")),
    ("slave_connections", Needless("connections belong to statements and not to sessions")),
    ("lazy_connect", Needless("connections belong to statements and not to sessions")),
    ("retry_failed_reads", Needless("a pipelined read that was not answered is sent again")),
    ("connection_keepalive", Needless("idle connections are closed (limits.idle_backend)")),
    ("idle_session_pool_time", Needless("connections are shared after each statement")),
    ("strict_multi_stmt", Needless("statements of several parts go to the writer")),
    ("strict_sp_calls", Needless("CALL goes to the writer; see users.routines")),
    ("strict_tmp_tables", Needless("a session with temporary tables keeps its connection")),
    ("use_sql_variables_in", Needless("session variables are told to each connection")),
    ("reuse_prepared_statements", Needless("prepared statements are shared")),
    ("prune_sescmd_history", Needless("what a session has set is known, not its history")),
    ("max_sescmd_history", Needless("what a session has set is known, not its history")),
    ("disable_sescmd_history", Needless("what a session has set is known, not its history")),
    ("enable_root_user", Needless("the server decides whether root may log in")),
    (
        "localhost_match_wildcard_host",
        Needless("clients are held to the account that the server would choose"),
    ),
    ("auth_all_servers", Needless("the writer's accounts count")),
    ("strip_db_esc", Needless("rights are the server's")),
    ("log_auth_warnings", Needless("each refused login is logged")),
    ("session_trace", Needless("see [logs.slow]")),
    ("retain_last_statements", Needless("see SHOW CLIENTS and [logs.slow]")),
    ("session_track_trx_state", Needless("the servers report the state of transactions")),
    ("max_retry_interval", Needless("connections are tried again at once")),
    ("weightby", Lost("write servers.weight")),
    ("user_accounts_file", Lost("give these users in [[users]]")),
    ("force_connection_keepalive", Needless("idle connections are closed (limits.idle_backend)")),
];

pub(super) const LISTENER: Ways = &[
    ("type", Elsewhere),
    ("service", Elsewhere),
    ("address", Elsewhere),
    ("port", Elsewhere),
    ("socket", Elsewhere),
    ("protocol", Elsewhere),
    ("ssl", IfTrue("tls.mode", "required")),
    ("ssl_cert", Text("tls.cert")),
    ("ssl_key", Text("tls.key")),
    ("ssl_ca", Elsewhere),
    ("ssl_ca_cert", Elsewhere),
    ("ssl_verify_peer_certificate", Elsewhere),
    ("ssl_version", Needless("TLS 1.2 and 1.3 are spoken")),
    (
        "authenticator",
        Lost("users of other plugins are passed through: the server authenticates them"),
    ),
    (
        "authenticator_options",
        Lost("users of other plugins are passed through: the server authenticates them"),
    ),
    ("sql_mode", Needless("texts are read in either mode")),
    ("connection_init_sql_file", Lost("write one SET of session variables: server.init_connect")),
    ("proxy_protocol_networks", Elsewhere),
    ("user_mapping_file", Lost("users have the same name here and at the server")),
];

/// Converts the settings of a section by a table.
pub(super) fn convert(reader: &Reader<'_>, section: &IniSection, ways: Ways, work: &mut Work) {
    convert_with(reader, section, ways, work, &|item, option, value, work: &mut Work| {
        work.set(item, option, value);
    });
}

/// The same of a server at this address, whose settings are its own here as well.
pub(super) fn convert_server(
    reader: &Reader<'_>,
    section: &IniSection,
    address: &str,
    work: &mut Work,
) {
    convert_with(reader, section, SERVER, work, &|item, key, value, work: &mut Work| {
        work.set_of_server(item, address, (key, value), "");
    });
}

/// Sets an option to what an item says.
type SetOption<'a> = &'a dyn Fn(&Item, &'static str, Value, &mut Work);

fn convert_with(
    reader: &Reader<'_>,
    section: &IniSection,
    ways: Ways,
    work: &mut Work,
    set: SetOption<'_>,
) {
    for entry in &section.entries {
        let item = reader.item(section, entry);
        match ways.iter().find(|(key, _)| *key == entry.key) {
            Some((_, way)) => one(entry, &item, *way, work, set),
            None => work.lost(
                &item,
                "it is not known; look for what it did in the reference of the configuration",
            ),
        }
    }
}

fn one(entry: &IniEntry, item: &Item, way: Way, work: &mut Work, set: SetOption<'_>) {
    let value = &*entry.value;
    match way {
        Elsewhere => {}
        Needless(why) => work.needless(item, why),
        Lost(instead) => work.lost(item, instead),
        LostIfTrue(instead) if is_true(value) => work.lost(item, instead),
        IfTrue(option, then) if is_true(value) => set(item, option, then.into(), work),
        LostIfTrue(_) | IfTrue(..) => work.needless(item, "it is off"),
        Text("workers") if value.eq_ignore_ascii_case("auto") => {
            work.needless(item, "workers = \"auto\" is the default: one on a small machine");
        }
        Text("workers") => count(item, "workers", value, work, set),
        Text(option) => set(item, option, value.into(), work),
        Count(option) => count(item, option, value, work, set),
        Time(option, unit) => match milliseconds(value, unit) {
            Some(0)
                if matches!(
                    option,
                    "limits.idle_client" | "limits.write_stall" | "routing.lag_max"
                ) =>
            {
                set(item, option, "none".into(), work);
            }
            Some(0) | None => work.lost(item, "this is no time that could be set"),
            Some(it) => set(item, option, time(it.min(DAY)), work),
        },
    }
}

fn count(item: &Item, option: &'static str, value: &str, work: &mut Work, set: SetOption<'_>) {
    match value.parse::<u64>() {
        Ok(0) => work.needless(item, "0 is no bound, and so is none here"),
        Ok(number) => set(item, option, Value::Number(number.min(most(option))), work),
        Err(_) => work.lost(item, "this is no number"),
    }
}

fn most(option: &str) -> u64 {
    match option {
        "workers" => 256,
        "checks.fall" => 100,
        "clients_max" => 1_000_000,
        _ => 100_000,
    }
}

const DAY: u64 = 86_400_000;

/// A time with its unit; a bare number has this one.
pub(super) fn milliseconds(text: &str, unit: u64) -> Option<u64> {
    let at = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(at);
    let unit = match suffix.trim() {
        "" => unit,
        "ms" => 1,
        "s" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        "d" => DAY,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(unit)
}
