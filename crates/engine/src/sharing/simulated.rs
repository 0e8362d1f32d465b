//! Clients that read and write a few registers through a gate, sharing what is equal, as the proxy does it: each group
//! is taken when its run begins. Checked is what a client can tell: that it reads nothing older than its own request,
//! and that it is answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;

use super::Groups;
use crate::classes::{Class, Classes};
use crate::gate::{Ask, Gate, Slot, Start, Waiting, Want};
use crate::places::ConnectionPlaces;
use crate::slots::Slots;

const KEY: u8 = 0;
const REGISTERS: u64 = 3;
const SLOTS: u32 = 2;
const CLIENTS: usize = 24;

/// What the simulated proxy gets wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    /// A read joins a run of the same read that has begun.
    JoinsWhatHasBegun,
    /// Those that wait for the reply to a run are forgotten with it.
    ForgetsFollowers,
    /// A client that waits for the reply to another's run also keeps its place in the queue.
    StaysInQueue,
    /// What is equal is found by the hash alone.
    BelievesHashes,
}

/// What a check has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    /// A client has read what was overwritten before it asked, or what is not written yet.
    Stale,
    WaitsForEver,
    AnsweredTwice,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    Read(u64),
    Write(u64),
}

#[derive(Clone, Copy, Debug)]
enum Doing {
    Rests,
    Waits { place: Waiting<u8> },
    Leads,
    Follows { run: u64 },
}

struct SimulatedClient {
    asks: Asks,
    doing: Doing,
    /// What the register that it asks for had, of what was acknowledged, when it asked.
    known: u64,
}

struct Run {
    leader: usize,
    backend: u32,
    slot: Slot,
    followers: Vec<usize>,
    /// What a read has found.
    value: u64,
}

struct World {
    fault: Fault,
    random: Rng,
    now: Instant,
    gate: Gate<u8, usize, u32>,
    groups: Groups<usize>,
    clients: Vec<SimulatedClient>,
    runs: BTreeMap<u64, Run>,
    next_run: u64,
    /// What each register has, and what of that its writers know to be there.
    stored: [u64; REGISTERS as usize],
    acknowledged: [u64; REGISTERS as usize],
    joined: usize,
    found: Option<Found>,
}

impl World {
    fn new(seed: u64, fault: Fault) -> Self {
        let now = Instant::now();
        let slots = Arc::new(Slots::new(SLOTS, 1, now));
        let backends = Arc::new(ConnectionPlaces::new(SLOTS, 1, now));
        let classes = Arc::new(Classes::new(vec![Class::default()], 1));
        let mut gate = Gate::new(0, slots, backends, classes);
        let mut wait = |_| gate.wait(KEY, 0, Ask::default(), now).expect("no line is full");
        let places: Vec<_> = (0..SLOTS).map(&mut wait).collect();
        (0..SLOTS).for_each(|_| assert_eq!(gate.want(KEY, now), Want::Open));
        places.into_iter().for_each(|place| assert!(gate.leave(place).is_some()));
        for backend in 0..SLOTS {
            gate.opened(KEY);
            gate.put(KEY, backend, now);
        }
        let client = |_| SimulatedClient { asks: Asks::Read(0), doing: Doing::Rests, known: 0 };
        Self {
            fault,
            random: Rng::with_seed(seed),
            now,
            gate,
            groups: Groups::default(),
            clients: (0..CLIENTS).map(client).collect(),
            runs: BTreeMap::new(),
            next_run: 0,
            stored: [0; REGISTERS as usize],
            acknowledged: [0; REGISTERS as usize],
            joined: 0,
            found: None,
        }
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.u64(..bound)
    }

    /// Hashes of different reads may be the same.
    const fn hash(register: u64) -> u64 {
        register / 2
    }

    fn step(&mut self) {
        self.now += Duration::from_millis(1);
        let client = self.below(CLIENTS as u64) as usize;
        match self.below(8) {
            0..4 => self.ask(client),
            4 => self.leave(client),
            5 => self.interrupt(),
            _ => self.end_one(),
        }
        self.start();
    }

    fn ask(&mut self, client: usize) {
        if !matches!(self.clients[client].doing, Doing::Rests) {
            return;
        }
        let register = self.below(REGISTERS);
        let asks = if self.below(4) == 0 { Asks::Write(register) } else { Asks::Read(register) };
        self.clients[client].asks = asks;
        self.clients[client].known = self.acknowledged[register as usize];
        if self.fault == Fault::JoinsWhatHasBegun
            && let Asks::Read(_) = asks
            && let Some((number, run)) =
                self.runs.iter_mut().find(|(_, run)| self.clients[run.leader].asks == asks)
        {
            run.followers.push(client);
            self.clients[client].doing = Doing::Follows { run: *number };
            return;
        }
        self.wait(client);
    }

    fn wait(&mut self, client: usize) {
        let place = self.gate.wait(KEY, client, Ask::default(), self.now).expect("no bound");
        self.join(client, place);
    }

    fn join(&mut self, client: usize, place: Waiting<u8>) {
        self.clients[client].doing = Doing::Waits { place };
        if let Asks::Read(register) = self.clients[client].asks {
            let clients = &self.clients;
            let waits = |other: &usize| matches!(clients[*other].doing, Doing::Waits { .. });
            self.groups.join(Self::hash(register), client, waits);
        }
    }

    fn start(&mut self) {
        while let Some(start) = self.gate.next(self.now, |_, _| true) {
            self.begin(start);
        }
    }

