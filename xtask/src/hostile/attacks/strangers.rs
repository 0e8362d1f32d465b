//! Attacks of strangers: clients that have no password, or none that counts.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use testkit::fake_client::FakeClient;
use wire::frame::put_packet;

use super::super::target::{APP, CAPPED, PASSWORD, Target};
use super::{Dice, ms, repeat, wait};

/// The account of the user that Flifo runs as trusts the operating system's word for the client's user.
pub(super) fn quoted_names(target: &Target<'_>, end: Instant) -> Result<String> {
    let me = Command::new("id").arg("-un").output().context("id")?;
    let me = String::from_utf8(me.stdout)?.trim().to_owned();
    target.sql(&format!(
        "CREATE OR REPLACE USER '{me}'@'localhost' IDENTIFIED VIA mysql_native_password USING 'invalid' OR unix_socket; \
         GRANT ALL ON *.* TO '{me}'@'localhost'"
    ))?;
    let mut tries = 0;
    while Instant::now() < end {
        let names = [me.clone(), format!("'{me}'"), format!("\"{me}\""), format!("`{me}`")];
        for name in names {
            for password in ["", "x"] {
                ensure!(!target.lets_in(&name, password), "{name} is let in");
                tries += 3;
            }
        }
    }
    Ok(format!("{tries} tries, none let in"))
}

pub(super) fn capped(target: &Target<'_>, end: Instant) -> Result<String> {
    let _two = [target.client(CAPPED)?, target.client(CAPPED)?];
    let tries = AtomicU64::new(0);
    repeat(4, end, |_| {
        for name in [format!("'{CAPPED}'"), format!("\"{CAPPED}\""), CAPPED.to_owned()] {
            ensure!(!target.lets_in(&name, PASSWORD), "{name} has a third client");
            tries.fetch_add(3, Relaxed);
        }
        Ok(())
    })?;
    Ok(format!("{} tries, none let in", tries.into_inner()))
}

pub(super) fn required(target: &Target<'_>, end: Instant) -> Result<String> {
    let mut made = String::new();
    for (name, demand) in
        [("by_x509", "X509"), ("by_subject", "SUBJECT '/CN=Flifo'"), ("by_ssl", "SSL")]
    {
        made += &format!("CREATE OR REPLACE USER {name}@'%' REQUIRE {demand};");
    }
    target.sql(&made)?;
    let mut tries = 0;
    while Instant::now() < end {
        for name in ["by_x509", "by_subject", "by_ssl"] {
            ensure!(!target.lets_in(name, ""), "{name} is let in in plain");
            tries += 3;
        }
    }
    Ok(format!("{tries} tries, none let in"))
}

/// From sixteen addresses, of one account and of names that there are not.
pub(super) fn guesses(target: &Target<'_>, end: Instant) -> Result<String> {
    let tries = repeat(32, end, |attacker| {
        let name = if attacker % 2 == 0 { APP } else { "nobody" };
        let from = std::net::Ipv4Addr::new(127, 0, 0, 10 + (attacker / 2) as u8);
        let mut client = FakeClient::connect_from(from, target.port());
        ensure!(client.log_in(name, "guessed").is_err(), "{name} is let in");
        Ok(())
    })?;
    let begun = Instant::now();
    drop(target.client(APP)?);
    Ok(format!("{tries} guesses; then the owner is in after {}", ms(begun.elapsed())))
}

/// More come than Flifo has descriptors.
pub(super) fn descriptors(target: &Target<'_>, end: Instant) -> Result<String> {
    let strangers: Vec<_> =
        (0..400).filter_map(|_| TcpStream::connect(("127.0.0.1", target.port())).ok()).collect();
    let longest = doors_answer(target, end)?;
    drop(strangers);
    Ok(format!("/health and the console answer within {}", ms(longest)))
}

pub(super) fn idle_doors(target: &Target<'_>, end: Instant) -> Result<String> {
    let mut idle = Vec::new();
    for _ in 0..200 {
        idle.push(target.to_http()?);
        let mut begun = target.to_http()?;
        begun.write_all(b"GET /health HT")?;
        idle.push(begun);
        idle.push(target.to_console()?);
    }
    let longest = doors_answer(target, end)?;
    drop(idle);
    Ok(format!("600 idle; /health and the console answer within {}", ms(longest)))
}

