//! The login of a pass-through client: relayed end to end, so that any user and any plugin works with
//! nothing configured.
//!
//! Client and server speak with each other; Flifo passes their packets on. It steps in only where the two legs are not
//! equally secure: caching_sha2_password sends the password itself where no third party can read along, and under a
//! public key elsewhere, so Flifo decrypts on the one leg or encrypts on the other. What it hears there, and the server
//! takes, is [`crate::frontend::learnt`].

use std::borrow::Borrow;
use std::net::SocketAddr;
use std::rc::Rc;

use backend::login::{Greeted, LoginError, ServerKeys, is_verified, prove_fully};
use backend::{Address, Stream, Talk};
use engine::account::name::{Brand, UserName};
use engine::account::row::Row;
use engine::session::{Reset, Session};
use tokio::time::{Instant, timeout_at};
use wire::Capabilities;
use wire::auth::certificate::BY_SHA256;
use wire::auth::{Nonce, Plugin, Secret, caching_sha2};
use wire::handshake::{AuthPacket, Greeting, Login};
use wire::response::{ErrPacket, OK, OkPacket, Status};

use crate::cluster::dial::{self, NoBackend};
use crate::cluster::servers::Server;
use crate::config::Mode;
use crate::fault::{Fault, Kind, unsure};
use crate::frontend::accounts;
use crate::frontend::guesses;
use crate::frontend::held;
use crate::frontend::learnt;
use crate::frontend::leg::{Leg, NoLeg};
use crate::frontend::namesake;
use crate::frontend::pending_login::{Claim, NoLogin, PendingLogin, tell, too_many_of_user};
use crate::frontend::prove::{asks_for_key, receive_password, take_password};
use crate::frontend::vouch::{self, Proofs};
use crate::pool::opener;
use crate::pool::room;
use crate::road::backend_task;
use crate::road::leaving;
use crate::routing::clusters;
use crate::routing::route;
use crate::state::backend::Backend;
use crate::state::came_by::CameBy;
use crate::state::client::{self, Client};
use crate::state::worker::Worker;
use crate::users::logins::Pass;

/// Whose greeting the client has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GreetedBy {
    /// The server's: its nonce, its connection id.
    Server,
    /// Flifo's own, with this scramble: the client's answer means nothing to the server.
    Flifo { id: u32, scramble: Option<Nonce> },
}

impl GreetedBy {
    /// By this greeting, of Flifo's own making.
    pub(crate) fn flifo(greeting: &Greeting) -> Self {
        let scramble = Nonce::from_server(&Plugin::NativePassword, &greeting.nonce).ok();
        Self::Flifo { id: greeting.connection_id, scramble }
    }
}

/// What no account uses, so that the server asks for the right plugin with a nonce of its own.
const NO_PLUGIN: &[u8] = b"flifo_relay";

/// What may be reached by a pass-through client, which has one backend.
const BOUNDS: &str = "clients_max or connections_max";

