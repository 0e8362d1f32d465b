//! Options of the cache of results: how it learns of what was written beside this Flifo.

use std::time::Duration;

use super::{FIRST, Row, Section};
use crate::config::form::{Form, Named};
use crate::config::options::Applies::Now;
use crate::config::plan::Plan;

pub(in crate::config) static CACHE: Section<Plan> = Section {
    name: "cache",
    doc: "How results that rules keep (`rules.cache`) end by what was written beside this Flifo.",
    rows: &[
        Row {
            name: "binlog",
            form: Form::Choice(&Named {
                values: &[("off", false), ("on", true)],
                place: |plan: &mut Plan| &mut plan.cache.binlog,
            }),
            example: None,
            doc: "Whether the binary log of each cluster's writer is followed, as a replica does. What was written \
                  elsewhere, by any client, trigger or procedure, then ends results as what passes this Flifo does. The \
                  server must log rows (`binlog_format = ROW`; of statements, each ends all results of its cluster), and \
                  leave out no schema; MySQL needs `gtid_mode = ON`. While the log cannot be followed, nothing is kept, \
                  and the log says why; `SHOW BINLOGS` shows it.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "binlog_lag_max",
            form: Form::Duration {
                range: Duration::from_millis(10)..=Duration::from_mins(1),
                place: |plan| &mut plan.cache.binlog_lag_max,
            },
            example: None,
            doc: "How old what is known of the server's writes may be. The server is asked four times in this time, and \
                  at least four times a second, how far it has committed. If the events up to there have not come \
                  within this time, statements run as if nothing were kept.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "binlog_user",
            form: Form::Text {
                allowed: "a user's name",
                show: |plan| plan.cache.binlog_user.clone(),
                set: |plan, text| {
                    plan.cache.binlog_user = Some(text.to_owned());
                    Ok(())
                },
            },
            example: Some("\"app\""),
            doc: "The user that follows: `checks.user`, or one that is named in `[[users]]` with its password. Without \
                  this option, it is the user of checks. It needs the right REPLICATION SLAVE, on MariaDB BINLOG \
                  MONITOR, on MySQL REPLICATION CLIENT and PROCESS.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "binlog_server_id",
            form: Form::CountOr {
                word: "random",
                range: 1..=u32::MAX,
                place: |plan| &mut plan.cache.binlog_server_id,
            },
            example: None,
            doc: "The number that Flifo has among the server's replicas. No replica and no other Flifo may have the \
                  same: the server would end the connection of one of them. \"random\": another one above 2^31 at each \
                  connection.",
            elsewhere: &[("MariaDB", "server_id")],
            since: FIRST,
            applies: Now,
        },
    ],
};
