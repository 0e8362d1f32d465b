//! What rules do to a command: it is refused or answered here, its text becomes another one, it is sent elsewhere, it
//! waits, or it goes on as it came.
//!
//! Which rules a statement hits is decided in [`engine::statement`]. A text is judged when it comes as a query and when
//! it is prepared; a prepared statement once more at each execution, where nothing can be edited any more. Invariants:
//! without rules, a statement costs one look at that; nothing is done to a text that would change how many values are
//! bound to it; a client in a transaction neither waits nor moves.

mod firewall;
pub(crate) mod long_texts;
mod open;
pub(crate) mod passed;
pub(crate) mod refusals;
pub(crate) mod rows;
pub(crate) mod waits;
pub(crate) mod ways;

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;

use engine::intent::{Digest, Intent};
use engine::mirror::Unmirrored;
use engine::statement::edit::Unfit;
use engine::statement::judge::{Decisions, Judge, Ruling, View};
use engine::statement::part::parts;
use engine::statement::rule::{RatePer, RuleAnswer, RuleRate};
use engine::statement::rules::{Moment, ReadyRule, RuleAsks, Rules, SessionFacts};
use wire::text::Text;

use self::open::Open;
use self::refusals::{refused, told, too_many};
use self::waits::{AfterRules, carry};
use crate::answers::answer;
use crate::answers::query_rewrite::QueryPacket;
use crate::fault::{Fault, Kind};
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::copied::MirrorPart;
use crate::state::rule_hits::{RuleSends, Ruled, joined};
use crate::state::worker::Worker;

/// How a statement came.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comes {
    AsQuery,
    ToBePrepared,
    Prepared,
}

/// What is known of a text before rules look at it.
#[derive(Clone, Copy, Default)]
pub(crate) struct SeenText<'a> {
    pub(crate) digest: Digest,
    /// It is a mere read.
    pub(crate) reads: bool,
    /// The schema that it was prepared in.
    pub(crate) schema: Option<&'a [u8]>,
    /// What rules have said of statements of its form.
    pub(crate) decisions: Option<&'a Decisions>,
}

/// Reads a text, and has rules look at it. `None`: it was answered, or waits.
pub(crate) fn read_text(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    query: &mut QueryPacket<'_>,
    comes: Comes,
) -> Option<(Box<Command>, Intent)> {
    let (mut intent, notes) = worker.learnt.readings.borrow_mut().read_noted(query.text());
    let decisions = notes.as_ref().map(|notes| &notes.decisions);
    if decisions.is_some_and(|decisions| are_silent(worker, client, decisions)) {
        return Some((command, intent));
    }
    let (digest, reads) = (intent.digest, intent.read.is_some());
    let seen = SeenText { digest, reads, schema: None, decisions };
    match see_text(worker, client, command, query, seen, comes) {
        AfterRules::GoesOn(command) => {
            if query.is_other() {
                intent = worker.learnt.readings.borrow_mut().read(query.text());
            }
            Some((command, intent))
        }
        AfterRules::Over => None,
    }
}

/// Whether it is known that rules say nothing of such a statement of this client, and nothing was said of it before.
#[inline]
fn are_silent(worker: &Worker, client: &Client, decisions: &Decisions) -> bool {
    let judge = worker.features.ruled.judge.borrow();
    let session = client.session.borrow();
    let view =
        judge.as_ref().and_then(|judge| client.routing.view.get(judge, session.schema.as_ref()));
    let is_silent = view.is_some_and(|view| decisions.are_silent(view));
    is_silent && session.rule_label.is_none() && !worker.features.ruled.carries()
}

/// The same of a text that goes to the server unread.
pub(crate) fn see_passing_text(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    query: &mut QueryPacket<'_>,
    comes: Comes,
) -> AfterRules {
    let (intent, notes) = worker.learnt.readings.borrow_mut().read_noted(query.text());
    let (digest, decisions) = (intent.digest, notes.as_ref().map(|notes| &notes.decisions));
    let seen = SeenText { digest, decisions, ..SeenText::default() };
    see_text(worker, client, command, query, seen, comes)
}

