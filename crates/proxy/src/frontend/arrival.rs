//! Clients and backends that come from the Flifo that hands over to this one.
//!
//! A client comes in two steps, so that it is served by one process at any moment: first its description is read, and
//! what it needs is looked for; then it waits until the other process says that it is this one's own, or is gone. What
//! is not understood, or has no user or server here, stays with the other process.

use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use backend::stream::{self, Stream};
use engine::account::name::UserName;
use engine::backend_session::BackendSession;
use engine::cluster::writes::Tells;
use wire::Capabilities;

use crate::cluster::servers::ServerId;
use crate::config::Mode;
use crate::features::cached::written;
use crate::frontend::accounts;
use crate::frontend::client_task::{self, ClientPlace};
use crate::frontend::hidden;
use crate::frontend::learnt;
use crate::pool::keys::KeyId;
use crate::road::admit;
use crate::road::backend_task;
use crate::road::kill_orders;
use crate::routing::{clusters, freshness};
use crate::session::rights;
use crate::session::supply;
use crate::state::backend::Backend;
use crate::state::came_by::CameBy;
use crate::state::client::{Client, Login, Pinned, Routed};
use crate::state::description::{
    Arrival, Arrived, BackendDescription, ClientDescription, IdleDescription, KeyDescription,
};
use crate::state::worker::Worker;
use crate::users::User;

/// Why a client cannot come.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoArrival {
    #[error("its description is not understood: {0}")]
    Description(#[from] serde_json::Error),
    #[error("its sockets did not come with it")]
    Sockets,
    #[error("a client of this Flifo has its number")]
    Number,
    #[error("the Flifo before keeps it")]
    Kept,
    #[error("the configuration names its server no longer")]
    Server,
    #[error(
        "this Flifo does not have what a server asks of its user: no client of it has logged in here yet"
    )]
    User,
    #[error("there are too many different combinations of user, capabilities and collation")]
    Key,
    #[error("its backend connection ends results otherwise than it expects")]
    Form,
}

/// A client comes: orders to kill it wait for it from now on.
pub(crate) fn announce(worker: &Worker, id: u32) -> Result<(), NoArrival> {
    let (clients, mut arrivals) = (worker.clients.borrow(), worker.moves.arrivals.borrow_mut());
    if clients.contains_key(&id) || arrivals.contains_key(&id) {
        return Err(NoArrival::Number);
    }
    arrivals.insert(id, Arrival::default());
    Ok(())
}

/// Reads a client's description, and keeps the client until it is this process's own.
pub(crate) async fn expect(
    worker: &Rc<Worker>,
    description: &[u8],
    files: Vec<OwnedFd>,
) -> Result<(), NoArrival> {
    let client: ClientDescription = serde_json::from_slice(description)?;
    let mut files = files.into_iter();
    let socket = files.next().ok_or(NoArrival::Sockets)?;
    let backend_socket = files.next();
    if backend_socket.is_some() != client.backend.is_some() {
        return Err(NoArrival::Sockets);
    }
    let servers = &worker.shared.cluster.servers;
    let of_backend = client.backend.as_ref().map(|it| &it.server);
    for server in std::iter::once(&client.server).chain(of_backend) {
        server.find(servers).ok_or(NoArrival::Server)?;
    }
    let ends = |capabilities| Capabilities(capabilities).has(Capabilities::DEPRECATE_EOF);
    if client.backend.as_ref().is_some_and(|it| ends(it.capabilities) != ends(client.capabilities))
    {
        // An older Flifo has given it to the client, and ended results in the server's place.
        return Err(NoArrival::Form);
    }
    if let Some(key) = &client.key {
        let (_, user) = find_key(worker, key, client.capabilities).await?;
        let home = worker.shared.cluster.serving(&worker.plan(), key.user());
        hidden::begin(worker, home, key.user(), &user).await;
    }
    let mut arrivals = worker.moves.arrivals.borrow_mut();
    let arrival = arrivals.get_mut(&client.id).ok_or(NoArrival::Kept)?;
    arrival.arrived = Some(Arrived { client, socket, backend_socket });
    Ok(())
}

/// The client is this process's own from now on.
pub(crate) fn take(worker: &Rc<Worker>, id: u32) {
    let arrived = worker.moves.arrivals.borrow_mut().get_mut(&id).and_then(|it| it.arrived.take());
    if let Some(arrived) = arrived {
        // At once: a process without clients may end.
        worker.shared.clients.fetch_add(1, Ordering::AcqRel);
        let place = ClientPlace::counted(worker);
        let worker = Rc::clone(worker);
        crate::worker::tasks::contained(async move { settle(worker, arrived, place).await });
    }
}

/// The process before has ended: all that it has sent is this one's own.
pub(crate) fn take_all(worker: &Rc<Worker>) {
    let ids: Vec<_> = worker.moves.arrivals.borrow().keys().copied().collect();
    ids.into_iter().for_each(|id| take(worker, id));
}

