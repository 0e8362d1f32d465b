//! The answers to questions: of a session, of a digest, of the moment.

use std::cell::OnceCell;

use wire::lex::Token;
use wire::text::Text;

use super::kind::StatementKind;
use super::part::{Part, parts};
use super::rule::{Condition, DigestPattern, TablePattern};
use super::rules::{Moment, Question, ReadsOf, Rules, SessionFacts, Truth};
use super::tables::NamedTables;
use super::tags::has_tag;
use super::window::Zone;

/// A text with `?` for each literal is read up to this length.
pub(super) const DIGEST_TEXT_MAX: usize = 64 << 10;

impl Rules {
    /// The answers that are the same for all statements of a session; the others are open.
    pub(super) fn ask_session(&self, session: &SessionFacts<'_>) -> Box<[Truth]> {
        let answer = |question: &Question| match &question.asks {
            Condition::User(names) => Truth::of(names.iter().any(|it| it.fits(session.user))),
            Condition::Schema(names) => Truth::of(
                session.schema.is_some_and(|schema| names.iter().any(|it| it.fits(schema))),
            ),
            Condition::Address(networks) => Truth::of(
                session.address.is_some_and(|address| networks.iter().any(|it| it.holds(address))),
            ),
            Condition::Listener(names) => {
                Truth::of(names.iter().any(|it| it.fits(session.listener)))
            }
            Condition::Program(names) => Truth::of(names.iter().any(|it| it.fits(session.program))),
            _ => Truth::Unsure,
        };
        self.questions.iter().map(answer).collect()
    }

    /// The answers that are the same for all statements of a digest; the others are open. And the rules that may be hit,
    /// in their order.
    pub(super) fn ask_digest(&self, part: &Part<'_>, digest: u64) -> (Box<[Truth]>, Vec<usize>) {
        let mut answers = vec![Truth::Unsure; self.questions.len()].into_boxed_slice();
        let (tables, own) = (OnceCell::new(), OnceCell::new());
        for at in &self.others {
            let (Some(question), Some(answer)) = (self.questions.get(*at), answers.get_mut(*at))
            else {
                continue;
            };
            *answer = match &question.asks {
                Condition::Kind(kinds) => StatementKind::is_one_of(part, kinds),
                Condition::Table(wanted) => {
                    let named: &NamedTables = tables.get_or_init(|| NamedTables::of(part));
                    let own = names_one(named, wanted);
                    match part.other().map(|other| names_one(&NamedTables::of(other), wanted)) {
                        Some(other) if other != own => Truth::Unsure,
                        _ => own,
                    }
                }
                Condition::MayFit(template) => Truth::of(template.may_fit(part)),
                Condition::Digest(wanted) => {
                    let own = || own.get_or_init(|| comparable(part)).as_slice();
                    let is_it = |it: &DigestPattern| match it {
                        DigestPattern::Number(number) if *number == digest => {
                            self.numbered.is_it(digest, own())
                        }
                        DigestPattern::Number(_) => Truth::No,
                        DigestPattern::Text(text) => Truth::of(text.as_bytes() == own()),
                    };
                    wanted.iter().map(is_it).max().unwrap_or(Truth::No)
                }
                _ => continue,
            };
        }
        if self.digests.questions.is_empty() {
            return (answers, self.not_found.clone());
        }
        let (text, is_cut) = digest_text(part);
        let found = self.digests.expressions.find(&text);
        for at in self.digests.questions.iter().filter(|_| !is_cut) {
            answers[*at] = Truth::No;
        }
        for at in found.iter().filter_map(|place| self.digests.questions.get(*place)) {
            answers[*at] = Truth::Yes;
        }
        if is_cut {
            return (answers, (0..self.rules.len()).collect());
        }
        let mut may_be_hit = self.not_found.clone();
        let with_found = found.iter().filter_map(|place| self.found_by.get(*place));
        may_be_hit.extend(with_found.flatten());
        may_be_hit.sort_unstable();
        (answers, may_be_hit)
    }
}

/// Whether one of these tables fits one of these patterns.
fn names_one(named: &NamedTables, wanted: &[TablePattern]) -> Truth {
    let is_any = named.tables.iter().any(|table| {
        wanted.iter().any(|pattern| {
            pattern.table.fits(&table.table)
                && pattern.schema.as_ref().is_none_or(|schema| {
                    // Which one is meant by a bare name, only the session knows.
                    table.schema.as_ref().is_none_or(|it| schema.fits(it))
                })
        })
    });
    if is_any { Truth::Yes } else { open_if(named.is_cut) }
}

const fn open_if(is_open: bool) -> Truth {
    if is_open { Truth::Unsure } else { Truth::No }
}

/// A text that is longer is looked through on another thread than that which serves its client, in bytes.
pub(super) const LOOKED_THROUGH_MAX: usize = 64 << 10;

/// The expressions over texts that are found in each statement of a text, by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundTexts(Vec<Vec<usize>>);

impl Rules {
    /// What takes long in a long text ([`super::judge::Ruling::Long`]). It may be asked for on any thread.
    pub fn look_through(&self, text: Text<'_>) -> FoundTexts {
        let all = parts(text).unwrap_or_default();
        FoundTexts(all.iter().map(|part| self.find_in(part)).collect())
    }

    pub(super) const fn is_long(&self, text: Text<'_>) -> bool {
        text.bytes.len() > LOOKED_THROUGH_MAX && !self.texts.questions.is_empty()
    }

    fn find_in(&self, part: &Part<'_>) -> Vec<usize> {
        self.texts.expressions.find(part.bytes().trim_ascii())
    }
}

