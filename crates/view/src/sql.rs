//! SQL over tables that are made when they are asked for: `SELECT` of any usual form, and `SHOW` as a form of it.
//!
//! `sqlparser` reads the text; what the tree means is decided here. Owns no table: a [`Source`] has them. Invariants: a
//! statement has at most [`TOKENS_MAX`] tokens, nests at most [`DEPTH_MAX`] deep, and does at most so much work as its
//! [`Fuel`] lasts for; so a hostile one costs a bounded time and bounded memory.

mod compile;
mod functions;
mod node;
mod relation;
mod run;
mod select;
mod show;

use sqlparser::ast;
use sqlparser::dialect::MySqlDialect;
use sqlparser::keywords::Keyword;
use sqlparser::parser::Parser;
use sqlparser::tokenizer::{Token, Tokenizer};

pub use self::run::{Answer, AnswerColumn, Session, Source, SqlError, TableForm, TableName};
use self::run::{DEPTH_MAX, Fuel, Run};

/// No statement of a person or a tool has more.
const TOKENS_MAX: usize = 2048;

/// Expressions and subqueries inside one another while a text is read, where each level takes much of the stack.
const PARSED_DEPTH_MAX: usize = 32;

/// The stack of a thread that reads and answers statements: several times what the deepest of them needs.
pub const STACK: usize = 16 << 20;

/// A statement that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    tree: Box<ast::Query>,
    /// What `SHOW` is about.
    shown: Option<TableName>,
}

/// Whether a statement is one that is read here.
pub fn is_query(first: &[u8]) -> bool {
    ["SELECT", "SHOW", "DESC", "DESCRIBE", "EXPLAIN", "WITH"]
        .iter()
        .any(|word| first.eq_ignore_ascii_case(word.as_bytes()))
}

impl Query {
    /// Reads a `SELECT`, `SHOW` or `DESCRIBE`.
    pub fn read(text: &str) -> Result<Self, SqlError> {
        let mut tokens = tokens(text)?;
        let first = tokens.first().and_then(word).map(str::to_ascii_uppercase);
        let shown = match first.as_deref() {
            Some("SHOW" | "DESC" | "DESCRIBE" | "EXPLAIN") => Some(show::rewrite(&mut tokens)?),
            _ => None,
        };
        let tree = parse(tokens)?;
        Ok(Self { tree, shown })
    }

    /// All rows of a table of which a condition, if there is one, is true.
    pub fn of_table(name: &str, condition: Option<&str>) -> Result<Self, SqlError> {
        let mut all = show::select_from_shown();
        if let Some(condition) = condition {
            all.push(Token::make_keyword("WHERE"));
            all.push(Token::LParen);
            all.extend(tokens(condition)?);
            all.push(Token::RParen);
        }
        let shown = TableName {
            name: name.to_ascii_lowercase(),
            form: TableForm::ShownInFull,
            ..TableName::default()
        };
        Ok(Self { tree: parse(all)?, shown: Some(shown) })
    }

    /// What it shows, if it is a `SHOW` or `DESCRIBE`.
    pub const fn shown(&self) -> Option<&TableName> {
        self.shown.as_ref()
    }

    /// The answer.
    pub fn run(&self, source: &dyn Source) -> Result<Answer, SqlError> {
        let run = Run { source, shown: self.shown.as_ref(), fuel: Fuel::full() };
        select::query(&run, &self.tree, DEPTH_MAX)
    }
}

fn parse(tokens: Vec<Token>) -> Result<Box<ast::Query>, SqlError> {
    let mut parser =
        Parser::new(&MySqlDialect {}).with_recursion_limit(PARSED_DEPTH_MAX).with_tokens(tokens);
    let tree = parser.parse_query().map_err(|error| SqlError::syntax(explain(&error)))?;
    match parser.next_token().token {
        Token::EOF => Ok(tree),
        other => Err(SqlError::syntax(format!("nothing more was expected before {other}"))),
    }
}

fn explain(error: &impl std::fmt::Display) -> String {
    let told = error.to_string();
    let told = told.trim_start_matches("sql parser error: ");
    format!("You have an error in your SQL syntax: {}", told.chars().take(200).collect::<String>())
}

/// The tokens of a text without its comments and the semicolons at its end.
fn tokens(text: &str) -> Result<Vec<Token>, SqlError> {
    let all = Tokenizer::new(&MySqlDialect {}, text).tokenize();
    let all = all.map_err(|error| SqlError::syntax(explain(&error)))?;
    let mut tokens: Vec<Token> = Vec::new();
    for token in all {
        match token {
            Token::Whitespace(_) => continue,
            // ProxySQL's variables have a hyphen in their names: `@@admin-version`.
            Token::Word(ref part) if part.quote_style.is_none() => {
                if let [.., Token::Word(scope), Token::Minus] = tokens.as_slice()
                    && ["@@admin", "@@mysql"].iter().any(|it| scope.value.eq_ignore_ascii_case(it))
                {
                    let whole = format!("{}-{}", scope.value, part.value);
                    tokens.truncate(tokens.len() - 2);
                    tokens.push(Token::make_word(&whole, None));
                    continue;
                }
                tokens.push(token);
            }
            other => tokens.push(other),
        }
        if tokens.len() > TOKENS_MAX {
            let message = format!("the statement has more than {TOKENS_MAX} words and signs");
            return Err(SqlError::syntax(message));
        }
    }
    while tokens.last() == Some(&Token::SemiColon) {
        tokens.pop();
    }
    Ok(tokens)
}

/// A word or a name, its quotes taken off.
fn word(token: &Token) -> Option<&str> {
    match token {
        Token::Word(word) => Some(&word.value),
        _ => None,
    }
}

fn is_keyword(token: Option<&Token>, keyword: Keyword) -> bool {
    matches!(token, Some(Token::Word(word)) if word.keyword == keyword)
}

#[cfg(test)]
mod tests;
