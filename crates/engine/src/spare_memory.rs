//! When memory that was freed goes back to the system.
//!
//! An allocator keeps what was freed for the next request. After a flood that is most of what a process has, and it may
//! stay so for days. Giving it back costs page faults when the next flood comes, so only what has not been needed for a
//! while is worth it.
//!
//! Invariants: it is given back at most once in [`PERIOD`]; what cannot be given back is not tried again.

use std::time::{Duration, Instant};

/// Memory is spare if it was not needed for so long.
pub const PERIOD: Duration = Duration::from_secs(10);

/// Less is kept, in bytes.
pub const WORTH: u64 = 16 << 20;

/// What a process has, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    pub resident: u64,
    /// What was asked of the allocator and not freed.
    pub used: u64,
}

/// What is not used, over time.
#[derive(Debug, Default)]
pub struct Spare {
    /// What is always there: the program, its stacks, and pages that are used in part.
    rest: Option<u64>,
    /// There is more than that since then.
    since: Option<Instant>,
}

impl Spare {
    /// Whether to give memory back now; then [`Self::see_rest`] is to be called.
    pub fn look(&mut self, memory: Memory, now: Instant) -> bool {
        let unused = memory.unused();
        let rest = self.rest.map_or(unused, |rest| rest.min(unused));
        self.rest = Some(rest);
        if unused < rest + WORTH {
            self.since = None;
            return false;
        }
        now.saturating_duration_since(*self.since.get_or_insert(now)) >= PERIOD
    }

    /// Memory was given back, and this is left.
    pub const fn see_rest(&mut self, memory: Memory) {
        *self = Self { rest: Some(memory.unused()), since: None };
    }
}

impl Memory {
    const fn unused(self) -> u64 {
        self.resident.saturating_sub(self.used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Looks each second at what there is then; the seconds at which memory was given back, and what was left then.
    fn given_back(seconds: u64, rest: u64, memory: impl Fn(u64) -> (u64, u64)) -> Vec<u64> {
        let (begun, mut spare, mut given) = (Instant::now(), Spare::default(), Vec::new());
        for second in 0..seconds {
            let (resident, used) = memory(second);
            let memory = Memory { resident: resident * MIB, used: used * MIB };
            if spare.look(memory, begun + Duration::from_secs(second)) {
                given.push(second);
                spare.see_rest(Memory { resident: memory.used + rest * MIB, used: memory.used });
            }
        }
        given
    }

    #[test]
    fn what_a_flood_leaves_is_given_back_once() {
        let flood = |second| match second {
            0..5 => (20, 4),
            5..30 => (150, 140),
            30..41 => (150, 6),
            _ => (26, 6),
        };
        assert_eq!(given_back(600, 20, flood), [40]);
    }

    #[test]
    fn what_is_needed_again_and_again_is_kept() {
        let waves = |second| if second % 8 < 4 { (150, 130) } else { (150, 20) };
        assert!(given_back(600, 20, waves).is_empty());
        assert!(given_back(600, 20, |_| (35, 20)).is_empty());
    }

    #[test]
    fn what_cannot_be_given_back_is_not_tried_again() {
        let stays = |second| if second < 10 { (20, 4) } else { (150, 20) };
        assert_eq!(given_back(600, 130, stays), [20]);
        // Unless there is more of it.
        let grows = |second| match second {
            0..10 => (20, 4),
            10..100 => (150, 20),
            100..111 => (300, 20),
            _ => (150, 20),
        };
        assert_eq!(given_back(600, 130, grows), [20, 110]);
    }
}
