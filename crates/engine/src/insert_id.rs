//! `LAST_INSERT_ID()` of clients that share a link.
//!
//! An OK packet reports the number that a row was given, also where the statement gave it explicitly; the function
//! tells only numbers that the server has made. So after an insert only the link knows the function's value: the link
//! is asked before another client uses it. The value that a link has from another client is remembered, to tell it from
//! a new number.

use crate::link_state::LinkState;

/// What the function must answer in one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertId {
    Known(u64),
    /// This link knows.
    OnLink {
        link: u64,
        stale: Option<Stale>,
    },
    /// The value is no longer available.
    Lost,
}

/// If a link has this value, which it had before the insert, then the insert has made none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Whether only this link knows.
    pub const fn is_on(self, id: u64) -> bool {
        matches!(self, Self::OnLink { link, .. } if link == id)
    }

    /// Whether the function can be asked on this link as it is.
    pub const fn is_plainly_on(self, id: u64) -> bool {
        matches!(self, Self::OnLink { link, stale: None } if link == id)
    }

    /// The link has said what it has, or (`None`) has not.
    #[must_use]
    pub fn resolve(self, from: u64, said: Option<u64>) -> Self {
        match (self, said) {
            (Self::OnLink { link, .. }, _) if link != from => self,
            (Self::OnLink { stale: Some(stale), .. }, Some(value)) if stale.value == value => {
                stale.before.map_or(Self::Lost, Self::Known)
            }
            (Self::OnLink { .. }, Some(value)) => Self::Known(value),
            (Self::OnLink { .. }, None) => Self::Lost,
            (other, _) => other,
        }
    }
}

impl LinkState {
    /// A client whose last insert id the link has runs what may insert without the server's reporting it. What its
    /// session's is now.
    pub fn may_insert_unseen(&mut self, client: u32) -> InsertId {
        self.insert_id.replace_unknown();
        self.inserter = Some(client);
        InsertId::OnLink { link: self.id, stale: None }
    }

    /// A client's statement reports a number, or may have made one without reporting it. What its session's last
    /// insert id is now.
    pub(crate) fn see_insert(
        &mut self,
        client: u32,
        reported: Option<u64>,
        own: InsertId,
    ) -> InsertId {
        let link = self.id;
        let stale = self.insert_id.replace_unknown();
        let was_own = self.inserter.replace(client) == Some(client);
        let is_own = was_own && (own.is_on(link) || own == InsertId::Lost);
        match (own, stale) {
            // The link had this client's already, whatever that was.
            (InsertId::OnLink { stale: Some(stale), .. }, _)
                if is_own && Some(stale.value) == reported =>
            {
                InsertId::Lost
            }
            (InsertId::OnLink { .. } | InsertId::Lost, _) if is_own => own,
            (InsertId::Known(before), Some(value)) if before == value => {
                InsertId::OnLink { link, stale: None }
            }
            (own, Some(value)) if Some(value) != reported => {
                let before = if let InsertId::Known(before) = own { Some(before) } else { None };
                InsertId::OnLink { link, stale: Some(Stale { value, before }) }
            }
            _ => InsertId::Lost,
        }
    }
}

/// What a link's session has, if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnLink(Option<u64>);

impl Default for OnLink {
    fn default() -> Self {
        Self(Some(0))
    }
}

impl OnLink {
    pub const fn known(value: u64) -> Self {
        Self(Some(value))
    }

    pub const fn is_known(self) -> bool {
        self.0.is_some()
    }

    /// Whether the link would answer for a session as it should.
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

    /// A link that has this value from client 1, and what client 2 knows after it has reported `reported`.
    fn insert(value: u64, own: InsertId, reported: u64) -> InsertId {
        let (insert_id, inserter) = (OnLink::known(value), Some(1));
        let mut link = LinkState::default();
        (link.id, link.insert_id, link.inserter) = (7, insert_id, inserter);
        let own = link.see_insert(2, Some(reported), own);
        assert!(!link.insert_id.is_known() && link.inserter == Some(2));
        own
    }

    #[test]
    fn a_number_that_was_given_is_told_from_one_that_was_made() {
        let after = insert(4, InsertId::Known(3), 9);
        assert!(after.is_on(7) && !after.is_plainly_on(7));
        assert_eq!(after.resolve(7, Some(9)), InsertId::Known(9), "made");
        assert_eq!(after.resolve(7, Some(4)), InsertId::Known(3), "given");
        assert_eq!(after.resolve(7, None), InsertId::Lost);
        assert_eq!(after.resolve(8, Some(5)), after, "said by another link");
        assert_eq!(insert(4, InsertId::Lost, 9).resolve(7, Some(4)), InsertId::Lost);
        assert_eq!(insert(4, InsertId::Lost, 9).resolve(7, Some(9)), InsertId::Known(9));
    }

    #[test]
    fn what_cannot_be_told_is_lost() {
        assert_eq!(insert(9, InsertId::Known(3), 9), InsertId::Lost);
        let equal = insert(3, InsertId::Known(3), 9);
        assert!(equal.is_plainly_on(7), "whatever the link says is right");
    }

    #[test]
    fn later_inserts_on_the_same_link_are_told_apart_as_well() {
        let mut link = LinkState::default();
        link.insert_id = OnLink::known(4);
        let first = link.see_insert(2, Some(9), InsertId::Known(3));
        let second = link.see_insert(2, Some(10), first);
        assert_eq!(second.resolve(0, Some(4)), InsertId::Known(3), "both were given");
        assert_eq!(second.resolve(0, Some(9)), InsertId::Known(9), "the first was made");
        assert_eq!(link.see_insert(2, Some(4), second), InsertId::Lost);
        (link.inserter, link.insert_id) = (Some(2), OnLink::known(3));
        assert!(link.see_insert(2, Some(9), InsertId::Known(3)).is_plainly_on(0));
    }

    #[test]
    fn what_another_link_has_is_not_taken_for_this_ones() {
        let mut first = LinkState::new(1, Rc::default());
        let mut second = LinkState::new(2, Rc::default());
        let own = first.see_insert(5, Some(7), InsertId::Known(0));
        let own = second.see_insert(5, Some(8), own.resolve(1, Some(7)));
        assert!(own.is_on(2) && own.resolve(1, Some(7)) == own);
        // The first one still has the client's old number.
        let own = first.see_insert(5, Some(9), own.resolve(2, Some(8)));
        assert!(!own.is_plainly_on(1), "{own:?}");
    }

    #[test]
    fn a_number_that_is_not_reported_may_have_been_made() {
        let mut link = LinkState::new(7, Rc::default());
        (link.insert_id, link.inserter) = (OnLink::known(4), Some(1));
        let after = link.see_insert(2, None, InsertId::Known(3));
        assert_eq!(after.resolve(7, Some(4)), InsertId::Known(3));
        assert_eq!(after.resolve(7, Some(5)), InsertId::Known(5));
        assert!(link.see_insert(2, None, after).is_on(7));
    }

    #[test]
    fn a_link_answers_for_whose_number_it_has() {
        assert!(
            OnLink::known(4).is(InsertId::Known(4)) && !OnLink::known(4).is(InsertId::Known(0))
        );
        assert!(!OnLink(None).is(InsertId::Known(0)) && !OnLink::known(0).is(InsertId::Lost));
    }
}
