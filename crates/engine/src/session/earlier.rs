//! Where the answer is to a statement that asks for what came before it: diagnostics, counts of rows, the last insert
//! id. It is on the client's own backend, on another one, kept here, or nowhere any more; it is never another client's.
//!
//! * Diagnostics keep the backend with its client, until a statement clears them or another client has waited for
//!   the backend.
//! * Counts are told by the backend that the client used last, if no other client has used it since.
//! * The last insert id is known by the backend of the insert. Before another client uses that backend, it is asked for
//!   the id.

use super::diagnostics::{CHARSET, Diagnostics};
use super::facts::Facts;
use super::state::Session;
use crate::counts::{Asked, RowCounts};
use crate::insert_id::InsertId;
use crate::intent::{DiagnosticsUse, Inserts, Trait};
use crate::kept::Server;

/// Whether a statement may ask for anything that was before it: nearly none does.
#[inline]
pub fn may_ask(session: &Session, facts: &Facts) -> bool {
    session.pin().is_some()
        || facts.diagnostics.are_asked_for()
        || facts.counts != Asked::default()
        || facts.calls
        || facts.inserts != Inserts::No
        || facts.has(Trait::AsksInsertId)
        || facts.has(Trait::ShowsVariables)
}

/// Where the diagnostics are that a statement asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiagnosticsPlace {
    /// On the client's backend, or it asks for none.
    Backend,
    /// They are these rows.
    Kept(Vec<Vec<u8>>),
    Discarded,
}

/// Where the diagnostics are that this statement asks for.
pub fn diagnostics(session: &Session, facts: &Facts, server: Server) -> DiagnosticsPlace {
    match (facts.diagnostics, session.diagnostics()) {
        (DiagnosticsUse::Counted | DiagnosticsUse::Spent, Diagnostics::Kept)
            if session.kept().is_some_and(|kept| !kept.can_be_told(server)) =>
        {
            DiagnosticsPlace::Discarded
        }
        (DiagnosticsUse::Shown, Diagnostics::Kept) => {
            let rows = facts.shows.zip(session.kept()).and_then(|((shows, format), kept)| {
                // Not known for a client that has run nothing yet: then its diagnostics are Flifo's own.
                let charset = session.settings.as_ref().and_then(|it| it.get(CHARSET));
                kept.rows(shows, format, charset.unwrap_or_default())
            });
            rows.map_or(DiagnosticsPlace::Discarded, DiagnosticsPlace::Kept)
        }
        (DiagnosticsUse::Diagnosed, Diagnostics::Kept) => DiagnosticsPlace::Discarded,
        (asked, Diagnostics::Lost) if asked.are_asked_for() => DiagnosticsPlace::Discarded,
        _ => DiagnosticsPlace::Backend,
    }
}

/// What a backend that has counted for the client's last statement runs before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    Nothing,
    /// Something that affects no rows.
    Setup,
    /// And that selects rows.
    Selects,
}

impl Before {
    /// As [`super::plan::Pair::counts_anew`] tells it.
    pub const fn of(counts_anew: Option<bool>) -> Self {
        match counts_anew {
            None => Self::Nothing,
            Some(false) => Self::Setup,
            Some(true) => Self::Selects,
        }
    }
}

/// Where the counts are that a statement asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountsPlace {
    /// It asks for none.
    Unasked,
    /// The client's backend answers with its own.
    Backend,
    /// The backend is told this count of rows affected.
    Told(i64),
    /// Another client has used the backend that has counted.
    Lost,
}

/// Where the counts are that a statement asks for. `own`: what the backend that has counted runs before it, if the
/// client has that backend.
pub fn counts(counts: &RowCounts, asked: Asked, own: Option<Before>) -> CountsPlace {
    if asked == Asked::default() {
        return CountsPlace::Unasked;
    }
    // Other counts than these, no backend can be told.
    let told = counts.affected().filter(|it| matches!(it, -1 | 0));
    // What counts 0 or -1 can be put behind a setup; what counts more cannot.
    let is_here = match own {
        None => false,
        Some(Before::Nothing) => true,
        Some(before) => {
            let is_rows = asked.affected && counts.affected() != Some(0);
            let hides_found = asked.found && (before == Before::Selects || is_rows);
            !hides_found && (!asked.affected || told.is_some())
        }
    };
    match told.filter(|_| !asked.found) {
        _ if is_here => CountsPlace::Backend,
        Some(told) => CountsPlace::Told(told),
        None => CountsPlace::Lost,
    }
}

/// The count of rows affected that a backend is told before a routine, which may ask for it unseen: the client's own if
/// it can be told; and none, never another client's.
pub fn masked(counts: &RowCounts) -> i64 {
    counts.affected().filter(|it| *it <= 0).unwrap_or(0)
}

/// Where the last insert id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InsertIdPlace {
    /// It is known, or it is on the client's backend, or the statement does not ask for it.
    Here,
    /// On this backend.
    On(u64),
    Lost,
}

