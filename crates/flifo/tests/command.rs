//! The command as a shell sees it: what it prints where, and its exit codes.
//!
//! The tests of other packages start this program too. It is built with the same features for all of them because this
//! test needs it.

use std::process::{Command, Output};

fn flifo(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flifo")).args(arguments).output().expect("flifo starts")
}

#[test]
fn what_is_asked_for_is_printed_and_is_no_failure() {
    for (asked, begins) in [("--version", "flifo "), ("--help", "A MySQL")] {
        let output = flifo(&[asked]);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert_eq!((output.status.code(), &output.stderr[..]), (Some(0), &b""[..]), "{asked}");
        assert!(printed.starts_with(begins), "{printed}");
    }
}

#[test]
fn a_mistake_is_explained_on_stderr() {
    for (wrong, code) in [(&["halt"][..], 64), (&["run", "--config", "/nowhere"], 78)] {
        let output = flifo(wrong);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &output.stdout[..]), (Some(code), &b""[..]), "{said}");
        assert!(said.contains(wrong[wrong.len() - 1]), "{said}");
    }
}
