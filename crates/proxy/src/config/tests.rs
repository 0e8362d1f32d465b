//! Configurations good and bad: what is told of each, and that table, page and sample agree.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;

use super::*;

/// Every file in `tests/bad` has beside it what is told of it. To accept what is told now, remove
/// that file and run the test twice: the first run writes it and fails.
#[test]
fn bad_files_are_explained() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/tests/bad");
    let entries = fs::read_dir(&folder).expect("the folder is there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("reads").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    assert!(5 < files.len());
    let mut written = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).expect("reads");
        let name = path.file_name().expect("has a name").to_string_lossy().into_owned();
        let told: String = match parse(&text, &name) {
            Ok((_, warnings)) => warnings.iter().map(|warning| format!("{warning}\n")).collect(),
            Err(problems) => problems.iter().map(|problem| format!("{problem}\n")).collect(),
        };
        assert!(!told.contains("hunter2"), "a password is told:\n{told}");
        let expected = path.with_extension("txt");
        let Ok(want) = fs::read_to_string(&expected) else {
            fs::write(&expected, told).expect("writes");
            written.push(expected);
            continue;
        };
        assert_eq!(told, want, "{name}");
    }
    assert!(written.is_empty(), "these were missing and have been written: {written:?}");
}

#[test]
fn everything_can_be_set() {
    let text = r#"
        listen = ["127.0.0.1:7000", "/run/flifo.sock"]
        workers = 3
        clients_max = 1_000
        backlog = 100
        server = { address = "db1:3307", name = "db1", limit = 16, connections_max = 32 }
        limits.wait = "1m30s"
        limits.statement = "2s"
        limits.idle_client = "none"
        limits.packet_max = "64MiB"
        proxy_protocol.from = "10.0.0.0/8"
        logs = { level = "debug", format = "json", file = "/var/log/flifo.log" }
        [[users]]
        name = "app"
        password = "hunter2"
        plugin = "caching_sha2_password"
        [[users]]
        name = "report"
        mode = "pass-through"
        clients_max = 5
    "#;
    let (plan, warnings) = parse(text, "f").expect("is right");
    assert_eq!(warnings, []);
    assert_eq!(plan.listen.len(), 2);
    assert_eq!((plan.worker_count(), plan.clients_max, plan.backlog), (3, 1000, 100));
    let server = &plan.server;
    assert_eq!(server.address, Some(backend::Address::Tcp { host: "db1".into(), port: 3307 }));
    assert_eq!((server.limit, server.connections_max), (Some(16), 32));
    assert_eq!(plan.limits.wait, Some(Duration::from_secs(90)));
    assert_eq!(plan.limits.idle_client, None);
    assert_eq!(plan.limits.packet_max, 64 << 20);
    assert_eq!(plan.proxy_protocol.from.len(), 1);
    assert_eq!((plan.logs.level, plan.logs.format), (LogLevel::Debug, LogFormat::Json));
    let [app, report] = &plan.users[..] else { panic!("two users") };
    assert!(matches!(&app.password, Some(Password::Plain(it)) if it.as_bytes() == b"hunter2"));
    assert_eq!(app.plugin, wire::auth::Plugin::CachingSha2);
    assert!(!report.pooled && report.clients_max == Some(5) && report.password.is_none());
    assert!(!format!("{plan:?}").contains("hunter2"));
}

#[test]
fn nothing_need_be_set() {
    let (plan, warnings) = parse("", "f").expect("is right");
    assert_eq!(warnings, []);
    assert_eq!(format!("{plan:?}"), format!("{:?}", Plan::default()));
    let (loaded, _) = load(None, &Overrides::default()).expect("is right");
    assert_eq!(format!("{loaded:?}"), format!("{plan:?}"));
}

