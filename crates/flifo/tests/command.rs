//! The command as a shell sees it: what it prints where, and its exit codes.
//!
//! The tests of other packages start this program too. It is built with the same features for all of them because this
//! test needs it.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
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

/// A folder that holds nothing but Flifo.
fn alone(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // It may be there from an earlier run.
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::hard_link(env!("CARGO_BIN_EXE_flifo"), folder.join("flifo")).expect("a link");
    folder
}

#[test]
fn other_programs_commands_are_listed_and_passed_on_unchanged() {
    let help = flifo(&["--help"]).stdout;
    for command in ["demo", "bench", "lab"] {
        let help = String::from_utf8_lossy(&help);
        let is_its = |line: &str| line.split_whitespace().next() == Some(command);
        assert_eq!(help.lines().filter(|line| is_its(line)).count(), 1, "{help}");
    }
    // A program that prints its arguments stands in for flifo-bench.
    let folder = alone("passed-on");
    let path = folder.join("path");
    std::fs::create_dir(&path).expect("a folder");
    symlink("/bin/echo", path.join("flifo-bench")).expect("a link");
    for arguments in [
        &["bench", "--help"][..],
        &["bench", "run", "--", "a  b", "", "--clients=1..8"],
        &["demo", "--", "--json"],
        &["lab"],
        &["man", "bench-run"],
    ] {
        let mut command = Command::new(folder.join("flifo"));
        let output = command.args(arguments).env("PATH", &path).output().expect("flifo starts");
        assert_eq!(String::from_utf8_lossy(&output.stdout), arguments.join(" ") + "\n");
    }
}

#[test]
fn a_missing_flifo_bench_is_said_with_what_to_do() {
    let folder = alone("alone");
    let output =
        Command::new(folder.join("flifo")).args(["bench", "run"]).env("PATH", "/nowhere").output();
    let output = output.expect("flifo starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(69), &b""[..]), "{said}");
    let want = [
        "flifo: flifo-bench is not installed: `flifo bench` starts it",
        folder.to_str().expect("is text"),
        "Put it into one of these folders",
    ];
    assert!(want.iter().all(|part| said.contains(part)), "{said}");
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
