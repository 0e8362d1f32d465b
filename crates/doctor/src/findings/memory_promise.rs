//! Has the server promised more memory than there is?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement};

use super::bytes;

pub(super) const FINDING: Finding = Finding {
    name: "memory-promise",
    title: "Memory that may be asked for",
    why: "If every connection took the buffers that it may take, the kernel would have to kill the \
          server.",
    source: "MySQL manual, \"How MySQL Uses Memory\"",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let server = &facts.server;
    let mut global = server.number_if_any("aria_pagecache_buffer_size");
    for name in GLOBAL {
        global = global.saturating_add(server.number(name)?);
    }
    let mut session = 0_u64;
    for name in SESSION {
        session = session.saturating_add(server.number(name)?);
    }
    let count = server.number("max_connections")?;
    let memory = facts.memory()?;
    let sum = global.saturating_add(count.saturating_mul(session));
    let text = format!(
        "{} and {count} times {}, of {}",
        bytes(global),
        bytes(session),
        bytes(memory)
    );
    let limit = memory / 10 * 9;
    Ok(match sum > limit {
        _ if global > limit => Judgement::bad(text)
            .remedy("a smaller innodb_buffer_pool_size, or a higher limit of memory"),
        true => Judgement::warn(text)
            .remedy("a lower max_connections behind a pool, `flifo run`, or smaller buffers"),
        false => Judgement::ok(text),
    })
}

const GLOBAL: &[&str] = &["innodb_buffer_pool_size", "key_buffer_size", "innodb_log_buffer_size"];
const SESSION: &[&str] = &[
    "thread_stack",
    "net_buffer_length",
    "sort_buffer_size",
    "join_buffer_size",
    "read_buffer_size",
    "read_rnd_buffer_size",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, is_unknown, server, set_variable};
    use crate::judgement::Verdict;
    use sys::tree::Seen::{self, Known};

    #[test]
    fn promises_beyond_the_memory_are_told() {
        let many = after(FINDING, |facts| set_variable(facts, "max_connections", "10000"));
        assert_eq!(many.verdict, Verdict::Warn);
        let pool = |facts: &mut Facts| {
            set_variable(facts, "innodb_buffer_pool_size", "17179869184");
        };
        assert_eq!(after(FINDING, pool).verdict, Verdict::Bad);
    }

    #[test]
    fn a_groups_limit_counts_and_one_that_is_unseen_is_unknown() {
        let limit = |seen: Seen<Option<u64>>| {
            move |facts: &mut Facts| {
                let Known(group) = &mut server(facts).cgroup else { panic!("known") };
                group.memory = seen;
            }
        };
        assert_eq!(after(FINDING, limit(Known(Some(256 << 20)))).verdict, Verdict::Bad);
        assert!(is_unknown(FINDING, limit(Seen::default())));
    }
}
