//! Several servers, as the whole process sees them: what checks have found, and which server is for what now.
//!
//! Owns the decisions ([`engine::fleet`]) behind a lock that the road never takes; what the road asks is published in
//! numbers of its own. Who is served where is decided by [`crate::road::route`].

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::checks::desk::{Loads, Subject};
use engine::checks::health::{Order, Sign, State};
use engine::fleet::{self, Bounds, Layout, Member, Role};

use crate::config::Plan;
use crate::server::Standing;
use crate::servers::ServerId;
use crate::worker::{Mail, Shared};

/// The servers of `[[servers]]`.
#[derive(Debug)]
pub(crate) struct Fleet {
    state: Mutex<Decided>,
    origin: Instant,
    /// The writer's place and one; zero is none.
    writer: AtomicUsize,
    seats: Box<[Seat]>,
    pub(crate) loads: Arc<Loads>,
    /// What is checked, in the order of the servers.
    pub(crate) subjects: Vec<Arc<Subject>>,
}

#[derive(Debug)]
struct Decided {
    fleet: fleet::Fleet,
    layout: Layout,
    results: Vec<Results>,
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
    weight: u32,
    is_reader: AtomicBool,
    is_usable: AtomicBool,
    /// Its role may be another one by now, and a check is on its way.
    is_doubted: AtomicBool,
    /// It has all that was committed before this moment, in microseconds since the origin; zero is unknown.
    caught_up: AtomicU64,
    /// Its weight for now, in thousandths.
    share: AtomicU32,
}

/// What a check has found.
#[derive(Debug)]
pub(crate) enum Finding {
    /// The server answers, and says nothing of its role.
    Passed,
    /// It answers, and says who it is.
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

/// How a server is, for those who watch it.
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
}

impl Fleet {
    /// `None`: there is one server, of which nothing is to be decided.
    pub(crate) fn new(plan: &Plan, workers: usize) -> Option<Self> {
        if plan.servers.is_empty() {
            return None;
        }
        let now = Instant::now();
        let members: Vec<_> = plan
            .servers
            .iter()
            .map(|rule| Member { group: rule.group, backup: rule.backup })
            .collect();
        let bounds = Bounds { lag_max: plan.routing.lag_max };
        let fleet = fleet::Fleet::new(&members, &plan.checks.rules, bounds, now);
        let seat = |rule: &crate::config::ServerRule| Seat {
            weight: rule.weight,
            is_reader: AtomicBool::new(false),
            is_usable: AtomicBool::new(true),
            is_doubted: AtomicBool::new(false),
            caught_up: AtomicU64::new(0),
            share: AtomicU32::new(rule.weight * 1000),
        };
        let layout = fleet.layout(now);
        let results = vec![Results::default(); members.len()];
        Some(Self {
            state: Mutex::new(Decided { fleet, layout, results }),
            origin: now.checked_sub(Duration::from_secs(1)).unwrap_or(now),
            writer: AtomicUsize::new(0),
            seats: plan.servers.iter().map(seat).collect(),
            loads: Arc::new(Loads::new(workers)),
            subjects: (0..members.len() as u64).map(Subject::new).collect(),
        })
    }

    pub(crate) fn writer(&self) -> Option<ServerId> {
        self.writer.load(Relaxed).checked_sub(1).map(ServerId)
    }

    pub(crate) fn is_reader(&self, server: ServerId) -> bool {
        self.seats[server.0].is_reader.load(Relaxed)
    }

    /// Whether a server answers, and is not to be left alone.
    pub(crate) fn is_usable(&self, server: ServerId) -> bool {
        self.seats[server.0].is_usable.load(Relaxed)
    }

    /// Its weight among readers, in thousandths.
    pub(crate) fn share(&self, server: ServerId) -> u32 {
        self.seats[server.0].share.load(Relaxed).max(1)
    }

    /// Whether a server has all that was committed at this moment. `None`: it does not tell.
    pub(crate) fn has_all_of(&self, server: ServerId, moment: Instant) -> Option<bool> {
        match self.seats[server.0].caught_up.load(Relaxed) {
            0 => None,
            caught_up => Some(caught_up > self.micros(moment)),
        }
    }

    fn micros(&self, moment: Instant) -> u64 {
        let since = moment.saturating_duration_since(self.origin).as_micros();
        u64::try_from(since).unwrap_or(u64::MAX)
    }

    /// A check has ended. Answers with when the next one is due.
    pub(crate) fn take(&self, shared: &Shared, checked: Checked) -> Duration {
        let Checked { server, finding, begun } = checked;
        let now = Instant::now();
        self.seats[server.0].is_doubted.store(false, Relaxed);
        self.change(shared, |decided| {
            let results = &mut decided.results[server.0];
            results.last = Some(std::time::SystemTime::now());
            results.error = match &finding {
                Finding::Failed(why) => Some(why.clone()),
                Finding::Busy => Some("too many connections".to_owned()),
                _ => None,
            };
            match &finding {
                Finding::Failed(_) => results.failed += 1,
                _ => results.passed += 1,
            }
            match finding {
                Finding::Passed => decided.fleet.see(server.0, Sign::Passed, now),
                Finding::Busy => decided.fleet.see(server.0, Sign::Busy, now),
                Finding::Failed(why) => decided.fleet.see(server.0, Sign::Failed(why), now),
                Finding::Said(role) => decided.fleet.hear(server.0, role, begun, now),
            };
        });
        let interval = lock(&self.state).fleet.health(server.0).interval();
        interval.unwrap_or(IN_MAINTENANCE)
    }

