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
use engine::account::row::Row;
use wire::auth::certificate::{Fingerprint, Stored};
use wire::auth::native::NativeStage1;
use wire::auth::{Nonce, Plugin, Secret};
use wire::handshake::Login;

use crate::frontend::prove::PasswordProof;
use crate::state::worker::Worker;
use crate::users::User;
use crate::users::table::Provable;

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

/// What a pass-through client proves to the server, where Flifo can check it.
#[derive(Debug)]
pub(crate) struct Proofs {
    /// Of all accounts of the user's name.
    provable: Vec<Provable>,
    /// The certificate that the client was shown, and the scramble of the greeting that it was shown, where Flifo can
    /// vouch.
    vouching: Option<(Fingerprint, Nonce)>,
    /// What the client has proved with its first answer.
    first: Option<(NativeStage1, Stored)>,
    /// What the server has asked with last, and the client's answer to that.
    asked: Vec<u8>,
    answer: Option<Secret>,
}

impl Proofs {
    /// For a client that was shown a greeting with this scramble, if it was one of Flifo's own.
    pub(crate) fn of(
        client: &Stream,
        scramble: Option<Nonce>,
        provable: &[Provable],
        login: &Login,
    ) -> Option<Self> {
        if provable.is_empty() {
            return None;
        }
        let vouching = client.shown().zip(scramble);
        let is_native = login.plugin.as_deref().is_none_or(|name| name == NATIVE);
        let first = vouching.filter(|_| is_native).and_then(|(_, scramble)| {
            provable.iter().find_map(|it| match &it.stored {
                Some(Stored::Native(stored)) => {
                    let stage1 = stored.check(&scramble, &login.response)?;
                    Some((stage1, Stored::Native(stored.clone())))
                }
                _ => None,
            })
        });
        let provable = provable.to_vec();
        Some(Self { provable, vouching, first, asked: Vec::new(), answer: None })
    }

    /// The server asks by this plugin. What it wants to hear from a client that has answered Flifo's own greeting, if
    /// that is known: then the client is not asked again, and knows one scramble alone.
    pub(crate) fn answer(&mut self, plugin: &Plugin, nonce: &[u8]) -> Option<Vec<u8>> {
        self.see_question(nonce);
        let known = self.first.as_ref().filter(|_| *plugin == Plugin::NativePassword);
        let known = known.zip(Nonce::from_server(plugin, nonce).ok());
        let answer = known.map(|((stage1, _), nonce)| stage1.respond(&nonce).to_vec());
        if answer.is_none() {
            // The client itself is asked: its first answer does not count.
            self.first = None;
        }
        answer
    }

    /// The client is asked with this.
    pub(crate) fn see_question(&mut self, asked: &[u8]) {
        (self.asked, self.answer) = (asked.to_vec(), None);
    }

    pub(crate) fn see_answer(&mut self, answer: Secret) {
        self.answer = Some(answer);
    }

    /// What the OK says in the place of its message, after a login by this plugin.
    pub(crate) fn message(&self, plugin: &Plugin) -> Option<Vec<u8>> {
        let (certificate, scramble) = self.vouching.as_ref()?;
        let is_own = |it: &&Stored| self.is_proved(it, plugin) || self.is_asked(it, plugin);
        let stored = self.provable.iter().filter_map(|it| it.stored.as_ref()).find(is_own)?;
        let asked = Nonce::from_server(plugin, &self.asked).ok().filter(|_| self.first.is_none());
        let scramble = match plugin {
            Plugin::NativePassword => asked.unwrap_or(*scramble),
            _ => *scramble,
        };
        Some(certificate.vouched_by(stored, &scramble))
    }

