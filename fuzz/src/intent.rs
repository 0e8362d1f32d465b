//! What is read off a statement: never less than its words say, however they are written.

use engine::account::name::Brand;
use engine::intent::{Digest, Intent, Trait};
use engine::kill::{FIRST_CLIENT_ID, Kill};
use engine::own_id;
use wire::lex::{Dialect, Lexer, Token};
use wire::text::Lexed;

/// The first byte says whether backslashes escape; the rest is two texts, cut at the first zero
/// byte.
pub fn run(data: &[u8]) {
    let Some((&mode, text)) = data.split_first() else { return };
    let dialect = Dialect::from_bits(u16::from(mode));
    let intent = read(text, dialect);
    tells_the_worst(text, intent, dialect);
    let capitals = read(&words_in_capitals(text, dialect), dialect);
    // Names may differ in case only, so digests do.
    let undigested = |intent: Intent| {
        (intent.read.is_some(), Intent { read: None, digest: Digest::default(), ..intent })
    };
    assert_eq!(undigested(intent), undigested(capitals), "capitals or not");
    assert!(intent.read.is_none() || intent.pin.is_none(), "what pins does more than read");
    if let Some(cut) = text.iter().position(|byte| *byte == 0) {
        hides_nothing(&text[..cut], &text[cut + 1..], dialect);
    }
    kill(text);
    connection_id(text, dialect);
}

/// The same text, its words in capitals. Outside of words, a letter may be more than that: `/*m!`, `\\n`.
fn words_in_capitals(text: &[u8], dialect: Dialect) -> Vec<u8> {
    let mut capitals = text.to_vec();
    let mut lexer = Lexer::new(text, dialect);
    while let Some(token) = lexer.next() {
        let (start, end) = lexer.span();
        if matches!(token, Token::Word(_)) {
            capitals[start..end].make_ascii_uppercase();
        }
    }
    capitals
}

fn read(text: &[u8], dialect: Dialect) -> Intent {
    let lexed = Lexed::default();
    let text = lexed.text(text, dialect);
    let mut lexer = Lexer::new(text.bytes, dialect);
    // Whatever reads the list reads what the lexer says.
    for token in text.tokens() {
        assert_eq!(lexer.next(), Some(token));
    }
    assert!(text.tokens().is_cut() || lexer.next().is_none());
    Intent::read(text)
}

/// Words that leave something behind wherever they stand, but for the last part of a name.
const STICKY: &[&str] =
    &["GET_LOCK", "RELEASE_LOCK", "RELEASE_ALL_LOCKS", "SQL_CALC_FOUND_ROWS", "NEXTVAL"];

fn tells_the_worst(text: &[u8], intent: Intent, dialect: Dialect) {
    let mut previous = Token::Symbol(b';');
    for token in Lexer::new(text, dialect) {
        let is_sticky = match token {
            Token::UserVariable(_) | Token::Assign | Token::Unfinished => true,
            _ => previous != Token::Symbol(b'.') && STICKY.iter().any(|word| token.is_word(word)),
        };
        assert!(!is_sticky || intent.pin.is_some(), "{token:?} pins nothing");
        previous = token;
    }
}

/// Of two statements, the first cannot cover up the second.
fn hides_nothing(first: &[u8], second: &[u8], dialect: Dialect) {
    let mut lexer = Lexer::new(first, dialect);
    if lexer.any(|token| token == Token::Unfinished) || lexer.saw_executable_comment() {
        return;
    }
    let both = read(&[first, b"\n;\n", second].concat(), dialect);
    let (first, second) = (read(first, dialect), read(second, dialect));
    if first.sets.is_some() || second.sets.is_some() {
        // What follows a SET may be read otherwise than what went before it.
        assert!(both.pin.is_some() || both.sets == first.sets || both.sets == second.sets);
    } else {
        assert_eq!(both.pin, first.pin.or(second.pin));
    }
    let either = |flag: fn(&Intent) -> bool| flag(&both) == (flag(&first) || flag(&second));
    assert!(either(|intent| intent.has(Trait::EndsTransaction)));
    assert!(either(|intent| intent.has(Trait::AsksInsertId)));
    // The second asks for what the first one has counted, unless that is nothing at all.
    assert!([first.counts, second.counts].contains(&both.counts));
    assert!(either(|intent| intent.has(Trait::AsksConnectionId)));
    assert!(either(|intent| intent.has(Trait::Kill)));
}

fn kill(text: &[u8]) {
    let Some(kill) = Kill::read(Lexed::default().text(text, Dialect::default())) else { return };
    let (start, end) = kill.id_at;
    let digits = std::str::from_utf8(&text[start..end]).expect("digits");
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        assert_eq!(digits.parse(), Ok(kill.id));
    }
    assert_eq!(kill.names_client(), kill.id >= FIRST_CLIENT_ID);
    let other = [&text[..start], b"77", &text[end..]].concat();
    assert_eq!(
        Kill::read(Lexed::default().text(&other, Dialect::default())).map(|kill| kill.id),
        Some(77)
    );
}

fn connection_id(text: &[u8], dialect: Dialect) {
    let mut lexer = Lexer::new(text, dialect);
    let is_whole = lexer.all(|token| token != Token::Unfinished);
    // The longer of the two.
    let put = |text| own_id::put(Lexed::default().text(text, dialect), 9, Brand::MySql).text;
    let Some(replaced) = put(text) else { return };
    // An item around a call gets a name if it has at most 128 characters, a quoted back-tick being two; such items
    // nest no deeper than `SELECT(` fits into one.
    assert!(replaced.len() <= 40 * text.len());
    if is_whole && !lexer.saw_executable_comment() {
        assert_eq!(put(&replaced), None, "once is enough");
        let mut tokens = Lexer::new(&replaced, dialect);
        assert!(tokens.all(|token| token != Token::Unfinished), "what was whole stays whole");
    }
}
