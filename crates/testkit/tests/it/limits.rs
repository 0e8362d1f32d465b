//! Every limit does what `docs/reference/configuration.md` says of it. Those on logins and on unread results are among
//! the hostile peers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use testkit::fake_client::{FakeClient, Refusal};
use testkit::fake_server::Brand;
use testkit::reply::{Flag, Reply, honest};
use testkit::scene::{PASSWORD, Scene, USER, row, user, wait_for};
use wire::frame::{PAYLOAD_MAX, put_packet};
use wire::response::Status;

/// What has an age is looked at once a second, by a machine that may be busy.
const LATE: Duration = Duration::from_secs(6);

/// Statements that end with "long" run until the flag is raised, or one of them is killed.
fn answer_long(scene: &Scene) -> Flag {
    let flag = Flag::default();
    let (done, killed) = (Arc::clone(&flag), Flag::default());
    scene.server.answer(move |command| {
        if command.starts_with(b"\x03KILL") {
            killed.store(true, SeqCst);
        }
        match command.ends_with(b"long") {
            true if killed.load(SeqCst) => Reply::Err(1317, "Query execution was interrupted"),
            true => honest(command).when(&done),
            false => honest(command),
        }
    });
    flag
}

#[test]
fn a_statement_may_run_so_long_and_is_killed_then() {
    let scene = Scene::pooled("[limits]\nstatement = \"200ms\"\n").witnessed();
    let killed = Flag::default();
    let seen = Arc::clone(&killed);
    scene.server.answer(move |command| {
        if command.starts_with(b"\x03KILL QUERY") {
            seen.store(true, SeqCst);
        }
        match command.ends_with(b"long") {
            true => Reply::Err(1317, "Query execution was interrupted").when(&seen),
            false => honest(command),
        }
    });
    let mut client = scene.client();
    let begun = Instant::now();
    let refused = client.query("SELECT long").unwrap_err();
    assert_eq!(refused.code(), 1969, "the server says of itself that it was killed: {refused:?}");
    assert!(killed.load(SeqCst) && begun.elapsed() > Duration::from_millis(200));
    assert_eq!(client.query("SELECT on"), row("on"));
    drop(client);
    scene.end();
}

#[test]
fn a_pass_through_statement_that_runs_too_long_costs_the_connection() {
    let scene = Scene::pass_through("[limits]\nstatement = \"200ms\"\n").witnessed();
    let flag = answer_long(&scene);
    let mut client = scene.client();
    assert_eq!(client.query("SELECT long").unwrap_err().code(), 1969);
    assert!(client.is_closed());
    // In the middle of a row nothing can be said: an error there would be taken for the row's end.
    scene.server.answer(|command| {
        let whole = honest(command).encode(wire::Capabilities::DEPRECATE_EOF, &mut 1);
        match command.ends_with(b"half a row") {
            true => Reply::Raw(whole[..whole.len() - 15].to_vec()),
            false => Reply::Raw(whole),
        }
    });
    let mut client = scene.client();
    client.send_packet(0, b"\x03SELECT half a row");
    // Count and column, and then no row.
    assert!(client.read_payload().is_ok() && client.read_payload().is_ok());
    assert_eq!(client.read_payload(), Err(Refusal::Closed));
    flag.store(true, SeqCst);
    scene.end();
}

#[test]
fn a_statement_may_wait_so_long_and_has_not_reached_the_server() {
    let scene = Scene::pooled("limit = 1\n[limits]\nwait = \"300ms\"\n");
    let flag = answer_long(&scene);
    let (mut one, mut other) = (scene.client(), scene.client());
    one.send_packet(0, b"\x03SELECT long");
    wait_for("the first", || scene.server.received(b"SELECT long") == 1);
    let begun = Instant::now();
    let refused = other.query("SELECT waits").unwrap_err();
    let waited = begun.elapsed();
    assert!(
        matches!(&refused, Refusal::Error { code: 1637, message }
            if message.contains("limits.wait 0.3 s") && message.contains("safe to try again")),
        "{refused:?}"
    );
    assert!(waited >= Duration::from_millis(300) && waited < LATE, "{waited:?}");
    assert_eq!(scene.server.received(b"SELECT waits"), 0);
    flag.store(true, SeqCst);
    assert_eq!(one.read_answer(), row("long"));
    assert_eq!(other.query("SELECT on"), row("on"));
    drop((one, other));
    scene.end();
}

