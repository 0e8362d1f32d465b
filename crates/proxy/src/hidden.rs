//! Which views and triggers of the server do what no server reports: their definitions are read, and read again when they
//! may have changed.
//!
//! They are read as `server.accounts_user` for all users, if that sees them all; else as each pooled user, when the first
//! of its clients logs in and from then on. What a definition does is `engine::hidden`'s to say, what becomes of a statement that
//! names such an object [`crate::road::pins`]'s. Invariants: where there is none, a statement looks at one flag; reading
//! takes no more than a hundredth of the time, on a connection of its own; what cannot be read any more changes nothing
//! that was, and where nothing was ever read, triggers are taken to do anything.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use engine::hidden::{Catalog, Definition, Grants, Kind, Table, When, tables};
use engine::schemas::Since;
use link::login::LoggedIn;
use tokio::sync::OnceCell;

use crate::arrive::users::User;
use crate::links::opener::{self, NoLink};
use crate::road::client::Client;
use crate::road::route;
use crate::worker::Worker;

/// What is known of the server's definitions, over all workers.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    /// How many readers know of something.
    knowing: AtomicU32,
    /// What `server.accounts_user` has read, and whether it sees all that there is.
    common: Sight,
    is_common_whole: AtomicBool,
    /// Users that have read for themselves.
    readers: Mutex<Vec<UserName>>,
    /// They read one after the other.
    is_reading: AtomicBool,
}

/// What one reader knows.
#[derive(Debug)]
pub(crate) struct Sight {
    /// Done when it was tried once.
    first: OnceCell<()>,
    found: RwLock<Arc<Found>>,
    state: Mutex<State>,
}

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
struct Found {
    /// Objects that do what nothing tells.
    acting: Catalog,
    /// Objects that ask for the number of their reader's connection.
    asking: Catalog,
    /// There may be triggers of which not even the name is seen.
    hides_triggers: bool,
    /// All definitions were seen.
    is_whole: bool,
}

/// What most users share: there may be as many as the server has accounts.
static NOTHING: LazyLock<Arc<Found>> = LazyLock::new(Arc::default);

/// What a text does out of sight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutOfSight {
    /// It names an object that does what nothing tells.
    pub(crate) acts: Option<When>,
    /// It names an object that asks for the number of its reader's connection, as far as definitions tell.
    pub(crate) asks_number: Option<When>,
    /// It may fire a trigger that is not known.
    pub(crate) hides_triggers: bool,
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
    /// How soon it is read again if no such statement has passed Flifo.
    period: Duration,
}

/// How soon definitions are read again after a statement that may have changed one, and if none has passed Flifo.
const SOON: Duration = Duration::from_secs(1);
const PERIOD: Duration = Duration::from_secs(10);
const PERIOD_MAX: Duration = Duration::from_secs(60);

/// So many times as long as reading takes, nothing is read.
const REST: u32 = 100;

/// A user's first client waits for so long.
const FIRST_MAX: Duration = Duration::from_secs(2);

/// For so long it is waited until the server has ended a reader's connection.
const LEAVES: Duration = Duration::from_millis(250);

/// What the rows of one answer are told by, and how many answers there may be.
const PAGE: usize = 1000;
const PAGES_MAX: usize = 64;

/// Of so many tables it is asked in one statement whether they are seen.
const TABLES: usize = 200;

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

/// The reader's own rights, each with its place: nothing, a schema, or a schema and a table. What a role brings is not
/// among them.
const RIGHTS: &str = "SELECT PRIVILEGE_TYPE, '' FROM information_schema.USER_PRIVILEGES WHERE GRANTEE={me} UNION ALL \
    SELECT PRIVILEGE_TYPE, TABLE_SCHEMA FROM information_schema.SCHEMA_PRIVILEGES WHERE GRANTEE={me} UNION ALL \
    SELECT PRIVILEGE_TYPE, CONCAT(TABLE_SCHEMA,CHAR(0 USING utf8mb4),TABLE_NAME) \
    FROM information_schema.TABLE_PRIVILEGES WHERE GRANTEE={me} UNION ALL \
    SELECT PRIVILEGE_TYPE, CONCAT(TABLE_SCHEMA,CHAR(0 USING utf8mb4),TABLE_NAME) \
    FROM information_schema.COLUMN_PRIVILEGES WHERE GRANTEE={me} UNION ALL \
    SELECT 'ROLE', CURRENT_ROLE() FROM DUAL WHERE COALESCE(CURRENT_ROLE(),'NONE')<>'NONE'";

