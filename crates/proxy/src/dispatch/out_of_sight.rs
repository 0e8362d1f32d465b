//! What a statement does that its text does not tell: the views and triggers that it names are looked up.
//!
//! What is known of them is [`crate::users::sight`]'s. Invariant: where no view or trigger does such a thing, a
//! statement looks at one counter.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use wire::text::Text;

use crate::dispatch::client::Client;
use crate::dispatch::worker::Worker;
use crate::users::sight::{FoundDefinitions, NOTHING, OutOfSight};

/// What a text of a client of a pooled user does; all that most statements ask is one counter.
#[inline]
pub(crate) fn find(
    worker: &Worker,
    client: &Client,
    text: Text<'_>,
    schema: Option<&[u8]>,
) -> OutOfSight {
    match worker.shared.hidden.knowing.load(Relaxed) {
        0 => OutOfSight::default(),
        _ => find_among(&found_for(worker, client), client, text, schema),
    }
}

pub(crate) fn find_among(
    found: &FoundDefinitions,
    client: &Client,
    text: Text<'_>,
    schema: Option<&[u8]>,
) -> OutOfSight {
    let session = client.session.borrow();
    let schema = schema.or(session.schema.as_deref());
    OutOfSight {
        acts: found.acting.find(text, schema),
        asks_number: found.asking.find(text, schema),
        hides_triggers: found.hides_triggers,
    }
}

/// Whether a view that a text names may have other rows for another client or a moment later, although its tables are
/// the same. Where definitions were not read, any may.
pub(crate) fn may_vary(
    worker: &Worker,
    client: &Client,
    text: Text<'_>,
    schema: Option<&[u8]>,
) -> bool {
    let found = found_for(worker, client);
    !found.knows_views || found.varying.find(text, schema).is_some()
}

/// What the reader for this client has found.
pub(crate) fn found_for(worker: &Worker, client: &Client) -> Arc<FoundDefinitions> {
    let hidden = &worker.shared.hidden;
    if hidden.is_common_whole.load(Relaxed) {
        return hidden.common.found();
    }
    let of_key = |key| worker.user_of(key, |user| Some(user.sight.found()));
    client.key.get().and_then(of_key).unwrap_or_else(|| Arc::clone(&NOTHING))
}
