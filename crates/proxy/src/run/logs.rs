//! What Flifo says while it runs: text, or one JSON object a line. Never a secret.
//!
//! Owns how it is said and where to; what is said is each module's own. Invariants: a log that
//! cannot be written to, because its reader has gone or its disk is full, never stops the proxy; a
//! line goes to the file before or to the one after a change, and is never lost between them; lines of one kind are
//! bounded ([`repeats`]); what is said is one line, whatever a stranger has written in it ([`plain`](mod@plain)).

mod plain;
mod repeats;

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use engine::repeats::Which;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Layer, Registry, fmt, registry, reload};

use self::plain::plain;
use self::repeats::{Bounded, Repeats};
use crate::config::{LogFormat, LogLevel, Logs};
use crate::records::events;

/// Why logs cannot go where they should.
#[derive(Debug, thiserror::Error)]
#[error("cannot write logs to {}: {error}; change logs.file or its folder's rights", path.display())]
pub struct LogError {
    path: PathBuf,
    error: io::Error,
}

/// Where Flifo logs to, and what it has not said.
#[derive(Clone, Debug)]
pub struct Log(Arc<Parts>);

struct Parts {
    file: RwLock<Option<LogFile>>,
    /// `None`: logging was set up in this process before.
    layer: Option<reload::Handle<Said, Registry>>,
    repeats: Repeats,
}

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Parts").field("file", &self.file).finish_non_exhaustive()
    }
}

/// What says a line.
type Said = Box<dyn Layer<Registry> + Send + Sync>;

impl Log {
    /// Makes ready what these options ask for; the answer puts it in force.
    pub(crate) fn prepare(&self, logs: &Logs) -> Result<impl FnOnce() + use<>, LogError> {
        let same = |file: &LogFile| Some(&file.0.path) == logs.file.as_ref();
        let file = match self.file().filter(same) {
            Some(file) => Some(file),
            None => logs.file.clone().map(LogFile::open).transpose()?,
        };
        let (new, log) = (said(logs, file.as_ref(), self.0.repeats.clone()), self.clone());
        Ok(move || {
            *log.0.file.write().unwrap_or_else(PoisonError::into_inner) = file;
            if let Some(layer) = &log.0.layer {
                // It is there for as long as the process is.
                let _ = layer.reload(new);
            }
        })
    }

    fn file(&self) -> Option<LogFile> {
        self.0.file.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Goes on in the file that has the configured name now, if there is a file.
    pub(crate) fn reopen(&self) {
        match self.file() {
            Some(file) => file.reopen(),
            None => tracing::info!(
                "SIGHUP: there is nothing to reopen, because logs go to standard error; logs.file names a file"
            ),
        }
    }

    /// Says how many lines were left out, and how many were lost, where it is time to say so.
    pub(crate) fn sum_up(&self) {
        self.0.repeats.sum_up(Which::Due);
        if let Some(file) = self.file() {
            file.tell_lost();
        }
    }
}

impl Drop for Parts {
    fn drop(&mut self) {
        self.repeats.sum_up(Which::All);
    }
}

/// The file that is logged to.
#[derive(Clone, Debug)]
struct LogFile(Arc<Opened>);

#[derive(Debug)]
struct Opened {
    path: PathBuf,
    file: RwLock<File>,
    lost: Mutex<Lost>,
}

/// What could not be written to a file, and why, until that is told in the file itself.
#[derive(Debug, Default)]
struct Lost {
    lines: u64,
    why: String,
    /// On standard error.
    is_told: bool,
}

impl LogFile {
    fn open(path: PathBuf) -> Result<Self, LogError> {
        let (file, lost) = (RwLock::new(open(&path)?), Mutex::default());
        Ok(Self(Arc::new(Opened { path, file, lost })))
    }

    /// Writes a line. The first one of several that cannot be written is told of on standard error, with the reason.
    fn write(&self, line: &[u8]) {
        let file = self.0.file.read().unwrap_or_else(PoisonError::into_inner);
        let Err(error) = (&*file).write_all(line) else { return };
        drop(file);
        events::lose();
        let mut lost = self.0.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.lines += 1;
        if !std::mem::replace(&mut lost.is_told, true) {
            lost.why = error.to_string();
            let path = self.0.path.display();
            // If that is closed as well, the counter is left.
            let _ = writeln!(
                io::stderr(),
                "flifo: {path} cannot be written to: {error}; lines of the log are lost until it can be (logs.file)"
            );
            let _ = io::stderr().write_all(line);
        }
    }

    /// Tells in the file how many lines are missing, as soon as it can be written to again.
    fn tell_lost(&self) {
        let lost = || self.0.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let (lines, why) = {
            let mut lost = lost();
            (std::mem::take(&mut lost.lines), lost.why.clone())
        };
        if lines == 0 {
            return;
        }
        tracing::error!(lost = lines, why, "lines of the log were lost");
        let mut lost = lost();
        lost.is_told = lost.lines > 0;
        if lost.is_told {
            // This line as well, which is none that was missed.
            lost.lines += lines - 1;
            events::forget_one();
        }
    }

