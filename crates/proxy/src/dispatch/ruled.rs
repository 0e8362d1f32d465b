//! What rules do to a command: it is refused or answered here, its text becomes another one, it is sent elsewhere, it
//! waits, or it goes on as it came.
//!
//! Which rules a statement hits is decided in [`engine::statement`]. A text is judged when it comes as a query and when
//! it is prepared; a prepared statement once more at each execution, where nothing can be edited any more. Invariants:
//! without rules, a statement costs one look at that; nothing is done to a text that would change how many values are
//! bound to it; a client in a transaction neither waits nor moves.

mod firewall;
pub(crate) mod hits;
pub(crate) mod rows;
pub(crate) mod waits;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::intent::Digest;
use engine::statement::edit::Unfit;
use engine::statement::judge::Ruling;
use engine::statement::part::parts;
use engine::statement::rule::{RatePer, RuleAnswer, RuleRate, RuleRoute};
use engine::statement::rules::{Moment, ReadyRule, Rules, SessionFacts};
use wire::text::Text;

use self::hits::{RuleWay, Ruled, joined};
use self::waits::{AfterRules, carry};
use crate::dispatch::answer;
use crate::dispatch::client::Client;
use crate::dispatch::command::Command;
use crate::dispatch::query_rewrite::QueryPacket;
use crate::dispatch::worker::Worker;
use crate::fault::{Fault, Kind};

/// How a statement came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comes {
    AsQuery,
    ToBePrepared,
    Prepared,
}

/// Rules look at a text.
pub(crate) fn see_text(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    query: &mut QueryPacket<'_>,
    digest: Digest,
    comes: Comes,
) -> AfterRules {
    // The rest of it goes behind as it comes: nothing can be put in its place.
    if client.input.is_part() {
        return see_unreadable(worker, client, command);
    }
    if let Some(carried) = worker.ruled.carried.take() {
        let command = carry(command, carried);
        return match comes {
            Comes::ToBePrepared => AfterRules::GoesOn(command),
            _ => waits::enter_rooms(worker, client, command, query.packet()),
        };
    }
    let Some((rules, hit)) = judge(worker, client, digest, Some(query.text())) else {
        return AfterRules::GoesOn(command);
    };
    let mut ruled = match begin(worker, client, &rules, &hit, digest, comes, Some(query.text())) {
        Ok(ruled) => ruled,
        Err(fault) => {
            answer::refuse(worker, client, command, &fault);
            return AfterRules::Over;
        }
    };
    let answers = hit.iter().flat_map(|hit| hit.iter()).filter_map(|at| rules.get(*at));
    let mut answers = answers.filter_map(|it| Some((it, it.rule.acts.answer.as_ref()?)));
    if let Some((ready, given)) = answers.next() {
        if hit.len() > 1 {
            let why = "answers one of several statements in a text, which cannot be done";
            answer::refuse(worker, client, command, &refused(ready, why));
            return AfterRules::Over;
        }
        if comes == Comes::AsQuery {
            answer_here(worker, client, command, given);
            return AfterRules::Over;
        }
        let placeholders =
            parts(query.text()).map_or(0, |all| all.iter().map(|it| it.placeholders()).sum());
        ruled.original = Some(query.text().bytes.into());
        query.put(given.as_statement(placeholders));
        return AfterRules::GoesOn(carry(command, ruled));
    }
    match edited(&rules, &hit, query.text()) {
        Ok(None) => {}
        Ok(Some(text)) => {
            if comes == Comes::ToBePrepared {
                ruled.original = Some(query.text().bytes.into());
            }
            query.put(text);
        }
        Err((ready, unfit)) => {
            let why = format!("cannot rewrite it: {}", unfit.why());
            answer::refuse(worker, client, command, &refused(ready, &why));
            return AfterRules::Over;
        }
    }
    if comes == Comes::ToBePrepared {
        return AfterRules::GoesOn(carry(command, ruled));
    }
    let delay = delay(&rules, &ruled);
    waits::delay(worker, client, command, ruled, delay, query.packet())
}

/// Rules look at the execution of a prepared statement, of which this is the text as it was prepared.
pub(crate) fn see_execute(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    packet: &[u8],
    digest: Digest,
    text: Text<'_>,
) -> AfterRules {
    if let Some(carried) = worker.ruled.carried.take() {
        return waits::enter_rooms(worker, client, carry(command, carried), packet);
    }
    let Some((rules, hit)) = judge(worker, client, digest, Some(text)) else {
        return AfterRules::GoesOn(command);
    };
    match begin(worker, client, &rules, &hit, digest, Comes::Prepared, None) {
        Ok(ruled) => {
            let delay = delay(&rules, &ruled);
            waits::delay(worker, client, command, ruled, delay, packet)
        }
        Err(fault) => {
            answer::refuse(worker, client, command, &fault);
            AfterRules::Over
        }
    }
}

