//! Programs as texts: one line a step, so that a difference can be read, kept and replayed.
//!
//! ```text
//! # A line about what it shows.
//! only mariadb
//! client 0 user 1 schema can eofless multi
//! 0 connect
//! 0 query SET @a = 1
//! 0 prepare 1 SELECT ?
//! 0 execute 1 int:5
//! ```
//!
//! Invariant: what is printed is parsed to the same program.

use std::fmt::Write;

use super::program::{Abilities, Action, Brand, How, Pace, Plan, Program, Slot, Step, Value};

/// Reads a program. An error names the line.
pub fn parse(text: &str) -> Result<Program, String> {
    let mut program = Program::default();
    for (number, line) in text.lines().enumerate() {
        let read = parse_line(line, &mut program);
        read.ok_or_else(|| format!("line {}: cannot read `{line}`", number + 1))?;
    }
    Ok(program)
}

/// Writes a program.
pub fn print(program: &Program) -> String {
    let mut out = String::new();
    for line in &program.title {
        let _ = writeln!(out, "# {line}");
    }
    if let Some(brand) = program.only {
        let _ = writeln!(out, "only {}", brand_name(brand));
    }
    if program.pace == Pace::Rush {
        out.push_str("rush\n");
    }
    for (number, plan) in program.clients.iter().enumerate() {
        let _ = write!(out, "client {number} user {}", plan.user);
        if plan.in_schema {
            out.push_str(" schema");
        }
        for (name, is) in abilities(plan.abilities) {
            if is {
                let _ = write!(out, " {name}");
            }
        }
        out.push('\n');
    }
    for step in &program.steps {
        let _ = writeln!(out, "{} {}", step.client, print_action(&step.action));
    }
    out
}

fn brand_name(brand: Brand) -> &'static str {
    match brand {
        Brand::MariaDb => "mariadb",
        Brand::MySql => "mysql",
    }
}