    /// Goes on in the file that has the configured name now: the one before may have been renamed.
    fn reopen(&self) {
        let Opened { path, file, .. } = &*self.0;
        match open(path) {
            Ok(opened) => {
                *file.write().unwrap_or_else(PoisonError::into_inner) = opened;
                tracing::info!("log file reopened");
            }
            Err(error) => {
                tracing::error!("log reopen failed, still writing to the old file: {error}");
            }
        }
    }
}

fn open(path: &Path) -> Result<File, LogError> {
    let append = || OpenOptions::new().create(true).append(true).open(path);
    let opened = sys::later_user::make(path, append);
    opened.map_err(|error| LogError { path: path.to_owned(), error })
}

/// Starts to log as configured. Logging that was set up in this process before stays.
pub fn start(logs: &Logs) -> Result<Log, LogError> {
    let file = logs.file.clone().map(LogFile::open).transpose()?;
    let repeats = Repeats::default();
    let (layer, handle) = reload::Layer::new(said(logs, file.as_ref(), repeats.clone()));
    // The first in the process stays: that is no failure.
    let layer = registry().with(layer).try_init().is_ok().then_some(handle);
    Ok(Log(Arc::new(Parts { file: RwLock::new(file), layer, repeats })))
}

fn said(logs: &Logs, file: Option<&LogFile>, repeats: Repeats) -> Said {
    let sink = file.cloned().map_or(Sink::StandardError, Sink::File);
    let colours = matches!(sink, Sink::StandardError)
        && io::stderr().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    layer(logs, sink, colours, repeats)
}

fn layer<S>(
    logs: &Logs,
    sink: Sink,
    colours: bool,
    repeats: Repeats,
) -> Box<dyn Layer<S> + Send + Sync>
where
    S: tracing::Subscriber + for<'a> registry::LookupSpan<'a>,
{
    let layer = fmt::layer().with_writer(sink).with_target(false).log_internal_errors(false);
    let bounded = Bounded { level: filter(logs.level), repeats };
    match logs.format {
        LogFormat::Text => layer.with_ansi(colours).and_then(bounded).boxed(),
        LogFormat::Json => layer.json().flatten_event(true).and_then(bounded).boxed(),
    }
}

const fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}

/// Where lines go. Each line is one write, so that lines of several threads do not mix.
enum Sink {
    StandardError,
    File(LogFile),
}

struct Line<'a>(&'a Sink);

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

