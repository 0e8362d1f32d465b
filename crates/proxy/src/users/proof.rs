//! What is known of a user's password, or of its passwords: a server may take several of one account, each as good as
//! the others (`RETAIN CURRENT PASSWORD`, `VIA … OR …`), and the configuration may name two.
//!
//! Owns the comparison with what a client proves, and what a backend logs in with. Invariants: what a client gives away
//! by its proof is in memory only; a slow hash is computed in another thread, and one of a user's at a time; a client of
//! `caching_sha2_password` whose answer does not fit is asked for the password itself, as servers do.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use backend::login::Credential;
use wire::auth::{Nonce, Plugin, Secret, caching_sha2, certificate, native, sha_crypt};

use crate::config::Password;
use crate::worker::tasks;

/// What a client's answer tells of its password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Right,
    Wrong,
    /// Only the password itself does.
    Unknown,
}

impl Verdict {
    const fn of(is_right: bool) -> Self {
        if is_right { Self::Right } else { Self::Wrong }
    }
}

/// What the server's table of accounts tells of a user's passwords.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Passwords {
    /// Any of them is right.
    pub(crate) known: Vec<Password>,
    /// The account may be logged in to by other methods as well, which the server alone can check.
    pub(crate) has_others: bool,
}

impl From<Password> for Passwords {
    fn from(password: Password) -> Self {
        Self { known: vec![password], has_others: false }
    }
}

/// All that is known of a user's passwords.
#[derive(Clone, Debug)]
pub(super) struct Proofs {
    all: Vec<Arc<Proof>>,
    pub(super) has_others: bool,
    former: Arc<Former>,
}

/// Passwords that clients have proved of hashes that are gone. A server that is given the same password once more stores
/// another hash of it, and clients that are connected must not notice.
#[derive(Debug, Default)]
struct Former {
    passwords: Mutex<Vec<Secret>>,
    /// Held while they are compared with what is stored now.
    comparing: tokio::sync::Mutex<()>,
}

impl Former {
    /// More are not kept: as many as an account has passwords.
    const MAX: usize = 2;

    fn passwords(&self) -> MutexGuard<'_, Vec<Secret>> {
        self.passwords.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is known of one password.
#[derive(Debug)]
struct Proof {
    known: Known,
    /// The server has refused it: backends log in with another one first.
    is_refused: AtomicBool,
}

#[derive(Debug)]
enum Known {
    Password(Secret),
    /// Only the server's hash of the password is known. A client that proves the password gives away what a backend
    /// needs for the same proof; it is kept in memory only.
    Native {
        stored: native::NativeStored,
        learnt: Mutex<Option<native::NativeStage1>>,
    },
    /// The same, but nothing less than the password does for either; it too is kept in memory only.
    CachingSha2 {
        stored: sha_crypt::CryptStored,
        learnt: OnceLock<Secret>,
        /// Held by the login that checks a password. One at a time: a check costs milliseconds of a core, any client
        /// can ask for one, and a login that waited finds the password learnt.
        checking: tokio::sync::Mutex<()>,
    },
}

impl Proof {
    fn of(password: &Password) -> Self {
        Self { known: Known::of(password), is_refused: AtomicBool::new(false) }
    }
}

impl Known {
    fn of(password: &Password) -> Self {
        match password {
            Password::Plain(password) => Self::Password(password.clone()),
            Password::Native(stored) => {
                Self::Native { stored: stored.clone(), learnt: Mutex::new(None) }
            }
            Password::CachingSha2(stored) => Self::CachingSha2 {
                stored: stored.clone(),
                learnt: OnceLock::new(),
                checking: tokio::sync::Mutex::default(),
            },
        }
    }

    fn is_of(&self, password: &Password) -> bool {
        match (self, password) {
            (Self::Password(known), Password::Plain(password)) => known == password,
            (Self::Native { stored: known, .. }, Password::Native(stored)) => known == stored,
            (Self::CachingSha2 { stored: known, .. }, Password::CachingSha2(stored)) => {
                known == stored
            }
            _ => false,
        }
    }

    /// What it was made of.
    fn password(&self) -> Password {
        match self {
            Self::Password(password) => Password::Plain(password.clone()),
            Self::Native { stored, .. } => Password::Native(stored.clone()),
            Self::CachingSha2 { stored, .. } => Password::CachingSha2(stored.clone()),
        }
    }

    const fn plugin(&self) -> Option<Plugin> {
        match self {
            Self::Password(_) => None,
            Self::Native { .. } => Some(Plugin::NativePassword),
            Self::CachingSha2 { .. } => Some(Plugin::CachingSha2),
        }
    }

