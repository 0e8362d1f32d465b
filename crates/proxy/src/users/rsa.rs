//! Flifo's own RSA key, made when the first client needs it: generation takes longer than a iteration of the loop may.

use std::sync::Arc;

use tokio::sync::OnceCell;
use wire::auth::rsa::RsaEnd;

/// The key of this process, once it is there.
#[derive(Debug, Default)]
pub(crate) struct RsaKey {
    end: OnceCell<Arc<RsaEnd>>,
}

impl RsaKey {
    /// The key. The first caller has it made on another thread.
    pub(crate) async fn end(&self) -> Result<Arc<RsaEnd>, String> {
        let generate = || async {
            let generated = tokio::task::spawn_blocking(RsaEnd::generate).await;
            match generated {
                Ok(Ok(end)) => Ok(Arc::new(end)),
                Ok(Err(error)) => Err(format!("Flifo cannot make an RSA key: {error}")),
                Err(error) => Err(format!("Flifo cannot make an RSA key: {error}")),
            }
        };
        self.end.get_or_try_init(generate).await.cloned()
    }
}
