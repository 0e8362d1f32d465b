//! `COM_CHANGE_USER`: a pooled client proves the password to Flifo again, and its session begins
//! anew.
//!
//! A pass-through client's is relayed to its server like any other command where it stays the same user and both its
//! legs are plain, or secure and to a server that is known to be the server. Else it logs in anew on another backend: only a login knows what to do with a password
//! between different legs, and what another user may have and be. So does a pooled client that changes to a user whose
//! clients are passed through: it is a pass-through one from then on. What the command names is read by
//! [`crate::road::wanted`].

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use backend::{Stream, Talk};
use engine::account::name::{Brand, UserName};
use engine::account::terms::Terms;
use engine::pin::Pin;
use wire::Capabilities;
use wire::command::Opcode;
use wire::frame::put_packet;
use wire::handshake::{AuthPacket, Login};

use crate::answers::answer;
use crate::answers::notes;
use crate::cluster::servers::ServerId;
use crate::fault::{Fault, Kind};
use crate::frontend::accounts;
use crate::frontend::audited;
use crate::frontend::confirm;
use crate::frontend::guesses::{self, Answered, Attempt};
use crate::frontend::held;
use crate::frontend::hidden;
use crate::frontend::login::{self, FAREWELL};
use crate::frontend::pass_through;
use crate::frontend::pending_login::{Applicant, Claim, NoLogin, has_hidden_quotes};
use crate::frontend::prove::{self, PasswordProof};
use crate::pool::keys::Key;
use crate::road::commands;
use crate::road::leaving;
use crate::road::login_schema;
use crate::road::reset_connection;
use crate::road::wanted::{self, Wanted};
use crate::routing::clusters;
use crate::state::client::Client;
use crate::state::command::{Awaits, Command};
use crate::state::doing::Doing;
use crate::state::worker::Worker;
use crate::users::User;

/// Serves the command. A client that fails is ended, as MySQL does; a pooled one of MariaDB goes on as it was.
pub(crate) async fn run(worker: &Rc<Worker>, client: &Rc<Client>, payload: &[u8]) {
    if client.has_key() && !is_of_pass_through(worker, payload, wanted::brand(worker, client)).await
    {
        pooled(worker, client, payload).await
    } else {
        pass_through(worker, client, payload).await
    }
}

/// Whether the command names a user whose clients are passed through.
async fn is_of_pass_through(worker: &Rc<Worker>, payload: &[u8], brand: Brand) -> bool {
    // What is wrong with it is told by what follows.
    let Ok(wanted) = wanted::read(payload) else { return false };
    let Ok(name) = wanted.name(brand) else { return false };
    let find = accounts::find(worker, &name);
    let found = tokio::time::timeout(worker.plan().limits.login, find).await;
    // Of an account with other methods, the server alone can tell whether a client is right that must be asked anyway.
    found.is_ok_and(|user| user.is_none_or(|user| user.has_other_methods()))
}

async fn pass_through(worker: &Rc<Worker>, client: &Rc<Client>, payload: &[u8]) {
    let wanted =
        wanted::read(payload).map_err(|error| Fault::new(Kind::BadHandshake, error.to_string()));
    let named = wanted.and_then(|wanted| Ok((wanted.name(wanted::brand(worker, client))?, wanted)));
    let (user, wanted) = match named {
        Ok(named) => named,
        Err(fault) => {
            worker.count_fault(fault.kind);
            client.write(&fault.packet(1));
            return client.close();
        }
    };
    if is_spent(worker, client) {
        return go_on(worker, client, &unknown()).await;
    }
    let routing = &client.routing;
    let before = (routing.home.get(), routing.cluster.get(), client.routing.server.get());
    let login = wanted.login(worker, client.capabilities_now());
    let claim = Claim { user, login }.in_schema(&worker.plan());
    let until = tokio::time::Instant::now() + worker.plan().limits.login;
    let change = async {
        if let Err(fault) = guesses::wait(worker, &claim.user, client.stream.peer_address()).await {
            client.write(&fault.packet(1));
            return Err(NoLogin::Fault(fault));
        }
        pass_through::change_user(worker, client, &claim, until).await
    };
    let is_denied = match tokio::time::timeout_at(until + FAREWELL, change).await {
        Ok(Ok(())) => return notes::see_login(worker, client),
        Ok(Err(NoLogin::Fault(fault))) => {
            audited::see_fault(worker, &applicant(client, &claim.user), &fault);
            worker.count_fault(fault.kind);
            fault.kind == Kind::AccessDenied
        }
        Ok(Err(NoLogin::Told(packet))) => {
            audited::see_refusal(worker, &applicant(client, &claim.user), &packet);
            true
        }
        Ok(Err(NoLogin::Talk(_) | NoLogin::Asked)) | Err(_) => {
            worker.count_fault(Kind::BadHandshake);
            false
        }
    };
    if !is_denied || !may_go_on(worker, client) {
        return client.close();
    }
    let (home, cluster, server) = before;
    routing.home.set(home);
    routing.cluster.set(cluster);
    client.routing.server.set(server);
    begin_as_before(worker, client).await;
    client.await_command();
}

