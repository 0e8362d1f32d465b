//! What holds whatever comes: of the limit, under any counts and clocks; of a gate with classes, parking and a limit
//! that moves, under any order of events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::classes::{Class, ClassId, Classes, WhenOverloaded};
use engine::gate::{Ask, Gate, Slot, Start, Waiting};
use engine::intent::Digest;
use engine::limit::{Auto, LimitBounds, LimitTotals, Rhythm};
use engine::places::ConnectionPlaces;
use engine::slots::Slots;
use proptest::prelude::*;

proptest! {
    #[test]
    fn the_limit_keeps_to_its_bounds(
        bounds in (0_u32..20, 0_u32..500, 0_u32..500, 0_u32..500),
        is_shared: bool,
        ticks in prop::collection::vec(
            (-2000_i64..5000, 0_u64..500, 0_u64..200_000_000, 0_u64..3, prop::option::of(0_u32..2000)),
            0..400,
        ),
    ) {
        let (floor, ceiling, start, rest) = bounds;
        let rhythm = if is_shared { Rhythm::Clock } else { Rhythm::Own };
        let mut now = Duration::from_secs(1_000_000);
        let mut auto = Auto::new(LimitBounds { floor, ceiling, start, rest }, rhythm, now);
        let mut seen = LimitTotals { busy_squared: u64::MAX - 1_000_000, ..LimitTotals::default() };
        for (passed, completed, took, alarms, line) in ticks {
            now = match u64::try_from(passed) {
                Ok(passed) => now + Duration::from_millis(passed),
                Err(_) => now.saturating_sub(Duration::from_millis(passed.unsigned_abs())),
            };
            for at in 0..completed {
                seen.add(took, at % 8 > 0);
            }
            seen.alarms += alarms;
            let limit = auto.tick(now, seen, line);
            prop_assert!((1..=ceiling.max(1)).contains(&limit), "{limit}");
            prop_assert!(auto.centre().is_finite() && auto.centre() >= 1.0);
            prop_assert!(auto.trace().count() <= 64);
        }
    }
}

/// What may happen at a gate. Numbers choose among those whom it can happen to.
#[derive(Clone, Copy, Debug)]
enum Event {
    Asks { class: u8, digest: Option<u64>, is_forced: bool },
    Ends(usize),
    Parks(usize),
    Leaves(usize),
    Expires,
    Limit(u32),
    Passes(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let asks = (0_u8..3, prop::option::of(0_u64..3), prop::bool::weighted(0.1));
    prop_oneof![
        6 => asks.prop_map(|(class, digest, is_forced)| Event::Asks { class, digest, is_forced }),
        5 => any::<usize>().prop_map(Event::Ends),
        2 => any::<usize>().prop_map(Event::Parks),
        1 => any::<usize>().prop_map(Event::Leaves),
        1 => Just(Event::Expires),
        1 => (1_u32..6).prop_map(Event::Limit),
        2 => (0_u64..400).prop_map(Event::Passes),
    ]
}

/// A gate whose clients all have backends, and what it should hold.
struct Model {
    gate: Gate<u8, usize, u32>,
    slots: Arc<Slots>,
    now: Instant,
    next: usize,
    running: BTreeMap<usize, Slot>,
    waiting: BTreeMap<usize, Waiting<u8>>,
}

impl Model {
    fn new() -> Self {
        let now = Instant::now();
        let class = |name: &str| Class { name: name.to_owned(), ..Class::default() };
        let plans = vec![
            class("default"),
            Class { maximum: Some(2), minimum: 1, weight: 10, ..class("batch") },
            Class {
                queue_max: Some(4),
                wait_max: Some(Duration::from_millis(500)),
                when_overloaded: WhenOverloaded::NewestFirst,
                ..class("web")
            },
        ];
        let slots = Arc::new(Slots::new(3, 1, now));
        let classes = Arc::new(Classes::new(plans, 1));
        let gate =
            Gate::new(0, Arc::clone(&slots), Arc::new(ConnectionPlaces::new(1, 1, now)), classes);
        let (running, waiting) = Default::default();
        Self { gate, slots, now, next: 0, running, waiting }
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Asks { class, digest, is_forced } => {
                self.next += 1;
                let ask = Ask::new(ClassId(class), digest.map(Digest::new));
                let slot = match is_forced {
                    true => Some(self.gate.force(ask, self.now)),
                    false => self.gate.enter_own(ask, self.now),
                };
                match slot {
                    Some(slot) => drop(self.running.insert(self.next, slot)),
                    None => match self.gate.wait_own(self.next, ask, self.now) {
                        Ok(waiting) => drop(self.waiting.insert(self.next, waiting)),
                        Err((client, _)) => assert_eq!((client, class), (self.next, 2)),
                    },
                }
            }
            Event::Ends(at) => {
                let Some(client) = nth(&self.running, at) else { return };
                let slot = self.running.remove(&client).expect("it runs");
                let start = self.gate.pass_on(slot, self.now, |_, _| true);
                self.begin(start);
            }
            Event::Parks(at) => {
                let Some(client) = nth(&self.running, at) else { return };
                let slot = self.running.get_mut(&client).expect("it runs");
                let start = self.gate.park(slot, self.now, |_, _| true);
                self.begin(start);
            }
            Event::Leaves(at) => {
                let Some(client) = nth(&self.waiting, at) else { return };
                let place = self.waiting.remove(&client).expect("it waits");
                assert_eq!(self.gate.leave(place), Some(client));
                assert_eq!(self.gate.leave(place), None);
            }
            Event::Expires => {
                while let Some((client, _)) = self.gate.expire_waiter(self.now, None) {
                    assert!(self.waiting.remove(&client).is_some());
                }
            }
            Event::Limit(limit) => self.slots.set_limit(limit, |_| {}),
            Event::Passes(time) => self.now += Duration::from_millis(time),
        }
        self.start_ready();
    }

    fn begin(&mut self, start: Option<Start<usize, u32>>) {
        let Some(Start::Own(client, slot)) = start else { return };
        assert!(self.waiting.remove(&client).is_some(), "it waited");
        assert!(self.running.insert(client, slot).is_none(), "once");
    }

    fn start_ready(&mut self) {
        while let Some(start) = self.gate.next(self.now, |_, _| true) {
            self.begin(Some(start));
        }
        assert_eq!(self.gate.next_wake(), None, "there is one worker");
    }

    fn check(&self) {
        let count = self.slots.count();
        assert_eq!(
            (count.held + self.slots.parked() + self.slots.beyond()) as usize,
            self.running.len()
        );
        assert_eq!((count.pending, count.borrowed), (0, 0));
        assert_eq!(self.gate.waiting(), self.waiting.len());
    }
}

fn nth<V>(map: &BTreeMap<usize, V>, at: usize) -> Option<usize> {
    (!map.is_empty()).then(|| *map.keys().nth(at % map.len()).expect("less than its length"))
}

proptest! {
    #[test]
    fn a_gate_loses_nobody_and_no_slot(events in prop::collection::vec(event(), 0..200)) {
        let mut model = Model::new();
        for event in events {
            model.happen(event);
            model.check();
        }
        // All that run end, one after the other: then all that waited have been served.
        let mut ends = 0;
        while !model.running.is_empty() {
            model.happen(Event::Ends(ends));
            model.check();
            ends += 1;
            prop_assert!(ends < 10_000);
        }
        prop_assert_eq!((model.waiting.len(), model.gate.waiting()), (0, 0), "somebody is left");
        prop_assert_eq!((model.slots.held(), model.slots.parked()), (0, 0));
    }
}
