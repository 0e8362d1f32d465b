//! Users that are not configured share backends once a client has sent its password in a login that was passed through
//! and that the server has accepted; what changes on the server takes effect.
//!
//! Where no MySQL is available the tests against a real one print so and test nothing.

use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use backend::Address;
use backend::login::{Credential, Request};
use bench::private_server::PrivateServer;
use rustix::process::{Signal, kill_process};
use testkit::asking::{Asking, Heard};
use testkit::client::{Asked, Builder, Client, Problem};
use testkit::flifo::{self, Flifo, TakenOver, take_over};
use testkit::mysql::Mysql;
use wire::Capabilities;
use wire::auth::rsa::RsaEnd;
use wire::auth::{Plugin, Secret};

const PASSWORD: &str = "correct horse";

/// A proxy without configured users.
struct Proxy {
    flifo: Flifo,
}

/// How a client comes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leg {
    Plain,
    Tls,
    Socket,
}

const LEGS: [Leg; 3] = [Leg::Plain, Leg::Tls, Leg::Socket];

impl Proxy {
    /// `server`: what is said of the server.
    fn start(server: &str) -> Self {
        Self { flifo: Flifo::start(&format!("workers = 1\n[server]\n{ANY_LEG}\n{server}\n")) }
    }

    fn to(server: &Mysql, rest: &str) -> Self {
        Self::start(&format!("address = {:?}\n{rest}", server.socket()))
    }

    fn tcp(&self) -> Address {
        Address::Tcp { host: "127.0.0.1".to_owned(), port: self.flifo.port() }
    }

    fn client(&self, leg: Leg, user: &str, password: &str) -> Builder {
        match leg {
            Leg::Plain => Client::builder(self.tcp(), user, password),
            Leg::Tls => Client::builder(self.tcp(), user, password).tls(),
            Leg::Socket => Client::builder(Address::Unix(self.flifo.socket()), user, password),
        }
    }

    fn log_in(&self, user: &str, password: &str) -> Result<Client, Problem> {
        self.client(Leg::Tls, user, password).connect()
    }

    /// Whether a client is let in, as the user that it names.
    fn serves(&self, user: &str, password: &str) -> bool {
        let Ok(mut client) = self.log_in(user, password) else { return false };
        is_who_it_says(&mut client, user)
    }

    /// The server's words to a client that is not let in.
    fn denies(&self, user: &str, password: &str) -> Option<String> {
        match self.log_in(user, password) {
            Err(Problem::Refused { code: 1045, message, .. }) => Some(message),
            _ => None,
        }
    }

    /// Waits until it has logged that this user is pooled.
    fn wait_for(&self, user: &str) {
        let says = |line: &str| line.contains("are pooled from now on") && line.contains(user);
        let begun = Instant::now();
        while !self.flifo.log().lines().any(says) {
            assert!(begun.elapsed() < Duration::from_secs(120), "not learnt: {}", self.flifo.log());
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Ends it. The answer is how many clients were passed through and how many pooled, and its log.
    fn end(self) -> (u64, u64, String) {
        let (status, log) = self.flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
        assert!(!log.contains(PASSWORD), "passwords are not logged");
        let counted = |name: &str| {
            let (_, rest) = log.split_once(&format!("{name}=")).unwrap_or(("", "0"));
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().expect("a number")
        };
        (counted("clients_pass_through"), counted("clients_pooled"), log)
    }
}

fn is_who_it_says(client: &mut Client, user: &str) -> bool {
    let rows = client.query("SELECT SUBSTRING_INDEX(CURRENT_USER(), '@', 1)");
    rows.expect("an answer") == [[user]]
}

/// The real server of all these tests; each has users of its own.
fn mysql() -> Option<&'static Mysql> {
    static SERVER: OnceLock<Option<Mysql>> = OnceLock::new();
    SERVER.get_or_init(|| Mysql::start(&[])).as_ref()
}

fn create(server: &Mysql, user: &str, password: &str) {
    let with = format!("IDENTIFIED WITH caching_sha2_password BY '{password}'");
    server.sql(&[
        &format!("CREATE USER {user}@'%' {with}"),
        &format!("GRANT ALL ON *.* TO {user}@'%'"),
    ]);
}

fn alter(server: &Mysql, user: &str, password: &str) {
    server.sql(&[&format!("ALTER USER {user}@'%' IDENTIFIED BY '{password}'")]);
}

/// Waits until this is so, for less than the thirty seconds after which it would be so by default.
fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(25), "{what}");
        thread::sleep(Duration::from_millis(100));
    }
}

