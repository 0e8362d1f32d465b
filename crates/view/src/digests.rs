//! What statements cost, one row for all that differ only in literals and white space.
//!
//! Owns a bounded number of rows. A new statement takes the place of one that has not been seen for a while, whose
//! figures then go to those of all others, so that sums stay true. No literal of a statement is ever kept.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use wire::lex::Token;
use wire::text::Text;

use crate::histogram::Histogram;

/// The rows of one worker.
#[derive(Debug, Default)]
pub struct Digests {
    places: HashMap<u64, u32, BuildHasherDefault<AsItIs>>,
    rows: Vec<Row>,
    others: Figures,
    rows_max: usize,
    /// Where the next row is looked for that has to go.
    hand: usize,
    replaced: u64,
}

/// Bytes of a statement's text that are kept.
const TEXT_MAX: usize = 1024;

/// So many rows are looked at for one that has not been seen since the last look.
const LOOKS: usize = 8;

/// Where the figures of a statement go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    digest: u64,
    row: u32,
}

impl Place {
    pub const fn digest(self) -> u64 {
        self.digest
    }
}

#[derive(Debug)]
struct Row {
    digest: u64,
    text: Box<str>,
    /// Since the hand has passed.
    seen: bool,
    /// As soon as one of them has ended.
    asked: Option<Asked>,
    figures: Figures,
}

/// The client that has asked a statement.
#[derive(Clone, Copy, Debug)]
pub struct Caller<'a> {
    pub user: &'a [u8],
    pub schema: Option<&'a [u8]>,
    /// The number of the server that it went to.
    pub server: u32,
}

/// The first client that has asked a statement, in what others differ from it, and when it was asked first and last.
#[derive(Debug)]
struct Asked {
    user: Box<[u8]>,
    schema: Option<Box<[u8]>>,
    server: u32,
    others: Others,
    first: Instant,
    last: Instant,
}

/// In what respect there was more than one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Others {
    pub users: bool,
    pub schemas: bool,
    pub servers: bool,
}

/// The same as it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ToldAsked {
    pub user: String,
    pub schema: Option<String>,
    pub server: String,
    pub others: Others,
    /// How long ago it was asked first, and last.
    pub first: Duration,
    pub last: Duration,
}

impl Asked {
    fn first(caller: Caller<'_>, now: Instant) -> Self {
        let Caller { user, schema, server } = caller;
        let (user, schema) = (user.into(), schema.map(Into::into));
        Self { user, schema, server, others: Others::default(), first: now, last: now }
    }

    /// One of them has ended. It is compared where it might be told apart for the first time.
    fn see(&mut self, caller: Caller<'_>, now: Instant) {
        self.last = now;
        let others = &mut self.others;
        others.users |= *self.user != *caller.user;
        others.schemas |= self.schema.as_deref() != caller.schema;
        others.servers |= self.server != caller.server;
    }

    fn told(&self, now: Instant, name_of: &impl Fn(u32) -> String) -> ToldAsked {
        let shown = |name: &[u8]| {
            let mut name = String::from_utf8_lossy(name).into_owned();
            name.retain(|letter| !letter.is_control());
            name
        };
        ToldAsked {
            user: shown(&self.user),
            schema: self.schema.as_deref().map(shown),
            server: name_of(self.server),
            others: self.others,
            first: now.saturating_duration_since(self.first),
            last: now.saturating_duration_since(self.last),
        }
    }
}

impl ToldAsked {
    /// What is known of the same statement elsewhere.
    fn merge(&mut self, other: &Self) {
        self.others.users |= other.others.users || self.user != other.user;
        self.others.schemas |= other.others.schemas || self.schema != other.schema;
        self.others.servers |= other.others.servers || self.server != other.server;
        self.first = self.first.max(other.first);
        self.last = self.last.min(other.last);
    }
}