/// Rules look at a text that cannot be read, or of which not all is there.
pub(crate) fn see_unreadable(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
) -> AfterRules {
    let digest = Digest::default();
    if worker.ruled.carried.take().is_none()
        && let Some((rules, hit)) = judge(worker, client, digest, None)
        && let Err(fault) = begin(worker, client, &rules, &hit, digest, Comes::AsQuery, None)
    {
        answer::refuse(worker, client, command, &fault);
        return AfterRules::Over;
    }
    AfterRules::GoesOn(command)
}

/// The rules that are in force, and those that each statement hits.
type Judged = (Arc<Rules>, Vec<Rc<[usize]>>);

/// The rules that are hit, of each statement. `None`: none is.
fn judge(
    worker: &Worker,
    client: &Client,
    digest: Digest,
    text: Option<Text<'_>>,
) -> Option<Judged> {
    let mut judge = worker.ruled.judge.borrow_mut();
    let judge = judge.as_mut()?;
    let user = client.user.borrow();
    let session = client.session.borrow();
    let facts = SessionFacts {
        user: user.as_bytes(),
        schema: session.schema.as_deref(),
        address: client.peer.map(|peer| peer.ip()),
    };
    let in_transaction = session.in_transaction() || session.has_begun();
    let mut moment = Moment { in_transaction, ..Moment::default() };
    if judge.rules().asks_time() {
        (moment.local, moment.utc) = worker.ruled.week_minutes();
    }
    let hit = match judge.judge(&facts, digest, text, &moment) {
        Ruling::Silent => return None,
        Ruling::One(hit) => vec![hit],
        Ruling::Several(hit) => hit,
    };
    Some((Arc::clone(judge.rules()), hit))
}

/// Counts the hits, and says where the command goes. An error says why nowhere.
fn begin(
    worker: &Worker,
    client: &Client,
    rules: &Arc<Rules>,
    hit: &[Rc<[usize]>],
    digest: Digest,
    comes: Comes,
    text: Option<Text<'_>>,
) -> Result<Box<Ruled>, Fault> {
    let now = crate::worker::clock::now();
    let mut ruled = Box::new(Ruled {
        rules: Arc::clone(rules),
        hit: joined(hit),
        since: now,
        class: None,
        way: None,
        wait: 0,
        timer: None,
        line: None,
        permits: Vec::new(),
        original: None,
    });
    let mut routed = None;
    for ready in ruled.hit.clone().into_iter().filter_map(|at| rules.get(at)) {
        rules.count_hit(ready, now);
        let acts = &ready.rule.acts;
        if let Some(ruled) = acts.firewall.as_ref().filter(|_| comes != Comes::Prepared) {
            firewall::pass(worker, client, (ready, ruled), text)?;
        }
        if let Some(refusal) = &acts.refuse {
            let message = match refusal.message.is_empty() {
                true => told(ready, "refuses it"),
                false => refusal.message.clone(),
            };
            let state = String::from_utf8_lossy(&refusal.state).into_owned();
            let fault = Fault::relayed(refusal.number, &state, &message);
            return Err(fault.of_kind(Kind::RuleRefused));
        }
        if let Some(rate) = acts.rate.as_ref().filter(|_| comes != Comes::ToBePrepared)
            && !may_run(client, ready, rate, digest)
        {
            return Err(too_many(ready, rate));
        }
        if let Some(class) = &acts.class {
            ruled.class = worker.classes().named(class.as_bytes());
        }
        if let Some(route) = &acts.route {
            ruled.way = way(worker, route);
            routed = Some(ready);
        }
    }
    if let (Some(way), Some(ready)) = (ruled.way, routed) {
        stays(worker, client, way, ready)?;
    }
    Ok(ruled)
}

fn told(ready: &ReadyRule, why: &str) -> String {
    format!("Flifo did not run this statement: the rule {:?} {why}", ready.rule.name)
}

fn refused(ready: &ReadyRule, why: &str) -> Fault {
    Fault::relayed(1235, "42000", &told(ready, why)).of_kind(Kind::RuleRefused)
}

fn may_run(client: &Client, ready: &ReadyRule, rate: &RuleRate, digest: Digest) -> bool {
    let now = crate::worker::clock::now();
    match rate.per {
        RatePer::All => ready.take(rate, b"", now),
        RatePer::User => ready.take(rate, client.user.borrow().as_bytes(), now),
        RatePer::Schema => {
            let session = client.session.borrow();
            ready.take(rate, session.schema.as_deref().unwrap_or_default(), now)
        }
        RatePer::Address => match client.peer.map(|peer| peer.ip().to_canonical()) {
            None => ready.take(rate, b"", now),
            Some(std::net::IpAddr::V4(address)) => ready.take(rate, &address.octets(), now),
            Some(std::net::IpAddr::V6(address)) => ready.take(rate, &address.octets(), now),
        },
        RatePer::Digest => ready.take(rate, &digest.hash().to_le_bytes(), now),
    }
}

