//! Sums a reply up while its bytes pass: how many columns and rows, a checksum of the rows, and how it has ended.
//!
//! A [`Summer`] is fed the reply to one command, in pieces of any size, as a client gets it. Invariants: it takes no
//! memory but its own, however long a row is; the sum is the same however the bytes were cut; what it does not
//! understand never ends, so that no sum is made of it.

use crate::bytes::{Malformed, Reader};
use crate::capability::Capabilities;
use crate::frame::{HEADER, PAYLOAD_MAX};
use crate::response::{EOF, ERR, EofPacket, ErrPacket, LOCAL_INFILE, OK, Status};

/// What a reply comes to. Of several results, all are added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplySum {
    /// Results that have ended: rows, or an OK.
    pub results: u32,
    pub columns: u64,
    pub rows: u64,
    /// A checksum of the rows that depends on their order, and one that does not.
    pub ordered: u64,
    pub unordered: u64,
    pub affected: u64,
    pub warnings: u16,
    /// The number and the SQLSTATE of the error that it has ended in.
    pub error: Option<(u16, [u8; 5])>,
}

/// Sums a reply up.
#[derive(Clone, Debug)]
pub struct Summer {
    capabilities: Capabilities,
    phase: SumPhase,
    header: [u8; HEADER],
    /// How much of the header is there.
    headed: usize,
    /// Bytes of the packet that are still to come.
    left: usize,
    /// The packet goes on in the next one.
    is_continued: bool,
    /// What is read belongs to the packet before it.
    continues: bool,
    is_row: bool,
    /// The beginning of the packet: of those that say something, all that is needed.
    head: [u8; HEAD],
    kept: usize,
    row: RowHash,
    sum: ReplySum,
}

/// Behind an OK packet's two counts of nine bytes stand flags and warnings; an error's number and state are shorter.
const HEAD: usize = 24;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SumPhase {
    /// A result begins.
    Result,
    Columns(u64),
    ColumnsEnd,
    Rows,
    Done,
    /// It is not understood.
    Lost,
}

impl Summer {
    /// For a reply to a query or an execution, to a client with these capabilities.
    pub const fn new(capabilities: Capabilities) -> Self {
        Self {
            capabilities,
            phase: SumPhase::Result,
            header: [0; HEADER],
            headed: 0,
            left: 0,
            is_continued: false,
            continues: false,
            is_row: false,
            head: [0; HEAD],
            kept: 0,
            row: RowHash::NEW,
            sum: ReplySum {
                results: 0,
                columns: 0,
                rows: 0,
                ordered: 0,
                unordered: 0,
                affected: 0,
                warnings: 0,
                error: None,
            },
        }
    }

    /// What the reply has come to, if it has ended.
    pub fn finished(&self) -> Option<ReplySum> {
        (self.phase == SumPhase::Done && self.headed == 0).then_some(self.sum)
    }

    /// Whether no sum will come of it any more.
    pub fn is_lost(&self) -> bool {
        self.phase == SumPhase::Lost
    }

    /// Begins again, with the reply to the same command.
    pub fn begin_again(&mut self) {
        *self = Self::new(self.capabilities);
    }

    /// More of the reply.
    pub fn feed(&mut self, mut bytes: &[u8]) {
        while let Some((first, rest)) = bytes.split_first() {
            match self.phase {
                SumPhase::Lost => return,
                // Nothing may come behind the end.
                SumPhase::Done => return self.phase = SumPhase::Lost,
                _ => {}
            }
            if self.headed < HEADER {
                self.header[self.headed] = *first;
                self.headed += 1;
                bytes = rest;
                if self.headed == HEADER {
                    self.begin_packet();
                }
                continue;
            }
            let (part, rest) = bytes.split_at(self.left.min(bytes.len()));
            self.see(part);
            self.left -= part.len();
            bytes = rest;
            if self.left == 0 {
                self.end_packet();
            }
        }
    }

    fn begin_packet(&mut self) {
        let [a, b, c, _] = self.header;
        self.left = u32::from_le_bytes([a, b, c, 0]) as usize;
        self.is_continued = self.left == PAYLOAD_MAX;
        if !self.continues {
            (self.kept, self.is_row, self.row) = (0, false, RowHash::NEW);
        }
        if self.left == 0 {
            self.end_packet();
        }
    }

