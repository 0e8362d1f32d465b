//! Random days of several workers' gates over shared slots: which clients run, which wait, and what is left at the end.
//!
//! Plays the proxy's part: clients come, pin and leave, backends open, fail and age, mail is late.
//! Beside each gate stands a plain model of its lines and idle backends, in `simulation/world.rs`,
//! which is asked after each step. A failure names its seed.

#[path = "simulation/world.rs"]
mod world;

use world::World;

/// Days, each with workers, limits and clients of its own.
const SEEDS: u64 = 4000;

/// What happens in one.
const STEPS: u32 = 250;

#[test]
fn nobody_and_nothing_is_lost() {
    let mut told = [0; 4];
    for seed in 1..=SEEDS {
        let guard = Told(seed);
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
            world.check();
        }
        world.end();
        for (sum, count) in told.iter_mut().zip(world.told()) {
            *sum += count;
        }
        drop(guard);
    }
    // A simulation in which nothing happens would hold any promise.
    let [started, waited, expired, given_up] = told;
    assert!(started > SEEDS * 20 && waited > SEEDS * 5, "{started} started, {waited} waited");
    assert!(expired > 100 && given_up > 100, "{expired} expired, {given_up} given up");
}

/// Names the seed if the day ends in a panic.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}", self.0);
        }
    }
}
