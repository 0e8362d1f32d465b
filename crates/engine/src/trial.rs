//! The trial of a server's `COM_RESET_CONNECTION`: things are left behind in a session, it is reset, and it is looked
//! whether they are gone. A server that reports no changes of session state is believed nothing else.
//!
//! Invariant: a reset is clean only if each thing was there before it and is not behind it; what could not be left
//! there counts as unclean, unless the server does not know such things at all.

/// What a server has answered to a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TrialAnswer {
    /// An error.
    Refused,
    /// OK, or no rows.
    Nothing,
    /// The first value of the first row.
    Text(Vec<u8>),
}

/// One thing that a session can leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub name: &'static str,
    pub leave: String,
    /// What is asked before the reset and behind it.
    pub look: String,
    there: TraceSign,
    gone: TraceSign,
    without: Without,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TraceSign {
    Is(&'static str),
    Refused,
}

/// What it means that a thing could not be left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    /// It is not known what a reset would do to it.
    Unclean,
    /// The server does not have it.
    Clean,
}

/// Sessions of servers that understand this may have a role, which resets are known to leave.
pub const ROLE: &str = "SET ROLE NONE";

/// Which schema the trial's temporary table lies in.
pub const SCHEMA: &str = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN \
    ('information_schema','mysql','performance_schema','sys') LIMIT 1";

/// What is left, in this order, with a temporary table in this schema. `tag`: no other trial has it.
pub fn traces(schema: &[u8], tag: u64) -> Vec<Trace> {
    let schema = String::from_utf8_lossy(schema).replace('`', "``");
    let table = format!("`{schema}`.flifo_trial_{tag:x}");
    let trace = |name, leave: &str, look: &str, there, gone, without| Trace {
        name,
        leave: leave.to_owned(),
        look: look.to_owned(),
        there,
        gone,
        without,
    };
    let lock = format!("flifo_trial_{tag:x}");
    vec![
        trace(
            "a user variable",
            "SET @flifo_trial = 1",
            "SELECT @flifo_trial IS NULL",
            TraceSign::Is("0"),
            TraceSign::Is("1"),
            Without::Unclean,
        ),
        trace(
            "a temporary table",
            &format!("CREATE TEMPORARY TABLE {table} (a INT)"),
            &format!("SELECT COUNT(*) FROM {table}"),
            TraceSign::Is("0"),
            TraceSign::Refused,
            Without::Unclean,
        ),
        trace(
            "a prepared statement",
            "PREPARE flifo_trial FROM 'SELECT 7'",
            "EXECUTE flifo_trial",
            TraceSign::Is("7"),
            TraceSign::Refused,
            Without::Clean,
        ),
        trace(
            "a lock by name",
            &format!("SELECT GET_LOCK('{lock}', 0)"),
            &format!("SELECT IS_FREE_LOCK('{lock}')"),
            TraceSign::Is("0"),
            TraceSign::Is("1"),
            Without::Clean,
        ),
        trace(
            "a session variable",
            "SET SESSION sql_mode = 'ANSI_QUOTES'",
            "SELECT @@SESSION.sql_mode LIKE '%ANSI_QUOTES%'",
            TraceSign::Is("1"),
            TraceSign::Is("0"),
            Without::Unclean,
        ),
        // The last: a server may ask for a commit of what is done behind it.
        trace(
            "autocommit",
            "SET SESSION autocommit = 0",
            "SELECT @@SESSION.autocommit",
            TraceSign::Is("0"),
            TraceSign::Is("1"),
            Without::Unclean,
        ),
    ]
}

impl TraceSign {
    fn is(self, said: &TrialAnswer) -> bool {
        match (self, said) {
            (Self::Is(text), TrialAnswer::Text(said)) => text.as_bytes() == said,
            (Self::Refused, TrialAnswer::Refused) => true,
            _ => false,
        }
    }
}

impl Trace {
    /// Whether it is known by now that the reset is unclean, or the thing is to be looked at behind the reset. `left`:
    /// the answer when it was left.
    pub fn is_left(&self, left: &TrialAnswer) -> Left {
        match (left, self.without) {
            (TrialAnswer::Refused, Without::Clean) => Left::No,
            (TrialAnswer::Refused, Without::Unclean) => Left::Unclean,
            _ => Left::Yes,
        }
    }

    /// Whether the look before the reset has found it: else the look behind would say nothing.
    pub fn is_there(&self, said: &TrialAnswer) -> bool {
        self.there.is(said)
    }

    pub fn is_gone(&self, said: &TrialAnswer) -> bool {
        self.gone.is(said)
    }
}

/// Whether a thing was left in a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    Yes,
    /// The server has no such things.
    No,
    /// It cannot be told what a reset does to it.
    Unclean,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> TrialAnswer {
        TrialAnswer::Text(text.as_bytes().to_vec())
    }

    #[test]
    fn each_trace_is_there_or_gone_and_never_both() {
        let answers = [text("0"), text("1"), text("7"), TrialAnswer::Refused, TrialAnswer::Nothing];
        for trace in traces(b"shop", 0x2a) {
            let there = answers.iter().filter(|said| trace.is_there(said)).count();
            let gone = answers.iter().filter(|said| trace.is_gone(said)).count();
            assert_eq!((there, gone), (1, 1), "{}", trace.name);
            assert!(answers.iter().all(|it| !(trace.is_there(it) && trace.is_gone(it))));
        }
    }

    #[test]
    fn what_could_not_be_left_is_unclean_unless_the_server_has_no_such_thing() {
        let found = |name| {
            let traces = traces(b"shop", 1);
            let trace = traces.into_iter().find(|it| it.name == name).unwrap();
            [trace.is_left(&TrialAnswer::Nothing), trace.is_left(&TrialAnswer::Refused)]
        };
        assert_eq!(found("a temporary table"), [Left::Yes, Left::Unclean]);
        assert_eq!(found("a user variable"), [Left::Yes, Left::Unclean]);
        assert_eq!(found("a prepared statement"), [Left::Yes, Left::No]);
        assert_eq!(found("a lock by name"), [Left::Yes, Left::No]);
    }

    #[test]
    fn names_are_quoted_and_have_the_tag() {
        let traces = traces(b"a`b", 0xff);
        let table = &traces[1];
        assert_eq!(table.leave, "CREATE TEMPORARY TABLE `a``b`.flifo_trial_ff (a INT)");
        assert_eq!(table.look, "SELECT COUNT(*) FROM `a``b`.flifo_trial_ff");
        assert!(traces[3].look.contains("'flifo_trial_ff'"));
    }
}
