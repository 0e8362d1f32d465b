//! Clients that are logged in and send commands that lie about themselves: prepared statements, uploads, changes of
//! user. Each test has a well-behaved client beside it, which must not notice.

use testkit::fake_client::prove;
use testkit::fake_client::{FakeClient, Refusal};
use testkit::reply::{Reply, honest};
use testkit::scene::{PASSWORD, Scene, USER, row, wait_for};
use wire::frame::put_packet;

/// The client is still served, or its connection was ended.
fn is_served_or_closed(client: &mut FakeClient) -> bool {
    matches!(client.command(b"\x0e"), Ok(_) | Err(Refusal::Closed))
}

/// `COM_STMT_*` for a statement, with this behind its id.
fn about(command: u8, id: u32, rest: &[u8]) -> Vec<u8> {
    [&[command][..], &id.to_le_bytes(), rest].concat()
}

#[test]
fn commands_for_prepared_statements_may_break_off_at_every_byte() {
    let scene = Scene::pooled("").witnessed();
    let mut client = scene.client();
    let mut id = client.prepare("SELECT ?, ?, ?").unwrap();
    // Three parameters, none NULL; their types are told: LONG, STRING, LONG.
    let told = b"\0\x01\0\0\0\0\x01\x03\0\xfe\0\x03\0\x07\0\0\0\x01x\x08\0\0\0";
    for (command, body) in [
        (0x17, &told[..]),
        (0x18, b"\0\0long"),
        (0x1a, b""),
        (0x1c, b"\x05\0\0\0"),
        (0xfa, b"\x80\0\x03\0\xfe\0\x03\0\0\x07\0\0\0\x01x"),
        (0x19, b""),
    ] {
        let whole = about(command, id, body);
        for cut in 1..whole.len() {
            client.send_packet(0, &whole[..cut]);
            // The next command's answer comes in any case, behind that of this one if it has one.
            if !matches!(command, 0x18 | 0x19) {
                let answer = client.read_answer();
                assert!(
                    answer.is_ok()
                        || matches!(answer.as_ref().unwrap_err().code(), 1243 | 1421 | 1835),
                    "{command:#x} cut at {cut}: {answer:?}"
                );
            }
            assert_eq!(client.command(b"\x0e"), Ok(vec![]), "{command:#x} cut at {cut}");
        }
        client = scene.client();
        id = client.prepare("SELECT ?, ?, ?").unwrap();
    }
    drop(client);
    scene.end();
}

/// Only what can be read of it goes to the server: its head, which any server refuses for want of the rest.
#[test]
fn an_execute_that_lies_about_its_parameters_is_refused() {
    let scene = Scene::pooled("").witnessed();
    scene.server.answer(|command| match command {
        [0x17, ..] if command.len() == 10 => Reply::Err(1835, "Malformed communication packet"),
        _ => honest(command),
    });
    let mut client = scene.client();
    let id = client.prepare(&format!("SELECT {}", "?".repeat(300))).unwrap();
    let head = b"\0\x01\0\0\0";
    for rest in [
        // No bitmap; half of it; nothing behind it; types are promised and do not come, or not all.
        head.to_vec(),
        [&head[..], &[0; 20]].concat(),
        [&head[..], &[0; 38]].concat(),
        [&head[..], &[0; 38], &[1]].concat(),
        [&head[..], &[0; 38], &[1], &[0xfe; 599]].concat(),
    ] {
        let refused = client.command(&about(0x17, id, &rest)).unwrap_err();
        assert_eq!(refused.code(), 1835, "{} bytes: {refused:?}", rest.len());
    }
    let whole = [&head[..], &[0xff; 38], &[1], &[0xfe; 600]].concat();
    assert_eq!(client.command(&about(0x17, id, &whole)), row("executed"));
    drop(client);
    scene.end();
}

