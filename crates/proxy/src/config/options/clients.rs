//! Options of what clients see: where they connect, how many may, TLS, PROXY headers.

use super::{FIRST, Row, Section, paths};
use crate::config::address;
use crate::config::form::{Form, Named};
use crate::config::options::Applies::{NewConnections, Now, Restart};
use crate::config::plan::{ClientTlsMode, Plan};

pub(in crate::config) static TOP: Section<Plan> = Section {
    name: "",
    doc: "Where clients come in, and how many.",
    rows: &[
        Row {
            name: "listen",
            form: Form::List {
                allowed: address::LISTEN,
                show: |plan| plan.listen.iter().map(ToString::to_string).collect(),
                clear: |plan| plan.listen.clear(),
                push: |plan, text| {
                    plan.listen.push(address::listen(text)?);
                    Ok(())
                },
            },
            example: None,
            doc: "Where clients connect. By default only this machine can, on the port that MySQL \
                  proxies commonly use. Clients on this machine are served faster over a Unix \
                  socket.",
            elsewhere: &[
                ("HAProxy", "bind"),
                ("ProxySQL", "mysql-interfaces"),
                ("PgBouncer", "listen_addr"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "workers",
            form: Form::CountOr { word: "auto", range: 1..=256, place: |plan| &mut plan.workers },
            example: None,
            doc: "Threads that serve clients. \"auto\" is one on a machine with one or two CPUs, \
                  else as many as there are physical cores that share a cache, up to four: a \
                  worker serves thousands of clients, and the server needs the rest of the machine \
                  more.",
            elsewhere: &[("HAProxy", "nbthread"), ("ProxySQL", "mysql-threads")],
            since: FIRST,
            applies: Restart("each client lives in one worker, and none is moved to another"),
        },
        Row {
            name: "clients_max",
            form: Form::Count { range: 1..=1_000_000, place: |plan| &mut plan.clients_max },
            example: None,
            doc: "Clients that may be connected at once. One more is refused with error 1040. It \
                  may be far more than the server's own max_connections, since clients share \
                  backend connections. Each client takes an open file: where the hard limit \
                  (LimitNOFILE=, ulimit -n) allows fewer, Flifo refuses clients early enough to \
                  keep files for backend connections and administration, and logs a warning when \
                  it starts.",
            elsewhere: &[
                ("HAProxy", "maxconn"),
                ("ProxySQL", "mysql-max_connections"),
                ("PgBouncer", "max_client_conn"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "logins_max",
            form: Form::Count { range: 1..=65_535, place: |plan| &mut plan.logins_max },
            example: None,
            doc: "Logins of pass-through clients that are under way at the server at once, from \
                  all workers together. When more clients come, they are accepted and wait, first \
                  come, first served, for limits.login at most; then they are refused with error \
                  1040. While a login waits for its client, another one has its place. So a storm \
                  of connections does not become one of threads at the server. Clients of users \
                  that Flifo knows cost the server nothing, and begin a few in each turn of a \
                  worker's loop; beside clients that work, 600 a second for each worker, and more \
                  the longer they come, so that connected clients go on.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "backlog",
            form: Form::Count { range: 1..=65_535, place: |plan| &mut plan.backlog },
            example: None,
            doc: "Connections that the kernel keeps while they wait to be accepted. The kernel's \
                  own bound, net.core.somaxconn, applies as well; its usual value is the default \
                  here.",
            elsewhere: &[("HAProxy", "backlog"), ("PgBouncer", "listen_backlog")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "watch_files",
            form: Form::Choice(&Named {
                values: &[("on", true), ("off", false)],
                place: |plan: &mut Plan| &mut plan.watch_files,
            }),
            example: None,
            doc: "Whether the files that other options name (certificates, keys, authorities, \
                  passwords) are read again when they change. They are put in force as by a reload: \
                  all of them or, while one does not fit another, none. This file itself is read \
                  again by a reload alone.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
    ],
};

pub(in crate::config) static TLS: Section<Plan> = Section {
    name: "tls",
    doc: "TLS between clients and Flifo.",
    rows: &[
        Row {
            name: "mode",
            form: Form::Choice(&Named {
                values: &[
                    ("off", ClientTlsMode::Off),
                    ("preferred", ClientTlsMode::Preferred),
                    ("required", ClientTlsMode::Required),
                ],
                place: |plan: &mut Plan| &mut plan.tls.mode,
            }),
            example: None,
            doc: "TLS for clients. \"preferred\" offers it and lets the client choose, as MySQL \
                  and MariaDB do; \"required\" refuses clients that do not use it, except on a \
                  Unix socket; \"off\" does not offer it.",
            elsewhere: &[("ProxySQL", "mysql-have_ssl"), ("MySQL", "require_secure_transport")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "cert",
            form: Form::Text {
                allowed: paths::FILE,
                show: |plan| paths::certificate(plan.tls.files.identity.as_ref()),
                set: |plan, text| paths::set_certificate(&mut plan.tls.files.identity, text),
            },
            example: Some("\"/etc/flifo/cert.pem\""),
            doc: "PEM file of the certificate that Flifo shows to clients, with its chain. Without \
                  it, Flifo makes a self-signed one when it starts; that is enough for clients \
                  that do not verify certificates.",
            elsewhere: &[("MySQL", "ssl_cert"), ("HAProxy", "crt")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "key",
            form: Form::Text {
                allowed: paths::FILE,
                show: |plan| paths::key(plan.tls.files.identity.as_ref()),
                set: |plan, text| paths::set_key(&mut plan.tls.files.identity, text),
            },
            example: Some("\"/etc/flifo/key.pem\""),
            doc: "PEM file of the private key of `tls.cert`, without a password.",
            elsewhere: &[("MySQL", "ssl_key")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "client_ca",
            form: Form::Text {
                allowed: paths::FILE,
                show: |plan| paths::show(plan.tls.files.ca.as_ref()),
                set: |plan, text| paths::set(&mut plan.tls.files.ca, text),
            },
            example: Some("\"/etc/flifo/clients-ca.pem\""),
            doc: "PEM file of certificate authorities. With it, a client that uses TLS must show a \
                  certificate from one of them; with `tls.mode = \"required\"` this holds for \
                  every client that connects over TCP.",
            elsewhere: &[("MySQL", "ssl_ca"), ("HAProxy", "ca-file")],
            since: FIRST,
            applies: NewConnections,
        },
    ],
};

pub(in crate::config) static PROXY_PROTOCOL: Section<Plan> = Section {
    name: "proxy_protocol",
    doc: "Load balancers in front of Flifo that say where a client really comes from.",
    rows: &[Row {
        name: "from",
        form: Form::List {
            allowed: address::NETWORK,
            show: |plan| plan.proxy_protocol.from.iter().map(ToString::to_string).collect(),
            clear: |plan| plan.proxy_protocol.from.clear(),
            push: |plan, text| {
                plan.proxy_protocol.from.push(address::network(text)?);
                Ok(())
            },
        },
        example: None,
        doc: "Networks whose hosts send a PROXY header (version 1 or 2) at the start of each \
              connection. One without is refused (1043), so that no load balancer forgets to \
              say where a client comes from. A header from any other address is refused, because its sender could \
              claim any client address. Empty: no host may send one.",
        elsewhere: &[
            ("MariaDB", "proxy_protocol_networks"),
            ("ProxySQL", "mysql-proxy_protocol_networks"),
            ("HAProxy", "accept-proxy"),
        ],
        since: FIRST,
        applies: NewConnections,
    }],
};
