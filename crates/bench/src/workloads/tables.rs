//! sysbench's tables: made, looked at and dropped, over a connection like any client's.
//!
//! Owns their layout. Invariant: what is made here is what sysbench 1.0 makes with its defaults, so
//! that either tool can work on what the other has prepared.

use backend::Address;

use super::random::{Distribution, Random};
use crate::interrupt::Interrupt;
use crate::load::{Account, Answer, Buffers, Connection, connect_once};
use crate::progress::Progress;

/// How many tables of how many rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub tables: u32,
    pub rows: u32,
}

/// Why the tables are not as they have to be.
#[derive(Debug, thiserror::Error)]
pub enum TablesError {
    #[error(
        "the schema {0:?} holds no table sbtest1; make the tables with `flifo bench prepare`, or \
         with sysbench"
    )]
    None(String),
    #[error(
        "there are only {found} tables sbtest1… where {wanted} are asked for; say --tables \
         {found}, or make more with `flifo bench prepare`"
    )]
    TooFew { found: u32, wanted: u32 },
    #[error(
        "the table {table} is not laid out as sysbench's: {message}; drop it with `flifo bench \
         cleanup` if it can be spared, and make it anew with `flifo bench prepare`"
    )]
    Layout { table: String, message: String },
    #[error("the server refused `{statement}`: {message} (error {code})")]
    Refused { statement: String, code: u16, message: String },
    #[error(
        "the table {0} is there already; `flifo bench cleanup` drops the tables sbtest1, sbtest2…"
    )]
    Exists(String),
    #[error(transparent)]
    Broken(#[from] crate::load::Broken),
    #[error(transparent)]
    Open(#[from] crate::load::OpenError),
}

/// Makes and fills tables.
pub fn prepare(
    account: &Account,
    address: &Address,
    extent: Extent,
    seed: u64,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let Extent { tables, rows } = extent;
    let what = format!("Filling {tables} tables of {rows} rows");
    let mut progress = Progress::begin(&what, u64::from(tables) * u64::from(rows));
    let mut filled = 0;
    connect_once(account, address, async |connection| {
        let mut clerk = Clerk { connection, buffers: Buffers::default() };
        for table in 1..=tables {
            let mut random = Random::split(seed, u64::from(table));
            clerk.create(table).await?;
            let mut first = 1;
            while first <= rows {
                interrupt.check()?;
                let last = rows.min(first.saturating_add(BATCH - 1));
                clerk.run(&batch(table, last - first + 1, rows, &mut random)).await?;
                filled += u64::from(last - first + 1);
                progress.set(filled);
                first = last.saturating_add(1);
            }
            clerk.run(&format!("CREATE INDEX k_{table} ON sbtest{table}(k)")).await?;
        }
        clerk.connection.quit();
        anyhow::Ok(())
    })?
}

/// Drops all tables sbtest1, sbtest2… Returns how many there were.
pub fn cleanup(account: &Account, address: &Address) -> Result<u32, TablesError> {
    connect_once(account, address, async |connection| {
        let mut clerk = Clerk { connection, buffers: Buffers::default() };
        let tables = clerk.count_tables().await?;
        for table in 1..=tables {
            clerk.run(&format!("DROP TABLE IF EXISTS sbtest{table}")).await?;
        }
        clerk.connection.quit();
        Ok(tables)
    })?
}

/// Looks at the tables that a workload will use. What is not asked for is found out.
pub fn inspect(
    account: &Account,
    address: &Address,
    tables: Option<u32>,
    rows: Option<u32>,
) -> Result<Extent, TablesError> {
    connect_once(account, address, async |connection| {
        let mut clerk = Clerk { connection, buffers: Buffers::default() };
        let found = clerk.count_tables().await?;
        if found == 0 {
            return Err(TablesError::None(account.schema.clone()));
        }
        let tables = match tables {
            Some(wanted) if found < wanted => return Err(TablesError::TooFew { found, wanted }),
            Some(wanted) => wanted,
            None => found,
        };
        for table in 1..=tables {
            clerk.see_layout(table).await?;
        }
        let rows = match rows {
            Some(rows) => rows,
            None => {
                let last = clerk.column("SELECT COALESCE(MAX(id), 0) FROM sbtest1").await?;
                last.first().and_then(|id| id.parse().ok()).unwrap_or(0)
            }
        };
        clerk.connection.quit();
        Ok(Extent { tables, rows })
    })?
}

/// Talks with a server about tables.
struct Clerk {
    connection: Connection,
    buffers: Buffers,
}

impl Clerk {
    async fn create(&mut self, table: u32) -> Result<(), TablesError> {
        let text = format!(
            "CREATE TABLE sbtest{table}(id INTEGER NOT NULL AUTO_INCREMENT, k INTEGER DEFAULT '0' \
             NOT NULL, c CHAR(120) DEFAULT '' NOT NULL, pad CHAR(60) DEFAULT '' NOT NULL, PRIMARY \
             KEY (id)) ENGINE=innodb"
        );
        match self.run(&text).await {
            Err(TablesError::Refused { code: TABLE_EXISTS, .. }) => {
                Err(TablesError::Exists(format!("sbtest{table}")))
            }
            other => other,
        }
    }

    /// Counts sbtest1, sbtest2… up to the first that is missing.
    async fn count_tables(&mut self) -> Result<u32, TablesError> {
        let names = self.column("SHOW TABLES LIKE 'sbtest%'").await?;
        let missing = (1..=u32::MAX).find(|number| !names.contains(&format!("sbtest{number}")));
        Ok(missing.map_or(0, |missing| missing - 1))
    }

    async fn see_layout(&mut self, table: u32) -> Result<(), TablesError> {
        let text = format!("SELECT id, k, c, pad FROM sbtest{table} LIMIT 1");
        match self.run(&text).await {
            Err(TablesError::Refused { message, .. }) => {
                Err(TablesError::Layout { table: format!("sbtest{table}"), message })
            }
            other => other,
        }
    }

    async fn run(&mut self, text: &str) -> Result<(), TablesError> {
        let answer = self.connection.query(&self.buffers, text, |_| {}).await?;
        see(answer, text)
    }

    /// The values of a result of one column.
    async fn column(&mut self, text: &str) -> Result<Vec<String>, TablesError> {
        let mut bytes = Vec::new();
        let keep = |piece: &[u8]| bytes.extend_from_slice(piece);
        let answer = self.connection.query(&self.buffers, text, keep).await?;
        see(answer, text)?;
        Ok(values(&bytes))
    }
}

fn see(answer: Answer, text: &str) -> Result<(), TablesError> {
    let Answer::Refused { code, message } = answer else { return Ok(()) };
    let statement = text.chars().take(SHOWN_MAX).collect();
    Err(TablesError::Refused { statement, code, message })
}

/// The rows of a whole reply of one column: behind the count and the column's definition, each is a
/// packet with one string, until one that ends them.
fn values(reply: &[u8]) -> Vec<String> {
    let mut values = Vec::new();
    let mut rest = reply;
    let mut number = 0;
    while let Some((header, payload)) = wire::frame::first_packet(rest) {
        rest = &rest[wire::frame::HEADER + header.len..];
        number += 1;
        let is_end = payload.first() == Some(&wire::response::EOF);
        if number <= 2 || is_end {
            continue;
        }
        if let Ok(value) = wire::bytes::Reader::new(payload).lenenc_bytes("value") {
            values.push(String::from_utf8_lossy(value).into_owned());
        }
    }
    values
}

/// One statement that inserts so many rows.
fn batch(table: u32, count: u32, rows: u32, random: &mut Random) -> String {
    let mut text = format!("INSERT INTO sbtest{table}(k, c, pad) VALUES");
    let mut digits = Vec::new();
    for number in 0..count {
        let k = Distribution::default().draw(random, 1, rows);
        digits.clear();
        random.put_digits(C_GROUPS, &mut digits);
        let c_end = digits.len();
        random.put_digits(PAD_GROUPS, &mut digits);
        let digits = String::from_utf8_lossy(&digits);
        let (c, pad) = digits.split_at(c_end);
        let comma = if number == 0 { "" } else { "," };
        text.push_str(&format!("{comma}({k},'{c}','{pad}')"));
    }
    text
}

/// Half a megabyte, which any server takes at once.
const BATCH: u32 = 2500;
const C_GROUPS: usize = 10;
const PAD_GROUPS: usize = 5;
/// "Table … already exists".
const TABLE_EXISTS: u16 = 1050;
const SHOWN_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_holds_its_rows_and_fits_a_packet() {
        let text = batch(3, BATCH, 100_000, &mut Random::new(1));
        assert!(text.starts_with("INSERT INTO sbtest3(k, c, pad) VALUES("), "{}", &text[..60]);
        assert_eq!(text.matches("),(").count() as u32, BATCH - 1);
        assert!(text.len() < 1 << 19, "{}", text.len());
    }

    #[test]
    fn values_are_read_off_a_reply() {
        let reply = b"\x01\0\0\x01\x01\x02\0\0\x02de\x08\0\0\x03\x07sbtest1\x08\0\0\x04\x07sbtest2\
                      \x07\0\0\x05\xfe\0\0\x02\0\0\0";
        assert_eq!(values(reply), ["sbtest1", "sbtest2"]);
        assert!(values(&reply[..9]).is_empty());
    }
}
