//! interim
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use wire::auth::Secret;

#[derive(Debug, Clone)]
pub struct Plan {
    pub listen: Vec<Listen>,
    pub workers: usize,
    pub clients_max: usize,
    pub backlog: u32,
    pub server: Server,
    pub tls: ClientTls,
    pub proxy_protocol: ProxyProtocol,
    pub limits: Limits,
    pub users: Vec<User>,
}
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen { Tcp(SocketAddr), Unix(PathBuf) }
#[derive(Debug, Clone)]
pub struct Server {
    pub address: Option<link::Address>,
    pub limit: u32,
    pub links_max: u32,
    pub send_proxy: bool,
}
#[derive(Debug, Clone, Default)]
pub struct ClientTls {}
#[derive(Debug, Clone, Default)]
pub struct ProxyProtocol { }
#[derive(Debug, Clone)]
pub struct Limits {
    pub connect: Duration,
    pub login: Duration,
    pub statement: Option<Duration>,
    pub wait: Option<Duration>,
    pub idle_client: Option<Duration>,
    pub idle_link: Option<Duration>,
    pub link_age: Option<Duration>,
    pub stop: Duration,
    pub write_stall: Option<Duration>,
    pub packet_max: u64,
}
#[derive(Debug, Clone)]
pub struct User {
    pub name: String,
    pub password: Option<Secret>,
    pub password_hash: Option<String>,
    pub pooled: bool,
}
impl Default for Plan {
    fn default() -> Self {
        Plan { listen: vec![Listen::Tcp("127.0.0.1:6033".parse().unwrap())], workers: 1, clients_max: 10000, backlog: 4096,
        server: Server { address: None, limit: 64, links_max: 128, send_proxy: false }, tls: ClientTls{}, proxy_protocol: ProxyProtocol{},
        limits: Limits { connect: Duration::from_secs(10), login: Duration::from_secs(10), statement: None, wait: Some(Duration::from_secs(10)), idle_client: Some(Duration::from_secs(28800)), idle_link: Some(Duration::from_secs(60)), link_age: Some(Duration::from_secs(3600)), stop: Duration::from_secs(30), write_stall: Some(Duration::from_secs(60)), packet_max: 1<<30 }, users: vec![] }
    }
}
pub fn interim(text: &str) -> Plan {
    let t: toml::Table = text.parse().unwrap();
    let mut p = Plan::default();
    if let Some(l) = t.get("listen") { p.listen = l.as_array().unwrap().iter().map(|x| { let x = x.as_str().unwrap(); if x.starts_with('/') { Listen::Unix(x.into()) } else { Listen::Tcp(x.parse().unwrap()) } }).collect(); }
    if let Some(w) = t.get("workers") { p.workers = w.as_integer().unwrap() as usize; }
    if let Some(s) = t.get("server").and_then(|s| s.as_table()) {
        if let Some(a) = s.get("address") { p.server.address = Some(a.as_str().unwrap().parse().unwrap()); }
        if let Some(a) = s.get("limit") { p.server.limit = a.as_integer().unwrap() as u32; }
        if let Some(a) = s.get("links_max") { p.server.links_max = a.as_integer().unwrap() as u32; }
    }
    for u in t.get("users").and_then(|u| u.as_array()).into_iter().flatten() {
        p.users.push(User { name: u["name"].as_str().unwrap().into(), password: u.get("password").map(|x| Secret::from(x.as_str().unwrap())), password_hash: None, pooled: true });
    }
    p
}
