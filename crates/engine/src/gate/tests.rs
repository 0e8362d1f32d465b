//! Who starts, on which link, after which event.

use super::*;

type TestGate = Gate<char, u32, &'static str>;

fn gate(limit: u32, links: u32) -> TestGate {
    Gate::new(0, Arc::new(Slots::new(limit, 2)), Arc::new(Slots::new(links, 2)))
}

fn any(_: &u32, _: &&'static str) -> bool {
    true
}

fn open(gate: &mut TestGate, key: char, link: &'static str, now: Instant) {
    let want = gate.want(key, now);
    assert_eq!(want, Want::Open);
    gate.opened(key);
    gate.put(key, link, now);
}

#[test]
fn clients_are_served_in_order_and_links_in_reverse() {
    let now = Instant::now();
    let mut gate = gate(2, 4);
    for waiter in 1..=3 {
        gate.wait('k', waiter, now);
    }
    for link in ["x", "y", "z"] {
        open(&mut gate, 'k', link, now);
    }
    assert_eq!(gate.next(any), Some(Start::On(1, "z")));
    assert_eq!(gate.next(any), Some(Start::On(2, "y")));
    assert_eq!(gate.next(any), None, "two slots");
    gate.put('k', "z", now);
    assert_eq!(gate.pass_on(any), (Some(Start::On(3, "z")), None));
    assert_eq!(gate.pass_on(any), (None, None));
    assert_eq!(gate.enter('k', |_| true), Some("x"));
}

#[test]
fn nobody_overtakes_a_line() {
    let now = Instant::now();
    let mut gate = gate(1, 4);
    assert!(gate.enter_own());
    gate.wait_own(7, now);
    assert!(!gate.enter_own());
    assert_eq!(gate.pass_on(any), (Some(Start::Own(7)), None));
    gate.force();
    gate.wait_own(8, now);
    assert_eq!(gate.pass_on(any), (None, None), "one beyond the limit ends first");
    assert_eq!(gate.pass_on(any), (Some(Start::Own(8)), None));
}

#[test]
fn the_longest_waiter_of_all_lines_is_next() {
    let now = Instant::now();
    let mut gate = gate(1, 4);
    assert!(gate.enter_own());
    gate.wait('b', 2, now + Duration::from_millis(2));
    gate.wait('a', 1, now + Duration::from_millis(1));
    gate.wait_own(3, now + Duration::from_millis(3));
    open(&mut gate, 'b', "b", now);
    assert_eq!(gate.pass_on(any).0, Some(Start::On(2, "b")), "no link of key a yet");
    open(&mut gate, 'a', "a", now);
    assert_eq!(gate.pass_on(any).0, Some(Start::On(1, "a")));
    assert_eq!(gate.pass_on(any).0, Some(Start::Own(3)));
}

#[test]
fn a_full_cap_takes_the_coldest_link_of_another_key() {
    let now = Instant::now();
    let mut gate = gate(4, 2);
    for (key, link, age) in [('a', "a", 0), ('b', "b", 1)] {
        gate.wait(key, 0, now);
        open(&mut gate, key, link, now + Duration::from_secs(age));
        assert!(matches!(gate.next(any), Some(Start::On(..))));
        gate.put(key, link, now + Duration::from_secs(age));
        assert_eq!(gate.pass_on(any), (None, None));
    }
    gate.wait('c', 5, now);
    assert_eq!(gate.want('c', now), Want::Close("a"));
    assert_eq!(gate.closed('a', |link| *link == "a"), None);
    assert_eq!(gate.want('c', now), Want::Open);
    assert_eq!(gate.want('c', now), Want::Nothing, "one waits, one is being opened");
    gate.wait('c', 6, now);
    assert_eq!(gate.want('c', now), Want::Nothing, "it has one, and b's is not spare yet");
    let later = now + Duration::from_secs(3);
    assert_eq!(gate.want('c', later), Want::Close("b"));
    gate.wait('d', 7, now);
    assert_eq!(gate.want('d', now), Want::Ask, "nothing idle is left here");
}

#[test]
fn another_workers_waiters_get_their_turn() {
    let now = Instant::now();
    let mut gate = gate(1, 4);
    let slots = Arc::clone(&gate.slots);
    assert!(gate.enter_own());
    slots.publish_waiting(1, 1);
    for waiter in 0..20 {
        gate.wait_own(waiter, now);
    }
    let turns = std::iter::from_fn(|| match gate.pass_on(any) {
        (Some(_), None) => Some(()),
        (None, Some(1)) => None,
        other => panic!("{other:?}"),
    });
    assert_eq!(turns.count(), OWN_TURNS as usize - 1);
}

#[test]
fn a_worker_that_lacks_a_link_is_given_no_slot() {
    let now = Instant::now();
    let mut gate = gate(1, 1);
    let slots = Arc::clone(&gate.slots);
    assert!(slots.try_take());
    gate.wait('k', 1, now);
    assert_eq!(slots.other_waiting(1), None, "it could not use one");
    assert_eq!(gate.links.other_waiting(1), Some(0), "it waits for a link");
    assert_eq!(gate.want('k', now), Want::Open);
    assert_eq!(gate.links.other_waiting(1), None, "one is on its way");
    gate.opened('k');
    gate.put('k', "x", now);
    assert_eq!(slots.give_back(1), Some(0), "now it can");
    assert_eq!(gate.next(any), Some(Start::On(1, "x")));
    assert_eq!(slots.other_waiting(1), None);
}

