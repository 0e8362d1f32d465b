//! Users that are not configured: their hashes, and what each account demands, are read from the server's own table of
//! accounts.
//!
//! One configured user may read that table (`server.accounts_user`). It is read at the first login, once a period, and
//! when a login fails or its user is unknown, since the table may have changed; never more often than [`SOON`], and for
//! wrong proofs never for more than a small part of the time ([`RESTS`]). What is read of it is
//! [`crate::users::table`]'s, what all workers remember [`crate::users::accounts`]'s, what clients are held to
//! [`crate::frontend::held`]'s.
//!
//! Invariants: hashes and what clients give away are in memory only, and zeroised; a table that cannot be read changes
//! nothing, unless it is the first attempt of another reader; a client is refused only by a table that was read since it came.

use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use backend::login::{Credential, LoginError, Many};
use engine::account::held::{AccountRefusal, AccountRules};
use engine::account::name::UserName;
use engine::account::row::Row;
use wire::handshake::UTF8MB4;

use crate::cluster::dial::{self, NoBackend};
use crate::cluster::members::ClusterId;
use crate::frontend::held;
use crate::frontend::learnt;
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use crate::upkeep::dismissed;
use crate::users::User;
use crate::users::accounts::TableState;
use crate::users::standing::Own;
use crate::users::table::{self, Provable, Sorted, Table};
use crate::worker::tasks;

/// The table is not read again sooner.
const SOON: Duration = Duration::from_secs(1);

/// For wrong proofs it is read sooner, as long as that takes little of the time.
const RESTS: u32 = 20;
const LEAST_REST: Duration = Duration::from_millis(50);

/// So many pass-through users are named in the log.
const TOLD_MAX: usize = 1000;

/// The user of this name whose clients are pooled, if there is one. A name that is not known may be new.
pub(crate) async fn find(worker: &Worker, name: &UserName) -> Option<Arc<User>> {
    let users = &worker.shared.proofs.users;
    if let Some(user) = users.get(name).filter(|user| !user.is_beyond_flifo()) {
        if !user.is_found() {
            return learnt::is_right(worker, name, &user).await.then_some(user);
        }
        // After a period without a look, a password may be an old one.
        read(worker, worker.plan().server.accounts_period * 2).await;
        return users.get(name);
    }
    if users.is_configured(name) {
        return None;
    }
    read(worker, SOON).await;
    users.get(name).filter(|user| !user.is_beyond_flifo())
}

/// A client's proof was wrong: whether this user's password is another one since then.
pub(crate) async fn is_renewed(worker: &Worker, user: &User) -> bool {
    let before = user.generation();
    if user.is_found() {
        look_again(worker).await;
    }
    user.generation() != before
}

/// A client is about to be refused for its proof: has the table read since then. Those whom the server has refused wait
/// as long, or it would show which users Flifo knows.
pub(crate) async fn look_again(worker: &Worker) {
    if is_configured(worker) {
        let rest = worker.shared.proofs.accounts.lock().took * RESTS;
        read_since(worker, crate::worker::clock::read(), rest.clamp(LEAST_REST, SOON)).await;
    }
}

/// The account that the table tells for a client of this name, or why it is to be refused. `None`: it is not told.
/// `own` is where Flifo comes from to the server that decides, which the table's reader tells otherwise. An account
/// that does not fit is looked up in a table that was read since the client came. The table is that of the first
/// cluster: of accounts in another one it tells nothing.
pub(crate) async fn judge(
    worker: &Worker,
    cluster: ClusterId,
    name: &UserName,
    client: Option<IpAddr>,
    own: Option<Own>,
    fits: impl Fn(&Row) -> bool,
) -> Option<Result<Row, AccountRefusal>> {
    if !is_configured(worker) || cluster != worker.shared.cluster.first_cluster().id {
        return None;
    }
    let judge = || {
        let table = worker.shared.proofs.accounts.lock().table.clone()?;
        let own = own.map_or_else(|| table.own(), |own| own.0);
        table.judge(name, client, own).map(Option::<&Row>::cloned).transpose()
    };
    // An account may have been made, or changed, just now.
    let came = crate::worker::clock::read();
    match judge() {
        Some(Ok(row)) if fits(&row) => Some(Ok(row)),
        Some(_) if !read_since(worker, came, SOON).await => None,
        Some(_) => judge(),
        None => {
            read(worker, SOON).await;
            judge()
                .filter(|told| told.is_ok() || worker.shared.proofs.accounts.lock().is_since(came))
        }
    }
}

