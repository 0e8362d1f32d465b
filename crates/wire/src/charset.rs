//! How servers read bytes beyond ASCII in the text of a statement, by the character set of its client.
//!
//! Letters of some sets have a second byte that is also that of a backslash or of a back-tick; some sets have a blank
//! beyond ASCII, and bytes behind `--` that make a comment of it. Measured byte by byte on MariaDB 10.11 and MySQL 9.7,
//! which agree. Sets that a client cannot have (those of at least two bytes a letter) are not among them.

/// Sets that are read alike have one value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Charset {
    /// UTF-8, ASCII, and those of which every byte beyond ASCII belongs to a name or is an error.
    #[default]
    Plain,
    /// With a blank at 0xa0: latin1, latin5, greek, dec8, armscii8, geostd8.
    Latin1,
    Latin2,
    Latin7,
    Cp1250,
    /// 0x7f is no control character: cp1251, cp1257, macce.
    Cp1251,
    Cp850,
    /// With a blank at 0xff: cp852, cp866, keybcs2.
    Cp852,
    Hebrew,
    Hp8,
    Macroman,
    Big5,
    /// And cp932.
    Sjis,
    Gbk,
    Gb18030,
    /// It cannot be told: a text that two sets read differently is in doubt.
    Unknown,
}

/// What is so in one set may not be so in another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    No,
    Yes,
    /// In some.
    Unsure,
}

use Answer::{No, Unsure, Yes};
use Charset::{
    Big5, Cp850, Cp852, Cp1250, Cp1251, Gb18030, Gbk, Hebrew, Hp8, Latin1, Latin2, Latin7,
    Macroman, Plain, Sjis, Unknown,
};

impl Charset {
    const ALL: [Self; 16] = [
        Plain, Latin1, Latin2, Latin7, Cp1250, Cp1251, Cp850, Cp852, Hebrew, Hp8, Macroman, Big5,
        Sjis, Gbk, Gb18030, Unknown,
    ];

