//! The road's second half: replies are followed, learnt from, and written to the clients they belong to.
//!
//! A backend that has become free is refilled from the waiting line *before* the finished reply is written to its
//! client, so that the server has its next statement already while the last one's client is being served.

use std::io;
use std::ops::Range;
use std::rc::Rc;

use engine::marks::Marks;
use engine::session::observe::{self};
use engine::session::setup::Purpose;
use engine::trackers::Listen;
use wire::frame::{HEADER, put_packet};
use wire::passage::{Passage, Until};
use wire::reply::{Kind as Packet, Step};
use wire::response::{EOF, EofPacket, ErrPacket, OkPacket, Status};

use crate::answers::diagnostics;
use crate::answers::interrupted;
use crate::answers::ok_rewrite;
use crate::fault::Kind;
use crate::features::ruled::passed;
use crate::road::admit;
use crate::road::lost_backend;
use crate::road::pipelining;
use crate::road::refused;
use crate::road::reply_end;
use crate::road::time_limits;
use crate::road::unreported;
use crate::session::backend_reset;
use crate::session::capture;
use crate::session::passed_types;
use crate::session::prepared;
use crate::session::questions;
use crate::session::rights;
use crate::state::backend::{Backend, Taint};
use crate::state::client::Client;
use crate::state::fate::Life;
use crate::state::in_flight::{AfterReply, InFlight, Settled};
use crate::state::worker::Worker;
use crate::worker::buffers::BUFFER;
use crate::worker::steps::step;

/// Reads what the server has sent and follows it. False ends the backend.
pub(crate) fn read(worker: &Rc<Worker>, backend: &Rc<Backend>) -> bool {
    step!("reply");
    let unread = backend.bytes.unread.take();
    let mut buffer = worker.spare.buffers.take(unread.len() + BUFFER / 2);
    buffer[..unread.len()].copy_from_slice(&unread);
    crate::worker::clock::tick();
    backend.cork();
    let mut settled = worker.spare.settled.take();
    let lives = match backend.stream.try_read(&mut buffer[unread.len()..]) {
        Ok(0) => false,
        Ok(read) => {
            worker.counters.bytes_out.add(read as u64);
            let traffic = &worker.at(backend.server).traffic;
            traffic.received.add(read as u64);
            traffic.sent.add(backend.bytes.sent.take());
            follow(worker, backend, &mut buffer[..unread.len() + read], &mut settled)
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            *backend.bytes.unread.borrow_mut() = unread;
            true
        }
        Err(_) => false,
    };
    // The next statements go out before the clients of these are served.
    admit::work_off(worker);
    if lives {
        pipelining::refill(worker, backend);
    }
    backend.uncork();
    step!("settled");
    for Settled { client, head, tail, then } in settled.drain(..) {
        if let Some(head) = head {
            client.write_shared(&head);
        }
        if then == AfterReply::More {
            client.write(&buffer[tail]);
            continue;
        }
        client.write_last(&buffer[tail]);
        match then {
            AfterReply::Close => client.close(),
            AfterReply::Over(limit) => time_limits::end_behind(worker, &client, limit),
            AfterReply::AwaitCommand | AfterReply::More => {}
        }
    }
    worker.spare.settled.replace(settled);
    worker.spare.buffers.give(buffer);
    if lives && backend.is_held_up() {
        admit::hold_up(worker, backend);
    }
    lives
}

