//! Which lines of a log are said, and which are only counted because lines of the same kind have just been said.
//!
//! Owns one entry for each kind of line that came lately; what makes two lines the same kind is the caller's to say (a
//! number, its shape). Invariants: of one kind at most [`BURST`] lines are said in a second; each line that was not
//! said is counted in one summary; there are at most [`KINDS_MAX`] entries and one more, which counts what finds no
//! entry.

use std::time::Duration;

/// Lines of one kind that are said in one second.
pub const BURST: u32 = 10;

/// Kinds of lines that are known at the same time.
pub const KINDS_MAX: usize = 64;

/// A kind of which no line comes for so long is quiet: what was held of it is summed up.
pub const QUIET: Duration = Duration::from_secs(1);

/// A kind that does not become quiet is summed up so often.
pub const SUMMARY: Duration = Duration::from_secs(10);

const WINDOW: Duration = Duration::from_secs(1);

/// What becomes of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RepeatVerdict {
    Say,
    /// It is counted, and a later summary tells so.
    Hold,
}

/// Which summaries are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Those whose time has come.
    Due,
    /// All: nothing will come after them.
    All,
}

/// Lines of one kind that were not said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Summary<T> {
    /// The first of them.
    pub sample: T,
    pub count: u64,
    /// From the first of them to the last.
    pub span: Duration,
    /// Whether some of them may be of other kinds than the sample.
    pub is_mixed: bool,
}

/// The kinds of lines that came lately. Times are those since any fixed moment.
#[derive(Debug)]
pub struct Repeats<T> {
    kinds: Vec<(u64, Kind<T>)>,
    /// Lines for which there was no entry.
    rest: Kind<T>,
}

#[derive(Debug)]
struct Kind<T> {
    /// When the second began in which lines are counted.
    window: Duration,
    said: u32,
    last: Duration,
    held: Option<Held<T>>,
}

#[derive(Debug)]
struct Held<T> {
    sample: T,
    count: u64,
    since: Duration,
}

impl<T> Default for Repeats<T> {
    fn default() -> Self {
        Self { kinds: Vec::new(), rest: Kind::begun(Duration::ZERO) }
    }
}

impl<T> Repeats<T> {
    /// Decides about a line of this shape. `sample` is asked for only where a summary may have to show the line.
    pub fn see(&mut self, shape: u64, now: Duration, sample: impl FnOnce() -> T) -> RepeatVerdict {
        self.kind(shape, now).see(now, sample)
    }

    fn kind(&mut self, shape: u64, now: Duration) -> &mut Kind<T> {
        let place = self.kinds.iter().position(|(known, _)| *known == shape);
        let place = place.or_else(|| {
            let fresh = (shape, Kind::begun(now));
            if self.kinds.len() < KINDS_MAX {
                self.kinds.push(fresh);
                return Some(self.kinds.len() - 1);
            }
            let quiet = self.kinds.iter().position(|(_, kind)| kind.can_be_forgotten(now))?;
            self.kinds[quiet] = fresh;
            Some(quiet)
        });
        match place {
            Some(place) => &mut self.kinds[place].1,
            None => &mut self.rest,
        }
    }

    /// Takes the summaries that are to be said now.
    pub fn summaries(&mut self, now: Duration, which: Which) -> Vec<Summary<T>> {
        let kinds = self.kinds.iter_mut().map(|(_, kind)| (kind, false));
        let all = kinds.chain([(&mut self.rest, true)]);
        all.filter_map(|(kind, is_mixed)| kind.sum_up(now, which, is_mixed)).collect()
    }
}

impl<T> Kind<T> {
    const fn begun(now: Duration) -> Self {
        Self { window: now, said: 0, last: now, held: None }
    }

    fn see(&mut self, now: Duration, sample: impl FnOnce() -> T) -> RepeatVerdict {
        self.last = now;
        if let Some(held) = &mut self.held {
            held.count += 1;
            return RepeatVerdict::Hold;
        }
        if now.saturating_sub(self.window) >= WINDOW {
            (self.window, self.said) = (now, 0);
        }
        if self.said < BURST {
            self.said += 1;
            return RepeatVerdict::Say;
        }
        self.held = Some(Held { sample: sample(), count: 1, since: now });
        RepeatVerdict::Hold
    }

