//! The configuration that is being made, and how it is written.
//!
//! Invariants: names of servers, rules and clusters are unique, and so are addresses of servers; an option is set once.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::form::{Cluster, Rule};
use crate::password::Password;
use crate::report::{Place, plain};
use crate::value::{Value, quoted};

/// What a server is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Auto,
    Writer,
    Readers,
}

/// One of `[[servers]]`.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) group: Group,
    /// What it is for if nothing can ask it.
    pub(crate) fallback: Group,
    pub(crate) cluster: Option<String>,
    /// Keys with their values, beside those above.
    pub(crate) more: Vec<(&'static str, Value)>,
    pub(crate) comments: Vec<String>,
}

/// One of `[[users]]`.
#[derive(Clone, Debug)]
pub(crate) struct User {
    pub(crate) name: String,
    /// `None`: its clients are passed through.
    pub(crate) password: Option<Password>,
    pub(crate) cluster: Option<String>,
    pub(crate) more: Vec<(&'static str, Value)>,
    pub(crate) comments: Vec<String>,
}

/// One of `[[routes]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    pub(crate) mode: &'static str,
    /// `None`: the first one, or that of the user.
    pub(crate) cluster: Option<String>,
    pub(crate) listen: Vec<String>,
    pub(crate) users: Vec<String>,
    pub(crate) schemas: Vec<String>,
    pub(crate) classes: Vec<String>,
    pub(crate) comments: Vec<String>,
}

/// One of `[[classes]]`: clients from these networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) name: String,
    pub(crate) from: Vec<String>,
    pub(crate) comments: Vec<String>,
}

#[derive(Debug)]
struct Setting {
    value: Value,
    note: String,
}

/// A configuration in the making.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// By their names in full.
    options: BTreeMap<&'static str, Setting>,
    pub(crate) servers: Vec<Server>,
    pub(crate) users: Vec<User>,
    pub(crate) classes: Vec<Class>,
    pub(crate) routes: Vec<Route>,
    pub(crate) clusters: Vec<Cluster>,
    pub(crate) rules: Vec<Rule>,
    names: Names,
    /// Addresses of servers, with their places in `servers`.
    addresses: BTreeMap<String, usize>,
}

impl Draft {
    pub(crate) fn option(&self, option: &str) -> Option<&Value> {
        self.options.get(option).map(|it| &it.value)
    }

    /// Sets an option; one that is set stays as it is. Returns whether the option now has this value.
    pub(crate) fn set(&mut self, option: &'static str, value: Value, note: &str) -> bool {
        let setting = Setting { value, note: plain(note) };
        let value = setting.value.clone();
        self.options.entry(option).or_insert(setting).value == value
    }

    pub(crate) fn unset(&mut self, option: &str) {
        self.options.remove(option);
    }

    /// Adds an address to those that Flifo listens on.
    pub(crate) fn listen(&mut self, address: &str, note: &str) {
        let value = Value::List(Vec::new());
        let setting =
            self.options.entry("listen").or_insert(Setting { value, note: String::new() });
        if let Value::List(list) = &mut setting.value
            && !list.iter().any(|it| it == address)
        {
            list.push(address.to_owned());
            let note = plain(note);
            if setting.note.contains(&note) {
                return;
            }
            setting.note =
                if setting.note.is_empty() { note } else { format!("{}; {note}", setting.note) };
        }
    }

    pub(crate) fn listeners(&self) -> &[String] {
        match self.option("listen") {
            Some(Value::List(list)) => list,
            _ => &[],
        }
    }

    /// The server at this address, which is added if there is none.
    pub(crate) fn server(&mut self, address: &str, name: &str, group: Group) -> &mut Server {
        let at = self.addresses.get(address).copied().unwrap_or_else(|| {
            let at = self.servers.len();
            self.addresses.insert(address.to_owned(), at);
            self.servers.push(Server {
                name: self.names.free("server", name),
                address: address.to_owned(),
                group,
                fallback: Group::Writer,
                cluster: None,
                more: Vec::new(),
                comments: Vec::new(),
            });
            at
        });
        &mut self.servers[at]
    }

