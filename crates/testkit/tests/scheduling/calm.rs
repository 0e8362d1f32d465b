//! Whether the machine was the test's own while it measured.
//!
//! Loads here leave most of the processors' time unused, so a thread that sleeps for a moment is woken in time, unless
//! the hypervisor, or another program, has the processors. A result of such a time is void; any other result counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use sys::machine::{CpuTimes, cpu_times};

/// Runs an attempt; one that falls short while the machine was disturbed is void, and another one is made. So is one if
/// the first on a calm machine falls short, which may be by chance: the second may not. A machine that is never calm
/// shows nothing of speed, for or against.
pub(crate) fn shown(mut attempt: impl FnMut() -> Result<(), String>) {
    let mut chances = 1;
    for _ in 0..ATTEMPTS {
        let witness = Witness::begin();
        let outcome = attempt();
        let seen = witness.end();
        println!("{seen:?}");
        let Err(why) = outcome else { return };
        if !seen.is_disturbed() {
            assert!(chances > 0, "{why}, for the second time; the machine was calm: {seen:?}");
            chances -= 1;
        }
        println!("void: {why}");
    }
    assert!(chances > 0, "it fell short on a calm machine, and was never shown");
    println!("NOT SHOWN: the machine was never calm, {ATTEMPTS} times");
}

pub(crate) fn wanted(is_so: bool, else_why: impl FnOnce() -> String) -> Result<(), String> {
    if is_so { Ok(()) } else { Err(else_why()) }
}

const ATTEMPTS: usize = 4;

/// What the machine did meanwhile, as shares of the time.
#[derive(Debug)]
struct Seen {
    /// Of all processors, for other virtual machines.
    stolen: f64,
    /// Of a thread that was to be woken: too late by this much.
    late: f64,
}

impl Seen {
    fn is_disturbed(&self) -> bool {
        self.stolen > STOLEN_MAX || self.late > LATE_MAX
    }
}

/// A calm machine shows 0.0003 and 0.0003 to 0.003; a build beside this, 0.006 and more.
const STOLEN_MAX: f64 = 0.01;
const LATE_MAX: f64 = 0.004;
const NAP: Duration = Duration::from_millis(2);
/// Timers, and a turn behind the running thread, take so long anyhow.
const USUAL: Duration = Duration::from_millis(1);

struct Witness {
    stop: Arc<AtomicBool>,
    naps: JoinHandle<f64>,
    begun: CpuTimes,
}

impl Witness {
    fn begin() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let naps = thread::spawn({
            let stop = Arc::clone(&stop);
            move || naps(&stop)
        });
        Self { stop, naps, begun: cpu_times().expect("Linux tells") }
    }

    fn end(self) -> Seen {
        self.stop.store(true, Relaxed);
        let late = self.naps.join().expect("naps do not panic");
        let CpuTimes { busy, idle, steal } = cpu_times().expect("Linux tells").since(self.begun);
        let all = (busy + idle + steal).as_secs_f64().max(f64::MIN_POSITIVE);
        Seen { stolen: steal.as_secs_f64() / all, late }
    }
}

/// Sleeps again and again, and tells which share of the time it would have been awake.
fn naps(stop: &AtomicBool) -> f64 {
    let (begun, mut late) = (Instant::now(), Duration::ZERO);
    while !stop.load(Relaxed) {
        let asleep = Instant::now();
        thread::sleep(NAP);
        late += asleep.elapsed().saturating_sub(NAP + USUAL);
    }
    late.as_secs_f64() / begun.elapsed().as_secs_f64()
}
