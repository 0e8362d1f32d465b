//! The run: a clock, the events with their times, and the parts of the world that are told of each event.

mod account;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::chance::Chance;
use super::client::{COMMITS, Client, LOCKS};
use super::door::Door;
use super::flifo::{Asks, Begun};
use super::note::Entry;
use super::plan::{Arrivals, Phase, Plan};
use super::server::Server;
use super::tally::Outcome;

/// What is going to happen.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A client asks its next statement.
    Ask(usize),
    /// A new client comes.
    Arrive,
    /// A statement has reached the server, or its reply the proxy.
    There(usize),
    Back(usize),
    /// The disk has served a client.
    Read(usize),
    /// A thread that was chosen has woken.
    Woken(usize),
    /// A client has waited for a lock long enough: the client, its unit.
    Tired(usize, u64),
    /// A worker of a process reads its mail.
    Mail(usize, usize),
    /// The limit is looked at, and statements that seem stuck are.
    Tick(usize),
    Look(usize),
    /// Neighbours of the server take more, or less.
    Neighbours,
    Block,
    Unblock,
}

/// Orders events by time, and by how they were made.
type Due = Reverse<(u64, u64)>;

struct World {
    plan: Plan,
    chance: Chance,
    neighbours: Chance,
    now: f64,
    server: Server,
    door: Door,
    clients: Vec<Client>,
    due: BinaryHeap<Due>,
    /// The events themselves, by their number.
    events: std::collections::HashMap<u64, Event>,
    sequence: u64,
    inside: usize,
    /// Clients that have a slot, for each process.
    slotted: Vec<usize>,
    result: Tally,
}

/// What is counted on the way.
#[derive(Default)]
struct Tally {
    times: Vec<f64>,
    reads: Vec<f64>,
    writes: Vec<f64>,
    areas: [f64; 2],
    before: Vec<u64>,
    completed: Vec<Vec<u64>>,
    limits: Vec<Vec<f64>>,
    reads_between: Vec<u64>,
    came: Vec<u64>,
    useful: Vec<u64>,
    refused: Vec<u64>,
    timeouts: u64,
    borrowed: u64,
    most: usize,
    is_warm: bool,
}

/// Runs it to its end.
///
/// # Panics
/// If anything that must always hold does not; the seed and the time are printed.
pub fn run(plan: Plan, door: Door) -> Outcome {
    let mut world = World::new(plan, door);
    world.begin();
    while world.step() {}
    world.outcome()
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the world of seed {} ended at {:.3} ms", self.plan.seed, self.now);
        }
    }
}

impl World {
    fn new(plan: Plan, door: Door) -> Self {
        let processes = match &door {
            Door::Flifo(processes) => processes.len(),
            _ => 1,
        };
        let intervals = plan.marks.len() + 1;
        let rows = plan.transactions.map_or(0, |it| it.hot_rows);
        let result = Tally {
            completed: vec![vec![0; processes]; intervals],
            limits: vec![vec![0.0; processes]; intervals],
            reads_between: vec![0; intervals],
            came: vec![0; intervals],
            useful: vec![0; intervals],
            refused: vec![0; intervals],
            ..Tally::default()
        };
        Self {
            chance: Chance::new(plan.seed),
            neighbours: Chance::new(!plan.seed),
            now: 0.0,
            server: Server::new(plan.server, rows),
            door,
            clients: Vec::new(),
            due: BinaryHeap::new(),
            events: std::collections::HashMap::new(),
            sequence: 0,
            inside: 0,
            slotted: vec![0; processes],
            result,
            plan,
        }
    }

    fn begin(&mut self) {
        match self.plan.arrivals {
            Arrivals::Closed { clients, .. } => {
                let ramp = (0.02 * clients as f64 + 0.05).min(5.0);
                for at in 0..clients {
                    let client = self.new_client(at as f64 / clients as f64);
                    let after = self.chance.share() * ramp;
                    self.after(after, Event::Ask(client));
                }
            }
            Arrivals::Open { .. } => self.after(0.0, Event::Arrive),
        }
        if self.plan.neighbours > 0.0 {
            self.after(0.0, Event::Neighbours);
        }
        if let Some((from, until)) = self.plan.transactions.and_then(|it| it.blocker) {
            self.after(from, Event::Block);
            self.after(until, Event::Unblock);
        }
        if let Door::Flifo(processes) = &self.door {
            let ticks: Vec<_> =
                processes.iter().map(|process| (process.tick_every(), process.look)).collect();
            for (index, (tick, look)) in ticks.into_iter().enumerate() {
                self.after(tick, Event::Tick(index));
                if let Some(look) = look {
                    self.after(look, Event::Look(index));
                }
            }
        }
    }

