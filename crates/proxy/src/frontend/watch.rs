//! The watch over changes of rights that are made beside Flifo: what the server stores of them is compared with what it
//! was a second ago.
//!
//! Asks as `server.accounts_user`, on a connection of its own to each server, in the first worker. What it finds is
//! judged by `engine::rights`. Invariants: looking takes no more than a twentieth of the time; what cannot be read
//! changes nothing that was, and then `server.rights_bound` holds.

use std::rc::Rc;
use std::time::Duration;

use backend::login::{Credential, LoggedIn, LoginError};
use engine::account::name::UserName;
use engine::rights::LedgerLook;
use wire::handshake::UTF8MB4;

use crate::cluster::dial::{self, NoBackend};
use crate::cluster::servers::ServerId;
use crate::session::rights::see_elsewhere;
use crate::state::worker::Worker;

/// Between two looks.
const PERIOD: Duration = Duration::from_secs(1);

/// So many times as long as a look takes, the server is left alone.
const REST: u32 = 20;

/// After a look that failed.
const AGAIN: Duration = Duration::from_secs(5);

/// Where MariaDB stores rights, and MySQL.
const MARIADB_TABLES: [&str; 7] = [
    "global_priv",
    "db",
    "tables_priv",
    "columns_priv",
    "procs_priv",
    "proxies_priv",
    "roles_mapping",
];
const MYSQL_TABLES: [&str; 9] = [
    "user",
    "db",
    "tables_priv",
    "columns_priv",
    "procs_priv",
    "proxies_priv",
    "global_grants",
    "role_edges",
    "default_roles",
];

/// Where a server stores rights, in the schema `mysql`: what `server.accounts_user` may read, to watch them.
pub fn rights_tables(is_mariadb: bool) -> &'static [&'static str] {
    if is_mariadb { &MARIADB_TABLES } else { &MYSQL_TABLES }
}

/// The tables that this user sees at all.
const TABLES: &str =
    "SELECT TABLE_NAME, TABLE_SCHEMA FROM information_schema.TABLES WHERE TABLE_SCHEMA='mysql'";

/// What sessions begin with. Among the variables of MySQL are counts of what it has written, too.
const MARIADB_VARIABLES: &str = "SELECT COUNT(*), \
    COALESCE(SUM(CRC32(CONCAT(VARIABLE_NAME,'=',COALESCE(GLOBAL_VALUE,'')))),0) \
    FROM information_schema.SYSTEM_VARIABLES \
    WHERE VARIABLE_SCOPE='SESSION' OR VARIABLE_NAME='INIT_CONNECT'";
const MYSQL_VARIABLES: &str = "SELECT COUNT(*), \
    COALESCE(SUM(CRC32(CONCAT(VARIABLE_NAME,'=',COALESCE(VARIABLE_VALUE,'')))),0) \
    FROM performance_schema.global_variables WHERE VARIABLE_NAME NOT LIKE 'gtid%'";

/// How often accounts and rights were changed, whatever became of it: something that was changed and changed back
/// within a second looks as it was, and a backend that logged in between has other rights.
const CHANGES: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Com_grant','Com_grant_role','Com_grant_roles',\
    'Com_revoke','Com_revoke_all','Com_revoke_role','Com_revoke_roles','Com_create_user','Com_alter_user',\
    'Com_drop_user','Com_rename_user','Com_create_role','Com_drop_role','Com_set_password',\
    'Com_alter_user_default_role')";

const FLUSHES: &str = "SHOW GLOBAL STATUS LIKE 'Com_flush'";

/// A connection that looks.
struct Eye {
    login: LoggedIn,
    /// The question for the tables that may be read.
    tables: String,
    /// Those that may not.
    hidden: Vec<&'static str>,
}

/// Watches these servers for as long as the worker runs, while `server.accounts_user` names a user that may read what
/// rights they have stored.
pub(crate) fn begin(worker: &Rc<Worker>, servers: impl IntoIterator<Item = ServerId>) {
    for server in servers {
        crate::worker::tasks::vital(watch(Rc::clone(worker), server));
    }
}

async fn watch(worker: Rc<Worker>, server: ServerId) {
    let (mut look, mut eye, mut told) = (LedgerLook::default(), None, None);
    // How long the last look took.
    let mut last = Duration::MAX;
    let mut before = None;
    loop {
        let begun = crate::worker::clock::read();
        let user = worker.plan().server.accounts_user.as_deref().map(UserName::of_account);
        if user != before {
            // Another user may see less.
            (eye, told) = (None, None);
            before.clone_from(&user);
        }
        let is_retired = worker.shared.cluster.server(server).is_retired();
        let Some(user) = user.filter(|_| !is_retired) else {
            eye = None;
            if !is_retired && told != Some(State::Unwatched) {
                State::Unwatched.tell(&worker, server, None);
                told = Some(State::Unwatched);
            }
            tokio::time::sleep(AGAIN).await;
            continue;
        };
        let (rest, state) = match see(&worker, server, &user, &mut eye, &mut look).await {
            Ok(state) => {
                // A look that was held up once says little of what it costs.
                let took = crate::worker::clock::since(begun);
                let cost = took.min(std::mem::replace(&mut last, took));
                ((cost * REST).max(PERIOD), state)
            }
            Err(error) => {
                eye = None;
                (AGAIN, State::Blind(error.to_string()))
            }
        };
        if told.as_ref() != Some(&state) {
            state.tell(&worker, server, Some(&user));
            told = Some(state);
        }
        tokio::time::sleep(rest).await;
    }
}

