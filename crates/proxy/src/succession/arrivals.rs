//! What two Flifos say to each other of which one takes over from the other, over a [`Passage`].
//!
//! The old one has the new one started, and they tell their versions and what they speak ([`FORM`]). Then the new one
//! makes all ready that can fail, and says so; the old one stops accepting, and says *go*. From then on the new one
//! accepts; clients and backends follow ([`crate::succession::departure`], [`crate::frontend::arrival`]), each with its
//! sockets. Whichever of them finds the other's end closed goes on with what is its own.
//!
//! A frame begins with its kind, and the numbers of a worker and of a client where it concerns one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::AcqRel};
use std::time::Duration;

use engine::kill::{FIRST_CLIENT_ID, Neighbour};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sys::identity::Watched;
use sys::passing::{Delivery, Passage};
use view::digests::Told;
use wire::auth::Secret;

use crate::cluster::memory::Memories;
use crate::frontend::arrival::{self, NoArrival};
use crate::road::kill_orders;
use crate::state::description::{Departure, FORM, KillMessage, Reception};
use crate::state::predecessor;
use crate::state::shared::Shared;
use crate::state::worker::Worker;
use crate::users::bequeathed::Bequest;
use crate::worker::counters::Totals;
use crate::worker::listening::ListeningSocket;

/// Why one Flifo does not take over from another.
#[derive(Debug, thiserror::Error)]
pub enum SuccessionError {
    #[error("the other Flifo cannot be spoken with: {0}")]
    Io(#[from] io::Error),
    #[error("the other Flifo has ended")]
    Ended,
    #[error("Flifo {version} hands sessions over in form {theirs}, this one takes form {FORM}")]
    Form { version: String, theirs: u32 },
    #[error("the other Flifo says what this one does not understand: {0}")]
    Unknown(#[from] serde_json::Error),
    #[error("the other Flifo says something out of its turn")]
    OutOfTurn,
}

/// The first that each tells the other.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Greeting {
    pub(crate) form: u32,
    pub(crate) version: String,
    pub(crate) pid: u32,
    pub(crate) generation: u32,
    pub(crate) workers: usize,
    /// The sockets that come with it.
    pub(crate) listening: Vec<Named>,
}

/// A socket that is listened on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Named {
    pub(crate) purpose: String,
    pub(crate) is_own_path: bool,
}

/// What a frame is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Greeting,
    Ready,
    Go,
    Client,
    Backend,
    Yours,
    Secret,
    Taken,
    Refused,
    /// What the old one has counted since it last told that.
    Count,
    /// What statements have cost there.
    Digests,
    /// An order to kill a client that the other one may have, or what has come of one.
    Kill,
    /// All that the old one had is gone.
    End,
}

impl Kind {
    const ALL: [(Self, u8); 13] = [
        (Self::Greeting, b'H'),
        (Self::Ready, b'R'),
        (Self::Go, b'G'),
        (Self::Client, b'C'),
        (Self::Backend, b'B'),
        (Self::Yours, b'Y'),
        (Self::Secret, b'P'),
        (Self::Taken, b'T'),
        (Self::Refused, b'N'),
        (Self::Count, b'S'),
        (Self::Digests, b'D'),
        (Self::Kill, b'K'),
        (Self::End, b'E'),
    ];
}

/// The kind of a frame, and the numbers that it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    kind: Kind,
    worker: u32,
    client: u32,
}

const HEAD: usize = 9;

impl Head {
    const fn new(kind: Kind) -> Self {
        Self { kind, worker: 0, client: 0 }
    }

    fn of_client(kind: Kind, worker: usize, client: u32) -> Self {
        Self { kind, worker: worker as u32, client }
    }

    fn frame(self, body: &[u8]) -> Vec<u8> {
        let letter = Kind::ALL.iter().find(|it| it.0 == self.kind).map_or(0, |it| it.1);
        let mut frame = Vec::with_capacity(HEAD + body.len());
        frame.push(letter);
        frame.extend_from_slice(&self.worker.to_le_bytes());
        frame.extend_from_slice(&self.client.to_le_bytes());
        frame.extend_from_slice(body);
        frame
    }