/// What statements have cost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    pub errors: u64,
    pub rows: u64,
    pub affected: u64,
    /// In the server, from the statement's writing to the end of its reply.
    pub run: Histogram,
    /// Before that: in the queue, and for what the backend had to be told.
    pub waited: Duration,
    pub waited_most: Duration,
    /// Of these, answered with the reply to another client's run.
    pub shared: u64,
    /// What they have cost the server: of a run that several have shared, each is charged its part.
    #[serde(default)]
    pub charged: Duration,
}

/// What one statement has cost.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    pub failed: bool,
    pub rows: u64,
    pub affected: u64,
    pub run: Duration,
    /// How many have shared the run; 0: nothing has run for it.
    pub sharers: u32,
    pub waited: Duration,
}

/// A row as it is told.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Told {
    pub digest: u64,
    pub text: Box<str>,
    #[serde(default)]
    pub asked: Option<ToldAsked>,
    pub figures: Figures,
}

impl Digests {
    /// With so many rows at most, and at least one.
    pub fn new(rows_max: usize) -> Self {
        Self { rows_max: rows_max.max(1), ..Self::default() }
    }

    /// A statement begins. Its text is looked at only if it is new.
    pub fn place<'a>(&mut self, digest: u64, text: impl FnOnce() -> Text<'a>) -> Place {
        if let Some(&row) = self.places.get(&digest) {
            self.rows[row as usize].seen = true;
            return Place { digest, row };
        }
        let text = normalise(text()).into();
        self.insert(digest, text)
    }

    fn insert(&mut self, digest: u64, text: Box<str>) -> Place {
        let new = Row { digest, text, seen: true, asked: None, figures: Figures::default() };
        let row = if self.rows.len() < self.rows_max {
            self.rows.push(new);
            self.rows.len() - 1
        } else {
            let row = self.find_old();
            let old = std::mem::replace(&mut self.rows[row], new);
            self.places.remove(&old.digest);
            self.others.merge(&old.figures);
            self.replaced += 1;
            row
        };
        let row = row as u32;
        self.places.insert(digest, row);
        Place { digest, row }
    }

    /// A statement has ended.
    pub fn add(&mut self, place: Place, cost: &Cost, caller: Caller<'_>, now: Instant) {
        match self.rows.get_mut(place.row as usize) {
            Some(row) if row.digest == place.digest => {
                row.figures.add(cost);
                match &mut row.asked {
                    Some(asked) => asked.see(caller, now),
                    None => row.asked = Some(Asked::first(caller, now)),
                }
            }
            // Its row was given to another statement meanwhile.
            _ => self.others.add(cost),
        }
    }

    /// A statement has ended that another client's run has answered.
    pub fn add_shared(&mut self, place: Place) {
        match self.rows.get_mut(place.row as usize) {
            Some(row) if row.digest == place.digest => row.figures.shared += 1,
            _ => self.others.shared += 1,
        }
    }

    fn find_old(&mut self) -> usize {
        let mut at = self.hand;
        for _ in 0..LOOKS {
            at = self.hand;
            self.hand = (at + 1) % self.rows.len();
            if !std::mem::take(&mut self.rows[at].seen) {
                break;
            }
        }
        at
    }

    /// All rows; those that have been replaced are one without a text. Servers have these names.
    pub fn told(&self, now: Instant, name_of: impl Fn(u32) -> String) -> Vec<Told> {
        let tell = |row: &Row| {
            let (text, figures) = (row.text.clone(), row.figures.clone());
            let asked = row.asked.as_ref().map(|asked| asked.told(now, &name_of));
            Told { digest: row.digest, text, asked, figures }
        };
        let mut told: Vec<_> = self.rows.iter().map(tell).collect();
        if self.others.run.count() > 0 {
            let figures = self.others.clone();
            told.push(Told { digest: 0, text: "".into(), asked: None, figures });
        }
        told
    }

    /// Adds what another process has counted, whose servers have these numbers here.
    pub fn take_in(&mut self, told: Told, now: Instant, number_of: impl Fn(&str) -> Option<u32>) {
        let Told { digest, text, asked, figures } = told;
        if digest == 0 {
            return self.others.merge(&figures);
        }
        let known = self.places.get(&digest).copied();
        let row = known.unwrap_or_else(|| self.insert(digest, text).row);
        let row = &mut self.rows[row as usize];
        row.figures.merge(&figures);
        if let Some(asked) = asked {
            let number = number_of(&asked.server);
            let caller = Caller {
                user: asked.user.as_bytes(),
                schema: asked.schema.as_ref().map(String::as_bytes),
                server: number.unwrap_or_default(),
            };
            let first = now.checked_sub(asked.first).unwrap_or(now);
            let last = now.checked_sub(asked.last).unwrap_or(now);
            let known = row.asked.get_or_insert_with(|| Asked::first(caller, last));
            let newest = known.last.max(last);
            known.see(caller, newest);
            known.first = known.first.min(first);
            known.others.users |= asked.others.users;
            known.others.schemas |= asked.others.schemas;
            known.others.servers |= asked.others.servers || number.is_none();
        }
    }

    /// Has so many rows at most from now on, and at least one. The figures of those that have to go count among the
    /// others.
    pub fn resize(&mut self, rows_max: usize) {
        self.rows_max = rows_max.max(1);
        for gone in self.rows.drain(self.rows_max.min(self.rows.len())..) {
            self.places.remove(&gone.digest);
            self.others.merge(&gone.figures);
            self.replaced += 1;
        }
        if self.hand >= self.rows.len() {
            self.hand = 0;
        }
    }

    /// All begin at zero. A statement that runs meanwhile counts among the others.
    pub fn reset(&mut self) {
        *self = Self::new(self.rows_max);
    }

    /// The text of a statement that has a row.
    pub fn text(&self, digest: u64) -> Option<&str> {
        let row = self.places.get(&digest)?;
        self.rows.get(*row as usize).map(|row| &*row.text)
    }

    /// How many rows have been given to other statements.
    pub const fn replaced(&self) -> u64 {
        self.replaced
    }
}

