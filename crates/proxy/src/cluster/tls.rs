//! TLS to servers, made from the configuration at start and at each reload: files that cannot be read are told then.

use backend::Address;
use backend::login::BackendTls;
use backend::tls::{ForBackends, TlsError, server_name};

use crate::config::ServerOptions;

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
    pub(crate) fn new(options: &ServerOptions, address: &Address) -> Result<Self, TlsError> {
        let own = &options.tls;
        let client = ForBackends { identity: None, ..own.clone() };
        let pass_through = of(options, address, &client)?;
        Ok(Self { pooled: of(options, address, own)?, pass_through })
    }
}

fn of(
    options: &ServerOptions,
    address: &Address,
    tls: &ForBackends,
) -> Result<Option<BackendTls>, TlsError> {
    let Some(config) = tls.config()? else { return Ok(None) };
    let host = match (&options.tls_server_name, address) {
        (Some(name), _) => name,
        (None, Address::Tcp { host, .. }) => host,
        (None, Address::Unix(_)) => "localhost",
    };
    let name = server_name(host)?;
    Ok(Some(BackendTls { mode: tls.mode, config, name }))
}
