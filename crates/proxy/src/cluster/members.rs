//! One cluster's servers, as the whole process sees them: what checks have found, and which server is for what now.
//!
//! Owns the decisions ([`engine::cluster`]) behind a lock, one for each cluster, that the road takes only for clients
//! whose writes are on a server that is gone, and for texts that name what they must find; what it asks otherwise is
//! published in numbers ([`crate::cluster::seats`]). [`crate::routing::route`] decides which server serves which
//! client. In the decisions, servers have the places that they have in their cluster; outside, those that they have in
//! [`Servers`]. Both only grow. Invariant: nothing that happens to a server changes anything in a cluster that is not
//! its own.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::cache::Generations;
use engine::checks::agent::Report;
use engine::checks::health::{HealthOrder, NOT_CHECKED, Sign, State};
use engine::cluster::knowledge::Holds;
use engine::cluster::memory::ServersMemory;
use engine::cluster::position::{Gtid, Position};
use engine::cluster::{
    self, ClusterBounds, Layout, Member, Role, Second, ServerPlace, Takes, WriterReads,
};

use crate::cluster::facts::{self, Standing};
use crate::cluster::followed::Followed;
use crate::cluster::pasts::{CommonPast, Pasts, Whose};
use crate::cluster::post::{News, Post};
use crate::cluster::seats::{ALL, Mark, NOTHING, Seat, Seats, UNTOLD};
use crate::cluster::servers::{Server, ServerId, Servers};
use crate::config::{Freshness, Governing, Mode, ReadsBy, Routing, ServerRule};

/// A cluster's place among all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct ClusterId(pub(crate) usize);

/// What is known and decided of a cluster's servers.
pub(crate) struct Members {
    pub(crate) id: ClusterId,
    pub(crate) name: String,
    state: Mutex<Decided>,
    origin: Instant,
    /// The writer's place and one; zero is none.
    writer: AtomicUsize,
    /// Other nodes are written to as well.
    are_writers_several: AtomicBool,
    /// Its servers.
    own: boxcar::Vec<ServerId>,
    /// Those of the servers of all clusters.
    seats: Arc<Seats>,
    servers: Arc<Servers>,
    post: Arc<Post>,
    /// A statement is held back until more is known of what servers hold.
    is_awaited: AtomicBool,
    rules: RoutingRules,
    /// Which of its tables were written, for replies that are kept.
    pub(crate) generations: Arc<Generations>,
    /// What is known of writes elsewhere.
    pub(crate) followed: Followed,
    pasts: Pasts,
}

/// What the road goes by, of the options of routing. Times are in microseconds.
#[derive(Debug, Default)]
struct RoutingRules {
    reads: AtomicU8,
    reads_by: AtomicU8,
    gtid_comments: AtomicBool,
    /// What only reads goes to readers alone.
    spares_writers: AtomicBool,
    mode: AtomicU8,
    stay: AtomicU64,
    hold: AtomicU64,
}

#[derive(Debug)]
struct Decided {
    members: cluster::Cluster,
    layout: Layout,
    results: Vec<Results>,
    /// What came of asking agents.
    heard: Vec<Results>,
}

/// What is decided and known of all servers at one moment.
struct Situation {
    layout: Layout,
    states: Vec<Condition>,
}

/// How a server is.
struct Condition {
    name: &'static str,
    is_down: bool,
    is_usable: bool,
    /// Able to work in its cluster or group, as far as it has said.
    is_able: bool,
}

impl Situation {
    fn of(decided: &Decided) -> Self {
        let states = (0..decided.layout.places.len()).map(|at| {
            let health = decided.members.health(at);
            let is_down = health.state() == State::Down;
            let (is_usable, is_able) = (health.is_usable(), decided.members.is_able(at));
            Condition { name: health.name(), is_down, is_usable, is_able }
        });
        Self { states: states.collect(), layout: decided.layout.clone() }
    }
}

/// What the checks of a server have come to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Results {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) error: Option<String>,
    pub(crate) last: Option<std::time::SystemTime>,
}

/// A weight is never more than this, in thousandths, whatever an agent says.
const SHARE_MAX: f64 = 1e6;

/// What a check has found.
#[derive(Debug)]
pub(crate) enum Finding {
    /// The server answers, and says nothing of its role.
    Passed,
    /// It answers, and tells its role.
    Said(Role),
    /// It has too many connections.
    Busy,
    Failed(String),
}

