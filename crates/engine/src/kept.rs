//! The messages of a session whose backend has gone to another client: `SHOW WARNINGS` and its kin are answered from
//! them.
//!
//! The backend is asked before it is taken. The rows are as the server has sent them; another backend sends what stands
//! around them. Of how many there are, another backend can be told. Invariants: what is kept of one session is bounded, as
//! a server bounds it: the first messages stand here, the others are counted; and of many messages as of few, no backend
//! need be kept.

mod get;

pub use get::Diagnosis;
use serde::{Deserialize, Serialize};
use wire::bytes::Write;
use wire::lex::Token;
use wire::rows::Row;
use wire::text::Text;

/// Bytes of messages that one session may keep: as many as MariaDB keeps by default, each as long as it makes them.
pub const BYTES_MAX: usize = 64 << 10;

/// Bytes of an error's text that no backend is asked for.
const TEXT_MAX: usize = 8 << 10;

/// Another backend is told so many messages at most.
const COUNT_MAX: u64 = u16::MAX as u64;

/// Whose messages they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    MariaDb,
    MySql,
}

impl Server {
    pub const fn of(is_mysql: bool) -> Self {
        if is_mysql { Self::MySql } else { Self::MariaDb }
    }

    /// Another backend is told so many errors at most. MySQL is told one by a statement, and each of the others by a
    /// command of its own, which adds one and clears nothing.
    const fn errors_max(self) -> u64 {
        match self {
            Self::MariaDb => COUNT_MAX,
            Self::MySql => 32,
        }
    }
}

/// One row of `SHOW WARNINGS`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Message {
    #[serde(with = "crate::described::bytes")]
    level: Box<[u8]>,
    code: u32,
    #[serde(with = "crate::described::bytes")]
    text: Box<[u8]>,
    /// Its SQLSTATE, and the row of the statement that it is about, where the server can be asked for them.
    state: Option<([u8; 5], u64)>,
}

impl Message {
    fn read(row: &Row) -> Option<Self> {
        let [Some(level), Some(code), Some(text)] = &row[..] else { return None };
        let code = std::str::from_utf8(code).ok()?.parse().ok()?;
        Some(Self { level: level[..].into(), code, text: text[..].into(), state: None })
    }

    /// An error, as its packet or Flifo has it.
    pub fn error(code: u16, state: [u8; 5], text: &[u8]) -> Self {
        Self::new(*b"Error", code, Some(state), text)
    }

    /// What a `GET DIAGNOSTICS` leaves that asks about a condition that does not exist.
    pub fn no_condition() -> Self {
        Self::error(1758, *b"35000", b"Invalid condition number")
    }

    /// A warning that the server would have left.
    pub fn warning(code: u16, text: &[u8]) -> Self {
        Self::new(*b"Warning", code, None, text)
    }

    fn new<const N: usize>(level: [u8; N], code: u16, state: Option<[u8; 5]>, text: &[u8]) -> Self {
        let text = text.get(..text.len().min(TEXT_MAX)).unwrap_or_default().into();
        Self { level: level.into(), code: code.into(), text, state: state.map(|state| (state, 0)) }
    }

    fn is_error(&self) -> bool {
        *self.level == *b"Error"
    }

    const fn bytes(&self) -> usize {
        size_of::<Self>() + self.level.len() + self.text.len()
    }
}

/// The messages of one session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SavedDiagnostics {
    /// The first ones.
    messages: Vec<Message>,
    /// How many there have been, of which the server may have kept less, and those that are kept here are fewer still
    /// where they are long.
    warnings: u64,
    errors: u64,
    /// The character set of their texts.
    #[serde(with = "crate::described::bytes")]
    charset: Box<[u8]>,
}

/// Asks for the numbers that [`SavedDiagnostics::read`] wants, and for the rows found, which asking changes.
pub const NUMBERS: &str = "SELECT FOUND_ROWS(), @@warning_count, @@error_count, ROW_COUNT()";

