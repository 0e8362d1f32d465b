//! A temporary folder that is removed with its owner: at once, or at the next start if the owner was killed.
//!
//! Does not know what is put into it. Invariants: the path is short, since the path of a Unix socket may have
//! 107 bytes only; only its user can read it; another process never removes a folder whose owner is alive.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

pub struct Folder {
    dir: TempDir,
    /// Holds the lock by which others see that the folder is owned. It ends with the process.
    _owner: File,
}

impl Folder {
    /// Makes a new folder, and removes those whose owners were killed.
    pub fn create() -> Result<Self> {
        let place = place();
        sweep(&place);
        Self::create_in(&place)
    }

    /// Makes a new folder in memory where the machine has room for it there, and elsewhere if not.
    pub fn create_in_memory() -> Result<Self> {
        let memory = Path::new(MEMORY);
        let has_room = rustix::fs::statvfs(memory)
            .is_ok_and(|it| MEMORY_MIN <= it.f_bavail.saturating_mul(it.f_frsize));
        if has_room {
            sweep(memory);
            if let Ok(folder) = Self::create_in(memory) {
                return Ok(folder);
            }
        }
        Self::create()
    }

    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Lets the folder stay for good when this value is dropped, and tells where it is.
    pub fn keep(&mut self) -> &Path {
        self.dir.disable_cleanup(true);
        // Without its mark of ownership no sweep will touch it.
        let _ = fs::remove_file(self.dir.path().join(OWNER));
        self.dir.path()
    }

    fn create_in(place: &Path) -> Result<Self> {
        let dir = tempfile::Builder::new()
            .prefix(PREFIX)
            .tempdir_in(place)
            .with_context(|| format!("cannot make a temporary folder in {}", place.display()))?;
        // The mark appears under its name only when it is locked, so no sweep can see it unlocked.
        let unready = dir.path().join("owner.new");
        let owner = File::create(&unready)?;
        owner.lock().context("cannot lock the temporary folder")?;
        fs::rename(&unready, dir.path().join(OWNER))?;
        Ok(Self { dir, _owner: owner })
    }
}

/// The usual place for temporary files, unless its name is too long for sockets below it.
fn place() -> PathBuf {
    let usual = std::env::temp_dir();
    if usual.as_os_str().len() <= PLACE_MAX { usual } else { PathBuf::from("/tmp") }
}

/// Removes the folders of owners that are gone. What cannot be removed is left: it is only litter.
fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if ours && is_orphan(&entry.path()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_orphan(folder: &Path) -> bool {
    let Ok(me) = fs::metadata("/proc/self").map(|me| me.uid()) else { return false };
    // Symbolic links are not followed: in a shared place, another user may have made them.
    let mine = |path: &Path| fs::symlink_metadata(path).is_ok_and(|m| m.uid() == me);
    let mark = folder.join(OWNER);
    mine(folder) && mine(&mark) && File::open(mark).is_ok_and(|mark| mark.try_lock().is_ok())
}

const PREFIX: &str = "flifo-";
const OWNER: &str = "owner.lock";
/// The folder in which Linux lets every user keep files in memory.
const MEMORY: &str = "/dev/shm";
/// Bytes below which a place is too small for a server and what its users may do.
const MEMORY_MIN: u64 = 2 << 30;
/// Of 107 bytes, 27 are for the folder's name and the longest socket name in it.
const PLACE_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sweep_spares_the_living_and_takes_the_orphans() {
        let place = tempfile::tempdir().expect("makes");
        let living = Folder::create_in(place.path()).expect("makes");
        let kept = Folder::create_in(place.path()).expect("makes").keep().to_owned();
        let orphan = place.path().join("flifo-orphan");
        fs::create_dir(&orphan).expect("makes");
        File::create(orphan.join(OWNER)).expect("makes");
        let foreign = place.path().join("other");
        fs::create_dir(&foreign).expect("makes");
        File::create(foreign.join(OWNER)).expect("makes");

        sweep(place.path());
        assert!(living.path().exists() && kept.exists() && foreign.exists());
        assert!(!orphan.exists());
    }

    #[test]
    fn a_dropped_folder_is_gone() {
        for folder in [Folder::create(), Folder::create_in_memory()] {
            let folder = folder.expect("makes");
            let path = folder.path().to_owned();
            fs::write(path.join("file"), "x").expect("writes");
            drop(folder);
            assert!(!path.exists());
        }
    }
}
