//! `cargo xtask rights`: how long it takes until changes of rights hold for new clients, made through Flifo and beside
//! it.
//!
//! What is changed is [`testkit::rights`]'s; this owns the command line, the clock and what is printed.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use bench::interrupt::Interrupt;
use clap::ValueEnum;
use testkit::rights::{CHANGES, Scene, Settled, UNCHANGED};

/// How much is run.
#[derive(clap::Args)]
pub(crate) struct Extent {
    /// How often each change is made, and undone.
    #[arg(long, default_value_t = 200)]
    tries: u32,
    /// Only these places.
    #[arg(long, value_delimiter = ',', default_value = "pooled,pass-through,watched,unwatched")]
    made: Vec<Place>,
    #[arg(long, default_value_t = 2)]
    workers: u32,
}

/// Where changes are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Place {
    /// By a pooled client.
    Pooled,
    /// By a pass-through client.
    PassThrough,
    /// Beside Flifo, which may read the tables of rights.
    Watched,
    /// Beside Flifo, which may not, with `server.rights_bound` at 5 s.
    Unwatched,
}

pub(crate) fn run(extent: &Extent, flifo: &Path, interrupt: &Interrupt) -> Result<()> {
    let mut broken = 0;
    println!("{:<10} {:>8} {:>12} {:>10}  change", "made", "times", "longest", "too many");
    for place in &extent.made {
        let scene = Scene::start_program(flifo, place.told(), extent.workers);
        for change in CHANGES {
            let mut seen = Settled::default();
            for _ in 0..extent.tries {
                interrupt.check()?;
                scene.use_backends(2 * extent.workers as usize);
                for (text, expected) in [(change.make, change.expected), (change.undo, UNCHANGED)] {
                    let begun = Instant::now();
                    place.make(&scene, text)?;
                    let settled = scene.await_seen(text, expected);
                    if place == &Place::Watched && change.make.starts_with("SET ") {
                        // What no counter tells must not be undone between two looks.
                        std::thread::sleep(UNTOLD.saturating_sub(begun.elapsed()));
                    }
                    seen.late += settled.late;
                    seen.longest = seen.longest.max(settled.longest);
                }
            }
            let is_kept =
                seen.longest <= place.promise() && (seen.late == 0 || !place.is_at_once());
            broken += u32::from(!is_kept);
            let mark = if is_kept { "" } else { "  BROKEN" };
            println!(
                "{:<10} {:>8} {:>10.1} s {:>10}  {}{mark}",
                format!("{place:?}").to_lowercase(),
                2 * extent.tries,
                seen.longest.as_secs_f64(),
                seen.late,
                change.make,
            );
        }
    }
    ensure!(broken == 0, "{broken} promises are not kept");
    Ok(())
}

/// A change and its undoing look like nothing if no look comes between them, unless the server counts such statements.
const UNTOLD: Duration = Duration::from_millis(1500);

impl Place {
    const fn told(self) -> &'static str {
        match self {
            Self::Pooled | Self::PassThrough => "rights_bound = \"1h\"",
            Self::Watched => "accounts_user = \"reader\"\nrights_bound = \"1h\"",
            Self::Unwatched => "rights_bound = \"5s\"",
        }
    }

    fn make(self, scene: &Scene, text: &str) -> Result<()> {
        let user = match self {
            Self::Pooled => "maker",
            Self::PassThrough => "boss",
            Self::Watched | Self::Unwatched => return scene.server.sql(text).map(drop),
        };
        let made = scene.client(user, "can").and_then(|mut it| it.query(text));
        made.map(drop).map_err(|problem| anyhow!("{text}: {problem}"))
    }

    const fn is_at_once(self) -> bool {
        matches!(self, Self::Pooled | Self::PassThrough)
    }

    const fn promise(self) -> Duration {
        match self {
            Self::Unwatched => Duration::from_secs(5),
            _ => Duration::from_secs(2),
        }
    }
}
