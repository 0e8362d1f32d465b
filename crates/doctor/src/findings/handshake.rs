//! How long does a login take?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Verdict, need};

pub(super) const FINDING: Finding = Finding {
    name: "handshake",
    title: "Time of a login",
    why: "Unless skip_name_resolve is set, a login waits for a DNS look-up of the client's name, \
          and a client that waits for its login occupies a connection.",
    source: "MySQL manual, \"DNS Lookups and the Host Cache\"",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let took = *need(&facts.server.handshake_ms)?;
    let names = !facts.server.is_on("skip_name_resolve")?;
    let looked = names && !facts.server.by_socket;
    let text = format!("{took:.1} ms{}", if looked { ", names are looked up" } else { "" });
    let verdict = match took {
        took if took > BAD_MS => Verdict::Bad,
        took if took > WARN_MS => Verdict::Warn,
        _ => return Ok(Judgement::ok(text)),
    };
    let remedy = match looked {
        true => "skip_name_resolve = ON in my.cnf, and grants by address; restart",
        false => "see starvation and throttled: the server answers late",
    };
    Ok(Judgement { verdict, ..Judgement::ok(text).remedy(remedy) })
}

const WARN_MS: f64 = 50.0;
const BAD_MS: f64 = 1000.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::after;
    use sys::tree::Seen::Known;

    #[test]
    fn slow_logins_are_told_with_their_likely_cause() {
        let slow = |ms| move |facts: &mut Facts| facts.server.handshake_ms = Known(ms);
        assert_eq!(after(FINDING, slow(60.0)).verdict, Verdict::Warn);
        let judgement = after(FINDING, |facts| {
            slow(5005.0)(facts);
            facts.server.by_socket = false;
        });
        assert_eq!(judgement.verdict, Verdict::Bad);
        assert!(judgement.remedy.is_some_and(|it| it.contains("skip_name_resolve")));
    }
}
