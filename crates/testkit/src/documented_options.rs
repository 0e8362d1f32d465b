//! The options that Flifo's reference lists, each with other values that it may have, and values that it may not: for
//! tests that change each of them.
//!
//! Owns how values are made of what the reference says; which of them would keep a test from going on is said in a short
//! list ([`Machine::own`]). An option that the reference lists and of which nothing can be made fails the test.

use std::collections::BTreeMap;
use std::path::PathBuf;

/// One option of the reference.
#[derive(Clone, Debug)]
pub struct Documented {
    /// As in `limits.wait`; of lists, as in `users.clients_max`.
    pub path: String,
    value: String,
    /// As TOML; `None`: it is not set.
    pub default: Option<String>,
    example: Option<String>,
    /// When a reload puts it in force: the words that `RELOAD` answers with.
    pub in_force: String,
}

/// Options with values, as TOML: what is set together because neither is of use alone.
pub type Settings = BTreeMap<String, String>;

/// What there is on this machine for options to name.
#[derive(Clone, Debug)]
pub struct Machine {
    /// An empty folder that Flifo may write to.
    pub folder: PathBuf,
    /// Where the server is: its socket, and its port.
    pub server: (String, String),
    /// The addresses of clients and of the console, as lists.
    pub listen: String,
    pub console: String,
    /// Free ports.
    pub ports: [u16; 2],
    /// A certificate that is its own authority, and its key.
    pub identity: (PathBuf, PathBuf),
    /// A file with the password of all users.
    pub password: PathBuf,
}

/// The options of a reference, in its order.
///
/// # Panics
/// If it has another form.
pub fn read(reference: &str) -> Vec<Documented> {
    let sections = reference.split("\n### `").skip(1);
    let option = |text: &str| {
        let field = |name: &str| {
            let begin = format!("- {name}: ");
            text.lines().find_map(|line| line.strip_prefix(&begin)).map(str::to_owned)
        };
        let path = text.split('`').next().expect("a name").to_owned();
        let example = field("Example");
        let example = example
            .map(|it| it.trim_matches('`').split_once(" = ").expect("name = value").1.to_owned());
        let in_force = field("In force after a reload").expect("it is said");
        let in_force = in_force.split(": ").next().unwrap_or_default().to_owned();
        let default = field("Default").expect("it is said");
        let default = Some(default.trim_matches('`').to_owned()).filter(|it| it != "none");
        let value = field("Value").expect("it is said");
        Documented { value, default, path, example, in_force }
    };
    sections.map(option).collect()
}

impl Documented {
    /// Whether its value is never shown.
    pub fn is_secret(&self) -> bool {
        self.path.ends_with(".password") || self.path.ends_with(".token")
    }

    /// Whether it is of an item of a list, as in `[[users]]`.
    pub fn is_of_list(&self) -> bool {
        let lists = ["users.", "classes.", "clusters.", "servers.", "routes."];
        lists.iter().any(|list| self.path.starts_with(list))
    }

    /// What it may be set to, each with what must be set with it.
    ///
    /// # Panics
    /// If nothing is known that it may be.
    pub fn values(&self, machine: &Machine) -> Vec<Settings> {
        let one = |value: String| Settings::from([(self.path.clone(), value)]);
        let own = machine.own(&self.path);
        let values = if own.is_empty() { self.made().into_iter().map(one).collect() } else { own };
        assert!(
            !values.is_empty(),
            "{}: nothing is known that it may be: {}",
            self.path,
            self.value
        );
        values
    }

