//! The `flifo` command: arguments in, exit code out. Exit codes are those of `sysexits.h`.

mod arguments;

use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use proxy::config::{self, Overrides, Plan, Problem};

use self::arguments::{Arguments, Command};

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
            let code = if error.use_stderr() { USAGE } else { 0 };
            let _ = error.print();
            return code.into();
        }
    };
    let code = match arguments.command {
        Command::Run { config, listen, server, workers } => {
            run(config.as_deref(), &Overrides { listen, server, workers })
        }
        Command::CheckConfig { file, json } => check_config(&file, json),
        Command::ConfigReference => print(&config::reference()),
        Command::ConfigSample => print(&config::sample()),
        command @ Command::Demo { .. } => demo(command),
        Command::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "flifo", &mut out);
            print(&String::from_utf8_lossy(&out))
        }
        Command::Man => manual(),
    };
    code.into()
}

fn run(config: Option<&Path>, overrides: &Overrides) -> u8 {
    let (plan, warnings) = match config::load(config, overrides) {
        Ok(loaded) => loaded,
        Err(problems) => return refuse(&problems),
    };
    for warning in &warnings {
        eprintln!("flifo: {warning}");
    }
    proxy::logs::start(&plan.logs);
    let address = match &plan.server.address {
        Some(address) => address.clone(),
        None => match find_server(&plan) {
            Some(address) => address,
            None => return UNAVAILABLE,
        },
    };
    match proxy::run(plan, address) {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("flifo: {error}");
            if error.is_ours() { SOFTWARE } else { UNAVAILABLE }
        }
    }
}

/// Looks for the server of this machine, and says what was found and why.
fn find_server(plan: &Plan) -> Option<proxy::Address> {
    let found = proxy::discover::local(Path::new("/"), &plan.listen);
    for server in &found {
        eprintln!("flifo: found {}: {}", server.address, server.why);
    }
    match found.into_iter().find(|server| server.answers) {
        Some(server) => {
            eprintln!("flifo: using {}; --server chooses another", server.address);
            Some(server.address)
        }
        None => {
            eprintln!(
                "flifo: no server answers on this machine: none of the usual sockets, of those that my.cnf \
                 names, of the listening ones, nor 127.0.0.1:3306; start one, or name one with --server"
            );
            None
        }
    }
}

fn check_config(file: &Path, json: bool) -> u8 {
    let loaded = config::load(Some(file), &Overrides::default());
    let (code, problems) = match loaded {
        Ok((_, warnings)) => (0, warnings),
        Err(problems) => (CONFIG, problems),
    };
    if json {
        let text = serde_json::to_string_pretty(&problems).unwrap_or_else(|_| "[]".to_owned());
        print(&format!("{text}\n"));
        return code;
    }
    for problem in &problems {
        println!("{problem}");
    }
    if code == 0 {
        println!("{}: ok", file.display());
    }
    code
}

fn refuse(problems: &[Problem]) -> u8 {
    for problem in problems {
        eprintln!("flifo: {problem}");
    }
    CONFIG
}

fn demo(command: Command) -> u8 {
    let Command::Demo {
        seconds,
        rounds,
        clients,
        workloads,
        rows,
        tables,
        with,
        workers,
        json,
        keep,
    } = command
    else {
        return SOFTWARE;
    };
    let mut options = bench::demo::Options {
        seconds,
        rounds,
        clients,
        workloads,
        rows,
        tables,
        workers,
        json,
        keep,
        ..bench::demo::Options::default()
    };
    for name in with {
        match name.parse() {
            Ok(kind) => options.targets.push(kind),
            Err(error) => {
                eprintln!("flifo: --with {name}: {error}");
                return USAGE;
            }
        }
    }
    match bench::demo::run(&options) {
        Ok(()) => 0,
        Err(error) if error.is::<bench::interrupt::Interrupted>() => INTERRUPTED,
        Err(error) => {
            eprintln!("flifo: {error:#}");
            UNAVAILABLE
        }
    }
}

fn manual() -> u8 {
    let mut out = Vec::new();
    match clap_mangen::Man::new(Arguments::command()).render(&mut out) {
        Ok(()) => print(&String::from_utf8_lossy(&out)),
        Err(_) => SOFTWARE,
    }
}

/// Prints a text. A reader that has seen enough is no failure.
fn print(text: &str) -> u8 {
    let _ = std::io::stdout().write_all(text.as_bytes());
    0
}
