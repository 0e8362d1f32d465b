//! The check balancer in a world of its own: workers and servers come and go, mail takes its time, checks take theirs.
//! Ten million steps, and after each run of a check: it was not running already, and was not forgotten.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::checks::places::{CheckBounds, Habit};
use engine::checks::scheduler::{
    CheckScheduler, Deed, Loads, Moving, Subject, first_due, next_due,
};
use fastrand::Rng;

const WORKERS: usize = 16;
const SUBJECTS_MAX: usize = 400;
const RUNNING_MAX: u32 = 8;
const INTERVAL: Duration = Duration::from_secs(1);

/// A check that is due is run by then, whichever workers and servers have come or gone meanwhile.
const LATE_MAX: Duration = Duration::from_secs(2);

/// None of these checks takes so long that it would give its place up.
fn bounds() -> CheckBounds {
    CheckBounds::new(RUNNING_MAX, INTERVAL)
}

enum Event {
    Wake(usize, Instant),
    Mail(usize, Moving),
    /// In this life of the worker.
    Done(usize, u64, u64),
    /// Something comes or goes.
    Change,
}

/// What is known of a subject outside of any scheduler.
struct Known {
    subject: Arc<Subject>,
    /// By which worker, in which of its lives.
    runs: Option<(usize, u64)>,
    expected: Instant,
}

