//! Rules that send all statements of a port to one hostgroup: they become `[[routes]]`.

use crate::draft::Route;
use crate::tables::Row;
use crate::value::Value;
use crate::work::Work;

use super::homes::Homes;
use super::rules::{BEYOND, rule_item};
use super::topology::{Duty, Topology};

/// The addresses of Flifo's that a rule asks for; `None` if it asks for none, an empty list if there is no such.
pub(super) fn listeners(row: &Row, work: &Work) -> Option<Vec<String>> {
    let port = row.text("proxy_port");
    let address = row.text("proxy_addr");
    if port.is_none() && address.is_none() {
        return None;
    }
    let fits = |listener: &&String| {
        let (host, own) = listener.rsplit_once(':').unwrap_or((listener, ""));
        address.is_none_or(|it| it == host) && port.is_none_or(|it| it == own)
    };
    Some(work.draft.listeners().iter().filter(fits).cloned().collect())
}

/// Makes routes of the last of these rules, as many as ask for nothing but a port. Returns how many are left.
pub(super) fn convert(rows: &[&Row], topology: &Topology, homes: &Homes, work: &mut Work) -> usize {
    let mut routes = Vec::new();
    let mut left = rows.len();
    while let Some((row, mode, listen)) =
        left.checked_sub(1).and_then(|at| port(rows.get(at)?, topology, homes, work))
    {
        left -= 1;
        let item = rule_item(row);
        let told = format!("routes: mode {mode:?} of {}", Value::List(listen.clone()));
        work.converted(&item, &told);
        let mut route = Route::new(mode, item.comment());
        route.listen = listen;
        routes.insert(0, route);
    }
    // The first route that fits a client counts, and rules came before the hostgroup of a user.
    work.draft.routes.splice(0..0, routes);
    left
}

/// What a rule says of a port, if it says nothing else.
fn port<'a>(
    row: &'a Row,
    topology: &Topology,
    homes: &Homes,
    work: &Work,
) -> Option<(&'a Row, &'static str, Vec<String>)> {
    let others = BEYOND.iter().filter(|it| !matches!(**it, "proxy_addr" | "proxy_port"));
    let mut others = others.chain(&["username", "match_digest", "match_pattern"]);
    let is_plain = others.all(|column| row.text(column).is_none());
    let is_last = row.is_on("apply") && row.number("flagin").unwrap_or(0) == 0;
    let member = topology.member(row.number("destination_hostgroup")?)?;
    let is_home = homes.cluster(None, None) == Some(member.cluster);
    let mode = match member.duty {
        Duty::Writer => "writer",
        Duty::Reader => "readers",
        Duty::Unused => return None,
    };
    let listen = listeners(row, work).filter(|it| !it.is_empty())?;
    (is_plain && is_last && is_home).then_some((row, mode, listen))
}
