//! Which views and triggers of the server do what no server reports: their definitions are read, and read again when
//! they may have changed.
//!
//! They are read as `server.accounts_user` for all users, if that sees them all; else, and in clusters that are not that
//! user's, as each pooled user, when the first of its clients comes there and from then on. What a definition does is
//! `engine::hidden`'s to say, what is known of them [`crate::users::sight`]'s. [`crate::routing::out_of_sight`] finds
//! the objects that a statement names, and [`crate::session::pins`] judges what becomes of it. Invariant: reading takes no
//! more than a hundredth of the time, and a tenth behind definitions, on a connection of its own.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use backend::login::{Credential, LoggedIn};
use engine::account::name::UserName;
use engine::cache::Links;
use engine::cache::effects::OWN_ENGINES;
use engine::hidden::{Catalog, Grants, Table, tables};
use wire::handshake::UTF8MB4;

use crate::cluster::dial::{self, NoBackend};
use crate::cluster::members::ClusterId;
use crate::config::Plan;
use crate::features::cached::lost;
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use crate::users::User;
use crate::users::sight::{
    self, AGAIN, FoundDefinitions, PERIOD, PERIOD_MAX, Reader, Reading, ReadingGuard, Sight,
};
use crate::worker::tasks;

/// A user's first client waits for so long.
const FIRST_MAX: Duration = Duration::from_secs(2);

/// For so long it is waited until the server has ended a reader's connection.
const LEAVES: Duration = Duration::from_millis(250);

/// What the rows of one answer are told by, and how many answers there may be.
const PAGE: usize = 1000;
const PAGES_MAX: usize = 64;

/// Of so many tables it is asked in one statement whether they are seen.
const TABLES: usize = 200;

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

/// A table, and one of whose rows a foreign key disposes when rows of the first one change.
const KEYS: &str = "SELECT CONCAT(UNIQUE_CONSTRAINT_SCHEMA,CHAR(0 USING utf8mb4),REFERENCED_TABLE_NAME), \
    CONCAT(CONSTRAINT_SCHEMA,CHAR(0 USING utf8mb4),TABLE_NAME) FROM information_schema.REFERENTIAL_CONSTRAINTS \
    WHERE UPDATE_RULE NOT IN ('RESTRICT','NO ACTION') OR DELETE_RULE NOT IN ('RESTRICT','NO ACTION') \
    ORDER BY CONSTRAINT_SCHEMA, TABLE_NAME, CONSTRAINT_NAME";

/// Tables whose rows other tables have (`MERGE`), other servers (Federated, Spider, Connect), a sequence, or other moments
/// (history), and those of engines that are not known: a write of their rows need not name them.
const ELSEWHERE: &str = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE \
    TABLE_TYPE IN ('BASE TABLE','SYSTEM VERSIONED','SEQUENCE') AND (TABLE_TYPE<>'BASE TABLE' OR ENGINE IS NULL OR \
    ENGINE NOT IN ({own})) AND \
    TABLE_SCHEMA NOT IN ('sys','mysql','information_schema','performance_schema') ORDER BY TABLE_SCHEMA, TABLE_NAME";

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

/// Another plan is in force, and what it says of reading definitions.
pub(crate) fn adopt(shared: &Shared, old: &Plan) {
    let (hidden, plan) = (&shared.changes.hidden, shared.plan());
    let (was, is) = (&old.server, &plan.server);
    hidden.common.lock().has_told_blind = false;
    if !is.read_definitions {
        return forget(shared);
    }
    if was.accounts_user != is.accounts_user || !was.read_definitions {
        // What the reader before has found holds until this one has read.
        hidden.common.begin_anew();
    }
    if !was.read_definitions {
        hidden.has_unread.store(true, Relaxed);
    }
}

/// Definitions are not to be read: what is known of them counts no longer.
fn forget(shared: &Shared) {
    let hidden = &shared.changes.hidden;
    hidden.is_common_whole.store(false, Relaxed);
    hidden.forget(&hidden.common);
    hidden.readers().clear();
    for (_, user) in shared.proofs.users.all() {
        user.sight.all().iter().for_each(|sight| hidden.forget(sight));
    }
}

/// Reads the definitions if they may be others by now.
pub(crate) fn look_after(worker: &Rc<Worker>) {
    if worker.index != 0 {
        return;
    }
    let hidden = &worker.shared.changes.hidden;
    if !worker.plan().server.read_definitions {
        if hidden.knowing.load(Relaxed) > 0 {
            // A reading that was under way has ended since.
            forget(&worker.shared);
        }
        return;
    }
    if hidden.is_reading.swap(true, Relaxed) {
        return;
    }
    let worker = Rc::clone(worker);
    tasks::vital(async move {
        let hidden = &worker.shared.changes.hidden;
        let sees_all = match common_reader(&worker) {
            Some(name) => read_as_common(&worker, &name).await,
            None => false,
        };
        if !sees_all {
            begin_as_users(&worker).await;
        }
        read_as_users(&worker, sees_all).await;
        hidden.is_reading.store(false, Relaxed);
    });
}

