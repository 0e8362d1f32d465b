//! TLS for clients, made from the configuration at start and at each reload: files that cannot be read are told then.

use std::path::PathBuf;
use std::sync::Arc;

use backend::offer::Offer;
use backend::tls::TlsError;

use crate::config::{ClientTls, ClientTlsMode, Plan};

/// What clients are offered.
pub(crate) struct Tls {
    /// `None`: TLS is not offered.
    pub(crate) clients: Option<Arc<Offer>>,
    /// Clients on insecure connections are refused.
    pub(crate) clients_required: bool,
    made_of: Material,
}

/// What it was made of; a certificate that is made at start is not made anew while that is the same.
#[derive(Debug, PartialEq, Eq)]
struct Material {
    options: ClientTls,
    /// Its certificates. A key is renewed with its certificate.
    files: Vec<(PathBuf, Vec<u8>)>,
}

impl Material {
    fn of(plan: &Plan) -> Self {
        let options = plan.tls.clone();
        let certificate = options.files.identity.as_ref().map(|it| &it.certificate);
        let paths = certificate.into_iter().chain(&options.files.ca).cloned();
        // What cannot be read is told when it is used.
        let read = |path: PathBuf| (path.clone(), std::fs::read(&path).unwrap_or_default());
        let files = paths.map(read).collect();
        Self { options, files }
    }
}

impl Tls {
    /// What clients are to be offered from now on. `None`: the same.
    pub(crate) fn renewed(&self, plan: &Plan) -> Result<Option<Self>, TlsError> {
        match self.made_of == Material::of(plan) {
            true => Ok(None),
            false => Self::new(plan).map(Some),
        }
    }

    pub(crate) fn new(plan: &Plan) -> Result<Self, TlsError> {
        let clients = match plan.tls.mode {
            ClientTlsMode::Off => None,
            ClientTlsMode::Preferred | ClientTlsMode::Required => {
                Some(Arc::new(plan.tls.files.offer()?))
            }
        };
        let clients_required = plan.tls.mode == ClientTlsMode::Required;
        Ok(Self { clients, clients_required, made_of: Material::of(plan) })
    }
}
