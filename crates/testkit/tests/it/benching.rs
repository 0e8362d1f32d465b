//! `flifo bench` from outside: what it measures, and what it says when the world is not as it
//! should be. Loads are short: figures are judged by their order of magnitude only.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use bench::interrupt::Interrupt;
use bench::private_server::PrivateServer;
use bench::results::{Cell, Ending, Results, Role, Standing};
use bench::sysbench::{Address, Load, Sysbench, Tables};
use bench::workloads::OF_SYSBENCH;
use rustix::process::{Pid, Signal, kill_process};
use testkit::flifo::Flifo;

/// A server with tables, and where results go.
struct Arena {
    server: PrivateServer,
    folder: tempfile::TempDir,
}

impl Arena {
    /// With two tables of a thousand rows.
    fn new() -> Self {
        let server = PrivateServer::start_default().expect("a private server");
        let arena = Self { server, folder: tempfile::tempdir().expect("a folder") };
        let made = arena.bench(&["prepare", "--tables", "2", "--rows", "1000"]);
        assert!(made.status.success(), "{}", said(&made));
        arena
    }

    fn target(&self) -> String {
        format!("direct=unix:{}", self.server.socket().display())
    }

    fn json(&self) -> PathBuf {
        self.folder.path().join("results.json")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(testkit::flifo::program());
        command.arg("bench").args(arguments).args(["--target", &self.target()]);
        command.env("MYSQL_PWD", self.server.password());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn bench(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("runs")
    }

    /// A run of one round in each cell, and its results.
    fn run(&self, arguments: &[&str]) -> Results {
        let output = self.run_whatever(arguments);
        assert!(output.status.success(), "{}", said(&output));
        self.results()
    }

    fn run_whatever(&self, arguments: &[&str]) -> Output {
        let json = self.json();
        let common = ["run", "--rounds", "1", "--repeats", "0", "--warm-up", "0.2", "--json"];
        let arguments = [&common[..], &[json.to_str().expect("text")], arguments].concat();
        self.bench(&arguments)
    }

    /// A run that goes on while the test does something to it.
    fn begin(&self, arguments: &[&str]) -> Child {
        let json = self.json();
        let arguments = [&["run", "--json", json.to_str().expect("text")], arguments].concat();
        self.command(&arguments).spawn().expect("starts")
    }

    fn results(&self) -> Results {
        let text = std::fs::read_to_string(self.json()).expect("results were written");
        serde_json::from_str(&text).expect("they are of the format")
    }

    fn pid(&self) -> Pid {
        let pid = self.server.pid().and_then(|pid| i32::try_from(pid).ok());
        Pid::from_raw(pid.expect("runs")).expect("is not 0")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn every_workload_runs_in_both_protocols_without_errors() {
    let arena = Arena::new();
    let script = arena.folder.path().join("own.sql");
    let text = "BEGIN;\nUPDATE sbtest{table} SET pad={pad} WHERE id={id};\nCOMMIT;\n";
    std::fs::write(&script, text).expect("writes");
    let script = format!("script:{}", script.display());
    let more = ["connect:oltp_point_select*3", "mixed:oltp_point_select=9+oltp_insert=1", &script];
    let workloads = [&OF_SYSBENCH[..], &more].concat();
    for protocol in ["text", "prepared"] {
        let list = workloads.join(",");
        let run = |seconds| {
            let length = ["--seconds", seconds, "--clients", "4"];
            arena.run(&[&["--workloads", &list, "--protocol", protocol][..], &length].concat())
        };
        // A busy machine needs more time for some of each.
        let is_enough = |of: &Results| of.cells.iter().all(|it| 9 < it.rounds[0].transactions);
        let mut results = run("0.4");
        if !is_enough(&results) {
            results = run("6");
        }
        assert_eq!(results.cells.len(), workloads.len());
        for cell in &results.cells {
            let round = &cell.rounds[0];
            assert!(0 < round.transactions, "{protocol}, {}: nothing was done", cell.workload);
            // Two clients may write the same rows.
            let errors = round.errors.iter().filter(|error| error.code != 1213);
            assert_eq!(errors.count(), 0, "{protocol}, {}: {:?}", cell.workload, round.errors);
            assert_eq!(round.latency.count, round.transactions);
            assert!(round.processes.len() == 2, "{:?}", round.processes);
            assert!(round.processes.iter().all(|process| 0.0 < process.cpu_us()));
        }
        let of =
            |name: &str| &results.cells.iter().find(|it| it.workload == name).unwrap().rounds[0];
        let read_only = of("oltp_read_only");
        let each = read_only.statements as f64 / read_only.transactions as f64;
        assert!((15.0..17.1).contains(&each), "{each} statements a transaction");
        assert!(of("connect:oltp_point_select*3").connect_latency.is_some());
    }
}

#[test]
fn a_server_that_is_named_is_not_guessed() {
    let arena = Arena::new();
    let socket = arena.server.socket();
    let flifo = Flifo::start(&format!("[server]\naddress = {:?}\n", socket.display().to_string()));
    let target = format!("proxy=127.0.0.1:{}", flifo.port());
    let load = [
        "--target",
        &target,
        "--workloads",
        "oltp_point_select",
        "--clients",
        "1",
        "--seconds",
        "0.2",
    ];
    let servers = |results: &Results| {
        let proxy = results.targets.iter().find(|it| it.name == "proxy").expect("it is there");
        let of_server = proxy.processes.iter().filter(|it| it.role == Role::Server);
        of_server.map(|it| it.pid).collect::<Vec<_>>()
    };
    let guessed = servers(&arena.run(&load));
    assert_eq!(guessed, [arena.server.pid().expect("runs")], "the one of the other target");
    let named = format!("server={}", std::process::id());
    let results = arena.run(&[&load[..], &["--process", &named]].concat());
    assert_eq!(servers(&results), [std::process::id()]);
}

#[test]
fn idle_clients_stay_beside_and_a_ramp_lets_the_others_begin_one_by_one() {
    let arena = Arena::new();
    let arguments = ["--clients", "8", "--idle", "30", "--ramp", "2", "--seconds", "0.5"];
    let results = arena.run(&arguments);
    let timeline = &results.cells[0].rounds[0].timeline;
    let clients: Vec<u32> = timeline.iter().map(|second| second.clients).collect();
    assert!(clients.is_sorted() && clients.len() == 4, "{timeline:?}");
    assert!((1..=3).contains(&clients[0]) && clients[3] == 8, "{timeline:?}");
    let most = arena.server.sql("SHOW STATUS LIKE 'Max_used_connections'").expect("runs");
    let most: u32 = most.trim().rsplit('\t').next().and_then(|it| it.parse().ok()).expect("told");
    assert!((38..=40).contains(&most), "{most}");
}

#[test]
fn each_round_goes_through_all_loads() {
    let arena = Arena::new();
    let run = ["run", "--clients", "1,2", "--rounds", "2", "--seconds", "0.2", "--warm-up", "0"];
    let output = arena.bench(&run);
    let text = said(&output);
    let turns: Vec<_> = text.lines().filter_map(|line| line.split_once("round ")).collect();
    let order: Vec<_> = turns
        .iter()
        .map(|(_, turn)| turn.split(": ").next().unwrap_or_default().to_owned())
        .collect();
    let turn = |round, clients| format!("{round} of 2, oltp_point_select, {clients} clients");
    assert_eq!(order, [turn(1, 1), turn(1, 2), turn(2, 1), turn(2, 2)], "{text}");
}

#[test]
fn sysbench_works_on_tables_that_were_made_here() {
    let arena = Arena::new();
    let tables = Tables { count: 2, rows: 1000 };
    let sysbench = Sysbench::find(arena.server.password(), tables).expect("sysbench is installed");
    let address = Address::Socket(arena.server.socket());
    let load = Load { workload: "oltp_read_write", clients: 2, seconds: 1 };
    let report = sysbench.run(&load, &address, &Interrupt::never(), |_, _| Ok(()));
    assert!(0 < report.expect("runs").statements);
}

/// What `SIGSTOP` for a second makes of the latencies of a loop.
fn stopped_for_a_second(arena: &Arena, arguments: &[&str]) -> Cell {
    let pid = arena.pid();
    let stopper = thread::spawn(move || {
        thread::sleep(Duration::from_millis(2200));
        kill_process(pid, Signal::STOP).expect("it runs");
        // On a busy machine a client sends its next one only some time after that.
        thread::sleep(Duration::from_millis(1250));
        kill_process(pid, Signal::CONT).expect("it runs");
    });
    let results = arena.run(&[&["--seconds", "4", "--clients", "4"], arguments].concat());
    stopper.join().expect("stops");
    results.cells[0].clone()
}

#[test]
fn an_open_loop_shows_a_second_of_silence_and_a_closed_one_hides_it() {
    let arena = Arena::new();
    // A machine that others use may not begin what is due in the last moments: again, until it does.
    let mut opens = (0..5).map(|_| stopped_for_a_second(&arena, &["--rate", "500"]));
    let open = opens.find(|it| it.rounds[0].unsent < 20).expect("nearly all is sent");
    let open = &open.rounds[0];
    // A quarter of all transactions was due while the server did not answer.
    assert!(700.0 < open.latency.p99_9_ms, "{:?}", open.latency);
    assert!(100.0 < open.latency.p95_ms, "{:?}", open.latency);
    assert!((1700..2300).contains(&open.transactions), "{}", open.transactions);

    let closed = stopped_for_a_second(&arena, &[]);
    let closed = &closed.rounds[0];
    assert!(900.0 < closed.latency.max_ms, "{:?}", closed.latency);
    // Each of four clients waited once, or twice on a busy machine, however many others it has measured.
    let waited = closed.latency.buckets.iter().filter(|(millis, _)| 700.0 < *millis);
    assert!(waited.map(|(_, count)| count).sum::<u64>() <= 8, "{:?}", closed.latency);
    let silent = closed.timeline.iter().filter(|second| 0 <= second.at);
    assert!(silent.clone().any(|second| second.max_ms > 900.0), "{:?}", closed.timeline);
}

#[test]
fn a_target_that_dies_leaves_what_was_measured() {
    let mut arena = Arena::new();
    let child = arena.begin(&["--rounds", "2", "--seconds", "5"]);
    thread::sleep(Duration::from_millis(2500));
    arena.server.kill().expect("ends");
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(69), "{}", said(&output));
    let results = arena.results();
    assert!(matches!(results.ending, Ending::Partial { .. }));
    let cell = &results.cells[0];
    assert_eq!((cell.rounds[0].standing, cell.failures.len()), (Standing::Cut, 2));
    assert!(0 < cell.rounds[0].statements && cell.rounds[0].seconds < 5.0);
    assert!(cell.failures[0].why.contains("all clients lost their connections"));
    assert!(cell.failures[1].why.contains("cannot be reached"), "{:?}", cell.failures);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.contains("The run is not whole"), "{table}");
}

#[test]
fn a_signal_ends_a_run_with_what_it_had() {
    let arena = Arena::new();
    let child = arena.begin(&["--rounds", "1", "--seconds", "600"]);
    thread::sleep(Duration::from_millis(2500));
    let asked = Instant::now();
    kill_process(Pid::from_child(&child), Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("ends");
    assert!(asked.elapsed() < Duration::from_secs(120));
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    let results = arena.results();
    assert_eq!(results.ending, Ending::Interrupted);
    assert_eq!(results.cells[0].rounds[0].standing, Standing::Cut);
    assert!(0 < results.cells[0].rounds[0].statements);
}

/// A run of what it starts itself, and what it said.
fn started(json: &Path, arguments: &[&str]) -> Output {
    let common = ["bench", "run", "--start", "direct", "--tables", "1", "--rows", "1000"];
    let short = ["--rounds", "2", "--repeats", "0", "--seconds", "0.2", "--warm-up", "0"];
    let mut command = Command::new(testkit::flifo::program());
    command.args(common).args(short).args(arguments).args(["--resume".as_ref(), json.as_os_str()]);
    command.output().expect("runs")
}

fn read(json: &Path) -> Results {
    let text = std::fs::read_to_string(json).expect("results were written");
    serde_json::from_str(&text).expect("they are of the format")
}

#[test]
fn a_run_goes_on_where_it_was_and_each_start_is_a_new_server() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("run.json");
    let first = ["bench", "run", "--start", "direct", "--tables", "1", "--rows", "1000"];
    let short = ["--rounds", "2", "--repeats", "0", "--seconds", "0.2", "--warm-up", "0"];
    let output = Command::new(testkit::flifo::program())
        .args(first)
        .args(short)
        .args(["--clients", "1,2", "--restarts", "2", "--json"])
        .arg(&json)
        .output()
        .expect("runs");
    assert!(output.status.success(), "{}", said(&output));
    let whole = read(&json);
    let of = |results: &Results, at: usize| -> Vec<(u32, u32)> {
        results.cells[at].rounds.iter().map(|it| (it.number, it.start)).collect()
    };
    assert_eq!(of(&whole, 0), [(1, 1), (2, 1), (3, 2), (4, 2)]);
    let servers: std::collections::BTreeSet<u32> =
        whole.cells[0].rounds.iter().map(|round| round.processes[0].pid).collect();
    assert_eq!(servers.len(), 2, "{servers:?}");

    // As if it had been cut off in the last round of the first load.
    let mut cut = whole.clone();
    cut.cells[0].rounds[3].standing = Standing::Cut;
    cut.cells[1].rounds.truncate(3);
    cut.ending = Ending::Interrupted;
    std::fs::write(&json, serde_json::to_string(&cut).expect("writes")).expect("writes");
    let output = started(&json, &["--clients", "1,2", "--restarts", "3"]);
    assert!(output.status.success(), "{}", said(&output));
    let results = read(&json);
    let want = [(1, 1), (2, 1), (3, 2), (4, 3), (5, 4), (6, 4)];
    assert_eq!((of(&results, 0), of(&results, 1)), (want.to_vec(), want.to_vec()));
    assert_eq!(results.cells[0].rounds[..3], whole.cells[0].rounds[..3]);
    assert_eq!((results.ending, results.resumed.len()), (Ending::Complete, 1));

    let output = started(&json, &["--clients", "1,4", "--restarts", "3"]);
    assert_eq!(output.status.code(), Some(64), "{}", said(&output));
    assert!(said(&output).contains("clients: [1,2] in the file, [1,4] now"), "{}", said(&output));
}

#[test]
fn what_cannot_be_measured_is_said_with_what_to_do() {
    let arena = Arena::new();
    let refused = |arguments: &[&str], code: i32, want: &str| {
        let output = arena.run_whatever(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", said(&output));
        assert!(said(&output).contains(want), "{arguments:?}: {}", said(&output));
    };
    refused(&["--workloads", "tpcc"], 64, "is no workload; there are oltp_point_select");
    refused(&["--clients", "8..1"], 64, "write numbers such as 8,64 or 1..64");
    refused(&["--rate", "0"], 64, "--rate 0 is not between");
    refused(&["--target", "gone=unix:/nonexistent.sock"], 69, "cannot be reached");
    refused(&["--target", "direct=unix:/x.sock"], 64, "two targets have the same name");
    refused(&["--restarts", "2"], 64, "it cannot start a --target anew");
    refused(&["--resume", "/nonexistent.json"], 69, "cannot read /nonexistent.json");
    refused(&["--tables", "9"], 69, "there are only 2 tables sbtest1…");
    refused(&["--user", "nobody"], 69, "refused the login");
    refused(&["--clients", "20", "--idle", "99999999"], 64, "--idle");
    arena.server.sql("ALTER TABLE sbtest2 DROP COLUMN pad").expect("runs");
    refused(&[], 69, "sbtest2 is not laid out as sysbench's: Unknown column 'pad'");
    let again = arena.bench(&["prepare"]);
    assert!(said(&again).contains("sbtest1 is there already"), "{}", said(&again));
    assert!(arena.bench(&["cleanup"]).status.success());
    refused(&[], 69, "holds no table sbtest1; make the tables with `flifo bench prepare`");
}

#[test]
fn flifo_starts_flifo_bench_under_its_own_name() {
    for (arguments, code, want) in [
        (&["bench", "--help"][..], 0, "Usage: flifo bench <COMMAND>"),
        (&["demo", "--help"], 0, "Usage: flifo demo [OPTIONS]"),
        (&["lab", "list"], 0, "pagefaults"),
        (&["man", "lab-run"], 0, "flifo\\-bench\\-lab\\-run"),
        (&["bench", "nonsense"], 64, "unrecognized subcommand 'nonsense'"),
        (&["lab", "run", "nonsense"], 64, "flifo: there is no experiment \"nonsense\""),
    ] {
        let output =
            Command::new(testkit::flifo::program()).args(arguments).output().expect("runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned() + &said(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {text}");
        assert!(text.contains(want), "{arguments:?}: {text}");
    }
}

#[test]
fn a_limit_on_open_files_is_named() {
    let arena = Arena::new();
    let program = testkit::flifo::program();
    let line = format!(
        "ulimit -n 200; exec {} bench run --target {} --clients 500",
        Path::display(program),
        arena.target()
    );
    let output = Command::new("sh").args(["-c", &line]).output().expect("runs");
    assert_eq!(output.status.code(), Some(69), "{}", said(&output));
    let want = "500 clients and 0 idle ones need 564 open files, and the hard limit is 200";
    assert!(said(&output).contains(want), "{}", said(&output));
}