/// Has what clients of this name can prove looked at, if the table tells of it.
pub(crate) fn provable<R>(
    worker: &Worker,
    name: &UserName,
    look: impl FnOnce(&[Provable]) -> Option<R>,
) -> Option<R> {
    let table = worker.shared.proofs.accounts.lock().table.clone()?;
    look(table.provable(name))
}

/// Another user reads the table from now on, or none does: that is in force already. What the one before has read counts
/// no longer: clients that come now wait until the new one has tried.
pub(crate) fn change_reader(shared: &Shared) {
    shared.proofs.accounts.begin_anew();
    if shared.plan().server.accounts_user.is_none() {
        forget_users(shared);
    }
}

/// Flifo knows nothing any more of the users that the table has told of. Their clients end between two transactions.
fn forget_users(shared: &Shared) {
    let names = shared.proofs.users.withdraw_found();
    if names.is_empty() {
        return;
    }
    tracing::info!(
        users = names.len(),
        "users that were read from the server's table of accounts are forgotten: their clients are passed through"
    );
    for worker in 0..shared.worker_count() {
        let names = names.clone();
        shared.have_done(worker, move |worker| dismissed::dismiss(worker, &names));
    }
}

/// Reads the table if a period has passed.
pub(crate) fn look_after(worker: &Rc<Worker>) {
    let period = worker.plan().server.accounts_period;
    if worker.index == 0 {
        worker.shared.proofs.users.wipe_withdrawn();
    }
    if worker.index == 0 && is_configured(worker) && is_older(worker, period) {
        let worker = Rc::clone(worker);
        tasks::vital(async move { read(&worker, period).await });
    }
}

/// Says, once for each user, that its clients are passed through, and what would pool them.
pub(crate) fn tell_pass_through(worker: &Worker, name: &UserName) {
    if worker.shared.proofs.users.is_pass_through(name) {
        return;
    }
    if worker.shared.proofs.users.get(name).is_some_and(|user| user.is_beyond_flifo()) {
        // Its server's words have told why.
        return;
    }
    let mut state = worker.shared.proofs.accounts.lock();
    if state.told.len() >= TOLD_MAX || !state.told.insert(name.clone()) {
        return;
    }
    let why = match state.unusable.get(name) {
        Some(why) => why.to_string(),
        None if is_configured(worker) => {
            "the server's table of accounts does not name it".to_owned()
        }
        None if learnt::may_learn(worker, name) => {
            "no client has sent its password yet; Flifo learns it when the server asks a client \
             for it"
                .to_owned()
        }
        None => "Flifo does not have its password".to_owned(),
    };
    drop(state);
    tracing::info!(
        user = %name,
        why,
        "clients of this user are passed through, each on its own backend connection; to let them \
         share connections, name the user with its password in [[users]], or let \
         server.accounts_user read its hash; `flifo init` sets that up"
    );
}

fn is_configured(worker: &Worker) -> bool {
    worker.plan().server.accounts_user.is_some()
}

fn is_older(worker: &Worker, age: Duration) -> bool {
    let state = worker.shared.proofs.accounts.lock();
    let is_over = state.era != worker.shared.proofs.rights.eras.now();
    is_over || state.tried_at.is_none_or(|at| crate::worker::clock::since(at) >= age)
}

/// Reads the table, unless it is younger than this.
async fn read(worker: &Worker, age: Duration) {
    if !is_configured(worker) || !is_older(worker, age) {
        return;
    }
    let _alone = worker.shared.proofs.accounts.reading.lock().await;
    if is_older(worker, age) {
        read_now(worker).await;
    }
}

/// Reads the table, unless an attempt has begun since then, and no sooner than this after the one before. Whether it was
/// read since then.
async fn read_since(worker: &Worker, moment: Instant, rest: Duration) -> bool {
    let accounts = &worker.shared.proofs.accounts;
    let earlier = accounts.lock().tried_at.filter(|at| *at < moment);
    if let Some(at) = earlier {
        tokio::time::sleep_until((at + rest).into()).await;
    }
    let alone = accounts.reading.lock().await;
    if accounts.lock().tried_at.is_none_or(|at| at < moment) {
        read_now(worker).await;
    }
    drop(alone);
    accounts.lock().is_since(moment)
}