fn abilities(of: Abilities) -> [(&'static str, bool); 7] {
    [
        ("eofless", of.no_eof),
        ("trusts", of.trusts),
        ("single", of.single),
        ("track", of.track),
        ("multi", of.multi),
        ("found", of.found),
        ("cache", of.cache),
    ]
}

fn parse_line(line: &str, program: &mut Program) -> Option<()> {
    if let Some(title) = line.strip_prefix('#') {
        program.title.push(title.strip_prefix(' ').unwrap_or(title).to_owned());
        return Some(());
    }
    let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
    match first {
        "" if rest.is_empty() => {}
        "rush" => program.pace = Pace::Rush,
        "only" => {
            let brands = [Brand::MariaDb, Brand::MySql];
            let brand = brands.into_iter().find(|it| brand_name(*it) == rest)?;
            program.only = Some(brand);
        }
        "client" => {
            let (number, plan) = parse_plan(rest)?;
            if number != program.clients.len() {
                return None;
            }
            program.clients.push(plan);
        }
        _ => {
            let step = Step { client: first.parse().ok()?, action: parse_action(rest)? };
            let known = program.clients.len();
            if Program::touched(&step).iter().any(|client| *client >= known) {
                return None;
            }
            program.steps.push(step);
        }
    }
    Some(())
}

fn parse_plan(text: &str) -> Option<(usize, Plan)> {
    let mut words = text.split(' ');
    let number = words.next()?.parse().ok()?;
    if words.next()? != "user" {
        return None;
    }
    let user = words.next()?.parse().ok().filter(|user| *user < super::program::USERS)?;
    let mut plan = Plan { user, in_schema: false, abilities: Abilities::default() };
    for word in words {
        let able = &mut plan.abilities;
        *match word {
            "schema" => &mut plan.in_schema,
            "eofless" => &mut able.no_eof,
            "trusts" => &mut able.trusts,
            "single" => &mut able.single,
            "track" => &mut able.track,
            "multi" => &mut able.multi,
            "found" => &mut able.found,
            "cache" => &mut able.cache,
            _ => return None,
        } = true;
    }
    Some((number, plan))
}

/// Reads one action, as it stands behind the client's number.
pub fn parse_action(text: &str) -> Option<Action> {
    let (verb, rest) = text.split_once(' ').unwrap_or((text, ""));
    let split = || rest.split_once(' ').unwrap_or((rest, ""));
    let slot = |word: &str| word.parse::<u8>().ok();
    Some(match verb {
        "connect" => Action::Connect,
        "quit" => Action::Quit,
        "vanish" => Action::Vanish,
        "reset" => Action::Reset,
        "ping" => Action::Ping,
        "query" => Action::Query(unescape(rest)?),
        "beside" => Action::Beside(unescape(rest)?),
        "half" => Action::Leave { text: unescape(rest)?, reads: true },
        "drop" => Action::Leave { text: unescape(rest)?, reads: false },
        "unjudged" => Action::Unjudged(unescape(rest)?),
        "use" => Action::InitDb(unescape(rest)?),
        "fields" => Action::FieldList(unescape(rest)?),
        "raw" => Action::Raw(unescape(rest)?),
        "kill" => Action::Kill(rest.parse().ok()?),
        "option" => Action::SetOption(rest.parse().ok()?),
        "user" => {
            let (user, schema) = split();
            let user = user.parse().ok().filter(|user| *user < super::program::USERS)?;
            Action::ChangeUser { user, in_schema: schema == "schema" }
        }
        "prepare" => Action::Prepare { slot: slot(split().0)?, text: unescape(split().1)? },
        "execute" => parse_execute(rest)?,
        "bulk" => {
            let rows = split().1.split(" / ").map(parse_values).collect::<Option<_>>()?;
            Action::Bulk { slot: slot(split().0)?, rows }
        }
        "long" => {
            let (parameter, bytes) = split().1.split_once(' ')?;
            let parameter = parameter.parse().ok()?;
            Action::LongData { slot: slot(split().0)?, parameter, bytes: unescape(bytes)? }
        }
        "fetch" => Action::Fetch { slot: slot(split().0)?, rows: split().1.parse().ok()? },
        "rewind" => Action::ResetStatement { slot: slot(rest)? },
        "close" => Action::Close { slot: slot(rest)? },
        _ => return None,
    })
}

fn parse_execute(text: &str) -> Option<Action> {
    let (slot, rest) = text.split_once(' ').unwrap_or((text, ""));
    let slot = if slot == "last" { Slot::Last } else { Slot::Is(slot.parse().ok()?) };
    let (first, others) = rest.split_once(' ').unwrap_or((rest, ""));
    let (how, values) = match first {
        "cursor" => (How::Cursor, others),
        "untyped" => (How::Untyped, others),
        _ => (How::Plain, rest),
    };
    Some(Action::Execute { slot, how, values: parse_values(values)? })
}

fn parse_values(text: &str) -> Option<Vec<Value>> {
    let words = text.split(' ').filter(|word| !word.is_empty());
    words
        .map(|word| {
            Some(match word.split_once(':') {
                Some(("int", value)) => Value::Int(value.parse().ok()?),
                Some(("number", value)) => Value::Number(value.into()),
                Some(("text", value)) => Value::Text(unescape(value)?),
                None if word == "null" => Value::Null,
                None if word == "long" => Value::Long,
                _ => return None,
            })
        })
        .collect()
}

/// Writes an action as [`parse_action`] reads it.
pub fn print_action(action: &Action) -> String {
    match action {
        Action::Connect => "connect".to_owned(),
        Action::Quit => "quit".to_owned(),
        Action::Vanish => "vanish".to_owned(),
        Action::Reset => "reset".to_owned(),
        Action::Ping => "ping".to_owned(),
        Action::Query(text) => format!("query {}", escape(text)),
        Action::Beside(text) => format!("beside {}", escape(text)),
        Action::Leave { text, reads } => {
            format!("{} {}", if *reads { "half" } else { "drop" }, escape(text))
        }
        Action::Unjudged(text) => format!("unjudged {}", escape(text)),
        Action::InitDb(name) => format!("use {}", escape(name)),
        Action::FieldList(name) => format!("fields {}", escape(name)),
        Action::Raw(bytes) => format!("raw {}", escape(bytes)),
        Action::Kill(client) => format!("kill {client}"),
        Action::SetOption(option) => format!("option {option}"),
        Action::ChangeUser { user, in_schema } => {
            format!("user {user}{}", if *in_schema { " schema" } else { "" })
        }
        Action::Prepare { slot, text } => format!("prepare {slot} {}", escape(text)),
        Action::Execute { slot, how, values } => {
            let slot = match slot {
                Slot::Is(slot) => slot.to_string(),
                Slot::Last => "last".to_owned(),
            };
            let how = match how {
                How::Plain => "",
                How::Cursor => " cursor",
                How::Untyped => " untyped",
            };
            let values = print_values(values);
            let space = if values.is_empty() { "" } else { " " };
            format!("execute {slot}{how}{space}{values}")
        }
        Action::Bulk { slot, rows } => {
            let rows: Vec<_> = rows.iter().map(|row| print_values(row)).collect();
            format!("bulk {slot} {}", rows.join(" / "))
        }
        Action::LongData { slot, parameter, bytes } => {
            format!("long {slot} {parameter} {}", escape(bytes))
        }
        Action::Fetch { slot, rows } => format!("fetch {slot} {rows}"),
        Action::ResetStatement { slot } => format!("rewind {slot}"),
        Action::Close { slot } => format!("close {slot}"),
    }
}

fn print_values(values: &[Value]) -> String {
    let words: Vec<_> = values
        .iter()
        .map(|value| match value {
            Value::Null => "null".to_owned(),
            Value::Long => "long".to_owned(),
            Value::Int(value) => format!("int:{value}"),
            Value::Number(value) => format!("number:{}", String::from_utf8_lossy(value)),
            Value::Text(value) => format!("text:{}", escape(value).replace(' ', "\\x20")),
        })
        .collect();
    words.join(" ")
}

/// Bytes as one line of a text.
pub fn escape(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                letter if letter.is_control() && letter.is_ascii() => {
                    let _ = write!(out, "\\x{:02x}", u32::from(letter));
                }
                letter => out.push(letter),
            }
        }
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out
}

