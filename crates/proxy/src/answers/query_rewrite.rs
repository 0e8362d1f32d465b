//! Statements whose words only Flifo can give their meaning, put for the server before they are sent: ids and counts
//! that are the client's own, and diagnostics that are kept here.

use std::rc::Rc;

use engine::counts::Asked;
use engine::kept::{Diagnosis, SavedDiagnostics};
use engine::session::Diagnostics;
use engine::{gtid, own_id};
use wire::command::{Opcode, query_text_at};
use wire::frame::{HEADER, put_joined};
use wire::lex::Dialect;
use wire::text::{Lexed, Text};

use crate::session::session_setup;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::command::Command;
use crate::state::worker::Worker;

/// A packet with a text, and what is sent instead once the text has been put in other words.
pub(crate) struct QueryPacket<'a> {
    own: &'a mut [u8],
    instead: Option<Vec<u8>>,
    /// Where the text begins in the payload.
    text_at: usize,
    dialect: Dialect,
    lexed: Lexed,
}

/// Where a text begins in the payload of a query, or of a preparation. `None`: it is neither, or that cannot be told.
pub(crate) fn text_at(client: &Client, opcode: Option<Opcode>, packet: &[u8]) -> Option<usize> {
    match opcode? {
        Opcode::Query => query_text_at(packet.get(HEADER..)?, client.capabilities),
        Opcode::StmtPrepare => Some(1),
        _ => None,
    }
}

impl<'a> QueryPacket<'a> {
    pub(crate) fn new(client: &Client, text_at: usize, packet: &'a mut [u8]) -> Self {
        let dialect = client.session.borrow().dialect();
        Self { own: packet, instead: None, text_at, dialect, lexed: Lexed::default() }
    }

    /// The text as it is by now.
    pub(crate) fn text(&self) -> Text<'_> {
        let packet = self.instead.as_deref().unwrap_or(self.own);
        self.lexed.text(packet.get(HEADER + self.text_at..).unwrap_or_default(), self.dialect)
    }

    /// The packet that is sent.
    pub(crate) fn packet(&mut self) -> &mut [u8] {
        self.instead.as_deref_mut().unwrap_or(self.own)
    }

    /// The same, to look at.
    pub(crate) fn whole(&self) -> &[u8] {
        self.instead.as_deref().unwrap_or(self.own)
    }

    /// Whether another text is sent than the client's.
    pub(crate) const fn is_other(&self) -> bool {
        self.instead.is_some()
    }

    /// Puts another text in the place of this one.
    pub(crate) fn put(&mut self, text: Vec<u8>) {
        self.rewrite(Some(text));
    }

    /// Puts another text in the place of this one, if there is another one.
    fn rewrite(&mut self, text: Option<Vec<u8>>) -> bool {
        let Some(text) = text else { return false };
        let mut out = Vec::new();
        put_joined(&mut out, 0, &[&self.own[HEADER..HEADER + self.text_at], &text]);
        (self.instead, self.lexed) = (Some(out), Lexed::default());
        true
    }
}

/// Puts the client's own id in the place of `CONNECTION_ID()`, if that occurs. The answer is whether the backend is asked
/// for it all the same.
pub(crate) fn put_own_id(worker: &Worker, client: &Client, query: &mut QueryPacket<'_>) -> bool {
    if client.session.borrow().has_own_number() {
        return true;
    }
    let brand = worker.shared.cluster.server(client.routing.server.get()).facts.brand();
    let own = own_id::put(query.text(), client.id, brand);
    query.rewrite(own.text);
    own.asks_backend
}

/// Puts counts of rows in the place of the calls that ask for them. The answer is what must still be asked.
pub(crate) fn put_counts(
    worker: &Worker,
    client: &Client,
    command: &Command,
    query: &mut QueryPacket<'_>,
) -> Asked {
    let session = client.session.borrow();
    // Where something goes ahead, the backend counts that.
    let knows = |backend: &Rc<Backend>| {
        session_setup::counts_anew(worker, client, command, backend).is_none()
    };
    let on = client.backend().filter(knows).map(|backend| backend.id);
    let (text, left) = session.counts.put(query.text(), command.facts.counts, on);
    query.rewrite(text);
    left
}

/// Puts the GTID of the client's own last write in the place of the variable that asks for it.
pub(crate) fn put_gtid(worker: &Worker, client: &Client, query: &mut QueryPacket<'_>) {
    // No other server has such a variable, and it says so.
    if worker.shared.cluster.greeter().facts.is_mariadb() {
        let text = query.text();
        let put = client.routing.gtid.with(|gtid| gtid::put(text, gtid));
        let text = put.unwrap_or_else(|| gtid::put(text, &[]));
        query.rewrite(text);
    }
}

/// The same for a `SHOW VARIABLES` that would show it: else what it shows may be another client's.
pub(crate) fn list_gtid(worker: &Worker, client: &Client, query: &mut QueryPacket<'_>) {
    if !worker.at(client.routing.server.get()).server.facts.tells_gtids() {
        return;
    }
    let text = query.text();
    let put = client.routing.gtid.with(|gtid| gtid::put_in_list(text, gtid));
    let text = put.unwrap_or_else(|| gtid::put_in_list(text, &[]));
    query.rewrite(text);
}

/// What answers a `GET DIAGNOSTICS` whose backend no longer has what it asks for. `None`: a backend may, or nothing does.
pub(crate) fn diagnosis(worker: &Worker, client: &Client, text: Text<'_>) -> Option<Diagnosis> {
    let session = client.session.borrow();
    if !matches!(session.diagnostics(), Diagnostics::None | Diagnostics::Kept) {
        return None;
    }
    let affected = session.counts.affected()?;
    SavedDiagnostics::get(session.kept(), affected, text, worker.kind_of_server(client))
}

/// The query with this text, which is run in the place of another command.
pub(crate) fn query_of(text: &[u8]) -> Vec<u8> {
    let mut query = Vec::new();
    put_joined(&mut query, 0, &[&[Opcode::Query as u8], text]);
    query
}
