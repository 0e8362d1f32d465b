//! Programs of a crowd: clients that ask the same at once, among writers; for a Flifo that shares reads.
//!
//! A program is made of rounds. Each client does something of its own; when all have, the writers hold the backends for
//! a moment and then write, and meanwhile the whole crowd asks the same. Here only the order is made up; what they say is
//! `kinds::crowd`'s.

use super::generate::{Random, Shape, plan};
use super::kinds::crowd::{AROUND, ASKED, BEFORE, BEHIND, COUNTED, EXECUTED, SETUP, WRITTEN};
use super::program::{Abilities, Pace, Plan, Program};
use super::script::Script;

/// The first clients of a program: one for each backend at least.
const WRITERS: usize = 3;

/// Holds a backend until the crowd has asked.
const HOLD: &str = "SELECT SLEEP(0.01)";

/// The slot of what the crowd has prepared.
const SLOT: u8 = 1;

/// Makes the program of a seed: so many clients ask, and others write.
pub(super) fn generate(seed: u64, shape: Shape) -> Program {
    let mut random = Random::new(seed);
    let count = WRITERS + shape.clients;
    let abilities = Abilities { no_eof: random.once_in(2), ..Abilities::default() };
    let are_alike = !random.once_in(3);
    let plan = |number| match are_alike {
        true => Plan { user: 0, in_schema: false, abilities },
        false => Plan { user: number % 5 / 4, ..plan(&mut random, number) },
    };
    let clients: Vec<_> = (0..count).map(plan).collect();
    let mut crowd = Crowd(Script { random, count, steps: Vec::with_capacity(shape.steps) });
    crowd.begin();
    while crowd.0.steps.len() < shape.steps {
        crowd.round();
    }
    let title = vec![format!("Made from seed {seed}: a crowd.")];
    Program { title, only: Some(shape.brand), pace: Pace::Rush, clients, steps: crowd.0.steps }
}

/// What a crowd asks in one round.
enum Asked {
    Query(String),
    /// The text is prepared before; the parameters are each client's.
    Executed {
        text: &'static str,
        values: &'static [&'static str],
    },
}

/// Its clients are the writers and those that ask.
struct Crowd(Script);

impl Crowd {
    fn begin(&mut self) {
        self.0.say(0, ":connect");
        SETUP.iter().for_each(|text| self.0.say(0, text));
        // Whatever it kept its backend for.
        self.0.say(0, ":quit ;; :connect");
        for client in 0..self.0.count {
            if client > 0 {
                self.0.say(client, ":connect");
            }
            // Behind the first client's steps so far.
            self.0.say(client, "SELECT {id:0} > 0 AS begun");
            self.0.say(client, "USE dcrowd");
        }
    }

    fn round(&mut self) {
        let asked = match self.0.random.once_in(3) {
            false => {
                let kind = self.0.random.pick(ASKED);
                Asked::Query(self.0.fill(0, kind))
            }
            true => {
                let (text, values) = EXECUTED[self.0.random.below(EXECUTED.len())];
                Asked::Executed { text, values }
            }
        };
        for client in WRITERS..self.0.count {
            if self.0.random.once_in(4) {
                let kind = self.0.random.pick(BEFORE);
                self.0.say(client, kind);
            }
            if let Asked::Executed { text, .. } = &asked {
                // What was prepared before must go even if this is refused: in another schema, it keeps its backend.
                self.0.say(client, &format!(":close {SLOT} ;; :prepare {SLOT} {text}"));
            }
        }
        self.0.await_all("");
        (0..WRITERS).for_each(|writer| self.0.say(writer, HOLD));
        for client in self.0.order(1) {
            match client < WRITERS {
                true => {
                    let kind = self.0.random.pick(WRITTEN);
                    self.0.say(client, kind);
                }
                false => self.ask(client, &asked),
            }
        }
    }

    /// One of the crowd asks, and perhaps what is known of the answer.
    fn ask(&mut self, client: usize, asked: &Asked) {
        let ask = match asked {
            Asked::Query(text) => text.clone(),
            Asked::Executed { values, .. } => {
                format!(":execute {SLOT} {}", self.0.random.pick(values))
            }
        };
        let is_around = self.0.random.once_in(8);
        match is_around {
            true => {
                let kind = self.0.random.pick(AROUND).replace("{ask}", &ask);
                self.0.say(client, &kind);
            }
            false => self.0.say(client, &ask),
        }
        if matches!(asked, Asked::Executed { .. }) && self.0.random.once_in(4) {
            self.0.say(client, &format!(":close {SLOT}"));
        }
        let is_counted = !is_around && COUNTED.iter().any(|words| ask.starts_with(words));
        match self.0.random.below(6) {
            0 if is_counted => self.0.say(client, "SELECT FOUND_ROWS()"),
            1 | 2 => {
                let kind = self.0.random.pick(BEHIND);
                self.0.say(client, kind);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differ::generate::Asks;
    use crate::differ::script::tests::{check_kinds, check_seeds};

    #[test]
    fn a_seed_makes_one_program_in_which_many_ask_the_same() {
        check_seeds(generate, Asks::AtOnce, 8 + WRITERS, |text| {
            text.lines().filter(|line| line.ends_with("AS together")).count() > 10
        });
    }

    #[test]
    fn every_step_of_every_kind_can_be_read() {
        let mut crowd = Crowd(Script { random: Random::new(1), count: 4, steps: Vec::new() });
        check_kinds(&mut crowd.0, &[BEFORE, AROUND, BEHIND, WRITTEN]);
        for (text, values) in EXECUTED {
            for values in *values {
                crowd.ask(3, &Asked::Executed { text, values: std::slice::from_ref(values) });
            }
        }
    }
}
