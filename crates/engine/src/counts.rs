//! `ROW_COUNT()` and `FOUND_ROWS()` of clients that share backends.
//!
//! Replies tell the first one, and often the second. So if the backend of the statement before has gone to another
//! client, Flifo writes the numbers into the text in the place of the calls, in a form to which the server gives the
//! same column name, type and length. Where that cannot be done, the backend must be the same, and unused since.

use serde::{Deserialize, Serialize};
use wire::lex::Token;
use wire::text::Text;

use crate::calls::{self, CallPlace};
use crate::intent::looks::LooksUp;

/// What a statement does to `FOUND_ROWS()`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finds {
    /// It stays, or becomes anything.
    #[default]
    Unknown,
    /// It becomes something, unless the statement fails; the backend knows.
    Anew,
    /// It stays what it was.
    Nothing,
    /// It is the number of rows in the reply.
    Rows,
}

/// The counts of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowCounts {
    /// `None`: its backend alone knows.
    affected: Option<i64>,
    /// The backend that counts the same; none if Flifo has answered itself.
    affected_on: Option<u64>,
    found: Option<u64>,
    found_on: Option<u64>,
    /// The backend that surely has no diagnostics, not even another client's.
    clean: Option<u64>,
}

impl Default for RowCounts {
    fn default() -> Self {
        Self { affected: Some(0), affected_on: None, found: Some(0), found_on: None, clean: None }
    }
}

/// What a statement fails with that cannot find what it looks up: no such table, no such schema, a view that is not
/// valid any more, no such thread or none that can be explained.
const LOOKED_UP: [u16; 5] = [1146, 1049, 1356, 1094, 1933];

/// What a statement fails with at any time: deadlock, lock wait, `KILL`, shutdown, a limit of time.
const ANY_TIME: [u16; 5] = [1205, 1213, 1317, 1927, 1969];

/// Which counts a statement asks for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    pub affected: bool,
    pub found: bool,
}

impl RowCounts {
    /// A reply has told how many rows were affected; −1 if it is rows, or an error.
    pub const fn see_affected(&mut self, affected: i64, backend: u64) {
        self.affected = Some(affected);
        self.affected_on = Some(backend);
    }

    /// A reply has told how many rows all executions of a statement have affected, and the last one's count is asked
    /// for.
    pub const fn see_several(&mut self, backend: u64) {
        self.affected = None;
        self.affected_on = Some(backend);
    }

    /// A statement has failed, with this error. `looks_up`: what the text says of it, on a server where that matters.
    pub fn see_failed(&mut self, code: u16, looks_up: LooksUp, backend: u64) {
        match looks_up {
            LooksUp::Yes if LOOKED_UP.contains(&code) => {}
            LooksUp::Perhaps if LOOKED_UP.contains(&code) => self.affected = None,
            LooksUp::Yes | LooksUp::Perhaps if ANY_TIME.contains(&code) => self.affected = None,
            _ => return self.see_affected(-1, backend),
        }
        // If it has stayed, then the backend has it only if it had it before.
        self.affected_on = self.affected_on.filter(|on| *on == backend);
    }

    /// Flifo has answered in the server's place.
    pub const fn answer(&mut self, affected: i64) {
        self.affected = Some(affected);
        self.affected_on = None;
    }

    /// A statement has ended, with so many rows; `None`: it has failed.
    pub fn see_found(&mut self, finds: Finds, rows: Option<u64>, backend: u64) {
        match (finds, rows) {
            // What fails before it has selected anything has found nothing.
            (Finds::Nothing, _) | (Finds::Rows, None) => {}
            (Finds::Rows, Some(rows)) => (self.found, self.found_on) = (Some(rows), Some(backend)),
            (Finds::Anew, Some(_)) => (self.found, self.found_on) = (None, Some(backend)),
            // If it has stayed, then the backend has it only if it had it before.
            (Finds::Unknown | Finds::Anew, _) => {
                self.found = None;
                self.found_on = self.found_on.filter(|on| *on == backend);
            }
        }
    }

    /// Whether only this backend knows how many rows were found.
    pub fn are_found_on(&self, backend: u64) -> bool {
        self.found.is_none() && self.found_on == Some(backend)
    }

    /// The backend that alone knows how many rows were found.
    pub fn found_only_on(&self) -> Option<u64> {
        self.found_on.filter(|_| self.found.is_none())
    }

    /// Whether only this client's backend knows how many rows were affected.
    pub const fn are_affected_on_backend(&self) -> bool {
        self.affected.is_none() && self.affected_on.is_some()
    }

    /// The backend that alone knew has said how many rows were affected.
    pub const fn tell_affected(&mut self, affected: i64) {
        self.affected = Some(affected);
    }

    /// The backend that alone knew has said how many rows were found.
    pub const fn tell_found(&mut self, rows: u64) {
        self.found = Some(rows);
    }

    /// How many rows were found, if that is known without the backend.
    pub const fn found(&self) -> Option<u64> {
        self.found
    }

    /// So many were found before all else was forgotten.
    pub const fn keep_found(&mut self, found: u64) {
        (self.found, self.found_on) = (Some(found), None);
    }

