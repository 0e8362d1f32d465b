//! Reads a text into a plan, option by option, and remembers where each value stood.
//!
//! Owns what can be said of one value alone: whether its option exists, its type and its bounds.
//! What values mean together is checked in [`super::check`]. Reads on after a mistake, so that all
//! are told.

use std::collections::BTreeMap;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::options::{CLASSES, CLUSTERS, LISTS, ROUTES, Row, SECTIONS, SERVERS, Section, USERS};
use super::plan::Plan;
use super::problem::{Origin, Report, Source};
use super::rules::{self, RULES, RuleOrigins};
use super::suggest;

/// Where an option was set while Flifo runs.
const CONSOLE: &str = "console";

/// A text that was read, as far as that went.
#[derive(Debug)]
pub(super) struct Reading<'a> {
    pub(super) plan: Plan,
    pub(super) written: Written,
    /// Where each item of the plan's lists stands.
    pub(super) users: Vec<WrittenItem>,
    pub(super) classes: Vec<WrittenItem>,
    pub(super) servers: Vec<WrittenItem>,
    pub(super) routes: Vec<WrittenItem>,
    pub(super) rules: Vec<RuleOrigins>,
    pub(super) clusters: Vec<WrittenItem>,
    pub(super) report: Report<'a>,
}

/// Where the options of a table were written, by name in full.
#[derive(Debug, Default)]
pub(super) struct Written {
    values: BTreeMap<String, Value>,
}

#[derive(Debug)]
struct Value {
    origin: Origin,
    /// Where its items stand, if it is a list.
    items: Vec<Origin>,
    /// It was not taken, and that has been told.
    is_wrong: bool,
}

#[derive(Debug)]
pub(super) struct WrittenItem {
    pub(super) origin: Origin,
    pub(super) written: Written,
}

impl Written {
    /// The options that were written.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Where each was written, in a word.
    pub(super) fn sources(&self) -> BTreeMap<String, &'static str> {
        let source = |value: &Value| match value.origin {
            Origin::Argument(CONSOLE) => CONSOLE,
            Origin::Argument(_) => "command line",
            _ => "file",
        };
        self.values.iter().map(|(path, value)| (path.clone(), source(value))).collect()
    }

    /// Whether an option was written in the text itself.
    pub(super) fn is_in_text(&self, path: &str) -> bool {
        self.values.get(path).is_some_and(|value| matches!(value.origin, Origin::Text(_)))
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.values.contains_key(path)
    }

    /// Whether nothing is wrong with the options whose names begin so. Only then is it worth
    /// telling what they mean together.
    pub(super) fn is_right(&self, prefix: &str) -> bool {
        !self.values.iter().any(|(path, value)| path.starts_with(prefix) && value.is_wrong)
    }

    /// Where an option's value stands.
    pub(super) fn origin(&self, path: &str) -> Origin {
        self.values.get(path).map_or(Origin::Whole, |value| value.origin.clone())
    }

    /// Where one item of a list stands.
    pub(super) fn item(&self, path: &str, index: usize) -> Origin {
        let item = self.values.get(path).and_then(|value| value.items.get(index));
        item.cloned().unwrap_or_else(|| self.origin(path))
    }

    fn note(&mut self, path: String, value: Value) {
        self.values.insert(path, value);
    }
}

impl<'a> Reading<'a> {
    pub(super) fn of(source: Source<'a>) -> Self {
        let (document, errors) = DeTable::parse_recoverable(source.text);
        let mut reading = Self {
            plan: Plan::default(),
            written: Written::default(),
            users: Vec::new(),
            classes: Vec::new(),
            servers: Vec::new(),
            routes: Vec::new(),
            rules: Vec::new(),
            clusters: Vec::new(),
            report: Report::new(source),
        };
        reading.document(document.get_ref());
        // Only the message: the error as a whole shows the line, which may hold a password.
        let span = |error: &toml::de::Error| error.span().unwrap_or_default();
        let errors = errors.iter().map(|error| (span(error), error.message()));
        reading.report.not_toml(errors.collect());
        reading
    }

    /// Sets an option by an argument of the command line.
    pub(super) fn argument(&mut self, argument: &'static str, path: &str, value: &DeValue<'_>) {
        let Some((_, row)) = option(path) else {
            return debug_assert!(false, "{argument} sets {path}, which is no option");
        };
        let mut wrong = Vec::new();
        row.form.read(&Spanned::new(0..0, value.clone()), &mut self.plan, &mut wrong);
        let (origin, is_wrong) = (Origin::Argument(argument), !wrong.is_empty());
        for (_, message) in wrong {
            self.report.error(&origin, None, message);
        }
        self.written.note(path.to_owned(), Value { origin, items: Vec::new(), is_wrong });
    }

