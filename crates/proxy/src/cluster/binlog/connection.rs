//! One time of following a server: two connections, from the first question to what ends it.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use backend::binlog::{self, Events, EventsError, Replica, Start};
use backend::login::{LoggedIn, LoginError};
use engine::binlog::{
    Ending, Follower, Gap, LogPlace, LogTerms, Meaning, References, Unfollowable, ending_of,
};
use engine::cache::Generations;
use tokio::time::timeout;
use wire::binlog::{Packet, Said};

use super::{DefinitionsTold, LOOK, Subject, subject};
use crate::cluster::Cluster;
use crate::cluster::checks::log_in;
use crate::cluster::dial::NoBackend;
use crate::cluster::followed::Followed;
use crate::cluster::members::ClusterId;

/// Why a server is not followed any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("{0}")]
    Server(#[from] NoBackend),
    #[error("{0}{hint}", hint = hint(.0))]
    Answer(#[from] LoginError),
    #[error("{0}")]
    Events(EventsError),
    #[error("{0}{hint}", hint = hint(.0))]
    Refused(LoginError),
    #[error("{0}")]
    LogTerms(Unfollowable),
    #[error("{0}")]
    Gap(Gap),
    #[error("two connections lead to different servers")]
    Different,
    #[error("the server's file is longer than 4 GiB: FLUSH BINARY LOGS begins another one")]
    TooFar,
    #[error("the server has not answered for {0:?}")]
    Silent(Duration),
    #[error("the server is read_only now, or is not any more")]
    Role,
    #[error("the server to follow is another one, or is to be followed in another way")]
    Changed,
}

impl Lost {
    /// Whether something went wrong, rather than that it was decided otherwise.
    pub(super) const fn is_failure(&self) -> bool {
        !matches!(self, Self::Changed)
    }
}

/// Which rights are missing.
fn hint(error: &LoginError) -> &'static str {
    match error {
        LoginError::Refused { code: 1227 | 1045, .. } => {
            ": grant REPLICATION SLAVE, and on MariaDB BINLOG MONITOR, on MySQL REPLICATION CLIENT, ON *.* to \
             cache.binlog_user"
        }
        _ => "",
    }
}

impl From<Gap> for Lost {
    fn from(gap: Gap) -> Self {
        Self::Gap(gap)
    }
}

impl From<Unfollowable> for Lost {
    fn from(refusal: Unfollowable) -> Self {
        Self::LogTerms(refusal)
    }
}

impl From<EventsError> for Lost {
    fn from(error: EventsError) -> Self {
        match error {
            EventsError::Login(error) => Self::Refused(error),
            error => Self::Events(error),
        }
    }
}

/// So often a server that writes nothing says so; it is given up after so many times that.
const HEARTBEAT: Duration = Duration::from_secs(1);
const SILENCE: Duration = Duration::from_secs(5);

/// A server is asked how far it is this many times in `cache.binlog_lag_max`, but within these bounds.
const TIMES: u32 = 4;
const OFTEN: Duration = Duration::from_millis(1);
const SELDOM: Duration = Duration::from_millis(250);

/// A server that is followed.
struct Following<'a> {
    terms: LogTerms,
    followed: &'a Followed,
    generations: &'a Generations,
    told: &'a DefinitionsTold,
    follower: RefCell<Follower>,
    meaning: Learnt,
}

/// What is known of texts and foreign keys.
struct Learnt {
    is_mariadb: bool,
    /// Of MySQL, which does not log what foreign keys change. Not known since a definition may have changed.
    references: RefCell<Option<References>>,
    /// They cannot be read: the account lacks the right `PROCESS`, or a name is written in a way that is not read.
    is_blind: Cell<bool>,
    /// How many texts there were that may have changed them.
    texts: Cell<u64>,
}

impl Meaning for Learnt {
    fn of_text(&self, said: &Said, ends: &mut Vec<Ending>) {
        let ending = ending_of(&said.text);
        if ending == Some(Ending::Definitions) {
            self.texts.set(self.texts.get() + 1);
            self.references.replace(None);
        }
        ends.extend(ending);
    }

