//! Follows a server's binary log as Flifo does, without Flifo: what ends, and when that is certain.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;
use std::time::{Duration, Instant};

use backend::binlog::{self, Events, Replica, Start};
use backend::login::{Credential, LoggedIn, Request, greet};
use backend::{Address, dial};
use engine::binlog::{Ending, Follower, LogPlace, LogTerms, Meaning, Unfollowable, ending_of};
use engine::cache::Generations;
use tokio::runtime::{Builder, Runtime};
use wire::Capabilities;
use wire::auth::Secret;
use wire::binlog::{Packet, Said};
use wire::handshake::UTF8MB4;

/// A server that is followed.
pub struct Watch {
    runtime: Runtime,
    asking: LoggedIn,
    events: Events,
    terms: LogTerms,
    follower: Follower,
    generations: Arc<Generations>,
}

/// Texts end all; foreign keys of MySQL are told as the schema `+`.
struct Plain;

impl Meaning for Plain {
    fn of_text(&self, said: &Said, ends: &mut Vec<Ending>) {
        ends.extend(ending_of(&said.text));
    }

    fn of_change(&self, _: &[u8], _: &[u8], ends: &mut Vec<Ending>) {
        ends.push(Ending::Schema(b"+".as_slice().into()));
    }
}

/// Nothing takes longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// So long after an answer that was of no use, the server is asked again.
const AGAIN: Duration = Duration::from_millis(50);

impl Watch {
    /// Begins.
    ///
    /// # Errors
    /// Why the server cannot be followed, as a text.
    pub fn begin(address: &Address, user: &str, password: &str) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let begun = runtime.block_on(async {
            let begin = begin(address, user, password);
            tokio::time::timeout(PATIENCE, begin).await.map_err(|_| "too late".to_owned())?
        });
        let (asking, events, terms, follower) = begun?;
        Ok(Self { runtime, asking, events, terms, follower, generations: Arc::default() })
    }

    /// What has ended since the last time, up to what the server has committed by now: each once, in the order of the
    /// log, as `schema.table`, or `*`.
    ///
    /// # Errors
    /// What ended the following.
    pub fn ends(&mut self) -> Result<Vec<String>, String> {
        let Self { runtime, asking, events, terms, follower, generations } = self;
        let mark = |ends: &[Ending]| ends.iter().for_each(|end| end.carry_out(generations));
        let ends = async {
            let (begin, mut all, mut again) = (Instant::now(), Vec::new(), Vec::new());
            let mut next_question = begin;
            loop {
                if next_question <= Instant::now() {
                    let asked = Instant::now();
                    next_question = asked + AGAIN;
                    let said =
                        binlog::committed(asking).await.map_err(|error| error.to_string())?;
                    let place = terms.place(&said.at, said.position);
                    let place = place.map_err(|refusal| refusal.to_string())?;
                    let answered = follower.answered(asked, place, said.commits);
                    answered.map_err(|gap| gap.to_string())?;
                }
                if let Some(settled) = follower.settle().map_err(|gap| gap.to_string())? {
                    mark(&settled.ends);
                    again.extend(settled.ends);
                    if settled.covered >= begin {
                        break;
                    }
                }
                // A heartbeat comes, if nothing else does.
                let packet = events.next().await.map_err(|error| error.to_string())?;
                let ends = take(follower, packet)?;
                mark(&ends);
                all.extend(ends);
            }
            // What ended when it was logged ends again once it is visible.
            assert!(
                all.iter().all(|end| again.contains(end) || again.iter().any(Ending::is_of_all))
            );
            let mut shown: Vec<String> = Vec::new();
            for end in all.iter().map(show) {
                if !shown.contains(&end) {
                    shown.push(end);
                }
            }
            Ok(shown)
        };
        runtime.block_on(async {
            tokio::time::timeout(PATIENCE, ends).await.map_err(|_| "too late".to_owned())?
        })
    }

    /// Changes with what has ended.
    pub fn generations(&self) -> Arc<Generations> {
        Arc::clone(&self.generations)
    }

    /// Up to when all is known.
    pub fn covered(&self) -> Instant {
        self.follower.covered()
    }

    /// Whether rows are logged.
    pub fn logs_rows(&self) -> bool {
        self.terms.logs_rows
    }

    /// How much of an event is held.
    pub fn held(&self) -> usize {
        self.events.held()
    }
}

fn take(follower: &mut Follower, packet: Packet<'_>) -> Result<Vec<Ending>, String> {
    match packet {
        Packet::Event(header, event) => {
            follower.take(&header, event, &Plain).map_err(|gap| gap.to_string())
        }
        Packet::Refused(packet) => Err(backend::login::LoginError::refused(packet).to_string()),
        Packet::End => Err("the stream has ended".to_owned()),
    }
}

fn show(end: &Ending) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match end {
        Ending::Table { schema, name } => format!("{}.{}", text(schema), text(name)),
        Ending::Schema(schema) => text(schema),
        Ending::Everything => "*".to_owned(),
        Ending::Definitions => "**".to_owned(),
    }
}

async fn log_in(address: &Address, user: &str, password: &str) -> Result<LoggedIn, String> {
    let credential = Credential::Password(Secret::from(password));
    let request = Request {
        user: user.as_bytes(),
        credential: &credential,
        capabilities: Capabilities::QUESTIONS | Capabilities::DEPRECATE_EOF,
        collation: UTF8MB4,
        packet_max: 1 << 24,
        schema: None,
    };
    let stream = dial::dial(address).await.map_err(|error| error.to_string())?;
    let greeted = greet(stream).await.map_err(|error| error.to_string())?;
    greeted.login(&request, None).await.map_err(|error| error.to_string())
}

async fn describe(server: &mut LoggedIn) -> Result<LogTerms, String> {
    let said = binlog::describe(server).await.map_err(|error| error.to_string())?;
    let terms = LogTerms::read(server.is_mariadb, &said.variables, &said.filters);
    terms.map_err(|refusal: Unfollowable| refusal.to_string())
}

async fn begin(
    address: &Address,
    user: &str,
    password: &str,
) -> Result<(LoggedIn, Events, LogTerms, Follower), String> {
    let mut asking = log_in(address, user, password).await?;
    let terms = describe(&mut asking).await?;
    binlog::prepare(&mut asking).await.map_err(|error| error.to_string())?;
    let asked = Instant::now();
    let said = binlog::committed(&mut asking).await.map_err(|error| error.to_string())?;
    terms.allow(said.is_replicating).map_err(|refusal| refusal.to_string())?;
    let place = terms.place(&said.at, said.position).map_err(|refusal| refusal.to_string())?;
    let from = match &place {
        LogPlace::File(place) => Start::File { name: said.at, position: place.at() as u32 },
        LogPlace::Executed(set) => Start::Executed(set.encode().expect("it has no tags")),
    };
    let heartbeat = Duration::from_millis(100);
    // Another one at each time.
    let number = RandomState::new().build_hasher().finish() as u32 | 1 << 31;
    let uuid = format!("{number:08x}-0000-0000-0000-000000000000");
    let replica = Replica { number, uuid: &uuid, name: "testkit", heartbeat };
    let sending = log_in(address, user, password).await?;
    let events = Events::begin(sending, &replica, &from).await;
    let events = events.map_err(|error| error.to_string())?;
    Ok((asking, events, terms, Follower::new(place, said.commits, asked)))
}
