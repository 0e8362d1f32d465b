//! Patterns of names, as `LIKE` has them: `%` for any characters, `_` for one, `\` before what is meant as it stands.
//!
//! Takes time in proportion to pattern times name at most, whatever the pattern, and no memory.

/// A pattern that a name fits, or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    text: String,
    pieces: Vec<NamePiece>,
    case: NameCase,
}

/// Whether capital letters differ from small ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameCase {
    Counts,
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamePiece {
    Any,
    One,
    Just(u8),
}

impl NamePattern {
    pub fn new(text: &str, case: NameCase) -> Self {
        let mut pieces = Vec::new();
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            pieces.push(match byte {
                b'%' if pieces.last() == Some(&NamePiece::Any) => continue,
                b'%' => NamePiece::Any,
                b'_' => NamePiece::One,
                b'\\' => NamePiece::Just(bytes.next().unwrap_or(b'\\')),
                byte => NamePiece::Just(byte),
            });
        }
        Self { text: text.to_owned(), pieces, case }
    }

    /// As it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn fits(&self, name: &[u8]) -> bool {
        let (mut at, mut here) = (0, 0);
        // Where to go on if what follows the last `%` does not fit: one character further on.
        let mut retry = None;
        while let Some(byte) = name.get(here) {
            match self.pieces.get(at) {
                Some(NamePiece::Any) => {
                    at += 1;
                    retry = Some((at, here));
                }
                Some(NamePiece::One) => {
                    at += 1;
                    here = behind_character(name, here);
                }
                Some(NamePiece::Just(wanted)) if self.is_same(*wanted, *byte) => {
                    at += 1;
                    here += 1;
                }
                _ => match retry {
                    Some((after, from)) => {
                        let next = behind_character(name, from);
                        (at, here) = (after, next);
                        retry = Some((after, next));
                    }
                    None => return false,
                },
            }
        }
        self.pieces.get(at..).unwrap_or_default().iter().all(|piece| *piece == NamePiece::Any)
    }

    const fn is_same(&self, wanted: u8, byte: u8) -> bool {
        match self.case {
            NameCase::Counts => wanted == byte,
            NameCase::Ignored => wanted.eq_ignore_ascii_case(&byte),
        }
    }
}

/// Where the character ends that begins here, in UTF-8.
fn behind_character(name: &[u8], here: usize) -> usize {
    let rest = name.get(here + 1..).unwrap_or_default();
    here + 1 + rest.iter().take_while(|byte| **byte & 0xc0 == 0x80).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_fit_as_like_has_it() {
        for (pattern, name, fits) in [
            ("app", "app", true),
            ("app", "App", false),
            ("app", "apps", false),
            ("bi\\_%", "bi_reports", true),
            ("bi\\_%", "bin", false),
            ("bi_%", "bin", true),
            ("%", "", true),
            ("", "", true),
            ("", "a", false),
            ("%log%", "a_log_b", true),
            ("%log", "loglog", true),
            ("%log", "loglo", false),
            ("_", "\u{e4}", true),
            ("__", "\u{e4}", false),
            ("a%b%c", "aXbYbZc", true),
            ("a%b%c", "aXbYbZ", false),
            ("%_%", "a", true),
            ("%aab", "aaaab", true),
            ("%__b", "\u{e4}b", false),
            ("a\\", "a\\", true),
            ("a\\", "a", false),
            ("100\\%", "100%", true),
            ("100\\%", "1000", false),
        ] {
            let pattern = NamePattern::new(pattern, NameCase::Counts);
            assert_eq!(pattern.fits(name.as_bytes()), fits, "{} {name}", pattern.text());
        }
        assert!(NamePattern::new("shop.%", NameCase::Ignored).fits(b"SHOP.Orders"));
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let begun = std::time::Instant::now();
        let fits = |pattern: &str, name: &str| {
            NamePattern::new(pattern, NameCase::Counts).fits(name.as_bytes())
        };
        assert!(!fits(&"%a".repeat(200), &"a".repeat(199)));
        assert!(!fits(&format!("{}b", "%a".repeat(200)), &"a".repeat(4000)));
        assert!(begun.elapsed().as_secs() < 2);
    }

    proptest! {
        /// The same as a search that tries everything.
        #[test]
        fn nothing_is_missed(pattern in "[ab%_]{0,8}", name in "[ab]{0,8}") {
            fn slow(pattern: &[u8], name: &[u8]) -> bool {
                match (pattern.split_first(), name.split_first()) {
                    (None, rest) => rest.is_none(),
                    (Some((b'%', after)), rest) => {
                        slow(after, name) || rest.is_some_and(|(_, rest)| slow(pattern, rest))
                    }
                    (Some((b'_', after)), Some((_, rest))) => slow(after, rest),
                    (Some((letter, after)), Some((first, rest))) => letter == first && slow(after, rest),
                    (Some(_), None) => false,
                }
            }
            let fits = NamePattern::new(&pattern, NameCase::Counts).fits(name.as_bytes());
            prop_assert_eq!(fits, slow(pattern.as_bytes(), name.as_bytes()));
        }
    }
}
