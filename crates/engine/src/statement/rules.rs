//! Rules made ready: conditions as trees over numbered questions, expressions compiled, labels as numbers.
//!
//! Each question reads what is fixed for a session, what is fixed for a digest, or what is of the moment. So most of
//! them are asked once ([`super::judge`] remembers the answers). Invariants: rules are gone through once, front to back;
//! expressions take linear time and bounded memory; a rule that refuses also refuses what cannot be read.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::bucket::Buckets;
use super::edit::Edit;
use super::expressions::Expressions;
pub use super::expressions::expression;
use super::firewall::{Firewall, FirewallMode};
use super::numbered::NumberedForms;
pub use super::reading::FoundTexts;
use super::room::RuleRoom;
use super::rule::{Condition, DigestPattern, Rule, RuleRate, RuleRole, Then};
pub use super::truth::Truth;
use super::window::WeekMinute;
use crate::mirror::MirrorState;

/// The rules of a configuration.
#[derive(Debug)]
pub struct Rules {
    pub(super) rules: Vec<ReadyRule>,
    pub(super) questions: Vec<Question>,
    /// Expressions over digests, and over texts, with the questions that ask for them.
    pub(super) digests: Search,
    pub(super) texts: Search,
    /// What else is asked of a digest.
    pub(super) others: Vec<usize>,
    /// Rules that only match if an expression over digests is found, by its place; and all others.
    pub(super) found_by: Vec<Vec<usize>>,
    pub(super) not_found: Vec<usize>,
    asks: Vec<RuleAsks>,
    pub(super) asks_for_tables: bool,
    /// What is known of the statements that rules name by a number.
    pub(super) numbered: Arc<NumberedForms>,
    /// By their numbers.
    labels: Vec<String>,
    since: Instant,
}

/// What rules ask for that takes some work to tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAsks {
    /// The time of the week.
    Time,
    /// How a client came.
    Origin,
    /// Where a statement would go if no rule sent it.
    Place,
}

impl RuleAsks {
    const fn of(condition: &Condition) -> Option<Self> {
        match condition {
            Condition::Time(_) => Some(Self::Time),
            Condition::Listener(_) | Condition::Program(_) => Some(Self::Origin),
            Condition::Cluster(_) | Condition::Role(_) => Some(Self::Place),
            _ => None,
        }
    }
}

/// A rule made ready.
#[derive(Debug)]
pub struct ReadyRule {
    pub rule: Rule,
    pub edits: Vec<Edit>,
    pub counts: Arc<RuleCounts>,
    buckets: Arc<Mutex<Buckets>>,
    pub room: Arc<RuleRoom>,
    /// What its firewall knows.
    pub firewall: Arc<Firewall>,
    /// What must hold, each by the name of a configuration.
    pub(super) conditions: Vec<(&'static str, Node)>,
    pub(super) label: Option<usize>,
    pub(super) leads: Leads,
    /// What its mirror has done, if it has one.
    pub mirror: Option<Arc<MirrorState>>,
    /// Counts what matches otherwise, where only a share is taken: what runs, and what is prepared. Counted together, a
    /// client that prepares each statement and executes it once would always have its share in one of the two.
    turns: [AtomicU64; 2],
}

/// Where a rule goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leads {
    On,
    Nowhere,
    To(usize),
}

/// What a rule has done so far. Figures only grow.
#[derive(Debug, Default)]
pub struct RuleCounts {
    hits: AtomicU64,
    micros: AtomicU64,
    /// Milliseconds since the rules are counted, and one more; 0: never.
    last: AtomicU64,
}

/// A question to a session or to a statement.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) asks: Condition,
    pub(super) reads: ReadsOf,
}

/// What the answer to a question depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReadsOf {
    Session,
    Digest,
    Moment,
}

/// How questions are put together.
#[derive(Debug)]
pub(super) enum Node {
    Question(usize),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

/// Expressions over one text, and the question that asks for each.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) expressions: Expressions,
    pub(super) questions: Vec<usize>,
}

/// A session, as far as rules ask.
#[derive(Clone, Copy, Debug, Default)]
pub struct SessionFacts<'a> {
    pub user: &'a [u8],
    pub schema: Option<&'a [u8]>,
    pub address: Option<IpAddr>,
    /// The address that its client came in by, and what the client's program calls itself; empty where no rule asks.
    pub listener: &'a [u8],
    pub program: &'a [u8],
}

