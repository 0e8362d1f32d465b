//! The shared numbers under orders of events that no machine shows twice: threads are workers, and each step of each
//! atomic is a place where another one may go first. A waiter that is never woken is a deadlock, which is found.
//!
//! The files are the product's own, compiled with other atomics.

#[path = "../src/cap.rs"]
#[allow(dead_code, unreachable_pub, reason = "not all of it is used here")]
mod cap;
#[path = "../src/places.rs"]
#[allow(dead_code, unreachable_pub, reason = "not all of it is used here")]
mod places;
#[path = "../src/slots.rs"]
#[allow(dead_code, unreachable_pub, reason = "not all of it is used here")]
mod slots;
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering};
}

use std::time::{Duration, Instant};

use shuttle::sync::{Arc, Condvar, Mutex};
use shuttle::thread;

use cap::Cap;
use places::ConnectionPlaces;
use slots::{Count, Slots};

/// Runs of each test; the orders are drawn by chance, from a seed that is printed if one fails.
const RUNS: usize = 4000;

/// What each worker does in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// Waits until it is served.
    Stays,
    /// Leaves the line if it is not served at once.
    Leaves,
    /// Does not wait at all, and goes beyond the limit.
    Forces,
}

/// The workers' mailboxes, and how many of them have nothing more to do.
struct Office {
    bells: Vec<(Mutex<u32>, Condvar)>,
    finished: Mutex<usize>,
}

impl Office {
    fn new(workers: usize) -> Self {
        let bells = (0..workers).map(|_| (Mutex::new(0), Condvar::new())).collect();
        Self { bells, finished: Mutex::new(0) }
    }

    fn ring(&self, worker: usize) {
        let (count, bell) = &self.bells[worker];
        *count.lock().unwrap() += 1;
        bell.notify_all();
    }

    fn sleep(&self, worker: usize) {
        let (count, bell) = &self.bells[worker];
        let mut count = count.lock().unwrap();
        while *count == 0 {
            count = bell.wait(count).unwrap();
        }
        *count -= 1;
    }

    /// True if all are finished now.
    fn finish(&self) -> bool {
        let mut finished = self.finished.lock().unwrap();
        *finished += 1;
        *finished == self.bells.len()
    }

    fn is_over(&self) -> bool {
        *self.finished.lock().unwrap() == self.bells.len()
    }
}

struct Worker {
    index: usize,
    slots: Arc<Slots>,
    office: Arc<Office>,
    now: Instant,
}

impl Worker {
    fn turn(&self, does: Does) {
        if does == Does::Forces {
            self.slots.force();
            return self.leave();
        }
        if self.slots.try_take() || self.slots.claim(self.index) {
            return self.leave();
        }
        self.slots.publish(self.index, 1, Some(self.now));
        // Published first, looked second.
        let mut is_served = self.slots.claim(self.index) || self.slots.try_take();
        while !is_served && does == Does::Stays {
            self.office.sleep(self.index);
            is_served = self.slots.claim(self.index) || self.slots.try_take();
        }
        self.slots.publish(self.index, 0, None);
        if is_served {
            self.leave();
        }
        self.pass_on_grants();
    }

    fn leave(&self) {
        let count = self.slots.count();
        assert!(count.held >= 1 && count.pending <= count.held, "{count:?}");
        if let Some(other) = self.slots.give_back(self.index) {
            assert_ne!(other, self.index);
            self.office.ring(other);
        }
    }

    /// What was granted and is of no use here.
    fn pass_on_grants(&self) {
        while self.slots.claim(self.index) {
            self.leave();
        }
    }

    /// Nothing more to ask, but mail is read as long as a worker may write.
    fn retire(&self) {
        if self.office.finish() {
            (0..self.office.bells.len()).for_each(|worker| self.office.ring(worker));
        }
        while !self.office.is_over() {
            self.office.sleep(self.index);
            self.pass_on_grants();
        }
        self.pass_on_grants();
    }
}

