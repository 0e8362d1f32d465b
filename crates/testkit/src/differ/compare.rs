//! Judges: is what clients were answered through Flifo what they were answered directly?
//!
//! Replies are compared packet by packet, sequence ids included; for people, they are written out. A comment that a rule
//! has added shows where a server repeats a statement's text, in errors: that alone is no difference.

use std::fmt;
use std::fmt::Write;

use wire::Capabilities;
use wire::bytes::Reader;
use wire::response::{EOF, ERR, ErrPacket, OK, OkPacket};

use super::peer::{Outcome, Packet};
use super::program::{Program, find_all};
use super::random_rules::ADDED;
use super::run::Trace;
use super::text::{escape, print_action};

/// The first step that was answered otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub step: usize,
    /// What was done, by whom.
    what: String,
    direct: Outcome,
    through: Outcome,
}

/// The first step of the program that was answered otherwise, if there is one.
pub fn compare(program: &Program, direct: &Trace, through: &Trace) -> Option<Difference> {
    let pairs = direct.iter().zip(through);
    let step = pairs.into_iter().position(|(direct, through)| !is_same(direct, through))?;
    let done = &program.steps[step];
    Some(Difference {
        step,
        what: format!("{} {}", done.client, print_action(&done.action)),
        direct: direct[step].clone(),
        through: through[step].clone(),
    })
}

fn is_same(direct: &Outcome, through: &Outcome) -> bool {
    let (before, behind) = match (direct, through) {
        _ if direct == through => return true,
        (Outcome::Reply(before), Outcome::Reply(behind))
        | (Outcome::Closed(before), Outcome::Closed(behind)) => (before, behind),
        _ => return false,
    };
    let mut pairs = before.iter().zip(behind);
    before.len() == behind.len()
        && pairs.all(|(it, other)| {
            it.sequence == other.sequence
                && (it.payload == other.payload || is_same_but_added(&it.payload, &other.payload))
        })
}

/// Whether nothing but the comments of rules tells two packets apart.
fn is_same_but_added(direct: &[u8], through: &[u8]) -> bool {
    let is_text = |text: &[u8], other: &[u8]| {
        let mut without = other.to_vec();
        while let Some(&at) = find_all(&without, ADDED.as_bytes()).first() {
            without.drain(at..at + ADDED.len());
        }
        without == text
            || without.len() < other.len() && is_cut(text, &without, other.len() - without.len())
    };
    match (ErrPacket::decode(direct), ErrPacket::decode(through)) {
        (Ok(it), Ok(other)) => {
            (it.code, it.sqlstate) == (other.code, other.sqlstate)
                && is_text(it.message, other.message)
        }
        (Err(_), Err(_)) => match (values_of(direct), values_of(through)) {
            (Some(all), Some(others)) if all.len() == others.len() => {
                all.iter().zip(&others).all(|pair| match pair {
                    (Some(text), Some(other)) => text == other || is_text(text, other),
                    (text, other) => text == other,
                })
            }
            _ => false,
        },
        _ => false,
    }
}

/// A server shows so much of a text, and no more.
const SHOWN_MAX: usize = 80;

/// Whether a text is the other one but that less of a statement is shown in it: comments of so many bytes took its place.
fn is_cut(text: &[u8], without: &[u8], added: usize) -> bool {
    let shown = |text: &[u8]| {
        let start = find_all(text, b"near '").first()? + b"near '".len();
        let end = *find_all(text, b"' at line ").last()?;
        (start <= end).then_some((start, end))
    };
    let (Some((start, end)), Some((other_start, other_end))) = (shown(text), shown(without)) else {
        return false;
    };
    let (own, other) = (&text[start..end], &without[other_start..other_end]);
    // The last comment may itself be cut.
    let most = own.iter().zip(other).take_while(|(it, other)| it == other).count();
    text[..start] == without[..other_start]
        && text[end..] == without[other_end..]
        && SHOWN_MAX <= other.len() + added
        && other.len() <= most + ADDED.len()
}

/// The values of a row; nothing, if it is none.
fn values_of(payload: &[u8]) -> Option<Vec<Option<Vec<u8>>>> {
    let mut reader = Reader::new(payload);
    let mut found = Vec::new();
    while !reader.is_empty() {
        found.push(match reader.rest() {
            [0xfb, ..] => {
                reader.u8("NULL").ok()?;
                None
            }
            _ => Some(reader.lenenc_bytes("value").ok()?.to_vec()),
        });
    }
    Some(found)
}

impl Difference {
    /// The same, of a step that stands elsewhere in its program.
    pub fn at(self, step: usize) -> Self {
        Self { step, ..self }
    }

    /// What is the same for differences of one cause: how the two answers begin.
    pub fn is_like(&self, other: &Self) -> bool {
        self.direct == other.direct && self.through == other.through
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "step {}: {}", self.step + 1, self.what)?;
        let (direct, through) = (describe(&self.direct), describe(&self.through));
        writeln!(f, "  directly:      {}", direct.join("\n                 "))?;
        write!(f, "  through Flifo: {}", through.join("\n                 "))
    }
}

