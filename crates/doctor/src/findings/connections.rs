//! Does the server run out of connections?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement};

pub(super) const FINDING: Finding = Finding {
    name: "connections",
    title: "Room for connections",
    why: "Beyond max_connections the server refuses clients with error 1040.",
    source: "MySQL manual, max_connections",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let allowed = facts.server.number("max_connections")?;
    let most = facts.server.counter("Max_used_connections")?;
    let refused = match facts.load() {
        Ok(load) => load.rate("Connection_errors_max_connections")?,
        Err(_) => 0.0,
    };
    let text = format!("{most} of {allowed} were in use at most; {refused:.1}/s refused");
    let remedy = "a pool in front, `flifo run`, or SET GLOBAL max_connections";
    Ok(match most as f64 > FULL * allowed as f64 {
        _ if refused > 0.0 => Judgement::bad(text).remedy(remedy),
        true => Judgement::warn(text).remedy(remedy),
        false => Judgement::ok(text),
    })
}

const FULL: f64 = 0.9;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, set_rate, set_variable};
    use crate::judgement::Verdict;

    #[test]
    fn a_server_that_fills_up_or_refuses_is_told() {
        let full = after(FINDING, |facts| set_variable(facts, "max_connections", "21"));
        assert_eq!(full.verdict, Verdict::Warn);
        let refuses = |facts: &mut Facts| {
            set_rate(facts, "Connection_errors_max_connections", 3.0);
        };
        assert_eq!(after(FINDING, refuses).verdict, Verdict::Bad);
    }
}
