//! Bounds lines that are the same but for their numbers: see [`engine::repeats`].
//!
//! Owns what makes two lines the same: their place in the code and their text, with each number taken for any other. A
//! line that has a field `kind` is the same as all from its place that have this kind, whatever else they say: what a
//! stranger can choose, such as a user's name, must not make new kinds.
//! Lines at level debug and below are not bounded: they are asked for, each of them.

use std::fmt::{self, Write};
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use engine::repeats::{RepeatVerdict, Summary, Which};
use tracing::field::{Field, Visit};
use tracing::subscriber::Interest;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::Context;

use crate::worker::clock;

/// Summaries are told from all other lines by this.
const TARGET: &str = "flifo::repeats";

/// Bytes of a line that are looked at, and shown in a summary.
const TEXT_MAX: usize = 256;

/// Lines that were not said, and those that were lately.
#[derive(Clone, Debug)]
pub(super) struct Repeats(Arc<Known>);

#[derive(Debug)]
struct Known {
    begun: Instant,
    hasher: RandomState,
    repeats: Mutex<engine::repeats::Repeats<Line>>,
}

/// The first line of its kind that was not said.
#[derive(Debug)]
struct Line {
    level: Level,
    text: String,
    has_kind: bool,
}

impl Default for Repeats {
    fn default() -> Self {
        Self(Arc::new(Known {
            begun: clock::read(),
            hasher: RandomState::new(),
            repeats: Mutex::default(),
        }))
    }
}

impl Repeats {
    fn see(&self, event: &Event<'_>) -> RepeatVerdict {
        let metadata = event.metadata();
        if *metadata.level() > Level::INFO || metadata.target() == TARGET {
            return RepeatVerdict::Say;
        }
        let mut text = Text::default();
        event.record(&mut text);
        let Known { begun, hasher, repeats } = &*self.0;
        let mut shape = hasher.build_hasher();
        metadata.callsite().hash(&mut shape);
        match &text.kind {
            Some(kind) => kind.hash(&mut shape),
            None => text.hash_without_numbers(&mut shape),
        }
        let mut repeats = repeats.lock().unwrap_or_else(PoisonError::into_inner);
        repeats.see(shape.finish(), clock::since(*begun), || Line {
            level: *metadata.level(),
            has_kind: text.kind.is_some(),
            text: text.all,
        })
    }

    /// Says how many lines were not said.
    pub(super) fn sum_up(&self, which: Which) {
        let Known { begun, repeats, .. } = &*self.0;
        let mut repeats = repeats.lock().unwrap_or_else(PoisonError::into_inner);
        let summaries = repeats.summaries(clock::since(*begun), which);
        // Saying them must not wait for this lock.
        drop(repeats);
        summaries.iter().for_each(say);
    }
}

fn say(summary: &Summary<Line>) {
    let Summary { sample, count, span, is_mixed } = summary;
    let (more, seconds, text) = (*count, seconds(*span), &sample.text);
    let what = match (is_mixed, sample.has_kind) {
        (true, _) => "more lines of several kinds, such as".to_owned(),
        (false, true) => format!("… and {more} more of this kind in {seconds} s"),
        (false, false) => "more lines like".to_owned(),
    };
    match sample.level {
        Level::ERROR => tracing::error!(target: TARGET, more, seconds, "{what}: {text}"),
        Level::WARN => tracing::warn!(target: TARGET, more, seconds, "{what}: {text}"),
        _ => tracing::info!(target: TARGET, more, seconds, "{what}: {text}"),
    }
}

/// Seconds with one digit behind the point.
fn seconds(span: Duration) -> f64 {
    (span.as_secs_f64() * 10.0).round() / 10.0
}

/// What a line says, up to [`TEXT_MAX`] bytes.
#[derive(Default)]
struct Text {
    all: String,
    /// What the line says of its kind, if it does.
    kind: Option<String>,
}

impl Text {
    fn hash_without_numbers(&self, state: &mut impl Hasher) {
        for part in self.all.split(|letter: char| letter.is_ascii_digit()) {
            if !part.is_empty() {
                part.hash(state);
            }
        }
    }
}

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "kind" {
            self.kind = Some(format!("{value:?}"));
        }
        let space = if self.all.is_empty() { "" } else { " " };
        // An error means that the text is full: the rest is left out.
        let _ = match field.name() {
            "message" => write!(self, "{space}{value:?}"),
            name => write!(self, "{space}{name}={value:?}"),
        };
    }
}

impl Write for Text {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = TEXT_MAX.saturating_sub(self.all.len());
        if part.len() <= room {
            self.all.push_str(part);
            return Ok(());
        }
        let fitting = part.char_indices().map(|(at, _)| at).take_while(|at| *at <= room);
        self.all.push_str(&part[..fitting.last().unwrap_or_default()]);
        Err(fmt::Error)
    }
}

/// Passes lines up to a level, each kind so often and no more.
///
/// It is a layer, not the filter of one layer: with such a filter, events behind a refused one were lost as well.
pub(super) struct Bounded {
    pub(super) level: LevelFilter,
    pub(super) repeats: Repeats,
}

impl<S: Subscriber> Layer<S> for Bounded {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        match *metadata.level() <= self.level {
            true => Interest::always(),
            false => Interest::never(),
        }
    }

    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        *metadata.level() <= self.level
    }

    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        self.repeats.see(event) == RepeatVerdict::Say
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }
}
