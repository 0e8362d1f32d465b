//! Changes each option that the reference lists while one Flifo runs in front of one real server, and looks whether it
//! is in force as the reference says, and all others as they were.
//!
//! Owns a model of what is in force: the values of the file, but for options that wait for a start. Invariant: a client
//! is connected all the while, and nothing happens to it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use backend::Address;
use bench::private_server::PrivateServer;
use bench::workloads::random::Random;

use crate::client::Client;
use crate::documented_options::{Documented, Machine, Settings, read};
use crate::flifo::{Flifo, free_port};

/// How many servers the configuration lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// That of `[server]`.
    Only,
    /// Two in `[[servers]]`, which are the same one by two addresses.
    Listed,
}

/// What a file says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Content {
    options: Settings,
    /// Members of lists, each with the list's name.
    members: Vec<(&'static str, Settings)>,
}

/// A Flifo whose options are changed.
pub struct OptionStand {
    witness: Client,
    flifo: Flifo,
    _server: PrivateServer,
    _folder: tempfile::TempDir,
    console: Address,
    machine: Machine,
    topology: Topology,
    documented: BTreeMap<String, Documented>,
    order: Vec<String>,
    base: Content,
    in_force: Content,
}

/// The members that change.
const CHANGED: [(&str, usize); 4] = [("users", 2), ("classes", 0), ("servers", 1), ("routes", 0)];

fn quoted(text: &str) -> String {
    format!("{text:?}")
}

fn settings(pairs: &[(&str, String)]) -> Settings {
    pairs.iter().map(|(path, value)| ((*path).to_owned(), value.clone())).collect()
}

impl Content {
    fn text(&self) -> String {
        let mut text = String::new();
        // An empty value is one that is not set.
        for (path, value) in self.options.iter().filter(|(_, value)| !value.is_empty()) {
            writeln!(text, "{path} = {value}").expect("a string takes everything");
        }
        for (list, values) in &self.members {
            writeln!(text, "[[{list}]]").expect("a string takes everything");
            for (path, value) in values.iter().filter(|(_, value)| !value.is_empty()) {
                let name = path.rsplit('.').next().unwrap_or(path);
                writeln!(text, "{name} = {value}").expect("a string takes everything");
            }
        }
        text
    }

    /// The same with these settings; those of lists go to the member that changes.
    fn with(&self, new: &Settings) -> Self {
        let mut content = self.clone();
        for (path, value) in new {
            let list = CHANGED.iter().find(|(list, _)| path.starts_with(&format!("{list}.")));
            let Some((list, at)) = list else {
                content.options.insert(path.clone(), value.clone());
                continue;
            };
            let of_list = content.members.iter_mut().filter(|(name, _)| name == list);
            let (_, member) = of_list.into_iter().nth(*at).expect("there is one that changes");
            member.insert(path.clone(), value.clone());
        }
        content
    }
}

