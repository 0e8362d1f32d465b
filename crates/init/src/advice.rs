//! What a set-up leaves to be done by people. Pure.

use std::net::SocketAddr;

use crate::{Facts, Wishes};

/// Which clients of other machines will refuse Flifo's certificate, and what helps; `None`: none will.
pub fn certificate(facts: &Facts, wishes: &Wishes) -> Option<String> {
    let is_near = |address: SocketAddr| address.ip().is_loopback();
    if !facts.is_mariadb || wishes.listen.parse().is_ok_and(is_near) {
        return None;
    }
    let others = match facts.unvouched.as_deref() {
        Some("") => return None,
        Some(users) => format!("Users of other methods: {users}."),
        None => "Which users have other methods, this user may not ask.".to_owned(),
    };
    Some(format!(
        "Clients of MariaDB from 11.4 on that come from other machines verify by default. They take the certificate \
         that Flifo\nmakes up where the password vouches for it: by mysql_native_password, ed25519 and parsec. {others}\n\
         Give Flifo a certificate that the clients of such users trust: tls.cert and tls.key in {}.",
        wishes.layout.config().display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Layout;
    use crate::facts::{Follows, Package};

    fn said(is_mariadb: bool, unvouched: Option<&str>, listen: &str) -> Option<String> {
        let facts = Facts {
            server: "/run/mysqld/mysqld.sock".parse().expect("an address"),
            brand: String::new(),
            is_mariadb,
            follows: Follows::Nothing,
            administers: true,
            unvouched: unvouched.map(str::to_owned),
            is_root: true,
            has_systemd: true,
            has_system_user: false,
            package: Package::None,
            program: "/usr/bin/flifo".into(),
        };
        let [console, http] = [6032, 6034].map(|port| format!("127.0.0.1:{port}"));
        let (layout, listen) = (Layout::of_machine(), listen.to_owned());
        let wishes = Wishes { server: None, layout, has_account: false, listen, console, http };
        certificate(&facts, &wishes)
    }

    #[test]
    fn clients_of_other_machines_for_whom_nothing_vouches_are_told() {
        let told = said(true, Some("clerk (pam)"), "0.0.0.0:6033").expect("it is said");
        for part in ["clerk (pam)", "tls.cert", "/etc/flifo/flifo.toml"] {
            assert!(told.contains(part), "{told}");
        }
        assert!(said(true, None, "[::]:6033").is_some(), "it is not known");
        assert!(said(true, None, "127.0.0.1:6033").is_none());
        assert!(said(true, Some(""), "0.0.0.0:6033").is_none(), "there are none");
        assert!(said(false, None, "0.0.0.0:6033").is_none());
    }
}
