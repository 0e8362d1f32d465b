//! What befalls the server, the disk and the process itself.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rustix::process::Signal;
use testkit::fake_client::FakeClient;

use super::super::target::{ALONE, APP, Target};
use super::{repeat, wait};

/// Those that have no meaning, too.
pub(super) fn signals(target: &Target<'_>, end: Instant) -> Result<String> {
    let mut sent = 0;
    while Instant::now() < end {
        for signal in [Signal::HUP, Signal::USR1, Signal::USR2] {
            target.flifo.signal(signal);
            sent += 1;
        }
        thread::sleep(Duration::from_millis(20));
    }
    drop(target.client(APP)?);
    Ok(format!("{sent} signals"))
}

/// Two hundred clients lose their server at once, and ask again and again.
pub(super) fn killed_server(target: &Target<'_>, end: Instant) -> Result<String> {
    let mut clients = crowd(target, 200)?;
    let before = target.flifo.log().lines().count();
    let (begun, mut asked) = (Instant::now(), 0);
    target.lose_server(|| {
        while Instant::now() < end {
            for client in &mut clients {
                // They are refused, or their connection is ended.
                let _ = client.query("SELECT 1");
                asked += 1;
            }
            clients.extend((0..20).filter_map(|_| target.bare(ALONE, 31).ok()));
        }
        Ok(())
    })?;
    let lines = (target.flifo.log().lines().count() - before) as u64;
    ensure!(lines <= 100 * (1 + begun.elapsed().as_secs()), "{lines} lines are logged");
    Ok(format!("{asked} statements failed, {lines} lines of the log"))
}

/// The server stops for as long as the attack lasts, and goes on; so do its clients.
pub(super) fn frozen_server(target: &Target<'_>, end: Instant) -> Result<String> {
    let mut clients = crowd(target, 100)?;
    target.freeze_server(|| {
        for client in &mut clients {
            client.send_packet(0, b"\x03SELECT 1");
        }
        wait(end);
        Ok(())
    })?;
    let answered = clients.iter_mut().filter_map(|client| client.read_answer().ok()).count();
    ensure!(answered == clients.len(), "of {} clients {answered} are answered", clients.len());
    Ok(format!("{answered} clients, all answered behind it"))
}

fn crowd(target: &Target<'_>, clients: usize) -> Result<Vec<FakeClient>> {
    (0..clients).map(|number| target.bare([APP, ALONE][number % 2], 30)).collect()
}

/// What cannot be logged is lost, and nothing else.
pub(super) fn full_disk(target: &Target<'_>, end: Instant) -> Result<String> {
    let lines = repeat(2, end, |_| {
        // Each says why it is passed through.
        drop(target.builder("nobody at all", "x").connect());
        Ok(())
    })?;
    Ok(format!("{lines} failed logins"))
}