/// The same without the rows found: MySQL warns (from 8.0.17 on) that `FOUND_ROWS()` is old, and counts that warning alone.
pub const COUNTS: &str = "SELECT NULL, @@warning_count, @@error_count, ROW_COUNT()";

/// Asks for as many as MySQL keeps by default, however many a client may have it keep.
pub const WARNINGS: &str = "SHOW WARNINGS LIMIT 1024";

/// Asks MariaDB for what `SHOW WARNINGS` leaves out. It has to be asked last: it may fail.
pub const STATES: &str = "BEGIN NOT ATOMIC \
    DECLARE n, i, r INT DEFAULT 0; DECLARE s CHAR(5); DECLARE a TEXT DEFAULT ''; \
    GET DIAGNOSTICS n = NUMBER; SET n = LEAST(n, 1024); \
    WHILE i < n DO \
    SET i = i + 1; \
    GET DIAGNOSTICS CONDITION i s = RETURNED_SQLSTATE, r = ROW_NUMBER; \
    SET a = CONCAT(a, s, r, ' '); \
    END WHILE; \
    SELECT a; END";

impl SavedDiagnostics {
    /// What a backend has answered to [`NUMBERS`], without the rows found, and to [`WARNINGS`], of which the last rows may
    /// be missing, and [`STATES`]. `None`: it makes no sense, or there is no room for the first message.
    pub fn read(
        (warnings, errors): (u64, u64),
        messages: &[Row],
        states: &[Row],
        charset: &[u8],
    ) -> Option<Box<Self>> {
        let mut read: Vec<_> = messages.iter().map(Message::read).collect::<Option<_>>()?;
        let states = states.first().and_then(|row| row.first()?.as_deref());
        for (message, state) in read.iter_mut().zip(states.into_iter().flat_map(split)) {
            message.state = read_state(state);
        }
        let mut kept = Self { messages: read, warnings, errors, charset: charset.into() };
        kept.cut();
        let has_any = messages.is_empty() || !kept.messages.is_empty();
        (has_any && errors <= warnings).then(|| Box::new(kept))
    }

    /// How many of these rows of [`WARNINGS`] there are, and how many of them are errors.
    pub fn count(messages: &[Row]) -> (u64, u64) {
        let is_error = |row: &&Row| row.first().and_then(Option::as_deref) == Some(b"Error");
        (messages.len() as u64, messages.iter().filter(is_error).count() as u64)
    }

    /// Leaves the first messages, as many as there is room for.
    fn cut(&mut self) {
        let mut bytes = 0_usize;
        let fits = self.messages.iter().take_while(|message| {
            bytes = bytes.saturating_add(message.bytes());
            bytes <= BYTES_MAX
        });
        let count = fits.count();
        self.messages.truncate(count);
        self.messages.shrink_to_fit();
    }

    /// An error that no server has sent.
    pub fn error(code: u16, state: [u8; 5], text: &[u8], charset: &[u8]) -> Box<Self> {
        let message = Message::error(code, state, text);
        Box::new(Self { messages: vec![message], warnings: 1, errors: 1, charset: charset.into() })
    }

    /// Puts one message behind those that are here, which are no more than `room`. False: it is in another character set.
    pub fn add(&mut self, message: Message, room: usize, charset: &[u8]) -> bool {
        let more = Self {
            warnings: 1,
            errors: u64::from(message.is_error()),
            messages: if self.messages.len() < room { vec![message] } else { Vec::new() },
            charset: charset.into(),
        };
        self.join(more)
    }

    /// Puts others behind these. False: they are in another character set.
    pub fn join(&mut self, mut others: Self) -> bool {
        if self.is_empty() {
            self.charset = others.charset;
        } else if self.charset != others.charset && !others.is_ascii() {
            return false;
        }
        // Behind one that is only counted, all are.
        if self.messages.len() as u64 == self.warnings {
            self.messages.append(&mut others.messages);
            self.cut();
        }
        self.warnings = self.warnings.saturating_add(others.warnings);
        self.errors = self.errors.saturating_add(others.errors);
        true
    }

