//! What is known of a cluster's servers, written down for another process: the one that takes over from this one, or the
//! one after it.
//!
//! Servers go by their places. Owns the form; what is made of it is decided by [`super::Cluster::remember`]. Times are not
//! written down: which server holds what is proved anew. Invariant: what is remembered makes no server the writer that
//! has not said to this process that it can be written to.

use serde::{Deserialize, Serialize};

use super::position::Position;

/// What is known of all servers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServersMemory {
    /// The writer, or the last one.
    pub writer: Option<usize>,
    pub servers: Vec<Remembered>,
}

/// What is known of one server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remembered {
    /// Another one has become the writer in its place.
    pub replaced: bool,
    /// An operator wants it as the writer, whatever it lacks.
    pub confirmed: bool,
    /// Where it was when it was asked last.
    pub last: Position,
    /// The number of the view of its cluster.
    pub view: Option<u64>,
    /// What was acknowledged there, as far as nothing was decided of that.
    pub had: Vec<Position>,
    /// It has less than it had before, of which this was acknowledged; nothing was decided of that.
    pub past: Option<Vec<Position>>,
    /// Where it went back to.
    pub base: Position,
    /// How far it had come before that.
    #[serde(default)]
    pub shown: Position,
    /// What it took was decided on while it was gone.
    #[serde(default)]
    pub is_decided: bool,
    /// It may have numbers of these servers from before they went back.
    pub doubted: Vec<usize>,
}
