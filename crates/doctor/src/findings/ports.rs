//! Are there ports left for new connections to the server?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Unknown, Verdict, need};

use super::percent;

pub(super) const FINDING: Finding = Finding {
    name: "ports",
    title: "Ports for connections",
    why: "A closed TCP connection holds its port for a minute; when all are held, connecting fails \
          with EADDRNOTAVAIL.",
    source: "ip(7), ip_local_port_range; tcp(7)",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let held = *need(&facts.machine.time_wait)?;
    let range = facts.setting("net.ipv4.ip_local_port_range")?;
    let mut bounds = range.split_ascii_whitespace().map(|word| word.parse::<u64>().unwrap_or(0));
    let (first, last) = (bounds.next().unwrap_or(0), bounds.next().unwrap_or(0));
    if last <= first {
        return Err(Unknown(format!("the range of ports is {range:?}")));
    }
    let all = last - first + 1;
    let share = held as f64 / all as f64;
    let text = format!("{held} of {all} are held by closed connections: {}", percent(share));
    let verdict = match share {
        share if share > BAD => Verdict::Bad,
        share if share > WARN => Verdict::Warn,
        _ => return Ok(Judgement::ok(text)),
    };
    let remedy = "keep connections, use the Unix socket, or put a pool in front: `flifo run`";
    Ok(Judgement { verdict, ..Judgement::ok(text).remedy(remedy) })
}

const BAD: f64 = 0.9;
const WARN: f64 = 0.6;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::after;
    use sys::tree::Seen::Known;

    #[test]
    fn ports_that_run_out_are_told() {
        let hold = |count| move |facts: &mut Facts| facts.machine.time_wait = Known(count);
        assert_eq!(after(FINDING, hold(27_000)).verdict, Verdict::Bad);
        assert_eq!(after(FINDING, hold(20_000)).verdict, Verdict::Warn);
        assert_eq!(after(FINDING, hold(5000)).verdict, Verdict::Ok);
    }
}
