//! The checksum at the end of each event: CRC-32 as in zlib, eight bytes at a step.

/// The reflected polynomial of IEEE 802.3.
const POLYNOMIAL: u32 = 0xedb8_8320;

/// What a byte does to the sum if so many bytes follow it in the step.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut all = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = (sum >> 1) ^ if sum & 1 == 1 { POLYNOMIAL } else { 0 };
            bit += 1;
        }
        all[0][byte] = sum;
        byte += 1;
    }
    let mut step = 1;
    while step < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = all[step - 1][byte];
            all[step][byte] = (before >> 8) ^ all[0][(before & 0xff) as usize];
            byte += 1;
        }
        step += 1;
    }
    all
}

/// A sum over bytes that come in pieces.
#[derive(Clone, Copy, Debug)]
pub struct Crc32(u32);

impl Default for Crc32 {
    fn default() -> Self {
        Self(u32::MAX)
    }
}

impl Crc32 {
    pub fn add(&mut self, bytes: &[u8]) {
        let (steps, rest) = bytes.as_chunks::<8>();
        for step in steps {
            let step = (u64::from_le_bytes(*step) ^ u64::from(self.0)).to_le_bytes();
            let of = |at: usize| TABLES[7 - at][usize::from(step[at])];
            self.0 = of(0) ^ of(1) ^ of(2) ^ of(3) ^ of(4) ^ of(5) ^ of(6) ^ of(7);
        }
        for byte in rest {
            let [low, ..] = self.0.to_le_bytes();
            self.0 = (self.0 >> 8) ^ TABLES[0][usize::from(low ^ byte)];
        }
    }

    pub const fn sum(self) -> u32 {
        !self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_zlibs_in_whatever_pieces_the_bytes_come() {
        let sum = |bytes: &[u8], cut: usize| {
            let mut crc = Crc32::default();
            crc.add(&bytes[..cut]);
            crc.add(&bytes[cut..]);
            crc.sum()
        };
        let check = b"123456789";
        let long: Vec<u8> = (0..=255).collect();
        (0..=9).for_each(|cut| assert_eq!(sum(check, cut), 0xcbf4_3926));
        (0..=256).for_each(|cut| assert_eq!(sum(&long, cut), 0x2905_8c73));
        assert_eq!(Crc32::default().sum(), 0);
    }
}
