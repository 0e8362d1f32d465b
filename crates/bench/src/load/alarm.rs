//! Wakes clients at the microsecond, where the runtime's own timers count milliseconds.
//!
//! Each thread has one kernel timer. Invariant: it is armed for the earliest time that a client waits for.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::time::{Duration, Instant};

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;

pub(super) struct Alarm {
    /// A timer's descriptor; to the event loop it is one more that can be read.
    timer: Receiver,
    /// What all times of a turn are counted from.
    epoch: Instant,
    waiting: RefCell<BinaryHeap<Reverse<Sleeper>>>,
}

struct Sleeper {
    at: u64,
    /// The receiver is gone if the client's task has ended.
    bell: oneshot::Sender<()>,
}

impl Alarm {
    pub(super) fn new(epoch: Instant) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer =
            Receiver::from_owned_fd_unchecked(timerfd_create(TimerfdClockId::Monotonic, flags)?)?;
        Ok(Self { timer, epoch, waiting: RefCell::default() })
    }

    /// Nanoseconds since the epoch.
    pub(super) fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    /// Waits until this time has come, if it has not.
    pub(super) async fn until(&self, at: u64) -> io::Result<()> {
        if at <= self.now() {
            return Ok(());
        }
        let (bell, rung) = oneshot::channel();
        let is_first = {
            let mut waiting = self.waiting.borrow_mut();
            let is_first = waiting.peek().is_none_or(|Reverse(first)| at < first.at);
            waiting.push(Reverse(Sleeper { at, bell }));
            is_first
        };
        if is_first {
            self.arm(at)?;
        }
        // The bell is lost only with the alarm itself.
        let _ = rung.await;
        Ok(())
    }

    /// Rings for those whose time has come, for as long as the thread works.
    pub(super) async fn ring(&self) -> io::Result<()> {
        loop {
            self.timer.readable().await?;
            match self.timer.try_read(&mut [0; 8]) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
                _ => {}
            }
            if let Some(next) = self.wake_those_due() {
                self.arm(next)?;
            }
        }
    }

    fn wake_those_due(&self) -> Option<u64> {
        let mut waiting = self.waiting.borrow_mut();
        let now = self.now();
        while let Some(Reverse(first)) = waiting.peek() {
            if now < first.at {
                return Some(first.at);
            }
            let _ = waiting.pop().map(|Reverse(first)| first.bell.send(()));
        }
        None
    }

    fn arm(&self, at: u64) -> io::Result<()> {
        // Zero would disarm it.
        let left = Duration::from_nanos(at.saturating_sub(self.now()).max(1));
        let value = Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(left.subsec_nanos()),
        };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        Ok(())
    }
}

impl PartialEq for Sleeper {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Sleeper {}

impl PartialOrd for Sleeper {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Sleeper {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.at.cmp(&other.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    #[test]
    fn sleepers_wake_in_the_order_of_their_times_and_not_before() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        tokio::task::LocalSet::new().block_on(&runtime, async {
            let alarm = Rc::new(Alarm::new(Instant::now()).expect("a timer"));
            let ringing = Rc::clone(&alarm);
            let ring = tokio::task::spawn_local(async move { ringing.ring().await });
            // On a busy machine a time may be over before all sleep.
            for head_start in [20, 200, 2_000, 20_000] {
                let begin = alarm.now() + head_start * 1_000_000;
                let woken = Rc::new(RefCell::new(Vec::new()));
                let all_in_time = Rc::new(Cell::new(true));
                let tasks = [9, 3, 6, 0, 3].map(|ms| {
                    let (alarm, woken) = (Rc::clone(&alarm), Rc::clone(&woken));
                    let all_in_time = Rc::clone(&all_in_time);
                    tokio::task::spawn_local(async move {
                        all_in_time.set(all_in_time.get() && alarm.now() < begin);
                        let at = begin + ms * 1_000_000;
                        alarm.until(at).await.expect("waits");
                        assert!(at <= alarm.now());
                        woken.borrow_mut().push(ms);
                    })
                });
                for task in tasks {
                    task.await.expect("no panic");
                }
                if all_in_time.get() {
                    assert_eq!(*woken.borrow(), [0, 3, 3, 6, 9]);
                    return ring.abort();
                }
            }
            panic!("the machine is too busy");
        });
    }
}
