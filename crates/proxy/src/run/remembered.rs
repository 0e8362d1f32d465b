//! The file in which what is known of servers outlives this process (`checks.state_file`).
//!
//! Owns the file and a thread that writes it. Invariants: the file on the disk is whole at each moment; while another Flifo
//! takes over, it is that one's; a file that cannot be understood changes nothing, and is told of.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sys::state_file::{self, StateFileError};

use crate::cluster::memory::Memories;
use crate::state::shared::Shared;
use crate::worker::tasks;

/// What is on the disk.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Page {
    version: u32,
    known: Memories,
}

const VERSION: u32 = 1;

/// Of thousands of servers with long positions.
const SIZE_MAX: u64 = 64 << 20;

/// How often it is looked whether something has changed.
const LOOK: Duration = Duration::from_secs(1);

/// Goes on from what the file says, if there is one.
pub(super) fn recall(shared: &Shared) {
    let Some(path) = path(shared) else { return };
    match read(&path) {
        Ok(Some(known)) => known.recall(&shared.cluster),
        Ok(None) => {}
        Err(error) => tracing::error!(
            file = %path.display(),
            %error,
            "what was known of servers cannot be read: Flifo begins without it (checks.state_file)"
        ),
    }
}

/// Has the file written for as long as this process lives, if one is named.
pub(super) fn keep(shared: &Arc<Shared>) -> io::Result<()> {
    let Some(path) = path(shared) else { return Ok(()) };
    let shared = Arc::downgrade(shared);
    let thread = thread::Builder::new().name("servers".to_owned());
    tasks::thread(thread, move || write_on(&shared, &path)).map(drop)
}

fn path(shared: &Shared) -> Option<PathBuf> {
    shared.plan().checks.state_file.clone().filter(|_| shared.cluster.is_routed())
}

fn write_on(shared: &Weak<Shared>, path: &Path) {
    let (mut written, mut has_failed) = (None, false);
    while let Some(shared) = shared.upgrade() {
        let known = Memories::of(&shared.cluster);
        let is_ours = !shared.is_departing();
        drop(shared);
        if is_ours && written.as_ref() != Some(&known) {
            match write(path, known.clone()) {
                Ok(()) => (written, has_failed) = (Some(known), false),
                Err(error) if !has_failed => {
                    has_failed = true;
                    tracing::error!(
                        file = %path.display(),
                        %error,
                        "what is known of servers cannot be written down: a restart would not know it \
                         (checks.state_file)"
                    );
                }
                Err(_) => {}
            }
        }
        thread::sleep(LOOK);
    }
}

fn read(path: &Path) -> Result<Option<Memories>, StateFileError> {
    let Some(text) = state_file::read(path, SIZE_MAX)? else { return Ok(None) };
    let page: Page = serde_json::from_str(&text).map_err(io::Error::from)?;
    match page.version == VERSION {
        true => Ok(Some(page.known)),
        false => Err(io::Error::other(format!("it has version {}", page.version)).into()),
    }
}

fn write(path: &Path, known: Memories) -> io::Result<()> {
    let page = serde_json::to_vec(&Page { version: VERSION, known })?;
    state_file::write(path, &page, "checks.state_file")
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_no_page_is_not_believed() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("servers.json");
        assert_eq!(read(&path).expect("none is no failure"), None);
        write(&path, Memories::default()).expect("is written");
        assert_eq!(read(&path).expect("is read"), Some(Memories::default()));
        for text in ["", "{", "{\"version\":2,\"known\":[]}", "{\"version\":1}"] {
            fs::write(&path, text).expect("is written");
            assert!(read(&path).is_err(), "{text}");
        }
    }
}