/// A limit that finds itself learns from statements that end. Where none does, others are let in all the same.
#[test]
fn who_waits_is_let_in_where_nothing_ends() {
    // Some more than are let in at first: each of them may take two seconds.
    let processors = thread::available_parallelism().map_or(8, std::num::NonZero::get);
    let long = (2 * processors).max(8) + 16;
    let scene = Scene::pooled("");
    let flag = answer_long(&scene);
    let mut busy: Vec<_> = (0..long).map(|_| scene.client()).collect();
    for client in &mut busy {
        client.send_packet(0, b"\x03SELECT long");
    }
    let mut other = scene.client();
    assert_eq!(other.query("SELECT on"), row("on"));
    // Waiting clients are admitted in turn, so all the others were admitted before.
    assert_eq!(scene.server.received(b"SELECT long"), long);
    flag.store(true, SeqCst);
    for client in &mut busy {
        assert_eq!(client.read_answer(), row("long"));
    }
    drop((busy, other));
    scene.end_with_backends(long + 2);
}

#[test]
fn a_client_may_be_idle_so_long() {
    for scene in
        [Scene::pooled, Scene::pass_through].map(|start| start("[limits]\nidle_client = \"1s\"\n"))
    {
        let flag = answer_long(&scene);
        let (mut idle, mut busy) = (scene.client(), scene.client());
        busy.send_packet(0, b"\x03SELECT long");
        let begun = Instant::now();
        assert_eq!(idle.read_payload().unwrap_err().code(), 4031);
        assert!(idle.is_closed());
        assert!(begun.elapsed() >= Duration::from_millis(900) && begun.elapsed() < LATE);
        // A statement that runs so long is no idleness.
        flag.store(true, SeqCst);
        assert_eq!(busy.read_answer(), row("long"));
        drop(busy);
        scene.end();
    }
}

#[test]
fn a_backend_may_be_idle_so_long() {
    let scene = Scene::pooled("[limits]\nidle_backend = \"1s\"\n");
    let mut client = scene.client();
    assert_eq!(client.query("SELECT 1"), row("1"));
    let begun = Instant::now();
    wait_for("the backend connection to be closed", || scene.server.open() == 0);
    assert!(begun.elapsed() >= Duration::from_millis(900) && begun.elapsed() < LATE);
    assert_eq!(client.query("SELECT 2"), row("2"));
    drop(client);
    scene.end();
}

