//! What Flifo takes of a machine, or of a container: workers by its CPUs, room for long commands by its memory.
//!
//! Reads nothing: what a process may have is an argument. Invariants: there is a worker, and room for a command, however
//! little there is; the rooms of all workers together take no more than a quarter of a limit that is not tiny.

/// What a process may have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Allowance {
    /// The CPUs that it may run on.
    pub cpus: usize,
    /// So much time of CPUs it may take: 0.5 is half of one. `None` is no quota.
    pub quota: Option<f64>,
    /// The physical cores that share a cache with the first one; `None` if that is not known.
    pub cores: Option<usize>,
    /// Bytes of memory. `None` is no limit.
    pub memory: Option<u64>,
}

impl Allowance {
    /// As many workers as suit a machine that they share with the server. A worker beyond the quota would be stopped in
    /// the middle of what it does, with what waits for it.
    pub fn workers(&self) -> usize {
        // A number of CPUs fits.
        let quota = self.quota.map_or(usize::MAX, |quota| quota.max(1.0) as usize);
        let cpus = self.cpus.min(quota).max(1);
        if cpus <= 2 {
            return 1;
        }
        self.cores.unwrap_or(cpus).clamp(1, cpus.min(WORKERS_MAX))
    }

    /// The rooms of each of so many workers.
    pub fn rooms(&self, workers: usize) -> CommandRooms {
        let Some(memory) = self.memory else { return CommandRooms::USUAL };
        let share = memory / 4 / workers.max(1) as u64;
        let share = usize::try_from(share).unwrap_or(usize::MAX);
        if share >= CommandRooms::USUAL.short + CommandRooms::USUAL.long {
            return CommandRooms::USUAL;
        }
        CommandRooms {
            short: (share / 5).max(CommandRooms::LEAST.short),
            long: (share / 5 * 4).max(CommandRooms::LEAST.long),
        }
    }

    /// What texts of prepared statements may take of each of so many workers, in bytes.
    pub fn texts(&self, workers: usize) -> usize {
        let share = self.memory.unwrap_or(TEXTS_OF) / 16 / workers.max(1) as u64;
        usize::try_from(share).unwrap_or(usize::MAX).clamp(TEXTS_LEAST, TEXTS_MOST)
    }

    /// How many clients have room in the memory beside so many workers, if it is limited: at rest, and a fair part of
    /// them with a statement.
    pub fn clients(&self, workers: usize) -> Option<u64> {
        let rooms = self.rooms(workers);
        let each = (rooms.short + rooms.long) as u64 + WORKER;
        let taken = PROGRAM.saturating_add(each.saturating_mul(workers as u64));
        Some(self.memory?.saturating_sub(taken) / CLIENT)
    }
}

/// Memory without a limit counts as much, as far as texts are concerned; and what they have at least and at most.
const TEXTS_OF: u64 = 1 << 30;
const TEXTS_LEAST: usize = 2 << 20;
const TEXTS_MOST: usize = 64 << 20;

/// Four workers feed more statements than the servers that we know can run.
const WORKERS_MAX: usize = 4;

/// Bytes that the program takes with no client, and more for each worker: tables of digests, buffers.
const PROGRAM: u64 = 32 << 20;
const WORKER: u64 = 8 << 20;

/// Bytes for each client: an eighth of that while it rests, its buffers while it does not.
const CLIENT: u64 = 16 << 10;

/// Room for long commands that are read as a whole, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandRooms {
    /// For those up to 1 MiB.
    pub short: usize,
    /// For the longer ones. Those longer than nearly half of it go to the server in pieces.
    pub long: usize,
}

impl CommandRooms {
    /// The second one is for two of the longest, and their headers.
    pub const USUAL: Self = Self { short: 16 << 20, long: 2 * (LONGEST + HEADERS) };

    /// For two of 1 MiB, and two of 2 MiB.
    const LEAST: Self = Self { short: 3 << 20, long: 5 << 20 };
}

/// The longest command that is read as a whole where memory is not scarce, in bytes.
const LONGEST: usize = 32 << 20;

/// A piece of it, and more than the headers of all its packets.
const HEADERS: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_are_counted_by_cpus_cores_and_quota() {
        for (cpus, quota, cores, want) in [
            (1, None, None, 1),
            (2, None, None, 1),
            (3, None, None, 3),
            (8, None, None, 4),
            (8, None, Some(3), 3),
            (8, None, Some(0), 1),
            (4, None, Some(7), 4),
            (64, Some(0.1), None, 1),
            (64, Some(2.0), Some(32), 1),
            (64, Some(2.9), Some(32), 1),
            (64, Some(3.0), Some(32), 3),
            (64, Some(16.0), Some(32), 4),
            (2, Some(16.0), None, 1),
            (0, Some(-1.0), None, 1),
            (8, Some(f64::NAN), None, 1),
            (8, Some(f64::INFINITY), None, 4),
        ] {
            let allowance = Allowance { cpus, quota, cores, memory: None };
            assert_eq!(allowance.workers(), want, "{cpus} {quota:?} {cores:?}");
        }
    }

    #[test]
    fn rooms_take_a_quarter_of_the_memory_at_most() {
        let mib = |bytes: usize| bytes >> 20;
        for (memory, workers, want) in [
            (None, 4, (16, 64)),
            (Some(16 << 30), 4, (16, 64)),
            (Some(512 << 20), 1, (16, 64)),
            (Some(256 << 20), 1, (12, 51)),
            (Some(512 << 20), 4, (6, 25)),
            (Some(128 << 20), 1, (6, 25)),
            (Some(64 << 20), 4, (3, 5)),
            (Some(0), 1, (3, 5)),
            (Some(u64::MAX), 0, (16, 64)),
        ] {
            let allowance = Allowance { memory, ..Allowance::default() };
            let rooms = allowance.rooms(workers);
            assert_eq!((mib(rooms.short), mib(rooms.long)), want, "{memory:?} {workers}");
        }
    }

    #[test]
    fn clients_have_what_is_left() {
        let clients =
            |memory, workers| Allowance { memory, ..Allowance::default() }.clients(workers);
        assert_eq!(clients(None, 4), None);
        assert_eq!(clients(Some(0), 1), Some(0));
        assert_eq!(clients(Some(128 << 20), 1), Some((128 - 32 - 8 - 32) * 64));
        assert!(clients(Some(1 << 30), 1).is_some_and(|it| it > 50_000));
    }
}
