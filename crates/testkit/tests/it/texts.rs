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

#[test]
fn a_literal_within_a_name_is_none_that_shows() {
    let mut site = Site::start(1);
    let text = b"SELECT 'k77k', 1 AS `\xbf`, 'k77k' -- `";
    // In gbk and big5 the name's byte and the quote behind it are one character; in latin1 the name ends there.
    for charset in ["gbk", "big5", "latin1"] {
        let outcome = site.run_one(charset, "", text);
        assert!(outcome.ran == 1 && outcome.misread.is_empty(), "{charset}: {outcome:?}");
    }
}
