//! What servers and those beside them tell, and what is made of it: agents, servers that come back and are not well,
//! checks that are answered too late, and no server at all. In front of servers that are fakes.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use testkit::client::Client;
use testkit::fake_client::FakeClient;
use testkit::fake_server::{Entry, FakeServer};
use testkit::flifo::{Flifo, free_port};
use testkit::overdue::Over;
use testkit::reply::{Reply, honest};
use testkit::scene::{PASSWORD, USER, row, user, wait_for};

/// Fakes behind Flifo, the first of which is the writer, and a console.
struct Group {
    servers: Vec<FakeServer>,
    flifo: Flifo,
    http: u16,
    console: PathBuf,
    _folder: tempfile::TempDir,
}

const QUICK: &str = "inter = \"50ms\"\nfastinter = \"50ms\"\ndowninter = \"50ms\"\n";

impl Group {
    /// `listed` is what is added to the entry of each server.
    fn start(servers: Vec<FakeServer>, top: &str, rest: &str, listed: &[String]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let console = folder.path().join("console.sock");
        let entries: String = servers
            .iter()
            .enumerate()
            .map(|(at, server)| {
                let group = if at == 0 { "writer" } else { "readers" };
                let (number, port) = (at + 1, server.port());
                let more = listed.get(at).map_or("", String::as_str);
                format!(
                    "[[servers]]\nname = \"db{number}\"\naddress = \"127.0.0.1:{port}\"\n\
                     group = \"{group}\"\n{more}\n"
                )
            })
            .collect();
        let http = free_port();
        let outside =
            format!("[console]\nlisten = [{console:?}]\n[http]\nlisten = \"127.0.0.1:{http}\"\n");
        // Fake servers have no definitions.
        let server = "[server]\nread_definitions = \"off\"\n";
        let rest = match rest.contains("[server]\n") {
            true => rest.replacen("[server]\n", server, 1),
            false => format!("{rest}\n{server}"),
        };
        let flifo = Flifo::start(&format!("{top}\n{rest}\n{outside}{entries}{}", user("")));
        Self { servers, flifo, http, console, _folder: folder }
    }

    fn console(&self) -> Client {
        let address = self.console.to_str().unwrap().parse().unwrap();
        Client::builder(address, "admin", "").connect().unwrap()
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.http)).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    fn client(&self) -> FakeClient {
        FakeClient::login(self.flifo.port(), USER, PASSWORD).unwrap()
    }
}

fn fakes(count: usize) -> Vec<FakeServer> {
    (0..count).map(|_| FakeServer::start()).collect()
}

/// One value of what SHOW FULL SERVERS says of this server.
fn of(console: &mut Client, server: &str, column: &str) -> String {
    let columns = [
        ("state", 2),
        ("reason", 4),
        ("limit", 6),
        ("limit_from", 7),
        ("backends", 11),
        ("role", 16),
        ("weight", 18),
        ("agent", 19),
    ];
    let at = columns.iter().find(|(name, _)| *name == column).expect(column).1;
    let text = format!("SHOW FULL SERVERS WHERE name = '{server}'");
    console.query(&text).unwrap()[0][at].clone()
}

fn weight(console: &mut Client, server: &str) -> f64 {
    of(console, server, "weight").parse().unwrap()
}

/// An agent beside a server: sends the same line on every connection, and then closes it.
struct Agent {
    port: u16,
    line: Arc<Mutex<Option<Vec<u8>>>>,
}

impl Agent {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let line = Arc::new(Mutex::new(Some(b"up\n".to_vec())));
        let said = Arc::clone(&line);
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming().map_while(Result::ok) {
                let mut stream = stream;
                match said.lock().unwrap().clone() {
                    // A check that has read enough may have closed the connection.
                    Some(line) => drop(stream.write_all(&line)),
                    None => silent.push(stream),
                }
            }
        });
        Self { port, line }
    }

    fn says(&self, line: impl AsRef<[u8]>) {
        *self.line.lock().unwrap() = Some(line.as_ref().to_vec());
    }

    fn says_nothing(&self) {
        *self.line.lock().unwrap() = None;
    }

    fn listed(&self) -> String {
        format!("agent = \"127.0.0.1:{}\"\n", self.port)
    }
}

