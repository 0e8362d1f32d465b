//! What differs between two plans, in the words of their options. Secrets are compared and never shown.

use std::path::Path;

use engine::statement::rule::Rule;

use super::clusters::differing;
use super::form::Form;
use super::options::{Applies, CLASSES, CLUSTERS, ROUTES, Row, SECTIONS, SERVERS, Section, USERS};
use super::plan::Plan;
use super::rules::RULES;

/// One difference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    /// The option, as in `limits.wait`; of a user, a class, a server or a route, as in `users.report.clients_max`.
    pub(crate) path: String,
    pub(crate) what: What,
    /// When the new value is in force.
    pub(crate) applies: Applies,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// There was no such user, class, server or route.
    Added,
    Removed,
    /// The file that it names has changed, or what stands in the rule.
    Renewed,
    /// From one value to another; `None`: it is not set.
    Changed(Option<String>, Option<String>),
}

/// What is different in a new plan, in the order of the reference.
pub(crate) fn difference(old: &Plan, new: &Plan) -> Vec<Change> {
    let mut changes = Vec::new();
    let plans = (&mut old.clone(), &mut new.clone());
    for section in SECTIONS {
        compare(section, &section.path(""), (&mut *plans.0, &mut *plans.1), &mut changes);
    }
    changes.extend(renewed(old, new));
    let users = (&*old.users, &*new.users);
    lists(USERS, Applies::Now, users, |it, _| it.name.clone(), &mut changes);
    let classes = (&*old.classes, &*new.classes);
    lists(CLASSES, Applies::Now, classes, |it, _| it.class.name.clone(), &mut changes);
    changes.extend(order(old, new));
    clusters(old, new, &mut changes);
    let servers = (&*old.servers, &*new.servers);
    lists(SERVERS, Applies::Now, servers, |it, _| it.name.clone(), &mut changes);
    // Routes have no names: they are known by their places.
    let routes = (&*old.routes, &*new.routes);
    lists(ROUTES, Applies::NewConnections, routes, |_, at| (at + 1).to_string(), &mut changes);
    changes.extend(rules(old, new));
    changes
}

/// Rules, known by their names. What stands in one is not told in detail.
fn rules(old: &Plan, new: &Plan) -> Vec<Change> {
    let named = |rules: &[Rule], name: &str| rules.iter().position(|it| it.name == name);
    let change = |name: &str, what| {
        let path = format!("{RULES}.{name}");
        Change { path, what, applies: Applies::Now }
    };
    let gone = old.rules.iter().filter(|it| named(&new.rules, &it.name).is_none());
    let mut changes: Vec<_> = gone.map(|it| change(&it.name, What::Removed)).collect();
    for rule in &new.rules {
        match named(&old.rules, &rule.name).and_then(|at| old.rules.get(at)) {
            None => changes.push(change(&rule.name, What::Added)),
            Some(known) if known != rule => changes.push(change(&rule.name, What::Renewed)),
            Some(_) => {}
        }
    }
    let common = |rules: &[Rule], others: &[Rule]| {
        let names = rules.iter().map(|it| &*it.name).filter(|it| named(others, it).is_some());
        names.collect::<Vec<_>>().join(", ")
    };
    let (was, is) = (common(&old.rules, &new.rules), common(&new.rules, &old.rules));
    if was != is {
        let (path, what) = (format!("order of {RULES}"), What::Changed(Some(was), Some(is)));
        changes.push(Change { path, what, applies: Applies::Now });
    }
    changes
}

/// The files of certificates and keys that are the same, with something else in them.
fn renewed(old: &Plan, new: &Plan) -> impl Iterator<Item = Change> {
    let is_renewed = |(option, file): &(&'static str, &Path)| {
        let is_same = old.tls_files().any(|other| other == (option, file));
        is_same && old.contents.get(option) != new.contents.get(option)
    };
    let renewed: Vec<_> = new.tls_files().filter(is_renewed).map(|(option, _)| option).collect();
    renewed.into_iter().map(|option| Change {
        path: option.to_owned(),
        what: What::Renewed,
        applies: Applies::NewConnections,
    })
}