/// A line for each packet.
fn describe(outcome: &Outcome) -> Vec<String> {
    let (packets, end) = match outcome {
        Outcome::Reply(packets) if packets.is_empty() => (packets, Some("no answer is due")),
        Outcome::Reply(packets) => (packets, None),
        Outcome::Closed(packets) => (packets, Some("the connection was closed")),
        Outcome::Stuck(packets) => (packets, Some("nothing more came")),
        Outcome::Skipped => return vec!["not connected".to_owned()],
    };
    let lines = packets.iter().enumerate().map(|(at, it)| packet(it, at == 0));
    lines.chain(end.map(str::to_owned)).collect()
}

fn packet(packet: &Packet, is_first: bool) -> String {
    let payload = &packet.payload;
    let mut out = format!("[{}] ", packet.sequence);
    let first = payload.first().copied();
    let error = (first == Some(ERR)).then(|| ErrPacket::decode(payload).ok()).flatten();
    let may_be_ok = matches!(first, Some(OK | EOF)) && (is_first || first == Some(EOF));
    let ok = (may_be_ok && payload.len() >= 7)
        .then(|| OkPacket::decode(payload, Capabilities::NONE).ok())
        .flatten();
    match (first, error, ok) {
        (_, Some(error), _) => {
            let (state, message) = (escape(&error.sqlstate), escape(error.message));
            let _ = write!(out, "ERR {} ({state}) {message}", error.code);
        }
        (_, _, Some(ok)) => {
            let _ = write!(
                out,
                "OK rows={} id={} status={:04x} warnings={} info={}",
                ok.affected_rows,
                ok.insert_id,
                ok.status.0,
                ok.warnings,
                escape(ok.info)
            );
        }
        (Some(EOF), ..) if payload.len() == 5 => {
            let (warnings, status) = ([payload[1], payload[2]], [payload[3], payload[4]]);
            let (warnings, status) = (u16::from_le_bytes(warnings), u16::from_le_bytes(status));
            let _ = write!(out, "EOF status={status:04x} warnings={warnings}");
        }
        _ => out.push_str(&values(payload)),
    }
    out
}

/// Texts behind their lengths, as rows and definitions have them; else the bytes.
fn values(payload: &[u8]) -> String {
    let mut reader = Reader::new(payload);
    let mut found = Vec::new();
    while !reader.is_empty() {
        match reader.rest() {
            [0xfb, ..] => {
                found.push("NULL".to_owned());
                let _ = reader.u8("NULL");
            }
            // The fixed part of a definition.
            [12, rest @ ..] if found.len() == 6 && rest.len() >= 12 => {
                found.push(escape(rest));
                break;
            }
            _ => match reader.lenenc_bytes("value") {
                Ok(value) => found.push(format!("'{}'", escape(value))),
                Err(_) => return escape(payload),
            },
        }
    }
    found.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differ::program::{Action, Step};

    fn reply(sequence: u8, payload: &[u8]) -> Outcome {
        Outcome::Reply(vec![Packet { sequence, payload: payload.to_vec() }])
    }

    #[test]
    fn one_byte_or_one_sequence_id_is_a_difference_and_is_shown() {
        let action = Action::Query(b"SELECT 1".to_vec());
        let steps = vec![Step { client: 0, action }; 2];
        let program = Program { steps, ..Program::default() };
        let same = vec![reply(1, b"\x01a"), reply(1, b"\x00\x00\x00\x02\x00\x00\x00")];
        assert_eq!(compare(&program, &same, &same), None);
        for other in
            [reply(2, b"\x00\x00\x00\x02\x00\x00\x00"), reply(1, b"\x00\x00\x00\x02\x00\x01\x00")]
        {
            let through = vec![same[0].clone(), other];
            let difference = compare(&program, &same, &through).unwrap();
            assert_eq!(difference.step, 1);
            let text = difference.to_string();
            assert!(text.contains("0 query SELECT 1") && text.contains("status=0002"), "{text}");
        }
    }

    #[test]
    fn a_comment_that_a_rule_adds_is_no_difference_and_all_else_is() {
        let error = |shown: &str| {
            let message = format!("syntax to use near '{shown}' at line 1");
            let mut out = Vec::new();
            ErrPacket { code: 1064, sqlstate: *b"42000", message: message.as_bytes() }
                .encode(&mut out);
            reply(1, &out)
        };
        let row = |text: &str| {
            let mut out = b"\x05Error\x041064".to_vec();
            out.push(text.len() as u8);
            out.extend_from_slice(text.as_bytes());
            reply(1, &out)
        };
        let long = "x".repeat(SHOWN_MAX - 7);
        for (direct, through, is) in [
            (error("SELECT 2"), error("SELECT /* rule=one */ 2"), true),
            (error("SELECT 2"), error("SELECT /* rule=one */ /* rule=one */ 2"), true),
            (error("SELECT 2"), error("SELECT /* rule=one */ 3"), false),
            (error("SELECT 2"), error("SELECT 2 "), false),
            (row("near '1'"), row("near ' /* rule=one */1'"), true),
            (row("near '1'"), row("near ' /* rule=two */1'"), false),
            (
                error(&format!("SELECT {long}")),
                error(&format!("SELECT /* rule=one */ {}", &long[ADDED.len()..])),
                true,
            ),
            (error(&format!("SELECT {long}")), error("SELECT /* rule=one */ xx"), false),
        ] {
            assert_eq!(is_same(&direct, &through), is, "{direct:?} {through:?}");
        }
    }
}
