//! May programs use the kernel's newer way of reading and writing?

use sys::tree::Seen;

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, need};

pub(super) const FINDING: Finding = Finding {
    name: "io-uring",
    title: "io_uring",
    why: "MariaDB reads and writes its files with it where it may; where it is refused, it falls \
          back to an older way or, in some builds, to threads of its own.",
    source: "Linux kernel, kernel.io_uring_disabled; Docker's default seccomp profile refuses it",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let by_server = facts.server.is_on("innodb_use_native_aio")?;
    let aio = if by_server { "the server uses native I/O" } else { "the server does not want it" };
    Ok(match &facts.rights.io_uring {
        Seen::Known(_) => Judgement::ok(format!("permitted; {aio}")),
        Seen::Denied(_) => Judgement::warn(format!("refused to this user; {aio}"))
            .remedy("sysctl kernel.io_uring_disabled   # 0 permits it, unless seccomp does not"),
        other => need(other).map(|_| Judgement::ok(""))?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::after;
    use crate::judgement::Verdict;

    #[test]
    fn a_refusal_is_told() {
        let refuse = |facts: &mut Facts| {
            facts.rights.io_uring = Seen::Denied("io_uring_setup".to_owned());
        };
        assert_eq!(after(FINDING, refuse).verdict, Verdict::Warn);
    }
}
