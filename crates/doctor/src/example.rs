//! A machine in good health, as the tests of the findings change it: eight CPUs, a MariaDB, Flifo
//! in front of it, and load.

use std::collections::BTreeMap;

use sys::cgroup::{Cgroup, Throttling};
use sys::cpus::Cpus;
use sys::details::{Autogroup, Limit, Status};
use sys::kernel::{Pressure, Surroundings, Times};
use sys::network::Interrupt;
use sys::power::{Frequency, IdleState};
use sys::threads::{Line, Thread};
use sys::topology::Cpu;
use sys::tree::Seen::{self, Known};

use crate::facts::{
    Certificate, Client, Effort, Facts, Front, Load, Machine, Process, Rights, Server, ThreadEffort,
};
use crate::judgement::{Finding, Judgement, Unknown};

/// What a finding says of the healthy machine after a change.
pub(crate) fn after(finding: Finding, change: impl FnOnce(&mut Facts)) -> Judgement {
    let mut facts = healthy();
    change(&mut facts);
    finding.diagnose(&facts).judgement
}

/// Whether a finding cannot tell, after a change.
pub(crate) fn is_unknown(finding: Finding, change: impl FnOnce(&mut Facts)) -> bool {
    let mut facts = healthy();
    change(&mut facts);
    matches!((finding.judge)(&facts), Err(Unknown(_)))
}

pub(crate) fn server(facts: &mut Facts) -> &mut Process {
    let Known(process) = &mut facts.server.process else { panic!("the server is known") };
    process
}

pub(crate) fn proxy(facts: &mut Facts) -> &mut Process {
    let Known(clients) = &mut facts.clients else { panic!("the clients are known") };
    &mut clients[0].process
}

pub(crate) fn load(facts: &mut Facts) -> &mut Load {
    let Known(load) = &mut facts.load else { panic!("the load is known") };
    load
}

/// The proxy's only worker, under load.
pub(crate) fn worker(facts: &mut Facts) -> &mut ThreadEffort {
    let effort = load(facts).clients.get_mut(&PROXY).expect("the proxy is watched");
    &mut effort.threads[0]
}

/// The machine does nothing for this share of the time.
pub(crate) fn set_idle(facts: &mut Facts, share: f64) {
    let idle = (share * 8000.0) as u64;
    load(facts).times = Known(Times { busy: 8000 - idle, idle, steal: 0, cpus: 8 });
}

pub(crate) fn set_variable(facts: &mut Facts, name: &str, value: &str) {
    let Known(all) = &mut facts.server.variables else { panic!("the variables are known") };
    all.insert(name.to_owned(), value.to_owned());
}

/// A counter grew by this each second.
pub(crate) fn set_rate(facts: &mut Facts, name: &str, rate: f64) {
    let load = load(facts);
    let Known(all) = &mut load.status else { panic!("the counters are known") };
    all.insert(name.to_owned(), rate * load.seconds);
}

/// Where all threads of a process may run.
pub(crate) fn pin(process: &mut Process, cpus: &str) {
    let Known(threads) = &mut process.threads else { panic!("the threads are known") };
    for thread in threads {
        thread.cpus = cpus_of(cpus);
    }
}

pub(crate) fn cpus_of(text: &str) -> Cpus {
    text.parse().expect("a list of CPUs")
}

pub(crate) const SERVER: u32 = 100;
pub(crate) const PROXY: u32 = 200;

pub(crate) fn healthy() -> Facts {
    Facts {
        machine: machine(),
        rights: Rights {
            status: Known(Status { capabilities: u64::MAX, nested: 1, ..Status::default() }),
            io_uring: Known("permitted".to_owned()),
        },
        server: Server {
            address: "/run/mysqld/mysqld.sock".to_owned(),
            by_socket: true,
            process: Known(process(SERVER, "mariadbd", &[100, 101, 102])),
            variables: Known(texts(VARIABLES)),
            status: Known(texts(STATUS)),
            handshake_ms: Known(0.4),
            methods: Known(texts(&[("app", "mysql_native_password")])),
        },
        clients: Known(vec![Client {
            process: process(PROXY, "flifo", &[200]),
            unix: 16,
            tcp: 0,
            is_proxy: true,
        }]),
        load: Known(busy()),
        front: Known(Front {
            open: vec!["0.0.0.0:6033".to_owned()],
            certificate: Certificate::MadeUp,
            reads_accounts: true,
            known: vec!["flifo".to_owned()],
        }),
    }
}