/// How the log tells that the second server has come up.
const UP: &str = "\"server\":\"db2\",\"state\":\"up\"";

const AGENTS: &str =
    "[checks]\nkind = \"handshake\"\nagent_inter = \"50ms\"\ntimeout = \"300ms\"\n";

#[test]
fn an_agent_says_what_its_server_may_get() {
    let agent = Agent::start();
    let group = Group::start(
        fakes(3),
        "workers = 2",
        &format!("{AGENTS}{QUICK}[server]\nlimit = 16\n[routing]\nmode = \"readers\""),
        &[String::new(), agent.listed()],
    );
    let (mut console, mut client) = (group.console(), group.client());
    let wait = |console: &mut Client, column: &str, want: &str| {
        let what = format!("{column} to be {want}");
        wait_for(&what, || of(console, "db2", column) == want);
    };
    let mut number = 0;
    // How many of so many reads the second server got.
    let mut reads = |client: &mut FakeClient| {
        number += 1;
        (0..20).for_each(|_| {
            let text = format!("SELECT round{number}");
            assert_eq!(client.query(&text), row(&format!("round{number}")));
        });
        group.servers[1].received(format!("SELECT round{number}").as_bytes())
    };
    wait(&mut console, "agent", "up");
    assert!(reads(&mut client) > 0);
    agent.says("50% maxconn:7\r\nand more");
    wait(&mut console, "agent", "up, 50%, maxconn:7");
    assert_eq!(weight(&mut console, "db2"), 50.0);
    wait(&mut console, "limit", "7");
    assert_eq!(of(&mut console, "db2", "limit_from"), "agent");
    for (line, said, state) in [
        ("drain\n", "up, drain, 50%, maxconn:7", "drain"),
        ("ready 0%\n", "up, 0%, maxconn:7", "drain"),
        ("100% stopped # backup\n", "stopped: backup, 100%, maxconn:7", "down"),
    ] {
        agent.says(line);
        wait(&mut console, "agent", said);
        wait(&mut console, "state", state);
        assert!(of(&mut console, "db2", "reason").contains("its agent says"));
        assert_eq!(reads(&mut client), 0, "{line}");
        wait(&mut console, "backends", "0");
    }
    assert!(of(&mut console, "db2", "role").contains("stopped: backup"));
    // A state that the agent has not taken back holds, even if an operator says otherwise.
    agent.says("ready\n");
    console.query("ENABLE db2").unwrap();
    thread::sleep(Duration::from_millis(300));
    assert_eq!(of(&mut console, "db2", "state"), "down");
    agent.says("up\n");
    wait(&mut console, "state", "up");
    assert!(reads(&mut client) > 0);
    // An operator's order is not taken back by an agent.
    console.query("DRAIN db2").unwrap();
    agent.says("up ready 100%\n");
    thread::sleep(Duration::from_millis(300));
    assert_eq!((of(&mut console, "db2", "state").as_str(), reads(&mut client)), ("drain", 0));
    console.query("ENABLE db2").unwrap();
    agent.says("maxconn:0\n");
    wait(&mut console, "limit", "16");
    assert!(reads(&mut client) > 0);
}

#[test]
fn in_maintenance_by_its_agent_a_server_is_not_checked_and_then_first() {
    let agent = Agent::start();
    let group = Group::start(
        fakes(2),
        "workers = 2",
        &format!("{AGENTS}{QUICK}rise = 3\n"),
        &[String::new(), agent.listed()],
    );
    let mut console = group.console();
    agent.says("maint\n");
    wait_for("maintenance", || of(&mut console, "db2", "state") == "maintenance");
    // One that was under way may still come.
    thread::sleep(Duration::from_millis(200));
    let before = group.servers[1].opened();
    thread::sleep(Duration::from_millis(500));
    assert_eq!(group.servers[1].opened(), before);
    group.servers[1].enter(Entry::Cut(0));
    agent.says("ready\n");
    wait_for("a check", || group.servers[1].opened() > before);
    assert_eq!(of(&mut console, "db2", "state"), "down");
    group.servers[1].enter(Entry::Well);
    wait_for("three checks", || of(&mut console, "db2", "state") == "up");
}

