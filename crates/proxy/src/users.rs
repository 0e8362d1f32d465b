//! The users whose passwords Flifo knows: checks what a client proves, and gives what a link needs to log in.

use std::collections::HashMap;
use std::sync::Mutex;

use link::login::Credential;
use wire::auth::{Nonce, Plugin, Secret, native};

/// All users of the configuration.
#[derive(Debug, Default)]
pub(crate) struct Users {
    known: HashMap<Vec<u8>, User>,
}

/// One user whose clients are pooled.
#[derive(Debug)]
pub(crate) struct User {
    proof: Proof,
    /// What Flifo asks clients to prove the password with.
    plugin: Plugin,
}

#[derive(Debug)]
enum Proof {
    Password(Secret),
    /// Only the server's hash of the password is known. A client that proves the password gives away what a link
    /// needs for the same proof; it is kept in memory only.
    Hash {
        stored: native::Stored,
        learnt: Mutex<Option<native::Stage1>>,
    },
}

impl User {
    pub(crate) const fn with_password(password: Secret, plugin: Plugin) -> Self {
        Self { proof: Proof::Password(password), plugin }
    }

    pub(crate) const fn with_hash(stored: native::Stored) -> Self {
        let proof = Proof::Hash { stored, learnt: Mutex::new(None) };
        Self { proof, plugin: Plugin::NativePassword }
    }

    pub(crate) const fn plugin(&self) -> &Plugin {
        &self.plugin
    }

    /// Whether an answer made by this plugin can be checked, whatever plugin was asked for.
    pub(crate) const fn can_check(&self, plugin: &Plugin) -> bool {
        match self.proof {
            Proof::Password(_) => matches!(plugin, Plugin::NativePassword | Plugin::CachingSha2),
            Proof::Hash { .. } => matches!(plugin, Plugin::NativePassword),
        }
    }

    /// Checks a client's answer.
    pub(crate) fn check(&self, plugin: &Plugin, nonce: &Nonce, response: &[u8]) -> bool {
        match &self.proof {
            // An empty password is answered with nothing, and only that.
            Proof::Password(password) if password.is_empty() => response.is_empty(),
            Proof::Password(password) => plugin
                .respond(password, nonce)
                .is_some_and(|want| Secret::from(want) == Secret::from(response)),
            Proof::Hash { stored, learnt } => match stored.check(nonce, response) {
                Some(stage1) => {
                    *learnt.lock().unwrap_or_else(std::sync::PoisonError::into_inner) =
                        Some(stage1);
                    true
                }
                None => false,
            },
        }
    }

    /// What a link logs in with. `None` until a client has proved the password, where only its hash is known.
    pub(crate) fn credential(&self) -> Option<Credential> {
        match &self.proof {
            Proof::Password(password) => Some(Credential::Password(password.clone())),
            Proof::Hash { learnt, .. } => {
                let learnt = learnt.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                learnt.clone().map(Credential::Native)
            }
        }
    }
}

impl Users {
    pub(crate) fn add(&mut self, name: &[u8], user: User) {
        self.known.insert(name.to_vec(), user);
    }

    pub(crate) fn get(&self, name: &[u8]) -> Option<&User> {
        self.known.get(name)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_enough_once_a_client_has_proved_the_password() {
        let nonce = Nonce::from_random([7; Nonce::LEN]);
        let stored = native::Stage1::of(b"secret").stored();
        let user = User::with_hash(stored);
        let answer = |password: &str| {
            Plugin::NativePassword.respond(&Secret::from(password), &nonce).unwrap()
        };
        assert!(user.credential().is_none());
        assert!(!user.check(&Plugin::NativePassword, &nonce, &answer("guess")));
        assert!(!user.check(&Plugin::NativePassword, &nonce, b""));
        assert!(user.credential().is_none());
        assert!(user.check(&Plugin::NativePassword, &nonce, &answer("secret")));
        assert!(matches!(user.credential(), Some(Credential::Native(_))));
    }

    #[test]
    fn passwords_are_checked_by_either_plugin() {
        let nonce = Nonce::from_random([7; Nonce::LEN]);
        let password = Secret::from("secret");
        let user = User::with_password(password.clone(), Plugin::NativePassword);
        for plugin in [Plugin::NativePassword, Plugin::CachingSha2] {
            let answer = plugin.respond(&password, &nonce).unwrap();
            assert!(user.can_check(&plugin) && user.check(&plugin, &nonce, &answer));
            assert!(!user.check(&plugin, &nonce, &answer[1..]));
        }
        let empty = User::with_password(Secret::from(""), Plugin::NativePassword);
        assert!(empty.check(&Plugin::NativePassword, &nonce, b""));
        assert!(!empty.check(&Plugin::NativePassword, &nonce, b"x"));
    }
}
