//! Program after program: generated or stored, run directly and through Flifo, compared, and shrunk if they differ.

use std::fmt;
use std::path::PathBuf;
use std::time::Instant;

use super::compare::{Difference, compare};
use super::generate::{Shape, generate};
use super::peer::Door;
use super::program::Program;
use super::run::{Trace, run};
use super::shrink::shrink;
use super::site::{Server, Site};
use super::text::print;
use crate::flifo::{self, Flifo};

/// What shall be run.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// Of the first program; each one after it has the next seed.
    pub seed: u64,
    /// Statements that are compared, at least.
    pub statements: usize,
    /// How many links Flifo has: one number after the other.
    pub links: Vec<u32>,
    pub shape: Shape,
    /// Whether a difference is shrunk.
    pub shrinks: bool,
}

/// A program that differs.
#[derive(Clone, Debug)]
pub struct Finding {
    pub program: Program,
    /// Between Flifo and the second server; `None`: two direct runs differ as well, so the program is not fit to judge.
    pub links: Option<u32>,
    pub difference: Difference,
    /// Whether it showed again.
    pub is_steady: bool,
}

/// What one program has cost.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    pub seed: u64,
    pub statements: usize,
    pub differences: usize,
}

/// What stands between clients and the second server.
pub trait Between {
    /// Starts anew, and says where clients log in.
    fn door(&mut self, server: &Server, links: u32) -> Door;
}

/// Flifo itself.
pub struct ThroughFlifo {
    program: PathBuf,
    running: Option<Flifo>,
}

impl ThroughFlifo {
    /// The program beside this test.
    pub fn here() -> Self {
        Self::of(flifo::program().to_owned())
    }

    pub fn of(program: PathBuf) -> Self {
        Self { program, running: None }
    }
}

impl Between for ThroughFlifo {
    fn door(&mut self, server: &Server, links: u32) -> Door {
        // The one before is gone before the next one logs in.
        self.running = None;
        let flifo = self.running.insert(server.flifo(&self.program, links));
        Server::door_of(flifo)
    }
}

/// Nothing: both runs are direct. Shows that programs can be judged at all.
pub struct Nothing;

impl Between for Nothing {
    fn door(&mut self, server: &Server, _links: u32) -> Door {
        server.door()
    }
}

impl Campaign {
    /// Runs programs until there were enough statements. `watch` is told after each one, and ends it by `false`.
    pub fn run(
        &self,
        site: &mut Site,
        between: &mut impl Between,
        mut watch: impl FnMut(Progress, Option<&Finding>) -> bool,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut statements = 0;
        for seed in self.seed.. {
            let program = generate(seed, self.shape);
            let found = check(&program, site, between, &self.links);
            statements += program.statements() * self.links.len();
            let found = found.map(|found| match self.shrinks {
                true => shorten(found, site, between),
                false => found,
            });
            let differences = findings.len() + usize::from(found.is_some());
            let goes_on = watch(Progress { seed, statements, differences }, found.as_ref());
            findings.extend(found);
            if !goes_on || statements >= self.statements {
                break;
            }
        }
        findings
    }
}

/// Runs a program directly and with each number of links. Returns the first difference.
pub fn check(
    program: &Program,
    site: &mut Site,
    between: &mut impl Between,
    links: &[u32],
) -> Option<Finding> {
    let direct = run_directly(program, site);
    links.iter().find_map(|links| {
        let difference = differs(program, &direct, site, between, *links)?;
        let found =
            Finding { program: program.clone(), links: Some(*links), difference, is_steady: false };
        Some(found.confirmed(site, between))
    })
}

impl Finding {
    /// Is it Flifo, or can the program not even be repeated on one server? And does it show again?
    fn confirmed(mut self, site: &mut Site, between: &mut impl Between) -> Self {
        let direct = run_directly(&self.program, site);
        for _ in 0..2 {
            let again = run_directly(&self.program, site);
            if let Some(difference) = compare(&self.program, &direct, &again) {
                return Self { links: None, difference, is_steady: true, ..self };
            }
        }
        let links = self.links.unwrap_or(1);
        self.is_steady = differs(&self.program, &direct, site, between, links).is_some();
        self
    }
}

/// The shortest program with a difference.
fn shorten(found: Finding, site: &mut Site, between: &mut impl Between) -> Finding {
    let (Some(links), true) = (found.links, found.is_steady) else { return found };
    let mut last = found.difference.clone();
    let begun = Instant::now();
    let program = shrink(&found.program, |program| {
        if begun.elapsed().as_secs() > SHRINK_MAX {
            return false;
        }
        let direct = run_directly(program, site);
        let difference = differs(program, &direct, site, between, links);
        let is_other = difference.as_ref().is_some_and(|it| !it.is_like(&found.difference));
        if let Some(difference) = difference
            && !is_other
        {
            last = difference;
            return true;
        }
        false
    });
    Finding { program, difference: last, ..found }
}

/// Seconds after which what is shortest so far will do.
const SHRINK_MAX: u64 = 60;

fn run_directly(program: &Program, site: &mut Site) -> Trace {
    site.direct.prepare(program.clients.len());
    run(program, &site.direct.door())
}

fn differs(
    program: &Program,
    direct: &Trace,
    site: &mut Site,
    between: &mut impl Between,
    links: u32,
) -> Option<Difference> {
    site.behind.prepare(program.clients.len());
    let door = between.door(&site.behind, links);
    compare(program, direct, &run(program, &door))
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.links {
            Some(links) => writeln!(f, "# With {links} links:")?,
            None => writeln!(f, "# Two direct runs differ: this program cannot judge.")?,
        }
        if !self.is_steady {
            writeln!(f, "# It did not show again.")?;
        }
        for line in self.difference.to_string().lines() {
            writeln!(f, "# {line}")?;
        }
        f.write_str(&print(&self.program))
    }
}
