//! What a client's task does: the client's bytes become commands, one at a time, and all is cleaned up behind a client
//! that is gone. The task itself, which waits for the socket, is [`crate::frontend::client_task`].

use std::io;
use std::rc::Rc;

use wire::frame::{self, Extent, HEADER, Header};
use wire::passage::Passage;

use crate::answers::answer;
use crate::answers::notes;
use crate::fault::{Fault, Kind};
use crate::road::admit;
use crate::road::commands;
use crate::road::kill;
use crate::road::large_commands::{self, Collected, Rest};
use crate::road::leaving;
use crate::road::lost_backend;
use crate::road::own_replies;
use crate::session::pipeline;
use crate::state::backend::SetDown;
use crate::state::client::Client;
use crate::state::client_state::ClientState;
use crate::state::command::Awaits;
use crate::state::doing::Doing;
use crate::state::shared_run::Sharing;
use crate::state::worker::Worker;
use crate::worker::buffers::PIECE;
use crate::worker::counters::Why;
use crate::worker::steps::step;

/// Reads what the client has sent and handles it.
pub(crate) fn read(worker: &Rc<Worker>, client: &Rc<Client>) {
    step!("read");
    match large_commands::read(worker, client) {
        Collected::No => {}
        Collected::Part => return,
        Collected::All(mut bytes) => return handle(worker, client, &mut bytes),
    }
    let more = client.input.take_more();
    let room = PIECE.max(more.len() + PIECE / 2);
    let mut buffer = worker.spare.buffers.take(room);
    buffer[..more.len()].copy_from_slice(&more);
    match client.stream.try_read(&mut buffer[more.len()..room]) {
        Ok(0) => client.close(),
        Ok(read) => {
            worker.counters.bytes_in.add(read as u64);
            client.input.see_upload(read);
            handle(worker, client, &mut buffer[..more.len() + read]);
        }
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            client.input.keep_unfinished(&more)
        }
        Err(_) => client.close(),
    }
    worker.spare.buffers.give(buffer);
}

/// Handles bytes of a client: the rest of what it uploads, then commands while it may send them.
pub(crate) fn handle(worker: &Rc<Worker>, client: &Rc<Client>, bytes: &mut [u8]) {
    let mut at = pass_upload(worker, client, bytes);
    at += drop_rest(worker, client, &mut bytes[at..]);
    let reads =
        || client.state() == ClientState::Reading && !client.is_closing() && !client.departs();
    while at < bytes.len() && reads() {
        let Some(header) = Header::peek(&bytes[at..]) else {
            return client.input.keep_unfinished(&bytes[at..]);
        };
        if header.sequence != 0 {
            let message = format!(
                "Got packets out of order: a command is numbered 0, this one {}",
                header.sequence
            );
            return answer::refuse_and_close(
                worker,
                client,
                &Fault::new(Kind::OutOfOrder, message),
            );
        }
        let there = bytes.len() - at;
        let length = HEADER + header.len;
        let extent = Extent::of(&bytes[at..]);
        let (announced, max) = (extent.payload as u64, worker.plan().limits.packet_max);
        if announced > max {
            return answer::refuse_and_close(worker, client, &too_large(announced, max));
        }
        // A command starts when all of it is there, unless its client holds a backend anyway, or it is too long for
        // that.
        if there < length.min(PIECE) {
            return client.input.keep_unfinished(&bytes[at..]);
        }
        if there < extent.len {
            match large_commands::rest(worker, client, extent, &bytes[at + HEADER..]) {
                Rest::Awaited => return client.input.keep_unfinished(&bytes[at..]),
                Rest::Unread => {
                    client.input.keep_more(&bytes[at..], true);
                    return client.become_state(Doing::AwaitingMemory);
                }
                Rest::Passed => {}
            }
        }
        client.input.end_upload();
        client.input.packets.set(1);
        let end = if header.is_continued() && there >= extent.len {
            client.input.packets.set(frame::packet_count(extent.payload) as u8);
            let joined = frame::join(&mut bytes[at..at + extent.len]);
            client.input.upload.set(None);
            commands::handle(worker, client, joined, Awaits::default());
            at + extent.len
        } else {
            let end = at + length.min(there);
            let rest = Passage::inside(header, at + length - end);
            let beginning = large_commands::beginning(client, rest, &bytes[at + HEADER..end]);
            let packet = if let Some(len) = beginning {
                client.input.drop_rest(Some(rest));
                bytes[at..at + HEADER].copy_from_slice(&Header { len, ..header }.encode());
                &mut bytes[at..at + HEADER + len]
            } else {
                client.input.upload.set((!rest.is_done()).then_some(rest));
                &mut bytes[at..end]
            };
            commands::handle(worker, client, packet, Awaits::default());
            end
        };
        // A command that needs no reply has left its slot, which the next one may need.
        admit::work_off(worker);
        if client.state() == ClientState::Reading {
            client.input.give_room_back();
        }
        at = end;
        if at < bytes.len() {
            at += pass_upload(worker, client, &mut bytes[at..]);
            at += drop_rest(worker, client, &mut bytes[at..]);
        }
    }
    client.input.keep_more(&bytes[at..], false);
}