/// How well the watch sees.
#[derive(Debug, PartialEq, Eq)]
enum State {
    /// No user is named that could look.
    Unwatched,
    Sees,
    /// Not these tables.
    SeesInPart(String),
    /// Nothing, for this reason.
    Blind(String),
}

impl State {
    fn tell(&self, worker: &Worker, server: ServerId, user: Option<&UserName>) {
        let (bound, server) =
            (worker.plan().server.rights_bound, worker.shared.cluster.server(server));
        let server = &server.name;
        let user = user.map(tracing::field::display);
        match self {
            Self::Unwatched => tracing::info!(
                %server,
                ?bound,
                "rights that are changed beside Flifo are changed for its clients within server.rights_bound; sooner \
                 where server.accounts_user may read the server's tables of rights"
            ),
            Self::Sees => tracing::info!(
                %server,
                user,
                "rights that are changed beside Flifo are changed for its clients within two seconds"
            ),
            Self::SeesInPart(tables) => tracing::info!(
                %server,
                user,
                ?bound,
                tables,
                "rights that are changed beside Flifo in these tables of the schema mysql are changed for its clients \
                 within server.rights_bound; within two seconds if this user is granted SELECT on them"
            ),
            Self::Blind(error) => tracing::warn!(
                %server,
                user,
                ?bound,
                error,
                "changes of rights beside Flifo cannot be watched; they take effect for its clients within \
                 server.rights_bound"
            ),
        }
    }
}

async fn open(worker: &Worker, server: ServerId, user: &UserName) -> Result<Eye, NoBackend> {
    let known = worker.shared.proofs.users.get(user).ok_or(NoBackend::NoCredential)?;
    let server = worker.shared.cluster.server(server);
    let dialer = &worker.shared.cluster.dialer;
    let attempt = async |credential: &Credential| {
        dialer.log_in_as(server, user, credential, dial::POOLED, UTF8MB4).await
    };
    let mut login = known.log_in(attempt).await?;
    let limit = worker.plan().limits.connect;
    let all: &[&'static str] = if login.is_mariadb { &MARIADB_TABLES } else { &MYSQL_TABLES };
    let known = tokio::time::timeout(limit, login.rows(TABLES)).await;
    let known = known.map_err(|_| late(limit))??;
    let (mut seen, mut hidden) = (Vec::new(), Vec::new());
    for table in all {
        let may_read = known.iter().any(|(name, _)| name == table.as_bytes())
            && can_read(&mut login, table, limit).await?;
        if may_read { seen.push(*table) } else { hidden.push(*table) }
    }
    let tables = if seen.is_empty() { String::new() } else { checksum(&seen) };
    Ok(Eye { login, tables, hidden })
}

async fn can_read(login: &mut LoggedIn, table: &str, limit: Duration) -> Result<bool, NoBackend> {
    let question = checksum(&[table]);
    match tokio::time::timeout(limit, login.rows(&question)).await.map_err(|_| late(limit))? {
        Ok(_) => Ok(true),
        Err(LoginError::Refused { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn checksum(tables: &[&str]) -> String {
    let tables: Vec<_> = tables.iter().map(|table| format!("mysql.{table}")).collect();
    format!("CHECKSUM TABLE {}", tables.join(","))
}

const fn late(limit: Duration) -> NoBackend {
    NoBackend::Late("limits.connect", limit)
}

/// Looks once. An era rises before what was seen is believed.
async fn see(
    worker: &Worker,
    server: ServerId,
    user: &UserName,
    eye: &mut Option<Eye>,
    look: &mut LedgerLook,
) -> Result<State, NoBackend> {
    let opened = match eye.take() {
        Some(eye) => eye,
        None => open(worker, server, user).await?,
    };
    let eye = eye.insert(opened);
    let (rights, begun) = (&worker.shared.proofs.rights, crate::worker::clock::read());
    let limit = worker.plan().limits.connect;
    let counts = look.counts_flushes(rights.time(begun));
    let seen = tokio::time::timeout(limit, eye.see(counts)).await.map_err(|_| late(limit))?;
    let (seen, flushes) = seen?;
    if look.see(&seen, flushes, rights.time(begun)) {
        tracing::debug!(server = server.0, "rights were changed beside Flifo");
        see_elsewhere(&worker.shared);
    }
    if !eye.hidden.is_empty() {
        return Ok(State::SeesInPart(eye.hidden.join(", ")));
    }
    worker.shared.cluster.server(server).facts.rights.see(rights.time(begun));
    Ok(State::Sees)
}

impl Eye {
    /// What the server has stored, and how many `FLUSH` statements it has run if they are counted.
    async fn see(&mut self, counts: bool) -> Result<(Vec<u8>, Option<u64>), LoginError> {
        let variables = if self.login.is_mariadb { MARIADB_VARIABLES } else { MYSQL_VARIABLES };
        let mut seen = Vec::new();
        for question in [self.tables.as_str(), variables, CHANGES] {
            if question.is_empty() {
                continue;
            }
            for (name, value) in self.login.rows(question).await? {
                for part in [name, value] {
                    seen.extend(part);
                    seen.push(0);
                }
            }
        }
        if !counts {
            return Ok((seen, None));
        }
        let rows = self.login.rows(FLUSHES).await?;
        let flushes =
            rows.first().and_then(|(_, count)| std::str::from_utf8(count).ok()?.parse().ok());
        Ok((seen, flushes))
    }
}
