//! A client kills another one by its Flifo id (`KILL`): the order travels to the victim's worker, and the answer back.
//!
//! A pooled victim's statement is killed by a backend of its own user ([`crate::road::kill`]). A pass-through
//! victim's password is not known here, so the order goes back and the killer's own backend carries it out with the
//! server's number in it, and the server judges whether the killer may. A victim that is not here, or is on its way to
//! the Flifo that takes over, is looked for in the Flifos that this one talks with ([`Place`]).

use std::rc::Rc;

use engine::intent::Ends;
use engine::kill::{Kill, Neighbour, Place, Scope};
use engine::session::facts::Facts;
use wire::command::{Opcode, query_text_at};
use wire::frame::{HEADER, put_joined, put_packet};
use wire::response::{OK, OkPacket};
use wire::text::{Lexed, Text};

use crate::answers::answer;
use crate::fault::{Fault, Kind};
use crate::road::admit;
use crate::road::kill;
use crate::session::pipeline;
use crate::state::client::Client;
use crate::state::client_state::ClientState;
use crate::state::command::{Awaits, Command};
use crate::state::description::{KillMessage, KillResult, ServerDescription};
use crate::state::doing::Doing;
use crate::state::orders::{KillAnswer, KillOrder, Killer, Outcome};
use crate::state::shared::{Mail, Shared};
use crate::state::worker::Worker;

/// Carries out a command that kills a client by its Flifo id.
pub(crate) fn send_order(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    packet: &[u8],
    (scope, victim): (Scope, u32),
) {
    command.packet = worker.spare.buffers.keep(packet);
    // An execute may be followed by bytes that say nothing.
    client.input.drop_rest(client.input.upload.take());
    // What the order asks of a backend, should one unread it out, is nothing of what the text or the statement would
    // have.
    command.facts = Facts { ends: Ends::Perhaps, ..Facts::default() };
    client.become_state(Doing::Preparing { command, awaits: Awaits::Answer });
    let order = KillOrder {
        victim,
        scope,
        user: client.user.borrow().clone(),
        killer: Killer::Client { id: client.id, worker: worker.index },
        place: Place::Here,
    };
    worker.shared.mail(worker.shared.home_of(victim), Mail::Kill(order));
}

/// What a command kills, and how, if it kills a client by its Flifo id.
pub(crate) fn read_order(worker: &Worker, client: &Client, text: Text<'_>) -> Option<(Scope, u32)> {
    let kill = Kill::read(text)?;
    // MySQL has an error to say.
    if kill.has_manner && worker.at(client.routing.server.get()).server.facts.is_mysql() {
        return None;
    }
    kill.names_client().then_some((kill.scope, kill.id))
}

/// The same of a `COM_PROCESS_KILL`.
pub(crate) fn read_process_kill(packet: &[u8]) -> Option<(Scope, u32)> {
    let id = u32::from_le_bytes(*packet.get(HEADER + 1..)?.first_chunk()?);
    (id >= engine::kill::FIRST_CLIENT_ID).then_some((Scope::Connection, id))
}

/// Carries out an order whose victim belongs to this worker.
pub(crate) fn obey(worker: &Rc<Worker>, order: KillOrder) {
    let victim = worker.clients.borrow().get(&order.victim).cloned();
    let is_here = |it: &Rc<Client>| {
        let is_on_its_way = matches!(it.state(), ClientState::Departing | ClientState::Leaving);
        order.place == Place::HereAtLast || !is_on_its_way
    };
    if let Some(victim) = victim.filter(is_here) {
        let outcome = kill(worker, &victim, &order);
        return answer(&worker.shared, &order, outcome);
    }
    if let Some(arrival) = worker.moves.arrivals.borrow_mut().get_mut(&order.victim) {
        return arrival.orders.push(order);
    }
    look_further(&worker.shared, order);
}

/// The victim is not where it was looked for.
pub(crate) fn look_further(shared: &Shared, mut order: KillOrder) {
    while let Some(place) = order.place.next(order.killer.neighbour()) {
        order.place = place;
        let Place::At(neighbour) = place else {
            return shared.mail(shared.home_of(order.victim), Mail::Kill(order));
        };
        match shared.succession.neighbours.ask(neighbour, order) {
            Ok(()) => return,
            Err(back) => order = back,
        }
    }
    answer(shared, &order, Outcome::Unknown);
}

