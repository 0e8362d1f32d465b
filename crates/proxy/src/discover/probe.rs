//! Asks an address what answers there: a MySQL server speaks first.

use std::io::{self, Read};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use backend::Address;
use wire::frame::{HEADER, Header};
use wire::handshake::Greeting;
use wire::response::{ERR, ErrPacket};

/// Connects, reads the greeting and hangs up. Tells what server it is, or why it is none.
///
/// Blocks, for a second or two at most: for use before the proxy runs.
pub fn greeting(address: &Address) -> Result<String, String> {
    let payload = first_packet(address).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => "it does not answer".to_owned(),
        io::ErrorKind::UnexpectedEof => "it hangs up at once".to_owned(),
        _ => error.to_string(),
    })?;
    if payload.first() == Some(&ERR) {
        // A server all the same, though it lets no client in now: it has too many connections.
        let refusal = ErrPacket::decode(&payload).map_err(|error| error.to_string())?;
        return Ok(format!("a server that says \"{}\"", printable(refusal.message)));
    }
    let greeting = Greeting::decode(&payload).map_err(|_| STRANGER.to_owned())?;
    let version = printable(&greeting.version);
    // MariaDB before 11 hides its version from clients that would stumble over two digits.
    let version = version.strip_prefix("5.5.5-").unwrap_or(&version);
    Ok(match version.split_once("-MariaDB") {
        Some((number, _)) => format!("MariaDB {number}"),
        None => format!("MySQL {version}"),
    })
}

fn first_packet(address: &Address) -> io::Result<Vec<u8>> {
    match address {
        Address::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(ANSWER_MAX))?;
            read_packet(stream)
        }
        Address::Tcp { host, port } => {
            let mut addresses = (host.as_str(), *port).to_socket_addrs()?;
            let address = addresses.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
            let stream = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
            stream.set_read_timeout(Some(ANSWER_MAX))?;
            read_packet(stream)
        }
    }
}

fn read_packet(mut stream: impl Read) -> io::Result<Vec<u8>> {
    let mut header = [0; HEADER];
    stream.read_exact(&mut header)?;
    let Header { len, sequence } = Header::decode(header);
    if sequence != 0 || GREETING_MAX < len {
        return Err(io::Error::new(io::ErrorKind::InvalidData, STRANGER));
    }
    let mut payload = vec![0; len];
    stream.read_exact(&mut payload)?;
    Ok(payload)
}

/// A few words from a peer, bounded, and without anything that a terminal would obey.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    text.chars().take(200).filter(|letter| !letter.is_control()).collect()
}

const STRANGER: &str = "what answers there does not speak MySQL's protocol";
const ANSWER_MAX: Duration = Duration::from_secs(1);
/// Greetings are about a hundred bytes long.
const GREETING_MAX: usize = 1024;

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    /// What is told of a server that begins with these bytes.
    fn check(bytes: &'static [u8]) -> Result<String, String> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("has one").port();
        let server = thread::spawn(move || {
            listener.accept().expect("comes").0.write_all(bytes).expect("writes");
        });
        let told = greeting(&Address::Tcp { host: "127.0.0.1".to_owned(), port });
        server.join().expect("writes");
        told
    }

    #[test]
    fn servers_are_told_by_their_greeting() {
        let mariadb = b"\x53\0\0\0\x0a5.5.5-10.11.19-MariaDB-1\0\x05\0\0\0abcdefgh\0\xfe\xf7\x08\
            \x02\0\xff\x81\x15\0\0\0\0\0\0\x1d\0\0\0abcdefghijkl\0mysql_native_";
        assert_eq!(check(mariadb).as_deref(), Ok("MariaDB 10.11.19"));
        let mysql = b"\x42\0\0\0\x0a8.0.36\0\x05\0\0\0abcdefgh\0\xff\xff\xff\
            \x02\0\xff\xdf\x15\0\0\0\0\0\0\0\0\0\0abcdefghijkl\0mysql_native_p";
        assert_eq!(check(mysql).as_deref(), Ok("MySQL 8.0.36"));
        let full = b"\x17\0\0\0\xff\x10\x04Too many connections";
        assert_eq!(check(full).as_deref(), Ok("a server that says \"Too many connections\""));
    }

    #[test]
    fn others_are_no_servers() {
        for (bytes, want) in [
            (&b"SSH-2.0-OpenSSH_9.2\r\n"[..], "does not speak"),
            (b"\x02\0\0\0\x0a8", "does not speak"),
            (b"\x05\0\0\0\x0a8", "hangs up"),
            (b"", "hangs up"),
        ] {
            let why = check(bytes).expect_err("is no server");
            assert!(why.contains(want), "{why}");
        }
        let nobody = Address::Unix("/nonexistent/mysqld.sock".into());
        assert!(greeting(&nobody).is_err());
    }
}
