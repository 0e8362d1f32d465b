//! A statement's text in tokens, as the model's server reads it: apart from the product's lexer, which it judges.

/// One token. Words are in lower case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Word(String),
    Quoted(Vec<u8>),
    Number(String),
    /// `@name`.
    User(String),
    /// `@@name`, `@@session.name`, `@@global.name`: the scope, and the name.
    System(String, String),
    Sign(u8),
}

impl Token {
    pub fn is_word(&self, word: &str) -> bool {
        matches!(self, Self::Word(own) if own == word)
    }

    pub fn is_sign(&self, sign: u8) -> bool {
        *self == Self::Sign(sign)
    }

    /// The name that it is, if it can be one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Word(name) => Some(name),
            _ => None,
        }
    }
}

/// Cuts a text into statements, each with its tokens.
pub fn statements(text: &[u8]) -> Vec<(Vec<u8>, Vec<Token>)> {
    let mut all = Vec::new();
    let (mut reader, mut tokens, mut from) = (Reader { text, at: 0 }, Vec::new(), 0);
    loop {
        match reader.next() {
            Some(Token::Sign(b';')) => {
                if !tokens.is_empty() {
                    let whole = text[from..reader.at - 1].to_vec();
                    all.push((whole, std::mem::take(&mut tokens)));
                }
                from = reader.at;
            }
            Some(token) => tokens.push(token),
            None => break,
        }
    }
    if !tokens.is_empty() {
        all.push((text[from..].to_vec(), tokens));
    }
    all
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn peek(&self, ahead: usize) -> u8 {
        self.text.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn take_while(&mut self, is: impl Fn(u8) -> bool) -> String {
        let from = self.at;
        while self.at < self.text.len() && is(self.text[self.at]) {
            self.at += 1;
        }
        String::from_utf8_lossy(&self.text[from..self.at]).to_lowercase()
    }

    fn skip_blanks(&mut self) {
        loop {
            self.take_while(|byte| byte.is_ascii_whitespace());
            let rest = &self.text[self.at..];
            let end = |mark: &[u8]| rest.windows(mark.len()).position(|it| it == mark);
            if rest.starts_with(b"/*") && !rest.starts_with(b"/*!") {
                self.at += end(b"*/").map_or(rest.len(), |at| at + 2);
            } else if rest.starts_with(b"/*!") {
                // Its content counts.
                self.at += 3;
                self.take_while(|byte| byte.is_ascii_digit());
            } else if rest.starts_with(b"*/") {
                self.at += 2;
            } else if rest.starts_with(b"-- ") || rest.starts_with(b"#") {
                self.at += end(b"\n").unwrap_or(rest.len());
            } else {
                return;
            }
        }
    }

    fn next(&mut self) -> Option<Token> {
        self.skip_blanks();
        let first = *self.text.get(self.at)?;
        Some(match first {
            b'\'' | b'"' => Token::Quoted(self.quoted(first)),
            b'`' => Token::Word(String::from_utf8_lossy(&self.quoted(b'`')).to_lowercase()),
            b'@' if self.peek(1) == b'@' => {
                self.at += 2;
                let name = self.take_while(is_name);
                if self.peek(0) != b'.' {
                    return Some(Token::System("session".to_owned(), name));
                }
                self.at += 1;
                Token::System(name, self.take_while(is_name))
            }
            b'@' => {
                self.at += 1;
                Token::User(match self.peek(0) {
                    quote @ (b'`' | b'\'' | b'"') => {
                        String::from_utf8_lossy(&self.quoted(quote)).to_lowercase()
                    }
                    _ => self.take_while(is_name),
                })
            }
            b'0'..=b'9' => Token::Number(self.take_while(|byte| is_name(byte) || byte == b'.')),
            byte if is_name(byte) => Token::Word(self.take_while(is_name)),
            sign => {
                self.at += 1;
                Token::Sign(sign)
            }
        })
    }

    fn quoted(&mut self, quote: u8) -> Vec<u8> {
        let mut out = Vec::new();
        self.at += 1;
        while self.at < self.text.len() {
            let byte = self.text[self.at];
            self.at += 1;
            if byte == b'\\' && quote != b'`' {
                out.push(self.peek(0));
                self.at += 1;
            } else if byte != quote {
                out.push(byte);
            } else if self.peek(0) == quote {
                out.push(quote);
                self.at += 1;
            } else {
                break;
            }
        }
        out
    }
}

const fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_into_statements_and_tokens() {
        let text =
            b"SELECT @@session.a, @B, 'it''s' /* no */; /*!50000 SET `x` */ = 1.5 -- end\n;;";
        let found: Vec<_> = statements(text).into_iter().map(|(_, tokens)| tokens).collect();
        let word = |it: &str| Token::Word(it.to_owned());
        let first = [
            word("select"),
            Token::System("session".to_owned(), "a".to_owned()),
            Token::Sign(b','),
            Token::User("b".to_owned()),
            Token::Sign(b','),
            Token::Quoted(b"it's".to_vec()),
        ];
        let second = [word("set"), word("x"), Token::Sign(b'='), Token::Number("1.5".to_owned())];
        assert_eq!(found, [first.to_vec(), second.to_vec()]);
    }
}