/// Whether a client goes on whose change was refused: where the server is MariaDB, which lets it, and Flifo has logged
/// it in.
fn may_go_on(worker: &Worker, client: &Client) -> bool {
    client.has_key() && wanted::brand(worker, client) == Brand::MariaDb && !client.is_closing()
}

/// Whether so many changes were refused that no more are looked at.
fn is_spent(worker: &Worker, client: &Client) -> bool {
    may_go_on(worker, client) && client.input.refused_changes.get() >= REFUSED_MAX
}

/// As many as MariaDB looks at.
const REFUSED_MAX: u8 = 3;

fn unknown() -> Fault {
    Fault::new(Kind::UnknownCommand, "Unknown command")
}

/// A client is told that it was refused, and goes on as it was.
async fn go_on(worker: &Rc<Worker>, client: &Rc<Client>, fault: &Fault) {
    begin_as_before(worker, client).await;
    client.write_last(&fault.packet(1));
}

/// The session of a client whose change was refused begins anew, as the user that it was. What it has left is gone when
/// it hears that.
#[expect(clippy::disallowed_methods, reason = "a change of user waits between these")]
async fn begin_as_before(worker: &Rc<Worker>, client: &Rc<Client>) {
    let refused = &client.input.refused_changes;
    refused.set(refused.get().saturating_add(1));
    if let Some(backend) = client.backend.take() {
        leaving::clean(worker, client, &backend);
        let deadline = crate::worker::clock::read() + LEAVES;
        while !backend.is_closing()
            && !backend.in_flight.borrow().is_empty()
            && crate::worker::clock::read() < deadline
        {
            tokio::time::sleep(LOOK).await;
        }
    }
    client.session.borrow_mut().reset(reset_connection::forgets(worker, client));
    client.routing.gtid.take();
}

/// How long it is waited for what a client has left: as long as MariaDB takes for a refusal.
const LEAVES: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(2);

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
            packet_max: u32::try_from(worker.plan().limits.packet_max).unwrap_or(u32::MAX),
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
    if is_spent(worker, client) {
        return go_on(worker, client, &unknown()).await;
    }
    let mut talk = Talk::resume(&client.stream, client.input.take_more(), 1);
    let limit = worker.plan().limits.login;
    let brand = wanted::brand(worker, client);
    let server = client.routing.server.get();
    let capabilities = client.capabilities_now();
    let proving = prove(worker, &mut talk, payload, brand, client.peer, (server, capabilities));
    let proved = tokio::time::timeout(limit, proving).await;
    let sequence = talk.sequence();
    let (_, more) = talk.into_parts();
    client.input.keep_more(&more, false);
    let changed = match proved {
        Ok(Ok((proved, mut wanted))) => {
            if wanted.schema.is_empty()
                && let Some(schema) = worker.plan().default_schema(&proved.name)
            {
                wanted.schema = schema.as_bytes().to_vec();
            }
            begin_anew(worker, client, proved, &wanted, sequence)
        }
        Ok(Err(fault)) => Err(fault),
        Err(_) => {
            let message = "The change of user took longer than limits.login";
            Err(Fault::new(Kind::BadHandshake, message))
        }
    };
    if let Err(fault) = changed {
        if let Ok(user) = wanted::read(payload).map_or(Err(()), |it| it.name(brand).map_err(|_| ()))
        {
            audited::see_fault(worker, &applicant(client, &user), &fault);
        }
        worker.count_fault(fault.kind);
        if fault.kind == Kind::AccessDenied && may_go_on(worker, client) {
            begin_as_before(worker, client).await;
            return client.write_last(&fault.packet(sequence));
        }
        client.write(&fault.packet(sequence));
        client.close();
    }
}

