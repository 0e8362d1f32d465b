//! Options of the logs of entries: the slow log and the audit log.

use std::ops::RangeInclusive;
use std::time::Duration;

use view::audit::AuditKind;
use view::logged::Literals;

use super::{FIRST, Row, Section, paths};
use crate::config::form::{Form, Named};
use crate::config::options::Applies::Now;
use crate::config::plan::Plan;
use crate::config::suggest;

pub(in crate::config) static SLOW: Section<Plan> = Section {
    name: "logs.slow",
    doc: "The slow log: statements one by one, with where their time went, in the form that `pt-query-digest` and \
          `mysqldumpslow` read. See docs/manual/logs.md.",
    rows: &[
        Row {
            name: "file",
            form: Form::Text {
                allowed: paths::FILE,
                show: |plan| paths::show(plan.logs.slow.kept.file.as_ref()),
                set: |plan, text| paths::set(&mut plan.logs.slow.kept.file, text),
            },
            example: Some("\"/var/log/flifo/slow.log\""),
            doc: "The file that entries are appended to. Without one there is no slow log, and a statement costs \
                  nothing for it. SIGHUP has Flifo open the file anew.",
            elsewhere: &[
                ("MySQL", "slow_query_log_file"),
                ("MariaDB", "log_slow_query_file"),
                ("ProxySQL", "mysql-eventslog_filename"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "threshold",
            form: Form::DurationOrNone {
                range: Duration::ZERO..=Duration::from_hours(24),
                place: |plan| &mut plan.logs.slow.threshold,
            },
            example: None,
            doc: "A statement that has taken this long is written, from the reading of it to the end of its answer: \
                  in the queue, in the server, and to its client. \"0s\" writes every statement, \"none\" only those \
                  of `sample`.",
            elsewhere: &[
                ("MySQL", "long_query_time"),
                ("MariaDB", "log_slow_query_time"),
                ("ProxySQL", "mysql-long_query_time"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "sample",
            form: Form::CountOr {
                word: "none",
                range: 1..=1_000_000_000,
                place: |plan| &mut plan.logs.slow.sample,
            },
            example: Some("1000"),
            doc: "One of so many statements is written besides, chosen by chance, however long it has taken: what the \
                  usual ones cost.",
            elsewhere: &[("Percona Server", "log_slow_rate_limit")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "literals",
            form: Form::Choice(&Named {
                values: &[("show", Literals::Show), ("hide", Literals::Hide)],
                place: |plan: &mut Plan| &mut plan.logs.slow.literals,
            }),
            example: None,
            doc: "Whether the numbers and strings of statements are written; \"hide\" writes `?` in their place, as \
                  SHOW DIGESTS shows a statement. In statements that may hold a password they never are.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "size_max",
            form: Form::Size { range: SIZES, place: |plan| &mut plan.logs.slow.kept.size_max },
            example: None,
            doc: SIZE_MAX,
            elsewhere: &[("MariaDB", "server_audit_file_rotate_size")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "files_max",
            form: Form::Count { range: FILES, place: |plan| &mut plan.logs.slow.kept.files_max },
            example: None,
            doc: FILES_MAX,
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
    ],
};

pub(in crate::config) static AUDIT: Section<Plan> = Section {
    name: "logs.audit",
    doc: "The audit log: logins, refusals, changes of definitions and accounts and orders on the console, one JSON \
          object a line. See docs/manual/logs.md.",
    rows: &[
        Row {
            name: "file",
            form: Form::Text {
                allowed: paths::FILE,
                show: |plan| paths::show(plan.logs.audit.kept.file.as_ref()),
                set: |plan, text| paths::set(&mut plan.logs.audit.kept.file, text),
            },
            example: Some("\"/var/log/flifo/audit.log\""),
            doc: "The file that entries are appended to. Without one there is no audit log. SIGHUP has Flifo open the \
                  file anew.",
            elsewhere: &[
                ("MariaDB", "server_audit_file_path"),
                ("MySQL", "audit_log_file"),
                ("ProxySQL", "mysql-auditlog_filename"),
            ],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "kinds",
            form: Form::List {
                allowed: KINDS,
                show: |plan| {
                    let name = |kind: &AuditKind| {
                        let known = AuditKind::ALL.iter().find(|(_, known)| known == kind);
                        known.map_or_else(String::new, |(name, _)| (*name).to_owned())
                    };
                    plan.logs.audit.kinds.iter().map(name).collect()
                },
                clear: |plan| plan.logs.audit.kinds.clear(),
                push: |plan, text| {
                    let Some((_, kind)) = AuditKind::ALL.iter().find(|(name, _)| *name == text)
                    else {
                        let names = AuditKind::ALL.iter().map(|(name, _)| *name);
                        let near = suggest::nearest(text, names);
                        let hint = near.map(|near| format!("; did you mean \"{near}\"?"));
                        return Err(format!("{text:?} is not {KINDS}{}", hint.unwrap_or_default()));
                    };
                    if !plan.logs.audit.kinds.contains(kind) {
                        plan.logs.audit.kinds.push(*kind);
                    }
                    Ok(())
                },
            },
            example: Some("[\"logins\", \"refusals\", \"accounts\"]"),
            doc: "What is written. \"logins\", \"refusals\" (with the reason) and \"logouts\" are those of clients and \
                  of the console; \"ddl\" is statements that change definitions, \"accounts\" those that change \
                  accounts and rights, both with how they ended; \"console\" is orders on Flifo's console.",
            elsewhere: &[("MariaDB", "server_audit_events")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "size_max",
            form: Form::Size { range: SIZES, place: |plan| &mut plan.logs.audit.kept.size_max },
            example: None,
            doc: SIZE_MAX,
            elsewhere: &[("MariaDB", "server_audit_file_rotate_size")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "files_max",
            form: Form::Count { range: FILES, place: |plan| &mut plan.logs.audit.kept.files_max },
            example: None,
            doc: FILES_MAX,
            elsewhere: &[("MariaDB", "server_audit_file_rotations")],
            since: FIRST,
            applies: Now,
        },
    ],
};

const KINDS: &str = "\"logins\", \"refusals\", \"logouts\", \"ddl\", \"accounts\" or \"console\"";

const SIZES: RangeInclusive<u64> = 64 << 10..=1 << 40;
const FILES: RangeInclusive<u32> = 0..=1000;

const SIZE_MAX: &str = "A file that would become larger is renamed to the same name with `.1` behind it, and another \
                        one is begun.";
const FILES_MAX: &str = "So many files that were renamed (`.1`, `.2` and so on, the oldest last) are kept. With 0 a \
                         full file is emptied.";
