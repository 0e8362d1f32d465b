//! Options that were once read at the start alone, changed while Flifo runs.

use std::os::unix::net::UnixStream;
use std::process::Command;

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::process::Signal;
use sys::threads::{Policy, threads};
use sys::tree::Tree;
use testkit::flifo::{Flifo, program};
use testkit::scene::wait_for;

use crate::reload::{Scene, pair, user};

const READ: &str = "GRANT SELECT ON mysql.global_priv TO ";

/// Whether the clients of this user share backends.
fn is_pooled(scene: &Scene, name: &str) -> bool {
    let mut client = scene.client(name).expect("a login");
    client.query("SELECT 1").unwrap();
    let kind = format!("SELECT kind FROM clients WHERE user = '{name}'");
    scene.console().query(&kind).unwrap() == [["pooled"]]
}

#[test]
fn another_user_reads_the_table_of_accounts() {
    let rest = [user("app", ""), user("one", ""), user("two", "")].concat();
    let scene = Scene::start("workers = 2", &rest);
    for name in ["one", "two"] {
        let text = format!("CREATE USER {name}@'%' IDENTIFIED BY \"{name}'s\"");
        scene.server.sql(&text).unwrap();
    }
    scene.server.sql(&format!("{READ} one@'%'")).unwrap();
    assert!(!is_pooled(&scene, "report"), "its password is not known");
    let read_by = |name: &'static str| {
        move |text: &str| {
            let kept = text.lines().filter(|line| !line.starts_with("accounts_user"));
            let kept: String = kept.map(|line| format!("{line}\n")).collect();
            let own = if name.is_empty() {
                String::new()
            } else {
                format!("accounts_user = \"{name}\"\n")
            };
            kept.replace("[server]\n", &format!("[server]\n{own}"))
        }
    };
    let told = [pair("server.accounts_user", "now")];
    assert_eq!(scene.reload(read_by("one")), told);
    assert!(is_pooled(&scene, "report"));
    let mut before = scene.client("report").unwrap();
    before.query("BEGIN").unwrap();

    // The new reader's rights decide: it may not read.
    assert_eq!(scene.reload(read_by("two")), told);
    assert!(!is_pooled(&scene, "report"), "what the one before has read counts no longer");
    before.query("SELECT 1").expect("its transaction goes on");
    before.query("COMMIT").unwrap();
    wait_for("the client to end behind its transaction", || before.query("SELECT 1").is_err());
    scene.server.sql(&format!("{READ} two@'%'")).unwrap();
    scene.reload(read_by(""));
    assert!(!is_pooled(&scene, "report"));
    assert_eq!(scene.reload(read_by("two")), told);
    assert!(is_pooled(&scene, "report"));
    let mut during = scene.client("report").unwrap();
    during.query("SELECT 1").unwrap();
    assert_eq!(scene.reload(read_by("one")), told);
    during.query("SELECT 1").expect("to this client nothing has happened");
    assert!(is_pooled(&scene, "app"));
    scene.end();
}

#[test]
fn definitions_are_read_from_now_on_or_no_longer() {
    let scene = Scene::start("workers = 1", &user("app", ""));
    scene.server.sql("CREATE DATABASE d; CREATE VIEW d.v AS SELECT LAST_INSERT_ID(5)").unwrap();
    let keeps = || {
        let mut client = scene.client("app").unwrap();
        // Of a view of another schema, the server reports a change of state.
        client.query("USE d").unwrap();
        client.query("SELECT * FROM v").unwrap();
        let id = &client.query("SELECT CONNECTION_ID()").unwrap()[0][0];
        let pin =
            scene.console().query(&format!("SELECT pin FROM clients WHERE id = {id}")).unwrap();
        pin[0][0].clone()
    };
    assert_ne!(keeps(), "NULL", "the view is known to leave something");
    let mut connected = scene.client("app").unwrap();
    connected.query("USE d").unwrap();
    let told = [pair("server.read_definitions", "now")];
    let off = "[server]\nread_definitions = \"off\"\n";
    assert_eq!(scene.reload(|text| text.replace("[server]\n", off)), told);
    assert_eq!(keeps(), "NULL", "what the server reports is all there is");
    assert_eq!(scene.reload(|text| text.replace(off, "[server]\n")), told);
    // It was there before definitions were read again.
    let pinned = "SELECT COUNT(*) FROM clients WHERE user = 'app' AND pin IS NOT NULL";
    wait_for("the client to be pinned", || {
        connected.query("SELECT * FROM v").unwrap();
        scene.console().query(pinned).unwrap() == [["1"]]
    });
    drop(connected);
    // As another reader, which sees all.
    let reads = "[server]\naccounts_user = \"app\"\n";
    scene.reload(|text| text.replace("[server]\n", reads));
    wait_for("the view to be known", || keeps() != "NULL");
    scene.reload(|text| text.replace(reads, "[server]\n"));
    assert_ne!(keeps(), "NULL", "it is known all the while");
    scene.end();
}

