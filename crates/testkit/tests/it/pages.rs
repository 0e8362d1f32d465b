//! Pages in a browser: headless Chromium must have nothing to say against them, and find in each
//! chart what was to be drawn. Pictures are left in `target/artefacts` for people to look at.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

use bench::interrupt::Interrupt;
use bench::lab::{self, Entry, Lab, LabOptions, PageFaults, PageFaultsTreatment};
use bench::page;
use testkit::overdue;
use testkit::simulated::Simulated;

/// A comparison as users make it: three targets, three workloads, clients from 1 to 1024.
fn wide() -> Simulated {
    Simulated {
        workloads: ["oltp_point_select", "oltp_read_only", "oltp_read_write"]
            .map(str::to_owned)
            .to_vec(),
        clients: (0..=10).map(|power| 1 << power).collect(),
        targets: ["direct", "flifo", "haproxy"].map(str::to_owned).to_vec(),
        noise: 0.02,
        ..Simulated::default()
    }
}

#[test]
fn the_page_of_a_comparison_is_drawn_without_complaint() {
    let simulated = wide();
    let path = write("bench", &page::of_bench(&simulated.results()));
    let dom = dom(&path);
    let workloads = simulated.workloads.len();
    let clients = simulated.clients.len();
    let targets = simulated.targets.len();
    // Throughput and two latencies for each workload, a mark for each cell.
    assert_eq!(count(&dom, "<g class=\"point "), 3 * workloads * clients * targets);
    let charts: Vec<_> = dom.split("<figure>").skip(1).collect();
    // Four over clients, and distributions and time lines of four numbers of clients.
    assert_eq!(charts.len(), workloads * (4 + 4 + 4));
    for chart in charts {
        let drawn = chart.split("</figure>").next().unwrap_or_default();
        let title = drawn.split("<strong>").nth(1).and_then(|it| it.split('<').next()).unwrap();
        let is_bars = drawn.contains("class=\"chart bars\"");
        let lines = count(drawn, "<path class=\"line ");
        let pieces = count(drawn, "<rect class=\"piece ");
        let has_data = if is_bars { 6 * targets * 4 < pieces } else { lines == targets };
        assert!(has_data, "{title}: {lines} lines, {pieces} pieces");
        assert!(count(drawn, "<tr>") >= 2, "{title} has its figures as a table");
        assert!(count(drawn, "class=\"axis-name\"") >= 1, "{title} names its axes");
        assert!(!drawn.contains("NaN"), "{title}");
    }
    for (name, scheme) in [("light", "1"), ("dark", "0")] {
        let picture = screenshot(&path, &format!("bench-{name}.png"), scheme);
        assert!(picture > 100_000, "the picture in the {name} has {picture} bytes");
    }
    assert!(print(&path, "bench.pdf") > 50_000, "the page on paper is empty");
}

/// What `lab pagefaults` finds on a real server, in a hurry: the three treatments that matter most.
#[test]
fn page_faults_return_with_a_fixed_threshold_and_are_drawn_beside_the_seed() {
    let experiment = |round| PageFaults {
        treatments: vec![
            PageFaultsTreatment::LargeToday,
            PageFaultsTreatment::SmallFixed,
            PageFaultsTreatment::LargeFixed,
        ],
        rounds: 1,
        round,
    };
    let lab =
        Lab { interrupt: Interrupt::never(), flifo: testkit::flifo::program().into(), only: None };
    // In the warm-up, a fifth of a round, a busy machine may not answer one statement.
    let mut round = Duration::from_secs(3);
    let finding = loop {
        match experiment(round).run(&lab) {
            Err(error) if format!("{error:#}").contains("not one statement") => round *= 4,
            finding => break finding.expect("runs"),
        }
        assert!(round < Duration::from_mins(10), "no statement is answered");
    };
    let faults = |label: &str| -> f64 {
        let is_it = |row: &&Vec<String>| row[0].contains(label) && row[1] == "directly, full speed";
        let row = finding.table.rows.iter().find(is_it).expect("was measured");
        row[3].replace('\u{202f}', "").parse().expect("is a number")
    };
    let [today, small, large] =
        ["5 MiB, glibc as it comes", "128 KiB, threshold fixed", "5 MiB, threshold fixed"]
            .map(faults);
    assert!((1000.0..2000.0).contains(&large), "each page of the buffer, each time: {large}");
    assert!(small < 200.0 && today < 200.0, "{small} {today}");

    let path = write("lab", &lab::page(&[(Entry::about(&experiment(round)), finding)]));
    let dom = dom(&path);
    assert_eq!(count(&dom, "class=\"chart dots\""), 2);
    // Three treatments in three ways, and the seed's own figure, in each chart.
    assert_eq!(count(&dom, "<g class=\"point "), 2 * (3 * 3 + 1));
    screenshot(&path, "lab-light.png", "1");
    screenshot(&path, "lab-dark.png", "0");
    print(&path, "lab.pdf");
}

