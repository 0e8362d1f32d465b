//! Clients of two workers that read one table through caches and beside them, writers with and without transactions, and
//! a server that does each thing at some moment between its being sent and its being answered. Each order of their steps
//! comes from a seed. No read may find less than was known, to any client, before it was asked for.
//!
//! Faults are planted in the order of what is done, and must be found.

use std::sync::Arc;

use fastrand::Rng;

use super::generations::{Generations, Seen, TablePlace, Written};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// Generations rise before a write is sent, and no write counts as being under way.
    OnlyBefore,
    /// Generations rise when a write has ended.
    OnlyAfter,
    /// A write in a transaction ends with its statement.
    ForgetsTransaction,
    /// A read joins a run that has begun, whatever was written since.
    JoinsLate,
    /// A reply is kept although something was written while it ran.
    KeepsOutdated,
    /// The connection was lost in the middle of a write, and that counts as its end.
    LostIsEnded,
}

const FAULTS: [Fault; 6] = [
    Fault::OnlyBefore,
    Fault::OnlyAfter,
    Fault::ForgetsTransaction,
    Fault::JoinsLate,
    Fault::KeepsOutdated,
    Fault::LostIsEnded,
];

/// What a client is in the middle of.
enum Doing {
    Nothing,
    /// A read on its way to the server, or back; what was known when it was asked for.
    Runs {
        least: u64,
        found: Option<u64>,
        fills: Option<Seen>,
    },
    /// It waits for the run of this other client.
    Joins {
        least: u64,
        of: usize,
    },
    Writes {
        write: Option<Written>,
        in_transaction: bool,
        applied: bool,
        commits: bool,
    },
}

struct World {
    random: Rng,
    fault: Fault,
    all: Arc<Generations>,
    place: [TablePlace; 1],
    /// What the server has, and the last number that was drawn.
    value: u64,
    drawn: u64,
    /// The most that any client knows to be there.
    known: u64,
    /// Of each worker.
    kept: [Option<(Seen, u64)>; 2],
    clients: Vec<Doing>,
    /// Writes of connections that were lost: the server may still do them.
    lost: Vec<Written>,
    hits: u64,
}

const CLIENTS: usize = 8;

impl World {
    fn new(seed: u64, fault: Fault) -> Self {
        Self {
            random: Rng::with_seed(seed),
            fault,
            all: Arc::default(),
            place: [TablePlace::of_table(b"a", b"t")],
            value: 0,
            drawn: 0,
            known: 0,
            kept: [None, None],
            clients: (0..CLIENTS).map(|_| Doing::Nothing).collect(),
            lost: Vec::new(),
            hits: 0,
        }
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.random.u64(..below)
    }

    fn see(&mut self, least: u64, found: u64) -> Result<(), String> {
        if found < least {
            return Err(format!("found {found} where {least} was known"));
        }
        self.known = self.known.max(found);
        Ok(())
    }

    fn begin_write(&self) -> Option<Written> {
        match self.fault {
            Fault::OnlyBefore => {
                self.all.written(b"a", b"t");
                None
            }
            Fault::OnlyAfter => None,
            _ => Some(Written::begin(&self.all, &self.place)),
        }
    }

    fn end_write(&self, write: Option<Written>) {
        drop(write);
        if self.fault == Fault::OnlyAfter {
            self.all.written(b"a", b"t");
        }
    }

