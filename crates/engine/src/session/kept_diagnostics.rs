//! A session's diagnostics (errors and warnings of its last statements): where they are, and how many the last
//! statement has left.
//!
//! MariaDB keeps them until a statement uses a table; MySQL, until anything is a statement. MySQL has commands besides
//! that clear none: what fails of those adds its error to what is there, and their OK tells the last statement's count
//! again.

use super::diagnostics::{CHARSET, Diagnostics, Told};
use super::observe::End;
use super::state::Session;
use crate::intent::DiagnosticsUse;
use crate::kept::{Message, SavedDiagnostics};

/// How many diagnostics a session keeps; it counts the others.
const ROOM: &str = "max_error_count";

impl Session {
    /// The diagnostics are these, whatever a backend has.
    pub fn keep_diagnostics(&mut self, kept: Box<SavedDiagnostics>) {
        self.diagnostics = if kept.is_empty() { Diagnostics::None } else { Diagnostics::Kept };
        self.kept = Some(kept).filter(|kept| !kept.is_empty());
    }

    /// The backend has said which diagnostics it has. Those that are kept here already stand before them.
    pub fn hear_diagnostics(&mut self, said: Box<SavedDiagnostics>) {
        match self.kept.take() {
            None => self.keep_diagnostics(said),
            Some(mut head) => match head.join(*said) {
                true => self.keep_diagnostics(head),
                false => self.diagnostics = Diagnostics::Lost,
            },
        }
    }

    /// An error, or a warning, stands behind the diagnostics of before, of which no backend has any.
    pub fn add_message(&mut self, message: Message, room: usize, charset: &[u8]) {
        match self.diagnostics {
            Diagnostics::None | Diagnostics::Kept => {
                let mut kept = self.kept.take().unwrap_or_default();
                match kept.add(message, room, charset) {
                    true => self.keep_diagnostics(kept),
                    false => self.diagnostics = Diagnostics::Lost,
                }
            }
            Diagnostics::OnBackend | Diagnostics::Marked => self.lose_diagnostics(),
            Diagnostics::Lost => {}
        }
    }

    /// The same, as many as this session keeps, in what it reads.
    pub fn add_own_message(&mut self, message: Message) {
        let settings = self.settings.clone();
        let setting = |name| settings.as_ref().and_then(|settings| settings.get(name));
        let room = setting(ROOM).and_then(|room| std::str::from_utf8(room).ok()?.parse().ok());
        let charset = setting(CHARSET).unwrap_or_default();
        self.add_message(message, room.unwrap_or(usize::MAX), charset);
    }

    /// The last message is this error, whatever a backend has.
    pub fn keep_error(&mut self, code: u16, state: [u8; 5], message: &[u8]) {
        let setting = |name| self.settings.as_ref().and_then(|settings| settings.get(name));
        let mut kept =
            SavedDiagnostics::error(code, state, message, setting(CHARSET).unwrap_or_default());
        if setting(ROOM) == Some(b"0") {
            kept.keep_numbers_only();
        }
        self.keep_diagnostics(kept);
        self.hear_told(1);
    }

    /// A client's command has ended, as far as diagnostics are concerned. `added`: its error, if that goes behind
    /// diagnostics of which its backend has none.
    pub(super) fn see_end_of_diagnostics(
        &mut self,
        end: &End<'_>,
        diagnostics: DiagnosticsUse,
        ok_warnings: Option<u16>,
        added: Option<Message>,
    ) {
        let told = self.told();
        self.see_told(end.last, end.failed, diagnostics, ok_warnings);
        let Some(message) = added else {
            return self.see_diagnostics(end.warnings, end.failed, diagnostics);
        };
        match (diagnostics, ok_warnings) {
            (DiagnosticsUse::Added, Some(_)) => {}
            (DiagnosticsUse::Added, None) => self.tell(1),
            // It has not come to its statement, and has cleared nothing.
            _ => self.tell(told.unwrap_or(0).saturating_add(1)),
        }
        self.add_own_message(message);
    }

    /// The backend has said whether it still has what it was told.
    pub fn resolve_diagnostics(&mut self, warnings: u64) {
        let kept = self.kept.take().filter(|_| warnings > 0);
        self.diagnostics = if kept.is_some() { Diagnostics::Kept } else { Diagnostics::None };
        self.kept = kept;
    }

