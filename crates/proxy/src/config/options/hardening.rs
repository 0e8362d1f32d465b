//! Options of what the running proxy may still do to its machine.

use super::{FIRST, Row, Section};
use crate::config::form::{Form, Named};
use crate::config::options::Applies::{Now, Restart};
use crate::config::plan::{Permission, Plan, Sandbox};

pub(in crate::config) static HARDENING: Section<Plan> = Section {
    name: "hardening",
    doc: "What an intruder in Flifo's process would still be kept from. All of it is on by default.",
    rows: &[
        Row {
            name: "run_as",
            form: Form::Text {
                allowed: "the name of a user of this machine",
                show: |plan| plan.hardening.run_as.clone(),
                set: |plan, text| {
                    plan.hardening.run_as = Some(text.to_owned());
                    Ok(())
                },
            },
            example: Some("\"flifo\""),
            doc: "The user that Flifo becomes if it is started as root, after it has read its files \
                  and opened its listeners. It keeps the right to schedule other users' threads if \
                  `placement.policy` may act. Without it, Flifo stays the user that started it.",
            elsewhere: &[("HAProxy", "user"), ("PgBouncer", "user"), ("MySQL", "user")],
            since: FIRST,
            applies: Restart("a process that is no longer root cannot choose another user"),
        },
        Row {
            name: "privileged_user",
            form: Form::Choice(&Named {
                values: PERMISSIONS,
                place: |plan: &mut Plan| &mut plan.hardening.privileged_user,
            }),
            example: None,
            doc: "Whether Flifo may serve as root, or as the user of the server. \"refused\" ends it at \
                  its start, and refuses a reload that would have it so: it needs none of root's rights, and a server that trusts the user at \
                  the other end of its Unix socket would take Flifo for root or for itself. \
                  `flifo run --allow-privileged-user` allows it as well.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "sandbox",
            form: Form::Choice(&Named {
                values: &[("on", Sandbox::On), ("off", Sandbox::Off)],
                place: |plan: &mut Plan| &mut plan.hardening.sandbox,
            }),
            example: None,
            doc: "Whether Flifo gives up, once it has started, new privileges (no_new_privs), kernel \
                  calls that a proxy does not need (seccomp), and all files but the machine's own \
                  settings and the folders of those that the configuration names (Landlock, Linux \
                  5.13 or later). What the kernel does not have is left out and logged.",
            elsewhere: &[],
            since: FIRST,
            applies: Restart(
                "what a process has given up it does not get back, and threads that run cannot be confined",
            ),
        },
        Row {
            name: "core_dumps",
            form: Form::Choice(&Named {
                values: PERMISSIONS,
                place: |plan: &mut Plan| &mut plan.hardening.core_dumps,
            }),
            example: None,
            doc: "Whether the machine may write a core dump if Flifo crashes, and a debugger of the \
                  same user may attach to it. Passwords are left out of a dump; statements and rows \
                  that are on their way are not.",
            elsewhere: &[("MySQL", "core_file")],
            since: FIRST,
            applies: Restart("what a process has given up it does not get back"),
        },
    ],
};

static PERMISSIONS: &[(&str, Permission)] =
    &[("refused", Permission::Refused), ("allowed", Permission::Allowed)];
