//! Which peers are trusted in which mode, on real handshakes; and the messages about bad files.

use std::cell::Cell;
use std::path::Path;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SignatureScheme, SupportedCipherSuite, SupportedProtocolVersion};
use tempfile::TempDir;
use tokio::net::UnixStream;

use super::*;
use crate::stream::{Stream, TlsFacts};

type Issuer = CertifiedIssuer<'static, KeyPair>;

/// A folder of certificates.
struct Workshop {
    folder: TempDir,
    made: Cell<u32>,
}

impl Workshop {
    fn new() -> Self {
        Self { folder: TempDir::new().unwrap(), made: Cell::new(0) }
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    fn authority(&self, name: &str) -> (Issuer, PathBuf) {
        let issuer =
            CertifiedIssuer::self_signed(authority(name), KeyPair::generate().unwrap()).unwrap();
        let path = self.file(&format!("{name}.pem"), &issuer.pem());
        (issuer, path)
    }

    /// A certificate that `issuer` signs, followed by `chain`.
    fn identity(&self, params: &CertificateParams, issuer: &Issuer, chain: &str) -> Identity {
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, issuer).unwrap();
        let number = self.made.replace(self.made.get() + 1);
        Identity {
            certificate: self.file(&format!("{number}-cert.pem"), &(certificate.pem() + chain)),
            key: self.file(&format!("{number}-key.pem"), &key.serialize_pem()),
        }
    }
}

fn authority(name: &str) -> CertificateParams {
    let mut params = leaf(&[]);
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    params
}

fn leaf(names: &[&str]) -> CertificateParams {
    CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap()
}

fn backends(mode: Mode, ca: Option<&Path>) -> ForBackends {
    ForBackends { mode, ca: ca.map(Path::to_owned), identity: None }
}

fn clients(identity: &Identity) -> ForClients {
    ForClients { identity: Some(identity.clone()), ca: None }
}

/// Lets the two meet, under the name `db.example`, until a first message has passed each way.
async fn meet(server: Arc<ServerConfig>, backends: &ForBackends) -> Result<TlsFacts, String> {
    meet_as(server, backends, "db.example").await
}

async fn meet_as(
    server: Arc<ServerConfig>,
    backends: &ForBackends,
    name: &str,
) -> Result<TlsFacts, String> {
    let (near, far) = UnixStream::pair().unwrap();
    let config = backends.config().unwrap().unwrap();
    let name = server_name(name).unwrap();
    let serve = async {
        let stream = Stream::try_from(far)?.accept_tls(server, &[]).await?;
        stream.write_all(b"greeting").await?;
        stream.read_some(&mut [0; 64]).await
    };
    let backend = async {
        let stream = Stream::try_from(near)?.connect_tls(config, name).await?;
        // A server that refuses a certificate says so after the handshake.
        stream.read_some(&mut [0; 64]).await?;
        stream.write_all(b"answer").await?;
        Ok::<_, std::io::Error>(stream.tls_facts().unwrap())
    };
    let (backend, _) = tokio::join!(backend, serve);
    backend.map_err(|error| error.to_string())
}

#[track_caller]
fn refused(result: Result<TlsFacts, String>, why: &str) {
    let error = result.expect_err("it was accepted");
    assert!(error.contains(why), "{error}");
}

#[test]
fn modes_have_mysqls_names() {
    for mode in Mode::ALL {
        assert_eq!(mode.to_string().parse(), Ok(mode));
    }
    assert_eq!(Mode::default(), Mode::Preferred);
    assert!(!Mode::Preferred.is_required() && Mode::Required.is_required());
    assert!(!Mode::Required.verifies() && Mode::VerifyCa.verifies());
    let error = "verify_ca".parse::<Mode>().unwrap_err().to_string();
    assert!(error.contains("\"verify_ca\"") && error.contains("\"verify-ca\""), "{error}");
}

#[tokio::test]
async fn without_verifying_anybody_will_do() {
    let server = ForClients::default().config().unwrap();
    for mode in [Mode::Preferred, Mode::Required] {
        let facts = meet(Arc::clone(&server), &backends(mode, None)).await.unwrap();
        assert_eq!(facts.version, "TLSv1.3");
    }
    assert!(backends(Mode::Off, None).config().unwrap().is_none());
}

