//! The worker's eye on its own loop: when iterations begin and end, what was ready, what the kernel says of the thread.
//!
//! Reads the clocks; what they mean is [`engine::iterations`]'s. Belongs to the thread that calls. Invariant: an iteration costs
//! one read of a clock beside the one that the loop needs anyway, and seldom the system call that the CPU's clock is.

use std::cell::RefCell;

use engine::iterations::{Iterations, LoopTotals, Recent, Schedule};

/// What is told of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LoopReport {
    pub(crate) totals: LoopTotals,
    pub(crate) recent: Recent,
    /// The kernel's number of the thread.
    pub(crate) thread: u32,
}

#[derive(Default)]
struct Eye {
    iterations: Iterations,
    account: Option<sys::threads::Own>,
}

thread_local! {
    static EYE: RefCell<Eye> = RefCell::default();
}

/// The loop has come back from waiting.
pub(crate) fn wake() {
    let now = crate::worker::clock::tick();
    EYE.with_borrow_mut(|eye| eye.iterations.wake(now));
}

/// The loop is about to wait.
pub(crate) fn rest() {
    let now = crate::worker::clock::read();
    EYE.with_borrow_mut(|eye| eye.iterations.rest(now, sys::threads::own_cpu_time));
}

/// A socket of a client or of a backend was ready.
pub(crate) fn see_ready() {
    EYE.with_borrow_mut(|eye| eye.iterations.see_ready());
}

/// Looks at the kernel's account. To be called about once a second.
pub(crate) fn look() {
    EYE.with_borrow_mut(|eye| {
        if eye.account.is_none() {
            eye.account = sys::threads::Own::open().ok();
        }
        let seen = eye.account.as_mut().and_then(|account| account.read().ok());
        let schedule = seen.map(|(ran, waited)| Schedule { ran, waited });
        eye.iterations.close(crate::worker::clock::now(), schedule);
    });
}

pub(crate) fn report() -> LoopReport {
    EYE.with_borrow(|eye| LoopReport {
        totals: eye.iterations.totals(),
        recent: eye.iterations.recent(),
        thread: sys::threads::own_number(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_thread_that_works_sees_itself_run() {
        std::thread::spawn(|| {
            look();
            wake();
            see_ready();
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_millis(60) {
                std::hint::spin_loop();
            }
            rest();
            crate::worker::clock::tick();
            look();
            let told = report();
            assert_eq!((told.totals.iterations, told.totals.ready), (1, 1));
            assert!(told.totals.busy >= Duration::from_millis(60));
            assert!(told.totals.stolen < told.totals.busy, "{told:?}");
            let Schedule { ran, waited } = told.totals.schedule;
            assert!(ran + waited >= Duration::from_millis(50), "{told:?}");
            assert_ne!(told.thread, std::process::id());
        })
        .join()
        .expect("sees itself");
    }
}
