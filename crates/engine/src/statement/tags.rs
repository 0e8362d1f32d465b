//! Tags in a statement's comments: `/* app='billing', route=%2Fpay */`, as sqlcommenter writes them, and `app:billing`.

use wire::text::Text;

use super::part::{Part, parts};

/// Whether a comment of the statement has such a tag, with a value that is taken.
pub fn has_tag(part: &Part<'_>, key: &str, is_taken: impl Fn(&[u8]) -> bool) -> bool {
    part.gaps().any(|gap| {
        comments(gap).any(|comment| {
            let mut rest = comment;
            while let Some((name, value, behind)) = tag(rest) {
                if name == key.as_bytes() && is_taken(&decoded(value)) {
                    return true;
                }
                rest = behind;
            }
            false
        })
    })
}

/// The value of this tag in a comment that is for Flifo: `/* flifo gtid=0-1-42 */`. Of several the first counts.
pub fn of_flifo(text: Text<'_>, key: &[u8]) -> Option<Vec<u8>> {
    text.bytes.windows(OWN.len()).find(|part| *part == OWN)?;
    let parts = parts(text)?;
    parts.iter().flat_map(Part::gaps).flat_map(comments).find_map(|comment| {
        let rest = comment.trim_ascii_start().strip_prefix(OWN)?;
        let mut rest = rest.first().filter(|byte| byte.is_ascii_whitespace()).map(|_| rest)?;
        while let Some((name, value, behind)) = tag(rest) {
            if name == key {
                return Some(decoded(value));
            }
            rest = behind;
        }
        None
    })
}

/// What such a comment begins with.
const OWN: &[u8] = b"flifo";

/// The insides of comments with an end.
fn comments(mut gap: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let start = gap.windows(2).position(|two| two == b"/*")? + 2;
        let rest = gap.get(start..)?;
        let end = rest.windows(2).position(|two| two == b"*/")?;
        gap = rest.get(end + 2..)?;
        rest.get(..end)
    })
}

/// The first tag: its name, its value, and what follows.
fn tag(text: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let mut rest = text;
    loop {
        let start = rest.iter().position(|byte| is_name(*byte))?;
        rest = rest.get(start..)?;
        let end = rest.iter().position(|byte| !is_name(*byte)).unwrap_or(rest.len());
        let (name, behind) = rest.split_at_checked(end)?;
        let Some((b'=' | b':', value)) = behind.split_first() else {
            rest = behind;
            continue;
        };
        if let Some((b'\'', quoted)) = value.split_first() {
            let mut escaped = false;
            let ends = |byte: &u8| {
                let ends = *byte == b'\'' && !escaped;
                escaped = *byte == b'\\' && !escaped;
                ends
            };
            let end = quoted.iter().position(ends)?;
            return Some((name, quoted.get(..end)?, quoted.get(end + 1..)?));
        }
        let ends = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b',' | b';');
        let end = value.iter().position(ends).unwrap_or(value.len());
        let (value, behind) = value.split_at_checked(end)?;
        return Some((name, value, behind));
    }
}

const fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// A value with `%xx` and backslashes undone.
fn decoded(value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(value.len());
    let mut rest = value.iter();
    while let Some(byte) = rest.next() {
        let hex = |at: usize| rest.as_slice().get(at).and_then(|it| char::from(*it).to_digit(16));
        match (byte, hex(0), hex(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest.nth(1);
            }
            (b'\\', ..) => out.extend(rest.next()),
            _ => out.push(*byte),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::part::parts;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    #[test]
    fn tags_are_read_in_comments_only() {
        for (text, key, want) in [
            ("SELECT 1 /* app='billing' */", "app", Some("billing")),
            ("SELECT 1 /*app='billing',route='%2Fpay%2Fme'*/", "route", Some("/pay/me")),
            ("/* app:billing trace:7 */ SELECT 1", "trace", Some("7")),
            ("/* a b c=d */ SELECT 1", "c", Some("d")),
            ("SELECT /* x='it\\'s' */ 1", "x", Some("it's")),
            ("SELECT 'app=billing'", "app", None),
            ("SELECT '/* app=billing */'", "app", None),
            ("SELECT 1 /* app= */", "app", Some("")),
            ("SELECT 1 /* app='no end */", "app", None),
            ("SELECT 1 -- app=billing", "app", None),
        ] {
            let lexed = Lexed::default();
            let parts = parts(lexed.text(text.as_bytes(), Dialect::default())).expect("it is read");
            let found = has_tag(&parts[0], key, |value| Some(value) == want.map(str::as_bytes));
            assert_eq!(found, want.is_some(), "{text}");
            assert!(want.is_some() || !has_tag(&parts[0], key, |_| true), "{text}");
        }
    }

    #[test]
    fn a_comment_for_flifo_begins_with_its_name() {
        let of = |text: &str| {
            let lexed = Lexed::default();
            let text = lexed.text(text.as_bytes(), Dialect::default());
            of_flifo(text, b"gtid").map(|value| String::from_utf8(value).unwrap())
        };
        for (text, want) in [
            ("/* flifo gtid=0-1-42 */ SELECT 1", Some("0-1-42")),
            ("SELECT 1 /*flifo app:x, gtid='0-1-42,1-1-7'*/", Some("0-1-42,1-1-7")),
            ("SELECT /* a */ 1 /* flifo gtid:0%2D1 */ /* flifo gtid=2 */", Some("0-1")),
            ("SELECT 1 /* gtid=0-1-42 */", None),
            ("SELECT 1 /* flifo's gtid=0-1-42 */", None),
            ("SELECT '/* flifo gtid=0-1-42 */'", None),
            ("SELECT 1 /* flifo gtid */", None),
            ("SELECT 1 /* flifo gtid=0-1-42", None),
        ] {
            assert_eq!(of(text).as_deref(), want, "{text}");
        }
    }
}
