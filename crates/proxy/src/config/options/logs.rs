//! Options of what is told while Flifo runs.

use super::{FIRST, Row, Section, paths};
use crate::config::form::{Form, Named};
use crate::config::options::Applies::Now;
use crate::config::plan::{LogFormat, LogLevel, Plan};

pub(in crate::config) static LOGS: Section<Plan> = Section {
    name: "logs",
    doc: "What is told while Flifo runs.",
    rows: &[
        Row {
            name: "level",
            form: Form::Choice(&Named {
                values: &[
                    ("error", LogLevel::Error),
                    ("warn", LogLevel::Warn),
                    ("info", LogLevel::Info),
                    ("debug", LogLevel::Debug),
                    ("trace", LogLevel::Trace),
                ],
                place: |plan: &mut Plan| &mut plan.logs.level,
            }),
            example: None,
            doc: "How much is told. \"error\": what clients feel, \"warn\": what an operator should do something \
                  about, \"info\": what happened, such as a login that was refused. Nothing is logged for each statement.",
            elsewhere: &[("PgBouncer", "verbose")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "format",
            form: Form::Choice(&Named {
                values: &[("text", LogFormat::Text), ("json", LogFormat::Json)],
                place: |plan: &mut Plan| &mut plan.logs.format,
            }),
            example: None,
            doc: "\"text\" for people, on a terminal in colours; \"json\" (one object a line) for programs.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "file",
            form: Form::Text {
                allowed: paths::FILE,
                show: |plan| paths::show(plan.logs.file.as_ref()),
                set: |plan, text| paths::set(&mut plan.logs.file, text),
            },
            example: Some("\"/var/log/flifo.log\""),
            doc: "A file to which logs are appended. Without it they go to standard error, where \
                  systemd and containers pick them up. The signal SIGHUP has Flifo open the file \
                  anew, for example after logrotate has renamed it. Of lines that are the same but for their numbers ten a second are \
                  written; one line tells how many more there were.",
            elsewhere: &[("PgBouncer", "logfile"), ("ProxySQL", "errorlog")],
            since: FIRST,
            applies: Now,
        },
    ],
};
