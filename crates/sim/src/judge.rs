//! What clients may be answered in a world in which things go wrong.
//!
//! A client is told of what has failed, and may be told so by an error or by the end of its connection: from there on
//! its tables may be others than directly. Once it has connected anew, its session is a fresh one, and what that says of
//! itself must be what it is directly. What was acknowledged is there once, and what was refused is not.

use std::collections::BTreeMap;

use testkit::differ::compare::{self, Difference};
use testkit::differ::peer::Outcome;
use testkit::differ::program::{Action, Program};
use testkit::differ::run::Trace;
use wire::response::{ERR, ErrPacket};

use crate::model::session::FIRST_MARK;
use crate::programs::is_kill;

/// How far a client's answers can be foretold.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Foretold {
    All,
    /// Its session, but not its tables.
    Session,
    Nothing,
}

/// Errors by which a client is told of what goes wrong beneath it.
const TOLD: [u16; 10] = [1040, 1053, 1205, 1213, 1317, 1429, 1430, 1637, 1927, 1047];

/// Errors of a client that asks wrongly: whatever goes wrong beneath it, it asks as it does directly.
const NEVER_BY_FAULTS: [u16; 3] = [1064, 1210, 1835];

/// The first answer that is another one than directly, for no reason that the client was told.
pub fn compare(
    program: &Program,
    direct: &Trace,
    (through, anew): (&Trace, &[bool]),
) -> Option<Difference> {
    let mut foretold = vec![Foretold::All; program.clients.len()];
    let mut has_killed = vec![false; program.clients.len()];
    for (at, step) in program.steps.iter().enumerate() {
        let (own, other) = (&through[at], &direct[at]);
        let foretold = &mut foretold[step.client];
        if anew[at] {
            // Directly, it has still the session of before.
            *foretold = Foretold::Nothing;
        }
        if is_kill(&step.action) {
            if is_disturbed(own) {
                *foretold = Foretold::Nothing;
            }
            // Directly it is not done. What it was answered says whether its victim was there; its messages stay until
            // the next statement.
            has_killed[step.client] = true;
            continue;
        }
        let clears = |text: &[u8]| !text.starts_with(b"SHOW");
        let is_cleared = matches!(&step.action, Action::Query(text) if clears(text));
        if has_killed[step.client] && !is_cleared && !is_disturbed(own) {
            continue;
        }
        has_killed[step.client] = false;
        if is_disturbed(own) && own != other {
            *foretold = Foretold::Nothing;
            continue;
        }
        let differs = || {
            let one = Program { steps: vec![step.clone()], ..program.clone() };
            let found = compare::compare(&one, &vec![other.clone()], &vec![own.clone()]);
            found.map(|difference| difference.at(at))
        };
        let is_blamed = error(own).is_some_and(|code| NEVER_BY_FAULTS.contains(&code));
        if is_blamed
            && matches!(other, Outcome::Reply(_))
            && error(own) != error(other)
            && let Some(difference) = differs()
        {
            return Some(difference);
        }
        if *foretold == Foretold::Nothing {
            let is_fresh = matches!(step.action, Action::Connect | Action::Reset);
            if is_fresh && is_well(own) {
                *foretold = Foretold::Session;
            }
            continue;
        }
        if *foretold == Foretold::Session && !is_of_session(&step.action) {
            continue;
        }
        if let Some(difference) = differs() {
            return Some(difference);
        }
    }
    None
}

/// Whether what is answered goes by the session alone.
fn is_of_session(action: &Action) -> bool {
    match action {
        Action::Query(text) => {
            [&b"SELECT @@"[..], b"SELECT @a"].iter().any(|it| text.starts_with(it))
        }
        _ => false,
    }
}

fn error(outcome: &Outcome) -> Option<u16> {
    let Outcome::Reply(packets) = outcome else { return None };
    let last = packets.last().filter(|packet| packet.payload.first() == Some(&ERR))?;
    ErrPacket::decode(&last.payload).ok().map(|error| error.code)
}

