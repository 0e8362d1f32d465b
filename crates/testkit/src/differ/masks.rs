//! Masks the numbers that servers give of their own accord, where they stand in words: ids of connections and
//! statements.
//!
//! Which errors, and why, is listed in `peer`.

use wire::response::{ERR, ErrPacket};

use super::program::find_all;

/// Masks the ids that an error repeats, in its packet or in a row that shows it.
pub(super) fn mask(payload: &mut Vec<u8>) {
    match payload.first() {
        Some(&ERR) => mask_error(payload),
        _ => mask_shown(payload),
    }
}

fn mask_error(payload: &mut Vec<u8>) {
    let Ok(error) = ErrPacket::decode(payload) else { return };
    const SYNTAX: u16 = 1064;
    const UNKNOWN_STATEMENT: u16 = 1243;
    const UNKNOWN_THREAD: u16 = 1094;
    const NOT_OWNER: u16 = 1095;
    const NO_CURSOR: u16 = 1421;
    let names_ids = match error.code {
        UNKNOWN_STATEMENT | NO_CURSOR | UNKNOWN_THREAD | NOT_OWNER => true,
        SYNTAX => {
            let message = error.message.to_ascii_uppercase();
            let has = |words: &&[u8]| !find_all(&message, words).is_empty();
            // MySQL's begins behind the word that it does not understand.
            [&b"KILL"[..], b"NEAR 'QUERY", b"NEAR 'CONNECTION"].iter().any(has)
        }
        _ => false,
    };
    if !names_ids {
        return;
    }
    let message = without_numbers(error.message);
    let masked = ErrPacket { message: &message, ..error };
    let mut out = Vec::new();
    masked.encode(&mut out);
    *payload = out;
}

/// A message in a row stands behind its length.
fn mask_shown(payload: &mut Vec<u8>) {
    for (head, tail) in SHOWN {
        let Some(&at) = find_all(payload, head).first() else { continue };
        let Some(len) = at.checked_sub(1).map(|it| usize::from(payload[it])) else { continue };
        let Some(text) = payload.get(at..at + len).filter(|text| text.ends_with(tail)) else {
            continue;
        };
        let masked = without_numbers(text);
        payload[at - 1] = masked.len() as u8;
        payload.splice(at..at + len, masked);
    }
}

/// How the messages of errors 1243 and 1421 begin and end.
const SHOWN: [(&[u8], &[u8]); 4] = [
    (b"Unknown prepared statement handler (", b") given to mysql_stmt_precheck"),
    (b"Unknown prepared statement handler (", b") given to mysqld_stmt_execute"),
    (b"Unknown prepared statement handler (", b") given to mysqld_stmt_fetch"),
    (b"The statement (", b") has no open cursor."),
];

fn without_numbers(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in text {
        match byte {
            byte if !byte.is_ascii_digit() => out.push(*byte),
            _ if out.last() != Some(&b'#') => out.push(b'#'),
            _ => {}
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_are_masked_and_only_in_errors_about_ids() {
        let masked = |code: u16, message: &str| {
            let mut out = Vec::new();
            ErrPacket { code, sqlstate: *b"HY000", message: message.as_bytes() }.encode(&mut out);
            mask(&mut out);
            String::from_utf8_lossy(&out[9..]).into_owned()
        };
        assert_eq!(masked(1094, "Unknown thread id: 123"), "Unknown thread id: #");
        assert_eq!(masked(1243, "handler (7) given"), "handler (#) given");
        assert_eq!(masked(1146, "Table 'd1.t2'"), "Table 'd1.t2'");
        assert_eq!(masked(1064, "near 'QUERY 12' in 'kill 12'"), "near 'QUERY #' in 'kill #'");
        assert_eq!(masked(1064, "near 'CONNECTION 12' at line"), "near 'CONNECTION #' at line");
        assert_eq!(masked(1064, "near '12'"), "near '12'");
    }

    #[test]
    fn an_id_in_a_shown_message_is_masked_and_its_length_fits() {
        let mut row = b"\x05Error\x041243\x45".to_vec();
        row.extend_from_slice(
            b"Unknown prepared statement handler (123) given to mysqld_stmt_execute",
        );
        let mut other = row.clone();
        mask(&mut row);
        assert!(row.ends_with(b"handler (#) given to mysqld_stmt_execute"));
        assert_eq!(usize::from(row[11]), row.len() - 12);
        other[11] -= 1;
        let kept = other.clone();
        mask(&mut other);
        assert_eq!(other, kept, "it is not a text of this length");
    }
}
