//! `LAST_INSERT_ID()` of clients that share a backend.
//!
//! An OK packet reports the number that a row was given, also where the statement gave it explicitly; the function
//! tells only numbers that the server has made. So after an insert only the backend knows the function's value: the
//! backend is asked before another client uses it. The value that a backend has from another client is remembered, to
//! tell it from a new number.

use crate::backend_session::BackendSession;
use serde::{Deserialize, Serialize};

/// What the function must answer in one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InsertId {
    Known(u64),
    /// This backend knows.
    OnBackend {
        backend: u64,
        stale: Option<Stale>,
    },
    /// The value is no longer available.
    Lost,
}

/// If a backend has this value, which it had before the insert, then the insert has made none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stale {
    value: u64,
    /// What the session's own was before.
    before: Option<u64>,
}

impl Default for InsertId {
    fn default() -> Self {
        Self::Known(0)
    }
}

impl InsertId {
    /// Whether only this backend knows.
    pub const fn is_on(self, id: u64) -> bool {
        matches!(self, Self::OnBackend { backend, .. } if backend == id)
    }

    /// Whether the function can be asked on this backend as it is.
    pub const fn is_plainly_on(self, id: u64) -> bool {
        matches!(self, Self::OnBackend { backend, stale: None } if backend == id)
    }

    /// The backend has said what it has, or (`None`) has not.
    #[must_use]
    pub fn resolve(self, from: u64, said: Option<u64>) -> Self {
        match (self, said) {
            (Self::OnBackend { backend, .. }, _) if backend != from => self,
            (Self::OnBackend { stale: Some(stale), .. }, Some(value)) if stale.value == value => {
                stale.before.map_or(Self::Lost, Self::Known)
            }
            (Self::OnBackend { .. }, Some(value)) => Self::Known(value),
            (Self::OnBackend { .. }, None) => Self::Lost,
            (other, _) => other,
        }
    }
}

impl BackendSession {
    /// A client whose last insert id the backend has runs what may insert without the server's reporting it. What its
    /// session's is now.
    pub fn may_insert_unseen(&mut self, client: u32) -> InsertId {
        self.insert_id.replace_unknown();
        self.inserter = Some(client);
        InsertId::OnBackend { backend: self.id, stale: None }
    }

    /// A client's statement reports a number, or may have made one without reporting it. What its session's last
    /// insert id is now.
    pub(crate) fn see_insert(
        &mut self,
        client: u32,
        reported: Option<u64>,
        own: InsertId,
    ) -> InsertId {
        let backend = self.id;
        let stale = self.insert_id.replace_unknown();
        let was_own = self.inserter.replace(client) == Some(client);
        let is_own = was_own && (own.is_on(backend) || own == InsertId::Lost);
        match (own, stale) {
            // The backend had this client's already, whatever that was.
            (InsertId::OnBackend { stale: Some(stale), .. }, _)
                if is_own && Some(stale.value) == reported =>
            {
                InsertId::Lost
            }
            (InsertId::OnBackend { .. } | InsertId::Lost, _) if is_own => own,
            (InsertId::Known(before), Some(value)) if before == value => {
                InsertId::OnBackend { backend, stale: None }
            }
            (own, Some(value)) if Some(value) != reported => {
                let before = if let InsertId::Known(before) = own { Some(before) } else { None };
                InsertId::OnBackend { backend, stale: Some(Stale { value, before }) }
            }
            _ => InsertId::Lost,
        }
    }
}

/// What a backend's session has, if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnBackend(Option<u64>);

impl Default for OnBackend {
    fn default() -> Self {
        Self(Some(0))
    }
}

impl OnBackend {
    pub const fn known(value: u64) -> Self {
        Self(Some(value))
    }

    pub const fn is_known(self) -> bool {
        self.0.is_some()
    }

    /// Whether the backend would answer for a session as it should.
    pub fn is(self, own: InsertId) -> bool {
        matches!((self.0, own), (Some(value), InsertId::Known(own)) if value == own)
    }

