//! Which views and triggers of the server do what no server reports: their definitions are read as
//! `server.accounts_user`, and read again when they may have changed.
//!
//! What a definition does is `engine::hidden`'s to say, what becomes of a statement that names such an object
//! [`crate::road::pins`]'s. Invariants: where there is none, a statement looks at one flag; reading takes no more than a
//! hundredth of the time, on a connection of its own; what cannot be read changes nothing that was.

use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use engine::hidden::{Catalog, Definition, Kind, When};
use engine::schemas::Since;
use wire::lex::Dialect;

use crate::links::opener::{self, NoLink};
use crate::road::route;
use crate::worker::Worker;

/// What is known of the server's definitions, over all workers.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    /// Whether there is such an object.
    any: AtomicBool,
    catalog: RwLock<Arc<Catalog>>,
    /// The same of objects that ask for the number of their reader's connection.
    any_asks: AtomicBool,
    asking: RwLock<Arc<Catalog>>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    is_reading: bool,
    last: Option<Reading>,
    /// The last attempt has failed, and that has been said.
    has_failed: bool,
}

/// One look at the definitions.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Instant,
    took: Duration,
    /// No statement that may define something has ended since this.
    since: Since,
}

/// How soon definitions are read again after a statement that may have changed one, and if none has passed Flifo.
const SOON: Duration = Duration::from_secs(1);
const PERIOD: Duration = Duration::from_secs(10);
const PERIOD_MAX: Duration = Duration::from_secs(60);

/// So many times as long as reading takes, nothing is read.
const REST: u32 = 100;

/// What the rows of one answer are told by, and how many answers there may be.
const PAGE: usize = 1000;
const PAGES_MAX: usize = 64;

/// The collation that names are read in: utf8mb4_general_ci.
const UTF8MB4: u8 = 45;

/// A kind and a key; and schema, name and body.
const QUESTION: &str = "SELECT CONCAT('v',TABLE_SCHEMA,'.',TABLE_NAME) AS k, \
    CONCAT(TABLE_SCHEMA,CHAR(0 USING utf8mb4),TABLE_NAME,CHAR(0 USING utf8mb4),COALESCE(VIEW_DEFINITION,'')) AS body \
    FROM information_schema.VIEWS WHERE TABLE_SCHEMA NOT IN ('sys','mysql','information_schema',\
    'performance_schema') UNION ALL \
    SELECT CONCAT('r',ROUTINE_TYPE,ROUTINE_SCHEMA,'.',ROUTINE_NAME), \
    CONCAT(ROUTINE_SCHEMA,CHAR(0 USING utf8mb4),ROUTINE_NAME,CHAR(0 USING utf8mb4),COALESCE(ROUTINE_DEFINITION,'')) \
    FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA NOT IN ('sys','mysql') UNION ALL \
    SELECT CONCAT('t',TRIGGER_SCHEMA,'.',TRIGGER_NAME), \
    CONCAT(EVENT_OBJECT_SCHEMA,CHAR(0 USING utf8mb4),EVENT_OBJECT_TABLE,CHAR(0 USING utf8mb4),COALESCE(ACTION_STATEMENT,'')) \
    FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA NOT IN ('sys','mysql') ORDER BY k";

impl Hidden {
    /// Whether there is any such object: all that most statements ask.
    pub(crate) fn has_any(&self) -> bool {
        self.any.load(Relaxed)
    }

    /// Whether a text names an object that does what nothing tells.
    pub(crate) fn find(
        &self,
        text: &[u8],
        schema: Option<&[u8]>,
        dialect: Dialect,
    ) -> Option<When> {
        let catalog = Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner));
        catalog.find(text, schema, dialect)
    }

    /// Whether any object asks for the number of its reader's connection.
    pub(crate) fn any_asks_number(&self) -> bool {
        self.any_asks.load(Relaxed)
    }

    /// Whether a text names an object that asks for the number of its reader's connection, as far as definitions tell.
    pub(crate) fn asks_number(
        &self,
        text: &[u8],
        schema: Option<&[u8]>,
        dialect: Dialect,
    ) -> Option<When> {
        if !self.any_asks_number() {
            return None;
        }
        let asking = Arc::clone(&self.asking.read().unwrap_or_else(PoisonError::into_inner));
        asking.find(text, schema, dialect)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nothing, or nothing new enough, is known; then it is going to be read.
    fn begins(&self, now: Instant, since: Since) -> bool {
        let mut state = self.lock();
        let is_due = state.last.is_none_or(|last| last.is_old(now, since));
        let begins = is_due && !state.is_reading;
        state.is_reading |= begins;
        begins
    }

    fn learn(&self, reading: Reading, read: Result<[Catalog; 2], NoLink>, user: &[u8]) {
        let user = String::from_utf8_lossy(user);
        let mut state = self.lock();
        (state.is_reading, state.last) = (false, Some(reading));
        match read {
            Ok([read, asking]) => {
                state.has_failed = false;
                drop(state);
                self.any_asks.store(!asking.is_empty(), Relaxed);
                *self.asking.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(asking);
                let mut catalog = self.catalog.write().unwrap_or_else(PoisonError::into_inner);
                if **catalog != read {
                    self.any.store(!read.is_empty(), Relaxed);
                    tell(&user, &read);
                    *catalog = Arc::new(read);
                }
            }
            Err(error) if !std::mem::replace(&mut state.has_failed, true) => tracing::warn!(
                %user,
                %error,
                "the server's views, routines and triggers cannot be read; what they do that no server reports \
                 (GET_LOCK, LAST_INSERT_ID(n), SELECT … INTO @x) may be seen by the connection's next client"
            ),
            Err(_) => {}
        }
    }
}

