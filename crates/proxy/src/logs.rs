//! What Flifo says while it runs: text on a terminal, one JSON object a line elsewhere. Never a secret.

use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::config::{LogFormat, LogLevel, Logs};

/// Starts to log as configured. A log that cannot be written to is no reason to stop serving.
pub fn start(logs: &Logs) {
    let level = match logs.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let file = logs.file.as_ref().and_then(|path| {
        let opened = OpenOptions::new().create(true).append(true).open(path);
        opened.map_err(|error| eprintln!("flifo: cannot log to {}: {error}", path.display())).ok()
    });
    let on_terminal = file.is_none() && io::stderr().is_terminal();
    let as_text = match logs.format {
        LogFormat::Text => true,
        LogFormat::Json => false,
        LogFormat::Auto => on_terminal,
    };
    let sink = Sink { file: file.map(Mutex::new) };
    let builder =
        tracing_subscriber::fmt().with_max_level(level).with_writer(sink).with_ansi(on_terminal);
    // Whoever has set up logging already keeps it: tests do.
    let _ = if as_text {
        builder.with_target(false).try_init()
    } else {
        builder.json().flatten_event(true).try_init()
    };
}

/// Standard error, or a file. What cannot be written is lost silently: there is nobody to tell.
struct Sink {
    file: Option<Mutex<std::fs::File>>,
}

struct Line<'a>(&'a Sink);

impl<'a> MakeWriter<'a> for Sink {
    type Writer = Line<'a>;

    fn make_writer(&'a self) -> Line<'a> {
        Line(self)
    }
}

impl Write for Line<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let _ = match &self.0.file {
            Some(file) => match file.lock() {
                Ok(mut file) => file.write_all(bytes),
                Err(_) => Ok(()),
            },
            None => io::stderr().write_all(bytes),
        };
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
