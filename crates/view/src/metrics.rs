//! Prometheus' text format, version 0.0.4.
//!
//! Owns the form: names, units, escapes, the order of lines. A family is begun once; what is added to it then has its
//! name. Times are histograms in seconds, never averages.

use std::fmt::{Display, Write};

use crate::histogram::Histogram;

/// A page of metrics under way.
#[derive(Debug, Default)]
pub struct Page {
    out: String,
    family: &'static str,
}

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Only grows. Its name ends in `_total`.
    Counter,
    Gauge,
    Histogram,
}

/// A label and its value.
pub type Label<'a> = (&'static str, &'a str);

/// Histograms are told in powers of two of a microsecond: from 16 µs to 67 s.
const EXPONENTS: std::ops::RangeInclusive<u32> = 4..=26;

impl Page {
    /// Begins a family.
    pub fn family(&mut self, name: &'static str, kind: Family, help: &str) {
        self.family = name;
        let kind = match kind {
            Family::Counter => "counter",
            Family::Gauge => "gauge",
            Family::Histogram => "histogram",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} {kind}"));
    }

    /// Adds a sample to the family that was begun last.
    pub fn sample(&mut self, labels: &[Label<'_>], value: impl Display) {
        self.put("", labels, value);
    }

    /// Adds a histogram to the family that was begun last.
    pub fn histogram(&mut self, labels: &[Label<'_>], histogram: &Histogram) {
        for exponent in EXPONENTS {
            let bound = ((1_u64 << exponent) as f64 / 1e6).to_string();
            let labels = [labels, &[("le", &bound)]].concat();
            self.put("_bucket", &labels, histogram.below(exponent));
        }
        let all = [labels, &[("le", "+Inf")]].concat();
        self.put("_bucket", &all, histogram.count());
        self.put("_sum", labels, histogram.sum().as_secs_f64());
        self.put("_count", labels, histogram.count());
    }

    pub fn into_text(self) -> String {
        self.out
    }

    fn put(&mut self, suffix: &str, labels: &[Label<'_>], value: impl Display) {
        let pair = |(name, value): &Label<'_>| {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            format!("{name}=\"{value}\"")
        };
        let family = self.family;
        if labels.is_empty() {
            self.line(format_args!("{family}{suffix} {value}"));
        } else {
            let labels = labels.iter().map(pair).collect::<Vec<_>>().join(",");
            self.line(format_args!("{family}{suffix}{{{labels}}} {value}"));
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.out, "{line}").expect("a text takes all");
    }
}

/// What is wrong with a page, by the rules of the format, and by those of naming that `promtool check metrics` knows.
pub fn faults(page: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut families: Vec<(&str, &str)> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut helped = "";
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap_or((rest, ""));
            helped = if help.is_empty() { "" } else { name };
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap_or((rest, ""));
            if families.iter().any(|(other, _)| *other == name) {
                wrong.push(format!("{name} is begun twice"));
            }
            if helped != name {
                wrong.push(format!("{name} has no help ahead of its type"));
            }
            wrong.extend(misnamed(name, kind).map(|why| format!("{name}: {why}")));
            families.push((name, kind));
        } else if !line.starts_with('#') {
            let end = line.find(['{', ' ']).unwrap_or(line.len());
            let (name, (family, kind)) = (&line[..end], families.last().unwrap_or(&("", "")));
            let suffix = name.strip_prefix(family);
            let fits = match *kind {
                "histogram" => matches!(suffix, Some("_bucket" | "_sum" | "_count")),
                _ => suffix == Some(""),
            };
            let (series, value) = line.rsplit_once(' ').unwrap_or((line, ""));
            if !fits || value.parse::<f64>().is_err() {
                wrong.push(format!("{line:?} does not belong to {family}"));
            }
            if !seen.insert(series) {
                wrong.push(format!("{series} is there twice"));
            }
            let labels = series.split_once('{').map_or("", |(_, labels)| labels);
            if *kind != "histogram" && (labels.starts_with("le=") || labels.contains(",le=")) {
                wrong.push(format!("{series}: \"le\" is for histograms"));
            }
        }
    }
    wrong
}

