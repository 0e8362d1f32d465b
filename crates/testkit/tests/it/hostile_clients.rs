//! Clients that lie, stammer or fall silent. Each test has a well-behaved client beside it, which must not notice.

use std::net::Ipv4Addr;
use std::thread;
use std::time::{Duration, Instant};

use testkit::fake_client::{FakeClient, Refusal};
use testkit::reply::{Reply, honest};
use testkit::scene::{MEMORY_MAX, PASSWORD, Scene, USER, row, wait_for};
use wire::frame::{Header, PAYLOAD_MAX, put_packet};

/// Logins time out soon, so that silent clients are gone before a test ends.
const SHORT: &str = "[limits]\nlogin = \"1s\"\n";

fn scenes() -> [Scene; 2] {
    [Scene::pooled(SHORT).witnessed(), Scene::pass_through(SHORT).witnessed()]
}

/// Closed, with or without a word about the handshake, the password, or the order of packets.
fn is_no_login(end: &Refusal) -> bool {
    matches!(end.code(), 0 | 1043 | 1045 | 1156)
}

#[test]
fn garbage_before_the_login_ends_the_connection() {
    for scene in scenes() {
        for garbage in [
            &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
            &[0; 64],
            &[0xff; 4096],
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"\x05\x00\x00\x01ABCDE",
            b"\x00\x00\x00\x01",
        ] {
            let mut client = FakeClient::connect(scene.flifo.port());
            client.read_greeting().unwrap();
            client.send(garbage);
            let end = client.read_payload().unwrap_err();
            assert!(is_no_login(&end), "{end:?}");
        }
        scene.end();
    }
}

#[test]
fn a_login_may_break_off_at_every_byte() {
    for scene in scenes() {
        let greet = || {
            let mut client = FakeClient::connect(scene.flifo.port());
            let greeting = client.read_greeting().unwrap();
            (client, FakeClient::login_payload(&greeting, USER, PASSWORD))
        };
        let len = greet().1.len();
        for cut in 0..len {
            // The packet breaks off.
            let (mut client, payload) = greet();
            let mut packet = Vec::new();
            put_packet(&mut packet, 1, &payload);
            client.send(&packet[..cut + 4]);
            client.half_close();
            assert!(client.is_closed(), "{cut}");
            // The packet is whole, but what it says breaks off.
            let (mut client, payload) = greet();
            client.send_packet(1, &payload[..cut]);
            client.half_close();
            match client.read_payload() {
                // Only the plugin's name is cut, or is not there: then the native one is meant.
                Ok(_) => assert!(cut > len - 25, "{cut}"),
                Err(end) => assert!(is_no_login(&end), "{cut}: {end:?}"),
            }
        }
        scene.end();
    }
}

#[test]
fn packets_out_of_order_end_the_connection() {
    for scene in scenes() {
        for sequence in [0, 2, 7, 255] {
            let mut client = FakeClient::connect(scene.flifo.port());
            let greeting = client.read_greeting().unwrap();
            let login = FakeClient::login_payload(&greeting, USER, PASSWORD);
            client.send_packet(sequence, &login);
            assert!(is_no_login(&client.read_payload().unwrap_err()), "{sequence}");
        }
        for sequence in [1, 3, 255] {
            let mut client = scene.client();
            client.send_packet(sequence, b"\x03SELECT 1");
            assert_eq!(client.read_answer().unwrap_err().code(), 1156, "{sequence}");
            assert!(client.is_closed());
        }
        scene.end();
    }
}

#[test]
fn a_login_that_fails_is_told_why() {
    for scene in scenes() {
        let end = |bytes: &[u8]| {
            let mut client = FakeClient::connect(scene.flifo.port());
            client.read_greeting().unwrap();
            client.send(bytes);
            match client.read_payload() {
                Err(Refusal::Error { code: 1043 | 1156, message }) => message,
                other => panic!("{other:?}"),
            }
        };
        assert!(end(b"").contains("limits.login"));
        assert!(end(&Header { len: 70_000, sequence: 1 }.encode()).contains("65536"));
        assert!(end(b"\x01\0\0\x07x").contains("numbered 7"));
        scene.end();
    }
}

