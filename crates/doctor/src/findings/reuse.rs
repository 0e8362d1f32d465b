//! Does the proxy take the backend that was used last?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Unknown};

use super::NO_PROXY;

pub(super) const FINDING: Finding = Finding {
    name: "reuse",
    title: "Order of reuse of connections",
    why: "The backend connection that was used last has a warm thread behind it; a pool that takes the oldest \
          one keeps all of them cold and did 4 to 19 % less.",
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
