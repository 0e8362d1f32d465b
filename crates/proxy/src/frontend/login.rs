//! From an accepted socket to a client that is logged in: PROXY header, greeting, TLS, and the user that it is.
//!
//! Where Flifo knows no user at all, every client is passed through, and it is shown the server's own greeting, number
//! and all. Else Flifo greets it itself and decides by the user's name: known users are pooled, others are passed
//! through. A client that has been shown the server's greeting is passed through, whatever Flifo has learnt meanwhile.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use backend::login::Greeted;
use backend::offer::Offer;
use backend::talk::TalkError;
use backend::{Stream, Talk};
use engine::account::name::{Brand, Packet};
use engine::account::terms::Terms;
use engine::pin::Pin;
use engine::session::Session;
use engine::session::beginning::Beginning;
use tokio::time::Instant;
use wire::auth::{Nonce, Plugin};
use wire::capability::Capabilities;
use wire::handshake::{AuthPacket, FirstPacket, Greeting, Login};
use wire::response::{OK, OkPacket};

use crate::answers::notes;
use crate::cluster::dial;
use crate::cluster::facts::offered;
use crate::cluster::servers::ServerId;
use crate::config::Listen;
use crate::fault::{Fault, Kind};
use crate::frontend::accepted::{Accepted, Socket};
use crate::frontend::accounts;
use crate::frontend::audited;
use crate::frontend::before_41;
use crate::frontend::client_task::{self, ClientPlace};
use crate::frontend::confirm;
use crate::frontend::guesses::{self, Answered, Attempt, Unconfirmed};
use crate::frontend::held;
use crate::frontend::hidden;
use crate::frontend::pass_through;
use crate::frontend::pending_login::{self, Applicant, Claim, NoLogin, PendingLogin};
use crate::frontend::prove::{self, PasswordProof};
use crate::frontend::vouch;
use crate::pool::keys::{Key, KeyId};
use crate::pool::opener;
use crate::road::login_schema;
use crate::routing::route;
use crate::state::came_by::CameBy;
use crate::state::client::{self, Client};
use crate::state::worker::Worker;
use crate::users::logins::{NoPass, Pass};
use crate::users::{ReservedPlace, User};
use crate::worker::steps::step;
use crate::worker::wreckage::{PanicNote, Wreck};

impl From<Fault> for NoLogin {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// Whose words a client is greeted with. Decided once for each login: users may be learnt and forgotten during it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Greeter {
    /// The server's: no client is pooled.
    Server,
    Flifo,
}

/// Begins to log a client in.
pub(crate) fn begin(worker: &Rc<Worker>, accepted: Accepted) {
    let worker = Rc::clone(worker);
    let place = ClientPlace::counted(&worker);
    crate::worker::tasks::contained(async move {
        // Given back whatever ends this.
        let _place = place;
        step!("login");
        // Boxed: a client at rest keeps its own small task, not the room that a login takes; and by a pointer to its
        // functions, or they would be built into this one, and each statement would clear a stack frame of 48 KiB.
        let admission: std::pin::Pin<Box<dyn Future<Output = _>>> =
            Box::pin(admit(&worker, accepted));
        let client = admission.await;
        if let Some(client) = client {
            client_task::serve(Rc::clone(&worker), client).await;
        }
    });
}