fn machine() -> Machine {
    let all = cpus_of("0-7");
    let cpu = |number| Cpu {
        number,
        package: Known(0),
        core: Known([number].into_iter().collect()),
        cache: Known(all.clone()),
        node: Known(0),
    };
    let settings = [
        ("fs.nr_open", "1048576"),
        ("kernel.io_uring_disabled", "0"),
        ("kernel.sched_autogroup_enabled", "1"),
        ("net.core.somaxconn", "4096"),
        ("net.ipv4.ip_local_port_range", "32768\t60999"),
        ("vm.swappiness", "60"),
    ];
    let settings = settings.iter().map(|(name, it)| ((*name).into(), Known((*it).to_owned())));
    Machine {
        release: Known("6.1.0-18-amd64".to_owned()),
        version: Known((6, 1)),
        preemption: Known("voluntary".to_owned()),
        surroundings: Surroundings {
            virtual_machine: Known(false),
            container: None,
            sees_kernel_threads: true,
        },
        cpus: Known((0..8).map(cpu).collect()),
        frequencies: Known(vec![Frequency {
            name: "policy0".to_owned(),
            driver: Known("acpi-cpufreq".to_owned()),
            governor: Known("performance".to_owned()),
            preference: Seen::Unknown("absent".to_owned()),
            max_khz: Known(3_600_000),
            hardware_max_khz: Known(3_600_000),
        }]),
        idle_states: Known(vec![IdleState {
            name: "C1".into(),
            latency: 2,
            time: 900,
            ..IdleState::default()
        }]),
        slice: Known(3000),
        memory_kib: Known(16 << 20),
        huge_pages: Known(0),
        transparent_huge_pages: Known("madvise".to_owned()),
        sched_ext: Known("absent".to_owned()),
        cpu_pressure: Known(Pressure { some: 5.0, full: 0.0 }),
        memory_pressure: Known(Pressure::default()),
        interrupts: Known(vec![Interrupt {
            number: 30,
            name: "eth0-TxRx-0".to_owned(),
            counts: (0..8).map(|cpu| (cpu, 1000 * u64::from(cpu == 0))).collect(),
        }]),
        listen_overflows: Known(0),
        time_wait: Known(12),
        settings: settings.collect(),
    }
}

fn process(pid: u32, name: &str, tids: &[u32]) -> Process {
    let line = Line { name: name.to_owned(), session: pid, started: 5000, ..Line::default() };
    let thread = |tid: &u32| Thread {
        tid: *tid,
        name: name.to_owned(),
        cpus: cpus_of("0-7"),
        ..Thread::default()
    };
    let group = Cgroup {
        version: 2,
        path: format!("/system.slice/{name}.service"),
        weight: Known(Some(100)),
        quota: Known(None),
        throttling: Known(Throttling::default()),
        cpus: Known(cpus_of("0-7")),
        memory: Known(None),
        realtime: Seen::Unknown("version 2 has none".to_owned()),
    };
    Process {
        pid,
        line: Known(line),
        status: Known(Status { uid: 105, resident_kib: 400_000, nested: 1, ..Status::default() }),
        threads: Known(tids.iter().map(thread).collect()),
        autogroup: Known(Autogroup { id: pid.into(), nice: 0 }),
        cgroup: Known(group),
        open_files: Known(90),
        open_files_limit: Known(Limit { soft: Some(32_768), hard: Some(65_536) }),
        allocator_settings: Known(Vec::new()),
        allocator: Known("glibc".to_owned()),
    }
}

/// Ten seconds in which the machine was busy for three eighths.
fn busy() -> Load {
    let thread = |tid: u32, name: &str, ran: f64| ThreadEffort {
        tid,
        name: name.to_owned(),
        ran,
        waited: 0.02,
        slices: 20_000,
    };
    let throttling = || Known(Throttling::default());
    let server = Effort {
        threads: vec![thread(101, "mariadbd", 0.6), thread(102, "mariadbd", 0.5)],
        minor_faults: 2000,
        major_faults: 0,
        user: 800,
        system: 300,
        throttling: throttling(),
    };
    let front = Effort {
        threads: vec![thread(PROXY, "flifo", 0.6)],
        user: 300,
        system: 300,
        throttling: throttling(),
        ..Effort::default()
    };
    let status = [
        ("Questions", 100_000.0),
        ("Connections", 12.0),
        ("Threads_created", 2.0),
        ("Innodb_row_lock_waits", 10.0),
        ("Innodb_buffer_pool_reads", 40.0),
        ("Innodb_buffer_pool_read_requests", 900_000.0),
        ("Connection_errors_max_connections", 0.0),
        ("Created_tmp_disk_tables", 3.0),
        ("Created_tmp_tables", 500.0),
        ("Table_open_cache_overflows", 0.0),
    ];
    Load {
        seconds: 10.0,
        times: Known(Times { busy: 3000, idle: 5000, steal: 0, cpus: 8 }),
        server: Known(server),
        clients: BTreeMap::from([(PROXY, front)]),
        status: Known(status.iter().map(|(name, it)| ((*name).to_owned(), *it)).collect()),
        running_max: Known(9),
        listen_overflows: Known(0),
        compaction_stalls: Known(0),
    }
}

fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

const VARIABLES: &[(&str, &str)] = &[
    ("version", "10.11.6-MariaDB-0+deb12u1"),
    ("version_comment", "Debian 12"),
    ("port", "3306"),
    ("socket", "/run/mysqld/mysqld.sock"),
    ("max_connections", "151"),
    ("table_open_cache", "2000"),
    ("thread_cache_size", "151"),
    ("thread_handling", "one-thread-per-connection"),
    ("thread_pool_size", "8"),
    ("thread_stack", "299008"),
    ("back_log", "80"),
    ("skip_name_resolve", "OFF"),
    ("large_pages", "OFF"),
    ("innodb_buffer_pool_size", "134217728"),
    ("innodb_log_buffer_size", "16777216"),
    ("innodb_use_native_aio", "ON"),
    ("key_buffer_size", "134217728"),
    ("net_buffer_length", "16384"),
    ("sort_buffer_size", "2097152"),
    ("join_buffer_size", "262144"),
    ("read_buffer_size", "131072"),
    ("read_rnd_buffer_size", "262144"),
    ("query_cache_type", "OFF"),
    ("query_cache_size", "1048576"),
    ("tmp_table_size", "16777216"),
];

const STATUS: &[(&str, &str)] = &[
    ("Max_used_connections", "20"),
    ("Threads_connected", "17"),
    ("Uptime", "90000"),
    ("Table_open_cache_overflows", "0"),
];