impl Write for Line<'_> {
    fn write(&mut self, written: &[u8]) -> io::Result<usize> {
        let bytes = &*plain(written);
        // What standard error does not take is lost: there is no other place to tell it.
        let _ = match self.0 {
            Sink::StandardError => io::stderr().write_all(bytes),
            Sink::File(file) => {
                file.write(bytes);
                Ok(())
            }
        };
        Ok(written.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tracing::subscriber::with_default;

    use super::*;
    use crate::worker::clock;

    /// What is in the file after something was logged at each level.
    fn check(logs: &Logs) -> Vec<String> {
        let folder = tempfile::tempdir().expect("makes");
        let path = folder.path().join("flifo.log");
        let file = LogFile::open(path.clone()).expect("opens");
        with_default(
            registry().with(layer(logs, Sink::File(file), false, Repeats::default())),
            || {
                tracing::error!(port = 6033, "cannot listen");
                tracing::info!("two\nlines");
                tracing::debug!("details");
            },
        );
        fs::read_to_string(path).expect("reads").lines().map(str::to_owned).collect()
    }

    fn logs(level: LogLevel, format: LogFormat) -> Logs {
        Logs { level, format, ..Logs::default() }
    }

    #[test]
    fn what_a_full_disk_has_lost_is_told_when_it_can_be() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("flifo.log");
        let full = OpenOptions::new().append(true).open("/dev/full").expect("it opens");
        let (file, lost) = (RwLock::new(full), Mutex::default());
        let file = LogFile(Arc::new(Opened { path: path.clone(), file, lost }));
        let before = events::lost();
        let logs = Logs { file: Some(path.clone()), ..Logs::default() };
        let layer = layer(&logs, Sink::File(file.clone()), false, Repeats::default());
        with_default(registry().with(layer), || {
            tracing::error!("first");
            tracing::error!("second");
            file.tell_lost();
            assert_eq!(file.0.lost.lock().expect("whole").lines, 2, "the disk is still full");
            *file.0.file.write().expect("whole") = open(&path).expect("it opens");
            file.tell_lost();
            file.tell_lost();
        });
        let said = fs::read_to_string(&path).expect("it is there");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.contains("lines of the log were lost lost=2 why=\"No space left"), "{said}");
        assert!(events::lost() >= before + 2);
    }

    #[test]
    fn programs_get_one_json_object_a_line() {
        let lines = check(&logs(LogLevel::Info, LogFormat::Json));
        assert_eq!(lines.len(), 2, "{lines:?}");
        let first: serde_json::Value = serde_json::from_str(&lines[0]).expect("is JSON");
        assert_eq!((&first["level"], &first["port"]), (&"ERROR".into(), &6033.into()));
        assert_eq!(first["message"], "cannot listen");
        assert!(lines[1].contains("two\\nlines"), "{lines:?}");
    }

    #[test]
    fn text_is_for_people_and_levels_are_kept() {
        let lines = check(&logs(LogLevel::Debug, LogFormat::Text));
        let all = lines.join("\n");
        assert!(all.contains("ERROR cannot listen port=6033"), "{all}");
        assert!(all.contains("INFO two\\nlines"), "one line each: {all}");
        assert!(all.contains("DEBUG details") && !all.contains('\x1b'), "{all}");
        assert_eq!(check(&logs(LogLevel::Error, LogFormat::Text)).len(), 1);
    }

    #[test]
    fn a_file_that_was_renamed_is_left_for_a_new_one() {
        let folder = tempfile::tempdir().expect("makes");
        let (path, old) = (folder.path().join("flifo.log"), folder.path().join("flifo.log.1"));
        let file = LogFile::open(path.clone()).expect("opens");
        let logs = logs(LogLevel::Info, LogFormat::Text);
        let layer = layer(&logs, Sink::File(file.clone()), false, Repeats::default());
        let said = |path| fs::read_to_string(path).expect("reads");
        with_default(registry().with(layer), || {
            tracing::info!("one");
            fs::rename(&path, &old).expect("renames");
            tracing::info!("two");
            file.reopen();
            tracing::info!("three");
            // A folder cannot be logged to: the file stays.
            fs::remove_file(&path).expect("removes");
            fs::create_dir(&path).expect("makes");
            file.reopen();
            fs::remove_dir(&path).expect("removes");
            file.reopen();
            tracing::info!("four");
        });
        let old = said(&old);
        assert!(old.contains("one") && old.contains("two") && !old.contains("three"), "{old}");
        let new = said(&path);
        assert!(new.contains("four") && !new.contains("three"), "{new}");
    }

    #[test]
    fn lines_of_one_kind_are_counted_beyond_a_bound() {
        let folder = tempfile::tempdir().expect("makes");
        let path = folder.path().join("flifo.log");
        let file = LogFile::open(path.clone()).expect("opens");
        let repeats = Repeats::default();
        let logs = logs(LogLevel::Debug, LogFormat::Text);
        let layer = layer(&logs, Sink::File(file), false, repeats.clone());
        let log = || {
            for number in 0..1000 {
                tracing::warn!(user = "ann", error = %format!("refused {number}"), "no backend connection");
                tracing::debug!("each is wanted");
            }
            tracing::warn!(user = "bob", error = "\u{e9}".repeat(300), "no backend connection");
            repeats.sum_up(Which::All);
        };
        clock::stopped(|| with_default(registry().with(layer), log));
        let text = fs::read_to_string(path).expect("reads");
        let count = |part: &str| text.lines().filter(|line| line.contains(part)).count();
        assert_eq!((count("DEBUG"), count("bob")), (1000, 1));
        assert_eq!(
            count("WARN no backend connection user=\"ann\""),
            engine::repeats::BURST as usize,
            "{text}"
        );
        let summary =
            "WARN more lines like: no backend connection user=\"ann\" error=refused 10 more=990";
        assert_eq!(count(summary), 1, "{text}");
    }

    #[test]
    fn lines_that_name_their_kind_are_bounded_by_it() {
        let folder = tempfile::tempdir().expect("makes");
        let path = folder.path().join("flifo.log");
        let file = LogFile::open(path.clone()).expect("opens");
        let repeats = Repeats::default();
        let logs = logs(LogLevel::Info, LogFormat::Text);
        let layer = layer(&logs, Sink::File(file), false, repeats.clone());
        let log = || {
            for number in 0..1000_u32 {
                // No two have a word in common but the kind.
                let user: String =
                    number.to_string().bytes().map(|it| char::from(it + 49)).collect();
                tracing::info!(kind = "denied (1045)", user, "a login was refused");
            }
            tracing::info!(kind = "denied (1040)", user = "ann", "a login was refused");
            repeats.sum_up(Which::All);
        };
        clock::stopped(|| with_default(registry().with(layer), log));
        let text = fs::read_to_string(path).expect("reads");
        let count = |part: &str| text.lines().filter(|line| line.contains(part)).count();
        assert_eq!(count("INFO a login was refused kind=\"denied (1045)\""), 10, "{text}");
        assert_eq!(count("(1040)"), 1, "{text}");
        let summary =
            "INFO … and 990 more of this kind in 0 s: a login was refused kind=\"denied (1045)\"";
        assert_eq!(count(summary), 1, "{text}");
    }

    #[test]
    fn a_log_that_nobody_takes_stops_nothing() {
        // Every write to it fails, as on a full disk.
        let full = LogFile::open("/dev/full".into()).expect("opens");
        let logs = logs(LogLevel::Info, LogFormat::Text);
        let layer = layer(&logs, Sink::File(full), false, Repeats::default());
        with_default(registry().with(layer), || {
            tracing::info!("lost");
        });
        let path = PathBuf::from("/nonexistent/flifo.log");
        let error = start(&Logs { file: Some(path), ..logs }).expect_err("cannot be opened");
        assert!(error.to_string().contains("logs.file"), "{error}");
    }
}
