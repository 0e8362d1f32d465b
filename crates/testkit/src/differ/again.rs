//! Programs whose clients ask the same again and again, among writers; for a Flifo that keeps replies.
//!
//! A program is made of rounds with a few questions each. First the writers write, and meanwhile the others ask: what
//! they read is anything that was true in between, and is not judged, but it may be kept. When all have done, they ask
//! again, and each answer is judged; writers do only what no other client may see. Now and then the first writer alone
//! changes a definition, or writes what cannot be read. Here only the order is made up; what they say is `kinds::again`'s.

use super::generate::{Random, Shape, bytes, draw, fill};
use super::kinds::again::{ALONE, ASKED, BEFORE, BEHIND, DEFINED, EXECUTED, QUIET, WRITTEN};
use super::program::{Abilities, Action, Pace, Plan, Program, Step};
use super::text::parse_action;

/// The first clients of a program: one for each backend at least.
pub const WRITERS: usize = 3;

/// Questions of a round.
const QUESTIONS: usize = 3;

/// Replies are not kept for a while behind a definition.
const SETTLES: &str = "SLEEP(1.3) = 0";

/// Makes the program of a seed: so many clients ask, and others write.
pub(super) fn generate(seed: u64, shape: Shape) -> Program {
    let mut random = Random::new(seed);
    let count = WRITERS + shape.clients;
    let (no_eof, is_mixed) = (random.once_in(2), random.once_in(3));
    let clients = (0..count).map(|number| plan(&mut random, number, no_eof, is_mixed)).collect();
    let mut again = Again { random, count, steps: Vec::with_capacity(shape.steps) };
    again.begin();
    let mut round = 0;
    while again.steps.len() < shape.steps {
        again.round(round);
        round += 1;
    }
    let title = vec![format!("Made from seed {seed}: the same again and again.")];
    Program { title, only: Some(shape.brand), pace: Pace::Rush, clients, steps: again.steps }
}

fn plan(random: &mut Random, number: usize, no_eof: bool, is_mixed: bool) -> Plan {
    let abilities = match is_mixed {
        false => Abilities { no_eof, ..Abilities::default() },
        true => Abilities {
            no_eof: random.once_in(2),
            multi: random.once_in(2),
            found: random.once_in(6),
            ..Abilities::default()
        },
    };
    Plan { user: if is_mixed { number % 5 / 4 } else { 0 }, in_schema: false, abilities }
}

/// A question of a round.
enum Question {
    Query(String),
    /// The text is prepared in the slot of its place.
    Executed {
        text: &'static str,
        values: &'static [&'static str],
    },
}

struct Again {
    random: Random,
    /// Clients, writers among them.
    count: usize,
    steps: Vec<Step>,
}

impl Again {
    fn begin(&mut self) {
        for client in 0..self.count {
            self.say(client, ":connect ;; USE dkept");
        }
    }

    fn round(&mut self, number: usize) {
        let questions = self.questions();
        self.prepare(&questions);
        self.await_all("");
        self.write(&questions);
        self.await_all("");
        self.ask_all(&questions);
        if number > 1 && self.random.once_in(4) {
            self.await_all("");
            let kind = self.random.pick(DEFINED);
            self.say_around(0, kind, &questions);
            // Whatever it keeps its backend for.
            self.say(0, ":quit ;; :connect ;; USE dkept");
            let settles = if self.random.once_in(2) { SETTLES } else { "" };
            self.await_all(settles);
            self.ask_all(&questions);
        }
        self.await_all("");
    }

    /// The first one is asked as a text.
    fn questions(&mut self) -> Vec<Question> {
        (0..QUESTIONS)
            .map(|at| match at > 0 && self.random.once_in(3) {
                false => {
                    let kind = self.random.pick(ASKED);
                    Question::Query(self.fill(0, kind))
                }
                true => {
                    let (text, values) = EXECUTED[self.random.below(EXECUTED.len())];
                    Question::Executed { text, values }
                }
            })
            .collect()
    }

