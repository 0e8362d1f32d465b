//! Passwords of users that nobody has configured: their hashes are read from the server's own table of accounts.
//!
//! One configured user may read that table (`server.accounts_user`). It is read at the first login, once a period, and
//! when a login fails or its user is unknown, since the table may have changed; never more often than [`SOON`].
//!
//! Invariants: hashes and what clients give away are in memory only, and zeroised; of a user whose accounts for several
//! hosts differ nothing is known; a table that cannot be read changes nothing.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use wire::auth::{Plugin, Secret, native, sha_crypt};

use crate::arrive::learnt;
use crate::arrive::users::User;
use crate::config::Password;
use crate::links::opener::{self, NoLink};
use crate::road::route;
use crate::worker::Worker;

/// What is remembered of the table, over all workers.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    state: Mutex<State>,
    /// Held by who reads.
    reading: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    read_at: Option<Instant>,
    /// Why clients of these are carried.
    unusable: HashMap<UserName, Unusable>,
    /// Of these it has been said that they are carried.
    told: HashSet<UserName>,
    /// The last attempt has failed, and that has been said.
    failed: bool,
}

/// Why an account does not tell what is needed to pool its clients.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unusable {
    #[error("its accounts for several hosts have different passwords")]
    Differs,
    #[error("its account is locked, or its password has expired")]
    Locked,
    #[error("what the server stores for {0} is not enough to log in with")]
    Plugin(String),
}

/// The table is not read again sooner.
const SOON: Duration = Duration::from_secs(1);

/// So many carried users are named in the log.
const TOLD_MAX: usize = 1000;

/// MariaDB's table, as rows of a name, and a plugin and what it stores, or `-`.
const MARIADB: &str = "SELECT User, IF(JSON_VALUE(Priv,'$.account_locked') IN ('1','true') \
    OR JSON_VALUE(Priv,'$.password_last_changed')='0','-',\
    CONCAT(IFNULL(JSON_VALUE(Priv,'$.plugin'),''),' ',\
    HEX(IFNULL(JSON_VALUE(Priv,'$.authentication_string'),'')))) \
    FROM mysql.global_priv WHERE User<>'' AND NOT JSON_EXISTS(Priv,'$.is_role')";

/// MySQL's.
const MYSQL: &str = "SELECT User, IF(account_locked='Y' OR password_expired='Y','-',\
    CONCAT(plugin,' ',HEX(authentication_string))) FROM mysql.user WHERE User<>''";

/// The user of this name whose clients are pooled, if there is one. A name that is not known may be new.
pub(crate) async fn find(worker: &Worker, name: &UserName) -> Option<Arc<User>> {
    let users = &worker.shared.users;
    if let Some(user) = users.get(name) {
        if !user.is_found() {
            return learnt::is_right(worker, name, &user).await.then_some(user);
        }
        // After a period without a look, a password may be an old one.
        read(worker, worker.plan.server.accounts_period * 2).await;
        return users.get(name);
    }
    if users.is_carried(name) {
        return None;
    }
    read(worker, SOON).await;
    users.get(name)
}

/// A client's proof was wrong: whether this user's password is another one since then.
pub(crate) async fn is_renewed(worker: &Worker, user: &User) -> bool {
    let before = user.generation();
    if user.is_found() {
        read(worker, SOON).await;
    }
    user.generation() != before
}

/// Reads the table if a period has passed.
pub(crate) fn look_after(worker: &Rc<Worker>) {
    let period = worker.plan.server.accounts_period;
    if worker.index == 0 && is_configured(worker) && is_older(worker, period) {
        let worker = Rc::clone(worker);
        tokio::task::spawn_local(async move { read(&worker, period).await });
    }
}

/// Says, once for each user, that its clients are carried, and what would pool them.
pub(crate) fn tell_carried(worker: &Worker, name: &UserName) {
    if worker.shared.users.is_carried(name) {
        return;
    }
    let mut state = worker.shared.accounts.lock();
    if state.told.len() >= TOLD_MAX || !state.told.insert(name.clone()) {
        return;
    }
    let why = match state.unusable.get(name) {
        Some(why) => why.to_string(),
        None if is_configured(worker) => {
            "the server's table of accounts does not name it".to_owned()
        }
        None if learnt::may_learn(worker, name) => {
            "no client has said its password, which is learnt where the server asks for it"
                .to_owned()
        }
        None => "nobody has told Flifo its password".to_owned(),
    };
    drop(state);
    tracing::info!(
        user = %name,
        why,
        "clients of this user are carried, each on a link of its own; to have them share links, name the user \
         with its password in [[users]], or let server.accounts_user read its hash"
    );
}

