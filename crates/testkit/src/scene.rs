//! Flifo between a fake server and fake clients, with one witness: a client that behaves well all the while, and to
//! whom nothing may happen.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::fake_client::{Answer, FakeClient, Refusal};
use crate::fake_server::{Brand, FakeServer};
use crate::flifo::Flifo;

/// The user whom Flifo knows; its password is [`PASSWORD`].
pub const USER: &str = "app";
pub const PASSWORD: &str = "secret";

/// Flifo and what is behind it.
pub struct Scene {
    pub server: FakeServer,
    pub flifo: Flifo,
    witness: Option<Witness>,
    /// Descriptors and memory of Flifo when the scene began.
    descriptors: usize,
    memory: u64,
}

/// Nothing that is waited for takes longer.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// More memory than this a scene may not cost Flifo, whatever is sent.
pub const MEMORY_MAX: u64 = 64 << 20;

impl Scene {
    /// Flifo knows [`USER`], whose clients share backends. `rest` is more of the configuration, from `[server]` on.
    pub fn pooled(rest: &str) -> Self {
        Self::start(Brand::MariaDb, "workers = 1", &format!("{rest}\n{}", user("")))
    }

    /// The same in front of a MySQL.
    pub fn pooled_mysql(rest: &str) -> Self {
        Self::start(Brand::MySql, "workers = 1", &format!("{rest}\n{}", user("")))
    }

    /// Flifo has no configured users: each client has a backend of its own.
    pub fn pass_through(rest: &str) -> Self {
        Self::start(Brand::MariaDb, "workers = 1", rest)
    }

    /// `top` is what stands at the top of the configuration, `rest` the rest from inside of `[server]` on.
    pub fn start(brand: Brand, top: &str, rest: &str) -> Self {
        Self::start_before(FakeServer::start_as(brand), top, rest)
    }

    /// The same in front of this server.
    pub fn start_before(server: FakeServer, top: &str, rest: &str) -> Self {
        let flifo = Flifo::start(&configuration(server.port(), top, rest));
        let mut scene = Self { server, flifo, witness: None, descriptors: 0, memory: 0 };
        // Workers and backends are warm when counting begins.
        let mut first = scene.client();
        first.query("SELECT warm").expect("an answer");
        drop(first);
        scene.settle();
        scene.memory = scene.flifo.memory();
        scene
    }

    /// Has the witness work from now until [`Self::end`].
    pub fn witnessed(mut self) -> Self {
        self.witness = Some(Witness::start(self.client()));
        self
    }

    pub fn client(&self) -> FakeClient {
        self.try_client().expect("a login")
    }

    pub fn try_client(&self) -> Result<FakeClient, Refusal> {
        FakeClient::login(self.flifo.port(), USER, PASSWORD)
    }

    /// A new client asks, and gets what it should.
    ///
    /// # Panics
    /// If not.
    pub fn works(&self) {
        assert_eq!(self.client().query("SELECT it works"), row("it works"));
    }

    /// Ends the scene: no other client was disturbed, nothing panicked, nothing is left open or in memory.
    ///
    /// # Panics
    /// If one of this is not so.
    pub fn end(self) {
        self.end_with_backends(2);
    }

    /// Ends the scene, with so many backends left open that were not there when it began.
    pub fn end_with_backends(self, backends: usize) {
        self.finish(backends);
    }

    /// Ends the scene, and gives Flifo's log, which ends with what it has counted.
    pub fn end_with_log(self) -> String {
        self.finish(2)
    }

    fn finish(mut self, backends: usize) -> String {
        if let Some(witness) = self.witness.take() {
            witness.end();
        }
        self.works();
        let grown = self.flifo.memory().saturating_sub(self.memory);
        assert!(grown < MEMORY_MAX, "{} MiB more than at the start", grown >> 20);
        let want = self.descriptors + backends;
        wait_for("descriptors to be given back", || self.flifo.descriptors() <= want);
        let (status, log) = self.flifo.stop();
        assert!(status.success() && !log.contains("panicked"), "{log}");
        log
    }

    /// Waits until clients that left are gone, and takes that as the start.
    fn settle(&mut self) {
        let counts = || (self.flifo.descriptors(), self.server.open());
        let mut last = counts();
        let mut since = Instant::now();
        while since.elapsed() < Duration::from_millis(100) {
            thread::sleep(Duration::from_millis(5));
            let now = counts();
            if now != last {
                (last, since) = (now, Instant::now());
            }
        }
        self.descriptors = last.0;
    }
}

/// The configuration in front of a server on this port.
pub fn configuration(port: u16, top: &str, rest: &str) -> String {
    // A fake server has no accounts, and counts its connections.
    let checks = if top.contains("[checks]") { "" } else { "checks.kind = \"none\"\n" };
    format!(
        "{checks}{top}\n[server]\naddress = \"127.0.0.1:{port}\"\naccount_terms = \"flifo\"\n\
         read_definitions = \"off\"\n{rest}"
    )
}

/// [`USER`] as the configuration names it, with these bounds.
pub fn user(bounds: &str) -> String {
    format!("[[users]]\nname = \"{USER}\"\npassword = \"{PASSWORD}\"\n{bounds}\n")
}

/// The answer that is this one row.
pub fn row(text: &str) -> Answer {
    Ok(vec![text.as_bytes().to_vec()])
}

/// Waits until something is so.
///
/// # Panics
/// If it is not in time.
pub fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

/// A client that asks and is answered, over and over.
struct Witness {
    stop: Arc<AtomicBool>,
    answered: Arc<AtomicU32>,
    task: JoinHandle<()>,
}

impl Witness {
    fn start(mut client: FakeClient) -> Self {
        let (stop, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
        let (stopped, counter) = (Arc::clone(&stop), Arc::clone(&answered));
        let task = thread::spawn(move || {
            while !stopped.load(Relaxed) {
                let number = counter.load(Relaxed).to_string();
                let begun = Instant::now();
                assert_eq!(client.query(&format!("SELECT {number}")), row(&number));
                let took = begun.elapsed();
                assert!(took < Duration::from_secs(5), "the witness waited {took:?}");
                counter.fetch_add(1, Relaxed);
                thread::sleep(Duration::from_millis(2));
            }
        });
        Self { stop, answered, task }
    }

    fn end(self) {
        let before = self.answered.load(Relaxed);
        // It is alive to the end.
        wait_for("the witness", || self.answered.load(Relaxed) > before || self.task.is_finished());
        self.stop.store(true, Relaxed);
        if let Err(cause) = self.task.join() {
            std::panic::resume_unwind(cause);
        }
    }
}