/// Clients in plain are passed through in TLS where `server.tls` wants it.
const ANY_LEG: &str = "pass_through_tls = \"always\"";

#[test]
fn a_password_that_is_said_is_learnt_on_all_legs() {
    let server = Asking::start(&Plugin::CachingSha2);
    for tls in ["off", "required"] {
        for leg in LEGS {
            let case = format!("{leg:?} to TLS {tls}");
            let address = format!("address = \"{}\"\ntls = {tls:?}", server.address);
            let proxy = Proxy::start(&address);
            let first = proxy.client(leg, "sha", PASSWORD).connect().expect("a login");
            assert_eq!(first.asked.last(), Some(&Asked::Full), "{case}");
            let want = match tls {
                "off" => Heard::Encrypted(Some(PASSWORD.into())),
                _ => Heard::Clear([PASSWORD.as_bytes(), &[0]].concat()),
            };
            assert!(server.heard().contains(&want), "{case}");
            // The server never remembers a password: a client that is asked for nothing more is pooled.
            let mut second = proxy.client(leg, "sha", PASSWORD).connect().expect("a login");
            assert_eq!(second.asked.last(), Some(&Asked::Fast), "{case}");
            second.query("DO 1").unwrap_or_else(|error| panic!("{case}: {error}"));
            drop((first, second));
            let (pass_through, pooled, log) = proxy.end();
            assert_eq!((pass_through, pooled), (1, 1), "{case}");
            assert_eq!(log.matches("are pooled from now on").count(), 1, "{case}: {log}");
        }
    }
}

#[test]
fn nothing_is_learnt_of_what_is_meant_for_the_server_alone() {
    let server = Asking::start(&Plugin::CachingSha2);
    let key = RsaEnd::generate().expect("a key");
    let proxy = Proxy::start(&format!("address = \"{}\"\ntls = \"off\"", server.address));
    for _ in 0..3 {
        let client = proxy.client(Leg::Plain, "sha", PASSWORD).with_key(key.public_pem());
        assert_eq!(client.connect().expect("a login").asked.last(), Some(&Asked::Full));
    }
    assert_eq!(server.heard().iter().filter(|it| **it == Heard::Encrypted(None)).count(), 3);
    let (pass_through, pooled, _) = proxy.end();
    assert_eq!((pass_through, pooled), (3, 0));
}

#[test]
fn nothing_is_learnt_where_that_is_not_wanted() {
    let server = Asking::start(&Plugin::CachingSha2);
    let address = format!("address = \"{}\"\ntls = \"off\"", server.address);
    let off = format!("{address}\nlearn_passwords = \"off\"");
    let named = format!("{address}\n[[users]]\nname = \"sha\"\nmode = \"pass-through\"");
    for (case, config) in [("off", off), ("pass-through by name", named)] {
        let proxy = Proxy::start(&config);
        for _ in 0..3 {
            let client = proxy.client(Leg::Tls, "sha", PASSWORD).connect().expect("a login");
            assert_eq!(client.asked.last(), Some(&Asked::Full), "{case}");
        }
        let (pass_through, pooled, _) = proxy.end();
        assert_eq!((pass_through, pooled), (3, 0), "{case}");
    }
}

