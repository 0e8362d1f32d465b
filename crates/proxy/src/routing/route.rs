//! Which of a cluster's servers a statement goes to; a statement that can go to none for a while is held back.
//!
//! Owns the choice, and which statements are held back because their server is being replaced;
//! [`crate::upkeep::stranded`] sends them on, or refuses them. Where there is one server, nothing is held back here.
//! Invariants: a client that must keep its backend stays on its server; what is not known for certain to be a mere read
//! goes to the writer, and a transaction that may write begins there, whatever rules say; a client that reads its own
//! writes is sent nowhere where they are not known to be; no statement is held back longer than `routing.hold`.

use std::rc::Rc;
use std::time::Duration;

use engine::intent::Trait;
use engine::statement::rule::RuleRole;

use crate::cluster::members::{ClusterId, Members};
use crate::cluster::post::News;
use crate::cluster::servers::ServerId;
use crate::config::Mode;
use crate::routing::clusters;
use crate::routing::freshness::{self, finds_past, has_named, mode_in};
use crate::session::alone;
use crate::session::questions;
use crate::session::supply;
use crate::state::backend::Backend;
use crate::state::client::{Client, Stranded};
use crate::state::client_state::ClientState;
use crate::state::command::{Awaits, Command};
use crate::state::doing::Doing;
use crate::state::in_flight::InFlight;
use crate::state::local::Local;
use crate::state::rule_hits::RuleWay;
use crate::state::shared::Mail;
use crate::state::worker::Worker;

/// Where a client's next statement goes, for which it is sent there now. `None`: nowhere, for now.
pub(crate) fn take(
    worker: &Worker,
    members: &Members,
    client: &Client,
    command: &Command,
) -> Option<ServerId> {
    choose(worker, members, client, command).inspect(|server| members.try_on(*server))
}

/// Where it would go.
pub(crate) fn choose(
    worker: &Worker,
    members: &Members,
    client: &Client,
    command: &Command,
) -> Option<ServerId> {
    let avoided = command.avoids();
    let (reads, sent_to) = match way(members, client, command) {
        None => (wants_reader(members, client, command), None),
        Some(RuleWay::Writer) => (false, None),
        Some(RuleWay::Reader) => (true, None),
        Some(RuleWay::To(server, fallback)) => {
            (wants_reader(members, client, command), Some((server, fallback)))
        }
    };
    let reads = match sent_to {
        None => reads,
        Some((server, fallback)) => {
            let may = members.answers(server) && avoided != Some(server);
            let finds = |it: &ServerId| {
                finds_past(members, client, *it, reads)
                    && (!reads || members.is_writer(*it) || has_named(members, command, *it))
            };
            let there = Some(server).filter(|it| may && finds(it));
            match (there, fallback) {
                (None, Some(role)) => role == RuleRole::Reader,
                (there, _) => return there,
            }
        }
    };
    let reader = reads.then(|| reader(worker, members, client, command)).flatten();
    let holds = |server: &ServerId| finds_past(members, client, *server, reads);
    let may_write_there = |it: &ServerId| reads || avoided != Some(*it);
    let writer = || {
        let writer = members.writer_of(client.id).filter(|it| may_serve(members, *it, reads))?;
        Some(writer).filter(may_write_there).filter(holds)
    };
    reader.or_else(writer).or_else(|| {
        let taker = freshness::taker(members, client)
            .filter(|it| reads && may_serve(members, *it, reads))?;
        let may = |it: &ServerId| avoided != Some(*it) && has_named(members, command, *it);
        Some(taker).filter(may).filter(holds)
    })
}

/// Where a rule sends a command, unless a transaction that may write would begin on a server that is not written to.
fn way(members: &Members, client: &Client, command: &Command) -> Option<RuleWay> {
    let way = command.way()?;
    let is_written_to = match way {
        RuleWay::Writer => true,
        RuleWay::Reader => false,
        RuleWay::To(server, _) => members.is_writer(server),
    };
    let begins = || command.facts.has(Trait::Begin) || client.session.borrow().may_begin_to_write();
    (is_written_to || !begins()).then_some(way)
}

/// Whether a server may serve a read, or a write, as far as `routing.writer_reads` goes.
fn may_serve(members: &Members, server: ServerId, reads: bool) -> bool {
    !(reads && members.spares_writers() && members.is_writer(server))
}

/// Whether a client's command may go to a reader.
pub(crate) fn wants_reader(members: &Members, client: &Client, command: &Command) -> bool {
    goes_to_reader(members, client, command.facts.read.is_some())
}