#[test]
fn a_length_that_is_a_lie_reserves_nothing() {
    for scene in scenes() {
        // In a login it is too long at once.
        let mut client = FakeClient::connect(scene.flifo.port());
        client.read_greeting().unwrap();
        client.send(&Header { len: PAYLOAD_MAX, sequence: 1 }.encode());
        assert!(is_no_login(&client.read_payload().unwrap_err()));
        // In a command it may be true: the rest is waited for, but no memory is.
        let before = scene.flifo.memory();
        let liars: Vec<_> = (0..100)
            .map(|_| {
                let mut client = scene.client();
                client.send(&Header { len: PAYLOAD_MAX, sequence: 0 }.encode());
                client.send(b"\x03SELECT ");
                client
            })
            .collect();
        scene.works();
        assert!(scene.flifo.memory() < before + MEMORY_MAX / 2);
        drop(liars);
        scene.end();
    }
}

#[test]
fn an_unknown_command_is_answered_and_an_empty_one_ends_the_connection() {
    let scene = Scene::pooled(SHORT).witnessed();
    let mut client = scene.client();
    for command in [0x40, 0x80, 0xff] {
        let refused = client.command(&[command, 1, 2, 3]).unwrap_err();
        assert_eq!(refused.code(), 1047, "{command}");
    }
    assert_eq!(client.query("SELECT on"), row("on"));
    assert_eq!(client.command(b"").unwrap_err().code(), 1835);
    assert!(client.is_closed());
    scene.end();
}

#[test]
fn a_command_longer_than_it_may_be_is_no_way_to_send_another() {
    for command in [0x0e, 0x1f, 0x19, 0x1a, 0x02] {
        let scene = Scene::pooled(SHORT).witnessed();
        let mut client = scene.client();
        // What stands behind the first 64 KiB must not be taken for a command of its own.
        let mut inner = Vec::new();
        put_packet(&mut inner, 0, b"\x03SELECT smuggled");
        let mut payload = vec![command];
        while payload.len() < 100_000 {
            payload.extend_from_slice(&inner);
        }
        client.send_packet(0, &payload);
        client.half_close();
        while client.read_payload().is_ok() {}
        assert_eq!(scene.server.received(b"\x03SELECT smuggled"), 0, "{command:#x}");
        scene.end();
    }
}

#[test]
fn a_login_byte_by_byte_is_ended_in_time() {
    for scene in scenes() {
        let mut client = FakeClient::connect(scene.flifo.port());
        let greeting = client.read_greeting().unwrap();
        let mut login = Vec::new();
        put_packet(&mut login, 1, &FakeClient::login_payload(&greeting, USER, PASSWORD));
        let begun = Instant::now();
        let mut bytes = login.iter().cycle();
        // The first byte behind the end is refused by the kernel.
        while client.send(&[*bytes.next().unwrap()]) {
            thread::sleep(Duration::from_millis(40));
            // By default it would be ten.
            assert!(begun.elapsed() < Duration::from_secs(9));
        }
        assert!(begun.elapsed() >= Duration::from_millis(900));
        scene.end();
    }
}

#[test]
fn a_huge_result_that_nobody_reads_is_held_back_and_ended() {
    let limits = "[limits]\nwrite_stall = \"1s\"\n";
    for scene in [Scene::pooled(limits).witnessed(), Scene::pass_through(limits).witnessed()] {
        scene.server.answer(|command| match command.ends_with(b"everything") {
            true => Reply::Many { rows: 32 << 10, width: 64 << 10 },
            false => honest(command),
        });
        let before = scene.flifo.memory();
        let mut client = scene.client();
        let open = scene.server.open();
        client.send_packet(0, b"\x03SELECT everything");
        // It ends when the client has not read for so long, and so does its statement at the server.
        wait_for("the end of the statement", || {
            assert!(scene.flifo.memory() < before + MEMORY_MAX);
            scene.server.received(b"everything") == 1
                && scene.flifo.log().contains("does not read its reply")
        });
        wait_for("the end of the backend connection", || scene.server.open() < open + 1);
        while client.read_payload().is_ok() {}
        scene.end();
    }
}

