//! Options of how long things may take, and how large they may be.

use std::time::Duration;

use super::{FIRST, Row, Section};
use crate::config::form::Form;
use crate::config::options::Applies::{NewConnections, Now};
use crate::config::plan::Plan;

pub(in crate::config) static LIMITS: Section<Plan> = Section {
    name: "limits",
    doc: "How long things may take, and how large they may be.",
    rows: &[
        Row {
            name: "connect",
            form: Form::Duration {
                range: MILLISECOND..=HOUR,
                place: |plan| &mut plan.limits.connect,
            },
            example: None,
            doc: "Time to connect to the server. MySQL's own connect_timeout has the same default.",
            elsewhere: &[
                ("HAProxy", "timeout connect"),
                ("ProxySQL", "mysql-connect_timeout_server"),
                ("PgBouncer", "server_connect_timeout"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "login",
            form: Form::Duration {
                range: MILLISECOND..=HOUR,
                place: |plan| &mut plan.limits.login,
            },
            example: None,
            doc: "Time for a login: of a client at Flifo, and of Flifo at the server. A login \
                  needs only a few packets; a client that takes longer occupies a place without \
                  having shown a password.",
            elsewhere: &[
                ("MySQL", "connect_timeout"),
                ("PgBouncer", "client_login_timeout"),
                ("ProxySQL", "mysql-connect_timeout_client"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "statement",
            form: Form::DurationOrNone {
                range: MILLISECOND..=DAY,
                place: |plan| &mut plan.limits.times.statement,
            },
            example: Some("\"30s\""),
            doc: "Time that a statement may run on the server; then it is killed there, and the \
                  client gets the server's own error: 1969 (70100) of MariaDB, 3024 (HY000) of \
                  MySQL. Time in the queue does not count. A server that does not end the \
                  statement within five seconds more loses the connection, and the client gets \
                  the same error. A pass-through client, whose statements Flifo cannot kill, loses \
                  its connection instead, and so does one that has not sent all of its command or \
                  file. There is none by default, because only the application knows how long its \
                  statements may take. `users.statement` counts before `classes.statement`, and \
                  that before this one.",
            elsewhere: &[
                ("MariaDB", "max_statement_time"),
                ("MySQL", "max_execution_time"),
                ("ProxySQL", "mysql-default_query_timeout"),
                ("PgBouncer", "query_timeout"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "transaction",
            form: Form::DurationOrNone {
                range: MILLISECOND..=DAY,
                place: |plan| &mut plan.limits.times.transaction,
            },
            example: Some("\"5m\""),
            doc: "Time that a transaction may be open, whatever its client does in it; waiting in \
                  the queue counts. A client that asks nothing is told with error 4031 and \
                  disconnected; a statement that runs is killed first, and answered with 1969 or \
                  3024 like one that has passed `limits.statement`. The transaction is rolled \
                  back. `COMMIT AND CHAIN` begins a new one, but of a pass-through client, whose \
                  statements Flifo does not read, a chain is one transaction. A narrower rule \
                  counts first: `users.transaction`, then `classes.transaction`.",
            elsewhere: &[("ProxySQL", "mysql-max_transaction_time")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "idle_transaction",
            form: Form::DurationOrNone {
                range: MILLISECOND..=DAY,
                place: |plan| &mut plan.limits.times.idle_transaction,
            },
            example: Some("\"1m\""),
            doc: "Time that a client may ask nothing while its transaction is open: it may hold \
                  locks that others wait for. Then it is told with error 4031 and disconnected, \
                  and its transaction is rolled back. MariaDB itself says nothing before it \
                  disconnects. A narrower rule counts first: `users.idle_transaction`, then \
                  `classes.idle_transaction`.",
            elsewhere: &[
                ("MariaDB", "idle_transaction_timeout"),
                ("ProxySQL", "mysql-max_transaction_idle_time"),
                ("PgBouncer", "idle_transaction_timeout"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "client_age",
            form: Form::DurationOrNone {
                range: MILLISECOND..=YEAR,
                place: |plan| &mut plan.limits.times.client_age,
            },
            example: Some("\"1h\""),
            doc: "Time that a client may stay connected. Then it is told with error 4031 and \
                  disconnected, between two statements and never within a transaction. Let the \
                  application's own pool replace its connections sooner than that. A narrower \
                  rule counts first: `users.client_age`, then `classes.client_age`. For \
                  connections to the server, see `limits.backend_age`.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "wait",
            form: Form::DurationOrNone {
                range: MILLISECOND..=DAY,
                place: |plan| &mut plan.limits.wait,
            },
            example: None,
            doc: "Time that a statement may wait in the queue before it starts. Then it is refused \
                  with error 1637, and has not reached the server. The default is short enough \
                  that users still wait for the answer, and long enough for a burst to pass.",
            elsewhere: &[
                ("HAProxy", "timeout queue"),
                ("ProxySQL", "mysql-connect_timeout_server_max"),
                ("PgBouncer", "query_wait_timeout"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "idle_client",
            form: Form::DurationOrNone {
                range: SECOND..=YEAR,
                place: |plan| &mut plan.limits.idle_client,
            },
            example: None,
            doc: "Time that a client may stay connected without a statement. The default is that \
                  of the server's wait_timeout. An idle client costs Flifo little, and the server \
                  nothing unless it keeps a backend connection.",
            elsewhere: &[
                ("MySQL", "wait_timeout"),
                ("HAProxy", "timeout client"),
                ("ProxySQL", "mysql-wait_timeout"),
                ("PgBouncer", "client_idle_timeout"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "idle_backend",
            form: Form::DurationOrNone {
                range: SECOND..=YEAR,
                place: |plan| &mut plan.limits.idle_backend,
            },
            example: None,
            doc: "Time that a backend connection stays open with nothing to do. Backend \
                  connections are cheap to open again, while each costs the server a thread and \
                  memory. Stay below the server's wait_timeout. In a process that another one has \
                  taken over from, it is a second at most.",
            elsewhere: &[("PgBouncer", "server_idle_timeout"), ("HAProxy", "timeout server")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "backend_age",
            form: Form::DurationOrNone {
                range: SECOND..=YEAR,
                place: |plan| &mut plan.limits.backend_age,
            },
            example: None,
            doc: "Age at which a backend connection is closed as soon as no client uses it. This \
                  frees the memory that a connection gathers at the server over time, and finds a \
                  server that has moved. Never within a transaction.",
            elsewhere: &[
                ("PgBouncer", "server_lifetime"),
                ("ProxySQL", "mysql-connection_max_age_ms"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "stop",
            form: Form::Duration {
                range: Duration::ZERO..=DAY,
                place: |plan| &mut plan.limits.stop,
            },
            example: None,
            doc: "Time that statements and transactions have to finish when Flifo is told to stop. \
                  Below what systemd waits for (90 s) and what containers are commonly given (30 \
                  s).",
            elsewhere: &[("HAProxy", "hard-stop-after")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "upgrade",
            form: Form::DurationOrNone {
                range: SECOND..=YEAR,
                place: |plan| &mut plan.limits.upgrade,
            },
            example: None,
            doc: "Time that clients have with the old Flifo that cannot go to the one that takes over \
                  (`flifo upgrade`) before they end: those with TLS, and statements that run long. \
                  Then they are ended, as when Flifo stops.",
            elsewhere: &[("HAProxy", "hard-stop-after")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "upgrade_waves",
            form: Form::DurationOrNone {
                range: SECOND..=YEAR,
                place: |plan| &mut plan.limits.upgrade_waves,
            },
            example: Some("\"10m\""),
            doc: "Time over which clients that cannot go to the Flifo that takes over (`flifo upgrade`; \
                  most have TLS) are asked to connect anew: a few at a time, each between two \
                  transactions, with error 1053. Those that keep nothing in their session are first. \
                  By default they stay until they end, or until `limits.upgrade`.",
            elsewhere: &[("HAProxy", "close-spread-time")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "write_stall",
            form: Form::DurationOrNone {
                range: SECOND..=YEAR,
                place: |plan| &mut plan.limits.write_stall,
            },
            example: None,
            doc: "Time that a client may leave its result unread while more is to be sent; \
                  meanwhile it holds a backend connection. Then it is disconnected. The default is \
                  that of the server's net_write_timeout.",
            elsewhere: &[("MySQL", "net_write_timeout")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "upload",
            form: Form::DurationOrNone {
                range: SECOND..=DAY,
                place: |plan| &mut plan.limits.upload,
            },
            example: None,
            doc: "Time for each MiB of a command that does not come at once, or of a file that \
                  LOAD DATA LOCAL reads, and for what is left at its end. A client that is slower \
                  is disconnected with error 1159, because it holds memory, and beyond 32 MiB a \
                  backend connection. Time in which Flifo or the server takes nothing does not \
                  count. The default is that of the server's net_read_timeout.",
            elsewhere: &[("MySQL", "net_read_timeout")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "client_silence",
            form: Form::DurationOrNone {
                range: SILENCE_MIN..=HOUR,
                place: |plan| &mut plan.limits.client_silence,
            },
            example: None,
            doc: "Time that a client's machine may leave unanswered what it is sent, or the probes \
                  that the kernel sends when nothing else comes: it has lost its power, or a \
                  firewall drops what comes from it. Then it is disconnected, and its transaction \
                  is rolled back. Clients that live answer, however slowly they read. Probes begin \
                  after about half of it; `\"none\"` leaves them to come after two hours. The \
                  default is below innodb_lock_wait_timeout (50 s): locks of a client that is gone \
                  are free before others give up.",
            elsewhere: &[
                ("HAProxy", "option clitcpka"),
                ("HAProxy", "tcp-ut"),
                ("ProxySQL", "mysql-tcp_keepalive_time"),
                ("PgBouncer", "tcp_keepidle, tcp_user_timeout"),
            ],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "server_silence",
            form: Form::DurationOrNone {
                range: SILENCE_MIN..=HOUR,
                place: |plan| &mut plan.limits.server_silence,
            },
            example: None,
            doc: "The same of a server's machine: its connections are closed, and clients whose \
                  statements were under way are told (1430). Servers that are checked are found \
                  sooner.",
            elsewhere: &[
                ("HAProxy", "option srvtcpka"),
                ("HAProxy", "tcp-ut"),
                ("ProxySQL", "mysql-use_tcp_keepalive"),
            ],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "packet_max",
            form: Form::Size { range: KIB..=GIB, place: |plan| &mut plan.limits.packet_max },
            example: None,
            doc: "The largest statement or value that a client may send. Larger ones are refused \
                  before they are read. The default is the most that the protocol's servers allow, \
                  so that the server's own max_allowed_packet decides.",
            elsewhere: &[("MySQL", "max_allowed_packet"), ("ProxySQL", "mysql-max_allowed_packet")],
            since: FIRST,
            applies: Now,
        },
    ],
};

const KIB: u64 = 1 << 10;
const GIB: u64 = 1 << 30;
pub(super) const MILLISECOND: Duration = Duration::from_millis(1);
pub(super) const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_hours(1);

/// The kernel counts in seconds: one of rest, and three probes, one second each.
const SILENCE_MIN: Duration = Duration::from_secs(5);
pub(super) const DAY: Duration = Duration::from_hours(24);
pub(super) const YEAR: Duration = Duration::from_hours(365 * 24);
