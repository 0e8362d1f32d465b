//! What a server is, from one result of its checks to the next.
//!
//! Owns the counting that HAProxy's users know (`rise`, `fall`, `inter`, `fastinter`, `downinter`), the orders of an
//! operator and of an agent, and how a server that has come up gets its load back: first a trial, one statement at a
//! time until one has ended well, and then a share that grows. Invariants: every change has a reason and a time; an
//! order outranks every result, and an operator's an agent's; evidence from traffic alone takes down only a server on
//! trial, and nothing takes down the last one by one sign; a trial comes to an end also without traffic; a server that
//! refuses connections because it has too many of them is not down.

use std::time::{Duration, Instant};

use crate::checks::agent::{Agent, Report};

/// How results are counted, and how often there are any.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckRules {
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

impl Default for CheckRules {
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
pub enum HealthOrder {
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
    rules: CheckRules,
    state: State,
    order: HealthOrder,
    agent: Agent,
    /// Results in a row against the state.
    against: u32,
    /// Passed checks that are still missing until it is no longer on trial; zero: it is not.
    trial: u32,
    /// What checks have found last, and since when it has been so.
    found: Reason,
    /// Why an operator's order, and what its agent says.
    ordered: Option<Reason>,
    told: Option<Reason>,
    /// Since when it bears load after having been down.
    risen: Option<Instant>,
    well_until: Option<Instant>,
    wants_check: bool,
}

/// Why something is as it is, and since when.
#[derive(Clone, Debug)]
struct Reason {
    text: String,
    since: Instant,
}

/// What is found of a server before its first check.
/// The reason of a state that no check has confirmed.
pub const NOT_CHECKED: &str = "not checked yet";

impl Health {
    /// Goes by other rules from now on.
    pub fn set_rules(&mut self, rules: CheckRules) {
        self.rules = rules;
    }

    /// A server of which nothing is known counts as up: else no client could be served before the first check.
    pub fn new(rules: CheckRules, now: Instant) -> Self {
        Self {
            rules,
            state: State::Up,
            order: HealthOrder::None,
            agent: Agent::default(),
            against: 0,
            trial: 0,
            found: Reason { text: NOT_CHECKED.to_owned(), since: now },
            ordered: None,
            told: None,
            risen: None,
            well_until: None,
            wants_check: false,
        }
    }

    pub const fn state(&self) -> State {
        self.state
    }

    /// The order in force: an operator's, or else the agent's.
    pub const fn order(&self) -> HealthOrder {
        match self.order {
            HealthOrder::None => self.agent.order,
            order => order,
        }
    }

    /// What its agent has said so far.
    pub const fn agent(&self) -> &Agent {
        &self.agent
    }

    /// Whether it must show first that it can bear load.
    pub fn is_on_trial(&self) -> bool {
        self.trial > 0 && self.is_usable()
    }

    /// Why it is what [`Self::name`] says, and since when.
    pub fn reason(&self) -> (&str, Instant) {
        let is_up = matches!(self.state, State::Up | State::GoingDown);
        let is_part = self.agent.percent.is_some_and(|percent| percent != 100);
        let is_by_agent = self.agent.order != HealthOrder::None
            || is_up && !self.agent.allows()
            || self.state == State::Up && is_part;
        let reason = match (&self.ordered, &self.told) {
            (Some(ordered), _) => ordered,
            (None, Some(told)) if is_by_agent => told,
            (None, _) => &self.found,
        };
        (&reason.text, reason.since)
    }

    /// What it is, in a word.
    pub const fn name(&self) -> &'static str {
        match (self.order(), self.state) {
            (HealthOrder::Drain, _) => "drain",
            (HealthOrder::Maintenance, _) => "maintenance",
            (HealthOrder::None, State::Down) => "down",
            (HealthOrder::None, State::GoingUp) => "going up",
            (HealthOrder::None, _) if self.agent.down.is_some() => "down",
            (HealthOrder::None, _) if matches!(self.agent.percent, Some(0)) => "drain",
            (HealthOrder::None, State::Up) => "up",
            (HealthOrder::None, State::GoingDown) => "going down",
        }
    }

    /// Results in a row against its state, and how many it takes to change that.
    pub const fn against(&self) -> (u32, u32) {
        match self.state {
            State::Up | State::GoingDown => (self.against, self.rules.fall),
            State::Down | State::GoingUp => (self.against, self.rules.rise),
        }
    }

