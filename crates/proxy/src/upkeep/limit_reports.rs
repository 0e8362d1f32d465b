//! `server.limit = "auto"`: the workers tell what they have counted, and the first one sets the limit.
//!
//! Owns how often that is done; the controller is in [`crate::cluster::auto_limit`], and decides. Nothing here is on
//! the road of a statement.

use std::rc::Rc;
use std::time::Duration;

use engine::limit::LimitTotals;

use crate::cluster::auto_limit::{self, Steer};
use crate::cluster::servers::Server;
use crate::state::local::Local;
use crate::state::shared::Mail;
use crate::state::worker::Worker;

/// How often the workers tell, and the limit is looked at; and how often while nothing moves.
pub(crate) const BEAT: Duration = Duration::from_millis(20);
pub(crate) const SLOW_BEAT: Duration = Duration::from_millis(200);

/// Tells what this worker has counted; the first worker then sets the limit. Says whether anything has moved, or waits.
pub(crate) fn beat(worker: &Rc<Worker>) -> bool {
    let mut moves = false;
    for local in worker.locals() {
        moves |= beat_at(worker, local);
    }
    moves
}

fn beat_at(worker: &Rc<Worker>, local: &Local) -> bool {
    let server = &local.server;
    if server.limit_by_file().is_some() {
        return false;
    }
    let steer = &server.steer;
    let gate = local.gate.borrow();
    let told = (gate.totals(), gate.wants_slot(crate::worker::clock::now()));
    drop(gate);
    let before = std::mem::replace(&mut *auto_limit::lock(&steer.seen[worker.index]), told);
    if worker.index == 0 {
        set(worker, server, steer);
    }
    told.1 || before.0 != told.0
}

fn set(worker: &Rc<Worker>, server: &Server, steer: &Steer) {
    let (seen, is_waiting) = steer
        .seen
        .iter()
        .map(|seen| *auto_limit::lock(seen))
        .fold((LimitTotals::default(), false), |all, one| (all.0.plus(one.0), all.1 || one.1));
    let line = is_waiting.then(|| server.slots.held());
    let mut auto = auto_limit::lock(&steer.auto);
    let before = auto.trace().last().map(|it| it.at);
    auto.tick(auto_limit::now(), seen, line);
    if let Some(step) = auto.trace().last().filter(|it| Some(it.at) != before) {
        tracing::debug!(
            why = ?step.why,
            centre = step.centre,
            limit = step.limit,
            rate = step.rate,
            estimate = ?step.estimate,
            server = server.name,
            "limit"
        );
    }
    drop(auto);
    if server.wanted_limit() != server.slots.limit() {
        server.settle_limit(|other| worker.shared.mail(other, Mail::SlotFree(server.id)));
        worker.agenda.look_at(server.id);
    }
}
