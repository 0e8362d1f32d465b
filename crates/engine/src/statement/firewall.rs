//! Forms of statements that are known of an application, and what a statement of another form looks like.
//!
//! A form is a statement's tokens with `?` for each literal and for each list of literals. Forms are compared as they
//! are, not by a hash: a client that may send any text must not be able to make one that is taken for another. Invariants:
//! what cannot be read, or hides what it runs, has no form; what is remembered is bounded.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::{Mutex, PoisonError, RwLock};
use std::time::Instant;

use wire::lex::Token;
use wire::text::Text;

use super::part::parts;

/// What is done with statements of a form that is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirewallMode {
    /// Their forms are known from then on.
    Learn,
    /// They are counted and logged, and run.
    Detect,
    /// They are refused.
    Protect,
}

impl FirewallMode {
    pub const ALL: [(&'static str, Self); 3] =
        [("learn", Self::Learn), ("detect", Self::Detect), ("protect", Self::Protect)];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, mode)| *mode == self).map_or("", |(name, _)| name)
    }
}

/// Why a text has no form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoForm {
    Unreadable,
    /// What stands in `/*! ... */` depends on the server.
    ExecutableComment,
    /// What it runs stands in a literal or in a variable.
    RunsText,
    TooLong,
}

impl NoForm {
    pub const fn why(self) -> &'static str {
        match self {
            Self::Unreadable => "it cannot be read to its end",
            Self::ExecutableComment => {
                "it has a comment of which the server's version says whether it is executed"
            }
            Self::RunsText => "it runs a text that is put together elsewhere",
            Self::TooLong => "its form is too long to be known",
        }
    }
}

/// A longer form is not known.
const FORM_MAX: usize = 16 << 10;

/// So many forms are known under a rule.
pub const FORMS_MAX: usize = 50_000;

const UNKNOWN: &str = "no statement of this form is known";

/// So many that are not known are told apart.
const STRANGERS_MAX: usize = 1000;

/// The form of a text. Several statements have one together.
pub fn form(text: Text<'_>) -> Result<String, NoForm> {
    let parts = parts(text).ok_or(NoForm::Unreadable)?;
    let mut pieces = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        if part.saw_executable_comment() {
            return Err(NoForm::ExecutableComment);
        }
        if runs_text(part.token(0), part.token(1)) {
            return Err(NoForm::RunsText);
        }
        if at > 0 {
            pieces.push(Some(Token::Symbol(b';')));
        }
        part.tokens().for_each(|token| add(&mut pieces, token));
    }
    let mut form = String::new();
    for piece in &pieces {
        write(&mut form, *piece);
        if form.len() > FORM_MAX {
            return Err(NoForm::TooLong);
        }
    }
    Ok(form)
}

/// `EXECUTE IMMEDIATE` and `PREPARE ... FROM`. An `EXECUTE` runs what was prepared, which had no form then.
fn runs_text(first: Option<Token<'_>>, second: Option<Token<'_>>) -> bool {
    let is = |token: Option<Token<'_>>, word| token.is_some_and(|token| token.is_word(word));
    is(first, "PREPARE") || (is(first, "EXECUTE") && is(second, "IMMEDIATE"))
}

/// A token, or a literal.
type Piece<'a> = Option<Token<'a>>;

const LITERAL: Piece<'_> = None;

const fn sign(byte: u8) -> Piece<'static> {
    Some(Token::Symbol(byte))
}

