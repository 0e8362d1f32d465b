//! Whether an impostor has heard a password that it should not have.

use backend::tls::Mode;
use wire::auth::caching_sha2;

use super::server::{Certificate, Heard, Said, keys};
use super::{PASSWORD, Way};

#[derive(Debug, Default)]
pub(super) struct Judgement {
    /// How often a password was heard that might be.
    pub(super) allowed: u64,
    /// What should not have been heard.
    pub(super) broken: Option<String>,
}

/// How a password was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Itself,
    /// Under the impostor's own key, or in no more than the nonce that it has sent.
    UnderItsKey,
}

/// `client_is_tls`: that of the client that Flifo may have had the connection opened for.
pub(super) fn judge((mode, way): (Mode, Way), client_is_tls: bool, heard: &Heard) -> Judgement {
    let mut judgement = Judgement::default();
    let is_relayed = heard.is_passed_through() || heard.has_changed_user;
    let is_its_own = !client_is_tls && is_relayed;
    for said in &heard.said {
        match form(heard, said) {
            None => {}
            // Another server would have needed the right to make a socket at this path.
            Some(_) if way == Way::Socket => judgement.allowed += 1,
            Some(form) if is_allowed(mode, form, heard, said, is_its_own) => judgement.allowed += 1,
            Some(form) => {
                judgement.broken =
                    Some(format!("the password {form:?} was told by {}", said.asked_by));
            }
        }
    }
    judgement
}

fn form(heard: &Heard, said: &Said) -> Option<Form> {
    let has = |bytes: &[u8]| bytes.windows(PASSWORD.len()).any(|it| it == PASSWORD.as_bytes());
    if has(&said.bytes) {
        return Some(Form::Itself);
    }
    let is_under = heard.nonces.iter().any(|nonce| {
        let bare = caching_sha2::obfuscate(PASSWORD.as_bytes(), nonce);
        let is_bare = said.bytes.windows(PASSWORD.len()).any(|it| bare.as_bytes().starts_with(it));
        let mut keys = keys().iter();
        is_bare
            || keys.any(|key| {
                key.decrypt(&said.bytes, nonce).is_some_and(|plain| has(plain.as_bytes()))
            })
    });
    is_under.then_some(Form::UnderItsKey)
}

/// What `server.tls` says of it in the reference.
///
/// A client without TLS that is passed through decides for itself what it tells, as it would directly: any server could
/// have its password. Flifo adds nothing to that.
fn is_allowed(mode: Mode, form: Form, heard: &Heard, said: &Said, is_its_own: bool) -> bool {
    let is_verified = match mode {
        Mode::VerifyFull => heard.shown == Certificate::Own,
        Mode::VerifyCa => heard.shown != Certificate::MadeUp,
        _ => false,
    };
    match (form, heard.is_tls) {
        (Form::UnderItsKey, false) => mode == Mode::Off || is_its_own,
        (Form::UnderItsKey, true) => true,
        (Form::Itself, true) if said.asked_by == "mysql_clear_password" => is_verified,
        (Form::Itself, true) => is_verified || !mode.verifies(),
        (Form::Itself, false) => is_its_own && said.asked_by == "dialog",
    }
}
