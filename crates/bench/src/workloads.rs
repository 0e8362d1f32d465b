//! What clients ask: sysbench's workloads by name, connecting anew each time, mixtures, scripts.
//!
//! Owns what a transaction of each consists of; sends nothing. Invariant: a workload of sysbench's
//! name sends what sysbench's script of that name sends, statement by statement, on the same
//! tables.

mod oltp;
pub mod random;
pub mod statement;
pub mod tables;

use std::fs;
use std::path::Path;

pub use self::oltp::NAMES as OF_SYSBENCH;
use self::random::Random;
use self::statement::{NoPlaceholder, Statement};

/// A workload, ready to be run by any number of clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Workload {
    /// As the user wrote it.
    pub name: String,
    /// All statements of all events; steps refer to them by place.
    pub statements: Vec<Statement>,
    events: Vec<(u32, Event)>,
    /// Transactions after which the client connects anew; `None`: it stays connected.
    pub per_connection: Option<u32>,
    /// Clients beside those that are measured.
    pub bystanders: Bystanders,
}

/// Clients of the workload `hot-row` whose statements are not counted: some hold a row each, others wait for these rows
/// with the statement of those that are measured. Rows that no client holds have other numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bystanders {
    pub holders: u32,
    pub waiters: u32,
}

impl Bystanders {
    pub const fn count(self) -> u32 {
        self.holders + self.waiters
    }

    /// The row that this bystander holds or waits for. No table of sysbench's has so many rows. Each turn has rows of its
    /// own: InnoDB locks the gaps beside a row that was rolled back a moment ago for a client that inserts it again.
    pub const fn row(self, turn: u32, bystander: u32) -> u32 {
        let holders = if self.holders == 0 { 1 } else { self.holders };
        HELD_ROWS + turn % TURNS * BYSTANDERS_MAX + bystander % holders
    }

    /// From what is written behind `hot-row:`.
    fn parse(text: &str) -> Option<Self> {
        if text.is_empty() {
            return Some(Self { holders: 1, waiters: 30 });
        }
        let (holders, waiters) = text.split_once('x')?;
        let (holders, waiters) = (holders.parse().ok()?, waiters.parse().ok()?);
        (holders <= BYSTANDERS_MAX && waiters <= BYSTANDERS_MAX)
            .then_some(Self { holders, waiters })
    }
}

/// What sysbench calls an event: a transaction, or a statement without one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub steps: Vec<Step>,
}

/// Statements that are run so many times on the same table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub times: u32,
    /// Places in [`Workload::statements`].
    pub statements: Vec<usize>,
}

/// The options that sysbench's scripts have, at sysbench's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub range_size: u32,
    /// Statements stand alone, without BEGIN and COMMIT.
    pub skip_trx: bool,
    pub point_selects: u32,
    pub random_points: u32,
    pub number_of_ranges: u32,
    /// Length of each of those ranges.
    pub delta: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            range_size: 100,
            skip_trx: false,
            point_selects: 10,
            random_points: 10,
            number_of_ranges: 10,
            delta: 5,
        }
    }
}

/// Why a name is no workload.
#[derive(Debug, thiserror::Error)]
pub enum NoWorkload {
    #[error(
        "{name:?} is no workload; there are {}, connect[:NAME[*COUNT]], \
         hot-row[:ROWSxWAITERS], mixed:NAME=WEIGHT+NAME=WEIGHT… and script:FILE",
        oltp::NAMES.join(", ")
    )]
    Unknown { name: String },
    #[error("{name:?}: {what}")]
    Malformed { name: String, what: &'static str },
    #[error("the script {path} cannot be read: {why}")]
    Unreadable { path: String, why: std::io::Error },
    #[error("the script {path}: {why}")]
    Placeholder { path: String, why: NoPlaceholder },
    #[error("the script {path} holds no statement; write them with a semicolon behind each")]
    Empty { path: String },
}

