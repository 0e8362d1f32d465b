//! The running program between the real client and a real server: by pass-through and by pooled clients, alone and
//! among others.

use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use bench::private_server::PrivateServer;
use testkit::flifo::Flifo;

const USER: &str = PrivateServer::USER;

/// One server for all tests of this file; each test has a schema of its own.
fn server() -> &'static PrivateServer {
    static SERVER: OnceLock<PrivateServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = PrivateServer::builder()
            .argument("--max-allowed-packet=64M")
            .start()
            .expect("a private server");
        // These tests are not about rights: their user may do everything.
        server.sql(&format!("GRANT ALL ON *.* TO {USER}@'%'")).expect("rights");
        server
    })
}

fn schema(name: &str) -> &str {
    server().sql(&format!("CREATE DATABASE {name}")).expect("a schema");
    name
}

fn pass_through() -> Flifo {
    Flifo::start(&format!("[server]\naddress = \"{}\"\n", server().socket().display()))
}

/// Few backends, so that clients must share them.
fn pooled() -> Flifo {
    Flifo::start(&format!(
        "[server]\naddress = \"{}\"\nlimit = 2\nconnections_max = 2\n\n[[users]]\nname = \"{USER}\"\npassword = \"{}\"\n",
        server().socket().display(),
        server().password()
    ))
}

/// What a new client gets for these statements: rows without headings.
fn run(flifo: &Flifo, schema: &str, sql: &str) -> Result<String, String> {
    finish(&client(flifo, schema, server().password(), sql).output().expect("the client runs"))
}

fn client(flifo: &Flifo, schema: &str, password: &str, sql: &str) -> Command {
    let mut command = Command::new("mariadb");
    command.arg("--no-defaults").arg("--max-allowed-packet=64M");
    command.args(["-h127.0.0.1", "-N", "-B", "--skip-ssl", "-u", USER]);
    command.arg(format!("-P{}", flifo.port())).arg(format!("-p{password}"));
    command.args(["-e", sql, schema]).stdin(Stdio::null());
    command
}

fn finish(output: &Output) -> Result<String, String> {
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}

#[test]
fn statements_come_back_pass_through_and_pooled() {
    let schema = schema("statements");
    for flifo in [pass_through(), pooled()] {
        let run = |sql: &str| run(&flifo, schema, sql);
        run("CREATE OR REPLACE TABLE t (a INT PRIMARY KEY, b LONGTEXT)").unwrap();
        assert_eq!(
            run("INSERT INTO t VALUES (1, 'x'), (2, 'y'); SELECT COUNT(*) FROM t").unwrap(),
            "2"
        );
        assert_eq!(run("SELECT a, b FROM t ORDER BY a").unwrap(), "1\tx\n2\ty");
        assert_eq!(run("SELECT DATABASE()").unwrap(), schema);
        assert!(run("SELECT nothing FROM t").unwrap_err().contains("ERROR 1054 (42S22)"));
        assert_eq!(run("SELECT LENGTH(REPEAT('z', 20000000))").unwrap(), "20000000");
        assert_eq!(run("SELECT REPEAT('z', 17000000)").unwrap().len(), 17_000_000);
        assert_eq!(run("SELECT CONNECTION_ID() = CONNECTION_ID()").unwrap(), "1");
    }
}

#[test]
fn a_value_sent_ahead_of_its_statement_arrives_however_long_it_is() {
    let schema = schema("long_data");
    let script = "mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT); \
        $link = new mysqli('127.0.0.1', getenv('NAME'), getenv('PASSWORD'), null, getenv('PORT')); \
        $statement = $link->prepare('SELECT LENGTH(?)'); \
        $none = null; $statement->bind_param('b', $none); \
        foreach ([1, 20 << 20, 4 << 20] as $size) { \
            $statement->send_long_data(0, str_repeat('x', $size)); \
        } \
        $statement->execute(); echo $statement->get_result()->fetch_row()[0];";
    for flifo in [pass_through(), pooled()] {
        run(&flifo, schema, "SELECT 1").unwrap();
        let mut php = Command::new("timeout");
        php.args(["30", "php", "-r", script]).stdin(Stdio::null());
        php.env("NAME", USER).env("PASSWORD", server().password());
        php.env("PORT", flifo.port().to_string());
        let seen = finish(&php.output().expect("php runs"));
        assert_eq!(seen.unwrap(), ((24 << 20) + 1).to_string());
    }
}

