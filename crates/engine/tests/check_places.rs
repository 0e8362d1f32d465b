//! Checks among black holes: servers whose checks have no answer before they end. Whatever their number, servers that
//! answer are checked at their interval, and one of them that freezes is seen within its interval and a check's time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::checks::health::{CheckRules, Health, Others, Sign, State};
use engine::checks::places::{CheckBounds, Habit, LATE};
use engine::checks::scheduler::{
    CheckScheduler, Deed, Loads, Moving, Subject, first_due, next_due,
};
use fastrand::Rng;

const SECOND: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = SECOND;
const JITTER: f64 = 0.05;

/// Until then all holes are known to be such.
const WARM: Duration = Duration::from_secs(20);
const END: Duration = Duration::from_secs(60);

struct Case {
    seed: u64,
    workers: usize,
    at_once: u32,
    holes: usize,
    live: usize,
}

enum Event {
    Wake(usize, Instant),
    Mail(usize, Moving),
    Done(usize, u64, Instant, Sign),
    Freeze(usize),
}

struct Server {
    health: Health,
    /// It answers no more since then.
    silent: Option<Instant>,
    /// A failed check was seen since.
    is_seen: bool,
}

struct World {
    case: Case,
    now: Instant,
    begun: Instant,
    chance: Rng,
    schedulers: Vec<CheckScheduler>,
    servers: Vec<Server>,
    /// When each worker wakes next.
    wakes: Vec<Option<Instant>>,
    events: BinaryHeap<Reverse<(Instant, u64)>>,
    bodies: BTreeMap<u64, Event>,
    count: u64,
    /// How late a check of a server that answers began, at most, and how late a freeze was seen.
    late_max: Duration,
    is_late_counted: bool,
    seen_max: Duration,
    freezes: u32,
    recoveries: u32,
}

impl World {
    fn new(case: Case) -> Self {
        let (now, loads) = (Instant::now(), Arc::new(Loads::new(case.workers)));
        let bounds = CheckBounds::new(case.at_once, TIMEOUT);
        let rules = CheckRules { inter: SECOND, downinter: SECOND, ..CheckRules::default() };
        let server = |at: usize| Server {
            health: Health::new(rules.clone(), now),
            silent: (at >= case.live).then_some(now),
            is_seen: false,
        };
        let mut schedulers: Vec<_> = (0..case.workers)
            .map(|worker| CheckScheduler::new(worker, Arc::clone(&loads), bounds))
            .collect();
        let all = case.live + case.holes;
        let mut ids: Vec<_> = (0..all).collect();
        let mut chance = Rng::with_seed(case.seed);
        (1..all).for_each(|at| ids.swap(at, chance.usize(..=at)));
        for (place, id) in ids.iter().enumerate() {
            let due = first_due(now, SECOND, place, all);
            schedulers[0].add(Subject::new(*id as u64), due);
        }
        let mut world = Self {
            servers: (0..all).map(server).collect(),
            wakes: vec![None; case.workers],
            now,
            begun: now,
            chance,
            schedulers,
            events: BinaryHeap::new(),
            bodies: BTreeMap::new(),
            count: 0,
            late_max: Duration::ZERO,
            is_late_counted: false,
            seen_max: Duration::ZERO,
            freezes: 0,
            recoveries: 0,
            case,
        };
        world.wakes[0] = Some(now);
        world.later(Duration::ZERO, Event::Wake(0, now));
        world.later(WARM, Event::Freeze(0));
        world
    }

    fn later(&mut self, after: Duration, event: Event) {
        self.count += 1;
        self.events.push(Reverse((self.now + after, self.count)));
        self.bodies.insert(self.count, event);
    }

    fn run(&mut self, until: Duration) {
        while self.now < self.begun + until {
            let Reverse((at, number)) = self.events.pop().expect("something is always due");
            self.now = at;
            match self.bodies.remove(&number).expect("it was put there") {
                Event::Wake(worker, at) if self.wakes[worker] == Some(at) => {
                    self.wakes[worker] = None;
                    self.work(worker);
                }
                // An earlier one came in between.
                Event::Wake(..) => {}
                Event::Mail(worker, moving) => {
                    self.schedulers[worker].arrive(moving, at);
                    self.work(worker);
                }
                Event::Done(worker, id, began, sign) => self.done(worker, id, began, sign),
                Event::Freeze(id) => self.freeze(id),
            }
        }
    }

    /// One live server after another freezes, and comes back.
    fn freeze(&mut self, id: usize) {
        self.is_late_counted = true;
        let server = &mut self.servers[id];
        if server.silent.is_none() && server.health.state() == State::Down {
            // It has come back, and that is not known yet.
            return self.later(SECOND, Event::Freeze(id));
        }
        if server.silent.take().is_none() {
            (server.silent, server.is_seen) = (Some(self.now), false);
            self.freezes += 1;
            let after = Duration::from_millis(6000 + self.chance.usize(..1000) as u64);
            return self.later(after, Event::Freeze(id));
        }
        let after = Duration::from_millis(self.chance.usize(..3000) as u64);
        let next = self.chance.usize(..self.case.live);
        self.later(after, Event::Freeze(next));
    }

