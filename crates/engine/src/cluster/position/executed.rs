//! A set of GTIDs as MySQL writes it: of each origin, which transactions there are.
//!
//! Invariants: the intervals of an origin are sorted and have gaps between them; a set has a bound, beyond which it is
//! not known.

use std::fmt::{self, Display, Formatter};

/// What was executed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Executed(Vec<Origin>);

/// Transactions of one origin: a server's or a group's UUID, with a tag behind a colon if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Origin {
    name: Box<str>,
    /// First and last, both included.
    intervals: Vec<(u64, u64)>,
}

/// More origins than a server gathers in its life, and more gaps than are left for long.
const INTERVALS_MAX: usize = 4096;

impl Executed {
    /// `None`: it makes no sense, or is larger than any that is compared.
    pub fn read(text: &str) -> Option<Self> {
        let (mut set, mut count) = (Self::default(), 0);
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let mut fields = part.split(':').map(str::trim);
            let uuid = fields.next().filter(|uuid| uuid.len() == UUID_LEN)?;
            let mut name = uuid.to_ascii_lowercase();
            let mut has_any = false;
            for field in fields {
                if !field.starts_with(|first: char| first.is_ascii_digit()) {
                    name = format!("{}:{}", uuid.to_ascii_lowercase(), field.to_ascii_lowercase());
                    continue;
                }
                let (first, last) = field.split_once('-').unwrap_or((field, field));
                let (first, last) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
                if first > last || count == INTERVALS_MAX {
                    return None;
                }
                count += 1;
                has_any = true;
                set.add(&name, (first, last));
            }
            if !has_any {
                return None;
            }
        }
        set.0.iter_mut().for_each(Origin::tidy);
        Some(set)
    }

    /// Adds one transaction. `false`: the set would be larger than any that is compared.
    pub fn insert(&mut self, uuid: &[u8; 16], number: u64) -> bool {
        let name = spelt(uuid);
        let origin = match self.0.iter().position(|origin| *origin.name == *name) {
            Some(at) => &mut self.0[at],
            None => {
                self.0.push(Origin { name: name.into(), intervals: Vec::new() });
                self.0.last_mut().expect("one was added")
            }
        };
        // Mostly it is the next one.
        match origin.intervals.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => {
                origin.intervals.push((number, number));
                origin.tidy();
            }
        }
        self.0.iter().map(|origin| origin.intervals.len()).sum::<usize>() <= INTERVALS_MAX
    }

    /// Whether this transaction is in it.
    pub fn has(&self, uuid: &[u8; 16], number: u64) -> bool {
        let name = spelt(uuid);
        let theirs = Origin { name: name.into(), intervals: vec![(number, number)] };
        self.covers(&Self(vec![theirs]))
    }

    /// The set as a replica sends it to its source. `None`: it has tags, which are encoded in another way.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = (self.0.len() as u64).to_le_bytes().to_vec();
        for origin in &self.0 {
            let hex = origin.name.replace('-', "");
            let uuid = u128::from_str_radix(&hex, 16).ok().filter(|_| hex.len() == 32)?;
            out.extend_from_slice(&uuid.to_be_bytes());
            out.extend_from_slice(&(origin.intervals.len() as u64).to_le_bytes());
            for (first, last) in &origin.intervals {
                out.extend_from_slice(&first.to_le_bytes());
                // The one behind the last.
                out.extend_from_slice(&last.saturating_add(1).to_le_bytes());
            }
        }
        Some(out)
    }

    fn add(&mut self, name: &str, interval: (u64, u64)) {
        match self.0.iter_mut().find(|origin| *origin.name == *name) {
            Some(origin) => origin.intervals.push(interval),
            None => self.0.push(Origin { name: name.into(), intervals: vec![interval] }),
        }
    }

    /// Whether anything is in both that is not in `but`.
    pub fn shares(&self, other: &Self, but: &Self) -> bool {
        let is_shared = |own: &Origin, theirs: &Origin, name: &str| {
            own.intervals.iter().any(|(first, last)| {
                theirs.intervals.iter().any(|(begin, end)| {
                    let both = (*first.max(begin), *last.min(end));
                    let both = Self(vec![Origin { name: name.into(), intervals: vec![both] }]);
                    first.max(begin) <= last.min(end) && !but.covers(&both)
                })
            })
        };
        self.0.iter().any(|own| {
            let mut theirs = other.0.iter().filter(|theirs| theirs.name == own.name);
            theirs.any(|theirs| is_shared(own, theirs, &own.name))
        })
    }

    /// Whether all that is in the other one is in this one.
    pub fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|theirs| {
            let own = self.0.iter().find(|own| own.name == theirs.name);
            own.is_some_and(|own| own.covers(theirs))
        })
    }
}

impl Display for Executed {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (at, origin) in self.0.iter().enumerate() {
            write!(f, "{}{}", if at == 0 { "" } else { "," }, origin.name)?;
            for (first, last) in &origin.intervals {
                match first == last {
                    true => write!(f, ":{first}")?,
                    false => write!(f, ":{first}-{last}")?,
                }
            }
        }
        Ok(())
    }
}