#[test]
fn whatever_an_agent_says_nobody_is_harmed_and_the_reason_is_told() {
    let agent = Agent::start();
    let group = Group::start(
        fakes(2),
        "workers = 2",
        &format!("{AGENTS}{QUICK}"),
        &[String::new(), agent.listed()],
    );
    let (mut console, mut client) = (group.console(), group.client());
    agent.says("up 40%\n");
    wait_for("the agent", || weight(&mut console, "db2") == 40.0);
    let told = "SHOW FULL CHECKS WHERE kind = 'agent'";
    let endless = [b'x'].repeat(8 << 20);
    for (line, why) in [
        (&b""[..], "said nothing"),
        (b"drain", "not the whole line"),
        (b"\xff\xfe\x00\n", "no text"),
        (b"upp 4294967296% maxconn:-1 %\n", "\"upp\""),
        (b"5000000%\n", "no number"),
        (&endless, "longer than"),
    ] {
        agent.says(line);
        wait_for(why, || {
            let rows = console.query(told).unwrap();
            rows[0][2] == "failed" && rows[0][3].contains(why)
        });
        assert_eq!(weight(&mut console, "db2"), 40.0, "{why}");
        assert_eq!(client.query("SELECT x"), row("x"));
    }
    agent.says_nothing();
    wait_for("a line in time", || console.query(told).unwrap()[0][3].contains("no line within"));
    // What is understood counts beside what is not.
    agent.says("sideways drain\n");
    wait_for("drain", || of(&mut console, "db2", "state") == "drain");
    assert!(console.query(told).unwrap()[0][3].contains("sideways"));
    assert!(group.flifo.memory() < 200 << 20);
}

/// Reads from many clients at once, until told to stop; what each got must be right.
fn read_on(group: &Group, over: &AtomicBool, done: &AtomicUsize) {
    let mut client = group.client();
    while !over.load(Relaxed) {
        assert_eq!(client.query("SELECT it"), row("it"));
        done.fetch_add(1, Relaxed);
    }
}

#[test]
fn a_server_that_comes_back_and_is_not_well_costs_a_statement_and_no_client_notices() {
    let group = Group::start(
        fakes(3),
        "workers = 2",
        &format!("[checks]\nkind = \"handshake\"\n{QUICK}[routing]\nmode = \"readers\""),
        &[],
    );
    let mut console = group.console();
    let sick = &group.servers[1];
    let risen = || group.flifo.log().matches(UP).count();
    let (over, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _over = Over(&over);
        for _ in 0..16 {
            scope.spawn(|| read_on(&group, &over, &done));
        }
        wait_for("work", || done.load(Relaxed) > 200);
        sick.enter(Entry::Cut(0));
        sick.hang_up();
        wait_for("it to be down", || of(&mut console, "db2", "state") == "down");
        // It answers checks again, and breaks off whatever it is asked.
        sick.answer(|_| Reply::Close);
        let before = sick.received(b"SELECT it");
        sick.enter(Entry::Well);
        wait_for("it to come up ten times", || risen() >= 10);
        sick.enter(Entry::Cut(0));
        wait_for("it to be down", || of(&mut console, "db2", "state") == "down");
        let (lost, risen) = (sick.received(b"SELECT it") - before, risen());
        // Two workers may have the same thought at the same moment.
        assert!(lost > 0 && lost <= 2 * risen, "{lost} statements lost, {risen} times up");
        sick.answer(honest);
        sick.enter(Entry::Well);
        let before = sick.received(b"SELECT it");
        wait_for("its share", || sick.received(b"SELECT it") > before + 200);
        assert_eq!(of(&mut console, "db2", "reason"), "its trial went well");
        over.store(true, Relaxed);
    });
}

