//! All servers, as the whole process sees them: what checks have found, and which server is for what now.
//!
//! Owns the decisions ([`engine::cluster`]) behind a lock that the road never takes; what the road asks is published in
//! numbers of its own. [`crate::dispatch::route`] decides which server serves which client. Servers have the places
//! here that they have in [`Servers`]; both only grow.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::checks::agent::Report;
use engine::checks::health::{HealthOrder, Sign, State};
use engine::checks::scheduler::Loads;
use engine::cluster::knowledge::Holds;
use engine::cluster::position::{Gtid, Position};
use engine::cluster::{self, ClusterBounds, Layout, Member, Role};
use engine::marks::AtomicMarks;

use crate::cluster::facts::{self, Standing};
use crate::cluster::post::{News, Post};
use crate::cluster::servers::{ServerId, Servers};
use crate::config::{Plan, ServerRule};

/// What is known and decided of all servers.
pub(crate) struct Members {
    state: Mutex<Decided>,
    origin: Instant,
    /// The writer's place and one; zero is none.
    writer: AtomicUsize,
    seats: boxcar::Vec<Seat>,
    servers: Arc<Servers>,
    post: Arc<Post>,
    /// A statement is held back until more is known of what servers hold.
    is_awaited: AtomicBool,
    /// There is, or was, more than one server: each statement is routed.
    is_routed: AtomicBool,
    pub(crate) loads: Arc<Loads>,
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
}

