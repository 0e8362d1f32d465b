//! Do the proxy's threads share their work?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Unknown};

use super::{NO_PROXY, percent};

pub(super) const FINDING: Finding = Finding {
    name: "balance",
    title: "Balance of the proxy's threads",
    why: "Few long-lived connections that a hash spreads over the threads leave some of them with \
          half as much again as the mean, and the fullest one decides the latency.",
    source: "SO_REUSEPORT over 8 threads, simulated: 1.77 times the mean at 32 connections",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let load = facts.busy()?;
    let Some(proxy) = facts.proxy()? else { return Ok(Judgement::ok(NO_PROXY)) };
    let effort = load.clients.get(&proxy.process.pid);
    let effort = effort.ok_or_else(|| Unknown("the proxy was not watched".to_owned()))?;
    let shares: Vec<f64> =
        effort.threads.iter().map(|it| it.ran).filter(|ran| *ran > WORKS).collect();
    if shares.len() < 2 {
        return Ok(Judgement::ok(format!("{} thread works", shares.len())));
    }
    let mean = shares.iter().sum::<f64>() / shares.len() as f64;
    let most = shares.iter().copied().fold(0.0, f64::max);
    let text = format!(
        "{} threads ran {} on average, the fullest {}",
        shares.len(),
        percent(mean),
        percent(most)
    );
    // While the fullest thread has CPU time left, no client waits for it.
    Ok(match most > UNEVEN * mean && most > FULL {
        true => Judgement::warn(text).remedy(
            "hand each new connection to the less loaded of two threads, or take fewer threads",
        ),
        false => Judgement::ok(text),
    })
}

const WORKS: f64 = 0.05;
const UNEVEN: f64 = 1.5;
const FULL: f64 = 0.7;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{PROXY, after, load};
    use crate::facts::ThreadEffort;
    use crate::judgement::Verdict;

    #[test]
    fn a_thread_with_far_more_than_the_mean_is_told() {
        let with = |shares: &'static [f64]| {
            move |facts: &mut Facts| {
                let effort = load(facts).clients.get_mut(&PROXY).expect("watched");
                let thread = |ran: &f64| ThreadEffort { ran: *ran, ..ThreadEffort::default() };
                effort.threads = shares.iter().map(thread).collect();
            }
        };
        assert_eq!(after(FINDING, with(&[0.9, 0.2, 0.2])).verdict, Verdict::Warn);
        assert_eq!(after(FINDING, with(&[0.9, 0.8, 0.9])).verdict, Verdict::Ok);
        // Helpers that sleep are no workers.
        assert_eq!(after(FINDING, with(&[0.9, 0.01, 0.0])).verdict, Verdict::Ok);
    }
}
