//! Are connections lost before the server accepts them?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, need};

pub(super) const FINDING: Finding = Finding {
    name: "listen-queue",
    title: "Queue of new connections",
    why: "When many connect at once and the queue is full, the kernel drops the rest: those \
          clients try again after 1, 3 and 7 seconds.",
    source: "listen(2); tcp(7); MySQL manual, back_log",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let queue = facts.server.number("back_log")?;
    let most: u64 = facts
        .setting("net.core.somaxconn")?
        .parse()
        .map_err(|_| crate::judgement::Unknown("net.core.somaxconn is no number".to_owned()))?;
    let ever = need(&facts.machine.listen_overflows)?;
    let load = facts.load()?;
    let now = need(&load.listen_overflows)?;
    // The kernel counts for the whole machine: if hardly any client connects to this server, it was another queue.
    let is_ours = load.rate("Connections")? > CONNECTS;
    let text = format!(
        "back_log {queue}, at most {most} by the kernel; {now} dropped while watched, {ever} since \
         boot"
    );
    let remedy = if queue < WISHED {
        format!("back_log = {WISHED} in my.cnf, restart; sysctl -w net.core.somaxconn=4096")
    } else {
        "sysctl -w net.core.somaxconn=4096, and a pool in front: `flifo run`".to_owned()
    };
    Ok(match (*now, queue) {
        (1.., _) if is_ours => Judgement::bad(text).remedy(remedy),
        (1.., _) => Judgement::warn(format!("{text}; few clients connect to this server"))
            .remedy("ss --listening --tcp   # which queue is full?"),
        (0, 0..TINY) => Judgement::warn(text).remedy(remedy),
        (0, queue) if most < queue => Judgement::warn(text)
            .remedy(format!("sysctl -w net.core.somaxconn={queue}   # and restart the server")),
        _ => Judgement::ok(text),
    })
}

const WISHED: u64 = 1024;
/// In a second.
const CONNECTS: f64 = 2.0;
/// What no server has by itself.
const TINY: u64 = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, load, set_rate, set_variable};
    use crate::judgement::Verdict;
    use sys::tree::Seen::Known;

    #[test]
    fn connections_that_are_dropped_are_told() {
        let judgement = after(FINDING, |facts| {
            load(facts).listen_overflows = Known(17);
            set_rate(facts, "Connections", 50.0);
        });
        assert_eq!(judgement.verdict, Verdict::Bad);
        // It need not be this server's queue.
        let other = after(FINDING, |facts| load(facts).listen_overflows = Known(17));
        assert_eq!(other.verdict, Verdict::Warn);
        assert!(judgement.remedy.is_some_and(|it| it.contains("back_log = 1024")));
    }

    #[test]
    fn a_tiny_queue_and_one_that_the_kernel_cuts_are_told() {
        let tiny = after(FINDING, |facts| set_variable(facts, "back_log", "5"));
        assert_eq!(tiny.verdict, Verdict::Warn);
        let cut = after(FINDING, |facts| set_variable(facts, "back_log", "9000"));
        assert!(cut.remedy.is_some_and(|it| it.contains("somaxconn=9000")));
    }
}