/// A client that wants to be this user.
fn applicant(client: &Client, user: &UserName) -> Applicant {
    let (user, peer) = (Some(notes::named(user)), client.peer);
    Applicant { user: user.into(), peer: peer.into() }
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
    let pass = worker.entrance.logins.enter_again().await;
    let broken = |error: String| Fault::new(Kind::BadHandshake, error);
    let mut wanted = wanted::read(payload).map_err(|error| broken(error.to_string()))?;
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
    let answer = PasswordProof { plugin: wanted.plugin.clone(), nonce, response };
    let request = wanted.login(worker, capabilities);
    let attempt = Attempt { user: &name, peer, login: &request, server };
    let proved = match prove::prove(worker, talk, &name, &user, &answer, &pass).await {
        Ok(prove::Proved::Right(user)) => Ok(user),
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
            let terms = login::terms(worker, attempt, &user, talk.stream(), &pass).await?;
            let home = worker.shared.cluster.serving(&worker.plan(), &name);
            pass.lend(confirm::confirm(worker, &name, &user, &terms)).await?;
            pass.lend(hidden::begin(worker, home, &name, &user)).await;
            Ok((Proved { name, user, terms }, wanted))
        }
        Err(NoLogin::Fault(fault)) => Err(fault),
        Err(NoLogin::Talk(error)) => Err(broken(error.to_string())),
        Err(NoLogin::Told(_) | NoLogin::Asked) => Err(broken("The login was refused".to_owned())),
    }
}

/// What the old session had left behind goes with its backend.
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
    let Some(key) = worker.pool.keys.borrow_mut().id(key) else {
        return Err(Fault::new(Kind::BadHandshake, "Flifo has met too many different users"));
    };
    let known = worker.shared.proofs.users.get(&name);
    if !known.is_some_and(|known| Arc::ptr_eq(&known, &user)) {
        let message = "Access denied: the user was dropped or changed just now";
        return Err(Fault::new(Kind::AccessDenied, message));
    }
    worker.pool.keys.borrow_mut().own(key, &user);
    let waits = leaving::give_up(worker, client);
    if let Some(old) = client.key.take() {
        worker.user_of(old, |user| user.clients.give_back());
    }
    if !worker.user_of(key, |user| user.clients.try_take()) {
        let message = "The user has exceeded its clients_max in Flifo's configuration";
        return Err(Fault::new(Kind::UserLimit, message));
    }
    if let Err(fault) = held::enter(worker, &name, &user, &terms) {
        user.clients.give_back();
        return Err(fault);
    }
    let forgets = reset_connection::forgets(worker, client);
    let mut session = client.session.borrow_mut();
    session.reset(forgets);
    (session.schema, session.was_reset) = (None, false);
    session.log_in_with(wanted.collation, wanted::brand(worker, client));
    if has_hidden_quotes(collation) {
        session.keep(Pin::Charset);
    }
    drop(session);
    client.routing.gtid.take();
    client.become_user(name);
    clusters::move_home(worker, client);
    client.key.set(Some(key.with_schema(!wanted.schema.is_empty())));
    let schema = Some(&wanted.schema[..]).filter(|schema| !schema.is_empty());
    client.class.set(worker.class_of(&client.user.borrow(), schema, client.peer));
    client.become_state(Doing::Reading);
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
        true => answer::hold(worker, client, Command::new(), &packet, Awaits::Backend),
        false if wanted.schema.is_empty() => {
            notes::see_login(worker, client);
            commands::handle(worker, client, &mut packet, Awaits::default());
        }
        false => login_schema::enter(worker, client, &wanted.schema),
    }
    Ok(())
}