    /// Traffic has failed in a way that speaks against the server: it is checked at once.
    pub(crate) fn suspect(&self, shared: &Shared, server: ServerId, why: &str) {
        let now = Instant::now();
        let mut wants = false;
        self.change(shared, |decided| {
            decided.fleet.see(server.0, Sign::TrafficFailed(why.to_owned()), now);
            wants = decided.fleet.takes_check(server.0);
        });
        if wants {
            shared.mail_all(|| Mail::CheckNow(server));
        }
    }

    /// The writer, of whom it is thought that it is one, says something else: it is asked at once.
    pub(crate) fn doubt(&self, shared: &Shared, server: ServerId) {
        let is_writer = self.writer() == Some(server);
        if is_writer && !self.seats[server.0].is_doubted.swap(true, Relaxed) {
            shared.mail_all(|| Mail::CheckNow(server));
        }
    }

    /// Somebody orders something on the console.
    pub(crate) fn order(&self, shared: &Shared, server: ServerId, standing: Standing) {
        let order = match standing {
            Standing::Up | Standing::Paused => Order::None,
            Standing::Drain => Order::Drain,
            Standing::Maintenance => Order::Maintenance,
        };
        self.change(shared, |decided| {
            decided.fleet.order(server.0, order, "by an order on the console", Instant::now());
        });
        shared.mail_all(|| Mail::CheckNow(server));
    }

    /// Changes what is known, publishes what follows from that, and tells the workers what has changed for them.
    fn change(&self, shared: &Shared, change: impl FnOnce(&mut Decided)) {
        let mut decided = lock(&self.state);
        let states = |decided: &Decided| -> Vec<_> {
            (0..self.seats.len()).map(|at| decided.fleet.health(at).state()).collect()
        };
        let (before, were) = (decided.layout.clone(), states(&decided));
        change(&mut decided);
        let (layout, are) = (decided.fleet.layout(Instant::now()), states(&decided));
        self.publish(&decided, &layout);
        decided.layout = layout.clone();
        drop(decided);
        for (at, (was, is)) in were.iter().zip(&are).enumerate() {
            if was != is {
                self.tell(shared, ServerId(at));
            }
            if was != is && *is == State::Down {
                shared.mail_all(|| Mail::ServerDown(ServerId(at)));
            }
        }
        if before.writer != layout.writer {
            let name = |writer: &Result<usize, String>| match writer {
                Ok(at) => shared.servers[*at].name.clone(),
                Err(why) => format!("none ({why})"),
            };
            let (old, new) = (name(&before.writer), name(&layout.writer));
            tracing::warn!(old, new, "the writer is another one");
            if let Ok(at) = before.writer {
                shared.mail_all(|| Mail::NotWriter(ServerId(at)));
            }
        }
        let gains = before
            .places
            .iter()
            .zip(&layout.places)
            .any(|(was, is)| is.is_reader && !was.is_reader);
        if gains || before.writer != layout.writer {
            shared.mail_all(|| Mail::Rerouted);
        }
    }

    fn publish(&self, decided: &Decided, layout: &Layout) {
        for (at, (seat, place)) in self.seats.iter().zip(&layout.places).enumerate() {
            let caught_up = place.caught_up.map_or(0, |moment| self.micros(moment));
            seat.caught_up.store(caught_up, Relaxed);
            seat.share.store((f64::from(seat.weight) * 1000.0 * place.share) as u32, Relaxed);
            seat.is_usable.store(decided.fleet.health(at).is_usable(), Relaxed);
            seat.is_reader.store(place.is_reader, Relaxed);
        }
        self.writer.store(layout.writer.as_ref().map_or(0, |at| at + 1), Relaxed);
    }

    fn tell(&self, shared: &Shared, server: ServerId) {
        let seen = self.watched(server);
        let name = &shared.server(server).name;
        tracing::warn!(
            server = name,
            state = seen.state,
            reason = seen.reason,
            role = seen.role,
            "a server has changed"
        );
    }

    pub(crate) fn watched(&self, server: ServerId) -> Watched {
        let decided = lock(&self.state);
        let (health, place) = (decided.fleet.health(server.0), &decided.layout.places[server.0]);
        let (reason, since) = health.reason();
        let state = match (health.order(), health.state()) {
            (Order::Drain, _) => "drain",
            (Order::Maintenance, _) => "maintenance",
            (Order::None, State::Up) => "up",
            (Order::None, State::GoingDown) => "going down",
            (Order::None, State::Down) => "down",
            (Order::None, State::GoingUp) => "going up",
        };
        Watched {
            state,
            since,
            reason: reason.to_owned(),
            role: place.role.clone(),
            lag: place.lag,
            paused: place.paused,
            results: decided.results[server.0].clone(),
        }
    }

    /// Why nothing can be served, server by server.
    pub(crate) fn why_not(&self, shared: &Shared) -> String {
        let decided = lock(&self.state);
        let why = decided.layout.writer.as_ref().err().cloned();
        let places = decided.layout.places.iter().zip(&shared.servers);
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
