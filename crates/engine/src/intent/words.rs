//! The words that are looked for within a statement, so that names, which most words are, are passed over at a glance.

/// What `Reader::word` and what it calls compare a word with.
const WORDS: &[&str] = &[
    "ATOMIC",
    "COLUMNS",
    "CONNECTION_ID",
    "DELETE",
    "ERRORS",
    "EVENT",
    "EXCEPT",
    "EXPORT",
    "FETCH",
    "FOUND_ROWS",
    "FROM",
    "FUNCTION",
    "GET_LOCK",
    "INSERT",
    "INTERSECT",
    "INTO",
    "IS_USED_LOCK",
    "LASTVAL",
    "LAST_INSERT_ID",
    "LIMIT",
    "LOCK",
    "NEXTVAL",
    "OFFSET",
    "PACKAGE",
    "PROCEDURE",
    "READ",
    "RELEASE",
    "RELEASE_ALL_LOCKS",
    "RELEASE_LOCK",
    "REPLACE",
    "RETURNING",
    "ROWS",
    "ROW_COUNT",
    "SELECT",
    "SESSION_VARIABLES",
    "SET",
    "SETVAL",
    "SHARE",
    "SQL_CALC_FOUND_ROWS",
    "STATUS",
    "SYSTEM_VARIABLES",
    "TABLE",
    "TABLES",
    "TEMPORARY",
    "TRIGGER",
    "UNION",
    "UPDATE",
    "VALUE",
    "VALUES",
    "VARIABLES",
    "VIEW",
    "WARNINGS",
    "WITH",
];

const LONGEST: usize = 19;

/// For each length, a bit for each letter that one of the words begins with.
const FIRST: [u32; LONGEST + 1] = {
    let mut first = [0; LONGEST + 1];
    let mut at = 0;
    while at < WORDS.len() {
        let word = WORDS[at].as_bytes();
        first[word.len()] |= 1 << (word[0] & LETTER);
        at += 1;
    }
    first
};

/// What tells a letter from the others, in capitals or not.
const LETTER: u8 = 0x1f;

/// Whether a word may be one of those. Some others pass, too.
pub(super) fn may_matter(word: &[u8]) -> bool {
    let first = word.first().map_or(0, |letter| letter & LETTER);
    FIRST.get(word.len()).is_some_and(|letters| letters >> first & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whatever_a_word_is_compared_with_passes() {
        let (_, from) = include_str!("reader.rs").split_once("fn word(").expect("it is there");
        let (_, judged) = from.split_once("fn judge_word(").expect("it is behind that");
        let (judged, _) = judged.split_once("\n    }\n").expect("it ends");
        let (within, _) = from.split_once("\n    }\n").expect("it ends");
        let mut words = 0;
        for text in [within, judged, include_str!("diagnostics_use.rs")] {
            for literal in text.split("b\"").skip(1).filter_map(|rest| rest.split('"').next()) {
                assert!(may_matter(literal.as_bytes()), "{literal} is not among the words");
                assert!(may_matter(literal.to_lowercase().as_bytes()), "{literal}");
                words += 1;
            }
        }
        assert!(words > WORDS.len(), "{words}");
        for name in ["c", "id", "sbtest1", "where", "and", "customer"] {
            assert!(!may_matter(name.as_bytes()), "{name}");
        }
    }
}
