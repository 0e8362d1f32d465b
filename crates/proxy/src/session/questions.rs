//! What a backend is asked before it is taken from the client whose diagnostics it has. The client's next command waits
//! until the backend has answered.
//!
//! Invariant: a backend goes to another client only if all that it alone knows of its client is known here, or known to
//! be lost, where the server does not understand the questions. However much there is of it, the backend goes: what is
//! too long to be kept here is counted.

use engine::kept::{BYTES_MAX, COUNTS, NUMBERS, STATES, SavedDiagnostics, WARNINGS};
use engine::session::setup::{Purpose, Question, Setup, Step};
use engine::session::{CHARSET, Diagnostics};
use wire::rows;

use crate::fault::Fault;
use crate::session::backend_reset::is_mysql;
use crate::session::session_setup;
use crate::state::backend::Backend;
use crate::state::client::Client;
use crate::state::in_flight::{Answers, InFlight, Said};
use crate::state::worker::Worker;

/// The questions, in this order: the first one still finds the rows that its client has found.
const MARIADB: &[(Question, &str)] =
    &[(Question::Numbers, NUMBERS), (Question::Diagnostics, WARNINGS), (Question::States, STATES)];

/// MySQL has no diagnostics any more when it has been asked for the numbers, and `SHOW` finds no rows there.
const MYSQL: &[(Question, &str)] =
    &[(Question::Diagnostics, WARNINGS), (Question::Numbers, COUNTS)];

/// The same where it has to say how many rows were found, too: then the diagnostics are counted here.
const MYSQL_WITH_FOUND: &[(Question, &str)] =
    &[(Question::Diagnostics, WARNINGS), (Question::Numbers, NUMBERS)];

/// What this backend is asked, or is being asked.
pub(crate) fn of(worker: &Worker, backend: &Backend) -> &'static [(Question, &'static str)] {
    let tells_found = backend.capture.borrow().as_ref().is_some_and(|it| it.tells_found);
    match (is_mysql(worker, backend), tells_found) {
        (false, _) => MARIADB,
        (true, false) => MYSQL,
        (true, true) => MYSQL_WITH_FOUND,
    }
}

/// More than this is not read of an answer: the diagnostics that may be kept, and the columns ahead of them.
const ANSWER_MAX: usize = BYTES_MAX + (4 << 10);

/// Asks a backend on which nothing runs, and whose client has nothing on it but diagnostics.
pub(crate) fn begin(worker: &Worker, client: &Client, backend: &Backend) {
    let counts = client.session.borrow().counts;
    let tells_found = counts.are_found_on(backend.id);
    let tells_affected = counts.are_affected_on_backend();
    backend.capture.replace(Some(Answers { tells_found, tells_affected, ..Answers::default() }));
    backend.in_one_write(|| {
        for (question, text) in of(worker, backend) {
            session_setup::send(backend, Setup::query(Purpose::Capture(*question), text));
        }
    });
    // The questions count rows of their own.
    client.session.borrow_mut().counts.lose(backend.id);
}

/// Whether this client's backend is being asked: its command has to wait.
pub(crate) fn is_asked(client: &Client) -> bool {
    client.is_pooled() && client.backend().is_some_and(|backend| backend.capture.borrow().is_some())
}

/// Part of an answer, of which the follower needs no more.
pub(crate) fn listen(flight: &mut InFlight, bytes: &[u8]) {
    let keep = |mut reply: Vec<u8>| {
        reply.extend_from_slice(bytes);
        // Cut off, only diagnostics can be read.
        reply.truncate(ANSWER_MAX);
        Said::Reply(reply)
    };
    let (Purpose::Capture(_) | Purpose::Found { .. } | Purpose::Reset(Step::Ask)) = flight.purpose
    else {
        return;
    };
    if bytes.is_empty() {
        return;
    }
    flight.said = match (std::mem::take(&mut flight.said), &flight.purpose) {
        (Said::Nothing, Purpose::Found { .. }) if flight.follower.is_done() => {
            Said::Numbers(rows::numbers(bytes))
        }
        (Said::Reply(reply), _) => keep(reply),
        (Said::Nothing, _) => keep(Vec::new()),
        (said @ Said::Numbers(_), _) => said,
    };
}

/// Learns from the answers. False: the server does not understand the questions, or its first message is longer than
/// what is kept of a client.
pub(crate) fn learn(
    worker: &Worker,
    client: &Client,
    backend: &Backend,
    answers: &Answers,
) -> bool {
    let text = |at: usize| std::str::from_utf8(answers.numbers.first()?.get(at)?.as_deref()?).ok();
    let number = |at: usize| -> Option<u64> { text(at)?.parse().ok() };
    let mut session = client.session.borrow_mut();
    if let Some(found) = number(0).filter(|_| answers.tells_found) {
        session.counts.tell_found(found);
    }
    let affected = text(3).and_then(|affected| affected.parse().ok());
    if let Some(affected) = affected.filter(|_| answers.tells_affected) {
        session.counts.tell_affected(affected);
    }
    let (Some(warnings), Some(errors), false) = (number(1), number(2), answers.failed) else {
        return false;
    };
    let (warnings, errors) = match answers.tells_found && is_mysql(worker, backend) {
        false => (warnings, errors),
        true => {
            let (rows, errors) = SavedDiagnostics::count(&answers.diagnostics);
            // It may keep fewer than it counts.
            (rows.max(session.told().map_or(0, u64::from)), errors)
        }
    };
    session.hear_told(warnings);
    match session.diagnostics() {
        Diagnostics::Marked => session.resolve_diagnostics(warnings),
        Diagnostics::OnBackend => {
            let told = backend.session.borrow();
            let charset = told.settings().get(CHARSET).unwrap_or_default();
            let numbers = (warnings, errors);
            let (diagnostics, states) = (&answers.diagnostics, &answers.states);
            match SavedDiagnostics::read(numbers, diagnostics, states, charset) {
                Some(kept) => session.hear_diagnostics(kept),
                None => return false,
            }
        }
        Diagnostics::None | Diagnostics::Kept | Diagnostics::Lost => {}
    }
    true
}

/// The client's last message is this error, of which no server knows.
pub(crate) fn keep_fault(client: &Client, fault: &Fault) {
    let (code, state) = fault.code();
    client.session.borrow_mut().keep_error(code, state, fault.message.as_bytes());
}
