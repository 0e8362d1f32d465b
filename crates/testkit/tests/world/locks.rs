//! Row locks: a client that holds a lock must not wait for the clients that want it.

use testkit::world::{Door, Locks, Outcome, Plan, Process, Server, Transactions, Work, run};

const SERVER: Server = Server { cores: 8, spread: [0.03, 0.002], crowd: 0.02, disk: 0 };
const WORK: Work =
    Work { cpu: 1.0, io_share: 0.0, io_count: 0, io: 0.0, heavy_share: 0.0, heavy: 1.0 };
const LIMIT: u32 = 12;

fn plan(hot_rows: usize) -> Plan {
    let mut plan = Plan::closed(9, SERVER, WORK, 256, 2.0).lasting(3000.0, 12_000.0);
    plan.transactions = Some(Transactions {
        share: 0.3,
        by_client: false,
        hot_rows,
        patience: 3000.0,
        blocker: None,
    });
    plan
}

fn flifo(locks: Locks) -> Door {
    Door::Flifo(vec![Process::fixed(LIMIT, 1).with_locks(locks)])
}

fn print(name: &str, outcome: &Outcome) {
    println!(
        "{name:<20} {:5.0} writes/s {:5.0} reads/s, p99 {:6.0} / {:5.0} ms, {:3} timeouts, most {}",
        outcome.writes,
        outcome.reads,
        outcome.writes_p99,
        outcome.reads_p99,
        outcome.timeouts,
        outcome.most
    );
}

/// A gate that knows of no locks stands still: the slots are full of statements that wait for a client in the queue.
#[test]
fn lock_holders_enter_at_once() {
    for hot_rows in [64, 8] {
        let open = run(plan(hot_rows), Door::Open);
        let ignored = run(plan(hot_rows), flifo(Locks::Ignored));
        let known = run(plan(hot_rows), flifo(Locks::Known));
        println!("{hot_rows} hot rows");
        print("no gate", &open);
        print("locks unknown", &ignored);
        print("lock holders enter", &known);
        assert_eq!(known.timeouts, 0, "no lock wait fails because of the gate");
        assert!(known.writes > 20.0 * ignored.writes.max(1.0) && ignored.timeouts > 0);
        // With eight rows the locks are the limit, gate or not.
        let better = if hot_rows == 64 { 2.0 } else { 1.05 };
        assert!(known.writes > better * open.writes && known.reads > better * open.reads);
    }
}

fn blocked(door: Door) -> (f64, Outcome) {
    let mut plan = plan(8);
    plan.end = 11_000.0;
    plan.marks = vec![6000.0, 8000.0];
    let transactions = plan.transactions.as_mut().expect("as above");
    transactions.by_client = true;
    transactions.patience = 1e9;
    transactions.blocker = Some((6000.0, 8000.0));
    let outcome = run(plan, door);
    (outcome.reads_between[1], outcome)
}

/// A session from outside holds all hot rows for two seconds. Clients that do not touch them keep 0.9 of what an oracle
/// would give them: a server of their own.
#[test]
fn a_blocker_outside_does_not_stop_the_others() {
    let mut alone = plan(8);
    alone.transactions = None;
    let Plan { arrivals: testkit::world::Arrivals::Closed { clients, .. }, .. } = &mut alone else {
        unreachable!("closed as above")
    };
    *clients = 179;
    let oracle = run(alone, flifo(Locks::Known)).rate;
    let process = || Process::fixed(LIMIT, 1);
    let (unparked, outcome) = blocked(Door::Flifo(vec![process()]));
    print("never parked", &outcome);
    let (parked, outcome) = blocked(Door::Flifo(vec![process().parking(20.0)]));
    print("parked", &outcome);
    let (slow, outcome) = blocked(Door::Flifo(vec![process().parking(100.0)]));
    print("looked at each 100 ms", &outcome);
    println!("reads/s meanwhile: {unparked:.0}, {parked:.0}, {slow:.0}, oracle {oracle:.0}");
    assert!(unparked < 0.2 * oracle, "what parking is for");
    assert!(parked >= 0.9 * oracle && slow >= 0.8 * oracle);
    assert_eq!(outcome.timeouts, 0);
}
