//! Clients that were to get the reply to another client's run, and do not: each has its own statement, of which nothing
//! has reached a server, and waits again.
//!
//! They were in the queue before, so they go to its head, in their order; where several servers can be read from, the
//! choice is made anew. If the run did not come to its end, or its leader does not read, they may share again: each
//! time at least one client less waits. If the reply was not fit to be shared, its kind is not shared for a while.

use std::rc::Rc;

use engine::sharing::CutOut;

use crate::dispatch::admit;
use crate::dispatch::client::Client;
use crate::dispatch::clusters;
use crate::dispatch::shared_reads;
use crate::dispatch::shared_run::{Sharing, Stray};
use crate::dispatch::states::ClientState;
use crate::dispatch::worker::Worker;

/// Sends strays back to the queue.
pub(crate) async fn run(worker: Rc<Worker>) {
    loop {
        let strays = worker.sharing.await_strays().await;
        // Each goes to the head.
        for stray in strays.iter().rev() {
            if let Some(client) = shared_reads::follower(&worker, stray.client, stray.run) {
                go_back(&worker, &client, stray);
            }
        }
        admit::work_off(&worker);
    }
}

fn go_back(worker: &Rc<Worker>, client: &Rc<Client>, stray: &Stray) {
    worker.counters.cut_out[stray.why as usize].add(1);
    let Some(mut command) = client.take_command() else { return };
    command.sharing = Sharing::Alone;
    let now = crate::worker::clock::now();
    if let Some(digest) = command.facts.read.filter(|_| stray.why != CutOut::Again) {
        worker.sharing.kinds.borrow_mut().rest(digest, now);
    }
    client.change_state(ClientState::Queued);
    let is_routed = worker.shared.cluster.routes(clusters::of(client, &command)).is_some()
        || command.cache().is_some();
    let (Some(key), false) = (client.key.get(), is_routed) else {
        return admit::enter_held(worker, client, command, false);
    };
    let (server, ask) = (client.server.get(), client.ask(&command));
    client.keep_command(command);
    let mut gate = worker.at(server).gate.borrow_mut();
    client.waiting.set(Some(gate.wait_again(key, Rc::clone(client), ask, now)));
    drop(gate);
    shared_reads::join(worker, client);
    worker.agenda.look_at(server);
}
