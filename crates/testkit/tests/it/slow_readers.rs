//! A client that does not read its reply keeps no other client from the server: it gives up its slot, and gets one
//! again when it reads on.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;
use std::time::{Duration, Instant};

use testkit::fake_client::FakeClient;
use testkit::reply::{Flag, Reply, honest};
use testkit::scene::{Scene, row, wait_for};
use wire::response::Status;

/// More than the kernel keeps between two sockets.
const ROWS: usize = 1000;
const WIDTH: usize = 32 << 10;

/// One slot for all. A query for "much" gets a large result; a query for "long" is answered when the flag is raised.
fn scenes() -> [(Scene, Flag); 2] {
    let rest = "limit = 1\nconnections_max = 4\n[limits]\nwait = \"20s\"\n";
    [Scene::pooled(rest), Scene::pass_through(rest)].map(|scene| {
        let flag = Flag::default();
        let done = Arc::clone(&flag);
        scene.server.answer(move |command| match command {
            _ if command.ends_with(b"much") => Reply::Many { rows: ROWS, width: WIDTH },
            _ if command.ends_with(b"long") => honest(command).when(&done),
            b"\x03INSERT" => Reply::Status(Status(Status::IN_TRANSACTION.0)),
            _ => honest(command),
        });
        (scene, flag)
    })
}

/// Asks for a large result, and reads the first packet of it.
fn ask_for_much(client: &mut FakeClient) {
    client.send_packet(0, b"\x03SELECT much");
    assert!(client.read_payload().is_ok());
}

/// Reads the rest: definition, rows, end.
fn read_rest(client: &mut FakeClient) {
    for packet in 0..ROWS + 2 {
        let payload = client.read_payload();
        let len = payload.as_ref().map_or(0, Vec::len);
        assert!(packet == 0 || packet == ROWS + 1 || len > WIDTH, "packet {packet}: {len}");
    }
}

#[test]
fn who_does_not_read_has_no_slot_and_gets_his_whole_reply_later() {
    for (scene, _) in scenes() {
        let (mut slow, mut other) = (scene.client(), scene.client());
        ask_for_much(&mut slow);
        let begun = Instant::now();
        for _ in 0..10 {
            assert_eq!(other.query("SELECT on"), row("on"));
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
        read_rest(&mut slow);
        assert_eq!(slow.query("SELECT on"), row("on"));
        // In a transaction it may hold locks that others wait for: it goes on even if another client has the slot.
        assert!(slow.query("INSERT").is_ok());
        ask_for_much(&mut slow);
        read_rest(&mut slow);
        drop((slow, other));
        assert!(scene.end_with_log().contains("held_up="));
    }
}

#[test]
fn who_reads_on_waits_for_a_slot_before_all_others() {
    for (scene, flag) in scenes() {
        let mut slow = scene.client();
        ask_for_much(&mut slow);
        let mut long = scene.client();
        long.send_packet(0, b"\x03SELECT long");
        wait_for("the slot to be another's", || scene.server.received(b"SELECT long") == 1);
        let mut next = scene.client();
        next.send_packet(0, b"\x03SELECT next");
        thread::scope(|scope| {
            let reader = scope.spawn(|| read_rest(&mut slow));
            thread::sleep(Duration::from_millis(300));
            assert!(!reader.is_finished(), "it was read without a slot");
            assert_eq!(scene.server.received(b"SELECT next"), 0);
            flag.store(true, SeqCst);
        });
        assert_eq!(long.read_answer(), row("long"));
        assert_eq!(next.read_answer(), row("next"));
        drop((slow, long, next));
        scene.end();
    }
}

#[test]
fn who_leaves_without_a_slot_leaves_nothing_behind() {
    for (scene, flag) in scenes() {
        let (mut unread, mut reading) = (scene.client(), scene.client());
        ask_for_much(&mut unread);
        ask_for_much(&mut reading);
        let mut long = scene.client();
        long.send_packet(0, b"\x03SELECT long");
        wait_for("the slot to be another's", || scene.server.received(b"SELECT long") == 1);
        // One leaves while it reads nothing, the other while it waits for a slot to read on.
        let stopped = thread::spawn(move || {
            for _ in 0..ROWS / 2 {
                if reading.read_payload().is_err() {
                    break;
                }
            }
        });
        thread::sleep(Duration::from_millis(200));
        drop(unread);
        flag.store(true, SeqCst);
        assert_eq!(long.read_answer(), row("long"));
        stopped.join().expect("it has read");
        for _ in 0..5 {
            assert_eq!(scene.client().query("SELECT on"), row("on"));
        }
        drop(long);
        scene.end();
    }
}
