//! Why rules are hit by a statement, and why others are not: nothing is counted, and nothing remembered.

use wire::text::Text;

use super::part::{Part, parts};
use super::reading::{Asked, digest_text};
use super::rules::{Leads, Moment, Rules, SessionFacts, Truth};

/// What a statement is to each rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// The statement as it is written; nothing, if it cannot be read.
    pub text: Vec<u8>,
    /// The statement with `?` for each literal.
    pub digest_text: String,
    /// In the order of the rules.
    pub whys: Vec<WhyRule>,
}

/// What a statement is to a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyRule {
    Hit,
    /// It is hit by this share of such statements.
    Share(String),
    /// It refuses what cannot be read.
    Unreadable,
    Off,
    /// No rule before it has jumped to its label, or one has jumped elsewhere.
    Label,
    /// A rule before it has ended that.
    Behind,
    /// This condition does not hold.
    Not(&'static str),
}

impl WhyRule {
    pub const fn is_hit(&self) -> bool {
        matches!(self, Self::Hit | Self::Share(_) | Self::Unreadable)
    }

    pub fn text(&self) -> String {
        match self {
            Self::Hit => "hit".to_owned(),
            Self::Share(share) => format!("hit by {share} of such statements"),
            Self::Unreadable => "hit: it refuses what cannot be read".to_owned(),
            Self::Off => "it is not enabled".to_owned(),
            Self::Label => "no rule jumps to its label".to_owned(),
            Self::Behind => "a rule before it ends the way".to_owned(),
            Self::Not(condition) => format!("{condition} does not match"),
        }
    }
}

impl Rules {
    /// What the statements of a text are to the rules. One, if it cannot be read.
    pub fn explain(
        &self,
        session: &SessionFacts<'_>,
        text: Text<'_>,
        moment: &Moment<'_>,
    ) -> Vec<Explained> {
        let answers = self.ask_session(session);
        let Some(parts) = parts(text) else {
            let asked = Asked::new(self, &answers, None, moment);
            let (text, digest_text) = (Vec::new(), String::new());
            return vec![Explained { text, digest_text, whys: self.whys(&asked) }];
        };
        let one = |part: &Part<'_>| {
            let (of_digest, _) = self.ask_digest(part, part.digest().hash());
            let asked = Asked::new(self, &answers, Some((&of_digest, part)), moment);
            let digest_text = String::from_utf8_lossy(&digest_text(part).0).into_owned();
            Explained { text: part.bytes().to_vec(), digest_text, whys: self.whys(&asked) }
        };
        parts.iter().map(one).collect()
    }

    fn whys(&self, asked: &Asked<'_>) -> Vec<WhyRule> {
        let (mut label, mut has_ended) = (self.begins_at(asked.moment), false);
        let mut whys = Vec::new();
        for ready in &self.rules {
            let mut ask = |question: usize| asked.answer(question);
            let truth = ready.judge(&mut ask);
            let failing =
                ready.conditions.iter().find(|(_, node)| node.judge(&mut ask) != Truth::Yes);
            let why = match truth {
                _ if ready.rule.off => WhyRule::Off,
                _ if has_ended => WhyRule::Behind,
                _ if ready.label != label => WhyRule::Label,
                Truth::Unsure if ready.rule.acts.refuse.is_some() => WhyRule::Unreadable,
                Truth::Yes => match ready.rule.share {
                    Some(share) => WhyRule::Share(format!("{} %", share * 100.0)),
                    None => WhyRule::Hit,
                },
                Truth::No | Truth::Unsure => {
                    WhyRule::Not(failing.map_or("match", |(name, _)| name))
                }
            };
            if why.is_hit() {
                match ready.leads {
                    Leads::On => {}
                    Leads::Nowhere => has_ended = true,
                    Leads::To(to) => label = Some(to),
                }
            }
            whys.push(why);
        }
        whys
    }
}