#[test]
fn logins_fail_as_users_expect() {
    let schema = schema("logins");
    for flifo in [pass_through(), pooled()] {
        let wrong = client(&flifo, schema, "wrong", "SELECT 1").output().unwrap();
        assert!(finish(&wrong).unwrap_err().contains("ERROR 1045 (28000)"));
        let lost = run(&flifo, "no_such_schema", "SELECT 1").unwrap_err();
        assert!(lost.contains("ERROR 1049 (42000)"), "{lost}");
        assert_eq!(run(&flifo, schema, "SELECT 7").unwrap(), "7");
    }
}

#[test]
fn nobody_becomes_the_user_that_flifo_runs_as() {
    let (schema, me) =
        (schema("namesake"), String::from_utf8(sys::process::user().1.unwrap()).unwrap());
    // As Debian's packages make root's account: the wrong password first, then the socket's word.
    let account = |how: &str| {
        let sql = format!(
            "CREATE OR REPLACE USER '{me}'@'%' IDENTIFIED VIA {how}; GRANT ALL ON *.* TO '{me}'@'%'"
        );
        server().sql(&format!("DROP USER IF EXISTS '{me}'@'localhost'; {sql}")).unwrap();
    };
    let try_as_me = |flifo: &Flifo, password: &str| {
        let mut client = client(flifo, schema, password, "SELECT SUBSTRING_INDEX(USER(), '@', 1)");
        finish(&client.arg(format!("-u{me}")).output().unwrap())
    };
    for flifo in [pass_through(), pooled()] {
        for how in ["unix_socket", "mysql_native_password USING 'invalid' OR unix_socket"] {
            account(how);
            let refused = try_as_me(&flifo, "x").unwrap_err();
            assert!(
                refused.contains("ERROR 1045 (28000)") && refused.contains("does not extend this"),
                "{refused}"
            );
        }
        // With a password, it is an account like any other.
        account("mysql_native_password USING PASSWORD('mine')");
        assert_eq!(try_as_me(&flifo, "mine").unwrap(), me);
        let refused = try_as_me(&flifo, "wrong").unwrap_err();
        assert!(refused.contains("using password: YES"), "{refused}");
        account("unix_socket");
        let script = "mysqli_report(MYSQLI_REPORT_OFF); \
            $link = new mysqli('127.0.0.1', getenv('NAME'), getenv('PASSWORD'), '', getenv('PORT')); \
            echo $link->change_user(getenv('ME'), '', '') ? 'let in' : $link->error;";
        let mut php = Command::new("php");
        php.args(["-r", script]).env("NAME", USER).env("PASSWORD", server().password());
        php.env("PORT", flifo.port().to_string()).env("ME", &me);
        let said = finish(&php.output().expect("php runs")).unwrap();
        assert!(said.contains("Access denied"), "{said}");
    }
}

