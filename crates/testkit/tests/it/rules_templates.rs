//! Templates made by chance: what comes back through Flifo is what the reference's text brings directly.

use bench::private_server::PrivateServer;
use testkit::differ::random_rules::Chance;
use testkit::differ::random_templates::compare;

#[test]
fn rewritten_statements_bring_what_the_reference_brings() {
    let server = PrivateServer::start_default().expect("a private server");
    let mut chance = Chance::new(7);
    let compared = compare(&server, testkit::flifo::program(), &mut chance, (60, 40));
    let compared = compared.unwrap_or_else(|difference| panic!("{difference}"));
    assert_eq!(compared.statements, 60 * 40);
    assert!(compared.rows > 500, "{compared:?}");
}
