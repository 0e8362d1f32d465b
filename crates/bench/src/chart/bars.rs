//! Bars of pieces, one below the other.

use super::svg::{Anchor, Key, LEFT, Svg, WIDTH, piece_class, text_width};
use super::{Bars, Grid, Piece, Scale, number};

impl Bars {
    pub(super) fn svg(&self, title: &str) -> String {
        let mut svg = Svg::new();
        let key = |piece: &Piece| (piece.name.clone(), Key::Piece(piece.look, piece.fill));
        let entries: Vec<_> = self.pieces.iter().map(key).collect();
        let top = svg.legend(&entries) + 8.0;
        let widest = self.rows.iter().map(|row| text_width(&row.label)).fold(0.0, f64::max);
        let left = LEFT + widest.min(LABEL_MAX) + 8.0;
        let right = WIDTH - AFTER;
        let mut scale = self.x.scale(self.rows.iter().map(|row| row.whole()));
        scale.thin_out(TICKS_APART);
        let headings = self.rows.iter().filter(|row| row.heading.is_some()).count() as f64;
        let height = self.rows.len() as f64 * ROW + headings * HEADING;
        let bottom = top + height + 4.0;
        let across = |value: f64| left + scale.place(value) * (right - left);
        self.draw_axis(&mut svg, &scale, (top, bottom), across);
        let mut y = top;
        for row in &self.rows {
            if let Some(heading) = &row.heading {
                y += HEADING;
                svg.text((LEFT, y - 4.0), Anchor::Start, "heading", heading);
            }
            svg.text((left - 6.0, y + ROW - 6.0), Anchor::End, "name", &row.label);
            let mut from = 0.0;
            for (piece, length) in self.pieces.iter().zip(&row.lengths) {
                let (x, end) = (across(from), across(from + length.max(0.0)));
                let words = format!("{}, {}: {}", row.label, piece.name, number(*length));
                let class = piece_class(piece.look, piece.fill);
                svg.area_of(&class, (x, y + 2.0), (end - x, ROW - 5.0), &words);
                from += length.max(0.0);
            }
            svg.text((across(from) + 5.0, y + ROW - 6.0), Anchor::Start, "tick", &number(from));
            y += ROW;
        }
        svg.finish("bars", title, bottom + BELOW)
    }

    /// A row for each bar, a column for each piece and one for the whole.
    pub(super) fn figures(&self) -> Grid {
        let pieces = self.pieces.iter().map(|piece| piece.name.clone());
        let titles = std::iter::once(String::new()).chain(pieces).chain([self.x.label.clone()]);
        let mut rows = Vec::new();
        let mut heading = String::new();
        for row in &self.rows {
            if let Some(new) = &row.heading {
                heading = format!("{new}, ");
            }
            let lengths =
                row.lengths.iter().chain([&row.whole()]).map(|it| number(*it)).collect::<Vec<_>>();
            rows.push(std::iter::once(format!("{heading}{}", row.label)).chain(lengths).collect());
        }
        Grid { titles: titles.collect(), rows }
    }

    fn draw_axis(
        &self,
        svg: &mut Svg,
        scale: &Scale,
        (top, bottom): (f64, f64),
        across: impl Fn(f64) -> f64,
    ) {
        for tick in &scale.ticks {
            let x = across(*tick);
            svg.line("grid", (x, top), (x, bottom));
            svg.text((x, bottom + 15.0), Anchor::Middle, "tick", &self.x.name(*tick));
        }
        svg.line("base", (across(0.0), top), (across(0.0), bottom));
        svg.text((WIDTH / 2.0, bottom + 33.0), Anchor::Middle, "axis-name", &self.x.label);
    }
}

impl super::BarRow {
    fn whole(&self) -> f64 {
        self.lengths.iter().filter(|length| length.is_finite()).map(|length| length.max(0.0)).sum()
    }
}

const ROW: f64 = 20.0;
const HEADING: f64 = 22.0;
const LABEL_MAX: f64 = 240.0;
/// Room for the number behind the longest bar.
const AFTER: f64 = 56.0;
const BELOW: f64 = 42.0;
const TICKS_APART: f64 = 0.1;
