//! ProxySQL's tables of figures, read only, so that dashboards that were made for it work: its names of tables and
//! columns, and what they mean there, as far as Flifo counts it.
//!
//! Hostgroup 0 is the writer (or the only server), 1 the servers that only read. What Flifo does not count is empty or
//! zero; figures of statements are not kept by user, schema or client.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use backend::Address;
use view::digests::{self, Told};
use view::histogram::Histogram;
use view::table::{Column, Table, Value, count, text};

use super::any_server::VERSION;
use super::listings::command_of;
use super::survey::Surveyed;
use super::tables::{CLIENTS, DIGESTS, NUMBERS, Shown, pools_of_all, total, whole};
use super::{Outside, rules};
use crate::cluster::servers::Server;
use crate::fault::Kind;
use crate::state::client_state::{ClientState, StateCounts};
use crate::upkeep::report::Want;

/// Reading it has the figures of statements begin at zero.
pub(super) const DIGEST_RESET: &str = "stats_mysql_query_digest_reset";

const fn table(
    name: &'static str,
    want: Want,
    columns: &'static [Column],
    fill: fn(&Outside, &Surveyed, &mut Table),
) -> Shown {
    Shown { name, help: "", want, columns, narrow: &[], fill }
}

pub(super) static TABLES: [Shown; 15] = [
    table("global_variables", NUMBERS, VARIABLES, variables),
    table("mysql_servers", NUMBERS, SERVERS, servers),
    table("runtime_mysql_query_rules", NUMBERS, QUERY_RULES, rules::proxysql_rules),
    table("runtime_mysql_servers", NUMBERS, SERVERS, servers),
    table("runtime_mysql_users", NUMBERS, RUNTIME_USERS, runtime_users),
    table("stats_memory_metrics", CLIENTS, GLOBAL, memory),
    table("stats_mysql_commands_counters", DIGESTS, COMMANDS, commands),
    table("stats_mysql_connection_pool", NUMBERS, POOL, connection_pool),
    table("stats_mysql_errors", NUMBERS, ERRORS, errors),
    table("stats_mysql_global", BOTH, GLOBAL, global),
    table("stats_mysql_processlist", CLIENTS, PROCESSLIST, processlist),
    table("stats_mysql_query_digest", DIGESTS, DIGEST, query_digest),
    table(DIGEST_RESET, DIGESTS, DIGEST, query_digest),
    table("stats_mysql_query_rules", NUMBERS, HITS, rules::proxysql_hits),
    table("stats_mysql_users", NUMBERS, USERS, users),
];

const VARIABLES: &[Column] = &[text("variable_name"), text("variable_value")];

const HITS: &[Column] = &[count("rule_id"), count("hits")];

/// Clients and connections one by one.
const BOTH: Want = Want { backends: true, ..CLIENTS };

pub(super) fn named(name: &str) -> Option<&'static Shown> {
    TABLES.iter().find(|shown| shown.name.eq_ignore_ascii_case(name))
}

/// The schema that ProxySQL has a table in.
pub(super) fn schema_of(shown: &Shown) -> &'static str {
    if shown.name.starts_with("stats_") { "stats" } else { "main" }
}

/// The host and port of a server; of a Unix socket, its path and 0, as ProxySQL has it.
fn place(address: &Address) -> (String, u64) {
    match address {
        Address::Tcp { host, port } => (host.clone(), u64::from(*port)),
        Address::Unix(path) => (path.display().to_string(), 0),
    }
}

fn hostgroup(outside: &Outside, server: &Server) -> u64 {
    let Some(members) = outside.shared.cluster.routes_at(server.id) else { return 0 };
    // Each cluster has two, that of the writer first.
    2 * members.id.0 as u64 + u64::from(!members.is_writer(server.id))
}

/// What ProxySQL calls a server's state.
fn status(outside: &Outside, server: &Server) -> &'static str {
    match outside.shared.cluster.state_of(server).name {
        "down" | "going up" => "SHUNNED",
        "paused" | "drain" => "OFFLINE_SOFT",
        "maintenance" => "OFFLINE_HARD",
        _ => "ONLINE",
    }
}

