//! What clients, drivers and tools send to a server when they start, recorded, on the console: each statement has an
//! answer with the columns that the tool reads. And what a person sees there.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use backend::Address;
use bench::private_server::PrivateServer;
use bench::programs::MARIADB;
use testkit::client::{Client, Problem};
use testkit::cluster::Cluster;
use testkit::flifo::{Flifo, free_port};
use testkit::scene::wait_for;

use crate::cluster::client;

/// A real server, Flifo before it, and a folder with the socket of its console.
struct Town {
    flifo: Flifo,
    console: u16,
    http: u16,
    socket: std::path::PathBuf,
    cluster: Cluster,
    _folder: tempfile::TempDir,
}

impl Town {
    fn start(readers: usize, more: &str) -> Self {
        let cluster = Cluster::replicated(readers);
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("console.sock");
        let (console, http) = (free_port(), free_port());
        let (user, password) = (PrivateServer::USER, Cluster::password());
        let rest = format!(
            "{more}[console]\nlisten = [\"127.0.0.1:{console}\", {socket:?}]\n\
             [http]\nlisten = \"127.0.0.1:{http}\"\n{}[[users]]\nname = \"{user}\"\npassword = \"{password}\"\n",
            cluster.listed()
        );
        let flifo = Flifo::start(&rest);
        Self { flifo, console, http, socket, cluster, _folder: folder }
    }

    fn client(&self) -> Client {
        client(&self.flifo).unwrap()
    }

    fn console(&self) -> Client {
        Client::builder(Address::Unix(self.socket.clone()), "admin", "").connect().unwrap()
    }

