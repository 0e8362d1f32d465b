//! Passwords that clients have said in logins that Flifo carried (`caching_sha2_password`, where the server asks for the
//! password itself), and that the server has taken: their users are pooled from then on, with nothing configured.
//!
//! Owns who is learnt and forgotten, and when the server is asked again: before the first client is pooled, once a
//! period (`server.accounts_period`), and when a client proves another password. It is asked by a login as the user, as
//! its links make it. What a client is asked is [`crate::arrive::prove`]'s, where passwords are heard
//! [`crate::arrive::carry`]'s.
//!
//! Invariants: what is learnt is in memory only, bounded in number, and wiped when it is forgotten; nobody is pooled by
//! a password that the server has not taken from Flifo itself, by a proof of it; a user that is learnt again shares
//! nothing with those of its name before; a server that cannot be reached makes nothing forgotten.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use link::Address;
use link::login::{Credential, LoginError};
use wire::Capabilities;
use wire::auth::Secret;

use crate::arrive::namesake;
use crate::arrive::users::User;
use crate::config::Plan;
use crate::fault::{Fault, Kind};
use crate::links::keys::KeyId;
use crate::links::opener::{self, NoLink};
use crate::road::route;
use crate::servers::ServerId;
use crate::worker::Worker;

/// Users by their names.
#[derive(Debug, Default)]
pub(crate) struct Learnt {
    users: RwLock<HashMap<UserName, Arc<User>>>,
    /// How many they are, for those who would have to wait to count them.
    count: AtomicUsize,
    eras: AtomicU32,
}

/// How far a learnt password is believed.
#[derive(Debug)]
pub(crate) struct Trust {
    era: u32,
    belief: Mutex<Belief>,
    /// Held by who asks the server.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Belief {
    /// The server has taken the password from Flifo itself, and has refused it never since.
    is_confirmed: bool,
    /// Not to be asked again before.
    until: Option<Instant>,
    /// When it was asked last.
    asked: Option<Instant>,
}

/// What the server says of a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Right,
    Wrong,
    /// It cannot be asked, or has no room for the question.
    None,
}

/// When the server is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// After a period.
    Due,
    /// Unless it was just now.
    Soon,
    Now,
}

/// So many are kept.
const USERS_MAX: usize = 1000;

/// A server that did not answer is not asked again sooner, nor one that has answered, for a client's mistake.
const SOON: Duration = Duration::from_secs(1);

/// The collation of the question, utf8mb4_general_ci. Names are ASCII.
const UTF8MB4: u8 = 45;

/// Whether a password may be learnt of this user.
///
/// Not where the server's table of accounts tells all passwords; nor where the server is shown the client's address,
/// and so may choose an account by it that is not the one that Flifo's own links get; nor of a name that says
/// something else in another character set; nor of the name as which the server might let Flifo in without a password.
pub(crate) fn may_learn(worker: &Worker, name: &UserName) -> bool {
    let is_plain = !name.is_empty() && name.is_ascii();
    let is_on_socket = |address: &Address| matches!(address, Address::Unix(_));
    let mut servers = worker.shared.servers.iter();
    is_on(&worker.plan)
        && is_plain
        && !worker.shared.users.is_configured(name)
        && !(namesake::is_own(name) && servers.any(|server| is_on_socket(&server.address)))
}

const fn is_on(plan: &Plan) -> bool {
    let server = &plan.server;
    server.learn_passwords && server.accounts_user.is_none() && !server.send_proxy
}

/// The server has taken this password from a client of a user of whom one may be learnt.
pub(crate) fn learn(worker: &Rc<Worker>, name: &UserName, password: &Secret) {
    if password.is_empty() {
        return;
    }
    let Some(user) = worker.shared.users.learn(name, password) else { return };
    let (worker, name) = (Rc::clone(worker), name.clone());
    tokio::task::spawn_local(async move { confirm(&worker, &name, &user, When::Due).await });
}

/// Whether a learnt user's clients may be pooled. The server is asked if it was not for a period.
pub(crate) async fn is_right(worker: &Worker, name: &UserName, user: &Arc<User>) -> bool {
    let Some(trust) = user.trust() else { return true };
    if trust.is_believed() {
        return true;
    }
    match confirm(worker, name, user, When::Due).await {
        Word::Right => true,
        Word::Wrong => false,
        // Who could be pooled would not get further than who is carried.
        Word::None => trust.belief().is_confirmed,
    }
}

