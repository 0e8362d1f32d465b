//! One world: its clients, the process, the server, and what happens to them; all of it by a seed.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use backend::address::Address;
use backend::stream::memory::{self, Memory};
use proxy::simulation::Process;
use testkit::differ::compare::{self, Difference};
use testkit::differ::peer::{self, Dial, Door, Outcome, Peer};
use testkit::differ::program::{Action, Program, Step};
use testkit::differ::run::Trace;
use tokio::runtime::{Builder, Handle, LocalOptions, LocalRuntime};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::Instant;
use wire::auth::Plugin;

use crate::configuration;
use crate::dice::Dice;
use crate::judge;
use crate::model::tables::{Place, Table, Tables};
use crate::model::{Flaw, Model};
use crate::net::{Net, Server, Shared, lock};
use crate::programs;

/// What a world is like.
#[derive(Clone, Debug)]
pub struct Shape {
    pub seed: u64,
    pub clients: usize,
    /// Of each client.
    pub steps: usize,
    /// Things go wrong: connections break, the server dies or stands still, statements are killed, the process has no
    /// file descriptor left.
    pub faults: bool,
    /// Its configuration is read again now and then, and is another one each time.
    pub reloads: bool,
    /// So often a new process takes over.
    pub upgrades: usize,
    /// Besides the server that is written to: each has what that one had a while ago.
    pub readers: usize,
    /// The servers report changes of sessions, so clients share connections.
    pub shares: bool,
    /// What the server does wrong to the process, and to no client that asks it directly.
    pub flaw: Option<Flaw>,
    /// What the server hears is printed.
    pub tells: bool,
}

impl Shape {
    /// The shape of a seed.
    pub fn of(seed: u64) -> Self {
        let mut dice = Dice::of(seed, "shape");
        // Most worlds are small: what is wrong is easier to see there.
        let (most_clients, most_steps) =
            (*dice.pick(&[3, 6, 6, 14]), *dice.pick(&[30, 30, 30, 80]));
        let (clients, steps) =
            (1 + dice.below(most_clients) as usize, 5 + dice.below(most_steps) as usize);
        let (faults, reloads) = (dice.once_in(2), dice.once_in(2));
        let upgrades = *dice.pick(&[0, 0, 1, 2]);
        let (readers, shares) = (0, false);
        let (flaw, tells) = (None, false);
        Self { seed, clients, steps, faults, reloads, upgrades, readers, shares, flaw, tells }
    }

    /// The same where clients share connections, of a server and its readers.
    pub fn shared(seed: u64) -> Self {
        let readers = *Dice::of(seed, "readers").pick(&[0, 0, 0, 1, 2]);
        Self { readers, shares: true, ..Self::of(seed) }
    }
}

/// What was wrong in a world.
#[derive(Debug)]
pub enum Fault {
    /// A client was answered otherwise than directly.
    Answer(Box<Difference>),
    /// Clients were not done after so long.
    Late(Duration),
    /// What was acknowledged is not there once, or what was refused is there.
    Lost(String),
    /// An invariant does not hold, at this time of the world.
    Broken(Duration, String),
    /// Something is left when all clients have gone.
    Left(String),
    /// It could not begin.
    Start(String),
    /// It has panicked; the message is on standard error.
    Panicked,
}

/// What came of a world.
#[derive(Debug)]
pub struct Report {
    pub fault: Option<Fault>,
    pub statements: usize,
    pub trace: Trace,
    /// A hash of all that was sent in it: the same for the same seed.
    pub digest: u64,
}

/// So long clients may take, in the world's time.
const PATIENCE: Duration = Duration::from_secs(900);

/// So many milliseconds of the world pass at most before it is looked at again.
const IDLE: u64 = 1000;

/// Runs the world of a seed, in a thread of its own: what a thread draws at random goes by the seed from its beginning.
///
/// # Panics
/// If there is no thread for it.
pub fn run(shape: &Shape) -> Report {
    run_program(shape, &program(shape))
}