/// The process before lives, and keeps what it has not said to be this one's own.
pub(crate) fn forget_all(worker: &Rc<Worker>) {
    let ids: Vec<_> = worker.moves.arrivals.borrow().keys().copied().collect();
    ids.into_iter().for_each(|id| forget(worker, id));
}

/// Nothing is expected of this client any more: it is served here, or not at all. Orders to kill it are carried out.
pub(crate) fn forget(worker: &Rc<Worker>, id: u32) {
    let arrival = worker.moves.arrivals.borrow_mut().remove(&id);
    let orders = arrival.map(|it| it.orders).unwrap_or_default();
    orders.into_iter().for_each(|order| kill_orders::obey(worker, order));
}

/// The key that an arrival's clients and backends have here, and whose it is.
async fn find_key(
    worker: &Worker,
    key: &KeyDescription,
    capabilities: u64,
) -> Result<(KeyId, Arc<User>), NoArrival> {
    let user = find_user(worker, key.user()).await.ok_or(NoArrival::User)?;
    let mut keys = worker.pool.keys.borrow_mut();
    let id = keys.id(key.key(user.era(), capabilities)).ok_or(NoArrival::Key)?;
    keys.own(id, &user);
    Ok((id, user))
}

/// The user of this name, if a backend can log in for it: with what is known here, or what the other process knew.
async fn find_user(worker: &Worker, name: &UserName) -> Option<Arc<User>> {
    let users = &worker.shared.proofs.users;
    if users.named(name).is_none()
        && learnt::may_learn(worker, name)
        && let Some(password) = worker.shared.proofs.bequeathed.password(name)
    {
        // Whether it is right, the server is asked.
        users.learn(name, &password);
    }
    let user = accounts::find(worker, name).await?;
    // Of a hash alone no backend can log in.
    let can_log_in =
        user.credential().is_some() || worker.shared.proofs.bequeathed.give(name, &user).await;
    can_log_in.then_some(user)
}

/// Serves a client that has come.
async fn settle(worker: Rc<Worker>, arrived: Arrived, _place: ClientPlace) {
    let Arrived { client: described, socket, backend_socket } = arrived;
    let key = match &described.key {
        // It was found before.
        Some(key) => match find_key(&worker, key, described.capabilities).await {
            Ok((id, user)) => {
                user.clients.force();
                Some((id, user))
            }
            Err(error) => {
                tracing::warn!(client = described.id, %error, "a client was lost");
                return forget(&worker, described.id);
            }
        },
        None => None,
    };
    let id = described.id;
    let client = client(&worker, described, socket, backend_socket, key.as_ref());
    let here = Rc::clone(&worker);
    // After the client's task has read what came with it: a statement of that may be the one to kill.
    crate::worker::tasks::vital(async move { forget(&here, id) });
    admit::work_off(&worker);
    match client {
        Ok(client) => client_task::serve(Rc::clone(&worker), client).await,
        Err(error) => tracing::warn!(%error, "a client was lost: its socket cannot be used"),
    }
}

fn client(
    worker: &Rc<Worker>,
    described: ClientDescription,
    socket: OwnedFd,
    backend_socket: Option<OwnedFd>,
    key: Option<&(KeyId, Arc<User>)>,
) -> std::io::Result<Rc<Client>> {
    let servers = &worker.shared.cluster.servers;
    let now = crate::worker::clock::now();
    let before = |age: Duration| now.checked_sub(age).unwrap_or(now);
    let stream = stream::Packed::of(socket)?.unpack()?;
    let mut session = described.session;
    session.settle(&mut worker.pool.interned.borrow_mut(), &mut worker.learnt.sources.borrow_mut());
    let has_schema = session.schema.is_some();
    let own_key = key.map(|(id, _)| id.with_schema(has_schema));
    let class = worker.class_of(&described.user, session.schema.as_deref(), described.peer);
    let own = match described.backend.zip(backend_socket) {
        Some((mut backend, socket)) => {
            let stream = stream::Packed::of(socket)?.unpack()?;
            backend.session.settle(&mut worker.pool.interned.borrow_mut());
            let own = adopt(worker, backend, stream, own_key);
            match key {
                Some((_, user)) => user.backends.force(),
                // What its user may have no longer, it keeps.
                None => {
                    let places = worker.shared.proofs.users.reserve_pass_through(&described.user);
                    *own.origin.places.borrow_mut() = places.unwrap_or_default();
                }
            }
            Some(own)
        }
        None => None,
    };
    let server = described.server.find(servers).map_or_else(ServerId::default, |server| server.id);
    let cluster = worker.shared.cluster.serving(&worker.plan(), &described.user);
    let mut client = Client::new(Login {
        id: described.id,
        stream,
        capabilities: Capabilities(described.capabilities),
        user: described.user,
        key: own_key,
        class,
        peer: described.peer,
        came_by: CameBy {
            listener: described.listener.unwrap_or_default().into(),
            program: described.program.unwrap_or_default().into(),
        },
        session,
        backend: own.clone(),
        server,
        mode: described.mode,
        routed: routed(worker, described.mode_by_route, described.cluster_by_route),
        cluster,
        more: described.more,
        sequence: described.login_sequence,
        vouched: None,
    });
    client.logged.since = before(described.age);
    client.times.transaction.set(described.transaction.map(before));
    let client = Rc::new(client);
    client.several.set(described.several);
    client.routing.gtid.set(described.gtid.map(Vec::into_boxed_slice));
    clusters::settle(worker, &client);
    freshness::arrive(worker, &client, now);
    for server in described.wrote.iter().filter_map(|server| server.find(servers)) {
        // When it was is not known to this clock: at the latest now.
        client.routing.past.change(|past| past.writes.note(server.id.0, now, Tells::Nothing));
    }
    client.prepared_changes.set(described.prepared_changes);
    let pinned = |(pin, age)| Pinned { pin, digest: None, since: before(age) };
    client.pinned.set(described.pinned.map(pinned));
    if let Some(own) = own {
        written::arrive(worker, &client, &own);
        *own.holder.borrow_mut() = Some(Rc::clone(&client));
        crate::worker::tasks::contained(backend_task::serve(Rc::clone(worker), own));
    }
    worker.add_client(&client);
    Ok(client)
}

