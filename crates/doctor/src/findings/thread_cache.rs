//! Does the server make a thread for each connection?

use crate::change::Change;
use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Proof};

pub(super) const FINDING: Finding = Finding {
    name: "thread-cache",
    title: "Threads made anew",
    why: "A server without a cache of threads makes one for each connection and throws it away.",
    source: "MySQL manual, thread_cache_size",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let server = &facts.server;
    if server.text("thread_handling")? != "one-thread-per-connection" {
        return Ok(Judgement::ok("the server has a pool of threads"));
    }
    let cached = server.number("thread_cache_size")?;
    let made = match facts.busy() {
        Ok(load) => load.rate("Threads_created")?,
        // A cache that is off needs no load to be told.
        Err(_) if cached == 0 => 0.0,
        Err(unknown) => return Err(unknown),
    };
    let text = format!("thread_cache_size is {cached}; {made:.1} threads/s were made");
    let change = Change::Variable { name: "thread_cache_size".to_owned(), value: CACHE.to_owned() };
    let better = |judgement: Judgement| {
        judgement.remedy(change.to_string()).cure(Proof::Gone, vec![change.clone()])
    };
    Ok(match (cached, made > MADE) {
        (0, true) => better(Judgement::bad(text)),
        (0, false) => better(Judgement::warn(text)),
        (cached, true) if cached < CACHED_MAX => better(Judgement::warn(text)),
        _ => Judgement::ok(text),
    })
}

const MADE: f64 = 1.0;
const CACHE: &str = "256";
const CACHED_MAX: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, set_rate, set_variable};
    use crate::judgement::Verdict;

    #[test]
    fn no_cache_under_reconnecting_clients_is_bad_and_can_be_cured() {
        let judgement = after(FINDING, |facts| {
            set_variable(facts, "thread_cache_size", "0");
            set_rate(facts, "Threads_created", 300.0);
        });
        assert_eq!(judgement.verdict, Verdict::Bad);
        assert_eq!(judgement.remedy.as_deref(), Some("SET GLOBAL thread_cache_size = 256"));
        assert!(judgement.cure.is_some());
        let rests = after(FINDING, |facts| set_variable(facts, "thread_cache_size", "0"));
        assert_eq!(rests.verdict, Verdict::Warn);
    }

    #[test]
    fn a_cache_that_is_too_small_is_told() {
        let small = after(FINDING, |facts| {
            set_variable(facts, "thread_cache_size", "8");
            set_rate(facts, "Threads_created", 30.0);
        });
        assert_eq!(small.verdict, Verdict::Warn);
    }
}