/// The same of a command that is a mere read, or is not.
pub(crate) fn goes_to_reader(members: &Members, client: &Client, reads: bool) -> bool {
    match mode_in(members, client) {
        Mode::Writer => false,
        Mode::Readers => true,
        Mode::Split => reads,
    }
}

/// Where a pass-through client of this cluster logs in, which stays there. It is waited for.
#[expect(clippy::disallowed_methods, reason = "a login waits between these")]
pub(crate) async fn home(worker: &Worker, cluster: ClusterId, mode: Mode) -> ServerId {
    let Some(members) = worker.shared.cluster.routes(cluster) else {
        return worker.shared.cluster.first().id;
    };
    let first = || worker.shared.cluster.first_of(members);
    let deadline = crate::worker::clock::read() + members.hold();
    loop {
        let ids = || members.servers().map(|server| server.id);
        let least = |id: &ServerId| worker.shared.cluster.server(*id).slots.held();
        let readers = ids().filter(|id| mode == Mode::Readers && members.is_reader(*id));
        let writers = || ids().filter(|id| members.is_writer(*id)).min_by_key(least);
        if let Some(server) = readers.min_by_key(least).or_else(writers) {
            return server;
        }
        if crate::worker::clock::read() >= deadline {
            // What it meets there it is told.
            return first();
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// How often it is looked for a server.
const LOOK: Duration = Duration::from_millis(20);

/// The reader that has least to do for its weight, of those that have what the client must see.
fn reader(
    worker: &Worker,
    members: &Members,
    client: &Client,
    command: &Command,
) -> Option<ServerId> {
    let avoided = command.avoids();
    let count = members.places().max(1);
    let first = worker.next_reader() % count;
    let order = (0..count).filter_map(|step| members.place((first + step) % count));
    let may = |server: &ServerId| {
        members.is_reader(*server)
            && avoided != Some(*server)
            && alone::may_go(worker, members, client, *server)
            && finds_past(members, client, *server, true)
            && has_named(members, command, *server)
    };
    // One on trial gets the next statement, and no other one meanwhile.
    order.filter(|server| may(server) && !members.is_tried(*server)).min_by_key(|server| {
        if members.is_on_trial(*server) {
            return 0;
        }
        let load = u64::from(worker.at(*server).server.slots.held()) + 1;
        load * 1_000_000 / u64::from(members.share(*server))
    })
}

/// A client that keeps its backend for nothing but diagnostics, or variables that another backend can be told, gives it up
/// if what it asks now is another server's affair. True: the backend is asked for its diagnostics first, and the command
/// must wait.
pub(crate) fn leave_backend(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    reads: bool,
    command: &Command,
) -> bool {
    if !worker.shared.cluster.is_routed() {
        return false;
    }
    let Some(backend) = client.backend() else { return false };
    let members = worker.shared.cluster.of(backend.server);
    let may_stay = || may_stay(members, client, &backend, reads, command);
    if !client.session.borrow().can_yield() || may_stay() {
        return false;
    }
    if !client.session.borrow().can_yield_unseen() {
        questions::begin(worker, client, &backend);
        return true;
    }
    supply::yield_backend(client, &backend);
    backend.release();
    supply::give_back(worker, &backend);
    false
}

/// Whether a client's statement may run on the server of the backend that it has.
fn may_stay(
    members: &Members,
    client: &Client,
    backend: &Backend,
    reads: bool,
    command: &Command,
) -> bool {
    let (server, way) = (backend.server, way(members, client, command));
    let reads = match way {
        Some(RuleWay::Writer) => false,
        Some(RuleWay::Reader) => true,
        // It stays where it has gone instead.
        Some(RuleWay::To(wanted, Some(fallback))) if !members.answers(wanted) => {
            fallback == RuleRole::Reader
        }
        None | Some(RuleWay::To(..)) => goes_to_reader(members, client, reads),
    };
    if let Some(RuleWay::To(wanted, fallback)) = way
        && (fallback.is_none() || members.answers(wanted))
    {
        return wanted == server && finds_past(members, client, server, reads);
    }
    let is_place = members.writer_of(client.id) == Some(server)
        || reads
            && has_named(members, command, server)
            && (members.is_reader(server) || freshness::taker(members, client) == Some(server));
    is_place && may_serve(members, server, reads) && finds_past(members, client, server, reads)
}

/// Whether a read that was sent to this server can still run there.
pub(crate) fn may_read_at(members: &Members, client: &Client, server: ServerId) -> bool {
    (members.is_reader(server) || members.writer_of(client.id) == Some(server))
        && may_serve(members, server, true)
        && finds_past(members, client, server, true)
}

/// A statement has been answered.
pub(crate) fn note_end(worker: &Worker, client: &Client, command: &Command, backend: &Backend) {
    let Some(members) = worker.shared.cluster.routes_at(backend.server) else { return };
    freshness::note_end(worker, members, client, command, backend);
    if members.is_on_trial(backend.server) {
        members.tried(backend.server);
    }
}

/// Holds the command back until a server can take it.
pub(crate) fn strand(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    packet: &[u8],
) {
    command.packet = worker.spare.buffers.keep(packet);
    strand_held(worker, client, command);
}

/// The same for a command whose bytes are kept.
fn strand_held(worker: &Rc<Worker>, client: &Rc<Client>, mut command: Box<Command>) {
    // Others may not read where this one may.
    command.sharing.cut_off();
    command.counted = None;
    let now = crate::worker::clock::now();
    let since = *command.rare().stranded.get_or_insert(now);
    let cluster = clusters::of(client, &command);
    client.become_state(Doing::Stranded { command });
    let members = worker.shared.cluster.routes(cluster);
    let hold = members.map_or(Duration::ZERO, Members::hold);
    let (changed, until) = (client.times.changed.get(), since + hold);
    if let Some(members) = members {
        freshness::look_for_past(members, client);
    }
    let client = Rc::clone(client);
    worker.upkeep.stranded.borrow_mut().push(Stranded { client, changed, until });
}

/// A server takes no more statements: clients that wait for it and are not bound to it go elsewhere.
pub(crate) fn leave_queue(worker: &Rc<Worker>, local: &Local) {
    let keys: Vec<_> = local.gate.borrow().keys_waiting().collect();
    for key in keys {
        loop {
            let waiter = local.gate.borrow_mut().take_waiter(key);
            let Some(client) = waiter else { break };
            if let Some(command) = client.take_command() {
                strand_held(worker, &client, command);
            }
        }
    }
    worker.shared.mail(worker.index, Mail::News(News::Rerouted));
}

/// A server is down: no client waits for it any more, and what runs there has failed.
pub(crate) fn abandon(worker: &Rc<Worker>, server: ServerId) {
    leave_queue(worker, worker.at(server));
    for backend in worker.backends.borrow().values().filter(|backend| backend.server == server) {
        backend.close();
    }
}

/// No backend could be opened for this client; it is tried elsewhere. False: there is one server, or a reason that
/// would be the same elsewhere.
pub(crate) fn elsewhere(worker: &Rc<Worker>, client: &Rc<Client>, server: ServerId) -> bool {
    if worker.shared.cluster.routes_at(server).is_none() {
        return false;
    }
    if let Some(mut command) = client.take_command() {
        command.rare().avoids = Some(server);
        strand_held(worker, client, command);
    }
    true
}

/// What was in flight on a backend that was lost can be sent once more, elsewhere if there is more than one server: it
/// has not been sent, or merely reads, and nothing of its answer has come. Rules may say how often that is done.
pub(crate) fn may_go_elsewhere(worker: &Worker, backend: &Backend, flight: &InFlight) -> bool {
    let Some(client) = flight.client.as_ref() else { return false };
    let was_sent = flight.purpose.is_clients();
    let held = client.command();
    let Some(command) = flight.command.as_deref().or(held.as_deref()) else { return false };
    let is_harmless = match was_sent {
        true => flight.read.is_some() && !flight.is_answered(),
        false => client.state() == ClientState::Preparing,
    };
    let may_again = match command.retries() {
        Some(retries) => retries > 0,
        None => worker.shared.cluster.is_routed() && command.avoids().is_none(),
    };
    is_harmless
        && may_again
        && backend.key.get().is_some()
        && !client.input.is_part()
        && !command.packet.is_empty()
        && !client.session.borrow().is_bound()
}

/// One more of the times is over that rules let the command be run again.
fn count_retry(command: &mut Command) {
    if let Some(ruled) = command.rare.as_mut().and_then(|rare| rare.ruled.as_mut()) {
        ruled.retries = ruled.retries.map(|retries| retries.saturating_sub(1));
    }
}

/// Sends such a statement elsewhere, not from within whatever is going on now.
pub(crate) fn go_elsewhere(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    server: ServerId,
) {
    client.backend.take();
    count_retry(&mut command);
    if !worker.shared.cluster.is_routed() {
        // There is one server: the command is read again as if it came now.
        client.become_state(Doing::Preparing { command, awaits: Awaits::Backend });
        return worker.shared.mail(worker.index, Mail::Resume(client.id));
    }
    command.rare().avoids = Some(server);
    strand_held(worker, client, command);
    worker.shared.mail(worker.index, Mail::News(News::Rerouted));
}
