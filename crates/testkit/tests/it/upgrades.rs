//! Another Flifo takes over from one that runs: its clients go on as if nothing had happened, whatever they are in the
//! middle of; and whichever of the two is killed, the other one goes on with what it has.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread;

use backend::Address;
use bench::private_server::PrivateServer;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use testkit::client::{Client, Problem};
use testkit::flifo::{self, Flifo, TakenOver, take_over};
use testkit::overdue::Over;
use testkit::scene::wait_for;

struct Scene {
    /// The first one.
    flifo: Flifo,
    server: PrivateServer,
    folder: tempfile::TempDir,
}

/// A Flifo that has taken over: no child of the test.
struct Successor(Pid);

impl Successor {
    fn kill(&self) {
        // It may have ended already.
        let _ = kill_process(self.0, Signal::KILL);
    }

    fn lives(&self) -> bool {
        test_kill_process(self.0).is_ok()
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        self.kill();
    }
}

const USER: &str = "[[users]]\nname = \"app\"\npassword = \"app's\"\n";

impl Scene {
    /// Clients of `app` are pooled, those of `report` are passed through.
    fn start(top: &str) -> Self {
        Self::start_with(top, "[server]\nlearn_passwords = \"off\"")
    }

    fn start_with(top: &str, server_section: &str) -> Self {
        let server = PrivateServer::start_default().expect("a private server");
        for name in ["app", "report"] {
            let text = format!(
                "CREATE USER {name}@'%' IDENTIFIED BY \"{name}'s\"; GRANT ALL ON *.* TO {name}@'%'"
            );
            server.sql(&text).expect("it is created");
        }
        server
            .sql("CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)")
            .unwrap();
        let folder = tempfile::tempdir().expect("a folder");
        let console = folder.path().join("console.sock");
        let flifo = Flifo::start(&format!(
            "{top}\n{server_section}\naddress = \"{}\"\n\
             [console]\nlisten = [{console:?}]\n[http]\nlisten = []\n{USER}",
            server.socket().display()
        ));
        Self { flifo, server, folder }
    }

    fn client(&self, user: &str) -> Result<Client, Problem> {
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: self.flifo.port() };
        Client::builder(address, user, &format!("{user}'s")).schema("s").connect()
    }

    fn console_socket(&self) -> PathBuf {
        self.folder.path().join("console.sock")
    }

    fn console(&self) -> Client {
        Client::builder(Address::Unix(self.console_socket()), "admin", "")
            .connect()
            .expect("the console")
    }

    fn counted(&self, name: &str) -> u64 {
        let rows = self.console().query("SHOW STATS").expect("counters");
        let row = rows.into_iter().find(|row| row[0] == name);
        row.map_or(0, |row| row[1].parse().expect("a number"))
    }

    /// How often statements ran whose digest begins so.
    fn count_of(&self, digest: &str) -> u64 {
        let rows = self.console().query("SHOW FULL DIGESTS").expect("figures");
        let it = rows.iter().filter(|row| row[1].starts_with(digest));
        it.map(|row| row[2].parse::<u64>().expect("a number")).sum()
    }

    /// Another Flifo takes over. How many clients were left.
    fn upgrade(&self) -> (Successor, u64) {
        let done = take_over(flifo::program(), &self.console_socket());
        let TakenOver { pid, left } =
            done.unwrap_or_else(|error| panic!("{error}\n{}", self.flifo.log()));
        (Successor(pid), left)
    }

    fn has_ended(&mut self) -> bool {
        self.flifo.has_ended()
    }
}