impl OptionStand {
    /// # Panics
    /// If Flifo or its server does not start.
    pub fn start(program: &Path, topology: Topology) -> Self {
        let server = PrivateServer::builder()
            .argument("--proxy-protocol-networks=*")
            .start()
            .expect("a private server");
        for name in ["app", "reader", "other"] {
            let text = format!(
                "CREATE USER {name}@'%' IDENTIFIED BY 'own'; GRANT SELECT ON mysql.* TO {name}@'%'"
            );
            server.sql(&text).expect("a user");
        }
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| folder.path().join(name);
        let console = file("console.sock");
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("made");
        std::fs::write(file("cert.pem"), made.cert.pem()).expect("written");
        std::fs::write(file("key.pem"), made.signing_key.serialize_pem()).expect("written");
        std::fs::write(file("password"), "own\n").expect("written");
        let flifo = Flifo::start_program(
            program,
            &format!(
                "[server]\naddress = {:?}\n[console]\nlisten = [{console:?}]\n[http]\nlisten = []\n",
                server.socket()
            ),
        );
        let listen = format!("[\"127.0.0.1:{}\", {:?}]", flifo.port(), flifo.socket());
        let port = format!("\"127.0.0.1:{}\"", server.port());
        let machine = Machine {
            folder: folder.path().to_owned(),
            server: (format!("{:?}", server.socket()), port),
            listen: listen.clone(),
            console: format!("[{console:?}]"),
            ports: [free_port(), free_port()],
            identity: (file("cert.pem"), file("key.pem")),
            password: file("password"),
        };
        let reference = Command::new(program).arg("config-reference").output().expect("it runs");
        let mut documented = read(&String::from_utf8_lossy(&reference.stdout));
        // The environment of tests says what it is: they may run as root.
        documented.retain(|it| it.path != "hardening.privileged_user");
        let order = documented.iter().map(|it| it.path.clone()).collect();
        let documented = documented.into_iter().map(|it| (it.path.clone(), it)).collect();
        let base = base(&machine, topology);
        let witness = Client::builder(Address::Unix(flifo.socket()), "app", "own");
        flifo.change_configuration(|_| base.text());
        let console = Address::Unix(console);
        Client::builder(console.clone(), "admin", "")
            .connect()
            .and_then(|mut admin| admin.query("RELOAD"))
            .unwrap_or_else(|problem| panic!("{problem}:\n{}", base.text()));
        Self {
            witness: witness.connect().expect("a login"),
            flifo,
            _server: server,
            _folder: folder,
            console,
            machine,
            topology,
            documented,
            order,
            in_force: base.clone(),
            base,
        }
    }

    /// Changes each option to one of its values, and back.
    ///
    /// # Panics
    /// If something is not in force as the reference says.
    pub fn change_each(&mut self, random: &mut Random) {
        for changes in self.all() {
            let at = random.between(0, changes.len() as u64 - 1) as usize;
            let base = self.base.clone();
            self.change_to(&base.with(&changes[at]));
            self.change_to(&base);
        }
    }

    /// Changes several options at once, from one set to the next.
    ///
    /// # Panics
    /// If something is not in force as the reference says.
    pub fn change_sets(&mut self, random: &mut Random, sets: u32) {
        let all = self.all();
        for _ in 0..sets {
            let mut content = self.base.clone();
            let mut set = Settings::new();
            for _ in 0..random.between(2, 12) {
                let changes = &all[random.between(0, all.len() as u64 - 1) as usize];
                let some = &changes[random.between(0, changes.len() as u64 - 1) as usize];
                // What is set together stands together.
                if !some.keys().any(|path| set.contains_key(path)) && fits(&set, some) {
                    set.extend(some.clone());
                    content = content.with(some);
                }
            }
            self.change_to(&content);
        }
        let base = self.base.clone();
        self.change_to(&base);
    }

    /// Writes values that options may not have: nothing changes, and all that is wrong is told.
    ///
    /// # Panics
    /// If something else happens.
    pub fn refuse_each(&mut self) {
        let before = self.shown();
        let mut bad_files: [(Content, Vec<String>); 2] =
            [false, true].map(|_| (self.base.clone(), Vec::new()));
        for path in self.own_order() {
            let option = self.documented[&path].clone();
            for bad in option.bad_values() {
                let content = self.base.with(&Settings::from([(path.clone(), bad.clone())]));
                let told = self.refused(&content);
                assert!(told.contains(&format!("{path}: ")), "{path} = {bad}: {told}");
            }
            let last = option.bad_values().pop().expect("there is one");
            let (content, paths) = &mut bad_files[usize::from(option.is_of_list())];
            *content = content.with(&Settings::from([(path.clone(), last)]));
            paths.push(path);
        }
        for (content, paths) in bad_files {
            let told = self.refused(&content);
            for path in paths {
                assert!(told.contains(&format!("{path}: ")), "{path}: {told}");
            }
        }
        assert_eq!(self.shown(), before, "a bad file changes nothing");
        let base = self.base.clone();
        self.change_to(&base);
    }

    /// # Panics
    /// If Flifo does not end well.
    pub fn end(self) {
        let Self { witness, flifo, .. } = self;
        drop(witness);
        let (status, log) = flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
    }

