//! The moves: a dump, its restoration, big values, a file. Each tells how much it moved how fast.
//!
//! Does not make what is moved. Invariants: a move that returns has compared what arrived with what
//! was sent, at the server itself, past the proxy; it leaves what the next one needs and no more.

use std::fs::{self, File};
use std::io::Seek;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::programs::{MARIADB, Program};
use bench::progress::Progress;

use super::source::{DATABASE, FILE_TABLE, Source, TABLES, checksums};
use crate::errand;

pub(super) struct Moved {
    pub(super) bytes: u64,
    pub(super) time: Duration,
}

pub(super) struct Mover<'a> {
    pub(super) server: &'a PrivateServer,
    pub(super) source: &'a Source,
    /// Where the way begins.
    pub(super) port: u16,
    pub(super) interrupt: &'a Interrupt,
}

impl Mover<'_> {
    /// The database becomes a file.
    pub(super) fn dump(&self) -> Result<Moved> {
        let file = File::create(self.dump_file()).context("cannot make the dump's file")?;
        let out = file.try_clone()?;
        let mut command = self.client(DUMP)?;
        command
            .args(["--max-allowed-packet=1G", "--default-character-set=utf8mb4"])
            .args(["--order-by-primary", DATABASE])
            .stdin(Stdio::null())
            .stdout(out);
        let mut progress = Progress::begin("dump", self.source.dump_bytes);
        let time = self.run("mariadb-dump", command, self.source.dump_bytes, || {
            progress.set(file.metadata().map_or(0, |meta| meta.len()));
        })?;
        Ok(Moved { bytes: file.metadata()?.len(), time })
    }

    /// The file becomes a database like the first.
    pub(super) fn restore(&self) -> Result<Moved> {
        let mut file = File::open(self.dump_file()).context("there is no dump")?;
        let bytes = file.metadata()?.len();
        self.server.sql(COPY)?;
        let mut command = self.client(MARIADB)?;
        command
            .args(["--max-allowed-packet=1G", "--binary-mode", "--batch", COPY_DATABASE])
            // Both handles have one position: what the client has read shows here.
            .stdin(file.try_clone()?)
            .stdout(Stdio::null());
        let mut progress = Progress::begin("restore", bytes);
        let time = self.run("mariadb", command, bytes, || {
            progress.set(file.stream_position().unwrap_or_default());
        })?;
        drop(progress);
        let sums = checksums(self.server, &TABLES.map(|table| format!("{COPY_DATABASE}.{table}")))?;
        ensure!(
            sums == self.source.sums,
            "the restored tables differ: {TABLES:?} have checksums {:?}, restored {sums:?}",
            self.source.sums
        );
        self.server.sql(&format!("DROP DATABASE {COPY_DATABASE}"))?;
        fs::remove_file(self.dump_file()).context("cannot remove the dump")?;
        Ok(Moved { bytes, time })
    }

    /// Values that take several packets, in each form that the protocol has.
    pub(super) fn values(&self) -> Result<Moved> {
        let script = self.server.folder().join("values.php");
        fs::write(&script, VALUES).context("cannot write the script")?;
        let said = self.server.folder().join("values.txt");
        let mut command = Command::new(PHP.find()?);
        command
            .args(["-d", "memory_limit=2G"])
            .arg(script)
            .args([&self.port.to_string(), PrivateServer::ADMIN, PrivateServer::DATABASE])
            .env("MYSQL_PWD", self.server.password())
            .stdin(Stdio::null())
            .stdout(File::create(&said).context("cannot make the script's file")?);
        let _progress = Progress::begin("values of 64 MiB", 1);
        let time = self.run("php", command, VALUES_BYTES, || {})?;
        let said = fs::read_to_string(said)?;
        let bytes = said.trim().parse().with_context(|| format!("the script said {said:?}"))?;
        Ok(Moved { bytes, time })
    }

    /// A file becomes a table.
    pub(super) fn load(&self) -> Result<Moved> {
        self.server.sql(&format!("CREATE OR REPLACE TABLE {LOADED} LIKE {FILE_TABLE}"))?;
        let load = format!(
            "LOAD DATA LOCAL INFILE '{}' INTO TABLE {LOADED} CHARACTER SET utf8mb4",
            self.source.file.display()
        );
        let mut command = self.client(MARIADB)?;
        command
            .args(["--local-infile=1", "--execute", &load])
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let _progress = Progress::begin("load data local", 1);
        let bytes = self.source.file.metadata()?.len();
        let time = self.run("mariadb", command, bytes, || {})?;
        let count = |table| self.server.sql(&format!("SELECT COUNT(*) FROM {table}"));
        let (sent, loaded) = (count(FILE_TABLE)?, count(LOADED)?);
        ensure!(sent == loaded, "{} rows arrived of {}", loaded.trim(), sent.trim());
        let sum = checksums(self.server, &[LOADED.to_owned()])?.concat();
        ensure!(
            sum == self.source.file_sum,
            "the loaded rows differ: their checksum is {sum}, not {}",
            self.source.file_sum
        );
        Ok(Moved { bytes, time })
    }

    /// Makes room for the next way.
    pub(super) fn clean_up(&self) -> Result<()> {
        self.server.sql(&format!("DROP TABLE {LOADED}")).map(drop)
    }

    /// A client of MariaDB's, on its way.
    fn client(&self, program: Program) -> Result<Command> {
        let mut command = Command::new(program.find()?);
        command
            .args(["--no-defaults", "--protocol=tcp", "--host=127.0.0.1"])
            .arg(format!("--port={}", self.port))
            .arg(format!("--user={}", PrivateServer::ADMIN))
            .env("MYSQL_PWD", self.server.password());
        Ok(command)
    }

    /// Runs a move of about so many bytes.
    fn run(
        &self,
        name: &str,
        command: Command,
        bytes: u64,
        tick: impl FnMut(),
    ) -> Result<Duration> {
        let limit = Duration::from_secs(60 + bytes / BYTES_PER_SECOND_MIN);
        errand::run(name, command, self.server.folder(), limit, self.interrupt, tick)
    }

    fn dump_file(&self) -> PathBuf {
        self.server.folder().join("dump.sql")
    }
}

const DUMP: Program = Program {
    name: "mariadb-dump",
    what: "which makes backups of databases",
    package: "mariadb-client",
};
const PHP: Program =
    Program { name: "php", what: "whose mysqli sends big values", package: "php-cli php-mysql" };

const VALUES: &str = include_str!("values.php");
const COPY_DATABASE: &str = "bulk_copy";
const COPY: &str = "\
CREATE OR REPLACE DATABASE bulk_copy CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci";
const LOADED: &str = "bulk_source_file.loaded";
/// Slower than this is a standstill.
const BYTES_PER_SECOND_MIN: u64 = 3_000_000;
/// About what the script moves.
const VALUES_BYTES: u64 = 9 * (64 << 20);
