//! ProxySQL's tables, whether they come from its file, a dump of its database or its administration.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::libconfig::{self, Node, NodeKind};
use crate::report::Place;
use crate::syntax::SyntaxError;
use crate::work::{Item, Work};

/// A value with the line in which it stands.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) value: String,
    line: u32,
}

/// A row of a table.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) table: &'static str,
    file: Arc<str>,
    line: u32,
    /// Those that are not NULL.
    cells: BTreeMap<String, Cell>,
}

impl Row {
    pub(crate) fn place(&self) -> Place {
        Place::new(Arc::clone(&self.file), self.line)
    }

    /// A value that is not empty.
    pub(crate) fn text(&self, column: &str) -> Option<&str> {
        self.cells.get(column).map(|cell| &*cell.value).filter(|text| !text.is_empty())
    }

    /// A value, which may be empty.
    pub(crate) fn written(&self, column: &str) -> Option<&str> {
        self.cells.get(column).map(|cell| &*cell.value)
    }

    pub(crate) fn number(&self, column: &str) -> Option<i64> {
        match self.text(column)? {
            "true" => Some(1),
            "false" => Some(0),
            text => text.parse().ok(),
        }
    }

    pub(crate) fn is_on(&self, column: &str) -> bool {
        self.number(column).is_some_and(|number| number != 0)
    }

    /// A value and where it stands.
    pub(crate) fn item(&self, column: &str) -> Item {
        let cell = self.cells.get(column);
        let line = cell.map_or(self.line, |cell| cell.line);
        let value = match column {
            "password" => "(not shown)",
            _ => cell.map_or("", |cell| &cell.value),
        };
        let what = format!("{}.{column} = {value}", self.table);
        Item { place: Place::new(Arc::clone(&self.file), line), what }
    }

    /// The row, named by these columns.
    pub(crate) fn whole(&self, columns: &[&str]) -> Item {
        let values =
            columns.iter().filter_map(|column| Some(format!("{column}={}", self.text(column)?)));
        let values: Vec<_> = values.collect();
        Item { place: self.place(), what: format!("{} {}", self.table, values.join(" ")) }
    }

    /// Names of all columns that have a value.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &str> {
        self.cells.keys().map(|name| &**name)
    }
}

/// All tables.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    rows: BTreeMap<&'static str, Vec<Row>>,
}

impl Tables {
    pub(crate) fn rows(&self, table: &str) -> &[Row] {
        self.rows.get(table).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Row> {
        self.rows.values().flatten()
    }

    fn add(&mut self, row: Row) {
        self.rows.entry(row.table).or_default().push(row);
    }

    /// Adds a row whose values come in the order of these columns.
    pub(crate) fn add_values<'a>(
        &mut self,
        place: Place,
        table: &str,
        columns: impl Iterator<Item = &'a str>,
        values: Vec<Option<String>>,
    ) {
        let Some(table) = known(table) else { return };
        let Place { file, line } = place;
        let cells = columns.zip(values).filter_map(|(name, value)| {
            Some((name.to_ascii_lowercase(), Cell { value: value?, line }))
        });
        self.add(Row { table, file, line, cells: cells.collect() });
    }
}

/// What is read, by the names of the tables; and what is told of when it is there.
pub(crate) const KNOWN: &[&str] = &[
    "global_variables",
    "mysql_servers",
    "mysql_users",
    "mysql_query_rules",
    "mysql_query_rules_fast_routing",
    "mysql_replication_hostgroups",
    "mysql_galera_hostgroups",
    "mysql_group_replication_hostgroups",
    "mysql_aws_aurora_hostgroups",
    "mysql_hostgroup_attributes",
    "mysql_servers_ssl_params",
    "mysql_firewall_whitelist_users",
    "mysql_firewall_whitelist_rules",
    "mysql_firewall_whitelist_sqli_fingerprints",
    "mysql_ldap_mapping",
    "clickhouse_users",
    "pgsql_servers",
    "pgsql_users",
    "pgsql_query_rules",
    "pgsql_replication_hostgroups",
    "proxysql_servers",
    "restapi_routes",
    "scheduler",
    "stats_mysql_query_digest",
];

