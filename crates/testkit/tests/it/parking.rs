//! `server.parking`: statements that wait for something in the server do not keep others out of it.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use testkit::reply::{Flag, honest};
use testkit::scene::{Scene, row, wait_for};

/// Two slots. Statements that end with "lock" wait until the flag is raised.
fn scene(parking: &str) -> (Scene, Flag) {
    let scene = Scene::pooled(&format!(
        "limit = 2\nlinks_max = 8\n{parking}[limits]\nwait = \"10s\"\nidle_link = \"1s\"\n"
    ));
    let flag = Flag::default();
    let done = Arc::clone(&flag);
    scene.server.answer(move |command| match command.ends_with(b"lock") {
        true => honest(command).when(&done),
        false => honest(command),
    });
    (scene, flag)
}

#[test]
fn who_waits_for_a_lock_leaves_its_slot_to_others() {
    let (scene, flag) = scene("parking = \"on\"\n");
    let mut stuck: Vec<_> = (0..4).map(|_| scene.client()).collect();
    for client in &mut stuck {
        client.send_packet(0, b"\x03UPDATE lock");
    }
    // The limit is two: all four get there only if the first ones are parked.
    wait_for("all to wait in the server", || scene.server.received(b"UPDATE lock") >= 3);
    let mut other = scene.client();
    let begun = Instant::now();
    for _ in 0..20 {
        assert_eq!(other.query("SELECT on"), row("on"));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    flag.store(true, SeqCst);
    for client in &mut stuck {
        assert!(client.read_answer().is_ok());
    }
    drop((stuck, other));
    let log = scene.end_with_log();
    assert!(log.contains("parked="), "{log}");
}

#[test]
fn without_it_the_limit_is_the_limit() {
    let (scene, flag) = scene("");
    let mut stuck: Vec<_> = (0..3).map(|_| scene.client()).collect();
    for client in &mut stuck {
        client.send_packet(0, b"\x03UPDATE lock");
    }
    std::thread::sleep(Duration::from_millis(600));
    assert_eq!(scene.server.received(b"UPDATE lock"), 2);
    flag.store(true, SeqCst);
    for client in &mut stuck {
        assert!(client.read_answer().is_ok());
    }
    drop(stuck);
    assert!(!scene.end_with_log().contains("parked="));
}
