//! Statements against a real MySQL, by pass-through and by pooled clients: a load of transactions, prepared and not,
//! and what MySQL does otherwise than MariaDB.
//!
//! Where no MySQL is to be had these tests print so and test nothing.

use std::process::Command;
use std::sync::OnceLock;

use backend::Address;
use testkit::client::Client;
use testkit::flifo::Flifo;
use testkit::mysql::Mysql;

const USER: &str = "app";
const PASSWORD: &str = "correct-horse";

fn server() -> Option<&'static Mysql> {
    static SERVER: OnceLock<Option<Mysql>> = OnceLock::new();
    let server = SERVER.get_or_init(|| {
        let server = Mysql::start(&[])?;
        server.sql(&[
            "CREATE DATABASE sbtest",
            &format!("CREATE USER {USER}@'%' IDENTIFIED BY '{PASSWORD}'"),
            &format!("GRANT ALL ON *.* TO {USER}@'%'"),
        ]);
        Some(server)
    });
    server.as_ref()
}

/// A proxy whose clients are passed through, and one whose clients share four backends.
fn proxies(server: &Mysql) -> [(&'static str, Flifo); 2] {
    let pass_through =
        format!("[server]\naddress = {:?}\nlearn_passwords = \"off\"\n", server.socket());
    let pooled = format!(
        "{pass_through}limit = 4\nconnections_max = 8\n[[users]]\nname = {USER:?}\npassword = {PASSWORD:?}\n"
    );
    [("pass_through", Flifo::start(&pass_through)), ("pooled", Flifo::start(&pooled))]
}

fn client(flifo: &Flifo) -> Client {
    let tcp = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
    Client::builder(tcp, USER, PASSWORD).connect().expect("a login")
}

#[test]
fn transactions_run_prepared_and_not() {
    let Some(server) = server() else { return };
    let sysbench = |port: u16, action: &str, more: &[&str]| {
        let mut command = Command::new("sysbench");
        command.args(["oltp_read_write", "--tables=2", "--table-size=500", "--mysql-ssl=off"]);
        command.args(["--mysql-host=127.0.0.1", "--mysql-db=sbtest", "--threads=8"]);
        command.arg(format!("--mysql-user={USER}")).arg(format!("--mysql-password={PASSWORD}"));
        command.arg(format!("--mysql-port={port}")).args(more).arg(action);
        let output = command.output().expect("sysbench runs");
        let words = [output.stdout, output.stderr].concat();
        let words = String::from_utf8_lossy(&words).into_owned();
        assert!(output.status.success(), "{words}");
        words
    };
    let proxies = proxies(server);
    sysbench(proxies[0].1.port(), "prepare", &["--threads=1"]);
    for (kind, flifo) in proxies {
        for mode in ["--db-ps-mode=auto", "--db-ps-mode=disable"] {
            let words = sysbench(flifo.port(), "run", &["--time=1", mode]);
            // Deadlocks are sysbench's to repeat; nothing else may fail.
            assert!(words.contains("transactions:") && !words.contains("FATAL"), "{kind} {words}");
        }
        let (status, log) = flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{kind}: {log}");
    }
}

#[test]
fn what_a_session_leaves_is_reported_by_mysql_too() {
    let Some(server) = server() else { return };
    for (kind, flifo) in proxies(server) {
        for turn in 0..3 {
            let mut one = client(&flifo);
            one.query(
                "SET @x = 1; SET sql_mode = 'ANSI'; USE sbtest; \
                 CREATE TEMPORARY TABLE left_behind (a INT); SELECT GET_LOCK('l', 1)",
            )
            .unwrap();
            let seen = one.query("SELECT @x, @@sql_mode LIKE '%ANSI%', DATABASE()").unwrap();
            assert_eq!(seen, [["1", "1", "sbtest"]], "{kind} {turn}");
            assert!(one.query("SELECT * FROM left_behind").unwrap().is_empty(), "{kind} {turn}");
            let mut two = client(&flifo);
            let look = "SELECT @x IS NULL, @@sql_mode LIKE '%ANSI%', DATABASE() IS NULL";
            assert_eq!(two.query(look).unwrap(), [["1", "0", "1"]], "{kind} {turn}");
            two.query("USE sbtest").unwrap();
            let temporary = two.query("SELECT * FROM left_behind").unwrap_err().to_string();
            assert!(temporary.contains("1146"), "{kind} {turn}: {temporary}");
        }
    }
}

#[test]
fn several_results_and_their_errors_come_in_order() {
    let Some(server) = server() else { return };
    for (kind, flifo) in proxies(server) {
        let mut client = client(&flifo);
        let rows = client.query("SELECT 1; DO 0; SELECT 2, NULL; SELECT 3").unwrap();
        let want: [&[&str]; 3] = [&["1"], &["2", "NULL"], &["3"]];
        assert_eq!(rows, want, "{kind}");
        let broken = client.query("SELECT 1; SELECT nothing; SELECT 2").unwrap_err().to_string();
        assert!(broken.contains("1054"), "{kind}: {broken}");
        assert_eq!(client.query("SELECT 4").unwrap(), [["4"]], "{kind}");
        client.query("START TRANSACTION READ ONLY; COMMIT; SET TRANSACTION READ ONLY").unwrap();
        assert_eq!(client.query("SELECT 5").unwrap(), [["5"]], "{kind}");
    }
}

/// Behind the answer to its last statement a client is gone at once, while its backend is still asked what that changed.
#[test]
fn clients_that_go_at_once_cost_no_backend() {
    let Some(server) = server() else { return };
    let flifo = Flifo::start(&format!(
        "[server]\naddress = {:?}\nconnections_max = 1\n[[users]]\nname = {USER:?}\npassword = {PASSWORD:?}\n",
        server.socket()
    ));
    let turns = || {
        for _ in 0..50 {
            assert_eq!(client(&flifo).query("SELECT 1").unwrap(), [["1"]]);
            client(&flifo).query("SET group_concat_max_len = 7").unwrap();
        }
    };
    std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(turns))));
    let (status, log) = flifo.stop();
    assert!(status.success(), "{log}");
    assert!(format!("{log} ").contains("statements=800 "), "{log}");
    assert!(log.contains("backends_opened=1 ") && !log.contains(" kills="), "{log}");
}

