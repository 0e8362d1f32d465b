//! Users: those whose passwords Flifo knows, from its configuration, from the server ([`crate::frontend::accounts`]) or
//! from a client ([`crate::frontend::learnt`]), and those whose clients are passed through because the configuration
//! says so. Checks what a client proves, gives what a backend needs to log in, and counts the clients and backends of
//! each user.

pub(crate) mod accounts;
pub(crate) mod bequeathed;
pub(crate) mod by_cluster;
pub(crate) mod configured;
pub(crate) mod given;
pub(crate) mod learnt;
pub(crate) mod logins;
pub(crate) mod proof;
pub(crate) mod rights;
pub(crate) mod rsa;
pub(crate) mod sight;
pub(crate) mod standing;
pub(crate) mod table;
pub(crate) mod tls;

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use backend::login::{Credential, LoginError};
use engine::account::name::UserName;
use engine::sharing::ShareReads;
#[cfg(test)]
use wire::auth::native;
use wire::auth::{Nonce, Plugin, Secret, certificate};

use crate::cluster::dial::NoBackend;
use crate::config::{Password, Pins, Unseen};
use crate::users::by_cluster::ByCluster;
use crate::users::configured::Configured;
use crate::users::learnt::{Learnt, Trust};
use crate::users::proof::{Passwords, Proofs};
use crate::users::rights::OfOne;
use crate::users::sight::Sight;
use crate::users::standing::AccountStanding;

pub(crate) use crate::users::proof::Verdict;

/// All users that Flifo knows or is to carry, by their names.
#[derive(Debug, Default)]
pub(crate) struct Users {
    configured: RwLock<Arc<Configured>>,
    /// Users that the server's table of accounts has told of. None is ever removed: its clients may still be there.
    found: RwLock<HashMap<UserName, Arc<User>>>,
    /// Some of them are withdrawn.
    has_withdrawn: AtomicBool,
    /// Users whose password a client has said, and that neither the configuration nor the table names.
    learnt: Learnt,
}

/// One user whose clients are pooled.
#[derive(Debug)]
pub(crate) struct User {
    /// What is known of its passwords. `None`: nothing any more.
    proof: Mutex<Option<Arc<Proofs>>>,
    /// Grows with each change of that.
    generation: AtomicU32,
    /// What Flifo asks clients to prove the password with, if the proof allows a choice.
    plugin: Plugin,
    source: Source,
    /// Nothing tells of it any more: clients that it has end, and new ones are passed through.
    is_withdrawn: AtomicBool,
    /// Until then its clients are passed through: its server asks for a method that Flifo does not have.
    beyond_flifo: Mutex<Option<Instant>>,
    pub(crate) standing: Arc<ByCluster<AccountStanding>>,
    pub(crate) rights: Arc<OfOne>,
    pub(crate) clients: Arc<Cap>,
    pub(crate) backends: Arc<Cap>,
    /// A client waits for a backend, and none of these backends is free for it: the next one that is free is closed.
    pub(crate) backend_wanted: Arc<AtomicBool>,
    pub(crate) routines: Unseen,
    pub(crate) triggers: Unseen,
    pub(crate) pins: Pins,
    pub(crate) share_reads: ShareReads,
    /// What it sees of a cluster's definitions.
    pub(crate) sight: Arc<ByCluster<Sight>>,
}

/// Where the password comes from.
#[derive(Debug)]
enum Source {
    Configuration,
    /// The server's table of accounts.
    Table,
    /// A client, in a login that was passed through.
    Client(Trust),
}

/// A number that a user may have at once, over all workers.
#[derive(Debug)]
pub(crate) struct Cap {
    /// [`NO_BOUND`]: any number.
    max: AtomicU32,
    /// The configuration does not ask for it: it is what the user leaves to others.
    is_share: AtomicBool,
    used: AtomicU32,
}

const NO_BOUND: u32 = u32::MAX;

/// More passwords are not tried for one login: the server may count what it refuses.
const ATTEMPTS_MAX: usize = 3;

/// An account whose method Flifo does not have is not tried again sooner.
const BEYOND: Duration = Duration::from_mins(1);

impl Default for Cap {
    fn default() -> Self {
        Self::new(None)
    }
}

impl Cap {
    pub(crate) fn new(max: Option<u32>) -> Self {
        let max = AtomicU32::new(max.unwrap_or(NO_BOUND));
        Self { max, is_share: AtomicBool::new(false), used: AtomicU32::new(0) }
    }

    /// Bounds it anew. What is more than that stays.
    fn bound(&self, max: Option<u32>) {
        self.max.store(max.unwrap_or(NO_BOUND), Relaxed);
        self.is_share.store(false, Relaxed);
    }

