//! What is attacked: a MariaDB of its own for all attacks, and a Flifo for each.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use backend::Address;
use bench::private_server::PrivateServer;
use rustix::process::{Pid, Signal, kill_process};
use testkit::client::{Builder, Client, Problem};
use testkit::fake_client::{FakeClient, Refusal};
use testkit::flifo::{Flifo, free_port};
use testkit::logins::certificates;
use wire::auth::Plugin;

use super::attacks::Attack;

/// The user of pooled clients that do not attack.
pub(super) const OTHER: &str = "other";

/// A pass-through client's.
pub(super) const ALONE: &str = "alone";

/// A pooled attacker's.
pub(super) const APP: &str = "app";

/// A pass-through attacker's, which may grant.
pub(super) const BOSS: &str = "boss";

/// It may have two clients.
pub(super) const CAPPED: &str = "capped";

pub(super) const PASSWORD: &str = "a password of theirs";

/// The server, and what its attackers find there.
pub(super) struct Site {
    server: Mutex<PrivateServer>,
    folder: bench::folder::Folder,
}

/// By what Flifo reaches the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leg {
    Socket,
    /// In TLS, with a certificate of Flifo's own.
    Tls,
}

/// Flifo before the server.
pub(super) struct Target<'a> {
    site: &'a Site,
    pub(super) flifo: Flifo,
    http: u16,
    console: u16,
}

impl Site {
    pub(super) fn start() -> Result<Self> {
        let folder = bench::folder::Folder::create()?;
        certificates::make(folder.path());
        let mut builder = PrivateServer::builder()
            .in_memory()
            .argument("--max-connections=600")
            .argument("--max-allowed-packet=64M")
            .argument("--max-connect-errors=4000000000");
        for (option, name) in [("ca", "ca.pem"), ("cert", "server.pem"), ("key", "server-key.pem")]
        {
            let file = folder.path().join(name);
            builder = builder.argument(format!("--ssl-{option}={}", file.display()));
        }
        let site = Self { server: Mutex::new(builder.start()?), folder };
        let users = [OTHER, ALONE, APP, BOSS, CAPPED].map(|user| {
            format!(
                "CREATE USER {user}@'%' IDENTIFIED BY '{PASSWORD}';
                 GRANT SELECT, INSERT, EXECUTE, CREATE TEMPORARY TABLES, SHOW VIEW ON d.* TO {user}@'%';"
            )
        });
        let objects = "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT);
             INSERT INTO d.t VALUES (7, 7);";
        // The administrator's account must not be hidden by an anonymous one, either.
        let (admin, password) = (PrivateServer::ADMIN, site.server().password().to_owned());
        site.sql(&format!(
            "CREATE USER {admin}@localhost IDENTIFIED BY '{password}';
             GRANT ALL ON *.* TO {admin}@localhost WITH GRANT OPTION"
        ))?;
        site.sql(objects)?;
        site.sql(&users.concat())?;
        Ok(site)
    }