    /// Whether another backend can be told how many there are.
    pub const fn can_be_told(&self, server: Server) -> bool {
        self.errors <= server.errors_max() && self.warnings <= COUNT_MAX
    }

    fn is_ascii(&self) -> bool {
        self.messages.iter().all(|message| message.text.is_ascii())
    }

    /// Its session wants no messages (`max_error_count = 0`), and has them counted nevertheless.
    pub fn keep_numbers_only(&mut self) {
        self.messages.clear();
    }

    pub const fn is_empty(&self) -> bool {
        self.warnings == 0
    }

    /// The message in the character set of the server's own words, if it is known in that.
    fn words<'a>(&self, message: &'a Message) -> Option<&'a [u8]> {
        let is_utf8 = matches!(&*self.charset, b"utf8mb4" | b"utf8mb3" | b"utf8");
        (is_utf8 || message.text.is_ascii()).then_some(&*message.text)
    }

    /// How this `GET DIAGNOSTICS` is answered; `None`: that is not known.
    /// `kept`: the messages, if there are any; `affected`: what `ROW_COUNT()` is.
    pub fn get(
        kept: Option<&Self>,
        affected: i64,
        text: Text<'_>,
        server: Server,
    ) -> Option<Diagnosis> {
        get::rewrite(kept, affected, text, server)
    }

    /// The rows that a statement asks for, as packets hold them. `None`: they have another character set by now.
    pub fn rows(&self, shows: Shows, format: Format, charset: &[u8]) -> Option<Vec<Vec<u8>>> {
        if *self.charset != *charset && !self.is_ascii() {
            return None;
        }
        let wanted = self.messages.iter().filter(|it| !shows.errors_only || it.is_error());
        Some(wanted.skip(shows.skip).take(shows.take).map(|it| format.row(it)).collect())
    }

    /// A statement that leaves as many warnings and errors on a backend, or as many as it can be told: then it is only
    /// asked whether there are any left. On MySQL it leaves one error, and [`Self::more_errors`] the others.
    pub fn set_up(&self, server: Server) -> String {
        let errors = self.errors.min(server.errors_max());
        // Each evaluation makes one.
        let warnings = (self.warnings - self.errors).min(COUNT_MAX);
        let warnings = format!("BENCHMARK({warnings}, 'x' + 0)");
        let error = match server {
            Server::MariaDb if errors > 1 => format!("BENCHMARK({errors}, ~0 + 1)"),
            _ => "(SELECT 1 UNION SELECT 2)".to_owned(),
        };
        match (self.warnings - self.errors, errors) {
            (_, 0) => format!("DO {warnings}"),
            (0, _) => format!("DO {error}"),
            _ => format!("DO {warnings}, {error}"),
        }
    }

    /// How many errors a MySQL server must be told one by one, behind what [`Self::set_up`] has left.
    pub fn more_errors(&self, server: Server) -> u64 {
        match server {
            Server::MariaDb => 0,
            Server::MySql => self.errors.min(server.errors_max()).saturating_sub(1),
        }
    }
}

/// A string in the character set of the server's own words, whatever the connection's is.
fn literal(text: &[u8], server: Server) -> Option<String> {
    let hex: String = text.iter().map(|byte| format!("{byte:02x}")).collect();
    let digits = if text.is_empty() { "''".to_owned() } else { format!("0x{hex}") };
    match server {
        Server::MariaDb => Some(format!("_utf8mb3 {digits}")),
        // A statement that names that character set gets a warning, so a function of the server's yields it.
        Server::MySql if text.is_ascii() => {
            Some(format!("REPLACE(USER(), USER(), _ascii {digits})"))
        }
        Server::MySql => None,
    }
}

fn split(states: &[u8]) -> impl Iterator<Item = &[u8]> {
    states.split(|byte| *byte == b' ')
}

