//! Classes, from outside: by user, schema, address and comment; their bounds, and what is counted of them.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use testkit::fake_client::{FakeClient, Refusal};
use testkit::reply::{Flag, honest};
use testkit::scene::{PASSWORD, Scene, row, wait_for};

/// Statements that end with "long" run until the flag is raised.
fn long(scene: &Scene) -> Flag {
    let flag = Flag::default();
    let done = Arc::clone(&flag);
    scene.server.answer(move |command| match command.ends_with(b"long") {
        true => honest(command).when(&done),
        false => honest(command),
    });
    flag
}

/// A figure of the log's last lines.
fn figure(log: &str, name: &str) -> u64 {
    let (_, rest) = log.split_once(&format!("{name}=")).unwrap_or(("", "0"));
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

const BATCH: &str = "[[classes]]\nname = \"batch\"\nmaximum = 1\nqueue_max = 1\nwait = \"300ms\"\n";

#[test]
fn a_class_that_a_comment_names_has_its_bounds() {
    let scene = Scene::pooled(&format!("limit = 8\nconnections_max = 4\n{BATCH}"));
    let flag = long(&scene);
    let mut clients: Vec<_> = (0..3).map(|_| scene.client()).collect();
    let batch = b"\x03/* class=batch */ SELECT long";
    clients[0].send_packet(0, batch);
    wait_for("the first", || scene.server.received(batch) == 1);
    clients[1].send_packet(0, batch);
    thread::sleep(Duration::from_millis(100));
    // One runs and one waits: that is all that may.
    let full = clients[2].query("/* class=batch */ SELECT 3").unwrap_err();
    assert!(
        matches!(&full, Refusal::Error { code: 1637, message }
            if message.contains("class batch") && message.contains("queue_max 1")),
        "{full:?}"
    );
    // A class that is not there is the client's own, which has no such bounds.
    assert!(clients[2].query("/* class=nothing */ SELECT 4").is_ok());
    assert_eq!(clients[2].query("SELECT 5"), row("5"));
    let late = clients[1].read_answer().unwrap_err();
    assert!(
        matches!(&late, Refusal::Error { code: 1637, message }
            if message.contains("wait_max 0.3 s of class batch")),
        "{late:?}"
    );
    assert_eq!(scene.server.received(batch), 1);
    flag.store(true, SeqCst);
    assert!(clients[0].read_answer().is_ok());
    drop(clients);
    let log = scene.end_with_log();
    assert_eq!(figure(&log, "classes.batch.started"), 1, "{log}");
    assert_eq!(figure(&log, "classes.batch.waited"), 1, "{log}");
    assert_eq!(figure(&log, "classes.batch.refused"), 2, "{log}");
    assert!(figure(&log, "classes.default.started") >= 3, "{log}");
}

#[test]
fn a_prepared_statement_is_of_the_class_that_its_text_names() {
    let scene = Scene::pooled(&format!("limit = 8\nconnections_max = 4\n{BATCH}"));
    let mut client = scene.client();
    let id = client.prepare("/* class=batch */ SELECT 1").expect("it is prepared");
    let execute = [&[0x17][..], &id.to_le_bytes(), &[0, 1, 0, 0, 0]].concat();
    for _ in 0..3 {
        client.send_packet(0, &execute);
        // Columns, a definition, a row, the end.
        (0..4).for_each(|_| assert!(client.read_payload().is_ok()));
    }
    drop(client);
    let log = scene.end_with_log();
    assert_eq!(figure(&log, "classes.batch.started"), 3, "{log}");
}

#[test]
fn who_a_client_is_and_where_it_comes_from_tells_its_class() {
    let classes = "limit = 8\nconnections_max = 4\n\
        [[classes]]\nname = \"others\"\nusers = [\"somebody\"]\n\
        [[classes]]\nname = \"near\"\nfrom = [\"127.0.0.5\"]\nusers = [\"app\"]\n\
        [[classes]]\nname = \"apps\"\nusers = [\"app\", \"more\"]\nschemas = []\n\
        [[classes]]\nname = \"default\"\nweight = 7\n";
    let scene = Scene::pooled(classes);
    let mut near = FakeClient::connect_from([127, 0, 0, 5].into(), scene.flifo.port());
    near.log_in("app", PASSWORD).expect("a login");
    for turn in 0..5 {
        assert!(near.query(&format!("SELECT {turn}")).is_ok());
    }
    assert_eq!(near.query("/* class=others */ SELECT 1"), Ok(vec![]));
    drop(near);
    let mut far = scene.client();
    assert!(far.query("SELECT 1").is_ok() && far.query("SELECT 2").is_ok());
    drop(far);
    let log = scene.end_with_log();
    assert_eq!(figure(&log, "classes.near.started"), 5, "{log}");
    assert_eq!(figure(&log, "classes.others.started"), 1, "{log}");
    // Two, and one each at the beginning and at the end of the scene.
    assert_eq!(figure(&log, "classes.apps.started"), 4, "{log}");
    assert_eq!(figure(&log, "classes.default.started"), 0, "{log}");
}

#[test]
fn pass_through_clients_are_of_classes_as_well_and_share_by_weight() {
    let scene = Scene::pass_through(
        "limit = 1\n[[classes]]\nname = \"heavy\"\nweight = 400\n[[classes]]\nname = \"light\"\n",
    );
    // Long enough that a client is back in the queue, also on a busy machine, before it is its class's turn again.
    scene.server.answer(|command| honest(command).after(Duration::from_millis(30)));
    let until = Instant::now() + Duration::from_secs(6);
    let count = |class: &'static str| {
        let mut client = scene.client();
        let text = format!("/* class={class} */ SELECT 1");
        let mut count = 0;
        while Instant::now() < until {
            assert!(client.query(&text).is_ok());
            count += 1;
        }
        count
    };
    let count = &count;
    // Three each, so that one of each class always waits.
    let counts = thread::scope(|scope| {
        let threads =
            ["heavy", "light"].map(|class| [class; 3].map(|it| scope.spawn(move || count(it))));
        threads.map(|class| class.into_iter().map(|it| it.join().expect("served")).sum::<u32>())
    });
    let [heavy, light] = counts.map(f64::from);
    assert!((2.5..6.5).contains(&(heavy / light)), "{heavy} to {light}, at weights of 4 to 1");
    scene.end_with_backends(0);
}