#[test]
fn a_statement_that_nobody_prepared_is_unknown() {
    let scene = Scene::pooled("").witnessed();
    let mut client = scene.client();
    let mine = client.prepare("SELECT mine").unwrap();
    for id in [0, mine + 1, 0x7fff_ffff, 0xffff_fffe] {
        for command in [0x17, 0x1a, 0x1c, 0xfa] {
            let refused = client.command(&about(command, id, b"\0\x01\0\0\0")).unwrap_err();
            assert_eq!(refused.code(), 1243, "{command:#x} of {id}");
        }
        // These have no answer.
        client.send_packet(0, &about(0x18, id, b"\0\0data"));
        client.send_packet(0, &about(0x19, id, b""));
        assert_eq!(client.command(b"\x0e"), Ok(vec![]));
    }
    // Another client's statement is as unknown as one that was never prepared.
    let mut other = scene.client();
    let refused = other.command(&about(0x17, mine, b"\0\x01\0\0\0")).unwrap_err();
    assert_eq!(refused.code(), 1243);
    // One that is closed is unknown from then on.
    assert_eq!(client.command(&about(0x17, mine, b"\0\x01\0\0\0")), row("executed"));
    client.send_packet(0, &about(0x19, mine, b""));
    let refused = client.command(&about(0x17, mine, b"\0\x01\0\0\0")).unwrap_err();
    assert_eq!(refused.code(), 1243);
    drop((client, other));
    scene.end();
}

#[test]
fn a_client_cannot_keep_texts_without_end() {
    let scene = Scene::pooled("").witnessed();
    let mut client = scene.client();
    let text = format!("SELECT {}", "x".repeat(50 << 10));
    let mut ids = Vec::new();
    let refused = loop {
        match client.prepare(&text) {
            Ok(id) => ids.push(id),
            Err(refused) => break refused,
        }
        assert!(ids.len() < 400, "{} texts", ids.len());
    };
    assert_eq!(refused.code(), 1461, "{refused:?}");
    assert!(300 < ids.len(), "{} texts", ids.len());
    // A client that closes a statement may prepare another.
    client.send_packet(0, &about(0x19, ids[0], b""));
    ids[0] = client.prepare(&text).unwrap();
    assert_eq!(client.prepare(&text).unwrap_err().code(), 1461);
    for id in [ids[0], ids[7]] {
        assert_eq!(client.command(&about(0x17, id, b"\0\x01\0\0\0")), row("executed"));
    }
    drop(client);
    scene.end();
}

#[test]
fn an_upload_that_stops_in_the_middle_costs_its_own_backend_only() {
    for scene in [Scene::pooled("").witnessed(), Scene::pass_through("").witnessed()] {
        scene.server.answer(|command| match command.starts_with(b"\x03LOAD") {
            true => Reply::All(vec![Reply::File { packets: None }, Reply::Ok]),
            false => honest(command),
        });
        let open = scene.server.open();
        let mut piece = Vec::new();
        put_packet(&mut piece, 2, &[b'x'; 3000]);
        for cut in [0, 1, 3, 4, 5, 1000, piece.len()] {
            let mut client = scene.client();
            client.send_packet(0, b"\x03LOAD DATA LOCAL INFILE 'x' INTO TABLE t");
            client.read_payload().unwrap();
            client.send(&piece[..cut]);
            drop(client);
        }
        // Whole, it is taken; and the client goes on.
        let mut client = scene.client();
        client.send_packet(0, b"\x03LOAD DATA LOCAL INFILE 'x' INTO TABLE t");
        client.read_payload().unwrap();
        client.send(&piece);
        client.send_packet(3, b"");
        assert_eq!(client.read_answer(), Ok(vec![]));
        assert_eq!(client.query("SELECT on"), row("on"));
        drop(client);
        wait_for("backend connections of broken uploads to be closed", || {
            scene.server.open() <= open + 1
        });
        scene.end();
    }
}

