//! The functions that people and tools use when they look at tables.

use super::node::{Node, is_true, number};
use super::run::{Session, SqlError};
use crate::table::Value;

/// A function: its names, how many arguments it takes, and whether nothing among them makes nothing of it.
struct Known {
    names: &'static [&'static str],
    least: usize,
    most: usize,
    nulls: Nulls,
    of: fn(&[Value], &Session) -> Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Nulls {
    Pass,
    Matter,
}

/// What takes any number of arguments takes so many.
const MANY: usize = 64;

const fn known(
    names: &'static [&'static str],
    (least, most): (usize, usize),
    nulls: Nulls,
    of: fn(&[Value], &Session) -> Value,
) -> Known {
    Known { names, least, most, nulls, of }
}

static KNOWN: [Known; 37] = [
    known(&["CONCAT"], (1, MANY), Nulls::Pass, |given, _| {
        given.iter().map(ToString::to_string).collect::<String>().into()
    }),
    known(&["CONCAT_WS"], (2, MANY), Nulls::Matter, |given, _| {
        let texts = given[1..].iter().filter(|it| **it != Value::Null).map(ToString::to_string);
        texts.collect::<Vec<_>>().join(&given[0].to_string()).into()
    }),
    known(&["IF"], (3, 3), Nulls::Matter, |given, _| {
        let at = if is_true(&given[0]) == Some(true) { 1 } else { 2 };
        given[at].clone()
    }),
    known(&["IFNULL", "COALESCE"], (1, MANY), Nulls::Matter, |given, _| {
        given.iter().find(|it| **it != Value::Null).cloned().unwrap_or(Value::Null)
    }),
    known(&["NULLIF"], (2, 2), Nulls::Matter, |given, _| {
        let are_equal = given[0].compare(&given[1]).is_some_and(std::cmp::Ordering::is_eq);
        if are_equal { Value::Null } else { given[0].clone() }
    }),
    known(&["LOWER", "LCASE"], (1, 1), Nulls::Pass, |given, _| {
        text(given, 0).to_lowercase().into()
    }),
    known(&["UPPER", "UCASE"], (1, 1), Nulls::Pass, |given, _| {
        text(given, 0).to_uppercase().into()
    }),
    known(&["LENGTH", "OCTET_LENGTH"], (1, 1), Nulls::Pass, |given, _| text(given, 0).len().into()),
    known(&["CHAR_LENGTH", "CHARACTER_LENGTH"], (1, 1), Nulls::Pass, |given, _| {
        text(given, 0).chars().count().into()
    }),
    known(&["SUBSTRING", "SUBSTR", "MID"], (2, 3), Nulls::Pass, |given, _| {
        let letters: Vec<char> = text(given, 0).chars().collect();
        let (from, count) = (number(&given[1]), given.get(2).map_or(f64::MAX, number));
        part(&letters, from, count)
    }),
    known(&["LEFT"], (2, 2), Nulls::Pass, |given, _| {
        let letters: Vec<char> = text(given, 0).chars().collect();
        part(&letters, 1.0, number(&given[1]))
    }),
    known(&["RIGHT"], (2, 2), Nulls::Pass, |given, _| {
        let letters: Vec<char> = text(given, 0).chars().collect();
        let count = number(&given[1]).clamp(0.0, letters.len() as f64);
        part(&letters, letters.len() as f64 - count + 1.0, count)
    }),
    known(&["SUBSTRING_INDEX"], (3, 3), Nulls::Pass, |given, _| before_mark(given)),
    known(&["LOCATE"], (2, 2), Nulls::Pass, |given, _| place(&text(given, 1), &text(given, 0))),
    known(&["INSTR"], (2, 2), Nulls::Pass, |given, _| place(&text(given, 0), &text(given, 1))),
    known(&["REPLACE"], (3, 3), Nulls::Pass, |given, _| replaced(given)),
    known(&["TRIM"], (1, 1), Nulls::Pass, |given, _| {
        text(given, 0).trim_matches(' ').to_owned().into()
    }),
    known(&["LTRIM"], (1, 1), Nulls::Pass, |given, _| {
        text(given, 0).trim_start_matches(' ').to_owned().into()
    }),
    known(&["RTRIM"], (1, 1), Nulls::Pass, |given, _| {
        text(given, 0).trim_end_matches(' ').to_owned().into()
    }),
    known(&["ROUND"], (1, 2), Nulls::Pass, |given, _| {
        let scale = 10_f64.powi(given.get(1).map_or(0.0, number).clamp(-15.0, 15.0) as i32);
        match &given[0] {
            Value::Count(_) | Value::Signed(_) if given.len() == 1 => given[0].clone(),
            value => rounded((number(value) * scale).round() / scale, given.len() == 1),
        }
    }),
    known(&["FLOOR"], (1, 1), Nulls::Pass, |given, _| rounded(number(&given[0]).floor(), true)),
    known(&["CEIL", "CEILING"], (1, 1), Nulls::Pass, |given, _| {
        rounded(number(&given[0]).ceil(), true)
    }),
    known(&["ABS"], (1, 1), Nulls::Pass, |given, _| match &given[0] {
        Value::Signed(number) => number.unsigned_abs().into(),
        Value::Count(count) => (*count).into(),
        other => number(other).abs().into(),
    }),
    known(&["GREATEST"], (2, MANY), Nulls::Pass, |given, _| {
        given
            .iter()
            .cloned()
            .reduce(|one, two| {
                if one.compare(&two).is_some_and(std::cmp::Ordering::is_lt) { two } else { one }
            })
            .unwrap_or(Value::Null)
    }),
    known(&["LEAST"], (2, MANY), Nulls::Pass, |given, _| {
        given
            .iter()
            .cloned()
            .reduce(|one, two| {
                if one.compare(&two).is_some_and(std::cmp::Ordering::is_gt) { two } else { one }
            })
            .unwrap_or(Value::Null)
    }),
    known(&["SEC_TO_TIME"], (1, 1), Nulls::Pass, |given, _| {
        let seconds = number(&given[0]).max(0.0) as u64;
        format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60).into()
    }),
    known(&["FROM_UNIXTIME"], (1, 1), Nulls::Pass, |given, _| date(number(&given[0])).into()),
    known(&["UNIX_TIMESTAMP"], (0, 0), Nulls::Pass, |_, session| (session.now as u64).into()),
    known(
        &["NOW", "CURRENT_TIMESTAMP", "SYSDATE", "LOCALTIME", "UTC_TIMESTAMP"],
        (0, 1),
        Nulls::Pass,
        |_, session| date(session.now).into(),
    ),
    known(&["CURDATE", "CURRENT_DATE"], (0, 0), Nulls::Pass, |_, session| {
        date(session.now)[..10].to_owned().into()
    }),
    known(&["VERSION"], (0, 0), Nulls::Pass, |_, session| session.version.clone().into()),
    known(&["DATABASE", "SCHEMA"], (0, 0), Nulls::Pass, |_, session| session.schema.clone().into()),
    known(
        &["USER", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER"],
        (0, 0),
        Nulls::Pass,
        |_, session| session.user.clone().into(),
    ),
    known(&["CURRENT_ROLE"], (0, 0), Nulls::Pass, |_, _| Value::Null),
    known(&["CONNECTION_ID"], (0, 0), Nulls::Pass, |_, session| session.id.into()),
    known(&["LAST_INSERT_ID", "FOUND_ROWS", "ROW_COUNT"], (0, 0), Nulls::Pass, |_, _| 0_u32.into()),
    known(&["HEX"], (1, 1), Nulls::Pass, |given, _| match &given[0] {
        Value::Count(count) => format!("{count:X}").into(),
        other => {
            other.to_string().bytes().map(|byte| format!("{byte:02X}")).collect::<String>().into()
        }
    }),
];