/// Runs a world whose clients do something else.
///
/// # Panics
/// If there is no thread for it.
pub fn run_program(shape: &Shape, program: &Program) -> Report {
    let (shape, program) = (shape.clone(), program.clone());
    let seed = shape.seed;
    let builder = std::thread::Builder::new().name(format!("world {seed}")).stack_size(16 << 20);
    let world = builder.spawn(move || {
        sys::random::seeded::begin(seed);
        let direct = run_once(&shape, &program, Passage::Direct).trace;
        let through = run_once(&shape, &program, Passage::Through);
        let difference = match shape.faults {
            true => judge::compare(&program, &direct, (&through.trace, &through.anew)),
            false => compare::compare(&program, &direct, &through.trace),
        };
        let fault = through.fault.or_else(|| difference.map(|it| Fault::Answer(Box::new(it))));
        let marks = || judge::lost(&program, &through.trace, &through.marks).map(Fault::Lost);
        let fault = fault.or_else(marks);
        let (statements, digest) = (program.steps.len(), through.digest);
        Report { fault, statements, trace: through.trace, digest }
    });
    world.expect("a thread").join().unwrap_or_else(|_| {
        let fault = Some(Fault::Panicked);
        Report { fault, statements: 0, trace: Trace::new(), digest: 0 }
    })
}

/// What the clients of a world do.
pub fn program(shape: &Shape) -> Program {
    let mut dice = Dice::of(shape.seed, "programs");
    programs::program(&mut dice, shape.clients, shape.steps, shape.faults)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Passage {
    Direct,
    Through,
}

/// What came of a run of a world.
#[derive(Default)]
struct Run {
    trace: Trace,
    anew: Vec<bool>,
    /// What was written, and how often.
    marks: BTreeMap<u64, u32>,
    digest: u64,
    fault: Option<Fault>,
}

fn run_once(shape: &Shape, program: &Program, passage: Passage) -> Run {
    let runtime: LocalRuntime = Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build_local(LocalOptions::default())
        .expect("a runtime");
    // It begins where the clock stands still: before, its first moment would be one of the real clock.
    let run = runtime.block_on(async { World::begin(shape, program, passage).run().await });
    runtime.shutdown_timeout(Duration::ZERO);
    run
}

struct World<'a> {
    shape: &'a Shape,
    program: &'a Program,
    passage: Passage,
    net: Shared,
    began: Instant,
    faults: RefCell<Dice>,
    reloads: RefCell<Dice>,
}

/// What clients have seen, step by step of the program.
#[derive(Clone)]
struct Seen {
    outcomes: Rc<RefCell<Vec<Option<Outcome>>>>,
    /// The client had lost its connection, and has connected anew before.
    anew: Rc<RefCell<Vec<bool>>>,
    ids: Rc<RefCell<Vec<u32>>>,
}

/// So often a client tries to connect before it gives up.
const RETRIES: usize = 300;

impl<'a> World<'a> {
    fn begin(shape: &'a Shape, program: &'a Program, passage: Passage) -> Self {
        assert!(Handle::try_current().is_ok(), "elsewhere the time is that of the real clock");
        let servers =
            (0..=shape.readers).map(|at| Server::new(server(shape, program, passage, at)));
        let mut net = Net::new(servers.collect(), Dice::of(shape.seed, "network"));
        net.room = *Dice::of(shape.seed, "room").pick(&[300, 5000, 1 << 16, 1 << 20]);
        let net = Arc::new(Mutex::new(net));
        let faults = RefCell::new(Dice::of(shape.seed, "faults"));
        let reloads = RefCell::new(Dice::of(shape.seed, "reloads"));
        let began = Instant::now();
        Self { shape, program, passage, net, began, faults, reloads }
    }

    /// Starts the process, if there is to be one.
    fn start(&self) -> Result<Option<Process>, String> {
        if self.passage == Passage::Direct {
            return Ok(None);
        }
        let net = Arc::clone(&self.net);
        backend::dial::simulated::enter(move |address| {
            let host = match address {
                Address::Tcp { host, .. } => host,
                Address::Unix(_) => "",
            };
            let dialled = lock(&net).dial(host).map(Into::into);
            Box::pin(std::future::ready(dialled))
        });
        Process::start(&configuration::draw(self.shape, &mut self.reloads.borrow_mut())).map(Some)
    }

