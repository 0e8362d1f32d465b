//! What clients are told whose statements rules refuse: each text names the rule.

use engine::statement::rule::{RatePer, RuleRate};
use engine::statement::rules::ReadyRule;

use crate::fault::{Fault, Kind};

pub(super) fn told(ready: &ReadyRule, why: &str) -> String {
    format!("Flifo did not run this statement: the rule {:?} {why}", ready.rule.name)
}

pub(super) fn refused(ready: &ReadyRule, why: &str) -> Fault {
    Fault::relayed(1235, "42000", &told(ready, why)).of_kind(Kind::RuleRefused)
}

pub(super) fn too_many(ready: &ReadyRule, rate: &RuleRate) -> Fault {
    let name = |(name, per): &(&'static str, RatePer)| (*per == rate.per).then_some(*name);
    let per = RatePer::ALL.iter().find_map(name).unwrap_or_default();
    let per = if rate.per == RatePer::All { String::new() } else { format!(" of one {per}") };
    let (statements, within) = (rate.statements, rate.within);
    let why = format!("lets {statements} statements{per} run within {within:?}. Try again later");
    Fault::relayed(1226, "42000", &told(ready, &why)).of_kind(Kind::RuleRefused)
}
