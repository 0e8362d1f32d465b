//! The data to be moved: a database of many kinds of values, and a text file of 100 MB.
//!
//! Does not move it. Invariant: what is made here never changes, so that its checksums hold.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::progress::Progress;

pub(super) struct Source {
    /// Checksums of [`TABLES`] in [`DATABASE`].
    pub(super) sums: Vec<String>,
    /// The rows of [`FILE_TABLE`], as LOAD DATA reads them, and the table's checksum.
    pub(super) file: PathBuf,
    pub(super) file_sum: String,
    /// About how many bytes a dump has.
    pub(super) dump_bytes: u64,
}

pub(super) const DATABASE: &str = "bulk_source";
pub(super) const TABLES: [&str; 4] = ["words", "blobs", "numbers", "large"];
pub(super) const FILE_TABLE: &str = "bulk_source_file.lines";

impl Source {
    /// Makes a database of about `size` bytes, and the file.
    pub(super) fn make(server: &PrivateServer, size: u64, interrupt: &Interrupt) -> Result<Self> {
        server.sql(DATABASES)?;
        server.sql(DEFINITIONS)?;
        let portions = size.div_ceil(PORTION_BYTES);
        let mut progress = Progress::begin("making the data", portions + 1);
        for portion in 0..portions {
            interrupt.check()?;
            server.sql(&fill(portion))?;
            progress.set(portion + 1);
        }
        let file = server.folder().join("lines.txt");
        server.sql(&fill_file(&file.display().to_string()))?;
        interrupt.check()?;
        let sums = checksums(server, &TABLES.map(|table| format!("{DATABASE}.{table}")))?;
        let file_sum = checksums(server, &[FILE_TABLE.to_owned()])?.concat();
        let size = file.metadata().context("the server has written no file")?.len();
        ensure!(FILE_BYTES_MIN <= size, "the file has {size} bytes only");
        Ok(Self { sums, file, file_sum, dump_bytes: portions * PORTION_BYTES })
    }
}

/// The checksums of tables, in their order. A table that is empty or absent is an error.
pub(super) fn checksums(server: &PrivateServer, tables: &[String]) -> Result<Vec<String>> {
    let answer = server.sql(&format!("CHECKSUM TABLE {}", tables.join(", ")))?;
    let sums: Vec<String> =
        answer.lines().filter_map(|line| Some(line.split_once('\t')?.1.to_owned())).collect();
    let empty = sums.iter().any(|sum| matches!(sum.as_str(), "0" | "NULL"));
    ensure!(sums.len() == tables.len() && !empty, "a table is empty or absent: {answer}");
    Ok(sums)
}

/// One more portion of rows in every table.
fn fill(portion: u64) -> String {
    let rows = |count: u64| format!("seq_{}_to_{}", portion * count + 1, (portion + 1) * count);
    FILL.replace("MANY", &rows(NUMBERS))
        .replace("SOME", &rows(WORDS))
        .replace("FEW", &rows(BLOBS))
        .replace("ONE", &rows(1))
}

fn fill_file(path: &str) -> String {
    FILL_FILE.replace("PATH_HERE", path)
}

const DATABASES: &str = "\
CREATE DATABASE bulk_source CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
CREATE DATABASE bulk_source_file CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
";

const DEFINITIONS: &str = "\
CREATE TABLE bulk_source.words (
  id BIGINT UNSIGNED NOT NULL PRIMARY KEY,
  title VARCHAR(200) NULL,
  body MEDIUMTEXT NOT NULL,
  kind ENUM('plain', 'straße', '雪') NULL,
  made DATETIME(6) NULL,
  KEY (made)
);
CREATE TABLE bulk_source.blobs (
  id INT NOT NULL PRIMARY KEY,
  digest BINARY(20) NULL,
  content LONGBLOB NULL
);
CREATE TABLE bulk_source.numbers (
  id INT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  amount DECIMAL(38, 10) NULL,
  ratio DOUBLE NULL,
  big BIGINT UNSIGNED NULL,
  bits BIT(9) NULL,
  born DATE NULL,
  took TIME(3) NULL,
  seen TIMESTAMP NULL,
  season YEAR NULL,
  colours SET('red', 'green', 'blue') NULL,
  word VARCHAR(60) CHARACTER SET latin1 NULL,
  KEY (big)
);
CREATE TABLE bulk_source.large (id INT NOT NULL PRIMARY KEY, content LONGBLOB NOT NULL);
CREATE TABLE bulk_source_file.lines (
  id INT NOT NULL PRIMARY KEY,
  name VARCHAR(100) NULL,
  body TEXT NOT NULL,
  amount DECIMAL(20, 4) NULL
);
";

