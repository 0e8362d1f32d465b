//! The worker's eye on its own loop: when turns begin and end, what was ready, what the kernel says of the thread.
//!
//! Reads the clocks; what they mean is [`engine::turns`]'s. Belongs to the thread that calls. Invariant: a turn costs
//! one read of a clock beside the one that the loop needs anyway, and seldom the system call that the CPU's clock is.

use std::cell::RefCell;

use engine::turns::{LoopTotals, Recent, Schedule, Turns};

/// What is told of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Told {
    pub(crate) totals: LoopTotals,
    pub(crate) recent: Recent,
    /// The kernel's number of the thread.
    pub(crate) thread: u32,
}

#[derive(Default)]
struct Eye {
    turns: Turns,
    account: Option<sys::threads::Own>,
}

thread_local! {
    static EYE: RefCell<Eye> = RefCell::default();
}

/// The loop has come back from waiting.
pub(crate) fn wake() {
    let now = crate::worker::clock::tick();
    EYE.with_borrow_mut(|eye| eye.turns.wake(now));
}

/// The loop is about to wait.
pub(crate) fn rest() {
    let now = crate::worker::clock::read();
    EYE.with_borrow_mut(|eye| eye.turns.rest(now, sys::threads::own_cpu_time));
}

/// A socket of a client or of a backend was ready.
pub(crate) fn see_ready() {
    EYE.with_borrow_mut(|eye| eye.turns.see_ready());
}

/// Looks at the kernel's account. To be called about once a second.
pub(crate) fn look() {
    EYE.with_borrow_mut(|eye| {
        if eye.account.is_none() {
            eye.account = sys::threads::Own::open().ok();
        }
        let seen = eye.account.as_mut().and_then(|account| account.read().ok());
        let schedule = seen.map(|(ran, waited)| Schedule { ran, waited });
        eye.turns.close(crate::worker::clock::now(), schedule);
    });
}

pub(crate) fn told() -> Told {
    EYE.with_borrow(|eye| Told {
        totals: eye.turns.totals(),
        recent: eye.turns.recent(),
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
            let told = told();
            assert_eq!((told.totals.turns, told.totals.ready), (1, 1));
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
