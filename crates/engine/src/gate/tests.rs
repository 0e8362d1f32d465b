//! Which waiter starts, on which backend, after which event.

use super::*;
use crate::classes::{Class, WhenOverloaded};
use crate::intent::Digest;

/// A gate, and the slots of the statements that run.
struct TestGate {
    gate: Gate<char, u32, &'static str>,
    slots: Arc<Slots>,
    running: VecDeque<Slot>,
}

/// A start without its slot.
#[derive(Debug, PartialEq, Eq)]
enum Began {
    Own(u32),
    On(u32, &'static str),
}

const ASK: Ask = Ask::new(ClassId(0), None);
const MS: Duration = Duration::from_millis(1);

impl TestGate {
    fn new(
        worker: usize,
        slots: &Arc<Slots>,
        backends: &Arc<ConnectionPlaces>,
        classes: &Arc<Classes>,
    ) -> Self {
        let slots = Arc::clone(slots);
        let shared = (Arc::clone(&slots), Arc::clone(backends), Arc::clone(classes));
        let gate = Gate::new(worker, shared.0, shared.1, shared.2);
        Self { gate, slots, running: Default::default() }
    }

    fn enter_own(&mut self, ask: Ask, now: Instant) -> bool {
        let slot = self.gate.enter_own(ask, now);
        let has_entered = slot.is_some();
        self.running.extend(slot);
        has_entered
    }

    fn force(&mut self, ask: Ask, now: Instant) {
        let slot = self.gate.force(ask, now);
        self.running.push_back(slot);
    }

    fn wait(&mut self, key: char, waiter: u32, now: Instant) -> Waiting<char> {
        self.gate.wait(key, waiter, ASK, now).unwrap()
    }

    fn wait_own(&mut self, waiter: u32, ask: Ask, now: Instant) -> Waiting<char> {
        self.gate.wait_own(waiter, ask, now).unwrap()
    }

    fn next(&mut self, now: Instant) -> Option<Began> {
        let start = self.gate.next(now, |_, _| true);
        self.began(start)
    }

    fn began(&mut self, start: Option<Start<u32, &'static str>>) -> Option<Began> {
        let (began, slot) = match start? {
            Start::Own(waiter, slot) => (Began::Own(waiter), slot),
            Start::On(waiter, backend, slot) => (Began::On(waiter, backend), slot),
        };
        self.running.push_back(slot);
        Some(began)
    }

