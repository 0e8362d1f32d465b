//! What a client's statements must find where they run: what was written, what was read, and what they name.
//!
//! Owns what is noted behind each statement, for its connection or for all that count as one with it
//! (`routing.reads_by`), and the question whether a server has it; the rule is [`engine::cluster::past`]'s, what servers
//! have is [`crate::cluster::members`]'. [`crate::routing::route`] asks before each statement. Invariant: nothing of it
//! costs anything where clients are not of mode "split".

use std::time::{Duration, Instant};

use engine::cluster::knowledge::Holds;
use engine::cluster::past::{Past, PastView};
use engine::cluster::position::{Gtid, Position};
use engine::cluster::writes::Tells;
use wire::text::Text;

use crate::cluster::members::Members;
use crate::cluster::pasts::{Common, Whose};
use crate::cluster::servers::ServerId;
use crate::config::{Freshness, Mode, ReadsBy};
use crate::routing::clusters;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::worker::Worker;

/// Whether a server is known to have all that this client has written, and has read if it must find that again. Where
/// servers do not tell, a write need not wait for that.
pub(crate) fn finds_past(
    members: &Members,
    client: &Client,
    server: ServerId,
    reads: bool,
) -> bool {
    if !matters(members, client) {
        return true;
    }
    let stay = if reads { members.stay() } else { Duration::ZERO };
    let place = Place { members, server, now: crate::worker::clock::now(), stay };
    let finds = |past: &mut Past| if reads { past.is_found(&place) } else { past.is_held(&place) };
    with_past(members, client, finds).unwrap_or(true)
}

/// Whether a server that is read from is known to have what a command names.
pub(crate) fn has_named(members: &Members, command: &Command, server: ServerId) -> bool {
    let named = command.rare.as_ref().and_then(|rare| rare.named.as_ref());
    named.is_none_or(|named| members.has_come_to(server, named))
}

/// A text that only reads may name what it must find.
pub(crate) fn see_named(worker: &Worker, client: &Client, command: &mut Command, text: Text<'_>) {
    let Some(members) = worker.shared.cluster.routes(clusters::of(client, command)) else { return };
    if members.reads_gtids()
        && let Some(named) = engine::statement::tags::of_flifo(text, b"gtid")
    {
        command.rare().named = Some(Box::new(Position::named(&named)));
    }
}

/// How a client's statements are routed in a cluster, which need not be the one that serves it.
pub(crate) fn mode_in(members: &Members, client: &Client) -> Mode {
    let routing = &client.routing;
    match routing.routed.get() {
        None if routing.cluster.get() != members.id => members.mode(),
        _ => routing.mode.get(),
    }
}

fn matters(members: &Members, client: &Client) -> bool {
    mode_in(members, client) == Mode::Split && members.freshness() != Freshness::Any
}

/// A server, as it is for a statement.
struct Place<'a> {
    members: &'a Members,
    server: ServerId,
    now: Instant,
    stay: Duration,
}

impl PastView for Place<'_> {
    fn server(&self) -> usize {
        self.server.0
    }

    fn writer(&self) -> Option<usize> {
        self.members.writer().map(|writer| writer.0)
    }

    fn all(&self) -> impl Iterator<Item = usize> {
        self.members.servers().map(|server| server.id.0)
    }

    fn holds(&self, taker: usize) -> Holds {
        self.members.holds(self.server, ServerId(taker))
    }

    fn has(&self, taker: usize, gtid: Option<Gtid>) -> bool {
        self.members.has_write(self.server, ServerId(taker), gtid)
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn stay(&self) -> Duration {
        self.stay
    }
}

/// Does this with what counts for a client. `None`: that is its own, and there is nothing.
fn with_past<R>(members: &Members, client: &Client, see: impl FnOnce(&mut Past) -> R) -> Option<R> {
    match members.reads_by() {
        ReadsBy::Connection => client.routing.past.with(see),
        by => with_common(members, client, by, see),
    }
}

/// The same with what it has in common with others. `None`: that is in use further up.
fn with_common<R>(
    members: &Members,
    client: &Client,
    by: ReadsBy,
    see: impl FnOnce(&mut Past) -> R,
) -> Option<R> {
    let common = &client.routing.common;
    let is_it = |it: &mut Common| (it.cluster, it.by) == (members.id.0, by);
    if common.with(is_it) != Some(true) {
        let program = (by == ReadsBy::Program).then_some(&*client.routing.came_by.program);
        let whose = Whose::new(&client.user.borrow(), program);
        common.set(Some(Common { cluster: members.id.0, by, past: members.past_of(whose) }));
    }
    common.with(|it| see(&mut it.past.lock()))
}

/// Changes what counts for a client, and what is its own.
fn change_past(members: &Members, client: &Client, change: impl Fn(&mut Past)) {
    client.routing.past.change(&change);
    if members.reads_by() != ReadsBy::Connection {
        with_past(members, client, change);
    }
}