#[test]
fn a_backend_may_be_so_old_but_not_too_old_for_a_transaction() {
    let scene = Scene::pooled("connections_max = 1\nlimit = 1\n[limits]\nbackend_age = \"1s\"\n");
    scene.server.answer(|command| match command {
        b"\x03BEGIN" => Reply::Status(Status(0x0003)),
        b"\x03COMMIT" => Reply::Ok,
        // A row, and the transaction is still open behind it.
        _ if command.ends_with(b"within") => Reply::Status(Status(0x0003)),
        _ => honest(command),
    });
    let mut client = scene.client();
    assert_eq!(client.query("BEGIN"), Ok(vec![]));
    let opened = scene.server.opened();
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(2500) {
        assert_eq!(client.query("SELECT within"), Ok(vec![]));
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(
        scene.server.opened(),
        opened,
        "its backend connection went away under the transaction"
    );
    assert_eq!(client.query("COMMIT"), Ok(vec![]));
    assert_eq!(client.query("SELECT next"), row("next"));
    assert_eq!(scene.server.opened(), opened + 1);
    drop(client);
    scene.end();
}

#[test]
fn a_packet_may_be_so_long() {
    let text = |len: usize| [&b"\x03SELECT "[..], &vec![b'x'; len - 8]].concat();
    for scene in
        [Scene::pooled, Scene::pass_through].map(|start| start("[limits]\npacket_max = \"1KiB\"\n"))
    {
        let mut client = scene.client();
        assert!(client.command(&text(1024)).is_ok());
        assert_eq!(client.command(&text(1025)).unwrap_err().code(), 1153);
        assert!(client.is_closed());
        scene.end();
    }
    // A longer one comes in several packets, and is cut off with its backend where it has become too long.
    for scene in [Scene::pooled, Scene::pass_through]
        .map(|start| start("[limits]\npacket_max = \"20MiB\"\n"))
    {
        let mut client = scene.client();
        assert!(client.command(&text(17 << 20)).is_ok());
        let before = scene.server.received(b"SELECT");
        let end = client.command(&text(40 << 20)).unwrap_err();
        assert!(matches!(end.code(), 0 | 1153), "{end:?}");
        assert_eq!(scene.server.received(b"SELECT"), before);
        // The header tells it before the bytes come.
        let mut client = scene.client();
        let mut bytes = Vec::new();
        put_packet(&mut bytes, 0, &text(PAYLOAD_MAX + (5 << 20)));
        client.send(&bytes[..PAYLOAD_MAX + 8]);
        assert_eq!(client.read_payload().unwrap_err().code(), 1153);
        assert!(client.is_closed());
        scene.end();
    }
}

#[test]
fn so_many_clients_may_be_connected() {
    for bounds in ["", &user("")] {
        let scene = Scene::start(Brand::MariaDb, "workers = 1\nclients_max = 3", bounds);
        let at_rest = scene.flifo.descriptors();
        for _ in 0..3 {
            let mut clients = Vec::new();
            wait_for("those of before to be gone", || {
                clients.extend(scene.try_client());
                clients.len() == 3
            });
            assert_eq!(scene.try_client().unwrap_err().code(), 1040);
            for client in &mut clients {
                assert_eq!(client.query("SELECT in"), row("in"));
            }
            drop(clients.pop());
            wait_for("a place", || scene.try_client().is_ok());
            drop(clients);
            // Backends that they have shared stay.
            wait_for("all to be gone", || scene.flifo.descriptors() <= at_rest + 3);
            wait_for("three places", || {
                let three: Vec<_> = (0..3).map(|_| scene.try_client()).collect();
                three.iter().all(Result::is_ok)
            });
            // Those of the last attempt leave, too.
            wait_for("a place for each", || {
                (0..3).all(|_| scene.try_client().is_ok_and(|mut it| it.query("SELECT 1").is_ok()))
            });
        }
        scene.end();
    }
}

#[test]
fn a_user_may_have_so_many_clients() {
    for (mode, bound) in [
        ("pooled", "clients_max = 2"),
        ("pass-through", "clients_max = 2"),
        ("pass-through", "connections_max = 2"),
    ] {
        let password =
            if mode == "pooled" { format!("password = \"{PASSWORD}\"") } else { "".into() };
        let users =
            format!("[[users]]\nname = \"{USER}\"\nmode = \"{mode}\"\n{password}\n{bound}\n");
        let scene = Scene::start(Brand::MariaDb, "workers = 1", &users);
        let (one, two) = (scene.client(), scene.client());
        let refused = scene.try_client().unwrap_err();
        assert!(
            matches!(&refused, Refusal::Error { code: 1226, message } if message.contains(USER)),
            "{mode}, {bound}: {refused:?}"
        );
        // Another user is not concerned.
        assert!(FakeClient::login(scene.flifo.port(), "other", "").is_ok());
        drop(one);
        wait_for("a place", || scene.try_client().is_ok());
        drop(two);
        wait_for(&format!("both places of {mode}, {bound}"), || {
            let two = (scene.try_client(), scene.try_client());
            two.0.is_ok() && two.1.is_ok()
        });
        wait_for("a place for the last one", || scene.try_client().is_ok());
        scene.end();
    }
}

/// How many statements run at once at the server, and how many at most.
fn count_at_once(scene: &Scene) -> Arc<AtomicU32> {
    let (now, most) = (AtomicU32::new(0), Arc::new(AtomicU32::new(0)));
    let peak = Arc::clone(&most);
    scene.server.answer(move |command| {
        if command.starts_with(b"\x03SELECT") {
            peak.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
            thread::sleep(Duration::from_millis(3));
            now.fetch_sub(1, SeqCst);
        }
        honest(command)
    });
    most
}

/// Many clients ask, each several times.
fn crowd(scene: &Scene) {
    thread::scope(|scope| {
        for number in 0..24 {
            scope.spawn(move || {
                let mut client = scene.client();
                for turn in 0..20 {
                    let text = format!("{number}/{turn}");
                    assert_eq!(client.query(&format!("SELECT {text}")), row(&text));
                }
            });
        }
    });
}

#[test]
fn two_workers_share_one_limit_of_statements() {
    let rest = format!("limit = 3\nconnections_max = 16\n{}", user(""));
    let scene = Scene::start(Brand::MariaDb, "workers = 2", &rest);
    let most = count_at_once(&scene);
    crowd(&scene);
    assert_eq!(most.load(SeqCst), 3);
    scene.server.answer(honest);
    scene.end_with_backends(16);
}

#[test]
fn two_workers_share_one_limit_of_backends() {
    let rest = format!("limit = 8\nconnections_max = 2\n{}", user(""));
    let scene = Scene::start(Brand::MariaDb, "workers = 2", &rest);
    let most = count_at_once(&scene);
    crowd(&scene);
    assert_eq!(most.load(SeqCst), 2);
    wait_for("the server to see closed backend connections", || scene.server.open() <= 2);
    scene.server.answer(honest);
    scene.end_with_backends(2);
}

#[test]
fn a_user_may_have_so_many_backends() {
    let rest = format!("limit = 8\nconnections_max = 8\n{}", user("connections_max = 2"));
    let scene = Scene::start(Brand::MariaDb, "workers = 2", &rest);
    let most = count_at_once(&scene);
    crowd(&scene);
    assert_eq!(most.load(SeqCst), 2);
    wait_for("the server to see closed backend connections", || scene.server.open() <= 2);
    scene.server.answer(honest);
    scene.end_with_backends(2);
}

#[test]
fn more_users_and_schemas_than_backends_all_come_forward() {
    // Twelve kinds of backends, of which two can be there at once.
    let names: Vec<_> = (0..6).map(|number| format!("user{number}")).collect();
    let user = |name| format!("[[users]]\nname = \"{name}\"\npassword = \"{PASSWORD}\"\n");
    let users: String = names.iter().map(user).collect();
    let rest = format!("limit = 2\nconnections_max = 2\n{users}{}", self::user(""));
    let scene = Scene::start(Brand::MariaDb, "workers = 1", &rest);
    thread::scope(|scope| {
        for (name, has_schema) in names.iter().flat_map(|it| [(it, false), (it, true)]) {
            for _ in 0..2 {
                let scene = &scene;
                scope.spawn(move || {
                    let mut client = FakeClient::login(scene.flifo.port(), name, PASSWORD).unwrap();
                    if has_schema {
                        assert_eq!(client.command(b"\x02shop"), Ok(vec![]));
                    }
                    for turn in 0..20 {
                        let begun = Instant::now();
                        let text = format!("{name} {has_schema} {turn}");
                        assert_eq!(client.query(&format!("SELECT {text}")), row(&text));
                        assert!(begun.elapsed() < LATE, "{text}: {:?}", begun.elapsed());
                    }
                });
            }
        }
    });
    wait_for("the server to see closed backend connections", || scene.server.open() <= 2);
    scene.end();
}

#[test]
fn a_transaction_that_has_only_begun_waits_like_others_and_leaves_nothing_behind() {
    let scene = Scene::pooled("limit = 1\n[limits]\nwait = \"300ms\"\n");
    let flag = answer_long(&scene);
    let (mut one, mut other) = (scene.client(), scene.client());
    one.send_packet(0, b"\x03SELECT long");
    wait_for("the first", || scene.server.received(b"SELECT long") == 1);
    // It takes no slot to begin, and the first statement may be refused, as often as need be.
    assert_eq!(other.query("BEGIN"), Ok(vec![]));
    for _ in 0..2 {
        assert_eq!(other.query("INSERT 1").unwrap_err().code(), 1637);
    }
    assert_eq!(other.query("ROLLBACK"), Ok(vec![]));
    assert_eq!(other.query("START TRANSACTION"), Ok(vec![]));
    for part in [&b"BEGIN"[..], b"START", b"INSERT", b"ROLLBACK"] {
        assert_eq!(scene.server.received(part), 0);
    }
    flag.store(true, SeqCst);
    assert_eq!(one.read_answer(), row("long"));
    // The transaction is still the client's, and begins with its first statement.
    assert_eq!(other.query("INSERT 2"), Ok(vec![]));
    assert_eq!((scene.server.received(b"INSERT"), scene.server.received(b"BEGIN")), (1, 1));
    drop((one, other));
    scene.end();
}

#[test]
fn who_has_a_lock_without_a_transaction_does_not_wait_for_those_who_want_it() {
    let scene = Scene::pooled("limit = 1\nparking = \"off\"\n");
    let flag = answer_long(&scene);
    let (mut holder, mut waiter) = (scene.client(), scene.client());
    assert!(holder.query("SELECT GET_LOCK('a', 10)").is_ok());
    // As if it waited for that lock, in the only slot.
    waiter.send_packet(0, b"\x03SELECT long");
    wait_for("the one who waits", || scene.server.received(b"SELECT long") == 1);
    assert!(holder.query("DO RELEASE_LOCK('a')").is_ok());
    flag.store(true, SeqCst);
    assert_eq!(waiter.read_answer(), row("long"));
    drop((holder, waiter));
    scene.end();
}

#[test]
fn backends_that_one_worker_does_not_miss_serve_another_s_need() {
    let rest = format!("limit = 4\nconnections_max = 4\n{}", user(""));
    let scene = Scene::start(Brand::MariaDb, "workers = 2", &rest);
    // Whose client one is shows in its number.
    let mut workers = [Vec::new(), Vec::new()];
    while workers.iter().any(|clients| clients.len() < 4) {
        let mut client = FakeClient::connect(scene.flifo.port());
        let greeting = client.read_greeting().expect("a greeting");
        let login = FakeClient::login_payload(&greeting, USER, PASSWORD);
        client.send_packet(1, &login);
        assert_eq!(client.read_answer(), Ok(vec![]));
        workers[greeting.connection_id as usize % 2].push(client);
    }
    for clients in &mut workers {
        let flag = answer_long(&scene);
        let before = scene.server.received(b"SELECT long");
        for client in &mut clients[..4] {
            client.send_packet(0, b"\x03SELECT long");
        }
        // The other worker's backends are of use to it until they have been idle for a second.
        let all = || scene.server.received(b"SELECT long") == before + 4;
        wait_for("four at once on backend connections of one worker", all);
        assert!(scene.server.open() <= 4, "{}", scene.server.open());
        flag.store(true, SeqCst);
        for client in &mut clients[..4] {
            assert_eq!(client.read_answer(), row("long"));
        }
    }
    drop(workers);
    scene.end_with_backends(4);
}