    pub(crate) fn numbered(number: u16) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Unknown)
    }

    /// Of the value of `character_set_client`.
    pub fn named(name: &[u8]) -> Self {
        match &*name.to_ascii_lowercase() {
            b"utf8mb4" | b"utf8mb3" | b"utf8" | b"ascii" | b"binary" | b"cp1256" | b"eucjpms"
            | b"euckr" | b"gb2312" | b"koi8r" | b"koi8u" | b"swe7" | b"tis620" | b"ujis" => Plain,
            b"latin1" | b"latin5" | b"greek" | b"dec8" | b"armscii8" | b"geostd8" => Latin1,
            b"latin2" => Latin2,
            b"latin7" => Latin7,
            b"cp1250" => Cp1250,
            b"cp1251" | b"cp1257" | b"macce" => Cp1251,
            b"cp850" => Cp850,
            b"cp852" | b"cp866" | b"keybcs2" => Cp852,
            b"hebrew" => Hebrew,
            b"hp8" => Hp8,
            b"macroman" => Macroman,
            b"big5" => Big5,
            b"sjis" | b"cp932" => Sjis,
            b"gbk" => Gbk,
            b"gb18030" => Gb18030,
            _ => Unknown,
        }
    }

    /// Of a collation's number, as clients give it when they log in.
    #[rustfmt::skip]
    pub const fn of_collation(number: u16) -> Self {
        match number {
            1 | 84 | 1025 | 1108 => Big5,
            13 | 88 | 95 | 96 | 1037 | 1112 | 1119 | 1120 => Sjis,
            28 | 87 | 1052 | 1111 => Gbk,
            248..=250 => Gb18030,
            // latin1, latin5, greek, dec8, armscii8, geostd8.
            5 | 8 | 15 | 31 | 47..=49 | 94 | 1032 | 1071 | 30 | 78 | 1054 | 1102 | 25 | 70 | 1049 | 1094
            | 3 | 69 | 1027 | 1093 | 32 | 64 | 1056 | 1088 | 92 | 93 | 1116 | 1117 => Latin1,
            2 | 9 | 21 | 27 | 77 | 1033 | 1101 => Latin2,
            20 | 41 | 42 | 79 | 1065 | 1103 => Latin7,
            26 | 34 | 44 | 66 | 99 | 1050 | 1090 => Cp1250,
            // cp1251, cp1257, macce.
            14 | 23 | 50..=52 | 1074 | 1075 | 29 | 58 | 59 | 1082 | 1083 | 38 | 43 | 1062 | 1067 => Cp1251,
            4 | 80 | 1028 | 1104 => Cp850,
            // cp852, cp866, keybcs2.
            40 | 81 | 1064 | 1105 | 36 | 68 | 1060 | 1092 | 37 | 73 | 1061 | 1097 => Cp852,
            16 | 71 | 1040 | 1095 => Hebrew,
            6 | 72 | 1030 | 1096 => Hp8,
            39 | 53 | 1063 | 1077 => Macroman,
            // ascii, binary, cp1256, eucjpms, euckr, gb2312, koi8r, koi8u, swe7, tis620, ujis.
            11 | 65 | 63 | 57 | 67 | 97 | 98 | 19 | 85 | 24 | 86 | 7 | 74 | 22 | 75 | 10 | 82 | 18 | 89
            | 12 | 91 => Plain,
            // utf8mb3 and utf8mb4.
            33 | 76 | 83 | 192..=223 | 45 | 46 | 224..=247 | 255..=323 | 1057 | 1107 | 1069 | 1070
            | 1216..=1247 | 2048..=2559 => Plain,
            // A client that names none, or one that no client can have, gets the server's own.
            _ => Unknown,
        }
    }

    /// Whether MariaDB has a collation of this number, as a client names it when it logs in (10.11, and those of all
    /// later versions that fit a byte). Of one that it does not have it makes the server's own; and when such a session
    /// is reset, that of an earlier session which had the thread.
    pub const fn is_of_mariadb(collation: u8) -> bool {
        matches!(
            collation,
            1..=16 | 18..=75 | 77..=99 | 101..=124 | 128..=151 | 159..=183 | 192..=215 | 223..=247
        )
    }

    /// Whether a letter may have a second byte that is also that of a backslash or of a back-tick.
    #[inline]
    pub(crate) const fn hides_quotes(self) -> bool {
        matches!(self, Big5 | Sjis | Gbk | Gb18030 | Unknown)
    }

    /// Whether a byte beyond ASCII may be anything but part of a name.
    #[inline]
    pub(crate) const fn is_plain(self) -> bool {
        matches!(self, Plain | Big5 | Sjis | Gbk | Gb18030)
    }

    /// How many bytes the letter has that a text begins with, which is not empty; one, if it is none.
    pub(crate) fn letter(self, text: &[u8]) -> usize {
        let within = |at: usize, ranges: &[(u8, u8)]| {
            text.get(at)
                .is_some_and(|byte| ranges.iter().any(|(from, to)| (*from..=*to).contains(byte)))
        };
        let two = match self {
            Big5 => within(0, &[(0xa1, 0xf9)]) && within(1, &[(0x40, 0x7e), (0xa1, 0xfe)]),
            Sjis => {
                within(0, &[(0x81, 0x9f), (0xe0, 0xfc)]) && within(1, &[(0x40, 0x7e), (0x80, 0xfc)])
            }
            Gbk | Gb18030 => within(0, &[(0x81, 0xfe)]) && within(1, &[(0x40, 0x7e), (0x80, 0xfe)]),
            _ => false,
        };
        let is_four = self == Gb18030
            && within(0, &[(0x81, 0xfe)])
            && within(1, &[(b'0', b'9')])
            && within(2, &[(0x81, 0xfe)])
            && within(3, &[(b'0', b'9')]);
        match (is_four, two) {
            (true, _) => 4,
            (_, true) => 2,
            _ => 1,
        }
    }

    /// Whether a byte beyond ASCII is a blank.
    pub(crate) const fn is_blank(self, byte: u8) -> Answer {
        let is = match self {
            Latin1 | Latin2 | Latin7 | Cp1250 | Hebrew => byte == 0xa0,
            Cp852 => byte == 0xff,
            Unknown if matches!(byte, 0xa0 | 0xff) => return Unsure,
            _ => false,
        };
        if is { Yes } else { No }
    }

    /// Whether `--` before this byte, which is 0x7f or beyond ASCII, begins a comment.
    pub(crate) const fn ends_dashes(self, byte: u8) -> Answer {
        let is = match self {
            Latin1 => matches!(byte, 0x7f | 0xa0),
            Latin2 => byte == 0xa0,
            Latin7 => {
                matches!(
                    byte,
                    0x7f | 0x81 | 0x83 | 0x88 | 0x8a | 0x8c | 0x90 | 0x98 | 0x9a | 0x9c | 0x9f
                        ..=0xa1 | 0xa5
                )
            }
            Cp1250 => matches!(byte, 0x7f..=0x81 | 0x83 | 0x88 | 0x90 | 0x98 | 0xa0),
            Cp1251 => false,
            Cp850 => matches!(byte, 0x7f | 0xff),
            Cp852 => byte == 0xff,
            Hebrew => matches!(byte, 0x7f | 0xa0 | 0xfd | 0xfe),
            Hp8 => matches!(byte, 0x7f..=0xa0 | 0xb1 | 0xb2 | 0xf2..=0xf5 | 0xff),
            Macroman => matches!(byte, 0x80 | 0xcb | 0xe5),
            Plain | Big5 | Sjis | Gbk | Gb18030 => byte == 0x7f,
            Unknown => return Unsure,
        };
        if is { Yes } else { No }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_as_long_as_their_set_has_them() {
        for (set, text, len) in [
            (Gbk, &b"\xbf\\"[..], 2),
            (Gbk, b"\xbf'", 1),
            (Gbk, b"\x80\\", 1),
            (Big5, b"\xa1`", 2),
            (Big5, b"\x9f\\", 1),
            (Sjis, b"\x95\\", 2),
            (Sjis, b"\xb1\\", 1),
            (Gb18030, b"\x81\x30\x81\x30", 4),
            (Gb18030, b"\x81\x30\x81\\", 1),
            (Plain, b"\xbf\\", 1),
            (Gbk, b"\xbf", 1),
        ] {
            assert_eq!(set.letter(text), len, "{set:?} {text:?}");
        }
    }

    #[test]
    fn a_set_has_its_number() {
        for (number, set) in Charset::ALL.into_iter().enumerate() {
            assert_eq!((set as usize, Charset::numbered(number as u16)), (number, set));
        }
    }

    #[test]
    fn a_set_is_known_by_its_name_and_by_the_number_of_a_collation() {
        for (name, collation) in [
            ("utf8mb4", 45),
            ("utf8mb4", 255),
            ("utf8mb3", 33),
            ("ascii", 11),
            ("ujis", 12),
            ("euckr", 19),
            ("binary", 63),
            ("latin1", 8),
            ("latin2", 9),
            ("latin7", 41),
            ("cp1250", 26),
            ("cp1251", 51),
            ("cp850", 4),
            ("cp852", 40),
            ("hebrew", 16),
            ("hp8", 6),
            ("macroman", 39),
            ("big5", 1),
            ("SJIS", 13),
            ("cp932", 95),
            ("gbk", 28),
            ("gb18030", 248),
            ("not_one", 0),
        ] {
            assert_eq!(Charset::named(name.as_bytes()), Charset::of_collation(collation), "{name}");
        }
    }
}
