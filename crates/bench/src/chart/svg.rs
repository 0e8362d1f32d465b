//! Pieces of SVG that all charts have: text, lines, marks, the legend.
//!
//! Invariants: every text is escaped; places have one digit behind the point, so equal charts are
//! equal bytes.

use std::fmt::Write;

use super::Look;

/// A text as it may stand in HTML and SVG, in attributes too.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Of control characters HTML knows no writing but those of white space.
            _ if letter.is_control() => safe.push(' '),
            _ => safe.push(letter),
        }
    }
    safe
}

/// A drawing that is being made.
pub(super) struct Svg {
    body: String,
}

#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl Svg {
    pub(super) fn new() -> Self {
        Self { body: String::new() }
    }

    /// Ends the drawing. Its height is known only now: that of charts with rows depends on them.
    pub(super) fn finish(self, kind: &str, title: &str, height: f64) -> String {
        format!(
            "<svg class=\"chart {kind}\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" \
             aria-label=\"{}\">\n{}</svg>\n",
            escape(title),
            self.body
        )
    }

    pub(super) fn text(&mut self, (x, y): Place, anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.add(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}\
             </text>"
        ));
    }

    pub(super) fn line(&mut self, class: &str, (x1, y1): Place, (x2, y2): Place) {
        self.add(format_args!(
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        ));
    }

    /// A line through all places.
    pub(super) fn path(&mut self, class: &str, places: &[Place]) {
        let way = way(places);
        self.add(format_args!("<path class=\"{class}\" d=\"{way}\"/>"));
    }

    /// The area that is enclosed by all places.
    pub(super) fn area(&mut self, class: &str, places: &[Place]) {
        let way = way(places);
        self.add(format_args!("<path class=\"{class}\" d=\"{way}Z\"/>"));
    }

    /// A box, with words that a pointer brings up.
    pub(super) fn area_of(&mut self, class: &str, (x, y): Place, size: Place, words: &str) {
        let (width, height) = (size.0.max(0.0), size.1.max(0.0));
        let words = escape(words);
        self.add(format_args!(
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" \
             height=\"{height:.1}\"><title>{words}</title></rect>"
        ));
    }

    /// The mark of a series at a place, with words that a pointer brings up.
    pub(super) fn mark(&mut self, look: Look, (x, y): Place, words: &str) {
        let index = look.index();
        let shape = shape(index, x, y);
        let words = escape(words);
        self.add(format_args!("<g class=\"point c{index}\">{shape}<title>{words}</title></g>"));
    }

    /// Names the series above a plot, in as many lines as they need; returns the height.
    pub(super) fn legend(&mut self, entries: &[(String, Key)]) -> f64 {
        let (mut x, mut y) = (LEFT, LEGEND_LINE - 4.0);
        for (name, key) in entries {
            let width = KEY_WIDTH + text_width(name) + 18.0;
            if LEFT < x && WIDTH < x + width {
                (x, y) = (LEFT, y + LEGEND_LINE);
            }
            let middle = y - 4.0;
            match *key {
                Key::Line(look) => {
                    let class = format!("line c{}", look.index());
                    self.line(&class, (x, middle), (x + 22.0, middle));
                    let shape = shape(look.index(), x + 11.0, middle);
                    self.add(format_args!("<g class=\"key c{}\">{shape}</g>", look.index()));
                }
                Key::Band(look) => {
                    let class = format!("line c{}", look.index());
                    self.line(&class, (x, middle), (x + 22.0, middle));
                }
                Key::Mark(look) => {
                    let shape = shape(look.index(), x + 11.0, middle);
                    self.add(format_args!("<g class=\"key c{}\">{shape}</g>", look.index()));
                }
                Key::Piece(look, fill) => self.add(format_args!(
                    "<rect class=\"{}\" x=\"{:.1}\" y=\"{:.1}\" width=\"14\" height=\"10\"/>",
                    piece_class(look, fill),
                    x + 6.0,
                    middle - 5.0
                )),
            }
            self.text((x + KEY_WIDTH, y), Anchor::Start, "name", name);
            x += width;
        }
        if entries.is_empty() { 0.0 } else { y + 8.0 }
    }

    fn add(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{element}");
    }
}

/// What stands before a name in a legend.
#[derive(Clone, Copy)]
pub(super) enum Key {
    Line(Look),
    Band(Look),
    Mark(Look),
    Piece(Look, super::Fill),
}

pub(super) fn piece_class(look: Look, fill: super::Fill) -> String {
    let fill = if fill == super::Fill::Full { "full" } else { "striped" };
    format!("piece {fill} c{}", look.index())
}

/// About how wide a text is: letters are not measured here.
pub(super) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * 6.6
}

/// Across and down, from the upper left corner.
pub(super) type Place = (f64, f64);

/// Of every chart; the page makes it larger or smaller.
pub(super) const WIDTH: f64 = 540.0;
/// Where legends and names above the plot begin.
pub(super) const LEFT: f64 = 8.0;
const KEY_WIDTH: f64 = 28.0;
const LEGEND_LINE: f64 = 18.0;

fn way(places: &[Place]) -> String {
    let mut way = String::new();
    for (index, (x, y)) in places.iter().enumerate() {
        let _ = write!(way, "{}{x:.1} {y:.1}", if index == 0 { 'M' } else { 'L' });
    }
    way
}

/// One shape for each look, all of about the same weight.
fn shape(index: usize, x: f64, y: f64) -> String {
    let corners = |corners: &[(f64, f64)]| {
        let way = way(&corners.iter().map(|(dx, dy)| (x + dx, y + dy)).collect::<Vec<_>>());
        format!("<path d=\"{way}Z\"/>")
    };
    match index {
        0 => format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4.2\"/>"),
        1 => corners(&[(-3.8, -3.8), (3.8, -3.8), (3.8, 3.8), (-3.8, 3.8)]),
        2 => corners(&[(0.0, -5.0), (4.8, 3.6), (-4.8, 3.6)]),
        3 => corners(&[(0.0, -5.4), (5.4, 0.0), (0.0, 5.4), (-5.4, 0.0)]),
        4 => corners(&[(0.0, 5.0), (4.8, -3.6), (-4.8, -3.6)]),
        _ => {
            let (long, short) = (4.8, 1.6);
            corners(&[
                (-short, -long),
                (short, -long),
                (short, -short),
                (long, -short),
                (long, short),
                (short, short),
                (short, long),
                (-short, long),
                (-short, short),
                (-long, short),
                (-long, -short),
                (-short, -short),
            ])
        }
    }
}