    /// Sets an option to what was written on the console; one of an item of a list too, as in `users.report.clients_max`.
    pub(super) fn setting(&mut self, path: &str, text: &str) {
        if let Some((section, row)) = option(path) {
            let (plan, written) = (&mut self.plan, &mut self.written);
            return set(section, row, text, plan, written, &mut self.report);
        }
        let Self { plan, users, classes, servers, report, .. } = self;
        let named =
            |section, users: &[String]| item(section, path, users.iter().map(String::as_str));
        let names: Vec<_> = plan.users.iter().map(|it| it.name.clone()).collect();
        if let Some((at, row)) = named(USERS.name, &names) {
            return set_item(USERS, (at, row), text, &mut plan.users, users, report);
        }
        let names: Vec<_> = plan.classes.iter().map(|it| it.class.name.clone()).collect();
        if let Some((at, row)) = named(CLASSES.name, &names) {
            return set_item(CLASSES, (at, row), text, &mut plan.classes, classes, report);
        }
        let names: Vec<_> = plan.servers.iter().map(|it| it.name.clone()).collect();
        if let Some((at, row)) = named(SERVERS.name, &names) {
            return set_item(SERVERS, (at, row), text, &mut plan.servers, servers, report);
        }
        let name = path.rsplit('.').next().unwrap_or(path);
        let near =
            suggest::nearest(path, all_paths().iter().map(String::as_str)).map(str::to_owned);
        let hint = near.or_else(|| near_anywhere(name));
        let hint = hint.map(|near| format!("; did you mean {near}?")).unwrap_or_default();
        let message = format!("there is no such option{hint}");
        report.error(&Origin::Argument(CONSOLE), Some(printable(path)), message);
    }

    fn document(&mut self, document: &DeTable<'_>) {
        for (key, value) in document.iter() {
            let name: &str = key.get_ref();
            let section = SECTIONS.iter().find(|section| !name.is_empty() && section.name == name);
            if name == USERS.name {
                let (users, places) = (&mut self.plan.users, &mut self.users);
                read_list(USERS, value, users, places, &mut self.report);
            } else if name == CLASSES.name {
                let (classes, places) = (&mut self.plan.classes, &mut self.classes);
                read_list(CLASSES, value, classes, places, &mut self.report);
            } else if name == SERVERS.name {
                let (servers, places) = (&mut self.plan.servers, &mut self.servers);
                read_list(SERVERS, value, servers, places, &mut self.report);
            } else if name == ROUTES.name {
                let (routes, places) = (&mut self.plan.routes, &mut self.routes);
                read_list(ROUTES, value, routes, places, &mut self.report);
            } else if name == RULES {
                rules::read(value, &mut self.plan.rules, &mut self.rules, &mut self.report);
            } else if name == CLUSTERS.name {
                // They are read when all is known that holds in each of them; see `super::clusters`.
            } else if let Some(section) = section {
                self.section(section, value);
            } else {
                // What has no section stands in the first.
                let [top, ..] = SECTIONS;
                let (plan, written) = (&mut self.plan, &mut self.written);
                read_option(top, key, value, plan, written, &mut self.report);
            }
        }
    }

    fn section(&mut self, section: &Section<Plan>, value: &Spanned<DeValue<'_>>) {
        let Some(table) = value.get_ref().as_table() else {
            let name = section.name;
            let message = format!("this is a section, not an option: write [{name}] once");
            return self.report.error(&Origin::Text(value.span()), Some(name.to_owned()), message);
        };
        for (key, value) in table.iter() {
            let path = section.path(key.get_ref());
            if let Some(inner) = SECTIONS.iter().find(|inner| inner.name == path) {
                self.section(inner, value);
                continue;
            }
            let (plan, written) = (&mut self.plan, &mut self.written);
            read_option(section, key, value, plan, written, &mut self.report);
        }
    }
}

/// Reads a section that is a list: each item stands in a section of its own.
fn read_list<T: Default>(
    section: &Section<T>,
    value: &Spanned<DeValue<'_>>,
    items: &mut Vec<T>,
    places: &mut Vec<WrittenItem>,
    report: &mut Report<'_>,
) {
    each_of_list(section.name, value, report, |table, span, report| {
        let mut item = T::default();
        let mut written = Written::default();
        for (key, value) in table.iter() {
            read_option(section, key, value, &mut item, &mut written, report);
        }
        items.push(item);
        places.push(WrittenItem { origin: Origin::Text(span), written });
    });
}

