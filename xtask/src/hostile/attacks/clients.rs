//! Attacks of clients that have a password.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use testkit::client::{Client, Problem};
use testkit::fairness::{self, Work};
use testkit::fake_client::FakeClient;
use wire::Capabilities;
use wire::frame::{Header, PAYLOAD_MAX, put_packet};

use super::super::target::{ALONE, APP, BOSS, PASSWORD, Target};
use super::{Dice, ms, repeat, wait};

fn ask(client: &mut Client, text: &str) -> Result<String> {
    let rows = client.query(text).map_err(|problem| anyhow!("{text}: {problem}"))?;
    Ok(rows.concat().join(" "))
}

/// A right is taken by a client of Flifo: no new client has it any more.
pub(super) fn revoked(target: &Target<'_>, end: Instant) -> Result<String> {
    let sql = |text: &str| target.sql(text);
    sql("CREATE DATABASE IF NOT EXISTS secret; CREATE OR REPLACE TABLE secret.s (a INT)")?;
    sql(&format!("GRANT ALL ON *.* TO {BOSS}@'%' WITH GRANT OPTION"))?;
    let mut boss = target.client(BOSS)?;
    let mut tries = 0;
    while Instant::now() < end {
        ask(&mut boss, &format!("GRANT SELECT ON secret.* TO {APP}@'%'"))?;
        ask(&mut target.client(APP)?, "SELECT COUNT(*) FROM secret.s")?;
        ask(&mut boss, &format!("REVOKE SELECT ON secret.* FROM {APP}@'%'"))?;
        for _ in 0..4 {
            let read = target.client(APP)?.query("SELECT COUNT(*) FROM secret.s");
            let is_refused = matches!(read, Err(Problem::Refused { code: 1142, .. }));
            ensure!(is_refused, "a right that is gone works: {read:?}");
            tries += 1;
        }
    }
    Ok(format!("{tries} reads behind a REVOKE, all refused"))
}

/// Views, routines and triggers of another schema leave something; the next client must not find it.
pub(super) fn state(target: &Target<'_>, end: Instant) -> Result<String> {
    target.sql("CREATE DATABASE IF NOT EXISTS iso")?;
    target.sql(&format!("GRANT ALL ON *.* TO {BOSS}@'%' WITH GRANT OPTION"))?;
    target.sql(&format!("GRANT ALL ON iso.* TO {APP}@'%'"))?;
    let mut admin = target.client(BOSS)?;
    for text in [
        "CREATE OR REPLACE FUNCTION iso.sets() RETURNS INT BEGIN SET @x = 5; RETURN 1; END",
        "CREATE OR REPLACE FUNCTION iso.makes() RETURNS INT BEGIN \
         CREATE TEMPORARY TABLE IF NOT EXISTS iso.made (a INT); INSERT INTO iso.made VALUES (7); RETURN 1; END",
        "CREATE OR REPLACE VIEW iso.v AS SELECT iso.sets() AS a, iso.makes() AS b",
        "CREATE OR REPLACE TABLE iso.t (a INT)",
        "CREATE OR REPLACE TRIGGER iso.tr BEFORE INSERT ON iso.t FOR EACH ROW SET @x = iso.makes()",
    ] {
        ask(&mut admin, text)?;
    }
    let looks = repeat(2, end, |_| {
        for text in ["SELECT * FROM iso.v", "INSERT INTO iso.t VALUES (1)"] {
            let mut litters = target.client(APP)?;
            ask(&mut litters, text)?;
            drop(litters);
            let mut next = target.client(APP)?;
            let x = ask(&mut next, "SELECT @x IS NULL")?;
            ensure!(x == "1", "a variable is left by {text}");
            let made = next.query("SELECT * FROM iso.made");
            let is_gone = matches!(made, Err(Problem::Refused { code: 1146, .. }));
            ensure!(is_gone, "a temporary table is left by {text}: {made:?}");
        }
        Ok(())
    })?;
    Ok(format!("{} looks, nothing found", 2 * looks))
}

/// Commands of 16 MiB that are begun, by pooled and pass-through clients.
pub(super) fn unfinished(target: &Target<'_>, end: Instant) -> Result<String> {
    let mut stalled = Vec::new();
    for (user, sent) in [(APP, 10), (ALONE, 10), (APP, 100 << 10), (APP, 4 << 20), (ALONE, 4 << 20)]
    {
        for number in 0..16 {
            let mut client = target.bare(user, 50 + number)?;
            let head = Header { len: PAYLOAD_MAX - 1, sequence: 0 }.encode();
            let mut text = b"\x03DELETE ".to_vec();
            text.resize(sent, b'x');
            client.send_what_is_taken(&[&head[..], &text].concat());
            stalled.push(client);
        }
    }
    wait(end);
    Ok("80 stalled".to_owned())
}

