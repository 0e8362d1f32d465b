//! TLS to servers, made from the configuration at start and at each reload: files that cannot be read are told then.

use backend::Address;
use backend::login::BackendTls;
use backend::tls::{ForBackends, TlsError, server_name};

use crate::config::{ServerOptions, ServerRule};

/// The TLS of connections to a server.
#[derive(Debug)]
pub(crate) struct ServerTls {
    /// Of pooled backends and Flifo's own.
    pub(crate) pooled: Option<BackendTls>,
    /// Of pass-through clients': the same, but for the certificate, which is Flifo's and not the client's. Whether it is used, [`crate::frontend::leg`] says.
    pub(crate) pass_through: Option<BackendTls>,
}

impl ServerTls {
    /// That of the server at this address.
    pub(crate) fn new(
        rule: &ServerRule,
        options: &ServerOptions,
        address: &Address,
    ) -> Result<Self, TlsError> {
        let (own, name) = rule.tls_to(options);
        let client = ForBackends { identity: None, ..own.clone() };
        let pass_through = of(name, address, &client)?;
        Ok(Self { pooled: of(name, address, &own)?, pass_through })
    }
}

fn of(
    name: Option<&str>,
    address: &Address,
    tls: &ForBackends,
) -> Result<Option<BackendTls>, TlsError> {
    let Some(config) = tls.config()? else { return Ok(None) };
    let host = match (name, address) {
        (Some(name), _) => name,
        (None, Address::Tcp { host, .. }) => host,
        (None, Address::Unix(_)) => "localhost",
    };
    let name = server_name(host)?;
    Ok(Some(BackendTls { mode: tls.mode, config, name }))
}