/// Reads each item of a section that is a list.
pub(super) fn each_of_list<'a>(
    name: &str,
    value: &Spanned<DeValue<'_>>,
    report: &mut Report<'a>,
    mut read: impl FnMut(&DeTable<'_>, Range<usize>, &mut Report<'a>),
) {
    let refuse = |span: Range<usize>, report: &mut Report<'a>| {
        let one = name.strip_suffix("es").filter(|_| name.ends_with("sses"));
        let one = one.or_else(|| name.strip_suffix('s')).unwrap_or(name);
        let message = format!("each {one} stands in a section of its own: write [[{name}]]");
        report.error(&Origin::Text(span), Some(name.to_owned()), message);
    };
    match value.get_ref() {
        DeValue::Array(items) => {
            for item in items.iter() {
                match item.get_ref().as_table() {
                    Some(table) => read(table, item.span(), report),
                    None => refuse(item.span(), report),
                }
            }
        }
        DeValue::Table(table) => {
            refuse(value.span(), report);
            read(table, value.span(), report);
        }
        _ => refuse(value.span(), report),
    }
}

/// An option of the plan by its name in full.
fn option(path: &str) -> Option<(&'static Section<Plan>, &'static Row<Plan>)> {
    let of = |section: &'static Section<Plan>| section.rows.iter().map(move |row| (section, row));
    SECTIONS.into_iter().flat_map(of).find(|(section, row)| section.path(row.name) == path)
}

/// Whether there is an option of this name in full, one of lists' items aside.
pub(crate) fn is_option(path: &str) -> bool {
    option(path).is_some()
}

/// The names in full of all options of the plan.
fn all_paths() -> Vec<String> {
    let of =
        |section: &'static Section<Plan>| section.rows.iter().map(|row| section.path(row.name));
    SECTIONS.into_iter().flat_map(of).collect()
}

/// Which item of a list a name in full means, and what of it.
fn item<'a, 'b>(
    section: &str,
    path: &'a str,
    mut names: impl Iterator<Item = &'b str>,
) -> Option<(usize, &'a str)> {
    let (name, option) = path.strip_prefix(section)?.strip_prefix('.')?.rsplit_once('.')?;
    Some((names.position(|it| it == name)?, option))
}

fn set_item<T>(
    section: &'static Section<T>,
    (at, option): (usize, &str),
    text: &str,
    items: &mut [T],
    places: &mut [WrittenItem],
    report: &mut Report<'_>,
) {
    let (Some(item), Some(place)) = (items.get_mut(at), places.get_mut(at)) else { return };
    match section.rows.iter().find(|row| row.name == option) {
        Some(row) => set(section, row, text, item, &mut place.written, report),
        None => {
            let message = unknown(section, option, &DeValue::Boolean(true));
            let path = section.path(&printable(option));
            report.error(&Origin::Argument(CONSOLE), Some(path), message);
        }
    }
}

/// Sets an option to a text of the console.
fn set<T>(
    section: &Section<T>,
    row: &Row<T>,
    text: &str,
    target: &mut T,
    written: &mut Written,
    report: &mut Report<'_>,
) {
    let origin = Origin::Argument(CONSOLE);
    let value = row.form.value_of(text);
    let mut wrong = Vec::new();
    row.form.read(&Spanned::new(0..0, value), target, &mut wrong);
    let is_wrong = !wrong.is_empty();
    let path = section.path(row.name);
    for (_, message) in wrong {
        report.error(&origin, Some(path.clone()), message);
    }
    written.note(path, Value { origin, items: Vec::new(), is_wrong });
}

pub(super) fn read_option<T>(
    section: &Section<T>,
    key: &Spanned<impl AsRef<str>>,
    value: &Spanned<DeValue<'_>>,
    target: &mut T,
    written: &mut Written,
    report: &mut Report<'_>,
) {
    let name = key.get_ref().as_ref();
    let Some(row) = section.rows.iter().find(|row| row.name == name) else {
        let message = unknown(section, name, value.get_ref());
        let path = section.path(&printable(name));
        return report.error(&Origin::Text(key.span()), Some(path), message);
    };
    let path = section.path(name);
    let mut wrong = Vec::new();
    row.form.read(value, target, &mut wrong);
    let is_wrong = !wrong.is_empty();
    for (span, message) in wrong {
        report.error(&Origin::Text(span), Some(path.clone()), message);
    }
    let items = match value.get_ref() {
        DeValue::Array(items) => items.iter().map(|item| Origin::Text(item.span())).collect(),
        _ => Vec::new(),
    };
    written.note(path, Value { origin: Origin::Text(value.span()), items, is_wrong });
}

