//! What Flifo logs of its limit, read back.
//!
//! Owns the meaning of those lines; a line that is none of them is passed over. Pure.

use serde::Deserialize;

/// One decision about the limit.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Decision {
    /// Seconds since the first decision of the same piece of log.
    pub(super) at: f64,
    /// In one word.
    pub(super) why: String,
    /// What the limit swings around, afterwards.
    pub(super) centre: f64,
}

#[derive(Deserialize)]
struct Line {
    timestamp: String,
    message: String,
    why: Option<String>,
    centre: Option<f64>,
}

/// The decisions of a piece of log in JSON.
pub(super) fn read(log: &str) -> Vec<Decision> {
    let mut first = None;
    let decision = |line: &str| {
        let Line { timestamp, message, why, centre } = serde_json::from_str(line).ok()?;
        let at = seconds(&timestamp)?;
        if message != "limit" {
            return None;
        }
        let since = at - *first.get_or_insert(at);
        // With a step's size in brackets behind it.
        let why = why?.split('(').next()?.to_owned();
        // The log may pass midnight.
        let at = if since < 0.0 { since + 86_400.0 } else { since };
        Some(Decision { at, why, centre: centre? })
    };
    log.lines().filter_map(decision).collect()
}

/// The seconds of the day of `2026-01-31T12:34:56.789Z`.
fn seconds(timestamp: &str) -> Option<f64> {
    let time = timestamp.split('T').nth(1)?.trim_end_matches('Z');
    let mut parts = time.split(':').map(|part| part.parse::<f64>().ok());
    let [hours, minutes, seconds] = [parts.next()??, parts.next()??, parts.next()??];
    Some(hours * 3600.0 + minutes * 60.0 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_read_and_other_lines_passed_over() {
        let line = |time: &str, why: &str| {
            format!(
                "{{\"timestamp\":\"2026-01-31T{time}Z\",\"level\":\"DEBUG\",\"message\":\"limit\",\
                 \"why\":\"{why}\",\"centre\":12.5,\"limit\":13,\"rate\":99.0,\"target\":\"x\"}}"
            )
        };
        let log = format!(
            "nonsense\n{}\n{{\"timestamp\":\"2026-01-31T23:59:59.1Z\",\"message\":\"other\"}}\n{}\n",
            line("23:59:59.5", "Gathering"),
            line("00:00:01.0", "Up(0.4)")
        );
        let [first, second] = read(&log).try_into().expect("two");
        assert_eq!((first.at, first.why.as_str(), first.centre), (0.0, "Gathering", 12.5));
        assert_eq!((second.at, second.why.as_str()), (1.5, "Up"));
        assert!(read("{\"timestamp\":\"T\",\"message\":\"limit\"}").is_empty());
    }
}