    /// Whether the client has proved a password of this account, by this plugin.
    pub(crate) fn has_proved(&self, account: &Row, plugin: &Plugin) -> bool {
        let mut own = self.provable.iter().filter(|it| it.host == account.host);
        own.any(|it| match &it.stored {
            Some(stored) => self.is_proved(stored, plugin),
            None => {
                let is_empty = self.answer.as_ref().is_some_and(|it| it.as_bytes().is_empty());
                *plugin == Plugin::NativePassword && is_empty
            }
        })
    }

    fn is_proved(&self, stored: &Stored, plugin: &Plugin) -> bool {
        if let Some((_, proved)) = &self.first {
            return stored == proved;
        }
        let nonce = Nonce::from_server(plugin, &self.asked).ok();
        let (Some(nonce), Some(answer)) = (nonce, &self.answer) else { return false };
        match stored {
            Stored::Native(it) => {
                *plugin == Plugin::NativePassword && it.check(&nonce, answer.as_bytes()).is_some()
            }
            Stored::Ed25519(key) => {
                *plugin == Plugin::Ed25519 && key.check(&nonce, answer.as_bytes())
            }
            // The server alone can check it.
            Stored::Parsec(_) => false,
        }
    }

    /// Whether the server has asked for this one: then its OK says that the client has proved it.
    fn is_asked(&self, stored: &Stored, plugin: &Plugin) -> bool {
        let Stored::Parsec(stored) = stored else { return false };
        plugin.name() == PARSEC && stored.is_asked_with(&self.asked)
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

#[cfg(test)]
mod tests {
    use wire::auth::native::NativeStage1;
    use wire::auth::parsec::ParsecStored;

    use super::*;

    #[test]
    fn a_client_has_proved_what_can_be_checked_of_its_own_account() {
        const TEXT: &[u8] =
            b"P0:Wjm1V7W4Rtbo1ysg5fO3Ke20:7aBMNizG/5zasvpilTFqcLnwiJDNQAUOM+VjNuh+hpI";
        let parsec = ParsecStored::parse(TEXT).unwrap();
        let salt = b"P\0Z9\xb5W\xb5\xb8F\xd6\xe8\xd7+ \xe5\xf3\xb7)\xed\xb4";
        assert!(parsec.is_asked_with(salt));
        let secret = NativeStage1::of(b"secret");
        let at = |host: &str, stored| Provable { host: host.into(), stored };
        let mut proofs = Proofs {
            provable: vec![
                at("native", Some(Stored::Native(secret.stored()))),
                at("empty", None),
                at("parsec", Some(Stored::Parsec(parsec))),
            ],
            vouching: None,
            first: None,
            asked: Vec::new(),
            answer: None,
        };
        let parsec = Plugin::from_name(PARSEC);
        let nonce = Nonce::from_random([7; Nonce::LEN]);
        let hosts = |proofs: &Proofs, plugin: &Plugin| {
            let row = |host: &str| Row { host: host.into(), ..Row::default() };
            let all = ["native", "empty", "parsec", "other"].into_iter();
            all.filter(|host| proofs.has_proved(&row(host), plugin)).collect::<Vec<_>>()
        };
        for (plugin, asked, answer, want) in [
            (&Plugin::NativePassword, nonce.as_bytes(), None, &[][..]),
            (&Plugin::NativePassword, nonce.as_bytes(), Some(&b""[..]), &["empty"]),
            (&Plugin::NativePassword, nonce.as_bytes(), Some(&secret.respond(&nonce)), &["native"]),
            (&Plugin::NativePassword, nonce.as_bytes(), Some(b"wrong"), &[]),
            (&Plugin::CachingSha2, nonce.as_bytes(), Some(b""), &[]),
            // By the question alone nothing is proved.
            (&parsec, salt, None, &[]),
            (&parsec, salt, Some(b"whatever it is"), &[]),
        ] {
            proofs.see_question(asked);
            answer.into_iter().for_each(|answer| proofs.see_answer(Secret::from(answer.to_vec())));
            assert_eq!(hosts(&proofs, plugin), want, "{plugin} {answer:?}");
        }
    }
}
