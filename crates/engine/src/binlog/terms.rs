//! Whether a server's binary log can be followed: by what the server says of it.

use std::fmt::{self, Display, Formatter};

use super::place::{FilePlace, LogPlace, executed};

/// What a server says of its binary log, as far as it matters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTerms {
    pub is_mariadb: bool,
    /// Which server it is: two connections may lead to different ones.
    pub identity: String,
    /// Rows are logged, rather than statements.
    pub logs_rows: bool,
    /// What comes from other servers is logged as well.
    logs_replicated: bool,
}

/// Why a binary log cannot be followed, and what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unfollowable {
    Off,
    /// Some schemas are not logged.
    Filtered(String),
    NoGtids,
    Unordered,
    /// What comes from other servers is not logged.
    NotReplicated,
    Unreadable(&'static str),
}

impl Display for Unfollowable {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str(
                "the server has no binary log: set log_bin in its configuration, or set cache.binlog = \"off\"",
            ),
            Self::Filtered(by) => write!(
                f,
                "the server does not log all schemas ({by}): take that out of its configuration"
            ),
            Self::NoGtids => f.write_str(
                "the server does not name its transactions: set gtid_mode = ON in its configuration",
            ),
            Self::Unordered => f.write_str(
                "readers of the server may see transactions in another order than the log: set \
                 binlog_optimize_thread_scheduling = ON in its configuration",
            ),
            Self::NotReplicated => f.write_str(
                "the server does not log what it replicates from another one: set log_slave_updates = ON in its \
                 configuration",
            ),
            Self::Unreadable(what) => write!(f, "what the server says of {what} is not understood"),
        }
    }
}

impl LogTerms {
    /// Reads variables by their names and values, and the names of schemas that alone are logged or are not.
    pub fn read(
        is_mariadb: bool,
        variables: &[(Vec<u8>, Vec<u8>)],
        filters: &[Vec<u8>; 2],
    ) -> Result<Self, Unfollowable> {
        let get = |name: &str| {
            let found = variables.iter().find(|it| it.0.eq_ignore_ascii_case(name.as_bytes()));
            found.map(|it| String::from_utf8_lossy(&it.1).into_owned())
        };
        let is_on = |name: &str| get(name).is_some_and(|it| matches!(&*it, "ON" | "1"));
        if !is_on("log_bin") {
            return Err(Unfollowable::Off);
        }
        for (name, filter) in ["binlog_do_db", "binlog_ignore_db"].iter().zip(filters) {
            if !filter.is_empty() {
                let schemas = String::from_utf8_lossy(filter);
                return Err(Unfollowable::Filtered(format!("{name} = {schemas}")));
            }
        }
        if !is_mariadb && get("gtid_mode").as_deref() != Some("ON") {
            return Err(Unfollowable::NoGtids);
        }
        if is_mariadb && !is_on("binlog_optimize_thread_scheduling") {
            return Err(Unfollowable::Unordered);
        }
        let identity = ["server_uuid", "server_id", "hostname", "port"].map(get);
        let logs_rows = get("binlog_format").is_none_or(|it| it == "ROW");
        let logs_replicated = is_on("log_slave_updates") || is_on("log_replica_updates");
        let identity = identity.map(Option::unwrap_or_default).join(" ");
        Ok(Self { is_mariadb, identity, logs_rows, logs_replicated })
    }

    /// Whether what the server says of its replication goes with this.
    pub const fn allow(&self, is_replicating: bool) -> Result<(), Unfollowable> {
        match is_replicating && !self.logs_replicated {
            true => Err(Unfollowable::NotReplicated),
            false => Ok(()),
        }
    }

    /// Reads how far it has committed.
    pub fn place(&self, at: &[u8], position: u64) -> Result<LogPlace, Unfollowable> {
        let place = match self.is_mariadb {
            true => FilePlace::new(at, position).map(LogPlace::File),
            false => std::str::from_utf8(at).ok().and_then(executed),
        };
        place.ok_or(Unfollowable::Unreadable("how far it has committed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(
        is_mariadb: bool,
        changed: &[(&str, &str)],
        filters: [&str; 2],
    ) -> Result<LogTerms, Unfollowable> {
        let usual = [
            ("log_bin", "ON"),
            ("binlog_format", "ROW"),
            ("gtid_mode", "ON"),
            ("binlog_optimize_thread_scheduling", "ON"),
            ("log_slave_updates", "ON"),
            ("server_id", "7"),
            ("hostname", "db1"),
            ("port", "3306"),
        ];
        let usual = usual.iter().filter(|it| changed.iter().all(|changed| changed.0 != it.0));
        let all = usual.chain(changed).filter(|it| it.1 != "-");
        let all: Vec<_> =
            all.map(|(name, value)| (name.as_bytes().into(), value.as_bytes().into())).collect();
        LogTerms::read(is_mariadb, &all, &filters.map(|it| it.as_bytes().to_vec()))
    }

    #[test]
    fn a_log_in_which_something_is_missing_is_refused() {
        use Unfollowable::{Filtered, NoGtids, Off, Unordered};
        for (is_mariadb, changed, filters, want) in [
            (true, &[][..], ["", ""], None),
            (true, &[("gtid_mode", "-")], ["", ""], None),
            (true, &[("log_bin", "OFF")], ["", ""], Some(Off)),
            (true, &[("log_bin", "-")], ["", ""], Some(Off)),
            (true, &[], ["a", ""], Some(Filtered("binlog_do_db = a".into()))),
            (true, &[], ["", "a,b"], Some(Filtered("binlog_ignore_db = a,b".into()))),
            (true, &[("binlog_optimize_thread_scheduling", "OFF")], ["", ""], Some(Unordered)),
            (false, &[("binlog_optimize_thread_scheduling", "-")], ["", ""], None),
            (false, &[("gtid_mode", "ON_PERMISSIVE")], ["", ""], Some(NoGtids)),
        ] {
            assert_eq!(terms(is_mariadb, changed, filters).err(), want, "{changed:?}");
        }
        let it = terms(true, &[("binlog_format", "MIXED")], ["", ""]).unwrap();
        assert!(!it.logs_rows && it.identity == " 7 db1 3306", "{it:?}");
    }

    #[test]
    fn a_server_that_replicates_must_log_what_it_replicates() {
        for (name, value, is_refused) in [
            ("log_slave_updates", "ON", false),
            ("log_slave_updates", "OFF", true),
            ("log_slave_updates", "-", true),
        ] {
            let it = terms(true, &[(name, value)], ["", ""]).unwrap();
            assert_eq!(it.allow(true).is_err(), is_refused, "{value}");
            assert_eq!(it.allow(false), Ok(()), "{value}");
        }
        let newer = [("log_slave_updates", "-"), ("log_replica_updates", "ON")];
        assert_eq!(terms(false, &newer, ["", ""]).unwrap().allow(true), Ok(()));
    }

    #[test]
    fn places_are_read_as_the_make_tells_them() {
        let (mariadb, mysql) =
            (terms(true, &[], ["", ""]).unwrap(), terms(false, &[], ["", ""]).unwrap());
        assert!(matches!(mariadb.place(b"bin.000001", 4), Ok(LogPlace::File(_))));
        assert!(mariadb.place(b"", 0).is_err());
        assert!(matches!(mysql.place(b"", 0), Ok(LogPlace::Executed(_))));
        assert!(mysql.place(b"nonsense", 0).is_err());
    }
}
