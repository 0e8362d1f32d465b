//! The machine's sockets and what befell them.
//!
//! Reads `/proc/net`, which shows the network that this process is in: a container has its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};

use serde::{Deserialize, Serialize};

use crate::tree::{Seen, Tree};

/// The kernel's table of TCP sockets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Those that are open.
    pub open: Vec<Tcp>,
    /// How many closed connections to a port still hold their ports. A machine may have a hundred
    /// thousand of these: they are counted while the table is read.
    pub time_wait: BTreeMap<u16, usize>,
}

/// An open TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tcp {
    pub local_port: u16,
    pub remote_port: u16,
    pub state: State,
    /// The other end is on this machine.
    pub is_local: bool,
    /// Of a socket that listens: how many connections wait to be accepted.
    pub queued: u64,
    pub inode: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Established,
    TimeWait,
    Listen,
    Other,
}

/// All TCP sockets over both versions of IP.
pub fn tcp(tree: &Tree) -> Seen<Table> {
    let mut table = Table::default();
    let four = read(tree, "/proc/net/tcp", &mut table);
    let six = read(tree, "/proc/net/tcp6", &mut table);
    // A machine may be without one of the versions.
    match four.or_else(|| six) {
        Seen::Known(()) => Seen::Known(table),
        other => other.map(|()| Table::default()),
    }
}

/// Adds what a file holds, line by line.
fn read(tree: &Tree, path: &str, table: &mut Table) -> Seen<()> {
    let mut add = || {
        let file = BufReader::new(File::open(tree.path(path))?);
        for line in file.lines().skip(1).take(ROWS_MAX) {
            let Some(row) = row(&line?) else { continue };
            match row.state {
                State::TimeWait => *table.time_wait.entry(row.remote_port).or_default() += 1,
                _ => table.open.push(row),
            }
        }
        Ok(())
    };
    Seen::from_io(path, add())
}

fn row(line: &str) -> Option<Tcp> {
    let fields: Vec<&str> = line.split_ascii_whitespace().collect();
    let (local, local_port) = address(fields.get(1)?)?;
    let (remote, remote_port) = address(fields.get(2)?)?;
    let (_, received) = fields.get(4)?.split_once(':')?;
    Some(Tcp {
        local_port,
        remote_port,
        state: match *fields.get(3)? {
            "01" => State::Established,
            "06" => State::TimeWait,
            "0A" => State::Listen,
            _ => State::Other,
        },
        // An address of the machine speaks to itself by the same address, or by the loopback's.
        is_local: remote == local || is_loopback(remote),
        queued: u64::from_str_radix(received, 16).ok()?,
        inode: fields.get(9)?.parse().ok()?,
    })
}

fn address(text: &str) -> Option<(&str, u16)> {
    let (address, port) = text.split_once(':')?;
    Some((address, u16::from_str_radix(port, 16).ok()?))
}

/// Addresses are shown as words in the machine's order of bytes.
fn is_loopback(address: &str) -> bool {
    match address.len() {
        8 => address.ends_with("7F"),
        _ => address == "00000000000000000000000001000000" || address.ends_with("0100007F"),
    }
}

/// A counter of the TCP protocol such as `ListenOverflows`.
pub fn tcp_counter(tree: &Tree, name: &str) -> Seen<u64> {
    let path = "/proc/net/netstat";
    tree.text(path).parse(path, |text| {
        let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt: "));
        let (names, values) = (lines.next()?, lines.next()?);
        let at = names.split(' ').position(|it| it == name)?;
        values.split(' ').nth(at)?.parse().ok()
    })
}

/// The interrupts of devices: for each its number, its name, and how often each CPU took it.
pub fn interrupts(tree: &Tree) -> Seen<Vec<Interrupt>> {
    let path = "/proc/interrupts";
    tree.text(path).parse(path, |text| {
        let mut lines = text.lines();
        let cpus: Vec<u32> = lines
            .next()?
            .split_ascii_whitespace()
            .map(|cpu| cpu.strip_prefix("CPU")?.parse().ok())
            .collect::<Option<_>>()?;
        Some(lines.filter_map(|line| interrupt(line, &cpus)).collect())
    })
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interrupt {
    pub number: u32,
    pub name: String,
    /// CPU and count.
    pub counts: Vec<(u32, u64)>,
}

fn interrupt(line: &str, cpus: &[u32]) -> Option<Interrupt> {
    let (number, rest) = line.split_once(':')?;
    let words: Vec<&str> = rest.split_ascii_whitespace().collect();
    let count = |at: usize| words.get(at)?.parse::<u64>().ok();
    let counts = cpus.iter().enumerate().map(|(at, cpu)| Some((*cpu, count(at)?)));
    Some(Interrupt {
        // Those of the CPUs themselves have names instead of numbers.
        number: number.trim().parse().ok()?,
        counts: counts.collect::<Option<_>>()?,
        name: (*words.last()?).to_owned(),
    })
}

/// More sockets than a machine has ports for a few addresses.
const ROWS_MAX: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::tests::machine;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retr\n\
        0: 0100007F:0CEA 00000000:0000 0A 00000000:00000003 00:00000000 00000000 0 0 77 1\n\
        1: 0100007F:0CEA 0100007F:C001 01 00000000:00000000 00:00000000 00000000 0 0 78 1\n\
        2: 0A00A8C0:C002 0B00A8C0:0CEA 06 00000000:00000000 00:00000000 00000000 0 0 0 1\n\
        3: nonsense\n";

    #[test]
    fn sockets_are_read_from_the_table() {
        let (_folder, tree) = machine(&[("/proc/net/tcp", TABLE)]);
        let seen = tcp(&tree);
        let table = seen.known().expect("reads");
        let [listens, near] = table.open[..] else { panic!("{table:?}") };
        assert_eq!((listens.state, listens.local_port), (State::Listen, 3306));
        assert_eq!((listens.queued, listens.inode), (3, 77));
        assert_eq!((near.state, near.is_local), (State::Established, true));
        assert_eq!(table.time_wait, BTreeMap::from([(3306, 1)]));
    }

    #[test]
    fn counters_are_found_by_name() {
        let text =
            "TcpExt: A ListenOverflows B\nTcpExt: 1 27 3\nIpExt: ListenOverflows\nIpExt: 5\n";
        let (_folder, tree) = machine(&[("/proc/net/netstat", text)]);
        assert_eq!(tcp_counter(&tree, "ListenOverflows"), Seen::Known(27));
        assert!(tcp_counter(&tree, "Nothing").known().is_none());
    }

    #[test]
    fn interrupts_of_devices_are_counted_by_cpu() {
        let text = "           CPU0       CPU2\n 24:   1   9  PCI-MSIX-0000:00:01.0  0-edge  eth0-rx\n\
                    NMI:   0   0   Non-maskable interrupts\n";
        let (_folder, tree) = machine(&[("/proc/interrupts", text)]);
        let want = Interrupt { number: 24, name: "eth0-rx".into(), counts: vec![(0, 1), (2, 9)] };
        assert_eq!(interrupts(&tree), Seen::Known(vec![want]));
    }

    #[test]
    fn this_machine_shows_a_socket_that_listens() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let port = listener.local_addr().expect("has one").port();
        let seen = tcp(&Tree::live());
        let mut all = seen.known().expect("reads").open.iter();
        assert!(all.any(|it| it.state == State::Listen && it.local_port == port));
    }
}
