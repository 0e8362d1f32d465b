//! TLS of both legs, made from the configuration once at start: files that cannot be read are told then.

use std::sync::Arc;

use backend::Address;
use backend::login::BackendTls;
use backend::tls::{ForBackends, TlsError, server_name};

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

/// What backends to the server at this address use.
pub(crate) fn of_backends(plan: &Plan, address: &Address) -> Result<Option<BackendTls>, TlsError> {
    of(plan, address, &plan.server.tls)
}

/// What pass-through clients' backends may use: the same, but for the certificate, which is Flifo's and not the
/// client's.
pub(crate) fn of_pass_through(
    plan: &Plan,
    address: &Address,
) -> Result<Option<BackendTls>, TlsError> {
    of(plan, address, &ForBackends { identity: None, ..plan.server.tls.clone() })
}

fn of(plan: &Plan, address: &Address, tls: &ForBackends) -> Result<Option<BackendTls>, TlsError> {
    let Some(config) = tls.config()? else { return Ok(None) };
    let host = match (&plan.server.tls_server_name, address) {
        (Some(name), _) => name,
        (None, Address::Tcp { host, .. }) => host,
        (None, Address::Unix(_)) => "localhost",
    };
    let name = server_name(host)?;
    Ok(Some(BackendTls { mode: tls.mode, config, name }))
}
