//! Whether what clients have read and written of registers is linear: as if each operation had happened at one moment
//! between its beginning and its end.
//!
//! Owns the judgement and the clients that make histories ([`campaign`]). Each value is written once, so it is known
//! which write a read has seen, and a history of a register can be judged in the time that it takes to sort it (Gibbons
//! and Korach, 1997): the operations on one value are a *zone*, from the first of their ends to the last of their
//! beginnings; zones in which the value must have been there do not overlap, and no other value can have come and gone
//! within one.

pub mod campaign;

use std::collections::HashMap;

/// What was done to a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// It was seen to have this value.
    Read,
    /// It was given this value.
    Write,
}

/// One operation of a client. Times are of one clock, in any unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    pub register: u32,
    pub act: Act,
    pub value: u64,
    pub begun: u64,
    /// `None`: no answer came, so a write may have happened, and may happen still.
    pub ended: Option<u64>,
}

/// What each register has before anything is written.
pub const FIRST: u64 = 0;

/// Why a history is not linear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A value was read that was never written.
    NeverWritten(Operation),
    /// A value was read before its writing had begun.
    ReadAhead(Operation),
    /// These values of a register would have had to be there at the same time.
    Overlap { register: u32, one: u64, two: u64 },
    /// The first value would have had to come and go while the second one was there.
    Within { register: u32, inner: u64, outer: u64 },
}

/// The operations on one value of a register.
#[derive(Clone, Copy, Debug)]
struct Zone {
    value: u64,
    write_begun: u64,
    first_end: u64,
    last_begin: u64,
    reads: u64,
}

/// Judges a history: the first violation that is found, if there is one.
pub fn check(history: &[Operation]) -> Option<Violation> {
    let mut registers: HashMap<u32, Vec<&Operation>> = HashMap::new();
    for operation in history {
        registers.entry(operation.register).or_default().push(operation);
    }
    let mut registers: Vec<_> = registers.into_iter().collect();
    registers.sort_unstable_by_key(|(register, _)| *register);
    registers.iter().find_map(|(register, operations)| check_one(*register, operations))
}

fn check_one(register: u32, operations: &[&Operation]) -> Option<Violation> {
    let first = Zone { value: FIRST, write_begun: 0, first_end: 0, last_begin: 0, reads: 0 };
    let mut by_value = HashMap::from([(FIRST, first)]);
    for write in operations.iter().filter(|it| it.act == Act::Write) {
        let zone = Zone {
            value: write.value,
            write_begun: write.begun,
            first_end: write.ended.unwrap_or(u64::MAX),
            last_begin: write.begun,
            reads: 0,
        };
        by_value.insert(write.value, zone);
    }
    for read in operations.iter().filter(|it| it.act == Act::Read) {
        let Some(end) = read.ended else { continue };
        let Some(zone) = by_value.get_mut(&read.value) else {
            return Some(Violation::NeverWritten(**read));
        };
        if end < zone.write_begun {
            return Some(Violation::ReadAhead(**read));
        }
        zone.reads += 1;
        zone.first_end = zone.first_end.min(end);
        zone.last_begin = zone.last_begin.max(read.begun);
    }
    // What no client has seen, and no answer has told of, need not have happened.
    let happened = |it: &Zone| it.reads > 0 || it.first_end < u64::MAX;
    judge(register, by_value.into_values().filter(happened).collect())
}

