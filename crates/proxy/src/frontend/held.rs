//! A client has what its own account has, and not what Flifo's address and connection would get it.
//!
//! The server chooses an account by Flifo's address, and judges `REQUIRE` by Flifo's connection. So after a client has
//! proved its password, and before it hears that it is in, Flifo looks at the account that this is: in the table of
//! accounts ([`crate::frontend::accounts`]), or by asking the server as that user. `server.account_terms` turns it off.
//! What servers have said is remembered in [`crate::users::standing`] for pooled users, in [`crate::users::given`] for
//! pass-through clients.
//!
//! Invariants: nothing is told of an account to a client that has not proved its password; a server is asked only where
//! its choice could be another one for the client itself, or where the client is pooled, and seldom; nothing that is
//! remembered grows without a bound.

use std::borrow::Borrow;
use std::net::IpAddr;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use backend::login::{Credential, LoggedIn, LoginError, each_row};
use backend::{Stream, Talk};
use engine::account::held::{self, AccountRefusal, AccountRules, PeerPlaces};
use engine::account::host::{HostBrand, Resolving};
use engine::account::name::UserName;
use engine::account::row::Row;
use engine::account::shown;
use engine::account::terms::{Breach, Leg, Terms};
use wire::Capabilities;
use wire::auth::Secret;
use wire::command::Opcode;
use wire::handshake::UTF8MB4;

use crate::cluster::dial::{self, NoBackend};
use crate::cluster::members::ClusterId;
use crate::cluster::servers::Server;
use crate::config::AccountTerms;
use crate::fault::{Fault, Kind};
use crate::frontend::accounts;
use crate::frontend::confirm;
use crate::frontend::namesake;
use crate::pool::room::with_room;
use crate::state::worker::Worker;
use crate::users::User;
use crate::users::given::{GivenAccount, SOON};
use crate::users::standing::{Known, Own};

/// An account that bounds its connections in an hour is asked after no more often: each question is one of them.
const SELDOM: Duration = Duration::from_mins(5);

/// How long a client waits for an answer where an older one is known.
const PATIENCE: Duration = Duration::from_secs(1);

/// Hours are counted from here.
static START: LazyLock<Instant> = LazyLock::new(crate::worker::clock::read);

impl Own {
    /// By a connection to the server.
    pub(crate) fn of(worker: &Worker, stream: &Stream) -> Self {
        let local = stream.addresses().map(|(_, own)| own.ip());
        Self(local.map(|local| worker.plan().server.own_address.unwrap_or(local)))
    }
}

/// By which rules this server matches accounts.
pub(crate) async fn rules(
    server: &Server,
    asked: &mut LoggedIn,
) -> Result<AccountRules, LoginError> {
    let answer = asked.text("SELECT CAST(@@skip_name_resolve AS CHAR)").await?;
    Ok(rules_of(server, answer.as_deref()))
}

fn rules_of(server: &Server, skips: Option<&[u8]>) -> AccountRules {
    let greeting = server.facts.greeting();
    let version = greeting.as_ref().map_or(&b""[..], |it| &it.version);
    let brand = match server.facts.is_mariadb() {
        true => HostBrand::MariaDb,
        false => HostBrand::of_mysql(version),
    };
    let resolving = match skips {
        Some(b"1" | b"ON") => Resolving::Off,
        Some(b"0" | b"OFF") => Resolving::On,
        _ => Resolving::Unknown,
    };
    AccountRules { brand, resolving }
}

fn is_off(worker: &Worker) -> bool {
    worker.plan().server.account_terms == AccountTerms::Flifo
}

/// Holds a client to its account in a cluster that has proved its password to Flifo itself. Answers with the account's terms, whose
/// bounds are still to be looked at.
pub(crate) async fn pooled(
    worker: &Worker,
    cluster: ClusterId,
    name: &UserName,
    user: &User,
    client: &Stream,
    peer: Option<IpAddr>,
) -> Result<Terms, Fault> {
    if is_off(worker) {
        return Ok(Terms::default());
    }
    let leg = if client.is_tls() { Leg::Tls } else { Leg::Plain };
    let fits = |row: &Row| row.terms.allow(leg).is_ok();
    let told = match accounts::judge(worker, cluster, name, peer, None, fits).await {
        Some(told) => told,
        None => {
            let known = know(worker, cluster, name, user).await?;
            let Some(account) = known.account else { return Ok(Terms::default()) };
            held::by_account(&account, PeerPlaces::new(peer, known.own.0), known.rules)
                .map(|()| account)
        }
    };
    let terms = told.map_err(|why| refused(name, peer, &why))?.terms;
    terms.allow(leg).map_err(|why| breach(name, why))?;
    Ok(terms)
}

