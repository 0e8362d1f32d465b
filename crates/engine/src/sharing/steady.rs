//! Whether a text means the same whichever client runs it, and whenever.
//!
//! Goes by what is known to be so: a function counts as steady only if it is in the list here. Whatever is not
//! recognised is not. Of literals nothing is looked at but where they stand, so texts with the same digest are judged
//! alike.

use wire::lex::Token;
use wire::text::Text;

use crate::intent::is_one_of;

/// Whether each run of this text, a statement that only reads or the body of a view, has the result that any other
/// client's run at the same moment would have, under the same variables. It is not if a value in it may differ between
/// clients or moments: random and unique numbers, clocks, locks, sequences, what the server tells of itself.
pub fn is_steady(text: Text<'_>) -> bool {
    let tokens = text.tokens();
    if tokens.is_cut() || tokens.saw_executable_comment() {
        return false;
    }
    let (mut before, mut previous) = (None, None);
    for token in tokens {
        let is_steady = match token {
            Token::Word(word) => !is_one_of(word, VARYING) && !is_own_schema(word),
            // Under `ANSI_QUOTES`, what stands in double quotes is a name.
            Token::Quoted(name) => !is_own_schema(name),
            Token::String(_) => !matches!(previous, Some(Token::Symbol(b'.'))),
            Token::Symbol(b'.') => !matches!(previous, Some(Token::String(_))),
            // What a schema's name stands before is no function of the server's own.
            Token::Symbol(b'(') => before != Some(Token::Symbol(b'.')) && may_open(previous),
            Token::Number(_) | Token::Symbol(_) => true,
            Token::UserVariable(_)
            | Token::SystemVariable(_)
            | Token::Assign
            | Token::Unfinished => false,
        };
        if !is_steady {
            return false;
        }
        (before, previous) = (previous, Some(token));
    }
    previous.is_some()
}

/// Whether a parenthesis behind this opens what is steady.
fn may_open(previous: Option<Token<'_>>) -> bool {
    match previous {
        Some(Token::Word(word)) => {
            let mut capitals = [0; LONGEST];
            let Some(name) = capitals.get_mut(..word.len()) else { return false };
            name.copy_from_slice(word);
            name.make_ascii_uppercase();
            STEADY.binary_search_by(|known| known.as_bytes().cmp(name)).is_ok()
        }
        // A name in quotes is that of a function which no server has built in.
        Some(Token::Quoted(_) | Token::String(_)) => false,
        _ => true,
    }
}

/// Whether the server tells of itself in a schema of this name.
pub fn is_own_schema(name: &[u8]) -> bool {
    is_one_of(name, &["INFORMATION_SCHEMA", "PERFORMANCE_SCHEMA", "MYSQL", "SYS"])
}

/// What varies without a parenthesis behind it, or whose names are close to such.
const VARYING: &[&str] = &[
    "CURRENT_DATE",
    "CURRENT_ROLE",
    "CURRENT_TIME",
    "CURRENT_TIMESTAMP",
    "CURRENT_USER",
    "CURRVAL",
    "LASTVAL",
    "LOCALTIME",
    "LOCALTIMESTAMP",
    "NEXT",
    "NEXTVAL",
    "PREVIOUS",
    "PROCEDURE",
    "ROWNUM",
    "SETVAL",
    "SYSDATE",
    "SYSTEM_USER",
    "UTC_DATE",
    "UTC_TIME",
    "UTC_TIMESTAMP",
];

const LONGEST: usize = 24;

