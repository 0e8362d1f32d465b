//! Options of one class of statements.

use engine::classes::WhenOverloaded;
use engine::sharing::ShareReads;

use super::limits::{DAY, MILLISECOND, YEAR};
use super::{FIRST, Row, Section};
use crate::config::address;
use crate::config::form::{Form, Named};
use crate::config::options::Applies::Now;
use crate::config::plan::ClassRule;

pub(in crate::config) static CLASSES: Section<ClassRule> = Section {
    name: "classes",
    doc: "Classes of statements, and how they share the server when there is more to do than it \
          can. A client belongs to the first class here that fits its user, its schema at login \
          and its address; what fits none is of class \"default\". A statement that begins with a \
          comment such as `/* class=batch */` belongs to the class that it names, whichever client \
          sends it. At most 31 classes beside \"default\", which may be listed to give it other \
          bounds.",
    rows: &[
        Row {
            name: "name",
            form: Form::Text {
                allowed: "1 to 32 letters, digits, '_' or '-'",
                show: |rule| Some(rule.class.name.clone()).filter(|name| !name.is_empty()),
                set: |rule, text| {
                    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                    if !(1..=32).contains(&text.len()) || !text.bytes().all(is_plain) {
                        return Err("a class's name has 1 to 32 letters, digits, '_' or '-'".into());
                    }
                    text.clone_into(&mut rule.class.name);
                    Ok(())
                },
            },
            example: Some("\"batch\""),
            doc: "The class's name, in comments, messages and logs. Needed.",
            elsewhere: &[("ProxySQL", "mysql_query_rules.destination_hostgroup")],
            since: FIRST,
            applies: Now,
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
            example: Some("[\"report\", \"export\"]"),
            doc: "Only clients of these users. Without any, of all users.",
            elsewhere: &[("ProxySQL", "mysql_query_rules.username")],
            since: FIRST,
            applies: Now,
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
            doc: "Only clients that named one of these schemas when they logged in. A later USE \
                  changes nothing.",
            elsewhere: &[("ProxySQL", "mysql_query_rules.schemaname")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "from",
            form: Form::List {
                allowed: address::NETWORK,
                show: |rule| rule.from.iter().map(ToString::to_string).collect(),
                clear: |rule| rule.from.clear(),
                push: |rule, text| {
                    rule.from.push(address::network(text)?);
                    Ok(())
                },
            },
            example: Some("[\"10.0.7.0/24\"]"),
            doc: "Only clients from these networks. A client of a Unix socket is from none.",
            elsewhere: &[("ProxySQL", "mysql_query_rules.client_addr")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "weight",
            form: Form::Count { range: 1..=10_000, place: |rule| &mut rule.class.weight },
            example: None,
            doc: "The class's share of the server's time beside those of the other classes that \
                  have something to do. It is charged for the time that its statements take, not \
                  for their number.",
            elsewhere: &[("HAProxy", "weight")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "minimum",
            form: Form::Count { range: 0..=100_000, place: |rule| &mut rule.class.minimum },
            example: None,
            doc: "While a worker runs fewer of its statements than this at once, the class comes \
                  before all that have their minimum.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "maximum",
            form: Form::CountOr {
                word: "none",
                range: 1..=100_000,
                place: |rule| &mut rule.class.maximum,
            },
            example: None,
            doc: "So many of its statements run at once at most, in all workers together. Those \
                  of a client in a transaction do not wait for it, since others may wait for \
                  locks that it has.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "queue_max",
            form: Form::CountOr {
                word: "none",
                range: 1..=1_000_000,
                place: |rule| &mut rule.class.queue_max,
            },
            example: None,
            doc: "So many of its statements may wait in a worker. One more is refused at once, \
                  with error 1637.",
            elsewhere: &[("HAProxy", "maxqueue")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "wait",
            form: Form::DurationOrNone {
                range: MILLISECOND..=DAY,
                place: |rule| &mut rule.class.wait_max,
            },
            example: None,
            doc: "Time that its statements may wait in the queue, if that is less than limits.wait.",
            elsewhere: &[("HAProxy", "timeout queue")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "overload",
            form: Form::Choice(&Named {
                values: &[
                    ("wait", WhenOverloaded::Wait),
                    ("newest_first", WhenOverloaded::NewestFirst),
                ],
                place: |rule: &mut ClassRule| &mut rule.class.when_overloaded,
            }),
            example: None,
            doc: "What Flifo does while more statements arrive than the server can run. \"wait\": \
                  statements run in order of arrival, as applications expect. \"newest_first\": \
                  the newest statement runs first, and a statement that has waited ten times \
                  longer than normal is refused with error 1637, so that most answers arrive while \
                  the application still waits for them.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "share_reads",
            form: Form::Choice(&Named {
                values: &[
                    ("user", ShareReads::AsAbove),
                    ("off", ShareReads::Off),
                    ("on", ShareReads::On),
                ],
                place: |rule: &mut ClassRule| &mut rule.class.share_reads,
            }),
            example: None,
            doc: "Whether identical reads of this class that wait are run once: see \
                  `server.share_reads`. Where this says \"user\", it is as `users.share_reads` \
                  says.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "statement",
            form: Form::Bound {
                range: MILLISECOND..=DAY,
                place: |rule| &mut rule.class.times.statement,
            },
            example: None,
            doc: "Time that a statement of this class may run on the server, in the place of \
                  `limits.statement`. What `users.statement` says of its user counts before that. \
                  \"none\", or 0, is no limit.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "transaction",
            form: Form::Bound {
                range: MILLISECOND..=DAY,
                place: |rule| &mut rule.class.times.transaction,
            },
            example: None,
            doc: "Time that a transaction of a client of this class may be open, in the place of \
                  `limits.transaction`. What `users.transaction` says counts before that. For \
                  this limit and the next two a comment in a statement names no class.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "idle_transaction",
            form: Form::Bound {
                range: MILLISECOND..=DAY,
                place: |rule| &mut rule.class.times.idle_transaction,
            },
            example: None,
            doc: "Time that a client of this class may ask nothing while its transaction is open, in the \
                  place of `limits.idle_transaction`. What `users.idle_transaction` says counts \
                  before that.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "client_age",
            form: Form::Bound {
                range: MILLISECOND..=YEAR,
                place: |rule| &mut rule.class.times.client_age,
            },
            example: None,
            doc: "Time that a client of this class may stay connected, in the place of \
                  `limits.client_age`. What `users.client_age` says counts before that.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
    ],
};
