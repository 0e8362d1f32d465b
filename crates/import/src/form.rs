//! The form of `[[rules]]` and `[[clusters]]` in a configuration: the only file here that knows it.

use std::fmt::Write;

use regex_syntax::ParserBuilder;

use crate::value::{Value, quoted};

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
    Cache(Value),
}

impl Act {
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
                // ProxySQL sends what changes rows twice as well.
                format!("mirror = {{ cluster = {}, writes = true }}", quoted(cluster))
            }
            Self::LogSlow => "log = [\"slow\"]".to_owned(),
            Self::KeepConnection => "connection = \"keep\"".to_owned(),
            Self::ShareConnection => "connection = \"share\"".to_owned(),
            Self::Retries(count) => format!("retries = {count}"),
            Self::Cache(time) => format!("cache = {time}"),
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
    fn a_rule_is_written_as_a_configuration_has_it() {
        let mut rule = Rule::new("a".to_owned(), Then::Stop);
        rule.conditions.user("app_rw");
        rule.acts.push(Act::Delay("1s".into()));
        rule.acts.push(Act::Mirror { cluster: "b".to_owned() });
        let want = "[[rules]]\nname = \"a\"\nmatch = { user = 'app\\_rw' }\ndelay = \"1s\"\n\
                    mirror = { cluster = \"b\", writes = true }\nthen = \"stop\"\n";
        assert_eq!(rule.written(), want);
    }
}
