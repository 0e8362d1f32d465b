//! Compares a login through Flifo with the direct one.
//!
//! More than directly is a defect; less is counted by its reason. One kind of more cannot be known without the server's
//! table of accounts: that of two accounts of one name that both match the client, the server chooses the more special
//! one directly, and the other one for Flifo.

use engine::account::host::{HostBrand as Rules, Match, matches};
use engine::account::name::{Brand, Packet, Unsure, UserName};
use engine::account::row::{Choice, Row, choose};

use super::account::{Account, Require};
use super::attempt::{Attempt, Door, Outcome};
use super::generate::Leg;
use super::site::Way;

/// The collation of all clients: utf8mb4_general_ci.
const UTF8MB4: u16 = 45;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Same,
    /// Refused by Flifo alone, for this reason.
    Less(String),
    More,
    /// More, as cannot be known in this way.
    Unknowable,
}

/// What a login through Flifo comes to.
pub fn judge(
    attempt: &Attempt,
    way: Way,
    accounts: &[Account],
    rules: Rules,
    direct: &Outcome,
    through: &Outcome,
) -> Verdict {
    match (direct, through) {
        (_, Outcome::Out { .. }) if !direct.is_in() => Verdict::Same,
        (_, Outcome::Out { code, message }) => Verdict::Less(format!("{code} {}", reason(message))),
        _ if direct == through => Verdict::Same,
        (_, Outcome::In { account, .. }) => {
            // The table has names without the spaces at their ends.
            let is_told = |name: UserName| !name.as_bytes().ends_with(b" ");
            let is_known = way == Way::Accounts && name(attempt, rules).is_ok_and(is_told);
            if !is_known && is_shadowed(attempt, accounts, rules, account) {
                Verdict::Unknowable
            } else {
                Verdict::More
            }
        }
    }
}

/// A login through Flifo.
pub struct Asked<'a> {
    pub attempt: &'a Attempt,
    pub way: Way,
    pub leg: Leg,
}

/// Whether a client is refused that should be let in: where Flifo knows all accounts, the server gives Flifo the very
/// account that the client has, and the client is told that its password is wrong, that a method is not known, or
/// nothing that vouches for the certificate.
pub fn is_undue(
    asked: &Asked<'_>,
    accounts: &[Account],
    rules: Rules,
    direct: &Outcome,
    through: &Outcome,
) -> bool {
    let Asked { attempt, way, leg } = asked;
    let (Outcome::In { account, .. }, Outcome::Out { code, message }) = (direct, through) else {
        return false;
    };
    let is_of_password = match code {
        1045 => message.contains("using password: YES"),
        1429 => message.contains("plugin"),
        2026 => true,
        _ => false,
    };
    let account = account.rsplit_once(' ').map_or(&account[..], |(account, _)| account);
    let Some((user, host)) = account.rsplit_once('@') else { return false };
    // An account without a name has none that the table tells of. What an account demands whose name ends with spaces
    // is not known for certain, since the table has the name without them.
    let demands = |it: &Account| {
        it.user == user && it.host == host && !matches!(it.require, Require::None | Require::Ssl)
    };
    let is_unclear = *code == 1045 && user.ends_with(' ') && accounts.iter().any(demands);
    if *way != Way::Accounts || !is_of_password || user.is_empty() || is_unclear {
        return false;
    }
    let flifo = if leg.is_socket { Door::Socket } else { Door::SocketForTcp };
    let is_given = |door: Door| match choose(&rows(accounts, user), door.origin(), rules) {
        Choice::One(row) => row.user == user.as_bytes() && row.host == host.as_bytes(),
        Choice::None | Choice::Unclear => false,
    };
    matches!(attempt.door, Door::Tcp(_)) && is_given(attempt.door) && is_given(flifo)
}

/// Whether this account matches the client too, and only another one is more special.
fn is_shadowed(attempt: &Attempt, accounts: &[Account], rules: Rules, account: &str) -> bool {
    let (account, _) = account.rsplit_once(' ').unwrap_or((account, ""));
    let Some((user, host)) = account.rsplit_once('@') else { return false };
    let rows = rows(accounts, user);
    let origin = attempt.door.origin();
    let is_match = matches(host.as_bytes(), origin, rules) == Match::Yes;
    let is_chosen = match choose(&rows, origin, rules) {
        Choice::One(row) => row.user == user.as_bytes() && row.host == host.as_bytes(),
        Choice::None | Choice::Unclear => false,
    };
    !user.is_empty() && is_match && !is_chosen
}

/// The accounts among which the server chooses for a name.
pub fn rows(accounts: &[Account], user: &str) -> Vec<Row> {
    let of_name = |it: &&Account| it.user == user || it.user.is_empty();
    accounts.iter().filter(of_name).map(Account::row).collect()
}

/// Whether the rules choose the account that the server has chosen.
pub fn is_as_ruled(
    attempt: &Attempt,
    accounts: &[Account],
    rules: Rules,
    direct: &Outcome,
) -> bool {
    let Outcome::In { account, .. } = direct else { return true };
    let (account, _) = account.rsplit_once(' ').unwrap_or((account, ""));
    let Some((user, host)) = account.rsplit_once('@') else { return true };
    // By which name the client is known does not show where an account has none.
    let Ok(read) = name(attempt, rules) else { return true };
    let name = if user.is_empty() { read.to_string() } else { user.to_owned() };
    let rows = rows(accounts, &name);
    match choose(&rows, attempt.door.origin(), rules) {
        Choice::One(row) => {
            row.user == user.as_bytes() && row.host.eq_ignore_ascii_case(host.as_bytes())
        }
        Choice::None => false,
        Choice::Unclear => true,
    }
}

/// The client's name as the server reads it.
fn name(attempt: &Attempt, rules: Rules) -> Result<UserName, Unsure> {
    let brand = if rules == Rules::MariaDb { Brand::MariaDb } else { Brand::MySql };
    let packet = if attempt.is_change() { Packet::ChangeUser } else { Packet::Login };
    UserName::read(attempt.name.as_bytes(), UTF8MB4, packet, brand)
}

/// A message without what is another one each time.
fn reason(message: &str) -> String {
    let mut reason = String::new();
    for (at, part) in message.split('\'').enumerate() {
        if at % 2 == 0 {
            reason.extend(part.chars().map(|it| if it.is_ascii_digit() { '#' } else { it }));
        } else {
            reason.push_str("'…'");
        }
    }
    reason.chars().take(160).collect()
}