    fn can_be_forgotten(&self, now: Duration) -> bool {
        self.held.is_none() && now.saturating_sub(self.last) >= WINDOW
    }

    fn sum_up(&mut self, now: Duration, which: Which, is_mixed: bool) -> Option<Summary<T>> {
        let held = self.held.as_ref()?;
        let is_quiet = now.saturating_sub(self.last) >= QUIET;
        let is_late = now.saturating_sub(held.since) >= SUMMARY;
        if which == Which::Due && !is_quiet && !is_late {
            return None;
        }
        let Held { sample, count, since } = self.held.take()?;
        Some(Summary { sample, count, span: self.last.saturating_sub(since), is_mixed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[test]
    fn a_burst_is_said_and_the_rest_is_summed_up_when_it_is_quiet() {
        let mut repeats = Repeats::default();
        let mut said = 0;
        for number in 0..17_208 {
            let verdict = repeats.see(7, ms(number / 6), || number);
            said += u32::from(verdict == RepeatVerdict::Say);
        }
        assert_eq!(said, BURST);
        let last = 17_207 / 6;
        assert!(repeats.summaries(ms(last + 999), Which::Due).is_empty());
        let summary = Summary { sample: 10, count: 17_198, span: ms(last - 1), is_mixed: false };
        assert_eq!(repeats.summaries(ms(last + 1000), Which::Due), [summary]);
        assert!(repeats.summaries(ms(last + 9000), Which::All).is_empty());
        assert_eq!(repeats.see(7, ms(last + 1000), || 0), RepeatVerdict::Say);
    }

    #[test]
    fn lines_that_come_now_and_then_are_all_said() {
        let mut repeats = Repeats::default();
        for number in 0..1000 {
            assert_eq!(repeats.see(1, ms(number * 101), || ()), RepeatVerdict::Say, "{number}");
        }
        assert!(repeats.summaries(ms(1 << 20), Which::All).is_empty());
    }

    #[test]
    fn a_kind_that_never_becomes_quiet_is_summed_up_all_the_same() {
        let mut repeats = Repeats::default();
        let (mut said, mut counted, mut summaries) = (0, 0, 0);
        for tenth in 0..6000_u64 {
            for _ in 0..10 {
                said += u64::from(repeats.see(1, ms(tenth * 10), || ()) == RepeatVerdict::Say);
            }
            for summary in repeats.summaries(ms(tenth * 10), Which::Due) {
                counted += summary.count;
                summaries += 1;
            }
        }
        counted += repeats.summaries(ms(60_000), Which::All).iter().map(|it| it.count).sum::<u64>();
        assert_eq!(said + counted, 60_000);
        assert!(
            said <= 7 * u64::from(BURST) && (5..=6).contains(&summaries),
            "{said}, {summaries}"
        );
    }

    #[test]
    fn kinds_do_not_hide_each_other_and_more_of_them_take_no_memory() {
        let mut repeats = Repeats::default();
        for _ in 0..100 {
            repeats.see(1, ms(0), || "flood");
        }
        assert_eq!(repeats.see(2, ms(1), || "other"), RepeatVerdict::Say);
        let mut said = 0;
        for shape in 3..100_000 {
            said += usize::from(repeats.see(shape, ms(2), || "each differs") == RepeatVerdict::Say);
        }
        assert!(said <= KINDS_MAX + BURST as usize, "{said}");
        assert_eq!(repeats.kinds.len(), KINDS_MAX);
        let mixed = repeats.summaries(ms(5000), Which::Due);
        assert_eq!(mixed.iter().filter(|it| it.is_mixed).count(), 1);
        // The flood's entry is free again now, as all others are.
        assert_eq!(repeats.see(100_001, ms(6000), || "late"), RepeatVerdict::Say);
        assert!(repeats.kinds.iter().any(|(shape, _)| *shape == 100_001));
    }
}
