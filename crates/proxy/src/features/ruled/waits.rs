//! Commands that rules have wait: for a time, or until fewer of their kind run.
//!
//! A command that waits is read again when it may go on; what rules have said of it stays with it
//! ([`crate::state::rule_hits`]). Invariants: a client that may hold locks does not wait; places are taken in the order of
//! the rules, so that no two commands wait for each other; a place that is left goes to the first command in line.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use engine::statement::room::{RuleRoom, RuleWaiter};
use smallvec::SmallVec;

use crate::answers::answer;
use crate::fault::{Fault, Kind};
use crate::state::client::Client;
use crate::state::client_state::ClientState;
use crate::state::command::{Awaits, Command, SentBy};
use crate::state::rule_hits::{PassOn, Permit, Ruled, Timer};
use crate::state::shared::Mail;
use crate::state::worker::Worker;

/// What becomes of a command.
pub(crate) enum AfterRules {
    GoesOn(Box<Command>),
    /// It was answered, or waits.
    Over,
}

/// Puts what rules have said to a command.
pub(crate) fn carry(mut command: Box<Command>, ruled: Box<Ruled>) -> Box<Command> {
    command.class = ruled.class.or(command.class);
    if let Some(cluster) = ruled.sends.cluster {
        command.send_to(cluster, SentBy::Order);
    }
    command.rare().ruled = Some(ruled);
    command
}

/// Others may wait for what such a client has; and what comes in pieces cannot be kept.
fn may_wait(client: &Client) -> bool {
    !client.session.borrow().may_hold_locks() && !client.input.is_part()
}

/// The command waits for so long first, if it may; then it takes the places that it needs.
pub(crate) fn delay(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    command: Box<Command>,
    mut ruled: Box<Ruled>,
    delay: Option<Duration>,
    packet: &[u8],
) -> AfterRules {
    let Some(delay) = delay.filter(|_| may_wait(client)) else {
        return enter_rooms(worker, client, carry(command, ruled), packet);
    };
    let number = worker.features.ruled.next_wait();
    let (shared, index, waiting) =
        (Arc::clone(&worker.shared), worker.index, Rc::downgrade(client));
    ruled.wait = number;
    ruled.timer = Some(Timer(crate::worker::tasks::vital(async move {
        tokio::time::sleep(delay).await;
        if let Some(client) = waiting.upgrade().filter(|client| waits_with(client, number)) {
            shared.mail(index, Mail::Resume(client.id));
        }
    })));
    answer::hold(worker, client, carry(command, ruled), packet, Awaits::Rule);
    AfterRules::Over
}

/// Whether the client's command is in this wait still.
fn waits_with(client: &Client, number: u64) -> bool {
    let command = client.command();
    let rare = command.as_ref().and_then(|command| command.rare.as_ref());
    rare.and_then(|rare| rare.ruled.as_ref()).is_some_and(|ruled| ruled.wait == number)
}

/// Takes a place under each rule that lets only so many run at once, or waits for one.
pub(crate) fn enter_rooms(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    mut command: Box<Command>,
    packet: &[u8],
) -> AfterRules {
    let Some(ruled) = command.rare().ruled.as_mut().filter(|_| may_wait(client)) else {
        return AfterRules::GoesOn(command);
    };
    if ruled.patience.is_none()
        && let Some((most, _)) = ruled.hits().queue_timeout()
    {
        let number = worker.features.ruled.next_wait();
        ruled.patience = Some(lose_patience(worker, client, number, most));
        ruled.waited = number;
    }
    let rules = Arc::clone(&ruled.rules);
    let places = |at: &usize| rules.get(*at).and_then(|ready| ready.rule.acts.at_once);
    // One place under each rule, however many statements of the text it hits; and in the rules' order, so that no two
    // clients wait for each other.
    let mut hit: SmallVec<[usize; 4]> =
        ruled.hit.iter().copied().filter(|at| places(at).is_some()).collect();
    hit.sort_unstable();
    hit.dedup();
    let limited = hit.iter().filter_map(|at| Some((rules.get(*at)?, places(at)?)));
    let missing: SmallVec<[_; 4]> = limited.skip(ruled.permits.len()).collect();
    for (ready, places) in missing {
        let (room, number) = (Arc::clone(&ready.room), worker.features.ruled.next_wait());
        let waiter = RuleWaiter { worker: worker.index, client: client.id, number };
        if room.enter(places, waiter) {
            ruled.permits.push(Permit::new(room, pass_on(worker)));
            continue;
        }
        (ruled.wait, ruled.line) = (number, Some((Arc::clone(&room), waiter)));
        ruled.timer = expire(worker, client, number, &ready.rule.name);
        answer::hold(worker, client, command, packet, Awaits::Rule);
        if client.session.borrow().holds_backend() {
            look_for_others(worker, client, room, waiter);
        }
        return AfterRules::Over;
    }
    AfterRules::GoesOn(command)
}

