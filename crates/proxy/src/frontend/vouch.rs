//! Flifo vouches for its certificate to clients that know no authority for it: the client's password is the proof.
//!
//! MariaDB's clients from 11.4 on verify by default, and take a certificate that no authority has signed only if the OK
//! of their login vouches for it ([`wire::auth::certificate`]). A MariaDB server vouches for its own certificate, which
//! is not the one that clients of Flifo see. So Flifo does it wherever it knows what the server stores: for pooled
//! clients, and for pass-through clients of accounts that it has read (`server.accounts_user`).
//!
//! Invariant: it vouches only for the certificate that this very client was shown, and with what this very client has
//! proved.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use backend::Stream;
use engine::account::name::{Brand, UserName};
use wire::auth::certificate::{Fingerprint, Stored};
use wire::auth::native::NativeStage1;
use wire::auth::{Nonce, Plugin};
use wire::handshake::Login;

use crate::dispatch::worker::Worker;
use crate::frontend::prove::PasswordProof;
use crate::users::User;

/// What the OK of a pooled client's login says in the place of its message.
pub(crate) fn for_pooled(
    brand: Brand,
    client: &Stream,
    user: &User,
    answer: &PasswordProof,
) -> Option<Vec<u8>> {
    // Clients of MySQL's servers do not ask for it.
    let certificate = client.shown().filter(|_| brand == Brand::MariaDb)?;
    let PasswordProof { plugin, nonce, response } = answer;
    let stored = user.proved_by(plugin, nonce, response)?;
    Some(certificate.vouched_by(&stored, nonce))
}

/// What is needed to vouch to a pass-through client.
#[derive(Debug)]
pub(crate) struct Vouching {
    certificate: Fingerprint,
    /// Of the greeting that the client was shown.
    scramble: Nonce,
    /// Of all accounts of the user's name.
    stored: Vec<Stored>,
    /// What the client has proved with its first answer.
    first: Option<(NativeStage1, Stored)>,
}

impl Vouching {
    /// For a client that was shown a greeting with this scramble, if it has been shown a certificate.
    pub(crate) fn of(
        client: &Stream,
        scramble: Nonce,
        stored: &[Stored],
        login: &Login,
    ) -> Option<Self> {
        let certificate = client.shown().filter(|_| !stored.is_empty())?;
        let is_native = login.plugin.as_deref().is_none_or(|name| name == NATIVE);
        let proved = stored.iter().filter(|_| is_native).find_map(|it| match it {
            Stored::Native(stored) => Some((stored.check(&scramble, &login.response)?, it.clone())),
            Stored::Ed25519(_) | Stored::Parsec(_) => None,
        });
        Some(Self { certificate, scramble, stored: stored.to_vec(), first: proved })
    }

    /// What the server wants to hear from a client that has answered Flifo's own greeting, if that is known: then the
    /// client is not asked again, and knows one scramble alone.
    pub(crate) fn answer(&mut self, plugin: &Plugin, nonce: &[u8]) -> Option<Vec<u8>> {
        let (stage1, _) = self.first.as_ref().filter(|_| *plugin == Plugin::NativePassword)?;
        let nonce = Nonce::from_server(plugin, nonce).ok()?;
        Some(stage1.respond(&nonce).to_vec())
    }

    /// The server has asked the client itself: its first answer does not count.
    pub(crate) fn see_question(&mut self) {
        self.first = None;
    }

    /// What the OK says in the place of its message, after this was the last answer to what the server has asked with.
    pub(crate) fn message(&self, plugin: &Plugin, asked: &[u8], answer: &[u8]) -> Option<Vec<u8>> {
        if let Some((_, stored)) = &self.first {
            return Some(self.certificate.vouched_by(stored, &self.scramble));
        }
        let nonce = Nonce::from_server(plugin, asked).ok();
        let is_proved = |stored: &&Stored| match stored {
            Stored::Native(it) => {
                *plugin == Plugin::NativePassword
                    && nonce.is_some_and(|nonce| it.check(&nonce, answer).is_some())
            }
            Stored::Ed25519(key) => {
                *plugin == Plugin::Ed25519 && nonce.is_some_and(|nonce| key.check(&nonce, answer))
            }
            Stored::Parsec(it) => plugin.name() == PARSEC && it.is_asked_with(asked),
        };
        let stored = self.stored.iter().find(is_proved)?;
        let scramble = match plugin {
            Plugin::NativePassword => nonce.unwrap_or(self.scramble),
            _ => self.scramble,
        };
        Some(self.certificate.vouched_by(stored, &scramble))
    }
}

/// Says, once, which clients will refuse the certificate of a pass-through login for which Flifo cannot vouch.
pub(crate) fn tell_unvouched(worker: &Worker, name: &UserName, client: &Stream) {
    static IS_TOLD: AtomicBool = AtomicBool::new(false);
    let is_made_up = client.shown().is_some() && worker.plan().tls.files.identity.is_none();
    if is_made_up && !IS_TOLD.swap(true, Relaxed) {
        tracing::info!(
            user = %name,
            "Flifo cannot vouch for its made-up certificate to clients of this user, since it does not know what the \
             server stores: those that verify by the password (MariaDB's from 11.4 on) refuse it. Give Flifo a \
             certificate that they trust (tls.cert), name the user with its password in [[users]], or let \
             server.accounts_user read its hash"
        );
    }
}

const NATIVE: &[u8] = b"mysql_native_password";
const PARSEC: &[u8] = b"parsec";
