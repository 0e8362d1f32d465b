//! What an agent beside a server says of it, in the words that HAProxy's users know from `agent-check`.
//!
//! Owns how one line is read ([`read`]) and what an agent has said so far ([`Agent`]): what a line does not mention
//! stays as it was, and only the agent takes back what the agent has ordered. Invariants: every line is read in one
//! pass, whatever it is; words that mean something count also beside one that does not, which is told.

use std::fmt;

use crate::checks::health::HealthOrder;

/// A longer line is none: what stands where it was cut off could mean something else.
pub const LINE_MAX: usize = 512;

/// A share of the weight above this is a mistake.
const PERCENT_MAX: u32 = 10_000;

/// As many as can be configured.
const LIMIT_MAX: u32 = 100_000;

/// Of what was not understood, and of descriptions, so much is told.
const TOLD_MAX: usize = 120;

/// What one line says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub operation: Option<Operation>,
    pub order: Option<HealthOrder>,
    /// Of the configured weight.
    pub percent: Option<u32>,
    /// Statements at once; `Some(None)` is again the server's own limit.
    pub limit: Option<Option<u32>>,
    /// What was not understood, and why.
    pub problem: Option<String>,
}

/// Whether the agent holds its server to be working.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Up,
    /// Its word for it, and what it adds.
    Down(String),
}

/// What an agent has said so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agent {
    /// Why it holds its server to be down.
    pub down: Option<String>,
    pub order: HealthOrder,
    pub percent: Option<u32>,
    pub limit: Option<u32>,
}

impl Agent {
    /// Takes in one line. True: something is not as it was.
    pub fn hear(&mut self, report: &Report) -> bool {
        let before = self.clone();
        match &report.operation {
            Some(Operation::Up) => self.down = None,
            Some(Operation::Down(why)) => self.down = Some(why.clone()),
            None => {}
        }
        self.order = report.order.unwrap_or(self.order);
        self.percent = report.percent.or(self.percent);
        self.limit = report.limit.unwrap_or(self.limit);
        *self != before
    }

    /// Whether its server may get something new, as far as the agent is concerned.
    pub fn allows(&self) -> bool {
        self.down.is_none() && self.order == HealthOrder::None && self.percent != Some(0)
    }

    /// The server's share of its weight; 1 if nothing was said.
    pub fn share(&self) -> f64 {
        f64::from(self.percent.unwrap_or(100)) / 100.0
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.down.as_deref().unwrap_or("up"))?;
        match self.order {
            HealthOrder::None => {}
            HealthOrder::Drain => f.write_str(", drain")?,
            HealthOrder::Maintenance => f.write_str(", maint")?,
        }
        if let Some(percent) = self.percent {
            write!(f, ", {percent}%")?;
        }
        self.limit.map_or(Ok(()), |limit| write!(f, ", maxconn:{limit}"))
    }
}

/// Reads what an agent has sent until it closed, or as much as was read of that; an error says why it is no line.
pub fn read(bytes: &[u8]) -> Result<Report, String> {
    let end = bytes.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    let line = &bytes[..end.unwrap_or(bytes.len())];
    if line.len() > LINE_MAX {
        return Err(format!("its line is longer than {LINE_MAX} bytes"));
    }
    if end.is_none() {
        return Err(match line {
            [] => "it said nothing".to_owned(),
            _ => format!("{:?} is not the whole line: no end of it came", told(line)),
        });
    }
    let Ok(text) = std::str::from_utf8(line) else {
        return Err(format!("{:?} is no text", told(line)));
    };
    let (words, description) = match text.split_once('#') {
        Some((words, description)) => (words, Some(description.trim())),
        None => (text, None),
    };
    let mut report = Report::default();
    let words = words.split([' ', '\t', ',']).filter(|word| !word.is_empty());
    let mut count = 0_usize;
    for word in words {
        count += 1;
        if let Err(why) = report.take(word) {
            // The first one says most.
            report.problem.get_or_insert(why);
        }
    }
    if count == 0 {
        return Err("it said nothing".to_owned());
    }
    if let (Some(Operation::Down(why)), Some(more)) = (&mut report.operation, description)
        && !more.is_empty()
    {
        *why = format!("{why}: {}", told(more.as_bytes()));
    }
    Ok(report)
}

impl Report {
    /// Of several words of a kind, the last one counts.
    fn take(&mut self, word: &str) -> Result<(), String> {
        let lower = word.to_ascii_lowercase();
        match lower.as_str() {
            "up" => self.operation = Some(Operation::Up),
            "down" | "stopped" | "fail" | "failed" => self.operation = Some(Operation::Down(lower)),
            "ready" => self.order = Some(HealthOrder::None),
            "drain" => self.order = Some(HealthOrder::Drain),
            "maint" => self.order = Some(HealthOrder::Maintenance),
            other => {
                if let Some(number) = other.strip_suffix('%') {
                    self.percent = Some(number_to(number, PERCENT_MAX, word)?);
                } else if let Some(number) = other.strip_prefix("maxconn:") {
                    let limit = number_to(number, LIMIT_MAX, word)?;
                    self.limit = Some(Some(limit).filter(|limit| *limit > 0));
                } else {
                    return Err(format!("unknown word {:?}", told(word.as_bytes())));
                }
            }
        }
        Ok(())
    }
}

