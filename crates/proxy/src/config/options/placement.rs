//! Options of placement: what is done to threads on the server's machine.

use sys::cpus::Cpus;

use super::{FIRST, Row, Section, paths};
use crate::config::form::{Form, Named, Taken};
use crate::config::options::Applies::Now;
use crate::config::plan::{PlacementPolicy, Plan};

pub(in crate::config) static PLACEMENT: Section<Plan> = Section {
    name: "placement",
    doc: "Where, and with which right, the server's threads and Flifo's workers run. Counts where the server is on \
          this machine. Whatever is changed is written down first and undone when Flifo ends; after a kill -9, by the \
          next start or by `flifo placement restore`.",
    rows: &[
        Row {
            name: "policy",
            form: Form::Choice(&Named {
                values: &PlacementPolicy::ALL,
                place: |plan: &mut Plan| &mut plan.placement.policy,
            }),
            example: None,
            doc: "\"observe\" looks, tells (SHOW PLACEMENT) and changes nothing. \"auto\" waits for the signature of \
                  starvation (a worker waits for a CPU in more than 10 % of the time and never sleeps, while more than \
                  6 % of the CPUs idle, for two seconds), tries one remedy at a time, measures before, with and before \
                  again, and keeps only what helped. \"batch\", \"priority\", \"private-core\" and \"cpus\" are the \
                  remedies, applied without asking whether they help: the server's threads become batch threads; the \
                  workers get more weight, by nice value, session or control group, whichever counts here; the workers \
                  get a CPU each that the server keeps off; everybody gets the CPUs below. \"off\" does not even look. \
                  To change another user's threads takes CAP_SYS_NICE; without, the command is told that an \
                  administrator would run. From a policy that only looks to one that acts comes a running Flifo with \
                  `hardening.sandbox = \"off\"` alone: else it has given up the rights for that at its start. Real-time policies are never used.",
            elsewhere: &[("HAProxy", "tune.renice.runtime"), ("HAProxy", "cpu-policy")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "worker_cpus",
            form: Form::Text {
                allowed: CPUS,
                show: |plan| plan.placement.worker_cpus.as_ref().map(ToString::to_string),
                set: |plan, text| set(&mut plan.placement.worker_cpus, text),
            },
            example: Some("\"0\""),
            doc: "The CPUs that the workers have when the policy is \"cpus\".",
            elsewhere: &[("HAProxy", "cpu-map")],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "server_cpus",
            form: Form::Text {
                allowed: CPUS,
                show: |plan| plan.placement.server_cpus.as_ref().map(ToString::to_string),
                set: |plan, text| set(&mut plan.placement.server_cpus, text),
            },
            example: Some("\"1-15\""),
            doc: "The CPUs that all threads of the server have when the policy is \"cpus\".",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
        Row {
            name: "state_file",
            form: Form::Text {
                allowed: paths::FILE,
                show: |plan| paths::show(plan.placement.state_file.as_ref()),
                set: |plan, text| paths::set(&mut plan.placement.state_file, text),
            },
            example: Some("\"/run/flifo/placement.json\""),
            doc: "Where is written down what things were before. Its folder must belong to Flifo's user alone. By \
                  default, in RUNTIME_DIRECTORY (systemd), /run/flifo (root), XDG_RUNTIME_DIR/flifo or a folder of the \
                  user's own in the folder for temporary files; named after the first address in `listen`. Another \
                  folder needs a start where `hardening.sandbox` is on.",
            elsewhere: &[],
            since: FIRST,
            applies: Now,
        },
    ],
};

const CPUS: &str = "a list of CPUs such as \"0-3,8\"";

fn set(place: &mut Option<Cpus>, text: &str) -> Taken {
    let cpus: Cpus = text.parse().map_err(|error: sys::cpus::NoCpus| error.to_string())?;
    if cpus.is_empty() {
        return Err("the list is empty".to_owned());
    }
    *place = Some(cpus);
    Ok(())
}