/// Compares the options of a section. `before`: what stands before their names.
fn compare<T: Clone>(
    section: &Section<T>,
    before: &str,
    (old, new): (&mut T, &mut T),
    changes: &mut Vec<Change>,
) {
    for row in section.rows {
        changes.extend(compare_one(row, before, (&mut *old, &mut *new)));
    }
}

fn compare_one<T>(row: &Row<T>, before: &str, (old, new): (&mut T, &mut T)) -> Option<Change> {
    let shown = (row.form.show(old), row.form.show(new));
    let is_same = match &row.form {
        Form::Secret { get, .. } => get(old) == get(new),
        _ => shown.0 == shown.1,
    };
    let path = format!("{before}{}", row.name);
    let change = || Change { path, what: What::Changed(shown.0, shown.1), applies: row.applies };
    (!is_same).then(change)
}

/// Compares clusters, and the options that one of both plans has said for one of them.
fn clusters(old: &Plan, new: &Plan, changes: &mut Vec<Change>) {
    let all = (&*old.clusters, &*new.clusters);
    lists(CLUSTERS, Applies::Now, all, |it, _| it.name.clone(), changes);
    for is in &new.clusters {
        let Some(was) = old.cluster(&is.name) else { continue };
        let plans = (&mut was.as_plan(), &mut is.as_plan());
        for (section, row) in differing() {
            let path = section.path(row.name);
            if was.own.contains(&path) || is.own.contains(&path) {
                let before = format!("{}.{}.{}.", CLUSTERS.name, is.name, section.name);
                changes.extend(compare_one(row, &before, (&mut *plans.0, &mut *plans.1)));
            }
        }
    }
    let first = |plan: &Plan| plan.clusters.first().map(|it| it.name.clone());
    let is_first = (first(old), first(new));
    if is_first.0 != is_first.1 && !old.clusters.is_empty() && !new.clusters.is_empty() {
        let path = format!("first of {}", CLUSTERS.name);
        let what = What::Changed(is_first.0, is_first.1);
        changes.push(Change { path, what, applies: Applies::Now });
    }
}

/// Compares lists whose items are known by a name.
fn lists<T: Clone>(
    section: &Section<T>,
    applies: Applies,
    (old, new): (&[T], &[T]),
    name: impl Fn(&T, usize) -> String,
    changes: &mut Vec<Change>,
) {
    let named = |items: &[T]| -> Vec<String> {
        items.iter().enumerate().map(|(at, item)| name(item, at)).collect()
    };
    let (old_names, new_names) = (named(old), named(new));
    let path = |name: &str| format!("{}.{name}", section.name);
    for name in old_names.iter().filter(|it| !new_names.contains(it)) {
        changes.push(Change { path: path(name), what: What::Removed, applies });
    }
    for (name, new) in new_names.iter().zip(new) {
        match old_names.iter().position(|it| it == name).and_then(|at| old.get(at)) {
            None => changes.push(Change { path: path(name), what: What::Added, applies }),
            Some(old) => {
                let before = format!("{}.", path(name));
                compare(section, &before, (&mut old.clone(), &mut new.clone()), changes);
            }
        }
    }
}

