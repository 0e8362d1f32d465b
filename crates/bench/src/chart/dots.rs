//! Marks on a common axis, one row below the other.

use super::svg::{Anchor, Key, LEFT, Svg, WIDTH};
use super::{Dot, Dots, Grid, Look};

impl Dots {
    pub(super) fn svg(&self, title: &str) -> String {
        let mut svg = Svg::new();
        let entries: Vec<_> =
            self.series.iter().map(|(name, look)| (name.clone(), Key::Mark(*look))).collect();
        let top = svg.legend(&entries) + 8.0;
        let row_height = NAME + self.series.len() as f64 * LANE + 8.0;
        let bottom = top + self.rows.len() as f64 * row_height;
        let dots = self.rows.iter().flat_map(|row| row.dots.iter().flatten());
        let ends = |dot: &Dot| {
            let (low, high) = dot.range.unwrap_or((dot.value, dot.value));
            [low, dot.value, high]
        };
        let mut scale = self.x.scale(dots.flat_map(ends));
        scale.thin_out(TICKS_APART);
        let across = |value: f64| SIDE + scale.place(value) * (WIDTH - 2.0 * SIDE);
        for tick in &scale.ticks {
            let x = across(*tick);
            svg.line("grid", (x, top), (x, bottom + 4.0));
            svg.text((x, bottom + 19.0), Anchor::Middle, "tick", &self.x.name(*tick));
        }
        for (index, row) in self.rows.iter().enumerate() {
            let y = top + index as f64 * row_height;
            svg.text((LEFT, y + 15.0), Anchor::Start, "name", &row.label);
            let bottom = y + row_height - 6.0;
            svg.line("rail", (SIDE, bottom), (WIDTH - SIDE, bottom));
            for (lane, ((name, look), dot)) in self.series.iter().zip(&row.dots).enumerate() {
                let Some(Dot { value, range }) = dot else { continue };
                // Each series has a lane of its own, so that equal values do not hide each other.
                let middle = y + NAME + (lane as f64 + 0.5) * LANE;
                if let Some((low, high)) = range {
                    let class = format!("whisker c{}", look.index());
                    svg.line(&class, (across(*low), middle), (across(*high), middle));
                }
                let words = format!("{}, {name}: {}", row.label, self.x.name(*value));
                svg.mark(Look(look.0), (across(*value), middle), &words);
            }
        }
        svg.text((WIDTH / 2.0, bottom + 37.0), Anchor::Middle, "axis-name", &self.x.label);
        svg.finish("dots", title, bottom + 46.0)
    }

    /// A row for each row, a column for each series.
    pub(super) fn figures(&self) -> Grid {
        let names = self.series.iter().map(|(name, _)| name.clone());
        let titles = std::iter::once(String::new()).chain(names).collect();
        let rows = self.rows.iter().map(|row| {
            let value = |dot: &Option<Dot>| match dot {
                None => String::new(),
                Some(Dot { value, range: None }) => self.x.name(*value),
                Some(Dot { value, range: Some((low, high)) }) => {
                    let [value, low, high] = [value, low, high].map(|it| self.x.name(*it));
                    format!("{value} ({low} – {high})")
                }
            };
            std::iter::once(row.label.clone()).chain(row.dots.iter().map(value)).collect()
        });
        Grid { titles, rows: rows.collect() }
    }
}

/// Height of a row's name, and of a series below it.
const NAME: f64 = 19.0;
const LANE: f64 = 9.0;
const SIDE: f64 = 26.0;
const TICKS_APART: f64 = 0.09;