fn number_to(digits: &str, max: u32, word: &str) -> Result<u32, String> {
    let number = match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => digits.parse().ok().filter(|number| *number <= max),
        false => None,
    };
    number.ok_or_else(|| format!("{:?} is no number from 0 to {max}", told(word.as_bytes())))
}

/// As much of it as is told, without what could spoil a terminal.
fn told(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let harmless = |letter: char| if letter.is_control() { '?' } else { letter };
    text.chars().take(TOLD_MAX).map(harmless).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down(why: &str) -> Option<Operation> {
        Some(Operation::Down(why.to_owned()))
    }

    #[test]
    fn words_mean_what_they_mean_to_haproxy() {
        let report = Report::default();
        let up = Some(Operation::Up);
        for (line, want) in [
            ("up\n", Report { operation: up.clone(), ..report.clone() }),
            ("UP 99%\r\n", Report { operation: up, percent: Some(99), ..report.clone() }),
            ("down\n", Report { operation: down("down"), ..report.clone() }),
            (
                "stopped # for the night\n",
                Report { operation: down("stopped: for the night"), ..report.clone() },
            ),
            ("fail#disk, full\n", Report { operation: down("fail: disk, full"), ..report.clone() }),
            (
                "drain,75%\tmaxconn:30\n",
                Report {
                    order: Some(HealthOrder::Drain),
                    percent: Some(75),
                    limit: Some(Some(30)),
                    ..report.clone()
                },
            ),
            ("maint\n", Report { order: Some(HealthOrder::Maintenance), ..report.clone() }),
            (
                "ready maxconn:0\nmore",
                Report { order: Some(HealthOrder::None), limit: Some(None), ..report.clone() },
            ),
            // Of several, the last.
            (
                " up down 10% 20%\n",
                Report { operation: down("down"), percent: Some(20), ..report.clone() },
            ),
            ("0%\n", Report { percent: Some(0), ..report }),
        ] {
            assert_eq!(read(line.as_bytes()), Ok(want), "{line:?}");
        }
    }

    #[test]
    fn what_is_not_understood_is_told_and_the_rest_counts() {
        for (line, want) in [
            ("drain sideways\n", "\"sideways\""),
            ("drain -5%\n", "-5%"),
            ("drain 10001%\n", "0 to 10000"),
            ("drain 99999999999999999999%\n", "0 to 10000"),
            ("drain %\n", "no number"),
            ("drain maxconn:\n", "no number"),
            ("drain maxconn:+1\n", "no number"),
            ("drain maxconn:many\n", "no number"),
            ("drain \x1b[2J\n", "?[2J"),
        ] {
            let report = read(line.as_bytes()).expect(line);
            let problem = report.problem.unwrap_or_default();
            assert!(problem.contains(want), "{line:?}: {problem}");
            assert_eq!(report.order, Some(HealthOrder::Drain), "{line:?}");
        }
    }

    #[test]
    fn what_is_no_line_changes_nothing() {
        let long = [b"up ".repeat(200), b"\n".to_vec()].concat();
        for (bytes, want) in [
            (&b""[..], "said nothing"),
            (b"\n", "said nothing"),
            (b" ,\t\r\n", "said nothing"),
            (b"# why\n", "said nothing"),
            (b"drain 50", "not the whole line"),
            (b"\xff\xfe up\n", "no text"),
            (&long, "longer than"),
        ] {
            let error = read(bytes).expect_err(want);
            assert!(error.contains(want), "{error}");
        }
    }

    /// Whatever comes, it is read, and what is told of it is short and harmless.
    #[test]
    fn no_bytes_are_too_strange() {
        let mut state = 1_u64;
        let mut draw = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as u8
        };
        let pieces: [&[u8]; 8] =
            [b"up", b"%", b"maxconn:", b" ", b"#", b"\n", b"9999999999", b"drain"];
        for _ in 0..20_000 {
            let mut bytes = Vec::new();
            for _ in 0..draw() % 40 {
                match draw() % 3 {
                    0 => bytes.push(draw()),
                    _ => bytes.extend_from_slice(pieces[usize::from(draw() % 8)]),
                }
            }
            let said = match read(&bytes) {
                Ok(report) => report.problem.unwrap_or_default(),
                Err(why) => why,
            };
            assert!(said.len() < 8 * TOLD_MAX && !said.contains(char::is_control), "{said:?}");
        }
    }

    #[test]
    fn what_is_not_mentioned_stays() {
        let mut agent = Agent::default();
        let mut hear = |line: &str| {
            let changed = agent.hear(&read(line.as_bytes()).expect("a line"));
            (changed, agent.allows(), agent.to_string())
        };
        assert_eq!(hear("up\n"), (false, true, "up".to_owned()));
        assert_eq!(hear("drain 50%\n"), (true, false, "up, drain, 50%".to_owned()));
        assert_eq!(hear("maxconn:7\n"), (true, false, "up, drain, 50%, maxconn:7".to_owned()));
        assert_eq!(hear("ready\n"), (true, true, "up, 50%, maxconn:7".to_owned()));
        assert_eq!(hear("stopped\n"), (true, false, "stopped, 50%, maxconn:7".to_owned()));
        assert!(!hear("ready\n").1);
        assert!(!hear("up 0%\n").1);
        assert_eq!(hear("100% maxconn:0\n"), (true, true, "up, 100%".to_owned()));
    }
}
