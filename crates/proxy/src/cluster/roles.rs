//! What a server says of its role: which it has in replication, in a Galera cluster or in a MySQL group, and how far
//! it has come.
//!
//! Owns what is asked and how it is read. Needs no rights; a user that may read `performance_schema` learns more of a
//! MySQL group. Decides nothing.

use std::time::Duration;

use backend::login::{LoggedIn, LoginError};
use engine::cluster::position::Position;
use engine::cluster::{Flow, Node, Role};

/// What MariaDB says of itself without any rights.
const MARIADB: &str = "SELECT 'read_only', @@global.read_only UNION ALL \
    SELECT 'log_bin', @@global.log_bin UNION ALL \
    SELECT 'written', IFNULL(@@global.gtid_binlog_state, '') UNION ALL \
    SELECT 'applied', IFNULL(@@global.gtid_slave_pos, '') UNION ALL \
    SELECT 'wsrep_on', @@global.wsrep_on";

const MYSQL: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', 'gtid_mode', \
    'gtid_executed', 'group_replication_group_name', 'group_replication_single_primary_mode')";

/// Tells a member's state in a group, and what it was sent, to a user that may read these tables. For other users,
/// `read_only`, which a group sets, tells members apart.
const GROUP: &str = "SELECT 'state', MEMBER_STATE FROM \
    performance_schema.replication_group_members WHERE MEMBER_ID = @@server_uuid UNION ALL \
    SELECT 'received', RECEIVED_TRANSACTION_SET FROM \
    performance_schema.replication_connection_status \
    WHERE CHANNEL_NAME = 'group_replication_applier'";

/// How many members of a group can be reached, and how many there are.
const MAJORITY: &str = "SELECT SUM(MEMBER_STATE <> 'UNREACHABLE'), COUNT(*) FROM \
    performance_schema.replication_group_members";

const GALERA: &str = "SELECT VARIABLE_NAME, VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS \
    WHERE VARIABLE_NAME IN ('wsrep_ready', \
    'wsrep_local_state', 'wsrep_local_state_comment', 'wsrep_cluster_status', \
    'wsrep_last_committed', 'wsrep_cluster_state_uuid', 'wsrep_cluster_conf_id', \
    'wsrep_flow_control_sent', 'wsrep_flow_control_paused_ns') UNION ALL \
    SELECT 'wsrep_reject_queries', @@global.wsrep_reject_queries";

/// A node of a cluster that cannot work answers nothing but what is asked of its state.
const NOT_PREPARED: u16 = 1047;

/// Asks a server what it is.
pub(crate) async fn ask(backend: &mut LoggedIn) -> Result<Role, LoginError> {
    let said = match backend.rows(if backend.is_mariadb { MARIADB } else { MYSQL }).await {
        Err(LoginError::Refused { code: NOT_PREPARED, message, .. }) => {
            let node = Node::NotReady(message);
            let (position, flow) = (Position::Unknown, Flow::default());
            let (view, has_backlog) = (None, false);
            return Ok(Role { read_only: false, position, has_backlog, node, view, flow });
        }
        said => Said(said?),
    };
    let read_only = said.is_on("read_only");
    if !said.is_on("wsrep_on") {
        let (position, flow) = (said.position(), Flow::default());
        let (node, received) = group(backend, &said).await?;
        let has_backlog = received.is_some_and(|received| !position.covers(&received));
        return Ok(Role { read_only, position, has_backlog, node, view: None, flow });
    }
    let said = Said(backend.rows(GALERA).await?);
    let cluster = said.cluster();
    let commit = |number| Position::Commit { cluster, number };
    let position = said.number("wsrep_last_committed").map_or(Position::Unknown, commit);
    let view = said.number("wsrep_cluster_conf_id");
    let flow = Flow {
        asked: said.number("wsrep_flow_control_sent").unwrap_or(0),
        paused: Duration::from_nanos(said.number("wsrep_flow_control_paused_ns").unwrap_or(0)),
    };
    Ok(Role { read_only, position, has_backlog: false, node: said.node(), view, flow })
}

/// What a member of a MySQL group says of its place in that. In a group with one primary, the others are `read_only`;
/// so it is found as in asynchronous replication. Where all are primaries, they are as nodes of a cluster.
///
/// Also what it was sent by others, if it tells.
async fn group(
    backend: &mut LoggedIn,
    said: &Said,
) -> Result<(Node, Option<Position>), LoginError> {
    if said.get("group_replication_group_name").is_none_or(|name| name.is_empty()) {
        return Ok((Node::None, None));
    }
    let told = match backend.rows(GROUP).await {
        // It may not ask.
        Err(LoginError::Refused { .. }) => return Ok((Node::None, None)),
        rows => Said(rows?),
    };
    let received = told.get("received").map(|set| Position::from_executed(&set));
    let state = told.get("state").unwrap_or_else(|| "OFFLINE".to_owned());
    if state != "ONLINE" {
        return Ok((Node::NotReady(format!("its state in the group is {state}")), received));
    }
    let counts = backend.rows(MAJORITY).await?.into_iter().next();
    let number = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).parse::<u64>().ok();
    let counts = counts.and_then(|(there, all)| Some((number(there)?, number(all)?)));
    let node = match counts {
        Some((there, all)) if there * 2 <= all => {
            Node::NotReady(format!("it reaches {there} of the {all} members of its group"))
        }
        // With a single primary, the others are read_only.
        _ if said.is_on("group_replication_single_primary_mode") => Node::None,
        _ => Node::Ready,
    };
    Ok((node, received))
}

