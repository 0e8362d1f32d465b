//! Clients that were to get the reply to another client's run, and do not: each has its own statement, of which nothing
//! has reached a server, and waits again.
//!
//! They were in the queue before, so they go to its head, in their order. Where several servers can be read from, or the
//! reply may be kept, they enter anew, in their order too; clients of a crowd, which have waited for no more than a run,
//! stay together. If the run did not come to its end, or its leader does not read, they may share again: each time at
//! least one client less waits. If the reply was not fit to be shared, its kind is not shared for a while.

use std::rc::Rc;

use engine::sharing::CutOut;

use crate::features::sharing;
use crate::road::admit;
use crate::routing::clusters;
use crate::routing::route;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::doing::Doing;
use crate::state::shared_run::{Sharing, Stray, WaitsAgain};
use crate::state::worker::Worker;

/// Sends strays back to the queue.
pub(crate) async fn run(worker: Rc<Worker>) {
    loop {
        let strays = worker.features.sharing.await_strays().await;
        let mut anew = Vec::new();
        // Each goes to the head.
        for stray in strays.iter().rev() {
            if let Some(client) = sharing::follower(&worker, stray.client, stray.run)
                && let Some(command) = go_back(&worker, &client, stray)
            {
                anew.push((client, command));
            }
        }
        for (client, command) in anew.into_iter().rev() {
            admit::enter_held(&worker, &client, command, false);
        }
        admit::work_off(&worker);
    }
}

/// Has a client wait again. The answer is a command that enters anew.
fn go_back(worker: &Rc<Worker>, client: &Rc<Client>, stray: &Stray) -> Option<Box<Command>> {
    let mut command = client.take_command()?;
    command.sharing = Sharing::Alone;
    command.set_runs(false);
    let now = crate::worker::clock::now();
    if let WaitsAgain::CutOut(why) = stray.why {
        worker.counters.cut_out[why as usize].add(1);
        if let Some(digest) = command.facts.read.filter(|_| why != CutOut::Again) {
            worker.features.sharing.kinds.borrow_mut().rest(digest, now);
        }
    }
    let members = worker.shared.cluster.routes(clusters::of(client, &command));
    let may_stay = |members| {
        let server = client.routing.server.get();
        stray.why == WaitsAgain::Crowd && route::may_read_at(members, client, server)
    };
    let is_routed = members.is_some_and(|members| !may_stay(members)) || command.cache().is_some();
    let (Some(key), false) = (client.key.get(), is_routed) else { return Some(command) };
    let (server, ask) = (client.routing.server.get(), client.ask(&command));
    let mut gate = worker.at(server).gate.borrow_mut();
    let ticket = gate.wait_again(key, Rc::clone(client), ask, now);
    drop(gate);
    client.become_state(Doing::Queued { command, ticket });
    sharing::join(worker, client);
    worker.agenda.look_at(server);
    None
}