    fn read(frame: &[u8]) -> Option<(Self, &[u8])> {
        let (head, body) = frame.split_first_chunk::<HEAD>()?;
        let [letter, a, b, c, d, e, f, g, h] = *head;
        let kind = Kind::ALL.into_iter().find(|it| it.1 == letter)?.0;
        let worker = u32::from_le_bytes([a, b, c, d]);
        Some((Self { kind, worker, client: u32::from_le_bytes([e, f, g, h]) }, body))
    }
}

/// One Flifo's end.
#[derive(Debug)]
pub(crate) struct Conversation(Passage);

impl Conversation {
    pub(crate) const fn new(passage: Passage) -> Self {
        Self(passage)
    }

    fn say(&self, kind: Kind) -> Result<(), SuccessionError> {
        Ok(self.0.send(&Head::new(kind).frame(&[]), &[])?)
    }

    fn hear(&self) -> Result<Delivery, SuccessionError> {
        self.0.receive()?.ok_or(SuccessionError::Ended)
    }

    fn await_kind(&self, kind: Kind) -> Result<Delivery, SuccessionError> {
        let message = self.hear()?;
        match Head::read(&message.bytes) {
            Some((head, _)) if head.kind == kind => Ok(message),
            _ => Err(SuccessionError::OutOfTurn),
        }
    }

    fn greet(&self, greeting: &Greeting, files: &[OwnedFd]) -> Result<(), SuccessionError> {
        let frame = Head::new(Kind::Greeting).frame(&serde_json::to_vec(greeting)?);
        let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
        Ok(self.0.send(&frame, &files)?)
    }

    fn await_greeting(&self) -> Result<(Greeting, Vec<OwnedFd>), SuccessionError> {
        let Delivery { bytes, files } = self.await_kind(Kind::Greeting)?;
        let greeting: Greeting = body(&bytes)?;
        match greeting.form == FORM {
            true => Ok((greeting, files)),
            false => {
                let Greeting { version, form: theirs, .. } = greeting;
                Err(SuccessionError::Form { version, theirs })
            }
        }
    }

    /// Whether a client is expected here. False: the old one is gone.
    fn answer(&self, head: Head, expected: &Result<(), NoArrival>) -> bool {
        let (kind, why) = match expected {
            Ok(()) => (Kind::Taken, String::new()),
            Err(why) => (Kind::Refused, why.to_string()),
        };
        self.0.send(&Head { kind, ..head }.frame(why.as_bytes()), &[]).is_ok()
    }

    fn tell_of_kill(&self, message: &KillMessage) -> Result<(), SuccessionError> {
        Ok(self.0.send(&Head::new(Kind::Kill).frame(&serde_json::to_vec(message)?), &[])?)
    }

    /// Nothing goes either way any more.
    pub(crate) fn close(&self) {
        self.0.close();
    }
}

fn body<T: DeserializeOwned>(frame: &[u8]) -> Result<T, SuccessionError> {
    Ok(serde_json::from_slice(frame.get(HEAD..).unwrap_or_default())?)
}

fn own_greeting(generation: u32, workers: usize, listening: Vec<Named>) -> Greeting {
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Greeting { form: FORM, version, pid: std::process::id(), generation, workers, listening }
}

/// The new one is to make all ready within this time.
const PATIENCE: Duration = Duration::from_secs(80);

// The old one's side.

impl Conversation {
    /// Tells the new Flifo of the sockets, and waits until it has made all ready. What it says of itself.
    pub(crate) fn prepare(
        &self,
        shared: &Shared,
        listening: Vec<ListeningSocket>,
    ) -> Result<Greeting, SuccessionError> {
        self.0.wait_at_most(Some(PATIENCE))?;
        let (mut named, mut files) = (Vec::new(), Vec::new());
        for ListeningSocket { door: (purpose, _), socket, is_own_path } in listening {
            named.push(Named { purpose: purpose.to_owned(), is_own_path });
            files.push(socket);
        }
        self.greet(
            &own_greeting(shared.succession.generation, shared.worker_count(), named),
            &files,
        )?;
        let (greeting, _) = self.await_greeting()?;
        self.await_kind(Kind::Ready)?;
        self.0.wait_at_most(None)?;
        Ok(greeting)
    }