#[test]
fn the_command_line_comes_after_the_file() {
    let folder = tempfile::tempdir().expect("makes");
    let path = folder.path().join("flifo.toml");
    fs::write(&path, "listen = \"127.0.0.1:1\"\nworkers = 2\n").expect("writes");
    let overrides = Overrides {
        listen: vec!["127.0.0.1:2".into(), "/run/f.sock".into()],
        server: Some("db1".into()),
        workers: Some("auto".into()),
        allow_privileged_user: true,
    };
    let (plan, _) = load(Some(&path), &overrides).expect("is right");
    let listen: Vec<_> = plan.listen.iter().map(ToString::to_string).collect();
    assert_eq!(listen, ["127.0.0.1:2", "/run/f.sock"]);
    assert!(plan.server.address.is_some() && plan.workers.is_none());
    assert_eq!(plan.hardening.privileged_user, Permission::Allowed);

    let overrides = Overrides {
        listen: vec!["nowhere".into()],
        server: Some("db1:x".into()),
        workers: Some("many".into()),
        allow_privileged_user: false,
    };
    let problems = load(Some(&path), &overrides).expect_err("is wrong");
    let places: Vec<_> = problems.iter().map(|problem| problem.place.to_string()).collect();
    assert_eq!(places, ["--listen", "--server", "--workers"]);
}

#[test]
fn the_files_that_are_named_are_looked_at() {
    let folder = tempfile::tempdir().expect("makes");
    let path = folder.path().join("flifo.toml");
    let password = folder.path().join("password");
    fs::write(&password, "hunter2\n").expect("writes");
    fs::set_permissions(&password, fs::Permissions::from_mode(0o600)).expect("sets");
    fs::write(
        &path,
        format!("[[users]]\nname = \"app\"\npassword_file = {:?}\n", password.display()),
    )
    .expect("writes");
    let (plan, warnings) = load(Some(&path), &Overrides::default()).expect("is right");
    assert_eq!(warnings, []);
    let read = plan.users[0].password.as_ref();
    assert!(matches!(read, Some(Password::Plain(it)) if it.as_bytes() == b"hunter2"));

    fs::set_permissions(&password, fs::Permissions::from_mode(0o644)).expect("sets");
    let (_, warnings) = load(Some(&path), &Overrides::default()).expect("is right");
    assert!(warnings[0].message.contains("everybody can read"), "{warnings:?}");

    let pem = folder.path().join("nonsense.pem");
    fs::write(&pem, "nonsense").expect("writes");
    let text = format!(
        "[tls]\ncert = {pem:?}\nkey = {pem:?}\n[server]\ntls_cert = \"/nonexistent/c\"\n\
         tls_key = \"/nonexistent/k\"\n[logs]\nfile = \"/nonexistent/log\"\n[[users]]\n\
         name = \"app\"\npassword_file = \"/nonexistent/p\"\n"
    );
    fs::write(&path, text).expect("writes");
    let problems = load(Some(&path), &Overrides::default()).expect_err("is wrong");
    let options: Vec<_> = problems.iter().filter_map(|it| it.option.as_deref()).collect();
    let want =
        ["tls.cert", "server.tls_cert", "server.tls_key", "logs.file", "users.password_file"];
    assert_eq!(options, want);
}

#[test]
fn a_file_with_a_password_is_nobody_elses_to_read() {
    let folder = tempfile::tempdir().expect("makes");
    let path = folder.path().join("flifo.toml");
    fs::write(&path, "[[users]]\nname = \"a\"\npassword = \"hunter2\"\n").expect("writes");
    let warnings = |mode| {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("sets");
        load(Some(&path), &Overrides::default()).expect("is right").1
    };
    assert_eq!(warnings(0o640), []);
    let told = warnings(0o644);
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].place.at, Some(Position { line: 3, column: 12 }));
}

