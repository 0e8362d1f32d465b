//! Pipelined statements: everybody gets the answer to his own, whatever becomes of the one in front.
//!
//! In each scene, clients wait in the queue until a statement of another kind is let go; then the second one is in
//! front on the backend, and those after it have been written behind it.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::Duration;

use testkit::fake_client::{Answer, FakeClient};
use testkit::reply::{Flag, Reply, honest};
use testkit::scene::{Scene, row, wait_for};
use wire::Capabilities;
use wire::frame::put_packet;
use wire::response::{OK, OkPacket, Status};
use wire::tracker::{Change, put_change};

/// So long it takes until a client that has sent its statement surely stands in the queue.
const STEP: Duration = Duration::from_millis(20);

/// What only happens in time, as pipelining does, is tried so often: a busy machine is seldom in time.
const TURNS: usize = 20;

/// Makes it known that statements of this kind are short.
fn make_short(scene: &Scene) {
    let mut client = scene.client();
    for _ in 0..20 {
        assert_eq!(client.query("SELECT 7"), row("7"));
    }
}

/// Four clients, of which the first one's statement is in front of the others'.
struct Row {
    scene: Scene,
    clients: Vec<FakeClient>,
}

impl Row {
    /// `front` answers the statement in front. Another backend is there, and busy until the row stands.
    fn stand(front: impl Fn(&[u8]) -> Reply + Send + Sync + 'static) -> Self {
        let scene = Scene::pooled("limit = 2\nconnections_max = 2\n");
        let (first, other) = (Flag::default(), Flag::default());
        let gates = (Arc::clone(&first), Arc::clone(&other));
        scene.server.answer(move |command| match command {
            b"\x03SELECT 0 AS first" => honest(command).when(&gates.0),
            b"\x03SELECT 0 AS another" => honest(command).when(&gates.1),
            b"\x03SELECT 1" => front(command),
            _ => honest(command),
        });
        make_short(&scene);
        let mut held: Vec<_> = (0..2).map(|_| scene.client()).collect();
        held[0].send_packet(0, b"\x03SELECT 0 AS first");
        held[1].send_packet(0, b"\x03SELECT 0 AS another");
        wait_for("both backend connections to be busy", || {
            scene.server.received(b"SELECT 0 AS") == 2
        });
        let mut clients = Vec::new();
        for number in 1..=4 {
            let mut client = scene.client();
            client.send_packet(0, format!("\x03SELECT {number}").as_bytes());
            clients.push(client);
            thread::sleep(STEP);
        }
        assert_eq!(scene.server.received(b"\x03SELECT 1"), 0, "it waits");
        first.store(true, SeqCst);
        wait_for("the one in front", || scene.server.received(b"\x03SELECT 1") == 1);
        thread::sleep(STEP);
        other.store(true, SeqCst);
        for mut client in held {
            assert!(client.read_answer().is_ok());
        }
        Self { scene, clients }
    }

    /// What those behind the first one get.
    fn rest(&mut self) -> Vec<Answer> {
        self.clients[1..].iter_mut().map(FakeClient::read_answer).collect()
    }

    /// Ends the scene; see [`counts`].
    fn end(self) -> impl Fn(&str) -> u64 {
        drop(self.clients);
        counts(self.scene)
    }
}

/// Ends a scene without clients, and tells what Flifo has counted of this name.
fn counts(scene: Scene) -> impl Fn(&str) -> u64 {
    let log = scene.end_with_log();
    move |name| {
        let marked = format!("{name}=");
        let (_, rest) = log.split_once(&marked).unwrap_or(("", "0"));
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().expect("a number")
    }
}

fn own() -> Vec<Answer> {
    vec![row("2"), row("3"), row("4")]
}

#[test]
fn everybody_gets_his_own_answer() {
    let mut turns = (0..TURNS).map(|_| everybody_asks());
    // On a busy machine one in front may seem long often; it costs no client its answer.
    assert!(turns.any(|(ahead, again)| again < ahead / 4), "a quarter was sent again each time");
}

