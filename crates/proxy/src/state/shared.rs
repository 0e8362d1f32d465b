//! What all workers of the process have in common, and what they tell each other.

use std::fmt;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use engine::account::guessing::Guesses;
use engine::account::name::UserName;
use engine::descriptors::Descriptors;
use engine::kill::FIRST_CLIENT_ID;
use engine::schemas::Alterations;
use engine::statement::rules::Rules;
use tokio::sync::{mpsc, oneshot};

use crate::cluster::Cluster;
use crate::cluster::binlog::Followers;
use crate::cluster::post::{News, Post};
use crate::cluster::servers::{ServerId, Site};
use crate::config::{Live, Plan};
use crate::mirror::Mirrors;
use crate::placement::board::Board;
use crate::pool::keys::{KeyId, Numbers};
use crate::pool::parcel;
use crate::records::Records;
use crate::state::kept_replies::CachesOn;
use crate::state::neighbours::Neighbours;
use crate::state::orders;
use crate::state::predecessor::Former;
use crate::state::worker::Worker;
use crate::users::Users;
use crate::users::accounts::Accounts;
use crate::users::bequeathed::Bequeathed;
use crate::users::given::Given;
use crate::users::rights::Rights;
use crate::users::rsa::RsaKey;
use crate::users::sight::Hidden;
use crate::users::tls::Tls;
use crate::worker::listening::Listening;

/// What all workers of the process have in common.
pub(crate) struct Shared {
    pub(crate) live: Arc<Live>,
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) changes: Changes,
    /// Clients connected, logged in or not.
    pub(crate) clients: AtomicUsize,
    pub(crate) placement: Arc<Board>,
    /// Sockets that are listened on.
    pub(crate) listening: Listening,
    pub(crate) proofs: UserProofs,
    pub(crate) succession: Succession,
    /// The slow log and the audit log.
    pub(crate) records: Records,
    /// Where copies of statements run.
    pub(crate) mirrors: Mirrors,
    rules: RwLock<Arc<Rules>>,
    stopping: AtomicBool,
    mailboxes: Vec<mpsc::UnboundedSender<Mail>>,
    loads: Vec<AtomicU32>,
}

/// What is known of changes at the servers that were not made here.
#[derive(Default)]
pub(crate) struct Changes {
    /// Of servers' binary logs.
    pub(crate) followers: Followers,
    /// Ends of statements after which a schema may be gone.
    pub(crate) alterations: Alterations,
    /// How many workers follow which tables are written.
    pub(crate) caches_on: CachesOn,
    /// Views and triggers that do what no server reports.
    pub(crate) hidden: Hidden,
}

/// Users, and how they prove that they are.
pub(crate) struct UserProofs {
    pub(crate) users: Users,
    /// What the Flifo before this one knew of their passwords.
    pub(crate) bequeathed: Bequeathed,
    pub(crate) accounts: Accounts,
    pub(crate) given: Given,
    /// When rights have changed, and until when that is known.
    pub(crate) rights: Arc<Rights>,
    /// Wrong passwords.
    pub(crate) guesses: Mutex<Guesses>,
    /// The numbers of the keys of backends, the same in all workers.
    pub(crate) key_numbers: Arc<Numbers>,
    tls: RwLock<Arc<Tls>>,
    pub(crate) rsa: RsaKey,
}

/// The Flifos before and after this one.
#[derive(Default)]
pub(crate) struct Succession {
    /// How many have handed over before this one.
    pub(crate) generation: u32,
    /// Those that this one talks to.
    pub(crate) neighbours: Neighbours,
    pub(crate) predecessor: Former,
    departing: AtomicBool,
    arriving: AtomicBool,
}