    fn of_change(&self, schema: &[u8], table: &[u8], ends: &mut Vec<Ending>) {
        if self.is_mariadb {
            // It names these tables itself.
            return;
        }
        match &*self.references.borrow() {
            Some(references) => references.of(schema, table, ends),
            None => ends.push(Ending::Everything),
        }
    }
}

/// Follows a server until that ends; why it did.
pub(super) async fn follow(
    cluster: &Cluster,
    id: ClusterId,
    it: &Subject,
    told: &DefinitionsTold,
) -> Lost {
    match begin(cluster, id, it, told).await {
        Ok((following, events, asking)) => {
            let ended = tokio::select! {
                // Time comes before events, which can come without an end.
                biased;
                () = change(cluster, id, it) => Err(Lost::Changed),
                ended = following.ask(asking, it) => ended,
                ended = following.take_events(events) => ended,
            };
            ended.err().unwrap_or(Lost::Changed)
        }
        Err(lost) => lost,
    }
}

/// Ends when something else is to be followed.
async fn change(cluster: &Cluster, id: ClusterId, it: &Subject) {
    while subject(cluster, id).as_ref() == Ok(it) {
        tokio::time::sleep(LOOK).await;
    }
}

async fn begin<'a>(
    cluster: &'a Cluster,
    id: ClusterId,
    it: &Subject,
    told: &'a DefinitionsTold,
) -> Result<(Following<'a>, Events, LoggedIn), Lost> {
    let server = cluster.server(it.server);
    let mut asking = log_in(cluster, server, &it.user, &it.password).await?;
    let terms = within(describe(&mut asking)).await?;
    within(async { Ok(binlog::prepare(&mut asking).await?) }).await?;
    let asked = crate::worker::clock::read();
    let committed = within(async { Ok(binlog::committed(&mut asking).await?) }).await?;
    terms.allow(committed.is_replicating)?;
    if committed.is_read_only && !it.is_only {
        return Err(Lost::Role);
    }
    let place = terms.place(&committed.at, committed.position)?;
    let mut sending = log_in(cluster, server, &it.user, &it.password).await?;
    if within(describe(&mut sending)).await?.identity != terms.identity {
        return Err(Lost::Different);
    }
    let from = from(&place, committed.at)?;
    let (number, uuid) = names(it.number);
    let replica = Replica { number, uuid: &uuid, name: "flifo", heartbeat: HEARTBEAT };
    let events = within(async { Ok(Events::begin(sending, &replica, &from).await?) }).await?;
    let references = match terms.is_mariadb {
        true => None,
        false => within(references(&mut asking)).await?,
    };
    if !terms.is_mariadb && references.is_none() {
        let (cluster, server) = (&cluster.get(id).name, &server.name);
        tracing::warn!(cluster, server, "{}", BLIND);
    }
    if !terms.logs_rows {
        let (cluster, server) = (&cluster.get(id).name, &server.name);
        tracing::warn!(cluster, server, "{}", TEXTS);
    }
    let members = cluster.get(id);
    let (followed, generations) = (&members.followed, &*members.generations);
    let meaning = Learnt {
        is_mariadb: terms.is_mariadb,
        is_blind: Cell::new(!terms.is_mariadb && references.is_none()),
        references: RefCell::new(references),
        texts: Cell::new(0),
    };
    // What was read before the server answered may be older than what events will tell.
    generations.everything();
    told();
    followed.begin(&server.name, asked);
    let follower = RefCell::new(Follower::new(place, committed.commits, asked));
    Ok((Following { terms, followed, generations, told, follower, meaning }, events, asking))
}

const TEXTS: &str = "the server logs statements as texts, each of which ends all of the cluster's entries: set \
    binlog_format = ROW in its configuration";

const BLIND: &str = "foreign keys cannot be read, and the server does not log what they change, so each UPDATE and \
    DELETE ends all of the cluster's entries: grant PROCESS ON *.* to cache.binlog_user, and name tables by letters, \
    digits and underscores";

/// A server that does not answer is not waited for.
async fn within<T>(answer: impl Future<Output = Result<T, Lost>>) -> Result<T, Lost> {
    timeout(SILENCE, answer).await.map_err(|_| Lost::Silent(SILENCE))?
}

