//! How far a binary log was followed: a place in a file, or a set of transactions.

use std::fmt::{self, Display, Formatter};

use super::ending::Gap;
use crate::cluster::position::executed::Executed;

/// How far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogPlace {
    /// Of a MariaDB server.
    File(FilePlace),
    /// Of a MySQL server.
    Executed(Executed),
}

impl LogPlace {
    /// Whether all that is before that place is before this one.
    pub fn covers(&self, other: &Self) -> Result<bool, Gap> {
        match (self, other) {
            (Self::File(own), Self::File(other)) => own.covers(other),
            (Self::Executed(own), Self::Executed(other)) => Ok(own.covers(other)),
            _ => Err(Gap::Names),
        }
    }
}

impl Display for LogPlace {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(place) => {
                let name = String::from_utf8_lossy(&place.name);
                write!(f, "{name}.{:06}:{}", place.number, place.at)
            }
            Self::Executed(set) => set.fmt(f),
        }
    }
}

/// Behind an event of a file. Files of one log have one name, and numbers behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlace {
    name: Box<[u8]>,
    number: u64,
    at: u64,
}

impl FilePlace {
    /// `None`: the file is none of a binary log.
    pub fn new(file: &[u8], at: u64) -> Option<Self> {
        let dot = file.iter().rposition(|byte| *byte == b'.')?;
        let (name, number) = (&file[..dot], &file[dot + 1..]);
        let is_number = !number.is_empty() && number.iter().all(u8::is_ascii_digit);
        let number = std::str::from_utf8(number).ok().filter(|_| is_number)?.parse().ok()?;
        Some(Self { name: name.into(), number, at })
    }

    pub const fn at(&self) -> u64 {
        self.at
    }

    /// Of the file.
    pub(super) const fn number(&self) -> u64 {
        self.number
    }

    /// Whether it is in the file of this name.
    pub(super) fn is_in(&self, file: &[u8]) -> bool {
        Self::new(file, self.at).as_ref() == Some(self)
    }

    pub(super) fn covers(&self, other: &Self) -> Result<bool, Gap> {
        match self.name == other.name {
            true => Ok((self.number, self.at) >= (other.number, other.at)),
            false => Err(Gap::Names),
        }
    }

    /// What follows is in this file, from this place on.
    pub(super) fn rotate(&mut self, file: &[u8], position: u64) -> Result<(), Gap> {
        let next = Self::new(file, position).ok_or(Gap::Names)?;
        if !next.covers(self)? || next.number > self.number + 1 {
            return Err(Gap::Backwards);
        }
        *self = next;
        Ok(())
    }

    /// An event ended here. Positions are told modulo 4 GiB: one that seems to go back has gone too far to be followed.
    pub(super) const fn advance(&mut self, end: u32) -> Result<(), Gap> {
        match end {
            // It stands in no file.
            0 => Ok(()),
            _ if (end as u64) < self.at => Err(Gap::Backwards),
            _ => {
                self.at = end as u64;
                Ok(())
            }
        }
    }
}

/// Reads how far a MySQL server has committed.
pub fn executed(text: &str) -> Option<LogPlace> {
    Executed::read(text).map(LogPlace::Executed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(file: &str, at: u64) -> FilePlace {
        FilePlace::new(file.as_bytes(), at).unwrap()
    }

    #[test]
    fn places_follow_each_other_by_the_files_number() {
        for (own, other, want) in [
            (place("bin.000009", 4), place("bin.000009", 4), Ok(true)),
            (place("bin.000010", 4), place("bin.000009", 900), Ok(true)),
            (place("bin.1000000", 4), place("bin.999999", 900), Ok(true)),
            (place("bin.000009", 400), place("bin.000009", 401), Ok(false)),
            (place("a.b.000009", 400), place("bin.000009", 401), Err(Gap::Names)),
        ] {
            assert_eq!(own.covers(&other), want, "{own:?} {other:?}");
        }
        for file in ["bin", "bin.", "bin.x1", "bin.+1", ""] {
            assert_eq!(FilePlace::new(file.as_bytes(), 4), None, "{file}");
        }
    }

    #[test]
    fn a_place_goes_forwards_only() {
        let mut it = place("bin.000009", 4);
        assert_eq!(it.advance(300), Ok(()));
        assert_eq!(it.advance(0), Ok(()));
        assert_eq!(it.advance(299), Err(Gap::Backwards));
        assert_eq!(it.rotate(b"bin.000009", 299), Err(Gap::Backwards));
        assert_eq!(it.rotate(b"bin.000011", 4), Err(Gap::Backwards), "one is missing");
        assert_eq!(it.rotate(b"log.000010", 4), Err(Gap::Names));
        assert_eq!(it.rotate(b"bin.000010", 4), Ok(()));
        assert_eq!(it.rotate(b"bin.000010", 4), Ok(()), "said twice");
        assert_eq!(it.advance(300), Ok(()));
        assert_eq!(it, place("bin.000010", 300));
        assert_eq!(LogPlace::File(it).to_string(), "bin.000010:300");
    }
}