    /// What the `mariadb` client shows of these statements.
    fn mariadb(&self, options: &[&str], statements: &str) -> String {
        let mut client = Command::new(MARIADB.find().unwrap());
        client.args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1", "--user=admin"]);
        client.arg(format!("--port={}", self.console)).args(options);
        let output = client.args(["--execute", statements]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{statements}: {error}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The names of the columns of an answer.
    fn columns(&self, statement: &str) -> Vec<String> {
        // With --table a result without rows has no header; as XML it has none either: a count tells it.
        let text = self.mariadb(&["--column-type-info", "--table"], statement);
        let names = text.lines().filter_map(|line| line.strip_prefix("Field "));
        let names = names.filter_map(|line| line.split('`').nth(1));
        names.map(str::to_owned).collect()
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.http)).unwrap();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn stats(&self) -> Vec<std::collections::BTreeMap<String, String>> {
        let answer = self.get("/stats;csv");
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        let mut lines = body.lines();
        let names: Vec<_> = lines.next().unwrap().trim_start_matches("# ").split(',').collect();
        let row = |line: &str| {
            let values = line.split(',').map(str::to_owned);
            names.iter().map(|name| (*name).to_owned()).zip(values).collect()
        };
        lines.map(row).collect()
    }
}

/// Statements, and some of the columns that the program reads from the answer. What it does not read is not named.
const RECORDED: &[(&str, &[&str])] = &[
    // The mariadb and mysql clients.
    ("select @@version_comment limit 1", &["@@version_comment"]),
    ("SELECT DATABASE()", &["DATABASE()"]),
    ("show databases", &["Database"]),
    ("show tables", &["Tables_in_flifo"]),
    ("select USER()", &["USER()"]),
    // PyMySQL and MySQL Connector/Python.
    ("SELECT @@max_allowed_packet", &["@@max_allowed_packet"]),
    ("SELECT @@session.autocommit", &["@@session.autocommit"]),
    // mycli.
    ("SELECT @@version_comment, @@version", &["@@version_comment", "@@version"]),
    ("select connection_id()", &["connection_id()"]),
    ("SELECT name from mysql.help_topic WHERE name like \"SHOW %\"", &["name"]),
    ("SELECT CONCAT(\"'\", user, \"'@'\",host,\"'\") FROM mysql.user", &[]),
    (
        "SELECT ROUTINE_NAME FROM INFORMATION_SCHEMA.ROUTINES WHERE ROUTINE_TYPE=\"FUNCTION\" AND ROUTINE_SCHEMA = \"flifo\"",
        &["ROUTINE_NAME"],
    ),
    ("SHOW CHARACTER SET", &["Charset", "Description", "Default collation", "Maxlen"]),
    ("SHOW COLLATION", &["Collation", "Charset", "Id", "Default", "Compiled", "Sortlen"]),
    (
        "select TABLE_NAME, COLUMN_NAME from information_schema.columns where table_schema = 'flifo' order by table_name,ordinal_position",
        &["TABLE_NAME", "COLUMN_NAME"],
    ),
    (
        "SELECT DISTINCT TABLE_NAME, COLUMN_NAME FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = 'flifo' ORDER BY TABLE_NAME, COLUMN_NAME",
        &["TABLE_NAME", "COLUMN_NAME"],
    ),
    (
        "select TABLE_NAME, COLUMN_NAME, COLUMN_TYPE from information_schema.columns where table_schema = 'flifo' and data_type = 'enum' order by table_name,ordinal_position",
        &["COLUMN_TYPE"],
    ),
    (
        "SELECT TABLE_NAME, COLUMN_NAME, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = 'flifo' AND REFERENCED_TABLE_NAME IS NOT NULL",
        &["REFERENCED_TABLE_NAME"],
    ),
    ("SELECT NOW()", &["NOW()"]),
    ("SELECT DATABASE(), USER();", &["DATABASE()", "USER()"]),
    ("SHOW GLOBAL STATUS;", &["Variable_name", "Value"]),
    // DBeaver with Connector/J or MariaDB's connector.
    (
        "/* mysql-connector-j-8.2.0 */SELECT  @@session.auto_increment_increment AS auto_increment_increment, @@character_set_client AS character_set_client, @@character_set_connection AS character_set_connection, @@character_set_results AS character_set_results, @@character_set_server AS character_set_server, @@collation_server AS collation_server, @@collation_connection AS collation_connection, @@init_connect AS init_connect, @@interactive_timeout AS interactive_timeout, @@license AS license, @@lower_case_table_names AS lower_case_table_names, @@max_allowed_packet AS max_allowed_packet, @@net_write_timeout AS net_write_timeout, @@performance_schema AS performance_schema, @@sql_mode AS sql_mode, @@system_time_zone AS system_time_zone, @@time_zone AS time_zone, @@transaction_isolation AS transaction_isolation, @@wait_timeout AS wait_timeout",
        &["auto_increment_increment", "wait_timeout"],
    ),
    ("select @@max_allowed_packet,@@system_time_zone,@@time_zone,@@auto_increment_increment", &[]),
    ("SELECT @@GLOBAL.character_set_server,@@GLOBAL.collation_server", &[]),
    ("SHOW ENGINES", &["Engine", "Support", "Comment", "Transactions", "XA", "Savepoints"]),
    ("SHOW CHARSET", &["Charset", "Description", "Default collation", "Maxlen"]),
    ("SHOW PLUGINS", &["Name", "Status", "Type"]),
    ("SHOW PRIVILEGES", &["Privilege", "Context", "Comment"]),
    ("SHOW VARIABLES LIKE 'lower_case_table_names'", &["Variable_name", "Value"]),
    (
        "SELECT * FROM information_schema.SCHEMATA",
        &["SCHEMA_NAME", "DEFAULT_CHARACTER_SET_NAME", "DEFAULT_COLLATION_NAME"],
    ),
    ("SELECT * FROM mysql.user ORDER BY user", &["Host", "User"]),
    ("use `flifo`", &[]),
    ("SHOW FULL TABLES FROM `flifo`", &["Tables_in_flifo", "Table_type"]),
    (
        "SHOW TABLE STATUS FROM `flifo`",
        &["Name", "Engine", "Version", "Row_format", "Rows", "Data_length", "Comment"],
    ),
    (
        "SELECT * FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA='flifo' AND t.TABLE_NAME='clients'",
        &["TABLE_NAME", "TABLE_TYPE", "ENGINE", "TABLE_COMMENT"],
    ),
    (
        "SHOW FULL COLUMNS FROM `clients` FROM `flifo`",
        &["Field", "Type", "Collation", "Null", "Key", "Default", "Extra", "Privileges", "Comment"],
    ),
    (
        "SELECT * FROM information_schema.COLUMNS WHERE TABLE_SCHEMA='flifo' AND TABLE_NAME='clients' ORDER BY ORDINAL_POSITION",
        &["COLUMN_NAME", "DATA_TYPE", "COLUMN_TYPE", "IS_NULLABLE", "COLUMN_KEY"],
    ),
    (
        "SELECT * FROM INFORMATION_SCHEMA.STATISTICS WHERE TABLE_SCHEMA='flifo' AND TABLE_NAME='clients' ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX",
        &["INDEX_NAME", "NON_UNIQUE", "SEQ_IN_INDEX"],
    ),
    (
        "SELECT cc.CONSTRAINT_NAME, cc.CHECK_CLAUSE, tc.TABLE_NAME FROM (SELECT CONSTRAINT_NAME, CHECK_CLAUSE FROM INFORMATION_SCHEMA.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = 'flifo' ORDER BY CONSTRAINT_NAME) cc, (SELECT TABLE_NAME, CONSTRAINT_NAME FROM INFORMATION_SCHEMA.TABLE_CONSTRAINTS WHERE TABLE_SCHEMA = 'flifo') tc WHERE cc.CONSTRAINT_NAME = tc.CONSTRAINT_NAME ORDER BY cc.CONSTRAINT_NAME",
        &["CONSTRAINT_NAME", "CHECK_CLAUSE", "TABLE_NAME"],
    ),
    ("SHOW CREATE TABLE `flifo`.`clients`", &["Table", "Create Table"]),
    ("SHOW FULL PROCESSLIST", &["Id", "User", "Host", "db", "Command", "Time", "State", "Info"]),
    ("SHOW WARNINGS", &["Level", "Code", "Message"]),
    // phpMyAdmin.
    ("SELECT @@version, @@version_comment", &[]),
    ("SET NAMES 'utf8mb4' COLLATE 'utf8mb4_general_ci'", &[]),
    ("SET lc_messages = 'en_US'", &[]),
    ("SELECT CURRENT_USER()", &["CURRENT_USER()"]),
    ("SELECT CURRENT_ROLE()", &[]),
    ("SHOW GRANTS", &[]),
    ("SELECT 1 FROM mysql.user LIMIT 1", &["1"]),
    (
        "SELECT 1 FROM `INFORMATION_SCHEMA`.`USER_PRIVILEGES` WHERE `PRIVILEGE_TYPE` = 'CREATE USER' AND '''console''@''flifo''' LIKE `GRANTEE` LIMIT 1",
        &["1"],
    ),
    ("SHOW SESSION VARIABLES LIKE 'max_allowed_packet'", &["Variable_name", "Value"]),
    (
        "SELECT `CHARACTER_SET_NAME` AS `Charset`, `DEFAULT_COLLATE_NAME` AS `Default collation`, `DESCRIPTION` AS `Description`, `MAXLEN` AS `Maxlen` FROM `information_schema`.`CHARACTER_SETS`",
        &["Charset", "Default collation"],
    ),
    (
        "SELECT `COLLATION_NAME` AS `Collation`, `CHARACTER_SET_NAME` AS `Charset`, `ID` AS `Id`, `IS_DEFAULT` AS `Default`, `IS_COMPILED` AS `Compiled`, `SORTLEN` AS `Sortlen` FROM `information_schema`.`COLLATIONS`",
        &["Collation", "Id"],
    ),
    ("SELECT `SCHEMA_NAME` FROM `INFORMATION_SCHEMA`.`SCHEMATA`", &["SCHEMA_NAME"]),
    ("SELECT COUNT(*) FROM `INFORMATION_SCHEMA`.`SCHEMATA` WHERE TRUE", &["COUNT(*)"]),
    (
        "SELECT `SCHEMA_NAME` FROM `INFORMATION_SCHEMA`.`SCHEMATA`, (SELECT DB_first_level FROM ( SELECT DISTINCT SUBSTRING_INDEX(SCHEMA_NAME, '_', 1) DB_first_level FROM INFORMATION_SCHEMA.SCHEMATA WHERE TRUE ) t ORDER BY DB_first_level ASC LIMIT 0, 100) t2 WHERE TRUE AND 1 = LOCATE(CONCAT(DB_first_level, '_'), CONCAT(SCHEMA_NAME, '_')) ORDER BY SCHEMA_NAME ASC",
        &["SCHEMA_NAME"],
    ),
    (
        "SELECT *, `TABLE_SCHEMA` AS `Db`, `TABLE_NAME` AS `Name`, `TABLE_TYPE` AS `TABLE_TYPE`, `ENGINE` AS `Engine`, `ENGINE` AS `Type`, `VERSION` AS `Version`, `ROW_FORMAT` AS `Row_format`, `TABLE_ROWS` AS `Rows`, `DATA_LENGTH` AS `Data_length`, `TABLE_COLLATION` AS `Collation`, `TABLE_COMMENT` AS `Comment` FROM `information_schema`.`TABLES` t WHERE `TABLE_SCHEMA` IN ('flifo') AND t.`TABLE_NAME` = 'clients' ORDER BY Name ASC",
        &["Db", "Name", "Engine", "Rows"],
    ),
    ("SHOW TABLES FROM `flifo`", &["Tables_in_flifo"]),
    ("SHOW INDEXES FROM `flifo`.`clients`", &["Table", "Non_unique", "Key_name", "Column_name"]),
    ("SELECT * FROM `clients` LIMIT 0, 25", &["id", "user"]),
    ("SHOW CREATE DATABASE `flifo`", &["Database", "Create Database"]),
    ("SHOW MASTER STATUS", &[]),
    ("SHOW SLAVE STATUS", &[]),
    ("SHOW TRIGGERS FROM `flifo`", &["Trigger"]),
    ("SELECT DATABASE()", &["DATABASE()"]),
];

#[test]
fn what_tools_send_when_they_start_is_answered() {
    let town = Town::start(0, "");
    for (statement, wanted) in RECORDED {
        let columns: BTreeSet<_> = town.columns(statement).into_iter().collect();
        for wanted in *wanted {
            assert!(columns.contains(*wanted), "{statement}: no {wanted} in {columns:?}");
        }
    }
    // The same prepared, as drivers do that prepare whatever they run.
    let mut console = town.console();
    for (statement, _) in RECORDED {
        assert!(console.query(statement).is_ok(), "{statement}");
    }
    let (ended, log) = town.flifo.stop();
    assert!(ended.success(), "{log}");
}

#[test]
fn tables_fit_a_screen_and_are_whole_in_full() {
    let town = Town::start(1, "");
    let mut client = town.client();
    client
        .query("SELECT SLEEP(0) /* a statement with a text that is longer than a column */")
        .unwrap();
    client.query("CREATE TEMPORARY TABLE t_console (a INT)").unwrap();
    let mut console = town.console();
    for row in console.query("SHOW TABLES").unwrap() {
        let table = &row[0];
        let text = town.mariadb(&["--table"], &format!("SHOW {table}"));
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or_default();
        assert!(widest <= 120, "SHOW {table} is {widest} wide:\n{text}");
        // What is printed above a column can be asked about.
        for title in town.columns(&format!("SHOW {table}")) {
            let text = format!("SHOW {table} WHERE {title} IS NOT NULL ORDER BY {title} DESC");
            console.query(&text).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        }
        let wanted: Vec<_> = town.columns(&format!("SELECT * FROM {table}"));
        assert_eq!(town.columns(&format!("SHOW FULL {table}")), wanted, "{table}");
    }
    // Each table of each schema can be read, and has the columns that it is said to have.
    let listed = "SELECT table_schema, table_name FROM information_schema.tables \
                  WHERE table_name NOT LIKE '%\\_reset'";
    for row in console.query(listed).unwrap() {
        let name = format!("`{}`.`{}`", row[0], row[1]);
        let told = console.query(&format!("SHOW COLUMNS FROM {name}")).unwrap();
        let told: Vec<_> = told.into_iter().map(|row| row[0].clone()).collect();
        assert_eq!(town.columns(&format!("SELECT * FROM {name}")), told, "{name}");
    }
    drop((client, console));
    let (ended, log) = town.flifo.stop();
    assert!(ended.success(), "{log}");
}

#[test]
fn a_server_is_shown_with_why_it_is_not_used_and_how_long_its_statements_take() {
    let town = Town::start(1, "");
    let (mut client, mut console) = (town.client(), town.console());
    client.query("SELECT SLEEP(0.02)").unwrap();
    client.query("CREATE TABLE t_written (a INT)").unwrap();
    let [writer] = &console.query("SHOW SERVERS WHERE role = 'writer'").unwrap()[..] else {
        panic!("there is one writer")
    };
    let address = format!("127.0.0.1:{}", town.cluster.servers[0].port());
    assert_eq!((&*writer[0], &writer[1]), ("db1", &address), "{writer:?}");
    let times = "SELECT mean_ms, p50_ms, p95_ms, p99_ms, max_ms FROM servers WHERE name = 'db1'";
    let times: Vec<f64> =
        console.query(times).unwrap()[0].iter().map(|time| time.parse().unwrap()).collect();
    assert!(times.iter().all(|time| *time > 0.0 && *time <= times[4]), "{times:?}");
    let page = town.get("/metrics");
    assert!(page.contains("flifo_server_statement_seconds_count{server=\"db1\"} "), "{page}");

    // What becomes of statements that a server does not take any more.
    let said = console.query("DRAIN db2").unwrap().remove(0).remove(0);
    assert!(said.contains("new reads go to other servers") && !said.contains("wait"), "{said}");
    wait_for("db2 to be out of use", || {
        console.query("SELECT 1 FROM servers WHERE name = 'db2' AND why IS NOT NULL").unwrap().len()
            == 1
    });
    // All of the reason is there, on as many rows as it takes.
    let whole = console.query("SELECT why FROM servers WHERE name = 'db2'").unwrap().remove(0);
    let shown = console.query("SHOW SERVERS WHERE name = 'db2'").unwrap();
    let shown: Vec<_> = shown.iter().map(|row| row.last().unwrap().as_str()).collect();
    assert_eq!(shown.join(" "), whole[0]);
    for order in ["ENABLE db2", "DISABLE db2", "ENABLE db2"] {
        console.query(order).unwrap();
    }
    wait_for("db2 to be in use", || {
        console.query("SELECT 1 FROM servers WHERE name = 'db2' AND role = 'reader'").unwrap().len()
            == 1
    });
    // That it is down until it has been checked is by order.
    let log = town.flifo.log();
    assert!(!log.contains("\"level\":\"ERROR\""), "{log}");
    let said = console.query("DRAIN db1").unwrap().remove(0).remove(0);
    assert!(said.contains("wait for another writer"), "{said}");
    console.query("ENABLE db1").unwrap();

    // For how long the oldest waits.
    assert!(
        town.get("/metrics").contains("flifo_server_waiting_oldest_seconds{server=\"db1\"} 0\n")
    );
    console.query("PAUSE db1").unwrap();
    let held = std::thread::spawn(move || {
        client.query("INSERT INTO t_written VALUES (1)").map(|_| client)
    });
    for table in ["servers", "pools"] {
        let oldest = format!("SELECT 1 FROM {table} WHERE waiting_seconds > 0.01");
        wait_for("a statement that waits", || console.query(&oldest).unwrap().len() == 1);
    }
    let page = town.get("/metrics");
    assert!(!page.contains("flifo_server_waiting_oldest_seconds{server=\"db1\"} 0\n"), "{page}");
    console.query("RESUME db1").unwrap();
    drop((held.join().unwrap().unwrap(), console));
    let (ended, log) = town.flifo.stop();
    assert!(ended.success(), "{log}");
}

#[test]
fn clients_and_statements_are_shown_with_who_asked_what_and_when() {
    let town = Town::start(0, "");
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: town.flifo.port() };
    let (user, password) = (PrivateServer::USER, Cluster::password());
    let client = Client::builder(address, user, password)
        .schema(PrivateServer::DATABASE)
        .program("billing")
        .connect();
    let (mut client, mut console) = (client.unwrap(), town.console());
    client.query("CREATE TABLE t_asked (a INT)").unwrap();
    client.query("SELECT SLEEP(0.02), 'asked'").unwrap();
    client.query("BEGIN").unwrap();
    client.query("INSERT INTO t_asked VALUES (7)").unwrap();
    let told = "SELECT program, last_statement, transaction_seconds > 0 FROM clients";
    wait_for("the client to be at rest", || {
        console.query("SELECT 1 FROM clients WHERE state = 'reading'").unwrap().len() == 1
    });
    let row = console.query(told).unwrap().remove(0);
    assert_eq!(row, ["billing", "INSERT INTO t_asked VALUES (?)", "1"]);
    client.query("COMMIT").unwrap();
    let open = "SELECT 1 FROM clients WHERE transaction_seconds IS NOT NULL";
    wait_for("the transaction to be over", || console.query(open).unwrap().is_empty());