#[test]
fn files_that_cannot_be_read_are_told() {
    let folder = tempfile::tempdir().expect("makes");
    let read = |path: &Path| load(Some(path), &Overrides::default()).expect_err("is wrong");
    let missing = read(&folder.path().join("missing"));
    assert!(missing[0].message.contains("cannot be read"), "{missing:?}");
    assert!(read(folder.path())[0].message.contains("cannot be read"));
    let path = folder.path().join("latin1.toml");
    fs::write(&path, b"workers = 1\n# caf\xe9\n").expect("writes");
    let problems = read(&path);
    assert_eq!(problems[0].place.at, Some(Position { line: 2, column: 6 }));
}

#[test]
fn the_reference_is_the_committed_page() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/configuration.md");
    let page = fs::read_to_string(&path).unwrap_or_default();
    let hint = "run `flifo config-reference >docs/reference/configuration.md`";
    assert!(page == reference(), "the page differs from the options: {hint}");
}

/// An example that is copied from the manual works.
#[test]
fn the_examples_in_the_manual_are_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manual = fs::read_dir(root.join("docs/manual")).expect("the folder is there");
    let mut pages: Vec<PathBuf> = manual.map(|entry| entry.expect("reads").path()).collect();
    pages.push(root.join("README.md"));
    let mut seen = 0;
    for page in pages {
        let text = fs::read_to_string(&page).expect("reads");
        for block in text.split("```toml\n").skip(1) {
            let (example, _) = block.split_once("```").expect("a block ends");
            let told = parse(example, &page.display().to_string());
            assert!(told.is_ok(), "{told:?}\n{example}");
            seen += 1;
        }
    }
    assert!(4 < seen, "only {seen} examples were found");
}

#[test]
fn the_sample_shows_the_defaults_and_works_when_edited() {
    let sample = sample();
    let (plan, warnings) = parse(&sample, "sample").expect("is right");
    assert_eq!((warnings, plan.users.len()), (Vec::new(), 0));
    let set = |line: &str| {
        let is_option = line.starts_with('#') && !line.starts_with("##");
        if is_option { line[1..].to_owned() } else { line.to_owned() }
    };
    let defaults: Vec<_> =
        sample.lines().filter(|line| !line.contains("# an example")).map(set).collect();
    // A user is none of the defaults.
    let plan_only = defaults.join("\n").split("[[users]]").next().map(str::to_owned);
    let (mut plan, _) = parse(&plan_only.expect("there"), "defaults").expect("is right");
    assert!(plan.sources.values().all(|source| *source == "file") && plan.sources.len() > 10);
    plan.sources.clear();
    assert_eq!(format!("{plan:?}"), format!("{:?}", Plan::default()));
    // The examples contradict each other, as the ways to give a password do, and one server and several; each by
    // itself is right.
    let examples = sample.lines().map(set).collect::<Vec<_>>().join("\n");
    let told = parse(&examples, "examples").expect_err("several passwords are given");
    for problem in told.iter().filter(|it| it.severity == Severity::Error) {
        let is_expected = [
            "users.password_hash",
            "users.second_password_hash",
            "users.second_password_file",
            "users.password_file",
            "checks.password_file",
            "server.tls_ca",
            "servers.tls_ca",
            "server.address",
            "server.name",
            "routes.listen",
        ]
        .contains(&problem.option.as_deref().unwrap_or_default());
        assert!(is_expected, "{problem}");
    }
}