    /// Values of its form.
    fn made(&self) -> Vec<String> {
        let is = |begin: &str| self.value.starts_with(begin);
        let bounds = self.bounds();
        if let Some(example) = &self.example {
            return vec![example.clone()];
        }
        match &bounds {
            Some((least, most)) if self.value.contains("duration") => {
                let within = |it: &&str| (millis(least)..=millis(most)).contains(&millis(it));
                let usual: Vec<_> = ["31m", "47m", "2m"].into_iter().filter(within).collect();
                let ends = [least.as_str(), most.as_str()];
                let some = if usual.is_empty() { &ends[..] } else { &usual };
                return some.iter().map(|it| format!("\"{it}\"")).collect();
            }
            Some(_) if is("a size") => return vec!["\"16MiB\"".to_owned(), "\"32MiB\"".to_owned()],
            Some((least, most)) => {
                let [least, most] = [least, most].map(|it| it.parse::<u64>().expect("a number"));
                let usual = [97, 11, 3, 1].into_iter().filter(|it| (least..=most).contains(it));
                return usual.take(2).map(|it| it.to_string()).collect();
            }
            None => {}
        }
        self.choices().into_iter().map(|it| format!("\"{it}\"")).collect()
    }

    /// The names that it may have, if only these.
    fn choices(&self) -> Vec<&str> {
        if !self.value.starts_with('"') || self.value.contains("number") {
            return Vec::new();
        }
        let names: Vec<_> = self.value.split('"').skip(1).step_by(2).collect();
        let is_name = |name: &&str| !name.contains(['/', ':', '.']);
        if names.iter().all(is_name) { names } else { Vec::new() }
    }

    fn bounds(&self) -> Option<(String, String)> {
        let (_, bounds) = self.value.split_once(" from ")?;
        let (least, most) = bounds.split_once(" to ")?;
        Some((least.to_owned(), most.to_owned()))
    }

    /// What it may not be.
    pub fn bad_values(&self) -> Vec<String> {
        let mut bad = vec!["true".to_owned(), "1.5".to_owned()];
        match self.bounds() {
            Some((_, most)) if most.parse::<u64>().is_ok() => {
                bad.push("-1".to_owned());
                bad.push(format!("{most}0"));
                bad.push("\"plenty\"".to_owned());
            }
            Some(_) => bad.extend(["7".to_owned(), "\"7 parsecs\"".to_owned()]),
            None if !self.choices().is_empty() => bad.push("\"perhaps\"".to_owned()),
            None => {}
        }
        bad
    }
}

/// A duration of the reference in milliseconds.
fn millis(text: &str) -> u64 {
    let digits = text.len() - text.trim_start_matches(|it: char| it.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => panic!("{text} is no duration of one unit"),
    };
    number.parse::<u64>().expect("a number") * factor
}

