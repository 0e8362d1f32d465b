//! Steps at which a test may have a panic happen. There are none in a release build.
//!
//! `FLIFO_PANIC_AT` names a file. A thread that passes the step that its first line names takes that line away, and
//! panics; with the last line goes the file.

#[cfg(debug_assertions)]
use std::path::PathBuf;
#[cfg(debug_assertions)]
use std::sync::OnceLock;

/// A step at which a test may have a panic happen.
macro_rules! step {
    ($name:literal) => {
        #[cfg(debug_assertions)]
        $crate::worker::steps::pass($name);
    };
}

pub(crate) use step;

#[cfg(debug_assertions)]
#[track_caller]
pub(crate) fn pass(name: &str) {
    static FILE: OnceLock<Option<PathBuf>> = OnceLock::new();
    let file = FILE.get_or_init(|| std::env::var_os("FLIFO_PANIC_AT").map(PathBuf::from));
    let Some(file) = file else { return };
    let planted = std::fs::read_to_string(file).unwrap_or_default();
    let (first, rest) = planted.split_once('\n').unwrap_or((&planted, ""));
    if first.trim() != name {
        return;
    }
    let taken = match rest.trim().is_empty() {
        true => std::fs::remove_file(file),
        false => std::fs::write(file, rest),
    };
    // Of two threads that pass it, one takes it.
    assert!(taken.is_err(), "a test has planted this panic at the step {name:?}");
}
