//! A table as it fits a screen: fewer columns than there are, long texts cut or on several lines, and times as people
//! write them.
//!
//! The names of all columns, with their units, are those of the whole table; conditions are about those.

use crate::sql::{Answer, AnswerColumn};
use crate::table::{Kind, Value};

/// A column of the narrow form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Narrow {
    pub title: &'static str,
    /// The column of the whole table that it comes from.
    pub from: &'static str,
    pub form: Form,
}

/// How a value is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    AsItIs,
    /// A number of seconds, milliseconds or microseconds, as a time.
    Seconds,
    Millis,
    Micros,
    /// Seconds since 1970, as how long ago that was.
    Ago,
    /// At most so many letters.
    Cut(usize),
    /// All of it, so many letters a line; each line has a row of its own.
    Wrap(usize),
    /// The first words of it, before a comma or colon.
    Head,
    /// The same of an address, without its port.
    Host(usize),
}

/// A column as it is.
pub const fn plain(name: &'static str) -> Narrow {
    Narrow { title: name, from: name, form: Form::AsItIs }
}

/// A column under another name, in this form.
pub const fn shown(title: &'static str, from: &'static str, form: Form) -> Narrow {
    Narrow { title, from, form }
}

/// A text of at most so many letters.
pub const fn cut(name: &'static str, most: usize) -> Narrow {
    Narrow { title: name, from: name, form: Form::Cut(most) }
}

/// A text on lines of at most so many letters.
pub const fn wrapped(name: &'static str, most: usize) -> Narrow {
    Narrow { title: name, from: name, form: Form::Wrap(most) }
}

/// The narrow form of an answer. `now` is in seconds since 1970.
pub fn narrow(answer: &Answer, columns: &[Narrow], now: f64) -> Answer {
    let place = |narrow: &Narrow| {
        answer.columns.iter().position(|column| column.name.eq_ignore_ascii_case(narrow.from))
    };
    let places: Vec<_> = columns.iter().map(place).collect();
    let wraps = columns.iter().any(|narrow| matches!(narrow.form, Form::Wrap(_)));
    let row = |row: &Vec<Value>| -> Vec<Value> {
        let values = columns.iter().zip(&places).map(|(narrow, at)| {
            let value = at.and_then(|at| row.get(at)).unwrap_or(&Value::Null);
            narrow.form.of(value, now)
        });
        values.collect()
    };
    let heading = |(narrow, at): (&Narrow, &Option<usize>)| {
        let old = at.and_then(|at| answer.columns.get(at));
        AnswerColumn {
            table: old.map(|column| column.table.clone()).unwrap_or_default(),
            name: narrow.title.to_owned(),
            kind: match narrow.form {
                Form::AsItIs if !wraps => old.map_or(Kind::Text, |column| column.kind),
                _ => Kind::Text,
            },
        }
    };
    let rows = answer.rows.iter().map(row);
    let rows = match wraps {
        true => rows.flat_map(|row| lines(&row)).collect(),
        false => rows.collect(),
    };
    Answer { columns: columns.iter().zip(&places).map(heading).collect(), rows }
}

/// A row as one for each of its lines. Behind the first one there is nothing but what goes on.
fn lines(row: &[Value]) -> Vec<Vec<Value>> {
    let most = row.iter().map(|value| match value {
        Value::Text(text) => text.matches('\n').count() + 1,
        _ => 1,
    });
    let part = |value: &Value, at: usize| match value {
        Value::Null if at == 0 => Value::Null,
        value => value.to_string().split('\n').nth(at).unwrap_or_default().to_owned().into(),
    };
    let most = most.max().unwrap_or_default();
    (0..most).map(|at| row.iter().map(|value| part(value, at)).collect()).collect()
}

impl Form {
    fn of(self, value: &Value, now: f64) -> Value {
        if *value == Value::Null {
            return Value::Null;
        }
        let number = match value {
            Value::Count(count) => *count as f64,
            Value::Signed(number) => *number as f64,
            Value::Real(real) => *real,
            Value::Text(text) => text.trim().parse().unwrap_or(f64::NAN),
            Value::Null => f64::NAN,
        };
        match self {
            Self::AsItIs => value.clone(),
            Self::Cut(most) => short(&value.to_string(), most).into(),
            Self::Wrap(most) => wrap(&value.to_string(), most).into(),
            Self::Head => {
                let text = value.to_string();
                text.split([',', ':']).next().unwrap_or_default().to_owned().into()
            }
            Self::Host(most) => {
                let address = value.to_string();
                let host = address.rsplit_once(':').map_or(&*address, |(host, _)| host);
                short(host, most).into()
            }
            _ if !number.is_finite() => value.clone(),
            Self::Seconds => time(number).into(),
            Self::Millis => time(number / 1e3).into(),
            Self::Micros => time(number / 1e6).into(),
            Self::Ago => format!("{} ago", time(now - number)).into(),
        }
    }
}

