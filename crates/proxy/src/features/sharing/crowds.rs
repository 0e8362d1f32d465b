//! Reads that wait although slots are free, because equal ones run and take long: one run answers all of them.
//!
//! Owns the look before the gate ([`enter`]) and the way back to the queue. What is counted, and for how long a crowd
//! waits, is `engine::sharing::Crowds`'. A client of a crowd waits as a follower does, for a run that has not begun; when
//! its crowd goes back, it waits again as a stray does ([`crate::upkeep::cut_out`]), and there the first run of its
//! group gathers the others. Invariants: a run is counted from before it is sent until its command is over, in whatever
//! way; a client joins no crowd whose run could not be its own.

use std::rc::Rc;

use crate::features::sharing;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::doing::Doing;
use crate::state::shared_run::{CountedRun, Sharing};
use crate::state::worker::Worker;

/// A read comes to the gate. `None`: it waits for equal ones that run.
#[inline]
pub(crate) fn enter(
    worker: &Worker,
    client: &Rc<Client>,
    command: Box<Command>,
    packet: &[u8],
) -> Option<Box<Command>> {
    match command.facts.read {
        Some(kind) if !worker.features.sharing.crowds.borrow().is_short(kind) => {
            enter_long(worker, client, command, packet)
        }
        _ => Some(command),
    }
}

/// The same of a statement that takes long, or of which that is not known.
fn enter_long(
    worker: &Worker,
    client: &Rc<Client>,
    mut command: Box<Command>,
    packet: &[u8],
) -> Option<Box<Command>> {
    let is_alone = matches!(command.sharing, Sharing::Alone) && !client.input.is_part();
    if !is_alone || !sharing::is_on(worker, client, &command) {
        return Some(command);
    }
    command.packet = worker.spare.buffers.keep(packet);
    let Some(hash) = sharing::hash(worker, client, &command) else {
        worker.spare.buffers.forget(std::mem::take(&mut command.packet));
        return Some(command);
    };
    let is_full = worker.features.sharing.crowds.borrow().is_full(hash);
    if is_full && sharing::may_share(worker, client, &command) {
        let (now, number) = (crate::worker::clock::now(), || worker.features.sharing.next_number());
        let joined = worker.features.sharing.crowds.borrow_mut().join(hash, client.id, now, number);
        if let Some(number) = joined {
            command.sharing = Sharing::Follows(number);
            client.become_state(Doing::Sharing { command });
            worker.counters.crowded.add(1);
            return None;
        }
    }
    worker.spare.buffers.forget(std::mem::take(&mut command.packet));
    count(worker, &mut command, hash);
    Some(command)
}

/// Counts the run of a statement that is about to begin, if it may take long.
pub(crate) fn count(worker: &Worker, command: &mut Command, hash: u64) {
    let Some(kind) = command.facts.read else { return };
    if worker.features.sharing.crowds.borrow().is_short(kind) {
        return;
    }
    command.counted = Some(CountedRun::begin(&worker.features.sharing, hash, kind));
}

/// Crowds that have waited for long go back to the queue, while those that they wait for run on.
pub(crate) fn look(worker: &Worker) {
    loop {
        let (now, most) = (crate::worker::clock::now(), worker.plan().limits.wait);
        let crowd = worker.features.sharing.crowds.borrow_mut().overdue(now, most);
        match crowd {
            Some(crowd) => worker.features.sharing.release(crowd),
            None => return,
        }
    }
}
