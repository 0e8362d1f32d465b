//! What has an age: clients that are idle or do not read, statements that run too long, links that nobody uses.
//!
//! Looks at them when the worker's clock says so; what an end means for a client is said where it is ended.

use std::rc::Rc;
use std::time::{Duration, Instant};

use engine::kill::Scope;

use crate::fault::{Fault, Kind};
use crate::links::Purpose;
use crate::links::supply;
use crate::road::client::{Client, Turn};
use crate::road::kill;
use crate::road::losses;
use crate::servers::Local;
use crate::worker::Worker;

/// Ends those who are too old. Ten thousand who wait are not looked at each second: only when one of those that were
/// seen can be too old, or one that has come, or turned, since then.
pub(super) fn expire_clients(worker: &Rc<Worker>) {
    let now = crate::clock::now();
    if now < worker.clients_due.get() && !worker.is_stopping() {
        return;
    }
    let limits = &worker.plan.limits;
    let all = [limits.write_stall, limits.idle_client, limits.statement];
    let mut next = all.into_iter().flatten().min().unwrap_or(LOOK_MAX);
    let mut old = Vec::new();
    for client in worker.clients.borrow().values() {
        let (age, max) = age(worker, client, now);
        match max.map(|max| max.saturating_sub(age)) {
            None => {}
            Some(Duration::ZERO) => old.push(Rc::clone(client)),
            Some(left) => next = next.min(left),
        }
    }
    worker.clients_due.set(now + next.min(LOOK_MAX));
    for client in old {
        if client.is_draining() {
            tracing::info!(client = client.id, "ended: it does not read its reply");
            client.abort();
        } else if client.turn.get() == Turn::Server {
            expire_statement(worker, &client);
        } else if worker.is_stopping() {
            stop_client(worker, &client);
        } else {
            let message = "The client was disconnected by Flifo because of inactivity \
                (limits.idle_client)";
            end_client(worker, &client, &Fault::new(Kind::Idle, message));
        }
    }
}

/// For how long a client has done what it does, and for how long it may.
fn age(worker: &Worker, client: &Client, now: Instant) -> (Duration, Option<Duration>) {
    let limits = &worker.plan.limits;
    if client.is_draining() {
        return (client.stalled_for(now), limits.write_stall);
    }
    let max = match client.turn.get() {
        Turn::Client if worker.is_stopping() => Some(Duration::ZERO),
        Turn::Client => limits.idle_client,
        Turn::Server => limits.statement,
        Turn::Line | Turn::Preparation => None,
    };
    (now.saturating_duration_since(client.turned.get()), max)
}

/// Who has no limits is looked at nevertheless, now and then.
const LOOK_MAX: Duration = Duration::from_mins(1);

/// A statement runs too long: it is killed where Flifo knows how to log in, else its link is closed.
fn expire_statement(worker: &Rc<Worker>, client: &Rc<Client>) {
    worker.count_fault(Kind::StatementTooLong);
    let Some(link) = client.link() else { return };
    tracing::info!(client = client.id, "killed: the statement ran longer than limits.statement");
    client.turned.set(crate::clock::now());
    if link.key.get().is_some() {
        kill::kill_on(worker, &link, Scope::Query);
    } else {
        let fault = Fault::new(
            Kind::StatementTooLong,
            "Flifo ended this connection: its statement ran longer than limits.statement",
        );
        losses::cut_off(worker, &link, &fault);
    }
}

pub(super) fn stop_client(worker: &Worker, client: &Client) {
    if client.turn.get() == Turn::Client && !client.session.borrow().in_transaction() {
        end_client(worker, client, &Fault::new(Kind::Stopping, "Flifo is stopping"));
    }
}

/// Ends a client whose turn it is, telling why: once, though its task may not have run since it was told.
fn end_client(worker: &Worker, client: &Client, fault: &Fault) {
    if client.is_closing() {
        return;
    }
    worker.count_fault(fault.kind);
    client.write(&fault.packet(0));
    client.close();
}

/// Closes the links that have been idle for so long.
pub(crate) fn close_idle_for(worker: &Worker, local: &Local, age: Duration) {
    let now = crate::clock::now();
    loop {
        let idle = local.gate.borrow_mut().expire_link(now, age);
        match idle {
            Some(link) => supply::retire(worker, &link),
            None => break,
        }
    }
}

pub(super) fn expire_links(worker: &Rc<Worker>) {
    let now = crate::clock::now();
    if let Some(age) = worker.plan.limits.idle_link {
        worker.servers.iter().for_each(|local| close_idle_for(worker, local, age));
    }
    // A statement whose client is gone was killed; a server that does not even end it then loses the link.
    for link in worker.links.borrow().values() {
        let orphaned = link.flights.borrow().front().is_some_and(|flight| {
            let is_unheard = flight.client.is_none() || matches!(flight.purpose, Purpose::Reset(_));
            is_unheard && now - flight.since >= kill::PATIENCE
        });
        if orphaned {
            link.close();
        }
    }
}

impl Client {
    /// Ends the client without waiting for it to take what was written.
    fn abort(&self) {
        self.drop_outbox();
        self.close();
    }
}
