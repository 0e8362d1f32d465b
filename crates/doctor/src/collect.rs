//! Reads the facts: the machine and its processes from a tree, the server by asking it.
//!
//! Judges nothing and changes nothing. Invariants: whatever fails is told as unknown or refused and
//! keeps nothing else from being read; only the allocators' variables of an environment are kept.

use std::collections::BTreeMap;

use sys::details::{self, Status};
use sys::kernel;
use sys::tree::{Seen, Tree};
use sys::{cgroup, network, peers, power, scheduling, threads, topology};

use crate::facts::{Client, Facts, Machine, Process, Rights};

/// Everything but the server's own word and the load.
pub(crate) fn facts(tree: &Tree, server: &Seen<u32>, proxy: Option<u32>) -> Facts {
    let mut facts = Facts { machine: machine(tree), rights: rights(tree), ..Facts::default() };
    facts.clients = server.and_then(|pid| clients(tree, *pid, proxy));
    facts.server.process = server.and_then(|pid| Seen::Known(process(tree, *pid)));
    facts
}

fn machine(tree: &Tree) -> Machine {
    let settings = SETTINGS.iter().map(|name| ((*name).to_owned(), kernel::setting(tree, name)));
    let slice = if tree.is_live() {
        scheduling::slice(std::process::id()).map(|it| it.as_micros() as u64)
    } else {
        Seen::Unknown("not recorded".to_owned())
    };
    Machine {
        release: kernel::setting(tree, "kernel.osrelease"),
        version: kernel::version(tree),
        preemption: kernel::preemption(tree),
        surroundings: kernel::surroundings(tree),
        cpus: topology::cpus(tree),
        frequencies: power::frequencies(tree),
        idle_states: power::idle_states(tree),
        slice,
        memory_kib: kernel::memory_kib(tree, "MemTotal"),
        huge_pages: kernel::memory_kib(tree, "HugePages_Total"),
        transparent_huge_pages: kernel::chosen(tree, HUGE_PAGES),
        sched_ext: sched_ext(tree),
        cpu_pressure: kernel::pressure(tree, "cpu"),
        memory_pressure: kernel::pressure(tree, "memory"),
        interrupts: network::interrupts(tree),
        listen_overflows: network::tcp_counter(tree, "ListenOverflows"),
        time_wait: Seen::default(),
        settings: settings.collect(),
    }
}

/// A kernel that shows its scheduling but has no such folder has no such schedulers.
fn sched_ext(tree: &Tree) -> Seen<String> {
    let state = tree.line("/sys/kernel/sched_ext/state");
    match state {
        Seen::Unknown(_) if tree.exists("/sys/kernel/mm") => Seen::Known("absent".to_owned()),
        state => state,
    }
}

fn rights(tree: &Tree) -> Rights {
    let status: Seen<Status> = details::status(tree, std::process::id());
    let io_uring = if tree.is_live() {
        sys::io_uring::attempt().map(|()| "permitted".to_owned())
    } else {
        Seen::Unknown("not recorded".to_owned())
    };
    Rights { status, io_uring }
}

fn process(tree: &Tree, pid: u32) -> Process {
    Process {
        pid,
        line: threads::line(tree, pid),
        status: details::status(tree, pid),
        threads: threads::threads(tree, pid),
        autogroup: details::autogroup(tree, pid),
        cgroup: cgroup::cgroup(tree, pid),
        open_files: details::open_files(tree, pid),
        open_files_limit: details::open_files_limit(tree, pid),
        allocator_settings: details::environment(tree, pid, is_allocators),
        allocator: details::mapped_files(tree, pid).parse("the libraries", |it| allocator(it)),
    }
}

fn is_allocators(name: &str) -> bool {
    name.starts_with("MALLOC_")
        || name.starts_with("MIMALLOC_")
        || name.starts_with("TCMALLOC_")
        || ["GLIBC_TUNABLES", "LD_PRELOAD", "_RJEM_MALLOC_CONF"].contains(&name)
}

/// By the name of a library. One that is built into the program shows as glibc.
fn allocator(files: &[String]) -> Option<String> {
    let known = ["jemalloc", "tcmalloc", "mimalloc", "snmalloc"];
    let is = |name: &&&str| files.iter().any(|file| file.contains(**name));
    let libc = || files.iter().any(|it| it.contains("/libc.so") || it.contains("/libc-2"));
    match known.iter().find(is) {
        Some(name) => Some((*name).to_owned()),
        None if files.iter().any(|file| file.contains("ld-musl")) => Some("musl".to_owned()),
        None => libc().then(|| "glibc".to_owned()),
    }
}