    fn server(&self) -> MutexGuard<'_, PrivateServer> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sql(&self, text: &str) -> Result<String> {
        self.server().sql(text)
    }

    /// A program that runs this one with so many descriptors.
    fn bound(&self, program: &Path, descriptors: u32) -> Result<PathBuf> {
        let script = self.file("bounded");
        let text = format!("#!/bin/sh\nulimit -n {descriptors}\nexec {program:?} \"$@\"\n");
        std::fs::write(&script, text)?;
        std::fs::set_permissions(&script, Permissions::from_mode(0o755))?;
        Ok(script)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl<'a> Target<'a> {
    /// As this attack wants it.
    pub(super) fn start(site: &'a Site, program: &Path, attack: &Attack) -> Result<Self> {
        let (http, console) = (free_port(), free_port());
        let (top, server) = attack.config;
        let address = match attack.leg {
            Leg::Socket => format!("address = {:?}", site.server().socket()),
            Leg::Tls => format!(
                "address = \"127.0.0.1:{}\"\ntls_cert = {:?}\ntls_key = {:?}",
                site.server().port(),
                site.file("flifo.pem"),
                site.file("flifo-key.pem")
            ),
        };
        let user = |name: &str, more: &str| {
            format!("[[users]]\nname = \"{name}\"\npassword = \"{PASSWORD}\"\n{more}\n")
        };
        let text = format!(
            "{top}\n[server]\n{address}\n{server}\n{}{}{}[limits]\nlogin = \"2s\"\nupload = \"2s\"\n\
             client_silence = \"5s\"\n\
             [console]\nlisten = [\"127.0.0.1:{console}\"]\n[http]\nlisten = [\"127.0.0.1:{http}\"]\n",
            user(OTHER, ""),
            user(APP, ""),
            user(CAPPED, "clients_max = 2"),
        );
        let bounded = attack.descriptors.map(|most| site.bound(program, most)).transpose()?;
        let flifo = Flifo::start_program(bounded.as_deref().unwrap_or(program), &text);
        Ok(Self { site, flifo, http, console })
    }

    /// Asks the server past Flifo.
    pub(super) fn sql(&self, text: &str) -> Result<String> {
        self.site.sql(text)
    }

    /// The server is killed, and started again after this.
    pub(super) fn lose_server(&self, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut server = self.site.server();
        server.kill()?;
        let outcome = meanwhile();
        server.start()?;
        outcome
    }

    /// The server does nothing at all meanwhile.
    pub(super) fn freeze_server(&self, meanwhile: impl FnOnce() -> Result<()>) -> Result<()> {
        let pid = self.site.server().pid().context("the server runs")?;
        let pid = Pid::from_raw(pid as i32).context("a pid")?;
        kill_process(pid, Signal::STOP)?;
        let outcome = meanwhile();
        kill_process(pid, Signal::CONT)?;
        outcome
    }

    pub(super) fn port(&self) -> u16 {
        self.flifo.port()
    }

    pub(super) fn builder(&self, user: &str, password: &str) -> Builder {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: self.port() };
        Client::builder(address, user, password).plugin(Plugin::NativePassword)
    }

    /// A client with a right password.
    pub(super) fn client(&self, user: &str) -> Result<Client> {
        let client = self.builder(user, PASSWORD).connect();
        client.map_err(|problem| anyhow!("{user} cannot log in: {problem}"))
    }

    /// One whose bytes can be chosen, from the last of these addresses of loopback.
    pub(super) fn bare(&self, user: &str, last: u8) -> Result<FakeClient> {
        let mut client = FakeClient::connect_from(Ipv4Addr::new(127, 0, 0, last), self.port());
        let told = |refusal: Refusal| anyhow!("{user} cannot log in: {refusal:?}");
        client.log_in(user, PASSWORD).map_err(told)?;
        Ok(client)
    }

    /// Whether a client of this name and password is let in, over each kind of session.
    pub(super) fn lets_in(&self, user: &str, password: &str) -> bool {
        let is_in = |result: Result<(), Problem>| result.is_ok();
        let by_login = self.builder(user, password).connect().map(drop);
        let mut sessions = [APP, BOSS].into_iter().filter_map(|base| self.client(base).ok());
        is_in(by_login)
            || sessions.any(|mut it| is_in(it.change_user(user, password, &Plugin::NativePassword)))
    }

    /// A connection to the HTTP port.
    pub(super) fn to_http(&self) -> Result<TcpStream> {
        to(self.http)
    }

    pub(super) fn to_console(&self) -> Result<TcpStream> {
        to(self.console)
    }

    pub(super) fn console(&self) -> Result<Client> {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: self.console };
        let client = Client::builder(address, "anybody", "").connect();
        client.map_err(|problem| anyhow!("the console: {problem}"))
    }

    /// The whole answer of the HTTP port to these bytes.
    pub(super) fn ask_http(&self, request: &str) -> Result<String> {
        let mut stream = self.to_http()?;
        stream.write_all(request.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).context("the HTTP port does not answer")?;
        Ok(answer)
    }

    pub(super) fn get(&self, path: &str) -> Result<String> {
        self.ask_http(&format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
        ))
    }

    /// Errors of Flifo's own, by kind.
    pub(super) fn faults(&self) -> Result<BTreeMap<String, u64>> {
        let page = self.get("/metrics")?;
        let faults = page.lines().filter_map(|line| {
            let (kind, count) =
                line.strip_prefix("flifo_faults_total{kind=\"")?.split_once("\"} ")?;
            Some((kind.to_owned(), count.parse::<f64>().ok()? as u64))
        });
        Ok(faults.collect())
    }

    pub(super) fn memory(&self) -> u64 {
        self.flifo.memory()
    }

    /// Stops Flifo, which must have kept going until then.
    pub(super) fn end(self) -> Result<()> {
        let Self { mut flifo, .. } = self;
        ensure!(!flifo.has_ended(), "Flifo has ended:\n{}", flifo.log());
        let (status, log) = flifo.stop();
        ensure!(status.success(), "Flifo ended with {status}:\n{log}");
        ensure!(!log.contains("panicked"), "Flifo panicked:\n{log}");
        Ok(())
    }
}

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

fn to(port: u16) -> Result<TcpStream> {
    let address = (IpAddr::V4(Ipv4Addr::LOCALHOST), port).into();
    let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}
