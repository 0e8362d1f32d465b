//! Users whose password a client has said in a login that was passed through, and that neither the configuration nor
//! the server's table of accounts names; and how far each password is believed.
//!
//! [`crate::frontend::learnt`] decides when a user is learnt, confirmed and forgotten. Invariant: users are bounded in
//! number, and a password is wiped when its user is removed.

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use wire::auth::Secret;

use crate::users::User;

/// Users by their names.
#[derive(Debug, Default)]
pub(crate) struct Learnt {
    users: RwLock<HashMap<UserName, Arc<User>>>,
    /// How many they are: to be read without waiting for the lock.
    count: AtomicUsize,
    eras: AtomicU32,
}

/// How far a learnt password is believed.
#[derive(Debug)]
pub(crate) struct Trust {
    pub(crate) era: u32,
    pub(crate) belief: Mutex<Belief>,
    /// Held by the login that asks the server.
    pub(crate) asking: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Belief {
    /// The server has taken the password from Flifo itself, and has refused it never since.
    pub(crate) is_confirmed: bool,
    /// Not to be asked again before.
    pub(crate) until: Option<Instant>,
    /// When it was asked last.
    pub(crate) asked: Option<Instant>,
}

/// So many are kept.
pub(crate) const USERS_MAX: usize = 1000;

impl Trust {
    fn new(era: u32) -> Self {
        Self { era, belief: Mutex::default(), asking: tokio::sync::Mutex::default() }
    }

    pub(crate) const fn era(&self) -> u32 {
        self.era
    }

    fn lock(&self) -> MutexGuard<'_, Belief> {
        self.belief.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn belief(&self) -> Belief {
        *self.lock()
    }

    pub(crate) fn is_believed(&self) -> bool {
        let Belief { is_confirmed, until, .. } = self.belief();
        is_confirmed && until.is_some_and(|until| crate::worker::clock::read() < until)
    }

    /// The server has taken the password. True: for the first time.
    pub(crate) fn confirm(&self, period: Duration) -> bool {
        let now = crate::worker::clock::read();
        let (until, asked) = (now.checked_add(period), Some(now));
        let belief = Belief { is_confirmed: true, until, asked };
        !std::mem::replace(&mut *self.lock(), belief).is_confirmed
    }

    /// The server has said nothing.
    pub(crate) fn postpone(&self) {
        let (now, mut belief) = (crate::worker::clock::read(), self.lock());
        (belief.until, belief.asked) = (now.checked_add(SOON), Some(now));
    }
}

impl Learnt {
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
    }

    pub(crate) fn all(&self) -> Vec<(UserName, Arc<User>)> {
        let users = self.users.read().unwrap_or_else(PoisonError::into_inner);
        users.iter().map(|(name, user)| (name.clone(), Arc::clone(user))).collect()
    }

    pub(crate) fn get(&self, name: &UserName) -> Option<Arc<User>> {
        if self.is_empty() {
            return None;
        }
        self.users.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// The user of this name and password. `None`: another password is known of it, or there are too many.
    pub(crate) fn add(
        &self,
        name: &UserName,
        password: &Secret,
        make: impl FnOnce(Trust) -> User,
    ) -> Option<Arc<User>> {
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(user) = users.get(name) {
            return user.is_password(password).then(|| Arc::clone(user));
        }
        if users.len() >= USERS_MAX {
            // Users that no client has asked for in a period may not exist any more.
            let is_of_use =
                |user: &User| user.is_used() || user.trust().is_some_and(Trust::is_believed);
            users.extract_if(|_, user| !is_of_use(user)).for_each(|(_, user)| user.wipe());
        }
        let user = (users.len() < USERS_MAX).then(|| {
            let era = self.eras.fetch_add(1, Relaxed).wrapping_add(1);
            Arc::new(make(Trust::new(era)))
        });
        if let Some(user) = &user {
            users.insert(name.clone(), Arc::clone(user));
        }
        self.count.store(users.len(), Relaxed);
        user
    }

    /// Forgets this very user. False: it was forgotten before.
    pub(crate) fn remove(&self, name: &UserName, user: &Arc<User>) -> bool {
        let mut users = self.users.write().unwrap_or_else(PoisonError::into_inner);
        user.wipe();
        let is_there = users.get(name).is_some_and(|known| Arc::ptr_eq(known, user));
        if is_there {
            users.remove(name);
            self.count.store(users.len(), Relaxed);
        }
        is_there
    }
}

/// A server that did not answer is not asked again sooner, nor one that has answered, for a client's mistake.
pub(crate) const SOON: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use wire::auth::{Nonce, Plugin};

    use super::*;
    use crate::users::configured::Configured;
    use crate::users::{Users, Verdict};

    const PERIOD: Duration = Duration::from_secs(60);

    fn name(text: &str) -> UserName {
        UserName::of_account(text)
    }

