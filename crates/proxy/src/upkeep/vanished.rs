//! Peers that have vanished: their machines say nothing any more, and end no connection.
//!
//! Connections at rest are probed by the kernel (`backend::dial::Probes`). Here are those on which something was sent,
//! which the kernel would send again for a quarter of an hour; and those of the only server while checks have no answer
//! from it. Of several servers, [`crate::routing::route::abandon`] closes them all. Which of them have vanished is decided by
//! [`engine::silence`].

use std::rc::Rc;
use std::time::{Duration, Instant};

use backend::Stream;
use engine::silence::{self, Heard, Quiet};

use crate::cluster::post::{Machine, SilentServer};
use crate::config::CheckKind;
use crate::state::client::Client;
use crate::state::worker::Worker;
use crate::worker::steps::step;

/// Ends the clients and backends whose peers have vanished. The kernel is asked only about those that have done nothing
/// for long, and about clients that hold nothing only for a while.
pub(crate) fn look(worker: &Rc<Worker>) {
    let now = crate::worker::clock::now();
    if now < worker.upkeep.due.vanished.get() {
        return;
    }
    step!("vanished");
    let plan = worker.plan();
    let [of_clients, of_servers] = [plan.limits.client_silence, plan.limits.server_silence];
    let shortest = of_clients.into_iter().chain(of_servers).min();
    let period = shortest.map_or(PERIOD_MAX, |it| (it / LOOKS).clamp(PERIOD_MIN, PERIOD_MAX));
    worker.upkeep.due.vanished.set(now + period);
    if let Some(max) = of_clients {
        end_clients(worker, max, period, now);
    }
    if let Some(max) = of_servers {
        end_backends(worker, max, now);
    }
}

/// So often within the silence that is allowed.
const LOOKS: u32 = 8;
const PERIOD_MIN: Duration = Duration::from_secs(1);
const PERIOD_MAX: Duration = Duration::from_mins(1);

fn end_clients(worker: &Worker, max: Duration, period: Duration, now: Instant) {
    let has_vanished = |client: &&Rc<Client>| {
        let age = now.saturating_duration_since(client.times.changed.get());
        let is_looked_at = age < max + 2 * period || client.backend.borrow().is_some();
        let is_here = !client.is_closing() || client.is_draining();
        age >= max && is_looked_at && is_here && has_vanished(&client.stream, max)
    };
    let gone: Vec<_> = worker.clients.borrow().values().filter(has_vanished).cloned().collect();
    for client in gone {
        tracing::info!(
            client = client.id,
            "ended: its machine says nothing any more (limits.client_silence)"
        );
        client.abort();
    }
}

fn end_backends(worker: &Worker, max: Duration, now: Instant) {
    for backend in worker.backends.borrow().values() {
        let since = backend.in_flight.borrow().front().map(|flight| flight.since);
        let is_old = since.is_some_and(|since| now.saturating_duration_since(since) >= max);
        if is_old && !backend.is_closing() && has_vanished(&backend.stream, max) {
            tracing::warn!(
                server = %worker.at(backend.server).server.address,
                "a backend connection was closed: the server's machine says nothing any more \
                 (limits.server_silence)"
            );
            backend.close();
        }
    }
}

/// Checks have no answer from the only server, which is down since then. If its machine is gone, its connections are
/// closed, as they are with several servers. One that merely answers nothing may stand still for a while: there is no
/// other place to go, so it has as long as a machine may be silent.
pub(crate) fn close_silent(worker: &Rc<Worker>, silent: SilentServer) {
    let (local, plan) = (worker.at(silent.id), worker.plan());
    let (mut known, answered) = (local.quiet.get(), local.traffic.received.get());
    let is_quiet = Quiet::goes_on(&mut known, silent.since, answered);
    local.quiet.set(known);
    let age = crate::worker::clock::now().saturating_duration_since(silent.since);
    let is_over = plan.limits.server_silence.is_some_and(|max| age >= max)
        // A statement of checks may take long by itself.
        && plan.checks.kind != CheckKind::Statement;
    if !is_quiet || silent.machine == Machine::Answers && !is_over {
        return;
    }
    let mut closed = 0;
    for backend in worker.backends.borrow().values().filter(|it| it.server == silent.id) {
        if !backend.is_closing() {
            backend.close();
            closed += 1;
        }
    }
    if closed > 0 {
        let server = &local.server.address;
        tracing::warn!(%server, closed, "backend connections were closed: the only server is silent");
    }
}

fn has_vanished(stream: &Stream, max: Duration) -> bool {
    heard(stream).is_some_and(|heard| silence::has_vanished(&heard, max))
}

/// What the kernel has heard of a peer; `None`: it is a process of this machine.
fn heard(stream: &Stream) -> Option<Heard> {
    let sys::tcp::Heard { last, unacknowledged, repeats, probes } =
        sys::tcp::heard(stream.as_fd()?).ok()?;
    Some(Heard { last, unacknowledged, repeats, probes })
}