/// Random, so that nothing on the way can make it smaller; with the bytes that have to be escaped.
/// No FLOAT: a dump writes fewer digits of one than it has.
const FILL: &str = "\
SET NAMES utf8mb4;
SET @special = CHAR(0, 8, 9, 10, 13, 26, 34, 37, 39, 92, 95 USING utf8mb4);
INSERT INTO bulk_source.words SELECT seq, \
  IF(seq % 7, CONCAT('žluťoučký 雪 🎉 ', @special, HEX(RANDOM_BYTES(30))), NULL), \
  CONCAT(TO_BASE64(RANDOM_BYTES(1000)), 'ß', @special, TO_BASE64(RANDOM_BYTES(seq % 1000 + 1))), \
  NULLIF(seq % 4, 0), \
  IF(seq % 5, '1970-01-01' + INTERVAL RAND() * 1e15 MICROSECOND, NULL) \
  FROM SOME;
INSERT INTO bulk_source.blobs SELECT seq, \
  IF(seq % 3, RANDOM_BYTES(20), NULL), \
  CASE WHEN seq % 11 = 0 THEN NULL WHEN seq % 13 = 0 THEN '' ELSE \
  CONCAT(RANDOM_BYTES(1024), RANDOM_BYTES(1024), RANDOM_BYTES(1024), RANDOM_BYTES(1024), \
  RANDOM_BYTES(1024), RANDOM_BYTES(1024), RANDOM_BYTES(1024), RANDOM_BYTES(seq % 1024 + 1)) END \
  FROM FEW;
INSERT INTO bulk_source.numbers SELECT seq, \
  IF(seq % 9, (RAND() - 0.5) * 1e20, NULL), \
  IF(seq % 8, (RAND() - 0.5) * POW(10, seq % 300), NULL), \
  IF(seq % 7, 18446744073709551615 - seq, NULL), \
  IF(seq % 6, seq % 512, NULL), \
  ELT(seq % 4, '0000-00-00', '9999-12-31', '1582-10-15'), \
  IF(seq % 5, SEC_TO_TIME((RAND() - 0.5) * 6e6), NULL), \
  IF(seq % 5, FROM_UNIXTIME(1 + RAND() * 2e9), NULL), \
  IF(seq % 4, 1901 + seq % 250, NULL), \
  IF(seq % 10, seq % 8, NULL), \
  IF(seq % 3, CONCAT('café ', HEX(RANDOM_BYTES(25))), NULL) \
  FROM MANY;
INSERT INTO bulk_source.large SELECT seq, REPEAT(RANDOM_BYTES(1024), 3000 + seq % 100) FROM ONE;
";

const FILL_FILE: &str = "\
SET NAMES utf8mb4;
SET @special = CHAR(0, 8, 9, 10, 13, 26, 34, 37, 39, 92, 95 USING utf8mb4);
INSERT INTO bulk_source_file.lines SELECT seq, \
  IF(seq % 7, CONCAT('雪 🎉 ', @special, seq), NULL), TO_BASE64(RANDOM_BYTES(700)), \
  IF(seq % 3, seq / 7, NULL) \
  FROM seq_1_to_100000;
SELECT * INTO OUTFILE 'PATH_HERE' CHARACTER SET utf8mb4 FROM bulk_source_file.lines;
";

const WORDS: u64 = 2500;
const BLOBS: u64 = 900;
const NUMBERS: u64 = 9000;
/// About what one call of [`fill`] adds.
const PORTION_BYTES: u64 = 16 << 20;
const FILE_BYTES_MIN: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_follow_one_another() {
        assert!(
            fill(0).contains("FROM seq_1_to_2500;") && fill(1).contains("FROM seq_2501_to_5000;")
        );
        assert!(fill(3).contains("FROM seq_4_to_4;"));
    }
}