impl Situation {
    fn of(decided: &Decided) -> Self {
        let states = (0..decided.layout.places.len()).map(|at| {
            let health = decided.members.health(at);
            let is_down = health.state() == State::Down;
            Condition { name: health.name(), is_down, is_usable: health.is_usable() }
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

/// What the road asks of a server.
#[derive(Debug)]
struct Seat {
    weight: AtomicU32,
    marks: AtomicMarks<Mark>,
    /// What it holds of what each server took: [`UNTOLD`], [`NOTHING`], [`ALL`], or all that was acknowledged before
    /// this moment, in microseconds since the origin.
    holds: boxcar::Vec<AtomicU64>,
    /// Its weight for now, in thousandths.
    share: AtomicU32,
    /// The last transaction of which a client was told since that was looked at: domain and server in halves of the
    /// first, of which only the lowest count; its number in the second, zero is none.
    acknowledged: [AtomicU64; 2],
}

/// What a server is, as the road sees it.
#[derive(Clone, Copy, Debug)]
enum Mark {
    Reader,
    Usable,
    /// Its role may be another one by now, and a check is on its way.
    Doubted,
    /// It answers, and is able to work in its cluster if it is in one.
    Answers,
    /// It has come up, and must show that it can bear load.
    OnTrial,
    /// A statement is its trial.
    Tried,
}

engine::marks!(Mark);

/// The marks of a server of which nothing is known.
fn usable() -> AtomicMarks<Mark> {
    let marks = AtomicMarks::default();
    marks.set(Mark::Usable, true);
    marks
}

const UNTOLD: u64 = 0;
const NOTHING: u64 = 1;
const ALL: u64 = u64::MAX;

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
    Member { group: rule.group, backup: rule.backup }
}

fn bounds(plan: &Plan) -> ClusterBounds {
    ClusterBounds { lag_max: plan.routing.lag_max, gaps: plan.routing.gaps }
}

impl Members {
    /// Those of a cluster that has no servers yet.
    pub(crate) fn new(plan: &Plan, workers: usize, servers: Arc<Servers>, post: Arc<Post>) -> Self {
        let now = Instant::now();
        let members = cluster::Cluster::new(&[], &plan.checks.rules, bounds(plan), now);
        let layout = members.layout(now);
        let (results, heard) = (Vec::new(), Vec::new());
        Self {
            state: Mutex::new(Decided { members, layout, results, heard }),
            origin: now.checked_sub(Duration::from_secs(1)).unwrap_or(now),
            writer: AtomicUsize::new(0),
            seats: boxcar::Vec::new(),
            servers,
            post,
            is_awaited: AtomicBool::new(false),
            is_routed: AtomicBool::new(false),
            loads: Arc::new(Loads::new(workers)),
        }
    }

    /// A server gets the next place, before it is added to the servers.
    pub(crate) fn add(&self, rule: &ServerRule, plan: &Plan) {
        let holds = || AtomicU64::new(UNTOLD);
        self.seats.push(Seat {
            weight: AtomicU32::new(rule.weight),
            marks: usable(),
            holds: self.seats.iter().map(|_| holds()).collect(),
            share: AtomicU32::new(rule.weight * 1000),
            acknowledged: [AtomicU64::new(0), AtomicU64::new(0)],
        });
        self.seats.iter().for_each(|(_, seat)| _ = seat.holds.push(holds()));
        if self.seats.count() > 1 || !plan.servers.is_empty() {
            self.is_routed.store(true, Relaxed);
        }
        let mut decided = lock(&self.state);
        decided.results.push(Results::default());
        decided.heard.push(Results::default());
        let now = Instant::now();
        decided.members.add(member(rule), &plan.checks.rules, now);
        decided.layout = decided.members.layout(now);
    }

    /// Goes by what this plan says of checks and lag.
    pub(crate) fn reconfigure(&self, plan: &Plan) {
        self.change(|decided| {
            decided.members.reconfigure(&plan.checks.rules, bounds(plan), Instant::now());
        });
    }

    /// Goes by what is said of a server now.
    pub(crate) fn regroup(&self, server: ServerId, rule: &ServerRule) {
        self.seats[server.0].weight.store(rule.weight, Relaxed);
        let now = Instant::now();
        self.change(|decided| decided.members.regroup(server.0, member(rule), now));
    }

    /// A server is not named any more: it takes nothing new.
    pub(crate) fn retire(&self, server: ServerId) {
        let why = "the configuration does not name it any more";
        self.change(|decided| decided.members.retire(server.0, why, Instant::now()));
    }

    /// A server is named again.
    pub(crate) fn revive(&self, server: ServerId, rule: &ServerRule, plan: &Plan) {
        self.seats[server.0].weight.store(rule.weight, Relaxed);
        let (rules, now) = (&plan.checks.rules, Instant::now());
        self.change(|decided| decided.members.revive(server.0, member(rule), rules, now));
    }

    /// Whether statements are routed: there is more than one server, or was, or a list of them.
    pub(crate) fn is_routed(&self) -> bool {
        self.is_routed.load(Relaxed)
    }

    pub(crate) fn writer(&self) -> Option<ServerId> {
        self.writer.load(Relaxed).checked_sub(1).map(ServerId)
    }

    pub(crate) fn is_reader(&self, server: ServerId) -> bool {
        self.seats[server.0].marks.has(Mark::Reader)
    }

    /// Whether a server answers, and is not to be left alone.
    pub(crate) fn is_usable(&self, server: ServerId) -> bool {
        self.seats[server.0].marks.has(Mark::Usable)
    }

    /// Whether a server is to be checked.
    pub(crate) fn is_checked(&self, server: ServerId) -> bool {
        lock(&self.state).members.health(server.0).interval().is_some()
    }

    /// Whether a server has come up, and must show first that it can bear load.
    pub(crate) fn is_on_trial(&self, server: ServerId) -> bool {
        self.seats[server.0].marks.has(Mark::OnTrial)
    }

    /// Whether a server is on trial, and a client's statement is under way there.
    pub(crate) fn is_tried(&self, server: ServerId) -> bool {
        self.is_on_trial(server) && self.seats[server.0].marks.has(Mark::Tried)
    }

    /// A statement goes to this server: if it is on trial, this is the one.
    pub(crate) fn try_on(&self, server: ServerId) {
        if self.is_on_trial(server) {
            self.seats[server.0].marks.set(Mark::Tried, true);
        }
    }

    /// Its weight among readers, in thousandths.
    pub(crate) fn share(&self, server: ServerId) -> u32 {
        self.seats[server.0].share.load(Relaxed).max(1)
    }

    /// Whether a server answers, and is able to work in its cluster if it is in one, whatever it is used for.
    pub(crate) fn answers(&self, server: ServerId) -> bool {
        self.seats[server.0].marks.has(Mark::Answers)
    }

    /// What a server holds of what another one took.
    pub(crate) fn holds(&self, server: ServerId, taker: ServerId) -> Holds {
        match self.seats[server.0].holds.get(taker.0).map(|known| known.load(Relaxed)) {
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
        let now = Instant::now();
        self.seats[server.0].marks.set(Mark::Doubted, false);
        self.change(|decided| {
            let results = &mut decided.results[server.0];
            results.last = Some(std::time::SystemTime::now());
            let before = results.error.take();
            results.error = match &finding {
                Finding::Failed(why) => Some(why.clone()),
                Finding::Busy => Some("too many connections".to_owned()),
                _ => None,
            };
            if let Some(why) = results.error.as_ref().filter(|why| before.as_ref() != Some(*why)) {
                let server = &self.servers.get(server).name;
                tracing::error!(server, why, "the check of a server has failed");
            }
            match &finding {
                Finding::Failed(_) => results.failed += 1,
                _ => results.passed += 1,
            }
            match finding {
                Finding::Passed => decided.members.see(server.0, Sign::Passed, now),
                Finding::Busy => decided.members.see(server.0, Sign::Busy, now),
                Finding::Failed(why) => decided.members.see(server.0, Sign::Failed(why), now),
                Finding::Said(role) => decided.members.hear(server.0, role, begun, now),
            };
        });
        let interval = lock(&self.state).members.health(server.0).interval();
        interval.unwrap_or(IN_MAINTENANCE)
    }

    /// A server's agent was asked: what it said, or why there is nothing.
    pub(crate) fn hear(&self, server: ServerId, said: Result<Report, String>) {
        self.change(|decided| {
            let heard = &mut decided.heard[server.0];
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
                decided.members.hear_agent(server.0, &report, Instant::now());
            }
        });
    }

    /// A statement has ended well on a server that is on trial.
    pub(crate) fn tried(&self, server: ServerId) {
        // Others may tell the same before it is published.
        if self.seats[server.0].marks.set(Mark::OnTrial, false) {
            self.change(|decided| decided.members.tried(server.0, Instant::now()));
            self.post.to_all(|| News::Rerouted);
        }
    }

    /// Traffic has failed in a way that speaks against the server: it is checked at once.
    pub(crate) fn suspect(&self, server: ServerId, why: &str) {
        let now = Instant::now();
        let mut wants = false;
        self.change(|decided| {
            decided.members.see(server.0, Sign::TrafficFailed(why.to_owned()), now);
            wants = decided.members.takes_check(server.0);
        });
        if wants {
            self.post.to_all(|| News::CheckNow(server));
        }
    }

    /// The server that is taken for the writer says something else: it is asked at once.
    pub(crate) fn doubt(&self, server: ServerId) {
        let is_writer = self.writer() == Some(server);
        if is_writer && !self.seats[server.0].marks.set(Mark::Doubted, true) {
            self.post.to_all(|| News::CheckNow(server));
        }
    }

    /// A client is told that its write is on this server, which calls it so.
    pub(crate) fn acknowledge(&self, server: ServerId, gtid: &[u8]) {
        let Some(gtid) = std::str::from_utf8(gtid).ok().and_then(Gtid::read) else { return };
        let [origin, number] = &self.seats[server.0].acknowledged;
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
        if !self.seats[server.0].marks.set(Mark::Doubted, true) {
            self.post.to_all(|| News::CheckNow(server));
        }
    }

    /// An operator wants a server as the writer, whatever it lacks. An error: why there is nothing to confirm.
    pub(crate) fn confirm(&self, server: ServerId) -> Result<(), String> {
        let mut done = Ok(());
        self.change(|decided| {
            done = decided.members.confirm(server.0, Instant::now());
        });
        done
    }

    /// An administrator orders something on the console.
    pub(crate) fn order(&self, server: ServerId, standing: Standing) {
        let order = match standing {
            Standing::Up | Standing::Paused => HealthOrder::None,
            Standing::Drain => HealthOrder::Drain,
            Standing::Maintenance => HealthOrder::Maintenance,
        };
        self.change(|decided| {
            decided.members.order(server.0, order, "by an order on the console", Instant::now());
        });
        self.post.to_all(|| News::CheckNow(server));
    }

    /// Changes what is known, publishes what follows from that, and tells the workers what has changed for them.
    fn change(&self, change: impl FnOnce(&mut Decided)) {
        let mut decided = lock(&self.state);
        let before = Situation::of(&decided);
        for (at, seat) in self.seats.iter() {
            let [origin, number] = &seat.acknowledged;
            let sequence = number.swap(0, Relaxed);
            if sequence != 0 {
                let gtid = Gtid::from_halves(origin.load(Relaxed), sequence);
                decided.members.acknowledge(at, Position::Gtid(vec![gtid]));
            }
        }
        change(&mut decided);
        decided.layout = decided.members.layout(Instant::now());
        let after = Situation::of(&decided);
        let is_routed = self.is_routed();
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
        for (place, server) in layout.places.iter().zip(self.servers.all()) {
            if server.guide(place.limit, place.growth) {
                server.settle_limit(|worker| self.post.to(worker, News::SlotFree(server.id)));
                self.post.to_all(|| News::SlotFree(server.id));
            }
        }
    }

    /// What is said of servers' states, and what workers do about them. A server that is the only one keeps its clients:
    /// the checks may be wrong, and there is no other place to go.
    fn tell_states(&self, before: &Situation, after: &Situation, is_routed: bool) {
        for (at, (was, is)) in before.states.iter().zip(&after.states).enumerate() {
            let id = ServerId(at);
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
        }
    }

    /// What is said of which server is for what, and what workers do about that.
    fn tell_roles(&self, before: &Layout, after: &Layout) {
        if before.writer != after.writer {
            self.tell_writer(before, after);
            if let Ok(at) = before.writer {
                self.post.to_all(|| News::NotWriter(ServerId(at)));
            }
        }
        let both = || before.places.iter().zip(&after.places);
        for (at, (was, is)) in both().enumerate() {
            if let Some(gap) = is.gap.as_ref().filter(|_| was.gap.is_none()) {
                let server = &self.servers.get(ServerId(at)).name;
                tracing::warn!(
                    server,
                    gap,
                    "a server can be written to and lacks what was acknowledged: it is not used; \
                     CONFIRM WRITER on the console takes it all the same (routing.gaps)"
                );
            }
        }
        let gains = both().any(|(was, is)| is.is_reader && !was.is_reader);
        if gains || before.writer != after.writer || self.is_awaited.swap(false, Relaxed) {
            self.post.to_all(|| News::Rerouted);
        }
    }

    fn tell_writer(&self, before: &Layout, after: &Layout) {
        let name = |writer: &Result<usize, String>| match writer {
            Ok(at) => self.servers.get(ServerId(*at)).name.clone(),
            Err(why) => format!("none ({why})"),
        };
        let (old, new) = (name(&before.writer), name(&after.writer));
        match (&after.lost, &before.writer, &after.writer) {
            (Some(gap), _, Ok(_)) => tracing::warn!(
                old,
                new,
                gap,
                "the writer is another one, and lacks what was acknowledged"
            ),
            (_, Err(_), Ok(_)) => tracing::info!(old, new, "there is a writer"),
            (_, _, Ok(_)) => tracing::info!(old, new, "the writer is another one"),
            (_, Ok(_), Err(_)) => tracing::error!(old, new, "there is no writer any more"),
            (_, Err(_), Err(_)) => tracing::info!(old, new, "there is still no writer"),
        }
    }

    fn publish(&self, decided: &Decided, layout: &Layout) {
        for ((at, seat), place) in self.seats.iter().zip(&layout.places) {
            for ((_, known), holds) in seat.holds.iter().zip(&place.holds) {
                let holds = match holds {
                    Holds::Untold => UNTOLD,
                    Holds::Nothing => NOTHING,
                    Holds::Until(moment) => self.micros(*moment),
                    Holds::All => ALL,
                };
                known.store(holds, Relaxed);
            }
            seat.marks.set(Mark::Answers, place.answers);
            let share =
                (f64::from(seat.weight.load(Relaxed)) * 1000.0 * place.share).min(SHARE_MAX);
            seat.share.store(share as u32, Relaxed);
            if !seat.marks.set(Mark::OnTrial, place.is_on_trial) {
                seat.marks.set(Mark::Tried, false);
            }
            seat.marks.set(Mark::Usable, decided.members.health(at).is_usable());
            seat.marks.set(Mark::Reader, place.is_reader);
        }
        self.writer.store(layout.writer.as_ref().map_or(0, |at| at + 1), Relaxed);
    }

    fn tell(&self, server: ServerId, now: &Condition) {
        let seen = self.watched(server);
        let (server, state) = (&self.servers.get(server).name, seen.state);
        let (reason, role, message) = (seen.reason, seen.role, "a server has changed");
        match now {
            Condition { is_down: true, .. } => {
                tracing::error!(server, state, reason, role, "{message}");
            }
            // On its way up or down, or as an operator has ordered.
            _ => tracing::info!(server, state, reason, role, "{message}"),
        }
    }

    pub(crate) fn watched(&self, server: ServerId) -> Watched {
        let decided = lock(&self.state);
        let (health, place) = (decided.members.health(server.0), &decided.layout.places[server.0]);
        let (reason, since) = health.reason();
        Watched {
            state: health.name(),
            since,
            reason: reason.to_owned(),
            role: place.role.clone(),
            lag: place.lag,
            paused: place.paused,
            results: decided.results[server.0].clone(),
            agent: health.agent().to_string(),
            heard: decided.heard[server.0].clone(),
            weight: f64::from(self.seats[server.0].share.load(Relaxed)) / 1000.0,
            against: health.against(),
            is_by_agent: health.agent().down.is_some() && health.state() != State::Down,
            growth: Some(place.growth).filter(|growth| *growth < 1.0 && health.is_usable()),
        }
    }

    /// Why nothing can be served, server by server.
    pub(crate) fn why_not(&self) -> String {
        let decided = lock(&self.state);
        let why = decided.layout.writer.as_ref().err().cloned();
        let places = decided.layout.places.iter().zip(self.servers.all());
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