const ROW: [Piece<'_>; 3] = [sign(b'('), LITERAL, sign(b')')];
const ROWS: [Piece<'_>; 7] = [ROW[0], ROW[1], ROW[2], sign(b','), ROW[0], ROW[1], ROW[2]];

/// Adds a token. A list of literals is as one, a list of rows as one row, a literal with a sign as one without.
fn add<'a>(pieces: &mut Vec<Piece<'a>>, token: Token<'a>) {
    let is_literal = match token {
        Token::String(_) | Token::Number(_) | Token::Symbol(b'?') => true,
        Token::Word(_) => ["NULL", "TRUE", "FALSE"].iter().any(|word| token.is_word(word)),
        _ => false,
    };
    if !is_literal {
        pieces.push(Some(token));
        if pieces.ends_with(&ROWS) {
            pieces.truncate(pieces.len() - (ROWS.len() - ROW.len()));
        }
        return;
    }
    if let [
        ..,
        Some(Token::Symbol(b'=' | b'(' | b',' | b'<' | b'>')),
        Some(Token::Symbol(b'-' | b'+')),
    ] = pieces[..]
    {
        pieces.pop();
    }
    match pieces.ends_with(&[LITERAL, sign(b',')]) {
        true => drop(pieces.pop()),
        false => pieces.push(LITERAL),
    }
}

/// Writes a piece behind the others. What would not stand in a line of a file is written as a number.
fn write(form: &mut String, piece: Piece<'_>) {
    if !form.is_empty() {
        form.push(' ');
    }
    let (mark, bytes) = match &piece {
        None => ("", &b"?"[..]),
        Some(Token::Word(name)) => ("", *name),
        Some(Token::Quoted(name)) => ("`", *name),
        Some(Token::UserVariable(name)) => ("@", *name),
        Some(Token::SystemVariable(name)) => ("@@", *name),
        Some(Token::Assign) => ("", &b":="[..]),
        Some(Token::Symbol(byte)) => ("", std::slice::from_ref(byte)),
        // These are literals, or end the reading.
        Some(Token::String(_) | Token::Number(_) | Token::Unfinished) => ("", &b"?"[..]),
    };
    form.push_str(mark);
    for chunk in bytes.utf8_chunks() {
        for letter in chunk.valid().chars() {
            match letter {
                ' ' | '\\' => form.push_str(&format!("\\{:02x}", letter as u32)),
                _ if letter.is_control() => form.push_str(&format!("\\{:02x}", letter as u32)),
                _ => form.push(letter),
            }
        }
        chunk.invalid().iter().for_each(|byte| form.push_str(&format!("\\{byte:02x}")));
    }
}

/// A sign that a form is a known one into which a client has smuggled something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Injection {
    /// Behind a literal of the known form stands what is none of it.
    Grown { known: String, with: String },
    /// The known form ends early, at a literal.
    Cut { known: String },
}

impl Injection {
    /// In words.
    pub fn told(&self) -> String {
        match self {
            Self::Grown { known, with } => {
                format!("it is like the known {known:?}, but {with:?} stands behind a literal")
            }
            Self::Cut { known } => {
                format!("it is like the known {known:?}, but ends behind a literal")
            }
        }
    }
}

/// What makes something else of a literal that it stands behind.
const OPERATORS: &[&str] = &[
    "OR",
    "AND",
    "XOR",
    "UNION",
    "INTO",
    "PROCEDURE",
    "LIKE",
    "RLIKE",
    "REGEXP",
    "IN",
    "BETWEEN",
    "DIV",
    "MOD",
    "IS",
    "LIMIT",
    "ORDER",
    "GROUP",
    "HAVING",
    ";",
    "|",
    "&",
    "^",
    "=",
    "<",
    ">",
    "+",
    "-",
    "*",
    "/",
    "%",
    "!",
    "(",
    ")",
    ",",
    "?",
];

/// Looks for a known form that this one is like up to a literal.
fn injection(known: &BTreeSet<String>, form: &str) -> Option<Injection> {
    // In the order of texts, what begins alike stands side by side.
    let below = known.range::<str, _>((Bound::Unbounded, Bound::Excluded(form))).next_back();
    let above = known.range::<str, _>((Bound::Excluded(form), Bound::Unbounded)).next();
    below.into_iter().chain(above).find_map(|known| {
        let (mut own, mut its) = (form.split(' ').peekable(), known.split(' ').peekable());
        let (mut last, mut literals) = ("", 0);
        while let (Some(token), Some(same)) = (own.peek(), its.peek())
            && token == same
        {
            last = token;
            literals += usize::from(last == "?");
            own.next();
            its.next();
        }
        let is_behind_literal = last == "?" || (last == ")" && literals > 0);
        match own.next() {
            None if last == "?" => Some(Injection::Cut { known: known.clone() }),
            Some(with)
                if is_behind_literal
                    && OPERATORS.iter().any(|it| it.eq_ignore_ascii_case(with)) =>
            {
                Some(Injection::Grown { known: known.clone(), with: with.to_owned() })
            }
            _ => None,
        }
    })
}

/// The forms that are known under a rule, and what came that has none of them. Shared by all workers.
#[derive(Debug, Default)]
pub struct Firewall {
    known: RwLock<BTreeSet<String>>,
    strangers: Mutex<BTreeMap<String, Stranger>>,
}