    fn see(&mut self, part: &[u8]) {
        if self.kept == 0
            && let Some(first) = part.first()
        {
            let is_end = match *first {
                ERR => true,
                EOF if self.capabilities.has(Capabilities::DEPRECATE_EOF) => {
                    self.left < PAYLOAD_MAX
                }
                EOF => self.left < 9,
                _ => false,
            };
            self.is_row = self.phase == SumPhase::Rows && !is_end;
        }
        if let Some(room) = self.head.get_mut(self.kept..) {
            let taken = room.len().min(part.len());
            room[..taken].copy_from_slice(&part[..taken]);
            self.kept += taken;
        }
        if self.is_row {
            self.row.write(part);
        }
    }

    fn end_packet(&mut self) {
        self.headed = 0;
        self.continues = self.is_continued;
        if self.continues {
            return;
        }
        if self.is_row {
            let hash = self.row.finish();
            self.sum.rows += 1;
            self.sum.ordered = fold(self.sum.ordered ^ hash, 0x9e37_79b9_7f4a_7c15);
            // Scrambled once more, so that the sum of some rows is not that of others.
            self.sum.unordered = self.sum.unordered.wrapping_add(fold(hash, 0xd1b5_4a32_d192_ed03));
            return;
        }
        let head = self.head;
        self.phase = self.next(&head[..self.kept]).unwrap_or(SumPhase::Lost);
    }

    /// The phase behind a packet that is no row.
    fn next(&mut self, head: &[u8]) -> Result<SumPhase, Malformed> {
        let first = *head.first().ok_or(Malformed::new("an empty packet in a reply"))?;
        if first == ERR {
            return self.end_in_error(head);
        }
        match self.phase {
            SumPhase::Result if first == OK => self.end_by_ok(head),
            SumPhase::Result if first == LOCAL_INFILE || first == EOF => Ok(SumPhase::Lost),
            SumPhase::Result => self.begin_columns(head),
            SumPhase::Columns(left) => Ok(self.after_column(left.saturating_sub(1))),
            SumPhase::ColumnsEnd => {
                // Rows in a cursor are not here.
                let status = EofPacket::decode(head)?.status;
                Ok(if status.has(Status::CURSOR_EXISTS) { SumPhase::Lost } else { SumPhase::Rows })
            }
            SumPhase::Rows if self.capabilities.has(Capabilities::DEPRECATE_EOF) => {
                self.end_by_ok(head)
            }
            SumPhase::Rows => {
                let eof = EofPacket::decode(head)?;
                Ok(self.end_result(eof.status, eof.warnings))
            }
            SumPhase::Done | SumPhase::Lost => Ok(SumPhase::Lost),
        }
    }

    fn end_in_error(&mut self, head: &[u8]) -> Result<SumPhase, Malformed> {
        // Its message may be cut off.
        let error = ErrPacket::decode(head)?;
        if error.code == ErrPacket::PROGRESS {
            return Ok(self.phase);
        }
        self.sum.error = Some((error.code, error.sqlstate));
        Ok(SumPhase::Done)
    }

    fn end_by_ok(&mut self, head: &[u8]) -> Result<SumPhase, Malformed> {
        let mut reader = Reader::new(head);
        reader.u8("OK packet")?;
        let affected = reader.lenenc("affected rows")?;
        reader.lenenc("insert id")?;
        let status = Status(reader.u16("status flags")?);
        let warnings = reader.u16("warning count")?;
        self.sum.affected = self.sum.affected.saturating_add(affected);
        Ok(self.end_result(status, warnings))
    }

    fn end_result(&mut self, status: Status, warnings: u16) -> SumPhase {
        self.sum.results = self.sum.results.saturating_add(1);
        self.sum.warnings = self.sum.warnings.max(warnings);
        if status.has(Status::MORE_RESULTS) { SumPhase::Result } else { SumPhase::Done }
    }

    fn begin_columns(&mut self, head: &[u8]) -> Result<SumPhase, Malformed> {
        let mut reader = Reader::new(head);
        let count = reader.lenenc("column count")?;
        // Servers count them in 32 bits.
        if count == 0 || count > u64::from(u32::MAX) {
            return Err(Malformed::new("column count"));
        }
        self.sum.columns = self.sum.columns.saturating_add(count);
        let are_known = self.capabilities.has(Capabilities::CACHE_METADATA)
            && !reader.is_empty()
            && reader.u8("metadata flag")? == 0;
        Ok(self.after_column(if are_known { 0 } else { count }))
    }

    const fn after_column(&self, left: u64) -> SumPhase {
        match left {
            0 if self.capabilities.has(Capabilities::DEPRECATE_EOF) => SumPhase::Rows,
            0 => SumPhase::ColumnsEnd,
            left => SumPhase::Columns(left),
        }
    }
}

