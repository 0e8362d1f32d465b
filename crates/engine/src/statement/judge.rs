//! What rules say of a statement, remembered: one for each worker.
//!
//! Sessions whose fixed questions are answered alike have one *view*. For a view and a form of statements it is
//! remembered which rules can be hit at all, and, where none of them asks for the moment, which are: with the text, where
//! that is remembered anyway ([`crate::intent::Readings`], [`crate::source::Source`]), and here for all others. So a
//! known statement costs a comparison of two numbers, however many rules there are. Invariants: memory is bounded; what
//! is remembered is forgotten when other rules are in force; what is found here is found by a hash with a secret, over
//! all that rules read of a text: no client can choose where in a table its statement lies, or make one that is taken
//! for another.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use wire::lex::Token;
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
    /// The secret that texts are hashed with.
    texts: RandomState,
    /// By a hash.
    profiles: NumberMap<u64, Profile>,
    views: HashMap<Rc<[Truth]>, View>,
    answers: NumberMap<u64, Rc<[Truth]>>,
    /// Views with lower numbers are those of other rules, or forgotten.
    oldest: u64,
    programs: NumberMap<u64, Program>,
    /// Of all programs together.
    steps: usize,
    /// Memory for what is hashed.
    hashed: Vec<u8>,
}

/// Sessions of which rules know the same. Of all judges in a process, no two views have the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View(u64);

/// The next one's number.
static VIEWS: AtomicU64 = AtomicU64::new(1);

/// A session that was seen.
#[derive(Debug)]
struct Profile {
    user: Box<[u8]>,
    schema: Option<Box<[u8]>>,
    address: Option<IpAddr>,
    listener: Box<[u8]>,
    program: Box<[u8]>,
    view: View,
}

/// What is known of statements of one form in a view.
#[derive(Clone, Debug)]
enum Program {
    /// These rules are hit.
    Fixed(Rc<[usize]>),
    /// These may be, depending on the moment. With the answers that depend on the form.
    Open(Rc<[usize]>, Rc<[Truth]>),
    /// It is more than one statement.
    Several,
    /// It cannot be read.
    Unreadable,
}

/// What rules say of the statements of one form, in the views that they came in last. Kept with what is remembered of
/// the form. Two forms are one if nothing that rules read tells them apart but the values of plain literals.
#[derive(Debug, Default)]
pub struct Decisions(RefCell<Vec<(View, Program)>>);

/// As many views have a decision each.
const DECISIONS_MAX: usize = 8;

/// A longer list of rules is not kept so often.
const DECISION_MAX: usize = 64;

impl Decisions {
    /// Whether it is known that rules say nothing in this view, unless an earlier statement had them begin elsewhere.
    #[inline]
    pub fn are_silent(&self, view: View) -> bool {
        let decisions = self.0.borrow();
        let known = decisions.iter().find(|(known, _)| *known == view);
        known.is_some_and(|(_, program)| matches!(program, Program::Fixed(hit) if hit.is_empty()))
    }

    fn get(&self, view: View) -> Option<Program> {
        let decisions = self.0.borrow();
        decisions.iter().find(|(known, _)| *known == view).map(|(_, program)| program.clone())
    }

    fn put(&self, view: View, program: &Program) {
        let fits = match program {
            Program::Fixed(hit) => hit.len() <= DECISION_MAX,
            Program::Open(open, _) => open.len() <= DECISION_MAX,
            Program::Several | Program::Unreadable => false,
        };
        if !fits {
            return;
        }
        let mut decisions = self.0.borrow_mut();
        if decisions.len() >= DECISIONS_MAX {
            decisions.remove(0);
        }
        decisions.push((view, program.clone()));
    }
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
    /// The text is long, and expressions are looked for in it: have that done on another thread
    /// ([`Rules::look_through`]), and ask again with what was found ([`Moment::found`]).
    Long,
}

const PROFILES_MAX: usize = 4096;
const VIEWS_MAX: usize = 4096;
const PROGRAMS_MAX: usize = 16 << 10;
/// Rules that may be hit, of all that is remembered.
const STEPS_MAX: usize = 1 << 20;
/// Something stands before a token.
const GAP: u8 = 0x80;
/// So much of a text is hashed at once.
const HASHED_MAX: usize = 4096;

