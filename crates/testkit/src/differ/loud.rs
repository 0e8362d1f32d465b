//! Programs whose clients leave diagnostics, of every kind and length, and then rest: none may keep a backend for them.
//!
//! A program is made of rounds. Each client leaves diagnostics, and asks for them or not; when all have, all rest but
//! one, which asks something. With as many backends as clients rest, or fewer, it gets no answer where one of them keeps a
//! backend. Here only the order is made up; what they say is `kinds::loud`'s.

use super::generate::{Random, Shape, plan};
use super::kinds::loud::{ASKED, BEGUN, LEFT};
use super::program::{Pace, Program};
use super::script::Script;

/// Makes the program of a seed.
pub(super) fn generate(seed: u64, shape: Shape) -> Program {
    let mut random = Random::new(seed);
    let pace = if random.once_in(3) { Pace::Rush } else { Pace::Turns };
    let count = shape.clients;
    let clients: Vec<_> = (0..count)
        .map(|number| super::program::Plan { in_schema: true, ..plan(&mut random, number) })
        .collect();
    let mut script = Script { random, count, steps: Vec::with_capacity(shape.steps) };
    for client in 0..count {
        script.say(client, ":connect");
        script.say(client, BEGUN);
    }
    while script.steps.len() < shape.steps {
        round(&mut script);
    }
    let title = vec![format!("Made from seed {seed}: clients that leave diagnostics, and rest.")];
    Program { title, only: Some(shape.brand), pace, clients, steps: script.steps }
}

fn round(script: &mut Script) {
    for client in script.order(2) {
        let kinds = if script.random.once_in(2) { LEFT } else { ASKED };
        let kind = script.random.pick(kinds);
        script.say(client, kind);
    }
    // The last thing that a client has done is as likely to leave something as not.
    let asks = script.random.below(script.count);
    let others = (0..script.count).filter(|client| *client != asks);
    let others: Vec<_> = others.map(|client| format!("{{id:{client}}} > 0")).collect();
    script.say(asks, &format!("SELECT {} AS others_rest", others.join(" AND ")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differ::generate::Asks;
    use crate::differ::script::tests::{check_kinds, check_seeds};

    #[test]
    fn a_seed_makes_one_program_in_which_all_but_one_rest_now_and_then() {
        check_seeds(generate, Asks::Loudly, 8, |text| {
            text.lines().filter(|line| line.ends_with("AS others_rest")).count() > 5
        });
    }

    #[test]
    fn every_step_of_every_kind_can_be_read() {
        let mut script = Script { random: Random::new(1), count: 4, steps: Vec::new() };
        check_kinds(&mut script, &[&[BEGUN], LEFT, ASKED]);
    }
}