/// Logs the client in at the server, on a backend of its own.
pub(crate) async fn log_in(
    worker: &Rc<Worker>,
    pending_login: PendingLogin,
    claim: Claim,
    server: Option<Greeted>,
    greeted_by: GreetedBy,
    (pass, until): (&Pass, Instant),
) -> Result<client::Login, NoLogin> {
    let Claim { user, login } = &claim;
    let places = match worker.shared.proofs.users.reserve_pass_through(user) {
        Ok(places) => places,
        Err(cap) => return Err(tell(pending_login, too_many_of_user(user, BOUNDS, &cap)).await),
    };
    let schema = login.schema.as_deref();
    let class = worker.class_of(user, schema, pending_login.peer);
    let routed = worker.routed(&pending_login.listen, user, schema, class);
    let cluster = routed
        .and_then(|it| it.cluster)
        .unwrap_or_else(|| worker.shared.cluster.serving(&worker.plan(), user));
    let cluster = clusters::serving_at(worker, cluster, schema);
    let mode = routed.map_or_else(|| worker.shared.cluster.get(cluster).mode(), |it| it.mode);
    let home = match server {
        Some(_) => pending_login.server,
        None => route::home(worker, cluster, mode).await,
    };
    let at = worker.shared.cluster.server(home);
    let greeted = match server {
        Some(greeted) => greeted,
        None => match opener::greeted(&worker.pool, at, pending_login.peer).await {
            Ok(greeted) => greeted,
            Err(error) => return Err(tell(pending_login, error.fault(at)).await),
        },
    };
    let (peer, greeted_id) = (pending_login.peer, greeted.greeting.connection_id);
    let came_by = CameBy::new(&pending_login.listen, login);
    let peers = Peers { client: pending_login.talk, peer, at, server: greeted, pass, until };
    let pass_through = relay(worker, peers, &claim, greeted_by).await?;
    let session = begin_session(pass_through.status, login.collation, pass_through.brand);
    let (stream, more) = pass_through.client.into_parts();
    *pass_through.backend.origin.places.borrow_mut() = places;
    Ok(client::Login {
        id: match greeted_by {
            GreetedBy::Server => greeted_id,
            GreetedBy::Flifo { id, .. } => id,
        },
        stream,
        capabilities: pass_through.backend.capabilities,
        user: claim.user,
        key: None,
        class,
        peer,
        came_by,
        session,
        server: pass_through.backend.server,
        mode: Mode::Writer,
        routed,
        cluster,
        backend: Some(pass_through.backend),
        more,
        sequence: None,
        vouched: None,
    })
}

/// Makes the client another user, on a new backend: a password cannot be asked for on a backend in use
/// where it must not go on as it came, or that is shared. The client has heard how it ended.
pub(crate) async fn change_user(
    worker: &Rc<Worker>,
    client: &Rc<Client>,
    claim: &Claim,
    until: Instant,
) -> Result<(), NoLogin> {
    let Claim { user, login } = claim;
    let pass = worker.entrance.pass_through_logins.enter_again().await;
    let mut talk = Talk::resume(&client.stream, client.input.take_more(), 1);
    // It has a place as this user already.
    let is_same_user = !client.has_key() && *client.user.borrow() == *user;
    let places = match is_same_user {
        true => Ok(Vec::new()),
        false => worker.shared.proofs.users.reserve_pass_through(user),
    };
    let places = match places {
        Ok(places) => places,
        Err(cap) => return Err(tell_on(&mut talk, too_many_of_user(user, BOUNDS, &cap)).await),
    };
    let peer = client.peer;
    if client.has_key() {
        // What the client leaves behind is gone before it hears that it is another user.
        let backend = client.backend.take();
        backend.iter().for_each(|backend| leaving::clean(worker, client, backend));
        client.session.borrow_mut().reset(Reset::ForgetsFound);
        let home = worker.shared.cluster.serving(&worker.plan(), user);
        client.routing.home.set(home);
        let cluster = clusters::serving(worker, client, login.schema.as_deref());
        client.routing.cluster.set(cluster);
        client.routing.server.set(route::home(worker, cluster, client.routing.mode.get()).await);
    }
    let at = worker.shared.cluster.server(client.routing.server.get());
    let server = match opener::greeted(&worker.pool, at, peer).await {
        Ok(greeted) => greeted,
        Err(error) => return Err(tell_on(&mut talk, error.fault(at)).await),
    };
    let peers = Peers { client: talk, peer, at, server, pass: &pass, until };
    let pass_through =
        relay(worker, peers, claim, GreetedBy::Flifo { id: client.id, scramble: None }).await?;
    let (_, more) = pass_through.client.into_parts();
    client.input.keep_more(&more, false);
    let mut places = places;
    if let Some(backend) = client.backend.take() {
        let own = backend.origin.places.take();
        if is_same_user {
            places.extend(own);
        }
        backend.holder.take();
        backend.close();
    }
    worker.give_back_place(client);
    *pass_through.backend.origin.places.borrow_mut() = places;
    client.key.set(None);
    client.routing.gtid.take();
    client.routing.mode.set(Mode::Writer);
    pass_through.backend.hold_for(client);
    *client.session.borrow_mut() =
        begin_session(pass_through.status, login.collation, pass_through.brand);
    client.become_user(user.clone());
    client.class.set(worker.class_of(user, login.schema.as_deref(), peer));
    client.await_command();
    Ok(())
}

