//! Whole processes in simulated worlds. What has shown a fault of Flifo is kept in `found/`: the program, below the seed of
//! its world.

use std::fs;
use std::path::Path;

use sim::model::Flaw;
use sim::world::{Fault, Shape, configuration, run, run_program};
use testkit::differ::text;

/// Runs these worlds, and says what is wrong with the first in which something is.
fn first_fault(seeds: std::ops::Range<u64>, shape: impl Fn(u64) -> Shape) -> Option<(u64, Fault)> {
    seeds.into_iter().find_map(|seed| run(&shape(seed)).fault.map(|fault| (seed, fault)))
}

#[test]
fn clients_are_answered_as_directly_and_nothing_is_left() {
    if let Some((seed, fault)) = first_fault(0..150, Shape::of) {
        panic!("cargo xtask sim --seeds {seed}: {fault}\n{}", configuration(&Shape::of(seed)));
    }
}

#[test]
fn what_was_wrong_once_is_right() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/found");
    let mut count = 0;
    for file in fs::read_dir(folder).expect("a folder").map(|file| file.expect("a file").path()) {
        let program = fs::read_to_string(&file).expect("a text");
        let program = text::parse(&program).expect("a program");
        let seed = program.title[0].strip_prefix("Seed ").and_then(|it| it.strip_suffix('.'));
        let shape = Shape::of(seed.and_then(|seed| seed.parse().ok()).expect("a seed"));
        if let Some(fault) = run_program(&shape, &program).fault {
            panic!("{}: {fault}\n{}", file.display(), configuration(&shape));
        }
        count += 1;
    }
    assert!(count > 0);
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
