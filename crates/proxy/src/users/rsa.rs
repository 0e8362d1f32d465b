//! Flifo's own RSA key, made when the first client needs it: that takes longer than an iteration of the loop may, and on
//! a busy machine longer than a login.
//!
//! Invariant: it is made once, also if the login that asked for it first has ended meanwhile.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::watch;
use wire::auth::rsa::RsaEnd;

type Made = Result<Arc<RsaEnd>, String>;

/// The key of this process.
#[derive(Debug, Default)]
pub(crate) struct RsaKey {
    /// The thread that makes it says here what came of that.
    made: Mutex<Option<watch::Receiver<Option<Made>>>>,
}

impl RsaKey {
    /// The key. The first caller has it made on another thread; where that failed, the next one.
    pub(crate) async fn end(&self) -> Made {
        let mut made = self.begin();
        let key = made.wait_for(Option::is_some).await.ok().and_then(|key| key.clone());
        key.unwrap_or_else(|| Err("Flifo cannot make an RSA key: its thread has ended".to_owned()))
    }

    fn begin(&self) -> watch::Receiver<Option<Made>> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(begun) = &*made
            && !has_failed(begun)
        {
            return begun.clone();
        }
        let (tell, begun) = watch::channel(None);
        tokio::task::spawn_blocking(move || {
            let failed = |error| format!("Flifo cannot make an RSA key: {error}");
            tell.send_replace(Some(RsaEnd::generate().map(Arc::new).map_err(failed)));
        });
        made.insert(begun).clone()
    }
}

fn has_failed(begun: &watch::Receiver<Option<Made>>) -> bool {
    match &*begun.borrow() {
        Some(made) => made.is_err(),
        // The thread that makes it has panicked, if it has ended.
        None => begun.has_changed().is_err(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[tokio::test]
    async fn the_key_is_made_once_though_the_first_that_asks_for_it_leaves() {
        let key = RsaKey::default();
        assert!(tokio::time::timeout(Duration::ZERO, key.end()).await.is_err());
        let (one, other) = (key.begin(), key.begin());
        assert!(one.same_channel(&other), "it is being made");
        let (first, second) = (key.end().await.unwrap(), key.end().await.unwrap());
        assert!(Arc::ptr_eq(&first, &second));
    }
}
