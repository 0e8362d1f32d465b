//! Judges: is what clients were answered through Flifo what they were answered directly?
//!
//! Replies are compared packet by packet, sequence ids included; for people, they are written out.

use std::fmt;
use std::fmt::Write;

use wire::Capabilities;
use wire::bytes::Reader;
use wire::response::{EOF, ERR, ErrPacket, OK, OkPacket};

use super::peer::{Outcome, Packet};
use super::program::Program;
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
    let step = pairs.into_iter().position(|(direct, through)| direct != through)?;
    let done = &program.steps[step];
    Some(Difference {
        step,
        what: format!("{} {}", done.client, print_action(&done.action)),
        direct: direct[step].clone(),
        through: through[step].clone(),
    })
}

impl Difference {
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
}
