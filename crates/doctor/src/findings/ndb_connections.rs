//! Of an SQL node of NDB Cluster: has it enough connections to the cluster?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement};

pub(super) const FINDING: Finding = Finding {
    name: "ndb-connections",
    title: "NDB Cluster: connections",
    why: "All of an SQL node's traffic to the cluster goes through one lock for each connection: \
          eight instead of one doubled the throughput.",
    source: "\"How to speed up Sysbench on MySQL Cluster by 14x\" (2010); MySQL manual, \
             ndb-cluster-connection-pool",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let version = facts.server.text("version")?;
    let Ok(pool) = facts.server.number("ndb_cluster_connection_pool") else {
        return Ok(Judgement::ok(format!("{version} is no node of an NDB Cluster")));
    };
    let cpus = facts.cpus()?.len() as u64;
    let text = format!("ndb_cluster_connection_pool is {pool}, on {cpus} CPUs");
    // More than there are cores does harm.
    let wished = (cpus / 2).clamp(1, 8);
    Ok(match pool < wished && cpus > FEW {
        true if pool <= 1 => Judgement::bad(text).remedy(format!(
            "ndb-cluster-connection-pool = {wished} in my.cnf, as many [api] in config.ini; restart"
        )),
        true => Judgement::warn(text).remedy(format!("ndb-cluster-connection-pool = {wished}")),
        false => Judgement::ok(text),
    })
}

const FEW: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, set_variable};
    use crate::judgement::Verdict;

    #[test]
    fn one_connection_on_many_cpus_is_told() {
        let pool = |count: &'static str| {
            move |facts: &mut Facts| set_variable(facts, "ndb_cluster_connection_pool", count)
        };
        let judgement = after(FINDING, pool("1"));
        assert_eq!(judgement.verdict, Verdict::Bad);
        assert!(judgement.remedy.is_some_and(|it| it.contains("pool = 4")));
        assert_eq!(after(FINDING, pool("2")).verdict, Verdict::Warn);
        assert_eq!(after(FINDING, pool("4")).verdict, Verdict::Ok);
    }
}