/// What is wrong with the name of a family of this kind.
fn misnamed(name: &str, kind: &str) -> impl Iterator<Item = &'static str> {
    let words = || name.split('_');
    let has = |of: &[&str]| words().any(|word| of.contains(&word));
    let is_snake = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let is_counter = kind == "counter";
    let ends = ["_count", "_sum", "_bucket"];
    [
        (name.ends_with("_total") != is_counter, "counters end in _total, and nothing else does"),
        (ends.iter().any(|end| name.ends_with(end)), "an ending that histograms have"),
        (!name.chars().all(|it| it == '_' || is_snake(it)), "not in small letters, digits and _"),
        (has(&["gauge", "counter", "histogram", "summary"]), "its type in its name"),
        (has(&ABBREVIATED), "a unit that is abbreviated"),
        (has(&NOT_BASE), "not in base units, which are seconds and bytes"),
    ]
    .into_iter()
    .filter_map(|(is_wrong, why)| is_wrong.then_some(why))
}

const ABBREVIATED: [&str; 16] = [
    "s", "ms", "us", "ns", "sec", "b", "kb", "mb", "gb", "tb", "pb", "m", "h", "d", "millis",
    "micros",
];

const NOT_BASE: [&str; 12] = [
    "milliseconds",
    "microseconds",
    "nanoseconds",
    "minutes",
    "hours",
    "days",
    "weeks",
    "kilobytes",
    "megabytes",
    "gigabytes",
    "bits",
    "percent",
];

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_page_is_as_prometheus_wants_it() {
        let mut page = Page::default();
        page.family("flifo_clients", Family::Gauge, "Clients\nconnected.");
        page.sample(&[], 3);
        page.family("flifo_faults_total", Family::Counter, "Errors.");
        page.sample(&[("kind", "a\"b\\\n")], 1);
        let mut times = Histogram::default();
        times.add(Duration::from_micros(40));
        times.add(Duration::from_secs(100));
        page.family("flifo_statement_seconds", Family::Histogram, "Times.");
        page.histogram(&[("server", "main")], &times);
        let text = page.into_text();
        assert!(text.starts_with(
            "# HELP flifo_clients Clients\\nconnected.\n# TYPE flifo_clients gauge\nflifo_clients 3\n"
        ));
        assert!(text.contains("flifo_faults_total{kind=\"a\\\"b\\\\\\n\"} 1\n"));
        for line in [
            "_bucket{server=\"main\",le=\"0.000032\"} 0",
            "_bucket{server=\"main\",le=\"0.000064\"} 1",
            "_bucket{server=\"main\",le=\"67.108864\"} 1",
            "_bucket{server=\"main\",le=\"+Inf\"} 2",
            "_sum{server=\"main\"} 100.00004",
            "_count{server=\"main\"} 2",
        ] {
            assert!(text.contains(&format!("flifo_statement_seconds{line}\n")), "{line}\n{text}");
        }
        assert_eq!(faults(&text), Vec::<String>::new());
    }

    #[test]
    fn what_is_against_the_rules_is_found() {
        let of = |page: &str| {
            let helped = page.lines().map(|line| match line.strip_prefix("# TYPE ") {
                Some(rest) => {
                    let name = rest.split(' ').next().unwrap_or_default();
                    format!("# HELP {name} Helps.\n{line}\n")
                }
                None => format!("{line}\n"),
            });
            faults(&helped.collect::<String>()).len()
        };
        for page in [
            "# TYPE a_total gauge\n",
            "# TYPE a counter\na 1\n",
            "# TYPE a_ms gauge\n",
            "# TYPE a_ms_b gauge\n",
            "# TYPE a_milliseconds_total counter\n",
            "# TYPE a_count gauge\n",
            "# TYPE aB gauge\n",
            "# TYPE a:b gauge\n",
            "# TYPE a_gauge gauge\n",
            "# TYPE a gauge\nb 1\n",
            "# TYPE a gauge\na x\n",
            "# TYPE a gauge\na 1\na 2\n",
            "# TYPE a gauge\na{le=\"1\"} 1\n",
            "# TYPE a gauge\na{b=\"1\",le=\"1\"} 1\n",
            "# TYPE a gauge\n# TYPE a gauge\n",
            "a 1\n",
        ] {
            assert_eq!(of(page), 1, "{page}");
        }
        assert_eq!(of("# TYPE a gauge\na{file=\"1\"} 1\n"), 0);
        assert_eq!(faults("# TYPE a gauge\na 1\n").len(), 1, "nobody says what it is");
        assert_eq!(faults("# HELP a \n# TYPE a gauge\na 1\n").len(), 1);
    }
}
