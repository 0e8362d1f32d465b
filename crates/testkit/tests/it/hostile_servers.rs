//! Servers that greet with nonsense, die in the middle, lie about lengths, or fall silent. A client is told what
//! happened or loses its connection; it never gets what is not its own, and Flifo goes on with the next backend.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use backend::Address;
use testkit::client::Client;
use testkit::fake_client::{FakeClient, Refusal};
use testkit::fake_server::Entry;
use testkit::reply::{Flag, Reply, honest};
use testkit::scene::{MEMORY_MAX, PASSWORD, Scene, USER, row, wait_for};
use wire::Capabilities;
use wire::frame::{Header, PAYLOAD_MAX, put_packet};
use wire::response::ErrPacket;

/// One backend, and little time to open another: time enough for an honest server on a busy machine.
const ONE_BACKEND: &str =
    "limit = 1\nconnections_max = 1\n[limits]\nconnect = \"2s\"\nlogin = \"2s\"\n";

/// Little time to open a backend, for servers that say nothing.
const SHORT: &str = "[limits]\nconnect = \"2s\"\nlogin = \"2s\"\n";

fn packet(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    put_packet(&mut out, sequence, payload);
    out
}

/// What servers may say in a greeting's place, and what a client is told then.
fn bad_greetings() -> Vec<(Vec<u8>, u16)> {
    let too_many = ErrPacket { code: 1040, sqlstate: *b"08004", message: b"Too many connections" };
    let mut refusal = Vec::new();
    too_many.encode_greeting(&mut refusal);
    vec![
        (packet(0, &refusal), 1040),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), 1429),
        (packet(0, b"\x09old\0\x01\0\0\0saltsalt\0"), 1429),
        (packet(0, b"\x0a10.11\0\x01\0"), 1429),
        (packet(0, b""), 1429),
        (packet(7, b"\x0a10.11\0\x01\0"), 1429),
        (packet(0, &[0x0a; 60_000]), 1429),
        (Header { len: PAYLOAD_MAX, sequence: 0 }.encode().to_vec(), 1429),
        // It says nothing at all.
        (Vec::new(), 1429),
    ]
}

/// Has the pooled client's backend die, so that its next statement needs a new one.
fn lose_backend(scene: &Scene, client: &mut FakeClient) {
    scene.server.answer(|command| match command.ends_with(b"bye") {
        true => Reply::Close,
        false => honest(command),
    });
    assert_eq!(client.query("SELECT bye").unwrap_err().code(), 1430);
}

#[test]
fn what_a_driver_sets_when_it_connects_and_has_already_is_not_lost_with_a_backend() {
    let scene = Scene::pooled(ONE_BACKEND);
    let mut client = scene.client();
    scene.server.answer(|command| match command.ends_with(b"autocommit = 1") {
        true => Reply::Close,
        false => honest(command),
    });
    client.query("SET autocommit = 1").expect("it is so, whatever backend it has");
    assert_eq!(client.query("SELECT again"), row("again"));
    scene.end();
}

/// Behind rows that end in an EOF packet, some servers are asked what they have set; the client has its rows by then.
#[test]
fn a_read_is_over_though_the_question_behind_it_has_no_answer() {
    let scene = Scene::pooled(ONE_BACKEND);
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: scene.flifo.port() };
    let old = Client::builder(address, USER, PASSWORD).with(Capabilities::LOCAL_FILES);
    let mut client = old.connect().expect("a login");
    assert!(!client.capabilities().has(Capabilities::DEPRECATE_EOF));
    scene.server.answer(|command| {
        if command.starts_with(b"\x03SELECT") && !command.ends_with(b"again") {
            let mut bytes = Reply::row("x").encode(Capabilities::default(), &mut 1);
            // There is something to be told: the high byte of the status.
            *bytes.last_mut().expect("a packet") |= 0x40;
            return Reply::Raw(bytes);
        }
        match command.ends_with(b"START TRANSACTION") {
            true => Reply::Close,
            false => honest(command),
        }
    });
    for text in ["SELECT x", "SELECT x FROM t WHERE id = 1"] {
        assert_eq!(client.query(text).expect("rows"), [["x"]]);
        assert_eq!(client.query("SELECT again").expect("it goes on"), [["again"]]);
    }
    scene.server.answer(honest);
    scene.end();
}