/// Counts a pooled client that has a place among its user's already, if its account allows one more.
pub(crate) fn enter(
    worker: &Worker,
    name: &UserName,
    user: &User,
    terms: &Terms,
) -> Result<(), Fault> {
    let others = u64::from(user.clients.used()).saturating_sub(1);
    let standing = user.standing.of(worker.shared.cluster.serving(&worker.plan(), name));
    let hour = &mut lock(&standing.hour);
    let now = crate::worker::clock::now().saturating_duration_since(*START);
    terms.enter(others, hour, now).map_err(|why| breach(name, why))
}

/// Holds a pass-through client to its account. The server has let it in on this connection; it has not been told yet.
pub(crate) async fn pass_through<S: Borrow<Stream>>(
    worker: &Worker,
    at: &Server,
    claim: (&UserName, Option<IpAddr>),
    client: &Stream,
    server: &mut Talk<S>,
    capabilities: Capabilities,
) -> Result<(), Fault> {
    let (name, peer) = claim;
    let own = Own::of(worker, server.stream());
    let places = PeerPlaces::new(peer, own.0);
    let is_lent = namesake::is_lent(client, server.stream());
    // With a PROXY header, the server has seen the client's own address.
    let mut is_own = is_off(worker) || at.sends_header() || places.are_same();
    let cluster = worker.shared.cluster.of(at.id).id;
    if !is_own
        && let Some(told) = accounts::judge(worker, cluster, name, peer, Some(own), |_| true).await
    {
        told.map_err(|why| refused(name, peer, &why))?;
        is_own = true;
    }
    if is_own && !is_lent {
        return Ok(());
    }
    let answer = match worker.shared.proofs.given.get(at.id, name) {
        Some(known) => known,
        None => {
            let limit = worker.plan().limits.connect;
            let ask = tokio::time::timeout(limit, given(at, server, capabilities)).await;
            let asked = ask.unwrap_or_else(|_| Err(NoBackend::Late("limits.connect", limit)));
            match asked {
                // A server that answers a question with nothing has no accounts.
                Ok(None) => return Ok(()),
                Ok(Some(answer)) => worker.shared.proofs.given.remember(at.id, name, answer),
                // It may only change its password.
                Err(_) if is_own => {
                    let is_open = namesake::is_open(worker, at, name).await;
                    return if is_open { Err(namesake::denied(name)) } else { Ok(()) };
                }
                // The server is gone or late: that says nothing of the account.
                Err(why) if why.speaks_against_server() => return Err(why.fault(at)),
                Err(why) => return Err(unknown(name, peer, &why)),
            }
        }
    };
    if is_lent && answer.looks_at_process && namesake::is_open(worker, at, name).await {
        return Err(namesake::denied(name));
    }
    if is_own {
        return Ok(());
    }
    held::by_account(&answer.account, places, answer.rules).map_err(|why| refused(name, peer, &why))
}

/// Why the server has refused a pass-through client on this connection, where that has no certificate to show and the
/// client's account demands one. It is told only to a client that has proved a password of that account.
pub(crate) async fn demand(
    worker: &Worker,
    at: &Server,
    (name, peer): (&UserName, Option<IpAddr>),
    server: &Stream,
    has_proved: impl Fn(&Row) -> bool,
) -> Option<Fault> {
    if is_off(worker) {
        return None;
    }
    let own = if at.sends_header() { Own(peer) } else { Own::of(worker, server) };
    let cluster = worker.shared.cluster.of(at.id).id;
    let told = accounts::judge(worker, cluster, name, peer, Some(own), |_| true).await?;
    let why = told.ok().filter(has_proved)?.terms.allow(Leg::Tls).err()?;
    Some(breach(name, why))
}

/// Asks the server which account it has given. A proxied user's own is the one that it has logged in by.
async fn given<S: Borrow<Stream>>(
    at: &Server,
    server: &mut Talk<S>,
    capabilities: Capabilities,
) -> Result<Option<GivenAccount>, NoBackend> {
    let text = "SELECT HEX(COALESCE(@@proxy_user,CURRENT_USER())),@@skip_name_resolve";
    let question = query(text, capabilities);
    let mut answer = None;
    let taken = each_row(server, capabilities, &question, |row| {
        let account = row.lenenc_bytes("account")?.to_vec();
        answer = Some((account, row.lenenc_bytes("skip_name_resolve")?.to_vec()));
        Ok(true)
    });
    taken.await?;
    let Some((account, skips)) = answer else { return Ok(None) };
    let account = wire::auth::from_hex(&account).and_then(|it| account_of(&it));
    let account = account.ok_or_else(|| LoginError::from(wire::Malformed::new("account")))?;
    let rules = rules_of(at, Some(&skips));
    // Of no use where Flifo's process is not seen.
    let looks_at_process =
        server.stream().addresses().is_none() && is_of_process(server, capabilities).await?;
    Ok(Some(GivenAccount { account, rules, looks_at_process }))
}