    pub(crate) fn server_at(&self, address: &str) -> Option<&Server> {
        self.servers.get(*self.addresses.get(address)?)
    }

    pub(crate) fn user(&self, name: &str) -> Option<&User> {
        self.users.iter().find(|user| user.name == name)
    }

    /// A user that is not there yet; else it stays as it is.
    pub(crate) fn add_user(&mut self, user: User) -> bool {
        let is_new = self.names.is_new("user", &user.name);
        if is_new {
            self.users.push(user);
        }
        is_new
    }

    /// A name that nothing else of this kind has.
    pub(crate) fn free_name(&mut self, kind: &'static str, wanted: &str) -> String {
        self.names.free(kind, wanted)
    }

    /// The file, which begins with these lines of comment.
    pub(crate) fn written(&self, head: &[String]) -> String {
        let mut out = String::new();
        comments(&mut out, head);
        for section in SECTIONS {
            self.section(section, &mut out);
        }
        for user in &self.users {
            user.write(&mut out);
        }
        for class in &self.classes {
            class.write(&mut out);
        }
        for cluster in &self.clusters {
            out.push('\n');
            comments(&mut out, &cluster.comments);
            out += &cluster.written();
        }
        for server in &self.servers {
            server.write(&mut out);
        }
        for route in &self.routes {
            route.write(&mut out);
        }
        for rule in &self.rules {
            out.push('\n');
            comments(&mut out, &rule.comments);
            out += &rule.written();
        }
        out
    }

    fn section(&self, section: &str, out: &mut String) {
        let mut has_title = false;
        for (option, Setting { value, note }) in &self.options {
            let (of, key) = option.rsplit_once('.').unwrap_or(("", option));
            if of != section {
                continue;
            }
            if !has_title {
                has_title = true;
                *out +=
                    &if section.is_empty() { "\n".to_owned() } else { format!("\n[{section}]\n") };
            }
            // A string takes everything.
            let _ = match note.is_empty() {
                true => writeln!(out, "{key} = {value}"),
                false => writeln!(out, "{key} = {value} # {note}"),
            };
        }
    }
}

/// Sections in their order.
const SECTIONS: &[&str] = &[
    "",
    "server",
    "checks",
    "routing",
    "tls",
    "proxy_protocol",
    "limits",
    "logs",
    "logs.slow",
    "logs.audit",
    "console",
    "http",
    "hardening",
];

fn comments(out: &mut String, lines: &[String]) {
    for line in lines {
        *out += format!("# {}", plain(line)).trim_end();
        out.push('\n');
    }
}

