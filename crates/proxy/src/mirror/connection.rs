//! One connection to a server of a mirror's cluster, as the user of a copy: its login, its session, a statement.
//!
//! Invariants: a mirror that takes reads only has read-only transactions, so that what was taken for a read cannot
//! write; it offers neither several statements in a text nor files of clients; replies are summed as they come, and never
//! held.

use std::time::Duration;

use backend::Talk;
use backend::login::{Credential, LoggedIn, LoginError};
use backend::talk::TalkError;
use engine::mirror::Unmirrored;
use engine::mirror::fit::MirrorTakes;
use wire::bytes::{Reader, Write};
use wire::command::Opcode;
use wire::frame::put_packet;
use wire::reply_sum::{ReplySum, Summer};
use wire::response::ERR;
use wire::{Capabilities, Malformed, statement};

use crate::cluster::dial::{Dialer, NoBackend, POOLED};
use crate::cluster::servers::Server;
use crate::mirror::copies::{CopiedClient, CopiedCommand};

/// What the mirror's connections do without, whatever the client has.
const NOT_MIRRORED: Capabilities = Capabilities(
    Capabilities::LOCAL_FILES.0
        | Capabilities::MULTI_STATEMENTS.0
        | Capabilities::CACHE_METADATA.0
        | Capabilities::OPTIONAL_METADATA.0
        | Capabilities::QUERY_ATTRIBUTES.0
        | Capabilities::PROGRESS.0
        | Capabilities::SESSION_TRACK.0,
);

/// Bytes of a reply that are read at once.
const BUFFER: usize = 32 << 10;

