//! The sockets that are listened on, once more: what the Flifo that takes over gets.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The sockets that are listened on, by what comes in there and where.
#[derive(Debug, Default)]
pub(crate) struct Listening(Mutex<HashMap<Door, Kept>>);

/// What comes in, and where.
pub(crate) type Door = (&'static str, String);

#[derive(Debug)]
struct Kept {
    socket: OwnedFd,
    /// Flifo has made its path, and removes it.
    is_own_path: bool,
}

/// One of them, as it is passed on.
#[derive(Debug)]
pub(crate) struct ListeningSocket {
    pub(crate) door: Door,
    pub(crate) socket: OwnedFd,
    pub(crate) is_own_path: bool,
}

impl Listening {
    pub(crate) fn add(&self, door: Door, socket: OwnedFd, is_own_path: bool) {
        self.lock().insert(door, Kept { socket, is_own_path });
    }

    pub(crate) fn remove(&self, door: &Door) {
        self.lock().remove(door);
    }

    /// All of them, on descriptors of their own.
    pub(crate) fn all(&self) -> io::Result<Vec<ListeningSocket>> {
        let copy = |(door, kept): (&Door, &Kept)| {
            let (door, is_own_path) = (door.clone(), kept.is_own_path);
            Ok(ListeningSocket { door, socket: kept.socket.try_clone()?, is_own_path })
        };
        self.lock().iter().map(copy).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Door, Kept>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