#[test]
fn a_bad_greeting_is_told_and_the_next_backend_works() {
    let scene = Scene::pooled(ONE_BACKEND);
    let mut client = scene.client();
    for (bytes, code) in bad_greetings() {
        lose_backend(&scene, &mut client);
        scene.server.enter(Entry::Bytes(bytes.clone()));
        let refused = client.query("SELECT no").unwrap_err();
        assert_eq!(refused.code(), code, "{refused:?} for {bytes:?}");
        scene.server.enter(Entry::Well);
        assert_eq!(client.query("SELECT again"), row("again"));
    }
    drop(client);
    scene.end();
    let scene = Scene::pass_through(SHORT).witnessed();
    for (bytes, code) in bad_greetings() {
        scene.server.enter(Entry::Bytes(bytes.clone()));
        let refused = scene.try_client().unwrap_err();
        assert_eq!(refused.code(), code, "{refused:?} for {bytes:?}");
        scene.server.enter(Entry::Well);
        scene.works();
    }
    scene.end();
}

#[test]
fn a_server_may_die_at_every_byte_of_a_login() {
    let scene = Scene::pooled(ONE_BACKEND);
    let mut client = scene.client();
    for cut in 0..scene.server.login_len() {
        lose_backend(&scene, &mut client);
        scene.server.enter(Entry::Cut(cut));
        let refused = client.query("SELECT no").unwrap_err();
        assert_eq!(refused.code(), 1429, "{refused:?} at {cut}");
        scene.server.enter(Entry::Well);
        assert_eq!(client.query("SELECT again"), row("again"));
    }
    drop(client);
    scene.end();
    let scene = Scene::pass_through(SHORT).witnessed();
    for cut in 0..scene.server.login_len() {
        scene.server.enter(Entry::Cut(cut));
        let refused = scene.try_client().unwrap_err();
        assert_eq!(refused.code(), 1429, "{refused:?} at {cut}");
        scene.server.enter(Entry::Well);
    }
    scene.end();
}

#[test]
fn a_login_that_is_answered_badly_or_never_ends_in_time() {
    let answers = [
        (Vec::new(), "limits.login"),
        (packet(2, b""), "authentication packet"),
        (packet(2, b"\x77what"), "authentication packet"),
        (packet(9, b"\0\0\0\x02\0\0\0"), "numbered"),
        // The account may have another method, which is asked for behind an answer to this one.
        (
            [packet(2, b"\xfeno_such_plugin\0a nonce."), packet(4, b"\xff\x15\x04#28000no")]
                .concat(),
            "no_such_plugin",
        ),
        (packet(2, b"\x01\x09more"), "plugin"),
        (packet(2, b"\xff"), "error"),
        (Header { len: PAYLOAD_MAX, sequence: 2 }.encode().to_vec(), "packet of"),
    ];
    let scene = Scene::pooled(ONE_BACKEND);
    let mut client = scene.client();
    for (bytes, word) in &answers {
        lose_backend(&scene, &mut client);
        scene.server.enter(Entry::Answer(bytes.clone()));
        let refused = client.query("SELECT no").unwrap_err();
        assert!(
            matches!(&refused, Refusal::Error { code: 1429, message } if message.contains(word)),
            "{refused:?} for {bytes:?}"
        );
        scene.server.enter(Entry::Well);
        assert_eq!(client.query("SELECT again"), row("again"));
    }
    drop(client);
    scene.end();
    let scene = Scene::pass_through(SHORT).witnessed();
    for (bytes, _) in &answers {
        scene.server.enter(Entry::Answer(bytes.clone()));
        let begun = Instant::now();
        // A request for another plugin is the client's to answer: this one takes it for the end, and goes.
        let end = scene.try_client().map(|_| ());
        assert!(begun.elapsed() < Duration::from_secs(9), "{end:?} for {bytes:?}");
        let is_request = matches!(bytes.get(4), Some(0xfe | 0x01));
        assert!(is_request || end.is_err(), "{end:?} for {bytes:?}");
        scene.server.enter(Entry::Well);
    }
    scene.end();
}

/// Replies of each kind, with the command that asks for them.
fn replies() -> Vec<(&'static [u8], Reply)> {
    let rows = |more| Reply::Rows { rows: vec![b"one".to_vec(), b"two".to_vec()], more };
    vec![
        (b"\x03SELECT rows", rows(false)),
        (b"\x03SELECT twice", Reply::All(vec![rows(true), rows(true), Reply::Ok])),
        (b"\x16SELECT ?", Reply::Prepared { id: 1, parameters: 1, columns: 2 }),
        (b"\x03INSERT", Reply::Ok),
        (b"\x03INSERT wrong", Reply::Err(1062, "Duplicate entry")),
        (b"\x09", Reply::Raw(packet(1, b"Uptime: 1  Threads: 2"))),
    ]
}

