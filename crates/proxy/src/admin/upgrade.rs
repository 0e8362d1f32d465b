//! Another Flifo takes over from this one: `UPGRADE` on the console, `flifo upgrade`.
//!
//! The keeper starts the program that stands where this one was started from, by now perhaps a newer one, with the same
//! arguments. When that has made all ready, this Flifo stops accepting, and its clients follow, each as soon as it is at
//! rest ([`crate::succession::departure`]). Until the new one is ready nothing changes here; if it ends before this one has
//! nothing left, this one accepts again.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use engine::kill::Neighbour;
use engine::waves::Waves;
use sys::keeper::Keeper;
use sys::passing::Passage;
use tokio::sync::{Mutex, mpsc, oneshot, watch};
use view::digests::Told;

use crate::admin::{self, Doors, NewDoors};
use crate::config::Listen;
use crate::frontend::listener;
use crate::frontend::passed::{Passed, Purpose};
use crate::road::kill_orders;
use crate::state::description::{Departure, Reception};
use crate::state::predecessor::{self, HELD, Left};
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use crate::succession::arrivals::{Conversation, Silence};
use crate::succession::departure;
use crate::upkeep::report;
use crate::worker::counters::Totals;

/// Has another Flifo take over when it is asked to.
pub(crate) struct Upgrader {
    shared: Arc<Shared>,
    keeper: Result<Arc<Keeper>, String>,
    doors: mpsc::UnboundedSender<NewDoors>,
    stages: mpsc::UnboundedSender<Stage>,
    /// One at a time.
    alone: Mutex<()>,
}

/// How far it has come, for what starts and stops with the process.
#[derive(Debug)]
pub(crate) enum Stage {
    /// The machine is to be as it was; the answer says that it is.
    Departs(oneshot::Sender<()>),
    /// The other one has ended: this one goes on.
    Stays,
    /// This one has nothing left. The other one has this number.
    Gone(u32),
    /// What is left is not waited for any longer.
    Late,
}

/// What has come of it.
#[derive(Debug)]
pub(crate) struct Upgraded {
    pub(crate) pid: u32,
    pub(crate) version: String,
    /// Clients that have gone already, and those that go as soon as they can.
    pub(crate) moved: usize,
    pub(crate) left: usize,
    /// Why these have not gone.
    pub(crate) why: String,
}

/// A client at rest goes within milliseconds; for others the answer does not wait longer.
const SOON: Duration = Duration::from_secs(5);

/// How often what is left is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// How often the other one is told what was counted.
const COUNT: Duration = Duration::from_millis(100);

/// Behind the last client, the answer to `UPGRADE` is still on its way.
const FAREWELL: Duration = Duration::from_secs(1);

impl Upgrader {
    pub(crate) fn new(
        shared: Arc<Shared>,
        keeper: Result<Arc<Keeper>, String>,
        doors: mpsc::UnboundedSender<NewDoors>,
        stages: mpsc::UnboundedSender<Stage>,
    ) -> Self {
        Self { shared, keeper, doors, stages, alone: Mutex::default() }
    }

    /// Has the other Flifo take over. An error says why nothing has changed.
    pub(crate) async fn upgrade(&self) -> Result<Upgraded, String> {
        let Ok(_alone) = self.alone.try_lock() else {
            return Err("another Flifo takes over already".to_owned());
        };
        if self.shared.is_departing() || self.shared.is_stopping() {
            return Err("this Flifo ends already".to_owned());
        }
        let done = self.try_upgrade().await;
        if let Err(why) = &done {
            tracing::error!(why, "no other Flifo takes over");
        }
        done
    }

    async fn try_upgrade(&self) -> Result<Upgraded, String> {
        if std::process::id() == 1 {
            return Err(
                "this Flifo is the first process of its container, which would end with it: start \
                 another container"
                    .to_owned(),
            );
        }
        let keeper = self.keeper.clone()?;
        let sockets = self.shared.listening.all().map_err(|error| error.to_string())?;
        let (own, its) = Passage::pair().map_err(|error| error.to_string())?;
        let conversation = Arc::new(Conversation::new(own));
        let (shared, talk) = (Arc::clone(&self.shared), Arc::clone(&conversation));
        let prepared = tokio::task::spawn_blocking(move || {
            let pid = keeper.start_next(&its.into_file()).map_err(|error| error.to_string())?;
            tracing::info!(pid, "another Flifo was started, to take over");
            let greeting = talk.prepare(&shared, sockets).map_err(|error| {
                format!("the Flifo that was started as process {pid} does not take over: {error}; its log says more")
            })?;
            Ok::<_, String>((pid, greeting.version))
        });
        let prepared = prepared.await.unwrap_or_else(|error| Err(error.to_string()));
        let (pid, version) = prepared.inspect_err(|_| conversation.close())?;
        let clients = self.shared.clients.load(Ordering::Relaxed);
        self.stop_accepting().await;
        if let Err(error) = conversation.go(&self.shared) {
            self.accept_again().await;
            return Err(format!("process {pid} has ended: {error}"));
        }
        tracing::info!(
            pid,
            version,
            clients,
            "another Flifo takes over: clients go there as soon as they can"
        );
        // The other one has the rest of the connections.
        for server in self.shared.cluster.servers.iter() {
            let limit = server.backends.limit();
            server.backends.set_elsewhere(limit - limit / 2, |_| {});
        }
        self.depart(&conversation, pid);
        let begun = crate::worker::clock::read();
        let mut left = clients;
        while left > 0 && crate::worker::clock::since(begun) < SOON && self.shared.is_departing() {
            tokio::time::sleep(LOOK).await;
            left = self.shared.clients.load(Ordering::Relaxed);
        }
        match self.shared.is_departing() {
            true => {
                let why = if left > 0 { self.left().await.told() } else { String::new() };
                if left > 0 {
                    tracing::info!(left, why, "clients stay with this Flifo (limits.upgrade)");
                }
                Ok(Upgraded { pid, version, moved: clients.saturating_sub(left), left, why })
            }
            false => Err(format!(
                "process {pid} has ended; this Flifo goes on with the clients that it has"
            )),
        }
    }

