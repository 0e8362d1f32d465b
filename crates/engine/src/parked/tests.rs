//! What is decided about statements of a form of which some wait.

use super::*;

const MS: Duration = Duration::from_millis(1);
const HOT: Option<Digest> = Some(Digest::new(5));
const OTHER: Option<Digest> = Some(Digest::new(6));

/// A statement that changes this row by so much.
fn of(row: u64, by: u64) -> Likeness {
    let value = |place: u64, value: u64| {
        (place << 40 | value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    };
    Likeness::of_hashes(Some(value(3, row << 16 | by)), &[value(1, by), value(2, row)])
}

struct Test {
    bulkheads: Bulkheads,
    now: Instant,
}

impl Test {
    /// One of the form is parked, of which nothing is known.
    fn new() -> Self {
        let mut bulkheads = Bulkheads::default();
        bulkheads.park(HOT, 0);
        Self { bulkheads, now: Instant::now() }
    }

    fn ask(&self, likeness: &Likeness) -> Decision {
        self.bulkheads.decide(HOT, likeness, 16, Room::Enough, 9)
    }

    fn try_one(&mut self, likeness: &Likeness) -> u32 {
        assert_eq!(self.ask(likeness), Decision::Start);
        self.now += MS;
        self.bulkheads.begin(HOT, likeness.clone(), self.now)
    }

    fn end(&mut self, trial: u32) {
        self.now += MS;
        self.bulkheads.ended(HOT, trial, 1000, self.now);
    }

    fn park(&mut self, likeness: &Likeness) -> u32 {
        let trial = self.try_one(likeness);
        self.bulkheads.park(HOT, trial);
        trial
    }
}

const EQUAL: Decision = Decision::Hold(Held::Equal);
const UNTRIED: Decision = Decision::Hold(Held::Untried);

#[test]
fn equal_ones_are_held_back_and_others_are_not() {
    let mut test = Test::new();
    let first = test.park(&of(7, 1));
    let second = test.park(&of(7, 1));
    assert_eq!(test.ask(&of(7, 1)), EQUAL);
    // Another row is free, although the other value is the same: the first one to end proves that.
    let trial = test.try_one(&of(8, 1));
    assert_eq!(test.ask(&of(9, 1)), UNTRIED, "one at a time");
    assert_eq!(test.ask(&of(9, 2)), Decision::Start, "nothing in common");
    test.end(trial);
    for row in 8..20 {
        assert_eq!(test.ask(&of(row, 1)), Decision::Start);
    }
    assert_eq!(test.ask(&of(7, 1)), EQUAL);
    assert_eq!(test.bulkheads.decide(OTHER, &of(7, 1), 16, Room::None, 9), Decision::Start);
    test.bulkheads.unpark(HOT, first);
    assert_eq!(test.ask(&of(7, 1)), Decision::Start, "one in the place of the one that ended");
    test.bulkheads.unpark(HOT, second);
    test.bulkheads.unpark(HOT, 0);
    assert!(test.bulkheads.is_open(HOT) && test.bulkheads.parked() == 0);
    assert!(test.bulkheads.trials.is_empty());
}

#[test]
fn one_row_by_many_amounts_is_found_out() {
    let mut test = Test::new();
    for by in 1..=2 {
        test.park(&of(7, by));
    }
    let suspect = test.try_one(&of(7, 3));
    assert_eq!(test.ask(&of(7, 4)), UNTRIED);
    // Others go on meanwhile, and more and more of them at once.
    let trials: Vec<_> = (0..1).map(|row| test.try_one(&of(100 + row, 50 + row))).collect();
    assert_eq!(test.ask(&of(200, 200)), UNTRIED, "what was parked has cost trust");
    trials.into_iter().for_each(|trial| test.end(trial));
    for round in 1..10 {
        let rows = 0..=round;
        let trials: Vec<_> =
            rows.map(|row| test.try_one(&of(1000 * round + row, 500 * round + row))).collect();
        trials.into_iter().for_each(|trial| test.end(trial));
    }
    test.bulkheads.park(HOT, suspect);
    let ask = |room| test.bulkheads.decide(HOT, &of(7, 4), 16, room, 9);
    assert_eq!([ask(Room::Enough), ask(Room::Least)], [Decision::Start, UNTRIED]);
    let ask = |likeness, room| test.bulkheads.decide(HOT, &likeness, 16, room, 9);
    assert_eq!(ask(of(300, 300), Room::Least), Decision::Start);
    assert_eq!(ask(of(300, 300), Room::None), UNTRIED);
    assert_eq!(ask(of(7, 1), Room::Little), EQUAL, "one is enough where connections are few");
    assert_eq!(ask(of(1001, 501), Room::None), Decision::Start, "one that has ended before");
}

#[test]
fn what_ended_before_the_lock_was_taken_proves_nothing() {
    let mut test = Test::new();
    let trial = test.try_one(&of(7, 1));
    test.end(trial);
    let (one, two) = (test.try_one(&of(7, 1)), test.try_one(&of(7, 1)));
    assert_eq!(test.ask(&of(7, 1)), Decision::Start, "it has proved to end");
    test.bulkheads.park(HOT, one);
    let other = test.try_one(&of(8, 1));
    test.end(other);
    test.bulkheads.park(HOT, two);
    assert_eq!(test.ask(&of(7, 1)), EQUAL);
    assert_eq!(test.bulkheads.kind(Digest::new(5), &of(7, 9)), TrialKind::Suspect(1));
    assert_eq!(test.bulkheads.kind(Digest::new(5), &of(9, 1)), TrialKind::Unknown, "it has ended");
}

#[test]
fn what_cannot_be_told_apart_is_tried() {
    let mut test = Test::new();
    let unknown = Likeness::default();
    let trials: Vec<_> = (0..4).map(|_| test.try_one(&unknown)).collect();
    assert_eq!(test.ask(&unknown), UNTRIED);
    trials[..2].iter().for_each(|trial| test.bulkheads.park(HOT, *trial));
    assert_eq!(test.ask(&unknown), UNTRIED, "a quarter is left");
    test.end(trials[2]);
    test.end(trials[3]);
    let trials: Vec<_> = (0..3).map(|_| test.try_one(&unknown)).collect();
    assert_eq!(test.ask(&unknown), UNTRIED);
    test.bulkheads.set_down(trials[0]);
    assert_eq!(test.ask(&unknown), Decision::Start);
    let with = |slots| test.bulkheads.decide(HOT, &unknown, slots, Room::Enough, 9);
    assert_eq!([with(0), with(1)], [UNTRIED; 2]);
}

#[test]
fn patience_depends_on_what_the_form_usually_takes() {
    let (mut bulkheads, now) = (Bulkheads::default(), Instant::now());
    assert_eq!(bulkheads.patience(HOT), OLD_UNKNOWN);
    assert_eq!(bulkheads.patience(None), OLD_UNKNOWN);
    (0..100).for_each(|_| bulkheads.ended(HOT, 0, 1_000, now));
    assert_eq!(bulkheads.patience(HOT), OLD);
    (0..200).for_each(|_| bulkheads.ended(HOT, 0, 50_000, now));
    let patience = bulkheads.patience(HOT);
    assert!(patience > 450 * MS && patience <= 500 * MS, "{patience:?}");
    // Another form in the same place is another form.
    assert_eq!(bulkheads.patience(Some(Digest::new(5 + FORMS as u64))), OLD_UNKNOWN);
    bulkheads.ended(HOT, 0, u64::MAX, now);
    assert!(bulkheads.patience(HOT) > patience);
}