fn one(client: &mut Client, text: &str) -> String {
    let mut rows = client.query(text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    assert_eq!((rows.len(), rows[0].len()), (1, 1), "{text}: {rows:?}");
    rows.swap_remove(0).swap_remove(0)
}

#[test]
fn sessions_go_on_in_the_flifo_that_takes_over() {
    let mut scene = Scene::start("");
    let mut pooled: Vec<_> = (0..9).map(|_| scene.client("app").expect("a login")).collect();
    let mut passed = scene.client("report").expect("a login");
    let [in_transaction, table, variable, inserter, setting, preparer, warned, locker, idle] =
        &mut pooled[..]
    else {
        unreachable!()
    };
    for text in ["BEGIN", "INSERT INTO t (v) VALUES (77)"] {
        in_transaction.query(text).unwrap();
    }
    for text in ["CREATE TEMPORARY TABLE own (a INT)", "INSERT INTO own VALUES (1), (2)"] {
        table.query(text).unwrap();
    }
    variable.query("SET @a = 5").unwrap();
    inserter.query("INSERT INTO t (v) VALUES (1)").unwrap();
    let inserted = one(&mut scene.client("app").unwrap(), "SELECT MAX(id) FROM t WHERE v = 1");
    setting.query("SET SESSION sort_buffer_size = 300000").unwrap();
    preparer.query("PREPARE s FROM 'SELECT ? + 1'").unwrap();
    warned.query("SELECT 1/0").unwrap();
    locker.query("DO GET_LOCK('l', 0)").unwrap();
    for text in ["CREATE TEMPORARY TABLE own (a INT)", "SET @a = 6"] {
        passed.query(text).unwrap();
    }
    let ids: Vec<_> = [&mut *idle, &mut passed].map(|it| one(it, "SELECT CONNECTION_ID()")).into();
    let statements = scene.counted("statements");
    let counts = scene.count_of("INSERT INTO t");
    assert!(counts > 0);
    idle.query("SELECT nonsense").expect_err("there is no such column");
    let failed = "SELECT COUNT(*), SUM(count) FROM errors WHERE source = 'server' AND code = 1054";
    assert_eq!(scene.console().query(failed).unwrap(), [["1", "1"]]);

    let (first, left) = scene.upgrade();
    assert_eq!(left, 0);
    wait_for("the old one to end", || scene.has_ended());
    // Once more, since what has come from another process must be able to go to the next.
    let (second, left) = scene.upgrade();
    assert_eq!(left, 0);
    wait_for("the one between to end", || !first.lives());

    let others = &mut scene.client("app").expect("a new client");
    assert_eq!(one(in_transaction, "SELECT COUNT(*) FROM t WHERE v = 77"), "1");
    assert_eq!(one(others, "SELECT COUNT(*) FROM t WHERE v = 77"), "0");
    in_transaction.query("ROLLBACK").unwrap();
    assert_eq!(one(in_transaction, "SELECT COUNT(*) FROM t WHERE v = 77"), "0");
    assert_eq!(one(table, "SELECT SUM(a) FROM own"), "3");
    assert_eq!(one(variable, "SELECT @a"), "5");
    assert_eq!(one(inserter, "SELECT LAST_INSERT_ID()"), inserted);
    assert_eq!(one(setting, "SELECT @@sort_buffer_size"), "300000");
    assert_eq!(one(preparer, "EXECUTE s USING 3"), "4");
    assert_eq!(warned.query("SHOW WARNINGS").unwrap()[0][1], "1365");
    assert_eq!(one(others, "SELECT IS_FREE_LOCK('l')"), "0");
    drop(pooled.remove(7));
    wait_for("the lock to be free", || one(others, "SELECT IS_FREE_LOCK('l')") == "1");
    assert_eq!(one(&mut passed, "SELECT @a + (SELECT COUNT(*) FROM own)"), "6");
    let idle = pooled.last_mut().unwrap();
    let now: Vec<_> = [idle, &mut passed].map(|it| one(it, "SELECT CONNECTION_ID()")).into();
    assert_eq!(now, ids);
    assert_eq!(scene.count_of("INSERT INTO t"), counts, "figures of statements go on");
    assert!(scene.counted("statements") > statements, "what is counted goes on");
    let failed = scene.console().query(failed).unwrap();
    assert_eq!(failed, [["1", "1"]], "errors of the server are counted on");
    let asked = "SELECT user, server, first_seen < last_seen FROM digests WHERE text LIKE 'INSERT INTO t %'";
    assert_eq!(scene.console().query(asked).unwrap(), [["app", "main", "1"]]);
    let here = std::process::Command::new(flifo::program())
        .args(["reload", "--console", "console.sock"])
        .current_dir(scene.folder.path())
        .output()
        .expect("it runs");
    assert!(here.status.success(), "a socket of this folder: {here:?}");
    assert!(second.lives() && !scene.flifo.log().contains("panicked"), "{}", scene.flifo.log());
}

#[test]
fn nothing_is_lost_or_done_twice_while_flifos_follow_each_other() {
    let scene = Scene::start("workers = 2");
    let mut idle: Vec<_> = (0..50).map(|_| scene.client("app").expect("a login")).collect();
    let mut ids: Vec<_> = idle.iter_mut().map(|it| one(it, "SELECT CONNECTION_ID()")).collect();
    scene.server.sql("CREATE TABLE s.n (id INT PRIMARY KEY, v INT)").unwrap();
    let (stop, done): (_, Vec<_>) =
        (AtomicBool::new(false), (0..6).map(|_| AtomicU64::new(0)).collect());
    let mut last = None;
    thread::scope(|scope| {
        let _over = Over(&stop);
        for (at, own) in done.iter().enumerate() {
            let (scene, stop) = (&scene, &stop);
            scene.server.sql(&format!("INSERT INTO s.n VALUES ({at}, 0)")).unwrap();
            scope.spawn(move || {
                let mut client = scene.client(["app", "report"][at % 2]).expect("a login");
                client.query("CREATE TEMPORARY TABLE own (a INT)").unwrap();
                while !stop.load(Relaxed) {
                    client.query("BEGIN").expect("it goes on");
                    client
                        .query(&format!("UPDATE n SET v = v + 1 WHERE id = {at}"))
                        .expect("it goes on");
                    client.query("COMMIT").expect("it goes on");
                    let done = own.fetch_add(1, Relaxed) + 1;
                    client.query(&format!("INSERT INTO own VALUES ({done})")).unwrap();
                    assert_eq!(one(&mut client, "SELECT MAX(a) FROM own"), done.to_string());
                }
            });
        }
        for _ in 0..4 {
            let before: Vec<_> = done.iter().map(|it| it.load(Relaxed)).collect();
            let (next, left) = scene.upgrade();
            assert_eq!(left, 0);
            let has_moved =
                || done.iter().zip(&before).all(|(now, before)| now.load(Relaxed) > before + 5);
            wait_for("each client to go on", has_moved);
            // The one before has nothing left, and ends by itself.
            let before: Option<Successor> = last.replace(next);
            before.into_iter().for_each(|before| wait_for("it to end", || !before.lives()));
        }
        stop.store(true, Relaxed);
    });
    for (at, own) in done.iter().enumerate() {
        let text = format!("SELECT v FROM s.n WHERE id = {at}");
        assert_eq!(scene.server.sql(&text).unwrap().trim(), own.load(Relaxed).to_string());
    }
    let now: Vec<_> = idle.iter_mut().map(|it| one(it, "SELECT CONNECTION_ID()")).collect();
    assert_eq!(now, ids);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), idle.len());
}

