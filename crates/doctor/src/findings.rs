//! Everything that the doctor asks. One file for each question.
//!
//! Invariants, tested here for all of them: of a machine in good health every answer is *ok*; where
//! nothing can be seen every answer is *unknown*.

use crate::facts::{Client, Facts, Load, ThreadEffort};
use crate::judgement::{Diagnosis, Finding, Unknown};

macro_rules! findings {
    ($($name:ident),+ $(,)?) => {
        $(mod $name;)+
        /// In the order in which they are told: what was seen under load, then how things are set.
        pub const ALL: &[Finding] = &[$($name::FINDING),+];
    };
}

findings! {
    starvation, contended, cpu_bound, stalls, balance, throttled, steal, runnable, faults,
    reconnects, thread_cache, lock_waits, disk_reads, listen_queue, connections,
    pinned, half_pinned, private_core, realtime, realtime_budget, autogroup, weight, sched_ext,
    preemption, cache_domains, interrupts,
    governor, frequency_cap, idle_states,
    malloc_environment, jemalloc_buffers, big_buffers, memory_promise, memory_pressure, swap,
    huge_pages, disk_tables,
    descriptors, ports, tcp_local, handshake, certificate, double_queue, reuse, query_cache, io_uring,
    ndb_connections, ndb_threads, surroundings,
}

pub(crate) use self::ndb_threads::CONFIG as NDB_CONFIG;

/// All answers.
pub fn diagnose(facts: &Facts) -> Vec<Diagnosis> {
    ALL.iter().map(|finding| finding.diagnose(facts)).collect()
}

/// What is said where there is no proxy to judge.
const NO_PROXY: &str = "no proxy on this machine holds connections to the server";

/// The client's thread that would run most if it could; `None` if it has none that lived all the
/// while, as clients that come and go have not.
fn busiest<'a>(load: &'a Load, client: &Client) -> Result<Option<&'a ThreadEffort>, Unknown> {
    match load.clients.get(&client.process.pid) {
        Some(effort) => Ok(effort.busiest()),
        None if client.is_proxy => {
            Err(Unknown(format!("{} was not there all the while", client.process.name())))
        }
        None => Ok(None),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Bytes as people read them.
fn bytes(count: u64) -> String {
    match count {
        0..1024 => format!("{count} B"),
        1024..1_048_576 => format!("{} KiB", count >> 10),
        1_048_576..10_737_418_240 => format!("{} MiB", count >> 20),
        _ => format!("{:.1} GiB", count as f64 / f64::from(1 << 30)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::healthy;
    use crate::judgement::Verdict;

    #[test]
    fn a_healthy_machine_is_well() {
        let ill: Vec<_> = diagnose(&healthy())
            .into_iter()
            .filter(|it| it.judgement.verdict != Verdict::Ok)
            .map(|it| (it.finding.name, it.judgement))
            .collect();
        assert!(ill.is_empty(), "{ill:#?}");
    }

    #[test]
    fn what_cannot_be_seen_is_unknown() {
        let judged: Vec<_> = diagnose(&Facts::default())
            .into_iter()
            .filter(|it| it.judgement.verdict != Verdict::Unknown)
            .map(|it| (it.finding.name, it.judgement))
            .collect();
        assert!(judged.is_empty(), "{judged:#?}");
    }

    #[test]
    fn findings_have_names_of_their_own_and_say_why() {
        let mut names: Vec<_> = ALL.iter().map(|it| it.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for it in ALL {
            assert!(it.why.ends_with('.') && !it.source.is_empty(), "{}", it.name);
            assert!(it.title.len() <= 34, "{}: {}", it.name, it.title);
        }
    }

    #[test]
    fn bytes_are_readable() {
        assert_eq!(bytes(900), "900 B");
        assert_eq!(bytes(131_072), "128 KiB");
        assert_eq!(bytes(64 << 20), "64 MiB");
        assert_eq!(bytes(16 << 30), "16.0 GiB");
    }
}