/// The reader, as those tables name it.
const ME: &str = "CONCAT('''',LEFT(CURRENT_USER(),CHAR_LENGTH(CURRENT_USER())-\
    CHAR_LENGTH(SUBSTRING_INDEX(CURRENT_USER(),'@',-1))-1),'''@''',SUBSTRING_INDEX(CURRENT_USER(),'@',-1),'''')";

/// What a text of a client of a pooled user does; all that most statements ask is one counter.
#[inline]
pub(crate) fn find(
    worker: &Worker,
    client: &Client,
    text: &[u8],
    schema: Option<&[u8]>,
) -> OutOfSight {
    match worker.shared.hidden.knowing.load(Relaxed) {
        0 => OutOfSight::default(),
        _ => find_among(&found_for(worker, client), client, text, schema),
    }
}

fn find_among(found: &Found, client: &Client, text: &[u8], schema: Option<&[u8]>) -> OutOfSight {
    let session = client.session.borrow();
    let (schema, dialect) = (schema.or(session.schema.as_deref()), session.dialect());
    OutOfSight {
        acts: found.acting.find(text, schema, dialect),
        asks_number: found.asking.find(text, schema, dialect),
        hides_triggers: found.hides_triggers,
    }
}

/// What the reader for this client has found.
fn found_for(worker: &Worker, client: &Client) -> Arc<Found> {
    let hidden = &worker.shared.hidden;
    if hidden.is_common_whole.load(Relaxed) {
        return hidden.common.found();
    }
    let of_key = |key| worker.user_of(key, |user| Some(user.sight.found()));
    client.key.get().and_then(of_key).unwrap_or_else(|| Arc::clone(&NOTHING))
}

impl Hidden {
    fn readers(&self) -> MutexGuard<'_, Vec<UserName>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A reader knows of something now, or did so before.
    fn count(&self, knew: bool, knows: bool) {
        match (knew, knows) {
            (false, true) => _ = self.knowing.fetch_add(1, Relaxed),
            (true, false) => _ = self.knowing.fetch_sub(1, Relaxed),
            _ => {}
        }
    }
}

impl Found {
    /// Whether a statement need be compared with it.
    fn tells(&self) -> bool {
        !self.acting.is_empty() || !self.asking.is_empty() || self.hides_triggers
    }
}

impl Default for Sight {
    fn default() -> Self {
        let found = RwLock::new(Arc::clone(&NOTHING));
        Self { first: OnceCell::default(), found, state: Mutex::default() }
    }
}