fn follow(
    worker: &Rc<Worker>,
    backend: &Rc<Backend>,
    bytes: &mut [u8],
    settled: &mut Vec<Settled>,
) -> bool {
    let mut len = bytes.len();
    // Bytes before `from` are done with; bytes before `at` have been followed.
    let (mut from, mut at) = (0, 0);
    while at < len {
        let mut flights = backend.in_flight.borrow_mut();
        let Some(flight) = flights.front_mut() else {
            drop(flights);
            return out_of_turn(backend, &bytes[at..len]);
        };
        match flight.follower.advance(&mut bytes[..len], at) {
            Ok(Step::More { from: to }) => {
                questions::listen(flight, &bytes[from..to]);
                flight.copy(&bytes[from..to]);
                let client = flight.listener();
                drop(flights);
                if let Some(client) = client {
                    client.write(&bytes[from..to]);
                }
                *backend.bytes.unread.borrow_mut() = bytes[to..len].to_vec();
                return true;
            }
            Ok(Step::Packet { kind: Packet::Err, start, end })
                if lost_backend::is_farewell(backend, &bytes[start..end]) =>
            {
                flight.farewell = bytes.get(start + HEADER - 1).copied();
                let client = flight.listener();
                drop(flights);
                return part(backend, client.as_deref(), &bytes[from..start]);
            }
            Ok(Step::Packet { kind, start, end }) => {
                let new_end =
                    see_packet(worker, backend, flight, kind, bytes, (&mut from, start..end));
                bytes.copy_within(end..len, new_end);
                len -= end - new_end;
                at = new_end;
                let is_more_to_come = at == len && !flight.follower.is_done();
                if let Some(client) = flight.listener().filter(|_| is_more_to_come) {
                    // The server waits for the client, or there is simply more to come.
                    flight.copy(&bytes[from..at]);
                    drop(flights);
                    client.write(&bytes[from..at]);
                    client.wake();
                    from = at;
                }
            }
            Ok(Step::End { at: end }) => {
                drop(flights);
                end_reply(worker, backend, &bytes[..len], from..end, settled);
                (from, at) = (end, end);
            }
            Err(error) => {
                drop(flights);
                tracing::warn!(backend = backend.id, %error, "the server's answer is not MySQL's protocol");
                worker.count_fault(Kind::NonsenseFromServer);
                return false;
            }
        }
    }
    // A reply may end exactly where the bytes do.
    hear_end(backend, &bytes[from..len]);
    finish_ended(worker, backend, (&bytes[..len], from..len), settled);
    true
}

/// The last bytes that have come, with which a reply may end.
fn hear_end(backend: &Backend, bytes: &[u8]) {
    if let Some(flight) = backend.in_flight.borrow_mut().front_mut() {
        questions::listen(flight, bytes);
        if flight.follower.is_done() {
            flight.keep_tail(bytes);
        }
    }
}

/// Shows a packet to all that learn from it, or change it for their client. `from`: where what the client has not got
/// yet begins. The answer is where the packet ends now.
fn see_packet(
    worker: &Rc<Worker>,
    backend: &Backend,
    flight: &mut InFlight,
    kind: Packet,
    bytes: &mut [u8],
    (from, at): (&mut usize, Range<usize>),
) -> usize {
    let (start, sequence) = (at.start, bytes[at.start + HEADER - 1]);
    if show(flight, kind, bytes, *from, start) {
        *from = start;
    }
    let new_end = inspect(worker, backend, flight, kind, bytes, at);
    if kind == Packet::Err
        && interrupted::tell_instead(worker, flight, &bytes[*from..start], sequence)
    {
        *from = start;
        return start;
    }
    new_end
}

/// A reply has ended; `tail` is what its client has not got yet.
fn end_reply(
    worker: &Rc<Worker>,
    backend: &Rc<Backend>,
    bytes: &[u8],
    tail: Range<usize>,
    settled: &mut Vec<Settled>,
) {
    let mut flights = backend.in_flight.borrow_mut();
    let flight = flights.pop_front();
    let is_last = flights.is_empty();
    drop(flights);
    if is_last && tail.end < bytes.len() && backend.key.get().is_some() {
        // What comes behind the answer would be taken for that to the next client's statement.
        backend.close();
    }
    let Some(mut flight) = flight else { return };
    questions::listen(&mut flight, &bytes[tail.clone()]);
    flight.keep_tail(&bytes[tail.clone()]);
    let own = reply_end::finish(worker, backend, &mut flight, (bytes, tail), settled);
    settled.extend(own);
    flight.land();
}

/// The server ends the connection. The client does not get its last words, only what came before them.
fn part(backend: &Backend, client: Option<&Client>, before: &[u8]) -> bool {
    if let Some(client) = client {
        client.write(before);
    }
    backend.fate.life.set(Life::Farewell);
    false
}

