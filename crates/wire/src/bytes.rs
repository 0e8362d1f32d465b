//! Reading and writing the protocol's basic shapes: little-endian integers, length-encoded integers and strings.
//!
//! [`Reader`] never panics: whatever is missing or out of range is [`Malformed`].

/// Bytes that do not follow the protocol. `what` names the field that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed packet: {what}")]
pub struct Malformed {
    pub what: &'static str,
}

impl Malformed {
    pub const fn new(what: &'static str) -> Self {
        Self { what }
    }
}

/// Reads a packet's payload from the front.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub const fn len(&self) -> usize {
        self.rest.len()
    }

    /// What has not been read yet.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) =
            self.rest.split_at_checked(count).ok_or_else(|| Malformed::new(what))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let (taken, rest) =
            self.rest.split_first_chunk::<N>().ok_or_else(|| Malformed::new(what))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        Ok(u8::from_le_bytes(self.array(what)?))
    }

    pub fn u16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        Ok(u16::from_le_bytes(self.array(what)?))
    }

    pub fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        Ok(u32::from_le_bytes(self.array(what)?))
    }

    pub fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        Ok(u64::from_le_bytes(self.array(what)?))
    }

    /// A length-encoded integer. `0xfb` (NULL in a row) and `0xff` (an error packet) are not integers.
    pub fn lenenc(&mut self, what: &'static str) -> Result<u64, Malformed> {
        Ok(match self.u8(what)? {
            small @ 0..=0xfa => u64::from(small),
            0xfc => u64::from(self.u16(what)?),
            0xfd => {
                let [a, b, c] = self.array(what)?;
                u64::from(u32::from_le_bytes([a, b, c, 0]))
            }
            0xfe => self.u64(what)?,
            0xfb | 0xff => return Err(Malformed::new(what)),
        })
    }

    /// A string preceded by its length-encoded length.
    pub fn lenenc_bytes(&mut self, what: &'static str) -> Result<&'a [u8], Malformed> {
        let len = self.lenenc(what)?;
        self.take(usize::try_from(len).map_err(|_| Malformed::new(what))?, what)
    }

    /// A string that ends at a zero byte, which is consumed and not returned.
    pub fn nul_bytes(&mut self, what: &'static str) -> Result<&'a [u8], Malformed> {
        let end = memchr::memchr(0, self.rest).ok_or_else(|| Malformed::new(what))?;
        let taken = &self.rest[..end];
        self.rest = &self.rest[end + 1..];
        Ok(taken)
    }

    /// Everything that is left, as a string that may or may not end in a zero byte.
    pub fn rest_until_nul(&mut self) -> &'a [u8] {
        let end = memchr::memchr(0, self.rest).unwrap_or(self.rest.len());
        let taken = &self.rest[..end];
        self.rest = &self.rest[(end + 1).min(self.rest.len())..];
        taken
    }
}

/// Appends the same shapes to a buffer.
pub trait Write {
    fn put_u16(&mut self, value: u16);
    fn put_u32(&mut self, value: u32);
    fn put_lenenc(&mut self, value: u64);
    fn put_lenenc_bytes(&mut self, bytes: &[u8]);
    fn put_nul_bytes(&mut self, bytes: &[u8]);
}

impl Write for Vec<u8> {
    fn put_u16(&mut self, value: u16) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_le_bytes());
    }

    fn put_lenenc(&mut self, value: u64) {
        let bytes = value.to_le_bytes();
        match value {
            0..=0xfa => self.push(bytes[0]),
            0xfb..=0xffff => {
                self.push(0xfc);
                self.extend_from_slice(&bytes[..2]);
            }
            0x1_0000..=0xff_ffff => {
                self.push(0xfd);
                self.extend_from_slice(&bytes[..3]);
            }
            _ => {
                self.push(0xfe);
                self.extend_from_slice(&bytes);
            }
        }
    }

    fn put_lenenc_bytes(&mut self, bytes: &[u8]) {
        self.put_lenenc(bytes.len() as u64);
        self.extend_from_slice(bytes);
    }

    fn put_nul_bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
        self.push(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_encoded_integers_survive_a_round_trip() {
        for value in [0, 0xfa, 0xfb, 0xff, 0xffff, 0x1_0000, 0xff_ffff, 0x100_0000, u64::MAX] {
            let mut bytes = Vec::new();
            bytes.put_lenenc(value);
            let mut reader = Reader::new(&bytes);
            assert_eq!(reader.lenenc("value"), Ok(value));
            assert!(reader.is_empty());
        }
    }

    #[test]
    fn what_is_missing_is_named() {
        assert_eq!(Reader::new(&[0xfd, 1]).lenenc("count"), Err(Malformed::new("count")));
        assert_eq!(Reader::new(&[0xfb]).lenenc("count"), Err(Malformed::new("count")));
        assert_eq!(Reader::new(&[9, b'a']).lenenc_bytes("name"), Err(Malformed::new("name")));
        assert_eq!(Reader::new(b"abc").nul_bytes("name"), Err(Malformed::new("name")));
        let huge = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(Reader::new(&huge).lenenc_bytes("name"), Err(Malformed::new("name")));
    }
}