/// Runs such turns, a row for each worker.
fn run(limit: u32, turns: &'static [&'static [Does]]) -> Arc<Slots> {
    let now = Instant::now();
    let slots = Arc::new(Slots::new(limit, turns.len(), now));
    let office = Arc::new(Office::new(turns.len()));
    let threads: Vec<_> = turns
        .iter()
        .enumerate()
        .map(|(index, turns)| {
            let (slots, office) = (Arc::clone(&slots), Arc::clone(&office));
            thread::spawn(move || {
                let worker = Worker { index, slots, office, now };
                turns.iter().for_each(|does| worker.turn(*does));
                worker.retire();
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    slots
}

const NONE: Count = Count { held: 0, pending: 0, borrowed: 0 };

#[test]
fn nobody_waits_for_ever_and_no_slot_is_lost() {
    use Does::{Forces, Leaves, Stays};
    let check = || {
        let slots = run(1, &[&[Stays, Stays], &[Stays, Leaves, Stays], &[Forces, Stays]]);
        assert_eq!(slots.count(), NONE);
    };
    shuttle::check_random(check, RUNS);
    shuttle::check_pct(check, RUNS, 3);
}

#[test]
fn two_slots_among_three_workers() {
    use Does::{Leaves, Stays};
    let check = || {
        let slots = run(2, &[&[Stays, Leaves], &[Stays, Stays], &[Leaves, Stays]]);
        assert_eq!(slots.count(), NONE);
    };
    shuttle::check_random(check, RUNS);
}

#[test]
fn a_raised_limit_wakes_those_who_wait() {
    shuttle::check_random(
        || {
            let now = Instant::now();
            let slots = Arc::new(Slots::new(1, 2, now));
            let office = Arc::new(Office::new(2));
            // The only slot is taken and never given back: just the second one can serve the worker.
            assert!(slots.try_take());
            let (theirs, bells) = (Arc::clone(&slots), Arc::clone(&office));
            let waits = thread::spawn(move || {
                theirs.publish(1, 1, Some(now));
                let is_served = || theirs.claim(1) || theirs.try_take();
                while !is_served() {
                    bells.sleep(1);
                }
                theirs.publish(1, 0, None);
            });
            slots.set_limit(2, |worker| office.ring(worker));
            waits.join().unwrap();
            // It may have helped itself while a grant was on its way, which goes back.
            while slots.claim(1) {
                assert_eq!(slots.give_back(1), None);
            }
            assert_eq!(slots.count(), Count { held: 2, ..NONE });
        },
        RUNS,
    );
}

#[test]
fn borrowed_slots_are_no_more_than_grants_on_their_way() {
    shuttle::check_random(
        || {
            let now = Instant::now();
            let slots = Arc::new(Slots::new(1, 3, now));
            slots.let_borrow(Duration::from_secs(1));
            assert!(slots.try_take());
            slots.publish(1, 1, Some(now));
            let threads: Vec<_> = (0..3)
                .map(|index| {
                    let slots = Arc::clone(&slots);
                    thread::spawn(move || match index {
                        0 => drop(slots.give_back(0)),
                        1 => {
                            while !slots.claim(1) {
                                thread::yield_now();
                            }
                        }
                        _ => {
                            if slots.try_borrow(now) {
                                assert_eq!(slots.count().borrowed, 1);
                                assert!(!slots.try_borrow(now), "one grant, one borrow");
                                slots.give_back_borrowed();
                            }
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(slots.count(), Count { held: 1, ..NONE });
        },
        RUNS,
    );
}

#[test]
fn a_cap_wakes_those_who_wait_for_it() {
    shuttle::check_random(
        || {
            let cap = Arc::new(Cap::new(1, 2));
            let office = Arc::new(Office::new(2));
            let threads: Vec<_> = (0..2)
                .map(|index| {
                    let (cap, office) = (Arc::clone(&cap), Arc::clone(&office));
                    thread::spawn(move || {
                        for _ in 0..2 {
                            let mut has_place = cap.try_take();
                            while !has_place {
                                cap.publish_waiting(index, 1);
                                has_place = cap.try_take();
                                if !has_place {
                                    office.sleep(index);
                                }
                            }
                            cap.publish_waiting(index, 0);
                            assert_eq!(cap.held(), 1);
                            if let Some(other) = cap.give_back(index) {
                                office.ring(other);
                            }
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert_eq!(cap.held(), 0);
        },
        RUNS,
    );
}

/// One worker's turns at the places for connections.
fn take_places(
    places: &ConnectionPlaces,
    office: &Office,
    index: usize,
    now: Instant,
    turns: &[Does],
) {
    for does in turns {
        let mut has_place = places.take(index);
        if !has_place {
            places.publish(index, 1, Some((now, 0)));
            // Published first, looked second.
            has_place = places.take(index);
            while !has_place && *does == Does::Stays {
                office.sleep(index);
                has_place = places.take(index);
            }
            places.publish(index, 0, None);
        }
        if has_place {
            assert!(places.held() >= 1 && places.held() <= places.limit());
            places.give_back().into_iter().for_each(|other| office.ring(other));
        }
        // What was granted and is of no use here.
        while places.claim(index) {
            places.give_back_elsewhere(index).into_iter().for_each(|other| office.ring(other));
        }
    }
}

#[test]
fn places_are_granted_to_those_who_wait_and_none_is_lost() {
    use Does::{Leaves, Stays};
    const TURNS: [&[Does]; 3] = [&[Stays, Stays], &[Stays, Leaves, Stays], &[Leaves, Stays]];
    let check = |limit| {
        let now = Instant::now();
        let places = Arc::new(ConnectionPlaces::new(limit, TURNS.len(), now));
        let office = Arc::new(Office::new(TURNS.len()));
        let worker = |index: usize| {
            let (places, office) = (Arc::clone(&places), Arc::clone(&office));
            thread::spawn(move || {
                take_places(&places, &office, index, now, TURNS[index]);
                if office.finish() {
                    (0..TURNS.len()).for_each(|worker| office.ring(worker));
                }
                let mut is_over = false;
                while !is_over {
                    is_over = office.is_over();
                    while places.claim(index) {
                        let other = places.give_back_elsewhere(index);
                        other.into_iter().for_each(|other| office.ring(other));
                    }
                    if !is_over {
                        office.sleep(index);
                    }
                }
            })
        };
        let threads: Vec<_> = (0..TURNS.len()).map(worker).collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(places.held(), 0);
    };
    shuttle::check_random(move || check(1), RUNS);
    shuttle::check_random(move || check(2), RUNS);
    shuttle::check_pct(move || check(1), RUNS, 3);
}

/// A worker with an idle connection stops looking at what others lack, while a client of another one begins to wait:
/// the connection is handed over nevertheless.
#[test]
fn a_worker_that_stops_looking_is_told_or_has_seen() {
    shuttle::check_random(
        || {
            let now = Instant::now();
            let places = Arc::new(ConnectionPlaces::new(1, 2, now));
            let office = Arc::new(Office::new(2));
            assert!(places.take(0));
            places.set_attentive(0, true);
            let (theirs, bells) = (Arc::clone(&places), Arc::clone(&office));
            let waits = thread::spawn(move || {
                theirs.publish(1, 1, Some((now, 0)));
                theirs.inattentive(1).for_each(|other| bells.ring(other));
                bells.sleep(1);
                theirs.arrived(1);
                theirs.publish(1, 0, None);
            });
            let mut elder = places.oldest_other(0);
            while elder.is_none() {
                places.set_attentive(0, false);
                elder = places.oldest_other(0);
                if elder.is_none() {
                    office.sleep(0);
                    places.set_attentive(0, true);
                    elder = places.oldest_other(0);
                }
            }
            places.promise(1);
            office.ring(1);
            waits.join().unwrap();
            assert_eq!((places.held(), places.oldest_other(0)), (1, None));
        },
        RUNS,
    );
}
