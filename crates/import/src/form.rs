//! The form of `[[rules]]` and `[[clusters]]` in a configuration: the only file here that knows it.

use std::fmt::Write;

use regex_syntax::ParserBuilder;

use crate::value::{Value, quoted};

/// Keys that rules of this version of Flifo do not have, each with what to use instead. What needs one is written as a
/// comment, and a rule that would do something else without it is not enabled.
const ABSENT: &[(&str, &str)] = &[
    ("connection", "users.mode = \"pass-through\" keeps all connections of a user"),
    ("listener", "[[routes]] has listen and a mode; users and schemas choose clusters"),
    ("log", "logs.slow has a threshold for all statements"),
    ("mirror", "nothing here sends statements twice"),
    ("retries", "the application sends a statement again that has failed"),
    ("route.cluster", "users.cluster and clusters.schemas choose clusters"),
    ("statement_time", "users.statement and classes.statement bound the time of statements"),
];

/// Whether this version of Flifo lacks this key of rules.
pub(crate) fn is_absent(key: &str) -> bool {
    ABSENT.iter().any(|(absent, _)| *absent == key)
}

/// What a rule loses, and what to use instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Absent {
    /// As it would be written.
    pub(crate) written: String,
    pub(crate) instead: &'static str,
}

impl Absent {
    fn new(key: &str, written: String) -> Self {
        let found = ABSENT.iter().find(|(absent, _)| *absent == key);
        Self { written, instead: found.map_or("", |(_, instead)| instead) }
    }
}

/// What a statement must be for a rule to act. Everything that is set must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Conditions {
    keys: Vec<(&'static str, Value)>,
    not: Vec<(&'static str, Value)>,
}

impl Conditions {
    /// A client of exactly this user.
    pub(crate) fn user(&mut self, name: &str) {
        self.keys.push(("user", exactly(name).into()));
    }

    /// The client's schema is exactly this one.
    pub(crate) fn schema(&mut self, name: &str) {
        self.keys.push(("schema", exactly(name).into()));
    }

    /// The client comes from one of these networks.
    pub(crate) fn addresses(&mut self, networks: Vec<String>) {
        self.keys.push(("address", one_or_more(networks)));
    }

    /// The client came in at one of these.
    pub(crate) fn listeners(&mut self, listeners: &[String]) {
        let listeners = listeners.iter().map(|it| exactly(it)).collect();
        self.keys.push(("listener", one_or_more(listeners)));
    }

    /// The client came in at this port of any address.
    pub(crate) fn port(&mut self, port: u16) {
        self.keys.push(("listener", format!("%:{port}").into()));
    }

    pub(crate) fn digest(&mut self, statement: &str) {
        self.keys.push(("digest", statement.into()));
    }

    pub(crate) fn digest_matches(&mut self, expression: &str, negated: bool) {
        self.side(negated).push(("digest_matches", expression.into()));
    }

    pub(crate) fn text_matches(&mut self, expression: &str, negated: bool) {
        self.side(negated).push(("text_matches", expression.into()));
    }

    fn side(&mut self, negated: bool) -> &mut Vec<(&'static str, Value)> {
        if negated { &mut self.not } else { &mut self.keys }
    }

    /// Takes out what is absent, as it would be written.
    fn take_absent(&mut self) -> Vec<Absent> {
        let absent = self.keys.iter().filter(|(key, _)| is_absent(key));
        let absent = absent.map(|it| Absent::new(it.0, format!("match.{}", pair(it)))).collect();
        self.keys.retain(|(key, _)| !is_absent(key));
        absent
    }

    fn is_empty(&self) -> bool {
        self.keys.is_empty() && self.not.is_empty()
    }

    fn written(&self) -> String {
        let mut keys: Vec<_> = self.keys.iter().map(pair).collect();
        if !self.not.is_empty() {
            let not: Vec<_> = self.not.iter().map(pair).collect();
            keys.push(format!("not = {}", inline(&not)));
        }
        inline(&keys)
    }
}

/// Where a rule sends a statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) cluster: Option<String>,
    pub(crate) server: Option<String>,
    pub(crate) role: Option<&'static str>,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Route(Target),
    Replace {
        find: String,
        with: String,
    },
    StatementTime(Value),
    Refuse(String),
    AnswerOk,
    Delay(Value),
    /// At most so many statements a second.
    Rate(u64),
    Mirror {
        cluster: String,
    },
    LogSlow,
    KeepConnection,
    ShareConnection,
    Retries(u64),
}

