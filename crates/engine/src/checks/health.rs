//! What a server is, from one result of its checks to the next.
//!
//! Owns the counting that HAProxy's users know (`rise`, `fall`, `inter`, `fastinter`, `downinter`) and the orders of an
//! operator. Invariants: every change has a reason and a time; an order outranks every result; evidence from traffic
//! alone never takes a server down, nor does one sign take down the last one; a server that refuses connections
//! because it has too many of them is not down.

use std::time::{Duration, Instant};

/// How results are counted, and how often there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rules {
    /// So many passed checks in a row bring a server up, so many failed ones take it down.
    pub rise: u32,
    pub fall: u32,
    pub inter: Duration,
    /// While it is going up or down.
    pub fastinter: Duration,
    /// While it is down.
    pub downinter: Duration,
    /// After it has come up, its share of the load grows for so long.
    pub slow_start: Duration,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            rise: 2,
            fall: 3,
            inter: Duration::from_secs(2),
            fastinter: Duration::from_millis(500),
            downinter: Duration::from_secs(2),
            slow_start: Duration::ZERO,
        }
    }
}

/// What checks have found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Up,
    /// Checks have failed, but not often enough.
    GoingDown,
    Down,
    /// Checks have passed, but not often enough.
    GoingUp,
}

/// What an operator has ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    #[default]
    None,
    /// Nothing new; what runs may end.
    Drain,
    /// Nothing at all, and no checks.
    Maintenance,
}

/// What something has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A check has passed.
    Passed,
    /// A check has failed, for this reason.
    Failed(String),
    /// A check was refused for too many connections: load, not death.
    Busy,
    /// Traffic is answered.
    TrafficWell,
    /// Traffic has failed, for this reason.
    TrafficFailed(String),
}

/// Whether other servers could take over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Others {
    AreUp,
    /// This is the last one.
    AreDown,
}

/// A server's health.
#[derive(Clone, Debug)]
pub struct Health {
    rules: Rules,
    state: State,
    order: Order,
    /// Results in a row against the state.
    against: u32,
    reason: String,
    since: Instant,
    /// Since when it has been up after having been down.
    risen: Option<Instant>,
    well_until: Option<Instant>,
    wants_check: bool,
}

impl Health {
    /// A server of which nothing is known is taken to be up: else nobody could be served before the first check.
    pub fn new(rules: Rules, now: Instant) -> Self {
        Self {
            rules,
            state: State::Up,
            order: Order::None,
            against: 0,
            reason: "not checked yet".to_owned(),
            since: now,
            risen: None,
            well_until: None,
            wants_check: false,
        }
    }

    pub const fn state(&self) -> State {
        self.state
    }

    pub const fn order(&self) -> Order {
        self.order
    }

    /// Why it is what it is, and since when.
    pub fn reason(&self) -> (&str, Instant) {
        (&self.reason, self.since)
    }

    /// Whether statements may be sent to it.
    pub fn is_usable(&self) -> bool {
        self.order == Order::None && matches!(self.state, State::Up | State::GoingDown)
    }

    pub fn set_order(&mut self, order: Order, reason: &str, now: Instant) {
        if self.order == order {
            return;
        }
        if self.order == Order::Maintenance {
            // What was known before belongs to the past.
            (self.state, self.against) = (State::Down, 0);
            self.wants_check = true;
        }
        self.order = order;
        self.tell(reason, now);
    }

    /// Takes in what something has shown. True: whether it is usable, or its state, has changed.
    pub fn see(&mut self, sign: Sign, others: Others, now: Instant) -> bool {
        let before = self.state;
        match sign {
            Sign::Passed => self.pass(now),
            Sign::Failed(reason) => self.fail(&reason, others, now),
            // It lives: what failed before it failed for another reason, if any.
            Sign::Busy => {}
            Sign::TrafficWell => self.well_until = Some(now + self.rules.inter),
            Sign::TrafficFailed(reason) => self.suspect(&reason, now),
        }
        self.state != before
    }

