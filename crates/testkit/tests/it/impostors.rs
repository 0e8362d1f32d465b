//! Servers that are not the server hear no password but where the configuration says so.

use testkit::flifo::program;
use testkit::impostor;

#[test]
fn an_impostor_hears_no_password_that_the_configuration_does_not_allow() {
    let report = impostor::run(program(), &(0..64), || false);
    assert!(report.findings.is_empty(), "{report}\n{}", report.findings.join("\n"));
    // Where it may be told, it is: the judge sees passwords.
    assert!(report.told.values().all(|count| *count > 0), "{report}");
}
