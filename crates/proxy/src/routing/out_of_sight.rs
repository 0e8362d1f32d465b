//! What a statement does that its text does not tell: the views and triggers that it names are looked up.
//!
//! What is known of them is [`crate::users::sight`]'s. Invariant: where no view or trigger does such a thing, a
//! statement looks at one counter.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use wire::text::Text;

use crate::cluster::members::ClusterId;
use crate::routing::clusters;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::worker::Worker;
use crate::users::sight::{FoundDefinitions, NOTHING, OutOfSight};

/// What a text of a client of a pooled user does; all that most statements ask is one counter.
#[inline]
pub(crate) fn find(
    worker: &Worker,
    client: &Client,
    command: &Command,
    text: Text<'_>,
    schema: Option<&[u8]>,
) -> OutOfSight {
    match worker.shared.changes.hidden.knowing.load(Relaxed) {
        0 => OutOfSight::default(),
        _ => find_among(&found_for(worker, client, command, schema), client, text, schema),
    }
}

/// The cluster that a text goes to.
fn cluster_of(
    worker: &Worker,
    client: &Client,
    command: &Command,
    schema: Option<&[u8]>,
) -> ClusterId {
    match command.sent_to() {
        Some((cluster, _)) => cluster,
        None if worker.shared.cluster.are_several() => clusters::own(worker, client, schema),
        None => client.routing.cluster.get(),
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
    command: &Command,
    text: Text<'_>,
    schema: Option<&[u8]>,
) -> bool {
    let found = found_for(worker, client, command, schema);
    !found.knows_views || found.varying.is_read(text, schema)
}

/// What the reader for this client has found in the cluster that a command goes to.
pub(crate) fn found_for(
    worker: &Worker,
    client: &Client,
    command: &Command,
    schema: Option<&[u8]>,
) -> Arc<FoundDefinitions> {
    let cluster = cluster_of(worker, client, command, schema);
    let hidden = &worker.shared.changes.hidden;
    if hidden.is_common_whole.load(Relaxed)
        && worker.shared.cluster.is_common(&worker.plan(), cluster)
    {
        return hidden.common.found();
    }
    let of_key = |key| worker.user_of(key, |user| Some(user.sight.of(cluster).found()));
    client.key.get().and_then(of_key).unwrap_or_else(|| Arc::clone(&NOTHING))
}