/// A form that is not known, or what has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stranger {
    pub times: u64,
    pub first: Instant,
    pub last: Instant,
    pub user: String,
    pub sign: Option<Injection>,
}

/// What a firewall says of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passage {
    Known,
    /// It is known from now on: the form is to be kept.
    Learnt(String),
    Strange {
        why: String,
        /// No text of this form has come before.
        is_first: bool,
    },
}

impl Firewall {
    /// These forms are known. `goes_on`: beside those that are known already.
    pub fn know(&self, forms: &[String], goes_on: bool) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if !goes_on {
            known.clear();
        }
        known.extend(forms.iter().take(FORMS_MAX).cloned());
    }

    /// Why a text would not pass. `None`: its form is known.
    pub fn objects(&self, text: Text<'_>) -> Option<String> {
        let form = match form(text) {
            Ok(form) => form,
            Err(none) => return Some(none.why().to_owned()),
        };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let is_known = known.contains(&form);
        (!is_known).then(|| told(UNKNOWN, injection(&known, &form).as_ref()))
    }

    /// How many forms are known.
    pub fn len(&self) -> usize {
        self.known.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What came that was not known, by form.
    pub fn strangers(&self) -> Vec<(String, Stranger)> {
        let strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        strangers.iter().map(|(form, it)| (form.clone(), it.clone())).collect()
    }

    /// Judges a text that a client of this user has sent. `None`: not all of it is there.
    pub fn judge(
        &self,
        mode: FirewallMode,
        text: Option<Text<'_>>,
        user: &[u8],
        now: Instant,
    ) -> Passage {
        let form = match text.map_or(Err(NoForm::Unreadable), form) {
            Ok(form) => form,
            Err(none) => return self.strange(format!("({})", none.why()), none.why(), user, now),
        };
        if self.known.read().unwrap_or_else(PoisonError::into_inner).contains(&form) {
            return Passage::Known;
        }
        if mode == FirewallMode::Learn {
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            return match known.len() < FORMS_MAX && known.insert(form.clone()) {
                true => Passage::Learnt(form),
                false if known.contains(&form) => Passage::Known,
                false => {
                    drop(known);
                    self.strange(form, "too many forms are known", user, now)
                }
            };
        }
        self.strange(form, UNKNOWN, user, now)
    }

    fn strange(&self, form: String, why: &str, user: &[u8], now: Instant) -> Passage {
        let mut strangers = self.strangers.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(stranger) = strangers.get_mut(&form) {
            (stranger.times, stranger.last) = (stranger.times.saturating_add(1), now);
            let why = told(why, stranger.sign.as_ref());
            return Passage::Strange { why, is_first: false };
        }
        let sign = injection(&self.known.read().unwrap_or_else(PoisonError::into_inner), &form);
        let why = told(why, sign.as_ref());
        if strangers.len() >= STRANGERS_MAX {
            // What comes once does not push out what comes again and again.
            let oldest = strangers.iter().min_by_key(|(_, it)| (it.times, it.last));
            let oldest = oldest.map(|(form, _)| form.clone());
            oldest.map(|form| strangers.remove(&form));
        }
        let user = String::from_utf8_lossy(user).into_owned();
        strangers.insert(form, Stranger { times: 1, first: now, last: now, user, sign });
        Passage::Strange { why, is_first: true }
    }
}