/// What may stand before a parenthesis: functions of their arguments and of session variables alone, types, and words
/// of the language. Sorted, in capitals.
#[rustfmt::skip]
const STEADY: &[&str] = &[
    "ABS", "ACOS", "ADDDATE", "ADDTIME", "AGAINST", "ALL", "AND", "ANY", "AS", "ASCII", "ASIN", "ATAN", "ATAN2", "AVG",
    "BETWEEN", "BIN", "BINARY", "BIT_AND", "BIT_COUNT", "BIT_LENGTH", "BIT_OR", "BIT_XOR", "BY", "CASE", "CAST", "CEIL",
    "CEILING", "CHAR", "CHARACTER_LENGTH", "CHAR_LENGTH", "COALESCE", "CONCAT", "CONCAT_WS", "CONV", "CONVERT", "COS",
    "COT", "COUNT", "CRC32", "CUME_DIST", "DATE", "DATEDIFF", "DATETIME", "DATE_ADD", "DATE_FORMAT", "DATE_SUB", "DAY",
    "DAYNAME", "DAYOFMONTH", "DAYOFWEEK", "DAYOFYEAR", "DECIMAL", "DEGREES", "DENSE_RANK", "DISTINCT", "DIV", "DOUBLE",
    "ELSE", "ELT", "EXISTS", "EXP", "EXTRACT", "FIELD", "FIND_IN_SET", "FIRST_VALUE", "FLOAT", "FLOOR", "FORMAT",
    "FROM", "FROM_BASE64", "FROM_DAYS", "GREATEST", "GROUP_CONCAT", "HAVING", "HEX", "HOUR", "IF", "IFNULL", "IN",
    "INDEX", "INSTR", "INTERVAL", "ISNULL", "JOIN", "JSON_ARRAY", "JSON_ARRAYAGG", "JSON_CONTAINS", "JSON_DEPTH",
    "JSON_EXTRACT", "JSON_KEYS", "JSON_LENGTH", "JSON_OBJECT", "JSON_OBJECTAGG", "JSON_QUERY", "JSON_QUOTE",
    "JSON_SEARCH", "JSON_TYPE", "JSON_UNQUOTE", "JSON_VALID", "JSON_VALUE", "KEY", "LAG", "LAST_DAY", "LAST_VALUE",
    "LCASE", "LEAD", "LEAST", "LEFT", "LENGTH", "LIKE", "LN", "LOCATE", "LOG", "LOG10", "LOG2", "LOWER", "LPAD", "LTRIM",
    "MAKEDATE", "MAKETIME", "MATCH", "MAX", "MD5", "MEDIAN", "MICROSECOND", "MID", "MIN", "MINUTE", "MOD", "MONTH",
    "MONTHNAME", "NCHAR", "NOT", "NTH_VALUE", "NTILE", "NULLIF", "OCT", "OCTET_LENGTH", "ON", "OR", "ORD", "OVER",
    "PARTITION", "PERCENT_RANK", "PERIOD_ADD", "PERIOD_DIFF", "PI", "POSITION", "POW", "POWER", "QUARTER", "QUOTE",
    "RADIANS", "RANK", "REGEXP", "REPEAT", "REPLACE", "REVERSE", "RIGHT", "RLIKE", "ROUND", "ROW_NUMBER", "RPAD",
    "RTRIM", "SECOND", "SEC_TO_TIME", "SELECT", "SHA", "SHA1", "SHA2", "SIGN", "SIN", "SOME", "SOUNDEX", "SPACE", "SQRT",
    "STD", "STDDEV", "STDDEV_POP", "STDDEV_SAMP", "STRCMP", "STR_TO_DATE", "SUBDATE", "SUBSTR", "SUBSTRING",
    "SUBSTRING_INDEX", "SUBTIME", "SUM", "TAN", "THEN", "TIME", "TIMEDIFF", "TIMESTAMPADD", "TIMESTAMPDIFF",
    "TIME_FORMAT", "TIME_TO_SEC", "TO_BASE64", "TO_DAYS", "TO_SECONDS", "TRIM", "TRUNCATE", "UCASE", "UNHEX", "UPPER",
    "USING", "VARCHAR", "VARIANCE", "VAR_POP", "VAR_SAMP", "WEEK", "WEEKDAY", "WEEKOFYEAR", "WHEN", "WHERE", "XOR",
    "YEAR", "YEARWEEK",
];

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    fn judged(text: &str) -> bool {
        is_steady(Lexed::default().text(text.as_bytes(), Dialect::default()))
    }

    #[test]
    fn what_is_known_to_be_steady_is_sorted_and_no_longer_than_what_is_looked_for() {
        assert!(STEADY.is_sorted() && STEADY.iter().all(|name| name.len() <= LONGEST));
        let both = |name: &&&str| VARYING.contains(name) || is_own_schema(name.as_bytes());
        assert_eq!(STEADY.iter().find(both), None);
    }

    #[test]
    fn reads_of_tables_are_steady() {
        for text in [
            "SELECT c FROM t WHERE id = 1",
            "select sum(k), count(*) from t1 join t2 on (t1.id = t2.id) where a in (1, 2)",
            "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 1 AND 2 ORDER BY c LIMIT 10",
            "SELECT CAST(a AS DECIMAL(10, 2)), DATE_FORMAT(d, '%Y') FROM `my table` USE INDEX (i)",
            "SELECT a FROM t WHERE b = 'now()' -- rand()",
            "SELECT ROW_NUMBER() OVER (PARTITION BY a) FROM s.t",
        ] {
            assert!(judged(text), "{text}");
        }
    }

    #[test]
    fn whatever_may_differ_between_clients_or_moments_is_not() {
        for text in [
            "",
            "SELECT RAND() FROM t",
            "SELECT a FROM t ORDER BY rand()",
            "SELECT UUID(), a FROM t",
            "SELECT UUID_SHORT() FROM t",
            "SELECT SLEEP(1) FROM t",
            "SELECT BENCHMARK(1, 1) FROM t",
            "SELECT NOW() FROM t",
            "SELECT a FROM t WHERE d > CURRENT_TIMESTAMP",
            "SELECT a FROM t WHERE d > current_date",
            "SELECT a FROM t WHERE d > UNIX_TIMESTAMP()",
            "SELECT SYSDATE(6) FROM t",
            "SELECT CONNECTION_ID() FROM t",
            "SELECT USER(), a FROM t",
            "SELECT a FROM t WHERE u = CURRENT_USER",
            "SELECT LAST_INSERT_ID() FROM t",
            "SELECT FOUND_ROWS() FROM t",
            "SELECT IS_FREE_LOCK('a') FROM t",
            "SELECT LOAD_FILE('a') FROM t",
            "SELECT RANDOM_BYTES(4) FROM t",
            "SELECT AES_ENCRYPT('a', 'b') FROM t",
            "SELECT NEXT VALUE FOR s FROM t",
            "SELECT s.nextval FROM t",
            "SELECT PREVIOUS VALUE FOR s FROM t",
            "SELECT @@version FROM t",
            "SELECT @a FROM t",
            "SELECT @a := 1 FROM t",
            "SELECT f(a) FROM t",
            "SELECT s.f(a) FROM t",
            "SELECT s.sum(a) FROM t",
            "SELECT `sum`(a) FROM t",
            "SELECT * FROM information_schema.processlist",
            "SELECT * FROM `information_schema`.`tables`",
            "SELECT * FROM \"information_schema\".\"tables\"",
            "SELECT * FROM performance_schema.threads",
            "SELECT * FROM mysql.user",
            "SELECT * FROM t PROCEDURE ANALYSE()",
            "SELECT a /*!50000 , b */ FROM t",
            "SELECT 'unfinished FROM t",
            "SELECT A_FUNCTION_OF_A_VERY_LONG_NAME_INDEED(a) FROM t",
        ] {
            // The lexer refuses what is unfinished with a token of its own.
            assert!(!judged(text), "{text}");
        }
    }

    #[test]
    fn texts_of_one_digest_are_judged_alike() {
        use crate::intent::Digest;
        let digest =
            |text: &str| Digest::of(Lexed::default().text(text.as_bytes(), Dialect::default()));
        for (one, two) in [
            ("SELECT a FROM \"x\".\"t\"", "SELECT a FROM \"mysql\".\"user\""),
            ("SELECT a FROM t WHERE b = 'x'", "SELECT a FROM t WHERE b = \"mysql\""),
            ("SELECT CONCAT('a', 1) FROM t", "SELECT CONCAT('mysql') FROM t"),
        ] {
            assert_eq!(digest(one), digest(two));
            assert_eq!(judged(one), judged(two), "{one} {two}");
        }
    }
}
