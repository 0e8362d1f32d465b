//! Asks a server's agent how the server is: connects, reads one line, and tells the cluster.
//!
//! Owns how much is read and for how long; what the line means is [`engine::checks::agent`]'s to say. An agent that
//! cannot be reached has said nothing: that does not count against the server.

use std::time::Duration;

use engine::checks::agent::{self, LINE_MAX, Report};

use crate::cluster::members::Members;
use crate::cluster::servers::Server;

/// Asks, and does not wait for longer than `checks.timeout`. Tells whether it has said anything.
pub(crate) async fn ask(limit: Duration, members: &Members, server: &Server) -> bool {
    let said = match tokio::time::timeout(limit, listen(server)).await {
        Ok(said) => said,
        Err(_) => Err(format!("no line within {limit:?} (checks.timeout)")),
    };
    let is_heard = said.is_ok();
    members.hear(server.id, said);
    is_heard
}

async fn listen(server: &Server) -> Result<Report, String> {
    let Some(agent) = &server.agent else { return Err("it has none".to_owned()) };
    let stream = agent.dial().await.map_err(|error| format!("it cannot be reached: {error}"))?;
    let mut line = Vec::new();
    let mut buffer = [0; LINE_MAX];
    while line.len() <= LINE_MAX && !line.iter().any(|byte| matches!(byte, b'\r' | b'\n')) {
        match stream.read_some(&mut buffer).await {
            Ok(0) => break,
            Ok(read) => line.extend_from_slice(&buffer[..read]),
            Err(error) => return Err(format!("it broke off: {error}")),
        }
    }
    agent::read(&line)
}
