//! Programs of a crowd: clients that ask the same at once, among writers; for a Flifo that shares reads.
//!
//! A program is made of rounds. Each client does something of its own; when all have, the writers hold the backends for
//! a moment and then write, and meanwhile the whole crowd asks the same. Here only the order is made up; what they say is
//! `kinds::crowd`'s.

use super::generate::{Random, Shape, bytes, draw, fill, plan};
use super::kinds::crowd::{AROUND, ASKED, BEFORE, BEHIND, COUNTED, EXECUTED, SETUP, WRITTEN};
use super::program::{Abilities, Action, Pace, Plan, Program, Step};
use super::text::parse_action;

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
    let mut crowd = Crowd { random, count, steps: Vec::with_capacity(shape.steps) };
    crowd.begin();
    while crowd.steps.len() < shape.steps {
        crowd.round();
    }
    let title = vec![format!("Made from seed {seed}: a crowd.")];
    Program { title, only: Some(shape.brand), pace: Pace::Rush, clients, steps: crowd.steps }
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

struct Crowd {
    random: Random,
    /// Clients, writers among them.
    count: usize,
    steps: Vec<Step>,
}

impl Crowd {
    fn begin(&mut self) {
        self.say(0, ":connect");
        SETUP.iter().for_each(|text| self.say(0, text));
        // Whatever it kept its backend for.
        self.say(0, ":quit ;; :connect");
        for client in 0..self.count {
            if client > 0 {
                self.say(client, ":connect");
            }
            // Behind the first client's steps so far.
            self.say(client, "SELECT {id:0} > 0 AS begun");
            self.say(client, "USE dcrowd");
        }
    }

    fn round(&mut self) {
        let asked = match self.random.once_in(3) {
            false => {
                let kind = self.random.pick(ASKED);
                Asked::Query(self.fill(0, kind))
            }
            true => {
                let (text, values) = EXECUTED[self.random.below(EXECUTED.len())];
                Asked::Executed { text, values }
            }
        };
        for client in WRITERS..self.count {
            if self.random.once_in(4) {
                let kind = self.random.pick(BEFORE);
                self.say(client, kind);
            }
            if let Asked::Executed { text, .. } = &asked {
                self.say(client, &format!(":prepare {SLOT} {text}"));
            }
        }
        self.await_all();
        (0..WRITERS).for_each(|writer| self.say(writer, HOLD));
        let mut order: Vec<usize> = (0..self.count).collect();
        for at in (1..order.len()).rev() {
            let other = self.random.below(at + 1);
            order.swap(at, other);
        }
        for client in order {
            match client < WRITERS {
                true => {
                    let kind = self.random.pick(WRITTEN);
                    self.say(client, kind);
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
                format!(":execute {SLOT} {}", self.random.pick(values))
            }
        };
        let is_around = self.random.once_in(8);
        match is_around {
            true => {
                let kind = self.random.pick(AROUND).replace("{ask}", &ask);
                self.say(client, &kind);
            }
            false => self.say(client, &ask),
        }
        if matches!(asked, Asked::Executed { .. }) && self.random.once_in(4) {
            self.say(client, &format!(":close {SLOT}"));
        }
        let is_counted = !is_around && COUNTED.iter().any(|words| ask.starts_with(words));
        match self.random.below(6) {
            0 if is_counted => self.say(client, "SELECT FOUND_ROWS()"),
            1 | 2 => {
                let kind = self.random.pick(BEHIND);
                self.say(client, kind);
            }
            _ => {}
        }
    }

    /// What comes now comes after all that was said before.
    fn await_all(&mut self) {
        let all: Vec<_> = (1..self.count).map(|client| format!("{{id:{client}}} > 0")).collect();
        self.say(0, &format!("SELECT {} AS together", all.join(" AND ")));
    }

    /// Has a client take the steps of a kind.
    fn say(&mut self, client: usize, kind: &str) {
        for step in kind.split(" ;; ") {
            let step = self.fill(client, step);
            let action = match step.strip_prefix(':') {
                Some(action) => parse_action(action.trim_end()),
                None => Some(Action::Query(bytes(&step))),
            };
            self.steps.extend(action.map(|action| Step { client, action }));
        }
    }

    fn fill(&mut self, client: usize, text: &str) -> String {
        let random = &mut self.random;
        fill(text, |inside| match (inside, draw(inside, random)) {
            (_, Some(drawn)) => drawn,
            ("s", _) => super::peer::schema(client),
            ("own", _) => (2000 + client).to_string(),
            ("lock", _) => format!("lock{client}"),
            // For the peer.
            (other, _) => format!("{{{other}}}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differ::generate::Asks;
    use crate::differ::program::Brand;
    use crate::differ::text::{parse, print};

    const SHAPE: Shape =
        Shape { brand: Brand::MariaDb, clients: 8, steps: 500, all: false, asks: Asks::AtOnce };

    #[test]
    fn a_seed_makes_one_program_in_which_many_ask_the_same() {
        for seed in 0..20 {
            let program = generate(seed, SHAPE);
            assert_eq!(generate(seed, SHAPE), program);
            assert_eq!(parse(&print(&program)).unwrap(), program, "seed {seed}");
            assert_eq!(program.clients.len(), 8 + WRITERS);
            let text = print(&program);
            let rounds = text.lines().filter(|line| line.ends_with("AS together")).count();
            assert!(rounds > 10 && !text.contains("{ask}") && !text.contains("{n}"), "{text}");
        }
    }

    #[test]
    fn every_step_of_every_kind_can_be_read() {
        let mut crowd = Crowd { random: Random::new(1), count: 4, steps: Vec::new() };
        for kind in [BEFORE, AROUND, BEHIND, WRITTEN].into_iter().flatten() {
            let before = crowd.steps.len();
            crowd.say(3, kind);
            assert_eq!(crowd.steps.len() - before, kind.split(" ;; ").count(), "{kind}");
        }
        for (text, values) in EXECUTED {
            for values in *values {
                crowd.ask(3, &Asked::Executed { text, values: std::slice::from_ref(values) });
            }
        }
    }
}