fn too_many(ready: &ReadyRule, rate: &RuleRate) -> Fault {
    let name = |(name, per): &(&'static str, RatePer)| (*per == rate.per).then_some(*name);
    let per = RatePer::ALL.iter().find_map(name).unwrap_or_default();
    let per = if rate.per == RatePer::All { String::new() } else { format!(" of one {per}") };
    let (statements, within) = (rate.statements, rate.within);
    let why = format!("lets {statements} statements{per} run within {within:?}. Try again later");
    Fault::relayed(1226, "42000", &told(ready, &why)).of_kind(Kind::RuleRefused)
}

/// Where a route leads by now. `None`: there is one server, or none of that name any more.
fn way(worker: &Worker, route: &RuleRoute) -> Option<RuleWay> {
    if !worker.shared.cluster.is_routed() {
        return None;
    }
    Some(match route {
        RuleRoute::Writer => RuleWay::Writer,
        RuleRoute::Reader => RuleWay::Reader,
        RuleRoute::Server(name) => {
            let mut servers = worker.shared.cluster.servers.iter();
            RuleWay::To(servers.find(|server| server.name == *name)?.id)
        }
    })
}

/// A client in a transaction stays where it is: a rule that would have one of its statements run elsewhere is an error.
fn stays(worker: &Worker, client: &Client, way: RuleWay, ready: &ReadyRule) -> Result<(), Fault> {
    let cluster = &worker.shared.cluster;
    if let RuleWay::To(server) = way
        && cluster.of(server).id != client.routing.cluster.get()
    {
        return Err(refused(ready, "would have it run in another cluster than its client's"));
    }
    let Some(backend) = client.backend() else { return Ok(()) };
    let Some(members) = cluster.routes_at(backend.server) else { return Ok(()) };
    let is_there = match way {
        RuleWay::Writer => members.writer() == Some(backend.server),
        // What the transaction has written is on the writer, and only there.
        RuleWay::Reader => {
            members.is_reader(backend.server) || members.writer() == Some(backend.server)
        }
        RuleWay::To(server) => backend.server == server,
    };
    if is_there || !client.session.borrow().in_transaction() || !client.is_pooled() {
        return Ok(());
    }
    Err(refused(
        ready,
        "would have it run on another server than the transaction that it is part of",
    ))
}

/// The text as rules make it. `None`: as it is.
fn edited<'r>(
    rules: &'r Rules,
    hit: &[Rc<[usize]>],
    text: Text<'_>,
) -> Result<Option<Vec<u8>>, (&'r ReadyRule, Unfit)> {
    let ready = |at: &usize| rules.get(*at).filter(|ready| !ready.edits.is_empty());
    if !hit.iter().flat_map(|hit| hit.iter()).any(|at| ready(at).is_some()) {
        return Ok(None);
    }
    let Some(parts) = parts(text) else { return Ok(None) };
    let (mut out, mut end, mut is_other) = (Vec::with_capacity(text.bytes.len()), 0, false);
    for (part, hit) in parts.iter().zip(hit) {
        let place = part.place_in_text();
        let mut made = Cow::Borrowed(part.bytes());
        for ready in hit.iter().filter_map(ready) {
            for edit in &ready.edits {
                let edited = edit.apply(&made, text.dialect).map_err(|unfit| (ready, unfit))?;
                if let Some(edited) = edited {
                    (made, is_other) = (Cow::Owned(edited), true);
                }
            }
        }
        out.extend_from_slice(text.bytes.get(end..place.start).unwrap_or_default());
        out.extend_from_slice(&made);
        end = place.end;
    }
    out.extend_from_slice(text.bytes.get(end..).unwrap_or_default());
    Ok(is_other.then_some(out))
}

/// How long a command waits first: as long as the rule says that has it wait longest.
fn delay(rules: &Rules, ruled: &Ruled) -> Option<Duration> {
    let acts = ruled.hit.iter().filter_map(|at| rules.get(*at)).map(|ready| &ready.rule.acts);
    acts.filter_map(|acts| acts.delay).max()
}

/// Answers a query in the server's place.
fn answer_here(worker: &Rc<Worker>, client: &Client, command: Box<Command>, given: &RuleAnswer) {
    answer::clear(worker, client);
    match given {
        RuleAnswer::Ok => answer::ok(client, command),
        RuleAnswer::Rows { columns, rows } => rows::answer(client, command, columns, rows),
    }
}
