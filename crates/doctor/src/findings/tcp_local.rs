//! Do clients of this machine reach the server by TCP?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement};

pub(super) const FINDING: Finding = Finding {
    name: "tcp-local",
    title: "TCP on the same machine",
    why: "A message over TCP costs both ends more CPU time than one over a Unix socket, even where \
          it never leaves the machine.",
    source: "lab connect; flifo bench with both addresses",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let clients = facts.clients()?;
    let socket = facts.server.text("socket")?;
    let by_tcp: Vec<String> = clients
        .iter()
        .filter(|client| client.tcp > 0)
        .map(|it| format!("{} ({}): {} connections", it.process.name(), it.process.pid, it.tcp))
        .collect();
    Ok(match by_tcp.is_empty() {
        true => Judgement::ok("no client of this machine uses TCP"),
        false => Judgement::warn(by_tcp.join(", "))
            .remedy(format!("give them the server's socket, {socket}, for its address")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::after;
    use crate::judgement::Verdict;
    use sys::tree::Seen::Known;

    #[test]
    fn local_clients_by_tcp_are_told_with_the_socket() {
        let judgement = after(FINDING, |facts| {
            let Known(clients) = &mut facts.clients else { panic!("known") };
            clients[0].tcp = 16;
        });
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert!(judgement.evidence.contains("flifo (200): 16 connections"));
        assert!(judgement.remedy.is_some_and(|it| it.contains("/run/mysqld/mysqld.sock")));
    }
}