/// Whether a server takes this name for a function also where no parentheses follow.
pub(super) fn needs_no_parentheses(name: &str) -> bool {
    ["CURRENT_USER", "CURRENT_TIMESTAMP", "CURRENT_DATE", "LOCALTIME", "CURRENT_ROLE"]
        .iter()
        .any(|it| it.eq_ignore_ascii_case(name))
}

/// A call of the function of this name, in any case.
pub(super) fn call(name: &str, given: Vec<Node>) -> Result<Node, SqlError> {
    let found = KNOWN.iter().find(|it| it.names.iter().any(|it| it.eq_ignore_ascii_case(name)));
    let Some(known) = found else {
        let message = format!("FUNCTION {name} does not exist on the console");
        return Err(SqlError::new(1305, b"42000", message));
    };
    if given.len() < known.least || given.len() > known.most {
        let message = format!("Incorrect parameter count in the call to native function '{name}'");
        return Err(SqlError::new(1582, b"42000", message));
    }
    let call = Node::Call(known.of, given.clone());
    if known.nulls == Nulls::Matter || given.is_empty() {
        return Ok(call);
    }
    let nothing = Node::Any(given.into_iter().map(|one| Node::IsNull(Box::new(one))).collect());
    Ok(Node::Case(vec![(nothing, Node::Constant(Value::Null))], Box::new(call)))
}