/// The session of a client that has logged in with this collation.
fn begin_session(status: Status, collation: u8, brand: Brand) -> Session {
    let mut session = Session::new(None, status);
    session.log_in_with(collation.into(), brand);
    session
}

/// A client, and a server that has greeted, between which a login is passed through.
struct Peers<'a, S> {
    client: Talk<S>,
    peer: Option<SocketAddr>,
    at: &'a Server,
    server: Greeted,
    pass: &'a Pass,
    /// The server is waited for so long.
    until: Instant,
}

/// They have agreed.
struct PassThrough<S> {
    client: Talk<S>,
    backend: Rc<Backend>,
    status: Status,
    brand: Brand,
}

async fn relay<S: Borrow<Stream>>(
    worker: &Rc<Worker>,
    peers: Peers<'_, S>,
    claim: &Claim,
    greeted_by: GreetedBy,
) -> Result<PassThrough<S>, NoLogin> {
    let Peers { mut client, peer, at, server, pass, until } = peers;
    let Claim { user, login } = claim;
    let mut request = login.clone();
    request.capabilities = login.capabilities & server.greeting.capabilities;
    // What it is compared by here is what the server sees, whatever the client has sent.
    request.user = match user.in_login(login.collation.into(), dial::brand(&server.greeting)) {
        Ok(name) => name,
        Err(why) => return Err(tell_on(&mut client, unsure(&user.to_string(), why)).await),
    };
    let secured = secure(worker, client.stream(), peer, at, server, &mut request);
    let secured = timeout_at(until, secured).await.unwrap_or_else(|_| Err(late(worker, at)));
    let (Greeted { talk: mut server, greeting }, is_asked_again) = match secured {
        Ok(secured) => secured,
        Err(fault) => return Err(tell_on(&mut client, fault).await),
    };
    // Over a Unix socket a server may let Flifo's own user in, whichever user the client is.
    let by_socket = matches!(at.address, Address::Unix(_));
    if namesake::is_named(user, client.stream(), server.stream())
        && namesake::is_open(worker, at, user).await
    {
        return Err(tell_on(&mut client, namesake::denied(user)).await);
    }
    let plugin = request.plugin.as_deref().map(Plugin::from_name);
    // What it answered must not reach the server, or would mean nothing to it: the server asks anew.
    let is_mute = greeted_by != GreetedBy::Server
        || is_asked_again
        || by_socket && request.capabilities.has(Capabilities::PLUGIN_AUTH)
        || plugin
            .is_some_and(|plugin| why_not(&plugin, client.stream(), server.stream(), at).is_some());
    if is_mute {
        mute(&mut request);
    }
    let proofs = proofs(worker, client.stream(), claim, greeted_by);
    let mut payload = Vec::new();
    request.encode(&mut payload);
    if let Err(error) = server.write(&payload).await {
        let fault = NoBackend::from(LoginError::from(error)).fault(at);
        return Err(tell_on(&mut client, fault).await);
    }
    let mut relay = Relay {
        worker,
        at,
        pass,
        until,
        user,
        peer,
        plugin: Plugin::from_name(request.plugin.as_deref().unwrap_or(&greeting.plugin)),
        nonce: greeting.nonce.clone(),
        client,
        server,
        has_asked: !(by_socket && is_mute),
        may_learn: learnt::may_learn(worker, user),
        said: None,
        proofs,
    };
    let ok = relay.run().await?;
    guesses::is_right(worker, user, peer);
    let capabilities = request.capabilities;
    let Relay { client, server, .. } = &mut relay;
    let claim = (user, peer.map(|peer| peer.ip()));
    let held = held::pass_through(worker, at, claim, client.stream(), server, capabilities);
    if let Err(fault) = held.await {
        return Err(relay.refuse(fault).await);
    }
    let ok = relay.vouched(ok, capabilities);
    relay.client.write(&ok).await?;
    if let Some(password) = relay.said.take() {
        learnt::learn(worker, user, &password);
    }
    let status = OkPacket::decode(&ok, capabilities).map(|ok| ok.status).unwrap_or_default();
    let backend = backend_of(worker, at, greeting.connection_id, relay.server, capabilities);
    Ok(PassThrough { client: relay.client, backend, status, brand: dial::brand(&greeting) })
}