    /// The new one accepts from now on, and goes on from what is known of servers.
    pub(crate) fn go(&self, shared: &Shared) -> Result<(), SuccessionError> {
        let known = serde_json::to_vec(&Memories::of(&shared.cluster))?;
        Ok(self.0.send(&Head::new(Kind::Go).frame(&known), &[])?)
    }

    /// Sends what workers have to send, until none of them has anything more.
    pub(crate) fn send_all(
        &self,
        departures: &std::sync::mpsc::Receiver<Departure>,
    ) -> Result<(), SuccessionError> {
        for departure in departures {
            match departure {
                Departure::Client { worker, id, description, files } => {
                    let frame = Head::of_client(Kind::Client, worker, id).frame(&description);
                    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
                    self.0.send(&frame, &files)?;
                }
                Departure::Backend { worker, description, file } => {
                    let frame = Head::of_client(Kind::Backend, worker, 0).frame(&description);
                    self.0.send(&frame, &[file.as_fd()])?;
                }
                Departure::Yours { worker, id } => {
                    self.0.send(&Head::of_client(Kind::Yours, worker, id).frame(&[]), &[])?;
                }
                Departure::Secret(bequest) => {
                    let written = bequest.written();
                    let frame = Secret::from(Head::new(Kind::Secret).frame(written.as_bytes()));
                    self.0.send(frame.as_bytes(), &[])?;
                }
                Departure::Count(counted) => {
                    let frame = Head::new(Kind::Count).frame(&serde_json::to_vec(&counted)?);
                    self.0.send(&frame, &[])?;
                }
                Departure::Digests(told) => {
                    let frame = Head::new(Kind::Digests).frame(&serde_json::to_vec(&told)?);
                    self.0.send(&frame, &[])?;
                }
                Departure::Kill(message) => self.tell_of_kill(&message)?,
                Departure::End => return self.say(Kind::End),
            }
        }
        Ok(())
    }

    /// Hears what the new one says of each client, and orders to kill, until it ends.
    pub(crate) fn hear_receptions(
        &self,
        shared: &Shared,
        mut hear: impl FnMut(usize, u32, Reception, &str),
    ) -> Silence {
        while let Ok(Some(message)) = self.0.receive() {
            let Some((head, body)) = Head::read(&message.bytes) else { return Silence::Confused };
            let verdict = match head.kind {
                Kind::Taken => Reception::Taken,
                Kind::Refused => Reception::Refused,
                Kind::Kill => match self::body(&message.bytes) {
                    Ok(message) => {
                        kill_orders::hear(shared, Neighbour::After, message);
                        continue;
                    }
                    Err(_) => return Silence::Confused,
                },
                _ => return Silence::Confused,
            };
            hear(head.worker as usize, head.client, verdict, &String::from_utf8_lossy(body));
        }
        Silence::Gone
    }
}

/// Why the new Flifo says nothing more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Silence {
    /// Its process has ended.
    Gone,
    /// It says what makes no sense: it may live, and serve what it was told of.
    Confused,
}

// The new one's side.

/// The Flifo before this one, which hands over.
#[derive(Debug)]
pub struct Predecessor {
    conversation: Conversation,
    greeting: Greeting,
    files: Vec<OwnedFd>,
    /// None: it cannot be watched.
    process: Option<Watched>,
}

/// A process that is killed closes its sockets a moment before it has ended.
const LAST_MOMENT: Duration = Duration::from_secs(5);