#[test]
fn the_second_client_of_a_user_shares_backends() {
    let Some(server) = mysql() else { return };
    let tcp = format!("address = \"127.0.0.1:{}\"\ntls = ", server.port());
    let socket = format!("address = {:?}\ntls = ", server.socket());
    let mut ways = vec![("TCP", format!("{tcp}\"off\"")), ("socket", format!("{socket}\"off\""))];
    if server.has_modern_tls() {
        ways.push(("TLS", format!("{tcp}\"required\"")));
    }
    for (out, way) in ways {
        for leg in LEGS {
            let (case, user) = (format!("{leg:?} to {out}"), format!("second_{leg:?}_{out}"));
            create(server, &user, PASSWORD);
            let proxy = Proxy::start(&way);
            for want in [Asked::Full, Asked::Fast, Asked::Fast] {
                let client = proxy.client(leg, &user, PASSWORD).connect();
                let mut client = client.unwrap_or_else(|error| panic!("{case}: {error}"));
                assert_eq!(client.asked.last(), Some(&want), "{case}");
                assert!(is_who_it_says(&mut client, &user), "{case}");
            }
            let (pass_through, pooled, log) = proxy.end();
            assert_eq!((pass_through, pooled), (1, 2), "{case}: {log}");
        }
    }
}

#[test]
fn a_client_of_a_learnt_user_goes_to_the_flifo_that_takes_over() {
    let Some(server) = mysql() else { return };
    create(server, "moved", PASSWORD);
    let folder = tempfile::tempdir().expect("a folder");
    let console = folder.path().join("console.sock");
    let outside = format!("[console]\nlisten = [{console:?}]\n[http]\nlisten = []");
    let proxy = Proxy::to(server, &format!("tls = \"off\"\n{outside}"));
    assert!(proxy.serves("moved", PASSWORD));
    proxy.wait_for("moved");
    let log_in = || proxy.client(Leg::Socket, "moved", PASSWORD).connect().expect("a login");
    let mut client = log_in();
    client.query("SET @a = 3").unwrap();
    let TakenOver { pid, left } = take_over(flifo::program(), &console).expect("it takes over");
    assert_eq!(left, 0, "{}", proxy.flifo.log());
    assert_eq!(client.query("SELECT @a").unwrap(), [["3"]]);
    assert!(is_who_it_says(&mut log_in(), "moved"));
    kill_process(pid, Signal::KILL).expect("it lives");
}

#[test]
fn what_the_server_remembers_teaches_nothing() {
    let Some(server) = mysql() else { return };
    create(server, "remembered", PASSWORD);
    let other = Proxy::to(server, "learn_passwords = \"off\"");
    assert!(other.serves("remembered", PASSWORD));
    let proxy = Proxy::to(server, "");
    for _ in 0..3 {
        let client = proxy.log_in("remembered", PASSWORD).expect("a login");
        assert_eq!(client.asked.last(), Some(&Asked::Fast));
    }
    let (pass_through, pooled, _) = proxy.end();
    assert_eq!((pass_through, pooled), (3, 0));
}

#[test]
fn a_password_that_was_changed_works_at_once_and_the_old_one_no_longer() {
    let Some(server) = mysql() else { return };
    create(server, "changed", PASSWORD);
    let proxy = Proxy::to(server, "accounts_period = \"1h\"");
    assert!(proxy.serves("changed", PASSWORD));
    proxy.wait_for("changed");
    let mut before = proxy.log_in("changed", PASSWORD).expect("a login");
    assert!(is_who_it_says(&mut before, "changed"));
    alter(server, "changed", "battery staple");
    assert!(proxy.serves("changed", "battery staple"), "the new one");
    let words = proxy.denies("changed", PASSWORD).expect("the old one is denied");
    assert!(!words.contains("Flifo"), "in the server's words: {words}");
    assert!(proxy.serves("changed", "battery staple"), "the new one is learnt");
    assert!(is_who_it_says(&mut before, "changed"), "who is in stays in");
    drop(before);
    let (pass_through, pooled, _) = proxy.end();
    assert_eq!((pass_through, pooled), (1, 3));
}

#[test]
fn an_old_password_is_let_in_for_no_longer_than_the_period() {
    let Some(server) = mysql() else { return };
    create(server, "old", PASSWORD);
    let proxy = Proxy::to(server, "accounts_period = \"1s\"");
    for _ in 0..2 {
        assert!(proxy.serves("old", PASSWORD));
    }
    alter(server, "old", "battery staple");
    wait_until("still let in", || proxy.denies("old", PASSWORD).is_some());
    assert!(proxy.flifo.log().contains("are passed through again"));
    // It is learnt like any other.
    for _ in 0..2 {
        assert!(proxy.serves("old", "battery staple"));
    }
    let (pass_through, ..) = proxy.end();
    assert_eq!(pass_through, 2, "the first of each");
}

