//! Makes programs from seeds: several clients, each with sessions of a few statements, in one order.
//!
//! The same seed makes the same program. Knows what a kind's braces mean; which kinds there are is `kinds`'s.

use std::collections::VecDeque;

use bench::workloads::random;

use super::again;
use super::crowd;
use super::kinds::{
    PROBES, TOPICS, Topic, UNSETTLED, UNSTEADY_ON_MYSQL, When, changes_user, prepares_xa,
};
use super::loud;
use super::program::{
    Abilities, Action, Brand, How, Pace, Plan, Program, Slot, Step, USERS, replace,
};
use super::text::parse_action;

pub use super::kinds::count as kinds;

/// What a program shall be like.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub brand: Brand,
    pub clients: usize,
    /// Steps of all clients together.
    pub steps: usize,
    /// Also kinds that Flifo is known to answer otherwise.
    pub all: bool,
    pub asks: Asks,
}

/// What the clients of a program have to do with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asks {
    /// Nothing: each has schemas of its own.
    Apart,
    /// All ask the same at once: [`super::crowd`].
    AtOnce,
    /// They ask the same again and again while it is written: [`super::again`]. One program of four is of
    /// clients apart.
    Again,
    /// Nothing, but all rest now and then while one asks: [`super::loud`].
    Loudly,
}

/// Random numbers: the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(random::Random);

impl Random {
    pub const fn new(seed: u64) -> Self {
        Self(random::Random::new(seed))
    }

    pub fn number(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() % end as u64) as usize
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// Makes the program of a seed.
pub fn generate(seed: u64, shape: Shape) -> Program {
    match shape.asks {
        Asks::AtOnce => return crowd::generate(seed, shape),
        Asks::Again if !seed.is_multiple_of(4) => return again::generate(seed, shape),
        Asks::Loudly => return loud::generate(seed, shape),
        Asks::Apart | Asks::Again => {}
    }
    let mut random = Random::new(seed);
    let style = Style {
        pace: if random.once_in(3) { Pace::Rush } else { Pace::Turns },
        alone: random.once_in(12),
        all: shape.all,
        brand: shape.brand,
    };
    let mut clients: Vec<_> = (0..shape.clients).map(|number| plan(&mut random, number)).collect();
    // Apart from what else is drawn. What rows have changed, no EOF packet tells: it is told with the next change that is
    // to be told, and Flifo is told of more than its client.
    let mut told = Random::new(seed ^ TOLD);
    if told.once_in(2) {
        clients.iter_mut().for_each(|Plan { abilities, .. }| {
            abilities.track = told.once_in(2) && abilities.no_eof;
        });
    }
    let users: Vec<usize> = clients.iter().map(|plan| plan.user).collect();
    let writer = |(number, plan): (usize, &Plan)| {
        let tracks = plan.abilities.track;
        Writer { tracks, ..Writer::new(number, style, &users) }
    };
    let mut writers: Vec<_> = clients.iter().enumerate().map(writer).collect();
    let mut steps = Vec::with_capacity(shape.steps);
    let mut turn = 0;
    while steps.len() < shape.steps {
        // Often the same client goes on, so that others find what it has left half done.
        if !random.once_in(3) {
            turn = random.below(writers.len());
        }
        if writers[turn].pending.is_empty() {
            writers[turn].write(&mut random);
            if let Some(victim) = writers[turn].victim.take() {
                let victim_rests = writers[victim].pending.is_empty() && victim != turn;
                if victim_rests && writers[victim].connected {
                    // It holds no backend: else its killer could wait for it for ever.
                    for action in [Action::Quit, Action::Connect] {
                        steps.push(Step { client: victim, action });
                    }
                    // At once, before the victim begins something new.
                    let order = std::mem::take(&mut writers[turn].pending);
                    steps.extend(order.into_iter().map(|action| Step { client: turn, action }));
                    writers[victim].was_killed();
                }
                // Else it is in the middle of something that must be finished.
                writers[turn].pending.clear();
                continue;
            }
        }
        let action = writers[turn].pending.pop_front();
        steps.extend(action.map(|action| Step { client: turn, action }));
    }
    let title = vec![format!("Made from seed {seed}.")];
    Program { title, only: Some(shape.brand), pace: style.pace, clients, steps }
}

/// Tells the numbers by which clients are told of changes from others of a seed.
const TOLD: u64 = 0x7461_6c6b;

pub(super) fn plan(random: &mut Random, number: usize) -> Plan {
    let (no_eof, multi) = (random.once_in(2), random.once_in(2));
    let abilities = Abilities {
        no_eof,
        trusts: !no_eof && random.once_in(3),
        // Several statements have several results.
        single: !multi && random.once_in(8),
        track: false,
        multi,
        found: random.once_in(6),
        // Flifo does not offer it to clients that share backends.
        cache: false,
    };
    Plan { user: number % USERS, in_schema: !random.once_in(6), abilities }
}

/// What holds for a whole program.
#[derive(Clone, Copy)]
struct Style {
    pace: Pace,
    /// The first client takes locks of the whole server; the others merely read.
    alone: bool,
    all: bool,
    brand: Brand,
}

/// Makes up what one client does.
struct Writer {
    number: usize,
    topics: Vec<&'static Topic>,
    topic: &'static Topic,
    pending: VecDeque<Action>,
    /// Sessions so far, which makes names unique.
    session: u32,
    /// Kinds that are left of this session.
    left: usize,
    connected: bool,
    /// It is told of changes to its session.
    tracks: bool,
    /// It has prepared an XA transaction in this session.
    has_prepared: bool,
    others: Vec<usize>,
    all: bool,
    brand: Brand,
    victim: Option<usize>,
}

impl Writer {
    fn new(number: usize, style: Style, users: &[usize]) -> Self {
        let fits = |topic: &&Topic| match topic.when {
            _ if style.alone && number > 0 => MERELY_READ.contains(&topic.name),
            When::Always => true,
            When::Alone => style.alone,
            When::InTurns => style.pace == Pace::Turns,
            When::OnMySql => style.brand == Brand::MySql,
            When::AloneOnMySql => style.alone && style.brand == Brand::MySql,
        };
        let topics: Vec<_> = TOPICS.iter().copied().flatten().filter(fits).collect();
        let is_mate = |other: &usize| *other != number && users[*other] == users[number];
        Self {
            number,
            topic: topics[0],
            topics,
            pending: VecDeque::new(),
            session: 0,
            left: 0,
            connected: false,
            tracks: false,
            has_prepared: false,
            all: style.all,
            brand: style.brand,
            others: (0..users.len()).filter(is_mate).collect(),
            victim: None,
        }
    }