fn unescape(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        out.push(match bytes.next()? {
            b'\\' => b'\\',
            b'n' => b'\n',
            b'x' => {
                let digits = [bytes.next()?, bytes.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            _ => return None,
        });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: &str = "# All that can be written.\n\
        only mariadb\n\
        rush\n\
        client 0 user 1 schema eofless track multi found cache\n\
        client 1 user 2 trusts single\n\
        0 connect\n\
        0 query SELECT '\\\\ \\n \\xff ü {id:1}'\n\
        0 prepare 1 SELECT ?\n\
        0 execute 1 null int:-5 text:a\\x20b long\n\
        0 execute last cursor int:1 number:{id:1}\n\
        0 execute 1 untyped\n\
        0 bulk 1 int:1 text:x / null null\n\
        0 long 1 0 some bytes\n\
        0 fetch 1 2\n\
        0 rewind 1\n\
        0 close 1\n\
        0 use d0\n\
        0 user 2 schema\n\
        0 user 0\n\
        0 reset\n\
        0 ping\n\
        0 option 1\n\
        0 fields t\n\
        0 kill 1\n\
        0 raw \\x02\n\
        1 vanish\n\
        1 beside SELECT 1\n\
        1 half SELECT 1\n\
        1 drop SELECT 1\n\
        0 quit\n";

    #[test]
    fn what_is_printed_is_parsed_to_the_same() {
        let program = parse(ALL).unwrap();
        assert_eq!(print(&program), ALL);
        assert_eq!(parse(&print(&program)).unwrap(), program);
        assert_eq!(Program::touched(&program.steps[1]), [0, 1]);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for line in ["client 1 user 0", "client 0 user 9", "0 ping", "only oracle", "nothing"] {
            let error = parse(&format!("# x\n{line}\n")).unwrap_err();
            assert!(error.starts_with("line 2") && error.contains(line), "{error}");
        }
        for step in ["fly", "query \\q", "execute 1 int:x", "kill 7", "query KILL {id:7}"] {
            assert!(parse(&format!("client 0 user 0\n0 {step}\n")).is_err(), "{step}");
        }
    }
}
