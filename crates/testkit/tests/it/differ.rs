//! The differential test's own footing: what differs through Flifo must not differ without it.

use testkit::differ::campaign::{Campaign, Nothing};
use testkit::differ::generate::Shape;
use testkit::differ::program::Brand;
use testkit::differ::site::Site;

/// Else a difference would say nothing of what stands between.
#[test]
fn two_equal_servers_answer_alike() {
    let mut site = Site::start(Brand::MariaDb).expect("MariaDB is installed");
    let shape = Shape { brand: Brand::MariaDb, clients: 8, steps: 400, all: true };
    let campaign = Campaign { seed: 1, statements: 2000, links: vec![0], shape, shrinks: true };
    let found = campaign.run(&mut site, &mut Nothing, |_, found| found.is_none()).pop();
    assert!(found.is_none(), "{}", found.expect("a difference"));
}
