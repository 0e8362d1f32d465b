//! The `flifo` command: arguments in, exit code out.

mod arguments;
mod console;
mod doctor;
mod front;
mod health;
mod import;
mod init;
mod passed_on;
mod placement;
mod reload;
mod rules;
mod upgrade;

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::CommandFactory;
use proxy::config::{self, Overrides, Plan};
use proxy::discover;
use proxy::{Before, Predecessor, Relations, SuccessionError};
use shell::{CONFIG, Manual, OK, SOFTWARE, UNAVAILABLE, complain, print, show};
use sys::keeper::{self, Keeper};
use sys::supervisor::Supervisor;

use self::arguments::{Arguments, Command, Run};

fn main() -> ExitCode {
    shell::main(|Arguments { command }| match command {
        Command::Init(arguments) => init::run(arguments),
        Command::Run(arguments) => run(arguments),
        Command::Keep { arguments } => keep(&arguments),
        Command::CheckConfig { file, json } => check_config(&file, json),
        Command::ConfigReference => show(&config::reference()),
        Command::ConfigSample => show(&config::sample()),
        Command::Demo(_) | Command::Bench(_) | Command::Lab(_) => passed_on::run(),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Import(arguments) => import::run(&arguments),
        Command::Reload { console, json } => reload::run(&console, json),
        Command::Upgrade { console, json } => upgrade::run(&console, json),
        Command::Health { config, http, ready, patience } => {
            health::run(config.as_deref(), http, ready, patience)
        }
        Command::Placement(command) => placement::run(command),
        Command::Rules(command) => rules::run(command),
        Command::Manual(Manual::Man { command: Some(name) }) if passed_on::is_about(&name) => {
            passed_on::run()
        }
        Command::Manual(asked) => asked.tell(Arguments::command(), INTRODUCTION),
    })
}

fn run(arguments: Run) -> u8 {
    // Before anything is opened: the numbers of what it has passed are in use already.
    let supervisor = match Supervisor::of_process() {
        Ok(supervisor) => supervisor,
        Err(error) => {
            complain(error);
            return UNAVAILABLE;
        }
    };
    let Run { config, listen, server, workers, allow_privileged_user } = arguments;
    let overrides = Overrides { listen, server, workers, allow_privileged_user };
    let source = config::Instructions { file: config, overrides };
    let loaded = source.load();
    let succeeds = std::env::var_os(keeper::SUCCEEDS).is_some();
    let mut keeper = None;
    if let Ok((plan, _)) = &loaded
        && let Err(error) = begin_as_user(plan, succeeds, &mut keeper)
    {
        complain(error);
        return UNAVAILABLE;
    }
    let before = match succeeds {
        // As root it hears nothing of a process that a stranger may have taken over.
        true if loaded.is_err() && sys::process::is_root() => Before::Nothing,
        true => match predecessor() {
            Ok(predecessor) => Before::Flifo(predecessor),
            // It was killed before it has said anything. If it lives nevertheless, its addresses are in use.
            Err(SuccessionError::Ended | SuccessionError::Io(_)) => {
                complain("the Flifo that was to hand over has ended: this one begins anew");
                Before::Killed
            }
            Err(error) => {
                complain(format_args!("no Flifo is taken over from: {error}"));
                return UNAVAILABLE;
            }
        },
        false => Before::Nothing,
    };
    let (plan, warnings) = match loaded {
        Ok(loaded) => loaded,
        Err(problems) => {
            problems.iter().for_each(complain);
            return CONFIG;
        }
    };
    warnings.iter().for_each(complain);
    let log = match proxy::logs::start(&plan.logs) {
        Ok(log) => log,
        Err(error) => {
            complain(error);
            return UNAVAILABLE;
        }
    };
    let known = plan.server.address.clone();
    let address = match plan.servers.is_empty() {
        true => known.or_else(|| find_server(&plan)),
        false => None,
    };
    if address.is_none() && plan.servers.is_empty() {
        return UNAVAILABLE;
    }
    // Before anything is given up that it needs.
    let keeper = keeper.unwrap_or_else(start_keeper);
    let relations = Relations { supervisor, keeper, before };
    match proxy::run(plan, source, address.as_ref(), &log, relations) {
        Ok(()) => OK,
        Err(error) => {
            let code = if error.is_ours() { SOFTWARE } else { UNAVAILABLE };
            complain(error);
            code
        }
    }
}