    /// Closes all that is listened on, but for the sockets that the other Flifo has as well.
    async fn stop_accepting(&self) {
        self.shared.depart(true);
        let (tell, undone) = oneshot::channel();
        // What changes the machine is the other Flifo's from now on.
        if self.stages.send(Stage::Departs(tell)).is_ok() {
            let _ = undone.await;
        }
        let plan = self.shared.plan();
        let closed = plan.console.listen.iter().chain(&plan.http.listen).cloned().collect();
        let _ = self.doors.send(NewDoors { opened: Doors::default(), closed });
        let listen = plan.listen.clone();
        let closed = self.shared.ask(0, move |worker| {
            listen.iter().for_each(|listen| listener::close(worker, listen));
        });
        let _ = closed.await;
    }

    /// The other Flifo has ended: this one is to be the one again.
    async fn accept_again(&self) {
        self.shared.depart(false);
        predecessor::share(&self.shared, |_| 0);
        kill_orders::part(&self.shared, Neighbour::After);
        for worker in 0..self.shared.worker_count() {
            let _ = self.shared.ask(worker, departure::cancel).await;
        }
        let _ = self.stages.send(Stage::Stays);
        let opened = match self.reopened() {
            Ok(opened) => opened,
            Err(why) => {
                return tracing::error!(why, "no client can come in any more: start Flifo again");
            }
        };
        let (listeners, doors) = opened;
        let _ = self.doors.send(NewDoors { opened: doors, closed: Vec::new() });
        let opened = self.shared.ask(0, move |worker| {
            for (listen, listener) in listeners {
                listener::open(worker, &listen, listener);
            }
        });
        let _ = opened.await;
        tracing::error!(
            "the Flifo that was to take over has ended: this one accepts clients again"
        );
    }

    fn reopened(&self) -> Result<(Vec<(Listen, listener::Listener)>, Doors), String> {
        let plan = self.shared.plan();
        let sockets = self.shared.listening.all().map_err(|error| error.to_string())?;
        let kept = sockets.into_iter().map(|it| (it.door.0.to_owned(), it.is_own_path, it.socket));
        let mut passed = Passed::taken_over(kept).map_err(|error| error.to_string())?;
        let mut listeners = Vec::new();
        for listen in &plan.listen {
            if let Some(listener) = passed.take(Purpose::Clients, listen, plan.backlog) {
                listeners.push((listen.clone(), listener.map_err(|error| error.to_string())?));
            }
        }
        let doors = admin::bind(&plan, None, &mut passed, listener::bind);
        Ok((listeners, doors.map_err(|(listen, error, _)| format!("{listen}: {error}"))?))
    }

    /// Has all workers send their clients, and waits for the end apart from what is asked here.
    fn depart(&self, conversation: &Arc<Conversation>, pid: u32) {
        let (tell, departures) = std::sync::mpsc::channel();
        let (ended, silence) = watch::channel(None);
        let talk = Arc::clone(conversation);
        // It ends with the last worker's departures.
        tokio::task::spawn_blocking(move || {
            if let Err(error) = talk.send_all(&departures) {
                tracing::debug!(%error, "the Flifo that takes over hears no more");
            }
        });
        let (talk, shared) = (Arc::clone(conversation), Arc::clone(&self.shared));
        tokio::task::spawn_blocking(move || {
            let silence = talk.hear_receptions(&shared, |worker, client, verdict, why| {
                if verdict == Reception::Refused {
                    tracing::debug!(client, why, "a client stays with this Flifo for now");
                }
                if worker < shared.worker_count() {
                    shared
                        .have_done(worker, move |worker| departure::hear(worker, client, verdict));
                }
            });
            let _ = ended.send(Some(silence));
        });
        let orders = tell.clone();
        // If it is gone, the orders come back when that is heard.
        let ask = move |message| drop(orders.send(Departure::Kill(message)));
        self.shared.succession.neighbours.join(Neighbour::After, Arc::new(ask));
        for worker in 0..self.shared.worker_count() {
            let tell = tell.clone();
            self.shared.have_done(worker, move |worker| departure::begin(worker, tell));
        }
        let own = Self {
            shared: Arc::clone(&self.shared),
            keeper: self.keeper.clone(),
            doors: self.doors.clone(),
            stages: self.stages.clone(),
            alone: Mutex::default(),
        };
        crate::worker::tasks::vital(async move { own.see_off(&tell, silence, pid).await });
    }