/// Ends the reply in flight if its last byte has been followed; `tail`, of these bytes, is what its client has not got
/// yet.
fn finish_ended(
    worker: &Rc<Worker>,
    backend: &Rc<Backend>,
    tail: (&[u8], Range<usize>),
    settled: &mut Vec<Settled>,
) {
    let mut flights = backend.in_flight.borrow_mut();
    let ended = flights.front().is_some_and(|flight| flight.follower.is_done());
    let flight = if ended { flights.pop_front() } else { None };
    drop(flights);
    let Some(mut flight) = flight else { return };
    let own = reply_end::finish(worker, backend, &mut flight, tail, settled);
    settled.extend(own);
    flight.land();
}

/// Puts the client's own rows, if it has any, into a reply whose last packet begins at `end`; it has been passed on up
/// to `from`.
fn show(flight: &mut InFlight, kind: Packet, bytes: &mut [u8], from: usize, end: usize) -> bool {
    if !flight.has_own_rows() || !flight.follower.is_done() || kind == Packet::Err {
        return false;
    }
    let Some(rows) = flight.command.as_mut().and_then(|command| command.rare().shown.take()) else {
        return false;
    };
    let (Some(client), Some(sequence)) = (flight.listener(), bytes.get_mut(end + HEADER - 1))
    else {
        return false;
    };
    let mut out = Vec::new();
    *sequence = rows.iter().fold(*sequence, |sequence, row| put_packet(&mut out, sequence, row));
    client.write_with_next(&bytes[from..end]);
    client.write_with_next(&out);
    true
}

/// The server speaks although no command was sent: it says why it ends the connection.
fn out_of_turn(backend: &Backend, bytes: &[u8]) -> bool {
    if let (None, Some(client)) = (backend.key.get(), backend.holder.borrow().as_ref()) {
        client.write(bytes);
        return true;
    }
    false
}

/// Learns from a packet that says something, and changes what is the client's own business in it.
/// Returns where the packet ends now.
fn inspect(
    worker: &Rc<Worker>,
    backend: &Backend,
    flight: &mut InFlight,
    kind: Packet,
    bytes: &mut [u8],
    at: Range<usize>,
) -> usize {
    let packet = &mut bytes[at.clone()];
    rights::see_reply(worker, backend, flight, kind, packet);
    let Some(client) = flight.client.clone() else {
        see_unheard(worker, backend, flight, kind, packet);
        return at.end;
    };
    diagnostics::put_told(flight, kind, packet);
    match kind {
        Packet::Ok => {
            if let Ok(ok) = OkPacket::decode(&packet[HEADER..], backend.capabilities) {
                flight.count(&ok);
                if let Some(run) = flight.shared() {
                    run.see_end(&ok);
                }
                let shorter = see_ok(worker, backend, &client, flight, &ok, packet);
                if let Some(other) = shorter {
                    let is_whole = ok_rewrite::is_whole_reply(packet, ok.status)
                        || matches!(flight.purpose, Purpose::LoginSchema(..));
                    let len = put_instead(&client, packet, &other, is_whole);
                    worker.spare.scratch.replace(other);
                    if let Some(len) = len {
                        return at.start + len;
                    }
                }
            }
        }
        Packet::Eof => {
            if let Ok(eof) = EofPacket::decode(&packet[HEADER..]) {
                see_eof(worker, backend, &client, flight, (eof, packet));
            }
        }
        Packet::Err => {
            if !client.is_pooled() {
                client.session.borrow_mut().see_passed_answer(None);
            }
            flight.added = diagnostics::added(worker, &client, flight, packet).map(Box::new);
            see_error(worker, backend, flight, packet);
        }
        Packet::Prepared if client.is_pooled() => {
            prepared::see(worker, backend, &client, flight, packet);
        }
        Packet::Prepared => {
            passed_types::see_prepared(&client, &packet[HEADER..]);
            passed::see_prepared(&client, flight.command.as_mut(), &packet[HEADER..]);
        }
        Packet::LocalInfile => {
            let passage = Passage::new(Until::EmptyPacket);
            client.input.upload.set(Some(passage.renumbered(flight.follower.shift())));
            client.input.begin_upload();
        }
        Packet::Authentication => {
            client.input.upload.set(Some(Passage::new(Until::PayloadEnd)));
            client.input.begin_upload();
        }
        Packet::Text | Packet::Progress => {}
    }
    at.end
}