/// What is of the moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Moment<'a> {
    pub in_transaction: bool,
    pub local: WeekMinute,
    pub utc: WeekMinute,
    /// Where the statement would go if no rule sent it.
    pub cluster: Option<&'a str>,
    pub role: RuleRole,
    /// The label at which the client's earlier statements have had rules begin.
    pub label: Option<&'a str>,
    /// It is prepared, and does not run yet.
    pub is_prepared: bool,
    /// What was found in a long text on another thread.
    pub found: Option<&'a FoundTexts>,
}

impl Rules {
    /// Makes rules ready, which were checked one by one. `now`: since when they are counted; what earlier rules of
    /// the same names have counted stays.
    pub fn new(rules: &[Rule], earlier: Option<&Self>, now: Instant) -> Result<Self, String> {
        let mut questions = Vec::new();
        let mut labels: Vec<String> = Vec::new();
        let mut label_of = |label: &String| {
            labels.iter().position(|known| known == label).unwrap_or_else(|| {
                labels.push(label.clone());
                labels.len() - 1
            })
        };
        let mut ready = Vec::new();
        for rule in rules {
            let mut node = |it: &Condition| (it.name(), Node::of(it, &mut questions));
            let mut conditions: Vec<_> = rule.conditions.iter().map(&mut node).collect();
            if let Some(template) = &rule.acts.rewrite {
                conditions.push(node(&Condition::MayFit(template.clone())));
                conditions.push(node(&Condition::Fits(template.clone())));
            }
            let leads = match &rule.then {
                Some(Then::Next) => Leads::On,
                Some(Then::Stop) => Leads::Nowhere,
                Some(Then::Jump(label)) => Leads::To(label_of(label)),
                None if rule.acts.ends() => Leads::Nowhere,
                None => Leads::On,
            };
            let before = earlier.and_then(|it| it.named(&rule.name));
            let counts = before.map(|it| Arc::clone(&it.counts));
            let buckets = before.map(|it| Arc::clone(&it.buckets));
            let room = before.map(|it| Arc::clone(&it.room));
            let firewall = before.map(|it| Arc::clone(&it.firewall)).unwrap_or_default();
            if let Some(ruled) = &rule.acts.firewall {
                firewall.know(&ruled.forms, ruled.mode == FirewallMode::Learn);
            }
            ready.push(ReadyRule {
                rule: rule.clone(),
                edits: edits(rule)?,
                counts: counts.unwrap_or_default(),
                buckets: buckets.unwrap_or_default(),
                room: room.unwrap_or_default(),
                firewall,
                conditions,
                label: rule.label.as_ref().map(&mut label_of),
                leads,
                mirror: mirror(rule, before),
                turns: Default::default(),
            });
        }
        let digests = Search::of(&questions, |asks| match asks {
            Condition::DigestMatches(text) => Some(text),
            _ => None,
        })?;
        let texts = Search::of(&questions, |asks| match asks {
            Condition::TextMatches(text) => Some(text),
            _ => None,
        })?;
        let since = earlier.map_or(now, |it| it.since);
        let asks = questions.iter().filter_map(|it| RuleAsks::of(&it.asks)).collect();
        let (found_by, not_found) = digests.sort(&ready);
        let asked = questions.iter().enumerate().filter(|(_, it)| {
            it.reads == ReadsOf::Digest && !matches!(it.asks, Condition::DigestMatches(_))
        });
        let others = asked.map(|(at, _)| at).collect();
        let asks_for_tables = questions.iter().any(|it| matches!(it.asks, Condition::Table(_)));
        let numbered = numbered_of(&questions, earlier);
        Ok(Self {
            rules: ready,
            questions,
            digests,
            texts,
            others,
            found_by,
            not_found,
            asks,
            asks_for_tables,
            numbered,
            labels,
            since,
        })
    }

    /// None, counted since now.
    pub fn none(now: Instant) -> Self {
        Self {
            rules: Vec::new(),
            questions: Vec::new(),
            digests: Search::default(),
            texts: Search::default(),
            others: Vec::new(),
            found_by: Vec::new(),
            not_found: Vec::new(),
            asks: Vec::new(),
            asks_for_tables: false,
            numbered: Arc::default(),
            labels: Vec::new(),
            since: now,
        }
    }

    /// Whether any rule asks for this.
    pub fn asks(&self, what: RuleAsks) -> bool {
        self.asks.contains(&what)
    }

    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The shortest time that any rule lets a statement run.
    pub fn shortest_time(&self) -> Option<Duration> {
        self.rules
            .iter()
            .filter(|it| !it.rule.off)
            .filter_map(|it| it.rule.acts.statement_time)
            .min()
    }