/// As `server.accounts_user`. What it finds is for all users if it sees all, which is the answer.
async fn read_as_common(worker: &Worker, name: &UserName) -> bool {
    let hidden = &worker.shared.changes.hidden;
    read_if_due(worker, home(worker, name), name, &hidden.common, PERIOD).await;
    let is_whole = hidden.common.found().is_whole;
    if is_whole {
        hidden.is_common_whole.store(true, Relaxed);
    } else if hidden.is_common_whole.load(Relaxed) {
        tracing::warn!(user = %name, "this user does not see all definitions any more; each user reads for itself");
    }
    is_whole
}

/// No reader sees all, or not any more: users that have clients read for themselves.
async fn begin_as_users(worker: &Worker) {
    let hidden = &worker.shared.changes.hidden;
    if hidden.has_unread.swap(false, Relaxed) || hidden.is_common_whole.load(Relaxed) {
        // What the common reader has found holds until each has read for itself.
        for (name, user) in worker.shared.proofs.users.all() {
            if user.is_used() {
                read_first(worker, home(worker, &name), &name, &user).await;
            }
        }
        hidden.is_common_whole.store(false, Relaxed);
    }
    if common_reader(worker).is_none() && hidden.common.lock().last.is_some() {
        hidden.forget(&hidden.common);
    }
}

/// What users read for themselves is read again. `sees_all`: but for the cluster whose definitions the common reader
/// sees.
async fn read_as_users(worker: &Worker, sees_all: bool) {
    let hidden = &worker.shared.changes.hidden;
    let readers = hidden.readers().clone();
    for reader in readers {
        let Reader { user: name, cluster } = &reader;
        if sees_all && worker.shared.cluster.is_common(&worker.plan(), *cluster) {
            continue;
        }
        match worker.shared.proofs.users.get(name) {
            Some(user) if user.is_used() => {
                read_if_due(worker, *cluster, name, &user.sight.of(*cluster), PERIOD_MAX).await;
            }
            Some(_) => {}
            None => hidden.readers().retain(|other| *other != reader),
        }
    }
}

/// The cluster of a user's clients, as far as no schema says otherwise.
fn home(worker: &Worker, name: &UserName) -> ClusterId {
    worker.shared.cluster.serving(&worker.plan(), name)
}

/// A client of this user comes to a cluster: the first one waits until definitions were read there once.
pub(crate) async fn begin(worker: &Worker, cluster: ClusterId, name: &UserName, user: &User) {
    let hidden = &worker.shared.changes.hidden;
    let is_common = worker.shared.cluster.is_common(&worker.plan(), cluster);
    let is_told = || is_common && hidden.is_common_whole.load(Relaxed);
    let is_known = user.sight.of(cluster).first().initialized() || is_told();
    if is_known || !worker.plan().server.read_definitions {
        return;
    }
    let first = async {
        if let Some(reader) = common_reader(worker).filter(|_| is_common) {
            let read = async || _ = read_as_common(worker, &reader).await;
            hidden.common.first().get_or_init(read).await;
            hidden.common.await_reading().await;
        }
        if !is_told() {
            read_first(worker, cluster, name, user).await;
        }
    };
    // What takes longer is done at the next look.
    let _ = tokio::time::timeout(FIRST_MAX, first).await;
}

/// The first look of a user at a cluster's definitions; done when it was tried once.
async fn read_first(worker: &Worker, cluster: ClusterId, name: &UserName, user: &User) {
    let sight = user.sight.of(cluster);
    let first = sight.first();
    let read = async || {
        worker.shared.changes.hidden.add_reader(Reader { user: name.clone(), cluster });
        read_if_due(worker, cluster, name, &sight, PERIOD_MAX).await;
        sight.await_reading().await;
    };
    first.get_or_init(read).await;
}

/// The user as whom definitions are read for all users.
fn common_reader(worker: &Worker) -> Option<UserName> {
    worker.plan().server.accounts_user.as_deref().map(UserName::of_account)
}

async fn read_if_due(
    worker: &Worker,
    cluster: ClusterId,
    name: &UserName,
    sight: &Sight,
    period: Duration,
) {
    let (now, since) = (crate::worker::clock::read(), worker.shared.changes.alterations.now());
    if !sight.begins(now, since) {
        return;
    }
    let begun = ReadingGuard { sight };
    let read = read(worker, cluster, name).await;
    let in_force = worker.shared.plan();
    let is_common = std::ptr::eq(sight, &raw const worker.shared.changes.hidden.common);
    let is_reader = !is_common
        || in_force
            .server
            .accounts_user
            .as_ref()
            .is_some_and(|it| *name == UserName::of_account(it));
    if !in_force.server.read_definitions || !is_reader {
        // It is not to be read any more, or another user is to do it.
        return;
    }
    std::mem::forget(begun);
    let (took, period) = match read.is_ok() {
        true => (crate::worker::clock::since(now), period),
        // That took the time of a server that is away, which has no work of it. Until it is read, nothing is known.
        false => (Duration::ZERO, AGAIN),
    };
    let reading = Reading { at: crate::worker::clock::read(), took, since, period };
    let (knew, knows) = sight.learn(reading, read, name);
    worker.shared.changes.hidden.count(knew, knows);
    if worker.shared.rules().cache() {
        worker.shared.changes.hidden.tell_whether_kept(sight, name);
    }
}

