//! What all CPUs of the machine together have spent their time on.
//!
//! Reads `/proc/stat` and interprets nothing. In a container these are the host's CPUs, not the
//! container's share of them.

use std::fs;
use std::io;
use std::time::Duration;

/// CPU time since boot, summed over all CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTimes {
    /// Processes, in user space and in the kernel, and interrupts: the kernel charges those to the
    /// process that happens to run, so that accounts of processes hold them too.
    pub busy: Duration,
    pub idle: Duration,
    /// A hypervisor let another machine run while this one was ready to run.
    pub steal: Duration,
}

impl CpuTimes {
    /// What has come since an earlier reading.
    pub fn since(self, before: Self) -> Self {
        Self {
            busy: self.busy.saturating_sub(before.busy),
            idle: self.idle.saturating_sub(before.idle),
            steal: self.steal.saturating_sub(before.steal),
        }
    }
}

pub fn cpu_times() -> io::Result<CpuTimes> {
    parse(&fs::read_to_string("/proc/stat")?)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "/proc/stat is not understood"))
}

fn parse(stat: &str) -> Option<CpuTimes> {
    let fields = stat.lines().next()?.strip_prefix("cpu ")?;
    let mut ticks = [0_u64; 8];
    let mut words = fields.split_ascii_whitespace();
    for tick in &mut ticks {
        *tick = words.next()?.parse().ok()?;
    }
    let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks;
    let time = |ticks: &[u64]| {
        let sum = ticks.iter().fold(0_u64, |sum, ticks| sum.saturating_add(*ticks));
        Duration::from_millis(sum.saturating_mul(TICK_MS))
    };
    Some(CpuTimes {
        busy: time(&[user, nice, system, irq, softirq]),
        idle: time(&[idle, iowait]),
        steal: time(&[steal]),
    })
}

/// Linux shows times to user space in units of 1/100 s, whatever its own clock ticks in.
const TICK_MS: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_is_summed() {
        let stat =
            "cpu  21114 1 9036 571337 1056 0 203 22 0 0\ncpu0 9941 0 3689 287491 185 0 47 6\n";
        let want = CpuTimes {
            busy: Duration::from_millis(303_540),
            idle: Duration::from_millis(5_723_930),
            steal: Duration::from_millis(220),
        };
        assert_eq!(parse(stat), Some(want));
    }

    #[test]
    fn other_lines_are_refused() {
        for stat in ["", "cpu", "cpu  1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu  1 2 3 4 5 6 7 x"] {
            assert_eq!(parse(stat), None, "{stat}");
        }
    }

    #[test]
    fn this_machine_is_read() {
        let times = cpu_times().expect("reads");
        assert!(Duration::ZERO < times.busy + times.idle);
    }
}