/// What can be checked of what the client proves, unless it has answered the server's own greeting.
fn proofs(
    worker: &Worker,
    client: &Stream,
    Claim { user, login }: &Claim,
    greeted_by: GreetedBy,
) -> Option<Proofs> {
    let GreetedBy::Flifo { scramble, .. } = greeted_by else { return None };
    accounts::provable(worker, user, |provable| Proofs::of(client, scramble, provable, login))
}

/// Leaves out what the client has answered: the server asks it anew.
fn mute(request: &mut Login) {
    request.plugin = Some(NO_PLUGIN.to_vec());
    // A client that cannot be asked anew, and has a password, must not be one without.
    let is_final = !request.capabilities.has(Capabilities::PLUGIN_AUTH);
    let is_wrong = is_final && !request.response.is_empty();
    request.response = if is_wrong { vec![0; Nonce::LEN] } else { Vec::new() };
}

/// The connection to the server, with TLS if the client's leg asks for that; and whether it was opened once more,
/// because the server would not go on without.
async fn secure(
    worker: &Worker,
    client: &Stream,
    peer: Option<SocketAddr>,
    at: &Server,
    server: Greeted,
    request: &mut Login,
) -> Result<(Greeted, bool), Fault> {
    match Leg::of(worker, client, at)?.secure(server, at, request).await {
        Ok(server) => Ok((server, false)),
        Err(NoLeg::Failed(error)) => Err(NoBackend::from(error).fault(at)),
        Err(NoLeg::Again) => {
            request.capabilities = request.capabilities.without(Capabilities::SSL);
            let again = opener::greeted(&worker.pool, at, peer).await;
            again.map(|server| (server, true)).map_err(|error| error.fault(at))
        }
    }
}

/// A connection that is logged in becomes the worker's.
fn backend_of(
    worker: &Rc<Worker>,
    at: &Server,
    thread_id: u32,
    talk: Talk,
    capabilities: Capabilities,
) -> Rc<Backend> {
    let (stream, unread) = talk.into_parts();
    let id = worker.new_backend_id();
    let backend = Rc::new(Backend::new(id, at.id, thread_id, stream, capabilities, None));
    *backend.bytes.unread.borrow_mut() = unread;
    worker.at(at.id).traffic.opened.add(1);
    worker.add_backend(&backend);
    crate::worker::tasks::contained(backend_task::serve(Rc::clone(worker), Rc::clone(&backend)));
    backend
}

