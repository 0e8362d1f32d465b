//! Clients that send a part of a command and stop: they have no slot, take no backend from others, and are ended in
//! time.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use testkit::fake_client::{FakeClient, Refusal};
use testkit::reply::{Flag, Reply, honest};
use testkit::scene::{PASSWORD, Scene, row, wait_for};
use wire::frame::{Header, PAYLOAD_MAX, put_packet};
use wire::response::Status;

const OTHER: &str = "other";

/// The packet of a statement of so many bytes.
fn statement(len: usize) -> Vec<u8> {
    let mut packet = Vec::new();
    put_packet(&mut packet, 0, &text(len));
    packet
}

fn text(len: usize) -> Vec<u8> {
    let mut text = b"\x03DELETE ".to_vec();
    text.resize(len, b'x');
    text
}

/// A client that announces a statement of so many bytes, and sends no more of it than this.
fn stall(mut client: FakeClient, len: usize, sent: usize) -> FakeClient {
    let head = Header { len: len.min(PAYLOAD_MAX), sequence: 0 }.encode();
    client.send_what_is_taken(&[&head[..], &text(sent)].concat());
    client
}

/// Users of which Flifo knows two, or none.
fn scenes(rest: &str) -> [(&'static str, Scene); 2] {
    let other = format!("[[users]]\nname = \"{OTHER}\"\npassword = \"{PASSWORD}\"\n");
    [
        ("pooled", Scene::pooled(&format!("{rest}\n{other}"))),
        ("pass_through", Scene::pass_through(rest)),
    ]
}

/// Sixteen clients send a part of a command, as large a part as they can, and others work as if they were not there.
#[test]
fn a_part_of_a_command_keeps_nothing_from_others() {
    for limit in ["limit = 4\nconnections_max = 4", ""] {
        for (mode, scene) in scenes(&format!("{limit}\n[limits]\nwait = \"2s\"\n")) {
            let (mut same, mut other) = (
                scene.client(),
                FakeClient::login(scene.flifo.port(), OTHER, PASSWORD).expect("a login"),
            );
            let backends = scene.server.open();
            for sent in [10, 100 << 10, 10 << 20] {
                let stalled: Vec<_> =
                    (0..16).map(|_| stall(scene.client(), PAYLOAD_MAX - 1, sent)).collect();
                for number in 0..50 {
                    let text = number.to_string();
                    assert_eq!(same.query(&format!("SELECT {text}")), row(&text), "{mode}");
                    assert_eq!(other.query(&format!("SELECT {text}")), row(&text), "{mode}");
                }
                // Long ones, too; of another user, whatever their length.
                assert_eq!(same.command(&text(300 << 10)), Ok(vec![]), "{mode}");
                for len in [300 << 10, 3 << 20, 20 << 20] {
                    assert_eq!(other.command(&text(len)), Ok(vec![]), "{mode}, {len} bytes");
                }
                // Pass-through clients have backends of their own.
                let own = if mode == "pass_through" { 16 } else { 0 };
                assert!(
                    scene.server.open() <= backends + own + 2,
                    "{mode}: {}",
                    scene.server.open()
                );
                drop(stalled);
                wait_for("backend connections of broken commands", || {
                    scene.server.open() <= backends + 2
                });
            }
            drop((same, other));
            scene.end_with_backends(5);
        }
    }
}

#[test]
fn a_command_that_is_sent_in_pieces_has_a_slot_for_its_end_only() {
    let scene = Scene::pass_through("limit = 1\n[limits]\nwait = \"20s\"\n");
    let flag = Flag::default();
    let done = Arc::clone(&flag);
    scene.server.answer(move |command| match command.ends_with(b"long") {
        true => honest(command).when(&done),
        false => honest(command),
    });
    let (mut slow, mut long) = (scene.client(), scene.client());
    let packet = statement(300 << 10);
    assert!(slow.send(&packet[..100 << 10]));
    // It was let in with its beginning, and has left its slot.
    assert_eq!(long.query("SELECT on"), row("on"));
    long.send_packet(0, b"\x03SELECT long");
    wait_for("the slot to be another's", || scene.server.received(b"SELECT long") == 1);
    let mut next = scene.client();
    next.send_packet(0, b"\x03SELECT next");
    assert!(slow.send(&packet[100 << 10..]));
    // A login needs no slot, and the worker has seen the rest by then.
    for _ in 0..3 {
        drop(scene.client());
        assert_eq!(scene.server.received(b"DELETE"), 0);
    }
    flag.store(true, SeqCst);
    assert_eq!(long.read_answer(), row("long"));
    assert_eq!(slow.read_answer(), Ok(vec![]));
    assert_eq!(next.read_answer(), row("next"));
    drop((slow, long, next));
    assert!(scene.end_with_log().contains("passed_in_pieces=1"));
}

#[test]
fn a_server_may_answer_a_command_that_is_not_all_there() {
    let scene = Scene::pass_through("limit = 1\n");
    let mut client = scene.client();
    assert!(client.send(&statement(300 << 10)[..100 << 10]));
    scene.works();
    let mut error = Vec::new();
    put_packet(
        &mut error,
        1,
        b"\xff\x81\x04#08S01Got a packet bigger than 'max_allowed_packet' bytes",
    );
    scene.server.blurt(&error);
    assert_eq!(client.read_payload().unwrap_err().code(), 1153);
    assert!(client.is_closed());
}

#[test]
fn long_commands_of_a_user_wait_for_room_and_come_in_order() {
    let scene = Scene::pooled("");
    // Two have all that one user may have.
    let stalled: Vec<_> = (0..2).map(|_| stall(scene.client(), PAYLOAD_MAX - 1, 1 << 20)).collect();
    let mut waiting: Vec<_> = (0..3).map(|_| scene.client()).collect();
    // Their beginnings are taken, in this order.
    for client in &mut waiting {
        client.send_what_is_taken(&statement(12 << 20)[..200 << 10]);
        scene.works();
    }
    assert_eq!(scene.server.received(b"DELETE"), 0);
    drop(stalled);
    for mut client in waiting {
        assert!(client.send(&statement(12 << 20)[200 << 10..]));
        assert_eq!(client.read_answer(), Ok(vec![]));
    }
    assert_eq!(scene.server.received(b"DELETE"), 3);
    scene.end();
}

#[test]
fn a_long_command_waits_for_room_no_longer_than_it_may() {
    let scene = Scene::pooled("[limits]\nwait = \"1s\"\nupload = \"none\"\n");
    let stalled: Vec<_> = (0..2).map(|_| stall(scene.client(), PAYLOAD_MAX - 1, 1 << 20)).collect();
    // All that it sends is read, so that it hears the answer.
    let mut late = stall(scene.client(), 12 << 20, (64 << 10) - 4);
    let refused = late.read_payload().unwrap_err();
    assert!(
        matches!(&refused, Refusal::Error { code: 1637, message }
            if message.contains("limits.wait") && message.contains("safe to try again")),
        "{refused:?}"
    );
    assert!(late.is_closed());
    // So may one that leaves.
    drop(stall(scene.client(), 12 << 20, 100 << 10));
    drop(stalled);
    assert_eq!(scene.client().command(&text(12 << 20)), Ok(vec![]));
    assert!(scene.end_with_log().contains("faults.waited_too_long=1"));
}

/// What is sent in a transaction is never made to wait: others may wait for what it holds.
#[test]
fn a_transaction_does_not_wait_for_room() {
    let scene = Scene::pooled("limit = 2\n");
    scene.server.answer(|command| match command {
        b"\x03BEGIN" => Reply::Status(Status(0x0003)),
        _ if command.starts_with(b"\x03DELETE") => Reply::Status(Status(0x0003)),
        b"\x03COMMIT" => Reply::Ok,
        _ => honest(command),
    });
    let stalled: Vec<_> = (0..2).map(|_| stall(scene.client(), PAYLOAD_MAX - 1, 1 << 20)).collect();
    let mut client = scene.client();
    assert_eq!(client.query("BEGIN"), Ok(vec![]));
    assert_eq!(client.query("DELETE"), Ok(vec![]));
    assert_eq!(client.command(&text(12 << 20)), Ok(vec![]));
    assert_eq!(client.query("COMMIT"), Ok(vec![]));
    drop((client, stalled));
    scene.end();
}

/// Whatever it is that a client does not send to its end.
#[test]
fn what_is_sent_too_slowly_ends_the_connection() {
    for (mode, scene) in scenes("limit = 2\n[limits]\nupload = \"1s\"\n") {
        scene.server.answer(|command| match command.starts_with(b"\x03LOAD") {
            true => Reply::All(vec![Reply::File { packets: None }, Reply::Ok]),
            false => honest(command),
        });
        let mut clients = Vec::new();
        // A header breaks off, a short command, a long one, one of several packets.
        let mut client = scene.client();
        client.send(&[5, 0]);
        clients.push(client);
        for (len, sent) in [(1000, 10), (300 << 10, 100 << 10), (PAYLOAD_MAX, 100 << 10)] {
            clients.push(stall(scene.client(), len, sent));
        }
        // A file, before its first packet and within.
        for sent in [0, 500] {
            let mut client = scene.client();
            client.send_packet(0, b"\x03LOAD DATA LOCAL INFILE 'x' INTO TABLE t");
            client.read_payload().unwrap();
            client.send(&statement(1000)[..sent]);
            clients.push(client);
        }
        // A value that comes in pieces of its own.
        let mut client = scene.client();
        let id = client.prepare("SELECT ?").unwrap();
        let head = Header { len: 300 << 10, sequence: 0 }.encode();
        client.send(&[&head[..], b"\x18", &id.to_le_bytes(), &[0; 100_000]].concat());
        clients.push(client);
        // One that sends a byte now and then.
        let mut trickles = scene.client();
        let trickler = thread::spawn(move || {
            let packet = statement(300 << 10);
            trickles.send(&packet[..100 << 10]);
            let sent = packet[100 << 10..].iter().take_while(|byte| {
                thread::sleep(std::time::Duration::from_millis(50));
                trickles.send(&[**byte])
            });
            (sent.count(), packet.len())
        });
        for (number, client) in clients.iter_mut().enumerate() {
            let end = client.read_payload().unwrap_err();
            assert!(
                matches!(&end, Refusal::Error { code: 1159, message }
                    if message.contains("limits.upload")),
                "{mode}, number {number}: {end:?}"
            );
            assert!(client.is_closed());
        }
        let (sent, len) = trickler.join().expect("it ends");
        assert!(sent < len - (100 << 10), "{mode}: it was never ended");
        // One that sends nothing is idle, and may be.
        let mut idle = scene.client();
        assert_eq!(idle.query("SELECT on"), row("on"));
        drop((clients, idle));
        wait_for("their backend connections to be closed", || scene.server.open() <= 2);
        let log = scene.end_with_log();
        assert!(log.contains("faults.upload_too_slow=8"), "{mode}: {log}");
    }
}

#[test]
fn a_statement_that_is_still_being_sent_does_not_run_longer_than_it_may() {
    let limits = "limit = 1\n[limits]\nstatement = \"1s\"\nupload = \"none\"\nwait = \"20s\"\n";
    for (mode, scene) in scenes(limits) {
        scene.server.answer(|command| match command.starts_with(b"\x03LOAD") {
            true => Reply::All(vec![Reply::File { packets: None }, Reply::Ok]),
            false => honest(command),
        });
        let mut loads = scene.client();
        loads.send_packet(0, b"\x03LOAD DATA LOCAL INFILE 'x' INTO TABLE t");
        loads.read_payload().unwrap();
        // The server waits for it, and another client has the slot meanwhile.
        let mut other = scene.client();
        assert_eq!(other.query("SELECT on"), row("on"), "{mode}");
        assert_eq!(loads.read_payload().unwrap_err().code(), 1969, "{mode}");
        assert!(loads.is_closed());
        // What is longer than can be kept goes on in pieces.
        let mut long = scene.client();
        let mut bytes = Vec::new();
        put_packet(&mut bytes, 0, &text(40 << 20));
        assert!(long.send(&bytes[..34 << 20]));
        assert_eq!(other.query("SELECT on"), row("on"), "{mode}");
        assert_eq!(long.read_payload().unwrap_err().code(), 1969, "{mode}");
        assert!(long.is_closed());
        assert_eq!(other.query("SELECT on"), row("on"), "{mode}");
        drop((loads, long, other));
        assert!(scene.end_with_log().contains("faults.statement_too_long=2"), "{mode}");
    }
}

/// Commands of all lengths arrive as they were sent, in one piece or in several.
#[test]
fn commands_of_every_length_arrive() {
    let lengths = [
        65_535,
        65_536,
        65_537,
        (1 << 20) - 1,
        1 << 20,
        (1 << 20) + 1,
        PAYLOAD_MAX - 1,
        PAYLOAD_MAX,
        PAYLOAD_MAX + 1,
        32 << 20,
        (32 << 20) + 1,
        2 * PAYLOAD_MAX + 70_000,
    ];
    for (mode, scene) in scenes("limit = 2\n") {
        let mut client = scene.client();
        for (number, len) in lengths.into_iter().enumerate() {
            assert_eq!(client.command(&text(len)), Ok(vec![]), "{mode}, {len} bytes");
            assert_eq!(scene.server.received(b"DELETE"), number + 1, "{mode}, {len} bytes");
            let text = len.to_string();
            assert_eq!(client.query(&format!("SELECT {text}")), row(&text));
        }
        let id = client.prepare("SELECT ?").unwrap();
        for len in [100 << 10, 20 << 20] {
            let piece = [&b"\x18"[..], &id.to_le_bytes(), &[0, 0], &vec![7; len]].concat();
            client.send_packet(0, &piece);
        }
        let execute = [&b"\x17"[..], &id.to_le_bytes(), b"\0\x01\0\0\0\0\x01\xfc\0"].concat();
        assert_eq!(client.command(&execute), row("executed"), "{mode}");
        // A value in the execute itself.
        let value = [&b"\xfe\0\0\x40\x01\0\0\0\0"[..], &vec![7; 20 << 20]].concat();
        let execute =
            [&b"\x17"[..], &id.to_le_bytes(), b"\0\x01\0\0\0\0\x01\xfc\0", &value].concat();
        assert_eq!(client.command(&execute), row("executed"), "{mode}");
        drop(client);
        scene.end_with_backends(3);
    }
}
