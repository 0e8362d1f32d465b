//! Logins against a real MySQL: each plugin over each pair of secure and plain legs, by pass-through and
//! pooled, remembered by the server or not; and the accounts that MySQL refuses. Flifo learns
//! nothing here of clients that are passed through: see `learnt.rs`.
//!
//! Where no MySQL is available these tests print so and test nothing. They all share one server; a
//! test that needs the server to forget passwords holds it alone.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use backend::Address;
use testkit::client::{Asked, Builder, Client, Problem};
use testkit::flifo::Flifo;
use testkit::mysql::Mysql;
use testkit::scene::wait_for;
use wire::Capabilities;
use wire::auth::Plugin;
use wire::auth::rsa::RsaEnd;

const PASSWORD: &str = "correct horse";

/// The server of all these tests, with their users.
fn server() -> Option<&'static Mysql> {
    static SERVER: OnceLock<Option<Mysql>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let server = Mysql::start(&[])?;
        let mut statements = Vec::new();
        for user in ["sha", "other", "keyed", "locked", "expired", "tls"] {
            statements.push(format!(
                "CREATE USER {user}@'%' IDENTIFIED WITH caching_sha2_password BY '{PASSWORD}'"
            ));
            statements.push(format!("GRANT ALL ON *.* TO {user}@'%'"));
        }
        statements.push("CREATE USER blank@'%' IDENTIFIED WITH caching_sha2_password".to_owned());
        let with = format!("IDENTIFIED WITH sha256_password BY '{PASSWORD}'");
        statements.push(format!("CREATE USER sha256@'%' {with}"));
        statements.push("ALTER USER locked@'%' ACCOUNT LOCK".to_owned());
        statements.push("ALTER USER expired@'%' PASSWORD EXPIRE".to_owned());
        statements.push("ALTER USER tls@'%' REQUIRE SSL".to_owned());
        if server.has_native() {
            let user = "native@'%' IDENTIFIED WITH mysql_native_password";
            statements.push(format!("CREATE USER {user} BY '{PASSWORD}'"));
        }
        server.sql(&statements.iter().map(String::as_str).collect::<Vec<_>>());
        Some(server)
    });
    server.as_ref()
}

/// Held by a test that has the server forget passwords or that counts on its memory.
fn memory() -> MutexGuard<'static, ()> {
    static MEMORY: Mutex<()> = Mutex::new(());
    MEMORY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a client comes to Flifo.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum In {
    Plain,
    Tls,
    Socket,
}

/// How Flifo goes to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Out {
    Plain,
    Tls,
    Socket,
}

const INS: [In; 3] = [In::Plain, In::Tls, In::Socket];

/// The ways to this server.
fn outs(server: &Mysql) -> Vec<Out> {
    if server.has_modern_tls() {
        return vec![Out::Plain, Out::Tls, Out::Socket];
    }
    eprintln!("this MySQL's TLS is too old: backend connections in TLS to it are not tested");
    vec![Out::Plain, Out::Socket]
}

impl Out {
    fn flifo(self, server: &Mysql, rest: &str) -> Flifo {
        let (tcp, socket) = (format!("127.0.0.1:{}", server.port()), server.socket());
        let (address, tls) = match self {
            Self::Plain => (tcp, "off"),
            // For clients in plain, too.
            Self::Tls => (tcp, "required\"\npass_through_tls = \"always"),
            Self::Socket => (socket.display().to_string(), "preferred"),
        };
        // What is learnt of a password is another matter.
        let learn = "learn_passwords = \"off\"";
        Flifo::start(&format!("[server]\naddress = {address:?}\ntls = \"{tls}\"\n{learn}\n{rest}"))
    }
}

impl In {
    fn client(self, flifo: &Flifo, user: &str, password: &str) -> Builder {
        let tcp = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
        match self {
            Self::Plain => Client::builder(tcp, user, password),
            Self::Tls => Client::builder(tcp, user, password).tls(),
            Self::Socket => Client::builder(Address::Unix(flifo.socket()), user, password),
        }
    }
}

/// Makes a user of Flifo's configuration.
fn user(name: &str, rest: &str) -> String {
    format!("[[users]]\nname = {name:?}\n{rest}\n")
}

