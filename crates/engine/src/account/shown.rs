//! What `SHOW CREATE USER` says to a session of its own account: which one it is, and on what terms.
//!
//! Invariant: a text that is not understood as a whole is no account.

use super::row::Row;
use super::terms::{Terms, Transport};

/// Reads the statement that a server shows.
pub fn read(text: &[u8]) -> Option<Row> {
    let mut tokens = Tokens { rest: text };
    for word in ["CREATE", "USER"] {
        tokens.next()?.is(word).then_some(())?;
    }
    let Token::Quoted(user) = tokens.next()? else { return None };
    (tokens.next()? == Token::Other(b'@')).then_some(())?;
    let Token::Quoted(host) = tokens.next()? else { return None };
    let mut terms = Terms::default();
    let mut before = Token::Other(b' ');
    while let Some(token) = tokens.next() {
        match &token {
            // MySQL has PASSWORD REQUIRE CURRENT, too.
            word if word.is("REQUIRE") && !before.is("PASSWORD") => {
                terms.transport = transport(&tokens.next()?)?;
            }
            word if word.is("MAX_USER_CONNECTIONS") => {
                terms.at_once = Some(tokens.number()?).filter(|max| *max != 0);
            }
            word if word.is("MAX_CONNECTIONS_PER_HOUR") => {
                terms.per_hour = u64::try_from(tokens.number()?).ok().filter(|max| *max != 0);
            }
            word if word.is("LOCK") && before.is("ACCOUNT") => terms.is_locked = true,
            word if word.is("EXPIRE") && before.is("PASSWORD") => {
                let mut ahead = Tokens { rest: tokens.rest };
                let next = ahead.next().unwrap_or(Token::Other(b' '));
                terms.has_expired = !["NEVER", "DEFAULT", "INTERVAL"].iter().any(|it| next.is(it));
            }
            Token::Torn => return None,
            _ => {}
        }
        before = token;
    }
    Some(Row { user, host, terms })
}

/// Whether the account may trust the process at the other end of a Unix socket, by what is shown of it.
pub fn looks_at_process(text: &[u8]) -> bool {
    let mut tokens = Tokens { rest: text };
    let is_one = |text: &[u8]| {
        ["unix_socket", "auth_socket"].iter().any(|it| text.eq_ignore_ascii_case(it.as_bytes()))
    };
    std::iter::from_fn(|| tokens.next()).any(|token| match token {
        Token::Word(word) => is_one(word),
        Token::Quoted(name) => is_one(&name),
        Token::Torn => true,
        Token::Other(_) => false,
    })
}

fn transport(word: &Token<'_>) -> Option<Transport> {
    match word {
        word if word.is("NONE") => Some(Transport::Any),
        word if word.is("SSL") => Some(Transport::Tls),
        word if ["X509", "SUBJECT", "ISSUER", "CIPHER"].iter().any(|it| word.is(it)) => {
            Some(Transport::Certificate)
        }
        _ => None,
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Token<'a> {
    Word(&'a [u8]),
    /// A name or a text, without its quotes.
    Quoted(Vec<u8>),
    Other(u8),
    /// A quote that does not end.
    Torn,
}

impl Token<'_> {
    fn is(&self, word: &str) -> bool {
        matches!(self, Token::Word(it) if it.eq_ignore_ascii_case(word.as_bytes()))
    }
}

struct Tokens<'a> {
    rest: &'a [u8],
}

