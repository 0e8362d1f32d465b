//! From numbers to places on an axis: scales, the numbers that are written beside them, their form.
//!
//! Draws nothing. Invariants: places lie between 0 and 1 for all values of the range a scale was
//! made of; a scale of nothing, of one value or of values that its kind cannot show is still one.

/// How values are laid out along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaleKind {
    /// Evenly, from nothing on: lengths can be compared.
    Linear,
    /// Equal ratios have equal lengths. What is not positive stays at the lower end.
    Log,
    /// Of a share between 0 and 1: half, nine of ten, 99 of 100 … at equal distances.
    Nines,
}

/// Where values lie, and which of them are named.
#[derive(Clone, Debug, PartialEq)]
pub struct Scale {
    kind: ScaleKind,
    low: f64,
    high: f64,
    /// The values that have a line and a number.
    pub ticks: Vec<f64>,
}

impl Scale {
    /// A scale for these values, with its own choice of ticks.
    pub fn of(kind: ScaleKind, values: impl IntoIterator<Item = f64>) -> Self {
        let usable = |value: &f64| value.is_finite() && (kind != ScaleKind::Log || 0.0 < *value);
        let values = values.into_iter().filter(usable);
        let ends = values.fold(None, |ends, value| match ends {
            None => Some((value, value)),
            Some((low, high)) => Some((value.min(low), value.max(high))),
        });
        let (low, high) = ends.unwrap_or((1.0, 1.0));
        match kind {
            ScaleKind::Linear => Self::linear(high),
            ScaleKind::Log => Self::log(low, high),
            ScaleKind::Nines => Self::nines(high),
        }
    }

    /// The same scale, with these ticks and from the first to the last of them.
    pub fn with_ticks(kind: ScaleKind, ticks: Vec<f64>) -> Self {
        let low = ticks.iter().copied().fold(f64::INFINITY, f64::min);
        let high = ticks.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if low <= high { Self { kind, low, high, ticks } } else { Self::of(kind, []) }
    }