struct World {
    now: Instant,
    chance: Rng,
    loads: Arc<Loads>,
    schedulers: Vec<Option<CheckScheduler>>,
    lives: Vec<u64>,
    known: HashMap<u64, Known>,
    next_id: u64,
    /// Those of subjects that are on their way.
    in_mail: HashMap<u64, u32>,
    /// When each worker wakes next.
    wakes: Vec<Option<Instant>>,
    events: BinaryHeap<Reverse<(Instant, u64)>>,
    bodies: HashMap<u64, Event>,
    count: u64,
    moves: u64,
    runs: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        let loads = Arc::new(Loads::new(WORKERS));
        let scheduler = |worker| Some(CheckScheduler::new(worker, Arc::clone(&loads), bounds()));
        let mut world = Self {
            now: Instant::now(),
            chance: Rng::with_seed(seed),
            schedulers: (0..WORKERS).map(scheduler).collect(),
            loads: Arc::clone(&loads),
            lives: vec![0; WORKERS],
            known: HashMap::new(),
            next_id: 0,
            in_mail: HashMap::new(),
            wakes: vec![None; WORKERS],
            events: BinaryHeap::new(),
            bodies: HashMap::new(),
            count: 0,
            moves: 0,
            runs: 0,
        };
        // All begin on one worker: that they spread is what is to be seen.
        for place in 0..200 {
            world.add(0, first_due(world.now, INTERVAL, place, 200));
        }
        world.wake_later(0);
        world
    }

    fn draw(&mut self, below: usize) -> usize {
        self.chance.usize(..below)
    }

    fn later(&mut self, after: Duration, event: Event) {
        self.count += 1;
        self.events.push(Reverse((self.now + after, self.count)));
        self.bodies.insert(self.count, event);
    }

    fn add(&mut self, worker: usize, due: Instant) {
        let subject = Subject::new(self.next_id);
        self.next_id += 1;
        let known = Known { subject: Arc::clone(&subject), runs: None, expected: due };
        self.known.insert(subject.id, known);
        self.schedulers[worker].as_mut().unwrap().add(subject, due);
    }

    fn wake_later(&mut self, worker: usize) {
        let Some(due) = self.schedulers[worker].as_ref().and_then(CheckScheduler::due) else {
            return;
        };
        let at = due.max(self.now);
        if self.wakes[worker].is_none_or(|wake| at < wake) {
            self.wakes[worker] = Some(at);
            self.later(at - self.now, Event::Wake(worker, at));
        }
    }

    fn step(&mut self) {
        let Some(Reverse((at, number))) = self.events.pop() else {
            panic!("the world stands still")
        };
        self.now = at;
        match self.bodies.remove(&number).unwrap() {
            Event::Wake(worker, at) if self.wakes[worker] == Some(at) => {
                self.wakes[worker] = None;
                self.work(worker);
            }
            // An earlier one came in between.
            Event::Wake(..) => {}
            Event::Mail(worker, moving) => self.deliver(worker, moving),
            Event::Done(worker, life, id) => self.done(worker, life, id),
            Event::Change => self.change(),
        }
    }

    fn deliver(&mut self, worker: usize, moving: Moving) {
        let id = moving.subject().id;
        if let Some(scheduler) = &mut self.schedulers[worker] {
            *self.in_mail.get_mut(&id).unwrap() -= 1;
            scheduler.arrive(moving, self.now);
            return self.work(worker);
        }
        // The worker has ended since: the check is sent on to another worker.
        let other = self.loads.least().unwrap();
        self.later(Duration::from_micros(50), Event::Mail(other, moving));
    }

    fn work(&mut self, worker: usize) {
        let mut chance = self.chance.clone();
        loop {
            let Some(scheduler) = &mut self.schedulers[worker] else { return };
            let deed = scheduler.next(self.now, |below| chance.usize(..below));
            assert!(scheduler.running() <= RUNNING_MAX);
            match deed {
                None => break,
                Some(Deed::Send(other, moving)) => {
                    assert_ne!(other, worker);
                    self.moves += 1;
                    *self.in_mail.entry(moving.subject().id).or_default() += 1;
                    let after = Duration::from_micros(10 + chance.usize(..500) as u64);
                    self.later(after, Event::Mail(other, moving));
                }
                Some(Deed::Run(subject, due)) => {
                    self.runs += 1;
                    let life = self.lives[worker];
                    let known = self.known.get_mut(&subject.id).expect("it exists");
                    assert!(known.runs.is_none(), "check {} runs twice", subject.id);
                    let late = self.now.saturating_duration_since(known.expected);
                    assert!(late < LATE_MAX, "check {} is late by {late:?}", subject.id);
                    assert!(due <= self.now, "check {} is early", subject.id);
                    known.runs = Some((worker, life));
                    let takes = match chance.usize(..100) {
                        0 => 100_000,
                        _ => 200 + chance.usize(..10_000) as u64,
                    };
                    let takes = Duration::from_micros(takes);
                    self.later(takes, Event::Done(worker, life, subject.id));
                }
            }
        }
        self.chance = chance;
        self.wake_later(worker);
    }

    fn done(&mut self, worker: usize, life: u64, id: u64) {
        if self.lives[worker] != life {
            return;
        }
        let chance = self.draw(1000) as f64 / 1000.0;
        if let Some(known) = self.known.get_mut(&id) {
            assert_eq!(known.runs.take(), Some((worker, life)));
            known.expected = next_due(known.expected, self.now, INTERVAL, 0.05, chance);
            let next = known.expected;
            self.schedulers[worker].as_mut().unwrap().done(id, Habit::Answers, next);
        } else {
            self.schedulers[worker].as_mut().unwrap().done(id, Habit::Answers, self.now + INTERVAL);
        }
        self.work(worker);
    }

    /// A subject or a worker comes or goes.
    fn change(&mut self) {
        let open: Vec<_> =
            (0..WORKERS).filter(|worker| self.schedulers[*worker].is_some()).collect();
        match self.draw(10) {
            0..=3 if self.known.len() < SUBJECTS_MAX => {
                let worker = open[self.draw(open.len())];
                let after = INTERVAL.mul_f64(self.draw(1000) as f64 / 1000.0);
                self.add(worker, self.now + after);
                self.wake_later(worker);
            }
            4..=7 if self.known.len() > 50 => {
                let at = self.draw(self.known.len());
                let id = *self.known.keys().min_by_key(|id| **id ^ at as u64).unwrap();
                self.known.remove(&id).unwrap().subject.retire();
            }
            8 if open.len() > 4 => {
                let worker = open[self.draw(open.len())];
                self.lives[worker] += 1;
                for moving in self.schedulers[worker].take().unwrap().close() {
                    if let Some(known) = self.known.get_mut(&moving.subject().id) {
                        known.runs = None;
                    }
                    *self.in_mail.entry(moving.subject().id).or_default() += 1;
                    let other = self.loads.least().unwrap();
                    self.later(Duration::from_micros(100), Event::Mail(other, moving));
                }
            }
            9 => {
                if let Some(worker) = (0..WORKERS).find(|worker| self.schedulers[*worker].is_none())
                {
                    let scheduler = CheckScheduler::new(worker, Arc::clone(&self.loads), bounds());
                    self.schedulers[worker] = Some(scheduler);
                }
            }
            _ => {}
        }
    }

    /// Every subject is in one place.
    fn count_all(&self) {
        let mut places: HashMap<u64, u32> = HashMap::new();
        for subject in self.schedulers.iter().flatten().flat_map(CheckScheduler::subjects) {
            *places.entry(subject.id).or_default() += 1;
        }
        for (id, known) in &self.known {
            let here = places.get(id).unwrap_or(&0) + self.in_mail.get(id).unwrap_or(&0);
            assert_eq!(here, 1, "check {id} is in {here} places");
            let late = self.now.saturating_duration_since(known.expected);
            assert!(late < LATE_MAX, "check {id} is stuck: {late:?}");
        }
    }

    fn spread(&self) -> (u32, u32) {
        let checks = (0..WORKERS).map(|worker| self.loads.checks(worker));
        (checks.clone().min().unwrap(), checks.max().unwrap())
    }
}

#[test]
fn no_check_is_lost_doubled_or_stuck_in_ten_million_steps() {
    let mut world = World::new(0x5eed);
    for step in 0_u64..10_000_000 {
        if step % 50 == 0 {
            world.later(Duration::from_micros(1), Event::Change);
        }
        world.step();
        if step % 5_000 == 0 {
            world.count_all();
        }
    }
    println!("{} runs, {} moves, {} subjects in all", world.runs, world.moves, world.next_id);
    assert!(world.runs > 1_000_000 && world.moves > 10_000 && world.next_id > 10_000);
}

#[test]
fn after_two_intervals_all_workers_have_as_many() {
    for seed in 1..=100 {
        let mut world = World::new(seed);
        let end = world.now + 2 * INTERVAL;
        while world.now < end {
            world.step();
        }
        let (least, most) = world.spread();
        // 200 checks of 16 workers: 12.5 each.
        assert!(least >= 11 && most <= 14, "seed {seed}: {least} to {most}");
        let moves = world.moves;
        let end = world.now + 10 * INTERVAL;
        while world.now < end {
            world.step();
        }
        assert!(world.moves - moves <= 30, "seed {seed}: still {} moves", world.moves - moves);
    }
}
