//! Where a server is that is addressed by name: what its name means now, and what it meant when it was last known.
//!
//! Owns the asking, and what has been answered. Which backends are left behind by a server that has moved is decided by
//! [`crate::upkeep::moves`]. Invariants: the system's resolver waits for as long as it likes, so it is asked on a
//! thread of its own, one at a time for each name, and no attempt to connect waits for it longer than for a connection;
//! a name that cannot be resolved keeps the addresses that it had, and says so.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use backend::{Address, Stream};
use tokio::sync::Notify;

/// The resolver of names: which addresses a name has.
type Resolve = dyn Fn(&str, u16) -> io::Result<Vec<SocketAddr>> + Send + Sync;

/// Where something is that Flifo connects to.
pub(crate) struct Place {
    address: Address,
    /// Only what has a name is asked for.
    name: Option<Arc<Name>>,
}

struct Name {
    host: String,
    port: u16,
    resolve: Box<Resolve>,
    known: Mutex<Known>,
    /// An answer has come.
    heard: Notify,
    /// Counts how often the addresses have become others.
    version: AtomicU32,
}

/// What has been answered.
#[derive(Default)]
struct Known {
    addresses: Vec<SocketAddr>,
    is_asking: bool,
    asked: Option<Instant>,
    looked: Looked,
}

/// What came of asking for a name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Looked {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Why the last answer was none.
    pub(crate) error: Option<String>,
    pub(crate) last: Option<SystemTime>,
}

/// After a connection that failed, a name is not asked for more often than this.
const AGAIN: Duration = Duration::from_secs(1);

impl Place {
    pub(crate) fn new(address: Address) -> Self {
        Self::with(address, Box::new(|host, port| Ok((host, port).to_socket_addrs()?.collect())))
    }

    /// What it was made of.
    pub(crate) const fn address(&self) -> &Address {
        &self.address
    }

    fn with(address: Address, resolve: Box<Resolve>) -> Self {
        let name = match &address {
            Address::Tcp { host, port } if host.parse::<IpAddr>().is_err() => {
                Some(Arc::new(Name {
                    host: host.clone(),
                    port: *port,
                    resolve,
                    known: Mutex::default(),
                    heard: Notify::new(),
                    version: AtomicU32::new(0),
                }))
            }
            _ => None,
        };
        Self { address, name }
    }

    /// Connects. The caller bounds the time.
    pub(crate) async fn dial(&self) -> io::Result<Stream> {
        let Some(name) = &self.name else { return backend::dial::dial(&self.address).await };
        let known = name.addresses().await?;
        let mut doubt = Doubt(Some(name));
        match backend::dial::dial_any(&known).await {
            Ok(stream) => {
                doubt.0 = None;
                Ok(stream)
            }
            Err(error) => {
                // The name may mean something else by now.
                let now = name.asked_again().await;
                let others: Vec<_> = now.into_iter().filter(|it| !known.contains(it)).collect();
                if others.is_empty() {
                    return Err(error);
                }
                backend::dial::dial_any(&others).await
            }
        }
    }

    /// Asks again if that has not been done for so long. The caller does not wait for the answer.
    pub(crate) fn look(&self, every: Duration) {
        let Some(name) = &self.name else { return };
        let is_due = lock(&name.known)
            .asked
            .is_some_and(|asked| crate::worker::clock::since(asked) >= every);
        if is_due {
            name.ask();
        }
    }

    /// Another number than last time: it is somewhere else.
    pub(crate) fn version(&self) -> u32 {
        self.name.as_ref().map_or(0, |name| name.version.load(Relaxed))
    }

    /// Whether a connection to `peer` leads to where this is now.
    pub(crate) fn is_at(&self, peer: SocketAddr) -> bool {
        let Some(name) = &self.name else { return true };
        let known = lock(&name.known);
        known.addresses.is_empty() || known.addresses.contains(&peer)
    }

    /// Of something that has a name: its addresses, and what came of asking for them.
    pub(crate) fn looked(&self) -> Option<(Vec<SocketAddr>, Looked)> {
        let known = lock(&self.name.as_ref()?.known);
        Some((known.addresses.clone(), known.looked.clone()))
    }
}

