//! What clients are told when a reply cannot end as it should: their backend was lost, or must not be used any more.

use std::rc::Rc;

use engine::session::setup::Purpose;
use engine::session::{Loss, LossVerdict, Reached};
use wire::frame::HEADER;
use wire::response::ErrPacket;

use crate::answers::answer;
use crate::answers::diagnostics;
use crate::answers::interrupted;
use crate::answers::lost_transaction;
use crate::answers::notes;
use crate::cluster::servers::ServerId;
use crate::fault::{Fault, Kind};
use crate::features::cached::written;
use crate::pool::keys::KeyId;
use crate::routing::freshness;
use crate::routing::route;
use crate::session::backend_reset;
use crate::session::pipeline;
use crate::session::rights;
use crate::session::supply;
use crate::state::backend::{Backend, SetDown};
use crate::state::client::Client;
use crate::state::client_state::ClientState;
use crate::state::command::Awaits;
use crate::state::fate::Life;
use crate::state::in_flight::InFlight;
use crate::state::shared::Mail;
use crate::state::worker::Worker;
use crate::worker::counters::Why;
use crate::worker::steps::step;

/// The backend is gone: the clients whose statements ran on it are told, and its place is free.
pub(crate) fn end(worker: &Rc<Worker>, backend: &Rc<Backend>) {
    step!("lost");
    backend_reset::forget(worker, backend);
    backend.set_down.set(SetDown::No);
    let (mut flights, local) = (backend.in_flight.take(), worker.at(backend.server));
    if worker.features.caches.is_on() {
        written::lose(worker, backend, flights.iter_mut());
    }
    let holder = backend.holder.take();
    if let Some(client) = &holder {
        worker.leave_queue(client);
    }
    give_back_place(worker, backend.server, backend.key.get(), backend.id);
    let (mut unanswered, mut elsewhere, mut told) = (Vec::new(), Vec::new(), None);
    if let Some(members) = worker.shared.cluster.routes_at(backend.server)
        && !flights.is_empty()
    {
        members.suspect(backend.server, "a backend connection was lost");
        if !members.is_usable(backend.server) {
            // Else the next in the queue would be lost as well.
            route::leave_queue(worker, local);
        }
    }
    for mut flight in flights {
        rights::see_lost(worker, backend, &flight);
        match flight.client.clone() {
            // What was to be undone is gone with the backend.
            Some(client) if matches!(flight.purpose, Purpose::Reset(_)) => {
                worker.shared.mail(worker.index, Mail::Resume(client.id));
            }
            Some(_) if !flight.slot => unanswered.extend(flight.give_up()),
            // What was to be killed is not begun anew elsewhere.
            Some(client)
                if !interrupted::is_passed(&client)
                    && route::may_go_elsewhere(worker, backend, &flight) =>
            {
                let command = flight.give_up().map(|(_, command)| command);
                elsewhere.extend(command.or_else(|| client.take_command()).map(|it| (client, it)));
            }
            Some(client) if flight.purpose.is_probe() => {
                told = Some(client.id);
                lose_probe(worker, &client, backend, &mut flight);
            }
            Some(client) => {
                told = Some(client.id);
                local.traffic.lost.add(1);
                tell_lost(worker, &client, backend, &mut flight);
            }
            None => give_up_asking(worker, &flight),
        }
    }
    worker.agenda.leave_slot(backend.server, backend.slot.take());
    pipeline::send_again(worker, unanswered, Why::Lost);
    if let Some(client) = holder {
        client.backend.take();
        if told != Some(client.id) {
            let_go_on(worker, &client, backend);
        }
    }
    worker.backends.borrow_mut().remove(&backend.id);
    for (client, command) in elsewhere {
        route::go_elsewhere(worker, &client, command, backend.server);
    }
    worker.agenda.look_at(backend.server);
}

/// A backend is gone, and its place is free: the server's, and its user's.
pub(crate) fn give_back_place(worker: &Worker, server: ServerId, key: Option<KeyId>, backend: u64) {
    let Some(key) = key else { return };
    supply::give_back_place(worker, key);
    let other = worker.at(server).gate.borrow_mut().closed(key, |other| other.id == backend);
    if let Some(other) = other {
        worker.shared.mail(other, Mail::BackendFree(server));
    }
}