    fn can_check(&self, plugin: &Plugin) -> bool {
        match self.plugin() {
            Some(own) => *plugin == own,
            None => matches!(plugin, Plugin::NativePassword | Plugin::CachingSha2),
        }
    }

    /// Checks an answer by a plugin that it can check.
    fn check(&self, plugin: &Plugin, nonce: &Nonce, response: &[u8]) -> Verdict {
        match self {
            Self::Password(password) => check(password, plugin, nonce, response),
            Self::Native { stored, learnt } => match stored.check(nonce, response) {
                Some(stage1) => {
                    *learnt.lock().unwrap_or_else(PoisonError::into_inner) = Some(stage1);
                    Verdict::Right
                }
                None => Verdict::Wrong,
            },
            Self::CachingSha2 { learnt, .. } => match learnt.get() {
                Some(password) => check(password, plugin, nonce, response),
                // An empty answer proves an empty password, and no hash like this one is of an empty password.
                None => unless_itself(response),
            },
        }
    }

    async fn check_itself(&self, password: &Secret) -> bool {
        let (stored, learnt, checking) = match self {
            Self::CachingSha2 { stored, learnt, checking } => (stored, learnt, checking),
            Self::Password(known) => return known == password,
            // No client is asked for the password itself: its answer tells all.
            Self::Native { .. } => return false,
        };
        let _alone = checking.lock().await;
        if let Some(learnt) = learnt.get() {
            return learnt == password;
        }
        let (stored, password) = (stored.clone(), password.clone());
        // It takes longer than a iteration of the loop may.
        let check = move || stored.check(password.as_bytes()).then_some(password);
        match tasks::apart(check).await {
            Ok(Some(password)) => learnt.set(password).is_ok(),
            Ok(None) | Err(_) => false,
        }
    }

    /// The password itself, where a client has proved it of a hash.
    fn learnt_itself(&self) -> Option<Secret> {
        match self {
            Self::CachingSha2 { learnt, .. } => learnt.get().cloned(),
            Self::Password(_) | Self::Native { .. } => None,
        }
    }

    fn credential(&self) -> Option<Credential> {
        match self {
            Self::Password(password) => Some(Credential::Password(password.clone())),
            Self::Native { learnt, .. } => {
                let learnt = learnt.lock().unwrap_or_else(PoisonError::into_inner);
                learnt.clone().map(Credential::Native)
            }
            Self::CachingSha2 { .. } => self.learnt_itself().map(Credential::Password),
        }
    }

    /// What the server stores for `mysql_native_password`, if this answer proves it.
    fn native_proved_by(&self, nonce: &Nonce, answer: &[u8]) -> Option<native::NativeStored> {
        let stored = match self {
            Self::Password(password) if password.is_empty() => return None,
            Self::Password(password) => native::NativeStage1::of(password.as_bytes()).stored(),
            Self::Native { stored, .. } => stored.clone(),
            Self::CachingSha2 { .. } => return None,
        };
        stored.check(nonce, answer).map(|_| stored)
    }
}

impl Proofs {
    pub(super) fn of(passwords: &Passwords) -> Self {
        let all = passwords.known.iter().map(|password| Arc::new(Proof::of(password))).collect();
        Self { all, has_others: passwords.has_others, former: Arc::default() }
    }

    /// These, with what clients have proved of those that were known before.
    pub(super) fn succeeding(self, old: &Self) -> Self {
        let known = |proof: Arc<Proof>| {
            let password = proof.known.password();
            let same = old.all.iter().find(|it| it.known.is_of(&password)).cloned();
            same.unwrap_or(proof)
        };
        let all: Vec<_> = self.all.into_iter().map(known).collect();
        let is_gone = |proof: &&Arc<Proof>| !all.iter().any(|it| Arc::ptr_eq(it, proof));
        let gone = old.all.iter().filter(is_gone).filter_map(|it| it.known.learnt_itself());
        let mut former: Vec<_> = gone.chain(old.former.passwords().iter().cloned()).collect();
        former.truncate(Former::MAX);
        let former = Former { passwords: Mutex::new(former), ..Former::default() };
        Self { all, former: Arc::new(former), ..self }
    }

    /// Whether one of the passwords that were proved before is that of a hash that is stored now. They are compared once.
    pub(super) async fn recall(&self) -> bool {
        let _alone = self.former.comparing.lock().await;
        let former = self.former.passwords().clone();
        let mut is_known = self.credential(&[]).is_some();
        for password in former {
            is_known = is_known || self.check_itself(&password).await;
        }
        self.former.passwords().clear();
        is_known
    }