    const fn replace_unknown(&mut self) -> Option<u64> {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    /// A backend that has this value from client 1, and what client 2 knows after it has reported `reported`.
    fn insert(value: u64, own: InsertId, reported: u64) -> InsertId {
        let (insert_id, inserter) = (OnBackend::known(value), Some(1));
        let mut backend = BackendSession::default();
        (backend.id, backend.insert_id, backend.inserter) = (7, insert_id, inserter);
        let own = backend.see_insert(2, Some(reported), own);
        assert!(!backend.insert_id.is_known() && backend.inserter == Some(2));
        own
    }

    #[test]
    fn a_number_that_was_given_is_told_from_one_that_was_made() {
        let after = insert(4, InsertId::Known(3), 9);
        assert!(after.is_on(7) && !after.is_plainly_on(7));
        assert_eq!(after.resolve(7, Some(9)), InsertId::Known(9), "made");
        assert_eq!(after.resolve(7, Some(4)), InsertId::Known(3), "given");
        assert_eq!(after.resolve(7, None), InsertId::Lost);
        assert_eq!(after.resolve(8, Some(5)), after, "said by another backend connection");
        assert_eq!(insert(4, InsertId::Lost, 9).resolve(7, Some(4)), InsertId::Lost);
        assert_eq!(insert(4, InsertId::Lost, 9).resolve(7, Some(9)), InsertId::Known(9));
    }

    #[test]
    fn what_cannot_be_told_is_lost() {
        assert_eq!(insert(9, InsertId::Known(3), 9), InsertId::Lost);
        let equal = insert(3, InsertId::Known(3), 9);
        assert!(equal.is_plainly_on(7), "whatever the backend connection says is right");
    }

    #[test]
    fn later_inserts_on_the_same_backend_are_told_apart_as_well() {
        let mut backend = BackendSession::default();
        backend.insert_id = OnBackend::known(4);
        let first = backend.see_insert(2, Some(9), InsertId::Known(3));
        let second = backend.see_insert(2, Some(10), first);
        assert_eq!(second.resolve(0, Some(4)), InsertId::Known(3), "both were given");
        assert_eq!(second.resolve(0, Some(9)), InsertId::Known(9), "the first was made");
        assert_eq!(backend.see_insert(2, Some(4), second), InsertId::Lost);
        (backend.inserter, backend.insert_id) = (Some(2), OnBackend::known(3));
        assert!(backend.see_insert(2, Some(9), InsertId::Known(3)).is_plainly_on(0));
    }

    #[test]
    fn what_another_backend_has_is_not_taken_for_this_ones() {
        let mut first = BackendSession::new(1, Rc::default());
        let mut second = BackendSession::new(2, Rc::default());
        let own = first.see_insert(5, Some(7), InsertId::Known(0));
        let own = second.see_insert(5, Some(8), own.resolve(1, Some(7)));
        assert!(own.is_on(2) && own.resolve(1, Some(7)) == own);
        // The first one still has the client's old number.
        let own = first.see_insert(5, Some(9), own.resolve(2, Some(8)));
        assert!(!own.is_plainly_on(1), "{own:?}");
    }

    #[test]
    fn a_number_that_is_not_reported_may_have_been_made() {
        let mut backend = BackendSession::new(7, Rc::default());
        (backend.insert_id, backend.inserter) = (OnBackend::known(4), Some(1));
        let after = backend.see_insert(2, None, InsertId::Known(3));
        assert_eq!(after.resolve(7, Some(4)), InsertId::Known(3));
        assert_eq!(after.resolve(7, Some(5)), InsertId::Known(5));
        assert!(backend.see_insert(2, None, after).is_on(7));
    }

    #[test]
    fn a_backend_answers_for_whose_number_it_has() {
        assert!(
            OnBackend::known(4).is(InsertId::Known(4))
                && !OnBackend::known(4).is(InsertId::Known(0))
        );
        assert!(!OnBackend(None).is(InsertId::Known(0)) && !OnBackend::known(0).is(InsertId::Lost));
    }
}