#[test]
fn a_server_may_die_at_every_byte_of_a_reply() {
    for scene in [Scene::pooled(""), Scene::pooled_mysql(""), Scene::pass_through("")] {
        for (command, reply) in replies() {
            let whole = reply.encode(Capabilities::DEPRECATE_EOF, &mut 1);
            for cut in 0..whole.len() {
                let piece = reply.clone().cut(cut);
                scene.server.answer(move |asked| match asked == command {
                    true => piece.clone(),
                    false => honest(asked),
                });
                let mut client = scene.client();
                client.send_packet(0, command);
                let mut got = Vec::new();
                let end = loop {
                    match client.read_payload() {
                        Ok(payload) => {
                            put_packet(&mut got, client.sequence(), &payload);
                        }
                        Err(end) => break end,
                    }
                };
                // What came is what the server said; and then the truth, or nothing.
                assert!(whole.starts_with(&got), "{command:?} cut at {cut}");
                assert!(matches!(end.code(), 0 | 1430), "{command:?} cut at {cut}: {end:?}");
                if cut == 0 {
                    assert_eq!(end.code(), 1430, "nothing stands in the way of telling it");
                }
            }
        }
        scene.server.answer(honest);
        scene.end();
    }
}

#[test]
fn what_is_not_the_protocol_ends_the_backend_and_is_told() {
    let long = Header { len: 2 << 20, sequence: 1 }.encode();
    let changed = b"\0\0\0\x02\x40\0\0\0\x09\x01\x05\x04te";
    let nonsense: Vec<Vec<u8>> = vec![
        packet(1, b""),
        packet(1, b"\0"),
        packet(1, b"\xff"),
        packet(1, b"\xff\x01\x04#HY"),
        packet(1, b"\xfb"),
        packet(1, b"\xfc"),
        packet(1, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff"),
        packet(1, changed),
        // Packets that must be read as a whole, and are too long for that.
        [&long[..], &[0; 2 << 20]].concat(),
        [&long[..], &[0xff; 2 << 20]].concat(),
        // The end of rows where columns should be, and an empty row.
        [packet(1, &[1]), packet(2, b"column"), packet(3, b"")].concat(),
    ];
    for bytes in nonsense {
        let scene = Scene::pooled("");
        let said = bytes.clone();
        scene.server.answer(move |command| match command.ends_with(b"nonsense") {
            true => Reply::Raw(said.clone()),
            false => honest(command),
        });
        let before = scene.flifo.memory();
        let mut client = scene.client();
        client.send_packet(0, b"\x03SELECT nonsense");
        if bytes != packet(1, b"\xfb") {
            let end = loop {
                if let Err(end) = client.read_payload() {
                    break end;
                }
            };
            let start = &bytes[..bytes.len().min(40)];
            assert_eq!(end.code(), 1430, "{end:?} for {start:?}");
            assert_eq!(client.query("SELECT on"), row("on"));
        }
        assert!(scene.flifo.memory() < before + MEMORY_MAX / 4);
        drop(client);
        scene.end();
    }
}

#[test]
fn more_than_was_asked_for_reaches_nobody_else() {
    let scene = Scene::pooled(ONE_BACKEND);
    scene.server.answer(|command| match command.ends_with(b"double") {
        // In one piece: what comes later cannot be told from the next answer.
        true => Reply::Raw([result("double"), result("stale")].concat())
            .after(Duration::from_millis(100)),
        false => honest(command),
    });
    for _ in 0..5 {
        let (mut one, mut other) = (scene.client(), scene.client());
        one.send_packet(0, b"\x03SELECT double");
        wait_for("the first statement", || scene.server.received(b"double") > 0);
        // It waits in the queue for the only backend, on which more comes than its turn allows.
        other.send_packet(0, b"\x03SELECT other");
        assert_eq!(one.read_answer(), row("double"));
        assert_eq!(other.read_answer(), row("other"));
        assert_eq!(one.query("SELECT one"), row("one"));
    }
    scene.end();
}

/// A result as it stands on the wire.
fn result(text: &str) -> Vec<u8> {
    Reply::row(text).encode(Capabilities::DEPRECATE_EOF, &mut 1)
}

#[test]
fn a_server_that_speaks_out_of_turn_loses_the_backend() {
    let scene = Scene::pooled("");
    let shutdown = packet(0, b"\xff\x1d\x04#08S01Server shutdown in progress");
    for bytes in [result("stale"), shutdown, packet(0, b"\0\0\0\x02\0\0\0"), vec![0xee; 100_000]] {
        let backends = scene.server.open();
        assert!(backends > 0);
        scene.server.blurt(&bytes);
        wait_for("the backend connection to be dropped", || scene.server.open() < backends);
        scene.works();
    }
    scene.end();
}

#[test]
fn a_flood_that_nobody_asked_for_is_held_back() {
    let scene = Scene::pass_through("");
    let client = scene.client();
    let before = scene.flifo.memory();
    std::thread::scope(|scope| {
        let flood = scope.spawn(|| scene.server.blurt(&vec![0; 256 << 20]));
        // The client reads nothing. Flifo takes what sockets hold, and then no more.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(700) && !flood.is_finished() {
            assert!(scene.flifo.memory() < before + MEMORY_MAX);
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!flood.is_finished(), "256 MiB went somewhere");
        drop(client);
        scene.server.hang_up();
    });
    scene.end();
}

