//! Clients that keep their backends: whether they may, how many for each reason, and which ones, since when, for which
//! statement.
//!
//! Invariant: a client is named here if and only if its session has a pin, or the server keeps something of one of its
//! prepared statements.

use std::time::Duration;

use engine::hidden::When;
use engine::intent::{Digest, Intent, Trait};
use engine::pin::Pin;
use engine::session::facts::Leaves;

use crate::config::{Pins, Unseen};
use crate::fault::{Fault, Kind};
use crate::state::client::{Client, Pinned};
use crate::state::worker::Worker;
use crate::users::sight::OutOfSight;

/// Judges what a text would leave behind, as its user's configuration says, and keeps the backend if need be. An error
/// is what the client is told instead.
pub(crate) fn judge(
    worker: &Worker,
    client: &Client,
    intent: Intent,
    hidden: OutOfSight,
) -> Result<Leaves, Fault> {
    if intent.pin.is_none() && !intent.has(Trait::Fires) && hidden.acts.is_none() {
        return Ok(Leaves::Nothing);
    }
    let of_user = |key| worker.user_of(key, |user| Some((user.routines, user.triggers)));
    let of_user = client.key.get().and_then(of_user);
    let (routines, triggers) = of_user.unwrap_or((Unseen::Pin, Unseen::Read));
    let triggers = match triggers {
        _ if !intent.has(Trait::Fires) => Unseen::Trust,
        Unseen::Read if hidden.hides_triggers => Unseen::Reset,
        triggers => triggers,
    };
    let hidden = match hidden.acts {
        Some(When::Named) => Some(Pin::Function),
        Some(When::Written) if triggers == Unseen::Read && intent.has(Trait::Fires) => {
            Some(Pin::Trigger)
        }
        _ => None,
    };
    if let Some(pin) = hidden.filter(|_| client.session.borrow().pin().is_none()) {
        keep(worker, client, pin, Some(intent.digest))?;
    }
    let is_kept = client.session.borrow().pin().is_some();
    let fired = match triggers {
        Unseen::Reset if !is_kept => Leaves::Anything,
        _ => Leaves::Nothing,
    };
    let pin = intent.pin.or_else(|| (triggers == Unseen::Pin).then_some(Pin::Trigger));
    let Some(pin) = pin else { return Ok(fired) };
    let are_harmless = routines != Unseen::Pin;
    if !is_kept && are_harmless && intent.besides_routines.is_none() && triggers != Unseen::Pin {
        let trusts = routines == Unseen::Trust;
        return Ok(if trusts { fired.max(Leaves::Reported) } else { Leaves::Anything });
    }
    if !is_kept || pin == Pin::Role {
        keep(worker, client, pin, Some(intent.digest))?;
    }
    // Also where the backend is kept already, for something that a reset would undo.
    if intent.has(Trait::BeyondReset)
        || intent.has(Trait::Calls) && !are_harmless
        || triggers == Unseen::Pin
    {
        client.session.borrow_mut().go_beyond_reset();
    }
    Ok(Leaves::Nothing)
}

/// Keeps the backend for this reason, unless the user's clients may not.
pub(crate) fn keep(
    worker: &Worker,
    client: &Client,
    pin: Pin,
    digest: Option<Digest>,
) -> Result<Leaves, Fault> {
    let pins = client.key.get().map(|key| worker.user_of(key, |user| user.pins));
    if pins == Some(Pins::Refuse) && client.session.borrow().pin().is_none() {
        let message = format!(
            "Flifo did not run this statement: it would pin this client to a backend connection \
             (reason: {}), which pins = \"refuse\" in Flifo's configuration forbids for this user. \
             Avoid the statement, or set pins = \"allow\"",
            pin.name()
        );
        return Err(Fault::new(Kind::PinRefused, message));
    }
    match digest {
        Some(digest) => worker.pin_for(client, pin, digest),
        None => worker.pin(client, pin),
    }
    Ok(Leaves::Nothing)
}

impl Worker {
    /// Keeps a client's backend for this reason, unless it is kept already.
    pub(crate) fn pin(&self, client: &Client, pin: Pin) {
        if client.session.borrow_mut().keep(pin) {
            self.count_pin(client, pin, None);
        }
    }

    /// The same, where the reason was read off this text.
    pub(crate) fn pin_for(&self, client: &Client, pin: Pin, digest: Digest) {
        if client.session.borrow_mut().keep(pin) {
            self.count_pin(client, pin, Some(digest));
        }
    }

    /// A client's backend is kept for as long as the server keeps something of a prepared statement, whose text this
    /// is.
    pub(crate) fn hold(&self, client: &Client, pin: Pin, digest: Digest) {
        if !client.pinned.is_some() {
            self.count_pin(client, pin, Some(digest));
        }
    }

    pub(crate) fn count_pin(&self, client: &Client, pin: Pin, digest: Option<Digest>) {
        client.pinned.set(Some(Pinned { pin, digest, since: crate::worker::clock::now() }));
        self.counters.pins[pin as usize].add(1);
        tracing::debug!(client = client.id, reason = pin.name(), digest = show(digest), "pinned");
    }
}

fn show(digest: Option<Digest>) -> String {
    digest.map_or_else(|| "-".to_owned(), |digest| format!("{:016x}", digest.hash()))
}

/// The client keeps its backend no longer.
pub(crate) fn ended(client: &Client) {
    if let Some(Pinned { pin, since, .. }) = client.pinned.take() {
        let seconds = (crate::worker::clock::now() - since).as_secs_f64();
        tracing::debug!(client = client.id, reason = pin.name(), seconds, "no longer pinned");
    }
}

/// A client that keeps its backend, as logs and consoles show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keeper {
    pub(crate) client: u32,
    pub(crate) user: String,
    pub(crate) reason: &'static str,
    /// What kind of statement was the reason; `-` where none was.
    pub(crate) digest: String,
    pub(crate) held: Duration,
}

/// The clients of this worker that keep their backends, the longest first.
pub(crate) fn keepers(worker: &Worker) -> Vec<Keeper> {
    let now = crate::worker::clock::now();
    let clients = worker.clients.borrow();
    let mut keepers: Vec<_> = clients
        .values()
        .filter_map(|client| {
            let Pinned { pin, digest, since } = client.pinned.get()?;
            let user = client.user.borrow().to_string();
            let (digest, held) = (show(digest), now - since);
            Some(Keeper { client: client.id, user, reason: pin.name(), digest, held })
        })
        .collect();
    keepers.sort_by_key(|keeper| std::cmp::Reverse(keeper.held));
    keepers
}

/// Each worker names at most so many clients in the log.
const SHOWN: usize = 20;

/// Logs which clients keep a backend: it tells an administrator why so many are open.
pub(crate) fn log(worker: &Worker) {
    let keepers = keepers(worker);
    for Keeper { client, user, reason, digest, held } in keepers.iter().take(SHOWN) {
        tracing::info!(
            client,
            user,
            reason,
            digest,
            seconds = held.as_secs_f64(),
            "keeps a backend connection"
        );
    }
    if let Some(more) = keepers.len().checked_sub(SHOWN + 1) {
        tracing::info!(clients = more + 1, "more clients keep backend connections");
    }
}
