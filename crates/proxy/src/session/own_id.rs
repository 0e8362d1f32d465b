//! The number of its connection that a client may read out of sight: in a routine, a view, a trigger, a text in a
//! variable. Where the server allows it, the backend answers with the client's own.
//!
//! That takes one more `SET`, in the same write as a statement that may read the number. Invariants: a backend never
//! answers one client with another's number; and as temporary tables belong to the number that a session has when it
//! makes them, that stays as it is from the statement on for which the backend is kept.

use engine::hidden::When;
use engine::intent::{Intent, Trait};
use engine::session::facts::Leaves;

use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::in_flight::InFlight;

/// Whether the number of the client's backend can still be changed: ask before a statement is judged.
pub(crate) fn may_change(client: &Client) -> bool {
    client.session.borrow().pin().is_none() || client.backend.borrow().is_none()
}

/// Whether a statement that has been judged, or what may come behind it on the backend that is kept for it, may read
/// the number. `asks`: whether it names an object that does.
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
        || intent.has(Trait::Fires) && (asks.is_some() || session.has_asked_number())
}

/// A client's command goes on although its backend may not answer with its number.
pub(crate) fn go_on(client: &Client, backend: &Backend, flight: &mut InFlight) {
    if flight.failed {
        flight.failure = None;
        let mut session = client.session.borrow_mut();
        session.counts.see_diagnostics(backend.id);
        session.counts.see_own_failed(backend.id);
    }
}
