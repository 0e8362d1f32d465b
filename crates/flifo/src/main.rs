//! The `flifo` command: arguments in, exit code out. Exit codes are those of `sysexits.h`.

mod arguments;
mod demo;
mod doctor;
mod lab;
mod manual;
mod measure;
mod placement;
mod speak;

use std::path::Path;
use std::process::ExitCode;

use clap::Parser;
use proxy::config::{self, Overrides, Plan};
use proxy::discover;

use self::arguments::{Arguments, Command, Run};
use self::speak::{complain, print};

const OK: u8 = 0;
const USAGE: u8 = 64;
const UNAVAILABLE: u8 = 69;
const SOFTWARE: u8 = 70;
const CONFIG: u8 = 78;
/// As a shell reports a program that was interrupted.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            // Help and version are asked for; all else is a mistake.
            let code = if error.use_stderr() { USAGE } else { OK };
            let _ = error.print();
            return code.into();
        }
    };
    let code = match arguments.command {
        Command::Run(arguments) => run(arguments),
        Command::CheckConfig { file, json } => check_config(&file, json),
        Command::ConfigReference => show(&config::reference()),
        Command::ConfigSample => show(&config::sample()),
        Command::Demo(arguments) => demo::run(arguments),
        Command::Bench(command) => measure::bench(command),
        Command::Lab(command) => lab::run(command),
        Command::Doctor(arguments) => doctor::run(&arguments),
        Command::Placement(command) => placement::run(command),
        Command::Completions { shell } => {
            show(&String::from_utf8_lossy(&manual::completions(shell)))
        }
        Command::Man { command } => man(command.as_deref()),
        Command::CliReference => show(&manual::reference()),
    };
    code.into()
}

fn run(arguments: Run) -> u8 {
    let Run { config, listen, server, workers, allow_privileged_user } = arguments;
    let overrides = Overrides { listen, server, workers, allow_privileged_user };
    let source = config::Instructions { file: config, overrides };
    let (plan, warnings) = match source.load() {
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
    match proxy::run(plan, source, address, &log) {
        Ok(()) => OK,
        Err(error) => {
            let code = if error.is_ours() { SOFTWARE } else { UNAVAILABLE };
            complain(error);
            code
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

fn man(command: Option<&str>) -> u8 {
    match manual::page(command) {
        Ok(Some(page)) => show(&String::from_utf8_lossy(&page)),
        Ok(None) => {
            let command = command.unwrap_or_default();
            complain(format_args!("man: there is no command {command:?}; see flifo --help"));
            USAGE
        }
        Err(error) => {
            complain(format_args!("man: the page cannot be written: {error}"));
            SOFTWARE
        }
    }
}

fn show(text: &str) -> u8 {
    print(text);
    OK
}
