//! Situations as `/proc` shows them, recorded at two moments, and what they are taken for: three looks in a row.

use std::fs;

use engine::placement::Verdict;

use super::*;
use crate::worker::clock;

/// A machine of two CPUs on which this process is Flifo, 7 is its worker and 900 is the server.
struct Scene {
    folder: tempfile::TempDir,
    observer: Observer,
    pulse: Pulse,
    ticks: [u64; 3],
    run: [u64; 2],
    periods: [u64; 2],
}

/// What happens in a second: shares of the CPUs' time, of the worker's, and of the quota's periods.
#[derive(Clone, Copy)]
struct Second {
    idle: f64,
    steal: f64,
    ran: f64,
    waited: f64,
    throttled: f64,
    rate: u64,
    /// Where worker and server may run.
    cpus: [&'static str; 2],
    policy: u8,
}

const STARVED: Second = Second {
    idle: 0.12,
    steal: 0.0,
    ran: 0.6,
    waited: 0.4,
    throttled: 0.0,
    rate: 45_000,
    cpus: ["0-1", "0-1"],
    policy: 0,
};

impl Scene {
    fn new(second: &Second) -> Self {
        let folder = tempfile::tempdir().expect("makes");
        let observer = Observer::new(Tree::recorded(folder.path()));
        let pulse = Pulse { thread: 7, ..Pulse::default() };
        let scene = Self {
            folder,
            observer,
            pulse,
            ticks: [5000; 3],
            run: [1_000_000; 2],
            periods: [50, 1],
        };
        let own = std::process::id();
        let stat = |pid: u32, policy: u8| {
            format!(
                "{pid} (x) S 1 1 1 0 -1 0 5 0 8 0 1 4 0 0 20 0 9 0 99 1 2 3 4 5 6 7 8 9 0 0 0 0 0 0 17 1 0 {policy} 0 0 0"
            )
        };
        let status = |cpus: &str| format!("Cpus_allowed_list:\t{cpus}\n");
        for (pid, tid, policy, cpus) in
            [(own, 7, 3, second.cpus[0]), (900, 900, second.policy, second.cpus[1])]
        {
            scene.write(&format!("/proc/{pid}/task/{tid}/stat"), &stat(tid, policy));
            scene.write(&format!("/proc/{pid}/task/{tid}/status"), &status(cpus));
        }
        scene.write("/proc/900/cgroup", "0::/db\n");
        scene.write("/sys/fs/cgroup/db/cpu.max", "50000 100000\n");
        scene.write("/sys/devices/system/cpu/online", "0-1\n");
        scene
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path.trim_start_matches('/'));
        fs::create_dir_all(path.parent().expect("has one")).expect("makes");
        fs::write(path, text).expect("writes");
    }

    /// A second passes.
    fn pass(&mut self, second: &Second) -> Look {
        let Second { idle, steal, ran, waited, throttled, rate, .. } = *second;
        let ticks = |share: f64| (share * 200.0) as u64;
        for (at, share) in [1.0 - idle - steal, idle, steal].into_iter().enumerate() {
            self.ticks[at] += ticks(share);
        }
        self.run[0] += (ran * 1e9) as u64;
        self.run[1] += (waited * 1e9) as u64;
        self.periods[0] += 10;
        self.periods[1] += (throttled * 10.0) as u64;
        self.pulse.statements += rate;
        let [busy, idle, steal] = self.ticks;
        self.write(
            "/proc/stat",
            &format!("cpu  {busy} 0 0 {idle} 0 0 0 {steal} 0 0\ncpu0 1\ncpu1 1\n"),
        );
        let schedstat = format!("/proc/{}/task/7/schedstat", std::process::id());
        self.write(&schedstat, &format!("{} {} 5\n", self.run[0], self.run[1]));
        let [periods, stopped] = self.periods;
        let stat = format!("nr_periods {periods}\nnr_throttled {stopped}\n");
        self.write("/sys/fs/cgroup/db/cpu.stat", &stat);
        // The clock of a recorded machine is told.
        if let Some(last) = &mut self.observer.last {
            last.at = clock::read() - Duration::from_secs(1);
        }
        self.observer.look(std::slice::from_ref(&self.pulse), Some(900))
    }
}

/// What three looks of two seconds each are taken for.
fn verdicts(second: &Second) -> [Verdict; 3] {
    let mut scene = Scene::new(second);
    assert_eq!(scene.pass(second), Look::default(), "the first look has nothing before it");
    [(); 3].map(|()| {
        let one = scene.pass(second);
        Verdict::of(&scene.pass(second).with(&one))
    })
}

#[test]
fn each_situation_is_told_for_what_it_is_three_times_in_a_row() {
    let base = STARVED;
    let situations = [
        (Verdict::Starved, base),
        (Verdict::StarvedAnyway, Second { policy: 3, ..base }),
        (Verdict::CpuBound, Second { ran: 0.98, waited: 0.01, ..base }),
        (Verdict::Contended, Second { idle: 0.02, ..base }),
        (Verdict::Throttled, Second { throttled: 0.6, idle: 0.5, ..base }),
        (Verdict::Stolen, Second { steal: 0.3, ..base }),
        (Verdict::Idle, Second { rate: 0, ran: 0.0, waited: 0.0, idle: 0.99, ..base }),
        (Verdict::Confined, Second { cpus: ["1", "1"], idle: 0.5, ..base }),
        (Verdict::Well, Second { ran: 0.3, waited: 0.05, ..base }),
        // Each on a CPU of its own is no confinement, and a worker that sleeps does not starve.
        (Verdict::Starved, Second { cpus: ["0", "1"], ..base }),
        (Verdict::Well, Second { ran: 0.3, waited: 0.3, ..base }),
    ];
    for (want, second) in situations {
        assert_eq!(clock::stopped(|| verdicts(&second)), [want; 3], "{want}");
    }
}

#[test]
fn what_cannot_be_read_is_neither_idle_nor_load() {
    let folder = tempfile::tempdir().expect("makes");
    let mut observer = Observer::new(Tree::recorded(folder.path()));
    let pulse = Pulse { thread: 7, statements: 5, ..Pulse::default() };
    observer.look(std::slice::from_ref(&pulse), Some(900));
    let look = observer.look(&[pulse], None);
    assert_eq!((look.ran, look.waited, look.idle, look.steal), (0.0, 0.0, 0.0, 0.0));
    assert_eq!(look.rate, 0.0);
}

#[test]
fn the_keenest_worker_counts_and_a_new_one_does_not_yet() {
    let glance = |at: Instant, workers: &[(u32, (u64, u64))]| Glance {
        at,
        times: None,
        workers: workers.iter().copied().collect(),
        throttling: [None; 2],
        statements: 0,
        run: Histogram::default(),
    };
    let now = Instant::now();
    let ms = 1_000_000;
    let before = glance(now, &[(1, (0, 0)), (2, (0, 0))]);
    let after = glance(
        now + Duration::from_secs(1),
        &[(1, (900 * ms, 0)), (2, (500 * ms, 450 * ms)), (3, (5000 * ms, 5000 * ms))],
    );
    let look = between(&before, &after);
    assert!((look.ran - 0.5).abs() < 1e-9 && (look.waited - 0.45).abs() < 1e-9);
}
