//! A worker's checks of servers: runs those that are due, and tells the cluster what they have found.
//!
//! Owns the backends that checks keep open. When a check is due, and whether another worker has more time for it, is
//! decided by [`engine::checks::scheduler`]. Invariants: a check ends after `checks.timeout`, whatever the server does;
//! a check that may not log in has failed, for it does not learn what the server is for.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backend::login::{Credential, LoggedIn, LoginError};
use engine::account::name::UserName;
use engine::checks::places::{CheckBounds, Habit, LATE};
use engine::checks::scheduler::{CheckScheduler, Deed, Moving, Subject, first_due, next_due};
use tokio::sync::Notify;
use wire::auth::Secret;
use wire::handshake::UTF8MB4;

use crate::cluster::Cluster;
use crate::cluster::agent;
use crate::cluster::dial::{self, NoBackend};
use crate::cluster::facts::Standing;
use crate::cluster::members::{Checked, Finding};
use crate::cluster::post::{News, SilentServer};
use crate::cluster::roles;
use crate::cluster::servers::{Server, ServerId};
use crate::config::{CheckKind, CheckOptions, Password, Plan, UserOptions};
use crate::worker::steps::step;

/// One worker's checks.
pub(crate) struct Checks {
    cluster: Arc<Cluster>,
    scheduler: RefCell<CheckScheduler>,
    changed: Notify,
    /// Backends on which servers are asked, kept from one check to the next.
    warm: RefCell<HashMap<u64, Warm>>,
}

/// A backend that a check has used.
struct Warm {
    backend: LoggedIn,
    /// Where the server was then.
    version: u32,
    /// The account that it has logged in as.
    user: String,
    password: Secret,
}

/// What is checked of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asked {
    Server,
    Agent,
}

/// The number of what is checked: of a server, or of its agent.
const fn subject(server: ServerId, asked: Asked) -> u64 {
    server.0 as u64 * 2 + matches!(asked, Asked::Agent) as u64
}

/// What is checked by this number.
const fn checked(subject: u64) -> (ServerId, Asked) {
    let asked = if subject.is_multiple_of(2) { Asked::Server } else { Asked::Agent };
    (ServerId((subject / 2) as usize), asked)
}

/// All that is checked of a server.
fn subjects(server: &Server) -> impl Iterator<Item = u64> + use<> {
    let agent = server.agent.as_ref().map(|_| subject(server.id, Asked::Agent));
    std::iter::once(subject(server.id, Asked::Server)).chain(agent)
}

/// A check's time varies by this share of its interval, so that many do not come at once.
const JITTER: f64 = 0.05;

/// Runs a worker's checks for as long as it lives.
pub(crate) async fn run(checks: Rc<Checks>) {
    loop {
        let deed = checks.scheduler.borrow_mut().next(crate::worker::clock::read(), draw);
        match deed {
            Some(Deed::Run(subject, due)) => {
                crate::worker::tasks::vital(check(Rc::clone(&checks), subject, due));
            }
            Some(Deed::Send(other, moving)) => {
                checks.cluster.post.to(other, News::Check(moving));
            }
            None => {
                let due = checks.scheduler.borrow().due();
                let sleep = due.map_or(FOR_EVER, |due| {
                    due.saturating_duration_since(crate::worker::clock::read())
                });
                tokio::select! {
                    biased;
                    () = checks.changed.notified() => {}
                    () = tokio::time::sleep(sleep) => {}
                }
            }
        }
    }
}

/// The first checks of all servers are spread over so much time.
const FIRST: Duration = Duration::from_millis(50);

/// A server that is not asked is looked at again for whether it is to be asked.
const UNASKED: Duration = Duration::from_secs(1);

/// Until something changes.
const FOR_EVER: Duration = Duration::from_hours(1);

fn draw(below: usize) -> usize {
    sys::random::number() as usize % below
}

impl Checks {
    pub(crate) fn new(worker: usize, cluster: &Arc<Cluster>) -> Self {
        let (loads, bounds) = (Arc::clone(&cluster.loads), bounds(&cluster.plan()));
        Self {
            scheduler: RefCell::new(CheckScheduler::new(worker, loads, bounds)),
            cluster: Arc::clone(cluster),
            changed: Notify::new(),
            warm: RefCell::default(),
        }
    }

    /// Begins to check these servers. One worker does that for all, and others take over a part.
    pub(crate) fn begin(&self, servers: &[ServerId]) {
        let servers = servers.iter().map(|id| self.cluster.server(*id));
        let subjects: Vec<_> =
            servers.flat_map(|server| subjects(server).map(move |id| (server, id))).collect();
        let (now, plan) = (crate::worker::clock::read(), self.cluster.plan());
        for (place, (server, id)) in subjects.iter().enumerate() {
            let inter = checks_of(&plan, server).rules.inter;
            // The first checks come early: until then it is not known which server is for what.
            let first = if self.cluster.is_routed() { inter.min(FIRST) } else { inter };
            let due = first_due(now, first, place, subjects.len());
            self.scheduler.borrow_mut().add(Subject::new(*id), due);
        }
        self.changed.notify_one();
    }

