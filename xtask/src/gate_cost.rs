//! `cargo xtask gate-cost`: how many of a statement's instructions are the gate's, where it does not bind.
//!
//! Runs Flifo under callgrind, with fewer clients than the limit, and reads what it has counted: time plays no part, so
//! another load on the machine does not disturb it. Handing out backends is counted apart: a proxy without a gate must
//! do so, too. Then runs it as it is, and weighs what the same way through a gate costs against the CPU of a statement.
//! Only the promise that it prints fails it.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use engine::classes::{Class, ClassId, Classes};
use engine::gate::{Ask, Gate};
use engine::intent::Digest;
use engine::places::ConnectionPlaces;
use engine::slots::Slots;

use crate::callgrind::{Proxy, Watched};
use crate::price;

#[derive(clap::Args)]
pub(crate) struct Extent {
    /// Statements of each client that are counted.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    statements: u32,
}

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let server = PrivateServer::start_default()?;
    let counted = count(extent, flifo, &server, interrupt)?;
    let weighed = weigh(flifo, &server, interrupt)?;
    let worst = counted.max(weighed);
    ensure!(worst <= RATIO_MAX, "a gate that does not bind costs more than promised");
    Ok(())
}

/// Instructions a statement, as a multiple of those without a gate.
fn count(
    extent: &Extent,
    flifo: &Path,
    server: &PrivateServer,
    interrupt: &Interrupt,
) -> Result<f64> {
    let watched = Watched::start(flifo, server, LIMIT, interrupt)?;
    work(&watched.proxy, WARM_UP)?;
    let counted = watched.count(|| work(&watched.proxy, extent.statements))?;
    drop(watched);
    let Share { gate, backends, all } = read(&counted);
    ensure!(gate > 0 && gate < all, "callgrind has counted {gate} of {all} instructions");
    let statements = f64::from(CLIENTS * extent.statements);
    let each = |sum: u64| sum as f64 / statements;
    let (gate, backends, all) = (each(gate), each(backends), each(all));
    let ratio = all / (all - gate);
    println!(
        "{all:.0} instructions a statement outside of the kernel; {backends:.0} of them hand out \
         backend connections, and {gate:.0} are the gate's: with it {ratio:.4} of what it would be without (at \
         most {RATIO_MAX})"
    );
    Ok(ratio)
}

/// CPU a statement, the kernel's work for it included, as a multiple of that without a gate.
fn weigh(flifo: &Path, server: &PrivateServer, interrupt: &Interrupt) -> Result<f64> {
    let proxy = Proxy::start(Command::new(flifo), server, LIMIT, "", interrupt)?;
    work(&proxy, WARM_UP)?;
    let cpu = || anyhow::Ok(sys::account::stat(proxy.pid())?.cpu.total());
    let before = cpu()?;
    work(&proxy, WEIGHED)?;
    let used = cpu()?.saturating_sub(before);
    let all = used.as_secs_f64() * 1e9 / f64::from(CLIENTS * WEIGHED);
    let gate = price::nanos(passage());
    let ratio = all / (all - gate);
    println!(
        "{all:.0} ns of CPU a statement; {gate:.0} of them are the gate's, with the handing out of \
         backend connections: {ratio:.4} of what it would be without (at most {RATIO_MAX})"
    );
    Ok(ratio)
}

/// What a statement does at a gate that does not bind: it takes a slot and a backend, gives them back, and the gate
/// looks for a waiting client.
fn passage() -> impl FnMut() {
    const KEY: u32 = 1;
    let now = Instant::now();
    let (slots, backends) =
        (Arc::new(Slots::new(64, 1, now)), Arc::new(ConnectionPlaces::new(64, 1, now)));
    let classes = Arc::new(Classes::new(vec![Class::default()], 1));
    let mut gate: Gate<u32, u32, u32> = Gate::new(0, slots, backends, classes);
    (0..CLIENTS).for_each(|backend| gate.put(KEY, backend, now));
    let ask = Ask::new(ClassId::default(), Some(Digest::new(7)));
    move || {
        let entered = gate.enter(KEY, black_box(ask), now, |_| true);
        let (backend, slot) = entered.expect("nobody waits, and backend connections are free");
        gate.put(KEY, backend, now);
        let followed = gate.pass_on(slot, now, |_, _| true).is_some();
        let next = gate.next(now, |_, _| true).is_some();
        assert!(!followed && !next && gate.next_wake().is_none(), "nobody waits");
    }
}

/// Fewer clients than the limit ask, each so often.
fn work(proxy: &Proxy, statements: u32) -> Result<()> {
    proxy.work(CLIENTS, |client| {
        for number in 0..statements {
            let answer = client.query(&format!("SELECT {number}"));
            ensure!(answer.is_ok(), "a statement fails: {answer:?}");
        }
        Ok(())
    })
}

/// Instructions: the gate's and those that hand out backends, with what they call, and all.
#[derive(Debug, Default, PartialEq, Eq)]
struct Share {
    gate: u64,
    backends: u64,
    all: u64,
}

impl Share {
    fn add(&mut self, whose: Whose, cost: u64) {
        match whose {
            Whose::Gates => self.gate += cost,
            Whose::Backends => self.backends += cost,
            Whose::Others => {}
        }
    }
}

