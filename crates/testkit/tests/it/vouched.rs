//! Passwords that an account has besides one, and certificates that a password vouches for: clients get in through
//! Flifo wherever they get in directly.

use std::sync::OnceLock;

use backend::Address;
use bench::private_server::PrivateServer;
use testkit::client::{Builder, Client, Problem};
use testkit::flifo::Flifo;
use testkit::logins::site::plugins;
use wire::auth::Plugin;

/// A server with accounts of one method, of two, and of two passwords.
fn server() -> &'static PrivateServer {
    static SERVER: OnceLock<PrivateServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let mut server = PrivateServer::builder().argument("--plugin-load-add=auth_ed25519");
        if let Some(folder) = plugins() {
            server = server.argument(format!("--plugin-dir={}", folder.display()));
        }
        let server = server.start().expect("a private server");
        let native = |password: &str| format!("mysql_native_password USING PASSWORD('{password}')");
        let ed25519 = |password: &str| format!("ed25519 USING PASSWORD('{password}')");
        let (old, new) = ("old", "new");
        for (user, via) in [
            ("reader", native("look")),
            ("single", native(new)),
            ("signs", ed25519(new)),
            ("renewed", format!("{} OR {}", native(old), native(new))),
            ("signs_first", format!("{} OR {}", ed25519(old), native(new))),
            ("signs_last", format!("{} OR {}", native(old), ed25519(new))),
            ("by_socket", format!("unix_socket OR {}", native(new))),
            ("passed", native(new)),
        ] {
            let make = format!("CREATE USER {user}@'%' IDENTIFIED VIA {via}");
            server.sql(&make).expect("an account");
            server.sql(&format!("GRANT SELECT ON *.* TO {user}@'%'")).expect("a right");
        }
        server
    })
}

fn start(more: &str) -> Flifo {
    Flifo::start(&format!(
        "workers = 1\n[server]\naddress = \"127.0.0.1:{}\"\n{more}",
        server().port()
    ))
}

/// Knows the accounts from their table.
fn by_table() -> Flifo {
    start(
        "accounts_user = \"reader\"\n[[users]]\nname = \"reader\"\npassword = \"look\"\n\
         [[users]]\nname = \"passed\"\nmode = \"pass-through\"\n",
    )
}

fn client(flifo: &Flifo, user: &str, password: &str) -> Builder {
    let tcp = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
    Client::builder(tcp, user, password).plugin(Plugin::NativePassword)
}

/// Whether it gets in as this user; a refusal for another reason than the password fails.
fn is_let_in(client: Builder, user: &str) -> bool {
    match client.connect() {
        Ok(mut client) => {
            let rows = client.query("SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)");
            assert_eq!(rows.expect("an answer"), [[user]]);
            true
        }
        Err(Problem::Refused { code: 1045, .. }) => false,
        Err(error) => panic!("{user}: {error}"),
    }
}

#[test]
fn every_password_and_method_of_an_account_is_taken() {
    let flifo = by_table();
    let direct = |user: &str, password: &str| {
        let tcp = Address::Tcp { host: "127.0.0.1".to_owned(), port: server().port() };
        let client = Client::builder(tcp, user, password).plugin(Plugin::NativePassword);
        is_let_in(client, user)
    };
    let accounts = ["single", "signs", "renewed", "signs_first", "signs_last", "by_socket"];
    for user in accounts {
        // Also behind others that have proved another password.
        for password in ["new", "old", "guess", "new"] {
            let through = is_let_in(client(&flifo, user, password), user);
            assert_eq!(through, direct(user, password), "{user}, {password}");
        }
    }
}

#[test]
fn a_configured_user_may_have_a_second_password() {
    let flifo = start(
        "[[users]]\nname = \"single\"\npassword = \"new\"\nsecond_password = \"older\"\n\
         [[users]]\nname = \"passed\"\npassword = \"new\"\nplugin = \"caching_sha2_password\"\n\
         second_password = \"older\"\n",
    );
    for user in ["single", "passed"] {
        for (password, is_right) in [("new", true), ("older", true), ("guess", false)] {
            let client = client(&flifo, user, password);
            assert_eq!(is_let_in(client, user), is_right, "{user}, {password}");
        }
        let sha2 = client(&flifo, user, "older").plugin(Plugin::CachingSha2);
        assert!(is_let_in(sha2, user), "{user}");
    }
}

#[test]
fn a_wrong_scramble_of_caching_sha2_is_followed_by_the_password_itself() {
    let flifo = start(
        "[[users]]\nname = \"single\"\npassword = \"new\"\nplugin = \"caching_sha2_password\"\n",
    );
    let client = |password: &str| client(&flifo, "single", password).plugin(Plugin::CachingSha2);
    for _ in 0..2 {
        assert!(is_let_in(client("new"), "single"));
        assert!(is_let_in(client("new").first(&[1; 32]), "single"));
        assert!(is_let_in(client("new").first(&[1; 32]).tls(), "single"));
        assert!(!is_let_in(client("guess").first(&[1; 32]), "single"));
        assert!(!is_let_in(client("new").first(&[1; 31]), "single"));
    }
}

#[test]
fn the_password_vouches_for_the_certificate() {
    let vouched = |client: Builder| client.connect().expect("let in").vouched;
    let flifo = by_table();
    for (user, password) in [
        ("single", "new"),
        ("signs", "new"),
        ("renewed", "old"),
        ("renewed", "new"),
        ("signs_first", "new"),
        ("signs_last", "new"),
        ("passed", "new"),
    ] {
        let in_tls = || client(&flifo, user, password).tls();
        assert_eq!(vouched(in_tls()), Some(true), "{user}, {password}");
        // The first waits for the server's word of the schema, the second does not.
        for _ in 0..2 {
            assert_eq!(vouched(in_tls().schema("mysql")), Some(true), "{user}, in a schema");
        }
        let asked = in_tls().plugin(Plugin::CachingSha2);
        // Of a client that is asked by Flifo and by the server for the native plugin, two scrambles are known.
        if !["passed", "signs_first"].contains(&user) {
            assert_eq!(vouched(asked), Some(true), "{user}, asked for another plugin");
        }
        assert_eq!(vouched(client(&flifo, user, password)), None, "{user}, in plain");
    }
    let flifo = start(
        "[[users]]\nname = \"single\"\npassword = \"new\"\n[[users]]\nname = \"signs\"\npassword = \"new\"\n",
    );
    for user in ["single", "signs"] {
        assert_eq!(vouched(client(&flifo, user, "new").tls()), Some(true), "{user}");
    }
    // Nothing is known of it.
    assert_eq!(vouched(client(&flifo, "passed", "new").tls()), None);
}