#[test]
fn nothing_of_one_client_is_left_for_the_next() {
    let schema = schema("leaks");
    let flifo = pooled();
    run(&flifo, schema, "CREATE TABLE t (a INT AUTO_INCREMENT PRIMARY KEY, b INT)").unwrap();
    let leave = "SET @x = 1; SET sql_mode = 'ANSI'; CREATE TEMPORARY TABLE temp (a INT); \
        SELECT GET_LOCK('l', 1); INSERT INTO t (b) VALUES (5); BEGIN; INSERT INTO t (b) VALUES (6)";
    let look = "SELECT @x IS NULL, @@sql_mode LIKE '%ANSI%', IS_FREE_LOCK('l'), LAST_INSERT_ID(), \
        (SELECT COUNT(*) FROM t)";
    for turn in 1..=6 {
        run(&flifo, schema, leave).unwrap();
        // A backend that was pinned is closed, which the server may notice a moment later.
        let begun = Instant::now();
        let want = format!("1\t0\t1\t0\t{turn}");
        loop {
            let seen = run(&flifo, schema, look).unwrap();
            if seen == want {
                break;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{seen} instead of {want}");
        }
        let temporary = run(&flifo, schema, "SELECT * FROM temp").unwrap_err();
        assert!(temporary.contains("ERROR 1146"), "{temporary}");
    }
}

#[test]
fn many_clients_share_two_backends() {
    let schema = schema("sharing");
    let flifo = pooled();
    let clients: Vec<_> = (0..30)
        .map(|number| {
            let sql = format!("SELECT {number}; SELECT SLEEP(0.02); SELECT {number} + 1");
            let mut command = client(&flifo, schema, server().password(), &sql);
            (number, command.stdout(Stdio::piped()).spawn().unwrap())
        })
        .collect();
    for (number, child) in clients {
        let seen = finish(&child.wait_with_output().unwrap()).unwrap();
        assert_eq!(seen, format!("{number}\n0\n{}", number + 1));
    }
    // Backends that were shared: no more than two were ever opened.
    let (status, log) = flifo.stop();
    assert!(status.success(), "{log}");
    assert!(log.contains("clients_pooled=30"), "{log}");
    assert!(log.contains("backends_opened=1") || log.contains("backends_opened=2"), "{log}");
}

#[test]
fn a_pooled_statement_is_killed_by_its_clients_id_or_when_its_client_leaves() {
    let schema = schema("kills");
    let flifo = pooled();
    let sleep = "SELECT CONNECTION_ID(); SELECT SLEEP(31)";
    for how in ["KILL QUERY", "KILL"] {
        let flifo = pooled();
        let mut victim = client(&flifo, schema, server().password(), sleep)
            .arg("--unbuffered")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for(1);
        let mut id = String::new();
        let mut said = BufReader::new(victim.stdout.take().unwrap());
        said.read_line(&mut id).unwrap();
        run(&flifo, schema, &format!("{how} {id}")).unwrap();
        let begun = Instant::now();
        let seen = finish(&victim.wait_with_output().unwrap());
        assert!(begun.elapsed() < Duration::from_secs(25), "{seen:?}");
        wait_for(0);
    }
    let mut gone =
        client(&flifo, schema, server().password(), sleep).stdout(Stdio::null()).spawn().unwrap();
    wait_for(1);
    gone.kill().unwrap();
    gone.wait().unwrap();
    wait_for(0);
}

/// Waits until so many of this file's long statements run at the server.
fn wait_for(count: u32) {
    let running =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'SELECT SLEEP(31)'";
    let begun = Instant::now();
    while server().sql(running).unwrap().trim() != count.to_string() {
        // They end by themselves after 31 seconds.
        assert!(begun.elapsed() < Duration::from_secs(25), "never {count} statements");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_server_that_dies_and_comes_back_is_used_again() {
    let mut server = PrivateServer::start_default().expect("a private server");
    let flifo = Flifo::start(&format!(
        "[server]\naddress = \"{}\"\n[[users]]\nname = \"{USER}\"\npassword = \"{}\"\n",
        server.socket().display(),
        server.password()
    ));
    let password = server.password().to_owned();
    let ask = |sql: &str| {
        finish(&client(&flifo, PrivateServer::DATABASE, &password, sql).output().unwrap())
    };
    assert_eq!(ask("SELECT 1").unwrap(), "1");
    let asleep = client(&flifo, PrivateServer::DATABASE, &password, "SELECT SLEEP(32)")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    let running =
        "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'SELECT SLEEP(32)'";
    while server.sql(running).unwrap().trim() != "1" {
        assert!(begun.elapsed() < Duration::from_secs(25), "it never ran");
    }
    server.kill().unwrap();
    let lost = finish(&asleep.wait_with_output().unwrap()).unwrap_err();
    assert!(
        lost.contains("ERROR 1430 (HY000)") && lost.contains("may have been executed"),
        "{lost}"
    );
    let refused = ask("SELECT 2").unwrap_err();
    assert!(
        refused.contains("ERROR 1429 (HY000)")
            && refused.contains("Flifo has no backend connection"),
        "{refused}"
    );
    server.start().unwrap();
    assert_eq!(ask("SELECT 3").unwrap(), "3");
    let (status, log) = flifo.stop();
    let told = log.lines().find(|line| line.contains("a statement may have been executed"));
    assert!(told.is_some_and(|line| line.contains("WARN")), "{log}");
    assert!(status.success() && !log.contains("panicked"), "{log}");
}