    /// The same bound as this one has.
    fn bound_as(&self, other: &Self) {
        self.bound(other.max());
        self.is_share.store(other.is_share.load(Relaxed), Relaxed);
    }

    /// So many unless the configuration says how many.
    fn or_share(&self, share: Option<u32>) {
        if self.max().is_none() {
            self.bound(share);
            self.is_share.store(true, Relaxed);
        }
    }

    /// Counts one more. False: there are as many as there may be.
    pub(crate) fn try_take(&self) -> bool {
        let one_more = |used: u32| self.max().is_none_or(|max| used < max).then_some(used + 1);
        self.used.fetch_update(Relaxed, Relaxed, one_more).is_ok()
    }

    /// Counts one more, beyond the bound if need be.
    pub(crate) fn force(&self) {
        self.used.fetch_add(1, Relaxed);
    }

    /// Counts one more for as long as the answer lives, or for good if it is kept.
    pub(crate) fn reserve(self: &Arc<Self>) -> Option<ReservedPlace> {
        // Not `then_some`: a reservation that is made and dropped gives back what was never taken.
        self.try_take().then(|| ReservedPlace { cap: Some(Arc::clone(self)) })
    }

    pub(crate) fn give_back(&self) {
        self.used.fetch_sub(1, Relaxed);
    }

    pub(crate) fn is_full(&self) -> bool {
        self.max().is_some_and(|max| self.used.load(Relaxed) >= max)
    }

    pub(crate) fn max(&self) -> Option<u32> {
        Some(self.max.load(Relaxed)).filter(|max| *max != NO_BOUND)
    }

    pub(crate) fn used(&self) -> u32 {
        self.used.load(Relaxed)
    }

    fn is_used(&self) -> bool {
        self.used() > 0
    }
}

/// One that is counted already; dropped, it is given back.
#[derive(Debug)]
pub(crate) struct ReservedPlace {
    cap: Option<Arc<Cap>>,
}

impl ReservedPlace {
    /// It is given back by hand.
    pub(crate) fn keep(mut self) {
        self.cap = None;
    }
}

impl Drop for ReservedPlace {
    fn drop(&mut self) {
        self.cap.iter().for_each(|cap| cap.give_back());
    }
}

impl User {
    pub(crate) fn with_password(password: Secret, plugin: Plugin) -> Self {
        Self::known(&Password::Plain(password).into(), plugin)
    }

    #[cfg(test)]
    pub(crate) fn with_native_hash(stored: native::NativeStored) -> Self {
        Self::known(&Password::Native(stored).into(), Plugin::NativePassword)
    }

    /// A user with any of these passwords. The plugin is what clients are asked for, if the passwords allow a choice.
    pub(crate) fn known(passwords: &Passwords, plugin: Plugin) -> Self {
        Self::new(Proofs::of(passwords), plugin)
    }

    fn new(proof: Proofs, plugin: Plugin) -> Self {
        Self {
            proof: Mutex::new(Some(Arc::new(proof))),
            generation: AtomicU32::new(0),
            plugin,
            source: Source::Configuration,
            is_withdrawn: AtomicBool::new(false),
            beyond_flifo: Mutex::default(),
            standing: Arc::default(),
            rights: Arc::default(),
            clients: Arc::default(),
            backends: Arc::default(),
            backend_wanted: Arc::default(),
            routines: Unseen::Pin,
            triggers: Unseen::Read,
            pins: Pins::default(),
            share_reads: ShareReads::default(),
            sight: Arc::default(),
        }
    }

    /// Bounds how many clients and backends the user may have at once.
    pub(crate) fn bounded(self, clients_max: Option<u32>, connections_max: Option<u32>) -> Self {
        self.clients.bound(clients_max);
        self.backends.bound(connections_max);
        self
    }

    /// Says what its statements may do to backends.
    pub(crate) fn ruled(self, routines: Unseen, triggers: Unseen, pins: Pins) -> Self {
        Self { routines, triggers, pins, ..self }
    }

    /// Says whether its clients' identical reads that wait are run once.
    pub(crate) fn sharing_reads(self, share_reads: ShareReads) -> Self {
        Self { share_reads, ..self }
    }

    fn sharing(self, share: Option<u32>) -> Self {
        self.backends.or_share(share);
        self
    }