    async fn run(self) -> Run {
        // The last one takes over from those before it.
        let mut processes: Vec<Process> = match self.start() {
            Ok(process) => process.into_iter().collect(),
            Err(why) => return Run { fault: Some(Fault::Start(why)), ..Run::default() },
        };
        let steps = self.program.steps.len();
        let seen = Seen {
            outcomes: Rc::new(RefCell::new(vec![None; steps])),
            anew: Rc::new(RefCell::new(vec![false; steps])),
            ids: Rc::new(RefCell::new(vec![0; self.program.clients.len()])),
        };
        let (arrivals, mut accepted) = unbounded_channel();
        let mut tasks = Vec::new();
        for client in 0..self.program.clients.len() {
            let dial = self.dial(&arrivals);
            let peer = Peer::over(dial, door(), client, self.program.clients[client]);
            let steps = self.program.steps.iter().cloned().enumerate();
            let steps = steps.filter(|(_, step)| step.client == client).collect::<Vec<_>>();
            let dice = Dice::of(self.shape.seed, &format!("client {client}"));
            let connects_anew = self.shape.faults && self.passage == Passage::Through;
            let steps = take_steps(peer, steps, seen.clone(), (dice, connects_anew));
            tasks.push(tokio::task::spawn_local(steps));
        }
        let mut fault = None;
        while tasks.iter().any(|task| !task.is_finished()) {
            if self.began.elapsed() > PATIENCE {
                fault = Some(Fault::Late(self.began.elapsed()));
                break;
            }
            // Without a descriptor it accepts none: they wait in the backlog.
            while let (true, Some(process)) = (lock(&self.net).has_descriptors(), processes.last())
                && let Ok(end) = accepted.try_recv()
            {
                process.accept(end);
            }
            self.turn(&processes).await;
            if let Err(why) = self.order(&mut processes) {
                fault = Some(Fault::Start(why));
                break;
            }
            let broken: Vec<_> = processes.iter().flat_map(Process::broken).collect();
            if !broken.is_empty() {
                fault = Some(Fault::Broken(self.began.elapsed(), broken.join("; ")));
                break;
            }
        }
        for task in tasks {
            if task.is_finished() {
                task.await.expect("a client does not panic");
            }
        }
        if fault.is_none() && !processes.is_empty() {
            fault = self.end(&processes).await;
        }
        let anew = seen.anew.take();
        let outcomes = seen
            .outcomes
            .borrow()
            .iter()
            .map(|it| it.clone().unwrap_or(Outcome::Skipped))
            .collect();
        let mut net = lock(&self.net);
        let (marks, digest) = (net.servers[0].model.tables().marks.clone(), net.digest);
        Run { trace: outcomes, anew, marks, digest, fault }
    }