impl Predecessor {
    /// That at the other end of this socket. Waits for what it says of itself.
    pub fn meet(socket: OwnedFd) -> Result<Self, SuccessionError> {
        let conversation = Conversation::new(Passage::of(socket));
        conversation.0.wait_at_most(Some(PATIENCE))?;
        let met = conversation.await_greeting();
        // It is told this one's form in any case, so that both can say what is wrong.
        conversation.greet(&own_greeting(0, 0, Vec::new()), &[])?;
        let (greeting, files) = met?;
        match greeting.listening.len() == files.len() {
            true => {
                let process = Watched::of(greeting.pid).ok().flatten();
                Ok(Self { conversation, greeting, files, process })
            }
            false => Err(SuccessionError::OutOfTurn),
        }
    }

    /// How many Flifos have handed over before this one.
    pub(crate) const fn generation(&self) -> u32 {
        self.greeting.generation + 1
    }

    /// The sockets that it listened on: for what, whether Flifo has made their paths.
    pub(crate) fn take_sockets(&mut self) -> Vec<(String, bool, OwnedFd)> {
        let files = std::mem::take(&mut self.files);
        let named = self.greeting.listening.iter().zip(files);
        named.map(|(it, file)| (it.purpose.clone(), it.is_own_path, file)).collect()
    }