async fn admit(worker: &Rc<Worker>, accepted: Accepted) -> Option<Rc<Client>> {
    let Accepted { socket, listen } = accepted;
    let stream = match socket {
        Socket::Tcp(stream) => Stream::from(tokio::net::TcpStream::from_std(stream).ok()?),
        Socket::Unix(stream) => tokio::net::UnixStream::from_std(stream).ok()?.try_into().ok()?,
        #[cfg(feature = "simulation")]
        Socket::Memory(packed) => packed.unpack().ok()?,
    };
    let limit = worker.plan().limits.login;
    // Where no user is known, every client is passed through, and the server is asked before the client; unless the
    // client's own words decide which server that is.
    let is_anywhere = worker.plan().routes.is_empty();
    let (greeter, logins) = match worker.shared.proofs.users.is_empty() && is_anywhere {
        true => (Greeter::Server, &worker.entrance.pass_through_logins),
        false => (Greeter::Flifo, &worker.entrance.logins),
    };
    if logins.is_full() {
        worker.counters.logins_waited.add(1);
    }
    let pass = match logins.enter(limit, &stream).await {
        Ok(pass) => pass,
        Err(NoPass::Gone) => return None,
        Err(NoPass::Late { others }) => {
            let fault = too_late(worker, others);
            worker.count_fault(fault.kind);
            let applicant = Rc::new(Applicant::default());
            let pending_login = PendingLogin::new(stream, listen, &applicant);
            audited::see_fault(worker, &applicant, &fault);
            greet_with(pending_login, fault).await;
            return None;
        }
    };
    let applicant = Rc::new(Applicant::default());
    let pending_login = PendingLogin::new(stream, listen, &applicant);
    let deadline = Instant::now() + limit;
    // Boxed: it is 12 KiB, and moves into the timeout and into what waits for that.
    let login = Box::pin(log_in(worker, pending_login, greeter, pass, deadline));
    match tokio::time::timeout_at(deadline + FAREWELL, login).await {
        Ok(Ok((login, schema))) => Some(enter(worker, login, schema)),
        Ok(Err(NoLogin::Fault(fault))) => {
            worker.count_fault(fault.kind);
            audited::see_fault(worker, &applicant, &fault);
            None
        }
        Ok(Err(NoLogin::Told(packet))) => {
            audited::see_refusal(worker, &applicant, &packet);
            None
        }
        Ok(Err(NoLogin::Asked)) => None,
        Ok(Err(NoLogin::Talk(error))) => {
            worker.count_fault(Kind::BadHandshake);
            audited::see_break(worker, &applicant, &error.to_string());
            None
        }
        Err(_) => {
            worker.count_fault(Kind::BadHandshake);
            audited::see_break(worker, &applicant, "the login took too long");
            None
        }
    }
}

/// Makes the client known, and lets the server check the schema it asked for.
fn enter(worker: &Rc<Worker>, login: client::Login, schema: Option<Vec<u8>>) -> Rc<Client> {
    let client = Rc::new(Client::new(login));
    if let Some(backend) = client.backend() {
        backend.hold_for(&client);
    }
    worker.add_client(&client);
    let about = PanicNote::new(Wreck::ClientTask(client.id));
    step!("enter");
    let counter = match client.is_pooled() {
        true => &worker.counters.clients_pooled,
        false => &worker.counters.clients_pass_through,
    };
    counter.add(1);
    match schema {
        Some(schema) => login_schema::enter(worker, &client, &schema),
        None => notes::see_login(worker, &client),
    }
    about.forget();
    client
}

/// What a client is told that has waited for its login to begin.
fn too_late(worker: &Worker, others: usize) -> Fault {
    let limit = worker.plan().limits.login.as_secs_f64();
    let message = format!(
        "Too many connections: more clients log in than there is time for; this one waited for \
         {limit:.1} s (limits.login; logins_max {}), and {others} more wait. It is safe to try \
         again",
        worker.plan().logins_max
    );
    Fault::new(Kind::LoginWaitedTooLong, message)
}

