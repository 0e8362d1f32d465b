//! What is known of the server's definitions: views and triggers that do what no server reports.
//!
//! What a definition does is `engine::hidden`'s to say; [`crate::frontend::hidden`] reads them, and
//! [`crate::routing::out_of_sight`] looks up what a statement names. Invariant: what cannot be read any more changes
//! nothing that was known; where nothing was ever read, triggers are taken to do anything.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use engine::cache::Links;
use engine::hidden::{Catalog, Definition, Kind, When};
use engine::schemas::Since;
use tokio::sync::OnceCell;

use crate::cluster::dial::NoBackend;
use crate::cluster::members::ClusterId;

/// What is known of the server's definitions, over all workers.
#[derive(Debug, Default)]
pub(crate) struct Hidden {
    /// How many readers know of something.
    pub(crate) knowing: AtomicU32,
    /// What `server.accounts_user` has read, and whether it sees all that there is.
    pub(crate) common: Sight,
    pub(crate) is_common_whole: AtomicBool,
    /// Users that have read for themselves, and where.
    pub(crate) readers: Mutex<Vec<Reader>>,
    /// They read one after the other.
    pub(crate) is_reading: AtomicBool,
    /// Users that have clients have not read yet: a user that saw all did it for them, or none was to.
    pub(crate) has_unread: AtomicBool,
}

/// A user that reads for itself, in a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reader {
    pub(crate) user: UserName,
    pub(crate) cluster: ClusterId,
}

/// What one reader knows.
#[derive(Debug)]
pub(crate) struct Sight {
    /// Done when it was tried once.
    first: Mutex<Arc<OnceCell<()>>>,
    pub(crate) found: RwLock<Arc<FoundDefinitions>>,
    pub(crate) state: Mutex<SightState>,
}

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FoundDefinitions {
    /// Objects that do what nothing tells.
    pub(crate) acting: Catalog,
    /// Objects that ask for the number of their reader's connection.
    pub(crate) asking: Catalog,
    /// Views whose rows may differ between clients or moments.
    pub(crate) varying: Catalog,
    /// All views were read that the reader may use.
    pub(crate) knows_views: bool,
    /// There may be triggers of which not even the name is seen.
    pub(crate) hides_triggers: bool,
    /// All definitions were seen.
    pub(crate) is_whole: bool,
    /// What stands behind tables; `None` where that was not asked for, or not all of it was seen.
    pub(crate) links: Option<Arc<Links>>,
}

/// What most users share: there may be as many as the server has accounts.
pub(crate) static NOTHING: LazyLock<Arc<FoundDefinitions>> = LazyLock::new(Arc::default);

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
pub(crate) struct SightState {
    pub(crate) is_reading: bool,
    pub(crate) last: Option<Reading>,
    /// The last attempt has failed, and that has been said.
    pub(crate) has_failed: bool,
    /// Of the common one: it has been said, under this plan, that no replies are kept because a reader does not see all.
    pub(crate) has_told_blind: bool,
}

/// One look at the definitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    pub(crate) at: Instant,
    pub(crate) took: Duration,
    /// No statement that may define something has ended since this.
    pub(crate) since: Since,
    /// How soon it is read again if no such statement has passed Flifo.
    pub(crate) period: Duration,
}

/// How soon definitions are read again after a statement that may have changed one, and if none has passed Flifo.
pub(crate) const SOON: Duration = Duration::from_secs(1);
pub(crate) const PERIOD: Duration = Duration::from_secs(10);
/// How soon if they could not be read.
pub(crate) const AGAIN: Duration = Duration::from_secs(3);
pub(crate) const PERIOD_MAX: Duration = Duration::from_secs(60);

/// So many times as long as reading takes, nothing is read; and behind a definition, for which replies that are kept wait.
pub(crate) const REST: u32 = 100;
const REST_CHANGED: u32 = 10;

impl Hidden {
    pub(crate) fn readers(&self) -> MutexGuard<'_, Vec<Reader>> {
        self.readers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add_reader(&self, reader: Reader) {
        let mut readers = self.readers();
        if !readers.contains(&reader) {
            readers.push(reader);
        }
    }

    /// What this one has found counts no longer, and it has read nothing.
    pub(crate) fn forget(&self, sight: &Sight) {
        self.count(sight.forget(), false);
    }

    /// Rules want replies kept, and a reader has read. Says once if it does not see all: then none are, whatever the
    /// rules say.
    pub(crate) fn tell_whether_kept(&self, sight: &Sight, user: &UserName) {
        let is_blind = sight.found().links.is_none() && !sight.lock().has_failed;
        if !is_blind || std::mem::replace(&mut self.common.lock().has_told_blind, true) {
            return;
        }
        tracing::warn!(
            %user,
            "rules say \"cache\", and this user does not see all views, triggers and foreign keys of the server: it is not \
             known what a write changes, so no replies are kept by what it sees; GRANT TRIGGER, SHOW VIEW ON *.* to it, \
             or name a user with these rights as server.accounts_user"
        );
    }

    /// A reader knows of something now, or did so before.
    pub(crate) fn count(&self, knew: bool, knows: bool) {
        match (knew, knows) {
            (false, true) => _ = self.knowing.fetch_add(1, Relaxed),
            (true, false) => _ = self.knowing.fetch_sub(1, Relaxed),
            _ => {}
        }
    }
}

impl FoundDefinitions {
    /// Whether a statement need be compared with it.
    fn tells(&self) -> bool {
        !self.acting.is_empty() || !self.asking.is_empty() || self.hides_triggers
    }
}