/// The local states of a node that has all data and is no donor, and of one that is a donor or was asked to keep apart.
const SYNCED: &str = "4";
const DESYNCED: &str = "2";

/// Names and values that a server has told.
struct Said(Vec<(Vec<u8>, Vec<u8>)>);

impl Said {
    fn get(&self, name: &str) -> Option<String> {
        let row = self.0.iter().find(|(key, _)| key.eq_ignore_ascii_case(name.as_bytes()))?;
        Some(String::from_utf8_lossy(&row.1).into_owned())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.get(name)?.parse().ok()
    }

    /// What a node says of its place in its cluster.
    fn node(&self) -> Node {
        let value = |name: &str| self.get(name).unwrap_or_else(|| "unknown".to_owned());
        let (state, status) = (value("wsrep_local_state_comment"), value("wsrep_cluster_status"));
        let why = format!("its state in the cluster is {state}, {status}");
        if let Some(which) = self.get("wsrep_reject_queries").filter(|it| it != "NONE") {
            return Node::NotReady(format!(
                "it refuses statements (wsrep_reject_queries = {which})"
            ));
        }
        let works = self.is_on("wsrep_ready") && status == "Primary";
        match (works, value("wsrep_local_state").as_str()) {
            (true, SYNCED) => Node::Ready,
            (true, DESYNCED) => Node::Desynced(why),
            _ => Node::NotReady(why),
        }
    }

    /// The UUID of the cluster's history, as a number.
    fn cluster(&self) -> u128 {
        let uuid = self.get("wsrep_cluster_state_uuid").unwrap_or_default();
        u128::from_str_radix(&uuid.replace('-', ""), 16).unwrap_or(0)
    }

    /// A server has what it has applied, and what it has written; each transaction names the server that took it.
    fn position(&self) -> Position {
        if let Some(executed) = self.get("gtid_executed") {
            // Without GTIDs the set is empty, and would cover whatever there is.
            return match self.is_on("gtid_mode") {
                true => Position::from_executed(&executed),
                false => Position::Unknown,
            };
        }
        let at = |name| self.get(name).map_or(Position::Unknown, |it| Position::from_gtids(&it));
        // What is written without a binary log leaves no position.
        match self.is_on("log_bin") || self.is_on("read_only") {
            true => at("written").plus(at("applied")),
            false => Position::Unknown,
        }
    }

    fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value == "1" || value.eq_ignore_ascii_case("on"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(rows: &[(&str, &str)]) -> Said {
        Said(rows.iter().map(|(one, two)| (one.as_bytes().into(), two.as_bytes().into())).collect())
    }

    #[test]
    fn a_node_says_what_it_is_good_for() {
        let node = |ready, status, state| {
            said(&[
                ("wsrep_ready", ready),
                ("wsrep_cluster_status", status),
                ("wsrep_local_state", state),
                ("wsrep_local_state_comment", "Whatever"),
            ])
            .node()
        };
        assert_eq!(node("ON", "Primary", "4"), Node::Ready);
        assert!(
            matches!(node("ON", "Primary", "2"), Node::Desynced(why) if why.contains("Whatever"))
        );
        for (ready, status, state) in [
            ("OFF", "Primary", "4"),
            ("ON", "non-Primary", "4"),
            ("ON", "Primary", "3"),
            ("", "", ""),
        ] {
            assert!(matches!(node(ready, status, state), Node::NotReady(_)), "{ready} {status}");
        }
        assert!(matches!(said(&[]).node(), Node::NotReady(_)));
        let refuses = |what| {
            said(&[
                ("WSREP_READY", "ON"),
                ("WSREP_CLUSTER_STATUS", "Primary"),
                ("WSREP_LOCAL_STATE", "4"),
                ("wsrep_reject_queries", what),
            ])
            .node()
        };
        assert_eq!(refuses("NONE"), Node::Ready);
        assert!(matches!(refuses("ALL_KILL"), Node::NotReady(why) if why.contains("ALL_KILL")));
    }

    #[test]
    fn without_gtids_nobody_knows_how_far_a_server_is() {
        let of = |mode| said(&[("gtid_mode", mode), ("gtid_executed", "")]).position();
        assert_eq!(of("OFF"), Position::Unknown);
        assert_eq!(of("ON"), Position::from_executed(""));
        let with = |log, written, applied| {
            said(&[("log_bin", log), ("written", written), ("applied", applied)]).position()
        };
        assert_eq!(with("0", "", "0-2-7"), Position::Unknown, "its own writes leave none");
        let of = |written, applied| with("1", written, applied);
        assert_eq!(of("0-1-9", "0-2-7"), Position::from_gtids("0-1-9,0-2-7"));
        assert_eq!(of("", "0-2-7"), Position::from_gtids("0-2-7"));
        let uuid = [("wsrep_cluster_state_uuid", "00000000-0000-0000-0000-00000000002a")];
        assert_eq!((said(&uuid).cluster(), said(&[]).cluster()), (42, 0));
    }
}
