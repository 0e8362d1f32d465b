//! What rules say of a statement, remembered: one for each worker.
//!
//! Sessions whose fixed questions are answered alike have one *view*. For a view and a digest it is remembered which
//! rules can be hit at all, and, where none of them asks for the moment, which are. So a known statement costs two
//! look-ups, however many rules there are. Invariants: memory is bounded; what is remembered is forgotten when other
//! rules are in force; no client can choose where in a table its statement lies.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

use wire::text::Text;

use super::part::{Part, parts};
use super::reading::Asked;
use super::rules::{Moment, Rules, SessionFacts, Truth};
use crate::intent::Digest;
use crate::numbers::NumberMap;

/// The rules of a worker, and what it remembers of them.
#[derive(Debug)]
pub struct Judge {
    rules: Arc<Rules>,
    secret: (u64, u64),
    /// By a hash.
    profiles: NumberMap<u64, Profile>,
    views: HashMap<Box<[Truth]>, u32>,
    programs: NumberMap<u64, (Known, Program)>,
    /// Of all programs together.
    steps: usize,
}

/// A session that was seen.
#[derive(Debug)]
struct Profile {
    user: Box<[u8]>,
    schema: Option<Box<[u8]>>,
    address: Option<IpAddr>,
    listener: Box<[u8]>,
    program: Box<[u8]>,
    view: u32,
    answers: Rc<[Truth]>,
}

/// What a decision is remembered by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    view: u32,
    /// Where rules begin.
    label: Option<usize>,
    digest: u64,
    /// Between which of its tokens there is something, if rules ask.
    spelling: u64,
}

/// What is known of a digest in a view.
#[derive(Clone, Debug)]
enum Program {
    /// These rules are hit.
    Fixed(Rc<[usize]>),
    /// These may be, depending on the moment. With the answers that depend on the digest.
    Open(Rc<[usize]>, Rc<[Truth]>),
    /// It is more than one statement.
    Several,
    /// It cannot be read.
    Unreadable,
}

/// What rules say of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ruling {
    /// Nothing.
    Silent,
    /// A statement hits these rules, in this order.
    One(Rc<[usize]>),
    /// A text of several statements, and the rules that each hits.
    Several(Vec<Rc<[usize]>>),
}

const PROFILES_MAX: usize = 4096;
const PROGRAMS_MAX: usize = 16 << 10;
/// Rules that may be hit, of all that is remembered.
const STEPS_MAX: usize = 1 << 20;

impl Judge {
    pub fn new(rules: Arc<Rules>) -> Self {
        let random = RandomState::new();
        let secret = (random.hash_one(0), random.hash_one(1) | 1);
        Self {
            rules,
            secret,
            profiles: NumberMap::default(),
            views: HashMap::new(),
            programs: NumberMap::default(),
            steps: 0,
        }
    }

