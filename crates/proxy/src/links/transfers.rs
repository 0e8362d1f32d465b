//! Backend connections that go from one worker to another, whose client has waited longer.
//!
//! A connection is a socket and what is known of its session; both go by mail, and the place under `server.links_max`
//! and that of the user with them. What the connection alone knows of a client it is asked before it goes. Prepared
//! statements stay behind: the new worker has the server close them.
//!
//! Invariant: one that goes has no client, and nothing is in flight on it; so no statement depends on the way.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use engine::link_state;
use engine::rights::Era;
use link::stream;
use wire::Capabilities;

use crate::arrive::users::User;
use crate::links::keys::Key;
use crate::links::{self, Link, supply};
use crate::road::admit;
use crate::road::losses;
use crate::road::owed;
use crate::servers::ServerId;
use crate::worker::{Mail, Worker};

/// What the other worker gets.
pub(crate) struct Parcel {
    server: ServerId,
    thread_id: u32,
    stream: stream::Packed,
    capabilities: Capabilities,
    key: Key,
    user: Option<Arc<User>>,
    opened: Instant,
    era: Era,
    state: link_state::Packed,
    /// Ids of statements that are still prepared.
    statements: Vec<u32>,
    is_left_behind: bool,
}

impl fmt::Debug for Parcel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Parcel").field("thread_id", &self.thread_id).finish_non_exhaustive()
    }
}

/// Has an idle connection go to this worker, as soon as nothing is in flight on it.
pub(crate) fn send(worker: &Worker, link: &Link, to: usize) {
    if link.is_closing() || link.key.get().is_none() || link.is_being_killed() {
        worker.at(link.server).gate.borrow_mut().not_sent(to);
        return supply::retire(worker, link);
    }
    owed::ask_before_end(worker, link);
    link.leaves_for.set(Some(to));
    link.wake();
}

/// The connection's task has ended for it: it goes.
pub(crate) fn depart(worker: &Rc<Worker>, link: Rc<Link>, to: usize) {
    links::resets::forget(worker, &link);
    worker.links.borrow_mut().remove(&link.id);
    let (server, key) = (link.server, link.key.get());
    match pack(worker, link) {
        Ok(parcel) => {
            if let Some(key) = key {
                worker.at(server).gate.borrow_mut().sent(key);
            }
            worker.counters.links_handed_over.add(1);
            worker.shared.mail(to, Mail::Link(Box::new(parcel)));
            admit::pump(worker, server);
        }
        Err(Some(link)) => {
            worker.at(server).gate.borrow_mut().not_sent(to);
            losses::end(worker, &link);
        }
        // The socket is gone.
        Err(None) => {
            worker.at(server).gate.borrow_mut().not_sent(to);
            losses::give_back_place(worker, server, key, u64::MAX);
            admit::pump(worker, server);
        }
    }
}

/// Takes a connection apart. What cannot be taken apart, because something else still looks at it, is given back.
fn pack(worker: &Worker, link: Rc<Link>) -> Result<Parcel, Option<Rc<Link>>> {
    let Some(key) = link.key.get() else { return Err(Some(link)) };
    let link = Rc::try_unwrap(link).map_err(Some)?;
    let packed = worker.keys.borrow().get(key);
    let user = worker.keys.borrow().user(key).cloned();
    let mut known = link.known.into_inner();
    Ok(Parcel {
        server: link.server,
        thread_id: link.thread_id,
        stream: link.stream.pack().map_err(|_| None)?,
        capabilities: link.capabilities,
        key: Key::clone(&packed),
        user,
        opened: link.opened,
        era: link.era,
        state: link.state.into_inner().pack(),
        statements: known.shrink(0),
        is_left_behind: link.is_left_behind.get(),
    })
}

/// A connection has come from another worker.
pub(crate) fn arrive(worker: &Rc<Worker>, parcel: Parcel) {
    let Parcel { server, thread_id, stream, capabilities, key, user, .. } = parcel;
    let local = worker.at(server);
    let mut keys = worker.keys.borrow_mut();
    let key = keys.id(key);
    if let (Some(key), Some(user)) = (key, &user) {
        keys.own(key, user);
    }
    drop(keys);
    let (Some(key), Ok(stream)) = (key, stream.unpack()) else {
        user.iter().for_each(|user| user.links.give_back());
        let other = local.gate.borrow_mut().turned_away();
        other.into_iter().for_each(|other| worker.shared.mail(other, Mail::LinkFree(server)));
        return admit::pump(worker, server);
    };
    let id = worker.new_link_id();
    let state = parcel.state.unpack(id, &mut worker.interned.borrow_mut());
    let key = key.with_schema(state.schema.is_some());
    let link = Link::new(id, server, thread_id, stream, capabilities, Some(key));
    let link = Rc::new(Link { opened: parcel.opened, era: parcel.era, ..link });
    link.state.replace(state);
    link.is_left_behind.set(parcel.is_left_behind);
    parcel.statements.into_iter().for_each(|statement| link.close_statement(statement));
    local.gate.borrow_mut().arrived(key);
    worker.add_link(&link);
    supply::put(worker, key, &link);
    tokio::task::spawn_local(links::serve(Rc::clone(worker), link));
    admit::pump(worker, server);
}
