//! Commands that wait for their turn longer than they may: nothing of them has reached the server.

use std::rc::Rc;
use std::time::Duration;

use engine::gate::Refusal;

use crate::fault::{Fault, Kind};
use crate::road::admit;
use crate::server::Standing;
use crate::servers::{Local, Server};
use crate::worker::Worker;

/// Refuses those who have waited too long. Nothing of their statements has reached the server.
pub(crate) fn expire(worker: &Rc<Worker>) {
    worker.servers.iter().for_each(|local| expire_at(worker, local));
}

fn expire_at(worker: &Rc<Worker>, local: &Local) {
    let wait_max = match local.server.facts.standing() {
        Standing::Maintenance => Some(Duration::ZERO),
        _ => worker.plan.limits.wait,
    };
    loop {
        let now = crate::clock::now();
        let late = local.gate.borrow_mut().expire_waiter(now, wait_max);
        let Some((client, refusal)) = late else { return };
        let fault = not_run(&local.server, &refusal);
        admit::refuse_held(worker, &client, &fault);
    }
}

/// What a client is told that is not served.
pub(crate) fn not_run(server: &Server, refusal: &Refusal) -> Fault {
    let (slots, links) = (&server.slots, &server.links);
    let standing = server.facts.standing();
    let why = match standing {
        Standing::Up => "",
        _ => ", by an order on Flifo's console",
    };
    let message = format!(
        "Flifo did not run this statement: {refusal}; the server is {}{why}; \
         {} of {} slots and {} of {} links in use. It is safe to try again",
        standing.name(),
        slots.held(),
        slots.limit(),
        links.held(),
        links.limit(),
    );
    Fault::new(Kind::WaitedTooLong, message)
}