impl<'a> Tokens<'a> {
    fn next(&mut self) -> Option<Token<'a>> {
        self.rest = self.rest.trim_ascii_start();
        let (&first, after) = self.rest.split_first()?;
        if matches!(first, b'`' | b'"' | b'\'') {
            return Some(self.quoted(first));
        }
        let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let len = self.rest.iter().take_while(|byte| is_word(byte)).count();
        if len == 0 {
            self.rest = after;
            return Some(Token::Other(first));
        }
        let (word, rest) = self.rest.split_at(len);
        self.rest = rest;
        Some(Token::Word(word))
    }

    fn quoted(&mut self, quote: u8) -> Token<'a> {
        let (mut text, mut at) = (Vec::new(), 1);
        loop {
            let byte = self.rest.get(at).copied();
            let next = self.rest.get(at + 1).copied();
            match (byte, next) {
                (Some(byte), Some(next)) if byte == quote && next == quote => {
                    text.push(quote);
                    at += 2;
                }
                (Some(byte), _) if byte == quote => {
                    self.rest = &self.rest[at + 1..];
                    return Token::Quoted(text);
                }
                // Names have no escapes.
                (Some(b'\\'), Some(next)) if quote == b'\'' => {
                    text.push(next);
                    at += 2;
                }
                (Some(byte), _) => {
                    text.push(byte);
                    at += 1;
                }
                (None, _) => {
                    self.rest = &[];
                    return Token::Torn;
                }
            }
        }
    }

    fn number(&mut self) -> Option<i64> {
        let (sign, token) = match self.next()? {
            Token::Other(b'-') => (-1, self.next()?),
            token => (1, token),
        };
        let Token::Word(digits) = token else { return None };
        std::str::from_utf8(digits).ok()?.parse::<i64>().ok().map(|number| sign * number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Row {
        read(text.as_bytes()).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn an_account_is_read_as_servers_show_it() {
        let row = shown(
            "CREATE USER `app`@`10.%` IDENTIFIED VIA mysql_native_password USING '*0000' OR unix_socket \
             REQUIRE SSL WITH MAX_CONNECTIONS_PER_HOUR 7 MAX_USER_CONNECTIONS -1 ACCOUNT LOCK PASSWORD EXPIRE",
        );
        assert_eq!((&row.user[..], &row.host[..]), (&b"app"[..], &b"10.%"[..]));
        let want = Terms {
            transport: Transport::Tls,
            is_locked: true,
            has_expired: true,
            at_once: Some(-1),
            per_hour: Some(7),
        };
        assert_eq!(row.terms, want);
        let row = shown(
            "CREATE USER 'it''s'@'localhost' IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$\\'REQUIRE SSL\\\\' \
             DEFAULT ROLE `LOCK`@`%` REQUIRE NONE PASSWORD EXPIRE DEFAULT ACCOUNT UNLOCK PASSWORD HISTORY DEFAULT \
             PASSWORD REUSE INTERVAL DEFAULT PASSWORD REQUIRE CURRENT DEFAULT",
        );
        assert_eq!((&row.user[..], row.terms), (&b"it's"[..], Terms::default()));
        let row = shown("CREATE USER ``@`%`");
        assert_eq!((&row.user[..], &row.host[..]), (&b""[..], &b"%"[..]));
        for demand in ["X509", "SUBJECT '/CN=x' AND ISSUER '/CN=y'", "ISSUER 'y'", "CIPHER 'z'"] {
            let row = shown(&format!(
                "CREATE USER \"a`b\"@\"%\" IDENTIFIED BY PASSWORD '*1' REQUIRE {demand}"
            ));
            assert_eq!(row.terms.transport, Transport::Certificate, "{demand}");
            assert_eq!(&row.user[..], b"a`b");
        }
    }

    #[test]
    fn an_account_of_a_process_is_known() {
        for (text, want) in [
            (
                "CREATE USER `a`@`%` IDENTIFIED VIA mysql_native_password USING '*0' OR unix_socket AS 'x'",
                true,
            ),
            ("CREATE USER 'a'@'%' IDENTIFIED WITH 'auth_socket' REQUIRE NONE", true),
            ("CREATE USER 'a'@'%' IDENTIFIED WITH 'x", true),
            ("CREATE USER `a`@`%` IDENTIFIED VIA mysql_native_password USING '*0'", false),
            ("", false),
        ] {
            assert_eq!(looks_at_process(text.as_bytes()), want, "{text}");
        }
    }

    #[test]
    fn what_is_not_understood_is_no_account() {
        for text in [
            "",
            "CREATE USER",
            "CREATE USER app@localhost",
            "CREATE USER `app`",
            "CREATE USER `app`@`%",
            "CREATE USER `app`@`%` IDENTIFIED BY 'x",
            "CREATE USER `app`@`%` REQUIRE",
            "CREATE USER `app`@`%` REQUIRE OTHER",
            "CREATE USER `app`@`%` WITH MAX_USER_CONNECTIONS many",
            "GRANT USAGE ON *.* TO `app`@`%`",
        ] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