/// Some variables cannot be set without a privilege, not even to what they are.
#[test]
fn backends_of_ordinary_users_are_reset_and_stay() {
    let Some(server) = server() else { return };
    server.sql(&[
        &format!("CREATE USER ordinary@'%' IDENTIFIED BY '{PASSWORD}'"),
        "GRANT ALL ON sbtest.* TO ordinary@'%'",
    ]);
    let flifo = Flifo::start(&format!(
        "[server]\naddress = {:?}\nconnections_max = 1\n[[users]]\nname = \"ordinary\"\npassword = {PASSWORD:?}\n",
        server.socket()
    ));
    for turn in 0..3 {
        let tcp = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
        let mut client = Client::builder(tcp, "ordinary", PASSWORD).connect().expect("a login");
        client.query("SET group_concat_max_len = 7").unwrap();
        client.query("CREATE TEMPORARY TABLE sbtest.own (a INT)").unwrap();
        client.query("SELECT * FROM sbtest.own").unwrap();
        drop(client);
        let tcp = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
        let mut next = Client::builder(tcp, "ordinary", PASSWORD).connect().expect("a login");
        let seen = next.query("SELECT @@group_concat_max_len").unwrap();
        assert_eq!(seen, [["1024"]], "{turn}");
    }
    let (status, log) = flifo.stop();
    assert!(status.success(), "{log}");
    for counted in ["backends_opened=1 ", "backends_reset=3 "] {
        assert!(format!("{log} ").contains(counted), "{counted} in {log}");
    }
}
