//! `COM_CHANGE_USER`: a pooled client proves the password to Flifo again, and its session begins
//! anew.
//!
//! A carried client's is relayed to its server like any other command where it stays the same user
//! and both its legs are secure or plain. Else it logs in anew on another link: only a login knows
//! what to do with a password between different legs, and what another user may have and be. So
//! does a pooled client that changes to a user whose clients are carried: it is a carried one from
//! then on.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use engine::account::name::{Brand, Packet, UserName};
use engine::account::terms::Terms;
use engine::pin::Pin;
use link::{Stream, Talk};
use wire::Capabilities;
use wire::auth::Plugin;
use wire::bytes::Reader;
use wire::command::Opcode;
use wire::frame::put_packet;
use wire::handshake::{AuthPacket, Login};

use crate::arrive::accounts;
use crate::arrive::carry;
use crate::arrive::guesses::{self, Answered, Attempt};
use crate::arrive::held;
use crate::arrive::login::{Claim, NoLogin, has_hidden_quotes, unsure};
use crate::arrive::login_schema;
use crate::arrive::prove::{self, Answer};
use crate::arrive::users::User;
use crate::fault::{Fault, Kind};
use crate::hidden;
use crate::links::Link;
use crate::links::keys::Key;
use crate::links::resets;
use crate::rights::confirm;
use crate::road::anew;
use crate::road::client::{Client, Turn};
use crate::road::command::{Awaits, Command};
use crate::road::commands;
use crate::servers::ServerId;
use crate::worker::Worker;

/// What the command names. Its proof is ignored: it was made for a nonce that has been used.
struct Wanted {
    user: Vec<u8>,
    schema: Vec<u8>,
    collation: u16,
    plugin: Plugin,
}

fn read(payload: &[u8]) -> Result<Wanted, wire::Malformed> {
    let mut reader = Reader::new(payload);
    reader.u8("command")?;
    let user = reader.nul_bytes("user name")?.to_vec();
    let len = reader.u8("password response")?;
    reader.take(usize::from(len), "password response")?;
    let schema = reader.rest_until_nul().to_vec();
    let collation = if reader.len() >= 2 { reader.u16("collation")? } else { 0 };
    let plugin = match reader.rest_until_nul() {
        b"" => Plugin::NativePassword,
        name => Plugin::from_name(name),
    };
    Ok(Wanted { user, schema, collation, plugin })
}

impl Wanted {
    /// The user, as this server will read its name.
    fn name(&self, brand: Brand) -> Result<UserName, Fault> {
        UserName::read(&self.user, self.collation, Packet::ChangeUser, brand)
            .map_err(|why| unsure(&String::from_utf8_lossy(&self.user), why))
    }
}

fn brand(worker: &Worker, client: &Client) -> Brand {
    worker.at(client.server.get()).server.facts.brand()
}

/// Serves the command. A client that fails is ended, as MySQL does.
pub(crate) async fn run(worker: &Rc<Worker>, client: &Rc<Client>, payload: &[u8]) {
    if client.is_pooled() && !is_of_carried(worker, payload, brand(worker, client)).await {
        pooled(worker, client, payload).await
    } else {
        carried(worker, client, payload).await
    }
}

/// Whether the command names a user whose clients are carried.
async fn is_of_carried(worker: &Rc<Worker>, payload: &[u8], brand: Brand) -> bool {
    // What is wrong with it is told by what follows.
    let Ok(wanted) = read(payload) else { return false };
    let Ok(name) = wanted.name(brand) else { return false };
    let find = accounts::find(worker, &name);
    let found = tokio::time::timeout(worker.plan.limits.login, find).await;
    matches!(found, Ok(None))
}

/// Whether a carried client's command must come here: its password would go from one kind of leg to
/// another, or it is to be another user.
pub(crate) fn needs_login(worker: &Worker, client: &Client, link: &Link, payload: &[u8]) -> bool {
    let is_same_user = || {
        let wanted = read(payload).ok()?;
        // Without a collation, the server reads the name in a character set that is not known here.
        let name = wanted.name(brand(worker, client)).ok().filter(|_| wanted.collation != 0)?;
        Some(name == *client.user.borrow())
    };
    client.stream.is_secure() != link.stream.is_secure() || is_same_user() != Some(true)
}