/// When so much time is over, looks whether the command still waits.
fn lose_patience(worker: &Rc<Worker>, client: &Rc<Client>, number: u64, within: Duration) -> Timer {
    let (shared, index, id) = (Arc::clone(&worker.shared), worker.index, client.id);
    Timer(crate::worker::tasks::vital(async move {
        tokio::time::sleep(within).await;
        shared.have_done(index, move |worker| see_patience(worker, id, number));
    }))
}

/// How soon a command is looked at again whose backend is asked for something before it waits on.
const AGAIN: Duration = Duration::from_millis(20);

/// A command has had all the time that its rules let it wait. One that runs already goes on.
fn see_patience(worker: &Rc<Worker>, id: u32, number: u64) {
    let Some(client) = worker.clients.borrow().get(&id).cloned() else { return };
    // Of those that share a run, one may have begun; a crowd goes back to the queue soon.
    let is_between = match client.state() {
        ClientState::Preparing => client.awaits() != Some(Awaits::Rule),
        state => state == ClientState::Sharing,
    };
    let (most, rule) = {
        let mut command = client.command_mut();
        let rare = command.as_mut().and_then(|command| command.rare.as_mut());
        let Some(ruled) = rare.and_then(|rare| rare.ruled.as_mut()) else { return };
        if ruled.waited != number {
            return;
        }
        if is_between {
            ruled.patience = Some(lose_patience(worker, &client, number, AGAIN));
            return;
        }
        match ruled.hits().queue_timeout() {
            Some((most, ready)) => (most, ready.rule.name.clone()),
            None => return,
        }
    };
    worker.leave_queue(&client);
    let message = format!(
        "Flifo did not run this statement: it waited {most:?} in the queue (queue_timeout of the rule {rule:?}). It is \
         safe to try again"
    );
    answer::refuse_held(worker, &client, &Fault::new(Kind::WaitedTooLong, message));
}

/// Refuses a command that waits too long for its place.
fn expire(worker: &Rc<Worker>, client: &Rc<Client>, number: u64, rule: &str) -> Option<Timer> {
    let most = worker.plan().limits.wait?;
    let (worker, client, rule) = (Rc::clone(worker), Rc::downgrade(client), rule.to_owned());
    Some(Timer(crate::worker::tasks::vital(async move {
        tokio::time::sleep(most).await;
        let client = client.upgrade().filter(|client| waits_with(client, number));
        let Some(client) = client else { return };
        let message = format!(
            "Flifo did not run this statement: it waited {most:?} (limits.wait) for a place under the rule {rule:?}. \
             It is safe to try again"
        );
        answer::refuse_held(&worker, &client, &Fault::new(Kind::WaitedTooLong, message));
    })))
}

/// How soon it is looked whether others run, where a command that keeps a connection waits for a place.
const LOOK: Duration = Duration::from_millis(100);

/// The command waits for a place, and its client keeps a connection: those that have the places may wait for that one.
fn look_for_others(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    room: Arc<RuleRoom>,
    waiter: RuleWaiter,
) {
    let (worker, client) = (Rc::clone(worker), Rc::downgrade(client));
    crate::worker::tasks::vital(async move {
        let mut saw = None;
        loop {
            tokio::time::sleep(LOOK).await;
            let Some(client) = client.upgrade().filter(|it| waits_with(it, waiter.number)) else {
                return;
            };
            if client.session.borrow().holds_backend() && room.pass(waiter, &mut saw) {
                return give(&worker, room, waiter);
            }
        }
    });
}

/// What gives a place to a command that waits: its worker is told, and has it go on if it waits still.
fn pass_on(worker: &Worker) -> Arc<PassOn> {
    let shared = Arc::clone(&worker.shared);
    Arc::new(move |room: Arc<RuleRoom>, next: RuleWaiter| {
        shared.have_done(next.worker, move |worker| give(worker, room, next));
    })
}

fn give(worker: &Rc<Worker>, room: Arc<RuleRoom>, next: RuleWaiter) {
    let permit = Permit::new(room, pass_on(worker));
    let client = worker.clients.borrow().get(&next.client).cloned();
    // Without it, the place goes to the next one in line.
    let Some(client) = client.filter(|client| waits_with(client, next.number)) else { return };
    let timer = match client.command_mut() {
        Some(mut command) => command.rare().ruled.as_mut().and_then(|ruled| {
            (ruled.wait, ruled.line) = (0, None);
            ruled.permits.push(permit);
            ruled.timer.take()
        }),
        None => None,
    };
    drop(timer);
    worker.shared.mail(worker.index, Mail::Resume(client.id));
}