#[tokio::test]
async fn verify_ca_asks_for_the_authority_and_for_no_name() {
    let workshop = Workshop::new();
    let (issuer, ca) = workshop.authority("ca");
    let (other_issuer, _) = workshop.authority("other");
    let backends = backends(Mode::VerifyCa, Some(&ca));
    let good = workshop.identity(&leaf(&["elsewhere.example"]), &issuer, "");
    meet(clients(&good).config().unwrap(), &backends).await.unwrap();
    let other = workshop.identity(&leaf(&["db.example"]), &other_issuer, "");
    let met = meet(clients(&other).config().unwrap(), &backends).await;
    refused(met, "no trusted authority has signed it");
    let met = meet(ForClients::default().config().unwrap(), &backends).await;
    refused(met, "no trusted authority has signed it");
}

#[tokio::test]
async fn verify_full_asks_for_the_name_too() {
    let workshop = Workshop::new();
    let (issuer, ca) = workshop.authority("ca");
    let (other_issuer, _) = workshop.authority("other");
    let backends = backends(Mode::VerifyFull, Some(&ca));
    let params = leaf(&["db.example", "127.0.0.1"]);
    let good = clients(&workshop.identity(&params, &issuer, "")).config().unwrap();
    meet(Arc::clone(&good), &backends).await.unwrap();
    meet_as(Arc::clone(&good), &backends, "127.0.0.1").await.unwrap();
    refused(meet_as(Arc::clone(&good), &backends, "127.0.0.2").await, "not valid for name");
    refused(meet_as(good, &backends, "db2.example").await, "verify-ca accepts any name");
    let other = clients(&workshop.identity(&params, &other_issuer, "")).config().unwrap();
    refused(meet(other, &backends).await, "no trusted authority has signed it");
}

#[tokio::test]
async fn verifying_looks_at_the_date() {
    let workshop = Workshop::new();
    let (issuer, ca) = workshop.authority("ca");
    let mut params = leaf(&["db.example"]);
    params.not_after = date_time_ymd(2020, 1, 1);
    let old = clients(&workshop.identity(&params, &issuer, "")).config().unwrap();
    for mode in [Mode::VerifyCa, Mode::VerifyFull] {
        refused(meet(Arc::clone(&old), &backends(mode, Some(&ca))).await, "expired");
    }
    meet(old, &backends(Mode::Required, None)).await.unwrap();
}

#[tokio::test]
async fn a_chain_is_followed() {
    let workshop = Workshop::new();
    let (root, ca) = workshop.authority("root");
    let between =
        CertifiedIssuer::signed_by(authority("between"), KeyPair::generate().unwrap(), &root)
            .unwrap();
    let params = leaf(&["db.example"]);
    let whole = clients(&workshop.identity(&params, &between, &between.pem())).config().unwrap();
    let cut = clients(&workshop.identity(&params, &between, "")).config().unwrap();
    for mode in [Mode::VerifyCa, Mode::VerifyFull] {
        meet(Arc::clone(&whole), &backends(mode, Some(&ca))).await.unwrap();
        refused(meet(Arc::clone(&cut), &backends(mode, Some(&ca))).await, "no trusted authority");
    }
}

#[tokio::test]
async fn the_machines_authorities_do_not_know_ours() {
    let backends = backends(Mode::VerifyFull, None);
    match backends.config() {
        Ok(_) => refused(
            meet(ForClients::default().config().unwrap(), &backends).await,
            "no trusted authority has signed it",
        ),
        Err(error) => assert!(matches!(error, TlsError::NoAuthorities { .. }), "{error}"),
    }
}

#[tokio::test]
async fn clients_show_certificates_where_they_must() {
    let workshop = Workshop::new();
    let (issuer, ca) = workshop.authority("ca");
    let (other_issuer, _) = workshop.authority("other");
    let server = ForClients { identity: None, ca: Some(ca) }.config().unwrap();
    let with = |identity| ForBackends { mode: Mode::Required, ca: None, identity };
    let known = workshop.identity(&leaf(&["app"]), &issuer, "");
    meet(Arc::clone(&server), &with(Some(known))).await.unwrap();
    let met = meet(Arc::clone(&server), &with(None)).await;
    refused(met, "the peer wants to see a certificate");
    let unknown = workshop.identity(&leaf(&["app"]), &other_issuer, "");
    refused(meet(server, &with(Some(unknown))).await, "the peer does not trust the certificate");
}

