//! Which worker gets the next place for a connection. (Orders of events are tried in `interleavings.rs`.)

use std::time::{Duration, Instant};

use engine::places::ConnectionPlaces;

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_place_goes_to_the_client_that_has_waited_longest() {
    let now = Instant::now();
    let places = ConnectionPlaces::new(1, 3, now);
    assert!(places.take(0) && !places.take(0) && !places.take(1));
    places.publish(0, 1, Some((now + 3 * MS, 7)));
    places.publish(1, 1, Some((now + 2 * MS, 8)));
    places.publish(2, 1, Some((now + MS, 9)));
    assert_eq!(places.oldest_other(0).map(|it| (it.worker, it.kind)), Some((2, 9)));
    assert_eq!(places.give_back(), Some(2));
    assert!(!places.take(0) && !places.take(1), "it is taken on the way");
    assert_eq!(places.oldest_other(0).map(|it| it.worker), Some(1), "one has what it needs");
    assert!(places.take(2));
    places.publish(2, 0, None);
    assert_eq!(places.give_back(), Some(1));
    assert!(places.take(1));
    places.publish(1, 0, None);
    assert_eq!(places.give_back_elsewhere(0), None, "not to its own");
    assert!(places.take(0));
    assert_eq!(places.give_back(), Some(0));
}

#[test]
fn what_is_promised_counts_until_it_arrives() {
    let now = Instant::now();
    let places = ConnectionPlaces::new(2, 2, now);
    assert!(places.take(0) && places.take(0));
    places.publish(1, 1, Some((now, 0)));
    places.promise(1);
    assert_eq!(places.oldest_other(0), None);
    assert_eq!(places.fulfil(1), Some(1));
    assert!(places.take(1));
    assert_eq!(places.oldest_other(0).map(|it| it.worker), Some(1), "until it says otherwise");
    places.promise(1);
    places.set_limit(1, |_| ());
    assert_eq!(places.fulfil(1), None, "a place that there is no more");
    assert_eq!(places.held(), 1);
    places.set_limit(2, |worker| assert_eq!(worker, 1));
    assert!(places.claim(1) && !places.claim(1));
}

#[test]
fn the_oldest_of_each_kind_is_seen_behind_older_ones_of_others() {
    let now = Instant::now();
    let places = ConnectionPlaces::new(1, 3, now);
    for (kind, late) in [(7, 1), (8, 2), (9, 3)] {
        places.publish_kind(1, kind, Some(now + late * MS));
    }
    places.publish(1, 3, [(now + MS, 7), (now + 2 * MS, 8)]);
    places.publish_kind(2, 9, Some(now));
    places.publish(2, 1, [(now, 9)]);
    let of = |kind| places.oldest_other_of(0, kind).map(|it| it.worker);
    assert_eq!((of(7), of(8), of(9), of(10)), (Some(1), Some(1), Some(2), None));
    let but = |kind| places.oldest_other_but(0, kind).map(|it| (it.worker, it.kind));
    assert_eq!((but(9), but(7)), (Some((1, 7)), Some((2, 9))));
    places.publish_kind(2, 9, None);
    places.publish(2, 0, []);
    assert_eq!((of(9), but(7)), (Some(1), Some((1, 8))));
    places.promise(1);
    assert_eq!(of(9), Some(1), "one of three has what it needs");
}
