//! Several workers share the slots: which worker gets the next one, and what a grant that takes its time costs.

use testkit::world::{Door, Outcome, Plan, Process, Server, Work, run};

const SERVER: Server = Server { cores: 16, spread: [0.01, 0.0], crowd: 0.01, disk: 0 };
const WORK: Work =
    Work { cpu: 0.15, io_share: 0.0, io_count: 0, io: 0.0, heavy_share: 0.0, heavy: 1.0 };
const WORKERS: usize = 8;

fn plan() -> Plan {
    Plan::closed(7, SERVER, WORK, 512, 0.3).lasting(100.0, 500.0)
}

fn flifo(limit: u32, mail: f64) -> Process {
    Process::fixed(limit, WORKERS).away(0.2, mail)
}

fn print(name: &str, outcome: &Outcome) {
    println!(
        "{name:<30} {:5.1} k/s, p50 {:4.1} p99 {:4.1} ms, jain {:.2}, granted {:.2}, borrowed {:.2}",
        outcome.rate / 1000.0,
        outcome.p50,
        outcome.p99,
        outcome.jain,
        outcome.granted,
        outcome.borrowed
    );
}

/// However long a worker takes to read its mail: slots go round within workers, so hardly any is on its way.
#[test]
fn slow_mail_costs_little() {
    let mut best = 0.0_f64;
    for (limit, mail) in [(24, 0.05), (24, 0.3), (24, 1.0), (48, 0.05), (48, 1.0)] {
        let plain = run(plan(), Door::Flifo(vec![flifo(limit, mail)]));
        let borrowing = run(plan(), Door::Flifo(vec![flifo(limit, mail).borrowing(50.0)]));
        print(&format!("L {limit}, mail {mail} ms"), &plain);
        print(&format!("L {limit}, mail {mail} ms, borrowing"), &borrowing);
        if mail == 0.05 {
            best = plain.rate;
        }
        assert!(plain.rate > 0.8 * best, "without the borrow");
        assert!(borrowing.rate > 0.92 * best, "with it");
        assert!(plain.granted < 0.25, "cross-worker wake-ups a statement");
        assert!(plain.jain > 0.9 && borrowing.jain > 0.9);
    }
}

/// Half of the clients on one worker of four: all get the same, within a tenth.
#[test]
fn a_crowded_worker_is_not_starved() {
    for mail in [0.05, 0.3] {
        let process = Process::fixed(48, 4).away(0.2, mail).spread(vec![3.0, 1.0, 1.0, 1.0]);
        let outcome = run(plan(), Door::Flifo(vec![process]));
        print(&format!("uneven, mail {mail} ms"), &outcome);
        let others = outcome.by_worker[1..].iter().sum::<f64>() / 3.0;
        let ratio = outcome.by_worker[0] / others;
        println!("each client of the crowded worker got {ratio:.2} of the others'");
        assert!((0.9..1.1).contains(&ratio), "{ratio}");
    }
}

/// One seed, one run.
#[test]
fn the_same_seed_gives_the_same_run() {
    let once = || run(plan(), Door::Flifo(vec![flifo(24, 0.3).borrowing(50.0)]));
    let (one, two) = (once(), once());
    assert_eq!(one.rate, two.rate);
    assert_eq!((one.p99, one.granted, one.borrowed), (two.p99, two.granted, two.borrowed));
}