/// Reads what callgrind has counted. A line belongs to the file that it was inlined from, or else to its function; what
/// it calls of others counts as its own.
fn read(text: &str) -> Share {
    let mut names = Names::default();
    let mut share = Share::default();
    let (mut function, mut file, mut callee) = (Whose::Others, Whose::Others, Whose::Others);
    let mut is_call = false;
    for line in text.lines() {
        match line.split_once('=') {
            Some(("fl" | "fi" | "fe", name)) => file = names.file(name),
            Some(("cfl" | "cfi", name)) => _ = names.file(name),
            Some(("fn", name)) => function = names.function(name),
            Some(("cfn", name)) => callee = names.function(name),
            Some(("calls", _)) => is_call = true,
            Some(_) => {}
            None => {
                let Some(cost) = cost(line) else { continue };
                let whose = if file == Whose::Others { function } else { file };
                if !std::mem::take(&mut is_call) {
                    share.all += cost;
                    share.add(whose, cost);
                } else if callee == Whose::Others {
                    // What a function of theirs costs is counted where its lines stand.
                    share.add(whose, cost);
                }
            }
        }
    }
    share
}

/// The second number of a line of numbers; the first is where, often as a difference.
fn cost(line: &str) -> Option<u64> {
    let is_numbers = line.starts_with(|letter: char| "0123456789+-*".contains(letter));
    line.split_whitespace().nth(1).filter(|_| is_numbers)?.parse().ok()
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Gates,
    /// Hand out backends.
    Backends,
    Others,
}

impl Whose {
    fn of(is_in: impl Fn(&&str) -> bool) -> Self {
        match (BACKENDS.iter().any(&is_in), GATE.iter().any(&is_in)) {
            (true, _) => Self::Backends,
            (_, true) => Self::Gates,
            _ => Self::Others,
        }
    }
}

/// A name stands behind its number once, and later the number stands alone.
#[derive(Default)]
struct Names {
    functions: HashMap<String, Whose>,
    files: HashMap<String, Whose>,
}

impl Names {
    fn function(&mut self, name: &str) -> Whose {
        Self::look_up(&mut self.functions, name, |name| {
            let is_in =
                |part: &&str| name.contains(&format!("engine::{}::", part.replace('/', "::")));
            if name.contains(CHOICE) { Whose::Backends } else { Whose::of(is_in) }
        })
    }

    fn file(&mut self, name: &str) -> Whose {
        Self::look_up(&mut self.files, name, |name| {
            let path = name.split("engine/src/").nth(1).unwrap_or_default();
            let is_in = |part: &&str| {
                path.strip_prefix(*part).is_some_and(|rest| rest.starts_with(['.', '/']))
            };
            Whose::of(is_in)
        })
    }

    fn look_up(
        known: &mut HashMap<String, Whose>,
        name: &str,
        whose: impl Fn(&str) -> Whose,
    ) -> Whose {
        let (number, full) = name.split_once(' ').unwrap_or((name, ""));
        if full.is_empty() {
            return known.get(number).copied().unwrap_or(Whose::Others);
        }
        let whose = whose(full);
        known.insert(number.to_owned(), whose);
        whose
    }
}

/// Modules of the engine that hand out backends, and the function that says which suits.
const BACKENDS: &[&str] = &["gate/keys", "gate/backends", "pool"];
const CHOICE: &str = "road::admit::suits";
/// Those that are the gate.
const GATE: &[&str] = &["gate", "slots", "classes", "queue", "parked", "cap", "overload"];

const LIMIT: u32 = 64;
/// Fewer than the limit.
const CLIENTS: u32 = 8;
const WARM_UP: u32 = 200;
/// Statements of each client whose CPU is weighed.
const WEIGHED: u32 = 20_000;
/// What is promised.
const RATIO_MAX: f64 = 1.02;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_modules_that_are_counted_exist() {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/engine/src");
        for module in BACKENDS.iter().chain(GATE) {
            assert!(src.join(module).with_extension("rs").exists(), "{module}");
        }
    }

    #[test]
    fn inlined_lines_and_calls_are_told_apart() {
        let text = "events: Ir\n\
                    fl=(1) /b/crates/proxy/src/road/admit.rs\nfn=(1) proxy::road::admit::enter\n\
                    10 100\n\
                    fi=(2) /b/crates/engine/src/gate.rs\n+1 7\n\
                    cfi=(3) /rust/hash.rs\ncfn=(2) hash::get\ncalls=3 5\n+2 20\n\
                    fi=(5) /b/crates/engine/src/gate/keys.rs\n+1 9\n\
                    fe=(1)\n* 1000\n\
                    cfi=(2)\ncfn=(3) engine::gate::Gate<K,W,L>::best\ncalls=1 9\n-1 50\n\
                    fl=(2)\nfn=(3)\n9 40\n\
                    cfi=(1)\ncfn=(5) proxy::road::admit::suits\ncalls=1 9\n-1 6\n\
                    fl=(1)\nfn=(5)\n9 6\n\
                    fl=(3)\nfn=(2)\n5 20\n5 3\n\
                    fl=(4) /b/crates/engine/src/gateway.rs\nfn=(4) engine::gateway::x\n1 1\n\
                    totals: 9\n";
        let all = 100 + 7 + 9 + 1000 + 40 + 6 + 23 + 1;
        assert_eq!(read(text), Share { gate: 7 + 20 + 40, backends: 9 + 6, all });
    }
}
