//! Certificates and keys out of PEM files. Every error names the file and what is wrong with it.

use std::path::Path;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{Error, InconsistentKeys, RootCertStore};

use super::{Identity, TlsError};

impl Identity {
    pub(crate) fn read(
        &self,
    ) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let chain = certificates("the certificate", &self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|error| {
            let why = match error {
                pem::Error::NoItemsFound => {
                    "there is no private key in PEM form in it, or it is locked with a password"
                        .to_owned()
                }
                error => reason(error),
            };
            TlsError::File { what: "the private key", path: self.key.clone(), why }
        })?;
        Ok((chain, key))
    }

    /// Says why the two cannot be used although they could be read.
    pub(crate) fn refuse(&self, error: &Error) -> TlsError {
        let why = match error {
            Error::InconsistentKeys(InconsistentKeys::KeyMismatch) => {
                "the key belongs to another certificate".to_owned()
            }
            error => error.to_string(),
        };
        TlsError::Identity { certificate: self.certificate.clone(), key: self.key.clone(), why }
    }
}

pub(super) fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let what = "the certificates of authorities";
    let mut authorities = RootCertStore::empty();
    for certificate in certificates(what, path)? {
        authorities.add(certificate).map_err(|error| TlsError::File {
            what,
            path: path.to_owned(),
            why: error.to_string(),
        })?;
    }
    Ok(authorities)
}

/// Whom the machine trusts. What cannot be read among many does not matter unless nothing is left.
pub(super) fn authorities_of_machine() -> Result<RootCertStore, TlsError> {
    let found = rustls_native_certs::load_native_certs();
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(found.certs);
    if authorities.is_empty() {
        let why = found.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
        return Err(TlsError::NoAuthorities { why });
    }
    Ok(authorities)
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let refuse = |error| TlsError::File { what, path: path.to_owned(), why: reason(error) };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(|certificates| certificates.collect::<Result<Vec<_>, _>>())
        .map_err(refuse)?;
    if certificates.is_empty() {
        let why = "there is no certificate in PEM form in it".to_owned();
        return Err(TlsError::File { what, path: path.to_owned(), why });
    }
    Ok(certificates)
}

fn reason(error: pem::Error) -> String {
    match error {
        pem::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}