/// Root makes files as the user that it becomes. One that takes over becomes that user before it hears of the Flifo before
/// it, which an intruder may have taken over; what it needs root for, it starts first.
fn begin_as_user(
    plan: &Plan,
    succeeds: bool,
    keeper: &mut Option<Result<Arc<Keeper>, String>>,
) -> Result<(), proxy::RunError> {
    let Some(user) = plan.hardening.run_as.as_deref().filter(|_| sys::process::is_root()) else {
        return Ok(());
    };
    sys::later_user::announce(user).map_err(proxy::RunError::from_user)?;
    if succeeds {
        *keeper = Some(start_keeper());
        proxy::become_user(plan)?;
    }
    Ok(())
}

/// The Flifo that this one takes over from: its keeper has started this process.
fn predecessor() -> Result<Predecessor, SuccessionError> {
    Predecessor::meet(std::io::stdin().as_fd().try_clone_to_owned()?)
}

/// Starts the process that will start the next Flifo, which this one may not do itself by then. An error says why there
/// is none.
fn start_keeper() -> Result<Arc<Keeper>, String> {
    let program =
        std::env::current_exe().map_err(|error| format!("this program is not found: {error}"))?;
    let arguments: Vec<_> =
        std::iter::once("keep".into()).chain(std::env::args_os().skip(1)).collect();
    let keeper = Keeper::start(&program, &arguments);
    keeper
        .map(Arc::new)
        .map_err(|error| format!("{} cannot be started: {error}", program.display()))
}

/// Starts the next Flifo when it is told to: `arguments` are this one's.
fn keep(arguments: &[OsString]) -> u8 {
    let kept = std::env::current_exe().and_then(|program| keeper::keep(&program, arguments));
    match kept {
        Ok(()) => OK,
        Err(error) => {
            complain(error);
            UNAVAILABLE
        }
    }
}

/// Looks for the server of this machine, and says what was found and why.
fn find_server(plan: &Plan) -> Option<proxy::Address> {
    let found = discover::find(Path::new("/"), &plan.listen, discover::greeting);
    let Some(server) = found.server() else {
        complain(found);
        return None;
    };
    for line in found.to_string().lines() {
        tracing::info!("{line}");
    }
    Some(server.address.clone())
}

fn check_config(file: &Path, json: bool) -> u8 {
    let (code, problems) = match config::load(Some(file), &Overrides::default()) {
        Ok((_, warnings)) => (OK, warnings),
        Err(problems) => (CONFIG, problems),
    };
    if json {
        return match serde_json::to_string_pretty(&problems) {
            Ok(text) => {
                print(&format!("{text}\n"));
                code
            }
            Err(error) => {
                complain(format_args!("the problems cannot be written as JSON: {error}"));
                SOFTWARE
            }
        };
    }
    let mut text: String = problems.iter().map(|problem| format!("{problem}\n")).collect();
    if code == OK {
        text += &format!("{}: ok\n", file.display());
    }
    print(&text);
    code
}

const INTRODUCTION: &str = "\
<!-- Written by `flifo cli-reference`; do not edit. -->
# Command line

`flifo man` and `flifo man COMMAND` write manual pages from the same definitions, and
`flifo completions SHELL` what a shell needs to complete them. `flifo demo`, `flifo bench` and
`flifo lab` start the program flifo-bench, which has [a page of its own](cli-bench.md); `flifo-bench completions`
completes what is typed behind them.
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_is_the_committed_page() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/cli.md");
        let checked = shell::check_reference(Arguments::command(), INTRODUCTION, page.as_ref());
        assert_eq!(checked, Ok(()));
    }
}