fn told(why: &str, sign: Option<&Injection>) -> String {
    sign.map_or_else(|| why.to_owned(), |sign| format!("{why}; {}", sign.told()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    fn form_of(text: &str) -> Result<String, NoForm> {
        form(Lexed::default().text(text.as_bytes(), Dialect::default()))
    }

    #[test]
    fn literals_lists_rows_signs_and_spaces_make_no_other_form() {
        for (form, texts) in [
            (
                "SELECT a FROM t WHERE id = ?",
                &[
                    "SELECT a FROM t WHERE id = 1",
                    "SELECT  a\nFROM t /* c */ WHERE id='x'",
                    "SELECT a FROM t WHERE id = -1",
                    "SELECT a FROM t WHERE id = ?",
                    "SELECT a FROM t WHERE id = NULL -- c",
                ][..],
            ),
            ("SELECT ( ? )", &["SELECT (1)", "SELECT (1, 'a', null, -3)"][..]),
            (
                "INSERT INTO t VALUES ( ? )",
                &["INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (1,2),(3,4), (5,6)"][..],
            ),
            ("SELECT ? - ?", &["SELECT 1 - 2", "SELECT 1 -2"][..]),
            ("BEGIN ; SELECT ?", &["BEGIN; SELECT 1;", "BEGIN;;SELECT 2"][..]),
            ("SELECT `a\\20b , @v , @@x", &["SELECT `a b`, @v, @@x"][..]),
        ] {
            for text in texts {
                assert_eq!(form_of(text).as_deref(), Ok(form), "{text}");
            }
        }
    }

    #[test]
    fn what_hides_what_it_runs_has_no_form() {
        for (text, none) in [
            ("PREPARE s FROM 'SELECT 1'", NoForm::RunsText),
            ("SELECT 1; EXECUTE IMMEDIATE @a", NoForm::RunsText),
            ("SELECT 1 /*!50000 UNION SELECT 2 */", NoForm::ExecutableComment),
            ("SELECT 'x", NoForm::Unreadable),
        ] {
            assert_eq!(form_of(text), Err(none), "{text}");
        }
        assert_eq!(form_of(&format!("SELECT {}1", "a + ".repeat(9000))), Err(NoForm::TooLong));
        assert_eq!(form_of("EXECUTE s").as_deref(), Ok("EXECUTE s"));
    }

    #[test]
    fn a_literal_that_became_an_operator_is_named() {
        let known: BTreeSet<_> = [
            "SELECT a FROM t WHERE id = ?",
            "SELECT a FROM t WHERE name = ? AND secret = ?",
            "SELECT a FROM t WHERE id IN ( ? )",
        ]
        .map(str::to_owned)
        .into();
        let sign = |text: &str| match injection(&known, &form_of(text).unwrap()) {
            Some(Injection::Grown { with, .. }) => with,
            Some(Injection::Cut { .. }) => "cut".to_owned(),
            None => String::new(),
        };
        for (text, found) in [
            ("SELECT a FROM t WHERE id = 1 OR 1 = 1", "OR"),
            ("SELECT a FROM t WHERE id = 1 UNION SELECT secret FROM t", "UNION"),
            ("SELECT a FROM t WHERE id = 1; DROP TABLE t", ";"),
            ("SELECT a FROM t WHERE name = 'admin' -- ' AND secret = ''", "cut"),
            ("SELECT a FROM t WHERE name = '' OR '1' = '1' AND secret = ''", "OR"),
            ("SELECT a FROM t WHERE id IN (1) OR SLEEP(5)", "OR"),
            ("SELECT b FROM t WHERE id = 1", ""),
            ("SELECT a FROM t WHERE other = 1", ""),
            ("DELETE FROM t", ""),
        ] {
            assert_eq!(sign(text), found, "{text}");
        }
    }

    #[test]
    fn a_firewall_learns_then_tells_strangers_and_forgets_none_that_come_again() {
        let wall = Firewall::default();
        let now = Instant::now();
        let judge = |mode, text: &str| {
            wall.judge(
                mode,
                Some(Lexed::default().text(text.as_bytes(), Dialect::default())),
                b"u",
                now,
            )
        };
        let learnt = Passage::Learnt("SELECT ?".to_owned());
        assert_eq!(judge(FirewallMode::Learn, "SELECT 1"), learnt);
        assert_eq!(judge(FirewallMode::Learn, "SELECT 2"), Passage::Known);
        assert_eq!(judge(FirewallMode::Protect, "SELECT 3"), Passage::Known);
        let is_first = |passage| matches!(passage, Passage::Strange { is_first: true, .. });
        assert!(is_first(judge(FirewallMode::Detect, "DROP TABLE t")));
        assert!(!is_first(judge(FirewallMode::Protect, "DROP TABLE t")));
        assert!(is_first(wall.judge(FirewallMode::Learn, None, b"u", now)));
        for at in 0..2 * STRANGERS_MAX {
            assert!(is_first(judge(FirewallMode::Protect, &format!("DROP TABLE t{at}"))));
        }
        let strangers = wall.strangers();
        assert_eq!(strangers.len(), STRANGERS_MAX);
        assert!(strangers.iter().any(|(form, it)| form == "DROP TABLE t" && it.times == 2));
        wall.know(&["DROP TABLE t".to_owned()], false);
        assert_eq!((wall.len(), judge(FirewallMode::Protect, "DROP TABLE t")), (1, Passage::Known));
    }
}