/// An attempt to connect. If it ends without a connection, even because its caller waits no longer, the name is asked
/// for again.
struct Doubt<'a>(Option<&'a Arc<Name>>);

impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if let Some(name) = self.0 {
            name.ask_unless_just_asked();
        }
    }
}

impl Name {
    /// What it means, as far as is known; asks if nothing is.
    async fn addresses(self: &Arc<Self>) -> io::Result<Vec<SocketAddr>> {
        let before = self.answers();
        {
            let known = lock(&self.known);
            if !known.addresses.is_empty() {
                return Ok(known.addresses.clone());
            }
        }
        self.ask();
        self.answered_after(before).await;
        let known = lock(&self.known);
        match (&*known.addresses, &known.looked.error) {
            ([], Some(why)) => Err(io::Error::other(why.clone())),
            ([], None) => Err(io::Error::other(format!("{:?} has no address", self.host))),
            (addresses, _) => Ok(addresses.to_vec()),
        }
    }

    /// What it means now; if it was asked for a moment ago, what was answered then.
    async fn asked_again(self: &Arc<Self>) -> Vec<SocketAddr> {
        let before = self.answers();
        if self.ask_unless_just_asked() {
            self.answered_after(before).await;
        }
        lock(&self.known).addresses.clone()
    }

    /// Says whether an answer is on its way.
    fn ask_unless_just_asked(self: &Arc<Self>) -> bool {
        let known = lock(&self.known);
        let is_fresh = known.asked.is_some_and(|asked| crate::worker::clock::since(asked) < AGAIN);
        if known.is_asking || is_fresh {
            return known.is_asking;
        }
        drop(known);
        self.ask();
        true
    }

    fn ask(self: &Arc<Self>) {
        let mut known = lock(&self.known);
        if std::mem::replace(&mut known.is_asking, true) {
            return;
        }
        known.asked = Some(crate::worker::clock::read());
        drop(known);
        let name = Arc::clone(self);
        let asks = move || {
            let said = (name.resolve)(&name.host, name.port);
            name.learn(said);
        };
        let builder = std::thread::Builder::new().name("flifo-names".to_owned());
        if let Err(error) = crate::worker::tasks::thread(builder, asks) {
            self.learn(Err(error));
        }
    }

    fn answers(&self) -> u64 {
        let known = lock(&self.known);
        known.looked.passed + known.looked.failed
    }

    async fn answered_after(&self, before: u64) {
        loop {
            let heard = self.heard.notified();
            tokio::pin!(heard);
            // From here on no answer is missed.
            heard.as_mut().enable();
            if self.answers() > before {
                return;
            }
            heard.await;
        }
    }

    fn learn(&self, said: io::Result<Vec<SocketAddr>>) {
        let mut known = lock(&self.known);
        known.is_asking = false;
        known.looked.last = Some(SystemTime::now());
        let said = match said {
            Ok(addresses) if addresses.is_empty() => Err("it has no address".to_owned()),
            Ok(addresses) => Ok(addresses),
            Err(error) => Err(error.to_string()),
        };
        match said {
            Ok(addresses) => self.move_to(&mut known, addresses),
            Err(error) => self.fail(&mut known, &error),
        }
        drop(known);
        self.heard.notify_waiters();
    }

    fn move_to(&self, known: &mut Known, addresses: Vec<SocketAddr>) {
        known.looked.passed += 1;
        known.looked.error = None;
        let has_all =
            |of: &[SocketAddr], these: &[SocketAddr]| these.iter().all(|it| of.contains(it));
        if !has_all(&addresses, &known.addresses) || !has_all(&known.addresses, &addresses) {
            tracing::info!(
                name = self.host,
                from = ?known.addresses,
                "DNS: {:?} now resolves to {}",
                self.host,
                addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
            );
            self.version.fetch_add(1, Relaxed);
        }
        // In any case in the order in which they were told.
        known.addresses = addresses;
    }