impl Workload {
    pub fn parse(name: &str, shape: &Shape) -> Result<Self, NoWorkload> {
        let malformed = |what| NoWorkload::Malformed { name: name.to_owned(), what };
        let mut workload = Self {
            name: name.to_owned(),
            statements: Vec::new(),
            events: Vec::new(),
            per_connection: None,
            bystanders: Bystanders::default(),
        };
        match name.split_once(':').unwrap_or((name, "")) {
            ("connect", rest) => {
                let rest = if rest.is_empty() { "oltp_point_select" } else { rest };
                let (inner, count) = rest.split_once('*').unwrap_or((rest, "1"));
                let count = count.parse().ok().filter(|count| 0 < *count);
                let count = count.ok_or_else(|| {
                    malformed("behind the * belongs how many transactions a connection has")
                })?;
                workload.add(inner, 1, shape)?;
                workload.per_connection = Some(count);
            }
            ("hot-row", rest) => {
                workload.bystanders = Bystanders::parse(rest).ok_or_else(|| {
                    malformed("behind hot-row: belong rows and waiters, at most 1000 of each: 1x30")
                })?;
                workload.add(name.split(':').next().unwrap_or(name), 1, shape)?;
            }
            ("mixed", rest) => {
                for part in rest.split('+') {
                    let (inner, weight) = part.split_once('=').unwrap_or((part, "1"));
                    let weight = weight.parse().ok().filter(|it| (1..=WEIGHT_MAX).contains(it));
                    let weight = weight
                        .ok_or_else(|| malformed("a weight is a whole number from 1 to 10000"))?;
                    workload.add(inner, weight, shape)?;
                }
            }
            _ => workload.add(name, 1, shape)?,
        }
        Ok(workload)
    }

    /// One statement after another as one transaction, in the form that scripts have. The name is only shown to
    /// readers of the results.
    pub fn of_statements(
        name: &str,
        statements: &[&str],
        per_connection: Option<u32>,
    ) -> Result<Self, NoPlaceholder> {
        let mut workload = Self {
            name: name.to_owned(),
            statements: Vec::new(),
            events: Vec::new(),
            per_connection,
            bystanders: Bystanders::default(),
        };
        workload.add_statements(statements.iter().copied(), 1)?;
        Ok(workload)
    }

    /// The transaction that comes next, by weight.
    pub fn draw(&self, random: &mut Random) -> &Event {
        let last = self.events.len() - 1;
        if last == 0 {
            return &self.events[0].1;
        }
        let whole: u32 = self.events.iter().map(|(weight, _)| weight).sum();
        let mut drawn = random.between(1, u64::from(whole)) as u32;
        for (weight, event) in &self.events[..last] {
            if drawn <= *weight {
                return event;
            }
            drawn -= weight;
        }
        &self.events[last].1
    }

    /// Whether it works on sysbench's tables.
    pub fn needs_tables(&self) -> bool {
        self.statements.iter().any(|it| it.needs_table() || it.needs_rows())
    }

    /// Whether it works on sysbench's first table only.
    pub fn is_for_one_table(&self) -> bool {
        !self.statements.iter().any(Statement::needs_table)
    }

    fn add(&mut self, name: &str, weight: u32, shape: &Shape) -> Result<(), NoWorkload> {
        if let Some(path) = name.strip_prefix("script:") {
            return self.add_script(Path::new(path), weight);
        }
        let steps = oltp::steps(name, shape)
            .ok_or_else(|| NoWorkload::Unknown { name: name.to_owned() })?;
        let mut event = Event::default();
        for (times, statements) in steps {
            let statements = statements.into_iter().map(|it| self.place(it)).collect();
            event.steps.push(Step { times, statements });
        }
        self.events.push((weight, event));
        Ok(())
    }

    /// Where a statement stands, which may be there from another event.
    fn place(&mut self, statement: Statement) -> usize {
        let known = self.statements.iter().position(|it| *it == statement);
        known.unwrap_or_else(|| {
            self.statements.push(statement);
            self.statements.len() - 1
        })
    }

