//! The TLS inside a stream: what is decrypted and not yet read, what is encrypted and not yet sent.
//!
//! Drives rustls by hand over the non-blocking socket. Never waits: the caller gets `WouldBlock`.
//!
//! Invariants: one read of the socket per read; ciphertext is taken from the socket only when no
//! plaintext is left, and decrypted only as fast as the plaintext is read, so that a peer cannot
//! fill memory; nothing is encrypted while older ciphertext waits; an error found behind good bytes
//! is told after them.

use std::cell::{Cell, RefCell};
use std::io::{self, BufRead, IoSlice, Read, Write};
use std::ops::Range;
use std::sync::Arc;

use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use wire::auth::certificate::Fingerprint;

use super::socket::Socket;
use crate::tls::hint;

#[derive(Debug)]
pub(super) struct Session {
    state: RefCell<State>,
    /// What a client was shown.
    pub(super) shown: Option<Fingerprint>,
}

#[derive(Debug)]
struct State {
    tls: Connection,
    /// Holds the ciphertext that was read and not decrypted. It belongs to the thread and is kept
    /// only while some is.
    buffer: Vec<u8>,
    /// Where in `buffer` that ciphertext is.
    encrypted: Range<usize>,
    /// What was decrypted when the owner looked away is not announced.
    set_aside: bool,
    /// The peer sends no more.
    ended: bool,
    failure: Option<rustls::Error>,
}

/// What the two sides have agreed on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFacts {
    /// As MySQL shows it, for example `TLSv1.3`.
    pub version: &'static str,
    /// The name that the registry of TLS knows it by, for example `TLS_AES_256_GCM_SHA384`.
    pub cipher: String,
    /// The name that a client has asked for.
    pub server_name: Option<String>,
    /// The peer has shown a certificate. Whether it was verified is a matter of the configuration.
    pub has_certificate: bool,
}

/// Plaintext taken at once, and so the bound of the ciphertext that waits.
const TAKEN_MAX: usize = 64 << 10;

/// Ciphertext read at once: two records of the longest kind.
const READ_MAX: usize = 33 << 10;

