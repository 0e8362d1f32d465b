//! Why a statement is refused: the message says how long it waited, how many others wait, and which limit it was.
//!
//! A refusal comes before a byte of the statement has reached the server, so it is always safe to try again.

use std::fmt;
use std::time::Duration;

/// A statement is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub waited: Duration,
    /// How many more wait in its class, in this worker.
    pub others: u32,
    pub class: String,
    pub reason: Reason,
    /// So many of its form wait in the server for a lock, and it was held back because it would wait as well.
    pub behind: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// It waited for longer than all may.
    WaitMax(Duration),
    /// It waited for longer than its class may.
    ClassWaitMax(Duration),
    /// There is an overload, in which no statement should wait for longer.
    Overload(Duration),
    /// So many wait already, as many as its class may have in the queue.
    LineFull(u32),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { waited, others, class, reason, behind } = self;
        let seconds = waited.as_secs_f64();
        match reason {
            Reason::LineFull(bound) => {
                write!(f, "{others} statements of class {class} wait already (queue_max {bound})")
            }
            Reason::WaitMax(most) => write!(
                f,
                "it waited {seconds:.1} s (limits.wait {:.1} s), {others} more of class {class} wait",
                most.as_secs_f64()
            ),
            Reason::ClassWaitMax(most) => write!(
                f,
                "it waited {seconds:.1} s (wait_max {:.1} s of class {class}), {others} more wait",
                most.as_secs_f64()
            ),
            Reason::Overload(most) => write!(
                f,
                "more statements of class {class} come than the server can run: it waited \
                 {seconds:.2} s, of at most {:.2} s now, {others} more wait",
                most.as_secs_f64()
            ),
        }?;
        match behind {
            0 => Ok(()),
            _ => write!(
                f,
                "; it was held back because it would wait for a lock, for which {behind} like it wait in the server"
            ),
        }
    }
}