#[test]
fn a_user_that_was_dropped_is_denied_and_one_that_is_made_anew_has_his_own_rights() {
    let Some((mut before, proxy)) = drop_and_make_again("dropped", "accounts_period = \"1s\"")
    else {
        return;
    };
    assert_eq!(before.query("SELECT 1").expect("who is in stays in"), [["1"]]);
    drop(before);
    let (pass_through, ..) = proxy.end();
    assert_eq!(pass_through, 2, "the first of each");
}

/// Its password is believed all the time; that its rights were confirmed is not.
#[test]
fn one_that_is_made_anew_has_his_own_rights_whoever_denied_the_one_before() {
    let top = "accounts_period = \"1h\"\nrights_bound = \"5s\"";
    let Some((before, proxy)) = drop_and_make_again("dropped_soon", top) else { return };
    drop(before);
    let (pass_through, ..) = proxy.end();
    assert_eq!(pass_through, 2, "the first of each");
}

fn drop_and_make_again(user: &str, top: &str) -> Option<(Client, Proxy)> {
    let server = mysql()?;
    create(server, user, PASSWORD);
    let proxy = Proxy::to(server, top);
    assert!(proxy.serves(user, PASSWORD));
    proxy.wait_for(user);
    let mut before = proxy.log_in(user, PASSWORD).expect("a login");
    assert_eq!(before.query("SELECT COUNT(*) > 0 FROM mysql.user").unwrap(), [["1"]]);
    server.sql(&[&format!("DROP USER {user}@'%'")]);
    wait_until("still let in", || proxy.denies(user, PASSWORD).is_some());
    server.sql(&[&format!("CREATE USER {user}@'%' IDENTIFIED BY '{PASSWORD}'")]);
    for _ in 0..3 {
        let mut after = proxy.log_in(user, PASSWORD).expect("a login");
        let refused = after.query("SELECT COUNT(*) FROM mysql.user").unwrap_err();
        assert!(matches!(refused, Problem::Refused { code: 1142, .. }), "{refused}");
        assert!(is_who_it_says(&mut after, user));
    }
    Some((before, proxy))
}

#[test]
fn users_are_told_apart_by_their_passwords() {
    let Some(server) = mysql() else { return };
    create(server, "ann", "horse of ann");
    create(server, "bob", "horse of bob");
    let proxy = Proxy::to(server, "");
    for _ in 0..3 {
        for (own, other) in [("ann", "bob"), ("bob", "ann")] {
            assert!(proxy.serves(own, &format!("horse of {own}")));
            assert!(proxy.denies(own, &format!("horse of {other}")).is_some());
            assert!(proxy.denies(own, "").is_some());
        }
    }
    let (pass_through, pooled, _) = proxy.end();
    assert_eq!((pass_through, pooled), (2, 4));
}

#[test]
fn a_wrong_password_is_denied_in_the_servers_words_and_nothing_is_forgotten() {
    let Some(server) = mysql() else { return };
    create(server, "guessed", PASSWORD);
    let proxy = Proxy::to(server, "");
    assert!(proxy.serves("guessed", PASSWORD));
    proxy.wait_for("guessed");
    for leg in LEGS {
        for _ in 0..2 {
            let refused = proxy.client(leg, "guessed", "wrong").connect().unwrap_err();
            let Problem::Refused { code, message, .. } = refused else { panic!("{refused}") };
            let want = "Access denied for user 'guessed'@'localhost' (using password: YES)";
            assert_eq!((code, &message[..]), (1045, want), "{leg:?}");
        }
        let client = proxy.client(leg, "guessed", PASSWORD).connect().expect("a login");
        assert_eq!(client.asked.last(), Some(&Asked::Fast), "{leg:?}");
    }
    let (pass_through, pooled, log) = proxy.end();
    assert_eq!((pass_through, pooled), (1, 3));
    assert!(!log.contains("passed through again"), "{log}");
}