/// A check that has ended.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) server: ServerId,
    pub(crate) finding: Finding,
    pub(crate) begun: Instant,
}

/// How a server is, as the console and the metrics show it.
#[derive(Clone, Debug)]
pub(crate) struct Watched {
    pub(crate) state: &'static str,
    pub(crate) since: Instant,
    pub(crate) reason: String,
    pub(crate) role: String,
    pub(crate) lag: Option<Duration>,
    /// The share of time in which its cluster was held up by flow control.
    pub(crate) paused: Option<f64>,
    pub(crate) results: Results,
    /// What its agent has said so far, and what came of asking it.
    pub(crate) agent: String,
    pub(crate) heard: Results,
    /// Its weight for now.
    pub(crate) weight: f64,
    /// Checks in a row against its state, and how many it takes to change that.
    pub(crate) against: (u32, u32),
    /// Checks pass, and its agent says that it is down.
    pub(crate) is_by_agent: bool,
    /// How much of its load it gets, if not all: it has come up lately.
    pub(crate) growth: Option<f64>,
}

impl From<Watched> for facts::ServerState {
    fn from(watched: Watched) -> Self {
        Self { name: watched.state, since: watched.since, reason: Some(watched.reason) }
    }
}

fn member(rule: &ServerRule) -> Member {
    Member { group: rule.group, backup: rule.backup, lag_max: rule.lag_max }
}

fn bounds(routing: &Routing) -> ClusterBounds {
    ClusterBounds {
        lag_max: routing.lag_max,
        gaps: routing.gaps,
        readers_min: routing.readers_min,
        writers: routing.writers,
        writer_reads: routing.writer_reads,
    }
}

impl RoutingRules {
    fn set(&self, routing: &Routing) {
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.mode.store(routing.mode as u8, Relaxed);
        self.reads.store(routing.reads as u8, Relaxed);
        self.reads_by.store(routing.reads_by as u8, Relaxed);
        self.gtid_comments.store(routing.gtid_comments, Relaxed);
        self.spares_writers.store(routing.writer_reads == WriterReads::Never, Relaxed);
        self.stay.store(micros(routing.stay), Relaxed);
        self.hold.store(micros(routing.hold), Relaxed);
    }
}

impl Members {
    /// Those of a cluster that has no servers yet.
    pub(crate) fn new(
        id: ClusterId,
        name: String,
        options: Governing<'_>,
        seats: Arc<Seats>,
        (servers, post): (Arc<Servers>, Arc<Post>),
    ) -> Self {
        let now = crate::worker::clock::read();
        let (rules, bounds) = (&options.checks.rules, bounds(options.routing));
        let members = cluster::Cluster::new(&[], rules, bounds, now);
        let layout = members.layout(now);
        let (results, heard) = (Vec::new(), Vec::new());
        let rules = RoutingRules::default();
        rules.set(options.routing);
        Self {
            id,
            followed: Followed::new(&name),
            name,
            state: Mutex::new(Decided { members, layout, results, heard }),
            origin: now.checked_sub(Duration::from_secs(1)).unwrap_or(now),
            writer: AtomicUsize::new(0),
            are_writers_several: AtomicBool::new(false),
            own: boxcar::Vec::new(),
            seats,
            servers,
            post,
            is_awaited: AtomicBool::new(false),
            rules,
            generations: Arc::default(),
            pasts: Pasts::default(),
        }
    }

    /// A server gets the next place of all, and of this cluster, before it is added to the servers.
    pub(crate) fn add(&self, rule: &ServerRule, options: Governing<'_>) {
        self.generations.everything();
        let at = self.own.count();
        let id = self.seats.add(Seat::new(self.id, at, rule.weight));
        self.own.push(id);
        for (_, id) in self.own.iter() {
            self.seats.get(*id).meet(self.own.count());
        }
        let mut decided = lock(&self.state);
        decided.results.push(Results::default());
        decided.heard.push(Results::default());
        let now = crate::worker::clock::read();
        decided.members.add(member(rule), &options.checks.rules, now);
        decided.layout = decided.members.layout(now);
    }

