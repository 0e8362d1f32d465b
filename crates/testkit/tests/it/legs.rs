//! What a server hears of a password, by each plugin over each pair of secure and plain legs:
//! enough to log in, and never the password itself on a leg that others can read.

use std::time::{Duration, Instant};

use backend::Address;
use testkit::asking::{Asking, Heard};
use testkit::client::{Builder, Client, Problem};
use testkit::flifo::Flifo;
use wire::Capabilities;
use wire::auth::Plugin;

const PASSWORD: &str = "correct horse";

fn flifo(server: &Asking, tls: &str, rest: &str) -> Flifo {
    // What is learnt of a password is another matter.
    // Clients in plain are passed through in TLS: that is what is looked at here.
    let learn = "learn_passwords = \"off\"\npass_through_tls = \"always\"";
    let address = &server.address;
    Flifo::start(&format!("[server]\naddress = \"{address}\"\ntls = {tls:?}\n{learn}\n{rest}"))
}

/// Plain, in TLS, and over a Unix socket.
fn clients(flifo: &Flifo) -> [(&'static str, Builder); 3] {
    let tcp = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
    let client = |address| Client::builder(address, "sha", PASSWORD);
    [
        ("plain", client(tcp.clone())),
        ("TLS", client(tcp).tls()),
        ("socket", client(Address::Unix(flifo.socket()))),
    ]
}

const POOLED: &str = "[[users]]\nname = \"sha\"\npassword = \"correct horse\"\n";
const GREETED: &str = "[[users]]\nname = \"nobody\"\npassword = \"x\"\n";

#[test]
fn a_full_login_reaches_the_server_over_all_legs() {
    let server = Asking::start(&Plugin::CachingSha2);
    for (tls, want) in [
        ("off", Heard::Encrypted(Some(PASSWORD.into()))),
        ("required", Heard::Clear([PASSWORD.as_bytes(), &[0]].concat())),
    ] {
        for rest in ["", GREETED, POOLED] {
            let flifo = flifo(&server, tls, rest);
            for (leg, client) in clients(&flifo) {
                let case = format!("{leg} to TLS {tls}, {rest}");
                let mut client = client.connect().unwrap_or_else(|it| panic!("{case}: {it}"));
                client.query("DO 1").unwrap_or_else(|error| panic!("{case}: {error}"));
                let heard = server.heard();
                // A shared backend has been opened for the first client.
                if rest != POOLED || leg == "plain" {
                    assert_eq!(heard.last(), Some(&want), "{case}");
                }
            }
        }
    }
}

/// It may be another one than the server: only a client that takes its key itself tells it more than a proof.
#[test]
fn a_server_without_tls_is_told_no_password_under_its_own_key() {
    let server = Asking::without_tls(&Plugin::CachingSha2);
    for tls in ["preferred", "off"] {
        for rest in ["", GREETED, POOLED] {
            let flifo = flifo(&server, tls, rest);
            for (leg, client) in clients(&flifo) {
                let case = format!("{leg} to TLS {tls}, {rest}");
                let is_told = tls == "off" || leg == "plain" && rest != POOLED;
                let said = client.connect().and_then(|mut client| client.query("DO 1"));
                let heard = server.heard();
                let is_heard = heard.iter().any(|it| matches!(it, Heard::Encrypted(Some(_))));
                assert!(!is_heard || is_told, "{case}: {heard:?}");
                match said {
                    Ok(_) => assert!(is_told, "{case}"),
                    Err(error) => {
                        assert!(!is_told, "{case}: {error}");
                        let error = error.to_string();
                        assert!(error.contains("server.tls = \"off\""), "{case}: {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn query_attributes_are_for_those_who_share_no_backends() {
    let server = Asking::start(&Plugin::CachingSha2);
    for (rest, is_offered) in [("", true), (POOLED, false)] {
        let flifo = flifo(&server, "off", rest);
        let [(_, client), ..] = clients(&flifo);
        let mut client = client.with(Capabilities::QUERY_ATTRIBUTES).connect().unwrap();
        assert_eq!(client.capabilities().has(Capabilities::QUERY_ATTRIBUTES), is_offered);
        client.query("DO 1").unwrap();
    }
}

#[test]
fn a_full_change_of_user_reaches_the_server_over_unequal_legs() {
    let server = Asking::start(&Plugin::CachingSha2);
    for tls in ["off", "required"] {
        let flifo = flifo(&server, tls, "");
        for (leg, client) in clients(&flifo) {
            let is_equal = (leg == "plain") == (tls == "off");
            if is_equal {
                continue;
            }
            let case = format!("{leg} to TLS {tls}");
            let mut client = client.connect().unwrap_or_else(|it| panic!("{case}: {it}"));
            server.heard();
            let changed = client.change_user("sha", PASSWORD, &Plugin::CachingSha2);
            changed.unwrap_or_else(|error| panic!("{case}: {error}"));
            let heard = server.heard();
            let is_full = matches!(heard[..], [.., Heard::Clear(_) | Heard::Encrypted(Some(_))]);
            assert!(is_full, "{case}: {heard:?}");
            client.query("DO 1").unwrap_or_else(|error| panic!("{case}: {error}"));
        }
    }
}

#[test]
fn who_becomes_a_pass_through_user_counts_as_one_of_its_clients() {
    let server = Asking::start(&Plugin::CachingSha2);
    let bounded = "[[users]]\nname = \"other\"\nmode = \"pass-through\"\nclients_max = 1\n";
    for rest in ["", POOLED] {
        let flifo = flifo(&server, "off", &[bounded, rest].concat());
        let log_in = || {
            let [_, (_, client), _] = clients(&flifo);
            client.connect().unwrap_or_else(|error| panic!("{rest}: {error}"))
        };
        let change =
            |client: &mut Client| client.change_user("other", PASSWORD, &Plugin::CachingSha2);
        for _ in 0..3 {
            let mut one = log_in();
            change(&mut one).unwrap_or_else(|error| panic!("{rest}: {error}"));
            one.query("DO 1").unwrap_or_else(|error| panic!("{rest}: {error}"));
            let refused = change(&mut log_in()).unwrap_err();
            assert!(matches!(refused, Problem::Refused { code: 1226, .. }), "{rest}: {refused}");
            drop(one);
            // It is gone when Flifo has seen that.
            let begun = Instant::now();
            while change(&mut log_in()).is_err() {
                assert!(begun.elapsed() < Duration::from_secs(60), "{rest}");
            }
        }
    }
}

#[test]
fn a_clear_password_is_heard_on_secure_legs_only() {
    for (plugin, is_clear) in [
        (Plugin::ClearPassword, true),
        (Plugin::Other(b"sha256_password".as_slice().into()), false),
        (Plugin::Other(b"dialog".as_slice().into()), false),
    ] {
        let server = Asking::start(&plugin);
        for tls in ["off", "required"] {
            let flifo = flifo(&server, tls, "");
            for (leg, client) in clients(&flifo) {
                let case = format!("{plugin}: {leg} to TLS {tls}");
                let is_allowed = match (leg, tls) {
                    ("plain", _) => !is_clear,
                    // No certificate is verified here.
                    (_, tls) => tls == "required" && !is_clear,
                };
                // Told by the greeting what the server will ask for, the client answers at once.
                let client = client.plugin(plugin.clone()).answering(PASSWORD).connect();
                let heard = server.heard();
                let is_heard = heard.iter().any(|it| {
                    matches!(it, Heard::First(it) | Heard::Answer(it)
                        if it.windows(PASSWORD.len()).any(|part| part == PASSWORD.as_bytes()))
                });
                assert_eq!(is_heard, is_allowed, "{case}: {heard:?}");
                match client {
                    Ok(_) => assert!(is_allowed, "{case}"),
                    Err(Problem::Refused { code, message, .. }) => {
                        assert!(!is_allowed && code == 3159, "{case}: {code}");
                        let is_open = leg == "plain" || tls == "off";
                        let why = if is_open { "passes it on only" } else { "\"verify-ca\"" };
                        assert!(message.contains(why), "{case}: {message}");
                    }
                    Err(error) => panic!("{case}: {error}"),
                }
            }
        }
    }
}