async fn describe(server: &mut LoggedIn) -> Result<LogTerms, Lost> {
    let described = binlog::describe(server).await?;
    Ok(LogTerms::read(server.is_mariadb, &described.variables, &described.filters)?)
}

async fn references(server: &mut LoggedIn) -> Result<Option<References>, Lost> {
    let pairs = binlog::references(server).await?;
    Ok(pairs.and_then(|pairs| {
        References::read(pairs.iter().map(|(child, parent)| (&**child, &**parent)))
    }))
}

/// Where events are to begin.
fn from(place: &LogPlace, file: Vec<u8>) -> Result<Start, Lost> {
    match place {
        LogPlace::File(place) => {
            let position = u32::try_from(place.at()).map_err(|_| Lost::TooFar)?;
            Ok(Start::File { name: file, position })
        }
        LogPlace::Executed(set) => {
            let unknown = Unfollowable::Unreadable("its transactions, which have tags");
            Ok(Start::Executed(set.encode().ok_or(unknown)?))
        }
    }
}

/// The number and the UUID of a replica: a server ends the connection of another one that has the same.
fn names(number: Option<u32>) -> (u32, String) {
    let mut bytes = [0; 16];
    let is_random = sys::random::fill(&mut bytes).is_ok();
    let drawn = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    let drawn = if is_random { drawn } else { std::process::id() };
    let hex = format!("{:032x}", u128::from_be_bytes(bytes) ^ u128::from(drawn));
    let uuid = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-");
    // Servers of a site have low numbers.
    (number.unwrap_or(drawn | 1 << 31), uuid)
}

impl Following<'_> {
    async fn take_events(&self, mut events: Events) -> Result<(), Lost> {
        loop {
            let packet = timeout(SILENCE, events.next()).await;
            let packet = packet.map_err(|_| Lost::Silent(SILENCE))??;
            match packet {
                Packet::Event(header, event) => {
                    let mut follower = self.follower.borrow_mut();
                    let ends = follower.take(&header, event, &self.meaning)?;
                    self.end(&ends);
                    if !ends.is_empty() {
                        self.followed.count(ends.len());
                    }
                }
                Packet::Refused(payload) => {
                    return Err(Lost::Refused(LoginError::refused(payload)));
                }
                Packet::End => return Err(Lost::Events(EventsError::End)),
            }
            if !events.has_more() {
                self.settle()?;
            }
        }
    }

    /// Asks again and again how far the server has committed.
    async fn ask(&self, mut asking: LoggedIn, it: &Subject) -> Result<(), Lost> {
        let pause = (it.lag_max / TIMES).clamp(OFTEN, SELDOM);
        let mut role = None;
        loop {
            let asked = crate::worker::clock::read();
            let committed = within(async { Ok(binlog::committed(&mut asking).await?) }).await?;
            self.terms.allow(committed.is_replicating)?;
            if *role.get_or_insert(committed.is_read_only) != committed.is_read_only {
                return Err(Lost::Role);
            }
            let place = self.terms.place(&committed.at, committed.position)?;
            self.follower.borrow_mut().answered(asked, place, committed.commits)?;
            self.settle()?;
            self.followed.reach(self.follower.borrow().place().to_string());
            self.learn(&mut asking).await?;
            tokio::time::sleep(pause).await;
        }
    }

    /// Reads foreign keys anew, if a definition has changed and that is visible.
    async fn learn(&self, asking: &mut LoggedIn) -> Result<(), Lost> {
        let is_known = self.terms.is_mariadb || self.meaning.references.borrow().is_some();
        if is_known || self.meaning.is_blind.get() || !self.follower.borrow().is_settled() {
            return Ok(());
        }
        let texts = self.meaning.texts.get();
        let references = within(references(asking)).await?;
        if self.meaning.texts.get() == texts {
            self.meaning.references.replace(references);
        }
        Ok(())
    }

    fn settle(&self) -> Result<(), Lost> {
        let settled = self.follower.borrow_mut().settle()?;
        if let Some(settled) = settled {
            self.end(&settled.ends);
            self.followed.cover(settled.covered);
        }
        Ok(())
    }

    fn end(&self, ends: &[Ending]) {
        ends.iter().for_each(|end| end.carry_out(self.generations));
        if ends.contains(&Ending::Definitions) {
            (self.told)();
        }
    }
}