/// Whether the server answers that it ends the connection: with its end (`ER_SERVER_SHUTDOWN`), by an order
/// (`ER_CONNECTION_KILLED`), or since nothing came for long (`ER_CLIENT_INTERACTION_TIMEOUT`). What the answer was to
/// has failed with the backend; the client's own connection goes on, and must not be told that it ends.
pub(crate) fn is_farewell(backend: &Backend, packet: &[u8]) -> bool {
    let error = packet.get(HEADER..).map(ErrPacket::decode);
    backend.key.get().is_some()
        && matches!(error, Some(Ok(error)) if FAREWELLS.contains(&error.code))
}

const FAREWELLS: [u16; 3] = [1053, 1927, 4031];

/// Tells a client that its statement's backend was lost, if it can still be told, and what became of the statement. It
/// goes on, unless the backend had what cannot be had again.
fn tell_lost(worker: &Rc<Worker>, client: &Rc<Client>, backend: &Backend, flight: &mut InFlight) {
    let mut command = flight.command.take().or_else(|| client.take_command()).unwrap_or_default();
    let was_sent = flight.purpose.is_clients() || client.state() != ClientState::Preparing;
    let reached = match was_sent {
        false => Reached::Nothing,
        true if backend.fate.life.get() == Life::Farewell => Reached::Farewell,
        true => Reached::Server,
    };
    let session = client.session.borrow();
    let is_login = matches!(flight.purpose, Purpose::LoginSchema(..));
    let was_open = session.in_transaction();
    // That its statement has taken too long does not tell a client that its transaction is gone.
    let passed = interrupted::lost(worker, client);
    let is_told_of_all = passed.is_none() || !was_open;
    let can_go_on =
        client.is_pooled() && session.loss() != Loss::State && !is_login && is_told_of_all;
    let verdict = match can_go_on {
        true => session.verdict(command.facts.ends, reached),
        false => LossVerdict::Unknown,
    };
    drop(session);
    client.backend.take();
    if can_go_on {
        let mut session = client.session.borrow_mut();
        session.leave_lost_backend();
        if matches!(flight.purpose, Purpose::Prepare(_)) {
            session.statements.forget_last();
        }
        drop(session);
        client.rekey();
    }
    let is_counted = passed.is_some();
    let fault = match (passed, verdict) {
        (Some(fault), _) => {
            freshness::note_untold(worker, client, &command, backend.server);
            fault
        }
        (None, LossVerdict::Done) if !flight.is_answered() && !client.input.upload.is_some() => {
            return answer::ok(client, command);
        }
        (None, LossVerdict::Done | LossVerdict::RolledBack) => {
            lost_transaction::fault(worker, backend.server)
        }
        (None, LossVerdict::Unknown) => {
            freshness::note_untold(worker, client, &command, backend.server);
            let fault = may_have_run(worker, backend, was_open);
            answer::log_untold(client, &fault);
            fault
        }
    };
    if let Some(noted) = command.noted.take() {
        notes::see_fault(worker, client, *noted, &fault);
    }
    if !is_counted {
        worker.count_fault(fault.kind);
    }
    if client.is_pooled() {
        diagnostics::keep_fault(worker, client, command.facts.diagnostics, &fault);
        client.session.borrow_mut().counts.answer(-1);
    }
    worker.spare.buffers.forget(command.end());
    end_reply(client, backend, flight, &fault);
    if !can_go_on {
        let why = match (is_login, is_told_of_all) {
            (true, _) => "it was logging in",
            (_, false) => "its statement took too long, and its transaction is lost",
            _ => "what it had there cannot be had again",
        };
        end_client(worker, client, backend, why);
    }
}

/// A client has its statement's whole reply, and what the server was asked behind it has no answer.
fn lose_probe(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    backend: &Rc<Backend>,
    flight: &mut InFlight,
) {
    let command = flight.command.take().unwrap_or_default();
    worker.counters.statements.add(1);
    route::note_end(worker, client, &command, backend);
    // Some servers are asked behind all rows; see [`crate::road::unreported`]. What sets something by its own words has
    // pinned its client, or was asked about by a probe of another kind.
    let has_set = !matches!(flight.purpose, Purpose::Unreported)
        || command.facts.calls
        || command.facts.sets.is_some();
    worker.spare.buffers.forget(command.end());
    client.backend.take();
    if has_set {
        return end_client(worker, client, backend, "what its last statement has set is not known");
    }
    let_go_on(worker, client, backend);
    if !client.is_closing() {
        client.await_command();
    }
}

