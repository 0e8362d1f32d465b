//! On what terms a client may use an account, beyond its password.
//!
//! A server holds its own clients to them; Flifo holds those to them that it lets in itself, whose shared connections
//! the server cannot tell apart.

use std::time::Duration;

/// What an account demands and allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Terms {
    pub transport: Transport,
    pub is_locked: bool,
    pub has_expired: bool,
    /// Connections at once (`MAX_USER_CONNECTIONS`); below zero: none but an administrator's.
    pub at_once: Option<i64>,
    /// `MAX_CONNECTIONS_PER_HOUR`.
    pub per_hour: Option<u64>,
}

/// What an account demands of the connection (`REQUIRE`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    #[default]
    Any,
    Tls,
    /// A certificate of the client's, or a certain cipher.
    Certificate,
}

/// How a client has come, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leg {
    Plain,
    Tls,
}

/// Why a client with the right password is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    NeedsTls,
    NeedsCertificate,
    AtOnce(i64),
    PerHour(u64),
}

/// Connections of an account within an hour, counted as servers do: from the first one on, then anew.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hour {
    begun: Option<Duration>,
    count: u64,
}

const HOUR: Duration = Duration::from_hours(1);

impl Terms {
    /// Whether the server lets in no client of the account, however it comes. It says so in its own words.
    pub const fn are_refused(&self) -> bool {
        self.is_locked || self.has_expired
    }

    /// Whether a client that comes so may be let in; how many there are is [`Self::enter`]'s.
    pub const fn allow(&self, leg: Leg) -> Result<(), Breach> {
        match (&self.transport, leg) {
            (Transport::Tls, Leg::Plain) => Err(Breach::NeedsTls),
            // What the client has shown of itself is not what the server would be shown.
            (Transport::Certificate, _) => Err(Breach::NeedsCertificate),
            _ => Ok(()),
        }
    }

    /// Counts a connection beside `others` of the account at this time, if it may be.
    pub fn enter(&self, others: u64, hour: &mut Hour, now: Duration) -> Result<(), Breach> {
        if let Some(max) = self.at_once
            && u64::try_from(max).map_or(true, |max| max <= others)
        {
            return Err(Breach::AtOnce(max));
        }
        let Some(max) = self.per_hour else { return Ok(()) };
        if hour.begun.is_none_or(|begun| HOUR <= now.saturating_sub(begun)) {
            *hour = Hour { begun: Some(now), count: 0 };
        }
        if max <= hour.count {
            return Err(Breach::PerHour(max));
        }
        hour.count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_is_held_to_what_its_account_demands() {
        let open = Terms::default();
        let transport = |transport| Terms { transport, ..open.clone() };
        for (terms, plain, tls) in [
            (open.clone(), None, None),
            (transport(Transport::Tls), Some(Breach::NeedsTls), None),
            (
                transport(Transport::Certificate),
                Some(Breach::NeedsCertificate),
                Some(Breach::NeedsCertificate),
            ),
        ] {
            assert_eq!(terms.allow(Leg::Plain).err(), plain, "{terms:?}");
            assert_eq!(terms.allow(Leg::Tls).err(), tls, "{terms:?}");
            assert!(!terms.are_refused(), "{terms:?}");
        }
        assert!(Terms { is_locked: true, ..open.clone() }.are_refused());
        assert!(Terms { has_expired: true, ..open }.are_refused());
    }

    #[test]
    fn connections_are_counted_at_once_and_in_an_hour() {
        let (mut hour, at) = (Hour::default(), Duration::from_secs);
        let terms = Terms { at_once: Some(2), per_hour: Some(3), ..Terms::default() };
        assert_eq!(terms.enter(2, &mut hour, at(0)), Err(Breach::AtOnce(2)));
        for second in 0..3 {
            assert_eq!(terms.enter(1, &mut hour, at(second)), Ok(()));
        }
        assert_eq!(terms.enter(1, &mut hour, at(3599)), Err(Breach::PerHour(3)));
        assert_eq!(terms.enter(1, &mut hour, at(3600)), Ok(()));
        let none = Terms { at_once: Some(-1), ..Terms::default() };
        assert_eq!(none.enter(0, &mut hour, at(0)), Err(Breach::AtOnce(-1)));
        assert_eq!(Terms::default().enter(u64::MAX, &mut hour, at(0)), Ok(()));
    }
}