    /// Whether statements may be sent to it.
    pub fn is_usable(&self) -> bool {
        let is_up = matches!(self.state, State::Up | State::GoingDown);
        self.order == HealthOrder::None && self.agent.allows() && is_up
    }

    pub fn set_order(&mut self, order: HealthOrder, reason: &str, now: Instant) {
        if self.order != order {
            self.change_orders(|it| it.order = order);
            self.ordered = match order {
                HealthOrder::None => None,
                _ => Some(Reason { text: reason.to_owned(), since: now }),
            };
        }
    }

    /// Takes in what its agent says. True: something is not as it was.
    pub fn hear_agent(&mut self, report: &Report, now: Instant) -> bool {
        let mut changed = false;
        self.change_orders(|it| changed = it.agent.hear(report));
        if changed {
            let text = format!("its agent says {}", self.agent);
            self.told = Some(Reason { text, since: now });
        }
        changed
    }

    fn change_orders(&mut self, change: impl FnOnce(&mut Self)) {
        let before = self.order();
        change(self);
        if before == HealthOrder::Maintenance && self.order() != before {
            // What was known before belongs to the past.
            (self.state, self.against) = (State::Down, 0);
            NOT_CHECKED.clone_into(&mut self.found.text);
            (self.risen, self.trial) = (None, 0);
            self.wants_check = true;
        }
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
            Sign::TrafficFailed(reason) => self.suspect(&reason, others, now),
        }
        self.state != before
    }

    fn pass(&mut self, now: Instant) {
        match self.state {
            State::Up => {
                self.against = 0;
                if self.found.text == NOT_CHECKED {
                    self.found.text = "checks pass".to_owned();
                }
                if self.trial == 1 {
                    self.tried(now);
                }
                self.trial = self.trial.saturating_sub(1);
            }
            State::GoingDown => self.turn(State::Up, "a check has passed", now),
            State::Down | State::GoingUp => {
                self.against += 1;
                if self.against >= self.rules.rise {
                    let passed = format!("{} checks have passed; on trial", self.against);
                    self.turn(State::Up, &passed, now);
                    self.trial = self.rules.rise;
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
                // The last server is given another chance: without any server, no client can be served.
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

    /// A statement on trial has ended well: from now on its share of the load grows.
    pub fn tried(&mut self, now: Instant) {
        if self.trial > 0 {
            (self.risen, self.trial) = (Some(now), 0);
            "its trial went well".clone_into(&mut self.found.text);
        }
    }

    /// Traffic has failed: that counts, but the last word is a check's, which is due at once.
    fn suspect(&mut self, reason: &str, others: Others, now: Instant) {
        self.well_until = None;
        if !matches!(self.state, State::Up | State::GoingDown) {
            return;
        }
        self.wants_check = true;
        if self.trial > 0 && others == Others::AreUp {
            return self.turn(State::Down, &format!("on trial: {reason}"), now);
        }
        let against = (self.against + 1).min(self.rules.fall.saturating_sub(1));
        if against > 0 {
            self.turn(State::GoingDown, reason, now);
            self.against = against;
        }
    }

    fn turn(&mut self, state: State, reason: &str, now: Instant) {
        self.against = 0;
        if self.state != state {
            self.found.since = now;
        }
        if matches!(state, State::Down | State::GoingUp) {
            (self.risen, self.trial) = (None, 0);
        }
        self.state = state;
        reason.clone_into(&mut self.found.text);
    }

    fn tell(&mut self, reason: &str, now: Instant) {
        if self.found.text != reason {
            self.found = Reason { text: reason.to_owned(), since: now };
        }
    }

    /// How long until its next check. `None`: it is not checked.
    pub fn interval(&self) -> Option<Duration> {
        match (self.order(), self.state) {
            (HealthOrder::Maintenance, _) => None,
            (_, State::Up) => Some(self.rules.inter),
            (_, State::Down) => Some(self.rules.downinter),
            (_, State::GoingDown | State::GoingUp) => Some(self.rules.fastinter),
        }
    }

    /// The same where more hangs on it than on another server: as often as one that is going down or up.
    pub fn short_interval(&self) -> Option<Duration> {
        let interval = self.interval()?;
        Some(match self.state {
            State::Down => interval,
            State::Up | State::GoingDown | State::GoingUp => interval.min(self.rules.fastinter),
        })
    }

    /// Whether a check that is due may be left out: traffic has just shown as much.
    pub fn may_skip(&self, now: Instant) -> bool {
        self.state == State::Up && self.well_until.is_some_and(|until| now < until)
    }

    /// Whether a check is wanted before it is due. Asking takes the wish back.
    pub const fn takes_check(&mut self) -> bool {
        std::mem::replace(&mut self.wants_check, false)
    }

    /// Its share of its weight: as its agent says, and while it grows, less.
    pub fn share(&self, now: Instant) -> f64 {
        match self.is_usable() {
            true => self.agent.share() * self.growth(now).max(FIRST_SHARE),
            false => 0.0,
        }
    }

    /// How much of its limit it may use, from 0 (one statement) to 1 (all of it).
    pub fn growth(&self, now: Instant) -> f64 {
        match self.risen {
            // Were it all of it while it is down, those in the queue would start before they can be taken out of it.
            _ if self.trial > 0 || matches!(self.state, State::Down | State::GoingUp) => 0.0,
            Some(risen) if !self.rules.slow_start.is_zero() => {
                let age = now.saturating_duration_since(risen).as_secs_f64();
                (age / self.rules.slow_start.as_secs_f64()).min(1.0)
            }
            _ => 1.0,
        }
    }
}

/// Without any load, a server could not show that it can bear some.
const FIRST_SHARE: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    fn after(signs: &[Sign], others: Others) -> Health {
        let now = Instant::now();
        let mut health = Health::new(CheckRules::default(), now);
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
    fn the_reason_is_that_of_the_state_that_is_shown() {
        let now = Instant::now();
        let mut health = Health::new(CheckRules::default(), now);
        let shown = |health: &Health| (health.name(), health.reason().0.to_owned());
        let is = |health: &Health, name, reason: &str| {
            assert_eq!(shown(health), (name, reason.to_owned()));
        };
        is(&health, "up", "not checked yet");
        health.see(Sign::Passed, Others::AreUp, now);
        is(&health, "up", "checks pass");
        health.set_order(HealthOrder::Drain, "by an order", now);
        is(&health, "drain", "by an order");
        health.see(failed(), Others::AreUp, now);
        is(&health, "drain", "by an order");
        health.set_order(HealthOrder::None, "by an order", now);
        is(&health, "going down", "no answer");
        health.see(Sign::Passed, Others::AreUp, now);
        is(&health, "up", "a check has passed");
        health.set_order(HealthOrder::Maintenance, "by an order", now);
        health.set_order(HealthOrder::None, "by an order", now);
        is(&health, "down", "not checked yet");
    }

    #[test]
    fn intervals_are_short_while_something_changes() {
        let rules = CheckRules { downinter: Duration::from_secs(9), ..CheckRules::default() };
        let now = Instant::now();
        let mut health = Health::new(rules.clone(), now);
        assert_eq!(health.interval(), Some(rules.inter));
        assert_eq!(health.short_interval(), Some(rules.fastinter));
        health.see(failed(), Others::AreUp, now);
        assert_eq!(health.interval(), Some(rules.fastinter));
        health.see(failed(), Others::AreUp, now);
        health.see(failed(), Others::AreUp, now);
        assert_eq!(health.interval(), Some(rules.downinter));
        health.set_order(HealthOrder::Maintenance, "by an order", now);
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
        let rules = CheckRules { fall: 1, ..CheckRules::default() };
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
        assert!(health.may_skip(now) && !health.may_skip(now + CheckRules::default().inter));
        health.see(Sign::TrafficFailed("reset".to_owned()), Others::AreUp, now);
        assert!(!health.may_skip(now));
    }

    #[test]
    fn an_order_outranks_results_and_what_comes_back_is_checked_first() {
        let now = Instant::now();
        let mut health = after(&[Sign::Passed], Others::AreUp);
        health.set_order(HealthOrder::Drain, "moving house", now);
        assert!(!health.is_usable() && health.reason().0 == "moving house");
        health.set_order(HealthOrder::None, "done", now);
        assert!(health.is_usable());
        health.set_order(HealthOrder::Maintenance, "new disk", now);
        health.set_order(HealthOrder::None, "done", now);
        assert!(!health.is_usable() && health.takes_check());
        health.see(Sign::Passed, Others::AreUp, now);
        health.see(Sign::Passed, Others::AreUp, now);
        assert!(health.is_usable());
    }

    #[test]
    fn a_risen_server_starts_slowly() {
        let now = Instant::now();
        let rules = CheckRules { slow_start: Duration::from_secs(10), ..CheckRules::default() };
        let mut health = Health::new(rules, now);
        assert_eq!(health.share(now), 1.0);
        for _ in 0..3 {
            health.see(failed(), Others::AreUp, now);
        }
        assert_eq!(health.share(now), 0.0);
        health.see(Sign::Passed, Others::AreUp, now);
        health.see(Sign::Passed, Others::AreUp, now);
        let later = now + Duration::from_secs(60);
        assert_eq!((health.share(later), health.growth(later)), (0.1, 0.0), "it is on trial");
        health.tried(now);
        let shares = |health: &Health| {
            [0, 5, 10, 60].map(|age| health.share(now + Duration::from_secs(age)))
        };
        assert_eq!(shares(&health), [0.1, 0.5, 1.0, 1.0]);
        // A check that fails once does not end it.
        health.see(failed(), Others::AreUp, now);
        health.see(Sign::Passed, Others::AreUp, now);
        assert_eq!(shares(&health), [0.1, 0.5, 1.0, 1.0]);
    }

    /// A server that was down, and has just come up.
    fn risen(rules: CheckRules) -> Health {
        let now = Instant::now();
        let mut health = Health::new(rules, now);
        for sign in [failed(), failed(), failed(), Sign::Passed, Sign::Passed] {
            health.see(sign, Others::AreUp, now);
        }
        assert!(health.is_usable());
        health
    }

    #[test]
    fn who_comes_up_is_on_trial_and_one_failure_ends_that() {
        let now = Instant::now();
        assert!(!after(&[Sign::Passed], Others::AreUp).is_on_trial(), "at the start nobody is");
        let risen = risen(CheckRules::default());
        assert!(risen.is_on_trial());
        let lost = || Sign::TrafficFailed("a backend connection was lost".to_owned());
        let mut fails = risen.clone();
        assert!(fails.see(lost(), Others::AreUp, now));
        assert_eq!(
            (fails.state(), fails.reason().0),
            (State::Down, "on trial: a backend connection was lost")
        );
        assert!(fails.takes_check() && !fails.is_on_trial());
        // The last one is not taken down by one sign.
        let mut last = risen.clone();
        last.see(lost(), Others::AreDown, now);
        assert!(last.is_usable() && last.is_on_trial());
        let mut passes = risen.clone();
        passes.tried(now);
        assert!(!passes.is_on_trial() && passes.growth(now) >= 1.0);
        passes.see(lost(), Others::AreUp, now);
        assert_eq!(passes.state(), State::GoingDown);
        // It gets no statements: as many passed checks again end the trial.
        let mut idle = risen;
        idle.see(Sign::Passed, Others::AreUp, now);
        assert!(idle.is_on_trial());
        idle.see(Sign::Passed, Others::AreUp, now);
        assert!(!idle.is_on_trial() && idle.risen == Some(now));
    }

    #[test]
    fn an_agent_is_heard_and_an_operator_outranks_it() {
        let now = Instant::now();
        let mut health = after(&[Sign::Passed], Others::AreUp);
        let hear = |health: &mut Health, line: &str| {
            let report = crate::checks::agent::read(line.as_bytes()).expect("a line");
            health.hear_agent(&report, now)
        };
        assert!(!hear(&mut health, "up\n") && health.is_usable());
        assert!(hear(&mut health, "up 50%\n"));
        assert_eq!((health.share(now), health.reason().0), (0.5, "its agent says up, 50%"));
        hear(&mut health, "stopped # backup\n");
        assert!(!health.is_usable() && health.state() == State::Up, "checks pass, it is not used");
        // Only the agent takes back what it has said.
        health.see(Sign::Passed, Others::AreUp, now);
        health.set_order(HealthOrder::None, "vouched for", now);
        assert!(!health.is_usable());
        hear(&mut health, "up 100% drain\n");
        assert_eq!((health.is_usable(), health.order()), (false, HealthOrder::Drain));
        hear(&mut health, "ready\n");
        assert!(health.is_usable());
        // What an operator has ordered, it does not take back.
        health.set_order(HealthOrder::Drain, "moving house", now);
        hear(&mut health, "up ready 100%\n");
        assert_eq!((health.is_usable(), health.order()), (false, HealthOrder::Drain));
        health.set_order(HealthOrder::None, "done", now);
        // A server that was not checked for a while is checked first.
        hear(&mut health, "maint\n");
        assert_eq!((health.interval(), health.is_usable()), (None, false));
        hear(&mut health, "ready\n");
        assert!(!health.is_usable() && health.takes_check());
    }
}
