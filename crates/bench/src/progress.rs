//! How far something long has come, on standard error: a bar on a terminal, plain lines elsewhere.
//!
//! Invariant: nothing of it is left on a terminal when it ends, and standard output is never
//! touched.

use std::io::{IsTerminal, stderr};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

pub struct Progress {
    bar: Option<ProgressBar>,
    steps: u64,
    position: u64,
}

impl Progress {
    /// Begins something of so many steps.
    pub fn begin(what: &str, steps: u64) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(steps).with_message(what.to_owned());
            bar.set_style(style());
            bar.enable_steady_tick(TICK);
            bar
        });
        if bar.is_none() {
            eprintln!("{what} …");
        }
        Self { bar, steps, position: 0 }
    }

    /// Says what is being done now.
    pub fn say(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
        }
    }

    /// Ends one step with its outcome.
    pub fn step(&mut self, outcome: &str) {
        self.position = self.steps.min(self.position + 1);
        match &self.bar {
            Some(bar) => bar.set_position(self.position),
            None => eprintln!("  {}/{} {outcome}", self.position, self.steps),
        }
    }

    /// Sets how many steps are done, where they have no outcomes of their own.
    pub fn set(&mut self, position: u64) {
        let before = quarters(self.position, self.steps);
        self.position = self.position.max(position.min(self.steps));
        let now = quarters(self.position, self.steps);
        match &self.bar {
            Some(bar) => bar.set_position(self.position),
            None if before < now => eprintln!("  {} %", now * 25),
            None => {}
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn style() -> ProgressStyle {
    let template = "{spinner} {msg} {wide_bar} {pos}/{len}, {eta} left";
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn quarters(position: u64, steps: u64) -> u64 {
    (position * 4).checked_div(steps).unwrap_or(4)
}

const TICK: Duration = Duration::from_millis(200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quarters_are_whole() {
        let of_ten: Vec<u64> = (0..=10).map(|position| quarters(position, 10)).collect();
        assert_eq!(of_ten, [0, 0, 0, 1, 1, 2, 2, 2, 3, 3, 4]);
        assert_eq!(quarters(0, 0), 4);
    }

    #[test]
    fn a_position_never_goes_back_nor_beyond_the_end() {
        let mut progress = Progress { bar: None, steps: 4, position: 0 };
        for (set, want) in [(3, 3), (1, 3), (9, 4)] {
            progress.set(set);
            assert_eq!(progress.position, want);
        }
        progress.step("done");
        assert_eq!(progress.position, 4);
    }
}