fn judge(register: u32, zones: Vec<Zone>) -> Option<Violation> {
    let (mut forward, backward): (Vec<_>, Vec<_>) =
        zones.into_iter().partition(|it| it.first_end < it.last_begin);
    forward.sort_unstable_by_key(|it| it.first_end);
    for pair in forward.windows(2) {
        if let [one, two] = pair
            && two.first_end < one.last_begin
        {
            return Some(Violation::Overlap { register, one: one.value, two: two.value });
        }
    }
    // They do not overlap, so at most one of them begins last before another zone does.
    for inner in backward {
        let (begin, end) = (inner.last_begin, inner.first_end);
        let at = forward.partition_point(|it| it.first_end < begin);
        let outer = at.checked_sub(1).and_then(|at| forward.get(at));
        if let Some(outer) = outer.filter(|outer| end < outer.last_begin) {
            let (inner, outer) = (inner.value, outer.value);
            return Some(Violation::Within { register, inner, outer });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(act: Act, value: u64, begun: u64, ended: u64) -> Operation {
        Operation { register: 1, act, value, begun, ended: Some(ended) }
    }

    fn read(value: u64, begun: u64, ended: u64) -> Operation {
        of(Act::Read, value, begun, ended)
    }

    fn write(value: u64, begun: u64, ended: u64) -> Operation {
        of(Act::Write, value, begun, ended)
    }

    #[test]
    fn histories_that_are_linear_pass() {
        let lost = Operation { ended: None, ..write(9, 3, 0) };
        for history in [
            vec![],
            vec![read(FIRST, 1, 2)],
            vec![write(1, 1, 4), read(FIRST, 2, 3), read(1, 5, 6)],
            // A write may have happened at any moment while it ran.
            vec![write(1, 1, 9), read(1, 2, 3), read(1, 4, 5)],
            // Two writes at once, in either order.
            vec![write(1, 1, 5), write(2, 1, 5), read(1, 6, 7)],
            vec![write(1, 1, 5), write(2, 1, 5), read(2, 2, 3), read(1, 6, 7)],
            // What was not answered may be seen or not.
            vec![lost, read(FIRST, 4, 5), read(9, 6, 7)],
            vec![lost, read(FIRST, 100, 200)],
            // Another register.
            vec![write(1, 1, 2), Operation { register: 2, ..read(FIRST, 3, 4) }],
        ] {
            assert_eq!(check(&history), None, "{history:?}");
        }
    }

    #[test]
    fn histories_that_are_not_are_found() {
        let lost = Operation { ended: None, ..write(9, 3, 0) };
        for history in [
            vec![read(7, 1, 2)],
            vec![read(1, 1, 2), write(1, 3, 4)],
            // Older than the request.
            vec![write(1, 1, 2), read(FIRST, 3, 4)],
            vec![write(1, 1, 2), write(2, 3, 4), read(1, 5, 6)],
            // Back and forth.
            vec![write(1, 1, 9), read(1, 2, 3), read(FIRST, 4, 5)],
            vec![write(1, 1, 9), write(2, 1, 9), read(1, 2, 3), read(2, 4, 5), read(1, 6, 7)],
            // It came and went while the other value was there.
            vec![write(1, 1, 2), read(1, 3, 4), write(2, 5, 6), read(1, 7, 8)],
            vec![lost, read(9, 4, 5), read(FIRST, 6, 7)],
        ] {
            assert!(check(&history).is_some(), "{history:?}");
        }
    }

    /// What a store between clients and a register gets wrong.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fault {
        Nothing,
        /// A read gets the result of a run of the same read that had begun when it came.
        JoinsWhatHasBegun,
        /// A read gets what was read some moments ago.
        Caches,
        /// A read gets another register's value.
        Mixes,
        /// A write is answered before it happens.
        AnswersEarly,
    }

    /// The history of clients that read and write two registers through a store, at random.
    fn history(seed: u64, fault: Fault) -> Vec<Operation> {
        let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = move |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let (mut history, mut stored, mut cached) = (Vec::new(), [FIRST; 2], [FIRST; 2]);
        // Clients: what they do, since when, and when and with what their run has begun.
        let mut clients: Vec<Option<(Operation, Option<u64>)>> = vec![None; 8];
        for now in 1..3_000_u64 {
            let at = below(8) as usize;
            let register = below(2) as usize;
            match clients[at] {
                None => {
                    let act = if below(3) == 0 { Act::Write } else { Act::Read };
                    let value = if act == Act::Write { now } else { FIRST };
                    let ended = None;
                    let it = Operation { register: register as u32, act, value, begun: now, ended };
                    let joins = |other: &Option<(Operation, Option<u64>)>| {
                        let (other, found) = (*other)?;
                        found.filter(|_| other.act == act && other.register == it.register)
                    };
                    let joined = clients.iter().find_map(joins);
                    let found =
                        joined.filter(|_| fault == Fault::JoinsWhatHasBegun && act == Act::Read);
                    if fault == Fault::AnswersEarly && act == Act::Write && below(2) == 0 {
                        history.push(Operation { ended: Some(now), ..it });
                    }
                    clients[at] = Some((it, found));
                }
                Some((it, None)) => {
                    let from = it.register as usize;
                    let found = match it.act {
                        Act::Write => it.value,
                        Act::Read if fault == Fault::Mixes && below(50) == 0 => stored[1 - from],
                        Act::Read if fault == Fault::Caches && below(2) == 0 => cached[from],
                        Act::Read => stored[from],
                    };
                    if it.act == Act::Write {
                        stored[from] = it.value;
                    }
                    if below(8) == 0 {
                        cached[from] = stored[from];
                    }
                    clients[at] = Some((it, Some(found)));
                }
                Some((it, Some(value))) => {
                    let is_told = history.iter().any(|other: &Operation| {
                        it.act == Act::Write && other.act == Act::Write && other.value == it.value
                    });
                    if !is_told {
                        history.push(Operation { value, ended: Some(now), ..it });
                    }
                    clients[at] = None;
                }
            }
        }
        history.extend(clients.iter().flatten().map(|(it, _)| *it));
        history
    }

    #[test]
    fn planted_faults_are_found() {
        for seed in 1..=40 {
            assert_eq!(check(&history(seed, Fault::Nothing)), None, "seed {seed}");
        }
        for fault in [Fault::JoinsWhatHasBegun, Fault::Caches, Fault::Mixes, Fault::AnswersEarly] {
            let found = (1..=40).filter(|seed| check(&history(*seed, fault)).is_some()).count();
            assert!(found >= 36, "{fault:?} is found with {found} of 40 seeds");
        }
    }
}
