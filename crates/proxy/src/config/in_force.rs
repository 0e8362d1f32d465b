//! What of a plan a reload puts in force: all but what only a start can.

use super::difference::{Change, difference};
use super::options::Applies;
use super::plan::{CheckOptions, Hardening, Plan};

/// A plan that can be in force, and how it differs from the one before.
#[derive(Debug)]
pub(crate) struct InForce {
    /// In which options that apply when Flifo is started again are as they were.
    pub(crate) plan: Plan,
    pub(crate) changes: Vec<Change>,
}

/// Whether this process has kept the rights for what a new plan says of placement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MayPlace {
    Yes,
    GivenUp,
}

/// What is in force after a reload of `new`.
pub(crate) fn in_force(old: &Plan, new: Plan, may_place: MayPlace) -> InForce {
    let mut changes = difference(old, &new);
    let mut placement = new.placement;
    if may_place == MayPlace::GivenUp {
        placement = old.placement.clone();
        let is_placement = |change: &&mut Change| change.path.starts_with("placement.");
        changes.iter_mut().filter(is_placement).for_each(|it| it.applies = GIVEN_UP);
    }
    let hardening =
        Hardening { privileged_user: new.hardening.privileged_user, ..old.hardening.clone() };
    let checks = CheckOptions { state_file: old.checks.state_file.clone(), ..new.checks };
    InForce { plan: Plan { workers: old.workers, placement, hardening, checks, ..new }, changes }
}

const GIVEN_UP: Applies =
    Applies::Restart("the rights for that were given up when Flifo started (hardening.sandbox)");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::difference::{Change, difference};
    use crate::config::form::Form;
    use crate::config::options::{Applies, Row, SECTIONS};
    use crate::config::parse;

    /// Another value of this option, as TOML.
    fn another(path: &str, row: &Row<Plan>, plan: &mut Plan) -> String {
        let shown = row.form.show(plan);
        let unlike = |values: &[&str]| {
            let quoted = values.iter().map(|it| format!("\"{it}\""));
            quoted.into_iter().find(|it| Some(it) != shown.as_ref()).expect("there are two")
        };
        match &row.form {
            Form::Count { range, .. } | Form::CountOr { range, .. } => {
                let ends = [range.end(), range.start()].map(ToString::to_string);
                ends.into_iter().find(|it| Some(it) != shown.as_ref()).expect("there are two")
            }
            Form::Duration { range, .. } => {
                let ends =
                    [range.end(), range.start()].map(|it| format!("\"{}ms\"", it.as_millis()));
                let is_same = |it: &String| shown.as_deref() == Some(it);
                ends.into_iter().find(|it| !is_same(it)).expect("there are two")
            }
            Form::DurationOrNone { .. } | Form::Bound { .. } => unlike(&["none", "33s"]),
            Form::Size { .. } => unlike(&["3MiB", "5MiB"]),
            Form::Choice(choice) => unlike(&choice.names()),
            Form::Secret { .. } => "\"hunter2\"".to_owned(),
            Form::Text { .. } | Form::List { .. } => match path {
                "listen" | "console.listen" | "http.listen" => "[\"127.0.0.1:7001\"]".to_owned(),
                "proxy_protocol.from" => "[\"10.0.0.0/8\"]".to_owned(),
                "server.name" => "\"other\"".to_owned(),
                _ => row.example.map_or_else(|| "\"other\"".to_owned(), ToOwned::to_owned),
            },
        }
    }

    fn set(path: &str, value: &str) -> Plan {
        let document = format!("{path} = {value}");
        let mut plan = Plan::default();
        let table = toml::de::DeTable::parse(&document).expect("TOML");
        let mut table = table.get_ref();
        let mut names = path.split('.');
        let name = names.next_back().expect("its name");
        for section in names {
            table = table.get(section).and_then(|it| it.get_ref().as_table()).expect("a section");
        }
        let value = table.get(name);
        let row =
            SECTIONS.iter().flat_map(|it| it.rows.iter().map(move |row| (it.path(row.name), row)));
        let (_, row) = row.into_iter().find(|(known, _)| known == path).expect("an option");
        let mut wrong = Vec::new();
        row.form.read(value.expect("it is there"), &mut plan, &mut wrong);
        assert!(wrong.is_empty(), "{path}: {wrong:?}");
        plan
    }

    /// Each option, one by one.
    #[test]
    fn what_applies_is_what_the_table_says() {
        let old = Plan::default();
        let mut seen = 0;
        for section in SECTIONS {
            for row in section.rows {
                let path = section.path(row.name);
                let new = set(&path, &another(&path, row, &mut old.clone()));
                let all = difference(&old, &new);
                // A certificate and its key are one value.
                let is_own = |change: &Change| change.path == path || path.contains("tls");
                assert!(!all.is_empty() && all.iter().all(is_own), "{path}: {all:?}");
                let InForce { plan: merged, changes } = in_force(&old, new.clone(), MayPlace::Yes);
                assert_eq!(changes, all, "{path}");
                let (now, later) = (difference(&old, &merged), difference(&merged, &new));
                let expected = match row.applies {
                    Applies::Restart(_) => (Vec::new(), all),
                    Applies::Now | Applies::NewConnections => (all, Vec::new()),
                };
                assert_eq!((now, later), expected, "{path}");
                seen += 1;
            }
        }
        assert!(seen > 70, "{seen}");
    }

    #[test]
    fn lists_apply_as_wholes() {
        for text in [
            "[[users]]\nname = 'a'\npassword = 'x'",
            "[[classes]]\nname = 'a'\nusers = ['x']",
            "[[rules]]\nname = 'a'\nrefuse = true",
            "[[clusters]]\nname = 'c'\nchecks.inter = '2s'\n[[servers]]\nname = 'a'\ncluster = 'c'\naddress = '127.0.0.1:1'\ngroup = 'writer'",
            "[[servers]]\nname = 'a'\naddress = '127.0.0.1:1'\ngroup = 'writer'\n[[routes]]\nmode = 'readers'\nusers = ['x']",
        ] {
            let (old, new) = (Plan::default(), parse(text, "test").expect("a good file").0);
            let merged = in_force(&old, new.clone(), MayPlace::Yes).plan;
            assert!(!difference(&old, &merged).is_empty(), "{text}");
            assert_eq!(difference(&merged, &new), [], "{text}");
        }
    }

    #[test]
    fn placement_waits_for_a_start_that_keeps_the_rights_for_it() {
        let (old, new) = (Plan::default(), set("placement.policy", "\"batch\""));
        let InForce { plan, changes } = in_force(&old, new, MayPlace::GivenUp);
        assert_eq!(plan.placement.policy, old.placement.policy);
        assert!(
            matches!(&changes[..], [Change { applies: Applies::Restart(_), .. }]),
            "{changes:?}"
        );
    }
}