/// Another Flifo has an order, or an answer.
pub(crate) fn hear(shared: &Shared, neighbour: Neighbour, message: KillMessage) {
    match message {
        KillMessage::Order { ticket, victim, scope, user } => {
            let killer = Killer::Other(neighbour, ticket);
            let order = KillOrder { victim, scope, user, killer, place: Place::Here };
            shared.mail(shared.home_of(victim), Mail::Kill(order));
        }
        KillMessage::Answer { ticket, result } => {
            let Some(order) = shared.succession.neighbours.answered(neighbour, ticket) else {
                return;
            };
            match result {
                KillResult::Done => answer(shared, &order, Outcome::Done),
                KillResult::NotOwner => answer(shared, &order, Outcome::NotOwner),
                KillResult::Unknown => look_further(shared, order),
                KillResult::AtServer(server, id) => {
                    let found = server.find(&shared.cluster.servers);
                    let outcome =
                        found.map_or(Outcome::Unknown, |server| Outcome::AtServer(server.id, id));
                    answer(shared, &order, outcome);
                }
            }
        }
    }
}

/// The talk with another Flifo has ended: what it has not answered is looked for elsewhere.
pub(crate) fn part(shared: &Shared, neighbour: Neighbour) {
    let orders = shared.succession.neighbours.part(neighbour);
    orders.into_iter().for_each(|order| look_further(shared, order));
}

fn answer(shared: &Shared, order: &KillOrder, outcome: Outcome) {
    let victim = order.victim;
    match order.killer {
        Killer::Client { id: killer, worker } => {
            shared.mail(worker, Mail::Killed(KillAnswer { killer, victim, outcome }));
        }
        Killer::Other(neighbour, ticket) => {
            let result = match outcome {
                Outcome::Done | Outcome::Itself(_) => KillResult::Done,
                Outcome::NotOwner => KillResult::NotOwner,
                Outcome::Unknown => KillResult::Unknown,
                Outcome::AtServer(server, id) => {
                    let servers = &shared.cluster.servers;
                    KillResult::AtServer(ServerDescription::of(servers.get(server)), id)
                }
            };
            shared.succession.neighbours.answer(neighbour, KillMessage::Answer { ticket, result });
        }
    }
}

fn kill(worker: &Rc<Worker>, victim: &Rc<Client>, order: &KillOrder) -> Outcome {
    if !victim.has_key() {
        return match victim.backend() {
            Some(backend) => Outcome::AtServer(backend.server, backend.thread_id),
            None => Outcome::Done,
        };
    }
    if *victim.user.borrow() != order.user {
        return Outcome::NotOwner;
    }
    if matches!(order.killer, Killer::Client { id, .. } if id == order.victim) {
        return Outcome::Itself(order.scope);
    }
    match order.scope {
        // Its statement is killed when its task has ended.
        Scope::Connection => victim.close(),
        Scope::Query => interrupt(worker, victim),
    }
    Outcome::Done
}

/// Kills what a pooled client has waiting or running.
pub(crate) fn interrupt(worker: &Rc<Worker>, victim: &Rc<Client>) {
    match victim.state() {
        ClientState::Queued | ClientState::Stranded => {
            worker.leave_queue(victim);
            answer::refuse_held(worker, victim, &interrupted());
        }
        ClientState::Sharing => answer::refuse_held(worker, victim, &interrupted()),
        // No server works for it.
        ClientState::Preparing
            if matches!(victim.awaits(), Some(Awaits::Rule | Awaits::Text | Awaits::Account)) =>
        {
            answer::refuse_held(worker, victim, &interrupted());
        }
        ClientState::Running | ClientState::Preparing | ClientState::ChangingUser => {
            let Some(backend) = victim.backend() else { return };
            let disowned = match pipeline::is_behind(victim, &backend) {
                true => pipeline::disown(worker, victim, &backend),
                false => None,
            };
            match disowned {
                Some(command) => answer::refuse(worker, victim, command, &interrupted()),
                None => kill::kill_on(worker, &backend, Scope::Query),
            }
        }
        ClientState::Reading
        | ClientState::AwaitingMemory
        | ClientState::Writing
        | ClientState::Departing
        | ClientState::Leaving => {}
    }
}