impl Figures {
    fn add(&mut self, cost: &Cost) {
        self.errors += u64::from(cost.failed);
        self.rows += cost.rows;
        self.affected += cost.affected;
        self.run.add(cost.run);
        self.charged += match cost.sharers {
            0 => Duration::ZERO,
            1 => cost.run,
            sharers => cost.run / sharers,
        };
        self.waited += cost.waited;
        self.waited_most = self.waited_most.max(cost.waited);
    }

    pub fn merge(&mut self, other: &Self) {
        self.errors += other.errors;
        self.rows += other.rows;
        self.affected += other.affected;
        self.run.merge(&other.run);
        self.waited += other.waited;
        self.waited_most = self.waited_most.max(other.waited_most);
        self.shared += other.shared;
        self.charged += other.charged;
    }
}

/// Makes one list of those of several workers.
pub fn join(lists: impl IntoIterator<Item = Vec<Told>>) -> Vec<Told> {
    let mut places = HashMap::new();
    let mut joined: Vec<Told> = Vec::new();
    for told in lists.into_iter().flatten() {
        match places.get(&told.digest) {
            Some(&at) => {
                let known: &mut Told = &mut joined[at];
                known.figures.merge(&told.figures);
                match (&mut known.asked, told.asked) {
                    (Some(known), Some(asked)) => known.merge(&asked),
                    (known, asked) => *known = known.take().or(asked),
                }
            }
            None => {
                places.insert(told.digest, joined.len());
                joined.push(told);
            }
        }
    }
    joined
}

/// A statement's text with `?` for each literal, and for each list of literals.
pub fn normalise(text: Text<'_>) -> String {
    let mut out = String::new();
    let mut tokens = text.tokens();
    let (mut end, mut after_literal) = (0, false);
    while let Some(token) = tokens.next() {
        let (start, next_end) = tokens.span();
        let has_gap = start > end && end > 0;
        end = next_end;
        let piece = match token {
            Token::String(_) | Token::Number(_) if after_literal => continue,
            Token::Symbol(b',') if after_literal => continue,
            Token::String(_) | Token::Number(_) => b"?",
            Token::Unfinished => break,
            _ => &text.bytes[start..end],
        };
        after_literal = piece == b"?";
        if has_gap {
            out.push(' ');
        }
        let piece = String::from_utf8_lossy(piece);
        if out.len() + piece.len() > TEXT_MAX {
            out.push('…');
            break;
        }
        out.push_str(&piece);
    }
    out
}