/// What a route had said of a client. A cluster that is not there any more is its user's own.
fn routed(worker: &Worker, mode: Option<Mode>, cluster: Option<String>) -> Option<Routed> {
    let named = cluster.and_then(|name| worker.shared.cluster.named(&name));
    Some(Routed { mode: mode?, cluster: named.map(|members| members.id) })
}

/// A backend as this worker's own. One that its client holds keeps its number: its client's session may name it.
fn adopt(
    worker: &Worker,
    described: BackendDescription<BackendSession>,
    stream: Stream,
    key: Option<KeyId>,
) -> Rc<Backend> {
    let servers = &worker.shared.cluster.servers;
    let server = described.server.find(servers).map_or_else(ServerId::default, |server| server.id);
    let session = described.session;
    let key = key.map(|key| key.with_schema(session.schema.is_some()));
    let capabilities = Capabilities(described.capabilities);
    let mut backend =
        Backend::new(session.id, server, described.thread_id, stream, capabilities, key);
    let now = crate::worker::clock::now();
    backend.origin.opened = now.checked_sub(described.age).unwrap_or(now);
    backend.origin.young_until = rights::young_until(worker, backend.origin.opened);
    backend.reports = !session.is_silent;
    let backend = Rc::new(backend);
    backend.session.replace(session);
    backend.bytes.ahead.replace(described.ahead);
    described.statements.into_iter().for_each(|statement| backend.close_statement(statement));
    backend.taint.set(described.taint);
    // An older Flifo ended results in the server's place.
    let ends_otherwise = key.is_some_and(|key| {
        let of_key = worker.pool.keys.borrow().get(key).capabilities;
        of_key.has(Capabilities::DEPRECATE_EOF) != capabilities.has(Capabilities::DEPRECATE_EOF)
    });
    backend.fate.is_left_behind.set(described.is_left_behind || ends_otherwise);
    if let Some(key) = key {
        worker.at(server).gate.borrow_mut().adopted(key);
    }
    worker.add_backend(&backend);
    backend
}

/// A backend has come that no client has.
pub(crate) async fn store(
    worker: &Rc<Worker>,
    description: &[u8],
    files: Vec<OwnedFd>,
) -> Result<(), NoArrival> {
    let described: IdleDescription = serde_json::from_slice(description)?;
    let socket = files.into_iter().next().ok_or(NoArrival::Sockets)?;
    let key = described.key.as_ref().ok_or(NoArrival::Key)?;
    let (key, user) = find_key(worker, key, described.capabilities).await?;
    let servers = &worker.shared.cluster.servers;
    let server = described.server.find(servers).ok_or(NoArrival::Server)?.id;
    let stream = stream::Packed::of(socket).and_then(stream::Packed::unpack);
    let stream = stream.map_err(|_| NoArrival::Sockets)?;
    let id = worker.new_backend_id();
    let described = described.map(|it| it.unpack(id, &mut worker.pool.interned.borrow_mut()));
    let key = key.with_schema(described.session.schema.is_some());
    let backend = adopt(worker, described, stream, Some(key));
    user.backends.force();
    supply::return_to_pool(worker, key, &backend);
    crate::worker::tasks::contained(backend_task::serve(Rc::clone(worker), backend));
    worker.agenda.look_at(server);
    admit::work_off(worker);
    Ok(())
}