/// Puts a packet in the place of one. The answer is how long it is there; `None`: it has no room, and the one before stays.
/// The packet of a reply that has no other always has room.
fn put_instead(client: &Client, packet: &mut [u8], other: &[u8], is_whole: bool) -> Option<usize> {
    if let Some(place) = packet.get_mut(..other.len()) {
        place.copy_from_slice(other);
        return Some(other.len());
    }
    is_whole.then(|| {
        client.write_with_next(other);
        0
    })
}

/// Learns from the end of definitions or rows.
fn see_eof(
    worker: &Worker,
    backend: &Backend,
    client: &Client,
    flight: &mut InFlight,
    (eof, packet): (EofPacket, &mut [u8]),
) {
    let may_have_changed = unreported::see_end(worker, client, backend, flight, eof);
    if let Some(run) = flight.shared() {
        run.see_eof(eof, may_have_changed);
    }
    if client.is_pooled() {
        // The client has not asked for what Flifo has the server report.
        let status = eof.status.without(Status::STATE_CHANGED);
        let eof = EofPacket { status, ..eof }.packet(packet[HEADER - 1]);
        if let Some(bytes) = packet.get_mut(..eof.len()) {
            bytes.copy_from_slice(&eof);
        }
    }
    flight.warnings = flight.warnings.max(eof.warnings);
    flight.last = eof.warnings;
    let mut session = client.session.borrow_mut();
    session.see_status(eof.status);
    if matches!(flight.purpose, Purpose::Statement) {
        session.counts.see_affected(-1, backend.id);
    }
    drop(session);
    prepared::see_status(flight, eof.status);
}

/// Learns from the error that a client's command has ended in.
fn see_error(worker: &Worker, backend: &Backend, flight: &mut InFlight, packet: &[u8]) {
    flight.failed = true;
    flight.refused = prepared::refused(flight, packet);
    flight.failure = Some(packet.into());
    if flight.purpose.is_clients() {
        worker.learnt.tally.see_error(packet);
        worker.at(backend.server).traffic.errors.add(1);
        refused::see(worker, backend.server, packet);
        // What only reads may read a view, whose functions do as they like.
        if matches!(flight.purpose, Purpose::Statement) && may_have_fired(packet) {
            backend.doubt();
        }
    }
}

/// Learns from the reply to a setup that was sent ahead, or to a statement whose client is gone.
fn see_unheard(
    worker: &Worker,
    backend: &Backend,
    flight: &mut InFlight,
    kind: Packet,
    packet: &[u8],
) {
    match kind {
        Packet::Ok => {
            if let Ok(ok) = OkPacket::decode(&packet[HEADER..], backend.capabilities) {
                if matches!(flight.purpose, Purpose::Unreported) {
                    let holder = backend.holder.borrow().clone();
                    if let Some(client) = holder {
                        return unreported::learn(worker, &client, backend, &ok);
                    }
                }
                unreported::see_setup(worker, backend, &ok);
                backend.session.borrow_mut().see(&ok, &mut worker.pool.interned.borrow_mut());
                match flight.purpose {
                    Purpose::AskInsertId(client) => capture::capture(worker, backend, client, &ok),
                    Purpose::Reset(engine::session::setup::Step::Ask) => {
                        flight.failed = !backend_reset::renew(worker, backend, &ok);
                    }
                    _ => {}
                }
            }
        }
        Packet::Err => {
            flight.failed = true;
            flight.failure = flight.purpose.is_setup().then(|| packet.into());
        }
        _ => {}
    }
}