    pub const fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// What rules say of a text with this digest. `text`: nothing, if not all of it is there.
    pub fn judge(
        &mut self,
        session: &SessionFacts<'_>,
        digest: Digest,
        text: Option<Text<'_>>,
        moment: &Moment<'_>,
    ) -> Ruling {
        let (view, answers) = self.view(session);
        let Some(text) = text else { return unreadable(&self.rules, &answers, moment) };
        let label = self.rules.begins_at(moment);
        // Expressions see where blanks are, digests do not.
        let spelling =
            if self.rules.digests.questions.is_empty() { 0 } else { self.spelling(text) };
        let known = Known { view, label, digest: digest.hash(), spelling };
        let program = self.program(known, &answers, text);
        let rules = &self.rules;
        match program {
            Program::Fixed(hit) if hit.is_empty() => Ruling::Silent,
            Program::Fixed(hit) => Ruling::One(hit),
            Program::Open(open, of_digest) => {
                let Some(parts) = parts(text) else { return unreadable(rules, &answers, moment) };
                let part = parts.first().map(|part| (&*of_digest, part));
                let asked = Asked::new(rules, &answers, part, moment);
                Ruling::of(walk(rules, open.iter().copied(), &asked))
            }
            Program::Several => {
                let Some(parts) = parts(text) else { return unreadable(rules, &answers, moment) };
                let one = |part: &Part<'_>| -> Rc<[usize]> {
                    let (of_digest, open) = rules.ask_digest(part, part.digest().hash());
                    let asked = Asked::new(rules, &answers, Some((&of_digest, part)), moment);
                    walk(rules, open.into_iter(), &asked).into()
                };
                let hit: Vec<_> = parts.iter().map(one).collect();
                match hit.iter().all(|hit| hit.is_empty()) {
                    true => Ruling::Silent,
                    false => Ruling::Several(hit),
                }
            }
            Program::Unreadable => unreadable(rules, &answers, moment),
        }
    }

    /// What is the same for all statements of a session.
    fn view(&mut self, session: &SessionFacts<'_>) -> (u32, Rc<[Truth]>) {
        let hash = self.hash(session);
        let is_same = |known: &&Profile| {
            *known.user == *session.user
                && known.schema.as_deref() == session.schema
                && known.address == session.address
                && *known.listener == *session.listener
                && *known.program == *session.program
        };
        if let Some(known) = self.profiles.get(&hash).filter(is_same) {
            return (known.view, Rc::clone(&known.answers));
        }
        if self.profiles.len() >= PROFILES_MAX {
            self.forget();
        }
        let answers = self.rules.ask_session(session);
        let next = self.views.len() as u32;
        let view = *self.views.entry(answers.clone()).or_insert(next);
        let answers: Rc<[Truth]> = answers.into();
        let profile = Profile {
            user: session.user.into(),
            schema: session.schema.map(Into::into),
            address: session.address,
            listener: session.listener.into(),
            program: session.program.into(),
            view,
            answers: Rc::clone(&answers),
        };
        self.profiles.insert(hash, profile);
        (view, answers)
    }

    /// What is known of such a statement, by now.
    fn program(&mut self, known: Known, answers: &[Truth], text: Text<'_>) -> Program {
        let Known { view, label, digest, spelling } = known;
        let place = label.map_or(0, |label| label as u64 + 1);
        let key = self.fold(self.fold(self.fold(u64::from(view), digest), place), spelling);
        if let Some((of, program)) = self.programs.get(&key)
            && *of == known
        {
            return program.clone();
        }
        let program = self.make(label, answers, digest, text);
        if self.programs.len() >= PROGRAMS_MAX || self.steps >= STEPS_MAX {
            (self.programs, self.steps) = (NumberMap::default(), 0);
        }
        self.steps += match &program {
            Program::Fixed(hit) => hit.len(),
            Program::Open(open, answers) => open.len() + answers.len(),
            Program::Several | Program::Unreadable => 0,
        };
        self.programs.insert(key, (known, program.clone()));
        program
    }

    /// Tells apart statements of one digest that differ in where blanks or comments are.
    fn spelling(&self, text: Text<'_>) -> u64 {
        let tokens = text.tokens();
        let (mut hash, mut gaps, mut end) = (0, 0_u64, 0);
        for at in 0..tokens.len() {
            let (start, behind) = tokens.span_of(at).unwrap_or_default();
            gaps = gaps << 1 | u64::from(start > end && at > 0);
            end = behind;
            if at % 64 == 63 {
                (hash, gaps) = (self.fold(hash, gaps), 0);
            }
        }
        self.fold(hash, gaps)
    }

    fn make(
        &self,
        label: Option<usize>,
        answers: &[Truth],
        digest: u64,
        text: Text<'_>,
    ) -> Program {
        let rules = &self.rules;
        let parts = parts(text);
        let part = match parts.as_deref() {
            None => return Program::Unreadable,
            Some([]) => return Program::Fixed(Rc::default()),
            Some([part]) => part,
            Some(_) => return Program::Several,
        };
        let (of_digest, may_be_hit) = rules.ask_digest(part, digest);
        let mut ask = |at: usize| {
            let of = |answers: &[Truth]| answers.get(at).copied().unwrap_or(Truth::Unsure);
            match of(answers) {
                Truth::Unsure => of(&of_digest),
                sure => sure,
            }
        };
        let mut open = Vec::new();
        let mut is_fixed = true;
        for at in may_be_hit {
            let Some(ready) = rules.get(at) else { continue };
            match ready.judge(&mut ask) {
                Truth::No => continue,
                Truth::Unsure => is_fixed = false,
                Truth::Yes => is_fixed &= ready.rule.share.is_none(),
            }
            open.push(at);
        }
        match is_fixed {
            true => {
                Program::Fixed(rules.walk(label, open.iter().copied(), |_, _| Truth::Yes).into())
            }
            false => Program::Open(open.into(), of_digest.into()),
        }
    }

    fn forget(&mut self) {
        self.profiles.clear();
        self.views.clear();
        (self.programs, self.steps) = (NumberMap::default(), 0);
    }

    /// A hash that clients cannot foresee.
    fn hash(&self, session: &SessionFacts<'_>) -> u64 {
        let bytes = |hash: u64, bytes: &[u8]| {
            let (words, rest) = bytes.as_chunks::<8>();
            let hash =
                words.iter().fold(hash, |hash, word| self.fold(hash, u64::from_le_bytes(*word)));
            let rest =
                rest.iter().fold(bytes.len() as u64, |word, byte| word << 8 | u64::from(*byte));
            self.fold(hash, rest)
        };
        let hash = bytes(0, session.user);
        let hash = bytes(hash, session.schema.unwrap_or(b"\xff"));
        let hash = match (session.listener, session.program) {
            (b"", b"") => hash,
            (listener, program) => bytes(bytes(hash, listener), program),
        };
        match session.address {
            None => hash,
            Some(IpAddr::V4(address)) => self.fold(hash, u64::from(address.to_bits())),
            Some(IpAddr::V6(address)) => bytes(hash, &address.octets()),
        }
    }

    fn fold(&self, hash: u64, word: u64) -> u64 {
        let product =
            u128::from(hash.rotate_left(23) ^ word ^ self.secret.0) * u128::from(self.secret.1);
        (product >> 64) as u64 ^ product as u64
    }
}

fn walk(rules: &Rules, of: impl Iterator<Item = usize>, asked: &Asked<'_>) -> Vec<usize> {
    let label = rules.begins_at(asked.moment);
    rules.walk(label, of, |_, ready| ready.judge(&mut |question| asked.answer(question)))
}

fn unreadable(rules: &Rules, answers: &[Truth], moment: &Moment<'_>) -> Ruling {
    let asked = Asked::new(rules, answers, None, moment);
    Ruling::of(walk(rules, 0..rules.rules.len(), &asked))
}

impl Ruling {
    fn of(hit: Vec<usize>) -> Self {
        if hit.is_empty() { Self::Silent } else { Self::One(hit.into()) }
    }
}