    /// Whether any rule has replies kept.
    pub fn cache(&self) -> bool {
        self.rules.iter().any(|it| !it.rule.off && it.rule.acts.cache.is_some())
    }

    /// A rule by its place.
    pub fn get(&self, at: usize) -> Option<&ReadyRule> {
        self.rules.get(at)
    }

    pub fn iter(&self) -> impl Iterator<Item = &ReadyRule> {
        self.rules.iter()
    }

    /// What mirrors have that these rules have no more.
    pub fn mirrors_beyond<'r>(&'r self, now: &Self) -> impl Iterator<Item = &'r Arc<MirrorState>> {
        let stays = |it: &Arc<MirrorState>| {
            now.rules
                .iter()
                .filter_map(|ready| ready.mirror.as_ref())
                .any(|kept| Arc::ptr_eq(kept, it))
        };
        self.rules.iter().filter_map(|ready| ready.mirror.as_ref()).filter(move |it| !stays(it))
    }

    fn named(&self, name: &str) -> Option<&ReadyRule> {
        self.rules.iter().find(|it| it.rule.name == name)
    }

    /// A statement has hit this rule.
    pub fn count_hit(&self, rule: &ReadyRule, now: Instant) {
        rule.counts.hits.fetch_add(1, Relaxed);
        let millis = now.saturating_duration_since(self.since).as_millis();
        rule.counts.last.store(u64::try_from(millis).unwrap_or(u64::MAX - 1) + 1, Relaxed);
    }

    /// When a rule was last hit.
    pub fn last_hit(&self, rule: &ReadyRule) -> Option<Instant> {
        let millis = rule.counts.last.load(Relaxed).checked_sub(1)?;
        self.since.checked_add(Duration::from_millis(millis))
    }

    /// The number of the label at which rules begin at this moment. One that no rule has any more is none.
    pub(super) fn begins_at(&self, moment: &Moment<'_>) -> Option<usize> {
        let label = moment.label?;
        self.labels.iter().position(|known| known == label)
    }

    /// Goes through these rules, beginning at this label. A rule that refuses is hit by what is not known as well. Answers with those that are
    /// hit, in their order.
    pub(super) fn walk(
        &self,
        mut label: Option<usize>,
        is_prepared: bool,
        rules: impl Iterator<Item = usize>,
        mut judge: impl FnMut(usize, &ReadyRule) -> Truth,
    ) -> Vec<usize> {
        let mut hit = Vec::new();
        for at in rules {
            let Some(ready) = self.rules.get(at) else { continue };
            if ready.rule.off || ready.label != label {
                continue;
            }
            let is_hit = match judge(at, ready) {
                Truth::Yes => true,
                Truth::Unsure => ready.rule.acts.refuses(),
                Truth::No => false,
            };
            if !is_hit || !ready.takes_turn(is_prepared) {
                continue;
            }
            hit.push(at);
            match ready.leads {
                Leads::On => {}
                Leads::Nowhere => break,
                Leads::To(to) => label = Some(to),
            }
        }
        hit
    }
}

/// What is known of the statements that these questions name by a number.
fn numbered_of(questions: &[Question], earlier: Option<&Rules>) -> Arc<NumberedForms> {
    let numbered = earlier.map(|it| Arc::clone(&it.numbered)).unwrap_or_default();
    numbered.retain(|number| {
        questions.iter().any(|it| match &it.asks {
            Condition::Digest(named) => named.contains(&DigestPattern::Number(number)),
            _ => false,
        })
    });
    numbered
}

impl ReadyRule {
    /// Whether one more statement may run now, of those with this key.
    pub fn take(&self, rate: &RuleRate, key: &[u8], now: Instant) -> bool {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner).take(rate, key, now)
    }

    /// Whether this one is of the share that is taken: of so many in a row, always the same number is.
    fn takes_turn(&self, is_prepared: bool) -> bool {
        let Some(share) = self.rule.share else { return true };
        let turn = self.turns[usize::from(is_prepared)].fetch_add(1, Relaxed) as f64;
        ((turn + 1.0) * share).floor() > (turn * share).floor()
    }

    /// Whether all that it asks for is so.
    pub(super) fn judge(&self, ask: &mut dyn FnMut(usize) -> Truth) -> Truth {
        let mut least = Truth::Yes;
        for (_, node) in &self.conditions {
            least = least.min(node.judge(ask));
            if least == Truth::No {
                break;
            }
        }
        least
    }
}

