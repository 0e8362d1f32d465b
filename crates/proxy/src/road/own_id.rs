//! The number of its connection that a client may read out of sight: in a routine, a view, a trigger, a text in a
//! variable. Where the server allows it, the link answers with the client's own.
//!
//! That takes one more `SET`, in the same write as a statement that may read the number. Invariants: a link never
//! answers one client with another's number; and as temporary tables belong to the number that a session has when it
//! makes them, that stays as it is from the statement on for which the link is kept.

use engine::counts::Asked;
use engine::hidden::When;
use engine::intent::Intent;
use engine::link_state::LinkState;
use engine::own_id::Tell;
use engine::session::{Diagnostics, Session};

use crate::links::{Flight, Link, Purpose};
use crate::road::client::Client;
use crate::road::facts::Facts;
use crate::road::fixups::FixUp;
use crate::road::pins::Leaves;
use crate::worker::Worker;

/// Whether the number of the client's link can still be changed: ask before a statement is judged.
pub(crate) fn may_change(client: &Client) -> bool {
    client.session.borrow().pin().is_none() || client.link.borrow().is_none()
}

/// What a command may read out of sight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Reads {
    #[default]
    Nothing,
    Number,
    /// And the count of rows that the statement before it has affected, which setting the number would hide.
    NumberAndCount,
}

impl Reads {
    pub(crate) const fn of(reads_number: bool, facts: &Facts) -> Self {
        match reads_number {
            false => Self::Nothing,
            true if facts.calls || facts.counts.affected => Self::NumberAndCount,
            true => Self::Number,
        }
    }

    /// Whether the link has the count, and could not be told it.
    fn count_is_on(
        self,
        session: &Session,
        link: &Link,
        state: &LinkState,
        client: &Client,
    ) -> bool {
        let asked = Asked { affected: true, found: false };
        self == Self::NumberAndCount
            && !matches!(session.counts.affected(), Some(-1 | 0))
            && state.last_client == client.id
            && session.counts.are_on(asked, link.id)
    }
}

/// Whether a statement that has been judged, or what may come behind it on the link that is kept for it, may read the
/// number. `asks`: whether it names an object that does.
#[inline]
pub(crate) fn may_read(
    client: &Client,
    intent: Intent,
    asks: Option<When>,
    leaves: Leaves,
) -> bool {
    let session = client.session.borrow();
    session.pin().is_some()
        || leaves != Leaves::Nothing
        || asks == Some(When::Named)
        // It may compare its number with what a trigger or a column's default stores.
        || intent.fires && (asks.is_some() || session.has_asked_number())
}

/// What the link must be told before the command in hand of this client.
#[inline]
pub(crate) fn lacks(
    worker: &Worker,
    client: &Client,
    facts: &Facts,
    session: &Session,
    link: &Link,
    state: &LinkState,
) -> Tell {
    let reads = facts.reads_number;
    let tell = state.number.lacks(client.id, reads != Reads::Nothing);
    let is_free = || !session.has_own_number() && worker.at(link.server).server.facts.is_mariadb();
    // A refusal would be one of the messages that are asked for.
    let has_messages = || {
        matches!(session.diagnostics(), Diagnostics::OnLink | Diagnostics::Marked)
            || facts.messages.are_asked_for()
    };
    match tell {
        Tell::Nothing => tell,
        _ if !is_free() || reads.count_is_on(session, link, state, client) => Tell::Nothing,
        Tell::Try(_) if has_messages() => Tell::Nothing,
        Tell::Try(_) | Tell::Show(_) => tell,
    }
}

/// What tells the link its number.
pub(crate) fn fix_up(link: &Link, shown: Option<u32>) -> FixUp {
    let text = format!("SET pseudo_thread_id={}", shown.unwrap_or(link.thread_id));
    FixUp::own_query(Purpose::Number(shown), text)
}

/// The link has answered. False: it has failed for another reason than that its account has not the right.
pub(crate) fn is_done(link: &Link, flight: &Flight, shown: Option<u32>) -> bool {
    const ACCESS_DENIED: u16 = 1227;
    let mut state = link.state.borrow_mut();
    if !flight.failed {
        state.number.show(shown);
        return true;
    }
    // With a client, nothing of that is behind it yet.
    let is_refused =
        flight.client.is_some() && flight.error().is_some_and(|error| error.code == ACCESS_DENIED);
    if is_refused {
        state.number.refuse();
    }
    is_refused
}

/// A client's command goes on although its link may not answer with its number.
pub(crate) fn go_on(client: &Client, link: &Link, flight: &mut Flight) {
    if flight.failed {
        flight.failure = None;
        let mut session = client.session.borrow_mut();
        session.counts.see_messages(link.id);
        session.counts.see_own_failed(link.id);
    }
}