    pub(super) fn is_of(&self, passwords: &Passwords) -> bool {
        self.has_others == passwords.has_others
            && self.all.len() == passwords.known.len()
            && self
                .all
                .iter()
                .zip(&passwords.known)
                .all(|(own, password)| own.known.is_of(password))
    }

    pub(super) fn is_same(&self, other: &Self) -> bool {
        let known = other.all.iter().map(|it| it.known.password()).collect();
        self.is_of(&Passwords { known, has_others: other.has_others })
    }

    /// Whether this is one of them, where that is known itself.
    pub(super) fn is_password(&self, password: &Secret) -> bool {
        self.known().any(|it| matches!(it, Known::Password(known) if known == password))
    }

    /// The plugin of the hash that is known of the first; `None`: the password itself is known.
    pub(super) fn plugin_of_hash(&self) -> Option<Plugin> {
        self.known().next().and_then(Known::plugin)
    }

    pub(super) fn can_check(&self, plugin: &Plugin) -> bool {
        self.known().any(|it| it.can_check(plugin))
    }

    pub(super) fn check(&self, plugin: &Plugin, nonce: &Nonce, response: &[u8]) -> Verdict {
        let of_plugin = self.known().filter(|it| it.can_check(plugin));
        of_plugin.fold(Verdict::Wrong, |verdict, it| match verdict {
            Verdict::Right => Verdict::Right,
            Verdict::Wrong | Verdict::Unknown => match it.check(plugin, nonce, response) {
                Verdict::Wrong => verdict,
                other => other,
            },
        })
    }

    /// Checks the password itself.
    pub(super) async fn check_itself(&self, password: &Secret) -> bool {
        for proof in self.known() {
            if proof.check_itself(password).await {
                return true;
            }
        }
        false
    }

    /// What a backend logs in with, but for what has been tried: of several, first what the server has not refused.
    pub(super) fn credential(&self, tried: &[Credential]) -> Option<Credential> {
        let known = |is_refused| {
            let of = self.all.iter().filter(move |it| it.is_refused.load(Relaxed) == is_refused);
            of.filter_map(|it| it.known.credential())
        };
        known(false).chain(known(true)).find(|it| !tried.contains(it))
    }

    /// The server has taken or refused this.
    pub(super) fn see_refused(&self, credential: &Credential, is_refused: bool) {
        let of = self.all.iter().filter(|it| it.known.credential().as_ref() == Some(credential));
        of.for_each(|it| it.is_refused.store(is_refused, Relaxed));
    }

    fn known(&self) -> impl Iterator<Item = &Known> {
        self.all.iter().map(|it| &it.known)
    }

    /// What lets the server's part of a login vouch for a certificate, if a client has proved it by this answer.
    pub(super) fn proved_by(
        &self,
        plugin: &Plugin,
        nonce: &Nonce,
        answer: &[u8],
    ) -> Option<certificate::Stored> {
        if *plugin != Plugin::NativePassword {
            return None;
        }
        let stored = self.known().find_map(|it| it.native_proved_by(nonce, answer));
        stored.map(certificate::Stored::Native)
    }

    /// Takes a hash that a client has given away to the Flifo before, if it is that of a password.
    pub(super) fn take_native(&self, hash: &Secret) -> bool {
        let Some(stage1) = native::NativeStage1::from_bytes(hash.as_bytes()) else { return false };
        let fit = self.known().find_map(|it| match it {
            Known::Native { stored, learnt } => (stage1.stored() == *stored).then_some(learnt),
            Known::Password(_) | Known::CachingSha2 { .. } => None,
        });
        let Some(learnt) = fit else { return false };
        *learnt.lock().unwrap_or_else(PoisonError::into_inner) = Some(stage1);
        true
    }
}

/// Checks an answer against the password.
fn check(password: &Secret, plugin: &Plugin, nonce: &Nonce, response: &[u8]) -> Verdict {
    // An empty password is answered with nothing, and only that.
    if password.is_empty() {
        return Verdict::of(response.is_empty());
    }
    let want = plugin.respond(password, nonce);
    match want.is_some_and(|want| Secret::from(want) == Secret::from(response)) {
        true => Verdict::Right,
        false if *plugin == Plugin::CachingSha2 => unless_itself(response),
        false => Verdict::Wrong,
    }
}

/// An answer of caching_sha2_password that does not fit: servers ask the client for the password itself.
const fn unless_itself(response: &[u8]) -> Verdict {
    match response.len() {
        caching_sha2::RESPONSE_LEN => Verdict::Unknown,
        _ => Verdict::Wrong,
    }
}
