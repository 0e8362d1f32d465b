//! Rights follow: what a new client may do, and begins with, is what the server would let it, wherever that was
//! changed.
//!
//! Each change is made on a server of its own while a backend of its user is idle, which a session would have gone on
//! with.

use std::thread;
use std::time::{Duration, Instant};

use testkit::rights::{CHANGES, Change, LOCK, READS, REVOKE, Scene, UNCHANGED, owned};

use crate::shared::{fails, ok};

/// Makes a change beside Flifo, and undoes it.
#[track_caller]
fn try_beside(scene: &Scene, Change { make, expected, undo }: Change) {
    scene.use_backends(4);
    scene.sql(make);
    scene.await_seen(make, expected);
    scene.sql(undo);
    scene.await_seen(undo, UNCHANGED);
}

/// Ends Flifo. The answer is how often it counted what has this name.
fn end(scene: Scene) -> impl Fn(&str) -> u64 {
    let (status, log) = scene.flifo.stop();
    assert!(status.success() && !log.contains("panicked"), "{log}");
    move |name| {
        let words = log.split([' ', '"', ',']).filter_map(|word| word.split_once('='));
        let counts = words.filter(|(word, _)| *word == name);
        counts.map(|(_, count)| count.parse::<u64>().expect("a number")).sum()
    }
}

#[test]
fn what_is_changed_through_flifo_takes_effect_at_once() {
    // Were it not seen by itself, it would take an hour.
    let scene = Scene::start("rights_bound = \"1h\"", 2);
    for user in ["maker", "boss"] {
        for Change { make, expected, undo } in CHANGES {
            scene.use_backends(4);
            let mut maker = scene.client(user, "can").expect("a login");
            ok(&mut maker, make);
            for _ in 0..4 {
                assert_eq!(scene.sees(), owned(expected), "{make}");
            }
            ok(&mut maker, undo);
            for _ in 0..4 {
                assert_eq!(scene.sees(), owned(UNCHANGED), "{undo}");
            }
        }
    }
    drop(end(scene));
}

#[test]
fn a_change_that_hides_in_another_text_is_seen() {
    let scene = Scene::start("rights_bound = \"1h\"", 2);
    let mut maker = scene.client("maker", "can").expect("a login");
    for text in [
        "DO 1; REVOKE SELECT ON d.* FROM app@'%'",
        "/* why */ REVOKE SELECT ON d.* FROM app@'%'",
        "EXECUTE IMMEDIATE 'REVOKE SELECT ON d.* FROM app@\"%\"'",
        "PREPARE s FROM 'REVOKE SELECT ON d.* FROM app@\"%\"'; EXECUTE s",
        "SET STATEMENT max_statement_time = 9 FOR REVOKE SELECT ON d.* FROM app@'%'",
        "DELETE FROM mysql.db WHERE User = 'app'; FLUSH PRIVILEGES",
    ] {
        scene.use_backends(4);
        ok(&mut maker, text);
        assert_eq!(scene.sees(), Err(1142), "{text}");
        ok(&mut maker, "GRANT SELECT ON d.* TO app@'%'");
    }
    drop(maker);
    drop(end(scene));
}

#[test]
fn what_is_changed_elsewhere_is_watched() {
    // The table of accounts is read often: what it tells first is told in the server's words, too.
    let told = "accounts_user = \"reader\"\naccounts_period = \"1s\"\nrights_bound = \"1h\"";
    let scene = Scene::start(told, 2);
    let begun = Instant::now();
    while !scene.flifo.log().contains("within two seconds") {
        assert!(begun.elapsed() < Duration::from_secs(120), "{}", scene.flifo.log());
        thread::sleep(Duration::from_millis(20));
    }
    // The tables are seen to change before the server reads them.
    let by_hand = "DELETE FROM mysql.db WHERE User = 'app'; DO SLEEP(2.5); FLUSH PRIVILEGES";
    for change in CHANGES.into_iter().chain([Change { make: by_hand, ..REVOKE }]) {
        try_beside(&scene, change);
    }
    drop(end(scene));
}

#[test]
fn what_nobody_watches_takes_effect_within_the_bound() {
    let scene = Scene::start("rights_bound = \"5s\"", 1);
    for change in [REVOKE, LOCK] {
        // Backends are used all the while, so that none is closed because it rests.
        try_beside(&scene, change);
    }
    drop(end(scene));
}

#[test]
fn a_client_that_keeps_its_backend_keeps_it() {
    let scene = Scene::start("accounts_user = \"reader\"\nrights_bound = \"5s\"", 1);
    let mut maker = scene.client("maker", "can").expect("a login");
    ok(&mut maker, "GRANT CREATE TEMPORARY TABLES, INSERT ON d.* TO app@'%'");
    let mut pinned = scene.client("app", "one").expect("a login");
    ok(&mut pinned, "CREATE TEMPORARY TABLE d.mine AS SELECT 5 AS a");
    let mut open = scene.client("app", "one").expect("a login");
    ok(&mut open, "BEGIN");
    ok(&mut open, "INSERT INTO d.t VALUES (3)");
    ok(&mut maker, "SET GLOBAL div_precision_increment = 5");
    ok(&mut maker, "FLUSH PRIVILEGES");
    scene.sql("SET GLOBAL div_precision_increment = 4; ALTER USER app@'%' ACCOUNT LOCK");
    scene.await_seen("ACCOUNT LOCK", Err(4151));
    assert_eq!(ok(&mut pinned, "SELECT a FROM d.mine"), "5");
    assert_eq!(ok(&mut open, "SELECT MIN(a) FROM d.t"), "3");
    ok(&mut open, "COMMIT");
    ok(&mut maker, "ALTER USER app@'%' ACCOUNT UNLOCK");
    assert_eq!(scene.sees(), owned(UNCHANGED));
    assert_eq!(ok(&mut pinned, "SELECT a FROM d.mine"), "5");
    drop((pinned, open, maker));
    drop(end(scene));
}

/// A client without rights costs no other user its backends; one with some, only those that it names.
#[test]
fn a_change_costs_no_other_user_its_backends() {
    let scene = Scene::start("rights_bound = \"1h\"", 1);
    let mut maker = scene.client("maker", "can").expect("a login");
    ok(&mut maker, "DO 1");
    scene.use_backends(1);
    let mut app = scene.client("app", "one").expect("a login");
    for (text, code) in [
        ("GRANT ALL ON *.* TO app@'%'", 1045),
        ("FLUSH PRIVILEGES", 1227),
        ("SET GLOBAL max_sort_length = 99", 1227),
        ("DROP USER maker@'%'", 1227),
    ] {
        assert_eq!(fails(&mut app, text), code, "{text}");
    }
    assert_eq!(ok(&mut app, READS), "7 4 1024");
    for text in [
        "CREATE USER other@'%'",
        "GRANT SELECT ON d.* TO other@'%'",
        "SET PASSWORD FOR other@'%' = PASSWORD('x')",
        "DROP USER other@'%'",
    ] {
        ok(&mut maker, text);
        assert_eq!(scene.sees(), owned(UNCHANGED));
    }
    drop((app, maker));
    // One of `app`, and of `maker` the one that each of its changes has closed.
    assert!(end(scene)("backends_opened") <= 1 + 5);
}
