//! What the options that name files have in common.

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

fn empty() -> Identity {
    Identity { certificate: PathBuf::new(), key: PathBuf::new() }
}
