//! Where a reply ends, as a client sees it; written apart from the product's own follower, which it judges.
//!
//! Owns the reading of packets, not what they mean. Invariant: every byte that came is in a packet that is given back,
//! but for the flags that [`super::peer`] names as masked.

use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::task::{Context, Poll};

use wire::bytes::Reader;
use wire::frame::{HEADER, Header, put_packet};
use wire::response::{EOF, ERR, LOCAL_INFILE, OK, Status};

use super::program::Abilities;
use super::told::Told;

/// One packet; a long one is put together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub sequence: u8,
    pub payload: Vec<u8>,
}

/// What a command is answered with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Nothing,
    One,
    Results,
    Prepared,
    Rows,
    Fields,
}

/// What a client is connected by.
pub trait Link: Send {
    /// Reads what has come; 0 is the end.
    fn poll_read(&mut self, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>>;

    /// Takes some of these bytes.
    fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>>;
}

/// A socket, whose thread waits.
impl Link for TcpStream {
    fn poll_read(&mut self, _: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.read(into))
    }

    fn poll_write(&mut self, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(self.write(bytes))
    }
}

/// A stream of packets.
pub(super) struct Packets {
    stream: Box<dyn Link>,
    unread: Vec<u8>,
    at: usize,
    /// The server's flags on how it has planned a statement are taken off.
    pub(super) hides_plans: bool,
    pub(super) told: Told,
}

/// What a client answers to `LOAD DATA LOCAL`.
const FILE: &[u8] = b"501\tlocal\n502\tfile\n";

/// Status flags in the OK or EOF that ends something, however it is written.
struct End(Status);

impl Packets {
    pub(super) fn new(stream: Box<dyn Link>) -> Self {
        Self { stream, unread: Vec::new(), at: 0, hides_plans: false, told: Told::default() }
    }