    let of = "FROM digests WHERE text LIKE 'SELECT SLEEP%'";
    let who = console.query(&format!("SELECT user, schema, server {of}")).unwrap().remove(0);
    assert_eq!(who, [user, PrivateServer::DATABASE, "db1"]);
    let exact = console.query(&format!("SELECT max_ms = total_ms, max_ms >= 20 {of}")).unwrap();
    assert_eq!(exact, [["1", "1"]]);
    let seen = format!(
        "SELECT first_seen = last_seen, UNIX_TIMESTAMP() - last_seen BETWEEN -2 AND 600 {of}"
    );
    assert_eq!(console.query(&seen).unwrap(), [["1", "1"]]);
    // Another schema than the first.
    client.query("USE information_schema").unwrap();
    client.query("SELECT SLEEP(0), 'asked'").unwrap();
    let who = format!("SELECT user, schema, first_seen < last_seen {of}");
    let others = format!("{} and others", PrivateServer::DATABASE);
    // An answer of the console is not made anew within milliseconds.
    wait_for("the other schema", || console.query(&who).unwrap() == [[user, &others, "1"]]);
    drop((client, console));
    let (ended, log) = town.flifo.stop();
    assert!(ended.success(), "{log}");
}

#[test]
fn help_is_there_for_clients_that_have_one_of_their_own() {
    let town = Town::start(0, "");
    // `help` itself is the mariadb client's.
    let all = town.mariadb(&["--batch"], "SHOW HELP");
    for statement in ["PAUSE", "RELOAD", "SHOW PROCESSLIST", "RESET"] {
        assert!(all.contains(statement), "{all}");
    }
    let wide = town.mariadb(&["--table"], "SHOW HELP");
    let widest = wide.lines().map(|line| line.chars().count()).max().unwrap_or_default();
    assert!(widest <= 120, "SHOW HELP is {widest} wide:\n{wide}");
    let all = town.mariadb(&["--batch"], "SHOW FULL HELP");
    let one = town.mariadb(&["--batch", "--skip-column-names"], "SHOW FULL HELP 'reload'");
    assert_eq!((one.lines().count(), one.starts_with("RELOAD\t")), (1, true), "{one}");
    let manual = std::fs::read_to_string("../../docs/manual/console.md").unwrap();
    for line in all.lines().filter(|line| line.starts_with("SHOW ")) {
        let statement = line.split('\t').next().unwrap_or_default();
        // Forms of all of them have lower-case letters in them.
        if statement.chars().all(|letter| !letter.is_lowercase()) && !statement.contains('[') {
            assert!(manual.contains(&format!("`{statement}`")), "{statement} is not in the manual");
        }
    }
    let mut console = town.console();
    let error = console.query("SHOW HELP 'nonsense'").unwrap_err();
    assert!(matches!(error, Problem::Refused { code: 1064, .. }), "{error:?}");
    drop(console);
    let (ended, log) = town.flifo.stop();
    assert!(ended.success(), "{log}");
}