    /// A client, whose place among all is such a share of them.
    fn new_client(&mut self, place: f64) -> usize {
        let mut client = Client::default();
        if let Door::Flifo(processes) = &self.door {
            let shares: Vec<_> = processes.iter().map(|it| it.share).collect();
            let (process, rest) = part(&shares, place);
            client.process = process;
            client.worker = part(&processes[process].spread, rest).0;
        }
        let index = self.clients.len();
        self.clients.push(client);
        self.fresh(index);
        index
    }

    /// A client begins a new unit of work.
    fn fresh(&mut self, index: usize) {
        let Some(plan) = self.plan.transactions else { return };
        let writes = if plan.by_client {
            (index % 10) as f64 / 10.0 < plan.share
        } else {
            self.chance.share() < plan.share
        };
        let client = &mut self.clients[index];
        client.writes = writes;
        client.has_failed = false;
        (client.step, client.row, client.wanted) = (0, None, None);
        client.unit += 1;
    }

    fn after(&mut self, time: f64, event: Event) {
        self.sequence += 1;
        self.due.push(Reverse(((self.now + time).to_bits(), self.sequence)));
        self.events.insert(self.sequence, event);
    }

    /// The next thing happens. False: the run is over.
    fn step(&mut self) -> bool {
        let done = self.server.next_done().map_or(f64::INFINITY, |time| self.now + time);
        let event = self.due.peek().map_or(f64::INFINITY, |Reverse((at, _))| f64::from_bits(*at));
        let next = done.min(event);
        if next >= self.plan.end {
            return false;
        }
        if !self.result.is_warm && next >= self.plan.warm {
            self.warm_up();
        }
        self.server.advance(next - self.now);
        self.now = next;
        if done <= event {
            let client = self.server.pop_done().expect("somebody runs");
            self.computed(client);
        } else if let Some(Reverse((_, number))) = self.due.pop() {
            let event = self.events.remove(&number).expect("each is due once");
            self.happen(event);
        }
        self.check();
        true
    }

