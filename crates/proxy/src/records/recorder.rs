//! From the threads that have something to tell to the file: a queue that is never waited for, and the thread that
//! writes what is in it.
//!
//! The thread sleeps between its rounds instead of being woken: to hand an entry over is no system call. Invariants: the
//! queue has a bound of entries and one of bytes; each entry that was handed over while the log is on is written or
//! counted as lost.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};
use std::{fmt, io};

use super::file::{RecordError, RecordFile};
use crate::config::RecordOptions;

/// What can be written.
pub(crate) trait Record: Send + 'static {
    /// What ends one that was broken off.
    const BREAK: &'static str;

    /// How much memory it takes.
    fn size(&self) -> usize;

    /// When it ended.
    fn at(&self) -> Instant;

    /// Appends it. `lost`: how many are missing before it.
    fn put(&self, at: SystemTime, lost: u64, out: &mut String);
}

/// Entries that wait to be written.
const ENTRIES_MAX: usize = 8192;

/// And the memory that they take.
const BYTES_MAX: usize = 8 << 20;

/// The time between two rounds of the thread.
const PERIOD: Duration = Duration::from_millis(50);

/// Bytes of one write.
const WRITE: usize = 32 << 10;

/// Losses are told again after this time.
const TELL: Duration = Duration::from_secs(10);

/// One log.
pub(crate) struct Recorder<R> {
    /// The section of its options.
    name: &'static str,
    /// Made with the thread, when the log is on for the first time.
    queue: OnceLock<SyncSender<Box<R>>>,
    bytes: AtomicUsize,
    written: AtomicU64,
    lost: AtomicU64,
    /// Where entries go by the options in force.
    path: Mutex<Option<PathBuf>>,
    orders: Mutex<Orders>,
    thread: Mutex<Writer>,
}

impl<R> fmt::Debug for Recorder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("name", &self.name).finish_non_exhaustive()
    }
}

/// What a log has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordCounts {
    pub(crate) written: u64,
    pub(crate) lost: u64,
}

/// What the thread is to do before it writes on.
#[derive(Debug)]
struct Orders {
    /// Options that are in force now.
    options: Option<RecordOptions>,
    /// Another file, or none any more.
    file: Option<Option<RecordFile>>,
    reopens: bool,
    ends: bool,
}

impl Orders {
    const NONE: Self = Self { options: None, file: None, reopens: false, ends: false };
}

#[derive(Debug, Default)]
enum Writer {
    /// It may not start yet.
    #[default]
    Early,
    /// It starts as soon as there is a file.
    Due,
    Runs(JoinHandle<()>),
}

impl<R: Record> Recorder<R> {
    pub(super) const fn new(name: &'static str) -> Self {
        Self {
            name,
            queue: OnceLock::new(),
            bytes: AtomicUsize::new(0),
            written: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            path: Mutex::new(None),
            orders: Mutex::new(Orders::NONE),
            thread: Mutex::new(Writer::Early),
        }
    }