/// Ends a client that cannot go on without the backend that was lost.
fn end_client(worker: &Worker, client: &Client, backend: &Backend, why: &str) {
    let (server, user) = (&worker.at(backend.server).server.name, client.user.borrow().to_string());
    let pin = client.session.borrow().pin();
    tracing::info!(
        client = client.id,
        user,
        server,
        ?pin,
        why,
        "a client ends with its backend connection"
    );
    client.close();
}

fn may_have_run(worker: &Worker, backend: &Backend, was_open: bool) -> Fault {
    let transaction = match was_open {
        true => {
            ", and the transaction that was open has ended: it is not known whether it was \
             committed"
        }
        false => "",
    };
    let message = format!(
        "Flifo lost its backend connection to the server at {} before the answer ended. The \
         statement may have been executed{transaction}",
        worker.at(backend.server).server.address
    );
    Fault::new(Kind::BackendLost, message)
}

/// A client had the backend, and nothing of its ran there. It goes on, unless the backend had what cannot be had again.
fn let_go_on(worker: &Rc<Worker>, client: &Rc<Client>, backend: &Backend) {
    let loss = client.session.borrow().loss();
    if !client.is_pooled() || loss == Loss::State {
        return end_client(worker, client, backend, "what it had there cannot be had again");
    }
    client.session.borrow_mut().lose_backend();
    client.rekey();
    let waits = match client.state() {
        ClientState::Queued | ClientState::Stranded => true,
        ClientState::Preparing => client.awaits().is_some_and(Awaits::reads_again),
        ClientState::Reading
        | ClientState::AwaitingMemory
        | ClientState::ChangingUser
        | ClientState::Running
        | ClientState::Sharing
        | ClientState::Writing
        | ClientState::Departing
        | ClientState::Leaving => false,
    };
    if waits {
        // Its command is read again as if it came now.
        client.await_backend();
        worker.shared.mail(worker.index, Mail::Resume(client.id));
    }
}

/// A client that waits for an answer that will not come goes on without it.
fn give_up_asking(worker: &Worker, flight: &InFlight) {
    if let Purpose::Found { finder, .. } = flight.purpose {
        worker.shared.mail(worker.index, Mail::Resume(finder));
    }
}

/// Ends a backend in the middle of what it does, for a reason that its client is told in the reply's place.
pub(crate) fn cut_off(backend: &Backend, fault: &Fault) {
    for flight in backend.in_flight.borrow_mut().iter_mut() {
        if let Some(client) = flight.client.take() {
            end_reply(&client, backend, flight, fault);
            client.close();
        }
    }
    backend.close();
}

/// The statement behind a setup that has failed is not what its client meant: it gets this instead of the reply.
pub(crate) fn spoil(worker: &Rc<Worker>, backend: &Rc<Backend>, fault: &Fault) {
    let mut flights = backend.in_flight.borrow_mut();
    let Some(flight) = flights.iter_mut().find(|flight| flight.client.is_some()) else { return };
    let Some(client) = flight.client.take() else { return };
    backend.holder.take();
    client.backend.take();
    worker.count_fault(fault.kind);
    end_reply(&client, backend, flight, fault);
    drop(flights);
    if client.session.borrow().holds_backend() {
        // What it had on the backend, it has no more.
        client.close();
    }
}

/// Ends a reply with an error, unless its client is in the middle of a packet.
fn end_reply(client: &Client, backend: &Backend, flight: &InFlight, fault: &Fault) {
    let started = flight.purpose.is_clients() && flight.follower.has_begun();
    if started && !flight.follower.is_between_packets() {
        // In the middle of a packet nothing can be said.
        return client.close();
    }
    let first = client.take_sequence();
    let sequence = match flight.farewell {
        Some(sequence) => sequence,
        None if started => flight.follower.next_sequence(),
        None => first,
    };
    let unsent = backend.bytes.unread.take();
    drop(unsent);
    let was_uploading = client.input.upload.take().is_some();
    client.take_command();
    client.write_last(&fault.packet(sequence));
    if was_uploading {
        // The rest of what it uploads would be taken for commands.
        client.close();
    }
}