    /// A script is one event; its statements share the table that `{table}` stands for.
    fn add_script(&mut self, path: &Path, weight: u32) -> Result<(), NoWorkload> {
        let shown = || path.display().to_string();
        let text = fs::read_to_string(path)
            .map_err(|why| NoWorkload::Unreadable { path: shown(), why })?;
        let statements = split_script(&text);
        if statements.is_empty() {
            return Err(NoWorkload::Empty { path: shown() });
        }
        self.add_statements(statements.iter().map(String::as_str), weight)
            .map_err(|why| NoWorkload::Placeholder { path: shown(), why })
    }

    fn add_statements<'a>(
        &mut self,
        texts: impl IntoIterator<Item = &'a str>,
        weight: u32,
    ) -> Result<(), NoPlaceholder> {
        let mut step = Step { times: 1, statements: Vec::new() };
        for text in texts {
            let statement = Statement::parse(text)?;
            step.statements.push(self.place(statement));
        }
        self.events.push((weight, Event { steps: vec![step] }));
        Ok(())
    }
}

/// Statements end at a semicolon at the end of a line, or at the end of the file; lines that begin
/// with `--` or `#` are comments.
fn split_script(text: &str) -> Vec<String> {
    let mut statements = Vec::new();
    let mut open = String::new();
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with("--") || line.starts_with('#') {
            continue;
        }
        let (line, ends) = line.strip_suffix(';').map_or((line, false), |line| (line, true));
        if !open.is_empty() && !line.is_empty() {
            open.push(' ');
        }
        open.push_str(line);
        if ends && !open.is_empty() {
            statements.push(std::mem::take(&mut open));
        }
    }
    if !open.is_empty() {
        statements.push(open);
    }
    statements
}

const WEIGHT_MAX: u32 = 10_000;
const BYSTANDERS_MAX: u32 = 1000;

/// The first row that a bystander holds. The last one is an `INT` as well.
const HELD_ROWS: u32 = 2_000_000_000;
const TURNS: u32 = 100_000;

#[cfg(test)]
mod tests {
    use super::statement::Draw;
    use super::*;

    fn workload(name: &str) -> Workload {
        Workload::parse(name, &Shape::default()).expect(name)
    }

    /// The first words of the statements of one event.
    fn course(workload: &Workload) -> Vec<String> {
        let mut draw = Draw::new(Random::new(5), random::Distribution::Uniform, 4, 1000);
        let event = workload.draw(&mut Random::new(5)).clone();
        let mut course = Vec::new();
        for step in &event.steps {
            for _ in 0..step.times {
                for statement in &step.statements {
                    let mut out = Vec::new();
                    workload.statements[*statement].put_query(&mut draw, &mut out);
                    let text = String::from_utf8(out[1..].to_vec()).expect("text");
                    course.push(text.split(' ').take(2).collect::<Vec<_>>().join(" "));
                }
            }
        }
        course
    }

    #[test]
    fn read_write_is_the_transaction_of_twenty_statements() {
        let read_write = workload("oltp_read_write");
        let course = course(&read_write);
        assert_eq!(course.len(), 20);
        assert_eq!((course[0].as_str(), course[19].as_str()), ("BEGIN", "COMMIT"));
        let writes = ["UPDATE sbtest1", "UPDATE sbtest1", "DELETE FROM", "INSERT INTO"];
        assert_eq!(course[15..19], writes);
        assert_eq!(course[1..11].iter().filter(|it| *it == "SELECT c").count(), 10);
    }

