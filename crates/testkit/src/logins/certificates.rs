//! An authority of the tests' own, and from it certificates for a server, for clients and for Flifo.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// Writes `ca.pem`, and for each of `server`, `client` and `flifo` a certificate and its key.
///
/// # Panics
/// If a file cannot be written.
pub fn make(folder: &Path) {
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).expect("a file");
    let mut params = CertificateParams::new([]).expect("parameters");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "the tests");
    let key = KeyPair::generate().expect("a key");
    write("ca.pem", params.self_signed(&key).expect("signed").pem());
    let issuer = Issuer::new(params, key);
    for (name, host, subject) in [
        ("server", Some("localhost"), "server"),
        ("client", None, "client"),
        ("flifo", None, "Flifo"),
    ] {
        let hosts: Vec<String> = host.into_iter().map(str::to_owned).collect();
        let mut params = CertificateParams::new(hosts).expect("parameters");
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, subject);
        let key = KeyPair::generate().expect("a key");
        write(&format!("{name}.pem"), params.signed_by(&key, &issuer).expect("signed").pem());
        write(&format!("{name}-key.pem"), key.serialize_pem());
    }
}
