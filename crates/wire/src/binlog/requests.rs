//! What a replica says before the server sends it events.

use crate::bytes::Write;
use crate::command::Opcode;

/// Introduces a replica of this number: `SHOW REPLICA HOSTS` lists it.
pub fn register(server: u32, name: &str) -> Vec<u8> {
    let mut out = vec![Opcode::RegisterReplica as u8];
    out.put_u32(server);
    // The length has one byte.
    let name = name.as_bytes().first_chunk::<60>().map_or(name.as_bytes(), |short| short);
    out.push(name.len() as u8);
    out.extend_from_slice(name);
    // Neither user nor password nor port; a rank that servers ignore; the source's own number.
    out.extend_from_slice(&[0, 0, 0, 0]);
    out.put_u32(0);
    out.put_u32(0);
    out
}

/// Asks for events from this place of a file on, and for those that will be written.
pub fn dump(server: u32, file: &[u8], position: u32) -> Vec<u8> {
    let mut out = vec![Opcode::BinlogDump as u8];
    out.put_u32(position);
    out.put_u16(0);
    out.put_u32(server);
    out.extend_from_slice(file);
    out
}

/// Asks a MySQL server for all transactions that are not among these, and for those that will be written. `executed`
/// is the set as MySQL encodes it.
pub fn dump_gtid(server: u32, executed: &[u8]) -> Vec<u8> {
    let mut out = vec![Opcode::BinlogDumpGtid as u8];
    out.put_u16(THROUGH_GTID);
    out.put_u32(server);
    out.put_u32(0);
    out.extend_from_slice(&4_u64.to_le_bytes());
    out.put_u32(executed.len() as u32);
    out.extend_from_slice(executed);
    out
}

/// The set of transactions follows.
const THROUGH_GTID: u16 = 4;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_laid_out_as_servers_read_them() {
        let want = b"\x15\x02\x01\0\x80\x05flifo\0\0\0\0\0\0\0\0\0\0\0\0";
        assert_eq!(register(0x8000_0102, "flifo"), want);
        let long = register(1, &"x".repeat(300));
        assert_eq!(long.len(), 1 + 4 + 1 + 60 + 4 + 8);
        assert_eq!(dump(7, b"bin.000001", 0x0102), b"\x12\x02\x01\0\0\0\0\x07\0\0\0bin.000001");
        let want = b"\x1e\x04\0\x07\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x02\0\0\0ab";
        assert_eq!(dump_gtid(7, b"ab"), want);
    }
}
