//! `flifo demo`: its arguments, and which generator makes the load.
//!
//! Measures nothing: with Flifo's own generator it is a `flifo bench run` whose questions are
//! chosen, and with sysbench it is [`bench::demo`].

use std::path::Path;

use anyhow::Result;
use bench::figures::{gain, terminal};
use bench::interrupt::Interrupt;
use bench::programs;
use bench::results::{Results, RunSettings};
use bench::run::{RunOptions, Wrong};
use bench::table::wrap;
use bench::targets::TargetKind;
use bench::topology;
use shell::{OK, print};

use crate::arguments::{Demo, DemoInstead};
use crate::measure::{STDOUT, colours, ending, status, write, write_json};

/// Carries the command out. Returns the exit status.
pub(crate) fn run(arguments: Demo) -> u8 {
    status(match arguments.instead {
        DemoInstead { rules: true, .. } => {
            programs::flifo().and_then(|flifo| bench::rules_demo::run(&flifo)).map(|()| OK)
        }
        DemoInstead { sysbench: true, .. } => by_sysbench(arguments),
        _ => by_ourselves(arguments),
    })
}

fn by_ourselves(arguments: Demo) -> Result<u8> {
    let given = topology::given()?;
    let (places, why) = topology::of_demo(&given, topology::try_to_bind(&given));
    if let Some(why) = &why {
        eprintln!("flifo: {why}");
    }
    let options = RunOptions {
        places,
        start: targets(&arguments.with)?,
        flifo: programs::flifo()?,
        workers: arguments.workers,
        workloads: arguments.workloads,
        clients: arguments.clients,
        rounds: arguments.rounds,
        seconds: f64::from(arguments.seconds),
        warm_up: 1.0,
        tables: Some(arguments.tables),
        rows: Some(arguments.rows),
        ..RunOptions::default()
    };
    let mut results = bench::run::run(&options, None, &Interrupt::listen()?, |_| Ok(()))?;
    results.notes.extend(why);
    if let Some(path) = &arguments.html {
        write(path, &bench::page::of_bench(&results))?;
    }
    if arguments.json {
        write_json(Path::new(STDOUT), &results)?;
    } else {
        let sentence = gain::sentence(&results).map(|it| wrap(&it)).unwrap_or_default();
        let table = terminal::text(&results, colours());
        print(&format!("\n{sentence}\n{table}\n{}", explanation(&results)));
        if let Some(path) = &arguments.html {
            print(&format!("\nThe same with charts: {}\n", path.display()));
        }
    }
    Ok(ending(&results))
}

/// How to read the table, with this run's numbers where there are some.
fn explanation(results: &Results) -> String {
    let RunSettings { seconds, rounds, tables, rows, .. } = &results.settings;
    let cpus = results.machine.cpus;
    let text = format!(
        "How to read it: each number is the median of {rounds} rounds of {seconds} s, in which the \
         targets took turns; spread is the distance between the slowest and the fastest round. \
         \"direct\" is the server itself over TCP, and \"vs first\" the quotient of statements a \
         second with it, with its interval: above 1, the detour gained more than it cost. Proxies \
         are reached over TCP, reach the server over its Unix socket, and are at their defaults. \
         µs are CPU time for a statement: of the server, of the proxy, and of the load itself, \
         which share the {cpus} CPUs of this machine: what one of them uses, the others do not \
         have. With beside-clients the server has a CPU alone, as where proxies run on the machines \
         of the clients; with beside-server it shares one with the proxy. Where an interval has 1 \
         within it, the word is \"unclear\": these rounds have seen no difference, which does not \
         mean that there is none. The server is private and new, holds {tables} tables of \
         {rows} rows in memory, and does not wait for the disk at COMMIT."
    );
    wrap(&text)
}

fn targets(others: &[String]) -> Result<Vec<TargetKind>> {
    let other = |name: &String| {
        name.parse::<TargetKind>().map_err(|error| Wrong(format!("--with {name}: {error}")).into())
    };
    let others = others.iter().map(other);
    [Ok(TargetKind::Direct), Ok(TargetKind::Flifo)].into_iter().chain(others).collect()
}

fn by_sysbench(arguments: Demo) -> Result<u8> {
    let options = bench::demo::DemoOptions {
        seconds: arguments.seconds,
        rounds: arguments.rounds,
        clients: arguments.clients,
        workloads: arguments.workloads,
        rows: arguments.rows,
        tables: arguments.tables,
        workers: arguments.workers,
        json: arguments.json,
        keep: arguments.keep,
        targets: targets(&arguments.with)?,
        flifo: programs::flifo()?,
    };
    bench::demo::run(&options)?;
    Ok(OK)
}