#[test]
fn checks_have_an_account_of_their_own() {
    let checks = "[checks]\ninter = \"50ms\"\nuser = \"watch\"\npassword = \"one\"\n";
    let rest = format!("{checks}{}", user("app", ""));
    let scene = Scene::start(
        "workers = 2",
        &rest.replace("watch", "app").replace("password = \"one\"\n", ""),
    );
    scene.server.sql("CREATE USER watch@'%' IDENTIFIED BY 'one'").unwrap();
    scene.server.sql("CREATE USER other@'%' IDENTIFIED BY 'two'").unwrap();
    let logged_in = |name: &str| {
        let text =
            format!("SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{name}'");
        scene.client("app").unwrap().query(&text).unwrap()[0][0] != "0"
    };
    let reason = || {
        let rows = scene.console().query("SELECT state, reason FROM servers").unwrap();
        rows[0].join(" ")
    };
    let told = scene.reload(|text| {
        text.replacen("user = \"app\"\n", "user = \"watch\"\npassword = \"one\"\n", 1)
    });
    assert_eq!(told, [pair("checks.user", "now"), pair("checks.password", "now")]);
    wait_for("the check's own login", || logged_in("watch"));
    // Another account is used from the next check on.
    let told = scene.reload(|text| text.replace("watch", "other").replace("\"one\"", "\"two\""));
    assert_eq!(told, [pair("checks.user", "now"), pair("checks.password", "now")]);
    wait_for("the other account to be asked, and the first no more", || {
        logged_in("other") && !logged_in("watch")
    });
    let file = scene.folder.path().join("password");
    std::fs::write(&file, "wrong\n").unwrap();
    let told = scene
        .reload(|text| text.replace("password = \"two\"", &format!("password_file = {file:?}")));
    assert_eq!(told, [pair("checks.password", "now"), pair("checks.password_file", "now")]);
    wait_for("the check to fail", || reason().contains("1045"));
    std::fs::write(&file, "two\n").unwrap();
    wait_for("the renewed password", || reason().starts_with("up"));
    scene.end();
}

/// How many connections wait in the socket of a Flifo that accepts none.
fn room_in_the_queue(flifo: &Flifo) -> usize {
    flifo.signal(Signal::STOP);
    let tasks = format!("/proc/{}/task", flifo.pid());
    wait_for("all threads to be stopped", || {
        std::fs::read_dir(&tasks).unwrap().all(|task| {
            let stat = std::fs::read_to_string(task.unwrap().path().join("stat"));
            stat.is_ok_and(|it| it.rsplit(')').next().is_some_and(|it| it.starts_with(" T")))
        })
    });
    let address = rustix::net::SocketAddrUnix::new(flifo.socket()).unwrap();
    let mut waiting = Vec::new();
    loop {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let socket = socket.unwrap();
        match rustix::net::connect(&socket, &address) {
            Ok(()) => waiting.push(socket),
            Err(error) => {
                assert_eq!(error, rustix::io::Errno::AGAIN);
                break;
            }
        }
    }
    let room = waiting.len();
    drop(waiting);
    flifo.signal(Signal::CONT);
    room
}

#[test]
fn the_backlog_of_open_sockets_changes() {
    let scene = Scene::start("backlog = 3", &user("app", ""));
    let room = || {
        let room = room_in_the_queue(&scene.flifo);
        let greeted = || UnixStream::connect(scene.flifo.socket()).is_ok();
        wait_for("the queue to be empty", || {
            greeted() && scene.console().query("SHOW CLIENTS").unwrap().is_empty()
        });
        room
    };
    assert_eq!(room(), 4);
    for (backlog, waiting) in [(20, 21), (1, 2)] {
        let told = scene.reload(|text| {
            let rest: String = text
                .lines()
                .filter(|it| !it.starts_with("backlog"))
                .map(|it| format!("{it}\n"))
                .collect();
            format!("backlog = {backlog}\n{rest}")
        });
        assert_eq!(told, [pair("backlog", "now")]);
        assert_eq!(room(), waiting);
    }
    scene.end();
}

