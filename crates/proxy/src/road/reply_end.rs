//! A reply has ended: what its command has left is settled, and what follows is started.
//!
//! How replies are followed while they come is [`crate::road::replies`]', which also writes what is left of them.

use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use engine::intent::Trait;
use engine::session::observe::{self, Behind, End};
use engine::session::setup::Purpose;
use wire::frame::HEADER;

use crate::answers::answer;
use crate::answers::interrupted;
use crate::answers::notes;
use crate::fault::{Fault, Kind};
use crate::features::cached::written;
use crate::features::mirrored;
use crate::features::sharing;
use crate::road::admit;
use crate::road::beginning;
use crate::road::finish;
use crate::road::login_schema;
use crate::road::own_replies;
use crate::road::refused;
use crate::road::unreported;
use crate::routing::freshness;
use crate::session::own_id;
use crate::session::pipeline;
use crate::session::prepared;
use crate::session::schema_gone;
use crate::session::session_setup;
use crate::session::supply;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::in_flight::{AfterReply, InFlight, Settled};
use crate::state::shared::Mail;
use crate::state::shared_run::Sharing;
use crate::state::worker::Worker;
use crate::worker::steps::step;

/// A reply has ended: what follows is started. The answer is what is left to be written. `settled`: of others that get
/// the same reply.
pub(crate) fn finish(
    worker: &Rc<Worker>,
    backend: &Rc<Backend>,
    flight: &mut InFlight,
    (bytes, tail): (&[u8], Range<usize>),
    settled: &mut Vec<Settled>,
) -> Option<Settled> {
    step!("end");
    let took = crate::worker::clock::now() - flight.since;
    if let Some(digest) = flight.read {
        // What leaves diagnostics keeps those behind it waiting, or loses what the backend knows of it.
        let leaves = flight.failed || flight.warnings > 0;
        worker.learnt.pace.borrow_mut().learn(digest, if leaves { Duration::MAX } else { took });
    }
    if let (Some(command), Some(error)) = (&flight.command, flight.error()) {
        written::see_failure(command, error.code);
    }
    if let Some(command) = &flight.command
        && command.facts.alters
        && !written::defined_nothing(worker, command)
    {
        worker.shared.changes.alterations.add();
    }
    let Some(client) = flight.client.clone() else {
        // A flight with a slot was a client's that has left.
        if flight.purpose.is_setup() && !flight.slot {
            own_replies::finish_setup(worker, backend, flight);
        } else if let Purpose::Capture(question) = flight.purpose {
            own_replies::finish_capture(worker, backend, flight, question);
        } else if let Purpose::Reset(step) = flight.purpose {
            own_replies::finish_reset(worker, backend, step, flight);
        } else if !flight.purpose.is_probe() || flight.slot {
            finish_unheard(worker, backend, flight);
        } else {
            if flight.failed {
                unreported::see_failure(worker, backend);
            }
            own_replies::answered(worker, backend);
        }
        return None;
    };
    if let Purpose::Reset(step) = flight.purpose {
        own_replies::finish_reset(worker, backend, step, flight);
        worker.shared.mail(worker.index, Mail::Resume(client.id));
        return None;
    }
    if flight.purpose.is_probe() {
        return Some(own_replies::finish_probe(worker, backend, client, flight));
    }
    if let Some(refused) = flight.refused
        && prepared::retry(worker, &client, backend, flight, refused)
    {
        admit::launch_held(worker, &client, backend);
        return None;
    }
    share(worker, backend, flight, (bytes, &tail), settled);
    match flight.purpose.is_clients() {
        true => Some(finish_clients(worker, backend, client, flight, tail, took)),
        false => {
            finish_preparation(worker, backend, &client, flight);
            None
        }
    }
}