    pub(super) async fn send(&mut self, sequence: u8, payload: &[u8]) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(payload.len() + HEADER);
        put_packet(&mut bytes, sequence, payload);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let written = poll_fn(|context| self.stream.poll_write(context, rest)).await?;
            rest = &rest[written..];
        }
        Ok(())
    }

    /// Reads a whole reply into `into`, which also keeps what came before an error.
    pub(super) async fn read_reply(
        &mut self,
        shape: Shape,
        abilities: Abilities,
        into: &mut Vec<Packet>,
    ) -> io::Result<()> {
        match shape {
            Shape::Nothing => Ok(()),
            Shape::One => {
                self.read(into).await?;
                self.told.sort_last(into, abilities);
                Ok(())
            }
            Shape::Results => self.read_results(abilities, into).await,
            Shape::Prepared => self.read_prepared(abilities, into).await,
            Shape::Rows => self.read_rows(abilities, into).await.map(|_| ()),
            // Definitions end as rows do.
            Shape::Fields => self.read_rows(abilities, into).await.map(|_| ()),
        }
    }

    /// Reads one packet, of which `into` gets a copy.
    pub(super) async fn read(&mut self, into: &mut Vec<Packet>) -> io::Result<Vec<u8>> {
        let mut payload = Vec::new();
        loop {
            let mut bytes = [0; HEADER];
            self.read_exact(&mut bytes).await?;
            let header = Header::decode(bytes);
            let at = payload.len();
            payload.resize(at + header.len, 0);
            self.read_exact(&mut payload[at..]).await?;
            if !header.is_continued() {
                into.push(Packet { sequence: header.sequence, payload: payload.clone() });
                return Ok(payload);
            }
        }
    }

    async fn read_results(
        &mut self,
        abilities: Abilities,
        into: &mut Vec<Packet>,
    ) -> io::Result<()> {
        loop {
            let first = self.read(into).await?;
            if first.first() == Some(&OK) {
                self.mask_flags(into, abilities, true);
            }
            let status = match first.first() {
                Some(&ERR) => return Ok(()),
                Some(&OK) => end(&first, true)?.0,
                Some(&LOCAL_INFILE) => {
                    let sequence = into.last().map_or(0, |packet| packet.sequence);
                    self.send(sequence.wrapping_add(1), FILE).await?;
                    self.send(sequence.wrapping_add(2), b"").await?;
                    continue;
                }
                _ => {
                    let Some(end) = self.read_result(&first, abilities, into).await? else {
                        return Ok(());
                    };
                    end.0
                }
            };
            if !status.has(Status::MORE_RESULTS) {
                return Ok(());
            }
        }
    }

    /// Reads the beginning of a result, or all that is said in its place.
    pub(super) async fn read_definitions(
        &mut self,
        abilities: Abilities,
        into: &mut Vec<Packet>,
    ) -> io::Result<()> {
        let first = self.read(into).await?;
        match first.first() {
            Some(&(OK | ERR | LOCAL_INFILE)) => {
                if first[0] == OK {
                    self.mask_flags(into, abilities, true);
                }
            }
            _ => {
                let columns = Reader::new(&first).lenenc("columns").map_err(io::Error::other)?;
                for _ in 0..columns {
                    self.read(into).await?;
                }
                if !abilities.no_eof {
                    self.read(into).await?;
                    self.mask_flags(into, abilities, false);
                }
            }
        }
        Ok(())
    }

    /// Reads definitions and rows; `None` after an error.
    async fn read_result(
        &mut self,
        first: &[u8],
        abilities: Abilities,
        into: &mut Vec<Packet>,
    ) -> io::Result<Option<End>> {
        let mut reader = Reader::new(first);
        let columns = reader.lenenc("columns").map_err(io::Error::other)?;
        let follow = !abilities.cache || reader.is_empty() || reader.rest() == [1];
        if follow {
            for _ in 0..columns {
                self.read(into).await?;
            }
        }
        if abilities.no_eof {
            return self.read_rows(abilities, into).await;
        }
        let eof = end(&self.read(into).await?, false)?;
        self.mask_flags(into, abilities, false);
        if eof.0.has(Status::CURSOR_EXISTS) {
            return Ok(Some(eof));
        }
        let Some(End(last)) = self.read_rows(abilities, into).await? else { return Ok(None) };
        if abilities.trusts {
            return Ok(Some(eof));
        }
        // MySQL says behind the definitions only that a row of parameters is not the last result.
        let parameters = eof.0.has(OUT_PARAMETERS) && eof.0.has(Status::MORE_RESULTS);
        let more = if parameters { Status::MORE_RESULTS.0 } else { 0 };
        Ok(Some(End(Status(last.0 | more))))
    }

    async fn read_rows(
        &mut self,
        abilities: Abilities,
        into: &mut Vec<Packet>,
    ) -> io::Result<Option<End>> {
        loop {
            let row = self.read(into).await?;
            let longest = if abilities.no_eof { 0xff_ffff } else { 9 };
            match row.first() {
                Some(&ERR) => return Ok(None),
                Some(&EOF) if row.len() < longest => {
                    self.mask_flags(into, abilities, abilities.no_eof);
                    return end(&row, abilities.no_eof).map(Some);
                }
                _ => {}
            }
        }
    }

    async fn read_prepared(
        &mut self,
        abilities: Abilities,
        into: &mut Vec<Packet>,
    ) -> io::Result<()> {
        let first = self.read(into).await?;
        if first.first() != Some(&OK) || first.len() < 9 {
            return Ok(());
        }
        let count = |at: usize| u16::from_le_bytes([first[at], first[at + 1]]);
        let (columns, parameters) = (count(5), count(7));
        for definitions in [parameters, columns] {
            let eof = u32::from(definitions > 0 && !abilities.no_eof);
            for _ in 0..u32::from(definitions) + eof {
                self.read(into).await?;
            }
            if eof > 0 {
                self.mask_flags(into, abilities, false);
            }
        }
        Ok(())
    }

    /// Takes flags off the packet that was read last, which ends something: see the masks in `peer`.
    fn mask_flags(&mut self, packets: &mut [Packet], abilities: Abilities, is_ok: bool) {
        if is_ok {
            self.told.sort_last(packets, abilities);
        }
        let Some(packet) = packets.last_mut() else { return };
        let mut reader = Reader::new(&packet.payload);
        let before = if is_ok {
            reader.u8("first byte").is_ok()
                && reader.lenenc("affected rows").is_ok()
                && reader.lenenc("insert id").is_ok()
        } else {
            reader.take(3, "warnings").is_ok()
        };
        let high = packet.payload.len() - reader.len() + 1;
        if let Some(flags) = packet.payload.get_mut(high).filter(|_| before) {
            let state = if abilities.track && is_ok { 0 } else { Status::STATE_CHANGED.0 };
            *flags &= !(((state | METADATA_CHANGED) >> 8) as u8);
        }
        if let Some(flags) = packet.payload.get_mut(high - 1).filter(|_| before && self.hides_plans)
        {
            *flags &= !PLANS;
        }
    }

    async fn read_exact(&mut self, bytes: &mut [u8]) -> io::Result<()> {
        while self.unread.len() - self.at < bytes.len() {
            self.unread.drain(..self.at);
            self.at = 0;
            let mut chunk = [0; 16 << 10];
            match poll_fn(|context| self.stream.poll_read(context, &mut chunk)).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => self.unread.extend_from_slice(&chunk[..read]),
            }
        }
        bytes.copy_from_slice(&self.unread[self.at..self.at + bytes.len()]);
        self.at += bytes.len();
        Ok(())
    }
}

/// The row holds what a routine has given back.
const OUT_PARAMETERS: Status = Status(0x1000);

/// No index was used, or no good one.
const PLANS: u8 = 0x30;

/// A prepared statement has other columns than before.
const METADATA_CHANGED: u16 = 0x0400;

/// Reads the end of a result: an OK packet, whatever its first byte, or an EOF.
fn end(payload: &[u8], is_ok: bool) -> io::Result<End> {
    let read = || {
        let mut reader = Reader::new(payload);
        reader.u8("first byte")?;
        if is_ok {
            reader.lenenc("affected rows")?;
            reader.lenenc("insert id")?;
        } else {
            reader.u16("warnings")?;
        }
        reader.u16("status")
    };
    read().map(|status| End(Status(status))).map_err(io::Error::other)
}