#[test]
fn the_processlist_says_what_clients_run_and_wait_for() {
    let town = Town::start(0, "");
    let mut console = town.console();
    let (mut one, mut two) = (town.client(), town.client());
    one.query("CREATE TABLE locked (a INT PRIMARY KEY)").unwrap();
    one.query("INSERT INTO locked VALUES (1)").unwrap();
    one.query("BEGIN").unwrap();
    one.query("UPDATE locked SET a = 2").unwrap();
    let waits = std::thread::spawn(move || {
        two.query("BEGIN").unwrap();
        two.query("UPDATE locked SET a = 3 WHERE a = 1").map(|_| two)
    });
    let running =
        "SELECT Command, Server, State, Wait, Info FROM processlist WHERE state = 'running'";
    wait_for("a statement that runs", || console.query(running).unwrap().len() == 1);
    let row = console.query(running).unwrap().remove(0);
    let want = ["Query", "db1", "running", "the server", "UPDATE locked SET a = ? WHERE a = ?"];
    assert_eq!(row[..2], want[..2]);
    assert_eq!(row[2..], want[2..]);
    // Which client blocks which: the account that is asked must be allowed to see that.
    let note = console.query("SELECT note FROM blockers").unwrap();
    assert!(note[0][0].contains("GRANT PROCESS"), "{note:?}");
    let user = PrivateServer::USER;
    let grant = format!("GRANT PROCESS ON *.* TO '{user}'@'%'");
    town.cluster.servers[0].sql(&grant).unwrap();
    let blockers = "SELECT b.blocking_state, b.waiting_statement, w.state, h.state, b.root, b.note FROM blockers b \
                    JOIN clients w ON w.id = b.waiting_client JOIN clients h ON h.id = b.blocking_client";
    let want = ["reading", "UPDATE locked SET a = ? WHERE a = ?", "running", "reading", "yes"];
    wait_for("the server to tell what waits", || {
        console.query(blockers).unwrap().first().is_some_and(|row| row[..5] == want)
    });
    let resting = console.query("SHOW FULL PROCESSLIST WHERE Command = 'Sleep'").unwrap();
    assert_eq!((resting.len(), &*resting[0][8]), (1, "reading"), "{resting:?}");
    // Its login asks the server for the schema.
    let mut three = town.client();
    console.query("PAUSE db1").unwrap();
    let held = std::thread::spawn(move || three.query("SELECT 3"));
    let queued = "SELECT Wait FROM processlist WHERE state = 'queued'";
    wait_for("a statement in the queue", || console.query(queued).unwrap().len() == 1);
    assert!(console.query(queued).unwrap()[0][0].starts_with("a slot"));
    console.query("RESUME db1").unwrap();
    assert!(held.join().unwrap().is_ok());
    one.query("ROLLBACK").unwrap();
    drop(waits.join().unwrap().unwrap());
    // Which statement has pinned a client.
    one.query("CREATE TEMPORARY TABLE t_pin (a INT)").unwrap();
    let pinned = console.query("SELECT pin, pinned_by FROM clients WHERE pin IS NOT NULL").unwrap();
    assert_eq!(pinned, [["temporary_table", "CREATE TEMPORARY TABLE t_pin (a INT)"]]);
    drop((one, console));
    let (ended, log) = town.flifo.stop();
    assert!(ended.success(), "{log}");
}

