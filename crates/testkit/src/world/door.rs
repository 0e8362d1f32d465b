//! What stands between the clients and the server.

use super::flifo::Process;
use super::note::NoteGate;

#[derive(Debug)]
pub enum Door {
    /// Nothing: each client's statement runs at once.
    Open,
    /// A gate inside of the server, which holds the clients' threads.
    Note(NoteGate),
    /// Flifo: one process or several, among which the clients are spread.
    Flifo(Vec<Process>),
}
