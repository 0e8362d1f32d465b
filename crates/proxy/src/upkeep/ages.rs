//! What has an age: clients that are idle or do not read, backends that no client uses.
//!
//! Looks at them when the worker's clock says so; what an end means for a client is said where it is ended. What a
//! class or a user may have limits of its own for is in [`crate::road::time_limits`].

use std::rc::Rc;
use std::time::{Duration, Instant};

use engine::session::setup::Purpose;

use crate::fault::{Fault, Kind};
use crate::road::ending;
use crate::road::kill;
use crate::road::time_limits;
use crate::session::rights;
use crate::session::supply;
use crate::state::client::Client;
use crate::state::client_state::ClientState;
use crate::state::worker::Worker;
use crate::worker::steps::step;
use crate::worker::wreckage;

/// Ends clients that are too old. Ten thousand waiting clients are not looked at each second: only when a client that
/// was seen can be too old, or one that has come, or turned, since then.
pub(crate) fn expire_clients(worker: &Rc<Worker>) {
    let now = crate::worker::clock::now();
    if now < worker.upkeep.due.clients.get() && !worker.is_stopping() {
        return;
    }
    let limits = &worker.plan().limits;
    let times = worker.time_limits();
    let shortest = times.shortest().into_iter().chain(worker.features.ruled.shortest_time()).min();
    let all = [limits.write_stall, limits.upload, limits.idle_client, shortest];
    let mut next = all.into_iter().flatten().min().unwrap_or(LOOK_MAX);
    let (mut old, mut passed) = (Vec::new(), Vec::new());
    for client in worker.clients.borrow().values() {
        if shortest.is_some()
            && let Some((left, limit)) = time_limits::due(&times, client, now)
        {
            if left.is_zero() {
                passed.push((Rc::clone(client), limit));
            }
            next = next.min(left);
        }
        match end_of(worker, client, now) {
            None => {}
            Some((Duration::ZERO, end)) => old.push((Rc::clone(client), end)),
            Some((left, _)) => next = next.min(left),
        }
    }
    worker.upkeep.due.clients.set(now + next.min(LOOK_MAX));
    for (client, limit) in passed {
        let backend = client.backend().map(|backend| backend.id);
        wreckage::contain(client.id, backend, || {
            step!("age");
            time_limits::pass(worker, &client, limit, now);
        });
    }
    for (client, end) in old {
        match end {
            End::Unread => {
                tracing::info!(client = client.id, "ended: it does not read its reply");
                client.abort();
            }
            End::Upload => expire_upload(worker, &client),
            End::Stop => ending::stop_client(worker, &client),
            End::Idle => {
                let message = "The client was disconnected by Flifo because of inactivity \
                    (limits.idle_client)";
                ending::end_client(worker, &client, &Fault::new(Kind::Idle, message));
            }
        }
    }
}

/// What a client may do for so long only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It leaves a reply unread.
    Unread,
    /// It sends a command, or a file, too slowly.
    Upload,
    /// It asks nothing.
    Idle,
    /// It is connected while Flifo stops.
    Stop,
}

/// In how long what a client does now must end, if ever.
pub(crate) fn end_of(worker: &Worker, client: &Client, now: Instant) -> Option<(Duration, End)> {
    let limits = &worker.plan().limits;
    let left = |age, max: Option<Duration>, end| max.map(|max| (max.saturating_sub(age), end));
    if client.is_draining() {
        return left(client.stalled_for(now), limits.write_stall, End::Unread);
    }
    let progress = client.progress();
    let age = now.saturating_duration_since(client.times.changed.get());
    let usual = match client.state() {
        ClientState::Reading | ClientState::AwaitingMemory if worker.is_stopping() => {
            Some((Duration::ZERO, End::Stop))
        }
        ClientState::Reading => {
            // One that sends is not idle.
            let age = progress.map_or(age, |progress| age.min(progress.age(now)));
            left(age, limits.idle_client, End::Idle)
        }
        ClientState::Queued
        | ClientState::Stranded
        | ClientState::Preparing
        | ClientState::ChangingUser
        | ClientState::Running
        | ClientState::Sharing
        | ClientState::AwaitingMemory
        | ClientState::Writing
        | ClientState::Departing
        | ClientState::Leaving => None,
    };
    let upload = progress.and_then(|it| left(it.age(now), limits.upload, End::Upload));
    usual.into_iter().chain(upload).min_by_key(|(left, _)| *left)
}

/// A client without limits is looked at nevertheless, now and then.
pub(crate) const LOOK_MAX: Duration = Duration::from_mins(1);

/// A command does not come to its end in time.
pub(crate) fn expire_upload(worker: &Rc<Worker>, client: &Rc<Client>) {
    let max = worker.plan().limits.upload.unwrap_or_default();
    tracing::info!(client = client.id, "ended: it sends its command too slowly");
    let message = format!(
        "Got timeout reading communication packets: Flifo ended this connection, because less than \
         1 MiB of a command, or of a file, came within {:.1} s (limits.upload)",
        max.as_secs_f64()
    );
    ending::cut_off(worker, client, &Fault::new(Kind::UploadTooSlow, message));
}

/// How long a backend is idle in a process that another one has taken over from.
const IDLE_BEHIND: Duration = Duration::from_secs(1);

pub(crate) fn expire_backends(worker: &Rc<Worker>) {
    let now = crate::worker::clock::now();
    let mut idle_max = worker.plan().limits.idle_backend;
    if worker.shared.is_departing() {
        // The Flifo that has taken over has more clients for them, within the same bounds.
        idle_max = Some(idle_max.map_or(IDLE_BEHIND, |age| age.min(IDLE_BEHIND)));
    }
    if let Some(age) = idle_max {
        worker.locals().for_each(|local| supply::close_idle_for(worker, local, age));
    }
    rights::close_stale(worker);
    // A statement whose client is gone was killed; a server that does not even end it then loses the backend. A reset
    // for which a client waits takes as long as the server needs to undo what was done.
    for backend in worker.backends.borrow().values() {
        let orphaned = backend.in_flight.borrow().front().is_some_and(|flight| {
            let undoes = matches!(flight.purpose, Purpose::Reset(_));
            let is_awaited = flight.client.is_some() || undoes && backend.holder.borrow().is_some();
            !is_awaited && now - flight.since >= kill::PATIENCE
        });
        if orphaned {
            backend.close();
        }
    }
}

impl Client {
    /// Ends the client without waiting for it to take what was written.
    pub(crate) fn abort(&self) {
        self.drop_outbox();
        self.close();
    }
}