/// Why an answer by this plugin must not go on from the client's leg to the server's. A client
/// gives its password away by these plugins, or does so on a connection that it knows to be secure.
fn why_not(plugin: &Plugin, client: &Stream, server: &Stream, at: &Server) -> Option<&'static str> {
    let is_known = is_verified(server, at.tls().pass_through.as_ref());
    let (client, server) = (client.is_secure(), server.is_secure());
    match plugin {
        Plugin::ClearPassword if !(client && server) => Some(
            "The server asks for the password in clear text, and Flifo passes it on only where \
             both the client's and the server's connection are TLS or a Unix socket",
        ),
        Plugin::ClearPassword if !is_known => Some(
            "The server asks for the password in clear text, and Flifo does not know that it is \
             the server, whose certificate is not verified: set server.tls = \"verify-ca\" or \
             \"verify-full\", with server.tls_ca",
        ),
        Plugin::Other(name)
            if matches!(&**name, b"sha256_password" | b"dialog") && client && !server =>
        {
            Some(
                "The client would send its password in clear text, and Flifo passes it on only \
                 where the server's connection is TLS or a Unix socket, as the client's is",
            )
        }
        _ => None,
    }
}

/// What a client is told for which the server takes too long.
fn late(worker: &Worker, at: &Server) -> Fault {
    NoBackend::Late("limits.login", worker.plan().limits.login).fault(at)
}

/// Sends an error as the login's answer.
async fn tell_on<S: Borrow<Stream>>(client: &mut Talk<S>, fault: Fault) -> NoLogin {
    // The client may be gone as well.
    let _ = client.write(&fault.payload()).await;
    NoLogin::Fault(fault)
}

/// Two conversations that are one login.
struct Relay<'a, S> {
    worker: &'a Worker,
    at: &'a Server,
    pass: &'a Pass,
    until: Instant,
    user: &'a UserName,
    peer: Option<SocketAddr>,
    client: Talk<S>,
    server: Talk,
    plugin: Plugin,
    nonce: Vec<u8>,
    /// The server has asked the client for something, or need not.
    has_asked: bool,
    /// The password may be kept, if it is said.
    may_learn: bool,
    /// The password, if it is the last that the client has said.
    said: Option<Secret>,
    /// What the client proves, where it can be checked.
    proofs: Option<Proofs>,
}