    /// Goes by what these options say of checks, lag and routing.
    pub(crate) fn reconfigure(&self, options: Governing<'_>) {
        self.generations.everything();
        self.rules.set(options.routing);
        let (rules, bounds) = (&options.checks.rules, bounds(options.routing));
        self.change(|decided| {
            decided.members.reconfigure(rules, bounds, crate::worker::clock::read())
        });
    }

    /// Goes by what is said of a server now.
    pub(crate) fn regroup(&self, server: ServerId, rule: &ServerRule) {
        self.generations.everything();
        self.seat(server).weight.store(rule.weight, Relaxed);
        let (at, now) = (self.at(server), crate::worker::clock::read());
        self.change(|decided| decided.members.regroup(at, member(rule), now));
    }

    /// A server is not named any more: it takes nothing new.
    pub(crate) fn retire(&self, server: ServerId) {
        self.generations.everything();
        let (at, why) = (self.at(server), "the configuration does not name it any more");
        self.change(|decided| decided.members.retire(at, why, crate::worker::clock::read()));
    }

    /// A server is named again.
    pub(crate) fn revive(&self, server: ServerId, rule: &ServerRule, options: Governing<'_>) {
        self.generations.everything();
        self.seat(server).weight.store(rule.weight, Relaxed);
        let (at, rules, now) =
            (self.at(server), &options.checks.rules, crate::worker::clock::read());
        self.change(|decided| decided.members.revive(at, member(rule), rules, now));
    }

    /// Where statements go for which no route says otherwise.
    pub(crate) fn mode(&self) -> Mode {
        [Mode::Writer, Mode::Readers, Mode::Split]
            .into_iter()
            .find(|mode| *mode as u8 == self.rules.mode.load(Relaxed))
            .unwrap_or_default()
    }

    /// What a client of mode "split" sees of what was written.
    pub(crate) fn freshness(&self) -> Freshness {
        match self.rules.reads.load(Relaxed) {
            reads if reads == Freshness::Any as u8 => Freshness::Any,
            reads if reads == Freshness::Monotonic as u8 => Freshness::Monotonic,
            _ => Freshness::OwnWrites,
        }
    }

    /// Whose writes and reads are a client's own.
    pub(crate) fn reads_by(&self) -> ReadsBy {
        match self.rules.reads_by.load(Relaxed) {
            by if by == ReadsBy::User as u8 => ReadsBy::User,
            by if by == ReadsBy::Program as u8 => ReadsBy::Program,
            _ => ReadsBy::Connection,
        }
    }

    /// Whether a read may name in a comment what it must find.
    pub(crate) fn reads_gtids(&self) -> bool {
        self.rules.gtid_comments.load(Relaxed)
    }

    /// What clients that count as one have written and read.
    pub(crate) fn past_of(&self, whose: Whose) -> Arc<CommonPast> {
        let writer = self.writer().map(|writer| writer.0);
        self.pasts.of(whose, crate::worker::clock::read(), writer)
    }

    /// For so long a client that has written stays with the writer, where servers do not tell how far they have come.
    pub(crate) fn stay(&self) -> Duration {
        Duration::from_micros(self.rules.stay.load(Relaxed))
    }

    /// For so long a statement is held back that no server can take.
    pub(crate) fn hold(&self) -> Duration {
        Duration::from_micros(self.rules.hold.load(Relaxed))
    }