/// Names that options had before version 0.1, and those that they have.
const FORMER: [(&str, &str); 4] = [
    ("links_max", "connections_max"),
    ("idle_link", "idle_backend"),
    ("link_age", "backend_age"),
    ("line_max", "queue_max"),
];

/// Tells that there is no such option, and what may have been meant.
fn unknown<T>(section: &Section<T>, name: &str, value: &DeValue<'_>) -> String {
    if value.is_table() || value.as_array().is_some_and(|items| items.iter().any(is_table)) {
        let names = || SECTIONS.iter().map(|section| section.name).chain(LISTS);
        // First among the sections that stand in this one.
        let inner = section.path("");
        let inside = names().filter(|it| inner.ends_with('.') && it.starts_with(&inner));
        let near = suggest::nearest(&section.path(name), inside);
        let hint = match near.or_else(|| suggest::nearest(name, names())) {
            Some(near) if LISTS.contains(&near) => format!("; did you mean [[{near}]]?"),
            Some(near) => format!("; did you mean [{near}]?"),
            None => String::new(),
        };
        return format!("there is no such section{hint}");
    }
    let has = |name: &str| section.rows.iter().any(|row| row.name == name);
    if let Some((_, now)) = FORMER.iter().find(|(old, now)| *old == name && has(now)) {
        return format!("there is no such option; did you mean {}?", section.path(now));
    }
    let siblings = section.rows.iter().map(|row| row.name);
    if let Some(near) = suggest::nearest(name, siblings) {
        return format!("there is no such option; did you mean {}?", section.path(near));
    }
    if let Some((program, path)) = elsewhere(name) {
        return format!("there is no such option; what {program} calls so is {path} here");
    }
    match near_anywhere(name) {
        Some(path) => format!("there is no such option; did you mean {path}?"),
        None => "there is no such option".to_owned(),
    }
}

fn is_table(value: &Spanned<DeValue<'_>>) -> bool {
    value.get_ref().is_table()
}

/// The option that does what another program's option of this name does.
fn elsewhere(name: &str) -> Option<(&'static str, String)> {
    fn find<T>(section: &Section<T>, name: &str) -> Option<(&'static str, String)> {
        section.rows.iter().find_map(|row: &Row<T>| {
            let same = |(_, other): &&(&str, &str)| comparable(other) == name;
            row.elsewhere.iter().find(same).map(|(program, _)| (*program, section.path(row.name)))
        })
    }
    let name = comparable(name);
    let in_lists = || {
        let of_clients = find(USERS, &name).or_else(|| find(CLASSES, &name));
        let of_servers = || find(SERVERS, &name).or_else(|| find(ROUTES, &name));
        of_clients.or_else(of_servers).or_else(|| find(CLUSTERS, &name))
    };
    SECTIONS.iter().find_map(|section| find(section, &name)).or_else(in_lists)
}

/// A name as all programs might write it: `mysql-max_connections` of ProxySQL, `timeout connect`.
fn comparable(name: &str) -> String {
    let name = name.strip_prefix("mysql-").unwrap_or(name);
    let name = name.rsplit('.').next().unwrap_or(name);
    name.to_lowercase().replace(['-', ' '], "_")
}

fn near_anywhere(name: &str) -> Option<String> {
    fn paths<T>(section: &Section<T>) -> impl Iterator<Item = (&'static str, String)> {
        section.rows.iter().map(|row| (row.name, section.path(row.name)))
    }
    let of_clients = || paths(USERS).chain(paths(CLASSES));
    let of_servers = || paths(SERVERS).chain(paths(ROUTES)).chain(paths(CLUSTERS));
    let lists = || of_clients().chain(of_servers());
    let all = || SECTIONS.iter().flat_map(|section| paths(section)).chain(lists());
    let near = suggest::nearest(name, all().map(|(name, _)| name))?;
    all().find(|(name, _)| *name == near).map(|(_, path)| path)
}

/// A key as it may be shown: bounded, and without anything that a terminal would obey.
fn printable(name: &str) -> String {
    name.chars().take(64).flat_map(char::escape_debug).collect()
}
