//! A pooled client's session: what its next statement needs from a link, and whether it may give
//! its link back.

use std::rc::Rc;

use wire::lex::Dialect;
use wire::response::{OkPacket, Status};
use wire::tracker::{Change, Changes};

use crate::pin::Pin;
use crate::statements::Statements;

/// What is known of one client's session.
#[derive(Debug, Default)]
pub struct Session {
    pub schema: Option<Rc<[u8]>>,
    /// What `LAST_INSERT_ID()` must answer.
    pub insert_id: u64,
    pub statements: Statements,
    status: Status,
    /// The status flags of a session that has done nothing yet.
    fresh: Status,
    pin: Option<Pin>,
}

impl Session {
    pub fn new(schema: Option<Rc<[u8]>>, status: Status) -> Self {
        Self { schema, status, fresh: status, ..Self::default() }
    }

    /// Why the link must be kept although no transaction is open, if it must.
    pub const fn pin(&self) -> Option<Pin> {
        self.pin
    }

    /// Keeps the link for good. True if it was not pinned before.
    pub const fn keep(&mut self, pin: Pin) -> bool {
        let is_new = self.pin.is_none();
        if is_new {
            self.pin = Some(pin);
        }
        is_new
    }

    pub const fn in_transaction(&self) -> bool {
        self.status.has(Status::IN_TRANSACTION)
    }

    /// Whether the link stays with this client after its statement.
    pub const fn holds_link(&self) -> bool {
        self.pin.is_some() || self.in_transaction()
    }

    /// Whether a statement of this session begins and ends with nothing around it: no transaction, nothing kept.
    pub const fn is_plain(&self) -> bool {
        !self.holds_link() && self.status.has(Status::AUTOCOMMIT)
    }

    pub const fn status(&self) -> Status {
        self.status
    }

    /// How the server reads this session's statements.
    pub const fn dialect(&self) -> Dialect {
        Dialect { backslash_escapes: !self.status.has(Status::NO_BACKSLASH_ESCAPES) }
    }

    /// The status flags that a new session has.
    pub const fn fresh_status(&self) -> Status {
        self.fresh
    }

    /// Learns from the status flags of an OK or EOF packet.
    pub const fn see_status(&mut self, status: Status) {
        self.status = status;
    }

    /// Learns from an OK packet. The answer is a new reason to keep the link, if there is one.
    pub fn see_ok(&mut self, ok: &OkPacket<'_>) -> Option<Pin> {
        self.status = ok.status;
        if ok.insert_id != 0 {
            self.insert_id = ok.insert_id;
        }
        let mut reason = None;
        let mut schema_changed = false;
        for change in Changes::new(ok.changes) {
            match change {
                Ok(Change::Schema(name)) => {
                    self.schema = (!name.is_empty()).then(|| name.into());
                    schema_changed = true;
                }
                // MySQL counts each session's statements in a variable, and reports it after each.
                Ok(Change::Variable { name: b"statement_id", .. }) => {}
                Ok(Change::Variable { .. }) => reason = reason.or(Some(Pin::SessionVariable)),
                Ok(Change::TransactionState(state)) if state.last() == Some(&b'L') => {
                    reason = reason.or(Some(Pin::TableLock));
                }
                // A change of schema is also reported as a change of state.
                Ok(Change::State) if !schema_changed => reason = reason.or(Some(Pin::State)),
                Ok(
                    Change::State
                    | Change::Gtids(_)
                    | Change::TransactionCharacteristics(_)
                    | Change::TransactionState(_),
                ) => {}
                Ok(Change::Other(_)) | Err(_) => reason = reason.or(Some(Pin::State)),
            }
        }
        reason.filter(|pin| self.keep(*pin))
    }

    /// Forgets everything, as after `COM_RESET_CONNECTION`. The schema stays, as it does at the
    /// server; and numbers of statements are not given again: a client may close one that it had
    /// before.
    pub fn reset(&mut self) {
        let mut statements = std::mem::take(&mut self.statements);
        statements.clear();
        *self = Self { statements, ..Self::new(self.schema.take(), self.fresh) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::intent::Intent;
    use wire::tracker::put_change;

    fn ok(status: u16, changes: &[u8]) -> OkPacket<'_> {
        OkPacket { status: Status(status), changes, ..OkPacket::EMPTY }
    }

    fn changes(list: &[Change<'_>]) -> Vec<u8> {
        let mut out = Vec::new();
        for change in list {
            put_change(&mut out, *change);
        }
        out
    }

    #[test]
    fn a_reset_gives_no_statements_number_again() {
        let mut session = Session::default();
        let source =
            || Rc::new(crate::statements::Source { schema: None, text: b"DO 1"[..].into() });
        let before = session.statements.add(source(), 0, Intent::default()).unwrap();
        session.reset();
        assert!(session.statements.is_empty());
        let after = session.statements.add(source(), 0, Intent::default()).unwrap();
        session.statements.close(before);
        assert!(session.statements.get(after).is_some());
    }

    #[test]
    fn a_transaction_holds_the_link_until_it_ends() {
        let mut session = Session::default();
        assert_eq!(session.see_ok(&ok(3, b"")), None);
        assert!(session.holds_link());
        assert_eq!(session.see_ok(&ok(2, b"")), None);
        assert!(!session.holds_link());
    }

    #[test]
    fn a_change_of_schema_is_remembered_and_pins_nothing() {
        let mut session = Session::default();
        let use_test = changes(&[Change::Schema(b"test"), Change::State]);
        assert_eq!(session.see_ok(&ok(2, &use_test)), None);
        assert_eq!(session.schema.as_deref(), Some(&b"test"[..]));
        let dropped = changes(&[Change::Schema(b"")]);
        assert_eq!(session.see_ok(&ok(2, &dropped)), None);
        assert_eq!(session.schema, None);
    }

    #[test]
    fn other_changes_pin_once() {
        let variable = changes(&[Change::Variable { name: b"sql_mode", value: b"" }]);
        for (list, pin) in [
            (variable.clone(), Pin::SessionVariable),
            (changes(&[Change::State]), Pin::State),
            (changes(&[Change::TransactionState(b"_______L")]), Pin::TableLock),
            (vec![9, 9], Pin::State),
        ] {
            let mut session = Session::default();
            assert_eq!(session.see_ok(&ok(2, &list)), Some(pin));
            assert_eq!(session.see_ok(&ok(2, &variable)), None, "already pinned");
            assert!(session.holds_link());
            session.reset();
            assert!(!session.holds_link());
        }
    }

    #[test]
    fn what_mysql_counts_is_no_state() {
        let counter = Change::Variable { name: b"statement_id", value: b"13" };
        let mut session = Session::default();
        assert_eq!(session.see_ok(&ok(2, &changes(&[counter]))), None);
        let also = changes(&[counter, Change::Variable { name: b"sql_mode", value: b"" }]);
        assert_eq!(session.see_ok(&ok(2, &also)), Some(Pin::SessionVariable));
    }

    #[test]
    fn the_last_insert_id_is_kept_until_another_one_comes() {
        let mut session = Session::default();
        session.see_ok(&OkPacket { insert_id: 7, ..OkPacket::EMPTY });
        session.see_ok(&OkPacket::EMPTY);
        assert_eq!(session.insert_id, 7);
    }
}
