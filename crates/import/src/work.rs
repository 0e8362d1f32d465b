//! What all converters fill: the draft and the report, always both.

use crate::draft::{Draft, Group, from};
use crate::form::Rule;
use crate::report::{Outcome, Place, Report};
use crate::value::Value;

/// The draft and the report.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) draft: Draft,
    pub(crate) report: Report,
}

/// Something that was read: where it stands, and what it is in the words of its proxy.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) place: Place,
    pub(crate) what: String,
}

impl Item {
    /// What a comment says of it.
    pub(crate) fn comment(&self) -> String {
        from(&self.place, &self.what)
    }
}

impl Work {
    pub(crate) fn converted(&mut self, item: &Item, told: &str) {
        self.report.add(&item.place, &item.what, Outcome::Converted, told);
    }

    pub(crate) fn needless(&mut self, item: &Item, told: &str) {
        self.report.add(&item.place, &item.what, Outcome::Needless, told);
    }

    pub(crate) fn differs(&mut self, item: &Item, told: &str) {
        self.report.add(&item.place, &item.what, Outcome::Differs, told);
    }

    pub(crate) fn lost(&mut self, item: &Item, told: &str) {
        self.report.add(&item.place, &item.what, Outcome::Lost, told);
    }

    /// Adds addresses to those that Flifo listens on.
    pub(crate) fn listen(&mut self, item: &Item, addresses: &[String]) {
        for address in addresses {
            self.draft.listen(address, &item.comment());
        }
        let told = format!("listen {}", Value::List(addresses.to_vec()));
        let is_outside = |it: &String| it.starts_with('/') && !it.starts_with("/run/flifo/");
        match addresses.iter().any(is_outside) {
            true => self.differs(
                item,
                &format!(
                    "{told}; the unit of Flifo lets it make sockets in /run/flifo only: change that there, or the path here"
                ),
            ),
            false => self.converted(item, &told),
        }
    }

    /// Has a log written into this file, in the folder of Flifo's own.
    pub(crate) fn log_file(
        &mut self,
        item: &Item,
        option: &'static str,
        path: &str,
        difference: &str,
    ) {
        let name = path.rsplit('/').next().filter(|it| !it.is_empty()).unwrap_or("statements.log");
        self.set_noted(item, option, format!("/var/log/flifo/{name}").into(), difference);
    }

    /// Adds a rule. `difference`, if there is one, says what is not the same.
    pub(crate) fn rule(&mut self, item: &Item, rule: Rule, difference: &str) {
        let name = &rule.name;
        if difference.is_empty() {
            self.converted(item, &format!("rules {name:?}"));
        } else {
            self.differs(item, &format!("rules {name:?}; {difference}"));
        }
        self.draft.rules.push(rule);
    }

    /// Sets an option to what an item says, which is the same there.
    pub(crate) fn set(&mut self, item: &Item, option: &'static str, value: Value) {
        self.set_noted(item, option, value, "");
    }

    /// Sets an option of one server. `difference`, if there is one, says what is not the same.
    pub(crate) fn set_of_server(
        &mut self,
        item: &Item,
        address: &str,
        (key, value): (&'static str, Value),
        difference: &str,
    ) {
        let server = self.draft.server(address, "", Group::Auto);
        let name = &server.name;
        if let Some(own) = server.own(key).filter(|own| **own != value) {
            let told = format!("servers {name:?}: {key} is {own} already");
            return self.lost(item, &told);
        }
        let told = format!("servers {name:?}: {key} = {value}");
        server.set(key, value);
        match difference.is_empty() {
            true => self.converted(item, &told),
            false => self.differs(item, &format!("{told}; {difference}")),
        }
    }

    /// Sets an option; `difference`, if there is one, says what is not the same.
    pub(crate) fn set_noted(
        &mut self,
        item: &Item,
        option: &'static str,
        value: Value,
        difference: &str,
    ) {
        let shown = if SECRETS.contains(&option) { String::new() } else { format!(" = {value}") };
        if !self.draft.set(option, value, &item.comment()) {
            let has = match self.draft.option(option) {
                Some(has) if !SECRETS.contains(&option) => {
                    format!("{option} is {has} already, for all of Flifo")
                }
                _ => format!("{option} is set already, for all of Flifo"),
            };
            self.lost(item, &has);
        } else if difference.is_empty() {
            self.converted(item, &format!("{option}{shown}"));
        } else {
            self.differs(item, &format!("{option}{shown}; {difference}"));
        }
    }
}

/// Options whose values are not repeated in the report.
const SECRETS: &[&str] = &["checks.password", "console.password", "http.token"];