#[test]
fn checks_need_a_user_that_can_log_in() {
    let user = "[[users]]\nname = \"app\"\npassword = \"x\"\n";
    let two = "[[servers]]\nname = \"a\"\naddress = \"a:1\"\n[[servers]]\nname = \"b\"\naddress = \"b:1\"\n";
    for (checks, wrong) in [
        ("user = \"app\"", None),
        ("user = \"own\"\npassword = \"x\"", None),
        ("user = \"own\"\npassword_file = \"/f\"", None),
        ("user = \"app\"\npassword = \"another\"", None),
        ("user = \"own\"", Some("checks.user")),
        ("password = \"x\"", Some("checks.password")),
        ("password_file = \"/f\"", Some("checks.password_file")),
        ("user = \"own\"\npassword = \"x\"\npassword_file = \"/f\"", Some("checks.password_file")),
    ] {
        for servers in ["", two] {
            let read = parse(&format!("[checks]\n{checks}\n{user}{servers}"), "f");
            let told = read.err().map(|problems| problems[0].option.clone().unwrap());
            assert_eq!(told.as_deref(), wrong, "{checks}\n{servers}");
        }
    }
    // With an account of their own, no other user is needed for roles.
    let own = format!("[checks]\nuser = \"own\"\npassword = \"x\"\n{two}");
    parse(&own, "f").expect("roles can be asked for");
    parse(two, "f").expect_err("nothing could ask for roles");
}

#[test]
fn binary_logs_are_followed_by_a_user_that_can_log_in() {
    let user = "[[users]]\nname = \"app\"\npassword = \"x\"\n";
    let hash = "[[users]]\nname = \"app\"\npassword_hash = \"*0123456789ABCDEF0123456789ABCDEF01234567\"\n";
    let own = "[checks]\nuser = \"own\"\npassword = \"x\"\n";
    for (cache, users, wrong) in [
        ("", user, None),
        ("", own, None),
        ("binlog_user = \"app\"", user, None),
        ("binlog_user = \"own\"", &*format!("{own}{user}"), None),
        ("binlog_user = \"other\"", user, Some("cache.binlog_user")),
        ("binlog_user = \"app\"", hash, Some("cache.binlog_user")),
        ("", hash, Some("cache.binlog")),
        ("binlog_lag_max = \"1ms\"", user, Some("cache.binlog_lag_max")),
        ("binlog_server_id = 0", user, Some("cache.binlog_server_id")),
    ] {
        let read = parse(&format!("[cache]\nbinlog = \"on\"\n{cache}\n{users}"), "f");
        let told = read.err().map(|problems| problems[0].option.clone().unwrap());
        assert_eq!(told.as_deref(), wrong, "{cache}\n{users}");
    }
    let (_, warnings) = parse(&format!("[cache]\nbinlog_lag_max = \"2s\"\n{user}"), "f").unwrap();
    let is_it = |it: &Problem| it.option.as_deref() == Some("cache.binlog_lag_max");
    assert!(warnings.iter().any(is_it));
}

/// One server is checked as well: what `[checks]` says of it is not without effect.
#[test]
fn checks_of_the_only_server_have_an_effect() {
    let user = "[[users]]\nname = \"app\"\npassword = \"x\"\n";
    let (_, warnings) = parse(&format!("[checks]\ninter = \"2s\"\nfall = 2\n{user}"), "f").unwrap();
    assert_eq!(warnings, []);
    let (_, warnings) = parse(&format!("[checks]\nagent_inter = \"2s\"\n{user}"), "f").unwrap();
    assert_eq!(warnings.len(), 1);
}

#[test]
fn who_reads_the_servers_accounts_must_be_able_to_log_in() {
    let read = |user: &str| {
        let text =
            format!("[server]\naccounts_user = \"reader\"\n[[users]]\nname = \"reader\"\n{user}");
        parse(&text, "f").map(|(plan, _)| plan.server.accounts_user)
    };
    assert_eq!(read("password = \"x\"").expect("is right").as_deref(), Some("reader"));
    let hash = "*0123456789ABCDEF0123456789ABCDEF01234567";
    for wrong in [format!("password_hash = \"{hash}\""), "mode = \"pass-through\"".to_owned()] {
        let problems = read(&wrong).expect_err(&wrong);
        let is_it = |it: &Problem| it.option.as_deref() == Some("server.accounts_user");
        assert!(problems.iter().any(is_it), "{wrong}: {problems:?}");
    }
}