    fn fail(&self, known: &mut Known, error: &str) {
        known.looked.failed += 1;
        let what_now = match &*known.addresses {
            [] => "no address is known",
            _ => "the last known address is used",
        };
        let error = format!("{:?} cannot be resolved: {error}; {what_now}", self.host);
        if known.looked.error.as_ref() != Some(&error) {
            tracing::warn!(name = self.host, error, "DNS look-up failed");
            known.looked.error = Some(error);
        }
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// A resolver that says what a test wants, and counts how often it is asked.
    #[derive(Clone)]
    struct NameServer {
        says: Arc<Mutex<Result<Vec<SocketAddr>, &'static str>>>,
        slow: Arc<Mutex<Duration>>,
        asked: Arc<AtomicUsize>,
        at_once: Arc<AtomicUsize>,
    }

    impl NameServer {
        fn of(addresses: &[SocketAddr]) -> Self {
            Self {
                says: Arc::new(Mutex::new(Ok(addresses.to_vec()))),
                slow: Arc::default(),
                asked: Arc::default(),
                at_once: Arc::default(),
            }
        }

        fn place(&self, host: &str) -> Place {
            let names = self.clone();
            let resolve = move |_: &str, _: u16| {
                names.asked.fetch_add(1, Relaxed);
                assert_eq!(names.at_once.fetch_add(1, Relaxed), 0, "one at a time");
                std::thread::sleep(*names.slow.lock().expect("nobody panics"));
                names.at_once.fetch_sub(1, Relaxed);
                names.says.lock().expect("nobody panics").clone().map_err(io::Error::other)
            };
            Place::with(Address::Tcp { host: host.to_owned(), port: 1 }, Box::new(resolve))
        }

        fn says(&self, what: Result<Vec<SocketAddr>, &'static str>) {
            *self.says.lock().expect("nobody panics") = what;
        }

        fn asked(&self) -> usize {
            self.asked.load(Relaxed)
        }
    }

    /// Lets a name be asked for again at once.
    fn forget(place: &Place) {
        let name = place.name.as_ref().expect("it has one");
        lock(&name.known).asked = Instant::now().checked_sub(AGAIN * 2);
    }

    fn somebody() -> (TcpListener, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("an address");
        (listener, address)
    }

    async fn until(is_so: impl Fn() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < Duration::from_secs(10));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    async fn peer(place: &Place) -> io::Result<SocketAddr> {
        place.dial().await.map(|stream| stream.peer_address().expect("by TCP"))
    }

    #[tokio::test]
    async fn addresses_and_sockets_are_never_asked_for() {
        let (_listener, at) = somebody();
        let place = Place::new(Address::Tcp { host: at.ip().to_string(), port: at.port() });
        assert_eq!(peer(&place).await.expect("it listens"), at);
        assert!(place.looked().is_none() && place.version() == 0 && place.is_at(at));
        let nowhere = Place::new(Address::Unix("/nowhere/of.sock".into()));
        assert!(nowhere.dial().await.is_err() && nowhere.looked().is_none());
    }

    #[tokio::test]
    async fn what_is_known_is_not_asked_for_again_before_it_is_due() {
        let (_listener, at) = somebody();
        let names = NameServer::of(&[at]);
        let place = names.place("db");
        place.look(Duration::ZERO);
        assert_eq!(names.asked(), 0, "nobody has wanted it yet");
        for _ in 0..20 {
            assert_eq!(peer(&place).await.expect("it listens"), at);
        }
        place.look(Duration::from_hours(1));
        assert_eq!((names.asked(), place.version()), (1, 1));
        place.look(Duration::ZERO);
        until(|| place.looked().is_some_and(|(_, looked)| looked.passed == 2)).await;
        assert_eq!(place.version(), 1, "it says the same");
    }

    #[tokio::test]
    async fn a_name_that_means_something_else_is_followed() {
        let ((_one, old), (_two, new)) = (somebody(), somebody());
        let names = NameServer::of(&[old]);
        let place = names.place("db");
        assert_eq!(peer(&place).await.expect("it listens"), old);
        names.says(Ok(vec![new, old]));
        place.look(Duration::ZERO);
        until(|| place.version() == 2).await;
        assert!(place.is_at(old) && place.is_at(new));
        // Another order is nothing else.
        names.says(Ok(vec![old, new]));
        place.look(Duration::ZERO);
        until(|| names.asked() == 3).await;
        names.says(Ok(vec![new]));
        until(|| place.looked().is_some_and(|(_, looked)| looked.passed == 3)).await;
        assert_eq!(place.version(), 2);
        place.look(Duration::ZERO);
        until(|| place.version() == 3).await;
        assert!(!place.is_at(old));
        assert_eq!(peer(&place).await.expect("it listens"), new);
    }

    #[tokio::test]
    async fn who_cannot_connect_asks_again_and_goes_on() {
        let ((one, old), (_two, new)) = (somebody(), somebody());
        let names = NameServer::of(&[old]);
        let place = names.place("db");
        assert_eq!(peer(&place).await.expect("it listens"), old);
        drop(one);
        names.says(Ok(vec![new]));
        assert!(peer(&place).await.is_err(), "it was asked for a moment ago");
        assert_eq!(names.asked(), 1);
        forget(&place);
        assert_eq!(peer(&place).await.expect("it listens"), new);
        assert_eq!(names.asked(), 2);
    }

    /// The server neither refuses nor answers: the caller gives up.
    #[tokio::test]
    async fn who_gives_up_has_it_asked_for_again() {
        // A line that is full: the next one gets no answer.
        let full = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let full = full.expect("a socket");
        full.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).expect("a free port");
        full.listen(0).expect("it listens");
        let deaf = full.local_addr().expect("an address").as_socket().expect("by IP");
        let limit = Duration::from_millis(100);
        let mut kept = Vec::new();
        while let Ok(Ok(stream)) =
            tokio::time::timeout(limit, tokio::net::TcpStream::connect(deaf)).await
        {
            kept.push(stream);
            assert!(kept.len() < 100);
        }
        let (_listener, well) = somebody();
        let names = NameServer::of(&[deaf]);
        let place = names.place("db");
        assert!(tokio::time::timeout(limit, place.dial()).await.is_err());
        forget(&place);
        names.says(Ok(vec![well]));
        assert!(tokio::time::timeout(limit, place.dial()).await.is_err());
        until(|| place.version() == 2).await;
        assert_eq!(peer(&place).await.expect("it listens"), well);
    }