    fn work(&mut self, worker: usize) {
        let mut chance = self.chance.clone();
        while let Some(deed) = self.schedulers[worker].next(self.now, |below| chance.usize(..below))
        {
            match deed {
                Deed::Send(other, moving) => {
                    let after = Duration::from_micros(10 + chance.usize(..500) as u64);
                    self.later(after, Event::Mail(other, moving));
                }
                Deed::Run(subject, due) => {
                    let server = &self.servers[subject.id as usize];
                    let late = self.now.saturating_duration_since(due);
                    if server.health.state() != State::Down && self.is_late_counted {
                        self.late_max = self.late_max.max(late);
                    }
                    let after = match server.silent {
                        Some(_) => TIMEOUT,
                        None => Duration::from_micros(200 + chance.usize(..2000) as u64),
                    };
                    let sign = match server.silent {
                        Some(_) => Sign::Failed("no answer".to_owned()),
                        None => Sign::Passed,
                    };
                    self.later(after, Event::Done(worker, subject.id, due, sign));
                }
            }
            let most = most_running(self.case.at_once);
            assert!(self.schedulers[worker].running() <= most, "seed {}", self.case.seed);
        }
        self.chance = chance;
        let Some(due) = self.schedulers[worker].due() else { return };
        let at = due.max(self.now);
        if self.wakes[worker].is_none_or(|wake| at < wake) {
            self.wakes[worker] = Some(at);
            self.later(at - self.now, Event::Wake(worker, at));
        }
    }

    fn done(&mut self, worker: usize, id: u64, due: Instant, sign: Sign) {
        let server = &mut self.servers[id as usize];
        let has_failed = matches!(sign, Sign::Failed(_));
        let was_down = server.health.state() == State::Down;
        server.health.see(sign, Others::AreUp, self.now);
        if has_failed && !server.is_seen && (id as usize) < self.case.live {
            server.is_seen = true;
            // One that answers again since is nothing to be seen.
            let since = server.silent.map_or(Duration::ZERO, |since| self.now - since);
            self.seen_max = self.seen_max.max(since);
        }
        self.recoveries += u32::from(was_down && !has_failed);
        let is_silent = has_failed && server.health.state() == State::Down;
        let habit = if is_silent { Habit::Silent } else { Habit::Answers };
        let interval = server.health.interval().expect("it is checked");
        let chance = self.chance.usize(..1000) as f64 / 1000.0;
        // As the program does it: what took longer than its interval is followed by the next at once.
        let next = match has_failed && TIMEOUT > interval {
            true => self.now,
            false => next_due(due, self.now, interval, JITTER, chance),
        };
        self.schedulers[worker].done(id, habit, next);
        self.work(worker);
    }
}

/// So many checks run in a worker at most.
fn most_running(at_once: u32) -> u32 {
    2 * at_once * (LATE + 1)
}

#[test]
fn whatever_hangs_servers_that_answer_are_checked_in_time() {
    let mut chance = Rng::with_seed(1);
    for seed in 1..=40 {
        let case = Case {
            seed,
            workers: 1 + chance.usize(..4),
            at_once: 8 << chance.usize(..3),
            holes: chance.usize(..400),
            live: 2 + chance.usize(..20),
        };
        let what = format!(
            "seed {seed}: {} workers, {} at once, {} holes, {} live",
            case.workers, case.at_once, case.holes, case.live
        );
        let mut world = World::new(case);
        world.run(END);
        let (late, seen) = (world.late_max, world.seen_max);
        assert!(late < Duration::from_millis(20), "{what}: a check began late by {late:?}");
        let most = SECOND.mul_f64(1.0 + JITTER) + TIMEOUT + Duration::from_millis(20);
        assert!(world.freezes > 2 && seen <= most, "{what}: a freeze was seen after {seen:?}");
        assert!(world.recoveries > 2, "{what}: silent servers are asked still");
    }
}

#[test]
fn many_servers_that_fall_silent_at_once_delay_the_others_by_little() {
    // Two workers, 95 servers each: three times the places, of which each is free again after an eighth of a second.
    let case = Case { seed: 7, workers: 2, at_once: 32, holes: 190, live: 2 };
    let mut world = World::new(case);
    world.servers.iter_mut().for_each(|server| server.silent = None);
    world.run(WARM / 2);
    let now = world.now;
    world.servers[2..].iter_mut().for_each(|server| server.silent = Some(now));
    world.is_late_counted = true;
    world.run(END);
    assert!(world.late_max < TIMEOUT / 2, "a check began late by {:?}", world.late_max);
}