#[test]
fn counters_begin_at_zero_when_they_are_reset() {
    let town = Town::start(0, "");
    let (mut console, mut client) = (town.console(), town.client());
    client.query("SELECT 1 FROM mysql.nothing").unwrap_err();
    let count = |console: &mut Client, text: &str| console.query(text).unwrap()[0][0].clone();
    let digests = "SELECT COUNT(*) FROM digests WHERE text LIKE '%nothing%'";
    let errors = "SELECT COUNT(*) FROM errors WHERE code IN (1142, 1146)";
    let statements = "SELECT value FROM stats WHERE name = 'statements'";
    assert_eq!(
        (count(&mut console, digests), count(&mut console, errors)),
        ("1".into(), "1".into())
    );
    assert_ne!(count(&mut console, statements), "0");
    console.query("RESET").unwrap();
    assert_eq!(
        (count(&mut console, digests), count(&mut console, errors)),
        ("0".into(), "0".into())
    );
    assert_eq!(count(&mut console, statements), "0");
    client.query("SELECT 2").unwrap();
    // What was told is told again for some milliseconds.
    wait_for("a statement that is counted", || count(&mut console, statements) == "1");
    assert!(console.query("RESET CLIENTS").is_err());
    let looker = format!("127.0.0.1:{}", town.console).parse().unwrap();
    let mut looker = Client::builder(looker, "x", "").connect().unwrap();
    for text in ["RESET", "SELECT * FROM stats_mysql_query_digest_reset"] {
        let error = looker.query(text).unwrap_err();
        assert!(matches!(error, Problem::Refused { code: 1227, .. }), "{text}: {error:?}");
    }
    drop((console, looker, client));
    let (ended, log) = town.flifo.stop();
    assert!(ended.success(), "{log}");
}