fn known(name: &str) -> Option<&'static str> {
    KNOWN.iter().copied().find(|it| it.eq_ignore_ascii_case(name))
}

/// Whether a table of this name is read.
pub(crate) fn is_known(name: &str) -> bool {
    known(name).is_some()
}

/// The tables of a configuration file. What is none in it is told.
pub(crate) fn of_file(file: &Arc<str>, text: &str, work: &mut Work) -> Result<Tables, SyntaxError> {
    let parsed = libconfig::parse(text)?;
    let place = |line| Place::new(Arc::clone(file), line);
    for (line, name) in parsed.includes {
        let item = Item { place: place(line), what: format!("@include {name}") };
        work.lost(&item, "name that file as well: flifo import takes several");
    }
    let mut tables = Tables::default();
    for (name, node) in parsed.settings {
        let variables = VARIABLES.iter().find(|(group, _)| *group == name);
        match (node.kind, known(&name), variables) {
            (NodeKind::Group(settings), _, Some((_, prefix))) => {
                for (name, node) in settings {
                    let prefix = if name.starts_with(prefix) { "" } else { prefix };
                    variable(file, format!("{prefix}{name}"), node, &mut tables, work);
                }
            }
            (NodeKind::List(rows), Some(table), _) => {
                for row in rows {
                    table_row(file, table, row, &mut tables, work);
                }
            }
            (NodeKind::Scalar(value), ..) => {
                let node = Node { line: node.line, kind: NodeKind::Scalar(value) };
                variable(file, name, node, &mut tables, work);
            }
            _ => {
                let item = Item { place: place(node.line), what: name };
                work.lost(&item, "it is not known; what did it do?");
            }
        }
    }
    Ok(tables)
}

/// Groups of variables, with what their names begin with in the table.
const VARIABLES: &[(&str, &str)] =
    &[("mysql_variables", "mysql-"), ("admin_variables", "admin-"), ("pgsql_variables", "pgsql-")];

fn variable(file: &Arc<str>, name: String, node: Node, tables: &mut Tables, work: &mut Work) {
    let Node { line, kind: NodeKind::Scalar(value) } = node else {
        let item = Item { place: Place::new(Arc::clone(file), node.line), what: name };
        return work.lost(&item, "a variable has one value; this is a list or a group");
    };
    let cells = [("variable_name", name), ("variable_value", value)];
    let cells = cells.map(|(name, value)| (name.to_owned(), Cell { value, line }));
    tables.add(Row {
        table: "global_variables",
        file: Arc::clone(file),
        line,
        cells: cells.into(),
    });
}

fn table_row(
    file: &Arc<str>,
    table: &'static str,
    row: Node,
    tables: &mut Tables,
    work: &mut Work,
) {
    let Node { line, kind: NodeKind::Group(settings) } = row else {
        let item = Item { place: Place::new(Arc::clone(file), row.line), what: table.to_owned() };
        return work.lost(&item, "a row stands in braces; this does not");
    };
    let mut cells = BTreeMap::new();
    for (name, node) in settings {
        let name = match (table, &*name) {
            ("mysql_servers", "address") => "hostname".to_owned(),
            ("mysql_servers", "hostgroup") => "hostgroup_id".to_owned(),
            _ => name.to_ascii_lowercase(),
        };
        match node.kind {
            NodeKind::Scalar(value) => {
                cells.insert(name, Cell { value, line: node.line });
            }
            _ => {
                let item = Item {
                    place: Place::new(Arc::clone(file), node.line),
                    what: format!("{table}.{name}"),
                };
                work.lost(&item, "a column has one value; this is a list or a group");
            }
        }
    }
    tables.add(Row { table, file: Arc::clone(file), line, cells });
}