/// Tells if the order of classes has changed, of which the first that fits is taken. (A route's name is its place.)
fn order(old: &Plan, new: &Plan) -> Option<Change> {
    let names = |plan: &Plan, other: &Plan| {
        let is_common = |name: &&str| other.classes.iter().any(|it| it.class.name == **name);
        let names = plan.classes.iter().map(|it| &*it.class.name).filter(is_common);
        names.collect::<Vec<_>>().join(", ")
    };
    let (was, is) = (names(old, new), names(new, old));
    let path = format!("order of {}", CLASSES.name);
    let what = What::Changed(Some(was.clone()), Some(is.clone()));
    let applies = Applies::Now;
    (was != is).then_some(Change { path, what, applies })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn plan(text: &str) -> Plan {
        parse(text, "test").expect("a good file").0
    }

    fn told(old: &str, new: &str) -> Vec<String> {
        let show = |change: Change| match change.what {
            What::Added => format!("+ {}", change.path),
            What::Removed => format!("- {}", change.path),
            What::Renewed => format!("{}: renewed", change.path),
            What::Changed(old, new) => format!(
                "{}: {} -> {}",
                change.path,
                old.as_deref().unwrap_or("none"),
                new.as_deref().unwrap_or("none")
            ),
        };
        difference(&plan(old), &plan(new)).into_iter().map(show).collect()
    }

    const USERS: &str =
        "[[users]]\nname = 'a'\npassword = 'x'\n[[users]]\nname = 'b'\npassword = 'y'\n";

    #[test]
    fn a_plan_differs_from_another_by_its_options() {
        assert_eq!(told("", ""), Vec::<String>::new());
        assert_eq!(told(USERS, USERS), Vec::<String>::new());
        let new = "server.limit = 24\nlimits.wait = '3s'\nlisten = ['127.0.0.1:7000']\n";
        assert_eq!(
            told("server.limit = 16\nlisten = ['127.0.0.1:6033']", new),
            [
                "listen: [\"127.0.0.1:6033\"] -> [\"127.0.0.1:7000\"]",
                "server.limit: 16 -> 24",
                "limits.wait: \"10s\" -> \"3s\"",
            ]
        );
    }

    #[test]
    fn members_of_lists_are_known_by_their_names() {
        let new = "[[users]]\nname = 'b'\npassword = 'y'\nclients_max = 5\n[[users]]\nname = 'c'\npassword = 'z'\n";
        assert_eq!(
            told(USERS, new),
            ["- users.a", "users.b.clients_max: \"none\" -> 5", "+ users.c"]
        );
        let rule = |name: &str, user: &str| {
            format!("[[rules]]\nname = '{name}'\nrefuse = true\nmatch.user = '{user}'\n")
        };
        let old = [rule("a", "x"), rule("b", "x")].concat();
        let new = [rule("b", "y"), rule("a", "x"), rule("c", "x")].concat();
        assert_eq!(
            told(&old, &new),
            ["rules.b: renewed", "+ rules.c", "order of rules: a, b -> b, a"]
        );
        assert_eq!(told(&old, ""), ["- rules.a", "- rules.b"]);
        let classes = |names: [&str; 2]| {
            names.map(|name| format!("[[classes]]\nname = '{name}'\nusers = ['u']\n")).concat()
        };
        let turned = told(&classes(["one", "two"]), &classes(["two", "one"]));
        assert_eq!(turned, ["order of classes: one, two -> two, one"]);
    }

    #[test]
    fn a_cluster_differs_by_its_own_options() {
        let of = |own: &str, all: &str| {
            format!(
                "{all}\n[[clusters]]\nname = 'a'\n{own}\n[[servers]]\nname = 's'\ncluster = 'a'\n\
                 address = '127.0.0.1:1'\ngroup = 'writer'"
            )
        };
        let old = of("checks.rise = 5", "checks.fall = 4");
        assert_eq!(told(&old, &old), Vec::<String>::new());
        assert_eq!(
            told(&old, &of("checks.rise = 6\nschemas = 'x'", "checks.fall = 4")),
            ["clusters.a.schemas: [] -> [\"x\"]", "clusters.a.checks.rise: 5 -> 6"]
        );
        assert_eq!(told(&old, &of("", "checks.fall = 4")), ["clusters.a.checks.rise: 5 -> 2"]);
        // What holds for all is told once.
        assert_eq!(told(&old, &of("checks.rise = 5", "checks.fall = 6")), ["checks.fall: 4 -> 6"]);
    }

    #[test]
    fn a_secret_is_compared_and_not_shown() {
        let new = USERS.replace("'x'", "'hunter2'");
        assert_eq!(told(USERS, &new), ["users.a.password: set -> set"]);
        let hash = "password_hash = '*0123456789ABCDEF0123456789ABCDEF01234567'";
        let new = USERS.replace("password = 'x'", hash);
        assert_eq!(
            told(USERS, &new),
            ["users.a.password: set -> none", "users.a.password_hash: none -> set"]
        );
        assert_eq!(told("", "http.token = 'hunter2'"), ["http.token: none -> set"]);
    }
}
