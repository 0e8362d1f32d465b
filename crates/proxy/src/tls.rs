//! interim
use std::sync::Arc;
use link::login::LinkTls;
#[derive(Default)]
pub(crate) struct Tls {
    pub(crate) clients: Option<Arc<rustls::ServerConfig>>,
    pub(crate) clients_required: bool,
    pub(crate) server: Option<LinkTls>,
}