async fn carried(worker: &Rc<Worker>, client: &Rc<Client>, payload: &[u8]) {
    let wanted = read(payload).map_err(|error| Fault::new(Kind::BadHandshake, error.to_string()));
    let named = wanted.and_then(|wanted| Ok((wanted.name(brand(worker, client))?, wanted)));
    let (user, wanted) = match named {
        Ok(named) => named,
        Err(fault) => {
            worker.count_fault(fault.kind);
            client.write(&fault.packet(1));
            return client.close();
        }
    };
    let login = wanted.login(worker, client.capabilities_now());
    let claim = Claim { user, login };
    let change = async {
        if let Err(fault) = guesses::wait(worker, &claim.user, client.stream.peer_address()).await {
            client.write(&fault.packet(1));
            return Err(NoLogin::Fault(fault));
        }
        carry::change_user(worker, client, &claim).await
    };
    match tokio::time::timeout(worker.plan.limits.login, change).await {
        Ok(Ok(())) => return,
        Ok(Err(NoLogin::Fault(fault))) => worker.count_fault(fault.kind),
        Ok(Err(NoLogin::Told)) => {}
        Ok(Err(NoLogin::Talk(_))) | Err(_) => worker.count_fault(Kind::BadHandshake),
    }
    client.close();
}

impl Wanted {
    /// The login that asks for the same, but for the proof.
    fn login(&self, worker: &Worker, capabilities: Capabilities) -> Login {
        let schema = Some(self.schema.clone()).filter(|schema| !schema.is_empty());
        let with_schema = match schema {
            Some(_) => Capabilities::CONNECT_WITH_DB,
            None => Capabilities::NONE,
        };
        Login {
            capabilities: capabilities.without(Capabilities::CONNECT_WITH_DB) | with_schema,
            packet_max: u32::try_from(worker.plan.limits.packet_max).unwrap_or(u32::MAX),
            collation: self.collation as u8,
            user: Vec::new(),
            response: Vec::new(),
            schema,
            plugin: Some(self.plugin.name().to_vec()),
            attributes: Vec::new(),
            zstd_level: None,
        }
    }
}

async fn pooled(worker: &Rc<Worker>, client: &Rc<Client>, payload: &[u8]) {
    let mut talk = Talk::resume(&client.stream, client.input.take_more(), 1);
    let limit = worker.plan.limits.login;
    let brand = brand(worker, client);
    let server = client.server.get();
    let capabilities = client.capabilities_now();
    let proving = prove(worker, &mut talk, payload, brand, client.peer, (server, capabilities));
    let proved = tokio::time::timeout(limit, proving).await;
    let sequence = talk.sequence();
    let (_, more) = talk.into_parts();
    client.input.keep_more(&more, false);
    let changed = match proved {
        Ok(Ok((proved, wanted))) => begin_anew(worker, client, proved, &wanted, sequence),
        Ok(Err(fault)) => Err(fault),
        Err(_) => {
            let message = "The change of user took longer than limits.login";
            Err(Fault::new(Kind::BadHandshake, message))
        }
    };
    if let Err(fault) = changed {
        worker.count_fault(fault.kind);
        client.write(&fault.packet(sequence));
        client.close();
    }
}

/// The user whose password a client has proved, and what its account demands.
struct Proved {
    name: UserName,
    user: Arc<User>,
    terms: Terms,
}

/// What the client wants, and as whom.
async fn prove(
    worker: &Worker,
    talk: &mut Talk<&Stream>,
    payload: &[u8],
    brand: Brand,
    peer: Option<SocketAddr>,
    (server, capabilities): (ServerId, Capabilities),
) -> Result<(Proved, Wanted), Fault> {
    let pass = worker.logins.enter_again().await;
    let broken = |error: String| Fault::new(Kind::BadHandshake, error);
    let mut wanted = read(payload).map_err(|error| broken(error.to_string()))?;
    let name = wanted.name(brand)?;
    pass.lend(guesses::wait(worker, &name, peer)).await?;
    let Some(user) = accounts::find(worker, &name).await else {
        let message =
            format!("Access denied for user '{name}': it was dropped or changed just now");
        return Err(Fault::new(Kind::AccessDenied, message));
    };
    if !user.can_check(&wanted.plugin) {
        wanted.plugin = user.plugin();
    }
    let nonce = guesses::random_nonce()?;
    let mut switch = Vec::new();
    AuthPacket::encode_switch(wanted.plugin.name(), nonce.as_bytes(), &mut switch);
    talk.write(&switch).await.map_err(|error| broken(error.to_string()))?;
    let mut response = pass.lend(talk.read()).await.map_err(|error| broken(error.to_string()))?;
    if response == [0] {
        response.clear();
    }
    let has_password = !response.is_empty();
    let answer = Answer { plugin: wanted.plugin.clone(), nonce, response };
    let login = wanted.login(worker, capabilities);
    let attempt = Attempt { user: &name, peer, login: &login, server };
    let proved = match prove::prove(worker, talk, &name, &user, &answer, &pass).await {
        Ok(prove::Proved::Right(user)) => pass
            .lend(guesses::confirm(worker, attempt, &user))
            .await
            .map(|()| user)
            .map_err(NoLogin::from),
        Ok(prove::Proved::Wrong { was_asked_itself }) => {
            let asked_by = Some((answer.plugin, answer.nonce));
            let answered = Answered { has_password, asked_by, was_asked_itself };
            guesses::refuse(worker, talk, attempt, &user, answered, &pass)
                .await
                .and_then(|fault| Err(fault.into()))
        }
        Err(error) => Err(error),
    };
    match proved {
        Ok(user) => {
            let ip = peer.map(|peer| peer.ip());
            let terms = pass.lend(held::pooled(worker, &name, &user, talk.stream(), ip)).await?;
            pass.lend(confirm::confirm(worker, &name, &user, &terms)).await?;
            pass.lend(hidden::begin(worker, &name, &user)).await;
            Ok((Proved { name, user, terms }, wanted))
        }
        Err(NoLogin::Fault(fault)) => Err(fault),
        Err(NoLogin::Talk(error)) => Err(broken(error.to_string())),
        Err(NoLogin::Told) => Err(broken("The login was refused".to_owned())),
    }
}