    /// Where a value lies: 0 at the lower end, 1 at the upper one.
    pub fn place(&self, value: f64) -> f64 {
        let (low, high) = (self.stretch(self.low), self.stretch(self.high));
        if high <= low {
            return 0.5;
        }
        let place = (self.stretch(value) - low) / (high - low);
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Takes away ticks until no two are nearer than this share of the axis.
    pub fn thin_out(&mut self, distance: f64) {
        let mut kept: Vec<f64> = Vec::new();
        for tick in std::mem::take(&mut self.ticks) {
            let is_free =
                kept.last().is_none_or(|last| distance <= self.place(tick) - self.place(*last));
            if is_free {
                kept.push(tick);
            }
        }
        self.ticks = kept;
    }

    fn stretch(&self, value: f64) -> f64 {
        match self.kind {
            ScaleKind::Linear => value,
            ScaleKind::Log => value.max(self.low).log10(),
            ScaleKind::Nines => -(1.0 - value.min(self.high)).max(f64::EPSILON).log10(),
        }
    }

    fn linear(high: f64) -> Self {
        let high = if 0.0 < high { high } else { 1.0 };
        let step = nice_step(high / LINEAR_STEPS);
        let steps = (high / step).ceil().max(1.0);
        let ticks = (0..=steps as u32).map(|number| f64::from(number) * step).collect();
        Self { kind: ScaleKind::Linear, low: 0.0, high: steps * step, ticks }
    }

    /// From one of 1, 2, 5, 10 … to another; few decades have all of them as ticks, many only tens.
    fn log(low: f64, high: f64) -> Self {
        let round = |value: f64, beyond: fn(f64, f64) -> bool, steps: [f64; 4]| {
            let decade = 10_f64.powf(value.log10().floor());
            let found = steps.into_iter().map(|step| step * decade).find(|it| beyond(*it, value));
            found.unwrap_or(decade)
        };
        let low = round(low, |it, value| it <= value * (1.0 + SLACK), [5.0, 2.0, 1.0, 0.5]);
        let high = round(high, |it, value| value * (1.0 - SLACK) <= it, [1.0, 2.0, 5.0, 10.0]);
        let high = if high <= low { low * 10.0 } else { high };
        let steps: &[f64] = if high / low <= FEW_DECADES { &[1.0, 2.0, 5.0] } else { &[1.0] };
        let decades = low.log10().floor() as i32..=high.log10().ceil() as i32;
        let all = decades.flat_map(|ten| steps.iter().map(move |step| step * 10_f64.powi(ten)));
        let within = |tick: &f64| low * (1.0 - SLACK) <= *tick && *tick <= high * (1.0 + SLACK);
        let ticks = all.filter(within).collect();
        Self { kind: ScaleKind::Log, low, high, ticks }
    }

    fn nines(high: f64) -> Self {
        let high = high.clamp(NINES[1], 1.0 - 1e-7);
        let ticks = NINES.into_iter().filter(|tick| *tick <= high).collect();
        Self { kind: ScaleKind::Nines, low: 0.0, high, ticks }
    }
}

/// A number as it is written beside an axis and in a table: three digits that matter, thousands set
/// apart by thin spaces.
pub fn number(value: f64) -> String {
    let size = value.abs();
    let digits = match size {
        _ if !value.is_finite() => return "–".to_owned(),
        _ if size == 0.0 || 100.0 <= size => 0,
        _ if 10.0 <= size => 1,
        _ if 1.0 <= size => 2,
        _ => (2 - size.log10().floor() as i32).clamp(0, 6) as usize,
    };
    let text = format!("{size:.digits$}");
    let (whole, rest) = text.split_once('.').unwrap_or((&text, ""));
    let sign = if value < 0.0 { "−" } else { "" };
    let rest = rest.trim_end_matches('0');
    let point = if rest.is_empty() { "" } else { "." };
    format!("{sign}{}{point}{rest}", grouped(whole))
}

/// A share of 1 in percent. The last digits are those that count: 99.99 is not 100.
pub fn percent(share: f64) -> String {
    let text = format!("{:.5}", share * 100.0);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn grouped(digits: &str) -> String {
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        let behind = digits.len() - index;
        // Four digits alone are read well enough.
        if index != 0 && behind.is_multiple_of(3) && 4 < digits.len() {
            text.push('\u{202f}');
        }
        text.push(digit);
    }
    text
}

/// The next of 1, 2, 2.5, 5, 10 … that is no smaller.
fn nice_step(step: f64) -> f64 {
    let decade = 10_f64.powf(step.log10().floor());
    let found = [1.0, 2.0, 2.5, 5.0].into_iter().find(|nice| step <= nice * decade * (1.0 + SLACK));
    found.unwrap_or(10.0) * decade
}

const LINEAR_STEPS: f64 = 5.0;
const FEW_DECADES: f64 = 1000.0;
/// Of rounding: what is so near to a tick is on it.
const SLACK: f64 = 1e-9;
const NINES: [f64; 8] = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999_999];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_scales_begin_at_nothing_and_end_on_a_tick() {
        for (high, step, end) in
            [(97.0, 20.0, 100.0), (1.0, 0.2, 1.0), (61_000.0, 20_000.0, 80_000.0)]
        {
            let scale = Scale::of(ScaleKind::Linear, [high / 2.0, high]);
            assert_eq!(scale.ticks[0], 0.0);
            assert!((scale.ticks[1] - step).abs() < 1e-9, "{high}: {:?}", scale.ticks);
            assert!((scale.high - end).abs() < 1e-9, "{high}: {}", scale.high);
            assert!((scale.place(end / 2.0) - 0.5).abs() < 1e-9);
        }
    }

    #[test]
    fn log_scales_give_equal_ratios_equal_lengths() {
        let scale = Scale::of(ScaleKind::Log, [0.3, 40.0]);
        assert_eq!((scale.low, scale.high), (0.2, 50.0));
        let step = scale.place(2.0) - scale.place(1.0);
        assert!((scale.place(40.0) - scale.place(20.0) - step).abs() < 1e-9);
        assert_eq!(scale.ticks, [0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0]);
        let wide = Scale::of(ScaleKind::Log, [0.1, 10_242.0]);
        assert!(wide.ticks.len() <= 7, "{:?}", wide.ticks);
    }

    #[test]
    fn nines_are_evenly_apart() {
        let scale = Scale::of(ScaleKind::Nines, [0.5, 0.9999]);
        let nine = scale.place(0.99) - scale.place(0.9);
        assert!((scale.place(0.999) - scale.place(0.99) - nine).abs() < 1e-9);
        assert_eq!(scale.ticks, [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999]);
        assert_eq!(scale.place(1.0), 1.0);
    }

    #[test]
    fn odd_values_have_a_place_too() {
        for kind in [ScaleKind::Linear, ScaleKind::Log, ScaleKind::Nines] {
            for values in [vec![], vec![0.0], vec![5.0], vec![f64::NAN, f64::INFINITY, -1.0]] {
                let scale = Scale::of(kind, values.clone());
                for value in [f64::NAN, f64::NEG_INFINITY, f64::INFINITY, -1.0, 0.0, 0.5, 1e300] {
                    let place = scale.place(value);
                    assert!((0.0..=1.0).contains(&place), "{kind:?} {values:?} {value}: {place}");
                }
            }
        }
        assert_eq!(Scale::with_ticks(ScaleKind::Log, vec![8.0]).place(8.0), 0.5);
    }

    #[test]
    fn crowded_ticks_are_thinned_out() {
        let mut scale = Scale::with_ticks(ScaleKind::Linear, vec![0.0, 1.0, 2.0, 50.0, 100.0]);
        scale.thin_out(0.05);
        assert_eq!(scale.ticks, [0.0, 50.0, 100.0]);
    }

    #[test]
    fn numbers_are_short_and_grouped() {
        for (value, text) in [
            (0.0, "0"),
            (0.126_635, "0.127"),
            (0.2, "0.2"),
            (1.5, "1.5"),
            (14.0, "14"),
            (14.26, "14.3"),
            (1234.4, "1234"),
            (-12_345.0, "−12\u{202f}345"),
            (1_234_567.0, "1\u{202f}234\u{202f}567"),
            (0.000_000_01, "0"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(percent(0.999), "99.9");
        assert_eq!(percent(0.999_99), "99.999");
        assert_eq!(percent(0.5), "50");
    }
}