/// A reader that breaks off what it is asked, again and again, and is up all the same: no client notices, be its read the
/// one in front or one behind it, which goes to another of the connections that break off.
#[test]
fn reads_behind_one_that_was_lost_run_elsewhere() {
    let group = Group::start(
        fakes(3),
        "workers = 1",
        &format!("[checks]\nkind = \"handshake\"\n{QUICK}[routing]\nmode = \"readers\""),
        &[],
    );
    let sick = &group.servers[1];
    let (over, done) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _over = Over(&over);
        for _ in 0..24 {
            scope.spawn(|| read_on(&group, &over, &done));
        }
        for _ in 0..40 {
            let before = sick.received(b"SELECT it");
            wait_for("reads there", || sick.received(b"SELECT it") > before + 50);
            sick.answer(|_| Reply::Close);
            let before = sick.received(b"SELECT it");
            wait_for("a loss", || sick.received(b"SELECT it") > before);
            sick.answer(honest);
        }
        over.store(true, Relaxed);
    });
}

/// The same of the writer, for which everybody waits: one of them hears that his statement may have been executed.
#[test]
fn a_writer_that_comes_back_and_is_not_well_costs_a_statement_and_the_others_wait() {
    let group = Group::start(
        fakes(2),
        "workers = 2",
        &format!("[checks]\nkind = \"handshake\"\n{QUICK}[routing]\nhold = \"20s\""),
        &[],
    );
    let (mut console, sick) = (group.console(), &group.servers[0]);
    let mut clients: Vec<_> = (0..12).map(|_| group.client()).collect();
    for client in &mut clients {
        assert_eq!(client.query("UPDATE first"), Ok(vec![]));
    }
    sick.enter(Entry::Cut(0));
    sick.hang_up();
    wait_for("it to be down", || of(&mut console, "db1", "state") == "down");
    sick.answer(|_| Reply::Close);
    let answers: Vec<_> = clients
        .into_iter()
        .map(|mut client| thread::spawn(move || client.query("UPDATE second")))
        .collect();
    let up = UP.replace("db2", "db1");
    let risen = || group.flifo.log().matches(&up).count();
    thread::sleep(Duration::from_millis(200));
    sick.enter(Entry::Well);
    wait_for("it to come up three times, and to lose one", || {
        risen() >= 3 && sick.received(b"UPDATE second") > 0
    });
    sick.enter(Entry::Cut(0));
    wait_for("it to be down", || of(&mut console, "db1", "state") == "down");
    let (lost, times) = (sick.received(b"UPDATE second"), risen());
    sick.answer(honest);
    sick.enter(Entry::Well);
    let (well, failed): (Vec<_>, Vec<_>) =
        answers.into_iter().map(|it| it.join().unwrap()).partition(Result::is_ok);
    // Two workers may have the same thought at the same moment.
    assert!(lost > 0 && lost <= 2 * times, "{lost} statements lost, {times} times up");
    assert_eq!(failed.len(), lost);
    assert_eq!(sick.received(b"UPDATE second"), lost + well.len(), "none ran twice");
    assert!(failed.iter().all(|it| format!("{it:?}").contains("may have been executed")));
}

#[test]
fn the_load_of_a_server_that_comes_back_grows() {
    let group = Group::start(
        fakes(3),
        "workers = 2",
        &format!(
            "[checks]\nkind = \"handshake\"\nslow_start = \"8s\"\n{QUICK}[server]\nlimit = 20\n\
             [routing]\nmode = \"readers\""
        ),
        &[],
    );
    let mut console = group.console();
    assert_eq!(of(&mut console, "db2", "limit"), "20", "at the start all have all");
    let back = &group.servers[1];
    back.enter(Entry::Cut(0));
    back.hang_up();
    wait_for("it to be down", || of(&mut console, "db2", "state") == "down");
    back.enter(Entry::Well);
    wait_for("it to be up", || of(&mut console, "db2", "state") == "up");
    let (begun, mut client) = (Instant::now(), group.client());
    let mut seen = Vec::new();
    while seen.last() != Some(&20) {
        assert!(begun.elapsed() < Duration::from_secs(120), "{seen:?}");
        assert_eq!(client.query("SELECT it"), row("it"));
        let limit: u32 = of(&mut console, "db2", "limit").parse().unwrap();
        if seen.last() != Some(&limit) {
            seen.push(limit);
        }
    }
    // On a busy machine it is looked at late.
    assert!(begun.elapsed() > Duration::from_secs(3), "{:?}", begun.elapsed());
    assert!(seen[0] <= 10 && seen.is_sorted() && seen.len() > 5, "{seen:?}");
    wait_for("all of its weight", || weight(&mut console, "db2") == 100.0);
}