#[test]
fn a_flifo_that_cannot_start_changes_nothing() {
    let scene = Scene::start("");
    let mut client = scene.client("app").expect("a login");
    client.query("BEGIN").unwrap();
    scene.flifo.change_configuration(|text| text.replace("[http]", "[htp]"));
    let refused = scene.console().query("UPGRADE").expect_err("it cannot start");
    let Problem::Refused { message, .. } = &refused else { panic!("{refused:?}") };
    assert!(message.contains("does not take over"), "{message}");
    assert!(scene.flifo.log().contains("htp"), "its reason is in the log: {}", scene.flifo.log());
    client.query("SELECT 1").expect("it goes on");
    scene.client("app").expect("one more").query("SELECT 1").expect("it goes on");
    scene.flifo.change_configuration(|text| text.replace("[htp]", "[http]"));
    let (_next, left) = scene.upgrade();
    assert_eq!(left, 0, "nothing is in the way of the next attempt");
    client.query("COMMIT").expect("it goes on");
}

#[test]
fn a_client_of_a_user_that_is_known_by_a_hash_goes_as_well() {
    let mut scene = Scene::start_with("", "[server]\naccounts_user = \"app\"");
    let mut goes = scene.client("report").expect("a login");
    goes.query("SET @a = 3").unwrap();
    let pooled = "SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'report'";
    wait_for("it to be pooled", || scene.server.sql(pooled).unwrap().trim() == "1");
    let (next, left) = scene.upgrade();
    assert_eq!(left, 0, "{}", scene.flifo.log());
    wait_for("the old one to end", || scene.has_ended());
    assert_eq!(one(&mut goes, "SELECT @a"), "3");
    // It can log in for it: not only the connection that has come with the client.
    let others: Vec<_> = (0..3).map(|_| scene.client("report").expect("one more")).collect();
    for mut client in others {
        client.query("BEGIN").unwrap();
        assert_eq!(one(&mut client, "SELECT SUBSTRING_INDEX(USER(), '@', 1)"), "report");
    }
    assert!(next.lives());
}