#[test]
fn a_server_that_leaves_during_an_upload_does_not_turn_the_rest_into_statements() {
    for scene in [Scene::pooled("").witnessed(), Scene::pass_through("").witnessed()] {
        scene.server.answer(|command| match command.starts_with(b"\x03LOAD") {
            true => Reply::All(vec![Reply::File { packets: Some(2) }, Reply::Close]),
            false => honest(command),
        });
        for _ in 0..10 {
            let mut client = scene.client();
            client.send_packet(0, b"\x03LOAD DATA LOCAL INFILE 'x' INTO TABLE t");
            client.read_payload().unwrap();
            client.send_packet(2, b"first");
            client.send_packet(3, b"second");
            // A long file's packets are numbered zero again, and a line may look like a statement.
            let line = packet(0, b"\x03SELECT smuggled");
            while client.send(&line) && client.sequence() < 2 {
                match client.read_payload() {
                    Ok(_) => {}
                    Err(end) => {
                        assert!(matches!(end.code(), 0 | 1430 | 1156), "{end:?}");
                        break;
                    }
                }
            }
            client.send(&line);
            client.half_close();
            while client.read_payload() != Err(Refusal::Closed) {}
        }
        assert_eq!(scene.server.received(b"\x03SELECT smuggled"), 0);
        scene.end();
    }
}

#[test]
fn a_prepare_that_promises_too_much_is_waited_for_without_memory() {
    let scene = Scene::pooled_mysql("");
    scene.server.answer(|command| match command.first() {
        Some(0x16) => Reply::Prepared { id: 1, parameters: u16::MAX, columns: u16::MAX },
        // The head alone: what is behind it is not what it should be.
        Some(0x17) if command.len() == 10 => Reply::Err(1835, "Malformed communication packet"),
        _ => honest(command),
    });
    let before = scene.flifo.memory();
    let mut client = scene.client();
    for _ in 0..3 {
        let id = client.prepare("SELECT ?").unwrap();
        // As many parameters as the server says: the bitmap alone has 8192 bytes.
        let short = [&[0x17][..], &id.to_le_bytes(), &[0, 1, 0, 0, 0, 0, 1]].concat();
        assert_eq!(client.command(&short).unwrap_err().code(), 1835);
    }
    assert!(scene.flifo.memory() < before + MEMORY_MAX / 4);
    drop(client);
    scene.end();
}

#[test]
fn a_reply_that_pauses_where_a_client_wants_an_eof_packet_goes_on() {
    let scene = Scene::pooled("");
    let gate = Flag::default();
    let shown = Arc::clone(&gate);
    let prepared = Reply::Prepared { id: 7, parameters: 1, columns: 1 };
    let whole = prepared.encode(Capabilities::NONE, &mut 1);
    // The statement, its parameter, and the end of those; the definition of its column comes later.
    let end_of = |begin: usize| begin + Header::peek(&whole[begin..]).expect("a header").len + 4;
    let third = end_of(end_of(end_of(0)));
    let (before, behind) = (whole[..third].to_vec(), whole[third..].to_vec());
    scene.server.answer(move |command| match command[0] {
        0x16 => {
            Reply::All(vec![Reply::Raw(before.clone()), Reply::Raw(behind.clone()).when(&gate)])
        }
        _ => honest(command),
    });
    let mut client = FakeClient::connect(scene.flifo.port());
    let mut greeting = client.read_greeting().expect("a greeting");
    greeting.capabilities = greeting.capabilities.without(Capabilities::DEPRECATE_EOF);
    client.send_packet(1, &FakeClient::login_payload(&greeting, USER, PASSWORD));
    client.read_payload().expect("a login");
    client.send_packet(0, b"\x16SELECT ?");
    let mut read = || client.read_payload().expect("a packet");
    let begins: Vec<_> = (0..3).map(|_| read()[0]).collect();
    assert_eq!(begins, [0, 3, 0xfe], "the statement, its parameter, the end of those");
    shown.store(true, SeqCst);
    let ends: Vec<_> = (0..2).map(|_| read()[0]).collect();
    assert_eq!(ends, [3, 0xfe]);
    drop(client);
    scene.end();
}
