//! The differential test: programs of eight clients, through few links and directly.

use testkit::differ::campaign::{Campaign, Nothing};
use testkit::differ::generate::Shape;
use testkit::differ::program::Brand;
use testkit::differ::site::Site;

fn campaign(seed: u64, statements: usize, links: &[u32]) -> Campaign {
    let shape = Shape { brand: Brand::MariaDb, clients: 8, steps: 400 };
    Campaign { seed, statements, links: links.to_vec(), shape, shrinks: true }
}

/// Else a difference would say nothing of what stands between.
#[test]
fn two_equal_servers_answer_alike() {
    let mut site = Site::start(Brand::MariaDb).expect("MariaDB is installed");
    let found = campaign(1, 2000, &[0]).run(&mut site, &mut Nothing, |_, _| true);
    let found: Vec<_> = found.iter().map(ToString::to_string).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
