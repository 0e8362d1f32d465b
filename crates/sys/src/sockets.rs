//! Which process of this machine listens on a port.
//!
//! Reads `/proc`. Sees processes of other users only with root's rights.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// The process that listens on a TCP port, over either version of IP, of those whose name will do: of others, which may
/// have ten thousand files open, the files are not looked at.
pub fn listener(port: u16, will_do: impl Fn(&str) -> bool) -> Option<u32> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(fs::File::open);
    let sockets: Vec<String> = tables
        .into_iter()
        .flatten()
        .flat_map(|table| listening(BufReader::new(table), port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    if sockets.is_empty() {
        return None;
    }
    let mut pids = crate::account::pids().ok()?;
    // Of a parent and its children, the one that was first.
    pids.sort_unstable();
    pids.into_iter().find(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm"));
        name.is_ok_and(|name| will_do(name.trim_end()))
            && holds_one(Path::new(&format!("/proc/{pid}/fd")), &sockets)
    })
}

/// The inodes of the sockets that listen on a port, from the kernel's table. Those that listen come first in it, so
/// the others, of which there may be many, are not read.
fn listening(table: impl BufRead, port: u16) -> Vec<u64> {
    let inode = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let (_, local) = fields.get(1)?.rsplit_once(':')?;
        let is_it = u16::from_str_radix(local, 16) == Ok(port);
        if is_it { fields.get(9)?.parse().ok() } else { None }
    };
    let listens = |line: &String| line.split_ascii_whitespace().nth(3) == Some(LISTEN);
    let lines = table.lines().map_while(Result::ok).skip(1).take_while(listens);
    lines.filter_map(|line| inode(&line)).collect()
}

fn holds_one(descriptors: &Path, sockets: &[String]) -> bool {
    let Ok(entries) = fs::read_dir(descriptors) else { return false };
    entries.flatten().filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| {
        target.to_str().is_some_and(|target| sockets.iter().any(|socket| socket == target))
    })
}

/// The kernel's number of the state.
const LISTEN: &str = "0A";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("has one").port();
        assert_eq!(super::listener(port, |_| true), Some(std::process::id()));
        assert_eq!(super::listener(port, |name| name == "somebody else"), None);
        drop(listener);
        assert_eq!(super::listener(port, |_| true), None);
    }

    #[test]
    fn only_sockets_that_listen_count() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n\
            0: 0100007F:1791 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 77 1\n\
            1: 0100007F:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 79 1\n\
            2: 0100007F:1791 0100007F:C001 01 00000000:00000000 00:00000000 00000000 0 0 78 1\n\
            3: nonsense\n";
        assert_eq!(listening(table.as_bytes(), 6033), [77]);
        assert_eq!(listening(table.as_bytes(), 80), [79]);
        assert_eq!(listening(table.as_bytes(), 443), Vec::<u64>::new());
    }
}
