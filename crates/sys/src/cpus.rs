//! A set of CPUs, in the kernel's own form: "0-3,8".

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Cpus(BTreeSet<u32>);

impl Cpus {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn has(&self, cpu: u32) -> bool {
        self.0.contains(&cpu)
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    pub fn meets(&self, other: &Self) -> bool {
        !self.0.is_disjoint(&other.0)
    }

    pub fn is_within(&self, other: &Self) -> bool {
        self.0.is_subset(&other.0)
    }

    /// Those that are in another set, too.
    pub fn within(&self, other: &Self) -> Self {
        Self(self.0.intersection(&other.0).copied().collect())
    }

    /// Those that are not in another set.
    pub fn without(&self, other: &Self) -> Self {
        Self(self.0.difference(&other.0).copied().collect())
    }
}

impl FromIterator<u32> for Cpus {
    fn from_iter<I: IntoIterator<Item = u32>>(cpus: I) -> Self {
        Self(cpus.into_iter().filter(|cpu| *cpu < CPUS_MAX).collect())
    }
}

/// A text that names no set of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoCpus(String);

impl fmt::Display for NoCpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is no list of CPUs such as \"0-3,8\"", self.0)
    }
}

impl FromStr for Cpus {
    type Err = NoCpus;

    fn from_str(text: &str) -> Result<Self, NoCpus> {
        let mut cpus = BTreeSet::new();
        for range in text.trim().split(',').filter(|range| !range.is_empty()) {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            match (first.parse::<u32>(), last.parse::<u32>()) {
                (Ok(first), Ok(last)) if first <= last && last < CPUS_MAX => {
                    cpus.extend(first..=last);
                }
                _ => return Err(NoCpus(text.to_owned())),
            }
        }
        Ok(Self(cpus))
    }
}

impl TryFrom<String> for Cpus {
    type Error = NoCpus;

    fn try_from(text: String) -> Result<Self, NoCpus> {
        text.parse()
    }
}

impl From<Cpus> for String {
    fn from(cpus: Cpus) -> Self {
        cpus.to_string()
    }
}

impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut left = self.0.iter().copied().peekable();
        let mut comma = "";
        while let Some(first) = left.next() {
            let mut last = first;
            while let Some(next) = left.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last == first {
                true => write!(f, "{comma}{first}")?,
                false => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

/// What Linux supports at most.
const CPUS_MAX: u32 = 8192;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_form_is_read_and_written() {
        for text in ["", "0", "0-3", "0-3,8", "1,3,5-7"] {
            assert_eq!(text.parse::<Cpus>().expect("reads").to_string(), text);
        }
        assert_eq!("0,1,2".parse::<Cpus>().expect("reads").to_string(), "0-2");
        for text in ["x", "3-1", "0-9999999", "-1"] {
            assert!(text.parse::<Cpus>().is_err(), "{text}");
        }
    }

    #[test]
    fn sets_are_compared() {
        let set = |text: &str| text.parse::<Cpus>().expect("reads");
        assert!(set("0-1").meets(&set("1-2")) && !set("0").meets(&set("1")));
        assert!(set("1").is_within(&set("0-3")) && !set("1,9").is_within(&set("0-3")));
        assert_eq!(set("0-3").without(&set("1")), set("0,2-3"));
    }
}