impl Judge {
    pub fn new(rules: Arc<Rules>) -> Self {
        let random = RandomState::new();
        let secret = (random.hash_one(0), random.hash_one(1) | 1);
        Self {
            rules,
            secret,
            texts: RandomState::new(),
            profiles: NumberMap::default(),
            views: HashMap::new(),
            answers: NumberMap::default(),
            oldest: VIEWS.load(Relaxed),
            programs: NumberMap::default(),
            steps: 0,
            hashed: Vec::new(),
        }
    }

    pub const fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Whether a view that this one has told is still one.
    #[inline]
    pub const fn knows(&self, view: View) -> bool {
        self.oldest <= view.0
    }

    /// What rules say of a text with this digest. `text`: nothing, if not all of it is there.
    pub fn judge(
        &mut self,
        session: &SessionFacts<'_>,
        digest: Digest,
        text: Option<Text<'_>>,
        moment: &Moment<'_>,
    ) -> Ruling {
        let view = self.view(session);
        self.judge_in(view, digest, text, None, moment)
    }

    /// The same for a session of this view. `decisions`: what is known of statements of its form.
    pub fn judge_in(
        &mut self,
        view: View,
        digest: Digest,
        text: Option<Text<'_>>,
        decisions: Option<&Decisions>,
        moment: &Moment<'_>,
    ) -> Ruling {
        let label = self.rules.begins_at(moment);
        let decisions = decisions.filter(|_| label.is_none());
        let known = decisions.and_then(|decisions| decisions.get(view));
        if let Some(Program::Fixed(hit)) = known {
            return if hit.is_empty() { Ruling::Silent } else { Ruling::One(hit) };
        }
        // Of a view that is not known any more, nothing is sure.
        let answers = self.answers.get(&view.0).cloned().unwrap_or_default();
        let Some(text) = text else { return unreadable(&self.rules, &answers, moment) };
        let program = match known {
            Some(program) => program,
            None => {
                let program = self.program((view, label), &answers, digest, text);
                decisions.inspect(|decisions| decisions.put(view, &program));
                program
            }
        };
        let rules = &self.rules;
        match program {
            Program::Fixed(hit) if hit.is_empty() => Ruling::Silent,
            Program::Fixed(hit) => Ruling::One(hit),
            Program::Open(..) | Program::Several
                if moment.found.is_none() && rules.is_long(text) =>
            {
                Ruling::Long
            }
            Program::Open(open, of_digest) => {
                let Some(parts) = parts(text) else { return unreadable(rules, &answers, moment) };
                let part = parts.first().map(|part| (&*of_digest, part));
                let asked = Asked::new(rules, &answers, part, moment).at(0);
                Ruling::of(walk(rules, open.iter().copied(), &asked))
            }
            Program::Several => {
                let Some(parts) = parts(text) else { return unreadable(rules, &answers, moment) };
                let one = |(at, part): (usize, &Part<'_>)| -> Rc<[usize]> {
                    let (of_digest, open) = rules.ask_digest(part, part.digest().hash());
                    let asked = Asked::new(rules, &answers, Some((&of_digest, part)), moment);
                    walk(rules, open.into_iter(), &asked.at(at)).into()
                };
                let hit: Vec<_> = parts.iter().enumerate().map(one).collect();
                match hit.iter().all(|hit| hit.is_empty()) {
                    true => Ruling::Silent,
                    false => Ruling::Several(hit),
                }
            }
            Program::Unreadable => unreadable(rules, &answers, moment),
        }
    }

    /// What is the same for all statements of a session.
    pub fn view(&mut self, session: &SessionFacts<'_>) -> View {
        let hash = self.hash(session);
        let is_same = |known: &&Profile| {
            *known.user == *session.user
                && known.schema.as_deref() == session.schema
                && known.address == session.address
                && *known.listener == *session.listener
                && *known.program == *session.program
        };
        if let Some(known) = self.profiles.get(&hash).filter(is_same) {
            return known.view;
        }
        if self.profiles.len() >= PROFILES_MAX {
            self.profiles.clear();
        }
        let answers: Rc<[Truth]> = self.rules.ask_session(session).into();
        let view = self.view_of(answers);
        let profile = Profile {
            user: session.user.into(),
            schema: session.schema.map(Into::into),
            address: session.address,
            listener: session.listener.into(),
            program: session.program.into(),
            view,
        };
        self.profiles.insert(hash, profile);
        view
    }

    fn view_of(&mut self, answers: Rc<[Truth]>) -> View {
        if let Some(view) = self.views.get(&answers) {
            return *view;
        }
        if self.views.len() >= VIEWS_MAX {
            self.forget();
        }
        let view = View(VIEWS.fetch_add(1, Relaxed));
        self.views.insert(Rc::clone(&answers), view);
        self.answers.insert(view.0, answers);
        view
    }