/// Others may get the same reply, or a mirror's is compared with it.
#[inline]
fn share(
    worker: &Rc<Worker>,
    backend: &Backend,
    flight: &mut InFlight,
    (bytes, tail): (&[u8], &Range<usize>),
    settled: &mut Vec<Settled>,
) {
    if worker.features.sharing.is_used()
        && let Some(kind) = flight.command.as_ref().and_then(|command| command.facts.read)
    {
        let took = crate::worker::clock::now() - flight.since;
        let at_once = worker.at(backend.server).server.slots.held();
        worker.features.sharing.crowds.borrow_mut().see(kind, took, at_once);
    }
    if flight.shared().is_none() {
        return;
    }
    let sharing = flight.command.as_mut().map(|command| std::mem::take(&mut command.sharing));
    if let Some(Sharing::Leads(mut run)) = sharing {
        let took = crate::worker::clock::now() - flight.since;
        if let Some(sum) = run.take_sum() {
            mirrored::end(worker, backend, flight, sum, &bytes[tail.clone()], took);
        }
        if !run.is_shared() {
            return;
        }
        sharing::deliver(worker, backend, flight, run, tail, took, settled);
    }
}

/// The reply to a client's own command has ended.
fn finish_clients(
    worker: &Rc<Worker>,
    backend: &Rc<Backend>,
    client: Rc<Client>,
    flight: &mut InFlight,
    tail: Range<usize>,
    took: Duration,
) -> Settled {
    let mut command = flight.command.take().unwrap_or_default();
    let is_login = matches!(flight.purpose, Purpose::LoginSchema(..));
    let waited = worker.learnt.tally.answer(flight, (&client, backend.server), &command, took);
    worker.at(backend.server).traffic.answer(took, waited);
    if let Some(noted) = command.noted.take() {
        notes::see_end(worker, backend, &client, flight, *noted);
    }
    if is_login {
        client.input.login_sequence.set(None);
        match flight.failed {
            true => {
                let error = flight.error();
                let code = error.as_ref().map_or(0, |error| error.code);
                let message = error.map(|error| notes::shown(error.message)).unwrap_or_default();
                notes::see_no_login(worker, &client, code, &message);
            }
            false => notes::see_login(worker, &client),
        }
    }
    if !flight.failed {
        login_schema::learn(worker, &client, &flight.purpose);
    }
    let was_uploading = client.input.upload.take().is_some_and(|upload| !upload.is_done());
    if was_uploading {
        admit::forget_rest(worker, &client, backend);
    }
    if client.is_pooled() {
        see_end(worker, backend, &client, flight, &mut command);
        if flight.failed {
            freshness::note_untold(worker, &client, &command, backend.server);
        }
    }
    let is_over = interrupted::see_end(&client, &command, flight.failed);
    let Some(command) = own_replies::await_probe(worker, backend, &client, flight, command) else {
        return Settled { client, head: None, tail, then: AfterReply::More };
    };
    finish::finish_command(worker, &client, backend, &command, flight.slot);
    if let Some(error) = &flight.failure {
        refused::end_transaction(worker, &client, backend, error);
    }
    // No login, or an answer before the command had come: what follows cannot be understood. Or the server ends
    // the connection, and what came next would meet its end.
    let close =
        if flight.failed { is_login || was_uploading } else { command.facts.has(Trait::Releases) };
    worker.spare.buffers.forget(command.end());
    let then = match is_over {
        Some(over) => AfterReply::Over(over),
        None if close => AfterReply::Close,
        None => AfterReply::AwaitCommand,
    };
    Settled { client, head: None, tail, then }
}

/// A pooled client's command has been answered: what its session and its backend's are now.
fn see_end(
    worker: &Rc<Worker>,
    backend: &Rc<Backend>,
    client: &Rc<Client>,
    flight: &mut InFlight,
    command: &mut Command,
) {
    prepared::see_answered(worker, client, backend, command.facts.in_hand, flight);
    let added = flight.added.take().map(|message| *message);
    let end = End {
        client: client.id,
        is_mysql: worker.is_mysql(client),
        is_statement: matches!(flight.purpose, Purpose::Statement),
        failed: flight.failed,
        rows: flight.follower.rows(),
        warnings: flight.warnings,
        last: flight.last,
        error: if flight.failed { flight.error() } else { None },
        behind: behind(backend),
    };
    let assigns = match &mut command.rare {
        Some(rare) => std::mem::take(&mut rare.assigns),
        None => Vec::new(),
    };
    let pin = observe::end(
        &mut client.session.borrow_mut(),
        &mut backend.session.borrow_mut(),
        &mut command.facts,
        assigns,
        added,
        &end,
    );
    if let Some(pin) = pin {
        worker.pin(client, pin);
    }
}

