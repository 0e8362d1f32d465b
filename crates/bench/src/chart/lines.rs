//! Lines over an axis, with ranges and marks.

use super::svg::{Anchor, Key, LEFT, Place, Svg, WIDTH};
use super::{Grid, Lines, Marks, Point, Scale, Series};

impl Lines {
    pub(super) fn svg(&self, title: &str) -> String {
        let mut svg = Svg::new();
        let entries: Vec<_> = self.series.iter().map(Series::key).collect();
        let top = svg.legend(&entries) + 28.0;
        let field = Field::new(self, top);
        field.draw_axes(self, &mut svg);
        // Lines lie above all bands, and marks above all lines.
        for series in &self.series {
            field.draw_ranges(series, &mut svg);
        }
        for series in &self.series {
            let class = format!("line c{}", series.look.index());
            let places: Vec<_> =
                series.drawn().map(|point| field.place(point.x, point.y)).collect();
            svg.path(&class, &places);
        }
        for series in self.series.iter().filter(|series| series.marks == Marks::Points) {
            for point in series.drawn() {
                let (x, y) = (self.x.name(point.x), self.y.name(point.y));
                let words = format!("{}: {y} at {x}", series.name);
                svg.mark(series.look, field.place(point.x, point.y), &words);
            }
        }
        svg.finish("lines", title, top + FIELD_HEIGHT + BELOW)
    }

    /// A row for each place on the x axis, a column for each series.
    pub(super) fn figures(&self) -> Grid {
        let mut places: Vec<f64> = self.points().map(|point| point.x).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let names = self.series.iter().map(|series| series.name.clone());
        let titles = std::iter::once(self.x.label.clone()).chain(names).collect();
        let rows = places.into_iter().map(|x| {
            let value = |series: &Series| {
                let found = series.points.iter().find(|point| point.x == x);
                found.map_or_else(String::new, |point| self.value(point))
            };
            std::iter::once(self.x.name(x)).chain(self.series.iter().map(value)).collect()
        });
        Grid { titles, rows: rows.collect() }
    }

    fn value(&self, point: &Point) -> String {
        let middle = self.y.name(point.y);
        match point.range {
            Some((low, high)) if low < high => {
                format!("{middle} ({} – {})", self.y.name(low), self.y.name(high))
            }
            _ => middle,
        }
    }

    fn points(&self) -> impl Iterator<Item = &Point> {
        self.series.iter().flat_map(|series| &series.points)
    }
}

impl Series {
    fn key(&self) -> (String, Key) {
        let key = match self.marks {
            Marks::Points => Key::Line(self.look),
            Marks::Band => Key::Band(self.look),
        };
        (self.name.clone(), key)
    }

    fn drawn(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| point.x.is_finite() && point.y.is_finite())
    }
}

/// The rectangle in which the lines are.
struct Field {
    x: Scale,
    y: Scale,
    top: f64,
}

impl Field {
    fn new(lines: &Lines, top: f64) -> Self {
        let mut x = lines.x.scale(lines.points().map(|point| point.x));
        x.thin_out(TICKS_APART);
        let ends = |point: &Point| {
            let (low, high) = point.range.unwrap_or((point.y, point.y));
            [low, point.y, high]
        };
        Self { x, y: lines.y.scale(lines.points().flat_map(ends)), top }
    }

    fn place(&self, x: f64, y: f64) -> Place {
        let across = FIELD_LEFT + PADDING + self.x.place(x) * (FIELD_WIDTH - 2.0 * PADDING);
        (across, self.top + FIELD_HEIGHT * (1.0 - self.y.place(y)))
    }

    fn draw_axes(&self, lines: &Lines, svg: &mut Svg) {
        let (left, right) = (FIELD_LEFT, FIELD_LEFT + FIELD_WIDTH);
        let bottom = self.top + FIELD_HEIGHT;
        svg.text((LEFT, self.top - 14.0), Anchor::Start, "axis-name", &lines.y.label);
        for tick in &self.y.ticks {
            let (_, y) = self.place(0.0, *tick);
            svg.line("grid", (left, y), (right, y));
            svg.text((left - 6.0, y + 4.0), Anchor::End, "tick", &lines.y.name(*tick));
        }
        svg.line("base", (left, bottom), (right, bottom));
        for tick in &self.x.ticks {
            let (x, _) = self.place(*tick, 0.0);
            svg.line("base", (x, bottom), (x, bottom + 4.0));
            svg.text((x, bottom + 17.0), Anchor::Middle, "tick", &lines.x.name(*tick));
        }
        let middle = f64::midpoint(left, right);
        svg.text((middle, bottom + 35.0), Anchor::Middle, "axis-name", &lines.x.label);
    }

    fn draw_ranges(&self, series: &Series, svg: &mut Svg) {
        let ranges = series.drawn().filter_map(|point| Some((point.x, point.range?)));
        let ranges: Vec<_> = ranges
            .map(|(x, (low, high))| (self.place(x, low), self.place(x, high)))
            .filter(|((_, low), (_, high))| 1.0 < low - high)
            .collect();
        let index = series.look.index();
        match series.marks {
            Marks::Points => {
                for (low, high) in ranges {
                    svg.line(&format!("whisker c{index}"), low, high);
                }
            }
            Marks::Band => {
                let upper = ranges.iter().map(|(_, high)| *high);
                let around: Vec<_> =
                    upper.chain(ranges.iter().rev().map(|(low, _)| *low)).collect();
                if 1 < ranges.len() {
                    svg.area(&format!("band c{index}"), &around);
                }
            }
        }
    }
}

const FIELD_LEFT: f64 = 64.0;
const FIELD_WIDTH: f64 = WIDTH - FIELD_LEFT - 12.0;
const FIELD_HEIGHT: f64 = 220.0;
/// Room at both ends of the x axis, so that marks do not stand on the edges.
const PADDING: f64 = 14.0;
const BELOW: f64 = 44.0;
/// A number of five digits, as a share of the axis.
const TICKS_APART: f64 = 0.075;
