//! The thread that sends copies: for each rule a queue of them, for each server the connections that rest.
//!
//! Invariants: a rule has no more connections than copies that it may run at once; a copy that has taken too long is
//! given up, and its connection closed; a server that could not be reached is left alone for a while; the log is told
//! of each mirror's troubles once in a minute.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use engine::mirror::compare::{compare, is_of_moment};
use engine::mirror::comparisons::Compared;
use engine::mirror::fit::MirrorTakes;
use engine::mirror::queue::{MirrorBounds, MirrorQueue, Offer};
use engine::mirror::{MirrorState, Reminder, Unmirrored};
use engine::statement::without_literals;
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use wire::Capabilities;
use wire::text::Lexed;

use crate::cluster::Cluster;
use crate::cluster::members::Members;
use crate::cluster::servers::{Server, ServerId};
use crate::config::Mode;
use crate::mirror::connection::{MirrorConnection, MirrorReply, NoReply};
use crate::mirror::copies::MirrorCopy;
use crate::mirror::leave_out;
use crate::users::User;
use crate::worker::steps::step;

/// A connection that rests is closed after so long, and any after so long: what its user may do can have changed.
const REST: Duration = Duration::from_secs(10);
const AGE: Duration = Duration::from_secs(60);

/// Connections that rest are looked at so often.
const TIDY: Duration = Duration::from_secs(1);

/// A server that did not let a user in is not asked again for so long.
const PAUSE: Duration = Duration::from_secs(1);

/// Rules whose troubles are remembered.
const REMINDERS_MAX: usize = 10_000;

/// What the thread has.
pub(super) struct Sender {
    cluster: Arc<Cluster>,
    queues: RefCell<HashMap<usize, MirrorQueue<Box<MirrorCopy>>>>,
    resting: RefCell<Vec<Resting>>,
    /// When servers have failed users.
    failed: RefCell<HashMap<(ServerId, UserName), Instant>>,
    reminders: RefCell<HashMap<String, Reminder>>,
    /// Takes readers in turn.
    turn: Cell<u64>,
}

/// A connection without a copy.
struct Resting {
    door: Door,
    opened: Instant,
    since: Instant,
    connection: MirrorConnection,
}

/// What connections must have in common to take a copy.
struct Door {
    server: ServerId,
    state: Arc<MirrorState>,
    user: Arc<User>,
    generation: u32,
    capabilities: Capabilities,
    collation: u8,
    takes: MirrorTakes,
    within: Duration,
    /// A session cannot be told to be in no schema.
    has_schema: bool,
}

impl Door {
    fn of(server: ServerId, copy: &MirrorCopy) -> Self {
        let client = &copy.client;
        Self {
            server,
            state: Arc::clone(copy.held.of()),
            user: Arc::clone(&client.user),
            generation: client.user.generation(),
            capabilities: client.capabilities,
            collation: client.collation,
            takes: copy.mirror.takes(),
            within: copy.mirror.within,
            has_schema: client.schema.is_some(),
        }
    }

    fn is_same(&self, other: &Self) -> bool {
        let key = |it: &Self| {
            let what = (it.capabilities, it.collation, it.takes, it.within, it.has_schema);
            (it.server, it.generation, what)
        };
        key(self) == key(other)
            && Arc::ptr_eq(&self.state, &other.state)
            && Arc::ptr_eq(&self.user, &other.user)
    }
}

