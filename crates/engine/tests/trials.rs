//! A server that comes back gets its load back step by step: what that costs if it is not well after all, and how fast
//! it has all of its load if it is. Simulated, with clients that always have something to ask.

use std::time::{Duration, Instant};

use engine::checks::health::{CheckRules, Sign, State};
use engine::cluster::{Cluster, ClusterBounds, Group, Member};
use engine::time_limits::Bound;

/// Statements that a server may run at once.
const LIMIT: usize = 16;
const CLIENTS: usize = 64;
const STEP: Duration = Duration::from_millis(10);
/// So many steps from one check to the next.
const CHECKED: usize = 50;

const SICK: usize = 0;

struct Scene {
    cluster: Cluster,
    now: Instant,
    running: [usize; 3],
    /// Statements that the first server has lost, and how often it has come up.
    lost: usize,
    risen: usize,
}

impl Scene {
    fn new(slow_start: Duration) -> Self {
        let rules = CheckRules { slow_start, ..CheckRules::default() };
        let reader = Member { group: Group::Readers, backup: false, lag_max: Bound::Inherited };
        let (now, members) = (Instant::now(), [reader; 3]);
        let cluster = Cluster::new(&members, &rules, ClusterBounds::default(), now);
        Self { cluster, now, running: [0; 3], lost: 0, risen: 0 }
    }

    fn take_down(&mut self) {
        for _ in 0..CheckRules::default().fall {
            self.cluster.see(SICK, Sign::Failed("no answer".to_owned()), self.now);
        }
        self.running[SICK] = 0;
    }

    fn room(&self, at: usize) -> usize {
        let place = &self.cluster.layout(self.now).places[at];
        let limit = ((LIMIT as f64 * place.growth) as usize).max(1);
        if place.takes.reads() { limit.saturating_sub(self.running[at]) } else { 0 }
    }

    /// One step: clients send, and what was sent ends; on the first server as `is_well` says.
    fn step(&mut self, number: usize, is_well: bool) {
        self.now += STEP;
        if number.is_multiple_of(CHECKED) {
            for at in 0..3 {
                let before = self.cluster.health(at).is_usable();
                self.cluster.see(at, Sign::Passed, self.now);
                if at == SICK && !before && self.cluster.health(at).is_usable() {
                    self.risen += 1;
                }
            }
        }
        for at in 0..3 {
            self.running[at] += self.room(at).min(CLIENTS);
        }
        if !is_well {
            for _ in 0..std::mem::take(&mut self.running[SICK]) {
                self.lost += 1;
                let lost = Sign::TrafficFailed("a backend connection was lost".to_owned());
                self.cluster.see(SICK, lost, self.now);
            }
        }
        let ended = std::mem::take(&mut self.running);
        for at in (0..3).filter(|at| ended[*at] > 0) {
            self.cluster.tried(at, self.now);
        }
    }
}

#[test]
fn a_server_that_answers_checks_and_loses_statements_costs_one_for_each_time_it_comes_up() {
    let mut scene = Scene::new(Duration::ZERO);
    scene.take_down();
    for number in 1..=200_000 {
        scene.step(number, false);
    }
    assert!(scene.risen > 1000, "{}", scene.risen);
    assert_eq!(scene.lost, scene.risen);
    assert_ne!(scene.cluster.health(SICK).state(), State::Up);
}

#[test]
fn a_server_that_is_well_again_has_all_of_its_load_when_it_should() {
    let slow_start = Duration::from_secs(2);
    let mut scene = Scene::new(slow_start);
    scene.take_down();
    let (mut began, mut last, mut full) = (None, 0, None);
    for number in 1..=1000 {
        scene.step(number, true);
        let is_usable = scene.cluster.health(SICK).is_usable();
        assert!(is_usable || began.is_none());
        if !is_usable {
            continue;
        }
        let began = *began.get_or_insert(scene.now);
        let (room, age) = (scene.room(SICK), scene.now - began);
        let due = (LIMIT as f64 * age.as_secs_f64() / slow_start.as_secs_f64()) as usize;
        assert!(room >= last, "it never falls: {room} after {last}");
        assert!(room <= due.max(1), "{room} after {age:?}");
        last = room;
        if room == LIMIT {
            full.get_or_insert(age);
        }
    }
    let full = full.expect("it gets all of it");
    assert!(full >= slow_start && full < slow_start + STEP * 5, "{full:?}");
    assert_eq!(scene.lost, 0);
}
