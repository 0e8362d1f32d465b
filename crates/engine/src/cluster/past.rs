//! What those that read must find again: what they have written, what they have read, and what was there when they came.
//!
//! Owns the rule by which a read goes to a server, for one connection, or for several that count as one (those of a
//! user, say), which come and go and read side by side. What servers hold of each other is [`super::knowledge`]'s. A
//! server never shows less than it has shown, and whatever it shows the writer had before; so what was read at one
//! moment is on each server that has all that the writer had then. Invariants: what was read where is forgotten only
//! for a server that is known to have as much; where several read at once, and it is not known which of two servers has
//! more, neither counts.

use std::time::{Duration, Instant};

use super::knowledge::Holds;
use super::position::Gtid;
use super::writes::Writes;

/// What was written and read.
#[derive(Clone, Debug, Default)]
pub struct Past {
    pub writes: Writes,
    seen: Option<Seen>,
    /// Since when it is watched, if others may have written before; and the writer then.
    begun: Option<(Instant, Option<usize>)>,
}

/// What was read last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Seen {
    /// Where; `None`: of several servers, it is not known which one has most.
    server: Option<usize>,
    /// The writer then, or the last one before.
    writer: Option<usize>,
    /// Read before this moment.
    at: Instant,
}

/// A server, and all of its cluster.
pub trait PastView {
    fn server(&self) -> usize;

    fn writer(&self) -> Option<usize>;

    fn all(&self) -> impl Iterator<Item = usize>;

    /// What it holds of what another one took.
    fn holds(&self, taker: usize) -> Holds;

    /// Whether a write with this number on another one, which is gone, is there; `None`: any write.
    fn has(&self, taker: usize, gtid: Option<Gtid>) -> bool;

    fn now(&self) -> Instant;

    /// Where servers do not tell, everything is taken to be everywhere after this.
    fn stay(&self) -> Duration;
}

/// Whether a server has all that the writer had at this moment. `writer`: the one then, if that is known.
fn has_of_writer(view: &impl PastView, writer: Option<usize>, at: Instant) -> bool {
    match writer.or_else(|| view.writer()) {
        Some(writer) => has(view, writer, at, false),
        None => is_old(view, at),
    }
}

/// The same of each one that takes writes, or has done so. One that tells nothing never has.
fn has_of_all(view: &impl PastView, at: Instant) -> bool {
    view.all().all(|server| has(view, server, at, true))
}

fn has(view: &impl PastView, taker: usize, at: Instant, is_untold_enough: bool) -> bool {
    match view.holds(taker) {
        Holds::All => true,
        Holds::Until(moment) => at < moment,
        Holds::Nothing => false,
        Holds::Untold => is_untold_enough || is_old(view, at),
    }
}

fn is_old(view: &impl PastView, at: Instant) -> bool {
    view.now().saturating_duration_since(at) >= view.stay()
}

impl Past {
    /// That of those of whom others may have come before.
    pub fn of_several(now: Instant, writer: Option<usize>) -> Self {
        Self { begun: Some((now, writer)), ..Self::default() }
    }

    /// Whether all that was written is on a server, for another write.
    pub fn is_held(&self, view: &impl PastView) -> bool {
        let holds = |taker: usize| view.holds(taker);
        let has = |taker: usize, gtid| view.has(taker, gtid);
        self.writes.are_held(holds, has, view.now(), view.stay())
    }

    /// Whether all of it is found on a server, by a read.
    pub fn is_found(&self, view: &impl PastView) -> bool {
        self.is_held(view)
            && self.seen.is_none_or(|seen| seen.is_on(view))
            && self.begun.is_none_or(|(begun, writer)| has_of_writer(view, writer, begun))
    }

    /// A read on a server has ended.
    pub fn read(&mut self, view: &impl PastView) {
        let writer = view.writer().or_else(|| self.seen.and_then(|seen| seen.writer));
        // Of those that read at once, another one may have been sent on meanwhile.
        let server = self.seen.is_none_or(|seen| seen.is_on(view)).then_some(view.server());
        let now = view.now();
        let at = self.seen.map_or(now, |seen| seen.at.max(now));
        self.seen = Some(Seen { server, writer, at });
    }

    /// The servers that it is asked of whether all of it is elsewhere.
    pub fn takers(&self) -> impl Iterator<Item = usize> {
        let seen = self.seen.and_then(|seen| seen.writer);
        let begun = self.begun.and_then(|(_, writer)| writer);
        self.writes.takers().chain(seen).chain(begun)
    }
}