#[test]
fn a_client_that_reads_slowly_but_steadily_is_served_to_the_end() {
    let scene = Scene::pooled("[limits]\nwrite_stall = \"1s\"\n").witnessed();
    let rows = 1200;
    scene.server.answer(move |command| match command.ends_with(b"slowly") {
        true => Reply::Many { rows, width: 32 << 10 },
        false => honest(command),
    });
    let mut client = scene.client();
    client.send_packet(0, b"\x03SELECT slowly");
    let begun = Instant::now();
    // Count, definition, rows, end: over three seconds, and never a second without reading.
    for packet in 0..rows + 3 {
        let payload = client.read_payload();
        assert!(payload.is_ok(), "{packet}: {payload:?} after {:?}", begun.elapsed());
        if packet % 30 == 0 {
            thread::sleep(Duration::from_millis(80));
        }
    }
    assert!(begun.elapsed() > Duration::from_secs(3));
    drop(client);
    scene.end();
}

#[test]
fn a_client_that_only_listens_is_answered_or_ended() {
    for scene in scenes() {
        scene.server.answer(|command| match command.ends_with(b"later") {
            true => honest(command).after(Duration::from_millis(300)),
            false => honest(command),
        });
        let mut client = scene.client();
        client.send_packet(0, b"\x03SELECT later");
        client.half_close();
        let answer = client.read_answer();
        assert!(answer == row("later") || answer == Err(Refusal::Closed), "{answer:?}");
        drop(client);
        scene.end();
    }
}

#[test]
fn five_hundred_that_say_nothing_are_ended_together() {
    let limits = "[limits]\nlogin = \"10s\"\n";
    for scene in [Scene::pooled(limits).witnessed(), Scene::pass_through(limits).witnessed()] {
        let silent: Vec<_> = (0..500).map(|_| FakeClient::connect(scene.flifo.port())).collect();
        scene.works();
        let begun = Instant::now();
        for mut client in silent {
            // A greeting, why it ends, and the end.
            let _ = client.read_greeting();
            assert!(client.is_refused());
        }
        // In the places of logins, one after the other, it would take forty.
        assert!(begun.elapsed() < Duration::from_secs(30));
        scene.end();
    }
}

#[test]
fn a_statement_of_nothing_but_parentheses_costs_one_pass() {
    for scene in scenes() {
        let mut client = scene.client();
        let long = [&b"\x03"[..], &vec![b'('; 64 << 20]].concat();
        let before = scene.flifo.memory();
        assert_eq!(client.command(&long), Ok(vec![]));
        assert!(scene.flifo.memory() < before + MEMORY_MAX);
        // Short enough to be read as a whole, and to be read by the lexer.
        let short = &long[..60_000];
        let before = scene.flifo.cpu();
        for _ in 0..50 {
            assert_eq!(client.command(short), Ok(vec![]));
        }
        let spent = scene.flifo.cpu() - before;
        assert!(spent < Duration::from_secs(5), "{spent:?}");
        drop(client);
        scene.end();
    }
}

#[test]
fn bytes_that_are_no_text_pass_as_they_are() {
    for scene in scenes() {
        let mut client = scene.client();
        let text = b"\xff\xfe'\xc3\x28\xf0\x80\x00\\\"`";
        let command = [&b"\x03SELECT "[..], text].concat();
        assert_eq!(client.command(&command), Ok(vec![text.to_vec()]));
        let mut nobody = FakeClient::connect(scene.flifo.port());
        let greeting = nobody.read_greeting().unwrap();
        let mut login = FakeClient::login_payload(&greeting, "abc", PASSWORD);
        login[32..35].copy_from_slice(b"\xff\xc3\x28");
        nobody.send_packet(1, &login);
        // It is not certain which user a server would make of that name.
        assert_eq!(nobody.read_payload().unwrap_err().code(), 1045);
        drop((client, nobody));
        scene.end();
    }
}

