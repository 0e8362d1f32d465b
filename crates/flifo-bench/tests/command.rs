//! The command as a shell sees it: what it prints where, and its exit codes.
//!
//! The tests of other packages start this program too. It is built with the same features for all of them because this
//! test needs it.

use std::os::unix::process::CommandExt;
use std::process::{Command, Output};

fn flifo_bench(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flifo-bench"));
    command.args(arguments).output().expect("flifo-bench starts")
}

#[test]
fn what_is_asked_for_is_printed_and_is_no_failure() {
    for (asked, has) in [
        (&["--version"][..], "flifo-bench "),
        (&["--help"], "Usage: flifo-bench <COMMAND>"),
        (&["bench", "--help"], "Usage: flifo-bench bench <COMMAND>"),
        (&["man", "bench-run"], "flifo\\-bench\\-bench\\-run"),
        (&["lab", "list"], "pagefaults"),
    ] {
        let output = flifo_bench(asked);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]), "{asked:?}");
        assert!(printed.contains(has), "{printed}");
    }
}

#[test]
fn it_goes_by_the_name_under_which_it_was_started() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flifo-bench"));
    let help = command.arg0("/usr/bin/flifo").args(["bench", "--help"]).output().expect("starts");
    let help = String::from_utf8_lossy(&help.stdout);
    assert!(help.contains("Usage: flifo bench <COMMAND>"), "{help}");
}

#[test]
fn a_mistake_is_explained_on_stderr() {
    for (wrong, code) in [
        (&["run"][..], 64),
        (&["bench", "run", "--clients", "8..1"], 64),
        (&["lab", "run", "nonsense"], 64),
        (&["bench", "page", "/nowhere"], 69),
    ] {
        let output = flifo_bench(wrong);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(code), &b""[..]), "{said}");
        assert!(said.contains(wrong[wrong.len() - 1]), "{said}");
    }
}