/// How long `/health` and the console take at most, until the end.
fn doors_answer(target: &Target<'_>, end: Instant) -> Result<Duration> {
    let mut longest = Duration::ZERO;
    while Instant::now() < end {
        let begun = Instant::now();
        ensure!(target.get("/health")?.starts_with("HTTP/1.1 200"), "Flifo is not well");
        target.console()?;
        longest = longest.max(begun.elapsed());
        ensure!(longest < Duration::from_secs(2), "the console and /health took {longest:?}");
        thread::sleep(Duration::from_millis(50));
    }
    Ok(longest)
}

pub(super) fn other_hosts(target: &Target<'_>, end: Instant) -> Result<String> {
    let mut tries = 0;
    while Instant::now() < end {
        for request in [
            "GET /health HTTP/1.1\r\nConnection: close\r\n\r\n",
            "GET /metrics HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n",
            "GET http://evil.example/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        ] {
            let answer = target.ask_http(request)?;
            ensure!(answer.starts_with("HTTP/1.1 4"), "{request:?} is answered: {answer}");
            tries += 1;
        }
    }
    Ok(format!("{tries} requests, all refused"))
}

/// The server takes a client whose name has no account at Flifo's address for the anonymous user.
pub(super) fn anonymous(target: &Target<'_>, end: Instant) -> Result<String> {
    target.sql(
        "CREATE OR REPLACE USER ''@'localhost'; CREATE OR REPLACE USER alice@'10.%' IDENTIFIED BY 'x'",
    )?;
    let mut tries = 0;
    let mut tried = || {
        while Instant::now() < end {
            for name in ["alice", "whoever"] {
                ensure!(!target.lets_in(name, ""), "{name} is let in");
                tries += 3;
            }
        }
        Ok(())
    };
    let outcome = tried();
    target.sql("DROP USER ''@'localhost'")?;
    outcome.map(|()| format!("{tries} tries, none let in"))
}

pub(super) fn broken_logins(target: &Target<'_>, end: Instant) -> Result<String> {
    let dice = Mutex::new(Dice::of(2));
    let streams = repeat(2, end, |_| {
        let mut client = FakeClient::connect(target.port());
        let Ok(greeting) = client.read_greeting() else { bail!("no greeting") };
        let login = FakeClient::login_payload(&greeting, APP, PASSWORD);
        let mut bytes = Vec::new();
        put_packet(&mut bytes, 1, &login);
        dice.lock().expect("no attacker panics").spoil(&mut bytes);
        client.send(&bytes);
        Ok(())
    })?;
    Ok(format!("{streams} streams"))
}

/// Three hundred that never say a word, one after the other as they are ended.
pub(super) fn half_open(target: &Target<'_>, end: Instant) -> Result<String> {
    let ended = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..30 {
            scope.spawn(|| {
                super::super::others::be_nice();
                while Instant::now() < end {
                    let Ok(silent) = (0..10)
                        .map(|_| TcpStream::connect(("127.0.0.1", target.port())))
                        .collect::<Result<Vec<_>, _>>()
                    else {
                        continue;
                    };
                    for mut stream in silent {
                        let rest = end.saturating_duration_since(Instant::now());
                        let bounded =
                            stream.set_read_timeout(Some(rest + Duration::from_millis(1)));
                        let mut said = Vec::new();
                        if bounded.is_ok() && stream.read_to_end(&mut said).is_ok() {
                            ended.fetch_add(1, Relaxed);
                        }
                    }
                }
            });
        }
    });
    Ok(format!("300 at a time, {} ended by Flifo", ended.into_inner()))
}

pub(super) fn storms(target: &Target<'_>, end: Instant) -> Result<String> {
    let logins = repeat(4, end, |attacker| {
        drop(target.bare(APP, 100 + attacker as u8)?);
        Ok(())
    })?;
    wait(end);
    Ok(format!("{logins} logins"))
}