    /// The user of this name, as the configuration has it now: what is counted and known of it goes on.
    fn succeeding(self, old: &Arc<Self>) -> Arc<Self> {
        old.clients.bound_as(&self.clients);
        old.backends.bound_as(&self.backends);
        let changes = match (old.proof(), self.proof()) {
            (Some(was), Some(is)) => !was.is_same(&is),
            (was, is) => was.is_some() || is.is_some(),
        };
        let rules = |user: &Self| (user.routines, user.triggers, user.pins, user.share_reads);
        if !changes && self.plugin == old.plugin && rules(&self) == rules(old) {
            return Arc::clone(old);
        }
        // With an unchanged one goes what a client has proved.
        let proof = match (self.proof(), old.proof()) {
            (Some(is), Some(was)) if changes => {
                Some(Arc::new(is.as_ref().clone().succeeding(&was)))
            }
            (is, _) if changes => is,
            (_, was) => was,
        };
        Arc::new(Self {
            proof: Mutex::new(proof),
            generation: AtomicU32::new(old.generation() + u32::from(changes)),
            standing: Arc::clone(&old.standing),
            rights: Arc::clone(&old.rights),
            clients: Arc::clone(&old.clients),
            backends: Arc::clone(&old.backends),
            backend_wanted: Arc::clone(&old.backend_wanted),
            sight: Arc::clone(&old.sight),
            ..self
        })
    }

    /// A user of the server's table, with what is stored there.
    fn found(passwords: &Passwords) -> Self {
        Self { source: Source::Table, ..Self::known(passwords, Plugin::NativePassword) }
    }

    /// A login as this user has failed like this. Where the server asks for a method that Flifo does not have, its clients
    /// are passed through for a while, and then it is tried again.
    pub(crate) fn see_failure(&self, name: &UserName, error: &NoBackend) {
        let NoBackend::Login(LoginError::Plugin(plugin)) = error else { return };
        let mut until = self.beyond_flifo.lock().unwrap_or_else(PoisonError::into_inner);
        if until.is_none() {
            tracing::warn!(
                user = %name,
                %plugin,
                "clients of this user are passed through: its server asks for a method of logging in that Flifo does not have"
            );
        }
        *until = Some(crate::worker::clock::read() + BEYOND);
    }