/// What the old session had left behind goes with its link.
fn begin_anew(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    proved: Proved,
    wanted: &Wanted,
    sequence: u8,
) -> Result<(), Fault> {
    let Proved { name, user, terms } = proved;
    let collation = wanted.collation as u8;
    let key = Key::new(name.clone(), client.capabilities_now(), collation);
    let key = key.of_era(user.era());
    let Some(key) = worker.keys.borrow_mut().id(key) else {
        return Err(Fault::new(Kind::BadHandshake, "Flifo has met too many different users"));
    };
    let known = worker.shared.users.get(&name);
    if !known.is_some_and(|known| Arc::ptr_eq(&known, &user)) {
        let message = "Access denied: the user was dropped or changed just now";
        return Err(Fault::new(Kind::AccessDenied, message));
    }
    worker.keys.borrow_mut().own(key, &user);
    let waits = resets::give_up(worker, client);
    if let Some(old) = client.key.take() {
        worker.user_of(old, |user| user.clients.give_back());
    }
    if !worker.user_of(key, |user| user.clients.try_take()) {
        let message = "The user has exceeded its clients_max in Flifo's configuration";
        return Err(Fault::new(Kind::UserLimit, message));
    }
    if let Err(fault) = held::enter(&name, &user, &terms) {
        user.clients.give_back();
        return Err(fault);
    }
    let forgets = anew::forgets(worker, client);
    let mut session = client.session.borrow_mut();
    session.reset(forgets);
    (session.schema, session.was_reset) = (None, false);
    if has_hidden_quotes(collation) {
        session.keep(Pin::Charset);
    }
    drop(session);
    client.gtid.take();
    *client.user.borrow_mut() = name;
    client.key.set(Some(key.with_schema(!wanted.schema.is_empty())));
    let schema = Some(&wanted.schema[..]).filter(|schema| !schema.is_empty());
    client.class.set(worker.class_of(&client.user.borrow(), schema, client.peer));
    client.set_turn(Turn::Client);
    client.input.login_sequence.set(Some(sequence));
    let mut packet = Vec::new();
    put_packet(
        &mut packet,
        0,
        &match wanted.schema.is_empty() {
            true => vec![Opcode::Ping as u8],
            false => [&[Opcode::InitDb as u8], &wanted.schema[..]].concat(),
        },
    );
    match waits {
        true => commands::hold(worker, client, Command::new(), &packet, Awaits::Link),
        false if wanted.schema.is_empty() => {
            commands::handle(worker, client, &mut packet, Awaits::default());
        }
        false => login_schema::enter(worker, client, &wanted.schema),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_is_read_with_and_without_its_tail() {
        let full = b"\x11bob\0\x02xxshop\0\x2d\0caching_sha2_password\0";
        let wanted = read(full).unwrap();
        assert_eq!((&wanted.user[..], &wanted.schema[..]), (&b"bob"[..], &b"shop"[..]));
        assert_eq!((wanted.collation, wanted.plugin), (45, Plugin::CachingSha2));
        let short = read(b"\x11bob\0\x00\0").unwrap();
        assert_eq!((short.schema.len(), short.plugin), (0, Plugin::NativePassword));
        for cut in 0..7 {
            assert!(read(&full[..cut]).is_err(), "{cut}");
        }
    }
}