fn keys(out: &mut String, keys: &[(&'static str, Value)]) {
    for (key, value) in keys {
        let _ = writeln!(out, "{key} = {value}");
    }
}

impl Server {
    /// What was set of its own.
    pub(crate) fn own(&self, key: &str) -> Option<&Value> {
        self.more.iter().find(|(it, _)| *it == key).map(|(_, value)| value)
    }

    pub(crate) fn set(&mut self, key: &'static str, value: Value) {
        if !self.more.iter().any(|(it, _)| *it == key) {
            self.more.push((key, value));
        }
    }

    /// Takes back what was set of its own.
    pub(crate) fn unset(&mut self, key: &str) {
        self.more.retain(|(it, _)| *it != key);
    }

    fn write(&self, out: &mut String) {
        out.push('\n');
        comments(out, &self.comments);
        let _ = writeln!(out, "[[servers]]\nname = {}", quoted(&self.name));
        let _ = writeln!(out, "address = {}", quoted(&self.address));
        match self.group {
            Group::Auto => {}
            Group::Writer => *out += "group = \"writer\"\n",
            Group::Readers => *out += "group = \"readers\"\n",
        }
        if let Some(cluster) = &self.cluster {
            let _ = writeln!(out, "cluster = {}", quoted(cluster));
        }
        keys(out, &self.more);
    }
}

impl User {
    pub(crate) const fn new(name: String, password: Option<Password>) -> Self {
        Self { name, password, cluster: None, more: Vec::new(), comments: Vec::new() }
    }

    fn write(&self, out: &mut String) {
        out.push('\n');
        comments(out, &self.comments);
        let _ = writeln!(out, "[[users]]\nname = {}", quoted(&self.name));
        let _ = match &self.password {
            None => writeln!(out, "mode = \"pass-through\""),
            Some(Password::Plain(text)) => writeln!(out, "password = {}", quoted(text)),
            Some(Password::Hash(text)) => writeln!(out, "password_hash = {}", quoted(text)),
        };
        if let Some(cluster) = &self.cluster {
            let _ = writeln!(out, "cluster = {}", quoted(cluster));
        }
        keys(out, &self.more);
    }
}

impl Route {
    pub(crate) fn new(mode: &'static str, comment: String) -> Self {
        let none = Vec::new;
        let (listen, users, schemas, classes) = (none(), none(), none(), none());
        let comments = vec![comment];
        Self { mode, cluster: None, listen, users, schemas, classes, comments }
    }

    fn write(&self, out: &mut String) {
        out.push('\n');
        comments(out, &self.comments);
        let _ = writeln!(out, "[[routes]]\nmode = {}", quoted(self.mode));
        if let Some(cluster) = &self.cluster {
            let _ = writeln!(out, "cluster = {}", quoted(cluster));
        }
        let lists = [
            ("listen", &self.listen),
            ("users", &self.users),
            ("schemas", &self.schemas),
            ("classes", &self.classes),
        ];
        for (key, list) in lists.iter().filter(|(_, list)| !list.is_empty()) {
            let _ = writeln!(out, "{key} = {}", Value::List((*list).clone()));
        }
    }
}

impl Class {
    fn write(&self, out: &mut String) {
        out.push('\n');
        comments(out, &self.comments);
        let _ = writeln!(out, "[[classes]]\nname = {}", quoted(&self.name));
        let _ = writeln!(out, "from = {}", Value::List(self.from.clone()));
    }
}

/// Names that are taken, by kind.
#[derive(Debug, Default)]
struct Names {
    taken: BTreeSet<(&'static str, String)>,
    /// How often a name was wanted.
    wanted: BTreeMap<(&'static str, String), u32>,
}

impl Names {
    fn is_new(&mut self, kind: &'static str, name: &str) -> bool {
        self.taken.insert((kind, name.to_owned()))
    }

    fn free(&mut self, kind: &'static str, wanted: &str) -> String {
        let base = word(wanted);
        let count = self.wanted.entry((kind, base.clone())).or_insert(0);
        loop {
            *count += 1;
            let name = match (&*base, *count) {
                (NAMELESS, count) => format!("{base}{count}"),
                (_, 1) => base.clone(),
                (_, count) => format!("{base}-{count}"),
            };
            if self.taken.insert((kind, name.clone())) {
                return name;
            }
        }
    }
}

/// A name that can stand everywhere.
pub(crate) fn word(text: &str) -> String {
    let letter = |letter: char| {
        if letter.is_ascii_alphanumeric() || letter == '_' { letter } else { '-' }
    };
    let word: String = text.chars().map(letter).take(WORD_MAX).collect();
    match word.trim_matches('-') {
        "" => NAMELESS.to_owned(),
        word => word.to_owned(),
    }
}

const WORD_MAX: usize = 40;

/// A server's name: the first label of a host's, and none for an address.
pub(crate) fn host_word(host: &str) -> String {
    let is_name =
        host.contains(|letter: char| letter.is_ascii_alphabetic()) && !host.contains([':', '/']);
    match host.split('.').next() {
        Some(label) if is_name => word(label),
        _ => NAMELESS.to_owned(),
    }
}

/// What is numbered from the first on.
const NAMELESS: &str = "db";

/// `host:port`, with brackets where they are needed; or a socket's path.
pub(crate) fn address(host: &str, port: u16) -> String {
    let host = host.trim();
    match host {
        _ if host.starts_with('/') => host.to_owned(),
        _ if host.contains(':') && !host.starts_with('[') => format!("[{host}]:{port}"),
        _ => format!("{host}:{port}"),
    }
}

/// What a comment says of a place.
pub(crate) fn from(place: &Place, what: &str) -> String {
    format!("{place}: {what}")
}