#[test]
fn nothing_is_learnt_where_the_server_tells_all_or_may_tell_accounts_apart() {
    let warned = |server: &str| {
        let users = "[[users]]\nname = \"app\"\npassword = \"x\"";
        let text = format!("[server]\nlearn_passwords = \"on\"\n{server}\n{users}");
        let (_, warnings) = parse(&text, "f").expect(server);
        let is_it = |it: &&Problem| it.option.as_deref() == Some("server.learn_passwords");
        warnings.iter().filter(is_it).count()
    };
    assert_eq!(warned(""), 0);
    assert_eq!(warned("accounts_user = \"app\""), 1);
    assert_eq!(warned("send_proxy = \"v2\""), 1);
    let server = |name: &str, more: &str| {
        format!(
            "[[servers]]\nname = {name:?}\naddress = \"10.0.0.1:{}\"\n{more}",
            3306 + name.len()
        )
    };
    for (more, want) in [("", 0), ("send_proxy = \"v2\"", 1), ("send_proxy = \"off\"", 0)] {
        assert_eq!(warned(&(server("a", "") + "\n" + &server("bb", more))), want, "{more}");
    }
}

#[test]
fn every_option_is_described() {
    fn check<T>(section: &options::Section<T>, target: &mut T) {
        for row in section.rows {
            let path = section.path(row.name);
            let shown = row.form.show(target);
            assert!(shown.is_some() || row.example.is_some(), "{path} has nothing to show");
            assert!(row.doc.ends_with('.') && 30 < row.doc.len(), "{path} is not described");
            assert!(!row.form.allowed().is_empty(), "{path}");
            let twice = section.rows.iter().filter(|other| other.name == row.name).count();
            assert_eq!(twice, 1, "{path}");
        }
    }
    for section in options::SECTIONS {
        check(section, &mut Plan::default());
    }
    check(options::USERS, &mut UserOptions::default());
}

/// Pieces of which configurations are made, right and wrong.
fn piece() -> impl Strategy<Value = String> {
    let words: Vec<String> = parts().into_iter().map(str::to_owned).collect();
    prop_oneof![proptest::sample::select(words), "\\PC{0,8}", "[ \\n\\[\\]{}=\",.#0-9]{0,4}"]
}

fn parts() -> Vec<&'static str> {
    let mut parts = vec![
        "\n",
        " = ",
        "[",
        "]",
        "[[users]]\n",
        "{",
        "}",
        ", ",
        "\"",
        "\"10s\"",
        "\"auto\"",
        "16",
        "-1",
        "0x",
        "1e9",
        "true",
        "1979-05-27",
        "\"16MiB\"",
        "'''",
        "\u{feff}",
        "\r",
        "\\u0000",
        ".",
    ];
    for section in options::SECTIONS {
        parts.push(section.name);
        parts.extend(section.rows.iter().map(|row| row.name));
    }
    parts.extend(options::USERS.rows.iter().map(|row| row.name));
    parts
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_panics(pieces in proptest::collection::vec(piece(), 0..40)) {
        let text = pieces.concat();
        if let Err(problems) = parse(&text, "f") {
            prop_assert!(!problems.is_empty());
        }
    }
}