    fn warm_up(&mut self) {
        self.result.is_warm = true;
        self.result.areas = [self.server.running_area, self.server.busy_area];
        self.result.before = self.clients.iter().map(|client| client.statements).collect();
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Ask(client) => self.ask(client),
            Event::Arrive => self.arrive(),
            Event::There(client) => self.run(client),
            Event::Back(client) => self.back(client),
            Event::Read(client) => self.has_read(client),
            Event::Woken(client) => {
                if let Door::Note(gate) = &mut self.door {
                    gate.woken();
                }
                self.run(client);
            }
            Event::Tired(client, unit) => self.tired(client, unit),
            Event::Mail(process, worker) => {
                if let Door::Flifo(processes) = &mut self.door {
                    processes[process].under_way -= 1;
                }
                self.pump(process, worker);
            }
            Event::Tick(process) => self.tick(process),
            Event::Look(process) => self.look(process),
            Event::Neighbours => {
                self.server.left = 1.0 - self.plan.neighbours * self.neighbours.share();
                self.after(100.0, Event::Neighbours);
            }
            Event::Block => self.server.block(),
            Event::Unblock => {
                for row in self.server.unblock() {
                    self.unlock(row);
                }
            }
        }
    }

    fn phase(&self) -> Option<Phase> {
        self.plan.phases.iter().rev().find(|phase| phase.from <= self.now).copied()
    }

    fn interval(&self, time: f64) -> usize {
        self.plan.marks.iter().take_while(|mark| **mark <= time).count()
    }

    fn arrive(&mut self) {
        let rate = self.phase().map_or(0.0, |phase| phase.rate);
        let after = self.chance.around(1000.0 / rate);
        self.after(after, Event::Arrive);
        let place = self.chance.share();
        let client = self.new_client(place);
        let interval = self.interval(self.now);
        self.result.came[interval] += 1;
        self.ask(client);
    }

    /// A client's statement comes to the door.
    fn ask(&mut self, index: usize) {
        let now = self.now;
        let client = &mut self.clients[index];
        client.came = now;
        if client.step == 0 {
            client.began = now;
        }
        let asks = Asks {
            client: index,
            worker: client.worker,
            kind: client.kind(),
            has_backend: client.backend.is_some(),
            may_hold_locks: client.is_in_transaction(),
        };
        let process = client.process;
        match &mut self.door {
            Door::Open => self.run(index),
            Door::Note(gate) => match gate.enter(index) {
                Entry::Waits => {}
                entry => {
                    self.clients[index].is_lifo = entry == Entry::Lifo;
                    self.result.borrowed += u64::from(entry == Entry::Lifo);
                    self.run(index);
                }
            },
            Door::Flifo(processes) => {
                let worker = asks.worker;
                match processes[process].enter(&asks, now) {
                    Ok(Some(begun)) => self.let_in(begun),
                    Ok(None) => self.pump(process, worker),
                    Err(()) => self.refuse(index),
                }
            }
        }
    }

    /// Flifo starts a statement: it is on its way to the server.
    fn let_in(&mut self, (index, backend, slot): Begun) {
        let process = self.clients[index].process;
        let Door::Flifo(processes) = &self.door else { return };
        let way = processes[process].round_trip / 2.0;
        let client = &mut self.clients[index];
        assert!(client.slot.replace(slot).is_none(), "a client has one statement at a time");
        client.backend = client.backend.or(backend);
        client.let_in = self.now;
        self.slotted[process] += 1;
        if way > 0.0 {
            self.clients[index].is_in = true;
            self.after(way, Event::There(index));
        } else {
            self.run(index);
        }
    }

    /// A statement begins to run in the server.
    fn run(&mut self, index: usize) {
        self.inside += 1;
        self.result.most = self.result.most.max(self.inside);
        let work = self.plan.work;
        let io_share = self.phase().map_or(work.io_share, |phase| phase.io_share);
        let reads = io_share > 0.0 && self.chance.share() < io_share;
        let client = &mut self.clients[index];
        client.is_in = true;
        client.has_asked = false;
        client.reads_left = if reads { work.io_count } else { 0 };
        let cold = std::mem::take(&mut client.cold);
        let mut part = 1.0 / f64::from(client.reads_left + 1);
        if client.writes {
            part *= [1.0, 0.5, 1.0, 0.3][client.step as usize];
        }
        let is_heavy = work.heavy_share > 0.0 && self.chance.share() < work.heavy_share;
        let factor = if is_heavy { work.heavy } else { 1.0 };
        let time = self.chance.around(work.cpu) * part * factor + cold;
        self.server.compute(index, time);
    }

    /// A thread is done with its processor time.
    fn computed(&mut self, index: usize) {
        let client = &mut self.clients[index];
        if client.reads_left > 0 {
            client.reads_left -= 1;
            if self.server.read(index) {
                let time = self.chance.around(self.plan.work.io);
                self.after(time, Event::Read(index));
            }
        } else if client.writes && client.step == LOCKS && !client.has_asked {
            self.lock(index);
        } else {
            self.finish(index);
        }
    }

    fn has_read(&mut self, index: usize) {
        if let Some(next) = self.server.has_read() {
            let time = self.chance.around(self.plan.work.io);
            self.after(time, Event::Read(next));
        }
        let work = self.plan.work;
        let time = self.chance.around(work.cpu) / f64::from(work.io_count + 1);
        self.server.compute(index, time);
    }

    /// Asks for a hot row.
    fn lock(&mut self, index: usize) {
        let Some(plan) = self.plan.transactions else { return };
        let row = self.chance.below(plan.hot_rows);
        self.clients[index].has_asked = true;
        if self.server.lock(row, index) {
            self.clients[index].row = Some(row);
            self.go_on(index);
        } else {
            self.clients[index].wanted = Some(row);
            self.after(plan.patience, Event::Tired(index, self.clients[index].unit));
        }
    }

    /// The second half of the statement that locks a row.
    fn go_on(&mut self, index: usize) {
        let time = self.chance.around(self.plan.work.cpu) * 0.5;
        self.server.compute(index, time);
    }

    fn unlock(&mut self, row: usize) {
        if let Some(next) = self.server.unlock(row) {
            let client = &mut self.clients[next];
            (client.row, client.wanted) = (Some(row), None);
            self.go_on(next);
        }
    }

    fn tired(&mut self, index: usize, unit: u64) {
        let client = &mut self.clients[index];
        let Some(row) = client.wanted.filter(|_| client.unit == unit) else { return };
        client.wanted = None;
        // What is left of the transaction is the reply.
        client.step = COMMITS;
        client.has_failed = true;
        self.server.leave_queue(row, index);
        self.result.timeouts += u64::from(self.result.is_warm);
        self.finish(index);
    }

    /// A statement has ended in the server.
    fn finish(&mut self, index: usize) {
        self.inside -= 1;
        if self.clients[index].ends_unit()
            && let Some(row) = self.clients[index].row.take()
        {
            self.unlock(row);
        }
        let way = match &self.door {
            Door::Flifo(processes) => processes[self.clients[index].process].round_trip / 2.0,
            _ => 0.0,
        };
        if way > 0.0 {
            self.after(way, Event::Back(index));
        } else {
            self.back(index);
        }
    }

    /// The reply is there.
    fn back(&mut self, index: usize) {
        let client = &mut self.clients[index];
        client.is_in = false;
        let (process, worker) = (client.process, client.worker);
        let ends = client.ends_unit();
        let slot = client.slot.take();
        let backend = if ends { client.backend.take() } else { None };
        self.count(index, ends);
        match &mut self.door {
            Door::Open => {}
            Door::Note(gate) => {
                gate.leave(self.clients[index].is_lifo);
                while let Door::Note(gate) = &mut self.door
                    && let Some(next) = gate.choose()
                {
                    let (wake, cold, waiting) = (gate.wake, gate.cold, gate.line.len() as f64);
                    let chosen = &mut self.clients[next];
                    chosen.is_lifo = false;
                    chosen.cold =
                        (cold[0] * waiting + cold[1] * waiting * waiting) * self.plan.work.cpu;
                    let after = self.chance.around(wake[0] + wake[1] * waiting);
                    self.after(after, Event::Woken(next));
                }
            }
            Door::Flifo(processes) => {
                self.slotted[process] -= 1;
                let slot = slot.expect("it was let in");
                let begun = processes[process].leave(worker, slot, backend, self.now);
                if let Some(begun) = begun {
                    self.let_in(begun);
                }
                self.pump(process, worker);
            }
        }
        self.ask_again(index, ends);
    }

    fn ask_again(&mut self, index: usize, ends: bool) {
        if !ends {
            self.clients[index].step += 1;
            let time = self.chance.around(1.0);
            return self.after(time, Event::Ask(index));
        }
        if let Arrivals::Closed { think, .. } = self.plan.arrivals {
            self.fresh(index);
            let time = self.chance.around(think);
            self.after(time, Event::Ask(index));
        }
    }

    fn refuse(&mut self, index: usize) {
        let came_in = self.interval(self.clients[index].came);
        self.result.refused[came_in] += 1;
        self.ask_again(index, true);
    }

    /// Starts all clients of a worker that can start, and sends the mail to the other workers.
    fn pump(&mut self, process: usize, worker: usize) {
        while let Door::Flifo(processes) = &mut self.door
            && let Some(begun) = processes[process].next(worker, self.now)
        {
            self.let_in(begun);
        }
        while let Door::Flifo(processes) = &mut self.door
            && let Some(other) = processes[process].gates[worker].next_wake()
        {
            processes[process].under_way += 1;
            let mean = processes[process].mail;
            let time = self.chance.around(mean);
            self.after(time, Event::Mail(process, other));
        }
    }

    fn tick(&mut self, process: usize) {
        let interval = self.interval(self.now);
        let Door::Flifo(processes) = &mut self.door else { return };
        let every = processes[process].tick_every();
        self.result.limits[interval][process] += f64::from(processes[process].limit()) * every;
        let workers = processes[process].tick(self.now);
        for worker in workers {
            self.pump(process, worker);
        }
        self.expire(process);
        self.after(every, Event::Tick(process));
    }

    fn expire(&mut self, process: usize) {
        let Arrivals::Open { .. } = self.plan.arrivals else { return };
        let Door::Flifo(processes) = &mut self.door else { return };
        let mut late = Vec::new();
        for worker in 0..processes[process].gates.len() {
            let most = Duration::from_hours(1);
            while let Some(client) = processes[process].expire(worker, self.now, most) {
                late.push(client);
            }
        }
        for client in late {
            self.refuse(client);
        }
    }

    /// Statements that seem stuck are parked.
    fn look(&mut self, process: usize) {
        for index in 0..self.clients.len() {
            let client = &mut self.clients[index];
            if client.process != process {
                continue;
            }
            let Some(mut slot) = client.slot.take() else { continue };
            let worker = client.worker;
            let Door::Flifo(processes) = &mut self.door else { return };
            let begun = processes[process].look_at(worker, &mut slot, self.now);
            self.clients[index].slot = Some(slot);
            if let Some(begun) = begun {
                self.let_in(begun);
            }
            self.pump(process, worker);
        }
        let Door::Flifo(processes) = &self.door else { return };
        if let Some(every) = processes[process].look {
            self.after(every, Event::Look(process));
        }
    }

    /// What must hold after every event.
    fn check(&self) {
        if let Door::Flifo(processes) = &self.door {
            for (process, slotted) in processes.iter().zip(&self.slotted) {
                process.check(*slotted);
            }
        }
    }
}

/// Which part of a whole such a place is in, and where in that part.
fn part(shares: &[f64], place: f64) -> (usize, f64) {
    let whole: f64 = shares.iter().sum();
    let mut rest = place * whole;
    for (index, share) in shares.iter().enumerate() {
        if rest < *share || index + 1 == shares.len() {
            return (index, (rest / share).min(1.0 - f64::EPSILON));
        }
        rest -= share;
    }
    (0, 0.0)
}