fn pooled(name: &str) -> String {
    user(name, &format!("password = {PASSWORD:?}"))
}

fn assert_works(client: Result<Client, Problem>, name: &str, case: &str) -> Client {
    let mut client = client.unwrap_or_else(|error| panic!("{case}: {error}"));
    let rows = client.query("SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)");
    let rows = rows.unwrap_or_else(|error| panic!("{case}: {error}"));
    assert_eq!(rows, [[name]], "{case}");
    client
}

/// The number and the words of a refusal.
fn refusal(client: Result<Client, Problem>) -> (u16, String) {
    match client {
        Err(Problem::Refused { code, message, .. }) => (code, message),
        Err(error) => panic!("not refused but broken: {error}"),
        Ok(_) => panic!("let in"),
    }
}

#[test]
fn pass_through_logins_pass_over_all_legs_remembered_or_not() {
    let Some(server) = server() else { return };
    let _alone = memory();
    for out in outs(server) {
        // Greeted by the server, and by Flifo, which then has the server ask anew.
        for (greeted_by, rest) in [("the server", String::new()), ("Flifo", pooled("nobody"))] {
            let flifo = out.flifo(server, &rest);
            for leg in INS {
                let case = format!("{leg:?} to {out:?}, greeted by {greeted_by}");
                let log_in = || {
                    let client = leg.client(&flifo, "sha", PASSWORD).connect();
                    assert_works(client, "sha", &case).asked.last().cloned()
                };
                for want in [Asked::Full, Asked::Fast] {
                    if want == Asked::Full {
                        // Flifo may have learnt the password just now, and log in itself behind the first of these.
                        wait_for(&case, || {
                            server.sql(&["FLUSH PRIVILEGES"]);
                            log_in() == Some(Asked::Full)
                        });
                    } else {
                        assert_eq!(log_in(), Some(want), "{case}");
                    }
                    let wrong = leg.client(&flifo, "sha", "wrong").connect();
                    let (code, message) = refusal(wrong);
                    assert_eq!(code, 1045, "{case}");
                    assert_eq!(
                        message, "Access denied for user 'sha'@'localhost' (using password: YES)",
                        "{case}"
                    );
                }
            }
        }
    }
}

#[test]
fn pooled_logins_pass_over_all_legs_remembered_or_not() {
    let Some(server) = server() else { return };
    let _alone = memory();
    for out in outs(server) {
        server.sql(&["FLUSH PRIVILEGES"]);
        let flifo = out.flifo(server, &pooled("sha"));
        for leg in INS {
            let case = format!("{leg:?} to {out:?}");
            for plugin in [Plugin::CachingSha2, Plugin::NativePassword] {
                let client = leg.client(&flifo, "sha", PASSWORD).plugin(plugin).connect();
                assert_works(client, "sha", &case);
            }
            let (code, message) = refusal(leg.client(&flifo, "sha", "wrong").connect());
            assert_eq!(code, 1045, "{case}");
            assert!(message.contains("(using password: YES)"), "{message}");
        }
    }
}

#[test]
fn shared_backends_log_in_by_the_older_sha256_password() {
    let Some(server) = server() else { return };
    for out in outs(server) {
        let flifo = out.flifo(server, &pooled("sha256"));
        let client = In::Plain.client(&flifo, "sha256", PASSWORD).connect();
        assert_works(client, "sha256", &format!("{out:?}"));
    }
}

