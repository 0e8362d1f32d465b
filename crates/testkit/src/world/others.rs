//! Limits that others have described, for comparison: each as it comes out of the box, with windows of 100 ms.

use engine::limit::LimitTotals;

/// What is known when a window has ended.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// Of the window.
    pub window: LimitTotals,
    /// Its length in milliseconds.
    pub time: f64,
    pub held: u32,
    pub limit: u32,
}

impl Seen {
    /// Mean time in the server, in milliseconds.
    fn mean(&self) -> f64 {
        self.window.busy as f64 / 1000.0 / self.window.completed.max(1) as f64
    }

    fn rate(&self) -> f64 {
        self.window.completed as f64 / self.time
    }
}

/// A limit that is set once in a window.
pub trait Other: std::fmt::Debug {
    fn window(&mut self, seen: Seen) -> u32;
}

const LEAST: f64 = 2.0;
const MOST: f64 = 400.0;

fn rounded(limit: f64) -> u32 {
    limit.round().max(1.0) as u32
}

/// Netflix's gradient of a long mean of the time in the server to the latest.
#[derive(Debug)]
pub struct Gradient2 {
    limit: f64,
    long: Option<f64>,
    windows: u32,
}

impl Default for Gradient2 {
    fn default() -> Self {
        Self { limit: 20.0, long: None, windows: 0 }
    }
}

impl Other for Gradient2 {
    fn window(&mut self, seen: Seen) -> u32 {
        if seen.window.completed < 10 {
            return rounded(self.limit);
        }
        let mean = seen.mean();
        self.windows += 1;
        let long = self.long.get_or_insert(mean);
        let weight = if self.windows <= 10 { f64::from(self.windows).recip() } else { 2.0 / 601.0 };
        *long += (mean - *long) * weight;
        if *long / mean > 2.0 {
            *long *= 0.9;
        }
        if f64::from(seen.held) >= self.limit / 2.0 {
            let gradient = (*long / mean).clamp(0.5, 1.0);
            self.limit = self.limit * 0.8 + (self.limit * gradient + 4.0) * 0.2;
            self.limit = self.limit.clamp(LEAST, MOST);
        }
        rounded(self.limit)
    }
}

/// Netflix's port of TCP Vegas: the shortest time seen of late is taken for the time without a line.
#[derive(Debug)]
pub struct Vegas {
    limit: f64,
    shortest: Option<f64>,
    since: f64,
}

impl Default for Vegas {
    fn default() -> Self {
        Self { limit: 20.0, shortest: None, since: 0.0 }
    }
}

impl Other for Vegas {
    fn window(&mut self, seen: Seen) -> u32 {
        if seen.window.completed < 10 {
            return rounded(self.limit);
        }
        let mean = seen.mean();
        self.since += seen.window.completed as f64;
        match self.shortest {
            Some(shortest) if self.since < 300.0 * self.limit && mean >= shortest => {
                if f64::from(seen.held) >= self.limit / 2.0 {
                    let line = (self.limit * (1.0 - shortest / mean)).ceil();
                    let step = self.limit.log10().max(1.0);
                    self.limit += match line {
                        line if line <= step => 6.0 * step,
                        line if line < 3.0 * step => step,
                        line if line > 6.0 * step => -step,
                        _ => 0.0,
                    };
                    self.limit = self.limit.clamp(LEAST, MOST);
                }
            }
            _ => (self.shortest, self.since) = (Some(mean), 0.0),
        }
        rounded(self.limit)
    }
}

/// One more while statements are quick enough, a tenth fewer while they are not.
#[derive(Debug)]
pub struct Aimd {
    pub limit: f64,
    /// What is quick enough, in milliseconds.
    pub quick: f64,
}

impl Other for Aimd {
    fn window(&mut self, seen: Seen) -> u32 {
        if seen.window.completed >= 5 {
            if seen.mean() > self.quick {
                self.limit *= 0.9;
            } else if f64::from(seen.held) * 2.0 >= self.limit {
                self.limit += 1.0;
            }
            self.limit = self.limit.clamp(LEAST, MOST);
        }
        rounded(self.limit)
    }
}

/// MongoDB's probing: a tenth more, or fewer, for a window; kept if more got done.
#[derive(Debug)]
pub struct Probing {
    stable: f64,
    rate: f64,
    /// The limit that is tried, if one is.
    tried: Option<f64>,
}

impl Default for Probing {
    fn default() -> Self {
        Self { stable: 16.0, rate: 0.0, tried: None }
    }
}

impl Other for Probing {
    fn window(&mut self, seen: Seen) -> u32 {
        if let Some(tried) = self.tried.take() {
            if seen.rate() > self.rate {
                self.stable = 0.8 * self.stable + 0.2 * tried;
            }
            return rounded(self.stable);
        }
        self.rate = seen.rate();
        let is_wanted = seen.window.followed > 0;
        let (factor, step) = if is_wanted { (1.1, 1.0) } else { (0.9, -1.0) };
        let mut tried = (self.stable * factor).round();
        if tried == f64::from(seen.limit) {
            tried += step;
        }
        let tried = tried.clamp(LEAST, MOST);
        self.tried = Some(tried);
        rounded(tried)
    }
}
