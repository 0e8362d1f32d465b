//! Commands that wait in the queue longer than they may: nothing of them has reached the server.

use std::rc::Rc;
use std::time::Duration;

use engine::gate::Refusal;

use crate::answers::answer;
use crate::cluster::facts::Standing;
use crate::fault::{Fault, Kind};
use crate::state::command::Command;
use crate::state::local::Local;
use crate::state::worker::Worker;

/// Refuses commands that have waited too long. Nothing of them has reached the server.
pub(crate) fn expire(worker: &Rc<Worker>) {
    worker.locals().for_each(|local| expire_at(worker, local));
    let Some(max) = worker.plan().limits.wait else { return };
    while let Some((client, claimed, room)) = worker.memory.expire(crate::worker::clock::now(), max)
    {
        let client = worker.clients.borrow().get(&client).cloned();
        let Some(client) = client else { continue };
        let message = format!(
            "Flifo did not run this statement: it is long, and waited {:.1} s (limits.wait) for memory, of which \
             others that are coming have {} of {} MiB. It is safe to try again",
            max.as_secs_f64(),
            claimed >> 20,
            room >> 20,
        );
        answer::refuse_and_close(worker, &client, &Fault::new(Kind::WaitedTooLong, message));
    }
}

fn expire_at(worker: &Rc<Worker>, local: &Local) {
    let wait_max = match local.server.facts.standing() {
        Standing::Maintenance => Some(Duration::ZERO),
        _ => worker.plan().limits.wait,
    };
    loop {
        let now = crate::worker::clock::now();
        let late = local.gate.borrow_mut().expire_waiter(now, wait_max);
        let Some((client, refusal)) = late else { return };
        let fault = not_run(local, &refusal, client.command().as_deref());
        answer::refuse_held(worker, &client, &fault);
    }
}

/// What a client is told that is not served.
pub(crate) fn not_run(local: &Local, refusal: &Refusal, command: Option<&Command>) -> Fault {
    let sent = command.and_then(|it| it.rare.as_ref()?.ruled.as_ref()?.sender());
    let by = sent.map_or_else(String::new, |ready| {
        let (rule, server) = (&ready.rule.name, &local.server.name);
        format!(", which the rule {rule:?} sends to the server {server:?}")
    });
    let (server, holders) = (&local.server, local.lock_holders.borrow());
    let holders = match (refusal.behind, holders.as_str()) {
        (0, _) => String::new(),
        (_, "") => " (SHOW BLOCKERS on the console names the holder)".to_owned(),
        (_, holders) => format!(" ({holders})"),
    };
    let (slots, backends) = (&server.slots, &server.backends);
    let standing = server.facts.standing();
    let why = match standing {
        Standing::Up => "",
        _ => ", by an order on Flifo's console",
    };
    let message = format!(
        "Flifo did not run this statement{by}: {refusal}{holders}; the server is {}{why}; \
         {} of {} slots and {} of {} backend connections in use. It is safe to try again",
        standing.name(),
        slots.held(),
        slots.limit(),
        backends.held(),
        backends.limit(),
    );
    Fault::new(Kind::WaitedTooLong, message)
}