impl Act {
    const fn key(&self) -> &'static str {
        match self {
            Self::Route(Target { cluster: Some(_), .. }) => "route.cluster",
            Self::Route(_) => "route",
            Self::Replace { .. } => "replace",
            Self::StatementTime(_) => "statement_time",
            Self::Refuse(_) => "refuse",
            Self::AnswerOk => "answer",
            Self::Delay(_) => "delay",
            Self::Rate(_) => "rate",
            Self::Mirror { .. } => "mirror",
            Self::LogSlow => "log",
            Self::KeepConnection | Self::ShareConnection => "connection",
            Self::Retries(_) => "retries",
        }
    }

    fn written(&self) -> String {
        match self {
            Self::Route(Target { cluster, server, role }) => {
                let named = [
                    ("cluster", cluster.as_deref()),
                    ("server", server.as_deref()),
                    ("role", *role),
                ];
                let named = named.iter().filter_map(|(key, it)| Some((*key, Value::from((*it)?))));
                let named: Vec<_> = named.map(|it| pair(&it)).collect();
                format!("route = {}", inline(&named))
            }
            Self::Replace { find, with } => {
                format!("replace = {{ find = {}, with = {} }}", quoted(find), quoted(with))
            }
            Self::StatementTime(time) => format!("statement_time = {time}"),
            // What ProxySQL answers.
            Self::Refuse(message) => {
                format!(
                    "refuse = {{ number = 1148, state = \"42000\", message = {} }}",
                    quoted(message)
                )
            }
            Self::AnswerOk => "answer = \"ok\"".to_owned(),
            Self::Delay(time) => format!("delay = {time}"),
            Self::Rate(rate) => {
                format!("rate = {{ per = \"all\", statements = {rate}, within = \"1s\" }}")
            }
            Self::Mirror { cluster } => {
                format!("mirror = {{ cluster = {}, share = 1.0 }}", quoted(cluster))
            }
            Self::LogSlow => "log = [\"slow\"]".to_owned(),
            Self::KeepConnection => "connection = \"keep\"".to_owned(),
            Self::ShareConnection => "connection = \"share\"".to_owned(),
            Self::Retries(count) => format!("retries = {count}"),
        }
    }
}

/// Which rule is asked behind one that has acted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    Next,
    Stop,
    Jump(String),
}

/// Whether a rule acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Enabled {
    Yes,
    No,
}

/// One of `[[rules]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) name: String,
    pub(crate) note: String,
    pub(crate) enabled: Enabled,
    pub(crate) label: Option<String>,
    pub(crate) conditions: Conditions,
    pub(crate) acts: Vec<Act>,
    pub(crate) then: Then,
    /// Where it comes from.
    pub(crate) comments: Vec<String>,
}

impl Rule {
    pub(crate) fn new(name: String, then: Then) -> Self {
        Self {
            name,
            note: String::new(),
            enabled: Enabled::Yes,
            label: None,
            conditions: Conditions::default(),
            acts: Vec::new(),
            then,
            comments: Vec::new(),
        }
    }

    /// Makes comments of what this version of Flifo does not have, and returns it.
    pub(crate) fn take_absent(&mut self) -> Vec<Absent> {
        let mut absent = self.conditions.take_absent();
        let is_route = |act: &Act| act.key() == "route.cluster" && is_absent(act.key());
        let loses_sense = !absent.is_empty() || self.acts.iter().any(is_route);
        let (lost, kept) = self.acts.drain(..).partition::<Vec<_>, _>(|act| is_absent(act.key()));
        self.acts = kept;
        // What does nothing would only cost time.
        let is_idle = !lost.is_empty() && self.acts.is_empty() && self.then == Then::Next;
        if loses_sense || is_idle {
            self.enabled = Enabled::No;
        }
        absent.extend(lost.iter().map(|act| Absent::new(act.key(), act.written())));
        let comment = |it: &Absent| format!("Not in this version of Flifo: {}", it.written);
        self.comments.extend(absent.iter().map(comment));
        absent
    }

