//! A program in the making, of clients that wait for each other ([`super::crowd`], [`super::again`]).
//!
//! Owns its steps, and how clients are told what to do: by kinds, whose steps stand between ` ;; `, with braces for what is
//! drawn by chance.

use super::generate::{Random, bytes, draw, fill};
use super::program::{Action, Step};
use super::text::parse_action;

pub(super) struct Script {
    pub(super) random: Random,
    /// Clients.
    pub(super) count: usize,
    pub(super) steps: Vec<Step>,
}

impl Script {
    /// All clients, so many times each, in an order of chance.
    pub(super) fn order(&mut self, times: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.count * times).map(|it| it % self.count).collect();
        for at in (1..order.len()).rev() {
            let other = self.random.below(at + 1);
            order.swap(at, other);
        }
        order
    }

    /// What comes now comes after all that was said before. `also`: something that is true in the end.
    pub(super) fn await_all(&mut self, also: &str) {
        let mut all: Vec<_> =
            (1..self.count).map(|client| format!("{{id:{client}}} > 0")).collect();
        all.extend((!also.is_empty()).then(|| also.to_owned()));
        self.say(0, &format!("SELECT {} AS together", all.join(" AND ")));
    }

    /// Has a client take the steps of a kind.
    pub(super) fn say(&mut self, client: usize, kind: &str) {
        for step in kind.split(" ;; ") {
            let step = self.fill(client, step);
            let action = match step.strip_prefix(':') {
                Some(action) => parse_action(action.trim_end()),
                None => Some(Action::Query(bytes(&step))),
            };
            self.steps.extend(action.map(|action| Step { client, action }));
        }
    }

    pub(super) fn fill(&mut self, client: usize, text: &str) -> String {
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
pub(super) mod tests {
    use super::*;
    use crate::differ::generate::{Asks, Shape};
    use crate::differ::program::{Brand, Program};
    use crate::differ::text::{parse, print};

    /// Each seed makes one program, which can be written and read, and has these clients; what it is as a text is judged.
    pub(in crate::differ) fn check_seeds(
        generate: fn(u64, Shape) -> Program,
        asks: Asks,
        clients: usize,
        is_good: impl Fn(&str) -> bool,
    ) {
        let shape = Shape { brand: Brand::MariaDb, clients: 8, steps: 500, all: false, asks };
        for seed in 0..20 {
            let program = generate(seed, shape);
            assert_eq!(generate(seed, shape), program);
            assert_eq!(parse(&print(&program)).unwrap(), program, "seed {seed}");
            assert_eq!(program.clients.len(), clients);
            let text = print(&program);
            assert!(is_good(&text) && !text.contains("{ask}") && !text.contains("{n}"), "{text}");
        }
    }

    /// Each step of these kinds can be read.
    pub(in crate::differ) fn check_kinds(script: &mut Script, kinds: &[&[&str]]) {
        for kind in kinds.iter().copied().flatten() {
            let before = script.steps.len();
            script.say(3, kind);
            assert_eq!(script.steps.len() - before, kind.split(" ;; ").count(), "{kind}");
        }
    }
}
