//! One self-contained HTML page: headings, words, charts and tables, without scripts and without
//! anything from elsewhere.
//!
//! Knows how a page looks and not what it tells; what a run of the load generator has to tell is
//! put together in [`of_bench`]. Invariants: all texts are escaped; the page fetches nothing, and
//! says so to the browser.

mod charts;
mod results;

use std::fmt::Write;

use crate::chart::{Chart, Grid, escape};

pub use self::results::of_bench;

/// A page that is being written.
pub struct Page {
    title: String,
    body: String,
}

impl Page {
    pub fn new(title: &str, subtitle: &str) -> Self {
        let mut page = Self { title: title.to_owned(), body: String::new() };
        page.element("h1", title);
        page.add(format_args!("<p class=\"subtitle\">{}</p>", escape(subtitle)));
        page
    }

    pub fn heading(&mut self, text: &str) {
        self.element("h2", text);
    }

    pub fn small_heading(&mut self, text: &str) {
        self.element("h3", text);
    }

    pub fn paragraph(&mut self, text: &str) {
        self.element("p", text);
    }

    /// A command as it is typed.
    pub fn command(&mut self, text: &str) {
        self.add(format_args!("<pre><code>{}</code></pre>", escape(text)));
    }

    /// What must be read before any number. Nothing if there is nothing.
    pub fn notice(&mut self, lines: &[String]) {
        if lines.is_empty() {
            return;
        }
        self.add(format_args!("<div class=\"notice\"><ul>"));
        for line in lines {
            self.element("li", line);
        }
        self.add(format_args!("</ul></div>"));
    }

    /// Names and what belongs to them.
    pub fn facts(&mut self, facts: &[(&str, String)]) {
        self.add(format_args!("<dl>"));
        for (name, fact) in facts {
            self.element("dt", name);
            self.element("dd", fact);
        }
        self.add(format_args!("</dl>"));
    }

    /// Charts side by side, each with its figures as a table.
    pub fn charts(&mut self, charts: &[Chart]) {
        self.add(format_args!("<div class=\"charts\">"));
        for chart in charts {
            let (title, note) = (escape(&chart.title), escape(&chart.note));
            self.add(format_args!(
                "<figure>\n<figcaption><strong>{title}</strong> <span>{note}</span></figcaption>\n\
                 {}<details><summary>Figures</summary>",
                chart.svg()
            ));
            self.table(&chart.figures());
            self.add(format_args!("</details>\n</figure>"));
        }
        self.add(format_args!("</div>"));
    }

    pub fn table(&mut self, grid: &Grid) {
        self.add(format_args!("<div class=\"scroll\"><table><thead><tr>"));
        for title in &grid.titles {
            self.add(format_args!("<th scope=\"col\">{}</th>", escape(title)));
        }
        self.add(format_args!("</tr></thead><tbody>"));
        for row in &grid.rows {
            let cells: String =
                row.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
            self.add(format_args!("<tr>{cells}</tr>"));
        }
        self.add(format_args!("</tbody></table></div>"));
    }

    /// The whole document.
    pub fn finish(self) -> String {
        let title = escape(&self.title);
        let version = env!("CARGO_PKG_VERSION");
        format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n{HEAD}<title>{title}</title>\n\
             <style>\n{STYLE}</style>\n</head>\n<body>\n{}<footer>Written by Flifo {version}. \
             This page is complete in itself: no scripts, nothing from elsewhere.</footer>\n\
             </body>\n</html>\n",
            self.body
        )
    }

    fn element(&mut self, name: &str, text: &str) {
        let text = escape(text);
        self.add(format_args!("<{name}>{text}</{name}>"));
    }

    fn add(&mut self, part: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.body, "{part}");
    }
}

/// Tells the browser to load nothing, wherever a text might ask it to.
const HEAD: &str = include_str!("page/head.html");
const STYLE: &str = include_str!("page/style.css");

#[cfg(test)]
mod tests;