/// Reads the table. The caller holds [`crate::users::accounts::Accounts::reading`].
async fn read_now(worker: &Worker) {
    let accounts = &worker.shared.proofs.accounts;
    let begun = crate::worker::clock::read();
    let era = worker.shared.proofs.rights.eras.now();
    let reader = worker.plan().server.accounts_user.clone();
    let sorted = sorted(worker).await;
    let mut state = accounts.lock();
    if worker.shared.plan().server.accounts_user != reader {
        // Meanwhile it is another user's to read.
        return;
    }
    (state.tried_at, state.era, state.took) =
        (Some(begun), era, crate::worker::clock::since(begun));
    let is_of_another = std::mem::take(&mut state.is_of_another);
    match sorted {
        Ok(Sorted { table, usable, unusable }) => {
            worker.shared.proofs.users.replace_found(&usable);
            state.unusable = unusable;
            tell_cut(&mut state, &table);
            (state.table, state.read_at) = (Some(Arc::new(table)), Some(begun));
            if std::mem::take(&mut state.failed) {
                tracing::info!("the server's table of accounts can be read again");
            }
        }
        Err(error) => {
            if !std::mem::replace(&mut state.failed, true) {
                tracing::warn!(
                    user = reader,
                    %error,
                    "the server's table of accounts cannot be read; grant SELECT on mysql.global_priv \
                     (MariaDB) or mysql.user (MySQL) to this user"
                );
            }
            drop(state);
            if is_of_another {
                forget_users(&worker.shared);
            }
        }
    }
}

/// Says, once, that not all accounts are known.
fn tell_cut(state: &mut TableState, table: &Table) {
    let was_cut = std::mem::replace(&mut state.is_cut, table.end().is_some());
    if let Some(name) = table.end().filter(|_| !was_cut) {
        tracing::warn!(
            from = %name,
            bytes_max = table::BYTES_MAX,
            "the server's table of accounts is too large to be held: clients of users from this \
             name on, in order of names, are passed through"
        );
    }
}

async fn sorted(worker: &Worker) -> Result<Sorted, NoBackend> {
    let name =
        UserName::of_account(worker.plan().server.accounts_user.as_deref().unwrap_or_default());
    let name = &name;
    let user = worker.shared.proofs.users.get(name).ok_or(NoBackend::NoCredential)?;
    let server = worker.shared.cluster.greeter();
    let dialer = &worker.shared.cluster.dialer;
    let attempt = async |credential: &Credential| {
        dialer.log_in_as(server, name, credential, dial::POOLED, UTF8MB4).await
    };
    let mut logged_in = user.log_in(attempt).await?;
    let own = Own::of(worker, logged_in.talk.stream());
    let limit = worker.plan().limits.connect;
    let read = async {
        let rules = held::rules(server, &mut logged_in).await?;
        let text = if logged_in.is_mariadb { table::MARIADB.as_str() } else { table::MYSQL };
        let many = match logged_in.rows_within(text, table::BYTES_MAX).await {
            Err(LoginError::Refused { code: table::NO_SUCH_COLUMN, .. }) => {
                logged_in.rows_within(table::OLD_MYSQL, table::BYTES_MAX).await?
            }
            many => many?,
        };
        Ok::<_, NoBackend>((rules, many))
    };
    let read = tokio::time::timeout(limit, read).await;
    let (rules, many) = read.map_err(|_| NoBackend::Late("limits.connect", limit))??;
    sort(many, rules, own).await
}

/// Sorts what was read in another thread: it may be longer than a iteration of the loop.
async fn sort(many: Many, rules: AccountRules, own: Own) -> Result<Sorted, NoBackend> {
    let Many { rows, is_whole } = many;
    let sort = move || table::sort(rows, is_whole, rules, own.0);
    let sorted = tasks::apart(sort).await;
    sorted.map_err(|error| NoBackend::Unreachable(std::io::Error::other(error)))
}
