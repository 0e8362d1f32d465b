//! How evenly clients are served that share few backend connections: each asks over and over, and what it has got is
//! counted.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use crate::fake_client::{FakeClient, Refusal};
use crate::world::jain;

/// What a client does again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Statements,
    /// Of two statements each.
    Transactions,
}

impl Work {
    pub const ALL: [Self; 2] = [Self::Statements, Self::Transactions];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Statements => "statements",
            Self::Transactions => "transactions",
        }
    }

    const fn texts(self) -> &'static [&'static str] {
        match self {
            Self::Statements => &["SELECT 1"],
            Self::Transactions => &["BEGIN", "SELECT 1", "SELECT 2", "COMMIT"],
        }
    }
}

/// How often each client came through, the least first, and the errors that were seen.
#[derive(Debug)]
pub struct Served {
    pub counts: Vec<u64>,
    pub errors: u64,
}

impl Served {
    /// Jain's index over the clients.
    pub fn jain(&self) -> f64 {
        jain(self.counts.iter().map(|count| *count as f64))
    }

    pub fn sum(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// Has so many clients work for so long. All are logged in before the first begins.
///
/// # Panics
/// If a client cannot log in.
pub fn serve(
    port: u16,
    (user, password): (&str, &str),
    clients: usize,
    work: Work,
    length: Duration,
) -> Served {
    let is_over = Arc::new(AtomicBool::new(false));
    let begin = Arc::new(Barrier::new(clients + 1));
    let connected: Vec<_> =
        (0..clients).map(|_| FakeClient::login(port, user, password).expect("a login")).collect();
    let tasks: Vec<_> = connected
        .into_iter()
        .map(|mut client| {
            let (is_over, begin) = (Arc::clone(&is_over), Arc::clone(&begin));
            thread::spawn(move || {
                begin.wait();
                let (mut count, mut errors) = (0, 0);
                while !is_over.load(Relaxed) {
                    match one(&mut client, work) {
                        Ok(()) => count += 1,
                        Err(_) => errors += 1,
                    }
                }
                (count, errors)
            })
        })
        .collect();
    begin.wait();
    thread::sleep(length);
    is_over.store(true, Relaxed);
    let served = tasks.into_iter().map(|task| task.join().expect("a client"));
    let (mut counts, errors): (Vec<u64>, Vec<u64>) = served.unzip();
    counts.sort_unstable();
    Served { counts, errors: errors.iter().sum() }
}

fn one(client: &mut FakeClient, work: Work) -> Result<(), Refusal> {
    work.texts().iter().try_for_each(|text| client.query(text).map(drop))
}
