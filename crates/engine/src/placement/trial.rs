//! One remedy on trial: before, with, before again; and what the three say.
//!
//! Invariants: a leg begins with a look that is thrown away, for it holds the change; a remedy has helped only if it is
//! better than both legs without it, by more than looks without it differ among themselves; a gain that these hide is
//! looked for with twice as many, and then twice as many again; a load that changed meanwhile proves nothing; what
//! plainly harms is not looked at twice.

use std::time::Duration;

use super::{Look, Remedy, Verdict};

/// What was seen in a look that counts.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Seen {
    rate: f64,
    p99: Option<Duration>,
    ran: f64,
}

/// Where a trial is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leg {
    Before,
    With,
    Again,
}

#[derive(Clone, Debug)]
pub(super) struct Trial {
    pub(super) remedy: Remedy,
    pub(super) leg: Leg,
    /// Looks in a leg.
    looks: usize,
    skip: u32,
    legs: [Vec<Seen>; 3],
    /// All looks of the first leg as one.
    before: Option<Look>,
}

/// What a trial has shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Proof {
    /// The rate with it, as a multiple of that without; and the same of p99.
    Helped {
        rate: f64,
        p99: f64,
    },
    Useless {
        rate: f64,
        p99: f64,
    },
    /// Perhaps it has helped: by less than looks at the same thing differ. There will be more of them.
    Hidden {
        rate: f64,
        p99: f64,
    },
    /// The load was not the same before and after.
    Unsteady,
}

impl Trial {
    pub(super) fn new(remedy: Remedy) -> Self {
        let legs = Default::default();
        Self { remedy, leg: Leg::Before, looks: LOOKS, skip: 0, legs, before: None }
    }

    /// The same with more looks. The first is not thrown away: since the last one, nothing has been changed.
    pub(super) fn longer(&self) -> Self {
        Self { looks: 2 * self.looks, ..Self::new(self.remedy) }
    }

    /// Takes a look. Says whether the leg has had all it needs.
    pub(super) fn see(&mut self, look: &Look) -> bool {
        if self.skip > 0 {
            self.skip -= 1;
            return false;
        }
        if self.leg == Leg::Before {
            self.before = Some(self.before.map_or(*look, |before| look.with(&before)));
        }
        let leg = &mut self.legs[self.leg as usize];
        leg.push(Seen { rate: look.rate, p99: look.p99, ran: look.ran });
        self.looks <= leg.len() || self.leg == Leg::With && self.harms(look)
    }

    /// Whether there was starvation all through the first leg. Where CPUs idle now and then there is little to gain,
    /// and scatter decides.
    pub(super) fn is_warranted(&self) -> bool {
        self.before.is_some_and(|look| Verdict::of(&look).is_starved())
    }

    /// Whether a look with the remedy is far below the lowest one without it.
    fn harms(&self, look: &Look) -> bool {
        let before = self.legs[Leg::Before as usize].iter().map(|seen| seen.rate);
        look.rate < HARM * before.fold(f64::INFINITY, f64::min)
    }

    pub(super) fn go_on(&mut self, leg: Leg) {
        self.leg = leg;
        self.skip = SKIPPED;
    }

    pub(super) fn proof(&self) -> Proof {
        let rates = |leg: &[Seen]| leg.iter().map(|seen| seen.rate).collect::<Vec<_>>();
        let [before, with, again] = [0, 1, 2].map(|leg| rates(&self.legs[leg]));
        let (one, two) = (median(&before), median(&again));
        if one <= 0.0 || two <= 0.0 || UNSTEADY < (two / one - 1.0).abs() {
            return Proof::Unsteady;
        }
        // Middles of more looks differ less than looks do.
        let scale = (LOOKS as f64 / self.looks as f64).sqrt();
        let noise = (noise(&[before, again].concat()) * scale).max(RATE_NOISE);
        let rate = median(&with) / one.max(two);
        let p99s = |leg: usize| {
            let known = self.legs[leg].iter().filter_map(|seen| seen.p99);
            known.map(|it| it.as_secs_f64()).collect::<Vec<_>>()
        };
        let [before, with, again] = [0, 1, 2].map(p99s);
        let (one, two) = (median(&before), median(&again));
        let are_known = [one, two, median(&with)].into_iter().all(|it| it > 0.0);
        // Better than the better of the two.
        let p99 = if are_known { median(&with) / one.min(two) } else { 1.0 };
        let p99_noise = self::noise(&[before, again].concat()).max(P99_NOISE);
        let is_faster = 1.0 + noise < rate && p99 < P99_MAX;
        let is_calmer = p99 < 1.0 - p99_noise && 1.0 - noise < rate;
        let ran = median(&self.legs[1].iter().map(|seen| seen.ran).collect::<Vec<_>>());
        let is_filled = self.remedy != Remedy::PrivateCore || FILLED < ran;
        let may_be_faster = 1.0 + RATE_NOISE < rate && p99 < P99_MAX && self.looks < LOOKS_MAX;
        match (is_faster || is_calmer, may_be_faster) {
            _ if !is_filled => Proof::Useless { rate, p99 },
            (true, _) => Proof::Helped { rate, p99 },
            (false, true) => Proof::Hidden { rate, p99 },
            (false, false) => Proof::Useless { rate, p99 },
        }
    }
}

/// How much looks at the same thing differ from their middle, as a share.
fn noise(values: &[f64]) -> f64 {
    let middle = median(values);
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(0.0, f64::max);
    if middle <= 0.0 { 0.0 } else { (high - low) / 2.0 / middle }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => 0.0,
        len if len.is_multiple_of(2) => f64::midpoint(sorted[len / 2 - 1], sorted[len / 2]),
        len => sorted[len / 2],
    }
}

/// Looks in a leg at first and at last, and those before them that hold the change.
const LOOKS: usize = 4;
const LOOKS_MAX: usize = 16;
const SKIPPED: u32 = 1;
/// A load whose rate differs by so much before and after has changed by itself.
const UNSTEADY: f64 = 0.15;
/// Less than this part of the lowest look before is no scatter, but harm.
const HARM: f64 = 0.7;
/// Less than this is not counted as a gain.
const RATE_NOISE: f64 = 0.03;
/// Tails are told in classes that are an eighth wide or more.
const P99_NOISE: f64 = 0.25;
/// A gain in statements is not worth a longer tail than this.
const P99_MAX: f64 = 2.5;
/// A core of its own is the worker's only if it uses this much of it.
const FILLED: f64 = 0.8;
