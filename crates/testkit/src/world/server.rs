//! The server of the world: cores that are shared equally, a disk with a line, hot rows with lines.
//!
//! Owns which clients run and which wait inside of the server; knows no gate. Tells the run, which owns the clock, at
//! which time work is done.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::plan;

/// The owner of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Nobody,
    Client(usize),
    /// A session from outside of the plan.
    Blocker,
}

#[derive(Debug)]
pub(crate) struct Server {
    plan: plan::Server,
    /// Work done by each running thread since the beginning; one that has come ends when it reaches its mark.
    done: f64,
    running: BinaryHeap<Reverse<(u64, u64, usize)>>,
    sequence: u64,
    pub(super) disk_busy: usize,
    pub(super) disk_line: VecDeque<usize>,
    pub(super) rows: Vec<(Owner, VecDeque<usize>)>,
    pub(super) is_blocked: bool,
    /// What neighbours leave of the processors.
    pub(super) left: f64,
    /// Thread milliseconds, and core milliseconds.
    pub(super) running_area: f64,
    pub(super) busy_area: f64,
}

impl Server {
    pub(crate) fn new(plan: plan::Server, rows: usize) -> Self {
        Self {
            plan,
            done: 0.0,
            running: BinaryHeap::new(),
            sequence: 0,
            disk_busy: 0,
            disk_line: VecDeque::new(),
            rows: (0..rows).map(|_| (Owner::Nobody, VecDeque::new())).collect(),
            is_blocked: false,
            left: 1.0,
            running_area: 0.0,
            busy_area: 0.0,
        }
    }

    /// A thread runs for so much processor time.
    pub(crate) fn compute(&mut self, client: usize, time: f64) {
        self.sequence += 1;
        self.running.push(Reverse(((self.done + time).to_bits(), self.sequence, client)));
    }

    /// In how many milliseconds the next thread is done, if nothing else happens.
    pub(crate) fn next_done(&self) -> Option<f64> {
        let Reverse((mark, ..)) = self.running.peek()?;
        let left = (f64::from_bits(*mark) - self.done).max(0.0);
        Some(left / self.speed())
    }

    fn speed(&self) -> f64 {
        self.left * self.plan.speed(self.running.len())
    }

    pub(crate) fn pop_done(&mut self) -> Option<usize> {
        self.running.pop().map(|Reverse((.., client))| client)
    }

    pub(crate) fn advance(&mut self, time: f64) {
        let running = self.running.len();
        self.done += time * self.speed();
        self.running_area += time * running as f64;
        self.busy_area += time * (running as f64).min(f64::from(self.plan.cores));
    }

    /// Whether the disk takes a request now; else it stands in the queue.
    pub(super) fn read(&mut self, client: usize) -> bool {
        if self.disk_busy < self.plan.disk {
            self.disk_busy += 1;
            return true;
        }
        self.disk_line.push_back(client);
        false
    }

    /// A request has ended: whose is served now?
    pub(super) fn has_read(&mut self) -> Option<usize> {
        let next = self.disk_line.pop_front();
        if next.is_none() {
            self.disk_busy -= 1;
        }
        next
    }

    /// Whether the row is the client's now; else it stands in the queue for it.
    pub(crate) fn lock(&mut self, row: usize, client: usize) -> bool {
        let (owner, line) = &mut self.rows[row];
        if *owner == Owner::Nobody {
            *owner = Owner::Client(client);
            return true;
        }
        line.push_back(client);
        false
    }

    /// The row is given back: whose is it now?
    pub(crate) fn unlock(&mut self, row: usize) -> Option<usize> {
        let (owner, line) = &mut self.rows[row];
        if self.is_blocked {
            *owner = Owner::Blocker;
            return None;
        }
        let next = line.pop_front();
        *owner = next.map_or(Owner::Nobody, Owner::Client);
        next
    }

    pub(crate) fn leave_queue(&mut self, row: usize, client: usize) {
        self.rows[row].1.retain(|other| *other != client);
    }

    /// The blocker takes the rows that are free, and will get each other row when it becomes free.
    pub(super) fn block(&mut self) {
        self.is_blocked = true;
        for (owner, _) in self.rows.iter_mut().filter(|(owner, _)| *owner == Owner::Nobody) {
            *owner = Owner::Blocker;
        }
    }

    /// The rows that the blocker gives back.
    pub(super) fn unblock(&mut self) -> Vec<usize> {
        self.is_blocked = false;
        let rows = self.rows.iter().enumerate();
        rows.filter(|(_, (owner, _))| *owner == Owner::Blocker).map(|(row, _)| row).collect()
    }
}
