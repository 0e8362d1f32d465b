//! Options of the server behind Flifo.

use std::time::Duration;

use backend::tls::Mode;
use engine::init_connect::InitConnect;
use engine::limit::Rhythm;
use engine::sharing::ShareReads;

use super::{FIRST, Row, Section, paths};
use crate::config::address;
use crate::config::form::{Form, Named};
use crate::config::options::Applies::{NewConnections, Now};
use crate::config::plan::{AccountTerms, Parking, PassThroughTls, Plan};

/// What a server may be called.
pub(super) fn check_name(text: &str) -> Result<(), String> {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    if text.is_empty() || 64 < text.len() || !text.chars().all(fits) {
        return Err("a name has 1 to 64 letters, digits, '-', '_' and '.'".to_owned());
    }
    Ok(())
}

pub(in crate::config) static SERVER: Section<Plan> = Section {
    name: "server",
    doc: "The MySQL or MariaDB server behind Flifo.",
    rows: &[
        Row {
            name: "address",
            form: Form::Text {
                allowed: address::SERVER,
                show: |plan| {
                    let address = plan.server.address.as_ref();
                    Some(address.map_or_else(|| address::AUTO.to_owned(), ToString::to_string))
                },
                set: |plan, text| {
                    plan.server.address = address::server(text)?;
                    Ok(())
                },
            },
            example: Some("\"/run/mysqld/mysqld.sock\""),
            doc: "Where the server is. \"auto\" looks for the server of this machine: its Unix \
                  socket in the usual places, in its configuration files and among open sockets, \
                  then port 3306. On one machine a Unix socket is faster than TCP.",
            elsewhere: &[
                ("HAProxy", "server"),
                ("ProxySQL", "mysql_servers.hostname"),
                ("PgBouncer", "host"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "name",
            form: Form::Text {
                allowed: "a word",
                show: |plan| Some(plan.server.name.clone()),
                set: |plan, text| {
                    check_name(text)?;
                    text.clone_into(&mut plan.server.name);
                    Ok(())
                },
            },
            example: None,
            doc: "What the server is called in logs and metrics.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "limit",
            form: Form::CountOr {
                word: "auto",
                range: 1..=100_000,
                place: |plan| &mut plan.server.limit,
            },
            example: Some("16"),
            doc: "Statements that the server runs at once; others wait in the queue. A server does \
                  most work with a few statements per CPU, and loses much when hundreds compete. \
                  \"auto\" finds the number while statements wait, by trying a few more and a few \
                  fewer, and lets one more in whenever statements wait and none ends; while none \
                  waits it comes slowly down to what is in use, but not below two for each CPU of \
                  the server. Where several Flifos share a server, see `server.rhythm`. A number \
                  is kept, whatever happens.",
            elsewhere: &[("MariaDB", "thread_pool_size"), ("MySQL", "innodb_thread_concurrency")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "rhythm",
            form: Form::Choice(&Named {
                values: &[("own", Rhythm::Own), ("clock", Rhythm::Clock)],
                place: |plan: &mut Plan| &mut plan.server.rhythm,
            }),
            example: None,
            doc: "What a limit of \"auto\" goes by. \"own\" is for one Flifo in front of a server. \
                  \"clock\" is for several: all try more at the same time, and fewer at the same \
                  time, so that each measures the server and not the others. They need clocks that \
                  differ by less than 100 ms, and each must say \"clock\".",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "borrow",
            form: Form::DurationOrNone {
                range: super::limits::MILLISECOND..=Duration::from_secs(60),
                place: |plan| &mut plan.server.borrow,
            },
            example: Some("\"50ms\""),
            doc: "While a slot is on its way from one worker to another, a new statement may start \
                  in its place, unless another statement has waited for longer than this. A worker \
                  that is slow to wake then costs the server nothing, but a later statement may \
                  run before an earlier one. Off by default, and without effect with one worker. \
                  Slots mostly stay within a worker; the gate's `granted` and `borrowed` on the \
                  console count those that do not.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "parking",
            form: Form::Choice(&Named {
                values: &[("locks", Parking::Locks), ("age", Parking::Age), ("off", Parking::Off)],
                place: |plan: &mut Plan| &mut plan.server.parking,
            }),
            example: None,
            doc: "While others wait, a statement that has run ten times longer than statements of \
                  its kind usually do gives its slot to one of them and continues without a slot. \
                  So row locks that one client holds for seconds do not stop all other clients. \
                  While three statements of one kind are in this state, that kind gets a quarter \
                  of the slots. Up to four times `server.limit` statements may continue without a \
                  slot. \"locks\": no more of them than the server reports as waiting for locks. \
                  Flifo asks the server only while a statement seems stuck and others wait, on a \
                  connection of a pooled user, which needs no privilege for it. \"age\": the \
                  server is not asked, and a statement that computes for long is treated as one \
                  that waits.",
            elsewhere: &[
                ("MariaDB", "thread_pool_stall_limit"),
                ("MySQL", "thread_pool_stall_limit"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "connections_max",
            form: Form::Count {
                range: 1..=100_000,
                place: |plan| &mut plan.server.connections_max,
            },
            example: None,
            doc: "The most backend connections that Flifo opens to the server for pooled users. A \
                  number above `server.limit` leaves room for sessions that keep a backend \
                  connection without running anything, such as those in a transaction. Stay below \
                  the server's max_connections.",
            elsewhere: &[
                ("HAProxy", "server maxconn"),
                ("ProxySQL", "mysql_servers.max_connections"),
                ("PgBouncer", "default_pool_size"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "pipeline",
            form: Form::Count { range: 1..=64, place: |plan| &mut plan.server.pipeline },
            example: None,
            doc: "Statements in flight on one shared backend connection while clients wait, so \
                  that the server's thread finds its next one without sleeping. Only short \
                  statements that merely read are pipelined, and they run one after another. 1 \
                  turns it off.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "share_reads",
            form: Form::Choice(&Named {
                values: &[("off", ShareReads::Off), ("on", ShareReads::On)],
                place: |plan: &mut Plan| &mut plan.server.share_reads,
            }),
            example: None,
            doc: "\"on\": identical statements of one user that merely read, and wait in the queue \
                  of one worker, are run once, and each client gets the reply. A statement joins \
                  only a run that has not begun when it arrives, so that no client reads what is \
                  older than its own request, and each reads what it has written. Only statements \
                  outside of transactions are shared, with built-in functions and views whose \
                  values do not depend on the client or the moment (so `server.read_definitions` \
                  must be on), and replies of up to 16 MiB. While \
                  slots are free, only reads that take long wait for equal ones that run, in a \
                  crowd. `users.share_reads`, \
                  `classes.share_reads` and `rules.share_reads` say otherwise for some.",
            elsewhere: &[("Vitess", "enable-consolidator")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "cache_memory",
            form: Form::Size {
                range: 1 << 20..=1 << 40,
                place: |plan| &mut plan.server.cache_memory,
            },
            example: None,
            doc: "So many bytes of replies are kept for rules that say `cache`, in all workers \
                  together; each has an equal part. Where there are more, those go that are asked \
                  for least.",
            elsewhere: &[("ProxySQL", "mysql-query_cache_size_MB"), ("MaxScale", "max_size")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "tls",
            form: Form::Choice(&Named {
                values: &[
                    ("off", Mode::Off),
                    ("preferred", Mode::Preferred),
                    ("required", Mode::Required),
                    ("verify-ca", Mode::VerifyCa),
                    ("verify-full", Mode::VerifyFull),
                ],
                place: |plan: &mut Plan| &mut plan.server.tls.mode,
            }),
            example: None,
            doc: "TLS on backend connections. \"preferred\" uses it if the server offers it, and \
                  never on a Unix socket, where the traffic cannot be intercepted; \"required\" \
                  insists on it; \"verify-ca\" wants a certificate from a trusted authority, and \
                  \"verify-full\" one that also bears the server's name. The modes and the default \
                  are those of MySQL's own clients. As by them, a password itself is not told \
                  under a public key that a server sends without TLS, unless this is \"off\"; \
                  and by mysql_clear_password only to a server whose certificate is verified, or \
                  on a Unix socket.",
            elsewhere: &[("MySQL", "ssl-mode"), ("ProxySQL", "mysql_servers.use_ssl")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "tls_ca",
            form: Form::Text {
                allowed: paths::FILE,
                show: |plan| paths::show(plan.server.tls.ca.as_ref()),
                set: |plan, text| paths::set(&mut plan.server.tls.ca, text),
            },
            example: Some("\"/etc/flifo/server-ca.pem\""),
            doc: "PEM file of the authorities that are trusted with the server's certificate. \
                  Without it, those that this machine trusts.",
            elsewhere: &[("MySQL", "ssl-ca"), ("ProxySQL", "mysql-ssl_p2s_ca")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "tls_cert",
            form: Form::Text {
                allowed: paths::FILE,
                show: |plan| paths::certificate(plan.server.tls.identity.as_ref()),
                set: |plan, text| paths::set_certificate(&mut plan.server.tls.identity, text),
            },
            example: Some("\"/etc/flifo/client.pem\""),
            doc: "PEM file of the certificate that Flifo shows to a server that asks for one.",
            elsewhere: &[("MySQL", "ssl-cert"), ("ProxySQL", "mysql-ssl_p2s_cert")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "tls_key",
            form: Form::Text {
                allowed: paths::FILE,
                show: |plan| paths::key(plan.server.tls.identity.as_ref()),
                set: |plan, text| paths::set_key(&mut plan.server.tls.identity, text),
            },
            example: Some("\"/etc/flifo/client-key.pem\""),
            doc: "PEM file of the private key of `server.tls_cert`.",
            elsewhere: &[("MySQL", "ssl-key"), ("ProxySQL", "mysql-ssl_p2s_key")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "tls_server_name",
            form: Form::Text {
                allowed: paths::SERVER_NAME,
                show: |plan| plan.server.tls_server_name.clone(),
                set: |plan, text| paths::set_server_name(&mut plan.server.tls_server_name, text),
            },
            example: Some("\"db1.example.com\""),
            doc: "The name that the server's certificate must bear under \"verify-full\". Without \
                  it, the host of `server.address`.",
            elsewhere: &[("HAProxy", "verifyhost")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "version",
            form: Form::Text {
                allowed: "1 to 60 printable ASCII characters",
                show: |plan| plan.server.version.clone(),
                set: |plan, text| {
                    let is_good = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
                    if !(1..=VERSION_MAX).contains(&text.len()) || !text.bytes().all(is_good) {
                        return Err(format!("a version has 1 to {VERSION_MAX} ASCII characters"));
                    }
                    plan.server.version = Some(text.to_owned());
                    Ok(())
                },
            },
            example: Some("\"8.0.36\""),
            doc: "The version that clients are told when they connect, for drivers that choose by it \
                  what they send. Without it, the server's own. It changes nothing else: VERSION() \
                  and @@version are answered by the server.",
            elsewhere: &[("ProxySQL", "mysql-server_version"), ("MaxScale", "version_string")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "init_connect",
            form: Form::Text {
                allowed: "one SET of session variables, or nothing",
                show: |plan| plan.server.init_connect.as_ref().map(|it| it.text().to_owned()),
                set: |plan, text| {
                    plan.server.init_connect = Some(InitConnect::read(text)?);
                    Ok(())
                },
            },
            example: Some("\"SET sql_mode = 'ANSI', time_zone = '+00:00'\""),
            doc: "A SET of session variables that each pooled client's session begins with, like the \
                  server's option of this name. It runs before the first statement of the client, \
                  which costs one more round trip to the server, two with SET NAMES; from then on \
                  the variables are the client's, whichever backend connection serves it. If it \
                  fails, the client's statements are answered with the server's error. Only \
                  variables that Flifo can tell to any connection are allowed: user variables, \
                  GLOBAL, SET TRANSACTION and other statements are refused when the file is read. \
                  Sessions of clients that are passed through begin as the server has it. As at \
                  MariaDB, COM_RESET_CONNECTION and COM_CHANGE_USER end its effect.",
            elsewhere: &[
                ("MySQL", "init_connect"),
                ("ProxySQL", "mysql-init_connect"),
                ("PgBouncer", "connect_query"),
            ],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "pass_through_tls",
            form: Form::Choice(&Named {
                values: &[
                    ("as-client", PassThroughTls::AsClient),
                    ("always", PassThroughTls::Always),
                ],
                place: |plan: &mut Plan| &mut plan.server.pass_through_tls,
            }),
            example: None,
            doc: "Which pass-through clients have TLS between Flifo and the server, as \
                  `server.tls` has it. \"as-client\": those that are in TLS themselves, on the \
                  server's Unix socket too if it offers that; the others have none, and are \
                  refused where `server.tls` insists on it. \"always\": all; the server then \
                  treats a client without TLS as one with TLS, so that accounts with REQUIRE SSL \
                  are open to clients without encryption. Flifo never shows `server.tls_cert` on \
                  these connections.",
            elsewhere: &[],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "account_terms",
            form: Form::Choice(&Named {
                values: &[("client", AccountTerms::Client), ("flifo", AccountTerms::Flifo)],
                place: |plan: &mut Plan| &mut plan.server.account_terms,
            }),
            example: None,
            doc: "Whose address and TLS must meet what an account demands: its host, REQUIRE, its \
                  bounds of connections. The server sees Flifo's. \"client\": Flifo holds clients \
                  to it that are in another place than itself, or share backend connections: a \
                  client is refused whose account from its own address would be another one, or \
                  none. What the account is, the table of accounts tells (`server.accounts_user`), \
                  or the server is asked once in `server.accounts_period`. \"flifo\": all clients \
                  have the account that the server gives Flifo; choose it if accounts are made for \
                  Flifo's address, and their hosts and REQUIRE need not keep any client out.",
            elsewhere: &[],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "own_address",
            form: Form::Text {
                allowed: "an IP address",
                show: |plan| plan.server.own_address.map(|address| address.to_string()),
                set: |plan, text| {
                    let address = text.parse().map_err(|_| "this is no IP address".to_owned())?;
                    plan.server.own_address = Some(address);
                    Ok(())
                },
            },
            example: Some("\"10.0.0.5\""),
            doc: "The address from which the server sees Flifo, where it is not Flifo's end of the \
                  connection: behind a translation of addresses, or another proxy. Flifo needs it \
                  to know which account the server gives it. Without effect on the server's Unix \
                  socket, where all are `localhost`.",
            elsewhere: &[],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "send_proxy",
            form: Form::Choice(&Named {
                values: &[("off", false), ("v2", true)],
                place: |plan: &mut Plan| &mut plan.server.send_proxy,
            }),
            example: None,
            doc: "Whether backend connections begin with a PROXY header, so that the server sees a \
                  client's own address. The server must expect it; MariaDB does with \
                  proxy_protocol_networks. The header of a pass-through client's connection holds \
                  the client's address; that of a shared connection holds Flifo's own.",
            elsewhere: &[("HAProxy", "send-proxy-v2")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "accounts_user",
            form: Form::Text {
                allowed: "the name of one of the users below",
                show: |plan| plan.server.accounts_user.clone(),
                set: |plan, text| {
                    plan.server.accounts_user = Some(text.to_owned());
                    Ok(())
                },
            },
            example: Some("\"app\""),
            doc: "A user named in `[[users]]` with its password, which may read the server's table \
                  of accounts: `GRANT SELECT ON mysql.global_priv` on MariaDB, `GRANT SELECT ON \
                  mysql.user` on MySQL. With it, the clients of all users whose stored hash is \
                  enough for that share backend connections: users of mysql_native_password and \
                  caching_sha2_password. A client has the account that the server would choose for \
                  its own address, or is refused (`server.account_terms`). The log names users \
                  that are passed through all the same, and why. Of a table of more than 32 MiB, \
                  users at its end are passed through. Hashes are kept in memory only.",
            elsewhere: &[("PgBouncer", "auth_user")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "accounts_period",
            form: Form::Duration {
                range: Duration::from_secs(1)..=Duration::from_hours(24),
                place: |plan| &mut plan.server.accounts_period,
            },
            example: None,
            doc: "How often that table is read. It is also read when a login fails or its user is \
                  not known, at most once a second, and when rights have changed. An old password, \
                  or a user that was dropped, is let in for no longer than this. So is one that \
                  was learnt (`server.learn_passwords`).",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "rights_bound",
            form: Form::Duration {
                range: Duration::from_secs(5)..=Duration::from_hours(24),
                place: |plan| &mut plan.server.rights_bound,
            },
            example: None,
            doc: "How long it may take until rights that are changed beside Flifo are changed for \
                  its clients: REVOKE, a locked or dropped account, roles, SET GLOBAL. A backend \
                  connection whose login is older is not given to another client, and a login that \
                  Flifo decides itself is confirmed by the server. Without effect where \
                  `server.accounts_user` may read all tables of rights (`GRANT SELECT ON \
                  mysql.*`): they are compared each second. What is changed through Flifo takes \
                  effect at once.",
            elsewhere: &[],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "read_definitions",
            form: Form::Choice(&Named {
                values: &[("on", true), ("off", false)],
                place: |plan: &mut Plan| &mut plan.server.read_definitions,
            }),
            example: None,
            doc: "Whether Flifo reads the definitions of views, routines and triggers, so that \
                  what they leave on a connection and no server reports (GET_LOCK, \
                  LAST_INSERT_ID(n), SELECT … INTO @x) comes to no other client. They are read as \
                  `server.accounts_user`, if that sees all of them, once in ten seconds: grant it \
                  SHOW VIEW and TRIGGER on *.*, and SELECT on mysql.proc (MariaDB) or SHOW_ROUTINE \
                  (MySQL). Else as each pooled user, before the login of its first client ends and \
                  then once in a minute. And a second after a statement that may define something. \
                  What the reader may not see is taken to do anything: a statement that names such \
                  a view keeps its connection, and so does one that writes to a table with such a \
                  trigger (`users.triggers`). \"off\" believes what the server reports.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "learn_passwords",
            form: Form::Choice(&Named {
                values: &[("on", true), ("off", false)],
                place: |plan: &mut Plan| &mut plan.server.learn_passwords,
            }),
            example: None,
            doc: "Whether Flifo keeps the password that a client sends for a user that is not in \
                  `[[users]]`, and pools the user's clients from then on. A server asks for the \
                  password itself at a user's first login by caching_sha2_password after the \
                  server was started or the password was changed. Flifo confirms an accepted \
                  password by a login of its own, then once in `server.accounts_period`, and when \
                  a client proves another password. A password that the server refuses is \
                  forgotten, and the user's clients are passed through again. Passwords are kept \
                  in memory only. Without effect where `server.accounts_user` reads all accounts, \
                  and with `server.send_proxy`, by which the server may tell accounts apart.",
            elsewhere: &[],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "resolve",
            form: Form::Duration {
                range: Duration::from_millis(100)..=Duration::from_hours(1),
                place: |plan| &mut plan.server.resolve,
            },
            example: None,
            doc: "How often the name of a server is resolved again, if it is addressed by one. It \
                  is also resolved when no connection can be opened, at most once a second. New \
                  backend connections go to the new address; connections to the old one are closed \
                  as they become idle. A name that cannot be resolved keeps its last known \
                  address.",
            elsewhere: &[("HAProxy", "resolvers, hold valid")],
            since: FIRST,
            applies: Now,
        },
    ],
};

/// Of a version that clients are told.
const VERSION_MAX: usize = 60;