    /// All that can fail has been done: waits for the word to accept clients, and for what the other one knows of
    /// servers. Where it has been killed before it said that, this one is the only one left.
    pub(crate) fn await_go(&self) -> Result<Option<Memories>, SuccessionError> {
        let told = self.conversation.say(Kind::Ready);
        match told.and_then(|()| self.conversation.await_kind(Kind::Go)) {
            Ok(Delivery { bytes, .. }) => {
                self.conversation.0.wait_at_most(None)?;
                // Older ones say nothing of that.
                let known = bytes.get(HEAD..).filter(|known| !known.is_empty());
                let known = known.map(serde_json::from_slice).transpose();
                Ok(known.unwrap_or_else(|error| {
                    let error = error.to_string();
                    tracing::warn!(
                        error,
                        "what the Flifo before knows of servers is not understood"
                    );
                    None
                }))
            }
            Err(SuccessionError::Ended | SuccessionError::Io(_)) if self.has_ended() => {
                let pid = self.greeting.pid;
                tracing::warn!(
                    pid,
                    "the Flifo before has ended with its clients: this one accepts new ones"
                );
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn has_ended(&self) -> bool {
        let ended = |it: &Watched| it.has_ended_within(LAST_MOMENT).unwrap_or(false);
        self.process.as_ref().is_some_and(ended)
    }

    /// Takes what comes, until the other one has nothing left, or is gone. Has a thread of its own.
    pub(crate) fn take_over(self, shared: &Arc<Shared>) {
        shared.arrive(true);
        let Self { conversation, greeting, .. } = self;
        let conversation = Arc::new(conversation);
        let talk = Arc::clone(&conversation);
        // If it is gone, this thread is told so.
        let tell = move |message| drop(talk.tell_of_kill(&message));
        shared.succession.neighbours.join(Neighbour::Before, Arc::new(tell));
        shared.succession.predecessor.begin(greeting.pid, &greeting.version);
        let mut taken = 0_u64;
        let end = loop {
            // What is under way is whose?
            let Ok(Some(Delivery { bytes, files })) = conversation.0.receive() else { break true };
            let Some((head, body)) = Head::read(&bytes) else { break false };
            match head.kind {
                Kind::Kill => match self::body(&bytes) {
                    Ok(message) => kill_orders::hear(shared, Neighbour::Before, message),
                    Err(_) => break false,
                },
                Kind::Client | Kind::Backend => {
                    let client = (head.kind == Kind::Client).then_some(head.client);
                    let coming = Coming { client, description: body.to_vec(), files };
                    let talk = Arc::clone(&conversation);
                    let answer = move |expected: &_| talk.answer(head, expected);
                    let home = home(shared, greeting.workers, head.worker as usize, client);
                    shared.have_done(home, move |worker| take_in(worker, coming, answer));
                }
                Kind::Yours => {
                    taken += 1;
                    let id = head.client;
                    let home = home(shared, greeting.workers, head.worker as usize, Some(id));
                    shared.have_done(home, move |worker| arrival::take(worker, id));
                }
                Kind::Secret => {
                    let bequest = Bequest::read(body);
                    // Nothing of it stays in memory that is not kept for secrets.
                    drop(Secret::from(bytes));
                    match bequest {
                        Some(bequest) => shared.proofs.bequeathed.add(bequest),
                        None => break false,
                    }
                }
                Kind::Count => match self::body::<Totals>(&bytes) {
                    Ok(totals) => {
                        predecessor::hear(shared, &totals);
                        shared.have_done(0, move |worker| {
                            worker.counters.add(&totals);
                            worker.learnt.tally.add_errors(&totals);
                        });
                    }
                    Err(_) => break false,
                },
                Kind::Digests => match self::body::<Vec<Told>>(&bytes) {
                    Ok(told) => shared.have_done(0, move |worker| {
                        let servers = &worker.shared.cluster.servers;
                        worker.learnt.tally.take_in(told, |name| {
                            let found = servers.iter().find(|server| server.name == name)?;
                            u32::try_from(found.id.0).ok()
                        });
                    }),
                    Err(_) => break false,
                },
                Kind::End => break false,
                _ => break false,
            }
        };
        self::end(shared, end);
        let (pid, clients) = (greeting.pid, taken);
        tracing::info!(pid, clients, "the Flifo before has handed over what it had");
    }
}

/// The process before says nothing more. `is_gone`: it has ended, and what it has sent is this one's own. Arriving is
/// over when each worker has counted the clients that are its own: a process that has none, and to which none comes, ends
/// when another one takes over from it.
pub(crate) fn end(shared: &Shared, is_gone: bool) {
    kill_orders::part(shared, Neighbour::Before);
    predecessor::end(shared);
    let left = Arc::new(AtomicUsize::new(shared.worker_count()));
    for worker in 0..shared.worker_count() {
        let left = Arc::clone(&left);
        shared.have_done(worker, move |worker| {
            match is_gone {
                true => arrival::take_all(worker),
                false => arrival::forget_all(worker),
            }
            if left.fetch_sub(1, AcqRel) == 1 {
                worker.shared.arrive(false);
                worker.shared.proofs.bequeathed.forget();
            }
        });
    }
}

/// The worker that a client, or a backend that none has, goes to, by the worker that had it among so many. Where there
/// are as many as before, what a session and an idle backend know of each other stays together; else a client's number
/// says which worker it belongs to.
pub(crate) fn home(shared: &Shared, before: usize, worker: usize, client: Option<u32>) -> usize {
    let workers = shared.worker_count();
    match client.filter(|id| before != workers && *id >= FIRST_CLIENT_ID) {
        None => worker % workers,
        Some(id) => (id - FIRST_CLIENT_ID) as usize % workers,
    }
}

/// A client that comes, or a backend.
pub(crate) struct Coming {
    /// The client's number. `None`: it is a backend that no client has.
    pub(crate) client: Option<u32>,
    pub(crate) description: Vec<u8>,
    pub(crate) files: Vec<OwnedFd>,
}

/// Takes in what comes. A client is answered for; false: the process before is gone, and serves the client no longer.
pub(crate) fn take_in(
    worker: &Rc<Worker>,
    Coming { client, description, files }: Coming,
    answer: impl FnOnce(&Result<(), NoArrival>) -> bool + 'static,
) {
    let worker = Rc::clone(worker);
    let announced = client.map_or(Ok(()), |id| arrival::announce(&worker, id));
    crate::worker::tasks::vital(async move {
        let Some(id) = client else {
            if let Err(why) = arrival::store(&worker, &description, files).await {
                tracing::debug!(%why, "an idle backend connection was not taken over");
            }
            return;
        };
        let expected = match announced {
            Ok(()) => arrival::expect(&worker, &description, files)
                .await
                .inspect_err(|_| arrival::forget(&worker, id)),
            Err(why) => Err(why),
        };
        if !answer(&expected) && expected.is_ok() {
            arrival::take(&worker, id);
        }
    });
}
