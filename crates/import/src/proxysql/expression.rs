//! Regular expressions of rules: what they are here, and whether they mean "reads".

/// With the flag that it needs: capitals do not count here, and not there either unless told otherwise.
pub(super) fn with_flags(expression: &str, modifiers: Option<&str>) -> String {
    match modifiers.unwrap_or("CASELESS").to_ascii_uppercase().contains("CASELESS") {
        true => expression.strip_prefix("(?i)").unwrap_or(expression).to_owned(),
        false => format!("(?-i){expression}"),
    }
}

/// A replacement with groups as they are named here: `\1` is `${1}`.
pub(super) fn replacement(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('\\', Some(digit)) if digit.is_ascii_digit() => {
                out += &format!("${{{digit}}}");
                letters.next();
            }
            ('\\', Some('\\')) => {
                out.push('\\');
                letters.next();
            }
            ('$', _) => out += "$$",
            _ => out.push(letter),
        }
    }
    out
}

/// What an expression over statements picks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Picks {
    /// Each statement that begins with SELECT.
    Selects,
    /// Those of them that lock.
    LockingSelects,
    /// Some that begin with SELECT.
    SomeSelects,
    Other,
}

pub(super) fn picks(expression: &str) -> Picks {
    let upper = expression.trim().to_ascii_uppercase();
    let mut rest = upper.strip_prefix("(?I)").unwrap_or(&upper);
    let Some(begun) = rest.strip_prefix('^') else { return Picks::Other };
    rest = begun;
    for blanks in ["[[:SPACE:]]*", "\\S*", " *"] {
        rest = rest.strip_prefix(blanks).unwrap_or(rest);
    }
    let Some(rest) = rest.strip_prefix("SELECT") else { return Picks::Other };
    let squeezed: String = rest.chars().filter(|it| !" \\+*.$?()".contains(*it)).collect();
    match &*squeezed {
        "" | "S" => Picks::Selects,
        "FORUPDATE" | "SFORUPDATE" | "FORSUPDATE" | "SFORSUPDATE" => Picks::LockingSelects,
        "LOCKINSHAREMODE" | "FORSHARE" | "FORUPDATE|LOCKINSHAREMODE" => Picks::LockingSelects,
        _ => Picks::SomeSelects,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_for_reads_are_known() {
        let cases = [
            ("^SELECT", Picks::Selects),
            ("^select .*", Picks::Selects),
            (r"^\s*SELECT\s.*", Picks::Selects),
            ("(?i)^SELECT", Picks::Selects),
            ("^SELECT.*FOR UPDATE$", Picks::LockingSelects),
            ("^SELECT .* FOR UPDATE", Picks::LockingSelects),
            (r"^SELECT.*FOR\sUPDATE", Picks::LockingSelects),
            ("^SELECT .* LOCK IN SHARE MODE", Picks::LockingSelects),
            ("^SELECT .* FROM orders", Picks::SomeSelects),
            ("SELECT", Picks::Other),
            ("^INSERT", Picks::Other),
        ];
        for (expression, want) in cases {
            assert_eq!(picks(expression), want, "{expression}");
        }
    }

    #[test]
    fn groups_are_named_as_here() {
        for (text, want) in [(r"\1 x \2", "${1} x ${2}"), ("5$", "5$$"), (r"a\\b\c", r"a\b\c")] {
            assert_eq!(replacement(text), want);
        }
    }
}