#[tokio::test]
async fn old_servers_speak_tls_1_2() {
    for (version, name) in [(&TLS12, "TLSv1.2"), (&TLS13, "TLSv1.3")] {
        let (certificate, key) = self_signed(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let server = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[version])
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .unwrap();
        let facts = meet(server.into(), &backends(Mode::Required, None)).await.unwrap();
        assert_eq!(facts.version, name);
        assert!(facts.cipher.starts_with("TLS_"), "{facts:?}");
    }
}

#[tokio::test]
async fn a_certificate_of_version_1_will_do_where_nothing_is_verified() {
    // As the manuals of old had it made: openssl x509 -req, without extensions.
    let workshop = Workshop::new();
    let path = workshop.file("v1.pem", include_str!("v1.pem"));
    let identity = Identity { certificate: path.clone(), key: path.clone() };
    let (chain, key) = identity.read().unwrap();
    let provider: Arc<CryptoProvider> = provider();
    let key = provider.key_provider.load_private_key(key).unwrap();
    let server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(CertifiedKey::new(chain, key))));
    let server = Arc::new(server);
    meet(Arc::clone(&server), &backends(Mode::Required, None)).await.unwrap();
    refused(meet(server, &backends(Mode::VerifyCa, Some(&path))).await, "only X.509 version 3");
}

#[test]
fn bad_files_are_named_with_what_is_wrong() {
    let workshop = Workshop::new();
    let (issuer, ca) = workshop.authority("ca");
    let good = workshop.identity(&leaf(&["db.example"]), &issuer, "");
    let other = workshop.identity(&leaf(&["db.example"]), &issuer, "");
    let with = |certificate: &Path, key: &Path| {
        let (certificate, key) = (certificate.to_owned(), key.to_owned());
        clients(&Identity { certificate, key }).config().map(drop).unwrap_err().to_string()
    };
    let missing = workshop.folder.path().join("missing.pem");
    let empty = workshop.file("empty.pem", "");
    let junk =
        workshop.file("junk.pem", "-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n");
    let locked =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let locked = workshop.file("locked.pem", locked);

    for (error, path, why) in [
        (with(&missing, &good.key), &missing, "No such file"),
        (with(&empty, &good.key), &empty, "there is no certificate"),
        (with(&good.key, &good.key), &good.key, "there is no certificate"),
        (with(&junk, &good.key), &junk, "base64"),
        (with(&good.certificate, &missing), &missing, "No such file"),
        (with(&good.certificate, &good.certificate), &good.certificate, "no private key"),
        (with(&good.certificate, &locked), &locked, "locked with a password"),
        (with(&good.certificate, &other.key), &other.key, "belongs to another certificate"),
    ] {
        assert!(error.contains(path.to_str().unwrap()) && error.contains(why), "{error}");
    }
    let error = backends(Mode::VerifyCa, Some(&empty)).config().unwrap_err().to_string();
    assert!(error.contains("empty.pem") && error.contains("authorities"), "{error}");
    let error = backends(Mode::Required, Some(&ca)).config().unwrap_err().to_string();
    assert!(error.contains("required verifies nothing"), "{error}");
    let error = server_name("a b").unwrap_err().to_string();
    assert!(error.contains("\"a b\""), "{error}");
}

#[tokio::test]
async fn a_client_that_knows_rsa_alone_is_shown_a_certificate_of_its_own() {
    let offer = ForClients::default().offer().unwrap();
    let mut shown = Vec::new();
    for suites in [
        &[aws_lc_rs::cipher_suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256][..],
        &[aws_lc_rs::cipher_suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256],
        &[aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256],
        &[aws_lc_rs::cipher_suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384],
    ] {
        let provider =
            CryptoProvider { cipher_suites: suites.to_vec(), ..aws_lc_rs::default_provider() };
        let algorithms = provider.signature_verification_algorithms;
        let config = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AnyServer::new(algorithms)))
            .with_no_client_auth();
        let (near, far) = UnixStream::pair().unwrap();
        let near = Stream::try_from(near).unwrap();
        let name = server_name("localhost").unwrap();
        let (client, server) = tokio::join!(
            near.connect_tls(Arc::new(config), name),
            offer.accept(Stream::try_from(far).unwrap(), &[])
        );
        let (client, server) = (client.unwrap(), server.unwrap());
        let certificate = server.shown().unwrap();
        assert_eq!(client.peer_certificate(), Some(certificate));
        shown.push(certificate);
    }
    assert_eq!((shown[0], shown[1]), (shown[2], shown[3]), "each is made once");
    assert_ne!(shown[0], shown[1]);
}

