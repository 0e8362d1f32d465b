//! A session on its way to another process of Flifo: whether it can go, and what it is there.
//!
//! A session is written down as it is ([`crate::described`]). Numbers of backends go on with it: no process gives a
//! number that one before it has given, so a number that is not known there is that of a backend which nothing can be
//! asked of any more.

use super::state::Session;
use crate::backend_session::BackendSession;
use crate::insert_id::InsertId;
use crate::session_variables::Interned;
use crate::source::Sources;

impl Session {
    /// Whether only a backend other than this one knows something of it: that backend is asked first.
    pub fn is_told_elsewhere(&self, own: Option<u64>) -> bool {
        let is_elsewhere = |backend: u64| own != Some(backend);
        matches!(self.insert_id, InsertId::OnBackend { backend, .. } if is_elsewhere(backend))
            || self.counts.found_only_on().is_some_and(is_elsewhere)
    }

    /// It has come from another process: what sessions of this worker share, it shares from now on.
    pub fn settle(&mut self, interned: &mut Interned, sources: &mut Sources) {
        if let Some(settings) = &mut self.settings {
            *settings = interned.intern((**settings).clone());
        }
        self.variables.settle(interned);
        self.statements.settle(interned, sources);
    }
}

impl BackendSession {
    /// The same for the session of a backend.
    pub fn settle(&mut self, interned: &mut Interned) {
        for settings in self.all_settings() {
            *settings = interned.intern((**settings).clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use wire::lex::Dialect;
    use wire::response::Status;

    use super::*;
    use crate::insert_id::InsertId;
    use crate::kept::Message;
    use crate::pin::Pin;
    use crate::session_variables::SessionVariables;
    use crate::source::Source;

    fn settings(interned: &mut Interned) -> Rc<SessionVariables> {
        let rows = [("sql_mode", "ANSI_QUOTES"), ("autocommit", "ON")];
        let rows = rows.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        interned.intern(SessionVariables::from_rows(rows))
    }

    fn session(interned: &mut Interned) -> Session {
        let mut session = Session::new(Some(b"shop"[..].into()), Status(2));
        session.settings = Some(settings(interned));
        session.keep(Pin::TemporaryTable);
        session.ask_number();
        session.insert_id = InsertId::OnBackend { backend: 7, stale: None };
        session.add_own_message(Message::error(1064, *b"42000", b"f\xfcr"));
        let (text, settings) = (b"SELECT '\xff'"[..].into(), settings(interned));
        let source = Source::new(session.schema.clone(), text, settings, Dialect::default());
        let id = session.statements.add(Rc::new(source), 2).expect("there is room");
        session.statements.get(id).expect("is there").types = Some(b"\x03\x00\xfd\x80"[..].into());
        session
    }

    /// What is written is read again to the same, in a worker that has met nothing of it.
    #[test]
    fn a_session_is_the_same_in_another_process() {
        let before = session(&mut Interned::default());
        let written = serde_json::to_string(&before).expect("can be written");
        let mut after: Session = serde_json::from_str(&written).expect("can be read");
        let (mut interned, mut sources) = (Interned::default(), Sources::default());
        after.settle(&mut interned, &mut sources);
        assert_eq!(serde_json::to_string(&after).expect("can be written"), written);
        assert!(Rc::ptr_eq(after.settings.as_ref().expect("is set"), &settings(&mut interned)));
        assert_eq!((after.pin(), after.insert_id), (before.pin(), before.insert_id));
        assert!(after.has_asked_number() && !after.has_own_number());
        assert_eq!(after.statements.last(), before.statements.last());
        assert_eq!(format!("{:?}", after.kept()), format!("{:?}", before.kept()));
        let source = |session: &Session| Rc::clone(&session.statements.look(1).unwrap().source);
        assert_eq!(source(&after).text, source(&before).text);
    }

    /// The form of a session is part of what two versions of Flifo must have in common. Whatever changes it must have
    /// the number of that form raised: `FORM` in the proxy's `succession`.
    #[test]
    fn the_form_of_a_session_is_known() {
        let written = serde_json::to_string_pretty(&session(&mut Interned::default())).unwrap();
        let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/session.json");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(golden, &written).expect("is written");
        }
        let known = std::fs::read_to_string(golden).expect("is read");
        assert!(written == known, "the form has changed: raise its number; BLESS=1 writes it anew");
    }

    #[test]
    fn what_is_not_known_is_refused() {
        let written = serde_json::to_string(&session(&mut Interned::default())).unwrap();
        let read = |text: &str| serde_json::from_str::<Session>(text).map(drop);
        assert!(read(&written).is_ok());
        for (from, to) in [
            ("\"was_reset\"", "\"was_renewed\""),
            ("\"sql_mode\"", "\"sql_modes\""),
            ("ANSI_QUOTES", "'; DROP"),
            ("\"TemporaryTable\"", "\"Permanent\""),
        ] {
            let other = written.replacen(from, to, 1);
            assert_ne!(other, written, "{from}");
            assert!(read(&other).is_err(), "{to}");
        }
    }

    #[test]
    fn a_session_waits_for_what_another_backend_knows() {
        let mut session = session(&mut Interned::default());
        assert!(session.is_told_elsewhere(None) && session.is_told_elsewhere(Some(8)));
        assert!(!session.is_told_elsewhere(Some(7)));
        session.insert_id = InsertId::Known(3);
        assert!(!session.is_told_elsewhere(None));
    }
}
