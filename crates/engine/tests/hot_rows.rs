//! Rows that are held, clients that wait for them, and clients that change other rows by statements of the same form.
//!
//! Plays a server in which a statement on a held row waits, and any other one takes a while. Each day has other numbers
//! of waiters, held rows, slots and backends, and other values beside the row. What must hold: those that change other
//! rows do nearly as much as without the waiters, the waiters have never all backends, and once the rows are free, all
//! waiters are served.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::classes::{Class, ClassId, Classes};
use engine::gate::{Ask, Gate, Slot, Start, Waiting};
use engine::intent::Digest;
use engine::likeness::Likeness;
use engine::places::ConnectionPlaces;
use engine::slots::Slots;

const MS: Duration = Duration::from_millis(1);
const ASK: Ask = Ask::new(ClassId(0), Some(Digest::new(77)));

/// What differs between waiters of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Beside {
    /// Nothing.
    Nothing,
    /// A value of few, which the others have as well.
    Few,
    /// A value that no other statement has.
    All,
}

#[derive(Clone, Copy, Debug)]
struct Day {
    waiters: u64,
    rows: u64,
    limit: u32,
    beside: Beside,
    is_held: bool,
}

/// Clients: a statement's number is its row in the high half, and the value beside it in the low one.
struct World {
    day: Day,
    gate: Gate<u8, u64, u32>,
    slots: Arc<Slots>,
    now: Instant,
    last_value: u64,
    /// By client: the statement, its slot, its backend, and when it ends, if it does.
    running: BTreeMap<u64, (Slot, u32, Option<Instant>)>,
    /// What each client waits with.
    waiting: BTreeMap<u64, Waiting<u8>>,
    served: u64,
    most_parked: u32,
}

const BACKENDS: u32 = 64;
const INNOCENTS: u64 = 8;

/// Client, row and value of a statement, in one number.
fn statement(client: u64, row: u64, value: u64) -> u64 {
    client << 48 | row << 32 | value
}

fn row_of(statement: u64) -> u64 {
    statement >> 32 & 0xffff
}

