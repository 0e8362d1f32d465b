//! Does the proxy take the backend that was used last?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Unknown};

use super::NO_PROXY;

pub(super) const FINDING: Finding = Finding {
    name: "reuse",
    title: "Order of reuse of connections",
    why: "The server's thread of the connection that was used last still has its data in the CPU's \
          caches; a pool that takes the oldest connection loses that, and ran 4 to 19 % fewer \
          statements.",
    source: "lab starvation, limit of 16: last in, first out against first in, first out",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let Some(proxy) = facts.proxy()? else { return Ok(Judgement::ok(NO_PROXY)) };
    match proxy.process.name() {
        "flifo" => Ok(Judgement::ok("flifo takes the one that was used last")),
        // In TCP mode each client has a backend of its own.
        "haproxy" | "nginx" | "envoy" | "traefik" => {
            Ok(Judgement::ok(format!("{} shares no backend connections", proxy.process.name())))
        }
        name => Err(Unknown(format!("how {name} chooses cannot be seen from outside"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{is_unknown, proxy};
    use sys::tree::Seen::Known;

    #[test]
    fn a_proxy_whose_order_is_not_known_is_not_called_well() {
        assert!(is_unknown(FINDING, |facts| {
            let Known(line) = &mut proxy(facts).line else { panic!("known") };
            line.name = "proxysql".to_owned();
        }));
    }
}