    /// Its servers, retired ones among them, in the order in which they were named.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Server>> {
        // One may have its place here already, and none among the servers yet.
        self.own.iter().filter_map(|(_, id)| self.servers.look(*id))
    }

    /// Those of them that the configuration names.
    pub(crate) fn servers(&self) -> impl Iterator<Item = &Arc<Server>> {
        self.all().filter(|server| !server.is_retired())
    }

    /// Whether the configuration names any server of it.
    pub(crate) fn is_named(&self) -> bool {
        self.servers().next().is_some()
    }

    /// How many servers it has, retired ones among them.
    pub(crate) fn places(&self) -> usize {
        self.own.count()
    }

    /// Its server at this place.
    pub(crate) fn place(&self, at: usize) -> Option<ServerId> {
        self.own.get(at).copied()
    }

    /// Whether a server belongs to it.
    #[inline]
    pub(crate) fn has(&self, server: ServerId) -> bool {
        self.seat(server).cluster == self.id
    }

    #[inline]
    fn seat(&self, server: ServerId) -> &Seat {
        self.seats.get(server)
    }

    /// A server's place in this cluster, which is its own.
    fn at(&self, server: ServerId) -> usize {
        debug_assert!(self.has(server), "{server:?} is of another cluster than {}", self.name);
        self.seat(server).at
    }

    pub(crate) fn writer(&self) -> Option<ServerId> {
        self.writer.load(Relaxed).checked_sub(1).map(ServerId)
    }

    /// Whether what this server answers has all that the clients of its cluster were told to be written.
    pub(crate) fn has_all_writes(&self, server: ServerId) -> bool {
        self.writer() == Some(server) && !self.are_writers_several.load(Relaxed)
    }

    /// The writer of this client: of several, each has its share of the clients, and a client stays with its own for as
    /// long as that is one. When one goes or comes, only its clients move (rendezvous hashing: Thaler and Ravishankar,
    /// "Using name-based mappings to increase hit rates", 1998).
    pub(crate) fn writer_of(&self, client: u32) -> Option<ServerId> {
        if !self.are_writers_several.load(Relaxed) {
            return self.writer();
        }
        // The same for all workers, and not secret: a client gains nothing by choosing its writer.
        let hasher = BuildHasherDefault::<DefaultHasher>::default();
        let ids = self.own.iter().map(|(_, id)| *id);
        let writers = ids.filter(|id| self.is_writer(*id));
        writers.max_by_key(|id| hasher.hash_one((client, id.0))).or_else(|| self.writer())
    }

    pub(crate) fn is_writer(&self, server: ServerId) -> bool {
        self.seat(server).marks.has(Mark::Writer)
    }

    /// Whether statements that only read are kept off writers even while there is no reader.
    pub(crate) fn spares_writers(&self) -> bool {
        self.rules.spares_writers.load(Relaxed)
    }

    pub(crate) fn is_reader(&self, server: ServerId) -> bool {
        self.seat(server).marks.has(Mark::Reader)
    }

    /// Whether a server answers, and is not to be left alone.
    pub(crate) fn is_usable(&self, server: ServerId) -> bool {
        self.seat(server).marks.has(Mark::Usable)
    }

    /// Whether a server is to be checked.
    pub(crate) fn is_checked(&self, server: ServerId) -> bool {
        lock(&self.state).members.health(self.at(server)).interval().is_some()
    }

    /// Since when checks have found a server down, if it is.
    pub(crate) fn down_since(&self, server: ServerId) -> Option<Instant> {
        let (decided, at) = (lock(&self.state), self.at(server));
        let health = decided.members.health(at);
        (health.state() == State::Down).then(|| health.reason().1)
    }

    /// Whether a server has come up, and must show first that it can bear load.
    pub(crate) fn is_on_trial(&self, server: ServerId) -> bool {
        self.seat(server).marks.has(Mark::OnTrial)
    }

    /// Whether a server is on trial, and a client's statement is under way there.
    pub(crate) fn is_tried(&self, server: ServerId) -> bool {
        self.is_on_trial(server) && self.seat(server).marks.has(Mark::Tried)
    }

    /// A statement goes to this server: if it is on trial, this is the one.
    pub(crate) fn try_on(&self, server: ServerId) {
        if self.is_on_trial(server) {
            self.seat(server).marks.set(Mark::Tried, true);
        }
    }

    /// Its weight among readers, in thousandths.
    pub(crate) fn share(&self, server: ServerId) -> u32 {
        self.seat(server).share.load(Relaxed).max(1)
    }

    /// Whether a server answers, and is able to work in its cluster if it is in one, whatever it is used for.
    pub(crate) fn answers(&self, server: ServerId) -> bool {
        self.seat(server).marks.has(Mark::Answers)
    }

    /// What a server holds of what another one took.
    pub(crate) fn holds(&self, server: ServerId, taker: ServerId) -> Holds {
        let of = self.seat(taker);
        if of.cluster != self.id {
            // What another cluster took is none of this one's.
            return Holds::All;
        }
        match self.seat(server).holds.get(of.at).map(|known| known.load(Relaxed)) {
            None | Some(UNTOLD) => Holds::Untold,
            Some(NOTHING) => Holds::Nothing,
            Some(ALL) => Holds::All,
            Some(micros) => Holds::Until(self.origin + Duration::from_micros(micros)),
        }
    }

    fn micros(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.origin).as_micros();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// A check has ended. Answers with when the next one is due.
    pub(crate) fn take(&self, checked: Checked) -> Duration {
        let Checked { server, finding, begun } = checked;
        let (at, now) = (self.at(server), crate::worker::clock::read());
        self.seat(server).marks.set(Mark::Doubted, false);
        self.change(|decided| {
            let results = &mut decided.results[at];
            results.last = Some(std::time::SystemTime::now());
            let before = results.error.take();
            results.error = match &finding {
                Finding::Failed(why) => Some(why.clone()),
                Finding::Busy => Some("too many connections".to_owned()),
                _ => None,
            };
            if let Some(why) = results.error.as_ref().filter(|why| before.as_ref() != Some(*why)) {
                let server = &self.servers.get(server).name;
                // A server that is down is an error, and is told as one.
                tracing::warn!(
                    server,
                    why,
                    "the check of a server has failed: after more of them it is down (checks.fall)"
                );
            }
            match &finding {
                Finding::Failed(_) => results.failed += 1,
                _ => results.passed += 1,
            }
            match finding {
                Finding::Passed => decided.members.see(at, Sign::Passed, now),
                Finding::Busy => decided.members.see(at, Sign::Busy, now),
                Finding::Failed(why) => decided.members.see(at, Sign::Failed(why), now),
                Finding::Said(role) => decided.members.hear(at, role, begun, now),
            };
        });
        let interval = lock(&self.state).members.check_interval(at);
        interval.unwrap_or(IN_MAINTENANCE)
    }

    /// A server's agent was asked: what it said, or why there is nothing.
    pub(crate) fn hear(&self, server: ServerId, said: Result<Report, String>) {
        let at = self.at(server);
        self.change(|decided| {
            let heard = &mut decided.heard[at];
            heard.last = Some(std::time::SystemTime::now());
            heard.error = match &said {
                Ok(report) => report.problem.clone(),
                Err(why) => Some(why.clone()),
            };
            match heard.error {
                None => heard.passed += 1,
                Some(_) => heard.failed += 1,
            }
            if let Ok(report) = said {
                decided.members.hear_agent(at, &report, crate::worker::clock::read());
            }
        });
    }

    /// A statement has ended well on a server that is on trial.
    pub(crate) fn tried(&self, server: ServerId) {
        // Others may tell the same before it is published.
        if self.seat(server).marks.set(Mark::OnTrial, false) {
            let at = self.at(server);
            self.change(|decided| decided.members.tried(at, crate::worker::clock::read()));
            self.post.to_all(|| News::Rerouted);
        }
    }

    /// Traffic has failed in a way that speaks against the server: it is checked at once.
    pub(crate) fn suspect(&self, server: ServerId, why: &str) {
        let (at, now) = (self.at(server), crate::worker::clock::read());
        let mut wants = false;
        self.change(|decided| {
            decided.members.see(at, Sign::TrafficFailed(why.to_owned()), now);
            wants = decided.members.takes_check(at);
        });
        if wants {
            self.post.to_all(|| News::CheckNow(server));
        }
    }

    /// The server that is taken for the writer says something else: it is asked at once.
    pub(crate) fn doubt(&self, server: ServerId) {
        if self.is_writer(server) {
            self.ask_again(server);
        }
    }

    /// A server is asked at once, if that was not wanted before.
    pub(crate) fn ask_again(&self, server: ServerId) {
        if !self.seat(server).marks.set(Mark::Doubted, true) {
            self.post.to_all(|| News::CheckNow(server));
        }
    }

    /// Whether a server is known to have what another one took, up to this number, now that that one is gone; without a
    /// number, nothing.
    pub(crate) fn has_write(&self, server: ServerId, taker: ServerId, gtid: Option<Gtid>) -> bool {
        if !self.has(taker) || self.answers(taker) {
            return false;
        }
        let (at, taker) = (self.at(server), self.at(taker));
        lock(&self.state).members.has_write(at, taker, gtid)
    }

    /// Whether a server is known to have come to this place, which a client has named.
    pub(crate) fn has_come_to(&self, server: ServerId, named: &Position) -> bool {
        lock(&self.state).members.has_come_to(self.at(server), named)
    }

    /// A client is told that its write is on this server, which calls it so.
    pub(crate) fn acknowledge(&self, server: ServerId, gtid: Gtid) {
        let [origin, number] = &self.seat(server).acknowledged;
        let (of, sequence) = gtid.halves();
        let known = match origin.load(Relaxed) {
            0 => origin.compare_exchange(0, of, Relaxed, Relaxed).err().unwrap_or(of),
            known => known,
        };
        if known == of {
            number.fetch_max(sequence, Relaxed);
        }
    }

    /// A statement waits for what checks of this server can prove: it is asked at once, and its waiting clients are
    /// told.
    pub(crate) fn await_check(&self, server: ServerId) {
        self.is_awaited.store(true, Relaxed);
        self.ask_again(server);
    }

    /// An operator wants a server as the writer, whatever it lacks. An error: why there is nothing to confirm.
    pub(crate) fn confirm(&self, server: ServerId) -> Result<(), String> {
        let (at, mut done) = (self.at(server), Ok(()));
        self.change(|decided| {
            done = decided.members.confirm(at, crate::worker::clock::read());
        });
        done
    }

    /// Writes down what is known, for another process.
    pub(crate) fn memory(&self) -> ServersMemory {
        // What clients were told since the last check is known as well.
        self.change(|_| ());
        lock(&self.state).members.memory()
    }

    /// Goes on from what another process has known, of servers that are at these places here.
    pub(crate) fn remember(&self, memory: ServersMemory, places: &[Option<usize>]) {
        self.change(|decided| {
            decided.members.remember(memory, places, crate::worker::clock::read())
        });
    }

    /// An administrator orders something on the console.
    pub(crate) fn order(&self, server: ServerId, standing: Standing) {
        let order = match standing {
            Standing::Up | Standing::Paused => HealthOrder::None,
            Standing::Drain => HealthOrder::Drain,
            Standing::Maintenance => HealthOrder::Maintenance,
        };
        let at = self.at(server);
        self.change(|decided| {
            decided.members.order(
                at,
                order,
                "by an order on the console",
                crate::worker::clock::read(),
            );
        });
        self.post.to_all(|| News::CheckNow(server));
    }

    /// Changes what is known, publishes what follows from that, and tells the workers what has changed for them.
    fn change(&self, change: impl FnOnce(&mut Decided)) {
        let mut decided = lock(&self.state);
        let before = Situation::of(&decided);
        for (at, id) in self.own.iter() {
            let [origin, number] = &self.seat(*id).acknowledged;
            let sequence = number.swap(0, Relaxed);
            if sequence != 0 {
                let gtid = Gtid::from_halves(origin.load(Relaxed), sequence);
                decided.members.acknowledge(at, Position::Gtid(vec![gtid]));
            }
        }
        change(&mut decided);
        decided.layout = decided.members.layout(crate::worker::clock::read());
        let after = Situation::of(&decided);
        let is_routed = self.seats.are_routed();
        if is_routed {
            // A server that comes up is not to be found before its limit is what it should be on trial.
            self.guide(&after.layout);
        }
        self.publish(&decided, &after.layout);
        drop(decided);
        self.tell_states(&before, &after, is_routed);
        if is_routed {
            self.tell_roles(&before.layout, &after.layout);
        }
    }

    fn guide(&self, layout: &Layout) {
        for (place, server) in layout.places.iter().zip(self.all()) {
            if server.guide(place.limit, place.growth) {
                server.settle_limit(|worker| self.post.to(worker, News::SlotFree(server.id)));
                self.post.to_all(|| News::SlotFree(server.id));
            }
        }
    }

    /// What is said of servers' states, and what workers do about them. A server that is the only one keeps its clients:
    /// the checks may be wrong, and there is no other place to go; but see [`News::Silent`].
    fn tell_states(&self, before: &Situation, after: &Situation, is_routed: bool) {
        for (at, (was, is)) in before.states.iter().zip(&after.states).enumerate() {
            let id = self.own[at];
            if was.name != is.name {
                self.tell(id, is);
            }
            if !is_routed {
                continue;
            }
            if is.is_down && !was.is_down {
                self.post.to_all(|| News::Down(id));
            } else if was.is_usable && !is.is_usable {
                // What runs there may end; what waits goes elsewhere.
                self.post.to_all(|| News::NotWriter(id));
                self.post.to_all(|| News::CloseIdle(id));
            }
            if was.is_able && !is.is_able && !is.is_down {
                self.post.to_all(|| News::Unable(id));
            }
        }
    }

    /// What is said of which server is for what, and what workers do about that.
    fn tell_roles(&self, before: &Layout, after: &Layout) {
        if before.writer != after.writer {
            self.tell_writer(before, after);
        }
        let both = || before.places.iter().zip(&after.places);
        for (at, (was, is)) in both().enumerate() {
            if was.takes.writes() && !is.takes.writes() {
                self.post.to_all(|| News::NotWriter(self.own[at]));
            }
            let server = &self.servers.get(self.own[at]).name;
            match is.second {
                Second::No => tell_readers(server, was, is),
                Second::Yes if was.second != Second::Yes => tell_second_writer(server),
                Second::Yes | Second::Perhaps => {}
            }
            if let Some(place) =
                is.went_back.as_ref().filter(|it| was.went_back.as_ref() != Some(*it))
            {
                tracing::warn!(
                    server,
                    place,
                    "a server has less than before: it was restored from older data, or its binary \
                     log was reset; if it was the writer, it is not used before it has everything \
                     again, or CONFIRM WRITER is given; of readers, those that may have its old \
                     numbers are not used before they are set up anew, or ENABLE is given"
                );
            }
            if let Some(gap) = is.gap.as_ref().filter(|_| was.gap.is_none()) {
                tracing::warn!(
                    server,
                    gap,
                    "a server can be written to and lacks what was acknowledged: it is not used; \
                     CONFIRM WRITER on the console takes it all the same (routing.gaps)"
                );
            }
        }
        if let Some(gap) = after.lacks.as_ref().filter(|_| before.lacks.is_none()) {
            let cluster = self.told_name();
            tracing::warn!(
                cluster,
                gap,
                "the writer lacks what a server had that is gone: clients that wrote there are \
                 refused; CONFIRM WRITER of the writer on the console has them served"
            );
        }
        let gains = both().any(|(was, is)| {
            is.takes.reads() && !was.takes.reads() || is.takes.writes() && !was.takes.writes()
        });
        if gains || before.writer != after.writer || self.is_awaited.swap(false, Relaxed) {
            self.post.to_all(|| News::Rerouted);
        }
    }

    fn tell_writer(&self, before: &Layout, after: &Layout) {
        let name = |writer: &Result<usize, String>| match writer {
            Ok(at) => self.servers.get(self.own[*at]).name.clone(),
            Err(why) => format!("none ({why})"),
        };
        let (old, new) = (name(&before.writer), name(&after.writer));
        let cluster = self.told_name();
        if !self.is_named() {
            return tracing::info!(cluster, old, "no server of the cluster is named any more");
        }
        match (&after.lost, &before.writer, &after.writer) {
            (Some(gap), _, Ok(_)) if before.lost.as_ref() != Some(gap) => tracing::warn!(
                cluster,
                old,
                new,
                gap,
                "the writer is another one, and lacks what was acknowledged, as CONFIRM WRITER or \
                 routing.gaps has allowed: copy it from the server that has it, before that one is \
                 set up anew"
            ),
            (_, Err(_), Ok(_)) => tracing::info!(cluster, old, new, "there is a writer"),
            (_, _, Ok(_)) => tracing::info!(cluster, old, new, "the writer is another one"),
            (_, Ok(_), Err(_)) => tracing::error!(cluster, old, new, "there is no writer any more"),
            (_, Err(_), Err(_)) => tracing::info!(cluster, old, new, "there is still no writer"),
        }
    }

    /// Its name where there are several.
    fn told_name(&self) -> Option<&str> {
        self.seats.are_several().then_some(&*self.name)
    }

    fn publish(&self, decided: &Decided, layout: &Layout) {
        let mut is_other = false;
        for ((at, id), place) in self.own.iter().zip(&layout.places) {
            let seat = self.seat(*id);
            for ((_, known), holds) in seat.holds.iter().zip(&place.holds) {
                let holds = match holds {
                    Holds::Untold => UNTOLD,
                    Holds::Nothing => NOTHING,
                    Holds::Until(moment) => self.micros(*moment),
                    Holds::All => ALL,
                };
                known.store(holds, Relaxed);
            }
            let answered = seat.marks.set(Mark::Answers, place.answers);
            is_other |= answered != place.answers;
            let share =
                (f64::from(seat.weight.load(Relaxed)) * 1000.0 * place.share).min(SHARE_MAX);
            seat.share.store(share as u32, Relaxed);
            if !seat.marks.set(Mark::OnTrial, place.is_on_trial) {
                seat.marks.set(Mark::Tried, false);
            }
            let is_usable = decided.members.health(at).is_usable();
            let (reads, writes) = (place.takes.reads(), place.takes.writes());
            for (mark, is) in
                [(Mark::Usable, is_usable), (Mark::Reader, reads), (Mark::Writer, writes)]
            {
                is_other |= seat.marks.set(mark, is) != is;
            }
        }
        let writers = layout.places.iter().filter(|place| place.takes.writes()).count();
        self.are_writers_several.store(writers > 1, Relaxed);
        let writer = layout.writer.as_ref().ok().and_then(|at| self.own.get(*at));
        let writer = writer.map_or(0, |id| id.0 + 1);
        if self.writer.swap(writer, Relaxed) != writer || is_other {
            // Another server may have other rows.
            self.generations.everything();
        }
    }

    fn tell(&self, server: ServerId, now: &Condition) {
        /// By checks, not by an order.
        const DOWN: &str = "down";
        let seen = self.watched(server);
        // By now it may be otherwise again, which is told as well.
        let (server, state) = (&self.servers.get(server).name, now.name);
        let cluster = self.told_name();
        let is_so = seen.state == state;
        let (reason, role) = if is_so { (seen.reason, seen.role) } else { Default::default() };
        match now {
            // One that is put back into service is down until it has been checked.
            Condition { is_down: true, .. } if state == DOWN && reason != NOT_CHECKED => {
                tracing::error!(server, cluster, reason, "a server is down");
            }
            // On its way up or down, or as an operator has ordered.
            _ => tracing::info!(server, cluster, state, reason, role, "a server has changed"),
        }
    }

    pub(crate) fn watched(&self, server: ServerId) -> Watched {
        let (decided, at) = (lock(&self.state), self.at(server));
        let (health, place) = (decided.members.health(at), &decided.layout.places[at]);
        let (reason, since) = health.reason();
        Watched {
            state: health.name(),
            since,
            reason: reason.to_owned(),
            role: place.role.clone(),
            lag: place.lag,
            paused: place.paused,
            results: decided.results[at].clone(),
            agent: health.agent().to_string(),
            heard: decided.heard[at].clone(),
            weight: f64::from(self.seat(server).share.load(Relaxed)) / 1000.0,
            against: health.against(),
            is_by_agent: health.agent().down.is_some() && health.state() != State::Down,
            growth: Some(place.growth).filter(|growth| *growth < 1.0 && health.is_usable()),
        }
    }

    /// Why nothing can be served, server by server.
    pub(crate) fn why_not(&self) -> String {
        let decided = lock(&self.state);
        let why = decided.layout.writer.as_ref().err().cloned();
        let places = decided.layout.places.iter().zip(self.all());
        let places = places.filter(|(_, server)| !server.is_retired());
        let each = places.map(|(place, server)| format!("{}: {}", server.name, place.role));
        let each = each.collect::<Vec<_>>().join("; ");
        format!("{} ({each})", why.unwrap_or_else(|| "no server can take it".to_owned()))
    }
}

/// A server that is not checked is looked at again for whether it is.
const IN_MAINTENANCE: Duration = Duration::from_secs(1);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn tell_second_writer(server: &str) {
    tracing::warn!(
        server,
        "two servers of a cluster can be written to: this one is not the writer, and is not used; make it \
         read_only, or what is written to it beside Flifo is on no other server"
    );
}

/// What is said of a server that is not read from any more, or is again. That it is down, or is taken out by an order,
/// is said elsewhere.
fn tell_readers(server: &str, was: &ServerPlace, is: &ServerPlace) {
    let why = |place: &ServerPlace| place.role.strip_prefix("not used: ").map(str::to_owned);
    if was.takes.reads() && is.answers && matches!(is.takes, Takes::Nothing) {
        let why = why(is);
        tracing::warn!(server, why, "a server is not read from: reads go to others");
    } else if is.takes.reads() && was.answers && matches!(was.takes, Takes::Nothing) {
        let because = why(was);
        tracing::info!(server, because, "a server is read from again; it was not");
    }
}
