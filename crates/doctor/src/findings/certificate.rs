//! Do clients of other machines that verify by default take the certificate that Flifo shows them?
//!
//! MariaDB's clients from 11.4 on do. They take one that no authority has signed if the password vouches for it, and
//! Flifo can have it vouch only where it knows what the server stores.

use std::collections::BTreeMap;

use crate::facts::{Certificate, FLIFO, Facts, Front};
use crate::judgement::{Finding, Judged, Judgement, Unknown, need};

use super::NO_PROXY;

pub(super) const FINDING: Finding = Finding {
    name: "certificate",
    title: "Certificate for other machines",
    why: "Clients of MariaDB from 11.4 on verify by default when they come from another machine: one that \
          no authority has signed they take only if the password vouches for it, which Flifo can do where \
          it knows what the server stores; else they end with error 2026 or 45056.",
    source: "MDEV-31855; Flifo's manual, compatibility.md",
    judge,
};

fn judge(facts: &Facts) -> Judged {
    if !facts.server.text("version")?.contains("MariaDB") {
        return Ok(Judgement::ok("a server that is no MariaDB vouches for no certificate either"));
    }
    let Some(proxy) = facts.proxy()? else { return Ok(Judgement::ok(NO_PROXY)) };
    if proxy.process.name() != FLIFO {
        let name = proxy.process.name();
        return Err(Unknown(format!("what {name} shows to clients is not looked at")));
    }
    let front = need(&facts.front)?;
    if front.open.is_empty() {
        return Ok(Judgement::ok("clients come from this machine only, and do not verify"));
    }
    match front.certificate {
        Certificate::Given => Ok(Judgement::ok("Flifo shows the certificate that it was given")),
        Certificate::None => {
            let seen = format!("at {} there is no TLS (tls.mode is \"off\")", front.open.join(", "));
            Ok(Judgement::warn(seen).remedy("tls.mode = \"preferred\" in Flifo's configuration"))
        }
        Certificate::MadeUp => vouched(front, need(&facts.server.methods)),
    }
}

/// Whom Flifo can have the password vouch to.
fn vouched(front: &Front, methods: Result<&BTreeMap<String, String>, Unknown>) -> Judged {
    let at = format!("at {} Flifo shows a certificate that it has made up", front.open.join(", "));
    let methods = match methods {
        Ok(methods) => methods,
        Err(why) if front.reads_accounts => return Err(why),
        Err(_) => {
            let seen = format!("{at}, and vouches for it to users of [[users]] with a password alone");
            return Ok(Judgement::warn(seen).remedy(format!("{GIVE}; or {READ}")));
        }
    };
    let is_known = |user: &str| front.reads_accounts || front.known.iter().any(|it| it == user);
    let mut stored_unknown = Vec::new();
    let mut cannot = Vec::new();
    for (user, methods) in methods {
        // By the other, clients of this machine alone log in.
        if front.known.contains(user) || methods == "unix_socket" {
            continue;
        }
        match methods.split(", ").any(|method| VOUCHING.contains(&method)) {
            false => cannot.push(format!("{user} ({methods})")),
            true if !is_known(user) => stored_unknown.push(user.clone()),
            true => {}
        }
    }
    let read = (!stored_unknown.is_empty()).then(|| {
        format!(
            "it does not know what the server stores for {} (server.accounts_user is not set)",
            some(&stored_unknown)
        )
    });
    let other = (!cannot.is_empty())
        .then(|| format!("nothing vouches by the methods of {}", some(&cannot)));
    let remedy = match &read {
        Some(_) => format!("{GIVE}; or {READ}"),
        None => GIVE.to_owned(),
    };
    let why: Vec<_> = read.into_iter().chain(other).collect();
    Ok(match why.is_empty() {
        true => Judgement::ok(format!("{at}, and vouches for it to all {} users", methods.len())),
        false => Judgement::warn(format!("{at}; {}", why.join("; "))).remedy(remedy),
    })
}

/// The first of them, and how many more there are.
fn some(names: &[String]) -> String {
    let first = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

/// What a server stores of them vouches for a certificate.
const VOUCHING: [&str; 3] = ["mysql_native_password", "ed25519", "parsec"];
const NAMED: usize = 5;
const GIVE: &str = "tls.cert and tls.key in Flifo's configuration: a certificate that clients trust";
const READ: &str = "server.accounts_user, which reads what the server stores (flifo init)";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example::{after, is_unknown, proxy, set_variable};
    use crate::judgement::Verdict;
    use sys::tree::Seen::{Denied, Known};

    fn front(facts: &mut Facts) -> &mut Front {
        let Known(front) = &mut facts.front else { panic!("known") };
        front
    }

    fn add(facts: &mut Facts, user: &str, methods: &str) {
        let Known(all) = &mut facts.server.methods else { panic!("known") };
        all.insert(user.to_owned(), methods.to_owned());
    }

    #[test]
    fn users_whose_hash_is_not_known_are_told() {
        let judgement = after(FINDING, |facts| {
            front(facts).reads_accounts = false;
            for user in ["b", "c", "d", "e", "f"] {
                add(facts, user, "unix_socket, ed25519");
            }
        });
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert!(judgement.evidence.contains("app, b, c, d, e and 1 more"), "{judgement:?}");
        let remedy = judgement.remedy.expect("one");
        assert!(remedy.contains("accounts_user") && remedy.contains("tls.cert"), "{remedy}");
        let known = after(FINDING, |facts| {
            front(facts).reads_accounts = false;
            front(facts).known.push("app".to_owned());
        });
        assert_eq!(known.verdict, Verdict::Ok);
    }

    #[test]
    fn a_method_that_nothing_vouches_by_is_told() {
        let judgement = after(FINDING, |facts| add(facts, "clerk", "pam"));
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert!(judgement.evidence.contains("clerk (pam)") && !judgement.evidence.contains("app"));
        assert!(judgement.remedy.is_some_and(|it| !it.contains("accounts_user")));
        let given = |facts: &mut Facts| {
            add(facts, "clerk", "pam");
            front(facts).certificate = Certificate::Given;
        };
        assert_eq!(after(FINDING, given).verdict, Verdict::Ok);
        let near = |facts: &mut Facts| {
            add(facts, "clerk", "pam");
            front(facts).open.clear();
        };
        assert_eq!(after(FINDING, near).verdict, Verdict::Ok);
    }

    #[test]
    fn without_tls_such_clients_are_told() {
        let off = |facts: &mut Facts| front(facts).certificate = Certificate::None;
        assert_eq!(after(FINDING, off).verdict, Verdict::Warn);
        let mysql = |facts: &mut Facts| {
            off(facts);
            set_variable(facts, "version", "9.7.0");
        };
        assert_eq!(after(FINDING, mysql).verdict, Verdict::Ok);
    }

    #[test]
    fn what_is_not_seen_is_unknown() {
        let hide = |facts: &mut Facts| facts.server.methods = Denied("SELECT".to_owned());
        assert!(is_unknown(FINDING, hide));
        // Then it is certain that there are such users, and only not which.
        let judgement = after(FINDING, |facts| {
            hide(facts);
            front(facts).reads_accounts = false;
        });
        assert_eq!(judgement.verdict, Verdict::Warn);
        assert!(is_unknown(FINDING, |facts| facts.front = Denied("its file".to_owned())));
        assert!(is_unknown(FINDING, |facts| {
            let Known(line) = &mut proxy(facts).line else { panic!("known") };
            line.name = "proxysql".to_owned();
        }));
    }
}