    fn pass(&mut self, now: Instant) {
        match self.state {
            State::Up => self.against = 0,
            State::GoingDown => self.turn(State::Up, "a check has passed", now),
            State::Down | State::GoingUp => {
                self.against += 1;
                if self.against >= self.rules.rise {
                    self.turn(State::Up, &format!("{} checks have passed", self.against), now);
                    self.risen = Some(now);
                } else if self.state == State::Down {
                    let against = self.against;
                    self.turn(State::GoingUp, "a check has passed", now);
                    self.against = against;
                }
            }
        }
    }

    fn fail(&mut self, reason: &str, others: Others, now: Instant) {
        self.well_until = None;
        match self.state {
            State::Down => self.tell(reason, now),
            State::GoingUp => self.turn(State::Down, reason, now),
            State::Up | State::GoingDown => {
                self.against += 1;
                // The last server is given another chance: to have none helps nobody.
                let fall = match others {
                    Others::AreUp => self.rules.fall,
                    Others::AreDown => self.rules.fall.max(2),
                };
                let against = self.against;
                if against >= fall {
                    self.turn(State::Down, reason, now);
                } else {
                    self.turn(State::GoingDown, reason, now);
                    self.against = against;
                }
            }
        }
    }

    /// Traffic has failed: that counts, but the last word is a check's, which is due at once.
    fn suspect(&mut self, reason: &str, now: Instant) {
        self.well_until = None;
        if !matches!(self.state, State::Up | State::GoingDown) {
            return;
        }
        self.wants_check = true;
        let against = (self.against + 1).min(self.rules.fall.saturating_sub(1));
        if against > 0 {
            self.turn(State::GoingDown, reason, now);
            self.against = against;
        }
    }

    fn turn(&mut self, state: State, reason: &str, now: Instant) {
        self.against = 0;
        if self.state != state {
            self.since = now;
            self.risen = None;
        }
        self.state = state;
        reason.clone_into(&mut self.reason);
    }

    fn tell(&mut self, reason: &str, now: Instant) {
        if self.reason != reason {
            reason.clone_into(&mut self.reason);
            self.since = now;
        }
    }

    /// How long until its next check. `None`: it is not checked.
    pub fn interval(&self) -> Option<Duration> {
        match (self.order, self.state) {
            (Order::Maintenance, _) => None,
            (_, State::Up) => Some(self.rules.inter),
            (_, State::Down) => Some(self.rules.downinter),
            (_, State::GoingDown | State::GoingUp) => Some(self.rules.fastinter),
        }
    }

    /// Whether a check that is due may be left out: traffic has just shown as much.
    pub fn may_skip(&self, now: Instant) -> bool {
        self.state == State::Up && self.well_until.is_some_and(|until| now < until)
    }

    /// Whether a check is wanted before it is due. Asking takes the wish back.
    pub const fn takes_check(&mut self) -> bool {
        std::mem::replace(&mut self.wants_check, false)
    }

    /// Its share of the load, from 0 to 1: that of one that has just come up grows.
    pub fn share(&self, now: Instant) -> f64 {
        if !self.is_usable() {
            return 0.0;
        }
        match self.risen {
            Some(risen) if !self.rules.slow_start.is_zero() => {
                let age = now.saturating_duration_since(risen).as_secs_f64();
                (age / self.rules.slow_start.as_secs_f64()).clamp(FIRST_SHARE, 1.0)
            }
            _ => 1.0,
        }
    }
}