#[test]
fn states_and_their_reasons_agree() {
    let town = Town::start(1, "[checks]\ninter = \"100ms\"\n");
    let mut console = town.console();
    let state = |console: &mut Client| {
        let text = "SELECT state, reason FROM servers WHERE name = 'db1'";
        let row = console.query(text).unwrap().remove(0);
        (row[0].clone(), row[1].clone())
    };
    wait_for("checks that pass", || state(&mut console) == ("up".into(), "checks pass".into()));
    let by_order = "by an order on the console";
    for (order, name) in [("PAUSE", "paused"), ("DRAIN", "drain"), ("DISABLE", "maintenance")] {
        console.query(&format!("{order} db1")).unwrap();
        for _ in 0..20 {
            assert_eq!(state(&mut console), (name.to_owned(), by_order.to_owned()));
        }
        console.query("ENABLE db1").unwrap();
        wait_for("a server that is up", || state(&mut console).0 == "up");
        assert!(!state(&mut console).1.contains("order"), "{:?}", state(&mut console));
    }
    drop(console);
    let (ended, log) = town.flifo.stop();
    assert!(ended.success(), "{log}");
}

/// What the dashboard dolphie asks of ProxySQL, and the columns that its panels read.
const DOLPHIE: &[(&str, &[&str])] = &[
    ("SELECT @@admin-version", &[]),
    ("SHOW GLOBAL VARIABLES", &["Variable_name", "Value"]),
    (
        "SELECT Variable_Name AS Variable_name, Variable_Value AS Value FROM stats_mysql_global",
        &["Variable_name", "Value"],
    ),
    (
        "SELECT *, Total_cnt AS Total_cnt_s FROM stats_mysql_commands_counters WHERE Total_cnt != 0 ORDER BY Total_cnt DESC",
        &["Command", "Total_cnt", "Total_cnt_s", "cnt_100us", "cnt_INFs"],
    ),
    (
        "SELECT SUM(ConnUsed) AS connection_pool_connections FROM stats_mysql_connection_pool",
        &["connection_pool_connections"],
    ),
    (
        "SELECT * FROM stats_mysql_connection_pool LEFT JOIN runtime_mysql_servers ON hostgroup = hostgroup_id AND srv_host = hostname AND srv_port = port ORDER BY hostgroup",
        &[
            "hostgroup",
            "srv_host",
            "srv_port",
            "status",
            "weight",
            "use_ssl",
            "max_replication_lag",
            "ConnUsed",
            "Latency_us",
        ],
    ),
    (
        "SELECT SessionID AS id, user AS user, db AS db, cli_host AS frontend_host, hostgroup AS hostgroup, srv_host AS backend_host, command AS command, time_ms AS time, info AS query, extended_info AS extended_info FROM stats_mysql_processlist WHERE 1=1",
        &["id", "frontend_host", "backend_host", "extended_info"],
    ),
    (
        "SELECT DISTINCT su.username, frontend_connections, frontend_max_connections, default_hostgroup, default_schema, use_ssl FROM stats_mysql_users su JOIN runtime_mysql_users ru ON su.username = ru.username WHERE frontend_connections > 0 ORDER BY frontend_connections DESC",
        &["username", "frontend_connections", "use_ssl"],
    ),
    (
        "SELECT * FROM stats_memory_metrics ORDER BY CAST(Variable_Value AS DECIMAL) DESC;",
        &["Variable_Name"],
    ),
    (
        "SELECT * FROM stats_mysql_errors ORDER BY count_star DESC",
        &["hostgroup", "errno", "count_star"],
    ),
];