/// Logs in. Answers with the client, and with the schema that is still to be checked.
async fn log_in(
    worker: &Rc<Worker>,
    mut pending_login: PendingLogin,
    greeter: Greeter,
    mut pass: Pass,
    deadline: Instant,
) -> Result<(client::Login, Option<Vec<u8>>), NoLogin> {
    if worker.is_stopping() {
        return Err(
            greet_with(pending_login, Fault::new(Kind::Stopping, "Flifo is stopping")).await
        );
    }
    pending_login = pass
        .lend(crate::frontend::proxy_protocol::receive(worker, pending_login, deadline))
        .await?;
    pending_login.server = match greeter {
        Greeter::Server => {
            let first = worker.shared.cluster.first_cluster();
            route::home(worker, first.id, first.mode()).await
        }
        Greeter::Flifo => worker.shared.cluster.greeter().id,
    };
    let greeting = greeting(worker, &pending_login, greeter);
    let greeting = match greeter {
        Greeter::Server => greeting.await,
        // Only where the server has never been met is it waited for here.
        Greeter::Flifo => pass.lend(greeting).await,
    };
    let (greeting, server, brand) = match greeting {
        Ok(greeting) => greeting,
        Err(fault) => return Err(greet_with(pending_login, fault).await),
    };
    (pending_login.offered, pending_login.brand) = (greeting.capabilities, brand);
    let mut payload = Vec::new();
    greeting.encode(&mut payload);
    pending_login.talk.write(&payload).await?;
    let (pending_login, login) = read_login(worker, pending_login, &pass, deadline).await?;
    let claim = match Claim::read(login, Packet::Login, brand) {
        Ok(claim) => claim,
        Err(fault) => return Err(pending_login::tell(pending_login, fault).await),
    };
    let claim = claim.in_schema(&worker.plan());
    *pending_login.applicant.user.borrow_mut() = Some(notes::named(&claim.user));
    if let Err(fault) = pass.lend(guesses::wait(worker, &claim.user, pending_login.peer)).await {
        return Err(pending_login::tell(pending_login, fault).await);
    }
    let user = match greeter {
        Greeter::Server => None,
        Greeter::Flifo => pass.lend(accounts::find(worker, &claim.user)).await,
    };
    let user = user.filter(|user| {
        has_room(worker, &claim, user) && may_be_proved_here(&greeting, brand, &claim, user)
    });
    let pooled = match user {
        Some(user) => pool(worker, pending_login, &greeting, claim, &user, &pass).await?,
        None => Pooled::Elsewhere(Box::new((pending_login, claim))),
    };
    let (pending_login, claim) = match pooled {
        Pooled::In(client, schema) => return Ok((*client, schema)),
        Pooled::Elsewhere(other) => *other,
    };
    accounts::tell_pass_through(worker, &claim.user);
    let greeted_by = match greeter {
        Greeter::Server => pass_through::GreetedBy::Server,
        Greeter::Flifo => {
            drop(pass);
            pass = worker.entrance.pass_through_logins.enter_again().await;
            pass_through::GreetedBy::flifo(&greeting)
        }
    };
    let terms = (&pass, deadline);
    let passed = pass_through::log_in(worker, pending_login, claim, server, greeted_by, terms);
    Ok((passed.await?, None))
}

/// What came of the login of a client whose user Flifo knows.
enum Pooled {
    /// The client, and the schema that is still to be checked.
    In(Box<client::Login>, Option<Vec<u8>>),
    /// The server alone can tell whether its proof is right, or can be answered by its client alone.
    Elsewhere(Box<(PendingLogin, Claim)>),
}

/// Whether a client is worth a question, or can be passed through as well. Of an account with other methods, a client
/// that must be asked by one of them may know another one's password, and few clients answer two questions.
fn may_be_proved_here(greeting: &Greeting, brand: Brand, claim: &Claim, user: &User) -> bool {
    let plugin = plugin_of(&claim.login);
    // Flifo's own questions name schemas, which a MariaDB hides from such a client.
    let names_schemas =
        !claim.login.capabilities.has(Capabilities::NO_SCHEMA) || brand == Brand::MySql;
    let is_answered = !user.has_other_methods()
        || user.can_check(&plugin) && !is_unanswered(greeting, &plugin, &claim.login.response);
    names_schemas && is_answered
}

fn plugin_of(login: &Login) -> Plugin {
    login.plugin.as_deref().map_or(Plugin::NativePassword, Plugin::from_name)
}

/// MySQL's own clients do not answer a nonce that is meant for another plugin than theirs: they wait to be asked for it.
fn is_unanswered(greeting: &Greeting, plugin: &Plugin, response: &[u8]) -> bool {
    plugin.name() != greeting.plugin && response.is_empty()
}