    #[test]
    fn each_of_sysbench_s_workloads_has_its_number_of_statements() {
        for (name, count) in [
            ("oltp_point_select", 1),
            ("oltp_read_only", 16),
            ("oltp_write_only", 6),
            ("oltp_insert", 1),
            ("oltp_update_index", 1),
            ("oltp_update_non_index", 1),
            ("oltp_delete", 1),
            ("select_random_points", 1),
            ("select_random_ranges", 1),
        ] {
            let workload = workload(name);
            assert_eq!(course(&workload).len(), count, "{name}");
            assert!(workload.needs_tables(), "{name}");
            assert_eq!(workload.is_for_one_table(), name.starts_with("select_"), "{name}");
        }
        let bare = Shape { skip_trx: true, ..Shape::default() };
        let bare = Workload::parse("oltp_read_only", &bare).expect("parses");
        assert_eq!(course(&bare).len(), 14);
    }

    #[test]
    fn connections_are_made_for_a_number_of_transactions() {
        assert_eq!(workload("oltp_insert").per_connection, None);
        assert_eq!(workload("connect").per_connection, Some(1));
        let insert = workload("connect:oltp_insert*3");
        assert_eq!((insert.per_connection, course(&insert).len()), (Some(3), 1));
        assert!(Workload::parse("connect:oltp_insert*0", &Shape::default()).is_err());
    }

    #[test]
    fn hot_rows_have_holders_and_waiters() {
        let hot = workload("hot-row");
        assert_eq!(hot.bystanders, Bystanders { holders: 1, waiters: 30 });
        assert_eq!((course(&hot).len(), hot.is_for_one_table()), (1, true));
        let hot = workload("hot-row:2x5").bystanders;
        assert_eq!((hot.count(), hot.row(0, 0), hot.row(0, 3)), (7, HELD_ROWS, HELD_ROWS + 1));
        assert_eq!(hot.row(5, 3), HELD_ROWS + 5001);
        assert!(i32::try_from(hot.row(TURNS - 1, 999)).is_ok());
        assert_eq!(workload("oltp_insert").bystanders.count(), 0);
        for bad in ["hot-row:", "hot-row:2", "hot-row:x", "hot-row:1x1001", "hot-row:-1x1"] {
            let parsed = Workload::parse(bad, &Shape::default());
            assert_eq!(parsed.is_ok(), bad == "hot-row:", "{bad}");
        }
    }

    #[test]
    fn a_mixture_keeps_its_weights() {
        let mixed = workload("mixed:oltp_point_select=9+oltp_update_index=1");
        let mut random = Random::new(1);
        let updates = (0..10_000).filter(|_| *mixed.draw(&mut random) == mixed.events[1].1).count();
        assert!((900..1100).contains(&updates), "{updates}");
        for bad in [
            "mixed:",
            "mixed:script:/none",
            "mixed:oltp_insert=0",
            "mixed:oltp_insert=x",
            "mixed:oltp_x=1",
        ] {
            assert!(Workload::parse(bad, &Shape::default()).is_err(), "{bad}");
        }
    }

    #[test]
    fn scripts_are_split_at_the_ends_of_lines() {
        let text = "-- a comment\nSELECT 'a;b'\n  FROM t{table};\n\n# more\nDO {1..3};\nDO 2";
        assert_eq!(split_script(text), ["SELECT 'a;b' FROM t{table}", "DO {1..3}", "DO 2"]);
        assert_eq!(split_script(";\n;;\n"), [";"]);
        let folder = tempfile::tempdir().expect("makes");
        let path = folder.path().join("s.sql");
        let parse = || Workload::parse(&format!("script:{}", path.display()), &Shape::default());
        assert!(matches!(parse(), Err(NoWorkload::Unreadable { .. })));
        fs::write(&path, "-- nothing\n").expect("writes");
        assert!(matches!(parse(), Err(NoWorkload::Empty { .. })));
        fs::write(&path, "DO {nonsense};\n").expect("writes");
        assert!(matches!(parse(), Err(NoWorkload::Placeholder { .. })));
        fs::write(&path, "DO {1..3};\n").expect("writes");
        assert!(!parse().expect("parses").needs_tables());
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = Workload::parse("tpcc", &Shape::default()).expect_err("unknown").to_string();
        assert!(error.contains("select_random_ranges") && error.contains("script:"), "{error}");
    }
}
