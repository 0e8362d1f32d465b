//! Many different reads under a rule that says `cache`, and a few that come again and again, in little memory: whether
//! replies that are kept stay in `server.cache_memory`, and those that come again stay.
//!
//! Owns the clients and the count. Every key is asked for once, so whatever is given of what was kept is of a hot key.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use backend::Address;
use bench::private_server::PrivateServer;

use crate::client::Client;
use crate::flifo::Flifo;

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    pub keys: u64,
    pub clients: u64,
    /// `server.cache_memory`.
    pub memory: u64,
}

/// What came of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// The most that replies took, of all looks.
    pub bytes_max: u64,
    /// Replies that were kept at the end, and that had been.
    pub entries: u64,
    pub fills: u64,
    pub hot_reads: u64,
    /// Hot reads that got a reply which was kept.
    pub hits: u64,
    /// Of the process: before the first key, behind a tenth of them, and behind all.
    pub memory: [u64; 3],
}

impl Outcome {
    /// Whether memory stayed in its bound, was needed, and hot keys stayed in it.
    pub fn is_good(&self, extent: Extent) -> bool {
        self.bytes_max <= extent.memory
            && extent.memory / 2 <= self.bytes_max
            && extent.keys / 2 <= self.fills
            && self.entries <= extent.memory / 512
            && self.hot_reads * 9 <= self.hits * 10
    }
}

/// Keys that come again, of each client one.
const HOT: u64 = 4;

/// A hot key is asked for each time behind so many others.
const EACH: u64 = 20;

/// Each key has a text of its own; some have the same row.
const ROWS: u64 = 100_000;

const USER: &str = "many";

const WORKERS: u32 = 2;

struct Stand {
    extent: Extent,
    address: Address,
    done: AtomicU64,
}

/// Does all of it.
///
/// # Panics
/// If a program does not start, or a statement fails.
pub fn run(program: &Path, extent: Extent) -> Outcome {
    let server = PrivateServer::builder().in_memory().start().expect("a private server");
    let definitions = format!(
        "CREATE USER {USER}@'%' IDENTIFIED BY 'many'; GRANT ALL ON *.* TO {USER}@'%'; CREATE DATABASE {USER}; USE {USER}; \
         CREATE TABLE k (id BIGINT PRIMARY KEY, v VARCHAR(100)) ENGINE=InnoDB; \
         INSERT INTO k SELECT seq, REPEAT('v', seq % 100) FROM seq_1_to_{ROWS}"
    );
    server.sql(&definitions).expect("a table");
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("console.sock");
    let flifo = Flifo::start_program(
        program,
        &format!(
            "workers = {WORKERS}\n[server]\naddress = {:?}\ncache_memory = \"{}KiB\"\n\
             [console]\nlisten = [{socket:?}]\n[http]\nlisten = []\n[[users]]\nname = \"{USER}\"\npassword = \"many\"\n\
             [[rules]]\nname = \"kept\"\ncache = \"1h\"\nmatch.kind = \"read\"\n",
            server.socket(),
            extent.memory >> 10
        ),
    );
    let address = Address::Tcp { host: "127.0.0.1".to_owned(), port: flifo.port() };
    let stand = Stand { extent, address, done: AtomicU64::default() };
    let console: Address = socket.to_str().expect("a path").parse().expect("an address");
    let mut console = Client::builder(console, "admin", "").connect().expect("a console");
    stand.warm(&mut console);
    let mut outcome = Outcome { memory: [flifo.memory(); 3], ..Outcome::default() };
    let before = [counted(&mut console, "cache_hits"), counted(&mut console, "cache_fills")];
    outcome.hot_reads = thread::scope(|scope| {
        let stand = &stand;
        let clients: Vec<_> =
            (0..extent.clients).map(|client| scope.spawn(move || stand.read(client))).collect();
        while clients.iter().any(|client| !client.is_finished()) {
            outcome.look(&mut console);
            if stand.done.load(SeqCst) < extent.keys / 10 {
                outcome.memory[1] = flifo.memory();
            }
        }
        clients.into_iter().map(|client| client.join().expect("reads")).sum()
    });
    outcome.look(&mut console);
    outcome.memory[2] = flifo.memory();
    outcome.hits = counted(&mut console, "cache_hits") - before[0];
    outcome.fills = counted(&mut console, "cache_fills") - before[1];
    outcome
}

impl Outcome {
    fn look(&mut self, console: &mut Client) {
        self.bytes_max = self.bytes_max.max(counted(console, "cache_bytes"));
        self.entries = counted(console, "cache_entries");
    }
}

/// What all workers have counted of this.
fn counted(console: &mut Client, name: &str) -> u64 {
    // Answers to the console are as old as this.
    thread::sleep(Duration::from_millis(25));
    let rows = console.query(&format!("SHOW STATS LIKE '{name}'")).expect("counters");
    rows[0][1].parse().expect("a number")
}

impl Stand {
    fn connect(&self) -> Client {
        let builder = Client::builder(self.address.clone(), USER, "many").schema(USER);
        builder.connect().expect("a login")
    }

    /// Asks until replies are kept: definitions are read then.
    fn warm(&self, console: &mut Client) {
        let mut client = self.connect();
        while counted(console, "cache_hits") == 0 {
            client.query("SELECT v FROM k WHERE id = -1").expect("no row");
        }
    }

    /// Asks for a part of the keys, each once, and for a hot one now and then. How often for that.
    fn read(&self, client: u64) -> u64 {
        let (mut connected, mut hot) = (self.connect(), 0);
        for key in (client..self.extent.keys).step_by(self.extent.clients as usize) {
            let text = format!("SELECT v, {key} FROM k WHERE id = {}", key % ROWS);
            connected.query(&text).expect("rows");
            if self.done.fetch_add(1, SeqCst).is_multiple_of(EACH) {
                let text = format!("SELECT v FROM k WHERE id = {}", 1 + client % HOT);
                connected.query(&text).expect("rows");
                hot += 1;
            }
        }
        hot
    }
}