thread_local! {
    /// The buffer that all sessions of the thread read into, so that an idle one needs none.
    static BUFFER: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Session {
    pub(super) fn server(config: Arc<ServerConfig>) -> io::Result<Self> {
        let tls = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(Self::new(Connection::Server(tls)))
    }

    pub(super) fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> io::Result<Self> {
        let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        Ok(Self::new(Connection::Client(tls)))
    }

    fn new(mut tls: Connection) -> Self {
        tls.set_buffer_limit(Some(TAKEN_MAX));
        let state = State {
            tls,
            buffer: Vec::new(),
            encrypted: 0..0,
            set_aside: false,
            ended: false,
            failure: None,
        };
        Self { state: RefCell::new(state), shown: None }
    }

    /// Hands over what was read from the socket before the session was made.
    pub(super) fn begin(&self, already_read: &[u8]) {
        let mut state = self.state.borrow_mut();
        state.buffer = already_read.to_vec();
        state.encrypted = 0..already_read.len();
    }

    /// Takes the handshake as far as it goes now.
    pub(super) fn try_handshake(&self, socket: &Socket) -> io::Result<()> {
        let mut state = self.state.borrow_mut();
        loop {
            state.flush(socket)?;
            if !state.tls.is_handshaking() {
                return Ok(());
            }
            if state.encrypted.is_empty() {
                state.read(socket)?;
            }
            state.decrypt();
            if let Some(failure) = &state.failure {
                let failure = broken(failure);
                // The peer is told why, if it can be.
                let _ = state.flush(socket);
                return Err(failure);
            }
            if state.ended {
                let why = "the peer closed the connection during the TLS handshake";
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, why));
            }
        }
    }

    pub(super) fn try_read(&self, socket: &Socket, buffer: &mut [u8]) -> io::Result<usize> {
        let mut state = self.state.borrow_mut();
        state.set_aside = false;
        socket.restore();
        let mut filled = state.take(buffer);
        if filled == 0 && !state.ended && state.failure.is_none() {
            state.read(socket)?;
            filled = state.take(buffer);
            if state.tls.wants_write() {
                // An answer of the protocol itself. What the socket does not take goes ahead of the
                // next write.
                let _ = state.flush(socket);
            }
        }
        match &state.failure {
            _ if filled > 0 => Ok(filled),
            Some(failure) => Err(broken(failure)),
            None if state.ended => Ok(0),
            // A part of a record, or none that has data.
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    pub(super) fn try_write(&self, socket: &Socket, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut state = self.state.borrow_mut();
        if let Some(failure) = &state.failure {
            return Err(broken(failure));
        }
        state.flush(socket)?;
        let taken = state.tls.writer().write_vectored(slices)?;
        match state.flush(socket) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    pub(super) fn try_flush(&self, socket: &Socket) -> io::Result<()> {
        self.state.borrow_mut().flush(socket)
    }

    pub(super) fn wants_flush(&self) -> bool {
        self.state.borrow().tls.wants_write()
    }

    /// Says whether a read need not ask the socket.
    pub(super) fn has_news(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let is_over = state.ended || state.failure.is_some();
        is_over || !state.set_aside && (!state.encrypted.is_empty() || state.has_plaintext())
    }

    pub(super) fn set_aside(&self) {
        self.state.borrow_mut().set_aside = true;
    }

    pub(super) fn is_ended(&self) -> bool {
        self.state.borrow().ended
    }

    /// Says farewell, if the socket takes it at once.
    pub(super) fn close(&self, socket: &Socket) {
        let mut state = self.state.borrow_mut();
        if !state.tls.is_handshaking() && state.failure.is_none() {
            state.tls.send_close_notify();
            let _ = state.flush(socket);
        }
    }

    /// The certificate that the peer has shown.
    pub(super) fn peer_certificate(&self) -> Option<Fingerprint> {
        let state = self.state.borrow();
        let chain = state.tls.peer_certificates()?;
        chain.first().map(|certificate| Fingerprint::of(certificate))
    }

    pub(super) fn facts(&self) -> TlsFacts {
        let state = self.state.borrow();
        let cipher = state.tls.negotiated_cipher_suite().map(|suite| suite.suite());
        TlsFacts {
            version: match state.tls.protocol_version() {
                Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
                Some(rustls::ProtocolVersion::TLSv1_3) => "TLSv1.3",
                _ => "unknown",
            },
            // rustls tells the suites of TLS 1.3 apart by a prefix of its own.
            cipher: cipher
                .and_then(|cipher| cipher.as_str())
                .map_or_else(String::new, |name| name.replacen("TLS13_", "TLS_", 1)),
            server_name: match &state.tls {
                Connection::Server(tls) => tls.server_name().map(str::to_owned),
                Connection::Client(_) => None,
            },
            has_certificate: state.tls.peer_certificates().is_some(),
        }
    }
}

#[cfg(test)]
impl Session {
    /// Bytes of buffer that it keeps.
    pub(super) fn buffered(&self) -> usize {
        self.state.borrow().buffer.capacity()
    }

    pub(super) fn renew_keys(&self) {
        let renewed = match &mut self.state.borrow_mut().tls {
            Connection::Client(tls) => tls.refresh_traffic_keys(),
            Connection::Server(tls) => tls.refresh_traffic_keys(),
        };
        renewed.unwrap();
    }
}

impl State {
    /// Fills `buffer` with plaintext, decrypting what is needed for it.
    fn take(&mut self, buffer: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.tls.reader().read(&mut buffer[filled..]) {
                Ok(read) if read > 0 => filled += read,
                _ if self.encrypted.is_empty() => break,
                _ => self.decrypt(),
            }
        }
        filled
    }

    fn has_plaintext(&mut self) -> bool {
        self.tls.reader().fill_buf().is_ok_and(|bytes| !bytes.is_empty())
    }

    /// Reads ciphertext from the socket. There must be none left.
    fn read(&mut self, socket: &Socket) -> io::Result<()> {
        let mut buffer = BUFFER.take();
        buffer.resize(READ_MAX, 0);
        match socket.try_read(&mut buffer) {
            Ok(read) => {
                self.ended = read == 0;
                self.encrypted = 0..read;
                self.buffer = buffer;
                if read == 0 {
                    self.give_back();
                }
                Ok(())
            }
            Err(error) => {
                BUFFER.set(buffer);
                Err(error)
            }
        }
    }

    /// Gives rustls a piece of the ciphertext. There must be no plaintext left, so rustls has room
    /// for more.
    fn decrypt(&mut self) {
        let mut piece = &self.buffer[self.encrypted.clone()];
        let there = piece.len();
        let read = self.tls.read_tls(&mut piece);
        self.encrypted.start += there - piece.len();
        let result = match read {
            Ok(_) => self.tls.process_new_packets(),
            Err(error) => Err(rustls::Error::General(error.to_string())),
        };
        match result {
            // What follows a farewell does not count.
            Ok(state) => self.ended |= state.peer_has_closed(),
            Err(error) => self.failure = Some(error),
        }
        if self.encrypted.is_empty() || self.ended || self.failure.is_some() {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        self.encrypted = 0..0;
        BUFFER.set(std::mem::take(&mut self.buffer));
    }

    fn flush(&mut self, socket: &Socket) -> io::Result<()> {
        while self.tls.wants_write() {
            if self.tls.write_tls(&mut Out(socket))? == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
        }
        Ok(())
    }
}

/// The socket as rustls wants it.
struct Out<'a>(&'a Socket);

impl Write for Out<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A failure of TLS, with what to do about it.
#[derive(Debug, thiserror::Error)]
#[error("TLS failed: {failure}{}", hint(.failure))]
struct Broken {
    #[source]
    failure: rustls::Error,
}

/// What TLS itself failed of, where it did.
pub(crate) fn failure(error: &io::Error) -> Option<&rustls::Error> {
    let broken = error.get_ref()?.downcast_ref::<Broken>()?;
    Some(&broken.failure)
}

fn broken(failure: &rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, Broken { failure: failure.clone() })
}
