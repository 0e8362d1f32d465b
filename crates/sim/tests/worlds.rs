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
