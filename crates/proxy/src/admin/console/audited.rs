//! What the audit log has of the console: logins, refusals, ends of sessions, and orders.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use engine::visits::VisitOrigin;
use view::audit::{AuditEntry, AuditKind, Fact};
use view::command::Command;
use view::logged::LoggedText;
use wire::lex::Dialect;
use wire::text::Lexed;

use super::{ConsoleSession, Refusal};
use crate::admin::Outside;

/// A client of the console, for the log.
#[derive(Clone, Debug)]
pub(super) struct Audited {
    pub(super) id: u32,
    pub(super) user: String,
    pub(super) address: Option<IpAddr>,
    pub(super) since: Instant,
}

impl Audited {
    pub(super) fn new(id: u32, user: &[u8], origin: VisitOrigin) -> Self {
        let address = match origin {
            VisitOrigin::Socket => None,
            VisitOrigin::Address(address) => Some(address),
        };
        let user = String::from_utf8_lossy(user).into_owned();
        Self { id, user, address, since: crate::worker::clock::read() }
    }

    fn tell(&self, outside: &Outside, kind: AuditKind, facts: Facts, text: Option<LoggedText>) {
        let entry = || {
            let (client, user, address) = (Some(self.id), Some(self.user.clone()), self.address);
            AuditEntry { kind, client, user, address, facts, text }
        };
        let plan = outside.shared.plan();
        outside.shared.records.tell(&plan, crate::worker::clock::read(), kind, entry);
    }

    pub(super) fn log_in(&self, outside: &Outside) {
        self.tell(outside, AuditKind::Logins, vec![at_console()], None);
    }

    pub(super) fn is_refused(&self, outside: &Outside, refusal: &Refusal) {
        let facts = [vec![at_console()], error(refusal)].concat();
        self.tell(outside, AuditKind::Refusals, facts, None);
    }

    pub(super) fn log_out(&self, outside: &Outside) {
        let since: Duration = crate::worker::clock::since(self.since);
        let facts = vec![at_console(), ("seconds", Fact::Seconds(since))];
        self.tell(outside, AuditKind::Logouts, facts, None);
    }
}

type Facts = Vec<(&'static str, Fact)>;

fn at_console() -> (&'static str, Fact) {
    ("mode", Fact::Text("console".to_owned()))
}

fn error(Refusal(code, _, message): &Refusal) -> Facts {
    vec![("error", Fact::Number((*code).into())), ("message", Fact::Text(message.clone()))]
}

impl ConsoleSession {
    /// Tells of a statement that has been answered, if it is an order.
    pub(super) fn tell_order(&self, order: Option<Vec<u8>>, done: &Result<(), Refusal>) {
        let Some(shown) = order else { return };
        let lexed = Lexed::default();
        let text = LoggedText::new(lexed.text(&shown, Dialect::default()));
        let mut facts = vec![("ok", Fact::Is(done.is_ok()))];
        facts.extend(done.as_ref().err().map(error).unwrap_or_default());
        self.audited.tell(&self.outside, AuditKind::Console, facts, Some(text));
    }
}

/// The text of an order as it may be shown; of others, none.
pub(super) fn order(text: &[u8], command: &Command) -> Option<Vec<u8>> {
    match command {
        Command::Nothing
        | Command::Query(_)
        | Command::Help(_)
        | Command::Use(_)
        | Command::ExplainRules(_) => None,
        Command::Set(name, _) if is_secret(name) => Some(format!("SET {name} = ?").into_bytes()),
        Command::Set(..)
        | Command::Server(..)
        | Command::ConfirmWriter(_)
        | Command::Kill(..)
        | Command::Reset(_)
        | Command::FlushCache(_)
        | Command::Reload
        | Command::Upgrade => Some(text.to_vec()),
    }
}

fn is_secret(option: &str) -> bool {
    let option = option.to_ascii_lowercase();
    option.contains("token") || option.contains("password")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_told_and_secrets_are_not() {
        for (text, shown) in [
            ("SHOW CLIENTS", None),
            ("SELECT 1", None),
            ("HELP", None),
            ("USE x", None),
            ("RELOAD", Some("RELOAD")),
            ("SET server.limit = 7", Some("SET server.limit = 7")),
            ("SET http.token = 'hunter2'", Some("SET http.token = ?")),
            ("SET console.password = 'hunter2'", Some("SET console.password = ?")),
            ("SET Users.a.PassWord = 'hunter2'", Some("SET Users.a.PassWord = ?")),
            ("KILL 7", Some("KILL 7")),
            ("PAUSE", Some("PAUSE")),
        ] {
            let command = view::command::read(text.as_bytes()).expect("a statement");
            let order = order(text.as_bytes(), &command);
            assert_eq!(order.as_deref(), shown.map(str::as_bytes), "{text}");
        }
    }
}