impl<S: Borrow<Stream>> Relay<'_, S> {
    /// Passes packets on until the server has decided. The answer is its OK packet's payload, which the client is still
    /// to be told.
    async fn run(&mut self) -> Result<Vec<u8>, NoLogin> {
        loop {
            let payload = match timeout_at(self.until, self.server.read()).await {
                Ok(Ok(payload)) => payload,
                Err(_) => return Err(self.refuse(late(self.worker, self.at)).await),
                Ok(Err(error)) => return Err(self.server_left(&error.to_string()).await),
            };
            let packet = match AuthPacket::decode(&payload) {
                Ok(packet) => packet,
                Err(error) => return Err(self.server_left(&error.to_string()).await),
            };
            if !matches!(packet, AuthPacket::Ok) {
                self.said = None;
            }
            match packet {
                AuthPacket::Ok if !self.has_asked => return Err(self.let_in_unasked().await),
                AuthPacket::Ok => return Ok(payload),
                AuthPacket::Err => {
                    guesses::is_refused(self.worker, self.user, self.peer, &payload);
                    let code = ErrPacket::decode(&payload).map(|error| error.code);
                    if code == Ok(dial::ACCESS_DENIED) {
                        self.pass.lend(accounts::look_again(self.worker)).await;
                        if let Some(fault) = self.demand().await {
                            return Err(self.refuse(fault).await);
                        }
                    }
                    if code == Ok(dial::TOO_MANY_CONNECTIONS) {
                        // Its proof was for this connection alone. Room is made before the client hears of it, for it
                        // may try again at once.
                        room::make(&self.worker.pool, self.at.id).await;
                    }
                    self.client.write(&payload).await?;
                    return Err(NoLogin::Told(payload));
                }
                AuthPacket::Switch { plugin, data } => {
                    self.has_asked = true;
                    self.plugin = Plugin::from_name(plugin);
                    self.nonce = data.to_vec();
                    let proofs = self.proofs.as_mut();
                    if let Some(answer) = proofs.and_then(|it| it.answer(&self.plugin, data)) {
                        self.server.write(&answer).await?;
                        continue;
                    }
                    self.allow_password().await?;
                    self.client.write(&payload).await?;
                    self.pass_answer().await?;
                }
                AuthPacket::More(&[caching_sha2::FAST_OK]) => self.client.write(&payload).await?,
                AuthPacket::More(&[caching_sha2::FULL]) => {
                    self.allow_key().await?;
                    // What is missing is told before the client answers: behind that it would be out of step.
                    let client_is_secure = self.client.stream().is_secure();
                    if client_is_secure != self.server.stream().is_secure()
                        || self.may_learn && !client_is_secure
                    {
                        self.nonce().await?;
                    }
                    self.client.write(&payload).await?;
                    self.pass_password().await?;
                }
                AuthPacket::Bare(_) if !matches!(self.plugin, Plugin::Other(_)) => {
                    let why = "it sent what the login's method does not have";
                    return Err(self.server_left(why).await);
                }
                AuthPacket::More(data) | AuthPacket::Bare(data) => {
                    if self.is_unsafe_question() {
                        let why = "it asked for more than the login's method does, on a connection without TLS, \
                                   where a client in TLS might answer with its password";
                        return Err(self.server_left(why).await);
                    }
                    if let Some(proofs) = &mut self.proofs {
                        proofs.see_question(data);
                    }
                    self.client.write(&payload).await?;
                    self.pass_answer().await?;
                }
            }
        }
    }

    /// Whether the client could take what the server asks for the full login of caching_sha2_password, which it answers
    /// in TLS with the password: some drivers look at the first byte alone, and at their own idea of the method. Only a
    /// method that goes on in several questions, and that the server has asked for, may do so on a plain connection.
    fn is_unsafe_question(&self) -> bool {
        let is_told = self.client.stream().is_secure() && !self.server.stream().is_secure();
        let has_questions = matches!(&self.plugin, Plugin::Other(name) if **name != *NO_PLUGIN);
        is_told && !has_questions
    }

    async fn pass_answer(&mut self) -> Result<(), NoLogin> {
        let answer = Secret::from(self.pass.lend(self.client.read()).await?);
        self.server.write(answer.as_bytes()).await?;
        if let Some(proofs) = &mut self.proofs {
            proofs.see_answer(answer);
        }
        Ok(())
    }

    /// What the account demands that Flifo's connection to the server does not have, for which the server has refused a
    /// client that has proved the account's password.
    async fn demand(&self) -> Option<Fault> {
        let (proofs, plugin) = (self.proofs.as_ref()?, &self.plugin);
        let claim = (self.user, self.peer.map(|peer| peer.ip()));
        let has_proved = |account: &Row| proofs.has_proved(account, plugin);
        held::demand(self.worker, self.at, claim, self.server.stream(), has_proved).await
    }

    /// The server's OK, as it vouches for Flifo's certificate where it can.
    fn vouched(&self, ok: Vec<u8>, capabilities: Capabilities) -> Vec<u8> {
        let message = self.proofs.as_ref().and_then(|it| it.message(&self.plugin));
        match (message, OkPacket::decode(&ok, capabilities)) {
            (Some(message), Ok(packet)) => {
                let mut out = Vec::new();
                OkPacket { info: &message, ..packet }.encode(OK, capabilities, &mut out);
                out
            }
            (None, Ok(packet)) if packet.info.first() == Some(&BY_SHA256) => {
                vouch::tell_unvouched(self.worker, self.user, self.client.stream());
                ok
            }
            _ => ok,
        }
    }

    /// The server wants the password: as it is on a secure leg, under a public key on a plain one.
    async fn pass_password(&mut self) -> Result<(), NoLogin> {
        let is_secure = self.client.stream().is_secure();
        let may_learn = self.may_learn && self.plugin == Plugin::CachingSha2;
        if is_secure != self.server.stream().is_secure() {
            // Flifo is the RSA end of one leg.
            let nonce = self.nonce().await?;
            let password = receive_password(self.worker, &mut self.client, &nonce, self.pass).await;
            return self.prove(password, &nonce, may_learn).await;
        }
        // On two equal legs the client asks for the key or sends the password, and the server
        // answers.
        if !may_learn {
            return self.pass_answer().await;
        }
        // A client that asks for a key has none that it trusts more: it is given Flifo's.
        let sent = Secret::from(self.pass.lend(self.client.read()).await?);
        if asks_for_key(&sent) {
            let nonce = self.nonce().await?;
            let (client, pass) = (&mut self.client, self.pass);
            let password = take_password(self.worker, client, &sent, &nonce, pass).await;
            return self.prove(password, &nonce, may_learn).await;
        }
        // Else it is encrypted for the server alone.
        self.said = caching_sha2::clear(&sent).filter(|_| is_secure);
        self.server.write(sent.as_bytes()).await?;
        Ok(())
    }

    /// Proves to the server what the client has told.
    async fn prove(
        &mut self,
        password: Result<Secret, NoLogin>,
        nonce: &Nonce,
        may_learn: bool,
    ) -> Result<(), NoLogin> {
        let password = match password {
            Err(NoLogin::Fault(fault)) => return Err(self.refuse(fault).await),
            password => password?,
        };
        // Whether the key is taken was decided before, or by the client, which has taken Flifo's.
        let keys = ServerKeys::Any;
        let proved = prove_fully(&mut self.server, password.as_bytes(), nonce, keys);
        match timeout_at(self.until, proved).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(self.server_left(&error.to_string()).await),
            Err(_) => return Err(self.refuse(late(self.worker, self.at)).await),
        }
        self.said = Some(password).filter(|_| may_learn);
        Ok(())
    }

    async fn nonce(&mut self) -> Result<Nonce, NoLogin> {
        match Nonce::from_server(&self.plugin, &self.nonce) {
            Ok(nonce) => Ok(nonce),
            Err(error) => Err(self.server_left(&error.to_string()).await),
        }
    }

    /// A password is sent as it is only where no third party can read along.
    async fn allow_password(&mut self) -> Result<(), NoLogin> {
        match why_not(&self.plugin, self.client.stream(), self.server.stream(), self.at) {
            None => Ok(()),
            Some(message) => Err(self.refuse(Fault::new(Kind::TlsRequired, message)).await),
        }
    }

    /// A client that tells Flifo its password, as it is certain of Flifo, does not tell it to whichever server sends a
    /// public key.
    async fn allow_key(&mut self) -> Result<(), NoLogin> {
        let server = self.server.stream();
        let is_told = self.client.stream().is_secure() && !server.is_secure();
        let tls = self.at.tls();
        if !is_told || ServerKeys::by(tls.pass_through.as_ref(), server) == ServerKeys::Any {
            return Ok(());
        }
        let (address, why) = (&self.at.address, LoginError::UnknownKey);
        let message = format!("Flifo does not log in at {address}: {why}");
        Err(self.refuse(Fault::new(Kind::TlsRequired, message)).await)
    }

    async fn let_in_unasked(&mut self) -> NoLogin {
        let message = "Access denied by Flifo: the server asked for no password, because on its \
                       Unix socket it identifies Flifo, not this client. Let Flifo connect to the \
                       server by TCP, or give this account a password";
        self.refuse(Fault::new(Kind::AccessDenied, message)).await
    }

    async fn server_left(&mut self, why: &str) -> NoLogin {
        let address = &self.at.address;
        let message = format!("Flifo lost the server at {address} during the login: {why}");
        self.refuse(Fault::new(Kind::ServerUnreachable, message)).await
    }

    async fn refuse(&mut self, fault: Fault) -> NoLogin {
        tell_on(&mut self.client, fault).await
    }
}
