//! Configurations as they are usual, with what becomes of them: the file and the report beside each.
//!
//! A file that is missing is written, and then the test fails. Whether Flifo takes the results, a test with the program
//! tells.

use std::fs;
use std::path::{Path, PathBuf};

use import::{Contents, ImportError, Imported, Outcome, Source};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configurations")
}

/// The configurations, by their names.
fn configurations() -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(folder()).expect("the folder is there");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("reads").path()).collect();
    paths.retain(|path| {
        path.extension()
            .is_some_and(|it| ["cnf", "cfg", "txt", "sql"].iter().any(|kind| *it == **kind))
    });
    paths.sort();
    let named = |path: &PathBuf| {
        let name = path.file_name().expect("has a name").to_string_lossy().into_owned();
        (name, fs::read(path).expect("reads"))
    };
    paths.iter().map(named).collect()
}

fn import(name: &str, bytes: Vec<u8>) -> Result<Imported, ImportError> {
    import::import(&[Source {
        name: name.to_owned(),
        contents: Contents::File { bytes, kind: None },
    }])
}

#[test]
fn usual_configurations_become_what_stands_beside_them() {
    let all = configurations();
    assert_eq!(all.len(), 31);
    let mut written = Vec::new();
    for (name, bytes) in all {
        let Imported { text, report } =
            import(&name, bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        for (made, end) in [(text, "toml"), (report.to_string(), "report")] {
            let expected = folder().join(format!("{name}.{end}"));
            match fs::read_to_string(&expected) {
                Ok(want) => assert_eq!(made, want, "{name}"),
                Err(_) => {
                    fs::write(&expected, made).expect("writes");
                    written.push(expected);
                }
            }
        }
    }
    assert!(written.is_empty(), "these were missing and have been written: {written:?}");
}

#[test]
fn passwords_are_not_in_reports() {
    for (name, bytes) in configurations() {
        let Imported { report, .. } = import(&name, bytes).expect("is right");
        let report = report.to_string();
        for secret in ["-secret", "94BDCEBE", "pass \"word", "1F2E3D4C", "admin:"] {
            assert!(!report.contains(secret), "{name}: {secret}\n{report}");
        }
    }
}

#[test]
fn several_sources_become_one() {
    let all = configurations();
    let one = |wanted: &str| {
        let (name, bytes) = all.iter().find(|(name, _)| name == wanted).cloned().expect("is there");
        Source { name, contents: Contents::File { bytes, kind: None } }
    };
    let made =
        import::import(&[one("haproxy-galera.cfg"), one("userlist.txt")]).expect("both are right");
    assert!(
        made.text.contains("name = \"node1\"") && made.text.contains("name = \"report\""),
        "{}",
        made.text
    );
    let files: Vec<String> = made.report.findings().iter().map(|it| it.place.to_string()).collect();
    let turn = files.iter().position(|it| it.starts_with("userlist")).expect("is told");
    assert!(files[..turn].iter().all(|it| it.starts_with("haproxy")), "{files:?}");
}

#[test]
fn the_status_is_that_of_the_worst_line() {
    let status = |text: &str| {
        let made = import("x", text.as_bytes().to_vec()).expect("is right");
        let has_lost = made.report.findings().iter().any(|it| it.outcome == Outcome::Lost);
        assert_eq!(has_lost, made.report.status() == 2, "{}", made.report);
        made.report.status()
    };
    let server = "listen mysql\n mode tcp\n bind :3306\n server db1 10.0.0.1:3306 check\n";
    assert_eq!(status(server), 0);
    assert_eq!(status(&format!("{server} server db2 10.0.0.2:3306 check\n")), 1);
    assert_eq!(status(&format!("{server} tcp-request content reject\n")), 2);
}

#[test]
fn what_cannot_be_read_is_told_with_its_place() {
    let told = |name: &str, bytes: &[u8]| {
        import(name, bytes.to_vec()).map(|it| it.text).expect_err(name).to_string()
    };
    assert_eq!(told("a", b"hello"), "a is of no known kind: name it with --from");
    assert_eq!(told("a", b"\xff"), "a is not UTF-8 text");
    let cut = "mysql_servers=\n(\n{ address=\"x\"\n";
    assert_eq!(told("p.cnf", cut.as_bytes()), "p.cnf: line 4: the file ends, and a '}' is missing");
    assert_eq!(told("h.cfg", b"global\n user \"x\n"), "h.cfg: line 2: a quote is not closed");
    assert_eq!(
        told("p.db", b"SQLite format 3\0"),
        "p.db is ProxySQL's database itself. `sqlite3 p.db .dump > proxysql.sql` makes a text of it that can be \
         imported; a running ProxySQL is asked with --proxysql"
    );
    assert_eq!(
        told("u", b"\"a\" \"b\"\n\"c\n"),
        "u: line 2: a line is \"name\" \"password\", with quotes doubled inside"
    );
}