    /// The backend has not said whether it still has what it was told.
    pub fn lose_mark(&mut self) {
        if self.diagnostics == Diagnostics::Marked {
            self.lose_diagnostics();
        }
    }

    /// The diagnostics are no longer available.
    pub fn lose_diagnostics(&mut self) {
        (self.diagnostics, self.kept) = (Diagnostics::Lost, None);
    }

    /// The diagnostics, if they are kept here.
    pub fn kept(&self) -> Option<&SavedDiagnostics> {
        self.kept.as_deref().filter(|_| self.diagnostics == Diagnostics::Kept)
    }

    pub(super) const fn has_diagnostics_on_backend(&self) -> bool {
        matches!(self.diagnostics, Diagnostics::OnBackend | Diagnostics::Marked)
    }

    /// Whether only the backend knows which diagnostics there are, so that it must be asked first.
    pub const fn are_diagnostics_in_doubt(&self) -> bool {
        match self.diagnostics {
            Diagnostics::Marked => true,
            Diagnostics::OnBackend => self.kept.is_some(),
            _ => false,
        }
    }

    pub const fn diagnostics(&self) -> Diagnostics {
        self.diagnostics
    }

    /// A statement has ended, with so many warnings, or in an error.
    pub fn see_diagnostics(&mut self, warnings: u16, failed: bool, diagnostics: DiagnosticsUse) {
        let before = self.diagnostics;
        self.diagnostics = match (diagnostics, before) {
            // What it shows is counted by some servers as its own.
            (DiagnosticsUse::Shown, _) if !failed => before,
            (DiagnosticsUse::Added, _) if !failed => before,
            (DiagnosticsUse::Added | DiagnosticsUse::Noted, Diagnostics::Lost) => before,
            (DiagnosticsUse::Noted, _) => Diagnostics::OnBackend,
            _ if failed || warnings > 0 => Diagnostics::OnBackend,
            (DiagnosticsUse::Go | DiagnosticsUse::Spent, _) => Diagnostics::None,
            (DiagnosticsUse::Unsure, Diagnostics::Kept) => Diagnostics::Marked,
            _ => before,
        };
        let adds = match diagnostics {
            DiagnosticsUse::Noted => true,
            DiagnosticsUse::Added => before == Diagnostics::OnBackend,
            _ => false,
        };
        let stays = match self.diagnostics {
            Diagnostics::Kept | Diagnostics::Marked => true,
            Diagnostics::OnBackend => adds,
            Diagnostics::None | Diagnostics::Lost => false,
        };
        if !stays {
            self.kept = None;
        }
    }

    /// How many diagnostics MySQL says that the last statement has left, where it is asked by a command that leaves
    /// none. `None`: only the backend knows.
    pub const fn told(&self) -> Option<u16> {
        match self.told {
            Told::Known(count) => Some(count),
            Told::OnBackend => None,
        }
    }

    pub const fn tell(&mut self, count: u16) {
        self.told = Told::Known(count);
    }

    /// A command has added so many.
    pub const fn tell_more(&mut self, more: u16) {
        if let Told::Known(count) = self.told {
            self.told = Told::Known(count.saturating_add(more));
        }
    }

    /// The backend has said how many it has.
    pub fn hear_told(&mut self, warnings: u64) {
        if self.told == Told::OnBackend {
            self.tell(u16::try_from(warnings).unwrap_or(u16::MAX));
        }
    }