/// A statement that runs stays with the old Flifo until it ends: so both live.
fn with_one_left(test: impl FnOnce(&mut Scene, Successor, &mut Client)) {
    let mut scene = Scene::start("");
    let mut moved = scene.client("app").expect("a login");
    moved.query("SET @a = 1").unwrap();
    scene.server.sql("DO GET_LOCK('l', 0)").unwrap();
    let mut holder = scene.client("app").expect("a login");
    holder.query("DO GET_LOCK('l', 0)").unwrap();
    let mut waits = scene.client("report").expect("a login");
    let waiter = thread::spawn(move || waits.query("SELECT GET_LOCK('l', 1000)"));
    let runs = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'";
    wait_for("it to wait", || scene.server.sql(runs).unwrap().trim() == "1");
    let (next, left) = scene.upgrade();
    assert_eq!(left, 1);
    test(&mut scene, next, &mut moved);
    drop(holder);
    // Whether it is answered is told by the test.
    let _ = waiter.join();
}

#[test]
fn where_the_new_one_is_killed_the_old_one_goes_on() {
    with_one_left(|scene, next, moved| {
        moved.query("SELECT 1").expect("it is served");
        next.kill();
        wait_for("the old one to accept again", || {
            scene.client("app").is_ok_and(|mut client| client.query("SELECT 1").is_ok())
        });
        assert!(moved.query("SELECT 1").is_err(), "what the new one had is gone with it");
        assert!(!scene.has_ended(), "{}", scene.flifo.log());
        assert!(scene.counted("clients_pooled") > 0, "the console is open again");
    });
}

#[test]
fn where_the_old_one_is_killed_the_new_one_goes_on() {
    with_one_left(|scene, next, moved| {
        scene.flifo.signal(Signal::KILL);
        wait_for("it to end", || scene.has_ended());
        assert_eq!(one(moved, "SELECT @a"), "1");
        scene.client("app").expect("one more").query("SELECT 1").expect("it is served");
        assert!(next.lives());
    });
}

#[track_caller]
fn code(answer: Result<Vec<Vec<String>>, Problem>) -> u16 {
    match answer {
        Err(Problem::Refused { code, .. }) => code,
        other => panic!("{other:?}"),
    }
}

