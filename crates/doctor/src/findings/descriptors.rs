//! Can the server and the proxy open as many files as their connections need?

use crate::change::Change;
use crate::facts::{Facts, Process};
use crate::judgement::{Finding, Judged, Judgement, Proof, Unknown, Verdict, need};

pub(super) const FINDING: Finding = Finding {
    name: "descriptors",
    title: "Limit of open files",
    why: "Each connection is an open file, two in a proxy; at the limit new ones are not accepted, \
          and the server opens its tables again and again.",
    source: "getrlimit(2), RLIMIT_NOFILE; MySQL manual, open_files_limit",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let connections = facts.server.number("max_connections")?;
    let server = one(facts.process()?, connections.saturating_add(RESERVE))?;
    let Some(proxy) = facts.proxy()? else { return Ok(server) };
    // A proxy needs two for each client, and clients come by thousands.
    let proxy = one(&proxy.process, PROXY)?;
    Ok(if server.verdict < proxy.verdict { proxy } else { server })
}

fn one(process: &Process, needed: u64) -> Result<Judgement, Unknown> {
    let limit = need(&process.open_files_limit)?;
    let Some(soft) = limit.soft else {
        return Ok(Judgement::ok(format!("{}: no limit", process.name())));
    };
    let open = *need(&process.open_files)? as u64;
    let text = format!("{}: {open} open, soft limit {soft}", process.name());
    let verdict = match open as f64 > FULL * soft as f64 {
        true => Verdict::Bad,
        false if soft < needed => Verdict::Warn,
        false => return Ok(Judgement::ok(text)),
    };
    let found = Judgement { verdict, ..Judgement::ok(text) };
    let can_rise = limit.hard.is_none_or(|hard| hard > soft);
    Ok(match can_rise {
        true => {
            let change = Change::OpenFiles { pid: process.pid };
            found.remedy(change.to_string()).cure(Proof::Gone, vec![change])
        }
        false => found.remedy("LimitNOFILE=65536 in its unit (systemctl edit), restart"),
    })
}

const FULL: f64 = 0.8;
/// Tables, logs and the listener.
const RESERVE: u64 = 64;
const PROXY: u64 = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{PROXY as PROXY_PID, after, is_unknown, proxy, server};
    use sys::details::Limit;
    use sys::tree::Seen::{Denied, Known};

    fn limit(soft: u64, hard: u64) -> sys::tree::Seen<Limit> {
        Known(Limit { soft: Some(soft), hard: Some(hard) })
    }

    #[test]
    fn a_soft_limit_of_1024_is_told_and_raised() {
        let judgement =
            after(FINDING, |facts| proxy(facts).open_files_limit = limit(1024, 65_536));
        assert_eq!(judgement.verdict, Verdict::Warn);
        let changes = judgement.cure.expect("can be cured").changes;
        assert_eq!(changes, [Change::OpenFiles { pid: PROXY_PID }]);
    }

    #[test]
    fn at_the_limit_it_is_bad_and_a_low_hard_one_is_for_the_unit() {
        let judgement = after(FINDING, |facts| {
            server(facts).open_files_limit = limit(100, 100);
        });
        assert_eq!(judgement.verdict, Verdict::Bad);
        assert!(judgement.cure.is_none());
        let refuse = |facts: &mut Facts| server(facts).open_files = Denied("fd".to_owned());
        assert!(is_unknown(FINDING, refuse));
    }
}