/// Learns from an OK packet. Returns it rewritten if the client must see it otherwise.
fn see_ok(
    worker: &Rc<Worker>,
    backend: &Backend,
    client: &Rc<Client>,
    flight: &mut InFlight,
    ok: &OkPacket<'_>,
    packet: &[u8],
) -> Option<Vec<u8>> {
    if !client.is_pooled() {
        return see_passed_ok(worker, client, ok, packet);
    }
    step!("learn");
    if matches!(flight.purpose, Purpose::Unreported) {
        unreported::learn(worker, client, backend, ok);
        return None;
    }
    if !flight.purpose.is_clients() {
        unreported::see_setup(worker, backend, ok);
    }
    let mut state = backend.session.borrow_mut();
    let mut interned = worker.pool.interned.borrow_mut();
    if !flight.purpose.is_clients() {
        let pin = state.see(ok, &mut interned);
        drop((state, interned));
        if let Purpose::AskInsertId(client) = flight.purpose {
            capture::capture(worker, backend, client, ok);
        }
        let is_of_client =
            matches!(flight.purpose, Purpose::Probe(_) | Purpose::Init(_) | Purpose::InitProbe(_));
        if let Some(pin) = pin.filter(|_| is_of_client) {
            worker.pin(client, pin);
        }
        if let Purpose::Init(_) = flight.purpose {
            client.session.borrow_mut().see_begun(ok.status);
        }
        return None;
    }
    // MySQL counts the warnings of whatever has run on the backend before; a session that begins has none.
    let is_login = matches!(flight.purpose, Purpose::LoginSchema(..));
    let vouched = if is_login { client.input.vouched.take() } else { None };
    let warnings = if is_login { 0 } else { ok.warnings };
    let ok = &OkPacket { warnings, info: vouched.as_deref().unwrap_or(ok.info), ..*ok };
    // Of several results, a later one need not clear what an earlier one has left.
    flight.warnings = flight.warnings.max(ok.warnings);
    flight.last = ok.warnings;
    prepared::see_status(flight, ok.status);
    if let Some(collation) = &flight.collation {
        state.set(b"collation_connection", collation, &mut interned);
    }
    let mut session = client.session.borrow_mut();
    let listened = session.listens();
    let pin = session.see_ok(client.id, ok, &mut state, &mut interned, flight.sets());
    if pin.is_some() && backend.taint.get() == Taint::Soiled {
        session.forgive();
    }
    drop(session);
    if let Some(pin) = pin.filter(|_| backend.taint.get() != Taint::Soiled) {
        worker.count_pin(client, pin, None);
    }
    let is_end_of_rows = packet[HEADER] == EOF;
    let affected = if is_end_of_rows { -1 } else { ok.affected_rows as i64 };
    let mut session = client.session.borrow_mut();
    match prepared::is_repeated(flight) {
        true => session.counts.see_several(backend.id),
        false => session.counts.see_affected(affected, backend.id),
    }
    let listens = session.listens();
    drop(session);
    let listens = (listened, heard(worker, client, flight, listens));
    let note = |gtid: &[u8]| unreported::note_gtid(worker, client, backend, gtid);
    let rewritten =
        ok_rewrite::ok(ok, packet, client.capabilities, listens, &worker.spare.scratch, note);
    match vouched {
        Some(_) if rewritten.is_none() => {
            Some(ok_rewrite::written(ok, packet, client.capabilities, &worker.spare.scratch))
        }
        _ => rewritten,
    }
}

/// What of the things that a client listens to it hears in this reply.
fn heard(
    worker: &Worker,
    client: &Client,
    flight: &InFlight,
    mut listens: Marks<Listen>,
) -> Marks<Listen> {
    // MySQL does not take what GET DIAGNOSTICS sets for a change of the session's state.
    if listens.has(Listen::State)
        && flight.command.as_ref().is_some_and(|command| command.diagnoses())
        && worker.is_mysql(client)
    {
        listens.remove(Listen::State);
    }
    listens
}

/// The same of a client whose backend is its own.
fn see_passed_ok(
    worker: &Worker,
    client: &Client,
    ok: &OkPacket<'_>,
    packet: &[u8],
) -> Option<Vec<u8>> {
    let mut session = client.session.borrow_mut();
    session.see_status(ok.status);
    session.see_passed_answer(Some(ok.changes));
    let listened = session.listens();
    if !client.has_key() {
        return None;
    }
    // It is alone on a backend that Flifo has logged in on, and has asked for reports.
    session.see_alone(ok.changes);
    let (listens, scratch) = ((listened, session.listens()), &worker.spare.scratch);
    ok_rewrite::ok(ok, packet, client.capabilities, listens, scratch, |_| {})
}

/// Whether a statement may have fired triggers, or called what a view calls, before it failed like this.
fn may_have_fired(packet: &[u8]) -> bool {
    let error = packet.get(HEADER..).map(ErrPacket::decode);
    !matches!(error, Some(Ok(error)) if observe::is_before_any_row(error.code))
}