    /// Waits until nothing is left, or the other Flifo ends.
    async fn see_off(
        &self,
        tell: &std::sync::mpsc::Sender<Departure>,
        silence: watch::Receiver<Option<Silence>>,
        pid: u32,
    ) {
        let (begun, limit) = (crate::worker::clock::read(), self.shared.plan().limits.upgrade);
        let (mut counted, mut waves) = (Totals::default(), None);
        let _ = tell.send(Departure::Digests(self.digests().await));
        loop {
            let ended = *silence.borrow();
            match ended {
                // Also where none is left: clients that come must be served. Those that it has not taken go on here.
                Some(Silence::Gone) => return self.accept_again().await,
                Some(Silence::Confused) => break,
                None => {}
            }
            let totals = self.totals().await;
            // It is told to the other one for as long as that is there.
            let held = self.shared.cluster.servers.iter();
            let held = held.map(|it| (format!("{HELD}{}", it.name), u64::from(it.backends.held())));
            let stays = self.left().await;
            let now = stays.totals().chain(held);
            let _ = tell.send(Departure::Count(totals.clone().since(&counted).with(now)));
            counted = totals;
            if crate::worker::clock::since(begun) >= SOON {
                self.send_away(&mut waves, stays.bound()).await;
            }
            // What comes from the Flifo before this one goes on to the next: it is counted before arriving is over.
            let is_arriving = self.shared.is_arriving();
            let left = self.shared.clients.load(Ordering::Acquire);
            if left == 0 && !is_arriving {
                break;
            }
            if limit.is_some_and(|limit| crate::worker::clock::since(begun) >= limit) {
                tracing::warn!(
                    left,
                    "clients that cannot go to the other Flifo are ended (limits.upgrade)"
                );
                let _ = self.stages.send(Stage::Late);
                return;
            }
            tokio::time::sleep(COUNT).await;
        }
        let _ = tell.send(Departure::Digests(self.digests().await));
        let _ = tell.send(Departure::End);
        let mut last = silence.clone();
        let is_gone =
            tokio::time::timeout(FAREWELL, last.wait_for(|ended| *ended == Some(Silence::Gone)));
        if let Ok(Ok(_)) = is_gone.await {
            // Clients that come must be served.
            return self.accept_again().await;
        }
        tracing::info!(pid, "all clients are the other Flifo's: this one ends");
        let _ = self.stages.send(Stage::Gone(pid));
    }

    /// Ends as many of the clients that stay as are due, if they are to go in waves.
    async fn send_away(&self, waves: &mut Option<Waves>, bound: usize) {
        let Some(span) = self.shared.plan().limits.upgrade_waves else { return };
        let now = crate::worker::clock::read();
        let waves = waves.get_or_insert_with(|| {
            tracing::info!(
                clients = bound,
                "clients that cannot go are ended one after the other (limits.upgrade_waves)"
            );
            Waves::new(bound, now, span)
        });
        let mut due = waves.due(bound, now);
        for worker in 0..self.shared.worker_count() {
            if due > 0 {
                let ended = self.shared.ask(worker, move |it| departure::send_away(it, due)).await;
                due = due.saturating_sub(ended.unwrap_or(0));
            }
        }
    }

    /// What statements have cost at all workers, which is the other one's to tell from now on.
    async fn digests(&self) -> Vec<Told> {
        let mut lists = Vec::new();
        for worker in 0..self.shared.worker_count() {
            let told = self.shared.ask(worker, |worker| {
                let told = report::digests(worker);
                worker.learnt.tally.reset_digests();
                told
            });
            lists.extend(told.await);
        }
        view::digests::join(lists)
    }

    /// Why clients are still here.
    async fn left(&self) -> Left {
        let mut left = Left::default();
        for worker in 0..self.shared.worker_count() {
            left = left.plus(self.shared.ask(worker, departure::left).await.unwrap_or_default());
        }
        left
    }

    /// What all workers have counted.
    async fn totals(&self) -> Totals {
        let mut totals = Totals::default();
        for worker in 0..self.shared.worker_count() {
            if let Ok(one) = self.shared.ask(worker, totals_of).await {
                totals = totals.plus(&one);
            }
        }
        totals
    }
}

/// What a worker has counted.
fn totals_of(worker: &Rc<Worker>) -> Totals {
    worker.counters.totals().with(worker.learnt.tally.error_totals())
}
