//! MariaDB's compressed statements: a byte that says how, the length, and zlib's bytes.

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;

/// `None`: it is no such thing, or longer than is allowed.
pub(super) fn inflate(bytes: &[u8], max: usize) -> Option<Vec<u8>> {
    let (&how, rest) = bytes.split_first()?;
    // The high bit is always set; the next three tell the method, of which there is one; the low ones tell how many
    // bytes the length has.
    if how & 0xf8 != 0x80 {
        return None;
    }
    let (len, rest) = rest.split_at_checked(usize::from(how & 0x07))?;
    if !(1..=4).contains(&len.len()) {
        return None;
    }
    let len = len.iter().fold(0_usize, |len, byte| (len << 8) | usize::from(*byte));
    if len > max {
        return None;
    }
    let text = decompress_to_vec_zlib_with_limit(rest, len).ok()?;
    (text.len() == len).then_some(text)
}
