//! `flifo import` as a shell sees it, a ProxySQL that is asked, and what Flifo says of configurations that were made.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use testkit::fake_server::{Brand, FakeServer};
use testkit::flifo::program;
use testkit::reply::{Reply, honest};

fn flifo(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command
        .args(arguments)
        .current_dir(folder)
        .env_remove("MYSQL_PWD")
        .output()
        .expect("flifo starts")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

/// The configurations that other tests compare.
fn configurations() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../import/tests/configurations")
}

/// A configuration without what names files of another machine.
fn without_files(text: &str, logs: &Path) -> String {
    let mut kept = String::new();
    let mut is_left_out = false;
    for line in text.lines() {
        if line.starts_with('[') {
            is_left_out = line == "[tls]";
        }
        if !is_left_out {
            kept += &format!("{line}\n");
        }
    }
    kept.replace("/var/log/flifo", &logs.display().to_string())
}

#[test]
fn what_is_made_of_usual_configurations_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in fs::read_dir(configurations()).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "toml") {
            continue;
        }
        count += 1;
        let text = without_files(&fs::read_to_string(&path).unwrap(), folder.path());
        let made = folder.path().join("flifo.toml");
        fs::write(&made, text).unwrap();
        fs::set_permissions(&made, fs::Permissions::from_mode(0o600)).unwrap();
        let output = flifo(folder.path(), &["check-config", "flifo.toml"]);
        assert_eq!(
            (output.status.code(), &*said(&output)),
            (Some(0), "flifo.toml: ok\n"),
            "{}",
            path.display()
        );
    }
    assert_eq!(count, 31);
}