    /// Makes up the next thing that this client does.
    fn write(&mut self, random: &mut Random) {
        if !self.connected {
            (self.connected, self.has_prepared) = (true, false);
            self.session += 1;
            self.left = 2 + random.below(12);
            self.pending.push_back(Action::Connect);
            // Else it is told of little.
            for kind in LISTENS {
                if self.tracks && random.once_in(2) {
                    let text = self.fill(kind, 1, random);
                    self.pending.push_back(Action::Query(bytes(&text)));
                }
            }
            return;
        }
        if self.left == 0 {
            self.connected = false;
            let vanishes = random.once_in(4);
            self.pending.push_back(if vanishes { Action::Vanish } else { Action::Quit });
            return;
        }
        self.left -= 1;
        let kind = if random.once_in(4) {
            random.pick(PROBES)
        } else {
            if random.once_in(3) {
                self.topic = random.pick(&self.topics);
            }
            random.pick(self.topic.kinds)
        };
        if self.tracks && TOLD_OTHERWISE.iter().any(|words| kind.contains(words)) {
            return;
        }
        if !self.all && is_unsettled(kind) || self.brand == Brand::MySql && is_unsteady(kind) {
            return;
        }
        if !self.all && self.brand == Brand::MySql && self.has_prepared && changes_user(kind) {
            return;
        }
        self.has_prepared |= prepares_xa(kind);
        let slot = 1 + random.below(3);
        for step in kind.split(" ;; ") {
            let step = self.fill(step, slot, random);
            match step.strip_prefix(':') {
                Some(action) => self.pending.extend(parse_action(action)),
                None => self.ask(bytes(&step), random),
            }
        }
    }

    /// Asks as a query, or now and then by a prepared statement.
    fn ask(&mut self, text: Vec<u8>, random: &mut Random) {
        const SLOT: u8 = 9;
        // A statement that names another client is one step. A count that only a reply has told cannot be put into a
        // text that was prepared before: Flifo then refuses.
        let has = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
        if !random.once_in(8) || has(b"{id:") || (has(b"ROW_COUNT") && !self.all) {
            return self.pending.push_back(Action::Query(text));
        }
        let (how, values) = (How::Plain, Vec::new());
        self.pending.push_back(Action::Prepare { slot: SLOT, text });
        self.pending.push_back(Action::Execute { slot: Slot::Is(SLOT), how, values });
        self.pending.push_back(Action::Close { slot: SLOT });
    }

    /// Another client has killed its connection; it notices this, and connects again.
    fn was_killed(&mut self) {
        self.pending.push_back(Action::Ping);
        self.pending.push_back(Action::Connect);
        self.session += 2;
    }

    /// Puts in what the seed decides.
    fn fill(&mut self, step: &str, slot: usize, random: &mut Random) -> String {
        fill(step, |inside| self.choose(inside, slot, step, random))
    }

