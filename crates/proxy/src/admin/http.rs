//! The HTTP port: what may be asked, by which clients, and within which bounds.
//!
//! Only reads; nothing can be changed here. Invariants: a connection lives for [`LIFE`] at most, a head has
//! [`HEAD_MAX`] bytes, a request has no body that is read; so many connections and no more. An idle connection keeps no
//! other out; where all are in the middle of an answer, one that comes is served for one question after health.

mod busy;

use std::convert::Infallible;
use std::io;
use std::rc::Rc;
use std::time::{Duration, Instant};

use engine::visits::VisitOrigin;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::rt::{TokioIo, TokioTimer};
use subtle::ConstantTimeEq;
use tokio::io::{AsyncRead, AsyncWrite};
use view::sql::{Query, Session};
use wire::auth::{Secret, base64};

use self::busy::{Guarded, Watched};
use super::Outside;
use super::catalog::{self, Rights};
use super::tables::{SHOWN, Shown};
use super::visits::{Gone, Visit};
use crate::cluster::facts::Standing;
use crate::frontend::listener::Listener;
use crate::upkeep::report::Want;
use crate::worker::panics::{self, LastPanic};
use crate::worker::steps::step;

/// Connections at once. For one more, an idle one is closed.
pub(super) const CONNECTIONS_MAX: usize = 64;

/// Connections beyond, where all others are in the middle of an answer. Answers to these are short: none gets stuck.
pub(super) const SPARE_MAX: usize = 64;

/// How long a connection may last, whatever it does.
const LIFE: Duration = Duration::from_mins(1);

/// How long a request's head may take to come, also the next one on the same connection.
const HEAD_WAIT: Duration = Duration::from_secs(10);

/// Bytes of a request's head, and fields in it.
const HEAD_MAX: usize = 16 << 10;
const FIELDS_MAX: usize = 64;

/// How long the server may take to greet, when Flifo does not know whether it still does.
const GREETING: Duration = Duration::from_secs(2);

/// So often it is asked at most.
const ASK_AGAIN: Duration = Duration::from_secs(1);

type Answer = Response<Full<Bytes>>;

/// Accepts connections for as long as the process lives.
pub(super) async fn serve(outside: Rc<Outside>, listener: Listener) -> io::Result<()> {
    match listener {
        Listener::Tcp(listener) => {
            let listener = tokio::net::TcpListener::from_std(listener)?;
            loop {
                match listener.accept().await {
                    Ok((stream, peer)) => begin(&outside, stream, peer.ip().into()),
                    Err(error) => super::pause(&error).await,
                }
                // A client that has come speaks first; else a crowd would take the places of clients that have not been
                // heard.
                tokio::task::yield_now().await;
            }
        }
        Listener::Unix(listener, _) => {
            let listener = tokio::net::UnixListener::from_std(listener)?;
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => begin(&outside, stream, VisitOrigin::Socket),
                    Err(error) => super::pause(&error).await,
                }
                tokio::task::yield_now().await;
            }
        }
    }
}

/// What may be asked on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    /// One question after `/health` or `/ready`.
    Health,
}

fn begin<S>(outside: &Rc<Outside>, stream: S, origin: VisitOrigin)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let taken = outside.requests.enter(origin).map(|(visit, gone)| (visit, gone, Scope::All));
    let spare = || outside.spare.enter(origin).map(|(visit, gone)| (visit, gone, Scope::Health));
    let Some((visit, gone, scope)) = taken.or_else(spare) else { return };
    let comes = (origin, visit, gone);
    crate::worker::tasks::contained(serve_one(Rc::clone(outside), stream, comes, scope));
}

