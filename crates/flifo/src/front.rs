//! What a Flifo that runs is configured to show to its clients, as the doctor judges it.
//!
//! Read off its command line and the configuration that this names. Of that only what is judged leaves this file: no
//! passwords, no keys.

use std::path::PathBuf;

use clap::Parser;
use doctor::{Certificate, Front, Seen, Tree};
use proxy::config::{ClientTlsMode, Instructions, Listen, Overrides, Plan};

use crate::arguments::{Arguments, Command, Run};

/// That of the process of this number.
pub(crate) fn of(pid: u32) -> Seen<Front> {
    let line = Tree::live().text(&format!("/proc/{pid}/cmdline"));
    let run = line.parse("Flifo's command line", |line| {
        match Arguments::try_parse_from(line.split_terminator('\0')) {
            Ok(Arguments { command: Command::Run(run) }) => Some(run),
            _ => None,
        }
    });
    run.and_then(|run| configured(pid, run))
}

fn configured(pid: u32, run: &Run) -> Seen<Front> {
    let at = match &run.config {
        Some(file) if file.is_relative() => {
            let folder = format!("/proc/{pid}/cwd");
            let folder = Seen::from_io(&folder, std::fs::read_link(&folder));
            folder.map(|folder| Some(folder.join(file)))
        }
        file => Seen::Known(file.clone()),
    };
    at.and_then(|file| load(file.clone(), run))
}

fn load(file: Option<PathBuf>, run: &Run) -> Seen<Front> {
    let Run { listen, server, workers, allow_privileged_user, .. } = run;
    let overrides = Overrides {
        listen: listen.clone(),
        server: server.clone(),
        workers: workers.clone(),
        allow_privileged_user: *allow_privileged_user,
    };
    match (Instructions { file, overrides }).load() {
        Ok((plan, _)) => Seen::Known(front(&plan)),
        Err(problems) => {
            let why = problems.first().map_or_else(String::new, ToString::to_string);
            Seen::Unknown(format!("Flifo's configuration: {why}"))
        }
    }
}

fn front(plan: &Plan) -> Front {
    let open = plan.listen.iter().filter_map(|listen| match listen {
        Listen::Tcp(address) if !address.ip().is_loopback() => Some(address.to_string()),
        Listen::Tcp(_) | Listen::Unix(_) => None,
    });
    let known = plan.users.iter().filter(|user| user.pooled).map(|user| user.name.clone());
    Front {
        open: open.collect(),
        certificate: match (plan.tls.mode, &plan.tls.files.identity) {
            (ClientTlsMode::Off, _) => Certificate::None,
            (_, None) => Certificate::MadeUp,
            (_, Some(_)) => Certificate::Given,
        },
        reads_accounts: plan.server.accounts_user.is_some(),
        known: known.collect(),
    }
}
