//! Clients that keep their links: counted by reason, and logged from when to when, for which statement.

use engine::intent::Digest;
use engine::pin::Pin;

use crate::client::Client;
use crate::worker::Worker;

impl Worker {
    /// Keeps a client's link for this reason, unless it is kept already.
    pub(crate) fn pin(&self, client: &Client, pin: Pin) {
        if client.session.borrow_mut().keep(pin) {
            self.count_pin(client, pin, None);
        }
    }

    /// The same, where the reason was read off this text.
    pub(crate) fn pin_for(&self, client: &Client, pin: Pin, text: &[u8]) {
        if client.session.borrow_mut().keep(pin) {
            let dialect = client.session.borrow().dialect();
            self.count_pin(client, pin, Some(Digest::of(text, dialect)));
        }
    }

    pub(crate) fn count_pin(&self, client: &Client, pin: Pin, digest: Option<Digest>) {
        client.pinned.set(Some(crate::clock::now()));
        self.counters.pins[pin as usize].add(1);
        let digest = digest.map_or_else(|| "-".to_owned(), |Digest(hash)| format!("{hash:016x}"));
        tracing::debug!(client = client.id, reason = pin.name(), digest, "pinned");
    }
}

/// The client keeps its link no longer.
pub(crate) fn ended(client: &Client) {
    let pin = client.session.borrow().pin();
    if let (Some(pin), Some(since)) = (pin, client.pinned.take()) {
        let seconds = (crate::clock::now() - since).as_secs_f64();
        tracing::debug!(client = client.id, reason = pin.name(), seconds, "no longer pinned");
    }
}