    /// What is known of such a statement, by now.
    fn program(
        &mut self,
        (view, label): (View, Option<usize>),
        answers: &[Truth],
        digest: Digest,
        text: Text<'_>,
    ) -> Program {
        let key = self.key(view, label, text);
        if let Some(program) = self.programs.get(&key) {
            return program.clone();
        }
        let program = self.make(label, answers, digest.hash(), text);
        if self.programs.len() >= PROGRAMS_MAX || self.steps >= STEPS_MAX {
            (self.programs, self.steps) = (NumberMap::default(), 0);
        }
        self.steps += match &program {
            Program::Fixed(hit) => hit.len(),
            Program::Open(open, answers) => open.len() + answers.len(),
            Program::Several | Program::Unreadable => 0,
        };
        self.programs.insert(key, program.clone());
        program
    }

    /// What a decision is found by: a hash, which no client can foresee, of all that it depends on. Of a text, that are
    /// its tokens but for the values of literals and the names of variables; where strings may name tables (under
    /// `ANSI_QUOTES`), those as well; and where blanks are, if expressions see them.
    fn key(&mut self, view: View, label: Option<usize>, text: Text<'_>) -> u64 {
        let has_expressions = !self.rules.digests.questions.is_empty();
        let names =
            |start: usize| self.rules.asks_for_tables && text.bytes.get(start) == Some(&b'"');
        let tokens = text.tokens();
        let mut hasher = self.texts.build_hasher();
        hasher.write_u64(view.0);
        hasher.write_u64(label.map_or(0, |label| label as u64 + 1));
        let (mut out, mut end) = (std::mem::take(&mut self.hashed), 0);
        out.clear();
        out.extend([u8::from(tokens.is_cut()), u8::from(tokens.saw_executable_comment())]);
        if text.other().is_some() {
            // Which of it is executed, its tokens do not tell.
            out.extend_from_slice(text.bytes);
        }
        // What a literal holds may be run.
        let mut runs_text = false;
        let is_literal = |at: usize| match tokens.token(at) {
            Some(Token::Number(_)) => true,
            Some(Token::String(_)) => !names(tokens.span_of(at).unwrap_or_default().0),
            _ => false,
        };
        let mut at = 0;
        while let Some(token) = tokens.token(at) {
            let (start, behind) = tokens.span_of(at).unwrap_or_default();
            let gap = if has_expressions && start > end && at > 0 { GAP } else { 0 };
            let (kind, body): (u8, &[u8]) = match token {
                Token::String(name) if runs_text || names(start) => (1, name),
                Token::String(_) => (2, b""),
                Token::Number(_) => (3, b""),
                Token::Symbol(_) => (4, text.bytes.get(start..behind).unwrap_or_default()),
                Token::Word(word) => (5, word),
                Token::Quoted(name) => (6, name),
                Token::SystemVariable(name) => (7, name),
                Token::UserVariable(_) => (8, b""),
                Token::Assign => (9, b""),
                Token::Unfinished => (10, b""),
            };
            runs_text |= token.is_word("EXECUTE") || token.is_word("PREPARE");
            out.push(kind | gap);
            if !matches!(kind, 2 | 3 | 8..) {
                out.extend(u32::try_from(body.len()).unwrap_or(u32::MAX).to_le_bytes());
                out.extend_from_slice(body);
            }
            if out.len() >= HASHED_MAX {
                hasher.write(&out);
                out.clear();
            }
            // A list of literals counts as one, however long it is.
            let is_first = is_literal(at) && !runs_text;
            (at, end) = (at + 1, behind);
            while is_first && tokens.token(at) == Some(Token::Symbol(b',')) && is_literal(at + 1) {
                end = tokens.span_of(at + 1).unwrap_or_default().1;
                at += 2;
            }
        }
        hasher.write(&out);
        self.hashed = out;
        hasher.finish()
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
            true => Program::Fixed(
                rules.walk(label, false, open.iter().copied(), |_, _| Truth::Yes).into(),
            ),
            false => Program::Open(open.into(), of_digest.into()),
        }
    }

    fn forget(&mut self) {
        self.oldest = VIEWS.load(Relaxed);
        self.profiles.clear();
        self.views.clear();
        self.answers.clear();
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
    rules.walk(label, asked.moment.is_prepared, of, |_, ready| {
        ready.judge(&mut |question| asked.answer(question))
    })
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
