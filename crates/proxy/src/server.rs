//! What is known of the server before a client is greeted: its version and capabilities, from its
//! last greeting.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use wire::Capabilities;
use wire::handshake::Greeting;

/// The last greeting that any worker has read.
#[derive(Debug)]
pub(crate) struct ServerFacts {
    greeting: Mutex<Option<Greeting>>,
    /// How many prepared statements it allows all its connections together.
    statements_max: AtomicU32,
}

impl Default for ServerFacts {
    fn default() -> Self {
        // What servers allow by default.
        Self { greeting: Mutex::default(), statements_max: AtomicU32::new(16_382) }
    }
}

impl ServerFacts {
    pub(crate) fn learn(&self, greeting: &Greeting) {
        *self.lock() = Some(greeting.clone());
    }

    pub(crate) fn greeting(&self) -> Option<Greeting> {
        self.lock().clone()
    }

    pub(crate) fn statements_max(&self) -> u32 {
        self.statements_max.load(Relaxed)
    }

    pub(crate) fn learn_statements_max(&self, max: u32) {
        self.statements_max.store(max, Relaxed);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Greeting>> {
        self.greeting.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// What Flifo does not carry: compression, and metadata that is left out.
const NOT_CARRIED: Capabilities = Capabilities(
    Capabilities::COMPRESS.0
        | Capabilities::ZSTD.0
        | Capabilities::OPTIONAL_METADATA.0
        | Capabilities::COM_MULTI.0
        | Capabilities::SSL.0
        | Capabilities::MULTI_FACTOR.0,
);

/// What a pooled client is not offered beyond that: what would tie it to one link, and query
/// attributes, which stand between a prepared statement's parameters; MySQL's clients leave them
/// out where they are not offered.
const NOT_POOLED: Capabilities =
    Capabilities(Capabilities::CACHE_METADATA.0 | Capabilities::QUERY_ATTRIBUTES.0);

/// The capabilities that a client is offered.
pub(crate) const fn offered(server: Capabilities, pooled: bool, tls: bool) -> Capabilities {
    let mut offered = server.without(NOT_CARRIED);
    if pooled {
        offered = offered.without(NOT_POOLED);
    }
    if tls { offered.with(Capabilities::SSL) } else { offered }
}