    /// What clients do before they are asked.
    fn prepare(&mut self, questions: &[Question]) {
        for client in WRITERS..self.count {
            if self.random.once_in(6) {
                let kind = self.random.pick(BEFORE);
                self.say(client, kind);
            }
            for (slot, question) in questions.iter().enumerate() {
                if let Question::Executed { text, .. } = question {
                    self.say(client, &format!(":prepare {slot} {text}"));
                }
            }
        }
    }

    /// Writers write, and others ask meanwhile.
    fn write(&mut self, questions: &[Question]) {
        for client in self.order(2) {
            match client < WRITERS {
                true => {
                    let kinds = if client == 0 && self.random.once_in(2) { ALONE } else { WRITTEN };
                    let kind = self.random.pick(kinds);
                    self.say(client, kind);
                }
                false => {
                    let question = &questions[self.random.below(questions.len())];
                    if let Question::Query(text) = question {
                        self.say(client, &format!(":unjudged {text}"));
                    }
                }
            }
        }
    }

    /// All ask, and what they are answered is judged.
    fn ask_all(&mut self, questions: &[Question]) {
        for client in self.order(3) {
            match client < WRITERS {
                true if self.random.once_in(3) => {
                    let kind = self.random.pick(QUIET);
                    self.say_around(client, kind, questions);
                }
                true => {}
                false => self.ask(client, questions),
            }
        }
    }

    fn ask(&mut self, client: usize, questions: &[Question]) {
        let at = self.random.below(questions.len());
        match &questions[at] {
            Question::Query(text) => self.say(client, text),
            Question::Executed { values, .. } => {
                let values = self.random.pick(values);
                self.say(client, &format!(":execute {at} {values}"));
            }
        }
        if self.random.once_in(10) {
            let kind = self.random.pick(BEHIND);
            self.say(client, kind);
        }
    }

    /// Has a client take the steps of a kind that asks a question among them.
    fn say_around(&mut self, client: usize, kind: &str, questions: &[Question]) {
        let texts: Vec<&str> = questions
            .iter()
            .filter_map(|it| match it {
                Question::Query(text) => Some(text.as_str()),
                Question::Executed { .. } => None,
            })
            .collect();
        let text = self.random.pick(&texts);
        self.say(client, &kind.replace("{ask}", text));
    }

    /// All clients, so many times each, in an order of chance.
    fn order(&mut self, times: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.count * times).map(|it| it % self.count).collect();
        for at in (1..order.len()).rev() {
            let other = self.random.below(at + 1);
            order.swap(at, other);
        }
        order
    }

    /// What comes now comes after all that was said before.
    fn await_all(&mut self, also: &str) {
        let mut all: Vec<_> =
            (1..self.count).map(|client| format!("{{id:{client}}} > 0")).collect();
        all.extend((!also.is_empty()).then(|| also.to_owned()));
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
            ("own", _) => (2000 + client).to_string(),
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
        Shape { brand: Brand::MariaDb, clients: 8, steps: 500, all: false, asks: Asks::Again };

    #[test]
    fn a_seed_makes_one_program_in_which_the_same_comes_again() {
        for seed in 0..20 {
            let program = generate(seed, SHAPE);
            assert_eq!(generate(seed, SHAPE), program);
            assert_eq!(parse(&print(&program)).unwrap(), program, "seed {seed}");
            assert_eq!(program.clients.len(), 8 + WRITERS);
            let text = print(&program);
            let count = |word: &str| text.lines().filter(|line| line.contains(word)).count();
            assert!(count("AS together") > 8 && count("unjudged") > 20, "{text}");
            assert!(!text.contains("{ask}") && !text.contains("{n}"), "{text}");
        }
    }

    #[test]
    fn every_step_of_every_kind_can_be_read() {
        let mut again = Again { random: Random::new(1), count: 4, steps: Vec::new() };
        for kind in [BEFORE, WRITTEN, ALONE, DEFINED, QUIET, BEHIND].into_iter().flatten() {
            let before = again.steps.len();
            again.say(3, kind);
            assert_eq!(again.steps.len() - before, kind.split(" ;; ").count(), "{kind}");
        }
        for (text, values) in EXECUTED {
            for values in *values {
                let values = std::slice::from_ref(values);
                let before = again.steps.len();
                again.ask(3, &[Question::Executed { text, values }]);
                assert!(again.steps.len() > before, "{text} {values:?}");
            }
        }
    }
}