/// A statement of a session at a moment: answers all questions.
pub(super) struct Asked<'a> {
    pub(super) rules: &'a Rules,
    pub(super) session: &'a [Truth],
    /// None: it cannot be read.
    pub(super) digest: Option<&'a [Truth]>,
    pub(super) part: Option<&'a Part<'a>>,
    pub(super) moment: &'a Moment<'a>,
    texts: OnceCell<Vec<usize>>,
}

impl<'a> Asked<'a> {
    pub(super) const fn new(
        rules: &'a Rules,
        session: &'a [Truth],
        statement: Option<(&'a [Truth], &'a Part<'a>)>,
        moment: &'a Moment<'a>,
    ) -> Self {
        let (digest, part) = match statement {
            Some((digest, part)) => (Some(digest), Some(part)),
            None => (None, None),
        };
        Self { rules, session, digest, part, moment, texts: OnceCell::new() }
    }

    /// It is this one of the statements of its text.
    pub(super) fn at(mut self, place: usize) -> Self {
        if let Some(found) = self.moment.found.and_then(|found| found.0.get(place)) {
            self.texts = OnceCell::from(found.clone());
        }
        self
    }

    pub(super) fn answer(&self, at: usize) -> Truth {
        let Some(question) = self.rules.questions.get(at) else { return Truth::Unsure };
        let of = |answers: &[Truth]| answers.get(at).copied().unwrap_or(Truth::Unsure);
        match question.reads {
            ReadsOf::Session => of(self.session),
            ReadsOf::Digest => self.digest.map_or(Truth::Unsure, of),
            ReadsOf::Moment => self.ask_moment(at, &question.asks),
        }
    }

    fn ask_moment(&self, at: usize, asks: &Condition) -> Truth {
        let moment = self.moment;
        match asks {
            Condition::InTransaction(is) => Truth::of(moment.in_transaction == *is),
            Condition::Cluster(names) => Truth::of(
                moment.cluster.is_some_and(|own| names.iter().any(|it| it.fits(own.as_bytes()))),
            ),
            Condition::Role(roles) => Truth::of(roles.contains(&moment.role)),
            Condition::Time(windows) => Truth::of(windows.iter().any(|window| {
                window.holds(match window.zone() {
                    Zone::Local => moment.local,
                    Zone::Utc => moment.utc,
                })
            })),
            Condition::Tag(key, values) => self.part.map_or(Truth::Unsure, |part| {
                Truth::of(has_tag(part, key, |value| values.iter().any(|it| it.fits(value))))
            }),
            Condition::Fits(template) => {
                self.part.map_or(Truth::Unsure, |part| Truth::of(template.fits(part)))
            }
            Condition::TextMatches(_) => {
                let Some(part) = self.part else { return Truth::Unsure };
                let found = self.texts.get_or_init(|| self.rules.find_in(part));
                let mut questions = self.rules.texts.questions.iter();
                let place = questions.position(|question| *question == at);
                Truth::of(place.is_some_and(|place| found.contains(&place)))
            }
            _ => Truth::Unsure,
        }
    }
}

/// The first statement of a text, with `?` for each literal. Nothing, if it cannot be read.
pub fn without_literals(text: Text<'_>) -> String {
    let all = parts(text).unwrap_or_default();
    let text = all.first().map(|part| digest_text(part).0).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// A statement's text with `?` for each literal, each value to be bound and each list of them, `@?` for each variable of
/// its session, and whether there is more of it.
pub(super) fn digest_text(part: &Part<'_>) -> (Vec<u8>, bool) {
    let (mut out, mut end, mut after_literal) = (Vec::new(), 0, false);
    for at in 0..part.len() {
        let (Some(token), Some((start, next_end))) = (part.token(at), part.span(at)) else { break };
        let has_gap = start > end && !out.is_empty();
        end = next_end;
        let is_literal = is_value(token);
        if after_literal && (is_literal || goes_on(part, at, token)) {
            continue;
        }
        after_literal = is_literal;
        if has_gap {
            out.push(b' ');
        }
        let piece = part.bytes().get(start..end).unwrap_or_default();
        out.extend_from_slice(match token {
            _ if is_literal => &b"?"[..],
            // All of them have one digest.
            Token::UserVariable(_) => &b"@?"[..],
            _ => piece,
        });
        if out.len() > DIGEST_TEXT_MAX {
            return (out, true);
        }
    }
    (out, false)
}

const fn is_value(token: Token<'_>) -> bool {
    matches!(token, Token::String(_) | Token::Number(_) | Token::Symbol(b'?'))
}

/// Whether this is the comma between two literals of a list.
fn goes_on(part: &Part<'_>, at: usize, token: Token<'_>) -> bool {
    token == Token::Symbol(b',') && part.token(at + 1).is_some_and(is_value)
}

/// The same with one space between two tokens and all words in capitals, so that texts can be compared.
pub fn comparable(part: &Part<'_>) -> Vec<u8> {
    let (mut out, mut after_literal) = (Vec::new(), false);
    for at in 0..part.len() {
        let (Some(token), Some((start, end))) = (part.token(at), part.span(at)) else { break };
        let is_literal = is_value(token);
        if after_literal && (is_literal || goes_on(part, at, token)) {
            continue;
        }
        after_literal = is_literal;
        let piece = part.bytes().get(start..end).unwrap_or_default();
        match token {
            _ if is_literal => out.push(b'?'),
            Token::UserVariable(_) => out.extend_from_slice(b"@?"),
            Token::Word(word) => out.extend(word.to_ascii_uppercase()),
            _ => out.extend_from_slice(piece),
        }
        out.push(b' ');
        if out.len() > DIGEST_TEXT_MAX {
            // A statement of a configuration is shorter, and equal to none that is not.
            break;
        }
    }
    out
}
