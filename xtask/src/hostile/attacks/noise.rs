//! Attacks on what is told: on the log, on the HTTP port, and on the memory for texts.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use testkit::fake_client::FakeClient;

use super::super::target::{APP, PASSWORD, Target};
use super::{ms, repeat, wait};

/// Users whose names end one line of the log and begin another.
pub(super) fn forged_lines(target: &Target<'_>, end: Instant) -> Result<String> {
    const NAMES: [&str; 4] = [
        "a\n2026-01-01T00:00:00Z ERROR forged",
        "a\r\n{\"level\":\"ERROR\",\"message\":\"forged\"}",
        "\u{1b}]0;forged\u{7}",
        "a\u{2028}forged\u{9b}2J",
    ];
    let tries = repeat(2, end, |attacker| {
        for name in NAMES.iter().skip(attacker) {
            // It is refused, and that is told.
            drop(FakeClient::login(target.port(), name, "wrong"));
        }
        Ok(())
    })?;
    let log = target.flifo.log();
    for line in log.lines() {
        let is_own = line.starts_with('{') && line.ends_with('}') || line.starts_with("flifo: ");
        ensure!(is_own || line.starts_with("20"), "a line that Flifo has not written: {line:?}");
        let begins = line.contains("\"message\":\"forged\"") || line.starts_with("2026-01-01");
        ensure!(!begins, "a forged line: {line:?}");
    }
    let is_obeyed = |sign: char| sign != '\n' && sign != '\t' && sign.is_control();
    ensure!(!log.contains(is_obeyed), "the log has signs that a terminal obeys");
    Ok(format!("{tries} times names with line breaks, no line of theirs"))
}

/// Conditions that join a table with itself, and questions after health meanwhile.
pub(super) fn costly_queries(target: &Target<'_>, end: Instant) -> Result<String> {
    const PATIENCE: Duration = Duration::from_secs(2);
    const PATH: &str =
        "/api/stats?where=(SELECT+COUNT(*)+FROM+stats+a+JOIN+stats+b+JOIN+stats+c)>0";
    let longest = Mutex::new(Duration::ZERO);
    let asked = repeat(9, end, |attacker| {
        if attacker > 0 {
            // It is answered, refused, or cut off.
            drop(target.get(PATH));
            return Ok(());
        }
        let begun = Instant::now();
        let told = target.get("/health")?;
        let took = begun.elapsed();
        ensure!(told.contains("ok"), "/health says {told}");
        ensure!(took < PATIENCE, "/health has taken {}", ms(took));
        let mut longest = longest.lock().unwrap_or_else(PoisonError::into_inner);
        *longest = took.max(*longest);
        drop(longest);
        std::thread::sleep(Duration::from_millis(20));
        Ok(())
    })?;
    let longest = longest.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(format!("{asked} questions, /health in {} at most", ms(longest)))
}

/// Clients that prepare different texts, as many as they may, and keep them.
pub(super) fn long_texts(target: &Target<'_>, end: Instant) -> Result<String> {
    const CLIENTS: usize = 20;
    const TEXT: usize = 64 << 10;
    const TEXTS: usize = (16 << 20) / TEXT - 1;
    let (mut clients, mut prepared, mut refused) = (Vec::new(), 0, 0);
    for number in 0..CLIENTS {
        let mut client = FakeClient::login(target.port(), APP, PASSWORD)
            .map_err(|refusal| anyhow::anyhow!("{refusal:?}"))?;
        for text in 0..TEXTS {
            let text = format!("SELECT '{number} {text} {}'", "x".repeat(TEXT));
            match client.prepare(&text) {
                Ok(_) => prepared += 1,
                Err(_) => refused += 1,
            }
        }
        ensure!(client.query("SELECT 1").is_ok(), "a client that was refused a text goes on");
        clients.push(client);
        if Instant::now() >= end {
            break;
        }
    }
    wait(end);
    Ok(format!("{prepared} texts of 64 KiB were prepared, {refused} refused"))
}

/// Rules that have a text looked through by several ways.
pub(super) const MATCHES: &str = r#"workers = 1
[[rules]]
name = "secrets"
match.text_matches = '\b[a-z]+ [a-z]+ (secret|hidden)[0-9]+\b'
refuse = true
[[rules]]
name = "orders"
match.text_matches = 'from orders_[0-9]+ where .* limit'
refuse = true
"#;

/// Texts of 14 MiB, in all of which expressions are looked for. The server has work with them as well, so what others
/// wait for is what Flifo answers by itself.
pub(super) fn matched_texts(target: &Target<'_>, end: Instant) -> Result<String> {
    const TEXT: usize = 14 << 20;
    const PACE: Duration = Duration::from_millis(2);
    target.sql("SET GLOBAL max_allowed_packet = 67108864")?;
    let text = format!("SELECT LENGTH('{}')", "from orders_1 where secre ".repeat(TEXT / 26));
    let (texts, pings) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let note = |times: &Mutex<Vec<Duration>>, begun: Instant| {
        times.lock().unwrap_or_else(PoisonError::into_inner).push(begun.elapsed());
    };
    repeat(3, end, |attacker| {
        if attacker < 2 {
            let (mut client, begun) = (target.client(APP)?, Instant::now());
            let answer = client.query(&text).map_err(|problem| anyhow::anyhow!("{problem}"))?;
            ensure!(answer.len() == 1, "a length is asked for: {answer:?}");
            note(&texts, begun);
            return Ok(());
        }
        let mut client = target.bare(APP, 40)?;
        while Instant::now() < end {
            let begun = Instant::now();
            ensure!(client.command(b"\x0e").is_ok(), "a ping is answered");
            note(&pings, begun);
            std::thread::sleep(PACE);
        }
        Ok(())
    })?;
    let sorted = |times: Mutex<Vec<Duration>>| {
        let mut times = times.into_inner().unwrap_or_else(PoisonError::into_inner);
        times.sort_unstable();
        times
    };
    let (texts, pings) = (sorted(texts), sorted(pings));
    let text = texts.get(texts.len() / 2).copied().unwrap_or_default();
    let ping = pings.last().copied().unwrap_or_default();
    let told =
        format!("{} texts in {} (median), pings in {} at most", texts.len(), ms(text), ms(ping));
    // A text waits for the search in the other one, and for its own.
    ensure!(ping * 4 < text, "long texts hold up others: {told}");
    Ok(told)
}