#[test]
fn a_file_is_written_once_and_the_status_tells() {
    let folder = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = flifo(folder.path(), &[&["import"], arguments].concat());
        (output.status.code(), said(&output))
    };
    let good = "listen mysql\n mode tcp\n bind 127.0.0.1:3306\n server db1 10.0.0.1:3306 check\n";
    fs::write(folder.path().join("good.cfg"), good).unwrap();
    fs::write(folder.path().join("differs.cfg"), format!("{good} server db2 10.0.0.2:3306\n"))
        .unwrap();
    fs::write(folder.path().join("lost.cfg"), format!("{good} tcp-response content reject\n"))
        .unwrap();
    fs::write(folder.path().join("wrong.cfg"), format!("{good} server \"x\n")).unwrap();
    fs::write(folder.path().join("unknown"), "hello\n").unwrap();
    let (code, told) = run(&["good.cfg"]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains(
            "good.cfg:4: listen mysql: server db1 10.0.0.1:3306 check -> servers \"db1\"\n"
        ),
        "{told}"
    );
    let made = folder.path().join("flifo.toml");
    assert_eq!(fs::metadata(&made).unwrap().permissions().mode() & 0o777, 0o600);
    let first = fs::read_to_string(&made).unwrap();
    assert!(first.contains("address = \"10.0.0.1:3306\""), "{first}");

    let (code, told) = run(&["differs.cfg"]);
    assert!(code == Some(69) && told.contains("--force replaces it"), "{told}");
    assert_eq!(fs::read_to_string(&made).unwrap(), first);
    assert_eq!(run(&["--force", "differs.cfg"]).0, Some(1));
    assert_ne!(fs::read_to_string(&made).unwrap(), first);

    let output = flifo(folder.path(), &["import", "-o", "-", "lost.cfg"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(String::from_utf8_lossy(&output.stdout).starts_with("# Made of lost.cfg"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("NOT CONVERTED"));

    let output = flifo(folder.path(), &["import", "--json", "-o", "other.toml", "lost.cfg"]);
    let findings: serde_json::Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    let lost = findings
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["outcome"] == "lost")
        .expect("one is lost");
    assert_eq!((lost["file"].as_str(), lost["line"].as_u64()), (Some("lost.cfg"), Some(5)));

    for (arguments, code, part) in [
        (&["-o", "x", "wrong.cfg"][..], 78, "wrong.cfg: line 5: a quote is not closed"),
        (&["-o", "x", "unknown"], 64, "name it with --from"),
        (&["-o", "x", "--from", "haproxy", "unknown"], 78, "comes before"),
        (&["-o", "x", "nowhere"], 69, "nowhere cannot be read"),
        (&["-o", "x"], 64, "<FILE>"),
        (&["-o", "x", "--proxysql", "127.0.0.1:1"], 69, "ProxySQL's administration on 127.0.0.1:1"),
    ] {
        let (found, told) = run(arguments);
        assert!(found == Some(code) && told.contains(part), "{arguments:?}: {found:?} {told}");
        assert!(!folder.path().join("x").exists(), "{arguments:?}");
    }
}

#[test]
fn a_database_is_imported_by_its_dump() {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(configurations().join("proxysql-dump.sql"), folder.path().join("proxysql.sql"))
        .unwrap();
    let output = flifo(folder.path(), &["import", "proxysql.sql"]);
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    fs::write(folder.path().join("proxysql.db"), b"SQLite format 3\0").unwrap();
    let output = flifo(folder.path(), &["import", "--force", "proxysql.db"]);
    assert_eq!(output.status.code(), Some(78), "{}", said(&output));
    assert!(said(&output).contains("`sqlite3 proxysql.db .dump"), "{}", said(&output));
}

/// What a ProxySQL answers to questions about its tables.
fn answer(question: &str) -> Reply {
    let cell = |it: &'static str| (it != "NULL").then_some(it);
    let table = |columns, rows: &[&[&'static str]]| {
        let rows = rows.iter().map(|row| row.iter().map(|it| cell(it)).collect()).collect();
        Reply::NamedTable(columns, rows)
    };
    match question {
        "SELECT * FROM main.runtime_mysql_servers" => table(
            &["hostgroup_id", "hostname", "port"],
            &[&["10", "10.0.0.11", "3306"], &["20", "10.0.0.12", "3306"]],
        ),
        "SELECT * FROM main.runtime_mysql_replication_hostgroups" => {
            table(&["writer_hostgroup", "reader_hostgroup"], &[&["10", "20"]])
        }
        "SELECT * FROM main.runtime_mysql_users" => table(
            &["username", "password", "default_hostgroup", "backend", "frontend"],
            &[&["app", "secret", "10", "0", "1"], &["app", "secret", "10", "1", "0"]],
        ),
        "SELECT * FROM main.runtime_mysql_query_rules" => table(
            &["rule_id", "active", "digest", "error_msg", "apply"],
            &[&["1", "1", "0xAB", "no", "1"], &["2", "0", "NULL", "no", "1"]],
        ),
        digests if digests.starts_with("SELECT * FROM stats.stats_mysql_query_digest WHERE") => {
            table(&["hostgroup", "digest", "digest_text"], &[&["10", "0xab", "SELECT ? FROM t"]])
        }
        tables if tables.starts_with("SELECT * FROM") => Reply::Err(1045, "no such table"),
        other => honest(&[&[3], other.as_bytes()].concat()),
    }
}

#[test]
fn a_running_proxysql_is_asked_for_what_is_in_force() {
    let server = FakeServer::start_as(Brand::MySql);
    server.answer(|command| match command.split_first() {
        Some((3, question)) => answer(&String::from_utf8_lossy(question)),
        _ => honest(command),
    });
    let folder = tempfile::tempdir().unwrap();
    let address = format!("127.0.0.1:{}", server.port());
    let output = flifo(folder.path(), &["import", "--proxysql", &address, "--user", "radmin"]);
    let told = said(&output);
    let made =
        fs::read_to_string(folder.path().join("flifo.toml")).unwrap_or_else(|_| panic!("{told}"));
    for part in [
        "name = \"db1\"\naddress = \"10.0.0.11:3306\"\n",
        "name = \"db2\"\naddress = \"10.0.0.12:3306\"\n",
        "name = \"app\"\npassword = \"secret\"\n",
        "match = { digest = \"SELECT ? FROM t\" }\n",
        "name = \"rule-2\"\nenabled = false\n",
    ] {
        assert!(made.contains(part), "{part}\n{made}");
    }
    assert!(told.contains(":mysql_servers:2: mysql_servers hostgroup_id=20"), "{told}");
    assert_eq!(made.matches("name = \"app\"").count(), 1, "{made}");

    // Another server is not taken for one.
    server.answer(honest);
    let output = flifo(folder.path(), &["import", "--force", "--proxysql", &address]);
    assert!(
        output.status.code() == Some(69) && said(&output).contains("no table of servers"),
        "{}",
        said(&output)
    );
}