#[test]
fn a_check_that_is_answered_too_late_has_failed_and_its_answer_is_nobodys() {
    let group = Group::start(
        fakes(2),
        "workers = 1",
        &format!("[checks]\nkind = \"ping\"\ntimeout = \"100ms\"\n{QUICK}"),
        &[],
    );
    let mut console = group.console();
    let late = &group.servers[1];
    wait_for("checks", || late.received(b"\x0e") > 3);
    late.answer(|command| match command {
        [0x0e] => Reply::Ok.after(Duration::from_millis(250)),
        command => honest(command),
    });
    wait_for("it to be down", || of(&mut console, "db2", "state") == "down");
    let reason = of(&mut console, "db2", "reason");
    assert!(reason.contains("no answer within 100ms (checks.timeout)"), "{reason}");
    // Answers keep coming, each to a check that is over: none of them brings it up.
    let asked = late.received(b"\x0e");
    wait_for("more late answers", || late.received(b"\x0e") > asked + 5);
    assert!(matches!(of(&mut console, "db2", "state").as_str(), "down"));
    assert!(!group.flifo.log().contains(UP), "{}", group.flifo.log());
    late.answer(honest);
    wait_for("it to be up", || of(&mut console, "db2", "state") == "up");
}

#[test]
fn without_any_server_a_statement_waits_for_a_while_and_is_told_why() {
    for (mode, group_name) in [("writer", "writer"), ("readers", "readers"), ("split", "readers")] {
        let group = Group::start(
            fakes(3),
            "workers = 2",
            &format!(
                "[checks]\nkind = \"handshake\"\n{QUICK}[routing]\nmode = \"{mode}\"\nhold = \"1s\""
            ),
            &[],
        );
        let mut client = group.client();
        assert_eq!(client.query("SELECT it"), row("it"));
        for server in &group.servers {
            server.enter(Entry::Cut(0));
            server.hang_up();
        }
        let mut console = group.console();
        wait_for("all to be down", || {
            console.query("SHOW FULL SERVERS WHERE state = 'down'").unwrap().len() == 3
        });
        let begun = Instant::now();
        let refusal = format!("{:?}", client.query("SELECT it").unwrap_err());
        let waited = begun.elapsed();
        assert!(waited > Duration::from_millis(900) && waited < Duration::from_secs(3));
        for part in ["did not run", group_name, "routing.hold", "safe to try again"] {
            assert!(refusal.contains(part), "{part}: {refusal}");
        }
        for number in 1..=3 {
            assert!(refusal.contains(&format!("db{number}: not used: down: ")), "{refusal}");
        }
        // The client is still there, and is served as soon as a server is available.
        let served = thread::spawn(move || client.query("SELECT it again"));
        thread::sleep(Duration::from_millis(300));
        group.servers[0].enter(Entry::Well);
        assert_eq!(served.join().unwrap(), row("it again"), "{mode}");
    }
}

#[test]
fn an_empty_group_of_readers_is_read_for_by_the_writer() {
    let group = Group::start(
        fakes(2),
        "workers = 1",
        &format!("[checks]\nkind = \"handshake\"\n{QUICK}[routing]\nmode = \"readers\""),
        &[],
    );
    let (mut client, mut console) = (group.client(), group.console());
    console.query("DRAIN db2").unwrap();
    (0..20).for_each(|_| assert_eq!(client.query("SELECT alone"), row("alone")));
    assert_eq!(group.servers[1].received(b"SELECT alone"), 0);
    assert_eq!(group.servers[0].received(b"SELECT alone"), 20);
}

