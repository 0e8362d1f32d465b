//! Do statements queue twice?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement};

use super::NO_PROXY;

pub(super) const FINDING: Finding = Finding {
    name: "double-queue",
    title: "Queues inside the server",
    why: "A server that queues behind a proxy that queues decides the order once more, and holds \
          transactions while it does.",
    source: "MySQL manual, innodb_thread_concurrency",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let limit = facts.server.number_if_any("innodb_thread_concurrency");
    let handling = facts.server.text("thread_handling")?;
    let Some(proxy) = facts.proxy()? else { return Ok(Judgement::ok(NO_PROXY)) };
    let name = proxy.process.name();
    if limit > 0 {
        let text = format!("innodb_thread_concurrency is {limit}, behind {name}");
        let remedy = "SET GLOBAL innodb_thread_concurrency = 0";
        return Ok(Judgement::warn(text).remedy(remedy));
    }
    if handling == "pool-of-threads" {
        let size = facts.server.number("thread_pool_size")?;
        let cpus = facts.process()?.main()?.cpus.len() as u64;
        let text = format!("a pool of {size} groups of threads on {cpus} CPUs, behind {name}");
        return Ok(match size < cpus {
            true => Judgement::warn(text).remedy(format!("SET GLOBAL thread_pool_size = {cpus}")),
            false => Judgement::ok(text),
        });
    }
    Ok(Judgement::ok("none"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, set_variable};
    use crate::judgement::Verdict;

    #[test]
    fn a_second_queue_is_told() {
        let both = after(FINDING, |facts| set_variable(facts, "innodb_thread_concurrency", "8"));
        assert_eq!(both.verdict, Verdict::Warn);
        let small = after(FINDING, |facts| {
            set_variable(facts, "thread_handling", "pool-of-threads");
            set_variable(facts, "thread_pool_size", "2");
        });
        assert_eq!(small.remedy.as_deref(), Some("SET GLOBAL thread_pool_size = 8"));
    }
}