/// A client of a learnt user has said another password than the one that is known. Answers with the user whose it is, if
/// it is right; the fault is the server's, or still to be told.
pub(crate) async fn prove(
    worker: &Worker,
    name: &UserName,
    user: &Arc<User>,
    password: &Secret,
) -> Result<Option<Arc<User>>, Fault> {
    if password.is_empty() {
        return Ok(None);
    }
    if user.is_password(password) && is_right(worker, name, user).await {
        return Ok(Some(Arc::clone(user)));
    }
    if let Err(error) = ask(worker, name, password).await {
        // It may be right, of an account that is not what it was: whose plugin is another one, or that may only change
        // its password. Then its clients are to be carried.
        let is_wrong =
            matches!(error, NoLink::Login(LoginError::Refused { code: ACCESS_DENIED, .. }));
        if is_refusal(&error) && !is_wrong {
            confirm(worker, name, user, When::Soon).await;
        }
        return Err(error.fault(asked(worker)));
    }
    match confirm(worker, name, user, When::Now).await {
        // MySQL lets a user have two, while he changes from one to the other.
        Word::Right => Ok(Some(Arc::clone(user))),
        Word::Wrong => {
            let renewed = worker.shared.users.learn(name, password).ok_or_else(changes)?;
            renewed.trust().into_iter().for_each(|trust| believe(worker, name, trust));
            Ok(Some(renewed))
        }
        Word::None => Err(changes()),
    }
}

/// A client of a learnt user has proved another password than the one that is known, and cannot be asked for it: it has
/// encrypted it for the server alone, or says nothing where others could read along. If the server does not take the
/// known one any more, such clients are carried from the next one on.
pub(crate) async fn doubt(worker: &Worker, name: &UserName, user: &Arc<User>) {
    confirm(worker, name, user, When::Soon).await;
}

/// A link of this key was refused by this server at its login.
pub(crate) fn link_refused(worker: &Worker, server: ServerId, key: KeyId, error: &NoLink) {
    let user = worker.keys.borrow().user(key).cloned();
    let Some(user) = user.filter(|user| user.trust().is_some()) else { return };
    // Another server may only be late to hear of a user.
    if server == asked(worker).id && is_refusal(error) {
        let name = worker.keys.borrow().get(key).user.clone();
        forget(worker, &name, &user, error);
    }
}

/// Asks the server whether the password is right still, if that is due.
async fn confirm(worker: &Worker, name: &UserName, user: &Arc<User>, when: When) -> Word {
    let Some(trust) = user.trust() else { return Word::Right };
    let _alone = trust.asking.lock().await;
    // Somebody else may have found out meanwhile.
    let Some(Credential::Password(password)) = user.credential() else { return Word::Wrong };
    let belief = trust.belief();
    let is_early = match when {
        When::Due => belief.until.is_some_and(|until| Instant::now() < until),
        When::Soon => belief.asked.is_some_and(|asked| asked.elapsed() < SOON),
        When::Now => false,
    };
    if is_early {
        return if belief.is_confirmed { Word::Right } else { Word::None };
    }
    match ask(worker, name, &password).await {
        Ok(()) => {
            believe(worker, name, trust);
            Word::Right
        }
        Err(error) if is_refusal(&error) => {
            forget(worker, name, user, &error);
            Word::Wrong
        }
        Err(error) => {
            tracing::debug!(user = %name, %error, "a password cannot be confirmed");
            trust.postpone();
            Word::None
        }
    }
}

/// The server has taken the password just now.
fn believe(worker: &Worker, name: &UserName, trust: &Trust) {
    if trust.confirm(worker.plan.server.accounts_period) {
        tracing::info!(
            user = %name,
            "clients of this user are pooled from now on: one of them has said its password in a login that the \
             server has accepted (server.learn_passwords)"
        );
    }
}

fn forget(worker: &Worker, name: &UserName, user: &Arc<User>, why: &NoLink) {
    let was_pooled = user.trust().is_some_and(|trust| trust.belief().is_confirmed);
    if worker.shared.users.forget(name, user) && was_pooled {
        tracing::info!(
            user = %name,
            %why,
            "clients of this user are carried again: the server does not take the password any more that one of them \
             has said"
        );
    }
}

/// Who is asked what is right.
fn asked(worker: &Worker) -> &crate::servers::Server {
    worker.shared.server(route::greeter(worker))
}

