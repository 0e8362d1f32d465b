//! One line for what is said, whatever is in it: names of users, schemas and statements are what strangers have written.
//!
//! All lines of the log pass here, so no caller can forget it. Invariants: a line ends where Flifo ends it; it holds no
//! sign that a terminal obeys or that changes the order of what is read, but colours of Flifo's own; a line of JSON stays
//! one.

use std::borrow::Cow;
use std::fmt::Write;

/// What was written, without what could be taken for another line.
pub(super) fn plain(written: &[u8]) -> Cow<'_, [u8]> {
    match String::from_utf8_lossy(written) {
        // What the log's form writes is text, of which hardly any is to be changed.
        Cow::Borrowed(text) if !text.strip_suffix('\n').unwrap_or(text).contains(is_obeyed) => {
            Cow::Borrowed(written)
        }
        text => Cow::Owned(plain_text(&text).into()),
    }
}

fn plain_text(text: &str) -> String {
    let (line, end) = match text.strip_suffix('\n') {
        Some(line) => (line, "\n"),
        None => (text, ""),
    };
    let mut out = String::with_capacity(text.len() + 64);
    let mut rest = line;
    while let Some(at) = rest.find(is_obeyed) {
        let (before, sign) = rest.split_at(at);
        out.push_str(before);
        let colour = colour(sign);
        out.push_str(colour);
        rest = &sign[colour.len()..];
        if let Some(sign) = rest.chars().next().filter(|_| colour.is_empty()) {
            rest = &rest[sign.len_utf8()..];
            put(sign, &mut out);
        }
    }
    out.push_str(rest);
    out.push_str(end);
    out
}

/// As JSON has it, which people read as well.
fn put(sign: char, out: &mut String) {
    match sign {
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        // A string takes everything; none of these needs more digits.
        sign => drop(write!(out, "\\u{:04x}", u32::from(sign))),
    }
}

/// Whether a terminal obeys it, or a reader takes it for the end of a line or for an order of reading.
const fn is_obeyed(sign: char) -> bool {
    matches!(sign,
        '\0'..='\u{8}' | '\u{a}'..='\u{1f}' | '\u{7f}'..='\u{9f}'
        | '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The colour that a text begins with. The log's form takes such signs out of what others have written.
fn colour(text: &str) -> &str {
    let Some(rest) = text.strip_prefix("\u{1b}[") else { return "" };
    let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    match rest.as_bytes().get(digits) {
        Some(b'm') if digits <= COLOUR_MAX => &text[..2 + digits + 1],
        _ => "",
    }
}

/// The form's own are shorter.
const COLOUR_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn said(written: &str) -> String {
        String::from_utf8(plain(written.as_bytes()).into_owned()).expect("text")
    }

    #[test]
    fn what_a_stranger_writes_stays_in_its_line() {
        for usual in
            ["INFO it serves user=ann\n", "{\"user\":\"b\\n\u{fc}\"}\n", "a\tb\n", "\n", ""]
        {
            assert!(matches!(plain(usual.as_bytes()), Cow::Borrowed(_)), "{usual:?}");
        }
        assert_eq!(said("user=a\n2026 ERROR forged\r\n"), "user=a\\n2026 ERROR forged\\r\n");
        assert_eq!(
            said("\u{1b}]0;title\u{7}\u{9b}2J\u{7f}\n"),
            "\\u001b]0;title\\u0007\\u009b2J\\u007f\n"
        );
        assert_eq!(said("nie\u{202e}le\u{2028}\n"), "nie\\u202ele\\u2028\n");
        assert_eq!(
            said("\u{1b}[32mINFO\u{1b}[0m a\u{1b}[2J\n"),
            "\u{1b}[32mINFO\u{1b}[0m a\\u001b[2J\n"
        );
        let json = said("{\"a\":\"\u{7f}\u{85}\"}\n");
        let read: serde_json::Value = serde_json::from_str(&json).expect("it stays JSON");
        assert_eq!(read["a"], "\u{7f}\u{85}");
        assert_eq!(&*plain(b"\xff\n\n"), "\u{fffd}\\n\n".as_bytes());
    }
}
