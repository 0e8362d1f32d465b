//! Do clients connect anew for a few statements each?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement};

use super::percent;

pub(super) const FINDING: Finding = Finding {
    name: "reconnects",
    title: "Connections made anew",
    why: "A login costs the server about 250 microseconds of CPU, as much as several short \
          statements, and each connection fills its buffers anew.",
    source: "lab connect",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let load = facts.busy()?;
    let (connected, asked) = (load.rate("Connections")?, load.rate("Questions")?);
    let share = connected / asked.max(1.0);
    let text = format!(
        "{connected:.1} logins/s for {asked:.0} statements/s: {}",
        percent(share)
    );
    Ok(match share > SHARE && connected > OFTEN {
        true => Judgement::warn(text)
            .remedy("keep connections in the application, or put a pool in front: `flifo run`"),
        false => Judgement::ok(text),
    })
}

const SHARE: f64 = 0.05;
/// The doctor and a monitor connect, too.
const OFTEN: f64 = 5.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, set_rate};
    use crate::judgement::Verdict;

    #[test]
    fn clients_without_persistent_connections_are_told() {
        let judgement = after(FINDING, |facts| set_rate(facts, "Connections", 900.0));
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert!(judgement.evidence.contains("900.0 logins/s"), "{}", judgement.evidence);
        let few = after(FINDING, |facts| set_rate(facts, "Connections", 4.0));
        assert_eq!(few.verdict, Verdict::Ok);
    }
}