#[test]
fn who_proves_his_password_in_another_way_by_now_is_passed_through() {
    let Some(server) = mysql() else { return };
    if !server.has_native() {
        return eprintln!("MySQL 9 has no mysql_native_password");
    }
    create(server, "otherwise", PASSWORD);
    let proxy = Proxy::to(server, "accounts_period = \"1s\"");
    assert!(proxy.serves("otherwise", PASSWORD));
    proxy.wait_for("otherwise");
    let with = format!("IDENTIFIED WITH mysql_native_password BY '{PASSWORD}'");
    server.sql(&[&format!("ALTER USER otherwise@'%' {with}")]);
    thread::sleep(Duration::from_secs(1));
    for _ in 0..2 {
        assert!(proxy.serves("otherwise", PASSWORD));
    }
    let (pass_through, pooled, log) = proxy.end();
    assert_eq!((pass_through, pooled), (3, 0), "{log}");
    assert!(log.contains("are passed through again"), "{log}");
}

#[test]
fn who_proves_a_new_password_in_another_way_is_passed_through_as_well() {
    let Some(server) = mysql() else { return };
    if !server.has_native() {
        return eprintln!("MySQL 9 has no mysql_native_password");
    }
    create(server, "both_ways", PASSWORD);
    let proxy = Proxy::to(server, "accounts_period = \"1h\"");
    assert!(proxy.serves("both_ways", PASSWORD));
    proxy.wait_for("both_ways");
    let with = "IDENTIFIED WITH mysql_native_password BY 'battery staple'";
    server.sql(&[&format!("ALTER USER both_ways@'%' {with}")]);
    thread::sleep(Duration::from_secs(1));
    let refused = proxy.log_in("both_ways", "battery staple").unwrap_err();
    assert!(refused.to_string().contains("without a proof"), "{refused}");
    assert!(proxy.serves("both_ways", "battery staple"));
    let (pass_through, pooled, log) = proxy.end();
    assert_eq!((pass_through, pooled), (2, 0), "{log}");
}

#[test]
fn who_can_only_change_his_password_is_not_pooled() {
    let Some(server) = mysql() else { return };
    create(server, "expired", PASSWORD);
    server.sql(&["ALTER USER expired@'%' PASSWORD EXPIRE"]);
    // The server does not say whose account it is.
    let proxy = Proxy::to(server, "account_terms = \"flifo\"");
    let log_in = |password: &str| {
        let client = proxy.client(Leg::Tls, "expired", password);
        client.with(Capabilities::EXPIRED_PASSWORDS).connect().expect("a login")
    };
    for _ in 0..3 {
        let told = log_in(PASSWORD).query("SELECT 1").unwrap_err();
        assert!(matches!(told, Problem::Refused { code: 1820, .. }), "{told}");
    }
    log_in(PASSWORD).query("ALTER USER USER() IDENTIFIED BY 'battery staple'").expect("a change");
    for _ in 0..2 {
        assert_eq!(log_in("battery staple").query("SELECT 1").expect("an answer"), [["1"]]);
    }
    let (pass_through, pooled, _) = proxy.end();
    assert_eq!((pass_through, pooled), (5, 1));
}

#[test]
fn a_client_with_the_servers_key_is_passed_through() {
    let Some(server) = mysql() else { return };
    create(server, "pinned", PASSWORD);
    let key = std::fs::read_to_string(server.folder().join("data/public_key.pem"));
    let key = key.expect("the server's key");
    let tcp = format!("address = \"127.0.0.1:{}\"\ntls = \"off\"", server.port());
    let proxy = Proxy::start(&tcp);
    for want in [Asked::Full, Asked::Fast, Asked::Fast] {
        let client = proxy.client(Leg::Plain, "pinned", PASSWORD).with_key(&key);
        let mut client = client.connect().expect("a login");
        assert_eq!(client.asked.last(), Some(&want));
        assert!(is_who_it_says(&mut client, "pinned"));
    }
    let (pass_through, pooled, _) = proxy.end();
    assert_eq!((pass_through, pooled), (3, 0));
}

