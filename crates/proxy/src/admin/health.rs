//! Asks a Flifo that runs how it is, by its HTTP port: `flifo health`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::config::{Listen, Plan};

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether all workers answer.
    Health,
    /// Whether statements can be served.
    Ready,
}

/// How a Flifo answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HealthAnswer {
    Well,
    /// Not so, and why.
    Unwell(String),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    #[error("http.listen names no address, and --http none either")]
    NoAddress,
    #[error("no Flifo answers on {address}: {error}")]
    Unreachable { address: Listen, error: io::Error },
}

/// Asks the Flifo that runs with this plan; at `address`, if there is one, instead of the plan's.
pub fn ask(
    plan: &Plan,
    address: Option<SocketAddr>,
    question: Question,
    patience: Duration,
) -> Result<HealthAnswer, HealthError> {
    let address = address.map(Listen::Tcp).or_else(|| plan.http.listen.first().cloned());
    let address = address.ok_or(HealthError::NoAddress)?;
    let answered = exchange(&address, question, patience);
    answered.map_err(|error| HealthError::Unreachable { address, error })
}

fn exchange(address: &Listen, question: Question, patience: Duration) -> io::Result<HealthAnswer> {
    let end = crate::worker::clock::read() + patience;
    let left = || {
        end.saturating_duration_since(crate::worker::clock::read()).max(Duration::from_millis(1))
    };
    match address {
        Listen::Tcp(address) => {
            let stream = TcpStream::connect_timeout(&reachable(*address), patience)?;
            stream.set_write_timeout(Some(patience))?;
            converse(&stream, question, || stream.set_read_timeout(Some(left())))
        }
        Listen::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_write_timeout(Some(patience))?;
            converse(&stream, question, || stream.set_read_timeout(Some(left())))
        }
    }
}

/// `before`: sets how long the next read may take.
fn converse(
    mut stream: impl Read + Write,
    question: Question,
    before: impl Fn() -> io::Result<()>,
) -> io::Result<HealthAnswer> {
    let path = match question {
        Question::Health => "/health",
        Question::Ready => "/ready",
    };
    let request = format!("GET {path} HTTP/1.1\r\nHost: flifo\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let (mut answer, mut piece) = (Vec::new(), [0; 1024]);
    while answer.len() < ANSWER_MAX {
        before()?;
        let length = match stream.read(&mut piece)? {
            0 => break,
            length => length,
        };
        answer.extend_from_slice(&piece[..length]);
    }
    read(&answer)
}

/// What an answer says.
fn read(answer: &[u8]) -> io::Result<HealthAnswer> {
    let text = String::from_utf8_lossy(answer);
    let not_flifo = || io::Error::other("that is no answer of a Flifo");
    let (head, body) = text.split_once("\r\n\r\n").ok_or_else(not_flifo)?;
    let status = head.split(' ').nth(1).filter(|_| head.starts_with("HTTP/1."));
    match status {
        Some("200") => Ok(HealthAnswer::Well),
        Some("503") => Ok(HealthAnswer::Unwell(body.trim().to_owned())),
        _ => Err(not_flifo()),
    }
}

/// Where a socket is reached that listens on all addresses: on this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(it) if it.ip().is_unspecified() => ([127, 0, 0, 1], it.port()).into(),
        SocketAddr::V6(it) if it.ip().is_unspecified() => {
            (std::net::Ipv6Addr::LOCALHOST, it.port()).into()
        }
        address => address,
    }
}

/// An answer is a line.
const ANSWER_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_by_their_status() {
        let unwell = |why: &str| Some(HealthAnswer::Unwell(why.to_owned()));
        for (answer, want) in [
            ("HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nok\n", Some(HealthAnswer::Well)),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\ndb1: down\n", unwell("db1: down")),
            ("HTTP/1.1 404 Not Found\r\n\r\n", None),
            ("HTTP/1.1 200 OK\r\n", None),
            ("SSH-2.0 200 \r\n\r\n", None),
            ("", None),
        ] {
            assert_eq!(read(answer.as_bytes()).ok(), want, "{answer}");
        }
    }

    #[test]
    fn all_addresses_are_reached_on_this_machine() {
        for (address, want) in [
            ("0.0.0.0:6034", "127.0.0.1:6034"),
            ("[::]:6034", "[::1]:6034"),
            ("10.0.0.7:6034", "10.0.0.7:6034"),
        ] {
            let address: SocketAddr = address.parse().expect("an address");
            assert_eq!(reachable(address).to_string(), want);
        }
    }
}