    /// What these say was found before all else was forgotten. If only a backend knows, that is asked before its
    /// session begins anew, too.
    pub fn keep_found_of(&mut self, before: &Self) {
        (self.found, self.found_on) = (before.found, before.found_only_on());
    }

    /// Another client has used this backend, or the backend has run something between this client's statements.
    pub fn lose(&mut self, backend: u64) {
        self.affected_on = self.affected_on.filter(|on| *on != backend);
        self.found_on = self.found_on.filter(|on| *on != backend);
        self.clean = self.clean.filter(|on| *on != backend);
    }

    /// Before or behind this client's statement, the backend has run something of Flifo's that affects no rows.
    pub fn see_none_affected(&mut self, backend: u64) {
        if self.affected != Some(0) {
            self.affected_on = self.affected_on.filter(|on| *on != backend);
        }
    }

    /// The same of something that has failed: the backend counts −1.
    pub fn see_own_failed(&mut self, backend: u64) {
        if self.affected != Some(-1) {
            self.affected_on = self.affected_on.filter(|on| *on != backend);
        }
    }

    /// A statement has cleared the diagnostics on this backend, and has left none.
    pub const fn see_clean(&mut self, backend: u64) {
        self.clean = Some(backend);
    }

    /// A statement has left diagnostics on this backend.
    pub fn see_diagnostics(&mut self, backend: u64) {
        self.clean = self.clean.filter(|on| *on != backend);
    }

    pub fn is_clean(&self, backend: u64) -> bool {
        self.clean == Some(backend)
    }

    pub const fn affected(&self) -> Option<i64> {
        self.affected
    }

    /// Whether this backend can answer, if no other client has used it since.
    pub fn are_on(&self, asked: Asked, backend: u64) -> bool {
        (!asked.affected || self.affected_on == Some(backend))
            && (!asked.found || self.found_on == Some(backend))
    }

    /// The text with its calls replaced by numbers, and what is still to be asked. `on`: the backend that it goes to,
    /// which need not be told what it knows.
    pub fn put(&self, text: Text<'_>, asked: Asked, on: Option<u64>) -> (Option<Vec<u8>>, Asked) {
        let knows = |asked| on.is_some_and(|backend| self.are_on(asked, backend));
        let affected = asked.affected && !knows(Asked { affected: true, found: false });
        let found = asked.found && !knows(Asked { affected: false, found: true });
        let (mut left, mut missed) = (asked, false);
        let places = places(text);
        let replaced = calls::replace(text, |name, place| {
            let number = match () {
                () if affected && name.eq_ignore_ascii_case(b"ROW_COUNT") => {
                    left.affected = false;
                    self.affected
                }
                () if found && name.eq_ignore_ascii_case(b"FOUND_ROWS") => {
                    left.found = false;
                    self.found.and_then(|rows| i64::try_from(rows).ok())
                }
                () => return None,
            };
            let number = number.filter(|_| places.allow(place));
            missed |= number.is_none();
            // As long as the function's own column, and what is computed from that.
            Some(match place {
                CallPlace::Item => format!("CAST('{:021}' AS SIGNED)", number?),
                _ => format!("CAST(CAST('{}' AS DECIMAL(20, 0)) AS SIGNED)", number?),
            })
        });
        if missed { (None, asked) } else { (replaced, left) }
    }
}

/// Where in a statement a number does not change the names of columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Places {
    Items,
    Everywhere,
    Nowhere,
}

impl Places {
    fn allow(self, place: CallPlace) -> bool {
        match self {
            Self::Items => place != CallPlace::Within,
            Self::Everywhere => true,
            Self::Nowhere => false,
        }
    }
}