impl Reading {
    fn is_old(self, now: Instant, since: Since) -> bool {
        let age = now.saturating_duration_since(self.at);
        let rest = self.took * REST;
        let is_changed = since != self.since && age >= rest.max(SOON);
        is_changed || age >= rest.clamp(PERIOD, PERIOD_MAX)
    }
}

fn tell(user: &str, catalog: &Catalog) {
    let (objects, unreadable) = (catalog.objects(), catalog.unreadable());
    if unreadable > 0 {
        tracing::warn!(
            user,
            objects,
            unreadable,
            "definitions of views, routines or triggers cannot be read, and are taken to do what no server \
             reports: statements that name such a view keep their connection; to have them read, grant SHOW VIEW and \
             TRIGGER on *.*, and SELECT on mysql.proc (MariaDB) or SHOW_ROUTINE on *.* (MySQL), to this user"
        );
    } else if objects > 0 {
        tracing::info!(
            user,
            objects,
            "views or triggers do what no server reports; statements that name them keep their connection"
        );
    }
}

/// Reads the definitions if they may be others by now.
pub(crate) fn look_after(worker: &Rc<Worker>) {
    if worker.index != 0 {
        return;
    }
    let Some(user) = reader(worker) else { return };
    let (now, since) = (Instant::now(), worker.shared.alterations.now());
    if !worker.shared.hidden.begins(now, since) {
        return;
    }
    let worker = Rc::clone(worker);
    tokio::task::spawn_local(async move {
        let read = read(&worker, &user).await;
        let reading = Reading { at: Instant::now(), took: now.elapsed(), since };
        worker.shared.hidden.learn(reading, read, user.as_bytes());
    });
}

/// The user as whom definitions are read.
fn reader(worker: &Worker) -> Option<UserName> {
    worker.plan.server.accounts_user.as_deref().map(UserName::of_account)
}

/// The objects that do what nothing tells, and those that ask for the number of a connection.
async fn read(worker: &Worker, name: &UserName) -> Result<[Catalog; 2], NoLink> {
    let user = worker.shared.users.get(name);
    let credential = user.and_then(|user| user.credential()).ok_or(NoLink::NoCredential)?;
    let server = worker.shared.server(route::greeter(worker));
    let mut logged_in =
        opener::log_in_as(worker, server, name, &credential, opener::POOLED, UTF8MB4).await?;
    let limit = worker.plan.limits.connect;
    let mut definitions = Vec::new();
    for page in 0..PAGES_MAX {
        let text = format!("{QUESTION} LIMIT {PAGE} OFFSET {}", page * PAGE);
        let rows = tokio::time::timeout(limit, logged_in.rows(&text)).await;
        let rows = rows.map_err(|_| NoLink::Late("limits.connect", limit))??;
        definitions.extend(rows.iter().filter_map(definition));
        if rows.len() < PAGE {
            break;
        }
    }
    Ok([Catalog::new(&definitions), Catalog::asking_number(&definitions)])
}

fn definition((key, text): &(Vec<u8>, Vec<u8>)) -> Option<Definition> {
    let kind = match key.first()? {
        b'v' => Kind::View,
        b'r' => Kind::Routine,
        _ => Kind::Trigger,
    };
    let mut parts = text.splitn(3, |byte| *byte == 0).map(<[u8]>::to_vec);
    Some(Definition { kind, schema: parts.next()?, name: parts.next()?, body: parts.next()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::schemas::Alterations;

    #[test]
    fn definitions_are_read_again_when_they_may_be_others() {
        let (at, alterations) = (Instant::now(), Alterations::default());
        let reading = |millis| {
            let took = Duration::from_millis(millis);
            Reading { at, took, since: Alterations::default().now() }
        };
        let is_old = |reading: Reading, after: u64, alterations: &Alterations| {
            reading.is_old(at + Duration::from_secs(after), alterations.now())
        };
        assert!(!is_old(reading(1), 9, &alterations) && is_old(reading(1), 10, &alterations));
        assert!(!is_old(reading(200), 19, &alterations) && is_old(reading(200), 20, &alterations));
        assert!(is_old(reading(5000), 60, &alterations));
        alterations.add();
        assert!(!is_old(reading(1), 0, &alterations) && is_old(reading(1), 1, &alterations));
        assert!(!is_old(reading(50), 4, &alterations) && is_old(reading(50), 5, &alterations));
    }

    #[test]
    fn one_reads_at_a_time() {
        let (hidden, now, since) = (Hidden::default(), Instant::now(), Since::default());
        assert!(hidden.begins(now, since) && !hidden.begins(now, since));
        let reading = Reading { at: now, took: Duration::ZERO, since };
        hidden.learn(reading, Err(NoLink::NoCredential), b"u");
        assert!(!hidden.begins(now, since) && hidden.begins(now + PERIOD, since));
        let view = definition(&(b"vs.v".to_vec(), b"s\0v\0".to_vec())).unwrap();
        let asks = definition(&(b"vs.w".to_vec(), b"s\0w\0connection_id()".to_vec())).unwrap();
        let known = [Catalog::new(&[view]), Catalog::asking_number(&[asks])];
        hidden.learn(reading, Ok(known), b"u");
        let find = || hidden.find(b"SELECT * FROM s.v", None, Dialect::default());
        assert_eq!(find(), Some(When::Named));
        hidden.learn(reading, Err(NoLink::NoCredential), b"u");
        assert_eq!(find(), Some(When::Named), "what cannot be read changes nothing");
        let asks = || hidden.asks_number(b"SELECT * FROM s.w", None, Dialect::default());
        assert_eq!(asks(), Some(When::Named));
        hidden.learn(reading, Ok(<[Catalog; 2]>::default()), b"u");
        assert_eq!((find(), asks()), (None, None));
    }
}
