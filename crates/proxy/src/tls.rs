//! TLS of both legs, made from the configuration once at start: files that cannot be read are told then.

use std::sync::Arc;

use link::Address;
use link::login::LinkTls;
use link::tls::{TlsError, server_name};

use crate::config::{ClientTlsMode, Plan};

/// What clients are offered and what links use.
pub(crate) struct Tls {
    /// `None`: TLS is not offered.
    pub(crate) clients: Option<Arc<rustls::ServerConfig>>,
    /// Clients on insecure connections are refused.
    pub(crate) clients_required: bool,
    pub(crate) server: Option<LinkTls>,
}

impl Tls {
    pub(crate) fn new(plan: &Plan, address: &Address) -> Result<Self, TlsError> {
        let clients = match plan.tls.mode {
            ClientTlsMode::Off => None,
            ClientTlsMode::Preferred | ClientTlsMode::Required => Some(plan.tls.files.config()?),
        };
        let server = match plan.server.tls.config()? {
            Some(config) => {
                let host = match (&plan.server.tls_server_name, address) {
                    (Some(name), _) => name,
                    (None, Address::Tcp { host, .. }) => host,
                    (None, Address::Unix(_)) => "localhost",
                };
                let name = server_name(host)?;
                Some(LinkTls { mode: plan.server.tls.mode, config, name })
            }
            None => None,
        };
        let clients_required = plan.tls.mode == ClientTlsMode::Required;
        Ok(Self { clients, clients_required, server })
    }
}