#[test]
fn commands_in_one_piece_are_answered_one_by_one() {
    for scene in scenes() {
        let mut client = scene.client();
        let mut bytes = Vec::new();
        for number in 0..200 {
            put_packet(&mut bytes, 0, format!("\x03SELECT {number}").as_bytes());
        }
        client.send(&bytes);
        for number in 0..200 {
            assert_eq!(client.read_answer(), row(&number.to_string()));
        }
        drop(client);
        scene.end();
    }
}

#[test]
fn a_header_for_the_proxy_protocol_is_right_or_the_end() {
    let rest = format!("{SHORT}[proxy_protocol]\nfrom = [\"127.0.0.2/32\"]\n");
    let scene = Scene::pooled(&rest).witnessed();
    let trusted = || FakeClient::connect_from(Ipv4Addr::new(127, 0, 0, 2), scene.flifo.port());
    let signature = b"\r\n\r\n\0\r\nQUIT\n";
    let garbage: [&[u8]; 9] = [
        b"PROXY",
        b"PROXY TCP4\r\n",
        b"PROXY TCP4 1.2.3.4 5.6.7.8 99999 1\r\n",
        b"PROXY TCP9 1.2.3.4 5.6.7.8 1 1\r\n",
        b"proxy TCP4 1.2.3.4 5.6.7.8 1 1\r\n",
        &[b'P'; 200],
        &[&signature[..], b"\x21\x11\xff\xff"].concat(),
        &[&signature[..], b"\x91\x11\0\x0c", &[1; 12]].concat(),
        &[&signature[..], b"\x21\x11\0\x02", &[1; 2]].concat(),
    ];
    for bytes in garbage {
        let mut client = trusted();
        client.send(bytes);
        client.half_close();
        assert!(is_no_login(&client.read_payload().unwrap_err()), "{bytes:?}");
    }
    // One that says nothing waits for a greeting, and hears why there is none.
    match trusted().read_payload() {
        Err(Refusal::Error { code: 1043, message }) => {
            assert!(message.contains("PROXY header: none came"), "{message}");
        }
        other => panic!("{other:?}"),
    }
    let v2 = [&signature[..], b"\x21\x11\0\x0c\x01\x02\x03\x04\x7f\0\0\x01\0\x50\0\x51"].concat();
    for bytes in [&b"PROXY TCP4 1.2.3.4 127.0.0.1 80 81\r\n"[..], b"PROXY UNKNOWN\r\n", &v2] {
        let mut client = trusted();
        client.send(bytes);
        client.log_in(USER, PASSWORD).unwrap();
        assert_eq!(client.query("SELECT through"), row("through"));
    }
    // From any other address it is read as a login, and a bad one.
    let mut client = FakeClient::connect(scene.flifo.port());
    client.read_greeting().unwrap();
    client.send(b"PROXY TCP4 1.2.3.4 127.0.0.1 80 81\r\n");
    assert!(is_no_login(&client.read_payload().unwrap_err()));
    scene.end();
}

/// Ten clients have twelve megabytes of statements prepared, and leave.
#[test]
fn memory_of_a_flood_is_given_back() {
    const PATIENCE: Duration = Duration::from_secs(60);
    let scene = Scene::pooled("");
    let before = scene.flifo.memory();
    let prepare = |client: &mut FakeClient, number: usize| {
        let text = format!("SELECT {number}, '{}'", "x".repeat(60_000));
        client.prepare(&text).expect("a statement");
    };
    let mut clients: Vec<_> = (0..10).map(|_| scene.client()).collect();
    let mut stays = scene.client();
    // All together they stay below what texts of all clients may take.
    for (number, client) in (0..900).zip((0..10).cycle()) {
        prepare(&mut clients[client], number);
        if number % 100 == 0 {
            // What stays lies between what goes.
            prepare(&mut stays, 10_000 + number);
        }
    }
    let full = scene.flifo.memory();
    assert!(full > before + (40 << 20), "{before} {full}");
    drop(clients);
    let begun = Instant::now();
    while scene.flifo.memory() > before + (16 << 20) {
        assert!(begun.elapsed() < PATIENCE, "{before}, {full}, {}", scene.flifo.memory());
        thread::sleep(Duration::from_millis(100));
    }
    drop(stays);
    scene.end();
}
