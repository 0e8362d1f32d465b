//! What the Flifo before this one knew of passwords that neither the configuration nor the server's table of accounts
//! tells: clients have proved or said them to it.
//!
//! It comes over the socket between the two processes, and is believed no more than what a client says: a hash must fit
//! what the server's table stores, and a password of a learnt user is tried at the server. Invariant: what is not asked
//! for is wiped when the other process is gone.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use backend::login::Credential;
use engine::account::name::UserName;
use wire::auth::Secret;

use crate::users::User;

/// A user, and what a backend of it logs in with.
#[derive(Debug)]
pub(crate) struct Bequest {
    pub(crate) name: UserName,
    known: Known,
    secret: Secret,
}

/// What is known of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    Itself = 1,
    /// Its SHA-1.
    Native,
}

/// All that have come.
#[derive(Debug, Default)]
pub(crate) struct Bequeathed(Mutex<HashMap<UserName, (Known, Secret)>>);

/// More users are not named between two processes.
const USERS_MAX: usize = 10_000;

impl Bequest {
    /// What another Flifo must be told of this user. `None`: its configuration tells it, or there is nothing to tell.
    pub(crate) fn of(name: &UserName, user: &User) -> Option<Self> {
        if user.is_configured() && user.plugin_of_hash().is_none() {
            return None;
        }
        let (known, secret) = match user.credential()? {
            Credential::Password(password) => (Known::Itself, password),
            Credential::Native(stage1) => (Known::Native, Secret::from(&stage1.as_bytes()[..])),
        };
        Some(Self { name: name.clone(), known, secret })
    }

    /// As bytes between two processes: what is known (1), how long the name is (2), the name, the secret.
    pub(crate) fn written(&self) -> Secret {
        let name = self.name.as_bytes();
        let mut bytes = Vec::with_capacity(3 + name.len() + self.secret.as_bytes().len());
        bytes.push(self.known as u8);
        bytes.extend_from_slice(&(name.len() as u16).to_le_bytes());
        bytes.extend_from_slice(name);
        bytes.extend_from_slice(self.secret.as_bytes());
        bytes.into()
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (&known, rest) = bytes.split_first()?;
        let known = [Known::Itself, Known::Native].into_iter().find(|it| *it as u8 == known)?;
        let (length, rest) = rest.split_first_chunk()?;
        let (name, secret) = rest.split_at_checked(u16::from_le_bytes(*length).into())?;
        let name = UserName::of_account(std::str::from_utf8(name).ok()?);
        Some(Self { name, known, secret: secret.into() })
    }
}

impl Bequeathed {
    fn lock(&self) -> MutexGuard<'_, HashMap<UserName, (Known, Secret)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, Bequest { name, known, secret }: Bequest) {
        let mut all = self.lock();
        if all.len() < USERS_MAX {
            all.insert(name, (known, secret));
        }
    }

    /// Nothing more is asked for.
    pub(crate) fn forget(&self) {
        self.lock().clear();
    }

    fn get(&self, name: &UserName) -> Option<(Known, Secret)> {
        self.lock().get(name).cloned()
    }

    /// The password of this name, if it was said itself.
    pub(crate) fn password(&self, name: &UserName) -> Option<Secret> {
        self.get(name).filter(|(known, _)| *known == Known::Itself).map(|(_, secret)| secret)
    }

    /// Gives a user of which the hash is known what fits it. Whether a backend can log in for it now.
    pub(crate) async fn give(&self, name: &UserName, user: &User) -> bool {
        match self.get(name) {
            Some((Known::Itself, password)) => user.check_itself(password).await,
            Some((Known::Native, hash)) => user.take_native(&hash),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::auth::native::NativeStage1;
    use wire::auth::{Nonce, Plugin};

    use super::*;

    fn name() -> UserName {
        UserName::of_account("app")
    }

    /// A user whose password is `x`, of which the hash is known.
    fn by_hash() -> User {
        User::with_native_hash(NativeStage1::of(b"x").stored())
    }

    /// Gives what `from` knows to `to`, as two processes do.
    fn pass(from: &User, to: &User) -> bool {
        let Some(told) = Bequest::of(&name(), from) else { return false };
        let bequeathed = Bequeathed::default();
        bequeathed.add(Bequest::read(told.written().as_bytes()).expect("it was written so"));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(bequeathed.give(&name(), to))
    }

    #[test]
    fn what_a_client_has_proved_goes_over() {
        let (old, new) = (by_hash(), by_hash());
        assert!(!pass(&old, &new), "no client has proved anything yet");
        let nonce = Nonce::from_random([7; Nonce::LEN]);
        let answer = Plugin::NativePassword.respond(&"x".into(), &nonce).expect("an answer");
        old.check(&Plugin::NativePassword, &nonce, &answer);
        assert!(pass(&old, &new) && new.credential().is_some());
        let other = User::with_native_hash(NativeStage1::of(b"y").stored());
        assert!(!pass(&old, &other) && other.credential().is_none(), "the password is another one");
    }

    #[test]
    fn what_the_configuration_tells_is_not_told() {
        let user = User::with_password("x".into(), Plugin::NativePassword);
        assert!(Bequest::of(&name(), &user).is_none());
    }

    #[test]
    fn what_is_no_bequest_is_not_read() {
        for bytes in [&b""[..], b"\x01", b"\x01\x05\x00app", b"\x03\x01\x00ax"] {
            assert!(Bequest::read(bytes).is_none(), "{bytes:?}");
        }
        let long = Secret::from("more than twenty bytes of it");
        assert!(!by_hash().take_native(&long));
    }
}
