//! Options of what is seen of Flifo from outside: the console and the HTTP port.

use wire::auth::Secret;

use super::{FIRST, Row, Section};
use crate::config::address;
use crate::config::form::Form;
use crate::config::options::Applies::{NewConnections, Now};
use crate::config::plan::{Listen, Password, Plan};

pub(in crate::config) static CONSOLE: Section<Plan> = Section {
    name: "console",
    doc: "The console: statements like SHOW SERVERS, over the protocol that every MySQL client \
          speaks. HELP lists them.",
    rows: &[
        Row {
            name: "listen",
            form: Form::List {
                allowed: address::LISTEN,
                show: |plan| shown(&plan.console.listen),
                clear: |plan| plan.console.listen.clear(),
                push: |plan, text| {
                    plan.console.listen.push(address::listen(text)?);
                    Ok(())
                },
            },
            example: None,
            doc: "Where the console listens; an empty list turns it off. If the default address \
                  is taken, Flifo does without a console. Beyond this machine's own addresses it \
                  listens only if there is a password. A Unix socket is open to Flifo's own user \
                  alone.",
            elsewhere: &[("ProxySQL", "admin-mysql_ifaces"), ("HAProxy", "stats socket")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "password",
            form: Form::Secret {
                allowed: "a text",
                get: |plan| plan.console.password.clone().map(Password::Plain),
                set: |plan, text| {
                    plan.console.password = Some(Secret::from(text));
                    Ok(())
                },
            },
            example: Some("\"a long random text\""),
            doc: "What clients of the console prove, as any user. Without one, the console only \
                  shows: to change anything (SET, PAUSE, KILL) then takes its Unix socket.",
            elsewhere: &[("ProxySQL", "admin-admin_credentials")],
            since: FIRST,
            applies: NewConnections,
        },
        Row {
            name: "digests",
            form: Form::Count { range: 0..=10_000, place: |plan| &mut plan.console.digests },
            example: None,
            doc: "Statements that differ in more than literals, of which each worker keeps \
                  figures for SHOW DIGESTS. New ones take the place of those not seen for a while. \
                  Each costs up to 3 KiB of memory. 0 keeps none.",
            elsewhere: &[
                ("MySQL", "performance_schema_digests_size"),
                ("ProxySQL", "mysql-query_digests"),
            ],
            since: FIRST,
            applies: Now,
        },
    ],
};

pub(in crate::config) static HTTP: Section<Plan> = Section {
    name: "http",
    doc: "The HTTP port: /metrics for Prometheus, /stats;csv as HAProxy has it, /api/... as JSON, \
          /health and /ready for monitoring.",
    rows: &[
        Row {
            name: "listen",
            form: Form::List {
                allowed: address::LISTEN,
                show: |plan| shown(&plan.http.listen),
                clear: |plan| plan.http.listen.clear(),
                push: |plan, text| {
                    plan.http.listen.push(address::listen(text)?);
                    Ok(())
                },
            },
            example: None,
            doc: "Where Flifo answers HTTP; an empty list turns it off. If the default address is \
                  taken, Flifo does without. Beyond this machine's own addresses it listens only \
                  if there is a token.",
            elsewhere: &[("HAProxy", "stats uri"), ("ProxySQL", "admin-restapi_port")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "token",
            form: Form::Secret {
                allowed: "a text",
                get: |plan| plan.http.token.clone().map(Password::Plain),
                set: |plan, text| {
                    plan.http.token = Some(Secret::from(text));
                    Ok(())
                },
            },
            example: Some("\"a long random text\""),
            doc: "What a request must bring along, as `Authorization: Bearer ...` or as the \
                  password of any user. /health and /ready need none.",
            elsewhere: &[("HAProxy", "stats auth"), ("ProxySQL", "admin-stats_credentials")],
            since: FIRST,
            applies: Now,
        },
    ],
};

fn shown(listen: &[Listen]) -> Vec<String> {
    listen.iter().map(ToString::to_string).collect()
}