#[test]
fn who_names_a_server_that_does_not_exist_is_told_which_ones_do() {
    let group = Group::start(
        fakes(2),
        "workers = 1",
        &format!("[checks]\nkind = \"handshake\"\n{QUICK}"),
        &[],
    );
    let mut console = group.console();
    for text in ["DRAIN db3", "DISABLE `db3`", "PAUSE DB3", "ENABLE db3"] {
        let problem = console.query(text).unwrap_err().to_string();
        assert!(problem.contains("db1, db2"), "{text}: {problem}");
    }
    assert!(console.query("DRAIN").unwrap_err().to_string().contains("name one of the servers"));
    assert_eq!(console.query("SHOW FULL SERVERS WHERE name = 'db3'").unwrap().len(), 0);
}

/// What the CSV page says of a server, by column.
fn csv(group: &Group, server: &str) -> HashMap<String, String> {
    let page = group.get("/stats;csv");
    let mut lines = page.lines().map(|line| {
        // What stands between quotes may have commas in it.
        let parts = line.split('"').enumerate();
        let whole = parts
            .map(|(at, part)| if at % 2 == 1 { part.replace(',', ";") } else { part.to_owned() });
        whole.collect::<String>().split(',').map(str::to_owned).collect::<Vec<_>>().into_iter()
    });
    let mut columns: Vec<_> = lines.next().unwrap().collect();
    columns[0] = columns[0].trim_start_matches("# ").to_owned();
    let row = lines.map(Iterator::collect::<Vec<_>>).find(|row| row[1] == server).unwrap();
    assert_eq!(columns.len(), row.len(), "{page}");
    columns.into_iter().zip(row).collect()
}

#[test]
fn pages_of_several_servers_say_what_haproxys_and_prometheus_readers_expect() {
    let agent = Agent::start();
    let group = Group::start(
        fakes(3),
        "workers = 2",
        &format!("{AGENTS}{QUICK}rise = 40\nfall = 40\n"),
        &[String::new(), agent.listed(), "backup = \"yes\"\n".to_owned()],
    );
    let mut console = group.console();
    let wait = |server: &str, column: &str, want: &str| {
        let what = format!("{column} of {server} to be {want}");
        wait_for(&what, || csv(&group, server)[column].starts_with(want));
    };
    wait("db1", "status", "UP");
    wait("db2", "last_agt", "up");
    let row = csv(&group, "db2");
    let columns = ["type", "act", "bck", "weight", "check_rise", "check_fall", "throttle"];
    assert_eq!(columns.map(|it| row[it].as_str()), ["2", "1", "0", "100", "40", "40", ""]);
    assert_eq!(
        (csv(&group, "db3")["act"].as_str(), csv(&group, "db3")["bck"].as_str()),
        ("0", "1")
    );
    let backend = csv(&group, "BACKEND");
    assert_eq!(["act", "bck", "status"].map(|it| backend[it].as_str()), ["2", "1", "UP"]);
    agent.says("up 25%\n");
    wait("db2", "weight", "25");
    agent.says("stopped # tonight\n");
    wait("db2", "status", "DOWN (agent)");
    wait("db2", "last_agt", "stopped: tonight");
    agent.says("up drain\n");
    wait("db2", "status", "DRAIN");
    agent.says("maint\n");
    wait("db2", "status", "MAINT");
    console.query("DRAIN db3").unwrap();
    wait("db3", "status", "DRAIN");
    // What is going down is served still, and says how far it has come.
    group.servers[0].enter(Entry::Cut(0));
    wait("db1", "status", "UP 3");
    assert_eq!(csv(&group, "BACKEND")["status"], "UP");
    wait("db1", "status", "DOWN");
    assert_ne!(csv(&group, "db1")["last_chk"], "");
    assert_eq!(csv(&group, "BACKEND")["status"], "DOWN");
    group.servers[0].enter(Entry::Well);
    wait("db1", "status", "DOWN 2");
    wait("db1", "status", "UP");
    let metrics = group.get("/metrics");
    assert_eq!(view::metrics::faults(&metrics), Vec::<String>::new());
    for line in [
        "flifo_server_up{server=\"db1\"} 1",
        "flifo_server_up{server=\"db2\"} 0",
        "flifo_server_up{server=\"db3\"} 0",
        "flifo_server_role{server=\"db1\",role=\"writer\"} 1",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line}\n{metrics}");
    }
}