#[test]
fn a_slot_that_comes_too_late_goes_on_to_the_next_worker() {
    let gate = gate(1, 1);
    let slots = Arc::clone(&gate.slots);
    assert_eq!(gate.unused_slot(), None, "nobody waits");
    slots.publish_waiting(1, 1);
    assert_eq!(gate.unused_slot(), Some(1));
    assert!(slots.try_take());
    assert_eq!(gate.unused_slot(), None, "it has been taken");
}

#[test]
fn waiters_leave_late_ones_are_taken_out_and_hopeless_ones_given_up() {
    let now = Instant::now();
    let second = Duration::from_secs(1);
    let mut gate = gate(1, 1);
    let one = gate.wait('k', 1, now);
    gate.wait('k', 2, now);
    gate.wait('k', 3, now + second);
    assert_eq!(gate.leave(one), Some(1));
    assert_eq!(gate.leave(one), None);
    assert_eq!(gate.expire_waiter(now + second, second), Some((2, second)));
    assert_eq!(gate.expire_waiter(now + second, second), None);
    assert_eq!(gate.want('k', now), Want::Open);
    assert_eq!(gate.give_up('k'), None, "a link is on its way");
    gate.opened('k');
    assert_eq!(gate.closed('k', |_| false), None);
    assert_eq!(gate.give_up('k'), Some(3));
    assert_eq!(gate.waiting(), 0);
}

#[test]
fn statements_go_ahead_on_a_busy_link_in_the_order_of_the_line() {
    let now = Instant::now();
    let mut gate = gate(1, 1);
    gate.wait('k', 1, now);
    open(&mut gate, 'k', "x", now);
    assert_eq!(gate.next(any), Some(Start::On(1, "x")));
    for waiter in 2..=4 {
        gate.wait('k', waiter, now);
    }
    assert_eq!(gate.share('k'), 3);
    assert_eq!(gate.take_ahead('k', |_| false), None);
    assert_eq!(gate.take_ahead('k', |_| true), Some(2));
    // Whoever could have the slot and has waited longer goes first.
    gate.wait_own(9, now - Duration::from_millis(1));
    assert_eq!(gate.take_ahead('k', |_| true), None);
    assert_eq!(gate.pass_on(any), (Some(Start::Own(9)), None));
    gate.wait_again('k', 2, now);
    assert_eq!(gate.take_ahead('k', |_| true), Some(2));
    assert_eq!(gate.take_ahead('k', |_| true), Some(3));
}

#[test]
fn statements_written_ahead_do_not_keep_a_slot_from_another_worker() {
    let now = Instant::now();
    let slots = Arc::new(Slots::new(1, 2));
    let links = Arc::new(Slots::new(2, 2));
    let mut here: TestGate = Gate::new(0, Arc::clone(&slots), Arc::clone(&links));
    let mut there: TestGate = Gate::new(1, slots, links);
    here.wait('k', 0, now);
    open(&mut here, 'k', "x", now);
    assert_eq!(here.next(any), Some(Start::On(0, "x")));
    for waiter in 1..100 {
        here.wait('k', waiter, now);
    }
    there.wait('k', 100, now);
    open(&mut there, 'k', "y", now);
    assert_eq!(there.next(any), None);
    let taken = (0..100).take_while(|_| here.take_ahead('k', |_| true).is_some()).count();
    assert_eq!(taken, OWN_TURNS as usize);
    assert_eq!(here.pass_on(any), (None, Some(1)));
    assert_eq!(there.next(any), Some(Start::On(100, "y")));
}

#[test]
fn links_that_cannot_be_opened_are_not_tried_without_end() {
    let now = Instant::now();
    let mut gate = gate(4, 4);
    for waiter in 0..4 {
        gate.wait('k', waiter, now);
    }
    for _ in 0..2 {
        assert_eq!(gate.want('k', now), Want::Open);
    }
    // One has failed, but another one is on its way: neither a third attempt, nor despair.
    assert_eq!(gate.failed('k', now), None);
    assert_eq!(gate.want('k', now), Want::Nothing);
    assert_eq!(gate.give_up('k'), None);
    // When that one fails as well, there is nothing left to hope for.
    assert_eq!(gate.failed('k', now), None);
    assert_eq!(std::iter::from_fn(|| gate.give_up('k')).count(), 4);
    // Who comes later has a try of his own, at once.
    gate.wait('k', 5, now);
    assert_eq!(gate.want('k', now), Want::Open);
    gate.opened('k');
    gate.put('k', "a", now);
    // With a link to live on, the next attempt after a failed one comes a little later.
    gate.wait('k', 6, now);
    gate.wait('k', 7, now);
    assert_eq!(gate.want('k', now), Want::Open);
    assert_eq!(gate.failed('k', now), None);
    assert_eq!((gate.give_up('k'), gate.want('k', now)), (None, Want::Nothing));
    assert_eq!(gate.want('k', now + RETRY), Want::Open);
}

#[test]
fn an_idle_link_of_certain_keys_can_be_taken() {
    let now = Instant::now();
    let mut gate = gate(4, 4);
    gate.wait('a', 1, now);
    assert_eq!(gate.want('a', now), Want::Open);
    assert!(gate.has_links('a') && !gate.has_links('b'));
    gate.opened('a');
    gate.put('a', "x", now);
    assert_eq!(gate.take_idle(|key| key == 'b', now), None);
    assert_eq!(gate.take_idle(|key| key == 'a', now), Some("x"));
    assert_eq!(gate.take_idle(|key| key == 'a', now), None);
}