impl Seen {
    fn is_on(&self, view: &impl PastView) -> bool {
        // It may have been set up anew.
        let is_here = self.server == Some(view.server());
        is_here && view.holds(view.server()) == Holds::All
            || has_of_writer(view, self.writer, self.at) && has_of_all(view, self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::writes::Tells;

    const SECOND: Duration = Duration::from_secs(1);

    /// What each of three servers holds of what each one took, and which one is the writer.
    #[derive(Clone, Copy)]
    struct Scene {
        start: Instant,
        holds: [[Holds; 3]; 3],
        writer: Option<usize>,
        server: usize,
        second: u32,
    }

    impl PastView for Scene {
        fn server(&self) -> usize {
            self.server
        }

        fn writer(&self) -> Option<usize> {
            self.writer
        }

        fn all(&self) -> impl Iterator<Item = usize> {
            0..3
        }

        fn holds(&self, taker: usize) -> Holds {
            self.holds[self.server][taker]
        }

        fn has(&self, _: usize, _: Option<Gtid>) -> bool {
            false
        }

        fn now(&self) -> Instant {
            self.at(self.second)
        }

        fn stay(&self) -> Duration {
            20 * SECOND
        }
    }

    impl Scene {
        /// The first one is the writer, of which the others hold nothing.
        fn new() -> Self {
            let mut holds = [[Holds::Untold; 3]; 3];
            for (server, of) in holds.iter_mut().enumerate() {
                (of[0], of[server]) = (Holds::Nothing, Holds::All);
            }
            Self { start: Instant::now(), holds, writer: Some(0), server: 0, second: 0 }
        }

        fn at(&self, second: u32) -> Instant {
            self.start + SECOND * second
        }

        /// A server has all that another one took before this second.
        fn proves(&mut self, server: usize, taker: usize, until: u32) {
            self.holds[server][taker] = Holds::Until(self.at(until));
        }

        fn on(&self, server: usize, second: u32) -> Self {
            Self { server, second, ..*self }
        }

        fn found(&self, past: &Past, second: u32) -> Vec<usize> {
            (0..3).filter(|server| past.is_found(&self.on(*server, second))).collect()
        }
    }

    #[test]
    fn what_was_read_is_found_there_and_where_all_is_that_the_writer_had() {
        let (mut scene, mut past) = (Scene::new(), Past::default());
        assert_eq!(scene.found(&past, 5), [0, 1, 2]);
        past.read(&scene.on(1, 5));
        assert_eq!(scene.found(&past, 9), [0, 1]);
        scene.proves(2, 0, 6);
        assert_eq!(scene.found(&past, 9), [0, 1, 2]);
        // Where it is read next has as much.
        past.read(&scene.on(2, 9));
        assert_eq!(scene.found(&past, 10), [0, 2]);
        // Without a writer, what the last one had counts.
        scene.writer = None;
        past.read(&scene.on(2, 10));
        assert_eq!(scene.found(&past, 10), [0, 2]);
        scene.proves(1, 0, 11);
        assert_eq!(scene.found(&past, 10), [0, 1, 2]);
        assert_eq!(past.takers().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn of_servers_that_were_read_at_once_neither_counts() {
        let (mut scene, mut past) = (Scene::new(), Past::default());
        past.read(&scene.on(1, 5));
        past.read(&scene.on(2, 6));
        assert_eq!(scene.found(&past, 7), [0]);
        scene.proves(1, 0, 6);
        scene.proves(2, 0, 7);
        assert_eq!(scene.found(&past, 8), [0, 2]);
        past.read(&scene.on(2, 8));
        assert_eq!(scene.found(&past, 8), [0, 2]);
    }

    #[test]
    fn several_that_count_as_one_find_what_was_there_before() {
        let mut scene = Scene::new();
        let mut past = Past::of_several(scene.at(5), None);
        assert_eq!(scene.found(&past, 9), [0]);
        scene.proves(1, 0, 6);
        scene.proves(2, 0, 5);
        assert_eq!(scene.found(&past, 9), [0, 1]);
        // While nothing is known of a writer, time tells.
        (scene.writer, scene.holds) = (None, [[Holds::Untold; 3]; 3]);
        assert!(scene.found(&past, 24).is_empty());
        assert_eq!(scene.found(&past, 25), [0, 1, 2]);
        let mut scene = Scene::new();
        past.writes.note(0, scene.at(8), Tells::Nothing);
        scene.proves(1, 0, 7);
        assert_eq!(scene.found(&past, 9), [0]);
    }

    #[test]
    fn what_a_former_writer_has_shown_need_not_be_on_the_next_one() {
        let (mut scene, mut past) = (Scene::new(), Past::default());
        past.read(&scene.on(1, 5));
        assert_eq!(scene.found(&past, 9), [0, 1], "it has never taken writes");
        scene.holds[0][1] = Holds::Nothing;
        assert_eq!(scene.found(&past, 9), [1]);
        scene.proves(0, 1, 5);
        assert_eq!(scene.found(&past, 9), [1]);
        scene.proves(0, 1, 6);
        assert_eq!(scene.found(&past, 9), [0, 1]);
        // It shows less than before.
        scene.holds[1][1] = Holds::Nothing;
        assert_eq!(scene.found(&past, 9), [0]);
    }
}