#[test]
fn a_client_with_the_servers_key_is_not_kept_out_by_an_old_password() {
    let Some(server) = mysql() else { return };
    create(server, "pinned_new", PASSWORD);
    let key = std::fs::read_to_string(server.folder().join("data/public_key.pem"));
    let key = key.expect("the server's key");
    let tcp = format!("address = \"127.0.0.1:{}\"\ntls = \"off\"", server.port());
    let proxy = Proxy::start(&format!("{tcp}\naccounts_period = \"1h\""));
    assert!(proxy.serves("pinned_new", PASSWORD));
    proxy.wait_for("pinned_new");
    alter(server, "pinned_new", "battery staple");
    // Its mistake would not be worth a question so soon.
    thread::sleep(Duration::from_secs(1));
    let log_in =
        || proxy.client(Leg::Plain, "pinned_new", "battery staple").with_key(&key).connect();
    // What it says is for the server alone; but Flifo has a look at what it knows itself.
    let refused = log_in().unwrap_err();
    assert!(matches!(refused, Problem::Refused { code: 1045, .. }), "{refused}");
    assert!(is_who_it_says(&mut log_in().expect("a login"), "pinned_new"));
    let (pass_through, pooled, log) = proxy.end();
    assert_eq!((pass_through, pooled), (2, 0), "{log}");
}

#[test]
fn a_pooled_client_may_become_somebody_whom_nobody_knows() {
    let Some(server) = mysql() else { return };
    for user in ["changer", "changed_to"] {
        create(server, user, PASSWORD);
    }
    let proxy = Proxy::to(server, "");
    assert!(proxy.serves("changer", PASSWORD));
    proxy.wait_for("changer");
    for leg in LEGS {
        let mut client = proxy.client(leg, "changer", PASSWORD).connect().expect("a login");
        client.query("SET @mine = 1; CREATE TEMPORARY TABLE mysql.mine (a INT)").unwrap();
        for name in ["changed_to", "changer", "changed_to"] {
            let changed = client.change_user(name, PASSWORD, &Plugin::CachingSha2);
            changed.unwrap_or_else(|error| panic!("{leg:?}: {name}: {error}"));
            assert!(is_who_it_says(&mut client, name), "{leg:?}");
            assert_eq!(client.query("SELECT @mine IS NULL").unwrap(), [["1"]], "{leg:?}");
        }
        let wrong = client.change_user("changer", "wrong", &Plugin::CachingSha2).unwrap_err();
        assert!(matches!(wrong, Problem::Refused { code: 1045, .. }), "{leg:?}: {wrong}");
    }
    drop(proxy.end());
}

#[test]
fn a_login_that_began_before_somebody_was_learnt_goes_on() {
    let Some(server) = mysql() else { return };
    create(server, "early", PASSWORD);
    let proxy = Proxy::to(server, "");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let greet = async {
        let stream = backend::dial::dial(&Address::Unix(proxy.flifo.socket())).await.unwrap();
        backend::login::greet(stream).await.unwrap()
    };
    let greeted = runtime.block_on(greet);
    assert!(greeted.greeting.connection_id < 1 << 30, "the server's own greeting");
    assert!(proxy.serves("early", PASSWORD));
    proxy.wait_for("early");
    let credential = Credential::Password(Secret::from(PASSWORD));
    let request = Request {
        user: b"early",
        credential: &credential,
        capabilities: Capabilities::PROTOCOL_41
            | Capabilities::SECURE_CONNECTION
            | Capabilities::PLUGIN_AUTH,
        collation: 45,
        packet_max: 1 << 24,
        schema: None,
    };
    let log_in = async { greeted.login(&request, None).await?.ping().await };
    runtime.block_on(log_in).expect("it is passed through");
    // And Flifo greets a client that connects now.
    assert!(proxy.serves("early", PASSWORD));
    let (pass_through, pooled, _) = proxy.end();
    assert_eq!((pass_through, pooled), (2, 1));
}

#[test]
fn mariadb_teaches_nothing() {
    let server = PrivateServer::builder().start().expect("a private server");
    server.sql(&format!("CREATE USER app@'%' IDENTIFIED BY '{PASSWORD}'")).expect("a user");
    let proxy = Proxy::start(&format!("address = {:?}", server.socket()));
    for _ in 0..3 {
        assert!(proxy.serves("app", PASSWORD));
    }
    let (pass_through, pooled, log) = proxy.end();
    assert_eq!((pass_through, pooled), (3, 0));
    assert!(!log.contains("are pooled from now on"), "{log}");
}