/// Where the last insert id is for a statement. `own`: the client's backend.
pub fn insert_id(session: &Session, facts: &Facts, own: Option<u64>) -> InsertIdPlace {
    // Its old backend must be told the id of one that it may make.
    let is_asked = facts.has(Trait::AsksInsertId)
        || facts.inserts != Inserts::No
        || facts.has(Trait::ShowsVariables);
    // What runs on a backend that is kept may ask for it unseen.
    if !is_asked && session.pin().is_none() {
        return InsertIdPlace::Here;
    }
    match session.insert_id {
        InsertId::Known(_) => InsertIdPlace::Here,
        InsertId::OnBackend { backend, .. } if own == Some(backend) => InsertIdPlace::Here,
        InsertId::OnBackend { backend, .. } => InsertIdPlace::On(backend),
        InsertId::Lost => InsertIdPlace::Lost,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::{Format, Message, SavedDiagnostics};
    use crate::marks::Marks;
    use crate::pin::Pin;
    use wire::response::Status;

    const AFFECTED: Asked = Asked { affected: true, found: false };
    const FOUND: Asked = Asked { affected: false, found: true };
    const BOTH: Asked = Asked { affected: true, found: true };

    #[test]
    fn counts_are_the_backends_own_told_or_lost() {
        use Before::{Nothing, Selects, Setup};
        use CountsPlace::{Backend, Lost, Told, Unasked};
        for (affected, asked, own, place) in [
            (3, Asked::default(), None, Unasked),
            (3, AFFECTED, Some(Nothing), Backend),
            (3, AFFECTED, None, Lost),
            (3, AFFECTED, Some(Setup), Lost),
            (0, AFFECTED, None, Told(0)),
            (0, AFFECTED, Some(Setup), Backend),
            (-1, AFFECTED, Some(Selects), Backend),
            (-1, AFFECTED, None, Told(-1)),
            (3, FOUND, Some(Nothing), Backend),
            (3, FOUND, Some(Setup), Backend),
            (3, FOUND, Some(Selects), Lost),
            (0, FOUND, None, Lost),
            (0, BOTH, Some(Setup), Backend),
            (0, BOTH, Some(Selects), Lost),
            (-1, BOTH, Some(Setup), Lost),
            (-1, BOTH, Some(Nothing), Backend),
        ] {
            let mut own_counts = RowCounts::default();
            own_counts.see_affected(affected, 7);
            assert_eq!(counts(&own_counts, asked, own), place, "{affected} {asked:?} {own:?}");
        }
    }

    #[test]
    fn a_routine_never_meets_more_than_can_be_told() {
        for (affected, told) in [(3, 0), (0, 0), (-1, -1)] {
            let mut counts = RowCounts::default();
            counts.see_affected(affected, 7);
            assert_eq!(masked(&counts), told);
        }
    }

    #[test]
    fn an_insert_id_is_looked_for_where_it_was_made() {
        let asks = Facts { traits: Marks::default().with(Trait::AsksInsertId), ..Facts::default() };
        let inserts = Facts { inserts: Inserts::Reported, ..Facts::default() };
        let plain = Facts::default();
        let on = InsertId::OnBackend { backend: 7, stale: None };
        for (id, facts, own, place) in [
            (InsertId::Known(5), &asks, None, InsertIdPlace::Here),
            (on, &asks, Some(7), InsertIdPlace::Here),
            (on, &asks, Some(8), InsertIdPlace::On(7)),
            (on, &inserts, None, InsertIdPlace::On(7)),
            (on, &plain, None, InsertIdPlace::Here),
            (InsertId::Lost, &asks, Some(7), InsertIdPlace::Lost),
            (InsertId::Lost, &plain, Some(7), InsertIdPlace::Here),
        ] {
            let mut session = Session::new(None, Status::default());
            session.insert_id = id;
            assert_eq!(insert_id(&session, facts, own), place, "{id:?} {own:?}");
            assert!(place == InsertIdPlace::Here || may_ask(&session, facts));
        }
        let mut pinned = Session::new(None, Status::default());
        pinned.insert_id = on;
        pinned.keep(Pin::Call);
        assert_eq!(insert_id(&pinned, &plain, None), InsertIdPlace::On(7), "asked unseen");
        assert!(may_ask(&pinned, &plain));
    }

    #[test]
    fn diagnostics_are_shown_from_what_is_kept_or_discarded() {
        let mut session = Session::new(None, Status::default());
        let shows = crate::kept::Shows::read(
            wire::text::Lexed::default().text(b"SHOW WARNINGS", wire::lex::Dialect::default()),
        );
        let shown = Facts {
            diagnostics: DiagnosticsUse::Shown,
            shows: shows.map(|shows| (shows, Format::Text)),
            ..Facts::default()
        };
        assert_eq!(
            diagnostics(&session, &shown, Server::MariaDb),
            DiagnosticsPlace::Backend,
            "there are none"
        );
        session.keep_diagnostics(SavedDiagnostics::error(1064, *b"42000", b"Syntax", b""));
        let DiagnosticsPlace::Kept(rows) = diagnostics(&session, &shown, Server::MariaDb) else {
            panic!("they are kept")
        };
        assert_eq!(rows.len(), 1);
        let diagnosed = Facts { diagnostics: DiagnosticsUse::Diagnosed, ..Facts::default() };
        assert_eq!(diagnostics(&session, &diagnosed, Server::MariaDb), DiagnosticsPlace::Discarded);
        assert!(may_ask(&session, &shown) && may_ask(&session, &diagnosed));
        assert!(!may_ask(&session, &Facts::default()));
        let counted = Facts { diagnostics: DiagnosticsUse::Counted, ..Facts::default() };
        let place = |session: &Session, server| diagnostics(session, &counted, server);
        assert_eq!(place(&session, Server::MySql), DiagnosticsPlace::Backend);
        for _ in 0..40 {
            session.add_message(Message::error(1, *b"HY000", b""), 64, b"");
        }
        assert_eq!(place(&session, Server::MariaDb), DiagnosticsPlace::Backend);
        assert_eq!(place(&session, Server::MySql), DiagnosticsPlace::Discarded, "too many errors");
        session.lose_diagnostics();
        assert_eq!(diagnostics(&session, &shown, Server::MariaDb), DiagnosticsPlace::Discarded);
        assert_eq!(
            diagnostics(&session, &Facts::default(), Server::MariaDb),
            DiagnosticsPlace::Backend
        );
    }
}
