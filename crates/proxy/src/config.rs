//! What Flifo has been told: reads the configuration into a [`Plan`].

mod plan;

pub use self::plan::{
    ClientTls, ClientTlsMode, Limits, Listen, LogFormat, LogLevel, Logs, Network, Password, Plan,
    ProxyProtocol, Server, User,
};

impl Plan {
    /// How many workers there are.
    pub fn worker_count(&self) -> usize {
        self.workers.unwrap_or(1) as usize
    }
}

pub fn interim(text: &str) -> Plan {
    let t: toml::Table = text.parse().unwrap();
    let mut p = Plan::default();
    if let Some(l) = t.get("listen") { p.listen = l.as_array().unwrap().iter().map(|x| { let x = x.as_str().unwrap(); if x.starts_with('/') { Listen::Unix(x.into()) } else { Listen::Tcp(x.parse().unwrap()) } }).collect(); }
    if let Some(w) = t.get("workers") { p.workers = Some(w.as_integer().unwrap() as u32); }
    if let Some(s) = t.get("server").and_then(|s| s.as_table()) {
        if let Some(a) = s.get("address") { p.server.address = Some(a.as_str().unwrap().parse().unwrap()); }
        if let Some(a) = s.get("limit") { p.server.limit = a.as_integer().unwrap() as u32; }
        if let Some(a) = s.get("links_max") { p.server.links_max = a.as_integer().unwrap() as u32; }
    }
    for u in t.get("users").and_then(|u| u.as_array()).into_iter().flatten() {
        p.users.push(User { name: u["name"].as_str().unwrap().into(), password: u.get("password").map(|x| Password::Plain(x.as_str().unwrap().into())), ..User::default() });
    }
    p
}