/// A hash of a row, whose bytes come in pieces.
#[derive(Clone, Debug)]
struct RowHash {
    state: u64,
    word: [u8; 8],
    filled: usize,
    len: u64,
}

impl RowHash {
    const NEW: Self = Self { state: 0x243f_6a88_85a3_08d3, word: [0; 8], filled: 0, len: 0 };

    fn write(&mut self, mut bytes: &[u8]) {
        self.len += bytes.len() as u64;
        if self.filled > 0 {
            let taken = bytes.len().min(8 - self.filled);
            self.word[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
            self.filled += taken;
            bytes = &bytes[taken..];
            if self.filled < 8 {
                return;
            }
            self.mix(u64::from_le_bytes(self.word));
        }
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        self.word[..rest.len()].copy_from_slice(rest);
        self.filled = rest.len();
    }

    fn mix(&mut self, word: u64) {
        self.state = fold(self.state.rotate_left(23) ^ word, 0xa076_1d64_78bd_642f);
    }

    fn finish(&mut self) -> u64 {
        self.word[self.filled..].fill(0);
        self.mix(u64::from_le_bytes(self.word));
        self.mix(self.len);
        self.state
    }
}

/// Scrambles a number. Zero does not stay zero.
const fn fold(number: u64, by: u64) -> u64 {
    let product = (number ^ 0xe703_7ed1_a0b4_28db) as u128 * by as u128;
    ((product >> 64) as u64 ^ product as u64).wrapping_add(0x8ebc_6af0_9c88_c6e3)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::Write;
    use crate::frame::put_packet;
    use crate::response::OkPacket;

    const NEW: Capabilities = Capabilities::DEPRECATE_EOF;
    const OLD: Capabilities = Capabilities::NONE;

    fn packets(payloads: &[Vec<u8>]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut sequence = 1;
        for payload in payloads {
            sequence = put_packet(&mut out, sequence, payload);
        }
        out
    }

    fn ok(first: u8, affected: u64, warnings: u16, status: u16) -> Vec<u8> {
        let mut out = Vec::new();
        let status = Status(status);
        OkPacket { affected_rows: affected, warnings, status, ..OkPacket::EMPTY }
            .encode(first, OLD, &mut out);
        out
    }

    fn eof(warnings: u16, status: u16) -> Vec<u8> {
        EofPacket { warnings, status: Status(status) }.encode().to_vec()
    }

    fn row(values: &[&str]) -> Vec<u8> {
        let mut out = Vec::new();
        values.iter().for_each(|value| out.put_lenenc_bytes(value.as_bytes()));
        out
    }

    /// Rows of two columns.
    fn reply(capabilities: Capabilities, rows: &[Vec<u8>]) -> Vec<u8> {
        let mut all = vec![vec![2], b"\x03defa".to_vec(), b"\x03defb".to_vec()];
        if !capabilities.has(NEW) {
            all.push(eof(0, 2));
        }
        all.extend_from_slice(rows);
        all.push(if capabilities.has(NEW) { ok(EOF, 0, 3, 2) } else { eof(3, 2) });
        packets(&all)
    }

    fn sum(capabilities: Capabilities, bytes: &[u8]) -> Option<ReplySum> {
        let mut summer = Summer::new(capabilities);
        summer.feed(bytes);
        summer.finished()
    }

    #[test]
    fn rows_are_summed_with_and_without_their_order() {
        let (one, two, three) = (row(&["1", "a"]), row(&["2", "b"]), row(&["3", "c"]));
        let of = |rows: &[&Vec<u8>]| {
            let rows: Vec<_> = rows.iter().map(|row| (*row).clone()).collect();
            sum(NEW, &reply(NEW, &rows)).expect("it ends")
        };
        let all = of(&[&one, &two, &three]);
        assert_eq!((all.results, all.columns, all.rows, all.warnings), (1, 2, 3, 3));
        assert_eq!((all.affected, all.error), (0, None));
        let turned = of(&[&three, &one, &two]);
        assert_eq!(turned.unordered, all.unordered);
        assert_ne!(turned.ordered, all.ordered);
        for other in [of(&[&one, &two, &two]), of(&[&one, &one, &two]), of(&[&one, &two])] {
            assert_ne!(other.unordered, all.unordered);
            assert_ne!(other.ordered, all.ordered);
        }
        // A value that moves into the next column, and bytes that move into the next row.
        let moved = [row(&["1a", ""]), row(&["2", "b"]), row(&["3", "c"])];
        assert_ne!(sum(NEW, &reply(NEW, &moved)).expect("it ends").unordered, all.unordered);
        // Whether EOF packets are sent makes no difference.
        let rows = [one.clone(), two.clone(), three.clone()];
        assert_eq!(sum(OLD, &reply(OLD, &rows)), Some(all));
    }

    #[test]
    fn the_sum_is_the_same_however_the_bytes_are_cut() {
        let rows = [row(&["1", "abcdefghijklmnop"]), row(&["", ""]), row(&["xyz", "12345678"])];
        for capabilities in [NEW, OLD] {
            let bytes = reply(capabilities, &rows);
            let whole = sum(capabilities, &bytes).expect("it ends");
            for size in 1..bytes.len() {
                let mut summer = Summer::new(capabilities);
                for piece in bytes.chunks(size) {
                    assert_eq!(summer.finished(), None, "pieces of {size}");
                    summer.feed(piece);
                }
                assert_eq!(summer.finished(), Some(whole), "pieces of {size}");
            }
        }
    }

    #[test]
    fn rows_of_more_than_one_packet_are_one() {
        let long = vec![b'x'; PAYLOAD_MAX + 5];
        let full = vec![b'x'; PAYLOAD_MAX];
        for row in [long, full] {
            let bytes = reply(NEW, &[row.clone(), self::row(&["1", "2"])]);
            let found = sum(NEW, &bytes).expect("it ends");
            assert_eq!(found.rows, 2);
            let mut other = row;
            *other.last_mut().expect("bytes") = b'y';
            let other = sum(NEW, &reply(NEW, &[other, self::row(&["1", "2"])])).expect("it ends");
            assert_ne!(other.unordered, found.unordered);
        }
    }

    #[test]
    fn ends_without_rows_are_read() {
        let error = |code: u16| {
            let mut out = vec![ERR];
            out.put_u16(code);
            out.extend_from_slice(b"#42S02Table 'a.b' doesn't exist, and that is a long story");
            out
        };
        let found = sum(NEW, &packets(&[ok(OK, 7, 1, 2)])).expect("it ends");
        assert_eq!((found.affected, found.warnings, found.results), (7, 1, 1));
        let found = sum(NEW, &packets(&[error(1146)])).expect("it ends");
        assert_eq!((found.error, found.results), (Some((1146, *b"42S02")), 0));
        // In the middle of rows.
        let mut broken = vec![vec![1], b"\x03def".to_vec(), row(&["1"]), error(1317)];
        let found = sum(NEW, &packets(&broken)).expect("it ends");
        assert_eq!((found.rows, found.error.map(|it| it.0)), (1, Some(1317)));
        // A report of progress is none of it.
        broken[3] = error(0xffff);
        broken.push(ok(EOF, 0, 0, 2));
        assert_eq!(sum(NEW, &packets(&broken)).expect("it ends").rows, 1);
        // Two results.
        let several = packets(&[ok(OK, 1, 0, 2 | 8), ok(OK, 2, 0, 2)]);
        let found = sum(NEW, &several).expect("it ends");
        assert_eq!((found.results, found.affected), (2, 3));
        assert_eq!(sum(NEW, &several[..11]), None);
    }

    #[test]
    fn what_is_not_understood_has_no_sum() {
        let local = vec![LOCAL_INFILE, b'a'];
        let twice = packets(&[ok(OK, 1, 0, 2), ok(OK, 1, 0, 2)]);
        for bytes in [
            packets(&[local]),
            packets(&[vec![]]),
            packets(&[vec![0xfe, 1]]),
            packets(&[vec![OK, 1]]),
            packets(&[vec![1], b"\x03def".to_vec(), eof(0, 2 | 0x40)]),
            twice,
        ] {
            assert_eq!(sum(OLD, &bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn definitions_that_a_client_has_already_do_not_come() {
        let capabilities = NEW.with(Capabilities::CACHE_METADATA);
        let known = packets(&[vec![2, 0], row(&["1", "2"]), ok(EOF, 0, 0, 2)]);
        let told = packets(&[
            vec![2, 1],
            b"\x03defa".to_vec(),
            b"\x03defb".to_vec(),
            row(&["1", "2"]),
            ok(EOF, 0, 0, 2),
        ]);
        assert_eq!(sum(capabilities, &known), sum(capabilities, &told));
        assert!(sum(capabilities, &known).is_some_and(|sum| sum.rows == 1));
    }

    #[test]
    fn it_can_begin_again() {
        let bytes = reply(NEW, &[row(&["1", "2"])]);
        let mut summer = Summer::new(NEW);
        summer.feed(&bytes[..bytes.len() / 2]);
        summer.begin_again();
        summer.feed(&bytes);
        assert_eq!(summer.finished(), sum(NEW, &bytes));
    }
}