/// A client whose statement runs for long. What became of that, its thread tells.
fn sleeper(scene: &Scene, user: &str) -> (String, thread::JoinHandle<u16>) {
    let mut client = scene.client(user).expect("a login");
    let id = one(&mut client, "SELECT CONNECTION_ID()");
    (id, thread::spawn(move || code(client.query("SELECT SLEEP(1000), 'sleeps'"))))
}

#[test]
fn a_client_is_killed_in_whichever_flifo_it_is() {
    let mut scene = Scene::start("workers = 2");
    let sleepers = ["app", "app", "report"].map(|user| sleeper(&scene, user));
    let sleep = "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User sleep'";
    wait_for("them to sleep", || scene.server.sql(sleep).unwrap().trim() == "3");
    // TLS keeps it in the old one.
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: scene.flifo.port() };
    let mut stays = Client::builder(address, "app", "app's").schema("s").tls().connect().unwrap();
    let mut goes = scene.client("app").expect("a login");
    let mut other = scene.client("report").expect("a login");
    let (next, left) = scene.upgrade();
    assert_eq!(left, 4);
    let mut new = scene.client("app").expect("a login");
    let [(by_new, queried), (by_moved, ended), (passed, served)] = sleepers;
    // The other user is judged by the old Flifo, and a number that no client has is looked for in both.
    assert_eq!(code(other.query(&format!("KILL QUERY {by_new}"))), 1095);
    for client in [&mut new, &mut stays] {
        assert_eq!(code(client.query("KILL 4294967290")), 1094);
    }
    new.query(&format!("KILL QUERY {by_new}")).expect("it is found in the old one");
    assert_eq!(queried.join().unwrap(), 1317);
    goes.query(&format!("KILL QUERY {by_moved}")).expect("it is found in the old one");
    assert_eq!(ended.join().unwrap(), 1317);
    // The server judges, and knows it by another number.
    new.query(&format!("KILL QUERY {passed}")).expect("its user has the right");
    assert_eq!(served.join().unwrap(), 1317);
    // From the old one to the new one.
    let id = one(&mut goes, "SELECT CONNECTION_ID()");
    stays.query(&format!("KILL {id}")).expect("it is found in the new one");
    assert!(goes.query("SELECT 1").is_err());
    let id = one(&mut other, "SELECT CONNECTION_ID()");
    stays.query(&format!("KILL {id}")).expect("the server lets its user");
    assert!(other.query("SELECT 1").is_err());
    // What was asked of a Flifo that ends is answered all the same.
    scene.flifo.signal(Signal::STOP);
    let asks = thread::spawn(move || code(new.query("KILL 4294967290")));
    let mut more = scene.client("app").expect("the new one serves");
    more.query("SELECT 1").expect("no other client waits");
    scene.flifo.signal(Signal::KILL);
    assert_eq!(asks.join().unwrap(), 1094);
    wait_for("it to end", || scene.has_ended());
    assert!(next.lives());
}

