//! Unix sockets on which a server listens at this moment, as the kernel tells.
//!
//! The owner of a socket can be seen where Flifo may look into that process: its own user's, or all
//! if it is root. For other sockets their name must do.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{Reason, under};

/// Sockets that listen and belong to a server, or may.
pub(super) fn listening(root: &Path) -> Vec<(PathBuf, Reason)> {
    let Ok(text) = fs::read_to_string(under(root, Path::new("/proc/net/unix"))) else {
        return Vec::new();
    };
    let sockets: Vec<_> = text.lines().filter_map(listener).collect();
    if sockets.is_empty() {
        return Vec::new();
    }
    let owners = owners(root);
    let known = sockets.into_iter().filter_map(|(inode, path)| {
        let reason = match owners.get(&inode) {
            Some(Owner { name, pid }) if SERVERS.contains(&name.as_str()) => {
                Reason::Process { name: name.clone(), pid: *pid }
            }
            // Another program's, whatever it is called.
            Some(_) => return None,
            None if is_named_so(&path) => Reason::Named,
            None => return None,
        };
        // The X protocol is another one.
        (!file_name(&path).contains("mysqlx")).then_some((path, reason))
    });
    let mut known: Vec<_> = known.collect();
    known.sort_by(|(one, _), (other, _)| one.cmp(other));
    known
}

/// The inode and path of a stream socket that listens, from a line of `/proc/net/unix`:
/// `Num RefCount Protocol Flags Type St Inode Path`.
fn listener(line: &str) -> Option<(u64, PathBuf)> {
    let mut rest = line;
    let mut next = || {
        let (word, tail) = rest.trim_start().split_once(' ')?;
        rest = tail;
        Some(word)
    };
    let (_number, _references, _protocol) = (next()?, next()?, next()?);
    let flags = u32::from_str_radix(next()?, 16).ok()?;
    let kind = next()?;
    let _state = next()?;
    let inode = next()?.parse().ok()?;
    let is_listening = flags & ACCEPTS != 0 && kind == STREAM;
    // What does not begin so is no file: it has no name, or an abstract one.
    (is_listening && rest.starts_with('/')).then(|| (inode, PathBuf::from(rest)))
}

struct Owner {
    name: String,
    pid: u32,
}

/// Which process holds which socket, as far as that may be seen.
fn owners(root: &Path) -> HashMap<u64, Owner> {
    let mut owners = HashMap::new();
    let processes = under(root, Path::new("/proc"));
    for entry in fs::read_dir(&processes).into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let Ok(name) = fs::read_to_string(entry.path().join("comm")) else { continue };
        for descriptor in fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten() {
            let Ok(target) = fs::read_link(descriptor.path()) else { continue };
            let Some(inode) = target.to_str().and_then(socket_inode) else { continue };
            owners.insert(inode, Owner { name: name.trim().to_owned(), pid });
        }
    }
    owners
}

/// The inode in "socket:[12345]".
fn socket_inode(target: &str) -> Option<u64> {
    target.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
}

fn is_named_so(path: &Path) -> bool {
    let name = file_name(path);
    name.contains("mysql") || name.contains("mariadb")
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().to_lowercase()
}

/// The names of servers' processes.
const SERVERS: [&str; 2] = ["mariadbd", "mysqld"];
/// `__SO_ACCEPTCON`
const ACCEPTS: u32 = 0x1_0000;
/// `SOCK_STREAM`
const STREAM: &str = "0001";
