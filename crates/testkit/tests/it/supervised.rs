//! Flifo under a supervisor that speaks systemd's protocol: what it is told, and the sockets that it passes.

use std::fs::Permissions;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use backend::Address;
use rustix::process::Signal;
use testkit::client::Client;
use testkit::fake_client::FakeClient;
use testkit::fake_server::{Brand, FakeServer};
use testkit::flifo::{Flifo, program};
use testkit::scene::{PASSWORD, PATIENCE, USER, configuration, row, user};

/// The supervisor's end of what it is told.
struct Ear(UnixDatagram);

impl Ear {
    fn bind(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).expect("binds");
        socket.set_read_timeout(Some(PATIENCE)).expect("is set");
        Self(socket)
    }

    fn next(&self) -> String {
        let mut heard = [0; 4096];
        let length = self.0.recv(&mut heard).expect("Flifo tells something");
        String::from_utf8_lossy(&heard[..length]).into_owned()
    }

    /// The next message that is no beat.
    fn news(&self) -> String {
        std::iter::repeat_with(|| self.next()).find(|it| it != BEAT).expect("endless")
    }
}

const BEAT: &str = "WATCHDOG=1";

#[test]
fn a_supervisor_is_told_of_start_reload_and_stop_and_hears_beats() {
    let server = FakeServer::start_as(Brand::MariaDb);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let ear = Ear::bind(&path);
    let supervised = || {
        let mut command = Command::new(program());
        command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "200000");
        command
    };
    let console = folder.path().join("console.sock");
    let outside = format!("[console]\nlisten = [{console:?}]\n[http]\nlisten = []\n{}", user(""));
    let rest = configuration(server.port(), "workers = 2", &outside);
    let flifo = Flifo::start_by(supervised, &rest);
    let where_to = format!("serving on 127.0.0.1:{}, {}", flifo.port(), flifo.socket().display());
    let ready = format!("READY=1\nSTATUS={where_to}, in front of 127.0.0.1:{}", server.port());
    assert_eq!(ear.news(), ready);
    for _ in 0..3 {
        assert_eq!(ear.next(), BEAT);
    }

    flifo.signal(Signal::HUP);
    let reloading = ear.news();
    let since = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").map(str::parse::<u64>);
    assert!(since.is_some_and(|it| it.is_ok_and(|it| it > 0)), "{reloading}");
    assert_eq!(ear.news(), ready);

    // One that is asked for on the console is one, too.
    let admin = Client::builder(Address::Unix(console.clone()), "admin", "").connect();
    let mut admin = admin.expect("the console");
    assert!(admin.query("RELOAD").expect("a good file").is_empty());
    assert!(ear.news().starts_with("RELOADING=1"));
    assert_eq!(ear.news(), ready);
    drop(admin);

    flifo.change_configuration(|text| text.replace("workers", "wrkers"));
    flifo.signal(Signal::HUP);
    assert!(ear.news().starts_with("RELOADING=1"));
    let refused = ear.news();
    let begins = "READY=1\nSTATUS=the configuration was not read again: nothing has changed: ";
    assert!(refused.starts_with(begins) && refused.contains("did you mean"), "{refused}");

    flifo.ask_to_stop();
    let stopping = ear.news();
    assert!(stopping.starts_with("STOPPING=1\nEXTEND_TIMEOUT_USEC=40000000\n"), "{stopping}");
    let (status, log) = flifo.stop();
    assert!(status.success(), "{log}");
}

/// A Flifo to which these sockets are passed by these names.
fn with_sockets(names: &str, sockets: [OwnedFd; 2], config: &Path) -> Child {
    // A shell knows its own number, which stays when it becomes another program.
    let script =
        "exec 3<&0 4>&1 </dev/null >/dev/null; export LISTEN_PID=$$ LISTEN_FDS=2; exec \"$@\"";
    let [first, second] = sockets;
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(program()).args(["run", "--config"]).arg(config);
    command.env("LISTEN_FDNAMES", names).env("FLIFO_ALLOW_PRIVILEGED_USER", "1");
    command.stdin(Stdio::from(first)).stdout(Stdio::from(second)).stderr(Stdio::piped());
    sys::child::spawn(command).expect("it starts")
}

#[test]
fn clients_wait_in_passed_sockets_while_flifo_is_started_again() {
    let server = FakeServer::start_as(Brand::MariaDb);
    let folder = tempfile::tempdir().unwrap();
    let (path, config) = (folder.path().join("console.sock"), folder.path().join("flifo.toml"));
    let clients = TcpListener::bind("127.0.0.1:0").unwrap();
    let console = UnixListener::bind(&path).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    let port = clients.local_addr().unwrap().port();
    let text = configuration(server.port(), &format!("listen = [\"127.0.0.1:{port}\"]"), "");
    let outside = format!("[console]\nlisten = [{path:?}]\n[http]\nlisten = []\n");
    std::fs::write(&config, format!("{text}{outside}{}", user(""))).unwrap();
    for _ in 0..2 {
        // It has come before Flifo has.
        let mut client = FakeClient::connect(port);
        let sockets = [clients.try_clone().unwrap().into(), console.try_clone().unwrap().into()];
        let mut flifo = with_sockets("clients:console", sockets, &config);
        client.log_in(USER, PASSWORD).expect("a login");
        assert_eq!(client.query("SELECT passed"), row("passed"));
        let admin = Client::builder(Address::Unix(path.clone()), "admin", "").connect();
        let shown = admin.expect("the console").query("SHOW CLIENTS").expect("a table");
        assert_eq!(shown.len(), 1);
        drop(client);
        let status = sys::child::stop(&mut flifo, PATIENCE).expect("it ends");
        assert!(status.success() && path.exists(), "{status}");
    }
}

#[test]
fn passed_sockets_that_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("flifo.toml");
    let socket = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (named, other) = (socket(), socket());
    let listen = format!("listen = [\"{}\"]", named.local_addr().unwrap());
    let text = configuration(1, &listen, "[console]\nlisten = []\n[http]\nlisten = []\n");
    std::fs::write(&config, text).unwrap();
    let where_to = other.local_addr().unwrap().to_string();
    let not_named = format!("{where_to}, and http.listen does not name that address");
    let file = OwnedFd::from(tempfile::tempfile().unwrap());
    let given = || OwnedFd::from(named.try_clone().unwrap());
    for (names, second, why) in [
        ("clients:flifo.socket", other.try_clone().unwrap().into(), "by the name \"flifo.socket\""),
        ("clients:http", file, "for http that takes no connections"),
        ("clients:http", other.into(), &*not_named),
    ] {
        let flifo = with_sockets(names, [given(), second], &config);
        let output = flifo.wait_with_output().expect("it ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(69) && said.contains(why), "{said}");
    }
}