/// Whether the account may trust the process at the other end of a Unix socket. One that is not shown may.
async fn is_of_process<S: Borrow<Stream>>(
    server: &mut Talk<S>,
    capabilities: Capabilities,
) -> Result<bool, LoginError> {
    let mut found = None;
    let question = query("SHOW CREATE USER CURRENT_USER()", capabilities);
    let taken = each_row(server, capabilities, &question, |row| {
        let text = Secret::from(row.lenenc_bytes("account")?);
        found = Some(shown::looks_at_process(text.as_bytes()));
        Ok(true)
    });
    match taken.await {
        Ok(_) => Ok(found.unwrap_or(true)),
        Err(LoginError::Refused { .. }) => Ok(true),
        Err(error) => Err(error),
    }
}

/// A statement as a client of these capabilities sends it.
fn query(text: &str, capabilities: Capabilities) -> Vec<u8> {
    let mut query = vec![Opcode::Query as u8];
    if capabilities.has(Capabilities::QUERY_ATTRIBUTES) {
        // No attributes, in one set.
        query.extend_from_slice(&[0, 1]);
    }
    query.extend_from_slice(text.as_bytes());
    query
}

/// Reads `user@host`, or `'user'@'host'`, which a proxied user has.
fn account_of(text: &[u8]) -> Option<Row> {
    let at = text.iter().rposition(|byte| *byte == b'@')?;
    let (user, host) = (&text[..at], &text[at + 1..]);
    let bare = |text: &[u8]| Some(text.strip_prefix(b"'")?.strip_suffix(b"'")?.to_vec());
    let (user, host) = match (bare(user), bare(host)) {
        (Some(user), Some(host)) => (user, host),
        _ => (user.to_vec(), host.to_vec()),
    };
    Some(Row { user, host, terms: Terms::default() })
}

/// What the server says of the account, asked for if that is due. The fault is what a client is told if it cannot be
/// asked, and never has been.
async fn know(
    worker: &Worker,
    cluster: ClusterId,
    name: &UserName,
    user: &User,
) -> Result<Known, Fault> {
    let standing = &user.standing.of(cluster);
    let known = || lock(&standing.known).clone();
    let is_due = |it: &Known| it.until <= crate::worker::clock::read();
    let old = known();
    if let Some(fresh) = old.clone().filter(|it| !is_due(it)) {
        return Ok(fresh);
    }
    let _alone = match (standing.asking.try_lock(), &old) {
        (Ok(alone), _) => alone,
        // Another login asks.
        (Err(_), Some(old)) => return Ok(old.clone()),
        (Err(_), None) => standing.asking.lock().await,
    };
    if let Some(fresh) = known().filter(|it| !is_due(it)) {
        return Ok(fresh);
    }
    let limit = if old.is_some() { PATIENCE } else { worker.plan().limits.login };
    let asked = tokio::time::timeout(limit, ask(worker, cluster, name, user)).await;
    if let Ok(Err(error)) = &asked {
        match cluster == worker.shared.cluster.serving(&worker.plan(), name) {
            true => confirm::see_refusal(worker, name, user, error),
            // There the name is another account's.
            false => user.see_failure(name, error),
        }
    }
    match (asked.unwrap_or(Err(NoBackend::Late("limits.login", limit))), old) {
        (Ok(new), old) => {
            if new.account.is_none() && old.is_none() {
                tracing::warn!(
                    user = %name,
                    "the server does not show this user's account (SHOW CREATE USER): its clients are not held to its \
                     host, nor to REQUIRE"
                );
            }
            *lock(&standing.known) = Some(new.clone());
            Ok(new)
        }
        // It may be busy, or be gone for a while; what it has said holds until it says something else.
        (Err(error), Some(old)) if !is_of_account(&error) => {
            let until = crate::worker::clock::read() + SOON;
            *lock(&standing.known) = Some(Known { until, ..old.clone() });
            Ok(old)
        }
        (Err(error), _) => {
            *lock(&standing.known) = None;
            Err(error.fault(asked_in(worker, cluster)))
        }
    }
}

/// Whether the server says by it what the account is.
fn is_of_account(error: &NoBackend) -> bool {
    error.is_refusal() || matches!(error, NoBackend::NoTerms | NoBackend::NoCredential)
}

