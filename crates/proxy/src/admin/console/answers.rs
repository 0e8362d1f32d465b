//! What each statement to the console is answered with: tables, deeds, and what clients ask of any server.

use std::time::{SystemTime, UNIX_EPOCH};

use view::command::{self, Command};
use view::narrow;
use view::sql::{Session, SqlError};
use view::table::{Table, text};

use super::{ConsoleSession, Refusal, audited};
use crate::admin::any_server::VERSION;
use crate::admin::cached;
use crate::admin::catalog::{self, Rights};
use crate::admin::help;
use crate::admin::resultset::Packets;
use crate::admin::rules;

impl ConsoleSession {
    /// Answers a statement.
    pub(super) async fn answer(
        &mut self,
        text: &[u8],
        packets: &mut Packets,
    ) -> Result<(), Refusal> {
        let command = command::read(text)?;
        let order = audited::order(text, &command);
        let done = self.carry_out(command, packets).await;
        self.tell_order(order, &done);
        done
    }

    async fn carry_out(&mut self, command: Command, packets: &mut Packets) -> Result<(), Refusal> {
        match command {
            Command::Nothing => packets.put_ok(),
            Command::Query(query) => {
                let session = self.session();
                let (outside, rights) = (&self.outside, self.rights);
                let queries = &outside.queries;
                let answer = catalog::answer(outside, &session, rights, query, queries).await?;
                packets.put_answer(&answer);
            }
            Command::Help(about) => {
                let found = help::help(about.as_deref());
                let found = found.map_err(|error| Refusal(1064, b"42000", error))?;
                packets.put_answer(&narrow::narrow(&found.into(), help::NARROW, 0.0));
            }
            Command::ExplainRules(asked) => {
                let told = rules::explain(&self.outside, &asked);
                packets.put_table(told.map_err(|error| Refusal(1105, b"HY000", error))?);
            }
            Command::Use(schema) => {
                self.use_schema(&schema)?;
                packets.put_ok();
            }
            Command::Reset(what) => {
                self.may_change()?;
                let done = self.outside.reset(what.as_deref()).await;
                packets.put_table(said(done)?);
            }
            Command::FlushCache(like) => {
                self.may_change()?;
                let done = cached::flush(&self.outside, like).await;
                packets.put_table(said(done)?);
            }
            Command::Set(name, value) => {
                self.may_change()?;
                let done = self.outside.set(&name, value.as_deref()).await;
                packets.put_table(said(done)?);
            }
            Command::Server(verb, name) => {
                self.may_change()?;
                let done = self.outside.stand(verb, name.as_deref()).await;
                packets.put_table(said(done)?);
            }
            Command::ConfirmWriter(name) => {
                self.may_change()?;
                let done = self.outside.confirm(&name).await;
                packets.put_table(said(done)?);
            }
            Command::Kill(victim, id) => {
                self.may_change()?;
                let done = self.outside.kill(victim, id).await;
                done.map_err(|error| Refusal(1094, b"HY000", error))?;
                packets.put_ok();
            }
            Command::Upgrade => {
                self.may_change()?;
                let done = self.outside.upgrade().await;
                packets.put_table(done.map_err(|error| Refusal(1105, b"HY000", error))?);
            }
            Command::Reload => {
                self.may_change()?;
                let changes = self.outside.reload().await;
                packets.put_table(changes.map_err(|error| Refusal(1105, b"HY000", error))?);
            }
        }
        Ok(())
    }

    /// What functions tell.
    fn session(&self) -> Session {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Session {
            schema: Some(self.schema.to_owned()),
            user: "console@flifo".to_owned(),
            id: self.id,
            version: VERSION.to_owned(),
            now: now.as_secs_f64(),
        }
    }

    /// The schema whose tables are meant where none is named.
    pub(super) fn use_schema(&mut self, name: &str) -> Result<(), Refusal> {
        let unknown = || Refusal(1049, b"42000", format!("Unknown database '{name}'"));
        self.schema = catalog::schema(name).ok_or_else(unknown)?;
        Ok(())
    }

    fn may_change(&self) -> Result<(), Refusal> {
        if self.rights == Rights::Change {
            return Ok(());
        }
        let message = "Access denied: here the console only shows; set console.password, or come \
                       by its Unix socket, to change anything";
        Err(Refusal(1227, b"42000", message.to_owned()))
    }
}

/// What was done, as a table of one row.
fn said(done: Result<String, String>) -> Result<Table, Refusal> {
    let message = done.map_err(|error| Refusal(1105, b"HY000", error))?;
    let mut table = Table::new(const { &[text("message")] });
    table.add([message.into()]);
    Ok(table)
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Self {
        Self(error.code, error.sqlstate, error.message)
    }
}