    fn choose(&mut self, inside: &str, slot: usize, step: &str, random: &mut Random) -> String {
        if let Some(drawn) = draw(inside, random) {
            return drawn;
        }
        match inside {
            "p" => slot.to_string(),
            "made" => (100_000 * (self.number + 1) + random.below(5)).to_string(),
            "s" => super::peer::schema(self.number),
            "lock" => format!("lock{}_{}", self.number, self.session),
            "xid" => format!("xa{}_{}", self.number, self.session),
            "victim" => {
                // One for the whole kind: of the others, some may hold a backend. Alone in its user, a client tries itself.
                let other = match (self.victim, self.others.is_empty()) {
                    (Some(victim), _) => victim,
                    (None, true) => self.number,
                    (None, false) => self.others[random.below(self.others.len())],
                };
                self.victim = Some(other);
                if step.starts_with(":kill") {
                    other.to_string()
                } else {
                    format!("{{id:{other}}}")
                }
            }
            // For the peer, or none of ours.
            other => format!("{{{other}}}"),
        }
    }
}

/// A text with something in the place of its braces.
pub fn fill(text: &str, mut choose: impl FnMut(&str) -> String) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        let Some((inside, after)) = after.split_once('}') else { break };
        out.push_str(before);
        out.push_str(&choose(inside));
        rest = after;
    }
    out + rest
}

/// What is merely drawn for these braces.
pub(super) fn draw(inside: &str, random: &mut Random) -> Option<String> {
    const WORDS: &[&str] = &["ant", "bee", "cat", "dog", "eel"];
    // About a buffer, and far more.
    const LENGTHS: &[&str] = &["16300", "16384", "40000", "100000", "1200000"];
    if inside.contains('|') {
        let choices: Vec<&str> = inside.split('|').collect();
        return Some(random.pick(&choices).to_owned());
    }
    match inside {
        "n" => Some(random.below(100).to_string()),
        "w" => Some(random.pick(WORDS).to_owned()),
        "long" => Some(format!("{{fill:{}}}", random.pick(LENGTHS))),
        _ => None,
    }
}

/// What a client that is told of changes asks to be told of at first.
const LISTENS: &[&str] = &[
    "SET {session_track_system_variables|@@session_track_system_variables|SESSION session_track_system_variables} = '*'",
    "SET {SESSION |LOCAL |@@}session_track_state_change = {ON|1|TRUE|'on'}",
    "SET {session_track_transaction_info|@@session.session_track_transaction_info} = {CHARACTERISTICS|2|'characteristics'|STATE}",
];

/// What such a client is told otherwise: of all variables, whichever it names; of what a statement's end has put back, sooner;
/// of a variable that Flifo sets in the place of diagnostics.
const TOLD_OTHERWISE: [&str; 3] =
    ["session_track_system_variables = 'autocommit'", "SET STATEMENT", "GET DIAGNOSTICS"];

fn is_unsettled(kind: &str) -> bool {
    UNSETTLED.iter().any(|(words, _)| kind.contains(words))
}

fn is_unsteady(kind: &str) -> bool {
    UNSTEADY_ON_MYSQL.iter().any(|(words, _)| kind.contains(words))
}

/// Topics whose kinds take no lock and open no transaction.
const MERELY_READ: &[&str] = &[
    "variables, set in every form",
    "character sets and collations",
    "user variables",
    "reads that leave nothing",
    "counts of rows",
];

/// The bytes of a text in which `\xff` stands for one.
pub(super) fn bytes(text: &str) -> Vec<u8> {
    let mut out = text.as_bytes().to_vec();
    for at in super::program::find_all(text.as_bytes(), b"\\x") {
        let code = text.get(at..at + 4).unwrap_or_default();
        if let Some(byte) = code.get(2..).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            out = replace(&out, code.as_bytes(), &[byte]);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::differ::text::{parse, print};

    const SHAPE: Shape =
        Shape { brand: Brand::MariaDb, clients: 8, steps: 500, all: true, asks: Asks::Apart };

    #[test]
    fn a_seed_makes_one_program_and_it_can_be_written_down() {
        assert!(kinds() >= 760, "{}", kinds());
        for seed in 0..50 {
            let program = generate(seed, SHAPE);
            assert_eq!(generate(seed, SHAPE), program);
            assert_eq!(parse(&print(&program)).unwrap(), program, "seed {seed}");
        }
        assert_ne!(generate(1, SHAPE).steps, generate(2, SHAPE).steps);
    }

    #[test]
    fn every_action_of_every_kind_can_be_read() {
        let mut random = Random::new(1);
        let style = Style { pace: Pace::Turns, alone: true, all: true, brand: Brand::MySql };
        let mut writer = Writer::new(0, style, &[0, 0]);
        for kind in TOPICS.iter().copied().flatten().flat_map(|topic| topic.kinds) {
            for step in kind.split(" ;; ") {
                let step = writer.fill(step, 1, &mut random);
                let action = step.strip_prefix(':').map(parse_action);
                assert_ne!(action, Some(None), "{step}");
                assert!(!step.contains("{n}"), "{step}");
            }
        }
    }

    #[test]
    fn every_topic_of_those_who_merely_read_exists() {
        let names: Vec<_> = TOPICS.iter().copied().flatten().map(|topic| topic.name).collect();
        assert!(MERELY_READ.iter().all(|name| names.contains(name)));
    }
}
