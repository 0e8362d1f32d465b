//! How fast a crowd of new clients may log in while other clients work. Logins cost CPU, on the proxy's machine and on
//! the clients' machines. CPU that many logins take at once is missing for the clients that are logged in.
//!
//! If the logged-in clients ask for little, no login waits: a crowd that comes back to an idle proxy is in at full
//! speed, and clients that connect for a statement or two are not a crowd but the load itself. Otherwise the crowd
//! comes in at a rate. The rate grows while logins wait: slowly at first, for the sake of the logged-in clients; then
//! fast, so that even a very large crowd is in before its own clients give up.
//!
//! Invariants: while no client is busy, every login may begin; while clients are busy, at least [`RATE`] may begin each
//! second.

use std::time::{Duration, Instant};

/// One worker's.
#[derive(Clone, Debug)]
pub struct Arrivals {
    /// Logins a second, while others are busy.
    rate: f64,
    /// Those that may begin now.
    tokens: f64,
    counted_at: Instant,
    /// Statements and logins a second of late. Not those of the last window: a crowd slows the logged-in clients down,
    /// which would hide that they are busy.
    asked: f64,
    begun: f64,
    window: Window,
    /// When a login had to wait last.
    waited: Option<Instant>,
    /// For how many seconds logins of this crowd have waited.
    waited_for: f64,
}

/// What was counted when the window began, and since.
#[derive(Clone, Debug)]
struct Window {
    begun: Instant,
    statements: u64,
    logins: u64,
    has_waited: bool,
}

/// Logins a second at first. A login costs about as much as a few statements, its client's part included: this many are
/// a sixth of what a small machine can do.
const RATE: f64 = 600.0;

/// Enough that the rate is none.
const RATE_MAX: f64 = 100_000.0;

/// The growth in each second in which a login waits.
const GROWTH: f64 = 1.15;

/// The growth in each second after [`PATIENCE`]. Clients usually wait ten seconds for a login: what is left of them is
/// enough for 35 000 clients to get in.
const GROWTH_LATE: f64 = 2.0;

/// For how many seconds a crowd comes in at the pace that is best for the logged-in clients.
const PATIENCE: f64 = 6.0;

/// After so long in which no login waits, the next crowd is a new one.
const QUIET: Duration = Duration::from_secs(10);

/// For how long is counted.
const WINDOW: Duration = Duration::from_millis(50);

/// What is counted in a window is forgotten after about so long.
const OF_LATE: Duration = Duration::from_secs(1);

/// With more statements for each login than these, other clients work beside those that log in.
const STATEMENTS_EACH: f64 = 3.0;

/// With fewer statements a second than these, no client would notice a crowd.
const STATEMENTS_FEW: f64 = 1000.0;

/// What may begin together, in seconds of the rate.
const BURST: f64 = 0.01;

impl Arrivals {
    pub const fn new(now: Instant) -> Self {
        Self {
            rate: RATE,
            tokens: RATE * BURST,
            counted_at: now,
            asked: 0.0,
            begun: 0.0,
            window: Window { begun: now, statements: 0, logins: 0, has_waited: false },
            waited: None,
            waited_for: 0.0,
        }
    }

    /// Whether one more login may begin; or else, after which time to ask again. `statements` are those that have ended
    /// so far, at all.
    pub fn admit(&mut self, now: Instant, statements: u64) -> Result<(), Duration> {
        self.count(now, statements);
        if self.is_busy() {
            let passed = now.saturating_duration_since(self.counted_at).as_secs_f64();
            self.tokens = (self.tokens + passed * self.rate).min((self.rate * BURST).max(1.0));
            self.counted_at = now;
            if self.tokens < 1.0 {
                self.window.has_waited = true;
                return Err(Duration::from_secs_f64((1.0 - self.tokens) / self.rate));
            }
            self.tokens -= 1.0;
        }
        self.window.logins += 1;
        Ok(())
    }

    /// Whether the logged-in clients ask for so much that they would notice a crowd.
    fn is_busy(&self) -> bool {
        self.asked > STATEMENTS_FEW && self.asked > STATEMENTS_EACH * self.begun
    }