/// What was sent on the backend behind the command whose reply has ended.
fn behind(backend: &Backend) -> Behind {
    let mut behind = Behind::default();
    for flight in &*backend.in_flight.borrow() {
        behind.reads |= flight.read.is_some();
        behind.asks |= matches!(flight.purpose, Purpose::AskInsertId(_));
    }
    behind
}

/// What a client's backend was told, or asked, before its command, has been answered.
fn finish_preparation(
    worker: &Rc<Worker>,
    backend: &Rc<Backend>,
    client: &Rc<Client>,
    flight: &mut InFlight,
) {
    let is_done = session_setup::is_done(worker, backend, flight);
    if is_done {
        match flight.purpose {
            Purpose::UserVariables => client.session.borrow_mut().variables.are_told(),
            Purpose::Schema(_) => client.session.borrow_mut().see_schema(true),
            Purpose::Number(_) => own_id::go_on(client, backend, flight),
            Purpose::Init(_) | Purpose::InitProbe(_)
                if beginning::see_answer(worker, client, backend, flight) =>
            {
                return;
            }
            Purpose::Mode => {
                backend.session.borrow_mut().see_mode(&mut worker.pool.interned.borrow_mut());
                client.session.borrow_mut().see_settings(&backend.session.borrow());
                if let Some(mut command) = client.command_mut() {
                    command.found.told_mode = true;
                }
            }
            _ => {}
        }
        if flight.failure.is_none() {
            return admit::launch_held(worker, client, backend);
        }
    }
    if schema_gone::goes_on_without(worker, client, backend, flight) {
        return admit::launch_held(worker, client, backend);
    }
    beginning::see_failure(worker, client, backend, flight);
    let command = client.take_command().unwrap_or_default();
    if !is_done {
        prepared::see_answered(worker, client, backend, command.facts.in_hand, flight);
    }
    match flight.failure.take() {
        Some(_) if command.facts.is_long_data() => {
            // No answer is awaited; the execute that follows gets one.
            let is_torn = client.input.upload.take().is_some();
            finish::finish_command(worker, client, backend, &command, flight.slot);
            worker.spare.buffers.forget(command.end());
            client.await_command();
            if is_torn {
                client.close();
            }
        }
        Some(mut packet) => {
            packet[HEADER - 1] = packet[HEADER - 1].wrapping_add(client.take_sequence() - 1);
            client.input.upload.set(None);
            finish::finish_command(worker, client, backend, &command, flight.slot);
            worker.spare.buffers.forget(command.end());
            client.write_last(&packet);
            if !backend.reports {
                // What its session is cannot be had there: a new one can.
                client.close();
            }
        }
        None => {
            let fault = Fault::new(
                Kind::NotAsMeant,
                "Flifo did not run this statement: the server refused to set this session's \
                 variables on the backend connection",
            );
            backend.close();
            finish::finish_command(worker, client, backend, &command, flight.slot);
            answer::refuse(worker, client, command, &fault);
        }
    }
}

/// A reply has ended that no client waits for.
fn finish_unheard(worker: &Rc<Worker>, backend: &Rc<Backend>, flight: &InFlight) {
    let Some(key) = backend.key.get().filter(|_| flight.read.is_some()) else {
        // Its client left while it ran. What the backend's session is like is not known.
        if flight.slot {
            worker.agenda.leave_slot(backend.server, backend.slot.take());
        }
        return backend.close();
    };
    // Its slot, unless it ran behind a client that keeps the backend.
    if flight.slot && !pipeline::promote(worker, backend) {
        let slot = backend.slot.take();
        supply::return_to_pool(worker, key, backend);
        worker.agenda.leave_slot(backend.server, slot);
    }
}
