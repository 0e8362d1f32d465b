//! What a session has still to begin with: which backend has run it, and what is asked behind it.

use std::rc::Rc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use wire::command::Opcode;

use super::setup::{Purpose, Setup};
use crate::init_connect::InitConnect;
use crate::session_variables::SessionVariables;

#[derive(Clone, Debug)]
pub struct Beginning {
    init: Rc<InitConnect>,
    /// The backend that has run it, which is to be asked what that has come to.
    ran_on: Option<u64>,
}

/// As it is written down for another process.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename = "Beginning")]
struct Written {
    text: String,
    ran_on: Option<u64>,
}

impl Serialize for Beginning {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Written { text: self.init.text().to_owned(), ran_on: self.ran_on }.serialize(to)
    }
}

impl<'de> Deserialize<'de> for Beginning {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let Written { text, ran_on } = Written::deserialize(from)?;
        let init = InitConnect::read(&text).map_err(de::Error::custom)?;
        Ok(Self { init: Rc::new(init), ran_on })
    }
}

impl Beginning {
    pub fn new(init: InitConnect) -> Self {
        Self { init: Rc::new(init), ran_on: None }
    }

    /// What this backend, which has these variables, is told or asked next. `None`: that is all.
    pub fn next(&self, backend: u64, variables: &SessionVariables) -> Option<Setup> {
        if !self.ran_on(backend) {
            let purpose = Purpose::Init(Rc::clone(&self.init));
            return Some(Setup::own_query(purpose, self.init.text().to_owned()));
        }
        // What the server does not report by itself.
        let asked = Some(self.init.sets().unreported).filter(|asked| !asked.is_empty())?;
        let body = variables.probe(asked)?.into_bytes().into();
        let purpose = Purpose::InitProbe(Rc::clone(&self.init));
        Some(Setup { purpose, opcode: Opcode::Query, body })
    }

    /// Whether this backend has run it.
    pub fn ran_on(&self, backend: u64) -> bool {
        self.ran_on == Some(backend)
    }

    /// This backend has run it. Whether it must be asked what came of it.
    pub fn see_run(&mut self, backend: u64, variables: &SessionVariables) -> bool {
        self.ran_on = Some(backend);
        self.next(backend, variables).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backend_runs_it_and_is_asked_for_what_it_does_not_report() {
        let rows = [(&b"sql_mode"[..], &b""[..]), (b"collation_connection", b"a_bin")];
        let fresh = SessionVariables::from_rows(rows.into_iter());
        let begin = |text| Beginning::new(InitConnect::read(text).unwrap());
        let body = |setup: Option<Setup>| {
            setup.map(|setup| String::from_utf8_lossy(&setup.body).into_owned())
        };
        let mut plain = begin("SET sql_mode = 'ANSI'");
        assert_eq!(body(plain.next(1, &fresh)).as_deref(), Some("SET sql_mode = 'ANSI'"));
        assert!(!plain.see_run(1, &fresh) && plain.next(1, &fresh).is_none());
        let mut named = begin("SET NAMES utf8mb4");
        assert!(named.see_run(1, &fresh));
        let asked = "SET collation_connection=@@session.collation_connection";
        assert_eq!(body(named.next(1, &fresh)).as_deref(), Some(asked));
        // The backend was lost in between: another one begins anew.
        assert_eq!(body(named.next(2, &fresh)).as_deref(), Some("SET NAMES utf8mb4"));
        assert!(named.ran_on(1) && !named.ran_on(2));
    }
}