    /// Ends the window if it is over, and says what it has shown.
    fn count(&mut self, now: Instant, statements: u64) {
        let passed = now.saturating_duration_since(self.window.begun);
        if passed < WINDOW {
            return;
        }
        let seconds = passed.as_secs_f64();
        let weight = 1.0 - (-seconds / OF_LATE.as_secs_f64()).exp();
        let asked = statements.saturating_sub(self.window.statements) as f64 / seconds;
        self.asked += (asked - self.asked) * weight;
        self.begun += (self.window.logins as f64 / seconds - self.begun) * weight;
        let since = |waited| now.saturating_duration_since(waited);
        if self.window.has_waited && passed < QUIET {
            // A window may be long because no client came: at most two usual lengths of it count as waited.
            let waited = seconds.min(2.0 * WINDOW.as_secs_f64());
            let growth = if self.waited_for < PATIENCE { GROWTH } else { GROWTH_LATE };
            self.rate = (self.rate * growth.powf(waited)).min(RATE_MAX);
            self.waited = Some(now);
            self.waited_for += waited;
        } else if self.waited.is_none_or(|waited| since(waited) > QUIET) {
            self.rate = RATE;
            self.waited = None;
            self.waited_for = 0.0;
        }
        self.window = Window { begun: now, statements, logins: 0, has_waited: false };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(1);

    /// Busy clients, and the [`Arrivals`] that let a crowd in beside them.
    struct Scene {
        begun: Instant,
        now: Instant,
        /// Statements of the busy ones in a millisecond.
        each: u32,
        arrivals: Arrivals,
    }

    impl Scene {
        fn new(each: u32) -> Self {
            let begun = Instant::now();
            Self { begun, now: begun, each, arrivals: Arrivals::new(begun) }
        }

        fn admit(&mut self) -> bool {
            let statements = (self.now - self.begun).as_millis() as u64 * u64::from(self.each);
            self.arrivals.admit(self.now, statements).is_ok()
        }

        /// A crowd that tries each millisecond, up to fifty at once. Tells how many seconds it took.
        fn enter(&mut self, mut crowd: usize) -> f64 {
            self.now += Duration::from_secs(4);
            let begin = self.now;
            while crowd > 0 {
                crowd = crowd.saturating_sub((0..50).take_while(|_| self.admit()).count());
                self.now += STEP;
                assert!(self.now < begin + Duration::from_mins(1), "{crowd} still wait");
            }
            (self.now - begin).as_secs_f64()
        }
    }

    #[test]
    fn nobody_waits_where_nobody_is_busy() {
        let took = Scene::new(0).enter(5000);
        assert!(took <= 0.101, "{took}");
    }

    #[test]
    fn a_crowd_beside_busy_ones_comes_in_at_a_growing_rate() {
        let mut scene = Scene::new(40);
        let took = scene.enter(5000);
        assert!((5.0..6.5).contains(&took), "5 000 were in after {took} s");
    }

    #[test]
    fn a_large_crowd_is_in_before_it_gives_up() {
        let took = Scene::new(40).enter(30_000);
        assert!((7.0..10.0).contains(&took), "30 000 were in after {took} s");
    }

    #[test]
    fn the_next_crowd_is_a_new_one_after_a_while() {
        let mut scene = Scene::new(40);
        scene.enter(20_000);
        assert!(scene.arrivals.rate > 4.0 * RATE, "{}", scene.arrivals.rate);
        scene.now += QUIET + WINDOW;
        assert!(scene.admit());
        assert!((scene.arrivals.rate - RATE).abs() < 1e-9, "{}", scene.arrivals.rate);
    }

    #[test]
    fn a_crowd_that_takes_all_is_seen_to_have_taken_it() {
        let mut scene = Scene::new(40);
        scene.enter(1);
        // The logged-in clients get nothing done for a while, because a crowd is accepted.
        scene.each = 0;
        scene.now += 2 * WINDOW;
        assert!(scene.admit());
        assert!(scene.arrivals.is_busy());
    }

    #[test]
    fn clients_who_come_for_a_statement_are_the_load_itself() {
        let mut now = Instant::now();
        let mut arrivals = Arrivals::new(now);
        for login in 0..10_000 {
            // Each has asked for two statements before the next one comes.
            assert_eq!(arrivals.admit(now, 2 * login), Ok(()), "login {login}");
            now += STEP / 10;
        }
    }

    #[test]
    fn who_waits_is_told_how_long() {
        let begin = Instant::now();
        let mut arrivals = Arrivals::new(begin);
        let now = begin + OF_LATE;
        let may = (0..100).take_while(|_| arrivals.admit(now, 10_000).is_ok()).count();
        assert!(may < 20, "{may} at once");
        let wait = arrivals.admit(now, 10_000).expect_err("others are busy");
        assert!(!wait.is_zero() && wait <= 2 * STEP, "{wait:?}");
        assert_eq!(arrivals.admit(now + wait + STEP / 100, 10_001), Ok(()));
    }
}