/// A client sends its password as it is in TLS only, and asks for a key elsewhere; so do servers expect it, but for
/// some behind a Unix socket.
#[test]
fn clients_that_are_passed_through_prove_the_older_sha256_password() {
    const NOT_SECURE: u16 = 3159;
    let Some(server) = server() else { return };
    let plugin = Plugin::CachingSha2;
    for out in outs(server) {
        let flifo = out.flifo(server, "");
        for leg in INS {
            let refused = match (leg, out) {
                (In::Plain, Out::Plain | Out::Socket) => None,
                (In::Tls, Out::Tls) | (In::Socket, Out::Socket) => None,
                // 8.0.15 does not take it, 9.7.4 does.
                (In::Tls, Out::Socket) => continue,
                (In::Tls | In::Socket, Out::Plain) => Some(NOT_SECURE),
                (In::Plain | In::Socket, Out::Tls) => Some(1045),
            };
            for (password, refused) in [(PASSWORD, refused), ("wrong", refused.or(Some(1045)))] {
                let case = format!("{leg:?} {out:?} {password}");
                let client = leg.client(&flifo, "sha256", password).connect();
                let mut other = leg.client(&flifo, "sha", PASSWORD).connect().expect(&case);
                let other = other.change_user("sha256", password, &plugin).map(|()| other);
                for client in [client, other] {
                    match refused {
                        None => _ = assert_works(client, "sha256", &case),
                        Some(code) => assert_eq!(refusal(client).0, code, "{case}"),
                    }
                }
            }
        }
    }
}

#[test]
fn a_server_that_was_restarted_is_proved_the_password_anew() {
    let Some(mut server) = Mysql::start(&[]) else { return };
    server.sql(&[
        &format!("CREATE USER sha@'%' IDENTIFIED WITH caching_sha2_password BY '{PASSWORD}'"),
        "GRANT ALL ON *.* TO sha@'%'",
    ]);
    for rest in [String::new(), pooled("sha")] {
        let flifo = Out::Plain.flifo(&server, &rest);
        assert_works(In::Plain.client(&flifo, "sha", PASSWORD).connect(), "sha", &rest);
        server.restart();
        assert_works(In::Plain.client(&flifo, "sha", PASSWORD).connect(), "sha", &rest);
    }
}

#[test]
fn a_key_of_another_server_is_refused_with_what_to_do() {
    let Some(server) = server() else { return };
    let _alone = memory();
    let other = RsaEnd::generate().unwrap();
    let own = std::fs::read_to_string(server.folder().join("data/public_key.pem")).unwrap();
    // The server's own key is of use where the server itself decrypts.
    for (out, key, is_of_use) in [
        (Out::Plain, &own[..], true),
        (Out::Plain, other.public_pem(), false),
        (Out::Socket, &own, false),
        (Out::Socket, other.public_pem(), false),
    ] {
        let flifo = out.flifo(server, "");
        server.sql(&["FLUSH PRIVILEGES"]);
        // No other test logs this account in: the server remembers no password of it, and so the key is of use.
        let client = In::Plain.client(&flifo, "keyed", PASSWORD).with_key(key).connect();
        if is_of_use {
            assert_works(client, "keyed", "the server's own key");
            continue;
        }
        let (code, message) = refusal(client);
        match out {
            Out::Plain => assert_eq!(code, 1045, "{message}"),
            _ => assert!(code == 1045 && message.contains("ask for the public key"), "{message}"),
        }
    }
}

/// What the server stores for a user, in each form in which it can be asked for it.
fn hashes(server: &Mysql, name: &str) -> Vec<(&'static str, String)> {
    let from = format!("FROM mysql.user WHERE user = '{name}'");
    let hex = server.sql(&[&format!("SELECT HEX(authentication_string) {from}")]);
    let shown = server.sql(&[&format!("SHOW CREATE USER {name}")]);
    let (_, shown) = shown[0][0].split_once(" AS '").expect("a hash");
    let (shown, _) = shown.split_once("' REQUIRE").expect("an end");
    // Neither quotes of TOML's take what a salt may have; its escapes do.
    let shown: String = shown.chars().map(|it| format!("\\u{:04x}", u32::from(it))).collect();
    vec![("hexadecimal", format!("'{}'", hex[0][0])), ("shown", format!("\"{shown}\""))]
}