/// A connection.
pub(crate) struct MirrorConnection {
    talk: Talk,
    capabilities: Capabilities,
    is_mariadb: bool,
    /// What its session was told since it has begun. `None`: nothing.
    told: Option<Option<String>>,
    schema: Option<Box<[u8]>>,
    takes: MirrorTakes,
    within: Duration,
    buffer: Vec<u8>,
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NoReply {
    #[error("{0}")]
    NoBackend(#[from] NoBackend),
    #[error("the connection broke off: {0}")]
    Lost(#[from] TalkError),
    #[error("the server's answer cannot be read: {0}")]
    Malformed(#[from] Malformed),
    #[error("the server refuses what the session is told: error {0}")]
    Setup(u16),
}

impl NoReply {
    pub(crate) fn reason(&self) -> Unmirrored {
        match self {
            Self::NoBackend(NoBackend::NoCredential | NoBackend::NoProof) => Unmirrored::Refused,
            Self::NoBackend(NoBackend::Late(..)) => Unmirrored::Late,
            Self::NoBackend(no) if no.is_refusal() => Unmirrored::Refused,
            Self::NoBackend(NoBackend::Login(LoginError::Refused { .. })) => Unmirrored::Refused,
            Self::NoBackend(_) => Unmirrored::Unreachable,
            Self::Lost(_) => Unmirrored::Lost,
            Self::Malformed(_) | Self::Setup(_) => Unmirrored::Setup,
        }
    }
}

/// A reply, and how long it took.
pub(crate) struct MirrorReply {
    pub(crate) sum: ReplySum,
    pub(crate) took: Duration,
}

impl MirrorConnection {
    /// Logs in as the user of a copy.
    pub(crate) async fn open(
        dialer: &Dialer,
        server: &Server,
        client: &CopiedClient,
        takes: MirrorTakes,
        within: Duration,
    ) -> Result<Self, NoBackend> {
        let user = &client.user;
        let capabilities = (client.capabilities | POOLED).without(NOT_MIRRORED);
        let attempt = async |credential: &Credential| {
            dialer.log_in_as(server, &client.name, credential, capabilities, client.collation).await
        };
        let logged_in = user.log_in(attempt).await?;
        if user.trust().is_some() && !logged_in.has_proved_sha2 {
            return Err(NoBackend::NoProof);
        }
        let LoggedIn { talk, capabilities, is_mariadb, .. } = logged_in;
        let buffer = vec![0; BUFFER];
        let (told, schema) = (None, None);
        Ok(Self { talk, capabilities, is_mariadb, told, schema, takes, within, buffer })
    }

    /// Whether the server has said nothing since the last reply, and is there.
    pub(crate) fn is_still(&self) -> bool {
        let nothing = self.talk.stream().try_read(&mut [0]);
        matches!(nothing, Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Runs a copy.
    pub(crate) async fn run(
        &mut self,
        client: &CopiedClient,
        command: &CopiedCommand,
    ) -> Result<MirrorReply, NoReply> {
        self.tell(client.setup.as_ref()).await?;
        let no_time = |sum| MirrorReply { sum, took: Duration::ZERO };
        if let Some(refusal) = self.enter(client.schema.as_deref()).await? {
            return Ok(no_time(refusal));
        }
        match command {
            CopiedCommand::Query(text) => {
                let begun = crate::worker::clock::read();
                let sum = self.ask(&[&[Opcode::Query as u8], &text[..]].concat()).await?;
                Ok(MirrorReply { sum, took: crate::worker::clock::since(begun) })
            }
            CopiedCommand::Execute { text, values } => {
                let id = match self.prepare(text).await? {
                    Ok(id) => id,
                    Err(refusal) => return Ok(no_time(refusal)),
                };
                let mut execute = vec![Opcode::StmtExecute as u8];
                execute.put_u32(id);
                execute.extend_from_slice(values);
                let begun = crate::worker::clock::read();
                let sum = self.ask(&execute).await?;
                let took = crate::worker::clock::since(begun);
                let mut close = Vec::new();
                statement::put_close(id, &mut close);
                self.send(&close).await?;
                Ok(MirrorReply { sum, took })
            }
        }
    }

    /// Makes the session's variables those of a copy's.
    async fn tell(&mut self, setup: Option<&String>) -> Result<(), NoReply> {
        if self.told.as_ref().is_some_and(|told| told.as_ref() == setup) {
            return Ok(());
        }
        if self.told.is_some() {
            self.must(&[Opcode::ResetConnection as u8]).await?;
        }
        if let Some(setup) = setup {
            self.must_run(setup).await?;
        }
        if self.takes == MirrorTakes::Reads {
            self.must_run("SET SESSION TRANSACTION READ ONLY").await?;
        }
        // So that the server itself ends what nothing waits for any more. A server that does not know it runs it to its
        // end.
        let limit = match self.is_mariadb {
            true => format!("SET SESSION max_statement_time={}", self.within.as_secs_f64()),
            false => format!("SET SESSION max_execution_time={}", self.within.as_millis()),
        };
        self.query(&limit).await?;
        self.told = Some(setup.cloned());
        Ok(())
    }

    /// Enters a copy's schema. An error of the server's is what the statement would meet.
    async fn enter(&mut self, schema: Option<&[u8]>) -> Result<Option<ReplySum>, NoReply> {
        let Some(wanted) = schema.filter(|wanted| self.schema.as_deref() != Some(*wanted)) else {
            return Ok(None);
        };
        let sum = self.ask(&[&[Opcode::InitDb as u8], wanted].concat()).await?;
        if sum.error.is_none() {
            self.schema = Some(wanted.into());
            return Ok(None);
        }
        Ok(Some(sum))
    }

    /// Prepares a text: its number, or the server's refusal.
    async fn prepare(&mut self, text: &[u8]) -> Result<Result<u32, ReplySum>, NoReply> {
        self.talk.set_sequence(0);
        self.talk.write(&[&[Opcode::StmtPrepare as u8], text].concat()).await?;
        let head = self.talk.read().await?;
        if head.first() == Some(&ERR) {
            let error = wire::response::ErrPacket::decode(&head)?;
            let error = Some((error.code, error.sqlstate));
            return Ok(Err(ReplySum { error, ..ReplySum::default() }));
        }
        let mut reader = Reader::new(&head);
        reader.u8("prepare")?;
        let id = reader.u32("statement id")?;
        let counts = [reader.u16("column count")?, reader.u16("parameter count")?];
        let eof = u32::from(!self.capabilities.has(Capabilities::DEPRECATE_EOF));
        for count in counts.into_iter().filter(|count| *count > 0) {
            for _ in 0..u32::from(count) + eof {
                self.talk.read().await?;
            }
        }
        Ok(Ok(id))
    }

    async fn query(&mut self, text: &str) -> Result<ReplySum, NoReply> {
        self.ask(&[&[Opcode::Query as u8], text.as_bytes()].concat()).await
    }

    async fn must_run(&mut self, text: &str) -> Result<(), NoReply> {
        self.must(&[&[Opcode::Query as u8], text.as_bytes()].concat()).await
    }

    async fn must(&mut self, payload: &[u8]) -> Result<(), NoReply> {
        match self.ask(payload).await?.error {
            None => Ok(()),
            Some((code, _)) => Err(NoReply::Setup(code)),
        }
    }

    /// Sends a command, and sums its reply up.
    async fn ask(&mut self, payload: &[u8]) -> Result<ReplySum, NoReply> {
        self.send(payload).await?;
        let mut summer = Summer::new(self.capabilities);
        loop {
            let read = self.talk.stream().read_some(&mut self.buffer).await;
            let read = match read.map_err(TalkError::Io)? {
                0 => return Err(TalkError::Closed.into()),
                read => read,
            };
            summer.feed(self.buffer.get(..read).unwrap_or_default());
            if let Some(sum) = summer.finished() {
                return Ok(sum);
            }
            if summer.is_lost() {
                return Err(Malformed::new("a reply").into());
            }
        }
    }

    async fn send(&self, payload: &[u8]) -> Result<(), TalkError> {
        let mut bytes = Vec::with_capacity(payload.len() + 4);
        put_packet(&mut bytes, 0, payload);
        Ok(self.talk.stream().write_all(&bytes).await?)
    }
}
