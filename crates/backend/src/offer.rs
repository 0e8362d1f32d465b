//! What clients are shown when they begin TLS: a certificate, and which one where there are two.
//!
//! A made-up certificate has an ECDSA key, which every client of TLS 1.3 knows. Some older ones know RSA alone, and get
//! one that is made when the first of them comes, on another thread: an RSA key takes longer than an iteration of a loop
//! may. Invariant: the two share no tickets, so a session that is taken up again has the certificate that it began with.

use std::io;
use std::sync::Arc;

use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{Acceptor, ClientHello, NoClientAuth};
use rustls::{CipherSuite, ServerConfig, SignatureScheme};
use tokio::sync::OnceCell;
use wire::auth::certificate::Fingerprint;

use crate::stream::Stream;
use crate::tls::{ForClients, TlsError, library, provider, self_signed};

/// TLS as clients are offered it.
#[derive(Debug)]
pub struct Offer {
    usual: Shown,
    /// For clients that do not know the usual one's key.
    rsa: Option<OnceCell<Shown>>,
    verifier: Arc<dyn ClientCertVerifier>,
}

/// A certificate, and how it is shown.
#[derive(Debug)]
struct Shown {
    config: Arc<ServerConfig>,
    fingerprint: Fingerprint,
}

/// A client's first message is not longer.
const HELLO_MAX: usize = 64 << 10;

/// Read at once of it.
const PIECE: usize = 4 << 10;

impl ForClients {
    /// Reads the files, or makes a certificate.
    pub fn offer(&self) -> Result<Offer, TlsError> {
        let verifier = self.verifier()?;
        match &self.identity {
            None => Offer::made_up(verifier),
            Some(identity) => {
                let (chain, key) = identity.read()?;
                Offer::of(verifier, chain, key).map_err(|error| identity.refuse(&error))
            }
        }
    }

    /// The same as most clients are shown it.
    pub fn config(&self) -> Result<Arc<ServerConfig>, TlsError> {
        Ok(self.offer()?.config())
    }
}

impl Offer {
    /// A made-up certificate.
    fn made_up(verifier: Option<Arc<dyn ClientCertVerifier>>) -> Result<Self, TlsError> {
        let verifier = verifier.unwrap_or_else(|| Arc::new(NoClientAuth));
        let (certificate, key) = self_signed(&rcgen::PKCS_ECDSA_P256_SHA256)?;
        let usual = Shown::new(&verifier, vec![certificate], key).map_err(library)?;
        Ok(Self { usual, rsa: Some(OnceCell::new()), verifier })
    }

    /// This certificate with its chain.
    fn of(
        verifier: Option<Arc<dyn ClientCertVerifier>>,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let verifier = verifier.unwrap_or_else(|| Arc::new(NoClientAuth));
        Ok(Self { usual: Shown::new(&verifier, chain, key)?, rsa: None, verifier })
    }

    /// As most clients are shown it.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.usual.config)
    }

    /// Answers a client that asks for TLS: see [`Stream::accept_tls`].
    pub async fn accept(&self, stream: Stream, already_read: &[u8]) -> io::Result<Stream> {
        let Some(rsa) = &self.rsa else { return self.usual.accept(stream, already_read).await };
        let (read, needs_rsa) = hello(&stream, already_read).await?;
        if !needs_rsa {
            return self.usual.accept(stream, &read).await;
        }
        let verifier = Arc::clone(&self.verifier);
        let make = || async move {
            let made = tokio::task::spawn_blocking(move || {
                let (certificate, key) = self_signed(&rcgen::PKCS_RSA_SHA256)?;
                Shown::new(&verifier, vec![certificate], key).map_err(library)
            });
            made.await.map_err(io::Error::other)?.map_err(io::Error::other)
        };
        rsa.get_or_try_init(make).await?.accept(stream, &read).await
    }
}

impl Shown {
    fn new(
        verifier: &Arc<dyn ClientCertVerifier>,
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Self, rustls::Error> {
        let own = chain.first().map(|certificate| Fingerprint::of(certificate));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(Arc::clone(verifier))
            .with_single_cert(chain, key)?;
        // A client that comes back is spared the signature, and no memory is kept for it.
        config.ticketer = rustls::crypto::aws_lc_rs::Ticketer::new()?;
        let fingerprint = own.ok_or(rustls::Error::NoCertificatesPresented)?;
        Ok(Self { config: Arc::new(config), fingerprint })
    }

    async fn accept(&self, stream: Stream, already_read: &[u8]) -> io::Result<Stream> {
        let mut stream = stream.accept_tls(Arc::clone(&self.config), already_read).await?;
        stream.has_shown(self.fingerprint);
        Ok(stream)
    }
}

/// Reads a client's first message, and whether it needs RSA. What is wrong with the message is told by the handshake
/// that follows.
async fn hello(stream: &Stream, already_read: &[u8]) -> io::Result<(Vec<u8>, bool)> {
    let (mut read, mut taken) = (already_read.to_vec(), 0);
    let mut acceptor = Acceptor::default();
    loop {
        while taken < read.len() {
            let mut rest = &read[taken..];
            let there = rest.len();
            if acceptor.read_tls(&mut rest).is_err() || rest.len() == there {
                return Ok((read, false));
            }
            taken += there - rest.len();
            match acceptor.accept() {
                Ok(Some(accepted)) => return Ok((read, needs_rsa(&accepted.client_hello()))),
                Ok(None) => {}
                Err(_) => return Ok((read, false)),
            }
        }
        let before = read.len();
        read.resize(before + PIECE, 0);
        let more = stream.read_some(&mut read[before..]).await?;
        read.truncate(before + more);
        if more == 0 || read.len() > HELLO_MAX {
            return Ok((read, false));
        }
    }
}

/// Whether a client may be unable to use the certificate with the ECDSA key, and can use the other one.
fn needs_rsa(hello: &ClientHello<'_>) -> bool {
    const ECDSA: [CipherSuite; 3] = [
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ];
    // All suites of TLS 1.3 begin so, and leave the kind of key open. They may be named by a client that does not speak
    // TLS 1.3, so they say nothing where it names others.
    let is_of_1_3 = |suite: &CipherSuite| u16::from(*suite) & 0xff00 == 0x1300;
    let suites = hello.cipher_suites();
    let can_use = suites.iter().any(|it| ECDSA.contains(it)) || suites.iter().all(is_of_1_3);
    let checks = |scheme| hello.signature_schemes().contains(&scheme);
    let checks_ecdsa = checks(SignatureScheme::ECDSA_NISTP256_SHA256);
    // The first of them is of older clients of TLS 1.2.
    let checks_rsa =
        checks(SignatureScheme::RSA_PKCS1_SHA256) || checks(SignatureScheme::RSA_PSS_SHA256);
    !checks_ecdsa || !can_use && checks_rsa
}