/// How many statements were pipelined, and how many of them were sent again.
fn everybody_asks() -> (u64, u64) {
    let mut stand = Row::stand(honest);
    assert_eq!(stand.clients[0].read_answer(), row("1"));
    assert_eq!(stand.rest(), own());
    thread::scope(|scope| {
        for number in 0..24 {
            let scene = &stand.scene;
            scope.spawn(move || {
                let mut client = scene.client();
                for turn in 0..100 {
                    let text = format!("{}", number * 1000 + turn);
                    assert_eq!(client.query(&format!("SELECT {text}")), row(&text));
                }
            });
        }
    });
    let count = stand.end();
    let (ahead, again) = (count("pipelined"), count("sent_again"));
    assert!(ahead > 100, "{ahead}");
    assert_eq!(again, count("sent_again.long"), "for no other reason");
    (ahead, again)
}

/// Not only when the next reply comes: by then the server's thread would be asleep.
#[test]
fn who_comes_while_another_runs_is_written_at_once() {
    // On a busy machine one in front may not be young any more when the other one comes.
    assert!((0..TURNS).any(|_| comes_while_another_runs() > 0));
}

/// How many statements were pipelined.
fn comes_while_another_runs() -> u64 {
    let scene = Scene::pooled("limit = 1\nconnections_max = 1\n");
    scene.server.answer(|command| match command {
        b"\x03SELECT 1" => honest(command).after(STEP),
        _ => honest(command),
    });
    make_short(&scene);
    let (mut one, mut other) = (scene.client(), scene.client());
    for _ in 0..10 {
        one.send_packet(0, b"\x03SELECT 1");
        other.send_packet(0, b"\x03SELECT 2");
        assert_eq!((one.read_answer(), other.read_answer()), (row("1"), row("2")));
    }
    drop((one, other));
    counts(scene)("pipelined")
}

#[test]
fn a_backend_that_dies_costs_only_the_one_in_front() {
    let mut counts = (0..TURNS).map(|_| {
        let mut stand = Row::stand(|_| Reply::Close.after(STEP));
        assert_eq!(stand.clients[0].read_answer().unwrap_err().code(), 1430);
        assert_eq!(stand.rest(), own());
        let count = stand.end();
        let (ahead, again) = (count("pipelined"), count("sent_again"));
        assert!(again <= ahead, "{again} of {ahead}: once is enough");
        (ahead, again)
    });
    // On a busy machine some may have waited in the queue, and are written behind those that were sent again.
    assert!(counts.any(|(_, again)| again > 0));
}

#[test]
fn nobody_waits_behind_one_that_runs_long() {
    let mut again = (0..TURNS).map(|_| {
        let flag = Flag::default();
        let gate = Arc::clone(&flag);
        let mut stand = Row::stand(move |command| honest(command).when(&gate));
        assert_eq!(stand.rest(), own());
        flag.store(true, SeqCst);
        assert_eq!(stand.clients[0].read_answer(), row("1"));
        stand.end()("sent_again")
    });
    // On a busy machine some may have waited in the queue until the other backend was free.
    assert!(again.any(|again| again > 0));
}

#[test]
fn nobody_gets_a_session_that_the_one_in_front_has_changed() {
    let changed = |_: &[u8]| {
        let mut changes = Vec::new();
        put_change(&mut changes, Change::Variable { name: b"sql_mode", value: b"ANSI" });
        let status = Status(Status::AUTOCOMMIT.0 | Status::STATE_CHANGED.0);
        let (mut ok, mut packet) = (Vec::new(), Vec::new());
        let tracks = Capabilities::SESSION_TRACK;
        OkPacket { status, changes: &changes, ..OkPacket::EMPTY }.encode(OK, tracks, &mut ok);
        put_packet(&mut packet, 1, &ok);
        Reply::Raw(packet).after(STEP)
    };
    let mut turns = (0..TURNS).map(|_| {
        let mut stand = Row::stand(changed);
        assert_eq!(stand.clients[0].read_answer(), Ok(vec![]));
        assert_eq!(stand.rest(), own());
        // The backend is the first one's from now on; replies to what was written to it for others went to no client.
        assert_eq!(stand.clients[0].query("SELECT 8"), row("8"));
        let count = stand.end();
        assert_eq!(count("pins.session_variable"), 1);
        count("sent_again")
    });
    assert!(turns.any(|again| again > 0), "none was pipelined");
}