    fn step(&mut self) -> Result<(), String> {
        if !self.lost.is_empty() && self.draw(8) == 0 {
            // The server does what it was sent, and only then is it known to have ended.
            self.drawn += 1;
            self.value = self.drawn;
            self.lost.pop();
            return Ok(());
        }
        let at = self.draw(CLIENTS as u64) as usize;
        match std::mem::replace(&mut self.clients[at], Doing::Nothing) {
            Doing::Nothing => self.begin(at),
            Doing::Runs { least, found: None, fills } => {
                self.clients[at] = Doing::Runs { least, found: Some(self.value), fills };
                Ok(())
            }
            Doing::Runs { least, found: Some(found), fills } => {
                if let Some(seen) = fills {
                    for other in (0..CLIENTS).filter(|other| other % 2 == at % 2) {
                        if let Doing::Joins { least, of } = self.clients[other]
                            && of == at
                        {
                            self.clients[other] = Doing::Nothing;
                            self.see(least, found)?;
                        }
                    }
                    if seen.holds(&self.all) {
                        self.kept[at % 2] = Some((seen, found));
                    } else if self.fault == Fault::KeepsOutdated {
                        let now = self.all.look(&self.place);
                        self.kept[at % 2] = now.map(|seen| (seen, found));
                    }
                }
                self.see(least, found)
            }
            joins @ Doing::Joins { .. } => {
                self.clients[at] = joins;
                Ok(())
            }
            Doing::Writes { write, in_transaction, applied, commits } => {
                self.go_on(at, write, in_transaction, applied, commits);
                Ok(())
            }
        }
    }

    fn begin(&mut self, at: usize) -> Result<(), String> {
        let least = self.known;
        match self.draw(10) {
            // Beside the caches.
            0..2 => self.clients[at] = Doing::Runs { least, found: None, fills: None },
            2..4 => {
                let in_transaction = self.draw(2) == 0;
                let write = self.begin_write();
                self.clients[at] =
                    Doing::Writes { write, in_transaction, applied: false, commits: false };
            }
            _ => {
                if let Some((seen, found)) = &self.kept[at % 2]
                    && seen.holds(&self.all)
                {
                    let found = *found;
                    self.hits += 1;
                    return self.see(least, found);
                }
                let is_late = self.fault == Fault::JoinsLate;
                let fills = |doing: &Doing| matches!(doing, Doing::Runs { fills: Some(seen), .. } if is_late || seen.holds(&self.all));
                let mut others = (0..CLIENTS).filter(|other| other % 2 == at % 2);
                self.clients[at] = match others.find(|other| fills(&self.clients[*other])) {
                    Some(of) => Doing::Joins { least, of },
                    None => Doing::Runs { least, found: None, fills: self.all.look(&self.place) },
                };
            }
        }
        Ok(())
    }

    fn go_on(
        &mut self,
        at: usize,
        write: Option<Written>,
        in_transaction: bool,
        applied: bool,
        commits: bool,
    ) {
        if !applied && self.draw(10) == 0 {
            // The connection is lost, and the client does not know what became of it.
            match self.fault {
                Fault::LostIsEnded => {
                    drop(write);
                    self.lost.push(Written::begin(&Arc::default(), &self.place));
                }
                _ => self.lost.extend(write),
            }
            return;
        }
        if !applied && (!in_transaction || commits) {
            self.drawn += 1;
            self.value = self.drawn;
            self.clients[at] = Doing::Writes { write, in_transaction, applied: true, commits };
        } else if !applied {
            // The statement has been answered; nothing is seen of it before the commit.
            let write = write.filter(|_| self.fault != Fault::ForgetsTransaction);
            self.clients[at] =
                Doing::Writes { write, in_transaction, applied: false, commits: true };
        } else {
            self.end_write(write);
            self.known = self.known.max(self.value);
        }
    }
}

/// The first seed that finds something, and how many hits there were.
fn run(fault: Fault, seeds: u64) -> (Option<(u64, String)>, u64) {
    let mut hits = 0;
    for seed in 1..=seeds {
        let mut world = World::new(seed, fault);
        for _ in 0..400 {
            if let Err(found) = world.step() {
                return (Some((seed, found)), hits);
            }
        }
        hits += world.hits;
    }
    (None, hits)
}

#[test]
fn no_read_finds_less_than_was_known_before_it() {
    let (found, hits) = run(Fault::None, 4000);
    assert_eq!(found, None);
    assert!(hits > 20_000, "{hits} hits are too few to tell anything");
}

#[test]
fn faults_are_found() {
    for fault in FAULTS {
        let (found, _) = run(fault, 4000);
        assert!(found.is_some(), "{fault:?} is not found");
    }
}