/// A UUID as servers write it.
fn spelt(uuid: &[u8; 16]) -> String {
    let hex = format!("{:032x}", u128::from_be_bytes(*uuid));
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]);
    format!("{a}-{b}-{c}-{d}-{e}")
}

/// Of a UUID with its dashes.
const UUID_LEN: usize = 36;

impl Origin {
    fn tidy(&mut self) {
        self.intervals.sort_unstable();
        let mut tidy: Vec<(u64, u64)> = Vec::with_capacity(self.intervals.len());
        for (first, last) in self.intervals.drain(..) {
            match tidy.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last)
                }
                _ => tidy.push((first, last)),
            }
        }
        self.intervals = tidy;
    }

    fn covers(&self, other: &Self) -> bool {
        other.intervals.iter().all(|(first, last)| {
            // The last of ours that begins at or before theirs.
            let after = self.intervals.partition_point(|own| own.0 <= *first);
            let own = after.checked_sub(1).and_then(|at| self.intervals.get(at));
            own.is_some_and(|own| own.1 >= *last)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "3E11FA47-71CA-11E1-9E33-C80AA9429562";
    const B: &str = "4e11fa47-71ca-11e1-9e33-c80aa9429562";

    fn set(text: &str) -> Executed {
        Executed::read(&text.replace("A:", &format!("{A}:")).replace("B:", &format!("{B}:")))
            .unwrap()
    }

    #[test]
    fn sets_are_compared_interval_by_interval() {
        assert!(set("A:1-5").covers(&set("A:1-5")) && set("A:1-5").covers(&set("")));
        assert!(!set("A:1-4").covers(&set("A:1-5")) && !set("").covers(&set("A:1")));
        assert!(set("A:1-9,\nB:1-3").covers(&set("B:2-3,A:4")));
        assert!(!set("A:1-3:5-9").covers(&set("A:3-5")), "there is a gap");
        assert!(set("A:5-9:1-3:4").covers(&set("A:1-9")), "there is none");
        assert!(!set("A:1-9").covers(&set("B:1")));
        assert!(set("A:1-9").shares(&set("B:1,A:7-12"), &set("A:1-8")));
        assert!(!set("A:1-9").shares(&set("A:7-12"), &set("A:1-9")), "nothing is left");
        assert!(!set("A:1-9").shares(&set("A:11,B:1-9"), &set("")));
        // A tag is an origin of its own.
        assert!(!set("A:1-9").covers(&set("A:blue:1")));
        assert!(set("A:1-9:blue:1-2").covers(&set("A:blue:1-2,A:9")));
        let text = format!("{}:1-3:5,{B}:7", A.to_ascii_lowercase());
        assert_eq!(set("A:1-3:5,B:7").to_string(), text);
        let lower = set("A:1").0[0].name.clone();
        assert_eq!(*lower, *A.to_ascii_lowercase());
    }

    #[test]
    fn a_set_grows_by_what_a_replica_is_sent() {
        let uuid = 0x3e11_fa47_71ca_11e1_9e33_c80a_a942_9562_u128.to_be_bytes();
        let mut grown = set("A:1-3,B:1");
        assert!(grown.insert(&uuid, 4) && grown.covers(&set("A:1-4")));
        assert!(grown.insert(&uuid, 7) && grown.insert(&uuid, 6) && !grown.covers(&set("A:5")));
        assert!(grown.insert(&uuid, 5) && grown == set("A:1-7,B:1"), "{grown}");
        let mut new = Executed::default();
        assert!(new.insert(&uuid, 9) && new == set("A:9"), "{new}");
        assert!((1..5000).all(|at| new.insert(&uuid, 9 + at)));
        assert!(!(1..5000).all(|at| new.insert(&uuid, 9000 + 2 * at)), "it has no bound");
    }

    #[test]
    fn a_set_is_encoded_as_a_replica_sends_it() {
        let encoded = set("A:1-3:5").encode().unwrap();
        let mut want = vec![1, 0, 0, 0, 0, 0, 0, 0];
        want.extend_from_slice(&0x3e11_fa47_71ca_11e1_9e33_c80a_a942_9562_u128.to_be_bytes());
        for number in [2_u64, 1, 4, 5, 6] {
            want.extend_from_slice(&number.to_le_bytes());
        }
        assert_eq!(encoded, want);
        assert_eq!(set("").encode().unwrap(), [0; 8]);
        assert_eq!(set("A:blue:1").encode(), None);
    }

    #[test]
    fn what_makes_no_sense_is_not_known() {
        for text in ["nonsense", A, "x:1-2", &format!("{A}:5-1"), &format!("{A}:1-x")] {
            assert_eq!(Executed::read(text), None, "{text}");
        }
        let many: String = (1..=5000).map(|at| format!(":{}", at * 2)).collect();
        assert_eq!(Executed::read(&format!("{A}{many}")), None);
    }
}
