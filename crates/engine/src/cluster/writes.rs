//! What a client has written: on which server, and when that was acknowledged last.
//!
//! Owns the rule by which its reads go: to a server that is known to hold all of it ([`super::knowledge`]). Nothing is
//! known of a write itself but the server that took it. Invariant: a later write on another server takes nothing back,
//! for the second server need not hold the first write.

use std::time::{Duration, Instant};

use super::knowledge::Holds;

/// A client's writes.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    newest: Option<Write>,
    /// On other servers, one each.
    others: Vec<Write>,
}

/// The last write on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Write {
    server: usize,
    /// Acknowledged before this moment.
    at: Instant,
}

impl Writes {
    /// This server has taken a write, which was acknowledged before `at`.
    pub fn note(&mut self, server: usize, at: Instant) {
        if let Some(before) = self.newest.replace(Write { server, at })
            && before.server != server
        {
            self.others.retain(|write| write.server != server);
            self.others.push(before);
        }
    }

    /// The server that took the last write.
    pub fn taker(&self) -> Option<usize> {
        self.newest.map(|write| write.server)
    }

    /// The server that took the last of those writes that one of these servers took.
    pub fn taker_of(&self, is_of: impl Fn(usize) -> bool) -> Option<usize> {
        let newest_first = self.newest.iter().chain(self.others.iter().rev());
        newest_first.map(|write| write.server).find(|server| is_of(*server))
    }

    /// The servers that have taken writes.
    pub fn takers(&self) -> impl Iterator<Item = usize> {
        self.newest.iter().chain(&self.others).map(|write| write.server)
    }

    /// Whether a server has all of them, of which `holds` says what it holds of what another one took. Where servers
    /// do not tell, a write is taken to be everywhere after `stay`.
    pub fn are_held(&self, holds: impl Fn(usize) -> Holds, now: Instant, stay: Duration) -> bool {
        self.newest.iter().chain(&self.others).all(|write| match holds(write.server) {
            Holds::All => true,
            Holds::Until(moment) => write.at < moment,
            Holds::Nothing => false,
            Holds::Untold => now.saturating_duration_since(write.at) >= stay,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_read_needs_a_server_that_holds_every_write() {
        let (now, mut writes) = (Instant::now(), Writes::default());
        let are_held = |writes: &Writes, holds: [Holds; 2], after: Duration| {
            writes.are_held(|server| holds[server], now + after, 5 * SECOND)
        };
        let nothing = [Holds::Nothing; 2];
        assert!(are_held(&writes, nothing, SECOND), "it has written nothing");
        writes.note(0, now);
        assert!(!are_held(&writes, nothing, 9 * SECOND), "however long ago that is");
        assert!(are_held(&writes, [Holds::All, Holds::Nothing], SECOND));
        assert!(!are_held(&writes, [Holds::Until(now), Holds::All], SECOND), "at the same time");
        assert!(are_held(&writes, [Holds::Until(now + SECOND), Holds::Nothing], SECOND));
        assert!(!are_held(&writes, [Holds::Untold; 2], 4 * SECOND));
        assert!(are_held(&writes, [Holds::Untold; 2], 5 * SECOND));
        // The second server need not have got what the first one took.
        writes.note(1, now + SECOND);
        assert_eq!(writes.taker(), Some(1));
        assert!(!are_held(&writes, [Holds::Nothing, Holds::All], SECOND));
        assert!(!are_held(&writes, [Holds::All, Holds::Nothing], SECOND));
        assert!(are_held(&writes, [Holds::All; 2], SECOND));
    }

    #[test]
    fn among_some_servers_the_last_one_that_took_a_write_is_found() {
        let (now, mut writes) = (Instant::now(), Writes::default());
        for (at, server) in [3, 1, 2, 1, 5].into_iter().enumerate() {
            writes.note(server, now + at as u32 * SECOND);
        }
        for (of, want) in [
            (&[1, 2, 3, 5][..], Some(5)),
            (&[1, 2, 3], Some(1)),
            (&[2, 3], Some(2)),
            (&[3], Some(3)),
            (&[4], None),
        ] {
            assert_eq!(writes.taker_of(|server| of.contains(&server)), want, "{of:?}");
        }
    }

    #[test]
    fn of_each_server_the_last_write_counts() {
        let (now, mut writes) = (Instant::now(), Writes::default());
        for at in 0..9 {
            writes.note(at as usize % 3, now + at * SECOND);
            writes.note(at as usize % 3, now + at * SECOND);
        }
        let mut takers: Vec<_> = writes.takers().collect();
        takers.sort_unstable();
        assert_eq!(takers, [0, 1, 2]);
        let until = |times: [u32; 3]| {
            let holds = |server: usize| Holds::Until(now + times[server] * SECOND);
            writes.are_held(holds, now, SECOND)
        };
        assert!(until([7, 8, 9]));
        assert!(!until([6, 8, 9]) && !until([7, 7, 9]) && !until([7, 8, 8]));
    }
}
