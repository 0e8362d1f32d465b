//! What the options that name files have in common, and those that name a certificate's host.

use std::path::PathBuf;

use backend::tls::Identity;

use crate::config::form::Taken;

pub(super) const FILE: &str =
    "a file's path; one without a leading '/' starts where Flifo was started";

pub(super) fn file(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() || text.contains('\0') {
        return Err(format!("{text:?} is no path"));
    }
    Ok(text.into())
}

pub(super) fn set(place: &mut Option<PathBuf>, text: &str) -> Taken {
    *place = Some(file(text)?);
    Ok(())
}

pub(super) fn show(path: Option<&PathBuf>) -> Option<String> {
    path.map(|path| path.display().to_string())
}

// A certificate and its key are of use only together; whether both are there is checked at the end.

pub(super) fn set_certificate(identity: &mut Option<Identity>, text: &str) -> Taken {
    identity.get_or_insert_with(empty).certificate = file(text)?;
    Ok(())
}

pub(super) fn certificate(identity: Option<&Identity>) -> Option<String> {
    show(identity.map(|identity| &identity.certificate))
}

pub(super) fn set_key(identity: &mut Option<Identity>, text: &str) -> Taken {
    identity.get_or_insert_with(empty).key = file(text)?;
    Ok(())
}

pub(super) fn key(identity: Option<&Identity>) -> Option<String> {
    show(identity.map(|identity| &identity.key))
}

/// A name that a server's certificate is to bear.
pub(super) const SERVER_NAME: &str = "a host name or an IP address";

pub(super) fn set_server_name(place: &mut Option<String>, text: &str) -> Taken {
    backend::tls::server_name(text).map_err(|error| error.to_string())?;
    *place = Some(text.to_owned());
    Ok(())
}

fn empty() -> Identity {
    Identity { certificate: PathBuf::new(), key: PathBuf::new() }
}
