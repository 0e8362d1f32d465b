//! One to 4096 clients before a server that is fitted to the note: its own two gates, and Flifo in front.
//!
//! Fitted are the curve without a gate up to 32 clients and the first-in-first-out column; the other columns are
//! predictions. A transaction is 22 statements.

use engine::limit::Rhythm;
use testkit::world::{Door, NoteGate, Outcome, Plan, Process, Server, Work, run};

const SERVER: Server = Server { cores: 8, spread: [0.15, 0.01], crowd: 0.006, disk: 32 };
const CPU: Work =
    Work { cpu: 0.2, io_share: 0.0, io_count: 4, io: 1.0, heavy_share: 0.0, heavy: 1.0 };
const PER_TRANSACTION: f64 = 22.0;

fn plan(work: Work, clients: usize, warm: f64) -> Plan {
    Plan::closed(3, SERVER, work, clients, 0.045).lasting(warm, warm + 2000.0)
}

/// Long enough for the line to be as it stays.
fn warm(clients: usize) -> f64 {
    500.0 + clients as f64
}

fn behind(door: impl Fn() -> Door, clients: usize) -> Outcome {
    run(plan(CPU, clients, warm(clients)), door())
}

fn flifo() -> Door {
    Door::Flifo(vec![Process::auto(16, Rhythm::Own, 0.0).away(0.1, 0.05)])
}

fn transactions(outcome: &Outcome) -> f64 {
    outcome.rate / PER_TRANSACTION
}

fn print(name: &str, clients: usize, outcome: &Outcome) {
    println!(
        "{clients:5} clients, {name:<14} {:4.0} tps, p50 {:7.1} p99 {:7.1} ms, jain {:.2}, borrowed {:.2}",
        transactions(outcome),
        outcome.p50,
        outcome.p99,
        outcome.jain,
        outcome.borrowed
    );
}

/// The model is the note's server, as far as it was fitted: within 12 % of the first-in-first-out column.
#[test]
fn the_notes_first_in_first_out_column() {
    for (clients, note) in [(8, 646.0), (64, 659.0), (256, 515.0), (1024, 255.0)] {
        let outcome = behind(|| Door::Note(NoteGate::fifo(32)), clients);
        print("fifo 32", clients, &outcome);
        let off = transactions(&outcome) / note - 1.0;
        assert!(off.abs() < 0.12, "{clients}: {:.0} for {note}", transactions(&outcome));
    }
}

/// The borrow keeps the threads hot: twice the throughput at 1024 clients, and the price is fairness.
#[test]
fn the_notes_borrow_pays_and_costs_fairness() {
    let fifo = behind(|| Door::Note(NoteGate::fifo(32)), 1024);
    let flifo = behind(|| Door::Note(NoteGate::flifo(16)), 1024);
    let none = behind(|| Door::Open, 1024);
    for (name, outcome) in [("none", &none), ("fifo 32", &fifo), ("flifo 16", &flifo)] {
        print(name, 1024, outcome);
    }
    assert!(flifo.rate > 1.8 * fifo.rate && fifo.rate > none.rate);
    assert!(flifo.p50 < fifo.p50 / 20.0 && flifo.p99 > 1.5 * fifo.p99, "served at once, or late");
    assert!(flifo.jain < 0.9 && fifo.jain > 0.97);
    assert!(flifo.borrowed > 0.5);
}

/// Flifo has both halves: as good at 1024 and at 4096 clients as at its best, and everybody gets the same.
#[test]
fn flifo_is_flat_and_fair() {
    let counts = [1, 8, 16, 64, 256, 1024, 4096];
    let outcomes = counts.map(|clients| behind(flifo, clients));
    let peak = outcomes.iter().map(|it| it.rate).fold(0.0, f64::max);
    for (clients, outcome) in counts.into_iter().zip(&outcomes) {
        print("flifo", clients, outcome);
        if clients >= 1024 {
            assert!(outcome.rate > 0.95 * peak, "{clients} clients: flat");
            assert!(outcome.p99 < 1.6 * outcome.p50, "{clients} clients: nobody is left behind");
        }
        if clients == 1024 {
            assert!(outcome.jain > 0.98, "{}", outcome.jain);
        }
    }
    let fifo = behind(|| Door::Note(NoteGate::fifo(32)), 1024);
    let borrowing = behind(|| Door::Note(NoteGate::flifo(16)), 1024);
    assert!(outcomes[5].rate > 2.5 * fifo.rate && outcomes[5].rate > 1.2 * borrowing.rate);
    assert!(outcomes[5].p99 < borrowing.p99 / 3.0);
}

/// A limit that is right for processors is wrong for a disk; the one that finds itself is right for both.
#[test]
fn a_disk_wants_another_limit() {
    for (name, io_share, better) in [("disk", 1.0, 1.7), ("mixed", 0.5, 1.7)] {
        let work = Work { io_share, ..CPU };
        let plan = || plan(work, 1024, 8000.0);
        let fifo = run(plan(), Door::Note(NoteGate::fifo(32)));
        let flifo = run(plan(), flifo());
        print(&format!("{name}: fifo 32"), 1024, &fifo);
        print(&format!("{name}: flifo"), 1024, &flifo);
        assert!(flifo.rate > better * fifo.rate);
    }
}
