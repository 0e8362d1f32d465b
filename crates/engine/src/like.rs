//! Patterns as SQL's `LIKE` has them: `%` is any text, `_` any one character, a backslash takes the next as it is.
//!
//! Owns nothing but the comparison, which knows no letter's case. Names are UTF-8 or bytes of something else, each of
//! which is a character then. Invariant: a pattern is compared in at most its length times the name's.

/// Whether a name fits a pattern.
pub fn fits(pattern: &[u8], name: &[u8]) -> bool {
    let (mut at, mut to) = (0, 0);
    // Behind the last `%`, and what it has taken so far.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        match pattern.get(at) {
            Some(b'%') => {
                at += 1;
                retry = Some((at, to));
                continue;
            }
            Some(b'_') if to < name.len() => {
                (at, to) = (at + 1, to + character(&name[to..]));
                continue;
            }
            Some(b'\\') if pattern.get(at + 1).is_some_and(|it| name.get(to) == Some(it)) => {
                (at, to) = (at + 2, to + 1);
                continue;
            }
            Some(byte) if *byte != b'\\' && *byte != b'_' && name.get(to) == Some(byte) => {
                (at, to) = (at + 1, to + 1);
                continue;
            }
            // A backslash at the end is one.
            Some(b'\\') if at + 1 == pattern.len() && name.get(to) == Some(&b'\\') => {
                (at, to) = (at + 1, to + 1);
                continue;
            }
            None if to == name.len() => return true,
            _ => {}
        }
        match &mut retry {
            Some((behind, taken)) if *taken < name.len() => {
                *taken += 1;
                (at, to) = (*behind, *taken);
            }
            _ => return false,
        }
    }
}

/// How many bytes the first character has.
fn character(name: &[u8]) -> usize {
    let more = name.iter().skip(1).take_while(|byte| **byte & 0xc0 == 0x80).count();
    match name.first() {
        Some(0xc0..) => 1 + more.min(3),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_names() {
        for (pattern, name, want) in [
            ("shop", "shop", true),
            ("shop", "Shop", false),
            ("shop", "shops", false),
            ("shop%", "shop", true),
            ("shop_%", "shop", false),
            ("shop_%", "shop_1", true),
            ("shop_%", "shops1", true),
            ("shop\\_%", "shops1", false),
            ("shop\\_%", "shop_1", true),
            ("%", "", true),
            ("_", "", false),
            ("_", "\u{e4}", true),
            ("__", "\u{e4}", false),
            ("%_%", "a", true),
            ("%a%b", "xaxxbab", true),
            ("%a%b", "xaxxbac", false),
            ("%aab", "aaaab", true),
            ("", "", true),
            ("", "a", false),
            ("a\\", "a\\", true),
            ("a\\", "a", false),
            ("100\\%", "100%", true),
            ("100\\%", "1000", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), name.as_bytes()), want, "{pattern} {name}");
        }
    }

    #[test]
    fn a_long_pattern_ends_soon() {
        let (pattern, name) = ("%a".repeat(200), "a".repeat(199));
        assert!(!fits(pattern.as_bytes(), name.as_bytes()));
    }
}
