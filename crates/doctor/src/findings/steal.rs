//! Does the hypervisor give our CPUs to another machine?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Unknown, Verdict, need};

pub(super) const FINDING: Finding = Finding {
    name: "steal",
    title: "Stolen CPU time",
    why: "While a host runs other machines, ours stands still, and no setting of ours helps.",
    source: "proc(5), /proc/stat",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let times = need(&facts.load()?.times)?;
    let all = times.all();
    if all == 0 {
        return Err(Unknown("nothing was watched".to_owned()));
    }
    let share = times.steal as f64 / all as f64;
    let text = format!("{:.1} % of the CPU time", share * 100.0);
    let verdict = match share {
        it if it > BAD => Verdict::Bad,
        it if it > WARN => Verdict::Warn,
        _ => return Ok(Judgement::ok(text)),
    };
    let remedy = "move to a quieter host, or to one whose CPUs are not shared";
    Ok(Judgement { verdict, ..Judgement::ok(text).remedy(remedy) })
}

const BAD: f64 = 0.05;
const WARN: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, load};
    use sys::kernel::Times;
    use sys::tree::Seen::Known;

    #[test]
    fn stolen_time_is_told_by_how_much_it_is() {
        let steal = |steal| {
            move |facts: &mut Facts| {
                load(facts).times = Known(Times { busy: 500, idle: 500 - steal, steal, cpus: 8 });
            }
        };
        assert_eq!(after(FINDING, steal(80)).verdict, Verdict::Bad);
        assert_eq!(after(FINDING, steal(30)).verdict, Verdict::Warn);
        assert_eq!(after(FINDING, steal(5)).verdict, Verdict::Ok);
    }
}