    fn begin(&mut self, start: Start<usize, u32>) {
        let Start::On(leader, backend, slot) = start else { unreachable!("none has its own") };
        let number = self.next_run;
        self.next_run += 1;
        if matches!(self.clients[leader].doing, Doing::Follows { .. }) {
            self.found = Some(Found::AnsweredTwice);
        }
        self.clients[leader].doing = Doing::Leads;
        let asks = self.clients[leader].asks;
        let (mut followers, mut value) = (Vec::new(), 0);
        if let Asks::Read(register) = asks {
            value = self.stored[register as usize];
            for other in self.groups.take(Self::hash(register)).unwrap_or_default() {
                let Doing::Waits { place } = self.clients[other].doing else { continue };
                if self.clients[other].asks != asks && self.fault != Fault::BelievesHashes {
                    let Asks::Read(register) = self.clients[other].asks else { continue };
                    self.groups.join(Self::hash(register), other, |_| true);
                    continue;
                }
                if self.fault != Fault::StaysInQueue {
                    assert_eq!(self.gate.leave(place), Some(other));
                }
                self.clients[other].doing = Doing::Follows { run: number };
                followers.push(other);
            }
        }
        self.joined += followers.len();
        self.runs.insert(number, Run { leader, backend, slot, followers, value });
    }

    /// A client goes, whatever it does; another one takes its place.
    fn leave(&mut self, client: usize) {
        match self.clients[client].doing {
            Doing::Waits { place } => _ = self.gate.leave(place),
            Doing::Leads => {
                let run = self.runs.iter().find(|(_, run)| run.leader == client);
                let number = *run.expect("it leads one").0;
                return self.cut_off(number);
            }
            Doing::Rests | Doing::Follows { .. } => {}
        }
        self.clients[client].doing = Doing::Rests;
    }

    /// A run is killed, or its backend is lost.
    fn interrupt(&mut self) {
        let reads = |run: &Run| matches!(self.clients[run.leader].asks, Asks::Read(_));
        let number = self.runs.iter().find(|(_, run)| reads(run)).map(|(number, _)| *number);
        number.into_iter().for_each(|number| self.cut_off(number));
    }

    fn cut_off(&mut self, number: u64) {
        let Some(run) = self.runs.remove(&number) else { return };
        self.clients[run.leader].doing = Doing::Rests;
        if let Asks::Write(register) = self.clients[run.leader].asks {
            self.stored[register as usize] += 1;
        }
        if self.fault != Fault::ForgetsFollowers {
            // Back to where they were: before all others, the first one first.
            for follower in run.followers.into_iter().rev() {
                if matches!(self.clients[follower].doing, Doing::Follows { run } if run == number) {
                    let place = self.gate.wait_again(KEY, follower, Ask::default(), self.now);
                    self.join(follower, place);
                }
            }
        }
        self.pass_on(run.slot, run.backend);
    }

    fn end_one(&mut self) {
        if self.runs.is_empty() {
            return;
        }
        let at = self.below(self.runs.len() as u64) as usize;
        let number = *self.runs.keys().nth(at).expect("there are so many");
        let run = self.runs.remove(&number).expect("it is there");
        match self.clients[run.leader].asks {
            Asks::Write(register) => {
                self.stored[register as usize] += 1;
                self.acknowledged[register as usize] = self.stored[register as usize];
            }
            Asks::Read(_) => self.answer(run.leader, run.value),
        }
        self.clients[run.leader].doing = Doing::Rests;
        for follower in run.followers {
            if matches!(self.clients[follower].doing, Doing::Follows { run } if run == number) {
                self.answer(follower, run.value);
                self.clients[follower].doing = Doing::Rests;
            }
        }
        self.pass_on(run.slot, run.backend);
    }

    fn answer(&mut self, client: usize, value: u64) {
        let client = &self.clients[client];
        let (Asks::Read(register) | Asks::Write(register)) = client.asks;
        if value < client.known || value > self.stored[register as usize] {
            self.found = Some(Found::Stale);
        }
    }

    fn pass_on(&mut self, slot: Slot, backend: u32) {
        self.gate.put(KEY, backend, self.now);
        let start = self.gate.pass_on(slot, self.now, |_, _| true);
        start.into_iter().for_each(|start| self.begin(start));
    }

    /// All that has been asked comes to its end.
    fn drain(&mut self) {
        for _ in 0..10_000 {
            self.start();
            if self.runs.is_empty() {
                break;
            }
            self.end_one();
        }
        let rests = |it: &SimulatedClient| matches!(it.doing, Doing::Rests);
        if !self.clients.iter().all(rests) || self.gate.waiting() > 0 {
            self.found = self.found.or(Some(Found::WaitsForEver));
        }
    }
}

/// What is found in this world, and how many have joined another client's run.
fn run(seed: u64, fault: Fault) -> (Option<Found>, usize) {
    let mut world = World::new(seed, fault);
    for _ in 0..2_000 {
        world.step();
        if world.found.is_some() {
            return (world.found, world.joined);
        }
    }
    world.drain();
    (world.found, world.joined)
}

#[test]
fn no_client_reads_what_is_older_than_its_request_and_each_is_answered() {
    let mut joined = 0;
    for seed in 1..=300 {
        let (found, of_seed) = run(seed, Fault::Nothing);
        assert_eq!(found, None, "seed {seed}");
        joined += of_seed;
    }
    assert!(joined > 10_000, "{joined}");
}

#[test]
fn planted_faults_are_found() {
    for (fault, found) in [
        (Fault::JoinsWhatHasBegun, Found::Stale),
        (Fault::ForgetsFollowers, Found::WaitsForEver),
        (Fault::StaysInQueue, Found::AnsweredTwice),
        (Fault::BelievesHashes, Found::Stale),
    ] {
        let seeds = (1..=50).filter(|seed| run(*seed, fault).0 == Some(found)).count();
        assert!(seeds >= 25, "{fault:?} is found with {seeds} of 50 seeds");
    }
}
