//! Reads the form of MaxScale's configuration: sections of `key=value`.

use crate::syntax::SyntaxError;

/// A section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IniSection {
    pub(crate) name: String,
    pub(crate) line: u32,
    pub(crate) entries: Vec<IniEntry>,
}

/// A setting of a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct IniEntry {
    /// In small letters, with underscores.
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) line: u32,
}

/// Reads a whole file. A line that is indented goes on with the value before it.
pub(crate) fn parse(text: &str) -> Result<Vec<IniSection>, SyntaxError> {
    let mut sections: Vec<IniSection> = Vec::new();
    for (line, whole) in (1..).zip(text.lines()) {
        let fail = |why: &str| Err(SyntaxError { line, why: why.to_owned() });
        let text = whole.trim();
        if text.is_empty() || text.starts_with(['#', ';']) {
            continue;
        }
        if let Some(inside) = text.strip_prefix('[') {
            let Some(name) = inside.strip_suffix(']') else { return fail("a ']' is missing") };
            sections.push(IniSection { name: name.trim().to_owned(), line, entries: Vec::new() });
            continue;
        }
        let Some(section) = sections.last_mut() else {
            return fail("a section, such as [maxscale], comes first");
        };
        let is_indented = whole.starts_with([' ', '\t']);
        match (section.entries.last_mut(), text.split_once('=')) {
            (Some(last), _) if is_indented => last.value += text,
            (_, Some((key, value))) => {
                let key = key.trim().to_ascii_lowercase().replace('-', "_");
                section.entries.push(IniEntry {
                    key,
                    value: unquoted(value.trim()).to_owned(),
                    line,
                });
            }
            (_, None) => return fail("a '=' is missing"),
        }
    }
    Ok(sections)
}

/// A value without the quotes around it.
fn unquoted(value: &str) -> &str {
    let inside = |quote: char| value.strip_prefix(quote)?.strip_suffix(quote);
    inside('"').or_else(|| inside('\'')).unwrap_or(value)
}

impl IniSection {
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.entries.iter().rev().find(|entry| entry.key == key).map(|entry| &*entry.value)
    }

    /// Names with commas between them.
    pub(crate) fn list(&self, key: &str) -> Vec<&str> {
        let names = self.get(key).into_iter().flat_map(|value| value.split([',', '|']));
        names.map(str::trim).filter(|name| !name.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sections_have_settings() {
        let text =
            "# c\n[max scale]\nThreads = auto\n\n[a]\nmonitor-user=\"b c\"\nservers=db1,\n  db2\n";
        let sections = parse(text).expect("is right");
        assert_eq!(
            (&*sections[0].name, sections[0].line, sections[0].get("threads")),
            ("max scale", 2, Some("auto"))
        );
        assert_eq!(sections[1].get("monitor_user"), Some("b c"));
        assert_eq!(sections[1].list("servers"), ["db1", "db2"]);
        assert_eq!(sections[1].get("none"), None);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, line) in [("a=1", 1), ("\n[a", 2), ("[a]\nb\n", 2)] {
            assert_eq!(parse(text).expect_err(text).line, line);
        }
    }

    proptest! {
        #[test]
        fn nothing_panics(text in r#"(\[|\]|=|"|'|\n| |[a-z]|\PC){0,100}"#) {
            let _ = parse(&text);
        }
    }
}