#[test]
fn dashboards_made_for_proxysql_are_answered() {
    let town = Town::start(0, "");
    let (mut console, mut client) = (town.console(), town.client());
    for _ in 0..5 {
        client.query("SELECT 1 FROM DUAL WHERE 2 > 1").unwrap();
    }
    client.query("SELECT 1 FROM mysql.nothing").unwrap_err();
    for (statement, wanted) in DOLPHIE {
        let columns = town.columns(statement);
        for wanted in *wanted {
            assert!(
                columns.iter().any(|it| it == wanted),
                "{statement}: no {wanted} in {columns:?}"
            );
        }
        assert!(!console.query(statement).unwrap().is_empty(), "{statement} has no rows");
    }
    // Rules there are none.
    let rules = "SELECT *, hits AS hits_s FROM stats_mysql_query_rules JOIN runtime_mysql_query_rules USING (rule_id) \
                 WHERE active = 1 ORDER BY hits DESC";
    assert!(town.columns(rules).contains(&"match_pattern".to_owned()));
    let digest = "SELECT count_star, sum_time > 0, min_time <= max_time FROM stats.stats_mysql_query_digest \
                  WHERE digest_text LIKE 'SELECT ? FROM DUAL%'";
    assert_eq!(console.query(digest).unwrap(), [["5", "1", "1"]]);
    let selects = "SELECT Total_cnt, cnt_100us + cnt_500us + cnt_1ms + cnt_5ms + cnt_10ms + cnt_50ms + cnt_100ms + \
                   cnt_500ms + cnt_1s + cnt_5s + cnt_10s + cnt_INFs FROM stats_mysql_commands_counters WHERE Command = 'SELECT'";
    let row = console.query(selects).unwrap().remove(0);
    assert_eq!(row[0], row[1]);
    let pool = "SELECT hostgroup, status, Queries > 5, Bytes_data_sent > 0, Bytes_data_recv > 0, ConnOK > 0 FROM stats_mysql_connection_pool";
    assert_eq!(console.query(pool).unwrap(), [["0", "ONLINE", "1", "1", "1", "1"]]);
    let reset =
        "SELECT COUNT(*) FROM stats_mysql_query_digest_reset WHERE digest_text LIKE '%DUAL%'";
    assert_eq!(console.query(reset).unwrap(), [["1"]]);
    assert_eq!(console.query(reset).unwrap(), [["0"]]);
    drop((console, client));
    let (ended, log) = town.flifo.stop();
    assert!(ended.success(), "{log}");
}

