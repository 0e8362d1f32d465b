//! Finds the shortest program that still shows a difference.
//!
//! Knows nothing of servers: whether a program still differs is for its caller to find out. Whole clients are left out
//! first, then ever smaller pieces, until no single step can be left out.

use super::program::{Abilities, Pace, Program, Step};

/// Shortens a program as long as `differs` says that it differs.
pub fn shrink(program: &Program, mut differs: impl FnMut(&Program) -> bool) -> Program {
    let mut best = program.clone();
    if best.pace == Pace::Rush {
        let calm = Program { pace: Pace::Turns, ..best.clone() };
        if differs(&calm) {
            best = calm;
        }
    }
    for client in (0..best.clients.len()).rev() {
        attempt(&mut best, &mut differs, |step| step.client != client);
    }
    let mut size = best.steps.len().div_ceil(2);
    while size > 0 {
        let mut is_shorter = false;
        // From the end: what comes late depends on what was before.
        let mut end = best.steps.len();
        while end > 0 {
            let start = end.saturating_sub(size);
            let mut at = 0;
            is_shorter |= attempt(&mut best, &mut differs, |_| {
                at += 1;
                !(start < at && at <= end)
            });
            end = start.min(best.steps.len());
        }
        if size > 1 || !is_shorter {
            size /= 2;
        }
    }
    plainer(&mut best, &mut differs);
    without_idle_clients(&best)
}

/// Keeps only these steps, if the rest still differs.
fn attempt(
    best: &mut Program,
    differs: &mut impl FnMut(&Program) -> bool,
    mut keep: impl FnMut(&&Step) -> bool,
) -> bool {
    let stays = |step: &&Step| keep(step) || awaits_many(step);
    let steps: Vec<_> = best.steps.iter().filter(stays).cloned().collect();
    if steps.len() == best.steps.len() {
        return false;
    }
    let shorter = Program { steps, ..best.clone() };
    let is_shorter = differs(&shorter);
    if is_shorter {
        *best = shorter;
    }
    is_shorter
}

/// Whether it waits for several clients. Without it, what others do would come in any order.
fn awaits_many(step: &Step) -> bool {
    Program::touched(step).len() > 3
}

/// Clients that can do nothing special are easier to understand.
fn plainer(best: &mut Program, differs: &mut impl FnMut(&Program) -> bool) {
    for client in 0..best.clients.len() {
        let mut plain = best.clone();
        plain.clients[client].abilities = Abilities::default();
        if plain != *best && differs(&plain) {
            *best = plain;
        }
    }
}

/// Plans of clients that do nothing more are taken off the end, where no number changes by it.
fn without_idle_clients(program: &Program) -> Program {
    let touched = program.steps.iter().flat_map(Program::touched);
    let last = touched.max().map_or(0, |client| client + 1);
    let mut program = program.clone();
    program.clients.truncate(last);
    program
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differ::program::Action;
    use crate::differ::text::{parse, print};

    #[test]
    fn what_does_not_matter_is_left_out() {
        let mut text = String::from("rush\n");
        for client in 0..8 {
            text += &format!("client {client} user 0 schema eofless multi\n");
        }
        for step in 0..300 {
            text += &format!("{} query SELECT {step}\n", step % 8);
        }
        let program = parse(&text).unwrap();
        let mut trials = 0;
        let asks = |program: &Program, number: u32| {
            let text = format!("SELECT {number}").into_bytes();
            program.steps.iter().position(|step| step.action == Action::Query(text.clone()))
        };
        let shortest = shrink(&program, |program| {
            trials += 1;
            // It takes two clients, in this order.
            matches!((asks(program, 41), asks(program, 210)), (Some(a), Some(b)) if a < b)
        });
        let want = "client 0 user 0 schema\nclient 1 user 0 schema\nclient 2 user 0 schema\n\
            1 query SELECT 41\n2 query SELECT 210\n";
        assert_eq!(print(&shortest), want);
        assert!(trials < 150, "{trials}");
    }
}
