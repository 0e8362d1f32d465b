//! `flifo lab`: runs experiments, prints what they found and writes it down as a page.

use std::path::Path;

use anyhow::{Context, Result};
use bench::interrupt::{Interrupt, Interrupted};
use bench::lab::{self, About, Entry, Finding, Lab, LabOptions};
use bench::programs;
use shell::{INTERRUPTED, OK, UNAVAILABLE, USAGE, complain, print};

use crate::arguments::{LabCommand, LabOutput, LabTurns};

pub(crate) fn run(command: LabCommand) -> u8 {
    let (entries, output, only) = match command {
        LabCommand::List => {
            print(&list());
            return OK;
        }
        LabCommand::Run { name, turns, output } => match lab::find(&name, &options(&turns)) {
            Ok(entry) => (vec![entry], output, turns.only),
            Err(error) => {
                complain(error);
                return USAGE;
            }
        },
        LabCommand::All { turns, output } => (lab::all(&options(&turns)), output, turns.only),
    };
    match perform(&entries, &output, only) {
        Ok(()) => OK,
        Err(error) if error.is::<Interrupted>() => {
            complain("interrupted: everything that was changed or started has been undone");
            INTERRUPTED
        }
        Err(error) => {
            complain(format_args!("{error:#}"));
            UNAVAILABLE
        }
    }
}

fn options(LabTurns { rounds, seconds, clients, .. }: &LabTurns) -> LabOptions {
    LabOptions { rounds: *rounds, length: *seconds, clients: clients.clone() }
}

fn list() -> String {
    let mut text = String::new();
    for entry in lab::all(&LabOptions::default()) {
        let About { name, question, seconds, .. } = entry.about();
        text.push_str(&format!("{name:<12} {question} (about {} min)\n", seconds.div_ceil(60)));
    }
    text
}

fn perform(entries: &[Box<dyn Entry>], output: &LabOutput, only: Option<String>) -> Result<()> {
    let lab = Lab { interrupt: Interrupt::listen()?, flifo: programs::flifo()?, only };
    let mut findings = Vec::new();
    for entry in entries {
        findings.push((entry.about(), entry.run(&lab)?));
    }
    // Before anything is printed: a pipe that is closed early loses no page.
    std::fs::write(&output.html, lab::page(&findings))
        .with_context(|| format!("cannot write {}", output.html.display()))?;
    show(&findings, output)?;
    eprintln!("With charts: {}", absolute(&output.html));
    Ok(())
}

fn show(findings: &[(About, Finding)], output: &LabOutput) -> Result<()> {
    if output.json {
        print(&format!("{}\n", lab::json(findings)?));
        return Ok(());
    }
    let colours = crate::measure::colours();
    for (about, finding) in findings {
        print(&format!("\n{}", lab::text(about, finding, colours)));
    }
    Ok(())
}

fn absolute(path: &Path) -> String {
    path.canonicalize().unwrap_or_else(|_| path.to_owned()).display().to_string()
}