/// Sends on what belongs to a command that is being uploaded.
pub(crate) fn pass_upload(worker: &Rc<Worker>, client: &Rc<Client>, bytes: &mut [u8]) -> usize {
    let (Some(mut passage), ClientState::Running) = (client.input.upload.get(), client.state())
    else {
        return 0;
    };
    let passed = passage.advance(bytes);
    if passage.is_done()
        && client.backend().is_some_and(|backend| !admit::go_on(worker, client, &backend))
    {
        return 0;
    }
    let max = worker.plan().limits.packet_max;
    if let Some(len) = passage.payload_len().filter(|len| *len > max) {
        // The server has the beginning; without the rest it runs nothing, and its connection is lost.
        let fault = too_large(len, max);
        worker.count_fault(fault.kind);
        if let Some(backend) = client.backend() {
            lost_backend::cut_off(&backend, &fault);
        }
        client.close();
        return bytes.len();
    }
    if let Some(backend) = client.backend() {
        backend.send(&bytes[..passed]);
    }
    client.input.upload.set((!passage.is_done()).then_some(passage));
    if passage.is_done() {
        client.input.end_upload();
    }
    if passage.is_done() && client.input.upload_ends_turn.take() {
        client.await_command();
    }
    passed
}

/// Drops what belongs to a command that was dealt with by its beginning.
fn drop_rest(worker: &Rc<Worker>, client: &Rc<Client>, bytes: &mut [u8]) -> usize {
    let (Some(mut rest), ClientState::Reading) = (client.input.dropped.get(), client.state())
    else {
        return 0;
    };
    let dropped = rest.advance(bytes);
    let max = worker.plan().limits.packet_max;
    if let Some(len) = rest.payload_len().filter(|len| *len > max) {
        answer::refuse_and_close(worker, client, &too_large(len, max));
        return bytes.len();
    }
    client.input.dropped.set((!rest.is_done()).then_some(rest));
    if rest.is_done() {
        client.input.end_upload();
    }
    dropped
}

pub(crate) fn too_large(len: u64, max: u64) -> Fault {
    let message = format!("Got a packet of {len} bytes; Flifo's packet_max is {max}");
    Fault::new(Kind::PacketTooLarge, message)
}

/// Cleans up behind a client that is gone: what runs for it is killed, its backend is dropped.
pub(crate) fn end(worker: &Rc<Worker>, client: &Rc<Client>) {
    step!("gone");
    worker.leave_queue(client);
    let state = client.state();
    client.become_state(Doing::Leaving);
    client.tell_ended();
    notes::see_logout(worker, client);
    if state == ClientState::AwaitingMemory {
        worker.memory.leave(&client.user.borrow(), client.id);
    }
    client.input.reserved.take();
    let backend = client.backend().inspect(|backend| {
        if backend.set_down.take() == SetDown::Unread {
            // No client has to read the reply any more, so nothing holds it up.
            backend.wake();
        }
    });
    if let Some(backend) = backend
        && pipeline::disown(worker, client, &backend).is_none()
    {
        client.backend.take();
        pipeline::cancel_pipelined(worker, &backend, Why::Left);
        // A server that waits for the rest of a command cannot be told to kill it.
        let waits_for_more = client.input.upload.take().is_some();
        own_replies::leave_probe(worker, client, &backend);
        let mut runs = false;
        for flight in backend.in_flight.borrow_mut().iter_mut() {
            runs |= flight.client.take().is_some();
            flight.read = None;
            if let Some(command) = &mut flight.command {
                // Those that were to get the reply as well wait again.
                command.sharing = Sharing::Alone;
                command.counted = None;
            }
        }
        if runs && !waits_for_more && backend.key.get().is_some() {
            // The reply is read to its end and dropped, which gives the slot back; then the backend is closed.
            kill::abandon(worker, &backend);
        } else if waits_for_more {
            backend.close();
        } else {
            leaving::clean(worker, client, &backend);
        }
    }
    worker.remove_client(client);
}