/// Without any load, nobody would learn that a server can bear some.
const FIRST_SHARE: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    fn after(signs: &[Sign], others: Others) -> Health {
        let now = Instant::now();
        let mut health = Health::new(Rules::default(), now);
        for sign in signs {
            health.see(sign.clone(), others, now);
        }
        health
    }

    fn failed() -> Sign {
        Sign::Failed("no answer".to_owned())
    }

    #[test]
    fn results_are_counted_in_a_row() {
        use Sign::Passed;
        let of = |signs: &[Sign]| after(signs, Others::AreUp).state();
        assert_eq!(of(&[failed(), failed()]), State::GoingDown);
        assert_eq!(of(&[failed(), failed(), Passed, failed(), failed()]), State::GoingDown);
        assert_eq!(of(&[failed(), failed(), failed()]), State::Down);
        assert_eq!(of(&[failed(), failed(), failed(), Passed]), State::GoingUp);
        assert_eq!(of(&[failed(), failed(), failed(), Passed, failed(), Passed]), State::GoingUp);
        assert_eq!(of(&[failed(), failed(), failed(), Passed, Passed]), State::Up);
    }

    #[test]
    fn intervals_are_short_while_something_changes() {
        let rules = Rules { downinter: Duration::from_secs(9), ..Rules::default() };
        let now = Instant::now();
        let mut health = Health::new(rules.clone(), now);
        assert_eq!(health.interval(), Some(rules.inter));
        health.see(failed(), Others::AreUp, now);
        assert_eq!(health.interval(), Some(rules.fastinter));
        health.see(failed(), Others::AreUp, now);
        health.see(failed(), Others::AreUp, now);
        assert_eq!(health.interval(), Some(rules.downinter));
        health.set_order(Order::Maintenance, "by an order", now);
        assert_eq!(health.interval(), None);
    }

    #[test]
    fn traffic_raises_suspicion_and_a_check_decides() {
        let signs = vec![Sign::TrafficFailed("reset".to_owned()); 50];
        let mut health = after(&signs, Others::AreUp);
        assert_eq!((health.state(), health.is_usable()), (State::GoingDown, true));
        assert!(health.takes_check() && !health.takes_check());
        let now = Instant::now();
        let mut down = health.clone();
        assert!(down.see(failed(), Others::AreUp, now));
        assert_eq!((down.state(), down.reason().0), (State::Down, "no answer"));
        health.see(Sign::Passed, Others::AreUp, now);
        assert_eq!(health.state(), State::Up);
    }

    #[test]
    fn too_many_connections_is_load_and_no_death() {
        let health = after(&vec![Sign::Busy; 100], Others::AreUp);
        assert!(health.is_usable() && health.state() == State::Up);
    }

    #[test]
    fn one_sign_never_takes_the_last_server_down() {
        let now = Instant::now();
        let rules = Rules { fall: 1, ..Rules::default() };
        let mut health = Health::new(rules, now);
        let mut other = health.clone();
        other.see(failed(), Others::AreUp, now);
        assert_eq!(other.state(), State::Down);
        health.see(failed(), Others::AreDown, now);
        assert_eq!(health.state(), State::GoingDown);
        health.see(failed(), Others::AreDown, now);
        assert_eq!(health.state(), State::Down);
    }

    #[test]
    fn well_answered_traffic_spares_a_check() {
        let now = Instant::now();
        let mut health = after(&[], Others::AreUp);
        assert!(!health.may_skip(now));
        health.see(Sign::TrafficWell, Others::AreUp, now);
        assert!(health.may_skip(now) && !health.may_skip(now + Rules::default().inter));
        health.see(Sign::TrafficFailed("reset".to_owned()), Others::AreUp, now);
        assert!(!health.may_skip(now));
    }

    #[test]
    fn an_order_outranks_results_and_what_comes_back_is_checked_first() {
        let now = Instant::now();
        let mut health = after(&[Sign::Passed], Others::AreUp);
        health.set_order(Order::Drain, "moving house", now);
        assert!(!health.is_usable() && health.reason().0 == "moving house");
        health.set_order(Order::None, "done", now);
        assert!(health.is_usable());
        health.set_order(Order::Maintenance, "new disk", now);
        health.set_order(Order::None, "done", now);
        assert!(!health.is_usable() && health.takes_check());
        health.see(Sign::Passed, Others::AreUp, now);
        health.see(Sign::Passed, Others::AreUp, now);
        assert!(health.is_usable());
    }

    #[test]
    fn a_risen_server_starts_slowly() {
        let now = Instant::now();
        let rules = Rules { slow_start: Duration::from_secs(10), ..Rules::default() };
        let mut health = Health::new(rules, now);
        assert_eq!(health.share(now), 1.0);
        for _ in 0..3 {
            health.see(failed(), Others::AreUp, now);
        }
        assert_eq!(health.share(now), 0.0);
        health.see(Sign::Passed, Others::AreUp, now);
        health.see(Sign::Passed, Others::AreUp, now);
        let shares = [0, 5, 10, 60].map(|age| health.share(now + Duration::from_secs(age)));
        assert_eq!(shares, [0.1, 0.5, 1.0, 1.0]);
    }
}