fn places(text: Text<'_>) -> Places {
    let mut tokens = text.tokens();
    let first = tokens.next();
    let is = |word: &str| first.is_some_and(|token| token.is_word(word));
    // What comes behind a semicolon asks for what comes before it.
    let (mut is_single, mut selects) = (true, false);
    tokens.for_each(|token| {
        is_single &= token != Token::Symbol(b';');
        selects |= token.is_word("SELECT");
    });
    let changes = ["INSERT", "REPLACE", "UPDATE", "DELETE", "DO"].into_iter().any(is);
    let computes = !selects && (is("SET") || is("CALL"));
    match is("SELECT") {
        true => Places::Items,
        false if is_single && (changes || computes) => Places::Everywhere,
        false => Places::Nowhere,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    const BOTH: Asked = Asked { affected: true, found: true };
    const AFFECTED: Asked = Asked { affected: true, found: false };

    fn put(
        counts: &RowCounts,
        text: &str,
        asked: Asked,
        on: Option<u64>,
    ) -> (Option<String>, Asked) {
        let (text, left) =
            counts.put(Lexed::default().text(text.as_bytes(), Dialect::default()), asked, on);
        (text.map(|text| String::from_utf8(text).unwrap()), left)
    }

    #[test]
    fn numbers_stand_in_the_place_of_calls() {
        let mut counts = RowCounts::default();
        counts.see_affected(-1, 7);
        let text = "SELECT CAST('-00000000000000000001' AS SIGNED) AS `ROW_COUNT()`, 1";
        let done = (Some(text.to_owned()), Asked::default());
        assert_eq!(put(&counts, "SELECT ROW_COUNT(), 1", AFFECTED, None), done);
        assert_eq!(put(&counts, "SELECT ROW_COUNT(), 1", AFFECTED, Some(8)), done);
        assert_eq!(put(&counts, "SELECT ROW_COUNT(), 1", AFFECTED, Some(7)), (None, AFFECTED));
        let text = "INSERT INTO t VALUES (CAST(CAST('12' AS DECIMAL(20, 0)) AS SIGNED) + 1)";
        counts.answer(12);
        let put_in = put(&counts, "INSERT INTO t VALUES (ROW_COUNT() + 1)", AFFECTED, Some(7));
        assert_eq!(put_in, (Some(text.to_owned()), Asked::default()));
    }

    #[test]
    fn what_goes_behind_a_statement_is_counted_by_its_backend() {
        let mut counts = RowCounts::default();
        counts.see_affected(0, 7);
        counts.see_none_affected(7);
        assert!(counts.are_on(AFFECTED, 7), "it is the same");
        counts.see_affected(-1, 7);
        counts.see_none_affected(8);
        assert!(counts.are_on(AFFECTED, 7), "another backend connection");
        counts.see_none_affected(7);
        assert!(!counts.are_on(AFFECTED, 7) && counts.affected() == Some(-1));
    }

    #[test]
    fn what_fails_while_it_looks_up_counts_nothing() {
        let mut counts = RowCounts::default();
        counts.see_affected(3, 7);
        for (code, looks_up, affected) in [
            (1146, LooksUp::Yes, Some(3)),
            (1142, LooksUp::Yes, Some(-1)),
            (1146, LooksUp::No, Some(-1)),
            (1146, LooksUp::Perhaps, None),
            (1317, LooksUp::Yes, None),
        ] {
            let mut same = counts;
            same.see_failed(code, looks_up, 7);
            assert_eq!(same.affected(), affected, "{code}");
            assert!(same.are_on(AFFECTED, 7), "{code}");
            let mut other = counts;
            other.see_failed(code, looks_up, 8);
            assert_eq!(other.affected(), affected, "{code}");
            assert_eq!(other.are_on(AFFECTED, 8), affected == Some(-1), "{code}");
            let unknown = put(&other, "SELECT ROW_COUNT()", AFFECTED, Some(8)).0.is_none();
            assert_eq!(unknown, affected != Some(3), "{code}");
        }
    }

    #[test]
    fn what_would_be_named_otherwise_is_asked_of_the_backend() {
        let text = "SELECT 1 + CAST(CAST('0' AS DECIMAL(20, 0)) AS SIGNED) AS `1 + ROW_COUNT()`";
        let done = (Some(text.to_owned()), Asked::default());
        assert_eq!(put(&RowCounts::default(), "SELECT 1 + ROW_COUNT()", AFFECTED, None), done);
        for text in [
            "SELECT ROW_COUNT() IS NULL",
            "SET STATEMENT sql_mode = '' FOR SELECT ROW_COUNT() IS NULL",
            "CREATE VIEW v AS SELECT ROW_COUNT()",
            "INSERT INTO t VALUES (1); SELECT ROW_COUNT()",
        ] {
            assert_eq!(
                put(&RowCounts::default(), text, AFFECTED, None),
                (None, AFFECTED),
                "{text}"
            );
        }
    }

    #[test]
    fn rows_found_are_told_if_they_are_known() {
        let mut counts = RowCounts::default();
        counts.see_found(Finds::Rows, Some(3), 7);
        counts.see_found(Finds::Nothing, Some(0), 8);
        let text = "SELECT CAST('000000000000000000003' AS SIGNED) AS `FOUND_ROWS()`";
        let asked = Asked { affected: false, found: true };
        assert_eq!(put(&counts, "SELECT FOUND_ROWS()", asked, None).0.as_deref(), Some(text));
        for (finds, rows) in [(Finds::Unknown, Some(3)), (Finds::Anew, None)] {
            let mut counts = counts;
            counts.see_found(Finds::Rows, None, 9);
            assert_eq!(put(&counts, "SELECT FOUND_ROWS()", asked, None).0.as_deref(), Some(text));
            counts.see_found(finds, rows, 9);
            assert_eq!(put(&counts, "SELECT FOUND_ROWS()", asked, None), (None, asked));
            assert!(!counts.are_on(asked, 9) && !counts.are_on(asked, 7), "of others");
            counts.see_found(Finds::Anew, Some(1), 9);
            counts.see_found(finds, rows, 9);
            assert!(counts.are_on(asked, 9) && !counts.are_on(BOTH, 9));
            counts.lose(8);
            assert!(counts.are_on(asked, 9));
            counts.see_clean(9);
            assert!(counts.is_clean(9) && !counts.is_clean(8));
            counts.lose(9);
            assert!(!counts.are_on(asked, 9) && !counts.is_clean(9));
        }
    }
}
