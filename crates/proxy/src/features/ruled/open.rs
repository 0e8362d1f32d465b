//! What rules must let pass: a client that is refused the end of its transaction, or a part of it, keeps its locks, and
//! others wait for them.

use engine::intent::Ends;
use engine::releases::releases;
use wire::text::Text;

use crate::state::client::Client;
use crate::state::worker::Worker;

/// What a statement is to the transaction that is open at the server, or the locks that its client has there.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Open {
    /// Nothing is open, as far as the server knows.
    No,
    /// It belongs to what is open: no rate refuses it.
    Within,
    /// It ends the transaction, or releases locks, and does nothing else: nothing refuses it.
    Ends,
}

/// `text`: that of the statement, if it can be read.
pub(super) fn of(worker: &Worker, client: &Client, text: Option<Text<'_>>) -> Open {
    let session = client.session.borrow();
    let is_open = session.may_hold_locks() && !session.has_begun();
    drop(session);
    // Which locks a client has that shares no backend is not known.
    if (is_open || !client.is_pooled()) && text.is_some_and(releases) {
        return Open::Ends;
    }
    if !is_open {
        return Open::No;
    }
    let ends = text.map(|text| worker.learnt.readings.borrow_mut().read(text).ends);
    match ends {
        Some(Ends::Undone | Ends::Committed) => Open::Ends,
        _ => Open::Within,
    }
}