#[test]
fn several_servers_must_make_sense_together() {
    const TWO: &str = "[[servers]]\nname = \"a\"\naddress = \"h:1\"\n[[servers]]\nname = \"b\"\n\
                       address = \"h:2\"\n";
    const USER: &str = "[[users]]\nname = \"app\"\npassword = \"secret\"\n";
    let (plan, warnings) = parse(&format!("{TWO}{USER}"), "f").unwrap();
    assert!(warnings.is_empty() && plan.servers.len() == 2);
    for (text, line, what) in [
        (format!("[server]\naddress = \"h\"\n{TWO}{USER}"), 2, "leave server.address out"),
        (format!("{TWO}[[servers]]\nname = \"a\"\naddress = \"h:3\"\n{USER}"), 8, "already"),
        (format!("{TWO}[[servers]]\nname = \"c\"\naddress = \"h:2\"\n{USER}"), 9, "of \"b\""),
        (format!("{TWO}[[servers]]\nname = \"c\"\n{USER}"), 7, "needs its address"),
        (format!("{TWO}tls = \"required\"\ntls_ca = \"/x\"\n{USER}"), 8, "nothing is verified"),
        (format!("{TWO}tls_cert = \"/x\"\n{USER}"), 7, "needs its key"),
        (format!("{TWO}[[servers]]\nname = \"c\"\naddress = \"auto\"\n{USER}"), 9, "written out"),
        (TWO.to_owned(), 1, "the role of this server cannot be found out"),
        (format!("[checks]\nkind = \"statement\"\n{TWO}{USER}"), 2, "checks.statement is missing"),
        (format!("[checks]\nuser = \"x\"\n{TWO}{USER}"), 2, "not among [[users]]"),
        (format!("{TWO}{USER}[[routes]]\nusers = [\"x\"]\n"), 10, "needs its mode"),
        (
            format!("{TWO}{USER}[[routes]]\nmode = \"split\"\nclasses = [\"x\"]\n"),
            12,
            "no class \"x\"",
        ),
        (
            format!("{TWO}{USER}[[routes]]\nmode = \"split\"\nlisten = [\"127.0.0.1:9\"]\n"),
            12,
            "not in listen",
        ),
    ] {
        let problems = parse(&text, "f").expect_err(&text);
        let told: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let is_it = |told: &String| told.contains(&format!("f:{line}:")) && told.contains(what);
        assert!(told.iter().any(is_it), "{text}: {told:?}");
    }
    let (_, warnings) = parse("[routing]\nmode = \"split\"\n", "f").unwrap();
    assert!(warnings[0].to_string().contains("no [[servers]] are listed"), "{}", warnings[0]);
}

#[test]
fn an_authority_named_for_all_servers_is_not_that_of_one_that_verifies_nothing() {
    for mode in ["off", "preferred", "required", "verify-full"] {
        let text = format!(
            "[server]\ntls = \"verify-ca\"\ntls_ca = \"/ca\"\n[[servers]]\nname = \"a\"\n\
             address = \"h:1\"\ntls = \"{mode}\"\n[[users]]\nname = \"app\"\npassword = \"secret\"\n"
        );
        let (plan, _) = parse(&text, "f").unwrap();
        let (tls, _) = plan.servers[0].tls_to(plan.governing("main").server);
        assert_eq!(tls.ca.is_some(), mode == "verify-full", "{mode}");
    }
}

#[test]
fn a_server_can_have_its_own_connections_lag_and_tls() {
    let text = "[server]\nconnections_max = 50\ntls = \"preferred\"\n[routing]\nlag_max = \"3s\"\n\
                [[servers]]\nname = \"a\"\naddress = \"h:1\"\n\
                [[servers]]\nname = \"b\"\naddress = \"h:2\"\nconnections_max = 7\nlag_max = \"none\"\n\
                tls = \"required\"\ntls_server_name = \"db.example\"\n\
                [[users]]\nname = \"app\"\npassword = \"secret\"\n";
    let (plan, warnings) = parse(text, "f").unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    let options = plan.governing("main").server;
    let said = plan.servers.iter().map(|rule| {
        let (tls, name) = rule.tls_to(options);
        let lag = rule.lag_max.or(plan.routing.lag_max);
        (rule.connections_max(options), lag, tls.mode, name)
    });
    let three = Some(Duration::from_secs(3));
    let expected = [
        (50, three, backend::tls::Mode::Preferred, None),
        (7, None, backend::tls::Mode::Required, Some("db.example")),
    ];
    assert_eq!(said.collect::<Vec<_>>(), expected);
    assert_eq!(plan.connections_of_all(|one| one), 57);
}
