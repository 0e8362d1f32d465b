//! Takes back what a set-up has done.
//!
//! Invariants: what was about to be done and was not is no failure; what is not as the set-up left it (another account,
//! another process of the same number, a file in the place of a socket) is left alone.

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use proxy::Address;
use sys::identity::Ended;

use crate::act::{replace, run};
use crate::facts::{Follows, SYSTEMD};
use crate::journal::{Deed, Journal};
use crate::server::{self, Administrator};
use crate::steps::{UNLOGGED, drop_account};
use crate::{InitError, Layout, NAME, read_password};

/// What was taken back, and what could not be.
#[derive(Debug, Default)]
pub struct Undone {
    pub done: Vec<String>,
    pub failed: Vec<String>,
}

/// Takes back what a set-up has done, the last first. What cannot be taken back stays in the journal.
pub fn undo(layout: &Layout) -> Result<Undone, InitError> {
    let mut journal = Journal::read(layout)?;
    let all = std::mem::take(&mut journal.deeds);
    let (mut undone, mut left) = (Undone::default(), Vec::new());
    for (at, deed) in all.iter().enumerate().rev() {
        if matches!(deed, Deed::Folder(path) if *path == layout.folder) {
            // It would be in the way.
            journal.remove();
        }
        let is_account = |deed: &Deed| matches!(deed, Deed::Account | Deed::AccountHere);
        if *deed == Deed::File(layout.password()) && left.iter().any(is_account) {
            // The next attempt knows the account by it.
            left.push(deed.clone());
            continue;
        }
        match undo_one(layout, &journal.server, deed) {
            Ok(what) => undone.done.extend(what),
            Err(why) => {
                undone.failed.push(why);
                left.push(deed.clone());
            }
        }
        journal.deeds = all[..at].iter().chain(left.iter().rev()).cloned().collect();
        journal.write_if_can()?;
    }
    Ok(undone)
}

/// Whether the program that a set-up has started has ended.
pub(crate) fn has_ended(layout: &Layout) -> Result<bool, InitError> {
    let journal = Journal::read(layout)?;
    Ok(journal.deeds.iter().any(|deed| match deed {
        // What the kernel does not tell is waited for.
        Deed::Process(process) => process.has_ended().unwrap_or(false),
        _ => false,
    }))
}

fn undo_one(layout: &Layout, server: &str, deed: &Deed) -> Result<Option<String>, String> {
    Ok(Some(match deed {
        Deed::Account => return undo_account(layout, server, Logged::Yes),
        Deed::AccountHere => return undo_account(layout, server, Logged::No),
        Deed::SystemUser(name) if sys::process::numbers_of(name).is_none() => return Ok(None),
        Deed::SystemUser(name) => {
            run("userdel", [name])?;
            format!("the system user {name} is removed")
        }
        Deed::Folder(path) => remove(path, std::fs::remove_dir(path))?,
        Deed::File(path) => remove(path, std::fs::remove_file(path))?,
        Deed::Replaced { path, before } => {
            let is_new = std::fs::read_to_string(path).map_or(true, |text| text != *before);
            if is_new {
                replace(path, before).map_err(|error| format!("{}: {error}", path.display()))?;
                if Path::new(SYSTEMD).is_dir() {
                    run("systemctl", ["try-restart", NAME])?;
                }
            }
            format!("{} is as the package installed it", path.display())
        }
        Deed::Socket(path) => {
            match std::fs::symlink_metadata(path) {
                Ok(found) if !found.file_type().is_socket() => {
                    return Err(format!("{} is not a socket, and is left", path.display()));
                }
                // Flifo removes it itself when it ends.
                _ => remove(path, std::fs::remove_file(path))?,
            };
            return Ok(None);
        }
        Deed::Unit(path) if !path.exists() => return Ok(None),
        Deed::Unit(path) => {
            run("systemctl", ["disable", "--now", NAME])?;
            let removed = remove(path, std::fs::remove_file(path))?;
            run("systemctl", ["daemon-reload"])?;
            removed
        }
        Deed::Service { was_enabled, was_active } => {
            if !was_active {
                run("systemctl", ["stop", NAME])?;
            }
            if !was_enabled {
                run("systemctl", ["disable", NAME])?;
            }
            return Ok(None);
        }
        Deed::Process(process) => {
            let pid = process.pid;
            match process.end(PATIENCE).map_err(|error| format!("process {pid}: {error}"))? {
                Ended::Before => format!("process {pid} had ended already"),
                Ended::Now => format!("process {pid} has ended"),
                Ended::NotYet => {
                    return Err(format!("process {pid} does not end: kill -9 {pid}"));
                }
            }
        }
    }))
}

/// Longer than `limits.stop`.
const PATIENCE: Duration = Duration::from_secs(45);

/// Whether a statement stands in the server's binary log.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Logged {
    Yes,
    No,
}

/// Drops the account, if it is the one that was made: it has the password that was written down before it.
fn undo_account(layout: &Layout, server: &str, logged: Logged) -> Result<Option<String>, String> {
    let drop = drop_account();
    let failed = |why: &dyn std::fmt::Display| format!("{drop}: {why}");
    let address: Address = server.parse().map_err(|error| failed(&error))?;
    let mut administrator = Administrator::log_in(&address).map_err(|why| failed(&why))?;
    if !administrator.has_account(NAME).map_err(|why| failed(&why))? {
        return Ok(None);
    }
    let path = layout.password();
    let password = read_password(&path)
        .map_err(|error| failed(&format_args!("{}: {error}", path.display())))?;
    match server::has_password(&address, &password) {
        Ok(true) => {}
        Ok(false) => {
            let why = format!("its password is not that of {}", path.display());
            return Err(failed(&why));
        }
        Err(why) => return Err(failed(&why)),
    }
    match logged {
        Logged::No => administrator.run(UNLOGGED).map_err(|why| failed(&why))?,
        Logged::Yes => {
            if let Follows::Primary(primary) = administrator.follows() {
                let why = format!("this server is a replica of {primary} by now: run it there");
                return Err(failed(&why));
            }
        }
    }
    administrator.run(&drop).map_err(|why| failed(&why))?;
    Ok(Some("the account at the server is dropped".to_owned()))
}

fn remove(path: &Path, removed: io::Result<()>) -> Result<String, String> {
    match removed {
        Ok(()) => Ok(format!("{} is removed", path.display())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok(format!("{} was gone already", path.display()))
        }
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}
