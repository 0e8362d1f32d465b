//! What is noted of a statement while it is on its way, and what becomes of that when its client has its answer.

use std::cell::Cell;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use view::audit::{self, AuditKind};
use view::logged::{Literals, LoggedText};
use view::slow::{Parts, SlowBackend, SlowEntry, Why, is_sampled};
use wire::text::Text;

use super::Timed;
use super::recorder::Recorder;
use crate::config::Plan;
use crate::worker::seldom::Seldom;

/// What statements are looked at for. A worker has a copy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Noting {
    slow: Option<SlowRule>,
    ddl: bool,
    accounts: bool,
    /// There is an audit log.
    audits: bool,
}

/// The logs that rules tell of a statement, whatever else these have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ToldByRules {
    pub(crate) slow: bool,
    pub(crate) audit: bool,
}

impl ToldByRules {
    pub(crate) const NONE: Self = Self { slow: false, audit: false };
}

/// Which statements the slow log has, and how.
#[derive(Clone, Copy, Debug)]
struct SlowRule {
    threshold: Option<Duration>,
    sample: Option<u32>,
    literals: Literals,
}

impl Noting {
    pub(crate) fn of(plan: &Plan) -> Self {
        let (slow, audit) = (&plan.logs.slow, &plan.logs.audit);
        let rule =
            SlowRule { threshold: slow.threshold, sample: slow.sample, literals: slow.literals };
        Self {
            slow: slow.kept.file.is_some().then_some(rule),
            ddl: audit.tells(AuditKind::Ddl),
            accounts: audit.tells(AuditKind::Accounts),
            audits: audit.kept.file.is_some(),
        }
    }

    /// Whether statements are looked at at all.
    pub(crate) const fn is_on(&self) -> bool {
        self.slow.is_some() || self.ddl || self.accounts
    }

    /// Notes that a statement begins: the one with this number. `None`: there will be nothing to tell of it.
    pub(crate) fn begin(
        &self,
        text: Text<'_>,
        since: Instant,
        number: u64,
        told: ToldByRules,
    ) -> Option<Box<Noted>> {
        let kind = if self.ddl || self.accounts { audit::kind_of(text) } else { None };
        let audited = kind.filter(|kind| match kind {
            AuditKind::Accounts => self.accounts,
            _ => self.ddl,
        });
        let audited = audited.or_else(|| (told.audit && self.audits).then_some(AuditKind::Ruled));
        if self.slow.is_none() && audited.is_none() {
            return None;
        }
        let mut noted = self.noted(LoggedText::new(text), audited, since, number);
        if told.slow {
            noted.picked = Some(Why::Ruled);
        }
        Some(Box::new(noted))
    }

    /// The same of a command without a text.
    pub(crate) fn begin_command(
        &self,
        name: &'static str,
        since: Instant,
        number: u64,
    ) -> Option<Box<Noted>> {
        self.slow?;
        Some(Box::new(self.noted(LoggedText::Command(name), None, since, number)))
    }

    fn noted(
        &self,
        text: LoggedText,
        audited: Option<AuditKind>,
        since: Instant,
        number: u64,
    ) -> Noted {
        let sample = self.slow.and_then(|rule| rule.sample);
        let picked = sample.is_some_and(|of| is_sampled(number, of)).then_some(Why::Sampled);
        Noted { text, audited, since, launched: None, slow: self.slow, picked }
    }
}

/// What of a command goes to logs when it has ended.
#[derive(Debug)]
pub(crate) struct Noted {
    pub(crate) text: LoggedText,
    /// The audit log has it, as this.
    pub(crate) audited: Option<AuditKind>,
    pub(crate) since: Instant,
    /// When it had its slot and its backend.
    pub(crate) launched: Option<Instant>,
    slow: Option<SlowRule>,
    /// Why the slow log has it, whatever time it takes.
    picked: Option<Why>,
}

/// What came of a statement.
#[derive(Debug, Default)]
pub(crate) struct StatementEnd {
    pub(crate) rows: u64,
    pub(crate) affected: u64,
    pub(crate) error: Option<u16>,
    pub(crate) backend: SlowBackend,
    /// How many clients have got the reply to its run.
    pub(crate) sharers: u32,
}

impl Noted {
    /// It has got its slot and its backend.
    pub(crate) fn launch(&mut self, now: Instant) {
        self.launched.get_or_insert(now);
    }

    /// Where its time went, if it was sent at `sent` and has been answered now.
    pub(crate) fn parts(&self, sent: Option<Instant>, now: Instant) -> Parts {
        let between = |from: Instant, to: Instant| to.saturating_duration_since(from);
        let launched = self.launched.unwrap_or_else(|| sent.unwrap_or(now));
        Parts {
            queued: between(self.since, launched),
            setup: between(launched, sent.unwrap_or(now)),
            server: sent.map_or(Duration::ZERO, |sent| between(sent.max(self.since), now)),
            writing: Duration::ZERO,
        }
    }

    /// The server has answered it. `None`: it is not the slow log's.
    pub(crate) fn end(
        self,
        parts: Parts,
        end: StatementEnd,
        now: Instant,
        slow: &Arc<Recorder<Timed<SlowEntry>>>,
    ) -> Option<Ended> {
        let (rule, text, picked) = (self.slow?, self.text, self.picked);
        Some(Ended { parts, end, at: now, rule, text, picked, slow: Arc::clone(slow) })
    }
}

