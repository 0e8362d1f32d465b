//! Statements that release what a session holds, and do nothing else. `COMMIT` and `ROLLBACK` are not among them: see
//! [`crate::intent::Ends`].

use wire::lex::Token;
use wire::text::Text;

/// Whether a text is `UNLOCK TABLES`, a step towards the end of an XA transaction, or the release of user locks.
pub fn releases(text: Text<'_>) -> bool {
    if !text.may_begin_with(&["UNLOCK", "XA", "SELECT", "DO"]) {
        return false;
    }
    let mut tokens = text.tokens();
    let (Some(verb), Some(object)) = (tokens.next(), tokens.next()) else { return false };
    let is = |token: &Token<'_>, words: &[&str]| words.iter().any(|word| token.is_word(word));
    let goes_on = if is(&verb, &["UNLOCK"]) {
        is(&object, &["TABLES", "TABLE"])
    } else if is(&verb, &["XA"]) {
        // Whatever follows belongs to it.
        let mut rest = tokens.by_ref().take_while(|token| *token != Token::Symbol(b';'));
        return is(&object, &["END", "PREPARE", "COMMIT", "ROLLBACK"])
            && rest.all(|token| token != Token::Unfinished)
            && tokens.next().is_none();
    } else if is(&verb, &["SELECT", "DO"]) {
        let takes_name = is(&object, &["RELEASE_LOCK"]);
        (takes_name || is(&object, &["RELEASE_ALL_LOCKS"]))
            && tokens.next() == Some(Token::Symbol(b'('))
            && (!takes_name || matches!(tokens.next(), Some(Token::String(_))))
            && tokens.next() == Some(Token::Symbol(b')'))
    } else {
        false
    };
    goes_on
        && match tokens.next() {
            None => true,
            Some(Token::Symbol(b';')) => tokens.next().is_none(),
            Some(_) => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    #[test]
    fn what_releases_alone_is_told_from_what_does_more() {
        let releases =
            |text: &str| releases(Lexed::default().text(text.as_bytes(), Dialect::default()));
        for text in [
            "UNLOCK TABLES",
            "/* over */ unlock table;",
            "XA END 'a'",
            "XA PREPARE 'a', 'b', 1",
            "XA COMMIT X'6162' ONE PHASE",
            "XA ROLLBACK 'a';",
            "DO RELEASE_LOCK('a')",
            "select release_lock ( 'a' ) ;",
            "SELECT RELEASE_ALL_LOCKS()",
        ] {
            assert!(releases(text), "{text}");
        }
        for text in [
            "",
            "UNLOCK",
            "UNLOCK TABLES; SELECT 1",
            "UNLOCK INSTANCE",
            "LOCK TABLES t WRITE",
            "XA START 'a'",
            "XA COMMIT 'a'; SELECT 1",
            "XA COMMIT 'a",
            "SELECT RELEASE_LOCK('a'), x FROM secret",
            "SELECT RELEASE_LOCK((SELECT x FROM secret))",
            "SELECT RELEASE_LOCK(CONCAT('a', x)) FROM secret",
            "SELECT RELEASE_ALL_LOCKS() FROM secret",
            "SELECT GET_LOCK('a')",
            "DO SLEEP(1)",
            "SELECT",
        ] {
            assert!(!releases(text), "{text}");
        }
    }
}
