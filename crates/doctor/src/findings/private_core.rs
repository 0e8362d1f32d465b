//! Does a proxy with CPUs of its own fill them?

use sys::cpus::Cpus;

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Unknown, need};

use super::{NO_PROXY, percent};

pub(super) const FINDING: Finding = Finding {
    name: "private-core",
    title: "Private core of the proxy",
    why: "A core that only the proxy may use is lost to the server while the proxy rests: on two \
          CPUs with a light proxy throughput fell to 0.54.",
    source: "lab starvation, private core",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let Some(proxy) = facts.proxy()? else { return Ok(Judgement::ok(NO_PROXY)) };
    let cpus = |threads: &[sys::threads::Thread]| -> Cpus {
        threads.iter().flat_map(|thread| thread.cpus.iter()).collect()
    };
    let ours = cpus(need(&proxy.process.threads)?);
    let theirs = cpus(need(&facts.process()?.threads)?);
    if ours.meets(&theirs) {
        return Ok(Judgement::ok("the proxy has no CPUs of its own"));
    }
    let load = facts.busy()?;
    let effort = load.clients.get(&proxy.process.pid);
    let effort = effort.ok_or_else(|| Unknown("the proxy was not watched".to_owned()))?;
    let used: f64 = effort.threads.iter().map(|it| it.ran).sum::<f64>() / ours.len().max(1) as f64;
    let text = format!("CPUs {ours} are the proxy's alone, and {} in use", percent(used));
    Ok(match used < USED {
        true => Judgement::warn(text).remedy(format!(
            "taskset --all-tasks --cpu-list --pid {ours},{theirs} {}",
            facts.process()?.pid
        )),
        false => Judgement::ok(text),
    })
}

const USED: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, pin, proxy, server, worker};
    use crate::judgement::Verdict;

    #[test]
    fn a_private_core_that_rests_is_told() {
        let apart = |ran: f64| {
            move |facts: &mut Facts| {
                pin(server(facts), "1-7");
                pin(proxy(facts), "0");
                worker(facts).ran = ran;
            }
        };
        assert_eq!(after(FINDING, apart(0.3)).verdict, Verdict::Warn);
        assert_eq!(after(FINDING, apart(0.9)).verdict, Verdict::Ok);
    }
}