    pub(crate) fn written(&self) -> String {
        let mut out = String::from("[[rules]]\n");
        let mut line = |text: String| out += &format!("{text}\n");
        line(format!("name = {}", quoted(&self.name)));
        if !self.note.is_empty() {
            line(format!("note = {}", quoted(&self.note)));
        }
        if self.enabled == Enabled::No {
            line("enabled = false".to_owned());
        }
        if let Some(label) = &self.label {
            line(format!("label = {}", quoted(label)));
        }
        if !self.conditions.is_empty() {
            line(format!("match = {}", self.conditions.written()));
        }
        self.acts.iter().for_each(|act| line(act.written()));
        let then = match &self.then {
            Then::Next => "next".to_owned(),
            Then::Stop => "stop".to_owned(),
            Then::Jump(label) => format!("jump {label}"),
        };
        line(format!("then = {}", quoted(&then)));
        out
    }
}

/// One of `[[clusters]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cluster {
    pub(crate) name: String,
    /// USE of one of these leads here.
    pub(crate) schemas: Vec<String>,
    /// What differs from the whole file: section, key, value.
    pub(crate) options: Vec<(&'static str, &'static str, Value)>,
    pub(crate) comments: Vec<String>,
}

impl Cluster {
    pub(crate) fn written(&self) -> String {
        let mut out = format!("[[clusters]]\nname = {}\n", quoted(&self.name));
        if !self.schemas.is_empty() {
            let schemas = self.schemas.iter().map(|it| exactly(it)).collect();
            // A string takes everything.
            let _ = writeln!(out, "schemas = {}", Value::List(schemas));
        }
        let mut options: Vec<_> = self.options.iter().collect();
        options.sort_by_key(|(section, ..)| *section);
        let mut section = "";
        for (of, key, value) in options {
            if section != *of {
                section = of;
                let _ = writeln!(out, "\n[clusters.{section}]");
            }
            let _ = writeln!(out, "{key} = {value}");
        }
        out
    }
}

/// What is wrong with a regular expression in a rule, if anything is.
pub(crate) fn problem(expression: &str) -> Option<String> {
    let mut parser = ParserBuilder::new().unicode(false).utf8(false).nest_limit(64).build();
    let why = match parser.parse(expression).err()? {
        regex_syntax::Error::Parse(error) => error.kind().to_string(),
        regex_syntax::Error::Translate(error) => error.kind().to_string(),
        _ => "it cannot be read".to_owned(),
    };
    Some(why)
}

/// A pattern that matches this text alone.
fn exactly(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

fn one_or_more(mut list: Vec<String>) -> Value {
    match list.len() {
        1 => Value::Text(list.remove(0)),
        _ => Value::List(list),
    }
}

fn pair((key, value): &(&'static str, Value)) -> String {
    format!("{key} = {value}")
}

fn inline(pairs: &[String]) -> String {
    match pairs {
        [] => "{}".to_owned(),
        pairs => format!("{{ {} }}", pairs.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_expression_here_is_told() {
        assert_eq!(problem("^SELECT [0-9]+"), None);
        for expression in ["^(?!SELECT)", r"(a)\1", "(", "a(?<=b)"] {
            assert!(problem(expression).is_some(), "{expression}");
        }
    }

    #[test]
    fn what_is_absent_is_a_comment() {
        let mut rule = Rule::new("a".to_owned(), Then::Stop);
        rule.conditions.user("app_rw");
        rule.conditions.port(3307);
        rule.acts.push(Act::Delay("1s".into()));
        rule.acts.push(Act::Retries(2));
        let absent = ["match.listener = \"%:3307\"", "retries = 2"];
        let taken: Vec<_> = rule.take_absent().into_iter().map(|it| it.written).collect();
        assert_eq!(taken, absent);
        let comments = absent.map(|it| format!("Not in this version of Flifo: {it}"));
        assert_eq!(rule.comments, comments);
        let want = "[[rules]]\nname = \"a\"\nenabled = false\nmatch = { user = 'app\\_rw' }\ndelay = \"1s\"\n\
                    then = \"stop\"\n";
        assert_eq!(rule.written(), want);
    }
}