fn likeness(statement: &u64) -> Likeness {
    let hash = |place: u64, value: u64| {
        (place << 40 | value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    };
    let (row, value) = (row_of(*statement), statement & 0xffff_ffff);
    Likeness::of_hashes(
        Some(hash(1, row).rotate_left(7) ^ hash(2, value)),
        &[hash(3, value), hash(4, row)],
    )
}

impl World {
    fn new(day: Day) -> Self {
        let now = Instant::now();
        let slots = Arc::new(Slots::new(day.limit, 1, now));
        let places = Arc::new(ConnectionPlaces::new(BACKENDS, 1, now));
        let mut gate = Gate::new(
            0,
            Arc::clone(&slots),
            places,
            Arc::new(Classes::new(vec![Class::default()], 1)),
        );
        gate.tell_apart(likeness);
        (0..BACKENDS).for_each(|backend| gate.put(0, backend, now));
        Self {
            day,
            gate,
            slots,
            now,
            last_value: 0,
            running: BTreeMap::new(),
            waiting: BTreeMap::new(),
            served: 0,
            most_parked: 0,
        }
    }

    fn value(&mut self) -> u64 {
        self.last_value += 1;
        match self.day.beside {
            Beside::Nothing => 1,
            Beside::Few => self.last_value % 3,
            Beside::All => 1000 + self.last_value,
        }
    }

    fn asks(&mut self, client: u64, row: u64) {
        let it = statement(client, row, self.value());
        match self.gate.enter(0, ASK, self.now, |_| true) {
            Some((backend, slot)) => self.runs(it, backend, slot),
            None => {
                let waiting = self.gate.wait(0, it, ASK, self.now).expect("no bound");
                self.waiting.insert(client, waiting);
            }
        }
        self.start_ready();
    }

    fn runs(&mut self, it: u64, backend: u32, slot: Slot) {
        let client = it >> 48;
        self.waiting.remove(&client);
        let is_stuck = self.day.is_held && row_of(it) < self.day.rows;
        let ends = (!is_stuck).then(|| self.now + 2 * MS);
        assert!(self.running.insert(client, (slot, backend, ends)).is_none());
    }

    fn begin(&mut self, start: Option<Start<u64, u32>>) {
        if let Some(Start::On(it, backend, slot)) = start {
            self.runs(it, backend, slot);
        }
    }

    fn start_ready(&mut self) {
        while let Some(start) = self.gate.next(self.now, |_, _| true) {
            self.begin(Some(start));
        }
    }

    /// A millisecond passes. The server is asked in every twentieth.
    fn pass(&mut self, at: u64) {
        self.now += MS;
        let is_over = |ends: &Option<Instant>| ends.is_some_and(|ends| ends <= self.now);
        let over = self.running.iter().filter(|(_, it)| is_over(&it.2)).map(|(client, _)| *client);
        for client in over.collect::<Vec<_>>() {
            let (slot, backend, _) = self.running.remove(&client).expect("it runs");
            self.gate.put(0, backend, self.now);
            let start = self.gate.pass_on(slot, self.now, |_, _| true);
            self.begin(start);
            self.start_ready();
            if client < INNOCENTS {
                self.served += 1;
                let row = self.day.rows + 1 + (self.served + client * 1000) % 5000;
                self.asks(client, row);
            }
        }
        if at.is_multiple_of(20) && self.gate.wants_slot(self.now) {
            self.park();
        }
        if at.is_multiple_of(100) {
            self.gate.look_again();
            self.start_ready();
        }
        self.most_parked = self.most_parked.max(self.slots.parked());
        assert!(self.slots.held() <= self.day.limit);
    }

    fn park(&mut self) {
        let stuck: Vec<_> = self
            .running
            .iter()
            .filter(|(_, it)| it.2.is_none())
            .map(|(client, _)| *client)
            .collect();
        self.slots.see_waits(stuck.len() as u32);
        for client in stuck {
            let (slot, _, _) = self.running.get_mut(&client).expect("it runs");
            if self.gate.seems_stuck(slot, self.now) {
                let start = self.gate.park(slot, self.now, |_, _| true);
                self.begin(start);
            }
        }
        self.start_ready();
    }

    /// How much those do that wait for nothing.
    fn live(mut self) -> u64 {
        for client in 0..INNOCENTS {
            self.asks(client, self.day.rows + 1 + client);
        }
        (1..500).for_each(|at| self.pass(at));
        for waiter in 0..self.day.waiters {
            self.asks(INNOCENTS + waiter, waiter % self.day.rows.max(1));
        }
        // What tells those that wait from the others is found out meanwhile.
        (1..2000).for_each(|at| self.pass(at));
        assert!(self.served > 0, "{:?}", self.day);
        let before = self.served;
        (1..1000).for_each(|at| self.pass(at));
        let served = self.served - before;
        assert!(self.most_parked < BACKENDS, "{:?}: all backends wait", self.day);
        self.day.is_held = false;
        let now = self.now;
        for (_, _, ends) in self.running.values_mut() {
            ends.get_or_insert(now);
        }
        (1..2000).for_each(|at| self.pass(at));
        let left = self.waiting.keys().chain(self.running.keys());
        assert_eq!(left.filter(|client| **client >= INNOCENTS).count(), 0, "{:?}", self.day);
        assert_eq!(self.slots.parked(), 0);
        served
    }
}

#[test]
fn those_that_wait_for_nothing_go_on() {
    let mut worst = f64::MAX;
    for (limit, beside) in [
        (4, Beside::Nothing),
        (4, Beside::Few),
        (16, Beside::Nothing),
        (16, Beside::Few),
        (16, Beside::All),
        (32, Beside::Nothing),
    ] {
        let day = Day { waiters: 0, rows: 1, limit, beside, is_held: true };
        let alone = World::new(day).live();
        for (waiters, rows) in [(5, 1), (64, 1), (64, 2), (30, 8), (64, 8)] {
            let day = Day { waiters, rows, ..day };
            let share = World::new(day).live() as f64 / alone as f64;
            println!("{day:?}: {share:.2}");
            assert!(share >= 0.9, "{day:?}: {share:.2} of what they do alone");
            worst = worst.min(share);
        }
    }
    println!("worst {worst:.2}");
}

/// A whole crowd waits, and is told apart: it makes no statement of others dearer, which would take minutes here.
#[test]
fn thousands_that_wait_are_no_burden() {
    for beside in [Beside::Nothing, Beside::Few, Beside::All] {
        let day = Day { waiters: 0, rows: 1, limit: 16, beside, is_held: true };
        let alone = World::new(day).live() as f64;
        let share = World::new(Day { waiters: 10_000, ..day }).live() as f64 / alone;
        println!("{day:?}: {share:.2}");
        assert!(share >= 0.9, "{day:?}: {share:.2} of what they do alone");
    }
}
