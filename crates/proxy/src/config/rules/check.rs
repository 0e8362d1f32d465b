//! What is wrong with rules together, and with what they name.

use std::collections::HashSet;

use engine::statement::rule::{
    Condition, Next, Rule, RuleLog, RuleMirror, RuleRoute, RuleTarget, Then,
};
use engine::statement::rules::Rules;
use wire::like::NamePattern;

use super::{RULES, RuleOrigins};
use crate::config::plan::Plan;
use crate::config::problem::{Origin, Report};
use crate::config::reader::Reading;

/// More rules are not taken.
const RULES_MAX: usize = 10_000;

/// Tells of everything that does not fit together.
pub(in crate::config) fn check(reading: &mut Reading<'_>) {
    let Reading { plan, rules: places, report, .. } = reading;
    let mut error = |origin: &Origin, option: &str, message: String| {
        report.error(origin, Some(option.to_owned()), message);
    };
    let mut names = HashSet::new();
    for (at, (rule, origins)) in plan.rules.iter().zip(places.iter()).enumerate() {
        let acts = &rule.acts;
        if !origins.parts.contains_key("name") {
            error(&origins.of("name"), "rules.name", "a rule needs a name".to_owned());
        } else if !rule.name.is_empty() && !names.insert(&rule.name) {
            let message = format!("there is already a rule {:?}", rule.name);
            error(&origins.of("name"), "rules.name", message);
        }
        if let Some(Then::Jump(label)) = &rule.then {
            let is_there = |rules: &[Rule]| rules.iter().any(|it| it.label.as_ref() == Some(label));
            if !is_there(plan.rules.get(at + 1..).unwrap_or_default()) {
                let message = match is_there(&plan.rules) {
                    true => format!(
                        "rules go on further down, and no rule there has the label {label:?}"
                    ),
                    false => format!("no rule has the label {label:?}"),
                };
                error(&origins.of("then"), "rules.then", message);
            }
        }
        if let Some(Next::Jump(label)) = &acts.next
            && !plan.rules.iter().any(|it| it.label.as_ref() == Some(label))
        {
            let message = format!("no rule has the label {label:?}");
            error(&origins.of("next"), "rules.next", message);
        }
        if acts.refuse.is_some() && acts.answer.is_some() {
            let message = "a statement that is refused gets no other answer".to_owned();
            error(&origins.of("answer"), "rules.answer", message);
        }
        if let Some(class) = &acts.class
            && class != "default"
            && !plan.classes.iter().any(|it| it.class.name == *class)
        {
            let message = format!("there is no class {class:?}: name one of [[classes]]");
            error(&origins.of("class"), "rules.class", message);
        }
        if let Some(mirror) = &acts.mirror
            && let Some(message) = mirrors_nothing(plan, rule, mirror)
        {
            error(&origins.of("mirror"), "rules.mirror", message);
        }
        if let Some(message) = acts.route.as_ref().and_then(|route| leads_nowhere(plan, route)) {
            error(&origins.of("route"), "rules.route", message);
        }
    }
    if RULES_MAX < plan.rules.len() {
        let message = format!("there may be at most {RULES_MAX} rules");
        error(&Origin::Whole, RULES, message);
    } else if places.iter().all(|it| !it.is_wrong)
        && let Err(message) = Rules::new(&plan.rules, None, crate::worker::clock::read())
    {
        error(&Origin::Whole, RULES, message);
    }
    warn_of_logs(plan, places, report);
    let is_useless = |at: usize| plan.servers.is_empty() && plan.rules[at].acts.route.is_some();
    for (_, origins) in places.iter().enumerate().filter(|(at, _)| is_useless(*at)) {
        let message = "this has no effect, since no [[servers]] are listed".to_owned();
        report.warn(&origins.of("route"), "rules.route", message);
    }
}

/// Tells of rules that have statements logged where there is no log.
fn warn_of_logs(plan: &Plan, places: &[RuleOrigins], report: &mut Report<'_>) {
    let logs = &plan.logs;
    for (rule, origins) in plan.rules.iter().zip(places) {
        for log in &rule.acts.log {
            let (option, is_written) = match log {
                RuleLog::Slow => ("logs.slow.file", logs.slow.kept.file.is_some()),
                RuleLog::Audit => ("logs.audit.file", logs.audit.kept.file.is_some()),
            };
            if !is_written {
                let message = format!("this has no effect without {option}");
                report.warn(&origins.of("log"), "rules.log", message);
            }
        }
    }
}

/// What is wrong with where a mirror is.
fn mirrors_nothing(plan: &Plan, rule: &Rule, mirror: &RuleMirror) -> Option<String> {
    let cluster = &mirror.cluster;
    if !plan.cluster_names().any(|it| it == cluster) {
        return Some(format!("there is no cluster {cluster:?}: name one of [[clusters]]"));
    }
    if rule.acts.refuse.is_some() || rule.acts.answer.is_some() {
        return Some("a statement that Flifo itself answers is not mirrored".to_owned());
    }
    let is_only = |names: &[NamePattern]| names.len() == 1 && names[0].text() == cluster;
    let routed = rule.acts.route.as_ref().and_then(|route| match (&route.cluster, &route.target) {
        (Some(cluster), _) => Some(cluster),
        (None, Some(RuleTarget::Server(server))) => {
            plan.servers.iter().find(|it| it.name == *server).map(|it| &it.cluster)
        }
        (None, _) => None,
    });
    let runs_there = match routed {
        Some(routed) => routed == cluster,
        None => rule.conditions.iter().any(|it| match it {
            Condition::Cluster(names) => is_only(names),
            _ => false,
        }),
    };
    runs_there
        .then(|| format!("its statements run in the cluster {cluster:?}: a mirror is another one"))
}

/// What is wrong with where a route leads.
fn leads_nowhere(plan: &Plan, route: &RuleRoute) -> Option<String> {
    if let Some(cluster) = &route.cluster
        && !plan.cluster_names().any(|it| it == cluster)
    {
        return Some(format!("there is no cluster {cluster:?}: name one of [[clusters]]"));
    }
    let Some(RuleTarget::Server(server)) = &route.target else { return None };
    let Some(found) = plan.servers.iter().find(|it| it.name == *server) else {
        return Some(format!("there is no server {server:?}: name one of [[servers]]"));
    };
    let cluster = route.cluster.as_ref().filter(|cluster| **cluster != found.cluster)?;
    Some(format!("the server {server:?} is in the cluster {:?}, not in {cluster:?}", found.cluster))
}
