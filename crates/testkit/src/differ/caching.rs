//! A Flifo that keeps replies, for programs that ask the same again and again.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

use backend::Address;
use tempfile::TempDir;

use crate::client::Client;
use crate::differ::again::WRITERS;
use crate::differ::campaign::Between;
use crate::differ::peer::{self, Door};
use crate::differ::site::Server;
use crate::flifo::Flifo;

/// Two rules: behind its time, a reply to a read of `t` is given while another one is fetched; all others are kept for
/// longer than a program runs, unless they are written.
const RULES: &str = "[[rules]]\nname = \"stale\"\ncache = { for = \"20ms\", stale = \"10s\", large = true }\n\
    match = { kind = \"read\", table = \"t\" }\n\
    [[rules]]\nname = \"kept\"\ncache = \"10s\"\nmatch.kind = \"read\"\n";

/// No client writes its table.
const WARM: &str = "SELECT id FROM dkept.warm";

/// Definitions are read within this, on a busy machine as well.
const PATIENCE: Duration = Duration::from_mins(2);

pub struct ThroughCache {
    program: PathBuf,
    /// Statements of programs that got a reply which was kept.
    hits: Arc<AtomicU64>,
    /// Writers pass Flifo too.
    sees_writes: bool,
    running: Option<Running>,
}

struct Running {
    flifo: Flifo,
    console: Client,
    /// Hits before its program began.
    before: u64,
    _folder: TempDir,
}

impl ThroughCache {
    /// `hits` counts those of all programs.
    pub const fn of(program: PathBuf, hits: Arc<AtomicU64>) -> Self {
        Self { program, hits, sees_writes: true, running: None }
    }

    /// Writes go beside it: replies that are kept are too old.
    pub const fn blind(mut self) -> Self {
        self.sees_writes = false;
        self
    }

    fn end(&mut self) {
        let Some(mut running) = self.running.take() else { return };
        let hits = hits(&mut running.console) - running.before;
        self.hits.fetch_add(hits, Relaxed);
        let (status, log) = running.flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
    }
}

impl Between for ThroughCache {
    /// Replies are kept from the first statement of the program on.
    fn door(&mut self, server: &Server, backends: u32) -> Door {
        // The one before is gone before the next one logs in.
        self.end();
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("console.sock");
        let (options, reader) = server.reader();
        let more =
            format!("{reader}[console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n{RULES}");
        let flifo = server.flifo_with(&self.program, backends, &options, &more);
        let door = server.door_of(&flifo);
        let console: Address = socket.to_str().expect("a path").parse().expect("an address");
        let mut console = Client::builder(console, "admin", "").connect().expect("a console");
        warm(&door, &mut console);
        let before = hits(&mut console);
        self.running = Some(Running { flifo, console, before, _folder: folder });
        let beside = (!self.sees_writes).then(|| (WRITERS, server.door().port));
        Door { beside, ..door }
    }
}

impl Drop for ThroughCache {
    fn drop(&mut self) {
        if !thread::panicking() {
            self.end();
        }
    }
}

/// Asks until a reply is kept.
fn warm(door: &Door, console: &mut Client) {
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: door.port };
    let client = Client::builder(address, &peer::user(0), &door.password);
    let mut client = client.plugin(door.plugin.clone()).connect().expect("a login");
    let begun = Instant::now();
    while hits(console) == 0 {
        client.query(WARM).expect("no rows");
        if begun.elapsed() > PATIENCE {
            let why = console.query("SHOW STATS LIKE 'cache%'").expect("counters");
            panic!("replies are not kept: {why:?}");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Statements that got a reply which was kept, as the console says.
fn hits(console: &mut Client) -> u64 {
    // Its answers are as old as this.
    thread::sleep(Duration::from_millis(25));
    let rows = console.query("SHOW STATS LIKE 'cache_hits'").expect("counters");
    rows.first().map_or(0, |row| row[1].parse().expect("a number"))
}
