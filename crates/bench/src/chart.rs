//! Charts as SVG, drawn here and not in the reader's browser: they are there on paper and without
//! scripts.
//!
//! Takes plain series and knows nothing of what was measured. Colours are classes that the page's
//! style sheet defines for light, dark and paper. Invariants: no two series differ by colour alone,
//! for they have different marks too; whatever is drawn is also in [`Chart::figures`]; any number
//! and any text can be drawn.

mod bars;
mod dots;
mod lines;
mod scale;
mod svg;

pub use scale::{Scale, ScaleKind, number, percent};
pub use svg::escape;

/// A picture with its heading.
#[derive(Clone, Debug)]
pub struct Chart {
    pub title: String,
    /// What one should know to read it, in a sentence.
    pub note: String,
    pub plot: Plot,
}

#[derive(Clone, Debug)]
pub enum Plot {
    Lines(Lines),
    Bars(Bars),
    Dots(Dots),
}

/// Values over values: each series a line.
#[derive(Clone, Debug)]
pub struct Lines {
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
}

/// Parts of a whole, one below the other: each row a bar of pieces.
#[derive(Clone, Debug)]
pub struct Bars {
    pub x: Axis,
    /// What the pieces are, in the order in which they follow each other.
    pub pieces: Vec<Piece>,
    pub rows: Vec<BarRow>,
}

/// Values that lie orders of magnitude apart, one row below the other: each row a few marks.
#[derive(Clone, Debug)]
pub struct Dots {
    pub x: Axis,
    pub series: Vec<(String, Look)>,
    pub rows: Vec<DotRow>,
}

#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    pub kind: ScaleKind,
    /// Values that shall be named instead of round ones.
    pub ticks: Vec<f64>,
}

impl Axis {
    pub fn new(label: impl Into<String>, kind: ScaleKind) -> Self {
        Self { label: label.into(), kind, ticks: Vec::new() }
    }

    fn scale(&self, values: impl IntoIterator<Item = f64>) -> Scale {
        if self.ticks.is_empty() {
            Scale::of(self.kind, values)
        } else {
            Scale::with_ticks(self.kind, self.ticks.clone())
        }
    }

    /// A value of this axis in words.
    fn name(&self, value: f64) -> String {
        if self.kind == ScaleKind::Nines { percent(value) } else { number(value) }
    }
}

/// Colour and mark of a series: the same in all charts of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look(pub usize);

impl Look {
    /// Colours and marks that there are; more series begin again.
    pub const COUNT: usize = 6;

    fn index(self) -> usize {
        self.0 % Self::COUNT
    }
}

#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    pub look: Look,
    pub points: Vec<Point>,
    pub marks: Marks,
}

/// What is drawn of a series beside its line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// A mark at each point, with its range: few points.
    Points,
    /// A band between the ends of all ranges: many points.
    Band,
}

/// A value, and between which ends several measurements of it lay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub range: Option<(f64, f64)>,
}

#[derive(Clone, Debug)]
pub struct Piece {
    pub name: String,
    pub look: Look,
    pub fill: Fill,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    Full,
    /// Stripes: the other half of something whose first half is full.
    Striped,
}

#[derive(Clone, Debug)]
pub struct BarRow {
    pub label: String,
    /// Begins a group of rows.
    pub heading: Option<String>,
    /// A length for each piece.
    pub lengths: Vec<f64>,
}

#[derive(Clone, Debug)]
pub struct DotRow {
    pub label: String,
    /// At most one for each series.
    pub dots: Vec<Option<Dot>>,
}

/// A value, and between which ends several measurements of it lay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dot {
    pub value: f64,
    pub range: Option<(f64, f64)>,
}

/// A table of text. The first column names the row.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Grid {
    pub titles: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Chart {
    /// The picture alone, as an element of a page.
    pub fn svg(&self) -> String {
        match &self.plot {
            Plot::Lines(lines) => lines.svg(&self.title),
            Plot::Bars(bars) => bars.svg(&self.title),
            Plot::Dots(dots) => dots.svg(&self.title),
        }
    }

    /// What the picture shows, as text.
    pub fn figures(&self) -> Grid {
        match &self.plot {
            Plot::Lines(lines) => lines.figures(),
            Plot::Bars(bars) => bars.figures(),
            Plot::Dots(dots) => dots.figures(),
        }
    }
}

#[cfg(test)]
mod tests;
