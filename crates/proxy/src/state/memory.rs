//! Room for long commands that are read as a whole: each claims it before the rest of it is read ([`engine::claims`]).

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use engine::account::name::UserName;
use engine::budget::CommandRooms;
use engine::claims::Claims;
use wire::frame::HEADER;

use crate::worker::buffers::PIECE;

/// Commands up to this claim of a room of their own, in bytes, which the longer ones cannot fill.
const SHORT: usize = 1 << 20;

/// A worker's memory for long commands.
pub(crate) struct Memory {
    /// The longest such payload, in bytes; usually what drivers that go by the server's `max_allowed_packet` hardly
    /// exceed. How long it takes to judge is bounded by [`wire::text::TOKENS_MAX`], whose list is in none of the rooms:
    /// it is gone when the text has been read.
    longest: usize,
    /// For the short ones, and for two of the longest with their headers.
    rooms: [RefCell<Claims<UserName, Waiter>>; 2],
}

/// What is claimed of a room, in bytes, and how much there is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RoomReport {
    pub(crate) claimed: usize,
    pub(crate) room: usize,
}

/// A client whose command waits for room.
struct Waiter {
    claimant: Rc<dyn Claimant>,
    user: UserName,
    whole: usize,
}

/// What waits for room.
pub(crate) trait Claimant {
    fn id(&self) -> u32;

    /// There is room for its command now.
    fn admit(&self, room: ReservedMemory);
}

/// The room of a long command, from when it begins to be read until it is on its way.
pub(crate) struct ReservedMemory {
    memory: Rc<Memory>,
    user: UserName,
    claim: usize,
    /// How long the command is by what is there of it, headers included.
    pub(crate) whole: usize,
}

impl Memory {
    pub(crate) fn new(rooms: CommandRooms) -> Self {
        let longest = (rooms.long / 2).saturating_sub(PIECE);
        let rooms = [rooms.short, rooms.long].map(|room| RefCell::new(Claims::new(room)));
        Self { longest, rooms }
    }

    /// A longer payload goes on in pieces.
    pub(crate) const fn longest(&self) -> usize {
        self.longest
    }

    /// What is claimed of each room, and how large it is.
    pub(crate) fn rooms(&self) -> [RoomReport; 2] {
        self.rooms.each_ref().map(|room| {
            let room = room.borrow();
            RoomReport { claimed: room.claimed(), room: room.room() }
        })
    }

    fn room(&self, claim: usize) -> &RefCell<Claims<UserName, Waiter>> {
        &self.rooms[usize::from(claim > SHORT + HEADER)]
    }

    /// Those that have room now are read on.
    fn pass_on(self: &Rc<Self>, claim: usize) {
        loop {
            // Not in the loop's head, where the room would be borrowed for as long as its body.
            let next = self.room(claim).borrow_mut().admit();
            let Some((Waiter { claimant, user, whole }, claim)) = next else { break };
            claimant.admit(ReservedMemory { memory: Rc::clone(self), user, claim, whole });
        }
    }

    /// Room for so much, if there is some now; else the claimant waits for it. `whole`: how long the command is by what
    /// is there of it.
    pub(crate) fn claim(
        self: &Rc<Self>,
        user: &UserName,
        claim: usize,
        whole: usize,
    ) -> Option<ReservedMemory> {
        let is_there = self.room(claim).borrow_mut().claim(user, claim);
        let room = || ReservedMemory { memory: Rc::clone(self), user: user.clone(), claim, whole };
        is_there.then(room)
    }

    /// The claimant waits for room.
    pub(crate) fn wait(
        &self,
        claimant: Rc<dyn Claimant>,
        user: &UserName,
        claim: usize,
        whole: usize,
        now: Instant,
    ) {
        let waiter = Waiter { claimant, user: user.clone(), whole };
        self.room(claim).borrow_mut().wait(user, claim, waiter, now);
    }

    /// A claimant that waits is gone.
    pub(crate) fn leave(self: &Rc<Self>, user: &UserName, id: u32) {
        for (room, claim) in self.rooms.iter().zip([0, usize::MAX]) {
            let left = room.borrow_mut().leave(user, |waiter: &Waiter| waiter.claimant.id() == id);
            if left.is_some() {
                self.pass_on(claim);
            }
        }
    }

    /// The claimant whose command has waited for so long, and how much of its room others have.
    pub(crate) fn expire(
        self: &Rc<Self>,
        now: Instant,
        max: Duration,
    ) -> Option<(u32, usize, usize)> {
        self.rooms.iter().zip([0, usize::MAX]).find_map(|(room, claim)| {
            if !room.borrow().has_waiters() {
                return None;
            }
            let late = room.borrow_mut().expire(now, max)?;
            self.pass_on(claim);
            let room = room.borrow();
            Some((late.claimant.id(), room.claimed(), room.room()))
        })
    }
}

impl Drop for ReservedMemory {
    fn drop(&mut self) {
        self.memory.room(self.claim).borrow_mut().end(&self.user, self.claim);
        self.memory.pass_on(self.claim);
    }
}
