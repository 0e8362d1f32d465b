//! What a client has written: on which server, and when that was acknowledged last.
//!
//! Owns the rule by which its reads go: to a server that is known to hold all of it ([`super::knowledge`]). Of a write
//! itself are known the server that took it and when; its number, where the server has told it, counts when that
//! server is gone and nothing later can be learnt of it. Invariants: a later write on another server takes nothing back,
//! for the second server need not hold the first write; a number stands for all writes on its server, or for none.

use std::time::{Duration, Instant};

use super::knowledge::Holds;
use super::position::Gtid;

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
    number: Number,
}

/// What a server has told of where a client's writes on it are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    /// It would have told of a write, and has not: there is none.
    Nothing,
    /// The last one.
    At(Gtid),
    /// Some may be behind what it has told.
    Unknown,
    /// They are in several domains, of which none says anything of another one.
    Several,
}

/// Whether a server tells the number of each write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tells {
    Numbers,
    Nothing,
}

impl Writes {
    /// This server has taken a write, which was acknowledged before `at`. Its number was told before, if there is one.
    pub fn note(&mut self, server: usize, at: Instant, tells: Tells) {
        let write = self.place(server, at, Number::Nothing);
        if tells == Tells::Nothing {
            write.number.doubt();
        }
    }

    /// A server has told the number of a write that it took.
    pub fn tell(&mut self, server: usize, gtid: Gtid, at: impl FnOnce() -> Instant) {
        match &mut self.newest {
            Some(newest) if newest.server == server => newest.number.follow(gtid),
            _ => self.place(server, at(), Number::Nothing).number.follow(gtid),
        }
    }

    /// What a statement has done on this server is not told by a number.
    pub fn doubt(&mut self, server: usize) {
        let mut all = self.newest.iter_mut().chain(&mut self.others);
        if let Some(write) = all.find(|write| write.server == server) {
            write.number.doubt();
        }
    }

    /// The last write on a server, which is the newest one of all. `number`: of the first one there.
    fn place(&mut self, server: usize, at: Instant, number: Number) -> &mut Write {
        let known = match self.newest.take() {
            Some(newest) if newest.server == server => Some(newest),
            Some(before) => {
                let known = self.others.iter().position(|write| write.server == server);
                let known = known.map(|at| self.others.remove(at));
                self.others.push(before);
                known
            }
            None => None,
        };
        let number = known.map_or(number, |known| known.number);
        self.newest.insert(Write { server, at, number })
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

    /// Whether those that this server took are on another one, which holds so much of what it took.
    pub fn is_held(&self, taker: usize, holds: Holds) -> bool {
        let mut all = self.newest.iter().chain(&self.others);
        let last = all.find(|write| write.server == taker);
        last.is_none_or(|write| match holds {
            Holds::All => true,
            Holds::Until(moment) => write.at < moment,
            Holds::Nothing | Holds::Untold => false,
        })
    }

    /// Whether a server has all of them, of which `holds` says what it holds of what another one took, and `has` whether
    /// a write with this number on that one, which is gone, is there; `None`: any write. Where servers do not tell, a
    /// write is taken to be everywhere after `stay`.
    pub fn are_held(
        &self,
        holds: impl Fn(usize) -> Holds,
        has: impl Fn(usize, Option<Gtid>) -> bool,
        now: Instant,
        stay: Duration,
    ) -> bool {
        self.newest.iter().chain(&self.others).all(|write| {
            let is_held = match holds(write.server) {
                Holds::All => true,
                Holds::Until(moment) => write.at < moment,
                Holds::Nothing => false,
                Holds::Untold => return now.saturating_duration_since(write.at) >= stay,
            };
            is_held
                || match write.number {
                    Number::Nothing => has(write.server, None),
                    Number::At(gtid) => has(write.server, Some(gtid)),
                    Number::Unknown | Number::Several => false,
                }
        })
    }
}

impl Number {
    /// Another write has this one, which is later in its domain.
    fn follow(&mut self, gtid: Gtid) {
        *self = match *self {
            Self::At(last) if !last.is_of_domain(gtid) => Self::Several,
            Self::Several => Self::Several,
            _ => Self::At(gtid),
        };
    }