    /// Hands an entry over. It is lost where the thread lags too far behind.
    pub(crate) fn hand_over(&self, record: Box<R>) {
        // Off, or turned off a moment ago.
        let Some(queue) = self.queue.get() else { return };
        let size = record.size();
        let before = self.bytes.fetch_add(size, Ordering::Relaxed);
        if before.saturating_add(size) > BYTES_MAX || queue.try_send(record).is_err() {
            self.bytes.fetch_sub(size, Ordering::Relaxed);
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> RecordCounts {
        let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
        RecordCounts { written: read(&self.written), lost: read(&self.lost) }
    }

    /// Makes ready what these options ask for; the answer puts it in force.
    pub(super) fn prepare(
        self: &Arc<Self>,
        options: &RecordOptions,
    ) -> Result<impl FnOnce() + Send + use<R>, RecordError> {
        let is_same = *held(&self.path) == options.file;
        let file = match &options.file {
            _ if is_same => None,
            Some(path) => Some(Some(RecordFile::open(self.name, path.clone(), options)?)),
            None => Some(None),
        };
        let (recorder, options) = (Arc::clone(self), options.clone());
        Ok(move || {
            held(&recorder.path).clone_from(&options.file);
            recorder.order(|orders| {
                orders.options = Some(options);
                if file.is_some() {
                    orders.file = file;
                }
            });
            recorder.start_if_due();
        })
    }

    /// From now on there may be a thread.
    pub(super) fn start(self: &Arc<Self>) {
        *held(&self.thread) = Writer::Due;
        self.start_if_due();
    }

    fn start_if_due(self: &Arc<Self>) {
        let mut thread = held(&self.thread);
        let has_file = matches!(held(&self.orders).file, Some(Some(_)));
        if !matches!(*thread, Writer::Due) || !has_file {
            return;
        }
        let (queue, entries) = sync_channel(ENTRIES_MAX);
        let recorder = Arc::clone(self);
        let name = self.name.to_owned();
        let builder = std::thread::Builder::new().name(name);
        match crate::worker::tasks::thread(builder, move || recorder.write(&entries)) {
            Ok(handle) => {
                *thread = Writer::Runs(handle);
                // It is empty: there was no thread.
                let _ = self.queue.set(queue);
            }
            Err(error) => tracing::error!(log = self.name, %error, "the log cannot be written"),
        }
    }

    /// Goes on in the file that has the configured name now.
    pub(super) fn reopen(&self) {
        self.order(|orders| orders.reopens = true);
    }

    /// Ends the thread when all is written, but waits no longer than `until`.
    pub(super) fn end(&self, until: Instant) {
        self.order(|orders| orders.ends = true);
        let Writer::Runs(handle) = std::mem::take(&mut *held(&self.thread)) else { return };
        while !handle.is_finished() && crate::worker::clock::read() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        if !handle.is_finished() {
            tracing::warn!(log = self.name, "Flifo ends before all entries are written");
        }
    }

    fn order(&self, order: impl FnOnce(&mut Orders)) {
        order(&mut held(&self.orders));
        if let Writer::Runs(handle) = &*held(&self.thread) {
            handle.thread().unpark();
        }
    }

    /// The thread.
    fn write(&self, entries: &Receiver<Box<R>>) {
        let mut pen = Pen::new(self.name);
        loop {
            let orders = std::mem::replace(&mut *held(&self.orders), Orders::NONE);
            let ends = orders.ends;
            if pen.file.is_some() {
                // What was handed over before the orders goes where it would have gone without them.
                pen.write_all(self, entries);
                pen.obey(orders);
            } else {
                pen.obey(orders);
                pen.write_all(self, entries);
            }
            pen.tell_losses(self.counts());
            if ends {
                return;
            }
            match pen.file {
                Some(_) => std::thread::park_timeout(PERIOD),
                None => std::thread::park(),
            }
        }
    }
}

fn held<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the thread has.
struct Pen {
    name: &'static str,
    file: Option<RecordFile>,
    out: String,
    /// Where each entry in `out` ends.
    ends: Vec<usize>,
    losses: Losses,
    /// Why a full file could not be renamed.
    cannot_rename: Option<io::Error>,
}

/// Which losses are told of where.
#[derive(Debug, Default)]
struct Losses {
    in_file: u64,
    /// Those that the first entry in `out` tells of, once it is written.
    in_out: u64,
    in_log: u64,
    /// When Flifo's own log was told last.
    told: Option<Instant>,
    why: Option<io::Error>,
}

impl Pen {
    fn new(name: &'static str) -> Self {
        let (out, ends, losses) = (String::new(), Vec::new(), Losses::default());
        Self { name, file: None, out, ends, losses, cannot_rename: None }
    }

    /// Writes what is in the queue, but no more than it can hold: else orders would never be looked at.
    fn write_all<R: Record>(&mut self, recorder: &Recorder<R>, entries: &Receiver<Box<R>>) {
        let clock = (SystemTime::now(), crate::worker::clock::read());
        for record in entries.try_iter().take(ENTRIES_MAX) {
            recorder.bytes.fetch_sub(record.size(), Ordering::Relaxed);
            if self.file.is_none() {
                continue;
            }
            let ago = clock.1.saturating_duration_since(record.at());
            let at = clock.0.checked_sub(ago).unwrap_or(clock.0);
            let mut missing = 0;
            if self.ends.is_empty() {
                self.losses.in_out = recorder.counts().lost;
                missing = self.losses.in_out - self.losses.in_file;
            }
            record.put(at, missing, &mut self.out);
            self.ends.push(self.out.len());
            if self.out.len() >= WRITE {
                self.flush(recorder);
            }
        }
        self.flush(recorder);
    }

    fn flush<R: Record>(&mut self, recorder: &Recorder<R>) {
        let Some(file) = self.file.as_mut().filter(|_| !self.ends.is_empty()) else { return };
        if let Err(error) = file.make_room(self.out.len()) {
            self.cannot_rename = Some(error);
        }
        let count = self.ends.len();
        let written = match file.append(self.out.as_bytes(), R::BREAK) {
            Ok(()) => count,
            Err(unwritten) => {
                self.losses.why = Some(unwritten.error);
                self.ends.iter().filter(|end| **end <= unwritten.written).count()
            }
        };
        if written > 0 {
            self.losses.in_file = self.losses.in_out;
        }
        recorder.written.fetch_add(written as u64, Ordering::Relaxed);
        recorder.lost.fetch_add((count - written) as u64, Ordering::Relaxed);
        self.out.clear();
        self.ends.clear();
    }

    fn obey(&mut self, orders: Orders) {
        if let Some(file) = orders.file {
            self.file = file;
        }
        let Some(file) = &mut self.file else { return };
        if let Some(options) = &orders.options {
            file.adopt(options);
        }
        if orders.reopens {
            match file.reopen() {
                Ok(()) => tracing::info!(log = self.name, "log file reopened"),
                Err(error) => {
                    tracing::error!("log reopen failed, still writing to the old file: {error}");
                }
            }
        }
    }

    /// Tells Flifo's own log what was lost, if it was not told a moment ago.
    fn tell_losses(&mut self, counts: RecordCounts) {
        let (losses, now) = (&mut self.losses, crate::worker::clock::read());
        let is_told = losses.told.is_some_and(|told| now.duration_since(told) < TELL);
        if is_told || counts.lost == losses.in_log && self.cannot_rename.is_none() {
            return;
        }
        losses.told = Some(now);
        if let Some(error) = self.cannot_rename.take() {
            tracing::warn!(log = self.name, %error, "a log file is full and cannot be renamed: it grows on");
        }
        let lost = counts.lost - losses.in_log;
        losses.in_log = counts.lost;
        let why = losses.why.take();
        let why =
            why.map_or_else(|| "more came than could be written".to_owned(), |it| it.to_string());
        if lost > 0 {
            tracing::warn!(log = self.name, lost, why, "entries of a log were lost");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[derive(Debug)]
    struct Line(String);

    impl Record for Line {
        const BREAK: &'static str = "\n";

        fn size(&self) -> usize {
            self.0.len()
        }

        fn at(&self) -> Instant {
            Instant::now()
        }

        fn put(&self, _: SystemTime, lost: u64, out: &mut String) {
            if lost > 0 {
                out.push_str(&format!("lost {lost}\n"));
            }
            out.push_str(&self.0);
            out.push('\n');
        }
    }

    fn options(file: Option<&Path>) -> RecordOptions {
        RecordOptions { file: file.map(Path::to_owned), ..RecordOptions::default() }
    }

    fn put_in_force(recorder: &Arc<Recorder<Line>>, file: Option<&Path>) {
        recorder.prepare(&options(file)).expect("opens")();
    }

    fn tell(recorder: &Recorder<Line>, text: &str) {
        recorder.hand_over(Box::new(Line(text.to_owned())));
    }

    fn end(recorder: &Recorder<Line>) {
        recorder.end(Instant::now() + Duration::from_mins(1));
    }

    /// Waits for the thread.
    fn until(is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_mins(1), "the thread does not write");
            std::thread::yield_now();
        }
    }

    fn read(path: &Path) -> String {
        std::fs::read_to_string(path).expect("reads")
    }

    #[test]
    fn entries_go_to_the_file_that_is_in_force() {
        let folder = tempfile::tempdir().expect("makes");
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let recorder = Arc::new(Recorder::new("logs.slow"));
        tell(&recorder, "it is off");
        put_in_force(&recorder, Some(&one));
        recorder.start();
        tell(&recorder, "a");
        put_in_force(&recorder, Some(&two));
        // The thread may not have obeyed yet: the next order must not take the file away.
        put_in_force(&recorder, Some(&two));
        until(|| two.exists() && recorder.counts().written == 1);
        tell(&recorder, "b");
        end(&recorder);
        assert_eq!((read(&one) + &read(&two)).replace('\n', ""), "ab");
        assert_eq!(recorder.counts(), RecordCounts { written: 2, lost: 0 });
        let missing = folder.path().join("none/log");
        let error = recorder.prepare(&options(Some(&missing))).err().expect("no folder");
        assert!(error.to_string().contains("logs.slow.file"), "{error}");
    }

    #[test]
    fn what_is_lost_is_counted_and_told_when_it_can_be() {
        let folder = tempfile::tempdir().expect("makes");
        let path = folder.path().join("log");
        let recorder = Arc::new(Recorder::new("logs.audit"));
        put_in_force(&recorder, Some(Path::new("/dev/full")));
        recorder.start();
        for text in ["a", "b", "c"] {
            tell(&recorder, text);
        }
        until(|| recorder.counts().lost == 3);
        put_in_force(&recorder, Some(&path));
        tell(&recorder, "d");
        until(|| recorder.counts().written + recorder.counts().lost == 4);
        tell(&recorder, "e");
        end(&recorder);
        let (text, RecordCounts { written, lost }) = (read(&path), recorder.counts());
        assert!(text.starts_with(&format!("lost {lost}\n")) && text.ends_with("e\n"), "{text}");
        assert_eq!(written + lost, 5);
    }

    #[test]
    fn a_queue_that_is_full_is_not_waited_for() {
        // Nothing takes entries out of it.
        let recorder = Recorder::new("logs.slow");
        let (queue, entries) = sync_channel(ENTRIES_MAX);
        recorder.queue.set(queue).expect("it is empty");
        for _ in 0..ENTRIES_MAX + 10 {
            tell(&recorder, "");
        }
        assert_eq!(recorder.counts().lost, 10);
        drop(entries);

        let recorder = Recorder::new("logs.slow");
        let (queue, entries) = sync_channel(ENTRIES_MAX);
        recorder.queue.set(queue).expect("it is empty");
        let large = "x".repeat(BYTES_MAX / 4);
        for _ in 0..6 {
            tell(&recorder, &large);
        }
        assert_eq!((recorder.counts().lost, entries.try_iter().count()), (2, 4));
    }
}