/// What workers tell each other.
#[derive(Debug)]
pub(crate) enum Mail {
    /// A slot was given back that a statement here may wait for.
    SlotFree(ServerId),
    /// A backend was closed whose place a client here may wait for.
    BackendFree(ServerId),
    /// A client of another worker waits for a place under the cap on backends: of this server, or of this user.
    BackendWanted(ServerId),
    BackendOfUserWanted(UserName),
    /// A backend is wanted for which there is no room: one that is idle here is closed. The answer is whether there was
    /// one.
    GiveUpIdle(ServerId, oneshot::Sender<bool>),
    /// Clients here lack backends: those that others keep for their diagnostics only go back.
    ReclaimIdle(ServerId),
    /// A backend is to be opened here, whose places are taken.
    OpenBackend(ServerId, KeyId),
    /// A backend that comes from another worker.
    Backend(Box<parcel::Parcel>),
    /// A client asks to kill another one, which is here.
    Kill(orders::KillOrder),
    /// A client of this worker need not wait any longer for what another backend knows.
    Resume(u32),
    /// The answer to such an order.
    Killed(orders::KillAnswer),
    /// A job that another thread has for this worker.
    Do(Job),
    /// Something has changed with servers.
    News(News),
    /// No new statements: clients are ended as soon as they may send.
    Stop,
    /// Everything ends now.
    Abort,
}

/// What is done on a worker's thread in an iteration of its loop.
pub(crate) struct Job(Box<Work>);

type Work = dyn FnOnce(&Rc<Worker>) + Send;

impl Job {
    pub(crate) fn run(self, worker: &Rc<Worker>) {
        (self.0)(worker);
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}

impl Shared {
    pub(crate) fn new(
        live: Arc<Live>,
        sites: Vec<Site>,
        users: Users,
        tls: Tls,
        descriptors: Descriptors,
        records: Records,
        mailboxes: Vec<mpsc::UnboundedSender<Mail>>,
    ) -> Self {
        let workers = mailboxes.len();
        let boxes = mailboxes.clone();
        let post = Post::new(workers, move |worker, news| {
            // A worker that is gone needs no mail.
            let _ = boxes[worker].send(Mail::News(news));
        });
        let rules = ready_rules(&live.get(), None);
        let cluster = Arc::new(Cluster::new(&live, sites, descriptors, workers, post));
        let mirrors = Mirrors::new(Arc::clone(&cluster));
        mirrors.adopt(None, &rules);
        Self {
            live,
            cluster,
            changes: Changes::default(),
            clients: AtomicUsize::new(0),
            placement: Arc::default(),
            listening: Listening::default(),
            proofs: UserProofs {
                users,
                bequeathed: Bequeathed::default(),
                accounts: Accounts::default(),
                given: Given::default(),
                rights: Arc::default(),
                guesses: Mutex::default(),
                key_numbers: Arc::default(),
                tls: RwLock::new(Arc::new(tls)),
                rsa: RsaKey::default(),
            },
            succession: Succession::default(),
            records,
            mirrors,
            rules: RwLock::new(Arc::new(rules)),
            stopping: AtomicBool::new(false),
            loads: (0..workers).map(|_| AtomicU32::new(0)).collect(),
            mailboxes,
        }
    }

    /// Has binary logs followed, if the plan in force says so.
    pub(crate) fn follow(self: &Arc<Self>) {
        self.changes.followers.attend(&self.cluster, || {
            let shared = Arc::downgrade(self);
            Arc::new(move || {
                if let Some(shared) = shared.upgrade() {
                    shared.changes.alterations.add();
                }
            })
        });
    }

    /// So many Flifos have handed over before this one.
    pub(crate) fn of_generation(self, generation: u32) -> Self {
        let arriving = AtomicBool::new(generation > 0);
        let succession = Succession { generation, arriving, ..self.succession };
        Self { succession, ..self }
    }

    /// What is in force.
    pub(crate) fn plan(&self) -> Arc<Plan> {
        self.live.get()
    }