/// What the client is greeted with: the server's words, or Flifo's where it may have to check a password itself.
async fn greeting(
    worker: &Rc<Worker>,
    pending_login: &PendingLogin,
    greeter: Greeter,
) -> Result<(Greeting, Option<Greeted>, Brand), Fault> {
    let tls = worker.shared.tls().clients.is_some() && !pending_login.talk.stream().is_tls();
    let pooled = greeter == Greeter::Flifo;
    let home = worker.shared.cluster.server(pending_login.server);
    let (mut greeting, server) = match home.facts.greeting().filter(|_| pooled) {
        Some(greeting) => (greeting, None),
        None => {
            let greeted = opener::greeted(&worker.pool, home, pending_login.peer)
                .await
                .map_err(|error| error.fault(home))?;
            (greeted.greeting.clone(), Some(greeted))
        }
    };
    let brand = dial::brand(&greeting);
    if let Some(version) = &worker.plan().server.version {
        greeting.version = version.clone().into_bytes();
    }
    greeting.capabilities = offered(greeting.capabilities, pooled, tls);
    if pooled {
        greeting.nonce = guesses::random_nonce()?.as_bytes().to_vec();
        greeting.plugin = Plugin::NativePassword.name().to_vec();
        greeting.connection_id = worker.new_client_id();
    }
    Ok((greeting, server, brand))
}

/// Beyond `limits.login`, a client is told so in this time.
pub(super) const FAREWELL: Duration = Duration::from_millis(250);

/// Reads the client's next packet. A client that sends none in time, or one that no login has, is told so.
async fn hear(
    worker: &Worker,
    mut pending_login: PendingLogin,
    pass: &Pass,
    deadline: Instant,
) -> Result<(PendingLogin, Vec<u8>), NoLogin> {
    let read = tokio::time::timeout_at(deadline, pending_login.talk.read());
    let why = match pass.lend(read).await {
        Ok(Ok(payload)) => return Ok((pending_login, payload)),
        Ok(Err(error @ TalkError::OutOfOrder { .. })) => {
            let fault = Fault::new(Kind::OutOfOrder, format!("Got packets out of order: {error}"));
            return Err(pending_login::tell(pending_login, fault).await);
        }
        Ok(Err(error @ TalkError::TooLong { .. })) => error.to_string(),
        Ok(Err(error)) => return Err(error.into()),
        Err(_) => {
            let limit = worker.plan().limits.login.as_secs_f64();
            format!("the client has not logged in within {limit:.1} s (limits.login)")
        }
    };
    let fault = Fault::new(Kind::BadHandshake, format!("Bad handshake: {why}"));
    Err(pending_login::tell(pending_login, fault).await)
}

/// Reads the client's answer, after going on in TLS if it asks for that.
async fn read_login(
    worker: &Worker,
    pending_login: PendingLogin,
    pass: &Pass,
    deadline: Instant,
) -> Result<(PendingLogin, Login), NoLogin> {
    let (mut pending_login, packet) = hear(worker, pending_login, pass, deadline).await?;
    let mut first = FirstPacket::decode(&packet);
    if let Ok(FirstPacket::TlsRequest { .. }) = first {
        let Some(offer) = worker.shared.tls().clients.clone() else {
            let message = "Bad handshake: TLS was asked for, which Flifo did not offer";
            return Err(pending_login::tell(
                pending_login,
                Fault::new(Kind::BadHandshake, message),
            )
            .await);
        };
        let secure = pending_login.go_on_in_tls(offer, pass).await?;
        let packet;
        (pending_login, packet) = hear(worker, secure, pass, deadline).await?;
        first = FirstPacket::decode(&packet);
    }
    let fault = match first {
        Ok(FirstPacket::Login(_) | FirstPacket::Old(_))
            if worker.shared.tls().clients_required && !pending_login.talk.stream().is_secure() =>
        {
            let message = "Connections using insecure transport are prohibited: Flifo's tls.mode \
                is \"required\"";
            Fault::new(Kind::TlsRequired, message)
        }
        // It will compress what it sends now, whatever was offered: PHP's mysqlnd does not look.
        Ok(FirstPacket::Login(login)) if login.capabilities.has(Capabilities::COMPRESS) => {
            let message = "Bad handshake: the client compresses, which Flifo does not offer; turn \
                compression off in the client";
            Fault::new(Kind::BadHandshake, message)
        }
        Ok(FirstPacket::Login(mut login)) => {
            login.capabilities = login.capabilities & pending_login.offered;
            return Ok((pending_login, login));
        }
        Ok(FirstPacket::Old(login)) if pending_login.brand == Brand::MariaDb => {
            return Err(before_41::answer(worker, pending_login, &login, pass).await);
        }
        Ok(FirstPacket::Old(_)) => {
            let message = "Bad handshake: the protocol before 4.1 is not spoken";
            Fault::new(Kind::BadHandshake, message)
        }
        Ok(FirstPacket::TlsRequest { .. }) => {
            Fault::new(Kind::BadHandshake, "Bad handshake: TLS inside TLS")
        }
        Err(error) => Fault::new(Kind::BadHandshake, format!("Bad handshake: {error}")),
    };
    Err(pending_login::tell(pending_login, fault).await)
}

