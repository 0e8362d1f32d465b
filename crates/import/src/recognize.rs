//! Which proxy a text is for, by what stands in it.

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// ProxySQL's configuration file.
    ProxySql,
    /// What `sqlite3` prints of ProxySQL's database by `.dump`.
    ProxySqlDump,
    MaxScale,
    HaProxy,
    /// Lines of `"name" "password"`, as PgBouncer has them.
    UserList,
}

/// The kind of a text, by the first line that only one of them can have.
pub(crate) fn kind(text: &str) -> Option<Kind> {
    let lines = text.lines().map(str::trim).filter(|line| !is_comment(line));
    let mut is_ini = false;
    for line in lines.take(LINES_MAX) {
        let word = line.split([' ', '\t', '=', ':']).next().unwrap_or_default();
        if line.starts_with('"') {
            return Some(Kind::UserList);
        }
        if DUMP.iter().any(|it| line.starts_with(it)) {
            return Some(Kind::ProxySqlDump);
        }
        if line.starts_with('[') && line.ends_with(']') {
            is_ini = true;
        } else if is_ini && (MAXSCALE.contains(&word) || line.contains('=')) {
            return Some(Kind::MaxScale);
        } else if !line.contains('=') && HAPROXY.contains(&word) {
            return Some(Kind::HaProxy);
        } else if PROXYSQL.iter().any(|it| word.starts_with(it)) {
            return Some(Kind::ProxySql);
        }
    }
    None
}

fn is_comment(line: &str) -> bool {
    line.is_empty()
        || line.starts_with(['#', ';'])
        || line.starts_with("//")
        || line.starts_with("/*")
}

/// Beginnings of sections of HAProxy.
const HAPROXY: &[&str] = &[
    "global",
    "defaults",
    "frontend",
    "backend",
    "listen",
    "resolvers",
    "peers",
    "userlist",
    "mailers",
];

/// Beginnings of settings of ProxySQL.
const PROXYSQL: &[&str] =
    &["datadir", "errorlog", "mysql_", "admin_variables", "pgsql_", "@include", "proxysql_"];

/// Statements with which a dump begins.
const DUMP: &[&str] = &["PRAGMA ", "BEGIN TRANSACTION", "CREATE TABLE "];

const MAXSCALE: &[&str] = &["type", "threads", "router", "module"];

/// A kind shows long before this.
const LINES_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_content() {
        let cases = [
            ("# c\ndatadir=\"/var/lib/proxysql\"\n", Some(Kind::ProxySql)),
            ("mysql_servers =\n(\n", Some(Kind::ProxySql)),
            ("admin_variables:\n{", Some(Kind::ProxySql)),
            ("[maxscale]\nthreads=auto\n", Some(Kind::MaxScale)),
            ("; c\n[db1]\n\ntype = server\n", Some(Kind::MaxScale)),
            ("global\n  daemon\n", Some(Kind::HaProxy)),
            ("listen mysql\n  bind :3306\n", Some(Kind::HaProxy)),
            ("\"app\" \"secret\"\n", Some(Kind::UserList)),
            ("PRAGMA foreign_keys=OFF;\nBEGIN TRANSACTION;\n", Some(Kind::ProxySqlDump)),
            ("", None),
            ("hello\n", None),
            ("[section]\n", None),
        ];
        for (text, want) in cases {
            assert_eq!(kind(text), want, "{text}");
        }
    }
}
