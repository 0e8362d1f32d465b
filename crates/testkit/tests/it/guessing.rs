//! Wrong passwords: refused in the server's own words and counted by it, whether there is such a user or not; and
//! few of them in a time, however many connections try.

use std::net::Ipv4Addr;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::{Duration, Instant};

use backend::Address;
use bench::private_server::PrivateServer;
use testkit::client::{Asked, Client, Problem};
use testkit::fake_client::{FakeClient, Refusal, prove};
use testkit::flifo::Flifo;
use testkit::mysql::Mysql;
use testkit::scene::{PASSWORD, Scene, USER, row};
use wire::auth::Plugin;

/// The error's number and its text, for a user whose name is left out of it.
fn refusal(port: u16, name: &str, password: &str) -> Option<(u16, String)> {
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port };
    match Client::builder(address, name, password).plugin(Plugin::NativePassword).connect() {
        Ok(_) => None,
        Err(Problem::Refused { code, message, .. }) => Some((code, message.replace(name, "…"))),
        Err(other) => panic!("{name}: {other}"),
    }
}

#[test]
fn a_server_blocks_a_user_for_wrong_passwords_as_it_does_directly() {
    let server = PrivateServer::builder().argument("--max-password-errors=4");
    let server = server.start().expect("a private server");
    for name in ["direct", "known", "relayed"] {
        let sql = format!("CREATE USER {name}@'%' IDENTIFIED BY 'right'");
        server.sql(&sql).unwrap();
    }
    let known = "[[users]]\nname = \"known\"\npassword = \"right\"\n";
    let flifo =
        Flifo::start(&format!("[server]\naddress = \"127.0.0.1:{}\"\n{known}", server.port()));
    let ports = [server.port(), flifo.port(), flifo.port()];
    let tries = |port: u16, name: &str| {
        let passwords =
            ["right", "wrong", "", "right", "wrong", "wrong", "", "wrong", "wrong", "right"];
        passwords.map(|password| refusal(port, name, password))
    };
    let [direct, known, relayed] = [(0, "direct"), (1, "known"), (2, "relayed")]
        .map(|(at, name): (usize, _)| tries(ports[at], name));
    assert_eq!(direct[0], None);
    assert_eq!(direct[9].as_ref().map(|it| it.0), Some(4150), "{direct:?}");
    assert_eq!(known, direct);
    assert_eq!(relayed, direct);
    // The server's owner unblocks it.
    server.sql("FLUSH PRIVILEGES").unwrap();
    assert_eq!(refusal(flifo.port(), "known", "right"), None);
    assert!(flifo.stop().0.success());
}

/// What a client gets for a wrong password: the number and first byte of each packet, and the error.
fn trace(port: u16, name: &str) -> (Vec<(u8, u8)>, u16, String) {
    let mut client = FakeClient::connect(port);
    let greeting = client.read_greeting().unwrap();
    client.send_packet(1, &FakeClient::login_payload(&greeting, name, "wrong"));
    let mut packets = Vec::new();
    loop {
        match client.read_payload() {
            Ok(payload) => {
                packets.push((client.sequence(), payload[0]));
                let answer = prove(&payload[payload.len() - 21..], "wrong");
                client.send_packet(client.sequence() + 1, &answer);
            }
            Err(Refusal::Error { code, message }) => {
                return (packets, code, message.replace(name, "…"));
            }
            Err(Refusal::Closed) => panic!("{name}: no error"),
        }
    }
}

#[test]
fn a_name_that_flifo_knows_is_refused_like_one_that_nobody_has() {
    let server = PrivateServer::builder().start().expect("a private server");
    server.sql("CREATE USER known@'%' IDENTIFIED BY 'right'").unwrap();
    server.sql("CREATE USER relayed@'%' IDENTIFIED BY 'right'").unwrap();
    let known = "[[users]]\nname = \"known\"\npassword = \"right\"\n";
    for address in [format!("127.0.0.1:{}", server.port()), server.socket().display().to_string()] {
        let flifo = Flifo::start(&format!("[server]\naddress = {address:?}\n{known}"));
        let unknown = trace(flifo.port(), "unknown");
        assert_eq!(unknown.1, 1045, "{unknown:?}");
        assert_eq!(trace(flifo.port(), "known"), unknown);
        assert_eq!(trace(flifo.port(), "relayed"), unknown);
        assert!(flifo.stop().0.success());
    }
}

