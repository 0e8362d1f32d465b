//! Do threads wait for memory?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Verdict, need};

pub(super) const FINDING: Finding = Finding {
    name: "memory-pressure",
    title: "Pressure on memory",
    why: "While the kernel looks for pages to free, a thread that asks for memory stands still.",
    source: "Linux kernel, Documentation/accounting/psi.rst",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let pressure = need(&facts.machine.memory_pressure)?;
    let text = format!(
        "some thread waited {:.1} % of the last ten seconds, all threads at once {:.1} %",
        pressure.some, pressure.full
    );
    let verdict = match (pressure.some, pressure.full) {
        (_, full) if full > FULL => Verdict::Bad,
        (some, _) if some > SOME => Verdict::Warn,
        _ => return Ok(Judgement::ok(text)),
    };
    let remedy = "a smaller innodb_buffer_pool_size, fewer connections, or more memory";
    Ok(Judgement { verdict, ..Judgement::ok(text).remedy(remedy) })
}

const SOME: f64 = 10.0;
const FULL: f64 = 10.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::after;
    use sys::kernel::Pressure;
    use sys::tree::Seen::Known;

    #[test]
    fn pressure_is_told_by_how_much_it_is() {
        let press = |some, full| {
            move |facts: &mut Facts| facts.machine.memory_pressure = Known(Pressure { some, full })
        };
        assert_eq!(after(FINDING, press(60.0, 40.0)).verdict, Verdict::Bad);
        assert_eq!(after(FINDING, press(30.0, 1.0)).verdict, Verdict::Warn);
    }
}