fn read_state(state: &[u8]) -> Option<([u8; 5], u64)> {
    let (state, row) = state.split_first_chunk()?;
    Some((*state, std::str::from_utf8(row).ok()?.parse().ok()?))
}

/// How rows are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    /// To a client that has prepared the statement.
    Binary,
}

impl Format {
    fn row(self, message: &Message) -> Vec<u8> {
        let mut row = Vec::new();
        match self {
            Self::Text => {
                row.put_lenenc_bytes(&message.level);
                row.put_lenenc_bytes(message.code.to_string().as_bytes());
            }
            Self::Binary => {
                // None of three columns is NULL.
                row.extend_from_slice(&[0, 0]);
                row.put_lenenc_bytes(&message.level);
                row.extend_from_slice(&message.code.to_le_bytes());
            }
        }
        row.put_lenenc_bytes(&message.text);
        row
    }
}

/// Which messages a `SHOW WARNINGS` or `SHOW ERRORS` is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shows {
    errors_only: bool,
    skip: usize,
    take: usize,
}

impl Shows {
    /// `None`: it is neither, or more than that.
    pub fn read(text: Text<'_>) -> Option<Self> {
        let mut tokens = text.tokens();
        if !tokens.next()?.is_word("SHOW") {
            return None;
        }
        let what = tokens.next()?;
        let errors_only = what.is_word("ERRORS");
        if !errors_only && !what.is_word("WARNINGS") {
            return None;
        }
        let mut shows = Self { errors_only, skip: 0, take: usize::MAX };
        let mut next = tokens.next();
        if next.is_some_and(|token| token.is_word("LIMIT")) {
            shows.take = number(tokens.next())?;
            next = tokens.next();
            match next {
                Some(Token::Symbol(b',')) => {
                    (shows.skip, shows.take) = (shows.take, number(tokens.next())?);
                    next = tokens.next();
                }
                Some(token) if token.is_word("OFFSET") => {
                    shows.skip = number(tokens.next())?;
                    next = tokens.next();
                }
                _ => {}
            }
        }
        if next == Some(Token::Symbol(b';')) {
            next = tokens.next();
        }
        (next.is_none() && !tokens.saw_executable_comment()).then_some(shows)
    }
}

