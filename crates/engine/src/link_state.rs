//! What a link's session at the server is known to be: what must be compared before a client's statement is sent, and
//! what the server's reports change.
//!
//! It belongs to the link, whoever uses it: reports on a client's statement and on Flifo's own fix-ups come here alike.

use std::rc::Rc;

use wire::response::OkPacket;
use wire::tracker::{Change, Changes};

use crate::pin::Pin;
use crate::session::Session;
use crate::settings::{Interned, Settings};

#[derive(Debug, Default)]
pub struct LinkState {
    pub schema: Option<Rc<[u8]>>,
    settings: Rc<Settings>,
    /// What the settings were when the session began.
    fresh: Rc<Settings>,
    /// The client that used it last, for what only the last link of a client can answer.
    pub last_client: u32,
}

impl LinkState {
    /// A session that has just begun, with these settings.
    pub fn new(fresh: Rc<Settings>) -> Self {
        Self { settings: Rc::clone(&fresh), fresh, ..Self::default() }
    }

    pub const fn settings(&self) -> &Rc<Settings> {
        &self.settings
    }

    pub const fn fresh(&self) -> &Rc<Settings> {
        &self.fresh
    }

    /// Whether this client's statement can be sent as it is.
    pub fn suits(&self, session: &Session) -> bool {
        self.schema == session.schema && Rc::ptr_eq(&self.settings, self.wanted(session))
    }

    /// The settings that a client's statement must run under. A client that has run nothing yet takes a new session's.
    pub fn wanted<'a>(&'a self, session: &'a Session) -> &'a Rc<Settings> {
        session.settings.as_ref().unwrap_or(&self.fresh)
    }

    /// Learns what an OK packet reports. The answer is why a change cannot be told to another link, if there is one
    /// that cannot.
    pub fn see(&mut self, ok: &OkPacket<'_>, interned: &mut Interned) -> Option<Pin> {
        let mut reason = None;
        for change in Changes::new(ok.changes).flatten() {
            match change {
                Change::Schema(name) => self.schema = (!name.is_empty()).then(|| name.into()),
                Change::Variable { name, value } => {
                    reason = reason.or(self.set(name, value, interned));
                }
                _ => {}
            }
        }
        reason
    }

    /// Learns the value of a variable.
    pub fn set(&mut self, name: &[u8], value: &[u8], interned: &mut Interned) -> Option<Pin> {
        // MySQL counts each session's statements in a variable, and reports it after each.
        if name == b"statement_id" {
            return None;
        }
        match self.settings.after(name, value) {
            Ok(Some(settings)) => {
                self.settings = interned.intern(settings);
                None
            }
            Ok(None) => None,
            Err(pin) => Some(pin),
        }
    }
}
