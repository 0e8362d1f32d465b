//! Has the clients of a program take their steps, and keeps what each was answered.
//!
//! Does not judge. A client's backend may be another's for now, so a step's reply is waited for only so long before the
//! next client has its turn. Invariants: a client's steps happen in their order; a step that names another client
//! happens after all earlier steps of that client, and before all later ones; a client leaves after its last step; once
//! a step has got no answer at all, no client takes another step: the outcome is known, and took long enough.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use super::peer::{Door, Outcome, Peer};
use super::program::{Action, Pace, Program};

/// What came of each step; in the order of the program.
pub type Trace = Vec<Outcome>;

/// So long a reply is waited for before others go on.
const TURN: Duration = Duration::from_millis(4);

/// How long the next step waits for a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waits {
    /// As the program's pace says: a reply that does not come at once is not waited for.
    #[default]
    ByPace,
    /// Until it is there, so that what happens does not go by the machine's load. Only what waits for another client is
    /// overtaken.
    Patiently,
}

impl Waits {
    const fn turn(self, pace: Pace) -> Duration {
        match (self, pace) {
            (Self::Patiently, _) => Duration::from_millis(700),
            (Self::ByPace, Pace::Rush) => Duration::ZERO,
            (Self::ByPace, Pace::Turns) => TURN,
        }
    }
}

/// A step for a client's thread.
struct Order {
    step: usize,
    action: Action,
    ids: Vec<u32>,
}

/// A client's thread has done a step; its connection id now.
struct Done {
    step: usize,
    client: usize,
    outcome: Outcome,
    id: u32,
}

/// Runs a program.
pub fn run(program: &Program, door: &Door, waits: Waits) -> Trace {
    let (done, replies) = mpsc::channel();
    thread::scope(|scope| {
        let mut orders = Vec::new();
        for (number, plan) in program.clients.iter().enumerate() {
            let (order, inbox) = mpsc::channel();
            orders.push(order);
            let peer = Peer::new(door.clone(), number, *plan);
            let done = done.clone();
            scope.spawn(move || serve(peer, number, &inbox, &done));
        }
        Turns::new(program, orders, replies).run(waits.turn(program.pace))
    })
}

fn serve(mut peer: Peer, client: usize, inbox: &Receiver<Order>, done: &Sender<Done>) {
    while let Ok(Order { step, action, ids }) = inbox.recv() {
        let outcome =
            match pin!(peer.act(&action, &ids)).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(outcome) => outcome,
                Poll::Pending => unreachable!("its socket has the thread wait"),
            };
        if done.send(Done { step, client, outcome, id: peer.id() }).is_err() {
            return;
        }
    }
}

/// Whose turn it is.
struct Turns<'a> {
    program: &'a Program,
    /// Where each client gets its steps; `None` once it has had all.
    orders: Vec<Option<Sender<Order>>>,
    replies: Receiver<Done>,
    ids: Vec<u32>,
    trace: Vec<Option<Outcome>>,
    /// Steps that each client has not been given yet, and those of others that name it.
    queues: Vec<VecDeque<usize>>,
    touched: Vec<Vec<usize>>,
    /// The step that each client is at.
    busy: Vec<bool>,
    /// Before this step, all have been given.
    from: usize,
    /// A step was not answered.
    is_stuck: bool,
}

impl<'a> Turns<'a> {
    fn new(program: &'a Program, orders: Vec<Sender<Order>>, replies: Receiver<Done>) -> Self {
        let clients = program.clients.len();
        let mut queues = vec![VecDeque::new(); clients];
        let mut all = Vec::new();
        for (number, step) in program.steps.iter().enumerate() {
            let mut touched = Program::touched(step);
            touched.sort_unstable();
            touched.dedup();
            touched.iter().for_each(|client| queues[*client].push_back(number));
            all.push(touched);
        }
        Self {
            program,
            orders: orders.into_iter().map(Some).collect(),
            replies,
            ids: vec![0; clients],
            trace: vec![None; program.steps.len()],
            queues,
            touched: all,
            busy: vec![false; clients],
            from: 0,
            is_stuck: false,
        }
    }

    fn run(mut self, turn: Duration) -> Trace {
        loop {
            match self.next() {
                Some(step) => {
                    self.give(step);
                    self.wait_for(step, turn);
                }
                // No client can go on before a client has been answered.
                None if self.busy.contains(&true) => {
                    let done = self.replies.recv().expect("clients live as long as their orders");
                    self.learn(done);
                }
                None => break,
            }
        }
        self.trace.into_iter().map(|outcome| outcome.unwrap_or(Outcome::Skipped)).collect()
    }

    /// The first step that may be taken now.
    fn next(&mut self) -> Option<usize> {
        if self.is_stuck {
            return None;
        }
        while self.trace.get(self.from).is_some_and(Option::is_some) {
            self.from += 1;
        }
        let mut waiting = vec![false; self.orders.len()];
        let mut left = self.orders.len();
        for step in self.from..self.program.steps.len() {
            let touched = &self.touched[step];
            if self.trace[step].is_some() {
                continue;
            }
            let is_next = |client: &usize| {
                !waiting[*client]
                    && !self.busy[*client]
                    && self.queues[*client].front() == Some(&step)
            };
            if touched.iter().all(is_next) {
                return Some(step);
            }
            for client in touched {
                left -= usize::from(!std::mem::replace(&mut waiting[*client], true));
            }
            if left == 0 {
                return None;
            }
        }
        None
    }

    fn give(&mut self, number: usize) {
        let step = &self.program.steps[number];
        for client in &self.touched[number] {
            self.busy[*client] = true;
        }
        let order = Order { step: number, action: step.action.clone(), ids: self.ids.clone() };
        let thread = self.orders[step.client].as_ref().expect("it has steps left");
        thread.send(order).expect("its thread takes orders to the end");
    }

    /// Waits for a step's reply, but not longer than a turn.
    fn wait_for(&mut self, step: usize, turn: Duration) {
        while self.trace[step].is_none() {
            match self.replies.recv_timeout(turn) {
                Ok(done) => self.learn(done),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn learn(&mut self, done: Done) {
        self.is_stuck |= matches!(done.outcome, Outcome::Stuck(_));
        self.ids[done.client] = done.id;
        for client in &self.touched[done.step] {
            self.busy[*client] = false;
            self.queues[*client].pop_front();
            if self.queues[*client].is_empty() {
                // It leaves, and gives back what it holds.
                self.orders[*client] = None;
            }
        }
        self.trace[done.step] = Some(done.outcome);
    }
}