    /// It need not be the last one any more.
    fn doubt(&mut self) {
        if *self != Self::Several {
            *self = Self::Unknown;
        }
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
            writes.are_held(|server| holds[server], |_, _| false, now + after, 5 * SECOND)
        };
        let nothing = [Holds::Nothing; 2];
        assert!(are_held(&writes, nothing, SECOND), "it has written nothing");
        writes.note(0, now, Tells::Nothing);
        assert!(!are_held(&writes, nothing, 9 * SECOND), "however long ago that is");
        assert!(are_held(&writes, [Holds::All, Holds::Nothing], SECOND));
        assert!(!are_held(&writes, [Holds::Until(now), Holds::All], SECOND), "at the same time");
        assert!(are_held(&writes, [Holds::Until(now + SECOND), Holds::Nothing], SECOND));
        assert!(!are_held(&writes, [Holds::Untold; 2], 4 * SECOND));
        assert!(are_held(&writes, [Holds::Untold; 2], 5 * SECOND));
        // The second server need not have got what the first one took.
        writes.note(1, now + SECOND, Tells::Nothing);
        assert_eq!(writes.taker(), Some(1));
        assert!(!are_held(&writes, [Holds::Nothing, Holds::All], SECOND));
        assert!(!are_held(&writes, [Holds::All, Holds::Nothing], SECOND));
        assert!(are_held(&writes, [Holds::All; 2], SECOND));
    }

    #[test]
    fn what_one_server_took_is_on_another_one_that_holds_the_last_of_it() {
        let (now, mut writes) = (Instant::now(), Writes::default());
        writes.note(0, now, Tells::Numbers);
        writes.note(1, now + SECOND, Tells::Numbers);
        assert!(writes.is_held(0, Holds::Until(now + SECOND)) && writes.is_held(0, Holds::All));
        assert!(!writes.is_held(1, Holds::Until(now + SECOND)), "at the same time");
        assert!(!writes.is_held(0, Holds::Untold) && !writes.is_held(0, Holds::Nothing));
        assert!(writes.is_held(2, Holds::Nothing), "it has written nothing there");
    }

    #[test]
    fn among_some_servers_the_last_one_that_took_a_write_is_found() {
        let (now, mut writes) = (Instant::now(), Writes::default());
        for (at, server) in [3, 1, 2, 1, 5].into_iter().enumerate() {
            writes.note(server, now + at as u32 * SECOND, Tells::Numbers);
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
            writes.note(at as usize % 3, now + at * SECOND, Tells::Numbers);
            writes.note(at as usize % 3, now + at * SECOND, Tells::Numbers);
        }
        let mut takers: Vec<_> = writes.takers().collect();
        takers.sort_unstable();
        assert_eq!(takers, [0, 1, 2]);
        let until = |times: [u32; 3]| {
            let holds = |server: usize| Holds::Until(now + times[server] * SECOND);
            writes.are_held(holds, |_, _| false, now, SECOND)
        };
        assert!(until([7, 8, 9]));
        assert!(!until([6, 8, 9]) && !until([7, 7, 9]) && !until([7, 8, 8]));
    }

    #[test]
    fn what_a_gone_server_took_is_known_by_the_number_of_the_last_write() {
        let (now, mut writes) = (Instant::now(), Writes::default());
        let gtid = |text: &str| Gtid::read(text).expect("a GTID");
        let tell = |writes: &mut Writes, server: usize, text: &str| {
            writes.tell(server, gtid(text), || now);
            writes.note(server, now, Tells::Numbers);
        };
        // Another server has what was written up to this number.
        let are_held = |writes: &Writes, upto: &str| {
            let has = |_, last: Option<Gtid>| last.is_none_or(|it| it == gtid(upto));
            writes.are_held(|_| Holds::Nothing, has, now, SECOND)
        };
        writes.note(0, now, Tells::Numbers);
        assert!(are_held(&writes, "0-1-1"), "it has written nothing");
        tell(&mut writes, 0, "0-1-7");
        assert!(are_held(&writes, "0-1-7") && !are_held(&writes, "0-1-6"));
        // What ends without a number has written nothing.
        writes.note(0, now, Tells::Numbers);
        assert!(are_held(&writes, "0-1-7"));
        for is_answered in [false, true] {
            match is_answered {
                true => writes.doubt(0),
                false => writes.note(0, now, Tells::Nothing),
            }
            assert!(!are_held(&writes, "0-1-7"), "there may be more");
            tell(&mut writes, 0, "0-1-9");
            assert!(are_held(&writes, "0-1-9"), "it is behind that");
        }
        // Another server's number says nothing of the first one's, and is not forgotten.
        tell(&mut writes, 1, "0-2-11");
        assert!(!are_held(&writes, "0-1-9") && !are_held(&writes, "0-2-11"));
        writes.note(0, now, Tells::Numbers);
        let has =
            |server: usize, last: Option<Gtid>| last == Some(gtid(["0-1-9", "0-2-11"][server]));
        assert!(writes.are_held(|_| Holds::Nothing, has, now, SECOND));
        // Nor does that of another domain.
        let mut writes = Writes::default();
        tell(&mut writes, 0, "0-1-7");
        tell(&mut writes, 0, "5-1-1");
        tell(&mut writes, 0, "5-1-2");
        writes.doubt(0);
        assert!(!are_held(&writes, "5-1-2"));
    }
}