fn asked_in(worker: &Worker, cluster: ClusterId) -> &Server {
    worker.shared.cluster.greeter_in(cluster)
}

/// Logs in as the user, as its backends do, and asks what its account is.
async fn ask(
    worker: &Worker,
    cluster: ClusterId,
    name: &UserName,
    user: &User,
) -> Result<Known, NoBackend> {
    let _place = worker.entrance.pass_through_logins.enter_again().await;
    let server = asked_in(worker, cluster);
    let dialer = &worker.shared.cluster.dialer;
    let attempt = async |credential: &Credential| {
        dialer.log_in_as(server, name, credential, dial::POOLED, UTF8MB4).await
    };
    let mut logged_in =
        with_room(&worker.pool, server, async || user.log_in(attempt).await).await?;
    let own = Own::of(worker, logged_in.talk.stream());
    let shown = match logged_in.text("SHOW CREATE USER CURRENT_USER()").await {
        Ok(shown) => shown.map(Secret::from),
        Err(LoginError::Refused { code, .. }) if NOT_KNOWN.contains(&code) => None,
        Err(error) => return Err(error.into()),
    };
    let account = match &shown {
        Some(text) => Some(shown::read(text.as_bytes()).ok_or(NoBackend::NoTerms)?),
        None => None,
    };
    let rules = rules(server, &mut logged_in).await?;
    let bound = |is: fn(&Terms) -> bool| account.as_ref().is_some_and(|it| is(&it.terms));
    match bound(|terms| terms.at_once.is_some()) {
        // This connection counts until the server has ended it.
        true => {
            let _ = tokio::time::timeout(SOON, logged_in.leave()).await;
        }
        false => logged_in.quit().await,
    }
    let is_bounded = bound(|terms| terms.per_hour.is_some());
    let period = worker.plan().server.accounts_period;
    let until = crate::worker::clock::read() + if is_bounded { period.max(SELDOM) } else { period };
    Ok(Known { until, account, rules, own })
}

/// A server that does not know the statement: a syntax error, or not supported.
const NOT_KNOWN: [u16; 3] = [1064, 1149, 1235];

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn host(peer: Option<IpAddr>) -> String {
    peer.map_or_else(|| "localhost".to_owned(), |peer| peer.to_string())
}

fn refused(name: &UserName, peer: Option<IpAddr>, why: &AccountRefusal) -> Fault {
    let message = format!(
        "Access denied for user '{name}'@'{}' by Flifo: {why}. Give the client's host an account; or, if Flifo's own \
         address is to count, set server.account_terms = \"flifo\"",
        host(peer)
    );
    Fault::new(Kind::AccessDenied, message)
}

fn unknown(name: &UserName, peer: Option<IpAddr>, why: &NoBackend) -> Fault {
    let message = format!(
        "Access denied for user '{name}'@'{}' by Flifo: the server does not say which account it has given Flifo ({why}), \
         so that it is not known whether it is for that host. Connect past Flifo, or set server.account_terms = \"flifo\"",
        host(peer)
    );
    Fault::new(Kind::AccessDenied, message)
}

fn breach(name: &UserName, why: Breach) -> Fault {
    let denied = |why: &str| {
        let message = format!("Access denied for user '{name}' by Flifo: {why}");
        Fault::new(Kind::AccessDenied, message)
    };
    let exceeded = |resource: &str, max: &dyn std::fmt::Display| {
        let message =
            format!("User '{name}' has exceeded the '{resource}' resource (current value: {max})");
        Fault::new(Kind::UserLimit, message)
    };
    match why {
        Breach::NeedsTls => {
            denied("its account demands TLS (REQUIRE SSL), which the client does not use")
        }
        Breach::NeedsCertificate => denied(
            "its account demands a certificate or a cipher (REQUIRE X509, SUBJECT, ISSUER, CIPHER), and the server sees \
             Flifo's connection, not the client's; connect past Flifo, or set server.account_terms = \"flifo\"",
        ),
        Breach::AtOnce(max) => exceeded("max_user_connections", &max),
        Breach::PerHour(max) => exceeded("max_connections_per_hour", &max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_read_as_servers_say_it() {
        let read = |text: &str| account_of(text.as_bytes()).map(|it| it.to_string());
        for (text, want) in [
            ("app@%", "'app'@'%'"),
            ("@localhost", "''@'localhost'"),
            ("a@b@10.%", "'a@b'@'10.%'"),
            ("'app'@'%'", "'app'@'%'"),
            ("'it's'@'10.%'", "'it's'@'10.%'"),
            ("'q'@%", "''q''@'%'"),
        ] {
            assert_eq!(read(text).as_deref(), Some(want));
        }
        assert_eq!(read("app"), None);
    }
}
