//! Options of several servers: each of them, how they are checked, and which statements go where.

use std::time::Duration;

use backend::tls::Mode as TlsMode;
use engine::cluster::{Gaps, Group, WriterReads};

use wire::auth::Secret;

use super::{FIRST, Row, Section, paths};
use crate::config::address;
use crate::config::form::{Form, Named};
use crate::config::options::Applies::{NewConnections, Now, Restart};
use crate::config::plan::{
    CheckKind, Freshness, Mode, Password, Plan, ReadsBy, RouteRule, ServerRule,
};

pub(in crate::config) static SERVERS: Section<ServerRule> = Section {
    name: "servers",
    doc: "Several servers instead of the one of `[server]`, whose other options hold for each of \
          these: each has its own limit, backend connections and state. `[checks]` finds out which \
          one is written to and which ones are read from; `[routing]` says which statements go \
          where.",
    rows: &[
        Row {
            name: "name",
            form: Form::Text {
                allowed: "a word",
                show: |rule| Some(rule.name.clone()).filter(|name| !name.is_empty()),
                set: |rule, text| {
                    super::server::check_name(text)?;
                    text.clone_into(&mut rule.name);
                    Ok(())
                },
            },
            example: Some("\"db1\""),
            doc: "What the server is called on the console, in logs and metrics. Needed.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "address",
            form: Form::Text {
                allowed: "an address: \"/path/of.sock\", \"host:port\", \"host\"",
                show: |rule| rule.address.as_ref().map(ToString::to_string),
                set: |rule, text| {
                    rule.address = address::server(text)?;
                    match rule.address {
                        Some(_) => Ok(()),
                        None => Err("where there are several servers, each needs its address \
                                     written out"
                            .to_owned()),
                    }
                },
            },
            example: Some("\"10.0.0.11:3306\""),
            doc: "Where the server is. Needed.",
            elsewhere: &[("ProxySQL", "mysql_servers.hostname")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "cluster",
            form: Form::Text {
                allowed: "a cluster's name",
                show: |rule| Some(rule.cluster.clone()),
                set: |rule, text| {
                    text.clone_into(&mut rule.cluster);
                    Ok(())
                },
            },
            example: None,
            doc: "The cluster that the server belongs to. Needed where `[[clusters]]` are listed.",
            elsewhere: &[("ProxySQL", "mysql_servers.hostgroup_id")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "group",
            form: Form::Choice(&Named {
                values: &[
                    ("auto", Group::Auto),
                    ("writer", Group::Writer),
                    ("readers", Group::Readers),
                ],
                place: |rule: &mut ServerRule| &mut rule.group,
            }),
            example: None,
            doc: "What the server is for. \"auto\": what it says itself when it is checked. The \
                  one that is not read_only is written to; of a Galera cluster, the first node \
                  that is ready. \"writer\": it is written to unless it says that it is read_only; \
                  of several, the first. \"readers\": it is never written to.",
            elsewhere: &[("ProxySQL", "mysql_servers.hostgroup_id")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "weight",
            form: Form::Count { range: 1..=1000, place: |rule| &mut rule.weight },
            example: None,
            doc: "Its share of the reads beside other readers. A statement goes to the reader \
                  that has least to do for its weight.",
            elsewhere: &[("HAProxy", "weight"), ("ProxySQL", "mysql_servers.weight")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "backup",
            form: Form::Choice(&Named {
                values: &[("no", false), ("yes", true)],
                place: |rule: &mut ServerRule| &mut rule.backup,
            }),
            example: None,
            doc: "Whether it is used only while no other server of its group can be.",
            elsewhere: &[("HAProxy", "backup")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "limit",
            form: Form::CountOr { word: "same", range: 1..=100_000, place: |rule| &mut rule.limit },
            example: None,
            doc: "Statements that this server runs at once, if that is not `server.limit`.",
            elsewhere: &[("HAProxy", "maxconn")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "connections_max",
            form: Form::CountOr {
                word: "same",
                range: 1..=100_000,
                place: |rule| &mut rule.connections_max,
            },
            example: None,
            doc: "The most backend connections to this server for pooled users, if that is not \
                  `server.connections_max`.",
            elsewhere: &[("ProxySQL", "mysql_servers.max_connections")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "lag_max",
            form: Form::Bound {
                range: SHORT..=Duration::from_hours(24),
                place: |rule| &mut rule.lag_max,
            },
            example: None,
            doc: "Further behind than this, the server is not read from, if that is not \
                  `routing.lag_max`.",
            elsewhere: &[("ProxySQL", "mysql_servers.max_replication_lag")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "send_proxy",
            form: Form::Choice(&Named {
                values: &[("same", None), ("off", Some(false)), ("v2", Some(true))],
                place: |rule: &mut ServerRule| &mut rule.send_proxy,
            }),
            example: None,
            doc: "Whether connections to this server begin with a PROXY header, if that is not as \
                  `server.send_proxy` says.",
            elsewhere: &[
                ("HAProxy", "server send-proxy-v2"),
                ("MaxScale", "server: proxy_protocol"),
            ],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "tls",
            form: Form::Choice(&Named {
                values: &[
                    ("same", None),
                    ("off", Some(TlsMode::Off)),
                    ("preferred", Some(TlsMode::Preferred)),
                    ("required", Some(TlsMode::Required)),
                    ("verify-ca", Some(TlsMode::VerifyCa)),
                    ("verify-full", Some(TlsMode::VerifyFull)),
                ],
                place: |rule: &mut ServerRule| &mut rule.tls.mode,
            }),
            example: None,
            doc: "TLS on connections to this server, if that is not `server.tls`.",
            elsewhere: &[("ProxySQL", "mysql_servers.use_ssl"), ("HAProxy", "server ssl verify")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "tls_ca",
            form: Form::Text {
                allowed: paths::FILE,
                show: |rule| paths::show(rule.tls.ca.as_ref()),
                set: |rule, text| paths::set(&mut rule.tls.ca, text),
            },
            example: Some("\"/etc/flifo/db1-ca.pem\""),
            doc: "PEM file of the authorities that are trusted with this server's certificate, \
                  instead of `server.tls_ca`.",
            elsewhere: &[("ProxySQL", "mysql_servers_ssl_params.ssl_ca")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "tls_cert",
            form: Form::Text {
                allowed: paths::FILE,
                show: |rule| paths::certificate(rule.tls.identity.as_ref()),
                set: |rule, text| paths::set_certificate(&mut rule.tls.identity, text),
            },
            example: Some("\"/etc/flifo/db1-client.pem\""),
            doc: "PEM file of the certificate that Flifo shows to this server, instead of \
                  `server.tls_cert`.",
            elsewhere: &[("ProxySQL", "mysql_servers_ssl_params.ssl_cert")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "tls_key",
            form: Form::Text {
                allowed: paths::FILE,
                show: |rule| paths::key(rule.tls.identity.as_ref()),
                set: |rule, text| paths::set_key(&mut rule.tls.identity, text),
            },
            example: Some("\"/etc/flifo/db1-client-key.pem\""),
            doc: "PEM file of the private key of `tls_cert`.",
            elsewhere: &[("ProxySQL", "mysql_servers_ssl_params.ssl_key")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "tls_server_name",
            form: Form::Text {
                allowed: paths::SERVER_NAME,
                show: |rule| rule.tls.server_name.clone(),
                set: |rule, text| paths::set_server_name(&mut rule.tls.server_name, text),
            },
            example: Some("\"db1.example.com\""),
            doc: "The name that this server's certificate must bear under \"verify-full\", \
                  instead of `server.tls_server_name` or the host of its address.",
            elsewhere: &[("HAProxy", "verifyhost")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "agent",
            form: Form::Text {
                allowed: "an address with its port: \"host:port\", or \"/path/of.sock\"",
                show: |rule| rule.agent.as_ref().map(ToString::to_string),
                set: |rule, text| {
                    rule.agent = Some(address::agent(text)?);
                    Ok(())
                },
            },
            example: Some("\"10.0.0.11:9999\""),
            doc: "Address of an agent that reports the server's state in one line, in the format \
                  of HAProxy's agent-check: \"up\", \"down\", \"stopped\" or \"fail\", with a \
                  reason behind '#'; \"drain\", \"maint\", \"ready\"; \"75%\" of its weight, of \
                  which 0 is as \"drain\"; \"maxconn:30\" statements at once, of which 0 is again \
                  the limit that it had. What the answer does not mention stays as it was; an \
                  agent that cannot be reached changes nothing.",
            elsewhere: &[("HAProxy", "agent-check, agent-addr, agent-port")],
            since: FIRST,
            applies: Now,
        },
    ],
};

const SHORT: Duration = Duration::from_millis(10);
const HOUR: Duration = Duration::from_hours(1);

pub(in crate::config) static CHECKS: Section<Plan> = Section {
    name: "checks",
    doc: "How servers of `[[servers]]` are checked. Each worker checks its part of them.",
    rows: &[
        Row {
            name: "kind",
            form: Form::Choice(&Named {
                values: &[
                    ("auto", CheckKind::Auto),
                    ("connect", CheckKind::Connect),
                    ("handshake", CheckKind::Handshake),
                    ("ping", CheckKind::Ping),
                    ("statement", CheckKind::Statement),
                    ("none", CheckKind::None),
                ],
                place: |plan: &mut Plan| &mut plan.checks.kind,
            }),
            example: None,
            doc: "What a check does. \"connect\" opens a connection; \"handshake\" waits for the \
                  server's greeting as well; \"ping\" sends COM_PING on a connection that stays \
                  open; \"statement\" runs `checks.statement` on it. \"auto\" asks on such a \
                  connection for the server's role and its replication position, which servers of \
                  group \"auto\" need; without a user that can log in, it is as \"handshake\". The only \
                  server is asked whether it lives, and without such a user not at all. \"none\": \
                  the only server is not asked.",
            elsewhere: &[("HAProxy", "option mysql-check")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "user",
            form: Form::Text {
                allowed: "a user's name",
                show: |plan| plan.checks.user.clone(),
                set: |plan, text| {
                    plan.checks.user = Some(text.to_owned());
                    Ok(())
                },
            },
            example: Some("\"app\""),
            doc: "The user that checks log in as: an account of its own, whose password is below, or \
                  one that is named in `[[users]]` with its password. It needs no privileges. \
                  Without this option, it is the first user there whose password is known.",
            elsewhere: &[("ProxySQL", "mysql-monitor_username")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "password",
            form: Form::Secret {
                allowed: "a text",
                get: |plan| plan.checks.password.clone().map(Password::Plain),
                set: |plan, text| {
                    plan.checks.password = Some(Secret::from(text));
                    Ok(())
                },
            },
            example: Some("\"a long random text\""),
            doc: "The password of `checks.user`, where that is none of `[[users]]`: clients cannot \
                  log in as it, unless the server lets them.",
            elsewhere: &[("ProxySQL", "mysql-monitor_password")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "password_file",
            form: Form::Text {
                allowed: paths::FILE,
                show: |plan| paths::show(plan.checks.password_file.as_ref()),
                set: |plan, text| paths::set(&mut plan.checks.password_file, text),
            },
            example: Some("\"/etc/flifo/checks.password\""),
            doc: "Instead of `checks.password`, a file that contains it. One line end behind it does \
                  not count.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "statement",
            form: Form::Text {
                allowed: "a statement whose rows have two columns",
                show: |plan| plan.checks.statement.clone(),
                set: |plan, text| {
                    plan.checks.statement = Some(text.to_owned());
                    Ok(())
                },
            },
            example: Some("\"SELECT 'ready', COUNT(*) FROM shop.ready\""),
            doc: "What a check of kind \"statement\" runs.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "expect",
            form: Form::Text {
                allowed: "a text",
                show: |plan| plan.checks.expect.clone(),
                set: |plan, text| {
                    plan.checks.expect = Some(text.to_owned());
                    Ok(())
                },
            },
            example: Some("\"1\""),
            doc: "What the second column of its first row must be. Without this option, any answer \
                  but an error will do.",
            elsewhere: &[("HAProxy", "expect")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "inter",
            form: Form::Duration {
                range: SHORT..=HOUR,
                place: |plan| &mut plan.checks.rules.inter,
            },
            example: None,
            doc: "Time between two checks of a server. Where reads are split, this is also how \
                  long it takes until a session that has written is read for by others than the \
                  writer.",
            elsewhere: &[("HAProxy", "inter"), ("ProxySQL", "mysql-monitor_ping_interval")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "fastinter",
            form: Form::Duration {
                range: SHORT..=HOUR,
                place: |plan| &mut plan.checks.rules.fastinter,
            },
            example: None,
            doc: "The same while the server is going down or up, and where it is shorter, of each \
                  server that is up and may be the writer, while none is written to.",
            elsewhere: &[("HAProxy", "fastinter")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "downinter",
            form: Form::Duration {
                range: SHORT..=HOUR,
                place: |plan| &mut plan.checks.rules.downinter,
            },
            example: None,
            doc: "The same while the server is down.",
            elsewhere: &[("HAProxy", "downinter")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "fall",
            form: Form::Count { range: 1..=100, place: |plan| &mut plan.checks.rules.fall },
            example: None,
            doc: "So many failed checks in a row take a server down. The last one that is up is \
                  never taken down by one.",
            elsewhere: &[("HAProxy", "fall")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "rise",
            form: Form::Count { range: 1..=100, place: |plan| &mut plan.checks.rules.rise },
            example: None,
            doc: "So many passed checks in a row bring it up again.",
            elsewhere: &[("HAProxy", "rise")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "timeout",
            form: Form::Duration { range: SHORT..=HOUR, place: |plan| &mut plan.checks.timeout },
            example: None,
            doc: "A check that has not ended after this has failed.",
            elsewhere: &[("HAProxy", "timeout check")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "agent_inter",
            form: Form::Duration {
                range: SHORT..=HOUR,
                place: |plan| &mut plan.checks.agent_inter,
            },
            example: None,
            doc: "Time between two questions to a server's agent; see `agent` of `[[servers]]`.",
            elsewhere: &[("HAProxy", "agent-inter")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "slow_start",
            form: Form::Duration {
                range: Duration::ZERO..=HOUR,
                place: |plan| &mut plan.checks.rules.slow_start,
            },
            example: None,
            doc: "For so long, the share of reads of a server that has come up grows to the whole, \
                  and so do the statements that it may run at once. Before that it is on trial: \
                  one statement at a time until one has ended well, or `rise` more checks have \
                  passed.",
            elsewhere: &[("HAProxy", "slowstart")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "at_once",
            form: Form::Count { range: 1..=1000, place: |plan| &mut plan.checks.at_once },
            example: None,
            doc: "So many checks run in a worker at once; more wait. One that has had no answer for an \
                  eighth of `checks.timeout` does not count any more, and servers that are down and \
                  silent have as many places of their own: checks of servers that answer wait for \
                  none of those.",
            elsewhere: &[("HAProxy", "tune.max-checks-per-thread")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "state_file",
            form: Form::Text {
                allowed: paths::FILE,
                show: |plan| paths::show(plan.checks.state_file.as_ref()),
                set: |plan, text| paths::set(&mut plan.checks.state_file, text),
            },
            example: Some("\"/var/lib/flifo/servers.json\""),
            doc: "Where is written down, each second if it has changed, what is known of several servers: which one \
                  is the writer, what was acknowledged there, what an operator has confirmed. The next start goes on \
                  from there, as `flifo upgrade` does without a file. Its folder must be there, and belong to \
                  Flifo's user.",
            elsewhere: &[("HAProxy", "server-state-file")],
            since: FIRST,
            applies: Restart("the sandbox of a running Flifo has no place for another file"),
        },
    ],
};

const MODES: &[(&str, Mode)] =
    &[("writer", Mode::Writer), ("readers", Mode::Readers), ("split", Mode::Split)];

pub(in crate::config) static ROUTING: Section<Plan> = Section {
    name: "routing",
    doc: "Which of several servers a statement goes to. A client that keeps its backend connection \
          (it is in a transaction, or pinned) stays on its server.",
    rows: &[
        Row {
            name: "mode",
            form: Form::Choice(&Named {
                values: MODES,
                place: |plan: &mut Plan| &mut plan.routing.mode,
            }),
            example: None,
            doc: "Where statements go for which no `[[routes]]` says otherwise. \"writer\": all to \
                  the writer. \"readers\": all to readers, and to the writer while there are none. \
                  \"split\": those outside of transactions of which it is certain that they only \
                  read go to readers, all others to the writer.",
            elsewhere: &[("ProxySQL", "mysql_query_rules"), ("MaxScale", "readwritesplit")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "reads",
            form: Form::Choice(&Named {
                values: &[
                    ("own_writes", Freshness::OwnWrites),
                    ("monotonic", Freshness::Monotonic),
                    ("any", Freshness::Any),
                ],
                place: |plan: &mut Plan| &mut plan.routing.reads,
            }),
            example: None,
            doc: "What a client of mode \"split\" sees. \"own_writes\": a client that has written \
                  is sent only where all of that is known to be: to the server that took it, or to \
                  one that has got so far, which GTID positions tell, or the number of the last \
                  commit in a Galera cluster. Without those it is taken to be so after \
                  `routing.stay`. \"monotonic\": the same, and a client that has read is sent \
                  only where all of that is known to be: it stays on its server for as long as it \
                  reads without pauses. \"any\": what a reader has.",
            elsewhere: &[("MaxScale", "causal_reads")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "reads_by",
            form: Form::Choice(&Named {
                values: &[
                    ("connection", ReadsBy::Connection),
                    ("user", ReadsBy::User),
                    ("program", ReadsBy::Program),
                ],
                place: |plan: &mut Plan| &mut plan.routing.reads_by,
            }),
            example: None,
            doc: "What is a client's own for `routing.reads`. \"connection\": what its connection \
                  has written and read; a client that connects anew has written nothing. \"user\": \
                  what all connections of its user have, before it and beside it. \"program\": \
                  the same of those connections of its user that name the same program \
                  (`program_name`) at their login.",
            elsewhere: &[("MaxScale", "causal_reads")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "gtid_comments",
            form: Form::Choice(&Named {
                values: &[("off", false), ("on", true)],
                place: |plan: &mut Plan| &mut plan.routing.gtid_comments,
            }),
            example: None,
            doc: "A read may name what it must find in a comment, `/* flifo gtid=0-1-42 */`: it \
                  goes to a reader that has come so far, or else to the writer.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "stay",
            form: Form::Duration {
                range: Duration::ZERO..=HOUR,
                place: |plan| &mut plan.routing.stay,
            },
            example: None,
            doc: "For so long a client that has written stays with the writer, where servers do \
                  not tell how far they have come.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "lag_max",
            form: Form::DurationOrNone {
                range: SHORT..=Duration::from_hours(24),
                place: |plan| &mut plan.routing.lag_max,
            },
            example: None,
            doc: "A reader that lacks something which the writer has had for longer than this is \
                  not read from.",
            elsewhere: &[
                ("ProxySQL", "mysql_servers.max_replication_lag"),
                ("MaxScale", "max_replication_lag"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "gaps",
            form: Form::Choice(&Named {
                values: &[("confirm", Gaps::Confirm), ("accept", Gaps::Accept)],
                place: |plan: &mut Plan| &mut plan.routing.gaps,
            }),
            example: None,
            doc: "What becomes of a server that can be written to and lacks what the writer before \
                  it had, as far as positions of asynchronous replication tell. \"confirm\": it is \
                  not used before an operator says `CONFIRM WRITER` on the console. \"accept\": it \
                  is the writer, and the log names the gap.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "readers_min",
            form: Form::Count { range: 0..=1000, place: |plan| &mut plan.routing.readers_min },
            example: None,
            doc: "So many readers are read from although they are further behind than `lag_max`: \
                  those that are least. A client still sees what it has written itself \
                  (`routing.reads`).",
            elsewhere: &[(
                "ProxySQL",
                "mysql-monitor_replication_lag_group_by_host, max_replication_lag",
            )],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "writers",
            form: Form::Count { range: 1..=1000, place: |plan| &mut plan.routing.writers },
            example: None,
            doc: "So many nodes of a Galera cluster, or of a group of MySQL's with several \
                  primaries, are written to at once. Each client's writes go to one of them, and \
                  to another one only when that one leaves; two clients that change the same row \
                  at two nodes can get error 1213. Servers of any other kind have one writer.",
            elsewhere: &[
                ("ProxySQL", "mysql_galera_hostgroups.max_writers"),
                ("MaxScale", "galeramon disable_master_role_setting"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "writer_reads",
            form: Form::Choice(&Named {
                values: &[
                    ("without_reader", WriterReads::WithoutReader),
                    ("always", WriterReads::Always),
                    ("never", WriterReads::Never),
                ],
                place: |plan: &mut Plan| &mut plan.routing.writer_reads,
            }),
            example: None,
            doc: "Whether what may go to readers goes to the writer as well. \"without_reader\": \
                  while no reader can take it. \"always\": as to a reader, by its weight and load. \
                  \"never\": it waits for a reader, at most for `routing.hold`. What runs in a \
                  transaction stays where that is.",
            elsewhere: &[
                ("ProxySQL", "mysql_galera_hostgroups.writer_is_also_reader"),
                ("MaxScale", "master_accept_reads"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "hold",
            form: Form::Duration {
                range: Duration::ZERO..=HOUR,
                place: |plan| &mut plan.routing.hold,
            },
            example: None,
            doc: "While no server can take a statement, because the writer is being replaced or \
                  all are down, it is held back for so long, and then refused.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
    ],
};

pub(in crate::config) static ROUTES: Section<RouteRule> = Section {
    name: "routes",
    doc: "Which clients' statements go elsewhere than `routing.mode` says. The first one that fits \
          a client counts; what it fits is decided at login.",
    rows: &[
        Row {
            name: "mode",
            form: Form::Choice(&Named {
                values: MODES,
                place: |rule: &mut RouteRule| &mut rule.mode,
            }),
            example: None,
            doc: "Where their statements go; as `routing.mode`.",
            elsewhere: &[("ProxySQL", "mysql_query_rules.destination_hostgroup")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "cluster",
            form: Form::Text {
                allowed: "a cluster's name",
                show: |rule| rule.cluster.clone(),
                set: |rule, text| {
                    rule.cluster = Some(text.to_owned());
                    Ok(())
                },
            },
            example: Some("\"main\""),
            doc: "The cluster that serves them, pass-through clients too, unless they enter a schema \
                  that another one names. By default, that of their user.",
            elsewhere: &[("HAProxy", "default_backend"), ("MaxScale", "listener: service")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "listen",
            form: Form::List {
                allowed: address::LISTEN,
                show: |rule| rule.listen.iter().map(ToString::to_string).collect(),
                clear: |rule| rule.listen.clear(),
                push: |rule, text| {
                    rule.listen.push(address::listen(text)?);
                    Ok(())
                },
            },
            example: Some("[\"127.0.0.1:6035\"]"),
            doc: "Only clients that came in by one of these, which are listed in `listen` as well.",
            elsewhere: &[("ProxySQL", "mysql_query_rules.proxy_port")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "users",
            form: Form::List {
                allowed: "a user's name",
                show: |rule| rule.users.clone(),
                clear: |rule| rule.users.clear(),
                push: |rule, text| {
                    rule.users.push(text.to_owned());
                    Ok(())
                },
            },
            example: Some("[\"report\"]"),
            doc: "Only clients of these users.",
            elsewhere: &[("ProxySQL", "mysql_query_rules.username")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "schemas",
            form: Form::List {
                allowed: "a schema's name",
                show: |rule| rule.schemas.clone(),
                clear: |rule| rule.schemas.clear(),
                push: |rule, text| {
                    rule.schemas.push(text.to_owned());
                    Ok(())
                },
            },
            example: Some("[\"archive\"]"),
            doc: "Only clients that named one of these schemas when they logged in.",
            elsewhere: &[("ProxySQL", "mysql_query_rules.schemaname")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "classes",
            form: Form::List {
                allowed: "a class's name",
                show: |rule| rule.classes.clone(),
                clear: |rule| rule.classes.clear(),
                push: |rule, text| {
                    rule.classes.push(text.to_owned());
                    Ok(())
                },
            },
            example: Some("[\"batch\"]"),
            doc: "Only clients of these classes; see `[[classes]]`.",
            elsewhere: &[],
            since: FIRST,
            applies: NewConnections,
        },
    ],
};