/// A statement whose answer its client takes.
#[derive(Debug)]
pub(crate) struct Ended {
    parts: Parts,
    end: StatementEnd,
    at: Instant,
    rule: SlowRule,
    text: LoggedText,
    picked: Option<Why>,
    slow: Arc<Recorder<Timed<SlowEntry>>>,
}

/// What a client keeps for logs.
pub(crate) struct LoggedClient {
    /// When it had logged in.
    pub(crate) since: Instant,
    /// The statement whose answer it takes.
    pub(crate) ended: Seldom<Ended>,
    /// The digest of the last statement that it was answered; zero: there was none, or none is kept.
    pub(crate) last_digest: Cell<u64>,
}

impl LoggedClient {
    pub(crate) fn new(since: Instant) -> Self {
        Self { since, ended: Seldom::default(), last_digest: Cell::default() }
    }
}

/// The client of a statement.
#[derive(Debug)]
pub(crate) struct SlowClient {
    pub(crate) id: u32,
    pub(crate) user: String,
    pub(crate) address: Option<IpAddr>,
    pub(crate) schema: Option<String>,
}

impl Ended {
    /// Its client has taken the answer, or will never: it is written if it was slow, or is one of so many.
    pub(crate) fn take(self, now: Instant, client: impl FnOnce() -> SlowClient) {
        let Self { mut parts, end, at, rule, text, picked, slow } = self;
        parts.writing = now.saturating_duration_since(at);
        let is_slow = rule.threshold.is_some_and(|threshold| parts.sum() >= threshold);
        let Some(why) = is_slow.then_some(Why::Slow).or(picked) else { return };
        let SlowClient { id, user, address, schema } = client();
        let StatementEnd { rows, affected, error, backend, sharers } = end;
        let literals = rule.literals;
        let client = id;
        let entry = SlowEntry {
            client,
            user,
            address,
            schema,
            parts,
            rows,
            affected,
            error,
            backend,
            sharers,
            why,
            text,
            literals,
        };
        slow.hand_over(Box::new(Timed { at: now, entry }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use wire::lex::Dialect;
    use wire::text::Lexed;

    fn noting(text: &str) -> Noting {
        Noting::of(&crate::config::parse(text, "test").expect("a good file").0)
    }

    #[test]
    fn only_what_is_asked_for_is_noted() {
        let slow = "[logs.slow]\nfile = 's'\n";
        let audit = "[logs.audit]\nfile = 'a'\n";
        for (plan, text, is_noted, audited) in [
            ("", "DROP TABLE t", false, None),
            (slow, "SELECT 1", true, None),
            (slow, "DROP TABLE t", true, None),
            (audit, "SELECT 1", false, None),
            (audit, "DROP TABLE t", true, Some(AuditKind::Ddl)),
            (&*format!("{audit}kinds = ['accounts']"), "DROP TABLE t", false, None),
            (
                &*format!("{audit}kinds = ['accounts']"),
                "DROP USER t",
                true,
                Some(AuditKind::Accounts),
            ),
            (&*format!("{audit}kinds = ['logins']"), "DROP USER t", false, None),
        ] {
            let (noting, lexed) = (noting(plan), Lexed::default());
            let text = lexed.text(text.as_bytes(), Dialect::default());
            let noted = noting.begin(text, Instant::now(), 1, ToldByRules::NONE);
            assert_eq!(noted.is_some(), is_noted, "{plan}: {text:?}");
            assert_eq!(noted.and_then(|it| it.audited), audited, "{plan}: {text:?}");
        }
        assert!(!noting("").is_on() && noting(slow).is_on() && noting(audit).is_on());
        assert!(!noting(&format!("{audit}kinds = ['console']")).is_on());
    }

    #[test]
    fn rules_have_statements_told_where_there_is_a_log() {
        let slow = "[logs.slow]\nfile = 's'\n";
        let audit = "[logs.audit]\nfile = 'a'\nkinds = ['logins']\n";
        let lexed = Lexed::default();
        let text = lexed.text(b"SELECT 1", Dialect::default());
        let all = ToldByRules { slow: true, audit: true };
        let begin = |plan: &str, told| noting(plan).begin(text, Instant::now(), 1, told);
        assert!(begin("", all).is_none());
        assert!(begin(audit, ToldByRules::NONE).is_none());
        let told = begin(audit, all).expect("the audit log has it");
        assert_eq!((told.audited, told.slow.is_some()), (Some(AuditKind::Ruled), false));
        let told = begin(slow, all).expect("the slow log has it");
        assert_eq!((told.audited, told.picked), (None, Some(Why::Ruled)));
        assert_eq!(begin(slow, ToldByRules::NONE).expect("it may be slow").picked, None);
    }

    #[test]
    fn parts_are_the_whole_time() {
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        for (launched, sent, parts) in [
            (Some(3), Some(5), [3, 2, 15, 0]),
            (None, Some(5), [5, 0, 15, 0]),
            (Some(3), None, [3, 17, 0, 0]),
            (None, None, [20, 0, 0, 0]),
        ] {
            let noting = noting("[logs.slow]\nfile = 's'\n");
            let mut noted = noting.begin_command("Execute", start, 1).expect("it is on");
            launched.iter().for_each(|millis| noted.launch(at(*millis)));
            noted.launch(at(7));
            if launched.is_none() {
                noted.launched = None;
            }
            let found = noted.parts(sent.map(at), at(20));
            let Parts { queued, setup, server, writing } = found;
            assert_eq!([queued, setup, server, writing], parts.map(Duration::from_millis));
            assert_eq!(found.sum(), Duration::from_millis(20));
        }
    }
}
