//! What of a command is for a mirror, until its reply has ended.

use std::rc::Rc;

use engine::mirror::HeldCopy;
use engine::mirror::compare::RowsCompare;
use engine::session_variables::SessionVariables;
use wire::lex::Dialect;

use crate::mirror::copies::CopiedCommand;

/// How far a command has come that may be mirrored.
#[derive(Debug, Default)]
pub(crate) enum MirrorPart {
    /// No mirror has it, or has it any more.
    #[default]
    None,
    /// The rule of this place mirrors it, if it is fit.
    Due(usize),
    /// It was copied.
    Copied(Box<Copied>),
}

/// A copy, as its worker holds it.
#[derive(Debug)]
pub(crate) struct Copied {
    /// The place of its rule.
    pub(crate) rule: usize,
    pub(crate) held: HeldCopy,
    pub(crate) command: CopiedCommand,
    pub(crate) is_read: bool,
    pub(crate) digest: u64,
    pub(crate) dialect: Dialect,
    pub(crate) rows: RowsCompare,
    pub(crate) schema: Option<Rc<[u8]>>,
    /// What its client's session has set; `None`: nothing.
    pub(crate) settings: Option<Rc<SessionVariables>>,
    /// What it was prepared under: as far as that tells how it is read, it is executed so.
    pub(crate) prepared_under: Option<Rc<SessionVariables>>,
}

impl MirrorPart {
    /// The place of the rule that mirrors it.
    pub(crate) const fn rule(&self) -> Option<usize> {
        match self {
            Self::None => None,
            Self::Due(rule) => Some(*rule),
            Self::Copied(copied) => Some(copied.rule),
        }
    }
}