    /// Options that are changed in this topology.
    fn own_order(&self) -> Vec<String> {
        let is_of_listed = |path: &str| path.starts_with("servers.") || path.starts_with("routes.");
        // Of a cluster there must be several options at once; tests of clusters reload them.
        let is_of_clusters =
            |path: &str| path.starts_with("clusters.") || path.ends_with(".cluster");
        let is_own = |path: &&String| match self.topology {
            _ if is_of_clusters(path) => false,
            Topology::Only => !is_of_listed(path),
            Topology::Listed => !matches!(path.as_str(), "server.address" | "server.name"),
        };
        self.order.iter().filter(is_own).cloned().collect()
    }

    fn all(&self) -> Vec<Vec<Settings>> {
        let values = |path: &String| self.documented[path].values(&self.machine);
        self.own_order().iter().map(values).collect()
    }

    /// Has this file in force, and looks whether it is.
    fn change_to(&mut self, content: &Content) {
        let mut expected = self.changes(&self.in_force, content);
        let told = self.reload(content);
        let mut told = told.unwrap_or_else(|problem| panic!("{problem}:\n{}", content.text()));
        told.sort();
        expected.sort();
        assert_eq!(told, expected, "from\n{}\nto\n{}", self.in_force.text(), content.text());
        self.in_force = self.after(content);
        let shown = self.shown();
        for (path, option) in self.documented.iter().filter(|(_, it)| !it.is_of_list()) {
            let value = self.effective(&self.in_force.options, path).map(|value| {
                match option.is_secret() {
                    true => "set".to_owned(),
                    false => value,
                }
            });
            let unset = if option.is_secret() { "not set" } else { "NULL" };
            let value = value.unwrap_or_else(|| unset.to_owned());
            assert_eq!(shown.get(path), Some(&value), "{path}, by\n{}", content.text());
        }
        let waits = self.changes(&self.in_force, content);
        let again = self.reload(content).expect("the same file");
        assert_eq!(again, waits, "the same file again: what waits for a start is named again");
        // The server has no TLS: where it is to be verified, a new connection to it would fail.
        if content.options.get("server.tls").is_some_and(|mode| mode.contains("verify")) {
            return;
        }
        self.witness.query("SELECT 1").unwrap_or_else(|problem| {
            panic!("the witness: {problem}, by\n{}\n{}", content.text(), self.flifo.log())
        });
    }

    /// What is in force after a reload of this file.
    fn after(&self, content: &Content) -> Content {
        let mut after = content.clone();
        for (path, option) in &self.documented {
            if !option.in_force.starts_with("when") {
                continue;
            }
            match self.in_force.options.get(path) {
                Some(value) => _ = after.options.insert(path.clone(), value.clone()),
                None => _ = after.options.remove(path),
            }
        }
        after
    }

