//! A client has the account that the server would choose for its own address, and what that account has: never more
//! than directly, in each way in which clients get through Flifo.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::OnceLock;
use std::time::Duration;

use backend::Address;
use bench::private_server::PrivateServer;
use testkit::client::{Client, Problem};
use testkit::differ::program::Brand;
use testkit::flifo::{Flifo, program};
use testkit::logins::campaign;
use testkit::logins::connected::{self, Bounds, Late};
use testkit::logins::handshakes;
use testkit::logins::site::{Site, Way};
use wire::auth::Plugin;

/// A server that resolves no addresses, with accounts that differ by host.
fn server() -> &'static PrivateServer {
    static SERVER: OnceLock<PrivateServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = PrivateServer::builder().start().expect("a private server");
        server
            .sql(
                "CREATE USER reader@'%' IDENTIFIED BY 'look'; GRANT SELECT ON mysql.global_priv TO reader@'%'; \
                 CREATE USER homely@localhost IDENTIFIED BY 'l'; \
                 CREATE USER near@localhost IDENTIFIED BY 'n'; CREATE USER near@'127.0.0.2' IDENTIFIED BY 'n'; \
                 GRANT ALL ON *.* TO near@localhost; \
                 CREATE USER either@localhost IDENTIFIED BY 'x'; CREATE USER either@'%' IDENTIFIED BY 'x' ACCOUNT LOCK; \
                 CREATE USER single@'%' IDENTIFIED BY 'o'; CREATE USER wide@'%' IDENTIFIED BY 'w'; \
                 CREATE USER stale@localhost IDENTIFIED BY 's' PASSWORD EXPIRE",
            )
            .expect("accounts");
        server
    })
}

/// How Flifo knows users.
const WAYS: [&str; 3] = ["pass_through", "configured", "table"];

/// Before the server's Unix socket, where all clients are `localhost` to the server.
fn flifo(way: &str, more: &str) -> Flifo {
    let user = |name: &str, password: &str| {
        format!("[[users]]\nname = {name:?}\npassword = {password:?}\n")
    };
    let (server_more, users) = match way {
        "table" => ("accounts_user = \"reader\"", user("reader", "look")),
        "configured" => {
            let known =
                [("homely", "l"), ("near", "n"), ("either", "x"), ("single", "o"), ("wide", "w")];
            ("", known.map(|(name, password)| user(name, password)).concat())
        }
        _ => ("", String::new()),
    };
    let socket = server().socket();
    Flifo::start(&format!("[server]\naddress = {socket:?}\n{server_more}\n{more}\n{users}"))
}

fn from(port: u16, last: u8, user: &str, password: &str) -> Result<Client, Problem> {
    let tcp = Address::Tcp { host: "127.0.0.1".to_owned(), port };
    let client = Client::builder(tcp, user, password).plugin(Plugin::NativePassword);
    client.from(IpAddr::V4(Ipv4Addr::new(127, 0, 0, last))).connect()
}