#[test]
fn digests_are_kept_or_not() {
    let scene = Scene::start("workers = 1", &user("app", ""));
    let kept = |text: &str| {
        scene.client("app").unwrap().query(text).unwrap();
        let rows = scene.console().query("SELECT text FROM digests").unwrap();
        rows.into_iter().map(|mut row| row.swap_remove(0)).collect::<Vec<_>>()
    };
    assert_eq!(kept("SELECT 1"), ["SELECT ?"]);
    scene.console().query("SET console.digests = 0").unwrap();
    assert!(kept("SELECT 1, 2").is_empty());
    scene.console().query("SET console.digests = 1").unwrap();
    assert_eq!(kept("SELECT 'a' AS x"), ["SELECT ? AS x"]);
    scene.end();
}

#[test]
fn placement_begins_and_ends_where_it_may() {
    let scene = Scene::start("", "[hardening]\nsandbox = \"off\"\n[placement]\npolicy = \"off\"\n");
    let pid = scene.server.pid().expect("it runs");
    let all = |policy: Policy| {
        let threads = threads(&Tree::live(), pid);
        threads.known().is_some_and(|them| them.iter().all(|it| it.policy == policy))
    };
    let policy =
        || scene.console().query("SELECT value FROM placement WHERE name = 'policy'").unwrap();
    assert!(all(Policy::Other));
    let state = scene.folder.path().join("own");
    std::fs::create_dir(&state).unwrap();
    let told = scene.reload(|text| {
        let file = state.join("placement.json");
        text.replace("policy = \"off\"", &format!("policy = \"batch\"\nstate_file = {file:?}"))
    });
    assert_eq!(told, [pair("placement.policy", "now"), pair("placement.state_file", "now")]);
    wait_for("the server's threads to be batch threads", || all(Policy::Batch));
    let told = scene.reload(|text| text.replace("policy = \"batch\"", "policy = \"observe\""));
    assert_eq!(told, [pair("placement.policy", "now")]);
    assert!(all(Policy::Other), "it is undone before the answer comes");
    wait_for("it to be told", || policy() == [["observe"]]);
    scene.console().query("SET placement.policy = batch").unwrap();
    wait_for("the server's threads to be batch threads", || all(Policy::Batch));
    scene.end();
}

#[test]
fn a_flifo_in_its_sandbox_waits_for_a_start_to_place() {
    let scene = Scene::start("", "[placement]\npolicy = \"observe\"\n");
    let later = |text: &str| text.replace("policy = \"observe\"", "policy = \"batch\"");
    assert_eq!(scene.reload(later), [pair("placement.policy", "when Flifo is started again")]);
    assert_eq!(scene.shown("placement.policy").unwrap()[1], "\"observe\"");
    let problem = scene.console().query("SET placement.policy = batch").unwrap_err().to_string();
    assert!(problem.contains("no change") || problem.contains("hardening.sandbox"), "{problem}");
    let off = scene.reload(|text| text.replace("policy = \"batch\"", "policy = \"off\""));
    assert_eq!(off, [pair("placement.policy", "now")]);
    scene.end();
}

/// Tests run as a user that owns their server's socket, or as root.
#[test]
fn a_privileged_user_is_refused_by_a_reload() {
    let server = bench::private_server::PrivateServer::start_default().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let console = folder.path().join("console.sock");
    let unallowed = || {
        let mut command = Command::new("env");
        command.args(["-u", "FLIFO_ALLOW_PRIVILEGED_USER"]).arg(program());
        command
    };
    let flifo = Flifo::start_by(
        unallowed,
        &format!(
            "[server]\naddress = {:?}\n[console]\nlisten = [{console:?}]\n[http]\nlisten = []\n\
             [hardening]\nprivileged_user = \"allowed\"\n",
            server.socket()
        ),
    );
    let scene = Scene { flifo, server, folder };
    scene.flifo.change_configuration(|text| text.replace("\"allowed\"", "\"refused\""));
    let problem = scene.console().query("RELOAD").unwrap_err().to_string();
    assert!(problem.contains("nothing has changed: Flifo does not serve as"), "{problem}");
    assert_eq!(scene.shown("hardening.privileged_user").unwrap()[1], "\"allowed\"");
    scene.end();
}