    /// Goes by what is in force now.
    pub(crate) fn adopt(&self) {
        self.scheduler.borrow_mut().set_bounds(bounds(&self.cluster.plan()));
        self.changed.notify_one();
    }

    /// A check comes from another worker.
    pub(crate) fn arrive(&self, moving: Moving) {
        self.scheduler.borrow_mut().arrive(moving, crate::worker::clock::read());
        self.changed.notify_one();
    }

    /// A check is wanted before it is due.
    pub(crate) fn hasten(&self, server: ServerId) {
        let id = subject(server, Asked::Server);
        self.scheduler.borrow_mut().hasten(id, crate::worker::clock::read());
        self.changed.notify_one();
    }
}

/// How many checks run in a worker.
fn bounds(plan: &Plan) -> CheckBounds {
    CheckBounds::new(plan.checks.at_once, plan.checks.timeout)
}

/// What is said of the checks of a server.
fn checks_of<'a>(plan: &'a Plan, server: &Server) -> &'a CheckOptions {
    plan.governing(&server.cluster).checks
}

async fn check(checks: Rc<Checks>, subject: Arc<Subject>, due: Instant) {
    step!("check");
    let (id, asked) = checked(subject.id);
    let members = checks.cluster.of(id);
    let server = checks.cluster.server(id);
    let begun = crate::worker::clock::read();
    let (mut habit, timeout) = (Habit::Answers, checks_of(&checks.cluster.plan(), server).timeout);
    let interval = match asked {
        _ if !is_asked(&checks.cluster, server) => {
            checks.warm.borrow_mut().remove(&subject.id);
            UNASKED
        }
        Asked::Agent => {
            let is_heard = agent::ask(timeout, members, server).await;
            habit = habit_of(is_heard, begun, timeout);
            checks_of(&checks.cluster.plan(), server).agent_inter
        }
        Asked::Server if members.is_checked(id) => {
            let dials = server.facts.dials.get();
            let finding = within_time(&checks, server, timeout).await;
            let has_answered = !matches!(finding, Finding::Failed(_));
            let interval = members.take(Checked { server: id, finding, begun });
            // One that is going down is asked as the others are until it is down.
            let down_since = members.down_since(id).filter(|_| !has_answered);
            habit = habit_of(down_since.is_none(), begun, timeout);
            if let (Some(since), Habit::Silent) = (down_since, habit)
                && !checks.cluster.is_routed()
            {
                let machine = server.facts.dials.machine_since(dials);
                let silent = SilentServer { id, since, machine };
                checks.cluster.post.to_all(|| News::Silent(silent));
            }
            interval
        }
        Asked::Server => FIRST * 4,
    };
    let chance = f64::from(sys::random::number()) / f64::from(u32::MAX);
    let now = crate::worker::clock::read();
    // A check that took longer than its interval is followed by the next at once.
    let next = match now.saturating_duration_since(begun) > interval {
        true => now,
        false => next_due(due, now, interval, JITTER, chance),
    };
    checks.scheduler.borrow_mut().done(subject.id, habit, next);
    checks.changed.notify_one();
}

/// What is to be expected of the next check: one that failed late, as it does whose packets are dropped, had a socket
/// for long and no answer.
fn habit_of(is_well: bool, begun: Instant, timeout: Duration) -> Habit {
    match is_well || crate::worker::clock::since(begun) < timeout / LATE {
        true => Habit::Answers,
        false => Habit::Silent,
    }
}

/// Whether a server is asked at all. Of several, those that are in maintenance are told apart by what is known of them.
fn is_asked(cluster: &Cluster, server: &Server) -> bool {
    let is_only = !cluster.is_routed();
    let is_left_alone = is_only && server.facts.standing() == Standing::Maintenance;
    !server.is_retired() && !is_left_alone && cluster.asks()
}

/// Asks a server, and does not wait for longer than is allowed.
async fn within_time(checks: &Checks, server: &Server, limit: Duration) -> Finding {
    let finding = match tokio::time::timeout(limit, find(checks, server)).await {
        Ok(found) => found,
        Err(_) => Finding::Failed(format!("no answer within {limit:?} (checks.timeout)")),
    };
    if !matches!(finding, Finding::Said(_) | Finding::Passed) {
        checks.warm.borrow_mut().remove(&subject(server.id, Asked::Server));
    }
    finding
}

/// Asks a server what the plan says.
async fn find(checks: &Checks, server: &Server) -> Finding {
    let plan = checks.cluster.plan();
    let options = checks_of(&plan, server);
    match (options.kind, account(&plan, options)) {
        (CheckKind::Connect, _) => match server.place.dial().await {
            Ok(_) => Finding::Passed,
            Err(error) => Finding::Failed(format!("it cannot be reached: {error}")),
        },
        (CheckKind::None, _) => Finding::Passed,
        (CheckKind::Handshake, _) | (_, None) => {
            match checks.cluster.dialer.greeted_once(server, None).await {
                Ok(_) => Finding::Passed,
                Err(error) => refused(&error),
            }
        }
        (kind, Some((user, password))) => {
            let asked = ask(checks, server, kind, (user, password)).await;
            asked.unwrap_or_else(|error| refused(&error))
        }
    }
}