    /// What a reload tells: options, and when they are in force.
    fn changes(&self, old: &Content, new: &Content) -> Vec<(String, String)> {
        let mut changes = Vec::new();
        let is_changed = |path: &str, (old, new): (&Settings, &Settings)| {
            self.effective(old, path) != self.effective(new, path)
        };
        for path in self.order.iter().filter(|path| !self.documented[*path].is_of_list()) {
            if is_changed(path, (&old.options, &new.options)) {
                changes.push((path.clone(), self.documented[path].in_force.clone()));
            }
        }
        for (list, _) in CHANGED {
            let named = |content: &Content| -> BTreeMap<String, Settings> {
                let of_list = content.members.iter().filter(|(name, _)| *name == list);
                let name = |(at, (_, member)): (usize, &(&'static str, Settings))| {
                    let name = member.get(&format!("{list}.name"));
                    let name = name.map(|it| it.trim_matches('"').to_owned());
                    (name.unwrap_or_else(|| (at + 1).to_string()), member.clone())
                };
                of_list.enumerate().map(name).collect()
            };
            let (old, new) = (named(old), named(new));
            let when = if list == "routes" { "for new connections" } else { "now" };
            for name in old.keys().chain(new.keys()) {
                if old.contains_key(name) != new.contains_key(name) {
                    changes.push((format!("{list}.{name}"), when.to_owned()));
                }
            }
            for (name, new) in &new {
                let Some(old) = old.get(name) else { continue };
                for path in self.order.iter().filter(|path| path.starts_with(&format!("{list}."))) {
                    if is_changed(path, (old, new)) {
                        let option = path.rsplit('.').next().unwrap_or(path);
                        let when = self.documented[path].in_force.clone();
                        changes.push((format!("{list}.{name}.{option}"), when));
                    }
                }
            }
        }
        changes
    }

    /// An option's value by a file: what it sets, or the default.
    fn effective(&self, settings: &Settings, path: &str) -> Option<String> {
        // A password in a file is one that is set.
        let has_file = || settings.contains_key(&format!("{path}_file"));
        if (path.ends_with(".password") || path.ends_with(".second_password")) && has_file() {
            return Some(quoted("own"));
        }
        let set = settings.get(path).filter(|value| !value.is_empty());
        set.or_else(|| self.documented[path].default.as_ref()).cloned()
    }

    fn reload(&self, content: &Content) -> Result<Vec<(String, String)>, String> {
        self.flifo.change_configuration(|_| content.text());
        let rows = self.admin().query("RELOAD").map_err(|problem| problem.to_string())?;
        Ok(rows.into_iter().map(|row| (row[0].clone(), row[3].clone())).collect())
    }

    fn refused(&self, content: &Content) -> String {
        let told = self.reload(content).expect_err(&content.text());
        assert!(told.contains("nothing has changed"), "{told}");
        told
    }

    fn admin(&self) -> Client {
        Client::builder(self.console.clone(), "admin", "").connect().expect("the console")
    }

    /// Options of the plan, as the console shows them.
    fn shown(&self) -> BTreeMap<String, String> {
        let rows = self.admin().query("SHOW FULL CONFIG").expect("a table");
        rows.into_iter().map(|row| (row[0].clone(), row[1].clone())).collect()
    }
}

/// Whether what is to be set can stand beside what is set.
fn fits(set: &Settings, some: &Settings) -> bool {
    let all = || set.keys().chain(some.keys()).map(String::as_str);
    let has = |path: &str| all().any(|it| it == path);
    let passwords = ["checks.password", "checks.password_file"];
    let own = ["users.password", "users.password_hash", "users.password_file"];
    let second =
        ["users.second_password", "users.second_password_hash", "users.second_password_file"];
    let both = |paths: &[&str]| paths.iter().filter(|path| has(path)).count() > 1;
    // A hash goes with its own plugin.
    let passwords_differ =
        both(&passwords) || both(&own[1..]) || both(&second) || has(own[1]) && has("users.plugin");
    // An authority that verifies nothing is refused, and the server's other addresses have no TLS.
    let tls_differs = ["server", "servers"].iter().any(|of| {
        let (mode, authority) = (format!("{of}.tls"), format!("{of}.tls_ca"));
        let is_other = |it: &str| it.starts_with(&mode) && it != mode && it != authority;
        has(&authority) && all().any(is_other)
    });
    !passwords_differ && !tls_differs
}

fn base(machine: &Machine, topology: Topology) -> Content {
    let mut options = settings(&[
        ("listen", machine.listen.clone()),
        ("console.listen", machine.console.clone()),
        ("http.listen", "[]".to_owned()),
        ("limits.connect", quoted("1m")),
        ("limits.wait", quoted("5m")),
    ]);
    let mut members = Vec::new();
    for name in ["app", "reader", "other"] {
        let user = settings(&[("users.name", quoted(name)), ("users.password", quoted("own"))]);
        members.push(("users", user));
    }
    let few = [("classes.name", quoted("few")), ("classes.users", "[\"other\"]".to_owned())];
    members.push(("classes", settings(&few)));
    let (socket, port) = &machine.server;
    match topology {
        Topology::Only => _ = options.insert("server.address".to_owned(), socket.clone()),
        Topology::Listed => {
            for (name, address, group) in [("db1", socket, "writer"), ("db2", port, "readers")] {
                members.push((
                    "servers",
                    settings(&[
                        ("servers.name", quoted(name)),
                        ("servers.address", address.clone()),
                        ("servers.group", quoted(group)),
                    ]),
                ));
            }
            let route =
                [("routes.mode", quoted("readers")), ("routes.users", "[\"other\"]".to_owned())];
            members.push(("routes", settings(&route)));
        }
    }
    Content { options, members }
}