    /// The rules that are in force.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        Arc::clone(&self.rules.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Rules of this plan are in force; each worker hears of it.
    pub(crate) fn rule(&self, plan: &Plan) {
        let before = self.rules();
        let rules = ready_rules(plan, Some(&before));
        self.mirrors.adopt(Some(&before), &rules);
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(rules);
    }

    /// What clients are offered that connect now.
    pub(crate) fn tls(&self) -> Arc<Tls> {
        Arc::clone(&self.proofs.tls.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn offer(&self, tls: Tls) {
        *self.proofs.tls.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(tls);
    }

    pub(crate) fn mail(&self, worker: usize, mail: Mail) {
        // A worker that is gone needs no mail.
        let _ = self.mailboxes[worker].send(mail);
    }

    /// Has this done on a worker's thread. Its answer comes when the worker has time for it, and never if it is gone.
    pub(crate) fn ask<R: Send + 'static>(
        &self,
        worker: usize,
        job: impl FnOnce(&Rc<Worker>) -> R + Send + 'static,
    ) -> oneshot::Receiver<R> {
        let (tell, answer) = oneshot::channel();
        self.have_done(worker, move |worker| {
            // The answer may not be awaited any longer.
            let _ = tell.send(job(worker));
        });
        answer
    }

    /// Has this done on a worker's thread.
    pub(crate) fn have_done(&self, worker: usize, job: impl FnOnce(&Rc<Worker>) + Send + 'static) {
        self.mail(worker, Mail::Do(Job(Box::new(job))));
    }

    pub(crate) fn worker_count(&self) -> usize {
        self.mailboxes.len()
    }

    pub(crate) fn mail_all(&self, mail: impl Fn() -> Mail) {
        for worker in 0..self.mailboxes.len() {
            self.mail(worker, mail());
        }
    }

    /// The worker that a client of this id belongs to.
    pub(crate) fn home_of(&self, client: u32) -> usize {
        (client.saturating_sub(FIRST_CLIENT_ID) as usize) % self.mailboxes.len()
    }

    /// Asks the other workers for something.
    pub(crate) fn mail_others(&self, worker: usize, mail: impl Fn() -> Mail) {
        for other in (0..self.mailboxes.len()).filter(|other| *other != worker) {
            self.mail(other, mail());
        }
    }

    /// The less loaded of two workers, drawn by chance.
    pub(crate) fn choose_worker(&self) -> usize {
        let workers = self.loads.len();
        if workers == 1 {
            return 0;
        }
        let draw = sys::random::number() as usize;
        let one = draw % workers;
        let two = (one + 1 + (draw >> 16) % (workers - 1)) % workers;
        let load = |worker: usize| self.loads[worker].load(Ordering::Relaxed);
        if load(two) < load(one) { two } else { one }
    }

    pub(crate) fn add_load(&self, worker: usize) {
        self.loads[worker].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn drop_load(&self, worker: usize) {
        self.loads[worker].fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
        self.mail_all(|| Mail::Stop);
    }

    /// Another Flifo takes over, or does so no longer.
    pub(crate) fn depart(&self, is_departing: bool) {
        self.succession.departing.store(is_departing, Ordering::Relaxed);
    }

    /// Whether another Flifo takes over.
    pub(crate) fn is_departing(&self) -> bool {
        self.succession.departing.load(Ordering::Relaxed)
    }

    /// Clients come from the Flifo before, or none does any more.
    pub(crate) fn arrive(&self, is_arriving: bool) {
        self.succession.arriving.store(is_arriving, Ordering::Release);
    }

    pub(crate) fn is_arriving(&self) -> bool {
        self.succession.arriving.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// The rules of a plan, whose check has made them ready before.
fn ready_rules(plan: &Plan, earlier: Option<&Rules>) -> Rules {
    let now = crate::worker::clock::now();
    Rules::new(&plan.rules, earlier, now).unwrap_or_else(|error| {
        tracing::error!(error, "rules are not in force");
        Rules::none(now)
    })
}
