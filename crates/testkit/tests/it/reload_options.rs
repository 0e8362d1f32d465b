//! Each option of the reference is changed while one Flifo runs, one by one and in random sets. More sets, and other
//! seeds: `cargo xtask reloads --sets N`.

use bench::workloads::random::Random;
use testkit::option_changes::{OptionStand, Topology};

/// Sets of options of one topology.
const SETS: u32 = 25;

fn change(topology: Topology, seed: u64) {
    let mut random = Random::new(seed);
    let mut stand = OptionStand::start(testkit::flifo::program(), topology);
    stand.change_each(&mut random);
    stand.refuse_each();
    stand.change_sets(&mut random, SETS);
    stand.end();
}

#[test]
fn each_option_is_in_force_as_the_reference_says() {
    change(Topology::Only, 1);
}

#[test]
fn each_option_of_several_servers_is_in_force_as_the_reference_says() {
    change(Topology::Listed, 2);
}