#[test]
fn a_hash_is_enough_once_a_client_has_said_the_password() {
    let Some(server) = server() else { return };
    let _alone = memory();
    for (form, hash) in hashes(server, "sha") {
        let hashed = user("sha", &format!("password_hash = {hash}"));
        for out in outs(server) {
            for leg in INS {
                let case = format!("{form}, {leg:?} to {out:?}");
                let flifo = out.flifo(server, &hashed);
                server.sql(&["FLUSH PRIVILEGES"]);
                for want in [Asked::Full, Asked::Fast] {
                    for wrong in ["wrong", ""] {
                        let wrong = leg.client(&flifo, "sha", wrong).connect();
                        assert_eq!(refusal(wrong).0, 1045, "{case}");
                    }
                    let client = leg.client(&flifo, "sha", PASSWORD).connect();
                    let client = assert_works(client, "sha", &case);
                    assert_eq!(client.asked.last(), Some(&want), "{case}");
                }
            }
        }
    }
}

#[test]
fn a_hash_is_enough_to_change_the_user() {
    let Some(server) = server() else { return };
    let _alone = memory();
    let (_, hash) = hashes(server, "other").remove(0);
    let users = pooled("sha") + &user("other", &format!("password_hash = {hash}"));
    for leg in INS {
        let flifo = Out::Socket.flifo(server, &users);
        let login = || leg.client(&flifo, "sha", PASSWORD).connect().expect("a login");
        let wrong = login().change_user("other", "wrong", &Plugin::CachingSha2);
        assert_eq!(refusal(wrong.map(|()| login())).0, 1045, "{leg:?}");
        for want in [Asked::Full, Asked::Fast] {
            let mut client = login();
            client.change_user("other", PASSWORD, &Plugin::NativePassword).expect("a change");
            let client = assert_works(Ok(client), "other", "changed");
            assert_eq!(client.asked.last(), Some(&want), "{leg:?}");
        }
    }
}

#[test]
fn accounts_are_refused_in_the_servers_words() {
    let Some(server) = server() else { return };
    let pass_through = Out::Socket.flifo(server, "");
    let users = ["locked", "expired", "nobody"].map(pooled).concat();
    let shared = Out::Socket.flifo(server, &users);
    for flifo in [&pass_through, &shared] {
        let try_in = |name: &str| {
            let client = In::Tls.client(flifo, name, PASSWORD).connect();
            // Flifo lets in a client that shares backends; the first statement brings the refusal.
            client.and_then(|mut client| client.query("SELECT 1").map(|_| client))
        };
        let (code, message) = refusal(try_in("locked"));
        assert!(code == 3118 && message.contains("Account is locked"), "{code} {message}");
        let (code, message) = refusal(try_in("nobody"));
        assert!(code == 1045 && message.contains("'nobody'@'localhost'"), "{code} {message}");
        let (code, message) = refusal(try_in("expired"));
        assert!(code == 1862 || code == 1820, "{code} {message}");
    }
    // A client that can be asked for a new password gets in to give one, where the server need not name its account.
    let renew = |flifo: &Flifo| {
        let client = In::Tls.client(flifo, "expired", PASSWORD);
        client.with(Capabilities::EXPIRED_PASSWORDS).connect()
    };
    let (code, message) = refusal(renew(&pass_through));
    assert!(code == 1045 && message.contains("1820") && message.contains("account_terms"));
    let trusting = Out::Socket.flifo(server, "account_terms = \"flifo\"");
    let told = renew(&trusting).unwrap().query("SELECT 1").unwrap_err();
    assert!(matches!(told, Problem::Refused { code: 1820, .. }), "{told}");
}

#[test]
fn an_empty_password_is_let_in_and_a_missing_one_is_not() {
    let Some(server) = server() else { return };
    for out in outs(server) {
        for (kind, rest) in [
            ("pass_through", String::new()),
            ("greeted by Flifo", pooled("nobody")),
            ("pooled", user("blank", "password = \"\"") + &pooled("sha")),
        ] {
            let flifo = out.flifo(server, &rest);
            for leg in INS {
                let case = format!("{kind}, {leg:?} to {out:?}");
                assert_works(leg.client(&flifo, "blank", "").connect(), "blank", &case);
                let (code, message) = refusal(leg.client(&flifo, "sha", "").connect());
                assert!(code == 1045 && message.contains("(using password: NO)"), "{message}");
                let (code, _) = refusal(leg.client(&flifo, "blank", "x").connect());
                assert_eq!(code, 1045, "{case}");
            }
        }
    }
}