impl Default for Sight {
    fn default() -> Self {
        let found = RwLock::new(Arc::clone(&NOTHING));
        Self { first: Mutex::default(), found, state: Mutex::default() }
    }
}

impl Sight {
    pub(crate) fn found(&self) -> Arc<FoundDefinitions> {
        Arc::clone(&self.found.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// What was found, if no statement has passed since that may have defined something else.
    pub(crate) fn current(&self, now: Since) -> Option<Arc<FoundDefinitions>> {
        let state = self.lock();
        let is_current = !state.has_failed && state.last.is_some_and(|last| last.since == now);
        is_current.then(|| self.found())
    }

    /// The first reading, which all wait for that need it.
    pub(crate) fn first(&self) -> Arc<OnceCell<()>> {
        Arc::clone(&self.first.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// It is read again as if it had never been; what was found holds until then.
    pub(crate) fn begin_anew(&self) {
        let mut state = self.lock();
        (state.last, state.has_failed) = (None, false);
        drop(state);
        *self.first.lock().unwrap_or_else(PoisonError::into_inner) = Arc::default();
    }

    /// The same, and what was found counts no longer. The answer is whether that was something.
    fn forget(&self) -> bool {
        self.begin_anew();
        let mut known = self.found.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *known, Arc::clone(&NOTHING)).tells()
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, SightState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A look may have begun to read it.
    pub(crate) async fn await_reading(&self) {
        while self.lock().is_reading {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Whether nothing, or nothing new enough, is known; then it is going to be read.
    pub(crate) fn begins(&self, now: Instant, since: Since) -> bool {
        let mut state = self.lock();
        let is_due = state.last.is_none_or(|last| last.is_old(now, since));
        let begins = is_due && !state.is_reading;
        state.is_reading |= begins;
        begins
    }

    /// Takes over what was read. The answer is whether something was known before, and is now.
    pub(crate) fn learn(
        &self,
        reading: Reading,
        read: Result<FoundDefinitions, NoBackend>,
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
        // What was found is not to be taken for newer than it is.
        let mut known = self.found.write().unwrap_or_else(PoisonError::into_inner);
        let knew = known.tells();
        let found = match read {
            Ok(found) => found,
            Err(_) if is_first => {
                FoundDefinitions { hides_triggers: true, ..FoundDefinitions::default() }
            }
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
        let is_changed = since != self.since && age >= (self.took * REST_CHANGED).max(SOON);
        is_changed || age >= rest.clamp(self.period, PERIOD_MAX)
    }
}

pub(crate) fn tell_failure(user: &UserName, error: &NoBackend) {
    tracing::warn!(
        %user,
        %error,
        "the server's views, routines and triggers cannot be read: until they are, what views do that no server reports \
         (GET_LOCK, LAST_INSERT_ID(n), SELECT … INTO @x) may be seen by the connection's next client"
    );
}

pub(crate) fn tell(user: &UserName, found: &FoundDefinitions) {
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
        tracing::info!(
            %user,
            "the server may have triggers that this user does not see: what a statement leaves that may fire one is \
             undone before another client has its connection (one more round trip); to spare that, grant TRIGGER to this \
             user, or set users.triggers = \"trust\""
        );
    }
}

/// A reading that is under way; dropped, it has come to nothing.
pub(crate) struct ReadingGuard<'a> {
    pub(crate) sight: &'a Sight,
}

impl Drop for ReadingGuard<'_> {
    fn drop(&mut self) {
        self.sight.lock().is_reading = false;
    }
}

pub(crate) fn definition((key, text): &(Vec<u8>, Vec<u8>)) -> Option<Definition> {
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
    use std::collections::BTreeSet;

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
        assert!(!is_old(reading(260), 2, &alterations) && is_old(reading(260), 3, &alterations));
    }

    #[test]
    fn one_reads_at_a_time() {
        let (sight, now, since) = (Sight::default(), Instant::now(), Since::default());
        let user = UserName::of_account("u");
        assert!(sight.begins(now, since) && !sight.begins(now, since));
        let reading = Reading { at: now, took: Duration::ZERO, since, period: PERIOD };
        let learn = |read| sight.learn(reading, read, &user);
        assert_eq!(learn(Err(NoBackend::NoCredential)), (false, true));
        assert!(sight.found().hides_triggers, "nothing is known of them");
        assert!(!sight.begins(now, since) && sight.begins(now + PERIOD, since));
        drop(ReadingGuard { sight: &sight });
        assert!(sight.begins(now + PERIOD, since), "a reading that came to nothing");
        let view = definition(&(b"vs.v".to_vec(), b"s\0v\0".to_vec())).unwrap();
        let asks = definition(&(b"vs.w".to_vec(), b"s\0w\0connection_id()".to_vec())).unwrap();
        let found = || FoundDefinitions {
            acting: Catalog::new(std::slice::from_ref(&view), &BTreeSet::new()),
            asking: Catalog::asking_number(std::slice::from_ref(&asks)),
            ..FoundDefinitions::default()
        };
        assert_eq!(learn(Ok(found())), (true, true));
        assert_eq!(learn(Err(NoBackend::NoCredential)), (true, true));
        assert_eq!(*sight.found(), found(), "what cannot be read any more changes nothing");
        let nothing = FoundDefinitions { is_whole: true, ..FoundDefinitions::default() };
        assert_eq!(learn(Ok(nothing)), (true, false));
        assert_eq!(learn(Ok(FoundDefinitions::default())), (false, false));
        assert_eq!(*sight.found(), FoundDefinitions::default());
    }
}