/// Kinds of signatures, as the names of their schemes begin.
const PKCS1: &str = "RSA_PKCS1";
const PSS: &str = "RSA_PSS";
const ECDSA: &str = "ECDSA";

fn is_by(scheme: SignatureScheme, kind: &str) -> bool {
    format!("{scheme:?}").starts_with(kind)
}

/// A client's offer: two suites, the kinds of signatures that it can check, the versions it speaks.
struct Offered {
    suites: [SupportedCipherSuite; 2],
    checks: &'static [&'static str],
    versions: &'static [&'static SupportedProtocolVersion],
}

impl Offered {
    /// Nothing if these versions have none of these suites.
    fn config(&self) -> Option<ClientConfig> {
        let algorithms = aws_lc_rs::default_provider().signature_verification_algorithms;
        let is_known = |(scheme, _): &&(SignatureScheme, _)| {
            self.checks.iter().any(|&kind| is_by(*scheme, kind))
        };
        let mapping: Vec<_> = algorithms.mapping.iter().filter(is_known).copied().collect();
        let algorithms = WebPkiSupportedAlgorithms { mapping: mapping.leak(), ..algorithms };
        let provider = CryptoProvider {
            cipher_suites: self.suites.to_vec(),
            signature_verification_algorithms: algorithms,
            ..aws_lc_rs::default_provider()
        };
        let config = ClientConfig::builder_with_provider(Arc::new(provider));
        let config = config.with_protocol_versions(self.versions).ok()?.dangerous();
        let verifier = Arc::new(AnyServer::new(algorithms));
        Some(config.with_custom_certificate_verifier(verifier).with_no_client_auth())
    }

    /// Whether a key that makes signatures of this kind can serve it.
    fn is_served_by(&self, kind: &str) -> bool {
        let fits = |suite: &SupportedCipherSuite| match suite {
            SupportedCipherSuite::Tls12(suite) => suite.sign.iter().any(|&it| is_by(it, kind)),
            SupportedCipherSuite::Tls13(_) => true,
        };
        let speaks = |suite: &&SupportedCipherSuite| self.versions.contains(&suite.version());
        self.checks.contains(&kind) && self.suites.iter().filter(speaks).any(fits)
    }
}

#[tokio::test]
async fn whatever_suites_and_signatures_a_client_knows_it_is_shown_a_certificate_that_it_can_use() {
    // Clients older than TLS 1.3 check PKCS#1 alone.
    const OLD: [&[&str]; 2] = [&[PKCS1], &[PKCS1, ECDSA]];
    const KINDS: [&[&str]; 5] =
        [&[PSS], &[ECDSA], &[PKCS1, PSS], &[PSS, ECDSA], &[PKCS1, PSS, ECDSA]];
    const VERSIONS: [&[&SupportedProtocolVersion]; 3] = [&[&TLS12], &[&TLS13], &[&TLS12, &TLS13]];
    let offer = ForClients::default().offer().unwrap();
    let all = aws_lc_rs::default_provider().cipher_suites;
    let pairs = all.iter().flat_map(|&one| all.iter().map(move |&other| [one, other]));
    let (mut served, mut refused) = (0, 0);
    for suites in pairs {
        let are_old = suites.iter().all(|it| it.tls13().is_none());
        for checks in KINDS.into_iter().chain(OLD.into_iter().filter(|_| are_old)) {
            for versions in VERSIONS {
                let offered = Offered { suites, checks, versions };
                let Some(config) = offered.config() else { continue };
                let (near, far) = UnixStream::pair().unwrap();
                let near = Stream::try_from(near).unwrap();
                let (client, _) = tokio::join!(
                    near.connect_tls(Arc::new(config), server_name("localhost").unwrap()),
                    offer.accept(Stream::try_from(far).unwrap(), &[])
                );
                let can_be_served = checks.iter().any(|kind| offered.is_served_by(kind));
                assert_eq!(client.is_ok(), can_be_served, "{suites:?} {checks:?} {versions:?}");
                match can_be_served {
                    true => served += 1,
                    false => refused += 1,
                }
            }
        }
    }
    assert!(served > 100 && refused > 0, "{served} served, {refused} refused");
}