/// What a client is asked for a wrong password, and the error, without the user's name.
fn questions(address: Address, name: &str, plugin: &Plugin) -> (Vec<Asked>, u16, String) {
    let (asked, login) =
        Client::builder(address, name, "wrong").plugin(plugin.clone()).connect_asked();
    match login {
        Err(Problem::Refused { code, message, .. }) => (asked, code, message.replace(name, "…")),
        Err(other) => panic!("{name}: {other} after {asked:?}"),
        Ok(_) => panic!("{name}: let in"),
    }
}

/// MySQL asks by the plugin of the account, and where there is none, by one that it chooses by the name.
#[test]
fn a_name_that_flifo_knows_is_asked_like_one_that_only_mysql_knows() {
    let Some(server) = Mysql::start(&[]) else { return };
    let names = ["configured", "told", "learnt", "relayed"];
    for name in names {
        let with = "IDENTIFIED WITH caching_sha2_password BY 'right'";
        server.sql(&[&format!("CREATE USER {name}@'%' {with}")]);
    }
    server.sql(&["CREATE USER reader@'%' IDENTIFIED WITH caching_sha2_password BY 'look'"]);
    server.sql(&["GRANT SELECT ON mysql.user TO reader@'%'"]);
    let tcp = |port: u16| Address::Tcp { host: "127.0.0.1".to_owned(), port };
    let tls = if server.has_modern_tls() { "preferred" } else { "off" };
    let at = format!("[server]\naddress = \"127.0.0.1:{}\"\ntls = \"{tls}\"\n", server.port());
    let plugins = [Plugin::NativePassword, Plugin::CachingSha2];
    // By which plugin it asks where there is no such user depends on the name.
    let directly = |name: &str| questions(tcp(server.port()), name, &plugins[0]);
    let mut strangers = (0..100).map(|number| format!("stranger{number}"));
    let stranger = strangers.find(|it| directly(it) == directly("relayed"));
    let stranger = stranger.expect("one that is asked like a user that there is");
    for (rest, names) in [
        ("[[users]]\nname = \"configured\"\npassword = \"right\"\n", &["configured", "relayed"]),
        ("", &["learnt", "relayed"]),
        (
            "accounts_user = \"reader\"\n[[users]]\nname = \"reader\"\npassword = \"look\"\n",
            &["told", "reader"],
        ),
    ] {
        let flifo = Flifo::start(&format!("{at}{rest}"));
        for name in names {
            if *name == "learnt" {
                let client = Client::builder(tcp(flifo.port()), name, "right");
                client.connect().expect("its right password is learnt");
            }
            for door in [tcp(flifo.port()), Address::Unix(flifo.socket())] {
                for plugin in &plugins {
                    let seen = questions(door.clone(), name, plugin);
                    let expected = questions(door.clone(), &stranger, plugin);
                    assert_eq!(seen, expected, "{name} at {door:?} by {plugin}");
                }
            }
        }
        assert!(flifo.stop().0.success());
    }
}

#[test]
fn many_connections_try_few_passwords_and_the_owner_gets_in() {
    let scene = Scene::pooled("[limits]\nlogin = \"3s\"\n");
    let (tried, turned_away) = (AtomicU32::new(0), AtomicU32::new(0));
    let begun = Instant::now();
    thread::scope(|scope| {
        for _ in 0..50 {
            scope.spawn(|| {
                while begun.elapsed() < Duration::from_secs(2) {
                    let mut client = FakeClient::connect(scene.flifo.port());
                    let Err(Refusal::Error { code: 1045, message }) = client.log_in(USER, "wrong")
                    else {
                        panic!("not told");
                    };
                    let is_turned_away = message.contains("this one was not");
                    [&tried, &turned_away][usize::from(is_turned_away)].fetch_add(1, Relaxed);
                }
            });
        }
        let mut owner = FakeClient::connect_from(Ipv4Addr::new(127, 0, 0, 2), scene.flifo.port());
        owner.log_in(USER, PASSWORD).expect("it waits no longer than it may");
        assert_eq!(owner.query("SELECT in"), row("in"));
    });
    // The first ones all at once, then hardly any.
    let (tried, turned_away) = (tried.into_inner(), turned_away.into_inner());
    assert!(tried < 100 && 10 < turned_away, "{tried} passwords, {turned_away} turned away");
    // When it is over, a guesser's address is not kept out for long.
    let begun = Instant::now();
    while let Err(refusal) = FakeClient::login(scene.flifo.port(), USER, PASSWORD) {
        assert!(begun.elapsed() < Duration::from_secs(120), "{refusal:?}");
    }
}
