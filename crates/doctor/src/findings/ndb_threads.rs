//! Of an NDB Cluster: do its data nodes use their CPUs?

use crate::facts::Facts;
use crate::judgement::{Finding, Judged, Judgement, Unknown};

pub(super) const FINDING: Finding = Finding {
    name: "ndb-threads",
    title: "NDB Cluster: threads",
    why: "Data nodes that were told neither how many threads to have nor on which CPUs run with \
          few, which wander: locking them gave 80 % more.",
    source: "\"How to speed up Sysbench on MySQL Cluster by 14x\" (2010); MySQL manual, \
             AutomaticThreadConfig and ThreadConfig",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    let version = facts.server.text("version")?;
    if facts.server.text("ndb_cluster_connection_pool").is_err() {
        return Ok(Judgement::ok(format!("{version} is no node of an NDB Cluster")));
    }
    let parameter = |name: &str| facts.server.text(&format!("{CONFIG}{name}"));
    let automatic = parameter("AutomaticThreadConfig");
    let threads = parameter("ThreadConfig");
    let count = parameter("MaxNoOfExecutionThreads");
    if automatic.is_err() && threads.is_err() && count.is_err() {
        let text = "ndbinfo does not tell the data nodes' configuration";
        return Err(Unknown(text.to_owned()));
    }
    let is_set = |value: &Result<&str, Unknown>| value.as_ref().is_ok_and(|it| !it.is_empty());
    if automatic.as_ref().is_ok_and(|it| *it == "1") {
        return Ok(Judgement::ok("AutomaticThreadConfig is on"));
    }
    if is_set(&threads) {
        let text = threads.unwrap_or_default();
        return Ok(match text.contains("cpubind") || text.contains("cpuset") {
            true => Judgement::ok(format!("ThreadConfig={text}")),
            false => Judgement::warn(format!("ThreadConfig={text}: the threads wander"))
                .remedy("AutomaticThreadConfig=1 in config.ini, rolling restart of the data nodes"),
        });
    }
    let count = count.unwrap_or("?");
    let text = format!("neither is set; MaxNoOfExecutionThreads is {count}");
    Ok(Judgement::bad(text)
        .remedy("AutomaticThreadConfig=1 in config.ini, rolling restart of the data nodes"))
}

/// Before the names of what `ndbinfo` tells of the data nodes.
pub(crate) const CONFIG: &str = "ndbinfo.";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, is_unknown, set_variable};
    use crate::judgement::Verdict;

    fn node(parameters: &'static [(&'static str, &'static str)]) -> impl FnOnce(&mut Facts) {
        move |facts| {
            set_variable(facts, "ndb_cluster_connection_pool", "4");
            for (name, value) in parameters {
                set_variable(facts, &format!("{CONFIG}{name}"), value);
            }
        }
    }

    #[test]
    fn data_nodes_that_were_told_nothing_are_told_of() {
        let bare = after(FINDING, node(&[("AutomaticThreadConfig", "0"), ("ThreadConfig", "")]));
        assert_eq!(bare.verdict, Verdict::Bad);
        let wander = after(FINDING, node(&[("ThreadConfig", "ldm={count=4},main,rep")]));
        assert_eq!(wander.verdict, Verdict::Warn);
        let locked = node(&[("ThreadConfig", "ldm={count=4,cpubind=1,2,3,4}")]);
        assert_eq!(after(FINDING, locked).verdict, Verdict::Ok);
        let automatic = node(&[("AutomaticThreadConfig", "1"), ("ThreadConfig", "")]);
        assert_eq!(after(FINDING, automatic).verdict, Verdict::Ok);
        assert!(is_unknown(FINDING, node(&[])));
    }
}