/// What `lab sharing` finds on a real server, in a hurry: how often it runs what all clients ask, not how fast.
#[test]
fn a_stampede_is_run_less_often_than_it_is_answered_only_if_it_is_shared() {
    // Four times as many as there are slots.
    let clients = 16 * thread::available_parallelism().map_or(1, usize::from) as u32;
    let length = Some(Duration::from_secs(1));
    let options = LabOptions { rounds: Some(1), length, clients: vec![clients] };
    let experiment = lab::find("sharing", &options).expect("is there");
    let flifo = testkit::flifo::program().into();
    let only = Some("asked by all".to_owned());
    let finding =
        experiment.run(&Lab { interrupt: Interrupt::never(), flifo, only }).expect("runs");
    let runs = |way: &str| -> f64 {
        let is_it = |row: &&Vec<String>| row[0] == "the same sum, asked by all" && row[2] == way;
        let row = finding.table.rows.iter().find(is_it).expect("was measured");
        row[6].parse().expect("is a number")
    };
    for way in ["direct", "Flifo, not shared"] {
        assert!(runs(way) > 0.9, "{way}: {}", runs(way));
    }
    let shared = runs("Flifo, shared");
    assert!(shared < 0.8, "{shared}");

    let path = write("lab-sharing", &lab::page(&[(experiment.about(), finding)]));
    let dom = dom(&path);
    assert_eq!(count(&dom, "class=\"chart dots\""), 2);
    assert_eq!(count(&dom, "<g class=\"point "), 2 * 4);
    screenshot(&path, "lab-sharing.png", "1");
}

/// The page as the browser understood it. Fails if it complained.
fn dom(page: &Path) -> String {
    let output = chromium(page, &["--dump-dom"]);
    String::from_utf8(output.stdout).expect("is text")
}

/// Takes a picture, and returns its size in bytes.
fn screenshot(page: &Path, name: &str, scheme: &str) -> u64 {
    let picture = artefact(name);
    let scheme = format!("--blink-settings=preferredColorScheme={scheme}");
    let path = format!("--screenshot={}", picture.display());
    chromium(page, &[&scheme, "--window-size=1280,3200", "--hide-scrollbars", &path]);
    std::fs::metadata(picture).expect("is there").len()
}

fn print(page: &Path, name: &str) -> u64 {
    let paper = artefact(name);
    let path = format!("--print-to-pdf={}", paper.display());
    chromium(page, &["--no-pdf-header-footer", &path]);
    std::fs::metadata(paper).expect("is there").len()
}

fn chromium(page: &Path, arguments: &[&str]) -> Output {
    let profile = tempfile::tempdir().expect("a folder");
    overdue::watch();
    // It ends within seconds, if it ends.
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", "120", "chromium"])
        .args(["--headless", "--disable-gpu", "--no-first-run", "--enable-logging=stderr"])
        // What the browser itself would fetch is no business of a test.
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(arguments)
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null());
    if sys::process::is_root() {
        command.arg("--no-sandbox");
    }
    let output = command.output().expect("chromium runs; packaging/install-deps.sh installs it");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let complaints: Vec<_> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    output
}

fn write(name: &str, page: &str) -> PathBuf {
    let path = artefact(&format!("{name}.html"));
    std::fs::write(&path, page).expect("writes");
    path
}

/// A file that stays after the test.
fn artefact(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/artefacts");
    std::fs::create_dir_all(&folder).expect("a folder");
    folder.canonicalize().expect("is there").join(name)
}

fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[test]
fn a_complaint_of_the_browser_is_noticed() {
    let path = write("complaint", "<!doctype html><script>console.error('no')</script>");
    let seen = std::panic::catch_unwind(|| dom(&path));
    assert!(seen.is_err(), "an error in the console went unnoticed");
}
