//! The CSV page in the form of HAProxy's: its columns, in its order, so that what reads that page reads this one.
//!
//! A column that has no meaning here is empty, as it is there for rows that it does not concern.

use std::collections::BTreeMap;

use crate::table::Value;

/// The columns of HAProxy 2.6 that do not belong to one protocol.
pub const COLUMNS: [&str; 95] = [
    "pxname",
    "svname",
    "qcur",
    "qmax",
    "scur",
    "smax",
    "slim",
    "stot",
    "bin",
    "bout",
    "dreq",
    "dresp",
    "ereq",
    "econ",
    "eresp",
    "wretr",
    "wredis",
    "status",
    "weight",
    "act",
    "bck",
    "chkfail",
    "chkdown",
    "lastchg",
    "downtime",
    "qlimit",
    "pid",
    "iid",
    "sid",
    "throttle",
    "lbtot",
    "tracked",
    "type",
    "rate",
    "rate_lim",
    "rate_max",
    "check_status",
    "check_code",
    "check_duration",
    "hrsp_1xx",
    "hrsp_2xx",
    "hrsp_3xx",
    "hrsp_4xx",
    "hrsp_5xx",
    "hrsp_other",
    "hanafail",
    "req_rate",
    "req_rate_max",
    "req_tot",
    "cli_abrt",
    "srv_abrt",
    "comp_in",
    "comp_out",
    "comp_byp",
    "comp_rsp",
    "lastsess",
    "last_chk",
    "last_agt",
    "qtime",
    "ctime",
    "rtime",
    "ttime",
    "agent_status",
    "agent_code",
    "agent_duration",
    "check_desc",
    "agent_desc",
    "check_rise",
    "check_fall",
    "check_health",
    "agent_rise",
    "agent_fall",
    "agent_health",
    "addr",
    "cookie",
    "mode",
    "algo",
    "conn_rate",
    "conn_rate_max",
    "conn_tot",
    "intercepted",
    "dcon",
    "dses",
    "wrew",
    "connect",
    "reuse",
    "cache_lookups",
    "cache_hits",
    "srv_icur",
    "src_ilim",
    "qtime_max",
    "ctime_max",
    "rtime_max",
    "ttime_max",
    "eint",
];

/// A row: the columns that have a value.
#[derive(Clone, Debug, Default)]
pub struct Row(BTreeMap<&'static str, String>);

/// What a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Frontend,
    Backend,
    Server,
}

impl Row {
    /// A row about this part of this proxy; `name` is that of a server.
    pub fn new(proxy: &str, about: About, name: &str) -> Self {
        let (name, kind) = match about {
            About::Frontend => ("FRONTEND", 0),
            About::Backend => ("BACKEND", 1_u32),
            About::Server => (name, 2),
        };
        Self::default()
            .with("pxname", proxy.to_owned())
            .with("svname", name.to_owned())
            .with("type", kind)
    }

    /// # Panics
    /// If there is no such column.
    #[must_use]
    pub fn with(mut self, column: &'static str, value: impl Into<Value>) -> Self {
        assert!(COLUMNS.contains(&column), "no column {column}");
        self.0.insert(column, value.into().to_string());
        self
    }
}

/// The page.
pub fn page(rows: &[Row]) -> String {
    let mut out = format!("# {},\n", COLUMNS.join(","));
    for row in rows {
        for column in COLUMNS {
            out.push_str(&quoted(row.0.get(column).map_or("", String::as_str)));
            out.push(',');
        }
        out.push('\n');
    }
    out
}

/// In quotes only where it must be.
fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n']) {
        return format!("\"{}\"", text.replace('"', "\"\"").replace('\n', " "));
    }
    text.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_a_field_for_each_column() {
        let rows = [
            Row::new("mysql", About::Frontend, "").with("scur", 3_u64),
            Row::new("mysql", About::Server, "db,1").with("last_chk", "said \"no\""),
        ];
        let page = page(&rows);
        let lines: Vec<_> = page.lines().collect();
        assert!(
            lines[0].starts_with("# pxname,svname,qcur,qmax,scur,") && lines[0].ends_with(",eint,")
        );
        assert!(lines[1].starts_with("mysql,FRONTEND,,,3,,"));
        assert!(
            lines[2].starts_with("mysql,\"db,1\",,") && lines[2].contains(",\"said \"\"no\"\"\",")
        );
        let fields = |line: &str| line.matches(',').count();
        assert_eq!((fields(lines[0]), fields(lines[1])), (95, 95));
    }

    #[test]
    #[should_panic(expected = "no column")]
    fn a_column_of_another_name_is_a_mistake() {
        let _ = Row::default().with("sessions", 1_u64);
    }
}