#[test]
fn whoever_leaves_disturbs_nobody() {
    for leaver in 0..4 {
        let flag = Flag::default();
        let gate = Arc::clone(&flag);
        let mut stand = Row::stand(move |command| honest(command).when(&gate));
        drop(stand.clients.remove(leaver));
        thread::sleep(STEP);
        flag.store(true, SeqCst);
        let left = (1..=4).filter(|number| *number != leaver + 1);
        for (client, number) in stand.clients.iter_mut().zip(left) {
            assert_eq!(client.read_answer(), row(&number.to_string()), "{leaver} left");
        }
        let _ = stand.end();
    }
}

/// Four clients on one backend, of whom the first one's statement is in front and runs until `front`
/// is raised or it is killed. One of them has its statement killed. The answer is how many were
/// pipelined, and whether the killed one was behind the first one then.
fn kill_one_of_four(victim: usize) -> (u64, bool) {
    let scene = Scene::pooled("limit = 1\nconnections_max = 1\n");
    let (first, front, killed) = (Flag::default(), Flag::default(), Flag::default());
    let gates = [&first, &front, &killed].map(Arc::clone);
    scene.server.answer(move |command| match command {
        b"\x03SELECT 0 AS first" => honest(command).when(&gates[0]),
        b"\x03SELECT 1" => {
            while !gates[1].load(SeqCst) && !gates[2].load(SeqCst) {
                thread::sleep(Duration::from_millis(1));
            }
            match gates[2].load(SeqCst) {
                true => Reply::Err(1317, "Query execution was interrupted"),
                false => honest(command),
            }
        }
        _ => {
            gates[2].fetch_or(command.starts_with(b"\x03KILL QUERY"), SeqCst);
            honest(command)
        }
    });
    make_short(&scene);
    let (mut held, mut killer) = (scene.client(), scene.client());
    let mut clients: Vec<_> = (0..4).map(|_| scene.client()).collect();
    let id = clients[victim].id();
    held.send_packet(0, b"\x03SELECT 0 AS first");
    wait_for("the backend connection to be busy", || scene.server.received(b"SELECT 0 AS") == 1);
    for (client, number) in clients.iter_mut().zip(1..) {
        client.send_packet(0, format!("\x03SELECT {number}").as_bytes());
        thread::sleep(STEP);
    }
    first.store(true, SeqCst);
    wait_for("the one in front", || scene.server.received(b"\x03SELECT 1") == 1);
    assert_eq!(killer.query(&format!("KILL QUERY {id}")), Ok(vec![]));
    assert_eq!(clients[victim].read_answer().unwrap_err().code(), 1317, "{victim}");
    // Only what runs needs the server for that. Later it may also have to end what runs for no client any more.
    assert_eq!(scene.server.received(b"KILL") > 0, victim == 0);
    front.store(true, SeqCst);
    for (client, number) in clients.iter_mut().zip(0..) {
        if number != victim {
            assert_eq!(client.read_answer(), row(&(number + 1).to_string()), "{victim} killed");
        }
        assert_eq!(client.query("SELECT 9"), row("9"), "{victim} killed");
    }
    assert!(held.read_answer().is_ok());
    drop((held, killer));
    let was_written = scene.server.received(format!("\x03SELECT {}", victim + 1).as_bytes()) == 1;
    let count = Row { scene, clients }.end();
    (count("pipelined"), was_written && count("sent_again") == 0)
}

#[test]
fn who_is_killed_behind_another_is_the_only_one() {
    let mut victims = (0..TURNS).flat_map(|_| 1..4);
    // After a while they no longer wait behind the one in front, so one may come too late for that.
    let was_behind = victims.any(|victim| kill_one_of_four(victim).1);
    assert!(was_behind, "no client was killed behind another");
}

#[test]
fn who_is_killed_in_front_is_the_only_one() {
    let mut turns = (0..TURNS).map(|_| kill_one_of_four(0)).skip_while(|(ahead, _)| *ahead == 0);
    let (_, is_alone) = turns.next().expect("some are pipelined");
    assert!(!is_alone, "those behind it were not sent again");
}

#[test]
fn it_can_be_turned_off() {
    let scene = Scene::pooled("limit = 1\nconnections_max = 1\npipeline = 1\n");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let mut client = scene.client();
                for _ in 0..50 {
                    assert_eq!(client.query("SELECT 5"), row("5"));
                }
            });
        }
    });
    assert!(!scene.end_with_log().contains("pipelined"));
}