/// A server that takes no more connections, while Flifo has idle ones of another user.
pub(super) fn full_server(target: &Target<'_>, end: Instant) -> Result<String> {
    let held = repeat(10, Instant::now() + Duration::from_millis(300), |_| {
        ask(&mut target.client(APP)?, "SELECT SLEEP(0.1)").map(drop)
    });
    held?;
    let sql = |text: &str| target.sql(text);
    let connected = sql("SELECT COUNT(*) FROM information_schema.processlist")?;
    let connected: u32 = connected.trim().parse()?;
    sql(&format!("SET GLOBAL max_connections = {}", connected.max(10)))?;
    // A client that is refused behind its password finds room the next time.
    let again = AtomicU64::new(0);
    let tried = repeat(2, end, |_| {
        let come = || target.builder(ALONE, PASSWORD).connect();
        let mut client = come();
        for _ in 0..3 {
            if matches!(client, Err(Problem::Refused { code: 1040, .. })) {
                again.fetch_add(1, Relaxed);
                client = come();
            }
        }
        let mut client = client.map_err(|problem| anyhow!("{problem}, four times"))?;
        ask(&mut client, "SELECT 1")?;
        thread::sleep(Duration::from_millis(10));
        Ok(())
    });
    sql("SET GLOBAL max_connections = 600")?;
    Ok(format!(
        "{} pass-through logins, all let in, {} after they were refused once",
        tried?,
        again.into_inner()
    ))
}

/// Forty clients of one user want to keep a backend each, of sixteen.
pub(super) fn pins(target: &Target<'_>, end: Instant) -> Result<String> {
    let mut pinned = Vec::new();
    for number in 0..40 {
        let mut client = target.bare(APP, 100 + number)?;
        client.send_packet(0, b"\x03SELECT GET_LOCK(CONNECTION_ID(), 1)");
        pinned.push(client);
    }
    wait(end);
    let page = target.get("/metrics")?;
    let backends =
        page.lines().find(|line| line.starts_with("flifo_backends{")).unwrap_or_default();
    Ok(format!(
        "of 16 backend connections, {} are taken",
        backends.rsplit(' ').next().unwrap_or_default()
    ))
}

/// What is defined through Flifo is stored as it was written.
pub(super) fn stored_numbers(target: &Target<'_>, end: Instant) -> Result<String> {
    target.sql(&format!("GRANT ALL ON d.* TO {APP}@'%'"))?;
    let mut tries = 0;
    while Instant::now() < end {
        let mut client = target.client(APP)?;
        ask(&mut client, "CREATE OR REPLACE VIEW d.v AS SELECT CONNECTION_ID() AS id")?;
        ask(&mut client, "CREATE OR REPLACE TABLE d.n (a BIGINT DEFAULT (CONNECTION_ID()))")?;
        for text in ["SHOW CREATE VIEW d.v", "SHOW CREATE TABLE d.n"] {
            let stored = ask(&mut client, text)?.to_lowercase();
            ensure!(stored.contains("connection_id()"), "{stored}");
            tries += 1;
        }
    }
    Ok(format!("{tries} looks"))
}

/// Two backends: one of a kind is idle, and a client of another kind comes.
pub(super) fn other_kind(target: &Target<'_>, end: Instant) -> Result<String> {
    let mut longest = Duration::ZERO;
    let client = |capabilities| {
        let builder = target.builder(APP, PASSWORD).with(capabilities);
        builder.connect().map_err(|problem| anyhow!("{problem}"))
    };
    while Instant::now() < end {
        let mut transaction = client(Capabilities::FOUND_ROWS)?;
        ask(&mut transaction, "BEGIN")?;
        ask(&mut transaction, "SELECT 1")?;
        let mut plain = client(Capabilities::NONE)?;
        ask(&mut plain, "SELECT SLEEP(0.05)")?;
        let mut next = client(Capabilities::FOUND_ROWS)?;
        let begun = Instant::now();
        ask(&mut next, "SELECT 1")?;
        longest = longest.max(begun.elapsed());
    }
    ensure!(longest < Duration::from_millis(200), "a client has waited for {longest:?}");
    Ok(format!("waits of {} at most", ms(longest)))
}