#[test]
fn haproxys_page_has_each_servers_own_figures() {
    let town = Town::start(1, "[checks]\ninter = \"100ms\"\n");
    let mut console = town.console();
    wait_for("a writer", || {
        console.query("SELECT 1 FROM servers WHERE role = 'writer'").unwrap().len() == 1
    });
    let mut client = town.client();
    for _ in 0..20 {
        client.query("SELECT 1 + 1 FROM DUAL").unwrap();
    }
    client.query("SELECT 1 FROM mysql.nothing").unwrap_err();
    // One at a time may start, and the others wait.
    console.query("PAUSE db1").unwrap();
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let mut client = town.client();
            std::thread::spawn(move || client.query("SELECT 5 FROM DUAL"))
        })
        .collect();
    wait_for("a queue", || {
        console.query("SELECT waiting FROM servers WHERE name = 'db1'").unwrap()[0][0] == "3"
    });
    console.query("RESUME db1").unwrap();
    waiters.into_iter().for_each(|waiter| assert!(waiter.join().unwrap().is_ok()));
    wait_for("checks in the page", || town.stats()[2]["check_status"] == "L7OK");
    let rows = town.stats();
    let number = |at: usize, column: &str| rows[at][column].parse::<u64>().unwrap();
    let names: Vec<_> = rows.iter().map(|row| row["svname"].as_str()).collect();
    assert_eq!(names, ["FRONTEND", "db1", "db2", "BACKEND"]);
    // All went to the writer; the other one has nothing of it.
    assert!(number(1, "stot") >= 24 && number(1, "bin") > 500 && number(1, "bout") > 500);
    assert_eq!((number(2, "stot"), number(2, "bin"), number(2, "hrsp_other")), (0, 0, 0));
    assert_eq!((number(1, "qmax"), number(2, "qmax"), number(3, "qmax")), (3, 0, 3));
    assert_eq!((number(1, "qcur"), number(1, "hrsp_other")), (0, 1));
    for column in ["stot", "bin", "bout", "econ", "hrsp_other", "connect"] {
        assert_eq!(number(1, column) + number(2, column), number(3, column), "{column}");
    }
    assert_eq!(rows[1]["check_status"], "L7OK");
    assert_eq!(number(1, "check_health"), number(1, "check_rise") + number(1, "check_fall") - 1);
    drop((console, client));
    let (ended, log) = town.flifo.stop();
    assert!(ended.success(), "{log}");
}