#[test]
fn a_statement_that_breaks_off_is_not_run() {
    for scene in [Scene::pooled("").witnessed(), Scene::pass_through("").witnessed()] {
        let mut statement = Vec::new();
        put_packet(&mut statement, 0, &[&b"\x03DELETE "[..], &[b'x'; 200_000]].concat());
        for cut in [3, 4, 5, 100, 65_535, 65_536, 65_537, 199_000, statement.len() - 1] {
            let mut client = scene.client();
            client.send(&statement[..cut]);
            client.half_close();
            assert!(client.is_closed(), "{cut}");
        }
        assert_eq!(scene.server.received(b"\x03DELETE"), 0);
        scene.end();
    }
}

#[test]
fn a_statement_that_breaks_off_gives_its_slot_back_at_once() {
    let scene = Scene::pooled("limit = 1\nconnections_max = 1\n");
    let mut statement = Vec::new();
    put_packet(&mut statement, 0, &[&b"\x03DELETE "[..], &[b'x'; 200_000]].concat());
    for _ in 0..5 {
        let mut client = scene.client();
        client.send(&statement[..150_000]);
        wait_for("its backend connection", || scene.server.open() == 1);
        drop(client);
        let begun = std::time::Instant::now();
        scene.works();
        assert!(begun.elapsed() < std::time::Duration::from_secs(3), "{:?}", begun.elapsed());
    }
    scene.end();
}

#[test]
fn a_change_of_user_proves_the_password_or_changes_nothing() {
    let scene = Scene::pooled("").witnessed();
    let head = [&[0x11][..], USER.as_bytes(), &[0]].concat();
    let garbage: [&[u8]; 5] =
        [b"\x11", b"\x11nobody\0", &head, &[0x11; 500], b"\x11\xff\xfe\0\xff"];
    for payload in garbage {
        let mut client = scene.client();
        let refused = client.command(payload).unwrap_err();
        match refused.code() {
            // As on MariaDB, it goes on as it was.
            1045 => assert_eq!(client.query("SELECT on"), row("on")),
            code => assert!(code == 1043 && client.is_closed(), "{refused:?}"),
        }
    }
    // Of whom Flifo knows nothing, the server decides. This one asks nothing.
    let mut client = scene.client();
    client.command(b"\x11nobody\0\0\0").unwrap();
    assert_eq!(client.query("SELECT anew"), row("anew"));
    let wanted = [&head[..], b"\0\0\x2d\0mysql_native_password\0"].concat();
    for is_right in [false, true] {
        let mut client = scene.client();
        client.send_packet(0, &wanted);
        let switch = client.read_payload().unwrap();
        let nonce = &switch[switch.len() - 21..];
        let password = if is_right { PASSWORD } else { "wrong" };
        client.send_packet(2, &prove(nonce, password));
        let end = client.read_payload();
        assert_eq!(client.sequence(), 3, "{end:?}");
        match end {
            Ok(_) => assert!(is_right && client.query("SELECT on") == row("on")),
            Err(refused) => {
                assert!(!is_right && refused.code() == 1045, "{refused:?}");
                assert_eq!(client.query("SELECT on"), row("on"));
            }
        }
    }
    // Garbage instead of the proof, and silence instead of it.
    let mut client = scene.client();
    client.send_packet(0, &wanted);
    client.read_payload().unwrap();
    client.send(&[0xff; 100]);
    assert!(matches!(client.read_payload().unwrap_err().code(), 0 | 1043));
    let mut client = scene.client();
    client.send_packet(0, &wanted);
    drop(client);
    // The witness, a client, and a backend that is made fit for the next one may need one each at once.
    scene.end_with_backends(3);
}

#[test]
fn a_reset_forgets_everything_whatever_comes_behind_it() {
    for scene in [Scene::pooled("").witnessed(), Scene::pass_through("").witnessed()] {
        let mut client = scene.client();
        for payload in [&b"\x1f"[..], b"\x1f\0\0\0", &[0x1f; 300]] {
            assert_eq!(client.command(payload), Ok(vec![]));
            assert_eq!(client.query("SELECT on"), row("on"));
        }
        assert!(is_served_or_closed(&mut client));
        drop(client);
        scene.end();
    }
}
