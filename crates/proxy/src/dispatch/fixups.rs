//! Fix-ups: what a link is told in the same write as the statement that needs it, and what becomes of the statement
//! should the link not take it.
//!
//! A statement behind a fix-up that fails runs regardless. So a fix-up goes ahead unanswered only where that does no
//! harm: settings by a text that the server has accepted before, a schema by way of one that no statement can do
//! anything to. If it fails all the same, the client gets an error in place of whatever its statement brings, the
//! statement is killed, and the link is dropped.
//!
//! Behind a `SET` whose effect the server does not report goes a probe that has it report; the client's turn comes
//! when that has been answered.