impl Machine {
    /// Values of options whose usual ones would end what a test goes on with, or that name what there is.
    fn own(&self, path: &str) -> Vec<Settings> {
        let file = |name: &str| format!("{:?}", self.folder.join(name));
        let one = |value: String| vec![Settings::from([(path.to_owned(), value)])];
        let more = |list: &str, item: &str| format!("{}, {item}]", list.trim_end_matches(']'));
        let port = |at: usize| format!("\"127.0.0.1:{}\"", self.ports[at]);
        let pair = |other: &str, value: String, its: String| {
            vec![Settings::from([(path.to_owned(), value), (other.to_owned(), its)])]
        };
        let (certificate, key) =
            (format!("{:?}", self.identity.0), format!("{:?}", self.identity.1));
        match path {
            "listen" => one(more(&self.listen, &port(0))),
            "console.listen" => one(more(&self.console, &file("console2.sock"))),
            "http.listen" => one(format!("[{}]", port(1))),
            "clients_max" => {
                ["1234", "999"].into_iter().flat_map(|it| one(it.to_owned())).collect()
            }
            "server.address" => one(self.server.1.clone()),
            // The only server has no TLS, and expects no header.
            "server.tls" | "servers.tls" => one("\"off\"".to_owned()),
            "server.send_proxy" => one("\"v2\"".to_owned()),
            "server.tls_ca" => pair("server.tls", certificate, "\"verify-ca\"".to_owned()),
            "server.tls_cert" => pair("server.tls_key", certificate, key),
            "server.tls_key" => pair("server.tls_cert", key, certificate),
            "servers.tls_ca" => pair("servers.tls", certificate, "\"verify-ca\"".to_owned()),
            "servers.tls_cert" => pair("servers.tls_key", certificate, key),
            "servers.tls_key" => pair("servers.tls_cert", key, certificate),
            "server.own_address" => one("\"127.0.0.1\"".to_owned()),
            "server.accounts_user" | "checks.user" => one("\"reader\"".to_owned()),
            "checks.password" => pair("checks.user", "\"own\"".to_owned(), "\"reader\"".to_owned()),
            "checks.password_file" => {
                pair("checks.user", format!("{:?}", self.password), "\"reader\"".to_owned())
            }
            // Several servers are found by checks: "none" is for the only one.
            "checks.kind" => ["\"ping\"", "\"handshake\""]
                .into_iter()
                .flat_map(|it| one(it.to_owned()))
                .collect(),
            "checks.statement" => one("\"SELECT 'ready', 1\"".to_owned()),
            "tls.cert" => pair("tls.key", certificate, key),
            "tls.key" => pair("tls.cert", key, certificate),
            "tls.client_ca" => one(certificate),
            "proxy_protocol.from" => one("[\"10.0.0.0/8\", \"fd00::/8\"]".to_owned()),
            "logs.file" | "logs.slow.file" | "logs.audit.file" => one(file(path)),
            "logs.audit.kinds" => one("[\"logins\", \"console\"]".to_owned()),
            // A Flifo in its sandbox only looks.
            "placement.policy" => one("\"off\"".to_owned()),
            "placement.state_file" => one(file("placement.json")),
            "checks.state_file" => one(file("servers.json")),
            // An empty value is one that is not set.
            "users.name" => one("\"another\"".to_owned()),
            "users.password" => one("\"another\"".to_owned()),
            "users.password_hash" => {
                let hash = "\"*0123456789ABCDEF0123456789ABCDEF01234567\"".to_owned();
                pair("users.password", hash, String::new())
            }
            "users.second_password_hash" => {
                one("\"*0123456789ABCDEF0123456789ABCDEF01234567\"".to_owned())
            }
            "users.second_password_file" => one(format!("{:?}", self.password)),
            "users.password_file" => {
                pair("users.password", format!("{:?}", self.password), String::new())
            }
            "classes.name" | "servers.name" | "server.name" => one("\"another\"".to_owned()),
            "servers.address" => one(self.server.1.replace("127.0.0.1", "localhost")),
            "servers.agent" => one(port(1)),
            "routes.listen" => {
                let first = self.listen.split(']').next().unwrap_or_default();
                one(format!("{}]", first.split(',').next().unwrap_or_default()))
            }
            "routes.users" => one("[\"app\"]".to_owned()),
            "routes.classes" => one("[\"few\"]".to_owned()),
            _ => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_made_of_what_the_reference_says() {
        let reference = "\n### `limits.wait`\n\nText.\n\n- Value: \"none\" or a duration with its unit, like \"10s\", from 1ms to 1h\n\
            - Default: `\"10s\"`\n- In force after a reload: now\n\n### `workers`\n\n- Value: \"auto\" or a number from 1 to 256\n- Default: `\"auto\"`\n\
            - In force after a reload: when Flifo is started again: a reason\n\n### `logs.level`\n\n- Value: \"error\" or \"warn\"\n- Default: none\n\
            - In force after a reload: now\n";
        let machine = Machine {
            folder: "/f".into(),
            server: (String::new(), String::new()),
            listen: "[]".into(),
            console: "[]".into(),
            ports: [1, 2],
            identity: ("/c".into(), "/k".into()),
            password: "/p".into(),
        };
        let options = read(reference);
        let values = |at: usize| -> Vec<String> {
            options[at].values(&machine).into_iter().flat_map(BTreeMap::into_values).collect()
        };
        assert_eq!(values(0), ["\"31m\"", "\"47m\"", "\"2m\""]);
        assert_eq!(values(1), ["97", "11"]);
        assert_eq!(values(2), ["\"error\"", "\"warn\""]);
        assert_eq!((options[1].default.as_deref(), &options[2].default), (Some("\"auto\""), &None));
        assert_eq!(options[1].in_force, "when Flifo is started again");
        assert!(options[1].bad_values().contains(&"2560".to_owned()));
        assert!(options[2].bad_values().contains(&"\"perhaps\"".to_owned()));
    }
}
