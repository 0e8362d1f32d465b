//! A client and a server of a few bytes' wit, for what real ones do not let a test do.
//!
//! The server greets, lets everybody in, and reads when the test lets it. Commands are values that are sent ahead of
//! an execute, to which no server replies.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use testkit::flifo::Flifo;

/// More than the kernel's buffers and Flifo's hold between the client and the server.
const MUCH: usize = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_long_value_passes_to_a_server_that_takes_its_time() {
    let (flifo, server) = flifo_and_server();
    let mut client = log_in(&flifo);
    let mut served = server.recv_timeout(PATIENCE).expect("a backend");
    // A command of packets of the longest kind, each of which another one follows.
    let full = packet(0, 0x18, (1 << 24) - 1);
    let len = 4 * full.len() + 4;
    let upload = thread::spawn(move || {
        for sequence in 0..4 {
            client.write_all(&[&full[..3], &[sequence]].concat())?;
            client.write_all(&full[4..])?;
        }
        // The client stays: Flifo drops the backend of one that goes in the middle.
        client.write_all(&[0, 0, 0, 4]).map(|()| client)
    });
    // Meanwhile the buffers on the way fill.
    thread::sleep(Duration::from_secs(1));
    served.read_exact(&mut vec![0; len]).expect("all of it, in time");
    upload.join().expect("no panic").expect("is taken");
}

#[test]
fn values_do_not_pile_up_before_a_server_that_does_not_read() {
    let (flifo, server) = flifo_and_server();
    let mut client = log_in(&flifo);
    let _unread = server.recv_timeout(PATIENCE).expect("a backend");
    client.set_write_timeout(Some(Duration::from_secs(1))).expect("is set");
    let piece = packet(0, 0x18, 50_000);
    let mut sent = 0;
    while sent < MUCH {
        match client.write(&piece) {
            Ok(written) if written == piece.len() => sent += written,
            Ok(_) => return,
            Err(error) => return assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    panic!("Flifo has taken {sent} bytes that nobody reads");
}

#[test]
fn a_client_that_compresses_unasked_is_told_so() {
    let (flifo, _server) = flifo_and_server();
    let (_, answer) = ask_to_be_let_in(&flifo, CAPABILITIES | 1 << 5);
    assert_eq!(answer.get(..3), Some(&[0xff, 0x13, 0x04][..]), "error 1043");
    let message = String::from_utf8_lossy(&answer[3..]);
    assert!(message.contains("turn compression off in the client"), "{message}");
}

#[test]
fn a_change_of_user_is_answered_in_order() {
    // A server that answers nothing says nothing of accounts.
    let knows_me = "\naccount_terms = \"flifo\"\n[[users]]\nname = \"me\"\npassword = \"\"\n";
    let (flifo, _server) = flifo_and_server_with(knows_me);
    let change = |user: &str| framed(0, &[b"\x11", user.as_bytes(), b"\0\0\0"].concat());

    let mut client = log_in(&flifo);
    client.write_all(&change("nobody")).expect("is sent");
    let (sequence, answer) = read_frame(&mut client).expect("an answer");
    assert_eq!((sequence, answer.first()), (1, Some(&0)), "the server decides, and lets in");

    let mut client = log_in(&flifo);
    client.write_all(&change("me")).expect("is sent");
    let (sequence, answer) = read_frame(&mut client).expect("a question");
    assert_eq!((sequence, answer.first()), (1, Some(&0xfe)));
    client.write_all(&framed(2, &[7; 20])).expect("is sent");
    let (sequence, answer) = read_frame(&mut client).expect("an answer");
    assert_eq!((sequence, answer.get(..3)), (3, Some(&[0xff, 0x15, 0x04][..])), "error 1045");
}

/// A packet of `len` bytes with a command without a meaning for the rest of it.
fn packet(sequence: u8, command: u8, len: usize) -> Vec<u8> {
    let mut bytes = (len as u32).to_le_bytes().to_vec();
    bytes[3] = sequence;
    bytes.push(command);
    bytes.resize(4 + len, 0);
    bytes
}

/// The server hands over its end of each connection on which a client has logged in.
fn flifo_and_server() -> (Flifo, mpsc::Receiver<TcpStream>) {
    flifo_and_server_with("")
}

fn flifo_and_server_with(users: &str) -> (Flifo, mpsc::Receiver<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let served = stream.and_then(let_in);
            if served.is_ok_and(|stream| sender.send(stream).is_err()) {
                return;
            }
        }
    });
    let config = format!("[server]\naddress = \"127.0.0.1:{port}\"\ntls = \"off\"\n{users}");
    (Flifo::start(&config), receiver)
}

fn let_in(mut stream: TcpStream) -> io::Result<TcpStream> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(&framed(0, &greeting()))?;
    read_packet(&mut stream)?;
    stream.write_all(&framed(2, &[0, 0, 0, 2, 0, 0, 0]))?;
    Ok(stream)
}

fn log_in(flifo: &Flifo) -> TcpStream {
    let (stream, answer) = ask_to_be_let_in(flifo, CAPABILITIES);
    assert_eq!(answer.first(), Some(&0), "is let in");
    stream
}

fn ask_to_be_let_in(flifo: &Flifo, capabilities: u32) -> (TcpStream, Vec<u8>) {
    let mut stream = TcpStream::connect(("127.0.0.1", flifo.port())).expect("connects");
    stream.set_read_timeout(Some(PATIENCE)).expect("is set");
    read_packet(&mut stream).expect("a greeting");
    let mut login = capabilities.to_le_bytes().to_vec();
    login.extend_from_slice(&[0, 0, 0, 1, 45]);
    login.resize(32, 0);
    login.extend_from_slice(b"me\0\0mysql_native_password\0");
    stream.write_all(&framed(1, &login)).expect("is sent");
    let answer = read_packet(&mut stream).expect("an answer");
    (stream, answer)
}

/// Protocol 4.1, transactions, secure login, plugins: as little as a login needs.
const CAPABILITIES: u32 = 0x0008_a200;

fn greeting() -> Vec<u8> {
    let [low, high] = [CAPABILITIES as u16, (CAPABILITIES >> 16) as u16].map(u16::to_le_bytes);
    let rest: [&[u8]; 8] =
        [b"aaaaaaaa\0", &low, &[45, 2, 0], &high, &[21], &[0; 10], b"aaaaaaaaaaaa\0", PLUGIN];
    [b"\x0a10.11.0-MariaDB\0\x01\0\0\0", rest.concat().as_slice()].concat()
}

const PLUGIN: &[u8] = b"mysql_native_password\0";

fn framed(sequence: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (payload.len() as u32).to_le_bytes().to_vec();
    bytes[3] = sequence;
    bytes.extend_from_slice(payload);
    bytes
}

fn read_packet(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    read_frame(stream).map(|(_, payload)| payload)
}

/// A packet and its number.
fn read_frame(stream: &mut TcpStream) -> io::Result<(u8, Vec<u8>)> {
    let mut header = [0; 4];
    stream.read_exact(&mut header)?;
    let sequence = std::mem::take(&mut header[3]);
    let mut payload = vec![0; u32::from_le_bytes(header) as usize];
    stream.read_exact(&mut payload)?;
    Ok((sequence, payload))
}
