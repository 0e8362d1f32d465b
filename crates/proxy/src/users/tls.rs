//! TLS of both legs, made from the configuration once at start: files that cannot be read are told then.

use std::sync::Arc;

use link::Address;
use link::login::LinkTls;
use link::tls::{ForLinks, TlsError, server_name};

use crate::config::{ClientTlsMode, Plan};

/// What clients are offered.
pub(crate) struct Tls {
    /// `None`: TLS is not offered.
    pub(crate) clients: Option<Arc<rustls::ServerConfig>>,
    /// Clients on insecure connections are refused.
    pub(crate) clients_required: bool,
}

impl Tls {
    pub(crate) fn new(plan: &Plan) -> Result<Self, TlsError> {
        let clients = match plan.tls.mode {
            ClientTlsMode::Off => None,
            ClientTlsMode::Preferred | ClientTlsMode::Required => Some(plan.tls.files.config()?),
        };
        let clients_required = plan.tls.mode == ClientTlsMode::Required;
        Ok(Self { clients, clients_required })
    }
}

/// What links to the server at this address use.
pub(crate) fn of_links(plan: &Plan, address: &Address) -> Result<Option<LinkTls>, TlsError> {
    of(plan, address, &plan.server.tls)
}

/// What carried clients' links may use: the same, but for the certificate, which is Flifo's and not the client's.
pub(crate) fn of_carried(plan: &Plan, address: &Address) -> Result<Option<LinkTls>, TlsError> {
    of(plan, address, &ForLinks { identity: None, ..plan.server.tls.clone() })
}

fn of(plan: &Plan, address: &Address, tls: &ForLinks) -> Result<Option<LinkTls>, TlsError> {
    let Some(config) = tls.config()? else { return Ok(None) };
    let host = match (&plan.server.tls_server_name, address) {
        (Some(name), _) => name,
        (None, Address::Tcp { host, .. }) => host,
        (None, Address::Unix(_)) => "localhost",
    };
    let name = server_name(host)?;
    Ok(Some(LinkTls { mode: tls.mode, config, name }))
}