async fn serve_one<S>(
    outside: Rc<Outside>,
    stream: S,
    (origin, visit, gone): (VisitOrigin, Visit, Gone),
    scope: Scope,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let visit = Rc::new(visit);
    let service = service_fn(|request| {
        let (outside, visit) = (Rc::clone(&outside), Rc::clone(&visit));
        async move {
            if has_wrong_token(&outside, &request) {
                // As long as that its connection makes room for others.
                outside.wrong_tokens.delay(origin).await;
            }
            let answering = visit.answer();
            let answer = answer(&outside, &request, scope).await;
            Ok::<_, Infallible>(answer.map(|body| Guarded::new(body, answering)))
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT)
        .max_buf_size(HEAD_MAX)
        .max_headers(FIELDS_MAX)
        .half_close(false)
        .keep_alive(scope == Scope::All)
        .serve_connection(TokioIo::new(Watched::new(stream, Rc::clone(&visit))), service);
    tokio::select! {
        biased;
        _ = gone => {}
        // Whatever goes wrong with a connection is its client's affair.
        _ = tokio::time::timeout(LIFE, connection) => {}
    }
}

async fn answer(outside: &Outside, request: &Request<Incoming>, scope: Scope) -> Answer {
    step!("http");
    if !has_its_host(request.version(), request.headers()) {
        return plain(StatusCode::BAD_REQUEST, "a request needs one Host\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD\n");
        refusal.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    let path = request.uri().path();
    match path {
        "/health" => return health(outside).await,
        "/ready" => return ready(outside).await,
        _ => {}
    }
    if scope == Scope::Health {
        let why = "all connections are in the middle of an answer; try again\n";
        return plain(StatusCode::SERVICE_UNAVAILABLE, why);
    }
    let plan = outside.shared.plan();
    if let Some(refusal) = refuse(plan.http.token.as_ref(), request.uri(), request.headers()) {
        return refusal;
    }
    match path {
        "/metrics" => {
            let surveyed = outside.survey.ask(&outside.shared, Want::default()).await;
            typed("text/plain; version=0.0.4; charset=utf-8", outside.metrics(&surveyed))
        }
        "/stats;csv" | "/stats;csv;norefresh" | "/stats.csv" => {
            let surveyed = outside.survey.ask(&outside.shared, Want::default()).await;
            typed("text/plain; charset=utf-8", outside.stats(&surveyed))
        }
        "/api" | "/api/" => {
            let names: Vec<_> = SHOWN.iter().map(|shown| shown.name).collect();
            typed(JSON, serde_json::json!(names).to_string())
        }
        "/" => typed("text/plain; charset=utf-8", INDEX.to_owned()),
        _ => match path.strip_prefix("/api/") {
            Some(name) => api(outside, name, request.uri().query()).await,
            None => plain(StatusCode::NOT_FOUND, INDEX),
        },
    }
}

const JSON: &str = "application/json";

const INDEX: &str = "/metrics      for Prometheus\n\
    /stats;csv    as HAProxy has it\n\
    /api          names of tables; /api/NAME is one, as JSON; ?where=CONDITION narrows it down\n\
    /health       whether Flifo's workers answer\n\
    /ready        whether statements can be served\n";

/// A table, or those of its rows of which the condition behind `where=` is true.
async fn api(outside: &Outside, name: &str, query: Option<&str>) -> Answer {
    if Shown::named(name).is_none() {
        return plain(StatusCode::NOT_FOUND, "no such table; /api lists them\n");
    }
    let condition = query.and_then(|query| query.strip_prefix("where=")).map(decode);
    let session = Session::default();
    let query = Query::of_table(name, condition.as_deref());
    let requested = &outside.requested;
    let answer = async {
        let answer = catalog::answer(outside, &session, Rights::Look, query?, requested).await?;
        // A table of many clients is much text.
        requested.ask(move || answer.to_json().to_string()).await
    };
    match answer.await {
        Ok(json) => typed(JSON, json),
        Err(error) => {
            let status = match error.code {
                1040 => StatusCode::SERVICE_UNAVAILABLE,
                1105 => StatusCode::INTERNAL_SERVER_ERROR,
                _ => StatusCode::BAD_REQUEST,
            };
            plain(status, &format!("{}\n", error.message))
        }
    }
}

/// Undoes what a browser does to a query.
fn decode(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes().iter();
    while let Some(&byte) = rest.next() {
        let digits = rest.as_slice().first_chunk::<2>();
        let hex = digits.and_then(|it| std::str::from_utf8(it).ok());
        match (byte, hex.and_then(|it| u8::from_str_radix(it, 16).ok())) {
            (b'%', Some(value)) => {
                out.push(value);
                rest.nth(1);
            }
            (b'+', _) => out.push(b' '),
            _ => out.push(byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// Whether the workers answer. A supervisor that restarts Flifo asks this.
async fn health(outside: &Outside) -> Answer {
    let surveyed = outside.survey.ask(&outside.shared, Want::default()).await;
    if surveyed.missing.is_empty() {
        return plain(StatusCode::OK, &well(panics::count(), panics::last()));
    }
    let missing = format!("workers that do not answer: {:?}\n", surveyed.missing);
    plain(StatusCode::SERVICE_UNAVAILABLE, &missing)
}

/// What is told where all workers answer. Panics have ended some clients; the others are served.
fn well(panics: u64, last: Option<LastPanic>) -> String {
    let Some(LastPanic { place, at }) = last else { return "ok\n".to_owned() };
    let ago = at.elapsed().unwrap_or_default().as_secs();
    let clients = "the clients that they were about have ended, others go on";
    format!(
        "ok, but there were panics: {panics}, the last {ago} s ago at {place}; {clients}; the log has them as ERROR\n"
    )
}

/// Whether statements can be served. A load balancer that sends clients to Flifo asks this.
async fn ready(outside: &Outside) -> Answer {
    let shared = &outside.shared;
    let no = |why: String| plain(StatusCode::SERVICE_UNAVAILABLE, &format!("{why}\n"));
    if shared.is_stopping() {
        return no("Flifo is stopping".to_owned());
    }
    if !shared.cluster.is_ready() {
        outside.look_again().await;
    }
    match shared.cluster.is_ready() {
        true => plain(StatusCode::OK, "ok\n"),
        false => no(shared.cluster.states()),
    }
}

impl Outside {
    /// Connects to the server while it is not known to be usable. Otherwise a server that was down once would get no
    /// clients for that reason, and would never be found up again.
    async fn look_again(&self) {
        if self.shared.cluster.is_routed() {
            // Several servers are looked at anyway.
            return;
        }
        let mut looked = self.looked.lock().await;
        if looked.is_some_and(|at: Instant| crate::worker::clock::since(at) < ASK_AGAIN) {
            return;
        }
        *looked = Some(crate::worker::clock::read());
        for server in self.shared.cluster.servers.iter() {
            if server.facts.standing() != Standing::Up {
                continue;
            }
            let greet = async {
                let stream = server.place.dial().await.map_err(|it| it.to_string())?;
                backend::login::greet(stream).await.map_err(|error| error.to_string())
            };
            let greeted = match tokio::time::timeout(GREETING, greet).await {
                Ok(greeted) => greeted.map(|_| ()),
                Err(_) => Err(format!("no greeting within {} s", GREETING.as_secs())),
            };
            server.facts.see(&greeted);
        }
    }
}

/// Whether a request names as many hosts as its version of the protocol demands.
fn has_its_host(version: Version, fields: &HeaderMap) -> bool {
    let hosts = fields.get_all(header::HOST).iter().count();
    hosts == 1 || hosts == 0 && version < Version::HTTP_11
}

/// Whether a request has a token, and a wrong one. One without is a browser's first.
fn has_wrong_token(outside: &Outside, request: &Request<Incoming>) -> bool {
    let has_one = request.headers().contains_key(header::AUTHORIZATION);
    let plan = outside.shared.plan();
    let token = plan.http.token.as_ref();
    has_one && token.is_some() && refuse(token, request.uri(), request.headers()).is_some()
}

/// Why a request is not answered, if it is not.
fn refuse(token: Option<&Secret>, uri: &Uri, fields: &HeaderMap) -> Option<Answer> {
    let Some(token) = token else {
        // A page on the internet could have a browser of this machine ask, under a name of its own for 127.0.0.1.
        let mut hosts = fields.get_all(header::HOST).iter();
        let is_own = hosts.all(|host| host.to_str().is_ok_and(is_own_name))
            && uri.authority().is_none_or(|it| is_own_name(it.as_str()));
        let refusal = "without a token (http.token), ask by address or as localhost\n";
        return (!is_own).then(|| plain(StatusCode::FORBIDDEN, refusal));
    };
    let given =
        fields.get(header::AUTHORIZATION).and_then(|it| it.to_str().ok()).unwrap_or_default();
    let given = match given.split_once(' ') {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("bearer") => {
            rest.trim().as_bytes().to_vec()
        }
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("basic") => {
            let pair =
                base64::decode(rest.trim().trim_end_matches('=').as_bytes()).unwrap_or_default();
            let colon = pair.iter().position(|byte| *byte == b':').map_or(pair.len(), |at| at + 1);
            pair[colon..].to_vec()
        }
        _ => Vec::new(),
    };
    if bool::from(given.ct_eq(token.as_bytes())) {
        return None;
    }
    let mut refusal = plain(StatusCode::UNAUTHORIZED, "a token is needed (http.token)\n");
    let challenge = HeaderValue::from_static("Basic realm=\"flifo\"");
    refusal.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    Some(refusal)
}

/// Whether a `Host` is an address, or this machine's own name for itself.
fn is_own_name(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    name.is_empty() || name == "localhost" || name.parse::<std::net::IpAddr>().is_ok()
}

fn plain(status: StatusCode, text: &str) -> Answer {
    let mut answer = typed("text/plain; charset=utf-8", text.to_owned());
    *answer.status_mut() = status;
    answer
}

fn typed(kind: &'static str, body: String) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from(body)));
    let fields = answer.headers_mut();
    fields.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    fields.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    fields.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn only_the_token_opens() {
        let token = Secret::from("secret");
        let refused = |value: &str| {
            refuse(Some(&token), &Uri::default(), &fields(header::AUTHORIZATION, value)).is_some()
        };
        assert!(!refused("Bearer secret") && !refused("bearer  secret"));
        // "any:secret"
        assert!(!refused("Basic YW55OnNlY3JldA=="));
        for wrong in
            ["", "Bearer", "Bearer ", "Bearer secre", "Bearer secrets", "Basic secret", "Basic !"]
        {
            assert!(refused(wrong), "{wrong:?}");
        }
        assert!(refuse(Some(&token), &Uri::default(), &HeaderMap::new()).is_some());
    }

    #[test]
    fn without_a_token_names_of_the_internet_are_refused() {
        let asked = |uri: &str, host: &[u8]| {
            let host = HeaderValue::from_bytes(host).unwrap();
            let fields = HeaderMap::from_iter([(header::HOST, host)]);
            refuse(None, &uri.parse().unwrap(), &fields).is_some()
        };
        let refused = |host: &str| asked("/metrics", host.as_bytes());
        for host in ["localhost:6034", "127.0.0.1:6034", "[::1]:6034", "[::1]", "127.0.0.1", ""] {
            assert!(!refused(host), "{host}");
        }
        assert!(refused("evil.example:6034") && refused("localhost.evil.example"));
        assert!(asked("/metrics", b"\xe9vil.example"), "no text");
        assert!(asked("http://evil.example/metrics", b"localhost"));
        assert!(asked("http://localhost@evil.example/metrics", b"localhost"));
        assert!(!asked("http://127.0.0.1:6034/metrics", b"localhost"));
    }

    #[test]
    fn a_request_names_one_host() {
        let mut two = fields(header::HOST, "a");
        two.append(header::HOST, HeaderValue::from_static("b"));
        let (none, one) = (HeaderMap::new(), fields(header::HOST, "a"));
        for (version, all, want) in [
            (Version::HTTP_10, &none, true),
            (Version::HTTP_10, &one, true),
            (Version::HTTP_10, &two, false),
            (Version::HTTP_11, &none, false),
            (Version::HTTP_11, &one, true),
            (Version::HTTP_11, &two, false),
        ] {
            assert_eq!(has_its_host(version, all), want, "{version:?} {all:?}");
        }
    }

    #[test]
    fn queries_are_decoded() {
        assert_eq!(decode("user%20=+'a%25'"), "user = 'a%'");
        assert_eq!(decode("%"), "%");
        assert_eq!(decode("%zz%4"), "%zz%4");
        assert_eq!(decode("%ff"), "\u{fffd}");
    }
}
