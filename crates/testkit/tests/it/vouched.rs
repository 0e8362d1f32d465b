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

/// An account that is changed while clients are there.
struct Rotated {
    flifo: Flifo,
    user: &'static str,
    admin: Client,
}

impl Rotated {
    /// With a client that has proved each of these passwords, all of which the account has.
    fn start(user: &'static str, passwords: &[&str]) -> (Self, Vec<Client>) {
        let (flifo, server) = (by_table(), server());
        server.sql(&format!("CREATE USER {user}@'%' {}", via(passwords))).expect("an account");
        let tell = format!("CREATE OR REPLACE USER {user}_admin@'%' IDENTIFIED BY 'x'");
        server.sql(&tell).expect("an account");
        server.sql(&format!("GRANT CREATE USER ON *.* TO {user}_admin@'%'")).expect("a right");
        let admin = client(&flifo, &format!("{user}_admin"), "x").connect().expect("let in");
        let this = Self { flifo, user, admin };
        let clients = passwords.iter().map(|password| {
            let mut client = this.client(password).connect().expect("let in");
            client.query("SELECT 1").expect("a backend");
            client
        });
        let clients = clients.collect();
        (this, clients)
    }

    fn client(&self, password: &str) -> Builder {
        client(&self.flifo, self.user, password)
    }

    /// By way of Flifo, so that no backend of before serves any statement behind it.
    fn change(&mut self, passwords: &[&str]) {
        let change = format!("ALTER USER {}@'%' {}", self.user, via(passwords));
        self.admin.query(&change).expect("it is changed");
    }

    /// Has Flifo read the accounts anew.
    fn have_read(&self) {
        let gone = client(&self.flifo, "no_such_user", "x").connect();
        assert!(matches!(gone, Err(Problem::Refused { code: 1045, .. })));
    }
}

fn via(passwords: &[&str]) -> String {
    let one = |it: &&str| format!("mysql_native_password USING PASSWORD('{it}')");
    let all: Vec<_> = passwords.iter().map(one).collect();
    format!("IDENTIFIED VIA {}", all.join(" OR "))
}

#[test]
fn clients_that_are_connected_notice_no_second_password() {
    let (mut rotated, mut clients) = Rotated::start("gets_second", &["old"]);
    rotated.change(&["old", "new"]);
    rotated.have_read();
    clients[0].query("SELECT 1").expect("it has proved a password that the account has");
    let mut newer = rotated.client("new").connect().expect("let in");
    newer.query("SELECT 1").expect("a backend");
    // Behind the second step, the first client goes on by what the second one has proved.
    rotated.change(&["new"]);
    newer.query("SELECT 1").expect("its password is the account's");
    rotated.have_read();
    newer.query("SELECT 1").expect("its password is the account's");
    clients[0].query("SELECT 1").expect("as a client that was connected to the server");
}

#[test]
fn a_password_that_was_taken_away_is_in_no_other_clients_way() {
    let (mut rotated, mut clients) = Rotated::start("loses_first", &["old", "new"]);
    rotated.change(&["new"]);
    clients[1].query("SELECT 1").expect("its password is the account's");
    assert!(is_let_in(rotated.client("new"), "loses_first"));
    assert!(!is_let_in(rotated.client("old"), "loses_first"));
}

#[test]
fn a_new_password_is_taken_however_soon_it_is_used() {
    let (rotated, _clients) = Rotated::start("changes_fast", &["p0"]);
    for number in 1..6 {
        let password = format!("p{number}");
        // Beside Flifo, which has just read the accounts.
        rotated.have_read();
        let change = format!("ALTER USER changes_fast@'%' {}", via(&[&password]));
        server().sql(&change).expect("it is changed");
        assert!(is_let_in(rotated.client(&password), "changes_fast"), "{password}");
    }
}
