//! Programs whose clients ask the same again and again, among writers; for a Flifo that keeps replies.
//!
//! A program is made of rounds with a few questions each. First the writers write, and meanwhile the others ask: what
//! they read is anything that was true in between, and is not judged, but it may be kept. When all have done, they ask
//! again, and each answer is judged; writers do only what no other client may see. Now and then the first writer alone
//! changes a definition, or writes what cannot be read. Here only the order is made up; what they say is `kinds::again`'s.

use super::generate::{Random, Shape};
use super::kinds::again::{ALONE, ASKED, BEFORE, BEHIND, DEFINED, EXECUTED, QUIET, WRITTEN};
use super::program::{Abilities, Pace, Plan, Program};
use super::script::Script;

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
    let mut again = Again(Script { random, count, steps: Vec::with_capacity(shape.steps) });
    again.begin();
    let mut round = 0;
    while again.0.steps.len() < shape.steps {
        again.round(round);
        round += 1;
    }
    let title = vec![format!("Made from seed {seed}: the same again and again.")];
    Program { title, only: Some(shape.brand), pace: Pace::Rush, clients, steps: again.0.steps }
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

/// Its clients are the writers and those that ask.
struct Again(Script);

impl Again {
    fn begin(&mut self) {
        for client in 0..self.0.count {
            self.0.say(client, ":connect ;; USE dkept");
        }
    }

    fn round(&mut self, number: usize) {
        let questions = self.questions();
        self.prepare(&questions);
        self.0.await_all("");
        self.write(&questions);
        self.0.await_all("");
        self.ask_all(&questions);
        if number > 1 && self.0.random.once_in(4) {
            self.0.await_all("");
            let kind = self.0.random.pick(DEFINED);
            self.say_around(0, kind, &questions);
            // Whatever it keeps its backend for.
            self.0.say(0, ":quit ;; :connect ;; USE dkept");
            let settles = if self.0.random.once_in(2) { SETTLES } else { "" };
            self.0.await_all(settles);
            self.ask_all(&questions);
        }
        self.0.await_all("");
    }

    /// The first one is asked as a text.
    fn questions(&mut self) -> Vec<Question> {
        (0..QUESTIONS)
            .map(|at| match at > 0 && self.0.random.once_in(3) {
                false => {
                    let kind = self.0.random.pick(ASKED);
                    Question::Query(self.0.fill(0, kind))
                }
                true => {
                    let (text, values) = EXECUTED[self.0.random.below(EXECUTED.len())];
                    Question::Executed { text, values }
                }
            })
            .collect()
    }

    /// What clients do before they are asked.
    fn prepare(&mut self, questions: &[Question]) {
        for client in WRITERS..self.0.count {
            if self.0.random.once_in(6) {
                let kind = self.0.random.pick(BEFORE);
                self.0.say(client, kind);
            }
            for (slot, question) in questions.iter().enumerate() {
                if let Question::Executed { text, .. } = question {
                    self.0.say(client, &format!(":prepare {slot} {text}"));
                }
            }
        }
    }

    /// Writers write, and others ask meanwhile.
    fn write(&mut self, questions: &[Question]) {
        for client in self.0.order(2) {
            match client < WRITERS {
                true => {
                    let kinds =
                        if client == 0 && self.0.random.once_in(2) { ALONE } else { WRITTEN };
                    let kind = self.0.random.pick(kinds);
                    self.0.say(client, kind);
                }
                false => {
                    let question = &questions[self.0.random.below(questions.len())];
                    if let Question::Query(text) = question {
                        self.0.say(client, &format!(":unjudged {text}"));
                    }
                }
            }
        }
    }

    /// All ask, and what they are answered is judged.
    fn ask_all(&mut self, questions: &[Question]) {
        for client in self.0.order(3) {
            match client < WRITERS {
                true if self.0.random.once_in(3) => {
                    let kind = self.0.random.pick(QUIET);
                    self.say_around(client, kind, questions);
                }
                true => {}
                false => self.ask(client, questions),
            }
        }
    }

    fn ask(&mut self, client: usize, questions: &[Question]) {
        let at = self.0.random.below(questions.len());
        match &questions[at] {
            Question::Query(text) => self.0.say(client, text),
            Question::Executed { values, .. } => {
                let values = self.0.random.pick(values);
                self.0.say(client, &format!(":execute {at} {values}"));
            }
        }
        if self.0.random.once_in(10) {
            let kind = self.0.random.pick(BEHIND);
            self.0.say(client, kind);
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
        let text = self.0.random.pick(&texts);
        self.0.say(client, &kind.replace("{ask}", text));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differ::generate::Asks;
    use crate::differ::script::tests::{check_kinds, check_seeds};

    #[test]
    fn a_seed_makes_one_program_in_which_the_same_comes_again() {
        check_seeds(generate, Asks::Again, 8 + WRITERS, |text| {
            let count = |word: &str| text.lines().filter(|line| line.contains(word)).count();
            count("AS together") > 8 && count("unjudged") > 20
        });
    }

    #[test]
    fn every_step_of_every_kind_can_be_read() {
        let mut again = Again(Script { random: Random::new(1), count: 4, steps: Vec::new() });
        check_kinds(&mut again.0, &[BEFORE, WRITTEN, ALONE, DEFINED, QUIET, BEHIND]);
        for (text, values) in EXECUTED {
            for values in *values {
                let values = std::slice::from_ref(values);
                let before = again.0.steps.len();
                again.ask(3, &[Question::Executed { text, values }]);
                assert!(again.0.steps.len() > before, "{text} {values:?}");
            }
        }
    }
}