/// The server that took the client's last write, if it can be read from, whatever else it is used for.
pub(crate) fn taker(members: &Members, client: &Client) -> Option<ServerId> {
    let taker = last_taker(members, client);
    taker.filter(|taker| mode_in(members, client) == Mode::Split && members.answers(*taker))
}

/// The server of this cluster that took its last write there, if that matters.
pub(crate) fn last_taker(members: &Members, client: &Client) -> Option<ServerId> {
    let is_of = |server: usize| members.has(ServerId(server));
    with_past(members, client, |past| past.writes.taker_of(is_of)).flatten().map(ServerId)
}

/// A statement is held back. If that is for what the client must find, servers are asked at once where they are.
pub(crate) fn look_for_past(members: &Members, client: &Client) {
    if !matters(members, client) {
        return;
    }
    let takers = with_past(members, client, |past| past.takers().collect::<Vec<_>>());
    let takers = takers.unwrap_or_default().into_iter().map(ServerId);
    let takers: Vec<_> = takers.filter(|taker| members.has(*taker)).collect();
    if takers.is_empty() {
        return;
    }
    // What a server took that is gone, those that are left may have.
    let is_gone = takers.iter().any(|taker| !members.answers(*taker));
    let all = members.servers().map(|server| server.id).filter(|_| is_gone);
    for server in takers.iter().copied().chain(members.writer_of(client.id)).chain(all) {
        if members.is_usable(server) {
            members.await_check(server);
        }
    }
}

/// A statement has been answered.
pub(crate) fn note_end(
    worker: &Worker,
    members: &Members,
    client: &Client,
    command: &Command,
    backend: &Backend,
) {
    let server = backend.server;
    note_write(members, client, command, server, || {
        let is_told = backend.reports && !backend.session.borrow().has_unreported;
        match is_told && worker.at(server).server.facts.tells_gtids() {
            true => Tells::Numbers,
            false => Tells::Nothing,
        }
    });
    if members.freshness() == Freshness::Monotonic {
        note_read(members, client, server);
    }
}

/// A statement was not answered, or with an error: what it may have written on this server all the same has no number.
pub(crate) fn note_untold(worker: &Worker, client: &Client, command: &Command, server: ServerId) {
    if let Some(members) = worker.shared.cluster.routes_at(server) {
        note_write(members, client, command, server, || Tells::Nothing);
    }
}

/// A statement has ended on this server, or may have: what it may have written must be seen by those that follow.
#[expect(clippy::disallowed_methods, reason = "the time of the loop may be from before the write")]
fn note_write(
    members: &Members,
    client: &Client,
    command: &Command,
    server: ServerId,
    tells: impl FnOnce() -> Tells,
) {
    if command.facts.may_write() && mode_in(members, client) == Mode::Split {
        // Not the loop's time, which may be from before the write.
        let (now, tells) = (crate::worker::clock::read(), tells());
        change_past(members, client, |past| past.writes.note(server.0, now, tells));
    }
}

/// A client was shown what a server has.
#[expect(clippy::disallowed_methods, reason = "the time of the loop may be from before the read")]
fn note_read(members: &Members, client: &Client, server: ServerId) {
    if matters(members, client) {
        let place =
            Place { members, server, now: crate::worker::clock::read(), stay: members.stay() };
        change_past(members, client, |past| past.read(&place));
    }
}

/// The server has told the number of a write.
#[expect(clippy::disallowed_methods, reason = "the time of the loop may be from before the write")]
pub(crate) fn note_number(worker: &Worker, client: &Client, server: ServerId, gtid: Gtid) {
    let Some(members) = worker.shared.cluster.routes_at(server) else { return };
    members.acknowledge(server, gtid);
    if mode_in(members, client) == Mode::Split {
        change_past(members, client, |past| {
            past.writes.tell(server.0, gtid, crate::worker::clock::read)
        });
    }
}

/// What a statement has written is not told yet.
pub(crate) fn doubt_number(worker: &Worker, client: &Client, server: ServerId) {
    client.routing.past.with(|past| past.writes.doubt(server.0));
    if let Some(members) = worker.shared.cluster.routes_at(server)
        && members.reads_by() != ReadsBy::Connection
    {
        with_past(members, client, |past| past.writes.doubt(server.0));
    }
}

/// A client comes from the Flifo before, which knew more of what it has read.
pub(crate) fn arrive(worker: &Worker, client: &Client, now: Instant) {
    let cluster = client.routing.cluster.get();
    if let Some(members) = worker.shared.cluster.routes(cluster)
        && members.freshness() == Freshness::Monotonic
    {
        let writer = members.writer().map(|writer| writer.0);
        client.routing.past.set(Some(Past::of_several(now, writer)));
    }
}
