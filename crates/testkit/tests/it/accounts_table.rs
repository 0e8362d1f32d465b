//! Users that are not configured share backends: their passwords' hashes come from the server's table of accounts, and
//! what changes there takes effect.

use std::thread;
use std::time::{Duration, Instant};

use backend::Address;
use bench::private_server::PrivateServer;
use testkit::client::{Client, Problem};
use testkit::flifo::Flifo;
use wire::auth::Plugin;

struct Table {
    server: PrivateServer,
    flifo: Flifo,
}

impl Table {
    /// Flifo may read the table, and no other user is configured. `period`: how often Flifo reads it.
    fn start(period: &str) -> Self {
        let server = PrivateServer::builder().start().expect("a private server");
        server
            .sql(
                "CREATE USER reader@'%' IDENTIFIED BY 'look'; GRANT SELECT ON mysql.global_priv TO reader@'%'; \
                 CREATE USER app@'%' IDENTIFIED BY 'one'",
            )
            .expect("users");
        let flifo = Flifo::start(&format!(
            "workers = 1\n[server]\naddress = \"{}\"\naccounts_user = \"reader\"\naccounts_period = \"{period}\"\n\
             [[users]]\nname = \"reader\"\npassword = \"look\"\n",
            server.socket().display(),
        ));
        Self { server, flifo }
    }

    fn sql(&self, text: &str) {
        self.server.sql(text).expect(text);
    }

    fn client(&self, user: &str, password: &str) -> Result<Client, Problem> {
        let port = self.flifo.port();
        let address = Address::Tcp { host: "127.0.0.1".to_owned(), port };
        Client::builder(address, user, password).plugin(Plugin::NativePassword).connect()
    }

    /// Whether a client is let in, and the server knows it as this user.
    fn is_served(&self, user: &str, password: &str) -> bool {
        let Ok(mut client) = self.client(user, password) else { return false };
        let rows = client.query("SELECT SUBSTRING_INDEX(USER(), '@', 1)").expect("an answer");
        rows == [[user]]
    }

    fn is_denied(&self, user: &str, password: &str) -> bool {
        matches!(self.client(user, password), Err(Problem::Refused { code: 1045, .. }))
    }

    /// Ends Flifo. The answer is its log, and how often it counted what has this name.
    fn end(self) -> (String, impl Fn(&str) -> u64) {
        let (status, log) = self.flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
        let counters = log.clone();
        let counted = move |name: &str| {
            let (_, rest) = counters.split_once(&format!("{name}=")).unwrap_or(("", "0"));
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().expect("a number")
        };
        (log, counted)
    }
}

#[test]
fn clients_share_backends_with_nothing_configured_for_them() {
    let table = Table::start("1h");
    for _ in 0..10 {
        assert!(table.is_served("app", "one"));
    }
    assert!(table.is_denied("app", "two") && table.is_denied("app", ""));
    // A user that is made later is known at its first login.
    table.sql("CREATE USER late@'%' IDENTIFIED BY 'later'");
    thread::sleep(Duration::from_secs(1));
    assert!(table.is_served("late", "later"));
    let (_, counted) = table.end();
    assert_eq!((counted("clients_pooled"), counted("clients_pass_through")), (11, 0));
    assert_eq!(counted("backends_opened"), 2, "one for each user");
}

#[test]
fn a_password_that_is_changed_on_the_server_is_changed() {
    let table = Table::start("1h");
    assert!(table.is_served("app", "one"));
    let mut before = table.client("app", "one").expect("a login");
    table.sql("SET PASSWORD FOR app@'%' = PASSWORD('two')");
    thread::sleep(Duration::from_secs(1));
    // The first login that fails by what was known has it looked up.
    assert!(table.is_served("app", "two"), "the new one");
    assert!(table.is_denied("app", "one"), "the old one");
    assert_eq!(before.query("SELECT 1").expect("who is in stays in"), [["1"]]);
    drop(before);
    let (_, counted) = table.end();
    assert_eq!(counted("clients_pass_through"), 0);
}

#[test]
fn a_user_that_is_dropped_is_let_in_for_no_longer_than_the_period() {
    let table = Table::start("1s");
    assert!(table.is_served("app", "one"));
    table.sql("DROP USER app@'%'");
    let dropped = Instant::now();
    while !table.is_denied("app", "one") {
        assert!(dropped.elapsed() < Duration::from_secs(20), "still let in");
        thread::sleep(Duration::from_millis(100));
    }
    drop(table.end());
}

#[test]
fn who_cannot_be_pooled_is_passed_through_and_the_log_says_why() {
    let table = Table::start("1h");
    table.sql(
        "CREATE USER two@'%' IDENTIFIED BY 'far'; CREATE USER two@localhost IDENTIFIED BY 'near'; \
         CREATE USER locked@'%' IDENTIFIED BY 'x' ACCOUNT LOCK; \
         CREATE USER socketed@'%' IDENTIFIED VIA unix_socket",
    );
    // Flifo comes by the server's socket, the client does not: its account is another one.
    assert!(table.is_denied("two", "near") && table.is_denied("two", "far"));
    assert!(table.client("socketed", "x").is_err());
    assert!(matches!(table.client("locked", "x"), Err(Problem::Refused { code: 4151, .. })));
    assert!(table.is_denied("nobody", "x"));
    let (log, counted) = table.end();
    assert_eq!((counted("clients_pass_through"), counted("clients_pooled")), (0, 0));
    for (user, why) in
        [("socketed", "unix_socket"), ("locked", "locked"), ("nobody", "does not name it")]
    {
        let says = |line: &&str| line.contains("are passed through") && line.contains(user);
        let lines: Vec<_> = log.lines().filter(says).collect();
        assert!(matches!(lines[..], [line] if line.contains(why)), "{user}: {lines:?}");
    }
}

#[test]
fn a_table_that_cannot_be_read_keeps_nobody_out() {
    let table = Table::start("1s");
    table.sql("REVOKE SELECT ON mysql.global_priv FROM reader@'%'");
    assert!(table.is_served("app", "one"));
    thread::sleep(Duration::from_secs(2));
    assert!(table.is_served("app", "one"));
    table.sql("GRANT SELECT ON mysql.global_priv TO reader@'%'");
    thread::sleep(Duration::from_secs(3));
    assert!(table.is_served("app", "one"));
    let (log, counted) = table.end();
    assert_eq!((counted("clients_pass_through"), counted("clients_pooled")), (2, 1));
    assert_eq!(log.matches("cannot be read; grant").count(), 1, "said once: {log}");
    assert!(log.contains("can be read again"));
}

#[test]
fn there_may_be_many_accounts() {
    let table = Table::start("1h");
    let name = |number: usize| format!("many{number:05}");
    for numbers in (0..3000).collect::<Vec<_>>().chunks(500) {
        let users: Vec<_> =
            numbers.iter().map(|it| format!("{}@'%' IDENTIFIED BY 'x'", name(*it))).collect();
        table.sql(&format!("CREATE USER {}", users.join(", ")));
    }
    for number in [0, 1500, 2999] {
        assert!(
            table.is_served(&name(number), "x") && table.is_denied(&name(number), "y"),
            "{number}"
        );
    }
    let (log, counted) = table.end();
    assert_eq!((counted("clients_pass_through"), counted("clients_pooled")), (0, 3), "{log}");
}
