//! Texts, and the tokens that servers read of them.

use super::*;
use std::string::String as Text;

use Token::{Assign, Number, Quoted, String, Symbol, SystemVariable, UserVariable, Word};

fn check(text: &str, want: &[Token<'_>]) {
    let got: Vec<_> = Lexer::new(text.as_bytes(), Dialect::default()).collect();
    assert_eq!(got, want, "{text}");
}

#[test]
fn words_strings_and_symbols() {
    check(
        "SELECT `a``b`, 'it''s \\' so' FROM t1 WHERE x>=0x1F -- done\n;",
        &[
            Word(b"SELECT"),
            Quoted(b"a``b"),
            Symbol(b','),
            String(b"it''s \\' so"),
            Word(b"FROM"),
            Word(b"t1"),
            Word(b"WHERE"),
            Word(b"x"),
            Symbol(b'>'),
            Symbol(b'='),
            Number(b"0x1F"),
            Symbol(b';'),
        ],
    );
    check("1.5e10 2nd", &[Number(b"1.5e10"), Word(b"2nd")]);
}

#[test]
fn variables() {
    check(
        "SET @@session.sql_mode='', @a:=1, @`b c`=2, @@`x`=3",
        &[
            Word(b"SET"),
            SystemVariable(b"session.sql_mode"),
            Symbol(b'='),
            String(b""),
            Symbol(b','),
            UserVariable(b"a"),
            Assign,
            Number(b"1"),
            Symbol(b','),
            UserVariable(b"b c"),
            Symbol(b'='),
            Number(b"2"),
            Symbol(b','),
            SystemVariable(b"`x`"),
            Symbol(b'='),
            Number(b"3"),
        ],
    );
}

#[test]
fn comments_hide_nothing_that_may_run() {
    check("/* GET_LOCK */ x", &[Word(b"x")]);
    check("/*!50001 SET */ /*M!100100 @a */ x", &[Word(b"SET"), UserVariable(b"a"), Word(b"x")]);
    check("# one\n-- two\n--3", &[Symbol(b'-'), Symbol(b'-'), Number(b"3")]);
    let mut lexer = Lexer::new(b"/*! x */ y", Dialect::default());
    assert_eq!(lexer.by_ref().count(), 2);
    assert!(lexer.saw_executable_comment());
}

#[test]
fn what_does_not_end_is_said_once() {
    for text in ["'abc", "`abc", "/* abc", "@`abc", "@@`abc", "'abc\\"] {
        check(text, &[Token::Unfinished]);
    }
}

#[test]
fn without_backslash_escapes_a_backslash_is_a_letter() {
    let dialect = Dialect { backslash_escapes: false, ..Dialect::default() };
    let got: Vec<_> = Lexer::new(br"'a\' x", dialect).collect();
    assert_eq!(got, [String(br"a\"), Word(b"x")]);
}

#[test]
fn spans_point_into_the_text() {
    let text = b"KILL  42";
    let mut lexer = Lexer::new(text, Dialect::default());
    lexer.next();
    lexer.next();
    let (start, end) = lexer.span();
    assert_eq!(&text[start..end], b"42");
}

#[test]
fn deep_nesting_is_just_long() {
    let text = vec![b'('; 1 << 20];
    assert_eq!(Lexer::new(&text, Dialect::default()).count(), 1 << 20);
}

/// The tokens as they are written, with blanks between them; the last one is `…` if there is more that is in doubt.
fn shown(text: &[u8], dialect: Dialect) -> Text {
    let mut lexer = Lexer::new(text, dialect);
    let mut pieces = Vec::new();
    while let Some(token) = lexer.next() {
        let (start, end) = lexer.span();
        let piece = match token {
            Token::Unfinished => "…".to_owned(),
            _ => text[start..end]
                .escape_ascii()
                .to_string()
                .replace("\\'", "'")
                .replace("\\\"", "\""),
        };
        pieces.push(piece);
    }
    pieces.join(" ")
}

#[test]
fn numbers_end_where_servers_end_them() {
    for (text, want) in [
        ("1.from t", "1. from t"),
        ("1e0from t", "1e0 from t"),
        ("1e+5from", "1e+5 from"),
        ("1.5e3from", "1.5e3 from"),
        (".1from t", ".1 from t"),
        ("1efrom", "1efrom"),
        ("1from", "1from"),
        ("0x1Ffrom 0x1Fg", "0x1Ffrom 0x1Fg"),
        ("0x1F,0b01,0b012 0b", "0x1F , 0b01 , 0b012 0b"),
        ("a.2024", "a . 2024"),
        ("a.1e5from", "a . 1e5from"),
        ("a .1e5from", "a .1e5 from"),
        ("a. 1from", "a . 1from"),
        ("1..10", "1 . .10"),
        ("from .t", "from . t"),
    ] {
        assert_eq!(shown(text.as_bytes(), Dialect::default()), want, "{text}");
    }
    check("\\Nfrom", &[Word(b"\\N"), Word(b"from")]);
    check("0b01 0b012 .5", &[Number(b"0b01"), Word(b"0b012"), Number(b".5")]);
}

#[test]
fn what_dashes_need_behind_them_depends_on_the_character_set() {
    let of = |charset| Dialect { charset, ..Dialect::default() };
    let text = |byte: u8| [b"1 --".as_slice(), &[byte], b"x"].concat();
    for (charset, byte, is_comment) in [
        (Charset::Plain, 0x7f, true),
        (Charset::Plain, 1, true),
        (Charset::Plain, 0xa0, false),
        (Charset::Latin1, 0xa0, true),
        (Charset::Cp1251, 0x7f, false),
        (Charset::Macroman, 0xcb, true),
        (Charset::Hp8, 0x90, true),
    ] {
        assert_eq!(shown(&text(byte), of(charset)) == "1", is_comment, "{charset:?} {byte:x}");
    }
    assert_eq!(shown(&text(0xa0), of(Charset::Unknown)), "1 …");
    assert_eq!(shown(&text(b'x'), of(Charset::Unknown)), "1 - - xx");
}

#[test]
fn blanks_and_quotes_depend_on_the_character_set() {
    let of = |charset| Dialect { charset, ..Dialect::default() };
    assert_eq!(shown(b"FROM\xa0t", of(Charset::Latin1)), "FROM t");
    assert_eq!(shown(b"FROM\xfft", of(Charset::Cp852)), "FROM t");
    assert_eq!(shown(b"FROM\xa0t", of(Charset::Plain)), "FROM\\xa0t");
    assert_eq!(shown(b"FROM\xa0t", of(Charset::Unknown)), "FROM …");
    let hidden = b"'\xbf\\', X -- '";
    assert_eq!(shown(hidden, of(Charset::Gbk)), "'\\xbf\\\\' , X");
    assert_eq!(shown(hidden, of(Charset::Plain)), "'\\xbf\\\\', X -- '");
    assert_eq!(shown(hidden, of(Charset::Unknown)), "…");
    assert_eq!(shown(b"`\xbf`, X -- `", of(Charset::Gbk)), "`\\xbf`, X -- `");
    assert_eq!(shown(b"'\xc3\xa9'", of(Charset::Unknown)), "'\\xc3\\xa9'");
    assert_eq!(shown(b"t\xbf\\, X", of(Charset::Gbk)), "t\\xbf\\\\ , X");
    assert_eq!(shown(b"@\xbf`x`", of(Charset::Gbk)), "@\\xbf `x`");
}

#[test]
fn double_quotes_are_for_names_under_ansi_quotes() {
    let of = |double_quotes| Dialect { double_quotes, ..Dialect::default() };
    check("\"a\"", &[String(b"a")]);
    let names = of(DoubleQuotes::Names);
    assert_eq!(Lexer::new(b"\"a\\\" X", names).collect::<Vec<_>>(), [Quoted(b"a\\"), Word(b"X")]);
    assert_eq!(shown(b"\"a\\\" X", of(DoubleQuotes::Unknown)), "…");
    assert_eq!(shown(b"\"a\" X", of(DoubleQuotes::Unknown)), "\"a\" X");
}

#[test]
fn comments_that_depend_on_the_server_are_in_doubt_where_that_matters() {
    let skipped = Dialect { comments: Comments::Skipped, ..Dialect::default() };
    for (text, open, without) in [
        ("/*!99999 ' */ X -- '", "…", "X"),
        ("/*!50701 ' */ X -- '", "…", "X"),
        ("/*M! ' */ X -- '", "…", "X"),
        ("/*m! ' */ X -- '", "X", "X"),
        ("/*!40101 a */ X", "a X", "a X"),
        ("/*! a */ X", "a X", "a X"),
        ("/*!123 a */ X", "123 a X", "123 a X"),
        ("/*!80000 a */ X", "a X", "X"),
        ("/*!80000 */ X", "X", "X"),
        ("/*!80000*/ X", "X", "X"),
        ("/*!80000 '*/' */ X", "…", "…"),
        ("/*!80000 /* b */ a */ X", "a X", "X"),
        ("/*!80000 -- */ \n */ X", "…", "* / X"),
        ("/*!80000 a */ b /*!80000 c */ d", "a b c d", "b d"),
        ("/*!80000 a */ b /*!80001 c */ d", "a b …", "b …"),
        ("/*!40101 a /*!80000 b */ c */ d", "a …", "a …"),
        ("/*!100100 a */ X", "a X", "X"),
        ("/*!100100a */ X", "…", "…"),
        ("/*!80000 a", "…", "…"),
        ("SELECT /*+ QB_NAME(`*/ '`) */ X -- '", "SELECT …", "SELECT …"),
        ("SELECT /*+ MAX_EXECUTION_TIME(1) */ X", "SELECT X", "SELECT X"),
        ("$$ ' $$ X -- '", "…", "…"),
    ] {
        assert_eq!(shown(text.as_bytes(), Dialect::default()), open, "{text}");
        assert_eq!(shown(text.as_bytes(), skipped), without, "{text} skipped");
    }
}

#[test]
fn a_system_variable_may_have_blanks_in_its_name() {
    for (text, scope, name) in [
        ("@@x", "", "x"),
        ("@@`x`", "", "x"),
        ("@@session.x", "session", "x"),
        ("@@session . x", "session", "x"),
        ("@@session/* a.b */./**/x", "session", "x"),
        ("@@global.`x`", "global", "x"),
        ("@@`session`.`x`", "session", "x"),
        ("@@a.b.c", "a", ".b.c"),
    ] {
        let mut lexer = Lexer::new(text.as_bytes(), Dialect::default());
        let Some(SystemVariable(written)) = lexer.next() else { panic!("{text}") };
        assert_eq!(scope_and_name(written), (scope.as_bytes(), name.as_bytes()), "{text}");
        assert_eq!(lexer.next(), None, "{text}");
    }
}

#[test]
fn no_text_is_read_beyond_its_end() {
    let pieces: &[&[u8]] = &[
        b"/*!99999 ",
        b"/*M!",
        b"/*+",
        b"*/",
        b"/*",
        b"'",
        b"\"",
        b"`",
        b"\\",
        b"\xbf",
        b"\xa0",
        b"--",
        b"\n",
        b"@@",
        b"@",
        b".",
        b"1e",
        b"0x",
        b"$",
        b"a",
        b" ",
        b";",
        b"#",
        b"80000 ",
    ];
    let sets = [Charset::Plain, Charset::Latin1, Charset::Gbk, Charset::Gb18030, Charset::Unknown];
    let mut random = 1_u64;
    let mut below = |n: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as usize % n
    };
    for _ in 0..20_000 {
        let text: Vec<u8> =
            (0..below(12)).flat_map(|_| pieces[below(pieces.len())].to_vec()).collect();
        let double_quotes =
            [DoubleQuotes::Strings, DoubleQuotes::Names, DoubleQuotes::Unknown][below(3)];
        let comments = [Comments::Open, Comments::Skipped][below(2)];
        let dialect = Dialect {
            charset: sets[below(sets.len())],
            double_quotes,
            comments,
            backslash_escapes: below(2) == 0,
        };
        let mut lexer = Lexer::new(&text, dialect);
        let (mut last, mut tokens) = (0, 0);
        while let Some(token) = lexer.next() {
            let (start, end) = lexer.span();
            assert!(start >= last && end >= start && end <= text.len(), "{text:?} {dialect:?}");
            assert!(end > start || token == Token::Unfinished, "{text:?} {dialect:?}");
            (last, tokens) = (end, tokens + 1);
            assert!(tokens <= text.len() + 1, "{text:?} {dialect:?}");
        }
    }
}
