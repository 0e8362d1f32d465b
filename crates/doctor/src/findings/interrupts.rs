//! Do the network's interrupts land on the core that the proxy was given?

use sys::cpus::Cpus;

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, need};

use super::NO_PROXY;

pub(super) const FINDING: Finding = Finding {
    name: "interrupts",
    title: "Interrupts on the proxy's core",
    why: "A network card that interrupts the core of a pinned proxy takes from it just what \
          pinning was to give.",
    source: "Linux kernel, Documentation/core-api/irq/irq-affinity.rst",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let Some(proxy) = facts.proxy()? else { return Ok(Judgement::ok(NO_PROXY)) };
    let all = need(&facts.machine.interrupts)?;
    let threads = need(&proxy.process.threads)?;
    let ours: Cpus = threads.iter().flat_map(|thread| thread.cpus.iter()).collect();
    let online = facts.cpus()?.len();
    if ours.len() * 2 > online {
        return Ok(Judgement::ok(format!("the proxy may run on {} of {online} CPUs", ours.len())));
    }
    let network = all.iter().filter(|it| NETWORK.iter().any(|name| it.name.starts_with(name)));
    let mut hit: Vec<(u32, u64)> = Vec::new();
    for interrupt in network {
        let counts = interrupt.counts.iter();
        let sum = |all: u64, (_, count): &(u32, u64)| all.saturating_add(*count);
        let here = counts.clone().filter(|(cpu, _)| ours.has(*cpu)).fold(0, sum);
        let all = counts.fold(0, sum);
        if all > MANY && here > all / 2 {
            hit.push((interrupt.number, here));
        }
    }
    let Some((number, count)) = hit.first() else {
        return Ok(Judgement::ok(format!("no network card interrupts CPUs {ours}")));
    };
    let online: Cpus = facts.cpus()?.iter().map(|cpu| cpu.number).collect();
    let rest = online.without(&ours);
    let text = format!("{} interrupts, {count} times number {number}, hit CPUs {ours}", hit.len());
    let remedy = format!("echo {rest} >/proc/irq/{number}/smp_affinity_list   # and so on");
    Ok(Judgement::warn(text).remedy(remedy))
}

/// How network cards name their interrupts.
const NETWORK: &[&str] =
    &["eth", "en", "mlx", "i40e", "ice-", "ixgbe", "bnxt", "virtio0-input", "virtio1-input"];
const MANY: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, pin, proxy};
    use crate::judgement::Verdict;
    use sys::network::Interrupt;
    use sys::tree::Seen::Known;

    #[test]
    fn a_card_that_interrupts_the_pinned_proxy_is_told() {
        let busy = |facts: &mut Facts| {
            let counts = vec![(0, 90_000), (1, 5)];
            facts.machine.interrupts =
                Known(vec![Interrupt { number: 30, name: "eth0-rx-0".into(), counts }]);
            pin(proxy(facts), "0");
        };
        let judgement = after(FINDING, busy);
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert!(judgement.remedy.is_some_and(|it| it.starts_with("echo 1-7 >/proc/irq/30/")));
        let elsewhere = after(FINDING, |facts| {
            busy(facts);
            pin(proxy(facts), "1");
        });
        assert_eq!(elsewhere.verdict, Verdict::Ok);
    }
}