/// Checks the password of a user that Flifo knows.
async fn pool(
    worker: &Rc<Worker>,
    mut pending_login: PendingLogin,
    greeting: &Greeting,
    claim: Claim,
    user: &Arc<User>,
    pass: &Pass,
) -> Result<Pooled, NoLogin> {
    let proved = match prove(worker, &mut pending_login, greeting, &claim, user, pass).await {
        Err(NoLogin::Fault(fault)) => return Err(pending_login::tell(pending_login, fault).await),
        proved => proved?,
    };
    let attempt = Attempt {
        user: &claim.user,
        peer: pending_login.peer,
        login: &claim.login,
        server: pending_login.server,
    };
    let (user, vouched) = match proved {
        Proved::Right(user, vouched) => (user, vouched),
        Proved::Wrong(_) if user.has_other_methods() => {
            return Ok(Pooled::Elsewhere(Box::new((pending_login, claim))));
        }
        Proved::Wrong(answered) => {
            let talk = &mut pending_login.talk;
            return match guesses::refuse(worker, talk, attempt, user, answered, pass).await {
                Ok(fault) | Err(NoLogin::Fault(fault)) => {
                    Err(pending_login::tell(pending_login, fault).await)
                }
                Err(error) => Err(error),
            };
        }
    };
    let entered = may_enter(worker, &pending_login, &claim, attempt, &user, pass).await;
    let (reserved, key) = match entered {
        Ok(place) => place,
        Err(_) if user.is_beyond_flifo() => {
            return Ok(Pooled::Elsewhere(Box::new((pending_login, claim))));
        }
        Err(fault) => return Err(pending_login::tell(pending_login, fault).await),
    };
    let mut vouched = vouched;
    if claim.login.schema.is_none() {
        let mut ok = Vec::new();
        let info = vouched.take().unwrap_or_default();
        let packet = OkPacket { status: greeting.status, info: &info, ..OkPacket::EMPTY };
        packet.encode(OK, claim.login.capabilities, &mut ok);
        pending_login.talk.write(&ok).await?;
    }
    reserved.keep();
    let schema = claim.login.schema.clone();
    let client = pooled_client(worker, pending_login, greeting, claim, key, vouched);
    Ok(Pooled::In(Box::new(client), schema))
}