async fn read(
    worker: &Worker,
    cluster: ClusterId,
    name: &UserName,
) -> Result<FoundDefinitions, NoBackend> {
    let user = worker.shared.proofs.users.get(name).ok_or(NoBackend::NoCredential)?;
    let server = worker.shared.cluster.greeter_in(cluster);
    let dialer = &worker.shared.cluster.dialer;
    let attempt = async |credential: &Credential| {
        dialer.log_in_as(server, name, credential, dial::POOLED, UTF8MB4).await
    };
    let mut reader = user.log_in(attempt).await?;
    let found = look(worker, &mut reader).await;
    if worker.shared.rules().cache()
        && let Ok(Some(times)) =
            tokio::time::timeout(worker.plan().limits.connect, lost::times(&mut reader)).await
    {
        server.facts.see_start(times.started());
    }
    // An account may be allowed one connection, which is the client's then.
    let _ = tokio::time::timeout(LEAVES, reader.leave()).await;
    found
}

/// What this reader sees.
async fn look(worker: &Worker, reader: &mut LoggedIn) -> Result<FoundDefinitions, NoBackend> {
    let (mut definitions, mut knows_views) = (Vec::new(), false);
    for page in 0..PAGES_MAX {
        let text = format!("{QUESTION} LIMIT {PAGE} OFFSET {}", page * PAGE);
        let rows = rows(worker, reader, &text).await?;
        definitions.extend(rows.iter().filter_map(sight::definition));
        if rows.len() < PAGE {
            knows_views = true;
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
    let behind = match is_whole && knows_views && worker.shared.rules().cache() {
        true => keys(worker, reader).await?.zip(elsewhere(worker, reader).await?),
        false => None,
    };
    // There may be megabytes of them: more than a iteration of the loop may take.
    let catalogs = tasks::apart(move || {
        let catalogs = [
            Catalog::new(&definitions, &seen),
            Catalog::asking_number(&definitions),
            Catalog::varying(&definitions),
        ];
        let links = behind.map(|(keys, elsewhere)| Links::new(&definitions, &keys, &elsewhere));
        (catalogs, links.map(Arc::new))
    });
    let catalogs = catalogs.await;
    knows_views &= catalogs.is_ok();
    let ([acting, asking, varying], links) = catalogs.unwrap_or_default();
    Ok(FoundDefinitions { acting, asking, varying, knows_views, hides_triggers, is_whole, links })
}

/// Foreign keys by which a write of one table changes rows of another one. `None`: there are too many, or some have no names
/// that can be read.
async fn keys(
    worker: &Worker,
    reader: &mut LoggedIn,
) -> Result<Option<Vec<(Table, Table)>>, NoBackend> {
    let table = |name: &[u8]| {
        let at = name.iter().position(|byte| *byte == 0)?;
        Some((name.get(..at)?.to_vec(), name.get(at + 1..)?.to_vec()))
    };
    let mut keys = Vec::new();
    for page in 0..PAGES_MAX {
        let text = format!("{KEYS} LIMIT {PAGE} OFFSET {}", page * PAGE);
        let rows = rows(worker, reader, &text).await?;
        let of_page = rows.iter().map(|(parent, child)| Some((table(parent)?, table(child)?)));
        let Some(of_page) = of_page.collect::<Option<Vec<_>>>() else { return Ok(None) };
        keys.extend(of_page);
        if rows.len() < PAGE {
            return Ok(Some(keys));
        }
    }
    Ok(None)
}

/// Tables whose rows are elsewhere. `None`: there are too many.
async fn elsewhere(
    worker: &Worker,
    reader: &mut LoggedIn,
) -> Result<Option<BTreeSet<Table>>, NoBackend> {
    let own: Vec<_> = OWN_ENGINES.iter().map(|engine| format!("'{engine}'")).collect();
    let question = ELSEWHERE.replace("{own}", &own.join(","));
    let mut tables = BTreeSet::new();
    for page in 0..PAGES_MAX {
        let text = format!("{question} LIMIT {PAGE} OFFSET {}", page * PAGE);
        let rows = rows(worker, reader, &text).await?;
        let lower = |(schema, table): &(Vec<u8>, Vec<u8>)| {
            (schema.to_ascii_lowercase(), table.to_ascii_lowercase())
        };
        tables.extend(rows.iter().map(lower));
        if rows.len() < PAGE {
            return Ok(Some(tables));
        }
    }
    Ok(None)
}

/// Which of these tables and views the reader sees.
async fn seen(
    worker: &Worker,
    reader: &mut LoggedIn,
    tables: &BTreeSet<Table>,
) -> Result<BTreeSet<Table>, NoBackend> {
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
) -> Result<Vec<(Vec<u8>, Vec<u8>)>, NoBackend> {
    let limit = worker.plan().limits.connect;
    let rows = tokio::time::timeout(limit, reader.rows(text)).await;
    Ok(rows.map_err(|_| NoBackend::Late("limits.connect", limit))??)
}