/// Rules look at a text.
fn see_text(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    query: &mut QueryPacket<'_>,
    seen: SeenText<'_>,
    comes: Comes,
) -> AfterRules {
    // The rest of it goes behind as it comes: nothing can be put in its place.
    if client.input.is_part() {
        return see_unreadable(worker, client, command);
    }
    if let Some(carried) = worker.features.ruled.carried.take() {
        let command = carry(command, carried);
        return match comes {
            Comes::ToBePrepared => AfterRules::GoesOn(command),
            _ => waits::enter_rooms(worker, client, command, query.packet()),
        };
    }
    let (rules, hit) = match judge(worker, client, seen, Some(query.text()), comes) {
        Judged::Silent => return AfterRules::GoesOn(command),
        Judged::Long(rules) => {
            let (packet, text) = (query.whole(), query.text());
            long_texts::look_through(worker, client, command, packet, text, rules);
            return AfterRules::Over;
        }
        Judged::Hit(rules, hit) => (rules, hit),
    };
    let mut ruled =
        match begin(worker, client, &rules, &hit, seen.digest, comes, Some(query.text())) {
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
    let delay = ruled.hits().delay();
    waits::delay(worker, client, command, ruled, delay, query.packet())
}

/// Rules look at the execution of a prepared statement, of which this is the text as it was prepared.
pub(crate) fn see_execute(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    packet: &[u8],
    seen: SeenText<'_>,
    text: Text<'_>,
) -> AfterRules {
    if let Some(carried) = worker.features.ruled.carried.take() {
        return waits::enter_rooms(worker, client, carry(command, carried), packet);
    }
    let (rules, hit) = match judge(worker, client, seen, Some(text), Comes::Prepared) {
        Judged::Silent => return AfterRules::GoesOn(command),
        Judged::Long(rules) => {
            long_texts::look_through(worker, client, command, packet, text, rules);
            return AfterRules::Over;
        }
        Judged::Hit(rules, hit) => (rules, hit),
    };
    match begin(worker, client, &rules, &hit, seen.digest, Comes::Prepared, Some(text)) {
        Ok(ruled) => {
            let delay = ruled.hits().delay();
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
    let seen = SeenText::default();
    if worker.features.ruled.carried.take().is_none()
        && let Judged::Hit(rules, hit) = judge(worker, client, seen, None, Comes::AsQuery)
    {
        match begin(worker, client, &rules, &hit, seen.digest, Comes::AsQuery, None) {
            Ok(mut ruled) => ruled.leave_out_of_mirror(Unmirrored::Large),
            Err(fault) => {
                answer::refuse(worker, client, command, &fault);
                return AfterRules::Over;
            }
        }
    }
    AfterRules::GoesOn(command)
}

/// What rules say of a text.
enum Judged {
    Silent,
    /// The rules that are in force, and those that each statement hits.
    Hit(Arc<Rules>, Vec<Rc<[usize]>>),
    /// These must look through the text first, which is long.
    Long(Arc<Rules>),
}

/// The rules that are hit, of each statement.
fn judge(
    worker: &Worker,
    client: &Client,
    seen: SeenText<'_>,
    text: Option<Text<'_>>,
    comes: Comes,
) -> Judged {
    let mut judge = worker.features.ruled.judge.borrow_mut();
    let Some(judge) = judge.as_mut() else { return Judged::Silent };
    let session = client.session.borrow();
    let known = client.routing.view.get(judge, session.schema.as_ref());
    let view = known.unwrap_or_else(|| view(judge, client, session.schema.as_ref()));
    if session.rule_label.is_none() && seen.decisions.is_some_and(|it| it.are_silent(view)) {
        return Judged::Silent;
    }
    let asks = |what| judge.rules().asks(what);
    let is_prepared = comes == Comes::ToBePrepared;
    let mut moment = Moment { is_prepared, ..Moment::default() };
    if asks(RuleAsks::Time) {
        (moment.local, moment.utc) = worker.features.ruled.week_minutes();
    }
    if asks(RuleAsks::Place) {
        let (members, role) = ways::place(worker, client, seen.reads, seen.schema);
        (moment.cluster, moment.role) = (Some(members.name.as_str()), role);
    }
    moment.label = session.rule_label.as_deref();
    moment.in_transaction = session.in_transaction() || session.has_begun();
    let looked = worker.features.ruled.looked.take();
    let looked = looked.as_ref().filter(|looked| Arc::ptr_eq(&looked.rules, judge.rules()));
    moment.found = looked.map(|looked| &looked.found);
    let ruling = judge.judge_in(view, seen.digest, text, seen.decisions, &moment);
    let rules = || Arc::clone(judge.rules());
    match ruling {
        Ruling::Silent => Judged::Silent,
        Ruling::One(hit) => Judged::Hit(rules(), vec![hit]),
        Ruling::Several(hit) => Judged::Hit(rules(), hit),
        Ruling::Long => Judged::Long(rules()),
    }
}

/// What rules know a client's session as.
#[cold]
fn view(judge: &mut Judge, client: &Client, schema: Option<&Rc<[u8]>>) -> View {
    let user = client.user.borrow();
    let mut facts = SessionFacts {
        user: user.as_bytes(),
        schema: schema.map(|schema| &**schema),
        address: client.peer.map(|peer| peer.ip()),
        ..SessionFacts::default()
    };
    if judge.rules().asks(RuleAsks::Origin) {
        let came_by = &client.routing.came_by;
        (facts.listener, facts.program) = (came_by.listener.as_bytes(), &came_by.program);
    }
    let view = judge.view(&facts);
    client.routing.view.keep(view, schema);
    view
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
        sends: RuleSends::default(),
        wait: 0,
        timer: None,
        line: None,
        permits: Vec::new(),
        original: None,
        cache: None,
        retries: None,
        patience: None,
        waited: 0,
        mirror: MirrorPart::None,
    });
    ruled.begin_mirror(comes == Comes::ToBePrepared, client.is_pooled());
    let open = open::of(worker, client, text);
    for ready in ruled.hit.clone().into_iter().filter_map(|at| rules.get(at)) {
        rules.count_hit(ready, now);
        let acts = &ready.rule.acts;
        let is_refusable = open != Open::Ends;
        if let Some(ruled) =
            acts.firewall.as_ref().filter(|_| comes != Comes::Prepared && is_refusable)
        {
            firewall::pass(worker, client, (ready, ruled), text)?;
        }
        if let Some(next) = acts.next.as_ref().filter(|_| comes != Comes::ToBePrepared) {
            client.session.borrow_mut().rule_label = next.label().map(Into::into);
        }
        if let Some(refusal) = acts.refuse.as_ref().filter(|_| is_refusable) {
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
            && open == Open::No
        {
            return Err(too_many(ready, rate));
        }
    }
    let hits = ruled.hits();
    let retries = hits.retries();
    let class = hits.last(|acts| acts.class.as_ref());
    let class = class.and_then(|(name, _)| worker.classes().named(name.as_bytes()));
    // What ends a transaction runs where that is.
    let route = hits.last(|acts| acts.route.as_ref()).filter(|_| open != Open::Ends);
    let sends = route.map(|(route, ready)| ways::find(worker, client, route, ready)).transpose()?;
    if comes != Comes::ToBePrepared
        && let Some(connection) = hits.connection()
    {
        ways::keep(worker, client, connection, digest);
    }
    let cache = hits.cache();
    (ruled.class, ruled.retries, ruled.sends) = (class, retries, sends.unwrap_or_default());
    ruled.cache = cache;
    Ok(ruled)
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

/// Answers a query in the server's place.
fn answer_here(worker: &Rc<Worker>, client: &Client, command: Box<Command>, given: &RuleAnswer) {
    answer::clear(worker, client);
    match given {
        RuleAnswer::Ok => answer::ok(client, command),
        RuleAnswer::Rows { columns, rows } => rows::answer(client, command, columns, rows),
    }
}