fn number(token: Option<Token<'_>>) -> Option<usize> {
    let Some(Token::Number(digits)) = token else { return None };
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    fn row(values: &[&str]) -> Row {
        values.iter().map(|value| Some(value.as_bytes().to_vec())).collect()
    }

    fn two() -> Box<SavedDiagnostics> {
        let rows = [row(&["Note", "1051", "Unknown table"]), row(&["Error", "1064", "Syntax"])];
        let states = [row(&["42S020 420001 "])];
        SavedDiagnostics::read((2, 1), &rows, &states, b"utf8mb4").expect("room")
    }

    fn shows(text: &str) -> Option<Shows> {
        Shows::read(Lexed::default().text(text.as_bytes(), Dialect::default()))
    }

    #[test]
    fn rows_are_sent_as_they_came() {
        let kept = two();
        let rows = |text| {
            let shows = shows(text).expect(text);
            kept.rows(shows, Format::Text, b"utf8mb4").expect("the same character set")
        };
        let note = b"\x04Note\x041051\x0dUnknown table".to_vec();
        let error = b"\x05Error\x041064\x06Syntax".to_vec();
        assert_eq!(rows("SHOW WARNINGS"), [note.clone(), error.clone()]);
        assert_eq!(rows("show errors;"), [&error[..]]);
        assert_eq!(rows("SHOW WARNINGS LIMIT 1"), [note]);
        assert_eq!(rows("SHOW WARNINGS LIMIT 1, 5"), [&error[..]]);
        assert_eq!(rows("SHOW WARNINGS LIMIT 5 OFFSET 1"), [error]);
        assert!(rows("SHOW ERRORS LIMIT 0").is_empty());
        let binary = kept.rows(shows("SHOW ERRORS").unwrap(), Format::Binary, b"latin1");
        assert_eq!(binary, Some(vec![b"\0\0\x05Error\x28\x04\0\0\x06Syntax".to_vec()]));
        for text in ["SHOW WARNINGS LIMIT ?", "SHOW WARNINGS; DO 1", "SHOW /*!1 WARNINGS */"] {
            assert_eq!(shows(text), None, "{text}");
        }
    }

    #[test]
    fn what_another_character_set_would_write_otherwise_is_not_sent() {
        let kept = SavedDiagnostics::error(1054, *b"42S22", "Spalte 'ä'".as_bytes(), b"utf8mb4");
        let all = shows("SHOW WARNINGS").unwrap();
        assert!(kept.rows(all, Format::Text, b"utf8mb4").is_some());
        assert!(kept.rows(all, Format::Text, b"latin1").is_none());
    }

    #[test]
    fn a_backend_is_told_how_many_there_are() {
        let both = [Server::MariaDb, Server::MySql];
        let counted = |warnings, errors| {
            SavedDiagnostics::read((warnings, errors), &[], &[], b"").expect("numbers")
        };
        for server in both {
            let text = "DO BENCHMARK(1, 'x' + 0), (SELECT 1 UNION SELECT 2)";
            assert_eq!((two().set_up(server), two().more_errors(server)), (text.to_owned(), 0));
            let error = SavedDiagnostics::error(1, *b"HY000", b"", b"");
            assert_eq!(error.set_up(server), "DO (SELECT 1 UNION SELECT 2)");
            assert_eq!(counted(70, 0).set_up(server), "DO BENCHMARK(70, 'x' + 0)");
        }
        let errors = counted(5, 3);
        let text = "DO BENCHMARK(2, 'x' + 0), BENCHMARK(3, ~0 + 1)";
        assert_eq!((errors.set_up(both[0]), errors.more_errors(both[0])), (text.to_owned(), 0));
        assert_eq!(errors.more_errors(both[1]), 2);
        // More than a backend can be told are not told.
        for (warnings, errors, told) in
            [(33, 33, [true, false]), (65_535, 0, [true; 2]), (65_536, 0, [false; 2])]
        {
            let many = counted(warnings, errors);
            assert_eq!(both.map(|server| many.can_be_told(server)), told);
            assert!(many.more_errors(Server::MySql) < 32 && many.set_up(both[0]).len() < 60);
        }
    }

    #[test]
    fn there_is_an_end_to_what_is_kept() {
        let read = |numbers, rows: &[Row]| SavedDiagnostics::read(numbers, rows, &[], b"");
        let all = shows("SHOW WARNINGS").expect("it is");
        let shown = |kept: &SavedDiagnostics| {
            kept.rows(all, Format::Text, b"").expect("the same character set").len()
        };
        // As a server shows the first of many, and counts all.
        let rows = vec![row(&["Error", "1", &"x".repeat(512)]); 200];
        let mut kept = read((200, 200), &rows).expect("the first ones");
        assert!((64..128).contains(&shown(&kept)), "what MariaDB keeps by default has room");
        assert_eq!((kept.warnings, kept.errors), (200, 200));
        // Nothing stands behind what was left out.
        let before = shown(&kept);
        assert!(kept.add(Message::error(2, *b"HY000", b""), 1000, b""));
        assert_eq!((shown(&kept), kept.warnings), (before, 201));
        let mut few = two();
        (0..40).for_each(|_| assert!(few.add(Message::error(2, *b"HY000", b""), 64, b"utf8mb4")));
        assert_eq!((few.errors, few.messages.len()), (41, 42));
        (0..40).for_each(|_| assert!(few.add(Message::error(2, *b"HY000", b""), 64, b"utf8mb4")));
        assert_eq!((few.errors, few.messages.len()), (81, 64));
        // Of one that is too long, not even a part is told; of none at all, the number.
        assert!(read((1, 1), &[row(&["Error", "1", &"x".repeat(BYTES_MAX)])]).is_none());
        assert!(read((2, 2), &[]).is_some());
        assert!(read((1, 0), &[row(&["Error", "x", ""])]).is_none());
        assert!(read((1, 2), &[]).is_none(), "more errors than messages");
    }

    #[test]
    fn diagnostics_become_literals() {
        let kept = two();
        let get = |text: &str| {
            SavedDiagnostics::get(
                Some(&kept),
                7,
                Lexed::default().text(text.as_bytes(), Dialect::default()),
                Server::MariaDb,
            )
            .map(|said| match said {
                Diagnosis::Sets(text) => String::from_utf8(text).unwrap(),
                Diagnosis::NoCondition => String::new(),
            })
        };
        assert_eq!(
            get("GET DIAGNOSTICS @n = NUMBER, @`r` = ROW_COUNT").unwrap(),
            "SET @n = CAST(2 AS UNSIGNED), @`r` = 7"
        );
        assert_eq!(
            get("get current diagnostics condition 2 @m=message_text,@s=RETURNED_SQLSTATE,\
                 @e=MYSQL_ERRNO, @l = ROW_NUMBER;")
            .unwrap(),
            "SET @m = _utf8mb3 0x53796e746178, @s = _utf8mb3 0x3432303030, \
             @e = CAST(1064 AS UNSIGNED), @l = CAST(1 AS UNSIGNED)"
        );
        for number in ["0", "3", "4294967295"] {
            let text =
                format!("GET DIAGNOSTICS CONDITION {number} @m = MESSAGE_TEXT, @c = CLASS_ORIGIN");
            assert_eq!(get(&text).as_deref(), Some(""), "{text}");
        }
        for text in [
            "GET DIAGNOSTICS CONDITION 3 @m = NUMBER",
            "GET DIAGNOSTICS CONDITION @n @m = MESSAGE_TEXT",
            "GET DIAGNOSTICS CONDITION 1 @m = CLASS_ORIGIN",
            "GET DIAGNOSTICS @n = NUMBER; SELECT @n",
            "GET DIAGNOSTICS",
        ] {
            assert_eq!(get(text), None, "{text}");
        }
        let (text, dialect) = (b"GET DIAGNOSTICS @n = NUMBER", Dialect::default());
        let none =
            SavedDiagnostics::get(None, -1, Lexed::default().text(text, dialect), Server::MySql);
        assert_eq!(none, Some(Diagnosis::Sets(b"SET @n = CAST(0 AS UNSIGNED)".to_vec())));
        let text = b"GET DIAGNOSTICS CONDITION 2 @m = MESSAGE_TEXT";
        let mysql = SavedDiagnostics::get(
            Some(&kept),
            0,
            Lexed::default().text(text, dialect),
            Server::MySql,
        );
        let want = b"SET @m = REPLACE(USER(), USER(), _ascii 0x53796e746178)";
        assert_eq!(mysql, Some(Diagnosis::Sets(want.to_vec())));
        // Of messages that were counted and not kept, none is a condition; of those that are not known, one may be.
        let first = Lexed::default();
        let first = first.text(b"GET DIAGNOSTICS CONDITION 1 @m = MESSAGE_TEXT", dialect);
        let mut counted = SavedDiagnostics::error(1146, *b"42S02", b"", b"");
        counted.keep_numbers_only();
        for kept in [None, Some(&*counted)] {
            let said = SavedDiagnostics::get(kept, 0, first, Server::MariaDb);
            assert_eq!(said, Some(Diagnosis::NoCondition));
        }
        let many = SavedDiagnostics { warnings: 3, ..*kept.clone() };
        let text = b"GET DIAGNOSTICS CONDITION 3 @m = MESSAGE_TEXT";
        let third = Lexed::default();
        let third = third.text(text, dialect);
        assert_eq!(SavedDiagnostics::get(Some(&many), 0, third, Server::MariaDb), None);
    }
}
