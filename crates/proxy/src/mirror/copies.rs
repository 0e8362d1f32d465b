//! A copy of a statement, with all that gives it its meaning, on its way to the mirror.

use std::sync::Arc;
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use engine::mirror::HeldCopy;
use engine::mirror::compare::RowsCompare;
use engine::statement::rule::RuleMirror;
use wire::Capabilities;
use wire::lex::Dialect;
use wire::reply_sum::ReplySum;

use crate::users::User;

/// A copy of a statement that has been answered.
pub(crate) struct MirrorCopy {
    pub(crate) held: HeldCopy,
    /// The rule's name, and what it says.
    pub(crate) rule: String,
    pub(crate) mirror: RuleMirror,
    pub(crate) client: CopiedClient,
    pub(crate) command: CopiedCommand,
    /// It changes nothing.
    pub(crate) is_read: bool,
    pub(crate) digest: u64,
    pub(crate) dialect: Dialect,
    pub(crate) rows: RowsCompare,
    /// What its client has got, how long that took, and when it had ended.
    pub(crate) own: ReplySum,
    pub(crate) took: Duration,
    pub(crate) ended: Instant,
}

/// The session that it comes from.
pub(crate) struct CopiedClient {
    pub(crate) name: UserName,
    pub(crate) user: Arc<User>,
    pub(crate) capabilities: Capabilities,
    pub(crate) collation: u8,
    /// The statement that makes a new session's variables those of this one.
    pub(crate) setup: Option<String>,
    pub(crate) schema: Option<Box<[u8]>>,
}

impl CopiedClient {
    /// How much memory it takes.
    pub(crate) fn bytes(&self) -> usize {
        self.setup.as_ref().map_or(0, String::len) + self.schema.as_ref().map_or(0, |it| it.len())
    }
}

/// What is sent.
#[derive(Debug)]
pub(crate) enum CopiedCommand {
    Query(Vec<u8>),
    /// A text that is prepared, and its execution behind the statement's id, with the types of all parameters.
    Execute {
        text: Vec<u8>,
        values: Vec<u8>,
    },
}

impl CopiedCommand {
    pub(crate) fn text(&self) -> &[u8] {
        match self {
            Self::Query(text) | Self::Execute { text, .. } => text,
        }
    }

    /// How much memory it takes.
    pub(crate) const fn bytes(&self) -> usize {
        match self {
            Self::Query(text) => text.len(),
            Self::Execute { text, values } => text.len() + values.len(),
        }
    }
}
