//! May the kernel take the CPU from a thread that spins with a lock held?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, need};

use super::bytes;

pub(super) const FINDING: Finding = Finding {
    name: "preemption",
    title: "Model of preemption",
    why: "Linux 7.0 dropped the models under which a thread in the kernel was left alone; \
          databases that spin on locks while pages of a large pool are faulted in lost half \
          their throughput.",
    source: "reports on PostgreSQL on Linux 7.0, April 2026; huge pages undid the loss",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let (major, minor) = *need(&facts.machine.version)?;
    if major < NEW {
        return Ok(Judgement::ok(format!("Linux {major}.{minor}: as ever")));
    }
    let pool = facts.server.number("innodb_buffer_pool_size")?;
    let huge = facts.server.is_on("large_pages")?;
    let model = need(&facts.machine.preemption)?;
    let text = format!(
        "Linux {major}.{minor}, {model}; buffer pool of {}, huge pages {}",
        bytes(pool),
        if huge { "on" } else { "off" }
    );
    Ok(match !huge && pool >= LARGE {
        true => Judgement::warn(text)
            .remedy("large_pages = ON in my.cnf and vm.nr_hugepages to match; measure both"),
        false => Judgement::ok(text),
    })
}

const NEW: u32 = 7;
const LARGE: u64 = 8 << 30;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, is_unknown, set_variable};
    use crate::judgement::Verdict;
    use sys::tree::Seen::{self, Known};

    fn modern(facts: &mut Facts) {
        facts.machine.version = Known((7, 1));
        facts.machine.preemption = Known("lazy".to_owned());
        set_variable(facts, "innodb_buffer_pool_size", "17179869184");
    }

    #[test]
    fn a_large_pool_of_small_pages_on_a_new_kernel_is_told() {
        assert_eq!(after(FINDING, modern).verdict, Verdict::Warn);
        let huge = after(FINDING, |facts| {
            modern(facts);
            set_variable(facts, "large_pages", "ON");
        });
        assert_eq!(huge.verdict, Verdict::Ok);
        assert!(is_unknown(FINDING, |facts| {
            modern(facts);
            facts.machine.preemption = Seen::default();
        }));
    }
}