    fn secret(text: &str) -> Secret {
        Secret::from(text)
    }

    fn trust(user: &User) -> &Trust {
        user.trust().expect("it is learnt")
    }

    #[test]
    fn who_is_learnt_again_is_another() {
        let users = Users::default();
        assert!(users.is_empty() && users.get(&name("app")).is_none());
        let first = users.learn(&name("app"), &secret("one")).unwrap();
        assert!(!users.is_empty() && Arc::ptr_eq(&users.get(&name("app")).unwrap(), &first));
        let same = users.learn(&name("app"), &secret("one")).unwrap();
        assert!(Arc::ptr_eq(&same, &first));
        assert!(
            users.learn(&name("app"), &secret("two")).is_none(),
            "who is right is the server's to say"
        );
        assert!(users.forget(&name("app"), &first) && !users.forget(&name("app"), &first));
        assert!(users.is_empty() && users.get(&name("app")).is_none());
        assert!(first.credential().is_none(), "it is wiped");
        let second = users.learn(&name("app"), &secret("two")).unwrap();
        assert_ne!(second.era(), first.era());
        assert!(!users.forget(&name("app"), &first), "not who has the name by now");
        assert!(second.credential().is_some() && second.is_password(&secret("two")));
    }

    #[test]
    fn who_is_configured_is_not_learnt() {
        let text = "[[users]]\nname = 'known'\npassword = 'x'\n\
                    [[users]]\nname = 'pass_through'\nmode = 'pass-through'\n";
        let (plan, _) = crate::config::parse(text, "test").expect("a good file");
        let users = Users::new(Configured::of(&plan));
        for name in [&name("known"), &name("pass_through")] {
            assert!(users.is_configured(name) && users.learn(name, &secret("y")).is_none());
        }
        assert!(
            !users.is_configured(&name("other"))
                && users.learn(&name("other"), &secret("y")).is_some()
        );
        assert_eq!(users.get(&name("known")).unwrap().era(), 0);
    }

    #[test]
    fn there_is_an_end_to_users_and_who_is_not_used_makes_room() {
        let learnt = Learnt::default();
        let add = |name: &UserName| {
            learnt.add(name, &secret("x"), |trust| User::learnt(secret("x"), trust))
        };
        let numbered = |number: usize| name(&format!("user{number}"));
        let all: Vec<_> = (0..USERS_MAX).map(|it| add(&numbered(it)).unwrap()).collect();
        assert!(all.iter().all(|user| trust(user).confirm(PERIOD)));
        assert!(add(&name("one more")).is_none());
        // One is not believed any more and has clients, another one has none.
        for user in &all[7..9] {
            trust(user).confirm(Duration::ZERO);
        }
        assert!(all[7].clients.try_take());
        let more = add(&name("one more")).unwrap();
        assert!(trust(&more).confirm(PERIOD));
        assert!(learnt.get(&numbered(7)).is_some() && learnt.get(&numbered(8)).is_none());
        assert!(all[7].credential().is_some() && all[8].credential().is_none());
        assert!(add(&name("two more")).is_none());
    }

    #[test]
    fn another_password_than_the_learnt_one_is_the_servers_to_judge() {
        let users = Users::default();
        let user = users.learn(&name("app"), &secret("one")).unwrap();
        let nonce = Nonce::from_random([7; Nonce::LEN]);
        let check = |password: &str| {
            let answer = Plugin::CachingSha2.respond(&password.into(), &nonce).unwrap();
            user.check(&Plugin::CachingSha2, &nonce, &answer)
        };
        assert_eq!((check("one"), check("two")), (Verdict::Right, Verdict::Unknown));
        assert_eq!(check(""), Verdict::Wrong);
        assert!(!user.can_check(&Plugin::NativePassword) && user.plugin() == Plugin::CachingSha2);
        users.forget(&name("app"), &user);
        assert_eq!((check("one"), check("")), (Verdict::Unknown, Verdict::Wrong));
    }

    #[test]
    fn a_password_is_believed_for_a_period() {
        let trust = Trust::new(1);
        assert!(!trust.is_believed(), "not before the server has taken it");
        trust.postpone();
        assert!(!trust.is_believed());
        assert!(trust.confirm(PERIOD) && !trust.confirm(PERIOD), "told once");
        assert!(trust.is_believed());
        trust.confirm(Duration::ZERO);
        assert!(!trust.is_believed());
        // A server that cannot be asked makes nothing forgotten.
        trust.postpone();
        assert!(trust.is_believed());
    }

    #[test]
    fn what_is_learnt_does_not_show() {
        let users = Users::default();
        let user = users.learn(&name("app"), &secret("correct horse")).unwrap();
        let shown = format!("{user:?} {users:?}");
        assert!(!shown.contains("correct") && !shown.contains("99, 111, 114"), "{shown}");
    }
}
