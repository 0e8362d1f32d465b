//! The lexer goes forward, stays inside its text, and reads a statement alike whatever follows it.

use wire::lex::{Dialect, Lexer, Token};

/// The first byte says whether backslashes escape; the rest is two texts, cut at the first zero
/// byte.
pub fn run(data: &[u8]) {
    let Some((&mode, text)) = data.split_first() else { return };
    let dialect = Dialect::from_bits(u16::from(mode));
    goes_forward(text, dialect);
    if let Some(cut) = text.iter().position(|byte| *byte == 0) {
        concatenates(&text[..cut], &text[cut + 1..], dialect);
    }
}

fn goes_forward(text: &[u8], dialect: Dialect) {
    let mut lexer = Lexer::new(text, dialect);
    let mut last_end = 0;
    let mut unfinished = 0;
    while let Some(token) = lexer.next() {
        let (start, end) = lexer.span();
        assert!(last_end <= start && start <= end && end <= text.len());
        assert!(start < end || token == Token::Unfinished, "each token takes a byte");
        let span = &text[start..end];
        let bounds = span.as_ptr_range();
        match token {
            Token::Word(body) | Token::Number(body) => assert_eq!(body, span),
            Token::Quoted(body)
            | Token::String(body)
            | Token::UserVariable(body)
            | Token::SystemVariable(body) => {
                let inner = body.as_ptr_range();
                assert!(bounds.start <= inner.start && inner.end <= bounds.end);
                assert!(body.len() < span.len());
            }
            Token::Symbol(byte) => assert_eq!(span, [byte]),
            Token::Assign => assert_eq!(span, b":="),
            Token::Unfinished => {
                unfinished += 1;
                assert_eq!(end, text.len());
            }
        }
        last_end = end;
    }
    assert!(unfinished <= 1);
    assert_eq!(lexer.next(), None, "the end stays the end");
}

/// Two statements with a semicolon between them are read as each is alone.
fn concatenates(first: &[u8], second: &[u8], dialect: Dialect) {
    let mut lexer = Lexer::new(first, dialect);
    let mut alone: Vec<_> = lexer.by_ref().collect();
    // What does not end swallows what follows, and an executable comment reaches over it.
    if alone.contains(&Token::Unfinished) || lexer.saw_executable_comment() {
        return;
    }
    alone.push(Token::Symbol(b';'));
    alone.extend(Lexer::new(second, dialect));
    // The line ends a comment.
    let both = [first, b"\n;\n", second].concat();
    let together: Vec<_> = Lexer::new(&both, dialect).collect();
    assert_eq!(together, alone);
}