impl Accounts {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn is_configured(worker: &Worker) -> bool {
    worker.plan.server.accounts_user.is_some()
}

fn is_older(worker: &Worker, age: Duration) -> bool {
    worker.shared.accounts.lock().read_at.is_none_or(|at| at.elapsed() >= age)
}

/// Reads the table, unless it is younger than this.
async fn read(worker: &Worker, age: Duration) {
    if !is_configured(worker) || !is_older(worker, age) {
        return;
    }
    let accounts = &worker.shared.accounts;
    let _alone = accounts.reading.lock().await;
    if !is_older(worker, age) {
        return;
    }
    let rows = rows(worker).await;
    let mut state = accounts.lock();
    state.read_at = Some(Instant::now());
    match rows {
        Ok(rows) => {
            let (usable, unusable) = sort(&rows);
            // Zeroised as it is dropped.
            rows.into_iter().for_each(|(_, text)| drop(Secret::from(text)));
            worker.shared.users.replace_found(&usable);
            state.unusable = unusable;
            if std::mem::take(&mut state.failed) {
                tracing::info!("the server's table of accounts can be read again");
            }
        }
        Err(error) if !std::mem::replace(&mut state.failed, true) => {
            let user = worker.plan.server.accounts_user.as_deref().unwrap_or_default();
            tracing::warn!(
                user,
                %error,
                "the server's table of accounts cannot be read; grant SELECT on mysql.global_priv (MariaDB) or \
                 mysql.user (MySQL) to this user"
            );
        }
        Err(_) => {}
    }
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

async fn rows(worker: &Worker) -> Result<Rows, NoLink> {
    let name = worker.plan.server.accounts_user.as_deref().unwrap_or_default();
    let name = &UserName::of_account(name);
    let user = worker.shared.users.get(name);
    let credential = user.and_then(|user| user.credential()).ok_or(NoLink::NoCredential)?;
    let server = worker.shared.server(route::greeter(worker));
    let mut logged_in =
        opener::log_in_as(worker, server, name, &credential, opener::POOLED, UTF8MB4).await?;
    let text = if logged_in.is_mariadb { MARIADB } else { MYSQL };
    let limit = worker.plan.limits.connect;
    let rows = tokio::time::timeout(limit, logged_in.rows(text)).await;
    Ok(rows.map_err(|_| NoLink::Late("limits.connect", limit))??)
}

/// The collation that names are read in: utf8mb4_general_ci.
const UTF8MB4: u8 = 45;

/// Which users can be pooled, with what the server stores of their passwords, and why others cannot.
fn sort(rows: &Rows) -> (HashMap<UserName, Password>, HashMap<UserName, Unusable>) {
    let mut stored: HashMap<&[u8], Result<&[u8], Unusable>> = HashMap::new();
    for (name, text) in rows {
        let text = text.as_slice();
        let same = stored.entry(name.as_slice()).or_insert(Ok(text));
        if *same != Ok(text) {
            *same = Err(Unusable::Differs);
        }
    }
    let (mut usable, mut unusable) = (HashMap::new(), HashMap::new());
    for (name, stored) in stored {
        // Read in UTF-8, which it is stored in.
        let Ok(name) = std::str::from_utf8(name) else { continue };
        let name = UserName::of_account(name);
        match stored.and_then(password) {
            Ok(password) => drop(usable.insert(name, password)),
            Err(why) => drop(unusable.insert(name, why)),
        }
    }
    (usable, unusable)
}

fn password(stored: &[u8]) -> Result<Password, Unusable> {
    let Some(space) = stored.iter().position(|byte| *byte == b' ') else {
        return Err(Unusable::Locked);
    };
    let (name, hex) = (&stored[..space], &stored[space + 1..]);
    let plugin = match name {
        b"" => Plugin::NativePassword,
        name => Plugin::from_name(name),
    };
    let unusable = || Unusable::Plugin(plugin.to_string());
    let hash = wire::auth::from_hex(hex).map(Secret::from).ok_or_else(unusable)?;
    match plugin {
        Plugin::NativePassword | Plugin::CachingSha2 if hash.is_empty() => {
            Ok(Password::Plain(Secret::from("")))
        }
        Plugin::NativePassword => {
            native::Stored::parse(hash.as_bytes()).map(Password::Native).map_err(|_| unusable())
        }
        Plugin::CachingSha2 => sha_crypt::Stored::parse(hash.as_bytes())
            .map(Password::CachingSha2)
            .map_err(|_| unusable()),
        _ => Err(unusable()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> String {
        text.bytes().map(|byte| format!("{byte:02X}")).collect()
    }

    #[test]
    fn accounts_are_sorted_by_whether_a_hash_is_enough() {
        let native = native::Stage1::of(b"secret").stored().reveal();
        let other = native::Stage1::of(b"other").stored().reveal();
        let native = format!("mysql_native_password {}", hex(&native));
        let other = format!("mysql_native_password {}", hex(&other));
        let rows: Rows = [
            ("app", native.as_str()),
            ("twice", &native),
            ("twice", &native),
            ("differs", &native),
            ("differs", &other),
            ("differs", &native),
            ("locked", "-"),
            ("key", "ed25519 4142"),
            ("socket", "unix_socket "),
            ("invalid", "mysql_native_password 696E76616C6964"),
            ("torn", "mysql_native_password 6"),
            ("open", "mysql_native_password "),
        ]
        .map(|(name, text)| (name.as_bytes().to_vec(), text.as_bytes().to_vec()))
        .to_vec();
        let (usable, unusable) = sort(&rows);
        let mut names: Vec<_> = usable.keys().map(ToString::to_string).collect();
        names.sort();
        assert_eq!(names, ["app", "open", "twice"]);
        assert!(matches!(usable[&b"app"[..]], Password::Native(_)));
        assert!(matches!(&usable[&b"open"[..]], Password::Plain(it) if it.is_empty()));
        assert_eq!(unusable[&b"differs"[..]], Unusable::Differs);
        assert_eq!(unusable[&b"locked"[..]], Unusable::Locked);
        for name in ["key", "socket", "invalid", "torn"] {
            assert!(matches!(unusable[name.as_bytes()], Unusable::Plugin(_)), "{name}");
        }
    }
}