/// Whether a client hears that something has gone wrong.
fn is_disturbed(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Closed(_) | Outcome::Skipped | Outcome::Stuck(_) => true,
        Outcome::Reply(_) => error(outcome).is_some_and(|code| TOLD.contains(&code)),
    }
}

/// What is known of a write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    Once,
    Never,
    Perhaps,
}

/// What was acknowledged and is not there once, or was refused and is there.
pub fn lost(program: &Program, through: &Trace, marks: &BTreeMap<u64, u32>) -> Option<String> {
    for client in 0..program.clients.len() {
        let steps: Vec<_> =
            program.steps.iter().zip(through).filter(|(step, _)| step.client == client).collect();
        for (at, (step, outcome)) in steps.iter().enumerate() {
            let Some(mark) = mark_of(&step.action) else { continue };
            let before = |back: usize| at.checked_sub(back).map(|at| steps[at]);
            let text_before = before(1).map(|(step, _)| text(&step.action)).unwrap_or_default();
            let written = match (&*text_before, outcome) {
                // The statement is a transaction of its own, if both before it were answered well.
                ("SET autocommit = 1", outcome) => {
                    let is_first =
                        before(2).is_some_and(|(step, _)| text(&step.action) == "COMMIT");
                    let are_well =
                        [1, 2].iter().all(|back| before(*back).is_some_and(|(_, it)| is_well(it)));
                    let is_own = is_first && are_well;
                    if is_own { told(outcome) } else { Written::Perhaps }
                }
                _ => in_transaction(&steps, at),
            };
            let count = marks.get(&mark).copied().unwrap_or(0);
            let is_right = match written {
                Written::Once => count == 1,
                Written::Never => count == 0,
                Written::Perhaps => count <= 1,
            };
            if !is_right {
                let text = text(&step.action);
                return Some(format!(
                    "client {client}: {text}: it is there {count} times, and was answered {outcome:?}"
                ));
            }
        }
    }
    None
}

type Steps<'a> = [(&'a testkit::differ::program::Step, &'a Outcome)];

/// What is known of a write between BEGIN and COMMIT.
fn in_transaction(steps: &Steps<'_>, at: usize) -> Written {
    let is =
        |at: usize, word: &str| steps.get(at).is_some_and(|(step, _)| text(&step.action) == word);
    let begin = (at.saturating_sub(3)..at).rev().find(|at| is(*at, "BEGIN"));
    let commit = (at + 1..at + 4).find(|at| is(*at, "COMMIT"));
    let (Some(begin), Some(commit)) = (begin, commit) else { return Written::Perhaps };
    if steps[begin..commit].iter().any(|(_, outcome)| is_disturbed(outcome)) {
        // It may have been in no transaction, or in the one before.
        return Written::Perhaps;
    }
    match (told(steps[at].1), told(steps[commit].1)) {
        (Written::Never, _) => Written::Never,
        (Written::Once, written) => written,
        (Written::Perhaps, _) => Written::Perhaps,
    }
}

fn is_well(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Reply(_)) && error(outcome).is_none()
}

fn told(outcome: &Outcome) -> Written {
    match (outcome, error(outcome)) {
        (Outcome::Reply(_), None) => Written::Once,
        // It is not known whether it has run.
        (Outcome::Reply(_), Some(1430)) => Written::Perhaps,
        (Outcome::Reply(_), Some(_)) => Written::Never,
        (Outcome::Skipped, _) => Written::Never,
        (Outcome::Closed(_) | Outcome::Stuck(_), _) => Written::Perhaps,
    }
}

fn text(action: &Action) -> String {
    match action {
        Action::Query(text) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    }
}

fn mark_of(action: &Action) -> Option<u64> {
    let text = text(action);
    let numbers = text.split(|it: char| !it.is_ascii_digit()).filter_map(|it| it.parse().ok());
    numbers.into_iter().find(|number| *number >= FIRST_MARK)
}
