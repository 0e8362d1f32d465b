//! The variables by which a client asks its server to report changes of its session, and what of that is reported to a
//! client that asks for more than any client is told of.

/// One kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Other variables than those that servers report by default.
    Variables,
    /// That something has changed which is not named.
    State,
    /// What transaction is open, and what the next one will be.
    Transactions,
}

crate::marks!(Listen);

/// What sets one of them, to this value on a backend of Flifo's.
pub(crate) const TRACKERS: [(&[u8], &[u8], Option<Listen>); 3] = [
    (b"session_track_schema", b"ON", None),
    (b"session_track_state_change", b"ON", Some(Listen::State)),
    (b"session_track_transaction_info", b"CHARACTERISTICS", Some(Listen::Transactions)),
];

/// Whether a variable is a tracker that has the value by which Flifo is told all.
pub fn is_as_told(name: &[u8], value: &[u8]) -> bool {
    name == b"session_track_system_variables" && value == b"*"
        || TRACKERS.iter().any(|(of, told, _)| *of == name && *told == value)
}
