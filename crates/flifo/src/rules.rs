//! `flifo rules`: what rules do with statements, before they are in force.

use std::collections::BTreeMap;
use std::path::Path;

use proxy::config::{self, Overrides, Plan};
use proxy::remote;
use proxy::rules::{ExplainedStatement, RulesAsked, explain_by};
use shell::{CONFIG, OK, UNAVAILABLE, USAGE, complain, print};

use crate::arguments::{Recorded, RulesCommand, SessionOfRules};
use crate::console;

pub(crate) fn run(command: RulesCommand) -> u8 {
    match command {
        RulesCommand::Explain { config, session, statement } => {
            explain(&config, &session.asked(statement))
        }
        RulesCommand::Try { config, session, recorded } => try_rules(&config, &session, &recorded),
    }
}

impl SessionOfRules {
    fn asked(&self, text: String) -> RulesAsked {
        RulesAsked {
            text,
            user: self.user.clone().unwrap_or_default(),
            schema: self.schema.clone(),
            address: self.address.clone(),
            listener: self.listener.clone(),
            program: self.program.clone(),
            cluster: self.cluster.clone(),
            role: self.role.clone(),
            label: self.label.clone(),
            in_transaction: self.in_transaction,
        }
    }
}

fn load(config: &Path) -> Result<Plan, u8> {
    let loaded = config::load(Some(config), &Overrides::default());
    loaded.map(|(plan, _)| plan).map_err(|problems| {
        problems.iter().for_each(complain);
        CONFIG
    })
}

fn explain(config: &Path, asked: &RulesAsked) -> u8 {
    let plan = match load(config) {
        Ok(plan) => plan,
        Err(status) => return status,
    };
    match explain_by(&plan, asked) {
        Ok(statements) => {
            print(&statements.iter().map(lines).collect::<String>());
            OK
        }
        Err(error) => {
            complain(error);
            USAGE
        }
    }
}

/// A statement: what it is to each rule, and what becomes of it.
fn lines(statement: &ExplainedStatement) -> String {
    let shown = match statement.digest_text.is_empty() {
        true => "this cannot be read",
        false => &statement.digest_text,
    };
    let mut out = format!("{shown}\n");
    for rule in &statement.rules {
        let acts = if rule.is_hit {
            format!(": {}, then {}", rule.acts, rule.then)
        } else {
            String::new()
        };
        out += &format!("  {}: {}{acts}\n", rule.rule, rule.why);
    }
    if let Some(becomes) = &statement.becomes {
        out += &format!("  becomes {becomes}\n");
    }
    out
}

/// Texts, and how often each was seen.
type Counted = Vec<(String, u64)>;

fn recorded(plan: &Plan, recorded: &Recorded) -> Result<Counted, u8> {
    if let Some(file) = &recorded.digests {
        let text = std::fs::read_to_string(file).map_err(|error| {
            complain(format_args!("{} cannot be read: {error}", file.display()));
            UNAVAILABLE
        })?;
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        return Ok(lines.map(|line| (line.to_owned(), 1)).collect());
    }
    let address =
        recorded.console.as_deref().map(console::address).transpose().map_err(|error| {
            complain(format_args!("--console: {error}"));
            USAGE
        })?;
    remote::digests(plan, address).map_err(|error| {
        complain(error);
        UNAVAILABLE
    })
}

fn try_rules(config: &Path, session: &SessionOfRules, from: &Recorded) -> u8 {
    let plan = match load(config) {
        Ok(plan) => plan,
        Err(status) => return status,
    };
    let counted = match recorded(&plan, from) {
        Ok(counted) => counted,
        Err(status) => return status,
    };
    let (mut out, mut hits, mut untouched) = (String::new(), BTreeMap::new(), 0);
    for (text, count) in &counted {
        match explain_by(&plan, &session.asked(text.clone())) {
            Ok(statements) => {
                let mut is_hit = false;
                for statement in &statements {
                    for rule in statement.rules.iter().filter(|rule| rule.is_hit) {
                        is_hit = true;
                        *hits.entry(rule.rule.clone()).or_insert(0) += count;
                        out += &format!("{} x {text}\n  {}: {}\n", count, rule.rule, rule.acts);
                    }
                    if let Some(becomes) = &statement.becomes {
                        out += &format!("  becomes {becomes}\n");
                    }
                }
                untouched += if is_hit { 0 } else { *count };
            }
            Err(error) => out += &format!("{count} x {text}\n  {error}\n"),
        }
    }
    for rule in &plan.rules {
        let count = hits.get(&rule.name).copied().unwrap_or_default();
        out += &format!("{}: {count} statements\n", rule.name);
    }
    out += &format!("no rule: {untouched} statements\n");
    print(&out);
    OK
}
