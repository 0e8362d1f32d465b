//! The ways into the small engine: an open door, and three that let in a limited number at once.
//!
//! The slots, the two counts of the note and the order of clients and threads are the engine's own
//! ([`engine::slots`], [`engine::gate`]), the same that Flifo runs; what is added here is how threads of the operating
//! system wait. Invariants: a waiting thread is called exactly once for each wait; a slot that is given back goes
//! to the waiter that has waited longest.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use engine::classes::{Class, Classes};
use engine::gate::{Ask, Gate, Slot, Start};
use engine::places::ConnectionPlaces;
use engine::slots::Slots;

use super::work::Statement;

/// Where one thread waits to be called.
#[derive(Debug, Default)]
pub(super) struct Seat {
    thread: OnceLock<Thread>,
    is_called: AtomicBool,
}

impl Seat {
    /// The calling thread is the one that will wait here.
    pub(super) fn take(&self) {
        let _ = self.thread.set(thread::current());
    }

    pub(super) fn wait(&self) {
        while !self.is_called.swap(false, Ordering::Acquire) {
            thread::park();
        }
    }

    pub(super) fn call(&self) {
        self.is_called.store(true, Ordering::Release);
        // One that has not taken its seat yet sees the call before it parks.
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

/// The note's gate: threads enter and leave, and the line is of threads.
///
/// With a borrow it is FLIFO: while `fifo-pending` threads have been called and do not run yet, as
/// many newcomers are let in (`lifo-running`). Without, it is the gate before the note.
pub(super) struct Line {
    slots: Slots,
    waiting: Mutex<VecDeque<Arc<Seat>>>,
}

/// By which rule a thread was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    Fifo,
    Lifo,
}

impl Line {
    pub(super) fn fifo(limit: u32) -> Self {
        let slots = Slots::new(limit, 1, Instant::now());
        Self { slots, waiting: Mutex::default() }
    }

    pub(super) fn flifo(limit: u32) -> Self {
        let line = Self::fifo(limit);
        // The note sets no bound to how long those in the queue may be overtaken.
        line.slots.let_borrow(Duration::MAX);
        line
    }

    pub(super) fn enter(&self, seat: &Arc<Seat>) -> Pass {
        let mut waiting = lock(&self.waiting);
        if waiting.is_empty() && self.slots.try_take() {
            return Pass::Fifo;
        }
        if self.slots.try_borrow(Instant::now()) {
            return Pass::Lifo;
        }
        waiting.push_back(Arc::clone(seat));
        drop(waiting);
        seat.wait();
        // From here on it runs: one less is pending.
        self.slots.claim(0);
        Pass::Fifo
    }

    pub(super) fn leave(&self, pass: Pass) {
        if pass == Pass::Lifo {
            return self.slots.give_back_borrowed();
        }
        let mut waiting = lock(&self.waiting);
        let Some(next) = waiting.pop_front() else {
            let other = self.slots.give_back(0);
            debug_assert_eq!(other, None, "there is one worker only");
            return;
        };
        drop(waiting);
        self.slots.grant(0);
        next.call();
    }
}

/// The gate of a proxy: statements wait in it, not threads, and a few threads that stay hot run them. Clients
/// first-in-first-out, threads last-in-first-out.
pub(super) struct Hot {
    gate: Mutex<Gate<(), Waiter, usize>>,
    /// Of the clients.
    seats: Box<[Arc<Seat>]>,
    threads: Box<[HotThread]>,
    is_closing: AtomicBool,
}

#[derive(Debug)]
struct Waiter {
    client: usize,
    statement: Statement,
}

#[derive(Default)]
struct HotThread {
    seat: Seat,
    job: Mutex<Option<(Waiter, Slot)>>,
}

impl Hot {
    /// `limit` threads for the clients that wait on these seats.
    pub(super) fn new(limit: u32, seats: &[Arc<Seat>]) -> Self {
        let now = Instant::now();
        let slots = Arc::new(Slots::new(limit, 1, now));
        let cap = Arc::new(ConnectionPlaces::new(limit, 1, Instant::now()));
        let classes = Arc::new(Classes::new(vec![Class::default()], 1));
        let mut gate = Gate::new(0, slots, cap, classes);
        for thread in 0..limit as usize {
            gate.put((), thread, now);
        }
        Self {
            gate: Mutex::new(gate),
            seats: seats.into(),
            threads: (0..limit).map(|_| HotThread::default()).collect(),
            is_closing: AtomicBool::new(false),
        }
    }

    /// How many threads must call [`Self::serve`].
    pub(super) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Asks, and waits until it is done.
    pub(super) fn ask(&self, client: usize, statement: Statement) {
        let waiter = Waiter { client, statement };
        let now = Instant::now();
        let mut gate = lock(&self.gate);
        match gate.enter((), Ask::default(), now, |_| true) {
            Some((thread, slot)) => self.start(thread, waiter, slot),
            None => {
                let joined = gate.wait((), waiter, Ask::default(), now);
                debug_assert!(joined.is_ok(), "this line has no bound");
                self.start_all(&mut gate, now);
            }
        }
        drop(gate);
        self.seats[client].wait();
    }

    /// One thread's work, until [`Self::close`].
    pub(super) fn serve(&self, thread: usize, mut run: impl FnMut(Statement)) {
        let own = &self.threads[thread];
        own.seat.take();
        loop {
            let job = lock(&own.job).take();
            let Some((waiter, slot)) = job else {
                if self.is_closing.load(Ordering::Acquire) {
                    return;
                }
                own.seat.wait();
                continue;
            };
            run(waiter.statement);
            let now = Instant::now();
            let mut gate = lock(&self.gate);
            // It is the last one in, so it is the first one out: this thread goes on.
            gate.put((), thread, now);
            if let Some(start) = gate.pass_on(slot, now, |_, _| true) {
                self.begin(start);
            }
            self.start_all(&mut gate, now);
            drop(gate);
            self.seats[waiter.client].call();
        }
    }

    /// Ends the threads, when no client asks any more.
    pub(super) fn close(&self) {
        self.is_closing.store(true, Ordering::Release);
        for thread in &self.threads {
            thread.seat.call();
        }
    }

    fn start_all(&self, gate: &mut Gate<(), Waiter, usize>, now: Instant) {
        while let Some(start) = gate.next(now, |_, _| true) {
            self.begin(start);
        }
    }

    fn begin(&self, start: Start<Waiter, usize>) {
        // No client here holds a thread of its own.
        if let Start::On(waiter, thread, slot) = start {
            self.start(thread, waiter, slot);
        }
    }

    fn start(&self, thread: usize, waiter: Waiter, slot: Slot) {
        let thread = &self.threads[thread];
        *lock(&thread.job) = Some((waiter, slot));
        if thread.seat.thread.get().is_none_or(|it| it.id() != thread::current().id()) {
            thread.seat.call();
        }
    }
}

/// What a thread that panicked has left is still in order: nothing here panics halfway.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