/// A client that has proved its password, and for which there is room.
fn pooled_client(
    worker: &Worker,
    pending_login: PendingLogin,
    greeting: &Greeting,
    claim: Claim,
    key: KeyId,
    vouched: Option<Vec<u8>>,
) -> client::Login {
    let Claim { user: name, login } = claim;
    let sequence = pending_login.talk.sequence();
    let mut session = Session::new(None, greeting.status);
    let init = worker.plan().init_connect(&name).cloned();
    session.beginning = init.map(|init| Box::new(Beginning::new(init)));
    session.log_in_with(login.collation.into(), dial::brand(greeting));
    if pending_login::has_hidden_quotes(login.collation) {
        session.keep(Pin::Charset);
    }
    let class = worker.class_of(&name, login.schema.as_deref(), pending_login.peer);
    let cluster = worker.shared.cluster.serving(&worker.plan(), &name);
    let schema = login.schema.as_deref();
    let routed = worker.routed(&pending_login.listen, &name, schema, class);
    let peer = pending_login.peer;
    let came_by = CameBy::new(&pending_login.listen, &login);
    let (stream, more) = pending_login.talk.into_parts();
    client::Login {
        id: greeting.connection_id,
        stream,
        capabilities: login.capabilities,
        user: name,
        key: Some(key.with_schema(login.schema.is_some())),
        class,
        peer,
        came_by,
        session,
        backend: None,
        server: worker.shared.cluster.greeter_in(cluster).id,
        mode: routed.map_or_else(|| worker.shared.cluster.get(cluster).mode(), |it| it.mode),
        routed,
        cluster,
        more,
        sequence: login.schema.is_some().then_some(sequence),
        vouched,
    }
}

/// Whether a client that has proved its password may enter as this user: what its account demands, how many clients
/// there are, whether the server would still let it in. Its place among the user's clients, and which connections serve
/// it.
async fn may_enter(
    worker: &Worker,
    pending_login: &PendingLogin,
    claim: &Claim,
    attempt: Attempt<'_>,
    user: &Arc<User>,
    pass: &Pass,
) -> Result<(ReservedPlace, KeyId), Fault> {
    let name = &claim.user;
    let terms = terms(worker, attempt, user, pending_login.talk.stream(), pass).await?;
    let home = worker.shared.cluster.serving(&worker.plan(), name);
    let reserved = user
        .clients
        .reserve()
        .ok_or_else(|| pending_login::too_many_of_user(name, "clients_max", &user.clients))?;
    pass.lend(confirm::confirm(worker, name, user, &terms)).await?;
    pass.lend(hidden::begin(worker, home, name, user)).await;
    let same = |now: Arc<User>| Arc::ptr_eq(&now, user);
    if user.is_configured() && !worker.shared.proofs.users.get(name).is_some_and(same) {
        let message = "Access denied: the user was changed in Flifo's configuration just now";
        return Err(Fault::new(Kind::AccessDenied, message));
    }
    held::enter(worker, name, user, &terms)?;
    let mut keys = worker.pool.keys.borrow_mut();
    let key = keys.id(key_of(claim, user)).ok_or_else(|| {
        let message =
            "Flifo has met too many different combinations of user, capabilities and collation";
        Fault::new(Kind::BadHandshake, message)
    })?;
    keys.own(key, user);
    Ok((reserved, key))
}

/// What the account demands of a client that has proved its password, where the server takes the password as well.
pub(super) async fn terms(
    worker: &Worker,
    attempt: Attempt<'_>,
    user: &User,
    client: &Stream,
    pass: &Pass,
) -> Result<Terms, Fault> {
    let (name, peer) = (attempt.user, attempt.peer.map(|peer| peer.ip()));
    let refused = match pass.lend(guesses::confirm(worker, attempt, user)).await {
        Err(Unconfirmed::Blocked(fault)) => return Err(fault),
        Err(Unconfirmed::Refused(fault)) => Some(fault),
        Ok(()) => None,
    };
    let home = worker.shared.cluster.serving(&worker.plan(), name);
    let terms = pass.lend(held::pooled(worker, home, name, user, client, peer)).await?;
    // The server's words say less than what the account demands.
    refused.map_or(Ok(terms), Err)
}

/// What backends of this user must have in common with its client.
fn key_of(claim: &Claim, user: &User) -> Key {
    let Claim { user: name, login } = claim;
    Key::new(name.clone(), login.capabilities, login.collation).of_era(user.era())
}

/// Whether the client can be pooled, as far as Flifo's own bounds go. A client that need not be pooled is passed
/// through instead.
fn has_room(worker: &Worker, claim: &Claim, user: &User) -> bool {
    user.trust().is_none() || worker.pool.keys.borrow().has_room_for(&key_of(claim, user))
}