    pub(crate) fn is_beyond_flifo(&self) -> bool {
        let until = self.beyond_flifo.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| crate::worker::clock::read() < until)
    }

    pub(crate) const fn is_configured(&self) -> bool {
        matches!(self.source, Source::Configuration)
    }

    pub(crate) const fn is_found(&self) -> bool {
        matches!(self.source, Source::Table)
    }

    /// A user whose password a client has said to the server.
    pub(crate) fn learnt(password: Secret, trust: Trust) -> Self {
        let source = Source::Client(trust);
        Self { source, ..Self::with_password(password, Plugin::CachingSha2) }
    }

    /// How far its password is believed, if a client has said it.
    pub(crate) const fn trust(&self) -> Option<&Trust> {
        match &self.source {
            Source::Client(trust) => Some(trust),
            Source::Configuration | Source::Table => None,
        }
    }

    /// Tells it from other users of its name, before it and after, whose backends are not its own: a learnt user that
    /// is forgotten may have been dropped, and made anew with other rights.
    pub(crate) fn era(&self) -> u32 {
        self.trust().map_or(0, Trust::era)
    }

    /// Whether clients can be pooled as it.
    fn is_of_use(&self) -> bool {
        !self.is_withdrawn.load(Relaxed) && self.proof().is_some()
    }

    /// Its password is known no longer.
    pub(crate) fn wipe(&self) {
        self.renew(None);
    }

    /// Whether this is its password, where that is known itself.
    pub(crate) fn is_password(&self, password: &Secret) -> bool {
        self.proof().is_some_and(|proof| proof.is_password(password))
    }

    /// Whether clients or backends of it are there.
    pub(crate) fn is_used(&self) -> bool {
        self.clients.is_used() || self.backends.is_used()
    }

    /// Tells whether the password is still the same.
    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Relaxed)
    }

    /// The server stores this now; `None`: nothing that is of use.
    fn renew(&self, passwords: Option<&Passwords>) {
        let mut proof = self.proof.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = match (&*proof, passwords) {
            (Some(proof), Some(passwords)) => proof.is_of(passwords),
            (proof, passwords) => proof.is_none() && passwords.is_none(),
        };
        if !is_same {
            // What clients have proved of passwords that stay is known as before: those that are connected need it.
            *proof = passwords.map(|passwords| {
                let new = Proofs::of(passwords);
                Arc::new(match &*proof {
                    Some(old) => new.succeeding(old),
                    None => new,
                })
            });
            self.generation.fetch_add(1, Relaxed);
        }
    }

    fn proof(&self) -> Option<Arc<Proofs>> {
        self.proof.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn plugin(&self) -> Plugin {
        self.plugin_of_hash().unwrap_or_else(|| self.plugin.clone())
    }

    /// The plugin of the hash that is known of the password; `None`: the password itself is known, or nothing.
    pub(crate) fn plugin_of_hash(&self) -> Option<Plugin> {
        self.proof().and_then(|proof| proof.plugin_of_hash())
    }

    /// Whether its account may be logged in to by a method that the server alone can check: a client whose answer is not
    /// right may be right there.
    pub(crate) fn has_other_methods(&self) -> bool {
        self.proof().is_some_and(|proof| proof.has_others)
    }

    /// Whether an answer made by this plugin can be checked, whatever plugin was asked for.
    pub(crate) fn can_check(&self, plugin: &Plugin) -> bool {
        if self.trust().is_some() {
            // What the server would ask for.
            return *plugin == Plugin::CachingSha2;
        }
        match self.proof() {
            Some(proof) => proof.can_check(plugin),
            None => matches!(plugin, Plugin::NativePassword | Plugin::CachingSha2),
        }
    }

    /// Checks a client's answer.
    pub(crate) fn check(&self, plugin: &Plugin, nonce: &Nonce, response: &[u8]) -> Verdict {
        let verdict = self.proof().map_or(Verdict::Wrong, |it| it.check(plugin, nonce, response));
        match verdict {
            // It may have been changed on the server, which is asked, as by any client whose answer it does not know.
            Verdict::Wrong if self.trust().is_some() && !response.is_empty() => Verdict::Unknown,
            verdict => verdict,
        }
    }

    /// What vouches for a certificate to a client that has proved a password by this answer, as its server would do it.
    pub(crate) fn proved_by(
        &self,
        plugin: &Plugin,
        nonce: &Nonce,
        answer: &[u8],
    ) -> Option<certificate::Stored> {
        self.proof()?.proved_by(plugin, nonce, answer)
    }

    /// Checks the password itself, for which a client is asked whose answer tells nothing.
    pub(crate) async fn check_itself(&self, password: Secret) -> bool {
        match self.proof() {
            Some(proof) => proof.check_itself(&password).await,
            None => false,
        }
    }

    /// Takes a hash that a client has given away to the Flifo before, if it is that of the password.
    fn take_native(&self, hash: &Secret) -> bool {
        self.proof().is_some_and(|proof| proof.take_native(hash))
    }

    /// What a backend logs in with. `None` until a client has proved a password, where only its hash is known.
    pub(crate) fn credential(&self) -> Option<Credential> {
        self.proof()?.credential(&[])
    }

    /// Has a login attempted with what is known of the password. Where the server refuses that, with another one that is
    /// known, or that a client has proved meanwhile.
    pub(crate) async fn log_in<T>(
        &self,
        attempt: impl AsyncFn(&Credential) -> Result<T, NoBackend>,
    ) -> Result<T, NoBackend> {
        let (mut tried, mut refused) = (Vec::new(), None);
        if let Some(proof) = self.proof().filter(|proof| proof.credential(&[]).is_none()) {
            proof.recall().await;
        }
        while tried.len() < ATTEMPTS_MAX
            && let Some(credential) = self.proof().and_then(|proof| proof.credential(&tried))
        {
            let done = attempt(&credential).await;
            let is_refused = matches!(&done, Err(error) if error.is_wrong_password());
            if (is_refused || done.is_ok())
                && let Some(proof) = self.proof()
            {
                proof.see_refused(&credential, is_refused);
            }
            match done {
                Err(error) if is_refused => {
                    refused.get_or_insert(error);
                    tried.push(credential);
                }
                done => return done,
            }
        }
        Err(refused.unwrap_or(NoBackend::NoCredential))
    }
}

impl Users {
    pub(crate) fn forget_refused(&self, name: &UserName, user: &Arc<User>, why: &NoBackend) {
        let was_pooled = user.trust().is_some_and(|trust| trust.belief().is_confirmed);
        if self.forget(name, user) && was_pooled {
            tracing::info!(
                user = %name,
                %why,
                "clients of this user are passed through again: the server no longer accepts the \
                 password that one of them sent"
            );
        }
    }

    pub(crate) fn new(configured: Configured) -> Self {
        Self { configured: RwLock::new(Arc::new(configured)), ..Self::default() }
    }