#[test]
fn users_change_on_pass_through_and_shared_backends() {
    let Some(server) = server() else { return };
    let _alone = memory();
    let shared = pooled("sha") + &pooled("other");
    for out in outs(server) {
        for (kind, rest) in [
            ("pass_through", String::new()),
            ("greeted", pooled("nobody")),
            ("pooled", shared.clone()),
        ] {
            let flifo = out.flifo(server, &rest);
            for leg in INS {
                let case = format!("{kind}, {leg:?} to {out:?}");
                let client = leg.client(&flifo, "sha", PASSWORD).connect();
                let mut client = assert_works(client, "sha", &case);
                // Not remembered, then remembered.
                server.sql(&["FLUSH PRIVILEGES"]);
                for name in ["other", "sha", "other"] {
                    let changed = client.change_user(name, PASSWORD, &Plugin::CachingSha2);
                    changed.unwrap_or_else(|error| panic!("{case}: {error}"));
                    client = assert_works(Ok(client), name, &case);
                }
                let wrong = client.change_user("sha", "wrong", &Plugin::CachingSha2);
                assert_eq!(refusal(wrong.map(|()| client)).0, 1045, "{case}");
            }
        }
    }
}

#[test]
fn users_change_across_plugins() {
    let Some(server) = server() else { return };
    if !server.has_native() {
        return eprintln!("MySQL 9 has no mysql_native_password");
    }
    let shared = pooled("sha") + &pooled("native");
    for out in outs(server) {
        for rest in ["", &shared] {
            let flifo = out.flifo(server, rest);
            for leg in INS {
                let case = format!("{leg:?} to {out:?} {rest}");
                let client = leg.client(&flifo, "native", PASSWORD).connect();
                let mut client = assert_works(client, "native", &case);
                for (name, plugin) in [
                    ("sha", Plugin::CachingSha2),
                    ("native", Plugin::NativePassword),
                    ("sha", Plugin::NativePassword),
                    ("native", Plugin::CachingSha2),
                ] {
                    let changed = client.change_user(name, PASSWORD, &plugin);
                    changed.unwrap_or_else(|error| panic!("{case}: {name}: {error}"));
                    client = assert_works(Ok(client), name, &case);
                }
            }
        }
    }
}

#[test]
fn who_must_use_tls_must_use_it_on_both_legs() {
    let Some(server) = server() else { return };
    for rest in [String::new(), pooled("tls")] {
        if server.has_modern_tls() {
            let flifo = Out::Tls.flifo(server, &rest);
            for leg in INS {
                let client = leg.client(&flifo, "tls", PASSWORD).connect();
                // A pooled one is held to it by its own leg.
                if rest.is_empty() || matches!(leg, In::Tls) {
                    assert_works(client, "tls", "both in TLS");
                } else {
                    assert_eq!(refusal(client).0, 1045, "{leg:?}");
                }
            }
        }
        let flifo = Out::Plain.flifo(server, &rest);
        let refused = In::Tls.client(&flifo, "tls", PASSWORD).connect();
        let refused = refused.and_then(|mut client| client.query("SELECT 1").map(|_| client));
        assert_eq!(refusal(refused).0, 1045);
    }
}

#[test]
fn a_server_whose_tls_is_too_old_is_told_of_with_what_to_do() {
    let Some(server) = server() else { return };
    if server.has_modern_tls() {
        return eprintln!("this MySQL's TLS is of today");
    }
    for (rest, mode) in [(String::new(), "preferred"), (pooled("sha"), "required")] {
        let flifo = Flifo::start(&format!(
            "[server]\naddress = \"127.0.0.1:{}\"\ntls = {mode:?}\n{rest}",
            server.port()
        ));
        let leg = if rest.is_empty() { In::Tls } else { In::Plain };
        let client = leg.client(&flifo, "sha", PASSWORD).connect();
        let client = client.and_then(|mut client| client.query("SELECT 1").map(|_| client));
        let (code, message) = refusal(client);
        assert_eq!(code, 1429, "{message}");
        for word in ["no cipher in common", "server.tls = \"off\"", "newer server"] {
            assert!(message.contains(word), "{message}");
        }
    }
}