/// What came of a client's proof of a password.
enum Proved {
    /// It is right, as this user; and what the OK says to vouch for Flifo's certificate.
    Right(Arc<User>, Option<Vec<u8>>),
    Wrong(Answered),
}

/// Whether the client proves the user's password.
async fn prove(
    worker: &Worker,
    pending_login: &mut PendingLogin,
    greeting: &Greeting,
    claim: &Claim,
    user: &Arc<User>,
    pass: &Pass,
) -> Result<Proved, NoLogin> {
    let Claim { user: name, login } = claim;
    let mut plugin = plugin_of(login);
    let bad = |error: wire::Malformed| Fault::new(Kind::BadHandshake, error.to_string());
    let mut nonce = Nonce::from_server(&Plugin::NativePassword, &greeting.nonce).map_err(bad)?;
    let mut response = login.response.clone();
    let mut asked_by = None;
    if is_unanswered(greeting, &plugin, &response) || !user.can_check(&plugin) {
        if !user.can_check(&plugin) {
            plugin = user.plugin();
        }
        // As servers do, it is asked with the greeting's own nonce; by it clients see what vouches for the certificate.
        if plugin != Plugin::NativePassword {
            nonce = guesses::random_nonce()?;
        }
        let mut switch = Vec::new();
        AuthPacket::encode_switch(plugin.name(), nonce.as_bytes(), &mut switch);
        pending_login.talk.write(&switch).await?;
        response = pass.lend(pending_login.talk.read()).await?;
        asked_by = Some((plugin.clone(), nonce));
    }
    // Clients of caching_sha2 answer an empty password with one zero byte after a switch.
    if response == [0] {
        response.clear();
    }
    let has_password = !response.is_empty();
    let answer = PasswordProof { plugin, nonce, response };
    let talk = &mut pending_login.talk;
    Ok(match prove::prove(worker, talk, name, user, &answer, pass).await? {
        prove::Proved::Right(user) => {
            let vouched = vouch::for_pooled(pending_login.brand, talk.stream(), &user, &answer);
            Proved::Right(user, vouched)
        }
        prove::Proved::Wrong { was_asked_itself } => {
            Proved::Wrong(Answered { has_password, asked_by, was_asked_itself })
        }
    })
}

/// Sends an error in the greeting's place.
async fn greet_with(mut pending_login: PendingLogin, fault: Fault) -> NoLogin {
    pending_login.talk.set_sequence(0);
    let payload = fault.greeting();
    // A client that is gone already need not hear it.
    let _ = pending_login.talk.stream().write_all(&payload).await;
    NoLogin::Fault(fault)
}

impl PendingLogin {
    fn new(stream: Stream, listen: Arc<Listen>, applicant: &Rc<Applicant>) -> Self {
        let peer = stream.peer_address();
        applicant.peer.set(peer);
        let (talk, offered) = (Talk::new(stream), Capabilities::NONE);
        let (applicant, server) = (Rc::clone(applicant), ServerId::default());
        Self { applicant, peer, talk, offered, listen, server, brand: Brand::MySql }
    }

    async fn go_on_in_tls(self, offer: Arc<Offer>, pass: &Pass) -> Result<Self, NoLogin> {
        let sequence = self.talk.sequence();
        let (stream, unread) = self.talk.into_parts();
        if unread.is_empty() {
            // What costs most is done as soon as the client has spoken, and then the place is this login's.
            pass.lend(stream.readable()).await.map_err(TalkError::Io)?;
        }
        let accept = offer.accept(stream, &unread);
        let stream = pass.lend(accept).await.map_err(TalkError::Io)?;
        Ok(Self { talk: Talk::resume(stream, Vec::new(), sequence), ..self })
    }
}

/// Hands an accepted socket to the less loaded of two workers.
pub(crate) fn hand_over(worker: &Rc<Worker>, accepted: Accepted) {
    let chosen = worker.shared.choose_worker();
    if chosen == worker.index {
        begin(worker, accepted);
    } else {
        worker.shared.have_done(chosen, move |worker| begin(worker, accepted));
    }
}
