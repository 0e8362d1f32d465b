//! Which peers have vanished: a machine without power, or behind a firewall that drops what it has forgotten, ends no
//! connection. The kernel probes connections at rest; this is about those on which something was sent.
//!
//! Not `TCP_USER_TIMEOUT`: it also ends a peer that lives and takes nothing for a while, such as a client that works on
//! the rows that it has read. That peer answers the probes of its window.

use std::time::Duration;

/// What a connection's own kernel has heard of its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Since the peer has acknowledged anything, or has answered a probe.
    pub last: Duration,
    /// Packets that it has not acknowledged.
    pub unacknowledged: u32,
    /// How often in a row they were sent again in vain.
    pub repeats: u32,
    /// Probes in a row that it has not answered.
    pub probes: u32,
}

/// So often it must have been asked in vain: a network loses packets.
const ASKED: u32 = 2;

/// Whether a peer is asked and says nothing. By itself that may be a network that loses some packets.
const fn is_silent(heard: &Heard) -> bool {
    heard.unacknowledged > 0 && heard.repeats >= ASKED || heard.probes >= ASKED
}

/// Whether it has said nothing for so long that it has vanished.
pub fn has_vanished(heard: &Heard, silence_max: Duration) -> bool {
    is_silent(heard) && heard.last >= silence_max
}

/// What traffic had from a server when checks first had no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quiet<T> {
    since: T,
    answered: u64,
}

impl<T: PartialEq + Copy> Quiet<T> {
    /// Checks have had no answer since then, as is told again and again; traffic has had so much by now. Whether it has
    /// had nothing since that was told first: else checks are wrong.
    pub fn goes_on(known: &mut Option<Self>, since: T, answered: u64) -> bool {
        match known {
            Some(first) if first.since == since => first.answered == answered,
            _ => {
                *known = Some(Self { since, answered });
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const WELL: Heard = Heard { last: SECOND, unacknowledged: 0, repeats: 0, probes: 0 };

    #[test]
    fn a_peer_at_rest_has_not_vanished_and_one_that_is_asked_in_vain_has() {
        let hour = Duration::from_hours(1);
        let vanished = |heard| has_vanished(&heard, 40 * SECOND);
        // Nothing was sent to it: what is sent next may be answered.
        assert!(!vanished(Heard { last: hour, ..WELL }));
        assert!(!vanished(Heard { last: hour, unacknowledged: 3, ..WELL }), "just sent");
        let lost = Heard { unacknowledged: 1, repeats: 6, ..WELL };
        assert!(!vanished(lost) && vanished(Heard { last: 40 * SECOND, ..lost }));
        // Its window is full: it lives as long as it answers probes.
        assert!(!vanished(Heard { last: hour, probes: 1, ..WELL }));
        assert!(vanished(Heard { last: hour, probes: 4, ..WELL }));
        // All was acknowledged since it was sent again.
        assert!(!vanished(Heard { last: hour, repeats: 6, ..WELL }));
    }

    #[test]
    fn a_server_that_answers_statements_is_not_silent_whatever_checks_say() {
        let mut known = None;
        assert!(!Quiet::goes_on(&mut known, 1, 70), "nothing is known of traffic yet");
        assert!(Quiet::goes_on(&mut known, 1, 70));
        assert!(!Quiet::goes_on(&mut known, 1, 71));
        assert!(!Quiet::goes_on(&mut known, 1, 71), "it was answered in it");
        assert!(!Quiet::goes_on(&mut known, 2, 71), "another silence");
        assert!(Quiet::goes_on(&mut known, 2, 71));
    }
}
