//! The names of a table's columns, from the statement that made it.

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    /// Whether it is the row's number in SQLite.
    pub(crate) is_row_id: bool,
}

/// The columns of a CREATE TABLE, in their order. Of a text that is none: nothing, or what looks like columns.
pub(crate) fn columns(statement: &str) -> Vec<Column> {
    let Some((_, body)) = statement.split_once('(') else { return Vec::new() };
    let mut columns = Vec::new();
    for definition in definitions(body) {
        let definition = definition.trim();
        let (name, rest) = name(definition);
        let is_bound = ["CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN"];
        let is_quoted = definition.starts_with(['"', '`', '[']);
        if name.is_empty()
            || (!is_quoted && is_bound.iter().any(|it| name.eq_ignore_ascii_case(it)))
        {
            continue;
        }
        let rest = rest.to_ascii_uppercase();
        let mut words = rest.split_whitespace();
        let is_integer = words.next() == Some("INTEGER");
        columns.push(Column { name, is_row_id: is_integer && rest.contains("PRIMARY KEY") });
    }
    columns
}

/// What commas separate, up to the bracket that closes.
fn definitions(body: &str) -> Vec<&str> {
    let (mut found, mut begin, mut depth, mut quote) = (Vec::new(), 0, 0_u32, None);
    for (at, letter) in body.char_indices() {
        match (quote, letter) {
            (Some(end), _) if letter == end => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"' | '`') => quote = Some(letter),
            (None, '[') => quote = Some(']'),
            (None, '(') => depth += 1,
            (None, ')') if depth == 0 => {
                found.push(&body[begin..at]);
                return found;
            }
            (None, ')') => depth -= 1,
            (None, ',') if depth == 0 => {
                found.push(&body[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// A name, which may be quoted, and what stands behind it.
fn name(definition: &str) -> (String, &str) {
    let close = match definition.chars().next() {
        Some('[') => ']',
        Some(quote @ ('"' | '`')) => quote,
        _ => {
            let end = definition.find(|it: char| it.is_whitespace() || it == '(');
            let (name, rest) = definition.split_at(end.unwrap_or(definition.len()));
            return (name.to_owned(), rest);
        }
    };
    let inside = &definition[1..];
    let (name, rest) = inside.split_once(close).unwrap_or((inside, ""));
    (name.to_owned(), rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_among_bounds() {
        let statement = "CREATE TABLE mysql_query_rules (rule_id INTEGER PRIMARY KEY AUTOINCREMENT NOT NULL , \
                         active INT CHECK (active IN (0,1)) NOT NULL DEFAULT 0 , \"a,b\" VARCHAR DEFAULT ',)' , \
                         `c` INT, [d] INT PRIMARY KEY, PRIMARY KEY (active, c), UNIQUE(c))";
        let columns = columns(statement);
        let names: Vec<_> = columns.iter().map(|it| (&*it.name, it.is_row_id)).collect();
        let want =
            [("rule_id", true), ("active", false), ("a,b", false), ("c", false), ("d", false)];
        assert_eq!(names, want);
    }

    #[test]
    fn other_texts_have_none() {
        for text in
            ["", "CREATE VIEW a AS SELECT 1", "(", "()", "CREATE TABLE x (\"", "CREATE TABLE x ([)"]
        {
            assert_eq!(columns(text), [], "{text}");
        }
    }
}