    pub(crate) fn configured(&self) -> Arc<Configured> {
        Arc::clone(&self.configured.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The configuration names these from now on. The answer are those whose clients are pooled, and the names of
    /// those whose clients were, and that it names no longer.
    pub(crate) fn reconfigure(
        &self,
        new: Configured,
    ) -> (Vec<(UserName, Arc<User>)>, Vec<UserName>) {
        let mut configured = self.configured.write().unwrap_or_else(PoisonError::into_inner);
        let old = &**configured;
        let new = Arc::new(new.succeeding(old));
        let gone = old.known.keys().filter(|name| !new.has(name)).cloned().collect();
        let known = new.known.iter().map(|(name, user)| (name.clone(), Arc::clone(user))).collect();
        *configured = new;
        (known, gone)
    }

    /// A user whose clients are pooled.
    pub(crate) fn get(&self, name: &UserName) -> Option<Arc<User>> {
        if let Some(user) = self.configured().known.get(name) {
            return Some(Arc::clone(user));
        }
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        let found = found.get(name).filter(|user| user.is_of_use()).cloned();
        found.or_else(|| self.learnt.get(name))
    }

    /// All users whose clients are pooled.
    pub(crate) fn all(&self) -> Vec<(UserName, Arc<User>)> {
        let own = |(name, user): (&UserName, &Arc<User>)| (name.clone(), Arc::clone(user));
        let configured = self.configured();
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        let found: Vec<_> = found.iter().map(own).collect();
        let is_of_use = |(name, user): &(UserName, Arc<User>)| {
            user.is_of_use() && !configured.known.contains_key(name)
        };
        let others = found.into_iter().chain(self.learnt.all()).filter(is_of_use);
        configured.known.iter().map(own).chain(others).collect()
    }

    /// No table of accounts tells of users any more. The answer is the names of those that one has told of. What was
    /// known of their passwords stays for the clients that they have: see [`Self::wipe_withdrawn`].
    pub(crate) fn withdraw_found(&self) -> Vec<UserName> {
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        let known = found.iter().filter(|(_, user)| user.is_of_use());
        self.has_withdrawn.store(true, Relaxed);
        let withdraw = |(name, user): (&UserName, &Arc<User>)| {
            user.is_withdrawn.store(true, Relaxed);
            name.clone()
        };
        known.map(withdraw).collect()
    }

    /// Nothing is known any more of the passwords of users that no table tells of, when they have no clients.
    pub(crate) fn wipe_withdrawn(&self) {
        if !self.has_withdrawn.swap(false, Relaxed) {
            return;
        }
        let found = self.found.read().unwrap_or_else(PoisonError::into_inner);
        for user in found.values().filter(|user| user.is_withdrawn.load(Relaxed)) {
            if user.clients.is_used() {
                self.has_withdrawn.store(true, Relaxed);
            } else {
                user.wipe();
            }
        }
    }

    /// The user of this name whose backends may be there, though its clients may be passed through by now.
    pub(crate) fn named(&self, name: &UserName) -> Option<Arc<User>> {
        let found = || self.found.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned();
        let known = self.configured().known.get(name).cloned();
        known.or_else(found).or_else(|| self.learnt.get(name))
    }

    /// The user of this name and password, which a client has said to the server and the server has taken. `None`:
    /// it is known otherwise, or there are too many.
    pub(crate) fn learn(&self, name: &UserName, password: &Secret) -> Option<Arc<User>> {
        let share = self.configured().share;
        let user = |trust| User::learnt(password.clone(), trust).sharing(share);
        if self.is_configured(name) { None } else { self.learnt.add(name, password, user) }
    }

    /// Whether the configuration names the user, in either mode.
    pub(crate) fn is_configured(&self, name: &UserName) -> bool {
        self.configured().has(name)
    }

    /// The server does not take this user's password. False: that was known.
    pub(crate) fn forget(&self, name: &UserName, user: &Arc<User>) -> bool {
        self.learnt.remove(name, user)
    }

    /// The server's table of accounts names these, and no others.
    pub(crate) fn replace_found(&self, passwords: &HashMap<UserName, Passwords>) {
        let mut found = self.found.write().unwrap_or_else(PoisonError::into_inner);
        for (name, user) in &*found {
            user.renew(passwords.get(name));
            user.is_withdrawn.store(false, Relaxed);
        }
        let configured = self.configured();
        for (name, password) in passwords {
            if !found.contains_key(name) && !configured.has(name) {
                let user = User::found(password).sharing(configured.share);
                found.insert(name.clone(), Arc::new(user));
            }
        }
    }

    /// Whether the configuration has the clients of this user passed through.
    pub(crate) fn is_pass_through(&self, name: &UserName) -> bool {
        self.configured().pass_through.contains_key(name)
    }

    /// Counts one more pass-through client of a user for as long as the answer lives; or tells the bound that is
    /// reached. Each has one backend. They are of a user whose clients are pooled where they were passed through before
    /// they became this user.
    pub(crate) fn reserve_pass_through(
        &self,
        name: &UserName,
    ) -> Result<Vec<ReservedPlace>, Arc<Cap>> {
        let configured = self.configured();
        let known = configured.known.get(name);
        let known = known.into_iter().flat_map(|user| [&user.clients, &user.backends]);
        // Their backends are not among those that users share.
        let known = known.filter(|cap| !cap.is_share.load(Relaxed));
        let caps = configured.pass_through.get(name).into_iter().chain(known);
        caps.map(|cap| cap.reserve().ok_or_else(|| Arc::clone(cap))).collect()
    }

    /// Whether no clients are pooled, as far as is known now: another worker may be learning of one.
    pub(crate) fn is_empty(&self) -> bool {
        self.configured().known.is_empty() && self.learnt.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use wire::auth::sha_crypt;

    use super::*;

    #[test]
    fn each_of_several_passwords_is_right() {
        let stored = |text: &str| native::NativeStage1::of(text.as_bytes()).stored();
        let both = [Password::Native(stored("old")), Password::Native(stored("new"))];
        let passwords = |known: &[Password]| Passwords { known: known.to_vec(), has_others: false };
        let user = User::known(&passwords(&both), Plugin::NativePassword);
        let nonce = Nonce::from_random([7; Nonce::LEN]);
        let answer = |text: &str| Plugin::NativePassword.respond(&text.into(), &nonce).unwrap();
        let check = |text: &str| user.check(&Plugin::NativePassword, &nonce, &answer(text));
        assert_eq!((check("new"), check("guess")), (Verdict::Right, Verdict::Wrong));
        assert!(user.credential().is_some(), "the second is enough for a backend");
        assert_eq!((check("old"), check("new")), (Verdict::Right, Verdict::Right));
        let proved = |text: &str| user.proved_by(&Plugin::NativePassword, &nonce, &answer(text));
        assert_eq!(proved("new"), Some(certificate::Stored::Native(stored("new"))));
        assert_eq!(proved("old"), Some(certificate::Stored::Native(stored("old"))));
        assert_eq!(proved("guess"), None);
        let generation = user.generation();
        user.renew(Some(&passwords(&both)));
        assert_eq!(user.generation(), generation);
        user.renew(Some(&passwords(&both[1..])));
        assert_ne!(user.generation(), generation);
        assert_eq!((check("old"), check("new")), (Verdict::Wrong, Verdict::Right));
    }

    #[test]
    fn a_refused_login_is_attempted_with_another_password_that_is_known() {
        let stored = |text: &str| native::NativeStage1::of(text.as_bytes()).stored();
        let passwords = |all: &[&str]| Passwords {
            known: all.iter().map(|text| Password::Native(stored(text))).collect(),
            has_others: false,
        };
        let user = User::known(&passwords(&["old", "new"]), Plugin::NativePassword);
        let nonce = Nonce::from_random([7; Nonce::LEN]);
        let prove = |text: &str| {
            let answer = Plugin::NativePassword.respond(&text.into(), &nonce).unwrap();
            assert_eq!(user.check(&Plugin::NativePassword, &nonce, &answer), Verdict::Right);
        };
        prove("old");
        prove("new");
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        // What is tried until the server, which has this password alone, takes it.
        let log_in = |right: &str, meanwhile: &dyn Fn()| {
            let tried = std::cell::Cell::new(0);
            let attempt = async |credential: &Credential| {
                tried.set(tried.get() + 1);
                meanwhile();
                let right = Credential::Native(native::NativeStage1::of(right.as_bytes()));
                let (code, sqlstate) = (1045, "28000".to_owned());
                let refused = || LoginError::Refused { code, sqlstate, message: String::new() };
                (*credential == right).then_some(()).ok_or_else(|| refused().into())
            };
            let done = runtime.block_on(user.log_in(attempt));
            (tried.get(), done.map_err(|error| error.is_wrong_password()))
        };
        assert_eq!(log_in("new", &|| ()), (2, Ok(())));
        assert_eq!(log_in("new", &|| ()), (1, Ok(())), "what it has refused comes last");
        assert_eq!(log_in("none", &|| ()), (2, Err(true)));
        // A client proves another one while the first is on its way.
        let renew = || {
            user.renew(Some(&passwords(&["new", "newer"])));
            prove("newer");
        };
        assert_eq!(log_in("newer", &renew), (2, Ok(())));
        user.renew(Some(&passwords(&["newer", "newest"])));
        assert_eq!(log_in("newer", &|| ()), (1, Ok(())), "a client has proved it before");
    }

    #[test]
    fn the_same_password_under_another_hash_is_known_once_a_client_has_proved_it() {
        let stored = |text: &str, salt: u8| {
            let stored = sha_crypt::CryptStored::of(text.as_bytes(), [salt; 20]);
            Passwords { known: vec![Password::CachingSha2(stored)], has_others: false }
        };
        let user = User::known(&stored("secret", b'a'), Plugin::CachingSha2);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(user.check_itself("secret".into())));
        let right = Credential::Password("secret".into());
        let log_in = || {
            let attempt = async |credential: &Credential| {
                assert_eq!(*credential, right);
                Ok(())
            };
            runtime.block_on(user.log_in(attempt)).is_ok()
        };
        user.renew(Some(&stored("secret", b'b')));
        user.renew(Some(&stored("secret", b'c')));
        assert!(log_in(), "it is compared with what is stored now");
        user.renew(Some(&stored("another", b'd')));
        assert!(!log_in() && !log_in());
        user.renew(Some(&stored("secret", b'e')));
        assert!(!log_in(), "it is compared once");
    }

    #[test]
    fn a_wrong_scramble_of_caching_sha2_has_the_password_itself_asked_for() {
        let nonce = Nonce::from_random([7; Nonce::LEN]);
        let user = User::with_password("secret".into(), Plugin::CachingSha2);
        let check = |answer: &[u8]| user.check(&Plugin::CachingSha2, &nonce, answer);
        assert_eq!(check(&[1; 32]), Verdict::Unknown);
        assert_eq!((check(&[1; 31]), check(b"")), (Verdict::Wrong, Verdict::Wrong));
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let said = |password: &str| runtime.block_on(user.check_itself(password.into()));
        assert!(said("secret") && !said("guess") && !said(""));
        let empty = User::with_password("".into(), Plugin::CachingSha2);
        assert_eq!(empty.check(&Plugin::CachingSha2, &nonce, &[1; 32]), Verdict::Wrong);
    }

    #[test]
    fn a_hash_is_enough_once_a_client_has_proved_the_password() {
        let nonce = Nonce::from_random([7; Nonce::LEN]);
        let stored = native::NativeStage1::of(b"secret").stored();
        let user = User::with_native_hash(stored);
        let answer = |password: &str| {
            Plugin::NativePassword.respond(&Secret::from(password), &nonce).unwrap()
        };
        assert!(user.credential().is_none());
        let check = |answer: &[u8]| user.check(&Plugin::NativePassword, &nonce, answer);
        assert_eq!(check(&answer("guess")), Verdict::Wrong);
        assert_eq!(check(b""), Verdict::Wrong);
        assert!(user.credential().is_none());
        assert_eq!(check(&answer("secret")), Verdict::Right);
        assert!(matches!(user.credential(), Some(Credential::Native(_))));
    }

    #[test]
    fn the_slow_hash_is_computed_until_a_client_has_said_the_password() {
        // What a MySQL 8 stores for "foobar".
        let stored = b"$A$005$\x03\x1ai%\x1c4)\\K5\x16|\x7f\x1eZ{c\t\x13I\
            P9tbM4PKZBFy5HV3hhhoRHZsnJs3hxnBuuQlsDdiIe7";
        let stored = sha_crypt::CryptStored::parse(stored).unwrap();
        let user = User::known(&Password::CachingSha2(stored).into(), Plugin::CachingSha2);
        let nonce = Nonce::from_random([7; Nonce::LEN]);
        let check = |password: &str| {
            let answer = Plugin::CachingSha2.respond(&password.into(), &nonce).unwrap();
            user.check(&Plugin::CachingSha2, &nonce, &answer)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let said = |password: &str| runtime.block_on(user.check_itself(password.into()));
        assert!(!user.can_check(&Plugin::NativePassword));
        assert_eq!((check("foobar"), check("")), (Verdict::Unknown, Verdict::Wrong));
        assert!(!said("guess") && !said("") && user.credential().is_none());
        assert!(said("foobar") && !said("guess") && said("foobar"));
        // A server asks for the password itself, whatever does not fit; and so does Flifo.
        assert_eq!((check("foobar"), check("guess")), (Verdict::Right, Verdict::Unknown));
        assert_eq!(check(""), Verdict::Wrong);
        let Some(Credential::Password(learnt)) = user.credential() else { panic!("not learnt") };
        assert_eq!(learnt, "foobar".into());
    }

    #[test]
    fn what_the_server_stores_may_change() {
        let users = Users::default();
        let table = |password: &str| {
            let stored = native::NativeStage1::of(password.as_bytes()).stored();
            HashMap::from([(UserName::of_account("app"), Password::Native(stored).into())])
        };
        let nonce = Nonce::from_random([7; Nonce::LEN]);
        let check = |user: &User, password: &str| {
            let answer = Plugin::NativePassword.respond(&password.into(), &nonce).unwrap();
            user.check(&Plugin::NativePassword, &nonce, &answer)
        };
        let app = &UserName::of_account("app");
        assert!(users.get(app).is_none());
        users.replace_found(&table("one"));
        let user = users.get(app).unwrap();
        assert_eq!((check(&user, "one"), check(&user, "two")), (Verdict::Right, Verdict::Wrong));
        assert!(user.credential().is_some());
        let generation = user.generation();
        users.replace_found(&table("one"));
        assert!(user.generation() == generation && user.credential().is_some());
        users.replace_found(&table("two"));
        assert!(user.generation() != generation && user.credential().is_none());
        assert_eq!((check(&user, "one"), check(&user, "two")), (Verdict::Wrong, Verdict::Right));
        users.replace_found(&HashMap::new());
        assert!(users.get(app).is_none());
        assert_eq!(check(&user, "two"), Verdict::Wrong, "it was dropped");
        users.replace_found(&table("three"));
        assert!(Arc::ptr_eq(&users.get(app).unwrap(), &user), "its bounds still count");
    }

    #[test]
    fn a_withdrawn_user_lives_as_long_as_its_clients() {
        let users = Users::default();
        let app = &UserName::of_account("app");
        let table = HashMap::from([(app.clone(), Password::Plain("one".into()).into())]);
        users.replace_found(&table);
        let user = users.get(app).unwrap();
        assert!(user.clients.try_take());
        assert_eq!(users.withdraw_found(), std::slice::from_ref(app));
        assert!(
            users.get(app).is_none() && users.all().is_empty(),
            "new clients are passed through"
        );
        users.wipe_withdrawn();
        assert!(user.credential().is_some(), "its client may need another backend");
        user.clients.give_back();
        users.wipe_withdrawn();
        assert!(user.credential().is_none());
        users.replace_found(&table);
        assert!(Arc::ptr_eq(&users.get(app).unwrap(), &user) && user.credential().is_some());
    }

    #[test]
    fn a_user_that_is_named_again_has_the_clients_that_it_had() {
        let users = Users::default();
        let app = &UserName::of_account("app");
        let named = |text: &str| Configured::of(&crate::config::parse(text, "test").unwrap().0);
        let text = "[[users]]\nname = 'app'\npassword = 'x'\nclients_max = 1";
        users.reconfigure(named(text));
        let before = users.get(app).unwrap();
        assert!(before.clients.try_take());
        assert_eq!(users.reconfigure(named("")).1, std::slice::from_ref(app));
        users.reconfigure(named(""));
        users.reconfigure(named(text));
        let again = users.get(app).unwrap();
        assert!(again.clients.is_full(), "its client counts");
        before.clients.give_back();
        assert_eq!(again.clients.used(), 0);
    }

    #[test]
    fn a_cap_counts_what_is_there() {
        let cap = Arc::new(Cap::new(Some(2)));
        assert!(cap.try_take() && cap.try_take() && cap.is_full() && !cap.try_take());
        cap.give_back();
        assert!(!cap.is_full() && cap.try_take());
        assert!(Cap::new(None).try_take());
        // A refusal takes nothing and gives nothing back.
        assert!(cap.reserve().is_none() && cap.is_full());
        cap.give_back();
        let reserved = cap.reserve();
        assert!(reserved.is_some() && cap.is_full());
        drop(reserved);
        assert!(!cap.is_full());
    }

    #[test]
    fn passwords_are_checked_by_either_plugin() {
        let nonce = Nonce::from_random([7; Nonce::LEN]);
        let password = Secret::from("secret");
        let user = User::with_password(password.clone(), Plugin::NativePassword);
        for plugin in [Plugin::NativePassword, Plugin::CachingSha2] {
            let answer = plugin.respond(&password, &nonce).unwrap();
            assert!(user.can_check(&plugin));
            assert_eq!(user.check(&plugin, &nonce, &answer), Verdict::Right);
            assert_eq!(user.check(&plugin, &nonce, &answer[1..]), Verdict::Wrong);
        }
        let empty = User::with_password(Secret::from(""), Plugin::NativePassword);
        assert_eq!(empty.check(&Plugin::NativePassword, &nonce, b""), Verdict::Right);
        assert_eq!(empty.check(&Plugin::NativePassword, &nonce, b"x"), Verdict::Wrong);
    }
}
