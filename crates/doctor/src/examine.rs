//! One examination: what the machine and the server show, and what they do for a while.
//!
//! Changes nothing. Invariant: a server that does not answer keeps nothing else from being seen.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, Instant};

use backend::Address;
use sys::tree::{Seen, Tree};

use crate::ask::{self, AskedServer};
use crate::collect;
use crate::facts::{Facts, Load};
use crate::findings::NDB_CONFIG;
use crate::watch::Look;

/// What is examined, and for how long.
#[derive(Clone, Debug)]
pub struct Examination {
    pub tree: Tree,
    /// Where the server is; of none, only the machine is examined.
    pub address: Option<Address>,
    /// The process that is judged as the proxy, instead of one that is known by its name.
    pub proxy: Option<u32>,
    pub watch: Duration,
}

impl Examination {
    /// Reads everything. `server` is the one at the address, if it answers; `why_not` says why it
    /// does not.
    pub fn run(&self, mut server: Option<&mut AskedServer>, why_not: &str) -> Facts {
        let pid = match &self.address {
            Some(address) => ask::pid(address),
            None => Seen::Unknown("no server was found on this machine".to_owned()),
        };
        let mut facts = collect::facts(&self.tree, &pid, self.proxy);
        facts.server.address = self.address.as_ref().map_or(String::new(), ToString::to_string);
        facts.server.by_socket = matches!(self.address, Some(Address::Unix(_)));
        facts.server.variables = Seen::Unknown(why_not.to_owned());
        facts.server.status = Seen::Unknown(why_not.to_owned());
        facts.server.handshake_ms = Seen::Unknown(why_not.to_owned());
        facts.server.methods = Seen::Unknown(why_not.to_owned());
        if let Some(server) = server.as_deref_mut() {
            self.ask(server, &mut facts);
        }
        facts.load = match self.watch.is_zero() {
            true => Seen::Unknown("not watched: --watch 10s under load".to_owned()),
            false => Seen::Known(self.watch(&pid, &facts, server, why_not)),
        };
        // Clients that come and go are seldom there at just one moment.
        for _ in 0..LOOKS {
            collect::more_clients(&self.tree, &pid, self.proxy, &mut facts.clients);
        }
        facts
    }

    fn ask(&self, server: &mut AskedServer, facts: &mut Facts) {
        facts.server.variables = server.variables();
        facts.server.status = server.status();
        facts.server.methods = server.methods();
        let times = (0..HANDSHAKES).filter_map(|_| server.time_handshake());
        let longest = times.max();
        facts.server.handshake_ms = match longest {
            Some(time) => Seen::Known(time.as_secs_f64() * 1000.0),
            None => Seen::Unknown("a second login failed".to_owned()),
        };
        let Seen::Known(variables) = &mut facts.server.variables else { return };
        if variables.contains_key("ndb_cluster_connection_pool") {
            let config = server.ndb_config();
            let config = config.known().into_iter().flatten();
            variables.extend(config.map(|(name, it)| (format!("{NDB_CONFIG}{name}"), it.clone())));
        }
        let port = variables.get("port").and_then(|port| port.parse().ok());
        facts.machine.time_wait = match port {
            Some(port) => collect::time_wait(&self.tree, port),
            None => Seen::Unknown("the server has no port".to_owned()),
        };
    }

    fn watch(
        &self,
        pid: &Seen<u32>,
        facts: &Facts,
        mut server: Option<&mut AskedServer>,
        why_not: &str,
    ) -> Load {
        let clients = facts.clients.known().map_or(&[][..], Vec::as_slice);
        let clients: Vec<u32> = clients.iter().map(|client| client.process.pid).collect();
        let status = |server: &mut Option<&mut AskedServer>| -> Seen<BTreeMap<String, String>> {
            match server {
                Some(server) => server.status(),
                None => Seen::Unknown(why_not.to_owned()),
            }
        };
        let before = Look::take(&self.tree, pid, &clients, &status(&mut server));
        let until = Instant::now() + self.watch;
        let mut running: Seen<u64> = Seen::Unknown(why_not.to_owned());
        while Instant::now() < until {
            let rest = until.saturating_duration_since(Instant::now());
            thread::sleep(rest.min(BETWEEN));
            if let Some(server) = &mut server {
                let now = server.running();
                let most = running.known().copied().unwrap_or(0);
                running = now.map(|now| now.max(most));
            }
        }
        let after = Look::take(&self.tree, pid, &clients, &status(&mut server));
        after.since(&before, running)
    }
}

const HANDSHAKES: usize = 3;
/// For clients, behind the watch.
const LOOKS: usize = 3;
/// Between two looks at how many statements run.
const BETWEEN: Duration = Duration::from_millis(400);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::diagnose;
    use crate::judgement::Verdict;

    #[test]
    fn a_machine_without_a_server_is_examined_all_the_same() {
        let watch = Duration::from_millis(20);
        let none = Examination { tree: Tree::live(), address: None, proxy: None, watch };
        let facts = none.run(None, "no server");
        assert!(facts.machine.cpus.known().is_some());
        let load = facts.load.known().expect("was watched");
        assert!(load.times.known().is_some() && load.server.known().is_none());
        let about_server = ["thread-cache", "big-buffers", "starvation", "pinned", "descriptors"];
        for it in diagnose(&facts).iter().filter(|it| about_server.contains(&it.finding.name)) {
            assert_eq!(it.judgement.verdict, Verdict::Unknown, "{}", it.finding.name);
        }
    }

    #[test]
    fn facts_survive_being_written_down() {
        let watch = Duration::ZERO;
        let none = Examination { tree: Tree::live(), address: None, proxy: None, watch };
        let facts = none.run(None, "no server");
        let text = serde_json::to_string(&facts).expect("is written");
        assert_eq!(serde_json::from_str::<Facts>(&text).expect("is read"), facts);
        assert!(facts.load.reason().contains("--watch"));
    }
}
