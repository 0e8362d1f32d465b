//! The two ends of the experiment: servers that only accept, and a client that asks for pages.
//!
//! Each has a thread of its own, whose CPU time is not counted as a cost. Invariants: nothing waits without a deadline;
//! what was started ends when it is dropped.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::figures::histogram::Histogram;
use crate::interrupt::Interrupt;

/// Servers that accept every connection, and close it.
pub(super) struct Servers {
    addresses: Vec<SocketAddr>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Servers {
    pub(super) fn start(count: usize) -> Result<Self> {
        let mut listeners = Vec::new();
        for _ in 0..count {
            let listener = std::net::TcpListener::bind("127.0.0.1:0")
                .context("no port is free for a fake server")?;
            listener.set_nonblocking(true)?;
            listeners.push(listener);
        }
        let addresses: std::io::Result<_> =
            listeners.iter().map(std::net::TcpListener::local_addr).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let serve = move || {
            runtime.block_on(async {
                for listener in listeners {
                    tokio::spawn(accept(listener));
                }
                while !stopped.load(Ordering::Relaxed) {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                }
            });
        };
        let thread = std::thread::Builder::new().name("fake servers".into()).spawn(serve)?;
        Ok(Self { addresses: addresses?, stop, thread: Some(thread) })
    }

    pub(super) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }
}

async fn accept(listener: std::net::TcpListener) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    // An accepted connection is dropped at once: a check needs no more.
    while listener.accept().await.is_ok() {}
}

impl Drop for Servers {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed.
            let _ = thread.join();
        }
    }
}

/// Connections over which pages are asked for: they reach many workers.
const CONNECTIONS: usize = 64;

const PATIENCE: Duration = Duration::from_secs(20);

/// Asks for pages, one after the other, for so long; tells how long each first byte took.
pub(super) fn ask_for_pages(
    addresses: &[SocketAddr],
    time: Duration,
    interrupt: &Interrupt,
) -> Result<Histogram> {
    let mut connections = Vec::new();
    for number in 0..CONNECTIONS {
        connections.push(connect(addresses[number % addresses.len()])?);
    }
    let mut waits = Histogram::default();
    let begin = Instant::now();
    for turn in 0_usize.. {
        if begin.elapsed() >= time {
            break;
        }
        if turn.is_multiple_of(1024) {
            interrupt.check()?;
        }
        let at = turn % CONNECTIONS;
        let asked = Instant::now();
        let (wait, stays) = ask(&mut connections[at], asked)?;
        waits.record(u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX));
        if !stays {
            connections[at] = connect(addresses[at % addresses.len()])?;
        }
    }
    Ok(waits)
}

fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).context("no page is served")?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Asks for one page. The wait for its first byte, and whether the connection goes on.
fn ask(stream: &mut TcpStream, asked: Instant) -> Result<(Duration, bool)> {
    stream.write_all(b"GET /stats;csv HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut page = vec![0; 64 << 10];
    let mut len = stream.read(&mut page)?;
    let wait = asked.elapsed();
    // The rest: what its head says that there is, or all until the end.
    let (body_at, body) = loop {
        if let Some(found) = head(&page[..len]) {
            break found;
        }
        if len == page.len() {
            bail!("the page's head does not end");
        }
        match stream.read(&mut page[len..])? {
            0 => bail!("the page breaks off"),
            read => len += read,
        }
    };
    let mut left = match body {
        Body::Length(length) => (body_at + length).saturating_sub(len),
        Body::Chunked | Body::UntilEnd => usize::MAX,
    };
    let mut last = page[..len].to_vec();
    while left > 0 && !(body == Body::Chunked && last.ends_with(LAST_CHUNK)) {
        let read = stream.read(&mut page)?;
        if read == 0 {
            return Ok((wait, false));
        }
        left = left.saturating_sub(read);
        last.drain(..last.len().saturating_sub(LAST_CHUNK.len()));
        last.extend_from_slice(&page[..read]);
    }
    Ok((wait, true))
}

/// How the end of a page is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Body {
    Length(usize),
    Chunked,
    UntilEnd,
}

/// What ends a page that comes in chunks.
const LAST_CHUNK: &[u8] = b"\r\n0\r\n\r\n";

/// Where the body begins, and what its head says of its end.
fn head(page: &[u8]) -> Option<(usize, Body)> {
    let end = page.windows(4).position(|window| window == b"\r\n\r\n")? + 4;
    let text = String::from_utf8_lossy(&page[..end]).to_lowercase();
    let header = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let length = header("content-length:").and_then(|length| length.trim().parse().ok());
    let is_chunked = header("transfer-encoding:").is_some_and(|it| it.trim() == "chunked");
    let body = match length {
        _ if is_chunked => Body::Chunked,
        Some(length) => Body::Length(length),
        None => Body::UntilEnd,
    };
    Some((end, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_says_where_its_page_ends() {
        let of = |page: &str| head(page.as_bytes());
        assert_eq!(
            of("HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nx"),
            Some((38, Body::Length(7)))
        );
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        assert_eq!(of(chunked), Some((chunked.len(), Body::Chunked)));
        assert_eq!(of("HTTP/1.0 200 OK\r\n\r\n"), Some((19, Body::UntilEnd)));
        assert_eq!(of("HTTP/1.1 200 OK\r\n"), None);
    }
}