/// Whether the only server is asked by this plan: by default, if there is an account for that.
pub(super) fn asks_only_server(plan: &Plan) -> bool {
    match plan.checks.kind {
        CheckKind::None => false,
        CheckKind::Auto => account(plan, &plan.checks).is_some(),
        _ => true,
    }
}

/// The user that checks log in as.
pub(crate) fn account<'a>(
    plan: &'a Plan,
    checks: &'a CheckOptions,
) -> Option<(&'a str, &'a Secret)> {
    if let (Some(user), Some(password)) = (&checks.user, &checks.password) {
        return Some((user, password));
    }
    let known = |user: &&UserOptions| {
        user.pooled && checks.user.as_ref().is_none_or(|name| *name == user.name)
    };
    plan.users.iter().filter(known).find_map(named)
}

/// A user whose password is known.
fn named(user: &UserOptions) -> Option<(&str, &Secret)> {
    match &user.password {
        Some(Password::Plain(password)) => Some((user.name.as_str(), password)),
        _ => None,
    }
}

/// The same of this name: the user of these checks, or a pooled one.
pub(crate) fn account_of<'a>(
    plan: &'a Plan,
    checks: &'a CheckOptions,
    name: &str,
) -> Option<(&'a str, &'a Secret)> {
    let own = account(plan, checks).filter(|(user, _)| *user == name);
    let is_it = |user: &&UserOptions| user.pooled && user.name == name;
    own.or_else(|| plan.users.iter().filter(is_it).find_map(named))
}

async fn ask(
    checks: &Checks,
    server: &Server,
    kind: CheckKind,
    (user, password): (&str, &Secret),
) -> Result<Finding, NoBackend> {
    let id = subject(server.id, Asked::Server);
    let version = server.place.version();
    let warm = checks.warm.borrow_mut().remove(&id);
    // Where the server was, it is not asked any more; nor as another user than now.
    let is_good = |it: &Warm| it.version == version && it.user == user && it.password == *password;
    let warm = warm.filter(is_good).map(|it| it.backend);
    let is_warm = warm.is_some();
    let mut backend = match warm {
        Some(backend) => backend,
        None => log_in(&checks.cluster, server, user, password).await?,
    };
    let mut found = question(&checks.cluster, server, kind, &mut backend).await;
    if is_warm && matches!(found, Err(LoginError::Talk(_))) {
        // The server may have closed a backend that was idle for long.
        backend = log_in(&checks.cluster, server, user, password).await?;
        found = question(&checks.cluster, server, kind, &mut backend).await;
    }
    let found = found?;
    let (user, password) = (user.to_owned(), password.clone());
    checks.warm.borrow_mut().insert(id, Warm { backend, version, user, password });
    Ok(found)
}

pub(crate) async fn log_in(
    cluster: &Cluster,
    server: &Server,
    user: &str,
    password: &Secret,
) -> Result<LoggedIn, NoBackend> {
    let credential = Credential::Password(password.clone());
    let user = UserName::of_account(user);
    cluster.dialer.log_in_as(server, &user, &credential, dial::POOLED, UTF8MB4).await
}

async fn question(
    cluster: &Cluster,
    server: &Server,
    kind: CheckKind,
    backend: &mut LoggedIn,
) -> Result<Finding, LoginError> {
    let (plan, is_only) = (cluster.plan(), !cluster.is_routed());
    let checks = checks_of(&plan, server);
    match kind {
        CheckKind::Statement => {
            let text = checks.statement.as_deref().unwrap_or("SELECT 'alive', 1");
            let rows = backend.rows(text).await?;
            let first = rows.first().map(|(_, value)| String::from_utf8_lossy(value).into_owned());
            Ok(match (&checks.expect, first) {
                (Some(expected), Some(found)) if found == *expected => Finding::Passed,
                (None, _) => Finding::Passed,
                (Some(expected), found) => Finding::Failed(format!(
                    "checks.statement answers {:?}, not {expected:?}",
                    found.unwrap_or_else(|| "nothing".to_owned())
                )),
            })
        }
        CheckKind::Ping => backend.ping().await.map(|()| Finding::Passed),
        // There is no role to find out.
        _ if is_only => backend.ping().await.map(|()| Finding::Passed),
        _ => roles::ask(backend).await.map(Finding::Said),
    }
}

/// What a check that could not be made says of the server.
fn refused(error: &NoBackend) -> Finding {
    match error {
        NoBackend::Login(LoginError::Refused { code, .. }) if TOO_MANY.contains(code) => {
            Finding::Busy
        }
        NoBackend::Login(LoginError::Refused { code, .. }) if REFUSALS.contains(code) => {
            Finding::Failed(format!(
                "the check may not log in: {error}; give it an account that may (checks.user)"
            ))
        }
        error => Finding::Failed(error.to_string()),
    }
}

/// Too many connections of all users, or of this one.
const TOO_MANY: [u16; 3] = [1040, 1203, 1226];

/// Refusals of a user: no rights, a wrong password, a locked account.
const REFUSALS: [u16; 5] = [1044, 1045, 1698, 3118, 4151];