impl RuleCounts {
    pub fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    /// How long the statements took that have hit it, in microseconds.
    pub fn micros(&self) -> u64 {
        self.micros.load(Relaxed)
    }

    /// A statement that has hit it is over.
    pub fn add_time(&self, took: Duration) {
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }
}

impl Node {
    fn of(condition: &Condition, questions: &mut Vec<Question>) -> Self {
        let mut all = |conditions: &[Condition]| {
            Self::All(conditions.iter().map(|it| Self::of(it, questions)).collect())
        };
        match condition {
            Condition::Not(inner) => Self::Not(Box::new(all(inner))),
            Condition::Any(inner) => Self::Any(inner.iter().map(|it| all(it)).collect()),
            Condition::All(inner) => Self::All(inner.iter().map(|it| all(it)).collect()),
            leaf => {
                let known = questions.iter().position(|it| it.asks == *leaf);
                Self::Question(known.unwrap_or_else(|| {
                    questions.push(Question { asks: leaf.clone(), reads: ReadsOf::of(leaf) });
                    questions.len() - 1
                }))
            }
        }
    }

    pub(super) fn judge(&self, ask: &mut dyn FnMut(usize) -> Truth) -> Truth {
        match self {
            Self::Question(at) => ask(*at),
            Self::Not(inner) => match inner.judge(ask) {
                Truth::No => Truth::Yes,
                Truth::Unsure => Truth::Unsure,
                Truth::Yes => Truth::No,
            },
            Self::All(inner) => inner.iter().map(|it| it.judge(ask)).min().unwrap_or(Truth::Yes),
            Self::Any(inner) => inner.iter().map(|it| it.judge(ask)).max().unwrap_or(Truth::No),
        }
    }
}

impl ReadsOf {
    const fn of(condition: &Condition) -> Self {
        match condition {
            Condition::User(_)
            | Condition::Schema(_)
            | Condition::Address(_)
            | Condition::Listener(_)
            | Condition::Program(_) => Self::Session,
            Condition::Kind(_)
            | Condition::Table(_)
            | Condition::Digest(_)
            | Condition::DigestMatches(_)
            | Condition::MayFit(_) => Self::Digest,
            _ => Self::Moment,
        }
    }
}

impl Search {
    fn of(
        questions: &[Question],
        text_of: impl Fn(&Condition) -> Option<&String>,
    ) -> Result<Self, String> {
        let asked = questions.iter().map(|it| text_of(&it.asks)).enumerate();
        let (questions, texts): (Vec<_>, Vec<_>) =
            asked.filter_map(|(at, text)| Some((at, text?.as_str()))).unzip();
        Ok(Self { expressions: Expressions::of(&texts)?, questions })
    }

    /// Rules that only match if an expression is found, by its place; and all others.
    fn sort(&self, rules: &[ReadyRule]) -> (Vec<Vec<usize>>, Vec<usize>) {
        let mut found_by = vec![Vec::new(); self.questions.len()];
        let mut others = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            let needs = |(_, node): &(_, Node)| match node {
                Node::Question(asked) => self.questions.iter().position(|it| it == asked),
                _ => None,
            };
            let place = rule.conditions.iter().find_map(needs);
            place.and_then(|it| found_by.get_mut(it)).unwrap_or(&mut others).push(at);
        }
        (found_by, others)
    }
}

/// What a mirror has done so far, if it is one into the same cluster as before.
fn mirror(rule: &Rule, before: Option<&ReadyRule>) -> Option<Arc<MirrorState>> {
    let mirror = rule.acts.mirror.as_ref().filter(|_| !rule.off)?;
    let is_same = |it: &&ReadyRule| {
        it.rule.acts.mirror.as_ref().is_some_and(|before| before.cluster == mirror.cluster)
    };
    let kept = before.filter(is_same).and_then(|it| it.mirror.as_ref());
    Some(kept.map(Arc::clone).unwrap_or_default())
}

fn edits(rule: &Rule) -> Result<Vec<Edit>, String> {
    let acts = &rule.acts;
    let mut edits = Vec::new();
    edits.extend(acts.rewrite.clone().map(Edit::Template));
    if let Some((find, with)) = &acts.replace {
        edits.push(Edit::Replace { find: expression(find)?, with: with.clone().into_bytes() });
    }
    // A hint stands before a comment.
    edits.extend(acts.comment.clone().map(Edit::Comment));
    edits.extend(acts.hint.clone().map(Edit::Hint));
    Ok(edits)
}