/// Digests are hashes already.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, digest: u64) {
        // The table looks at the highest and at the lowest bits.
        self.0 = digest.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    const ROWS_MAX: usize = 500;

    fn text<'a>(text: &'a str) -> impl FnOnce() -> Text<'a> {
        let lexed: &Lexed = Box::leak(Box::default());
        move || lexed.text(text.as_bytes(), Dialect::default())
    }

    fn cost() -> Cost {
        Cost { rows: 2, run: Duration::from_micros(100), sharers: 1, ..Cost::default() }
    }

    const CALLER: Caller<'_> = Caller { user: b"app", schema: Some(b"shop"), server: 0 };

    fn add(digests: &mut Digests, place: Place, cost: &Cost) {
        digests.add(place, cost, CALLER, Instant::now());
    }

    fn told(digests: &Digests) -> Vec<Told> {
        digests.told(Instant::now(), |server| format!("db{server}"))
    }

    #[test]
    fn a_statement_has_its_first_caller_and_says_whether_there_were_others() {
        let mut one = Digests::new(ROWS_MAX);
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let place = one.place(7, text("a"));
        assert_eq!(told(&one)[0].asked, None, "it has not ended yet");
        one.add(place, &cost(), CALLER, at(1));
        one.add(place, &cost(), CALLER, at(3));
        let names = |server| format!("db{server}");
        let asked = |digests: &Digests| digests.told(at(10), names)[0].asked.clone().unwrap();
        let found = asked(&one);
        assert_eq!(
            (&*found.user, found.schema.as_deref(), &*found.server),
            ("app", Some("shop"), "db0")
        );
        assert_eq!((found.first.as_secs(), found.last.as_secs()), (9, 7));
        assert_eq!(found.others, Others::default());
        for (caller, others) in [
            (Caller { user: b"report", ..CALLER }, Others { users: true, ..Others::default() }),
            (Caller { schema: None, ..CALLER }, Others { schemas: true, ..Others::default() }),
            (Caller { server: 1, ..CALLER }, Others { servers: true, ..Others::default() }),
        ] {
            // Told of one worker, of two together, and by another process.
            let (mut same, mut other) = (Digests::new(ROWS_MAX), Digests::new(ROWS_MAX));
            let place = same.place(7, text("a"));
            same.add(place, &cost(), CALLER, at(1));
            let place = other.place(7, text("a"));
            other.add(place, &cost(), caller, at(4));
            let joined = join([same.told(at(10), names), other.told(at(10), names)]);
            let joined = joined[0].asked.clone().unwrap();
            assert_eq!(
                (joined.others, joined.first.as_secs(), joined.last.as_secs()),
                (others, 9, 6)
            );
            let number_of = |name: &str| name.strip_prefix("db").and_then(|it| it.parse().ok());
            for told in other.told(at(10), names) {
                same.take_in(told, at(10), number_of);
            }
            assert_eq!(asked(&same), joined);
            let place = same.place(7, text("a"));
            same.add(place, &cost(), CALLER, at(5));
            assert_eq!(asked(&same).others, others, "it stays so");
        }
        let mut new = Digests::new(ROWS_MAX);
        for told in one.told(at(10), names) {
            new.take_in(told, at(10), |_| None);
        }
        assert_eq!((asked(&new).first.as_secs(), asked(&new).last.as_secs()), (9, 7));
        assert!(asked(&new).others.servers, "that server is not known here");
    }

    #[test]
    fn literals_are_never_kept() {
        let of = |text: &str| normalise(Lexed::default().text(text.as_bytes(), Dialect::default()));
        assert_eq!(
            of("select  a.b,1 from\nt where x = 'secret'"),
            "select a.b,? from t where x = ?"
        );
        assert_eq!(of("x in (1, 'b',0x3)"), "x in (?)");
        assert_eq!(of("/* hint 7 */ select 1 -- 8"), "select ?");
        assert_eq!(of("set password = 'se"), "set password =");
        assert!(of(&"x ".repeat(5000)).len() <= TEXT_MAX + 4);
        assert_eq!(of("ä\u{fffd}"), "ä\u{fffd}");
    }

    #[test]
    fn figures_stay_true_while_rows_come_and_go() {
        let mut digests = Digests::new(3);
        let places: Vec<_> = (1..=3).map(|it| digests.place(it, text(&format!("t{it}")))).collect();
        places.iter().for_each(|place| add(&mut digests, *place, &cost()));
        digests.resize(1);
        // It ends after its row is gone.
        add(&mut digests, places[2], &cost());
        let told = |digests: &Digests| -> Vec<(u64, u64)> {
            told(digests).iter().map(|it| (it.digest, it.figures.run.count())).collect()
        };
        assert_eq!(told(&digests), [(1, 1), (0, 3)]);
        assert!(digests.text(2).is_none() && digests.text(1).is_some());
        let other = digests.place(2, text("t2"));
        assert_eq!(told(&digests), [(2, 0), (0, 4)], "there is one row");
        digests.resize(2);
        digests.place(1, text("t1"));
        add(&mut digests, other, &cost());
        assert_eq!(told(&digests), [(2, 1), (1, 0), (0, 4)]);
        digests.resize(0);
        assert_eq!(told(&digests), [(2, 1), (0, 4)], "there is always one");
    }

    #[test]
    fn sums_stay_true_whatever_comes() {
        let mut digests = Digests::new(ROWS_MAX);
        for turn in 0..3000 {
            // One that is seen all the time keeps its row.
            let often = digests.place(u64::MAX, text("often"));
            add(&mut digests, often, &cost());
            let name = format!("select {turn} from t{turn}");
            let place = digests.place(turn + 1, text(&name));
            if turn % 3 == 0 {
                let _ = digests.place(turn + 1_000_000, text("between"));
            }
            add(&mut digests, place, &cost());
        }
        let told = told(&digests);
        assert_eq!(told.len(), ROWS_MAX + 1);
        assert_eq!(told.iter().map(|it| it.figures.run.count()).sum::<u64>(), 6000);
        assert_eq!(told.iter().map(|it| it.figures.rows).sum::<u64>(), 12_000);
        let often = told.iter().find(|it| &*it.text == "often").unwrap();
        assert_eq!(often.figures.run.count(), 3000);
        assert_eq!(digests.replaced(), 4001 - ROWS_MAX as u64);
        assert_eq!(digests.places.len(), ROWS_MAX);
    }

    #[test]
    fn a_statement_whose_row_is_gone_counts_with_the_others() {
        let mut digests = Digests::new(ROWS_MAX);
        let first = digests.place(1, text("first"));
        for turn in 2..=3 * ROWS_MAX as u64 {
            let _ = digests.place(turn, text("x"));
        }
        add(&mut digests, first, &Cost { failed: true, ..cost() });
        let told = told(&digests);
        let others = told.last().unwrap();
        assert_eq!((others.digest, others.figures.errors, others.figures.run.count()), (0, 1, 1));
    }

    #[test]
    fn workers_rows_are_joined_by_digest() {
        let mut one = Digests::new(ROWS_MAX);
        let mut two = Digests::new(ROWS_MAX);
        for digests in [&mut one, &mut two] {
            let place = digests.place(7, text("a"));
            add(digests, place, &cost());
        }
        let place = two.place(8, text("b"));
        add(&mut two, place, &cost());
        let joined = join([told(&one), told(&two)]);
        let counts: Vec<_> = joined.iter().map(|it| (&*it.text, it.figures.run.count())).collect();
        assert_eq!(counts, [("a", 2), ("b", 1)]);
    }
}