/// Adds clients that came later, and connections that came to those that are known.
pub(crate) fn more_clients(
    tree: &Tree,
    server: &Seen<u32>,
    proxy: Option<u32>,
    known: &mut Seen<Vec<Client>>,
) {
    let now = server.and_then(|pid| clients(tree, *pid, proxy));
    let (Seen::Known(known), Seen::Known(now)) = (known, now) else { return };
    for client in now {
        match known.iter_mut().find(|it| it.process.pid == client.process.pid) {
            Some(it) => {
                it.unix = it.unix.max(client.unix);
                it.tcp = it.tcp.max(client.tcp);
            }
            None => known.push(Client { is_proxy: false, ..client }),
        }
    }
}

fn clients(tree: &Tree, server: u32, proxy: Option<u32>) -> Seen<Vec<Client>> {
    let me = std::process::id();
    peers::clients(tree, server).map(|all| {
        let others = all.into_iter().filter(|(pid, _)| *pid != me);
        let mut clients: Vec<Client> = others
            .map(|(pid, count)| {
                let process = process(tree, pid);
                let is_proxy = match proxy {
                    Some(proxy) => proxy == pid,
                    None => PROXIES.contains(&process.name()),
                };
                Client { process, unix: count.unix, tcp: count.tcp, is_proxy }
            })
            .collect();
        // Of several proxies the one with most connections is judged.
        let most = clients.iter().filter(|it| it.is_proxy).max_by_key(|it| it.unix + it.tcp);
        let most = most.map(|it| it.process.pid);
        for client in &mut clients {
            client.is_proxy = Some(client.process.pid) == most;
        }
        clients
    })
}

/// Reads how many closed connections to the server's port still hold ports.
pub(crate) fn time_wait(tree: &Tree, port: u16) -> Seen<u64> {
    network::tcp(tree).map(|table| table.time_wait.get(&port).map_or(0, |count| *count as u64))
}

/// The values of the counters that are numbers.
pub(crate) fn numbers(status: &BTreeMap<String, String>) -> BTreeMap<String, f64> {
    let numbers =
        status.iter().filter_map(|(name, text)| Some((name.clone(), text.parse::<f64>().ok()?)));
    numbers.collect()
}

pub(crate) const HUGE_PAGES: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Programs that stand between clients and a server, by the names of their processes.
const PROXIES: &[&str] = &[
    "flifo",
    "haproxy",
    "proxysql",
    "maxscale",
    "mysqlrouter",
    "mysql-proxy",
    "nginx",
    "envoy",
    "traefik",
];

const SETTINGS: &[&str] = &[
    "fs.nr_open",
    "kernel.io_uring_disabled",
    "kernel.sched_autogroup_enabled",
    "net.core.somaxconn",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_max_syn_backlog",
    "vm.swappiness",
    "kernel.numa_balancing",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocators_are_told_by_their_libraries() {
        let told = |files: &[&str]| {
            let files: Vec<String> = files.iter().map(|it| (*it).to_owned()).collect();
            allocator(&files)
        };
        assert_eq!(told(&["/usr/lib/libc.so.6"]).as_deref(), Some("glibc"));
        let both = ["/usr/lib/libc.so.6", "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"];
        assert_eq!(told(&both).as_deref(), Some("jemalloc"));
        assert_eq!(told(&["/lib/ld-musl-x86_64.so.1"]).as_deref(), Some("musl"));
        assert_eq!(told(&["/opt/static"]), None);
    }

    #[test]
    fn secrets_of_an_environment_are_not_kept() {
        for name in ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LD_PRELOAD", "MALLOC_CONF"] {
            assert!(is_allocators(name), "{name}");
        }
        assert!(!is_allocators("MYSQL_PWD") && !is_allocators("MARIADB_ROOT_PASSWORD"));
    }

    #[test]
    fn an_empty_tree_is_unknown_and_nothing_fails() {
        let folder = tempfile::tempdir().expect("makes");
        let tree = Tree::recorded(folder.path());
        let facts = facts(&tree, &Seen::Known(7), None);
        assert!(facts.machine.cpus.known().is_none() && facts.machine.sched_ext.known().is_none());
        assert!(facts.server.process.known().expect("named").threads.known().is_none());
        assert!(facts.clients.known().is_none());
    }

    #[test]
    fn this_machine_and_this_process_are_read() {
        let facts = facts(&Tree::live(), &Seen::Known(std::process::id()), None);
        let process = facts.server.process.known().expect("reads");
        assert!(process.threads.known().is_some() && process.line.known().is_some());
        assert!(facts.machine.cpus.known().is_some_and(|cpus| !cpus.is_empty()));
    }
}
