//! A MySQL group (Group Replication) of three members, of which one is the primary.
//!
//! Owns how members are set up, and what an operator does to have them in the group. What befalls them is the tests'.
//! Invariants of [`Mysql`] hold: nothing is left behind.

use crate::flifo::free_port;
use crate::lan::{self, Lan};
use crate::mysql::Mysql;
use crate::need::Need;

/// Three servers, each of which may be in the group or not.
pub struct Group {
    pub members: Vec<Mysql>,
    /// Where its machines are, if they are not this one.
    pub lan: Option<Lan>,
}

const NAME: &str = "6e7bd2a4-1c1f-4b26-9a3d-0f6d0c1a7b11";

impl Group {
    /// Members of a group that has not been started, with a user that has all rights in this schema; `None` where that is
    /// not to be had, which is printed.
    ///
    /// # Panics
    /// If a member does not start.
    pub fn start(lan: Option<Lan>, (user, password, schema): (&str, &str, &str)) -> Option<Self> {
        let ports: Vec<_> = (0..3).map(|_| free_port()).collect();
        let address = |(at, port): (usize, &u16)| format!("{}:{port}", lan::host(lan.as_ref(), at));
        let addresses: Vec<_> = ports.iter().enumerate().map(address).collect();
        let mut group = Self { members: Vec::new(), lan };
        for at in 0..ports.len() {
            let arguments = group.arguments(at, &addresses);
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            let entrance = group.lan.as_ref().map(|lan| lan.entrance(at)).unwrap_or_default();
            let server = Mysql::start_through(&entrance, &arguments)?;
            let plugin = "SELECT COUNT(*) FROM information_schema.plugins \
                          WHERE plugin_name = 'group_replication' AND plugin_status = 'ACTIVE'";
            if server.sql(&[plugin])[0][0] != "1" {
                Need::Group.skip("its MySQL has no plug-in for Group Replication");
                return None;
            }
            server.sql(&[
                "SET sql_log_bin = 0",
                &format!("CREATE USER {user}@'%' IDENTIFIED BY '{password}'"),
                &format!("GRANT ALL ON {schema}.* TO {user}@'%'"),
                &format!("GRANT SELECT ON performance_schema.* TO {user}@'%'"),
                &format!("GRANT REPLICATION SLAVE, BACKUP_ADMIN ON *.* TO {user}@'%'"),
                &format!("GRANT GROUP_REPLICATION_STREAM ON *.* TO {user}@'%'"),
                "RESET BINARY LOGS AND GTIDS",
                &format!(
                    "CHANGE REPLICATION SOURCE TO SOURCE_USER = '{user}', \
                     SOURCE_PASSWORD = '{password}' FOR CHANNEL 'group_replication_recovery'"
                ),
            ]);
            group.members.push(server);
        }
        Some(group)
    }

    /// The address at which a member listens.
    pub fn host(&self, at: usize) -> String {
        lan::host(self.lan.as_ref(), at)
    }

    /// The part of Flifo's configuration that lists the members, `db1` first.
    pub fn listed(&self) -> String {
        let member = |(at, member): (usize, &Mysql)| {
            let (number, host, port) = (at + 1, self.host(at), member.port());
            format!("[[servers]]\nname = \"db{number}\"\naddress = \"{host}:{port}\"\n")
        };
        self.members.iter().enumerate().map(member).collect()
    }

    /// Begins the group anew with this member.
    ///
    /// # Panics
    /// If that fails.
    pub fn bootstrap(&self, at: usize) {
        self.members[at].sql(&[
            "SET GLOBAL group_replication_bootstrap_group = ON",
            "START GROUP_REPLICATION",
            "SET GLOBAL group_replication_bootstrap_group = OFF",
        ]);
    }

    fn arguments(&self, at: usize, addresses: &[String]) -> Vec<String> {
        let (host, seeds) = (self.host(at), addresses.join(","));
        vec![
            format!("--server-id={}", at + 1),
            format!("--bind-address={host}"),
            "--skip-name-resolve".to_owned(),
            // What was acknowledged outlives the process.
            "--innodb-flush-log-at-trx-commit=2".to_owned(),
            "--loose-innodb-redo-log-capacity=16M".to_owned(),
            "--log-bin=binlog".to_owned(),
            "--gtid-mode=ON".to_owned(),
            "--enforce-gtid-consistency=ON".to_owned(),
            "--binlog-checksum=NONE".to_owned(),
            "--performance-schema=ON".to_owned(),
            format!("--report-host={host}"),
            "--plugin-load-add=group_replication.so".to_owned(),
            format!("--loose-group-replication-group-name={NAME}"),
            format!("--loose-group-replication-local-address={}", addresses[at]),
            format!("--loose-group-replication-group-seeds={seeds}"),
            "--loose-group-replication-start-on-boot=OFF".to_owned(),
            "--loose-group-replication-recovery-get-public-key=ON".to_owned(),
            // What is silent is expelled after five seconds.
            "--loose-group-replication-member-expel-timeout=0".to_owned(),
        ]
    }
}