    #[tokio::test]
    async fn a_name_that_fails_keeps_what_it_meant_and_says_so() {
        let (_listener, at) = somebody();
        let names = NameServer::of(&[]);
        let place = names.place("db");
        let error = place.dial().await.expect_err("nobody knows it").to_string();
        assert!(
            error.contains("\"db\" cannot be resolved") && error.contains("no address is known")
        );
        names.says(Ok(vec![at]));
        assert_eq!(peer(&place).await.expect("it listens"), at, "nothing known: it is asked for");
        names.says(Err("the name server is gone"));
        place.look(Duration::ZERO);
        until(|| place.looked().is_some_and(|(_, looked)| looked.failed == 2)).await;
        let (addresses, looked) = place.looked().expect("it has a name");
        let why = looked.error.expect("it failed");
        assert!(
            why.contains("server is gone") && why.contains("last known address is used"),
            "{why}"
        );
        assert_eq!((addresses, place.version()), (vec![at], 1));
        assert_eq!(peer(&place).await.expect("it listens"), at);
        names.says(Ok(vec![at]));
        place.look(Duration::ZERO);
        until(|| place.looked().is_some_and(|(_, looked)| looked.error.is_none())).await;
    }

    /// The resolver takes its time: no other task is held up, and it is asked once.
    #[tokio::test]
    async fn a_slow_resolver_holds_nobody_up() {
        let (_listener, at) = somebody();
        let names = NameServer::of(&[at]);
        *names.slow.lock().expect("nobody panics") = Duration::from_millis(400);
        let place = Arc::new(names.place("db"));
        let begun = Instant::now();
        let impatient = tokio::time::timeout(Duration::from_millis(50), place.dial()).await;
        assert!(impatient.is_err() && begun.elapsed() < Duration::from_millis(300));
        let all: Vec<_> = (0..50)
            .map(|_| {
                let place = Arc::clone(&place);
                tokio::spawn(async move { peer(&place).await })
            })
            .collect();
        for one in all {
            assert_eq!(one.await.expect("nobody panics").expect("it listens"), at);
        }
        assert_eq!(names.asked(), 1);
        // Known once, it is used at once while it is asked for again.
        place.look(Duration::ZERO);
        let begun = Instant::now();
        assert_eq!(peer(&place).await.expect("it listens"), at);
        assert!(begun.elapsed() < Duration::from_millis(300));
    }
}