    /// The statement that has run longest ends.
    fn pass_on(&mut self, now: Instant) -> (Option<Began>, Option<usize>) {
        let slot = self.running.pop_front().expect("one runs");
        let start = self.gate.pass_on(slot, now, |_, _| true);
        (self.began(start), self.gate.next_wake())
    }
}

fn gate(limit: u32, backends: u32) -> TestGate {
    classed(limit, backends, vec![Class::default()])
}

fn classed(limit: u32, backends: u32, classes: Vec<Class>) -> TestGate {
    let origin = Instant::now() - Duration::from_secs(1);
    let slots = Arc::new(Slots::new(limit, 2, origin));
    let backends = Arc::new(ConnectionPlaces::new(backends, 2, origin));
    TestGate::new(0, &slots, &backends, &Arc::new(Classes::new(classes, 2)))
}

fn open(gate: &mut TestGate, key: char, backend: &'static str, now: Instant) {
    let want = gate.gate.want(key, now);
    assert_eq!(want, Want::Open);
    gate.gate.opened(key);
    gate.gate.put(key, backend, now);
}

#[test]
fn clients_are_served_in_order_and_backends_in_reverse() {
    let now = Instant::now();
    let mut gate = gate(2, 4);
    for waiter in 1..=3 {
        gate.wait('k', waiter, now);
    }
    for backend in ["x", "y", "z"] {
        open(&mut gate, 'k', backend, now);
    }
    assert_eq!(gate.next(now), Some(Began::On(1, "z")));
    assert_eq!(gate.next(now), Some(Began::On(2, "y")));
    assert_eq!(gate.next(now), None, "two slots");
    gate.gate.put('k', "z", now);
    assert_eq!(gate.pass_on(now), (Some(Began::On(3, "z")), None));
    assert_eq!(gate.pass_on(now), (None, None));
    assert_eq!(gate.gate.enter('k', ASK, now, |_| true).map(|it| it.0), Some("x"));
}

#[test]
fn nobody_overtakes_a_line() {
    let now = Instant::now();
    let mut gate = gate(1, 4);
    assert!(gate.enter_own(ASK, now));
    gate.wait_own(7, ASK, now);
    assert!(!gate.enter_own(ASK, now));
    assert_eq!(gate.pass_on(now), (Some(Began::Own(7)), None));
    gate.force(ASK, now);
    gate.wait_own(8, ASK, now);
    assert_eq!(gate.pass_on(now), (None, None), "one beyond the limit ends first");
    assert_eq!(gate.pass_on(now), (Some(Began::Own(8)), None));
}

#[test]
fn the_longest_waiter_of_all_lines_is_next() {
    let now = Instant::now();
    let mut gate = gate(1, 4);
    assert!(gate.enter_own(ASK, now));
    gate.wait('b', 2, now + Duration::from_millis(2));
    gate.wait('a', 1, now + Duration::from_millis(1));
    gate.wait_own(3, ASK, now + Duration::from_millis(3));
    open(&mut gate, 'b', "b", now);
    assert_eq!(gate.pass_on(now).0, Some(Began::On(2, "b")), "no backend connection of key a yet");
    open(&mut gate, 'a', "a", now);
    assert_eq!(gate.pass_on(now).0, Some(Began::On(1, "a")));
    assert_eq!(gate.pass_on(now).0, Some(Began::Own(3)));
}

#[test]
fn a_full_cap_takes_the_coldest_backend_of_another_key() {
    let now = Instant::now();
    let mut gate = gate(4, 2);
    for (key, backend, age) in [('a', "a", 0), ('b', "b", 1)] {
        gate.wait(key, 0, now);
        open(&mut gate, key, backend, now + Duration::from_secs(age));
        assert!(matches!(gate.next(now), Some(Began::On(..))));
        gate.gate.put(key, backend, now + Duration::from_secs(age));
        assert_eq!(gate.pass_on(now), (None, None));
    }
    gate.wait('c', 5, now);
    assert_eq!(gate.gate.want('c', now), Want::Close("a"));
    assert_eq!(gate.gate.want('c', now), Want::Nothing, "one is being closed for it");
    assert_eq!(gate.gate.closed('a', |backend| *backend == "a"), Some(0));
    assert_eq!(gate.gate.want('c', now), Want::Open);
    assert_eq!(gate.gate.want('c', now), Want::Nothing, "one waits, one is being opened");
    gate.wait('c', 6, now);
    assert_eq!(gate.gate.want('c', now), Want::Close("b"), "however short b has been idle");
    gate.wait('d', 7, now);
    assert_eq!(gate.gate.want('d', now), Want::Ask, "nothing idle is left here");
}

#[test]
fn a_key_whose_backends_come_round_waits_as_long_as_a_new_backend_would_take() {
    let now = Instant::now();
    let mut gate = gate(4, 2);
    for (waiter, key, backend) in [(0, 'a', "a"), (1, 'b', "b")] {
        gate.wait(key, waiter, now);
        open(&mut gate, key, backend, now);
        assert_eq!(gate.next(now), Some(Began::On(waiter, backend)));
    }
    gate.gate.put('b', "b", now);
    gate.wait('a', 2, now + MS);
    assert_eq!(gate.gate.want('a', now + MS), Want::Later(backends::SETUP));
    assert_eq!(gate.gate.want('a', now + backends::SETUP), Want::Close("b"), "it did not come");
}

#[test]
fn a_backend_that_comes_back_goes_where_it_is_missed_most() {
    let now = Instant::now();
    let slots = Arc::new(Slots::new(9, 2, now));
    let backends = Arc::new(ConnectionPlaces::new(1, 2, now));
    let classes = Arc::new(Classes::new(vec![Class::default()], 2));
    let mut here = TestGate::new(0, &slots, &backends, &classes);
    let mut there = TestGate::new(1, &slots, &backends, &classes);
    let (young, old) = (Duration::ZERO, backends::TENURE);
    here.wait('a', 0, now);
    open(&mut here, 'a', "a", now);
    assert_eq!(here.next(now), Some(Began::On(0, "a")));
    assert_eq!(here.gate.due('a', || young), Due::Here, "no client misses it");
    there.wait('a', 1, now + MS);
    assert_eq!(there.gate.want('a', now), Want::Ask);
    assert_eq!(there.gate.inattentive(), [0]);
    assert!(here.gate.give_idle(now).is_none());
    assert!(there.gate.inattentive().is_empty(), "it looks by itself from now on");
    here.wait('a', 2, now + 2 * MS);
    assert_eq!(here.gate.due('a', || young), Due::Here, "its own has waited nearly as long");
    assert_eq!(here.gate.take_waiter('a'), Some(2));
    here.wait('a', 3, now + 4 * MS);
    let turns = (1..).find(|_| here.gate.due('a', || young) != Due::Here);
    assert_eq!(turns, Some(backends::BACKEND_TURNS - 1), "a little older, after some turns");
    // It could not be sent, so its place was; and is not of use there any more.
    here.gate.not_sent(1);
    assert_eq!(here.gate.closed('a', |_| false), Some(1));
    there.gate.take_waiter('a');
    there.gate.return_places();
    assert_eq!(there.gate.next_wake(), Some(0));
    open(&mut here, 'a', "a", now);
    assert_eq!(here.next(now), Some(Began::On(3, "a")));
    there.wait('a', 1, now + MS);
    assert_eq!(there.gate.want('a', now), Want::Ask);
    assert!(here.gate.give_idle(now).is_none());
    here.wait('a', 4, now + 20 * MS);
    assert_eq!(here.gate.due('a', || young), Due::Worker(1), "much older");
    here.gate.sent('a');
    there.gate.arrived('a');
    there.gate.put('a', "a", now);
    assert_eq!(there.next(now), Some(Began::On(1, "a")));
    // Here one waits still; there one of another kind does, for a shorter time.
    assert_eq!(here.gate.want('a', now + 30 * MS), Want::Ask);
    assert!(there.gate.give_idle(now).is_none());
    there.wait('b', 5, now + 10 * MS);
    there.wait('a', 6, now + 15 * MS);
    assert_eq!(there.gate.due('a', || young), Due::Here, "it serves its own for a while");
    assert_eq!(there.gate.due('a', || old), Due::Nowhere, "then those who have waited longer");
    assert_eq!(there.gate.due('a', || old), Due::Here, "one is being closed for it");
    assert_eq!(there.gate.closed('a', |_| false), Some(1));
    assert_eq!(there.gate.want('b', now), Want::Open);
    assert_eq!(backends.held(), 1);
}

#[test]
fn an_idle_backend_is_given_to_another_worker_as_it_is_or_for_its_place() {
    let now = Instant::now();
    let slots = Arc::new(Slots::new(9, 2, now));
    let backends = Arc::new(ConnectionPlaces::new(2, 2, now));
    let classes = Arc::new(Classes::new(vec![Class::default()], 2));
    let mut here = TestGate::new(0, &slots, &backends, &classes);
    let mut there = TestGate::new(1, &slots, &backends, &classes);
    for (waiter, key, backend) in [(0, 'a', "a"), (1, 'b', "b")] {
        here.wait(key, waiter, now);
        open(&mut here, key, backend, now);
        assert!(here.next(now).is_some());
        here.gate.put(key, backend, now);
    }
    there.wait('b', 2, now);
    assert_eq!(there.gate.want('b', now), Want::Ask);
    assert_eq!(here.gate.give_idle(now), Some(('b', "b", Due::Worker(1))));
    assert_eq!(here.gate.give_idle(now), None, "one waits, one is on its way");
    assert_eq!(there.gate.inattentive(), [0], "what else is idle there must be asked for");
    here.gate.sent('b');
    there.gate.arrived('b');
    there.gate.put('b', "b", now);
    assert!(there.next(now).is_some());
    there.wait('b', 3, now);
    assert!(matches!(there.gate.want('b', now + MS), Want::Later(_)));
    assert_eq!(there.gate.want('b', now + 5 * MS), Want::Ask);
    assert_eq!(here.gate.give_idle(now), Some(('a', "a", Due::Nowhere)));
    assert_eq!(here.gate.closed('a', |_| false), Some(1));
    assert_eq!(there.gate.want('b', now), Want::Open);
    // One that cannot be used after all goes on.
    there.gate.opened('b');
    assert_eq!(there.gate.closed('b', |_| false), Some(1));
    let waiter = there.gate.take_waiter('b');
    assert_eq!(waiter, Some(3));
    there.gate.return_places();
    assert_eq!((there.gate.next_wake(), backends.held()), (None, 1));
}

#[test]
fn another_workers_waiters_get_their_turn() {
    let now = Instant::now();
    let mut gate = gate(1, 4);
    let slots = Arc::clone(&gate.slots);
    assert!(gate.enter_own(ASK, now));
    for waiter in 0..20 {
        gate.wait_own(waiter, ASK, now);
    }
    slots.publish(1, 1, Some(now - 9 * MS));
    assert_eq!(gate.pass_on(now), (None, Some(1)), "much older ones come at once");
    assert!(slots.claim(1));
    assert_eq!(slots.give_back(1), Some(0));
    assert_eq!(gate.next(now), Some(Began::Own(0)));
    slots.publish(1, 1, Some(now - 3 * MS));
    let turns = std::iter::from_fn(|| match gate.pass_on(now) {
        (Some(_), None) => Some(()),
        (None, Some(1)) => None,
        other => panic!("{other:?}"),
    });
    assert_eq!(turns.count(), OWN_TURNS as usize - 1, "and older ones after a while");
}

#[test]
fn a_worker_that_lacks_a_backend_is_given_no_slot() {
    let now = Instant::now();
    let mut gate = gate(1, 1);
    let slots = Arc::clone(&gate.slots);
    assert!(slots.try_take());
    gate.wait('k', 1, now);
    assert_eq!(slots.oldest_other(1), None, "it could not use one");
    assert_eq!(
        gate.gate.backends.oldest_other(1).map(|it| it.worker),
        Some(0),
        "it waits for a backend connection"
    );
    assert_eq!(gate.gate.want('k', now), Want::Open);
    assert_eq!(gate.gate.backends.oldest_other(1), None, "one is on its way");
    gate.gate.opened('k');
    gate.gate.put('k', "x", now);
    assert_eq!(slots.give_back(1), Some(0), "now it can");
    assert_eq!(gate.next(now), Some(Began::On(1, "x")));
    assert_eq!(slots.oldest_other(1), None);
}

#[test]
fn a_slot_that_comes_too_late_goes_on_to_the_next_worker() {
    let now = Instant::now();
    let mut gate = gate(1, 1);
    let slots = Arc::clone(&gate.slots);
    assert!(slots.try_take());
    slots.grant(0);
    slots.publish(1, 1, Some(now));
    assert_eq!((gate.next(now), gate.gate.next_wake()), (None, Some(1)));
    assert_eq!(slots.count(), crate::slots::Count { held: 1, pending: 1, borrowed: 0 });
    assert!(slots.claim(1) && !slots.claim(1) && !slots.claim(0));
    slots.publish(1, 0, None);
    slots.grant(0);
    assert_eq!((gate.next(now), gate.gate.next_wake()), (None, None));
    assert_eq!(slots.held(), 0);
}

#[test]
fn waiters_leave_late_ones_are_taken_out_and_hopeless_ones_given_up() {
    let now = Instant::now();
    let second = Duration::from_secs(1);
    let mut gate = gate(1, 1);
    let one = gate.wait('k', 1, now);
    gate.wait('k', 2, now);
    gate.wait('k', 3, now + second);
    assert_eq!(gate.gate.leave(one), Some(1));
    assert_eq!(gate.gate.leave(one), None);
    assert_eq!(
        gate.gate.expire_waiter(now + second, Some(second)).map(|it| (it.0, it.1.waited)),
        Some((2, second))
    );
    assert_eq!(gate.gate.expire_waiter(now + second, Some(second)), None);
    assert_eq!(gate.gate.want('k', now), Want::Open);
    assert_eq!(gate.gate.give_up('k'), None, "a backend connection is on its way");
    gate.gate.opened('k');
    assert_eq!(gate.gate.closed('k', |_| false), Some(0), "its own, of whom one waits still");
    assert_eq!(gate.gate.give_up('k'), Some(3));
    assert_eq!(gate.gate.waiting(), 0);
}

#[test]
fn statements_go_ahead_on_a_busy_backend_in_the_order_of_the_queue() {
    let now = Instant::now();
    let mut gate = gate(1, 1);
    gate.wait('k', 1, now);
    open(&mut gate, 'k', "x", now);
    assert_eq!(gate.next(now), Some(Began::On(1, "x")));
    for waiter in 2..=4 {
        gate.wait('k', waiter, now);
    }
    assert_eq!(gate.gate.share('k'), 3);
    assert_eq!(gate.gate.take_ahead('k', now, |_| false), None);
    assert_eq!(gate.gate.take_ahead('k', now, |_| true), Some((2, ASK)));
    // A waiter that could have the slot and has waited longer goes first.
    gate.wait_own(9, ASK, now - Duration::from_millis(1));
    assert_eq!(gate.gate.take_ahead('k', now, |_| true), None);
    assert_eq!(gate.pass_on(now), (Some(Began::Own(9)), None));
    gate.gate.wait_again('k', 2, ASK, now);
    assert_eq!(gate.gate.take_ahead('k', now, |_| true), Some((2, ASK)));
    assert_eq!(gate.gate.take_ahead('k', now, |_| true), Some((3, ASK)));
}

#[test]
fn nothing_is_written_ahead_while_more_run_than_the_limit_allows() {
    let now = Instant::now();
    let slots = Arc::new(Slots::new(2, 1, now));
    let backends = Arc::new(ConnectionPlaces::new(2, 1, now));
    let classes = Arc::new(Classes::new(vec![Class::default()], 1));
    let mut gate = TestGate::new(0, &slots, &backends, &classes);
    for waiter in 1..=6 {
        gate.wait('k', waiter, now);
    }
    for (waiter, backend) in [(1, "x"), (2, "y")] {
        open(&mut gate, 'k', backend, now);
        assert_eq!(gate.next(now), Some(Began::On(waiter, backend)));
    }
    assert_eq!(gate.gate.take_ahead('k', now, |_| true), Some((3, ASK)));
    slots.set_limit(1, |_| ());
    assert_eq!(gate.gate.take_ahead('k', now, |_| true), None);
    // One of the two slots is left, and with the other all is as before.
    assert_eq!(gate.pass_on(now), (None, None));
    assert_eq!(gate.gate.take_ahead('k', now, |_| true), Some((4, ASK)));
}

#[test]
fn statements_written_ahead_do_not_keep_a_slot_from_another_worker() {
    let now = Instant::now();
    let slots = Arc::new(Slots::new(1, 2, now));
    let backends = Arc::new(ConnectionPlaces::new(2, 2, now));
    let classes = Arc::new(Classes::new(vec![Class::default()], 2));
    let mut here = TestGate::new(0, &slots, &backends, &classes);
    let mut there = TestGate::new(1, &slots, &backends, &classes);
    here.wait('k', 0, now);
    open(&mut here, 'k', "x", now);
    assert_eq!(here.next(now), Some(Began::On(0, "x")));
    for waiter in 1..100 {
        here.wait('k', waiter, now + 3 * MS);
    }
    there.wait('k', 100, now);
    open(&mut there, 'k', "y", now);
    assert_eq!(there.next(now), None);
    let taken = (0..100).take_while(|_| here.gate.take_ahead('k', now, |_| true).is_some()).count();
    assert_eq!(taken, OWN_TURNS as usize - 1);
    assert_eq!(here.pass_on(now), (None, Some(1)));
    assert_eq!(there.next(now), Some(Began::On(100, "y")));
}

#[test]
fn backends_that_cannot_be_opened_are_not_tried_without_end() {
    let now = Instant::now();
    let mut gate = gate(4, 4);
    for waiter in 0..4 {
        gate.wait('k', waiter, now);
    }
    for _ in 0..2 {
        assert_eq!(gate.gate.want('k', now), Want::Open);
    }
    // One has failed, but another one is on its way: neither a third attempt, nor despair.
    assert_eq!(gate.gate.failed('k', now), None);
    assert_eq!(gate.gate.want('k', now), Want::Nothing);
    assert_eq!(gate.gate.give_up('k'), None);
    // When that one fails as well, there is nothing left to hope for.
    assert_eq!(gate.gate.failed('k', now), None);
    assert_eq!(std::iter::from_fn(|| gate.gate.give_up('k')).count(), 4);
    // For a client that comes later, a backend is tried again at once.
    gate.wait('k', 5, now);
    assert_eq!(gate.gate.want('k', now), Want::Open);
    gate.gate.opened('k');
    gate.gate.put('k', "a", now);
    // With a backend to live on, the next attempt after a failed one comes a little later.
    gate.wait('k', 6, now);
    gate.wait('k', 7, now);
    assert_eq!(gate.gate.want('k', now), Want::Open);
    assert_eq!(gate.gate.failed('k', now), None);
    assert_eq!((gate.gate.give_up('k'), gate.gate.want('k', now)), (None, Want::Nothing));
    assert_eq!(gate.gate.want('k', now + 500 * MS), Want::Open);
}

#[test]
fn an_idle_backend_of_certain_keys_can_be_taken() {
    let now = Instant::now();
    let mut gate = gate(4, 4);
    gate.wait('a', 1, now);
    assert_eq!(gate.gate.want('a', now), Want::Open);
    assert!(gate.gate.has_backends('a') && !gate.gate.has_backends('b'));
    gate.gate.opened('a');
    gate.gate.put('a', "x", now);
    assert_eq!(gate.gate.take_idle(|key| key == 'b', now), None);
    assert_eq!(gate.gate.take_idle(|key| key == 'a', now), Some("x"));
    assert_eq!(gate.gate.take_idle(|key| key == 'a', now), None);
}

#[test]
fn who_comes_back_after_back_pressure_is_first() {
    let now = Instant::now();
    let mut gate = gate(1, 1);
    assert!(gate.enter_own(ASK, now));
    gate.wait_own(1, ASK, now - 10 * MS);
    gate.gate.come_back(2, ASK, now);
    assert_eq!(gate.pass_on(now).0, Some(Began::Own(2)));
    assert_eq!(gate.pass_on(now).0, Some(Began::Own(1)));
}

#[test]
fn a_slot_that_is_set_down_passes_on_and_nothing_is_learnt_of_its_statement() {
    let now = Instant::now();
    let mut gate = gate(1, 1);
    let kind = Ask { digest: Some(Digest::new(9)), ..ASK };
    assert!(gate.enter_own(kind, now));
    gate.wait_own(1, kind, now);
    let patience = gate.gate.bulkheads.patience(kind.digest);
    let slot = gate.running.pop_front().unwrap();
    let start = gate.gate.set_down(slot, now + 900 * MS, |_, _| true);
    assert_eq!(gate.began(start), Some(Began::Own(1)));
    assert_eq!(gate.gate.bulkheads.patience(kind.digest), patience);
    assert_eq!(gate.gate.totals().completed, 0);
    // The slot is another's, so it waits, and ends once.
    gate.gate.come_back(2, ASK, now);
    assert_eq!(gate.next(now), None);
    assert_eq!(gate.pass_on(now + MS).0, Some(Began::Own(2)));
    assert_eq!(gate.pass_on(now + MS).0, None);
    assert_eq!((gate.gate.totals().completed, gate.slots.held()), (2, 0));
    assert_eq!(gate.gate.counts().set_down, 1);
}

const WEB: Ask = Ask::new(ClassId(0), None);
const BATCH: Ask = Ask::new(ClassId(1), None);

fn class(name: &str) -> Class {
    Class { name: name.to_owned(), ..Class::default() }
}

#[test]
fn classes_take_turns_by_weight_and_the_long_waiting_come_first() {
    let now = Instant::now();
    let batch = Class { weight: 50, ..class("batch") };
    let mut gate = classed(1, 1, vec![class("web"), batch]);
    assert!(gate.enter_own(WEB, now));
    for waiter in 0..300 {
        gate.wait_own(1000 + waiter, BATCH, now);
        gate.wait_own(waiter, WEB, now);
    }
    let mut time = now;
    let mut of_batch = 0;
    for _ in 0..90 {
        time += MS;
        let began = gate.pass_on(time).0;
        of_batch += u32::from(matches!(began, Some(Began::Own(1000..))));
    }
    assert!((28..=32).contains(&of_batch), "{of_batch} of 90, with half the weight");
    // Two waiters that came in this order; both have waited for more than a second.
    let later = now + Duration::from_secs(2);
    let (mut gate, lazy) = (classed(1, 1, vec![class("web"), class("batch")]), BATCH);
    gate.force(lazy, now);
    gate.force(WEB, now);
    gate.wait_own(1, lazy, now);
    gate.wait_own(2, WEB, now + MS);
    assert_eq!(gate.pass_on(later).0, None, "one beyond the limit");
    assert_eq!(gate.pass_on(later).0, Some(Began::Own(1)), "whatever its class has been charged");
}

#[test]
fn a_class_keeps_to_its_maximum_and_is_woken_when_it_may_go_on() {
    let now = Instant::now();
    let batch = Class { maximum: Some(1), ..class("batch") };
    let slots = Arc::new(Slots::new(3, 2, now));
    let backends = Arc::new(ConnectionPlaces::new(2, 2, now));
    let classes = Arc::new(Classes::new(vec![class("web"), batch], 2));
    let mut here = TestGate::new(0, &slots, &backends, &classes);
    let mut there = TestGate::new(1, &slots, &backends, &classes);
    assert!(here.enter_own(BATCH, now) && !here.enter_own(BATCH, now));
    assert!(!there.enter_own(BATCH, now));
    there.wait_own(1, BATCH, now);
    assert_eq!(there.next(now), None);
    assert_eq!(slots.held(), 1, "what cannot be used is given back");
    assert_eq!(slots.oldest_other(0), None, "and nobody thinks that it could be");
    assert!(there.enter_own(WEB, now), "others are not held up");
    assert_eq!(here.pass_on(now), (None, Some(1)));
    assert_eq!(there.next(now), Some(Began::Own(1)));
}

#[test]
fn a_full_line_refuses_and_says_why() {
    let now = Instant::now();
    let mut gate = classed(1, 1, vec![Class { queue_max: Some(1), ..class("web") }]);
    assert!(gate.enter_own(ASK, now));
    gate.wait_own(1, ASK, now);
    let (waiter, refusal) = gate.gate.wait_own(2, ASK, now).unwrap_err();
    assert_eq!(waiter, 2);
    assert_eq!(refusal.reason, Reason::LineFull(1));
    assert_eq!(refusal.to_string(), "1 statements of class web wait already (queue_max 1)");
    assert_eq!(gate.gate.waiting(), 1);
}

#[test]
fn the_deadline_of_a_class_is_its_own() {
    let now = Instant::now();
    let batch = Class { wait_max: Some(50 * MS), ..class("batch") };
    let mut gate = classed(1, 1, vec![class("web"), batch]);
    gate.wait_own(1, WEB, now);
    gate.wait_own(2, BATCH, now);
    let all = Some(Duration::from_secs(10));
    assert_eq!(gate.gate.expire_waiter(now + 49 * MS, all), None);
    let (waiter, refusal) = gate.gate.expire_waiter(now + 50 * MS, all).unwrap();
    assert_eq!((waiter, refusal.reason), (2, Reason::ClassWaitMax(50 * MS)));
    assert_eq!(refusal.to_string(), "it waited 0.1 s (wait_max 0.1 s of class batch), 0 more wait");
    assert_eq!(gate.gate.expire_waiter(now + 50 * MS, all), None);
}

#[test]
fn in_an_overload_the_newest_are_served_and_the_oldest_refused() {
    let mut now = Instant::now();
    let turns = Class { when_overloaded: WhenOverloaded::NewestFirst, ..class("web") };
    let mut gate = classed(1, 1, vec![turns]);
    assert!(gate.enter_own(ASK, now));
    let mut waiter = 0;
    let mut newest = 0;
    for _ in 0..400 {
        // Two come for each that is served.
        for _ in 0..2 {
            waiter += 1;
            gate.wait_own(waiter, ASK, now);
        }
        now += MS;
        newest += u32::from(gate.pass_on(now).0 == Some(Began::Own(waiter)));
    }
    assert!(newest > 100, "{newest} times the newest");
    let (first, refusal) = gate.gate.expire_waiter(now, None).unwrap();
    assert!(matches!(refusal.reason, Reason::Overload(most) if most == 200 * MS), "{refusal}");
    assert!(refusal.waited >= 200 * MS && first < 400);
    // Once all are gone, it is as before.
    while gate.pass_on(now).0.is_some() {}
    assert!(gate.enter_own(ASK, now));
    gate.wait_own(1, ASK, now);
    gate.wait_own(2, ASK, now + MS);
    assert_eq!(gate.pass_on(now + MS).0, Some(Began::Own(1)));
}

#[test]
fn no_more_are_parked_than_the_server_says_wait() {
    let now = Instant::now();
    let slots = Slots::new(8, 1, now);
    assert!(slots.try_park(false), "not told yet");
    slots.see_waits(3);
    assert!(slots.try_park(true) && slots.try_park(false));
    assert!(!slots.try_park(false) && !slots.try_park(true));
    slots.unpark();
    assert!(slots.try_park(false));
    slots.see_waits(0);
    assert!(!slots.try_park(true));
}

#[test]
fn a_stuck_kind_is_parked_and_held_back_until_it_moves() {
    let now = Instant::now();
    let later = now + Duration::from_secs(1);
    let stuck = Ask { digest: Some(Digest::new(9)), ..ASK };
    let mut gate = gate(8, 1);
    for _ in 0..8 {
        assert!(gate.enter_own(stuck, now));
    }
    for waiter in 0..8 {
        gate.wait_own(waiter, stuck, now);
    }
    gate.wait_own(100, ASK, now);
    assert!(!gate.gate.seems_stuck(&gate.running[0], now));
    let mut parked = Vec::new();
    // Each one that is parked lets another one in, until too many of the kind are parked.
    for _ in 0..8 {
        let mut slot = gate.running.pop_front().unwrap();
        assert!(gate.gate.seems_stuck(&slot, later));
        let start = gate.gate.park(&mut slot, later, |_, _| true);
        assert!(!gate.gate.seems_stuck(&slot, later), "once is enough");
        parked.push(slot);
        gate.began(start);
        while gate.next(later).is_some() {}
    }
    assert_eq!(gate.slots.parked(), 8);
    assert!(gate.running.iter().any(|slot| slot.ask == ASK), "others pass by");
    let stuck_now = gate.running.iter().filter(|slot| slot.ask == stuck).count();
    assert!(stuck_now <= 2, "{stuck_now} of a kind, of which 8 are parked");
    assert_eq!(gate.slots.held() as usize, gate.running.len());
    // They move again: all that were set aside come back.
    for slot in parked {
        assert!(gate.gate.pass_on(slot, later, |_, _| true).is_none());
        while gate.next(later).is_some() {}
    }
    while !gate.running.is_empty() {
        gate.pass_on(later);
        while gate.next(later).is_some() {}
    }
    assert_eq!((gate.gate.waiting(), gate.slots.held(), gate.slots.parked()), (0, 0, 0));
}

#[test]
fn newcomers_borrow_while_a_slot_is_on_its_way() {
    let now = Instant::now();
    let slots = Arc::new(Slots::new(1, 2, now));
    let backends = Arc::new(ConnectionPlaces::new(2, 2, now));
    let classes = Arc::new(Classes::new(vec![Class::default()], 2));
    let mut here = TestGate::new(0, &slots, &backends, &classes);
    let mut there = TestGate::new(1, &slots, &backends, &classes);
    slots.let_borrow(5 * MS);
    assert!(here.enter_own(ASK, now));
    there.wait_own(1, ASK, now);
    assert!(!here.enter_own(ASK, now), "no slot is on its way yet");
    assert_eq!(here.pass_on(now), (None, Some(1)));
    assert!(!here.enter_own(ASK, now + 6 * MS), "the oldest has waited too long");
    assert!(here.enter_own(ASK, now), "lifo-running 0 < fifo-pending 1");
    assert!(!here.enter_own(ASK, now), "1 < 1");
    assert_eq!(there.next(now), Some(Began::Own(1)));
    assert_eq!(slots.count(), crate::slots::Count { held: 1, pending: 0, borrowed: 1 });
    assert_eq!(here.gate.counts().borrowed, 1);
    assert_eq!(here.pass_on(now), (None, None));
    assert_eq!(there.pass_on(now), (None, None));
    assert_eq!(slots.count(), crate::slots::Count { held: 0, pending: 0, borrowed: 0 });
}

#[test]
fn the_next_statement_on_a_backend_takes_over_the_slot() {
    let now = Instant::now();
    let mut gate = classed(1, 1, vec![class("web"), class("batch")]);
    let mut slot = gate.gate.enter_own(WEB, now).unwrap();
    gate.gate.renew(&mut slot, BATCH, now + MS);
    assert_eq!(slot.ask, BATCH);
    assert_eq!(gate.slots.held(), 1);
    assert!(gate.gate.pass_on(slot, now + 3 * MS, |_, _| true).is_none());
    let totals = gate.gate.totals();
    assert_eq!((totals.completed, totals.followed, totals.busy), (2, 1, 3000));
    assert_eq!(gate.slots.held(), 0);
}
