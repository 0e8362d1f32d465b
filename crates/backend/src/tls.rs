//! TLS as users configure it: a mode for backends to servers, certificates from files.
//!
//! Owns what becomes of those choices in rustls: which authorities are trusted, what is verified,
//! what is shown to the peer, and what is said when it fails. The bytes themselves pass through
//! [`crate::stream`].
//!
//! TLS 1.2 and 1.3 are spoken, 1.2 for servers as old as MySQL 5.7.

mod files;
#[cfg(test)]
mod tests;
mod verify;

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, Error, InvalidMessage, RootCertStore,
};

use self::verify::{AnyServer, TrustedServer};

/// How much a backend insists on TLS; MySQL's own modes under its own names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// Never.
    Off,
    /// If the server offers it; its identity is not verified. Protects against attackers that only listen.
    #[default]
    Preferred,
    /// Always, or there is no connection; the server's identity is not verified.
    Required,
    /// And the server's certificate must come from a trusted authority, whatever name it bears.
    VerifyCa,
    /// And it must bear the server's name.
    VerifyFull,
}

impl Mode {
    pub const ALL: [Self; 5] =
        [Self::Off, Self::Preferred, Self::Required, Self::VerifyCa, Self::VerifyFull];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Preferred => "preferred",
            Self::Required => "required",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }

    /// Says whether a server that does not speak TLS must be refused.
    pub const fn is_required(self) -> bool {
        matches!(self, Self::Required | Self::VerifyCa | Self::VerifyFull)
    }

    /// Says whether the server must prove its identity.
    pub const fn verifies(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyFull)
    }
}

/// A text that names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no TLS mode; write \"off\", \"preferred\", \"required\", \"verify-ca\" or \
     \"verify-full\""
)]
pub struct NoMode(String);

impl FromStr for Mode {
    type Err = NoMode;

    fn from_str(text: &str) -> Result<Self, NoMode> {
        Self::ALL
            .into_iter()
            .find(|mode| mode.name() == text)
            .ok_or_else(|| NoMode(text.to_owned()))
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A certificate with its chain, and its key; PEM files both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// TLS of backends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForBackends {
    pub mode: Mode,
    /// The authorities that are trusted; by default, those that the machine trusts.
    pub ca: Option<PathBuf>,
    /// What a server is shown that asks for a certificate.
    pub identity: Option<Identity>,
}

/// TLS of the clients' connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ForClients {
    /// By default, a certificate that is made at start and signed by no authority, as MariaDB and MySQL do it.
    pub identity: Option<Identity>,
    /// A client that uses TLS must show a certificate from these authorities.
    pub ca: Option<PathBuf>,
}

/// Why TLS cannot be had as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {what} from {}: {why}", path.display())]
    File { what: &'static str, path: PathBuf, why: String },
    #[error(
        "cannot use the certificate in {} with the key in {}: {why}",
        certificate.display(),
        key.display()
    )]
    Identity { certificate: PathBuf, key: PathBuf, why: String },
    #[error("this machine trusts no authority that could be read ({why}); name a CA file")]
    NoAuthorities { why: String },
    #[error(
        "a CA file is named, but the TLS mode {mode} verifies nothing; use verify-ca or \
         verify-full, or no CA file"
    )]
    CaWithoutUse { mode: Mode },
    #[error("{host:?} can be in no certificate: it is neither a host name nor an IP address")]
    Name { host: String },
    #[error("cannot set up TLS: {0}")]
    Library(String),
}

impl ForBackends {
    /// Reads the files. `None` where the mode is off.
    pub fn config(&self) -> Result<Option<Arc<ClientConfig>>, TlsError> {
        if self.ca.is_some() && !self.mode.verifies() {
            return Err(TlsError::CaWithoutUse { mode: self.mode });
        }
        let provider = provider();
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(library)?;
        let builder = match self.mode {
            Mode::Off => return Ok(None),
            Mode::Preferred | Mode::Required => {
                let verifier = Arc::new(AnyServer::new(algorithms));
                builder.dangerous().with_custom_certificate_verifier(verifier)
            }
            Mode::VerifyCa => {
                let verifier = Arc::new(TrustedServer::new(self.authorities()?, algorithms));
                builder.dangerous().with_custom_certificate_verifier(verifier)
            }
            Mode::VerifyFull => builder.with_root_certificates(self.authorities()?),
        };
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.read()?;
                builder
                    .with_client_auth_cert(chain, key)
                    .map_err(|error| identity.refuse(&error))?
            }
        };
        Ok(Some(Arc::new(config)))
    }

    fn authorities(&self) -> Result<RootCertStore, TlsError> {
        self.ca.as_deref().map_or_else(files::authorities_of_machine, files::authorities)
    }
}

impl ForClients {
    /// What certificates of clients are judged by, if they must show one.
    pub(crate) fn verifier(&self) -> Result<Option<Arc<dyn ClientCertVerifier>>, TlsError> {
        let Some(ca) = &self.ca else { return Ok(None) };
        let authorities = Arc::new(files::authorities(ca)?);
        let verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider()).build();
        verifier.map(Some).map_err(library)
    }
}

/// Whose certificate is expected of a host.
pub fn server_name(host: &str) -> Result<ServerName<'static>, TlsError> {
    ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Name { host: host.to_owned() })
}

/// What to do about a failure, to be put behind its message; empty where the message says it.
pub(crate) fn hint(error: &Error) -> &'static str {
    match error {
        Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "; no trusted authority has signed it: name its CA file, or use a mode that does not \
             verify"
        }
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => "; the mode verify-ca accepts any name",
        Error::InvalidCertificate(CertificateError::Other(_)) => {
            "; only X.509 version 3 can be verified, and the certificate must not be an authority's"
        }
        _ if is_mismatch(error) => {
            "; both sides must speak TLS 1.2 or 1.3 with ephemeral keys and authenticated ciphers"
        }
        Error::AlertReceived(
            AlertDescription::UnknownCA
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateExpired
            | AlertDescription::DecryptError,
        ) => "; the peer does not trust the certificate that it was shown",
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "; the peer wants to see a certificate: configure one with its key"
        }
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            "; what the peer sends is not TLS"
        }
        _ => "",
    }
}

/// Whether the two sides had nothing in common: no version, or no cipher.
pub(crate) const fn is_mismatch(error: &Error) -> bool {
    matches!(
        error,
        Error::PeerIncompatible(_)
            | Error::AlertReceived(
                AlertDescription::HandshakeFailure | AlertDescription::ProtocolVersion
            )
    )
}

pub(crate) fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// A certificate that no authority has signed, and its key of this kind.
pub(crate) fn self_signed(
    kind: &'static rcgen::SignatureAlgorithm,
) -> Result<(CertificateDer<'static>, PrivateKeyDer<'static>), TlsError> {
    let key = rcgen::KeyPair::generate_for(kind).map_err(library)?;
    let names = rcgen::CertificateParams::new(["localhost".to_owned()]).map_err(library)?;
    let certificate = names.self_signed(&key).map_err(library)?;
    let key = PrivatePkcs8KeyDer::from(key.serialize_der());
    Ok((certificate.der().clone(), key.into()))
}

pub(crate) fn library(error: impl fmt::Display) -> TlsError {
    TlsError::Library(error.to_string())
}
