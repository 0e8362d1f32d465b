//! Whole processes in simulated worlds. What has shown a fault of Flifo is kept as a test that makes its moment: a seed draws
//! something else when a world changes.

use sim::configuration;
use sim::model::Flaw;
use sim::world::{Fault, Shape, run, run_program};
use testkit::differ::text;

/// Runs these worlds, and says what is wrong with the first in which something is.
fn first_fault(seeds: std::ops::Range<u64>, shape: impl Fn(u64) -> Shape) -> Option<(u64, Fault)> {
    seeds.into_iter().find_map(|seed| run(&shape(seed)).fault.map(|fault| (seed, fault)))
}

#[test]
fn clients_are_answered_as_directly_and_nothing_is_left() {
    if let Some((seed, fault)) = first_fault(0..150, Shape::of) {
        panic!(
            "cargo xtask sim --seeds {seed}: {fault}\n{}",
            configuration::first(&Shape::of(seed))
        );
    }
}

/// Found by a seed in which the connection broke at this moment.
#[test]
fn a_server_that_goes_when_it_is_asked_which_account_it_has_given_is_told_of() {
    let program = "client 0 user 2 schema\n0 connect\n";
    let is_passed_through = |shape: &Shape| !configuration::first(shape).contains("\"f2\"");
    let shapes = (0..).map(|seed| Shape { faults: false, ..Shape::of(seed) });
    let shape = shapes.into_iter().find(is_passed_through).expect("one of four");
    let shape = Shape { flaw: Some(Flaw::LeavesWhenAskedForAccount), ..shape };
    let report = run_program(&shape, &text::parse(program).expect("a program"));
    let told = format!("{}", report.fault.expect("directly it logs in"));
    assert!(told.contains("through Flifo: [0] ERR 1429"), "{told}");
}

/// Worlds with one connection, in which one statement on `t` runs at once.
fn narrow_worlds() -> impl Iterator<Item = Shape> {
    let shapes = (0..8000).map(|seed| Shape {
        faults: false,
        reloads: false,
        upgrades: 0,
        ..Shape::of(seed)
    });
    shapes.filter(|shape| {
        let configuration = configuration::first(shape);
        let is_narrow = configuration.contains("connections_max = 1\n");
        is_narrow && configuration.contains("at_once = 1\nmatch.table = \"t\"")
    })
}

/// Found by a seed in which the only connection was kept for its client's diagnostics while that client waited for a
/// place under a rule, and what had the place waited for the connection.
#[test]
fn what_waits_for_a_rule_does_not_keep_the_connection_that_the_rules_place_needs() {
    let programs = [
        "client 0 user 2 schema\nclient 1 user 0\n0 connect\n1 connect\n1 use d1\n1 drop SELECT SLEEP(0.03)\n1 connect\n\
         0 query SELECT 1; SELECT * FROM t; SELECT @a\n1 query UPDATE t SET b = 17 WHERE id = 10\n",
        "client 0 user 0 schema\nclient 1 user 0\n0 connect\n1 connect\n0 query CREATE TEMPORARY TABLE tmp (a INT)\n\
         0 query SELECT SLEEP(0.5)\n1 query SELECT * FROM d1.t\n1 query SELECT * FROM d1.t\n1 query SELECT * FROM d1.t\n\
         0 query SELECT * FROM t\n0 query DROP TABLE tmp\n",
    ];
    let (mut worlds, mut narrow) = (0, narrow_worlds());
    for shape in narrow.by_ref().take(40) {
        for program in programs {
            let report = run_program(&shape, &text::parse(program).expect("a program"));
            worlds += 1;
            if let Some(fault) = report.fault {
                panic!("{}: {fault}\n{program}\n{}", shape.seed, configuration::first(&shape));
            }
        }
    }
    assert!(worlds >= 40, "{worlds}");
}

#[test]
fn a_seed_gives_the_same_bytes_twice() {
    for seed in 0..20 {
        let [one, other] = [0; 2].map(|_| run(&Shape::of(seed)));
        assert_eq!((one.digest, one.trace), (other.digest, other.trace), "seed {seed}");
    }
}

#[test]
fn what_a_server_does_wrong_is_found() {
    let with = |flaw: Flaw| {
        let shape = move |seed: u64| Shape { flaw: Some(flaw), faults: false, ..Shape::of(seed) };
        first_fault(0..40, shape).map(|(_, fault)| fault)
    };
    assert!(matches!(with(Flaw::ForgetsVariable), Some(Fault::Answer(_))));
    assert!(matches!(with(Flaw::WritesTwice), Some(Fault::Answer(_) | Fault::Lost(_))));
    assert!(matches!(with(Flaw::WritesNothing), Some(Fault::Answer(_) | Fault::Lost(_))));
    assert!(matches!(with(Flaw::AnswersNothing), Some(Fault::Answer(_) | Fault::Late(_))));
}

#[test]
fn a_write_that_is_lost_or_done_twice_is_found_while_things_go_wrong() {
    for flaw in [Flaw::WritesTwice, Flaw::WritesNothing] {
        let shape = move |seed: u64| Shape { flaw: Some(flaw), faults: true, ..Shape::of(seed) };
        let found = (0..60).filter_map(|seed| run(&shape(seed)).fault);
        assert!(found.into_iter().any(|fault| matches!(fault, Fault::Lost(_))), "{flaw:?}");
    }
}
