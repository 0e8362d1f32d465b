//! A Flifo that shares reads, for the programs of a crowd.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::differ::campaign::Between;
use crate::differ::peer::Door;
use crate::differ::site::Server;
use crate::flifo::Flifo;

/// What the Flifos of a series have counted.
#[derive(Debug, Default)]
pub struct Shared {
    /// Statements that were to get the reply to another client's run.
    pub joined: AtomicU64,
    /// Those that got it.
    pub spared: AtomicU64,
}

pub struct ThroughSharing {
    program: PathBuf,
    shared: Arc<Shared>,
    running: Option<Flifo>,
}

impl ThroughSharing {
    pub const fn of(program: PathBuf, shared: Arc<Shared>) -> Self {
        Self { program, shared, running: None }
    }

    fn end(&mut self) {
        let Some(flifo) = self.running.take() else { return };
        let (status, log) = flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
        self.shared.joined.fetch_add(counted(&log, "share_joined"), Relaxed);
        self.shared.spared.fetch_add(counted(&log, "share_spared"), Relaxed);
    }
}

impl Between for ThroughSharing {
    fn door(&mut self, server: &Server, backends: u32) -> Door {
        // The one before is gone before the next one logs in.
        self.end();
        // A view that cannot be read would have its client keep a backend, which others of the crowd may lack for ever.
        let (options, reader) = server.reader();
        let options = format!("share_reads = \"on\"\n{options}");
        let flifo = server.flifo_with(&self.program, backends, &options, &reader);
        server.door_of(self.running.insert(flifo))
    }
}

impl Drop for ThroughSharing {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}

/// What all workers have counted of this, by the log of a Flifo that has ended.
pub fn counted(log: &str, name: &str) -> u64 {
    let words = log.split([' ', '"', ',']).filter_map(|word| word.split_once('='));
    words.filter(|(word, _)| *word == name).filter_map(|(_, count)| count.parse::<u64>().ok()).sum()
}
