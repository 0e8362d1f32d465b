//! What is wrong with rules together, and with what they name.

use std::collections::HashSet;
use std::time::Instant;

use engine::statement::rule::{RuleRoute, Then};
use engine::statement::rules::Rules;

use super::RULES;
use crate::config::problem::Origin;
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
            let is_there = |rules: &[engine::statement::rule::Rule]| {
                rules.iter().any(|it| it.label.as_ref() == Some(label))
            };
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
        if let Some(RuleRoute::Server(server)) = &acts.route
            && !plan.servers.iter().any(|it| it.name == *server)
        {
            let message = format!("there is no server {server:?}: name one of [[servers]]");
            error(&origins.of("route"), "rules.route", message);
        }
    }
    if RULES_MAX < plan.rules.len() {
        let message = format!("there may be at most {RULES_MAX} rules");
        error(&Origin::Whole, RULES, message);
    } else if places.iter().all(|it| !it.is_wrong)
        && let Err(message) = Rules::new(&plan.rules, None, Instant::now())
    {
        error(&Origin::Whole, RULES, message);
    }
    let is_useless = |at: usize| plan.servers.is_empty() && plan.rules[at].acts.route.is_some();
    for (_, origins) in places.iter().enumerate().filter(|(at, _)| is_useless(*at)) {
        let message = "this has no effect, since no [[servers]] are listed".to_owned();
        report.warn(&origins.of("route"), "rules.route", message);
    }
}
