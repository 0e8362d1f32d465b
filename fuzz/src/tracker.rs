//! Reported changes are read once each, and a session never takes what it cannot read for harmless.

use engine::backend_session::BackendSession;
use engine::session::Session;
use engine::session_variables::Interned;
use wire::response::{OkPacket, Status};
use wire::tracker::{Change, Changes, put_change};

/// The bytes are the tail of an OK packet.
pub fn run(data: &[u8]) {
    let read: Vec<_> = Changes::new(data).collect();
    // Each change takes two bytes at least.
    assert!(read.len() <= data.len().div_ceil(2));
    let first_error = read.iter().position(Result::is_err);
    assert!(first_error.is_none_or(|at| at + 1 == read.len()), "an error is the last");

    let mut written = Vec::new();
    let good: Vec<Change<'_>> = read.iter().copied().map_while(Result::ok).collect();
    for change in &good {
        put_change(&mut written, *change);
    }
    let again: Result<Vec<_>, _> = Changes::new(&written).collect();
    assert_eq!(again.as_deref(), Ok(&good[..]));

    let status = Status(Status::AUTOCOMMIT.0 | Status::STATE_CHANGED.0);
    let ok = OkPacket { status, changes: data, ..OkPacket::EMPTY };
    let mut session = Session::default();
    // Of a backend that is known to have no variables, each one that is reported is a surprise.
    let (mut backend, mut interned) = (BackendSession::default(), Interned::default());
    let reason = session.see_ok(1, &ok, &mut backend, &mut interned, None);
    assert!(backend.suits(&session), "a client's own backend connection is what it needs");
    assert_eq!(reason, session.pin());
    let leaves_state = |change: &Change<'_>| match change {
        // What Flifo asks for on each backend is no surprise.
        Change::Variable { name, value } => {
            *name != b"statement_id" && !engine::trackers::is_as_told(name, value)
        }
        Change::Other(_) => true,
        Change::TransactionState(state) => state.ends_with(b"L"),
        _ => false,
    };
    if first_error.is_some() || good.iter().any(leaves_state) {
        assert!(session.holds_backend());
    }
}
