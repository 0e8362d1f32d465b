//! What the road asks of each server, as numbers: its cluster, whether it is read from, what it holds.
//!
//! Owns the numbers; [`crate::cluster::members`] decides and publishes them. They stand by the servers' places among
//! all, so that a statement finds them without asking for a cluster first.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use engine::marks::AtomicMarks;

use crate::cluster::members::ClusterId;
use crate::cluster::servers::ServerId;

/// Those of all servers.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    all: boxcar::Vec<Seat>,
    /// There is, or was, more than one server, or a list of them: each statement is routed.
    are_routed: AtomicBool,
    /// There is, or was, more than one cluster.
    are_several: AtomicBool,
}

/// What the road asks of a server.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) cluster: ClusterId,
    /// Its place in that.
    pub(super) at: usize,
    pub(super) weight: AtomicU32,
    pub(super) marks: AtomicMarks<Mark>,
    /// What it holds of what each server of its cluster took: [`UNTOLD`], [`NOTHING`], [`ALL`], or all that was
    /// acknowledged before this moment, in microseconds since the cluster's origin.
    pub(super) holds: boxcar::Vec<AtomicU64>,
    /// Its weight for now, in thousandths.
    pub(super) share: AtomicU32,
    /// The last transaction of which a client was told since that was looked at: domain and server in halves of the
    /// first, of which only the lowest count; its number in the second, zero is none.
    pub(super) acknowledged: [AtomicU64; 2],
}

/// What a server is, as the road sees it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mark {
    Writer,
    Reader,
    Usable,
    /// Its role may be another one by now, and a check is on its way.
    Doubted,
    /// It answers, and is able to work in its cluster if it is in one.
    Answers,
    /// It has come up, and must show that it can bear load.
    OnTrial,
    /// A statement is its trial.
    Tried,
}

engine::marks!(Mark);

pub(super) const UNTOLD: u64 = 0;
pub(super) const NOTHING: u64 = 1;
pub(super) const ALL: u64 = u64::MAX;

impl Seat {
    /// That of a server of which nothing is known.
    pub(super) fn new(cluster: ClusterId, at: usize, weight: u32) -> Self {
        let marks = AtomicMarks::default();
        marks.set(Mark::Usable, true);
        Self {
            cluster,
            at,
            weight: AtomicU32::new(weight),
            marks,
            holds: boxcar::Vec::new(),
            share: AtomicU32::new(weight * 1000),
            acknowledged: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// Its cluster has so many servers now.
    pub(super) fn meet(&self, servers: usize) {
        while self.holds.count() < servers {
            self.holds.push(AtomicU64::new(UNTOLD));
        }
    }
}

impl Seats {
    /// One thread adds seats, in the order of the servers.
    pub(super) fn add(&self, seat: Seat) -> ServerId {
        ServerId(self.all.push(seat))
    }

    #[inline]
    pub(super) fn get(&self, server: ServerId) -> &Seat {
        &self.all[server.0]
    }

    /// Whether statements are routed.
    #[inline]
    pub(crate) fn are_routed(&self) -> bool {
        self.are_routed.load(Relaxed)
    }

    pub(super) fn route(&self) {
        self.are_routed.store(true, Relaxed);
    }

    /// Whether there is, or was, more than one cluster.
    #[inline]
    pub(crate) fn are_several(&self) -> bool {
        self.are_several.load(Relaxed)
    }

    pub(super) fn tell_apart(&self) {
        self.are_several.store(true, Relaxed);
    }
}
