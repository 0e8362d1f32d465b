//! A table of text: aligned columns, headings between groups of rows, colours where wanted.
//!
//! Knows nothing of what it shows. Invariant: without colours the output is plain text, and colours
//! do not change the alignment.

use std::fmt::Write;

pub struct Table {
    titles: Vec<String>,
    rows: Vec<Row>,
}

/// How a cell looks on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    Plain,
    Strong,
    Faint,
    Marked,
}

pub struct TableCell {
    text: String,
    style: Style,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    On,
    Off,
}

enum Row {
    Heading(String),
    Cells(Vec<TableCell>),
}

impl TableCell {
    pub fn new(text: impl Into<String>, style: Style) -> Self {
        Self { text: text.into(), style }
    }

    pub fn plain(text: impl Into<String>) -> Self {
        Self::new(text, Style::Plain)
    }
}

impl Table {
    /// The first column is aligned to the left, all others to the right.
    pub fn new(titles: &[&str]) -> Self {
        Self { titles: titles.iter().map(|title| (*title).to_owned()).collect(), rows: Vec::new() }
    }

    pub fn heading(&mut self, text: impl Into<String>) {
        self.rows.push(Row::Heading(text.into()));
    }

    /// Adds a row. Cells beyond the last title are not shown.
    pub fn row(&mut self, cells: Vec<TableCell>) {
        self.rows.push(Row::Cells(cells));
    }

    pub fn render(&self, colours: Colours) -> String {
        let widths = self.widths();
        let titles: Vec<TableCell> =
            self.titles.iter().map(|title| TableCell::new(title, Style::Faint)).collect();
        let mut text = line(&titles, &widths, colours);
        for row in &self.rows {
            match row {
                Row::Heading(heading) => {
                    text.push_str(&paint(heading, Style::Strong, colours));
                    text.push('\n');
                }
                Row::Cells(cells) => text.push_str(&line(cells, &widths, colours)),
            }
        }
        text
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> =
            self.titles.iter().map(|title| title.chars().count()).collect();
        for row in &self.rows {
            let Row::Cells(cells) = row else { continue };
            for (width, cell) in widths.iter_mut().zip(cells) {
                *width = cell.text.chars().count().max(*width);
            }
        }
        widths
    }
}

/// Paints a text as a cell of that style would be.
pub fn paint(text: &str, style: Style, colours: Colours) -> String {
    let code = match (colours, style) {
        (Colours::Off, _) | (_, Style::Plain) => return text.to_owned(),
        _ if text.is_empty() => return String::new(),
        (Colours::On, Style::Strong) => 1,
        (Colours::On, Style::Faint) => 2,
        (Colours::On, Style::Marked) => 33,
    };
    format!("\x1b[{code}m{text}\x1b[0m")
}

/// Breaks prose into lines for a terminal.
pub fn wrap(text: &str) -> String {
    let mut wrapped = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if 0 < width && LINE_MAX < width + 1 + length {
            wrapped.push('\n');
            width = 0;
        } else if 0 < width {
            wrapped.push(' ');
            width += 1;
        }
        wrapped.push_str(word);
        width += length;
    }
    wrapped.push('\n');
    wrapped
}

const LINE_MAX: usize = 100;

fn line(cells: &[TableCell], widths: &[usize], colours: Colours) -> String {
    let mut line = String::new();
    for (index, (cell, width)) in cells.iter().zip(widths).enumerate() {
        let padding = " ".repeat(width - cell.text.chars().count());
        let painted = paint(&cell.text, cell.style, colours);
        // Writing to a string cannot fail.
        let _ = match index {
            0 => write!(line, "  {painted}{padding}"),
            _ => write!(line, "  {padding}{painted}"),
        };
    }
    let mut line = line.trim_end().to_owned();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Table {
        let mut table = Table::new(&["way", "statements/s", "µs"]);
        table.heading("8 clients");
        table.row(vec![
            TableCell::plain("direct"),
            TableCell::plain("79 700"),
            TableCell::plain("12.5"),
        ]);
        table.row(vec![
            TableCell::plain("flifo"),
            TableCell::new("1", Style::Marked),
            TableCell::plain(""),
        ]);
        table
    }

    #[test]
    fn columns_are_aligned() {
        let want = "  way     statements/s    µs\n\
                    8 clients\n  \
                      direct        79 700  12.5\n  \
                      flifo              1\n";
        assert_eq!(sample().render(Colours::Off), want);
    }

    #[test]
    fn colours_add_nothing_but_colours() {
        let coloured = sample().render(Colours::On);
        assert!(coloured.contains("\x1b[33m1\x1b[0m"), "{coloured:?}");
        let mut plain = coloured;
        for code in ["\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[33m"] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, sample().render(Colours::Off));
    }
}
