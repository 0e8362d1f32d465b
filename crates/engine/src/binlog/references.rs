//! Which tables foreign keys change: MySQL does not log what they do.

use std::collections::HashMap;

use super::ending::Ending;

/// Tables, and those whose rows change with theirs.
#[derive(Debug, Default)]
pub struct References(HashMap<Table, Vec<Table>>);

/// A schema and a name.
type Table = (Box<[u8]>, Box<[u8]>);

impl References {
    /// Reads pairs as InnoDB lists them: the table that refers to another one, and that other one, each as
    /// `schema/name`. `None`: a name is written in a way that is not read.
    pub fn read<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])>) -> Option<Self> {
        let mut all = Self::default();
        for (child, parent) in pairs {
            all.0.entry(table(parent)?).or_default().push(table(child)?);
        }
        Some(all)
    }

    /// What may have changed with the rows of a table.
    pub fn of(&self, schema: &[u8], name: &[u8], ends: &mut Vec<Ending>) {
        let mut reached = vec![(schema.into(), name.into())];
        let mut next = 0;
        while let Some(children) = reached.get(next).map(|it| self.0.get(it)) {
            for child in children.into_iter().flatten() {
                if !reached.contains(child) {
                    reached.push(child.clone());
                }
            }
            next += 1;
        }
        let ended = reached.into_iter().skip(1);
        ends.extend(ended.map(|(schema, name)| Ending::Table { schema, name }));
    }
}

/// InnoDB names tables as their files: what is not a letter, a digit or an underscore stands as `@` and four digits.
fn table(text: &[u8]) -> Option<Table> {
    let slash = text.iter().position(|byte| *byte == b'/')?;
    let (schema, name) = (&text[..slash], &text[slash + 1..]);
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    let is_read = !name.is_empty() && schema.iter().chain(name).all(is_plain);
    is_read.then(|| (schema.into(), name.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_refers_to_what_refers_is_reached_once() {
        let pairs = [("a/c", "a/p"), ("b/g", "a/c"), ("a/p", "b/g"), ("a/x", "a/y")];
        let pairs = pairs.iter().map(|(child, parent)| (child.as_bytes(), parent.as_bytes()));
        let all = References::read(pairs).unwrap();
        let of = |schema: &[u8], name: &[u8]| {
            let mut ends = Vec::new();
            all.of(schema, name, &mut ends);
            ends.iter()
                .map(|end| match end {
                    Ending::Table { schema, name } => {
                        String::from_utf8([schema, &b"."[..], name].concat()).unwrap()
                    }
                    other => panic!("{other:?}"),
                })
                .collect::<Vec<_>>()
        };
        assert_eq!(of(b"a", b"p"), ["a.c", "b.g"]);
        assert_eq!(of(b"a", b"c"), ["b.g", "a.p"]);
        assert_eq!(of(b"a", b"y"), ["a.x"]);
        assert!(of(b"a", b"x").is_empty());
        for name in ["a@002dx/t", "a", "a/"] {
            let pair = (name.as_bytes(), &b"a/p"[..]);
            assert!(References::read([pair].into_iter()).is_none(), "{name}");
        }
    }
}