    /// Lets time pass until something happens, and has it happen.
    async fn turn(&self, processes: &[Process]) {
        memory::close_passed();
        processes.iter().for_each(Process::relay);
        let now = || u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let due = {
            let mut net = lock(&self.net);
            net.now = now();
            net.collect();
            net.due()
        };
        // The clock moves on only when no task has anything to do.
        let next = due.unwrap_or(u64::MAX).clamp(now() + 1, now() + IDLE);
        let post = lock(&self.net).post();
        let told = poll_fn(|context| post.poll(context));
        let _ = tokio::time::timeout_at(self.began + Duration::from_millis(next), told).await;
        if now() < next {
            // What was told is on its way when all that runs has come to rest.
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let mut net = lock(&self.net);
        net.now = now();
        net.collect();
        if self.shape.faults && self.passage == Passage::Through {
            self.fault(&mut net);
        }
        let most = 1 + self.shape.seed % 4;
        for _ in 0..most {
            if !net.step() {
                break;
            }
        }
    }

    /// Has the configuration be another one, or another process take over, now and then.
    fn order(&self, processes: &mut Vec<Process>) -> Result<(), String> {
        let mut dice = self.reloads.borrow_mut();
        let Some(process) = processes.last() else { return Ok(()) };
        if self.shape.reloads && dice.once_in(100) {
            process.reload(&configuration::draw(self.shape, &mut dice))?;
        }
        if processes.len() <= self.shape.upgrades && dice.once_in(100) {
            let new = process.hand_over(&configuration::draw(self.shape, &mut dice))?;
            processes.push(new);
        }
        Ok(())
    }

    /// Has something go wrong, now and then.
    fn fault(&self, net: &mut Net) {
        let mut dice = self.faults.borrow_mut();
        net.come_up();
        if !dice.once_in(150) {
            return;
        }
        let at = dice.below(net.servers.len() as u64) as usize;
        match dice.below(9) {
            0 | 1 => net.cut(true),
            2 => net.cut(false),
            3 => net.crash(at, net.now + 1 + dice.below(3000)),
            4 => net.servers[at].stands_until = net.now + 1 + dice.below(4000),
            5 => net.descriptors_from = net.now + 1 + dice.below(4000),
            _ => net.kill(at),
        }
    }

    /// All clients have gone: what is left?
    async fn end(&self, processes: &[Process]) -> Option<Fault> {
        let clients = || processes.iter().map(Process::clients).sum::<usize>();
        let gone = Instant::now();
        while clients() > 0 {
            if gone.elapsed() > Duration::from_secs(120) {
                let doings: Vec<_> = processes.iter().map(Process::doings).collect();
                let left =
                    format!("{} clients are connected that have gone: {doings:?}", clients());
                return Some(Fault::Left(left));
            }
            self.turn(processes).await;
        }
        let quiet = Instant::now();
        while quiet.elapsed() < Duration::from_secs(3) {
            self.turn(processes).await;
        }
        let left: Vec<_> = processes.iter().flat_map(Process::left).collect();
        if !left.is_empty() {
            return Some(Fault::Left(left.join("; ")));
        }
        processes.iter().for_each(Process::stop);
        let stopped = Instant::now();
        while !processes.iter().all(Process::has_ended) {
            if stopped.elapsed() > Duration::from_secs(120) {
                return Some(Fault::Left("a worker that has no clients does not end".to_owned()));
            }
            self.turn(processes).await;
        }
        None
    }

    fn dial(&self, arrivals: &UnboundedSender<Memory>) -> Arc<Dial> {
        let (net, passage, arrivals) = (Arc::clone(&self.net), self.passage, arrivals.clone());
        Arc::new(move |_| match passage {
            Passage::Direct => Ok(lock(&net).connect_directly()),
            Passage::Through => {
                let (near, link) = lock(&net).connect();
                // The world is there as long as its clients.
                let _ = arrivals.send(near);
                Ok(link)
            }
        })
    }
}

async fn take_steps(
    mut peer: Peer,
    steps: Vec<(usize, Step)>,
    Seen { outcomes, anew, ids }: Seen,
    (mut dice, connects_anew): (Dice, bool),
) {
    for (number, step) in steps {
        if dice.once_in(6) {
            tokio::time::sleep(Duration::from_millis(dice.below(30))).await;
        }
        if connects_anew && peer.id() == 0 && step.action != Action::Connect {
            for _ in 0..RETRIES {
                let known = ids.borrow().clone();
                let connecting = peer.act(&Action::Connect, &known);
                let connected = tokio::time::timeout(peer::PATIENCE, connecting).await;
                if connected.is_ok() && peer.id() != 0 {
                    anew.borrow_mut()[number] = true;
                    break;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            ids.borrow_mut()[step.client] = peer.id();
        }
        let known = ids.borrow().clone();
        let action = match programs::is_kill(&step.action) && !connects_anew {
            // Directly, no client is to hear of it.
            true => &Action::Ping,
            false => &step.action,
        };
        let act = peer.act(action, &known);
        let outcome = match tokio::time::timeout(peer::PATIENCE, act).await {
            Ok(outcome) => outcome,
            Err(_) => Outcome::Stuck(Vec::new()),
        };
        let is_stuck = matches!(outcome, Outcome::Stuck(_));
        ids.borrow_mut()[step.client] = peer.id();
        outcomes.borrow_mut()[number] = Some(outcome);
        if is_stuck {
            return;
        }
    }
}

fn door() -> Door {
    Door {
        port: 0,
        password: configuration::PASSWORD.to_owned(),
        plugin: Plugin::NativePassword,
        beside: None,
    }
}

/// This one of the servers; the first one is written to.
fn server(shape: &Shape, program: &Program, passage: Passage, at: usize) -> Model {
    let mut model = Model::new(Dice::of(shape.seed, &format!("model {at}")));
    furnish(model.tables(), program.clients.len());
    model.tables().place = match at {
        _ if shape.readers == 0 => Place::Alone,
        0 => Place::Writer,
        _ => Place::Reader,
    };
    model.tables().reports = shape.shares;
    if passage == Passage::Through {
        (model.flaw, model.tells) = (shape.flaw, shape.tells.then_some(at));
    }
    model
}

fn furnish(tables: &mut Tables, clients: usize) {
    for client in 0..clients {
        let schema = programs::schema(client);
        tables.create_schema(&schema);
        for (at, name) in ["t", "u"].into_iter().enumerate() {
            let table = Table { state: (client * 2 + at) as u64, last_id: 10 };
            tables.put((&schema, name), table);
        }
    }
    tables.create_schema("shared");
    for row in ["hot0", "hot1"] {
        tables.put(("shared", row), Table::default());
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(difference) => write!(f, "{difference}"),
            Self::Late(after) => write!(f, "clients are not done after {after:?}"),
            Self::Lost(what) => write!(f, "{what}"),
            Self::Broken(at, what) => write!(f, "at {at:?}: {what}"),
            Self::Left(what) => write!(f, "left behind: {what}"),
            Self::Panicked => f.write_str("it has panicked, as standard error says"),
            Self::Start(why) => write!(f, "it cannot start: {why}"),
        }
    }
}