impl Sight {
    fn found(&self) -> Arc<Found> {
        Arc::clone(&self.found.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look may have begun to read it.
    async fn await_reading(&self) {
        while self.lock().is_reading {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Whether nothing, or nothing new enough, is known; then it is going to be read.
    fn begins(&self, now: Instant, since: Since) -> bool {
        let mut state = self.lock();
        let is_due = state.last.is_none_or(|last| last.is_old(now, since));
        let begins = is_due && !state.is_reading;
        state.is_reading |= begins;
        begins
    }

    /// Takes over what was read. The answer is whether something was known before, and is now.
    fn learn(
        &self,
        reading: Reading,
        read: Result<Found, NoLink>,
        user: &UserName,
    ) -> (bool, bool) {
        let mut state = self.lock();
        let is_first = state.last.is_none();
        (state.is_reading, state.last) = (false, Some(reading));
        state.has_failed = match &read {
            Ok(_) => false,
            Err(error) => {
                if !state.has_failed {
                    tell_failure(user, error);
                }
                true
            }
        };
        drop(state);
        let mut known = self.found.write().unwrap_or_else(PoisonError::into_inner);
        let knew = known.tells();
        let found = match read {
            Ok(found) => found,
            Err(_) if is_first => Found { hides_triggers: true, ..Found::default() },
            Err(_) => return (knew, knew),
        };
        if **known != found {
            tell(user, &found);
            *known = Arc::new(found);
        }
        (knew, known.tells())
    }
}

impl Reading {
    fn is_old(self, now: Instant, since: Since) -> bool {
        let age = now.saturating_duration_since(self.at);
        let rest = self.took * REST;
        let is_changed = since != self.since && age >= rest.max(SOON);
        is_changed || age >= rest.clamp(self.period, PERIOD_MAX)
    }
}

fn tell_failure(user: &UserName, error: &NoLink) {
    tracing::warn!(
        %user,
        %error,
        "the server's views, routines and triggers cannot be read: until they are, what views do that no server reports \
         (GET_LOCK, LAST_INSERT_ID(n), SELECT … INTO @x) may be seen by the connection's next client"
    );
}

fn tell(user: &UserName, found: &Found) {
    let (objects, unreadable) = (found.acting.objects(), found.acting.unreadable());
    if unreadable > 0 {
        tracing::warn!(
            %user,
            objects,
            unreadable,
            "definitions of views, routines or triggers cannot be read, and are taken to do what no server \
             reports: statements that name such a view, or write to such a table, keep their connection; to have them \
             read, grant SHOW VIEW and TRIGGER, and SELECT on mysql.proc (MariaDB) or SHOW_ROUTINE on *.* (MySQL), to \
             this user"
        );
    } else if objects > 0 {
        tracing::info!(
            %user,
            objects,
            "views or triggers do what no server reports; statements that name them keep their connection"
        );
    }
    if found.hides_triggers {
        tracing::warn!(
            %user,
            "the server may have triggers that this user does not see: what a statement leaves that may fire one is \
             undone before another client has its connection (one more round trip); to spare that, grant TRIGGER to this \
             user, or set users.triggers = \"trust\""
        );
    }
}

/// Reads the definitions if they may be others by now.
pub(crate) fn look_after(worker: &Rc<Worker>) {
    if worker.index != 0 || !worker.plan.server.read_definitions {
        return;
    }
    if worker.shared.hidden.is_reading.swap(true, Relaxed) {
        return;
    }
    let worker = Rc::clone(worker);
    tokio::task::spawn_local(async move {
        let hidden = &worker.shared.hidden;
        if let Some(name) = common_reader(&worker) {
            read_as_common(&worker, &name).await;
        }
        if !hidden.is_common_whole.load(Relaxed) {
            read_as_users(&worker).await;
        }
        hidden.is_reading.store(false, Relaxed);
    });
}

/// As `server.accounts_user`. What it finds is for all users if it sees all.
async fn read_as_common(worker: &Worker, name: &UserName) {
    let hidden = &worker.shared.hidden;
    read_if_due(worker, name, &hidden.common, PERIOD).await;
    let is_whole = hidden.common.found().is_whole;
    if hidden.is_common_whole.swap(is_whole, Relaxed) && !is_whole {
        tracing::warn!(user = %name, "this user does not see all definitions any more; each user reads for itself");
    }
}

async fn read_as_users(worker: &Worker) {
    let hidden = &worker.shared.hidden;
    let readers = hidden.readers().clone();
    for name in readers {
        match worker.shared.users.get(&name) {
            Some(user) if user.is_used() => {
                read_if_due(worker, &name, &user.sight, PERIOD_MAX).await;
            }
            Some(_) => {}
            None => hidden.readers().retain(|other| *other != name),
        }
    }
}

/// A client of this user has logged in: the first one waits until definitions were read once.
pub(crate) async fn begin(worker: &Worker, name: &UserName, user: &User) {
    let hidden = &worker.shared.hidden;
    let is_known = user.sight.first.initialized() || hidden.is_common_whole.load(Relaxed);
    if is_known || !worker.plan.server.read_definitions {
        return;
    }
    let first = async {
        if let Some(reader) = common_reader(worker) {
            hidden.common.first.get_or_init(|| read_as_common(worker, &reader)).await;
            hidden.common.await_reading().await;
        }
        if !hidden.is_common_whole.load(Relaxed) {
            user.sight.first.get_or_init(|| read_first(worker, name, user)).await;
        }
    };
    // What takes longer is done at the next look.
    let _ = tokio::time::timeout(FIRST_MAX, first).await;
}

async fn read_first(worker: &Worker, name: &UserName, user: &User) {
    worker.shared.hidden.readers().push(name.clone());
    read_if_due(worker, name, &user.sight, PERIOD_MAX).await;
    user.sight.await_reading().await;
}

/// The user as whom definitions are read for all users.
fn common_reader(worker: &Worker) -> Option<UserName> {
    worker.plan.server.accounts_user.as_deref().map(UserName::of_account)
}

async fn read_if_due(worker: &Worker, name: &UserName, sight: &Sight, period: Duration) {
    let (now, since) = (Instant::now(), worker.shared.alterations.now());
    if !sight.begins(now, since) {
        return;
    }
    let begun = Begun { sight };
    let read = read(worker, name).await;
    std::mem::forget(begun);
    let period = if read.is_ok() { period } else { PERIOD };
    let reading = Reading { at: Instant::now(), took: now.elapsed(), since, period };
    let (knew, knows) = sight.learn(reading, read, name);
    worker.shared.hidden.count(knew, knows);
}

/// A reading that is under way; dropped, it has come to nothing.
struct Begun<'a> {
    sight: &'a Sight,
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.sight.lock().is_reading = false;
    }
}

async fn read(worker: &Worker, name: &UserName) -> Result<Found, NoLink> {
    let user = worker.shared.users.get(name);
    let credential = user.and_then(|user| user.credential()).ok_or(NoLink::NoCredential)?;
    let server = worker.shared.server(route::greeter(worker));
    let mut reader =
        opener::log_in_as(worker, server, name, &credential, opener::POOLED, UTF8MB4).await?;
    let found = look(worker, &mut reader).await;
    // An account may be allowed one connection, which is the client's then.
    let _ = tokio::time::timeout(LEAVES, reader.leave()).await;
    found
}

/// What this reader sees.
async fn look(worker: &Worker, reader: &mut LoggedIn) -> Result<Found, NoLink> {
    let mut definitions = Vec::new();
    for page in 0..PAGES_MAX {
        let text = format!("{QUESTION} LIMIT {PAGE} OFFSET {}", page * PAGE);
        let rows = rows(worker, reader, &text).await?;
        definitions.extend(rows.iter().filter_map(definition));
        if rows.len() < PAGE {
            break;
        }
    }
    let seen = seen(worker, reader, &tables(&definitions)).await?;
    let mut grants = Grants::default();
    for (right, place) in rows(worker, reader, &RIGHTS.replace("{me}", ME)).await? {
        grants.add(&right, &place);
    }
    // MariaDB shows the names of triggers to all users of their tables.
    let hides_triggers = !reader.is_mariadb && grants.hide_triggers();
    let is_whole = grants.see_all();
    // There may be megabytes of them: more than a turn of the loop may take.
    let catalogs = tokio::task::spawn_blocking(move || {
        [Catalog::new(&definitions, &seen), Catalog::asking_number(&definitions)]
    });
    let [acting, asking] = catalogs.await.unwrap_or_default();
    Ok(Found { acting, asking, hides_triggers, is_whole })
}

/// Which of these tables and views the reader sees.
async fn seen(
    worker: &Worker,
    reader: &mut LoggedIn,
    tables: &BTreeSet<Table>,
) -> Result<BTreeSet<Table>, NoLink> {
    let mut seen = BTreeSet::new();
    let tables: Vec<_> = tables.iter().collect();
    for some in tables.chunks(TABLES) {
        let hex = |text: &[u8]| text.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let pair = |(schema, name): &&Table| {
            format!("(_utf8mb4 x'{}',_utf8mb4 x'{}')", hex(schema), hex(name))
        };
        let text = format!(
            "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES \
             WHERE (LOWER(TABLE_SCHEMA),LOWER(TABLE_NAME)) IN ({}) LIMIT {PAGE}",
            some.iter().map(pair).collect::<Vec<_>>().join(",")
        );
        for (schema, name) in rows(worker, reader, &text).await? {
            seen.insert((schema.to_ascii_lowercase(), name.to_ascii_lowercase()));
        }
    }
    Ok(seen)
}

/// The two columns of an answer that comes in time.
async fn rows(
    worker: &Worker,
    reader: &mut LoggedIn,
    text: &str,
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, NoLink> {
    let limit = worker.plan.limits.connect;
    let rows = tokio::time::timeout(limit, reader.rows(text)).await;
    Ok(rows.map_err(|_| NoLink::Late("limits.connect", limit))??)
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
            Reading { at, took, since: Alterations::default().now(), period: PERIOD }
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
        let (sight, now, since) = (Sight::default(), Instant::now(), Since::default());
        let user = UserName::of_account("u");
        assert!(sight.begins(now, since) && !sight.begins(now, since));
        let reading = Reading { at: now, took: Duration::ZERO, since, period: PERIOD };
        let learn = |read| sight.learn(reading, read, &user);
        assert_eq!(learn(Err(NoLink::NoCredential)), (false, true));
        assert!(sight.found().hides_triggers, "nothing is known of them");
        assert!(!sight.begins(now, since) && sight.begins(now + PERIOD, since));
        drop(Begun { sight: &sight });
        assert!(sight.begins(now + PERIOD, since), "a reading that came to nothing");
        let view = definition(&(b"vs.v".to_vec(), b"s\0v\0".to_vec())).unwrap();
        let asks = definition(&(b"vs.w".to_vec(), b"s\0w\0connection_id()".to_vec())).unwrap();
        let found = || Found {
            acting: Catalog::new(std::slice::from_ref(&view), &BTreeSet::new()),
            asking: Catalog::asking_number(std::slice::from_ref(&asks)),
            ..Found::default()
        };
        assert_eq!(learn(Ok(found())), (true, true));
        assert_eq!(learn(Err(NoLink::NoCredential)), (true, true));
        assert_eq!(*sight.found(), found(), "what cannot be read any more changes nothing");
        let nothing = Found { is_whole: true, ..Found::default() };
        assert_eq!(learn(Ok(nothing)), (true, false));
        assert_eq!(learn(Ok(Found::default())), (false, false));
        assert_eq!(*sight.found(), Found::default());
    }
}
