//! Panics: each one is a fault of Flifo's own. It is counted, logged with its place, and shown by `/health`.
//!
//! What a panic ends is decided by where it happens. A client's task and a backend's end with what they held
//! ([`super::wreckage`]). Everything else is vital ([`super::tasks`]): a worker's loop, checks, the doors of the console and
//! of the HTTP port, the threads of logs, mirrors and placement. A panic there ends the process, which a supervisor starts
//! again; so does one while a worker changes what all of its clients depend on. Invariant: no panic is swallowed.

use std::cell::RefCell;
use std::panic::{self, PanicHookInfo};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, Once, PoisonError};
use std::time::SystemTime;

/// The exit status of a process that ends by a fault of its own (`EX_SOFTWARE`).
const SOFTWARE: i32 = 70;

static COUNT: AtomicU64 = AtomicU64::new(0);
static LAST: Mutex<Option<LastPanic>> = Mutex::new(None);
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Where the last one was, and when.
#[derive(Clone, Debug)]
pub(crate) struct LastPanic {
    pub(crate) place: String,
    pub(crate) at: SystemTime,
}

/// Whether a worker is in the middle of changing what all of its clients depend on.
type InDoubt = Box<dyn Fn() -> bool>;

thread_local! {
    static DOUBT: RefCell<Option<InDoubt>> = const { RefCell::new(None) };
}

/// How many panics there were.
pub(crate) fn count() -> u64 {
    COUNT.load(Relaxed)
}

/// The last one, if there was one.
pub(crate) fn last() -> Option<LastPanic> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Has panics counted and logged from now on.
pub(crate) fn watch() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| panic::set_hook(Box::new(see)));
}

/// A panic on this thread ends the process if `is_in_doubt` says so then.
pub(crate) fn ask_of_doubt(is_in_doubt: impl Fn() -> bool + 'static) {
    DOUBT.set(Some(Box::new(is_in_doubt)));
}

fn see(info: &PanicHookInfo<'_>) {
    COUNT.fetch_add(1, Relaxed);
    let place = info.location().map_or_else(|| "?".to_owned(), ToString::to_string);
    let thread = std::thread::current();
    let thread = thread.name().unwrap_or("?");
    // It may hold what a client wrote.
    let message = info.payload_as_str().unwrap_or("(no text)").escape_debug().to_string();
    tracing::error!(
        place,
        thread,
        message,
        "panicked: a fault of Flifo's own; please report it with this line"
    );
    *LAST.lock().unwrap_or_else(PoisonError::into_inner) =
        Some(LastPanic { place, at: SystemTime::now() });
    let is_in_doubt =
        DOUBT.try_with(|it| it.try_borrow().is_ok_and(|it| it.as_ref().is_some_and(|ask| ask())));
    if is_in_doubt.unwrap_or(false) {
        end_process("the state of a worker is in doubt");
    }
}

/// Ends the process behind a panic that cannot be undone: a supervisor starts it again.
pub(crate) fn end_process(why: &str) -> ! {
    if !IS_ENDING.swap(true, Relaxed) {
        tracing::error!(why, "Flifo ends because of a panic; a supervisor starts it again");
    }
    std::process::exit(SOFTWARE)
}
