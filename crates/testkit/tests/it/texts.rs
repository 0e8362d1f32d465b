//! Texts that are easily misread: what the server does with them is what their reading says, or more.

use testkit::texts::Site;

#[test]
fn no_text_is_read_as_less_than_it_does() {
    let mut site = Site::start(1);
    let outcome = site.run(2500);
    let misread: Vec<_> = outcome.misread.iter().take(20).collect();
    assert!(
        outcome.misread.is_empty(),
        "{} of {}: {misread:#?}",
        outcome.misread.len(),
        outcome.texts
    );
    assert!(outcome.ran > 500 && outcome.did > 250, "{outcome:?}");
}