fn interrupted() -> Fault {
    Fault::new(Kind::Killed, "Query execution was interrupted")
}

/// The killer hears what became of its order.
pub(crate) fn answered(worker: &Rc<Worker>, answer: &KillAnswer) {
    let Some(killer) = worker.clients.borrow().get(&answer.killer).cloned() else { return };
    if killer.state() != ClientState::Preparing {
        return;
    }
    let Some(mut command) = killer.take_command() else { return };
    match answer.outcome {
        Outcome::Done => {
            let told = answer::note_kill(worker, &killer, &mut command);
            worker.spare.buffers.forget(command.end());
            let mut payload = Vec::new();
            let status = killer.session.borrow().status();
            killer.session.borrow_mut().counts.answer(0);
            let ok = OkPacket { status, warnings: told, ..OkPacket::EMPTY };
            ok.encode(OK, killer.capabilities, &mut payload);
            let mut out = Vec::new();
            put_packet(&mut out, killer.take_sequence(), &payload);
            killer.write_last(&out);
        }
        Outcome::NotOwner | Outcome::Unknown => {
            let fault = match answer.outcome {
                Outcome::NotOwner => Fault::new(
                    Kind::NotOwner,
                    format!("You are not owner of thread {}", answer.victim),
                ),
                _ => {
                    Fault::new(Kind::UnknownThread, format!("Unknown thread id: {}", answer.victim))
                }
            };
            answer::note_kill(worker, &killer, &mut command);
            answer::refuse(worker, &killer, command, &fault);
        }
        Outcome::Itself(scope) => kill_itself(worker, &killer, command, scope),
        Outcome::AtServer(server, id) => {
            if killer.backend().is_some_and(|backend| backend.server != server) {
                let name = &worker.at(server).server.name;
                let message = format!("That thread is of another server, {name}: connect to that");
                let fault = Fault::new(Kind::UnknownThread, message);
                return answer::refuse(worker, &killer, command, &fault);
            }
            killer.routing.server.set(server);
            let kept = std::mem::take(&mut command.packet);
            match with_id(&killer, &kept, id) {
                Some(mut packet) => {
                    admit::enter_here(worker, &killer, command, &mut packet, true);
                }
                None => killer.close(),
            }
        }
    }
}

/// A client has killed itself, and hears of it in the server's own words.
pub(crate) fn kill_itself(
    worker: &Rc<Worker>,
    client: &Client,
    command: Box<Command>,
    scope: Scope,
) {
    let is_mariadb = || worker.at(client.routing.server.get()).server.facts.is_mariadb();
    let fault = if scope == Scope::Connection && is_mariadb() {
        Fault::relayed(1927, "70100", "Connection was killed")
    } else {
        Fault::new(Kind::Killed, "Query execution was interrupted")
    };
    answer::refuse(worker, client, command, &fault);
    if scope == Scope::Connection {
        client.close();
    }
}

/// The killing command with the server's id in place of Flifo's.
pub(crate) fn with_id(client: &Client, packet: &[u8], id: u32) -> Option<Vec<u8>> {
    let payload = packet.get(HEADER..)?;
    let mut out = Vec::new();
    if payload.first() == Some(&(Opcode::ProcessKill as u8)) {
        put_joined(&mut out, 0, &[&payload[..1], &id.to_le_bytes()]);
        return Some(out);
    }
    let text_at = query_text_at(payload, client.capabilities)?;
    let (head, text) = payload.split_at(text_at);
    let lexed = Lexed::default();
    let (start, end) = Kill::read(lexed.text(text, client.session.borrow().dialect()))?.id_at;
    let id = id.to_string();
    put_joined(&mut out, 0, &[head, &text[..start], id.as_bytes(), &text[end..]]);
    Some(out)
}
