//! The line that says that Flifo is ready: what it is, where it is reached, and which server is for what. One line more
//! says why it is not, if that lasts.

use std::time::Duration;

use engine::checks::health::NOT_CHECKED;

use crate::cluster::Cluster;
use crate::config::{Listen, Plan};
use crate::state::shared::Shared;

/// Servers that have not been looked at are waited for so long, if others serve already.
const ALL_SEEN: Duration = Duration::from_secs(2);

/// What starts beside Flifo takes a moment.
const LONG: Duration = Duration::from_secs(10);

const AGAIN: Duration = Duration::from_millis(50);

/// What is said next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Nothing,
    Ready,
    /// It takes long.
    NotYet,
}

/// Waits until Flifo is ready, and says so.
pub(super) async fn tell(shared: &Shared) {
    let begun = crate::worker::clock::read();
    let (mut is_ready_since, mut is_told) = (None, false);
    loop {
        let cluster = &shared.cluster;
        if is_ready(cluster) {
            is_ready_since = is_ready_since.or_else(|| Some(crate::worker::clock::read()));
        }
        let ready_for = is_ready_since.map(crate::worker::clock::since);
        match next(ready_for, is_seen(cluster), crate::worker::clock::since(begun), is_told) {
            Next::Nothing => {}
            Next::Ready => return say(&shared.plan(), cluster),
            Next::NotYet => {
                is_told = true;
                tracing::warn!(
                    servers = states(cluster),
                    "Flifo is not ready yet: no server can be used; clients wait or are refused until one can be"
                );
            }
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// `ready_for`: since when a server can be used, if one can. `is_seen`: all have been looked at.
fn next(ready_for: Option<Duration>, is_seen: bool, running_for: Duration, is_told: bool) -> Next {
    match ready_for {
        Some(time) if is_seen || time >= ALL_SEEN => Next::Ready,
        None if running_for >= LONG && !is_told => Next::NotYet,
        _ => Next::Nothing,
    }
}

fn is_ready(cluster: &Cluster) -> bool {
    match cluster.is_routed() {
        true => cluster.clusters().any(|members| members.writer().is_some()),
        // One that is not asked is met with the first client.
        false => cluster.is_ready() || !cluster.asks(),
    }
}

/// How each server is; where several are routed, also why none is the writer.
fn states(cluster: &Cluster) -> String {
    match cluster.is_routed() {
        true => {
            let each = cluster.clusters().map(|members| members.why_not());
            each.collect::<Vec<_>>().join("; ")
        }
        false => cluster.states(),
    }
}

fn is_seen(cluster: &Cluster) -> bool {
    let is_checked = |id| cluster.of(id).watched(id).reason != NOT_CHECKED;
    !cluster.is_routed() || cluster.servers.iter().all(|server| is_checked(server.id))
}

fn say(plan: &Plan, cluster: &Cluster) {
    let names =
        |listen: &[Listen]| listen.iter().map(Listen::to_string).collect::<Vec<_>>().join(" ");
    let servers = cluster.servers.iter().map(|server| match cluster.routes_at(server.id) {
        Some(members) => {
            let role = members.watched(server.id).role;
            let of = cluster.are_several().then(|| format!(" of {}", server.cluster));
            format!("{}{} {}: {role}", server.name, of.unwrap_or_default(), server.address)
        }
        None => format!("{} {}", server.name, server.address),
    });
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        clients = names(&plan.listen),
        console = names(&plan.console.listen),
        http = names(&plan.http.listen),
        servers = servers.collect::<Vec<_>>().join(", "),
        "Flifo is ready"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_said_once_that_it_takes_long_and_once_that_it_is_over() {
        let s = Duration::from_secs;
        for (ready_for, is_seen, running_for, is_told, want) in [
            (None, false, s(0), false, Next::Nothing),
            (None, true, s(9), false, Next::Nothing),
            (None, false, s(10), false, Next::NotYet),
            (None, false, s(3600), true, Next::Nothing),
            (Some(s(0)), true, s(0), false, Next::Ready),
            (Some(s(0)), true, s(60), true, Next::Ready),
            (Some(s(1)), false, s(1), false, Next::Nothing),
            (Some(s(2)), false, s(2), false, Next::Ready),
            (Some(s(1)), false, s(60), false, Next::Nothing),
        ] {
            assert_eq!(next(ready_for, is_seen, running_for, is_told), want);
        }
    }
}