fn text(given: &[Value], at: usize) -> String {
    given[at].to_string()
}

/// Letters of a text, from the one of this number; from its end, if that is negative.
fn part(letters: &[char], from: f64, count: f64) -> Value {
    let from = match from {
        from if from >= 1.0 => from - 1.0,
        from if from < 0.0 && -from <= letters.len() as f64 => letters.len() as f64 + from,
        _ => return "".into(),
    };
    letters.iter().skip(from as usize).take(count.max(0.0) as usize).collect::<String>().into()
}

/// The place of a text in another, from 1; 0 if it is not there.
fn place(whole: &str, wanted: &str) -> Value {
    let (whole, wanted) = (whole.to_lowercase(), wanted.to_lowercase());
    let found = whole.find(&wanted);
    found.map_or(0, |at| whole[..at].chars().count() + 1).into()
}

/// `SUBSTRING_INDEX`: what stands before so many marks, or behind so many from the end.
fn before_mark(given: &[Value]) -> Value {
    let (whole, mark, count) = (text(given, 0), text(given, 1), number(&given[2]));
    if mark.is_empty() || count == 0.0 {
        return "".into();
    }
    let parts: Vec<_> = whole.split(&mark).collect();
    let wanted = (count.abs() as usize).min(parts.len());
    let parts = if count > 0.0 { &parts[..wanted] } else { &parts[parts.len() - wanted..] };
    parts.join(&mark).into()
}

/// What `REPLACE` makes is no longer than a packet may be.
const REPLACED_MAX: usize = 1 << 16;

fn replaced(given: &[Value]) -> Value {
    let (whole, from, to) = (text(given, 0), text(given, 1), text(given, 2));
    if from.is_empty() {
        return whole.into();
    }
    let mut out = String::new();
    for (at, part) in whole.split(&from).enumerate() {
        if out.len() + part.len() + to.len() > REPLACED_MAX {
            return Value::Null;
        }
        if at > 0 {
            out.push_str(&to);
        }
        out.push_str(part);
    }
    out.into()
}

fn rounded(number: f64, is_whole: bool) -> Value {
    let fits = number.abs() < 9e15;
    match number {
        _ if !is_whole || !fits => Value::Real(number),
        number if number < 0.0 => Value::Signed(number as i64),
        number => Value::Count(number as u64),
    }
}

/// A moment as servers write it, in UTC.
fn date(seconds: f64) -> String {
    let seconds = seconds.clamp(0.0, 253_402_300_799.0) as u64;
    let (mut days, time) = (seconds / 86_400, seconds % 86_400);
    // Years begin in March here, so that the day that is inserted is the last of its year.
    days += 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_dates() {
        for (seconds, want) in [
            (0.0, "1970-01-01 00:00:00"),
            (951_782_400.0, "2000-02-29 00:00:00"),
            (1_764_180_366.0, "2025-11-26 18:06:06"),
            (4_107_542_399.0, "2100-02-28 23:59:59"),
            (4_107_542_400.0, "2100-03-01 00:00:00"),
            (f64::NAN, "1970-01-01 00:00:00"),
        ] {
            assert_eq!(date(seconds), want);
        }
    }
}
