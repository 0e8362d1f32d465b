//! Statements that no server can take for now: they go on as soon as one can, or are refused.
//! [`crate::routing::route`] holds them back.

use std::rc::Rc;

use crate::answers::answer;
use crate::cluster::members::Members;
use crate::fault::{Fault, Kind};
use crate::road::admit;
use crate::routing::clusters;
use crate::routing::freshness;
use crate::routing::route;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::doing::Doing;
use crate::state::rule_hits::RuleWay;
use crate::state::worker::Worker;

/// Sends statements on that can go to a server now, and refuses those that have waited too long.
pub(crate) fn release(worker: &Rc<Worker>) {
    if worker.upkeep.stranded.borrow().is_empty() {
        return;
    }
    let now = crate::worker::clock::now();
    for stranded in worker.upkeep.stranded.take() {
        if !stranded.is_good() {
            continue;
        }
        let client = &stranded.client;
        let Some(mut command) = client.take_command() else { continue };
        if !worker.shared.cluster.get(clusters::of(client, &command)).is_named() {
            clusters::forget(&mut command);
        }
        let members = worker.shared.cluster.get(clusters::of(client, &command));
        if route::choose(worker, members, client, &command).is_some() {
            admit::enter_held(worker, client, command, false);
        } else if now >= stranded.until {
            refuse(worker, members, client, command);
        } else {
            // The server that failed it may be the only one there is, and be well again.
            command.rare().avoids = None;
            client.go_on_as(Doing::Stranded { command });
            freshness::look_for_past(members, client);
            worker.upkeep.stranded.borrow_mut().push(stranded);
        }
    }
}

pub(crate) fn refuse(
    worker: &Rc<Worker>,
    members: &Members,
    client: &Rc<Client>,
    command: Box<Command>,
) {
    let group = match route::wants_reader(members, client, &command) {
        true => "readers",
        false => "writer",
    };
    let taker = freshness::last_taker(members, client);
    let reads = route::wants_reader(members, client, &command);
    let lacking = members.writer_of(client.id);
    let lacking = lacking.filter(|it| !freshness::finds_past(members, client, *it, reads));
    let why = match lacking.map(|writer| &worker.shared.cluster.server(writer).name) {
        Some(writer) => {
            let taker = taker.filter(|taker| Some(*taker) != lacking);
            let at = taker.map(|taker| &worker.shared.cluster.server(taker).name);
            let at = at.map_or_else(|| " before".to_owned(), |taker| format!(" on {taker}"));
            format!(
                "{writer} is not known to have what this client wrote{at} (routing.reads; CONFIRM WRITER {writer} on \
                 the console has it served all the same)"
            )
        }
        None => members.why_not(),
    };
    let hold = members.hold().as_secs_f64();
    let sent = command.rare.as_ref().and_then(|rare| rare.ruled.as_ref()?.sender());
    let message = match (sent, command.way()) {
        (Some(ready), Some(RuleWay::To(server, fallback))) => {
            let server = &worker.shared.cluster.server(server).name;
            let other = match fallback {
                None => "; fallback = \"reader\" or \"writer\" in its route would name others",
                Some(_) => ", and none of its fallback either",
            };
            format!(
                "Flifo did not run this statement: the rule {:?} sends it to the server {server:?}, which could not \
                 take it within {hold:.1} s (routing.hold): {why}{other}. It is safe to try again",
                ready.rule.name,
            )
        }
        (sent, _) => {
            let by = sent.map_or_else(String::new, |ready| {
                format!(", to which the rule {:?} sends it,", ready.rule.name)
            });
            format!(
                "Flifo did not run this statement: no server of group {group:?}{by} could take it within \
                 {hold:.1} s (routing.hold): {why}. It is safe to try again",
            )
        }
    };
    answer::refuse(worker, client, command, &Fault::new(Kind::WaitedTooLong, message));
}