/// Seconds since 1970.
fn epoch(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

const POOL: &[Column] = &[
    count("hostgroup"),
    text("srv_host"),
    count("srv_port"),
    text("status"),
    count("ConnUsed"),
    count("ConnFree"),
    count("ConnOK"),
    count("ConnERR"),
    count("MaxConnUsed"),
    count("Queries"),
    count("Queries_GTID_sync"),
    count("Bytes_data_sent"),
    count("Bytes_data_recv"),
    count("Latency_us"),
];

fn connection_pool(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    for server in outside.shared.cluster.servers.iter() {
        let (host, port) = place(&server.address);
        let gate = surveyed.at(server.id);
        let (held, idle) = (u64::from(server.backends.held()), gate.backends_idle as u64);
        table.add([
            hostgroup(outside, server).into(),
            host.into(),
            port.into(),
            status(outside, server).into(),
            held.saturating_sub(idle).into(),
            idle.into(),
            gate.traffic.opened.into(),
            gate.traffic.failed.into(),
            // The most that ever were is not kept.
            held.into(),
            gate.traffic.answered.into(),
            0_u32.into(),
            gate.traffic.sent.into(),
            gate.traffic.received.into(),
            micros(gate.traffic.mean_run()).into(),
        ]);
    }
}

const PROCESSLIST: &[Column] = &[
    count("ThreadID"),
    count("SessionID"),
    text("user"),
    text("db"),
    text("cli_host"),
    count("cli_port"),
    count("hostgroup"),
    text("l_srv_host"),
    count("l_srv_port"),
    text("srv_host"),
    count("srv_port"),
    text("command"),
    count("time_ms"),
    text("info"),
    count("status_flags"),
    text("extended_info"),
];

fn processlist(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    for report in &surveyed.reports {
        for person in &report.clients {
            // A client without a backend is at no server.
            let server = person.backend.map(|_| outside.shared.cluster.server(person.server));
            let at = server.map(|server| place(&server.address));
            let table_row: [Value; 16] = [
                report.worker.into(),
                person.id.into(),
                person.user.clone().into(),
                person.schema.clone().into(),
                person
                    .address
                    .map_or_else(|| "localhost".to_owned(), |it| it.ip().to_string())
                    .into(),
                u64::from(person.address.map_or(0, |it| it.port())).into(),
                server.map(|server| hostgroup(outside, server)).into(),
                Value::Null,
                Value::Null,
                at.as_ref().map(|(host, _)| host.clone()).into(),
                at.map(|(_, port)| port).into(),
                command_of(person).into(),
                u64::try_from(person.changed.as_millis()).unwrap_or(u64::MAX).into(),
                person.work.as_ref().and_then(|work| work.text.clone()).into(),
                0_u32.into(),
                "".into(),
            ];
            table.add(table_row);
        }
    }
}

const GLOBAL: &[Column] = &[text("Variable_Name"), text("Variable_Value")];

fn global(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let whole = whole(surveyed);
    let of = |name| total(surveyed, name);
    let fault = |kind: Kind| -> u64 {
        surveyed.reports.iter().filter_map(|report| report.faults.get(kind as usize)).sum()
    };
    let states = StateCounts::sum(surveyed.reports.iter().map(|report| report.states));
    let idle = states.clients[ClientState::Reading as usize];
    let servers = outside.shared.cluster.servers.iter();
    let traffic = servers.map(|server| surveyed.at(server.id).traffic);
    let traffic = traffic.reduce(|one, two| one.plus(two)).unwrap_or_default();
    let nanos = u64::try_from(traffic.run.as_nanos()).unwrap_or(u64::MAX);
    let up = SystemTime::now().duration_since(outside.started).unwrap_or_default();
    let transactions = surveyed.reports.iter().flat_map(|report| &report.clients);
    let prepared = surveyed.reports.iter().flat_map(|report| &report.backends);
    let rows: [(&str, u64); 24] = [
        ("ProxySQL_Uptime", up.as_secs()),
        ("Active_Transactions", transactions.filter(|it| it.in_transaction).count() as u64),
        ("Client_Connections_aborted", fault(Kind::BadHandshake) + fault(Kind::AccessDenied)),
        ("Client_Connections_connected", whole.clients),
        ("Client_Connections_created", of("clients_pooled") + of("clients_pass_through")),
        ("Server_Connections_aborted", traffic.failed),
        ("Server_Connections_connected", whole.backends),
        ("Server_Connections_created", traffic.opened),
        ("Server_Connections_delayed", 0),
        ("Client_Connections_non_idle", whole.clients.saturating_sub(u64::from(idle))),
        ("Queries_backends_bytes_recv", traffic.received),
        ("Queries_backends_bytes_sent", traffic.sent),
        ("Queries_frontends_bytes_recv", of("bytes_in")),
        ("Queries_frontends_bytes_sent", of("bytes_out")),
        ("Backend_query_time_nsec", nanos),
        ("MySQL_Thread_Workers", outside.shared.worker_count() as u64),
        ("Questions", of("statements")),
        ("Slow_queries", 0),
        ("Access_Denied_Wrong_Password", fault(Kind::AccessDenied)),
        ("Access_Denied_Max_Connections", fault(Kind::TooManyClients)),
        ("Access_Denied_Max_User_Connections", fault(Kind::UserLimit)),
        ("generated_error_packets", surveyed.reports.iter().flat_map(|it| &it.faults).sum()),
        ("Stmt_Server_Active_Total", prepared.map(|it| it.prepared as u64).sum()),
        ("mysql_killed_backend_queries", of("kills")),
    ];
    for (name, value) in rows {
        table.add([name.into(), value.to_string().into()]);
    }
}

const ERRORS: &[Column] = &[
    count("hostgroup"),
    text("hostname"),
    count("port"),
    text("username"),
    text("client_address"),
    text("schemaname"),
    count("errno"),
    count("count_star"),
    count("first_seen"),
    count("last_seen"),
    text("last_error"),
];

/// Errors of the servers, by number. Flifo keeps no message: it may hold users' data.
fn errors(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let (host, port) = place(&outside.shared.cluster.first().address);
    let is_one = outside.shared.cluster.servers.len() == 1;
    let now = SystemTime::now();
    let mut all: BTreeMap<u16, (u64, Duration)> = BTreeMap::new();
    for report in &surveyed.reports {
        for error in &report.errors {
            let ago = report.at.saturating_duration_since(error.last);
            let known = all.entry(error.code).or_insert((0, ago));
            *known = (known.0 + error.count, known.1.min(ago));
        }
    }
    for (code, (counted, ago)) in all {
        let last = now.checked_sub(ago).unwrap_or(UNIX_EPOCH);
        table.add([
            0_u32.into(),
            if is_one { host.clone() } else { String::new() }.into(),
            if is_one { port } else { 0 }.into(),
            "".into(),
            "".into(),
            "".into(),
            u64::from(code).into(),
            counted.into(),
            epoch(outside.started).into(),
            epoch(last).into(),
            "".into(),
        ]);
    }
}

const USERS: &[Column] =
    &[text("username"), count("frontend_connections"), count("frontend_max_connections")];

fn users(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let plan = outside.shared.plan();
    let pools = pools_of_all(surveyed);
    let max = |name: &str| {
        let user = plan.users.iter().find(|user| user.name == name);
        user.and_then(|user| user.clients_max).unwrap_or(plan.clients_max)
    };
    for (name, pool) in &pools {
        table.add([(*name).to_owned().into(), pool.clients.into(), max(name).into()]);
    }
    for user in plan.users.iter().filter(|user| !pools.contains_key(user.name.as_str())) {
        table.add([user.name.clone().into(), 0_u32.into(), max(&user.name).into()]);
    }
}

const RUNTIME_USERS: &[Column] = &[
    text("username"),
    text("password"),
    count("active"),
    count("use_ssl"),
    count("default_hostgroup"),
    text("default_schema"),
    count("schema_locked"),
    count("transaction_persistent"),
    count("fast_forward"),
    count("backend"),
    count("frontend"),
    count("max_connections"),
    text("attributes"),
    text("comment"),
];

/// Passwords are not shown. A pass-through user is what ProxySQL calls fast forward.
fn runtime_users(outside: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let plan = outside.shared.plan();
    let required = plan.tls.mode == crate::config::ClientTlsMode::Required;
    let mut add = |name: &str, is_pooled: bool, most: u32| {
        table.add([
            name.to_owned().into(),
            "".into(),
            1_u32.into(),
            u32::from(required).into(),
            0_u32.into(),
            Value::Null,
            0_u32.into(),
            1_u32.into(),
            u32::from(!is_pooled).into(),
            1_u32.into(),
            1_u32.into(),
            most.into(),
            "".into(),
            "".into(),
        ]);
    };
    for user in &plan.users {
        add(&user.name, user.pooled, user.clients_max.unwrap_or(plan.clients_max));
    }
    for (name, pool) in pools_of_all(surveyed) {
        if plan.users.iter().all(|user| user.name != name) {
            add(name, pool.pass_through < pool.clients, plan.clients_max);
        }
    }
}

const COMMANDS: &[Column] = &[
    text("Command"),
    count("Total_Time_us"),
    count("Total_cnt"),
    count("cnt_100us"),
    count("cnt_500us"),
    count("cnt_1ms"),
    count("cnt_5ms"),
    count("cnt_10ms"),
    count("cnt_50ms"),
    count("cnt_100ms"),
    count("cnt_500ms"),
    count("cnt_1s"),
    count("cnt_5s"),
    count("cnt_10s"),
    count("cnt_INFs"),
];

/// The upper bounds of the columns, in microseconds.
const BOUNDS: [u64; 11] =
    [100, 500, 1000, 5000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000, 10_000_000];

/// Statements by their first word, as far as the figures of statements tell it.
fn commands(_: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let mut all: BTreeMap<String, Histogram> = BTreeMap::new();
    for told in digests::join(surveyed.reports.iter().map(|report| report.digests.clone())) {
        let first =
            told.text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let first = first.into_iter().find(|word| !word.is_empty()).unwrap_or("UNKNOWN");
        all.entry(first.to_ascii_uppercase()).or_default().merge(&told.figures.run);
    }
    for (command, run) in all.into_iter().filter(|(_, run)| run.count() > 0) {
        let mut row: Vec<Value> =
            vec![command.into(), micros(run.sum()).into(), run.count().into()];
        let mut before = 0;
        for bound in BOUNDS {
            let below = run.below_time(Duration::from_micros(bound)).max(before);
            row.push((below - before).into());
            before = below;
        }
        row.push(run.count().saturating_sub(before).into());
        table.rows.push(row);
    }
}

const DIGEST: &[Column] = &[
    count("hostgroup"),
    text("schemaname"),
    text("username"),
    text("client_address"),
    text("digest"),
    text("digest_text"),
    count("count_star"),
    count("first_seen"),
    count("last_seen"),
    count("sum_time"),
    count("min_time"),
    count("max_time"),
    count("sum_rows_affected"),
    count("sum_rows_sent"),
];

/// Of a statement of several users or schemas, the first of them is shown.
fn query_digest(_: &Outside, surveyed: &Surveyed, table: &mut Table) {
    let ago = |ago: Duration| epoch(SystemTime::now().checked_sub(ago).unwrap_or(UNIX_EPOCH));
    for told in digests::join(surveyed.reports.iter().map(|report| report.digests.clone())) {
        let Told { digest, text, asked, figures } = told;
        let run = &figures.run;
        if run.count() == 0 {
            continue;
        }
        let time = |share| run.quantile(share).map_or(0, micros);
        table.add([
            0_u32.into(),
            asked.as_ref().and_then(|it| it.schema.clone()).unwrap_or_default().into(),
            asked.as_ref().map(|it| it.user.clone()).unwrap_or_default().into(),
            "".into(),
            format!("0x{digest:016X}").into(),
            String::from(text).into(),
            run.count().into(),
            asked.as_ref().map(|it| ago(it.first)).into(),
            asked.as_ref().map(|it| ago(it.last)).into(),
            micros(run.sum()).into(),
            time(0.0).into(),
            run.longest().map_or(0, micros).into(),
            figures.affected.into(),
            figures.rows.into(),
        ]);
    }
}

const SERVERS: &[Column] = &[
    count("hostgroup_id"),
    text("hostname"),
    count("port"),
    count("gtid_port"),
    text("status"),
    count("weight"),
    count("compression"),
    count("max_connections"),
    count("max_replication_lag"),
    count("use_ssl"),
    count("max_latency_ms"),
    text("comment"),
];

fn servers(outside: &Outside, _: &Surveyed, table: &mut Table) {
    let plan = outside.shared.plan();
    for server in outside.shared.cluster.servers.iter() {
        let (host, port) = place(&server.address);
        let options = plan.governing(&server.cluster);
        let rule = plan.server_rule(&server.name);
        let weight = rule.map_or(1, |rule| rule.weight);
        let lag = rule.and_then(|rule| rule.lag_max.or(options.routing.lag_max));
        let tls = rule.and_then(|rule| rule.tls.mode).unwrap_or(options.server.tls.mode);
        table.add([
            hostgroup(outside, server).into(),
            host.into(),
            port.into(),
            0_u32.into(),
            status(outside, server).into(),
            weight.into(),
            0_u32.into(),
            server.backends.limit().into(),
            lag.map_or(0, |lag| lag.as_secs()).into(),
            u32::from(tls != backend::tls::Mode::Off).into(),
            0_u32.into(),
            server.name.clone().into(),
        ]);
    }
}

const QUERY_RULES: &[Column] = &[
    count("rule_id"),
    count("active"),
    text("username"),
    text("schemaname"),
    count("flagIN"),
    text("client_addr"),
    text("proxy_addr"),
    count("proxy_port"),
    text("digest"),
    text("match_digest"),
    text("match_pattern"),
    count("negate_match_pattern"),
    text("re_modifiers"),
    count("flagOUT"),
    text("replace_pattern"),
    count("destination_hostgroup"),
    count("cache_ttl"),
    count("cache_empty_result"),
    count("cache_timeout"),
    count("reconnect"),
    count("timeout"),
    count("retries"),
    count("delay"),
    count("next_query_flagIN"),
    count("mirror_flagOUT"),
    count("mirror_hostgroup"),
    text("error_msg"),
    text("OK_msg"),
    count("sticky_conn"),
    count("multiplex"),
    count("gtid_from_hostgroup"),
    count("log"),
    count("apply"),
    text("attributes"),
    text("comment"),
];

fn memory(_: &Outside, _: &Surveyed, table: &mut Table) {
    let resident = sys::heap::resident().unwrap_or_default();
    table.add(["resident_memory_bytes".into(), resident.to_string().into()]);
}

fn variables(outside: &Outside, _: &Surveyed, table: &mut Table) {
    for (name, value) in global_variables(outside) {
        table.add([name.into(), value.into()]);
    }
}

/// The variables of ProxySQL that dashboards read.
pub(super) fn global_variables(outside: &Outside) -> Vec<(&'static str, String)> {
    let plan = outside.shared.plan();
    let version = outside.shared.cluster.servers.iter().find_map(|server| server.facts.greeting());
    let version = version.map(|it| String::from_utf8_lossy(&it.version).into_owned());
    let all = |listen: &[crate::config::Listen]| {
        listen.iter().map(ToString::to_string).collect::<Vec<_>>().join(";")
    };
    vec![
        ("admin-mysql_ifaces", all(&plan.console.listen)),
        ("admin-read_only", "true".to_owned()),
        ("admin-version", VERSION.to_owned()),
        ("mysql-interfaces", all(&plan.listen)),
        ("mysql-max_connections", plan.clients_max.to_string()),
        ("mysql-multiplexing", "true".to_owned()),
        (
            "mysql-server_version",
            // What MariaDB puts before its version is meant for replicas.
            version.unwrap_or_default().trim_start_matches("5.5.5-").to_owned(),
        ),
        ("mysql-threads", outside.shared.worker_count().to_string()),
    ]
}