#[test]
fn clients_that_stay_are_told_of_with_the_reason_and_connections_are_bounded_over_both() {
    // Pins take connections for good: two there and two here are all.
    let scene = Scene::start_with(
        "[limits]\nwait = \"300ms\"",
        "[server]\nlearn_passwords = \"off\"\nconnections_max = 4",
    );
    let address = || Address::Tcp { host: "127.0.0.1".to_owned(), port: scene.flifo.port() };
    let keep = |client: &mut Client| client.query("CREATE TEMPORARY TABLE own (a INT)").map(|_| ());
    let mut staying: Vec<_> = (0..2)
        .map(|_| {
            Client::builder(address(), "app", "app's").schema("s").tls().connect().expect("a login")
        })
        .collect();
    staying.iter_mut().for_each(|client| keep(client).expect("a connection"));
    let told =
        flifo::take_over_command(flifo::program(), &scene.console_socket()).output().unwrap();
    let told = String::from_utf8_lossy(&told.stdout).into_owned();
    assert!(told.contains("\"left\": 2") && told.contains("2 with TLS"), "{told}");
    let pid = told.split("\"pid\": ").nth(1).and_then(|it| it.split(',').next()).unwrap();
    let new = Successor(Pid::from_raw(pid.parse().unwrap()).unwrap());
    let before = "SELECT clients, tls, backends FROM succession WHERE process = 'before'";
    wait_for("the old one to be shown", || {
        scene.console().query(before).unwrap() == [["2", "2", "2"]]
    });
    let mut coming: Vec<_> = (0..3).map(|_| scene.client("app").expect("a login")).collect();
    keep(&mut coming[0]).expect("the third connection");
    keep(&mut coming[1]).expect("the fourth connection");
    let refused = keep(&mut coming[2]).expect_err("there are four");
    assert!(matches!(refused, Problem::Refused { code: 1637, .. }), "{refused:?}");
    let all = "SELECT SUM(backends) FROM succession";
    wait_for("all to be counted", || scene.console().query(all).unwrap() == [["4"]]);
    // What is given back there can be had here.
    staying.pop();
    wait_for("a connection", || keep(&mut coming[2]).is_ok());
    staying.clear();
    wait_for("the old one to be gone", || scene.console().query(before).unwrap().is_empty());
    assert!(new.lives() && !scene.flifo.log().contains("panicked"), "{}", scene.flifo.log());
}

/// Each hears why, between two transactions; those that keep nothing in their session are first.
#[test]
fn clients_that_stay_connect_anew_one_after_the_other() {
    let mut scene = Scene::start("[limits]\nupgrade_waves = \"6s\"");
    let address = || Address::Tcp { host: "127.0.0.1".to_owned(), port: scene.flifo.port() };
    let connect = || {
        let client = Client::builder(address(), "app", "app's").schema("s").tls();
        client.connect().expect("a login")
    };
    // The oldest one keeps something, and one is in a transaction.
    let mut keeps = connect();
    keeps.query("CREATE TEMPORARY TABLE own (a INT)").unwrap();
    let mut writes = connect();
    writes.query("BEGIN").unwrap();
    writes.query("INSERT INTO t (v) VALUES (1)").unwrap();
    let mut others: Vec<_> = (0..18).map(|_| connect()).collect();
    others.iter_mut().for_each(|client| assert_eq!(one(client, "SELECT 1"), "1"));
    let (next, left) = scene.upgrade();
    assert_eq!(left, 20);
    let clients = || {
        let text = "SELECT clients FROM succession WHERE process = 'before'";
        let rows = scene.console().query(text).expect("the console");
        rows.first().map_or(0, |row| row[0].parse::<u64>().expect("a number"))
    };
    let mut seen = Vec::new();
    wait_for("all but one to be ended", || {
        let count = clients();
        if seen.last() != Some(&count) {
            seen.push(count);
        }
        count == 1
    });
    // On a busy machine several go between two looks.
    assert!(seen.is_sorted_by(|one, next| one > next) && seen.len() > 2, "{seen:?}");
    for client in others.iter_mut().chain([&mut keeps]) {
        // The error was there before it was asked: its number is none of an answer.
        let ended = client.query("SELECT 1").expect_err("it was ended");
        assert!(
            matches!(ended, Problem::Talk(_) | Problem::Refused { code: 1053, .. }),
            "{ended:?}"
        );
    }
    let lines = scene.flifo.log();
    assert!(lines.contains("clients that cannot go are ended one after the other"), "{lines}");
    // Its transaction ends well.
    assert_eq!(one(&mut writes, "SELECT v FROM t"), "1");
    writes.query("COMMIT").unwrap();
    wait_for("the old one to end", || scene.has_ended());
    assert_eq!(one(&mut scene.client("app").unwrap(), "SELECT COUNT(*) FROM t"), "1");
    assert!(next.lives());
}