    /// A statement has ended, and the last packet of its reply counts so many warnings. `ok_warnings`: what it has told
    /// again.
    pub const fn see_told(
        &mut self,
        last: u16,
        failed: bool,
        diagnostics: DiagnosticsUse,
        ok_warnings: Option<u16>,
    ) {
        self.told = match (failed, diagnostics, ok_warnings) {
            (true, DiagnosticsUse::Added | DiagnosticsUse::Noted, Some(count)) => {
                Told::Known(count.saturating_add(1))
            }
            (true, _, _) => Told::OnBackend,
            (false, _, _) => Told::Known(last),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kept::Server;
    use crate::pin::Pin;

    fn syntax() -> Box<SavedDiagnostics> {
        SavedDiagnostics::error(1064, *b"42000", b"Syntax", b"utf8mb4")
    }

    fn unknown() -> Message {
        Message::error(1243, *b"HY000", b"Unknown")
    }

    #[test]
    fn diagnostics_keep_the_backend_until_a_statement_clears_them() {
        let mut session = Session::default();
        session.see_diagnostics(0, false, DiagnosticsUse::Go);
        assert!(!session.holds_backend());
        for (warnings, failed) in [(1, false), (0, true)] {
            session.see_diagnostics(warnings, failed, DiagnosticsUse::Stay);
            session.see_diagnostics(0, false, DiagnosticsUse::Stay);
            session.see_diagnostics(0, false, DiagnosticsUse::Shown);
            assert!(session.holds_backend() && session.can_yield());
            session.see_diagnostics(0, false, DiagnosticsUse::Go);
            assert!(!session.holds_backend());
        }
        session.see_diagnostics(1, false, DiagnosticsUse::Go);
        session.yield_backend();
        assert!(!session.holds_backend() && session.diagnostics() == Diagnostics::Lost);
        for (diagnostics, after) in [
            (DiagnosticsUse::Stay, Diagnostics::Kept),
            (DiagnosticsUse::Shown, Diagnostics::Kept),
            (DiagnosticsUse::Unsure, Diagnostics::Marked),
            (DiagnosticsUse::Go, Diagnostics::None),
            (DiagnosticsUse::Counted, Diagnostics::Kept),
            (DiagnosticsUse::Spent, Diagnostics::None),
            (DiagnosticsUse::Added, Diagnostics::Kept),
        ] {
            session.keep_diagnostics(syntax());
            assert!(session.kept().is_some() && !session.holds_backend());
            session.see_diagnostics(0, false, diagnostics);
            assert_eq!(session.diagnostics(), after);
            assert_eq!(session.kept().is_some(), after == Diagnostics::Kept);
            assert_eq!(session.holds_backend(), after == Diagnostics::Marked);
        }
        session.see_diagnostics(1, false, DiagnosticsUse::Go);
        session.keep(Pin::UserVariable);
        assert!(!session.can_yield(), "more than diagnostics would be lost");
    }

    #[test]
    fn what_clears_nothing_adds_its_error() {
        let mut session = Session::default();
        session.add_message(unknown(), 64, b"utf8mb4");
        session.add_message(unknown(), 64, b"utf8mb4");
        assert_eq!(session.kept().map(|kept| kept.more_errors(Server::MySql)), Some(1));
        session.see_diagnostics(0, false, DiagnosticsUse::Go);
        assert_eq!(session.diagnostics(), Diagnostics::None);
        // What the backend has must be heard first.
        session.see_diagnostics(2, false, DiagnosticsUse::Go);
        session.add_message(unknown(), 64, b"utf8mb4");
        assert_eq!(session.diagnostics(), Diagnostics::Lost);
    }

    #[test]
    fn what_a_backend_adds_stands_behind_what_is_kept() {
        let mut session = Session::default();
        session.keep_diagnostics(syntax());
        session.see_diagnostics(0, false, DiagnosticsUse::Noted);
        assert!(session.are_diagnostics_in_doubt() && session.holds_backend());
        session.see_diagnostics(0, true, DiagnosticsUse::Added);
        assert!(session.are_diagnostics_in_doubt());
        session.hear_diagnostics(SavedDiagnostics::error(1146, *b"42S02", b"No table", b"utf8mb4"));
        assert_eq!(session.kept().map(|kept| kept.more_errors(Server::MySql)), Some(1));
        session.see_diagnostics(0, false, DiagnosticsUse::Noted);
        session.see_diagnostics(0, true, DiagnosticsUse::Go);
        assert!(!session.are_diagnostics_in_doubt(), "these are its own only");
    }

    #[test]
    fn a_count_is_told_again_until_a_statement_has_another() {
        let mut session = Session::default();
        session.see_told(2, false, DiagnosticsUse::Go, None);
        session.see_told(2, false, DiagnosticsUse::Added, Some(2));
        assert_eq!(session.told(), Some(2));
        session.see_told(0, true, DiagnosticsUse::Added, Some(2));
        assert_eq!(session.told(), Some(3));
        session.see_told(0, true, DiagnosticsUse::Go, None);
        session.tell_more(1);
        assert_eq!(session.told(), None);
        session.hear_told(4);
        session.hear_told(5);
        assert_eq!(session.told(), Some(4));
    }
}