/// Logs in as the user and leaves, as one of its links would.
async fn ask(worker: &Worker, name: &UserName, password: &Secret) -> Result<(), NoLink> {
    let _place = worker.carried_logins.enter_again().await;
    let credential = Credential::Password(password.clone());
    let logged_in =
        opener::log_in_as(worker, asked(worker), name, &credential, opener::POOLED, UTF8MB4).await;
    let mut logged_in = logged_in?;
    if !logged_in.has_proved_sha2 {
        return Err(NoLink::NoProof);
    }
    if !logged_in.capabilities.has(Capabilities::SESSION_TRACK) {
        return Err(NoLink::NoTracking);
    }
    let limit = worker.plan.limits.connect;
    let tracks = tokio::time::timeout(limit, logged_in.run(opener::TRACK)).await;
    match tracks.map_err(|_| NoLink::Late("limits.connect", limit))? {
        Err(LoginError::Refused { .. }) => return Err(NoLink::NoTracking),
        tracks => tracks?,
    }
    logged_in.quit().await;
    Ok(())
}

/// Whether the server says by it that links of this user cannot be opened by this password. Whatever else goes wrong
/// may pass: it has too much to do, or is not there.
pub(crate) fn is_refusal(error: &NoLink) -> bool {
    match error {
        NoLink::Login(LoginError::Refused { code, sqlstate, .. }) => {
            sqlstate.starts_with("28") || REFUSALS.contains(code)
        }
        NoLink::Login(LoginError::Plugin(_) | LoginError::Insecure) => true,
        NoLink::NoTracking | NoLink::NoProof => true,
        _ => false,
    }
}

/// Access denied for any reason that lies in the account: its host, its plugin, its password, which may have expired, a
/// lock.
const REFUSALS: [u16; 10] = [ACCESS_DENIED, 1130, 1251, 1524, 1698, 1820, 1862, 3118, 3955, 4151];

/// `ER_ACCESS_DENIED_ERROR`: the password is wrong, or there is no such user.
const ACCESS_DENIED: u16 = 1045;

fn changes() -> Fault {
    let message = "Access denied by Flifo: the user's password is changing, and the server does not \
        say which one is right. It is safe to try again";
    Fault::new(Kind::AccessDenied, message)
}

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

    fn belief(&self) -> Belief {
        *self.lock()
    }

    fn is_believed(&self) -> bool {
        let Belief { is_confirmed, until, .. } = self.belief();
        is_confirmed && until.is_some_and(|until| Instant::now() < until)
    }

    /// The server has taken the password. True: for the first time.
    fn confirm(&self, period: Duration) -> bool {
        let now = Instant::now();
        let (until, asked) = (now.checked_add(period), Some(now));
        let belief = Belief { is_confirmed: true, until, asked };
        !std::mem::replace(&mut *self.lock(), belief).is_confirmed
    }

    /// The server has said nothing.
    fn postpone(&self) {
        let (now, mut belief) = (Instant::now(), self.lock());
        (belief.until, belief.asked) = (now.checked_add(SOON), Some(now));
    }
}

impl Learnt {
    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Relaxed) == 0
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
            // Of those that nobody has asked for in a period, some may not exist any more.
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

#[cfg(test)]
mod tests {
    use wire::auth::{Nonce, Plugin};

    use super::*;
    use crate::arrive::users::{Users, Verdict};

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
        let mut users = Users::default();
        users.add(name("known"), User::with_password(secret("x"), Plugin::CachingSha2));
        users.add_carried(name("carried"), None, None);
        for name in [&name("known"), &name("carried")] {
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
    fn refusals_lie_in_the_account() {
        let refused = |code: u16, sqlstate: &str| {
            let (sqlstate, message) = (sqlstate.to_owned(), String::new());
            is_refusal(&NoLink::Login(LoginError::Refused { code, sqlstate, message }))
        };
        assert!(refused(1045, "28000") && refused(1698, "28000") && refused(3118, "HY000"));
        assert!(refused(1862, "HY000") && refused(9999, "28000"));
        // Too many connections, of all or of the user; the server shuts down.
        assert!(!refused(1040, "08004") && !refused(1203, "42000") && !refused(1226, "42000"));
        assert!(!refused(1053, "08S01"));
        assert!(is_refusal(&NoLink::NoProof) && is_refusal(&NoLink::NoTracking));
        assert!(!is_refusal(&NoLink::Late("limits.connect", PERIOD)));
        assert!(!is_refusal(&NoLink::NoCredential));
    }

    #[test]
    fn what_is_learnt_does_not_show() {
        let users = Users::default();
        let user = users.learn(&name("app"), &secret("correct horse")).unwrap();
        let shown = format!("{user:?} {users:?}");
        assert!(!shown.contains("correct") && !shown.contains("99, 111, 114"), "{shown}");
    }
}