impl Sender {
    /// Starts the thread, which ends with the process.
    pub(super) fn start(
        cluster: Arc<Cluster>,
        copies: mpsc::UnboundedReceiver<Box<MirrorCopy>>,
    ) -> io::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let work = move || {
            let sender = Rc::new(Self {
                cluster,
                queues: RefCell::default(),
                resting: RefCell::default(),
                failed: RefCell::default(),
                reminders: RefCell::default(),
                turn: Cell::default(),
            });
            LocalSet::new().block_on(&runtime, sender.work(copies));
        };
        let builder = std::thread::Builder::new().name("mirror".to_owned());
        crate::worker::tasks::thread(builder, work).map(drop)
    }

    async fn work(self: Rc<Self>, mut copies: mpsc::UnboundedReceiver<Box<MirrorCopy>>) {
        loop {
            let rests = !self.resting.borrow().is_empty();
            tokio::select! {
                biased;
                copy = copies.recv() => match copy {
                    Some(copy) => self.take(copy),
                    None => return,
                },
                () = tokio::time::sleep(TIDY), if rests => self.tidy(crate::worker::clock::read()),
            }
        }
    }

    fn take(self: &Rc<Self>, copy: Box<MirrorCopy>) {
        let state = Arc::clone(copy.held.of());
        let (bounds, since) = (copy.mirror.bounds(), copy.ended);
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(queue_of(&state)).or_default();
        let offer = queue.offer(copy, since, bounds);
        see(&state, queue);
        drop(queues);
        match offer {
            Offer::Runs(copy) => {
                let sender = Rc::clone(self);
                crate::worker::tasks::vital(async move { sender.run(copy).await });
            }
            Offer::Waits => {}
            Offer::Full(copy) => leave_out(&copy, Unmirrored::Full),
        }
    }

    /// Runs a copy, and those that wait for its place.
    async fn run(&self, mut copy: Box<MirrorCopy>) {
        loop {
            let (state, bounds) = (Arc::clone(copy.held.of()), copy.mirror.bounds());
            step!("mirror");
            self.settle(&copy).await;
            drop(copy);
            let Some(next) = self.next(&state, bounds) else { return };
            copy = next;
        }
    }

    fn next(&self, state: &Arc<MirrorState>, bounds: MirrorBounds) -> Option<Box<MirrorCopy>> {
        let mut queues = self.queues.borrow_mut();
        let queue = queues.get_mut(&queue_of(state))?;
        let (next, late) = queue.next(crate::worker::clock::read(), bounds);
        late.iter().for_each(|copy| leave_out(copy, Unmirrored::Late));
        see(state, queue);
        if queue.is_idle() {
            queues.remove(&queue_of(state));
        }
        next
    }

    /// Runs a copy within its time, and compares.
    async fn settle(&self, copy: &MirrorCopy) {
        if copy.held.of().is_removed() {
            return leave_out(copy, Unmirrored::Removed);
        }
        let chosen = self.cluster.named(&copy.mirror.cluster).and_then(|it| self.choose(it, copy));
        let Some(server) = chosen else {
            return self.fail(copy, "", Unmirrored::NoServer, "no server takes such statements");
        };
        if self.rests(server, copy) {
            return leave_out(copy, Unmirrored::Unreachable);
        }
        let left = copy.mirror.within.saturating_sub(crate::worker::clock::since(copy.ended));
        match tokio::time::timeout(left, self.send(server, copy)).await {
            // The server may be well, and this statement long.
            Err(_) => {
                self.fail(copy, &server.name, Unmirrored::Late, "it did not answer in time");
            }
            Ok(Err(error)) => {
                if matches!(error, NoReply::NoBackend(_)) {
                    self.rest(server, copy);
                }
                self.fail(copy, &server.name, error.reason(), &error.to_string());
            }
            Ok(Ok(reply)) => compare_with(copy, &server.name, &reply),
        }
    }

    /// Which server of the mirror's cluster a copy goes to.
    fn choose<'c>(&self, members: &'c Members, copy: &MirrorCopy) -> Option<&'c Arc<Server>> {
        let is_read = copy.is_read;
        let to_reader = match members.mode() {
            Mode::Writer => false,
            Mode::Readers | Mode::Split => is_read,
        };
        let writer = members.writer();
        let usable = |it: &&Arc<Server>| members.is_usable(it.id);
        if to_reader {
            let readers: Vec<_> = members
                .servers()
                .filter(usable)
                .filter(|it| members.is_reader(it.id))
                .map(|it| (it, u64::from(members.share(it.id))))
                .collect();
            if let Some(reader) = self.in_turn(&readers) {
                return Some(reader);
            }
        }
        members.servers().filter(usable).find(|it| Some(it.id) == writer)
    }

    /// Takes one of these, each as often as its weight says.
    fn in_turn<'c>(&self, all: &[(&'c Arc<Server>, u64)]) -> Option<&'c Arc<Server>> {
        let sum: u64 = all.iter().map(|(_, weight)| weight).sum();
        // Steps of the golden ratio spread turns evenly.
        let turn = self.turn.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.turn.set(turn);
        let mut at = ((u128::from(turn) * u128::from(sum)) >> 64) as u64;
        for (server, weight) in all {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return Some(server),
            }
        }
        None
    }

    async fn send(&self, server: &Server, copy: &MirrorCopy) -> Result<MirrorReply, NoReply> {
        let door = Door::of(server.id, copy);
        let (mut connection, opened) = match self.rested(&door) {
            Some(rested) => rested,
            None => {
                let Door { takes, within, .. } = door;
                let dialer = &self.cluster.dialer;
                let client = &copy.client;
                let opened = crate::worker::clock::read();
                (MirrorConnection::open(dialer, server, client, takes, within).await?, opened)
            }
        };
        let reply = connection.run(&copy.client, &copy.command).await?;
        let since = crate::worker::clock::read();
        if since.saturating_duration_since(opened) < AGE {
            let mut resting = self.resting.borrow_mut();
            let of_rule = |it: &Resting| Arc::ptr_eq(&it.door.state, &door.state);
            // Of other users, or other servers: the one that has rested for longest gives way.
            if resting.iter().filter(|it| of_rule(it)).count() >= copy.mirror.at_once as usize
                && let Some(oldest) = resting.iter().position(of_rule)
            {
                resting.remove(oldest);
            }
            resting.push(Resting { door, opened, since, connection });
        }
        Ok(reply)
    }

    /// A connection that can take a copy for this door.
    fn rested(&self, door: &Door) -> Option<(MirrorConnection, Instant)> {
        let mut resting = self.resting.borrow_mut();
        while let Some(at) = resting.iter().rposition(|it| it.door.is_same(door)) {
            let Resting { connection, opened, .. } = resting.remove(at);
            if connection.is_still() {
                return Some((connection, opened));
            }
        }
        None
    }

    /// Whether this server has just failed the user.
    fn rests(&self, server: &Server, copy: &MirrorCopy) -> bool {
        let failed = self.failed.borrow();
        let at = failed.get(&(server.id, copy.client.name.clone()));
        at.is_some_and(|at| crate::worker::clock::since(*at) < PAUSE)
    }

    fn rest(&self, server: &Server, copy: &MirrorCopy) {
        let mut failed = self.failed.borrow_mut();
        failed.retain(|_, at| crate::worker::clock::since(*at) < PAUSE);
        failed.insert((server.id, copy.client.name.clone()), crate::worker::clock::read());
    }

    fn fail(&self, copy: &MirrorCopy, server: &str, why: Unmirrored, error: &str) {
        leave_out(copy, why);
        let mut reminders = self.reminders.borrow_mut();
        if reminders.len() >= REMINDERS_MAX {
            // Reloads have given rules other names.
            reminders.clear();
        }
        let reminder = reminders.entry(copy.rule.clone()).or_default();
        if let Some(left_out) = reminder.tell(crate::worker::clock::read()) {
            let (rule, cluster, user) = (&copy.rule, &copy.mirror.cluster, &copy.client.name);
            let why = why.name();
            tracing::warn!(
                rule, cluster, server, %user, why, error, left_out,
                "a statement could not be mirrored (SHOW MIRRORS)"
            );
        }
    }

    fn tidy(&self, now: Instant) {
        let mut resting = self.resting.borrow_mut();
        resting.retain(|it| {
            now.saturating_duration_since(it.since) < REST && !it.door.state.is_removed()
        });
    }
}

/// Tells the queues apart.
fn queue_of(state: &Arc<MirrorState>) -> usize {
    Arc::as_ptr(state) as usize
}

fn see(state: &MirrorState, queue: &MirrorQueue<Box<MirrorCopy>>) {
    let (waiting, running) = queue.under_way();
    state.see_under_way(waiting, running);
}

/// The mirror has answered.
fn compare_with(copy: &MirrorCopy, server: &str, reply: &MirrorReply) {
    if reply.sum.error.is_some_and(|(code, _)| is_of_moment(code)) {
        return leave_out(copy, Unmirrored::Late);
    }
    let compared = Compared {
        digest: copy.digest,
        rows: copy.rows,
        difference: compare(&copy.own, &reply.sum, copy.rows),
        own: (copy.own, copy.took),
        mirror: (reply.sum, reply.took),
        server,
        at: crate::worker::clock::read(),
    };
    let text = || without_literals(Lexed::default().text(copy.command.text(), copy.dialect));
    copy.held.of().comparisons().add(&compared, text);
}