pub(super) fn unequal(target: &Target<'_>, end: Instant) -> Result<String> {
    let length = end.saturating_duration_since(Instant::now());
    let user = (APP, PASSWORD);
    let served = fairness::serve(target.port(), user, 100, Work::Transactions, length);
    let jain = served.jain();
    ensure!(jain >= 0.95 && served.errors == 0, "Jain's index is {jain:.2}: {served:?}");
    Ok(format!("{} transactions, Jain's index {jain:.3}", served.sum()))
}

pub(super) fn broken_commands(target: &Target<'_>, end: Instant) -> Result<String> {
    let dice = Mutex::new(Dice::of(1));
    let commands: [&[u8]; 6] = [
        b"\x03SELECT v FROM d.t WHERE id = 7",
        b"\x16SELECT ?, v FROM d.t",
        b"\x17\x01\0\0\0\0\x01\0\0\0\0\x01\x08\0\x01\0\0\0\0\0\0\0",
        b"\x11app\0\x14xxxxxxxxxxxxxxxxxxxx\0\x2d\0mysql_native_password\0",
        b"\x1bAB",
        b"\x18\x01\0\0\0\0\0some data",
    ];
    let streams = repeat(2, end, |attacker| {
        let user = if attacker == 0 { APP } else { ALONE };
        let mut client = target.bare(user, 120 + attacker as u8)?;
        for command in commands {
            let mut bytes = Vec::new();
            put_packet(&mut bytes, 0, command);
            dice.lock().expect("no attacker panics").spoil(&mut bytes);
            if !client.send(&bytes) {
                break;
            }
        }
        Ok(())
    })?;
    Ok(format!("{streams} streams of 6 commands"))
}

pub(super) fn slow_readers(target: &Target<'_>, end: Instant) -> Result<String> {
    let mut readers = Vec::new();
    for (number, user) in [APP, ALONE].into_iter().cycle().take(16).enumerate() {
        let mut client = target.bare(user, 140 + number as u8)?;
        client.send_packet(0, b"\x03SELECT REPEAT('x', 1000) FROM d.seq_1_to_100000");
        readers.push(client);
    }
    wait(end);
    Ok("16 replies of 100 MB that are not read".to_owned())
}

/// Clients that go in the middle of a reply.
pub(super) fn vanish(target: &Target<'_>, end: Instant) -> Result<String> {
    let gone = repeat(2, end, |attacker| {
        let user = if attacker % 2 == 0 { APP } else { ALONE };
        let mut client = target.bare(user, 160 + attacker as u8)?;
        client.send_packet(0, b"\x03SELECT REPEAT('x', 1000) FROM d.seq_1_to_100000");
        // Each has 4 MB on its way by then: many at once would be work, not an attack.
        thread::sleep(Duration::from_millis(100));
        Ok(())
    })?;
    Ok(format!("{gone} gone in the middle of a reply"))
}

/// As many statements as a client may prepare.
pub(super) fn prepared(target: &Target<'_>, end: Instant) -> Result<String> {
    let text = format!("SELECT ?, '{}'", "x".repeat(4000));
    let (mut client, mut count): (FakeClient, u64) = (target.bare(APP, 180)?, 0);
    while Instant::now() < end && client.prepare(&text).is_ok() {
        count += 1;
    }
    wait(end);
    Ok(format!("{count} of 4 kB by one client"))
}

/// Clients whose machines go while they hold locks: at rest, while a statement runs, and when its answer comes.
pub(super) fn vanish_with_locks(target: &Target<'_>, _: Instant) -> Result<String> {
    const CLIENTS: u8 = 60;
    let first = 1000;
    let mut gone = Vec::new();
    for at in 0..CLIENTS {
        let mut client = target.bare(APP, 10 + at)?;
        let row = format!("INSERT INTO d.t VALUES ({}, 0)", first + u32::from(at));
        for text in ["BEGIN", &row] {
            client.query(text).map_err(|refusal| anyhow!("{text}: {refusal:?}"))?;
        }
        match at % 3 {
            0 => {}
            1 => client.send_packet(0, b"\x03SELECT SLEEP(600)"),
            _ => client.send_packet(0, b"\x03SELECT SLEEP(1)"),
        }
        client.vanish();
        gone.push(client);
    }
    let begun = Instant::now();
    target
        .sql(&format!("SET innodb_lock_wait_timeout = 30; DELETE FROM d.t WHERE id >= {first}"))?;
    Ok(format!("locks of {} are free after {}", gone.len(), ms(begun.elapsed())))
}
