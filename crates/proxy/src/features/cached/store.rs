//! By what replies that are kept are found.

use std::rc::Rc;

use crate::cluster::members::ClusterId;
use crate::features::sharing::{self, Asks};
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::kept_replies::{Asked, AskedText};
use crate::state::worker::Worker;

/// What a command asks, and by what kind of session.
pub(crate) fn asked(client: &Client, command: &Command, cluster: ClusterId) -> Option<Asked> {
    let session = client.session.borrow();
    let what = match Asks::of(client, &session, command)? {
        Asks::Query { payload, text } => {
            AskedText::Query(payload.into(), payload.len() - text.len())
        }
        Asks::Execute { prepared, values, types } => AskedText::Execute {
            source: Rc::clone(&prepared.source),
            values: values.into(),
            types: types.map(Into::into),
        },
    };
    Some(Asked {
        cluster,
        key: client.key.get()?,
        capabilities: [client.capabilities, client.capabilities_now()],
        class: client.ask(command).class,
        schema: session.schema.clone(),
        settings: session.settings.clone(),
        was_reset: session.was_reset,
        listens: session.listens(),
        status: session.status(),
        what,
    })
}

/// Whether each byte of the reply would be the same for this command.
pub(crate) fn is_of(asked: &Asked, client: &Client, command: &Command, cluster: ClusterId) -> bool {
    let session = client.session.borrow();
    let is_set_alike = match (&asked.settings, &session.settings) {
        (Some(one), Some(two)) => Rc::ptr_eq(one, two),
        (None, None) => true,
        _ => false,
    };
    let is_asked = match (&asked.what, Asks::of(client, &session, command)) {
        (AskedText::Query(own, _), Some(Asks::Query { payload, .. })) => **own == *payload,
        (
            AskedText::Execute { source, values, types },
            Some(Asks::Execute { prepared, values: other, types: other_types }),
        ) => *source == prepared.source && **values == *other && types.as_deref() == other_types,
        _ => false,
    };
    is_asked
        && is_set_alike
        && asked.cluster == cluster
        && Some(asked.key) == client.key.get()
        && asked.capabilities == [client.capabilities, client.capabilities_now()]
        && asked.class == client.ask(command).class
        && asked.schema == session.schema
        && asked.was_reset == session.was_reset
        && asked.listens == session.listens()
        && asked.status == session.status()
}

/// By what an entry is found.
pub(crate) fn hash(
    worker: &Worker,
    client: &Client,
    command: &Command,
    cluster: ClusterId,
) -> Option<u64> {
    sharing::hash_of(worker, client, command, cluster.0)
}