/// A time as people write it: 3 digits, or two units.
fn time(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    let digits = |number: f64| usize::from(number < 9.95);
    match seconds {
        it if it <= 0.0 => "0 s".to_owned(),
        it if it < 1e-3 => format!("{:.0} us", it * 1e6),
        it if it < 1.0 => format!("{:.*} ms", digits(it * 1e3), it * 1e3),
        it if it < 100.0 => format!("{it:.*} s", digits(it)),
        it if it < 3600.0 => format!("{} min {:02} s", whole / 60, whole % 60),
        it if it < 86_400.0 => format!("{} h {:02} min", whole / 3600, whole / 60 % 60),
        _ => format!("{} d {:02} h", whole / 86_400, whole / 3600 % 24),
    }
}

/// A text on lines of at most so many letters, which end between words where they can.
fn wrap(text: &str, most: usize) -> String {
    let text = text.replace(char::is_control, " ");
    let (mut out, mut column) = (String::new(), 0);
    for word in text.split(' ') {
        let long = word.chars().count();
        match column {
            0 => {}
            at if at + 1 + long <= most => {
                out.push(' ');
                column += 1;
            }
            _ => {
                out.push('\n');
                column = 0;
            }
        }
        for letter in word.chars() {
            if column == most {
                out.push('\n');
                column = 0;
            }
            out.push(letter);
            column += 1;
        }
    }
    out
}

/// The beginning of a text, on one line.
fn short(text: &str, most: usize) -> String {
    let text = text.replace(char::is_control, " ");
    match text.chars().count() > most {
        true => {
            let begin: String = text.chars().take(most.saturating_sub(3)).collect();
            format!("{begin}...")
        }
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_people_write_them() {
        for (seconds, want) in [
            (-1.0, "0 s"),
            (0.000_012, "12 us"),
            (0.001_54, "1.5 ms"),
            (0.25, "250 ms"),
            (2.04, "2.0 s"),
            (75.4, "75 s"),
            (600.0, "10 min 00 s"),
            (7265.0, "2 h 01 min"),
            (200_000.0, "2 d 07 h"),
        ] {
            assert_eq!(time(seconds), want);
        }
        assert_eq!(short("a\nlong text", 8), "a lon...");
        assert_eq!(short("short", 8), "short");
        assert_eq!(wrap("it is far behind", 8), "it is\nfar\nbehind");
        assert_eq!(wrap("a verylongword b\nc", 5), "a\nveryl\nongwo\nrd b\nc");
        assert_eq!(wrap("", 5), "");
    }

    #[test]
    fn what_is_wrapped_goes_on_in_rows_of_its_own() {
        let column = |name: &str, kind| AnswerColumn { table: "t".into(), name: name.into(), kind };
        let columns = vec![column("id", Kind::Count), column("role", Kind::Text)];
        let rows = vec![
            vec![7_u32.into(), "not used: it lacks rows".into()],
            vec![Value::Null, Value::Null],
        ];
        let answer = Answer { columns, rows };
        let forms =
            [plain("id"), shown("role", "role", Form::Head), shown("why", "role", Form::Wrap(12))];
        let narrow = narrow(&answer, &forms, 0.0);
        assert!(narrow.columns.iter().all(|it| it.kind == Kind::Text), "{narrow:?}");
        let rows: Vec<Vec<_>> =
            narrow.rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect();
        assert_eq!(rows, [["7", "not used", "not used: it"], ["", "", "lacks rows"], ["", "", ""]]);
        assert_eq!(narrow.rows[2], [Value::Null, Value::Null, Value::Null]);
    }

    #[test]
    fn a_narrow_form_takes_columns_by_their_names() {
        let column = |name: &str, kind| AnswerColumn { table: "t".into(), name: name.into(), kind };
        let columns = vec![column("id", Kind::Count), column("since_ms", Kind::Real)];
        let answer = Answer { columns, rows: vec![vec![7_u32.into(), 1500.0.into()]] };
        let forms = [shown("since", "since_ms", Form::Millis), plain("ID"), plain("missing")];
        let narrow = narrow(&answer, &forms, 0.0);
        let names: Vec<_> = narrow.columns.iter().map(|it| (it.name.as_str(), it.kind)).collect();
        assert_eq!(names, [("since", Kind::Text), ("ID", Kind::Count), ("missing", Kind::Text)]);
        assert_eq!(narrow.rows, [[Value::from("1.5 s"), 7_u32.into(), Value::Null]]);
    }
}
