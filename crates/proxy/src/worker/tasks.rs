//! Tasks and threads, and what a panic in one of them ends. The runtime would swallow it, and what the task was to do
//! would never be done.
//!
//! Invariant: nothing of the running proxy is spawned but by this module; a test looks for it.

use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use tokio::task::JoinHandle;

use crate::worker::panics;

/// Spawns a task that Flifo cannot do without: a panic in it ends the process.
pub(crate) fn vital<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    tokio::task::spawn_local(Vital { task: Box::pin(task) })
}

/// Spawns a task that a panic may end: what it holds is given back when it is dropped, or by [`super::wreckage`].
pub(crate) fn contained<F>(task: F) -> JoinHandle<F::Output>
where
    F: Future + 'static,
    F::Output: 'static,
{
    tokio::task::spawn_local(task)
}

/// Does apart from the loop what takes longer than an iteration of it may. A simulated world has one thread: no seed says
/// when another one is done.
pub(crate) fn apart<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> JoinHandle<R> {
    #[cfg(feature = "simulation")]
    if sys::random::seeded::is_on() {
        return tokio::task::spawn_local(async move { work() });
    }
    tokio::task::spawn_blocking(work)
}

/// Starts a thread. A panic in it ends the process.
pub(crate) fn thread<R: Send + 'static>(
    builder: thread::Builder,
    work: impl FnOnce() -> R + Send + 'static,
) -> io::Result<thread::JoinHandle<R>> {
    builder.spawn(move || whole(work))
}

/// Does what must not be left half done: a panic in it ends the process.
pub(crate) fn whole<R>(work: impl FnOnce() -> R) -> R {
    let ends = EndsProcess;
    let done = work();
    mem::forget(ends);
    done
}

/// Dropped by a panic, it ends the process.
struct EndsProcess;

impl Drop for EndsProcess {
    fn drop(&mut self) {
        if thread::panicking() {
            panics::end_process("a panic in what it cannot do without");
        }
    }
}

struct Vital<F> {
    task: Pin<Box<F>>,
}

impl<F: Future> Future for Vital<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        whole(|| self.task.as_mut().poll(context))
    }
}
