//! What is seen of Flifo from outside, and done to it: the console and the HTTP port, on a thread of their own.
//!
//! Meets the workers through mail alone: a worker that is asked tells what it has counted, in a turn of its own. So
//! nothing here is on the road of a statement, and a visitor that asks nothing costs nothing.

mod actions;
mod any_server;
mod binlogs;
mod blockers;
mod cached;
mod catalog;
mod console;
pub mod health;
mod help;
mod http;
mod listings;
mod metrics;
mod mirrors;
mod placement;
mod proxysql;
mod queries;
pub(crate) mod reload;
pub mod remote;
mod reset;
mod resultset;
pub mod rules;
mod servers;
mod stats;
mod succession;
mod survey;
mod tables;
pub(crate) mod upgrade;
mod visits;
mod wrong_tokens;

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use std::{io, thread};

use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Mutex, mpsc};

use self::queries::Queries;
use self::reload::Reloader;
use self::upgrade::Upgrader;
use self::visits::Room;
use crate::config::{Console, Http, Listen, Plan};
use crate::frontend::listener::{self, Audience, Bind, Listener};
use crate::frontend::passed::{Passed, Purpose};
use crate::state::shared::Shared;

/// The sockets on which Flifo is asked and told.
#[derive(Debug, Default)]
pub(crate) struct Doors {
    console: Vec<(Listen, Listener)>,
    http: Vec<(Listen, Listener)>,
}

/// What a reload does to doors.
#[derive(Debug, Default)]
pub(crate) struct NewDoors {
    pub(crate) opened: Doors,
    pub(crate) closed: Vec<Listen>,
}

/// What both doors lead to.
pub(crate) struct Outside {
    shared: Arc<Shared>,
    reloader: Arc<Reloader>,
    upgrader: Arc<Upgrader>,
    /// Places for connections to the HTTP port, and more of them for questions after health.
    requests: Room,
    spare: Room,
    /// Places for clients of the console: clients that may only look, and clients that may change things.
    lookers: Room,
    administrators: Room,
    wrong_tokens: wrong_tokens::WrongTokens,
    /// When the server was last asked whether it greets.
    looked: Mutex<Option<Instant>>,
    /// The number of the console's next client.
    next_session: Cell<u32>,
    survey: survey::Survey,
    /// Answer what the console is asked, and the HTTP port, where a token may not be needed.
    queries: Queries,
    requested: Queries,
    /// What counters were when they were last reset.
    baseline: reset::Baseline,
    started: SystemTime,
}

/// Binds what the plan names and the one before, if there was one, did not; what was passed is used instead. Only a
/// default address may fail to bind. An error comes with the option's name.
pub(crate) fn bind(
    plan: &Plan,
    before: Option<&Plan>,
    passed: &mut Passed,
    open: Bind,
) -> Result<Doors, (Listen, io::Error, &'static str)> {
    let mut bind =
        |purpose: Purpose, listeners: &[Listen], before: &[Listen], default: &[Listen]| {
            let mut bound = Vec::new();
            for listen in listeners.iter().filter(|listen| !before.contains(listen)) {
                let given = passed.take(purpose, listen, BACKLOG);
                match given.unwrap_or_else(|| open(listen, BACKLOG, Audience::Owner)) {
                    Ok(listener) => bound.push((listen.clone(), listener)),
                    Err(error) if listeners != default => {
                        return Err((listen.clone(), error, purpose.option()));
                    }
                    Err(error) => {
                        let why = listener::explain(listen, &error, purpose.option());
                        tracing::warn!(%listen, why, "admin interface unavailable");
                    }
                }
            }
            Ok(bound)
        };
    let (console, http) = (Console::default().listen, Http::default().listen);
    let console_before = before.map_or(&[][..], |plan| &plan.console.listen);
    let http_before = before.map_or(&[][..], |plan| &plan.http.listen);
    Ok(Doors {
        console: bind(Purpose::Console, &plan.console.listen, console_before, &console)?,
        http: bind(Purpose::Http, &plan.http.listen, http_before, &http)?,
    })
}