/// The account of a client, or the number of the error.
fn account(client: Result<Client, Problem>) -> Result<String, u16> {
    let asked = client.and_then(|mut client| client.query("SELECT CURRENT_USER()"));
    match asked {
        Ok(mut rows) => Ok(rows.remove(0).remove(0)),
        Err(Problem::Refused { code, .. }) => Err(code),
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_client_has_its_own_account_or_is_refused() {
    for way in WAYS {
        let flifo = flifo(way, "");
        // Of another address than Flifo's.
        for (user, password, want) in [
            ("homely", "l", None),
            ("unknown", "", None),
            ("single", "o", Some("single@%")),
            ("single", "wrong", None),
            ("wide", "w", Some("wide@%")),
            ("stale", "s", None),
        ] {
            let directly = account(from(server().port(), 2, user, password));
            let through = account(from(flifo.port(), 2, user, password));
            let case = format!("{way} {user} {password:?}: {directly:?} {through:?}");
            assert_eq!(through.as_deref().ok(), want, "{case}");
            assert!(through.is_err() || through == directly, "{case}");
            let mut base = from(flifo.port(), 2, "single", "o").expect("a login");
            let changed = base.change_user(user, password, &Plugin::NativePassword);
            assert_eq!(account(changed.map(|_| base)).as_deref().ok(), want, "{case}, by a change");
        }
        // Of the same address: what the server chooses is right.
        let unix = |user: &str, password: &str| {
            let socket = Address::Unix(flifo.socket());
            account(
                Client::builder(socket, user, password).plugin(Plugin::NativePassword).connect(),
            )
        };
        assert_eq!(unix("homely", "l").as_deref(), Ok("homely@localhost"), "{way}");
        assert_eq!(unix("single", "o").as_deref(), Ok("single@%"), "{way}");
    }
}

#[test]
fn a_client_is_not_the_anonymous_user_of_flifos_address() {
    let server = PrivateServer::builder().start().expect("a private server");
    server
        .sql(
            "CREATE USER ''@localhost; CREATE USER alice@'127.0.0.2' IDENTIFIED BY 'a'; \
             CREATE USER reader@localhost IDENTIFIED BY 'look'; GRANT SELECT ON mysql.global_priv TO reader@localhost",
        )
        .expect("accounts");
    let socket = server.socket();
    let reader = "[[users]]\nname = \"reader\"\npassword = \"look\"";
    for users in [
        String::new(),
        reader.to_owned(),
        format!("accounts_user = \"reader\"\n{reader}"),
        "[[users]]\nname = \"alice\"\npassword = \"\"".to_owned(),
    ] {
        let flifo = Flifo::start(&format!("[server]\naddress = {socket:?}\n{users}"));
        for user in ["alice", "unknown"] {
            for last in [1, 2] {
                assert_eq!(
                    account(from(flifo.port(), last, user, "")),
                    Err(1045),
                    "{user} {users}"
                );
                assert_eq!(
                    account(from(server.port(), last, user, "")),
                    Err(1045),
                    "{user}, directly"
                );
            }
        }
        // On the server's machine, any client may be the anonymous user.
        let socket = Address::Unix(flifo.socket());
        let nobody = Client::builder(socket, "unknown", "").plugin(Plugin::NativePassword);
        assert_eq!(account(nobody.connect()).as_deref(), Ok("@localhost"), "{users}");
    }
}

#[test]
fn a_table_tells_that_a_clients_account_is_another_one() {
    let flifo = flifo("table", "");
    // Both accounts are of this name and password, and Flifo is given the one with more rights.
    assert_eq!(account(from(flifo.port(), 2, "near", "n")), Err(1045));
    // The client's own is locked.
    assert_eq!(account(from(flifo.port(), 2, "either", "x")), Err(1045));
    // One that is made, or dropped, is seen.
    server().sql("CREATE USER late@localhost IDENTIFIED BY 'l'").expect("an account");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(account(from(flifo.port(), 2, "late", "l")), Err(1045));
    server()
        .sql("DROP USER late@localhost; CREATE USER late@'%' IDENTIFIED BY 'l'")
        .expect("another");
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(account(from(flifo.port(), 2, "late", "l")).as_deref(), Ok("late@%"));
}

#[test]
fn accounts_may_be_made_for_flifos_address() {
    for way in WAYS {
        let flifo = flifo(way, "account_terms = \"flifo\"");
        assert_eq!(
            account(from(flifo.port(), 2, "homely", "l")).as_deref(),
            Ok("homely@localhost"),
            "{way}"
        );
    }
}

#[test]
fn nobody_gets_more_than_directly() {
    let mut site = Site::start(Brand::MariaDb).expect("a private server");
    let (mut admitted, mut refused) = (0, 0);
    for seed in 0..3 {
        let ways = Way::all(Brand::MariaDb);
        let report = campaign::run(&mut site, program(), seed, 60, ways);
        let found = report.findings.iter().chain(&report.undue);
        let found = found.chain(&report.wordless).chain(&report.misruled);
        assert_eq!(found.cloned().collect::<Vec<_>>().join("\n"), "");
        admitted += report.admitted;
        refused += report.refused;
    }
    assert!(10 < admitted && 10 < refused, "{admitted} {refused}");
    // What it is held against is found.
    site.settings = "account_terms = \"flifo\"\n".to_owned();
    let ways = [Way::PassThrough, Way::Configured];
    let is_found = |seed| !campaign::run(&mut site, program(), seed, 60, &ways).findings.is_empty();
    assert!((0..10).any(is_found));
}

/// Has accounts change while clients are connected.
fn change_accounts(brand: Brand, seeds: std::ops::Range<u64>, ways: &[Way]) {
    let Some(mut site) = Site::start(brand) else { return };
    let (mut admitted, mut refused) = (0, 0);
    let bounds = Bounds { beside: Duration::from_secs(60), late: Late::PassedOver };
    for seed in seeds {
        let report = connected::run(&mut site, program(), seed, 40, ways, bounds);
        let found = report.findings.iter().chain(&report.undue).chain(&report.wordless);
        let found: Vec<_> = found.cloned().collect();
        assert!(found.is_empty(), "{}", found.join("\n"));
        admitted += report.admitted;
        refused += report.refused;
    }
    assert!(10 < admitted && 2 < refused, "{admitted} {refused}");
}

#[test]
fn accounts_change_under_connected_clients_as_they_do_directly() {
    change_accounts(Brand::MariaDb, 6..7, Way::all(Brand::MariaDb));
}

#[test]
fn accounts_of_a_mysql_change_under_connected_clients() {
    change_accounts(Brand::MySql, 1..2, &[Way::Accounts]);
}

#[test]
fn a_check_by_the_protocol_before_4_1_hears_what_the_server_says() {
    let flifo = flifo("configured", "");
    server().sql("CREATE USER checker@'%' IDENTIFIED BY ''").expect("an account");
    let check = |port: u16, user: &str| {
        let mut client = testkit::fake_client::FakeClient::connect(port);
        client.read_greeting().expect("a greeting");
        let login = [&b"\x00\x80\x00\x00\x01"[..], user.as_bytes(), &[0, 0]].concat();
        client.send_packet(1, &login);
        client.send_packet(0, &[1]);
        client.read_payload()
    };
    for port in [server().port(), flifo.port()] {
        assert_eq!(check(port, "checker").expect("it is up"), [0, 0, 0]);
        let refused = check(port, "single").expect_err("it has a password");
        let is_denied = matches!(refused, testkit::fake_client::Refusal::Error { code: 1045, .. });
        assert!(is_denied, "{refused:?}");
    }
    // It has nothing of the account.
    let mut client = testkit::fake_client::FakeClient::connect(flifo.port());
    client.read_greeting().expect("a greeting");
    client.send_packet(1, b"\x00\x80\x00\x00\x01checker\0\0");
    assert_eq!(client.read_payload().expect("an OK"), [0, 0, 0]);
    client.send_packet(0, b"\x03SELECT 1");
    assert!(client.read_payload().is_err());
}

#[test]
fn a_client_without_schemas_is_served_in_its_own() {
    let flifo = flifo("configured", "");
    let tcp = || Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
    let client = |schema: Option<&str>| {
        let client = Client::builder(tcp(), "wide", "w").plugin(Plugin::NativePassword);
        let client = client.with(wire::Capabilities::NO_SCHEMA);
        let client = match schema {
            Some(schema) => client.schema(schema),
            None => client,
        };
        client.connect().expect("let in")
    };
    assert_eq!(client(None).query("SELECT 1").expect("an answer"), [["1"]]);
    let mut client = client(Some("information_schema"));
    let rows = client.query("SELECT COUNT(*) > 0 FROM SCHEMATA").expect("an answer");
    assert_eq!(rows, [["1"]]);
}

#[test]
fn handshakes_of_chance_are_answered_as_directly() {
    let found = handshakes::compare(program(), 0..40);
    assert!(found.is_empty(), "{}", found.join("\n"));
}