/// Out of descriptors or memory: visitors that are not accepted yet can wait.
async fn pause(error: &io::Error) {
    tracing::warn!("admin interface unavailable: cannot accept a connection: {error}");
    tokio::time::sleep(Duration::from_millis(100)).await;
}

/// How many places a door has: fewer than usual where the process may open few files. There are four kinds of places.
fn places(most: usize, shared: &Shared) -> usize {
    most.min(shared.cluster.dialer.descriptors.administration() / 4).max(1)
}

/// So many times as long as an answer of the HTTP port takes, none is computed: they take a quarter of a CPU at most.
const HTTP_REST: u32 = 3;

/// Few visitors connect at once.
const BACKLOG: u32 = 64;

/// Opens the doors, and those that come with a reload.
pub(crate) fn open(
    shared: &Arc<Shared>,
    doors: Doors,
    (reloader, upgrader): (&Arc<Reloader>, &Arc<Upgrader>),
    changes: mpsc::UnboundedReceiver<NewDoors>,
) -> io::Result<()> {
    let shared = Arc::clone(shared);
    let (reloader, upgrader) = (Arc::clone(reloader), Arc::clone(upgrader));
    let (queries, requested) =
        (Queries::start("queries", 0)?, Queries::start("requests", HTTP_REST)?);
    let serve = move || {
        let runtime =
            Builder::new_current_thread().enable_all().build_local(LocalOptions::default());
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return tracing::error!(%error, "neither console nor HTTP port"),
        };
        runtime.block_on(async move {
            let room = |most: usize| Room::new(places(most, &shared));
            let outside = Rc::new(Outside {
                requests: room(http::CONNECTIONS_MAX),
                spare: room(http::SPARE_MAX),
                lookers: room(console::CLIENTS_MAX),
                administrators: room(console::CLIENTS_MAX),
                wrong_tokens: wrong_tokens::WrongTokens::default(),
                survey: survey::Survey::default(),
                queries,
                requested,
                baseline: reset::Baseline::default(),
                started: SystemTime::now(),
                shared,
                reloader,
                upgrader,
                looked: Mutex::default(),
                next_session: Cell::new(1),
            });
            attend(&outside, doors, changes).await;
        });
    };
    let builder = thread::Builder::new().name("outside".to_owned()).stack_size(view::sql::STACK);
    crate::worker::tasks::thread(builder, serve)?;
    Ok(())
}

/// Opens and closes doors for as long as the process lives.
async fn attend(
    outside: &Rc<Outside>,
    doors: Doors,
    mut changes: mpsc::UnboundedReceiver<NewDoors>,
) {
    let mut open = HashMap::new();
    let mut next = Some(NewDoors { opened: doors, closed: Vec::new() });
    while let Some(NewDoors { opened, closed }) = next {
        for (listen, listener) in opened.http {
            listener::keep(&outside.shared, Purpose::Http, &listen, &listener);
            let path = listener.own_path(&listen);
            let door = crate::worker::tasks::vital(http::serve(Rc::clone(outside), listener));
            open.insert(listen, (door, path));
        }
        for (listen, listener) in opened.console {
            listener::keep(&outside.shared, Purpose::Console, &listen, &listener);
            let path = listener.own_path(&listen);
            let door = crate::worker::tasks::vital(console::serve(Rc::clone(outside), listener));
            open.insert(listen, (door, path));
        }
        for listen in closed {
            let Some((door, path)) = open.remove(&listen) else { continue };
            // Visitors that are in stay.
            door.abort();
            if !outside.shared.is_departing() {
                for purpose in [Purpose::Http, Purpose::Console] {
                    outside.shared.listening.remove(&(purpose.name(), listen.to_string()));
                }
                // It may be gone already.
                path.map(std::fs::remove_file);
            }
        }
        next = changes.recv().await;
    }
}
